//! Builds the failover report: the effect of a change of generation on the watched locks. It is
//! gathered from their first readings after the change and reported once.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::continuity::generation::Delta;
use crate::event::{FailoverReport, Fate};
use crate::evidence::Origin;
use crate::spec::TaskIndex;
use crate::time::Mono;

/// Maximum time in milliseconds to wait for keys that a newly started server refuses to serve.
const UNREAD_MS_MAX: u64 = 30_000;

/// A split between two generations or two servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overlap<'a> {
    pub(crate) since: Mono,
    pub(crate) lasted_ms: u64,
    /// The two servers that show different holders.
    pub(crate) servers: Option<&'a [Arc<str>; 2]>,
}

/// The changes whose consequences are not fully known yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailoverReports {
    open: Vec<Open>,
}

#[derive(Clone, Debug)]
struct Open {
    node: Arc<str>,
    began: Mono,
    /// When data was last known to be missing.
    since: Mono,
    /// Tasks whose fate is counted.
    reported: BTreeSet<TaskIndex>,
    overlapped: BTreeSet<TaskIndex>,
    failover_report: FailoverReport,
}

impl FailoverReports {
    /// The generation changed from `old` to `new`. The reading that showed it was sent at `sent`,
    /// `blind_ms` after the newest one before.
    pub(crate) fn begin(
        &mut self,
        old: &Origin,
        new: &Origin,
        delta: Delta,
        (sent, blind_ms): (Mono, u64),
    ) {
        let changes = delta.reported();
        if let Some(open) = self.open.iter_mut().find(|open| open.node == new.node) {
            open.failover_report.changes.extend(changes);
            open.failover_report.changes.dedup();
            return;
        }
        let lost =
            delta.shared.zip(old.offset).map(|(shared, written)| written.saturating_sub(shared));
        let failover_report = FailoverReport {
            changes: changes.collect(),
            from: Some(old.node.clone()),
            to: Some(new.node.clone()),
            bytes_lost: lost,
            blind_ms,
            ..FailoverReport::default()
        };
        let (reported, overlapped) = (BTreeSet::new(), BTreeSet::new());
        self.open.push(Open {
            node: new.node.clone(),
            began: sent,
            since: sent,
            reported,
            overlapped,
            failover_report,
        });
    }

    /// A reading from `node` shows the fate of a lock; `None`: it was not held before. Only the
    /// first reading after the change counts.
    pub(crate) fn fate(&mut self, node: &Arc<str>, task: TaskIndex, fate: Option<Fate>) {
        let Some(open) = self.open.iter_mut().find(|open| open.node == *node) else { return };
        if open.reported.insert(task)
            && let Some(fate) = fate
        {
            add(&mut open.failover_report, fate, 1);
        }
    }

    /// At `at`, a lock on `node` could not be read for a temporary reason. The report waits for its
    /// fate.
    pub(crate) fn unread(&mut self, node: &Arc<str>, task: TaskIndex, at: Mono) {
        let Some(open) = self.open.iter_mut().find(|open| open.node == *node) else { return };
        if !open.reported.contains(&task) && at.since_ms(open.began) <= UNREAD_MS_MAX {
            open.since = open.since.max(at);
        }
    }

    /// The lock of `task` has two holders. The overlap is attributed to the newest change that can
    /// have caused it.
    pub(crate) fn overlaps(&mut self, task: TaskIndex, overlap: Overlap<'_>) {
        let Some(open) = self.open.iter_mut().rfind(|open| open.may_have_made(task, overlap))
        else {
            return;
        };
        open.failover_report.overlap_ms = open.failover_report.overlap_ms.max(overlap.lasted_ms);
        if open.overlapped.insert(task) {
            add(&mut open.failover_report, Fate::Overlapped, 1);
        }
    }

    /// Under a changed configuration, tasks have other numbers. Tasks missing from `renumbered` are
    /// removed.
    pub(crate) fn renumber(&mut self, renumbered: &BTreeMap<TaskIndex, TaskIndex>) {
        let renew = |tasks: &mut BTreeSet<TaskIndex>| {
            *tasks = tasks.iter().filter_map(|task| renumbered.get(task).copied()).collect();
        };
        for open in &mut self.open {
            renew(&mut open.reported);
            renew(&mut open.overlapped);
        }
    }

    /// Removes and returns the reports that are complete by `at`.
    pub(crate) fn over(&mut self, at: Mono, settle_ms: u64) -> Vec<FailoverReport> {
        let (over, open) =
            self.open.drain(..).partition(|open: &Open| at.since_ms(open.since) > settle_ms);
        self.open = open;
        over.into_iter().map(|open| open.failover_report).collect()
    }
}

impl Open {
    /// Whether this change may have caused the overlap: the lock of `task` was read on that server
    /// since, and the overlap is not older; or the overlap is between the server that decided
    /// before and the present one, either of which may have been seen before the other decided.
    fn may_have_made(&self, task: TaskIndex, overlap: Overlap<'_>) -> bool {
        let from = self.failover_report.from.as_ref().filter(|from| **from != self.node);
        let is_between = overlap
            .servers
            .zip(from)
            .is_some_and(|(servers, from)| servers.contains(from) && servers.contains(&self.node));
        self.reported.contains(&task) && (overlap.since >= self.began || is_between)
    }
}

fn add(failover_report: &mut FailoverReport, fate: Fate, count: u64) {
    if let Some(fates) = failover_report.fates.get_mut(fate as usize) {
        *fates += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::Generation;
    use crate::spec::Authority;

    fn origin(node: &str) -> Origin {
        Origin {
            node: Arc::from(node),
            clock_steps: 0,
            generation: Some(Arc::new(Generation::default())),
            histories: Arc::default(),
            offset: None,
            authority: Authority::DIVIDED,
        }
    }

    fn overlapped(over: &[FailoverReport]) -> Vec<(u64, u64)> {
        over.iter().map(|over| (over.fates[Fate::Overlapped as usize], over.overlap_ms)).collect()
    }

    #[test]
    fn what_cannot_be_read_yet_is_waited_for() {
        let origin = origin("a:1");
        let node = origin.node.clone();
        let restarted = Delta { restarted: true, ..Delta::default() };
        let begun = || {
            let mut failover_reports = FailoverReports::default();
            failover_reports.begin(&origin, &origin, restarted, (Mono::at(1_000), 0));
            failover_reports
        };
        let task = TaskIndex(0);
        let mut failover_reports = begun();
        for at in (1_000..5_000).step_by(500) {
            failover_reports.unread(&node, task, Mono::at(at));
            assert!(failover_reports.over(Mono::at(at + 500), 1_000).is_empty(), "{at}");
        }
        failover_reports.fate(&node, task, Some(Fate::Kept));
        failover_reports.unread(&node, task, Mono::at(5_400));
        let over = failover_reports.over(Mono::at(5_600), 1_000);
        assert_eq!(over.first().map(|over| over.fates[Fate::Kept as usize]), Some(1));
        // The wait is limited.
        let mut failover_reports = begun();
        (1_000..40_000)
            .step_by(500)
            .for_each(|at| failover_reports.unread(&node, task, Mono::at(at)));
        assert_eq!(failover_reports.over(Mono::at(40_000), 1_000).len(), 1);
    }

    fn overlap(since: u64, lasted_ms: u64) -> Overlap<'static> {
        Overlap { since: Mono::at(since), lasted_ms, servers: None }
    }

    /// Changes to `a:1` at 1 s, and from there to `b:1` at 2 s; the fates of tasks 0 and 1 are
    /// known.
    fn two_changes() -> FailoverReports {
        let mut failover_reports = FailoverReports::default();
        let failover = Delta { failover: true, ..Delta::default() };
        for (from, to, at) in [("z:1", "a:1", 1_000), ("a:1", "b:1", 2_000)] {
            failover_reports.begin(&origin(from), &origin(to), failover, (Mono::at(at), 0));
            (0..2).for_each(|task| failover_reports.fate(&Arc::from(to), TaskIndex(task), None));
        }
        failover_reports
    }

    #[test]
    fn of_several_overlaps_the_longest_is_told() {
        let mut failover_reports = two_changes();
        for (task, lasted_ms) in [(0, 4_000), (1, 1_000), (0, 5_000), (1, 2_000)] {
            failover_reports.overlaps(TaskIndex(task), overlap(2_000, lasted_ms));
        }
        assert_eq!(
            overlapped(&failover_reports.over(Mono::at(9_000), 1_000)),
            [(0, 0), (2, 5_000)]
        );
    }

    #[test]
    fn an_overlap_counts_once_under_whatever_number_a_reload_gives_its_task() {
        let mut failover_reports = two_changes();
        failover_reports.overlaps(TaskIndex(0), overlap(2_000, 1_000));
        failover_reports.renumber(&BTreeMap::from([
            (TaskIndex(0), TaskIndex(1)),
            (TaskIndex(1), TaskIndex(0)),
        ]));
        failover_reports.overlaps(TaskIndex(1), overlap(2_000, 2_000));
        assert_eq!(
            overlapped(&failover_reports.over(Mono::at(9_000), 1_000)),
            [(0, 0), (1, 2_000)]
        );
    }

    #[test]
    fn an_overlap_is_put_down_to_the_change_that_made_it() {
        let mut failover_reports = two_changes();
        failover_reports.overlaps(TaskIndex(0), overlap(1_500, 1_000));
        failover_reports.overlaps(TaskIndex(0), overlap(1_500, 2_000));
        // Older than any change, or of a task that was not read there.
        failover_reports.overlaps(TaskIndex(1), overlap(999, 8_000));
        failover_reports.overlaps(TaskIndex(2), overlap(2_500, 8_000));
        assert_eq!(
            overlapped(&failover_reports.over(Mono::at(9_000), 1_000)),
            [(1, 2_000), (0, 0)]
        );
    }

    #[test]
    fn two_masters_may_be_seen_before_the_new_one_decides() {
        let servers = |a: &str, b: &str| [Arc::from(a), Arc::from(b)];
        for (servers, expected) in [
            (servers("a:1", "b:1"), [(0, 0), (1, 700)]),
            (servers("a:1", "z:1"), [(1, 700), (0, 0)]),
            (servers("b:1", "z:1"), [(0, 0), (0, 0)]),
        ] {
            let mut failover_reports = two_changes();
            let early = Overlap { servers: Some(&servers), ..overlap(900, 700) };
            failover_reports.overlaps(TaskIndex(0), early);
            assert_eq!(
                overlapped(&failover_reports.over(Mono::at(9_000), 1_000)),
                expected,
                "{servers:?}"
            );
        }
    }

    #[test]
    fn two_masters_are_of_no_restart() {
        let mut failover_reports = FailoverReports::default();
        let restarted = Delta { restarted: true, ..Delta::default() };
        failover_reports.begin(&origin("a:1"), &origin("a:1"), restarted, (Mono::at(1_000), 0));
        failover_reports.fate(&Arc::from("a:1"), TaskIndex(0), None);
        let servers = [Arc::from("a:1"), Arc::from("b:1")];
        failover_reports
            .overlaps(TaskIndex(0), Overlap { servers: Some(&servers), ..overlap(900, 700) });
        assert_eq!(overlapped(&failover_reports.over(Mono::at(9_000), 1_000)), [(0, 0)]);
    }

    #[test]
    fn what_changes_meanwhile_is_told_with_it() {
        use crate::event::GenerationChange::{Flushed, Restarted};
        let mut failover_reports = FailoverReports::default();
        let (restarted, flushed) = (
            Delta { restarted: true, ..Delta::default() },
            Delta { flushed: true, ..Delta::default() },
        );
        for (delta, at) in [(restarted, 1_000), (restarted, 2_000), (flushed, 3_000)] {
            failover_reports.begin(&origin("a:1"), &origin("a:1"), delta, (Mono::at(at), 0));
        }
        let over = failover_reports.over(Mono::at(9_000), 1_000);
        assert_eq!(
            over.iter().map(|over| over.changes.clone()).collect::<Vec<_>>(),
            [[Restarted, Flushed]]
        );
    }
}
