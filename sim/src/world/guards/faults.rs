//! What happens to guards, keepers and scripts.

use lockwatch_guard::Input;

use crate::event::GuardJob;
use crate::plan::Act;
use crate::world::state::{Did, World};

impl World {
    pub(in crate::world) fn act_on_guards(&mut self, act: Act) {
        match act {
            Act::PauseGuard { task, ms } => {
                let host = self.busy_host(task);
                let world_task = &mut self.tasks[task];
                let guard = world_task.stations.get_mut(host).and_then(|it| it.guard.as_mut());
                match guard {
                    Some(guard) if world_task.chance.percent(50) => guard.pause_ms = Some(ms),
                    _ => self.pause_guard(task, host, ms),
                }
            }
            Act::PauseKeeper { task, ms } => {
                let host = self.busy_host(task);
                self.pause_keepers(task, host, ms);
            }
            Act::PauseBoth { task, script, ms } => {
                let host = self.busy_host(task);
                let until = self.now + ms;
                self.pause_guard(task, host, ms);
                self.pause_keepers(task, host, ms);
                if script && let Some(station) = self.tasks[task].stations.get_mut(host) {
                    let scripts = station.keepers.iter_mut().filter_map(|it| it.script.as_mut());
                    scripts.for_each(|script| script.frozen_until = until);
                }
            }
            Act::KillGuard { task, ms } => {
                let host = self.busy_host(task);
                // Without a keeper and without a guard nobody would be left to kill.
                let stations = self.tasks[task].stations.get(host);
                if stations.is_some_and(|it| it.keepers.iter().all(|keeper| keeper.is_alive)) {
                    self.end_guard(task, host, ms);
                }
            }
            Act::KillKeeper { task } => {
                let host = self.busy_host(task);
                self.kill_keeper(task, host);
            }
            Act::StopGuard { task } => {
                let (host, now) = (self.busy_host(task), self.now);
                let Some(station) = self.tasks[task].stations.get_mut(host) else { return };
                let mono = station.mono(now);
                let guard = station.guard.as_mut().filter(|guard| guard.paused_until <= now);
                if let Some(guard) = guard {
                    guard.machine.handle(mono, Input::Stop);
                    self.drive(task, host);
                }
            }
            Act::CutGuard { task, ms } => {
                let (host, until) = (self.busy_host(task), self.now + ms);
                if let Some(station) = self.tasks[task].stations.get_mut(host) {
                    station.network.cut_until = until;
                }
            }
            Act::LagGuard { task, each_way_ms, ms } => {
                let (host, until) = (self.busy_host(task), self.now + ms);
                if let Some(station) = self.tasks[task].stations.get_mut(host) {
                    (station.network.lags_until, station.network.each_way_ms) =
                        (until, each_way_ms);
                }
            }
            _ => {}
        }
    }

    /// The host on which a script runs, or else the first one with a guard.
    fn busy_host(&self, task: usize) -> usize {
        let stations = &self.tasks[task].stations;
        let runs = stations.iter().position(|station| {
            station.guard.is_some() && station.keepers.iter().any(|it| it.script.is_some())
        });
        runs.or(stations.iter().position(|it| it.guard.is_some())).unwrap_or(0)
    }

    fn pause_keepers(&mut self, task: usize, host: usize, ms: u64) {
        let until = self.now + ms;
        let Some(station) = self.tasks[task].stations.get_mut(host) else { return };
        let mut turns = Vec::new();
        for keeper in station.keepers.iter_mut().filter(|keeper| keeper.is_alive) {
            keeper.paused_until = keeper.paused_until.max(until);
            turns.push((keeper.life, keeper.script_number));
        }
        for (life, script) in turns {
            self.guard_at(task, host, life, until + 1, GuardJob::Keeper { script });
        }
    }

    /// Kills the keeper of the present guard.
    fn kill_keeper(&mut self, task: usize, host: usize) {
        let Some(station) = self.tasks[task].stations.get_mut(host) else { return };
        let life = station.life;
        if station.guard.is_none() {
            return;
        }
        let Some(keeper) = station.keepers.iter_mut().find(|keeper| keeper.life == life) else {
            return;
        };
        keeper.is_alive = false;
        let script = keeper.script_number;
        self.did(task, host, life, Did::KeeperDied { script });
        let ms = self.tasks[task].chance.within(1, 5);
        self.guard_later(task, host, life, ms, GuardJob::KeeperGone { script });
    }
}
