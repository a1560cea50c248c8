//! Between who logs and where the lines go: nobody who logs ever waits or fails, whatever becomes
//! of standard error.
//!
//! A pipe that nobody reads, a terminal that was stopped, or a full disk would else stop the agent,
//! or end it. A thread of its own writes; what finds no room is lost, counted, and told once there
//! is room again.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;

/// Most bytes that may wait to be written.
const WAITING_BYTES_MAX: usize = 256 << 10;

/// Takes lines in, each by one call of `write`.
#[derive(Clone, Debug, Default)]
pub(super) struct Sink(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// There is something to be written.
    filled: Condvar,
    /// All is written.
    emptied: Condvar,
    /// Lines that were never written.
    lost: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    lines: Vec<u8>,
    /// Lines before them are being written.
    is_writing: bool,
}

impl Sink {
    /// Starts the thread that writes to `output`; after a loss `tell` is called with how many lines
    /// were lost, once some could be written again. What it logs goes the same way.
    pub(super) fn start(
        &self,
        output: impl Write + Send + 'static,
        tell: impl Fn(u64) + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(&self.0);
        thread::Builder::new().name(String::from("log")).spawn(move || shared.run(output, tell))?;
        Ok(())
    }

    /// How many lines were lost so far.
    pub(super) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written, but no longer than `most`.
    pub(super) fn flush(&self, most: Duration) {
        let waiting = self.0.waiting();
        let is_busy = |waiting: &mut Waiting| waiting.is_writing || !waiting.lines.is_empty();
        // Whether it took too long makes no difference: there is nobody left to be told.
        drop(self.0.emptied.wait_timeout_while(waiting, most, is_busy));
    }
}

impl Shared {
    fn run(&self, mut output: impl Write, tell: impl Fn(u64)) {
        let mut told = 0;
        let mut lines = Vec::new();
        loop {
            lines.clear();
            let mut waiting = self.waiting();
            while waiting.lines.is_empty() {
                waiting = self.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut waiting.lines, &mut lines);
            waiting.is_writing = true;
            drop(waiting);
            let is_written =
                write_lines(&mut output, &lines).map_err(|lost| self.lose(lost)).is_ok();
            let lost = self.lost.load(Ordering::Relaxed);
            if is_written && lost > told {
                tell(lost - told);
                told = lost;
            }
            self.waiting().is_writing = false;
            self.emptied.notify_all();
        }
    }

    fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes all of `lines`, or says how many were not written as a whole.
fn write_lines(output: &mut impl Write, lines: &[u8]) -> Result<(), u64> {
    let mut rest = lines;
    while !rest.is_empty() {
        match output.write(rest) {
            Ok(0) => return Err(count(rest)),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(count(rest)),
        }
    }
    Ok(())
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|byte| **byte == b'\n').count() as u64
}

impl Write for &Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.0.waiting();
        if waiting.lines.len() + line.len() > WAITING_BYTES_MAX {
            drop(waiting);
            self.0.lose(1);
        } else {
            waiting.lines.extend_from_slice(line);
            drop(waiting);
            self.0.filled.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = &'a Sink;

    fn make_writer(&'a self) -> &'a Sink {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};

    use super::*;

    /// Soon enough on any machine.
    const SOON: Duration = Duration::from_secs(30);

    /// An output that takes in one write for each permission, or fails.
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
        let (tell, told) = channel();
        let sink = Sink::default();
        sink.start(Gated { permissions, written }, move |lost| tell.send(lost).unwrap()).unwrap();
        let line = [vec![b'x'; 1_023], vec![b'\n']].concat();
        let lines = 3 * WAITING_BYTES_MAX / line.len();
        for _ in 0..lines {
            (&sink).write_all(&line).unwrap();
        }
        let lost = sink.lost();
        assert!(lost >= lines as u64 / 3 && lost < lines as u64, "{lost} of {lines}");
        // What did find room comes whole and in order.
        let mut kept = 0;
        while kept < lines - usize::try_from(lost).unwrap() {
            permit.send(Ok(())).unwrap();
            let bytes = writes.recv_timeout(SOON).unwrap();
            assert_eq!(bytes.len() % line.len(), 0);
            kept += bytes.len() / line.len();
        }
        assert_eq!(told.recv_timeout(SOON), Ok(lost));
        sink.flush(SOON);
        assert_eq!(sink.lost(), lost);
    }

    #[test]
    fn an_output_that_fails_ends_nothing() {
        let (permit, permissions) = channel();
        let (written, writes) = sync_channel(10);
        let (tell, told) = channel();
        let sink = Sink::default();
        sink.start(Gated { permissions, written }, move |lost| tell.send(lost).unwrap()).unwrap();
        permit.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        (&sink).write_all(b"one\ntwo\n").unwrap();
        sink.flush(SOON);
        assert_eq!(sink.lost(), 2);
        assert!(told.try_recv().is_err(), "there is no way to tell it yet");
        permit.send(Ok(())).unwrap();
        (&sink).write_all(b"three\n").unwrap();
        assert_eq!(writes.recv_timeout(SOON).unwrap(), b"three\n");
        assert_eq!(told.recv_timeout(SOON), Ok(2));
    }

    #[test]
    fn the_end_waits_for_the_last_lines_but_not_for_ever() {
        let (_permit, permissions) = channel();
        let (written, _writes) = sync_channel(10);
        let sink = Sink::default();
        sink.start(Gated { permissions, written }, |_| ()).unwrap();
        (&sink).write_all(b"one\n").unwrap();
        let began = std::time::Instant::now();
        sink.flush(Duration::from_millis(50));
        assert!(began.elapsed() >= Duration::from_millis(50) && began.elapsed() < SOON);
    }
}
