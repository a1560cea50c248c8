//! How a task's limits are written, and what they demand of each other. Used by the configuration,
//! and by replay, which tries other values.

use lockwatch_judge::limit::Limit;
use lockwatch_judge::spec::{KindSpec, RunsSpec, StoreSpec, TaskSpec};
use serde_yaml::Value;

use super::block::Block;
use super::mistake::{Reported, quoted};
use super::schema::StoreKind;
use super::values::duration_ms;
use crate::text::durations::duration_text;

/// Reads a limit from its block; if absent, it has its default, if there is one.
pub(super) fn with_default(limit: Limit, block: &Block<'_>) -> Result<Option<u64>, Reported> {
    Ok(optional(limit, block)?.or(limit.default_ms()))
}

/// Reads a limit from its block, if present.
pub(super) fn optional(limit: Limit, block: &Block<'_>) -> Result<Option<u64>, Reported> {
    block.optional(limit.name(), duration_ms(limit.min_ms()))
}

pub(super) fn or(limit: Limit, block: &Block<'_>, default_ms: u64) -> Result<u64, Reported> {
    Ok(optional(limit, block)?.unwrap_or(default_ms))
}

/// Parses a value as the configuration does, into milliseconds.
///
/// # Errors
/// What is wrong with it; the sentence lacks its subject.
pub fn read(limit: Limit, text: &str) -> Result<u64, String> {
    duration_ms(limit.min_ms())(&Value::String(text.to_owned()))
}

/// Why a task's thresholds contradict each other or the sampling of its store; each a sentence.
pub fn mistake(task: &TaskSpec, store: &StoreSpec) -> Option<String> {
    let is_ensemble = &*store.kind == StoreKind::ZooKeeper.field();
    let sampling = Sampling {
        kind: if is_ensemble { StoreKind::ZooKeeper } else { StoreKind::Redis },
        name: &store.name,
        interval_ms: store.interval_ms,
        timeout_ms: store.timeout_ms,
    };
    let named = |limit: Limit, mistake: String| format!("`{}` {mistake}", limit.name());
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
    let of_runs = || {
        let (field, message) = runs_mistakes(task.runs()?, sampling).into_iter().next()?;
        Some(format!("`{field}` {message}"))
    };
    let settles = task.lock().is_some();
    settles
        .then(|| settle_mistake(task.settle_ms, task.blind_after_ms))
        .flatten()
        .or_else(|| sampling.blind_after_mistake(task.blind_after_ms))
        .or_else(|| Some(named(Limit::StaleAfter, stale_after()?)))
        .or_else(|| Some(named(Limit::FreshFor, fresh_for()?)))
        .or_else(|| Some(named(Limit::RenewEvery, renew_every()?)))
        .or_else(of_kind)
        .or_else(of_runs)
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

/// Which fields of periodic runs contradict each other or the sampling, and why.
pub(super) fn runs_mistakes(
    runs: &RunsSpec,
    sampling: Sampling<'_>,
) -> Vec<(&'static str, String)> {
    let every = duration_text(runs.every_ms);
    let too_often = || {
        format!(
            "({every}) must be longer than {}, or runs begin and end between two readings",
            sampling.interval()
        )
    };
    let too_long = |max_ms: u64| {
        let max = duration_text(max_ms);
        format!(
            "({max}) must not be longer than `every` ({every}), or the next run is overdue first"
        )
    };
    let too_often = (runs.every_ms <= sampling.interval_ms).then(|| ("every", too_often()));
    let max_ms = runs.max_ms.filter(|max_ms| *max_ms > runs.every_ms);
    too_often.into_iter().chain(max_ms.map(|max_ms| ("max", too_long(max_ms)))).collect()
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

/// How a task's store is sampled. Limits that are judged from samples must be longer than
/// the sampling interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sampling<'a> {
    pub(super) kind: StoreKind,
    pub(super) name: &'a str,
    pub(super) interval_ms: u64,
    pub(super) timeout_ms: u64,
}

impl Sampling<'_> {
    pub(super) fn blind_after_mistake(self, blind_after_ms: u64) -> Option<String> {
        let (interval, timeout) = (duration_text(self.interval_ms), duration_text(self.timeout_ms));
        let mistake = || {
            format!(
                "`blind_after` ({}) must be longer than `interval` + `timeout` of {} {} \
                 ({interval} + {timeout}), or \
                 one slow answer makes the task blind",
                duration_text(blind_after_ms),
                self.kind.field(),
                quoted(self.name)
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
        let (kind, name) = (self.kind.field(), quoted(self.name));
        format!("`interval` of {kind} {name} ({})", duration_text(self.interval_ms))
    }
}
