//! A queue of delayed tasks.

mod entry;
mod execution;
pub(crate) mod rules;
pub(crate) mod spec;
mod state;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use alloc::boxed::Box;

use self::entry::Context;
pub(crate) use self::entry::ORPHAN_MS;
use self::spec::QueueSpec;
use self::state::{Changes, Queue, are_far};
use super::kind::{Kind, KindView};
use crate::event::{EventKind, Fate};
use crate::evidence::{Attempts, Seen};
use crate::grounds::follow;
use crate::reading::{self, GuardReading, Holder, LockReading, QueueReading, TaskReading, Unknown};
use crate::shared::clocks::Holding;
use crate::shared::{Shared, Signs};
use crate::spec::TaskSpec;
use crate::step::{Accepted, Log};
use crate::time::Mono;
use crate::verdict::{Facts, QueueFact, QueueFacts, Wanted};

/// What is known only of a queue.
#[derive(Clone, Debug)]
pub(crate) struct QueueTask {
    spec: QueueSpec,
    queue: Queue,
}

impl QueueTask {
    pub(crate) fn new(spec: &QueueSpec) -> QueueTask {
        QueueTask { spec: spec.clone(), queue: Queue::default() }
    }

    fn observe_queue(
        &mut self,
        shared: &mut Shared,
        queue: &reading::Queue,
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log,
    ) {
        let origin = shared.origin.as_deref();
        let delta = batch.delta(origin).seen_with(signs.kept_switches);
        let fresh_for_ms = shared.spec.fresh_for_ms();
        let context = Context {
            seen: batch.seen(),
            spec: &self.spec,
            wanted: shared.wanted(),
            wanted_since: shared.wanted_since(),
            grown_ms: self.grown_ms(shared, batch.sent),
            other_data: delta.may_lose_locks()
                || delta.emptied
                || delta.may_evict(true) && queue.members == 0,
            same_clock: origin.is_none_or(|old| batch.origin.same_clock(old)),
            steady_ms: batch.interval_ms.saturating_mul(5) / 2,
            claims: &shared.claims,
            claims_changed: &signs.claims_changed,
            fresh_for_ms,
        };
        let changes = self.queue.observe(queue, context);
        shared.note_origin(batch);
        report(changes, shared, batch.sent, log);
        let twice = self.queue.executed_twice(&shared.claims, fresh_for_ms);
        let blind_after_ms = shared.spec.blind_after_ms;
        let both = shared.splits.observe_executions(&twice, batch.sent, blind_after_ms);
        shared.report_splits(both, log);
    }

    /// By how much what lasts has grown since the reading before. What was unseen for too long does
    /// not count, nor what nobody wants.
    fn grown_ms(&self, shared: &Shared, at: Mono) -> u64 {
        let counts = matches!(shared.wanted(), Wanted::Yes | Wanted::Unset);
        let last = self.queue.attempts.last.filter(|_| counts);
        let grown_ms = last.map_or(0, |last| at.since_ms(last.sent));
        let wanted_ms = shared.wanted_since().map_or(u64::MAX, |wanted| at.since_ms(wanted));
        if grown_ms <= shared.spec.blind_after_ms { grown_ms.min(wanted_ms) } else { 0 }
    }
}

fn report(changes: Changes, shared: &mut Shared, at: Mono, log: &mut Log) {
    for (id, before, now) in changes.again {
        shared.grounds.rare().executed_again = Some(at);
        log.push(EventKind::ExecutedAgain { id, before, now });
    }
    for (id, holders, goes_on) in changes.expired {
        log.push(EventKind::ExecutionExpired { id, holders, goes_on });
    }
    for (id, holders, until) in changes.died {
        log.push(EventKind::DeadHolder { id, holders, until });
    }
    for (id, holders, until) in changes.orphaned {
        log.push(EventKind::LockOutlivedTask { id, holders, until });
    }
    if changes.is_suspect {
        shared.grounds.rare().vanished = Some(at);
        log.push(EventKind::MembersVanished { number: changes.vanished });
    }
}

/// The queue that was read, or why its reading proves nothing.
fn read(reading: &QueueReading, seen: Seen) -> Result<&reading::Queue, Unknown> {
    let queue = match reading {
        QueueReading::Unknown(why) => return Err(*why),
        QueueReading::Read(queue) if are_far(queue, seen.first) => return Err(Unknown::FarInstant),
        QueueReading::Read(queue) => queue,
    };
    // If no lock can be read, nothing is known of who executes what.
    let mut locks = queue
        .first
        .iter()
        .filter_map(|member| member.lock.as_ref())
        .map(|lock| if let LockReading::Unknown(why) = lock { Some(*why) } else { None });
    let first = locks.next().flatten();
    match first {
        Some(why) if locks.all(|why| why.is_some()) => Err(why),
        _ => Ok(queue),
    }
}

impl Kind for QueueTask {
    fn configure(&mut self, _before: &TaskSpec, now: &TaskSpec) {
        if let Some(spec) = now.queue() {
            self.queue.configure(&self.spec, spec);
            self.spec = spec.clone();
        }
    }

    fn unknown(&mut self, why: Unknown) {
        self.queue.attempts.newest = Err(why);
    }

    fn attempts(&self) -> Attempts {
        self.queue.attempts
    }

    fn held(&self) -> Option<bool> {
        self.queue.is_executing()
    }

    /// Each member has its own holder, and none has the queue.
    fn holders(&self) -> &[Holder] {
        &[]
    }

    fn needs_wanted(&self) -> bool {
        true
    }

    fn stalled_ms(&self, _shared: &Shared) -> u64 {
        self.queue.late_ms(&self.spec)
    }

    fn observe(
        &mut self,
        shared: &mut Shared,
        reading: &TaskReading,
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> Option<Option<Fate>> {
        let GuardReading::Queue(reading) = &reading.guard else { return None };
        let read = read(reading, batch.seen());
        shared.report_readable(read.map(|_| ()), log);
        shared.observe_gap(batch.sent, Holding::Unseen, log);
        match read {
            Ok(queue) => self.observe_queue(shared, queue, signs, batch, log),
            Err(why) => self.queue.attempts.newest = Err(why),
        }
        None
    }

    fn facts(&self, shared: &Shared) -> Facts {
        Facts::Queue(QueueFacts {
            wanted: shared.wanted(),
            queue: match self.queue.attempts.newest {
                Ok(()) => QueueFact::Read,
                Err(_) => QueueFact::Unknown,
            },
            split: shared.is_split(),
            late: self.stalled_ms(shared) > 0,
            blind: shared.is_blind(),
        })
    }

    fn update_grounds(&mut self, shared: &mut Shared, at: Mono) {
        let QueueTask { spec, queue } = self;
        let grounds = &mut shared.grounds;
        grounds.moves = queue.moves(spec);
        // While it cannot be read, the stopwatches go on, and their problems are not shown.
        if queue.attempts.newest.is_ok() {
            let mut since = grounds.since();
            follow(&mut since.dead_holder, queue.has_dead_holder(), at);
            since.orphan_lock = queue.orphan_since();
            grounds.note_since(since);
        }
    }

    fn view(&mut self, shared: &Shared) -> KindView {
        KindView::Queue(Box::new(self.queue.view(&self.spec, &shared.hosts)))
    }
}
