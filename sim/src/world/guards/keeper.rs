//! A model of the keeper of `src/keeper.rs` and of its script. Either the keeper or the guard kills
//! the script, whichever is able to.

use lockwatch_judge::time::Mono;

use crate::event::GuardJob;
use crate::world::state::{Did, How, Keeper, Script, World};

/// Longest time in milliseconds until a keeper notices that its time is over.
const NOTICES_MS: u64 = 20;
/// Time in milliseconds that the guard leaves to a keeper before it kills that as well.
const KEEPER_TAKES_MS: u64 = 200;

impl World {
    pub(super) fn start_script(&mut self, task: usize, host: usize, token: u64, dead_by: Mono) {
        let now = self.now;
        let world_task = &mut self.tasks[task];
        let (chance, station) = (&mut world_task.chance, &mut world_task.stations[host]);
        station.scripts += 1;
        let (life, script_number) = (station.life, station.scripts);
        // Most run for long; some fail soon.
        let ends_ms = match chance.below(100) {
            0..15 => chance.within(50, 3_000),
            15..35 => chance.within(3_000, 120_000),
            _ => chance.within(120_000, 3_600_000),
        };
        let code = u8::from(chance.percent(70));
        let script = Script { obeys: chance.percent(75), code, frozen_until: now };
        station.keepers.push(Keeper {
            life,
            script_number,
            is_alive: true,
            paused_until: now,
            dead_by,
            script: Some(script),
            owes_term: false,
            code: None,
        });
        if let Some(guard) = &mut station.guard {
            guard.parts.runs = true;
        }
        let alarm_at = station.clock.when(i64::try_from(dead_by.ms()).unwrap_or(i64::MAX));
        let late_ms = chance.below(NOTICES_MS);
        self.did(task, host, life, Did::Started { script: script_number, token });
        self.guard_later(task, host, life, ends_ms, GuardJob::Ends { script: script_number });
        let turn = GuardJob::Keeper { script: script_number };
        self.guard_at(task, host, life, (alarm_at + late_ms).max(now + 1), turn);
        self.parts_soon(task, host);
    }

    fn keeper(&mut self, task: usize, host: usize, script: u64) -> Option<&mut Keeper> {
        let keepers = &mut self.tasks[task].stations[host].keepers;
        keepers.iter_mut().find(|keeper| keeper.script_number == script)
    }

    /// The alarm of a keeper rings, or it continues after a pause, or its guard has ended.
    pub(super) fn keeper_wakes(&mut self, task: usize, host: usize, script: u64) {
        let now = self.now;
        let station = &self.tasks[task].stations[host];
        let (mono, life) = (station.mono(now), station.life);
        let has_guard = station.guard.is_some();
        let Some(keeper) = self.keeper(task, host, script).filter(|it| it.is_alive) else { return };
        let (of, dead_by) = (keeper.life, keeper.dead_by);
        if keeper.paused_until > now {
            let at = keeper.paused_until;
            return self.guard_at(task, host, of, at + 1, GuardJob::Keeper { script });
        }
        if keeper.script.is_none() {
            return self.keeper_says(task, host, script);
        }
        let owes_term = std::mem::take(&mut keeper.owes_term);
        if !has_guard || of != life {
            return self.keeper_kills(task, host, script, How::GuardGone);
        }
        if mono >= dead_by {
            return self.keeper_kills(task, host, script, How::Deadline);
        }
        if owes_term {
            self.ask_script_to_end(task, host);
        }
        let alarm_at = i64::try_from(dead_by.ms()).unwrap_or(i64::MAX);
        let alarm_at = self.tasks[task].stations[host].clock.when(alarm_at);
        let late_ms = self.tasks[task].chance.below(NOTICES_MS);
        self.guard_at(
            task,
            host,
            of,
            (alarm_at + late_ms).max(now + 1),
            GuardJob::Keeper { script },
        );
    }

    /// The script and all that came of it are gone.
    fn script_is_gone(&mut self, task: usize, host: usize, script: u64, how: How, code: u8) {
        let station = &self.tasks[task].stations[host];
        let keeper = station.keepers.iter().find(|keeper| keeper.script_number == script);
        let able_since = keeper.and_then(|keeper| station.able_since(keeper, self.now));
        let Some(keeper) = self.keeper(task, host, script) else { return };
        let life = keeper.life;
        if keeper.script.take().is_some() {
            keeper.code = (how != How::Deadline && how != How::GuardGone).then_some(code);
            self.tasks[task].ends += 1;
            self.tasks[task].failures += u64::from(how == How::Itself && code != 0);
            self.did(task, host, life, Did::Ended { script, how, able_since });
        }
    }

    fn keeper_kills(&mut self, task: usize, host: usize, script: u64, how: How) {
        self.script_is_gone(task, host, script, how, 137);
        self.keeper_says(task, host, script);
    }

    /// A keeper whose script is gone says so, and ends.
    fn keeper_says(&mut self, task: usize, host: usize, script: u64) {
        let Some(keeper) = self.keeper(task, host, script) else { return };
        let (life, code) = (keeper.life, keeper.code);
        self.forget_keeper(task, host, script);
        let (at, ms) = (self.now, self.tasks[task].chance.within(1, 5));
        self.guard_later(task, host, life, ms, GuardJob::Gone { code, at });
    }

    fn forget_keeper(&mut self, task: usize, host: usize, script: u64) {
        let keepers = &mut self.tasks[task].stations[host].keepers;
        keepers.retain(|keeper| keeper.script_number != script);
    }

    /// The script ends by itself.
    pub(super) fn script_ends(&mut self, task: usize, host: usize, script: u64) {
        let now = self.now;
        let Some(keeper) = self.keeper(task, host, script) else { return };
        let (life, is_alive, paused_until) = (keeper.life, keeper.is_alive, keeper.paused_until);
        let Some(running) = keeper.script else { return };
        if running.frozen_until > now {
            let at = running.frozen_until;
            return self.guard_at(task, host, life, at + 1, GuardJob::Ends { script });
        }
        self.script_is_gone(task, host, script, How::Itself, running.code);
        // A keeper that is paused says it later, and one that is dead does not.
        if is_alive && paused_until <= now {
            self.keeper_says(task, host, script);
        }
    }

    /// The guard has the keeper ask the script to end.
    pub(super) fn ask_script_to_end(&mut self, task: usize, host: usize) {
        let now = self.now;
        let station = &mut self.tasks[task].stations[host];
        let life = station.life;
        let keeper = station.keepers.iter_mut().find(|keeper| keeper.life == life);
        let Some(keeper) = keeper.filter(|keeper| keeper.is_alive) else { return };
        if keeper.paused_until > now {
            keeper.owes_term = true;
            return;
        }
        if keeper.script.is_some_and(|script| script.obeys) {
            let script = keeper.script_number;
            let ms = self.tasks[task].chance.within(1, 600);
            self.guard_later(task, host, life, ms, GuardJob::Ends { script });
        }
    }

    /// The guard kills, and has the keeper kill.
    pub(super) fn guard_kills(&mut self, task: usize, host: usize) {
        let now = self.now;
        let station = &self.tasks[task].stations[host];
        let life = station.life;
        let Some(keeper) = station.keepers.iter().find(|keeper| keeper.life == life) else {
            return;
        };
        let (script, is_able) =
            (keeper.script_number, keeper.is_alive && keeper.paused_until <= now);
        self.script_is_gone(task, host, script, How::Guard, 137);
        if is_able {
            return self.keeper_says(task, host, script);
        }
        // It is killed with the script, but later, and cannot say when the script was gone.
        self.forget_keeper(task, host, script);
        let gone = GuardJob::Gone { code: None, at: now + KEEPER_TAKES_MS };
        self.guard_later(task, host, life, KEEPER_TAKES_MS, gone);
    }

    /// The guard sees that its keeper has ended, and kills what is left.
    pub(super) fn keeper_is_gone(&mut self, task: usize, host: usize, script: u64) {
        let Some(keeper) = self.keeper(task, host, script) else { return };
        let life = keeper.life;
        self.script_is_gone(task, host, script, How::KeeperGone, 137);
        self.forget_keeper(task, host, script);
        let gone = GuardJob::Gone { code: None, at: self.now };
        self.guard_later(task, host, life, 1, gone);
    }
}
