//! Workers that pass a lock to and fro, with real Redis: those that overwrite each other are two,
//! and those that take turns without a pause are not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use redis::{Commands, Connection, cmd};

use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;

const TASK: &str = "import";
const LOCK: &str = "import:lock";
const CLAIMS: &str = "import:claims";
/// How long workers take turns, and how long if `LOCKWATCH_LONG` is set.
const SHORT: Duration = Duration::from_secs(12);
const LONG: Duration = Duration::from_secs(600);

/// A Redis with threads that work in it, and the agent that watches them.
struct Scene {
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    agent: Agent,
    server: RedisServer,
}

/// What a worker's thread has.
struct Worker {
    redis: Connection,
    ended: Arc<AtomicBool>,
}

impl Scene {
    fn open(test: &str, interval: &str, task: &str) -> Option<Scene> {
        let server = RedisServer::start(test)?;
        let agent = Agent::start(&format!(
            "redis: {{main: {{url: \"redis://{}\", interval: {interval}}}}}\ntasks:\n  - {{name: \
             {TASK}, wanted: always, {task}}}\n",
            server.address()
        ));
        Some(Scene { ended: Arc::default(), threads: Vec::new(), agent, server })
    }

    /// Does this again and again, in a thread of its own, until the end.
    fn work(&mut self, mut work: impl FnMut(&mut Worker) + Send + 'static) {
        let client = redis::Client::open(format!("redis://{}", self.server.address())).unwrap();
        let mut worker =
            Worker { redis: client.get_connection().unwrap(), ended: Arc::clone(&self.ended) };
        self.threads.push(thread::spawn(move || {
            while !worker.ended.load(Ordering::SeqCst) {
                work(&mut worker);
            }
        }));
    }

    /// Claims in a thread of its own, as people write it.
    fn claims(&mut self, who: &'static str, every: Duration) {
        let mut count = 0;
        self.work(move |worker| {
            count += 1;
            worker.claim(who, count);
            sleep(every);
        });
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            // What a worker panics of was the server's end.
            let _panicked = thread.join();
        }
    }
}

impl Worker {
    fn claim(&mut self, who: &str, count: u64) {
        let () = self.redis.hset(CLAIMS, who, count).unwrap();
    }
}

fn splits(page: &Exposition) -> f64 {
    page.of(TASK, "task_splits_total").unwrap_or_default()
}

fn is_contended(page: &Exposition) -> bool {
    let labels = [("task", TASK), ("problem", "contended")];
    page.get("lockwatch_task_problem_seconds", &labels) > Some(0.0)
}

#[test]
fn workers_that_overwrite_each_other_are_a_split() {
    overwritten("workers_that_overwrite_each_other_are_a_split", "200ms");
}

/// Regular readings would find the same one of them each time.
#[test]
fn workers_that_overwrite_each_other_as_often_as_they_are_read_are_a_split() {
    overwritten("workers_that_overwrite_each_other_as_often_as_they_are_read", "1s");
}

/// `SET key token XX`, without comparing, is no renewal: both go on.
fn overwritten(test: &str, interval: &str) {
    let lock = format!(
        "lock: {{key: \"{LOCK}\", library: string}}, claims: {{hash: \"{CLAIMS}\", fresh_for: 5s}}"
    );
    let Some(mut scene) = Scene::open(test, interval, &lock) else { return };
    scene.server.cli(&["SET", LOCK, "worker-a", "EX", "10"]);
    for (who, first) in [("worker-a", 0), ("worker-b", 500)] {
        let mut next = Instant::now() + Duration::from_millis(first);
        scene.work(move |worker| {
            sleep(next.saturating_duration_since(Instant::now()));
            next += Duration::from_secs(1);
            let mut set = cmd("SET");
            set.arg(LOCK).arg(who).arg("XX").arg("EX").arg(10);
            let () = set.query(&mut worker.redis).unwrap();
        });
    }
    scene.claims("worker-a", Duration::from_millis(930));
    scene.claims("worker-b", Duration::from_millis(1_070));
    scene.agent.until(PATIENCE, "contended", is_contended);
    scene.agent.until(3 * PATIENCE, "a split", |page| page.verdict(TASK) == "split");
    let task = scene.agent.task(TASK);
    assert!(task["reason"].as_str().unwrap().contains("(claims)"), "{task}");
}

/// A lock is taken, the work is claimed as long as it lasts, and the lock is given back; the other
/// worker takes it a moment later.
#[test]
fn workers_that_take_turns_without_a_pause_are_no_split() {
    const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', \
                           KEYS[1]) else return 0 end";
    let lock = format!(
        "grace: 2s, lock: {{key: \"{LOCK}\", library: string}}, claims: {{hash: \"{CLAIMS}\", \
         fresh_for: 5s}}"
    );
    let test = "workers_that_take_turns_without_a_pause_are_no_split";
    let Some(mut scene) = Scene::open(test, "200ms", &lock) else { return };
    for who in ["worker-a", "worker-b"] {
        let mut count = 0;
        scene.work(move |worker| {
            let mut take = cmd("SET");
            take.arg(LOCK).arg(who).arg("NX").arg("PX").arg(30_000);
            while !take.query::<bool>(&mut worker.redis).unwrap() {
                sleep(Duration::from_millis(1));
            }
            for _ in 0..4 {
                count += 1;
                worker.claim(who, count);
                sleep(Duration::from_millis(90));
            }
            let mut release = cmd("EVAL");
            release.arg(RELEASE).arg(1).arg(LOCK).arg(who);
            let () = release.query(&mut worker.redis).unwrap();
            // The other one is quicker.
            sleep(Duration::from_millis(5));
        });
    }
    scene.agent.until(PATIENCE, "it runs", |page| page.verdict(TASK) == "running");
    let long = std::env::var_os("LOCKWATCH_LONG").is_some();
    scene.agent.throughout(if long { LONG } else { SHORT }, "no split", |view| {
        view.verdict(TASK) == "running" && splits(&view.page) == 0.0
    });
}

/// Two readers of a read lock claim all the time.
#[test]
fn readers_of_a_read_lock_are_nothing() {
    let lock = format!(
        "lock: {{key: \"{LOCK}\", library: redisson}}, claims: {{hash: \"{CLAIMS}\", fresh_for: 5s}}"
    );
    let Some(mut scene) = Scene::open("readers_of_a_read_lock_are_nothing", "200ms", &lock) else {
        return;
    };
    let readers = ["1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed", "6ec0bd7f-11c0-43da-975e-2a8ad9ebae0b"];
    let fields = readers.map(|reader| format!("{reader}:1"));
    scene.server.cli(&["HSET", LOCK, "mode", "read", &fields[0], "1", &fields[1], "1"]);
    scene.work(|worker| {
        let () = worker.redis.pexpire(LOCK, 30_000).unwrap();
        sleep(Duration::from_secs(1));
    });
    scene.claims(readers[0], Duration::from_millis(930));
    scene.claims(readers[1], Duration::from_millis(1_070));
    scene.agent.until(PATIENCE, "it runs", |page| page.verdict(TASK) == "running");
    let long = std::env::var_os("LOCKWATCH_LONG").is_some();
    scene.agent.throughout(if long { LONG } else { SHORT }, "nothing", |view| {
        splits(&view.page) == 0.0 && !is_contended(&view.page)
    });
}
