//! A task: its keys, and everything around its lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwatch_judge::spec::{KindSpec, TaskSpec, WantedSource};

use super::guards::{Station, stations};
use super::queue::Queues;
use super::runs::Runs;
use super::turns::Turns;
use super::worker::Worker;
use crate::plan::Plan;
use crate::request::{Says, Switches};
use crate::rng::Rng;
use crate::truth::{Layout, Past};

/// One task.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) keys: Keys,
    pub(crate) redisson: bool,
    pub(crate) layout: Layout,
    pub(crate) workers: Vec<Worker>,
    /// The real wish of each user, whatever the switches say.
    pub(crate) wishes: Vec<bool>,
    /// The switches in each server's data, and since when.
    pub(crate) wanting: Vec<Wanting>,
    pub(crate) lost_switches: Vec<LostSwitches>,
    /// The lock on each server.
    pub(crate) past: Vec<Past>,
    pub(crate) progress: u64,
    /// When the progress last moved.
    pub(crate) progress_at: u64,
    /// The fault during which the key contains malformed data.
    pub(crate) odd: Option<u64>,
    /// When the key last contained malformed data.
    pub(crate) odd_at: u64,
    /// The key has been larger than an agent reads.
    pub(crate) was_huge: bool,
    pub(crate) contends_at: Option<u64>,
    /// Each instance's claims.
    pub(crate) claims: BTreeMap<Vec<u8>, Claiming>,
    /// Releases of the lock: by whom, on which server, and when.
    pub(crate) releases: VecDeque<Release>,
    /// The hosts with its guards.
    pub(crate) stations: Vec<Station>,
    /// Those that take turns, instead of workers.
    pub(crate) turns: Option<Turns>,
    /// A queue of delayed tasks.
    pub(crate) queues: Option<Queues>,
    /// What starts its runs, if it is periodic.
    pub(crate) runs: Option<Runs>,
    /// The guards that reported an overrun in their claim.
    pub(crate) overruns: Vec<Vec<u8>>,
    /// Number of scripts under guards that ended by themselves with an error.
    pub(crate) failures: u64,
    /// How often it ended, for whatever reason.
    pub(crate) ends: u64,
    /// Chance in what guards do.
    pub(crate) chance: Rng,
    pub(crate) rng: Rng,
}

/// A release of a lock by its holder.
#[derive(Clone, Debug)]
pub(crate) struct Release {
    pub(crate) at: u64,
    #[allow(dead_code, reason = "for looking at a run by hand")]
    pub(crate) server: usize,
    pub(crate) who: Vec<u8>,
}

/// Times at which an instance wrote its claims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claiming {
    /// The first one; it starts again after a pause of `CLAIM_RESTS_MS`.
    pub(crate) first: u64,
    pub(crate) newest: u64,
    /// Since when the pauses between two were short; `NEVER`: it was removed.
    pub(crate) steady: u64,
    /// The newest one written while another instance worked, too.
    pub(crate) parts: Option<u64>,
}

/// The switches in one server's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanting {
    pub(crate) says: Says,
    /// All existing switches; `None` when there are none to read.
    pub(crate) switches: Option<Arc<Switches>>,
    /// Since when they are so.
    pub(crate) since: u64,
    /// When any switch was last written.
    pub(crate) written: u64,
}

/// The users whose "on" a server lost in a restart.
#[derive(Clone, Debug)]
pub(crate) struct LostSwitches {
    pub(crate) at: u64,
    pub(crate) server: usize,
    pub(crate) users: Vec<Vec<u8>>,
}

/// A task's keys.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub(crate) lock: Arc<[u8]>,
    /// One for all users, or one per user.
    pub(crate) switches: Vec<Arc<[u8]>>,
    pub(crate) progress: Option<Arc<[u8]>>,
    pub(crate) claims: Option<Arc<[u8]>>,
    pub(crate) pause: Option<Arc<[u8]>>,
    /// The counter of the fencing tokens, in the slot of the lock.
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
    pub(in crate::world) fn new(plan: &Plan, task: usize) -> Task {
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
            stations: stations(plan, task),
            turns: shape.turns.as_ref().map(|turns| Turns::new(turns, plan.servers)),
            queues: shape.queue.as_ref().map(|queue| Queues::new(queue, plan.servers)),
            runs: shape.runs.as_ref().map(Runs::new),
            overruns: Vec::new(),
            failures: 0,
            ends: 0,
            chance: Rng::new(plan.seed, 300 + task as u64),
            rng,
        }
    }
}
