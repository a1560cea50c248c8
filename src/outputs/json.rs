//! Tasks and events as JSON: stable names, base units, instants in RFC 3339. Unknown values are
//! `null`.

mod event;
mod filter;
mod lock;
mod part;
mod problems;
mod queue;
mod servers;
mod task;
mod turn;
mod wire;

use std::sync::Arc;

use lockwatch_judge::snapshot::TaskView;
use serde::Serialize;

pub use event::{event, event_id, events};
pub use filter::TaskFilter;
pub use wire::text;

use crate::published::Published;
use part::{agent, wall};
use servers::{RedisJson, redis_json};
use task::{TaskJson, task_json};

/// Tasks per piece of the list: large enough to send efficiently, small enough to render at once.
const TASKS_PER_PIECE: usize = 8;

/// The body of `/api/v1/tasks`: the tasks that match, and all Redis stores. It comes in pieces, so
/// that a long list is never in memory as a whole.
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

    fn head(&self) -> String {
        let at = text(&wall(self.published.wall));
        let (sequence, version) = (self.published.snapshot.sequence, env!("CARGO_PKG_VERSION"));
        format!("{{\"at\":{at},\"sequence\":{sequence},\"version\":\"{version}\",\"tasks\":[")
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
            tasks.push_str(&text(&task_json(&self.published, view)));
            last = Some(at);
        }
        Some((tasks, last? + 1))
    }

    fn redises(&self) -> String {
        let redises: Vec<RedisJson<'_>> = self
            .published
            .snapshot
            .stores
            .iter()
            .map(|view| redis_json(&self.published, view))
            .collect();
        format!("],\"stores\":{}}}", text(&redises))
    }
}

impl Iterator for TaskList {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let (piece, next) = match self.next {
            Piece::Head => (self.head(), Piece::Tasks { from: 0, first: true }),
            Piece::Tasks { from, first } => match self.tasks(from, first) {
                Some((tasks, from)) => (tasks, Piece::Tasks { from, first: false }),
                None => (self.redises(), Piece::End),
            },
            Piece::End => return None,
        };
        self.next = next;
        Some(piece)
    }
}

/// The body of `/api/v1/tasks/<name>`; `None` if there is no task called `name`.
pub fn task(published: &Published, name: &str) -> Option<impl Serialize> {
    let view = published.snapshot.tasks.find(name)?;
    Some(OneTask {
        at: wall(published.wall),
        sequence: published.snapshot.sequence,
        task: WholeTaskJson {
            task: task_json(published, view),
            renewals: renewals(published, view),
        },
    })
}

#[derive(Serialize)]
struct OneTask<'a> {
    at: Option<String>,
    sequence: u64,
    task: WholeTaskJson<'a>,
}

/// A task with the details that would make the list of all tasks too long.
#[derive(Serialize)]
struct WholeTaskJson<'a> {
    #[serde(flatten)]
    task: TaskJson<'a>,
    /// When the newest renewals happened, by the agent's clock, oldest first.
    renewals: Vec<String>,
}

fn renewals(published: &Published, view: &TaskView) -> Vec<String> {
    let renewals = view.lock().map(|lock| &*lock.renewals).unwrap_or_default();
    renewals.iter().filter_map(|at| agent(published, *at)).collect()
}
