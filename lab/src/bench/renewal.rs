//! Compares the displayed instants of renewals with the clock of the client that renewed, and
//! checks that each renewal was counted.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::bed::Bed;
use super::fetch::Client;
use super::load::{Background, LEASE_MS, RENEWED_EVERY, key, name};
use super::report::{Figure, Table};
use super::wire::{Wire, command};
use crate::numbers::{ms, quantile, shown};
use crate::stack::{Exporter, ExporterSetup};

const LOCKS: usize = 500;
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Pause before the first renewal: longer than the second by which a displayed instant may precede
/// it.
const BEFORE: Duration = Duration::from_secs(2);
/// Pause after the last renewal, in which everything is read once more.
const AFTER: Duration = Duration::from_secs(3);

/// Maximum duration of a renewal whose instant counts as known, in milliseconds.
const KNOWN_WITHIN_MS: f64 = 0.5;

/// A renewal: the middle between request and reply on the writer's clock, and their distance, both
/// in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    at: f64,
    took: f64,
}

/// The renewals of each lock.
type Written = Arc<Mutex<HashMap<usize, Vec<Renewal>>>>;

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let stretch = Duration::from_secs(if short { 12 } else { 45 });
    let bed = Bed::start(LOCKS).await?;
    let agent = bed.full_agent("1s").await?;
    let exporter =
        Exporter::start(bed.address(), &ExporterSetup::Script(Exporter::script("renewals.lua")))
            .await;
    // The initial writes of the locks are not renewals.
    sleep(BEFORE).await;
    let written = Written::default();
    let writing = block_in_place(|| writer(bed.address(), Arc::clone(&written)))?;
    let (mut own, mut peer) = (Seen::default(), Seen::default());
    let began = Instant::now();
    while began.elapsed() < stretch {
        sleep(LOOK_EVERY).await;
        block_in_place(|| own.look_at_lockwatch(agent.address()))?;
        if let Ok(exporter) = &exporter {
            block_in_place(|| peer.look_at_peer(exporter.address()))?;
        }
    }
    block_in_place(|| writing.end())?;
    sleep(AFTER).await;
    block_in_place(|| own.look_at_lockwatch(agent.address()))?;
    let written = written.lock().unwrap_or_else(PoisonError::into_inner);
    let all: usize = written.values().map(Vec::len).sum();
    let (errors, errors_of_peer) = (own.errors(&written), peer.errors(&written));
    let spread = |errors: &[f64]| {
        let of = |share| shown(quantile(errors, share), "");
        format!("p50 {}, p99 {}, max {} ms of {}", of(0.5), of(0.99), of(1.0), errors.len())
    };
    let beside = match &exporter {
        Ok(_) => format!("a script for redis_exporter: {}", spread(&errors_of_peer)),
        Err(why) => format!("not measured: {why:#}"),
    };
    Ok(Table {
        figures: vec![
            Figure::at_most(
                "renewal instant, error against the writer's clock, p99",
                quantile(&errors, 0.99),
                1.0,
                "ms",
            )
            .with(spread(&errors))
            .beside(beside),
            Figure::at_most("renewals that were not counted", all as f64 - own.counted, 0.0, "")
                .with(format!("of {all}")),
        ],
        more: String::new(),
    })
}

/// Renews one lock after the other, each every 10 s.
fn writer(redis: SocketAddr, written: Written) -> anyhow::Result<Background> {
    let mut wire = Wire::connect(redis)?;
    let (lease, mut at, began) = (LEASE_MS.to_string(), 0_usize, Instant::now());
    Ok(Background::start(move || {
        let due = RENEWED_EVERY.mul_f64(at as f64 / LOCKS as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
        let lock = at % LOCKS;
        let before = SystemTime::now();
        wire.send(&[command(&[b"PEXPIRE", key(lock).as_bytes(), lease.as_bytes()])])?;
        let took = ms(before.elapsed().unwrap_or_default());
        let middle = ms(before.duration_since(SystemTime::UNIX_EPOCH)?) + took / 2.0;
        let renewal = Renewal { at: middle, took };
        written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(lock)
            .or_default()
            .push(renewal);
        at += 1;
        Ok(())
    }))
}

/// The displayed instants of each lock, and its number of counted renewals.
#[derive(Default)]
struct Seen {
    instants: HashSet<(usize, u64)>,
    counted: f64,
}

impl Seen {
    fn look_at_lockwatch(&mut self, agent: SocketAddr) -> anyhow::Result<()> {
        let mut client = Client::connect(agent)?;
        let page = client.get("/metrics")?;
        let page = std::str::from_utf8(page.body)?;
        let tasks: HashMap<String, usize> = (0..LOCKS).map(|at| (name(at), at)).collect();
        let counts = lines(page, "lockwatch_lock_renewals_total{")
            .filter_map(|(_, value)| value.parse::<f64>().ok());
        self.counted = counts.sum();
        for (labels, value) in lines(page, "lockwatch_lock_last_renewal_timestamp_seconds{") {
            let task =
                label(labels, "task").and_then(|task| tasks.get(task)).context("no such task")?;
            self.note(*task, value.parse::<f64>()? * 1000.0);
        }
        Ok(())
    }

    fn look_at_peer(&mut self, exporter: SocketAddr) -> anyhow::Result<()> {
        let mut client = Client::connect(exporter)?;
        let page = client.get("/metrics")?;
        let page = std::str::from_utf8(page.body)?;
        let keys: HashMap<String, usize> = (0..LOCKS).map(|at| (key(at), at)).collect();
        for (labels, value) in lines(page, "redis_script_values{") {
            let lock =
                label(labels, "key").and_then(|key| keys.get(key)).context("no such lock")?;
            self.note(*lock, value.parse()?);
        }
        Ok(())
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole milliseconds"
    )]
    fn note(&mut self, lock: usize, ms: f64) {
        self.instants.insert((lock, ms.round() as u64));
    }

    /// The distance of each instant from the nearest renewal of its lock, if the writer knows when
    /// that was. Instants before the first renewal are skipped.
    fn errors(&self, written: &HashMap<usize, Vec<Renewal>>) -> Vec<f64> {
        let error = |(lock, shown): &(usize, u64)| {
            let shown = *shown as f64;
            let all = written.get(lock)?;
            all.first().filter(|first| shown > first.at - 1000.0)?;
            let far = |renewal: &&Renewal| (renewal.at - shown).abs();
            let nearest = all.iter().min_by(|a, b| far(a).total_cmp(&far(b)))?;
            (nearest.took <= KNOWN_WITHIN_MS).then(|| far(&nearest))
        };
        self.instants.iter().filter_map(error).collect()
    }
}

/// The labels and values of all series that begin with `start`.
fn lines<'a>(page: &'a str, start: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    page.lines().filter_map(move |line| line.strip_prefix(start)?.rsplit_once("} "))
}

fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = labels.split_once(&format!("{name}=\""))?;
    rest.split('"').next()
}
