//! The metrics of all tasks. Each task is read once, and what was read of it waits in a few bytes
//! until the text comes to the other metrics.

use lockwatch_judge::snapshot::{TaskView, TaskViews};

use super::column::{Column, Figure};
use super::reading::{Metric, Reading, Seen, Source, When};
use super::table::{OF_PATTERNS, TABLE};
use super::text;
use crate::text::identity::escape;

/// What was read of the tasks.
#[derive(Debug)]
pub(super) struct Tasks {
    sorts: Vec<(Sort, Vec<Row>)>,
    /// The labels that all series of a task begin with, one task after the other.
    labels: String,
    /// Where those of each task end.
    ends: Vec<usize>,
    /// What is not written yet of each metric of the table.
    columns: Vec<Column>,
}

/// Tasks that show the same metrics.
#[derive(Debug, PartialEq, Eq)]
struct Sort {
    kind: &'static str,
    of_pattern: bool,
    full: bool,
}

/// A metric by its place in the table, and how to get it.
type Row = (usize, &'static Reading<TaskView>);

impl Tasks {
    /// None was read.
    pub(super) fn new() -> Tasks {
        let columns = TABLE.iter().map(|_| Column::default()).collect();
        Tasks { sorts: Vec::new(), labels: String::new(), ends: Vec::new(), columns }
    }

    /// Whether any task may show this metric. Those of locks are described also where there are no
    /// tasks. Of a metric that all tasks show this is known before they were read.
    pub(super) fn show(&self, metric: &Metric) -> bool {
        let has = |kind| self.sorts.iter().any(|(sort, _)| sort.kind == kind);
        let is_of_them = metric
            .of_kind()
            .is_none_or(|kind| has(kind) || self.sorts.is_empty() && kind == "lock");
        is_of_them && (!metric.is_full() || self.sorts.iter().any(|(sort, _)| sort.full))
    }

    /// Writes what the tasks from `first` to `end` show of one metric, in their order. Returns
    /// whether later tasks may show it.
    pub(super) fn write(
        &mut self,
        (number, reading): Row,
        (tasks, when): (&TaskViews, When),
        (first, end): (usize, usize),
        out: &mut String,
    ) -> bool {
        self.read(tasks, end, when);
        let (Some(metric), Some(column)) = (TABLE.get(number), self.columns.get_mut(number)) else {
            return false;
        };
        let mut start = first.checked_sub(1).and_then(|at| self.ends.get(at)).copied().unwrap_or(0);
        for (at, end) in (first..end).zip(self.ends.iter().skip(first)) {
            let labels = self.labels.get(start..*end).unwrap_or_default();
            start = *end;
            match column.next() {
                Figure::Absent => {}
                Figure::Plain(number) => text::line(metric.name, labels, &[], number, out),
                Figure::Labelled => {
                    if let Some(task) = tasks.get(at) {
                        let seen = Seen::new(&**task, when);
                        text::write(metric.name, reading, labels, &seen, out);
                    }
                }
            }
        }
        let more = end < tasks.len() && (self.ends.len() < tasks.len() || !column.is_empty());
        if !more {
            *column = Column::default();
        }
        more
    }

    /// Reads the tasks before the position `end`.
    fn read(&mut self, tasks: &TaskViews, end: usize, when: When) {
        let mut before = self.ends.len().checked_sub(1).and_then(|before| tasks.get(before));
        for (at, task) in (self.ends.len()..end).filter_map(|at| Some((at, tasks.get(at)?))) {
            let rows = rows(&mut self.sorts, Sort::of(task));
            // Two that are alike would make the whole exposition invalid.
            if !before.is_some_and(|before| is_alike(before, task)) {
                let (name, store) =
                    (escape(task.spec.name.as_bytes()), escape(task.store.as_bytes()));
                text::labels([("task", &*name), ("store", &*store)], &mut self.labels);
                let seen = Seen::new(&**task, when);
                for (number, reading) in rows {
                    if let Some(column) = self.columns.get_mut(*number) {
                        column.add(at, Figure::of(reading, &seen));
                    }
                }
            }
            self.ends.push(self.labels.len());
            before = Some(task);
        }
    }
}

/// What tasks of a sort show.
fn rows(sorts: &mut Vec<(Sort, Vec<Row>)>, sort: Sort) -> &[Row] {
    let known = sorts.iter().position(|(known, _)| *known == sort);
    let at = known.unwrap_or_else(|| {
        let rows = sort.rows();
        sorts.push((sort, rows));
        sorts.len() - 1
    });
    sorts.get(at).map_or(&[], |(_, rows)| rows)
}

impl Sort {
    fn of(task: &TaskView) -> Sort {
        let spec = &task.spec;
        let of_pattern = spec.pattern.is_some();
        Sort { kind: spec.kind.name(), of_pattern, full: spec.full_metrics }
    }

    fn rows(&self) -> Vec<Row> {
        let shown = TABLE.iter().enumerate().filter(|(_, metric)| self.shows(metric));
        let rows = shown.filter_map(|(number, metric)| match &metric.source {
            Source::OfTask(reading) | Source::OfFullTask(reading) => Some((number, reading)),
            _ => None,
        });
        rows.collect()
    }

    fn shows(&self, metric: &Metric) -> bool {
        let is_shown = match self.of_pattern {
            true => OF_PATTERNS.contains(&metric.name),
            false => self.full || !metric.is_full(),
        };
        is_shown && metric.of_kind().is_none_or(|kind| kind == self.kind)
    }
}

fn is_alike(one: &TaskView, other: &TaskView) -> bool {
    one.spec.name == other.spec.name && one.store == other.store
}
