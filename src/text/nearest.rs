//! Suggestions of similar names for a name that does not exist.

use super::identity::{escape, list};

/// Maximum number of names that are suggested.
const SUGGESTED_MAX: usize = 3;
/// Maximum number of names that are listed.
const LISTED_MAX: usize = 10;
/// A name that contains the other is at most as far from it as this many slips.
const CONTAINED: usize = 2;
/// Maximum length of a name that is compared letter by letter, in characters.
const COMPARED_CHARS: usize = 64;

/// The message for a name that no task has: what may be meant, or what there is.
pub fn no_such_task<'a>(name: &str, tasks: impl Iterator<Item = &'a str>) -> String {
    let tasks: Vec<&str> = tasks.collect();
    let near = nearest(name, tasks.iter().copied());
    let near: Vec<_> = near.into_iter().map(|near| escape(near.as_bytes())).collect();
    let meant = match near.as_slice() {
        [] => there_are(&tasks),
        [only] => format!("did you mean {only}?"),
        several => format!("did you mean one of {}?", several.join(", ")),
    };
    format!("There is no task called {}; {meant}", escape(name.as_bytes()))
}

/// The message where one of several tasks must be named, and none is.
pub fn which_task(tasks: &[&str]) -> String {
    format!("Name the task; {}", there_are(tasks))
}

fn there_are(tasks: &[&str]) -> String {
    let names = list(tasks.iter().map(|task| escape(task.as_bytes())), LISTED_MAX);
    match tasks.len() {
        0 => "there are no tasks".to_owned(),
        1 => format!("the only one is {names}"),
        count => format!("there are {count}: {names}"),
    }
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
    let distance = strsim::levenshtein(a, b);
    if short.len() >= 3 && long.contains(short) {
        return Some(distance.min(CONTAINED));
    }
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
        assert_eq!(distance("same", "same"), Some(0));
        assert_eq!(distance("task", "max_tasks"), Some(2), "within");
        assert_eq!(distance("task", "tasks"), Some(1));
        assert_eq!(distance("abcd", "wxyz"), None);
    }

    #[test]
    fn names_are_harmless() {
        let message = no_such_task("out\x1b[2J", ["out\x1b[2K"].into_iter());
        assert!(!message.contains('\x1b'), "{message:?}");
        assert!(message.contains(r"did you mean out\x1b[2K?"), "{message}");
        let message = no_such_task("nope", ["a\x1b", "b"].into_iter());
        assert_eq!(message, r"There is no task called nope; there are 2: a\x1b, b");
        assert_eq!(which_task(&["a"]), "Name the task; the only one is a");
    }
}
