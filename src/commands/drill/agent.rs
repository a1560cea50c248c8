//! The agent that publishes the drill: begins, renews and ends it.

use std::time::Duration;

use anyhow::Context as _;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::machine::Seen;
use super::prometheus::{Drilled, PUBLISHED};
use crate::api::{Drill, DrillRequest, Error, PresentDrill, StartDrill, TaskList};
use crate::chain::{Labels, Trouble, samples};
use crate::commands::ask::AgentArguments;
use crate::http::client::{Answer, PATIENCE, Server};
use crate::paths;

/// Time limit for a renewal, of which there is one each 5 s.
const RENEWED_WITHIN: Duration = Duration::from_secs(5);

/// An agent as it is reached.
#[derive(Clone, Debug)]
pub(super) struct Agent {
    pub(super) server: Server,
}

impl Agent {
    pub(super) fn new(arguments: &AgentArguments) -> anyhow::Result<Agent> {
        Ok(Agent { server: arguments.access.server(&arguments.agent_url)? })
    }

    /// All tasks.
    pub(super) async fn tasks(&self) -> Result<TaskList, Trouble> {
        self.read(self.server.get(paths::TASKS, PATIENCE).await)
    }

    /// The drill that runs.
    pub(super) async fn present(&self) -> Result<Option<Drill>, Trouble> {
        let answer = self.server.get(paths::DRILL, PATIENCE).await;
        if answer.as_ref().is_ok_and(|answer| answer.status == 404) {
            let trouble = Trouble::new(
                "it knows no drills",
                "update it: it is older than this command, or no agent of lockwatch",
            );
            return Err(trouble.of(&self.server));
        }
        self.read(answer).map(|PresentDrill { drill }| drill)
    }

    pub(super) async fn begin(&self, start: &StartDrill) -> Result<Drill, Trouble> {
        self.read(self.post(paths::DRILL, start, PATIENCE).await)
    }

    /// Asks the agent to go on.
    pub(super) async fn renew(&self, id: &str) -> Seen {
        let answer = self.change(id, DrillRequest::Renew).await;
        match answer {
            Ok(answer) if answer.status == 404 => {
                Seen::Ended(self.refused(&answer).unwrap_or_default())
            }
            answer => match self.read::<Drill>(answer) {
                Ok(_) => Seen::Renewed,
                Err(trouble) => Seen::Silent(trouble),
            },
        }
    }

    /// Ends the drill, if it has not ended.
    pub(super) async fn stop(&self, id: &str, notified: bool) -> Result<(), Trouble> {
        match self.change(id, DrillRequest::Stop { notified }).await {
            Ok(answer) if answer.status == 404 => Ok(()),
            answer => self.read::<Drill>(answer).map(drop),
        }
    }

    async fn change(&self, id: &str, request: DrillRequest) -> anyhow::Result<Answer> {
        self.post(&paths::DRILL_BY_ID.of(id), &request, RENEWED_WITHIN).await
    }

    async fn post(
        &self,
        path: &str,
        body: &impl Serialize,
        patience: Duration,
    ) -> anyhow::Result<Answer> {
        let body = serde_json::to_vec(body).context("cannot write the request")?;
        self.server.post(path, body, patience).await
    }

    /// Whether the series of the drill is on /metrics.
    pub(super) async fn shows(&self, drilled: &Drilled) -> Result<bool, Trouble> {
        let found = self.metrics(&[PUBLISHED]).await?;
        let has = |labels: &Labels| {
            drilled.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
        };
        Ok(found.iter().any(|sample| has(&sample.labels)))
    }

    /// When its process started, as it says on /metrics.
    pub(super) async fn started(&self) -> Result<Option<f64>, Trouble> {
        let found = self.metrics(&["process_start_time_seconds"]).await?;
        Ok(found.first().map(|sample| sample.value))
    }

    async fn metrics(&self, names: &[&str]) -> Result<Vec<crate::chain::Sample>, Trouble> {
        let answer = self.server.get(paths::METRICS, PATIENCE).await;
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        match self.refused(&answer) {
            Some(trouble) => Err(trouble),
            None => Ok(samples(&answer.body, names)),
        }
    }

    fn unreachable(&self, error: &anyhow::Error) -> Trouble {
        Trouble::new(format!("{error:#}"), "see that it runs, and that --agent.url is right")
    }

    fn refused(&self, answer: &Answer) -> Option<Trouble> {
        if (200..300).contains(&answer.status) {
            return None;
        }
        let said = serde_json::from_slice::<Error>(&answer.body).ok();
        Some(match (said, self.server.refusal(answer)) {
            (None, Some(trouble)) => trouble.of(&self.server),
            // Its sentences say what to do.
            (Some(said), _) if answer.status != 401 => {
                Trouble { saw: said.error.to_string(), remedy: String::new() }
            }
            (_, Some(trouble)) => trouble.of(&self.server),
            _ => Trouble::new(
                format!("it answers {}, as no agent of this version does", answer.status),
                "see that --agent.url is that of an agent, of a version that knows drills",
            )
            .of(&self.server),
        })
    }

    fn read<T: DeserializeOwned>(&self, answer: anyhow::Result<Answer>) -> Result<T, Trouble> {
        let answer = answer.map_err(|error| self.unreachable(&error))?;
        if let Some(trouble) = self.refused(&answer) {
            return Err(trouble);
        }
        serde_json::from_slice(&answer.body).map_err(|_| {
            Trouble::new("that is no answer of an agent's", "see that --agent.url is right")
                .of(&self.server)
        })
    }
}
