//! The second witness: reads all locks of every server over its Unix socket, which no network fault
//! affects, and logs the changes. It never gives up on an answer: what a stopped server replies
//! when it continues is evidence too.

use std::io::Result;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::clock::{Micros, now};
use super::header::{Header, Library, ServerEntry, TaskEntry};
use super::log::Log;
use super::master::MASTER;
use super::resp::{Socket, Value, encode};

/// Switches and progress are read once in this many looks.
const SLOW_EVERY: u64 = 5;
/// How often the Sentinels are asked.
const SENTINELS_EVERY: Duration = Duration::from_millis(100);
const SENTINEL_ANSWERS_WITHIN: Duration = Duration::from_millis(50);

/// All witnesses; they end when this is dropped.
#[derive(Debug)]
pub(super) struct Witnesses {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Witnesses {
    /// Starts to look.
    ///
    /// # Errors
    /// When the logs cannot be written.
    pub(super) fn start(folder: &Path, header: &Arc<Header>) -> anyhow::Result<Witnesses> {
        let ended = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for (redis, server) in header.servers() {
            let log = Log::open(folder, &format!("look-{}.log", server.name))?;
            let watch = Watch::new(header, redis, server, log);
            let ended = Arc::clone(&ended);
            threads.push(std::thread::spawn(move || watch.run(&ended)));
        }
        for redis in header.redises.iter().filter(|redis| !redis.sentinels.is_empty()) {
            let log = Log::open(folder, &format!("sentinels-{}.log", redis.name))?;
            let (servers, sentinels) = (redis.servers.clone(), redis.sentinels.clone());
            let ended = Arc::clone(&ended);
            threads.push(std::thread::spawn(move || {
                watch_sentinels(&servers, &sentinels, &log, &ended)
            }));
        }
        Ok(Witnesses { ended, threads })
    }

    /// Stops them; no server may be stopped at this time.
    pub(super) fn stop(mut self) {
        self.ended.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}

/// The state of the witness of one server.
struct Watch {
    socket: PathBuf,
    tasks: Vec<(usize, TaskEntry)>,
    every: Duration,
    log: Log,
    fast: Vec<u8>,
    slow: Vec<u8>,
    /// What was logged last of each task: lock, switches, progress.
    known: Vec<[String; 3]>,
}

impl Watch {
    fn new(header: &Header, redis: usize, server: &ServerEntry, log: Log) -> Watch {
        let tasks: Vec<(usize, TaskEntry)> =
            header.tasks_of(redis).map(|(at, task)| (at, task.clone())).collect();
        let (mut fast, mut slow) = (Vec::new(), Vec::new());
        for (_, task) in &tasks {
            let lock = task.lock();
            let read = match task.library {
                Library::Redisson => "HKEYS",
                Library::String => "GET",
            };
            encode(&mut fast, &[read, &lock]);
            encode(&mut fast, &["PEXPIRETIME", &lock]);
            encode(&mut slow, &["HVALS", &task.switches()]);
            encode(&mut slow, &["GET", &task.progress_key()]);
        }
        encode(&mut fast, &["ROLE"]);
        let known = vec![<[String; 3]>::default(); tasks.len()];
        let every = Duration::from_millis(header.times.look);
        Watch { socket: server.socket.clone(), tasks, every, log, fast, slow, known }
    }

    fn run(mut self, ended: &AtomicBool) {
        let (mut open, mut looks) = (None, 0_u64);
        let mut next = now();
        while !ended.load(Ordering::SeqCst) {
            let period = u64::try_from(self.every.as_micros()).unwrap_or(u64::MAX);
            next = (next + period).max(now());
            let sent = now();
            match self.look(&mut open, looks % SLOW_EVERY == 0, sent) {
                Ok(()) => looks += 1,
                Err(error) => {
                    open = None;
                    looks = 0;
                    let word = error.to_string().replace([' ', '\n'], "_");
                    self.log.line(format_args!("- {sent} {} {word}", now()));
                }
            }
            std::thread::sleep(Duration::from_micros(next.saturating_sub(now())));
        }
    }

    fn look(&mut self, open: &mut Option<Socket>, slowly: bool, sent: Micros) -> Result<()> {
        if open.is_none() {
            let mut socket = Socket::connect(&self.socket)?;
            let info = socket.ask(&["INFO", "server"])?;
            let info = String::from_utf8_lossy(info.text().unwrap_or_default()).into_owned();
            let run_id = info.lines().find_map(|line| line.strip_prefix("run_id:")).unwrap_or("-");
            self.log.line(format_args!("c {} {run_id}", now()));
            *open = Some(socket);
        }
        let Some(socket) = open else { return Ok(()) };
        socket.send(&self.fast)?;
        if slowly {
            socket.send(&self.slow)?;
        }
        let mut changes = String::new();
        let mut refused = None;
        for ((at, _), known) in self.tasks.iter().zip(&mut self.known) {
            let (holder, deadline) = (socket.reply()?, socket.reply()?);
            if let Value::Error(error) = &holder {
                refused = refused.or_else(|| error.split(' ').next().map(str::to_owned));
                continue;
            }
            note(
                &mut changes,
                'l',
                *at,
                known,
                0,
                format!("{} {}", holders(&holder), number(&deadline)),
            );
        }
        let role = match socket.reply()?.list().first().and_then(Value::text) {
            Some(b"master") => "m",
            Some(_) => "s",
            None => "?",
        };
        if slowly {
            for ((at, _), known) in self.tasks.iter().zip(&mut self.known) {
                let (switches, progress) = (socket.reply()?, socket.reply()?);
                if matches!(switches, Value::Error(_)) {
                    continue;
                }
                note(&mut changes, 'w', *at, known, 1, switched(&switches).to_owned());
                note(&mut changes, 'p', *at, known, 2, word(&progress));
            }
        }
        let received = now();
        match refused {
            Some(word) => self.log.line(format_args!("- {sent} {received} {word}")),
            None => self.log.line(format_args!(
                "+ {sent} {received} {role}{}{changes}",
                if slowly { " w" } else { "" }
            )),
        }
        Ok(())
    }
}

fn note(
    changes: &mut String,
    kind: char,
    task: usize,
    known: &mut [String; 3],
    part: usize,
    value: String,
) {
    use std::fmt::Write as _;
    let Some(part) = known.get_mut(part) else { return };
    if *part != value {
        // Writing to a string cannot fail.
        let _ = write!(changes, "\n{kind} {task} {value}");
        *part = value;
    }
}

/// All holders, or `-`.
fn holders(value: &Value) -> String {
    match value {
        Value::List(fields) if !fields.is_empty() => {
            let mut words: Vec<String> = fields.iter().map(word).collect();
            words.sort_unstable();
            words.join(",")
        }
        Value::Text(_) => word(value),
        _ => "-".to_owned(),
    }
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int(number) => *number,
        _ => -2,
    }
}

/// `on`, `off`, or `-` when there is no switch.
fn switched(value: &Value) -> &'static str {
    match value.list() {
        [] => "-",
        values if values.iter().any(|value| value.text() == Some(b"1")) => "on",
        _ => "off",
    }
}

fn word(value: &Value) -> String {
    let text = String::from_utf8_lossy(value.text().unwrap_or(b"-")).into_owned();
    text.replace([' ', '\n', ','], "_")
}

/// Logs the server that most Sentinels name on each change, and each second that they were asked.
fn watch_sentinels(
    servers: &[ServerEntry],
    sentinels: &[ServerEntry],
    log: &Log,
    ended: &AtomicBool,
) {
    let (mut known, mut told) = (None, 0);
    while !ended.load(Ordering::SeqCst) {
        let votes: Vec<String> =
            sentinels.iter().filter_map(|sentinel| vote(&sentinel.socket).ok().flatten()).collect();
        let most = |name: &&ServerEntry| {
            let address = name.address.to_string();
            votes.iter().filter(|vote| **vote == address).count() * 2 > sentinels.len()
        };
        let named = servers.iter().find(most).map_or("-", |server| server.name.as_str());
        if known.as_deref() != Some(named) || now() > told + 1_000_000 {
            log.line(format_args!("{} {named}", now()));
            (known, told) = (Some(named.to_owned()), now());
        }
        std::thread::sleep(SENTINELS_EVERY);
    }
}

/// The address that one Sentinel reports as the master.
fn vote(socket: &Path) -> Result<Option<String>> {
    let stream = std::os::unix::net::UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(SENTINEL_ANSWERS_WITHIN))?;
    let mut socket = Socket::over(stream);
    let answer = socket.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER])?;
    let words: Vec<String> = answer.list().iter().map(word).collect();
    Ok((words.len() == 2).then(|| words.join(":")))
}
