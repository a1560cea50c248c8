//! Scenarios about holders that crash, hand over, or lose the lock repeatedly.

use std::time::{Duration, Instant};

use crate::pager::plan::SETTLE;
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;
use crate::stack::Worker;

/// Seconds of a gap that is seen, and is shorter than the grace.
const GAP: u64 = 2;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "crash-alone",
            "the only holder crashes: down until the next one holds",
            |scene| Box::pin(crash_alone(scene)),
        )
        .short(),
        Scenario::new(
            "crash-with-waiter",
            "the holder crashes, a waiter takes over: no page, the expiry is reported",
            |scene| Box::pin(crash_with_waiter(scene)),
        )
        .short(),
        Scenario::new("handover", "release and take-over within the grace: nothing", |scene| {
            Box::pin(handover(scene))
        })
        .short(),
        Scenario::new("rolling-deploy", "four handovers in a row: nothing", |scene| {
            Box::pin(rolling_deploy(scene))
        })
        .short(),
        Scenario::new("restless", "eight gaps, each shorter than the grace: flapping", |scene| {
            Box::pin(restless(scene))
        })
        .short(),
        Scenario::new("relay", "eight handovers without a gap: nothing", |scene| {
            Box::pin(relay(scene))
        })
        .short(),
        Scenario::new("phantom-holds", "held for 1 s of every 5 s: down and staying so", |scene| {
            Box::pin(phantom_holds(scene))
        })
        .short(),
        Scenario::new("own-severity", "the task's own severity replaces critical", |scene| {
            Box::pin(never_held(scene))
        })
        .task(|task| task.labelled("severity", "warning"))
        .short(),
    ]
}

async fn crash_alone(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let holder = task.holder().await?;
    scene.pass(10).await;
    let free = task.crash(holder).await?;
    task.may("LockwatchRenewalOverdue");
    let expired = task.expect("LockwatchLeaseExpired", free)?;
    expired.stays_until(free + Duration::from_secs(600));
    let down = task.expect_down(free)?;
    scene.until_sent(&down).await?;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn crash_with_waiter(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let holder = task.holder().await?;
    let mut waiter = task.candidate().await?;
    scene.pass(10).await;
    let free = task.crash(holder).await?;
    task.may("LockwatchRenewalOverdue");
    let expired = task.expect("LockwatchLeaseExpired", free)?;
    expired.stays_until(free + Duration::from_secs(600));
    waiter.holds().await?;
    scene.until_sent(&expired).await?;
    scene.pass(30).await;
    Ok(())
}

async fn handover(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut first = task.holder().await?;
    scene.pass(10).await;
    first.release().await?;
    scene.pass(2).await;
    let _second = task.holder().await?;
    scene.pass(40).await;
    Ok(())
}

async fn rolling_deploy(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    for _ in 0..3 {
        holder = hand_over(&scene, holder).await?;
    }
    scene.pass(20).await;
    Ok(())
}

async fn restless(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    scene.pass(GAP).await;
    let mut holder = task.holder().await?;
    for gap in 2..=8 {
        scene.pass(6).await;
        holder.release().await?;
        scene.pass(GAP).await;
        holder.contend().await?;
        holder.holds().await?;
        // A hold ends a gap once it has settled.
        if gap == 5 {
            let fifth = Instant::now() + SETTLE;
            let flapping = task.expect("LockwatchTaskFlapping", fifth)?;
            flapping.stays_until(fifth + Duration::from_secs(600));
        }
    }
    scene.pass(10).await;
    Ok(())
}

/// Workers that follow each other without a pause keep the task running: no reading sees it free,
/// and a new holder alone counts for nothing.
async fn relay(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    for _ in 0..8 {
        holder = hand_over(&scene, holder).await?;
    }
    scene.pass(20).await;
    Ok(())
}

/// Hands the lock over to another worker after some seconds.
async fn hand_over(scene: &Scene, mut holder: Worker) -> anyhow::Result<Worker> {
    scene.pass(6).await;
    let mut next = scene.task()?.candidate().await?;
    holder.release().await?;
    next.holds().await?;
    Ok(next)
}

async fn phantom_holds(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let mut worker = task.holder().await?;
    worker.release().await?;
    let wanted = task.switch_on("anna").await?;
    // Holds pause the gap, but do not reset it.
    let down = task.expect_down(wanted + Duration::from_secs(1))?;
    for hold in 1..=14 {
        scene.pass(4).await;
        worker.contend().await?;
        worker.holds().await?;
        scene.pass(1).await;
        let released = worker.release().await?;
        if hold == 5 {
            task.expect("LockwatchTaskFlapping", released)?
                .stays_until(released + Duration::from_secs(600));
        }
    }
    scene.until_sent(&down).await?;
    worker.contend().await?;
    let mended = worker.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn never_held(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    scene.until_sent(&task.expect_down(wanted)?).await
}
