//! Tasks that take turns: the worker of docs/turns.md beside the real agent, right and wrong ways of
//! passing a turn, and what is no turn.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lockwatch::commands::acl::{ServerVersion, rules};
use lockwatch::config::Config;
use serde_json::Value;
use tempfile::TempDir;

use crate::acl::redis_cli;
use crate::support::agent::{Agent, program};
use crate::support::child::OwnedChild;
use crate::support::redis::RedisServer;
use crate::support::view::View;
use crate::support::{PATIENCE, redis_py};

const TASK: &str = "alternate";
/// How often the agent is asked.
const LOOK: Duration = Duration::from_millis(50);
/// How long workers alternate, and how long if `LOCKWATCH_LONG` is set.
const SHORT: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(600);

/// What the test needs around the worker of the page: a connection, the work, and the ways in which
/// people pass a turn.
const AROUND: &str = r#"
import os, sys, redis
client = redis.Redis.from_url(os.environ["REDIS_URL"])
me, way = sys.argv[1], sys.argv[2]

class Loose:
    """Passes the turn with two commands instead of a transaction."""
    def __init__(self, client, first):
        self.client, self.first, self.calls = client, first, []
    def hdel(self, *words):
        self.calls.append(("hdel", words))
    def hset(self, *words):
        self.calls.append(("hset", words))
    def execute(self):
        for name, words in sorted(self.calls, key=lambda call: call[0] != self.first):
            getattr(self.client, name)(*words)

class Client:
    def __getattr__(self, name):
        return getattr(client, name)
    def pipeline(self, transaction):
        return client.pipeline(transaction=transaction) if way == "multi" else Loose(client, way)

run(Client(), me, lambda: True)
"#;

/// A Redis and the agent that watches turns in it.
struct Scene {
    /// The first to go.
    workers: Vec<(String, OwnedChild)>,
    agent: Agent,
    server: RedisServer,
    folder: TempDir,
}

fn milliseconds() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

impl Scene {
    /// `None`, with a message, on a machine that lacks Redis. `turn` and `more`: further fields of
    /// the turn and of the task.
    fn open(test: &str, turn: &str, more: &str) -> Option<Scene> {
        let server = RedisServer::start(test)?;
        let url = format!("redis://{}", server.address());
        let agent = Agent::start(&format!(
            "redis:\n  main: {{url: \"{url}\", interval: 200ms}}\ntasks:\n  - {{name: {TASK}, turn: \
             {{hash: turns, tasks: [a, b], {turn}}}, {more}}}\n  - {{name: other, lock: {{key: \
             other}}}}\n"
        ));
        Some(Scene { workers: Vec::new(), agent, server, folder: TempDir::new().unwrap() })
    }

    /// Starts the worker of the page, which passes its turns in this way.
    fn work(&mut self, python: &str, name: &str, way: &str) {
        let path = self.folder.path().join("worker.py");
        fs::write(&path, code() + AROUND).unwrap();
        let url = format!("redis://{}", self.server.address());
        let mut worker = Command::new(python);
        worker.arg(path).args([name, way]).env("REDIS_URL", url).stdin(Stdio::null());
        self.workers.push((name.to_owned(), OwnedChild::spawn(&mut worker)));
    }

    fn kill(&mut self, name: &str) {
        let at = self.workers.iter().position(|(other, _)| other == name).unwrap();
        drop(self.workers.remove(at));
    }

    fn give(&self, name: &str, from: u128) {
        self.server.cli(&["hset", "turns", name, &from.to_string()]);
    }

    fn task(&self) -> Value {
        self.agent.task(TASK)
    }

    /// Waits for a verdict of the task.
    #[track_caller]
    fn until(&self, verdict: &str) -> Value {
        self.agent.until_view(PATIENCE, verdict, |view| view.verdict(TASK) == verdict);
        self.task()
    }

    /// Turns that were passed on, as far as the agent saw them.
    fn taken(&self) -> u64 {
        let task = self.task();
        let all = task["turn"]["taken"].as_array().unwrap().iter();
        all.map(|taken| taken["turns"].as_u64().unwrap()).sum()
    }
}

/// The worker of the page.
fn code() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/turns.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, below) = page.split_once("<!-- worker: python -->\n```python\n").unwrap();
    below.split_once("\n```\n").unwrap().0.to_owned()
}

/// However a turn is passed, a passing is neither a split nor a gap, and turns are counted.
#[test]
fn turns_that_alternate_fast_are_running_however_they_are_passed() {
    const TEST: &str = "turns: alternating";
    let Some(python) = redis_py::python(TEST) else { return };
    for way in ["multi", "hdel", "hset"] {
        let more = "wanted: always, grace: 2s";
        let Some(mut scene) = Scene::open(TEST, "max_late: 10s", more) else { return };
        scene.work(python, "a", way);
        scene.work(python, "b", way);
        scene.give("a", 0);
        scene.until("running");
        let stretch = if std::env::var_os("LOCKWATCH_LONG").is_some() { LONG } else { SHORT };
        let (began, calls, taken) = (Instant::now(), passed(&scene), scene.taken());
        while began.elapsed() < stretch {
            let view: View = scene.agent.view();
            assert_eq!(view.verdict(TASK), "running", "{way}: {:?}", scene.task());
            std::thread::sleep(LOOK);
        }
        let (passed, seen) = (passed(&scene) - calls, scene.taken() - taken);
        let task = scene.task();
        assert_eq!(task["durations"]["down_seconds"], 0.0, "{way}: {task}");
        assert_eq!(task["split_evidence"].as_array().unwrap().len(), 0, "{way}: {task}");
        let splits = scene.agent.page().of(TASK, "task_splits_total");
        assert_eq!(splits, Some(0.0), "{way}");
        assert!(passed > stretch.as_secs() * 2, "{way}: the workers passed {passed} turns");
        // A key is read four times a second because it changed, and once each sweep.
        assert!(seen * 2 > passed && seen <= passed, "{way}: {seen} of {passed} were seen");
    }
}

/// Turns that the workers have passed on: each is one HDEL.
fn passed(scene: &Scene) -> u64 {
    let stats = scene.server.cli(&["info", "commandstats"]);
    let calls = stats.split_once("cmdstat_hdel:calls=").map_or("0", |(_, rest)| rest);
    calls.split(',').next().unwrap().parse().unwrap()
}

#[test]
fn a_worker_that_dies_stalls_its_turn_after_max_late() {
    const TEST: &str = "turns: stalled";
    let Some(python) = redis_py::python(TEST) else { return };
    let Some(mut scene) = Scene::open(TEST, "max_late: 2s", "wanted: always, grace: 5s") else {
        return;
    };
    scene.work(python, "a", "multi");
    scene.work(python, "b", "multi");
    scene.give("a", 0);
    scene.until("running");
    scene.kill("b");
    let task = scene.until("stalled");
    assert_eq!((&task["turn"]["task"], &task["rule"]), (&"b".into(), &"turn_late".into()));
    let (late, due) = (task["turn"]["overdue_seconds"].as_f64().unwrap(), 2.0);
    // With time for a busy machine.
    assert!(late > due && late < due + 5.0, "{task}");
    let problem = |problem: &str| {
        let labels = [("task", TASK), ("problem", problem)];
        scene.agent.page().get("lockwatch_task_problem_seconds", &labels)
    };
    assert!(problem("stalled").is_some_and(|seconds| seconds > due), "it pages");
    assert_eq!(problem("down"), Some(0.0), "it is somebody's turn");
    scene.work(python, "b", "multi");
    scene.until("running");
    let clear = scene.agent.page().of(TASK, "task_clear");
    assert_eq!(clear, Some(1.0), "the page ends");
}

#[test]
fn a_second_field_is_a_split_until_one_of_them_is_gone() {
    const TEST: &str = "turns: split";
    let Some(scene) = Scene::open(TEST, "max_late: 1h, handover: 1s", "wanted: always") else {
        return;
    };
    scene.give("a", milliseconds());
    scene.until("running");
    scene.give("b", milliseconds());
    let seen = Instant::now();
    let task = scene.until("split");
    assert!(seen.elapsed() >= Duration::from_millis(900), "within a handover it is a passing");
    assert_eq!(task["splits"], serde_json::json!(["turns"]));
    let parties = &task["split_evidence"][0]["parties"];
    assert_eq!((&parties[0]["holder"], &parties[1]["holder"]), (&"a".into(), &"b".into()));
    let labels = [("task", TASK), ("problem", "split")];
    assert!(scene.agent.page().get("lockwatch_task_problem_seconds", &labels) > Some(0.0));
    scene.server.cli(&["hdel", "turns", "a"]);
    let task = scene.until("running");
    assert_eq!(task["turn"]["task"], "b");
    assert_eq!(task["totals"]["splits"][4]["count"], 1, "{task}");
}

#[test]
fn nobody_s_turn_is_down_after_grace_if_somebody_wants_it() {
    const TEST: &str = "turns: down";
    let more = "wanted: {hash: users}, grace: 1s";
    let Some(scene) = Scene::open(TEST, "max_late: 1h", more) else { return };
    scene.server.cli(&["hset", "users", "anna", "0"]);
    scene.until("stopped");
    scene.server.cli(&["hset", "users", "anna", "1"]);
    let task = scene.until("down");
    assert_eq!(task["rule"], "no_turn_over_grace");
    scene.give("b", 0);
    scene.until("running");
    scene.server.cli(&["hset", "users", "anna", "0"]);
    let task = scene.until("stopped");
    assert_eq!(task["rule"], "turn_unwanted", "whoever's turn it is");
}

/// Each is reported with its reason and a remedy, and the other task goes on.
#[test]
fn what_is_no_turn_is_unknown_with_a_remedy() {
    const TEST: &str = "turns: bad input";
    let Some(scene) = Scene::open(TEST, "unit: s", "blind_after: 4s") else { return };
    let many: Vec<String> = (0..10_000).flat_map(|at| [format!("f{at}"), "1".into()]).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let now = milliseconds().to_string();
    for (command, reason, remedy) in [
        (vec!["set", "turns", "a"], "wrong_type", "another type"),
        (vec!["hset", "turns", "a", "soon"], "layout", "each value must be a number"),
        (vec!["hset", "turns", "a", &now], "far_instant", "set `unit: ms` or `unit: s`"),
        ([&["hset", "turns"][..], &many].concat(), "too_large", "correct the key"),
    ] {
        scene.server.cli(&["del", "turns"]);
        scene.server.cli(&command);
        let is_shown = |view: &View| view.task(TASK)["turn"]["unknown"]["reason"] == reason;
        // One view has both: a reading that times out on a busy machine has a reason of its own.
        let view = scene.agent.until_view(PATIENCE, reason, is_shown);
        let text = view.task(TASK).to_string();
        assert!(text.contains(remedy), "{reason}: {text}");
    }
    // A quick machine comes here before the other lock is known to be free.
    let is_unknown =
        |view: &View| view.verdict(TASK) == "unknown" && view.verdict("other") == "stopped";
    scene.agent.until_view(PATIENCE, "unknown, and the other task is not", is_unknown);
    scene.server.cli(&["del", "turns"]);
    scene.give("a", milliseconds() / 1_000);
    scene.until("running");
}

#[test]
fn a_turn_out_of_order_and_an_unknown_name_are_reported() {
    const TEST: &str = "turns: order";
    let Some(scene) = Scene::open(TEST, "min_turn: 30s, max_late: 1h", "wanted: always") else {
        return;
    };
    let passes = |from: &str, to: &str| {
        let (one, now) = (format!("multi\nhdel turns {from}\n"), milliseconds());
        let script = format!("{one}hset turns {to} {now}\nexec\n");
        scene.server.cli(&["eval", &lua(&script), "0"]);
        let is_shown = |view: &View| view.task(TASK)["turn"]["task"] == to;
        scene.agent.until_view(PATIENCE, to, is_shown);
    };
    scene.give("a", milliseconds());
    scene.until("running");
    passes("a", "b");
    passes("b", "a");
    assert_eq!(scene.task()["turn"]["out_of_order"], 0);
    // The value moves on: the same task again.
    scene.give("a", milliseconds() + 1);
    let is_counted = |view: &View| view.task(TASK)["turn"]["out_of_order"] == 1;
    scene.agent.until_view(PATIENCE, "out of order", is_counted);
    passes("a", "c");
    assert_eq!(scene.task()["turn"]["unknown_names"], 1);
    let reported = scene.agent.log();
    for kind in ["turn_out_of_order", "turn_unknown_name"] {
        assert!(reported.contains(kind), "{kind} is not in {reported}");
    }
}

/// The user that `acl` writes may read all of it and nothing else.
#[test]
fn the_rule_for_turns_is_enough() {
    let Some(server) = RedisServer::start("turns: rights") else { return };
    let folder = TempDir::new().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, "PASSWORD").unwrap();
    let config = format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms, username: watcher, \
         password_file: \"{}\"}}}}\n\
         tasks: [{{name: {TASK}, turn: {{hash: \"the turns\", tasks: [a, b]}}}}]\n",
        server.address(),
        password.display()
    );
    let parsed = Config::parse(&config, Path::new("x.yml")).unwrap();
    let [rule] = &rules(&parsed, ServerVersion::default())[..] else { panic!("one redis") };
    assert_eq!(redis_cli(&server, &rule.line), "OK\n", "{rule}");
    server.cli(&["hset", "the turns", "a", "0"]);
    let agent = Agent::start(&config);
    let is_read = |view: &View| view.task(TASK)["turn"]["task"] == "a";
    agent.until_view(PATIENCE, "all is read", is_read);
    server.cli(&["hset", "the turns", "b", "0"]);
    agent.until_view(PATIENCE, "split", |view| view.verdict(TASK) == "split");
    assert!(!agent.log().contains("NOPERM"), "{}", agent.log());
}

#[test]
fn turns_are_explained_recorded_and_replayed() {
    let Some(server) = RedisServer::start("turns: replay") else { return };
    let folder = TempDir::new().unwrap();
    let config = format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\n\
         tasks: [{{name: {TASK}, turn: {{hash: turns, tasks: [a, b], max_late: 2s}}}}]\n",
        server.address()
    );
    server.cli(&["hset", "turns", "a", &milliseconds().to_string()]);
    let mut agent = Agent::start_with(&config, |command| {
        command.arg("--record").arg(folder.path().join("recordings"));
    });
    agent.until_view(PATIENCE, "stalled", |view| view.verdict(TASK) == "stalled");
    let explained = agent.text(&format!("/api/v1/tasks/{TASK}/explain"));
    for piece in ["HSCAN turns", "It is the turn of a", "max_late (2 s)"] {
        assert!(explained.contains(piece), "{piece} is not in {explained}");
    }
    server.cli(&["hset", "turns", "b", &milliseconds().to_string()]);
    agent.until_view(PATIENCE, "split", |view| view.verdict(TASK) == "split");
    agent.signal("TERM");
    assert!(agent.ended_within(PATIENCE).success());
    let mut replay = program();
    replay.arg("replay").arg(folder.path().join("recordings")).stdout(Stdio::piped());
    let replayed = replay.output().unwrap();
    let reported = String::from_utf8_lossy(&replayed.stdout);
    for verdict in ["stalled", "split"] {
        assert!(reported.contains(verdict), "{verdict} is not in {reported}");
    }
}

/// The commands of a transaction as a script, which is as atomic.
fn lua(commands: &str) -> String {
    let words =
        |line: &str| line.split(' ').map(|word| format!("'{word}'")).collect::<Vec<_>>().join(", ");
    let lines = commands.lines().filter(|line| !["multi", "exec"].contains(line));
    lines.map(|line| format!("redis.call({}) ", words(line))).collect()
}
