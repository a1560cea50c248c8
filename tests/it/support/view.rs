//! The program's metrics and JSON at about the same instant.

use serde_json::Value;

use super::agent::{Agent, Shown};
use super::exposition::Exposition;

/// Maximum number of requests until no event falls between exposition and JSON.
const LOOKS: usize = 5;

/// Exposition and JSON. The exposition is a little newer, but reflects no event that the JSON
/// lacks, unless events never pause.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) page: Exposition,
    pub(crate) json: Value,
}

impl Shown for View {
    #[track_caller]
    fn look(agent: &Agent) -> View {
        // Not `from_str`: `parse` is compiled in serde_json, which is optimised.
        let ask = || -> Value { agent.text("/api/v1/tasks").parse().expect("JSON") };
        let mut json = ask();
        for _ in 1..LOOKS {
            let (page, after) = (agent.page(), ask());
            if after["sequence"] == json["sequence"] {
                return View { page, json };
            }
            json = after;
        }
        View { page: agent.page(), json }
    }

    fn describe(&self) -> String {
        serde_json::to_string_pretty(&self.json).unwrap()
    }
}

impl View {
    /// One task's JSON.
    #[track_caller]
    pub(crate) fn task(&self, name: &str) -> &Value {
        let tasks = self.json["tasks"].as_array().unwrap();
        tasks
            .iter()
            .find(|task| task["name"] == name)
            .unwrap_or_else(|| panic!("no task {name}: {}", self.json))
    }

    /// `lockwatch_lock_held`; `None` when it is absent.
    #[track_caller]
    pub(crate) fn held(&self, task: &str) -> Option<f64> {
        self.page.of(task, "lock_held")
    }

    /// The verdict on a task.
    #[track_caller]
    pub(crate) fn verdict(&self, task: &str) -> &str {
        self.page.verdict(task)
    }

    /// Why the lock is unknown.
    pub(crate) fn reason(&self, task: &str) -> Option<&str> {
        self.task(task)["lock"]["unknown"]["reason"].as_str()
    }

    /// A duration or counter of a task by the middle of its name, such as `down_seconds`.
    #[track_caller]
    pub(crate) fn of_task(&self, task: &str, name: &str) -> f64 {
        let value = self.page.of(task, &format!("task_{name}"));
        value.unwrap_or_else(|| panic!("lockwatch_task_{name} of {task} is absent"))
    }

    /// A counter of a lock, summed over all its series, such as `ends_total`.
    #[track_caller]
    pub(crate) fn of_lock(&self, task: &str, name: &str) -> f64 {
        let series = self.page.series(&format!("lockwatch_lock_{name}"), &[("task", task)]);
        assert!(!series.is_empty(), "lockwatch_lock_{name} of {task} is absent");
        series.into_values().sum()
    }

    /// `lockwatch_store_errors_total`.
    #[track_caller]
    pub(crate) fn errors(&self, redis: &str, reason: &str) -> f64 {
        let labels = [("store", redis), ("reason", reason)];
        self.page
            .get("lockwatch_store_errors_total", &labels)
            .expect("every reason has its counter")
    }
}
