//! The real program: started with a configuration, scraped as Prometheus would, and stopped by its handle.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::page::Page;

/// How long the program may take to start, and any answer of it to come.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How often a watch looks.
const WATCH: Duration = Duration::from_millis(50);

/// A running agent. Dropping it ends exactly this process.
pub(crate) struct Agent {
    child: Child,
    port: u16,
    log: Log,
    /// Where its configuration lies.
    _directory: TempDir,
}

type Log = Arc<Mutex<Vec<String>>>;

impl Agent {
    /// Starts the program with this configuration and waits until it serves.
    pub(crate) fn start(config: &str) -> Agent {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("lockwatch.yml");
        fs::write(&file, config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockwatch"));
        command.arg("--config.file").arg(file).args(["--web.listen-address", "127.0.0.1:0", "--log.level", "debug"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = keep(child.stderr.take().unwrap());
        let mut agent = Agent { child, port: 0, log, _directory: directory };
        let deadline = Instant::now() + PATIENCE;
        while agent.port == 0 {
            let ended = agent.child.try_wait().unwrap();
            let late = Instant::now() > deadline;
            assert!(ended.is_none() && !late, "it does not serve ({ended:?}); its log:\n{}", agent.log());
            let log = agent.log();
            let port = log.split_once("listen=127.0.0.1:").and_then(|(_, rest)| rest.split_whitespace().next());
            agent.port = port.map_or(0, |port| port.parse().unwrap());
            thread::sleep(LOOK);
        }
        agent
    }

    /// The metrics now.
    #[track_caller]
    pub(crate) fn page(&self) -> Page {
        scrape(self.port)
    }

    /// Waits until a page fulfils the condition and returns it; panics with the page and the log if none does in time.
    #[track_caller]
    pub(crate) fn until(&self, within: Duration, what: &str, condition: impl Fn(&Page) -> bool) -> Page {
        let deadline = Instant::now() + within;
        loop {
            let page = self.page();
            if condition(&page) {
                return page;
            }
            if Instant::now() > deadline {
                self.fail(&format!("not within {within:?}: {what}"), &page);
            }
            thread::sleep(LOOK);
        }
    }

    /// Panics with this page and the log unless the condition is true.
    #[track_caller]
    pub(crate) fn check(&self, page: &Page, what: &str, condition: bool) {
        if !condition {
            self.fail(what, page);
        }
    }

    /// Panics with this page and the log.
    #[track_caller]
    pub(crate) fn fail(&self, what: &str, page: &Page) -> ! {
        panic!("{what}\nthe page:\n{}\nthe log:\n{}", page.text(), self.log());
    }

    /// One task as the API tells it.
    #[track_caller]
    pub(crate) fn task(&self, name: &str) -> Value {
        let mut answer: Value = serde_json::from_str(&get(self.port, &format!("/api/v1/tasks/{name}"))).unwrap();
        answer["task"].take()
    }

    /// The body of the answer to this path.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> String {
        get(self.port, path)
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).concat()
    }

    /// The lines of the log that have all these pieces.
    pub(crate) fn log_lines(&self, pieces: &[&str]) -> Vec<String> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.iter().filter(|line| pieces.iter().all(|piece| line.contains(piece))).cloned().collect()
    }

    /// The process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Looks at the metrics all the time from now on.
    pub(crate) fn watch(&self) -> Watch {
        let ended = Arc::new(AtomicBool::new(false));
        let (port, told) = (self.port, Arc::clone(&ended));
        let looking = thread::spawn(move || {
            let mut pages: Vec<Page> = Vec::new();
            loop {
                let last = told.load(Ordering::SeqCst);
                let page = scrape(port);
                if let Some(fallen) = pages.last().and_then(|before| page.fallen_since(before)) {
                    panic!("{fallen}\n{}", page.text());
                }
                pages.push(page);
                if last {
                    return pages;
                }
                thread::sleep(WATCH);
            }
        });
        Watch { ended, looking }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ended_before = self.child.kill();
        let _status = self.child.wait();
    }
}

/// A thread that scrapes all the time, and finds any counter or histogram that falls.
pub(crate) struct Watch {
    ended: Arc<AtomicBool>,
    looking: JoinHandle<Vec<Page>>,
}

impl Watch {
    /// Ends it with a last look; everything that it saw, in order.
    pub(crate) fn stop(self) -> Vec<Page> {
        self.ended.store(true, Ordering::SeqCst);
        self.looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[track_caller]
fn scrape(port: u16) -> Page {
    let text = get(port, "/metrics");
    Page::parse(&text).unwrap_or_else(|why| panic!("the page cannot be parsed: {why}\n{text}"))
}

/// Asks for a path and returns the body of the answer, which must be 200.
#[track_caller]
fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no whole answer: {answer:?}"));
    assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    match head.to_ascii_lowercase().contains("\r\ntransfer-encoding: chunked") {
        true => join_chunks(body),
        false => body.to_owned(),
    }
}

fn join_chunks(mut rest: &str) -> String {
    let mut body = String::new();
    loop {
        let (length, after) = rest.split_once("\r\n").unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.push_str(&after[..length]);
        rest = after[length..].strip_prefix("\r\n").unwrap();
    }
}

fn keep(stderr: ChildStderr) -> Log {
    let log = Log::default();
    let kept = Arc::clone(&log);
    thread::spawn(move || {
        let mut reader = BufReader::new(stderr);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(String::from_utf8_lossy(&line).into_owned());
            line.clear();
        }
    });
    log
}
