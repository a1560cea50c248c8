//! A task, and the lists of them.

use serde::{Deserialize, Serialize};

use super::drill::Drill;
use super::lock::{Lock, Runs, Witness};
use super::pattern::Pattern;
use super::periodic::Periodic;
use super::queue::Queue;
use super::store::Store;
#[cfg(test)]
use super::tests::words::{self, Counted};
use super::turn::Turn;
use super::values::{At, Count, Histogram, Party, Problem, Seconds, Text, Unknown};

/// Tasks of one snapshot, and all stores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TaskList {
    /// When the snapshot was made, by the agent's clock.
    #[serde(default)]
    pub at: At,
    /// Counts the snapshots of this process: one a second, one soon after each event, and one for
    /// each request, if more is known since.
    #[serde(default)]
    pub sequence: u64,
    /// Version of lockwatch.
    #[serde(default)]
    pub version: Text,
    /// The tasks that were requested, sorted by name.
    pub tasks: Vec<Task>,
    /// All stores, in the order of the configuration.
    #[serde(default)]
    pub stores: Vec<Store>,
    /// All patterns, in the order of the configuration.
    #[serde(default)]
    pub patterns: Vec<Pattern>,
    /// The drill that runs; absent if there is none. No task, and no count, has anything of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drill: Option<Drill>,
}

/// One task of one snapshot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct OneTask {
    /// When the snapshot was made, by the agent's clock.
    #[serde(default)]
    pub at: At,
    /// As in `TaskList`.
    #[serde(default)]
    pub sequence: u64,
    /// The task.
    pub task: Task,
}

/// A task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Task {
    /// Unique.
    pub name: Text,
    /// Name of its store.
    pub store: Text,
    /// Every configured label.
    pub labels: Vec<Label>,
    /// What lockwatch says of it.
    #[cfg_attr(test, schemars(with = "words::Verdict"))]
    pub verdict: Text,
    /// The rule that gave the verdict.
    #[cfg_attr(test, schemars(with = "words::Rule"))]
    pub rule: Text,
    /// Why, in a sentence for people that stays the same as long as the reason does; escaped.
    pub reason: Text,
    /// When the present verdict was first given, by the agent's clock.
    pub verdict_since: At,
    /// There is fresh evidence against every state that deserves a critical alert.
    pub clear: bool,
    /// What is seen to deserve an alert.
    #[cfg_attr(test, schemars(with = "Vec<Problem>"))]
    pub problems: Option<Vec<Problem>>,
    /// `null` before the first judgement.
    pub judged: Option<Judged>,
    /// Whether users want it.
    #[cfg_attr(test, schemars(with = "words::Wanted"))]
    pub wanted: Text,
    /// How many users want it; `null` when unknown or unset.
    pub wanting_users: Option<u64>,
    /// The users are the number in a counter: its key is the only switch then, and is no user.
    pub counted: bool,
    /// Every switch that exists; `null` when unknown or unset.
    pub switches: Option<Vec<Switch>>,
    /// Why the newest reading of the switches gave no answer.
    pub switches_unknown: Option<Unknown>,
    /// Whether its key, the lock's or the queue's, was ever seen to exist since the agent started.
    pub key_seen: bool,
    /// Whether the switches' key was ever seen to exist; `null` when there is none to see.
    pub switch_key_seen: Option<bool>,
    /// Users whose "on" was lost with the server's data; escaped.
    pub lost_users: Vec<Text>,
    /// Only of a task that a lock guards, like `witnesses` and `runs`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lock: Option<Lock>,
    /// What the servers show that do not decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub witnesses: Option<Vec<Witness>>,
    /// What guards state of the runs of their scripts; `null` without claims, or before they were
    /// read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Option<Runs>"))]
    pub runs: Option<Option<Runs>>,
    /// Only of tasks that take turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<Turn>,
    /// Only of a queue of delayed tasks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Only of a periodic task, whose lock exists only while a run lasts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub periodic: Option<Periodic>,
    /// The server that the newest trustworthy reading came from; escaped.
    pub node: Option<Text>,
    /// `null` when no progress is configured.
    pub progress: Option<Progress>,
    /// Instances whose claim is alive; escaped.
    pub live_claims: Vec<Text>,
    /// Why the newest reading of the claims gave no answer; `live_claims` is empty then.
    pub claims_unknown: Option<Unknown>,
    /// Why the newest reading of the hosts gave no answer; holders keep the hosts that were known.
    pub hosts_unknown: Option<Unknown>,
    /// Neither progress nor claims are configured: a stuck worker would look healthy.
    pub lock_only: bool,
    /// What else is worth knowing, in sentences.
    pub notes: Vec<Text>,
    /// The kinds of splits in force.
    #[cfg_attr(test, schemars(with = "Vec<words::SplitKind>"))]
    pub splits: Vec<Text>,
    /// The same with what proves them.
    pub split_evidence: Vec<Split>,
    /// Alerts of this task are deferred; `null` when no pause is configured or it cannot be read.
    pub paused: Option<bool>,
    /// Age of the newest trustworthy reading.
    pub evidence_age_seconds: Option<Seconds>,
    /// The gap that ended last.
    pub last_handover: Option<Past>,
    /// The outage that ended last.
    pub last_outage: Option<Past>,
    /// How long present conditions have lasted.
    pub durations: Durations,
    /// The limits in force.
    pub thresholds: Thresholds,
    /// Sums and counts.
    pub totals: Totals,
    /// When the newest renewals were seen, by any holder; oldest first, at most 48. The agent's
    /// clock. Only where one task is requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewals: Option<Vec<At>>,
}

impl Task {
    /// The problems that are seen.
    pub fn problems(&self) -> &[Problem] {
        self.problems.as_deref().unwrap_or_default()
    }

    /// The present hold of its lock.
    pub fn hold(&self) -> Option<&super::Hold> {
        self.lock.as_ref()?.hold.as_ref()
    }

    /// Why its key could not be read.
    pub fn unknown(&self) -> Option<&Unknown> {
        let lock = self.lock.as_ref().and_then(|lock| lock.unknown.as_ref());
        let turn = || self.turn.as_ref()?.unknown.as_ref();
        lock.or_else(turn).or_else(|| self.queue.as_ref()?.unknown.as_ref())
    }

    /// Whether the newest reading gave an answer about its key.
    pub fn is_read(&self) -> bool {
        let (lock, turn) = (self.lock.as_ref(), self.turn.as_ref());
        let held = lock.map(|lock| lock.held).or(turn.map(|turn| turn.held));
        let queue = self.queue.as_ref();
        held.flatten().is_some() || queue.is_some_and(|queue| queue.unknown.is_none())
    }
}

/// A configured label of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Label {
    /// Its name.
    pub name: Text,
    /// Empty where the task has none.
    pub value: Text,
}

/// The inputs of the verdict. `lock` only of a lock; `down_goes_on`, `stale`, `over_wind_down` only
/// if it is not periodic;
/// `turn` only of turns; `queue` only of a queue; `gap_over_grace` of locks and turns; `late` of
/// turns and queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Judged {
    /// A lost "on" counts as yes.
    #[cfg_attr(test, schemars(with = "words::Wanted"))]
    pub wanted: Text,
    /// What is known of the lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "words::LockFact"))]
    pub lock: Option<Text>,
    /// What is known of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "words::TurnFact"))]
    pub turn: Option<Text>,
    /// Whether the queue was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Text", extend("enum" = ["read", "unknown"])))]
    pub queue: Option<Text>,
    /// The gap is longer than `grace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_over_grace: Option<bool>,
    /// The gap is longer than `grace`, and was published as `down` while the lock was free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub down_goes_on: Option<bool>,
    /// The progress has not moved for longer than `stale_after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<bool>,
    /// Held though not wanted for longer than `wind_down`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_wind_down: Option<bool>,
    /// The turn, or a due member that nobody executes, is over `max_late`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late: Option<bool>,
    /// What is known of the runs of a periodic task; only there, as the next two.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "words::RunFact"))]
    pub run: Option<Text>,
    /// No run began within `every` and `late_after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue: Option<bool>,
    /// The run has lasted for longer than `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overran: Option<bool>,
    /// There is evidence of more than one holder.
    pub split: bool,
    /// No trustworthy reading of what matters for longer than `blind_after`.
    pub blind: bool,
    /// The previous verdict, which stays where nothing can be judged at the moment.
    #[cfg_attr(test, schemars(with = "Option<words::Verdict>"))]
    pub previous: Option<Text>,
}

/// A user's switch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Switch {
    /// The user; escaped.
    pub user: Text,
    /// What its value says.
    #[cfg_attr(test, schemars(extend("enum" = ["on", "off", "undecodable"])))]
    pub state: Text,
    /// The codec that would decode an undecodable value.
    #[cfg_attr(test, schemars(with = "Option<words::Codec>"))]
    pub fits: Option<Text>,
}

/// The proof that the work is not stuck.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Progress {
    /// When it was last seen to move, by the server's clock.
    pub moved: At,
    /// There is none to judge by.
    pub missing: bool,
    /// It is gone because its TTL ran out, which is a standstill.
    pub expired: bool,
    /// Why it cannot be read; `null` when it is absent.
    pub unknown: Option<Unknown>,
    /// What counts as a movement: its bytes, or its deadline; `null` while that is not known.
    #[cfg_attr(test, schemars(with = "Option<words::Moves>"))]
    pub moves: Option<Text>,
}

/// Evidence for more than one holder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Split {
    /// The kind of evidence.
    #[cfg_attr(test, schemars(with = "words::SplitKind"))]
    pub kind: Text,
    /// When it was first seen, by the agent's clock.
    pub since: At,
    /// How long it has lasted, as of the newest evidence.
    pub lasted_seconds: Seconds,
    /// The instances concerned.
    pub parties: Vec<Party>,
}

/// A state that lasted and has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Past {
    /// When its end became known, by the agent's clock.
    pub at: At,
    /// How long it was.
    pub seconds: Seconds,
}

/// How long present conditions have lasted, as of the newest evidence; 0 without the condition;
/// kept while blind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Durations {
    /// Wanted, and no hold has lasted for `settle`.
    pub down_seconds: Seconds,
    /// More than one holder.
    pub split_seconds: Seconds,
    /// Held without progress.
    pub stalled_seconds: Seconds,
    /// Held though nobody wants it.
    pub unwanted_seconds: Seconds,
    /// No trustworthy reading of what matters.
    pub blind_seconds: Seconds,
    /// Switches lost.
    pub switches_lost_seconds: Seconds,
}

/// The limits in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Thresholds {
    /// A gap shorter than this is a handover.
    pub grace_seconds: Seconds,
    /// A hold shorter than this does not end a gap.
    pub settle_seconds: Seconds,
    /// How long a hold may outlive the last switch.
    pub wind_down_seconds: Seconds,
    /// How long without a reading is blind.
    pub blind_after_seconds: Seconds,
    /// How long without progress is stalled; `null` without `progress`.
    pub stale_after_seconds: Option<Seconds>,
    /// How long a claim lives; `null` without `claims`.
    pub fresh_for_seconds: Option<Seconds>,
    /// How long a hold may last.
    pub max_hold_seconds: Option<Seconds>,
    /// From one run to the next; this and the next two only of a periodic task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every_seconds: Option<Seconds>,
    /// How much later a run may begin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub late_after_seconds: Option<Seconds>,
    /// How long a run may last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds: Option<Seconds>,
}

impl Thresholds {
    /// Each by the name of its field in the configuration.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, Option<Seconds>)> + use<> {
        let named = [
            ("grace", Some(self.grace_seconds)),
            ("settle", Some(self.settle_seconds)),
            ("wind_down", Some(self.wind_down_seconds)),
            ("blind_after", Some(self.blind_after_seconds)),
            ("stale_after", self.stale_after_seconds),
            ("fresh_for", self.fresh_for_seconds),
            ("max_hold", self.max_hold_seconds),
            ("every", self.every_seconds),
            ("late_after", self.late_after_seconds),
            ("max", self.max_seconds),
        ];
        named.into_iter()
    }
}

/// Sums and counts since the task was configured, or the agent started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Totals {
    /// Time wanted.
    pub wanted_seconds: Seconds,
    /// Time wanted without a holder.
    pub down_seconds: Seconds,
    /// Duration of all outages.
    pub outage_seconds: Seconds,
    /// Time with more than one holder.
    pub split_seconds: Seconds,
    /// Time without a trustworthy reading.
    pub blind_seconds: Seconds,
    /// Splits by kind, all of them.
    #[cfg_attr(test, schemars(with = "Vec<Counted<words::SplitKind>>"))]
    pub splits: Vec<Count>,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Ends of holds by how, all of them.
    #[cfg_attr(test, schemars(with = "Vec<Counted<words::End>>"))]
    pub ends: Vec<Count>,
    /// Holds that were lost although the holder lived.
    pub holds_lost: u64,
    /// Renewals.
    pub renewals: u64,
    /// Deadlines moved back.
    pub shortened: u64,
    /// Fencing tokens that went backwards.
    pub token_resets: u64,
    /// Holds too short to end a gap.
    pub phantom_holds: u64,
    /// Gaps that ended.
    pub handovers: Histogram,
    /// Outages that ended.
    pub outages: Histogram,
    /// Renewal latencies.
    pub renewal_latency: Histogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_versions_answer_is_understood() {
        let text = r#"{"tasks":[{"name":"a","verdict":"frozen","lock":{"hold":{"colour":1}},"new":[{}]}],"later":{}}"#;
        let tasks: TaskList = serde_json::from_str(text).unwrap();
        assert_eq!(&*tasks.tasks[0].verdict, "frozen");
        assert!(tasks.tasks[0].hold().is_some());
        assert!(
            serde_json::from_str::<TaskList>("{}").is_err(),
            "whatever else answers with JSON is no agent"
        );
    }
}
