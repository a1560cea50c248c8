//! What really is so: who holds each lock on each server since when, and what became of the holds
//! before. It is written where the world changes, and read by the oracle alone.

use std::collections::VecDeque;

use crate::plan::Keeps;
use crate::server::{Clock, Entry, Value};

/// How long the past is kept: longer than any agent is blind.
const KEPT_MS: u64 = 1_500_000;

/// A lock as its server's data have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LockState {
    #[default]
    Free,
    Held {
        /// Who, sorted: what an agent shows as the instance, and how often it entered.
        holders: Vec<(Vec<u8>, u32)>,
        deadline: Option<i64>,
    },
    /// The key holds something else.
    Other,
}

impl LockState {
    pub(crate) fn of(entry: Option<&Entry>, redisson: bool) -> LockState {
        let Some(entry) = entry else { return LockState::Free };
        match &entry.value {
            Value::Text(token) if !redisson => {
                LockState::Held { holders: vec![(token.clone(), 1)], deadline: entry.deadline }
            }
            Value::Hash(fields) if redisson => {
                let mut holders = Vec::with_capacity(fields.len());
                for (field, count) in fields {
                    let colon = field.iter().rposition(|byte| *byte == b':');
                    let count =
                        std::str::from_utf8(count).ok().and_then(|count| count.parse().ok());
                    let (Some(colon), Some(count)) = (colon, count) else {
                        return LockState::Other;
                    };
                    holders.push((field[..colon].to_vec(), count));
                }
                holders.sort_unstable();
                LockState::Held { holders, deadline: entry.deadline }
            }
            _ => LockState::Other,
        }
    }

    pub(crate) fn held_by(&self, client: &[u8]) -> bool {
        matches!(self, LockState::Held { holders, .. } if holders.iter().any(|(holder, _)| holder == client))
    }

    pub(crate) fn deadline(&self) -> Option<i64> {
        match self {
            LockState::Held { deadline, .. } => *deadline,
            LockState::Free | LockState::Other => None,
        }
    }
}

/// Why a lock changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its holder did it: took, renewed, released.
    Worker,
    /// Its time was over.
    Expired,
    /// Somebody deleted it.
    Deleted,
    /// The server lost it: flushed, restarted with nothing or an old file, evicted, or never
    /// replicated.
    Lost,
    /// Something odd was done to it on purpose.
    Odd,
}

/// A state of a lock, since when, and why.
#[derive(Clone, Debug)]
pub(crate) struct Since {
    pub(crate) at: u64,
    pub(crate) state: LockState,
    pub(crate) cause: Cause,
}

/// One lock on one server over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    states: VecDeque<Since>,
}

impl Past {
    /// Notes that a hold's time was over by `now`, if it was.
    pub(crate) fn settle(&mut self, clock: &Clock, now: u64) {
        let Some(last) = self.states.back() else { return };
        let Some(deadline) = last.state.deadline() else { return };
        if clock.at(now) >= deadline {
            let at = clock.when(deadline).clamp(last.at, now);
            self.states.push_back(Since { at, state: LockState::Free, cause: Cause::Expired });
        }
    }

    /// The lock is in this state from `now` on.
    pub(crate) fn note(&mut self, state: LockState, cause: Cause, clock: &Clock, now: u64) {
        self.settle(clock, now);
        if self.states.back().is_some_and(|last| last.state == state) {
            return;
        }
        self.states.push_back(Since { at: now, state, cause });
        while self.states.len() > 2
            && self.states.get(1).is_some_and(|second| second.at + KEPT_MS < now)
        {
            self.states.pop_front();
        }
    }

    /// The newest state.
    pub(crate) fn newest(&self) -> Option<&Since> {
        self.states.back()
    }

    /// All states, the newest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Since> {
        self.states.iter().rev()
    }

    /// Since when the same holder has it, if somebody does.
    pub(crate) fn held_since(&self) -> u64 {
        let Some(newest) = self.states.back() else { return 0 };
        let LockState::Held { holders, .. } = &newest.state else { return newest.at };
        let stays = |since: &&Since| holders.iter().any(|(who, _)| since.state.held_by(who));
        self.states.iter().rev().take_while(stays).last().map_or(newest.at, |since| since.at)
    }

    /// All states that were in force at some instant from `from` to `to`, oldest first.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &Since> {
        let first = self.states.partition_point(|since| since.at <= from).saturating_sub(1);
        self.states.iter().skip(first).take_while(move |since| since.at <= to)
    }
}

/// A change that may cost a server its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generation {
    pub(crate) at: u64,
    pub(crate) server: usize,
    pub(crate) what: What,
}

/// What changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Restart(Keeps),
    Flush,
    /// Of another database.
    OtherFlush,
    Eviction,
    Promotion,
}
