//! What is believed only of a server that has just granted a new session, and when such a session
//! is asked for.
//!
//! A server that has lost its majority goes on to answer for a while, with the past. So what leads
//! to an alert is held back until it was read over a new session. Each of them costs the ensemble
//! two changes, so there are few of them.

use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec::Vec;

use lockwatch_judge::reading::{
    GuardReading, LockReading, ProgressReading, SwitchesReading, TaskReading, TurnReading, wanted,
};
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_judge::verdict::Wanted;

use super::codec::Zxid;

/// Pause between two proofs, in milliseconds.
const PAUSE_MS: u64 = 1_000;
/// So many proofs may come without a pause.
const BURST: u64 = 4;
/// Within so long of its limit a standstill is proved, in milliseconds: longer than any server goes
/// on without a majority.
const NEAR_MS: u64 = 60_000;
/// So long before and after it counts, the same bad news is proved as often as it is read, in
/// milliseconds.
const CLOSE_MS: u64 = 10_000;

/// The readings that wait for a proof.
#[derive(Debug)]
pub(super) struct Proving {
    /// The positions of their tasks.
    pub(super) waiting: BTreeSet<usize>,
    /// Those that are still to be read over the new session.
    pub(super) queue: VecDeque<usize>,
    /// The place of the server that granted the last new session, and so is asked for the next one.
    next: usize,
    /// So many servers gave none since.
    in_vain: usize,
    /// If a proof came at each pause, this would be the next one's instant.
    spent: Mono,
}

impl Proving {
    pub(super) fn new(now: Mono) -> Proving {
        Proving {
            waiting: BTreeSet::new(),
            queue: VecDeque::new(),
            next: 0,
            in_vain: 0,
            spent: now,
        }
    }

    /// When the next session is asked for.
    pub(super) fn at(&self) -> Mono {
        self.spent.minus_ms((BURST - 1) * PAUSE_MS)
    }

    /// Which of so many servers is asked. That of the session that watches comes last: it may be the
    /// one that has lost its majority.
    pub(super) fn server(&self, servers: usize, main: usize) -> usize {
        let servers = servers.max(1);
        let others = (0..servers).map(|step| (self.next + step) % servers);
        let others = others.filter(|position| *position != main);
        others.chain([main]).nth(self.in_vain).unwrap_or(main)
    }

    /// The server at this place granted a new session. What was reported longest ago is read first:
    /// the session proves only what is asked at once.
    pub(super) fn granted(&mut self, position: usize, known: &[Known], now: Mono) {
        (self.next, self.in_vain) = (position, 0);
        self.spent = self.spent.max(now).plus_ms(PAUSE_MS);
        let mut queue: Vec<usize> = self.waiting.iter().copied().collect();
        queue.sort_by_key(|position| known.get(*position).map(|known| known.sent));
        self.queue = queue.into();
    }

    /// A server gave none. If none of so many did, nobody does: then what waits is returned.
    pub(super) fn refused(&mut self, servers: usize, now: Mono) -> BTreeSet<usize> {
        self.in_vain += 1;
        if self.in_vain < servers {
            return BTreeSet::new();
        }
        self.in_vain = 0;
        self.spent = now.plus_ms(BURST * PAUSE_MS);
        core::mem::take(&mut self.waiting)
    }
}

/// What was last reported of a task.
#[derive(Debug)]
pub(super) struct Known {
    /// When it was sent.
    pub(super) sent: Mono,
    /// The newest change that the server had.
    pub(super) zxid: Zxid,
    face: Option<Face>,
    /// Since when it has looked like this; `None`: perhaps for ever.
    since: Option<Mono>,
    /// Since when it has been bad news, each time with a proof.
    bad_since: Option<Mono>,
}

/// What changes while all is well.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Face {
    lock: Option<LockReading>,
    turn: Option<TurnReading>,
    progress: Option<ProgressReading>,
}

impl Face {
    fn of(found: &TaskReading) -> Face {
        let (lock, turn) = match &found.guard {
            GuardReading::Lock { lock, .. } => (Some(lock.clone()), None),
            GuardReading::Turn(turn) => (None, Some(turn.clone())),
            GuardReading::Queue(_) => (None, None),
        };
        Face { lock, turn, progress: found.parts.progress.clone() }
    }
}

impl Known {
    /// Nothing was reported yet; `since`: when the state began to know of the task.
    pub(super) fn new(since: Option<Mono>) -> Known {
        Known { sent: Mono::at(0), zxid: Zxid::default(), face: None, since, bad_since: None }
    }

    /// A reading was reported.
    pub(super) fn reported(&mut self, found: &TaskReading, is_bad: bool, sent: Mono, zxid: Zxid) {
        let face = Some(Face::of(found));
        if self.face.is_some() && self.face != face {
            self.since = Some(sent);
        }
        let bad_since = self.bad_since.filter(|_| self.face == face).unwrap_or(sent);
        self.bad_since = is_bad.then_some(bad_since);
        (self.face, self.sent, self.zxid) = (face, sent, zxid);
    }

    /// Whether a reading leads to an alert if it is of the past: nobody has what users may want, or
    /// the work stands still.
    pub(super) fn is_bad_news(
        &self,
        spec: &TaskSpec,
        found: &TaskReading,
        (sent, time): (Mono, ServerTime),
    ) -> bool {
        let is_still = self.face.as_ref() == Some(&Face::of(found));
        let still_ms = self.since.map_or(u64::MAX, |since| sent.since_ms(since));
        let is_near = |limit_ms: u64| is_still && still_ms >= near_ms(limit_ms);
        let stands_still =
            spec.progress.as_ref().is_some_and(|progress| is_near(progress.stale_after_ms));
        let is_guard_bad = match &found.guard {
            GuardReading::Lock { lock: LockReading::Free, .. } => {
                let is_late = |every_ms: u64, late_ms: u64| is_near(every_ms + late_ms);
                spec.runs().is_some_and(|runs| is_late(runs.every_ms, runs.late_after_ms))
                    || is_wanted(spec, found)
            }
            GuardReading::Turn(TurnReading::Read(turns)) => {
                let limit_ms = spec.turn().map_or(0, |turn| near_ms(turn.max_late_ms));
                let limit_ms = i64::try_from(limit_ms).unwrap_or(i64::MAX);
                turns.len() != 1 || turns.iter().any(|turn| time.since_ms(turn.from) >= limit_ms)
            }
            GuardReading::Lock { .. } | GuardReading::Turn(_) | GuardReading::Queue(_) => false,
        };
        is_guard_bad || stands_still
    }

    /// Whether bad news only repeats what was proved within `pause_ms`, and nothing begins or ends
    /// to count now.
    pub(super) fn is_repeated(
        &self,
        spec: &TaskSpec,
        found: &TaskReading,
        (sent, pause_ms): (Mono, u64),
    ) -> bool {
        let Some(since) = self.bad_since else { return false };
        let bad_ms = sent.since_ms(since);
        let counts = spec.grace_ms.saturating_sub(CLOSE_MS)
            ..spec.grace_ms.saturating_add(spec.settle_ms).saturating_add(CLOSE_MS);
        sent.since_ms(self.sent) < pause_ms
            && self.face.as_ref() == Some(&Face::of(found))
            && bad_ms >= CLOSE_MS
            && !counts.contains(&bad_ms)
    }
}

fn near_ms(limit_ms: u64) -> u64 {
    (limit_ms / 2).max(limit_ms.saturating_sub(NEAR_MS))
}

/// Whether users may want what nobody has.
fn is_wanted(spec: &TaskSpec, found: &TaskReading) -> bool {
    let switches = found.parts.switches.as_ref();
    let is_off = matches!(switches, Some(SwitchesReading::Read { switches, .. })
        if wanted(switches) == Wanted::No);
    spec.may_be_wanted() && !is_off
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_proofs_come_at_once_and_then_one_each_second() {
        let mut proving = Proving::new(Mono::at(10_000));
        let mut instants = [0; 7];
        for instant in &mut instants {
            *instant = proving.at().ms().max(10_000);
            proving.granted(0, &[], Mono::at(*instant));
        }
        assert_eq!(instants, [10_000, 10_000, 10_000, 10_000, 11_000, 12_000, 13_000]);
    }

    #[test]
    fn what_was_reported_longest_ago_is_proved_first() {
        let mut proving = Proving::new(Mono::at(0));
        let known =
            [7_000, 5_000, 6_000].map(|at| Known { sent: Mono::at(at), ..Known::new(None) });
        proving.waiting = BTreeSet::from([0, 1, 2]);
        proving.granted(0, &known, Mono::at(10_000));
        assert_eq!(proving.queue, [1, 2, 0]);
    }

    #[test]
    fn the_server_that_is_watched_is_asked_last_and_a_silent_one_not_first_again() {
        let mut proving = Proving::new(Mono::at(10_000));
        let now = Mono::at(10_000);
        assert_eq!(proving.server(3, 0), 1);
        proving.refused(3, now);
        assert_eq!(proving.server(3, 0), 2);
        proving.granted(2, &[], now);
        assert_eq!(proving.server(3, 0), 2, "it answered");
        proving.refused(3, now);
        assert_eq!(proving.server(3, 0), 1);
        proving.refused(3, now);
        assert_eq!(proving.server(3, 0), 0);
        assert_eq!(proving.server(1, 0), 0, "there is no other");
    }
}
