//! The demo's story: shows step by step what can happen to a task, and checks each step against
//! what the agent reports.

use std::time::Duration;

use anyhow::{Context, bail};
use tokio::time::{Instant, sleep};

use super::board::{EVERYBODY, Position};
use super::look::{self, Exposition};
use super::stage::Stage;
use super::{HOSTS, LEASE, LOCK, PROGRESS, TASK, say};

/// The metric with the state of the task: one series, of the present verdict.
const STATE: &str = "lockwatch_task_state";
/// The metric with the times of the task, and which of them expired holds cost.
const TIME: &str = "lockwatch_task_time_seconds_total";
const OUTAGE: &[(&str, &str)] = &[("of", "outage")];
/// How often the agent is read while a change is awaited.
const ASK_EVERY: Duration = Duration::from_millis(200);

/// Plays the story with its reading pauses divided by `pace`; leases and thresholds keep their real
/// time.
///
/// # Errors
/// When the agent does not report what the story expects.
pub(super) async fn play(stage: &mut Stage, pace: u16) -> anyhow::Result<()> {
    let mut story = Story { stage, began: Instant::now(), pace: u32::from(pace.max(1)) };
    story.opening().await?;
    story.start().await?;
    story.renewals().await?;
    story.crash().await?;
    story.dead_thread().await?;
    story.switch_off().await?;
    story.on_again().await?;
    story.tell(
        "That was the story. Without --story the demo just runs, and you can do all this yourself.",
    );
    Ok(())
}

struct Story<'a> {
    stage: &'a mut Stage,
    began: Instant,
    pace: u32,
}

impl Story<'_> {
    async fn opening(&mut self) -> anyhow::Result<()> {
        say("");
        self.tell(
            "Two servers could run the task \"outbound\"; a Redisson lock sees to it that only one \
             does.",
        );
        self.tell(&format!(
            "What Prometheus sees is at {}/metrics. Nobody wants the task yet:",
            self.stage.url()
        ));
        self.expect("stopped", 10).await?;
        self.show(&[
            (STATE, &[("state", "stopped")]),
            ("lockwatch_task_wanted", &[]),
            ("lockwatch_lock_held", &[]),
        ])
        .await?;
        self.let_read(8).await;
        Ok(())
    }

    async fn start(&mut self) -> anyhow::Result<()> {
        self.chapter("Start");
        self.tell("Anna and Ben switch the task on. One of the guards gets the lock.");
        self.switch(&["anna", "ben"], Position::On).await?;
        self.expect("running", 10).await?;
        self.show(&[
            (STATE, &[("state", "running")]),
            ("lockwatch_task_wanting_users", &[]),
            ("lockwatch_lock_holder", &[]),
        ])
        .await?;
        self.tell(&format!(
            "The lock knows an instance id only; the hash {HOSTS} says on which host that is."
        ));
        self.let_read(8).await;
        Ok(())
    }

    async fn renewals(&mut self) -> anyhow::Result<()> {
        self.chapter("Renewals");
        self.tell(
            "The lease is 9 s, and the holder's watchdog renews it every 3 s: the rest of the \
             lease is a saw-tooth.",
        );
        let mut rest = Vec::new();
        for _ in 0..7 {
            let ttl = self.page().await?.value("lockwatch_lock_ttl_seconds", &[]);
            rest.push(ttl.map_or_else(|| "?".to_owned(), |seconds| format!("{seconds:.1}")));
            sleep(Duration::from_secs(1)).await;
        }
        self.tell(&format!("lockwatch_lock_ttl_seconds, each second: {}", rest.join("  ")));
        self.show(&[
            ("lockwatch_lock_renewals_total", &[]),
            ("lockwatch_lock_last_renewal_latency_seconds", &[]),
        ])
        .await?;
        self.let_read(10).await;
        Ok(())
    }

    async fn crash(&mut self) -> anyhow::Result<()> {
        self.chapter("Crash and take-over");
        let crashed = self.holder_host().await?;
        self.stage.worker_on(&crashed)?.crash().await?;
        self.tell(&format!(
            "{crashed} crashes (its guard was killed with SIGKILL, and nothing is left of its \
             script). The lock cannot know and stays:"
        ));
        self.let_pass(2).await;
        self.show(&[("lockwatch_lock_held", &[]), ("lockwatch_lock_ttl_seconds", &[])]).await?;
        self.tell("Nobody renews it any more, and the other guard waits for the lease to run out.");
        self.until("another host holds the lock", 15, |page| {
            page.label("lockwatch_lock_holder", "holder_host")
                .is_some_and(|host| !host.is_empty() && host != crashed)
        })
        .await?;
        self.until("the outage was counted", 8, |page| {
            page.value(TIME, OUTAGE).is_some_and(|seconds| seconds > 0.0)
        })
        .await?;
        self.expect("running", 5).await?;
        self.tell(
            "It took over. The gap was short, but the work stood still since the crash: that is \
             the outage.",
        );
        self.show(&[
            ("lockwatch_lock_holder", &[]),
            ("lockwatch_lock_expired_total", &[]),
            (TIME, OUTAGE),
            ("lockwatch_task_handover_seconds_total", &[]),
        ])
        .await?;
        self.advise().await?;
        self.stage.restart_ended()?;
        self.tell(&format!("{crashed} is started again and waits in turn."));
        self.let_read(10).await;
        Ok(())
    }

    /// What the crash cost, beside the configured lease.
    async fn advise(&self) -> anyhow::Result<()> {
        let outage_s = self.page().await?.value(TIME, OUTAGE).unwrap_or_default();
        let lease_s = LEASE.as_secs_f64();
        self.tell(&format!(
            "The crash cost {outage_s:.1} s; with a lease of {lease_s:.0} s it is at most about \
             that. A shorter lease is taken over sooner, but"
        ));
        self.tell(
            "it must leave time for a renewal that fails and for the script to end: a guard \
             refuses one that does not.",
        );
        Ok(())
    }

    async fn dead_thread(&mut self) -> anyhow::Result<()> {
        self.chapter("Dead thread");
        let host = self.holder_host().await?;
        let worker = self.stage.worker_on(&host)?.name();
        self.stage.board.hang(worker).await?;
        let (key, field) = PROGRESS;
        self.tell(&format!(
            "The script on {host} hangs, but its guard goes on renewing: the lock looks healthy."
        ));
        self.tell(&format!(
            "Only {field} in {key}, which the script writes while it works, does not move any more."
        ));
        self.expect("stalled", 15).await?;
        self.show(&[
            (STATE, &[("state", "stalled")]),
            ("lockwatch_lock_held", &[]),
            ("lockwatch_lock_ttl_seconds", &[]),
            ("lockwatch_task_problem_seconds", &[("problem", "stalled")]),
        ])
        .await?;
        self.tell("Without a progress configured, nobody could tell this from a task that runs.");
        self.let_read(10).await;
        Ok(())
    }

    async fn switch_off(&mut self) -> anyhow::Result<()> {
        self.chapter("Switch-off");
        self.tell(
            "Anna and Ben switch the task off. Nobody wants it any more, so the guard stops \
             the script and releases the lock.",
        );
        self.switch(&EVERYBODY, Position::Off).await?;
        self.expect("stopped", 10).await?;
        self.show(&[
            (STATE, &[("state", "stopped")]),
            ("lockwatch_lock_held", &[]),
            ("lockwatch_task_clear", &[]),
        ])
        .await?;
        self.tell("It is free because nobody wants it: that is no gap, and nobody is paged.");
        self.let_read(9).await;
        Ok(())
    }

    async fn on_again(&mut self) -> anyhow::Result<()> {
        self.chapter("On again");
        self.tell("Chris switches the task on. Whoever gets the lock starts a fresh script.");
        self.switch(&["chris"], Position::On).await?;
        self.expect("running", 10).await?;
        self.show(&[
            (STATE, &[("state", "running")]),
            ("lockwatch_lock_holder", &[]),
            ("lockwatch_lock_acquisitions_total", &[]),
            ("lockwatch_task_progress_timestamp_seconds", &[]),
        ])
        .await?;
        self.let_read(6).await;
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

    async fn page(&self) -> anyhow::Result<Exposition> {
        let answer = look::get(self.stage.agent.address(), "/metrics")
            .await
            .context("the agent does not answer")?;
        let text = String::from_utf8_lossy(&answer.body);
        if answer.status != 200 {
            bail!("the agent answers /metrics with status {}: {}", answer.status, text.trim());
        }
        Ok(Exposition(text.into_owned()))
    }

    /// Waits until the verdict is `state`.
    async fn expect(&self, state: &str, within_s: u64) -> anyhow::Result<()> {
        let what = format!("the task is {state}");
        self.until(&what, within_s, |page| {
            page.line(STATE, &[("task", TASK), ("state", state)]).is_some()
        })
        .await
    }

    async fn until(
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
                    lines_of_task(&page)
                );
            }
            sleep(ASK_EVERY).await;
        }
    }

    /// Prints series as they are in `/metrics` now.
    async fn show(&self, series: &[(&str, &[(&str, &str)])]) -> anyhow::Result<()> {
        let page = self.page().await?;
        for (name, labels) in series {
            match page.line(name, labels) {
                Some(line) => say(&format!("            {line}")),
                None => say(&format!("            {name} is absent")),
            }
        }
        Ok(())
    }

    fn chapter(&self, title: &str) {
        say("");
        self.tell(&format!("== {title} =="));
    }

    fn tell(&self, sentence: &str) {
        say(&format!("{:>5} s  {sentence}", self.began.elapsed().as_secs()));
    }

    /// Pauses for the reader; divided by the pace.
    async fn let_read(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds) / self.pace).await;
    }

    /// Pauses for the system under watch; not divided by the pace.
    async fn let_pass(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }
}

fn lines_of_task(page: &Exposition) -> String {
    let ours = format!("task=\"{TASK}\"");
    page.0.lines().filter(|line| line.contains(&ours)).collect::<Vec<_>>().join("\n")
}
