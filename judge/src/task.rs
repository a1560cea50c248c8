//! Tracks one task over time. It combines what guards it, switches, progress and claims into
//! durations, totals, events and a verdict.
//!
//! [`Watched`] has what all kinds share; a [`Kind`] adds what is its own. [`Task`] is a task of any
//! kind.

mod beside;
mod grounds;
mod lock;
mod queue;
mod turn;
mod view;
mod wanting;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::beside::{Pause, Reported, Signs};
use self::lock::OfLock;
use self::queue::OfQueue;
use self::turn::OfTurn;
use self::wanting::Wanting;
use crate::claims::Claims;
use crate::clocks::{BlindClock, Holding};
use crate::continuity::failover_report::Overlap;
use crate::continuity::generation::{Continued, Delta, Mark};
use crate::continuity::lost::Parts;
use crate::event::{EventKind, Fate, Party};
use crate::evidence::{Origin, Seen};
use crate::grounds::Grounds;
use crate::input::{Attestation, Sample, Standing};
use crate::kinds::KindView;
use crate::progress::ProgressClock;
use crate::reading::{Beside, GuardReading, Holder, LockReading, TaskReading, Unknown};
use crate::runs::Runs;
use crate::snapshot::{Judged, TaskView, Totals};
use crate::spec::{KindSpec, TaskSpec};
use crate::splits::{Began, SplitNews, Splits};
use crate::time::{Mono, ServerTime};
use crate::verdict::{Facts, Rule, Verdict, judge};

/// A task of any kind.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all tasks have a lock: it is kept in place")]
pub(crate) enum Task {
    /// Nearly all tasks: kept in place.
    Lock(Watched<OfLock>),
    Turn(Box<Watched<OfTurn>>),
    Queue(Box<Watched<OfQueue>>),
}

/// What a kind adds to a task.
pub(crate) trait Kind: Sized {
    /// Takes over a changed configuration of the same task.
    fn configure(&mut self, before: &TaskSpec, now: &TaskSpec);

    /// The newest attempt gave no trustworthy reading.
    fn unknown(&mut self, why: Unknown);

    /// Whether the newest attempt gave a trustworthy reading.
    fn newest(&self) -> Result<(), Unknown>;

    /// The newest trustworthy reading.
    fn last_reading(&self) -> Option<Seen>;

    /// Whether somebody has it, by the newest reading.
    fn held(&self) -> Option<bool>;

    /// Who has it, by the newest trustworthy reading.
    fn holders(&self) -> &[Holder];

    /// Whether a reading says nothing as long as it is unknown whether the task is wanted.
    fn needs_wanted(&self) -> bool {
        self.held() == Some(false)
    }

    /// Whether it has been held for so long that a reading says enough though nobody knows whether
    /// the task is wanted.
    fn lasts(&self, _young_ms: u64) -> bool {
        true
    }

    /// Whether a reading shows that it stayed where it was: the data of the newest trustworthy
    /// reading are still there.
    fn stayed(&self, _guard: &GuardReading) -> bool {
        false
    }

    /// How long the work has not moved, once that is too long, otherwise 0. In milliseconds.
    fn stalled_ms(task: &Watched<Self>) -> u64;

    /// The names of hosts changed.
    fn hosts_changed(&mut self) {}

    /// Parts beside it could not be read.
    fn unread(&mut self, _parts: Parts) {}

    /// Takes in a reading by a server that decides. Unless it gives no information, returns the
    /// fate of the hold that existed before, if there can be one and there was.
    fn observe(
        task: &mut Watched<Self>,
        reading: (&GuardReading, &Beside),
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>>;

    /// Takes in the signs of keys that are on another server.
    fn observe_beside(
        task: &mut Watched<Self>,
        _beside: &Beside,
        _signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) {
        task.observe_gap(batch.sent, Holding::Unseen, log);
    }

    /// Everything that its verdict depends on.
    fn facts(task: &Watched<Self>) -> Facts;

    /// Follows the grounds of its problems.
    fn follow_grounds(task: &mut Watched<Self>, at: Mono);

    /// What only this kind shows.
    fn view(task: &mut Watched<Self>) -> KindView;
}

/// The state of one task.
#[derive(Clone, Debug)]
pub(crate) struct Watched<K> {
    pub(crate) spec: Arc<TaskSpec>,
    store: Arc<str>,
    kind: K,
    /// Origin of the newest accepted reading, shared with other tasks.
    origin: Option<Arc<Origin>>,
    /// With switches only.
    wanting: Option<Box<Wanting>>,
    /// With progress only.
    progress: Option<Box<ProgressClock>>,
    claims: Claims,
    /// With claims only, once they were read.
    runs: Option<Arc<Runs>>,
    splits: Splits,
    blind: BlindClock,
    hosts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why the newest reading of the hosts is no answer. The known hosts stay.
    hosts_unknown: Option<Unknown>,
    pause: Pause,
    /// Warnings that are reported once for as long as they last.
    told: Reported,
    newest_attempt: Mono,
    /// Its key was seen to exist.
    key_seen: bool,
    verdict: Option<(Verdict, &'static Rule, Mono)>,
    judged: Option<Judged>,
    /// Shared with the views.
    totals: Arc<Totals>,
    grounds: Grounds,
}

/// The properties of an accepted batch that apply to one task's reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted<'a> {
    pub(crate) sent: Mono,
    pub(crate) attestation: &'a Attestation,
    pub(crate) origin: &'a Arc<Origin>,
    /// What its readings prove about the data that the previous process left to this one.
    pub(crate) continued: Option<&'a Continued>,
    /// The number of flushes of this process since which its database has certainly not been
    /// flushed, as one of its readings proves.
    pub(crate) unflushed_since: Option<u64>,
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
        let flushes = old.and_then(|old| Some(old.generation.as_ref()?.flushes));
        let is_kept = self.unflushed_since.zip(flushes).is_some_and(|(since, then)| since <= then);
        let delta = delta.seen_beside(is_kept && !delta.restarted);
        let continued =
            self.continued.filter(|continued| old.is_some_and(|old| continued.left_by(old)));
        continued.map_or(delta, |continued| delta.beginning_with(continued.until))
    }
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

/// Does the same with a task of any kind.
macro_rules! each {
    ($task:expr, $it:ident => $does:expr) => {
        match $task {
            Task::Lock($it) => $does,
            Task::Turn($it) => $does,
            Task::Queue($it) => $does,
        }
    };
}

impl Task {
    pub(crate) fn new(spec: Arc<TaskSpec>, store: Arc<str>, at: Mono) -> Task {
        match &spec.kind {
            KindSpec::Lock(lock) => {
                let kind = OfLock::new(lock);
                Task::Lock(Watched::new(kind, spec, store, at))
            }
            KindSpec::Turn(turn) => {
                let kind = OfTurn::new(turn);
                Task::Turn(Box::new(Watched::new(kind, spec, store, at)))
            }
            KindSpec::Queue(queue) => {
                let kind = OfQueue::new(queue);
                Task::Queue(Box::new(Watched::new(kind, spec, store, at)))
            }
        }
    }

    pub(crate) fn spec(&self) -> &Arc<TaskSpec> {
        each!(self, task => &task.spec)
    }

    /// The same task under a changed configuration. Its state is kept.
    pub(crate) fn configure(&mut self, spec: Arc<TaskSpec>, store: Arc<str>, log: &mut Log<'_>) {
        each!(self, task => task.configure(spec, store, log));
    }

    /// Whether a server that decides now, other than the sample's, has answered a later request. A
    /// result from the earlier server is then outdated.
    pub(crate) fn answered_elsewhere(&self, sample: &Sample) -> bool {
        each!(self, task => task.answered_elsewhere(sample))
    }

    /// The attempt gave no information about this task.
    pub(crate) fn failed(&mut self, why: Unknown, at: Mono, log: &mut Log<'_>) {
        each!(self, task => task.failed(why, at, log));
    }

    /// Time has passed. `stale_after_ms` without any attempt makes the state unknown.
    pub(crate) fn tick(&mut self, now: Mono, stale_after_ms: u64, log: &mut Log<'_>) -> bool {
        each!(self, task => task.tick(now, stale_after_ms, log))
    }

    /// Takes in the reading of this task by a deciding server. Unless the reading gives no
    /// information, returns the fate of the hold that existed before, if any.
    pub(crate) fn observe(
        &mut self,
        reading: &TaskReading,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>> {
        each!(self, task => task.observe(reading, batch, log))
    }

    /// Takes in the keys beside the lock that are on another server.
    pub(crate) fn observe_beside(
        &mut self,
        beside: &Beside,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) {
        each!(self, task => task.observe_beside(beside, batch, log));
    }

    /// The keys beside the lock could not be read; `answered`: their server answers all the same.
    pub(crate) fn failed_beside(
        &mut self,
        beside: &Beside,
        answered: bool,
        at: Mono,
        log: &mut Log<'_>,
    ) {
        each!(self, task => task.failed_beside(beside, answered, at, log));
    }

    /// The view for outputs.
    pub(crate) fn view(&mut self, now: Mono) -> TaskView {
        each!(self, task => task.view(now))
    }

    /// What a reading from `origin` proves about the data with which that process began.
    pub(crate) fn proves_continued(
        &self,
        reading: &TaskReading,
        origin: &Origin,
    ) -> Option<Continued> {
        match self {
            Task::Lock(task) => task.proves_continued(reading.lock()?, origin),
            Task::Turn(_) | Task::Queue(_) => None,
        }
    }

    /// What a reading from `origin` proves about flushes of its database.
    pub(crate) fn proves_unflushed(&self, reading: &TaskReading, origin: &Origin) -> Option<u64> {
        match self {
            Task::Lock(task) => task.proves_unflushed(reading.lock()?, origin),
            Task::Turn(_) | Task::Queue(_) => None,
        }
    }

    /// Takes in the reading of a server that does not decide. It shows of a lock who has it there.
    pub(crate) fn witness(&mut self, lock: &LockReading, batch: Accepted<'_>, log: &mut Log<'_>) {
        if let Task::Lock(task) = self {
            task.witness(lock, batch, log);
        }
    }

    /// Drops the readings of servers that no longer belong to the store.
    pub(crate) fn retain_witnesses(&mut self, nodes: &[Arc<str>]) {
        if let Task::Lock(task) = self {
            task.retain_witnesses(nodes);
        }
    }

    /// The splits between two generations or two servers.
    pub(crate) fn overlaps(&self) -> impl Iterator<Item = Overlap<'_>> {
        each!(self, task => &task.splits).overlaps()
    }
}

impl<K: Kind> Watched<K> {
    fn new(kind: K, spec: Arc<TaskSpec>, store: Arc<str>, at: Mono) -> Watched<K> {
        Watched {
            kind,
            wanting: Wanting::new(&spec),
            progress: beside::progress(&spec),
            spec,
            store,
            origin: None,
            claims: Claims::default(),
            runs: None,
            splits: Splits::default(),
            blind: BlindClock::new(at),
            hosts: Vec::new(),
            hosts_unknown: None,
            pause: Pause::default(),
            told: Reported::default(),
            newest_attempt: at,
            key_seen: false,
            verdict: None,
            judged: None,
            totals: Arc::default(),
            grounds: Grounds::default(),
        }
    }

    fn configure(&mut self, spec: Arc<TaskSpec>, store: Arc<str>, log: &mut Log<'_>) {
        self.kind.configure(&self.spec, &spec);
        self.configure_beside(&spec, log);
        self.spec = spec;
        self.store = store;
    }

    fn answered_elsewhere(&self, sample: &Sample) -> bool {
        let elsewhere =
            self.origin.as_ref().is_some_and(|origin| sample.node.as_ref() != Some(&origin.node));
        elsewhere
            && sample.node.is_some()
            && self.kind.last_reading().is_some_and(|last| last.sent > sample.sent)
    }

    fn failed(&mut self, why: Unknown, at: Mono, log: &mut Log<'_>) {
        self.newest_attempt = at;
        self.unread(why, at);
        self.blind.attempted(at, false);
        self.judge(log);
    }

    fn unread(&mut self, why: Unknown, at: Mono) {
        self.kind.unknown(why);
        self.switches_unknown(why);
        self.claims.unread(why);
        self.pause.unread();
        self.note_blind(at);
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

    fn tick(&mut self, now: Mono, stale_after_ms: u64, log: &mut Log<'_>) -> bool {
        let stale =
            self.kind.newest().is_ok() && now.since_ms(self.newest_attempt) > stale_after_ms;
        if stale {
            self.unread(Unknown::Stale, now);
        }
        let before = self.verdict;
        let grew_ms = self.blind.tick(now);
        self.count_blind(grew_ms);
        let pausing = self.pause.end(now);
        self.judge(log);
        stale || grew_ms > 0 || pausing || self.verdict != before
    }

    fn observe(
        &mut self,
        reading: &TaskReading,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>> {
        self.newest_attempt = batch.sent;
        self.key_seen |= reading.guard.shows_key();
        let stayed = self.kind.stayed(&reading.guard);
        let signs = self.observe_signs(&reading.beside, stayed, batch, log);
        let fate = K::observe(self, (&reading.guard, &reading.beside), &signs, batch, log);
        self.note_sight(batch.sent);
        self.judge(log);
        fate
    }

    fn observe_beside(&mut self, beside: &Beside, batch: Accepted<'_>, log: &mut Log<'_>) {
        let signs = self.observe_signs(beside, false, batch, log);
        K::observe_beside(self, beside, &signs, batch, log);
        // It may complete the reading of the lock, which was requested earlier.
        match self.kind.last_reading() {
            Some(last) if self.sees_enough() => self.blind.good(last.sent),
            _ => {
                self.note_blind(batch.sent);
                self.blind.attempted(batch.sent, true);
            }
        }
        self.judge(log);
    }

    /// Takes in the origin of an accepted reading.
    fn note_origin(&mut self, batch: Accepted<'_>) {
        let has_moved = self.origin.as_ref().is_none_or(|old| !batch.origin.same_clock(old));
        if batch.origin.generation.is_some() || has_moved {
            self.origin = Some(Arc::clone(batch.origin));
        }
    }

    /// It could not be read, or it could again: each is told once.
    fn tell_readable(&mut self, read: Result<(), Unknown>, log: &mut Log<'_>) {
        let told = core::mem::replace(&mut self.told.unreadable, read.err());
        match (read, told) {
            (Err(why), told) if told != Some(why) => log.push(EventKind::TaskUnreadable { why }),
            (Ok(()), Some(_)) => log.push(EventKind::TaskReadable),
            (Ok(()) | Err(_), _) => {}
        }
    }

    /// Whether the newest attempts answered everything that matters: what guards the task, and
    /// whether it is wanted where that decides.
    fn has_sight(&self) -> bool {
        self.kind.newest().is_ok() && (self.is_wanted_known() || !self.kind.needs_wanted())
    }

    fn is_wanted_known(&self) -> bool {
        self.wanted() != crate::verdict::Wanted::Unknown
    }

    /// Whether that ends a blindness. A young hold does not end one in which the server answered,
    /// as long as nobody knows whether the task is wanted: a worker that crashes again and again
    /// would hide that its switches cannot be read.
    fn sees_enough(&self) -> bool {
        let young_ms = self.spec.settle_ms.min(self.spec.blind_after_ms / 2);
        let answered_in_vain = self.blind.answered_ms() > 0;
        self.has_sight()
            && (self.is_wanted_known() || !answered_in_vain || self.kind.lasts(young_ms))
    }

    /// A request sent at `at` was answered, wholly or in part.
    fn note_sight(&mut self, at: Mono) {
        match self.sees_enough() {
            true => self.blind.good(at),
            false => {
                self.note_blind(at);
                self.blind.attempted(at, true);
            }
        }
    }

    fn judge(&mut self, log: &mut Log<'_>) {
        let facts = K::facts(self);
        // Before the first judgement there is no previous verdict to keep.
        let before = self
            .verdict
            .filter(|(_, rule, _)| *rule != &Rule::NOTHING_YET)
            .map(|(verdict, ..)| verdict);
        let (verdict, rule) = judge(facts, before);
        let since = match self.verdict {
            Some((same, _, since)) if same == verdict => since,
            _ => log.at,
        };
        if before != Some(verdict) && rule != &Rule::NOTHING_YET {
            log.push(EventKind::Verdict { from: before, to: verdict, rule });
        }
        self.verdict = Some((verdict, rule, since));
        self.judged = Some(Judged { facts, previous: before });
        self.follow_grounds(log.at);
    }

    fn is_blind(&self) -> bool {
        self.blind.ms() > self.spec.blind_after_ms
    }

    fn is_gap_over_grace(&self) -> bool {
        self.gap_ms() > self.spec.grace_ms
    }

    fn is_split(&self) -> bool {
        !self.splits.kinds().is_empty()
    }

    fn tell_splits(&mut self, news: SplitNews, log: &mut Log<'_>) {
        if news.grew_ms > 0 {
            self.totals().split_ms += news.grew_ms;
        }
        for (kind, lasted_ms) in news.ended {
            log.push(EventKind::SplitEnded { kind, lasted_ms });
        }
        for Began { kind, parties, left_ms } in news.began {
            let parties = self.with_hosts(parties);
            let rare = self.grounds.rare();
            (rare.split, rare.split_by) = (Some(log.at), Some((kind, parties.clone())));
            if let Some(count) = self.totals().splits.get_mut(kind as usize) {
                *count += 1;
            }
            log.push(EventKind::SplitBegan { kind, parties, left_ms });
        }
        if let Some((older, newer)) = news.rival_in_doubt {
            let (older, newer) = (self.with_hosts(older), self.with_hosts(newer));
            log.push(EventKind::RivalInDoubt { older, newer });
        }
    }

    /// The same, each with its host where that is known.
    fn with_hosts(&self, mut parties: Vec<Party>) -> Vec<Party> {
        for party in &mut parties {
            let of_it = |(id, _): &&(Vec<u8>, Vec<u8>)| *id == party.holder.client;
            party.host = self.hosts.iter().find(of_it).map(|(_, host)| host.clone());
        }
        parties
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
        assert!(sizes[0] <= 728 && sizes[1] <= 536 && sizes[2] <= 256, "{sizes:?}");
    }
}
