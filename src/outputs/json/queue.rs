//! What only a queue of delayed tasks has.

use lockwatch_judge::snapshot::{ExecutionView, MemberView, OrphanView, QueueView, TaskView};
use lockwatch_judge::spec::LibraryName;

use super::lock::holders;
use super::values::server;
use crate::api::{Execution, Member, Orphan, Queue, QueueTotals, Seconds};
use crate::outputs::cause::unknown;
use crate::outputs::queue::due;
use crate::outputs::turn::max_late_ms;
use crate::text::identity::escape;

pub(super) fn queue(view: &TaskView, queue: &QueueView) -> Queue {
    Queue {
        first: queue.first.iter().map(member).collect(),
        orphans: queue.orphans.iter().map(orphan).collect(),
        ..figures(view, queue)
    }
}

/// A queue without its members.
pub(super) fn figures(view: &TaskView, queue: &QueueView) -> Queue {
    let spec = view.spec.queue();
    let lock = spec.and_then(|spec| spec.lock.as_ref());
    Queue {
        zset: escape(view.spec.kind.key()).into(),
        unit: spec.map(|spec| spec.unit.name().into()),
        lock: lock.map(|lock| escape(&lock.text()).into()),
        library: view.spec.kind.library().map_or("", LibraryName::as_str).to_owned().into(),
        max_late_seconds: Seconds(max_late_ms(&view.spec)),
        unknown: view.unknown.map(|why| unknown(why, view.words(why))),
        members: queue.members,
        due: queue.due,
        next: server(queue.next),
        executing: queue.executing,
        executing_more: queue.more,
        oldest_due_seconds: queue.oldest_due_ms.map(Seconds),
        late_seconds: Seconds(queue.late_ms),
        moved: server(queue.moved),
        first: Vec::new(),
        orphans: Vec::new(),
        totals: QueueTotals {
            departed: queue.departed,
            departed_locked: queue.departed_locked,
            vanished: queue.vanished,
            executed_again: queue.executed_again,
            expired: queue.expired,
            orphaned: queue.orphaned,
        },
    }
}

fn member(member: &MemberView) -> Member {
    Member {
        id: escape(&member.id).into(),
        due: server(due(member)),
        execution: member.execution.as_ref().map(execution),
        unread: member.is_unread,
        free_seconds: Seconds(member.free_ms),
    }
}

fn execution(execution: &ExecutionView) -> Execution {
    Execution {
        holders: holders(execution.holders.iter().map(|(own, host)| (own, host.as_deref()))),
        until: server(execution.until),
        dead: execution.is_dead,
    }
}

fn orphan(orphan: &OrphanView) -> Orphan {
    Orphan { id: escape(&orphan.id).into(), execution: execution(&orphan.execution) }
}
