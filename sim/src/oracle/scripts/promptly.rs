//! Bounds of time: until a script is dead, until an overrun is reported, and until a wanted task
//! runs.

use super::facts::{Facts, Owed, Run, WAKE_MS, Wrong};
use crate::coverage::{Coverage, Seen};
use crate::request::Says;
use crate::truth::LockState;
use crate::world::World;

/// Time in milliseconds until a script is dead whose guard has heard that the lock was lost, over a
/// good network: a connection that broke, and some round trips.
const LOST_MS: u64 = 500;
/// Time in milliseconds until an overrun is reported: the guard's kill, and the pause that it
/// leaves to a keeper.
const REPORT_MS: u64 = 600;
/// Pauses in milliseconds between a guard's attempts, and between its looks at the switches.
const ATTEMPT_MS: u64 = 2_000;
const AGAIN_MS: u64 = 250;
const SWITCHES_MS: u64 = 1_000;
/// Tolerance in milliseconds of what is looked at once a second.
const LATE_MS: u64 = 2_500;
/// Largest difference between the clocks of a host and of a server, in percent.
const DRIFT_PERCENT: u64 = 3;

impl Facts {
    /// Looks at everything.
    pub(super) fn look(&mut self, task: usize, world: &World) -> Vec<Wrong> {
        let mut wrong = Vec::new();
        self.follow_reach(task, world);
        for position in 0..self.runs.len() {
            self.follow_loss(position, task, world);
            let run = self.runs[position];
            let able_since = run.able_since(task, world);
            if able_since.is_some() {
                wrong.extend(self.check_run(&run, able_since, task, world));
            }
        }
        wrong.extend(self.check_reports(task, world));
        wrong.extend(self.check_idle(task, world));
        wrong
    }

    fn follow_reach(&mut self, task: usize, world: &World) {
        let hosts = world.tasks[task].stations.len();
        self.idle.reach_since.resize(hosts, None);
        let (home, parts) = (world.homes[task], world.part_homes[task]);
        let can_write = world.servers[home].writable() && world.servers[parts].writable();
        for host in 0..hosts {
            let reaches = can_write
                && world.guard_reaches(task, host, home)
                && world.guard_reaches(task, host, parts)
                && world
                    .guard_server(task, host)
                    .is_none_or(|server| server == home || !world.servers[server].writable());
            let since = &mut self.idle.reach_since[host];
            *since = if reaches { since.or(Some(world.now)) } else { None };
        }
    }

    /// Since when a guard that runs, over a good network, can know that its lock is lost.
    fn follow_loss(&mut self, position: usize, task: usize, world: &World) {
        let run = self.runs[position];
        let reaches = self.idle.reach_since.get(run.host).copied().flatten();
        let can_know = self.is_gone(&run, task, world)
            && reaches.is_some()
            && run.guard_since(task, world).is_some();
        let known = &mut self.runs[position].known_since;
        *known = if can_know { known.or(Some(world.now)) } else { None };
    }

    /// Whether a script that ran until now may have run until now. `able_since`: since when guard
    /// or keeper could kill it.
    pub(super) fn check_run(
        &self,
        run: &Run,
        able_since: Option<u64>,
        task: usize,
        world: &World,
    ) -> Vec<Wrong> {
        let (now, mut wrong) = (world.now, Vec::new());
        let (Some(able_since), Some(lease)) = (able_since, self.leases.get(&(run.host, run.life)))
        else {
            return wrong;
        };
        let Some(terms) = world.plan.tasks[task].guards.map(|guards| guards.terms) else {
            return wrong;
        };
        let mut must = |check: &'static str, by: u64, why: &str| {
            if now > by.max(able_since.saturating_add(WAKE_MS)) {
                let what = format!("the script of host {} ran until {now}, {why}", run.host);
                wrong.push((check, format!("{what}, and had to be dead by {by}")));
            }
        };
        must("beyond its lease", lease.until, "though its lease was over");
        if let Some(died) = run.guard_died {
            must("outlived its guard", died + WAKE_MS, "though its guard was gone");
        }
        let guard_since = run.guard_since(task, world);
        if let (Some(died), Some(since)) = (run.keeper_died, guard_since) {
            must("outlived its keeper", died.max(since) + WAKE_MS, "though its keeper was gone");
        }
        let timeouts_ms = 2 * world.guard_timeout_ms(task);
        if let (Some(known), Some(since)) = (run.known_since, guard_since) {
            let by = known.max(since) + terms.period_ms() + AGAIN_MS + timeouts_ms + LOST_MS;
            must("lost", by + LATE_MS, "though its guard could know that the lock was lost");
        }
        let is_calm = self.idle.was_calm(run.host, task, world);
        if let (Some(heard), Some(since), true) = (run.heard_at, guard_since, is_calm) {
            must("lost", heard.max(since) + LOST_MS, "though its guard heard of the loss");
        }
        let says = &world.tasks[task].wanting[world.part_homes[task]];
        let unwanted = self.idle.unwanted_since.filter(|_| says.says == Says::No);
        if let (Some(unwanted), Some(since)) = (unwanted, guard_since)
            && let Some(reached) = self.idle.reach_since.get(run.host).copied().flatten()
        {
            let known = unwanted.max(says.since).max(since).max(reached);
            let by = known + SWITCHES_MS + timeouts_ms + terms.stop_after_ms + LATE_MS;
            must("unwanted", by, "though nobody wants it");
        }
        wrong
    }

    /// A script has ended. If it ran on after its lease, its guard must say so.
    pub(super) fn owe_report(
        &mut self,
        run: &Run,
        task: usize,
        world: &World,
        coverage: &mut Coverage,
    ) {
        let Some(lease) = self.leases.get(&(run.host, run.life)) else { return };
        let lease_ms = world.plan.tasks[task].lease_ms;
        if world.now <= lease.until + lease_ms * DRIFT_PERCENT / 100 {
            return;
        }
        coverage.saw(Seen::Overran);
        let station = &world.tasks[task].stations[run.host];
        if station.guard.is_some() && station.life == run.life {
            self.reports.push(Owed { run: *run, since: world.now });
        }
    }

    fn check_reports(&self, task: usize, world: &World) -> Vec<Wrong> {
        let is_late = |owed: &Owed| {
            let guard_since = owed.run.guard_since(task, world);
            guard_since.is_some_and(|since| world.now > since.max(owed.since) + REPORT_MS)
        };
        let late: Vec<Owed> = self.reports.iter().copied().filter(is_late).collect();
        let say = |owed: Owed| {
            let (host, since) = (owed.run.host, owed.since);
            ("overrun", format!("host {host} does not report the overrun that ended at {since}"))
        };
        late.into_iter().map(say).collect()
    }

    /// Somebody runs a task soon that is wanted, when a guard can.
    fn check_idle(&mut self, task: usize, world: &World) -> Vec<Wrong> {
        let (now, mut wrong) = (world.now, Vec::new());
        let (home, real) = (world.homes[task], &world.tasks[task]);
        let Some(terms) = world.plan.tasks[task].guards.map(|guards| guards.terms) else {
            return wrong;
        };
        let says = &real.wanting[world.part_homes[task]];
        let says_now =
            if world.plan.spec.tasks[task].wanted.is_none() { Says::Yes } else { says.says };
        let can_write = world.servers[world.part_homes[task]].writable();
        let since = |is_so: bool, before: Option<u64>, least: u64| {
            is_so.then(|| before.unwrap_or(now).max(least))
        };
        let is_unwanted = says_now == Says::No && can_write;
        self.idle.unwanted_since = since(is_unwanted, self.idle.unwanted_since, says.since);
        // A host whose guard could run the script, and since when.
        let fit = |host: usize| {
            let station = &real.stations[host];
            let guard = station.guard.as_ref().filter(|guard| guard.paused_until <= now)?;
            let reached = self.idle.reach_since.get(host).copied().flatten()?;
            // A keeper that is paused does not say that its script has ended.
            let mut since = reached.max(guard.began).max(guard.paused_until);
            for keeper in &station.keepers {
                since = since.max(keeper.paused_until);
            }
            (since <= now).then_some(since)
        };
        let fit_since = (0..real.stations.len()).filter_map(fit).min();
        let lock = real.past[home].newest();
        let is_over = lock.is_none_or(|since| match since.state.deadline() {
            Some(deadline) => world.servers[home].clock.at(now) >= deadline,
            None => since.state == LockState::Free,
        });
        let is_idle = self.runs.is_empty() && says_now == Says::Yes && can_write;
        let is_free = is_idle && is_over;
        self.idle.free_since = since(is_free, self.idle.free_since, says.since);
        let holder = (0..real.stations.len()).find(|host| {
            let guard = real.stations[*host].guard.as_ref();
            guard
                .is_some_and(|guard| lock.is_some_and(|since| since.state.held_by(&guard.instance)))
        });
        // What another clock, or nobody, ends may be left from an earlier hold.
        let ends_in_time = lock.and_then(|since| since.state.deadline()).is_some_and(|deadline| {
            let left_ms = deadline - world.servers[home].clock.at(now);
            left_ms <= i64::try_from(terms.lease_ms).unwrap_or(0)
        });
        let holds = holder.filter(|_| is_idle && !is_over && ends_in_time).and_then(fit);
        self.idle.holds_since = since(holds.is_some(), self.idle.holds_since, says.since);
        let bound_ms = ATTEMPT_MS
            + AGAIN_MS
            + SWITCHES_MS
            + 2 * world.guard_timeout_ms(task)
            + terms.backoff_ms.1
            + LATE_MS;
        if let (Some(free), Some(fit)) = (self.idle.free_since, fit_since)
            && now > free.max(fit) + bound_ms
        {
            let what = format!("it is wanted and free since {free}, and no guard runs it");
            wrong.push(("nobody runs", what));
        }
        if let (Some(held), Some(fit)) = (self.idle.holds_since, holds)
            && now > held.max(fit) + bound_ms + terms.lease_ms
        {
            let what = format!("a guard holds it since {held}, and does not run it");
            wrong.push(("nobody runs", what));
        }
        wrong
    }
}
