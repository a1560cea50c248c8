//! Checks what guards promise, against the truth and whatever agents see: no two scripts of a task
//! run, each script is dead when its lease is over, what cannot be promised ends at once and is
//! reported, and a wanted task runs again in time.

mod facts;
mod lease;
mod promptly;

use super::state::Violation;
use crate::coverage::{Coverage, Seen};
use crate::plan::Plan;
use crate::world::{Deed, Did, World};
use facts::{Facts, Run, WAKE_MS, Wrong};
use lease::Lease;

/// Pause between two looks at everything, in milliseconds.
const LOOK_EVERY_MS: u64 = 1_000;

/// Checks the guards of all tasks.
#[derive(Debug)]
pub(crate) struct Scripts {
    tasks: Vec<Facts>,
    looked_at: u64,
    has_guards: bool,
    pub(crate) violations: Vec<Violation>,
}

impl Scripts {
    pub(crate) fn new(plan: &Plan) -> Scripts {
        Scripts {
            tasks: plan.tasks.iter().map(|_| Facts::default()).collect(),
            looked_at: 0,
            has_guards: plan.has_guards(),
            violations: Vec::new(),
        }
    }

    /// Takes in what guards did in the newest event.
    pub(crate) fn follow(&mut self, deeds: &[Deed], world: &World, coverage: &mut Coverage) {
        if !self.has_guards {
            return;
        }
        for deed in deeds {
            let wrong = self.tasks[deed.task].did(deed, world, coverage);
            self.blame(deed.task, wrong, world);
        }
        if world.now >= self.looked_at + LOOK_EVERY_MS {
            self.looked_at = world.now;
            for task in 0..self.tasks.len() {
                if world.plan.tasks[task].guards.is_some() {
                    let wrong = self.tasks[task].look(task, world);
                    self.blame(task, wrong, world);
                }
            }
        }
    }

    fn blame(&mut self, task: usize, wrong: Vec<Wrong>, world: &World) {
        for (check, what) in wrong {
            let what = format!("{}: {what}", world.plan.spec.tasks[task].name);
            let truth = world.describe(Some(task));
            self.violations.push(Violation { at_ms: world.now, agent: 0, check, what, truth });
        }
    }
}

impl Facts {
    fn did(&mut self, deed: &Deed, world: &World, coverage: &mut Coverage) -> Vec<Wrong> {
        let Deed { task, host, life, what } = *deed;
        let now = world.now;
        let mut wrong = Vec::new();
        match what {
            Did::Leased { server, until, token } => {
                if let Some(token) = token {
                    let is_known = self
                        .leases
                        .get(&(host, life))
                        .is_some_and(|lease| (lease.server, lease.token) == (server, token));
                    if !is_known || self.was_given_back(host, life, token) {
                        wrong.extend(self.check_token(server, token, (host, life), world));
                    }
                    self.note_taker(Some(host), coverage);
                }
                let is_new = token.is_some();
                let token = token.or(self.leases.get(&(host, life)).map(|lease| lease.token));
                let token = token.unwrap_or(0);
                let is_given_back = !is_new && self.was_given_back(host, life, token);
                let before = self.leases.get(&(host, life)).filter(|it| !it.is_given_back);
                let other_token = match before {
                    Some(before) if before.token == token => before.other_token,
                    Some(before) => before.token,
                    None => token,
                };
                let new = Lease::new(server, until, token, world);
                let lease = Lease { is_given_back, other_token, ..new };
                self.leases.insert((host, life), lease);
                // It has the lock again.
                for run in self.runs.iter_mut().filter(|run| run.is_of(host, life)) {
                    (run.heard_at, run.known_since) = (None, None);
                }
            }
            Did::GaveBack | Did::Left => {
                // A late attempt still finds what was left to itself.
                let given = what == Did::GaveBack;
                self.leases.entry((host, life)).and_modify(|lease| lease.is_given_back |= given);
                if self.runs.iter().any(|run| run.is_of(host, life)) {
                    let what = format!("host {host} gave the lock back while its script runs");
                    wrong.push(("given back", what));
                }
            }
            Did::WorkerTook { server } => {
                self.note_taker(None, coverage);
                for run in &self.runs {
                    wrong.extend(self.parts(run, server, "a worker", task, world));
                }
            }
            Did::Started { script, token } => {
                coverage.saw(Seen::Started);
                wrong.extend(self.started(deed, script, token, world, coverage));
            }
            Did::Ended { script, how, able_since } => {
                let position =
                    self.runs.iter().position(|run| (run.host, run.script) == (host, script));
                let Some(position) = position else { return wrong };
                let run = self.runs.swap_remove(position);
                coverage.saw(Seen::Ended(how));
                if run.known_since.is_some() {
                    coverage.saw(Seen::Lost);
                }
                wrong.extend(self.check_run(&run, able_since, task, world));
                self.owe_report(&run, task, world, coverage);
            }
            Did::Heard => {
                for position in 0..self.runs.len() {
                    let run = self.runs[position];
                    if run.is_of(host, life)
                        && run.heard_at.is_none()
                        && self.idle.was_calm(host, task, world)
                        && self.is_gone(&run, task, world)
                    {
                        self.runs[position].heard_at = Some(now);
                    }
                }
            }
            Did::Reported { .. } => {
                coverage.saw(Seen::Reported);
                self.reports.retain(|owed| !owed.is_of(host, life));
            }
            Did::HeldAgain { .. } => {}
            Did::Written { .. } => coverage.saw(Seen::Written),
            Did::Died => {
                self.reports.retain(|owed| !owed.is_of(host, life));
                for run in self.runs.iter_mut().filter(|run| run.is_of(host, life)) {
                    run.guard_died = Some(now);
                }
            }
            Did::KeeperDied { script } => {
                let of = |run: &&mut Run| run.host == host && run.script == script;
                self.runs.iter_mut().filter(of).for_each(|run| run.keeper_died = Some(now));
            }
        }
        wrong
    }

    fn note_taker(&mut self, taker: Option<usize>, coverage: &mut Coverage) {
        match (self.took.replace(taker), taker) {
            (Some(Some(before)), Some(host)) if before != host => coverage.saw(Seen::TakeOver),
            (Some(None), Some(_)) => coverage.saw(Seen::FromRedisson),
            (Some(Some(_)), None) => coverage.saw(Seen::ToRedisson),
            _ => {}
        }
    }

    /// A script starts: under the newest token of its guard, and while none runs that should not.
    fn started(
        &mut self,
        deed: &Deed,
        script: u64,
        token: u64,
        world: &World,
        coverage: &mut Coverage,
    ) -> Vec<Wrong> {
        let Deed { task, host, life, .. } = *deed;
        let mut wrong = Vec::new();
        let lease = self.leases.get(&(host, life));
        if lease.is_none_or(|lease| ![lease.token, lease.other_token].contains(&token)) {
            let what = format!("host {host} starts its script with token {token} of {lease:?}");
            wrong.push(("token", what));
        }
        let server = lease.map_or(world.homes[task], |lease| lease.server);
        for run in &self.runs {
            coverage.saw(Seen::TwoRan);
            if run.is_of(host, life) {
                wrong.push(("two scripts", format!("host {host} starts a second script")));
            }
            wrong.extend(self.parts(run, server, &format!("host {host}"), task, world));
        }
        self.runs.push(Run {
            host,
            life,
            script,
            guard_died: None,
            keeper_died: None,
            heard_at: None,
            known_since: None,
        });
        wrong
    }

    /// A script runs while another party begins under a lock of `server`.
    fn parts(
        &self,
        run: &Run,
        server: usize,
        other: &str,
        task: usize,
        world: &World,
    ) -> Option<Wrong> {
        let lease = self.leases.get(&(run.host, run.life))?;
        let is_excused = lease.server != server
            || lease.is_lost(task, world)
            || run.able_since(task, world).is_none_or(|since| since + WAKE_MS >= world.now);
        (!is_excused).then(|| {
            let what = format!("{other} begins while the script of host {} runs", run.host);
            ("two scripts", what)
        })
    }

    /// A server gave out a token to a guard process. It grows as long as the server keeps its data,
    /// but for late attempts of one hold.
    fn check_token(
        &mut self,
        server: usize,
        token: u64,
        to: (usize, u32),
        world: &World,
    ) -> Option<Wrong> {
        let newest = self.tokens.insert(server, (token, world.now, to));
        let (before, at, had) = newest.unwrap_or_default();
        if (token, to) == (before, had) && !self.was_given_back(to.0, to.1, token) {
            return None;
        }
        let is_kept = !world.generations.iter().any(|it| it.server == server && it.at >= at);
        (token <= before && is_kept).then(|| {
            ("token", format!("server {server} gave out token {token} after token {before}"))
        })
    }
}
