//! Takes in what the agent attempted to read, and what was really found.

use lockwatch_judge::input::Standing;
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::RedisKind;

use super::found::{Answer, Newest};
use super::lost::{Asked, Changed};
use super::reference::Found;
use super::state::{Oracle, STEP_MS};
use crate::agent::Attempt;
use crate::request::{PartTruth, Says};
use crate::truth::LockState;
use crate::world::{LostSwitches, World};

impl Oracle {
    /// Whether its answers may be believed: complete, in time, from a master if needed, and not in
    /// or before the round in which the server's clock stepped.
    pub(super) fn believable(&mut self, attempt: &Attempt) -> bool {
        let (Some(server), Some(truth)) = (attempt.server, &attempt.truth) else { return false };
        let decides = attempt.standing == Standing::Decides;
        if !truth.whole || attempt.took_ms > self.timeout_ms || (decides && !truth.master) {
            return false;
        }
        let ahead_after_ms = truth.clock_ahead_after_ms;
        let before_ms = self.clocks[server].replace(ahead_after_ms).unwrap_or(truth.clock_ahead_ms);
        [before_ms, ahead_after_ms]
            .into_iter()
            .all(|other_ms| (truth.clock_ahead_ms - other_ms).abs() <= STEP_MS)
    }

    pub(super) fn failed(&mut self, task: usize, attempt: &Attempt) {
        let facts = &mut self.tasks[task];
        // A late answer of a server that decided before is outdated.
        let elsewhere = facts.last.as_ref().is_some_and(|last| {
            attempt.server.is_some_and(|server| server != last.server) && last.sent > attempt.sent
        });
        if elsewhere {
            return;
        }
        facts.newest = Newest::Failed;
        facts.unasked();
        facts.blind.get_or_insert(facts.good);
    }

    /// Parts were requested on another server; without `part`, unsuccessfully.
    pub(super) fn answered_parts(
        &mut self,
        task: usize,
        part: Option<&PartTruth>,
        attempt: &Attempt,
        world: &World,
    ) {
        if let (Some(part), Some(server)) = (part, attempt.server) {
            self.read_switches(task, part, attempt.sent, server, world);
        }
        let facts = &mut self.tasks[task];
        let limits = facts.limits;
        match part {
            Some(part) => {
                let open = part.mixed || part.moved;
                facts.lost.unsure |= open;
                facts.hazy |= open;
                facts.reference.unsure |= facts.lost.unsure;
                facts.reference.progress.unsure |= facts.lost.unsure;
                facts.reference.read_parts(attempt.sent, facts.wanted(), limits);
            }
            None => facts.unasked(),
        }
        if limits.stale_after_ms.is_some() {
            let beat =
                part.zip(attempt.server).map(|(part, server)| facts.beat(part, server, world));
            let found = part.and_then(|part| part.progress.as_ref());
            facts.reference.read_progress(attempt.sent, found, beat.unwrap_or_default());
        }
        let is_free =
            facts.last.as_ref().is_some_and(|last| last.states.contains(&LockState::Free));
        let is_unclear = facts.wanted() == Says::Unclear;
        let young = if is_unclear { facts.is_young(None) } else { Some(false) };
        let is_young = young == Some(true);
        facts.hazy |= young.is_none();
        if facts.newest != Newest::Answered || (is_unclear && (is_free || is_young)) {
            facts.hazy |= facts.lost.unsure || is_young && facts.reference.unsure;
            facts.blind.get_or_insert(facts.good);
            facts.in_vain |= facts.newest == Newest::Answered;
        } else {
            facts.hazy |= facts.lost.unsure && facts.says == Says::Unclear;
            // It completes the reading of the lock, at that reading's instant.
            if let (Some(_), Some(last)) = (part, &facts.last) {
                (facts.blind, facts.in_vain) = (None, false);
                facts.good = facts.good.max(last.sent);
            }
        }
    }

    pub(super) fn answered(
        &mut self,
        task: usize,
        part: &PartTruth,
        attempt: &Attempt,
        server: usize,
        world: &World,
    ) {
        if part.moved {
            return self.open(task);
        }
        let earlier = match part.has_lock {
            true => None,
            false => attempt.before.iter().find(|before| before.task == task),
        };
        let sent = earlier.and_then(|before| before.sent).unwrap_or(attempt.sent);
        let main = earlier.unwrap_or(part);
        // The key became malformed, or ceased to be, during the read.
        let odd = |states: &Vec<LockState>| {
            states.len() > 1 && states.iter().any(|it| Found::of(it) == Found::Nothing)
        };
        if main.lock.as_ref().is_some_and(odd) {
            return self.open(task);
        }
        let facts = &mut self.tasks[task];
        if facts.last.as_ref().is_some_and(|last| last.server != server && last.sent > sent) {
            return;
        }
        if main.has_parts || world.tasks[task].keys.switches.is_empty() {
            self.read_switches(task, main, sent, server, world);
        }
        let facts = &mut self.tasks[task];
        if facts.limits.stale_after_ms.is_some() && main.has_parts {
            let beat = facts.beat(part, server, world);
            facts.reference.read_progress(attempt.sent, part.progress.as_ref(), beat);
            facts.reference.progress.unsure |= part.mixed;
        }
        let says = if facts.lost.any() { Says::Yes } else { facts.says };
        let found = match main.lock.as_deref() {
            Some([state]) => Found::of(state),
            Some(states @ [.., last]) => {
                // It found one of these states; the next readings show which.
                facts.reference.perhaps_over(states);
                Found::of(last)
            }
            Some([]) | None => Found::Nothing,
        };
        if let (Some(last), Found::Held { holders, .. }) = (&facts.last, &found)
            && !world.tasks[task].stations.is_empty()
        {
            let again = |who: &[u8]| world.held_again(task, who, last.from, main.ended_at);
            match holders.iter().find_map(|(who, _)| again(who)) {
                Some(true) => facts.reference.held_again(),
                Some(false) => {
                    (facts.reference.unsure, facts.reference.progress.unsure) = (true, true);
                }
                None => {}
            }
        }
        facts.reference.unsure |= main.mixed;
        facts.lost.unsure |= main.mixed;
        facts.mixed = main.mixed;
        if self.kind == RedisKind::Replicated && world.has_rival(server) {
            self.rivals_at = Some(world.now);
        }
        // The other server's reading counts for two intervals and a second, and may have been in
        // flight for as long as the timeout.
        let lately_ms = 2 * self.interval_ms + 1_000 + self.timeout_ms;
        // Where nobody but the servers says who is master, a free lock next to one that another
        // master shows as held says nothing. The one that was read before may have gone meanwhile: what it showed
        // does not go with it.
        let other = facts
            .last
            .as_ref()
            .filter(|last| self.kind == RedisKind::Replicated && last.server != server);
        let mut rivals = self.rivals_at.into_iter().chain(other.map(|last| last.to));
        let contradicts = found == Found::Free && rivals.any(|at| world.now <= at + lately_ms);
        facts.reference.unsure |= contradicts;
        facts.contradicted |= contradicts;
        // A remaining time read before and after other clients were served gives two different
        // deadlines.
        let found = match found {
            Found::Held { holders, .. } if !self.exact && main.began_at != main.ended_at => {
                facts.reference.unsure = true;
                Found::Held { holders, deadline: None }
            }
            other => other,
        };
        let changing = main.lock.as_ref().is_some_and(|states| states.len() > 1);
        let sure = !changing && !main.mixed && !contradicts && !facts.lost.unsure;
        let stepped =
            facts.last.as_ref().filter(|last| last.server == server).is_some_and(|last| {
                let true_ms =
                    i64::try_from(main.ended_at).unwrap_or(0) - i64::try_from(last.to).unwrap_or(0);
                (main.clock - last.clock - true_ms).abs() > STEP_MS
            });
        if stepped {
            facts.reference.clock_stepped(main.clock);
        }
        (facts.reference.server, facts.reference.clock) = (server, main.clock);
        facts.reference.read(sent, &found, says, sure, facts.limits);
        // Uncertainty at the time of the read remains afterwards, because a lost "on" would stay in
        // force.
        facts.reference.unsure |= facts.lost.unsure || main.mixed || changing;
        // Since when it is wanted counts here, too; and since when it is held, which goes on for an
        // agent that does not believe a "free".
        facts.reference.progress.unsure |= part.mixed || facts.lost.unsure || contradicts;
        facts.hazy |= main.mixed || changing;
        if found == Found::Nothing {
            facts.newest = Newest::Failed;
            facts.blind.get_or_insert(facts.good);
            facts.in_vain = true;
            return;
        }
        let was_held = facts
            .last
            .as_ref()
            .is_some_and(|last| matches!(last.states[..], [LockState::Held { .. }]));
        if was_held && !contradicts && !facts.reference.unsure {
            facts.contradicted = false;
        }
        facts.newest = Newest::Answered;
        facts.before = facts.last.take();
        facts.last = Some(Answer {
            sent,
            server,
            from: main.began_at,
            to: main.ended_at,
            whole: main.answered_at.max(main.ended_at),
            states: main.lock.clone().unwrap_or_default(),
            clock: main.clock,
            clock_after: attempt.truth.as_ref().map_or(main.clock, |truth| truth.clock_after),
        });
        let young = match says {
            Says::Unclear => facts.is_young(Some(sent)),
            Says::Yes | Says::No | Says::Unset => Some(false),
        };
        let is_young = young == Some(true);
        if says == Says::Unclear && (found == Found::Free || is_young) {
            // A lost "on" would stay in force, and then the answer counts as sight.
            facts.hazy |= facts.lost.unsure || is_young && facts.reference.unsure;
            facts.blind.get_or_insert(facts.good);
            facts.in_vain = true;
        } else {
            facts.in_vain = false;
            if facts.blind.take().is_some() {
                facts.sees_since = main.began_at;
            }
            facts.good = facts.good.max(attempt.sent);
            facts.hazy = main.mixed
                || changing
                || young.is_none()
                || (facts.lost.unsure && facts.says == Says::Unclear);
        }
        self.update_overlap(task, world);
        self.follow_turns(task);
    }

    /// The keys moved to another server, or became malformed, during the read. It is unknown what
    /// was found before that.
    fn open(&mut self, task: usize) {
        let facts = &mut self.tasks[task];
        facts.newest = Newest::Open;
        (facts.reference.unsure, facts.reference.unwanted_unsure) = (true, true);
        (facts.lost.unsure, facts.mixed, facts.hazy) = (true, true, true);
    }

    pub(super) fn read_switches(
        &mut self,
        task: usize,
        part: &PartTruth,
        sent: Mono,
        server: usize,
        world: &World,
    ) {
        let facts = &mut self.tasks[task];
        let now = Asked {
            server,
            from: part.began_at,
            to: part.ended_at,
            whole: part.answered_at.max(part.ended_at),
        };
        match &part.switches {
            // There are no switches, or they are constant.
            Some(None) => facts.says = part.says,
            None => facts.says = Says::Unclear,
            Some(Some(switches)) => {
                facts.says = part.says;
                let changed = match facts.switches_at {
                    Some(before) => Changed::between(before, now, world),
                    None => Changed::default(),
                };
                let since = facts.switches_at.map_or(0, |before| before.from);
                let lately = |lost: &&LostSwitches| {
                    lost.server == server && (since..=now.to).contains(&lost.at)
                };
                let lost = world.tasks[task]
                    .lost_switches
                    .iter()
                    .filter(lately)
                    .flat_map(|lost| &lost.users);
                facts.lost.read(sent, switches, changed, part.mixed, |user| {
                    lost.clone().any(|other| other == user)
                });
                facts.switches_at = Some(now);
            }
        }
    }
}
