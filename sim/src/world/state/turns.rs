//! Those that take turns, and what really happened to their turns.

use std::collections::VecDeque;

use crate::plan::{TurnAct, TurnPlan};
use crate::truth::{LockState, Turn};

/// Those that take turns, and what really happened to their turns.
#[derive(Debug)]
pub(crate) struct Turns {
    pub(crate) plan: TurnPlan,
    pub(in crate::world) workers: Vec<TurnWorker>,
    /// What shall happen at the next passing, and for how long.
    pub(in crate::world) next: Option<(TurnAct, u64)>,
    /// Somebody will set the first turn then.
    pub(in crate::world) kick_at: Option<u64>,
    /// The newest turn that somebody had alone on each server, since when, and until when.
    alone: Vec<Option<(Turn, u64, Option<u64>)>>,
    /// Turns on any server that came to another one than the next, or were too short to be seen.
    pub(crate) disorders: VecDeque<u64>,
}

/// One of them.
#[derive(Clone, Debug, Default)]
pub(in crate::world) struct TurnWorker {
    /// It does nothing until then.
    pub(in crate::world) stopped_until: u64,
    /// The turn that it waits for, or works in.
    pub(in crate::world) takes: Option<Turn>,
}

impl Turns {
    pub(crate) fn new(plan: &TurnPlan, servers: usize) -> Turns {
        Turns {
            plan: plan.clone(),
            workers: vec![TurnWorker::default(); plan.names.len()],
            next: None,
            kick_at: None,
            alone: vec![None; servers],
            disorders: VecDeque::new(),
        }
    }

    pub(in crate::world) fn position(&self, name: &[u8]) -> Option<usize> {
        self.plan.names.iter().position(|known| known == name)
    }

    /// Records what a server's hash shows now.
    pub(in crate::world) fn note(
        &mut self,
        server: usize,
        state: &LockState,
        least_ms: u64,
        now: u64,
    ) {
        let turn = match state {
            LockState::Turn(turns) if turns.len() == 1 => turns.first(),
            _ => None,
        };
        let before = self.alone[server].take();
        let Some(turn) = turn else {
            self.alone[server] =
                before.map(|(turn, since, until)| (turn, since, until.or(Some(now))));
            return;
        };
        self.alone[server] = match before {
            Some((before, since, until)) if before != *turn => {
                let next = self.position(&before.name).map(|at| (at + 1) % self.plan.names.len());
                let is_next = next.is_some() && next == self.position(&turn.name);
                if !is_next || since + least_ms > until.unwrap_or(now) {
                    self.disorders.push_back(now);
                }
                Some((turn.clone(), now, None))
            }
            Some((turn, since, _)) => Some((turn, since, None)),
            None => Some((turn.clone(), now, None)),
        };
    }
}
