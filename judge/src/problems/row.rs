//! What a problem is, and what is found of it.

use alloc::vec::Vec;

use crate::grounds::{Problem, Rare, StoreGrounds};
use crate::snapshot::{Durations, StoreView, TaskView};
use crate::spec::TaskSpec;
use crate::time::Mono;

/// What is found of one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Active, for this long in milliseconds, at least 1.
    Positive {
        /// The number.
        ms: u64,
    },
    /// There is evidence against it.
    Negative,
    /// Neither is known now.
    Unknown,
}

impl Finding {
    pub(super) fn positive(ms: u64) -> Finding {
        Finding::Positive { ms: ms.max(1) }
    }

    pub(super) fn over(ms: u64, limit_ms: u64) -> Finding {
        if ms > limit_ms { Finding::positive(ms) } else { Finding::Unknown }
    }

    /// Of a condition that has held since an instant.
    pub(super) fn lasted(since: Option<Mono>, limit_ms: u64, at: Mono) -> Finding {
        since.map_or(Finding::Unknown, |since| Finding::over(at.since_ms(since), limit_ms))
    }

    /// Whether it is active.
    pub fn is_positive(self) -> bool {
        matches!(self, Finding::Positive { .. })
    }
}

/// Whom an alert wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A human, now. A task's label `severity` replaces `critical`.
    Page,
    /// Nobody before tomorrow.
    Warning,
}

impl Severity {
    /// Whether it wakes somebody.
    pub fn is_page(self) -> bool {
        self == Severity::Page
    }

    /// Its label without a label of the task's own.
    pub fn label(self) -> &'static str {
        match self {
            Severity::Page => "critical",
            Severity::Warning => "warning",
        }
    }
}

/// How Prometheus combines agents and what it remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What an agent reported last stays until an agent that answers has evidence against it.
    UntilNegative,
    /// The same, but one agent that sees it wins over all others.
    UntilNegativeOfAll,
    /// An event: its age, for this many milliseconds, whatever becomes of the agent.
    Event(u64),
    /// Nothing beyond `keep_firing_for`.
    Nothing,
}

/// How it is found in the view of whose problem it is. A pause is not considered.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    /// A task's.
    Task(fn(&TaskView, Mono) -> Finding),
    /// A store's.
    Store(fn(&StoreView, Mono) -> Finding),
}

/// When it happened last, of what can be over.
#[derive(Clone, Copy, Debug)]
pub enum Happened {
    /// It is a state.
    Never,
    /// To a task.
    ToTask(fn(&Rare) -> Option<Mono>),
    /// To a store.
    ToStore(fn(&StoreGrounds) -> Option<Mono>),
}

/// The duration that decides, of which it can be said how far it is from its limit.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    /// Its name in `/api/v1/tasks`.
    pub measure: &'static str,
    /// Its value in milliseconds.
    pub value: fn(&Durations) -> u64,
    /// The limit in milliseconds; `None`: a task like this cannot have the problem.
    pub limit: fn(&TaskSpec) -> Option<u64>,
}

/// One problem, with everything about it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The problem.
    pub problem: Problem,
    /// The severity of its series.
    pub severity: Severity,
    /// The alert, and its runbook.
    pub alert: &'static str,
    /// The condition that makes it positive.
    pub positive: &'static str,
    /// The evidence against it; empty: none is needed.
    pub negative: &'static str,
    /// What its number says.
    pub number: &'static str,
    /// What Prometheus remembers.
    pub memory: Memory,
    /// How it is found.
    pub find: Find,
    /// When it happened, if it is an event.
    pub happened: Happened,
    /// The duration that decides, if it is one of those that are always shown.
    pub compared: Option<Compared>,
    /// The severity of its alert, and after how many milliseconds it fires, if the alert is not due
    /// as soon as the problem is positive.
    pub alone: Option<(Severity, u64)>,
}

/// How long an event is shown, in milliseconds.
pub(super) const EVENT_MS: u64 = 900_000;

impl Row {
    /// A row to begin with.
    pub(super) const fn new(
        problem: Problem,
        alert: &'static str,
        severity: Severity,
        find: Find,
    ) -> Row {
        Row {
            problem,
            severity,
            alert,
            positive: "",
            negative: "",
            number: "how long it has been active",
            memory: Memory::Nothing,
            find,
            happened: Happened::Never,
            compared: None,
            alone: None,
        }
    }

    /// Whether it is a task's, and not a store's.
    pub fn is_of_task(&self) -> bool {
        matches!(self.find, Find::Task(_))
    }

    /// How long an event is shown, in milliseconds.
    pub fn event_ms(&self) -> u64 {
        match self.memory {
            Memory::Event(ms) => ms,
            _ => EVENT_MS,
        }
    }

    /// Whom its alert wakes.
    pub fn alert_severity(&self) -> Severity {
        self.alone.map_or(self.severity, |(severity, _)| severity)
    }

    /// Whether its alert fires if the problem has been positive for `ms`.
    pub fn fires(&self, ms: u64) -> bool {
        self.alone.is_none_or(|(_, over_ms)| ms > over_ms)
    }

    /// Whether fresh evidence against it is wanted for `clear`.
    pub fn is_page_state(&self) -> bool {
        self.severity == Severity::Page && !self.negative.is_empty()
    }

    /// The age of its event in milliseconds, counted from the latest of `from`; `None`: it is over.
    pub(super) fn age_ms(&self, from: &[Option<Mono>], at: Mono) -> Option<u64> {
        let from = from.iter().flatten().max()?;
        Some(at.since_ms(*from)).filter(|age_ms| *age_ms < self.event_ms())
    }
}

/// The problems of one task or one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// There is fresh evidence against every state that pages, and no pause withholds one.
    pub clear: bool,
    /// What is shown: positive findings and, unless `clear`, the negative ones.
    pub findings: Vec<(Problem, Finding)>,
    /// What happened not long ago, and its age in milliseconds.
    pub events: Vec<(Problem, u64)>,
    /// They are of a store that only has locks that other stores have as well: one that fails wakes
    /// nobody.
    pub only_warn: bool,
}

impl Problems {
    /// What becomes of a severity here.
    pub fn of(&self, severity: Severity) -> Severity {
        if self.only_warn { Severity::Warning } else { severity }
    }
}

/// The time between two scrapes, when it was too long for what happened in it to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unscraped {
    /// The scrape before it.
    pub from: Mono,
    /// The scrape that ended it.
    pub to: Mono,
}

impl Unscraped {
    /// When an event in this time was shown at the earliest.
    pub(super) fn shown_at(self, event: Mono) -> Option<Mono> {
        (self.from <= event && event <= self.to).then_some(self.to)
    }
}
