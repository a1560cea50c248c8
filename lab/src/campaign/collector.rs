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
use super::header::{Header, Times};
use super::log::Log;

/// Maximum duration of a scrape.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// A metric that the alert rules compare, its letter in the log, and the threshold.
type Measure = (&'static str, char, fn(&Times) -> u64);

const MEASURES: [Measure; 7] = [
    ("lockwatch_task_down_seconds{", 'd', |times| times.grace),
    ("lockwatch_task_unwanted_seconds{", 'u', |times| times.wind_down),
    ("lockwatch_task_stalled_seconds{", 't', |times| times.stale_after),
    ("lockwatch_task_blind_seconds{", 'b', |times| times.blind_after),
    ("lockwatch_task_split_seconds{", 'x', |_| 0),
    ("lockwatch_task_switches_lost_seconds{", 'o', |_| 0),
    // Whether the lock is held: 1, 0, or absent.
    ("lockwatch_lock_held{", 'h', |_| 0),
];

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
                let mut seen: HashMap<(char, usize), (char, &str)> = HashMap::new();
                page.lines().for_each(|line| {
                    if let Some((key, value)) = measure(line, &tasks) {
                        seen.insert(key, (shown(key.0, value, &header.times), value));
                    }
                });
                let mut text =
                    format!("s {sent} {received} {}", waits.longest(id.load(Ordering::SeqCst)));
                for (_, letter, _) in MEASURES {
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

/// `1`: the alert condition holds, or the lock is held; `0`: it does not.
fn shown(letter: char, value: &str, times: &Times) -> char {
    let Some((_, _, threshold)) = MEASURES.iter().find(|(_, of, _)| *of == letter) else {
        return '?';
    };
    let Ok(value) = value.parse::<f64>() else { return '?' };
    let threshold = Duration::from_millis(threshold(times)).as_secs_f64();
    if value > threshold { '1' } else { '0' }
}

fn measure<'a>(line: &'a str, tasks: &HashMap<&str, usize>) -> Option<((char, usize), &'a str)> {
    let (_, letter, _) = MEASURES.iter().find(|(name, _, _)| line.starts_with(name))?;
    let (_, rest) = line.split_once("task=\"")?;
    let (task, _) = rest.split_once('"')?;
    let (_, value) = line.rsplit_once(' ')?;
    Some(((*letter, *tasks.get(task)?), value))
}

/// Requests only these metrics: a full scrape would take CPU time from the agents under test.
fn request(address: SocketAddr) -> String {
    let names: Vec<String> = MEASURES
        .iter()
        .map(|(series, ..)| format!("name[]={}", series.trim_end_matches('{')))
        .collect();
    format!("GET /metrics?{} HTTP/1.0\r\nHost: {address}\r\n\r\n", names.join("&"))
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
    use super::*;

    #[test]
    fn what_pages_is_what_the_rules_compare() {
        let times = Times::COMPRESSED;
        assert_eq!(shown('d', "6", &times), '0');
        assert_eq!(shown('d', "6.001", &times), '1');
        assert_eq!(shown('x', "0", &times), '0');
        assert_eq!(shown('x', "0.1", &times), '1');
        assert_eq!(shown('h', "1", &times), '1');
        assert_eq!(shown('h', "0", &times), '0');
    }

    #[test]
    fn a_line_of_the_page_is_found() {
        let tasks = HashMap::from([("task7", 7)]);
        let line = "lockwatch_task_down_seconds{store=\"a\",task=\"task7\"} 3.5";
        assert_eq!(measure(line, &tasks), Some((('d', 7), "3.5")));
        assert_eq!(measure("lockwatch_task_state{task=\"task7\"} 1", &tasks), None);
    }
}
