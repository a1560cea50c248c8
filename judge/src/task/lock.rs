//! What a task has that a lock guards.

mod follow;

use alloc::sync::Arc;

use super::beside::Signs;
use super::{Accepted, Kind, Log, Watched};
use crate::clocks::{GapClock, Holding, OutageClock};
use crate::continuity::generation::{Continued, Delta, same_process};
use crate::continuity::lost::{Expired, Parts};
use crate::event::{End, EventKind, Fate};
use crate::evidence::{Origin, Seen};
use crate::grounds::follow;
use crate::kinds::KindView;
use crate::kinds::lock::view::LockView;
use crate::kinds::lock::{self, Context, Hold, Lock};
use crate::progress::ProgressClock;
use crate::reading::{Beside, Extras, GuardReading, Held, Holder, LockReading, Unknown};
use crate::runs::{Present, Runs};
use crate::snapshot::{HeldBy, LastHold};
use crate::spec::{Authority, Claimants, LockSpec, TaskSpec};
use crate::splits::{Limits, PHANTOM_MS, Witnesses, Word};
use crate::time::{Mono, ServerTime};
use crate::verdict::{Facts, LockFact, LockFacts};

/// Slack in milliseconds beyond two sweeps. Readings of two servers that are further apart do not
/// contradict each other.
const FRESH_SLACK_MS: u64 = 1_000;

/// A lease that has more than a year left is none: it was written in another unit, or means
/// "never".
const ENDLESS_MS: u64 = 366 * 86_400_000;

/// What is followed of a task only because a lock guards it.
#[derive(Clone, Debug)]
pub(crate) struct OfLock {
    lock: Lock,
    claimants: Claimants,
    /// What each server shows of the lock, if there are several.
    witnesses: Witnesses,
    expired: Expired,
    /// How often the progress was seen to move while the present hold lasted.
    moved_in_hold: u8,
    outage: OutageClock,
    /// The holder whose hold ended, as long as no gap has begun since.
    handed_over_by: Option<Arc<Held>>,
    /// The present hold took over from another holder without a gap; counted when it settles.
    direct_handover: bool,
    /// The lock has been held without a break for `settle`, and this was recorded.
    settled: bool,
    /// The same of the present hold by itself.
    hold_settled: bool,
    waiters: Option<u64>,
    fencing_token: Option<i64>,
    renewals: Arc<[Mono]>,
    /// The holders last shown, shared with the views, and the reading they came from, unless the
    /// hosts have changed since.
    shown: HeldBy,
    shown_by: Option<Arc<Held>>,
    /// The hold that ended last.
    last: Option<Arc<LastHold>>,
    ttl_ms: Option<u64>,
}

/// A reading of the lock, and what may have happened since the previous one.
struct Reading<'a> {
    batch: Accepted<'a>,
    delta: Delta,
    /// The server that the previous reading came from.
    node_before: Arc<str>,
}

impl OfLock {
    pub(super) fn new(spec: &LockSpec) -> OfLock {
        OfLock {
            lock: Lock::new(spec),
            claimants: spec.claimants,
            witnesses: Witnesses::default(),
            expired: Expired::default(),
            moved_in_hold: 0,
            outage: OutageClock::default(),
            handed_over_by: None,
            direct_handover: false,
            settled: false,
            hold_settled: false,
            waiters: None,
            fencing_token: None,
            renewals: Arc::default(),
            shown: Arc::default(),
            shown_by: None,
            last: None,
            ttl_ms: None,
        }
    }
}

impl Kind for OfLock {
    fn configure(&mut self, before: &TaskSpec, now: &TaskSpec) {
        if before != now {
            self.expired.forget();
        }
        if before.wanted != now.wanted {
            self.outage.forget();
        }
        if let Some(lock) = now.lock() {
            self.lock.configure(lock);
            self.claimants = lock.claimants;
        }
    }

    fn unknown(&mut self, why: Unknown) {
        self.lock.unknown(why);
        self.expired.unseen();
    }

    fn newest(&self) -> Result<(), Unknown> {
        self.lock.newest()
    }

    fn last_reading(&self) -> Option<Seen> {
        self.lock.last_reading()
    }

    fn held(&self) -> Option<bool> {
        self.lock.held()
    }

    fn lasts(&self, young_ms: u64) -> bool {
        self.lock.unbroken_ms() >= young_ms
    }

    fn stayed(&self, guard: &GuardReading) -> bool {
        let (GuardReading::Lock { lock: LockReading::Held(held), .. }, Some(hold)) =
            (guard, self.lock.hold())
        else {
            return false;
        };
        lock::continues(&hold.held, held)
    }

    fn holders(&self) -> &[Holder] {
        self.lock.hold().map(|hold| &*hold.held.holders).unwrap_or_default()
    }

    fn stalled_ms(task: &Watched<OfLock>) -> u64 {
        task.progress.as_ref().map_or(0, |progress| progress.stalled_ms())
    }

    fn hosts_changed(&mut self) {
        self.shown_by = None;
    }

    fn unread(&mut self, parts: Parts) {
        self.expired.unread(parts);
    }

    fn observe(
        task: &mut Watched<OfLock>,
        (guard, beside): (&GuardReading, &Beside),
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>> {
        let GuardReading::Lock { lock, extras } = guard else { return None };
        task.observe_extras(*extras, log);
        task.observe_lock((lock, beside), signs, batch, log)
    }

    fn observe_beside(
        task: &mut Watched<OfLock>,
        beside: &Beside,
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) {
        task.note_life(signs, None, batch.sent);
        task.follow_losses(beside, batch.sent, None, signs, log);
        task.follow_gap(batch.sent, Holding::Unseen, log);
    }

    fn facts(task: &Watched<OfLock>) -> Facts {
        let lock = &task.kind.lock;
        // A "free" that waits for its confirmation proves neither "held" nor "free", so the
        // previous verdict stays.
        let unconfirmed = lock.held() == Some(false) && lock.free_since().is_none();
        Facts::Lock(LockFacts {
            wanted: task.wanted(),
            lock: if unconfirmed { LockFact::Unknown } else { lock.fact() },
            split: task.is_split(),
            gap_over_grace: task.is_gap_over_grace(),
            down_goes_on: task.is_gap_over_grace()
                && task.gap().is_some_and(GapClock::is_published),
            stale: OfLock::stalled_ms(task) > 0,
            over_wind_down: task.unwanted_ms() > task.spec.wind_down_ms,
            blind: task.is_blind(),
        })
    }

    fn follow_grounds(task: &mut Watched<OfLock>, at: Mono) {
        let lock = &task.kind.lock;
        let held = lock.held();
        let hold = if held == Some(true) { lock.hold() } else { None };
        let is_endless = task.kind.ttl_ms.is_some_and(|ttl_ms| ttl_ms > ENDLESS_MS);
        let is_persistent = hold.and_then(|hold| hold.is_persistent()).map(|is| is || is_endless);
        let saw_begin = hold.is_some_and(|hold| hold.acquired.is_some());
        let progress_missing =
            hold.is_some() && task.progress.as_ref().is_some_and(|clock| clock.missing.is_some());
        let present = Present {
            holders: hold.map(|hold| &*hold.held.holders).unwrap_or_default(),
            held_ms: hold.map(Hold::held_ms),
            settle_ms: task.spec.settle_ms,
            unwanted: task.is_known_unwanted(),
        };
        if let Some(runs) = &mut task.runs {
            Runs::judge(runs, present);
        }
        let runs = task.runs.as_deref();
        let nobody_waits =
            hold.is_some() && task.kind.waiters == Some(0) && task.spec.needs_standby();
        let grounds = &mut task.grounds;
        grounds.settled = hold.is_some() && lock.unbroken_ms() >= task.spec.settle_ms;
        let moves = task.spec.progress.as_ref().and_then(|progress| progress.moves);
        let moved = |clock: &ProgressClock| clock.moves(saw_begin, moves, at);
        grounds.moves = task.progress.as_deref().map_or(saw_begin, moved);
        let mut since = grounds.since();
        if let Some((runs, fails)) = runs.and_then(|runs| Some((runs, runs.fails?))) {
            let first = since.failing.unwrap_or(at.minus_ms(runs.failing_ms()));
            since.failing = fails.then_some(first);
        }
        // While the lock cannot be read, the stopwatches go on, and their problems are not shown.
        if held.is_some() {
            follow(&mut since.no_candidate, nobody_waits, at);
            follow(&mut since.progress_missing, progress_missing, at);
            if let Some(is_persistent) = is_persistent.or(hold.is_none().then_some(false)) {
                follow(&mut since.persistent, is_persistent, at);
            }
        }
        grounds.note_since(since);
    }

    fn view(task: &mut Watched<OfLock>) -> KindView {
        task.show_holders();
        let kind = &task.kind;
        let lock = &kind.lock;
        let held = lock.held();
        let hold = if held == Some(true) { lock.hold() } else { None };
        let known_mode = lock.hold().map(|hold| hold.held.mode);
        KindView::Lock(LockView {
            fact: lock.fact(),
            hold: hold.map(|hold| hold.view(kind.shown.clone(), kind.ttl_ms)),
            last: kind.last.clone(),
            waiters: if held.is_some() { kind.waiters } else { None },
            fencing_token: if held.is_some() { kind.fencing_token } else { None },
            lease_ms: known_mode.map_or_else(|| lock.leases.any(), |mode| lock.leases.of(mode)),
            renewal_period_ms: lock.period_ms(),
            renewals: kind.renewals.clone(),
            witnesses: kind.witnesses.view().into(),
        })
    }
}

impl Watched<OfLock> {
    /// What a reading from `origin` proves about the data with which that process began.
    pub(super) fn proves_continued(
        &self,
        reading: &LockReading,
        origin: &Origin,
    ) -> Option<Continued> {
        let by = origin.process_before(self.origin.as_deref()?)?;
        self.kind.lock.shows_renewal_after(reading).map(|until| Continued { by: by.clone(), until })
    }

    /// The number of flushes since which this database has certainly not been flushed: the lock has
    /// the deadline that it had then.
    pub(super) fn proves_unflushed(&self, reading: &LockReading, origin: &Origin) -> Option<u64> {
        let old = self.origin.as_deref().filter(|old| same_process(old, origin))?;
        let (before, now) = (old.generation.as_ref()?.flushes, origin.generation.as_ref()?.flushes);
        // Nearly always there was no flush to ask about.
        let is_unmoved = before < now && self.kind.lock.shown_unmoved(reading).is_some();
        is_unmoved.then_some(before)
    }

    /// Takes in a reading of the lock.
    fn observe_lock(
        &mut self,
        (reading, beside): (&LockReading, &Beside),
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>> {
        let (seen, sent) = (batch.seen(), batch.sent);
        let lock = self.judged(reading, batch);
        let delta = batch.delta(self.origin.as_deref()).seen_beside(signs.kept_switches);
        // A server that followed another one meanwhile may have deadlines from that one's clock.
        let same_clock = self.origin.as_ref().is_none_or(|old| batch.origin.same_clock(old))
            && !delta.replication;
        let context = Context {
            seen,
            given: batch.mark(),
            same_clock,
            delta,
            blind_after_ms: self.spec.blind_after_ms,
        };
        let held_before = self.kind.lock.hold().is_some();
        let news = self.kind.lock.observe(&lock, context);
        let read = if let LockReading::Unknown(why) = lock { Err(why) } else { Ok(()) };
        if read.is_err() {
            self.kind.expired.unseen();
        }
        self.tell_readable(read, log);
        match read {
            Err(_) => _ = self.follow_gap(sent, Holding::Unseen, log),
            Ok(()) => {
                let node_before = self.origin.as_ref().unwrap_or(batch.origin).node.clone();
                let reading = Reading { batch, delta, node_before };
                self.note_origin(batch);
                self.note_life(signs, Some(&news), sent);
                self.follow_losses(beside, sent, Some(&news), signs, log);
                self.follow_lock(&news, &reading, log);
                self.follow_clocks(seen, &news, log);
                self.follow_splits(batch, &news, log);
                self.kind.ttl_ms = ttl_ms(&lock, seen.first);
            }
        }
        self.follow_witnesses(reading, batch, log);
        read.is_ok().then(|| held_before.then(|| fate(&news)))
    }

    /// Takes in the reading of a server that does not decide.
    pub(super) fn witness(
        &mut self,
        reading: &LockReading,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) {
        self.follow_witnesses(reading, batch, log);
        self.judge(log);
    }

    /// Drops the readings of servers that no longer belong to the store.
    pub(super) fn retain_witnesses(&mut self, nodes: &[Arc<str>]) {
        self.kind.witnesses.retain(nodes);
    }

    /// The conclusion that the lock's reading allows. If only the servers themselves report which
    /// one is master, a free lock proves nothing while another master shows it held.
    fn judged(&self, reading: &LockReading, batch: Accepted<'_>) -> LockReading {
        let contradicted = batch.origin.authority.self_declared()
            && *reading == LockReading::Free
            && self.kind.witnesses.held_elsewhere(
                &batch.origin.node,
                self.limits(batch),
                batch.sent,
            );
        if contradicted { LockReading::Unknown(Unknown::TwoMasters) } else { reading.clone() }
    }

    fn limits(&self, batch: Accepted<'_>) -> Limits {
        Limits {
            fresh_ms: batch.interval_ms.saturating_mul(2).saturating_add(FRESH_SLACK_MS),
            settle_ms: self.spec.settle_ms,
            authority: batch.origin.authority,
        }
    }

    /// Compares this server's reading with those of the others.
    fn follow_witnesses(&mut self, reading: &LockReading, batch: Accepted<'_>, log: &mut Log<'_>) {
        if batch.origin.authority.alone && self.kind.witnesses.is_empty() {
            return;
        }
        let lease_ms = match reading {
            LockReading::Held(held) => self.kind.lock.leases.of(held.mode),
            LockReading::Free | LockReading::Unknown(_) => None,
        };
        let word = Word {
            origin: batch.origin,
            standing: batch.standing,
            role: batch.attestation.role,
            seen: batch.seen(),
            lease_ms,
            steady_ms: batch.interval_ms.saturating_mul(5) / 2,
            steady_replica_ms: batch.interval_ms.saturating_mul(15) / 2,
            fresh_ms: self.limits(batch).fresh_ms,
        };
        match batch.origin.authority.alone {
            // There may have been others under an earlier configuration.
            true => self.kind.witnesses.retain(&[]),
            false => self.kind.witnesses.observe(reading, word),
        }
        let news =
            self.splits.observe_masters(&self.kind.witnesses, self.limits(batch), batch.sent);
        self.tell_splits(news, log);
    }

    /// Waiters and token.
    fn observe_extras(&mut self, extras: Extras, log: &mut Log<'_>) {
        if extras.waiters.is_some() {
            self.kind.waiters = extras.waiters;
        }
        if let Some(token) = extras.fencing_token {
            if let Some(from) = self.kind.fencing_token.filter(|from| token < *from) {
                self.totals().token_resets += 1;
                log.push(EventKind::TokenReset { from, to: token });
            }
            self.kind.fencing_token = Some(token);
        }
    }

    /// Claims and progress prove that a holder lives: the present one, or the one whose hold just
    /// ended.
    fn note_life(&mut self, signs: &Signs, news: Option<&lock::News>, sent: Mono) {
        if news.is_some_and(|news| news.ended.is_some() || news.acquired) {
            return;
        }
        let counted = u8::from(signs.progress_moved && self.kind.lock.hold().is_some());
        self.kind.moved_in_hold = self.kind.moved_in_hold.saturating_add(counted);
        let holders = self.kind.lock.hold().map(|hold| &*hold.held.holders).unwrap_or_default();
        if signs.progress_moved
            || holders.iter().any(|holder| signs.claims_changed.contains(&holder.client))
        {
            self.kind.lock.sign_of_life(sent);
        }
    }

    /// Updates the shown holders. If they are unchanged, the views share one copy.
    fn show_holders(&mut self) {
        let Some(hold) = self.kind.lock.hold() else {
            self.kind.shown_by = None;
            if !self.kind.shown.is_empty() {
                self.kind.shown = HeldBy::default();
            }
            return;
        };
        if self.kind.shown_by.as_ref().is_some_and(|by| Arc::ptr_eq(by, &hold.held)) {
            return;
        }
        let host_of =
            |client: &[u8]| self.hosts.iter().find(|(id, _)| id == client).map(|(_, host)| host);
        let now = hold.held.holders.iter().map(|holder| (holder, host_of(&holder.client)));
        if !now.clone().eq(self.kind.shown.iter().map(|(holder, host)| (holder, host.as_ref()))) {
            self.kind.shown = now.map(|(holder, host)| (holder.clone(), host.cloned())).collect();
        }
        self.kind.shown_by = Some(Arc::clone(&hold.held));
    }
}

/// The remaining lease when the request was sent, because the reading is evidence for that instant.
fn ttl_ms(reading: &LockReading, now: ServerTime) -> Option<u64> {
    match reading {
        LockReading::Held(held) => held
            .deadline
            .instant()
            .map(|deadline| u64::try_from(deadline.since_ms(now)).unwrap_or(0)),
        LockReading::Free | LockReading::Unknown(_) => None,
    }
}

/// Whether a hold seen at `at` cannot be a phantom.
fn proven(hold: &lock::Hold, at: Mono, authority: Authority) -> bool {
    // Without replicas, no client waits for any.
    authority.alone || hold.deadlines.renewed || at.since_ms(hold.began) >= PHANTOM_MS
}

/// The fate of a hold that existed before.
fn fate(news: &lock::News) -> Fate {
    match &news.ended {
        None => Fate::Kept,
        Some(_) if news.acquired => Fate::Changed,
        Some(ended) if ended.reason == End::Lost => Fate::Lost,
        Some(_) => Fate::Over,
    }
}
