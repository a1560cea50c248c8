//! The parts of the agent's responses that `status` shows. Another version of the agent may leave
//! fields out or add some.

use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer};

use crate::outputs::cause::joined;
use crate::text::terminal::safe;

/// Text from the agent that a terminal may show. It is escaped during deserialization, so that no
/// raw text can reach the terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text(String);

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        String::deserialize(deserializer).map(|text| Text(safe(&text).into_owned()))
    }
}

/// The body of `/api/v1/tasks`.
#[derive(Debug, Deserialize)]
pub(super) struct Tasks {
    #[serde(default)]
    pub(super) at: Option<Text>,
    /// Required: a body without it is not from an agent.
    pub(super) tasks: Vec<Task>,
    #[serde(default)]
    pub(super) stores: Vec<Store>,
}

/// The body of `/api/v1/tasks/<name>`.
#[derive(Debug, Deserialize)]
pub(super) struct OneTask {
    #[serde(default)]
    pub(super) at: Option<Text>,
    pub(super) task: Task,
}

/// The body of a refusal.
#[derive(Debug, Deserialize)]
pub(super) struct Refusal {
    pub(super) error: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Task {
    pub(super) name: Text,
    pub(super) store: Text,
    pub(super) labels: Vec<Label>,
    pub(super) verdict: Text,
    pub(super) rule: Text,
    pub(super) reason: Text,
    pub(super) verdict_since: Option<Text>,
    /// `None`: another version of the agent, which does not say it.
    pub(super) problems: Option<Vec<Problem>>,
    pub(super) wanted: Text,
    pub(super) wanting_users: Option<u64>,
    pub(super) counted: bool,
    pub(super) switches: Option<Vec<Switch>>,
    pub(super) switches_unknown: Option<Unknown>,
    pub(super) lost_users: Vec<Text>,
    pub(super) lock: Lock,
    pub(super) turn: Option<Turn>,
    pub(super) queue: Option<Queue>,
    pub(super) node: Option<Text>,
    pub(super) witnesses: Vec<Witness>,
    pub(super) progress: Option<Progress>,
    pub(super) live_claims: Vec<Text>,
    pub(super) claims_unknown: Option<Unknown>,
    pub(super) splits: Vec<Text>,
    pub(super) paused: Option<bool>,
    pub(super) evidence_age_seconds: Option<f64>,
    pub(super) durations: Durations,
    pub(super) thresholds: Thresholds,
    pub(super) last_handover: Option<Past>,
    pub(super) last_outage: Option<Past>,
    pub(super) lock_only: bool,
    pub(super) notes: Vec<Text>,
}

impl Task {
    /// The problems that are seen.
    pub(super) fn problems(&self) -> &[Problem] {
        self.problems.as_deref().unwrap_or_default()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    pub(super) problem: Text,
    pub(super) alert: Text,
    pub(super) severity: Text,
    pub(super) seconds: f64,
    pub(super) event: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Label {
    pub(super) name: Text,
    pub(super) value: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Switch {
    pub(super) user: Text,
    pub(super) state: Text,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Unknown {
    pub(super) reason: Text,
    pub(super) said: Option<Text>,
    pub(super) remedy: Text,
}

impl fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.said {
            Some(said) => write!(formatter, "{}: {}", self.reason, joined(said, &self.remedy)),
            None => write!(formatter, "{}: {}", self.reason, self.remedy),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lock {
    pub(super) key: Text,
    pub(super) library: Text,
    pub(super) held: Option<bool>,
    pub(super) unknown: Option<Unknown>,
    pub(super) hold: Option<Hold>,
    pub(super) waiters: Option<u64>,
    pub(super) fencing_token: Option<i64>,
    pub(super) lease_seconds: Option<f64>,
    pub(super) renewal_period_seconds: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Hold {
    pub(super) mode: Text,
    pub(super) holders: Vec<Holder>,
    pub(super) acquired: Option<Text>,
    pub(super) held_seconds: f64,
    pub(super) ttl_seconds: Option<f64>,
    pub(super) persistent: Option<bool>,
    pub(super) last_renewal: Option<Text>,
    pub(super) last_renewal_latency_seconds: Option<f64>,
    pub(super) last_renewal_margin_seconds: Option<f64>,
    pub(super) renewal_overdue_seconds: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Holder {
    pub(super) holder: Text,
    pub(super) digest: bool,
    pub(super) host: Option<Text>,
    pub(super) entries: Option<u32>,
}

/// Tasks that take turns.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Turn {
    pub(super) hash: Text,
    pub(super) unknown: Option<Unknown>,
    pub(super) fact: Text,
    pub(super) task: Option<Text>,
    pub(super) due: Option<Text>,
    pub(super) overdue_seconds: f64,
    pub(super) max_late_seconds: f64,
    pub(super) fields: Option<u64>,
    pub(super) taken: Vec<Taken>,
    pub(super) out_of_order: Option<u64>,
    pub(super) unknown_names: u64,
}

/// How often a task passed the turn on.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Taken {
    pub(super) task: Text,
    pub(super) turns: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Queue {
    pub(super) zset: Text,
    pub(super) lock: Option<Text>,
    pub(super) library: Text,
    pub(super) unknown: Option<Unknown>,
    pub(super) members: Option<u64>,
    pub(super) due: Option<u64>,
    pub(super) next: Option<Text>,
    pub(super) executing: Option<u64>,
    pub(super) executing_more: Option<bool>,
    pub(super) oldest_due_seconds: Option<f64>,
    pub(super) late_seconds: f64,
    pub(super) max_late_seconds: f64,
    pub(super) moved: Option<Text>,
    pub(super) first: Vec<Member>,
    pub(super) orphans: Vec<Orphan>,
    pub(super) totals: QueueTotals,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Member {
    pub(super) id: Text,
    pub(super) execution: Option<Execution>,
    pub(super) unread: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Execution {
    pub(super) holders: Vec<Holder>,
    pub(super) until: Option<Text>,
    pub(super) dead: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Orphan {
    pub(super) id: Text,
    pub(super) execution: Execution,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct QueueTotals {
    pub(super) departed: u64,
    pub(super) departed_locked: u64,
    pub(super) vanished: u64,
    pub(super) executed_again: u64,
    pub(super) expired: u64,
    pub(super) orphaned: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Witness {
    pub(super) node: Text,
    pub(super) role: Text,
    pub(super) at: Option<Text>,
    pub(super) holders: Option<Vec<Holder>>,
    pub(super) behind_seconds: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Progress {
    pub(super) moved: Option<Text>,
    pub(super) missing: bool,
    pub(super) expired: bool,
    pub(super) unknown: Option<Unknown>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Durations {
    pub(super) down_seconds: f64,
    pub(super) split_seconds: f64,
    pub(super) stalled_seconds: f64,
    pub(super) unwanted_seconds: f64,
    pub(super) blind_seconds: f64,
    pub(super) switches_lost_seconds: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Thresholds {
    pub(super) grace_seconds: Option<f64>,
    pub(super) wind_down_seconds: Option<f64>,
    pub(super) blind_after_seconds: Option<f64>,
    pub(super) stale_after_seconds: Option<f64>,
    pub(super) fresh_for_seconds: Option<f64>,
    pub(super) max_hold_seconds: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Past {
    pub(super) at: Option<Text>,
    pub(super) seconds: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Store {
    pub(super) name: Text,
    pub(super) readable: Option<bool>,
    pub(super) unknown: Option<Unknown>,
    pub(super) blind_seconds: f64,
    pub(super) problems: Vec<Problem>,
    pub(super) nodes: Vec<Node>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) address: Text,
    pub(super) up: Option<bool>,
    pub(super) unknown: Option<Unknown>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_versions_answer_is_understood() {
        let text = r#"{"tasks":[{"name":"a","verdict":"frozen","lock":{"hold":{"colour":1}},"new":[{}]}],"later":{}}"#;
        let tasks: Tasks = serde_json::from_str(text).unwrap();
        assert_eq!(&*tasks.tasks[0].verdict, "frozen");
        assert!(tasks.tasks[0].lock.hold.is_some());
        assert!(
            serde_json::from_str::<Tasks>("{}").is_err(),
            "whatever else answers with JSON is no agent"
        );
    }

    #[test]
    fn text_is_harmless_once_it_is_read() {
        let text: Text = serde_json::from_str(r#""\u001b]0;owned\u0007\u202e""#).unwrap();
        assert_eq!(&*text, r"\x1b]0;owned\x07\xe2\x80\xae");
    }
}
