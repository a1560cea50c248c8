//! The drill: a synthetic task `lockwatch-drill` that is down, in order to try the way from this
//! agent to a human.
//!
//! `GET /api/v1/drill` answers [`PresentDrill`]. `POST /api/v1/drill` with a [`StartDrill`] begins
//! one: 201 and a [`Drill`]. `POST /api/v1/drill/<id>` with a [`DrillRequest`] renews or ends it:
//! 200 and the [`Drill`], whose `ends_at` is in the past once it has ended.
//!
//! A drill ends when it is stopped, 30 s after the last renewal (or its start), after the seconds
//! that were asked for, when a reload forbids drills or removes its task, and with the agent. Its
//! series are on the first scrape after the start was answered, and gone on the first one after
//! its end.
//!
//! Bodies have `Content-Type: application/json` and no parameters (400, 415). Errors are
//! [`Error`](super::Error):
//!
//! | status | when |
//! |---|---|
//! | 403 | no `drill: true` in the configuration; no login where others reach the agent; another site's page asks, or a name that is not of this machine where nobody logs in |
//! | 404 | no such task; an id of another agent, or of a drill that is over, with the reason |
//! | 409 | another drill runs: of which task, since when, who began it |
//! | 429 | too early, `Retry-After` says for how many seconds: less than ten minutes after one that reached a notification, or may have, because nobody stopped it |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::values::{At, Text};

/// Begins a drill.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StartDrill {
    /// The task whose labels it has.
    pub task: String,
    /// The severity of the alert; without it, that of the task's critical alerts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// How many seconds it lasts at most; more than 900 is 900.
    pub seconds: u64,
    /// The id of the drill that it follows, which was the newest one and ended less than five
    /// minutes ago: no pause is needed after that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// What is done to a drill that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
pub enum DrillRequest {
    /// It goes on for 30 s more, within its time.
    Renew,
    /// It ends.
    Stop {
        /// Whether a notification was sent: the next drill must wait for ten minutes then.
        notified: bool,
    },
}

/// The drill that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PresentDrill {
    /// `null` if there is none.
    pub drill: Option<Drill>,
}

/// A drill.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Drill {
    /// `instance`, a hyphen, and a number.
    pub id: Text,
    /// The agent: another one for each start of it.
    #[serde(default)]
    pub instance: Text,
    /// The task that it has the labels of.
    pub task: Text,
    /// The store of that task.
    #[serde(default)]
    pub store: Text,
    /// All labels of its series `lockwatch_task_problem_seconds`, as `/metrics` has them.
    #[serde(default)]
    pub labels: BTreeMap<Text, Text>,
    /// The user who began it; `null` where nobody logs in.
    #[serde(default)]
    pub by: Option<Text>,
    /// When it began, by the agent's clock.
    #[serde(default)]
    pub began_at: At,
    /// When it ends at the latest, if it is renewed; when it ended, if it has.
    #[serde(default)]
    pub ends_at: At,
    /// Exactly the agent's own `process_start_time_seconds`, by which Prometheus shows which target
    /// is this agent; `null` where the system does not say.
    #[serde(default)]
    pub agent_started: Option<f64>,
}
