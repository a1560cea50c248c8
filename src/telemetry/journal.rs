//! The priorities by which systemd's journal tells errors from other lines: `<3>` before a line.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::fs::fstat;
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::sink::Sink;

/// The variable with which systemd names the device and the inode of the journal's socket.
const STREAM: &str = "JOURNAL_STREAM";

/// Where lines go, and whether each begins with its priority.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    pub(super) sink: Sink,
    pub(super) has_priorities: bool,
}

/// Whether this file is the journal.
pub(super) fn is_journal(file: impl AsFd) -> bool {
    let named = std::env::var(STREAM);
    let stat = fstat(file).map(|it| format!("{}:{}", it.st_dev, it.st_ino));
    matches!((named, stat), (Ok(named), Ok(stat)) if named == stat)
}

/// One line.
pub(super) struct Line<'a> {
    sink: &'a Sink,
    priority: Option<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut sink = self.sink;
        match self.priority {
            None => sink.write(line),
            Some(priority) => {
                sink.write_all(&[format!("<{priority}>").as_bytes(), line].concat())?;
                Ok(line.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As syslog numbers them.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { sink: &self.sink, priority: None }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        let priority = self.has_priorities.then(|| priority(*metadata.level()));
        Line { sink: &self.sink, priority }
    }
}
