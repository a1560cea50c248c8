//! Writes each event as exactly one log line, at a limited rate.
//!
//! The counters of events are in the snapshot: the state counts where it emits, so a log line and
//! its counter cannot diverge.

mod limit;
mod rows;

use lockwatch_judge::event::{Event, EventKind, Subject};
use lockwatch_judge::time::Mono;
use tracing::Level;

use crate::text::identity::escape;
use crate::text::instants::{rfc3339, seconds};
use limit::{Admission, Limiter, Suppressed};
use rows::Row;

/// Every level of an event with its name, the most important first.
pub const LEVELS: [(&str, Level); 4] = [
    ("error", Level::ERROR),
    ("warn", Level::WARN),
    ("info", Level::INFO),
    ("debug", Level::DEBUG),
];

/// Writes events to the log.
#[derive(Debug, Default)]
pub struct EventLog {
    limiter: Limiter,
}

impl EventLog {
    /// Writes `event`, unless the rate limit was reached in the second before `now`.
    pub fn write(&mut self, now: Mono, event: &Event) {
        let line = describe(event);
        self.limiter.roll(now).into_iter().for_each(write_suppressed);
        if self.limiter.admit(line.kind, &line.subject) == Admission::Write {
            write_line(&line);
        }
    }

    /// Reports how many lines were suppressed. Call it about once a second.
    pub fn tick(&mut self, now: Mono) {
        self.limiter.roll(now).into_iter().for_each(write_suppressed);
    }
}

/// A log line. All text in it is escaped.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Its level.
    pub level: Level,
    /// The kind of event, from a closed list.
    pub kind: &'static str,
    /// `task` or `redis`.
    pub subject_kind: &'static str,
    /// The name of the task or Redis store.
    pub subject: String,
    /// The server whose reply shows it.
    pub node: Option<String>,
    /// The event in a sentence.
    pub message: String,
    /// The holders, instances or users concerned.
    pub who: Option<String>,
    /// A word of a closed list that distinguishes events of this kind.
    pub reason: Option<&'static str>,
    /// How long it took or lasted.
    pub seconds: Option<f64>,
    /// What a person can do about it.
    pub remedy: Option<&'static str>,
    /// When it happened, by the server's clock.
    pub server_time: Option<String>,
}

/// The line for `event`.
pub fn describe(event: &Event) -> Line {
    let (subject_kind, subject) = match &event.subject {
        Subject::Task(task) => ("task", escape(task.name.as_bytes())),
        Subject::Store(_, name) => ("store", escape(name.as_bytes())),
    };
    let Row { level, message, who, reason, ms, remedy } = rows::of(&event.kind);
    Line {
        level,
        kind: event.kind.name(),
        subject_kind,
        subject: subject.into_owned(),
        node: event.node.as_ref().map(|node| escape(node.as_bytes()).into_owned()),
        message: message.into_owned(),
        who,
        reason,
        seconds: ms.map(seconds),
        remedy,
        server_time: event.server_time.and_then(|time| rfc3339(time.ms())),
    }
}

/// The level of the line for an event.
pub fn level(kind: &EventKind) -> Level {
    rows::of(kind).level
}

/// The name of a level.
pub fn level_name(level: Level) -> &'static str {
    LEVELS.iter().find(|(_, own)| *own == level).map_or("debug", |(name, _)| name)
}

fn write_line(line: &Line) {
    // The level of a tracing event is fixed at its call site, so each level needs its own.
    macro_rules! write_at {
        ($level:expr) => {
            tracing::event!(
                target: "lockwatch::event",
                $level,
                event = line.kind,
                task = (line.subject_kind == "task").then_some(line.subject.as_str()),
                store = (line.subject_kind == "store").then_some(line.subject.as_str()),
                node = line.node.as_deref(),
                who = line.who.as_deref(),
                reason = line.reason,
                seconds = line.seconds,
                server_time = line.server_time.as_deref(),
                remedy = line.remedy,
                "{}",
                line.message
            )
        };
    }
    match line.level {
        Level::ERROR => write_at!(Level::ERROR),
        Level::WARN => write_at!(Level::WARN),
        Level::INFO => write_at!(Level::INFO),
        _ => write_at!(Level::DEBUG),
    }
}

fn write_suppressed(suppressed: Suppressed) {
    tracing::warn!(
        target: "lockwatch::event",
        event = suppressed.kind,
        suppressed = suppressed.count,
        "{} more lines of this kind within a second were left out",
        suppressed.count
    );
}
