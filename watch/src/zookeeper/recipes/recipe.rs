//! What a recipe says of the children of a folder.

use lockwatch_judge::reading::Mode;

/// How the clients of a library queue for a lock.
pub trait Recipe: Sync {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// Whether a contender always ends with its client's session. One that does not was left
    /// behind, or made by somebody else.
    fn is_ephemeral(&self) -> bool {
        true
    }

    /// The place of a child in the queue; `None`: its clients ignore such a child.
    fn place<'a>(&self, child: &'a str) -> Option<Place<'a>>;
}

/// The place of a child in the queue. What sorts first comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place<'a> {
    /// What its clients compare.
    pub order: &'a str,
    /// What it wants; `None`: it is none of the library's, and blocks those that come after it.
    pub wants: Option<Mode>,
}

/// The number at the end of a child's name: ten digits, after an overflow with a sign.
pub fn number(name: &str) -> Option<&str> {
    const DIGITS: usize = 10;
    let start = name.len().checked_sub(DIGITS)?;
    let (before, digits) = name.split_at_checked(start)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // A number below zero has no leading zero: before one, the sign belongs to the word.
    let is_negative = before.ends_with('-') && !digits.starts_with('0');
    Some(if is_negative { name.get(start - 1..)? } else { digits })
}
