//! The evidence about a queue.

use lockwatch_judge::snapshot::{ExecutionView, QueueView};

use super::Evidence;
use super::seen::{Seen, not_known, server, span};
use crate::outputs::queue::{due, executions, oldest_waiting, who};
use crate::text::identity::escape;

/// Maximum number of members that are named.
const NAMED_MAX: usize = 8;

/// Of the server that decides.
pub(super) fn evidence(seen: Seen<'_>, queue: &QueueView) -> Evidence {
    let view = seen.view;
    let says = match (queue.members, queue.due) {
        (Some(members), Some(due)) => format!("{members} members, {due} of them due"),
        _ => "unknown".to_owned(),
    };
    Evidence {
        of: "queue".to_owned(),
        node: view.node.as_ref().map(|node| escape(node.as_bytes()).into_owned()),
        age_seconds: view.last_reading.map(|at| seen.age_seconds(at)),
        says,
        unknown: view.unknown.map(|why| not_known(why, view.words(why))),
    }
}

/// What waits and what is executed, in sentences.
pub(super) fn state_lines(seen: Seen<'_>, queue: &QueueView) -> Vec<String> {
    let has_locks = seen.view.spec.queue().is_some_and(|spec| spec.lock.is_some());
    let mut lines = vec![waiting_line(queue, has_locks)];
    lines.push(match queue.moved {
        Some(at) => format!("A due member left last at {} of the server's clock.", server(at)),
        None => "No due member was seen to leave.".to_owned(),
    });
    lines.extend(execution_lines(queue));
    lines
}

fn waiting_line(queue: &QueueView, has_locks: bool) -> String {
    let Some(oldest) = oldest_waiting(queue) else {
        return match queue.oldest_due_ms {
            Some(_) => "No due member waits.".to_owned(),
            None => "Whether a due member waits is not known.".to_owned(),
        };
    };
    let since = due(oldest).map_or("at once".to_owned(), |due| format!("since {}", server(due)));
    format!(
        "Member {} is due {since}; {}it has waited for {}.",
        escape(&oldest.id),
        if has_locks { "its lock is free, and " } else { "" },
        span(oldest.free_ms)
    )
}

fn execution_lines(queue: &QueueView) -> Vec<String> {
    let executed = executions(queue).take(NAMED_MAX);
    let mut lines: Vec<String> =
        executed.map(|(member, execution)| execution_line(&member.id, execution)).collect();
    let orphans = queue.orphans.iter().take(NAMED_MAX);
    lines.extend(orphans.map(|orphan| {
        let line = execution_line(&orphan.id, &orphan.execution);
        format!("{line} The member has left the queue.")
    }));
    lines
}

fn execution_line(id: &[u8], execution: &ExecutionView) -> String {
    let until = match execution.until {
        Some(until) => format!("executing until {}", server(until)),
        None => "executing, with no known end".to_owned(),
    };
    let silent = if execution.is_dead { "; the holder fell silent" } else { "" };
    format!("Member {} is locked by {}: {until}{silent}.", escape(id), who(execution))
}
