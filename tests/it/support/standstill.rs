//! Measures the time in which the machine did not run a test at all. Time limits of tests exclude
//! it.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Interval between two beats.
const BEAT: Duration = Duration::from_millis(10);
/// A longer pause between two beats counts as a standstill.
const LONGEST: Duration = Duration::from_millis(60);

/// Records standstills from now on.
pub(crate) struct Standstills {
    beats: Arc<Mutex<Beats>>,
    /// Dropping it ends the thread.
    _wanted: Sender<()>,
}

impl Standstills {
    pub(crate) fn watch() -> Standstills {
        let beats = Arc::new(Mutex::new(Beats::from(Instant::now())));
        let (beating, (wanted, unwanted)) = (Arc::clone(&beats), channel());
        std::thread::spawn(move || {
            while unwanted.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                beating.lock().unwrap().beat(Instant::now());
            }
        });
        Standstills { beats, _wanted: wanted }
    }

    /// For how long the machine ran since `from`.
    pub(crate) fn ran_since(&self, from: Instant) -> Duration {
        self.ran(from, Instant::now())
    }

    /// For how long it ran between two past instants.
    pub(crate) fn ran(&self, from: Instant, to: Instant) -> Duration {
        to.saturating_duration_since(from).saturating_sub(self.stood_still(from, to))
    }

    /// For how long nothing ran since `from`.
    pub(crate) fn stood_still_since(&self, from: Instant) -> Duration {
        self.stood_still(from, Instant::now())
    }

    fn stood_still(&self, from: Instant, to: Instant) -> Duration {
        let mut beats = self.beats.lock().unwrap();
        beats.beat(Instant::now());
        beats.stood_still(from, to)
    }
}

/// The standstills, found by the pauses between beats.
struct Beats {
    newest: Instant,
    stood_still: Vec<(Instant, Instant)>,
}

impl Beats {
    fn from(began: Instant) -> Beats {
        Beats { newest: began, stood_still: Vec::new() }
    }

    fn beat(&mut self, now: Instant) {
        if now.saturating_duration_since(self.newest) > LONGEST {
            self.stood_still.push((self.newest + BEAT, now));
        }
        self.newest = self.newest.max(now);
    }

    fn stood_still(&self, from: Instant, to: Instant) -> Duration {
        let within = |(start, end): &(Instant, Instant)| {
            (*end).min(to).saturating_duration_since((*start).max(from))
        };
        self.stood_still.iter().map(within).sum()
    }
}

#[test]
fn only_what_the_machine_took_is_no_time_of_a_test() {
    let began = Instant::now();
    let at = |ms: u64| began + Duration::from_millis(ms);
    let mut beats = Beats::from(began);
    for ms in [10, 20, 75, 1_075, 1_085, 1_500] {
        beats.beat(at(ms));
    }
    let stood_still = |from, to| beats.stood_still(at(from), at(to)).as_millis();
    assert_eq!(stood_still(0, 80), 0, "a late beat is none");
    assert_eq!(stood_still(0, 1_085), 990);
    assert_eq!(stood_still(500, 1_085), 575, "the part of it");
    assert_eq!(stood_still(100, 200), 100);
    assert_eq!(stood_still(0, 2_000), 990 + 405);
    assert_eq!(stood_still(1_600, 2_000), 0);
}
