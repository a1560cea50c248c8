//! What a queue of delayed tasks has.

use alloc::boxed::Box;

use super::beside::Signs;
use super::{Accepted, Kind, Log, Watched};
use crate::clocks::Holding;
use crate::event::Fate;
use crate::evidence::Seen;
use crate::kinds::KindView;
use crate::kinds::queue::QueueView;
use crate::reading::{Beside, GuardReading, Holder, QueueReading, Unknown};
use crate::spec::{KindSpec, QueueSpec, TaskSpec};
use crate::time::Mono;
use crate::verdict::{Facts, QueueFacts};

/// What is followed only of a queue.
#[derive(Clone, Debug)]
pub(crate) struct OfQueue {
    spec: QueueSpec,
    newest: Result<(), Unknown>,
    last: Option<Seen>,
    view: QueueView,
}

impl OfQueue {
    pub(super) fn new(spec: &QueueSpec) -> OfQueue {
        let newest = Err(Unknown::NotReadYet);
        OfQueue { spec: spec.clone(), newest, last: None, view: QueueView::default() }
    }
}

impl Kind for OfQueue {
    fn configure(&mut self, _before: &TaskSpec, now: &TaskSpec) {
        if let KindSpec::Queue(spec) = &now.kind {
            self.spec = spec.clone();
        }
    }

    fn unknown(&mut self, why: Unknown) {
        self.newest = Err(why);
    }

    fn newest(&self) -> Result<(), Unknown> {
        self.newest
    }

    fn last_reading(&self) -> Option<Seen> {
        self.last
    }

    fn held(&self) -> Option<bool> {
        self.newest.is_ok().then_some(false)
    }

    fn holders(&self) -> &[Holder] {
        &[]
    }

    fn needs_wanted(&self) -> bool {
        true
    }

    fn stalled_ms(task: &Watched<OfQueue>) -> u64 {
        task.kind.view.late_ms
    }

    fn observe(
        task: &mut Watched<OfQueue>,
        (guard, _beside): (&GuardReading, &Beside),
        _signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>> {
        let GuardReading::Queue(reading) = guard else { return None };
        let read = match reading {
            QueueReading::Unknown(why) => Err(*why),
            QueueReading::Read(queue) => Ok(queue),
        };
        task.tell_readable(read.map(|_| ()), log);
        match read {
            Ok(queue) => {
                task.note_origin(batch);
                task.kind.newest = Ok(());
                task.kind.last = Some(batch.seen());
                task.kind.view.members = Some(queue.members);
                task.kind.view.due = Some(queue.due);
            }
            Err(why) => task.kind.unknown(why),
        }
        task.observe_gap(batch.sent, Holding::Unseen, log);
        None
    }

    fn facts(task: &Watched<OfQueue>) -> Facts {
        Facts::Queue(QueueFacts {
            wanted: task.wanted(),
            is_read: task.kind.newest.is_ok(),
            split: task.is_split(),
            late: OfQueue::stalled_ms(task) > 0,
            blind: task.is_blind(),
        })
    }

    fn follow_grounds(_task: &mut Watched<OfQueue>, _at: Mono) {}

    fn view(task: &mut Watched<OfQueue>) -> KindView {
        KindView::Queue(Box::new(task.kind.view.clone()))
    }
}
