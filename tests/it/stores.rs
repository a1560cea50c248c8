//! Locks on several independent servers: real libraries take and renew them, servers die and hang,
//! and an agent reads them as one. `tests/libraries` has the program.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::agent::{Agent, program};
use crate::support::child::OwnedChild;
use crate::support::exposition::Exposition;
use crate::support::redis::{Keep, RedisServer};
use crate::support::{PATIENCE, skip};

const HOLDS: usize = 4;
/// How long a state lasts while it is looked at.
const STATE: Duration = Duration::from_millis(900);
/// A state is shown after at most this time: the interval, and the confirmation of a free lock.
const SHOWN: Duration = Duration::from_millis(1_500);
/// The lease of the program's locks.
const LEASE: Duration = Duration::from_secs(3);
const LABEL: &str = "r1+r2+r3";

/// A program that holds a lock on command.
struct Program {
    child: OwnedChild,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Program {
    fn start(library: &str, servers: &[RedisServer]) -> Program {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let ports: Vec<String> = servers.iter().map(|server| server.port.to_string()).collect();
        let mut command = Command::new("node");
        command
            .arg(root.join("tests/libraries/redlock.cjs"))
            .args([&ports.join(","), "hold", "nightly"])
            .env("NODE_PATH", root.join("target/libraries/node/node_modules"))
            .env("LIBRARY", library)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = OwnedChild::spawn(&mut command);
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Program { child, input, output }
    }

    /// Returns once it is done, whether it was.
    #[track_caller]
    fn run(&mut self, word: &str) -> bool {
        writeln!(self.input, "{word}").unwrap();
        let line = self.output.next().expect("the program ended").unwrap();
        line.starts_with(&format!("{word} done"))
    }
}

struct Scene {
    library: &'static str,
    servers: Vec<RedisServer>,
    agent: Agent,
}

impl Scene {
    fn open(test: &str, (library, key): (&'static str, &str)) -> Option<Scene> {
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/libraries");
        if !skip::has(test, &["node"]) {
            return None;
        }
        if !installed.join("node/node_modules").join(library).exists() {
            skip::say(test, &format!("{library} (scripts/setup test)"));
            return None;
        }
        let servers = servers(test, 3)?;
        let agent = agent(&servers, &format!("key: \"{key}\", mode: quorum"));
        agent.until(PATIENCE, "free", |page| page.of("t", "lock_held") == Some(0.0));
        Some(Scene { library, servers, agent })
    }

    fn start(&self) -> Program {
        Program::start(self.library, &self.servers)
    }

    /// The state is shown soon, and from then on without a break.
    #[track_caller]
    fn expect(&self, is_held: bool) {
        let expected = Some(f64::from(u8::from(is_held)));
        self.agent.until(SHOWN, "the state", |page| page.of("t", "lock_held") == expected);
        self.stays(STATE, expected);
    }

    #[track_caller]
    fn stays(&self, time: Duration, held: Option<f64>) {
        let began = Instant::now();
        while began.elapsed() < time {
            let page = self.agent.page();
            assert_eq!(page.of("t", "lock_held"), held, "{}", page.text());
            assert_eq!(problem(&page, "critical"), Vec::<String>::new());
        }
    }

    fn total(&self, metric: &str) -> f64 {
        self.agent.page().of("t", metric).unwrap()
    }
}

fn servers(test: &str, count: usize) -> Option<Vec<RedisServer>> {
    (0..count).map(|_| RedisServer::start(test)).collect()
}

/// An agent that watches the lock on these servers.
fn agent(servers: &[RedisServer], lock: &str) -> Agent {
    let redis: String = (1..)
        .zip(servers)
        .map(|(number, server)| {
            let url = format!("redis://{}", server.address());
            format!("  r{number}: {{url: \"{url}\", interval: 300ms, timeout: 500ms}}\n")
        })
        .collect();
    let names: Vec<String> = (1..=servers.len()).map(|number| format!("r{number}")).collect();
    Agent::start(&format!(
        "redis:\n{redis}tasks:\n  - name: t\n    lock: {{library: string, stores: [{}], {lock}}}\n    \
         wanted: always\n    grace: 60s\n    settle: 1s\n    blind_after: 3s\n",
        names.join(", ")
    ))
}

/// What is a problem of this severity, with its store.
fn problem(page: &Exposition, severity: &str) -> Vec<String> {
    let names = ["lockwatch_task_problem_seconds", "lockwatch_store_problem_seconds"];
    let series = names.into_iter().flat_map(|name| page.series(name, &[("severity", severity)]));
    let positive = series.filter(|(_, value)| *value > 0.0);
    positive.map(|(labels, _)| format!("{} of {}", labels["problem"], labels["store"])).collect()
}

const REDLOCK: (&str, &str) = ("redlock", "nightly");
const SEMAPHORE: (&str, &str) = ("redis-semaphore", "mutex:nightly");

/// The life of a lock; losers, who take what they can and give it back; a holder that is killed.
#[track_caller]
fn holds_are_seen(test: &str, library: (&'static str, &str)) {
    let Some(scene) = Scene::open(test, library) else { return };
    let (mut program, mut loser) = (scene.start(), scene.start());
    for _ in 0..HOLDS {
        assert!(program.run("take"));
        scene.expect(true);
        assert!(!loser.run("take"));
        scene.expect(true);
        assert!(program.run("release"));
        scene.expect(false);
    }
    assert!(scene.total("lock_acquisitions_total") - HOLDS as f64 == 0.0);
    assert!(program.run("take"));
    scene.expect(true);
    scene.agent.until(PATIENCE, "renewed", |page| page.of("t", "lock_renewals_total") >= Some(2.0));
    assert!(scene.total("lock_acquisitions_total") - HOLDS as f64 == 1.0);
    let page = scene.agent.page();
    assert_eq!(page.label("t", "lock_held", "store").as_deref(), Some(LABEL));
    let shown = scene.agent.text("/tasks/t");
    assert!(shown.contains("On its stores"), "{shown}");
    program.child.kill().unwrap();
    program.child.wait().unwrap();
    scene.agent.until(PATIENCE, "free", |page| page.of("t", "lock_held") == Some(0.0));
    // Where the machine stood still, a renewal may have gone unseen.
    let events = scene.agent.text("/api/v1/events?task=t&limit=200");
    let events: Value = serde_json::from_str(&events).unwrap();
    let mut ends = events["events"].as_array().unwrap().iter().rev();
    let last = ends.find(|event| event["kind"] == "hold_ended").unwrap();
    assert!(last["reason"] == "expired" || last["reason"] == "unknown", "{last}");
    assert!(scene.total("task_splits_total") == 0.0);
}

#[test]
fn locks_of_redlock_are_read_as_one() {
    holds_are_seen("stores::locks_of_redlock_are_read_as_one", REDLOCK);
}

#[test]
fn locks_of_redis_semaphore_on_three_servers_are_read_as_one() {
    holds_are_seen("stores::locks_of_redis_semaphore_on_three_servers_are_read_as_one", SEMAPHORE);
}

/// One of three servers is killed, hangs, and comes back empty: only its store is worth a warning.
/// Two: nobody can see who has the lock.
#[test]
fn one_server_of_three_that_is_away_wakes_nobody() {
    let test = "stores::one_server_of_three_that_is_away_wakes_nobody";
    let Some(mut scene) = Scene::open(test, REDLOCK) else { return };
    let mut program = scene.start();
    assert!(program.run("take"));
    scene.expect(true);
    scene.servers[2].kill();
    scene.stays(2 * LEASE, Some(1.0));
    assert_eq!(problem(&scene.agent.page(), "warning"), ["unreachable of r3"]);
    scene.servers[2].restart(Keep::Nothing);
    scene.stays(LEASE, Some(1.0));
    // A renewal does not bring the lock back where it was lost.
    assert!(program.run("release"));
    scene.expect(false);
    assert!(program.run("take"));
    scene.expect(true);
    scene.servers[0].pause();
    scene.stays(2 * LEASE, Some(1.0));
    assert_eq!(problem(&scene.agent.page(), "warning"), ["unreachable of r1"]);
    scene.servers[0].go_on();
    scene.stays(LEASE, Some(1.0));
    assert!(scene.total("lock_acquisitions_total") - 2.0 == 0.0);
    assert!(scene.total("task_splits_total") == 0.0);

    scene.servers[0].kill();
    scene.servers[1].kill();
    let reason = |view: &crate::support::view::View| {
        view.task("t")["lock"]["unknown"]["reason"] == "few_stores"
    };
    scene.agent.until_view(PATIENCE, "unknown", reason);
    let explained = scene.agent.text("/api/v1/tasks/t/explain");
    assert!(explained.contains("r1") && explained.contains("few_stores"), "{explained}");
    let blind = |page: &Exposition| problem(page, "critical") == [format!("blind of {LABEL}")];
    scene.agent.until(PATIENCE, "blind", blind);
    scene.servers[0].restart(Keep::Nothing);
    scene.agent.until(PATIENCE, "read", |page| problem(page, "critical").is_empty());
}

/// A client that fails over leaves its lock on the first server. One that is cut off from the second
/// goes on there, next to another on the first.
#[test]
fn with_any_server_a_leftover_is_nobody_and_two_that_renew_are_a_split() {
    let test = "stores::with_any_server_a_leftover_is_nobody_and_two_that_renew_are_a_split";
    let Some(servers) = servers(test, 2) else { return };
    let agent = agent(&servers, "key: nightly, mode: any");
    let set = |server: usize, who: &str, lease: &str| {
        servers[server].cli(&["set", "nightly", who, "px", lease]);
    };
    agent.until(PATIENCE, "free", |page| page.of("t", "lock_held") == Some(0.0));
    let taken = |count: f64| {
        move |page: &Exposition| page.of("t", "lock_acquisitions_total") == Some(count)
    };
    set(0, "a-token-of-the-first-client", "60000");
    agent.until(SHOWN, "the first", taken(1.0));
    set(1, "a-token-of-the-second-one", "60000");
    agent.until(SHOWN, "the second", taken(2.0));
    let renewed =
        |count: f64| move |page: &Exposition| page.of("t", "lock_renewals_total") >= Some(count);
    for count in 1..=3 {
        set(1, "a-token-of-the-second-one", "60000");
        agent.until(SHOWN, "renewed", renewed(f64::from(count)));
    }
    assert_eq!(agent.page().of("t", "task_splits_total"), Some(0.0));
    let began = Instant::now();
    // The first client goes on.
    while agent.page().of("t", "task_splits_total") == Some(0.0) {
        assert!(began.elapsed() < PATIENCE, "{}", agent.page().text());
        set(0, "a-token-of-the-first-client", "60000");
    }
    assert_eq!(agent.page().verdict("t"), "split");
    servers[0].cli(&["del", "nightly"]);
    agent.until(PATIENCE, "over", |page| page.verdict("t") == "running");
    servers[1].cli(&["del", "nightly"]);
    agent.until(PATIENCE, "free", |page| page.of("t", "lock_held") == Some(0.0));
}

/// One store of three is no majority, and a script under it would not be alone.
#[test]
fn a_guard_takes_no_lock_of_several_stores() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockwatch.yml");
    let redis = "redis: {r1: {url: 'redis://127.0.0.1:1'}, r2: {url: 'redis://127.0.0.1:2'}, r3: \
                 {url: 'redis://127.0.0.1:3'}}";
    std::fs::write(
        &file,
        format!("{redis}\ntasks: [{{name: t, lock: {{key: k, stores: [r1, r2, r3]}}}}]\n"),
    )
    .unwrap();
    for command in [&["guard", "t"][..], &["fence", "t", "--token", "1", "--holder", "a:1"]] {
        let mut program = program();
        program.args(command).arg("--config.file").arg(&file);
        if command[0] == "guard" {
            program.args(["--", "true"]);
        }
        let output = program.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("stands on several stores"), "{command:?}: {said}");
        assert!(!output.status.success());
    }
}
