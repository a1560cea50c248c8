//! Scenarios about users' switches.

use std::time::Duration;

use crate::pager::plan::{BLIND_AFTER, WIND_DOWN};
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;

/// How long the rule keeps a warning after its end.
const KEPT: Duration = Duration::from_secs(120);
/// At most so long after the first agent started, Prometheus scraped it.
const READY: Duration = Duration::from_secs(20);

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "restless-users",
            "switches change faster than the grace: nothing, until one stays on",
            |scene| Box::pin(restless_users(scene)),
        )
        .short(),
        Scenario::new("switched-off", "switched off and released: nothing", |scene| {
            Box::pin(switched_off(scene))
        })
        .short(),
        Scenario::new(
            "unwanted",
            "switched off and held on: unwanted, until it is released",
            |scene| Box::pin(unwanted(scene)),
        )
        .short(),
        Scenario::new(
            "several-users",
            "one of three users goes on wanting it: still down",
            |scene| Box::pin(several_users(scene)),
        ),
        Scenario::new(
            "unreadable-switch",
            "a switch that means nothing while the lock is free: blind, until it is written",
            |scene| Box::pin(unreadable_switch(scene)),
        )
        .short(),
        Scenario::new(
            "missing-switches",
            "the key of the switches never existed: reported after 10 minutes",
            |scene| Box::pin(missing_switches(scene)),
        ),
        Scenario::new(
            "late-switches",
            "the key of the switches appears after some minutes: nothing",
            |scene| Box::pin(late_switches(scene)),
        ),
    ]
}

async fn restless_users(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    for _ in 0..10 {
        task.switch_on("anna").await?;
        scene.pass(2).await;
        task.switch_off("anna").await?;
        scene.pass(2).await;
    }
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    let mended = task.switch_off("anna").await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn switched_off(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(8).await;
    task.switch_off("anna").await?;
    scene.pass(2).await;
    holder.release().await?;
    scene.pass(40).await;
    Ok(())
}

async fn unwanted(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(8).await;
    let off = task.switch_off("anna").await?;
    let unwanted = task.expect("LockwatchTaskUnwanted", off + WIND_DOWN)?;
    scene.until_sent(&unwanted).await?;
    let mended = holder.release().await?;
    if scene.is_short() {
        unwanted.stays_until(mended);
        return Ok(());
    }
    scene.mended(&unwanted, mended, KEPT).await
}

async fn several_users(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    task.switch_on("ben").await?;
    task.switch_off("chris").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    task.switch_off("anna").await?;
    scene.pass(40).await;
    let mended = task.switch_off("ben").await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn unreadable_switch(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let unreadable = task.write_switch("anna", "perhaps").await?;
    let blind = task.expect("LockwatchTaskBlind", unreadable + BLIND_AFTER)?;
    scene.until_sent(&blind).await?;
    let mended = task.switch_off("anna").await?;
    scene.mended(&blind, mended, Duration::ZERO).await
}

async fn missing_switches(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    // The agents began to look for it shortly before they were scraped.
    let due = scene.stage.scraped_since + Duration::from_secs(600) - READY;
    let missing = task.expect("LockwatchSwitchKeyMissing", due)?;
    missing.later_by(READY);
    scene.until_sent(&missing).await?;
    let mended = task.switch_off("anna").await?;
    scene.mended(&missing, mended, KEPT).await
}

async fn late_switches(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    scene.pass(300).await;
    task.switch_off("anna").await?;
    scene.pass(420).await;
    Ok(())
}
