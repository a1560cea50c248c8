//! A fact for people: its name, and lines whose instants and durations each reader writes in its
//! own way.

use std::borrow::Cow;

use crate::api::{At, Seconds, Task, Text, Unknown};

/// Something that is known of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Its name.
    pub name: &'static str,
    /// What is known, in lines of their own; none: the fact does not apply to the task.
    pub lines: Vec<Line>,
}

/// What is known, from its parts.
pub type Line = Vec<Part>;

/// A part of what is known.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Words.
    Words(Cow<'static, str>),
    /// A name of lockwatch's own.
    Name(Text),
    /// It cannot be read, and why.
    Unread(Unknown),
    /// How late the next renewal is.
    Overdue(Seconds),
    /// Words that need somebody's attention.
    Alarm(Cow<'static, str>),
    /// A duration that has ended.
    Lasted(Seconds),
    /// The time since a state began, by the agent's clock.
    Since(At),
    /// The time since an event, by the agent's clock.
    Ago(At),
    /// An instant of the server's clock.
    Server(At),
    /// The rest of the lease at the newest reading.
    Lease {
        /// What was left.
        left: Seconds,
        /// The whole lease, if it is known.
        whole: Option<Seconds>,
    },
    /// When the progress was last seen to move, by the server's clock.
    Progress(At),
}

/// A task in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The task.
    pub task: &'a Task,
    /// When the snapshot was made, by the agent's clock.
    pub at: At,
    /// `always` or `never`, if that is configured in place of switches, as far as it is known.
    pub wanted: Option<&'static str>,
}

impl Subject<'_> {
    /// When the newest trustworthy reading was requested, by the agent's clock.
    pub(super) fn read_at(self) -> At {
        let age = self.task.evidence_age_seconds;
        At(self.at.0.zip(age).map(|(at, Seconds(age_ms))| at.saturating_sub_unsigned(age_ms)))
    }

    /// A duration as of the newest reading, which goes on as long as readings arrive.
    pub(super) fn for_so_long(self, lasted: Seconds) -> Part {
        match self.read_at().0.filter(|_| self.task.is_read()) {
            Some(at) => Part::Since(At(Some(at.saturating_sub_unsigned(lasted.0)))),
            None => Part::Lasted(lasted),
        }
    }
}

impl From<&'static str> for Part {
    fn from(words: &'static str) -> Part {
        Part::Words(words.into())
    }
}

impl From<String> for Part {
    fn from(words: String) -> Part {
        Part::Words(words.into())
    }
}

pub(super) fn fact(name: &'static str, lines: impl IntoIterator<Item = Line>) -> Fact {
    Fact { name, lines: lines.into_iter().collect() }
}

pub(super) fn words(words: impl Into<Cow<'static, str>>) -> Line {
    vec![Part::Words(words.into())]
}
