//! The table of tasks as it was sent, and the changes that a snapshot brings.

use std::sync::Arc;

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::AgentWall;
use lockwatch_judge::verdict::Verdict;

use crate::outputs::page::drill_of;
use crate::outputs::page::pulse::Pulse;
use crate::outputs::page::row::Row;

use crate::outputs::page::stores;
use crate::published::Published;

/// The state of the tasks as it was sent. Empty until the first snapshot.
#[derive(Default)]
pub(crate) struct Table {
    sequence: Option<u64>,
    at: AgentWall,
    /// Sorted by name.
    tasks: Vec<Shown>,
    /// The part about the stores, as markup.
    stores: String,
    /// What is said of the drill that runs.
    drill: Option<String>,
}

/// The state of a task as it was sent.
pub(crate) struct Shown {
    /// The newest view. While snapshots share it, nothing needs to be rendered.
    view: Arc<TaskView>,
    pub(super) row: Row,
    pub(super) pulse: Pulse,
}

/// The changes of a snapshot: positions in the table, in order, and names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// New or changed rows.
    pub(crate) rows: Vec<usize>,
    /// Rows of which only the pulse has changed.
    pub(crate) pulses: Vec<usize>,
    /// Tasks that are gone.
    pub(crate) gone: Vec<Arc<str>>,
    /// Whether the part about the stores has changed.
    pub(crate) stores: bool,
}

impl Table {
    /// The number of the newest snapshot.
    pub(crate) fn sequence(&self) -> Option<u64> {
        self.sequence
    }

    /// The agent's wall clock at the newest snapshot.
    pub(crate) fn at(&self) -> AgentWall {
        self.at
    }

    /// The part about the stores, as markup.
    pub(crate) fn stores(&self) -> &str {
        &self.stores
    }

    /// What is said of the drill that runs.
    pub(crate) fn drill(&self) -> Option<&str> {
        self.drill.as_deref()
    }

    pub(crate) fn get(&self, position: usize) -> Option<&Shown> {
        self.tasks.get(position)
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.tasks.binary_search_by(|shown| (**shown.name()).cmp(name)).ok()
    }

    /// Applies a snapshot. Changes below the threshold of [`Pulse::differs`] are ignored: the sent
    /// value stays.
    pub(crate) fn change(&mut self, published: &Published) -> Changes {
        let mut changes = Changes::default();
        let snapshot = &published.snapshot;
        let mut before =
            std::mem::replace(&mut self.tasks, Vec::with_capacity(snapshot.tasks.len()))
                .into_iter()
                .peekable();
        for view in &snapshot.tasks {
            while let Some(gone) = before.next_if(|shown| *shown.name() < view.spec.name) {
                changes.gone.push(Arc::clone(gone.name()));
            }
            let position = self.tasks.len();
            let shown = match before.next_if(|shown| *shown.name() == view.spec.name) {
                Some(shown) if Arc::ptr_eq(&shown.view, view) => shown,
                Some(shown) => shown.changed(published, view, position, &mut changes),
                None => {
                    changes.rows.push(position);
                    Shown::of(published, view)
                }
            };
            self.tasks.push(shown);
        }
        changes.gone.extend(before.map(|shown| Arc::clone(shown.name())));
        let mut html = String::with_capacity(self.stores.len());
        stores::write(&mut html, published);
        changes.stores = html != self.stores;
        (self.stores, self.drill) = (html, drill_of(published));
        (self.sequence, self.at) = (Some(snapshot.sequence), published.wall);
        changes
    }

    /// The positions of the worst tasks: at most `most`, in the order of the table.
    pub(crate) fn worst(&self, most: usize) -> Vec<usize> {
        let mut left = most;
        let mut quota = self.counts().map(|(_, count)| {
            let taken = count.min(left);
            left -= taken;
            taken
        });
        let mut is_taken = |shown: &Shown| match quota.get_mut(shown.view.verdict as usize) {
            Some(quota) if *quota > 0 => {
                *quota -= 1;
                true
            }
            _ => false,
        };
        self.tasks
            .iter()
            .enumerate()
            .filter_map(|(position, shown)| is_taken(shown).then_some(position))
            .collect()
    }

    /// How many tasks there are of each verdict, worst first.
    pub(crate) fn counts(&self) -> [(Verdict, usize); Verdict::ALL.len()] {
        let mut counts = Verdict::ALL.map(|verdict| (verdict, 0));
        for shown in &self.tasks {
            if let Some((_, count)) = counts.get_mut(shown.view.verdict as usize) {
                *count += 1;
            }
        }
        counts
    }
}

impl Shown {
    fn of(published: &Published, view: &Arc<TaskView>) -> Shown {
        Shown {
            view: Arc::clone(view),
            row: Row::of(published, view),
            pulse: Pulse::of(published, view),
        }
    }

    /// The same task with a new view.
    fn changed(
        self,
        published: &Published,
        view: &Arc<TaskView>,
        position: usize,
        changes: &mut Changes,
    ) -> Shown {
        let now = Shown::of(published, view);
        if now.row != self.row {
            changes.rows.push(position);
            now
        } else if now.pulse.differs(&self.pulse) {
            changes.pulses.push(position);
            Shown { row: self.row, ..now }
        } else {
            Shown { view: now.view, ..self }
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.view.spec.name
    }
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.pulses.is_empty() && self.gone.is_empty() && !self.stores
    }

    /// The tasks that they are about, sorted.
    pub(crate) fn names(&self, table: &Table) -> Vec<Arc<str>> {
        let present =
            self.rows.iter().chain(&self.pulses).filter_map(|position| table.get(*position));
        let mut names: Vec<Arc<str>> =
            present.map(Shown::name).chain(&self.gone).cloned().collect();
        names.sort();
        names
    }

    /// Those that are about this task.
    pub(crate) fn about(&self, table: &Table, name: &str) -> Changes {
        let its = |positions: &[usize]| match table.find(name) {
            Some(position) => {
                positions.binary_search(&position).map(|_| position).into_iter().collect()
            }
            None => Vec::new(),
        };
        let gone = self.gone.iter().filter(|gone| ***gone == *name).cloned().collect();
        Changes { rows: its(&self.rows), pulses: its(&self.pulses), gone, stores: false }
    }
}
