//! The evidence about a queue.

use lockwatch_judge::snapshot::{QueueView, TaskView};
use lockwatch_judge::verdict::{QueueFacts, Rule, Wanted};

use super::condition::{blind, condition, difference, wanted};
use super::seen::{Seen, not_known};
use super::wanted::wanted_line;
use super::{Condition, Evidence};
use crate::text::identity::escape;

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
        unknown: view.unknown.map(not_known),
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
            let late = condition("a due member waits for longer than max_late".into(), facts.late);
            vec![read(), counts, late]
        }
        Rule::QueueWanted => vec![read(), wants(Wanted::Yes)],
        Rule::QueueUnset => vec![read(), wants(Wanted::Unset)],
        _ => Vec::new(),
    }
}

/// The evidence that made the deciding rule apply.
pub(super) fn deciding(seen: Seen<'_>, _queue: &QueueView) -> Vec<String> {
    vec![wanted_line(seen)]
}
