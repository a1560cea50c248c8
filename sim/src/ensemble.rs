//! The simulator of ensembles: the real watcher of ZooKeeper and the real state against virtual
//! servers that elect leaders, lag, lose their majority and go back in time, and against workers
//! and users. An oracle knows what is true.

mod clients;
mod coverage;
mod net;
mod oracle;
mod plan;
mod servers;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_judge::spec::WantedSource;

use self::clients::Clients;
pub use self::coverage::EnsembleCoverage;
use self::coverage::Seen;
use self::net::Agent;
use self::oracle::Oracle;
pub use self::plan::EnsemblePlan;
use self::plan::{Fault, WORKERS, Whom};
use self::servers::{Ensemble, LONELY_MS, Mode};
use crate::rng::Rng;

/// Something that comes later.
#[derive(Clone, Debug)]
enum Later {
    Fault(Fault),
    Worker(usize),
    /// A server comes back from its fault.
    Heal(usize, u64),
    /// A server without a majority notices that.
    Notices(usize),
    Elect,
    Join(usize),
    Unlag(usize),
    Unclose(usize),
    Uncut(usize),
    Thaw(usize, u64),
    /// Sessions expire, users who have forgotten their switches, and the oracle looks.
    Second,
}

/// The result of a run.
#[derive(Debug)]
pub struct EnsembleOutcome {
    /// What was wrong first, and when.
    pub violation: Option<(u64, String)>,
    /// What occurred.
    pub coverage: EnsembleCoverage,
    /// What really happened before the end.
    pub truth: Vec<String>,
}

struct World {
    plan: EnsemblePlan,
    now: u64,
    later: BTreeMap<(u64, u64), Later>,
    number: u64,
    ensemble: Ensemble,
    clients: Clients,
    agent: Agent,
    oracle: Oracle,
    coverage: EnsembleCoverage,
    rng: Rng,
    /// The newest fault of each server.
    faults: Vec<u64>,
    history: Vec<String>,
}

/// Runs `plan` until its end or its first violation.
pub fn run_ensemble(plan: &EnsemblePlan) -> EnsembleOutcome {
    let mut world = World::new(plan);
    while world.oracle.violation.is_none() && world.now < plan.length_ms {
        world.go_on();
    }
    let from = world.history.len().saturating_sub(25);
    let mut truth = world.history.split_off(from);
    for (task, truths) in world.clients.truths.iter().enumerate() {
        let from = truths.len().saturating_sub(6);
        truth.extend(truths[from..].iter().map(|truth| format!("t{task} {truth:?}")));
    }
    truth.extend(world.oracle.recent());
    EnsembleOutcome { violation: world.oracle.violation, coverage: world.coverage, truth }
}

impl World {
    fn new(plan: &EnsemblePlan) -> World {
        let names = plan.spec.tasks.iter().map(|task| {
            let library = task.lock().map(|lock| lock.library.as_str().to_owned());
            (task.name.to_string(), library.unwrap_or_default())
        });
        let mut world = World {
            now: 0,
            later: BTreeMap::new(),
            number: 0,
            ensemble: Ensemble::new(plan.servers),
            clients: Clients::new(names.collect(), plan.seed),
            agent: Agent::new(plan),
            oracle: Oracle::new(Arc::clone(&plan.spec)),
            coverage: EnsembleCoverage::default(),
            rng: Rng::new(plan.seed, 3),
            faults: vec![0; plan.servers],
            history: Vec::new(),
            plan: plan.clone(),
        };
        for (at, fault) in &plan.faults {
            world.later(*at, Later::Fault(fault.clone()));
        }
        (0..plan.spec.tasks.len() * WORKERS)
            .for_each(|worker| world.later(300, Later::Worker(worker)));
        world.later(1_000, Later::Second);
        world.clients.look(&world.ensemble, 0);
        world
    }

    fn later(&mut self, at: u64, later: Later) {
        self.number += 1;
        self.later.insert((at, self.number), later);
    }

    /// Does what comes next.
    fn go_on(&mut self) {
        let planned = self.later.keys().next().map_or(u64::MAX, |(at, _)| *at);
        self.now = planned.min(self.agent.next()).min(self.ensemble.next_change()).max(self.now);
        let now = self.now;
        for server in 0..self.plan.servers {
            for (link, frame) in self.ensemble.catch_up(server, now) {
                self.agent.announced(link, frame, now);
            }
        }
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= now) {
            let later = entry.remove();
            self.happens(later);
        }
        self.agent.act(&mut self.ensemble, &mut self.coverage, now);
        self.oracle.inputs(&mut self.agent, &self.clients, &mut self.coverage, now);
        // The next instant, unless something is still due in this one.
        if self.agent.next() <= now {
            self.now = now + 1;
        }
    }

    fn happens(&mut self, later: Later) {
        let now = self.now;
        match later {
            Later::Fault(fault) => {
                self.history.push(format!("{now}: {fault:?}"));
                self.strike(fault);
            }
            Later::Worker(worker) => {
                let next = self.clients.act(worker, &mut self.ensemble, now);
                self.later(next, Later::Worker(worker));
            }
            Later::Heal(server, fault) if self.faults[server] == fault => self.heal(server),
            Later::Thaw(server, fault) if self.faults[server] == fault => self.thaw(server),
            Later::Notices(server) => {
                if self.ensemble.servers[server].mode == Mode::Lonely {
                    self.set(server, Mode::Looks);
                }
                let ms = self.rng.within(200, 1_500);
                self.later(now + ms, Later::Join(server));
                self.later(now + ms, Later::Elect);
            }
            Later::Heal(..) | Later::Thaw(..) => {}
            Later::Elect => {
                if self.ensemble.elect(now) {
                    self.coverage.saw(Seen::Election);
                    self.clients.renewed(now);
                } else if self.ensemble.leader.is_none() {
                    self.later(now + 500, Later::Elect);
                }
            }
            Later::Join(server) => self.ensemble.join(server, now),
            Later::Unlag(server) => self.ensemble.servers[server].lag_ms = 2,
            Later::Unclose(server) => self.ensemble.servers[server].closes = false,
            Later::Uncut(server) => self.agent.cut[server] = false,
            Later::Second => self.second(),
        }
    }

    fn second(&mut self) {
        let now = self.now;
        self.later(now + 1_000, Later::Second);
        let before = self.clients.expired;
        self.clients.expire(&mut self.ensemble, now);
        (before..self.clients.expired).for_each(|_| self.coverage.saw(Seen::Expired));
        self.agent.expire(now);
        for task in 0..self.plan.spec.tasks.len() {
            let source = self.plan.spec.tasks[task].wanted.as_ref().map(|wanted| &wanted.source);
            let is_unset = self.clients.truths[task].last().is_none_or(|it| it.wanted.is_none());
            if matches!(source, Some(WantedSource::Hash(_))) && is_unset {
                self.clients.switch(task, true, &mut self.ensemble, now);
            }
        }
        self.agent.tick(now);
        let servers = self.ensemble.servers.iter();
        let is_well = self.ensemble.leader.is_some()
            && servers.clone().all(|it| it.mode == Mode::Serves && !it.is_cut && !it.closes)
            && servers.clone().all(|it| it.lag_ms < 100)
            && self.agent.cut.iter().all(|is_cut| !is_cut)
            && self.agent.paused_until <= now;
        self.oracle.second(is_well, &mut self.agent, &self.clients, &mut self.coverage, now);
    }

    fn set(&mut self, server: usize, mode: Mode) {
        self.ensemble.servers[server].mode = mode;
        self.history.push(format!("{}: server {server} {mode:?}", self.now));
        if matches!(mode, Mode::Looks | Mode::Dead) {
            self.agent.reset(server, self.now);
        }
    }

    fn number(&self, whom: Whom) -> usize {
        match whom {
            Whom::Leader => self.ensemble.leader.unwrap_or(0),
            Whom::Watched => self.agent.watched(),
            Whom::Number(number) => number,
        }
    }

    /// A server is out of reach of the others from now on. What is left of a majority elects
    /// another leader, and a server without one goes on for a while.
    fn lose(&mut self, server: usize, is_noticed_ms: u64) {
        let now = self.now;
        let was_leader = self.ensemble.leader == Some(server);
        let is_over = was_leader || !self.ensemble.commits();
        if self.ensemble.leader.is_some() && is_over {
            self.ensemble.leader = None;
            for other in 0..self.plan.servers {
                if self.ensemble.servers[other].mode == Mode::Serves {
                    self.set(other, Mode::Lonely);
                    self.later(now + is_noticed_ms, Later::Notices(other));
                }
            }
            self.later(now + is_noticed_ms + 300, Later::Elect);
        }
    }

    /// A fault begins that lasts for so long.
    fn fault(&mut self, server: usize, ms: u64) -> u64 {
        self.number += 1;
        self.faults[server] = self.number;
        self.later(self.now + ms, Later::Heal(server, self.number));
        self.number
    }

    fn heal(&mut self, server: usize) {
        self.ensemble.servers[server].is_cut = false;
        if self.ensemble.servers[server].mode != Mode::Serves {
            self.set(server, Mode::Looks);
            let (joins_ms, elects_ms) = (self.rng.within(100, 800), self.rng.within(200, 1_500));
            self.later(self.now + joins_ms, Later::Join(server));
            self.later(self.now + elects_ms, Later::Elect);
        }
    }

    /// A server that was stopped goes on. If it led, it takes a moment to learn that it does not.
    fn thaw(&mut self, server: usize) {
        let now = self.now;
        self.set(server, Mode::Lonely);
        self.agent.thawed(server, now);
        let past_ms = self.rng.within(300, 2_000);
        self.fault(server, past_ms);
    }

    fn kill(&mut self, server: usize, ms: u64) {
        self.ensemble.servers[server].is_cut = false;
        self.set(server, Mode::Dead);
        self.fault(server, ms);
        let is_noticed_ms = self.rng.within(10, 100);
        self.lose(server, is_noticed_ms);
    }

    fn strike(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::Kill(whom, ms) => self.kill(self.number(whom), ms),
            Fault::Majority(ms) => {
                for server in 1..self.plan.servers {
                    // The one that is left was the leader, or was not.
                    self.kill(server, ms + 100 * server as u64);
                }
                if self.plan.servers > 1 && self.ensemble.servers[0].mode == Mode::Looks {
                    self.later(now + ms, Later::Elect);
                }
            }
            Fault::Freeze(whom, ms) => {
                let server = self.number(whom);
                if !matches!(self.ensemble.servers[server].mode, Mode::Serves | Mode::Lonely) {
                    return;
                }
                self.set(server, Mode::Frozen);
                let fault = self.fault(server, ms + 60_000);
                self.later(now + ms, Later::Thaw(server, fault));
                let noticed_ms = self.rng.within(4_000, 10_000);
                self.lose(server, noticed_ms);
            }
            Fault::Partition(whom, ms) => {
                let server = self.number(whom);
                if self.plan.servers == 1 || self.ensemble.servers[server].mode != Mode::Serves {
                    return;
                }
                self.ensemble.servers[server].is_cut = true;
                self.fault(server, ms);
                let was_leader = self.ensemble.leader == Some(server);
                self.set(server, Mode::Lonely);
                let lonely_ms = self.rng.within(2_000, LONELY_MS);
                let noticed_ms = if was_leader { self.rng.within(100, 6_000) } else { 100 };
                self.lose(server, noticed_ms);
                self.later(now + lonely_ms, Later::Notices(server));
            }
            Fault::Lag(whom, lag_ms, ms) => {
                let server = self.number(whom);
                if self.ensemble.leader != Some(server) {
                    self.ensemble.servers[server].lag_ms = lag_ms;
                    self.later(now + ms, Later::Unlag(server));
                }
            }
            Fault::Close(whom, ms) => {
                let server = self.number(whom);
                self.ensemble.servers[server].closes = true;
                self.later(now + ms, Later::Unclose(server));
            }
            Fault::Reset(whom) => self.agent.reset(self.number(whom), now),
            Fault::Cut(whom, ms) => {
                let server = self.number(whom);
                self.agent.cut[server] = true;
                self.later(now + ms, Later::Uncut(server));
            }
            Fault::Restore(ago_ms) => self.restore(ago_ms),
            Fault::Rolling => {
                for server in 0..self.plan.servers {
                    let at = now + 6_000 * server as u64 + 1;
                    self.later(at, Later::Fault(Fault::Kill(Whom::Number(server), 2_500)));
                }
            }
            Fault::Pause(ms) => self.agent.paused_until = now + ms,
            Fault::Wall(ms) => self.agent.wall_step_ms += ms,
            Fault::Reload if self.agent.paused_until <= now => self.agent.reload(now),
            Fault::Reload => {}
            Fault::Worker(worker, ms) => self.clients.harm(worker, ms, now),
            Fault::Stuck(task, ms) => self.clients.stuck[task] = now + ms,
            Fault::Idle(task, ms) => self.clients.idle[task] = now + ms,
            Fault::Switch(task, on) => {
                let source = self.plan.spec.tasks[task].wanted.as_ref().map(|it| &it.source);
                if matches!(source, Some(WantedSource::Hash(_))) {
                    self.clients.switch(task, on, &mut self.ensemble, now);
                }
            }
        }
    }

    /// All servers end, and come back with older data.
    fn restore(&mut self, ago_ms: u64) {
        let now = self.now;
        self.coverage.saw(Seen::Restored);
        (0..self.plan.servers).for_each(|server| self.set(server, Mode::Dead));
        self.ensemble.restore(now.saturating_sub(ago_ms));
        for server in 0..self.plan.servers {
            self.set(server, Mode::Dead);
            self.fault(server, 1_500 + 200 * server as u64);
        }
        self.clients.restored(&self.ensemble, now);
        self.oracle.restored(now);
    }
}
