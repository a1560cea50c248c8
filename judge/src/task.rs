//! Tracks one task over time. It combines what guards it, switches, progress and claims into
//! durations, totals, events and a verdict.
//!
//! [`Shared`] has what all kinds share; a [`Kind`] adds what is its own, and is given the shared
//! part to do so. Only [`Task`] calls both.

mod grounds;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::continuity::failover_report::Overlap;
use crate::continuity::generation::Continued;
use crate::event::{EventKind, Fate};
use crate::evidence::Origin;
use crate::input::Sample;
use crate::kinds::kind::Kind;
use crate::kinds::lock::LockTask;
use crate::kinds::queue::QueueTask;
use crate::kinds::turn::TurnTask;
use crate::reading::{LockReading, Parts, SwitchesReading, TaskReading, Unknown};
use crate::shared::{Judged, Shared};
use crate::snapshot::TaskView;
use crate::spec::{KindSpec, StoreIndex, TaskSpec};
use crate::step::{Accepted, Log};
use crate::time::Mono;
use crate::verdict::{Rule, Wanted, judge};

/// A task of any kind.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    shared: Shared,
    kind: OfKind,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all tasks have a lock: it is kept in place")]
enum OfKind {
    Lock(LockTask),
    Turn(Box<TurnTask>),
    Queue(Box<QueueTask>),
}

impl OfKind {
    fn new(spec: &KindSpec) -> OfKind {
        match spec {
            KindSpec::Lock(lock) => OfKind::Lock(LockTask::new(lock)),
            KindSpec::Turn(turn) => OfKind::Turn(Box::new(TurnTask::new(turn))),
            KindSpec::Queue(queue) => OfKind::Queue(Box::new(QueueTask::new(queue))),
        }
    }

    fn get(&self) -> &dyn Kind {
        match self {
            OfKind::Lock(lock) => lock,
            OfKind::Turn(turn) => &**turn,
            OfKind::Queue(queue) => &**queue,
        }
    }

    fn get_mut(&mut self) -> &mut dyn Kind {
        match self {
            OfKind::Lock(lock) => lock,
            OfKind::Turn(turn) => &mut **turn,
            OfKind::Queue(queue) => &mut **queue,
        }
    }

    fn lock(&self) -> Option<&LockTask> {
        if let OfKind::Lock(lock) = self { Some(lock) } else { None }
    }
}

impl Task {
    pub(crate) fn new(spec: Arc<TaskSpec>, store: Arc<str>, at: Mono) -> Task {
        Task { kind: OfKind::new(&spec.kind), shared: Shared::new(spec, store, at) }
    }

    pub(crate) fn spec(&self) -> &Arc<TaskSpec> {
        &self.shared.spec
    }

    /// The same task under a changed configuration. Its state is kept.
    pub(crate) fn configure(&mut self, spec: Arc<TaskSpec>, store: Arc<str>, log: &mut Log) {
        self.kind.get_mut().configure(&self.shared.spec, &spec);
        self.shared.configure(spec, store, log);
    }

    /// Whether a server that decides now, other than the sample's, has answered a later request. A
    /// result from the earlier server is then outdated.
    pub(crate) fn answered_elsewhere(&self, sample: &Sample) -> bool {
        if self.spec().is_on_several() || self.spec().switches_store == Some(sample.store) {
            return false;
        }
        let origin = self.shared.origin.as_ref();
        let elsewhere = origin.is_some_and(|origin| sample.node.as_ref() != Some(&origin.node));
        elsewhere
            && sample.node.is_some()
            && self.kind.get().attempts().last.is_some_and(|last| last.sent > sample.sent)
    }

    /// The attempt gave no information about this task.
    pub(crate) fn failed(&mut self, store: StoreIndex, why: Unknown, at: Mono, log: &mut Log) {
        if self.spec().switches_store == Some(store) {
            let parts = Parts { switches: Some(SwitchesReading::Unknown(why)), ..Parts::default() };
            return self.parts_failed(&parts, false, at, log);
        }
        self.shared.newest_attempt = at;
        match &mut self.kind {
            OfKind::Lock(lock) if self.shared.spec.is_on_several() => {
                if store == self.shared.spec.store {
                    self.shared.parts_unread(why);
                }
                lock.store_failed(&mut self.shared, (store, why), at, log);
                // No store of its own fails with this lock, so this says what no store does.
                if !self.is_readable() {
                    self.still_blind(at);
                }
            }
            _ => {
                self.unread(why, at);
                self.shared.blind.attempted(at, false);
            }
        }
        self.judge(log);
    }

    fn unread(&mut self, why: Unknown, at: Mono) {
        self.kind.get_mut().unknown(why);
        self.shared.unread(why, at);
    }

    /// Time has passed. `stale_after_ms` without any attempt makes the state unknown.
    pub(crate) fn tick(&mut self, now: Mono, stale_after_ms: u64, log: &mut Log) -> bool {
        let stale = self.kind.get().attempts().newest.is_ok()
            && now.since_ms(self.shared.newest_attempt) > stale_after_ms;
        if stale {
            self.unread(Unknown::Stale, now);
        }
        let before = self.shared.verdict;
        let grew_ms = self.shared.blind.tick(now);
        self.shared.count_blind(grew_ms);
        let pausing = self.shared.pause.end(now);
        self.judge(log);
        stale || grew_ms > 0 || pausing || self.shared.verdict != before
    }

    /// Takes in the reading of this task by a deciding server. Unless the reading gives no
    /// information, returns the fate of the hold that existed before, if any.
    pub(crate) fn observe(
        &mut self,
        reading: &TaskReading,
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> Option<Option<Fate>> {
        self.shared.newest_attempt = batch.sent;
        self.shared.key_seen |= reading.guard.shows_key();
        let (kind, shared) = (self.kind.get_mut(), &mut self.shared);
        let stayed = kind.stayed(&reading.guard);
        let signs = shared.observe_parts(&reading.parts, stayed, kind.holders(), batch, log);
        let fate = kind.observe(shared, reading, &signs, batch, log);
        match self.sees_enough() {
            true => self.shared.blind.good(batch.sent),
            false => self.still_blind(batch.sent),
        }
        self.judge(log);
        fate
    }

    /// Takes in the other keys of the task, which are on another server.
    pub(crate) fn observe_parts(&mut self, parts: &Parts, batch: Accepted<'_>, log: &mut Log) {
        let (kind, shared) = (self.kind.get_mut(), &mut self.shared);
        let signs = shared.observe_parts(parts, false, kind.holders(), batch, log);
        kind.observe_parts(shared, parts, &signs, batch, log);
        // It may complete the reading of the lock, which was requested earlier.
        match self.kind.get().attempts().last {
            Some(last) if self.sees_enough() => self.shared.blind.good(last.sent),
            _ => self.still_blind(batch.sent),
        }
        self.judge(log);
    }

    /// Those keys could not be read; `answered`: their server answers all the same.
    pub(crate) fn parts_failed(&mut self, parts: &Parts, answered: bool, at: Mono, log: &mut Log) {
        self.kind.get_mut().parts_failed(parts);
        self.shared.parts_failed(parts, at, log);
        // A failure does not count as an answer, however much is known of the lock.
        if !self.is_readable() {
            self.shared.note_blind(at);
            self.shared.blind.attempted(at, answered);
        }
        self.judge(log);
    }

    /// A request sent at `at` was answered in part, and not enough.
    fn still_blind(&mut self, at: Mono) {
        let answered = self.spec().switches_store.is_none() || !self.waits_for_a_store();
        self.shared.note_blind(at);
        self.shared.blind.attempted(at, answered);
    }

    /// Whether one of its two stores is away: that store has an alert of its own.
    fn waits_for_a_store(&self) -> bool {
        let wanting = self.shared.wanting.as_ref();
        let switches = wanting.and_then(|wanting| wanting.switches.why_unknown());
        let whys = self.kind.get().attempts().newest.err().into_iter().chain(switches);
        whys.into_iter().any(|why| !why.is_of_the_task())
    }

    /// Whether the newest attempts answered everything that matters: what guards the task, and
    /// whether it is wanted where that decides.
    fn is_readable(&self) -> bool {
        let kind = self.kind.get();
        kind.attempts().newest.is_ok() && (self.is_wanted_known() || !kind.needs_wanted())
    }

    fn is_wanted_known(&self) -> bool {
        self.shared.wanted() != Wanted::Unknown
    }

    /// Whether that ends a blindness. A young hold does not end one in which the server answered,
    /// as long as it is unknown whether the task is wanted: a worker that crashes again and again
    /// would hide that its switches cannot be read.
    fn sees_enough(&self) -> bool {
        let spec = &self.shared.spec;
        let young_ms = spec.settle_ms.min(spec.blind_after_ms / 2);
        let answered_in_vain = self.shared.blind.answered_ms() > 0;
        self.is_readable()
            && (self.is_wanted_known() || !answered_in_vain || self.kind.get().lasts(young_ms))
    }

    fn judge(&mut self, log: &mut Log) {
        let facts = self.kind.get().facts(&self.shared);
        // Before the first judgement there is no previous verdict to keep.
        let before = self
            .shared
            .verdict
            .filter(|(_, rule, _)| *rule != &Rule::NOTHING_YET)
            .map(|(verdict, ..)| verdict);
        let judged = Some(Judged { facts, previous: before });
        let (verdict, rule) = match self.shared.verdict {
            // Nothing else matters, and nearly always all of it is as it was.
            Some((verdict, rule, _)) if self.shared.judged == judged => (verdict, rule),
            _ => judge(facts, before),
        };
        let since = match self.shared.verdict {
            Some((same, _, since)) if same == verdict => since,
            _ => log.at,
        };
        if before != Some(verdict) && rule != &Rule::NOTHING_YET {
            log.push(EventKind::Verdict { from: before, to: verdict, rule });
        }
        self.shared.verdict = Some((verdict, rule, since));
        self.shared.judged = judged;
        self.update_grounds(log.at);
    }

    /// Updates the grounds of its problems as of the newest step, at `at`.
    fn update_grounds(&mut self, at: Mono) {
        let readable = self.is_readable();
        self.kind.get_mut().update_grounds(&mut self.shared, at);
        grounds::update(&mut self.shared, self.kind.get().held(), readable, at);
        if let Some(paused) = grounds::changed_pause(&self.shared, at) {
            let shown = if paused { grounds::positive(&self.view(at), at) } else { Vec::new() };
            self.shared.grounds.paused(paused, at, shown);
        }
        grounds::update_published(&mut self.shared, at);
    }

    /// The view for outputs.
    pub(crate) fn view(&mut self, now: Mono) -> TaskView {
        TaskView::of(&self.shared, self.kind.get_mut(), now)
    }

    /// What a reading from `origin` proves about the data with which that process began.
    pub(crate) fn proves_continued(
        &self,
        reading: &TaskReading,
        origin: &Origin,
    ) -> Option<Continued> {
        self.kind.lock()?.proves_continued(&self.shared, reading.lock()?, origin)
    }

    /// What a reading from `origin` proves about flushes of its database.
    pub(crate) fn proves_unflushed(&self, reading: &TaskReading, origin: &Origin) -> Option<u64> {
        self.kind.lock()?.proves_unflushed(&self.shared, reading.lock()?, origin)
    }

    /// Takes in the reading of a server that does not decide. It shows of a lock who has it there.
    pub(crate) fn witness(&mut self, lock: &LockReading, batch: Accepted<'_>, log: &mut Log) {
        if let OfKind::Lock(task) = &mut self.kind
            && !self.shared.spec.is_on_several()
        {
            task.compare_servers(&mut self.shared, lock, batch, log);
            self.judge(log);
        }
    }

    /// Drops the readings of servers that no longer belong to the store.
    pub(crate) fn retain_witnesses(&mut self, nodes: &[Arc<str>]) {
        if let OfKind::Lock(task) = &mut self.kind {
            task.retain_witnesses(nodes);
        }
    }

    /// The splits between two generations or two servers.
    pub(crate) fn overlaps(&self) -> impl Iterator<Item = Overlap<'_>> {
        self.shared.splits.overlaps()
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::vec;
    use core::mem::size_of;

    use super::Task;
    use crate::evidence::Origin;
    use crate::input::{Attestation, Standing};
    use crate::reading::{Deadline, Extras, Held, Holder, LockReading, Mode, Parts, TaskReading};
    use crate::snapshot::{TaskView, Totals};
    use crate::spec::{Authority, LockSpec, StoreIndex, TaskSpec};
    use crate::step::{Accepted, Log};
    use crate::time::{Mono, ServerTime};

    /// A hundred thousand tasks are watched by one process, and most have only a lock. What few
    /// tasks have is absent there: behind an optional box.
    #[test]
    fn a_task_with_only_a_lock_is_small() {
        let sizes =
            [size_of::<Task>(), size_of::<TaskView>(), size_of::<Totals>(), size_of::<TaskSpec>()];
        assert!(
            sizes[0] <= 568 && sizes[1] <= 368 && sizes[2] <= 144 && sizes[3] <= 368,
            "{sizes:?}"
        );
    }

    /// A glance may return the same copy of a reading again, while the names of the hosts have
    /// changed.
    #[test]
    fn a_host_that_is_renamed_is_shown_also_of_a_hold_that_did_not_change() {
        let spec = TaskSpec::new("outbound", StoreIndex(0), LockSpec::new(b"lock", "redisson"));
        let with_hosts = Arc::new(TaskSpec { hosts: Some(b"hosts".to_vec()), ..spec.clone() });
        let mut task = Task::new(with_hosts, "main".into(), Mono::at(0));
        let holders =
            vec![Holder { client: b"A".to_vec(), thread: None, entries: Some(1), secret: false }];
        let deadline = Deadline::At(ServerTime::at(60_000));
        let lock = LockReading::from(Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline });
        let origin = Origin {
            node: "a:6379".into(),
            clock_steps: 0,
            generation: None,
            histories: Arc::default(),
            offset: None,
            authority: Authority::ALONE,
        };
        let host_of = |task: &mut Task, at: u64, hosts: Option<&str>| {
            let clock = ServerTime::at(i64::try_from(at).unwrap());
            let attestation = Attestation::master(clock, clock);
            let (standing, interval_ms, took_ms, continued) = (Standing::Decides, 1_000, 0, None);
            let batch = Accepted {
                sent: Mono::at(at),
                attestation: &attestation,
                origin: &Arc::new(origin.clone()),
                continued,
                unflushed_since: None,
                standing,
                store: StoreIndex(0),
                interval_ms,
                timeout_ms: 3_000,
                took_ms,
            };
            let hosts = hosts.map(|host| Ok(vec![(b"A".to_vec(), host.as_bytes().to_vec())]));
            let parts = Parts { hosts, ..Parts::default() };
            let reading = TaskReading::of_lock(lock.clone(), Extras::default(), parts);
            task.observe(&reading, batch, &mut Log::new(Mono::at(at), Some(clock)));
            let hold = task.view(Mono::at(at)).lock().unwrap().hold.clone().unwrap();
            hold.holders.iter().next().unwrap().1.map(<[u8]>::to_vec)
        };
        assert_eq!(host_of(&mut task, 1_000, None), None);
        assert_eq!(host_of(&mut task, 2_000, Some("one")), Some(b"one".to_vec()));
        assert_eq!(host_of(&mut task, 3_000, None), Some(b"one".to_vec()), "not asked for");
        assert_eq!(host_of(&mut task, 4_000, Some("two")), Some(b"two".to_vec()));
        task.configure(Arc::new(spec), "main".into(), &mut Log::new(Mono::at(4_500), None));
        assert_eq!(host_of(&mut task, 5_000, None), None, "configured no more");
    }
}
