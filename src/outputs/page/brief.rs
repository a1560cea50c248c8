//! What the table of all tasks shows of turns and queues, in place of a holder.

use lockwatch_judge::snapshot::{QueueView, TurnView};
use lockwatch_judge::verdict::TurnFact;

use super::moving::Markup;

/// Whose turn it is. The table of all tasks does not name it: it may change many times a second.
pub(super) fn write_whose(markup: &mut Markup, turn: &TurnView) {
    match turn.fact {
        TurnFact::Somebody => markup.html("takes turns"),
        TurnFact::Nobody => markup.html("nobody"),
        TurnFact::Unknown => markup.html("not known"),
    };
}

/// What the table of all tasks shows. The numbers change with each reading, so it names none.
pub(super) fn write_members(markup: &mut Markup, queue: &QueueView) {
    markup.html(match (queue.members, queue.due) {
        (None, _) | (_, None) => "not known",
        (Some(0), _) => "an empty queue",
        (_, Some(0)) => "a queue, nothing due",
        _ => "a queue at work",
    });
}
