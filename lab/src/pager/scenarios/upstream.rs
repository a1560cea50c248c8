//! Scenarios in which Prometheus and Alertmanager restart, scrapes are lost, and agents are
//! relabelled.

use std::time::Duration;

use crate::pager::plan::{Relabelled, Wiring};
use crate::pager::scenario::Scenario;
use crate::pager::scenarios::agents::agent_dead;
use crate::pager::scene::Scene;

/// Maximum delay of an alert that fires before Prometheus knows its Alertmanager: Prometheus drops
/// it and sends it again a minute later.
const SENT_AGAIN_WITHIN: Duration = Duration::from_secs(75);

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "prometheus-restart",
            "Prometheus restarts while down fires: neither resolved nor reported again",
            |scene| Box::pin(prometheus_restart(scene)),
        )
        .alone()
        .short(),
        Scenario::new(
            "prometheus-away-in-gap",
            "Prometheus is away when down is due: it comes afterwards",
            |scene| Box::pin(prometheus_away_in_gap(scene)),
        )
        .alone(),
        Scenario::new(
            "alertmanager-restart",
            "Alertmanager restarts while down fires: neither resolved nor reported again",
            |scene| Box::pin(alertmanager_restart(scene)),
        )
        .alone(),
        Scenario::new(
            "lost-scrapes",
            "30 % of the scrapes get lost: nothing false, and down comes and stays",
            |scene| Box::pin(lost_scrapes(scene)),
        )
        .wiring(Wiring { lost_scrapes: Some(0.3), ..Wiring::default() })
        .short(),
        Scenario::new(
            "relabelled-targets",
            "another job and renamed targets, and all agents restart while down fires: it stays",
            |scene| Box::pin(relabelled(scene)),
        )
        .wiring(Wiring { relabelled: Relabelled::Targets, ..Wiring::default() })
        .short(),
        Scenario::new(
            "relabelled-series",
            "the same where only the agents' series are renamed, and `up` is not",
            |scene| Box::pin(relabelled(scene)),
        )
        .wiring(Wiring { relabelled: Relabelled::Series, ..Wiring::default() })
        .short(),
        Scenario::new(
            "relabelled-dead",
            "all agents die whose series are renamed: one page",
            |scene| Box::pin(agent_dead(scene)),
        )
        .wiring(Wiring { relabelled: Relabelled::Series, ..Wiring::default() }),
    ]
}

async fn relabelled(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(15).await;
    let free = holder.release().await?;
    let down = task.expect_down(free)?;
    scene.until_sent(&down).await?;
    for agent in &scene.stage.agents {
        agent.lock().await.kill().await?;
    }
    scene.pass(20).await;
    for agent in &scene.stage.agents {
        agent.lock().await.start_again().await?;
    }
    scene.pass(20).await;
    holder.contend().await?;
    let mended = holder.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn prometheus_restart(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    scene.prometheus().await.stop().await?;
    scene.pass(10).await;
    scene.prometheus().await.start_again().await?;
    scene.pass(30).await;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn prometheus_away_in_gap(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(15).await;
    scene.prometheus().await.stop().await?;
    let free = holder.release().await?;
    let away = Duration::from_secs(20);
    scene.pass(away.as_secs()).await;
    scene.prometheus().await.start_again().await?;
    let down = task.expect_down(free)?;
    down.later_by(away + SENT_AGAIN_WITHIN);
    scene.until_sent(&down).await?;
    holder.contend().await?;
    let mended = holder.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn alertmanager_restart(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    scene.alertmanager().await.stop().await?;
    scene.pass(5).await;
    scene.alertmanager().await.start_again().await?;
    scene.pass(SENT_AGAIN_WITHIN.as_secs()).await;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn lost_scrapes(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(if scene.is_short() { 30 } else { 400 }).await;
    let free = holder.release().await?;
    let down = task.expect_down(free)?;
    scene.until_sent(&down).await?;
    scene.pass(if scene.is_short() { 40 } else { 400 }).await;
    holder.contend().await?;
    let mended = holder.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}
