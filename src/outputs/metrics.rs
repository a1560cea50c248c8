//! The metrics: one table of them, and their text.

mod labels;
mod own;
mod problems;
mod reading;
mod table;
mod text;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use lockwatch_judge::problems::Unscraped;
use lockwatch_judge::snapshot::{StoreView, TaskView, TaskViews};

use super::negotiate::Format;
use crate::published::Published;
use crate::text::identity::escape;
pub use labels::HOLDER_SERIES_MAX;
use reading::{Agent, Source, When};
pub use reading::{Metric, Own};
use table::OF_PATTERNS;
pub use table::TABLE;

/// What is the same in all metrics of the tasks.
#[derive(Debug)]
struct Tasks {
    /// Whether any of them shows all metrics.
    full: bool,
    /// Whether there are patterns.
    patterns: bool,
    /// The kinds that they have.
    kinds: Vec<&'static str>,
    /// The labels that all series of a task begin with, one task after the other.
    labels: String,
    /// Where those of each task end.
    ends: Vec<usize>,
}

impl Tasks {
    fn of(published: &Published) -> Tasks {
        let tasks: &TaskViews = &published.snapshot.tasks;
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
        let full = tasks.iter().any(|task| task.spec.full_metrics);
        Tasks { kinds, full, patterns: !published.patterns.is_empty(), labels, ends }
    }

    /// Whether a store or any task may show this metric. Those of locks are described also where
    /// there are no tasks.
    fn show(&self, metric: &Metric) -> bool {
        let has = |kind| self.kinds.contains(&kind) || self.kinds.is_empty() && kind == "lock";
        match metric.source {
            Source::OfAgent(_) => false,
            Source::OfStore(_) | Source::OfServer(_) => true,
            Source::OfPattern(_) => self.patterns,
            Source::OfTask(_) => metric.of_kind().is_none_or(has),
            Source::OfFullTask(_) => self.full && metric.of_kind().is_none_or(has),
        }
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
        if self.tasks.is_none() {
            own::write(&self.agent, self.format, out);
        }
        let known = self.tasks.get_or_insert_with(|| Tasks::of(published));
        while TABLE.get(self.next.0).is_some_and(|metric| !known.show(metric)) {
            self.next.0 += 1;
        }
        let (number, first) = self.next;
        let Some(metric) = TABLE.get(number) else {
            self.end(out);
            return false;
        };
        let when =
            When { at: published.snapshot.at, wall: published.wall, unscraped: self.unscraped };
        if first == 0 {
            text::describe(metric, self.format, out);
        }
        self.next = (number + 1, 0);
        match &metric.source {
            Source::OfAgent(_) => {}
            Source::OfStore(reading) => {
                for (name, store) in stores(published) {
                    let mut own = String::new();
                    text::labels([("store", &*name)], &mut own);
                    text::write(metric.name, reading, &own, (store, when), out);
                }
            }
            Source::OfServer(reading) => {
                for (name, store) in stores(published) {
                    for node in &store.nodes {
                        let (server, mut own) = (escape(node.address.as_bytes()), String::new());
                        text::labels([("store", &*name), ("server", &*server)], &mut own);
                        text::write(metric.name, reading, &own, (node, when), out);
                    }
                }
            }
            Source::OfPattern(reading) => {
                for pattern in &*published.patterns {
                    let (name, store) =
                        (escape(pattern.name.as_bytes()), escape(pattern.store.as_bytes()));
                    let mut own = String::new();
                    text::labels([("pattern", &*name), ("store", &*store)], &mut own);
                    text::write(metric.name, reading, &own, (pattern, when), out);
                }
            }
            Source::OfTask(reading) | Source::OfFullTask(reading) => {
                let (kind, of_patterns) = (metric.of_kind(), OF_PATTERNS.contains(&metric.name));
                let shows = |task: &TaskView| {
                    let is_shown = match &task.spec.pattern {
                        Some(_) => of_patterns,
                        None => task.spec.full_metrics || !metric.is_full(),
                    };
                    is_shown && kind.is_none_or(|kind| kind == task.spec.kind.name())
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

/// The stores by their names. Two of one name would make the whole exposition invalid.
fn stores(published: &Published) -> impl Iterator<Item = (Cow<'_, str>, &StoreView)> {
    let mut seen = HashSet::new();
    let stores = published.snapshot.stores.iter().filter(move |it| seen.insert(&*it.spec.name));
    stores.map(|store| (escape(store.spec.name.as_bytes()), &**store))
}

fn is_alike(one: &TaskView, other: &TaskView) -> bool {
    one.spec.name == other.spec.name && one.store == other.store
}
