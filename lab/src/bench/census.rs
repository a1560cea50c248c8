//! Compares the same locks without a watcher, with lockwatch, and with its peer in turn: the cost
//! to the watcher, to Redis, and to another client.

use std::time::Duration;

use anyhow::Context;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use super::bed::Bed;
use super::fetch::{Client, lines_of, series};
use super::load::{Bystander, RENEWED_EVERY, Waits, renewals};
use super::usage::{Usage, peak_mb, resident_mb};
use crate::numbers::{median, ms};
use crate::stack::{Agent, Exporter, ExporterSetup, Signal};

/// Pause after something was started or stopped.
const SETTLE: Duration = Duration::from_secs(2);
/// How long lockwatch watches before it is measured: it learns the interval of renewals from three
/// of them.
const STEADY: Duration = Duration::from_secs(35);
/// The peer reads Redis when it is scraped, so it is scraped at lockwatch's interval.
const SCRAPED_EVERY: Duration = Duration::from_secs(1);
/// Number of scrapes of lockwatch whose cost is measured.
const SCRAPES: usize = 3;
/// Pause between two scrapes, so that each one needs a new snapshot and no cached exposition.
const NEW_SNAPSHOT: Duration = Duration::from_millis(1_100);

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Duration of one measurement.
    pub(super) stretch: Duration,
    /// Number of rounds; each measures everything once.
    pub(super) rounds: usize,
}

/// The measurements with one watcher, or without any, over all rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    /// For each round: CPU of the watcher, total CPU of Redis, commands per second, and slow log
    /// entries per minute.
    rounds: Vec<[f64; 4]>,
    pub(super) waits: Waits,
    pub(super) memory_mb: f64,
    pub(super) peak_mb: f64,
    /// Median duration of a scrape in milliseconds, and its number of series.
    pub(super) scrape_ms: f64,
    pub(super) series: usize,
    /// CPU time of the watcher for one scrape, in milliseconds.
    pub(super) scrape_cpu_ms: f64,
    /// Why there are no measurements.
    pub(super) missing: Option<String>,
}

impl Cost {
    fn middle(&self, at: usize) -> f64 {
        median(self.rounds.iter().filter_map(|round| round.get(at).copied()))
    }

    /// CPU of the watcher, in percent of one core.
    pub(super) fn own(&self) -> f64 {
        self.middle(0)
    }

    /// CPU of Redis, in percent of one core.
    pub(super) fn redis(&self) -> f64 {
        self.middle(1)
    }

    pub(super) fn commands(&self) -> f64 {
        self.middle(2)
    }

    pub(super) fn slow(&self) -> f64 {
        self.middle(3)
    }
}

/// The cost of watching one number of locks.
#[derive(Clone, Debug)]
pub(super) struct Census {
    pub(super) count: usize,
    pub(super) alone: Cost,
    pub(super) lockwatch: Cost,
    pub(super) pattern: Cost,
    pub(super) script: Cost,
}

impl Census {
    /// CPU that a watcher adds to Redis, in percent of one core.
    pub(super) fn added(&self, cost: &Cost) -> f64 {
        cost.redis() - self.alone.redis()
    }
}

/// Measures each watcher with `count` locks in turn.
pub(super) async fn take(count: usize, effort: Effort) -> anyhow::Result<Census> {
    let bed = Bed::start(count).await?;
    let (_renewals, _) = block_in_place(|| renewals(bed.address(), count, RENEWED_EVERY))?;
    let bystander = block_in_place(|| Bystander::start(bed.address()))?;
    let agent = bed.agent("1s").await?;
    let pattern =
        Exporter::start(bed.address(), &ExporterSetup::Pattern("bench:*:lock".to_owned())).await;
    let script =
        Exporter::start(bed.address(), &ExporterSetup::Script(Exporter::script("locks.lua"))).await;
    sleep(STEADY).await;
    let mut census = Census {
        count,
        alone: Cost::default(),
        lockwatch: Cost::default(),
        pattern: Cost { missing: missing(&pattern), ..Cost::default() },
        script: Cost { missing: missing(&script), ..Cost::default() },
    };
    for _ in 0..effort.rounds {
        lockwatch(&bed, &agent, &bystander, effort.stretch, &mut census.lockwatch).await?;
        // A frozen agent costs nothing, and needs no start when its turn comes.
        agent.signal(Signal::Stop).await?;
        bed.stop_announcing()?;
        sleep(SETTLE).await;
        bystander.take();
        measure(&bed, None, &bystander, effort.stretch, &mut census.alone).await?;
        if let Ok(exporter) = &pattern {
            peer(
                &bed,
                exporter,
                "redis_key_size{",
                &bystander,
                effort.stretch,
                &mut census.pattern,
            )
            .await?;
        }
        if let Ok(exporter) = &script {
            peer(
                &bed,
                exporter,
                "redis_script_values{",
                &bystander,
                effort.stretch,
                &mut census.script,
            )
            .await?;
        }
        agent.signal(Signal::Continue).await?;
        sleep(SETTLE * 2).await;
    }
    Ok(census)
}

fn missing(exporter: &anyhow::Result<Exporter>) -> Option<String> {
    exporter.as_ref().err().map(|why| format!("{why:#}"))
}

async fn lockwatch(
    bed: &Bed,
    agent: &Agent,
    bystander: &Bystander,
    stretch: Duration,
    cost: &mut Cost,
) -> anyhow::Result<()> {
    let id = agent.id().context("the agent has ended")?;
    sleep(SETTLE).await;
    bystander.take();
    measure(bed, Some(id), bystander, stretch, cost).await?;
    cost.memory_mb = resident_mb(id)?;
    let (mut times, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..SCRAPES {
        sleep(NEW_SNAPSHOT).await;
        let before = super::usage::used(id)?;
        let (took_ms, series) = scrape(agent, "/metrics")?;
        times.push(took_ms);
        cost.series = series;
        busy.push(ms(super::usage::used(id)?.saturating_sub(before)));
    }
    cost.scrape_ms = median(times);
    cost.scrape_cpu_ms = median(busy);
    cost.peak_mb = peak_mb(id)?;
    Ok(())
}

/// Duration of a scrape in milliseconds, and its number of series.
fn scrape(agent: &Agent, path: &str) -> anyhow::Result<(f64, usize)> {
    block_in_place(|| {
        let mut client = Client::connect(agent.address())?;
        let page = client.get(path)?;
        Ok((ms(page.took), series(page.body)))
    })
}

async fn peer(
    bed: &Bed,
    exporter: &Exporter,
    line: &str,
    bystander: &Bystander,
    stretch: Duration,
    cost: &mut Cost,
) -> anyhow::Result<()> {
    let id = exporter.id().context("the peer has ended")?;
    let mut client = block_in_place(|| Client::connect(exporter.address()))?;
    let page = block_in_place(|| {
        client.get("/metrics").map(|page| (lines_of(page.body, line), series(page.body)))
    })?;
    cost.series = page.1;
    if page.0 != bed.count {
        cost.missing = Some(format!("it shows {} of {} locks", page.0, bed.count));
        return Ok(());
    }
    sleep(SETTLE).await;
    bystander.take();
    let (before, usage, began) = (bed.counters()?, Usage::of(&[id, bed.id()?])?, Instant::now());
    let mut times = Vec::new();
    while began.elapsed() < stretch {
        let next = Instant::now() + SCRAPED_EVERY;
        times.push(block_in_place(|| client.get("/metrics").map(|page| ms(page.took)))?);
        tokio::time::sleep_until(next).await;
    }
    note(bed, before, (&usage, began), true, bystander.take(), cost)?;
    cost.scrape_ms = median(times);
    (cost.memory_mb, cost.peak_mb) = (resident_mb(id)?, peak_mb(id)?);
    Ok(())
}

async fn measure(
    bed: &Bed,
    watcher: Option<u32>,
    bystander: &Bystander,
    stretch: Duration,
    cost: &mut Cost,
) -> anyhow::Result<()> {
    let processes: Vec<u32> = watcher.into_iter().chain([bed.id()?]).collect();
    let (before, usage, began) = (bed.counters()?, Usage::of(&processes)?, Instant::now());
    sleep(stretch).await;
    note(bed, before, (&usage, began), watcher.is_some(), bystander.take(), cost)
}

fn note(
    bed: &Bed,
    before: super::bed::Counters,
    (usage, began): (&Usage, Instant),
    has_watcher: bool,
    waits: Waits,
    cost: &mut Cost,
) -> anyhow::Result<()> {
    let (percent, took, after) = (usage.percent()?, began.elapsed().as_secs_f64(), bed.counters()?);
    let redis = percent.last().copied().unwrap_or(f64::NAN);
    let own = if has_watcher { percent.first().copied().unwrap_or(f64::NAN) } else { 0.0 };
    let slow = (after.slow - before.slow) / took * 60.0;
    // Without the bystander's own commands, which are fewer when it has to wait.
    let commands = after.commands - before.commands - waits.0.len() as f64;
    cost.rounds.push([own, redis, commands / took, slow]);
    cost.waits.0.extend(waits.0);
    Ok(())
}
