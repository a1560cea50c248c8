//! Redis on a Unix socket.

use std::path::Path;
use std::process::{Command, Output};

use lockwatch::config::Config;

use crate::support::PATIENCE;
use crate::support::agent::{Agent, program};
use crate::support::redis::RedisServer;

fn config(url: &str) -> String {
    format!(
        "redis:\n  main: {{url: \"{url}\", interval: 200ms, want: {{}}}}\n\
         tasks:\n  - {{name: outbound, lock: {{key: \"outbound:lock\"}}, wanted: {{hash: users}}, \
         blind_after: 5s, settle: 1s}}\n"
    )
}

fn said(command: &mut Command) -> (Output, String) {
    let output = command.stdout(std::process::Stdio::piped()).output().unwrap();
    let text = [output.stdout.as_slice(), &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output, text)
}

#[test]
fn a_socket_is_read_like_any_other_address() {
    let test = "sockets::a_socket_is_read_like_any_other_address";
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["-n", "2", "hset", "outbound:lock", "c0ffee:1", "1"]);
    server.cli(&["-n", "2", "pexpire", "outbound:lock", "3600000"]);
    let socket = server.socket().display().to_string();
    let url = format!("redis+unix://{socket}?db=2");
    let agent = Agent::start(&config(&url));
    agent.until_view(PATIENCE, "the lock is read", |view| view.held("outbound") == Some(1.0));
    // A change is announced over a socket as well.
    server.cli(&["-n", "2", "del", "outbound:lock"]);
    agent.until_view(PATIENCE, "the lock is free", |view| view.held("outbound") == Some(0.0));
    let servers = agent.text("/metrics");
    assert!(servers.contains(&format!("server=\"{socket}\"")), "{servers}");
}

#[test]
fn the_commands_take_a_socket() {
    let test = "sockets::the_commands_take_a_socket";
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["hset", "outbound:lock", "285475da-9152-4c83-822a-67ee2f116a79:1", "1"]);
    server.cli(&["pexpire", "outbound:lock", "3600000"]);
    let url = format!("unix://{}", server.socket().display());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lockwatch.yml");
    std::fs::write(&file, config(&url)).unwrap();
    let run = |words: &[&str]| said(program().args(words).arg("--config.file").arg(&file));
    let (output, text) = run(&["want", "outbound", "--user", "anna", "on"]);
    assert!(output.status.success(), "{text}");
    assert_eq!(server.cli(&["hget", "users", "anna"]), "true");
    let (_, text) = run(&["explain", "--once", "outbound"]);
    assert!(text.contains("285475da"), "{text}");
    let (output, text) = said(program().args(["discover", "--redis", &url, "--watch", "0s"]));
    assert!(output.status.success(), "{text}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let found = Config::parse(&printed, Path::new("lockwatch.yml")).unwrap();
    assert_eq!(found.redises[0].servers.configured()[0].socket(), server.socket().to_str());
}

#[test]
fn a_socket_that_is_not_there_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no.sock");
    let agent = Agent::start(&config(&format!("redis+unix://{}", path.display())));
    agent.until_view(PATIENCE, "the reason is shown", |view| {
        view.task("outbound")["lock"]["unknown"]["reason"] == "connect"
    });
    let text = agent.log_lines(&["cannot connect", "there is no such socket"]);
    assert_eq!(text.len(), 1, "{}", agent.log());
}
