//! Events as JSON, in the words of the log.

use lockwatch_model::event::Subject;
use serde::Serialize;

use super::part::wall;
use super::wire::text;
use crate::output::events::{describe, level_name};
use crate::output::history::{Excerpt, Kept};

#[derive(Serialize)]
struct EventJson<'a> {
    id: String,
    /// Agent's clock.
    at: Option<String>,
    server_time: Option<String>,
    kind: &'static str,
    level: &'static str,
    /// One of these two is `null`.
    task: Option<&'a str>,
    redis: Option<&'a str>,
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
    let (task, redis) = match &kept.event.subject {
        Subject::Task(task) => (Some(&*task.name), None),
        Subject::Redis(_, name) => (None, Some(&**name)),
    };
    text(&EventJson {
        id: event_id(boot, kept.number),
        at: wall(kept.at),
        server_time: line.server_time,
        kind: kept.kind,
        level: level_name(kept.level),
        task,
        redis,
        node: line.node,
        message: line.message,
        who: line.who,
        reason: line.reason,
        seconds: line.seconds,
        remedy: line.remedy,
    })
}

/// What `/api/v1/events` answers; `gap`: events before these may be missing.
pub fn events(boot: &str, excerpt: &Excerpt, gap: bool) -> String {
    let events: Vec<String> = excerpt.events.iter().map(|kept| event(boot, kept)).collect();
    let id = |number| text(&event_id(boot, number));
    let oldest = excerpt.oldest.map_or_else(|| String::from("null"), id);
    format!(
        "{{\"events\":[{}],\"next\":{},\"newest\":{},\"oldest\":{oldest},\"gap\":{gap}}}",
        events.join(","),
        id(excerpt.upto),
        id(excerpt.newest)
    )
}

/// What names the event of this number in the whole world.
pub fn event_id(boot: &str, number: u64) -> String {
    format!("{boot}-{number}")
}
