//! Exit codes, messages, and what the script is given.

use std::fs;
use std::process::Command;

use super::*;
use crate::support::skip;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_guard_for_one_run_ends_as_its_script_does() {
    let Some(server) = RedisServer::start("guard::codes: one run") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let lock = ["--redis", &redis, "--lock", LOCK];
    let run = |command: &[&str]| output(scene.start(&lock, &words(command)));
    assert_eq!(run(&["true"]).0, Some(0));
    assert_eq!(run(&["sh", "-c", "exit 7"]).0, Some(7));
    assert_eq!(run(&["sh", "-c", "kill -TERM $$"]).0, Some(128 + 15));
    let (code, said) = run(&["/nonexistent/program"]);
    assert!(code == Some(127) && said.contains("cannot run /nonexistent/program"), "{said}");
    let (code, said) = run(&["/etc/passwd"]);
    assert!(code == Some(126) && said.contains("ermission denied"), "{said}");
    assert_eq!(server.cli(&["exists", LOCK]), "0", "it is given back each time");
    // What it leaves behind is no part of what it did.
    let mut guard = scene.start(&lock, &words(&["sh", "-c", "setsid sleep 600 & exit 4"]));
    assert_eq!((guard.code(), guard.scripts()), (Some(4), vec![]));
}

#[test]
fn what_cannot_begin_is_refused_with_what_to_do() {
    let Some(server) = RedisServer::start("guard::codes: refusals") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let lock = ["--redis", &*redis, "--lock", LOCK];
    let run = |more: &[&str]| output(scene.start(&[&lock[..], more].concat(), &words(&["true"])));
    let (code, said) = run(&["--lease", "2s", "--stop-after", "1s"]);
    assert!(code == Some(64) && said.contains("too short: lease / 3 (666 ms"), "{said}");
    let (code, said) = run(&["--library", "string"]);
    assert!(code == Some(64) && said.contains("holds locks of redisson only"), "{said}");
    server.cli(&["set", LOCK, "a string"]);
    let (code, said) = run(&[]);
    assert!(code == Some(64) && said.contains("WRONGTYPE"), "{said}");
    server.cli(&["del", LOCK]);
    server.cli(&["acl", "setuser", "reader", "on", ">pw", "~*", "+@read", "+@connection", "+role"]);
    fs::write(scene.path("password"), "pw").unwrap();
    let password = scene.path("password");
    let login = ["--redis.username", "reader", "--redis.password-file", password.to_str().unwrap()];
    let (code, said) = run(&login);
    assert!(code == Some(69) && said.contains("NOPERM"), "{said}");
    server.cli(&["hset", LOCK, "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1"]);
    let (code, _) = run(&["--wait", "300ms"]);
    assert_eq!(code, Some(75));
    drop(server);
    let (code, _) = run(&["--wait", "300ms"]);
    assert_eq!(code, Some(69));
}

#[test]
fn what_is_typed_wrong_has_a_code_of_its_own() {
    if !skip::has("guard::codes: typed", &["true"]) {
        return;
    }
    let run = |arguments: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_lockwatch")).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for arguments in [
        &["guard"][..],
        &["guard", "outbound"],
        &["guard", "outbound", "true"],
        &["guard", "outbound", "--restart", "sometimes", "--", "true"],
        &["guard", "--config.file", "/nonexistent.yml", "outbound", "--", "true"],
        &["fence", "outbound", "--token", "many"],
    ] {
        let (code, said) = run(arguments);
        assert_eq!(code, Some(64), "{arguments:?}: {said}");
    }
}

#[test]
fn the_script_learns_who_it_is_and_can_check_its_token() {
    let Some(server) = RedisServer::start("guard::codes: fence") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let (program, lock) = (env!("CARGO_BIN_EXE_lockwatch"), ["--redis", &*redis, "--lock", LOCK]);
    let fence = format!("{program} fence {}", lock.join(" "));
    let text = format!(
        "env | grep ^LOCKWATCH_ > {out}; \
         {fence} || exit 1; \
         {fence} --token 99 && exit 2; \
         {fence} --holder 8743c9c0-0795-4907-87fd-6c719a6b4586:1 && exit 3; \
         exit 0",
        out = scene.path("env").display()
    );
    assert_eq!(output(scene.start(&lock, &words(&["sh", "-c", &text]))).0, Some(0));
    let environment = fs::read_to_string(scene.path("env")).unwrap();
    let value = |name: &str| {
        let line = environment.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("{name} in {environment}")).to_owned()
    };
    assert_eq!((value("LOCKWATCH_TASK"), value("LOCKWATCH_TOKEN")), (LOCK.into(), "1".into()));
    assert!(value("LOCKWATCH_HOLDER").ends_with(":1"));
    assert_eq!(value("LOCKWATCH_LEASE_MS"), "30000");
    assert!(value("LOCKWATCH_DEADLINE_BOOT_MS").parse::<u64>().is_ok());
    // Nobody holds it any more.
    let mut late = Command::new(program);
    late.arg("fence").args(lock).args(["--token", "1", "--holder", "a:1"]);
    assert_eq!(late.status().unwrap().code(), Some(70));
}

#[test]
fn signals_end_it_and_reach_the_script() {
    let Some(server) = RedisServer::start("guard::codes: signals") else { return };
    for name in ["TERM", "INT", "HUP"] {
        let scene = Scene::new();
        let mut guard = scene.guard(&server, &[]);
        scene.runs_above(0);
        guard.signal(name);
        assert_eq!(guard.code(), Some(3), "as the script ends when it is asked to");
        assert_eq!((guard.scripts(), server.cli(&["exists", LOCK])), (vec![], "0".to_owned()));
    }
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let text = "trap 'exit 9' USR1; touch $LOG.ready; while :; do sleep 0.01; done";
    let mut guard = scene.start(&["--redis", &redis, "--lock", LOCK], &words(&["sh", "-c", text]));
    until("it is ready", || scene.path("log.ready").exists().then_some(()));
    guard.signal("USR1");
    assert_eq!(guard.code(), Some(9));
}

#[test]
fn a_script_that_does_not_end_is_killed_in_time() {
    let Some(server) = RedisServer::start("guard::codes: deaf") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let text = "trap '' TERM; touch $LOG.ready; while :; do sleep 0.01; done";
    let arguments = ["--redis", &redis, "--lock", LOCK, "--stop-after", "300ms"];
    let mut guard = scene.start(&arguments, &words(&["sh", "-c", text]));
    until("it is ready", || scene.path("log.ready").exists().then_some(()));
    let asked = Instant::now();
    guard.signal("TERM");
    assert_eq!(guard.code(), Some(137));
    assert!(asked.elapsed() >= Duration::from_millis(300) && guard.scripts().is_empty());
}
