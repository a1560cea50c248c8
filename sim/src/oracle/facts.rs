//! What the readings of one agent's process really found about one task.

use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::{Mono, ServerTime};

use super::found::{Answer, Newest, Pause, Said};
use super::lost::{Asked, Lost};
use super::queue_facts::QueueFacts;
use super::reference::{Beat, Limits, Reference};
use super::turn_facts::TurnFacts;
use crate::agent::MONO_MS;
use crate::plan::TaskPlan;
use crate::request::{PartTruth, Says};
use crate::world::World;

/// The newest renewal as last reported: when it was, and how late.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RenewalSaid {
    pub(super) last: Option<ServerTime>,
    pub(super) latency_ms: Option<u64>,
    /// When the newest answer was read by then.
    pub(super) to: u64,
}

/// A hold that was certainly lost according to the readings, until its deadline.
#[derive(Debug, Default)]
pub(super) struct Overlap {
    pub(super) lost: Option<(Vec<u8>, u64)>,
    /// Another client holds the lock before that, so the overlap must be reported by now.
    pub(super) due: bool,
}

/// What one agent's readings found about one task.
#[derive(Debug)]
pub(super) struct TaskFacts {
    /// Whether the task is in the agent's configuration.
    pub(super) is_configured: bool,
    /// Since when it has been configured without interruption: the true instant.
    pub(super) began: u64,
    /// When the configuration was last loaded, so that thresholds may be new.
    pub(super) configured_at: u64,
    pub(super) limits: Limits,
    pub(super) reference: Reference,
    pub(super) lost: Lost,
    pub(super) newest: Newest,
    /// The newest answer, and the one before it.
    pub(super) last: Option<Answer>,
    pub(super) before: Option<Answer>,
    pub(super) blind: Option<Mono>,
    /// In that time an answer came that was not enough.
    pub(super) in_vain: bool,
    /// Since when every attempt was answered: the true instant.
    pub(super) sees_since: u64,
    pub(super) good: Mono,
    /// When the newest attempt was sent.
    pub(super) tried: Mono,
    /// The state of the switches, and what they count as.
    pub(super) says: Says,
    pub(super) switches_at: Option<Asked>,
    pub(super) overlap: Overlap,
    /// A free lock was found next to another master's held one. These answers do not show when a
    /// hold ended.
    pub(super) contradicted: bool,
    /// The parts changed during the read. The result is unknown until the next
    /// answer.
    pub(super) mixed: bool,
    /// It is uncertain whether an answer counts as sight, until the next one that certainly does.
    pub(super) hazy: bool,
    pub(super) said: Said,
    pub(super) renewal_said: RenewalSaid,
    /// The newest snapshot showed a split.
    pub(super) is_split: bool,
    /// The parts may be on another server.
    pub(super) apart: bool,
    /// A key may say that alerts wait.
    pub(super) has_pause: bool,
    /// The newest pause that was read.
    pub(super) pause: Option<Pause>,
    /// Whose turn it was.
    pub(super) turns: Option<TurnFacts>,
    /// When the progress was read last: the server, and the true instant.
    beat_at: Option<(usize, u64)>,
    /// When the newest run began that it could certainly see: the true instant.
    pub(super) run_seen: Option<u64>,
    /// What a queue showed.
    pub(super) queue: Option<QueueFacts>,
}

impl TaskFacts {
    /// For a task that an agent begins to watch at `now`.
    pub(super) fn new(spec: &TaskSpec, shape: &TaskPlan, now: u64) -> TaskFacts {
        TaskFacts {
            is_configured: true,
            began: now,
            configured_at: now,
            limits: Limits::of(spec),
            reference: Reference::default(),
            lost: Lost::of(spec),
            newest: Newest::Never,
            last: None,
            before: None,
            blind: Some(Mono::at(MONO_MS + now)),
            in_vain: false,
            sees_since: now,
            good: Mono::at(MONO_MS + now),
            tried: Mono::at(MONO_MS + now),
            says: Says::Unclear,
            switches_at: None,
            overlap: Overlap::default(),
            contradicted: false,
            mixed: false,
            hazy: false,
            said: Said::default(),
            renewal_said: RenewalSaid::default(),
            is_split: false,
            apart: shape.apart,
            has_pause: spec.paused_until.is_some(),
            pause: None,
            turns: TurnFacts::of(spec, now),
            queue: QueueFacts::of(spec, now),
            run_seen: None,
            beat_at: None,
        }
    }

    /// The progress, as far as it ends by itself.
    pub(super) fn beat(&mut self, part: &PartTruth, server: usize, world: &World) -> Beat {
        let is_lost = |(before, at): (usize, u64)| {
            before != server || world.generations.iter().any(|it| it.at >= at)
        };
        let unsure = self.beat_at.is_some_and(is_lost);
        if part.progress.is_some() {
            self.beat_at = Some((server, part.began_at));
        }
        Beat { ends: part.progress_ends, clock: part.clock, unsure }
    }
}
