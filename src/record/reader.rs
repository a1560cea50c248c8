//! Reads recordings back: groups files by run and returns their entries in order.
//!
//! A file is read line by line, so that memory use does not grow with its size. It may be
//! decompressed already. A last line without a newline was torn by a crash and is skipped; any other
//! invalid content is an error with file and line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use flate2::bufread::GzDecoder;
use lockwatch_judge::input::Input;
use lockwatch_judge::spec::WatchSpec;
use lockwatch_judge::time::{AgentWall, Mono};

use super::wire::{Begin, FORMAT, Line, Version, What};
use super::writer::recordings;
use crate::text::terminal::safe;

/// Maximum length of a line in bytes. The writer never produces a longer one; the limit bounds
/// memory use for other files.
const LINE_BYTES_MAX: u64 = 1 << 30;
const BUFFER_BYTES: usize = 1 << 18;
/// The first bytes of a compressed file.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The recording of one process, as far as its files exist.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The id that all its files share.
    pub(crate) id: String,
    /// The version of the program.
    pub(crate) lockwatch: String,
    /// Its files in order.
    files: Vec<(PathBuf, Begin)>,
}

/// An entry of a run.
#[derive(Debug)]
pub(crate) enum Entry {
    /// An input that the state took in.
    Input(Input),
    /// An input that was in force before the recording, or this file, began.
    Context(Input),
    /// Inputs that are missing from this instant on, and their number if known.
    Missing { inputs: Option<u64>, since: Mono },
    /// The end of a file was lost in a crash.
    Torn,
}

/// The instant of an entry, on both clocks of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    pub(crate) at: Mono,
    /// Wall clock minus monotonic clock, in milliseconds.
    offset: i64,
}

impl Instant {
    /// The wall clock at `instant`, which must be close to this one.
    pub(crate) fn wall(self, instant: Mono) -> AgentWall {
        AgentWall(self.offset.saturating_add_unsigned(instant.ms()))
    }
}

impl Run {
    /// Whether the run's first file is missing, so that its earlier state is unknown.
    pub(crate) fn begins_in_the_middle(&self) -> bool {
        self.files.first().is_some_and(|(_, begin)| begin.file > 0)
    }

    /// Its files in their order.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Every configuration that was in force; other entries are skipped.
    ///
    /// # Errors
    /// A file cannot be read or parsed.
    pub(crate) fn configs(&self) -> anyhow::Result<Vec<Arc<WatchSpec>>> {
        let mut configs: Vec<Arc<WatchSpec>> = Vec::new();
        for (path, _) in &self.files {
            let mut lines = match Lines::open(path) {
                Err(error) if is_gone(&error) => continue,
                lines => lines?,
            };
            while let Some(text) = lines.next()? {
                let what = text
                    .iter()
                    .position(|byte| *byte == b',')
                    .and_then(|comma| text.get(comma + 1..));
                if !what.is_some_and(|what| what.starts_with(b"{\"input\":{\"config\"")) {
                    continue;
                }
                let line = serde_json::from_slice(text)
                    .map_err(|error| mistake(path, lines.number, &error))?;
                if let Line(_, What::Input(Input::Config(config))) = line
                    && !configs.contains(&config)
                {
                    configs.push(config);
                }
            }
        }
        Ok(configs)
    }

    /// Passes all entries to `listener` in order, and stops at its first error.
    ///
    /// # Errors
    /// A file cannot be read or parsed, or `listener` failed.
    pub(crate) fn each(
        &self,
        mut listener: impl FnMut(Instant, Entry) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut newest: Option<(u64, Mono)> = None;
        for (path, begin) in &self.files {
            let follows = newest.is_some_and(|(file, _)| file.checked_add(1) == Some(begin.file));
            if let Some((_, since)) = newest
                && !follows
            {
                let instant =
                    Instant { at: Mono::at(begin.at), offset: offset(begin.wall, begin.at) };
                listener(instant, Entry::Missing { inputs: None, since })?;
            }
            let known = follows && begin.continues;
            match tell_file(path, begin, known, &mut listener) {
                Ok(last) => newest = Some((begin.file, last)),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn offset(wall: i64, at: u64) -> i64 {
    wall.saturating_sub_unsigned(at)
}

/// Reads one file and returns the instant of its last line. `known`: the inputs in force when it
/// began.
fn tell_file(
    path: &Path,
    begin: &Begin,
    known: bool,
    listener: &mut impl FnMut(Instant, Entry) -> anyhow::Result<()>,
) -> anyhow::Result<Mono> {
    let mut lines = Lines::open(path)?;
    let mut instant = Instant { at: Mono::at(begin.at), offset: offset(begin.wall, begin.at) };
    let mut context_left = begin.context;
    let _begin = lines.next()?;
    while let Some(text) = lines.next()? {
        let Line(at, what) =
            serde_json::from_slice(text).map_err(|error| mistake(path, lines.number, &error))?;
        if at < instant.at.ms() {
            bail!("{}, line {}: goes back in time", path.display(), lines.number);
        }
        instant.at = Mono::at(at);
        match what {
            What::Wall(wall) => instant.offset = offset(wall, at),
            What::Missing(missing) => {
                listener(
                    instant,
                    Entry::Missing { inputs: Some(missing.inputs), since: Mono::at(missing.since) },
                )?;
            }
            What::Input(input) => {
                let is_context = context_left > 0;
                context_left = context_left.saturating_sub(1);
                match is_context {
                    true if known => {}
                    true => listener(instant, Entry::Context(input))?,
                    false => listener(instant, Entry::Input(input))?,
                }
            }
        }
    }
    if lines.torn {
        listener(instant, Entry::Torn)?;
    }
    Ok(instant.at)
}

fn mistake(path: &Path, line: u64, error: &serde_json::Error) -> anyhow::Error {
    // The parser also counts lines, but it sees only one at a time.
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    // The message may quote a field of the file, which may hold anything.
    anyhow!("{}, line {line}, column {}: {}", path.display(), error.column(), safe(text))
}

/// The complete lines of a file.
struct Lines {
    reader: Box<dyn BufRead>,
    path: PathBuf,
    line: Vec<u8>,
    /// The number of the newest line.
    number: u64,
    /// Whether data follows the last newline.
    torn: bool,
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Lines> {
        let cannot = || format!("cannot read {}", path.display());
        let file = File::open(path).with_context(cannot)?;
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        // A crash may have left less than both bytes.
        let is_gzip = file.fill_buf().with_context(cannot)?.iter().zip(GZIP).all(|(a, b)| *a == b);
        let reader: Box<dyn BufRead> = match is_gzip {
            true => Box::new(BufReader::with_capacity(BUFFER_BYTES, GzDecoder::new(file))),
            false => Box::new(file),
        };
        Ok(Lines { reader, path: path.to_owned(), line: Vec::new(), number: 0, torn: false })
    }

    fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        self.line.clear();
        self.number += 1;
        match (&mut self.reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line) {
            // A compressed file whose writer was killed, or goes on, has no end.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {}
            read => drop(read.with_context(|| {
                format!("cannot read {}, line {}", self.path.display(), self.number)
            })?),
        }
        self.torn = !self.line.is_empty() && self.line.last() != Some(&b'\n');
        Ok((self.line.last() == Some(&b'\n')).then_some(&self.line))
    }
}

/// The runs in these files and folders, oldest first, and the files that hold only a torn first
/// line.
///
/// # Errors
/// A path cannot be read, or is not a recording in a known format.
pub(crate) fn find(paths: &[PathBuf]) -> anyhow::Result<(Vec<Run>, Vec<PathBuf>)> {
    let mut runs: BTreeMap<String, BTreeMap<u64, (PathBuf, Begin)>> = BTreeMap::new();
    let mut empty = Vec::new();
    for (path, named) in expand(paths)? {
        match begin(&path) {
            // A file that is named twice is read once.
            Ok(Some(begin)) => {
                drop(runs.entry(begin.run.clone()).or_default().insert(begin.file, (path, begin)))
            }
            Ok(None) => empty.push(path),
            Err(error) if is_gone(&error) && !named => {}
            Err(error) => return Err(error),
        }
    }
    let run = |(id, files): (String, BTreeMap<u64, (PathBuf, Begin)>)| {
        let files: Vec<_> = files.into_values().collect();
        let lockwatch = files.first().map(|(_, begin)| begin.lockwatch.clone()).unwrap_or_default();
        Run { id, lockwatch, files }
    };
    let mut runs: Vec<Run> = runs.into_iter().map(run).collect();
    runs.sort_by_key(|run| run.files.first().map(|(_, begin)| begin.wall));
    Ok((runs, empty))
}

/// All files, each with whether it was named explicitly.
fn expand(paths: &[PathBuf]) -> anyhow::Result<Vec<(PathBuf, bool)>> {
    let mut files = Vec::new();
    for path in paths {
        let cannot = || format!("cannot read {}", path.display());
        if !std::fs::metadata(path).with_context(cannot)?.is_dir() {
            files.push((path.clone(), true));
            continue;
        }
        let mut found = recordings(path).with_context(cannot)?;
        if found.is_empty() {
            bail!("{} holds no recording (lockwatch-….jsonl.gz)", path.display());
        }
        found.sort_unstable();
        files.extend(found.into_iter().map(|path| (path, false)));
    }
    Ok(files)
}

/// A file's first line; `None` if that is torn.
fn begin(path: &Path) -> anyhow::Result<Option<Begin>> {
    let mut lines = Lines::open(path)?;
    let Some(first) = lines.next()?.map(<[u8]>::to_vec) else {
        return match begins_like_ours(&lines.line) {
            true => Ok(None),
            false => bail!("{}, line 1: is no recording of lockwatch", path.display()),
        };
    };
    let Ok(Version { lockwatch_recording: version }) = serde_json::from_slice(&first) else {
        bail!("{}, line 1: is no recording of lockwatch", path.display());
    };
    if version != FORMAT {
        bail!(
            "{}, line 1: is in format {version}, and this lockwatch ({}) reads format {FORMAT}; \
             replay it with the version that recorded it, or remove it",
            path.display(),
            env!("CARGO_PKG_VERSION")
        );
    }
    serde_json::from_slice(&first).map(Some).map_err(|error| mistake(path, 1, &error))
}

/// Whether a torn first line can be one of a recording.
fn begins_like_ours(line: &[u8]) -> bool {
    const BEGINNING: &[u8] = b"{\"lockwatch_recording\":";
    line.iter().zip(BEGINNING).all(|(a, b)| a == b)
}

/// Whether the file was removed: an agent that is recording removes its oldest file when it
/// rotates.
fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}
