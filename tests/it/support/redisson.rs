//! Real Redisson clients on command: starts the program in `tests/redisson` (its README lists the
//! commands), exchanges lines with it, and ends it. All calls block.

use super::PATIENCE;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::child::OwnedChild;
use super::{maven, skip};

/// Number of lines of the program's log in a failure message.
const LOG_LINES: usize = 40;
/// One JVM with any number of Redisson clients. Dropping it kills it.
pub(crate) struct Redisson {
    child: OwnedChild,
    stdin: ChildStdin,
    lines: Receiver<Value>,
    /// Events not yet requested.
    events: VecDeque<Value>,
    log: Log,
}

type Log = Arc<Mutex<VecDeque<String>>>;

impl Redisson {
    /// Builds the program if it is out of date and starts it. Without Java or Maven: reports that
    /// `test` is skipped, and returns `None`.
    pub(crate) fn start(test: &str) -> Option<Redisson> {
        if !skip::has(test, &["java", "mvn"]) {
            return None;
        }
        let mut command = maven::java("redisson", "Main");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = OwnedChild::spawn(&mut command);
        let stdin = child.stdin.take().unwrap();
        let lines = parse_lines(child.stdout.take().unwrap());
        let log = keep_log(child.stderr.take().unwrap());
        Some(Redisson { child, stdin, lines, events: VecDeque::new(), log })
    }

    /// Sends a command and returns its answer; panics if it fails or times out.
    pub(crate) fn run(&mut self, command: &str) -> Value {
        self.send(command);
        match self.answer(PATIENCE) {
            Ok(answer) => answer,
            Err(why) => self.fail(&format!("{command}: {why}")),
        }
    }

    /// Sends a command without waiting; its answer must be fetched before the next command.
    pub(crate) fn send(&mut self, command: &str) {
        assert!(!command.contains('\n'), "one command is one line");
        if let Err(e) = writeln!(self.stdin, "{command}") {
            self.fail(&format!("{command}: {e}"));
        }
    }

    /// The answer to the last command.
    ///
    /// # Errors
    ///
    /// The reason why it failed.
    pub(crate) fn answer(&mut self, timeout: Duration) -> Result<Value, String> {
        let deadline = Instant::now() + timeout;
        loop {
            let line = self.line_until(deadline)?;
            if line.get("event").is_some() {
                self.events.push_back(line);
            } else if line["ok"] == true {
                return Ok(line);
            } else {
                return Err(line["error"].to_string());
            }
        }
    }

    /// The next event of this name about this lock, which may have arrived already; panics on
    /// timeout.
    pub(crate) fn event(&mut self, name: &str, lock: &str, timeout: Duration) -> Value {
        let is_it = |line: &Value| line["event"] == name && line["lock"] == lock;
        if let Some(event) =
            self.events.iter().position(is_it).and_then(|at| self.events.remove(at))
        {
            return event;
        }
        let deadline = Instant::now() + timeout;
        loop {
            match self.line_until(deadline) {
                Ok(line) if is_it(&line) => return line,
                Ok(line) => self.events.push_back(line),
                Err(why) => self.fail(&format!("event {name} about {lock}: {why}")),
            }
        }
    }

    /// Connects a client (`options` as in the README, starting with the port) and returns its id.
    pub(crate) fn connect(&mut self, client: &str, options: &str) -> String {
        self.run(&format!("connect {client} {options}"));
        self.run(&format!("id {client}"))["id"].as_str().unwrap().to_owned()
    }

    /// Sends `SIGKILL` and waits for the end: a crash of all its clients.
    pub(crate) fn kill(&mut self) -> ExitStatus {
        self.child.kill().unwrap();
        self.child.wait().unwrap()
    }

    /// The process id, for signals.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn line_until(&mut self, deadline: Instant) -> Result<Value, String> {
        self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).map_err(|e| {
            match e {
                RecvTimeoutError::Timeout => "no answer in time".to_owned(),
                RecvTimeoutError::Disconnected => "the program has ended".to_owned(),
            }
        })
    }

    fn fail(&self, what: &str) -> ! {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        panic!(
            "{what}\nits log:\n{}",
            log.iter().fold(String::new(), |text, line| text + line + "\n")
        );
    }
}

/// Quotes a text as one word of a command.
pub(crate) fn word(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    text.bytes()
        .map(|byte| match byte {
            b'%' | b'=' | b'+' | 0..=b' ' | 0x7f.. => format!("%{byte:02X}"),
            plain => char::from(plain).to_string(),
        })
        .collect()
}

fn parse_lines(stdout: impl Read + Send + 'static) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let parsed = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
            if sender.send(parsed).is_err() {
                return;
            }
        }
    });
    receiver
}

fn keep_log(stderr: impl Read + Send + 'static) -> Log {
    let log = Log::default();
    let kept = Arc::clone(&log);
    thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            if kept.len() == LOG_LINES {
                kept.pop_front();
            }
            kept.push_back(line);
        }
    });
    log
}
