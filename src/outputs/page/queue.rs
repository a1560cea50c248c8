//! The details of a queue of delayed tasks.

use lockwatch_judge::snapshot::{ExecutionView, TaskView};
use lockwatch_judge::time::{AgentWall, ServerTime};

use super::facts::{self, Fact};
use super::moving::Markup;
use super::pulse::on_agents_clock;
use super::row;
use super::words::{lasted, running};
use crate::outputs::queue::{executions, oldest_waiting, who};
use crate::published::Published;
use crate::text::identity::escape;

/// Maximum number of members that are named in one place.
const NAMED_MAX: usize = 8;

/// In the order in which they are shown.
pub(super) const FACTS: [Fact; 15] = [
    ("Members", write_queue),
    ("Next due", write_next),
    ("Oldest due", write_oldest),
    ("Executing", write_executing),
    ("Worth knowing", facts::write_remarks),
    ("Locks left behind", write_orphans),
    ("Members that left", write_departed),
    ("Executed again", write_again),
    ("Wanted by", row::write_wanted),
    ("More than one holder", facts::write_splits),
    ("Claims alive", facts::write_claims),
    ("Trouble so far", facts::write_durations),
    ("Pages", facts::write_pause),
    ("Newest reading", facts::write_reading),
    ("Rule", facts::write_rule),
];

fn write_queue(markup: &mut Markup, _published: &Published, view: &TaskView) {
    match view.queue().and_then(|queue| queue.members.zip(queue.due)) {
        Some((members, due)) => markup.format(format_args!("{members}, {due} of them due")),
        None => markup.html("not known"),
    };
}

fn write_next(markup: &mut Markup, published: &Published, view: &TaskView) {
    if let Some(next) = view.queue().and_then(|queue| queue.next) {
        write_instant(markup, published, view, next);
    }
}

fn write_oldest(markup: &mut Markup, _published: &Published, view: &TaskView) {
    let Some(queue) = view.queue() else { return };
    match queue.oldest_due_ms {
        Some(0) => markup.html("none waits"),
        Some(ms) => markup.format(format_args!("due for {}", lasted(ms))),
        None => markup.html("not known"),
    };
    if let Some(oldest) = oldest_waiting(queue).filter(|_| queue.oldest_due_ms > Some(0)) {
        markup.html(": ").text(&escape(&oldest.id));
    }
}

fn write_executing(markup: &mut Markup, published: &Published, view: &TaskView) {
    let Some(queue) = view.queue() else { return };
    match queue.executing {
        Some(executing) if queue.more == Some(true) => {
            let looked_at = queue.first.len();
            markup.format(format_args!("{executing} of the first {looked_at} that are due"))
        }
        Some(executing) => markup.format(format_args!("{executing}")),
        None if queue.members.is_some() => return,
        None => markup.html("not known"),
    };
    for (member, execution) in executions(queue).take(NAMED_MAX) {
        markup.html("<span>").text(&escape(&member.id));
        write_execution(markup, published, view, execution);
        markup.html("</span>");
    }
}

fn write_orphans(markup: &mut Markup, published: &Published, view: &TaskView) {
    for orphan in view.queue().iter().flat_map(|queue| &queue.orphans).take(NAMED_MAX) {
        markup.html("<span>").text(&escape(&orphan.id));
        write_execution(markup, published, view, &orphan.execution);
        markup.html("</span>");
    }
}

/// By whom, and until when.
fn write_execution(
    markup: &mut Markup,
    published: &Published,
    view: &TaskView,
    execution: &ExecutionView,
) {
    markup.html(" by ").text(&who(execution));
    if execution.is_dead {
        markup.html(", who fell silent");
    }
    match execution.until {
        Some(until) => {
            markup.html(", executing until ");
            write_instant(markup, published, view, until);
        }
        None => _ = markup.html(", with no known end"),
    }
}

/// An instant of the server, from now.
fn write_instant(markup: &mut Markup, published: &Published, view: &TaskView, at: ServerTime) {
    let AgentWall(at) = on_agents_clock(published, view, at);
    match u64::try_from(published.wall.0.saturating_sub(at)) {
        Ok(ago_ms) => {
            markup.format(format_args!("<time data-ago=\"{at}\">{} ago</time>", running(ago_ms)))
        }
        Err(_) => {
            let in_ms = at.saturating_sub(published.wall.0).unsigned_abs();
            markup.format(format_args!("in {}", running(in_ms)))
        }
    };
}

fn write_departed(markup: &mut Markup, _published: &Published, view: &TaskView) {
    let Some(queue) = view.queue() else { return };
    let (departed, locked) = (queue.departed, queue.departed_locked);
    markup.format(format_args!("{departed}"));
    if view.spec.queue().is_some_and(|spec| spec.lock.is_some()) {
        markup.format(format_args!(", {locked} of them seen executed"));
    }
    if queue.vanished > 0 {
        markup.format(format_args!("; {} never seen locked", queue.vanished));
    }
}

fn write_again(markup: &mut Markup, _published: &Published, view: &TaskView) {
    let Some(queue) = view.queue() else { return };
    if queue.executed_again + queue.expired + queue.orphaned > 0 {
        let (again, expired, left) = (queue.executed_again, queue.expired, queue.orphaned);
        markup.format(format_args!("{again}; locks that expired before the end: {expired}"));
        markup.format(format_args!("; locks left behind: {left}"));
    }
}
