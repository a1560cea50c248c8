//! What lockwatch says of a task: one total function over everything that matters, and the reason it gives.

/// What lockwatch says of a task, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Positive evidence of more than one holder.
    Split,
    /// Wanted, free, and the gap is longer than `grace`.
    Down,
    /// Held, but its progress has not moved for `stale_after`.
    Stalled,
    /// Held though nobody wants it, for longer than `wind_down`.
    Unwanted,
    /// No trustworthy reading for longer than `blind_after`, or none yet.
    Unknown,
    /// Wanted and free within `grace`.
    Pending,
    /// Held by one, and nothing speaks against it.
    Running,
    /// Free and not wanted.
    Stopped,
}

impl Verdict {
    /// All verdicts, worst first.
    pub const ALL: [Verdict; 8] = [
        Verdict::Split,
        Verdict::Down,
        Verdict::Stalled,
        Verdict::Unwanted,
        Verdict::Unknown,
        Verdict::Pending,
        Verdict::Running,
        Verdict::Stopped,
    ];

    /// The name in metrics, JSON and pages.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Split => "split",
            Verdict::Down => "down",
            Verdict::Stalled => "stalled",
            Verdict::Unwanted => "unwanted",
            Verdict::Unknown => "unknown",
            Verdict::Pending => "pending",
            Verdict::Running => "running",
            Verdict::Stopped => "stopped",
        }
    }
}

/// Whether users want a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wanted {
    /// Somebody's switch is on.
    Yes,
    /// All switches are known, and off.
    No,
    /// No switch is known to be on, and some could not be read.
    Unknown,
    /// The configuration names no switches.
    Unset,
}

impl Wanted {
    /// All values.
    pub const ALL: [Wanted; 4] = [Wanted::Yes, Wanted::No, Wanted::Unknown, Wanted::Unset];

    /// The name in JSON and pages.
    pub fn name(self) -> &'static str {
        match self {
            Wanted::Yes => "yes",
            Wanted::No => "no",
            Wanted::Unknown => "unknown",
            Wanted::Unset => "unset",
        }
    }
}

/// What is known of the lock, after confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockFact {
    /// Held, or looking free for the first time after that.
    Held,
    /// Free, and confirmed.
    Free,
    /// The newest attempt gave no trustworthy reading, or there was none yet.
    Unknown,
}

impl LockFact {
    /// All values.
    pub const ALL: [LockFact; 3] = [LockFact::Held, LockFact::Free, LockFact::Unknown];

    /// The name in JSON and pages.
    pub fn name(self) -> &'static str {
        match self {
            LockFact::Held => "held",
            LockFact::Free => "free",
            LockFact::Unknown => "unknown",
        }
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

/// Which rule gave the verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// More than one holder.
    SplitEvidence,
    /// The lock could not be read for too long.
    LockBlind,
    /// Free, and whether it is wanted could not be read for too long.
    WantedBlind,
    /// Cannot be judged just now; the previous verdict stays.
    KeepPrevious,
    /// Cannot be judged, and never could.
    NothingYet,
    /// Wanted and free for too long.
    GapOverGrace,
    /// Wanted and free, but not for long.
    GapWithinGrace,
    /// Held, but the work does not move.
    NoProgress,
    /// Held though nobody wants it, for too long.
    HeldUnwanted,
    /// Held though nobody wants it, but not for long.
    WindingDown,
    /// Held and wanted.
    HeldWanted,
    /// Held; nobody says whether it is wanted.
    HeldUnset,
    /// Held; whether it is wanted could not be read.
    HeldWantedUnknown,
    /// Free and not wanted.
    FreeUnwanted,
    /// Free; nobody says whether it is wanted.
    FreeUnset,
}

impl Rule {
    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Rule::SplitEvidence => "split_evidence",
            Rule::LockBlind => "lock_blind",
            Rule::WantedBlind => "wanted_blind",
            Rule::KeepPrevious => "keep_previous",
            Rule::NothingYet => "nothing_yet",
            Rule::GapOverGrace => "gap_over_grace",
            Rule::GapWithinGrace => "gap_within_grace",
            Rule::NoProgress => "no_progress",
            Rule::HeldUnwanted => "held_unwanted",
            Rule::WindingDown => "winding_down",
            Rule::HeldWanted => "held_wanted",
            Rule::HeldUnset => "held_unset",
            Rule::HeldWantedUnknown => "held_wanted_unknown",
            Rule::FreeUnwanted => "free_unwanted",
            Rule::FreeUnset => "free_unset",
        }
    }

    /// The rule in a sentence for people.
    pub fn sentence(self) -> &'static str {
        match self {
            Rule::SplitEvidence => "More than one holder: there is positive evidence.",
            Rule::LockBlind => "The lock could not be read for longer than blind_after.",
            Rule::WantedBlind => {
                "The lock is free, and whether it is wanted could not be read for longer than blind_after."
            }
            Rule::KeepPrevious => "It cannot be judged at the moment, so the previous verdict stays.",
            Rule::NothingYet => "There is no confirmed reading yet.",
            Rule::GapOverGrace => "Users want it, and nobody has held the lock for longer than grace.",
            Rule::GapWithinGrace => "Users want it, and nobody holds the lock yet; that is within grace.",
            Rule::NoProgress => "The lock is held, but the progress has not moved for longer than stale_after.",
            Rule::HeldUnwanted => "The lock is held though nobody has wanted it for longer than wind_down.",
            Rule::WindingDown => "The lock is held though nobody wants it any more; that is within wind_down.",
            Rule::HeldWanted => "The lock is held and users want it.",
            Rule::HeldUnset => "The lock is held; no switches are configured.",
            Rule::HeldWantedUnknown => "The lock is held; whether users want it cannot be read.",
            Rule::FreeUnwanted => "The lock is free and nobody wants it.",
            Rule::FreeUnset => "The lock is free; no switches are configured.",
        }
    }
}

/// The verdict on `facts`, and the rule that gave it. `previous` is the verdict so far; it matters only where nothing
/// can be judged at the moment.
pub fn judge(facts: Facts, previous: Option<Verdict>) -> (Verdict, Rule) {
    let keep = || match previous {
        Some(verdict) => (verdict, Rule::KeepPrevious),
        None => (Verdict::Unknown, Rule::NothingYet),
    };
    if facts.split {
        return (Verdict::Split, Rule::SplitEvidence);
    }
    match (facts.lock, facts.wanted) {
        (LockFact::Unknown, _) if facts.blind => (Verdict::Unknown, Rule::LockBlind),
        (LockFact::Unknown, _) => keep(),
        (LockFact::Held, Wanted::Yes | Wanted::Unset) if facts.stale => (Verdict::Stalled, Rule::NoProgress),
        (LockFact::Held, Wanted::No) if facts.over_wind_down => (Verdict::Unwanted, Rule::HeldUnwanted),
        (LockFact::Held, Wanted::Yes) => (Verdict::Running, Rule::HeldWanted),
        (LockFact::Held, Wanted::Unset) => (Verdict::Running, Rule::HeldUnset),
        (LockFact::Held, Wanted::Unknown) => (Verdict::Running, Rule::HeldWantedUnknown),
        (LockFact::Held, Wanted::No) => (Verdict::Running, Rule::WindingDown),
        (LockFact::Free, Wanted::Yes) if facts.gap_over_grace => (Verdict::Down, Rule::GapOverGrace),
        (LockFact::Free, Wanted::Yes) => (Verdict::Pending, Rule::GapWithinGrace),
        (LockFact::Free, Wanted::Unknown) if facts.blind => (Verdict::Unknown, Rule::WantedBlind),
        (LockFact::Free, Wanted::Unknown) => keep(),
        (LockFact::Free, Wanted::No) => (Verdict::Stopped, Rule::FreeUnwanted),
        (LockFact::Free, Wanted::Unset) => (Verdict::Stopped, Rule::FreeUnset),
    }
}
