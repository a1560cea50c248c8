//! The true state: who holds each lock on each server and since when, and how earlier holds ended.
//! It is written when the world changes, and read only by the oracle.

use std::collections::VecDeque;

use lockwatch_judge::spec::Unit;

use crate::plan::Keeps;
use crate::server::{Clock, EPOCH_MS, Entry, Value};

/// Length of the history kept, in milliseconds. It is longer than any blindness of an agent.
const KEPT_MS: u64 = 1_500_000;

/// How what guards a task is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    Redisson,
    Text,
    /// A hash that names whose turn it is, with instants in this unit.
    Turn(Unit),
    /// A sorted set of delayed tasks.
    Queue,
}

/// Somebody who has the turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    pub(crate) name: Vec<u8>,
    /// From when on, by the server's clock, in milliseconds; 0: at once.
    pub(crate) due: i64,
}

impl Turn {
    /// What a field says; `None`: it is no instant, or years away.
    pub(crate) fn of((name, value): &(Vec<u8>, Vec<u8>), unit: Unit) -> Option<Turn> {
        let value: i64 = std::str::from_utf8(value).ok()?.parse().ok()?;
        let due = match unit {
            Unit::Milliseconds => value,
            Unit::Seconds => value.checked_mul(1_000)?,
        };
        let is_near = due == 0 || (due - EPOCH_MS).abs() < YEARS_MS;
        is_near.then(|| Turn { name: name.clone(), due })
    }
}

/// An instant that is further away than this is nonsense.
const YEARS_MS: i64 = 300_000_000_000;

/// A lock as stored in the data of its server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LockState {
    #[default]
    Free,
    Held {
        /// The holders, sorted: the instance as an agent shows it, and the number of entries.
        holders: Vec<(Vec<u8>, u32)>,
        deadline: Option<i64>,
    },
    /// Those that have the turn, sorted.
    Turn(Vec<Turn>),
    /// There are delayed tasks.
    Queue,
    /// The key contains something else.
    Other,
}

impl LockState {
    pub(crate) fn of(entry: Option<&Entry>, layout: Layout) -> LockState {
        let Some(entry) = entry else { return LockState::Free };
        match &entry.value {
            Value::Scores(..) if layout == Layout::Queue => LockState::Queue,
            Value::Hash(fields) if let Layout::Turn(unit) = layout => {
                let turns: Option<Vec<Turn>> =
                    fields.iter().map(|field| Turn::of(field, unit)).collect();
                let Some(mut turns) = turns else { return LockState::Other };
                turns.sort_unstable();
                LockState::Turn(turns)
            }
            Value::Text(token) if layout == Layout::Text => {
                LockState::Held { holders: vec![(token.clone(), 1)], deadline: entry.deadline }
            }
            Value::Hash(fields) if layout == Layout::Redisson => {
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
            LockState::Free | LockState::Turn(_) | LockState::Queue | LockState::Other => None,
        }
    }
}

/// Why a lock changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Its holder took, renewed or released it.
    Worker,
    /// It expired.
    Expired,
    /// A client deleted it.
    Deleted,
    /// The server lost it: flushed, restarted without data or with an old file, evicted, or never
    /// replicated.
    Lost,
    /// A step of the plan made it malformed on purpose.
    Odd,
}

/// A state of a lock, its beginning and its cause.
#[derive(Clone, Debug)]
pub(crate) struct Since {
    pub(crate) at: u64,
    pub(crate) state: LockState,
    pub(crate) cause: Cause,
}

/// The history of one lock on one server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    states: VecDeque<Since>,
}

impl Past {
    /// Records that a hold expired by `now`, if it did.
    pub(crate) fn settle(&mut self, clock: &Clock, now: u64) {
        let Some(last) = self.states.back() else { return };
        let Some(deadline) = last.state.deadline() else { return };
        if clock.at(now) >= deadline {
            let at = clock.when(deadline).clamp(last.at, now);
            self.states.push_back(Since { at, state: LockState::Free, cause: Cause::Expired });
        }
    }

    /// Records that the lock is in this state from `now` on.
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

    /// All states, newest first.
    pub(crate) fn latest(&self) -> impl Iterator<Item = &Since> {
        self.states.iter().rev()
    }

    /// Since when the same holder has the lock, if it is held.
    pub(crate) fn held_since(&self) -> u64 {
        let Some(newest) = self.states.back() else { return 0 };
        let LockState::Held { holders, .. } = &newest.state else { return newest.at };
        let stays = |since: &&Since| holders.iter().any(|(who, _)| since.state.held_by(who));
        self.states.iter().rev().take_while(stays).last().map_or(newest.at, |since| since.at)
    }

    /// All states in force at any instant from `from` to `to`, oldest first.
    pub(crate) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = &Since> {
        let first = self.states.partition_point(|since| since.at <= from).saturating_sub(1);
        self.states.iter().skip(first).take_while(move |since| since.at <= to)
    }
}

/// A change that may lose data of a server.
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
    /// A flush of another database.
    OtherFlush,
    Eviction,
    Promotion,
}
