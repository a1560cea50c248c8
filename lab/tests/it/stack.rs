//! The guarantees of the stack that other tests and benches rely on.

use std::io::Write as _;
use std::time::Duration;

use lockwatch_lab::stack::{
    Agent, Alertmanager, Cable, Data, Labels, LossyScrapes, Lost, Prometheus, PrometheusSetup,
    Receiver, Redis, Signal, Status, Target, Weather, Worker, WorkerSetup, get, until,
};
use redis::AsyncTypedCommands;

const PATIENCE: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(3);

fn worker_of(redis: &Redis) -> WorkerSetup {
    WorkerSetup {
        redis: redis.address(),
        lock: "outbound:lock".to_owned(),
        lease: LEASE,
        progress: Some("outbound:stats".to_owned()),
        claims: Some("outbound:claims".to_owned()),
        after_loss: Lost::GiveUp,
    }
}

/// A configuration that watches the lock through `address`.
fn config(address: std::net::SocketAddr) -> String {
    format!(
        "redis: {{main: {{url: \"redis://{address}\", interval: 200ms, timeout: 1s}}}}\n\
         tasks:\n  - name: outbound\n    lock: {{key: \"outbound:lock\"}}\n    \
         wanted: always\n    grace: 1s\n    settle: 1s\n    blind_after: 4s\n    claims: {{hash: \
         \"outbound:claims\"}}\n    progress: {{hash: \"outbound:stats\", field: at}}\n"
    )
}

async fn shows(agent: &Agent, line: &str) -> bool {
    agent.metrics().await.is_ok_and(|page| page.lines().any(|shown| shown.starts_with(line)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_reaches_the_receiver_through_the_whole_chain_and_its_end_too() {
    let redis = Redis::start().await.unwrap();
    let mut worker = Worker::start(&worker_of(&redis)).await.unwrap();
    worker.contend().await.unwrap();
    worker.holds().await.unwrap();
    let agent = Agent::start(&config(redis.address())).await.unwrap();
    let receiver = Receiver::start().await.unwrap();
    let routes = format!(
        "route: {{receiver: pager, group_by: ['...'], group_wait: 0s, group_interval: 1s}}\n\
         receivers: [{{name: pager, webhook_configs: [{{url: \"{}page\"}}]}}]\n",
        receiver.url()
    );
    let mut alertmanager = Alertmanager::start(&routes).await.unwrap();
    let mut rules = tempfile::NamedTempFile::new().unwrap();
    let down = "lockwatch_task_problem_seconds{problem='down'}";
    // A series that ends while Prometheus is away is there for five minutes more, unlike a value.
    let expr = format!("{down} > 1 unless ignoring (problem) lockwatch_task_clear == 1");
    let rule = format!(
        "{{alert: Down, expr: \"{expr}\", labels: {{severity: critical}}, annotations: \
         {{summary: gone}}}}"
    );
    writeln!(rules, "groups: [{{name: trial, rules: [{rule}]}}]").unwrap();
    let setup = PrometheusSetup {
        rules: vec![rules.path().to_owned()],
        targets: vec![Target {
            job: "lockwatch".to_owned(),
            address: agent.address(),
            labels: Labels::new(),
        }],
        job_fields: Vec::new(),
        scrape_interval: Duration::from_secs(1),
        evaluation_interval: Duration::from_secs(1),
        alertmanager: Some(alertmanager.address()),
    };
    let mut prometheus = Prometheus::start(&setup).await.unwrap();

    worker.crash().await.unwrap();
    until(PATIENCE, "the page comes", async || !receiver.notifications().is_empty()).await.unwrap();
    let page = receiver.notifications().remove(0);
    assert_eq!((page.status, page.path.as_str()), (Status::Firing, "/page"), "{page:?}");
    assert_eq!(page.alerts[0].labels["task"], "outbound");
    assert_eq!(page.alerts[0].annotations["summary"], "gone");

    // A restart neither forgets a notification nor repeats it.
    alertmanager.stop().await.unwrap();
    alertmanager.start_again().await.unwrap();
    prometheus.stop().await.unwrap();
    prometheus.start_again().await.unwrap();
    let firing = async || prometheus.query("ALERTS{alertname=\"Down\"}").await.unwrap();
    until(PATIENCE, "it fires again", async || {
        firing().await.iter().any(|(_, value)| *value == 1.0)
    })
    .await
    .unwrap();
    assert_eq!(receiver.notifications().len(), 1);

    let mut next = Worker::start(&worker_of(&redis)).await.unwrap();
    next.contend().await.unwrap();
    until(PATIENCE, "the end is notified", async || receiver.notifications().len() > 1)
        .await
        .unwrap();
    assert_eq!(receiver.notifications()[1].status, Status::Resolved);
    let held = prometheus.series("lockwatch_lock_held{job=\"lockwatch\"}").await.unwrap();
    assert_eq!(held.len(), 1, "{held:?}");
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let lines =
        prometheus.query_range(down, (now - 30.0, now), Duration::from_secs(1)).await.unwrap();
    assert!(lines[0].1.iter().any(|(_, value)| *value > 1.0), "{lines:?}");
    let refused = prometheus.query("up{").await.unwrap_err().to_string();
    assert!(refused.contains("400"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_do_the_harm_they_are_ordered_to() {
    let redis = Redis::start().await.unwrap();
    let mut data = redis.connect().await.unwrap();
    let mut worker = Worker::start(&worker_of(&redis)).await.unwrap();
    let mut other = Worker::start(&worker_of(&redis)).await.unwrap();
    worker.contend().await.unwrap();
    worker.holds().await.unwrap();
    other.contend().await.unwrap();

    let progress = async |data: &mut redis::aio::MultiplexedConnection| {
        data.hget("outbound:stats", "at").await.unwrap()
    };
    let claims = async |data: &mut redis::aio::MultiplexedConnection| {
        data.hvals("outbound:claims").await.unwrap()
    };
    let before = progress(&mut data.clone()).await;
    until(PATIENCE, "it works", async || progress(&mut data.clone()).await != before)
        .await
        .unwrap();
    worker.hang().await.unwrap();
    let (stuck, claimed) = (progress(&mut data).await, claims(&mut data).await);
    until(PATIENCE, "it claims on", async || claims(&mut data.clone()).await != claimed)
        .await
        .unwrap();
    let ttl_ms = async |mut data: redis::aio::MultiplexedConnection| -> i64 {
        redis::cmd("PTTL").arg("outbound:lock").query_async(&mut data).await.unwrap()
    };
    until(PATIENCE, "it renews on", async || ttl_ms(data.clone()).await > 2900).await.unwrap();
    let later = progress(&mut data).await;
    // One write may have been in flight.
    assert!(later == stuck || { progress(&mut data).await == later }, "it hangs");
    worker.work().await.unwrap();
    until(PATIENCE, "it works again", async || progress(&mut data.clone()).await != later)
        .await
        .unwrap();

    worker.stop_renewing().await.unwrap();
    other.holds().await.unwrap();
    until(PATIENCE, "both claim", async || claims(&mut data.clone()).await.len() == 2)
        .await
        .unwrap();
    other.release().await.unwrap();
    worker.release().await.unwrap();
    assert!(!data.exists("outbound:lock").await.unwrap());
    assert!(claims(&mut data).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_has_its_data_or_has_not() {
    let mut redis = Redis::start().await.unwrap();
    let address = redis.address();
    redis.connect().await.unwrap().set("outbound:switch", "on").await.unwrap();
    redis.restart(Data::Kept).await.unwrap();
    assert_eq!(
        redis.connect().await.unwrap().get("outbound:switch").await.unwrap().as_deref(),
        Some("on")
    );
    let mut worker = Worker::start(&worker_of(&redis)).await.unwrap();
    worker.contend().await.unwrap();
    worker.holds().await.unwrap();
    redis.restart(Data::Lost).await.unwrap();
    assert_eq!(redis.address(), address);
    assert!(!redis.connect().await.unwrap().exists("outbound:switch").await.unwrap());
    worker.loses().await.unwrap();
    worker.holds().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faulty_networks_are_faulty_and_heal() {
    let redis = Redis::start().await.unwrap();
    let clock = Cable::start(redis.address()).await.unwrap();
    let link = Cable::start(clock.address()).await.unwrap();
    let mut agent = Agent::start(&config(link.address())).await.unwrap();
    until(PATIENCE, "it sees", async || shows(&agent, "lockwatch_lock_held").await).await.unwrap();
    for traffic in [Weather::Cut, Weather::Hang] {
        link.set(traffic);
        until(PATIENCE, "it is blind", async || !shows(&agent, "lockwatch_lock_held").await)
            .await
            .unwrap();
        link.set(Weather::Fair);
        until(PATIENCE, "it sees again", async || shows(&agent, "lockwatch_lock_held").await)
            .await
            .unwrap();
    }
    clock.set(Weather::ClockAhead(120));
    let address = link.address();
    let offset =
        format!("lockwatch_store_clock_offset_seconds{{store=\"main\",server=\"{address}\"}} 1");
    until(PATIENCE, "the clock steps", async || shows(&agent, &offset).await).await.unwrap();

    let scrapes = LossyScrapes::start(agent.address(), 0.5, 7).await.unwrap();
    let mut arrived = 0;
    for _ in 0..100 {
        arrived += usize::from(
            get(scrapes.address(), "/metrics").await.is_ok_and(|answer| answer.status == 200),
        );
    }
    assert!((30..70).contains(&arrived), "{arrived} of 100 arrived");
    scrapes.set_share(0.0);
    assert_eq!(get(scrapes.address(), "/metrics").await.unwrap().status, 200);

    agent.configure("tasks: []").unwrap();
    assert_eq!(agent.reload().await.unwrap().status, 500);
    agent.configure(&config(link.address()).replace("outbound\n", "renamed\n")).unwrap();
    agent.signal(Signal::Hangup).await.unwrap();
    until(PATIENCE, "the new name", async || {
        shows(&agent, "lockwatch_lock_held{task=\"renamed\"").await
    })
    .await
    .unwrap();
    agent.restart().await.unwrap();
    agent.kill().await.unwrap();
    assert!(agent.metrics().await.is_err());
}
