//! What the worlds with guards are for.

use crate::world::How;

/// Something that occurs to guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    /// A script was started.
    Started,
    /// A script ended in this way.
    Ended(How),
    /// A guard took the lock after another guard.
    TakeOver,
    /// A guard took the lock after a worker of Redisson.
    FromRedisson,
    /// A worker of Redisson took the lock after a guard.
    ToRedisson,
    /// A script was killed because its lock was lost.
    Lost,
    /// A script ran beyond its lease while neither guard nor keeper could kill it.
    Overran,
    /// Another script ran meanwhile.
    TwoRan,
    /// The guard reported an overrun.
    Reported,
    /// The report was in the hash of claims.
    Written,
    /// An agent counted it as a split.
    Counted,
    /// An agent could not see it: it was blind, or the report was lost with the data.
    Unseen,
}

impl Seen {
    pub(super) const ALL: [Seen; 16] = [
        Seen::Started,
        Seen::Ended(How::Itself),
        Seen::Ended(How::Deadline),
        Seen::Ended(How::GuardGone),
        Seen::Ended(How::KeeperGone),
        Seen::Ended(How::Guard),
        Seen::TakeOver,
        Seen::FromRedisson,
        Seen::ToRedisson,
        Seen::Lost,
        Seen::Overran,
        Seen::TwoRan,
        Seen::Reported,
        Seen::Written,
        Seen::Counted,
        Seen::Unseen,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Seen::Started => "started",
            Seen::Ended(How::Itself) => "ended",
            Seen::Ended(How::Deadline) => "killed at the deadline",
            Seen::Ended(How::GuardGone) => "killed without guard",
            Seen::Ended(How::KeeperGone) => "killed without keeper",
            Seen::Ended(How::Guard) => "killed by the guard",
            Seen::TakeOver => "take-over",
            Seen::FromRedisson => "from Redisson",
            Seen::ToRedisson => "to Redisson",
            Seen::Lost => "lost",
            Seen::Overran => "overran",
            Seen::TwoRan => "two ran",
            Seen::Reported => "reported",
            Seen::Written => "written",
            Seen::Counted => "counted",
            Seen::Unseen => "unseen",
        }
    }
}
