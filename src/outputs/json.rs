//! What the agent says over HTTP, as JSON: [`crate::api`] filled from the snapshot, and written
//! piece by piece.

mod drill;
mod event;
mod filter;
mod lock;
mod pattern;
mod periodic;
mod queue;
mod store;
mod task;
mod turn;
mod values;
mod wire;

use std::sync::Arc;

pub use drill::drill;
pub use event::{event, event_id, events};
pub use filter::TaskFilter;
pub(in crate::outputs) use pattern::pattern;
pub(super) use task::{row, task as task_of};
pub use wire::text;

use crate::api::{self, OneTask};
use crate::published::Published;
use values::{agent, wall};
use wire::around;

/// Tasks per piece of the list: large enough to send efficiently, small enough to render at once.
const TASKS_PER_PIECE: usize = 8;

/// The body of `/api/v1/tasks`: the tasks that match, and all stores. It comes in pieces, so that a
/// long list is never in memory as a whole.
pub struct TaskList {
    published: Arc<Published>,
    filter: TaskFilter,
    next: Piece,
}

enum Piece {
    Head,
    /// The tasks from this one on. `first`: none was written yet.
    Tasks {
        from: usize,
        first: bool,
    },
    End,
}

impl TaskList {
    /// The list of the tasks in `published` that match `filter`.
    pub fn new(published: Arc<Published>, filter: TaskFilter) -> TaskList {
        TaskList { published, filter, next: Piece::Head }
    }

    /// What surrounds the tasks.
    fn around(&self, stores: Vec<api::Store>, patterns: Vec<api::Pattern>) -> (String, String) {
        let drill = self.published.drill.as_deref().map(drill);
        around(
            &api::TaskList {
                at: wall(self.published.wall),
                sequence: self.published.snapshot.sequence,
                version: env!("CARGO_PKG_VERSION").into(),
                tasks: Vec::new(),
                stores,
                patterns,
                drill,
            },
            "tasks",
        )
    }

    /// The next tasks that match, and where to continue; `None` if there are none.
    fn tasks(&self, from: usize, first: bool) -> Option<(String, usize)> {
        let all = self.published.snapshot.tasks.iter().enumerate().skip(from);
        let fitting = all.filter(|(_, view)| self.filter.fits(view)).take(TASKS_PER_PIECE);
        let (mut tasks, mut last) = (String::new(), None);
        for (at, view) in fitting {
            if !first || last.is_some() {
                tasks.push(',');
            }
            tasks.push_str(&text(&task::task(&self.published, view)));
            last = Some(at);
        }
        Some((tasks, last? + 1))
    }

    fn tail(&self) -> String {
        let stores = self.published.snapshot.stores.iter();
        let stores = stores.map(|view| store::store(&self.published, view)).collect();
        self.around(stores, self.published.patterns.iter().map(pattern).collect()).1
    }
}

impl Iterator for TaskList {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (piece, next) = match self.next {
            Piece::Head => {
                (self.around(Vec::new(), Vec::new()).0, Piece::Tasks { from: 0, first: true })
            }
            Piece::Tasks { from, first } => match self.tasks(from, first) {
                Some((tasks, from)) => (tasks, Piece::Tasks { from, first: false }),
                None => (self.tail(), Piece::End),
            },
            Piece::End => return None,
        };
        self.next = next;
        Some(piece)
    }
}

/// The body of `/api/v1/tasks/<name>`; `None` if there is no task called `name`.
pub fn task(published: &Published, name: &str) -> Option<OneTask> {
    let view = published.snapshot.tasks.find(name)?;
    let renewals = view.lock().into_iter().flat_map(|lock| lock.renewals.iter());
    let renewals = renewals.map(|at| agent(published, at)).collect();
    let task = api::Task { renewals: Some(renewals), ..task::task(published, view) };
    Some(OneTask { at: wall(published.wall), sequence: published.snapshot.sequence, task })
}
