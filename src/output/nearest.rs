//! A name that no task or no metric has, and the names that were perhaps meant.

use super::identity::escape;
use super::metrics::TABLE;

/// Most names that are suggested.
const SUGGESTED_MAX: usize = 3;
/// Longest name that is compared letter by letter.
const COMPARED_CHARS: usize = 64;

/// What to say of a name that no task has.
pub fn no_such_task<'a>(name: &str, tasks: impl Iterator<Item = &'a str>) -> String {
    nothing_called("task", name, tasks, "/api/v1/tasks and `lockwatch status` list them")
}

/// What to say of a name that no metric has.
pub fn no_such_metric(name: &str) -> String {
    let metrics = TABLE.iter().map(|metric| metric.name);
    nothing_called("metric", name, metrics, "/metrics without parameters has them all")
}

fn nothing_called<'a>(
    what: &str,
    name: &str,
    all: impl Iterator<Item = &'a str>,
    where_they_are: &str,
) -> String {
    let near = nearest(name, all);
    let meant = match near.as_slice() {
        [] => where_they_are.to_owned(),
        [only] => format!("did you mean {only}?"),
        several => format!("did you mean one of {}?", several.join(", ")),
    };
    format!("There is no {what} called {}; {meant}", escape(name.as_bytes()))
}

/// The names most like `name`, best first, escaped.
fn nearest<'a>(name: &str, tasks: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted: Vec<char> = lowered(name);
    let mut near: Vec<(usize, &str)> =
        tasks.filter_map(|task| Some((distance(&wanted, &lowered(task))?, task))).collect();
    near.sort_unstable();
    near.into_iter()
        .take(SUGGESTED_MAX)
        .map(|(_, task)| escape(task.as_bytes()).into_owned())
        .collect()
}

fn lowered(name: &str) -> Vec<char> {
    name.chars().flat_map(char::to_lowercase).take(COMPARED_CHARS).collect()
}

/// Letters to change, insert or leave out; `None`: too many to be a slip. A name within the other
/// is near.
fn distance(a: &[char], b: &[char]) -> Option<usize> {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    if short.len() >= 3 && long.windows(short.len()).any(|window| window == short) {
        return Some(1);
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (position, letter) in (1..).zip(a) {
        let mut diagonal = position - 1;
        let mut left = position;
        let mut next = vec![left];
        for (other, above) in b.iter().zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(letter != other)).min(above + 1).min(left + 1);
            diagonal = *above;
            next.push(left);
        }
        row = next;
    }
    row.last().copied().filter(|distance| *distance <= 1 + a.len().max(b.len()) / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_what_was_meant() {
        let tasks = ["outbound", "inbound", "outbound-eu", "nightly report"];
        let near = |name| nearest(name, tasks.into_iter());
        assert_eq!(near("outbond"), ["outbound"]);
        assert_eq!(near("OUTBOUND"), ["outbound", "outbound-eu", "inbound"]);
        assert_eq!(near("bound"), ["inbound", "outbound", "outbound-eu"]);
        assert_eq!(near("xyz"), [""; 0]);
        assert_eq!(near(""), [""; 0]);
    }

    #[test]
    fn distances() {
        let distance = |a: &str, b: &str| distance(&lowered(a), &lowered(b));
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
