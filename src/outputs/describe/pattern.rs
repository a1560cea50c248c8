//! A pattern in words.

use crate::api::Pattern;
use crate::text::numbers::count;

/// How many keys of a pattern are watched, and what is left out.
pub fn pattern(pattern: &Pattern) -> String {
    let Pattern { store, glob, keys, max_keys, left_out, trouble, .. } = pattern;
    let watched = format!("{glob} in store {store}: {} watched", count(*keys, "key"));
    let rest = match (left_out, trouble) {
        (None, None) => String::from(", the first scan is not complete yet"),
        (Some(0), _) => String::new(),
        (Some(left_out), _) => format!(", {left_out} left out: at most {max_keys} are watched"),
        (None, Some(_)) => String::new(),
    };
    let trouble = trouble.as_ref().map(|why| format!(". The newest scan was cut short: {why}"));
    format!("{watched}{rest}{}", trouble.unwrap_or_default())
}
