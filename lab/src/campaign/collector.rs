//! Scrapes each agent several times a second. It logs for each task when a value starts and stops
//! to meet an alert rule's condition, and how long the agent waited for a core.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::clock::{Micros, now};
use super::header::Header;
use super::log::Log;

/// Maximum duration of a scrape.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// The problems that the alert rules read, and their letters in the log.
const PROBLEMS: [(&str, char); 6] = [
    ("down", 'd'),
    ("unwanted", 'u'),
    ("stalled", 't'),
    ("blind", BLIND),
    ("split", 'x'),
    ("switches_lost", 'o'),
];
/// A task is blind by itself, or with all tasks of a store that does not answer.
const BLIND: char = 'b';
/// Whether the lock is held: 1, 0, or absent.
const HELD: char = 'h';

/// The collectors; they run until this is stopped.
#[derive(Debug)]
pub(super) struct Collectors {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// The process ids of the agents, 0 while there is none.
    pub(super) ids: Vec<Arc<AtomicU32>>,
}

impl Collectors {
    /// Starts to scrape.
    ///
    /// # Errors
    /// When the logs cannot be written.
    pub(super) fn start(
        folder: &Path,
        header: &Arc<Header>,
        agents: &[SocketAddr],
    ) -> anyhow::Result<Collectors> {
        let ended = Arc::new(AtomicBool::new(false));
        let (mut threads, mut ids) = (Vec::new(), Vec::new());
        for (index, address) in agents.iter().enumerate() {
            let log = Log::open(folder, &format!("agent-{index}.log"))?;
            let id = Arc::new(AtomicU32::new(0));
            let (header, address, of_thread, ended) =
                (Arc::clone(header), *address, Arc::clone(&id), Arc::clone(&ended));
            threads.push(std::thread::spawn(move || {
                collect(&header, address, &of_thread, &log, &ended)
            }));
            ids.push(id);
        }
        Ok(Collectors { ended, threads, ids })
    }

    pub(super) fn stop(mut self) {
        self.ended.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _panicked = thread.join();
        }
    }
}

fn collect(header: &Header, address: SocketAddr, id: &AtomicU32, log: &Log, ended: &AtomicBool) {
    let tasks: HashMap<&str, usize> =
        header.tasks.iter().enumerate().map(|(at, task)| (task.name.as_str(), at)).collect();
    let (period, request) = (header.times.scrape * 1_000, request(address));
    let mut known: HashMap<(char, usize), char> = HashMap::new();
    let (mut next, mut waits) = (now(), Waits::default());
    while !ended.load(Ordering::SeqCst) {
        next = (next + period).max(now());
        let sent = now();
        match scrape(address, &request) {
            Ok(page) => {
                let received = now();
                let seen = seen(&page, &tasks, header);
                let mut text =
                    format!("s {sent} {received} {}", waits.longest(id.load(Ordering::SeqCst)));
                for letter in PROBLEMS.iter().map(|(_, letter)| *letter).chain([HELD]) {
                    for task in 0..header.tasks.len() {
                        let (shown, value) =
                            seen.get(&(letter, task)).copied().unwrap_or(('?', "-"));
                        if known.insert((letter, task), shown) != Some(shown) {
                            // Writing to a string cannot fail.
                            let _ = write!(text, "\n{letter} {task} {shown} {value}");
                        }
                    }
                }
                log.line(text);
            }
            Err(error) => log.line(format_args!(
                "f {sent} {} {}",
                now(),
                error.to_string().replace([' ', '\n'], "_")
            )),
        }
        std::thread::sleep(Duration::from_micros(next.saturating_sub(now())));
    }
}

/// What a scrape shows of each task: `1`, the problem or the hold is seen, or `0`, it is not. And
/// the number beside it.
fn seen<'a>(
    page: &'a str,
    tasks: &HashMap<&str, usize>,
    header: &Header,
) -> HashMap<(char, usize), (char, &'a str)> {
    let mut seen = HashMap::new();
    for (name, labels, value) in page.lines().filter_map(series) {
        let task = label(labels, "task").and_then(|task| tasks.get(task).copied());
        let is_so = value.parse::<f64>().is_ok_and(|value| value > 0.0);
        let problem = label(labels, "problem").filter(|_| is_so);
        match (name, task, problem) {
            // It is known, so that what it does not show is not seen.
            ("lockwatch_task_clear", Some(task), _) => {
                for (_, letter) in PROBLEMS {
                    seen.entry((letter, task)).or_insert(('0', "-"));
                }
            }
            ("lockwatch_task_problem_seconds", Some(task), Some(problem)) => {
                let letter = PROBLEMS.iter().find(|(name, _)| *name == problem);
                seen.extend(letter.map(|(_, letter)| ((*letter, task), ('1', value))));
            }
            ("lockwatch_store_problem_seconds", _, Some("unreachable")) => {
                let store = label(labels, "store");
                let own = header.tasks.iter().enumerate().filter(|(_, task)| {
                    header.redises.get(task.redis).map(|redis| redis.name.as_str()) == store
                });
                seen.extend(own.map(|(task, _)| ((BLIND, task), ('1', value))));
            }
            ("lockwatch_lock_held", Some(task), _) => {
                seen.insert((HELD, task), (if is_so { '1' } else { '0' }, value));
            }
            _ => {}
        }
    }
    seen
}

/// Name, labels and value of a series.
fn series(line: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = line.split_once('{')?;
    let (labels, value) = rest.rsplit_once("} ")?;
    Some((name, labels, value))
}

/// The value of a label; the names here have nothing to escape.
fn label<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = labels.split(',').filter_map(|pair| pair.split_once("=\""));
    pairs.find(|(other, _)| *other == name).map(|(_, value)| value.trim_end_matches('"'))
}

fn request(address: SocketAddr) -> String {
    format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n")
}

fn scrape(address: SocketAddr, request: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, ANSWERS_WITHIN)?;
    stream.set_read_timeout(Some(ANSWERS_WITHIN))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::with_capacity(1 << 20);
    stream.read_to_string(&mut answer)?;
    match answer.split_once(' ') {
        Some((_, rest)) if rest.starts_with("200") => Ok(answer),
        _ => Err(std::io::Error::other(answer.lines().next().unwrap_or("no answer").to_owned())),
    }
}

/// How long the threads of a process have waited for a core.
#[derive(Debug, Default)]
struct Waits {
    of: u32,
    waited: HashMap<String, u64>,
}

impl Waits {
    /// The longest wait of one thread since the last call, in microseconds.
    fn longest(&mut self, id: u32) -> Micros {
        if self.of != id {
            *self = Waits { of: id, waited: HashMap::new() };
        }
        let Ok(threads) = std::fs::read_dir(format!("/proc/{id}/task")) else { return 0 };
        let mut longest = 0;
        for thread in threads.flatten() {
            let name = thread.file_name().to_string_lossy().into_owned();
            let Ok(text) = std::fs::read_to_string(thread.path().join("schedstat")) else {
                continue;
            };
            let Some(nanos) = text.split(' ').nth(1).and_then(|nanos| nanos.parse::<u64>().ok())
            else {
                continue;
            };
            if let Some(before) = self.waited.insert(name, nanos) {
                longest = longest.max(nanos.saturating_sub(before) / 1_000);
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::{Library, RedisEntry, TaskEntry, Times};
    use super::*;

    #[test]
    fn a_scrape_shows_problems_and_holds() {
        let task = |name: &str, redis| TaskEntry {
            name: name.to_owned(),
            redis,
            library: Library::String,
            progress: false,
            redisson: false,
        };
        let redis = |name: &str| RedisEntry {
            name: name.to_owned(),
            servers: Vec::new(),
            sentinels: Vec::new(),
        };
        let header = Header {
            seed: 1,
            began_us: 0,
            wall_ahead_us: 0,
            times: Times::COMPRESSED,
            redises: vec![redis("a"), redis("b")],
            tasks: vec![task("first", 0), task("last", 1)],
            agents: 1,
            hosts: 1,
        };
        let tasks = HashMap::from([("first", 0), ("last", 1)]);
        let page = r#"# TYPE lockwatch_task_clear gauge
lockwatch_store_problem_seconds{store="a",problem="unreachable",severity="critical"} 9.0
lockwatch_task_clear{task="first",store="a",severity="critical"} 0
lockwatch_task_clear{task="last",store="b",severity="critical"} 1
lockwatch_task_problem_seconds{task="first",store="a",problem="down",severity="critical"} 3.5
lockwatch_task_problem_seconds{task="first",store="a",problem="split",severity="critical"} 0.0
lockwatch_lock_held{task="last",store="b"} 1
"#;
        let seen = seen(page, &tasks, &header);
        let of = |letter, task| seen.get(&(letter, task)).copied();
        assert_eq!((of('d', 0), of('x', 0)), (Some(('1', "3.5")), Some(('0', "-"))));
        assert_eq!((of('b', 0), of('b', 1)), (Some(('1', "9.0")), Some(('0', "-"))));
        assert_eq!((of('h', 0), of('h', 1)), (None, Some(('1', "1"))));
    }
}
