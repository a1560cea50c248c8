//! Gathers the grounds of a task's problems.

use alloc::vec::Vec;

use super::Task;
use crate::grounds::{Problem, follow};
use crate::problems::task_finding;
use crate::switches::Switches;
use crate::time::Mono;

impl Task {
    /// Follows the grounds as of the newest step, at `at`.
    pub(super) fn follow_grounds(&mut self, at: Mono) {
        let held = self.lock.held();
        let hold = if held == Some(true) { self.lock.hold() } else { None };
        let is_persistent = hold.and_then(|hold| hold.is_persistent());
        let saw_begin = hold.is_some_and(|hold| hold.acquired.is_some());
        let progress_missing =
            hold.is_some() && self.progress.as_ref().is_some_and(|clock| clock.missing.is_some());
        let nobody_waits = hold.is_some() && self.waiters == Some(0) && self.spec.needs_standby();
        let grounds = &mut self.grounds;
        grounds.settled = hold.is_some() && self.lock.unbroken_ms() >= self.spec.settle_ms;
        grounds.moves = self.progress.as_ref().map_or(saw_begin, |clock| clock.moves(saw_begin));
        let switches = self.wanting.as_ref().map(|wanting| &wanting.switches);
        grounds.switches_kept = switches.is_some_and(Switches::are_kept);
        grounds.answered_ms = self.blind.answered_ms();
        let mut since = grounds.since();
        match switches {
            Some(switches) if switches.have_key() && !switches.key_seen => {
                if switches.why_unknown().is_none() {
                    since.switches_unseen.get_or_insert(at);
                }
            }
            _ => since.switches_unseen = None,
        }
        // While the lock cannot be read, the stopwatches go on, and their problems are not shown.
        if held.is_some() {
            follow(&mut since.no_candidate, nobody_waits, at);
            follow(&mut since.progress_missing, progress_missing, at);
            if let Some(is_persistent) = is_persistent.or(hold.is_none().then_some(false)) {
                follow(&mut since.persistent, is_persistent, at);
            }
        }
        grounds.note_since(since);
        self.grounds.sighted = self.has_sight() && self.blind.ms() == 0;
        self.grounds.was_sighted |= self.grounds.sighted;
        if self.grounds.sighted && !self.splits.kinds().is_empty() {
            self.grounds.rare().split = Some(at);
        }
        let paused = self.pause.until.is_some_and(|until| at < until);
        if paused != self.grounds.is_paused() {
            let shown = if paused { self.positive(at) } else { Vec::new() };
            self.grounds.paused(paused, at, shown);
        }
    }

    /// The problems that are positive.
    fn positive(&mut self, at: Mono) -> Vec<Problem> {
        let view = self.view(at);
        let is_so = |problem: &Problem| task_finding(*problem, &view, at).is_positive();
        Problem::ALL.into_iter().filter(is_so).collect()
    }
}
