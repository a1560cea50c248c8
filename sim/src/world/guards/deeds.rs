//! What guards, keepers and workers really did, for the oracle.

use super::instance;
use crate::world::World;

/// Number of deeds that are kept for a while.
const KEPT: usize = 1_000;

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
    HeldAnew {
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
    Told {
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

impl World {
    pub(super) fn did(&mut self, task: usize, host: usize, life: u32, what: Did) {
        let deed = Deed { task, host, life, what };
        if self.deeds_before.len() >= KEPT {
            self.deeds_before.pop_front();
        }
        self.deeds_before.push_back((self.now, deed));
        self.deeds.push(deed);
    }

    /// Whether a guard that held the lock before began another hold within this time, and whether
    /// that is sure.
    pub(crate) fn held_anew(&self, task: usize, who: &[u8], from: u64, to: u64) -> Option<bool> {
        let within = self.deeds_before.iter().filter(|(at, _)| (from..=to).contains(at));
        let anew = within.filter_map(|(_, deed)| match deed.what {
            Did::HeldAnew { is_sure } if deed.task == task => Some((deed, is_sure)),
            _ => None,
        });
        let own = anew.filter(|(deed, _)| instance(task, deed.host, deed.life).as_bytes() == who);
        own.map(|(_, is_sure)| is_sure).min()
    }

    /// Whether this guard left its lock to itself not long ago.
    pub(crate) fn has_left(&self, task: usize, who: &[u8]) -> bool {
        self.deeds_before.iter().any(|(_, deed)| {
            let is_of = || instance(task, deed.host, deed.life).as_bytes() == who;
            deed.task == task && deed.what == Did::Left && is_of()
        })
    }

    /// When a guard that held the lock before last began another hold.
    pub(crate) fn held_anew_at(&self, task: usize) -> u64 {
        let mut lately = self.deeds_before.iter().rev();
        let newest =
            lately.find(|(_, deed)| deed.task == task && matches!(deed.what, Did::HeldAnew { .. }));
        newest.map_or(0, |(at, _)| *at)
    }
}
