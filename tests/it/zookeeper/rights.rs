//! What the agent may read: logins, rights of single nodes, TLS.

use std::fs;

use tempfile::TempDir;

use super::{LONG_MS, Scene, agent_with, problems};
use crate::support::PATIENCE;
use crate::support::certificates::{Authority, Life};
use crate::support::zookeeper::{Clients, Ensemble, Setup};

const TASKS: &str = "
  - {name: secret, zookeeper: zk, lock: {path: /secret, library: kazoo}, wanted: always, grace: 1s, settle: 500ms, blind_after: 3s}
  - {name: hidden, zookeeper: zk, lock: {path: /hidden, library: kazoo}, wanted: always, grace: 1s, settle: 500ms, blind_after: 3s}
  - {name: open, zookeeper: zk, lock: {path: /open, library: kazoo}, wanted: always, grace: 1s, settle: 500ms, blind_after: 3s}
";
const LOGIN: &str = "agent:c4nary";

/// The folder of `secret` may be read with a login only, so may the nodes in that of `hidden`, and
/// everybody may read `open`.
#[test]
fn what_may_not_be_read_is_no_permission_for_exactly_that_task() {
    let test = "zookeeper::rights::what_may_not_be_read_is_no_permission_for_exactly_that_task";
    no_permission(test, Setup::of(1));
}

/// From 3.9 on, `exists` needs the right to read, too.
#[test]
fn what_a_newer_server_hides_is_no_permission_for_exactly_that_task() {
    let test = "zookeeper::rights::what_a_newer_server_hides_is_no_permission";
    no_permission(test, Setup { is_newer: true, ..Setup::of(1) });
}

fn no_permission(test: &str, setup: Setup) {
    let Some(ensemble) = Ensemble::start(test, setup) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &ensemble) else { return };
    let owner = kazoo.run_command(&format!("session owner {LONG_MS} owner:pw"));
    let owner = owner["id"].as_str().unwrap().to_owned();
    let child = "00000000000000000000000000000000__lock__0000000000";
    let rights = format!("read={LOGIN} all=owner:pw");
    kazoo.run_command(&format!("create owner /secret - {rights}"));
    kazoo.run_command(&format!("create owner /secret/{child} web-1 ephemeral"));
    kazoo.run_command("create owner /hidden -");
    kazoo.run_command(&format!("create owner /hidden/{child} web-1 ephemeral {rights}"));
    kazoo.run_command("create owner /open -");
    kazoo.run_command(&format!("create owner /open/{child} web-1 ephemeral"));

    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        format!(", auth_file: \"{}\"", path.display())
    };
    let wrong = file("wrong", "agent:wrong\n");
    for (what, more) in [("no login", ""), ("a wrong password", &*wrong)] {
        let agent = agent_with(&ensemble, more, TASKS);
        let view = agent.until_view(PATIENCE, what, |view| {
            view.verdict("secret") == "unknown"
                && view.verdict("hidden") == "unknown"
                && view.verdict("open") == "running"
                && problems(&view.page, "task", "secret") == ["blind"]
        });
        for task in ["secret", "hidden"] {
            assert_eq!(view.reason(task), Some("no_permission"), "{what}");
            let why = view.task(task)["lock"]["unknown"].to_string();
            assert!(why.contains("lockwatch acl"), "{why}");
        }
        assert_eq!(problems(&view.page, "task", "open"), Vec::<String>::new());
        assert_eq!(problems(&view.page, "store", "zk"), Vec::<String>::new());
    }
    let agent = agent_with(&ensemble, &file("right", &format!("{LOGIN}\n")), TASKS);
    agent.until(PATIENCE, "all are read", |page| {
        ["secret", "hidden", "open"].iter().all(|task| page.verdict(task) == "running")
    });
    let scene = Scene { agent, ensemble };
    scene.until_held("hidden", &[&owner], 0);
    assert!(!scene.agent.log().contains("c4nary"), "{}", scene.agent.log());
}

#[test]
fn tls_is_spoken_and_certificates_are_checked() {
    let test = "zookeeper::rights::tls_is_spoken_and_certificates_are_checked";
    let folder = TempDir::new().unwrap();
    let (authority, other) = (Authority::new("the authority"), Authority::new("another"));
    let server = authority.sign(&["127.0.0.1", "localhost"], Life::Now);
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let pem = format!("{}{}{}", server.key, server.cert, authority.pem());
    let setup = Setup { tls: Some(write("server.pem", &pem)), ..Setup::of(1) };
    let Some(ensemble) = Ensemble::start(test, setup) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &ensemble) else { return };
    let one = kazoo.session("one", LONG_MS);
    kazoo.run_command("take one first lock /open web-1");
    kazoo.event("held", "first");
    let trusting =
        |name: &str, pem: &str| format!(", tls: {{ca_file: \"{}\"}}", write(name, pem).display());
    let agent = agent_with(&ensemble, &trusting("ca.pem", authority.pem()), TASKS);
    let scene = Scene { agent, ensemble };
    scene.until_held("open", &[&one], 0);

    let doubting = agent_with(&scene.ensemble, &trusting("other.pem", other.pem()), TASKS);
    doubting.until_view(PATIENCE, "another authority", |view| {
        view.reason("open") == Some("tls_untrusted")
    });
    // Plain text to the port that speaks TLS.
    let plain = agent_with(&scene.ensemble, "", TASKS);
    let view = plain.until_view(PATIENCE, "no answer", |view| view.reason("open").is_some());
    eprintln!("plain text: {:?}", view.reason("open"));
}
