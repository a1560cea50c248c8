//! What `status` shows of a queue of delayed tasks.

use super::answer::{Execution, Holder, Member, Queue, QueueTotals, Text};
use super::words::{duration, instant};

/// Maximum number of members that are named.
const NAMED_MAX: usize = 8;

/// The details, in order. Empty ones are left out.
pub(super) fn facts(
    queue: &Queue,
    store: &Text,
    holders: fn(&[Holder]) -> String,
) -> Vec<(&'static str, String)> {
    let executions = queue.first.iter().filter_map(|member| {
        Some(format!("{} {}", member.id, execution(member.execution.as_ref()?, holders)))
    });
    let orphans = queue.orphans.iter();
    let orphans =
        orphans.map(|left| format!("{} {}", left.id, execution(&left.execution, holders)));
    vec![
        ("Queue", set(queue, store)),
        ("Members", members(queue)),
        ("Oldest due", oldest(queue)),
        ("Late", late(queue)),
        ("Executing", some(executing(queue), executions.collect())),
        ("Locks left", some(String::new(), orphans.collect())),
        ("Left", left(queue)),
    ]
}

fn set(queue: &Queue, store: &Text) -> String {
    let locks = queue.lock.as_ref().map(|lock| format!(", locks {lock} ({})", queue.library));
    let locks = locks.unwrap_or_default();
    let state = match (&queue.unknown, queue.members) {
        (Some(why), _) => format!("unknown ({why})"),
        (None, Some(_)) => "read".to_owned(),
        (None, None) => "not known yet".to_owned(),
    };
    format!("{}{locks} in store {store}: {state}", queue.zset)
}

fn members(queue: &Queue) -> String {
    let Some((members, due)) = queue.members.zip(queue.due) else { return String::new() };
    let next = queue.next.as_deref().map(|at| format!(", the next one at {}", instant(at)));
    format!("{members}, {due} of them due{}", next.unwrap_or_default())
}

fn oldest(queue: &Queue) -> String {
    let waits = |member: &&Member| member.execution.is_none() && !member.unread;
    match queue.oldest_due_seconds {
        Some(0.0) => "none waits".to_owned(),
        Some(seconds) => {
            let oldest = queue.first.iter().find(waits);
            let id = oldest.map(|member| format!(" ({})", member.id)).unwrap_or_default();
            format!("due for {}{id}", duration(seconds))
        }
        None if queue.members.is_some() => "not known".to_owned(),
        None => String::new(),
    }
}

fn late(queue: &Queue) -> String {
    if queue.late_seconds <= 0.0 {
        return String::new();
    }
    let moved = queue.moved.as_deref().map(|at| format!("; a member left last at {}", instant(at)));
    format!(
        "for {}, max_late {}{}",
        duration(queue.late_seconds),
        duration(queue.max_late_seconds),
        moved.unwrap_or_default()
    )
}

fn executing(queue: &Queue) -> String {
    let more = match queue.executing_more {
        Some(true) => format!(" of the first {} that are due", queue.first.len()),
        _ => String::new(),
    };
    queue.executing.map(|executing| format!("{executing}{more}")).unwrap_or_default()
}

/// By whom, and until when.
fn execution(execution: &Execution, holders: fn(&[Holder]) -> String) -> String {
    let until = match execution.until.as_deref() {
        Some(until) => format!("executing until {} by the server's clock", instant(until)),
        None => "executing, with no known end".to_owned(),
    };
    let dead = if execution.dead { ", who fell silent" } else { "" };
    format!("by {}{dead}, {until}", holders(&execution.holders))
}

fn left(queue: &Queue) -> String {
    let QueueTotals { departed, departed_locked, vanished, executed_again, expired, orphaned } =
        queue.totals;
    let more = [
        (vanished, "never seen locked"),
        (executed_again, "executed again"),
        (expired, "locks expired before the end"),
        (orphaned, "locks left behind"),
    ];
    let more = more.iter().filter(|(count, _)| *count > 0);
    let more: Vec<String> = more.map(|(count, what)| format!("; {count} {what}")).collect();
    match departed + executed_again + expired {
        0 => String::new(),
        _ if queue.lock.is_none() => format!("{departed}"),
        _ => format!("{departed}, {departed_locked} of them seen executed{}", more.concat()),
    }
}

/// The first of these names after `first`.
fn some(first: String, mut names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    names.extend((more > 0).then(|| format!("and {more} more")));
    match (first.is_empty(), names.is_empty()) {
        (_, true) => first,
        (true, false) => names.join("; "),
        (false, false) => format!("{first}: {}", names.join("; ")),
    }
}
