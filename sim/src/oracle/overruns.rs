//! An overrun that a guard reports in its claim must be counted as a split by each agent that
//! could read it.

use lockwatch_judge::event::{Party, SplitKind};

use super::state::{Oracle, Overrun};
use crate::coverage::{Coverage, Seen};
use crate::server::Value;
use crate::world::{Deed, Did, World};

/// Everything is read at least once in so many intervals.
const INTERVALS: u64 = 5;
/// Tolerance in milliseconds: an agent's second, and rounds in which other clients are served.
const LATE_MS: u64 = 1_500;
/// A report stays at least for this many milliseconds, unless the data are lost.
const STAYS_MS: u64 = 9_500;

impl Oracle {
    /// A guard did something.
    pub(crate) fn guard_did(&mut self, deed: &Deed, world: &World) {
        let (Did::Written { .. }, task) = (deed.what, deed.task) else { return };
        let guard = world.tasks[task].stations[deed.host].guard.as_ref();
        if let (Some(guard), true) = (guard, self.tasks[task].is_configured) {
            let instance = guard.instance.to_vec();
            self.overruns.push(Overrun { task, instance, at: world.now });
        }
    }

    /// A split began. Counts the overrun that it is about.
    pub(super) fn count_overrun(
        &mut self,
        task: usize,
        kind: SplitKind,
        parties: &[Party],
        coverage: &mut Coverage,
    ) {
        let Some(party) = parties.first().filter(|_| kind == SplitKind::Claims) else { return };
        let is_it = |owed: &Overrun| owed.task == task && owed.instance == party.holder.client;
        if let Some(position) = self.overruns.iter().position(is_it) {
            self.overruns.swap_remove(position);
            coverage.saw(Seen::Counted);
        }
    }

    /// Checks the reports that had to be counted by now.
    pub(super) fn check_overruns(&mut self, world: &World, coverage: &mut Coverage) {
        if self.overruns.is_empty() {
            return;
        }
        let mut missed = Vec::new();
        let due_ms = INTERVALS * self.interval_ms + LATE_MS;
        for owed in std::mem::take(&mut self.overruns) {
            let is_early = world.now < owed.at + STAYS_MS;
            if !self.could_read(&owed, is_early, world) {
                coverage.saw(Seen::Unseen);
            } else if world.now > owed.at + due_ms {
                missed.push(owed);
            } else {
                self.overruns.push(owed);
            }
        }
        for Overrun { task, instance, at } in missed {
            let what = format!(
                "{}: {} reported an overrun after {at} ms, and no split of claims was counted",
                world.plan.spec.tasks[task].name,
                String::from_utf8_lossy(&instance)
            );
            self.blame(world, "missed overrun", what);
        }
    }

    /// Whether the agent could read the report since it was written.
    fn could_read(&self, owed: &Overrun, must_be_there: bool, world: &World) -> bool {
        let (real, facts) = (&world.tasks[owed.task], &self.tasks[owed.task]);
        let server = world.part_homes[owed.task];
        let entry =
            real.keys.claims.as_ref().and_then(|key| world.servers[server].get(key, world.now));
        let is_there = match entry.map(|entry| &entry.value) {
            Some(Value::Hash(fields)) => fields
                .iter()
                .any(|(field, value)| *field == owed.instance && value.starts_with(b"overrun")),
            _ => false,
        };
        let is_lock = real.odd.is_none() && real.odd_at + self.recovery_ms() <= owed.at;
        let visible = self.visible_since(owed.task, world);
        facts.is_configured
            && is_lock
            && (is_there || !must_be_there)
            && visible.is_some_and(|visible| visible + self.recovery_ms() <= owed.at)
    }
}
