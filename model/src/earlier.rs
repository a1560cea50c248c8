//! Who held a lock before, and where the replication stood when that was surely over. A server that shares fewer bytes may still have
//! such a hold, and its holder may have given that one back there instead of the newer one that it does not have.

use alloc::vec::Vec;

use crate::reading::Holder;

/// So many clients are remembered of each lock and server.
const KEPT: usize = 4;

/// Holds that are over, the newest of each client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier {
    over: Vec<(Vec<u8>, u64)>,
}

impl Earlier {
    /// A hold of these was surely over when `offset` bytes had been written; `None`: nobody tells.
    pub(crate) fn over(&mut self, holders: &[Holder], offset: Option<u64>) {
        for holder in holders {
            self.over.retain(|(client, _)| *client != holder.client);
            if self.over.len() >= KEPT {
                self.over.remove(0);
            }
            self.over.push((holder.client.clone(), offset.unwrap_or(u64::MAX)));
        }
    }

    /// From here on bytes count in another history, which need not have the end of any of them.
    pub(crate) fn new_history(&mut self) {
        self.over.iter_mut().for_each(|(_, offset)| *offset = u64::MAX);
    }

    /// Where the replication stood when the earlier holds of these were all over; `None`: there were none.
    pub(crate) fn of(&self, holders: &[Holder]) -> Option<u64> {
        let theirs = self.over.iter().filter(|(client, _)| holders.iter().any(|holder| holder.client == *client));
        theirs.map(|(_, offset)| *offset).max()
    }
}
