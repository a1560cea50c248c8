//! Queues of delayed tasks: the worker of docs/queues.md and wrong ones beside the real agent, and
//! what people's sets contain.

mod input;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use lockwatch::commands::acl::{ServerVersion, rules};
use lockwatch::config::Config;
use serde_json::Value;
use tempfile::TempDir;

use crate::acl::redis_cli;
use crate::support::agent::{Agent, program};
use crate::support::child::OwnedChild;
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, redis_py, wait_until};

/// What surrounds the worker of the page: a connection, and a task that takes a number of steps.
const MAIN: &str = r#"
import os, time
from pathlib import Path
import redis
import worker

FOLDER = Path(os.environ["FOLDER"])
NAME, STEPS = os.environ["NAME"], int(os.environ["STEPS"])

def execute(task, alive):
    with (FOLDER / "log").open("a") as log:
        print(NAME, "begins", task.decode(), file=log, flush=True)
        for _ in range(STEPS):
            alive()
            time.sleep(0.1)
        print(NAME, "ends", task.decode(), file=log, flush=True)

client = redis.Redis.from_url(os.environ["REDIS_URL"])
worker.run(client, execute, lambda: not (FOLDER / "stop").exists())
"#;

/// Workers that never renew their lock, nor ask whether they still have it.
const CARELESS: [(&str, &str); 2] = [
    ("        lock.reacquire()\n        client.hset", "        client.hset"),
    ("            lock.reacquire()\n            client.zrem", "            client.zrem"),
];

/// A Redis with a queue, and an agent that watches it.
struct Scene {
    /// The first to go.
    workers: Vec<OwnedChild>,
    agent: Agent,
    server: RedisServer,
    folder: TempDir,
}

impl Scene {
    /// `more`: further fields of the queue, each after a comma; further lines of the task.
    fn open(test: &str, more: (&str, &str)) -> Option<Scene> {
        let server = RedisServer::start(test)?;
        let folder = TempDir::new().unwrap();
        let agent = Agent::start(&format!(
            "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\n\
             tasks:\n\
             \x20 - name: delayed\n\
             \x20   queue: {{zset: tasks, lock: \"lock_{{id}}\"{}}}\n{}\
             \x20 - {{name: beside, lock: {{key: beside, library: string}}}}\n",
            server.address(),
            more.0,
            more.1,
        ));
        Some(Scene { workers: Vec::new(), agent, server, folder })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the worker of the page with other words in it. Each of its tasks takes `steps` tenths
    /// of a second.
    fn start(&mut self, python: &str, name: &str, steps: u32, words: &[(&str, &str)]) {
        let folder = self.path(name);
        fs::create_dir_all(&folder).unwrap();
        let code = words.iter().fold(worker(), |code, (word, other)| {
            assert!(code.contains(word), "no {word} in\n{code}");
            code.replace(word, other)
        });
        fs::write(folder.join("worker.py"), code).unwrap();
        fs::write(folder.join("main.py"), MAIN).unwrap();
        let said = File::create(folder.join("said")).unwrap();
        let mut worker = Command::new(python);
        worker
            .args(["-B", "main.py"])
            .current_dir(folder)
            .env("FOLDER", self.folder.path())
            .env("NAME", name)
            .env("STEPS", steps.to_string())
            .env("REDIS_URL", format!("redis://{}", self.server.address()))
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said);
        self.workers.push(OwnedChild::spawn(&mut worker));
    }

    /// What the workers did.
    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// Adds a task that is due so many seconds from now.
    fn add(&self, id: &str, seconds: f64) {
        let score = (unix_seconds() + seconds).to_string();
        self.server.cli(&["zadd", "tasks", &score, id]);
    }

    #[track_caller]
    fn until(&self, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        let mut task = Value::Null;
        let is_so = || {
            task = self.agent.task("delayed");
            condition(&task)
        };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until(PATIENCE, what, is_so);
        }));
        assert!(result.is_ok(), "{what}\n{task:#}\n{}\n{}", self.log(), self.said());
        task
    }

    /// What the workers complained about.
    fn said(&self) -> String {
        let folders = fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let said = folders.map(|folder| fs::read_to_string(folder.join("said")));
        said.filter_map(Result::ok).collect()
    }

    /// The number of the metric of the queue.
    fn metric(&self, name: &str) -> Option<f64> {
        self.agent.page().of("delayed", name)
    }

    /// The kinds of the events of the queue.
    fn events(&self) -> Vec<String> {
        let answer = self.agent.text("/api/v1/events?task=delayed");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let events = answer["events"].as_array().unwrap().iter();
        events.map(|event| event["kind"].as_str().unwrap().to_owned()).collect()
    }
}

fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

/// The worker of the page.
fn worker() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/queues.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, below) = page.split_once("\n<!-- worker: python -->\n```python\n").unwrap();
    let (code, _) = below.split_once("\n```\n").unwrap();
    format!("{code}\n")
}

fn has_problem(task: &Value, problem: &str) -> bool {
    task["problems"].as_array().unwrap().iter().any(|shown| shown["problem"] == problem)
}

/// The member with this id among those that are looked at.
fn member<'a>(task: &'a Value, id: &str) -> &'a Value {
    let first = task["queue"]["first"].as_array().unwrap();
    first.iter().find(|member| member["id"] == id).unwrap_or(&Value::Null)
}

const CLAIMS: &str = "    claims: {hash: \"lockwatch:claims:tasks\", fresh_for: 1s}\n";

/// Tasks are executed on time, one at a time and by two workers, and nothing is wrong.
#[test]
fn the_worker_of_the_page_executes_each_task_once() {
    let test = "queue::the_worker_of_the_page_executes_each_task_once";
    let Some(python) = redis_py::python(test) else { return };
    let Some(mut scene) = Scene::open(test, (", max_late: 20s", CLAIMS)) else { return };
    for number in 0..6 {
        scene.add(&format!("m{number}"), 0.0);
    }
    scene.add("later", 3_600.0);
    scene.start(python, "w1", 8, &[]);
    scene.start(python, "w2", 8, &[]);
    scene.until("two are executed", |task| {
        task["queue"]["executing"] == 2 && task["verdict"] == "running"
    });
    let task = scene.until("all are done", |task| task["queue"]["members"] == 1);
    assert_eq!(task["queue"]["due"], 0, "{task:#}");
    assert_eq!(task["queue"]["oldest_due_seconds"], 0.0, "{task:#}");
    assert!(task["queue"]["next"].is_string(), "{task:#}");
    for problem in ["stalled", "executed_again", "dead_holder", "orphan_lock", "vanished"] {
        assert!(!has_problem(&task, problem), "{problem}: {task:#}");
    }
    let totals = &task["queue"]["totals"];
    assert_eq!((&totals["departed"], &totals["departed_locked"]), (&6.into(), &6.into()));
    for number in 0..6 {
        let begins = format!("begins m{number}\n");
        assert_eq!(scene.log().matches(&begins).count(), 1, "{}", scene.log());
    }
    assert_eq!(scene.server.cli(&["keys", "lock_*"]), "");
}

/// Its id, the end of its lock and so the next try are named, and it does not count as late until
/// then; after that it is late if nobody takes it.
#[test]
fn a_worker_that_is_killed_leaves_a_lock_with_an_end() {
    let test = "queue::a_worker_that_is_killed_leaves_a_lock_with_an_end";
    let Some(python) = redis_py::python(test) else { return };
    let Some(mut scene) = Scene::open(test, (", max_late: 1s", CLAIMS)) else { return };
    scene.add("m1", 0.0);
    scene.start(python, "w1", 600, &[("timeout=60", "timeout=6")]);
    scene.until("it is executed, with a claim", |task| {
        member(task, "m1")["execution"]["until"].is_string()
            && task["live_claims"].as_array().is_some_and(|claims| !claims.is_empty())
    });
    let mut worker = scene.workers.pop().unwrap();
    worker.kill().unwrap();
    worker.wait().unwrap();
    let left: i64 = scene.server.cli(&["pexpiretime", "lock_m1"]).parse().unwrap();
    let task = scene.until("it is dead", |task| has_problem(task, "dead_holder"));
    let execution = &member(&task, "m1")["execution"];
    assert_eq!(execution["dead"], true, "{task:#}");
    let until = execution["until"].as_str().unwrap();
    let seconds = seconds_of(until);
    assert!((seconds - left as f64 / 1_000.0).abs() < 1.0, "{until} is not {left}");
    assert_eq!(task["queue"]["oldest_due_seconds"], 0.0, "somebody has it: {task:#}");
    assert_ne!(task["verdict"], "stalled", "{task:#}");
    let explained = scene.agent.text("/api/v1/tasks/delayed/explain");
    assert!(explained.contains("m1") && explained.contains("executing until"), "{explained}");

    let task = scene.until("it is late", |task| task["verdict"] == "stalled");
    assert!(has_problem(&task, "stalled"), "{task:#}");
    assert!(task["queue"]["oldest_due_seconds"].as_f64() > Some(6.0), "{task:#}");
    assert!(scene.events().iter().any(|kind| kind == "execution_expired"), "{:?}", scene.events());
    assert!(scene.metric("queue_oldest_due_seconds") > Some(6.0));

    scene.start(python, "w2", 10, &[]);
    scene.until("another one executes it", |task| {
        task["verdict"] == "running" && task["queue"]["totals"]["executed_again"] == 1
    });
    scene.until("done", |task| task["queue"]["members"] == 0);
}

/// Seconds since 1970 of an instant as the JSON writes it.
fn seconds_of(text: &str) -> f64 {
    let output = Command::new("date").args(["-u", "-d", text, "+%s.%N"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}

#[test]
fn a_task_that_takes_longer_than_its_lock_is_executed_twice() {
    let test = "queue::a_task_that_takes_longer_than_its_lock_is_executed_twice";
    let Some(python) = redis_py::python(test) else { return };
    let Some(mut scene) = Scene::open(test, (", max_late: 20s", CLAIMS)) else { return };
    scene.add("m1", 0.0);
    let careless = [CARELESS[0], CARELESS[1], ("timeout=60", "timeout=3")];
    scene.start(python, "w1", 300, &careless);
    scene.until("the first one begins", |task| task["queue"]["executing"] == 1);
    scene.start(python, "w2", 300, &careless);
    let task = scene.until("both execute it", |task| task["verdict"] == "split");
    assert_eq!(task["splits"][0], "executions", "{task:#}");
    let holders = task["split_evidence"][0]["parties"].as_array().unwrap();
    assert_eq!(holders.len(), 2, "both holders are named: {task:#}");
    assert!(has_problem(&task, "executed_again") && has_problem(&task, "split"), "{task:#}");
    assert!(scene.metric("queue_executed_again_total") >= Some(1.0));
}

/// Without claims nobody can say that the first one still works.
#[test]
fn without_claims_a_second_execution_is_a_warning() {
    let test = "queue::without_claims_a_second_execution_is_a_warning";
    let Some(scene) = Scene::open(test, (", max_late: 20s", "")) else { return };
    scene.add("m1", 0.0);
    scene.server.cli(&["set", "lock_m1", "token-of-one", "px", "60000"]);
    scene.until("the first one", |task| task["queue"]["executing"] == 1);
    let secret = scene.agent.text("/api/v1/tasks/delayed");
    assert!(!secret.contains("token-of-one"), "a token is a secret: {secret}");
    scene.server.cli(&["set", "lock_m1", "token-of-two", "px", "60000"]);
    let task = scene.until("the second", |task| has_problem(task, "executed_again"));
    assert_eq!(task["verdict"], "running", "{task:#}");
    let events = scene.agent.text("/api/v1/events?task=delayed");
    assert!(events.contains("m1"), "the member is named: {events}");
}

#[test]
fn members_that_a_clean_up_removes_are_noticed() {
    let test = "queue::members_that_a_clean_up_removes_are_noticed";
    let Some(python) = redis_py::python(test) else { return };
    let Some(mut scene) = Scene::open(test, (", max_late: 20s", "")) else { return };
    for number in 0..5 {
        scene.add(&format!("m{number}"), 0.0);
    }
    scene.start(python, "w1", 8, &[]);
    scene.until("executed", |task| task["queue"]["totals"]["departed_locked"] == 5);
    fs::write(scene.path("stop"), "").unwrap();
    scene.workers.pop().unwrap().wait().unwrap();
    for number in 0..20 {
        scene.add(&format!("late{number}"), -5.0);
    }
    scene.until("they are due", |task| task["queue"]["due"] == 20);
    scene.server.cli(&["zremrangebyscore", "tasks", "-inf", "+inf"]);
    let task = scene.until("they vanished", |task| has_problem(task, "vanished"));
    assert_eq!(task["queue"]["totals"]["vanished"], 20, "{task:#}");
    assert_eq!(scene.metric("queue_vanished_total"), Some(20.0));
    let events = scene.agent.text("/api/v1/events?task=delayed");
    assert!(events.contains("members_vanished") && events.contains("20"), "{events}");
}

#[test]
fn a_lock_that_outlives_its_task_is_reported() {
    let test = "queue::a_lock_that_outlives_its_task_is_reported";
    let Some(scene) = Scene::open(test, (", max_late: 20s", "")) else { return };
    scene.add("m1", 0.0);
    scene.server.cli(&["set", "lock_m1", "w1", "px", "60000"]);
    scene.until("executed", |task| task["queue"]["executing"] == 1);
    scene.server.cli(&["zrem", "tasks", "m1"]);
    let task = scene.until("its lock stays", |task| has_problem(task, "orphan_lock"));
    assert_eq!(task["queue"]["orphans"][0]["id"], "m1", "{task:#}");
    // The events are published after the snapshot.
    wait_until(PATIENCE, "the event", || {
        scene.events().iter().any(|kind| kind == "lock_outlived_task")
    });
    scene.server.cli(&["del", "lock_m1"]);
    scene.until("it is gone", |task| !has_problem(task, "orphan_lock"));
}

/// An empty queue, one whose head is tried again and again with a new score, and one with a million
/// members that are not due.
#[test]
fn a_queue_that_moves_or_waits_for_its_time_is_not_stalled() {
    let test = "queue::a_queue_that_moves_or_waits_for_its_time_is_not_stalled";
    let Some(scene) = Scene::open(test, (", max_late: 2s", "")) else { return };
    let well = |task: &Value| task["verdict"] == "running" && !has_problem(task, "stalled");
    scene.until("empty", |task| task["queue"]["members"] == 0 && well(task));
    let far = (unix_seconds() + 86_400.0).to_string();
    let script = "for i = 1, 1000000 do redis.call('zadd', KEYS[1], ARGV[1] + i, 'f' .. i) end";
    assert_eq!(scene.server.cli(&["eval", script, "1", "tasks", &far]), "");
    scene.until("a million members", |task| task["queue"]["members"] == 1_000_000 && well(task));
    scene.add("tail", 0.0);
    // For longer than max_late the head comes again, and the tail waits.
    let end = unix_seconds() + 6.0;
    while unix_seconds() < end {
        scene.add("head", -0.5);
        scene.until("it moves", |task| well(task) && member(task, "head")["id"] == "head");
    }
    let task = scene.until("movement was seen", |task| task["queue"]["moved"].is_string());
    assert_eq!(task["queue"]["totals"]["vanished"], 0, "{task:#}");
    scene.until("then nothing moves", |task| task["verdict"] == "stalled");
}

/// The user that `acl` writes may read all of it and nothing else.
#[test]
fn the_rule_for_a_queue_is_enough() {
    let test = "queue::the_rule_for_a_queue_is_enough";
    let Some(server) = RedisServer::start(test) else { return };
    let folder = TempDir::new().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, "PASSWORD").unwrap();
    let config = format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms, username: watcher, \
         password_file: \"{}\"}}}}\n\
         tasks: [{{name: delayed, queue: {{zset: tasks, lock: \"lock_{{id}}:x\"}}}}]\n",
        server.address(),
        password.display()
    );
    let parsed = Config::parse(&config, Path::new("x.yml")).unwrap();
    let [rule] = &rules(&parsed, ServerVersion::default())[..] else { panic!("one redis") };
    assert_eq!(redis_cli(&server, &rule.line), "OK\n", "{rule}");
    assert!(rule.line.contains("lock_*:x"), "only keys like the pattern: {rule}");
    for number in 0..150 {
        server.cli(&["zadd", "tasks", "0", &format!("m{number}")]);
    }
    server.cli(&["set", "lock_m0:x", "token-of-one", "px", "60000"]);
    let agent = Agent::start(&config);
    let what = "all is read";
    wait_until(PATIENCE, what, || agent.task("delayed")["queue"]["executing"] == 1);
    server.cli(&["zrem", "tasks", "m0"]);
    wait_until(PATIENCE, what, || agent.task("delayed")["queue"]["orphans"][0]["id"] == "m0");
    assert!(!agent.log().contains("NOPERM"), "{}", agent.log());
}

/// A recording has what an explanation shows, and neither has a token.
#[test]
fn a_queue_is_explained_recorded_and_replayed() {
    let test = "queue::a_queue_is_explained_recorded_and_replayed";
    let Some(server) = RedisServer::start(test) else { return };
    let folder = TempDir::new().unwrap();
    let config = format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\n\
         tasks: [{{name: delayed, queue: {{zset: tasks, lock: \"lock_{{id}}\", max_late: 1s}}}}]\n",
        server.address(),
    );
    server.cli(&["zadd", "tasks", "0", "m1", "0", "m2"]);
    server.cli(&["set", "lock_m1", "token-of-one", "px", "60000"]);
    let mut agent = Agent::start_with(&config, |command| {
        command.arg("--record").arg(folder.path().join("recordings"));
    });
    wait_until(PATIENCE, "one is late", || agent.task("delayed")["verdict"] == "stalled");
    let explained = agent.text("/api/v1/tasks/delayed/explain");
    for reported in
        ["ZMSCORE tasks m1 m2", "Member m2 is due at once", "executing until", "max_late"]
    {
        assert!(explained.contains(reported), "{reported}: {explained}");
    }
    let status = program()
        .args(["status", "delayed", "--agent.url", &format!("http://127.0.0.1:{}", agent.port)])
        .stdout(Stdio::piped())
        .output()
        .unwrap();
    let status = String::from_utf8(status.stdout).unwrap();
    let status = status.split_whitespace().collect::<Vec<_>>().join(" ");
    for reported in ["!! stalled", "2, 2 of them due", ": m2", "m1 by", "executing until"] {
        assert!(status.contains(reported), "{reported}: {status}");
    }
    let page = agent.text("/tasks/delayed");
    server.cli(&["set", "lock_m1", "token-of-two", "px", "60000"]);
    wait_until(PATIENCE, "again", || has_problem(&agent.task("delayed"), "executed_again"));
    agent.signal("TERM");
    assert!(agent.ended_within(PATIENCE).success());
    let mut replay = program();
    replay.arg("replay").arg(folder.path().join("recordings")).stdout(Stdio::piped());
    let replayed = replay.output().unwrap();
    let replayed = String::from_utf8(replayed.stdout).unwrap();
    for reported in ["stalled", "executed again", "LockwatchTaskStalled"] {
        assert!(replayed.contains(reported), "{reported}: {replayed}");
    }
    let mut all = format!("{explained}{status}{page}{replayed}{}", agent.log());
    for file in fs::read_dir(folder.path().join("recordings")).unwrap() {
        all += &String::from_utf8_lossy(&fs::read(file.unwrap().path()).unwrap());
    }
    assert!(!all.contains("token-of"), "a token is a secret");
}

/// Nobody is paged for a queue that nobody wants to be worked on, or while a pause lasts.
#[test]
fn switches_and_pauses_count_as_for_locks() {
    let test = "queue::switches_and_pauses_count_as_for_locks";
    let more = "    wanted: {hash: users}\n    paused_until: {key: pause}\n";
    let Some(scene) = Scene::open(test, (", max_late: 1s", more)) else { return };
    scene.server.cli(&["hset", "users", "anna", "0"]);
    scene.add("m1", -100.0);
    scene.until("switched off", |task| task["verdict"] == "stopped");
    let pause = (unix_seconds() + 600.0).round().to_string();
    scene.server.cli(&["set", "pause", &pause]);
    scene.until("paused", |task| task["paused"] == true);
    scene.server.cli(&["hset", "users", "anna", "1"]);
    let task = scene.until("late", |task| task["verdict"] == "stalled");
    assert!(!has_problem(&task, "stalled"), "the pause withholds it: {task:#}");
    scene.server.cli(&["del", "pause"]);
    scene.until("the pause is over", |task| has_problem(task, "stalled"));
}
