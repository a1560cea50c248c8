//! Tests that measure time, on machines that stand still now and then: such a test is tried again only if it fails while there
//! is evidence that it was held up, so that a mistake of the program fails it however often it is tried.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a test is tried.
const ATTEMPTS: usize = 3;
const BEAT: Duration = Duration::from_millis(20);
/// What a busy machine does not keep a thread waiting for.
const STOOD_STILL: Duration = Duration::from_millis(100);

/// Runs `body`; again if it fails while this process did not get to run.
pub(crate) fn undisturbed(test: &str, body: impl Fn()) {
    undisturbed_with(test, || Some(()), |()| body(), |()| String::new());
}

/// Runs `body` on what `start` makes, if anything; again, on a fresh one, if it fails while this process did not get to run, or
/// while there are other `disturbances`.
pub(crate) fn undisturbed_with<S>(
    test: &str,
    start: impl Fn() -> Option<S>,
    body: impl Fn(&mut S),
    disturbances: impl Fn(&S) -> String,
) {
    for attempt in 1.. {
        let Some(mut fresh) = start() else { return };
        let pulse = Pulse::start();
        let Err(failure) = catch_unwind(AssertUnwindSafe(|| body(&mut fresh))) else { return };
        let disturbances = pulse.standstill().unwrap_or_default() + &disturbances(&fresh);
        if disturbances.is_empty() || attempt == ATTEMPTS {
            resume_unwind(failure);
        }
        eprintln!("{test}: once more, for it was disturbed:\n{disturbances}");
    }
}

/// A thread that wants to run all the time, a little.
struct Pulse {
    end: Sender<()>,
    beating: JoinHandle<Duration>,
}

impl Pulse {
    fn start() -> Pulse {
        let (end, ended) = mpsc::channel();
        let beating = std::thread::spawn(move || {
            let mut longest = Duration::ZERO;
            loop {
                let asked = Instant::now();
                let goes_on = ended.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout);
                longest = longest.max(asked.elapsed());
                if !goes_on {
                    return longest;
                }
            }
        });
        Pulse { end, beating }
    }

    /// How long it stood still, in words; `None` if it did not.
    fn standstill(self) -> Option<String> {
        drop(self.end);
        let longest = self.beating.join().unwrap();
        (longest >= STOOD_STILL).then(|| format!("this process did not get to run for {longest:?}\n"))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often a body was run that fails as often as it is told to, and how it ended.
    fn runs(failures: usize, disturbed: bool) -> (usize, bool) {
        let ran = Cell::new(0);
        let body = |(): &mut ()| {
            ran.set(ran.get() + 1);
            assert!(ran.get() > failures, "as it was told to");
        };
        let said = |(): &()| if disturbed { "an election came to nothing\n".to_owned() } else { String::new() };
        let whole = AssertUnwindSafe(|| undisturbed_with("a test of the tests", || Some(()), body, said));
        let fine = catch_unwind(whole).is_ok();
        (ran.get(), fine)
    }

    #[test]
    fn only_what_was_disturbed_is_tried_again() {
        assert_eq!(runs(0, false), (1, true));
        assert_eq!(runs(1, false), (1, false));
        assert_eq!(runs(2, true), (3, true));
        assert_eq!(runs(9, true), (3, false));
    }
}
