//! Tasks and events as JSON: stable names, base units, instants in RFC 3339. What is not known is
//! `null`.

mod event;
mod filter;
mod part;
mod servers;
mod task;
mod wire;

use std::sync::Arc;

use lockwatch_model::snapshot::TaskView;
use serde::Serialize;

pub use event::{event, event_id, events};
pub use filter::TaskFilter;
pub use wire::text;

use crate::published::Published;
use part::{agent, wall};
use servers::{RedisJson, redis_json};
use task::{TaskJson, task_json};

/// Tasks per piece of the list: enough to be worth sending, few enough to be written at once.
const TASKS_PER_PIECE: usize = 8;

/// The tasks that fit, and all redises, as `/api/v1/tasks` tells them, in pieces, so that a long
/// list is never held whole.
pub struct TaskList {
    published: Arc<Published>,
    filter: TaskFilter,
    next: Piece,
}

enum Piece {
    Head,
    /// Tasks from this one on; `first`: none was written yet.
    Tasks {
        from: usize,
        first: bool,
    },
    End,
}

impl TaskList {
    /// The list of what is in `published` and fits `filter`.
    pub fn new(published: Arc<Published>, filter: TaskFilter) -> TaskList {
        TaskList { published, filter, next: Piece::Head }
    }

    fn head(&self) -> String {
        let at = text(&wall(self.published.wall));
        let (sequence, version) = (self.published.snapshot.sequence, env!("CARGO_PKG_VERSION"));
        format!("{{\"at\":{at},\"sequence\":{sequence},\"version\":\"{version}\",\"tasks\":[")
    }

    /// The next tasks that fit, and where to go on; `None` if there are none.
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
        let redises: Vec<RedisJson<'_>> =
            self.published.snapshot.redises.iter().map(|view| redis_json(view)).collect();
        format!("],\"redises\":{}}}", text(&redises))
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

/// The task called `name`, as `/api/v1/tasks/<name>` tells it; `None` if there is none.
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

/// A task with what would make the list of all tasks too long.
#[derive(Serialize)]
struct WholeTaskJson<'a> {
    #[serde(flatten)]
    task: TaskJson<'a>,
    /// When the newest renewals landed, agent's clock, oldest first.
    renewals: Vec<String>,
}

fn renewals(published: &Published, view: &TaskView) -> Vec<String> {
    view.renewals.iter().filter_map(|at| agent(published, *at)).collect()
}
