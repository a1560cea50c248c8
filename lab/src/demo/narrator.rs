//! Tells a story of the demo: prints it, and checks each step against what the agent exposes.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, sleep};

use lockwatch::commands::ask::AgentArguments;
use lockwatch::commands::demo::say;

use super::exposition::Exposition;

/// The metric with the state of a task: one series, of the present verdict.
pub(super) const STATE: &str = "lockwatch_task_state_rank";
/// Maximum time for one response.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How often the agent is read while a change is awaited.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Who narrates a story about one task.
pub(super) struct Narrator {
    agent: AgentArguments,
    task: &'static str,
    began: Instant,
    pace: u32,
}

impl Narrator {
    /// Tells about `task` with the pauses for the reader divided by `pace`.
    pub(super) fn new(agent: AgentArguments, task: &'static str, pace: u16) -> Narrator {
        Narrator { agent, task, began: Instant::now(), pace: u32::from(pace.max(1)) }
    }

    /// What the agent exposes now.
    pub(super) async fn page(&self) -> anyhow::Result<Exposition> {
        let answer = self.agent.get("/metrics", ANSWER_WITHIN).await;
        let answer = answer.context("the agent does not answer")?;
        let text = String::from_utf8_lossy(&answer.body);
        if answer.status != 200 {
            bail!("the agent answers /metrics with status {}: {}", answer.status, text.trim());
        }
        Ok(Exposition(text.into_owned()))
    }

    /// Waits until the verdict is `state`.
    pub(super) async fn expect(&self, state: &str, within_s: u64) -> anyhow::Result<()> {
        let what = format!("the task is {state}");
        self.until(&what, within_s, |page| {
            page.line(STATE, &[("task", self.task), ("state", state)]).is_some()
        })
        .await
    }

    /// Waits until the exposition shows it.
    pub(super) async fn until(
        &self,
        what: &str,
        within_s: u64,
        seen: impl Fn(&Exposition) -> bool,
    ) -> anyhow::Result<()> {
        let give_up = Instant::now() + Duration::from_secs(within_s);
        loop {
            let page = self.page().await?;
            if seen(&page) {
                return Ok(());
            }
            if Instant::now() > give_up {
                bail!(
                    "the agent did not say within {within_s} s that {what}; it says:\n{}",
                    lines_of(self.task, &page)
                );
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Prints series as they are in `/metrics` now.
    pub(super) async fn show(&self, series: &[(&str, &[(&str, &str)])]) -> anyhow::Result<()> {
        let page = self.page().await?;
        for (name, labels) in series {
            match page.line(name, labels) {
                Some(line) => say(&format!("            {line}")),
                None => say(&format!("            {name} is absent")),
            }
        }
        Ok(())
    }

    /// Begins a part of the story.
    pub(super) fn chapter(&self, title: &str) {
        say("");
        self.tell(&format!("== {title} =="));
    }

    /// Prints a sentence, and when.
    pub(super) fn tell(&self, sentence: &str) {
        say(&format!("{:>5} s  {sentence}", self.began.elapsed().as_secs()));
    }

    /// Pauses for the reader; divided by the pace.
    pub(super) async fn let_read(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds) / self.pace).await;
    }

    /// Pauses for the system under watch; not divided by the pace.
    pub(super) async fn let_pass(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }
}

fn lines_of(task: &str, page: &Exposition) -> String {
    let ours = format!("task=\"{task}\"");
    page.0.lines().filter(|line| line.contains(&ours)).collect::<Vec<_>>().join("\n")
}
