//! Scenarios about periodic tasks: their lock exists only while a run lasts.

use std::time::{Duration, Instant};

use crate::pager::plan::{EVERY, LATE_AFTER};
use crate::pager::scenario::Scenario;
use crate::pager::scene::{Scene, Task};

/// How long the work of a run takes, and how long a run keeps its lock at least.
const WORK: Duration = Duration::from_secs(4);
const AT_LEAST: Duration = Duration::from_secs(8);
/// The lease of a run's lock.
const LEASE: Duration = Duration::from_secs(60);

pub(super) fn all() -> Vec<Scenario> {
    let periodic =
        |name, says, play| Scenario::new(name, says, play).task(|task| task.periodic().pausable());
    vec![
        periodic("periodic-stops", "a periodic job stops: overdue, until it runs again", |scene| {
            Box::pin(stops(scene))
        })
        .short(),
        periodic(
            "periodic-runs",
            "runs of several lengths, a lock that is kept for a rest, and one at once after \
             another: nothing",
            |scene| Box::pin(runs(scene)),
        )
        .short(),
    ]
}

async fn stops(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    run(&task, "web-1", WORK).await?;
    tokio::time::sleep(EVERY.saturating_sub(WORK)).await;
    let began = run(&task, "web-2", WORK).await?;
    let overdue = task.expect("LockwatchTaskOverdue", began + EVERY + LATE_AFTER)?;
    scene.until_sent(&overdue).await?;
    let mended = begin(&task, "web-1").await?;
    let goes_on = async {
        tokio::time::sleep(WORK).await;
        end(&task).await?;
        for host in ["web-2", "web-1", "web-2"] {
            tokio::time::sleep(EVERY.saturating_sub(WORK)).await;
            run(&task, host, WORK).await?;
        }
        rest(&task).await
    };
    let (resolved, ran) = tokio::join!(scene.mended(&overdue, mended, Duration::ZERO), goes_on);
    resolved.and(ran)
}

async fn runs(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    for (host, work) in [("web-1", WORK), ("web-2", Duration::from_millis(40)), ("web-1", WORK)] {
        let began = run(&task, host, work).await?;
        tokio::time::sleep_until((began + EVERY).into()).await;
    }
    // Its work is done, and the lock is kept for a rest.
    let began = begin(&task, "web-2").await?;
    tokio::time::sleep(WORK).await;
    let rest_ms = u64::try_from(AT_LEAST.saturating_sub(WORK).as_millis())?;
    task.command(redis::cmd("PEXPIRE").arg(task.plan.lock()).arg(rest_ms)).await?;
    tokio::time::sleep_until((began + EVERY).into()).await;
    // Each takes as long as the period.
    for host in ["web-1", "web-2"] {
        run(&task, host, EVERY).await?;
    }
    rest(&task).await
}

/// What runs no more when the scenario is over is no news.
async fn rest(task: &Task) -> anyhow::Result<()> {
    task.pause(Duration::from_secs(600)).await.map(drop)
}

/// A whole run; returns when it began.
async fn run(task: &Task, host: &str, work: Duration) -> anyhow::Result<Instant> {
    let began = begin(task, host).await?;
    tokio::time::sleep(work).await;
    end(task).await?;
    Ok(began)
}

async fn end(task: &Task) -> anyhow::Result<Instant> {
    task.command(redis::cmd("DEL").arg(task.plan.lock())).await
}

/// Takes the lock, as a run does on this host.
async fn begin(task: &Task, host: &str) -> anyhow::Result<Instant> {
    let token = format!("{host}:{:032x}", fastrand::u128(..));
    let lease_ms = u64::try_from(LEASE.as_millis())?;
    let mut set = redis::cmd("SET");
    let set = set.arg(task.plan.lock()).arg(token).arg("NX").arg("PX").arg(lease_ms);
    task.command(set).await
}
