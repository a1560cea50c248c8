//! One attack from start to end, and what the other clients saw during it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::attack::Attack;
use super::neighbour::{Neighbours, Seen};
use crate::numbers::quantile;
use crate::page::Crowd;
use crate::stack::Program;

/// The address of the scraper.
pub(super) const SCRAPER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
pub(super) const MB: f64 = 1e6;

/// How long the agent is observed before the first attack.
pub(super) const CALM: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Number of clients of one attacking process: a process may open at least 1,024 files.
const CLIENTS_PER_PROCESS: usize = 900;
/// Maximum time until attackers end after their time is over.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Attackers that run together: their kinds, addresses and numbers.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) attackers: Vec<(Attack, &'static [IpAddr], usize)>,
}

/// The observations.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) scrapes_ms: Vec<f64>,
    /// Why scrapes failed.
    pub(super) scrapes_failed: Vec<String>,
    pub(super) pages_ms: Vec<f64>,
    pub(super) pages_failed: usize,
    pub(super) evidence_age_max: f64,
    /// A hash of all labels in the exposition.
    pub(super) labels: u64,
    pub(super) page_bytes: usize,
    pub(super) rss_max: u64,
    pub(super) files_max: usize,
    /// The attackers' own totals.
    pub(super) totals: String,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let p99 = quantile(&self.scrapes_ms, 0.99);
        let (failed, all) =
            (self.scrapes_failed.len(), self.scrapes_failed.len() + self.scrapes_ms.len());
        let (rss, files, age) = (self.rss_max as f64 / MB, self.files_max, self.evidence_age_max);
        write!(
            f,
            "{failed} of {all} scrapes failed, p99 {p99:.0} ms, {rss:.1} MB, {files} files, "
        )?;
        write!(
            f,
            "evidence {age:.1} s, page max {:.0} ms; {}",
            quantile(&self.pages_ms, 1.0),
            self.totals
        )
    }
}

impl Phase {
    /// Attacks for `during`.
    pub(super) async fn run(
        &self,
        crowd: &Crowd,
        during: Duration,
        patience: Duration,
    ) -> anyhow::Result<Outcome> {
        let neighbours = Neighbours::start(crowd.agent.address(), SCRAPER, patience)?;
        let mut attackers = Vec::new();
        for (attack, from, clients) in &self.attackers {
            attackers.extend(start(*attack, crowd, from, *clients, during)?);
        }
        let (began, mut rss_max, mut files_max) = (Instant::now(), 0, 0);
        while began.elapsed() < during {
            let footprint = crowd.agent.footprint()?;
            rss_max = rss_max.max(footprint.rss_bytes);
            files_max = files_max.max(footprint.files);
            sleep(LOOK_EVERY).await;
        }
        let totals = totals(attackers).await;
        let Seen {
            scrapes_ms,
            scrapes_failed,
            pages_ms,
            pages_failed,
            evidence_age_max,
            labels,
            page_bytes,
        } = neighbours.stop()?;
        Ok(Outcome {
            scrapes_ms,
            scrapes_failed,
            pages_ms,
            pages_failed,
            evidence_age_max,
            labels,
            page_bytes,
            rss_max,
            files_max,
            totals,
        })
    }
}

/// Starts the processes of one attack.
fn start(
    attack: Attack,
    crowd: &Crowd,
    from: &[IpAddr],
    clients: usize,
    during: Duration,
) -> anyhow::Result<Vec<Child>> {
    let from: Vec<String> = from.iter().map(IpAddr::to_string).collect();
    let processes = clients.div_ceil(CLIENTS_PER_PROCESS);
    let start = |_| {
        // A real attacker has its own machine: here it only gets the CPU time that the agent
        // leaves.
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(Program::Lab.find()?).arg("attack").arg(attack.name());
        command.args(["--agent", &crowd.agent.address().to_string(), "--from", &from.join(",")]);
        command.args(["--clients", &clients.div_ceil(processes).to_string()]);
        command.args([
            "--seconds",
            &during.as_secs_f64().to_string(),
            "--tasks",
            &crowd.count().to_string(),
        ]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        command.spawn().context("cannot start an attacker")
    };
    (0..processes).map(start).collect()
}

/// Waits until all have ended, and adds up their totals.
async fn totals(attackers: Vec<Child>) -> String {
    let (mut opened, mut requests, mut answered) = (0_u64, 0_u64, 0_u64);
    for attacker in attackers {
        let Ok(Ok(output)) = timeout(END_WITHIN, attacker.wait_with_output()).await else {
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        opened += numbers.next().unwrap_or_default();
        requests += numbers.next().unwrap_or_default();
        answered += numbers.next().unwrap_or_default();
    }
    format!("{opened} connections, {requests} requests, {answered} answered")
}
