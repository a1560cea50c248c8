//! The real program: started with a configuration, read over HTTP, and stopped by its handle.

use super::PATIENCE;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::exposition::Exposition;
use super::view::View;
use super::{send_signal, wait_until};

/// Pause between two looks of `until` and similar waits.
const LOOK: Duration = Duration::from_millis(20);
/// Pause between two looks of a watch.
const WATCH: Duration = Duration::from_millis(50);
/// A pause is this many times as long as the look before it, or longer: to look at the pages of
/// many tasks without one would take a whole core from the tests at the same time.
const PAUSE_OF_LOOKS: u32 = 2;

/// A running agent. Dropping it ends exactly this process, and fails the test if it ever panicked.
pub(crate) struct Agent {
    child: Child,
    pub(crate) port: u16,
    folder: TempDir,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// A form of output that tests can wait for.
pub(crate) trait Shown {
    /// The present output.
    fn look(agent: &Agent) -> Self;
    /// A description for the message of a failed test.
    fn describe(&self) -> String;
}

impl Shown for Exposition {
    #[track_caller]
    fn look(agent: &Agent) -> Exposition {
        agent.page()
    }

    fn describe(&self) -> String {
        self.text().to_owned()
    }
}

impl Agent {
    /// Starts the program with this configuration and waits until it serves.
    #[track_caller]
    pub(crate) fn start(config: &str) -> Agent {
        Agent::start_with(config, |_| {})
    }

    /// Like `start`; `adjust` adds arguments and environment.
    #[track_caller]
    pub(crate) fn start_with(config: &str, adjust: impl FnOnce(&mut Command)) -> Agent {
        Agent::start_logging(config, "debug", "logfmt", adjust)
    }

    /// Like `start_with`, with this level and format of the log.
    #[track_caller]
    pub(crate) fn start_logging(
        config: &str,
        level: &str,
        format: &str,
        adjust: impl FnOnce(&mut Command),
    ) -> Agent {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("lockwatch.yml"), in_full(config)).unwrap();
        let mut command = program();
        command.arg("--config.file").arg(folder.path().join("lockwatch.yml"));
        command.args([
            "--web.listen-address",
            "127.0.0.1:0",
            "--log.level",
            level,
            "--log.format",
            format,
        ]);
        command.stderr(File::create(folder.path().join("log")).unwrap());
        adjust(&mut command);
        let mut agent = Agent { child: command.spawn().unwrap(), port: 0, folder };
        wait_until(PATIENCE, "the agent listens", || {
            let ended = agent.child.try_wait().unwrap();
            let log = agent.log();
            assert!(ended.is_none(), "the agent ended with {ended:?}:\n{log}");
            let listens = ["listen=127.0.0.1:", "\"listen\":\"127.0.0.1:"];
            let reported = listens.iter().find_map(|listens| Some(log.split_once(listens)?.1));
            let port = reported
                .and_then(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next());
            // The last digits of the port may still be missing.
            let whole = reported.is_some_and(|rest| rest.contains('\n'));
            agent.port = match port {
                Some(port) if whole => port.parse().unwrap(),
                _ => 0,
            };
            agent.port != 0
        });
        agent
    }

    /// A file beside the configuration.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the configuration file, without a reload.
    pub(crate) fn write_config(&self, config: &str) {
        fs::write(self.path("lockwatch.yml"), in_full(config)).unwrap();
    }

    /// The current metrics, which must be available and valid.
    #[track_caller]
    pub(crate) fn page(&self) -> Exposition {
        scrape(self.port)
    }

    /// The current exposition and JSON.
    #[track_caller]
    pub(crate) fn view(&self) -> View {
        View::look(self)
    }

    /// Waits until an exposition fulfils the condition and returns it; panics with the exposition
    /// and the log on timeout.
    #[track_caller]
    pub(crate) fn until(
        &self,
        within: Duration,
        what: &str,
        condition: impl FnMut(&Exposition) -> bool,
    ) -> Exposition {
        self.until_shown(within, what, condition)
    }

    /// The same for exposition and JSON.
    #[track_caller]
    pub(crate) fn until_view(
        &self,
        within: Duration,
        what: &str,
        condition: impl FnMut(&View) -> bool,
    ) -> View {
        self.until_shown(within, what, condition)
    }

    #[track_caller]
    fn until_shown<S: Shown>(
        &self,
        within: Duration,
        what: &str,
        mut condition: impl FnMut(&S) -> bool,
    ) -> S {
        let deadline = Instant::now() + within;
        loop {
            let began = Instant::now();
            let shown = S::look(self);
            if condition(&shown) {
                return shown;
            }
            self.check(
                &shown,
                &format!("not within {within:?}: {what}"),
                Instant::now() < deadline,
            );
            pause_after(began, LOOK);
        }
    }

    /// Polls for `time`; panics unless the condition holds every time.
    #[track_caller]
    pub(crate) fn throughout(
        &self,
        time: Duration,
        what: &str,
        mut fits: impl FnMut(&View) -> bool,
    ) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let began = Instant::now();
            let view = self.view();
            self.check(&view, &format!("not so: {what}"), fits(&view));
            pause_after(began, LOOK);
        }
    }

    /// Panics with the output and the log unless the condition is true.
    #[track_caller]
    pub(crate) fn check(&self, shown: &impl Shown, what: &str, condition: bool) {
        if !condition {
            self.fail(what, shown);
        }
    }

    /// Panics with the output and the log.
    #[track_caller]
    pub(crate) fn fail(&self, what: &str, shown: &impl Shown) -> ! {
        panic!("{what}\nit shows:\n{}\nthe log:\n{}", shown.describe(), self.log());
    }

    /// The API's JSON of one task.
    #[track_caller]
    pub(crate) fn task(&self, name: &str) -> Value {
        let mut answer: Value = self.text(&format!("/api/v1/tasks/{name}")).parse().unwrap();
        answer["task"].take()
    }

    /// The answer for this path.
    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Response {
        request(self.port, "GET", path)
    }

    /// The body of the answer for this path, whose status must be 200.
    #[track_caller]
    pub(crate) fn text(&self, path: &str) -> String {
        self.get(path).expect_ok()
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str) -> Response {
        request(self.port, "POST", path)
    }

    /// Sends this JSON. `headers` are further lines, each with its end.
    #[track_caller]
    pub(crate) fn post_json(&self, path: &str, headers: &str, body: &str) -> Response {
        let headers = format!("Content-Type: application/json\r\n{headers}");
        self.send("POST", path, &headers, body)
    }

    /// Sends a request with these headers, each with its end.
    #[track_caller]
    pub(crate) fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> Response {
        let length = body.len();
        let rest = format!("{headers}Content-Length: {length}\r\n\r\n{body}");
        exchange(self.port, &format!("{method} {path} HTTP/1.0\r\n{rest}"))
            .unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// The log so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8(fs::read(self.path("log")).unwrap()).expect("the log is UTF-8")
    }

    /// The log lines that contain all these pieces.
    pub(crate) fn log_lines(&self, pieces: &[&str]) -> Vec<String> {
        let log = self.log();
        log.lines()
            .filter(|line| pieces.iter().all(|piece| line.contains(piece)))
            .map(str::to_owned)
            .collect()
    }

    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal (`HUP`, `STOP`, `CONT`, `TERM`).
    pub(crate) fn signal(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    /// Waits until the process ends and returns its status; panics on timeout.
    #[track_caller]
    pub(crate) fn ended_within(&mut self, timeout: Duration) -> ExitStatus {
        let mut ended = None;
        wait_until(timeout, "the agent ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }

    /// Starts to poll the metrics in a thread.
    pub(crate) fn watch(&self) -> Watch {
        let ended = Arc::new(AtomicBool::new(false));
        let pages = Arc::new(Mutex::new(Vec::<(Instant, Exposition)>::new()));
        let (port, reported, kept) = (self.port, Arc::clone(&ended), Arc::clone(&pages));
        let looking = thread::spawn(move || {
            loop {
                let last = reported.load(Ordering::SeqCst);
                let began = Instant::now();
                let page = scrape(port);
                let mut pages = kept.lock().unwrap();
                if let Some(fallen) = pages.last().and_then(|(_, before)| page.fallen_since(before))
                {
                    panic!("{fallen}\n{}", page.text());
                }
                pages.push((Instant::now(), page));
                drop(pages);
                if last {
                    return;
                }
                pause_after(began, WATCH);
            }
        });
        Watch { ended, pages, looking }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        let _ended_before = self.child.kill();
        let _status = self.child.wait();
        if !thread::panicking() {
            let log = self.log();
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }

    #[track_caller]
    fn expect_ok(&self) -> String {
        let text = self.text();
        assert_eq!(self.status, 200, "{text}");
        text
    }
}

/// A thread that scrapes continuously and detects any counter or histogram that decreases.
pub(crate) struct Watch {
    ended: Arc<AtomicBool>,
    pages: Arc<Mutex<Vec<(Instant, Exposition)>>>,
    looking: JoinHandle<()>,
}

impl Watch {
    /// Waits for an exposition of the watch that fulfils the condition: a short state may be over
    /// before a separate scrape.
    #[track_caller]
    pub(crate) fn until_seen(&self, what: &str, condition: impl Fn(&Exposition) -> bool) {
        wait_until(PATIENCE, &format!("the watch sees {what}"), || {
            self.pages.lock().unwrap().iter().any(|(_, page)| condition(page))
        });
    }

    /// Stops it after a last scrape; returns all expositions in order.
    pub(crate) fn stop(self) -> Vec<Exposition> {
        self.stop_timed().into_iter().map(|(_, page)| page).collect()
    }

    /// Like `stop`, with the instant of each exposition.
    pub(crate) fn stop_timed(self) -> Vec<(Instant, Exposition)> {
        self.ended.store(true, Ordering::SeqCst);
        self.looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        std::mem::take(&mut *self.pages.lock().unwrap())
    }
}

/// The program, without the tests' environment variables that could affect it.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockwatch"));
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .current_dir(Path::new("/"));
    command
}

fn pause_after(look: Instant, least: Duration) {
    thread::sleep(least.max(look.elapsed() * PAUSE_OF_LOOKS));
}

#[track_caller]
fn scrape(port: u16) -> Exposition {
    let text = request(port, "GET", "/metrics").expect_ok();
    Exposition::parse(&text)
        .unwrap_or_else(|why| panic!("the page cannot be parsed: {why}\n{text}"))
}

#[track_caller]
pub(crate) fn request(port: u16, method: &str, path: &str) -> Response {
    try_request(port, method, path).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

pub(crate) fn try_request(port: u16, method: &str, path: &str) -> io::Result<Response> {
    exchange(port, &format!("{method} {path} HTTP/1.0\r\n\r\n"))
}

/// The response to a whole request of HTTP/1.0: it ends with the connection, and is not chunked.
fn exchange(port: u16, request: &str) -> io::Result<Response> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes)?;
    let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    let body = bytes.split_off(head_end + 4);
    let head = String::from_utf8(bytes).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Ok(Response { status, head, body })
}

/// The configuration with all metrics, unless it says which: most tests look at more than the lean
/// set.
fn in_full(config: &str) -> String {
    if config.contains("metrics:") {
        config.to_owned()
    } else {
        format!("{config}\nmetrics: full\n")
    }
}
