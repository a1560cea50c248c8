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
    /// The line may be over: the next session is asked for without a change.
    is_doubted: bool,
}

impl Line {
    /// The newest change that any server showed.
    pub(super) fn newest(&self) -> Zxid {
        self.newest
    }

    /// The change to name when a session is asked for: a server that is behind it grants none.
    pub(super) fn named(&self) -> Zxid {
        if self.is_doubted { Zxid::default() } else { self.newest }
    }

    /// Whether the next session is asked for without a change.
    pub(super) fn is_doubted(&self) -> bool {
        self.is_doubted
    }

    /// A server was reached, and granted no session. After two rounds of all `servers` the next
    /// session is asked for without a change.
    pub(super) fn refused(&mut self, servers: usize) {
        self.refused += 1;
        self.is_doubted |= self.refused >= ROUNDS * servers && self.newest != Zxid::default();
    }

    /// A session was granted.
    pub(super) fn granted(&mut self) {
        self.refused = 0;
    }

    /// A server showed its newest change.
    pub(super) fn shows(&mut self, zxid: Zxid) {
        self.newest = self.newest.max(zxid);
    }

    /// The first change that a session shows which was asked for without one. Without a majority
    /// nobody grants a session, so this is what the ensemble has. Returns whether data have gone
    /// back.
    pub(super) fn begins(&mut self, zxid: Zxid) -> bool {
        self.is_doubted = false;
        let is_over = zxid < self.newest;
        if is_over {
            self.over();
        }
        is_over
    }

    /// Other data from here on: another ensemble, or an old copy.
    pub(super) fn over(&mut self) {
        *self = Line { number: self.number + 1, ..Line::default() };
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
    fn data_have_gone_back_only_if_a_new_session_shows_it() {
        let mut line = Line::default();
        [7, 9, 8].into_iter().for_each(|zxid| line.shows(Zxid(zxid)));
        assert_eq!((line.newest(), line.named()), (Zxid(9), Zxid(9)));
        for _ in 0..5 {
            line.refused(3);
            assert_eq!(line.named(), Zxid(9));
        }
        line.refused(3);
        assert_eq!((line.newest(), line.named()), (Zxid(9), Zxid(0)), "each of three, twice");
        let before = line.generation();
        line.granted();
        assert!(line.begins(Zxid(4)));
        line.shows(Zxid(4));
        assert_ne!(line.generation(), before, "the data have gone back");
        assert_eq!((line.newest(), line.named()), (Zxid(4), Zxid(4)));
    }

    #[test]
    fn an_ensemble_that_only_refused_for_a_while_has_the_same_line() {
        let mut line = Line::default();
        line.shows(Zxid(9));
        (0..2).for_each(|_| line.refused(1));
        let before = line.generation();
        line.granted();
        assert!(!line.begins(Zxid(12)));
        line.shows(Zxid(12));
        assert_eq!((line.generation(), line.newest()), (before, Zxid(12)));
    }
}
