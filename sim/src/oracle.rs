//! The oracle knows the true state and checks an agent's output: no alert without a reason
//! (safety), and no missing alert for too long (liveness). Of `judge` it uses only the types of
//! instants, specs, snapshots and events, and none of its decisions.
//!
//! There are two kinds of checks: against what the agent's own readings really found
//! ([`reference`]), where the rules are exact; and against the truth, where they allow a tolerance.
//! Each tolerance is documented where it is used.

mod answers;
mod ends;
mod facts;
mod found;
mod live;
mod lost;
mod overlap;
mod overruns;
mod pause;
mod problems;
mod queue_facts;
mod queues;
mod reference;
mod renewals;
mod runs;
mod scripts;
mod shown;
mod soon;
mod splits;
mod state;
mod turn_facts;
mod turns;
mod unsaid;
mod verdict;
mod visible;

use std::sync::Arc;

use lockwatch_judge::event::{Event, EventKind, Subject};
use lockwatch_judge::input::Standing;
use lockwatch_judge::snapshot::Snapshot;
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::RedisKind;

use crate::agent::Attempt;
use crate::coverage::Coverage;
use crate::world::World;
use found::Newest;
pub(crate) use scripts::Scripts;
pub(crate) use state::Oracle;
pub use state::Violation;

impl Oracle {
    /// The agent attempted a read.
    pub(crate) fn attempt(&mut self, attempt: &Attempt, world: &World) {
        let good = self.believable(attempt);
        if attempt.standing == Standing::Witness {
            if good
                && self.kind == RedisKind::Replicated
                && attempt.truth.as_ref().is_some_and(|truth| truth.master)
            {
                self.rivals_at = Some(world.now);
            }
            return;
        }
        if !attempt.parts {
            self.asked(attempt);
        }
        if good && let Some(server) = attempt.server {
            self.check_ruler(server, world);
        }
        for task in &attempt.tasks {
            if !self.tasks[*task].is_configured {
                continue;
            }
            let part = attempt
                .truth
                .as_ref()
                .and_then(|truth| truth.parts.iter().find(|part| part.task == *task));
            if let (true, Some(part)) = (good, part) {
                self.read_pause(*task, part, attempt);
            }
            if self.tasks[*task].queue.is_some() {
                self.attempt_queue(*task, attempt, part, good, world);
                continue;
            }
            if attempt.parts {
                let believed = if good { part } else { None };
                self.answered_parts(*task, believed, attempt, world);
                self.tasks[*task].follow_verdict();
                continue;
            }
            match (good, part, attempt.server) {
                (true, Some(part), Some(server)) => {
                    self.answered(*task, part, attempt, server, world);
                    self.tasks[*task].follow_published(attempt.sent);
                }
                _ => self.failed(*task, attempt),
            }
            self.tasks[*task].tried = attempt.sent;
            self.tasks[*task].follow_verdict();
        }
    }

    /// Checks an event of the agent's state.
    pub(crate) fn event(&mut self, event: &Event, world: &World, coverage: &mut Coverage) {
        coverage.event(event);
        let Subject::Task(spec) = &event.subject else { return };
        let Some(task) = position(spec, world) else { return };
        match &event.kind {
            EventKind::HoldEnded { holders, reason, .. } => {
                self.check_end(task, holders, *reason, world);
                self.tasks[task].hold_ended(event.at, *reason);
            }
            EventKind::LockLost { holders, sign } => self.check_lost(task, holders, *sign, world),
            EventKind::GapEnded { gap_ms } => self.check_handover(task, *gap_ms, world),
            EventKind::SplitBegan { kind, parties, .. } => {
                self.count_overrun(task, *kind, parties, coverage);
                self.check_split(task, *kind, parties, world)
            }
            _ => {}
        }
    }

    /// The agent's engine ticked at `at`.
    ///
    /// Without any attempt for two intervals and two timeouts, the newest answer is outdated.
    pub(crate) fn tick(&mut self, at: Mono) {
        self.ticked = at;
        let stale_ms = 2 * (self.interval_ms + self.timeout_ms);
        for facts in &mut self.tasks {
            let newest = match facts.newest {
                Newest::Answered => facts.last.as_ref().map(|last| last.sent),
                // It may have found something.
                Newest::Open => facts.last.as_ref().map(|last| last.sent.max(facts.tried)),
                Newest::Never | Newest::Failed => None,
            };
            if newest.is_some_and(|newest| at.since_ms(newest) > stale_ms) {
                facts.newest = Newest::Failed;
                facts.unasked();
                facts.blind.get_or_insert(facts.good);
            }
            facts.follow_published(at);
        }
    }

    /// Checks the agent's present snapshot.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot, world: &World, coverage: &mut Coverage) {
        self.check_soon(world);
        self.check_overruns(world, coverage);
        for view in &snapshot.tasks {
            let Some(task) = position(&view.spec, world) else { continue };
            coverage.view(view, snapshot.at);
            if view.queue().is_some() {
                self.check_queue(task, view, snapshot.at, world);
                self.check_queue_live(task, view, snapshot.at, world);
                self.check_pause(task, view, snapshot.at, world);
                continue;
            }
            if view.lock().is_some() {
                self.check_reading(task, view, world);
                self.check_renewals(task, view, world);
            }
            self.check_turns(task, view, snapshot.at, world);
            if view.periodic().is_some() {
                self.check_runs(task, view, snapshot.at, world);
            } else {
                self.check_durations(task, view, snapshot.at, world);
                self.check_verdict(task, view, world);
            }
            self.check_live(task, view, snapshot.at, world);
            self.check_pause(task, view, snapshot.at, world);
            self.check_problems(task, view, snapshot.at, world);
        }
    }
}

/// The position of a task in the plan.
fn position(spec: &Arc<TaskSpec>, world: &World) -> Option<usize> {
    world.plan.spec.tasks.iter().position(|other| other.name == spec.name)
}
