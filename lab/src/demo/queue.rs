//! The story of a queue of delayed tasks.

use super::narrator::{Narrator, STATE};
use super::scene::Scene;

pub(super) const TASK: &str = "delayed";
/// Its block of the configuration. Times are short, so that the story is quick to watch.
pub(super) const CONFIGURATION: &str = "  - name: delayed
    queue: {zset: delayed, unit: s, lock: \"lock_{id}\", max_late: 5s}
";
const MEMBERS: &str = "lockwatch_queue_members";
const EXECUTING: &str = "lockwatch_queue_executing";
const OLDEST: &str = "lockwatch_queue_oldest_due_seconds";

/// Plays it.
///
/// # Errors
/// When the agent does not report what the story expects.
pub(super) async fn play(scene: &mut Scene, narrator: &Narrator) -> anyhow::Result<()> {
    narrator.chapter("Delayed tasks");
    narrator.tell("The score of a member says when it is due. One is due now, one in an hour:");
    let now_s = scene.now_ms().await? / 1_000;
    scene.send(&["zadd", "delayed", &now_s.to_string(), "mail"]).await?;
    scene.send(&["zadd", "delayed", &(now_s + 3_600).to_string(), "report"]).await?;
    narrator.tell("A worker takes the member's own lock, for 4 seconds, and executes it:");
    scene.send(&["set", "lock_mail", "worker-1", "NX", "PX", "4000"]).await?;
    narrator.until("it is executed", 5, |page| page.value(EXECUTING, &[]) == Some(1.0)).await?;
    narrator.show(&[(STATE, &[]), (MEMBERS, &[]), (EXECUTING, &[]), (OLDEST, &[])]).await?;
    narrator.let_read(8).await;

    narrator.chapter("The worker dies");
    narrator.tell("Its lock runs out. Nobody executes the member, and it is late:");
    narrator.expect("stalled", 25).await?;
    narrator.show(&[(STATE, &[]), (EXECUTING, &[]), (OLDEST, &[])]).await?;
    narrator.tell("Another worker takes it, and finishes:");
    scene.send(&["set", "lock_mail", "worker-2", "NX", "PX", "60000"]).await?;
    narrator
        .until("it is executed again", 5, |page| {
            page.value("lockwatch_queue_executed_again_total", &[]) == Some(1.0)
        })
        .await?;
    narrator.expect("running", 10).await?;
    narrator.show(&[(STATE, &[]), ("lockwatch_queue_executed_again_total", &[])]).await?;
    scene.send(&["zrem", "delayed", "mail"]).await?;
    scene.send(&["del", "lock_mail"]).await?;
    narrator.let_read(8).await;

    narrator.chapter("A member vanishes");
    narrator.tell("A clean-up loop drops a due member that nobody has executed:");
    let now_s = scene.now_ms().await? / 1_000;
    scene.send(&["zadd", "delayed", &now_s.to_string(), "invoice"]).await?;
    narrator
        .until("it is due", 5, |page| page.value("lockwatch_queue_due", &[]) == Some(1.0))
        .await?;
    scene.send(&["zrem", "delayed", "invoice"]).await?;
    narrator
        .until("it vanished", 5, |page| {
            page.value("lockwatch_queue_vanished_total", &[]) == Some(1.0)
        })
        .await?;
    narrator.show(&[("lockwatch_queue_vanished_total", &[])]).await?;
    narrator.let_read(8).await;
    narrator.tell("That was the story. docs/queues.md has a worker that does it right.");
    Ok(())
}
