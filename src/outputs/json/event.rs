//! Events as JSON, in the words of the log.

use std::iter;
use std::sync::Arc;

use lockwatch_judge::event::Subject;
use serde::Serialize;

use super::part::wall;
use super::wire::text;
use crate::outputs::events::{describe, level_name};
use crate::outputs::history::{Excerpt, Kept};

#[derive(Serialize)]
struct EventJson<'a> {
    id: String,
    /// By the agent's clock.
    at: Option<String>,
    server_time: Option<String>,
    kind: &'static str,
    level: &'static str,
    /// One of these two is `null`.
    task: Option<&'a str>,
    store: Option<&'a str>,
    node: Option<String>,
    message: String,
    who: Option<String>,
    reason: Option<&'static str>,
    seconds: Option<f64>,
    remedy: Option<&'static str>,
}

/// An event on one line.
pub fn event(boot: &str, kept: &Kept) -> String {
    let line = describe(&kept.event);
    let (task, store) = match &kept.event.subject {
        Subject::Task(task) => (Some(&*task.name), None),
        Subject::Store(_, name) => (None, Some(&**name)),
    };
    text(&EventJson {
        id: event_id(boot, kept.number),
        at: wall(kept.at),
        server_time: line.server_time,
        kind: kept.kind,
        level: level_name(kept.level),
        task,
        store,
        node: line.node,
        message: line.message,
        who: line.who,
        reason: line.reason,
        seconds: line.seconds,
        remedy: line.remedy,
    })
}

/// Events per piece. Each client that does not read keeps one piece in memory.
const EVENTS_PER_PIECE: usize = 16;

/// The body of `/api/v1/events` in pieces, so that a long list is never in memory as a whole.
/// `gap`: events before these may be missing.
pub fn events(boot: Arc<str>, excerpt: Excerpt, gap: bool) -> impl Iterator<Item = String> + Send {
    let id = |number| text(&event_id(&boot, number));
    let oldest = excerpt.oldest.map_or_else(|| String::from("null"), id);
    let (next, newest) = (id(excerpt.upto), id(excerpt.newest));
    let tail = format!("],\"next\":{next},\"newest\":{newest},\"oldest\":{oldest},\"gap\":{gap}}}");
    let (mut rest, mut separator) = (excerpt.events.into_iter(), "");
    let events = iter::from_fn(move || {
        let mut piece = String::new();
        for kept in rest.by_ref().take(EVENTS_PER_PIECE) {
            piece.push_str(std::mem::replace(&mut separator, ","));
            piece.push_str(&event(&boot, &kept));
        }
        (!piece.is_empty()).then_some(piece)
    });
    iter::once(String::from("{\"events\":[")).chain(events).chain(iter::once(tail))
}

/// The globally unique id of the event with this number.
pub fn event_id(boot: &str, number: u64) -> String {
    format!("{boot}-{number}")
}
