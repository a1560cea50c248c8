//! Suggestions of similar names for a name that does not exist.

use super::identity::escape;

/// Maximum number of names that are suggested.
const SUGGESTED_MAX: usize = 3;
/// Maximum length of a name that is compared letter by letter, in characters.
const COMPARED_CHARS: usize = 64;

/// The message for a name that no task has.
pub fn no_such_task<'a>(name: &str, tasks: impl Iterator<Item = &'a str>) -> String {
    let near: Vec<_> =
        nearest(name, tasks).into_iter().map(|near| escape(near.as_bytes())).collect();
    let meant = match near.as_slice() {
        [] => "/api/v1/tasks and `lockwatch status` list them".to_owned(),
        [only] => format!("did you mean {only}?"),
        several => format!("did you mean one of {}?", several.join(", ")),
    };
    format!("There is no task called {}; {meant}", escape(name.as_bytes()))
}

/// The names most similar to `name`, best first; empty if none is similar.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let wanted = lowered(name);
    let mut near: Vec<(usize, &str)> = names
        .into_iter()
        .filter_map(|name| Some((distance(&wanted, &lowered(name))?, name)))
        .collect();
    near.sort_unstable();
    near.into_iter().take(SUGGESTED_MAX).map(|(_, name)| name).collect()
}

fn lowered(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).take(COMPARED_CHARS).collect()
}

/// The number of letters to change, insert or remove; `None`: too many for a typing error. A name
/// that contains the other counts as similar.
fn distance(a: &str, b: &str) -> Option<usize> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.len() >= 3 && long.contains(short) {
        return Some(1);
    }
    let distance = strsim::levenshtein(a, b);
    let letters = a.chars().count().max(b.chars().count());
    (distance <= 1 + letters / 4).then_some(distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_what_was_meant() {
        let tasks = ["outbound", "inbound", "outbound-eu", "nightly report"];
        let near = |name| nearest(name, tasks);
        assert_eq!(near("outbond"), ["outbound"]);
        assert_eq!(near("OUTBOUND"), ["outbound", "outbound-eu", "inbound"]);
        assert_eq!(near("bound"), ["inbound", "outbound", "outbound-eu"]);
        assert_eq!(near("xyz"), [""; 0]);
        assert_eq!(near(""), [""; 0]);
    }

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "mitten"), Some(1));
        assert_eq!(distance("outbound", "outbuond"), Some(2));
        assert_eq!(distance("same", "same"), Some(1), "within");
        assert_eq!(distance("abcd", "wxyz"), None);
    }

    #[test]
    fn names_are_harmless() {
        let told = no_such_task("out\x1b[2J", ["out\x1b[2K"].into_iter());
        assert!(!told.contains('\x1b'), "{told:?}");
        assert!(told.contains(r"did you mean out\x1b[2K?"), "{told}");
    }
}
