//! Checks that a split is reported when two holders are proven and the agent could see them.

use lockwatch_judge::event::SplitKind;
use lockwatch_judge::snapshot::TaskView;
use lockwatch_watch::redis::RedisKind;

use super::found::Answer;
use super::state::Oracle;
use super::visible::small_since;
use crate::truth::LockState;
use crate::world::World;

/// Time in milliseconds until split claims must be reported. Claims are written every 2 s. Both
/// must be seen alive and change twice after that: four changes, plus time for the answers.
const CLAIMS_MS: u64 = 8_000 + ANSWER_MS;
/// Tolerance in milliseconds: two rounds in which other clients may be served.
const ANSWER_MS: u64 = 300;
/// A hold of this many milliseconds by a worker is no phantom under any rule.
const PROVEN_MS: u64 = 6_000;

impl Oracle {
    /// Checks splits that must be reported.
    pub(super) fn check_split_due(&mut self, task: usize, view: &TaskView, world: &World) {
        let facts = &self.tasks[task];
        let says = |kind| view.splits.iter().any(|split| split.kind == kind);
        let several = |last: &Answer| matches!(last.states.as_slice(), [LockState::Held { holders, .. }] if holders.len() > 1);
        let name = &view.spec.name;
        let known = view.held.is_some();
        let mut unsaid = Vec::new();
        if facts.last.as_ref().is_some_and(several) && known && !says(SplitKind::Holders) {
            unsaid.push(format!("{name}: two holders are in the lock, and it is not said"));
        }
        if facts.overlap.due && known && !says(SplitKind::Overlap) {
            let who = facts
                .overlap
                .lost
                .as_ref()
                .map(|(who, ..)| String::from_utf8_lossy(who).into_owned());
            unsaid.push(format!(
                "{name}: the hold of {who:?} was lost, somebody else holds the lock, and no \
                 overlap is said"
            ));
        }
        if !says(SplitKind::Masters)
            && let Some((one, other)) = self.masters_due(task, world)
        {
            unsaid.push(format!(
                "{name}: {one} and {other} both live with the lock, each on a master of its own, \
                 and no split of masters is said"
            ));
        }
        if !says(SplitKind::Claims)
            && let Some((one, other)) = self.claims_due(task, world)
        {
            unsaid.push(format!(
                "{name}: {one} and {other} both claim to run it, and no split of claims is said"
            ));
        }
        for what in unsaid {
            self.blame(world, "missed split", what);
        }
    }

    /// Two masters show two holders, and the older one was renewed while the younger one held the
    /// lock, all visible to this agent.
    fn masters_due(&self, task: usize, world: &World) -> Option<(String, String)> {
        let shard = world.shard_of(world.homes[task]);
        let is_one =
            |server: &usize| world.shard_of(*server) == shard && world.servers[*server].writable();
        let masters: Vec<usize> = (0..world.servers.len()).filter(is_one).collect();
        let [a, b] = masters.as_slice() else { return None };
        // The remaining lease must last from one reading to the next, because a hold that seems to
        // have expired ends the split.
        if world.plan.tasks[task].lease_ms * 2 / 3 < self.interval_ms + 500 {
            return None;
        }
        let (last_ruler_at, _) = world.rulers.last().copied().unwrap_or_default();
        // An agent that started later may not know the previous master.
        let is_announced = matches!(self.kind, RedisKind::Sentinel | RedisKind::Cluster);
        if self.kind == RedisKind::Standalone
            || (is_announced && self.tasks[task].began >= last_ruler_at)
        {
            return None;
        }
        let seen = [a, b].map(|server| world.clean_since(self.agent, *server));
        let [Some(seen_a), Some(seen_b)] = seen else { return None };
        // The layout of a cluster is read in each fifth interval.
        let laid_out = world.moved_at[task] + 6 * self.interval_ms;
        let seen =
            seen_a.max(seen_b).max(laid_out).max(world.settled_at).max(self.tasks[task].began)
                + self.recovery_ms();
        let real = &world.tasks[task];
        let name = |server: usize| match real.past[server].newest().map(|since| &since.state) {
            Some(LockState::Held { holders, deadline: Some(deadline) }) => match holders.as_slice()
            {
                [(who, _)] if world.servers[server].clock.at(world.now) < *deadline => Some(who),
                _ => None,
            },
            _ => None,
        };
        let (one, other) = (name(*a)?, name(*b)?);
        let since = [a, b].map(|server| real.past[*server].held_since());
        let [since_a, since_b] = since;
        let (older, younger_since) = if since_a <= since_b { (*a, since_b) } else { (*b, since_a) };
        let interval_ms = self.interval_ms;
        // The readings before and after the renewal must both come after the beginning of the
        // younger hold, and be visible.
        let from = younger_since.max(seen) + 2 * interval_ms + ANSWER_MS;
        let renewed =
            real.past[older].between(from, world.now).skip(1).map(|renewal| renewal.at).min()?;
        let due = (renewed + 2 * interval_ms + ANSWER_MS)
            .max(younger_since + PROVEN_MS + 2 * interval_ms);
        let name = |who: &Vec<u8>| String::from_utf8_lossy(who).into_owned();
        (one != other && world.now > due + 1_000).then(|| (name(one), name(other)))
    }

    /// Two instances that have both written claims continuously, visible to this agent.
    fn claims_due(&self, task: usize, world: &World) -> Option<(String, String)> {
        let server = world.homes[task];
        let key = world.tasks[task].keys.claims.as_ref()?;
        // Workers that take turns continuously leave their claims to each other.
        let shape = &world.plan.tasks[task];
        let turns = shape.churns || shape.fixed;
        if self.kind != RedisKind::Standalone || turns || !world.servers[server].writable() {
            return None;
        }
        let entry = world.servers[server].get(key, world.now)?;
        // The evidence must be next to one hold. Next to a free lock each claim is reported
        // separately, and the task is down.
        let past = &world.tasks[task].past[server];
        past.newest().filter(|since| matches!(since.state, LockState::Held { .. }))?;
        let held_since = past.held_since();
        let seen = world
            .clean_since(self.agent, server)?
            .max(small_since(task, world))
            .max(world.settled_at)
            .max(self.tasks[task].began)
            + self.recovery_ms();
        let quiet = world.generations.back().map_or(0, |generation| generation.at);
        // If the lock is renewed as often as claims are written, its rhythm must be recognised
        // first.
        let period_ms = shape.lease_ms / 3;
        let is_quick = period_ms < 4_000 + 3 * self.interval_ms;
        // With delayed timers there is no rhythm, and renewals look like consecutive holds.
        let renewed: Vec<u64> = past.between(held_since, world.now).map(|since| since.at).collect();
        if is_quick && renewed.windows(2).any(|two| two[1] - two[0] < period_ms * 3 / 4) {
            return None;
        }
        let rhythm_ms = if is_quick { 6 * period_ms.max(self.interval_ms) + 4_000 } else { 0 };
        let needed = CLAIMS_MS + 5 * self.interval_ms + rhythm_ms;
        let lives = |claim: &crate::world::Claiming| {
            claim.newest + 2_000 + self.interval_ms >= world.now
                && claim.steady.max(seen).max(quiet).max(held_since) + needed < world.now
        };
        let crate::server::Value::Hash(fields) = &entry.value else { return None };
        let mut alive = world.tasks[task]
            .claims
            .iter()
            .filter(|(who, claim)| lives(claim) && fields.iter().any(|(field, _)| field == *who));
        let name = |who: &Vec<u8>| String::from_utf8_lossy(who).into_owned();
        Some((name(alive.next()?.0), name(alive.next()?.0)))
    }
}
