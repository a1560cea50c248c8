//! Readers of replies that the libraries and the parts share.

use alloc::vec::Vec;

use crate::command;
use crate::redis::ask::{Ask, Class};
use crate::redis::reply::Reply;
use lockwatch_judge::reading::Unknown;

/// Maximum number of entries read from a hash or set of users, instances or hosts.
const MAX_ENTRIES: &str = "1000";

/// One bounded step of a scan, which is complete for a small hash.
pub(crate) fn scan_hash(class: Class, key: &[u8]) -> Ask {
    Ask::new(class, command!("HSCAN", key, "0", "COUNT", MAX_ENTRIES))
}

/// The same for a set.
pub(crate) fn scan_set(class: Class, key: &[u8]) -> Ask {
    Ask::new(class, command!("SSCAN", key, "0", "COUNT", MAX_ENTRIES))
}

/// A field of a hash and its value.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// The pairs of a complete scan of a hash (cursor 0).
pub(crate) fn scanned_pairs(reply: &Reply) -> Result<Vec<Pair<'_>>, Unknown> {
    let items = scanned_items(reply)?;
    let pairs = items.chunks(2).map(|pair| match pair {
        [field, value] => Ok((
            field.as_bytes().ok_or(Unknown::Protocol)?,
            value.as_bytes().ok_or(Unknown::Protocol)?,
        )),
        _ => Err(Unknown::Protocol),
    });
    pairs.collect()
}

/// The items of a complete scan (cursor 0).
pub(crate) fn scanned_items(reply: &Reply) -> Result<&[Reply], Unknown> {
    let (items, whole) = scanned_part(reply)?;
    if whole { Ok(items) } else { Err(Unknown::TooLarge) }
}

/// The items of a scan, and whether the scan is complete.
pub(crate) fn scanned_part(reply: &Reply) -> Result<(&[Reply], bool), Unknown> {
    if let Reply::Error(error) = reply {
        return Err(error.into());
    }
    match reply.as_array() {
        Some([cursor, items]) => {
            let whole = cursor.as_bytes() == Some(b"0");
            Ok((items.as_array().ok_or(Unknown::Protocol)?, whole))
        }
        _ => Err(Unknown::Protocol),
    }
}

/// Iterates over replies. A missing reply reads as `Nil`, which no decoder accepts as an answer
/// about a lock.
pub(crate) struct Replies<'a>(core::slice::Iter<'a, Reply>);

impl<'a> Replies<'a> {
    pub(crate) fn new(replies: &'a [Reply]) -> Replies<'a> {
        Replies(replies.iter())
    }

    pub(crate) fn next(&mut self) -> &'a Reply {
        self.0.next().unwrap_or(&Reply::Nil)
    }

    /// All that are left but the last `count`.
    pub(crate) fn take_all_but(&mut self, count: usize) -> &'a [Reply] {
        self.take(self.0.as_slice().len().saturating_sub(count))
    }

    pub(crate) fn take(&mut self, count: usize) -> &'a [Reply] {
        let rest = self.0.as_slice();
        let (taken, rest) = rest.split_at_checked(count).unwrap_or((&[], &[]));
        self.0 = rest.iter();
        taken
    }
}
