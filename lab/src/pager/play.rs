//! Plays scenarios on a stage, with a positive control before and after them, and judges them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::ledger::{Expected, Need, Note};
use super::plan::{self, GRACE, TaskPlan, Wiring};
use super::scenario::Scenario;
use super::scene::Scene;
use super::stage::{CONTROL_TASK, LAST_CONTROL_TASK, Stage, Timing, WATCHDOG, is_watchdog};
use super::verdict::{self, Answer, Finding, Wrong};
use crate::stack::{Labels, until};

/// Limits how many stages start at a time, because a start keeps two cores busy.
static STARTS: Semaphore = Semaphore::const_new(3);

/// The scenarios of a stage.
pub(super) struct StagePlan {
    pub(super) name: String,
    pub(super) agents: usize,
    pub(super) scenarios: Vec<Scenario>,
}

/// The results of a stage.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) stage: String,
    /// The name of each scenario, what it proves, and why it could not be played, if so.
    pub(super) scenarios: Vec<(&'static str, &'static str, Option<String>)>,
    pub(super) answers: Vec<Answer>,
    /// The findings, each with its scenario; an empty name is the stage itself.
    pub(super) findings: Vec<(String, Finding)>,
    pub(super) notes: Vec<Note>,
    /// The delay that `check-config` promises: page after, less the grace.
    pub(super) promised: Option<Duration>,
    /// Of each alert: its texts, as they reached the receiver first.
    pub(super) texts: BTreeMap<String, Labels>,
}

/// Plays a stage.
pub(super) async fn play(plan: StagePlan, timing: Timing) -> Outcome {
    let reported =
        plan.scenarios.iter().map(|scenario| (scenario.name, scenario.says)).collect::<Vec<_>>();
    let stage = plan.name.clone();
    match try_play(plan, timing).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let why = format!("{error:#}");
            let scenarios =
                reported.into_iter().map(|(name, says)| (name, says, Some(why.clone()))).collect();
            Outcome { stage, scenarios, ..Outcome::default() }
        }
    }
}

async fn try_play(plan: StagePlan, timing: Timing) -> anyhow::Result<Outcome> {
    let stage = {
        let _turn = STARTS.acquire().await?;
        Arc::new(start(&plan, timing).await.with_context(|| format!("the stage {}", plan.name))?)
    };
    let control = Scene { stage: Arc::clone(&stage), scenario: "" };
    control.task_named(LAST_CONTROL_TASK)?.switch_off("control").await?;
    let task = control.task_named(CONTROL_TASK)?;
    task.expect_down(task.switch_on("control").await?)?;
    let mut playing = JoinSet::new();
    for scenario in &plan.scenarios {
        let scene = Scene { stage: Arc::clone(&stage), scenario: scenario.name };
        let (name, says, play) = (scenario.name, scenario.says, scenario.play);
        playing.spawn_local(async move { (name, says, play(scene).await) });
    }
    let mut scenarios = Vec::new();
    while let Some(played) = playing.join_next().await {
        let (name, says, played) = played.context("a scenario panicked")?;
        let trouble = played.err().map(|error| format!("{error:#}"));
        eprintln!(
            "{} {name}{}",
            plan.name,
            trouble.as_deref().map_or(" is over".to_owned(), |why| format!(" failed: {why}"))
        );
        scenarios.push((name, says, trouble));
    }
    let place = |name| plan.scenarios.iter().position(|scenario| scenario.name == name);
    scenarios.sort_by_key(|(name, _, _)| place(*name));
    prove_alive(&control).await?;
    let (reported, muted) = (stage.reported(), stage.muted());
    let (answers, findings) =
        verdict::judge(&stage.ledger.entries(), &reported, &muted, Instant::now(), WATCHDOG);
    let mut findings: Vec<(String, Finding)> =
        findings.into_iter().map(|finding| (owner(&plan, &finding.labels), finding)).collect();
    let notes = stage.ledger.notes();
    findings.extend(notes.iter().filter(|note| !note.kept).map(|note| {
        let (labels, text) = (Labels::new(), note.text.clone());
        (note.scenario.to_owned(), Finding { labels, wrong: Wrong::Broken, text })
    }));
    let promised = stage.promised().await?;
    let texts = stage.texts();
    Ok(Outcome { stage: plan.name, scenarios, answers, findings, notes, promised, texts })
}

async fn start(plan: &StagePlan, timing: Timing) -> anyhow::Result<Stage> {
    let wiring = plan.scenarios.first().map_or(Wiring::default(), |scenario| scenario.wiring);
    let tasks = plan.scenarios.iter().flat_map(|scenario| scenario.tasks.clone()).collect();
    Stage::start(tasks, wiring, plan.agents, timing).await
}

/// The scenario that an alert is about.
fn owner(plan: &StagePlan, labels: &Labels) -> String {
    if let [only] = plan.scenarios.as_slice() {
        return only.name.to_owned();
    }
    let is_about = |task: &TaskPlan| match labels.get("task") {
        Some(name) => task.name == *name,
        None => {
            labels.get("store").is_some_and(|redis| task.redis == redis && task.redis != plan::MAIN)
        }
    };
    let found = plan.scenarios.iter().find(|scenario| scenario.tasks.iter().any(is_about));
    found.map_or(String::new(), |scenario| scenario.name.to_owned())
}

/// Proves after all scenarios that an alert still gets through; by then, no false one can be on
/// its way.
async fn prove_alive(control: &Scene) -> anyhow::Result<()> {
    let task = control.task_named(LAST_CONTROL_TASK)?;
    let down = task.expect_down(task.switch_on("control").await?)?;
    control.until_sent(&down).await?;
    tokio::time::sleep(GRACE).await;
    let waits_for =
        control.stage.ledger.entries().into_iter().find(|entry| is_watchdog(&entry.labels));
    if let Some(Expected { need: Need::Must { by, .. }, .. }) = waits_for {
        let reported = || {
            verdict::periods(&control.stage.receiver.notifications())
                .iter()
                .any(|period| is_watchdog(&period.labels))
        };
        let _judged_later =
            until(by.saturating_duration_since(Instant::now()), "", async || reported()).await;
    }
    Ok(())
}
