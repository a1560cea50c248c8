//! Numbers of things in sentences.

/// `1 key`, `2 keys`.
pub fn count(number: u64, one: &str) -> String {
    format!("{number} {one}{}", if number == 1 { "" } else { "s" })
}
