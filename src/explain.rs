//! Why a task has its verdict: the agent's own reasoning put into words, and `lockwatch explain`,
//! which shows it.
//!
//! Nothing here judges: the rules and what they gave come from the model's own trace, the values
//! from the snapshot that every output reads, the commands and replies from the
//! [trace](crate::trace::Traces).

mod alerts;
mod answer;
mod command;
mod configured;
mod deciding;
mod evidence;
mod once;
mod rules;
mod seen;
mod text;
mod trace;

use serde::{Deserialize, Serialize};

use crate::trace::{Fact, Said};

pub use answer::explanation;
pub use command::run;
pub use seen::{Seen, Watched};
pub use text::text;
pub use trace::Trace;

/// Why a task has its verdict, as `/api/v1/tasks/<name>/explain` tells it. All text in it is
/// escaped, but for the names of task and redis, which are as configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The task.
    pub task: String,
    /// Name of its redis.
    pub redis: String,
    /// The agent's clock.
    pub at: Option<String>,
    /// `agent`, which has watched for a while, or `once`: one look, so that ages and durations are
    /// not known.
    pub source: String,
    /// What must be known to read the rest.
    pub notes: Vec<String>,
    /// The verdict.
    pub verdict: String,
    /// Since when, by the agent's clock.
    pub verdict_since: Option<String>,
    /// For how long.
    pub verdict_age_seconds: Option<f64>,
    /// The rule that gave it.
    pub rule: String,
    /// The reason in a sentence.
    pub reason: String,
    /// The evidence that decided.
    pub deciding: Vec<String>,
    /// All evidence, and how old it is.
    pub evidence: Vec<Evidence>,
    /// Every rule that was considered, in this order; the last one decided.
    pub rules: Vec<RuleGave>,
    /// The pages of this task.
    pub pages: Vec<PageDue>,
    /// The worst time until lockwatch calls it down.
    pub time_to_page: TimeToPage,
    /// The configuration that matters.
    pub configuration: Vec<Setting>,
    /// What was asked and answered while the explanation was waited for.
    pub trace: TraceShown,
}

/// One piece of evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Of what: `lock`, `switches`, `progress`, `claims`, `hosts`, `pause` or `witness`.
    pub of: String,
    /// The server that it is from.
    pub node: Option<String>,
    /// How old it is.
    pub age_seconds: Option<f64>,
    /// What it says.
    pub says: String,
    /// Why the newest attempt gave no answer.
    pub unknown: Option<NotKnown>,
}

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotKnown {
    /// One of a closed list.
    pub reason: String,
    /// What a person can do about it.
    pub remedy: String,
}

/// A rule that was considered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleGave {
    /// The rule.
    pub rule: String,
    /// The verdict that it gave; `null`: it does not apply.
    pub gave: Option<String>,
    /// What it asks; it applies if all of it holds.
    pub conditions: Vec<Condition>,
}

/// A part of a rule's condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Condition {
    /// In words, with the values.
    pub says: String,
    /// Whether it holds.
    pub holds: bool,
}

/// How far a page is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PageDue {
    /// The alert.
    pub alert: String,
    /// What it compares, as in `durations` of `/api/v1/tasks`.
    pub measure: String,
    /// The value; `null` where it cannot be known.
    pub value_seconds: Option<f64>,
    /// It pages above this.
    pub threshold_seconds: f64,
    /// Whether it is above.
    pub due: bool,
    /// When it will be if nothing changes; `null` where nothing moves towards it.
    pub due_in_seconds: Option<f64>,
    /// Whether pages of this task wait at the moment.
    pub paused: bool,
}

/// The worst time until a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeToPage {
    /// From the moment when a wanted task has no holder until lockwatch calls it down; `null`: it
    /// never does.
    pub down_after_seconds: Option<f64>,
    /// The same from a crash of the holder, whose lease must run out first; `null`: never, or the
    /// lease is not known.
    pub from_crash_seconds: Option<f64>,
    /// What is in these times, and what comes on top.
    pub says: String,
}

/// A line of configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// As one would write it.
    pub line: String,
    /// Whether it is what holds where nothing is written.
    pub default: bool,
}

/// What was asked and answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceShown {
    /// How long it was waited for.
    pub waited_seconds: f64,
    /// Why there is nothing; `null` where there is.
    pub nothing_because: Option<String>,
    /// What was said, oldest first.
    pub exchanges: Vec<ExchangeShown>,
}

/// One part of a batch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExchangeShown {
    /// The server.
    pub node: String,
    /// Why it was asked: it `decides`, it has what lives `beside` the lock, or it is a `witness`.
    pub asked: String,
    /// Which round of the reading, from 1.
    pub round: u8,
    /// How long ago it was sent.
    pub age_seconds: f64,
    /// How long the answer took.
    pub took_seconds: f64,
    /// The commands and their replies, without secrets.
    pub commands: Vec<Said>,
    /// The role that the server gave after its answers; `null` where they were not believed.
    pub role: Option<String>,
    /// Its clock before them.
    pub server_time: Option<String>,
    /// Why nothing of it was believed.
    pub refused: Option<NotKnown>,
    /// The reading as decoded; `null`: another round follows, or nothing was believed.
    pub reading: Option<Vec<Fact>>,
}
