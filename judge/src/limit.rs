//! The limits that a task's configuration sets: what verdicts and problems compare durations with.
//! A limit's name, bounds and wording stand here; its value and its default are in the spec that
//! has it as a field. What is measured is compared with it where it is kept: a verdict's facts in
//! `shared` and in the kinds, a problem's duration in its row.

use crate::spec::{ClaimsSpec, KindSpec, ProgressSpec, TaskSpec};

named! {
    /// A limit, named as in the configuration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Limit {
        /// How long a wanted task may have no holder.
        Grace = "grace",
        /// How long a hold must last to end a gap.
        Settle = "settle",
        /// How long the task may be held though nobody wants it.
        WindDown = "wind_down",
        /// How long there may be no trustworthy reading.
        BlindAfter = "blind_after",
        /// How long the progress may stand still.
        StaleAfter = "stale_after",
        /// For how long after a change of its bytes a claim is alive.
        FreshFor = "fresh_for",
        /// How long one hold may last.
        MaxHold = "max_hold",
        /// The full lifetime of a hold.
        Lease = "lease",
        /// The pause between two renewals.
        RenewEvery = "renew_every",
        /// How late a turn, or a due member of a queue, may be.
        MaxLate = "max_late",
        /// From the beginning of one run to that of the next.
        Every = "every",
        /// How much later than that the next run may begin.
        LateAfter = "late_after",
        /// How long a run may last.
        Max = "max",
    }
}

/// Those that are fields of the task itself, in the order of the documentation.
pub const OF_TASK: [Limit; 5] =
    [Limit::Grace, Limit::Settle, Limit::WindDown, Limit::BlindAfter, Limit::MaxHold];

/// The shortest lease, in milliseconds. A shorter one than a network round trip under load protects
/// nothing.
const LEASE_MS_MIN: u64 = 100;

impl Limit {
    /// The limit in milliseconds; `None`: a task like this has none.
    pub fn ms(self, spec: &TaskSpec) -> Option<u64> {
        match self {
            Limit::Grace => Some(spec.grace_ms),
            Limit::Settle => Some(spec.settle_ms),
            Limit::WindDown => Some(spec.wind_down_ms),
            Limit::BlindAfter => Some(spec.blind_after_ms),
            Limit::StaleAfter => spec.progress.as_ref().map(|progress| progress.stale_after_ms),
            Limit::FreshFor => spec.claims.as_ref().map(|claims| claims.fresh_for_ms),
            Limit::MaxHold => spec.max_hold_ms,
            Limit::Lease => spec.lock()?.lease_ms,
            Limit::RenewEvery => spec.lock()?.renew_every_ms,
            Limit::MaxLate => match &spec.kind {
                KindSpec::Lock(_) => None,
                KindSpec::Turn(turn) => Some(turn.max_late_ms),
                KindSpec::Queue(queue) => Some(queue.max_late_ms),
            },
            Limit::Every => Some(spec.runs()?.every_ms),
            Limit::LateAfter => Some(spec.runs()?.late_after_ms),
            Limit::Max => spec.runs()?.max_ms,
        }
    }

    /// Sets it; returns whether a task like this can have one.
    pub fn set(self, spec: &mut TaskSpec, ms: u64) -> bool {
        match self {
            Limit::Grace => spec.grace_ms = ms,
            Limit::Settle => spec.settle_ms = ms,
            Limit::WindDown => spec.wind_down_ms = ms,
            Limit::BlindAfter => spec.blind_after_ms = ms,
            Limit::StaleAfter => match &mut spec.progress {
                Some(progress) => progress.stale_after_ms = ms,
                None => return false,
            },
            Limit::FreshFor => match &mut spec.claims {
                Some(claims) => claims.fresh_for_ms = ms,
                None => return false,
            },
            Limit::MaxHold => spec.max_hold_ms = Some(ms),
            Limit::Lease | Limit::RenewEvery => {
                let Some(lock) = spec.lock_mut() else { return false };
                let is_lease = self == Limit::Lease;
                let field = if is_lease { &mut lock.lease_ms } else { &mut lock.renew_every_ms };
                *field = Some(ms);
            }
            Limit::MaxLate => match &mut spec.kind {
                KindSpec::Turn(turn) => turn.max_late_ms = ms,
                KindSpec::Queue(queue) => queue.max_late_ms = ms,
                KindSpec::Lock(_) => return false,
            },
            Limit::Every | Limit::LateAfter | Limit::Max => {
                let runs = spec.lock_mut().and_then(|lock| lock.runs.as_mut());
                let Some(runs) = runs else { return false };
                match self {
                    Limit::Every => runs.every_ms = ms,
                    Limit::LateAfter => runs.late_after_ms = ms,
                    _ => runs.max_ms = Some(ms),
                }
            }
        }
        true
    }

    /// Its default in milliseconds; `None`: it has none, or one that depends on the kind.
    pub fn default_ms(self) -> Option<u64> {
        match self {
            Limit::Grace => Some(TaskSpec::GRACE_MS),
            Limit::Settle => Some(TaskSpec::SETTLE_MS),
            Limit::WindDown => Some(TaskSpec::WIND_DOWN_MS),
            Limit::BlindAfter => Some(TaskSpec::BLIND_AFTER_MS),
            Limit::StaleAfter => Some(ProgressSpec::STALE_AFTER_MS),
            Limit::FreshFor => Some(ClaimsSpec::FRESH_FOR_MS),
            _ => None,
        }
    }

    /// The least value that makes sense, in milliseconds.
    pub fn min_ms(self) -> u64 {
        match self {
            Limit::Grace | Limit::Settle | Limit::WindDown => 0,
            Limit::Lease => LEASE_MS_MIN,
            Limit::RenewEvery => 1,
            _ => 1_000,
        }
    }

    /// What is compared with it, in a word.
    pub fn measure(self) -> &'static str {
        match self {
            Limit::Grace => "gap",
            Limit::Settle | Limit::MaxHold | Limit::Lease | Limit::RenewEvery | Limit::Max => {
                "held"
            }
            Limit::WindDown => "unwanted",
            Limit::BlindAfter => "blind",
            Limit::StaleAfter => "stalled",
            Limit::FreshFor => "unchanged",
            Limit::MaxLate | Limit::LateAfter => "overdue",
            Limit::Every => "awaited",
        }
    }
}
