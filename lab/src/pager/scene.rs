//! The operations from which scenarios are composed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use lockwatch_judge::reading::{Ended, GuardRuns};
use lockwatch_judge::time::ServerTime;
use lockwatch_watch::redis::runs_claim;
use redis::AsyncTypedCommands;
use tokio::sync::MutexGuard;
use tokio::time::sleep;

use super::ledger::{End, Entry, Expected, Need, is_page};
use super::plan::{GRACE, TaskPlan};
use super::stage::Stage;
use super::verdict::{Period, answers};
use crate::stack::{
    Agent, Alertmanager, Cable, Labels, Lost, Prometheus, Redis, Set, Worker, WorkerSetup, until,
};

/// How often the receiver is checked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A scenario and its stage.
#[derive(Clone)]
pub(super) struct Scene {
    pub(super) stage: Arc<Stage>,
    pub(super) scenario: &'static str,
}

impl Scene {
    /// The task with the scenario's name.
    pub(super) fn task(&self) -> anyhow::Result<Task> {
        self.task_named(self.scenario)
    }

    pub(super) fn task_named(&self, name: &str) -> anyhow::Result<Task> {
        let plan = self.stage.tasks.iter().find(|plan| plan.name == name);
        Ok(Task {
            scene: self.clone(),
            plan: plan.with_context(|| format!("no task {name}"))?.clone(),
        })
    }

    /// Whether this is the short bench.
    pub(super) fn is_short(&self) -> bool {
        self.stage.timing.short
    }

    /// How long the scenario goes on, if the command does not say otherwise.
    pub(super) fn lasts(&self, minutes: f64) -> Duration {
        Duration::from_secs_f64(self.stage.timing.minutes.unwrap_or(minutes) * 60.0)
    }

    /// Waits for this many seconds.
    pub(super) async fn pass(&self, seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    pub(super) async fn redis(&self, name: &str) -> anyhow::Result<MutexGuard<'_, Redis>> {
        Ok(self.stage.redises.get(name).with_context(|| format!("no redis {name}"))?.lock().await)
    }

    /// The second server of a Redis.
    pub(super) async fn replica(&self, name: &str) -> anyhow::Result<MutexGuard<'_, Redis>> {
        Ok(self
            .stage
            .replicas
            .get(name)
            .with_context(|| format!("no replica of {name}"))?
            .lock()
            .await)
    }

    pub(super) async fn agent(&self, at: usize) -> anyhow::Result<MutexGuard<'_, Agent>> {
        Ok(self.stage.agents.get(at).with_context(|| format!("no agent {at}"))?.lock().await)
    }

    pub(super) async fn prometheus(&self) -> MutexGuard<'_, Prometheus> {
        self.stage.prometheus.lock().await
    }

    pub(super) async fn alertmanager(&self) -> MutexGuard<'_, Alertmanager> {
        self.stage.alertmanager.lock().await
    }

    /// The servers of a Redis with Sentinels.
    pub(super) fn set(&self, redis: &str) -> anyhow::Result<&Set> {
        self.stage.sets.get(redis).with_context(|| format!("no Sentinels of {redis}"))
    }

    /// The cables from an agent to the servers and Sentinels of a Redis.
    pub(super) fn cables(&self, agent: usize, redis: &str) -> anyhow::Result<&[Cable]> {
        let cables = self.stage.cables.get(agent).and_then(|cables| cables.get(redis));
        Ok(cables.with_context(|| format!("no cable to {redis}"))?.as_slice())
    }

    /// Adds a line to the report.
    pub(super) fn note(&self, text: impl Into<String>) {
        self.stage.ledger.note(self.scenario, text.into());
    }

    /// Adds a line to the report. Unless it is `kept`, something is wrong.
    pub(super) fn promise(&self, kept: bool, text: impl Into<String>) {
        self.stage.ledger.promise(self.scenario, kept, text.into());
    }

    /// Expects an alert about a whole Redis.
    pub(super) fn expect_of_redis(
        &self,
        alert: &str,
        redis: &str,
        due: Instant,
    ) -> anyhow::Result<Entry> {
        self.expect(labels(alert, [of_store(redis)]), due)
    }

    /// Expects an alert about all agents together.
    pub(super) fn expect_of_agents(&self, alert: &str, due: Instant) -> anyhow::Result<Entry> {
        self.expect(labels(alert, self.stage.labels_of_agents()), due)
    }

    /// Expects an alert about one agent.
    pub(super) fn expect_of_agent(
        &self,
        alert: &str,
        at: usize,
        due: Instant,
    ) -> anyhow::Result<Entry> {
        self.expect(labels(alert, self.stage.labels_of_agent(at)?), due)
    }

    /// Allows an alert about a whole Redis.
    pub(super) fn may_of_redis(&self, alert: &str, redis: &str) {
        self.may(labels(alert, [of_store(redis)]));
    }

    pub(super) fn may_of_agent(&self, alert: &str, at: usize) -> anyhow::Result<()> {
        self.may(labels(alert, self.stage.labels_of_agent(at)?));
        Ok(())
    }

    fn expect(&self, labels: Labels, due: Instant) -> anyhow::Result<Entry> {
        let need = Need::Must { due, by: due + self.stage.timing.sent_within(&labels)? };
        Ok(self.stage.ledger.write(Expected {
            scenario: self.scenario,
            labels,
            need,
            end: End::Never,
        }))
    }

    fn may(&self, labels: Labels) {
        self.write(labels, Need::May(None), End::Any);
    }

    /// Writes any expectation.
    pub(super) fn write(&self, labels: Labels, need: Need, end: End) {
        self.stage.ledger.write(Expected { scenario: self.scenario, labels, need, end });
    }

    /// Waits for the notification, or until it is too late.
    pub(super) async fn until_sent(&self, entry: &Entry) -> anyhow::Result<()> {
        let expected = entry.expected().context("no such entry")?;
        let Need::Must { by, .. } = expected.need else { return Ok(()) };
        self.until_period(by, |period| answers(period, &expected)).await;
        Ok(())
    }

    /// Records that the cause was fixed at `at`; waits for the notification of that, or until it is
    /// too late. `linger` is how much longer the rule keeps the alert.
    pub(super) async fn mended(
        &self,
        entry: &Entry,
        at: Instant,
        linger: Duration,
    ) -> anyhow::Result<()> {
        let expected = entry.expected().context("no such entry")?;
        let within = self.stage.timing.resolved_within(&expected.labels)? + linger;
        entry.mended(at, within);
        let over = |period: &Period| period.resolved.is_some() && answers(period, &expected);
        self.until_period(at + within, over).await;
        Ok(())
    }

    async fn until_period(&self, by: Instant, fits: impl Fn(&Period) -> bool) {
        while Instant::now() < by && !self.stage.reported().iter().any(&fits) {
            sleep(LOOK_EVERY).await;
        }
    }
}

/// The labels of an alert that is not about a task.
pub(super) fn labels(alert: &str, more: impl IntoIterator<Item = (String, String)>) -> Labels {
    let severity = if is_page(alert) { "critical" } else { "warning" };
    let base = [("alertname", alert), ("severity", severity)];
    base.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().chain(more).collect()
}

pub(super) fn of_store(redis: &str) -> (String, String) {
    ("store".to_owned(), redis.to_owned())
}

/// A task of a scenario.
#[derive(Clone)]
pub(super) struct Task {
    scene: Scene,
    pub(super) plan: TaskPlan,
}

impl Task {
    /// Turns a user's switch on. Returns the instant, like the methods that follow.
    pub(super) async fn switch_on(&self, user: &str) -> anyhow::Result<Instant> {
        self.write_switch(user, "on").await
    }

    pub(super) async fn switch_off(&self, user: &str) -> anyhow::Result<Instant> {
        self.write_switch(user, "off").await
    }

    pub(super) async fn write_switch(&self, user: &str, value: &str) -> anyhow::Result<Instant> {
        self.data().await?.hset(self.plan.switches(), user, value).await?;
        Ok(Instant::now())
    }

    /// Starts a worker that holds the lock and works.
    pub(super) async fn holder(&self) -> anyhow::Result<Worker> {
        let mut worker = self.candidate().await?;
        worker.holds().await?;
        Ok(worker)
    }

    /// Starts a worker that holds the lock on the second server and works.
    pub(super) async fn holder_at_replica(&self) -> anyhow::Result<Worker> {
        let address = self.scene.replica(self.plan.redis).await?.address();
        let mut worker = self.worker_at(address, Lost::GiveUp).await?;
        worker.holds().await?;
        Ok(worker)
    }

    /// Starts a worker that contends for the lock.
    pub(super) async fn candidate(&self) -> anyhow::Result<Worker> {
        self.worker(Lost::GiveUp).await
    }

    /// Starts a holder that never checks whether it still holds the lock.
    pub(super) async fn careless_holder(&self) -> anyhow::Result<Worker> {
        let mut worker = self.worker(Lost::WorkOn).await?;
        worker.holds().await?;
        Ok(worker)
    }

    async fn worker(&self, after_loss: Lost) -> anyhow::Result<Worker> {
        let address = self.scene.redis(self.plan.redis).await?.address();
        self.worker_at(address, after_loss).await
    }

    async fn worker_at(&self, redis: SocketAddr, after_loss: Lost) -> anyhow::Result<Worker> {
        let setup = WorkerSetup {
            redis,
            lock: self.plan.lock(),
            lease: self.plan.lease,
            progress: self.plan.progress(),
            claims: self.plan.claims(),
            after_loss,
        };
        let mut worker = Worker::start(&setup).await?;
        worker.contend().await?;
        // It keeps running until the stage ends, because its end would be another event.
        self.scene.stage.workers.lock().await.push(worker.clone());
        Ok(worker)
    }

    /// When the current lease ends without a further renewal.
    pub(super) async fn lease_ends(&self) -> anyhow::Result<Instant> {
        let mut data = self.data().await?;
        let ttl_ms: i64 = redis::cmd("PTTL").arg(self.plan.lock()).query_async(&mut data).await?;
        let ttl_ms = u64::try_from(ttl_ms)
            .with_context(|| format!("{} is not held with a lease", self.plan.name))?;
        Ok(Instant::now() + Duration::from_millis(ttl_ms))
    }

    /// Waits until the lease was just renewed.
    pub(super) async fn until_renewed(&self) -> anyhow::Result<()> {
        let fresh = self.plan.lease - 2 * LOOK_EVERY;
        let is_fresh =
            async || self.lease_ends().await.is_ok_and(|ends| ends > Instant::now() + fresh);
        until(self.plan.lease, "the lease is renewed", is_fresh).await
    }

    /// Kills the lock's holder; returns when the lock is free.
    pub(super) async fn crash(&self, mut holder: Worker) -> anyhow::Result<Instant> {
        holder.crash().await?;
        self.lease_ends().await
    }

    /// Sends any command about the task's keys.
    pub(super) async fn command(&self, command: &redis::Cmd) -> anyhow::Result<Instant> {
        command.exec_async(&mut self.data().await?).await?;
        Ok(Instant::now())
    }

    /// States what a guard with the present hold would: that its script ended with these exit
    /// codes, a second apart, or was ended by the guard, and whether it runs since now.
    pub(super) async fn state_runs(
        &self,
        codes: &[(u8, bool)],
        runs: bool,
    ) -> anyhow::Result<Instant> {
        let mut data = self.data().await?;
        let holders: Vec<String> = data.hkeys(self.plan.lock()).await?;
        let holder = holders.first().context("nobody has the lock")?;
        let (instance, _) = holder.rsplit_once(':').context("the holder has no thread")?;
        let now = i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
        let ended = codes.iter().rev().zip(1..).map(|((code, asked), ago)| {
            let to = ServerTime::at(now).plus_ms(-1_000 * ago);
            Ended { from: to.plus_ms(-200), to, code: *code, asked: *asked }
        });
        let mut ended: Vec<Ended> = ended.collect();
        ended.reverse();
        let (field, value) = runs_claim(&GuardRuns {
            instance: instance.as_bytes().to_vec(),
            host: b"wh-app-01".to_vec(),
            ended,
            since: runs.then_some(ServerTime::at(now)),
        });
        let key = self.plan.claims().context("the task has no claims")?;
        data.hset(key, field, value).await?;
        Ok(Instant::now())
    }

    /// Pauses the task's alerts, as a deploy script does; returns the end of the pause.
    pub(super) async fn pause(&self, time: Duration) -> anyhow::Result<Instant> {
        let end = SystemTime::now() + time;
        // Whole seconds, so that the instant is exact.
        let end_s = end.duration_since(UNIX_EPOCH)?.as_secs();
        self.data().await?.set(self.plan.pause(), end_s).await?;
        let left = (UNIX_EPOCH + Duration::from_secs(end_s)).duration_since(SystemTime::now())?;
        Ok(Instant::now() + left)
    }

    /// Expects `alert` for the task, not before `due`.
    pub(super) fn expect(&self, alert: &str, due: Instant) -> anyhow::Result<Entry> {
        self.scene.expect(self.plan.labels_of(alert, is_page(alert)), due)
    }

    /// Expects the alert for a task that is free and wanted since `since`.
    pub(super) fn expect_down(&self, since: Instant) -> anyhow::Result<Entry> {
        self.expect("LockwatchTaskDown", since + GRACE)
    }

    /// Writes any expectation of `alert` for the task.
    pub(super) fn write(&self, alert: &str, need: Need, end: End) {
        self.scene.write(self.plan.labels_of(alert, is_page(alert)), need, end);
    }

    /// Allows `alert` for the task.
    pub(super) fn may(&self, alert: &str) {
        self.scene.may(self.plan.labels_of(alert, is_page(alert)));
    }

    async fn data(&self) -> anyhow::Result<redis::aio::MultiplexedConnection> {
        self.scene.redis(self.plan.redis).await?.connect().await
    }
}
