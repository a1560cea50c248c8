//! What a queue of delayed tasks has.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;

use super::beside::Signs;
use super::{Accepted, Kind, Log, Watched};
use crate::clocks::{GapClock, Holding};
use crate::event::{EventKind, Fate};
use crate::evidence::Seen;
use crate::grounds::follow;
use crate::kinds::KindView;
use crate::kinds::queue::{Context, News, Queue, are_far};
use crate::reading::{self, Beside, GuardReading, Holder, LockReading, QueueReading, Unknown};
use crate::spec::{KindSpec, QueueSpec, TaskSpec};
use crate::time::Mono;
use crate::verdict::{Facts, QueueFacts, Wanted};

/// What is followed only of a queue.
#[derive(Clone, Debug)]
pub(crate) struct OfQueue {
    spec: QueueSpec,
    queue: Queue,
}

impl OfQueue {
    pub(super) fn new(spec: &QueueSpec) -> OfQueue {
        OfQueue { spec: spec.clone(), queue: Queue::new() }
    }
}

impl Kind for OfQueue {
    fn configure(&mut self, _before: &TaskSpec, now: &TaskSpec) {
        if let KindSpec::Queue(spec) = &now.kind {
            self.queue.configure(&self.spec, spec);
            self.spec = spec.clone();
        }
    }

    fn unknown(&mut self, why: Unknown) {
        self.queue.unknown(why);
    }

    fn newest(&self) -> Result<(), Unknown> {
        self.queue.newest()
    }

    fn last_reading(&self) -> Option<Seen> {
        self.queue.last_reading()
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

    fn stalled_ms(task: &Watched<OfQueue>) -> u64 {
        task.kind.queue.late_ms(&task.kind.spec)
    }

    fn observe(
        task: &mut Watched<OfQueue>,
        (guard, _beside): (&GuardReading, &Beside),
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>> {
        let GuardReading::Queue(reading) = guard else { return None };
        let read = read(reading, batch.seen());
        task.tell_readable(read.map(|_| ()), log);
        task.observe_gap(batch.sent, Holding::Unseen, log);
        match read {
            Ok(queue) => task.follow_queue(queue, signs, batch, log),
            Err(why) => task.kind.unknown(why),
        }
        None
    }

    fn facts(task: &Watched<OfQueue>) -> Facts {
        Facts::Queue(QueueFacts {
            wanted: task.wanted(),
            is_read: task.kind.newest().is_ok(),
            split: task.is_split(),
            late: OfQueue::stalled_ms(task) > 0,
            blind: task.is_blind(),
        })
    }

    fn follow_grounds(task: &mut Watched<OfQueue>, at: Mono) {
        let OfQueue { spec, queue } = &task.kind;
        let grounds = &mut task.grounds;
        grounds.moves = queue.moves(spec);
        // While it cannot be read, the stopwatches go on, and their problems are not shown.
        if queue.newest().is_ok() {
            let mut since = grounds.since();
            follow(&mut since.dead_holder, queue.has_dead_holder(), at);
            since.orphan_lock = queue.orphan_since();
            grounds.note_since(since);
        }
    }

    fn view(task: &mut Watched<OfQueue>) -> KindView {
        KindView::Queue(Box::new(task.kind.queue.view(&task.kind.spec, &task.hosts)))
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

impl Watched<OfQueue> {
    fn follow_queue(
        &mut self,
        queue: &reading::Queue,
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) {
        let delta = batch.delta(self.origin.as_deref()).seen_beside(signs.kept_switches);
        let same_clock = self.origin.as_ref().is_none_or(|old| batch.origin.same_clock(old));
        let fresh_for_ms = self.fresh_for_ms();
        let context = Context {
            seen: batch.seen(),
            spec: &self.kind.spec,
            wanted: self.wanted(),
            wanted_since: self.gap().and_then(GapClock::wanted_since),
            grown_ms: self.grown_ms(batch.sent),
            other_data: delta.may_lose_locks()
                || delta.emptied
                || delta.may_evict(true) && queue.members == 0,
            same_clock,
            steady_ms: batch.interval_ms.saturating_mul(5) / 2,
            claims: &self.claims,
            claims_changed: &signs.claims_changed,
            fresh_for_ms,
        };
        let news = self.kind.queue.observe(queue, context);
        self.note_origin(batch);
        self.tell_queue(news, batch.sent, log);
        let twice = self.kind.queue.executed_twice(&self.claims, fresh_for_ms);
        let both = self.splits.observe_executions(&twice, batch.sent, self.spec.blind_after_ms);
        self.tell_splits(both, log);
    }

    /// By how much what lasts has grown since the reading before. What was unseen for too long does
    /// not count, nor what nobody wants.
    fn grown_ms(&self, at: Mono) -> u64 {
        let counts = matches!(self.wanted(), Wanted::Yes | Wanted::Unset);
        let last = self.kind.last_reading().filter(|_| counts);
        let grown_ms = last.map_or(0, |last| at.since_ms(last.sent));
        let wanted_since = self.gap().and_then(GapClock::wanted_since);
        let wanted_ms = wanted_since.map_or(u64::MAX, |wanted| at.since_ms(wanted));
        if grown_ms <= self.spec.blind_after_ms { grown_ms.min(wanted_ms) } else { 0 }
    }

    fn tell_queue(&mut self, news: News, at: Mono, log: &mut Log<'_>) {
        for (id, before, now) in news.again {
            self.grounds.rare().executed_again = Some(at);
            log.push(EventKind::ExecutedAgain { id, before, now });
        }
        for (id, holders, goes_on) in news.expired {
            log.push(EventKind::ExecutionExpired { id, holders, goes_on });
        }
        for (id, holders, until) in news.died {
            log.push(EventKind::DeadHolder { id, holders, until });
        }
        for (id, holders, until) in news.orphaned {
            log.push(EventKind::LockOutlivedTask { id, holders, until });
        }
        if news.is_suspect {
            self.grounds.rare().vanished = Some(at);
            log.push(EventKind::MembersVanished { number: news.vanished });
        }
    }
}
