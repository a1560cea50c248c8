//! A complete stack on which scenarios play, with a positive control before and after them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinSet;

use super::ledger::{End, Expected, Ledger, Need, is_page};
use super::plan::{self, GRACE, INTERVAL, SETTLE, TaskPlan};
use super::routes::Routes;
use super::scenario::{Relabelled, Scenario, Wiring};
use super::scene::Scene;
use super::verdict::{self, Answer, Finding, Period};
use super::watch::Watch;
use crate::stack::{
    Agent, Alertmanager, ClockProxy, Labels, Link, LossyScrapes, Program, Prometheus,
    PrometheusSetup, Receiver, Redis, Target, Worker, until,
};

/// The job of the agents in Prometheus.
const JOB: &str = "lockwatch";
/// The same where the agents are relabelled: nothing in it says that they are lockwatch's.
const OTHER_JOB: &str = "exporters";
/// The Redis of the control tasks, which no scenario affects.
const CONTROL: &str = "control";
/// A task that is down from start to end.
const CONTROL_TASK: &str = "control";
/// A task that is down only at the end.
const LAST_CONTROL_TASK: &str = "control-at-the-end";
pub(super) const WATCHDOG: &str = "LockwatchWatchdog";
const WATCHDOG_RULES: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../alerts/lockwatch-watchdog.rules.yml");
/// Alerts that fire before Prometheus knows its Alertmanager are sent again a minute later.
const WATCHDOG_WITHIN: Duration = Duration::from_secs(150);
/// Maximum time until all parts know each other.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// Tolerance for a busy machine.
const TOLERANCE: Duration = Duration::from_secs(5);
/// Number of scrapes in a row whose loss is tolerated: at 30 % loss this happens once in 37 times.
const LOST_IN_A_ROW: u32 = 3;
/// The seed that determines which scrapes are lost.
const SEED: u64 = 20;

/// Limits how many stages start at a time, because a start keeps two cores busy.
static STARTS: Semaphore = Semaphore::const_new(3);

/// The scenarios and parts of a stage.
pub(super) struct StagePlan {
    pub(super) name: String,
    pub(super) agents: usize,
    pub(super) scenarios: Vec<Scenario>,
}

/// The intervals and tolerances of a stage.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    pub(super) scrape: Duration,
    pub(super) routes: Routes,
    pub(super) rules: PathBuf,
    pub(super) target_labels: bool,
    pub(super) short: bool,
    /// Additional tolerance on this stage.
    pub(super) slack: Duration,
}

impl Timing {
    /// Maximum time from due to notified: sampled, confirmed, scraped and evaluated; for pages also
    /// the delay of the group.
    pub(super) fn told_within(&self, labels: &Labels) -> anyhow::Result<Duration> {
        let group_wait =
            if is_told(labels) { self.routes.waits(labels)?.group_wait } else { Duration::ZERO };
        Ok(2 * INTERVAL + 2 * self.scrape + group_wait + TOLERANCE + self.slack)
    }

    /// Maximum time from fixed to notified: sampled, settled, scraped and evaluated twice; for
    /// pages also the delay of the group.
    pub(super) fn resolved_within(&self, labels: &Labels) -> anyhow::Result<Duration> {
        let interval = if is_told(labels) {
            self.routes.waits(labels)?.group_interval
        } else {
            Duration::ZERO
        };
        Ok(2 * INTERVAL + SETTLE + 3 * self.scrape + interval + TOLERANCE + self.slack)
    }
}

/// The labels of the target of agent `at`: those by which discoveries tell agents apart, some that
/// all have, and names of lockwatch's own.
fn target_labels(at: usize) -> Labels {
    let common = ["namespace", "task", "store", "severity", "problem", "state", "team", "agent"];
    let common = common.map(|name| (name.to_owned(), verdict::OF_TARGETS.to_owned()));
    own_target_labels(at).into_iter().chain(common).collect()
}

/// Those by which discoveries tell agents apart.
fn own_target_labels(at: usize) -> Labels {
    let own = ["node", "host", "hostname", "pod", "pod_template_hash", "kubernetes_node"];
    own.map(|name| (name.to_owned(), format!("{name}-{at}"))).into()
}

fn job(relabelled: Relabelled) -> &'static str {
    match relabelled {
        Relabelled::Nothing => JOB,
        Relabelled::Targets | Relabelled::Series => OTHER_JOB,
    }
}

/// The fields of the scrape job that rename the agents.
fn job_fields(relabelled: Relabelled) -> Vec<(&'static str, Value)> {
    let rename = |from: &str| {
        json!([{
            "source_labels": [from],
            "regex": ".*:([0-9]+)",
            "target_label": "instance",
            "replacement": "agent-$1",
        }])
    };
    match relabelled {
        Relabelled::Nothing => Vec::new(),
        Relabelled::Targets => vec![("relabel_configs", rename("__address__"))],
        Relabelled::Series => vec![("metric_relabel_configs", rename("instance"))],
    }
}

/// Whether the alert is judged by its notifications, as pages and the watchdog are. Warnings are
/// sent in groups, later, or not at all beside a page.
fn is_told(labels: &Labels) -> bool {
    labels.get("alertname").is_some_and(|name| is_page(name) || name == WATCHDOG)
}

/// The running parts. Fields are dropped in order, so a part comes before the parts that it uses.
pub(super) struct Stage {
    pub(super) tasks: Vec<TaskPlan>,
    pub(super) timing: Timing,
    pub(super) ledger: Ledger,
    /// All workers that were started.
    pub(super) workers: Mutex<Vec<Worker>>,
    pub(super) prometheus: Mutex<Prometheus>,
    watch: Watch,
    pub(super) alertmanager: Mutex<Alertmanager>,
    pub(super) receiver: Receiver,
    /// When Prometheus started to scrape the agents.
    pub(super) scraped_since: Instant,
    /// The agents' addresses as Prometheus knows them.
    instances: Vec<String>,
    relabelled: Relabelled,
    /// For each agent, the addresses of the Redis servers.
    addresses: Vec<BTreeMap<&'static str, Vec<SocketAddr>>>,
    _scrapes: Vec<LossyScrapes>,
    pub(super) agents: Vec<Mutex<Agent>>,
    pub(super) links: BTreeMap<&'static str, Link>,
    pub(super) clocks: BTreeMap<&'static str, ClockProxy>,
    pub(super) redises: BTreeMap<&'static str, Mutex<Redis>>,
    pub(super) replicas: BTreeMap<&'static str, Mutex<Redis>>,
    pub(super) elsewhere: BTreeMap<&'static str, Redis>,
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
    /// The delay that `check-config` promises: page after, less the grace.
    pub(super) promised: Option<Duration>,
    /// Of each alert: its texts, as they reached the receiver first.
    pub(super) texts: BTreeMap<String, Labels>,
}

/// Plays a stage.
pub(super) async fn play(plan: StagePlan, timing: Timing) -> Outcome {
    let told =
        plan.scenarios.iter().map(|scenario| (scenario.name, scenario.says)).collect::<Vec<_>>();
    let stage = plan.name.clone();
    match try_play(plan, timing).await {
        Ok(outcome) => outcome,
        Err(error) => {
            let why = format!("{error:#}");
            let scenarios =
                told.into_iter().map(|(name, says)| (name, says, Some(why.clone()))).collect();
            Outcome { stage, scenarios, ..Outcome::default() }
        }
    }
}

async fn try_play(plan: StagePlan, timing: Timing) -> anyhow::Result<Outcome> {
    let stage = {
        let _turn = STARTS.acquire().await?;
        Arc::new(
            Stage::start(&plan, timing)
                .await
                .with_context(|| format!("the stage {}", plan.name))?,
        )
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
    stage.prove_alive(&control).await?;
    let (told, muted) = (stage.told(), stage.muted());
    let (answers, findings) =
        verdict::judge(&stage.ledger.entries(), &told, &muted, Instant::now(), WATCHDOG);
    let findings =
        findings.into_iter().map(|finding| (owner(&plan, &finding.labels), finding)).collect();
    let promised = stage.promised().await?;
    let texts = stage.texts();
    Ok(Outcome { stage: plan.name, scenarios, answers, findings, promised, texts })
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

impl Stage {
    async fn start(plan: &StagePlan, mut timing: Timing) -> anyhow::Result<Stage> {
        let wiring = plan.scenarios.first().map_or(Wiring::default(), |scenario| scenario.wiring);
        if wiring.lost_scrapes.is_some() {
            timing.slack = LOST_IN_A_ROW * timing.scrape;
        }
        let mut tasks: Vec<TaskPlan> =
            plan.scenarios.iter().flat_map(|scenario| scenario.tasks.clone()).collect();
        tasks.extend([CONTROL_TASK, LAST_CONTROL_TASK].map(|name| TaskPlan::new(name).on(CONTROL)));
        let names: BTreeSet<&'static str> = tasks.iter().map(|task| task.redis).collect();

        let (mut redises, mut elsewhere) = (BTreeMap::new(), BTreeMap::new());
        let (mut clocks, mut links, mut replicas) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (mut first, mut last) = (BTreeMap::new(), BTreeMap::new());
        for name in names {
            let redis = Redis::start().await?;
            let mut address = redis.address();
            let mut behind = Vec::new();
            if tasks.iter().any(|task| task.redis == name && task.replicated) {
                let replica = Redis::start().await?;
                replica.follow(Some(&redis)).await?;
                behind.push(replica.address());
                replicas.insert(name, Mutex::new(replica));
            }
            redises.insert(name, Mutex::new(redis));
            if wiring.clocks {
                let clock = ClockProxy::start(address).await?;
                address = clock.address();
                clocks.insert(name, clock);
            }
            first.insert(name, [vec![address], behind.clone()].concat());
            if wiring.last_agent_elsewhere && name != CONTROL {
                let other = Redis::start().await?;
                address = other.address();
                elsewhere.insert(name, other);
            }
            if wiring.last_agent_by_links {
                let link = Link::start(address).await?;
                address = link.address();
                links.insert(name, link);
            }
            last.insert(name, [vec![address], behind].concat());
        }

        let (mut agents, mut instances, mut addresses, mut scrapes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for at in 1..=plan.agents {
            let of_agent = if at == plan.agents { last.clone() } else { first.clone() };
            let agent = Agent::start(&plan::config(
                of_agent.iter().map(|(name, at)| (*name, at.as_slice())),
                &tasks,
            ))
            .await?;
            let mut address = agent.address();
            if let Some(share) = wiring.lost_scrapes {
                let lossy = LossyScrapes::start(address, share, SEED + u64::try_from(at)?).await?;
                address = lossy.address();
                scrapes.push(lossy);
            }
            agents.push(Mutex::new(agent));
            instances.push(address.to_string());
            addresses.push(of_agent);
        }

        let receiver = Receiver::start().await?;
        let alertmanager = Alertmanager::start(&timing.routes.to(&receiver.url())).await?;
        let targets = instances.iter().enumerate().map(|(at, instance)| {
            let labels = if timing.target_labels { target_labels(at) } else { Labels::new() };
            Ok(Target {
                job: job(wiring.relabelled).to_owned(),
                address: instance.parse()?,
                labels,
            })
        });
        let prometheus = Prometheus::start(&PrometheusSetup {
            rules: vec![timing.rules.clone(), PathBuf::from(WATCHDOG_RULES)],
            targets: targets.collect::<anyhow::Result<_>>()?,
            job_fields: job_fields(wiring.relabelled),
            scrape_interval: timing.scrape,
            evaluation_interval: timing.scrape,
            alertmanager: Some(alertmanager.address()),
        })
        .await?;
        let scraped_since = Instant::now();
        let ledger = Ledger::default();
        expect_watchdog(&ledger);
        let knows = async || prometheus.knows_its_alertmanager().await.unwrap_or(false);
        until(READY_WITHIN, "Prometheus knows its Alertmanager", knows).await?;
        let scraped = async || {
            prometheus
                .query("lockwatch_build_info")
                .await
                .is_ok_and(|found| found.len() == plan.agents)
        };
        until(READY_WITHIN, "Prometheus knows the agents", scraped).await?;
        Ok(Stage {
            tasks,
            timing,
            ledger,
            workers: Mutex::default(),
            prometheus: Mutex::new(prometheus),
            watch: Watch::start(alertmanager.address()),
            alertmanager: Mutex::new(alertmanager),
            receiver,
            scraped_since,
            instances,
            relabelled: wiring.relabelled,
            addresses,
            _scrapes: scrapes,
            agents,
            links,
            clocks,
            redises,
            replicas,
            elsewhere,
        })
    }

    /// The label of an alert about all agents.
    pub(super) fn labels_of_agents(&self) -> Labels {
        [("job".to_owned(), job(self.relabelled).to_owned())].into()
    }

    /// The labels of an alert about one agent: those of its target too, which say where it is.
    pub(super) fn labels_of_agent(&self, at: usize) -> anyhow::Result<Labels> {
        let address = self.instances.get(at).with_context(|| format!("no agent {at}"))?;
        let instance = match (self.relabelled, address.rsplit_once(':')) {
            (Relabelled::Targets | Relabelled::Series, Some((_, port))) => format!("agent-{port}"),
            _ => address.clone(),
        };
        let mut labels = self.labels_of_agents();
        labels.insert("instance".to_owned(), instance);
        if self.timing.target_labels {
            labels.extend(own_target_labels(at));
        }
        Ok(labels)
    }

    /// The configuration of an agent with these tasks instead of its initial ones.
    pub(super) fn config<'a>(
        &'a self,
        agent: usize,
        tasks: impl IntoIterator<Item = &'a TaskPlan>,
    ) -> anyhow::Result<String> {
        let addresses = self.addresses.get(agent).with_context(|| format!("no agent {agent}"))?;
        Ok(plan::config(addresses.iter().map(|(name, at)| (*name, at.as_slice())), tasks))
    }

    /// Everything that was reported so far: the notifications of pages, and the warnings that
    /// Alertmanager knew.
    pub(super) fn told(&self) -> Vec<Period> {
        let mut told = verdict::periods(&self.receiver.notifications());
        told.retain(|period| is_told(&period.labels));
        let warnings = self.watch.seen().into_iter().map(|seen| seen.period);
        told.extend(warnings.filter(|period| !is_told(&period.labels)));
        told
    }

    /// Of each alert: its texts, as they reached the receiver first.
    fn texts(&self) -> BTreeMap<String, Labels> {
        let mut texts = BTreeMap::new();
        for alert in self.receiver.notifications().into_iter().flat_map(|told| told.alerts) {
            if let Some(name) = alert.labels.get("alertname") {
                texts.entry(name.clone()).or_insert(alert.annotations);
            }
        }
        texts
    }

    /// Alerts that Alertmanager inhibited because of others.
    pub(super) fn muted(&self) -> Vec<Period> {
        self.watch.seen().into_iter().filter(|seen| seen.muted).map(|seen| seen.period).collect()
    }

    /// Proves after all scenarios that an alert still gets through; by then, no false one can be on
    /// its way.
    async fn prove_alive(&self, control: &Scene) -> anyhow::Result<()> {
        let task = control.task_named(LAST_CONTROL_TASK)?;
        let down = task.expect_down(task.switch_on("control").await?)?;
        control.until_told(&down).await?;
        tokio::time::sleep(GRACE).await;
        let waits_for = self.ledger.entries().into_iter().find(|entry| is_watchdog(&entry.labels));
        if let Some(Expected { need: Need::Must { by, .. }, .. }) = waits_for {
            let told = || {
                verdict::periods(&self.receiver.notifications())
                    .iter()
                    .any(|period| is_watchdog(&period.labels))
            };
            let _judged_later =
                until(by.saturating_duration_since(Instant::now()), "", async || told()).await;
        }
        Ok(())
    }

    /// The promise of the real `check-config` for these numbers.
    async fn promised(&self) -> anyhow::Result<Option<Duration>> {
        let Some(agent) = self.agents.first() else { return Ok(None) };
        let output = Command::new(Program::Lockwatch.find()?)
            .arg("check-config")
            .arg("--config.file")
            .arg(agent.lock().await.config_file())
            .arg("--prometheus.config")
            .arg(self.prometheus.lock().await.config_file())
            .arg("--alertmanager.config")
            .arg(self.alertmanager.lock().await.config_file())
            .output()
            .await?;
        let text = String::from_utf8_lossy(&output.stdout);
        let row = text.lines().map(str::split_whitespace).find_map(|mut cells| {
            (cells.next() == Some(CONTROL_TASK)).then(|| cells.collect::<Vec<_>>())
        });
        let cell = |at: usize| {
            row.as_ref()
                .and_then(|row| row.get(at))
                .and_then(|text| lockwatch::text::durations::parse_duration_ms(text).ok())
        };
        Ok(cell(2)
            .zip(cell(0))
            .map(|(page_ms, grace_ms)| Duration::from_millis(page_ms.saturating_sub(grace_ms))))
    }
}

fn expect_watchdog(ledger: &Ledger) {
    let labels = [("alertname", WATCHDOG), ("severity", "none")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let now = Instant::now();
    ledger.write(Expected {
        scenario: "",
        labels,
        need: Need::Must { due: now, by: now + WATCHDOG_WITHIN },
        end: End::Never,
    });
}

fn is_watchdog(labels: &Labels) -> bool {
    labels.get("alertname").is_some_and(|name| name == WATCHDOG)
}
