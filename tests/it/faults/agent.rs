//! The real program as a child process, and what it shows: the metrics page, read strictly, and the JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{send_signal, wait_until};

/// Longer than anything should take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// A running agent. Dropping it kills it, and fails the test if it ever panicked.
pub(crate) struct Agent {
    child: Child,
    pub(crate) port: u16,
    folder: TempDir,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// What the agent shows at about one instant.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) page: Page,
    pub(crate) json: Value,
}

impl Agent {
    /// Starts the agent with this configuration.
    pub(crate) fn start(config: &str) -> Agent {
        Agent::start_with(config, |_| {})
    }

    /// The same; `adjust` adds arguments and environment.
    pub(crate) fn start_with(config: &str, adjust: impl FnOnce(&mut Command)) -> Agent {
        let folder = TempDir::new().unwrap();
        std::fs::write(folder.path().join("lockwatch.yml"), config).unwrap();
        let mut command = program();
        command.arg("--config.file").arg(folder.path().join("lockwatch.yml"));
        command.args(["--web.listen-address", "127.0.0.1:0"]);
        command.stderr(File::create(folder.path().join("log")).unwrap());
        adjust(&mut command);
        let mut agent = Agent { child: command.spawn().unwrap(), port: 0, folder };
        wait_until(PATIENCE, "the agent listens", || {
            let log = agent.log();
            let ended = agent.child.try_wait().unwrap();
            assert!(ended.is_none(), "the agent ended with {ended:?}:\n{log}");
            let port = log.split("listen=127.0.0.1:").nth(1).and_then(|rest| rest.split_whitespace().next());
            agent.port = port.map_or(0, |port| port.parse().unwrap());
            agent.port != 0
        });
        agent
    }

    /// A file beside the configuration.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the configuration file; nothing is reloaded.
    pub(crate) fn write_config(&self, config: &str) {
        std::fs::write(self.path("lockwatch.yml"), config).unwrap();
    }

    /// All that it logged so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8(std::fs::read(self.path("log")).unwrap()).expect("the log is UTF-8")
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        self.request("GET", path).unwrap_or_else(|error| panic!("GET {path}: {error}\n{}", self.log()))
    }

    pub(crate) fn post(&self, path: &str) -> Response {
        self.request("POST", path).unwrap_or_else(|error| panic!("POST {path}: {error}\n{}", self.log()))
    }

    fn request(&self, method: &str, path: &str) -> std::io::Result<Response> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        // HTTP/1.0: the response ends with the connection, and is in one piece.
        write!(stream, "{method} {path} HTTP/1.0\r\n\r\n")?;
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes)?;
        let head_end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
        let status = std::str::from_utf8(&bytes[..head_end]).unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        Ok(Response { status, body: bytes.split_off(head_end + 4) })
    }

    /// The metrics page; it must be there and be valid.
    pub(crate) fn page(&self) -> Page {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200, "{}", response.text());
        Page::parse(&response.text()).unwrap_or_else(|wrong| panic!("{wrong}\n{}", response.text()))
    }

    /// Page and JSON.
    pub(crate) fn view(&self) -> View {
        let tasks = self.get("/api/v1/tasks");
        assert_eq!(tasks.status, 200, "{}", tasks.text());
        View { page: self.page(), json: serde_json::from_slice(&tasks.body).expect("JSON") }
    }

    /// Waits until what it shows fits; panics with what it showed last, and its log.
    #[track_caller]
    pub(crate) fn wait_until(&self, timeout: Duration, what: &str, mut fits: impl FnMut(&View) -> bool) -> View {
        let deadline = Instant::now() + timeout;
        loop {
            let view = self.view();
            if fits(&view) {
                return view;
            }
            assert!(Instant::now() < deadline, "not within {timeout:?}: {what}\n{}\n{}", view.describe(), self.log());
            std::thread::sleep(LOOK);
        }
    }

    /// Looks again and again for `time`; panics unless everything it shows fits.
    #[track_caller]
    pub(crate) fn throughout(&self, time: Duration, what: &str, mut fits: impl FnMut(&View) -> bool) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            let view = self.view();
            assert!(fits(&view), "not so: {what}\n{}\n{}", view.describe(), self.log());
            std::thread::sleep(LOOK);
        }
    }

    /// Sends a signal (`HUP`, `STOP`, `CONT`, `TERM`).
    pub(crate) fn signal(&self, name: &str) {
        send_signal(self.child.id(), name);
    }

    /// How it ended, if it did within `timeout`.
    pub(crate) fn ended_within(&mut self, timeout: Duration) -> ExitStatus {
        let mut ended = None;
        wait_until(timeout, "the agent ends", || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ended_before = self.child.kill();
        let _status = self.child.wait();
        if !std::thread::panicking() {
            let log = self.log();
            assert!(!log.contains("panicked"), "{log}");
        }
    }
}

impl Response {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("UTF-8")
    }
}

impl View {
    /// One task's JSON.
    pub(crate) fn task(&self, name: &str) -> &Value {
        let tasks = self.json["tasks"].as_array().unwrap();
        tasks.iter().find(|task| task["name"] == name).unwrap_or_else(|| panic!("no task {name}: {}", self.json))
    }

    /// `lockwatch_lock_held`; `None` when it is absent.
    pub(crate) fn held(&self, task: &str) -> Option<f64> {
        self.page.value("lockwatch_lock_held", &[("task", task)])
    }

    pub(crate) fn verdict(&self, task: &str) -> String {
        let states = self.page.series("lockwatch_task_state", &[("task", task)]);
        assert_eq!(states.len(), 8, "all verdicts are there");
        let present: Vec<_> = states.iter().filter(|(_, value)| ***value == 1.0).collect();
        assert_eq!(present.len(), 1, "exactly one verdict");
        present[0].0["state"].clone()
    }

    /// Why the lock is unknown.
    pub(crate) fn reason(&self, task: &str) -> Option<&str> {
        self.task(task)["lock"]["unknown"]["reason"].as_str()
    }

    /// A duration or counter of a task by the middle of its name: `down_seconds`.
    pub(crate) fn of_task(&self, task: &str, name: &str) -> f64 {
        let name = format!("lockwatch_task_{name}");
        self.page.value(&name, &[("task", task)]).unwrap_or_else(|| panic!("{name} of {task} is absent"))
    }

    /// A counter of a lock, all its series added up: `ends_total`.
    pub(crate) fn of_lock(&self, task: &str, name: &str) -> f64 {
        let series = self.page.series(&format!("lockwatch_lock_{name}"), &[("task", task)]);
        assert!(!series.is_empty(), "lockwatch_lock_{name} of {task} is absent");
        series.values().copied().sum()
    }

    /// `lockwatch_redis_errors_total`.
    pub(crate) fn errors(&self, redis: &str, reason: &str) -> f64 {
        let labels = [("redis", redis), ("reason", reason)];
        self.page.value("lockwatch_redis_errors_total", &labels).expect("every reason has its counter")
    }

    fn describe(&self) -> String {
        serde_json::to_string_pretty(&self.json).unwrap()
    }
}

/// The program, with nothing of the tests' environment that could change it.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockwatch"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).current_dir(Path::new("/"));
    command
}

/// A block of one redis for a configuration: sampled often, and given up soon.
pub(crate) fn redis_block(name: &str, port: u16, more: &str) -> String {
    format!("  {name}: {{url: \"redis://127.0.0.1:{port}\", interval: 200ms, timeout: 500ms{more}}}\n")
}

/// A configuration of one redis called `main` and these tasks, each the inside of a YAML block.
pub(crate) fn config(port: u16, tasks: &[&str]) -> String {
    let tasks: String = tasks.iter().map(|task| format!("  - {{{task}}}\n")).collect();
    format!("redis:\n{}tasks:\n{tasks}", redis_block("main", port, ""))
}

type Labels = BTreeMap<String, String>;

/// A page of classic text, read as strictly as its format is defined.
#[derive(Debug, Default)]
pub(crate) struct Page {
    series: BTreeMap<String, BTreeMap<Labels, f64>>,
}

impl Page {
    /// # Errors
    /// What is not valid: a line's form, an escape, a series that occurs twice, a family in two places or without a type.
    pub(crate) fn parse(text: &str) -> Result<Page, String> {
        let mut page = Page::default();
        let (mut family, mut kind, mut closed) = (String::new(), String::new(), BTreeSet::new());
        if !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        for line in text.split_terminator('\n') {
            let wrong = |why: &str| format!("{why}: {line:?}");
            if line.chars().any(char::is_control) {
                return Err(wrong("a control character"));
            }
            if let Some(described) = line.strip_prefix("# TYPE ") {
                let (name, of) = described.split_once(' ').ok_or_else(|| wrong("no type"))?;
                if !closed.insert(name.to_owned()) {
                    return Err(wrong("a family in two places"));
                }
                if !["gauge", "counter", "histogram"].contains(&of) || (of == "counter") != name.ends_with("_total") {
                    return Err(wrong("an unexpected type"));
                }
                (family, kind) = (name.to_owned(), of.to_owned());
            } else if !line.starts_with("# HELP ") {
                let (name, labels, value) = sample(line).map_err(wrong)?;
                let suffix = name.strip_prefix(family.as_str()).ok_or_else(|| wrong("a sample outside its family"))?;
                if (kind == "histogram") != ["_bucket", "_sum", "_count"].contains(&suffix) || family.is_empty() {
                    return Err(wrong("a sample of another family"));
                }
                if page.series.entry(name).or_default().insert(labels, value).is_some() {
                    return Err(wrong("a series twice"));
                }
            }
        }
        Ok(page)
    }

    /// All series of a name that carry these labels.
    pub(crate) fn series(&self, name: &str, labels: &[(&str, &str)]) -> BTreeMap<&Labels, &f64> {
        let fits = |own: &Labels| labels.iter().all(|(label, value)| own.get(*label).is_some_and(|it| it == value));
        self.series.get(name).into_iter().flatten().filter(|(own, _)| fits(own)).collect()
    }

    /// The value of the only series of a name that carries these labels; `None` if there is none.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let series = self.series(name, labels);
        assert!(series.len() <= 1, "{name}{labels:?} is more than one series: {series:?}");
        series.values().next().map(|value| **value)
    }

    /// How many series name this task.
    pub(crate) fn count_of_task(&self, task: &str) -> usize {
        self.series.keys().map(|name| self.series(name, &[("task", task)]).len()).sum()
    }
}

/// `name{label="value",…} number`.
fn sample(line: &str) -> Result<(String, Labels, f64), &'static str> {
    let name_end = line.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':')).ok_or("no value")?;
    let (name, mut rest) = line.split_at(name_end);
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("no name");
    }
    let mut labels = Labels::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, quoted) = rest.split_once("=\"").ok_or("no label")?;
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if label.is_empty() || !label.chars().all(plain) {
                return Err("a label's name");
            }
            let (value, after) = unquote(quoted)?;
            if labels.insert(label.to_owned(), value).is_some() {
                return Err("a label twice");
            }
            match after.strip_prefix(',') {
                Some(next) => rest = next,
                None => {
                    rest = after.strip_prefix('}').ok_or("labels without an end")?;
                    break;
                }
            }
        }
    }
    let number = rest.strip_prefix(' ').ok_or("no space before the value")?;
    let value = if number == "+Inf" { Ok(f64::INFINITY) } else { number.parse() };
    let finite = |value: f64| value.is_finite().then_some(value).ok_or("not a finite number");
    Ok((name.to_owned(), labels, value.map_err(|_| "not a number").and_then(finite)?))
}

/// A label's value up to its quote, and what follows.
fn unquote(quoted: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => match characters.next() {
                Some((_, '\\')) => value.push('\\'),
                Some((_, '"')) => value.push('"'),
                Some((_, 'n')) => value.push('\n'),
                _ => return Err("an unknown escape"),
            },
            other => value.push(other),
        }
    }
    Err("a value without an end")
}

#[test]
fn the_strict_parser_refuses_what_is_not_valid() {
    let page = Page::parse("# TYPE a gauge\na{x=\"1\\n\\\\\\\"\"} 2\na 1e3\n").unwrap();
    assert_eq!(page.value("a", &[("x", "1\n\\\"")]), Some(2.0));
    for wrong in [
        "a 1\n",
        "# TYPE a gauge\na 1",
        "# TYPE a gauge\na 1\na 1\n",
        "# TYPE a gauge\na{x=\"\\t\"} 1\n",
        "# TYPE a gauge\na{x=\"1\"y=\"2\"} 1\n",
        "# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n",
        "# TYPE a gauge\na{x=\"1} 1\n",
        "# TYPE a gauge\na{x=\"\t\"} 1\n",
        "# TYPE a gauge\na NaN\n",
        "# TYPE a gauge\nb 1\n",
        "# TYPE a counter\na 1\n",
        "# TYPE a gauge\na 1\n# TYPE b gauge\nb 1\n# TYPE a gauge\n",
    ] {
        assert!(Page::parse(wrong).is_err(), "{wrong:?}");
    }
}
