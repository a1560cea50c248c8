//! The fields of a queue of delayed tasks.

use std::borrow::Cow;

use lockwatch_judge::snapshot::{ExecutionView, MemberView, OrphanView, QueueView, TaskView};
use lockwatch_judge::spec::LibraryName;
use serde::Serialize;

use super::lock::{HolderJson, holder_json};
use super::part::{UnknownJson, server, unknown_json};
use crate::outputs::queue::due;
use crate::outputs::turn::max_late_ms;
use crate::text::identity::escape;
use crate::text::instants::seconds;

#[derive(Serialize)]
pub(super) struct Fields<'a> {
    queue: QueueJson<'a>,
}

#[derive(Serialize)]
struct QueueJson<'a> {
    zset: Cow<'a, str>,
    unit: Option<&'static str>,
    /// The keys of the locks, with `{id}`; `null` if there are none.
    lock: Option<String>,
    library: &'a str,
    max_late_seconds: f64,
    unknown: Option<UnknownJson>,
    /// `null` when unknown, like the other figures.
    members: Option<u64>,
    due: Option<u64>,
    /// When the next member is due, by the server's clock; `null` also if there is none.
    next: Option<String>,
    executing: Option<u64>,
    /// Whether more members are due than are looked at.
    executing_more: Option<bool>,
    oldest_due_seconds: Option<f64>,
    /// How long a member waits, or none left, once that is too long.
    late_seconds: f64,
    /// When a due member left last, by the server's clock.
    moved: Option<String>,
    first: Vec<MemberJson<'a>>,
    orphans: Vec<OrphanJson<'a>>,
    totals: TotalsJson,
}

/// A due member that is looked at.
#[derive(Serialize)]
struct MemberJson<'a> {
    id: Cow<'a, str>,
    /// By the server's clock; `null` for "at once".
    due: Option<String>,
    /// `null` while its lock is free, or was never read.
    execution: Option<ExecutionJson<'a>>,
    /// Its lock could not be read.
    unread: bool,
    /// How long it has waited for somebody to execute it.
    free_seconds: f64,
}

/// Who holds a member's lock.
#[derive(Serialize)]
struct ExecutionJson<'a> {
    holders: Vec<HolderJson<'a>>,
    /// When the lock ends, by the server's clock; `null`: never, or unknown.
    until: Option<String>,
    /// The holder fell silent.
    dead: bool,
}

/// A lock whose member left.
#[derive(Serialize)]
struct OrphanJson<'a> {
    id: Cow<'a, str>,
    execution: ExecutionJson<'a>,
}

/// Counts since the task was configured.
#[derive(Serialize)]
struct TotalsJson {
    departed: u64,
    departed_locked: u64,
    vanished: u64,
    executed_again: u64,
    expired: u64,
    orphaned: u64,
}

pub(super) fn json<'a>(view: &'a TaskView, queue: &'a QueueView) -> Fields<'a> {
    let spec = view.spec.queue();
    Fields {
        queue: QueueJson {
            zset: escape(view.spec.kind.key()),
            unit: spec.map(|spec| spec.unit.name()),
            lock: spec
                .and_then(|spec| spec.lock.as_ref())
                .map(|lock| escape(&lock.text()).into_owned()),
            library: view.spec.kind.library().map_or("", LibraryName::as_str),
            max_late_seconds: seconds(max_late_ms(&view.spec)),
            unknown: view.unknown.map(|why| unknown_json(why, view.words(why))),
            members: queue.members,
            due: queue.due,
            next: queue.next.and_then(server),
            executing: queue.executing,
            executing_more: queue.more,
            oldest_due_seconds: queue.oldest_due_ms.map(seconds),
            late_seconds: seconds(queue.late_ms),
            moved: queue.moved.and_then(server),
            first: queue.first.iter().map(member_json).collect(),
            orphans: queue.orphans.iter().map(orphan_json).collect(),
            totals: totals_json(queue),
        },
    }
}

fn member_json(member: &MemberView) -> MemberJson<'_> {
    MemberJson {
        id: escape(&member.id),
        due: due(member).and_then(server),
        execution: member.execution.as_ref().map(execution_json),
        unread: member.is_unread,
        free_seconds: seconds(member.free_ms),
    }
}

fn execution_json(execution: &ExecutionView) -> ExecutionJson<'_> {
    let holders = execution.holders.iter();
    ExecutionJson {
        holders: holders.map(|(holder, host)| holder_json(holder, host.as_deref())).collect(),
        until: execution.until.and_then(server),
        dead: execution.is_dead,
    }
}

fn orphan_json(orphan: &OrphanView) -> OrphanJson<'_> {
    OrphanJson { id: escape(&orphan.id), execution: execution_json(&orphan.execution) }
}

fn totals_json(queue: &QueueView) -> TotalsJson {
    TotalsJson {
        departed: queue.departed,
        departed_locked: queue.departed_locked,
        vanished: queue.vanished,
        executed_again: queue.executed_again,
        expired: queue.expired,
        orphaned: queue.orphaned,
    }
}
