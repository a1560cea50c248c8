//! Who held a lock before, and where the replication stood when that was surely over. A server that shares fewer bytes may still have
//! such a hold, and its holder may have given that one back there instead of the newer one that it does not have.

use alloc::vec::Vec;

use crate::reading::Holder;

/// So many clients are remembered of each lock and server.
const KEPT: usize = 4;
/// A hold that was given back so soon may come again, and go, between two looks.
pub(crate) const BRIEF_MS: u64 = 3_000;

/// Holds that are over, the newest of each client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier {
    over: Vec<Over>,
}

/// The newest hold of a client that is over.
#[derive(Clone, Debug)]
struct Over {
    client: Vec<u8>,
    /// Where the replication stood when that was sure; `u64::MAX`: nobody tells.
    offset: u64,
    brief: bool,
}

impl Earlier {
    /// A hold of these was surely over when `offset` bytes had been written; `None`: nobody tells. `brief`: it was given back, after
    /// [`BRIEF_MS`] at most.
    pub(crate) fn over(&mut self, holders: &[Holder], offset: Option<u64>, brief: bool) {
        for holder in holders {
            self.over.retain(|over| over.client != holder.client);
            if self.over.len() >= KEPT {
                self.over.remove(0);
            }
            self.over.push(Over { client: holder.client.clone(), offset: offset.unwrap_or(u64::MAX), brief });
        }
    }

    /// From here on bytes count in another history, which need not have the end of any of them but those at an offset that it `shares`.
    pub(crate) fn new_history(&mut self, shares: impl Fn(u64) -> bool) {
        self.over.iter_mut().filter(|over| !shares(over.offset)).for_each(|over| over.offset = u64::MAX);
    }

    /// Where the replication stood when the earlier holds of these were all over; `None`: there were none.
    pub(crate) fn of(&self, holders: &[Holder]) -> Option<u64> {
        self.theirs(holders).map(|over| over.offset).max()
    }

    /// Whether anybody gave the lock back after a moment, when it had it the last time: so may whoever has it now.
    pub(crate) fn brief(&self) -> bool {
        self.over.iter().any(|over| over.brief)
    }

    fn theirs(&self, holders: &[Holder]) -> impl Iterator<Item = &Over> {
        self.over.iter().filter(|over| holders.iter().any(|holder| holder.client == over.client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(client: usize) -> [Holder; 1] {
        let client = alloc::format!("client {client}").into_bytes();
        [Holder { client, thread: None, entries: None, secret: false }]
    }

    #[test]
    fn the_oldest_hold_is_forgotten_first() {
        let mut earlier = Earlier::default();
        (0..=KEPT).for_each(|client| earlier.over(&holder(client), Some(client as u64), false));
        let known: Vec<_> = (0..=KEPT).map(|client| earlier.of(&holder(client))).collect();
        assert_eq!(known, [None, Some(1), Some(2), Some(3), Some(4)]);
    }

    /// A history that continues another one counts on where that was left.
    #[test]
    fn what_a_new_history_shares_is_over_there_too() {
        let mut earlier = Earlier::default();
        (0..3).for_each(|client| earlier.over(&holder(client), Some(client as u64), false));
        earlier.new_history(|offset| offset <= 1);
        let known: Vec<_> = (0..3).map(|client| earlier.of(&holder(client))).collect();
        assert_eq!(known, [Some(0), Some(1), Some(u64::MAX)]);
    }

    #[test]
    fn of_a_client_the_newest_hold_counts() {
        let mut earlier = Earlier::default();
        earlier.over(&holder(0), Some(1), false);
        earlier.over(&holder(1), None, true);
        (0..KEPT as u64).for_each(|offset| earlier.over(&holder(1), Some(offset), false));
        assert_eq!((earlier.of(&holder(1)), earlier.brief()), (Some(KEPT as u64 - 1), false));
        assert_eq!(earlier.of(&holder(0)), Some(1), "one client leaves room for the others");
    }
}
