//! What the table of metrics is made of: rows, and how each gets its figures.

use std::cell::OnceCell;

use lockwatch_judge::histogram::Histogram;
use lockwatch_judge::problems::{Problems, Unscraped, of_store, of_task};
use lockwatch_judge::snapshot::{NodeView, StoreView, TaskView};
use lockwatch_judge::time::{AgentWall, Mono};

use crate::outputs::process::Process;
use crate::published::{PatternView, ReloadStatus};

/// What the agent counts of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The result of the newest load of the configuration.
    pub reload: ReloadStatus,
    /// Log lines that were lost.
    pub log_lines_lost: u64,
}

/// What the agent reports of itself.
#[derive(Debug)]
pub(super) struct Agent {
    pub(super) own: Own,
    pub(super) process: Process,
}

impl Agent {
    pub(super) fn now(own: Own) -> Agent {
        Agent { own, process: Process::read() }
    }

    /// Identifies the tasks; empty without any.
    pub(super) fn tasks(&self) -> String {
        match self.own.reload.tasks {
            0 => String::new(),
            tasks => format!("{tasks:012x}"),
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub struct Metric {
    /// The name as scraped (of a histogram: without `_bucket`, `_sum`, `_count`).
    pub name: &'static str,
    /// What it means, one line.
    pub help: &'static str,
    pub(super) source: Source,
}

impl Metric {
    /// The kind of task that alone has it: the one that its name begins with.
    pub fn of_kind(&self) -> Option<&'static str> {
        let (first, _) = self.name.strip_prefix("lockwatch_")?.split_once('_')?;
        ["lock", "turn", "queue"].into_iter().find(|kind| *kind == first)
    }

    /// Whether only a task with `metrics: full` shows it.
    pub fn is_full(&self) -> bool {
        matches!(self.source, Source::OfFullTask(_))
    }
}

/// Whose figure it is: it decides the first labels.
#[derive(Debug)]
#[expect(clippy::enum_variant_names, reason = "the rows of the table read `source: OfStore(…)`")]
pub(super) enum Source {
    /// The agent's: no labels.
    OfAgent(Reading<Agent>),
    /// A store's: `store`.
    OfStore(Reading<StoreView>),
    /// Of each server of a store: `store`, `server`.
    OfServer(Reading<NodeView>),
    /// A pattern's: `pattern`, `store`.
    OfPattern(Reading<PatternView>),
    /// A task's: `task`, `store`.
    OfTask(Reading<TaskView>),
    /// The same, of a task with `metrics: full` only.
    OfFullTask(Reading<TaskView>),
}

/// How to get the figure out of a `T`.
#[derive(Debug)]
pub(super) enum Reading<T> {
    /// A gauge; `None`: no series.
    Gauge(fn(&T) -> Option<Number>),
    /// A counter; `None`: no series.
    Counter(fn(&T) -> Option<Number>),
    /// A histogram of durations.
    Histogram(fn(&T) -> &Histogram),
    /// Any number of gauges that an instant or the problems decide.
    GaugesAt(&'static [&'static str], EachAt<T>),
    /// Any number of gauges that differ in the labels named.
    Gauges(&'static [&'static str], Each<T>),
    /// Any number of counters that differ in the labels named.
    Counters(&'static [&'static str], Each<T>),
}

/// Emits each series of a `T`.
pub(super) type Each<T> = fn(&T, &mut Emit<'_>);
/// The same, where an instant or the problems decide.
pub(super) type EachAt<T> = fn(&Seen<'_, T>, &mut Emit<'_>);

/// A `T` as it is shown at an instant.
#[derive(Debug)]
pub(super) struct Seen<'a, T> {
    pub(super) of: &'a T,
    pub(super) when: When,
    /// Found once for all metrics that read them.
    problems: OnceCell<Problems>,
}

impl<'a, T> Seen<'a, T> {
    pub(super) fn new(of: &'a T, when: When) -> Seen<'a, T> {
        Seen { of, when, problems: OnceCell::new() }
    }
}

impl Seen<'_, TaskView> {
    pub(super) fn problems(&self) -> &Problems {
        let When { at, unscraped, .. } = self.when;
        self.problems.get_or_init(|| of_task(self.of, at, unscraped))
    }
}

impl Seen<'_, StoreView> {
    pub(super) fn problems(&self) -> &Problems {
        let When { at, unscraped, .. } = self.when;
        self.problems.get_or_init(|| of_store(self.of, at, unscraped))
    }
}

/// When an exposition shows something.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    /// The instant of its snapshot.
    pub(super) at: Mono,
    /// The same on the agent's wall clock.
    pub(super) wall: AgentWall,
    /// The newest time without scrapes.
    pub(super) unscraped: Option<Unscraped>,
}

impl When {
    /// The agent's wall clock at `instant`.
    pub(super) fn wall_at(self, instant: Mono) -> AgentWall {
        let ago_ms = self.at.since_ms(instant);
        AgentWall(self.wall.0.saturating_sub(i64::try_from(ago_ms).unwrap_or(i64::MAX)))
    }
}

/// Takes the further labels of one series, and its value.
pub(super) type Emit<'a> = dyn FnMut(&[(&str, &str)], Number) + 'a;

/// A value as the snapshot has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// A plain number.
    Count(u64),
    /// A plain number that may be negative.
    Signed(i64),
    /// More than any number.
    Infinite,
    /// Milliseconds, to be shown as seconds.
    Ms(u64),
    /// Milliseconds that may be negative, to be shown as seconds.
    SignedMs(i64),
}

impl Number {
    /// What a counter shows of it: it never goes below 0.
    pub(super) fn never_negative(self) -> Number {
        match self {
            Number::Signed(number) => Number::Count(number.unsigned_abs()),
            Number::SignedMs(ms) => Number::Ms(ms.unsigned_abs()),
            Number::Count(_) | Number::Ms(_) | Number::Infinite => self,
        }
    }
}

impl Metric {
    /// `gauge`, `counter` or `histogram`.
    pub fn kind(&self) -> &'static str {
        match &self.source {
            Source::OfAgent(reading) => reading.kind(),
            Source::OfStore(reading) => reading.kind(),
            Source::OfServer(reading) => reading.kind(),
            Source::OfPattern(reading) => reading.kind(),
            Source::OfTask(reading) | Source::OfFullTask(reading) => reading.kind(),
        }
    }

    /// The names of its labels.
    pub fn labels(&self) -> Vec<&'static str> {
        let (first, further): (&[&'static str], _) = match &self.source {
            Source::OfAgent(reading) => (&[], reading.labels()),
            Source::OfStore(reading) => (&["store"], reading.labels()),
            Source::OfServer(reading) => (&["store", "server"], reading.labels()),
            Source::OfPattern(reading) => (&["pattern", "store"], reading.labels()),
            Source::OfTask(reading) | Source::OfFullTask(reading) => {
                (&["task", "store"], reading.labels())
            }
        };
        [first, further].concat()
    }
}

impl<T> Reading<T> {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Reading::Gauge(_) | Reading::Gauges(..) | Reading::GaugesAt(..) => "gauge",
            Reading::Counter(_) | Reading::Counters(..) => "counter",
            Reading::Histogram(_) => "histogram",
        }
    }

    fn labels(&self) -> &'static [&'static str] {
        match self {
            Reading::Gauges(labels, _)
            | Reading::GaugesAt(labels, _)
            | Reading::Counters(labels, _) => labels,
            Reading::Gauge(_) | Reading::Counter(_) | Reading::Histogram(_) => &[],
        }
    }
}
