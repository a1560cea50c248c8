//! Reads recordings back: which files belong together, and what they say, input by input.
//!
//! A file is read line by line, so that the memory it takes does not grow with it. A last line
//! without an end was torn by a crash and is left out; anything else that cannot be understood is a
//! mistake with a file and a line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use lockwatch_model::input::Input;
use lockwatch_model::spec::WatchSpec;
use lockwatch_model::time::{AgentWall, Mono};

use super::pack::Unpacker;
use super::wire::{Begin, FORMAT, Line, Version, What};
use super::writer::recordings;
use crate::terminal::safe;

/// No line of ours is longer.
const LINE_BYTES_MAX: u64 = 1 << 30;
const BUFFER_BYTES: usize = 1 << 18;

/// What one process recorded, as far as it is there.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// What its files have in common.
    pub(crate) id: String,
    /// The version of the program.
    pub(crate) lockwatch: String,
    /// Its files in their order.
    files: Vec<(PathBuf, Begin)>,
}

/// What a run tells.
#[derive(Debug)]
pub(crate) enum Entry {
    /// The state took this in.
    Input(Input),
    /// This is in force, and has been for longer than the recording lasts.
    Context(Input),
    /// So many inputs are missing, from this instant on (`None`: nobody knows how many).
    Missing { inputs: Option<u64>, since: Mono },
    /// The end of a file was lost in a crash.
    Torn,
}

/// The instant of something told, on both clocks of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instant {
    pub(crate) at: Mono,
    /// Wall clock minus the other one.
    offset: i64,
}

impl Instant {
    /// The wall clock at `instant`, which is about now.
    pub(crate) fn wall(self, instant: Mono) -> AgentWall {
        AgentWall(self.offset.saturating_add_unsigned(instant.0))
    }
}

impl Run {
    /// Nothing is known of what came before its first file.
    pub(crate) fn begins_in_the_middle(&self) -> bool {
        self.files.first().is_some_and(|(_, begin)| begin.file > 0)
    }

    /// Its files in their order.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Every configuration that was in force, without a look at anything else.
    ///
    /// # Errors
    /// A file cannot be read, or understood.
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

    /// Tells everything in its order; an error of `listener` ends it.
    ///
    /// # Errors
    /// A file cannot be read, or understood.
    pub(crate) fn tell(
        &self,
        mut listener: impl FnMut(Instant, Entry) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut newest: Option<(u64, Mono)> = None;
        for (path, begin) in &self.files {
            let follows = newest.is_some_and(|(file, _)| file.checked_add(1) == Some(begin.file));
            if let Some((_, since)) = newest.filter(|_| !follows) {
                let instant = Instant { at: Mono(begin.at), offset: offset(begin.wall, begin.at) };
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

/// Tells one file; says when its last line was. `known`: what was in force when it began.
fn tell_file(
    path: &Path,
    begin: &Begin,
    known: bool,
    listener: &mut impl FnMut(Instant, Entry) -> anyhow::Result<()>,
) -> anyhow::Result<Mono> {
    let mut lines = Lines::open(path)?;
    let mut unpacker = Unpacker::default();
    let mut instant = Instant { at: Mono(begin.at), offset: offset(begin.wall, begin.at) };
    let mut context_left = begin.context;
    let _begin = lines.next()?;
    while let Some(text) = lines.next()? {
        let Line(at, what) =
            serde_json::from_slice(text).map_err(|error| mistake(path, lines.number, &error))?;
        if at < instant.at.0 {
            bail!("{}, line {}: goes back in time", path.display(), lines.number);
        }
        instant.at = Mono(at);
        match what {
            What::Wall(wall) => instant.offset = offset(wall, at),
            What::Missing(missing) => {
                listener(
                    instant,
                    Entry::Missing { inputs: Some(missing.inputs), since: Mono(missing.since) },
                )?;
            }
            what => {
                let unpacked = unpacker.unpack(what).map_err(|why| {
                    let why = why.to_string();
                    anyhow!("{}, line {}: {}", path.display(), lines.number, safe(&why))
                })?;
                let is_context = context_left > 0;
                context_left = context_left.saturating_sub(1);
                match unpacked {
                    Some(_) if is_context && known => {}
                    Some(input) if is_context => listener(instant, Entry::Context(input))?,
                    Some(input) => listener(instant, Entry::Input(input))?,
                    None => {}
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
    // The parser counts lines too, but sees only one.
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or(&text);
    // It may name a field of the file, which may be anything.
    anyhow!("{}, line {line}, column {}: {}", path.display(), error.column(), safe(text))
}

/// The lines of a file that have an end.
struct Lines {
    reader: BufReader<File>,
    path: PathBuf,
    line: Vec<u8>,
    /// Of the newest line.
    number: u64,
    /// There is something after the last end of a line.
    torn: bool,
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Lines> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, file);
        Ok(Lines { reader, path: path.to_owned(), line: Vec::new(), number: 0, torn: false })
    }

    fn next(&mut self) -> anyhow::Result<Option<&[u8]>> {
        use std::io::Read as _;
        self.line.clear();
        let read = self.reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line);
        self.number += 1;
        read.with_context(|| format!("cannot read {}, line {}", self.path.display(), self.number))?;
        self.torn = !self.line.is_empty() && self.line.last() != Some(&b'\n');
        Ok((self.line.last() == Some(&b'\n')).then_some(&self.line))
    }
}

/// The runs in these files and folders, oldest first, and the files of which there is nothing but a
/// torn beginning.
///
/// # Errors
/// One cannot be read, or is no recording that this version knows.
pub(crate) fn find(paths: &[PathBuf]) -> anyhow::Result<(Vec<Run>, Vec<PathBuf>)> {
    let mut runs: BTreeMap<String, BTreeMap<u64, (PathBuf, Begin)>> = BTreeMap::new();
    let mut empty = Vec::new();
    for (path, named) in expand(paths)? {
        match begin(&path) {
            // The same file twice is told once.
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

/// All files, and whether they were named themselves.
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
            bail!("{} holds no recording (lockwatch-….jsonl)", path.display());
        }
        found.sort_unstable();
        files.extend(found.into_iter().map(|path| (path, false)));
    }
    Ok(files)
}

/// A file's first line; `None` when even that is torn.
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
             use the one that recorded it",
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

/// An agent that still records removes its oldest file now and then.
fn is_gone(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}
