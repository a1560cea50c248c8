//! Counts what occurred in a run. A run in which a verdict never occurs proves nothing about it.

mod guards;
mod kinds;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use lockwatch_judge::event::{End, Event, EventKind, SplitKind};
use lockwatch_judge::input::{Input, Outcome};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Verdict;

pub(crate) use guards::Seen;
use kinds::OfKind;

/// Reasons that cannot occur here: names are not resolved, no server refuses to report its role,
/// nothing is too large, every announced address is allowed, nobody speaks TLS, no value has a
/// path, no lock stands on several stores, and the connections are configured right.
const IMPOSSIBLE: [Unknown; 25] = [
    // Of ensembles alone, which have a coverage of their own.
    Unknown::Behind,
    Unknown::NeedlessPassword,
    Unknown::Protected,
    Unknown::Database,
    Unknown::NeedsTls,
    Unknown::ActiveReplica,
    Unknown::Sentinel,
    Unknown::NoSentinel,
    Unknown::MasterName,
    Unknown::Cluster,
    Unknown::NoCluster,
    Unknown::Dns,
    Unknown::Tls,
    Unknown::TlsUntrusted,
    Unknown::TlsName,
    Unknown::TlsExpired,
    Unknown::TlsClient,
    Unknown::TlsFiles,
    Unknown::ValuePath,
    Unknown::FewStores,
    Unknown::ForeignAddress,
    Unknown::RoleRefused,
    Unknown::TooLarge,
    Unknown::ServerError,
    Unknown::Unrelated,
];

/// Counts of what occurred.
#[derive(Clone, Debug, Default)]
pub struct Coverage {
    verdicts: BTreeMap<Verdict, u64>,
    unknowns: BTreeMap<Unknown, u64>,
    ends: BTreeMap<End, u64>,
    splits: BTreeMap<SplitKind, u64>,
    /// Locks reported as lost although the holder lived.
    lost: u64,
    /// Switches reported as lost.
    switches_lost: u64,
    /// Snapshots that were checked.
    pub snapshots: u64,
    /// Readings that were checked.
    pub answers: u64,
    /// Failed attempts.
    pub failures: u64,
    /// Changes that servers reported.
    pub announced: u64,
    /// Answers about parts whose locks are on other servers.
    pub parts: u64,
    /// Answered glances at deadlines.
    pub glances: u64,
    /// Batches of several slots.
    pub joined: u64,
    /// Configurations that were loaded again.
    pub reloads: u64,
    /// What occurred to guards.
    guards: BTreeMap<Seen, u64>,
    /// What occurred to turns and queues.
    kinds: BTreeMap<OfKind, u64>,
}

impl Coverage {
    pub(crate) fn view(&mut self, view: &TaskView, at: Mono) {
        OfKind::of_view(view, at).into_iter().for_each(|seen| self.saw_of_kind(seen));
        *self.verdicts.entry(view.verdict).or_default() += 1;
        if let Some(why) = view.unknown {
            self.shown(why);
        }
    }

    /// Counts an input of an agent. Most unreadable states end before the next snapshot, so inputs
    /// are counted, too.
    pub(crate) fn input(&mut self, input: &Input) {
        let Input::Sample(sample) = input else { return };
        let mut add =
            |why: Unknown, tasks: usize| *self.unknowns.entry(why).or_default() += tasks as u64;
        match &sample.outcome {
            Outcome::Failed { tasks, why } => add(*why, tasks.len()),
            Outcome::Read { readings, .. } => {
                for (_, reading) in readings {
                    if let Some(why) = reading.guard.why_unknown() {
                        add(why, 1);
                    }
                }
            }
            Outcome::Parts { attestation, .. } => self.parts += u64::from(attestation.is_some()),
        }
    }

    /// Counts something that occurred to a guard.
    pub(crate) fn saw(&mut self, seen: Seen) {
        *self.guards.entry(seen).or_default() += 1;
    }

    fn saw_of_kind(&mut self, seen: OfKind) {
        *self.kinds.entry(seen).or_default() += 1;
    }

    fn shown(&mut self, why: Unknown) {
        *self.unknowns.entry(why).or_default() += 1;
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if let Some(seen) = OfKind::of_event(&event.kind) {
            self.saw_of_kind(seen);
        }
        match &event.kind {
            EventKind::HoldEnded { reason, .. } => *self.ends.entry(*reason).or_default() += 1,
            EventKind::SplitBegan { kind, .. } => *self.splits.entry(*kind).or_default() += 1,
            EventKind::LockLost { .. } => self.lost += 1,
            EventKind::SwitchesLost { .. } => self.switches_lost += 1,
            _ => {}
        }
    }

    /// Adds what occurred in another run.
    pub fn add(&mut self, other: &Coverage) {
        fn add<K: Ord + Copy>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
            from.iter().for_each(|(key, count)| *to.entry(*key).or_default() += count);
        }
        add(&mut self.verdicts, &other.verdicts);
        add(&mut self.unknowns, &other.unknowns);
        add(&mut self.ends, &other.ends);
        add(&mut self.splits, &other.splits);
        add(&mut self.guards, &other.guards);
        add(&mut self.kinds, &other.kinds);
        self.lost += other.lost;
        self.switches_lost += other.switches_lost;
        self.snapshots += other.snapshots;
        self.answers += other.answers;
        self.failures += other.failures;
        self.announced += other.announced;
        self.parts += other.parts;
        self.glances += other.glances;
        self.joined += other.joined;
        self.reloads += other.reloads;
    }

    /// What should have occurred and did not.
    pub fn missing(&self) -> Vec<String> {
        let verdicts = Verdict::ALL
            .iter()
            .filter(|it| !self.verdicts.contains_key(it))
            .map(|it| format!("verdict {}", it.name()));
        let possible = Unknown::ALL.iter().filter(|it| !IMPOSSIBLE.contains(it));
        let unknowns = possible
            .filter(|it| !self.unknowns.contains_key(it))
            .map(|it| format!("unknown {}", it.name()));
        let ends = End::ALL
            .iter()
            .filter(|it| !self.ends.contains_key(it))
            .map(|it| format!("end {}", it.name()));
        let splits = SplitKind::ALL
            .iter()
            // Two that execute one member are rare in the few fixed seeds.
            .filter(|it| !self.splits.contains_key(it) && **it != SplitKind::Executions)
            .map(|it| format!("split {}", it.name()));
        let mut missing: Vec<String> = verdicts.chain(unknowns).chain(ends).chain(splits).collect();
        missing.extend((self.lost == 0).then(|| "a lost lock".to_owned()));
        missing.extend((self.switches_lost == 0).then(|| "lost switches".to_owned()));
        missing.extend((self.announced == 0).then(|| "a change that is announced".to_owned()));
        missing.extend(
            (self.parts == 0).then(|| "an answer of another server than the lock's".to_owned()),
        );
        missing.extend((self.glances == 0).then(|| "a glance at a deadline".to_owned()));
        missing.extend((self.joined == 0).then(|| "a batch of several slots".to_owned()));
        let guards = Seen::ALL.iter().filter(|it| !self.guards.contains_key(it));
        missing.extend(guards.map(|it| format!("guards: {}", it.name())));
        let kinds = OfKind::ALL.iter();
        let kinds = kinds.filter(|it| !it.is_rare() && !self.kinds.contains_key(it));
        missing.extend(kinds.map(|it| format!("kinds: {}", it.name())));
        missing.extend((self.reloads == 0).then(|| "a reload".to_owned()));
        missing
    }

    /// A table for display.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let row = |name: &str, cells: Vec<String>| format!("{name:<10} {}\n", cells.join("  "));
        text += &row(
            "verdicts",
            self.verdicts.iter().map(|(it, count)| format!("{} {count}", it.name())).collect(),
        );
        text += &row(
            "unknown",
            self.unknowns.iter().map(|(it, count)| format!("{} {count}", it.name())).collect(),
        );
        text += &row(
            "ends",
            self.ends.iter().map(|(it, count)| format!("{} {count}", it.name())).collect(),
        );
        text += &row(
            "splits",
            self.splits.iter().map(|(it, count)| format!("{} {count}", it.name())).collect(),
        );
        text += &row(
            "guards",
            self.guards.iter().map(|(it, count)| format!("{} {count}", it.name())).collect(),
        );
        text += &row(
            "kinds",
            self.kinds.iter().map(|(it, count)| format!("{} {count}", it.name())).collect(),
        );
        let written = writeln!(
            text,
            "lost       locks {}  switches {}\n\
             checked    snapshots {}  answers {}  attempts in vain {}  changes announced {}  parts \
             {}  glances {}  joined {}  reloads {}",
            self.lost,
            self.switches_lost,
            self.snapshots,
            self.answers,
            self.failures,
            self.announced,
            self.parts,
            self.glances,
            self.joined,
            self.reloads
        );
        debug_assert!(written.is_ok(), "a String takes everything");
        text
    }
}
