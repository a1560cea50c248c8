//! Which problems there are, and what they are judged by in addition to the other fields of a view.
//! All of it was seen by this process: what an earlier one saw is Prometheus' to remember.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::{Party, SplitKind};
use crate::time::Mono;

named! {
    /// A condition that deserves an alert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Problem {
        /// Wanted, and nobody holds the lock.
        Down = "down",
        /// More than one holder.
        Split = "split",
        /// Held, but the work does not move.
        Stalled = "stalled",
        /// No run of a periodic task began in time.
        Overdue = "overdue",
        /// Its script ends with an error again and again.
        Failing = "failing",
        /// The task cannot be read though its store answers.
        Blind = "blind",
        /// Switches that were on vanished together with other data.
        SwitchesLost = "switches_lost",
        /// The switches' key was never seen to exist.
        SwitchesUnseen = "switches_unseen",
        /// A lock was lost while its holder lived.
        LockLost = "lock_lost",
        /// Held though nobody wants it.
        Unwanted = "unwanted",
        /// The next renewal is late.
        RenewalOverdue = "renewal_overdue",
        /// A hold ended by expiry.
        LeaseExpired = "lease_expired",
        /// Held without a TTL.
        Persistent = "persistent",
        /// Held longer than `max_hold`.
        HeldTooLong = "held_too_long",
        /// A run lasts longer than `max`.
        Overran = "overran",
        /// Nobody waits to take over.
        NoCandidate = "no_candidate",
        /// Held, and the configured progress is not there.
        ProgressMissing = "progress_missing",
        /// Gaps and short holds follow each other.
        Flapping = "flapping",
        /// Holders come back while the lease of their successor runs.
        Contended = "contended",
        /// Held, and it cannot be read whether a user wants it.
        Undecodable = "undecodable",
        /// Another worker executes a member of a queue that was executed before.
        ExecutedAgain = "executed_again",
        /// Who executes a member of a queue shows no sign of life.
        DeadHolder = "dead_holder",
        /// The lock of a member that left the queue.
        OrphanLock = "orphan_lock",
        /// Due members left a queue that nobody was seen to execute.
        Vanished = "vanished",
        /// A deciding server cannot be read.
        Unreachable = "unreachable",
        /// Two servers report that they are master.
        RivalMaster = "rival_master",
        /// A configured Sentinel does not name the master that the others name.
        SentinelMissing = "sentinel_missing",
        /// A replica lacks the newest holds, or does not answer.
        ReplicaBehind = "replica_behind",
        /// A server's clock jumped against the agent's.
        ClockStep = "clock_step",
    }
}

/// Number of changes that count as flapping.
pub(crate) const FLAPS: usize = 5;
/// Number of holders that come back which count as contended.
pub(crate) const RETURNS: usize = 3;

/// Grounds of one task's problems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grounds {
    /// The newest attempt answered everything that matters.
    pub readable: bool,
    /// Some attempt did.
    pub was_readable: bool,
    /// The lock is held, and has been without a break for `settle`.
    pub settled: bool,
    /// The present gap was published as `down` while the lock was free.
    pub published_down: bool,
    /// The work was seen to move, or the present hold to begin, and not too long ago.
    pub moves: bool,
    /// The switches' key was seen, and the newest reading shows that none is missing.
    pub switches_kept: bool,
    /// The part of the unreadable time in which the store answered, in milliseconds.
    pub answered_ms: u64,
    /// What is rare; absent until it happens.
    pub rare: Option<Arc<Rare>>,
}

/// Since when a condition is seen, on the agent's clock; `None`: it is not so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// The switches' key was looked for, and not found.
    pub switches_unseen: Option<Mono>,
    /// Held without a TTL.
    pub persistent: Option<Mono>,
    /// Held, and nobody waits though somebody must.
    pub no_candidate: Option<Mono>,
    /// Held, and no progress to judge by.
    pub progress_missing: Option<Mono>,
    /// Its script fails: since the first of the errors that count.
    pub failing: Option<Mono>,
    /// Held, and a switch cannot be read.
    pub undecodable: Option<Mono>,
    /// Who executes a member of a queue shows no sign of life.
    pub dead_holder: Option<Mono>,
    /// The lock of a member is held that left the queue: since it left.
    pub orphan_lock: Option<Mono>,
}

/// The holds of one gap that broke before they had lasted for `settle`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortHolds {
    /// How many.
    pub count: u32,
    /// How many of them ended because their lease ran out.
    pub expired: u32,
    /// The longest of them, in milliseconds.
    pub longest_ms: u64,
}

/// Rare grounds of one task's problems.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rare {
    /// Conditions of which it matters how long they last.
    pub since: Since,
    /// When a split was last in force.
    pub split: Option<Mono>,
    /// The kind of the newest split, and its parties when it began.
    pub split_by: Option<(SplitKind, Vec<Party>)>,
    /// When a living holder lost its lock.
    pub lock_lost: Option<Mono>,
    /// When a hold expired.
    pub lease_expired: Option<Mono>,
    /// When another worker began with a member of a queue that was executed before.
    pub executed_again: Option<Mono>,
    /// When due members left a queue that nobody was seen to execute.
    pub vanished: Option<Mono>,
    /// The holds of the present gap that were too short to end it.
    pub short_holds: ShortHolds,
    /// When gaps ended and holds were too short, oldest first; the newest five.
    pub flaps: Vec<Mono>,
    /// When holders came back while the lease of their successor ran, since the lock was last seen
    /// free, oldest first; the newest three.
    pub returns: Vec<Mono>,
    /// When the newest pause began, and what was shown before it.
    pub pause_began: Option<Mono>,
    /// Until when it lasts.
    pub pause_until: Option<Mono>,
    /// When it ended.
    pub pause_ended: Option<Mono>,
    /// The problems that were positive when it began. They are shown all the same.
    pub shown: Vec<Problem>,
}

impl Grounds {
    /// Since when conditions are seen of which it matters how long they last.
    pub fn since(&self) -> Since {
        self.rare.as_ref().map_or(Since::default(), |rare| rare.since)
    }

    /// Whether there is such a condition.
    pub fn counts_time(&self) -> bool {
        self.since() != Since::default()
    }

    /// Replaces them.
    pub(crate) fn note_since(&mut self, since: Since) {
        if since != self.since() {
            self.rare().since = since;
        }
    }

    /// The holds of the present gap that were too short to end it.
    pub fn short_holds(&self) -> ShortHolds {
        self.rare.as_ref().map_or(ShortHolds::default(), |rare| rare.short_holds)
    }

    /// What is rare, for modification.
    pub(crate) fn rare(&mut self) -> &mut Rare {
        Arc::make_mut(self.rare.get_or_insert_default())
    }

    /// A gap ended, or a hold was too short to end it.
    pub(crate) fn flapped(&mut self, at: Mono) {
        push_newest(&mut self.rare().flaps, FLAPS, at);
    }

    /// A holder came back while the lease of its successor ran.
    pub(crate) fn came_back(&mut self, at: Mono) {
        push_newest(&mut self.rare().returns, RETURNS, at);
    }

    /// The lock was seen free.
    pub(crate) fn seen_free(&mut self) {
        if self.rare.as_ref().is_some_and(|rare| !rare.returns.is_empty()) {
            self.rare().returns.clear();
        }
    }

    /// Whether alerts wait.
    pub(crate) fn is_paused(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.is_paused())
    }

    /// Alerts wait from `at` on, or no longer. `shown` are the problems that were positive before.
    pub(crate) fn paused(&mut self, paused: bool, at: Mono, shown: Vec<Problem>) {
        let rare = self.rare();
        match paused {
            true => (rare.pause_began, rare.pause_ended, rare.shown) = (Some(at), None, shown),
            false => rare.pause_ended = Some(at),
        }
    }
}

impl Rare {
    pub(crate) fn is_paused(&self) -> bool {
        self.pause_began.is_some() && self.pause_ended.is_none()
    }

    /// Whether alerts wait, and `problem` was not shown before they did.
    pub(crate) fn withholds(&self, problem: Problem) -> bool {
        self.is_paused() && !self.shown.contains(&problem)
    }
}

fn push_newest(instants: &mut Vec<Mono>, max: usize, at: Mono) {
    if instants.len() == max {
        instants.remove(0);
    }
    instants.push(at);
}

/// A stopwatch for a condition.
pub(crate) fn follow(since: &mut Option<Mono>, holds: bool, at: Mono) {
    match holds {
        true => _ = since.get_or_insert(at),
        false => *since = None,
    }
}

/// Grounds of one store's problems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreGrounds {
    /// Every deciding server was read at least once.
    pub was_read: bool,
    /// The smallest `blind_after` of its tasks, in milliseconds.
    pub blind_after_ms: u64,
    /// All its tasks have a lock on other stores as well, so one store that fails is not critical.
    pub is_one_of_several: bool,
    /// Since when two servers report that they are master.
    pub rival_master: Option<Mono>,
    /// Since when not all Sentinels name the same master.
    pub sentinel_missing: Option<Mono>,
    /// Since when a replica lacks most of the newest holds, or does not answer.
    pub replica_behind: Option<Mono>,
    /// When a clock stepped last.
    pub clock_step: Option<Mono>,
}
