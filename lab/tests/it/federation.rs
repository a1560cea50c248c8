//! Real Prometheus servers that see several sites, or agents by way of another Prometheus.

use std::path::PathBuf;
use std::time::Duration;

use lockwatch_lab::stack::{Agent, Labels, Prometheus, PrometheusSetup, Redis, Target, get, until};
use redis::AsyncTypedCommands;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_secs(1);
/// Longer than Prometheus shows a series that ended without a mark: five minutes, which cannot be
/// configured for rules.
const AWAY: Duration = Duration::from_secs(5 * 60 + 30);
/// Set, the test takes as long as it needs for that; otherwise for what comes first.
const LONG: &str = "LOCKWATCH_LONG";
const AWAY_BRIEFLY: Duration = Duration::from_secs(20);
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../alerts/lockwatch.rules.yml");
const JOB: &str = "lockwatch";
/// What is federated: with the agent's `up`, and without it.
const BY_JOB: &str = "{job=\"lockwatch\"}";
const BY_NAME: &str = "{__name__=~\"lockwatch_.*\"}";
const DOWN: &str = "ALERTS{alertname=\"LockwatchTaskDown\"}";

/// Federated series end without a mark, so what an agent said last stays readable for five minutes
/// after it is gone; none of it is evidence. Two tasks were down for a while, and are held when
/// their agent is stopped. Nothing of that while is alerted again, by whichever series Prometheus
/// is federated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_away_is_no_evidence_where_series_end_without_a_mark() {
    let redis = Redis::start().await.unwrap();
    let mut agent = Agent::start(&config(&redis)).await.unwrap();
    let target = Target { job: JOB.to_owned(), address: agent.address(), labels: Labels::new() };
    let scraping = Prometheus::start(&setup(vec![target], Vec::new())).await.unwrap();
    let federating = [
        Prometheus::start(&federation(&scraping, BY_JOB)).await.unwrap(),
        Prometheus::start(&federation(&scraping, BY_NAME)).await.unwrap(),
    ];

    let mut client = redis.connect().await.unwrap();
    for prometheus in &federating {
        fires(prometheus, 2).await;
    }
    client.set("inbound:lock", "worker-1").await.unwrap();
    client.hset("outbound:lock", "6e1f3a52-90f4-4d0e-8d2a-0d4f3c1b2a00:57", "1").await.unwrap();
    for prometheus in &federating {
        fires(prometheus, 0).await;
        let lost = counted(prometheus, "sum(lockwatch_task_time_seconds_total{of=\"down\"})").await;
        assert!(lost > 0.0, "the time without a holder is counted");
    }

    let held = std::time::SystemTime::now();
    agent.kill().await.unwrap();
    let away = if std::env::var_os(LONG).is_some() { AWAY } else { AWAY_BRIEFLY };
    tokio::time::sleep(away).await;
    agent.start_again().await.unwrap();
    for prometheus in &federating {
        until(PATIENCE, "the agent is seen again", async || {
            counted(prometheus, "instance:lockwatch_up == 1").await == 1.0
        })
        .await
        .unwrap();
        let since = held.elapsed().unwrap().as_secs();
        let again = format!("count_over_time({DOWN}[{since}s])");
        assert_eq!(prometheus.query(&again).await.unwrap(), [], "in {since} s");
    }
}

/// Two sites have jobs, agents, stores and tasks of the same names. At one of them the task goes
/// down, and then its agent dies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_alert_is_of_its_own_site_and_names_its_own_holder() {
    const HOLDERS: [&str; 2] =
        ["aaaaaaaa-90f4-4d0e-8d2a-0d4f3c1b2a00", "bbbbbbbb-90f4-4d0e-8d2a-0d4f3c1b2a00"];
    let sites = [Redis::start().await.unwrap(), Redis::start().await.unwrap()];
    let (mut agents, mut targets) = (Vec::new(), Vec::new());
    for ((redis, cluster), holder) in sites.iter().zip(["eu", "us"]).zip(HOLDERS) {
        let mut client = redis.connect().await.unwrap();
        client.hset("outbound:lock", format!("{holder}:57"), "1").await.unwrap();
        client.set("inbound:lock", "worker-1").await.unwrap();
        let agent = Agent::start(&config(redis)).await.unwrap();
        let own = [("cluster", cluster), ("instance", "agent:10379")];
        targets.push(Target {
            job: JOB.to_owned(),
            address: agent.address(),
            labels: own.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        });
        agents.push(agent);
    }
    let setup = PrometheusSetup { targets, ..setup(Vec::new(), Vec::new()) };
    let prometheus = Prometheus::start(&setup).await.unwrap();
    until(PATIENCE, "both holders", async || {
        counted(&prometheus, "count(lockwatch_lock_holder{task=\"outbound\"})").await == 2.0
    })
    .await
    .unwrap();

    let mut client = sites[0].connect().await.unwrap();
    client.del("outbound:lock").await.unwrap();
    let of_eu = |text: &str| text.contains(HOLDERS[0]) && !text.contains(HOLDERS[1]);
    until(PATIENCE, "the alert", async || {
        !texts(&prometheus, "LockwatchTaskDown").await.is_empty()
    })
    .await
    .unwrap();
    agents[0].kill().await.unwrap();
    if std::env::var_os(LONG).is_some() {
        until(AWAY, "the alert about the agent", async || {
            !texts(&prometheus, "LockwatchDown").await.is_empty()
        })
        .await
        .unwrap();
        let down = texts(&prometheus, "LockwatchDown").await;
        assert!(down.len() == 1 && down[0].contains("job lockwatch, eu"), "{down:?}");
    }
    let down = texts(&prometheus, "LockwatchTaskDown").await;
    assert!(down.len() == 1 && of_eu(&down[0]) && down[0].contains("store main, eu"), "{down:?}");
    let of_us = prometheus.query("ALERTS{cluster=\"us\"}").await.unwrap();
    assert_eq!(of_us, [], "nothing is wrong there");
}

/// Summary and description of each alert of this name that fires.
async fn texts(prometheus: &Prometheus, name: &str) -> Vec<String> {
    let answer = get(prometheus.address(), "/api/v1/alerts").await.unwrap().json().unwrap();
    let alerts = answer["data"]["alerts"].as_array().unwrap().clone();
    let fires = |alert: &&Value| alert["labels"]["alertname"] == name && alert["state"] == "firing";
    let texts = |alert: &Value| {
        let annotations = &alert["annotations"];
        format!("{} {}", annotations["summary"], annotations["description"])
    };
    alerts.iter().filter(fires).map(texts).collect()
}

async fn fires(prometheus: &Prometheus, tasks: usize) {
    until(PATIENCE, "the alerts", async || {
        prometheus.query(DOWN).await.is_ok_and(|alerts| alerts.len() == tasks)
    })
    .await
    .unwrap();
}

async fn counted(prometheus: &Prometheus, promql: &str) -> f64 {
    let found = prometheus.query(promql).await.unwrap();
    found.first().map_or(0.0, |(_, value)| *value)
}

fn config(redis: &Redis) -> String {
    let task = |name: &str, library: &str| {
        format!(
            "  - {{name: {name}, lock: {{key: \"{name}:lock\", library: {library}}}, \
             wanted: always, grace: 1s, settle: 1s}}\n"
        )
    };
    format!(
        "redis:\n  main: {{url: \"redis://{}\", interval: 200ms}}\ntasks:\n{}{}",
        redis.address(),
        task("inbound", "string"),
        task("outbound", "redisson")
    )
}

fn setup(targets: Vec<Target>, job_fields: Vec<(&'static str, Value)>) -> PrometheusSetup {
    PrometheusSetup {
        rules: vec![PathBuf::from(RULES)],
        targets,
        job_fields,
        scrape_interval: STEP,
        evaluation_interval: STEP,
        alertmanager: None,
    }
}

/// Scrapes these series from another Prometheus.
fn federation(from: &Prometheus, series: &str) -> PrometheusSetup {
    let target =
        Target { job: "federation".to_owned(), address: from.address(), labels: Labels::new() };
    let fields =
        vec![("metrics_path", json!("/federate")), ("params", json!({"match[]": [series]}))];
    setup(vec![target], fields)
}
