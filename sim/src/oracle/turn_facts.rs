//! What the readings of a task showed whose users take turns.

use std::collections::VecDeque;

use lockwatch_judge::spec::{TaskSpec, TurnSpec};
use lockwatch_judge::time::Mono;

use super::found::Answer;
use crate::truth::{LockState, Past, Turn};
use crate::world::World;

/// An answer that takes longer than this does not prove when its fields stood, in milliseconds.
pub(super) const QUICK_MS: u64 = 320;

/// What the readings of one task showed.
#[derive(Debug)]
pub(super) struct TurnFacts {
    pub(super) spec: TurnSpec,
    /// The fields of the newest answer; `None`: none yet, or that is uncertain.
    pub(super) fields: Option<Vec<Turn>>,
    /// Who had the turn last, alone.
    pub(super) holder: Holder,
    /// At least and at most so many turns of each must be counted, and so many unknown names.
    pub(super) taken: Vec<(u64, u64)>,
    pub(super) strangers: (u64, u64),
    /// When each turn that may be had at once was first seen.
    pub(super) first_seen: VecDeque<(Turn, Mono)>,
    /// How often the order may seem to be broken: the servers that answered differed, or an answer
    /// was uncertain.
    pub(super) in_doubt: u64,
    /// What happened before this process began is not its own.
    pub(super) began: u64,
}

#[derive(Clone, Debug)]
pub(super) enum Holder {
    Nobody,
    Is(Turn),
    Unsure,
}

impl TurnFacts {
    pub(super) fn of(spec: &TaskSpec, now: u64) -> Option<TurnFacts> {
        let spec = spec.turn()?.clone();
        Some(TurnFacts {
            fields: Some(Vec::new()),
            holder: Holder::Nobody,
            taken: vec![(0, 0); spec.tasks.len()],
            strangers: (0, 0),
            first_seen: VecDeque::new(),
            in_doubt: 0,
            began: now,
            spec,
        })
    }

    /// A good answer.
    pub(super) fn answered(&mut self, answer: &Answer, is_sure: bool, is_other: bool) {
        self.in_doubt += u64::from(is_other) + u64::from(!is_sure);
        let turns = match answer.states.as_slice() {
            [LockState::Turn(turns)] if is_sure => turns.clone(),
            [LockState::Free] if is_sure => Vec::new(),
            states => {
                // At most one turn is counted: that of the last participant.
                self.doubt();
                let count = states.len() as u64;
                self.strangers.1 += count;
                (self.holder, self.fields) = (Holder::Unsure, None);
                for turn in states.iter().flat_map(turns_in) {
                    self.see(turn, answer.sent);
                }
                return;
            }
        };
        let stranger = |turn: &&Turn| self.spec.position(&turn.name).is_none();
        match &self.fields {
            Some(before) => {
                let is_new = |turn: &&Turn| !before.iter().any(|before| before.name == turn.name);
                let count = u64::from(turns.iter().filter(stranger).any(|turn| is_new(&turn)));
                self.strangers = (self.strangers.0 + count, self.strangers.1 + count);
            }
            None => self.strangers.1 += u64::from(turns.iter().any(|turn| stranger(&turn))),
        }
        for turn in &turns {
            self.see(turn, answer.sent);
        }
        if let [turn] = turns.as_slice() {
            match std::mem::replace(&mut self.holder, Holder::Is(turn.clone())) {
                Holder::Is(before) if before != *turn => {
                    if let Some(at) = self.spec.position(&before.name) {
                        self.taken[at] = (self.taken[at].0 + 1, self.taken[at].1 + 1);
                    }
                }
                Holder::Unsure => self.doubt(),
                Holder::Is(_) | Holder::Nobody => {}
            }
        }
        self.fields = Some(turns);
    }

    fn doubt(&mut self) {
        self.taken.iter_mut().for_each(|(_, most)| *most += 1);
    }

    fn see(&mut self, turn: &Turn, at: Mono) {
        if turn.due <= 0 && !self.first_seen.iter().any(|(seen, _)| seen == turn) {
            self.first_seen.push_back((turn.clone(), at));
        }
        // What has gone for certain is seen again.
        if self.first_seen.len() > 20 {
            self.first_seen.pop_front();
        }
    }

    /// Whether somebody has been late for longer than `max_late`, as the newest answer showed it.
    pub(super) fn may_be_late(&self, answer: &Answer, past: &Past, world: &World) -> bool {
        let clock = &world.servers[answer.server].clock;
        let limit_ms = self.spec.max_late_ms;
        let is_late = |turn: &Turn| {
            if turn.due <= 0 {
                let seen = self.first_seen.iter().find(|(seen, _)| seen == turn);
                return seen.is_some_and(|(_, at)| answer.sent.since_ms(*at) > limit_ms);
            }
            let shown_ms = u64::try_from(answer.clock - turn.due).unwrap_or(0);
            // Of a clock that has stepped since, only the time that the turn has stood is known.
            let stood = since(past, answer.from, |state| turns_in(state).any(|it| it == turn));
            let due = clock.when(turn.due);
            let from = stood.filter(|stood| world.settled_at > *stood);
            let from = from.map_or(due, |stood| stood.min(due));
            shown_ms > limit_ms && (answer.to + QUICK_MS).saturating_sub(from) > limit_ms
        };
        let states = past.between(answer.from, answer.to).map(|since| &since.state);
        answer.states.iter().chain(states).flat_map(turns_in).any(is_late)
    }
}

pub(super) fn turns_in(state: &LockState) -> impl Iterator<Item = &Turn> {
    match state {
        LockState::Turn(turns) => turns.as_slice(),
        _ => &[],
    }
    .iter()
}

/// Since when what `holds` at `then` has done so; `None`: it did not then.
pub(super) fn since(past: &Past, then: u64, holds: impl Fn(&LockState) -> bool) -> Option<u64> {
    let until_then = past.latest().skip_while(|since| since.at > then);
    until_then.take_while(|since| holds(&since.state)).last().map(|since| since.at)
}
