//! The process itself: start, end, and that it does not look alive when its engine is dead.

use crate::support::PATIENCE;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use redis::cmd;

use super::config;
use super::locks::{HOLDER, OTHER, connect, switch, take};
use crate::support::agent::{Agent, program};
use crate::support::redis::RedisServer;
use crate::support::truth::rule;
use crate::support::{free_port, skip, wait_until};

/// A configuration whose server does not exist.
fn nowhere() -> String {
    config(free_port(), &["name: a, lock: {key: a}, wanted: {hash: users}"])
}

#[test]
fn every_task_is_on_the_first_page() {
    let _rule = rule("13 series");
    let tasks: Vec<String> =
        (0..500).map(|number| format!("name: t{number}, lock: {{key: k{number}}}")).collect();
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let agent = Agent::start(&config(free_port(), &tasks));
    let page = agent.page();
    let states = page.series("lockwatch_task_state_rank", &[("state", "unknown")]);
    assert_eq!((states.len(), states.values().all(|rank| *rank == 3.0)), (500, true));
    assert_eq!(page.series("lockwatch_task_down_seconds", &[]).len(), 500);
    assert_eq!(page.series("lockwatch_lock_acquisitions_total", &[]).len(), 500);
    assert_eq!(page.series("lockwatch_lock_held", &[]).len(), 0);
}

#[test]
fn it_is_ready_when_every_redis_was_tried() {
    // The listener accepts but never answers, so the first attempt runs into its timeout.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let agent = Agent::start(&config(port, &["name: a, lock: {key: a}"]).replace("500ms", "3s"));
    assert_eq!(agent.get("/-/ready").status, 503, "not tried yet");
    assert_eq!(agent.get("/-/healthy").status, 200);
    agent.until_view(PATIENCE, "ready", |_| agent.get("/-/ready").status == 200);
}

#[test]
fn an_engine_that_stands_still_does_not_look_green() {
    let _rule = rule("16 freshness");
    if cfg!(not(debug_assertions)) {
        return; // A release has no fault points.
    }
    let Some(server) =
        RedisServer::start("faults::lifecycle::an_engine_that_stands_still_does_not_look_green")
    else {
        return;
    };
    take(&mut connect(server.port), b"a", HOLDER.as_bytes());
    let stall = tempfile::TempDir::new().unwrap();
    let stall = stall.path().join("stall");
    let agent = Agent::start_with(&config(server.port, &["name: a, lock: {key: a}"]), |command| {
        command.env("LOCKWATCH_FAULT", format!("engine-stall:{}", stall.display()));
    });
    agent.until_view(PATIENCE, "read", |view| view.held("a") == Some(1.0));
    std::fs::write(&stall, "").unwrap();
    let begin = Instant::now();
    let paths = ["/metrics", "/-/healthy", "/-/ready", "/api/v1/tasks", "/api/v1/tasks/a", "/"];
    while agent.get("/metrics").status == 200 {
        assert!(begin.elapsed() < Duration::from_secs(15), "the page is still served");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(
        begin.elapsed() > Duration::from_secs(8),
        "a short stall is no reason to fail a scrape"
    );
    for path in paths {
        let refused = agent.get(path);
        assert_eq!(refused.status, 503, "{path}");
        assert!(!refused.text().contains("lockwatch_lock_held"), "{path}");
    }
    assert!(agent.get("/-/healthy").text().contains("engine has stopped"));
    std::fs::remove_file(&stall).unwrap();
    let healthy = || paths.iter().all(|path| agent.get(path).status == 200);
    wait_until(PATIENCE, "all is served again", healthy);
    // Replies to requests from before the pause are too late to be valid.
    agent.until_view(PATIENCE, "the lock is read again", |view| view.held("a") == Some(1.0));
}

#[test]
fn a_stop_is_orderly_even_with_an_open_connection() {
    for (signal, config) in [("TERM", nowhere()), ("INT", nowhere())] {
        let mut agent = Agent::start(&config);
        let mut open = TcpStream::connect(("127.0.0.1", agent.port)).unwrap();
        open.set_read_timeout(Some(PATIENCE)).unwrap();
        open.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = [0; 1024];
        let count = open.read(&mut answer).unwrap();
        assert!(
            answer[..count].starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&answer[..count])
        );
        let mut half = TcpStream::connect(("127.0.0.1", agent.port)).unwrap();
        half.write_all(b"GET /metrics HTT").unwrap();
        agent.signal(signal);
        let status = agent.ended_within(Duration::from_secs(5));
        assert_eq!(status.code(), Some(0), "{}", agent.log());
        assert_eq!(open.read(&mut answer).unwrap_or(0), 0, "the connection is closed");
        assert!(agent.log().contains("stopping"), "{}", agent.log());
    }
}

#[test]
fn a_stop_does_not_wait_for_a_stopped_server() {
    let Some(server) =
        RedisServer::start("faults::lifecycle::a_stop_does_not_wait_for_a_stopped_server")
    else {
        return;
    };
    let mut agent =
        Agent::start(&config(server.port, &["name: a, lock: {key: a}"]).replace("500ms", "30s"));
    agent.until_view(PATIENCE, "read", |view| view.held("a") == Some(0.0));
    server.pause();
    std::thread::sleep(Duration::from_millis(500));
    agent.signal("TERM");
    assert_eq!(agent.ended_within(Duration::from_secs(5)).code(), Some(0));
    server.go_on();
}

/// Sets a limit (`as`, `fsize`) of the agent's process, or removes it with `unlimited`.
fn limit(agent: &Agent, what: &str, value: &str) {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &agent.process().to_string(), &format!("--{what}={value}:")]);
    assert!(command.status().unwrap().success());
}

/// The address space that the agent uses now.
fn address_space(agent: &Agent) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.process())).unwrap();
    let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    size.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// As when a process limit is reached temporarily, perhaps by other programs.
#[test]
fn a_thread_that_the_system_refuses_ends_nothing() {
    let test = "faults::lifecycle::a_thread_that_the_system_refuses_ends_nothing";
    if !skip::has(test, &["prlimit"]) {
        return;
    }
    let agent = Agent::start_with(&nowhere(), |command| {
        command.arg("--web.enable-lifecycle");
    });
    agent.until_view(PATIENCE, "tried", |_| agent.get("/-/ready").status == 200);
    // Leaves no room for the stack of another thread.
    limit(&agent, "as", &(address_space(&agent) + (1 << 20)).to_string());
    let refused = agent.post("/-/reload");
    assert_eq!(refused.status, 500, "{}", refused.text());
    assert!(refused.text().contains("refuses a thread"), "{}", refused.text());
    limit(&agent, "as", "unlimited");
    assert_eq!(agent.post("/-/reload").status, 200, "{}", agent.log());
}

#[test]
fn a_file_that_is_as_long_as_it_may_be_ends_nothing_and_is_reported_once() {
    let test =
        "faults::lifecycle::a_file_that_is_as_long_as_it_may_be_ends_nothing_and_is_reported_once";
    if !skip::has(test, &["prlimit"]) {
        return;
    }
    const LENGTH: u64 = 8 << 10;
    let tasks: Vec<String> =
        (0..1_000).map(|number| format!("name: t{number}, lock: {{key: k{number}}}")).collect();
    let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
    let folder = tempfile::TempDir::new().unwrap();
    let agent = Agent::start_logging(&config(free_port(), &tasks), "info", "logfmt", |command| {
        command.arg("--record").arg(folder.path());
    });
    let files = || std::fs::read_dir(folder.path()).unwrap().count();
    // The agent's page of so many tasks costs seconds: only its log and its files are looked at.
    wait_until(PATIENCE, "something is recorded", || {
        let mut files = std::fs::read_dir(folder.path()).unwrap();
        files.any(|file| file.unwrap().metadata().is_ok_and(|file| file.len() > LENGTH))
    });
    limit(&agent, "fsize", &LENGTH.to_string());
    let reported = |what: &str| agent.log_lines(&[what]).len();
    wait_until(PATIENCE, "it is reported", || reported("cannot record") == 1);
    // It retries meanwhile.
    let began = Instant::now();
    wait_until(PATIENCE, "it has retried for a while", || {
        assert_eq!(reported("cannot record"), 1, "{}", agent.log());
        assert_eq!(reported("recording goes on"), 0, "{}", agent.log());
        assert!(files() <= 2, "{}", files());
        began.elapsed() > Duration::from_secs(12)
    });
    limit(&agent, "fsize", "unlimited");
    wait_until(PATIENCE, "it records again", || files() == 2);
    assert_eq!(agent.get("/-/healthy").status, 200, "{}", agent.log());
}

/// Replaces `name` by a FIFO without a writer: its readers hang as on a disk that does not respond.
fn hang(agent: &Agent, name: &str) {
    let _was_there = std::fs::remove_file(agent.path(name));
    assert!(Command::new("mkfifo").arg(agent.path(name)).status().unwrap().success());
}

/// Waits until a reader has opened it. As long as the writer exists, the reader gets no data.
#[must_use]
fn read_by_somebody(agent: &Agent, name: &str) -> File {
    const O_NONBLOCK: i32 = 0o4000;
    let mut writer = None;
    wait_until(PATIENCE, "it is being read", || {
        writer = File::options().write(true).custom_flags(O_NONBLOCK).open(agent.path(name)).ok();
        writer.is_some()
    });
    writer.unwrap()
}

#[test]
fn a_stop_does_not_wait_for_a_reload_that_hangs() {
    let mut agent = Agent::start(&nowhere());
    hang(&agent, "lockwatch.yml");
    agent.signal("HUP");
    let _writer = read_by_somebody(&agent, "lockwatch.yml");
    agent.signal("TERM");
    assert_eq!(agent.ended_within(Duration::from_secs(5)).code(), Some(0), "{}", agent.log());
}

/// A resolver that does not answer blocks a thread in the same way.
#[test]
fn a_stop_does_not_wait_for_a_password_that_cannot_be_read() {
    let folder = tempfile::TempDir::new().unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "hunter2").unwrap();
    let login = format!("redis:\n  main: {{password_file: \"{}\", url:", password.display());
    let mut agent = Agent::start(&nowhere().replace("redis:\n  main: {url:", &login));
    let password = password.to_str().unwrap();
    hang(&agent, password);
    let _writer = read_by_somebody(&agent, password);
    agent.signal("TERM");
    assert_eq!(agent.ended_within(Duration::from_secs(5)).code(), Some(0), "{}", agent.log());
}

/// Runs the program to its end: exit code and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let mut child = program().args(arguments).spawn().unwrap();
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn exit_codes_tell_a_wrong_call_from_a_failure() {
    let (code, said) = run(&["--log.level", "loud"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--log.level") && said.contains("warn"), "{said}");

    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("lockwatch.yml");
    let path = file.to_str().unwrap();
    let (code, said) = run(&["--config.file", path]);
    assert!(code == Some(2) && said.contains(path), "no file: {code:?} {said}");
    std::fs::write(
        &file,
        "redis:\n  main: {url: nonsense}\ntasks:\n  - {name: a, lock: {key: a}, grace: soon}\n",
    )
    .unwrap();
    for arguments in [vec!["--config.file", path], vec!["check-config", "--config.file", path]] {
        let (code, said) = run(&arguments);
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.contains("redis.main.url") && said.contains("tasks.a.grace"),
            "all mistakes: {said}"
        );
    }

    std::fs::write(&file, nowhere()).unwrap();
    let occupied = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = occupied.local_addr().unwrap().to_string();
    let (code, said) = run(&["--config.file", path, "--web.listen-address", &address]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("cannot listen on") && said.contains(&address) && said.contains("in use"),
        "{said}"
    );
    assert!(!said.contains("panicked"));
}

#[test]
fn promtool_has_nothing_to_say_about_a_live_page() {
    let test = "faults::lifecycle::promtool_has_nothing_to_say_about_a_live_page";
    if !skip::has(test, &["promtool"]) {
        return;
    }
    let Some(server) = RedisServer::start(test) else { return };
    let mut redis = connect(server.port);
    take(&mut redis, b"plain", HOLDER.as_bytes());
    let read = [("mode", "read"), (HOLDER, "1"), (OTHER, "2")];
    cmd("HSET").arg("read").arg(&read).exec(&mut redis).unwrap();
    let split = [(HOLDER, "1"), (OTHER, "1")];
    cmd("HSET").arg("split").arg(&split).exec(&mut redis).unwrap();
    cmd("SET").arg("token").arg("hunter2").arg("PX").arg(60_000).exec(&mut redis).unwrap();
    cmd("SET").arg("fenced").arg("x").exec(&mut redis).unwrap();
    cmd("SET").arg("count").arg("2").exec(&mut redis).unwrap();
    cmd("SADD").arg("set").arg("anna").exec(&mut redis).unwrap();
    cmd("SET").arg("pause").arg("2030-01-01T00:00:00Z").exec(&mut redis).unwrap();
    switch(&mut redis, "users", &[("anna", "1"), ("ben", "maybe")]);
    switch(&mut redis, "stats", &[("last_run", "1")]);
    switch(&mut redis, "hosts", &[(HOLDER.split_once(':').unwrap().0, "host \"one\"\\")]);
    let tasks = [
        "name: plain, lock: {key: plain, lease: 30s, renew_every: 10s}, wanted: {hash: users}, \
         hosts: {hash: hosts}, \
         progress: {hash: stats, field: last_run}, claims: {hash: claims}, max_hold: 1h, \
         paused_until: {key: pause}",
        "name: read, lock: {key: read}, wanted: {set: set}",
        "name: split, lock: {key: split}, wanted: always, progress: {length: absent}",
        "name: token, lock: {key: token, library: string}, wanted: {counter: count}",
        "name: free, lock: {key: free}, wanted: {keys: [anna, ben]}",
        "name: never, lock: {key: never}, wanted: never",
        "name: unreadable, lock: {key: fenced}",
    ];
    let agent = Agent::start(&config(server.port, &tasks));
    let view = agent.until_view(PATIENCE, "everything was read", |view| {
        view.verdict("split") == "split"
            && view.held("token") == Some(1.0)
            && view.reason("unreadable").is_some()
    });
    assert!(
        !view
            .page
            .series("lockwatch_lock_holder", &[("holder_host", "host \"one\"\\\\")])
            .is_empty(),
        "the host is shown"
    );
    assert!(!agent.get("/metrics").text().contains("hunter2"), "a token is shown");
    let mut promtool = Command::new("promtool");
    promtool
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut checking = promtool.spawn().unwrap();
    checking.stdin.take().unwrap().write_all(&agent.get("/metrics").body).unwrap();
    let output = checking.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
}
