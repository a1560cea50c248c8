//! What a seed expands to: an ensemble, its tasks, and what happens to both.

use std::sync::Arc;

use lockwatch_judge::spec::{
    Authority, Codec, LockSpec, Moves, ProgressSource, ProgressSpec, StoreIndex, StoreSpec,
    TaskSpec, WantedSource, WantedSpec, WatchSpec,
};

use crate::rng::Rng;

/// Something that happens to the ensemble, the agent or a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A server is killed and comes back.
    Kill(Whom, u64),
    /// A server is stopped (SIGSTOP) and goes on.
    Freeze(Whom, u64),
    /// A server loses the others, and the agent reaches all.
    Partition(Whom, u64),
    /// All servers but one are killed.
    Majority(u64),
    /// A server applies what is committed so much later.
    Lag(Whom, u64, u64),
    /// A server closes each new connection at once.
    Close(Whom, u64),
    /// The agent's connections to a server are reset.
    Reset(Whom),
    /// What is sent between the agent and a server is lost.
    Cut(Whom, u64),
    /// All servers come back with the data of so long ago.
    Restore(u64),
    /// Each server is restarted, one after the other.
    Rolling,
    /// The agent's process is stopped.
    Pause(u64),
    /// The agent's wall clock steps.
    Wall(i64),
    /// The agent's configuration is loaded again.
    Reload,
    /// A worker's process is killed, or stopped for so long. Another one comes later.
    Worker(usize, Option<u64>),
    /// The work of a task stands still for so long.
    Stuck(usize, u64),
    /// Nobody takes the lock of a task for so long.
    Idle(usize, u64),
    /// A user switches a task on or off.
    Switch(usize, bool),
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    /// The one that leads.
    Leader,
    /// The one that the agent's oldest connection goes to.
    Watched,
    /// By its number.
    Number(usize),
}

/// What a seed expands to.
#[derive(Clone, Debug)]
pub struct EnsemblePlan {
    pub(crate) seed: u64,
    pub(crate) length_ms: u64,
    pub(crate) servers: usize,
    pub(crate) spec: Arc<WatchSpec>,
    pub(crate) faults: Vec<(u64, Fault)>,
}

/// Processes that contend for each lock.
pub(crate) const WORKERS: usize = 2;

impl EnsemblePlan {
    /// Expands `seed` to so many virtual minutes.
    pub fn new(seed: u64, minutes: u64) -> EnsemblePlan {
        let mut rng = Rng::new(seed, 1);
        let servers = rng.weighted(&[(2, 1), (10, 3), (3, 5)]).unwrap_or(3);
        let count = rng.within(2, 4) as usize;
        let tasks: Vec<_> = (0..count).map(|task| Arc::new(draw_task(task, &mut rng))).collect();
        let addresses: Vec<String> =
            (0..servers).map(|server| format!("zk{server}:2181")).collect();
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let stores = vec![StoreSpec::new("zk", Authority::ENSEMBLE, &addresses)];
        let spec = Arc::new(WatchSpec { stores, tasks, epoch: 1 });
        let length_ms = minutes * 60_000;
        let mut faults = Vec::new();
        let mut at = 20_000;
        while at < length_ms {
            faults.push((at, draw_fault(servers, count, &mut rng)));
            // Some faults come while others last, and some times are calm.
            at += rng
                .weighted(&[(3, 3_000), (5, 25_000), (3, 90_000)])
                .map_or(1, |ms| rng.within(500, ms));
        }
        EnsemblePlan { seed, length_ms, servers, spec, faults }
    }

    /// The same with only these of its faults.
    #[must_use]
    pub fn keeping(&self, kept: &[usize]) -> EnsemblePlan {
        let faults = kept.iter().filter_map(|position| self.faults.get(*position).cloned());
        EnsemblePlan { faults: faults.collect(), ..self.clone() }
    }

    /// So many things happen.
    pub fn len(&self) -> usize {
        self.faults.len()
    }

    /// Whether nothing happens.
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// What happens, for display.
    pub fn fault(&self, position: usize) -> String {
        self.faults.get(position).map_or(String::new(), |fault| format!("{fault:?}"))
    }
}

fn draw_task(task: usize, rng: &mut Rng) -> TaskSpec {
    let name = format!("t{task}");
    let recipe = rng.weighted(&[(1, "kazoo"), (1, "curator"), (1, "plain")]).unwrap_or("plain");
    let lock =
        LockSpec { never_expires: true, ..LockSpec::new(format!("/{name}").as_bytes(), recipe) };
    let wanted = match rng.below(4) {
        0 => None,
        1 => Some(WantedSource::Always),
        _ => Some(WantedSource::Hash(format!("/w/{name}").into_bytes())),
    };
    let progress = rng.percent(40).then(|| {
        Box::new(ProgressSpec {
            source: ProgressSource::Key(format!("/p/{name}").into_bytes()),
            moves: Some(Moves::Value),
            stale_after_ms: rng.within(10, 40) * 1_000,
        })
    });
    TaskSpec {
        wanted: wanted.map(|source| WantedSpec { source, codec: Codec::Raw }),
        progress,
        grace_ms: rng.within(3, 25) * 1_000,
        settle_ms: rng.within(1, 5) * 1_000,
        wind_down_ms: 10_000,
        ..TaskSpec::new(&name, StoreIndex(0), lock)
    }
}

fn draw_fault(servers: usize, tasks: usize, rng: &mut Rng) -> Fault {
    let number = Whom::Number(rng.index(servers));
    let whom =
        rng.weighted(&[(2, Whom::Leader), (2, Whom::Watched), (2, number)]).unwrap_or(number);
    let task = rng.index(tasks);
    let ms = rng.within(300, 25_000);
    match rng.below(40) {
        0..=2 => Fault::Kill(whom, ms),
        3..=6 => Fault::Freeze(whom, ms),
        7..=11 => Fault::Partition(whom, ms),
        12 => Fault::Majority(ms),
        13..=14 => Fault::Lag(whom, rng.within(20, 6_000), ms),
        15 => Fault::Close(whom, ms),
        16 => Fault::Reset(whom),
        17 => Fault::Cut(whom, ms),
        18 => Fault::Restore(rng.within(5_000, 60_000)),
        19 => Fault::Rolling,
        20 => Fault::Pause(rng.within(300, 20_000)),
        21 => Fault::Wall(rng.within(0, 7_200_000) as i64 - 3_600_000),
        22 => Fault::Reload,
        23..=26 => {
            let ms = rng.percent(50).then_some(ms);
            Fault::Worker(task * WORKERS + rng.index(WORKERS), ms)
        }
        27..=29 => Fault::Stuck(task, rng.within(5_000, 90_000)),
        30..=33 => Fault::Idle(task, rng.within(2_000, 60_000)),
        _ => Fault::Switch(task, rng.percent(60)),
    }
}
