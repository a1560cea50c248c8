//! Scenarios in which Redis restarts, loses its data, or does not answer. Each uses a Redis of its
//! own.

use std::time::{Duration, Instant};

use crate::pager::plan::{BLIND_AFTER, TaskPlan, Wiring};
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;
use crate::stack::{Data, Weather};

/// Short, so that a renewal that fails on a broken connection and is tried again a period later is
/// still within the grace.
const SHORT_LEASE: Duration = Duration::from_secs(5);
const LONG_LEASE: Duration = Duration::from_secs(90);
/// Number of tasks of the Redis that dies.
const MANY: usize = 200;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new("restart-with-data", "Redis restarts with its data: nothing", |scene| {
            Box::pin(restart_with_data(scene))
        })
        .task(|task| task.on("kept"))
        .short(),
        Scenario::new(
            "restart-empty",
            "Redis restarts without its data: switches lost, the living holder lost its lock",
            |scene| Box::pin(restart_empty(scene)),
        )
        .task(|task| task.on("emptied").with_lease(SHORT_LEASE).with_claims())
        .short(),
        Scenario::new(
            "restart-empty-taken",
            "the same, and a waiter takes the lock from the living holder: also split",
            |scene| Box::pin(restart_empty_taken(scene)),
        )
        .task(|task| task.on("taken").with_lease(LONG_LEASE).with_claims()),
        Scenario::new(
            "restart-empty-idle",
            "the same while nobody wants it and nobody holds it: nothing",
            |scene| Box::pin(restart_empty_idle(scene)),
        )
        .task(|task| task.on("idle"))
        .short(),
        Scenario::new("flushed", "all keys are flushed: switches lost, lost lock", |scene| {
            Box::pin(flushed(scene))
        })
        .task(|task| task.on("flushed").with_claims()),
        Scenario::new(
            "frozen",
            "Redis does not answer for 45 s: one page for it, until it answers",
            |scene| Box::pin(frozen(scene)),
        )
        .task(|task| task.on("frozen"))
        .short(),
        Scenario::new("blip", "Redis does not answer for 8 s: nothing", |scene| {
            Box::pin(blip(scene))
        })
        .task(|task| task.on("blip").with_lease(LONG_LEASE))
        .short(),
        Scenario::new(
            "away-while-down",
            "Redis is away for 10 minutes (short: 60 s) while down fires: it stays",
            |scene| Box::pin(away_while_down(scene)),
        )
        .task(|task| task.on("away"))
        .short(),
        Scenario::new("many-tasks", "a redis with 200 tasks dies: exactly one page", |scene| {
            Box::pin(many_tasks(scene))
        })
        .tasks(
            (1..=MANY)
                .map(|at| TaskPlan::new(format!("many-{at}")).on("many").never_wanted())
                .collect(),
        )
        .alone(),
        Scenario::new(
            "clock-step",
            "the server's clock steps by two minutes: reported, no page",
            |scene| Box::pin(clock_step(scene)),
        )
        .wiring(Wiring { cables: true, ..Wiring::default() }),
    ]
}

async fn restart_with_data(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    scene.pass(10).await;
    scene.redis("kept").await?.restart(Data::Kept).await?;
    // A renewal that fails on a broken connection is tried again a period later.
    task.may("LockwatchRenewalOverdue");
    scene.pass(60).await;
    Ok(())
}

async fn restart_empty(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(10).await;
    // The worker then learns of the loss late enough for the agent to see it.
    task.until_renewed().await?;
    let emptied = Instant::now();
    scene.redis("emptied").await?.restart(Data::Lost).await?;
    let lost_switches = task.expect("LockwatchSwitchesLost", emptied)?;
    let lost_lock = task.expect("LockwatchLockLost", emptied)?;
    lost_lock.stays_until(emptied + Duration::from_secs(600));
    holder.loses().await?;
    holder.holds().await?;
    scene.until_sent(&lost_switches).await?;
    scene.until_sent(&lost_lock).await?;
    scene.pass(20).await;
    let mended = task.switch_on("anna").await?;
    scene.mended(&lost_switches, mended, Duration::ZERO).await
}

async fn restart_empty_taken(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _old = task.careless_holder().await?;
    let mut new = task.candidate().await?;
    scene.pass(10).await;
    let emptied = Instant::now();
    scene.redis("taken").await?.restart(Data::Lost).await?;
    let lost_switches = task.expect("LockwatchSwitchesLost", emptied)?;
    task.expect("LockwatchLockLost", emptied)?.stays_until(emptied + Duration::from_secs(600));
    new.holds().await?;
    let split = task.expect("LockwatchTaskSplit", emptied)?;
    split.stays_until(emptied + Duration::from_secs(600));
    scene.until_sent(&split).await?;
    scene.until_sent(&lost_switches).await?;
    let mended = task.switch_on("anna").await?;
    scene.mended(&lost_switches, mended, Duration::ZERO).await
}

async fn restart_empty_idle(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    task.switch_off("anna").await?;
    scene.pass(8).await;
    scene.redis("idle").await?.restart(Data::Lost).await?;
    scene.pass(50).await;
    task.switch_off("anna").await?;
    Ok(())
}

async fn flushed(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(10).await;
    task.until_renewed().await?;
    let flushed = task.command(&redis::cmd("FLUSHALL")).await?;
    let lost_switches = task.expect("LockwatchSwitchesLost", flushed)?;
    task.expect("LockwatchLockLost", flushed)?.stays_until(flushed + Duration::from_secs(600));
    holder.loses().await?;
    holder.holds().await?;
    scene.until_sent(&lost_switches).await?;
    let mended = task.switch_off("anna").await?;
    holder.release().await?;
    scene.mended(&lost_switches, mended, Duration::ZERO).await
}

async fn frozen(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_off("anna").await?;
    scene.pass(8).await;
    scene.redis("frozen").await?.freeze().await?;
    let unreachable = scene.expect_of_redis(
        "LockwatchStoreUnreachable",
        "frozen",
        Instant::now() + BLIND_AFTER,
    )?;
    scene.pass(45).await;
    scene.redis("frozen").await?.thaw().await?;
    scene.mended(&unreachable, Instant::now(), Duration::ZERO).await
}

async fn blip(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    for _ in 0..2 {
        scene.pass(15).await;
        scene.redis("blip").await?.freeze().await?;
        scene.pass(8).await;
        scene.redis("blip").await?.thaw().await?;
    }
    scene.pass(30).await;
    Ok(())
}

async fn away_while_down(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    scene.redis("away").await?.save().await?;
    scene.redis("away").await?.kill().await?;
    let unreachable =
        scene.expect_of_redis("LockwatchStoreUnreachable", "away", Instant::now() + BLIND_AFTER)?;
    scene.pass(if scene.is_short() { 60 } else { 600 }).await;
    let back = Instant::now();
    scene.redis("away").await?.start_again(Data::Kept).await?;
    scene.mended(&unreachable, back, Duration::ZERO).await?;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn many_tasks(scene: Scene) -> anyhow::Result<()> {
    scene.pass(10).await;
    scene.redis("many").await?.kill().await?;
    let unreachable =
        scene.expect_of_redis("LockwatchStoreUnreachable", "many", Instant::now() + BLIND_AFTER)?;
    scene.until_sent(&unreachable).await?;
    scene.pass(60).await;
    let back = Instant::now();
    scene.redis("many").await?.start_again(Data::Lost).await?;
    scene.mended(&unreachable, back, Duration::ZERO).await
}

async fn clock_step(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    scene.pass(20).await;
    let cables = scene.cables(0, task.plan.redis)?;
    cables.iter().for_each(|cable| cable.set(Weather::ClockAhead(120)));
    let stepped = scene.expect_of_redis("LockwatchClockStep", task.plan.redis, Instant::now())?;
    stepped.stays_until(Instant::now() + Duration::from_secs(500));
    scene.until_sent(&stepped).await?;
    scene.pass(60).await;
    Ok(())
}
