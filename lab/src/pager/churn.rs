//! Locks whose holders are replaced continuously, while an agent must never show the holder of one
//! hold with the deadline of another. The milliseconds of each deadline identify its hold, so that a
//! single displayed pair can be judged.

mod hold;
mod shown;
mod writer;

use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::time::sleep;

use super::plan::TaskPlan;
use super::scene::Scene;
use crate::numbers;
use crate::stack::{Weather, get};
use shown::{Live, Pairs, Tally};
use writer::Writers;

/// Servers that report deadlines by PEXPIRETIME, and only by PTTL and TIME, as before Redis 7.
const REDISES: [(&str, &str); 2] = [("churn-new", "pexpiretime"), ("churn-old", "pttl")];
/// Number of locks on each, and of connections that replace their holders.
const LOCKS: usize = 300;
const WRITERS: usize = 16;
/// How often each output is read.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Minimum number of pairs; fewer prove nothing.
const PAIRS_MIN: usize = 1_000;
/// Alerts that so many changes of holders may bring along.
const MAY: [&str; 4] = [
    "LockwatchTaskFlapping",
    "LockwatchTaskContended",
    "LockwatchRenewalOverdue",
    "LockwatchLeaseExpired",
];

/// The tasks.
pub(super) fn tasks() -> Vec<TaskPlan> {
    let of = |redis: &'static str| {
        (0..LOCKS)
            .map(move |at| TaskPlan::new(format!("{redis}-{at}")).on(redis).without_switches())
    };
    REDISES.into_iter().flat_map(|(redis, _)| of(redis)).collect()
}

/// Replaces holders for this time, and judges what the agent shows of them.
pub(super) async fn play(scene: &Scene, lasts: Duration) -> anyhow::Result<()> {
    let plans = tasks();
    for plan in &plans {
        MAY.iter()
            .try_for_each(|alert| scene.task_named(&plan.name).map(|task| task.may(alert)))?;
    }
    let mut all = Vec::new();
    for (redis, _) in REDISES {
        let server = scene.redis(redis).await?;
        if redis == "churn-old" {
            server.command(&["ACL", "SETUSER", "lockwatch", "-pexpiretime"]).await?;
            server.command(&["CLIENT", "KILL", "USER", "lockwatch"]).await?;
        }
        let keys = plans.iter().filter(|plan| plan.redis == redis).map(TaskPlan::lock).collect();
        all.push(Writers::start(&server, keys, WRITERS).await?);
        scene.cables(0, redis)?.iter().for_each(|cable| cable.set(Weather::Segments));
    }
    let agent = scene.agent(0).await?.address();
    let live = Live::listen(agent).await?;
    let (began, mut tally) = (Instant::now(), Tally::default());
    while began.elapsed() < lasts {
        tally.metrics(&get(agent, "/metrics").await?.ok()?);
        tally.api(&get(agent, "/api/v1/tasks").await?.json()?);
        sleep(LOOK_EVERY).await;
    }
    for (place, pairs) in
        [("/metrics", tally.metrics), ("/api/v1/tasks", tally.api), ("/live", live.stop()?)]
    {
        report(scene, place, &pairs);
    }
    for ((redis, command), writers) in REDISES.into_iter().zip(all) {
        scene.note(format!("{redis}: {} holds were written", writers.stop()));
        let mut connection = scene.redis(redis).await?.connect().await?;
        let stats: String =
            redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
        numbers::calls(&stats, command).with_context(|| format!("{command} was never sent"))?;
        let keys: Vec<String> =
            plans.iter().filter(|plan| plan.redis == redis).map(TaskPlan::lock).collect();
        redis::cmd("DEL").arg(keys).exec_async(&mut connection).await?;
    }
    Ok(())
}

fn report(scene: &Scene, place: &str, pairs: &Pairs) {
    let Pairs { right, wrong, bare } = pairs;
    let first = wrong.first().map_or_else(String::new, |wrong| format!(": {wrong}"));
    scene.promise(
        wrong.is_empty() && *right >= PAIRS_MIN,
        format!(
            "{place}: {} wrong pairs of {}, {bare} holders without a deadline{first}",
            wrong.len(),
            right + wrong.len()
        ),
    );
}
