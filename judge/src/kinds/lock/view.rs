//! What outputs show of a lock.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::hold::Hold;
use crate::event::Party;
use crate::kinds::runs::view::RunsView;
use crate::reading::{Contender, Deadline, Held, Holder, Mode, Stands, Unknown};
use crate::seldom::{Absent, Seldom};
use crate::shared::hosts::Hosts;
use crate::shared::splits::witnesses::WitnessView;
use crate::spec::StoreIndex;
use crate::time::{Mono, ServerTime};
use crate::verdict::LockFact;

/// What is known of a lock beside the facts that all kinds have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockView {
    /// Its state, after confirmation.
    pub fact: LockFact,
    /// The present hold; `None` unless `held` is true.
    pub hold: Option<HoldView>,
    /// The hold that ended last in this process.
    pub last: Option<Arc<LastHold>>,
    /// Number of waiters, if known.
    pub waiters: Option<u32>,
    /// Full lifetime of a hold, if configured or learned.
    pub lease_ms: Option<u64>,
    /// Pause between two renewals, if configured, learned or given by the library's rule.
    pub renewal_period_ms: Option<u64>,
    /// Its newest renewals, by any holder.
    pub renewals: Renewals,
    /// What most locks never show.
    pub rare: Seldom<RareLockView>,
}

impl LockView {
    /// Whether it is held by a session, and ends with it.
    pub fn ends_with_session(&self) -> bool {
        let holds = |it: &Contender| it.stands == Stands::Holds && it.session.is_some();
        self.rare.queue.as_ref().is_some_and(|queue| queue.iter().any(holds))
    }
}

/// What is shown of few locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RareLockView {
    /// The newest fencing token, if known.
    pub fencing_token: Option<i64>,
    /// Those at the head of its queue, in their order, if the newest reading shows them.
    pub queue: Option<Arc<Vec<Contender>>>,
    /// What the other servers show, as evidence only.
    pub witnesses: Vec<WitnessView>,
    /// Its runs, if it exists only while one lasts.
    pub runs: Option<Arc<RunsView>>,
    /// What each of its stores shows, in the order of the configuration; `None`: there is only one.
    pub stores: Option<Arc<Vec<StoreShows>>>,
}

impl Absent for RareLockView {
    const ABSENT: &'static RareLockView = &RareLockView {
        fencing_token: None,
        queue: None,
        witnesses: Vec::new(),
        runs: None,
        stores: None,
    };
}

/// The instants of the newest renewals of a lock; at most [`RENEWALS_KEPT`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renewals(Option<Arc<Newest>>);

#[derive(Debug, PartialEq, Eq)]
struct Newest {
    at: Mono,
    /// How long each was before it, oldest first. Instants would take twice the memory.
    ages_ms: Box<[u32]>,
}

impl Renewals {
    /// Oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Mono> + '_ {
        self.0.iter().flat_map(|newest| {
            newest.ages_ms.iter().map(|age_ms| newest.at.minus_ms(u64::from(*age_ms)))
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |newest| newest.ages_ms.len())
    }

    /// Adds the newest, at `at`.
    pub(super) fn push(&mut self, at: Mono) {
        let too_many = (self.count() + 1).saturating_sub(RENEWALS_KEPT);
        *self = self.iter().skip(too_many).chain([at]).collect();
    }
}

/// Oldest first.
impl FromIterator<Mono> for Renewals {
    fn from_iter<I: IntoIterator<Item = Mono>>(instants: I) -> Renewals {
        let instants: Vec<Mono> = instants.into_iter().collect();
        Renewals(instants.last().map(|newest| {
            let age = |at: &Mono| u32::try_from(newest.since_ms(*at)).unwrap_or(u32::MAX);
            Arc::new(Newest { at: *newest, ages_ms: instants.iter().map(age).collect() })
        }))
    }
}

/// What one of several stores shows of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreShows {
    /// The store.
    pub store: StoreIndex,
    /// When the request of its newest accepted reading was sent.
    pub at: Option<Mono>,
    /// Its holders, none if it is free there; `None`: it was not read, or too long ago.
    pub holders: Option<Vec<Holder>>,
    /// Why the newest reading is no answer.
    pub unknown: Option<Unknown>,
}

impl Default for LockView {
    /// Nothing was read yet.
    fn default() -> LockView {
        LockView {
            fact: LockFact::Unknown,
            hold: None,
            last: None,
            waiters: None,
            lease_ms: None,
            renewal_period_ms: None,
            renewals: Renewals::default(),
            rare: Seldom::default(),
        }
    }
}

/// A hold that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastHold {
    /// Its holders.
    pub holders: Vec<Party>,
    /// When it was last seen, on the server's clock.
    pub seen: ServerTime,
}

/// The holders of a hold, each with its host if known. The views share them with the reading.
#[derive(Clone, Debug)]
pub struct HeldBy {
    held: Arc<Held>,
    /// In the order of the holders; absent while none is known.
    hosts: Seldom<Vec<Option<Vec<u8>>>>,
}

impl HeldBy {
    pub(super) fn new(held: &Arc<Held>, hosts: &Hosts) -> HeldBy {
        let of = |holder: &Holder| hosts.of(&holder.client).cloned();
        let is_known = held.holders.iter().any(|holder| hosts.of(&holder.client).is_some());
        let known = held.holders.iter().filter(|_| is_known).map(of);
        HeldBy { held: Arc::clone(held), hosts: known.collect() }
    }

    /// In the order of the reading.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Holder, Option<&[u8]>)> {
        let host = |position| self.hosts.get(position).and_then(Option::as_deref);
        self.held.holders.iter().enumerate().map(move |(at, holder)| (holder, host(at)))
    }
}

impl PartialEq for HeldBy {
    fn eq(&self, other: &HeldBy) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for HeldBy {}

/// Holders as no reading showed them.
impl FromIterator<(Holder, Option<Vec<u8>>)> for HeldBy {
    fn from_iter<I: IntoIterator<Item = (Holder, Option<Vec<u8>>)>>(holders: I) -> HeldBy {
        let (holders, hosts): (_, Vec<_>) = holders.into_iter().unzip();
        let (mode, ghosts, deadline) = (Mode::Exclusive, 0, Deadline::Torn);
        let held = Arc::new(Held { mode, holders, ghosts, deadline });
        HeldBy { held, hosts: hosts.into_iter().collect() }
    }
}

/// The present hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldView {
    /// Whether holders exclude each other.
    pub mode: Mode,
    /// The holders, with their hosts if known.
    pub holders: HeldBy,
    /// Readers that died but still block writers.
    pub ghosts: u32,
    /// When the lock was acquired, on the server's clock; `None` when its start was not seen.
    pub acquired: Option<ServerTime>,
    /// Minimum duration of the hold so far.
    pub held_ms: u64,
    /// When the lock was last renewed, on the server's clock.
    pub last_renewal: Option<ServerTime>,
    /// When the lease ends, on the server's clock.
    pub deadline: Option<ServerTime>,
    /// Remaining lease at the newest reading.
    pub ttl_ms: Option<u64>,
    /// Held without a TTL; `None` when the deadline was torn.
    pub persistent: Option<bool>,
    /// Delay of the newest renewal.
    pub last_renewal_latency_ms: Option<u64>,
    /// Remaining TTL when the newest renewal landed.
    pub last_renewal_margin_ms: Option<u64>,
    /// Delay of the next renewal so far; 0 when it is not late, or when this hold is not renewed.
    pub renewal_overdue_ms: u64,
}

/// Most instants of renewals that are kept of a task: enough for a drawing of some minutes.
pub const RENEWALS_KEPT: usize = 48;

impl Hold {
    /// Whether it has no TTL; `None` when the deadline was torn.
    pub(crate) fn is_persistent(&self) -> Option<bool> {
        match self.held.deadline {
            Deadline::At(_) => Some(false),
            Deadline::Never => Some(true),
            Deadline::Torn => None,
        }
    }

    /// The view of this hold, with `ttl_ms` left at the newest reading.
    pub(crate) fn view(&self, hosts: &Hosts, ttl_ms: Option<u64>) -> HoldView {
        HoldView {
            mode: self.held.mode,
            holders: HeldBy::new(&self.held, hosts),
            ghosts: self.held.ghosts,
            acquired: self.acquired,
            held_ms: self.held_ms(),
            last_renewal: self.deadlines.last_renewal,
            deadline: match self.held.deadline {
                Deadline::At(_) => self.deadlines.newest(),
                Deadline::Never | Deadline::Torn => None,
            },
            ttl_ms,
            persistent: self.is_persistent(),
            last_renewal_latency_ms: self.deadlines.last_latency_ms,
            last_renewal_margin_ms: self.deadlines.last_margin_ms,
            renewal_overdue_ms: self.overdue_ms,
        }
    }
}
