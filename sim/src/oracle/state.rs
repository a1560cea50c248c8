//! What the oracle knows of one agent, and the checks that were violated.

use std::collections::VecDeque;

use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::RedisKind;

use super::facts::TaskFacts;
use super::reference::Limits;
use crate::agent::MONO_MS;
use crate::plan::Plan;
use crate::world::World;

/// A clock that moved by this many milliseconds more than the agent's has certainly stepped. The
/// rule counts more than a second beyond what slow answers explain, two answers take at most 6 s,
/// and no plan draws a step between 150 ms and 12 s.
pub(super) const STEP_MS: i64 = 8_000;

/// Tolerance in milliseconds of a deadline that is reported as the remaining time.
pub(super) const NOISE_MS: i64 = 2;

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

/// What was announced lately.
#[derive(Debug, Default)]
pub(super) struct Announced {
    /// When, and about which task.
    pub(super) lately: VecDeque<(u64, usize)>,
    /// The locks that must be asked for soon, and when that was announced.
    pub(super) owed: Vec<(usize, u64)>,
}

/// A report that must be counted.
#[derive(Debug)]
pub(super) struct Overrun {
    pub(super) task: usize,
    pub(super) instance: Vec<u8>,
    pub(super) at: u64,
}

/// Checks one process of one agent.
#[derive(Debug)]
pub(crate) struct Oracle {
    pub(super) agent: usize,
    pub(super) tasks: Vec<TaskFacts>,
    /// The lead of each server's clock at its newest good answer.
    pub(super) clocks: Vec<Option<i64>>,
    pub(super) ticked: Mono,
    /// When the instants at which the agent reads tasks last changed.
    pub(crate) rhythm_at: Mono,
    pub(super) kind: RedisKind,
    pub(super) interval_ms: u64,
    pub(super) timeout_ms: u64,
    pub(super) exact: bool,
    /// When a server other than the deciding one was last seen as a master.
    pub(super) rivals_at: Option<u64>,
    pub(super) announced: Announced,
    /// The overruns that must be counted.
    pub(super) overruns: Vec<Overrun>,
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
            ticked: Mono::at(MONO_MS + now),
            rhythm_at: Mono::at(MONO_MS + now),
            kind: plan.kind(),
            interval_ms: redis.map_or(1_000, |redis| redis.interval_ms),
            timeout_ms: redis.map_or(3_000, |redis| redis.timeout_ms),
            exact: plan.has_pexpiretime,
            rivals_at: None,
            announced: Announced::default(),
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

    pub(super) fn blame(&mut self, world: &World, check: &'static str, what: String) {
        let names = world.plan.spec.tasks.iter();
        let task = names.enumerate().find(|(_, spec)| what.starts_with(&format!("{}:", spec.name)));
        let truth = world.describe(task.map(|(task, _)| task));
        self.violations.push(Violation { at_ms: world.now, agent: self.agent, check, what, truth });
    }
}
