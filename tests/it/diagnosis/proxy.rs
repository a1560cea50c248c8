//! A real twemproxy: it closes the connection at the first command that it does not know.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use super::accepting;
use crate::support::agent::Agent;
use crate::support::child::OwnedChild;
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, free_port, skip};

/// Debian has it where not every user's `PATH` leads.
const PROGRAM: &str = "/usr/sbin/nutcracker";

fn start(server: &RedisServer, folder: &TempDir) -> (OwnedChild, u16) {
    let (port, stats) = (free_port(), free_port());
    let file = folder.path().join("nutcracker.yml");
    let text = format!(
        "main:\n  listen: 127.0.0.1:{port}\n  redis: true\n  servers:\n   - {}:1\n",
        server.address()
    );
    std::fs::write(&file, text).unwrap();
    let program = if Path::new(PROGRAM).is_file() { PROGRAM } else { "nutcracker" };
    let mut command = Command::new(program);
    command
        .args(["-c".as_ref(), file.as_os_str()])
        .args(["-a", "127.0.0.1", "-s", &stats.to_string(), "-o"])
        .arg(folder.path().join("log"));
    (accepting(&mut command, port), port)
}

#[test]
fn twemproxy_is_known_by_the_command_at_which_it_closes() {
    let test = "diagnosis::proxy::twemproxy_is_known_by_the_command_at_which_it_closes";
    if !Path::new(PROGRAM).is_file() && !skip::has(test, &["nutcracker"]) {
        return;
    }
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["set", "job", "token"]);
    let folder = TempDir::new().unwrap();
    let (_proxy, port) = start(&server, &folder);
    let config = |address: &str, more: &str| {
        format!(
            "redis: {{main: {{url: 'redis://{address}', interval: 200ms{more}}}}}\n\
             tasks: [{{name: job, lock: {{key: job, library: string}}}}]\n"
        )
    };
    let agent = Agent::start(&config(&format!("127.0.0.1:{port}"), ", assume_master: true"));
    let view = agent.until_view(PATIENCE, "the reason", |view| {
        view.reason("job") == Some("closed")
            && view.task("job")["lock"]["unknown"]["said"].is_string()
    });
    let unknown = &view.task("job")["lock"]["unknown"];
    let said = unknown["said"].as_str().unwrap();
    assert!(said.ends_with("the first command without an answer was CLIENT SETNAME"), "{said}");
    let remedy = unknown["remedy"].as_str().unwrap();
    assert!(remedy.contains("give the address of the server behind it"), "{remedy}");
    agent.write_config(&config(&server.address(), ""));
    agent.signal("HUP");
    agent.until_view(PATIENCE, "it is read", |view| view.held("job") == Some(1.0));
}
