//! Scenarios about reloads of the configuration.

use std::time::{Duration, Instant};

use anyhow::ensure;

use crate::pager::plan::TaskPlan;
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;

/// How long the rule keeps a warning after its end.
const KEPT: Duration = Duration::from_secs(120);

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "reload-in-gap",
            "another task is added in the middle of a gap: down comes in time",
            |scene| Box::pin(reload_in_gap(scene)),
        )
        .alone(),
        Scenario::new(
            "task-removed",
            "a task leaves the configuration while down fires: it resolves",
            |scene| Box::pin(task_removed(scene)),
        )
        .alone()
        .short(),
        Scenario::new(
            "broken-reload",
            "the changed configuration is broken: reported until it is mended, and pages go on",
            |scene| Box::pin(broken_reload(scene)),
        )
        .alone(),
    ]
}

/// Reloads each agent with a configuration of these tasks.
async fn reload<'a>(
    scene: &'a Scene,
    tasks: impl IntoIterator<Item = &'a TaskPlan> + Clone,
) -> anyhow::Result<Instant> {
    for at in 0..scene.stage.agents.len() {
        let config = scene.stage.config(at, tasks.clone())?;
        let agent = scene.agent(at).await?;
        agent.configure(&config)?;
        let answer = agent.reload().await?;
        ensure!(answer.status == 200, "the reload was refused: {}", answer.body);
    }
    Ok(Instant::now())
}

async fn reload_in_gap(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(15).await;
    let free = holder.release().await?;
    let down = task.expect_down(free)?;
    scene.pass(3).await;
    let added = TaskPlan::new("added").never_wanted();
    reload(&scene, scene.stage.tasks.iter().chain([&added])).await?;
    scene.until_sent(&down).await?;
    reload(&scene, &scene.stage.tasks).await?;
    scene.pass(30).await;
    holder.contend().await?;
    let mended = holder.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn task_removed(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    let removed =
        reload(&scene, scene.stage.tasks.iter().filter(|plan| plan.name != task.plan.name)).await?;
    scene.mended(&down, removed, Duration::ZERO).await
}

async fn broken_reload(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    scene.agent(0).await?.configure("tasks: [{name: broken}]")?;
    let answer = scene.agent(0).await?.reload().await?;
    ensure!(answer.status == 500, "the agent takes a broken configuration");
    let failed = scene.expect_of_agent("LockwatchConfigReloadFailed", 0, Instant::now())?;
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&failed).await?;
    scene.until_sent(&down).await?;
    let mended = reload(&scene, &scene.stage.tasks).await?;
    scene.mended(&failed, mended, KEPT).await
}
