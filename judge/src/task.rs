//! Tracks one task over time. It combines lock, switches, progress and claims into durations,
//! totals, events and a verdict.

mod follow;
mod grounds;
mod view;
mod wanting;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use self::wanting::Wanting;
use crate::clocks::{BlindClock, Holding, OutageClock, ProgressClock};
use crate::continuity::failover_report::Overlap;
use crate::continuity::generation::{Continued, Delta, Mark};
use crate::continuity::lost::{Expired, Parts};
use crate::event::{End, EventKind, Fate, Party, SplitKind};
use crate::evidence::{Origin, Seen};
use crate::grounds::Grounds;
use crate::input::{Attestation, Sample, Standing};
use crate::kinds::lock::{self, Context, Lock};
use crate::reading::{
    Beside, ClaimsReading, Held, HostsReading, LockReading, Overrun, PauseReading, ProgressReading,
    Switch, SwitchesReading, TaskReading, Unknown,
};
use crate::snapshot::{HeldBy, Judged, Totals};
use crate::spec::{Authority, TaskSpec};
use crate::splits::{Began, Claims, Limits, PHANTOM_MS, SplitNews, Splits, Witnesses, Word};
use crate::switches;
use crate::time::{Mono, ServerTime};
use crate::verdict::{Facts, LockFact, Rule, Verdict, Wanted, judge};

/// Slack in milliseconds beyond two sweeps. Readings of two servers that are further apart do not
/// contradict each other.
const FRESH_SLACK_MS: u64 = 1_000;

/// The signs seen beside the lock.
struct Signs {
    /// The switches are the same as before, which proves that this database was not flushed.
    kept_switches: bool,
    /// Instances whose claim changed.
    claims_changed: Vec<Vec<u8>>,
    progress_moved: bool,
}

/// The state of one task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) spec: Arc<TaskSpec>,
    store: Arc<str>,
    lock: Lock,
    /// Origin of the newest accepted reading of the lock, shared with other tasks.
    lock_origin: Option<Arc<Origin>>,
    /// What each server shows of the lock, if there are several.
    witnesses: Witnesses,
    /// With switches only.
    wanting: Option<Box<Wanting>>,
    /// With progress only.
    progress: Option<Box<ProgressClock>>,
    claims: Claims,
    splits: Splits,
    expired: Expired,
    outage: OutageClock,
    blind: BlindClock,
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
    hosts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why the newest reading of the hosts is no answer. The known hosts stay.
    hosts_unknown: Option<Unknown>,
    pause: Pause,
    /// Warnings that are reported once for as long as they last.
    told: Reported,
    newest_attempt: Mono,
    verdict: Option<(Verdict, Rule, Mono)>,
    judged: Option<Judged>,
    renewals: Arc<[Mono]>,
    /// Shared with the views.
    totals: Arc<Totals>,
    /// The holders last shown, shared with the views, and the reading they came from, unless the
    /// hosts have changed since.
    shown: HeldBy,
    shown_by: Option<Arc<Held>>,
    ttl_ms: Option<u64>,
    grounds: Grounds,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    unreadable: Option<Unknown>,
    progress_missing: bool,
    claims_unreadable: bool,
    /// The problem with the pause key, if any.
    pause: Option<PauseReading>,
    claim_beside_free: bool,
}

/// The time until which alerts shall wait, on the agent's clock.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    known: bool,
    until: Option<Mono>,
}

impl Pause {
    /// A pause that was read stays in force until it ends. Without one, the pause is unknown.
    fn unread(&mut self) {
        self.known &= self.until.is_some();
    }
}

/// The properties of an accepted batch that apply to one task's reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted<'a> {
    pub(crate) sent: Mono,
    pub(crate) attestation: &'a Attestation,
    pub(crate) origin: &'a Arc<Origin>,
    /// What its readings prove about the data that the previous process left to this one.
    pub(crate) continued: Option<&'a Continued>,
    pub(crate) standing: Standing,
    /// Pause between two sweeps.
    pub(crate) interval_ms: u64,
    pub(crate) took_ms: u64,
}

impl Accepted<'_> {
    fn seen(&self) -> Seen {
        Seen { sent: self.sent, first: self.attestation.first, last: self.attestation.last }
    }

    /// The point by which the batch shows data to be written.
    pub(crate) fn mark(&self) -> Mark {
        Mark { offset: self.attestation.offset, at: self.sent.plus_ms(self.took_ms) }
    }

    /// How the data changed since a reading from `old`.
    fn delta(&self, old: Option<&Origin>) -> Delta {
        let delta = Delta::since(old, self.origin);
        let continued =
            self.continued.filter(|continued| old.is_some_and(|old| continued.left_by(old)));
        continued.map_or(delta, |continued| delta.beginning_with(continued.until))
    }
}

/// A reading of the lock, and what may have happened since the previous one.
struct Turn<'a> {
    batch: Accepted<'a>,
    delta: Delta,
    /// The server that the previous reading came from.
    node_before: Arc<str>,
}

/// Events of one step, each with its instants.
pub(crate) struct Log<'a> {
    pub(crate) at: Mono,
    pub(crate) server: Option<ServerTime>,
    pub(crate) events: &'a mut Vec<(Mono, Option<ServerTime>, EventKind)>,
}

impl Log<'_> {
    fn push(&mut self, kind: EventKind) {
        self.events.push((self.at, self.server, kind));
    }
}

impl Task {
    pub(crate) fn new(spec: Arc<TaskSpec>, store: Arc<str>, at: Mono) -> Task {
        Task {
            lock: Lock::new(spec.lock()),
            wanting: Wanting::new(&spec),
            progress: progress(&spec),
            spec,
            store,
            lock_origin: None,
            witnesses: Witnesses::default(),
            claims: Claims::default(),
            splits: Splits::default(),
            expired: Expired::default(),
            outage: OutageClock::default(),
            blind: BlindClock::new(at),
            handed_over_by: None,
            direct_handover: false,
            settled: false,
            hold_settled: false,
            waiters: None,
            fencing_token: None,
            hosts: Vec::new(),
            hosts_unknown: None,
            pause: Pause::default(),
            told: Reported::default(),
            newest_attempt: at,
            verdict: None,
            judged: None,
            renewals: Arc::default(),
            totals: Arc::default(),
            shown: Arc::default(),
            shown_by: None,
            ttl_ms: None,
            grounds: Grounds::default(),
        }
    }

    /// The same lock under a changed configuration. Its state is kept.
    pub(crate) fn configure(&mut self, spec: Arc<TaskSpec>, store: Arc<str>, log: &mut Log<'_>) {
        if spec != self.spec {
            self.expired.forget();
        }
        if spec.wanted != self.spec.wanted {
            if self.wanting.as_ref().is_some_and(|wanting| !wanting.switches.lost().is_empty()) {
                log.push(EventKind::SwitchesFound);
            }
            self.wanting = Wanting::new(&spec);
            self.outage.forget();
        }
        let source =
            |spec: &TaskSpec| spec.progress.as_ref().map(|progress| progress.source.clone());
        if source(&spec) != source(&self.spec) {
            self.progress = progress(&spec);
            self.told.progress_missing = false;
        }
        let claims_key = |spec: &TaskSpec| spec.claims.as_ref().map(|claims| claims.key.clone());
        if claims_key(&spec) != claims_key(&self.spec) {
            self.claims = Claims::default();
            self.told.claims_unreadable = false;
        }
        if spec.hosts != self.spec.hosts {
            self.hosts.clear();
            self.shown_by = None;
            self.hosts_unknown = None;
        }
        if spec.paused_until != self.spec.paused_until {
            self.pause = Pause::default();
            self.told.pause = None;
        }
        self.lock.configure(spec.lock());
        self.spec = spec;
        self.store = store;
    }

    /// Whether a server that decides now, other than the sample's, has answered a later request. A
    /// result from the earlier server is then outdated.
    pub(crate) fn answered_elsewhere(&self, sample: &Sample) -> bool {
        let elsewhere = self
            .lock_origin
            .as_ref()
            .is_some_and(|origin| sample.node.as_ref() != Some(&origin.node));
        elsewhere
            && sample.node.is_some()
            && self.lock.last_reading().is_some_and(|last| last.sent > sample.sent)
    }

    /// The attempt gave no information about this task.
    pub(crate) fn failed(&mut self, why: Unknown, at: Mono, log: &mut Log<'_>) {
        self.newest_attempt = at;
        self.lock.unknown(why);
        self.expired.unseen();
        self.switches_unknown(why);
        self.claims.unread(why);
        self.pause.unread();
        self.note_blind(at);
        self.blind.attempted(at, false);
        self.judge(log);
    }

    fn stalled_ms(&self) -> u64 {
        self.progress.as_ref().map_or(0, |progress| progress.stalled_ms())
    }

    /// The totals, for modification.
    fn totals(&mut self) -> &mut Totals {
        Arc::make_mut(&mut self.totals)
    }

    fn note_blind(&mut self, at: Mono) {
        let grew_ms = self.blind.bad(at);
        self.count_blind(grew_ms);
    }

    fn count_blind(&mut self, grew_ms: u64) {
        if grew_ms > 0 {
            self.totals().blind_ms += grew_ms;
        }
    }

    /// Time has passed. `stale_after_ms` without any attempt makes the state unknown.
    pub(crate) fn tick(&mut self, now: Mono, stale_after_ms: u64, log: &mut Log<'_>) -> bool {
        let stale =
            self.lock.newest().is_ok() && now.since_ms(self.newest_attempt) > stale_after_ms;
        if stale {
            self.lock.unknown(Unknown::Stale);
            self.expired.unseen();
            self.switches_unknown(Unknown::Stale);
            self.claims.unread(Unknown::Stale);
            self.pause.unread();
            self.note_blind(now);
        }
        let before = self.verdict;
        let grew_ms = self.blind.tick(now);
        self.count_blind(grew_ms);
        let pausing = self.pause.until.is_some();
        if self.pause.until.is_some_and(|until| now >= until) {
            self.pause.until = None;
        }
        self.judge(log);
        stale || grew_ms > 0 || pausing || self.verdict != before
    }

    /// What a reading from `origin` proves about the data with which that process began.
    pub(crate) fn proves_continued(
        &self,
        reading: &LockReading,
        origin: &Origin,
    ) -> Option<Continued> {
        let by = origin.process_before(self.lock_origin.as_deref()?)?;
        self.lock.shows_renewal_after(reading).map(|until| Continued { by: by.clone(), until })
    }

    /// Takes in the reading of this task by a deciding server. Unless the reading gives no
    /// information about the lock, returns the fate of the hold that existed before, if any.
    pub(crate) fn observe(
        &mut self,
        reading: &TaskReading,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>> {
        let (seen, sent) = (batch.seen(), batch.sent);
        self.newest_attempt = sent;
        let signs = self.observe_signs(&reading.beside, batch, log);
        self.observe_extras(reading, log);
        let lock = self.judged(&reading.lock, batch);
        let delta = batch.delta(self.lock_origin.as_deref()).seen_beside(signs.kept_switches);
        // A server that followed another one meanwhile may have deadlines from that one's clock.
        let same_clock = self.lock_origin.as_ref().is_none_or(|old| batch.origin.same_clock(old))
            && !delta.replication;
        let context = Context {
            seen,
            given: batch.mark(),
            same_clock,
            delta,
            blind_after_ms: self.spec.blind_after_ms,
        };
        let held_before = self.lock.hold().is_some();
        let news = self.lock.observe(&lock, context);
        match &lock {
            LockReading::Unknown(why) => {
                self.expired.unseen();
                self.tell_unreadable(*why, log);
                self.follow_gap(sent, Holding::Unseen, log);
            }
            LockReading::Free | LockReading::Held(_) => {
                if self.told.unreadable.take().is_some() {
                    log.push(EventKind::TaskReadable);
                }
                let node_before = self.lock_origin.as_ref().unwrap_or(batch.origin).node.clone();
                let turn = Turn { batch, delta, node_before };
                if batch.origin.generation.is_some() || self.moved_from(batch.origin) {
                    self.lock_origin = Some(Arc::clone(batch.origin));
                }
                self.note_life(&signs, Some(&news), sent);
                self.follow_losses(&reading.beside, sent, Some(&news), &signs, log);
                self.follow_lock(&news, &turn, log);
                self.follow_clocks(seen, &news, log);
                self.follow_splits(batch, &news, log);
                self.ttl_ms = ttl_ms(&lock, seen.first);
            }
        }
        self.follow_witnesses(&reading.lock, batch, log);
        self.note_sight(sent);
        self.judge(log);
        let known = !matches!(lock, LockReading::Unknown(_));
        known.then(|| held_before.then(|| fate(&news)))
    }

    /// Takes in the reading of a server that does not decide.
    pub(crate) fn witness(
        &mut self,
        reading: &LockReading,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) {
        self.follow_witnesses(reading, batch, log);
        self.judge(log);
    }

    /// Takes in the keys beside the lock that are on another server.
    pub(crate) fn observe_beside(
        &mut self,
        beside: &Beside,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) {
        let signs = self.observe_signs(beside, batch, log);
        self.note_life(&signs, None, batch.sent);
        self.follow_losses(beside, batch.sent, None, &signs, log);
        self.follow_gap(batch.sent, Holding::Unseen, log);
        // It may complete the reading of the lock, which was requested earlier.
        match self.lock.last_reading() {
            Some(lock) if self.has_sight() => self.blind.good(lock.sent),
            _ => {
                self.note_blind(batch.sent);
                self.blind.attempted(batch.sent, true);
            }
        }
        self.judge(log);
    }

    /// The keys beside the lock could not be read; `answered`: their server answers all the same.
    pub(crate) fn failed_beside(
        &mut self,
        beside: &Beside,
        answered: bool,
        at: Mono,
        log: &mut Log<'_>,
    ) {
        self.expired
            .unread(Parts { claims: beside.claims.is_some(), progress: beside.progress.is_some() });
        if let Some(SwitchesReading::Unknown(why)) = beside.switches {
            self.switches_unknown(why);
        }
        if let Some(claims) = &beside.claims {
            self.claims.observe(claims, at, self.fresh_for_ms());
            self.tell_claims(claims, log);
        }
        if let Some((clock, progress)) = self.progress.as_mut().zip(beside.progress.as_ref()) {
            clock.observe(progress, at, ServerTime::default());
            self.tell_progress(progress, log);
        }
        if beside.pause.is_some() {
            self.pause.unread();
        }
        // A failure does not count as an answer, however much is known of the lock.
        if !self.has_sight() {
            self.note_blind(at);
            self.blind.attempted(at, answered);
        }
        self.judge(log);
    }

    /// Drops the readings of servers that no longer belong to the store.
    pub(crate) fn retain_witnesses(&mut self, nodes: &[Arc<str>]) {
        self.witnesses.retain(nodes);
    }

    /// The splits between two generations or two servers.
    pub(crate) fn overlaps(&self) -> impl Iterator<Item = Overlap<'_>> {
        self.splits.overlaps()
    }

    /// The conclusion that the lock's reading allows. If only the servers themselves report which
    /// one is master, a free lock proves nothing while another master shows it held.
    fn judged(&self, reading: &LockReading, batch: Accepted<'_>) -> LockReading {
        let contradicted = batch.origin.authority.self_declared()
            && *reading == LockReading::Free
            && self.witnesses.held_elsewhere(&batch.origin.node, self.limits(batch), batch.sent);
        if contradicted { LockReading::Unknown(Unknown::TwoMasters) } else { reading.clone() }
    }

    fn moved_from(&self, origin: &Origin) -> bool {
        self.lock_origin.as_ref().is_none_or(|old| !origin.same_clock(old))
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
        if batch.origin.authority.alone && self.witnesses.is_empty() {
            return;
        }
        let lease_ms = match reading {
            LockReading::Held(held) => self.lock.leases.of(held.mode),
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
            true => self.witnesses.retain(&[]),
            false => self.witnesses.observe(reading, word),
        }
        let news = self.splits.observe_masters(&self.witnesses, self.limits(batch), batch.sent);
        self.tell_splits(news, log);
    }

    /// Takes in the keys beside the lock: the state of the switches, and the signs of life.
    fn observe_signs(&mut self, beside: &Beside, batch: Accepted<'_>, log: &mut Log<'_>) -> Signs {
        let signs = Signs {
            kept_switches: self.observe_switches(beside, batch, log),
            claims_changed: self.observe_claims(beside, batch.sent, log),
            progress_moved: self.observe_progress(beside, batch.seen(), log),
        };
        self.observe_side(beside, batch.seen(), log);
        signs
    }

    /// Returns whether the switches are unchanged, which proves that this database was not flushed.
    fn observe_switches(
        &mut self,
        beside: &Beside,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> bool {
        let Some((wanting, answer)) = self.wanting.as_mut().zip(beside.switches.as_ref()) else {
            return false;
        };
        let delta = batch.delta(wanting.origin.as_deref());
        let (sent, given) = (batch.sent, batch.mark());
        let news: switches::News = wanting.switches.observe(answer, sent, given, delta);
        if wanting.switches.why_unknown().is_none() && batch.origin.generation.is_some() {
            wanting.origin = Some(Arc::clone(batch.origin));
        }
        if let Some(users) = news.lost {
            log.push(EventKind::SwitchesLost { users });
        }
        if news.found {
            log.push(EventKind::SwitchesFound);
        }
        if news.key_missing {
            log.push(EventKind::SwitchKeyMissing);
        }
        for (user, switch) in news.undecodable {
            if let Switch::Undecodable { fits, .. } = switch {
                log.push(EventKind::SwitchUndecodable { user, fits });
            }
        }
        news.kept
    }

    fn observe_claims(&mut self, beside: &Beside, sent: Mono, log: &mut Log<'_>) -> Vec<Vec<u8>> {
        let Some(claims) = &beside.claims else { return Vec::new() };
        if matches!(claims, ClaimsReading::Read(_)) {
            for overrun in self.claims.overran(&beside.overruns) {
                self.tell_overrun(overrun, log);
            }
        }
        let changed = self.claims.observe(claims, sent, self.fresh_for_ms());
        self.tell_claims(claims, log);
        changed
    }

    /// A guard reports that its script ran beside the next holder. That is over.
    fn tell_overrun(&mut self, overrun: Overrun, log: &mut Log<'_>) {
        let claimants = self.spec.lock().claimants;
        let own = [Party::of(&claimants.holder(&overrun.instance), None)];
        let held = self.lock.hold().map(|hold| &*hold.held.holders).unwrap_or_default();
        let others = held.iter().filter(|holder| holder.client != overrun.instance);
        let parties = own.into_iter().chain(others.map(|holder| Party::of(holder, None))).collect();
        let kind = SplitKind::Claims;
        let began = vec![Began { kind, parties, left_ms: None }];
        self.tell_splits(SplitNews { began, ..SplitNews::default() }, log);
        let ended = vec![(kind, overrun.ms)];
        let news = SplitNews { ended, grew_ms: overrun.ms, ..SplitNews::default() };
        self.tell_splits(news, log);
    }

    fn tell_claims(&mut self, claims: &ClaimsReading, log: &mut Log<'_>) {
        let why = if let ClaimsReading::Unknown(why) = claims { Some(*why) } else { None };
        if let (Some(why), false) = (why, self.told.claims_unreadable) {
            log.push(EventKind::ClaimsUnreadable { why });
        }
        self.told.claims_unreadable = why.is_some();
    }

    fn observe_progress(&mut self, beside: &Beside, seen: Seen, log: &mut Log<'_>) -> bool {
        let Some((clock, progress)) = self.progress.as_mut().zip(beside.progress.as_ref()) else {
            return false;
        };
        let moved = clock.observe(progress, seen.sent, seen.last);
        self.tell_progress(progress, log);
        moved
    }

    fn tell_progress(&mut self, progress: &ProgressReading, log: &mut Log<'_>) {
        let why = match progress {
            ProgressReading::Value(_) => None,
            ProgressReading::Absent => Some(None),
            ProgressReading::Unknown(why) => Some(Some(*why)),
        };
        if let (Some(why), false) = (why, self.told.progress_missing) {
            log.push(EventKind::ProgressMissing { why });
        }
        self.told.progress_missing = why.is_some();
    }

    /// Pause and hosts.
    fn observe_side(&mut self, beside: &Beside, seen: Seen, log: &mut Log<'_>) {
        if let Some(pause) = beside.pause {
            self.observe_pause(pause, seen);
            self.tell_pause(pause, log);
        }
        if let Some(hosts) = &beside.hosts {
            self.observe_hosts(hosts, log);
        }
    }

    fn observe_pause(&mut self, pause: PauseReading, seen: Seen) {
        match pause {
            PauseReading::Until(until) => {
                let left_ms = u64::try_from(until.since_ms(seen.last)).unwrap_or(0);
                self.pause =
                    Pause { known: true, until: (left_ms > 0).then(|| seen.sent.plus_ms(left_ms)) };
            }
            PauseReading::None => self.pause = Pause { known: true, until: None },
            PauseReading::Undecodable | PauseReading::Unknown(_) => self.pause.unread(),
        }
    }

    fn observe_hosts(&mut self, hosts: &HostsReading, log: &mut Log<'_>) {
        let before = self.hosts_unknown;
        self.hosts_unknown = hosts.as_ref().err().copied();
        match (hosts, before) {
            (Ok(hosts), _) if *hosts == self.hosts => {}
            (Ok(hosts), _) => {
                self.hosts.clone_from(hosts);
                self.shown_by = None;
            }
            (Err(why), None) => log.push(EventKind::HostsUnreadable { why: *why }),
            (Err(_), Some(_)) => {}
        }
    }

    fn tell_pause(&mut self, pause: PauseReading, log: &mut Log<'_>) {
        let wrong = match pause {
            PauseReading::Until(_) | PauseReading::None => None,
            PauseReading::Undecodable => Some(EventKind::PauseUndecodable),
            PauseReading::Unknown(why) => Some(EventKind::PauseUnreadable { why }),
        };
        let told = wrong.is_some().then_some(pause);
        if told != self.told.pause
            && let Some(wrong) = wrong
        {
            log.push(wrong);
        }
        self.told.pause = told;
    }

    /// Waiters and token.
    fn observe_extras(&mut self, reading: &TaskReading, log: &mut Log<'_>) {
        if reading.extras.waiters.is_some() {
            self.waiters = reading.extras.waiters;
        }
        if let Some(token) = reading.extras.fencing_token {
            if let Some(from) = self.fencing_token.filter(|from| token < *from) {
                self.totals().token_resets += 1;
                log.push(EventKind::TokenReset { from, to: token });
            }
            self.fencing_token = Some(token);
        }
    }

    fn tell_unreadable(&mut self, why: Unknown, log: &mut Log<'_>) {
        if self.told.unreadable != Some(why) {
            self.told.unreadable = Some(why);
            log.push(EventKind::TaskUnreadable { why });
        }
    }

    /// Claims and progress prove that a holder lives: the present one, or the one whose hold just
    /// ended.
    fn note_life(&mut self, signs: &Signs, news: Option<&lock::News>, sent: Mono) {
        if news.is_some_and(|news| news.ended.is_some() || news.acquired) {
            return;
        }
        let holders = self.lock.hold().map(|hold| &*hold.held.holders).unwrap_or_default();
        if signs.progress_moved
            || holders.iter().any(|holder| signs.claims_changed.contains(&holder.client))
        {
            self.lock.sign_of_life(sent);
        }
    }

    /// Whether the newest attempts answered everything that matters: the lock, and, while it is
    /// free, whether it is wanted.
    fn has_sight(&self) -> bool {
        let needs_wanted = self.lock.held() == Some(false);
        self.lock.newest().is_ok() && !(needs_wanted && self.wanted() == Wanted::Unknown)
    }

    /// A request sent at `at` was answered, wholly or in part.
    fn note_sight(&mut self, at: Mono) {
        match self.has_sight() {
            true => self.blind.good(at),
            false => {
                self.note_blind(at);
                self.blind.attempted(at, true);
            }
        }
    }

    fn judge(&mut self, log: &mut Log<'_>) {
        // A "free" that waits for its confirmation proves neither "held" nor "free", so the
        // previous verdict stays.
        let unconfirmed = self.lock.held() == Some(false) && self.lock.free_since().is_none();
        let facts = Facts {
            wanted: self.wanted(),
            lock: if unconfirmed { LockFact::Unknown } else { self.lock.fact() },
            split: !self.splits.kinds().is_empty(),
            gap_over_grace: self.gap_ms() > self.spec.grace_ms,
            stale: self.stalled_ms() > 0,
            over_wind_down: self.unwanted_ms() > self.spec.wind_down_ms,
            blind: self.blind.ms() > self.spec.blind_after_ms,
        };
        // Before the first judgement there is no previous verdict to keep.
        let before = self
            .verdict
            .filter(|(_, rule, _)| *rule != Rule::NothingYet)
            .map(|(verdict, ..)| verdict);
        let (verdict, rule) = judge(facts, before);
        let since = match self.verdict {
            Some((same, _, since)) if same == verdict => since,
            _ => log.at,
        };
        if before != Some(verdict) && rule != Rule::NothingYet {
            log.push(EventKind::Verdict { from: before, to: verdict, rule });
        }
        self.verdict = Some((verdict, rule, since));
        self.judged = Some(Judged { facts, previous: before });
        self.follow_grounds(log.at);
    }

    fn fresh_for_ms(&self) -> u64 {
        self.spec.claims.as_ref().map_or(0, |claims| claims.fresh_for_ms)
    }
}

/// What is followed of progress that is configured.
fn progress(spec: &TaskSpec) -> Option<Box<ProgressClock>> {
    spec.progress.as_ref().map(|_| Box::default())
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

#[cfg(test)]
mod tests {
    use core::mem::size_of;

    use super::Task;
    use crate::snapshot::{TaskView, Totals};

    /// A hundred thousand tasks are watched by one process, and most have only a lock. What few
    /// tasks have is absent there: behind an optional box.
    #[test]
    fn a_task_with_only_a_lock_is_small() {
        let sizes = [size_of::<Task>(), size_of::<TaskView>(), size_of::<Totals>()];
        assert!(sizes[0] <= 768 && sizes[1] <= 496 && sizes[2] <= 240, "{sizes:?}");
    }
}
