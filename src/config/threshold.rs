//! A task's thresholds: their names, minimums and mutual constraints. Used by the configuration,
//! and by replay, which tries other values.

use lockwatch_judge::named;
use lockwatch_judge::spec::{KindSpec, StoreSpec, TaskSpec};
use serde_yaml::Value;

use super::block::Block;
use super::mistake::{Reported, quoted};
use super::values::duration_ms;
use crate::text::durations::duration_text;

const SECOND_MS: u64 = 1_000;

/// Minimum lease in milliseconds. A lease shorter than a network round trip under load protects
/// nothing.
const LEASE_MS_MIN: u64 = 100;

named! {
    /// A duration of a task that its verdict or its alerts depend on.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Threshold {
        /// A gap shorter than this is a handover.
        Grace = "grace",
        /// A hold shorter than this does not end a gap.
        Settle = "settle",
        /// How long the task may continue after it was switched off.
        WindDown = "wind_down",
        /// Without a reading for longer than this, the verdict is unknown.
        BlindAfter = "blind_after",
        /// Without a change of its progress for longer than this, the task is stalled.
        StaleAfter = "stale_after",
        /// A claim is live while its bytes changed within this time.
        FreshFor = "fresh_for",
        /// A hold longer than this causes a warning.
        MaxHold = "max_hold",
        /// Full lifetime of a hold.
        Lease = "lease",
        /// Pause between two renewals.
        RenewEvery = "renew_every",
        /// How long a turn, or a due member of a queue, may wait.
        MaxLate = "max_late",
    }
}

impl Threshold {
    fn min_ms(self) -> u64 {
        match self {
            Threshold::Grace | Threshold::Settle | Threshold::WindDown => 0,
            Threshold::BlindAfter
            | Threshold::StaleAfter
            | Threshold::FreshFor
            | Threshold::MaxHold
            | Threshold::MaxLate => SECOND_MS,
            Threshold::Lease => LEASE_MS_MIN,
            Threshold::RenewEvery => 1,
        }
    }

    /// Reads it from its block, if present.
    pub(super) fn optional(self, block: &Block<'_>) -> Result<Option<u64>, Reported> {
        block.optional(self.name(), duration_ms(self.min_ms()))
    }

    pub(super) fn or(self, block: &Block<'_>, default_ms: u64) -> Result<u64, Reported> {
        Ok(self.optional(block)?.unwrap_or(default_ms))
    }

    /// Parses a value as the configuration does, into milliseconds.
    ///
    /// # Errors
    /// What is wrong with it; the sentence lacks its subject.
    pub fn read(self, text: &str) -> Result<u64, String> {
        duration_ms(self.min_ms())(&Value::String(text.to_owned()))
    }

    /// Applies it to `task`. Returns whether the task has such a threshold.
    pub fn set(self, task: &mut TaskSpec, ms: u64) -> bool {
        match self {
            Threshold::Grace => task.grace_ms = ms,
            Threshold::Settle => task.settle_ms = ms,
            Threshold::WindDown => task.wind_down_ms = ms,
            Threshold::BlindAfter => task.blind_after_ms = ms,
            Threshold::MaxHold => task.max_hold_ms = Some(ms),
            Threshold::Lease | Threshold::RenewEvery => {
                let Some(lock) = task.lock_mut() else { return false };
                let is_lease = self == Threshold::Lease;
                let field = if is_lease { &mut lock.lease_ms } else { &mut lock.renew_every_ms };
                *field = Some(ms);
            }
            Threshold::MaxLate => match &mut task.kind {
                KindSpec::Turn(turn) => turn.max_late_ms = ms,
                KindSpec::Queue(queue) => queue.max_late_ms = ms,
                KindSpec::Lock(_) => return false,
            },
            Threshold::StaleAfter => match &mut task.progress {
                Some(progress) => progress.stale_after_ms = ms,
                None => return false,
            },
            Threshold::FreshFor => match &mut task.claims {
                Some(claims) => claims.fresh_for_ms = ms,
                None => return false,
            },
        }
        true
    }
}

/// Why a task's thresholds contradict each other or the sampling of its Redis store; each a
/// sentence.
pub fn mistake(task: &TaskSpec, redis: &StoreSpec) -> Option<String> {
    let sampling = Sampling {
        redis: &redis.name,
        interval_ms: redis.interval_ms,
        timeout_ms: redis.timeout_ms,
    };
    let named = |threshold: Threshold, mistake: String| format!("`{}` {mistake}", threshold.name());
    let renew_every = || {
        let lock = task.lock()?;
        renew_every_mistake(lock.renew_every_ms?, lock.lease_ms?)
    };
    let stale_after = || sampling.stale_after_mistake(task.progress.as_ref()?.stale_after_ms);
    let fresh_for = || sampling.fresh_for_mistake(task.claims.as_ref()?.fresh_for_ms);
    let of_kind = || {
        let (field, message) = kind_mistakes(&task.kind, sampling).into_iter().next()?;
        Some(format!("`{field}` {message}"))
    };
    let settles = task.lock().is_some();
    settles
        .then(|| settle_mistake(task.settle_ms, task.blind_after_ms))
        .flatten()
        .or_else(|| sampling.blind_after_mistake(task.blind_after_ms))
        .or_else(|| Some(named(Threshold::StaleAfter, stale_after()?)))
        .or_else(|| Some(named(Threshold::FreshFor, fresh_for()?)))
        .or_else(|| Some(named(Threshold::RenewEvery, renew_every()?)))
        .or_else(of_kind)
}

/// Which fields of a turn or a queue contradict the sampling, and why.
pub(super) fn kind_mistakes(
    kind: &KindSpec,
    sampling: Sampling<'_>,
) -> Vec<(&'static str, String)> {
    let too_late = |max_late_ms: u64| {
        let mistake =
            || format!("must be longer than {}, or every turn looks late", sampling.interval());
        (max_late_ms <= sampling.interval_ms).then(|| ("max_late", mistake()))
    };
    match kind {
        KindSpec::Lock(_) => Vec::new(),
        KindSpec::Queue(queue) => too_late(queue.max_late_ms).into_iter().collect(),
        KindSpec::Turn(turn) => {
            let mistake = || {
                format!(
                    "must be at least {}, or a whole turn may be missed and no order is judged",
                    sampling.interval()
                )
            };
            let too_short = turn.min_turn_ms.filter(|ms| *ms < sampling.interval_ms);
            let too_short = too_short.map(|_| ("min_turn", mistake()));
            too_late(turn.max_late_ms).into_iter().chain(too_short).collect()
        }
    }
}

pub(super) fn settle_mistake(settle_ms: u64, blind_after_ms: u64) -> Option<String> {
    let (settle, blind_after) = (duration_text(settle_ms), duration_text(blind_after_ms));
    let mistake =
        || format!("`settle` ({settle}) must be shorter than `blind_after` ({blind_after})");
    (settle_ms >= blind_after_ms).then(mistake)
}

pub(super) fn renew_every_mistake(renew_every_ms: u64, lease_ms: u64) -> Option<String> {
    let lease = duration_text(lease_ms);
    let mistake =
        || format!("must be shorter than `lease` ({lease}), or the lease ends before its renewal");
    (renew_every_ms >= lease_ms).then(mistake)
}

/// How a task's Redis store is sampled. Thresholds that are judged from samples must be longer than
/// the sampling interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling<'a> {
    pub(super) redis: &'a str,
    pub(super) interval_ms: u64,
    pub(super) timeout_ms: u64,
}

impl Sampling<'_> {
    pub(super) fn blind_after_mistake(self, blind_after_ms: u64) -> Option<String> {
        let (interval, timeout) = (duration_text(self.interval_ms), duration_text(self.timeout_ms));
        let mistake = || {
            format!(
                "`blind_after` ({}) must be longer than `interval` + `timeout` of redis {} \
                 ({interval} + {timeout}), or \
                 one slow answer makes the task blind",
                duration_text(blind_after_ms),
                quoted(self.redis)
            )
        };
        (blind_after_ms <= self.interval_ms.saturating_add(self.timeout_ms)).then(mistake)
    }

    pub(super) fn stale_after_mistake(self, stale_after_ms: u64) -> Option<String> {
        let mistake =
            || format!("must be longer than {}, or every sample looks stale", self.interval());
        (stale_after_ms <= self.interval_ms).then(mistake)
    }

    pub(super) fn fresh_for_mistake(self, fresh_for_ms: u64) -> Option<String> {
        let mistake =
            || format!("must be longer than {}, or no claim ever looks alive", self.interval());
        (fresh_for_ms <= self.interval_ms).then(mistake)
    }

    fn interval(self) -> String {
        format!("`interval` of redis {} ({})", quoted(self.redis), duration_text(self.interval_ms))
    }
}
