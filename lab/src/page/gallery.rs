//! A dozen tasks of a mail-order company, at least one with each verdict, for screenshots.

use std::net::SocketAddr;
use std::time::Duration;

use redis::pipe;
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::hand::Hand;
use crate::stack::{Agent, Redis, until};

/// Redisson's default lease.
const LEASE: Duration = Duration::from_secs(30);
/// Lease of the task whose history is shown; short, so that events come soon.
const SHORT_LEASE: Duration = Duration::from_secs(9);
/// Maximum time until the agent has seen everything.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
/// The task whose page is shown.
const SHOWN: &str = "outbound";

/// Instances and the hosts that they run on.
const INSTANCES: [(&str, &str); 3] = [
    ("5e2d1c4a-77b0-4c1f-9a36-0f4b8f5e6d21", "wms-app-1"),
    ("b81f03d9-2c64-4f7e-8d15-93a7c2e0aa10", "wms-app-2"),
    ("0c9a7e66-f1d2-4b8a-b6cf-41d5b7f3e902", "wms-app-3"),
];

/// The holder of a task's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    /// No holder.
    Free,
    /// This instance.
    By(usize),
    /// Two holders at once.
    Twice,
}

struct Exhibit {
    name: &'static str,
    team: &'static str,
    verdict: &'static str,
    held: Held,
    /// Users whose switch is on; the next field has those whose switch is off.
    on: &'static [&'static str],
    off: &'static [&'static str],
    /// Settings that differ from the defaults, as YAML.
    more: &'static str,
    works: bool,
}

const PROGRESS: &str =
    "progress: {hash: \"stats\", field: last_run, stale_after: 5m}, claims: {hash: \"claims\"}";

#[rustfmt::skip]
const EXHIBITS: [Exhibit; 12] = [
    Exhibit { name: "outbound", team: "logistics", verdict: "running", held: Held::By(0), on: &["anna", "ben"], off: &["carla"], more: PROGRESS, works: true },
    Exhibit { name: "inbound", team: "logistics", verdict: "running", held: Held::By(1), on: &["ben"], off: &["anna"], more: PROGRESS, works: true },
    Exhibit { name: "price import", team: "purchasing", verdict: "split", held: Held::Twice, on: &["dora"], off: &[], more: "", works: false },
    Exhibit { name: "returns", team: "logistics", verdict: "down", held: Held::Free, on: &["anna", "carla"], off: &[], more: "grace: 2s", works: false },
    Exhibit { name: "invoice run", team: "finance", verdict: "stalled", held: Held::By(2), on: &["emil"], off: &[], more: "progress: {hash: \"stats\", field: last_run, stale_after: 3s}", works: false },
    Exhibit { name: "stock levels", team: "purchasing", verdict: "unwanted", held: Held::By(1), on: &[], off: &["dora", "finn"], more: "wind_down: 2s", works: false },
    Exhibit { name: "carrier tracking", team: "logistics", verdict: "unknown", held: Held::Free, on: &[], off: &[], more: "redis: carriers, settle: 1s, blind_after: 2s", works: false },
    Exhibit { name: "label printer", team: "logistics", verdict: "pending", held: Held::Free, on: &["anna"], off: &["ben"], more: "grace: 30m", works: false },
    Exhibit { name: "mail dispatcher", team: "shop", verdict: "running", held: Held::By(2), on: &["gina"], off: &["emil"], more: "", works: false },
    Exhibit { name: "reorder proposals", team: "purchasing", verdict: "running", held: Held::By(0), on: &["dora", "finn"], off: &[], more: "", works: false },
    Exhibit { name: "nightly report", team: "finance", verdict: "stopped", held: Held::Free, on: &[], off: &["emil", "gina"], more: "", works: false },
    Exhibit { name: "search index", team: "shop", verdict: "stopped", held: Held::Free, on: &[], off: &["gina"], more: "", works: false },
];

/// The tasks and the agent that watches them. Fields are dropped in order.
#[derive(Debug)]
pub struct Gallery {
    /// The agent.
    pub agent: Agent,
    keepers: JoinSet<anyhow::Result<()>>,
    hand: Hand,
    _redis: Redis,
}

impl Gallery {
    /// Starts everything and waits until the agent reports each verdict. `arguments` are added to
    /// the agent's command line.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(arguments: &[&str]) -> anyhow::Result<Gallery> {
        let (redis, mut carriers) = (Redis::start().await?, Redis::start().await?);
        let hand = Hand::at(&redis).await?;
        for exhibit in &EXHIBITS {
            hang(&hand, exhibit).await?;
        }
        let mut keepers = JoinSet::new();
        keepers.spawn(keep(hand.clone()));
        let agent =
            Agent::start_with(&config(redis.address(), carriers.address()), arguments).await?;
        carriers.kill().await?;
        let gallery = Gallery { agent, keepers, hand, _redis: redis };
        until(SEEN_WITHIN, "each verdict", async || gallery.is_complete().await).await?;
        Ok(gallery)
    }

    /// The names of the tasks and their verdicts.
    pub fn verdicts() -> impl Iterator<Item = (&'static str, &'static str)> {
        EXHIBITS.iter().map(|exhibit| (exhibit.name, exhibit.verdict))
    }

    /// Gives `SHOWN` a history: some renewals, a crash, the gap until another instance takes
    /// over, and a handover. Its work continues afterwards.
    ///
    /// # Errors
    /// When Redis cannot be written.
    pub async fn tell_a_story(&mut self) -> anyhow::Result<()> {
        let key = key_of(SHOWN);
        for (instance, renewals, pause) in
            [(0, 12, Duration::from_secs(7)), (1, 8, Duration::ZERO), (0, 6, Duration::ZERO)]
        {
            self.hand.hold(&key, &holder(instance), SHORT_LEASE).await?;
            for _ in 0..renewals {
                sleep(SHORT_LEASE / 3).await;
                self.hand.renew(&key, SHORT_LEASE).await?;
                work(&self.hand, SHOWN, instance).await?;
            }
            // A crash, after which no instance contends for the pause; or a release.
            if !pause.is_zero() {
                sleep(SHORT_LEASE + pause).await;
            }
        }
        let hand = self.hand.clone();
        self.keepers.spawn(async move {
            loop {
                sleep(SHORT_LEASE / 3).await;
                hand.renew(&key, SHORT_LEASE).await?;
                work(&hand, SHOWN, 0).await?;
            }
        });
        Ok(())
    }

    async fn is_complete(&self) -> bool {
        let Ok(metrics) = self.agent.metrics().await else { return false };
        EXHIBITS.iter().all(|exhibit| {
            let (task, state) =
                (format!("task=\"{}\"", exhibit.name), format!("state=\"{}\"", exhibit.verdict));
            let mut states =
                metrics.lines().filter(|line| line.starts_with("lockwatch_task_state_rank"));
            states.any(|line| line.contains(&task) && line.contains(&state))
        })
    }
}

fn key_of(task: &str) -> Vec<u8> {
    format!("{task}:lock").into_bytes()
}

fn hash_of(task: &str, what: &str) -> Vec<u8> {
    format!("{task}:{what}").into_bytes()
}

fn holder(instance: usize) -> Vec<u8> {
    let id = INSTANCES.get(instance).map_or("", |(id, _)| id);
    format!("{id}:47").into_bytes()
}

async fn hang(hand: &Hand, exhibit: &Exhibit) -> anyhow::Result<()> {
    for (id, host) in INSTANCES {
        hand.set(b"lockwatch:hosts", id.as_bytes(), host).await?;
    }
    for (users, position) in [(exhibit.on, 1), (exhibit.off, 0)] {
        for user in users {
            hand.set(&hash_of(exhibit.name, "users"), user.as_bytes(), position).await?;
        }
    }
    hand.set(&hash_of(exhibit.name, "stats"), b"last_run", "2026-05-04T06:00:00Z").await?;
    let key = key_of(exhibit.name);
    match exhibit.held {
        Held::Free => Ok(()),
        Held::By(instance) => hand.hold(&key, &holder(instance), LEASE).await,
        Held::Twice => {
            hand.hold(&key, &holder(0), LEASE).await?;
            hand.set(&key, &holder(1), 1).await
        }
    }
}

/// Renews all tasks except the one with a history, and writes the progress of those that work.
async fn keep(hand: Hand) -> anyhow::Result<()> {
    let mut turn = interval(Duration::from_secs(1));
    for second in 0_u64.. {
        turn.tick().await;
        for exhibit in EXHIBITS.iter().filter(|exhibit| exhibit.name != SHOWN) {
            if second.is_multiple_of(10) {
                hand.send(pipe().pexpire(key_of(exhibit.name), i64::try_from(LEASE.as_millis())?))
                    .await?;
            }
            if let (true, Held::By(instance)) = (exhibit.works, exhibit.held) {
                work(&hand, exhibit.name, instance).await?;
            }
        }
    }
    Ok(())
}

async fn work(hand: &Hand, task: &str, instance: usize) -> anyhow::Result<()> {
    let id = INSTANCES.get(instance).map_or("", |(id, _)| id);
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis().to_string();
    hand.set(&hash_of(task, "stats"), b"last_run", &now).await?;
    hand.set(&hash_of(task, "claims"), id.as_bytes(), &now).await
}

fn config(redis: SocketAddr, carriers: SocketAddr) -> String {
    let tasks: Vec<String> = EXHIBITS
        .iter()
        .map(|exhibit| {
            let Exhibit { name, team, more, .. } = exhibit;
            let more = more
                .replace("\"stats\"", &format!("\"{name}:stats\""))
                .replace("\"claims\"", &format!("\"{name}:claims\""));
            let redis = if more.contains("redis:") { "" } else { "redis: main, " };
            let more = if more.is_empty() { more } else { format!(", {more}") };
            format!(
                "  - {{name: \"{name}\", {redis}lock: {{key: \"{name}:lock\"}}, wanted: {{hash: \
                 \"{name}:users\"}}, hosts: {{hash: \"lockwatch:hosts\"}}, labels: {{team: \
                 {team}}}{more}}}"
            )
        })
        .collect();
    format!(
        "redis: {{main: {{url: \"redis://{redis}\"}}, carriers: {{url: \"redis://{carriers}\", \
         interval: 200ms, timeout: 1s}}}}\nlabels: [team]\ntasks:\n{}\n",
        tasks.join("\n")
    )
}
