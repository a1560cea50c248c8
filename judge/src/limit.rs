//! The limits that a task's configuration sets: what verdicts and problems compare durations with.

use crate::spec::{KindSpec, TaskSpec};

named! {
    /// A limit, named as in the configuration.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        /// How late a turn, or a due member of a queue, may be.
        MaxLate = "max_late",
        /// How long one hold may last.
        MaxHold = "max_hold",
    }
}

impl Limit {
    /// The limit in milliseconds; `None`: a task like this has none.
    pub fn ms(self, spec: &TaskSpec) -> Option<u64> {
        match self {
            Limit::Grace => Some(spec.grace_ms),
            Limit::Settle => Some(spec.settle_ms),
            Limit::WindDown => Some(spec.wind_down_ms),
            Limit::BlindAfter => Some(spec.blind_after_ms),
            Limit::StaleAfter => spec.progress.as_ref().map(|progress| progress.stale_after_ms),
            Limit::MaxLate => match &spec.kind {
                KindSpec::Lock(_) => None,
                KindSpec::Turn(turn) => Some(turn.max_late_ms),
                KindSpec::Queue(queue) => Some(queue.max_late_ms),
            },
            Limit::MaxHold => spec.max_hold_ms,
        }
    }

    /// What is compared with it, in a word.
    pub fn measure(self) -> &'static str {
        match self {
            Limit::Grace => "gap",
            Limit::Settle | Limit::MaxHold => "held",
            Limit::WindDown => "unwanted",
            Limit::BlindAfter => "blind",
            Limit::StaleAfter => "stalled",
            Limit::MaxLate => "overdue",
        }
    }
}
