//! `lockwatch guard`: how fast another one takes over, whether two scripts ever run together, what
//! is left of a script, and what a guard costs.

mod alive;
mod cut;
mod idle;
mod pair;
mod scene;
mod switches;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::Handle;

pub use self::alive::run_if_asked as run_if_script;
use self::cut::{Cut, cut};
use self::idle::Cost;
use self::pair::{Crash, Killed, Pair};
use self::scene::{LEASE_MS, Runner, Scene, Tally};
use self::switches::flip;
use crate::numbers::{quantile, shown};
use crate::report::{Figure, Table};
use crate::stack::Redis;

/// Latest take-over after a crash, beyond the lease, in milliseconds.
const BEYOND_LEASE_MS: f64 = 100.0;
/// How far apart releases and crashes come at random.
const RELEASED_AFTER: Duration = Duration::from_millis(100);
const CRASHED_AFTER: Duration = Duration::from_millis(700);

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    idle: Duration,
    releases: usize,
    crashes: usize,
    flips: usize,
    cuts: usize,
    /// Locks on which crashes, flips and cuts are measured side by side.
    at_once: usize,
}

const PLAN: Plan = Plan {
    releases: 1_000,
    crashes: 1_000,
    flips: 500,
    cuts: 1_000,
    at_once: 12,
    idle: Duration::from_secs(30),
};
const SHORT: Plan = Plan {
    releases: 50,
    crashes: 20,
    flips: 20,
    cuts: 20,
    at_once: 4,
    idle: Duration::from_secs(30),
};

/// What was measured. Times are in milliseconds.
struct Measured {
    running: Cost,
    waiting: Cost,
    releases: Vec<f64>,
    all_killed: Vec<Crash>,
    guard_killed: Vec<Crash>,
    cuts: Vec<Cut>,
    on: Vec<f64>,
    off: Vec<f64>,
    /// Of all guards.
    own: Tally,
}

/// Ends the threads when nobody waits for them any more.
struct Stop(Arc<AtomicBool>);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let plan = if short { SHORT } else { PLAN };
    let (calm, other, busy) = (Redis::start().await?, Redis::start().await?, Redis::start().await?);
    let stop = Stop(Arc::default());
    let bench = Bench {
        plan,
        redis: busy.address(),
        runtime: Handle::current(),
        stopped: Arc::clone(&stop.0),
        tally: Tally::default(),
    };
    // It blocks, and must not keep those waiting who pass the bytes of a link on.
    let measured =
        tokio::task::spawn_blocking(move || bench.measure([calm.address(), other.address()]))
            .await??;
    Ok(Table { figures: measured.figures(), more: String::new() })
}

/// A guard for the lock of a scene.
fn guard(scene: &mut Scene) -> anyhow::Result<Runner> {
    scene.guard(scene.redis)
}

fn release(scene: &mut Scene, count: usize) -> anyhow::Result<Vec<f64>> {
    let mut pair = Pair::start(scene, guard)?;
    let one = |_| {
        pair.settle(RELEASED_AFTER)?;
        pair.release()
    };
    (0..count).map(one).collect()
}

fn crash(scene: &mut Scene, count: usize, killed: Killed) -> anyhow::Result<Vec<Crash>> {
    let mut pair = Pair::start(scene, guard)?;
    let one = |_| {
        pair.settle(CRASHED_AFTER)?;
        pair.crash(killed)
    };
    (0..count).map(one).collect()
}

struct Bench {
    plan: Plan,
    redis: SocketAddr,
    runtime: Handle,
    stopped: Arc<AtomicBool>,
    tally: Tally,
}

impl Bench {
    fn measure(mut self, [calm, other]: [SocketAddr; 2]) -> anyhow::Result<Measured> {
        let plan = self.plan;
        // One after the other: processes of the same program share its memory.
        let mut scene = Scene::new(calm, "idle", &self.stopped)?;
        let running = idle::running(&mut scene, plan.idle).context("idle")?;
        let mut scene = Scene::new(other, "idle", &self.stopped)?;
        let waiting = idle::waiting(&mut scene, plan.idle).context("idle")?;
        let releases = self.at_once("released", 1, plan.releases, release)?.concat();
        let [all_killed, guard_killed] = [Killed::All, Killed::Guard].map(|killed| {
            let part = |scene: &mut Scene, count| crash(scene, count, killed);
            let crashes = self.at_once(&format!("{killed:?}"), plan.at_once, plan.crashes, part);
            crashes.map(|crashes| crashes.concat())
        });
        let runtime = self.runtime.clone();
        let part = |scene: &mut Scene, count| cut(scene, count, &runtime);
        let cuts = self.at_once("cut", plan.at_once, plan.cuts, part)?.concat();
        let flips = self.at_once("flipped", plan.at_once, plan.flips, flip)?;
        Ok(Measured {
            running,
            waiting,
            releases,
            all_killed: all_killed?,
            guard_killed: guard_killed?,
            cuts,
            on: flips.iter().flat_map(|flips| flips.on.clone()).collect(),
            off: flips.iter().flat_map(|flips| flips.off.clone()).collect(),
            own: self.tally,
        })
    }

    /// Does a part `count` times in all, on so many locks side by side.
    fn at_once<T: Send>(
        &mut self,
        name: &str,
        locks: usize,
        count: usize,
        part: impl Fn(&mut Scene, usize) -> anyhow::Result<T> + Sync,
    ) -> anyhow::Result<Vec<T>> {
        eprintln!("        {name}");
        // Of one length, so that none begins with another one.
        let scene = |at| Scene::new(self.redis, format!("{name}:{at:02}"), &self.stopped);
        let mut scenes = (0..locks).map(scene).collect::<anyhow::Result<Vec<Scene>>>()?;
        let each = count.div_ceil(locks);
        let part = &part;
        let done = std::thread::scope(|scope| {
            let threads: Vec<_> =
                scenes.iter_mut().map(|scene| scope.spawn(move || part(scene, each))).collect();
            let ended = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread failed")))
            });
            ended.collect::<anyhow::Result<Vec<T>>>()
        });
        scenes.iter().for_each(|scene| self.tally.add(scene.tally));
        done.with_context(|| name.to_owned())
    }
}

/// Median, p99 and maximum.
fn spread(values: &[f64]) -> String {
    let of = |share| shown(quantile(values, share), "");
    format!("p50 {}, p99 {}, max {} ms of {}", of(0.5), of(0.99), of(1.0), values.len())
}

fn of<T>(all: &[T], value: impl Fn(&T) -> f64) -> Vec<f64> {
    all.iter().map(value).collect()
}

fn most(values: &[f64]) -> f64 {
    quantile(values, 1.0)
}

impl Measured {
    fn figures(&self) -> Vec<Figure> {
        let mut figures = self.take_overs();
        figures.extend(self.ends());
        figures.extend(self.costs());
        figures
    }

    fn take_overs(&self) -> Vec<Figure> {
        let limit = LEASE_MS as f64 + BEYOND_LEASE_MS;
        let crashed = |what: &str, crashes: &[Crash]| {
            let took = of(crashes, |crash| crash.took);
            let late = of(crashes, |crash| crash.after_lease);
            Figure::at_most(
                format!("{what}: kill → start of the other, longest"),
                most(&took),
                limit,
                "ms",
            )
            .with(format!(
                "{}; after the end of the lease: {}",
                spread(&took),
                spread(&late)
            ))
        };
        let released = quantile(&self.releases, 0.99);
        let mut figures = vec![
            Figure::at_most(
                "release: end of the script → start of the other, p99",
                released,
                10.0,
                "ms",
            )
            .with(spread(&self.releases)),
            crashed("crash of guard, keeper and script", &self.all_killed),
            crashed("crash of the guard alone", &self.guard_killed),
        ];
        figures.extend([
            Figure::at_most(
                "a switch on → the script runs, p99",
                quantile(&self.on, 0.99),
                2_000.0,
                "ms",
            )
            .with(spread(&self.on)),
            Figure::at_most(
                "all switches off → nothing runs, p99",
                quantile(&self.off, 0.99),
                2_000.0,
                "ms",
            )
            .with(spread(&self.off)),
        ]);
        figures
    }

    fn ends(&self) -> Vec<Figure> {
        let left = of(&self.cuts, |cut| cut.left);
        let late = of(&self.cuts, |cut| cut.taken_over);
        let dead: Vec<f64> =
            self.guard_killed.iter().filter_map(|crash| crash.dead_after).collect();
        let orphans = self.guard_killed.iter().filter(|crash| crash.dead_after.is_none()).count();
        let Tally { starts, overlaps } = self.own;
        vec![
            Figure::at_most("two scripts at the same time", overlaps as f64, 0.0, "")
                .with(format!("of {starts} starts")),
            Figure::at_least(
                "cut off: what is left of the lease when the script is dead, least",
                quantile(&left, 0.0),
                0.0,
                "ms",
            )
            .with(format!(
                "median {} of {}; end of the lease → start of the other: {}",
                shown(quantile(&left, 0.5), "ms"),
                left.len(),
                spread(&late)
            )),
            Figure::at_most("guard killed: scripts that live on", orphans as f64, 0.0, "")
                .with(format!("kill → death of the script: {}", spread(&dead))),
        ]
    }

    fn costs(&self) -> [Figure; 5] {
        let (runs, waits) = (&self.running, &self.waiting);
        let cpu = |who: &str, cost: &Cost| {
            Figure::at_most(format!("idle, {who}: CPU"), cost.percent, 0.1, "% of a core")
        };
        [
            cpu("guard and keeper of a sleeping script", runs),
            cpu("a guard that waits, with what it has ready", waits),
            Figure::at_most("guard and keeper: memory together", runs.proportional_mb, 8.0, "MB")
                .with(format!("resident, shared parts twice: {}", shown(runs.resident_mb, "MB"))),
            Figure::plain(
                "a guard that waits, with what it has ready: memory",
                shown(waits.proportional_mb, "MB"),
            )
            .with(format!("resident, shared parts twice: {}", shown(waits.resident_mb, "MB"))),
            Figure::at_most("a guard that waits: commands per second", waits.commands, 2.0, "")
                .with(format!("one that runs: {}", shown(runs.commands, ""))),
        ]
    }
}
