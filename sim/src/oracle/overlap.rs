//! A hold that was lost while its lease went on: whether another client took the lock meanwhile.

use lockwatch_watch::redis::RedisKind;

use super::facts::Overlap;
use super::state::Oracle;
use crate::agent::MONO_MS;
use crate::plan::Keeps;
use crate::truth::{Cause, Generation, LockState, What};
use crate::world::World;

impl Oracle {
    /// Records that a hold was certainly lost between the two newest answers, and that another
    /// client took the lock after it.
    pub(super) fn update_overlap(&mut self, task: usize, world: &World) {
        let append_only = world.plan.append_only;
        let facts = &mut self.tasks[task];
        let Some(last) = &facts.last else { return };
        let [state] = last.states.as_slice() else {
            facts.overlap = Overlap::default();
            return;
        };
        if self.kind != RedisKind::Standalone {
            return;
        }
        if let Some(before) = &facts.before
            && let [LockState::Held { holders, deadline: Some(deadline) }] =
                before.states.as_slice()
            && let [(who, _)] = holders.as_slice()
            && !state.held_by(who)
        {
            facts.overlap = Overlap::default();
            let emptied = world.generations.iter().any(|it| {
                let proven = match it.what {
                    What::Flush => true,
                    What::Restart(keeps) => keeps == Keeps::Nothing && !append_only,
                    What::OtherFlush | What::Eviction | What::Promotion => false,
                };
                // During the read, the order matters.
                proven && it.at > before.whole && it.at < last.from
            });
            // A process that started after a flush does not report it any more.
            let begun = |it: &Generation| {
                matches!(it.what, What::Restart(keeps) if keeps != Keeps::Nothing)
                    && it.at > before.to
            };
            let emptied = emptied && !world.generations.iter().any(begun);
            let past = world.tasks[task].past[last.server].between(before.from, last.to);
            let only: Vec<Cause> = past
                .filter(|it| it.cause != Cause::Worker && it.at > before.to)
                .map(|it| it.cause)
                .collect();
            let lost = only == [Cause::Lost];
            // After a long time the switches may be back, as if nothing had been flushed, and a
            // renewal may be missed.
            let prompt = last.to - before.from < 15_000;
            // A short hold may have been released just before, unseen.
            let long_ms = facts.limits.settle_ms + 3 * self.interval_ms + self.timeout_ms;
            let long_ago = before.from.saturating_sub(long_ms);
            let mut lately = world.tasks[task].past[last.server].between(long_ago, before.from);
            // An agent that has just started, or was blind until then, saw no more of it.
            let settled = lately
                .all(|since| since.state == before.states[0] && since.at <= long_ago)
                && facts.sees_since + long_ms < before.from;
            if emptied && lost && prompt && settled {
                // Its clock may have stepped since.
                let left_ms = u64::try_from(deadline - before.clock).unwrap_or(0);
                // The agent counts it from the request.
                facts.overlap.lost =
                    Some((who.clone(), before.sent.ms().saturating_sub(MONO_MS) + left_ms));
            }
        }
        let Some((who, until)) = &facts.overlap.lost else { return };
        match state {
            _ if last.to + 50 >= *until => facts.overlap = Overlap::default(),
            state if state.held_by(who) => facts.overlap = Overlap::default(),
            LockState::Held { .. } => facts.overlap.due = true,
            LockState::Free | LockState::Turn(_) | LockState::Queue | LockState::Other => {}
        }
    }
}
