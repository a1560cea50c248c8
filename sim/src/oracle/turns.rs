//! Tasks that take turns: whose turn it is, splits, what is late, what is counted. Whether it is
//! nobody's turn is checked as for a lock that is free.

use lockwatch_judge::event::{Party, SplitKind};
use lockwatch_judge::problems::{Problem, task_finding};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;

use super::found::Newest;
use super::state::Oracle;
use super::turn_facts::{QUICK_MS, since, turns_in};
use crate::agent::MONO_MS;
use crate::request::Says;
use crate::truth::{LockState, Turn};
use crate::world::World;

/// The engine shows with its next tick what follows from a reading, and answers take a while.
const SHOWN_MS: u64 = 1_500;
/// Evidence of a split is at most so old when it is reported, in milliseconds.
const MET_MS: u64 = 60_000;

impl Oracle {
    /// A good answer about turns was taken in.
    pub(super) fn follow_turns(&mut self, task: usize) {
        let facts = &mut self.tasks[task];
        let (Some(turns), Some(last)) = (&mut facts.turns, &facts.last) else { return };
        let is_sure = !facts.contradicted;
        let is_other = facts.before.as_ref().is_some_and(|before| before.server != last.server);
        turns.answered(last, is_sure, is_other);
    }

    /// Whether two of the parties stood next to each other, with the same values, for as long as
    /// their handover takes.
    pub(super) fn stood_together(&self, task: usize, parties: &[Party], world: &World) -> bool {
        let Some(turns) = &self.tasks[task].turns else { return false };
        let is_party = |turn: &&Turn| parties.iter().any(|party| party.holder.client == turn.name);
        let from = world.now.saturating_sub(MET_MS + turns.spec.handover_ms);
        world.tasks[task].past.iter().any(|past| {
            let states: Vec<_> = past.between(from, world.now).collect();
            let pairs = states.iter().flat_map(|since| {
                let there: Vec<&Turn> = turns_in(&since.state).filter(is_party).collect();
                let pairs: Vec<(&Turn, &Turn)> = there
                    .iter()
                    .enumerate()
                    .flat_map(|(at, one)| there[..at].iter().map(move |other| (*other, *one)))
                    .collect();
                pairs
            });
            let stood_ms = |(one, other): (&Turn, &Turn)| {
                let ends = states.iter().skip(1).map(|since| since.at).chain([world.now]);
                let (mut longest_ms, mut began) = (0, None);
                for (since, end) in states.iter().zip(ends) {
                    let both = [one, other]
                        .iter()
                        .all(|turn| turns_in(&since.state).any(|there| there == *turn));
                    began = both.then(|| began.unwrap_or(since.at));
                    longest_ms = longest_ms.max(began.map_or(0, |began| end - began));
                }
                longest_ms
            };
            let mut long = pairs.map(stood_ms);
            long.any(|ms| ms + QUICK_MS >= turns.spec.handover_ms)
        })
    }

    /// What is shown of turns must be what was read.
    pub(super) fn check_turns(&mut self, task: usize, view: &TaskView, at: Mono, world: &World) {
        let facts = &self.tasks[task];
        let (Some(turns), Some(shown)) = (&facts.turns, view.turn()) else { return };
        let name = &view.spec.name;
        let mut wrong = Vec::new();
        for (taken, (least, most)) in shown.taken.iter().zip(&turns.taken) {
            if !(least..=most).contains(&&taken.turns) {
                let who = String::from_utf8_lossy(&taken.name);
                wrong.push((
                    "taken",
                    format!(
                        "{name}: {} turns of {who} are counted, the readings showed {least} to \
                         {most}",
                        taken.turns
                    ),
                ));
            }
        }
        let (least, most) = turns.strangers;
        if !(least..=most).contains(&shown.unknown_names) {
            wrong.push((
                "unknown name",
                format!(
                    "{name}: {} unknown names are counted, the readings showed {least} to {most}",
                    shown.unknown_names
                ),
            ));
        }
        let real = world.tasks[task].turns.as_ref();
        let broken = real.map_or(0, |real| {
            real.disorders.iter().filter(|at| **at + MET_MS >= turns.began).count() as u64
        });
        if shown.out_of_order.unwrap_or(0) > broken + turns.in_doubt {
            wrong.push((
                "order",
                format!(
                    "{name}: the order is said to have been broken {:?} times, it was {broken} \
                     times",
                    shown.out_of_order
                ),
            ));
        }
        let is_sure = facts.newest == Newest::Answered && !facts.hazy && !facts.contradicted;
        if let (true, Some(last)) = (is_sure, &facts.last) {
            let count = shown.fields.unwrap_or(usize::MAX);
            let fits = |state: &LockState| {
                let mut there = turns_in(state);
                turns_in(state).count() == count
                    && (count != 1 || there.next().map(|turn| &turn.name) == shown.name.as_ref())
            };
            if !last.states.iter().any(fits) {
                wrong.push((
                    "reading",
                    format!("{name}: {shown:?} is shown, {:?} was read", last.states),
                ));
            }
            let late = task_finding(Problem::Stalled, view, at).is_positive();
            let past = &world.tasks[task].past[last.server];
            let wanted_ms =
                facts.reference.wanted_since().map_or(0, |since| last.sent.since_ms(since));
            let wanted = match facts.wanted() {
                Says::Yes => wanted_ms > turns.spec.max_late_ms,
                Says::Unset | Says::Unclear => true,
                Says::No => false,
            };
            let is_clear = !facts.lost.unsure && !facts.mixed;
            let may_be = turns.may_be_late(last, past, world) && (wanted || !is_clear);
            if late && !may_be {
                wrong.push((
                    "stalled",
                    format!(
                        "{name}: late by {} ms is said; {:?} was read at {} of the server's \
                         clock, wanted for {wanted_ms} ms",
                        shown.late_ms, last.states, last.clock
                    ),
                ));
            }
        }
        for (check, what) in wrong {
            self.blame(world, check, what);
        }
    }

    /// A true split and a late turn must be reported in time. `known_by`: since when this agent
    /// sees all.
    pub(super) fn check_turns_live(
        &mut self,
        task: usize,
        view: &TaskView,
        (at, known_by): (Mono, u64),
        world: &World,
    ) {
        let Some(turns) = &self.tasks[task].turns else { return };
        let now = at.ms() - MONO_MS;
        let server = world.homes[task];
        let past = &world.tasks[task].past[server];
        let Some(LockState::Turn(there)) = past.newest().map(|since| &since.state) else { return };
        let later_ms = 2 * self.interval_ms + SHOWN_MS;
        let is_there = |turn: &Turn, state: &LockState| turns_in(state).any(|it| it == turn);
        let mut stand: Vec<u64> = there
            .iter()
            .filter_map(|turn| since(past, now, |state| is_there(turn, state)))
            .collect();
        stand.sort_unstable();
        let name = &view.spec.name;
        let is_shown = |problem| task_finding(problem, view, at).is_positive();
        let mut missing = Vec::new();
        if let Some(both) = stand.get(1) {
            let due = known_by.max(*both) + turns.spec.handover_ms + later_ms;
            let is_said = view.splits.iter().any(|split| split.kind == SplitKind::Turns);
            if now > due && !(is_said && is_shown(Problem::Split)) {
                missing.push((
                    "missed split",
                    format!("{name}: {there:?} have stood since {both}, and no split is said"),
                ));
            }
        }
        let says = &world.tasks[task].wanting[world.part_homes[task]];
        let counts = matches!(says.says, Says::Yes | Says::Unset);
        let wanted_since = if says.says == Says::Yes { says.since } else { 0 };
        let late = |turn: &Turn| {
            let from = match turn.due > 0 {
                true => world.servers[server].clock.when(turn.due),
                // Only a turn that somebody has alone has a beginning.
                false => since(past, now, |state| *state == LockState::Turn(vec![turn.clone()]))?,
            };
            let stood = since(past, now, |state| is_there(turn, state))?;
            let from = from.max(wanted_since).max(known_by).max(stood);
            (now > from + turns.spec.max_late_ms + later_ms).then_some(from)
        };
        if counts
            && let Some(from) = there.iter().find_map(late)
            && !is_shown(Problem::Stalled)
        {
            missing.push((
                "missed stalled",
                format!(
                    "{name}: {there:?} has been late for {} ms, shown is {} ms",
                    now - from,
                    view.durations.stalled_ms
                ),
            ));
        }
        for (check, what) in missing {
            self.blame(world, check, what);
        }
    }
}
