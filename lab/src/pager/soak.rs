//! Watches memory and open files of an agent with many tasks and many clients. Growth is the slope
//! of a straight line through the samples after the warm-up.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use redis::pipe;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::plan::TaskPlan;
use super::scene::Scene;
use crate::numbers::line;
use crate::stack::{Footprint, footprint};
use crate::visitor::{Regular, Visitor};

/// The Redis of the additional tasks.
const REDIS: &str = "crowd";
const TASKS: usize = 900;
/// Number of rounds that fill the event history first, as it would fill within days. The history
/// keeps 20,000 events.
const ROUNDS: usize = 13;
/// Duration of a round: longer than the agent's interval, so that each round is seen.
const ROUND: Duration = Duration::from_millis(1_500);
/// Interval of the samples. It is not in step with sweeps and scrapes, each of which needs some MB
/// for a moment: samples in step with them would show a slow wave instead of a fast one.
const SAMPLE_EVERY: Duration = Duration::from_millis(870);
/// Share of the time that is not judged, because caches fill.
const WARM_UP: f64 = 0.2;
const MB: f64 = 1e6;
/// Maximum growth per hour: of memory in MB, and of open files.
const GROWTH_MAX: f64 = 1.0;
/// Less time says nothing of an hour: connections and caches come and go.
const JUDGED_FROM_HOURS: f64 = 0.5;
const SCRAPERS: usize = 2;
const SCRAPE_EVERY: Duration = Duration::from_secs(5);
/// Number of open pages, and how long each stays open.
const PAGES: usize = 20;
const PAGE_STAYS: Duration = Duration::from_secs(97);
const PERSON_EVERY: Duration = Duration::from_secs(7);
/// Timeout of the clients: longer than any mild fault.
const PATIENCE: Duration = Duration::from_secs(20);

/// The additional tasks, which no fault affects.
pub(super) fn crowd() -> Vec<TaskPlan> {
    let task = |at| TaskPlan::new(format!("crowd-{at}")).on(REDIS).without_switches();
    (0..TASKS).map(task).collect()
}

/// Hands each of their locks over repeatedly until the oldest events are dropped.
pub(super) async fn fill_history(scene: &Scene) -> anyhow::Result<()> {
    let mut connection = scene.redis(REDIS).await?.connect().await?;
    for round in 0..ROUNDS {
        let mut commands = pipe();
        for plan in crowd() {
            commands.atomic().del(plan.lock()).ignore();
            commands.hset(plan.lock(), format!("worker-{}:1", round % 2), 1).ignore();
            commands.expire(plan.lock(), 36_000).ignore();
        }
        commands.exec_async(&mut connection).await?;
        sleep(ROUND).await;
    }
    let mut commands = pipe();
    crowd().iter().for_each(|plan| {
        commands.del(plan.lock()).ignore();
    });
    Ok(commands.exec_async(&mut connection).await?)
}

/// The samples of the first agent, and its clients, which run until this is dropped.
pub(super) struct Watched {
    began: Instant,
    sampling: JoinHandle<()>,
    samples: Arc<std::sync::Mutex<Vec<(f64, Footprint)>>>,
    _clients: JoinSet<()>,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    asked: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    fn count(&self, outcome: anyhow::Result<u16>) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if !matches!(outcome, Ok(200)) {
            eprintln!("soak: a request failed: {outcome:?}");
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Watched {
    pub(super) async fn start(scene: &Scene) -> anyhow::Result<Watched> {
        let agent = scene.agent(0).await?;
        let id = agent.id().context("the agent does not run")?;
        let tally = Arc::<Tally>::default();
        let clients = clients(agent.address(), &tally);
        let (began, samples) = (Instant::now(), Arc::<std::sync::Mutex<Vec<_>>>::default());
        let taken = Arc::clone(&samples);
        let sampling = tokio::spawn(async move {
            loop {
                if let (Some(sample), Ok(mut taken)) = (footprint(id), taken.lock()) {
                    taken.push((began.elapsed().as_secs_f64() / 3600.0, sample));
                }
                sleep(SAMPLE_EVERY).await;
            }
        });
        Ok(Watched { began, sampling, samples, _clients: clients, tally })
    }

    /// Ends it, and says whether anything grew.
    pub(super) fn judge(self, scene: &Scene) -> anyhow::Result<()> {
        self.sampling.abort();
        let hours = self.began.elapsed().as_secs_f64() / 3600.0;
        let samples = self.samples.lock().map(|samples| samples.clone()).unwrap_or_default();
        let judged: Vec<_> = samples.iter().filter(|(at, _)| *at >= hours * WARM_UP).collect();
        for (what, unit, value) in [
            ("resident memory", "MB", (|it| it.rss_bytes as f64 / MB) as fn(&Footprint) -> f64),
            ("the same in proportion (Pss)", "MB", |it| it.pss_bytes as f64 / MB),
            ("open files", "files", |it| it.files as f64),
        ] {
            let points: Vec<(f64, f64)> = judged.iter().map(|(at, it)| (*at, value(it))).collect();
            let (slope, mean) = line(&points).context("too few samples")?;
            scene.promise(
                slope <= GROWTH_MAX || hours < JUDGED_FROM_HOURS,
                format!("{what}: {mean:.1} {unit} on average, {slope:+.2} per hour"),
            );
        }
        let (asked, failed) =
            (self.tally.asked.load(Ordering::Relaxed), self.tally.failed.load(Ordering::Relaxed));
        scene.promise(failed == 0, format!("{failed} of {asked} requests were not answered"));
        Ok(())
    }
}

/// Scrapers, open pages, and a person with a few programs.
fn clients(agent: SocketAddr, tally: &Arc<Tally>) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    let visitor = Visitor::new(agent, IpAddr::V4(Ipv4Addr::LOCALHOST), PATIENCE);
    for _ in 0..SCRAPERS {
        clients.spawn(scrape(Regular::new(visitor), Arc::clone(tally)));
    }
    for _ in 0..PAGES {
        clients.spawn(look(visitor, Arc::clone(tally)));
    }
    clients.spawn(wander(visitor, Arc::clone(tally)));
    clients
}

async fn scrape(mut scraper: Regular, tally: Arc<Tally>) {
    let mut turn = interval(SCRAPE_EVERY);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        let page = scraper.get("/metrics", "Accept-Encoding: gzip\r\n").await;
        tally.count(page.map(|answer| answer.status));
    }
}

/// Opens a page, listens for [`PAGE_STAYS`], and opens it again.
async fn look(visitor: Visitor, tally: Arc<Tally>) {
    sleep(PAGE_STAYS.mul_f64(fastrand::f64())).await;
    loop {
        tally.count(visitor.get("/", "").await.map(|answer| answer.status));
        let listened = async {
            let mut stream = visitor.connect().await?;
            stream.write_all(b"GET /live HTTP/1.1\r\nHost: agent\r\n\r\n").await?;
            let mut buffer = vec![0; 64 << 10];
            while stream.read(&mut buffer).await? > 0 {}
            anyhow::bail!("the page's stream ended")
        };
        // Anything but the timeout is a failure.
        if let Ok(ended) = timeout(PAGE_STAYS, listened).await {
            tally.count(ended);
            sleep(SCRAPE_EVERY).await;
        }
    }
}

async fn wander(visitor: Visitor, tally: Arc<Tally>) {
    loop {
        sleep(PERSON_EVERY).await;
        let task = format!("crowd-{}", fastrand::usize(..TASKS));
        let paths = [
            format!("/tasks/{task}"),
            "/api/v1/tasks".to_owned(),
            format!("/api/v1/tasks/{task}"),
            format!("/api/v1/tasks/{task}/explain"),
            "/api/v1/events?limit=1000".to_owned(),
            format!("/badge/{task}.svg"),
        ];
        for path in paths {
            tally.count(visitor.get(&path, "").await.map(|answer| answer.status));
        }
    }
}
