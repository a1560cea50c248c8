//! Scenarios with two holders, and with situations that only look like that.

use std::time::{Duration, Instant};

use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;

const ONE: &str = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed";
const OTHER: &str = "6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b";

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "split-briefly",
            "two holders in one lock for 3 s, less than a scrape: pages, and stays for 10 minutes",
            |scene| Box::pin(split_briefly(scene)),
        )
        .short(),
        Scenario::new(
            "split-by-claims",
            "the old holder works on beside the new one: split, lost lock",
            |scene| Box::pin(split_by_claims(scene)),
        )
        .task(|task| task.with_claims())
        .short(),
        Scenario::new(
            "taken-from-each-other",
            "the lock passes to and fro between two holders and is never free: a warning",
            |scene| Box::pin(taken_from_each_other(scene)),
        ),
        Scenario::new("readers", "two readers of a read lock: nothing", |scene| {
            Box::pin(readers(scene))
        })
        .short(),
        Scenario::new("re-entered", "the same holder enters three times: nothing", |scene| {
            Box::pin(re_entered(scene))
        })
        .short(),
        Scenario::new(
            "orderly-claims",
            "claims follow each other in a handover: nothing",
            |scene| Box::pin(orderly_claims(scene)),
        )
        .task(|task| task.with_claims())
        .short(),
    ]
}

/// Writes the lock as a hash of these fields, with a lease of one hour.
async fn hold(scene: &Scene, fields: &[(&str, &str)]) -> anyhow::Result<Instant> {
    let task = scene.task()?;
    let mut set = redis::cmd("HSET");
    set.arg(task.plan.lock());
    for (field, value) in fields {
        set.arg(field).arg(value);
    }
    task.command(&set).await?;
    task.command(redis::cmd("PEXPIRE").arg(task.plan.lock()).arg(3_600_000)).await
}

async fn split_briefly(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    hold(&scene, &[(&format!("{ONE}:1"), "1")]).await?;
    scene.pass(8).await;
    let two = hold(&scene, &[(&format!("{OTHER}:1"), "1")]).await?;
    let split = task.expect("LockwatchTaskSplit", two)?;
    split.stays_until(two + Duration::from_secs(600));
    scene.pass(3).await;
    task.command(redis::cmd("HDEL").arg(task.plan.lock()).arg(format!("{OTHER}:1"))).await?;
    scene.until_sent(&split).await?;
    scene.pass(if scene.is_short() { 30 } else { 660 }).await;
    task.switch_off("anna").await?;
    task.command(redis::cmd("DEL").arg(task.plan.lock())).await?;
    Ok(())
}

async fn split_by_claims(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut old = task.careless_holder().await?;
    let mut new = task.candidate().await?;
    scene.pass(8).await;
    old.stop_renewing().await?;
    let free = task.lease_ends().await?;
    task.may("LockwatchRenewalOverdue");
    task.expect("LockwatchLeaseExpired", free)?.stays_until(free + Duration::from_secs(600));
    task.expect("LockwatchLockLost", free)?.stays_until(free + Duration::from_secs(600));
    let taken = new.holds().await?;
    // Both claims must be seen to change twice.
    let split = task.expect("LockwatchTaskSplit", taken)?;
    split.later_by(Duration::from_secs(4));
    scene.until_sent(&split).await?;
    let mended = old.release().await?;
    split.stays_until(mended);
    scene.pass(20).await;
    Ok(())
}

async fn taken_from_each_other(scene: Scene) -> anyhow::Result<()> {
    const OVERWRITE: &str = "redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], ARGV[1], 1) \
                             return redis.call('PEXPIRE', KEYS[1], 3600000)";
    let task = scene.task()?;
    task.switch_on("anna").await?;
    for turn in 0..=6 {
        let mut overwrite = redis::cmd("EVAL");
        overwrite.arg(OVERWRITE).arg(1).arg(task.plan.lock());
        overwrite.arg(format!("{}:1", if turn % 2 == 0 { ONE } else { OTHER }));
        let taken = task.command(&overwrite).await?;
        // The second one comes back first.
        if turn == 4 {
            let contended = task.expect("LockwatchTaskContended", taken)?;
            contended.stays_until(taken + Duration::from_secs(900));
        }
        scene.pass(6).await;
    }
    task.switch_off("anna").await?;
    task.command(redis::cmd("DEL").arg(task.plan.lock())).await?;
    Ok(())
}

async fn readers(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    hold(&scene, &[("mode", "read"), (&format!("{ONE}:1"), "1"), (&format!("{OTHER}:1"), "1")])
        .await?;
    scene.pass(50).await;
    task.switch_off("anna").await?;
    task.command(redis::cmd("DEL").arg(task.plan.lock())).await?;
    Ok(())
}

async fn re_entered(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    for entries in ["1", "2", "3", "2", "1"] {
        hold(&scene, &[(&format!("{ONE}:1"), entries)]).await?;
        scene.pass(8).await;
    }
    task.switch_off("anna").await?;
    task.command(redis::cmd("DEL").arg(task.plan.lock())).await?;
    Ok(())
}

async fn orderly_claims(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    for _ in 0..3 {
        scene.pass(10).await;
        let mut next = task.candidate().await?;
        holder.release().await?;
        next.holds().await?;
        holder = next;
    }
    scene.pass(15).await;
    task.switch_off("anna").await?;
    holder.release().await?;
    Ok(())
}
