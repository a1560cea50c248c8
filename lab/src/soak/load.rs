//! The clients of the agent during the soak: scrapers, open pages, people and programs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::page::Crowd;
use crate::visitor::{Regular, Visitor};

/// Number of simulated Prometheus servers, which scrape more often than most.
const SCRAPERS: usize = 2;
const SCRAPE_EVERY: Duration = Duration::from_secs(5);
const SCRAPED: &str = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2\r\n\
                       Accept-Encoding: gzip\r\n";
/// Number of open pages.
const PAGES: usize = 20;
/// How long a page stays open.
const PAGE_STAYS: Duration = Duration::from_secs(97);
const PERSON_EVERY: Duration = Duration::from_secs(7);
/// Timeout of the clients: longer than any mild fault.
const PATIENCE: Duration = Duration::from_secs(20);

/// The clients; they run until dropped.
#[derive(Debug)]
pub(super) struct Load {
    _asking: JoinSet<()>,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    asked: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    fn count(&self, what: &str, outcome: anyhow::Result<u16>) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(200) => {}
            Ok(status) => self.fail(what, &format!("status {status}")),
            Err(error) => self.fail(what, &format!("{error:#}")),
        }
    }

    fn fail(&self, what: &str, why: &str) {
        self.failed.fetch_add(1, Ordering::Relaxed);
        println!("{what}: {why}");
    }
}

impl Load {
    /// Starts all clients.
    pub(super) fn start(agent: SocketAddr, tasks: usize) -> Load {
        let tally = Arc::<Tally>::default();
        let mut asking = JoinSet::new();
        let visitor = Visitor::new(agent, IpAddr::V4(Ipv4Addr::LOCALHOST), PATIENCE);
        for _ in 0..SCRAPERS {
            asking.spawn(scrape(Regular::new(visitor), Arc::clone(&tally)));
        }
        for _ in 0..PAGES {
            asking.spawn(look(visitor, Arc::clone(&tally)));
        }
        asking.spawn(wander(visitor, tasks, Arc::clone(&tally)));
        Load { _asking: asking, tally }
    }

    /// Number of requests, and of those not answered with 200.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.tally.asked.load(Ordering::Relaxed), self.tally.failed.load(Ordering::Relaxed))
    }
}

async fn scrape(mut scraper: Regular, tally: Arc<Tally>) {
    let mut turn = interval(SCRAPE_EVERY);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        tally.count("a scrape", scraper.get("/metrics", SCRAPED).await.map(|answer| answer.status));
    }
}

/// Opens a page, listens for [`PAGE_STAYS`], and opens it again.
async fn look(visitor: Visitor, tally: Arc<Tally>) {
    sleep(PAGE_STAYS.mul_f64(fastrand::f64())).await;
    loop {
        tally.count("a page", visitor.get("/", "").await.map(|answer| answer.status));
        let listened = async {
            let mut stream = visitor.connect().await?;
            stream.write_all(b"GET /live HTTP/1.1\r\nHost: agent\r\n\r\n").await?;
            let mut buffer = vec![0; 64 << 10];
            while stream.read(&mut buffer).await? > 0 {}
            anyhow::Ok(())
        };
        // Anything but the timeout is a failure.
        if let Ok(ended) = timeout(PAGE_STAYS, listened).await {
            tally.fail(
                "an open page",
                &ended.map_or_else(|error| error.to_string(), |()| String::from("it ended")),
            );
            sleep(SCRAPE_EVERY).await;
        }
    }
}

/// A person and a few programs.
async fn wander(visitor: Visitor, tasks: usize, tally: Arc<Tally>) {
    let mut turn = interval(PERSON_EVERY);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        turn.tick().await;
        let task = Crowd::name(fastrand::usize(..tasks.max(1)));
        let paths = [
            format!("/tasks/{task}"),
            String::from("/api/v1/tasks"),
            format!("/api/v1/tasks/{task}"),
            format!("/api/v1/tasks/{task}/explain"),
            String::from("/api/v1/events?limit=1000"),
            format!("/badge/{task}.svg"),
            String::from("/metrics"),
        ];
        for path in paths {
            tally.count(&path, visitor.get(&path, "").await.map(|answer| answer.status));
        }
    }
}
