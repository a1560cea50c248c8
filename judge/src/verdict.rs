//! Computes the verdict of a task: one total function over all facts that matter, and the rule that
//! applied. Each kind of task has its own facts and its own rules.

mod lock;
mod queue;
mod turn;

pub use self::lock::{LockFact, LockFacts};
pub use self::queue::QueueFacts;
pub use self::turn::{TurnFact, TurnFacts};

named! {
    /// The verdict of a task, worst first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Verdict {
        /// Positive evidence of more than one holder.
        Split = "split",
        /// Wanted, no hold has lasted for `settle`, and the gap is longer than `grace`.
        Down = "down",
        /// Held, but its progress has not moved for longer than `stale_after`.
        Stalled = "stalled",
        /// Held though nobody wants it, for longer than `wind_down`.
        Unwanted = "unwanted",
        /// No trustworthy reading for longer than `blind_after`, or none yet.
        Unknown = "unknown",
        /// Wanted and free within `grace`.
        Pending = "pending",
        /// Held by one holder, with no evidence of a problem.
        Running = "running",
        /// Free and not wanted.
        Stopped = "stopped",
    }
}

named! {
    /// Whether users want a task.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Wanted {
        /// At least one switch is on.
        Yes = "yes",
        /// All switches are known, and off.
        No = "no",
        /// No switch is known to be on, and some could not be read.
        Unknown = "unknown",
        /// The configuration names no switches.
        Unset = "unset",
    }
}

/// Everything that the verdict depends on, by the kind of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Facts {
    /// Of a task that a lock guards.
    Lock(LockFacts),
    /// Of tasks that take turns.
    Turn(TurnFacts),
    /// Of a queue of delayed tasks.
    Queue(QueueFacts),
}

impl Facts {
    /// Whether users want the task; a lost "on" counts as yes.
    pub fn wanted(self) -> Wanted {
        match self {
            Facts::Lock(facts) => facts.wanted,
            Facts::Turn(facts) => facts.wanted,
            Facts::Queue(facts) => facts.wanted,
        }
    }

    /// Whether there is positive evidence of more than one holder.
    pub fn split(self) -> bool {
        match self {
            Facts::Lock(facts) => facts.split,
            Facts::Turn(facts) => facts.split,
            Facts::Queue(facts) => facts.split,
        }
    }

    /// Whether there was no trustworthy answer on what matters for too long.
    pub fn blind(self) -> bool {
        match self {
            Facts::Lock(facts) => facts.blind,
            Facts::Turn(facts) => facts.blind,
            Facts::Queue(facts) => facts.blind,
        }
    }

    /// Whether it is wanted, certainly free, and the gap is too long.
    pub(crate) fn is_down(self) -> bool {
        match self {
            Facts::Lock(facts) => facts.is_down(),
            Facts::Turn(_) | Facts::Queue(_) => false,
        }
    }

    /// What guards the task, and what is known of it.
    pub fn guard(self) -> (&'static str, &'static str) {
        match self {
            Facts::Lock(facts) => ("lock", facts.lock.name()),
            Facts::Turn(facts) => ("turn", facts.turn.name()),
            Facts::Queue(facts) => ("queue", if facts.is_read { "read" } else { "unknown" }),
        }
    }

    /// Whether neither what guards the task nor, where that decides, the wish of the users is
    /// known.
    pub fn unjudgeable(self) -> bool {
        match self {
            Facts::Lock(facts) => facts.unjudgeable(),
            Facts::Turn(facts) => facts.unjudgeable(),
            Facts::Queue(facts) => facts.unjudgeable(),
        }
    }

    /// The rules of this kind, in the order in which they are considered.
    fn rules(self) -> &'static [Rule] {
        match self {
            Facts::Lock(_) => &lock::RULES,
            Facts::Turn(_) => &turn::RULES,
            Facts::Queue(_) => &queue::RULES,
        }
    }

    /// The verdict of `rule`; `None` if it does not apply.
    fn verdict_by(self, rule: Rule, previous: Option<Verdict>) -> Option<Verdict> {
        match rule {
            Rule::KeepPrevious if self.unjudgeable() => previous,
            Rule::NothingYet if self.unjudgeable() => Some(Verdict::Unknown),
            Rule::KeepPrevious | Rule::NothingYet => None,
            rule => match self {
                Facts::Lock(facts) => facts.verdict_by(rule),
                Facts::Turn(facts) => facts.verdict_by(rule),
                Facts::Queue(facts) => facts.verdict_by(rule),
            },
        }
    }
}

/// `verdict` if the rule `applies`.
fn when(applies: bool, verdict: Verdict) -> Option<Verdict> {
    applies.then_some(verdict)
}

named! {
    /// Which rule gave the verdict.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Rule {
        /// More than one holder.
        SplitEvidence = "split_evidence",
        /// The lock could not be read for too long.
        LockBlind = "lock_blind",
        /// Free, and whether it is wanted could not be read for too long.
        WantedBlind = "wanted_blind",
        /// Cannot be judged at present; the previous verdict stays.
        KeepPrevious = "keep_previous",
        /// Cannot be judged, and never could.
        NothingYet = "nothing_yet",
        /// Held, but not for long enough to end a gap that was published as `down`.
        HeldBriefly = "held_briefly",
        /// Held, but the work makes no progress.
        NoProgress = "no_progress",
        /// Held though unwanted, for too long.
        HeldUnwanted = "held_unwanted",
        /// Held and wanted.
        HeldWanted = "held_wanted",
        /// Held; no switches are configured.
        HeldUnset = "held_unset",
        /// Held; whether it is wanted could not be read.
        HeldWantedUnknown = "held_wanted_unknown",
        /// Held though unwanted, but not for long.
        WindingDown = "winding_down",
        /// Wanted and free, and the gap is too long.
        GapOverGrace = "gap_over_grace",
        /// Wanted and free, but not for long.
        GapWithinGrace = "gap_within_grace",
        /// Free and not wanted.
        FreeUnwanted = "free_unwanted",
        /// Free; no switches are configured.
        FreeUnset = "free_unset",
        /// Whose turn it is could not be read for too long.
        TurnBlind = "turn_blind",
        /// It is nobody's turn, and whether it is wanted could not be read for too long.
        NoTurnBlind = "no_turn_blind",
        /// The turn is over `max_late`.
        TurnLate = "turn_late",
        /// It is somebody's turn, and the task is wanted.
        TurnWanted = "turn_wanted",
        /// It is somebody's turn; no switches are configured.
        TurnUnset = "turn_unset",
        /// It is somebody's turn; whether the task is wanted could not be read.
        TurnWantedUnknown = "turn_wanted_unknown",
        /// It is somebody's turn, though nobody wants the task.
        TurnUnwanted = "turn_unwanted",
        /// Wanted, and nobody's turn for too long.
        NoTurnOverGrace = "no_turn_over_grace",
        /// Wanted and nobody's turn, but not for long.
        NoTurnWithinGrace = "no_turn_within_grace",
        /// Nobody's turn, and not wanted.
        NoTurnUnwanted = "no_turn_unwanted",
        /// Nobody's turn; no switches are configured.
        NoTurnUnset = "no_turn_unset",
        /// The queue, or whether it is wanted, could not be read for too long.
        QueueBlind = "queue_blind",
        /// A due member waits for too long.
        QueueLate = "queue_late",
        /// Nothing waits for too long, and the queue is wanted.
        QueueWanted = "queue_wanted",
        /// Nothing waits for too long; no switches are configured.
        QueueUnset = "queue_unset",
        /// Nobody wants the queue to be worked on.
        QueueUnwanted = "queue_unwanted",
    }
}

impl Rule {
    /// The rule in one sentence, for display.
    pub fn sentence(self) -> &'static str {
        match self {
            Rule::SplitEvidence => "More than one holder: there is positive evidence.",
            Rule::LockBlind => "The lock could not be read for longer than blind_after.",
            Rule::WantedBlind => {
                "Whether the task is wanted could not be read for longer than blind_after, and no \
                 hold has lasted since."
            }
            Rule::KeepPrevious => {
                "It cannot be judged at the moment, so the previous verdict stays."
            }
            Rule::NothingYet => "There is no confirmed reading yet.",
            Rule::GapOverGrace => {
                "Users want it, the lock is free, and for longer than grace no hold has lasted for \
                 settle."
            }
            Rule::HeldBriefly => {
                "The lock is held, but not yet for settle, and the task was down before that."
            }
            Rule::GapWithinGrace => {
                "Users want it, and nobody holds the lock yet; that is within grace."
            }
            Rule::NoProgress => {
                "The lock is held, but the progress has not moved for longer than stale_after."
            }
            Rule::HeldUnwanted => {
                "The lock is held though nobody has wanted it for longer than wind_down."
            }
            Rule::WindingDown => {
                "The lock is held though nobody wants it any more; that is within wind_down."
            }
            Rule::HeldWanted => "The lock is held and users want it.",
            Rule::HeldUnset => "The lock is held; no switches are configured.",
            Rule::HeldWantedUnknown => "The lock is held; whether users want it cannot be read.",
            Rule::FreeUnwanted => "The lock is free and nobody wants it.",
            Rule::FreeUnset => "The lock is free; no switches are configured.",
            Rule::TurnBlind => "Whose turn it is could not be read for longer than blind_after.",
            Rule::NoTurnBlind => {
                "It is nobody's turn, and whether the task is wanted could not be read for longer \
                 than blind_after."
            }
            Rule::TurnLate => {
                "It is somebody's turn, but that task has not passed it on for longer than \
                 max_late."
            }
            Rule::TurnWanted => "It is somebody's turn, and users want the task.",
            Rule::TurnUnset => "It is somebody's turn; no switches are configured.",
            Rule::TurnWantedUnknown => {
                "It is somebody's turn; whether users want the task cannot be read."
            }
            Rule::TurnUnwanted => "It is somebody's turn, but nobody wants the task.",
            Rule::NoTurnOverGrace => {
                "Users want it, and it has been nobody's turn for longer than grace."
            }
            Rule::NoTurnWithinGrace => {
                "Users want it, and it is nobody's turn; that is within grace."
            }
            Rule::NoTurnUnwanted => "It is nobody's turn, and nobody wants the task.",
            Rule::NoTurnUnset => "It is nobody's turn; no switches are configured.",
            Rule::QueueBlind => {
                "The queue, or whether users want it, could not be read for longer than \
                 blind_after."
            }
            Rule::QueueLate => {
                "A member of the queue is due, nobody executes it, and that has lasted longer than \
                 max_late."
            }
            Rule::QueueWanted => "Nothing that is due waits for too long, and users want it.",
            Rule::QueueUnset => {
                "Nothing that is due waits for too long; no switches are configured."
            }
            Rule::QueueUnwanted => "Nobody wants the queue to be worked on.",
        }
    }
}

/// A rule that was considered, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Considered {
    /// The rule.
    pub rule: Rule,
    /// The verdict that it gave; `None`: the rule does not apply.
    pub gave: Option<Verdict>,
}

/// Returns the verdict on `facts`, and the rule that gave it: the first of its kind's rules that
/// applies. `previous` is the verdict so far; it matters only if nothing can be judged at present.
pub fn judge(facts: Facts, previous: Option<Verdict>) -> (Verdict, Rule) {
    let gave = |rule: &Rule| Some((facts.verdict_by(*rule, previous)?, *rule));
    // A rule always applies; a test covers the table over the whole product.
    facts.rules().iter().find_map(gave).unwrap_or((Verdict::Unknown, Rule::NothingYet))
}

/// The rules that [`judge`] considered, in order, up to the one that decided.
pub fn trace(facts: Facts, previous: Option<Verdict>) -> impl Iterator<Item = Considered> {
    let mut decided = false;
    facts.rules().iter().map_while(move |rule| {
        if decided {
            return None;
        }
        let gave = facts.verdict_by(*rule, previous);
        decided = gave.is_some();
        Some(Considered { rule: *rule, gave })
    })
}
