//! Several holders of an exclusive lock, as one reading shows them.

use crate::reading::{Held, Mode};

/// The reading, if it shows several holders that exclude each other.
pub(super) fn several(held: Option<&Held>) -> Option<&Held> {
    held.filter(|held| held.mode != Mode::Read && held.holders.len() > 1)
}
