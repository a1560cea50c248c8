//! A complete stack on which scenarios play.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Mutex;

use super::ledger::{End, Expected, Ledger, Need, is_page};
use super::plan::{self, INTERVAL, Relabelled, SETTLE, Servers, TaskPlan, Wiring};
use super::routes::Routes;
use super::verdict::{self, Period};
use super::watch::Watch;
use crate::stack::{
    Agent, Alertmanager, Cable, Labels, LossyScrapes, Program, Prometheus, PrometheusSetup,
    Receiver, Redis, Set, Target, Worker, free_address, until,
};

/// The job of the agents in Prometheus.
const JOB: &str = "lockwatch";
/// The same where the agents are relabelled: nothing in it says that they are lockwatch's.
const OTHER_JOB: &str = "exporters";
/// The Redis of the control tasks, which no scenario affects.
const CONTROL: &str = "control";
/// A task that is down from start to end.
pub(super) const CONTROL_TASK: &str = "control";
/// A task that is down only at the end.
pub(super) const LAST_CONTROL_TASK: &str = "control-at-the-end";
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

/// Further lines of the configuration of a Redis that is reached over cables: a login for the
/// agents, and what faults need.
const WITH_LOGIN: [&str; 6] = [
    "user lockwatch on >lab ~* &* +@all -@write -@admin +role",
    "enable-debug-command yes",
    "repl-diskless-sync-delay 0",
    "repl-ping-replica-period 1",
    "busy-reply-threshold 100",
    "loading-process-events-interval-bytes 1024",
];

/// The intervals and tolerances of a stage.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    pub(super) scrape: Duration,
    pub(super) routes: Routes,
    pub(super) rules: PathBuf,
    pub(super) target_labels: bool,
    pub(super) short: bool,
    /// How long faults come at random.
    pub(super) minutes: Option<f64>,
    /// Which faults come.
    pub(super) seed: u64,
    /// Additional tolerance on this stage.
    pub(super) slack: Duration,
}

impl Timing {
    /// Maximum time from due to notified: sampled, confirmed, scraped and evaluated; for pages also
    /// the delay of the group.
    pub(super) fn sent_within(&self, labels: &Labels) -> anyhow::Result<Duration> {
        let group_wait = if is_notified(labels) {
            self.routes.waits(labels)?.group_wait
        } else {
            Duration::ZERO
        };
        Ok(2 * INTERVAL + 2 * self.scrape + group_wait + TOLERANCE + self.slack)
    }

    /// Maximum time from fixed to notified: sampled, settled, scraped and evaluated twice; for
    /// pages also the delay of the group.
    pub(super) fn resolved_within(&self, labels: &Labels) -> anyhow::Result<Duration> {
        let interval = if is_notified(labels) {
            self.routes.waits(labels)?.group_interval
        } else {
            Duration::ZERO
        };
        Ok(2 * INTERVAL + SETTLE + 3 * self.scrape + interval + TOLERANCE + self.slack)
    }
}

/// The labels of the target of agent `at`: those by which discoveries distinguish agents, some that
/// all have, and names of lockwatch's own.
fn target_labels(at: usize) -> Labels {
    let common = ["namespace", "task", "store", "severity", "problem", "state", "team", "agent"];
    let common = common.map(|name| (name.to_owned(), verdict::OF_TARGETS.to_owned()));
    own_target_labels(at).into_iter().chain(common).collect()
}

/// Those by which discoveries distinguish agents.
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
fn is_notified(labels: &Labels) -> bool {
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
    /// For each agent, the servers of each Redis as its configuration names them.
    servers: Vec<BTreeMap<&'static str, String>>,
    full_metrics: bool,
    _scrapes: Vec<LossyScrapes>,
    pub(super) agents: Vec<Mutex<Agent>>,
    /// For each agent, its cables to the servers and Sentinels of each Redis.
    pub(super) cables: Vec<BTreeMap<&'static str, Vec<Cable>>>,
    pub(super) redises: BTreeMap<&'static str, Mutex<Redis>>,
    pub(super) replicas: BTreeMap<&'static str, Mutex<Redis>>,
    pub(super) sets: BTreeMap<&'static str, Set>,
    pub(super) elsewhere: BTreeMap<&'static str, Redis>,
    _secret: TempDir,
}

/// The servers of a stage.
#[derive(Default)]
struct Stores {
    redises: BTreeMap<&'static str, Mutex<Redis>>,
    replicas: BTreeMap<&'static str, Mutex<Redis>>,
    sets: BTreeMap<&'static str, Set>,
    elsewhere: BTreeMap<&'static str, Redis>,
    /// The addresses by which agents reach each of them, and those of the last agent.
    first: BTreeMap<&'static str, Vec<SocketAddr>>,
    last: BTreeMap<&'static str, Vec<SocketAddr>>,
}

impl Stores {
    async fn start(tasks: &[TaskPlan], wiring: Wiring) -> anyhow::Result<Stores> {
        let mut stores = Stores::default();
        let lines: Vec<String> =
            if wiring.cables { WITH_LOGIN.map(str::to_owned).to_vec() } else { Vec::new() };
        let redises: BTreeMap<&'static str, Servers> =
            tasks.iter().map(|task| (task.redis, task.servers)).collect();
        for (name, servers) in redises {
            if servers == Servers::Sentinels {
                let set = Set::start(&lines).await?;
                let (servers, sentinels) = set.addresses();
                let all = [servers, sentinels].concat();
                stores.first.insert(name, all.clone());
                stores.last.insert(name, all);
                stores.sets.insert(name, set);
                continue;
            }
            let redis = Redis::start_with(free_address()?, None, false, &lines).await?;
            let mut behind = Vec::new();
            if servers == Servers::Replicated {
                let replica = Redis::start().await?;
                replica.follow(Some(&redis)).await?;
                behind.push(replica.address());
                stores.replicas.insert(name, Mutex::new(replica));
            }
            stores.first.insert(name, [vec![redis.address()], behind.clone()].concat());
            let mut of_last = redis.address();
            if wiring.last_agent_elsewhere && name != CONTROL {
                let other = Redis::start().await?;
                of_last = other.address();
                stores.elsewhere.insert(name, other);
            }
            stores.last.insert(name, [vec![of_last], behind].concat());
            stores.redises.insert(name, Mutex::new(redis));
        }
        Ok(stores)
    }

    /// The servers of each Redis as an agent's configuration names them, and the cables to them.
    async fn reached(
        &self,
        is_last: bool,
        login: Option<&Path>,
    ) -> anyhow::Result<(BTreeMap<&'static str, String>, BTreeMap<&'static str, Vec<Cable>>)> {
        let (mut texts, mut cables) = (BTreeMap::new(), BTreeMap::new());
        for (name, addresses) in if is_last { &self.last } else { &self.first } {
            let (mut own, mut over) = (Vec::new(), BTreeMap::new());
            for address in addresses {
                let mut reached_at = *address;
                if login.is_some() {
                    let cable = Cable::start(*address).await?;
                    reached_at = cable.address();
                    own.push(cable);
                }
                over.insert(*address, reached_at);
            }
            let url = |at: &SocketAddr| format!("\"redis://{}/0\"", over.get(at).unwrap_or(at));
            let mut text = match (self.sets.get(name), addresses.as_slice()) {
                (Some(set), _) => set.config(|address| over.get(&address).copied()),
                (None, [one]) => format!("url: {}", url(one)),
                (None, all) => {
                    let nodes: Vec<String> = all.iter().map(url).collect();
                    format!("nodes: [{}]", nodes.join(", "))
                }
            };
            if let Some(secret) = login {
                let _ = write!(
                    text,
                    ", username: lockwatch, password_file: \"{}\", timeout: 1s",
                    secret.display()
                );
            }
            texts.insert(*name, text);
            cables.insert(*name, own);
        }
        Ok((texts, cables))
    }
}

impl Stage {
    /// Starts all parts for these tasks, and those of the control.
    pub(super) async fn start(
        mut tasks: Vec<TaskPlan>,
        wiring: Wiring,
        agent_count: usize,
        mut timing: Timing,
    ) -> anyhow::Result<Stage> {
        timing.slack = wiring.slack;
        if wiring.lost_scrapes.is_some() {
            timing.slack += LOST_IN_A_ROW * timing.scrape;
        }
        tasks.extend([CONTROL_TASK, LAST_CONTROL_TASK].map(|name| TaskPlan::new(name).on(CONTROL)));
        let stores = Stores::start(&tasks, wiring).await?;
        let secret = TempDir::new()?;
        let file = secret.path().join("password");
        std::fs::write(&file, "lab")?;
        std::fs::set_permissions(&file, Permissions::from_mode(0o600))?;
        let login = wiring.cables.then_some(file.as_path());

        let (mut agents, mut instances) = (Vec::new(), Vec::new());
        let (mut servers, mut cables, mut scrapes) = (Vec::new(), Vec::new(), Vec::new());
        for at in 1..=agent_count {
            let (of_agent, own) = stores.reached(at == agent_count, login).await?;
            let config = plan::config(&of_agent, &tasks, wiring.full_metrics);
            let agent = Agent::start(&config).await?;
            let mut address = agent.address();
            if let Some(share) = wiring.lost_scrapes {
                let lossy = LossyScrapes::start(address, share, SEED + u64::try_from(at)?).await?;
                address = lossy.address();
                scrapes.push(lossy);
            }
            agents.push(Mutex::new(agent));
            instances.push(address.to_string());
            servers.push(of_agent);
            cables.push(own);
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
                .is_ok_and(|found| found.len() == agent_count)
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
            servers,
            full_metrics: wiring.full_metrics,
            _scrapes: scrapes,
            agents,
            cables,
            redises: stores.redises,
            replicas: stores.replicas,
            sets: stores.sets,
            elsewhere: stores.elsewhere,
            _secret: secret,
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
        let servers = self.servers.get(agent).with_context(|| format!("no agent {agent}"))?;
        Ok(plan::config(servers, tasks, self.full_metrics))
    }

    /// Everything that was reported so far: the notifications of pages, and the warnings that
    /// Alertmanager knew.
    pub(super) fn reported(&self) -> Vec<Period> {
        let mut reported = verdict::periods(&self.receiver.notifications());
        reported.retain(|period| is_notified(&period.labels));
        let warnings = self.watch.seen().into_iter().map(|seen| seen.period);
        reported.extend(warnings.filter(|period| !is_notified(&period.labels)));
        reported
    }

    /// Of each alert: its texts, as they reached the receiver first.
    pub(super) fn texts(&self) -> BTreeMap<String, Labels> {
        let mut texts = BTreeMap::new();
        for alert in self.receiver.notifications().into_iter().flat_map(|reported| reported.alerts)
        {
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

    /// The promise of the real `check-config` for these numbers.
    pub(super) async fn promised(&self) -> anyhow::Result<Option<Duration>> {
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

pub(super) fn is_watchdog(labels: &Labels) -> bool {
    labels.get("alertname").is_some_and(|name| name == WATCHDOG)
}
