//! Checks reported renewals: the newest one really happened at that instant with that delay, no
//! timely holder is shown as overdue, and an overdue one is shown in time.

use std::ops::RangeInclusive;

use lockwatch_judge::snapshot::{HoldView, TaskView};

use super::facts::RenewalSaid;
use super::found::{Answer, Newest};
use super::state::Oracle;
use crate::agent::MONO_MS;
use crate::truth::{Cause, LockState, Since};
use crate::world::World;

/// Tolerance of an instant in milliseconds. Deadlines are whole milliseconds, and less exact on a
/// server that reports only the remaining time.
const EXACT_MS: u64 = 3;
const INEXACT_MS: u64 = 8;
/// Delay of healthy timers in milliseconds, plus the time for an answer.
const LATE_MS: u64 = 200 + 150;
/// Number of observed renewals after which a watchdog is known.
const SEEN: usize = 3;

/// Length of the period checked in milliseconds: three of the longest leases.
const LATELY_MS: u64 = 90_000;

impl Oracle {
    pub(super) fn check_renewals(&mut self, task: usize, view: &TaskView, world: &World) {
        let Some(hold) = &view.lock().unwrap().hold else { return };
        let said = RenewalSaid {
            last: hold.last_renewal,
            latency_ms: hold.last_renewal_latency_ms,
            to: self.tasks[task].last.as_ref().map_or(0, |last| last.to),
        };
        let before = std::mem::replace(&mut self.tasks[task].renewal_said, said);
        let (facts, shape) = (&self.tasks[task], &world.plan.tasks[task]);
        let (Some(last), Newest::Answered) = (&facts.last, &facts.newest) else { return };
        let [LockState::Held { holders, deadline: Some(_) }] = last.states.as_slice() else {
            return;
        };
        let [(who, _)] = holders.as_slice() else { return };
        // Releasing the lock and taking it again between two readings looks like a renewal.
        if shape.churns || shape.fixed {
            return;
        }
        // Between two readings it may have been renewed and then left to itself, with less time: as
        // if it had been renewed earlier.
        if world.has_left(task, who) {
            return;
        }
        // A frozen agent may have found it long before it shows it.
        let lately = || sets(task, who, before.to.saturating_sub(LATELY_MS)..=last.to, world);
        let mut wrong = Vec::new();
        if said.last != before.last {
            wrong.extend(self.wrong_instant(hold, &lately(), world));
        }
        if said.latency_ms != before.latency_ms {
            wrong.extend(self.wrong_latency(task, view, &lately(), world));
        }
        if hold.renewal_overdue_ms > 0 {
            wrong.extend(self.wrongly_overdue(task, view, hold, last, world));
        }
        wrong.extend(self.unseen_renewal(task, view, hold, world));
        for what in wrong {
            self.blame(world, "renewal", format!("{}: {what}", view.spec.name));
        }
    }

    fn exact_ms(&self) -> u64 {
        if self.exact { EXACT_MS } else { INEXACT_MS }
    }

    /// When another server's clock began to set the deadlines of a task.
    pub(super) fn clock_changed_at(&self, task: usize, world: &World) -> u64 {
        world.rulers.last().map_or(0, |(at, _)| *at).max(world.moved_at[task])
    }

    /// Whether no renewal happened at the shown instant, by any server's clock.
    fn wrong_instant(&self, hold: &HoldView, sets: &[u64], world: &World) -> Option<String> {
        let said = hold.last_renewal?;
        let near = |set: &u64| {
            let mut shown = world.servers.iter().map(|server| server.clock.shown_at(*set));
            // A clock that has stepped since does not show its earlier time.
            shown.any(|shown| {
                shown.is_none_or(|shown| (shown - said.ms()).unsigned_abs() <= self.exact_ms())
            })
        };
        (!sets.iter().any(near)).then(|| {
            format!("its newest renewal is said to have been at {}, when there was none", said.ms())
        })
    }

    /// Checks the shown delay against the library's own period.
    fn wrong_latency(
        &self,
        task: usize,
        view: &TaskView,
        sets: &[u64],
        world: &World,
    ) -> Option<String> {
        let said_ms = view
            .lock()
            .unwrap()
            .hold
            .as_ref()?
            .last_renewal_latency_ms
            .filter(|late_ms| *late_ms > 0)?;
        if view.spec.lock().unwrap().library.as_str() != "redisson" {
            return None;
        }
        let period_ms = view.lock().unwrap().renewal_period_ms?;
        // A small clock step is not visible; nor is it visible after a failover that another clock
        // set the deadline.
        let first = sets.first()?;
        let stepped = world.servers.iter().any(|server| server.clock.shown_at(*first).is_none());
        if stepped
            || (self.tasks[task].began >= *first && self.clock_changed_at(task, world) >= *first)
        {
            return None;
        }
        // If timers are delayed together, not each renewal is seen.
        let until = |from: u64| from + period_ms + said_ms;
        let mut pairs = sets.iter().flat_map(|from| sets.iter().map(move |to| (*from, *to)));
        let fits = pairs.any(|(from, to)| to.abs_diff(until(from)) <= 2 * self.exact_ms());
        (!fits).then(|| {
            format!("its newest renewal is said to have been {said_ms} ms late, and none was")
        })
    }

    /// A renewal must not be overdue if the deadline was set recently, by the shown period.
    fn wrongly_overdue(
        &self,
        task: usize,
        view: &TaskView,
        hold: &HoldView,
        last: &Answer,
        world: &World,
    ) -> Option<String> {
        // While the deadline is unknown, the shown value stays.
        hold.deadline?;
        let said_ms = hold.renewal_overdue_ms;
        let period_ms = view.lock().unwrap().renewal_period_ms.unwrap_or(0);
        let deadline = last.states.first()?.deadline();
        let until_then =
            || world.tasks[task].past[last.server].latest().skip_while(|since| since.at > last.to);
        let set = until_then().take_while(|since| since.state.deadline() == deadline).last();
        let set = set.filter(|since| since.cause == Cause::Worker)?;
        // If two clocks differ by as much as renewals move the deadline, the first renewal by
        // another clock is not visible, and one by the previous clock is known only by the distance
        // between two readings.
        let clock_changed_at = self.clock_changed_at(task, world);
        if clock_changed_at > 0 && clock_changed_at + LATELY_MS > set.at {
            return None;
        }
        // The first renewals of a hold show its lease, and with it the period: two readings with a
        // small step of the clock between them show another one.
        let held = until_then().take_while(|since| since.state.deadline().is_some()).last();
        let young =
            held.filter(|held| held.at + LATELY_MS > last.to).map_or(set.at, |held| held.at);
        let stepped = world.servers.iter().any(|server| server.clock.shown_at(young).is_none());
        let least_ms = (last.to - set.at).saturating_sub(period_ms) + LATE_MS;
        (said_ms > least_ms && !stepped).then(|| {
            format!(
                "its renewal is said to be {said_ms} ms overdue, but its deadline was set {} ms \
                 ago",
                last.to - set.at
            )
        })
    }

    /// Each renewal of a visible holder must be counted, and an overdue one must be shown.
    fn unseen_renewal(
        &self,
        task: usize,
        view: &TaskView,
        hold: &HoldView,
        world: &World,
    ) -> Option<String> {
        let server = world.homes[task];
        let period_ms = world.plan.tasks[task].lease_ms / 3;
        let own: Vec<&Since> = world.tasks[task].past[server].latest().take(SEEN + 1).collect();
        let steady = own.windows(2).all(|pair| {
            let [later, earlier] = [pair[0], pair[1]];
            let stays = entries(&later.state) == entries(&earlier.state)
                && earlier.state.deadline().is_some();
            let is_renewal = later.cause == Cause::Worker && stays;
            is_renewal && (period_ms * 3 / 4..=period_ms + 100).contains(&(later.at - earlier.at))
        });
        if !steady || own.len() <= SEEN || view.lock().unwrap().renewal_period_ms != Some(period_ms)
        {
            return None;
        }
        // A deadline that moved while it was read shows no renewal, and says so.
        hold.persistent?;
        let [newest, .., oldest] = own.as_slice() else { return None };
        // A guard that takes its lock again begins another hold with that.
        if world.held_again_at(task) >= oldest.at {
            return None;
        }
        let deadline = newest.state.deadline()?;
        if oldest.at < self.visible_since(task, world)? + self.recovery_ms() {
            return None;
        }
        let seen_ms = 2 * self.interval_ms + LATE_MS + 1_000;
        // A renewal between two readings is seen with the second one; of two renewals, the first is
        // not seen.
        if period_ms > 2 * seen_ms {
            let is_due = |since: &&&Since| since.at > oldest.at && since.at + seen_ms < world.now;
            let is_shown = |since: &Since| {
                view.lock()
                    .unwrap()
                    .renewals
                    .iter()
                    .any(|shown| shown.ms().abs_diff(MONO_MS + since.at) <= seen_ms)
            };
            if let Some(missed) = own.iter().filter(is_due).find(|since| !is_shown(since)) {
                return Some(format!(
                    "it was renewed {} ms ago, and that is not counted",
                    world.now - missed.at
                ));
            }
        }
        let ends = world.servers[server].clock.at(world.now) >= deadline;
        let overdue = world.now > newest.at + period_ms + seen_ms;
        (!ends && overdue && hold.renewal_overdue_ms == 0).then(|| {
            format!(
                "it has not been renewed for {} ms, and nothing is overdue",
                world.now - newest.at
            )
        })
    }
}

/// The holders, and the number of entries of each.
fn entries(state: &LockState) -> Option<&[(Vec<u8>, u32)]> {
    match state {
        LockState::Held { holders, .. } => Some(holders),
        LockState::Free | LockState::Turn(_) | LockState::Queue | LockState::Other => None,
    }
}

/// When the deadlines of a holder were set, oldest first. Replication sets each of them again on
/// the other servers.
fn sets(task: usize, who: &[u8], within: RangeInclusive<u64>, world: &World) -> Vec<u64> {
    let mut all: Vec<u64> = Vec::new();
    for past in &world.tasks[task].past {
        let mut before = None;
        for since in past.between(*within.start(), *within.end()) {
            let deadline = since.state.deadline();
            // On a dead server the previous state is old, and leaving another holder alone sets no
            // deadline.
            let is_set = deadline.is_some_and(|deadline| before != Some(deadline))
                && within.contains(&since.at)
                && since.state.held_by(who);
            all.extend(is_set.then_some(since.at));
            before = deadline;
        }
    }
    all.sort_unstable();
    all
}
