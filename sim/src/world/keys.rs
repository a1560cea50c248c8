//! The keys of a task, and the names of its workers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwatch_judge::spec::{KindSpec, TaskSpec, WantedSource};

use super::{Queues, Task, Turns, Worker};
use crate::plan::Plan;
use crate::rng::Rng;
use crate::truth::{Layout, Past};
use crate::world::Wanting;

/// A task's keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) lock: Arc<[u8]>,
    /// One for all users, or one per user.
    pub(crate) switches: Vec<Arc<[u8]>>,
    pub(crate) progress: Option<Arc<[u8]>>,
    pub(crate) claims: Option<Arc<[u8]>>,
    pub(crate) pause: Option<Arc<[u8]>>,
    /// The counter of the fencing tokens, beside the lock in its slot.
    pub(crate) token: Arc<[u8]>,
}

impl Keys {
    /// All keys except the lock.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Arc<[u8]>> {
        self.switches.iter().chain(&self.progress).chain(&self.claims).chain(&self.pause)
    }

    fn of(spec: &TaskSpec) -> Keys {
        let switches: Vec<Arc<[u8]>> = match spec.wanted.as_ref().map(|wanted| &wanted.source) {
            Some(WantedSource::Hash(key) | WantedSource::Set(key) | WantedSource::Counter(key)) => {
                vec![key.as_slice().into()]
            }
            Some(WantedSource::Keys(keys)) => {
                keys.iter().map(|key| key.as_slice().into()).collect()
            }
            Some(WantedSource::Always | WantedSource::Never) | None => Vec::new(),
        };
        let progress =
            spec.progress.as_ref().map(|progress| progress.source.key().as_slice().into());
        let guard: &[u8] = match &spec.kind {
            KindSpec::Lock(lock) => &lock.key,
            KindSpec::Turn(turn) => &turn.hash,
            KindSpec::Queue(queue) => &queue.zset,
        };
        Keys {
            lock: guard.into(),
            switches,
            progress,
            claims: spec.claims.as_ref().map(|claims| claims.key.as_slice().into()),
            pause: spec.paused_until.as_deref().map(Into::into),
            token: [b"redisson_lock_token:", guard].concat().into(),
        }
    }
}

impl Task {
    pub(super) fn new(plan: &Plan, task: usize) -> Task {
        let (spec, shape) = (&plan.spec.tasks[task], &plan.tasks[task]);
        let mut rng = Rng::new(plan.seed, 100 + task as u64);
        let layout = match &spec.kind {
            KindSpec::Turn(turn) => Layout::Turn(turn.unit),
            KindSpec::Lock(lock) if lock.library.as_str() == "redisson" => Layout::Redisson,
            KindSpec::Lock(_) => Layout::Text,
            KindSpec::Queue(_) => Layout::Queue,
        };
        Task {
            keys: Keys::of(spec),
            redisson: layout != Layout::Text,
            layout,
            workers: (0..shape.workers).map(|worker| Worker::new(task, worker)).collect(),
            wishes: (0..shape.users).map(|_| rng.percent(60)).collect(),
            wanting: vec![Wanting::default(); plan.servers],
            lost_switches: Vec::new(),
            past: vec![Past::default(); plan.servers],
            progress: 0,
            progress_at: 0,
            odd: None,
            odd_at: 0,
            was_huge: false,
            contends_at: None,
            claims: BTreeMap::new(),
            releases: VecDeque::new(),
            stations: super::guards::stations(plan, task),
            turns: shape.turns.as_ref().map(|turns| Turns::new(turns, plan.servers)),
            queues: shape.queue.as_ref().map(|queue| Queues::new(queue, plan.servers)),
            overruns: Vec::new(),
            failures: 0,
            ends: 0,
            chance: Rng::new(plan.seed, 300 + task as u64),
            rng,
        }
    }
}
