//! Servers that refuse, connections that die: polling goes on, and one log line reports it.

use crate::support::PATIENCE;
use std::io::Write as _;
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use super::*;
use crate::support::proxy::{Fault, Proxy};
use crate::support::redis::Setup;
use crate::support::wait_until;

/// Time that the test itself may need to observe a change.
const LOOKING: Duration = Duration::from_millis(200);

const SAID: &str = "does not announce changes";

/// Changes while not tracking are read when tracking resumes.
#[test]
fn a_killed_connection_is_made_anew_and_everything_is_read() {
    let Some(server) =
        RedisServer::start("a_killed_connection_is_made_anew_and_everything_is_read")
    else {
        return;
    };
    server.cli(&["set", "lock:one", "token", "px", "600000"]);
    let agent = Agent::start(&config(server.port, NEVER, "", &[("one", "lock:one")]));
    until_listening(&agent);
    until_held(&agent, "one", true);
    for round in 1..=3 {
        let line = listener(&server).expect("somebody listens");
        let id = line.split([' ', '=']).nth(1).unwrap();
        // In one write, so that the change is not announced.
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(format!("CLIENT KILL ID {id}\r\nDEL lock:one\r\n").as_bytes()).unwrap();
        until_held(&agent, "one", false);
        agent.until(PATIENCE, "it listens again", |page| {
            wakes(page) == Some(1.0)
                && page.get("lockwatch_store_wake_up_reconnects_total", &[])
                    >= Some(f64::from(round))
        });
        server.cli(&["set", "lock:one", "token", "px", "600000"]);
        until_held(&agent, "one", true);
    }
    assert_eq!(agent.log_lines(&[SAID]).len(), 0, "a break that is mended at once is no news");
}

/// A network without a route: nothing is closed, nothing arrives.
#[test]
fn a_silent_connection_is_given_up() {
    let Some(server) = RedisServer::start("a_silent_connection_is_given_up") else { return };
    let proxy = Proxy::start(server.port);
    let agent = Agent::start(&config(proxy.port, NEVER, "", &[("one", "lock:one")]));
    until_listening(&agent);
    until_held(&agent, "one", false);
    proxy.set(Fault::SwallowReplies);
    agent.until(PATIENCE, "it is silent", |page| wakes(page) == Some(0.0));
    server.cli(&["set", "lock:one", "token", "px", "600000"]);
    proxy.set(Fault::None);
    proxy.cut();
    agent.until(PATIENCE, "it listens again", |page| wakes(page) == Some(1.0));
    until_held(&agent, "one", true);
}

/// Polling does not depend on announcements: a tracking connection that dies silently only makes
/// changes be seen later.
#[test]
fn while_a_listening_connection_is_silent_changes_are_seen_at_the_pace_of_polling() {
    let test = "while_a_listening_connection_is_silent_changes_are_seen_at_the_pace_of_polling";
    let Some(server) = RedisServer::start(test) else { return };
    let proxy = Proxy::start(server.port);
    let interval = Duration::from_millis(500);
    // The agent cannot detect within this test that the connection is dead.
    let config = config(proxy.port, "500ms", "", &[("one", "lock:one")])
        .replace("timeout: 2s", "timeout: 60s");
    let agent = Agent::start(&config);
    until_listening(&agent);
    until_held(&agent, "one", false);
    proxy.set(Fault::SwallowTracking);
    let reported = hints(&agent.page(), "read");
    let mut slowest = Duration::ZERO;
    for round in 1..=12_u32 {
        // Spread over the interval.
        std::thread::sleep(interval * round / 12);
        let began = Instant::now();
        let count = f64::from(round);
        server.cli(&["set", "lock:one", "token", "px", "600000"]);
        agent.until(PATIENCE, "the hold", |page| {
            page.of("one", "lock_acquisitions_total") == Some(count)
        });
        slowest = slowest.max(began.elapsed());
        server.cli(&["del", "lock:one"]);
        agent.until(PATIENCE, "its end", |page| page.ends("one", "ended_early") == count);
    }
    let page = agent.page();
    agent.check(
        &page,
        "nothing was reported",
        hints(&page, "read") == reported && wakes(&page) == Some(1.0),
    );
    eprintln!("seen after {slowest:?} at most");
    // The observation takes time too, above all on a machine under load.
    assert!(slowest <= interval + Duration::from_millis(50) + LOOKING, "seen after {slowest:?}");
}

/// Users without the right to track: the locks are read as usual.
#[test]
fn a_user_without_the_right_is_polled() {
    let Some(server) = RedisServer::start("a_user_without_the_right_is_polled") else { return };
    let rights = [
        ("tracking", "+@all -client|tracking ~* &*", "CLIENT TRACKING was refused"),
        ("channel", "+@all ~* resetchannels", "SUBSCRIBE was refused"),
        ("subscribing", "+@all -subscribe ~* &*", "SUBSCRIBE was refused"),
    ];
    for (user, rights, refusal) in rights {
        let words: Vec<&str> = ["acl", "setuser", user, "reset", "on", "nopass"]
            .into_iter()
            .chain(rights.split(' '))
            .collect();
        assert_eq!(server.cli(&words), "OK");
        server.cli(&["del", "lock:one"]);
        let agent = Agent::start(&config(
            server.port,
            "200ms",
            &format!(", username: {user}"),
            &[("one", "lock:one")],
        ));
        wait_until(PATIENCE, "it is refused", || !agent.log_lines(&[SAID]).is_empty());
        until_held(&agent, "one", false);
        server.cli(&["set", "lock:one", "token", "px", "600000"]);
        let page = until_held(&agent, "one", true);
        agent.check(&page, "it is shown", wakes(&page) == Some(0.0));
        let said = agent.log_lines(&[SAID]);
        assert!(
            said.len() == 1 && said[0].contains(refusal) && said[0].contains("lockwatch acl"),
            "{said:?}"
        );
        assert_eq!(agent.log_lines(&["level=error"]).len(), 0, "{user}");
    }
}

/// The right may have been granted since, or another server may have taken over the name.
#[test]
fn who_refused_is_asked_again_after_a_reconnect() {
    let Some(server) = RedisServer::start("who_refused_is_asked_again_after_a_reconnect") else {
        return;
    };
    let rights = |more: &[&str]| {
        assert_eq!(server.cli(&[&["acl", "setuser", "watcher"], more].concat()), "OK")
    };
    rights(&["reset", "on", "nopass", "+@all", "-client|tracking", "~*", "&*"]);
    let agent =
        Agent::start(&config(server.port, "200ms", ", username: watcher", &[("one", "lock:one")]));
    wait_until(PATIENCE, "it is refused", || !agent.log_lines(&[SAID]).is_empty());
    until_held(&agent, "one", false);
    rights(&["+@all"]);
    server.cli(&["client", "kill", "type", "normal"]);
    until_listening(&agent);
}

/// A server that temporarily cannot serve: that passes, however often it was asked meanwhile.
#[test]
fn a_server_that_was_busy_is_listened_to_soon_again() {
    let test = "a_server_that_was_busy_is_listened_to_soon_again";
    let Some(server) = RedisServer::start_with(test, &["--busy-reply-threshold", "50"]) else {
        return;
    };
    let agent = Agent::start(&config(server.port, "200ms", "", &[("one", "lock:one")]));
    until_listening(&agent);
    let mut looping = server.cli_in_background(&["EVAL", "while true do end", "0"]);
    agent.until(PATIENCE, "it was asked in vain some times", |page| {
        wakes(page) == Some(0.0) && page.of("one", "task_blind_seconds") > Some(4.0)
    });
    assert_eq!(server.cli(&["SCRIPT", "KILL"]), "OK");
    looping.wait().unwrap();
    until_listening(&agent);
    assert_eq!(agent.log_lines(&[SAID, "busy"]).len(), 1, "it is said once");
}

/// The rule that `lockwatch acl` prints suffices.
#[test]
fn the_printed_rule_lets_it_listen() {
    let Some(server) = RedisServer::start("the_printed_rule_lets_it_listen") else { return };
    let config = config(server.port, NEVER, ", username: watcher", &[("one", "lock:one")]);
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("lockwatch.yml");
    std::fs::write(&file, &config).unwrap();
    let mut acl = crate::support::agent::program();
    let acl =
        acl.arg("acl").arg("--config.file").arg(&file).stdout(Stdio::piped()).output().unwrap();
    let rule = String::from_utf8(acl.stdout).unwrap();
    let rule = rule
        .lines()
        .find(|line| line.starts_with("ACL"))
        .unwrap()
        .replace(">PASSWORD", "nopass")
        .replace('"', "");
    let words: Vec<&str> = rule.split(' ').collect();
    assert_eq!(server.cli(&words), "OK", "{rule}");
    let agent = Agent::start(&config);
    until_listening(&agent);
    server.cli(&["set", "lock:one", "token", "px", "600000"]);
    until_held(&agent, "one", true);
    let refused = server.cli(&["acl", "log"]);
    assert!(!refused.contains("wake-ups"), "{refused}");
}

/// Redis before 6.0, and proxies without RESP3.
#[test]
fn a_server_without_resp3_is_polled() {
    if !RedisServer::can_start("a_server_without_resp3_is_polled") {
        return;
    }
    let arguments = ["--rename-command", "HELLO", ""].map(str::to_owned).to_vec();
    let server =
        RedisServer::launch(|_| Setup { arguments: arguments.clone(), ..Setup::default() });
    let agent = Agent::start(&config(server.port, "200ms", "", &[("one", "lock:one")]));
    agent.until(PATIENCE, "it is refused", |page| wakes(page) == Some(0.0));
    server.cli(&["set", "lock:one", "token", "px", "600000"]);
    until_held(&agent, "one", true);
    wait_until(PATIENCE, "nobody listens", || listener(&server).is_none());
    let said = agent.log_lines(&[SAID]);
    assert!(said.len() == 1 && said[0].contains("Redis 6.0"), "{said:?}");
}

/// A hint only triggers a read: what a demoted master announces changes nothing.
#[test]
fn a_hint_of_a_demoted_master_proves_nothing() {
    let Some(server) = RedisServer::start("a_hint_of_a_demoted_master_proves_nothing") else {
        return;
    };
    server.cli(&["set", "lock:one", "token", "px", "600000"]);
    let agent = Agent::start(&config(server.port, NEVER, "", &[("one", "lock:one")]));
    until_listening(&agent);
    let before = until_held(&agent, "one", true);
    server.cli(&["config", "set", "replica-read-only", "no"]);
    server.cli(&["replicaof", "127.0.0.1", "1"]);
    server.cli(&["del", "lock:one"]);
    let view = agent.until_view(PATIENCE, "it says that it is a replica", |view| {
        view.reason("one") == Some("not_master")
    });
    agent.check(&view, "the lock is unknown", view.held("one").is_none());
    agent.check(&view, "no end", view.of_lock("one", "ends_total") == 0.0);
    agent.check(&view, "the verdict stays", view.verdict("one") == before.verdict("one"));
    server.cli(&["replicaof", "no", "one"]);
    server.cli(&["set", "lock:one", "other", "px", "600000"]);
    agent.until(PATIENCE, "it decides again", |page| page.of("one", "lock_held") == Some(1.0));
}
