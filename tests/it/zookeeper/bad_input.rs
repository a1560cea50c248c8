//! What servers and users may put in the way: exactly the tasks concerned are unknown.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use super::{LONG_MS, Scene};
use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::zookeeper::{Clients, Setup};

const TASKS: &str = "
  - {name: crowd, zookeeper: zk, lock: {path: /crowd, library: curator}, wanted: always, grace: 1s, settle: 500ms}
  - {name: heavy, zookeeper: zk, lock: {path: /heavy, library: kazoo}, wanted: always, grace: 1s, settle: 500ms}
  - {name: vain, zookeeper: zk, lock: {path: /vain, library: curator}, wanted: always, grace: 1s, settle: 500ms}
  - {name: fine, zookeeper: zk, lock: {path: /fine, library: kazoo}, wanted: always, grace: 1s, settle: 500ms}
";

/// A folder with 100,000 children; a lock node with 1 MB of data; a folder that vanishes. Words of
/// four letters are forbidden.
#[test]
fn crowds_heavy_data_and_folders_that_vanish_concern_their_own_tasks_only() {
    let test = "zookeeper::bad_input::crowds_heavy_data_and_folders_that_vanish";
    let mut setup = Setup::of(1);
    setup.lines.push("4lw.commands.whitelist=srvr".to_owned());
    setup.jvm.push("-Djute.maxbuffer=20000000".to_owned());
    setup.jvm.push("-Xmx256m".to_owned());
    let Some(scene) = Scene::open(test, setup, TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    let one = kazoo.session("one", LONG_MS);
    kazoo.run_command("take one fine lock /fine web-1");
    kazoo.event("held", "fine");
    scene.until("fine", "running");
    let memory = || rss_kb(&scene.agent);
    let before = memory();

    kazoo.run_command("create one /heavy -");
    let child = "00000000000000000000000000000000__lock__0000000000";
    kazoo.run_command(&format!("create one /heavy/{child} - ephemeral"));
    scene.until_held("heavy", &[&one], 0);
    kazoo.run_command(&format!("big one /heavy/{child} 1000000"));
    // Who holds it is known by the node's state.
    scene.until_held("heavy", &[&one], 0);

    kazoo.run_command("create one /vain -");
    kazoo.run_command("create one /vain/_c_0-lock-0000000000 - ephemeral");
    scene.until("vain", "running");
    kazoo.run_command("delete one /vain");
    scene.until("vain", "down");
    kazoo.run_command("create one /vain -");
    kazoo.run_command("create one /vain/_c_0-lock-0000000000 - ephemeral");
    scene.until("vain", "running");

    let began = Instant::now();
    kazoo.run_command("create one /crowd -");
    kazoo.run_command("many one /crowd a-very-long-name-in-front-of-lock- 100000");
    eprintln!("100,000 children in {:?}", began.elapsed());
    let view = scene
        .agent
        .until_view(PATIENCE, "too large", |view| view.reason("crowd") == Some("too_large"));
    let why = view.task("crowd")["lock"]["unknown"].to_string();
    eprintln!("{why}");
    scene.agent.throughout(Duration::from_secs(3), "the others are well", |view| {
        view.verdict("fine") == "running" && view.verdict("vain") == "running"
    });
    eprintln!("memory: {before} kB, {} kB", memory());
    assert!(memory() < before + 40_000, "{before} kB before, {} kB", memory());
}

fn rss_kb(agent: &Agent) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", agent.process())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// From 2,147,483,647 on every contender gets the same number, and Kazoo lets all of them in.
#[test]
fn numbers_that_stand_still_are_no_order() {
    let test = "zookeeper::bad_input::numbers_that_stand_still_are_no_order";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    let one = kazoo.session("one", LONG_MS);
    let node = |letter: &str, number: &str| format!("/fine/{}__lock__{number}", letter.repeat(32));
    kazoo.run_command("create one /fine -");
    kazoo.run_command(&format!("create one {} - ephemeral", node("a", "2147483647")));
    scene.until_held("fine", &[&one], 0);
    kazoo.run_command(&format!("create one {} - ephemeral", node("b", "2147483647")));
    scene.agent.until_view(PATIENCE, "no order", |view| view.reason("fine") == Some("layout"));
    kazoo.run_command(&format!("create one {} - ephemeral", node("c", "-2147483648")));
    kazoo.run_command(&format!("delete one {}", node("b", "2147483647")));
    scene.agent.throughout(Duration::from_secs(2), "nobody is said to be gone", |view| {
        view.held("fine") != Some(0.0)
    });
}

/// A server that takes every connection and answers with these bytes, or with nothing.
fn impostor(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut bytes = [0; 1024];
                while stream.read(&mut bytes).is_ok_and(|count| count > 0) {
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// A server that speaks something else, and one that never answers: unknown, each with its reason.
/// A good server of the same ensemble is found all the same.
#[test]
fn servers_that_speak_garbage_or_nothing_are_left() {
    let test = "zookeeper::bad_input::servers_that_speak_garbage_or_nothing_are_left";
    let cases: [(&'static [u8], &str); 5] = [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "protocol"),
        (b"\x7f\xff\xff\xff", "protocol"),
        (b"\xff\xff\xff\xff", "protocol"),
        (b"\x00\x00\x00\x04abcd", "protocol"),
        (b"", "timeout"),
    ];
    let ports: Vec<u16> = cases.iter().map(|(answer, _)| impostor(answer)).collect();
    let blocks: String = ports
        .iter()
        .enumerate()
        .map(|(at, port)| {
            format!("  z{at}: {{servers: [\"127.0.0.1:{port}\"], interval: 500ms, timeout: 1s}}\n")
        })
        .collect();
    let tasks: String = (0..ports.len())
        .map(|at| format!("  - {{name: t{at}, zookeeper: z{at}, lock: {{path: /a}}, wanted: always, settle: 500ms, blind_after: 3s}}\n"))
        .collect();
    let agent = Agent::start(&format!("zookeeper:\n{blocks}tasks:\n{tasks}"));
    for (at, (_, reason)) in cases.iter().enumerate() {
        let task = format!("t{at}");
        let view = agent.until_view(PATIENCE, reason, |view| view.reason(&task) == Some(reason));
        assert_ne!(view.verdict(&task), "down");
    }

    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    let one = kazoo.session("one", LONG_MS);
    kazoo.run_command("take one fine lock /fine web-1");
    kazoo.event("held", "fine");
    let good = scene.ensemble.port(0);
    let servers: Vec<String> =
        ports.iter().chain([&good]).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    let agent = Agent::start(&format!(
        "zookeeper:\n  zk: {{servers: [{}], interval: 500ms, timeout: 1s}}\ntasks:\n{TASKS}",
        servers.join(", ")
    ));
    let mixed = Scene { agent, ensemble: scene.ensemble };
    mixed.until_held("fine", &[&one], 0);
    mixed.until("fine", "running");
    // That nobody holds these is known, too: a good server proves it.
    mixed.until("vain", "down");
}
