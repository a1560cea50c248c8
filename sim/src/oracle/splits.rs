//! Checks splits: each reported party must really have acted as holder at the same time as the
//! other.

use lockwatch_judge::event::{Party, SplitKind};

use super::state::Oracle;
use crate::truth::{Cause, Generation, LockState, What};
use crate::world::{Claiming, World};

/// Maximum age of the evidence for a split when it is reported, in milliseconds: some intervals,
/// and a slow batch.
const MET_MS: u64 = 15_000;
/// Maximum lease in milliseconds.
const LEASE_MS_MAX: u64 = 600_000;

impl Oracle {
    /// Checks the beginning of a split.
    pub(super) fn check_split(
        &mut self,
        task: usize,
        kind: SplitKind,
        parties: &[Party],
        world: &World,
    ) {
        let facts = &self.tasks[task];
        let last = facts.last.as_ref();
        let real = &world.tasks[task];
        let witnessed = match kind {
            SplitKind::Holders => last
                .iter()
                .flat_map(|last| &last.states)
                .any(|state| matches!(state, LockState::Held { holders, .. } if holders.len() > 1)),
            // A guard says that its script ran on.
            SplitKind::Claims
                if parties
                    .first()
                    .is_some_and(|party| real.overruns.contains(&party.holder.client)) =>
            {
                true
            }
            // Both claim it, and one of them did so while the other one worked.
            SplitKind::Claims => {
                let claims: Vec<_> =
                    parties.iter().map(|party| real.claims.get(&party.holder.client)).collect();
                let parts =
                    |claim: &Claiming| claim.parts.is_some_and(|at| at + 2 * MET_MS > world.now);
                claims.iter().all(Option::is_some)
                    && claims.iter().flatten().any(|claim| parts(claim))
            }
            SplitKind::Masters => self.lived_together(task, parties, world),
            SplitKind::Turns => self.stood_together(task, parties, world),
            SplitKind::Executions => self.executed_together(task, parties, world),
            SplitKind::Overlap => {
                self.lived_together(task, parties, world) || self.looked_lost(task, parties, world)
            }
        };
        if !witnessed {
            let who: Vec<_> = parties
                .iter()
                .map(|party| {
                    format!("{} on {:?}", String::from_utf8_lossy(&party.holder.client), party.node)
                })
                .collect();
            let name = &world.plan.spec.tasks[task].name;
            self.blame(
                world,
                "split",
                format!(
                    "{name}: a split of the kind {} is said of {}, who did not live side by side",
                    kind.name(),
                    who.join(" and ")
                ),
            );
        }
    }

    /// Whether no party but the last has released its lock since it held it; or the party held the
    /// lock next to the last one, or continues to work.
    fn lived_together(&self, task: usize, parties: &[Party], world: &World) -> bool {
        let real = &world.tasks[task];
        let Some((newest, older)) = parties.split_last() else { return false };
        older.iter().all(|party| {
            let who = &party.holder.client;
            if *who == newest.holder.client {
                return false;
            }
            let given_back = real
                .releases
                .iter()
                .rev()
                .find(|release| release.who == *who)
                .map(|release| release.at);
            // It has taken the lock again since, perhaps in the same millisecond.
            let holds_since = |given: u64| {
                real.past.iter().any(|past| {
                    let states: Vec<_> = past.between(0, world.now).collect();
                    let ends = states.iter().skip(1).map(|since| since.at).chain([u64::MAX]);
                    let mut held =
                        states.iter().zip(ends).filter(|(since, _)| since.state.held_by(who));
                    held.any(|(since, end)| since.at > given || (since.at == given && end > given))
                })
            };
            let works = real.claims.get(who).is_some_and(|claim| claim.newest + 30_000 > world.now);
            works
                || given_back.is_none_or(holds_since)
                || self.met(who, &newest.holder.client, task, world)
        })
    }

    /// Whether the readings of one server cannot distinguish it from a loss: another database was
    /// flushed at the moment of a handover; or the release was lost in a failover, and the
    /// remaining hold was lost later; or a flush followed immediately.
    fn looked_lost(&self, task: usize, parties: &[Party], world: &World) -> bool {
        let Some(last) = &self.tasks[task].last else { return false };
        let server = last.server;
        let lately = |it: &&Generation| it.server == server && it.at + MET_MS > world.now;
        let elsewhere =
            world.generations.iter().filter(lately).any(|it| it.what == What::OtherFlush);
        let promoted = |since: u64| {
            world.generations.iter().any(|it| it.what == What::Promotion && it.at > since)
        };
        let copied = parties.iter().any(|party| {
            world.tasks[task].past.iter().any(|past| {
                let states: Vec<_> = past.between(0, world.now).collect();
                let held = states
                    .iter()
                    .enumerate()
                    .filter(|(_, since)| since.state.held_by(&party.holder.client));
                let lost = |position: usize| {
                    states.get(position + 1).is_none_or(|next| next.cause == Cause::Lost)
                };
                held.filter(|(position, _)| lost(*position)).any(|(_, since)| promoted(since.at))
            })
        });
        // A release between the last reading and a flush is not visible.
        let unseen_ms = 2 * self.interval_ms + self.timeout_ms;
        let unseen = parties.iter().any(|party| {
            let given = world.tasks[task]
                .releases
                .iter()
                .filter(|release| release.who == party.holder.client);
            given.map(|release| release.at).any(|given| {
                // Another client may take the lock at any time until the lease that looks lost runs
                // out.
                let mut here = world.generations.iter().filter(|it| it.server == server);
                here.any(|it| {
                    (given..=given + unseen_ms).contains(&it.at) && it.at + LEASE_MS_MAX > world.now
                })
            })
        });
        elsewhere || copied || unseen
    }

    /// Whether two clients have held the lock at the same time, on any servers, shortly before now.
    /// A hold released on one server counts as released everywhere.
    fn met(&self, one: &[u8], other: &[u8], task: usize, world: &World) -> bool {
        let from = world.now.saturating_sub(MET_MS);
        let spans = |who: &[u8]| -> Vec<(u64, u64)> {
            let pasts = world.tasks[task].past.iter();
            let spans = pasts.flat_map(|past| {
                let states: Vec<_> = past.between(from, world.now).collect();
                let ends = states.iter().skip(1).map(|since| since.at).chain([world.now]);
                let spans: Vec<_> = states
                    .iter()
                    .zip(ends)
                    .map(|(since, end)| (since.at, end, since.state.held_by(who)))
                    .collect();
                spans
            });
            let releases = &world.tasks[task].releases;
            let given = |at: u64| {
                releases.iter().find(|it| it.who == who && it.at > at).map_or(u64::MAX, |it| it.at)
            };
            spans
                .filter(|(.., held)| *held)
                .map(|(begin, end, _)| (begin, end.min(given(begin))))
                .collect()
        };
        let others = spans(other);
        spans(one)
            .iter()
            .any(|(from, to)| others.iter().any(|(begin, end)| from.max(begin) < to.min(end)))
    }
}
