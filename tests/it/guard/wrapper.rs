//! The guard as a wrapper of a command, as people know it from `flock`, cron and containers.

use std::io::Write as _;

use super::*;
use crate::support::agent::Agent;

fn shell(text: &str) -> Vec<String> {
    ["sh", "-c", text].map(str::to_owned).to_vec()
}

const OTHER: &str = "8743c9c0-0795-4907-87fd-6c719a6b4586";

#[test]
fn without_patience_a_free_lock_is_taken_and_a_held_one_is_left_with_the_words_who_has_it() {
    let Some(server) = RedisServer::start("guard::wrapper: wait 0s") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let lock = ["--redis", &*redis, "--lock", LOCK, "--wait", "0s"];
    let run = |more: &[&str]| {
        let (code, said) = output(scene.start(&[&lock[..], more].concat(), &shell("exit 7")));
        (code, said.lines().last().unwrap_or_default().to_owned())
    };
    for _ in 0..5 {
        assert_eq!(run(&[]).0, Some(7), "{}", scene.said());
    }
    server.cli(&["hset", LOCK, &format!("{OTHER}:1"), "1"]);
    server.cli(&["pexpire", LOCK, "90000"]);
    let began = Instant::now();
    let (code, said) = run(&[]);
    assert_eq!(code, Some(75));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    let expected = format!("gave up after 0s: the lock {LOCK} is held by {OTHER}, for 1m29s");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(run(&["--busy-code", "0"]).0, Some(0));
    drop(server);
    let (code, said) = run(&["--busy-code", "0"]);
    assert_eq!(code, Some(69), "an unreachable Redis is no other holder");
    assert!(said.contains("gave up after 0s: Redis cannot be used"), "{said}");
}

#[test]
fn the_last_line_names_the_host_or_that_nobody_wants_it() {
    let Some(server) = RedisServer::start("guard::wrapper: last line") else { return };
    let scene = Scene::new();
    fs::write(scene.path("lockwatch.yml"), format!(
        "redis: {{main: {{url: 'redis://{}'}}}}\ntasks: [{{name: outbound, lock: {{key: '{LOCK}'}}, \
         hosts: {{hash: hosts}}, wanted: {{hash: users}}}}]\n", server.address())).unwrap();
    let file = scene.path("lockwatch.yml");
    // The only task needs no name.
    let arguments = ["--config.file", file.to_str().unwrap(), "--wait", "100ms"];
    let run = || output(scene.start(&arguments, &shell("exit 7")));
    server.cli(&["hset", "users", "anna", "0"]);
    let (code, said) = run();
    assert!(
        code == Some(75) && said.contains("gave up after 100ms: nobody wants outbound"),
        "{said}"
    );
    server.cli(&["hset", "users", "anna", "1"]);
    server.cli(&["hset", LOCK, &format!("{OTHER}:1"), "1"]);
    server.cli(&["hset", "hosts", OTHER, "wms-app-02"]);
    let (code, said) = run();
    assert!(
        code == Some(75) && said.contains(&format!("is held by {OTHER} on wms-app-02")),
        "{said}"
    );
    let (code, said) = output(scene.start(&[&arguments[..], &["nope"]].concat(), &shell("true")));
    assert_eq!(code, Some(64));
    assert!(said.contains("There is no task called nope; the only one is outbound"), "{said}");
}

/// Cron on two servers whose clocks differ: the work is done before the second one starts.
#[test]
fn a_lock_that_is_kept_stops_the_next_server_and_is_no_expiry() {
    let Some(server) = RedisServer::start("guard::wrapper: at least") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let config = format!(
        "redis: {{main: {{url: 'redis://{}', interval: 100ms}}}}\ntasks: [{{name: t, lock: \
         {{key: '{LOCK}'}}}}]\n",
        server.address()
    );
    let agent = Agent::start(&config);
    agent.until(PATIENCE, "it is read", |page| page.of("t", "lock_held") == Some(0.0));
    let lock = ["--redis", &*redis, "--lock", LOCK, "--lease", "4s", "--stop-after", "500ms"];
    let run = |more: &[&str]| {
        let began = Instant::now();
        let code = output(scene.start(&[&lock[..], more].concat(), &shell("echo ran >> $LOG"))).0;
        (code, began.elapsed())
    };
    let (code, took) = run(&["--at-least", "3s"]);
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_millis(2_500), "the guard does not wait for it: {took:?}");
    let left: i64 = server.cli(&["pttl", LOCK]).parse().unwrap();
    assert!((1..3_000).contains(&left), "{left}");
    assert_eq!(run(&["--at-least", "3s", "--wait", "0s", "--busy-code", "9"]).0, Some(9));
    until("the rest is over", || (server.cli(&["exists", LOCK]) == "0").then_some(()));
    // Longer than the lease: it is renewed until the rest fits.
    assert_eq!(run(&["--at-least", "5s", "--wait", "0s"]).0, Some(0));
    assert_eq!(server.cli(&["exists", LOCK]), "1");
    until("the rest is over", || (server.cli(&["exists", LOCK]) == "0").then_some(()));
    assert_eq!(fs::read_to_string(scene.path("log")).unwrap(), "ran\nran\n");
    let page = agent.until(PATIENCE, "both ends are seen", |page| {
        page.of("t", "lock_held") == Some(0.0) && page.ends("t", "ended_early") == 2.0
    });
    assert_eq!(page.ends("t", "expired"), 0.0);
    let outage = [("task", "t"), ("of", "outage")];
    let outage = page.get("lockwatch_task_time_seconds_total", &outage);
    assert!(outage.unwrap_or_default() == 0.0, "{outage:?}");
    let (code, said) = output(scene.start(
        &[&lock[..], &["--at-least", "5s", "--restart", "always"]].concat(),
        &shell("true"),
    ));
    assert!(code == Some(64) && said.contains("add --restart never, or on_failure"), "{said}");
}

fn with_input(scene: &Scene, arguments: &[&str], input: impl Into<Stdio>) -> Child {
    Command::new(env!("CARGO_BIN_EXE_lockwatch"))
        .arg("guard")
        .args(arguments)
        .args(["--", "cat"])
        .env("LOG", scene.path("log"))
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn the_script_reads_the_standard_input_if_that_is_wanted() {
    let Some(server) = RedisServer::start("guard::wrapper: stdin") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let lock = ["--redis", &*redis, "--lock", LOCK];
    let with = [&lock[..], &["--stdin"]].concat();
    let through_pipe = |arguments: &[&str]| {
        let mut guard = with_input(&scene, arguments, Stdio::piped());
        guard.stdin.take().unwrap().write_all(b"from a pipe").unwrap();
        let output = guard.wait_with_output().unwrap();
        assert!(output.status.success());
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (out, said) = through_pipe(&with);
    assert_eq!(out, "from a pipe", "{said}");
    assert!(!said.contains("nobody reads the standard input"), "{said}");
    let (out, said) = through_pipe(&lock);
    assert_eq!(out, "");
    assert!(said.contains("--stdin lets the script read it"), "{said}");

    fs::write(scene.path("input"), "from a file").unwrap();
    let file = || fs::File::open(scene.path("input")).unwrap();
    let output = with_input(&scene, &with, file()).wait_with_output().unwrap();
    assert_eq!(output.stdout, b"from a file");
    // A job of cron has an empty pipe, and nothing is lost.
    for empty in [Stdio::null(), Stdio::piped()] {
        let mut guard = with_input(&scene, &lock, empty);
        drop(guard.stdin.take());
        let output = guard.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && !said.contains("standard input"), "{said}");
    }
}

/// `journalctl -p err` finds lines by the priority before them.
#[test]
fn lines_for_the_journal_begin_with_their_priority() {
    use std::os::unix::fs::MetadataExt as _;

    let scene = Scene::new();
    let file = fs::File::create(scene.path("journal")).unwrap();
    let metadata = file.metadata().unwrap();
    let arguments = ["guard", "--redis", "redis://127.0.0.1:1", "--lock", LOCK, "--wait", "0s"];
    let said = |stream: String| {
        let mut guard = Command::new(env!("CARGO_BIN_EXE_lockwatch"));
        guard.args(arguments).args(["--", "true"]).env("JOURNAL_STREAM", stream);
        let file = fs::File::create(scene.path("journal")).unwrap();
        assert_eq!(guard.stdin(Stdio::null()).stderr(file).status().unwrap().code(), Some(69));
        fs::read_to_string(scene.path("journal")).unwrap()
    };
    let journal = said(format!("{}:{}", metadata.dev(), metadata.ino()));
    assert!(journal.contains("<6>ts=") && journal.contains("<4>ts="), "{journal}");
    assert!(journal.lines().all(|line| line.starts_with('<') || line.starts_with("lockwatch:")));
    let other = said(format!("{}:1", metadata.dev()));
    assert!(other.contains("ts=") && !other.contains("<6>"), "{other}");
}
