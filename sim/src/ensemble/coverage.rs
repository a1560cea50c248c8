//! Counts what occurred to an ensemble. A run in which no server lost its majority proves nothing
//! about those that do.

use std::collections::BTreeMap;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::verdict::Verdict;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    /// A majority elected a leader.
    Election,
    /// A server answered from the past.
    PastAnswer,
    /// A server granted no session.
    Refused,
    /// A server was behind what the agent had seen.
    BehindAtConnect,
    /// The watcher left a server that was behind.
    LeftBehind,
    /// The watcher ended a session.
    Farewell,
    /// The watcher closed a connection to a server that served.
    Closed,
    /// Data went back.
    Restored,
    /// The state learned of that.
    LineChanged,
    /// A worker's node ended with its session.
    Expired,
    /// A free lock that is wanted was read.
    WantedFree,
    /// A lock has another holder than before.
    TakenOver,
}

const ALL: [Seen; 12] = [
    Seen::Election,
    Seen::PastAnswer,
    Seen::Refused,
    Seen::BehindAtConnect,
    Seen::LeftBehind,
    Seen::Farewell,
    Seen::Closed,
    Seen::Restored,
    Seen::LineChanged,
    Seen::Expired,
    Seen::WantedFree,
    Seen::TakenOver,
];

/// Verdicts that no lock without claims can have.
const IMPOSSIBLE: [Verdict; 1] = [Verdict::Split];
/// Reasons that must occur.
const REASONS: [Unknown; 5] =
    [Unknown::Quorum, Unknown::Timeout, Unknown::Closed, Unknown::Connect, Unknown::Behind];

/// Counts of what occurred.
#[derive(Clone, Debug, Default)]
pub struct EnsembleCoverage {
    seen: BTreeMap<Seen, u64>,
    unknowns: BTreeMap<Unknown, u64>,
    verdicts: BTreeMap<Verdict, u64>,
    /// Checks of what must be shown by now.
    pub live: u64,
    /// Readings that were compared with the truth.
    pub readings: u64,
}

impl EnsembleCoverage {
    pub(crate) fn saw(&mut self, seen: Seen) {
        *self.seen.entry(seen).or_default() += 1;
    }

    pub(crate) fn unknown(&mut self, why: Unknown) {
        *self.unknowns.entry(why).or_default() += 1;
    }

    pub(crate) fn verdict(&mut self, verdict: Verdict) {
        *self.verdicts.entry(verdict).or_default() += 1;
    }

    /// Adds what occurred in another run.
    pub fn add(&mut self, other: &EnsembleCoverage) {
        fn add<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            from.iter().for_each(|(key, count)| *to.entry(*key).or_default() += count);
        }
        add(&mut self.seen, &other.seen);
        add(&mut self.unknowns, &other.unknowns);
        add(&mut self.verdicts, &other.verdicts);
        self.live += other.live;
        self.readings += other.readings;
    }

    /// What should have occurred and did not.
    pub fn missing(&self) -> Vec<String> {
        let seen = ALL.iter().filter(|it| !self.seen.contains_key(it));
        let mut missing: Vec<String> = seen.map(|it| format!("{it:?}")).collect();
        let verdicts = Verdict::ALL.iter();
        let verdicts =
            verdicts.filter(|it| !self.verdicts.contains_key(it) && !IMPOSSIBLE.contains(it));
        missing.extend(verdicts.map(|it| format!("verdict {}", it.name())));
        let reasons = REASONS.iter().filter(|it| !self.unknowns.contains_key(it));
        missing.extend(reasons.map(|it| format!("unknown {}", it.name())));
        missing
    }

    /// A table for display.
    pub fn table(&self) -> String {
        format!(
            "ensembles  {:?}\n  unknown  {:?}\n  verdicts {:?}\n  readings {}  checks in time {}\n",
            self.seen, self.unknowns, self.verdicts, self.readings, self.live
        )
    }
}
