//! The agent keeps working whatever happens to standard error.

use crate::support::PATIENCE;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::thread;

use super::config;
use super::locks::{HOLDER, OTHER, connect, release, take};
use crate::support::agent::Agent;
use crate::support::redis::RedisServer;

/// An agent whose log is read until it listens, and not after that.
fn unread(config: &str) -> (Agent, BufReader<PipeReader>) {
    let (reader, writer) = io::pipe().unwrap();
    let mut reading = None;
    let agent = Agent::start_with(config, |command: &mut Command| {
        command.arg("--web.enable-lifecycle").stderr(writer);
        let configured = command.get_args().nth(1).unwrap();
        let mut log = File::create(Path::new(configured).with_file_name("log")).unwrap();
        reading = Some(thread::spawn(move || {
            let mut reader = BufReader::new(reader);
            let mut line = String::new();
            while !line.contains("listen=") {
                line.clear();
                reader.read_line(&mut line).unwrap();
                log.write_all(line.as_bytes()).unwrap();
            }
            reader
        }));
    });
    (agent, reading.unwrap().join().unwrap())
}

fn lines_lost(agent: &Agent) -> f64 {
    agent.page().get("lockwatch_log_lines_lost_total", &[]).unwrap()
}

#[test]
fn a_log_that_nobody_reads_any_more_ends_nothing() {
    let Some(server) =
        RedisServer::start("faults::logging::a_log_that_nobody_reads_any_more_ends_nothing")
    else {
        return;
    };
    let mut connection = connect(server.port);
    take(&mut connection, b"a", HOLDER.as_bytes());
    let (agent, log) = unread(&config(server.port, &["name: a, lock: {key: a}"]));
    agent.until_view(PATIENCE, "read", |view| view.held("a") == Some(1.0));
    drop(log);
    // Each change writes a log line.
    release(&mut connection, "a");
    agent.until_view(PATIENCE, "given back", |view| view.held("a") == Some(0.0));
    take(&mut connection, b"a", OTHER.as_bytes());
    agent.until_view(PATIENCE, "taken", |view| view.held("a") == Some(1.0));
    agent.until(PATIENCE, "the loss is counted", |page| {
        page.get("lockwatch_log_lines_lost_total", &[]) >= Some(1.0)
    });
}

#[test]
fn a_log_that_is_not_read_stops_nothing() {
    let Some(server) = RedisServer::start("faults::logging::a_log_that_is_not_read_stops_nothing")
    else {
        return;
    };
    let mut connection = connect(server.port);
    take(&mut connection, b"a", HOLDER.as_bytes());
    let right = config(server.port, &["name: a, lock: {key: a}"]);
    let (agent, mut log) = unread(&right);
    agent.until_view(PATIENCE, "read", |view| view.held("a") == Some(1.0));
    assert_eq!(lines_lost(&agent), 0.0);
    // A failed reload logs every mistake.
    let wrong: String = (0..300).fold(String::new(), |mut text, number| {
        let _written =
            writeln!(text, "  - {{name: t{number}, lock: {{key: k{number}}}, mistaken: {number}}}");
        text
    });
    agent.write_config(&(right + &wrong));
    let mut reloads = 0;
    while lines_lost(&agent) == 0.0 {
        assert_eq!(agent.post("/-/reload").status, 500);
        reloads += 1;
        assert!(reloads < 1_000, "nothing is lost");
    }
    release(&mut connection, "a");
    agent.until_view(PATIENCE, "given back", |view| view.held("a") == Some(0.0));
    // Once the log is read, it reports how many lines are missing.
    let mut reported = Vec::new();
    while !String::from_utf8_lossy(&reported).contains("log lines were lost") {
        let mut chunk = [0; 1 << 16];
        let count = log.read(&mut chunk).unwrap();
        assert!(count > 0, "it ended");
        reported.extend_from_slice(&chunk[..count]);
    }
    // Dropping the agent must not wait for the pipe either.
}
