//! The truth: which notifications must and which may come. The scenarios record it while they play.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::stack::Labels;

/// Alerts that page a person; all others are warnings.
const PAGES: [&str; 11] = [
    "LockwatchTaskDown",
    "LockwatchTaskSplit",
    "LockwatchTaskStalled",
    "LockwatchTaskFailing",
    "LockwatchTaskOverdue",
    "LockwatchSwitchesLost",
    "LockwatchLockLost",
    "LockwatchStoreUnreachable",
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
    /// All labels, including `alertname`.
    pub(super) labels: Labels,
    pub(super) need: Need,
    pub(super) end: End,
}

/// Whether the notification must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// It must come between `due` and `by`.
    Must { due: Instant, by: Instant },
    /// It may come, at any time or only between these instants: it is true, but its absence is no
    /// mistake either.
    May(Option<(Instant, Instant)>),
}

/// When the alert must resolve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Never: the cause was not fixed.
    Never,
    /// Not before this instant.
    NotBefore(Instant),
    /// Between these instants.
    Between(Instant, Instant),
    /// At any time.
    Any,
}

/// What a scenario measured besides alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) scenario: &'static str,
    pub(super) text: String,
    /// Whether it is as promised.
    pub(super) kept: bool,
}

/// The expectations and notes of all scenarios of a stage. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger(Arc<Mutex<(Vec<Expected>, Vec<Note>)>>);

/// One expectation in the ledger.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    ledger: Ledger,
    at: usize,
}

impl Ledger {
    pub(super) fn write(&self, expected: Expected) -> Entry {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.0.push(expected);
        Entry { ledger: self.clone(), at: lines.0.len() - 1 }
    }

    pub(super) fn entries(&self) -> Vec<Expected> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    pub(super) fn note(&self, scenario: &'static str, text: String) {
        self.promise(scenario, true, text);
    }

    pub(super) fn promise(&self, scenario: &'static str, kept: bool, text: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.1.push(Note { scenario, text, kept });
    }

    pub(super) fn notes(&self) -> Vec<Note> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }
}

impl Entry {
    pub(super) fn expected(&self) -> Option<Expected> {
        self.ledger.entries().get(self.at).cloned()
    }

    fn end(&self, end: End) {
        let mut lines = self.ledger.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = lines.0.get_mut(self.at) {
            entry.end = end;
        }
    }

    /// The cause was fixed at `at`: the alert must resolve after that, within `within`.
    pub(super) fn mended(&self, at: Instant, within: Duration) {
        self.end(End::Between(at, at + within));
    }

    /// The alert must not resolve before `until`.
    pub(super) fn stays_until(&self, until: Instant) {
        self.end(End::NotBefore(until));
    }

    /// The alert may resolve at any time.
    pub(super) fn may_end(&self) {
        self.end(End::Any);
    }

    /// Extends the time until the notification must come.
    pub(super) fn later_by(&self, more: Duration) {
        let mut lines = self.ledger.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Expected { need: Need::Must { by, .. }, .. }) = lines.0.get_mut(self.at) {
            *by += more;
        }
    }
}
