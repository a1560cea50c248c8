//! The dashboards against a real Prometheus. After a scenario that covers every situation, every
//! query of every panel, variable and annotation must return what its panel needs.

#[allow(dead_code, reason = "the static tests need more of it")]
#[path = "../../../tests/it/dashboards/board.rs"]
mod board;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use board::{Board, Query, columns, label_values, labels_in, queries_of, string, texts_of};
use lockwatch_lab::stack::{
    Agent, Cable, Data, Labels, Lost, Prometheus, PrometheusSetup, Redis, Target, Weather, Worker,
    WorkerSetup, until,
};
use redis::AsyncTypedCommands;
use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_secs(1);
const LOCK: &str = "outbound:lock";
/// Minimum number of series per query, where it is more than one: there are two tasks, two stores
/// and two agents.
const SERIES: &[(&str, &str, &str, usize)] = &[
    ("lockwatch-overview", "Problems", "A", 6),
    ("lockwatch-overview", "Problems over time", "A", 6),
    ("lockwatch-overview", "Stores", "A", 2),
    ("lockwatch-overview", "Agents", "A", 2),
    ("lockwatch-overview", "Tasks", "A", 2),
    ("lockwatch-overview", "Tasks", "B", 2),
    ("lockwatch-overview", "Tasks", "E", 2),
    ("lockwatch-overview", "Tasks", "H", 2),
    ("lockwatch-overview", "Verdicts", "A", 2),
    ("lockwatch-overview", "Firing alerts", "B", 2),
    ("lockwatch-overview", "Availability over 30 days", "A", 2),
    ("lockwatch-overview", "Top flappers", "A", 2),
    ("lockwatch-task", "Holders over time", "A", 3),
    ("lockwatch-task", "Verdict by agent", "A", 2),
    ("lockwatch-task", "Renewal latency, all renewals", "A", 7),
    ("lockwatch-task", "Share of time", "A", 3),
    ("lockwatch-task", "Splits by kind", "A", 3),
    ("lockwatch-task", "Ends by reason", "A", 5),
    ("lockwatch-agent", "Up", "A", 2),
    ("lockwatch-agent", "Version", "A", 2),
    ("lockwatch-agent", "Watches", "A", 2),
    ("lockwatch-agent", "Stores as each agent sees them", "A", 4),
    ("lockwatch-agent", "Servers as each agent sees them", "A", 4),
    ("lockwatch-agent", "Store readable", "A", 4),
    ("lockwatch-agent", "Servers reachable", "A", 4),
    ("lockwatch-agent", "Duration of a batch", "B", 4),
    ("lockwatch-agent", "Reconnects", "A", 4),
    ("lockwatch-agent", "Generation changes", "B", 4),
    ("lockwatch-agent", "CPU", "A", 2),
    ("lockwatch-agent", "Series", "A", 2),
];

/// What tells sites apart; nobody names one in the scenario.
const OF_SITES: [&str; 3] = ["cluster", "namespace", "env"];

/// Metrics that an agent exports only for Sentinels, clusters and replicas, or in trouble.
const OF_SEVERAL_SERVERS: &[&str] = &[
    "lockwatch_store_deadline_lag_seconds",
    "lockwatch_store_locks_behind",
    "lockwatch_store_refuses_writes",
    "lockwatch_store_sentinels",
    "lockwatch_store_uncovered_slots",
];

/// Prefixes of the metrics of turns, queues and patterns. The scenario has none of them.
const OF_OTHER_KINDS: &[&str] = &["lockwatch_turn_", "lockwatch_queue_", "lockwatch_pattern_"];

/// Prefixes of the metrics of periodic tasks. The scenario has one.
const OF_RUNS: &[&str] = &["lockwatch_task_run_", "lockwatch_task_last_run_"];

/// Prometheus' answer to one query.
struct Answer {
    query: Query,
    series: Vec<(Labels, Vec<f64>)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_gives_what_its_panel_needs() {
    let from = unix_now();
    let mut scenario = Scenario::start().await;
    let _still_running = scenario.play().await;
    let span = (from, unix_now());
    let mut complaints = String::new();
    for board in board::all() {
        for complaint in complaints_about(&board, &scenario.prometheus, span).await {
            writeln!(complaints, "{}: {complaint}", board.uid()).unwrap();
        }
    }
    assert_eq!(complaints, "");
}

/// Two Redis servers, Prometheus, and two agents that watch both servers. One agent connects
/// through a link that can be cut.
struct Scenario {
    main: Redis,
    spare: Redis,
    cable: Cable,
    agents: [Agent; 2],
    prometheus: Prometheus,
    /// The rules, with shortened times.
    _rules: tempfile::NamedTempFile,
}

impl Scenario {
    async fn start() -> Self {
        let (main, spare) = (Redis::start().await.unwrap(), Redis::start().await.unwrap());
        let cable = Cable::start(main.address()).await.unwrap();
        let one = Agent::start(&config(cable.address(), spare.address())).await.unwrap();
        let other = Agent::start(&config(main.address(), spare.address())).await.unwrap();
        let rules = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(rules.path(), sped_up_rules()).unwrap();
        let target = |agent: &Agent| Target {
            job: "lockwatch".to_owned(),
            address: agent.address(),
            labels: Labels::new(),
        };
        let setup = PrometheusSetup {
            rules: vec![rules.path().to_owned()],
            targets: vec![target(&one), target(&other)],
            job_fields: Vec::new(),
            scrape_interval: STEP,
            evaluation_interval: STEP,
            alertmanager: None,
        };
        let prometheus = Prometheus::start(&setup).await.unwrap();
        let scenario = Self { main, spare, cable, agents: [one, other], prometheus, _rules: rules };
        scenario.seen("lockwatch_task_clear").await;
        scenario
    }

    /// Plays every situation that a task can be in, ordered so that none hides another. At the end
    /// both tasks run.
    async fn play(&mut self) -> Worker {
        let mut redis = self.main.connect().await.unwrap();
        self.write_keys().await;
        self.hold_report().await;
        self.run_nightly().await;
        let mut first = self.worker().await;
        self.name_the_holder("anna's server").await;
        self.seen("lockwatch_lock_lease_seconds == 3").await;
        self.seen("increase(lockwatch_lock_renewals_total[5s]) > 1").await;

        // A crash, and a later takeover.
        first.crash().await.unwrap();
        self.verdict("down").await;
        let mut second = self.worker().await;
        self.name_the_holder("ben's server").await;
        self.seen(
            "lockwatch_task_outage_seconds_count > 0 and lockwatch_task_handover_seconds_count > 0",
        )
        .await;

        second.hang().await.unwrap();
        self.verdict("stalled").await;
        second.work().await.unwrap();
        self.verdict("running").await;

        redis.hset(LOCK, "0a1b2c3d-0000-4000-8000-000000000000:7", 1).await.unwrap();
        self.verdict("split").await;
        redis.hdel(LOCK, "0a1b2c3d-0000-4000-8000-000000000000:7").await.unwrap();
        self.verdict("running").await;

        redis.hset("outbound:users", "anna", 0).await.unwrap();
        self.verdict("unwanted").await;
        redis.hset("outbound:users", "anna", 1).await.unwrap();
        self.verdict("running").await;

        self.cable.set(Weather::Cut);
        self.verdict("unknown").await;
        self.cable.set(Weather::Fair);
        self.spare.kill().await.unwrap();
        self.seen("ALERTS{alertname=\"LockwatchStoreUnreachable\", alertstate=\"firing\"}").await;
        self.spare.start_again(Data::Lost).await.unwrap();
        self.hold_report().await;

        // Frozen, not crashed: a live holder would retake the lock before the agents see it free.
        second.freeze().await.unwrap();
        redis::cmd("FLUSHALL").exec_async(&mut redis).await.unwrap();
        self.seen("increase(lockwatch_lock_lost_total[5s]) > 0").await;
        self.seen("lockwatch:problem_seconds{problem=\"switches_lost\"}").await;
        second.thaw().await.unwrap();
        self.write_keys().await;
        self.name_the_holder("ben's server").await;

        self.agents[1].restart().await.unwrap();
        self.seen("changes(process_start_time_seconds[5s]) > 0").await;
        assert_eq!(self.agents[0].reload().await.unwrap().status, 200);
        self.agents[1].configure("tasks: []").unwrap();
        assert_eq!(self.agents[1].reload().await.unwrap().status, 500);
        self.seen("ALERTS{alertname=\"LockwatchConfigReloadFailed\", alertstate=\"firing\"}").await;
        // Both agents have seen enough renewals again, and the rules have seen both tasks.
        self.seen("count(lockwatch_lock_lease_seconds{task=\"outbound\"}) == 2").await;
        self.seen("count(task:lockwatch_task_availability:ratio30d) == 2").await;
        self.verdict("running").await;
        second
    }

    /// Writes switches, a pause that has ended, and a fencing token.
    async fn write_keys(&self) {
        let mut redis = self.main.connect().await.unwrap();
        redis.hset_multiple("outbound:users", &[("anna", 1), ("ben", 0)]).await.unwrap();
        redis.set("outbound:pause", "1600000000").await.unwrap();
        redis.set("redisson_lock_token:{outbound:lock}", 12).await.unwrap();
    }

    async fn hold_report(&self) {
        let mut redis = self.spare.connect().await.unwrap();
        redis.set_options("report", "token", expiring()).await.unwrap();
    }

    /// A whole run of the periodic task, which every agent sees.
    async fn run_nightly(&self) {
        let mut redis = self.main.connect().await.unwrap();
        redis.set_options("nightly", "web-1", expiring()).await.unwrap();
        self.seen("count(lockwatch_task_run_due_timestamp_seconds) == 2").await;
        redis.del("nightly").await.unwrap();
        self.seen("count(lockwatch_task_last_run_duration_seconds) == 2").await;
    }

    /// A worker that holds the lock.
    async fn worker(&self) -> Worker {
        let setup = WorkerSetup {
            redis: self.main.address(),
            lock: LOCK.to_owned(),
            lease: Duration::from_secs(3),
            progress: Some("outbound:stats".to_owned()),
            claims: Some("outbound:claims".to_owned()),
            after_loss: Lost::GiveUp,
        };
        let mut worker = Worker::start(&setup).await.unwrap();
        worker.contend().await.unwrap();
        worker.holds().await.unwrap();
        worker
    }

    /// Records the host of the present holder, as workers do.
    async fn name_the_holder(&self, host: &str) {
        let mut redis = self.main.connect().await.unwrap();
        until(PATIENCE, "somebody holds the lock", async || {
            redis.clone().exists(LOCK).await.unwrap()
        })
        .await
        .unwrap();
        let holders = redis.hkeys(LOCK).await.unwrap();
        let (instance, _thread) = holders[0].rsplit_once(':').unwrap();
        redis.hset("hosts", instance, host).await.unwrap();
        self.seen(&format!("lockwatch_lock_holder{{holder_host=\"{host}\"}}")).await;
    }

    async fn verdict(&self, verdict: &str) {
        self.seen(&format!("lockwatch_task_state_rank{{task=\"outbound\", state=\"{verdict}\"}}"))
            .await;
    }

    /// Waits until an expression has a value.
    async fn seen(&self, promql: &str) {
        let has_value =
            async || self.prometheus.query(promql).await.is_ok_and(|found| !found.is_empty());
        until(PATIENCE, promql, has_value).await.unwrap();
    }
}

fn expiring() -> redis::SetOptions {
    redis::SetOptions::default().with_expiration(redis::SetExpiry::EX(3600))
}

fn config(main: SocketAddr, spare: SocketAddr) -> String {
    format!(
        r#"
links: {{grafana: "https://grafana.example", lockwatch: "https://lockwatch.example"}}
redis:
  main: {{url: "redis://{main}", interval: 200ms, timeout: 1s}}
  spare: {{url: "redis://{spare}", interval: 200ms, timeout: 1s}}
tasks:
  - name: outbound
    # Of the other task every panel must be well with the default.
    metrics: full
    redis: main
    lock: {{key: "{LOCK}"}}
    wanted: {{hash: "outbound:users"}}
    grace: 1s
    settle: 1s
    wind_down: 1s
    blind_after: 3s
    paused_until: {{key: "outbound:pause"}}
    progress: {{hash: "outbound:stats", field: at, stale_after: 3s}}
    claims: {{hash: "outbound:claims"}}
    hosts: {{hash: "hosts"}}
    max_hold: 12h
  - name: report
    redis: spare
    lock: {{key: report, library: string}}
    wanted: always
    grace: 1s
    settle: 1s
    blind_after: 3s
  - name: nightly
    redis: main
    lock: {{key: nightly, library: string}}
    runs: {{every: 1h, late_after: 10m}}
    settle: 1s
    blind_after: 3s
"#
    )
}

/// The project's rules with shortened times. The availability rules, which need hours, use 5
/// seconds in place of 5 minutes.
fn sped_up_rules() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../alerts/lockwatch.rules.yml");
    let rules = std::fs::read_to_string(file).unwrap();
    let (alerts, availability) = rules.split_once("- name: lockwatch.availability").unwrap();
    let mut availability = availability.to_owned();
    let faster = [
        ("interval: 5m", "interval: 1s"),
        ("[5m]", "[5s]"),
        ("offset 5m", "offset 5s"),
        ("[59m]", "[1m]"),
        ("[23h59m]", "[5m]"),
        ("[30d:1h]", "[5m:1s]"),
    ];
    for (slow, fast) in faster {
        assert!(availability.contains(slow), "the rules have no {slow}");
        availability = availability.replace(slow, fast);
    }
    format!("{alerts}- name: lockwatch.availability{availability}")
}

/// Whether a query may have no series here, since nothing in the scenario exports its metrics.
fn may_be_empty(query: &Query) -> bool {
    OF_SEVERAL_SERVERS.iter().chain(OF_OTHER_KINDS).any(|name| query.expr.contains(name))
}

async fn complaints_about(board: &Board, prometheus: &Prometheus, span: (f64, f64)) -> Vec<String> {
    let mut complaints = Vec::new();
    for panel in board.panels() {
        let mut answers = Vec::new();
        for query in queries_of(panel) {
            let place = format!("{}, {}", query.panel, query.letter);
            // Not every problem is there at the end.
            let instant = query.instant && !query.expr.contains("lockwatch:problem_seconds");
            match ask(prometheus, &query.expr, instant, span).await {
                Ok(series) if series.is_empty() && may_be_empty(&query) => {}
                Ok(series) => answers.push(Answer { query, series }),
                Err(error) => complaints.push(format!("{place}: {error:#}")),
            }
        }
        complaints
            .extend(answers.iter().flat_map(|answer| about_answer(board.uid(), panel, answer)));
        if panel["type"] == "table" {
            let ever = labels_ever(prometheus, panel, span).await;
            complaints.extend(about_table(panel, &answers, &ever));
        }
    }
    for annotation in board.annotations() {
        let name = string(annotation, "name");
        let series = ask(prometheus, string(annotation, "expr"), false, span).await.unwrap();
        if series.is_empty() {
            complaints.push(format!("annotation {name}: nothing"));
        }
        let texts = ["titleFormat", "textFormat"]
            .map(|field| labels_in(string(annotation, field)))
            .concat();
        complaints.extend(
            missing_labels(&series, &texts)
                .map(|label| format!("annotation {name}: no label {label}")),
        );
    }
    for variable in board.variables() {
        let Some((selector, label)) = label_values(variable) else { continue };
        let found = prometheus.series(&replaced(selector)).await.unwrap();
        let values: BTreeSet<_> = found.iter().filter_map(|series| series.get(label)).collect();
        // A task belongs to one store, there is one job, and nobody names a site.
        let expected = match label {
            label if OF_SITES.contains(&label) => 0,
            "runbooks" => 1,
            "job" => 1,
            "task" => 3,
            "store" if board.uid() == "lockwatch-task" => 1,
            _ => 2,
        };
        if values.len() != expected {
            complaints.push(format!("variable {label}: {values:?}"));
        }
    }
    complaints
}

/// All series with their values: over the whole span, or at its end.
async fn ask(
    prometheus: &Prometheus,
    expr: &str,
    instant: bool,
    span: (f64, f64),
) -> anyhow::Result<Vec<(Labels, Vec<f64>)>> {
    let expr = replaced(expr);
    if instant {
        return Ok(prometheus
            .query(&expr)
            .await?
            .into_iter()
            .map(|(labels, value)| (labels, vec![value]))
            .collect());
    }
    let found = prometheus.query_range(&expr, span, STEP).await?;
    let values = |samples: Vec<(f64, f64)>| samples.into_iter().map(|(_, value)| value).collect();
    Ok(found.into_iter().map(|(labels, samples)| (labels, values(samples))).collect())
}

/// The expression as Grafana would send it. Variables with multiple values become patterns.
fn replaced(expr: &str) -> String {
    let expr = expr.replace("$__rate_interval", "5s").replace("$__range", "5m");
    let expr = expr.replace("=~\"$job\"", "=~\"lockwatch\"");
    let is_of_runs = OF_RUNS.iter().any(|name| expr.contains(name));
    let task = if is_of_runs { "=\"nightly\"" } else { "=\"outbound\"" };
    let expr = expr.replace("=\"$task\"", task);
    let expr = expr.replace("=\"$store\"", "=\"main\"");
    let expr = ["task", "store", "instance"]
        .into_iter()
        .fold(expr, |expr, name| expr.replace(&format!("${name}"), ".+"));
    // The site is that of Prometheus here, so that no series has it.
    let expr = expr.replace("$cluster", ".*").replace("$namespace", ".*");
    assert!(!expr.contains('$'), "{expr}");
    expr
}

fn about_answer(uid: &str, panel: &Value, answer: &Answer) -> Vec<String> {
    let (query, series) = (&answer.query, &answer.series);
    let place = format!("{}, {}", query.panel, query.letter);
    let expected =
        SERIES.iter().find(|row| (row.0, row.1, row.2) == (uid, &query.panel, &query.letter));
    let expected = expected.map_or(1, |row| row.3);
    let mut complaints = Vec::new();
    if series.len() < expected {
        complaints.push(format!(
            "{place}: {} series and not {expected}: {}: {series:?}",
            series.len(),
            query.expr
        ));
    }
    let named = labels_in(&query.legend);
    complaints
        .extend(missing_labels(series, &named).map(|label| format!("{place}: no label {label}")));
    let texts = texts_of(panel, &query.letter);
    let values: BTreeSet<String> =
        series.iter().flat_map(|(_, values)| values).map(f64::to_string).collect();
    if !texts.is_empty() {
        let odd = values.iter().filter(|value| !texts.contains_key(*value));
        complaints.extend(odd.map(|value| format!("{place}: {value} has no words")));
    }
    if values.iter().all(|value| value == "NaN") && !values.is_empty() {
        complaints.push(format!("{place}: no number at all"));
    }
    complaints
}

/// The labels that no series has. An empty label, such as an unknown host, counts as missing.
fn missing_labels<'a>(
    series: &'a [(Labels, Vec<f64>)],
    labels: &'a [&str],
) -> impl Iterator<Item = &'a str> {
    let is_missing = |label: &&str| {
        !OF_SITES.contains(label) && !series.iter().any(|(labels, _)| labels.contains_key(*label))
    };
    labels.iter().copied().filter(is_missing)
}

/// The labels that a table's queries had at any instant. Not every kind of alert fires at the end.
async fn labels_ever(prometheus: &Prometheus, panel: &Value, span: (f64, f64)) -> BTreeSet<String> {
    let mut labels = BTreeSet::new();
    for query in queries_of(panel) {
        let series = ask(prometheus, &query.expr, false, span).await.unwrap_or_default();
        labels.extend(series.into_iter().flat_map(|(labels, _)| labels.into_keys()));
    }
    labels
}

/// Checks that the columns exist, and that each query adds at most one row per common label set.
fn about_table(panel: &Value, answers: &[Answer], ever: &BTreeSet<String>) -> Vec<String> {
    let title = string(panel, "title");
    let labels_of = |answer: &Answer| -> BTreeSet<String> {
        answer.series.iter().flat_map(|(labels, _)| labels.keys().cloned()).collect()
    };
    let all: Vec<BTreeSet<String>> = answers.iter().map(labels_of).collect();
    let shown = columns(panel)
        .into_iter()
        .filter(|column| !column.starts_with("Value") && !OF_SITES.contains(column));
    let absent = shown.filter(|column| {
        !ever.contains(*column) && !all.iter().any(|labels| labels.contains(*column))
    });
    let mut complaints: Vec<String> =
        absent.map(|column| format!("{title}: no label {column}")).collect();
    let common = all.iter().cloned().reduce(|one, other| &one & &other).unwrap_or_default();
    for answer in answers {
        let mut rows: BTreeMap<Vec<Option<&String>>, usize> = BTreeMap::new();
        for (labels, _) in &answer.series {
            *rows.entry(common.iter().map(|label| labels.get(label)).collect()).or_default() += 1;
        }
        let twice = rows.into_iter().filter(|(_, count)| *count > 1);
        complaints.extend(twice.map(|(row, _)| {
            format!("{title}, {}: more than one row for {row:?}", answer.query.letter)
        }));
    }
    complaints
}

fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}
