//! Locks and turns in real ZooKeeper servers, taken by real clients, under the real agent.
//!
//! The servers' tick is half a second, so that sessions last from one second to ten.

mod bad_input;
mod commands;
mod curator;
mod faults;
mod holds;
mod kazoo;
mod parts;
mod rights;
mod stores;
mod turns;

use serde_json::Value;

use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::zookeeper::{Ensemble, Setup};

/// The timeout of sessions that shall outlive what servers do.
const LONG_MS: u64 = 10_000;
/// The timeout of sessions that shall run out.
const SHORT_MS: u64 = 2_000;

/// Servers, and the agent that watches tasks in them.
struct Scene {
    agent: Agent,
    ensemble: Ensemble,
}

impl Scene {
    /// `None`, with a message, on a machine that lacks a program. `tasks`: the list of tasks in
    /// YAML.
    fn open(test: &str, setup: Setup, tasks: &str) -> Option<Scene> {
        let ensemble = Ensemble::start(test, setup)?;
        let agent = agent(&ensemble, tasks);
        Some(Scene { agent, ensemble })
    }

    /// Waits for a verdict of a task.
    #[track_caller]
    fn until(&self, task: &str, verdict: &str) -> Exposition {
        self.agent
            .until(PATIENCE, &format!("{task} is {verdict}"), |page| page.verdict(task) == verdict)
    }

    /// Waits until these hold the lock, each as the agent shows a session, and so many wait.
    #[track_caller]
    fn until_held(&self, task: &str, holders: &[&str], waiters: u64) {
        let mut holders = holders.to_vec();
        holders.sort_unstable();
        self.agent.until_view(PATIENCE, &format!("{task}: {holders:?}, {waiters}"), |view| {
            let lock = &view.task(task)["lock"];
            sessions(lock) == holders && lock["waiters"] == waiters
        });
    }

    /// The server of the agent's session.
    #[track_caller]
    fn server_of(&self, task: &str) -> usize {
        let node = &self.agent.task(task)["node"];
        self.ensemble.at(node.as_str().expect("a server"))
    }
}

fn agent(ensemble: &Ensemble, tasks: &str) -> Agent {
    agent_with(ensemble, "", tasks)
}

/// `more`: further fields of the ensemble.
fn agent_with(ensemble: &Ensemble, more: &str, tasks: &str) -> Agent {
    let store = ensemble.config(&format!(", interval: 500ms, timeout: 2s{more}"));
    Agent::start(&format!("{store}tasks:\n{tasks}"))
}

/// The sessions that hold a lock, sorted.
fn sessions(lock: &Value) -> Vec<String> {
    let holders = lock["hold"]["holders"].as_array().into_iter().flatten();
    let session = |holder: &Value| holder["holder"].as_str().unwrap_or_default().to_owned();
    let mut sessions: Vec<String> = holders.map(session).collect();
    sessions.sort_unstable();
    sessions
}

/// The verdicts on a task, each as long as it was not another one.
fn verdicts(pages: &[Exposition], task: &str) -> Vec<String> {
    let mut verdicts: Vec<String> =
        pages.iter().map(|page| page.verdict(task).to_owned()).collect();
    verdicts.dedup();
    verdicts
}

/// What is wrong with a task or a store, by the names of the problems.
fn problems(page: &Exposition, of: &str, name: &str) -> Vec<String> {
    let metric = format!("lockwatch_{of}_problem_seconds");
    let series = page.series(&metric, &[(of, name)]);
    let positive = series.into_iter().filter(|(_, value)| *value > 0.0);
    positive.map(|(labels, _)| labels["problem"].clone()).collect()
}
