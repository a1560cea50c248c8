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
mod overruns;
mod pause;
mod problems;
pub(crate) mod queues;
mod reference;
mod renewals;
mod scripts;
mod shown;
mod soon;
mod splits;
mod turns;
mod unsaid;
mod verdict;

use std::sync::Arc;

use lockwatch_judge::event::{End, Event, EventKind, Subject};
use lockwatch_judge::input::Standing;
use lockwatch_judge::snapshot::Snapshot;
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::RedisKind;

use crate::agent::{Attempt, MONO_MS};
use crate::coverage::Coverage;
use crate::plan::Plan;
use crate::world::World;
use facts::TaskFacts;
use found::{Answer, Newest};
use reference::Limits;
pub(crate) use scripts::Scripts;

/// A clock that moved by this many milliseconds more than the agent's has certainly stepped. The
/// rule counts more than a second beyond what slow answers explain, two answers take at most 6 s,
/// and no plan draws a step between 150 ms and 12 s.
const STEP_MS: i64 = 8_000;
/// Tolerance in milliseconds of a deadline that is reported as the remaining time.
const NOISE_MS: i64 = 2;

/// A violated check.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Time in milliseconds since the beginning.
    pub at_ms: u64,
    /// The agent concerned.
    pub agent: usize,
    /// The name of the check.
    pub check: &'static str,
    /// The output, and the true state.
    pub what: String,
    /// The true events shortly before, line by line.
    pub truth: Vec<String>,
}

/// Checks one process of one agent.
#[derive(Debug)]
pub(crate) struct Oracle {
    agent: usize,
    tasks: Vec<TaskFacts>,
    /// The lead of each server's clock at its newest good answer.
    clocks: Vec<Option<i64>>,
    ticked: Mono,
    /// When the instants at which the agent reads tasks last changed.
    pub(crate) rhythm_at: Mono,
    kind: RedisKind,
    interval_ms: u64,
    timeout_ms: u64,
    exact: bool,
    /// When a server other than the deciding one was last seen as a master.
    rivals_at: Option<u64>,
    told: soon::Told,
    /// The overruns that must be counted.
    overruns: Vec<overruns::Owed>,
    pub(crate) violations: Vec<Violation>,
}

impl Oracle {
    pub(crate) fn new(plan: &Plan, agent: usize, now: u64) -> Oracle {
        let redis = plan.spec.stores.first();
        Oracle {
            agent,
            tasks: plan
                .spec
                .tasks
                .iter()
                .zip(&plan.tasks)
                .map(|(spec, shape)| TaskFacts::new(spec, shape, now))
                .collect(),
            clocks: vec![None; plan.servers],
            ticked: Mono(MONO_MS + now),
            rhythm_at: Mono(MONO_MS + now),
            kind: plan.kind(),
            interval_ms: redis.map_or(1_000, |redis| redis.interval_ms),
            timeout_ms: redis.map_or(3_000, |redis| redis.timeout_ms),
            exact: plan.has_pexpiretime,
            rivals_at: None,
            told: soon::Told::default(),
            overruns: Vec::new(),
            violations: Vec::new(),
        }
    }

    /// The agent has loaded its configuration again. A task that was not in the previous one starts
    /// without any state.
    pub(crate) fn configured<'a>(
        &mut self,
        spec: impl Fn(usize) -> Option<&'a TaskSpec>,
        world: &World,
    ) {
        for (task, (facts, shape)) in self.tasks.iter_mut().zip(&world.plan.tasks).enumerate() {
            let was_configured = std::mem::replace(&mut facts.is_configured, spec(task).is_some());
            let Some(spec) = spec(task) else { continue };
            if !was_configured {
                *facts = TaskFacts::new(spec, shape, world.now);
            }
            facts.configured_at = world.now;
            facts.limits = Limits::of(spec);
        }
    }

    fn blame(&mut self, world: &World, check: &'static str, what: String) {
        let names = world.plan.spec.tasks.iter();
        let task = names.enumerate().find(|(_, spec)| what.starts_with(&format!("{}:", spec.name)));
        let truth = world.tell(task.map(|(task, _)| task));
        self.violations.push(Violation { at_ms: world.now, agent: self.agent, check, what, truth });
    }

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
                self.answered_beside(*task, believed, attempt, world);
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
                if *reason == End::Expired {
                    self.tasks[task].ran_out(event.at);
                }
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
            self.check_durations(task, view, snapshot.at, world);
            self.check_verdict(task, view, world);
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
