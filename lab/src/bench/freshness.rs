//! The latency from a change in Redis to the response that shows it: by polling, and with wake-ups.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use memchr::memmem;
use tokio::task::block_in_place;

use super::bed::Bed;
use super::fetch::Client;
use super::load::{Background, RENEWED_EVERY, hold, key, name, renewals};
use super::wire::{Wire, command};
use crate::numbers::{ms, quantile, shown};
use crate::report::{Figure, Table};
use crate::stack::{Agent, Exporter, ExporterSetup};

const FEW: usize = 100;
const MANY: usize = 10_000;
const ALL: &str = "/metrics";
/// The agent's interval; changes are spread evenly over it.
const INTERVAL: Duration = Duration::from_secs(1);
const LEASE_MS: u64 = 3_600_000;
/// Mean pause between two changes.
const CHANGE_EVERY: Duration = Duration::from_millis(60);
/// Pause between two requests: it leaves CPU time to the other processes, and is too short to
/// matter as latency. The peer is scraped without a pause.
const ASK_EVERY: Duration = Duration::from_micros(50);
/// Maximum time until a change must be shown; later ones count as never shown.
const SHOWN_WITHIN: Duration = Duration::from_secs(10);

/// By polling alone: the agent is denied the commands for wake-ups.
pub(super) async fn polling(short: bool) -> anyhow::Result<Table> {
    let bed = Bed::at_rest(FEW).await?;
    refuse_tracking(&bed)?;
    let agent = bed.agent("1s").await?;
    let delays = block_in_place(|| by_metrics(&bed, agent.address(), ALL, stretch(short)))?;
    let limit = ms(INTERVAL) + 50.0;
    Ok(Table {
        figures: vec![
            Figure::at_most(
                "change → on /metrics by polling each second, p99",
                quantile(&delays, 0.99),
                limit,
                "ms",
            )
            .with(spread(&delays))
            .peer("the peer reads within the scrape, below"),
        ],
        more: String::new(),
    })
}

/// With wake-ups.
pub(super) async fn wake_ups(short: bool) -> anyhow::Result<Table> {
    let mut figures = Vec::new();
    for (count, p50, p99) in [(FEW, 1.5, 5.0), (MANY, 15.0, 40.0)] {
        let bed = Bed::start(count).await?;
        let (_renewals, _) = block_in_place(|| renewals(bed.address(), count, RENEWED_EVERY))?;
        let agent = bed.agent("1s").await?;
        let delays = block_in_place(|| by_metrics(&bed, agent.address(), ALL, stretch(short)))?;
        let one = block_in_place(|| by_api(&bed, &agent, stretch(short) * 5))?;
        drop(agent);
        let peer = peer(&bed, stretch(short) / 2).await;
        let row = |of: &str, delays: &[f64], (p50, p99): (f64, f64), peer: &str| {
            let what = format!("{count} locks: change → {of}");
            [
                Figure::at_most(format!("{what}, p50"), quantile(delays, 0.5), p50, "ms")
                    .peer(peer),
                Figure::at_most(format!("{what}, p99"), quantile(delays, 0.99), p99, "ms")
                    .with(spread(delays)),
            ]
        };
        figures.extend(row("/metrics", &delays, (p50, p99), &peer));
        figures.extend(row("one task by the API", &one, (1.5, 5.0), ""));
    }
    Ok(Table { figures, more: String::new() })
}

fn stretch(short: bool) -> Duration {
    Duration::from_secs(if short { 4 } else { 20 })
}

fn spread(delays: &[f64]) -> String {
    let of = |share| shown(quantile(delays, share), "");
    format!("p50 {}, p99 {}, max {} ms of {}", of(0.5), of(0.99), of(1.0), delays.len())
}

fn refuse_tracking(bed: &Bed) -> anyhow::Result<()> {
    block_in_place(|| {
        let mut wire = Wire::connect(bed.address())?;
        match wire.ask(&["ACL", "SETUSER", "default", "-client|tracking"]) {
            Ok(_) => Ok(()),
            // Before Redis 7.0, ACLs cannot deny a subcommand.
            Err(_) => wire.ask(&["ACL", "SETUSER", "default", "-client"]).map(drop),
        }
    })
}

/// A change, when it was written, and how it is recognised.
struct Change {
    holder: String,
    written: Instant,
}

/// Replaces the holder of a lock repeatedly, at random instants.
fn changes(redis: SocketAddr, count: usize, sender: Sender<Change>) -> anyhow::Result<Background> {
    let mut wire = Wire::connect(redis)?;
    let mut number = 0_usize;
    Ok(Background::start(move || {
        // The pauses are distributed exponentially, as for rare events.
        std::thread::sleep(CHANGE_EVERY.mul_f64(-(1.0 - fastrand::f64()).ln()));
        number += 1;
        let holder = format!("change-{number:08}");
        // Sent before the change is written, so that no response can precede it.
        let _nobody_may_listen_any_more =
            sender.send(Change { holder: holder.clone(), written: Instant::now() });
        take_over(&mut wire, fastrand::usize(..count), &holder)
    }))
}

/// Replaces the holder in one transaction.
fn take_over(wire: &mut Wire, at: usize, holder: &str) -> anyhow::Result<()> {
    let [set, expire] = hold(at, &format!("{holder}:1"), LEASE_MS);
    let delete = command(&[b"DEL", key(at).as_bytes()]);
    wire.send(&[[command(&[b"MULTI"]), delete, set, expire, command(&[b"EXEC"])].concat()])?;
    // After the first line: three `QUEUED`, and a list of three numbers.
    wire.lines(7)
}

/// Scrapes repeatedly; returns the time until each change was shown, in milliseconds.
fn by_metrics(
    bed: &Bed,
    agent: SocketAddr,
    path: &str,
    stretch: Duration,
) -> anyhow::Result<Vec<f64>> {
    let (sender, heard) = channel();
    let changing = changes(bed.address(), bed.count, sender)?;
    let mut client = Client::connect(agent)?;
    let mut watch = Watch::default();
    let began = Instant::now();
    while began.elapsed() < stretch {
        let page = client.get(path)?;
        let complete = page.complete;
        watch.look(&heard, complete, holders(page.body));
        std::thread::sleep(ASK_EVERY);
    }
    changing.end()?;
    if watch.delays.is_empty() {
        bail!("no change was ever shown");
    }
    Ok(watch.delays)
}

/// The part of an exposition that shows the holders.
fn holders(page: &[u8]) -> &str {
    let start = memmem::find(page, b"\n# TYPE lockwatch_lock_holder ").unwrap_or(0);
    let part = page.get(start + 1..).unwrap_or_default();
    let end = memmem::find(part, b"\n# HELP ").unwrap_or(part.len());
    std::str::from_utf8(part.get(..end).unwrap_or_default()).unwrap_or_default()
}

/// Changes that were not shown yet, and the latencies of those that were.
#[derive(Default)]
struct Watch {
    open: HashMap<String, Instant>,
    delays: Vec<f64>,
}

impl Watch {
    fn look(&mut self, heard: &Receiver<Change>, complete: Instant, text: &str) {
        for Change { holder, written } in heard.try_iter() {
            self.open.insert(holder, written);
        }
        for shown in text.split("holder=\"").filter_map(|rest| rest.split('"').next()) {
            if let Some(written) = self.open.remove(shown) {
                self.delays.push(ms(complete.saturating_duration_since(written)));
            }
        }
        // If a lock changes twice in a row, the first change may never be shown.
        self.open.retain(|_, written| written.elapsed() < SHOWN_WITHIN);
    }
}

/// Reads one task until it shows the change, and then changes another.
fn by_api(bed: &Bed, agent: &Agent, stretch: Duration) -> anyhow::Result<Vec<f64>> {
    let (mut wire, mut client) = (Wire::connect(bed.address())?, Client::connect(agent.address())?);
    let (began, mut delays, mut number) = (Instant::now(), Vec::new(), 0);
    while began.elapsed() < stretch {
        // A random pause: after a response that a tick triggered, a short fixed one would always
        // end right after that tick.
        std::thread::sleep((INTERVAL / 2).mul_f64(fastrand::f64()));
        number += 1;
        let (at, holder) = (fastrand::usize(..bed.count), format!("asked-{number:08}"));
        let path = format!("/api/v1/tasks/{}", name(at));
        let written = Instant::now();
        take_over(&mut wire, at, &holder)?;
        loop {
            let page = client.get(&path)?;
            let complete = page.complete;
            if String::from_utf8_lossy(page.body).contains(&holder) {
                delays.push(ms(complete - written));
                break;
            }
            if written.elapsed() > SHOWN_WITHIN {
                bail!("a change was never shown");
            }
            std::thread::sleep(ASK_EVERY);
        }
    }
    Ok(delays)
}

/// Scrapes the peer without pauses while a lock is removed and added again.
async fn peer(bed: &Bed, stretch: Duration) -> String {
    let measured = async {
        let exporter =
            Exporter::start(bed.address(), &ExporterSetup::Pattern("bench:*:lock".to_owned()))
                .await?;
        block_in_place(|| by_exporter(bed, exporter.address(), stretch))
    };
    match measured.await {
        Ok(delays) => {
            let of = |share| shown(quantile(&delays, share), "ms");
            format!("redis_exporter asked again and again: p50 {}, p99 {}", of(0.5), of(0.99))
        }
        Err(why) => format!("not measured: {why:#}"),
    }
}

fn by_exporter(bed: &Bed, exporter: SocketAddr, stretch: Duration) -> anyhow::Result<Vec<f64>> {
    let (mut wire, began, mut delays) = (Wire::connect(bed.address())?, Instant::now(), Vec::new());
    let mut client = Client::connect(exporter)?;
    let mut size = 1;
    while began.elapsed() < stretch {
        let (sender, receiver) = channel();
        let redis = bed.address();
        size += 1;
        // The change is written at a random time, during a scrape or between two.
        let pause = Duration::from_millis(100).mul_f64(fastrand::f64());
        let writer = std::thread::spawn(move || {
            std::thread::sleep(pause);
            let mut wire = Wire::connect(redis)?;
            let written = Instant::now();
            let field = format!("field-{size}");
            wire.send(&[command(&[b"HSET", key(0).as_bytes(), field.as_bytes(), b"1"])])?;
            sender.send(written).context("nobody listens")
        });
        let line = format!("redis_key_size{{db=\"db0\",key=\"{}\"}} {size}\n", key(0));
        loop {
            let page = client.get("/metrics")?;
            let complete = page.complete;
            if String::from_utf8_lossy(page.body).contains(&line) {
                delays.push(ms(complete - receiver.recv()?));
                break;
            }
            if began.elapsed() > stretch + SHOWN_WITHIN {
                bail!("a change was never shown");
            }
        }
        writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??;
    }
    wire.send(&[command(&[b"DEL", key(0).as_bytes()])])?;
    Ok(delays)
}
