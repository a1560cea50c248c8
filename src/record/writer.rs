//! Writes a recording's files: rotated, of bounded total size, and without blocking the agent.
//!
//! A file is one gzip stream. Each flush completes what was compressed so far, so that a reader gets
//! every line of it although the stream has no end yet.
//!
//! After an error the file is left as it is (its last line may be torn), or removed if it holds no
//! complete line. A new one is started after [`RETRY`], and the inputs in between are counted. The
//! writer never appends to a file that an error, or another process, has left.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use lockwatch_judge::input::{Input, Topology};
use lockwatch_judge::spec::{StoreIndex, WatchSpec};
use lockwatch_judge::time::{AgentWall, Mono};

use super::redact::Redactor;
use super::wire::{Begin, FORMAT, Line, Missing, What};
use crate::text::instants::rfc3339;

/// Approximate number of files in a folder. Removing the oldest one removes this fraction of the
/// past.
const FILES: u64 = 8;
/// Maximum time that lines wait before they are written.
const FLUSH: Duration = Duration::from_millis(500);
/// Maximum size of the compressed lines that wait, in bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// Fast, because recordings repeat themselves: better levels cost several times as much.
const COMPRESSION: Compression = Compression::fast();
/// Pause after an error before the next attempt, so that a full disk is not written to constantly.
const RETRY: Duration = Duration::from_secs(10);
/// Wall clock differences up to this are noise of the measurement, in milliseconds; larger ones are
/// recorded as a step.
const WALL_NOISE_MS: u64 = 20;
/// Prefix and suffix of a recording's file name. In between are its start, the run, and its number
/// in the run.
const NAME: (&str, &str) = ("lockwatch-", ".jsonl.gz");
/// The suffix of recordings that are not compressed, as former formats were.
const PLAIN: &str = ".jsonl";

/// Where and how much to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOptions {
    /// The folder.
    pub folder: PathBuf,
    /// Maximum size of all files in the folder together, in bytes.
    pub max_bytes: u64,
}

/// A message to the writer thread.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) at: Mono,
    pub(super) wall: AgentWall,
    /// The inputs that were dropped because the queue was full.
    pub(super) missing: Option<Missing>,
    /// The dropped inputs that stay in force, such as a configuration: they are delivered late.
    pub(super) late: Vec<Input>,
    pub(super) input: Input,
    pub(super) weight: u64,
}

/// The inputs that stay in force until others replace them.
#[derive(Debug, Default)]
pub(super) struct InForce {
    config: Option<Arc<WatchSpec>>,
    topologies: BTreeMap<StoreIndex, Topology>,
}

impl InForce {
    pub(super) fn update(&mut self, input: &Input) {
        match input {
            Input::Config(config) => {
                self.config = Some(Arc::clone(config));
                self.topologies.clear();
            }
            Input::Topology(topology) => {
                self.topologies.insert(topology.store, topology.clone());
            }
            Input::Sample(_) | Input::Node(_) | Input::Tick => {}
        }
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = Input> {
        let topologies = self.topologies.values().cloned().map(Input::Topology);
        self.config.clone().map(Input::Config).into_iter().chain(topologies)
    }
}

/// Writes the messages that it receives, on a thread of its own.
pub(super) struct Writer {
    folder: PathBuf,
    max_bytes: u64,
    run: String,
    redactor: Redactor,
    in_force: InForce,
    next_file: u64,
    retry: Duration,
    /// Start of the newest file: file names must stay in order when the wall clock goes back.
    newest_wall: i64,
    state: State,
    /// The failure was logged, and nothing could be written since.
    is_failing: bool,
    missing: Option<Missing>,
}

enum State {
    /// The next line starts a file.
    Ready,
    Writing(Box<Open>),
    /// An error occurred: no new file until this instant.
    Broken {
        until: Instant,
    },
}

/// The file that is written to.
struct Open {
    path: PathBuf,
    file: File,
    written: u64,
    /// The file is full at this length, in bytes.
    limit: u64,
    /// The lines that wait, compressed.
    lines: GzEncoder<Vec<u8>>,
    /// The inputs in the buffer, including those reported as missing, and the instant of the first.
    waiting: Option<Missing>,
    /// The agent's wall clock minus its monotonic clock, as recorded last.
    offset: i64,
}

impl Writer {
    pub(super) fn new(options: &RecordOptions) -> anyhow::Result<Writer> {
        let RecordOptions { folder, max_bytes } = options;
        let whole = || format!("cannot record in {}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(whole)?;
        let run = format!("{:08x}", u32::from_be_bytes(random()?));
        let probe = folder.join(format!(".lockwatch-{run}"));
        create(&probe).and_then(|_| fs::remove_file(&probe)).with_context(whole)?;
        Ok(Writer {
            folder: folder.clone(),
            max_bytes: *max_bytes,
            run,
            redactor: Redactor::new(random()?),
            in_force: InForce::default(),
            next_file: 0,
            retry: RETRY,
            newest_wall: 0,
            state: State::Ready,
            is_failing: false,
            missing: None,
        })
    }

    /// Writes until all senders are gone.
    pub(super) fn run(&mut self, messages: &Receiver<Message>, queued: &AtomicU64) {
        let mut flushed = Instant::now();
        loop {
            match messages.recv_timeout(FLUSH) {
                Ok(message) => {
                    queued.fetch_sub(message.weight, Ordering::Relaxed);
                    self.take(message);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break self.close(),
            }
            let full = matches!(&self.state, State::Writing(open) if open.is_full());
            if full || flushed.elapsed() >= FLUSH {
                self.flush();
                flushed = Instant::now();
            }
        }
    }

    pub(super) fn take(&mut self, message: Message) {
        let Message { at, wall, missing, late, input, weight: _ } = message;
        if let Some(missing) = missing {
            tracing::warn!(
                inputs = missing.inputs,
                "the disk is too slow for the recording: inputs are missing in it"
            );
            self.miss(missing);
        }
        for input in late.into_iter().chain([input]) {
            if !self.is_in_force(&input) {
                continue;
            }
            self.in_force.update(&input);
            match self.ready(at, wall, &input) {
                true => self.write(at, wall, input),
                false => self.miss(Missing { inputs: 1, since: at.ms() }),
            }
        }
    }

    /// Whether the state considers the input: it ignores those of an earlier configuration.
    fn is_in_force(&self, input: &Input) -> bool {
        let epoch = self.in_force.config.as_ref().map_or(0, |config| config.epoch);
        match input {
            Input::Sample(sample) => sample.epoch == epoch,
            Input::Node(news) => news.epoch == epoch,
            Input::Topology(topology) => topology.epoch == epoch,
            Input::Config(_) | Input::Tick => true,
        }
    }

    /// Whether a file is open; starts one if it is time.
    fn ready(&mut self, at: Mono, wall: AgentWall, input: &Input) -> bool {
        match &self.state {
            State::Writing(open) if open.length() < open.limit => return true,
            State::Writing(_) => {
                self.close();
                if matches!(self.state, State::Broken { .. }) {
                    return false;
                }
            }
            State::Broken { until } if Instant::now() < *until => return false,
            State::Broken { .. } | State::Ready => {}
        }
        match self.begin(at, wall, input) {
            Ok(open) => {
                self.state = State::Writing(Box::new(open));
                true
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    /// Creates a file with its first lines, which are written with the next ones.
    fn begin(&mut self, at: Mono, wall: AgentWall, input: &Input) -> io::Result<Open> {
        // The first lines repeat everything in force, so that the file can be read alone.
        let context: Vec<Input> = match input {
            Input::Config(_) => Vec::new(),
            _ => self.in_force.inputs().collect(),
        };
        self.newest_wall = self.newest_wall.max(wall.0);
        let begin = Begin {
            lockwatch_recording: FORMAT,
            lockwatch: env!("CARGO_PKG_VERSION").to_owned(),
            run: self.run.clone(),
            file: self.next_file,
            at: at.ms(),
            wall: wall.0,
            continues: self.next_file > 0 && self.missing.is_none(),
            context: u32::try_from(context.len()).unwrap_or(u32::MAX),
        };
        let mut lines = GzEncoder::new(Vec::new(), COMPRESSION);
        push(&mut lines, &begin)?;
        for input in context {
            push(&mut lines, &Line(at.ms(), What::Input(input)))?;
        }
        lines.flush()?;
        let length = lines.get_ref().len() as u64;
        if length > self.max_bytes / 4 {
            return Err(io::Error::other("--record.max-size is too small for so many tasks"));
        }
        let (first, last) = NAME;
        let stamp = rfc3339(self.newest_wall).unwrap_or_default().replace([':', '-'], "");
        let path =
            self.folder.join(format!("{first}{stamp}-{}-{:06}{last}", self.run, self.next_file));
        let file = create(&path)?;
        self.next_file += 1;
        // The first lines of a file must stay a small part of it.
        let limit = (self.max_bytes / FILES).max(4 * length).min(self.max_bytes / 2);
        Ok(Open {
            path,
            file,
            written: 0,
            limit,
            lines,
            waiting: None,
            offset: wall.0.saturating_sub_unsigned(at.ms()),
        })
    }

    fn write(&mut self, at: Mono, wall: AgentWall, mut input: Input) {
        self.redactor.input(&mut input, &self.in_force.config.clone().unwrap_or_default());
        let State::Writing(open) = &mut self.state else { return };
        let offset = wall.0.saturating_sub_unsigned(at.ms());
        let moved = offset.abs_diff(open.offset) >= WALL_NOISE_MS;
        let new_wall = moved.then_some(What::Wall(wall.0));
        open.offset = if moved { offset } else { open.offset };
        let missing = self.missing.take();
        // Until the buffer is on the disk, the gap before it is not recorded either.
        let before =
            missing.as_ref().map_or((0, at.ms()), |missing| (missing.inputs, missing.since));
        let waiting = open.waiting.get_or_insert(Missing { inputs: 0, since: before.1 });
        waiting.inputs += before.0 + 1;
        let lines =
            new_wall.into_iter().chain(missing.map(What::Missing)).chain([What::Input(input)]);
        let pushed: io::Result<()> =
            lines.into_iter().try_for_each(|what| push(&mut open.lines, &Line(at.ms(), what)));
        if let Err(error) = pushed {
            self.fail(&error);
        }
    }

    /// Ends the file: the next line starts another one.
    fn close(&mut self) {
        self.flush();
        if let State::Writing(open) = &mut self.state {
            // Without its end the file can be read all the same.
            let end =
                open.lines.try_finish().and_then(|()| open.file.write_all(open.lines.get_ref()));
            match end {
                Ok(()) => self.state = State::Ready,
                Err(error) => self.fail(&error),
            }
        }
    }

    pub(super) fn flush(&mut self) {
        let State::Writing(open) = &mut self.state else { return };
        if open.waiting.is_none() {
            return;
        }
        let written = open
            .lines
            .flush()
            .and_then(|()| make_room(&self.folder, &open.path, open.length(), self.max_bytes))
            .and_then(|()| open.file.write_all(open.lines.get_ref()))
            .and_then(|()| still_there(&open.path));
        match written {
            Ok(()) => {
                open.written = open.length();
                open.lines.get_mut().clear();
                open.waiting = None;
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!(folder = %self.folder.display(), "recording goes on");
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Closes the file after an error.
    fn fail(&mut self, error: &io::Error) {
        // A full disk may accept an empty file, so creating one does not end the failure.
        if !std::mem::replace(&mut self.is_failing, true) {
            let (folder, seconds) = (self.folder.display(), self.retry.as_secs());
            tracing::error!(%folder, %error, "cannot record; it is tried again every {seconds} s");
        }
        let state = std::mem::replace(
            &mut self.state,
            State::Broken { until: Instant::now() + self.retry },
        );
        if let State::Writing(open) = state {
            // On a disk that stays full, each attempt would leave another file without a complete
            // line.
            if open.written == 0 && fs::remove_file(&open.path).is_ok() {
                self.next_file -= 1;
            }
            open.waiting.into_iter().for_each(|waiting| self.miss(waiting));
        }
    }

    fn miss(&mut self, more: Missing) {
        let missing = self.missing.get_or_insert(Missing { inputs: 0, since: more.since });
        missing.inputs += more.inputs;
        missing.since = missing.since.min(more.since);
    }
}

impl Open {
    /// Length of the file with what waits, as far as that is compressed already.
    fn length(&self) -> u64 {
        self.written + self.lines.get_ref().len() as u64
    }

    fn is_full(&self) -> bool {
        self.lines.get_ref().len() >= BUFFER_BYTES
    }
}

fn push(lines: &mut impl io::Write, line: &impl serde::Serialize) -> io::Result<()> {
    // At once: the compressor's work for each write is large.
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    lines.write_all(&text)
}

/// A new file that only its owner can read.
fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Fails if the file was removed: writes to it would succeed, and be lost.
fn still_there(path: &Path) -> io::Result<()> {
    fs::metadata(path).map(|_| ())
}

/// Removes the oldest recordings until the newest may have `length` bytes.
fn make_room(folder: &Path, newest: &Path, length: u64, max_bytes: u64) -> io::Result<()> {
    let mut others = recordings(folder)?;
    others.retain(|path| path != newest);
    others.sort_unstable();
    if length > max_bytes {
        return Err(io::Error::other("--record.max-size is too small for what is read at once"));
    }
    let size = |path: &PathBuf| fs::metadata(path).map_or(0, |metadata| metadata.len());
    let mut total: u64 = length + others.iter().map(size).sum::<u64>();
    for oldest in others {
        if total <= max_bytes {
            break;
        }
        let freed = size(&oldest);
        fs::remove_file(&oldest)?;
        total -= freed;
    }
    Ok(())
}

/// The files in a folder that are recordings by their names.
pub(super) fn recordings(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (first, last) = NAME;
    let is_one = |name: &OsStr| {
        name.to_str().is_some_and(|name| {
            name.starts_with(first) && (name.ends_with(last) || name.ends_with(PLAIN))
        })
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_one(&entry.file_name()) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Random bytes from the system.
fn random<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    use std::io::Read as _;
    let mut bytes = [0; COUNT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
impl Writer {
    /// A writer without the pause after an error, for tests.
    pub(super) fn retrying_at_once(options: &RecordOptions) -> Writer {
        Writer { retry: Duration::ZERO, ..Writer::new(options).unwrap() }
    }

    pub(super) fn redactor(&self) -> &Redactor {
        &self.redactor
    }
}
