//! Scenarios about keys that cannot be read.

use std::time::Duration;

use crate::pager::plan::BLIND_AFTER;
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "wrong-type",
            "the lock's key is no hash: this task is blind, its redis is not",
            |scene| Box::pin(wrong_type(scene)),
        )
        .short(),
        Scenario::new(
            "wrong-type-while-down",
            "down, then unreadable: both, and down stays until there is evidence",
            |scene| Box::pin(wrong_type_while_down(scene)),
        ),
        Scenario::new(
            "unreadable-briefly",
            "unreadable for less than blind_after: nothing",
            |scene| Box::pin(unreadable_briefly(scene)),
        )
        .short(),
    ]
}

async fn wrong_type(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_off("anna").await?;
    scene.pass(5).await;
    let unreadable = task.command(redis::cmd("SET").arg(task.plan.lock()).arg("x")).await?;
    let blind = task.expect("LockwatchTaskBlind", unreadable + BLIND_AFTER)?;
    scene.until_sent(&blind).await?;
    let mended = task.command(redis::cmd("DEL").arg(task.plan.lock())).await?;
    scene.mended(&blind, mended, Duration::ZERO).await
}

async fn wrong_type_while_down(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    let unreadable = task.command(redis::cmd("SET").arg(task.plan.lock()).arg("x")).await?;
    let blind = task.expect("LockwatchTaskBlind", unreadable + BLIND_AFTER)?;
    scene.until_sent(&blind).await?;
    scene.pass(60).await;
    let readable = task.command(redis::cmd("DEL").arg(task.plan.lock())).await?;
    scene.mended(&blind, readable, Duration::ZERO).await?;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn unreadable_briefly(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_off("anna").await?;
    scene.pass(5).await;
    task.command(redis::cmd("SET").arg(task.plan.lock()).arg("x")).await?;
    scene.pass(8).await;
    task.command(redis::cmd("DEL").arg(task.plan.lock())).await?;
    scene.pass(40).await;
    Ok(())
}
