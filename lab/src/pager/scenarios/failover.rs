//! Scenarios in which a master and its replica change places, both accept writes, or neither does.
//! Each uses a Redis of its own.

use std::time::{Duration, Instant};

use crate::pager::plan::BLIND_AFTER;
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;

/// Short, so that after a failover another worker takes over within the grace.
const SHORT_LEASE: Duration = Duration::from_secs(4);
const LONG_LEASE: Duration = Duration::from_secs(90);
/// A lease that is still running when the replica is promoted, and shortly after.
const OUTLIVING_LEASE: Duration = Duration::from_secs(60);
/// Maximum age of a new hold that its client may never have known of.
const PHANTOM: Duration = Duration::from_millis(1_150);

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "failover-orderly",
            "the replica is promoted, and the worker's place is taken there after its lease: \
             nothing",
            |scene| Box::pin(orderly(scene)),
        )
        .task(|task| task.on_replicated("orderly").with_lease(SHORT_LEASE))
        .short(),
        Scenario::new(
            "failover-leftover",
            "released on the new master and taken by another, while the old one still shows the \
             first: nothing",
            |scene| Box::pin(leftover(scene)),
        )
        .task(|task| task.on_replicated("leftover").with_lease(LONG_LEASE)),
        Scenario::new(
            "two-masters",
            "a hold and a switch that the promoted replica never had, and another holder there: \
             split, switches lost",
            |scene| Box::pin(two_masters(scene)),
        )
        .task(|task| task.on_replicated("doubled").with_lease(LONG_LEASE))
        .short(),
        Scenario::new(
            "no-master",
            "the master dies and nobody promotes the replica for 45 s: one page, until somebody \
             does",
            |scene| Box::pin(no_master(scene)),
        )
        .task(|task| task.on_replicated("headless").with_lease(OUTLIVING_LEASE))
        .short(),
    ]
}

/// Makes the replica the master, and the master its replica.
async fn change_places(scene: &Scene, name: &str) -> anyhow::Result<()> {
    let (old, new) = (scene.redis(name).await?, scene.replica(name).await?);
    new.follow(None).await?;
    old.follow(Some(&*new)).await
}

async fn orderly(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    scene.pass(10).await;
    task.until_renewed().await?;
    change_places(&scene, "orderly").await?;
    let _heir = task.holder_at_replica().await?;
    // The first worker's lease expires on the new master, where nobody renews it.
    task.may("LockwatchRenewalOverdue");
    task.may("LockwatchLeaseExpired");
    scene.pass(50).await;
    Ok(())
}

async fn leftover(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(10).await;
    scene.replica("leftover").await?.follow(None).await?;
    // The worker cannot know the new master, so its hold there is released on its behalf.
    holder.crash().await?;
    let lock = task.plan.lock();
    let mut new = scene.replica("leftover").await?.connect().await?;
    redis::cmd("DEL").arg(&lock).exec_async(&mut new).await?;
    let _heir = task.holder_at_replica().await?;
    scene.pass(20).await;
    // Only now the agents learn which server decides. Until then both are masters, of which the
    // first one decides.
    let (old, new) = (scene.redis("leftover").await?, scene.replica("leftover").await?);
    old.follow(Some(&*new)).await?;
    drop((old, new));
    scene.pass(40).await;
    Ok(())
}

async fn two_masters(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    scene.pass(5).await;
    scene.replica("doubled").await?.follow(None).await?;
    // The agents must have read both masters before: if a hold was taken after the last reading
    // before the promotion, it is unknown whether the replica had it.
    scene.pass(3).await;
    let _one = task.holder().await?;
    task.switch_on("anna").await?;
    scene.pass(8).await;
    let _other = task.holder_at_replica().await?;
    let two = Instant::now();
    let split = task.expect("LockwatchTaskSplit", two + PHANTOM)?;
    split.stays_until(two + Duration::from_secs(600));
    // A holder whose hold is not on the remaining server has lost the lock.
    task.may("LockwatchLockLost");
    scene.may_of_redis("LockwatchRivalMaster", "doubled");
    scene.until_sent(&split).await?;
    scene.pass(10).await;
    let (old, new) = (scene.redis("doubled").await?, scene.replica("doubled").await?);
    old.follow(Some(&*new)).await?;
    drop((old, new));
    // The switch was written to a server that is no longer read.
    let lost = task.expect("LockwatchSwitchesLost", Instant::now())?;
    scene.until_sent(&lost).await?;
    Ok(())
}

async fn no_master(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    scene.pass(10).await;
    scene.redis("headless").await?.kill().await?;
    let page = scene.expect_of_redis(
        "LockwatchStoreUnreachable",
        "headless",
        Instant::now() + BLIND_AFTER,
    )?;
    task.may("LockwatchRenewalOverdue");
    scene.may_of_redis("LockwatchReplicaBehind", "headless");
    scene.pass(45).await;
    scene.replica("headless").await?.follow(None).await?;
    let promoted = Instant::now();
    // The first worker's lease expires on the new master, where it cannot renew it.
    task.may("LockwatchLeaseExpired");
    let _heir = task.holder_at_replica().await?;
    scene.mended(&page, promoted, Duration::ZERO).await
}
