//! A task that a lock guards.

mod ballot;
mod continuity;
mod ended;
mod handover;
mod hold;
mod identity;
mod lost;
mod renewal;
pub(crate) mod rules;
pub(crate) mod spec;
mod splits;
mod state;
mod stretch;
pub(crate) mod view;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::ballot::{Ballot, Count};
use self::handover::Handover;
use self::hold::{Context, Hold, continues};
use self::lost::Losses;
use self::renewal::Move;
use self::spec::LockSpec;
use self::splits::Reading;
use self::state::{Lock, Observed};
use self::view::{LastHold, LockView, RareLockView, Renewals};
use super::kind::{Kind, KindView};
use super::runs::{HoldShown, Periodic, Shown};
use crate::continuity::generation::{Continued, same_process};
use crate::event::{End, EventKind, Fate, Party};
use crate::evidence::{Attempts, Origin};
use crate::grounds::follow;
use crate::input::{Attestation, Standing};
use crate::reading::{
    Contender, Extras, GuardReading, Holder, LockReading, Parts, TaskReading, Unknown,
};
use crate::seldom::{Absent, Seldom};
use crate::shared::clocks::{GapClock, Holding};
use crate::shared::progress::ProgressClock;
use crate::shared::runs::{Present, Runs};
use crate::shared::splits::witnesses::{Limits, Witnesses, Word};
use crate::shared::{Shared, Signs};
use crate::spec::{Authority, StoreIndex, TaskSpec};
use crate::step::{Accepted, Log};
use crate::time::{Mono, ServerTime};
use crate::verdict::{Facts, LockFact, LockFacts, RunsFacts};

/// Slack in milliseconds beyond two sweeps. Readings of two servers that are further apart do not
/// contradict each other.
const FRESH_SLACK_MS: u64 = 1_000;

/// A lease that has more than a year left is none: it was written in another unit, or means
/// "never".
const ENDLESS_MS: u64 = 366 * 86_400_000;

/// What is known of a task only because a lock guards it.
#[derive(Clone, Debug)]
pub(crate) struct LockTask {
    lock: Lock,
    /// What each server shows of the lock, if there are several.
    witnesses: Witnesses,
    losses: Losses,
    handover: Handover,
    /// A claim while the lock is free was reported.
    claimed_while_free: bool,
    waiters: Option<u32>,
    rare: Seldom<RareExtras>,
    renewals: Renewals,
    /// The hold that ended last.
    last: Option<Arc<LastHold>>,
    ttl_ms: Option<u64>,
    /// Its runs, if it exists only while one lasts.
    runs: Option<Box<Periodic>>,
    /// What its stores show, if it stands on several.
    ballot: Option<Box<Ballot>>,
}

/// Extras that few locks have.
#[derive(Clone, Debug, PartialEq)]
struct RareExtras {
    fencing_token: Option<i64>,
    queue: Option<Arc<Vec<Contender>>>,
}

impl Absent for RareExtras {
    const ABSENT: &'static RareExtras = &RareExtras { fencing_token: None, queue: None };
}

impl LockTask {
    pub(crate) fn new(spec: &LockSpec) -> LockTask {
        LockTask {
            lock: Lock::new(spec),
            witnesses: Witnesses::default(),
            losses: Losses::default(),
            handover: Handover::default(),
            claimed_while_free: false,
            waiters: None,
            rare: Seldom::default(),
            renewals: Renewals::default(),
            last: None,
            ttl_ms: None,
            runs: spec.runs.as_ref().map(|runs| Box::new(Periodic::new(runs))),
            ballot: spec.stores.as_ref().map(|stores| Box::new(Ballot::new(stores))),
        }
    }

    /// One of its stores was not read.
    pub(crate) fn store_failed(
        &mut self,
        shared: &mut Shared,
        (store, why): (StoreIndex, Unknown),
        at: Mono,
        log: &mut Log,
    ) {
        let count = self.ballot.as_mut().and_then(|ballot| ballot.failed(store, why, at));
        if let Some(count) = count {
            self.observe_count(shared, &count, log);
        }
    }

    /// Takes in what its stores show together, as if one server without replicas had said it.
    fn observe_count(&mut self, shared: &mut Shared, count: &Count, log: &mut Log) {
        let attestation = Attestation::master(count.clock, count.clock);
        let origin = Arc::new(Origin {
            node: shared.store.clone(),
            clock_steps: 0,
            generation: Some(Arc::clone(&count.generation)),
            histories: Arc::default(),
            offset: None,
            authority: Authority::ALONE,
        });
        let batch = Accepted {
            sent: count.sent,
            attestation: &attestation,
            origin: &origin,
            continued: None,
            unflushed_since: None,
            standing: Standing::Decides,
            store: shared.spec.store,
            interval_ms: count.interval_ms,
            timeout_ms: 0,
            took_ms: 0,
        };
        let nothing_else = (&count.lock, &Parts::default());
        self.observe_lock(shared, nothing_else, &Signs::default(), batch, log);
    }

    /// What a reading from `origin` proves about the data with which that process began.
    pub(crate) fn proves_continued(
        &self,
        shared: &Shared,
        reading: &LockReading,
        origin: &Origin,
    ) -> Option<Continued> {
        let by = origin.process_before(shared.origin.as_deref()?)?;
        self.lock.shows_renewal_after(reading).map(|until| Continued { by: by.clone(), until })
    }

    /// The number of flushes since which this database has certainly not been flushed: the lock has
    /// the deadline that it had then.
    pub(crate) fn proves_unflushed(
        &self,
        shared: &Shared,
        reading: &LockReading,
        origin: &Origin,
    ) -> Option<u64> {
        let old = shared.origin.as_deref().filter(|old| same_process(old, origin))?;
        let (before, now) = (old.generation.as_ref()?.flushes, origin.generation.as_ref()?.flushes);
        // Nearly always there was no flush to ask about.
        let is_unmoved = before < now && self.lock.shown_unmoved(reading).is_some();
        is_unmoved.then_some(before)
    }

    /// Drops the readings of servers that no longer belong to the store.
    pub(crate) fn retain_witnesses(&mut self, nodes: &[Arc<str>]) {
        self.witnesses.retain(nodes);
    }

    /// Takes in a reading by a server that decides. What [`Lock::observe`] makes of it is then
    /// taken in by losses, by the counts and the handover in the order of what happened (an end, a
    /// break, a beginning, a move), by the clocks, and by the splits.
    fn observe_lock(
        &mut self,
        shared: &mut Shared,
        (reading, parts): (&LockReading, &Parts),
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> Option<Option<Fate>> {
        let lock = self.judged(shared, reading, batch);
        let old = shared.origin.as_deref();
        let delta = batch.delta(old).seen_with(signs.kept_switches);
        let context = Context {
            seen: batch.seen(),
            given: batch.mark(),
            // A server that followed another one meanwhile may have deadlines from that one's
            // clock.
            same_clock: old.is_none_or(|old| batch.origin.same_clock(old)) && !delta.replication,
            delta,
            blind_after_ms: shared.spec.blind_after_ms,
        };
        let node_before = old.unwrap_or(&**batch.origin).node.clone();
        let held_before = self.lock.hold().is_some();
        let observed = self.lock.observe(&lock, context);
        let read = if let LockReading::Unknown(why) = lock { Err(why) } else { Ok(()) };
        shared.report_readable(read, log);
        if read.is_ok() {
            let reading = Reading { batch, delta, node_before };
            shared.note_origin(batch);
            self.losses.update(shared, &mut self.lock, Some(&observed), parts, signs, log);
            self.update_holds(shared, &observed, batch, log);
            self.handover.update(shared, &self.lock, &observed, batch.sent, log);
            splits::update(shared, &self.lock, &observed, &reading, log);
            self.update_runs(shared, &observed, signs.progress_moved, batch);
            self.report_claims_while_free(shared, log);
            self.ttl_ms = ttl_ms(&lock, context.seen.first);
        } else {
            self.losses.expired.unseen();
            self.handover.update_gap(shared, batch.sent, Holding::Unseen, log);
        }
        self.compare_servers(shared, reading, batch, log);
        read.is_ok().then(|| held_before.then(|| fate(&observed)))
    }

    /// The conclusion that the lock's reading allows. If only the servers themselves report which
    /// one is master, a free lock proves nothing while another master shows it held.
    fn judged(&self, shared: &Shared, reading: &LockReading, batch: Accepted<'_>) -> LockReading {
        let node = &batch.origin.node;
        let contradicted = batch.origin.authority.self_declared()
            && *reading == LockReading::Free
            && self.witnesses.held_elsewhere(node, limits(shared, batch), batch.sent);
        if contradicted { LockReading::Unknown(Unknown::TwoMasters) } else { reading.clone() }
    }

    /// Counts and reports ends, beginnings and movements of the deadline.
    fn update_holds(
        &mut self,
        shared: &mut Shared,
        observed: &Observed,
        batch: Accepted<'_>,
        log: &mut Log,
    ) {
        let across_blind = observed.across_blind;
        match &observed.ended {
            Some(_) if across_blind => self.handover.outage.forget(),
            None if across_blind => self.handover.outage.unseen(),
            _ => {}
        }
        if self.lock.hold().is_none() {
            shared.grounds.seen_free();
        } else if observed.came_back {
            shared.grounds.came_back(log.at);
        }
        if let Some(ended) = &observed.ended {
            if let Some(count) = shared.totals().ends.get_mut(ended.reason as usize) {
                *count += 1;
            }
            if ended.reason == End::Expired {
                shared.grounds.rare().lease_expired = Some(log.at);
            }
            let (hold, holders) = (&ended.hold, &ended.hold.held.holders);
            let (reason, held_ms) = (ended.reason, ended.held_ms);
            log.push(EventKind::HoldEnded { holders: holders.clone(), reason, held_ms });
            let parties = holders.iter().map(|holder| Party::of(holder, None)).collect();
            let seen = batch.seen().server_of(hold.last_seen);
            self.last = Some(Arc::new(LastHold { holders: shared.hosts.name(parties), seen }));
            self.handover.ended(ended, across_blind, shared.wanted());
            if self.runs.is_some() {
                // Between two runs nobody has to take over.
                self.handover.outage.forget();
            }
        }
        if let Some(broke) = observed.broke {
            self.handover.broke(shared, broke, across_blind, log);
        }
        if let (true, Some(hold)) = (observed.began, self.lock.hold()) {
            shared.totals().acquisitions += 1;
            log.push(EventKind::Acquired { holders: hold.held.holders.clone() });
            self.handover.began(shared, hold, across_blind);
        }
        match observed.moved {
            Some(Move::Renewed { latency_ms, learned_ms, at, .. }) => {
                shared.totals().renewals += 1;
                self.renewals.push(at);
                if let Some(latency_ms) = latency_ms {
                    shared.totals().renewal_latency.observe(latency_ms);
                }
                if let Some(lease_ms) = learned_ms {
                    log.push(EventKind::LeaseLearned { lease_ms });
                }
            }
            Some(Move::Shortened { by_ms }) => {
                shared.totals().rare.shortened += 1;
                log.push(EventKind::Shortened { by_ms });
            }
            Some(Move::Reset) | None => {}
        }
    }

    /// Each hold is a run, if this is a periodic task.
    fn update_runs(
        &mut self,
        shared: &Shared,
        observed: &Observed,
        moved: bool,
        batch: Accepted<'_>,
    ) {
        let Some(runs) = &mut self.runs else { return };
        // A library that writes another token with each renewal begins no run by that.
        let is_renewal = observed.ended.as_ref().is_some_and(|it| it.reason == End::Replaced)
            && !self.lock.identifies();
        let of_hold = |hold: &Hold| {
            let holders = &hold.held.holders;
            let parties = holders.iter().map(|holder| Party::of(holder, None)).collect();
            HoldShown {
                is_new: observed.began && !is_renewal,
                by: shared.hosts.name(parties),
                began: hold.began,
                acquired: hold.acquired,
                held_ms: hold.held_ms(),
                kept_until: hold.deadlines.newest().filter(|_| hold.deadlines.end_is_set),
            }
        };
        let ended = observed.ended.as_ref().filter(|_| !is_renewal);
        runs.observe(Shown {
            sent: batch.sent,
            clock: batch.seen().last,
            interval_ms: batch.interval_ms,
            ended: ended.map(|ended| (ended.reason, ended.held_ms)),
            hold: self.lock.hold().map(of_hold),
            moved,
        });
    }

    /// A claim that lives while the lock is free is reported once for as long as it lasts.
    fn report_claims_while_free(&mut self, shared: &Shared, log: &mut Log) {
        let mut claimed = None;
        if self.lock.free_since().is_some() {
            // Claims that cannot be read now were reported before, or will be later.
            let Some(live) = shared.claims.live(shared.spec.fresh_for_ms()) else { return };
            claimed = live.into_iter().next();
        }
        let before = core::mem::replace(&mut self.claimed_while_free, claimed.is_some());
        if let (Some(instance), false) = (claimed, before) {
            let instance = shared.spec.kind.claimants().holder(&instance);
            log.push(EventKind::ClaimBesideFreeLock { instance });
        }
    }

    /// Compares this server's reading with those of the others. It need not decide.
    pub(crate) fn compare_servers(
        &mut self,
        shared: &mut Shared,
        reading: &LockReading,
        batch: Accepted<'_>,
        log: &mut Log,
    ) {
        if batch.origin.authority.alone && self.witnesses.is_empty() {
            return;
        }
        let lease_ms = match reading {
            LockReading::Held(held) => self.lock.leases.of(held.mode),
            LockReading::Free | LockReading::Unknown(_) => None,
        };
        let limits = limits(shared, batch);
        let word = Word {
            origin: batch.origin,
            standing: batch.standing,
            role: batch.attestation.role,
            seen: batch.seen(),
            lease_ms,
            steady_ms: batch.interval_ms.saturating_mul(5) / 2,
            steady_replica_ms: batch.interval_ms.saturating_mul(15) / 2,
            fresh_ms: limits.fresh_ms,
        };
        match batch.origin.authority.alone {
            // There may have been others under an earlier configuration.
            true => self.witnesses.retain(&[]),
            false => self.witnesses.observe(reading, word),
        }
        let news = shared.splits.observe_masters(&self.witnesses, limits, batch.sent);
        shared.report_splits(news, log);
    }

    /// Waiters and token.
    fn observe_extras(&mut self, shared: &mut Shared, extras: &Extras, log: &mut Log) {
        if let Some(waiters) = extras.waiters {
            self.waiters = Some(u32::try_from(waiters).unwrap_or(u32::MAX));
        }
        let (before, token) = (self.rare.fencing_token, extras.fencing_token);
        if let Some((from, to)) = before.zip(token).filter(|(from, to)| to < from) {
            shared.totals().rare.token_resets += 1;
            log.push(EventKind::TokenReset { from, to });
        }
        let rare = RareExtras { fencing_token: token.or(before), queue: extras.queue.clone() };
        if *self.rare != rare {
            self.rare = Seldom::new(rare);
        }
    }

    /// The hold, if the newest reading shows it.
    fn present(&self) -> Option<&Hold> {
        self.lock.hold().filter(|_| self.lock.held() == Some(true))
    }
}

impl Kind for LockTask {
    fn configure(&mut self, before: &TaskSpec, now: &TaskSpec) {
        if before != now {
            self.losses.expired.forget();
        }
        if before.wanted != now.wanted {
            self.handover.outage.forget();
        }
        if let Some(lock) = now.lock() {
            self.lock.configure(lock);
            match (&mut self.runs, &lock.runs) {
                (Some(runs), Some(spec)) => runs.configure(spec),
                (runs, spec) => *runs = spec.as_ref().map(|spec| Box::new(Periodic::new(spec))),
            }
            let stores = lock.stores.as_deref();
            if self.ballot.as_ref().zip(stores).is_none_or(|(it, stores)| !it.is_of(stores)) {
                self.ballot = stores.map(|stores| Box::new(Ballot::new(stores)));
            }
        }
    }

    fn unknown(&mut self, why: Unknown) {
        self.lock.attempts.newest = Err(why);
        self.losses.expired.unseen();
    }

    fn attempts(&self) -> Attempts {
        self.lock.attempts
    }

    fn held(&self) -> Option<bool> {
        self.lock.held()
    }

    fn holders(&self) -> &[Holder] {
        self.lock.hold().map(|hold| &*hold.held.holders).unwrap_or_default()
    }

    fn lasts(&self, young_ms: u64) -> bool {
        self.lock.unbroken_ms() >= young_ms
    }

    fn stayed(&self, guard: &GuardReading) -> bool {
        match (guard, self.lock.hold()) {
            (GuardReading::Lock { lock: LockReading::Held(held), .. }, Some(hold)) => {
                continues(&hold.held, held)
            }
            _ => false,
        }
    }

    fn stalled_ms(&self, shared: &Shared) -> u64 {
        if let Some(runs) = &self.runs {
            return runs.overran_ms();
        }
        shared.progress.as_ref().map_or(0, |progress| progress.stalled_ms())
    }

    fn observe(
        &mut self,
        shared: &mut Shared,
        reading: &TaskReading,
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> Option<Option<Fate>> {
        let GuardReading::Lock { lock, extras } = &reading.guard else { return None };
        if let Some(ballot) = &mut self.ballot {
            let count = ballot.observe(lock, batch);
            if batch.store == shared.spec.store {
                self.observe_parts(shared, &reading.parts, signs, batch, log);
            }
            if let Some(count) = count {
                self.observe_count(shared, &count, log);
            }
            return None;
        }
        self.observe_extras(shared, extras, log);
        self.observe_lock(shared, (lock, &reading.parts), signs, batch, log)
    }

    fn observe_parts(
        &mut self,
        shared: &mut Shared,
        parts: &Parts,
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log,
    ) {
        self.losses.update(shared, &mut self.lock, None, parts, signs, log);
        self.handover.update_gap(shared, batch.sent, Holding::Unseen, log);
        if let Some(runs) = &mut self.runs
            && signs.progress_moved
            && self.lock.held() == Some(false)
        {
            runs.moved(batch.sent, batch.interval_ms, None);
        }
    }

    fn parts_failed(&mut self, parts: &Parts) {
        self.losses.parts_failed(parts);
    }

    fn facts(&self, shared: &Shared) -> Facts {
        // A "free" that waits for its confirmation proves neither "held" nor "free", so the
        // previous verdict stays.
        let unconfirmed = self.lock.held() == Some(false) && self.lock.free_since().is_none();
        let lock = if unconfirmed { LockFact::Unknown } else { self.lock.fact() };
        if let Some(runs) = &self.runs {
            return Facts::Runs(RunsFacts {
                lock,
                run: runs.fact(),
                split: shared.is_split(),
                overdue: runs.is_overdue(),
                overran: runs.overran_ms() > 0,
                blind: shared.is_blind(),
            });
        }
        let gap_over_grace = shared.is_gap_over_grace();
        Facts::Lock(LockFacts {
            wanted: shared.wanted(),
            lock,
            split: shared.is_split(),
            gap_over_grace,
            down_goes_on: gap_over_grace && shared.gap().is_some_and(GapClock::is_published),
            stale: self.stalled_ms(shared) > 0,
            over_wind_down: shared.unwanted_ms() > shared.spec.wind_down_ms,
            blind: shared.is_blind(),
        })
    }

    fn update_grounds(&mut self, shared: &mut Shared, at: Mono) {
        let (hold, spec) = (self.present(), &shared.spec);
        let is_held = hold.is_some();
        let is_endless = self.ttl_ms.is_some_and(|ttl_ms| ttl_ms > ENDLESS_MS);
        let should_expire = !spec.lock().is_some_and(|lock| lock.never_expires);
        let is_persistent = hold.and_then(Hold::is_persistent);
        let is_persistent = is_persistent.map(|is| should_expire && (is || is_endless));
        let saw_begin = hold.is_some_and(|hold| hold.acquired.is_some());
        let progress_missing =
            is_held && shared.progress.as_ref().is_some_and(|clock| clock.missing.is_some());
        let present = Present {
            holders: hold.map(|hold| &*hold.held.holders).unwrap_or_default(),
            held_ms: hold.map(Hold::held_ms),
            settle_ms: spec.settle_ms,
            unwanted: shared.is_known_unwanted(),
        };
        if let Some(runs) = &mut shared.runs {
            Runs::judge(runs, present);
        }
        let runs = shared.runs.as_deref();
        let nobody_waits = is_held && self.waiters == Some(0) && spec.needs_standby();
        let grounds = &mut shared.grounds;
        grounds.settled = is_held && self.lock.unbroken_ms() >= spec.settle_ms;
        let moves = spec.progress.as_ref().and_then(|progress| progress.moves);
        let moved = |clock: &ProgressClock| clock.moves(saw_begin, moves);
        grounds.moves = shared.progress.as_deref().map_or(saw_begin, moved);
        let mut since = grounds.since();
        if let Some((runs, fails)) = runs.and_then(|runs| Some((runs, runs.fails?))) {
            let first = since.failing.unwrap_or(at.minus_ms(runs.failing_ms()));
            since.failing = fails.then_some(first);
        }
        // While the lock cannot be read, the stopwatches go on, and their problems are not shown.
        if self.lock.held().is_some() {
            follow(&mut since.no_candidate, nobody_waits, at);
            follow(&mut since.progress_missing, progress_missing, at);
            if let Some(is_persistent) = is_persistent.or((!is_held).then_some(false)) {
                follow(&mut since.persistent, is_persistent, at);
            }
        }
        grounds.note_since(since);
    }

    fn view(&mut self, shared: &Shared) -> KindView {
        let lock = &self.lock;
        let is_read = lock.held().is_some();
        let known_mode = lock.hold().map(|hold| hold.held.mode);
        KindView::Lock(LockView {
            fact: lock.fact(),
            hold: self.present().map(|hold| hold.view(&shared.hosts, self.ttl_ms)),
            last: self.last.clone(),
            waiters: self.waiters.filter(|_| is_read),
            lease_ms: known_mode.map_or_else(|| lock.leases.any(), |mode| lock.leases.of(mode)),
            renewal_period_ms: lock.period_ms(),
            renewals: self.renewals.clone(),
            rare: Seldom::new(RareLockView {
                fencing_token: self.rare.fencing_token.filter(|_| is_read),
                queue: self.rare.queue.clone().filter(|_| is_read),
                witnesses: self.witnesses.view(),
                runs: self.runs.as_ref().map(|runs| Arc::new(runs.view())),
                stores: self.ballot.as_ref().map(|ballot| Arc::new(ballot.view())),
            }),
        })
    }
}

/// How far readings of several servers may be apart.
fn limits(shared: &Shared, batch: Accepted<'_>) -> Limits {
    Limits {
        fresh_ms: batch.interval_ms.saturating_mul(2).saturating_add(FRESH_SLACK_MS),
        settle_ms: shared.spec.settle_ms,
        authority: batch.origin.authority,
    }
}

/// The remaining lease when the request was sent, because the reading is evidence for that instant.
fn ttl_ms(reading: &LockReading, now: ServerTime) -> Option<u64> {
    let LockReading::Held(held) = reading else { return None };
    let deadline = held.deadline.instant()?;
    Some(u64::try_from(deadline.since_ms(now)).unwrap_or(0))
}

/// The fate of a hold that existed before.
fn fate(observed: &Observed) -> Fate {
    match &observed.ended {
        None => Fate::Kept,
        Some(_) if observed.began => Fate::Changed,
        Some(ended) if ended.reason == End::Lost => Fate::Lost,
        Some(_) => Fate::Over,
    }
}
