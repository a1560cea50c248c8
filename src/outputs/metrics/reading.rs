//! What the table of metrics is made of: rows, and how each gets its figures.

use lockwatch_judge::histogram::Histogram;
use lockwatch_judge::problems::Unscraped;
use lockwatch_judge::snapshot::{StoreView, TaskView};
use lockwatch_judge::time::Mono;

use super::Agent;

/// One row of the table.
#[derive(Debug)]
pub struct Metric {
    /// The name as scraped (of a histogram: without `_bucket`, `_sum`, `_count`).
    pub name: &'static str,
    /// What it means, one line.
    pub help: &'static str,
    /// Whether only a task with `metrics: full` shows it.
    pub full: bool,
    pub(super) source: Source,
}

impl Metric {
    /// The kind of task that alone has it: the one that its name begins with.
    pub fn of_kind(&self) -> Option<&'static str> {
        let (first, _) = self.name.strip_prefix("lockwatch_")?.split_once('_')?;
        ["lock", "turn", "queue"].into_iter().find(|kind| *kind == first)
    }
}

/// Whose figure it is: it decides the first labels.
#[derive(Debug)]
pub(super) enum Source {
    /// The agent's: no labels.
    Agent(Reading<Agent>),
    /// A store's: `store`.
    Redis(Reading<StoreView>),
    /// A task's: `task`, `store`.
    Task(Reading<TaskView>),
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
    /// A counter for each value of a label.
    CounterPer(Per<T>),
    /// Any number of gauges as of an instant.
    GaugesAt(&'static [&'static str], EachAt<T>),
    /// Any number of gauges that differ in the labels named.
    Gauges(&'static [&'static str], Each<T>),
    /// Any number of counters that differ in the labels named.
    Counters(&'static [&'static str], Each<T>),
}

/// Series that differ in one label, whose values are known beforehand.
#[derive(Debug)]
pub(super) struct Per<T> {
    pub(super) label: &'static [&'static str; 1],
    /// Its values, from number 0 on.
    pub(super) value: fn(usize) -> Option<&'static str>,
    /// The figure for the value of this number.
    pub(super) get: fn(&T, usize) -> Number,
}

impl<T> Per<T> {
    /// The label with each of its values.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let [label] = *self.label;
        (0..).map_while(self.value).map(move |value| (label, value))
    }
}

/// Hands each series of a `T` to the emitter.
pub(super) type Each<T> = fn(&T, &mut Emit<'_>);
/// The same, where the figures grow by themselves.
pub(super) type EachAt<T> = fn(&T, When, &mut Emit<'_>);

/// When an exposition shows something.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    /// The instant of its snapshot.
    pub(super) at: Mono,
    /// The newest time without scrapes.
    pub(super) unscraped: Option<Unscraped>,
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

impl Metric {
    /// `gauge`, `counter` or `histogram`.
    pub fn kind(&self) -> &'static str {
        match &self.source {
            Source::Agent(reading) => reading.kind(),
            Source::Redis(reading) => reading.kind(),
            Source::Task(reading) => reading.kind(),
        }
    }

    /// The names of its labels.
    pub fn labels(&self) -> Vec<&'static str> {
        let (first, further): (&[&'static str], _) = match &self.source {
            Source::Agent(reading) => (&[], reading.labels()),
            Source::Redis(reading) => (&["store"], reading.labels()),
            Source::Task(reading) => (&["task", "store"], reading.labels()),
        };
        [first, further].concat()
    }
}

impl<T> Reading<T> {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Reading::Gauge(_) | Reading::Gauges(..) | Reading::GaugesAt(..) => "gauge",
            Reading::Counter(_) | Reading::CounterPer(_) | Reading::Counters(..) => "counter",
            Reading::Histogram(_) => "histogram",
        }
    }

    fn labels(&self) -> &'static [&'static str] {
        match self {
            Reading::Gauges(labels, _)
            | Reading::GaugesAt(labels, _)
            | Reading::Counters(labels, _) => labels,
            Reading::CounterPer(per) => per.label,
            Reading::Gauge(_) | Reading::Counter(_) | Reading::Histogram(_) => &[],
        }
    }
}
