//! The evidence about a queue.

use lockwatch_judge::snapshot::{ExecutionView, QueueView, TaskView};
use lockwatch_judge::verdict::{QueueFacts, Rule, Wanted};

use super::condition::{blind, compared, condition, difference, wanted};
use super::seen::{Seen, not_known, server, span};
use super::wanted::wanted_line;
use super::{Condition, Evidence};
use crate::outputs::queue::{due, executions, oldest_waiting, who};
use crate::outputs::turn::max_late_ms;
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

/// The conditions of a rule.
pub(super) fn conditions(rule: Rule, facts: QueueFacts, view: &TaskView) -> Vec<Condition> {
    let read = || {
        let is = if facts.is_read { "read" } else { "unknown" };
        condition(difference("queue", is, "read", facts.is_read), facts.is_read)
    };
    let wants = |asked| wanted(facts.wanted, &[asked]);
    match rule {
        Rule::QueueBlind => {
            let unknown = !facts.is_read || facts.wanted == Wanted::Unknown;
            let says = "the queue, or whether it is wanted, is unknown";
            vec![condition(says.to_owned(), unknown), blind(view, facts.blind)]
        }
        Rule::QueueUnwanted => vec![read(), wants(Wanted::No)],
        Rule::QueueLate => {
            let counts = wanted(facts.wanted, &[Wanted::Yes, Wanted::Unset]);
            let late_ms = view.queue().map_or(0, |queue| queue.late_ms);
            let late = compared("late", late_ms, "max_late", max_late_ms(&view.spec), facts.late);
            vec![read(), counts, late]
        }
        Rule::QueueWanted => vec![read(), wants(Wanted::Yes)],
        Rule::QueueUnset => vec![read(), wants(Wanted::Unset)],
        _ => Vec::new(),
    }
}

/// The evidence that made the deciding rule apply.
pub(super) fn deciding(seen: Seen<'_>, queue: &QueueView) -> Vec<String> {
    let has_locks = seen.view.spec.queue().is_some_and(|spec| spec.lock.is_some());
    let mut lines = vec![waiting_line(queue, has_locks)];
    lines.push(match queue.moved {
        Some(at) => format!("A due member left last at {} of the server's clock.", server(at)),
        None => "No due member was seen to leave.".to_owned(),
    });
    lines.extend(execution_lines(queue));
    lines.push(wanted_line(seen));
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
