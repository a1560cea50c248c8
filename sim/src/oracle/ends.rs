//! Checks how holds and gaps end, which holds were lost although their holder lived, and which
//! servers may be believed.

use std::ops::RangeInclusive;

use lockwatch_judge::event::{End, LossSign};
use lockwatch_judge::reading::Holder;
use lockwatch_watch::redis::RedisKind;

use super::found::{Answer, Newest};
use super::state::{NOISE_MS, Oracle, STEP_MS};
use crate::plan::Act;
use crate::truth::{Cause, Generation, LockState, Since, What};
use crate::world::World;

/// After this many milliseconds without a reading, lost switches may be back.
const REWRITTEN_MS: u64 = 15_000;
/// Leases that differ by less are the same, in milliseconds.
const LEASE_NOISE_MS: i64 = 100;

/// Whether a server's data changed in a way that may lose some within a range of instants.
fn data_changed(world: &World, server: usize, within: RangeInclusive<u64>) -> bool {
    world.generations.iter().any(|it| it.server == server && within.contains(&it.at))
}

/// Whether a server evicted a key at an instant. Earlier changes of its data may then be proven
/// harmless.
fn evicted(world: &World, server: usize, at: u64) -> bool {
    world
        .generations
        .iter()
        .any(|it| it.server == server && it.at == at && it.what == What::Eviction)
}

/// Number of steps of a server's clock within a range of instants.
fn clock_steps(world: &World, server: usize, within: RangeInclusive<u64>) -> usize {
    let steps = world.plan.steps.iter().filter(|step| within.contains(&step.at));
    steps
        .filter(
            |step| matches!(step.act, Act::StepClock { server: stepped, .. } if stepped == server),
        )
        .count()
}

/// The data were lost after the lock was read, but before the end of the same batch reported that.
/// The next batch reports nothing new.
fn reported_early(before: &Answer, world: &World) -> bool {
    data_changed(world, before.server, before.from..=before.whole)
}

impl Oracle {
    /// The two answers between which an event happened, on one server.
    fn window(&self, task: usize) -> Option<(&Answer, &Answer)> {
        let facts = &self.tasks[task];
        if facts.contradicted || facts.newest == Newest::Open {
            return None;
        }
        facts
            .before
            .as_ref()
            .zip(facts.last.as_ref())
            .filter(|(before, last)| before.server == last.server)
    }

    /// Checks that a hold really ended, for the reported reason.
    pub(super) fn check_end(
        &mut self,
        task: usize,
        holders: &[Holder],
        reason: End,
        world: &World,
    ) {
        let Some((before, last)) = self.window(task) else { return };
        let [holder] = holders else { return };
        let who = &holder.client;
        let past: Vec<_> =
            world.tasks[task].past[last.server].between(before.from, last.to).collect();
        let causes = past.windows(2).filter_map(|pair| match pair {
            [one, next] => (one.state.held_by(who) && !next.state.held_by(who))
                .then_some((next.at, next.cause)),
            _ => None,
        });
        // It was over in the millisecond in which it was read.
        let at_once = past.first().filter(|since| {
            !since.state.held_by(who) && before.states.iter().any(|read| read.held_by(who))
        });
        let mut causes = at_once.map(|since| (since.at, since.cause)).into_iter().chain(causes);
        let (first, more) = (causes.next(), causes.next());
        let mut deadlines = past
            .iter()
            .filter(|since| since.state.held_by(who))
            .map(|since| since.state.deadline());
        let shortened = deadlines.next_back() != before.states.last().map(LockState::deadline);
        // A batch reports on its data at its end.
        let (generation, reported) = (
            data_changed(world, last.server, before.from..=last.to),
            data_changed(world, last.server, before.from..=last.whole),
        );
        // A take-over within the noise of the deadline counts as an expiry. A deadline read as the
        // remaining time may seem to end slightly earlier.
        let noise_ms = if self.exact { NOISE_MS } else { 3 * NOISE_MS };
        let held = before.states.iter().filter(|state| state.held_by(who));
        let deadline = held.filter_map(|state| state.deadline()).min();
        let passed = deadline.is_some_and(|deadline| deadline - noise_ms <= last.clock_after);
        let apart_ms = last.to - before.from;
        let shape = &world.plan.tasks[task];
        // A deadline that has passed has not passed by a clock that was put back since.
        let true_ms = i64::try_from(last.to - before.to).unwrap_or(0);
        let stepped = ((last.clock - before.clock) - true_ms).abs() > STEP_MS;
        let to_and_fro = clock_steps(world, last.server, before.from..=last.to) > 1;
        let fits = match (first, more) {
            // The same guard holds it again, as another holder.
            (None, _) => world.held_again(task, who, before.from, last.to).is_some(),
            // There was more than one end, and the readings do not show which.
            (Some(_), Some(_)) => true,
            (Some((at, cause)), None) => match (cause, reason) {
                (_, End::Unknown) | (Cause::Odd, _) => true,
                (Cause::Expired, End::Lost) if (stepped || shortened) && generation => true,
                // The deciding clock stepped. The round after that is not believed, so the deadline
                // has passed by then.
                (Cause::Expired, End::Expired) => true,
                // It had set that end itself.
                (Cause::Expired, End::EndedEarly) if world.has_left(task, who) => true,
                (_, End::EndedEarly) if passed && world.has_kept(task, who) => true,
                // Its lease was shortened after it was read, or the clock stepped forward and back
                // unseen.
                (Cause::Expired, End::EndedEarly | End::Replaced)
                    if !passed && (shortened || !stepped || to_and_fro) =>
                {
                    true
                }
                // If reading the remaining time was slow, or leases differ, the next hold seems to
                // have begun earlier. A hold with a shortened lease may have been over before the
                // end that was seen.
                (Cause::Expired, End::Replaced) => {
                    shortened
                        || self.has_other_lease(task, last, world)
                        || (!self.exact && last.from != last.to)
                        || shape.churns
                        || shape.fixed
                }
                (Cause::Expired, _) => false,
                (Cause::Worker | Cause::Deleted, End::EndedEarly | End::Replaced) => true,
                (Cause::Worker | Cause::Deleted, End::Lost) => reported,
                // Gone, and the deadline has passed by the server's own clock when it answered.
                (_, End::Expired) => passed,
                (Cause::Lost, End::Lost) => true,
                // Evictions prove nothing, and neither does a flush of another database.
                (Cause::Lost, End::EndedEarly | End::Replaced) => {
                    evicted(world, last.server, at)
                        || self.unproven(before, last, world)
                        || reported_early(before, world)
                        || self.rewritten(task, before, last, world)
                        || apart_ms > REWRITTEN_MS
                }
            },
        };
        if !fits {
            let name = &world.plan.spec.tasks[task].name;
            let what = format!(
                "{name}: the hold of {} is said to have ended as {}, but on server {} it ended \
                 {:?} (readings {} ms apart, deadline passed: {passed})",
                String::from_utf8_lossy(who),
                reason.name(),
                last.server,
                first,
                apart_ms
            );
            self.blame(world, "end", what);
        }
    }

    /// Whether the present hold was taken with another lease than that of the task.
    fn has_other_lease(&self, task: usize, last: &Answer, world: &World) -> bool {
        let past = world.tasks[task].past[last.server].between(last.to, last.to);
        let clock = &world.servers[last.server].clock;
        let lease = |since: &Since| Some(since.state.deadline()? - clock.shown_at(since.at)?);
        let lease_ms = i64::try_from(world.plan.tasks[task].lease_ms).unwrap_or(0);
        past.last().and_then(lease).is_some_and(|ms| (ms - lease_ms).abs() > LEASE_NOISE_MS)
    }

    /// A switch was written after the data were lost, so the state looks as if nothing had been
    /// flushed.
    fn rewritten(&self, task: usize, before: &Answer, last: &Answer, world: &World) -> bool {
        let within =
            |it: &&Generation| it.server == last.server && (before.from..=last.to).contains(&it.at);
        let lost = world.generations.iter().rfind(within);
        lost.is_some_and(|lost| world.tasks[task].wanting[last.server].written >= lost.at)
    }

    /// Whether the only events that could have lost a lock are evictions, and flushes that the
    /// switches prove to be of another database.
    fn unproven(&self, before: &Answer, last: &Answer, world: &World) -> bool {
        let mut others = world
            .generations
            .iter()
            .filter(|it| it.server == last.server && (before.from..=last.to).contains(&it.at));
        !others.any(|it| !matches!(it.what, What::Eviction | What::OtherFlush))
    }

    /// Checks a lock reported as lost although its holder lived.
    pub(super) fn check_lost(
        &mut self,
        task: usize,
        holders: &[Holder],
        sign: LossSign,
        world: &World,
    ) {
        let Some((before, last)) = self.window(task) else { return };
        let [holder] = holders else { return };
        let who = &holder.client;
        let facts = &world.tasks[task];
        // Whether the lock had expired at any time before this; its newest hold was perhaps never
        // seen.
        let was_over = |instant: u64| {
            let past: Vec<_> = facts.past[last.server].between(0, last.to).collect();
            let mut ends = past.windows(2).filter_map(|pair| match pair {
                [one, next] => {
                    (one.state.held_by(who) && next.cause == Cause::Expired).then_some(next.at)
                }
                _ => None,
            });
            let first = ends.next();
            // If workers take turns within an interval, the observed hold may have been released
            // after its deadline, and the sign may come from an unseen hold.
            world.plan.tasks[task].churns || first.is_none_or(|first| first <= instant)
        };
        let fits = match sign {
            LossSign::Data => data_changed(world, last.server, before.from..=last.whole),
            // The claim continued after the hold expired.
            LossSign::Claim => {
                let newest = facts.claims.get(who).map(|claim| claim.newest);
                newest.is_none_or(was_over)
            }
            LossSign::Progress => was_over(facts.progress_at),
        };
        if !fits {
            let name = &world.plan.spec.tasks[task].name;
            let what = format!(
                "{name}: {} is said to have lost its lock by its {}, but it did not",
                String::from_utf8_lossy(who),
                sign.name()
            );
            self.blame(world, "lost", what);
        }
    }

    /// Only a server that the majority of the Sentinels named recently may be believed. An answer
    /// of a Sentinel counts for two intervals, a batch may be in flight for as long as the timeout,
    /// and a delayed answer adds a second.
    pub(super) fn check_ruler(&mut self, server: usize, world: &World) {
        if self.kind != RedisKind::Sentinel {
            return;
        }
        let grace = self.interval_ms * 2 + self.timeout_ms + 1_500;
        let rulers = &world.rulers;
        let reigns = rulers.iter().enumerate().any(|(position, (_, ruler))| {
            let until = rulers.get(position + 1).map_or(u64::MAX, |(next, _)| *next);
            *ruler == server && until.saturating_add(grace) >= world.now
        });
        if !reigns {
            self.blame(
                world,
                "ruler",
                format!("believed server {server}, which no majority has named lately"),
            );
        }
    }

    /// Checks a finished handover: it was as long as its gap, and the agent was not blind when it
    /// ended.
    pub(super) fn check_handover(&mut self, task: usize, gap_ms: u64, world: &World) {
        let facts = &self.tasks[task];
        if facts.mixed || facts.newest != Newest::Answered {
            return;
        }
        let Some(handover) = facts.reference.ended() else { return };
        if handover.unseen || handover.ms != gap_ms {
            let name = &world.plan.spec.tasks[task].name;
            let what = format!(
                "{name}: a handover of {gap_ms} ms is said, the readings prove {handover:?}"
            );
            self.blame(world, "handover", what);
        }
    }
}
