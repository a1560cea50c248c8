//! Arbitrary values under value paths that are fixed, and under paths from the input.
//!
//! The first byte selects the path. From 128 on, the path is what stands before the first zero
//! byte.

use lockwatch_judge::spec::ValuePath;
use lockwatch_watch::redis::value::{Finder, VALUE_BYTES_MAX};

const POINTERS: [&str; 4] = ["/owner", "/a/0/b", "/a~1b/~0", "/"];
const PATTERNS: [&str; 4] = ["^[0-9]+:(.*)$", "(a*)*b", "(?:x|y)+=([^,]{0,9})", "(?s)^(.)"];

pub(crate) fn run(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    let at = usize::from(*choice);
    let (path, value) = match at {
        0..64 => (ValuePath::Json(POINTERS[at % POINTERS.len()].into()), rest),
        64..128 => (ValuePath::Regex(PATTERNS[at % PATTERNS.len()].into()), rest),
        _ => {
            let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
            let text = String::from_utf8_lossy(&rest[..end]);
            let value = rest.get(end + 1..).unwrap_or_default();
            (
                if at % 2 == 0 {
                    ValuePath::Json(text.into())
                } else {
                    ValuePath::Regex(text.into())
                },
                value,
            )
        }
    };
    let Ok(finder) = Finder::new(&path) else { return };
    let found = finder.find(value);
    assert_eq!(found, finder.find(value), "the same value says the same");
    match found {
        Ok(name) => assert!(!name.is_empty() && name.len() <= VALUE_BYTES_MAX, "no name: {name:?}"),
        Err(words) => assert!(!words.is_empty(), "no words"),
    }
}
