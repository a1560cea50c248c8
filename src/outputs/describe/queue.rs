//! What is known of a queue of delayed tasks.

use super::fact::{Fact, Line, Part, Subject, fact, words};
use super::shared::{NAMED_MAX, holders, notes, wanted};
use crate::api::{Execution, Queue, QueueTotals, Seconds, Text};

/// Maximum number of members that are named in one place.
const MEMBERS_MAX: usize = 8;
/// Maximum number of holders of one lock that are named.
const HOLDERS_MAX: usize = 4;

pub(super) fn facts(subject: Subject<'_>, queue: &Queue) -> Vec<Fact> {
    let orphans = queue.orphans.iter().take(MEMBERS_MAX);
    vec![
        fact("Members", [members(queue)]),
        fact("Next due", queue.next.0.map(|_| vec![Part::Server(queue.next)])),
        fact("Oldest due", [oldest(queue)]),
        fact("Executing", executing(queue)),
        fact("Worth knowing", notes(subject.task)),
        fact("Locks left behind", orphans.map(|orphan| execution(&orphan.id, &orphan.execution))),
        fact("Members that left", [departed(queue)]),
        fact("Executed again", again(&queue.totals)),
        fact("Wanted by", [wanted(subject, NAMED_MAX)]),
    ]
}

/// In few words, without numbers: they change with each reading.
pub(super) fn brief(queue: &Queue) -> &'static str {
    match (queue.members, queue.due) {
        (None, _) | (_, None) => "not known",
        (Some(0), _) => "an empty queue",
        (_, Some(0)) => "a queue, nothing due",
        _ => "a queue at work",
    }
}

fn members(queue: &Queue) -> Line {
    words(match queue.members.zip(queue.due) {
        Some((members, due)) => format!("{members}, {due} of them due"),
        None => "not known".to_owned(),
    })
}

fn oldest(queue: &Queue) -> Line {
    match queue.oldest_due_seconds {
        Some(Seconds(0)) => words("none waits"),
        Some(due) => {
            let id = queue.oldest_waiting().map(|oldest| format!(": {}", oldest.id).into());
            ["due for ".into(), Part::Lasted(due)].into_iter().chain(id).collect()
        }
        None => words("not known"),
    }
}

fn executing(queue: &Queue) -> Vec<Line> {
    let count = match queue.executing {
        Some(executing) if queue.executing_more == Some(true) => {
            format!("{executing} of the first {} that are due", queue.first.len())
        }
        Some(executing) => executing.to_string(),
        None if queue.members.is_some() => return Vec::new(),
        None => "not known".to_owned(),
    };
    let executions = queue.executions().take(MEMBERS_MAX);
    let executions = executions.map(|(member, own)| execution(&member.id, own));
    [words(count)].into_iter().chain(executions).collect()
}

/// Who executes a member, and until when.
fn execution(id: &Text, execution: &Execution) -> Line {
    let who = holders(&execution.holders, HOLDERS_MAX);
    let silent = if execution.dead { ", who fell silent" } else { "" };
    let line = format!("{id} by {who}{silent}");
    match execution.until.0 {
        Some(_) => vec![format!("{line}, executing until ").into(), Part::Server(execution.until)],
        None => words(format!("{line}, with no known end")),
    }
}

fn departed(queue: &Queue) -> Line {
    let QueueTotals { departed, departed_locked, vanished, .. } = queue.totals;
    let locked = queue.lock.as_ref().map(|_| format!(", {departed_locked} of them seen executed"));
    let vanished = (vanished > 0).then(|| format!("; {vanished} never seen locked"));
    words([departed.to_string()].into_iter().chain(locked).chain(vanished).collect::<String>())
}

fn again(totals: &QueueTotals) -> Option<Line> {
    let QueueTotals { executed_again, expired, orphaned, .. } = totals;
    (executed_again + expired + orphaned > 0).then(|| {
        words(format!(
            "{executed_again}; locks that expired before the end: {expired}; locks left behind: \
             {orphaned}"
        ))
    })
}
