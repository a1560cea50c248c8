//! Scenarios about agents that restart, die, freeze, are cut off, or disagree.

use std::time::{Duration, Instant};

use redis::AsyncTypedCommands;

use crate::pager::plan::{BLIND_AFTER, GRACE, MAIN, Wiring};
use crate::pager::scenario::Scenario;
use crate::pager::scene::Scene;
use crate::stack::{Data, Signal, Weather};

/// Delay of the alert: all scrapes of two minutes failed, for one more minute.
const DOWN_AFTER: Duration = Duration::from_secs(180);
/// How long the rule keeps it after an agent answered, because one good scrape does not mean that
/// the agent is back.
const DOWN_KEPT: Duration = Duration::from_secs(180);
/// How long agents must disagree until the warning fires.
const DISAGREE_AFTER: Duration = Duration::from_secs(300);
/// How often the group of slow rules is evaluated.
const SLOW_EVERY: Duration = Duration::from_secs(30);
/// Minimum age of a target for the warning that it is down.
const OLD_ENOUGH: Duration = Duration::from_secs(240);

pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario::new(
            "agent-restart",
            "the agent restarts while down fires: neither resolved nor reported again",
            |scene| Box::pin(agent_restart(scene)),
        )
        .agents(1)
        .short(),
        Scenario::new(
            "agent-restart-in-gap",
            "the agent restarts in a gap: down comes a grace later at most",
            |scene| Box::pin(agent_restart_in_gap(scene)),
        )
        .agents(1),
        Scenario::new(
            "agent-frozen",
            "the only agent stands still for 40 s while down fires: it stays",
            |scene| Box::pin(agent_frozen(scene)),
        )
        .agents(1),
        Scenario::new("agent-dead", "the only agent dies: one page", |scene| {
            Box::pin(agent_dead(scene))
        })
        .agents(1),
        Scenario::new("all-agents-dead", "two of two agents die: one page", |scene| {
            Box::pin(agent_dead(scene))
        })
        .agents(2),
        Scenario::new(
            "agent-crash-loop",
            "the only agent crashes every 15 s: one page, down stays",
            |scene| Box::pin(agent_crash_loop(scene)),
        )
        .agents(1),
        Scenario::new(
            "agent-and-data-lost",
            "Redis loses its data while the agent restarts: switches lost",
            |scene| Box::pin(agent_and_data_lost(scene)),
        )
        .agents(1)
        .short(),
        Scenario::new("two-agents", "two agents see a crash: one page", |scene| {
            Box::pin(two_agents(scene))
        })
        .agents(2)
        .short(),
        Scenario::new("one-agent-dead", "one of two agents dies: reported, no page", |scene| {
            Box::pin(one_agent_dead(scene))
        })
        .agents(2),
        Scenario::new(
            "one-agent-frozen",
            "one of two agents stands still over a crash: one page that stays",
            |scene| Box::pin(one_agent_frozen(scene)),
        )
        .agents(2)
        .short(),
        Scenario::new(
            "one-agent-cut-off",
            "one of two agents cannot reach Redis: reported; a crash meanwhile pages once",
            |scene| Box::pin(one_agent_cut_off(scene)),
        )
        .agents(2)
        .wiring(Wiring { cables: true, ..Wiring::default() }),
        Scenario::new(
            "one-agent-elsewhere",
            "one of two agents watches another server: reported, no page",
            |scene| Box::pin(one_agent_elsewhere(scene)),
        )
        .agents(2)
        .wiring(Wiring { last_agent_elsewhere: true, ..Wiring::default() }),
    ]
}

async fn agent_restart(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    scene.agent(0).await?.restart().await?;
    scene.pass(25).await;
    scene.agent(0).await?.kill().await?;
    scene.pass(20).await;
    scene.agent(0).await?.start_again().await?;
    scene.pass(20).await;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn agent_restart_in_gap(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(15).await;
    holder.release().await?;
    scene.pass(3).await;
    let restarted = Instant::now();
    scene.agent(0).await?.restart().await?;
    scene.until_sent(&task.expect("LockwatchTaskDown", restarted + GRACE)?).await
}

async fn agent_frozen(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    let wanted = task.switch_on("anna").await?;
    let down = task.expect_down(wanted)?;
    scene.until_sent(&down).await?;
    scene.agent(0).await?.signal(Signal::Stop).await?;
    scene.pass(40).await;
    scene.agent(0).await?.signal(Signal::Continue).await?;
    scene.pass(30).await;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

pub(super) async fn agent_dead(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    scene.pass(30).await;
    for agent in &scene.stage.agents {
        agent.lock().await.kill().await?;
    }
    // The last successful scrape was shortly before this.
    let due = Instant::now() + DOWN_AFTER - scene.stage.timing.scrape;
    let dead = scene.expect_of_agents("LockwatchDown", due)?;
    dead.later_by(scene.stage.timing.scrape);
    scene.until_sent(&dead).await?;
    scene.pass(60).await;
    let back = Instant::now();
    for agent in &scene.stage.agents {
        agent.lock().await.start_again().await?;
    }
    scene.mended(&dead, back, DOWN_KEPT).await
}

async fn agent_crash_loop(scene: Scene) -> anyhow::Result<()> {
    scene.pass(15).await;
    for restart in 1..=7 {
        scene.agent(0).await?.restart().await?;
        if restart == 4 {
            let looping = scene.expect_of_agents("LockwatchAgentRestarting", Instant::now())?;
            looping.stays_until(Instant::now() + Duration::from_secs(600));
        }
        scene.pass(15).await;
    }
    Ok(())
}

async fn agent_and_data_lost(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(20).await;
    scene.agent(0).await?.kill().await?;
    scene.redis(MAIN).await?.restart(Data::Lost).await?;
    holder.loses().await?;
    holder.holds().await?;
    let started = Instant::now();
    scene.agent(0).await?.start_again().await?;
    let lost = task.expect("LockwatchSwitchesLost", started)?;
    // The slow group remembers that they were on. Until it does, the task looks switched off, for
    // longer than the short wind_down of these tasks.
    lost.later_by(SLOW_EVERY);
    task.may("LockwatchTaskUnwanted");
    scene.until_sent(&lost).await?;
    scene.pass(20).await;
    let mended = task.switch_on("anna").await?;
    scene.mended(&lost, mended, Duration::ZERO).await
}

async fn two_agents(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let holder = task.holder().await?;
    scene.pass(10).await;
    let free = task.crash(holder).await?;
    task.may("LockwatchRenewalOverdue");
    task.expect("LockwatchLeaseExpired", free)?.stays_until(free + Duration::from_secs(600));
    let down = task.expect_down(free)?;
    scene.until_sent(&down).await?;
    scene.pass(25).await;
    let mut next = task.candidate().await?;
    let mended = next.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn one_agent_dead(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let _holder = task.holder().await?;
    scene.pass(60).await;
    let lived = scene.stage.scraped_since.elapsed();
    scene.agent(1).await?.kill().await?;
    // Fires when less than half of the scrapes of five minutes succeed, which takes less time after
    // a shorter life. A target is not judged before it is four minutes old.
    let due = lived.max(OLD_ENOUGH.saturating_sub(lived));
    let down = scene.expect_of_agent(
        "LockwatchAgentDown",
        1,
        Instant::now() + due - 2 * scene.stage.timing.scrape,
    )?;
    down.later_by(3 * scene.stage.timing.scrape);
    scene.until_sent(&down).await?;
    scene.pass(120).await;
    down.stays_until(Instant::now());
    scene.agent(1).await?.start_again().await
}

async fn one_agent_frozen(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(15).await;
    scene.agent(1).await?.signal(Signal::Stop).await?;
    scene.may_of_agent("LockwatchAgentDown", 1)?;
    let free = holder.release().await?;
    let down = task.expect_down(free)?;
    scene.until_sent(&down).await?;
    scene.pass(10).await;
    // Its last state had a holder, which it must not report now.
    scene.agent(1).await?.signal(Signal::Continue).await?;
    scene.pass(25).await;
    holder.contend().await?;
    let mended = holder.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await
}

async fn one_agent_cut_off(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    task.switch_on("anna").await?;
    let mut holder = task.holder().await?;
    scene.pass(15).await;
    scene.cables(1, MAIN)?.iter().for_each(|cable| cable.set(Weather::Cut));
    // They disagree once the last one says that it cannot reach it.
    let due = Instant::now() + BLIND_AFTER + DISAGREE_AFTER;
    let disagree = scene.expect_of_redis("LockwatchAgentsDisagree", MAIN, due)?;
    disagree.later_by(SLOW_EVERY);
    scene.pass(60).await;
    let free = holder.release().await?;
    let down = task.expect_down(free)?;
    scene.until_sent(&down).await?;
    scene.pass(20).await;
    holder.contend().await?;
    let mended = holder.holds().await?;
    scene.mended(&down, mended, Duration::ZERO).await?;
    scene.until_sent(&disagree).await?;
    disagree.stays_until(Instant::now());
    scene.cables(1, MAIN)?.iter().for_each(|cable| cable.set(Weather::Fair));
    scene.pass(30).await;
    Ok(())
}

async fn one_agent_elsewhere(scene: Scene) -> anyhow::Result<()> {
    let task = scene.task()?;
    // The switches are the same, and only the locks differ.
    let elsewhere = scene.stage.elsewhere.get(MAIN).map(|redis| redis.connect());
    if let Some(other) = elsewhere {
        other.await?.hset(task.plan.switches(), "anna", "on").await?;
    }
    let due = Instant::now() + DISAGREE_AFTER;
    let _holder = task.holder().await?;
    task.switch_on("anna").await?;
    let disagree = task.expect("LockwatchAgentsDisagree", due)?;
    disagree.later_by(SLOW_EVERY);
    scene.until_sent(&disagree).await
}
