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

    /// From here on bytes count in another history, which need not have the end of any of them.
    pub(crate) fn new_history(&mut self) {
        self.over.iter_mut().for_each(|over| over.offset = u64::MAX);
    }

    /// Where the replication stood when the earlier holds of these were all over; `None`: there were none.
    pub(crate) fn of(&self, holders: &[Holder]) -> Option<u64> {
        self.theirs(holders).map(|over| over.offset).max()
    }

    /// Whether any of these gave the lock back after a moment, when it had it the last time.
    pub(crate) fn brief(&self, holders: &[Holder]) -> bool {
        self.theirs(holders).any(|over| over.brief)
    }

    fn theirs(&self, holders: &[Holder]) -> impl Iterator<Item = &Over> {
        self.over.iter().filter(|over| holders.iter().any(|holder| holder.client == over.client))
    }
}
