//! Guards, users and Redisson's own clients take turns.

use super::*;
use crate::support::agent::Agent;
use crate::support::redisson::Redisson;

/// Number of clients that listen for a release.
pub(super) fn listeners(server: &RedisServer) -> u64 {
    let channel = format!("redisson_lock__channel:{{{LOCK}}}");
    let reported = server.cli(&["pubsub", "numsub", &channel]);
    reported.lines().last().unwrap().parse().unwrap()
}

/// The instances that claim, beside what guards state of their runs.
fn claims(server: &RedisServer) -> String {
    let fields = server.cli(&["hkeys", "claims"]);
    fields.lines().filter(|field| !field.starts_with("runs:")).collect()
}

/// A configuration with switches, and what the agent reads.
fn configured(scene: &Scene, server: &RedisServer) -> PathBuf {
    let file = scene.path("lockwatch.yml");
    let text = format!(
        "redis: {{main: {{url: \"redis://{}\"}}}}\n\
         tasks:\n\
         - name: outbound\n  \
           lock: {{key: \"{LOCK}\"}}\n  \
           wanted: {{hash: users}}\n  \
           claims: {{hash: claims}}\n  \
           hosts: {{hash: hosts}}\n  \
           progress: {{hash: stats, field: last_run}}\n  \
           guard: {{lease: 2s, stop_after: 500ms, progress: heartbeat}}\n",
        server.address()
    );
    fs::write(&file, text).unwrap();
    file
}

#[test]
fn it_runs_while_anyone_wants_it_and_tells_the_agent() {
    let Some(server) = RedisServer::start("guard::hand_over: wanted") else { return };
    let scene = Scene::new();
    let file = configured(&scene, &server);
    let file = ["--config.file", file.to_str().unwrap(), "outbound"];
    server.cli(&["hset", "users", "anna", "false", "bert", "false"]);
    let guards = [scene.start(&file, &scene.script()), scene.start(&file, &scene.script())];
    let running = || guards.iter().filter(|guard| !guard.scripts().is_empty()).count();
    until("both have read the switches", || (calls(&server, "hscan") >= 4).then_some(()));
    assert_eq!((running(), server.cli(&["exists", LOCK])), (0, "0".to_owned()));
    let (mut token, mut holders) = (0, Vec::new());
    for user in ["anna", "bert", "anna"] {
        server.cli(&["hset", "users", user, "true"]);
        let wanted = Instant::now();
        token = scene.runs_above(token);
        assert!(wanted.elapsed() < Duration::from_secs(2), "{:?}", wanted.elapsed());
        let field = until("it claims", || {
            let claims = claims(&server);
            (!claims.is_empty()).then_some(claims)
        });
        // A release that is carried out late cannot concern a later hold.
        let holder = server.cli(&["hkeys", LOCK]);
        assert!(holder.starts_with(&format!("{field}:")), "{holder}");
        assert!(!holders.contains(&holder), "{holder} after {holders:?}");
        holders.push(holder);
        assert_ne!(server.cli(&["hget", "hosts", &field]), "");
        let progress = || server.cli(&["hget", "stats", "last_run"]);
        let before = progress();
        until("it makes progress", || (progress() != before).then_some(()));
        server.cli(&["hset", "users", user, "false"]);
        let off = Instant::now();
        until("no script runs", || (running() == 0).then_some(()));
        assert!(off.elapsed() < Duration::from_secs(2), "{:?}", off.elapsed());
        until("the lock and the claim are gone", || {
            (server.cli(&["exists", LOCK]) == "0" && claims(&server).is_empty()).then_some(())
        });
    }
    scene.assert_never_both();
}

/// No lease excludes a pause of the guard and its keeper while the script runs on. The agent tells.
#[test]
fn the_agent_tells_that_two_scripts_ran() {
    let Some(server) = RedisServer::start("guard::hand_over: overrun") else { return };
    let scene = Scene::new();
    let file = configured(&scene, &server);
    let agent = Agent::start(&fs::read_to_string(&file).unwrap());
    let file = ["--config.file", file.to_str().unwrap(), "outbound"];
    server.cli(&["hset", "users", "anna", "true"]);
    let first = scene.start(&file, &scene.script());
    let token = scene.runs_above(0);
    until("the agent sees the claim", || {
        (agent.task("outbound")["live_claims"][0].is_string()).then_some(())
    });
    let _second = scene.start(&file, &scene.script());
    signal("STOP", &[first.pid(), first.keeper()]);
    let newer = scene.runs_above(token);
    until("they ran together for half a second", || {
        let runs = scene.runs();
        (runs[&token].1 > runs[&newer].0 + 500_000_000).then_some(())
    });
    signal("CONT", &[first.pid()]);
    let split = || agent.log_lines(&["event=split_ended", "reason=claims"]);
    until("the split is reported", || (!split().is_empty()).then_some(()));
    let totals = agent.task("outbound")["totals"].clone();
    let split_s = totals["split_seconds"].as_f64().unwrap();
    assert!((0.5..10.0).contains(&split_s), "{totals}");
    let instance = first.said();
    let (_, instance) = instance.split_once("holder=").unwrap();
    let (instance, _) = instance.split_once(' ').unwrap();
    let began = agent.log_lines(&["event=split_began", "reason=claims"]);
    assert!(began.iter().any(|line| line.contains(instance)), "{began:?}");
    let page = agent.text("/metrics");
    assert!(
        page.contains("lockwatch_task_event_age_seconds{") && page.contains("problem=\"split\"")
    );
}

/// Who holds the lock does not wait for it: a guard alone has nobody who would take over.
#[test]
fn a_guard_that_holds_the_lock_is_no_candidate() {
    let Some(server) = RedisServer::start("guard::hand_over: waiters") else { return };
    let scene = Scene::new();
    let file = configured(&scene, &server);
    let agent = Agent::start(&fs::read_to_string(&file).unwrap());
    let file = ["--config.file", file.to_str().unwrap(), "outbound"];
    server.cli(&["hset", "users", "anna", "true"]);
    let waiters = |what: &str, expected: u64| {
        until(what, || {
            let is_seen = agent.task("outbound")["lock"]["waiters"] == expected;
            (is_seen && listeners(&server) == expected).then_some(())
        });
    };
    let mut guards = vec![scene.start(&file, &scene.script())];
    let mut token = scene.runs_above(0);
    waiters("the first one is alone", 0);
    guards.push(scene.start(&file, &scene.script()));
    waiters("the second one waits", 1);
    guards[0].signal("TERM");
    guards[0].ended();
    token = scene.runs_above(token);
    waiters("the second one is alone", 0);
    guards[0] = scene.start(&file, &scene.script());
    waiters("the first one waits again", 1);
    server.cli(&["del", LOCK]);
    scene.runs_above(token);
    waiters("one of them lost it", 1);
}

#[test]
fn a_release_is_taken_over_at_once() {
    let Some(server) = RedisServer::start("guard::hand_over: release") else { return };
    let scene = Scene::new();
    let mut guards = [scene.guard(&server, &[]), scene.guard(&server, &[])];
    let mut token = scene.runs_above(0);
    for _ in 0..4 {
        let at = usize::from(guards[0].scripts().is_empty());
        guards[at].signal("TERM");
        guards[at].ended();
        let released = Instant::now();
        token = scene.runs_above(token);
        assert!(released.elapsed() < Duration::from_millis(500), "{:?}", released.elapsed());
        guards[at] = scene.guard(&server, &[]);
    }
    assert_eq!(scene.assert_never_both(), 5);
}

#[test]
fn after_failures_another_server_has_its_turn() {
    let Some(server) = RedisServer::start("guard::hand_over: failures") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let arguments = [
        "--redis",
        &redis,
        "--lock",
        LOCK,
        "--lease",
        "2s",
        "--stop-after",
        "500ms",
        "--restart",
        "always",
        "--give-up-after",
        "2",
    ];
    let text = "echo \"$LOCKWATCH_HOLDER\" >> $LOG; exit 1";
    let command = ["sh", "-c", text].map(str::to_owned);
    let _guards = [scene.start(&arguments, &command), scene.start(&arguments, &command)];
    let starts = until("four starts", || {
        let log = fs::read_to_string(scene.path("log")).unwrap();
        (log.lines().count() >= 4).then_some(log)
    });
    let starts: Vec<&str> = starts.lines().collect();
    assert_eq!((starts[0], starts[2]), (starts[1], starts[3]));
    assert_ne!(starts[1], starts[2], "two failures, and the other one has it");
}

#[test]
fn redisson_and_guards_wait_for_each_other() {
    let test = "guard::hand_over: redisson";
    let (Some(mut redisson), Some(server)) = (Redisson::start(test), RedisServer::start(test))
    else {
        return;
    };
    redisson.connect("c1", &format!("port={} watchdog=2000", server.port));
    redisson.run(&format!("lock c1 t1 {LOCK}"));
    let scene = Scene::new();
    let mut guard = scene.guard(&server, &[]);
    until("the guard waits", || (listeners(&server) == 1).then_some(()));
    assert!(scene.runs().is_empty(), "Redisson has it");
    redisson.run(&format!("unlock c1 t1 {LOCK}"));
    let released = Instant::now();
    scene.runs_above(0);
    assert!(released.elapsed() < Duration::from_millis(500), "{:?}", released.elapsed());
    redisson.send(&format!("lock c1 t1 {LOCK}"));
    until("Redisson waits, and the guard no more", || (listeners(&server) == 1).then_some(()));
    assert!(!guard.scripts().is_empty(), "the guard has it");
    guard.signal("TERM");
    guard.ended();
    let released = Instant::now();
    redisson.answer(PATIENCE).unwrap();
    assert!(released.elapsed() < Duration::from_millis(500), "{:?}", released.elapsed());
    assert_eq!(server.cli(&["hlen", LOCK]), "1");
}
