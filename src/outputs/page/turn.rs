//! The details of tasks that take turns.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::AgentWall;
use lockwatch_judge::verdict::TurnFact;

use super::facts::{self, Fact};
use super::moving::Markup;
use super::pulse::on_agents_clock;
use super::row;
use super::words::{lasted, running};
use crate::outputs::turn::due;
use crate::published::Published;
use crate::text::identity::escape;

/// In the order in which they are shown.
pub(super) const FACTS: [Fact; 12] = [
    ("Turn of", write_turn),
    ("May run since", write_due),
    ("Overdue for", write_overdue),
    ("Turns passed on", write_taken),
    ("Wanted by", row::write_wanted),
    ("Last handover", facts::write_handover),
    ("More than one holder", facts::write_splits),
    ("Claims alive", facts::write_claims),
    ("Trouble so far", facts::write_durations),
    ("Pages", facts::write_pause),
    ("Newest reading", facts::write_reading),
    ("Rule", facts::write_rule),
];

fn write_turn(markup: &mut Markup, _published: &Published, view: &TaskView) {
    let Some(turn) = view.turn() else { return };
    match &turn.name {
        Some(name) => markup.text(&escape(name)),
        None if turn.fact == TurnFact::Nobody => markup.html("nobody"),
        None => markup.html("not known"),
    };
    if let Some(fields) = turn.fields.filter(|fields| *fields > 1) {
        markup.format(format_args!("; the hash has {fields} fields"));
    }
}

fn write_due(markup: &mut Markup, published: &Published, view: &TaskView) {
    let Some(turn) = view.turn().filter(|turn| turn.name.is_some()) else { return };
    let Some(from) = due(turn) else {
        markup.html("at once");
        return;
    };
    let AgentWall(at) = on_agents_clock(published, view, from);
    match u64::try_from(published.wall.0.saturating_sub(at)) {
        Ok(ago_ms) => {
            markup.format(format_args!("<time data-ago=\"{at}\">{} ago</time>", running(ago_ms)))
        }
        Err(_) => {
            let in_ms = at.saturating_sub(published.wall.0).unsigned_abs();
            markup.format(format_args!("in {}", lasted(in_ms)))
        }
    };
}

fn write_overdue(markup: &mut Markup, _published: &Published, view: &TaskView) {
    if let Some(turn) = view.turn().filter(|turn| turn.late_ms > 0) {
        markup.format(format_args!("{}", lasted(turn.late_ms)));
    }
}

fn write_taken(markup: &mut Markup, _published: &Published, view: &TaskView) {
    let Some(turn) = view.turn() else { return };
    for (at, taken) in turn.taken.iter().enumerate() {
        markup.html(if at > 0 { ", " } else { "" }).text(&escape(&taken.name));
        markup.format(format_args!(" {}", taken.turns));
    }
    if let Some(count) = turn.out_of_order.filter(|count| *count > 0) {
        markup.format(format_args!("; {count} out of order"));
    }
    if turn.unknown_names > 0 {
        markup.format(format_args!("; {} unknown names", turn.unknown_names));
    }
}
