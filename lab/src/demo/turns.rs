//! The story of two tasks that take turns.

use super::narrator::{Narrator, STATE};
use super::scene::Scene;

pub(super) const TASK: &str = "alternate";
/// Its block of the configuration. Times are short, so that the story is quick to watch.
pub(super) const CONFIGURATION: &str = "  - name: alternate
    turn: {hash: turns, unit: ms, tasks: [a, b], max_late: 5s, handover: 1s}
    wanted: always
    grace: 5s
";

/// Plays it.
///
/// # Errors
/// When the agent does not report what the story expects.
pub(super) async fn play(scene: &mut Scene, narrator: &Narrator) -> anyhow::Result<()> {
    narrator.chapter("Two tasks take turns");
    narrator.tell("The only field of the hash names the task that may run next, and since when.");
    for (name, other) in [("a", "b"), ("b", "a"), ("a", "b"), ("b", "a")] {
        let now = scene.now_ms().await?.to_string();
        scene.send(&["hdel", "turns", other]).await?;
        scene.send(&["hset", "turns", name, &now]).await?;
        narrator
            .until("the turn was seen", 5, |page| {
                page.line("lockwatch_turn_holder", &[("participant", name)]).is_some()
            })
            .await?;
    }
    narrator.expect("running", 5).await?;
    narrator.tell("Between HDEL and HSET it was nobody's turn. That is a passing, and no gap:");
    narrator
        .show(&[
            (STATE, &[]),
            ("lockwatch_turn_taken_total", &[("participant", "a")]),
            ("lockwatch_turn_taken_total", &[("participant", "b")]),
        ])
        .await?;
    narrator.let_read(8).await;
    nobody_takes_it(scene, narrator).await?;
    two_have_it(scene, narrator).await?;
    nobody_has_it(scene, narrator).await?;
    narrator.tell("That was the story. docs/turns.md has a worker that does it right.");
    Ok(())
}

async fn nobody_takes_it(scene: &mut Scene, narrator: &Narrator) -> anyhow::Result<()> {
    narrator.chapter("A turn that nobody takes");
    narrator.tell("The worker of b has died. Its turn stays, and a waits for ever:");
    narrator.expect("stalled", 15).await?;
    narrator
        .show(&[
            (STATE, &[]),
            ("lockwatch_turn_holder", &[]),
            ("lockwatch_turn_overdue_seconds", &[]),
        ])
        .await?;
    narrator.tell("It is started again, and passes the turn on:");
    let now = scene.now_ms().await?.to_string();
    scene.send(&["hset", "turns", "a", &now]).await?;
    scene.send(&["hdel", "turns", "b"]).await?;
    narrator.expect("running", 5).await?;
    narrator.let_read(8).await;
    Ok(())
}

async fn two_have_it(scene: &mut Scene, narrator: &Narrator) -> anyhow::Result<()> {
    narrator.chapter("Two have the turn");
    narrator.tell("A worker writes the next turn, and dies before it deletes its own:");
    let now = scene.now_ms().await?.to_string();
    scene.send(&["hset", "turns", "b", &now]).await?;
    narrator.expect("split", 5).await?;
    narrator.show(&[(STATE, &[]), ("lockwatch_turn_fields", &[])]).await?;
    narrator.tell("Somebody looks, and deletes the field of the dead one:");
    scene.send(&["hdel", "turns", "a"]).await?;
    narrator.expect("running", 5).await?;
    narrator.let_read(8).await;
    Ok(())
}

async fn nobody_has_it(scene: &mut Scene, narrator: &Narrator) -> anyhow::Result<()> {
    narrator.chapter("Nobody's turn");
    narrator.tell("A worker deletes its field, and dies before it writes the next one:");
    scene.send(&["hdel", "turns", "b"]).await?;
    narrator.expect("down", 15).await?;
    narrator.show(&[(STATE, &[]), ("lockwatch_turn_fields", &[])]).await?;
    let now = scene.now_ms().await?.to_string();
    scene.send(&["hset", "turns", "a", &now]).await?;
    narrator.expect("running", 10).await?;
    narrator.let_read(8).await;
    Ok(())
}
