//! A real Envoy: its proxy for Redis sends the commands of all its clients over shared connections,
//! so a `SELECT` of one moves all. None of the program's parts may send it one.

use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::accepting;
use crate::support::agent::{Agent, program};
use crate::support::child::OwnedChild;
use crate::support::redis::{ENVOY, RedisServer};
use crate::support::{PATIENCE, free_port, skip};

/// How the words about it end.
const REMEDY: &str = "Give the address of the server behind it";

fn start(server: &RedisServer, folder: &TempDir) -> (OwnedChild, u16) {
    let port = free_port();
    let file = folder.path().join("envoy.yaml");
    let text = include_str!("envoy.yaml")
        .replace("{PORT}", &port.to_string())
        .replace("{SERVER}", &server.port.to_string());
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(ENVOY.program());
    command.arg("-c").arg(&file).args([
        "--use-dynamic-base-id",
        "--concurrency",
        "1",
        "--log-level",
        "off",
    ]);
    (accepting(&mut command, port), port)
}

/// What a command of the program says, whether it succeeds or not.
fn said(folder: &TempDir, words: &[&str]) -> String {
    let mut command = program();
    command.args(words).current_dir(folder.path());
    let output = command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    assert_ne!(output.status.code(), Some(0), "{words:?}");
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8(text).unwrap()
}

#[test]
fn envoy_is_known_before_a_database_is_selected_through_it() {
    let test = "diagnosis::envoy::envoy_is_known_before_a_database_is_selected_through_it";
    if !ENVOY.program().is_file() {
        return skip::say(test, &ENVOY.program().display().to_string());
    }
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["set", "job", "token"]);
    let folder = TempDir::new().unwrap();
    let (_proxy, port) = start(&server, &folder);
    let mut worker = redis::Client::open(("127.0.0.1", port)).unwrap().get_connection().unwrap();
    let mut get = || redis::cmd("GET").arg("job").query::<Option<String>>(&mut worker).unwrap();
    assert_eq!(get().as_deref(), Some("token"));

    let config = |db: u32, more: &str| {
        format!(
            "redis: {{main: {{url: 'redis://127.0.0.1:{port}/{db}', interval: 200ms, want: \
             {{}}{more}}}}}\ntasks:\n  - {{name: job, lock: {{key: job, library: string}}, wanted: \
             {{set: users}}}}\n  - {{name: run, lock: {{key: run}}, wanted: {{set: users}}, guard: \
             {{}}}}\n"
        )
    };
    for (db, more) in [(1, ""), (1, ", assume_master: true"), (0, ", assume_master: true")] {
        let config = config(db, more);
        let agent = Agent::start(&config);
        let view = agent.until_view(PATIENCE, "the reason", |view| {
            view.reason("job") == Some("protocol")
                && view.task("job")["lock"]["unknown"]["said"].is_string()
        });
        let words = view.task("job")["lock"]["unknown"]["said"].as_str().unwrap();
        assert!(words.contains("it is a proxy") && words.ends_with(REMEDY), "{config}: {words}");
        std::fs::write(folder.path().join("lockwatch.yml"), &config).unwrap();
        let url = format!("redis://127.0.0.1:{port}/{db}");
        for words in [
            &["check-config", "--connect", "--config.file", "lockwatch.yml"][..],
            &["discover", "--redis", &url],
            &["want", "job", "on", "--user", "anna"],
            &["want", "job", "status"],
            &["guard", "--config.file", "lockwatch.yml", "--wait", "1s", "run", "--", "true"],
        ] {
            let said = said(&folder, words);
            assert!(said.contains(REMEDY), "{words:?}: {said}");
        }
    }
    assert_eq!(get().as_deref(), Some("token"), "another client is still in its database");
    assert_eq!(server.info("cmdstat_select"), None, "nothing was selected");
}
