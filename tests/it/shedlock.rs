//! What the agent shows of the real ShedLock (`tests/shedlock`), against the instants at which its
//! keys came and went.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::redis::RedisServer;
use crate::support::standstill::Standstills;
use crate::support::{maven, skip, wait_until};

/// A hold shorter than this may be missed: those here, and the pauses, last at least 600 ms.
const INTERVAL_MS: u64 = 200;
/// For the answers, beside the time in which the machine stood still.
const ANSWER_MS: u64 = 250;
/// Clocks are read in whole milliseconds.
const ROUNDING_MS: u64 = 2;
const DAY_MS: u64 = 86_400_000;

/// A run as the program tells it, in Unix milliseconds.
#[derive(Debug)]
struct Run {
    task: String,
    host: String,
    /// Before and after the lock was taken.
    taken: (u64, u64),
    /// Before and after the key went.
    gone: (u64, u64),
    /// Whether `lockAtLeastFor` kept the key when the run was over.
    is_kept: bool,
}

/// A hold as the agent shows it.
#[derive(Debug)]
struct Hold {
    host: String,
    acquired: u64,
    ended: u64,
    reason: String,
}

/// Unix milliseconds as instants, without the time in which the machine stood still.
struct Clock {
    standstills: Standstills,
    origin: Instant,
    origin_ms: u64,
}

impl Clock {
    fn start() -> Clock {
        let origin_ms = unix_ms();
        Clock { standstills: Standstills::watch(), origin: Instant::now(), origin_ms }
    }

    fn instant(&self, ms: u64) -> Instant {
        self.origin + Duration::from_millis(ms.saturating_sub(self.origin_ms))
    }

    /// Asserts that something was shown no earlier than it was so, and within an interval.
    #[track_caller]
    fn shown_in_time(&self, shown: u64, so: (u64, u64), what: &dyn std::fmt::Debug) {
        assert!(shown + ROUNDING_MS >= so.0, "shown {} ms too early: {what:?}", so.0 - shown);
        let late = self.standstills.ran(self.instant(so.1), self.instant(shown));
        let allowed = Duration::from_millis(INTERVAL_MS + ANSWER_MS);
        assert!(late <= allowed, "shown after {late:?}: {what:?}");
    }
}

fn unix_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

/// The Unix milliseconds of an instant of the last hours, such as `2027-01-15T08:00:00.123Z`.
fn recent_ms(instant: &Value) -> u64 {
    let text = instant.as_str().unwrap();
    let (_, time) = text.strip_suffix('Z').unwrap().split_once('T').unwrap();
    let (seconds, part) = time.split_once('.').unwrap_or((time, "0"));
    let seconds = seconds.split(':').fold(0, |sum, two| sum * 60 + two.parse::<u64>().unwrap());
    let of_day = seconds * 1000 + format!("{part:0<3}").parse::<u64>().unwrap();
    let now = unix_ms() + 1000;
    let ms = now / DAY_MS * DAY_MS + of_day;
    if ms > now { ms - DAY_MS } else { ms }
}

/// Starts `count` runs of each task, on this host or as if on another one.
fn runs(server: &RedisServer, host: &str, count: usize, tasks: &[String]) -> Child {
    let mut command = maven::java("shedlock", "Runs");
    command.args([&server.port.to_string(), host, &count.to_string()]).args(tasks);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What the program printed, in the order in which the locks were taken.
#[track_caller]
fn reported(programs: Vec<Child>) -> Vec<Run> {
    let mut reported = Vec::new();
    for program in programs {
        let output = program.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        reported.extend(String::from_utf8(output.stdout).unwrap().lines().map(|line| {
            let words: Vec<&str> = line.split('\t').collect();
            let ms = |at: usize| words[at].parse().unwrap();
            let (task, host) = (words[0].to_owned(), words[1].to_owned());
            let (taken, gone) = ((ms(2), ms(3)), (ms(4), ms(5)));
            Run { task, host, taken, gone, is_kept: words[6] == "true" }
        }));
    }
    reported.sort_by_key(|run| run.taken);
    reported
}

fn agent(server: &RedisServer, wake_ups: bool, tasks: &[String]) -> Agent {
    let mut config = format!(
        "redis:\n  main:\n    url: redis://127.0.0.1:{}/0\n    interval: {INTERVAL_MS}ms\n    \
         timeout: 1s\n    wake_ups: {wake_ups}\ntasks:\n",
        server.port
    );
    for task in tasks {
        config += &format!(
            "  - name: {task}\n    lock: {{key: \"job-lock:prod:{task}\", library: shedlock}}\n"
        );
    }
    let agent = Agent::start(&config);
    wait_until(PATIENCE, "the agent is ready", || agent.get("/-/ready").status == 200);
    agent
}

/// All events of a task.
fn events(agent: &Agent, task: &str) -> Vec<Value> {
    let body: Value =
        serde_json::from_str(&agent.text(&format!("/api/v1/events?task={task}&limit=200")))
            .unwrap();
    body["events"].as_array().unwrap().clone()
}

/// The holds of a task, once it is free. No other event may be a warning.
#[track_caller]
fn holds(agent: &Agent, task: &str) -> Vec<Hold> {
    agent.until(PATIENCE, "the lock is free", |page| page.of(task, "lock_held") == Some(0.0));
    let (mut holds, mut began) = (Vec::new(), None);
    for event in events(agent, task) {
        let text = |field: &str| event[field].as_str().unwrap_or_default().to_owned();
        match event["kind"].as_str().unwrap() {
            "acquired" => {
                assert_eq!(began, None, "{event}");
                began = Some((text("who"), recent_ms(&event["at"])));
            }
            "hold_ended" => {
                let (host, acquired) = began.take().expect("a hold that began");
                assert_eq!(text("who"), host, "{event}");
                let ended = recent_ms(&event["at"]);
                holds.push(Hold { host, acquired, ended, reason: text("reason") });
            }
            "verdict" => assert_eq!(event["level"], "info", "{event}"),
            "lease_learned" | "shortened" => {}
            _ => panic!("{event}"),
        }
    }
    assert_eq!(began, None, "{task}");
    holds
}

/// Every hold of the task is shown, and no other one. `ends`: how a hold may end whose
/// key was deleted.
#[track_caller]
fn expect_shown(agent: &Agent, clock: &Clock, task: &str, runs: &[Run], ends: &[&str]) {
    let holds = holds(agent, task);
    let runs: Vec<&Run> = runs.iter().filter(|run| run.task == task).collect();
    assert_eq!(holds.len(), runs.len(), "{holds:#?}\n{runs:#?}");
    for (hold, run) in holds.iter().zip(runs) {
        assert_eq!(hold.host, run.host);
        clock.shown_in_time(hold.acquired, run.taken, &(hold, run));
        clock.shown_in_time(hold.ended, run.gone, &(hold, run));
        // The end of a lock that is kept was set, which nobody knows who first sees it like that.
        let may_end = if run.is_kept { &["ended_early", "expired"] } else { ends };
        assert!(may_end.contains(&&*hold.reason), "{hold:?} {run:?}");
    }
}

#[test]
fn a_hundred_runs_are_shown_as_they_were() {
    let test = "shedlock::a_hundred_runs_are_shown_as_they_were";
    if !skip::has(test, &["java", "mvn"]) {
        return;
    }
    let Some(server) = RedisServer::start(test) else { return };
    let tasks: Vec<String> = (0..20).map(|number| format!("nightly-{number}")).collect();
    let agents = [true, false].map(|wake_ups| agent(&server, wake_ups, &tasks));
    let clock = Clock::start();
    let runs = reported(vec![runs(&server, "-", 5, &tasks)]);
    assert_eq!(runs.len(), 100);
    let kept = runs.iter().filter(|run| run.is_kept).count();
    assert_eq!(kept, 50);
    for agent in &agents {
        for task in &tasks {
            expect_shown(agent, &clock, task, &runs, &["ended_early"]);
        }
    }
}

#[test]
fn hosts_that_contend_are_shown_in_turn() {
    let test = "shedlock::hosts_that_contend_are_shown_in_turn";
    if !skip::has(test, &["java", "mvn"]) {
        return;
    }
    let Some(server) = RedisServer::start(test) else { return };
    let tasks = ["contended".to_owned()];
    let agents = [true, false].map(|wake_ups| agent(&server, wake_ups, &tasks));
    let clock = Clock::start();
    let hosts = ["web-1", "web-2"];
    let runs = reported(hosts.map(|host| runs(&server, host, 4, &tasks)).into());
    for host in hosts {
        assert_eq!(runs.iter().filter(|run| run.host == host).count(), 4, "{runs:#?}");
    }
    for agent in &agents {
        expect_shown(agent, &clock, "contended", &runs, &["ended_early", "replaced"]);
    }
}

/// Leaves the keys of these tasks behind, as `lockAtLeastFor` keeps them after a short run.
pub(crate) fn leave_behind(test: &str, server: &RedisServer, host: &str, tasks: &[String]) -> bool {
    let has = skip::has(test, &["java", "mvn"]);
    if has {
        assert!(reported(vec![runs(server, host, 0, tasks)]).is_empty());
    }
    has
}
