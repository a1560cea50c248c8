//! The details of a queue of delayed tasks.

use lockwatch_judge::snapshot::{QueueView, TaskView};

use super::facts::{self, Fact};
use super::moving::Markup;
use super::row;
use crate::published::Published;

/// In the order in which they are shown.
pub(super) const FACTS: [Fact; 8] = [
    ("Members", write_queue),
    ("Wanted by", row::write_wanted),
    ("More than one holder", facts::write_splits),
    ("Claims alive", facts::write_claims),
    ("Trouble so far", facts::write_durations),
    ("Pages", facts::write_pause),
    ("Newest reading", facts::write_reading),
    ("Rule", facts::write_rule),
];

/// What the table of all tasks shows. The numbers change with each reading, so it names none.
pub(super) fn write_members(markup: &mut Markup, queue: &QueueView) {
    markup.html(if queue.members.is_some() { "a queue" } else { "not known" });
}

fn write_queue(markup: &mut Markup, _published: &Published, view: &TaskView) {
    match view.queue().and_then(|queue| queue.members.zip(queue.due)) {
        Some((members, due)) => markup.format(format_args!("{members}, {due} of them due")),
        None => markup.html("not known"),
    };
}
