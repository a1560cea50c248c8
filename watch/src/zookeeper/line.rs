//! The line of the ensemble's data. Each change has a number, the zxid, and the numbers only grow.
//! A server that shows a lower one than another server showed before is behind. If all of them do,
//! the data were restored from an old copy, or deleted: another line begins.

use alloc::format;
use alloc::vec::Vec;

use lockwatch_judge::input::Generation;

use super::codec::Zxid;

/// Each of the servers closes the connection so often before it is asked without a zxid.
const ROUNDS: usize = 2;

/// What is known of the line.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// The newest change that any server showed.
    newest: Zxid,
    /// How often the data have gone back since the watcher began.
    number: u64,
    /// So many times in a row a server was reached, and closed the connection instead of granting
    /// a session.
    refused: usize,
    /// The newest change of a line that may be over, while the next session is asked for without
    /// one.
    doubted: Option<Zxid>,
}

impl Line {
    /// The newest change to name when a session is asked for: a server that is behind it grants
    /// none.
    pub(super) fn newest(&self) -> Zxid {
        self.newest
    }

    /// A server was reached, and granted no session. After two rounds of all `servers` the next
    /// session is asked for without a change.
    pub(super) fn refused(&mut self, servers: usize) {
        self.refused += 1;
        if self.refused >= ROUNDS * servers && self.newest != Zxid::default() {
            self.doubted = Some(self.newest);
            self.newest = Zxid::default();
        }
    }

    /// A session was granted.
    pub(super) fn granted(&mut self) {
        self.refused = 0;
    }

    /// A server showed its newest change. Returns whether it is behind what another one showed.
    pub(super) fn shows(&mut self, zxid: Zxid) -> bool {
        if let Some(before) = self.doubted.take() {
            // Without a majority nobody grants a session, so this is what the ensemble has.
            if zxid < before {
                self.number += 1;
            } else {
                self.newest = before;
            }
        }
        let is_behind = zxid < self.newest;
        self.newest = self.newest.max(zxid);
        is_behind
    }

    /// What changes when data may have been lost.
    pub(super) fn generation(&self) -> Generation {
        let history: Vec<u8> = format!("line {}", self.number).into_bytes();
        Generation { process: b"ensemble".to_vec(), history, ..Generation::default() }
    }

    /// How much of the line had been written, by the newest change.
    pub(super) fn offset(&self) -> Option<u64> {
        u64::try_from(self.newest.0).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_number_is_of_the_past_unless_nobody_has_a_higher_one() {
        let mut line = Line::default();
        assert!(!line.shows(Zxid(7)) && !line.shows(Zxid(9)) && line.shows(Zxid(8)));
        assert_eq!(line.newest(), Zxid(9));
        for _ in 0..5 {
            line.refused(3);
            assert_eq!(line.newest(), Zxid(9));
        }
        line.refused(3);
        assert_eq!(line.newest(), Zxid(0), "each of three refused twice");
        line.granted();
        let before = line.generation();
        assert!(!line.shows(Zxid(4)));
        assert_ne!(line.generation(), before, "the data have gone back");
        assert_eq!(line.newest(), Zxid(4));
    }

    #[test]
    fn an_ensemble_that_only_refused_for_a_while_has_the_same_line() {
        let mut line = Line::default();
        line.shows(Zxid(9));
        (0..2).for_each(|_| line.refused(1));
        line.granted();
        let before = line.generation();
        assert!(!line.shows(Zxid(12)));
        assert_eq!((line.generation(), line.newest()), (before, Zxid(12)));
    }
}
