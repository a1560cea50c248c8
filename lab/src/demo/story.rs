//! The demo's story: shows step by step what can happen to a task, and checks each step against
//! what the agent reports.

use std::time::Duration;

use anyhow::Context;
use tokio::time::sleep;

use lockwatch::commands::demo::{
    EVERYBODY, HOSTS, LEASE, LOCK, PROGRESS, Position, Stage, TASK, say,
};

use super::narrator::{Narrator, STATE};

/// The metric with the times of the task, and which of them expired holds cost.
const TIME: &str = "lockwatch_task_time_seconds_total";
const OUTAGE: &[(&str, &str)] = &[("of", "outage")];

/// Plays the story with its reading pauses divided by `pace`; leases and thresholds keep their real
/// time.
///
/// # Errors
/// When the agent does not report what the story expects.
pub(super) async fn play(stage: &mut Stage, pace: u16) -> anyhow::Result<()> {
    let narrator = Narrator::new(stage.agent.asked().clone(), TASK, pace);
    let mut story = Story { stage, narrator };
    story.opening().await?;
    story.start().await?;
    story.renewals().await?;
    story.crash().await?;
    story.dead_thread().await?;
    story.switch_off().await?;
    story.on_again().await?;
    story.narrator.tell(
        "That was the story. Without --story the demo just runs, and you can do all this yourself.",
    );
    Ok(())
}

struct Story<'a> {
    stage: &'a mut Stage,
    narrator: Narrator,
}

impl Story<'_> {
    async fn opening(&mut self) -> anyhow::Result<()> {
        say("");
        self.narrator.tell(
            "Two servers could run the task \"outbound\"; a Redisson lock sees to it that only one \
             does.",
        );
        self.narrator.tell(&format!(
            "What Prometheus sees is at {}/metrics. Nobody wants the task yet:",
            self.stage.agent.url()
        ));
        self.narrator.expect("stopped", 10).await?;
        self.narrator
            .show(&[
                (STATE, &[("state", "stopped")]),
                ("lockwatch_task_wanted", &[]),
                ("lockwatch_lock_held", &[]),
            ])
            .await?;
        self.narrator.let_read(8).await;
        Ok(())
    }

    async fn start(&mut self) -> anyhow::Result<()> {
        self.narrator.chapter("Start");
        self.narrator.tell("Anna and Ben switch the task on. One of the guards gets the lock.");
        self.switch(&["anna", "ben"], Position::On).await?;
        self.narrator.expect("running", 10).await?;
        self.narrator
            .show(&[
                (STATE, &[("state", "running")]),
                ("lockwatch_task_wanting_users", &[]),
                ("lockwatch_lock_holder", &[]),
            ])
            .await?;
        self.narrator.tell(&format!(
            "The lock knows an instance id only; the hash {HOSTS} says on which host that is."
        ));
        self.narrator.let_read(8).await;
        Ok(())
    }

    async fn renewals(&mut self) -> anyhow::Result<()> {
        self.narrator.chapter("Renewals");
        self.narrator.tell(
            "The lease is 9 s, and the holder's watchdog renews it every 3 s: the rest of the \
             lease is a saw-tooth.",
        );
        let mut rest = Vec::new();
        for _ in 0..7 {
            let ttl = self.narrator.page().await?.value("lockwatch_lock_ttl_seconds", &[]);
            rest.push(ttl.map_or_else(|| "?".to_owned(), |seconds| format!("{seconds:.1}")));
            sleep(Duration::from_secs(1)).await;
        }
        self.narrator
            .tell(&format!("lockwatch_lock_ttl_seconds, each second: {}", rest.join("  ")));
        self.narrator
            .show(&[
                ("lockwatch_lock_renewals_total", &[]),
                ("lockwatch_lock_last_renewal_latency_seconds", &[]),
            ])
            .await?;
        self.narrator.let_read(10).await;
        Ok(())
    }

    async fn crash(&mut self) -> anyhow::Result<()> {
        self.narrator.chapter("Crash and take-over");
        let crashed = self.holder_host().await?;
        self.stage.worker_on(&crashed)?.crash().await?;
        self.narrator.tell(&format!(
            "{crashed} crashes (its guard was killed with SIGKILL, and nothing is left of its \
             script). The lock cannot know and stays:"
        ));
        self.narrator.let_pass(2).await;
        self.narrator
            .show(&[("lockwatch_lock_held", &[]), ("lockwatch_lock_ttl_seconds", &[])])
            .await?;
        self.narrator
            .tell("Nobody renews it any more, and the other guard waits for the lease to run out.");
        self.narrator
            .until("another host holds the lock", 15, |page| {
                page.label("lockwatch_lock_holder", "holder_host")
                    .is_some_and(|host| !host.is_empty() && host != crashed)
            })
            .await?;
        self.narrator
            .until("the outage was counted", 8, |page| {
                page.value(TIME, OUTAGE).is_some_and(|seconds| seconds > 0.0)
            })
            .await?;
        self.narrator.expect("running", 5).await?;
        self.narrator.tell(
            "It took over. The gap was short, but the work stood still since the crash: that is \
             the outage.",
        );
        self.narrator
            .show(&[
                ("lockwatch_lock_holder", &[]),
                ("lockwatch_lock_expired_total", &[]),
                (TIME, OUTAGE),
                ("lockwatch_task_handover_seconds_total", &[]),
            ])
            .await?;
        self.advise().await?;
        self.stage.restart_ended()?;
        self.narrator.tell(&format!("{crashed} is started again and waits in turn."));
        self.narrator.let_read(10).await;
        Ok(())
    }

    /// What the crash cost, beside the configured lease.
    async fn advise(&self) -> anyhow::Result<()> {
        let outage_s = self.narrator.page().await?.value(TIME, OUTAGE).unwrap_or_default();
        let lease_s = LEASE.as_secs_f64();
        self.narrator.tell(&format!(
            "The crash cost {outage_s:.1} s; with a lease of {lease_s:.0} s it is at most about \
             that. A shorter lease is taken over sooner, but"
        ));
        self.narrator.tell(
            "it must leave time for a renewal that fails and for the script to end: a guard \
             refuses one that does not.",
        );
        Ok(())
    }

    async fn dead_thread(&mut self) -> anyhow::Result<()> {
        self.narrator.chapter("Dead thread");
        let host = self.holder_host().await?;
        let worker = self.stage.worker_on(&host)?.name();
        self.stage.board.hang(worker).await?;
        let (key, field) = PROGRESS;
        self.narrator.tell(&format!(
            "The script on {host} hangs, but its guard goes on renewing: the lock looks healthy."
        ));
        self.narrator.tell(&format!(
            "Only {field} in {key}, which the script writes while it works, does not move any more."
        ));
        self.narrator.expect("stalled", 15).await?;
        self.narrator
            .show(&[
                (STATE, &[("state", "stalled")]),
                ("lockwatch_lock_held", &[]),
                ("lockwatch_lock_ttl_seconds", &[]),
                ("lockwatch_task_problem_seconds", &[("problem", "stalled")]),
            ])
            .await?;
        self.narrator
            .tell("Without a progress configured, nobody could tell this from a task that runs.");
        self.narrator.let_read(10).await;
        Ok(())
    }

    async fn switch_off(&mut self) -> anyhow::Result<()> {
        self.narrator.chapter("Switch-off");
        self.narrator.tell(
            "Anna and Ben switch the task off. Nobody wants it any more, so the guard stops \
             the script and releases the lock.",
        );
        self.switch(&EVERYBODY, Position::Off).await?;
        self.narrator.expect("stopped", 10).await?;
        self.narrator
            .show(&[
                (STATE, &[("state", "stopped")]),
                ("lockwatch_lock_held", &[]),
                ("lockwatch_task_clear", &[]),
            ])
            .await?;
        self.narrator
            .tell("It is free because nobody wants it: that is no gap, and nobody is paged.");
        self.narrator.let_read(9).await;
        Ok(())
    }

    async fn on_again(&mut self) -> anyhow::Result<()> {
        self.narrator.chapter("On again");
        self.narrator
            .tell("Chris switches the task on. Whoever gets the lock starts a fresh script.");
        self.switch(&["chris"], Position::On).await?;
        self.narrator.expect("running", 10).await?;
        self.narrator
            .show(&[
                (STATE, &[("state", "running")]),
                ("lockwatch_lock_holder", &[]),
                ("lockwatch_lock_acquisitions_total", &[]),
                ("lockwatch_task_progress_timestamp_seconds", &[]),
            ])
            .await?;
        self.narrator.let_read(6).await;
        Ok(())
    }

    async fn switch(&mut self, users: &[&str], position: Position) -> anyhow::Result<()> {
        for user in users {
            self.stage.board.switch(user, position).await?;
        }
        Ok(())
    }

    async fn holder_host(&mut self) -> anyhow::Result<String> {
        self.stage.board.holder_host().await?.with_context(|| format!("nobody holds {LOCK}"))
    }
}
