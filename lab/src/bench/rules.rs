//! What the alerting rules cost a real Prometheus: seconds per evaluation of each group, series and
//! memory, for many tasks and two agents. The agents are the agent's own server and exposition,
//! with tasks that no Redis has.

mod own;
mod world;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{Instant, interval, sleep};

use self::own::Own;
use self::world::World;
use super::serve::listen_with_lockwatch;
use crate::numbers::{quantile, shown};
use crate::report::{Figure, Table};
use crate::stack::{Labels, Prometheus, PrometheusSetup, Target, get};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../alerts/lockwatch.rules.yml");
/// Of scrapes and evaluations, as in alerts/prometheus-example.yml.
const INTERVAL: Duration = Duration::from_secs(5);
/// How often Prometheus is asked what it has done.
const LOOK_EVERY: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);

/// The groups, and the most milliseconds that an evaluation shall take with 10,000 tasks and two
/// agents.
const GROUPS: [(&str, Option<f64>); 5] = [
    ("lockwatch.pages", Some(500.0)),
    ("lockwatch.warnings", Some(500.0)),
    ("lockwatch.stores", None),
    ("lockwatch.slow", Some(1_500.0)),
    ("lockwatch.availability", None),
];
/// The most series that 10,000 tasks of one agent shall have in Prometheus.
const SERIES: f64 = 230_000.0;
/// The same with what the availability group records.
const SERIES_WITH_AVAILABILITY: f64 = 370_000.0;

/// What the first edition's rules and exposition took with 10,000 tasks and two agents, as measured
/// then.
const BEFORE: Before = Before { evaluation: "7 to 40 s", series: "1830000", memory: "10 GB" };

struct Before {
    evaluation: &'static str,
    series: &'static str,
    memory: &'static str,
}

/// One measurement.
#[derive(Clone, Copy)]
struct Plan {
    tasks: usize,
    agents: usize,
    /// Not counted: the series are new.
    warm_up: Duration,
    stretch: Duration,
}

const fn plan(tasks: usize, agents: usize, warm_up_s: u64, stretch_s: u64) -> Plan {
    let (warm_up, stretch) = (Duration::from_secs(warm_up_s), Duration::from_secs(stretch_s));
    Plan { tasks, agents, warm_up, stretch }
}

const PLANS: [Plan; 3] =
    [plan(1_000, 2, 20, 60), plan(10_000, 2, 40, 120), plan(10_000, 1, 40, 40)];
const SHORT: [Plan; 1] = [plan(1_000, 2, 10, 40)];

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let (mut figures, mut version) = (Vec::new(), String::new());
    for plan in if short { &SHORT[..] } else { &PLANS } {
        let measured = measure(*plan)
            .await
            .with_context(|| format!("{} tasks, {} agents", plan.tasks, plan.agents))?;
        figures.extend(measured.figures(*plan));
        version = measured.version;
    }
    let more = format!(
        "Prometheus {version}, each {} s a scrape and an evaluation. The peer: the first \
         edition's rules and exposition, as measured then.\n",
        INTERVAL.as_secs()
    );
    Ok(Table { figures, more })
}

/// What Prometheus reported while it ran.
struct Measured {
    /// Of each group: milliseconds of each evaluation.
    took_ms: BTreeMap<String, Vec<f64>>,
    missed: f64,
    series: f64,
    /// Whether the availability group has recorded something.
    has_availability: bool,
    resident_mb: f64,
    peak_mb: f64,
    version: String,
}

async fn measure(plan: Plan) -> anyhow::Result<Measured> {
    let mut running = JoinSet::new();
    let targets = serve(plan, &mut running).await?;
    let prometheus = Prometheus::start(&PrometheusSetup {
        rules: vec![PathBuf::from(RULES)],
        targets,
        job_fields: Vec::new(),
        scrape_interval: INTERVAL,
        evaluation_interval: INTERVAL,
        alertmanager: None,
    })
    .await?;
    sleep(plan.warm_up).await;

    let before = Own::of(&prometheus).await?;
    let (mut own, mut evaluations, mut peak_mb) = (before.clone(), BTreeMap::new(), 0.0_f64);
    let end = Instant::now() + plan.stretch;
    while Instant::now() < end {
        sleep(LOOK_EVERY).await;
        own = Own::of(&prometheus).await?;
        peak_mb = peak_mb.max(own.resident_mb);
        for (name, (at, seconds)) in &own.groups {
            if before.groups.get(name).is_none_or(|(seen, _)| seen < at) {
                evaluations.insert((name.clone(), at.to_bits()), 1000.0 * seconds);
            }
        }
    }
    ensure!(own.failed == 0.0, "{} rules failed", own.failed);
    check(&prometheus, plan).await?;
    let mut took_ms: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for ((name, _), ms) in evaluations {
        took_ms.entry(name).or_default().push(ms);
    }
    let availability = prometheus.query("count({__name__=~\".+:increase.+\"})").await?;
    let build = get(prometheus.address(), "/api/v1/status/buildinfo").await?.json()?;
    let version = build.pointer("/data/version").and_then(|version| version.as_str());
    Ok(Measured {
        took_ms,
        missed: own.missed - before.missed,
        series: own.series,
        has_availability: !availability.is_empty(),
        resident_mb: own.resident_mb,
        peak_mb,
        version: version.unwrap_or("?").to_owned(),
    })
}

/// Starts the agents, all of which show the same.
async fn serve(plan: Plan, running: &mut JoinSet<()>) -> anyhow::Result<Vec<Target>> {
    let mut world = block_in_place(|| World::new(plan.tasks))?;
    let (sender, receiver) = watch::channel(world.published());
    let mut targets = Vec::new();
    for _ in 0..plan.agents {
        let address: SocketAddr = listen_with_lockwatch(receiver.clone(), running).await?;
        targets.push(Target { job: "lockwatch".to_owned(), address, labels: Labels::new() });
    }
    running.spawn(async move {
        let mut seconds = interval(SECOND);
        loop {
            seconds.tick().await;
            block_in_place(|| world.second());
            sender.send_replace(block_in_place(|| world.published()));
        }
    });
    Ok(targets)
}

/// Whether the rules saw what the agents show.
async fn check(prometheus: &Prometheus, plan: Plan) -> anyhow::Result<()> {
    let count = async |promql: &str| {
        let found = prometheus.query(promql).await?;
        anyhow::Ok(found.first().map_or(0.0, |(_, count)| *count))
    };
    let firing = "count(ALERTS{alertname=\"LockwatchTaskDown\", alertstate=\"firing\"})";
    let (down, expected) = (count(firing).await?, World::down(plan.tasks) as f64);
    ensure!(down == expected, "{down} tasks page, not {expected}");
    let (up, agents) = (count("sum(up)").await?, plan.agents as f64);
    ensure!(up == agents, "{up} of {agents} agents are scraped");
    Ok(())
}

impl Measured {
    fn figures(&self, plan: Plan) -> Vec<Figure> {
        let (many, both) = (plan.tasks == 10_000, plan.agents == 2);
        let title = match plan.agents {
            1 => format!("{} tasks, one agent", plan.tasks),
            agents => format!("{} tasks, {agents} agents", plan.tasks),
        };
        let parts = |figure: Figure, before: &str| {
            if many && both { figure.peer(before) } else { figure }
        };
        let mut figures = Vec::new();
        for (name, limit) in GROUPS {
            let what = format!("{title}: {name}");
            let Some(times) = self.took_ms.get(name) else {
                figures.push(Figure::plain(what, "not evaluated in this time"));
                continue;
            };
            let median = quantile(times, 0.5);
            let figure = match limit.filter(|_| many && both) {
                Some(limit) => Figure::at_most(what, median, limit, "ms"),
                None => Figure::plain(what, shown(median, "ms")),
            };
            let worst = shown(quantile(times, 1.0), "ms");
            let figure = figure.with(format!("worst of {}: {worst}", times.len()));
            figures.push(parts(figure, &format!("all groups together: {}", BEFORE.evaluation)));
        }
        if self.missed > 0.0 {
            let what = format!("{title}: evaluations left out");
            figures.push(Figure::plain(what, shown(self.missed, "")));
        }
        figures.push(parts(self.series(plan, &title), BEFORE.series));
        let memory = Figure::plain(format!("{title}: memory"), shown(self.resident_mb, "MB"))
            .with(format!("at most {}", shown(self.peak_mb, "MB")));
        figures.push(parts(memory, BEFORE.memory));
        figures
    }

    fn series(&self, plan: Plan, title: &str) -> Figure {
        let with = if self.has_availability { "with" } else { "without" };
        let what = format!("{title}: series {with} the availability group's");
        if (plan.tasks, plan.agents) == (10_000, 1) {
            let limit = if self.has_availability { SERIES_WITH_AVAILABILITY } else { SERIES };
            Figure::at_most(what, self.series, limit, "")
        } else {
            Figure::plain(what, shown(self.series, ""))
        }
    }
}
