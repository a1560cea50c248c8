//! Output that cannot be written, or that nobody reads: of the script, and of the guard itself.

use std::io::pipe;

use super::*;

const ARGUMENTS: [&str; 6] = ["--lock", LOCK, "--lease", "2s", "--stop-after", "500ms"];

/// A disk without room.
fn full() -> fs::File {
    fs::File::options().write(true).open("/dev/full").unwrap()
}

fn shell(text: &str) -> Vec<String> {
    ["sh", "-c", text].map(str::to_owned).to_vec()
}

/// The lock is renewed for longer than the lease, under the same token.
fn holds_on(server: &RedisServer) {
    let since = Instant::now();
    until("it holds for longer than the lease", || {
        let left: i64 = server.cli(&["pttl", LOCK]).parse().unwrap();
        assert!(left > 0, "the lock was lost");
        (since.elapsed() > Duration::from_millis(2_500)).then_some(())
    });
    assert_eq!(server.cli(&["get", &format!("redisson_lock_token:{{{LOCK}}}")]), "1");
}

#[test]
fn a_full_disk_costs_neither_guard_nor_lock() {
    let Some(server) = RedisServer::start("guard::output: full disk") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let arguments = [&["--redis", &*redis], &ARGUMENTS[..]].concat();
    let start = |more: &[&str], command: &[String]| {
        scene.start_to(&[&arguments[..], more].concat(), command, full(), full())
    };
    let text = "trap 'exit 3' TERM; while :; do echo lost || touch $LOG.failed; sleep 0.02; done";
    let mut guard = start(&["--log.level", "debug"], &shell(text));
    until("the script notices", || scene.path("log.failed").exists().then_some(()));
    holds_on(&server);
    guard.signal("TERM");
    assert_eq!((guard.code(), server.cli(&["exists", LOCK])), (Some(3), "0".to_owned()));
    // Nor does it change how a guard ends.
    assert_eq!(start(&[], &["/nonexistent/program".to_owned()]).code(), Some(127));
    assert_eq!(start(&["--library", "string"], &shell("true")).code(), Some(64));
    server.cli(&["set", LOCK, "a string"]);
    assert_eq!(start(&[], &shell("true")).code(), Some(64));
}

#[test]
fn a_script_that_waits_for_a_reader_is_held_and_killed() {
    let Some(server) = RedisServer::start("guard::output: no reader") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let arguments = [&["--redis", &*redis], &ARGUMENTS[..]].concat();
    let (_nobody_reads, writer) = pipe().unwrap();
    let text = "trap '' TERM; touch $LOG.ready; while :; do echo flood; echo flood >&2; done";
    let errors = writer.try_clone().unwrap();
    let mut guard = scene.start_to(&arguments, &shell(text), writer, errors);
    until("it is ready", || scene.path("log.ready").exists().then_some(()));
    holds_on(&server);
    let asked = Instant::now();
    guard.signal("TERM");
    assert_eq!(guard.code(), Some(137));
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert!(guard.scripts().is_empty() && server.cli(&["exists", LOCK]) == "0");
}
