//! Scenarios about held locks and the work behind them.

use std::time::{Duration, Instant};

use crate::pager::plan::{GRACE, LEASE, SETTLE, STALE_AFTER};
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;

const MAX_HOLD: Duration = Duration::from_secs(20);
/// How long the rule keeps a warning after its end.
const KEPT: Duration = Duration::from_secs(120);

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "hung-work",
            "renewed, but the work stands still: stalled, until it moves",
            |scene| Box::pin(hung_work(scene)),
        )
        .task(|task| task.with_progress())
        .short(),
        Scenario::new(
            "failing-script",
            "held by a guard whose script fails again and again: failing, until a run lasts",
            |scene| Box::pin(failing_script(scene)),
        )
        .task(|task| task.with_claims())
        .short(),
        Scenario::new(
            "restarted-script",
            "its guard ends the script three times, and it fails twice: nothing",
            |scene| Box::pin(restarted_script(scene)),
        )
        .task(|task| task.with_claims()),
        Scenario::new("slow-work", "the work moves now and then: nothing", |scene| {
            Box::pin(slow_work(scene))
        })
        .task(|task| task.with_progress())
        .short(),
        Scenario::new(
            "dead-watchdog",
            "no renewals any more: overdue, expired; the living holder lost its lock; down",
            |scene| Box::pin(dead_watchdog(scene)),
        )
        .task(|task| task.with_claims())
        .short(),
        Scenario::new("overdue-and-back", "renewed late, but in time: overdue at most", |scene| {
            Box::pin(overdue_and_back(scene))
        })
        .short(),
        Scenario::new(
            "held-too-long",
            "held longer than max_hold: reported, until released",
            |scene| Box::pin(held_too_long(scene)),
        )
        .task(|task| task.held_at_most(MAX_HOLD))
        .short(),
        Scenario::new(
            "no-ttl",
            "held without a TTL for 5 minutes: reported, until it has one",
            |scene| Box::pin(no_ttl(scene)),
        ),
        Scenario::new("no-ttl-briefly", "without a TTL for a minute: nothing", |scene| {
            Box::pin(no_ttl_briefly(scene))
        }),
        Scenario::new(
            "no-candidate",
            "standby is required, and for 10 minutes nobody waits: reported",
            |scene| Box::pin(no_candidate(scene)),
        )
        .task(|task| task.labelled("standby", "required")),
        Scenario::new(
            "with-candidate",
            "standby is required, and somebody waits: nothing",
            |scene| Box::pin(with_candidate(scene)),
        )
        .task(|task| task.labelled("standby", "required")),
    ]
}

async fn hung_work(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(10).await;
    holder.hang().await?;
    let stalled = task.expect("LockwatchTaskStalled", Instant::now() + STALE_AFTER)?;
    scene.until_sent(&stalled).await?;
    holder.work().await?;
    scene.mended(&stalled, Instant::now(), Duration::ZERO).await
}

async fn failing_script(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    let errors = [(1, false), (1, false), (3, false)];
    for ended in 1..errors.len() {
        task.state_runs(errors.get(..ended).unwrap_or_default(), false).await?;
        scene.pass(4).await;
    }
    let failed = task.state_runs(&errors, false).await?;
    let failing = task.expect("LockwatchTaskFailing", failed)?;
    scene.until_sent(&failing).await?;
    let mended = task.state_runs(&errors, true).await?;
    scene.mended(&failing, mended + SETTLE, Duration::ZERO).await
}

async fn restarted_script(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    for codes in [[(143, true); 3], [(143, true), (1, false), (1, false)]] {
        task.state_runs(&codes, false).await?;
        scene.pass(10).await;
    }
    Ok(())
}

async fn slow_work(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    for _ in 0..6 {
        holder.hang().await?;
        scene.pass(7).await;
        holder.work().await?;
        scene.pass(2).await;
    }
    Ok(())
}

async fn dead_watchdog(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.careless_holder().await?;
    scene.pass(10).await;
    holder.stop_renewing().await?;
    let free = task.lease_ends().await?;
    // Half a period after the missing renewal was due.
    task.expect("LockwatchRenewalOverdue", free - LEASE / 2)?.may_end();
    let expired = task.expect("LockwatchLeaseExpired", free)?;
    let lost = task.expect("LockwatchLockLost", free)?;
    let down = task.expect_down(free)?;
    expired.stays_until(free + Duration::from_secs(600));
    lost.stays_until(free + Duration::from_secs(600));
    scene.until_sent(&down).await?;
    scene.until_sent(&lost).await?;
    holder.release().await?;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn overdue_and_back(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let holder = task.holder().await?;
    task.may("LockwatchRenewalOverdue");
    for _ in 0..3 {
        scene.pass(8).await;
        holder.freeze().await?;
        scene.pass(7).await;
        holder.thaw().await?;
    }
    scene.pass(20).await;
    Ok(())
}

async fn held_too_long(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    let too_long = task.expect("LockwatchHeldTooLong", Instant::now() + MAX_HOLD)?;
    scene.until_sent(&too_long).await?;
    let _next = task.candidate().await?;
    let mended = holder.release().await?;
    if scene.is_short() {
        too_long.stays_until(mended);
        return Ok(());
    }
    // The next holder also holds too long, and the rule keeps the warning in between.
    too_long.stays_until(mended + KEPT);
    scene.pass(60).await;
    Ok(())
}

/// Writes the lock without a TTL, as a faulty script of a user may do.
async fn hold_for_ever(scene: &Scene) -> anyhow::Result<Instant> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let holder = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed:1";
    task.command(redis::cmd("HSET").arg(task.plan.lock()).arg(holder).arg(1)).await
}

async fn no_ttl(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let held = hold_for_ever(&scene).await?;
    let persistent = task.expect("LockwatchLockPersistent", held + Duration::from_secs(300))?;
    scene.until_sent(&persistent).await?;
    let mended = task.command(redis::cmd("PEXPIRE").arg(task.plan.lock()).arg(3_600_000)).await?;
    scene.mended(&persistent, mended, KEPT).await
}

async fn no_ttl_briefly(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    hold_for_ever(&scene).await?;
    scene.pass(60).await;
    task.command(redis::cmd("PEXPIRE").arg(task.plan.lock()).arg(3_600_000)).await?;
    scene.pass(300).await;
    Ok(())
}

async fn no_candidate(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    let lonely = task.expect("LockwatchNoCandidate", Instant::now() + Duration::from_secs(600))?;
    scene.until_sent(&lonely).await?;
    let _waiter = task.candidate().await?;
    scene.mended(&lonely, Instant::now(), KEPT).await
}

async fn with_candidate(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    let _waiter = task.candidate().await?;
    scene.pass(700 + GRACE.as_secs()).await;
    Ok(())
}
