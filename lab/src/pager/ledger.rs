//! The truth: which notifications must come and which may, as the scenarios write it down while
//! they play.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::stack::Labels;

/// Alerts that wake somebody; all others are warnings.
const PAGES: [&str; 9] = [
    "LockwatchTaskDown",
    "LockwatchTaskSplit",
    "LockwatchTaskStalled",
    "LockwatchSwitchesLost",
    "LockwatchLockLost",
    "LockwatchRedisUnreachable",
    "LockwatchTaskBlind",
    "LockwatchDown",
    "LockwatchAgentRestarting",
];

pub(super) fn is_page(alert: &str) -> bool {
    PAGES.contains(&alert)
}

/// A notification that must or may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) scenario: &'static str,
    /// All labels, `alertname` included.
    pub(super) labels: Labels,
    pub(super) need: Need,
    pub(super) end: End,
}

/// Whether it must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// Not before `due`, and not after `by`.
    Must { due: Instant, by: Instant },
    /// It is true, but nothing is lost without it.
    May,
}

/// When it must resolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Never: nothing was mended.
    Never,
    /// Not before this.
    NotBefore(Instant),
    /// Not before the first, and not after the second.
    Between(Instant, Instant),
    /// Whenever it likes.
    Any,
}

/// Shared by all scenarios of a stage.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Mutex<Vec<Expected>>>);

/// One entry.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    ledger: Ledger,
    at: usize,
}

impl Ledger {
    pub(super) fn write(&self, expected: Expected) -> Entry {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(expected);
        Entry { ledger: self.clone(), at: entries.len() - 1 }
    }

    pub(super) fn entries(&self) -> Vec<Expected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Entry {
    pub(super) fn expected(&self) -> Option<Expected> {
        self.ledger.entries().get(self.at).cloned()
    }

    fn end(&self, end: End) {
        let mut entries = self.ledger.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(self.at) {
            entry.end = end;
        }
    }

    /// What it tells was mended at `at`: it must resolve within `within`, and not before.
    pub(super) fn mended(&self, at: Instant, within: Duration) {
        self.end(End::Between(at, at + within));
    }

    /// It must not resolve before `until`.
    pub(super) fn stays_until(&self, until: Instant) {
        self.end(End::NotBefore(until));
    }

    /// It may resolve at any time.
    pub(super) fn may_end(&self) {
        self.end(End::Any);
    }

    /// It may come later than usual.
    pub(super) fn later_by(&self, more: Duration) {
        let mut entries = self.ledger.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Expected { need: Need::Must { by, .. }, .. }) = entries.get_mut(self.at) {
            *by += more;
        }
    }
}
