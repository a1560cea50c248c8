//! Why a task has its verdict.

use serde::{Deserialize, Serialize};

use super::values::Unknown;
#[cfg(test)]
use super::{tests::words, values::At};
use crate::trace::{Fact, Said};

/// Why a task has its verdict: the body of `/api/v1/tasks/<name>/explain`. All text in it is
/// escaped, except the names of task and store, which are as configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Explanation {
    /// The task.
    pub task: String,
    /// Name of its store.
    pub store: String,
    /// When it was explained, by the agent's clock.
    #[cfg_attr(test, schemars(with = "At"))]
    pub at: Option<String>,
    /// `agent`: from an agent that keeps history. `once`: from a single reading, so that ages and
    /// durations are not known.
    #[cfg_attr(test, schemars(extend("enum" = ["agent", "once"])))]
    pub source: String,
    /// What must be known to read the rest.
    pub notes: Vec<String>,
    /// The verdict.
    #[cfg_attr(test, schemars(with = "words::Verdict"))]
    pub verdict: String,
    /// Since when, by the agent's clock.
    #[cfg_attr(test, schemars(with = "At"))]
    pub verdict_since: Option<String>,
    /// How long the verdict has lasted.
    pub verdict_age_seconds: Option<f64>,
    /// The rule that gave it.
    #[cfg_attr(test, schemars(with = "words::Rule"))]
    pub rule: String,
    /// The reason in a sentence.
    pub reason: String,
    /// The evidence that decided.
    pub deciding: Vec<String>,
    /// All evidence and its age.
    pub evidence: Vec<Evidence>,
    /// Every rule that was considered, in this order; the last one decided.
    pub rules: Vec<RuleGave>,
    /// The critical alerts of this task.
    pub pages: Vec<PageDue>,
    /// The worst-case time until lockwatch reports the task as down.
    pub time_to_page: TimeToPage,
    /// The configuration that matters for the verdict.
    pub configuration: Vec<Setting>,
    /// The commands and replies while the explanation was prepared.
    pub trace: TraceShown,
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedEvidence"))]
pub struct Evidence {
    /// Its subject: `lock`, `turn`, `queue`, `switches`, `progress`, `claims`, `hosts`, `pause`,
    /// `store` (one of several that have the lock) or `witness`.
    pub of: String,
    /// The server that gave it.
    pub node: Option<String>,
    /// Its age.
    pub age_seconds: Option<f64>,
    /// Its content in words.
    pub says: String,
    /// Why the newest attempt gave no answer.
    pub unknown: Option<Unknown>,
}

/// A rule that was considered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedRule"))]
pub struct RuleGave {
    /// The rule.
    #[cfg_attr(test, schemars(with = "words::Rule"))]
    pub rule: String,
    /// The verdict that it gave; `null`: it does not apply.
    #[cfg_attr(test, schemars(with = "Option<words::Verdict>"))]
    pub gave: Option<String>,
    /// Its conditions. The rule applies if all of them hold.
    pub conditions: Vec<Condition>,
}

/// One condition of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedCondition"))]
pub struct Condition {
    /// In words, with the values.
    pub says: String,
    /// Whether it holds.
    pub holds: bool,
}

/// How near an alert is to firing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedPage"))]
pub struct PageDue {
    /// The alert.
    pub alert: String,
    /// The measure that it compares, as in `durations` of `/api/v1/tasks`; `problem_seconds`: what
    /// `problems` has there.
    pub measure: String,
    /// The value; `null` if it cannot be known.
    pub value_seconds: Option<f64>,
    /// It fires above this.
    pub threshold_seconds: f64,
    /// What is found of its problem: `positive`, `negative`, or `unknown`.
    #[cfg_attr(test, schemars(extend("enum" = ["positive", "negative", "unknown"])))]
    pub finding: String,
    /// What that means.
    pub because: String,
    /// Since when it fires; of an event: when it happened; `null` if it does not fire.
    #[serde(default)]
    #[cfg_attr(test, schemars(with = "At"))]
    pub since: Option<String>,
    /// Whether it fires, unless it is deferred.
    pub due: bool,
    /// When it will be due if nothing changes; `null` if the value does not grow.
    pub due_in_seconds: Option<f64>,
    /// Whether alerts of this task are deferred at the moment.
    pub paused: bool,
}

/// The worst-case time until an alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedTimeToPage"))]
pub struct TimeToPage {
    /// From the moment when a wanted task has no holder until lockwatch reports it as down; `null`:
    /// it never does.
    pub down_after_seconds: Option<f64>,
    /// The same from a crash of the holder, whose lease must expire first; `null`: never, or the
    /// lease is not known.
    pub from_crash_seconds: Option<f64>,
    /// What these times include, and what is added to them.
    pub says: String,
}

/// A line of configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedSetting"))]
pub struct Setting {
    /// As it would be in the file.
    pub line: String,
    /// Whether it equals the default.
    pub default: bool,
}

/// The commands and replies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedTrace"))]
pub struct TraceShown {
    /// How long the explanation waited for them.
    pub waited_seconds: f64,
    /// Why there are none; `null` if there are some.
    pub nothing_because: Option<String>,
    /// The exchanges, oldest first.
    pub exchanges: Vec<ExchangeShown>,
}

/// One part of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExplainedExchange"))]
pub struct ExchangeShown {
    /// The server.
    pub node: String,
    /// Its role for the task: it `decides`, it has keys `beside` the lock, or it is a `witness`.
    #[cfg_attr(test, schemars(extend("enum" = ["decides", "beside", "witness"])))]
    pub asked: String,
    /// The round of the reading, from 1.
    pub round: u8,
    /// How long ago it was sent.
    pub age_seconds: f64,
    /// How long the reply took.
    pub took_seconds: f64,
    /// The commands and their replies, without secrets.
    pub commands: Vec<Said>,
    /// The role that the server reported after its replies; `null` if they were not accepted.
    pub role: Option<String>,
    /// Its clock before them.
    #[cfg_attr(test, schemars(with = "At"))]
    pub server_time: Option<String>,
    /// Why the replies were not accepted.
    pub refused: Option<Unknown>,
    /// The decoded reading; `null`: another round follows, or the replies were not accepted.
    pub reading: Option<Vec<Fact>>,
}
