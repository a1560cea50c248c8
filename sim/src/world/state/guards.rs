//! The hosts with guards: processes, keepers and scripts, and what they did.

use std::collections::VecDeque;
use std::sync::Arc;

use lockwatch_guard::{Action, Guard, Runs};
use lockwatch_judge::time::Mono;

use crate::plan::Plan;
use crate::rng::Rng;
use crate::server::Clock;

/// Largest deviation of a host's clock, in millionths: a fifth of the margin that guards keep.
const DRIFT_PPM: u64 = 20_000;

/// A host on which a guard of one task runs.
#[derive(Debug)]
pub(crate) struct Station {
    /// The clock that goes on while the host sleeps.
    pub(in crate::world) clock: Clock,
    /// Number of guard processes so far.
    pub(crate) life: u32,
    /// The present guard; `None`: it does not run.
    pub(crate) guard: Option<Process>,
    /// The keepers whose script may run: that of the present guard, and those of earlier guards
    /// that could not kill yet.
    pub(crate) keepers: Vec<Keeper>,
    pub(crate) network: Network,
    /// Number of scripts so far.
    pub(in crate::world) scripts: u64,
}

/// The process of a guard.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) instance: Arc<[u8]>,
    pub(crate) began: u64,
    pub(crate) paused_until: u64,
    /// A pause in milliseconds that begins right after its next request, so that the answer is read
    /// late.
    pub(in crate::world) pause_ms: Option<u64>,
    pub(in crate::world) machine: Guard,
    pub(in crate::world) wake_at: Option<u64>,
    pub(in crate::world) client: Client,
    pub(in crate::world) parts: Parts,
}

/// The network of one host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Network {
    pub(crate) cut_until: u64,
    pub(crate) lags_until: u64,
    pub(crate) each_way_ms: u64,
}

/// The requests of one guard process.
#[derive(Debug, Default)]
pub(in crate::world) struct Client {
    /// Number of requests so far.
    pub(in crate::world) number: u64,
    pub(in crate::world) in_flight: Option<Action>,
    pub(in crate::world) queue: VecDeque<Action>,
    /// The server to which it is connected, and that server's process.
    pub(in crate::world) server: Option<(usize, u64)>,
    /// The connection that hears of changes, and when it was last found broken.
    pub(in crate::world) hears: Option<(usize, u64)>,
    pub(in crate::world) deaf_since: u64,
    /// Number of the present hold: one more after each request to give the lock back.
    pub(in crate::world) hold: u64,
    /// The server and the hold for which it got the lock last.
    pub(in crate::world) got: Option<(usize, u64)>,
    /// The highest token that it knows. A counter that was lost goes on above it.
    pub(in crate::world) newest_token: u64,
}

/// The part of a guard process that reads switches and writes what agents read.
#[derive(Debug, Default)]
pub(in crate::world) struct Parts {
    /// Whether the script runs.
    pub(in crate::world) runs: bool,
    /// The turn that is planned, and when.
    pub(in crate::world) number: u64,
    pub(in crate::world) due_at: Option<u64>,
    /// It waits for an answer until then.
    pub(in crate::world) waits_until: u64,
    pub(in crate::world) claim_at: Option<u64>,
    pub(in crate::world) reported_until: u64,
    /// The runs that were written.
    pub(in crate::world) written: Runs,
    /// Overruns to report, as token and milliseconds.
    pub(in crate::world) overruns: VecDeque<(u64, u64)>,
}

/// A keeper with its script.
#[derive(Debug)]
pub(crate) struct Keeper {
    /// The guard process that started it.
    pub(crate) life: u32,
    pub(crate) script_number: u64,
    pub(crate) is_alive: bool,
    pub(crate) paused_until: u64,
    /// The deadline on the host's clock.
    pub(in crate::world) dead_by: Mono,
    /// The script; `None`: it is gone, and the guard does not know that yet.
    pub(crate) script: Option<Script>,
    /// It was to ask the script to end while it was paused.
    pub(in crate::world) owes_term: bool,
    pub(in crate::world) code: Option<u8>,
}

/// A script that runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script {
    /// It ends when it is asked to.
    pub(in crate::world) obeys: bool,
    pub(in crate::world) code: u8,
    pub(in crate::world) frozen_until: u64,
}

/// What a guard, its keeper or a worker really did.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deed {
    pub(crate) task: usize,
    pub(crate) host: usize,
    /// The guard process.
    pub(crate) life: u32,
    pub(crate) what: Did,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Did {
    /// The store gave it the lock, or renewed it, until this true instant.
    Leased {
        server: usize,
        until: u64,
        token: Option<u64>,
    },
    /// With its newest lease a later hold of the same guard began. Not `is_sure`: on a server that
    /// may have known either hold before.
    HeldAgain {
        is_sure: bool,
    },
    /// The store took its lock back.
    GaveBack,
    /// The store shortened the lease of its lock, which it never renews again.
    Left,
    /// A worker that is no guard took the lock on this server.
    WorkerTook {
        server: usize,
    },
    Started {
        script: u64,
        token: u64,
    },
    /// `able_since`: since when guard or keeper could have killed it; `None`: neither could.
    Ended {
        script: u64,
        how: How,
        able_since: Option<u64>,
    },
    /// A keeper was killed.
    KeeperDied {
        script: u64,
    },
    /// The guard learns that something has changed.
    Heard,
    /// The guard says that a script ran on.
    Reported {
        token: u64,
    },
    /// That is in the hash of claims.
    Written {
        token: u64,
    },
    /// The guard process has ended.
    Died,
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum How {
    /// By itself, or because it was asked to.
    Itself,
    /// Its keeper killed it at the deadline.
    Deadline,
    /// Its keeper killed it because the guard was gone.
    GuardGone,
    /// The guard killed it because the keeper was gone.
    KeeperGone,
    /// The guard wanted it.
    Guard,
}

/// The instance of a guard process in its lock and its claim.
pub(in crate::world) fn instance(task: usize, host: usize, life: u32) -> String {
    format!("fade0000-{task:04x}-4000-8000-{host:04x}{life:08x}")
}

/// The hosts of a task.
pub(super) fn stations(plan: &Plan, task: usize) -> Vec<Station> {
    let mut rng = Rng::new(plan.seed, 200 + task as u64);
    let station = |_| {
        let offset = i64::try_from(rng.below(1_000_000)).unwrap_or(0);
        let drift = i64::try_from(rng.below(2 * DRIFT_PPM)).unwrap_or(0);
        Station {
            clock: Clock::new(offset, drift - i64::try_from(DRIFT_PPM).unwrap_or(0)),
            life: 0,
            guard: None,
            keepers: Vec::new(),
            network: Network::default(),
            scripts: 0,
        }
    };
    (0..plan.tasks[task].guards.map_or(0, |it| it.guards)).map(station).collect()
}

impl Station {
    pub(in crate::world) fn mono(&self, now: u64) -> Mono {
        Mono::at(u64::try_from(self.clock.at(now)).unwrap_or(0))
    }

    /// Whether a script runs here, of another guard process than `instance`.
    pub(crate) fn runs_another(&self, instance: &[u8]) -> bool {
        let is_own = self.guard.as_ref().is_some_and(|guard| *guard.instance == *instance);
        self.keepers
            .iter()
            .any(|keeper| keeper.script.is_some() && !(is_own && keeper.life == self.life))
    }

    /// Since when guard or keeper has been able to kill a script; `None`: neither is.
    pub(crate) fn able_since(&self, keeper: &Keeper, now: u64) -> Option<u64> {
        let guard = self.guard.as_ref().filter(|_| keeper.life == self.life);
        let of_guard = guard.map(|guard| guard.paused_until);
        let of_keeper = keeper.is_alive.then_some(keeper.paused_until);
        [of_guard, of_keeper].into_iter().flatten().filter(|since| *since <= now).min()
    }
}

impl Network {
    /// Whether nothing delays or loses what a guard sends.
    pub(crate) fn is_good(&self, now: u64) -> bool {
        self.cut_until <= now && self.lags_until <= now
    }
}
