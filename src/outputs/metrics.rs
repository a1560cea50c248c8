//! The metrics: one table of them, and their text.

mod own;
mod problems;
mod reading;
mod table;
mod text;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use lockwatch_judge::problems::Unscraped;
use lockwatch_judge::snapshot::{TaskView, TaskViews};
use lockwatch_judge::spec::LibraryName;

use super::negotiate::Format;
use super::process::Process;
use crate::published::{Published, ReloadStatus};
use crate::text::identity::{escape, holder_label};
pub use reading::Metric;
use reading::{Emit, Number, Source, When};
pub use table::TABLE;

/// Most series of `lockwatch_lock_holder` for one task, so that a task has at most 100 series, and
/// a few more in trouble. A read lock may have more holders; `lockwatch_lock_holders` counts them
/// all.
pub const HOLDER_SERIES_MAX: usize = 5;
/// Labels that a task's own labels must not hide.
const RESERVED_LABELS: [&str; 4] = ["task", "store", "key", "library"];

/// What the agent counts of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The result of the newest load of the configuration.
    pub reload: ReloadStatus,
    /// Log lines that were lost.
    pub log_lines_lost: u64,
}

/// What the agent tells of itself.
#[derive(Debug)]
struct Agent {
    own: Own,
    process: Process,
}

impl Agent {
    fn now(own: Own) -> Agent {
        Agent { own, process: Process::read() }
    }

    /// Identifies the tasks; empty without any.
    fn tasks(&self) -> String {
        match self.own.reload.tasks {
            0 => String::new(),
            tasks => format!("{tasks:012x}"),
        }
    }
}

/// What is the same in all metrics of the tasks.
#[derive(Debug)]
struct Tasks {
    /// Whether any of them shows all metrics.
    full: bool,
    /// The kinds that they have.
    kinds: Vec<&'static str>,
    /// The labels that all series of a task begin with, one task after the other.
    labels: String,
    /// Where those of each task end.
    ends: Vec<usize>,
}

impl Tasks {
    fn of(tasks: &TaskViews) -> Tasks {
        let mut labels = String::new();
        let ends = tasks.iter().map(|task| {
            let (name, store) = (escape(task.spec.name.as_bytes()), escape(task.store.as_bytes()));
            text::labels([("task", &*name), ("store", &*store)], &mut labels);
            labels.len()
        });
        let ends = ends.collect();
        let mut kinds: Vec<&str> = tasks.iter().map(|task| task.spec.kind.name()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Tasks { kinds, full: tasks.iter().any(|task| task.spec.full_metrics), labels, ends }
    }

    /// Whether any task may show this metric. Those of locks are described also where there are no
    /// tasks.
    fn show(&self, metric: &Metric) -> bool {
        let has = |kind| self.kinds.contains(&kind) || self.kinds.is_empty() && kind == "lock";
        (self.full || !metric.full) && metric.of_kind().is_none_or(has)
    }

    /// The labels of the task at this position.
    fn labels(&self, at: usize) -> &str {
        let end_of = |at: usize| self.ends.get(at).copied();
        let start = at.checked_sub(1).and_then(end_of).unwrap_or(0);
        end_of(at).and_then(|end| self.labels.get(start..end)).unwrap_or_default()
    }
}

/// Tasks that are written at once.
const TASKS_AT_ONCE: usize = 200;

/// Writes all metrics of a snapshot, piece by piece.
#[derive(Debug)]
pub struct Writer {
    agent: Arc<Agent>,
    format: Format,
    unscraped: Option<Unscraped>,
    /// `None` before the first piece.
    tasks: Option<Tasks>,
    /// The metric and the task that come next.
    next: (usize, usize),
}

impl Writer {
    /// Nothing was written yet. `unscraped` is the newest time without scrapes.
    pub fn new(own: Own, format: Format, unscraped: Option<Unscraped>) -> Writer {
        Writer { agent: Arc::new(Agent::now(own)), format, unscraped, tasks: None, next: (0, 0) }
    }

    /// Appends the next piece of `published`, always the same one; returns whether there are more.
    pub fn write(&mut self, published: &Published, out: &mut String) -> bool {
        let tasks = &published.snapshot.tasks;
        let known = self.tasks.get_or_insert_with(|| Tasks::of(tasks));
        while TABLE.get(self.next.0).is_some_and(|metric| !known.show(metric)) {
            self.next.0 += 1;
        }
        let (number, first) = self.next;
        let Some(metric) = TABLE.get(number) else {
            self.end(out);
            return false;
        };
        let when = When { at: published.snapshot.at, unscraped: self.unscraped };
        if first == 0 && !matches!(metric.source, Source::Agent(_)) {
            text::describe(metric, self.format, out);
        }
        self.next = (number + 1, 0);
        match &metric.source {
            Source::Agent(reading) => own::write(metric, reading, &self.agent, self.format, out),
            Source::Redis(reading) => {
                let mut seen = HashSet::new();
                for store in &published.snapshot.stores {
                    let mut own = String::new();
                    text::labels([("store", &*escape(store.spec.name.as_bytes()))], &mut own);
                    if seen.insert(&*store.spec.name) {
                        text::write(metric.name, reading, &own, (&**store, when), out);
                    }
                }
            }
            Source::Task(reading) => {
                let kind = metric.of_kind();
                let shows = |task: &TaskView| {
                    let is_full = task.spec.full_metrics || !metric.full;
                    is_full && kind.is_none_or(|kind| kind == task.spec.kind.name())
                };
                let end = tasks.len().min(first + TASKS_AT_ONCE);
                let mut before = first.checked_sub(1).and_then(|before| tasks.get(before));
                for (at, task) in (first..end).filter_map(|at| Some((at, tasks.get(at)?))) {
                    // Two that are alike would make the whole exposition invalid.
                    if shows(task) && !before.is_some_and(|before| is_alike(before, task)) {
                        text::write(metric.name, reading, known.labels(at), (task, when), out);
                    }
                    before = Some(task);
                }
                if end < tasks.len() {
                    self.next = (number, end);
                }
            }
        }
        let more = self.next.0 < TABLE.len();
        if !more {
            self.end(out);
        }
        more
    }

    fn end(&self, out: &mut String) {
        if self.format == Format::OpenMetrics {
            out.push_str("# EOF\n");
        }
    }
}

fn is_alike(one: &TaskView, other: &TaskView) -> bool {
    one.spec.name == other.spec.name && one.store == other.store
}

impl Number {
    /// What a counter shows of it: it never goes below 0.
    fn never_negative(self) -> Number {
        match self {
            Number::Signed(number) => Number::Count(number.unsigned_abs()),
            Number::SignedMs(ms) => Number::Ms(ms.unsigned_abs()),
            Number::Count(_) | Number::Ms(_) | Number::Infinite => self,
        }
    }
}

/// The series of `lockwatch_lock_holder`: each pair of holder and host once. A holder of whom
/// nothing is known has none: a name for all of them would look like one that stays.
fn holder_series(task: &TaskView, emit: &mut Emit<'_>) {
    let Some(hold) = table::hold(task) else { return };
    let mut seen = HashSet::new();
    for (holder, host) in hold.holders.iter().filter(|(holder, _)| holder.is_identified()) {
        let labels = (holder_label(holder), escape(host.as_deref().unwrap_or_default()));
        if seen.len() < HOLDER_SERIES_MAX && !seen.contains(&labels) {
            emit(&[("holder", &labels.0), ("holder_host", &labels.1)], Number::Count(1));
            seen.insert(labels);
        }
    }
}

/// The series of `lockwatch_task_info`. A task's own label that is no valid name, that is reserved
/// or that was there before is left out: the configuration refuses it, and it must never cost a
/// scrape.
fn info_labels(task: &TaskView, emit: &mut Emit<'_>) {
    let key = escape(task.spec.kind.key());
    let library = task.spec.kind.library().map_or("", LibraryName::as_str);
    let own: Vec<(&str, Cow<'_, str>)> =
        task.spec.labels.iter().map(|(name, value)| (&**name, escape(value.as_bytes()))).collect();
    let mut labels: Vec<(&str, &str)> = vec![("key", &key), ("library", library)];
    for (name, value) in &own {
        let taken = labels.iter().any(|(other, _)| other == name);
        if is_own_label(name) && !taken {
            labels.push((name, value));
        }
    }
    emit(&labels, Number::Count(1));
}

/// Whether a task may have a label of its own with this name.
fn is_own_label(name: &str) -> bool {
    is_label_name(name) && !RESERVED_LABELS.contains(&name)
}

fn is_label_name(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well
        && !name.starts_with("__")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
