//! Scenarios about tasks that no lock guards: those that take turns, and queues of delayed tasks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::pager::plan::{GRACE, HANDOVER, MAX_LATE};
use crate::pager::scenario::Scenario;
use crate::pager::scene::{Scene, Task};

/// How long a worker that executes a member holds its lock.
const LOCK: Duration = Duration::from_secs(25);

pub(super) fn all() -> Vec<Scenario> {
    let turn = |name, says, play| Scenario::new(name, says, play).task(|task| task.in_turns());
    let queue = |name, says, play| Scenario::new(name, says, play).task(|task| task.queued());
    vec![
        turn("turn-not-taken", "nobody takes the turn: stalled, until it is passed", |scene| {
            Box::pin(not_taken(scene))
        })
        .short(),
        turn("turn-of-two", "two fields stand beside each other: split, until one goes", |scene| {
            Box::pin(of_two(scene))
        })
        .short(),
        turn("turn-of-nobody", "no field for longer than grace: down", |scene| {
            Box::pin(of_nobody(scene))
        })
        .short(),
        turn("turns-passed", "passed in each order, several times a second: nothing", |scene| {
            Box::pin(passed(scene))
        })
        .short(),
        queue("queue-stands-still", "members are due and nobody takes them: stalled", |scene| {
            Box::pin(stands_still(scene))
        })
        .short(),
        queue(
            "queue-worker-dies",
            "a worker dies while it executes: nothing until its lock ends, then stalled",
            |scene| Box::pin(worker_dies(scene)),
        )
        .short(),
        queue("queue-busy", "a backlog that is worked off, and future members: nothing", |scene| {
            Box::pin(busy(scene))
        })
        .short(),
    ]
}

async fn not_taken(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    pass(&task, "a").await?;
    scene.pass(1).await;
    let passed = pass(&task, "b").await?;
    let stalled = task.expect("LockwatchTaskStalled", passed + MAX_LATE)?;
    scene.until_sent(&stalled).await?;
    let mended = pass(&task, "a").await?;
    let passing = async {
        for name in ["b", "a"].into_iter().cycle().take(30) {
            scene.pass(1).await;
            pass(&task, name).await?;
        }
        anyhow::Ok(())
    };
    let (resolved, passed) = tokio::join!(scene.mended(&stalled, mended, Duration::ZERO), passing);
    resolved.and(passed)?;
    rest(&task).await
}

async fn of_two(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    pass(&task, "a").await?;
    scene.pass(2).await;
    let doubled = add(&task, "b").await?;
    let split = task.expect("LockwatchTaskSplit", doubled + HANDOVER)?;
    // Nobody passes the turn meanwhile.
    task.may("LockwatchTaskStalled");
    scene.until_sent(&split).await?;
    let mended = take_away(&task, "a").await?;
    // A split is reported for 15 minutes.
    split.stays_until(mended + Duration::from_secs(600));
    rest(&task).await
}

async fn of_nobody(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    pass(&task, "a").await?;
    scene.pass(2).await;
    let gone = take_away(&task, "a").await?;
    let down = task.expect("LockwatchTaskDown", gone + GRACE)?;
    scene.until_sent(&down).await?;
    let mended = pass(&task, "b").await?;
    // Until the end of the page is reported, nobody passes the turn on.
    task.may("LockwatchTaskStalled");
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn passed(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    pass(&task, "a").await?;
    for round in 0..200 {
        let (from, to) = if round % 2 == 0 { ("a", "b") } else { ("b", "a") };
        match round % 3 {
            0 => {
                take_away(&task, from).await?;
                add(&task, to).await?;
            }
            1 => {
                add(&task, to).await?;
                take_away(&task, from).await?;
            }
            _ => {
                pass(&task, to).await?;
            }
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    rest(&task).await
}

async fn stands_still(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    due_in(&task, "1", 3).await?;
    due_in(&task, "2", 3_600).await?;
    let due = Instant::now() + Duration::from_secs(3);
    let stalled = task.expect("LockwatchTaskStalled", due + MAX_LATE)?;
    scene.until_sent(&stalled).await?;
    take(&task, "1").await?;
    scene.pass(3).await;
    let mended = finish(&task, "1").await?;
    scene.mended(&stalled, mended, Duration::ZERO).await
}

async fn worker_dies(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    due_in(&task, "1", -1).await?;
    let taken = take(&task, "1").await?;
    let stalled = task.expect("LockwatchTaskStalled", taken + LOCK + MAX_LATE)?;
    scene.until_sent(&stalled).await?;
    // It kept its score.
    task.may("LockwatchExecutedAgain");
    take(&task, "1").await?;
    scene.pass(2).await;
    let mended = finish(&task, "1").await?;
    scene.mended(&stalled, mended, Duration::ZERO).await
}

async fn busy(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    // The first is late from the start, and the last one within ten times what may be late.
    for id in 0..15 {
        due_in(&task, &id.to_string(), -40).await?;
    }
    due_in(&task, "later", 3_600).await?;
    for id in 0..15 {
        let id = id.to_string();
        take(&task, &id).await?;
        scene.pass(3).await;
        if id == "7" {
            // It fails, and is tried again later.
            due_in(&task, &id, 3_600).await?;
            task.command(redis::cmd("DEL").arg(task.plan.lock_of(&id))).await?;
        } else {
            finish(&task, &id).await?;
        }
    }
    scene.pass(30).await;
    Ok(())
}

/// Nobody wants the task any more, so that it may be anybody's turn for ever.
async fn rest(task: &Task) -> anyhow::Result<()> {
    task.switch_off("anna").await.map(drop)
}

fn now_ms() -> anyhow::Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}

/// Passes the turn to `name`, in one transaction.
async fn pass(task: &Task, name: &str) -> anyhow::Result<Instant> {
    const PASS: &str =
        "redis.call('del', KEYS[1]) return redis.call('hset', KEYS[1], ARGV[1], ARGV[2])";
    let turns = task.plan.turns();
    let script = &mut redis::cmd("EVAL");
    task.command(script.arg(PASS).arg(1).arg(turns).arg(name).arg(now_ms()?)).await
}

async fn add(task: &Task, name: &str) -> anyhow::Result<Instant> {
    task.command(redis::cmd("HSET").arg(task.plan.turns()).arg(name).arg(now_ms()?)).await
}

async fn take_away(task: &Task, name: &str) -> anyhow::Result<Instant> {
    task.command(redis::cmd("HDEL").arg(task.plan.turns()).arg(name)).await
}

/// Puts a member into the queue that is due in so many seconds.
async fn due_in(task: &Task, id: &str, seconds: i64) -> anyhow::Result<Instant> {
    let due_ms = now_ms()? + seconds * 1_000;
    task.command(redis::cmd("ZADD").arg(task.plan.queue()).arg(due_ms).arg(id)).await
}

/// Takes the lock of a member, as a worker that executes it. Each takes it with a token of its own.
async fn take(task: &Task, id: &str) -> anyhow::Result<Instant> {
    let token = format!("{:032x}", fastrand::u128(..));
    let lease_ms = u64::try_from(LOCK.as_millis())?;
    let mut set = redis::cmd("SET");
    task.command(set.arg(task.plan.lock_of(id)).arg(token).arg("PX").arg(lease_ms)).await
}

async fn finish(task: &Task, id: &str) -> anyhow::Result<Instant> {
    task.command(redis::cmd("ZREM").arg(task.plan.queue()).arg(id)).await?;
    task.command(redis::cmd("DEL").arg(task.plan.lock_of(id))).await
}
