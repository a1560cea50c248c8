//! The newest runs of the script, for agents: a script that fails again and again holds its lock as
//! well as one that works.

use lockwatch_judge::time::Mono;

/// So many runs that ended are kept.
const KEPT: usize = 3;
/// An end that came so shortly before the guard was asked to end had the same cause, in
/// milliseconds: a supervisor may signal all processes of a service at once.
const SAME_CAUSE_MS: u64 = 1_000;
/// The exit code of what was killed.
const KILLED: u8 = 137;

/// The present run, and the newest ones that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// When the present one began.
    pub since: Option<Mono>,
    /// Oldest first.
    ended: [Option<Run>; KEPT],
}

/// A run that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// When it began.
    pub from: Mono,
    /// When the last of its processes was gone.
    pub to: Mono,
    /// Its exit code; 128 and more for a signal.
    pub code: u8,
    /// Guard or keeper ended it, for whatever reason.
    pub asked: bool,
}

impl Runs {
    /// The newest ones that ended, oldest first.
    pub fn ended(&self) -> impl Iterator<Item = Run> {
        self.ended.iter().copied().flatten()
    }

    /// The present one ended at `to`. `code`: `None` if it was killed by the keeper.
    pub(crate) fn end(&mut self, code: Option<u8>, to: Mono, asked: bool) {
        let Some(from) = self.since.take() else { return };
        self.ended.rotate_left(1);
        let [.., newest] = &mut self.ended;
        let asked = asked || code.is_none();
        *newest = Some(Run { from, to, code: code.unwrap_or(KILLED), asked });
    }

    /// The guard is to end: so was a script that has just ended.
    pub(crate) fn stop(&mut self, now: Mono) {
        if let [.., Some(newest)] = &mut self.ended {
            newest.asked |= now.since_ms(newest.to) <= SAME_CAUSE_MS;
        }
    }
}
