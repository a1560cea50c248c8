//! Remembers earlier holders of a lock, and the replication offset by which each hold was certainly
//! over. A server that shares fewer bytes may still have such a hold. Its holder may have released
//! that one there instead of the newer one, which that server does not have.

use alloc::vec::Vec;

use crate::reading::{Held, Holder};
use crate::seldom::Seldom;
use crate::time::ServerTime;

/// Maximum number of clients remembered for each lock and server. It bounds memory.
const KEPT: usize = 4;
/// Maximum length in milliseconds of a hold that may come and go again unseen between two readings.
pub(crate) const BRIEF_MS: u64 = 3_000;

/// Ended holds, the newest of each client.
#[derive(Clone, Debug, Default)]
pub(crate) struct Earlier {
    over: Seldom<Vec<Over>>,
}

/// The newest ended hold of a client.
#[derive(Clone, Debug)]
struct Over {
    client: Vec<u8>,
    /// The replication offset when the end was certain; `u64::MAX`: unknown.
    offset: u64,
    /// Its newest deadline, if known.
    deadline: Option<ServerTime>,
    brief: bool,
}

impl Earlier {
    /// The hold last seen as `held` was certainly over when `offset` bytes had been written;
    /// `None`: unknown. `brief`: it was released after [`BRIEF_MS`] at most.
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

    /// From here on, offsets belong to another history. It has the ends of earlier holds only for
    /// offsets that it `shares`.
    pub(crate) fn new_history(&mut self, shares: impl Fn(u64) -> bool) {
        let over = self.over.present().into_iter().flatten();
        over.filter(|over| !shares(over.offset)).for_each(|over| over.offset = u64::MAX);
    }

    /// The replication offset by which the earlier holds of these holders were all over; `None`:
    /// there were none.
    pub(crate) fn of(&self, holders: &[Holder]) -> Option<u64> {
        self.theirs(holders).map(|over| over.offset).max()
    }

    /// The newest deadline of an earlier hold of these holders whose end the present history may
    /// lack. A hold that they have until then may be that very one.
    pub(crate) fn left_until(&self, holders: &[Holder]) -> Option<ServerTime> {
        self.theirs(holders)
            .filter(|over| over.offset == u64::MAX)
            .filter_map(|over| over.deadline)
            .max()
    }

    /// Whether any client released the lock after a moment in its last hold. The present holder may
    /// do the same.
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

    /// A hold until `deadline`.
    fn held(client: usize, deadline: i64) -> Held {
        let holders = holder(client).to_vec();
        Held {
            mode: Mode::Exclusive,
            holders,
            ghosts: 0,
            deadline: Deadline::At(ServerTime::at(deadline)),
        }
    }

    #[test]
    fn the_oldest_hold_is_forgotten_first() {
        let mut earlier = Earlier::default();
        (0..=KEPT).for_each(|client| earlier.over(&held(client, 0), Some(client as u64), false));
        let known: Vec<_> = (0..=KEPT).map(|client| earlier.of(&holder(client))).collect();
        assert_eq!(known, [None, Some(1), Some(2), Some(3), Some(4)]);
    }

    /// A history that continues another one continues its offsets.
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
        assert_eq!(left(&earlier), [None, Some(ServerTime::at(7_000)), None]);
    }
}
