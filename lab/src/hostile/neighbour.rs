//! The clients that must be served during an attack: a scraper that keeps its connection, one that
//! does not, and a person. They run on a thread of their own.

use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use tokio::runtime::Builder;
use tokio::time::{MissedTickBehavior, interval};

use crate::visitor::{Answer, Regular, Visitor};

const SCRAPE_EVERY: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(3);
const PACKED: &str = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2\r\n\
                      Accept-Encoding: gzip\r\n";
const EVIDENCE: &str = "lockwatch_store_last_success_timestamp_seconds";

/// The clients; they run until they are stopped.
#[derive(Debug)]
pub(super) struct Neighbours {
    stop: Arc<AtomicBool>,
    asking: JoinHandle<anyhow::Result<Seen>>,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) scrapes_ms: Vec<f64>,
    pub(super) scrapes_failed: Vec<String>,
    pub(super) pages_ms: Vec<f64>,
    pub(super) pages_failed: usize,
    pub(super) evidence_age_max: f64,
    pub(super) labels: u64,
    pub(super) page_bytes: usize,
}

impl Neighbours {
    /// Starts them; all connect from the address `from` and give up after `patience`.
    pub(super) fn start(
        agent: SocketAddr,
        from: IpAddr,
        patience: Duration,
    ) -> anyhow::Result<Neighbours> {
        let stop = Arc::<AtomicBool>::default();
        let visitor = Visitor::new(agent, from, patience);
        let stopped = Arc::clone(&stop);
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let asking = std::thread::spawn(move || {
            runtime.block_on(async {
                let (regular, once, person) = tokio::join!(
                    scrape_kept(visitor, &stopped),
                    scrape_once(visitor, &stopped),
                    look(visitor, &stopped)
                );
                let mut seen =
                    Seen { pages_ms: person.pages_ms, pages_failed: person.pages_failed, ..once? };
                seen.scrapes_ms.extend(regular.scrapes_ms);
                seen.scrapes_failed.extend(regular.scrapes_failed);
                Ok(seen)
            })
        });
        Ok(Neighbours { stop, asking })
    }

    /// Stops them.
    pub(super) fn stop(self) -> anyhow::Result<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.asking.join().ok().context("the neighbours died")?
    }
}

impl Seen {
    fn scrape(&mut self, how: &str, answer: anyhow::Result<Answer>) -> Option<Answer> {
        match answer {
            Ok(answer) if answer.status == 200 => {
                self.scrapes_ms.push(answer.took.as_secs_f64() * 1e3);
                return Some(answer);
            }
            Ok(answer) => self.scrapes_failed.push(format!("{how}: status {}", answer.status)),
            Err(error) => self.scrapes_failed.push(format!("{how}: {error:#}")),
        }
        None
    }
}

/// A scraper that keeps its connection, as Prometheus does.
async fn scrape_kept(visitor: Visitor, stop: &AtomicBool) -> Seen {
    let (mut seen, mut scraper) = (Seen::default(), Regular::new(visitor));
    let mut turn = interval(SCRAPE_EVERY);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.load(Ordering::Relaxed) {
        turn.tick().await;
        let answer = scraper.get("/metrics", PACKED).await;
        let _only_its_time_matters = seen.scrape("kept connection", answer);
    }
    seen
}

/// A client that connects for each request, as curl does; it also reads the response.
async fn scrape_once(visitor: Visitor, stop: &AtomicBool) -> anyhow::Result<Seen> {
    let mut seen = Seen::default();
    let mut turn = interval(SCRAPE_EVERY);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.load(Ordering::Relaxed) {
        turn.tick().await;
        let answer = visitor.get("/metrics", "").await;
        let Some(answer) = seen.scrape("new connection", answer) else { continue };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        let text = answer.text()?;
        let evidence = text
            .lines()
            .find(|line| line.starts_with(EVIDENCE))
            .context("no evidence on the page")?;
        let at: f64 =
            evidence.rsplit(' ').next().unwrap_or_default().parse().context("no instant")?;
        seen.evidence_age_max = seen.evidence_age_max.max(now - at);
        seen.page_bytes = answer.body.len();
        seen.labels = labels(text);
    }
    Ok(seen)
}

async fn look(visitor: Visitor, stop: &AtomicBool) -> Seen {
    let mut seen = Seen::default();
    let mut turn = interval(LOOK_EVERY);
    turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !stop.load(Ordering::Relaxed) {
        turn.tick().await;
        match visitor.get("/", "").await {
            Ok(answer) if answer.status == 200 => {
                seen.pages_ms.push(answer.took.as_secs_f64() * 1e3)
            }
            _ => seen.pages_failed += 1,
        }
    }
    seen
}

/// A hash of the set of all pairs of label and value. It ignores whole series, because those of
/// learned values, such as leases, appear later.
fn labels(page: &str) -> u64 {
    let hash = |label: &str| {
        let mut hasher = DefaultHasher::new();
        label.hash(&mut hasher);
        hasher.finish() >> 16
    };
    let all = page
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once('{')?.1.rsplit_once('}'));
    // Problems come and go.
    let all = all.filter(|(labels, _)| !labels.contains("problem=\""));
    let labels: BTreeSet<&str> = all.flat_map(|(labels, _)| labels.split(',')).collect();
    labels.into_iter().map(hash).fold(0, u64::wrapping_add)
}
