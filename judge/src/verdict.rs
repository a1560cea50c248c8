//! Computes the verdict of a task: one total function over all facts that matter, and the rule that
//! applied.

named! {
    /// The verdict of a task, worst first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Verdict {
        /// Positive evidence of more than one holder.
        Split = "split",
        /// Wanted, free, and the gap is longer than `grace`.
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

named! {
    /// What is known of the lock, after confirmation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum LockFact {
        /// Held, or looking free for the first time after that.
        Held = "held",
        /// Free, and confirmed.
        Free = "free",
        /// The newest attempt gave no trustworthy reading, or there was none yet.
        Unknown = "unknown",
    }
}

/// Everything that the verdict depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Facts {
    /// Whether users want the task; a lost "on" counts as yes.
    pub wanted: Wanted,
    /// What is known of the lock.
    pub lock: LockFact,
    /// There is positive evidence of more than one holder.
    pub split: bool,
    /// The gap is longer than `grace`.
    pub gap_over_grace: bool,
    /// The progress has not moved for longer than `stale_after`.
    pub stale: bool,
    /// Held though not wanted for longer than `wind_down`.
    pub over_wind_down: bool,
    /// No trustworthy answer on what matters for longer than `blind_after`.
    pub blind: bool,
}

impl Facts {
    /// Whether neither the lock nor, while it is free, the wish of the users is known.
    pub(crate) fn unjudgeable(&self) -> bool {
        self.lock == LockFact::Unknown
            || self.lock == LockFact::Free && self.wanted == Wanted::Unknown
    }
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
        /// Wanted and free for too long.
        GapOverGrace = "gap_over_grace",
        /// Wanted and free, but not for long.
        GapWithinGrace = "gap_within_grace",
        /// Free and not wanted.
        FreeUnwanted = "free_unwanted",
        /// Free; no switches are configured.
        FreeUnset = "free_unset",
    }
}

impl Rule {
    /// The verdict of this rule; `None` if it does not apply.
    fn gives(self, facts: Facts, previous: Option<Verdict>) -> Option<Verdict> {
        let Facts { wanted, lock, split, gap_over_grace, stale, over_wind_down, blind } = facts;
        let (held, free) = (lock == LockFact::Held, lock == LockFact::Free);
        let unjudgeable = facts.unjudgeable();
        let when = |applies: bool, verdict| applies.then_some(verdict);
        match self {
            Rule::SplitEvidence => when(split, Verdict::Split),
            Rule::LockBlind => when(lock == LockFact::Unknown && blind, Verdict::Unknown),
            Rule::WantedBlind => when(free && wanted == Wanted::Unknown && blind, Verdict::Unknown),
            Rule::KeepPrevious if unjudgeable => previous,
            Rule::KeepPrevious => None,
            Rule::NothingYet => when(unjudgeable, Verdict::Unknown),
            Rule::NoProgress => when(
                held && matches!(wanted, Wanted::Yes | Wanted::Unset) && stale,
                Verdict::Stalled,
            ),
            Rule::HeldUnwanted => {
                when(held && wanted == Wanted::No && over_wind_down, Verdict::Unwanted)
            }
            Rule::HeldWanted => when(held && wanted == Wanted::Yes, Verdict::Running),
            Rule::HeldUnset => when(held && wanted == Wanted::Unset, Verdict::Running),
            Rule::HeldWantedUnknown => when(held && wanted == Wanted::Unknown, Verdict::Running),
            Rule::WindingDown => when(held && wanted == Wanted::No, Verdict::Running),
            Rule::GapOverGrace => {
                when(free && wanted == Wanted::Yes && gap_over_grace, Verdict::Down)
            }
            Rule::GapWithinGrace => when(free && wanted == Wanted::Yes, Verdict::Pending),
            Rule::FreeUnwanted => when(free && wanted == Wanted::No, Verdict::Stopped),
            Rule::FreeUnset => when(free && wanted == Wanted::Unset, Verdict::Stopped),
        }
    }

    /// The rule in one sentence, for display.
    pub fn sentence(self) -> &'static str {
        match self {
            Rule::SplitEvidence => "More than one holder: there is positive evidence.",
            Rule::LockBlind => "The lock could not be read for longer than blind_after.",
            Rule::WantedBlind => {
                "The lock is free, and whether it is wanted could not be read for longer than \
                 blind_after."
            }
            Rule::KeepPrevious => {
                "It cannot be judged at the moment, so the previous verdict stays."
            }
            Rule::NothingYet => "There is no confirmed reading yet.",
            Rule::GapOverGrace => {
                "Users want it, and nobody has held the lock for longer than grace."
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

/// Returns the verdict on `facts`, and the rule that gave it: the first of [`Rule::ALL`] that
/// applies. `previous` is the verdict so far; it matters only if nothing can be judged at present.
pub fn judge(facts: Facts, previous: Option<Verdict>) -> (Verdict, Rule) {
    let gave = |rule: &Rule| Some((rule.gives(facts, previous)?, *rule));
    // A rule always applies; a test covers the table over the whole product.
    Rule::ALL.iter().find_map(gave).unwrap_or((Verdict::Unknown, Rule::NothingYet))
}

/// The rules that [`judge`] considered, in order, up to the one that decided.
pub fn trace(facts: Facts, previous: Option<Verdict>) -> impl Iterator<Item = Considered> {
    let mut decided = false;
    Rule::ALL.iter().map_while(move |rule| {
        if decided {
            return None;
        }
        let gave = rule.gives(facts, previous);
        decided = gave.is_some();
        Some(Considered { rule: *rule, gave })
    })
}
