//! A buffer between logging and standard error, so that logging never blocks and never fails.
//!
//! Otherwise a pipe that nobody reads, a stopped terminal, or a full disk would block or end the
//! agent. A separate thread writes. Lines that do not fit into the buffer are dropped and counted,
//! and the loss is reported once writing works again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum bytes that wait to be written.
const WAITING_BYTES_MAX: usize = 256 << 10;
/// Interval at which a flush checks whether everything is written.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Accepts lines, one per call of `write`.
#[derive(Clone, Debug)]
pub(super) struct Sink {
    lines: Sender<Vec<u8>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Bytes that are not written yet.
    waiting: AtomicUsize,
    /// Lines that were dropped.
    lost: AtomicU64,
}

impl Sink {
    /// Starts the thread that writes to `output`. After a loss, it calls `report` with the number of
    /// lost lines once writing works again. Lines that `report` logs go through the same sink.
    pub(super) fn start(
        output: impl Write + Send + 'static,
        report: impl Fn(u64) + Send + 'static,
    ) -> io::Result<Sink> {
        let (lines, waiting) = channel();
        let counts = Arc::new(Counts::default());
        let sink = Sink { lines, counts: Arc::clone(&counts) };
        let run = move || run(&waiting, &counts, output, report);
        thread::Builder::new().name(String::from("log")).spawn(run)?;
        Ok(sink)
    }

    pub(super) fn lost(&self) -> u64 {
        self.counts.lost.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written, at most `most`.
    pub(super) fn flush(&self, most: Duration) {
        let began = Instant::now();
        while self.counts.waiting.load(Ordering::Acquire) > 0 && began.elapsed() < most {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

fn run(lines: &Receiver<Vec<u8>>, counts: &Counts, mut output: impl Write, report: impl Fn(u64)) {
    let mut reported = 0;
    for line in lines {
        if output.write_all(&line).is_err() {
            counts.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            let lost = counts.lost.load(Ordering::Relaxed);
            if lost > reported {
                report(lost - reported);
                reported = lost;
            }
        }
        counts.waiting.fetch_sub(line.len(), Ordering::Release);
    }
}

impl Write for &Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let Counts { waiting, lost } = &*self.counts;
        let before = waiting.fetch_add(line.len(), Ordering::Relaxed);
        if before + line.len() > WAITING_BYTES_MAX || self.lines.send(line.to_vec()).is_err() {
            waiting.fetch_sub(line.len(), Ordering::Relaxed);
            lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;

    /// A deadline that even a slow machine meets.
    const SOON: Duration = Duration::from_secs(30);

    /// An output that accepts one write per permission, or fails.
    struct Gated {
        permissions: Receiver<io::Result<()>>,
        written: SyncSender<Vec<u8>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.permissions.recv().unwrap_or(Err(io::ErrorKind::BrokenPipe.into()))?;
            let _nobody_looks = self.written.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_logs_never_waits_and_a_loss_is_counted_and_told() {
        let (permit, permissions) = channel();
        let (written, writes) = sync_channel(10);
        let (report, reported) = channel();
        let output = Gated { permissions, written };
        let sink = Sink::start(output, move |lost| report.send(lost).unwrap()).unwrap();
        let line = [vec![b'x'; 1_023], vec![b'\n']].concat();
        let lines = 3 * WAITING_BYTES_MAX / line.len();
        for _ in 0..lines {
            (&sink).write_all(&line).unwrap();
        }
        let lost = sink.lost();
        assert!(lost >= lines as u64 / 3 && lost < lines as u64, "{lost} of {lines}");
        // Lines that fit are complete and in order.
        let mut kept = 0;
        while kept < lines - usize::try_from(lost).unwrap() {
            permit.send(Ok(())).unwrap();
            let bytes = writes.recv_timeout(SOON).unwrap();
            assert_eq!(bytes.len() % line.len(), 0);
            kept += bytes.len() / line.len();
        }
        assert_eq!(reported.recv_timeout(SOON), Ok(lost));
        sink.flush(SOON);
        assert_eq!(sink.lost(), lost);
    }

    #[test]
    fn an_output_that_fails_ends_nothing() {
        let (permit, permissions) = channel();
        let (written, writes) = sync_channel(10);
        let (report, reported) = channel();
        let output = Gated { permissions, written };
        let sink = Sink::start(output, move |lost| report.send(lost).unwrap()).unwrap();
        for line in ["one\n", "two\n"] {
            permit.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
            (&sink).write_all(line.as_bytes()).unwrap();
        }
        sink.flush(SOON);
        assert_eq!(sink.lost(), 2);
        assert!(reported.try_recv().is_err(), "there is no way to report it yet");
        permit.send(Ok(())).unwrap();
        (&sink).write_all(b"three\n").unwrap();
        assert_eq!(writes.recv_timeout(SOON).unwrap(), b"three\n");
        assert_eq!(reported.recv_timeout(SOON), Ok(2));
    }

    #[test]
    fn the_end_waits_for_the_last_lines_but_not_for_ever() {
        let (_permit, permissions) = channel();
        let (written, _writes) = sync_channel(10);
        let sink = Sink::start(Gated { permissions, written }, |_| ()).unwrap();
        (&sink).write_all(b"one\n").unwrap();
        let began = Instant::now();
        sink.flush(Duration::from_millis(50));
        assert!(began.elapsed() >= Duration::from_millis(50) && began.elapsed() < SOON);
    }
}
