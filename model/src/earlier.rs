//! Who held a lock before, and where the replication stood when that was surely over. A server that
//! shares fewer bytes may still have such a hold, and its holder may have given that one back there
//! instead of the newer one that it does not have.

use alloc::vec::Vec;

use crate::reading::{Held, Holder};
use crate::time::ServerTime;

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
    /// Its newest deadline, if it was told.
    deadline: Option<ServerTime>,
    brief: bool,
}

impl Earlier {
    /// The hold that was last seen as `held` was surely over when `offset` bytes had been written;
    /// `None`: nobody tells. `brief`: it was given back, after [`BRIEF_MS`] at most.
    pub(crate) fn over(&mut self, held: &Held, offset: Option<u64>, brief: bool) {
        for holder in &held.holders {
            self.over.retain(|over| over.client != holder.client);
            if self.over.len() >= KEPT {
                self.over.remove(0);
            }
            let (client, offset) = (holder.client.clone(), offset.unwrap_or(u64::MAX));
            self.over.push(Over { client, offset, deadline: held.deadline.instant(), brief });
        }
    }

    /// From here on bytes count in another history, which need not have the end of any of them but
    /// those at an offset that it `shares`.
    pub(crate) fn new_history(&mut self, shares: impl Fn(u64) -> bool) {
        self.over
            .iter_mut()
            .filter(|over| !shares(over.offset))
            .for_each(|over| over.offset = u64::MAX);
    }

    /// Where the replication stood when the earlier holds of these were all over; `None`: there
    /// were none.
    pub(crate) fn of(&self, holders: &[Holder]) -> Option<u64> {
        self.theirs(holders).map(|over| over.offset).max()
    }

    /// The newest deadline of a hold of these whose end the present history need not have: what
    /// these have until then may be that very hold.
    pub(crate) fn left_until(&self, holders: &[Holder]) -> Option<ServerTime> {
        self.theirs(holders)
            .filter(|over| over.offset == u64::MAX)
            .filter_map(|over| over.deadline)
            .max()
    }

    /// Whether anybody gave the lock back after a moment, when it had it the last time: so may
    /// whoever has it now.
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
    use crate::reading::{Deadline, Mode};

    fn holder(client: usize) -> [Holder; 1] {
        let client = alloc::format!("client {client}").into_bytes();
        [Holder { client, thread: None, entries: None, secret: false }]
    }

    /// Its hold until `deadline`.
    fn held(client: usize, deadline: i64) -> Held {
        let holders = holder(client).to_vec();
        Held {
            mode: Mode::Exclusive,
            holders,
            ghosts: 0,
            deadline: Deadline::At(ServerTime(deadline)),
        }
    }

    #[test]
    fn the_oldest_hold_is_forgotten_first() {
        let mut earlier = Earlier::default();
        (0..=KEPT).for_each(|client| earlier.over(&held(client, 0), Some(client as u64), false));
        let known: Vec<_> = (0..=KEPT).map(|client| earlier.of(&holder(client))).collect();
        assert_eq!(known, [None, Some(1), Some(2), Some(3), Some(4)]);
    }

    /// A history that continues another one counts on where that was left.
    #[test]
    fn what_a_new_history_shares_is_over_there_too() {
        let mut earlier = Earlier::default();
        (0..3).for_each(|client| earlier.over(&held(client, 0), Some(client as u64), false));
        earlier.new_history(|offset| offset <= 1);
        let known: Vec<_> = (0..3).map(|client| earlier.of(&holder(client))).collect();
        assert_eq!(known, [Some(0), Some(1), Some(u64::MAX)]);
    }

    #[test]
    fn of_a_client_the_newest_hold_counts() {
        let mut earlier = Earlier::default();
        earlier.over(&held(0, 0), Some(1), false);
        earlier.over(&held(1, 0), None, true);
        (0..KEPT as u64).for_each(|offset| earlier.over(&held(1, 0), Some(offset), false));
        assert_eq!((earlier.of(&holder(1)), earlier.brief()), (Some(KEPT as u64 - 1), false));
        assert_eq!(earlier.of(&holder(0)), Some(1), "one client leaves room for the others");
    }

    #[test]
    fn only_an_end_that_is_not_in_this_history_may_have_left_something() {
        let mut earlier = Earlier::default();
        earlier.over(&held(0, 5_000), Some(1), false);
        earlier.over(&held(1, 7_000), Some(2), false);
        earlier.over(&Held { deadline: Deadline::Never, ..held(2, 0) }, Some(3), false);
        let left = |earlier: &Earlier| [0, 1, 2].map(|client| earlier.left_until(&holder(client)));
        assert_eq!(left(&earlier), [None; 3]);
        earlier.new_history(|offset| offset <= 1);
        assert_eq!(left(&earlier), [None, Some(ServerTime(7_000)), None]);
    }
}
