//! Scenarios about deployments that pause a task's alerts.

use std::time::Duration;

use crate::pager::plan::GRACE;
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new("paused", "down in a pause: pages when the pause ends", |scene| {
            Box::pin(paused(scene))
        })
        .task(|task| task.pausable())
        .short(),
        Scenario::new("paused-and-mended", "down and mended in a pause: nothing", |scene| {
            Box::pin(paused_and_mended(scene))
        })
        .task(|task| task.pausable())
        .short(),
    ]
}

async fn paused(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(8).await;
    let over = task.pause(Duration::from_secs(45)).await?;
    let free = holder.release().await?;
    let down = task.expect("LockwatchTaskDown", over.max(free + GRACE))?;
    scene.until_sent(&down).await?;
    holder.contend().await?;
    let mended = holder.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn paused_and_mended(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(8).await;
    task.pause(Duration::from_secs(60)).await?;
    holder.release().await?;
    scene.pass(25).await;
    holder.contend().await?;
    holder.holds().await?;
    scene.pass(50).await;
    Ok(())
}
