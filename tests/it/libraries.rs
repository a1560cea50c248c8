//! Real lock libraries of Python and Node: they take, renew and release locks, and are killed, while
//! an agent shows what it sees. `tests/libraries` has the programs.

mod all;
mod program;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::agent::Agent;
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, skip};
pub(crate) use all::table;
use program::{Program, Word, missing};

/// How many holds of each library.
const HOLDS: usize = 8;
/// How long a state lasts while it is looked at.
const STATE: Duration = Duration::from_millis(700);
/// A state is shown after at most this time: the interval, and the confirmation of a free lock.
const SHOWN: Duration = Duration::from_millis(1_500);

/// Programs of one library each.
const COUNTER: &str = "counter.py";
const DEADLINE: &str = "deadline.py";
const SYMFONY: &str = "symfony.py";
const SEMAPHORE: &str = "semaphore.cjs";

/// An agent that watches a lock as the task `t`, once it shows that it is free.
fn agent_with(server: &RedisServer, lock: &str) -> Agent {
    let agent = Agent::start(&format!(
        "redis: {{main: {{url: \"redis://{}\", interval: 200ms}}}}\ntasks:\n  - name: t\n    \
         lock: {{{lock}}}\n    wanted: always\n",
        server.address()
    ));
    agent.until(PATIENCE, "free", |page| page.of("t", "lock_held") == Some(0.0));
    agent
}

/// A library under an agent.
struct Scene {
    server: RedisServer,
    agent: Agent,
    program: &'static str,
    key: &'static str,
    /// Samples of a state that was to be shown.
    looked: usize,
}

impl Scene {
    /// `key`: as the program names it; `lock`: as the agent is configured.
    fn open(test: &str, program: &'static str, key: &'static str, lock: &str) -> Option<Scene> {
        if let Some(missing) = missing(program) {
            skip::say(test, &format!("{} (scripts/setup test)", missing.display()));
            return None;
        }
        let server = RedisServer::start(test)?;
        let agent = agent_with(&server, lock);
        Some(Scene { server, agent, program, key, looked: 0 })
    }

    fn start(&self) -> Program {
        Program::start("", (self.program, None), self.server.port, self.key).unwrap().0
    }

    /// The state is shown soon, and from then on without a break.
    #[track_caller]
    fn expect(&mut self, is_held: bool) {
        let expected = Some(f64::from(u8::from(is_held)));
        self.agent.until(SHOWN, "the state", |page| page.of("t", "lock_held") == expected);
        let began = Instant::now();
        while began.elapsed() < STATE {
            let page = self.agent.page();
            assert_eq!(page.of("t", "lock_held"), expected, "{}", page.text());
            self.looked += 1;
        }
    }

    fn total(&self, metric: &str) -> f64 {
        self.agent.page().of("t", metric).unwrap()
    }

    /// How the holds ended.
    fn ends(&self) -> Vec<String> {
        let body = self.agent.text("/api/v1/events?task=t&limit=200");
        let body: Value = serde_json::from_str(&body).unwrap();
        let events = body["events"].as_array().unwrap().iter();
        let ends = events.filter(|event| event["kind"] == "hold_ended");
        ends.map(|event| event["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// Holds one after the other, each shown once, and each given back.
    #[track_caller]
    fn hold_again_and_again(&mut self, program: &mut Program) {
        for _ in 0..HOLDS {
            program.run(Word::Take);
            self.expect(true);
            program.run(Word::Release);
            self.expect(false);
        }
        assert!(self.total("lock_acquisitions_total") - HOLDS as f64 == 0.0, "{:?}", self.ends());
        assert_eq!(self.ends(), vec!["ended_early"; HOLDS]);
        assert!(self.looked >= HOLDS * 10, "{} samples", self.looked);
    }

    /// A holder that dies is shown until its lease of three seconds ends, and then as expired.
    #[track_caller]
    fn die(&mut self) {
        let mut program = self.start();
        program.run(Word::Take);
        program.kill();
        self.expect(true);
        self.agent.until(PATIENCE, "expired", |page| page.of("t", "lock_held") == Some(0.0));
        self.expect(false);
        assert_eq!(self.ends().last().map(String::as_str), Some("expired"));
    }

    /// Everything that is shown of the task, none of which may have this in it.
    #[track_caller]
    fn expect_hidden(&self, secret: &str) {
        for path in ["/tasks/t", "/api/v1/tasks/t/explain", "/api/v1/tasks/t", "/metrics"] {
            assert!(!self.agent.text(path).contains(secret), "{path}");
        }
    }
}

#[test]
fn dramatiq_leaves_a_zero_behind_and_nobody_holds_it() {
    let test = "libraries::dramatiq_leaves_a_zero_behind_and_nobody_holds_it";
    let lock = "key: nightly, library: counter";
    let Some(mut scene) = Scene::open(test, COUNTER, "nightly", lock) else { return };
    let mut program = scene.start();
    scene.hold_again_and_again(&mut program);
    assert_eq!(scene.server.cli(&["get", "nightly"]), "0");
    scene.die();
    program.run(Word::Take);
    scene.expect(true);
    let explained = scene.agent.text("/api/v1/tasks/t/explain");
    assert!(explained.contains("counts its holders and names none"), "{explained}");
    scene.server.cli(&["set", "nightly", "busy", "keepttl"]);
    scene.agent.until_view(SHOWN, "layout", |view| {
        view.task("t")["lock"]["unknown"]["reason"] == "layout"
    });
}

#[test]
fn tasktiger_holds_until_the_instant_that_it_writes() {
    let test = "libraries::tasktiger_holds_until_the_instant_that_it_writes";
    let lock = "key: \"t:lock:nightly\", library: deadline";
    let Some(mut scene) = Scene::open(test, DEADLINE, "t:lock:nightly", lock) else { return };
    let mut program = scene.start();
    scene.hold_again_and_again(&mut program);
    scene.die();
    assert_eq!(scene.server.cli(&["pttl", "t:lock:nightly"]), "-1", "the key stays");
    // The next one takes it by GETSET.
    program.run(Word::Take);
    scene.expect(true);
    let before = scene.total("lock_acquisitions_total");
    assert!(before - HOLDS as f64 == 2.0, "{before}");
    let was_held = |page: &crate::support::exposition::Exposition| {
        page.of("t", "lock_held_seconds") >= Some(0.5)
    };
    scene.agent.until(PATIENCE, "held for a while", was_held);
    program.run(Word::Renew);
    scene.agent.until(PATIENCE, "renewed", |page| page.of("t", "lock_renewals_total") >= Some(1.0));
    scene.expect(true);
    assert!(scene.total("lock_acquisitions_total") - before == 0.0);
    program.run(Word::Release);
    scene.expect(false);
}

#[test]
fn a_semaphore_of_one_is_a_lock() {
    let test = "libraries::a_semaphore_of_one_is_a_lock";
    let lock = "key: \"semaphore:nightly\", library: zset, score: refreshed, limit: 1, lease: 3s";
    let Some(mut scene) = Scene::open(test, SEMAPHORE, "nightly", lock) else { return };
    let mut program = scene.start();
    scene.hold_again_and_again(&mut program);
    scene.die();
    program.run(Word::Take);
    scene.expect(true);
    let token = scene.server.cli(&["zrange", "semaphore:nightly", "0", "-1"]);
    scene.expect_hidden(&token);
    scene.agent.until(PATIENCE, "renewed", |page| page.of("t", "lock_renewals_total") >= Some(2.0));
    assert!(scene.total("lock_acquisitions_total") - HOLDS as f64 == 2.0);
    program.run(Word::Release);
    scene.expect(false);
}

#[test]
fn writers_and_readers_of_symfony_are_seen() {
    let test = "libraries::writers_and_readers_of_symfony_are_seen";
    let lock = "key: nightly, library: zset, score: deadline";
    let Some(mut scene) = Scene::open(test, SYMFONY, "nightly", lock) else { return };
    let (mut program, mut other) = (scene.start(), scene.start());
    scene.hold_again_and_again(&mut program);
    scene.die();
    program.run(Word::Take);
    scene.expect(true);
    assert_eq!(scene.agent.task("t")["lock"]["hold"]["mode"], "write");
    program.run(Word::Read);
    other.run(Word::Read);
    scene.expect(true);
    let task = scene.agent.task("t");
    let hold = &task["lock"]["hold"];
    assert_eq!(hold["mode"], "read", "{task:#}");
    assert_eq!(hold["holders"].as_array().unwrap().len(), 2, "{task:#}");
    let tokens = scene.server.cli(&["zrange", "nightly", "0", "-1"]);
    tokens.lines().for_each(|token| scene.expect_hidden(token));
    program.run(Word::Release);
    scene.expect(true);
    other.run(Word::Release);
    scene.expect(false);
}
