//! The runs of a task's script, as its guards state them: whether the script fails again and again
//! while its lock is held.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::reading::{Ended, GuardRuns, Holder, RunsReading};
use crate::time::ServerTime;

/// So many errors in a row are a failing script.
const IN_A_ROW: usize = GuardRuns::ENDED_MAX;
/// The exit code of what was killed.
const KILLED: u8 = 137;
/// An end that is older than this counts no more, in milliseconds.
const COUNTS_MS: i64 = 3_600_000;

/// What is known of the runs of a task's script, by all guards.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// The newest runs that ended, oldest first: at most three.
    pub ended: Vec<Run>,
    /// Instance, host and begin of the runs that go on, as far as their guards wrote it last.
    pub present: Vec<(Vec<u8>, Vec<u8>, ServerTime)>,
    /// Guards of which anything is stated.
    guards: Vec<Vec<u8>>,
    /// Number of statements that cannot be read.
    pub unreadable: u32,
    /// The server's clock when they were read.
    pub read: ServerTime,
    /// Nobody wanted the task then; what ended before says nothing about now.
    unwanted: Option<ServerTime>,
    /// Whether the script fails, by these alone; `None`: unknown.
    pub fails: Option<bool>,
}

/// A run that ended, and where it ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The host of its guard.
    pub host: Vec<u8>,
    /// When it ran, and how it ended. Of one that is not stated: by when, as if it was killed.
    pub end: Ended,
    /// Its guard stated how it ended. One that is killed together with its script cannot: the next
    /// guard began, and this one never said more.
    pub is_stated: bool,
}

impl Run {
    /// From when on it counts. When an end was that is not stated is not known, only that it came
    /// after the begin; the guard may have been killed because nobody wanted the task any more.
    fn counts_from(&self) -> ServerTime {
        if self.is_stated { self.end.to } else { self.end.from }
    }
}

/// The runs that began and have no stated end although another guard began a later one: a lock has
/// one holder, so they are over.
fn unstated(guards: &[GuardRuns]) -> impl Iterator<Item = (&GuardRuns, Run)> {
    let begins = |of: &GuardRuns| -> Vec<ServerTime> {
        of.ended.iter().map(|run| run.from).chain(of.since).collect()
    };
    let mut all: Vec<(ServerTime, &[u8])> = guards
        .iter()
        .flat_map(|of| begins(of).into_iter().map(|from| (from, &*of.instance)))
        .collect();
    all.sort_unstable();
    guards.iter().filter_map(move |of| {
        let from = of.since?;
        let later = all.get(all.partition_point(|(begin, _)| *begin <= from)..)?;
        let (to, _) = later.iter().find(|(_, instance)| *instance != of.instance)?;
        let end = Ended { from, to: *to, code: KILLED, asked: false };
        Some((of, Run { host: of.host.clone(), end, is_stated: false }))
    })
}

/// What a task is now, beside its runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present<'a> {
    /// Who has the lock.
    pub(crate) holders: &'a [Holder],
    /// For how long, in milliseconds; `None`: nobody has it, or that is not known.
    pub(crate) held_ms: Option<u64>,
    pub(crate) settle_ms: u64,
    /// It is known that nobody wants it.
    pub(crate) unwanted: bool,
}

impl Runs {
    /// Takes in a reading; `read`: the server's clock at that time.
    pub(crate) fn observe(runs: &mut Option<Arc<Runs>>, reading: &RunsReading, read: ServerTime) {
        let runs = runs.get_or_insert_default();
        // The copy that views have is kept where there are no guards.
        let none = reading.guards.is_empty() && runs.guards.is_empty();
        if none && runs.unreadable == reading.unreadable {
            return;
        }
        let runs = Arc::make_mut(runs);
        (runs.read, runs.unreadable) = (read, reading.unreadable);
        let guards = || reading.guards.iter();
        let ended = guards().flat_map(|of| of.ended.iter().map(move |end| (of, *end)));
        let mut ended: Vec<Run> = ended
            .map(|(of, end)| Run { host: of.host.clone(), end, is_stated: true })
            .chain(unstated(&reading.guards).map(|(_, run)| run))
            .collect();
        ended.sort_by_key(|run| run.end.to);
        ended.drain(..ended.len().saturating_sub(IN_A_ROW));
        runs.ended = ended;
        let over: Vec<&GuardRuns> = unstated(&reading.guards).map(|(of, _)| of).collect();
        let present = guards()
            .filter(|of| !over.iter().any(|over| core::ptr::eq(*over, *of)))
            .filter_map(|of| Some((of.instance.clone(), of.host.clone(), of.since?)));
        runs.present = present.collect();
        runs.guards = guards().map(|of| of.instance.clone()).collect();
    }

    /// Judges what was read last.
    pub(crate) fn judge(runs: &mut Arc<Runs>, present: Present<'_>) {
        let unwanted = if present.unwanted { Some(runs.read) } else { runs.unwanted };
        let fails = runs.fails(present, unwanted);
        if (runs.fails, runs.unwanted) != (fails, unwanted) {
            let runs = Arc::make_mut(runs);
            (runs.fails, runs.unwanted) = (fails, unwanted);
        }
    }

    /// How long ago the oldest of the newest ends was, in milliseconds.
    pub(crate) fn failing_ms(&self) -> u64 {
        let oldest = self.ended.first().map(|run| self.read.since_ms(run.end.to));
        oldest.and_then(|ms| ms.try_into().ok()).unwrap_or(0)
    }

    fn fails(&self, present: Present<'_>, unwanted: Option<ServerTime>) -> Option<bool> {
        let counts = |run: &&Run| {
            let from = run.counts_from();
            self.read.since_ms(from) <= COUNTS_MS && Some(from) > unwanted
        };
        let errors = self.ended.iter().filter(counts).filter(|run| run.end.is_error()).count();
        let succeeded = self.ended.iter().any(|run| run.end.code == 0 && !run.end.asked);
        let oldest_counts = self.ended.first().is_some_and(|run| counts(&run));
        let longest_ms = self.ended.iter().map(|run| run.end.lasted_ms()).max().unwrap_or(0);
        let works_ms = present.settle_ms.max(longest_ms.saturating_mul(2));
        let works = self.lasted_ms(present).is_some_and(|ms| ms > works_ms);
        if errors == 0 || succeeded || works || self.ended.len() == IN_A_ROW && !oldest_counts {
            return Some(false);
        }
        (errors == IN_A_ROW).then_some(true)
    }

    /// For how long the holder of the lock has worked, as far as is known: a guard, since its run
    /// began; any other client, since it has the lock.
    fn lasted_ms(&self, present: Present<'_>) -> Option<u64> {
        let is_holder =
            |instance: &Vec<u8>| present.holders.iter().any(|holder| holder.client == *instance);
        if !self.guards.iter().any(is_holder) {
            return present.held_ms;
        }
        let since = self.present.iter().find(|(instance, ..)| is_holder(instance));
        let ms = since.map(|(.., since)| self.read.since_ms(*since));
        present.held_ms.and(ms)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    /// An end at this second, of a run that lasted a second.
    fn end(at: i64, code: u8) -> Ended {
        let to = ServerTime::at(at * 1_000);
        Ended { from: to.plus_ms(-1_000), to, code, asked: code == 143 }
    }

    fn guard(instance: &[u8], ended: &[Ended], since: Option<i64>) -> GuardRuns {
        let since = since.map(|at| ServerTime::at(at * 1_000));
        GuardRuns { instance: instance.to_vec(), host: b"web".to_vec(), ended: ended.into(), since }
    }

    /// What is found at this second, while `holder` has had the lock for this long.
    fn found(guards: &[GuardRuns], at: i64, holder: (&[u8], u64)) -> Option<bool> {
        let mut runs = None;
        let reading = RunsReading { guards: guards.to_vec(), unreadable: 0 };
        Runs::observe(&mut runs, &reading, ServerTime::at(at * 1_000));
        let mut runs = runs.unwrap();
        let (client, held_ms) = (holder.0.to_vec(), Some(holder.1));
        let holders = &[Holder { client, thread: None, entries: None, secret: false }];
        let present = Present { holders, held_ms, settle_ms: 5_000, unwanted: false };
        Runs::judge(&mut runs, present);
        runs.fails
    }

    #[test]
    fn three_errors_in_a_row_are_a_failing_script() {
        let of = |codes: &[(i64, u8)], since| {
            let ended: Vec<Ended> = codes.iter().map(|(at, code)| end(*at, *code)).collect();
            found(&[guard(b"A", &ended, since)], 100, (b"A", 90_000))
        };
        assert_eq!(of(&[(96, 1), (97, 2), (98, 1)], None), Some(true));
        assert_eq!(of(&[(96, 1), (97, 137), (98, 1)], Some(99)), Some(true));
        assert_eq!(of(&[(97, 1), (98, 1)], Some(99)), None, "two");
        assert_eq!(of(&[(96, 1), (97, 0), (98, 1)], None), Some(false), "one succeeded");
        assert_eq!(of(&[(96, 1), (97, 143), (98, 1)], None), None, "its guard ended one");
        assert_eq!(of(&[(96, 143), (97, 143), (98, 143)], None), Some(false), "or all");
        assert_eq!(of(&[], Some(99)), Some(false));
    }

    #[test]
    fn a_run_that_lasts_is_evidence_against_it() {
        let three = [end(10, 1), end(12, 1), end(20, 1)];
        let at = |ended: &[Ended], at| found(&[guard(b"A", ended, Some(21))], at, (b"A", 90_000));
        assert_eq!([26, 27].map(|now| at(&three, now)), [Some(true), Some(false)], "settle");
        let long = Ended { from: ServerTime::at(2_000), ..end(8, 1) };
        let three = [long, end(10, 1), end(20, 1)];
        assert_eq!([33, 34].map(|now| at(&three, now)), [Some(true), Some(false)], "2 x 6 s");
    }

    #[test]
    fn guards_are_put_together() {
        let (one, two) = ([end(10, 1), end(14, 1)], [end(12, 1)]);
        let both = |since| [guard(b"A", &one, None), guard(b"B", &two, since)];
        assert_eq!(found(&both(Some(15)), 20, (b"B", 90_000)), Some(true));
        assert_eq!(found(&both(Some(15)), 21, (b"B", 90_000)), Some(false));
        // B's run is over, or B would have the lock.
        assert_eq!(found(&both(Some(15)), 30, (b"A", 90_000)), Some(true));
        // No guard, or none that could write: the hold is all that is known.
        assert_eq!(found(&both(None), 30, (b"J", 5_000)), Some(true));
        assert_eq!(found(&both(None), 30, (b"J", 5_001)), Some(false));
    }

    #[test]
    fn a_run_that_another_guard_followed_is_over() {
        let begun = |instances: &[(u8, i64)]| -> Vec<GuardRuns> {
            instances.iter().map(|(id, at)| guard(&[*id], &[], Some(*at))).collect()
        };
        let four = [(b'A', 10), (b'B', 20), (b'C', 30), (b'D', 40)];
        assert_eq!(found(&begun(&four[..3]), 31, (b"C", 1_000)), None, "two");
        assert_eq!(found(&begun(&four), 41, (b"D", 1_000)), Some(true));
        assert_eq!(found(&begun(&four), 60, (b"D", 20_000)), Some(true), "2 x 10 s");
        assert_eq!(found(&begun(&four), 61, (b"D", 21_000)), Some(false));
        // A guard that stated an end did not die with its script.
        let mut stated = begun(&four);
        stated[1] = guard(b"B", &[end(24, 143)], None);
        assert_eq!(found(&stated, 41, (b"D", 1_000)), None, "asked");
        // Stated and unstated errors count together, in their order.
        stated[1] = guard(b"B", &[end(24, 1)], None);
        assert_eq!(found(&stated, 41, (b"D", 1_000)), Some(true));
        // One that worked for an hour was no failure at its start.
        let long = [(b'A', 10), (b'B', 3_700), (b'C', 3_710), (b'D', 3_720)];
        assert_eq!(found(&begun(&long), 3_721, (b"D", 1_000)), Some(false));
    }

    #[test]
    fn what_ended_an_hour_ago_counts_no_more() {
        let three = [guard(b"A", &[end(10, 1), end(12, 1), end(20, 1)], None)];
        assert_eq!(found(&three, 10 + HOUR / 1_000, (b"A", 1)), Some(true));
        assert_eq!(found(&three, 11 + HOUR / 1_000, (b"A", 1)), Some(false));
        let one = [guard(b"A", &[end(10, 1)], None)];
        assert_eq!(found(&one, 11 + HOUR / 1_000, (b"A", 1)), Some(false));
    }
}
