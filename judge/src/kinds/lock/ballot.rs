//! A lock that stands on several independent stores: what each of them showed last, and what that
//! says about the lock as a whole.
//!
//! The stores are read at their own times. Once each has been read again, or an interval later, the
//! newest readings are counted, and the result is a reading of the lock as any other. Its instants
//! are on one clock, the agent's: each store's deadlines are moved there by the difference of the
//! two clocks. The difference of one hold is measured once, so that a deadline that stays does not
//! seem to move because a request took longer.
//!
//! `RedissonRedLock` has a client for each server, so a holder has another id on each, and
//! only its thread is the same everywhere. The first id that was seen names it while one of
//! its ids stays.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::hold::continues;
use super::spec::Stores;
use super::view::StoreShows;
use crate::evidence::{NOISE_MS, Origin};
use crate::input::Generation;
use crate::reading::{Deadline, Held, Holder, LockReading, Mode, Unknown};
use crate::spec::{Agreement, StoreIndex};
use crate::step::Accepted;
use crate::time::{Mono, ServerTime, to_i64};

/// A difference of two clocks that changed by more than this is measured again, in milliseconds.
const DRIFT_MS: i64 = 250;
/// Maximum number of ids that are remembered of one holder. A holder has one on each store.
const IDS_MAX: usize = 64;
/// A holder lives if its deadline moved forward as often while another store showed another one.
const MOVES_OF_A_RIVAL: u8 = 2;

/// The newest readings of the stores of one lock.
#[derive(Clone, Debug)]
pub(super) struct Ballot {
    mode: Agreement,
    votes: Vec<Vote>,
    /// The agent's wall clock minus the monotonic one, as of the first reading.
    clock_ms: Option<i64>,
    /// The longest interval of the stores.
    interval_ms: u64,
    /// When the readings were counted last; before that, when the first one came.
    counted: Option<Mono>,
    /// The newest request among all readings.
    newest: Mono,
    /// The newest hold, which the next reading shares while it does not change.
    held: Option<Arc<Held>>,
    /// All ids of its holders that were seen on any store.
    ids: Vec<Holder>,
    /// Its flushes are the holds that were lost together with the data of too many stores.
    generation: Arc<Generation>,
}

/// What is known of one store.
#[derive(Clone, Debug)]
struct Vote {
    store: StoreIndex,
    /// It was read, or failed, since the readings were counted last.
    is_new: bool,
    newest: Result<(), Unknown>,
    read: Option<Read>,
    /// Where that came from.
    origin: Option<Arc<Origin>>,
    /// It lost the present hold together with its data.
    lost: bool,
}

/// An accepted reading of one store.
#[derive(Clone, Debug)]
struct Read {
    sent: Mono,
    /// For how long it says something, in milliseconds.
    valid_ms: u64,
    shown: Option<Shown>,
}

/// A hold that one store shows.
#[derive(Clone, Debug)]
struct Shown {
    held: Arc<Held>,
    /// The store's clock minus the common one, measured when the hold was first seen.
    ahead_ms: i64,
    /// On the common clock.
    deadline: Deadline,
    /// The first reading that shows it; `None`: the first of this store did.
    since: Option<Mono>,
    /// Its deadline has moved forward.
    has_moved: bool,
    /// The other holders that other stores showed with it.
    rivals: Vec<Arc<Held>>,
    /// How often its deadline moved forward next to exactly these.
    moves_as_rival: u8,
}

/// The readings as they were counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    /// When the request of the newest reading was sent.
    pub(super) sent: Mono,
    /// The same on the common clock.
    pub(super) clock: ServerTime,
    pub(super) interval_ms: u64,
    pub(super) generation: Arc<Generation>,
    pub(super) lock: LockReading,
}

impl Ballot {
    pub(super) fn new(stores: &Stores) -> Ballot {
        let vote = |store: &StoreIndex| Vote {
            store: *store,
            is_new: false,
            newest: Err(Unknown::NotReadYet),
            read: None,
            origin: None,
            lost: false,
        };
        Ballot {
            mode: stores.mode,
            votes: stores.all.iter().map(vote).collect(),
            clock_ms: None,
            interval_ms: 0,
            counted: None,
            newest: Mono::at(0),
            held: None,
            ids: Vec::new(),
            generation: Arc::default(),
        }
    }

    /// Whether it counts the readings of these stores.
    pub(super) fn is_of(&self, stores: &Stores) -> bool {
        self.mode == stores.mode && self.votes.iter().map(|vote| &vote.store).eq(&stores.all)
    }

    /// Takes in what one store shows. Returns the count, if it is time for one.
    pub(super) fn observe(&mut self, lock: &LockReading, batch: Accepted<'_>) -> Option<Count> {
        let seen = batch.seen();
        let ahead_ms = seen.first.ms() - to_i64(seen.sent.ms());
        let clock_ms = *self.clock_ms.get_or_insert(ahead_ms - batch.attestation.clock_offset_ms);
        self.interval_ms = self.interval_ms.max(batch.interval_ms);
        self.newest = self.newest.max(batch.sent);
        let rivals = self.rivals(batch.store, lock, batch.sent);
        let vote = self.votes.iter_mut().find(|vote| vote.store == batch.store)?;
        let held = match lock {
            LockReading::Held(held) => Ok(Some(held)),
            LockReading::Free => Ok(None),
            LockReading::Unknown(why) => Err(*why),
        };
        vote.newest = held.map(|_| ());
        let delta = batch.delta(vote.origin.as_deref());
        if vote.origin.is_none() || batch.origin.generation.is_some() {
            vote.origin = Some(Arc::clone(batch.origin));
        }
        let now = ServerTime::at(to_i64(batch.sent.ms()) + clock_ms);
        let before = vote.read.take();
        vote.read = held.ok().map(|held| {
            let was_read = before.is_some();
            let old = before.and_then(|read| read.shown);
            let is_gone = |old: &Shown| held.is_none_or(|held| !continues(&old.held, held));
            let ended = old.as_ref().filter(|old| is_gone(old));
            let early = ended.is_some_and(|it| it.deadline.instant().is_none_or(|end| now < end));
            vote.lost = (vote.lost || early && (delta.emptied || delta.slot_flushed))
                && old.as_ref().is_none_or(is_gone);
            let shown = held.map(|held| {
                let ahead_ms = ahead_ms - clock_ms;
                let since = was_read.then_some(batch.sent);
                Shown::next(old, held, ahead_ms, since, rivals)
            });
            let valid_ms = batch.interval_ms.saturating_add(batch.timeout_ms);
            Read { sent: batch.sent, valid_ms, shown }
        });
        vote.is_new = true;
        self.count_if_due(batch.sent)
    }

    /// A store was not read. Its earlier reading stays for as long as it is not too old.
    pub(super) fn failed(&mut self, store: StoreIndex, why: Unknown, at: Mono) -> Option<Count> {
        let vote = self.votes.iter_mut().find(|vote| vote.store == store)?;
        (vote.newest, vote.is_new) = (Err(why), true);
        self.count_if_due(at)
    }

    /// What each store shows, in the order of the configuration.
    pub(super) fn view(&self) -> Vec<StoreShows> {
        let view = |vote: &Vote| StoreShows {
            store: vote.store,
            at: vote.read.as_ref().map(|read| read.sent),
            holders: vote
                .current(self.counted.unwrap_or(self.newest))
                .map(|shown| shown.map(|it| it.held.holders.clone()).unwrap_or_default()),
            unknown: vote.newest.err(),
        };
        self.votes.iter().map(view).collect()
    }

    /// What other stores show of other holders than this reading of `store`.
    fn rivals(&self, store: StoreIndex, lock: &LockReading, at: Mono) -> Vec<Arc<Held>> {
        let LockReading::Held(held) = lock else { return Vec::new() };
        let others = self.votes.iter().filter(|vote| vote.store != store);
        let shown = others.filter_map(|vote| vote.current(at).flatten());
        let other = shown.filter(|other| !is_same(&other.held, held, self.mode));
        other.map(|other| Arc::clone(&other.held)).collect()
    }

    fn count_if_due(&mut self, at: Mono) -> Option<Count> {
        let before = *self.counted.get_or_insert(at);
        let is_due = self.votes.iter().all(|vote| vote.is_new)
            || at.since_ms(before) >= self.interval_ms.max(1) && self.clock_ms.is_some();
        if !is_due {
            return None;
        }
        self.counted = Some(at);
        self.votes.iter_mut().for_each(|vote| vote.is_new = false);
        let before = self.held.clone();
        let lock = self.lock(at);
        self.note_loss(before.as_deref(), &lock);
        let generation = Arc::clone(&self.generation);
        let clock = ServerTime::at(to_i64(self.newest.ms()) + self.clock_ms.unwrap_or_default());
        Some(Count { sent: self.newest, clock, interval_ms: self.interval_ms, generation, lock })
    }

    /// The hold `before` was lost if as many stores lost it as it could not do without.
    fn note_loss(&mut self, before: Option<&Held>, now: &LockReading) {
        let goes_on = match (before, now) {
            (Some(before), LockReading::Held(held)) => continues(before, held),
            (None, _) | (_, LockReading::Unknown(_)) => true,
            (Some(_), LockReading::Free) => false,
        };
        if goes_on {
            return;
        }
        let lost = self.votes.iter().filter(|vote| vote.lost).count();
        if lost > self.votes.len() - self.needed() {
            let flushes = self.generation.flushes + 1;
            self.generation = Arc::new(Generation { flushes, ..Generation::default() });
        }
        self.votes.iter_mut().for_each(|vote| vote.lost = false);
    }

    /// How many stores must show a holder.
    fn needed(&self) -> usize {
        match self.mode {
            Agreement::Quorum => self.votes.len() / 2 + 1,
            Agreement::Any => 1,
        }
    }

    /// The lock as all stores together show it at `at`.
    fn lock(&mut self, at: Mono) -> LockReading {
        let current = self.votes.iter().filter_map(|vote| vote.current(at));
        let read = current.clone().count();
        let mut groups: Vec<Vec<&Shown>> = Vec::new();
        for shown in current.flatten() {
            match groups.iter_mut().find(|group| is_group_of(group, shown, self.mode)) {
                Some(group) => group.push(shown),
                None => groups.push([shown].to_vec()),
            }
        }
        let unread = self.votes.len() - read;
        let mode = self.mode;
        let held = match mode {
            Agreement::Quorum => {
                let needed = self.needed();
                let most = groups.iter().max_by_key(|group| group.len());
                let votes = most.map_or(0, Vec::len);
                match most.filter(|_| votes >= needed) {
                    Some(group) => {
                        let ids = group.iter().flat_map(|shown| shown.held.holders.clone());
                        let held = held(group, needed);
                        let ids = ids.collect();
                        Some(self.named(held, ids))
                    }
                    None if votes + unread < needed => None,
                    None => return LockReading::Unknown(Unknown::FewStores),
                }
            }
            Agreement::Any => match newest_of(&groups) {
                Some(newest) => Some(any(newest, &groups)),
                None if unread == 0 => None,
                None => return LockReading::Unknown(Unknown::FewStores),
            },
        };
        let Some(held) = held else {
            (self.held, self.ids) = (None, Vec::new());
            return LockReading::Free;
        };
        let shared = self.held.take().filter(|before| **before == held);
        let held = shared.unwrap_or_else(|| Arc::new(held));
        self.held = Some(Arc::clone(&held));
        LockReading::Held(held)
    }

    /// The hold under the ids by which it is known already; `ids` are all that the stores show.
    fn named(&mut self, held: Held, ids: Vec<Holder>) -> Held {
        let is_known = |id: &Holder| self.ids.iter().any(|known| is_id_of(known, id));
        let before = self.held.as_ref().filter(|_| ids.iter().any(is_known));
        let holders = before.map_or_else(|| held.holders.clone(), |it| it.holders.clone());
        let new: Vec<Holder> = ids.into_iter().filter(|id| !is_known(id)).collect();
        if before.is_none() || self.ids.len() + new.len() > IDS_MAX {
            self.ids.clear();
        }
        self.ids.extend(new);
        Held { holders, ..held }
    }
}

fn is_id_of(one: &Holder, other: &Holder) -> bool {
    one.client == other.client && one.thread == other.thread
}

impl Vote {
    /// What it shows, if it was read so lately that this says something at `at`.
    fn current(&self, at: Mono) -> Option<Option<&Shown>> {
        let read = self.read.as_ref()?;
        (at.since_ms(read.sent) <= read.valid_ms).then_some(read.shown.as_ref())
    }
}

impl Shown {
    /// What a store shows after it showed `old`. `ahead_ms`: by how much its clock is ahead.
    fn next(
        old: Option<Shown>,
        held: &Arc<Held>,
        ahead_ms: i64,
        since: Option<Mono>,
        rivals: Vec<Arc<Held>>,
    ) -> Shown {
        let old = old.filter(|old| continues(&old.held, held));
        let kept_ms = old.as_ref().map(|old| old.ahead_ms);
        let ahead_ms =
            kept_ms.filter(|kept| (ahead_ms - kept).abs() <= DRIFT_MS).unwrap_or(ahead_ms);
        let deadline = match held.deadline {
            Deadline::At(instant) => Deadline::At(instant.plus_ms(-ahead_ms)),
            other => other,
        };
        let since = old.as_ref().map_or(since, |old| old.since);
        let before = old.as_ref().and_then(|old| old.deadline.instant());
        let moved = before
            .zip(deadline.instant())
            .is_some_and(|(before, now)| now.since_ms(before) > NOISE_MS);
        let are_those = |old: &&Shown| {
            let is_known = |one: &Arc<Held>| old.rivals.iter().any(|it| continues(it, one));
            !rivals.is_empty() && old.rivals.len() == rivals.len() && rivals.iter().all(is_known)
        };
        let moves = old.as_ref().filter(are_those);
        let moves = moves.map_or(0, |old| old.moves_as_rival.saturating_add(u8::from(moved)));
        Shown {
            held: Arc::clone(held),
            ahead_ms,
            deadline,
            since,
            has_moved: moved || old.is_some_and(|old| old.has_moved),
            rivals,
            moves_as_rival: moves,
        }
    }
}

/// Whether both show the same holders. A re-entry counts the same on all stores only after a while.
/// With a quorum, threads are compared where there are any.
fn is_same(one: &Held, other: &Held, mode: Agreement) -> bool {
    let ids = |held: &Held| {
        let id = |holder: &Holder| match (&holder.thread, mode) {
            (Some(_), Agreement::Quorum) => (Vec::new(), holder.thread.clone()),
            _ => (holder.client.clone(), holder.thread.clone()),
        };
        held.holders.iter().map(id).collect::<BTreeSet<_>>()
    };
    core::ptr::eq(one, other) || ids(one) == ids(other)
}

fn is_group_of(group: &[&Shown], shown: &Shown, mode: Agreement) -> bool {
    group.first().is_some_and(|first| is_same(&first.held, &shown.held, mode))
}

/// A hold that `needed` of these stores must show. It ends when the last of so many deadlines does.
fn held(group: &[&Shown], needed: usize) -> Held {
    // A deadline that is not known at the moment counts as none.
    let known = group.iter().filter(|shown| shown.deadline != Deadline::Torn);
    let end = |shown: &&Shown| shown.deadline.instant().map_or(i64::MAX, |instant| instant.ms());
    let mut ends: Vec<i64> = known.map(end).collect();
    ends.sort_unstable_by_key(|end| Reverse(*end));
    let deadline = match needed.checked_sub(1).and_then(|last| ends.get(last)) {
        None => Deadline::Torn,
        Some(&i64::MAX) => Deadline::Never,
        Some(end) => Deadline::At(ServerTime::at(*end)),
    };
    let of = |shown: &&Shown| Held { deadline, ..(*shown.held).clone() };
    group.first().map(of).unwrap_or(Held {
        mode: Mode::Exclusive,
        holders: Vec::new(),
        ghosts: 0,
        deadline,
    })
}

/// Whether it surely lives: its deadline moved on and on next to another holder.
fn lives(group: &[&Shown]) -> bool {
    group.iter().any(|shown| shown.moves_as_rival >= MOVES_OF_A_RIVAL)
}

/// The holder that came last, unless only another one lives: a client that gave up on a store may
/// have taken the lock there all the same, and later. Of those that all were there at the first
/// reading, one whose deadline has moved, and then the one with the longest lease left.
fn newest_of<'a, 'b>(groups: &'b [Vec<&'a Shown>]) -> Option<&'b Vec<&'a Shown>> {
    let age = |group: &&Vec<&Shown>| {
        let since = group.iter().map(|shown| shown.since).min().flatten();
        let has_moved = group.iter().any(|shown| shown.has_moved);
        let end =
            |shown: &&Shown| shown.deadline.instant().map_or(i64::MAX, |instant| instant.ms());
        (lives(group), since, has_moved, group.iter().map(end).max())
    };
    groups.iter().max_by_key(age)
}

/// The newest hold, with the others that live on next to it if it lives as well.
fn any(newest: &[&Shown], groups: &[Vec<&Shown>]) -> Held {
    let mut held = held(newest, 1);
    let rivals = groups.iter().filter(|group| {
        let is_other =
            group.first().is_some_and(|first| !is_group_of(newest, first, Agreement::Any));
        is_other && lives(group) && lives(newest)
    });
    let others: Vec<Holder> =
        rivals.flatten().flat_map(|shown| shown.held.holders.clone()).collect();
    if !others.is_empty() {
        held.mode = Mode::Exclusive;
        held.holders.extend(others);
    }
    held
}
