//! The load on Redis while it is watched: locks that are renewed, and a bystander that measures its
//! latency.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::wire::{Wire, command};
use crate::numbers::quantile;

/// Redisson's default lease.
pub(super) const LEASE_MS: u64 = 30_000;
/// Interval at which each lock is renewed, as by Redisson.
pub(super) const RENEWED_EVERY: Duration = Duration::from_secs(10);
/// Renewals are spread evenly over steps of this length.
const STEP: Duration = Duration::from_millis(10);
const PING_EVERY: Duration = Duration::from_millis(1);
/// Number of workers that share the locks.
const WORKERS: usize = 7;

/// The key of a lock, as long as what redis-benchmark makes of `bench:__rand_int__:lock`.
pub(super) fn key(at: usize) -> String {
    format!("bench:{at:012}:lock")
}

/// The name of its task.
pub(super) fn name(at: usize) -> String {
    format!("job-{at}")
}

/// The first holder.
pub(super) fn holder(at: usize) -> String {
    let worker = at % WORKERS;
    format!("{worker:08x}-0000-4000-8000-{worker:012x}:{at}")
}

/// The commands that write the lock `at`, held by `holder`.
pub(super) fn hold(at: usize, holder: &str, lease_ms: u64) -> [Vec<u8>; 2] {
    let (key, lease) = (key(at), lease_ms.to_string());
    [
        command(&[b"HSET", key.as_bytes(), holder.as_bytes(), b"1"]),
        command(&[b"PEXPIRE", key.as_bytes(), lease.as_bytes()]),
    ]
}

/// A thread that runs until it is dropped.
#[derive(Debug)]
pub(super) struct Background {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Background {
    /// Starts the thread, which calls `work` repeatedly.
    pub(super) fn start(
        mut work: impl FnMut() -> anyhow::Result<()> + Send + 'static,
    ) -> Background {
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                work()?;
            }
            Ok(())
        });
        Background { stop, thread: Some(thread) }
    }

    /// Stops the thread and returns its error, if any.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a load panicked")))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _nobody_asks = self.finish();
    }
}

/// Renews each of `count` locks once per `every`, spread evenly, for three times as long. Counts
/// the writes.
pub(super) fn renewals(
    redis: SocketAddr,
    count: usize,
    every: Duration,
) -> anyhow::Result<(Background, Arc<AtomicU64>)> {
    let mut wire = Wire::connect(redis)?;
    let written = Arc::<AtomicU64>::default();
    let (counter, began, mut done) = (Arc::clone(&written), Instant::now(), 0_usize);
    let lease = (every * 3).as_millis().to_string();
    let background = Background::start(move || {
        std::thread::sleep(STEP);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
        let due = (began.elapsed().as_secs_f64() / every.as_secs_f64() * count as f64) as usize;
        let renew =
            |at: usize| command(&[b"PEXPIRE", key(at % count).as_bytes(), lease.as_bytes()]);
        let commands: Vec<Vec<u8>> = (done..due).map(renew).collect();
        wire.send(&commands)?;
        done = due;
        counter.store(due as u64, Ordering::Relaxed);
        Ok(())
    });
    Ok((background, written))
}

/// Another client of the same Redis, which sends a PING each millisecond and waits for the reply.
#[derive(Debug)]
pub(super) struct Bystander {
    waited: Arc<Mutex<Vec<f64>>>,
    _background: Background,
}

/// The bystander's waits, in milliseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits(pub(super) Vec<f64>);

impl Bystander {
    pub(super) fn start(redis: SocketAddr) -> anyhow::Result<Bystander> {
        let mut wire = Wire::connect(redis)?;
        let waited = Arc::<Mutex<Vec<f64>>>::default();
        let all = Arc::clone(&waited);
        let background = Background::start(move || {
            let began = Instant::now();
            wire.ask(&["PING"])?;
            all.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(crate::numbers::ms(began.elapsed()));
            std::thread::sleep(PING_EVERY);
            Ok(())
        });
        Ok(Bystander { waited, _background: background })
    }

    /// Takes all waits since the last call.
    pub(super) fn take(&self) -> Waits {
        Waits(std::mem::take(&mut *self.waited.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Waits {
    pub(super) fn p99(&self) -> f64 {
        quantile(&self.0, 0.99)
    }

    pub(super) fn max(&self) -> f64 {
        quantile(&self.0, 1.0)
    }
}
