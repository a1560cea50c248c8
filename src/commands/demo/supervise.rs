//! The demo goes on: it runs, and the user can cause failures.

use std::time::Duration;

use anyhow::bail;
use tokio::time::sleep;

use super::board::Position;
use super::names::{HANG, TASK, USERS, say};
use super::stage::Stage;

/// How often the workers are checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long after a crash a worker is restarted: longer than a lease, so that the other one takes
/// over first.
const BACK_AFTER: Duration = Duration::from_secs(15);

/// Runs until it is dropped, or until a part ends unexpectedly.
pub(super) async fn run(stage: &mut Stage) -> anyhow::Result<()> {
    stage.board.switch("anna", Position::On).await?;
    invite(stage);
    let mut pause = LOOK_EVERY;
    loop {
        tokio::select! {
            () = stage.agent.ended() => bail!("the agent has ended"),
            () = stage.redis.ended() => bail!("the redis-server has ended"),
            () = sleep(pause) => {}
        }
        if pause == BACK_AFTER {
            stage.restart_ended()?;
        }
        let ended: Vec<&str> = stage
            .workers
            .iter_mut()
            .filter_map(|worker| worker.has_ended().then(|| worker.name()))
            .collect();
        pause = if ended.is_empty() { LOOK_EVERY } else { BACK_AFTER };
        if !ended.is_empty() {
            say(&format!(
                "{} ended; it is started again in {} s",
                ended.join(", "),
                BACK_AFTER.as_secs()
            ));
        }
    }
}

fn invite(stage: &Stage) {
    let port = stage.redis.address().port();
    let url = stage.agent.url();
    say("");
    say("Anna has switched the task on. Look at");
    say(&format!("  {url}/                 the tasks"));
    say(&format!("  {url}/metrics          what Prometheus sees"));
    if stage.on_page {
        say(&format!("  {url}/tasks/{TASK}  your own switch, once you have logged in"));
    }
    say("and try");
    let redis_cli = format!("redis-cli -p {port}");
    for (command, effect) in [
        (format!("{redis_cli} HSET {USERS} anna off"), "nobody wants it any more"),
        (format!("{redis_cli} HSET {USERS} ben on"), "somebody does again"),
        (
            format!("{redis_cli} SET {HANG} worker-a"),
            "its script hangs when it runs there; nobody notices",
        ),
        ("kill -9 <process of a worker>".to_owned(), "it crashes, and the other one takes over"),
        ("make demo ARGS=--story".to_owned(), "all of this, told in 90 seconds"),
    ] {
        say(&format!("  {command:<48}  {effect}"));
    }
    say("");
}
