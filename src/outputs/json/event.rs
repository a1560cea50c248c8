//! Events, in the words of the log.

use std::iter;
use std::sync::Arc;

use lockwatch_judge::event::Subject;

use super::values::wall;
use super::wire::{around, text};
use crate::api::{Event, EventList};
use crate::outputs::events::{describe, level_name};
use crate::outputs::history::{Excerpt, Kept};

/// An event on one line.
pub fn event(boot: &str, kept: &Kept) -> String {
    let line = describe(&kept.event);
    let (task, store) = match &kept.event.subject {
        Subject::Task(task) => (Some(task.name.to_string().into()), None),
        Subject::Store(_, name) => (None, Some(name.to_string().into())),
    };
    text(&Event {
        id: event_id(boot, kept.number).into(),
        at: wall(kept.at),
        server_time: line.server_time.map(Into::into),
        kind: kept.kind.into(),
        level: level_name(kept.level).into(),
        task,
        store,
        node: line.node.map(Into::into),
        message: line.message.into(),
        who: line.who.map(Into::into),
        reason: line.reason.map(Into::into),
        seconds: line.seconds,
        remedy: line.remedy.map(Into::into),
    })
}

/// Events per piece. Each client that does not read keeps one piece in memory.
const EVENTS_PER_PIECE: usize = 16;

/// The body of `/api/v1/events` in pieces, so that a long list is never in memory as a whole.
/// `gap`: events before these may be missing.
pub fn events(boot: Arc<str>, excerpt: Excerpt, gap: bool) -> impl Iterator<Item = String> + Send {
    let id = |number| event_id(&boot, number).into();
    let list = EventList {
        events: Vec::new(),
        next: id(excerpt.upto),
        newest: id(excerpt.newest),
        oldest: excerpt.oldest.map(id),
        gap,
    };
    let (head, tail) = around(&list, "events");
    let (mut rest, mut separator) = (excerpt.events.into_iter(), "");
    let events = iter::from_fn(move || {
        let mut piece = String::new();
        for kept in rest.by_ref().take(EVENTS_PER_PIECE) {
            piece.push_str(std::mem::replace(&mut separator, ","));
            piece.push_str(&event(&boot, &kept));
        }
        (!piece.is_empty()).then_some(piece)
    });
    iter::once(head).chain(events).chain(iter::once(tail))
}

/// The globally unique id of the event with this number.
pub fn event_id(boot: &str, number: u64) -> String {
    format!("{boot}-{number}")
}
