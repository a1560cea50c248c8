//! The metrics: one table of them, and their text.

mod column;
mod drill;
mod labels;
mod own;
mod problems;
mod reading;
mod table;
mod tasks;
mod text;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use lockwatch_judge::problems::Unscraped;
use lockwatch_judge::snapshot::StoreView;

use super::negotiate::Format;
use crate::published::Published;
use crate::text::identity::escape;
pub(super) use drill::labels as drill_labels;
pub use labels::HOLDER_SERIES_MAX;
use reading::{Agent, Seen, Source, When};
pub use reading::{Metric, Own};
pub use table::TABLE;
use tasks::Tasks;

/// Tasks that are written at once.
const TASKS_AT_ONCE: usize = 200;

/// Writes all metrics of a snapshot, piece by piece.
#[derive(Debug)]
pub struct Writer {
    agent: Arc<Agent>,
    format: Format,
    unscraped: Option<Unscraped>,
    /// `None` before the first piece.
    read: Option<Tasks>,
    /// The metric and the task that come next.
    next: (usize, usize),
}

impl Writer {
    /// Nothing was written yet. `unscraped` is the newest time without scrapes.
    pub fn new(own: Own, format: Format, unscraped: Option<Unscraped>) -> Writer {
        Writer { agent: Arc::new(Agent::now(own)), format, unscraped, read: None, next: (0, 0) }
    }

    /// Appends the next piece of `published`, always the same one; returns whether there are more.
    pub fn write(&mut self, published: &Published, out: &mut String) -> bool {
        let tasks = &published.snapshot.tasks;
        if self.read.is_none() {
            own::write(&self.agent, self.format, out);
        }
        let read = self.read.get_or_insert_with(Tasks::new);
        let shows = |metric: &Metric| match metric.source {
            Source::OfAgent(_) => false,
            Source::OfStore(_) | Source::OfServer(_) => true,
            Source::OfPattern(_) => !published.patterns.is_empty(),
            Source::OfTask(_) | Source::OfFullTask(_) => read.show(metric),
        };
        while TABLE.get(self.next.0).is_some_and(|metric| !shows(metric)) {
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
                    text::write(metric.name, reading, &own, &Seen::new(store, when), out);
                }
            }
            Source::OfServer(reading) => {
                for (name, store) in stores(published) {
                    for node in &store.nodes {
                        let (server, mut own) = (escape(node.address.as_bytes()), String::new());
                        text::labels([("store", &*name), ("server", &*server)], &mut own);
                        text::write(metric.name, reading, &own, &Seen::new(node, when), out);
                    }
                }
            }
            Source::OfPattern(reading) => {
                for pattern in &*published.patterns {
                    let (name, store) =
                        (escape(pattern.name.as_bytes()), escape(pattern.store.as_bytes()));
                    let mut own = String::new();
                    text::labels([("pattern", &*name), ("store", &*store)], &mut own);
                    text::write(metric.name, reading, &own, &Seen::new(pattern, when), out);
                }
            }
            Source::OfTask(reading) | Source::OfFullTask(reading) => {
                let end = tasks.len().min(first + TASKS_AT_ONCE);
                if read.write((number, reading), (tasks, when), (first, end), out) {
                    self.next = (number, end);
                } else if let Some(drill) = &published.drill {
                    drill::write(metric.name, drill, when.at, out);
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
