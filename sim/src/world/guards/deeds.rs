//! What guards, keepers and workers really did, for the oracle.

use crate::world::state::{Deed, Did, World, instance};

/// Number of deeds that are kept for a while.
const KEPT: usize = 1_000;

impl World {
    pub(in crate::world) fn worker_took(&mut self, task: usize, server: usize) {
        if !self.tasks[task].stations.is_empty() {
            self.did(task, usize::MAX, 0, Did::WorkerTook { server });
        }
    }

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
    pub(crate) fn held_again(&self, task: usize, who: &[u8], from: u64, to: u64) -> Option<bool> {
        let within = self.deeds_before.iter().filter(|(at, _)| (from..=to).contains(at));
        let again = within.filter_map(|(_, deed)| match deed.what {
            Did::HeldAgain { is_sure } if deed.task == task => Some((deed, is_sure)),
            _ => None,
        });
        let own = again.filter(|(deed, _)| instance(task, deed.host, deed.life).as_bytes() == who);
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
    pub(crate) fn held_again_at(&self, task: usize) -> u64 {
        let mut lately = self.deeds_before.iter().rev();
        let newest = lately
            .find(|(_, deed)| deed.task == task && matches!(deed.what, Did::HeldAgain { .. }));
        newest.map_or(0, |(at, _)| *at)
    }
}
