//! `status` and `explain` against an agent with TLS and logins: the right words for each way to be
//! wrong.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use super::{Folder, TLS, users};
use crate::support::agent::{Agent, program};
use crate::support::certificates::{Authority, Life};
use crate::support::skip;

const CONFIG: &str = "redis: {main: {url: 'redis://127.0.0.1:1/0'}}\n\
    tasks: [{name: outbound, lock: {key: a}}]\n";

/// What asks clients for a certificate.
const MUTUAL: &str = "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.crt\n";

/// A file that nobody else can read.
fn secret(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.put(name, text);
    fs::set_permissions(&path, Permissions::from_mode(0o400)).unwrap();
    path.display().to_string()
}

/// A client's certificate and its key.
fn own(folder: &Folder, authority: &Authority, name: &str) -> [String; 2] {
    let (cert, key) = authority.sign(&["me"], Life::Now).write(folder.path("").as_path(), name);
    fs::set_permissions(&key, Permissions::from_mode(0o400)).unwrap();
    [cert, key].map(|path| path.display().to_string())
}

fn start(folder: &Folder, web: &str) -> Agent {
    let web = folder.web(web);
    Agent::start_with(CONFIG, |command| {
        command.arg("--web.config.file").arg(&web);
    })
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).stdout(Stdio::piped()).output().unwrap()
}

/// What the command says on standard error; it must have failed as a check that knows nothing.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let output = run(&[&["status"], arguments].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(!said.contains("ann-pw") && !said.contains("c4nary"), "{said}");
    let explained = run(&[&["explain", "outbound"], arguments].concat());
    let explained_said = String::from_utf8(explained.stderr).unwrap();
    let why = said.trim().trim_start_matches("lockwatch: ");
    assert!(explained_said.contains(why), "{explained_said} and not {why}");
    said
}

#[test]
fn each_way_to_be_wrong_has_its_words() {
    let folder = Folder::new();
    let agent = start(&folder, &format!("{TLS}{}", users(&["ann"])));
    let file = |name: &str, text: &str| secret(&folder, name, text);
    let ca = folder.path("ca.crt").display().to_string();
    let other = file("other.crt", Authority::new("another").pem());
    let right = file("right", "ann:ann-pw\n");
    let url = format!("https://127.0.0.1:{}", agent.port);
    let plain = format!("http://127.0.0.1:{}", agent.port);

    let by_name = format!("https://localhost:{}", agent.port);
    for url in [&url, &by_name] {
        let asked = ["--agent.url", url, "--agent.ca-file", &ca, "--agent.login-file", &right];
        let status = run(&[&["status"][..], &asked, &["outbound"]].concat());
        let shown = String::from_utf8(status.stdout).unwrap();
        assert!(shown.contains("outbound") && status.stderr.is_empty(), "{shown}");
        assert!(shown.contains("--agent.login-file"), "the hint can be pasted: {shown}");
        let explained = run(&[&["explain"][..], &asked, &["outbound"]].concat());
        assert!(explained.status.success(), "{explained:?}");
    }

    let with = |more: &[&str]| refused(&[&["--agent.url", &url], more].concat());
    let said = with(&["--agent.ca-file", &other]);
    assert!(said.contains("is signed by no authority in --agent.ca-file"), "{said}");
    let said = with(&[]);
    assert!(said.contains("name the right one with --agent.ca-file"), "{said}");
    let said = with(&["--agent.ca-file", &ca]);
    assert!(said.contains("it asks for a login") && said.contains("--agent.login-file"), "{said}");
    let wrong = file("wrong", "ann:c4nary\n");
    let said = with(&["--agent.ca-file", &ca, "--agent.login-file", &wrong]);
    assert!(
        said.contains("user or password in --agent.login-file") && said.contains(&wrong),
        "{said}"
    );
    let no_colon = file("no_colon", "c4nary\n");
    let said = with(&["--agent.ca-file", &ca, "--agent.login-file", &no_colon]);
    assert!(said.contains("its first line has no colon; write `user:password`"), "{said}");
    let said = with(&["--agent.ca-file", &ca, "--agent.login-file", "/nowhere"]);
    assert!(said.contains("cannot read the login file \"/nowhere\""), "{said}");
    let said = with(&["--agent.ca-file", "/nowhere"]);
    assert!(said.contains("`--agent.ca-file` /nowhere does not exist"), "{said}");
    let said = refused(&["--agent.url", &plain]);
    assert!(said.contains("it speaks TLS on this port: write https://"), "{said}");
    let said = refused(&["--agent.url", "https://ann:ann-pw@127.0.0.1:1"]);
    assert!(said.contains("name it with --agent.login-file"), "{said}");

    folder.certify(&["other.example.com"]);
    let asked = ["--agent.url", &url, "--agent.ca-file", &ca];
    crate::support::wait_until(crate::support::PATIENCE, "the other name is reported", || {
        let said = run(&[&["status"][..], &asked].concat()).stderr;
        String::from_utf8(said).unwrap().contains("its certificate has another name")
    });
    folder.authority.sign(&["127.0.0.1"], Life::Over).write(folder.path("").as_path(), "server");
    crate::support::wait_until(crate::support::PATIENCE, "the end is reported", || {
        let said = run(&[&["status"][..], &asked].concat()).stderr;
        String::from_utf8(said).unwrap().contains("its certificate is out of date")
    });
}

#[test]
fn tls_to_a_plain_port_and_a_rate_limit_are_reported() {
    let folder = Folder::new();
    let agent = start(&folder, "rate_limit: {interval: 1h, burst: 0}");
    let said = refused(&["--agent.url", &format!("https://127.0.0.1:{}", agent.port)]);
    assert!(said.contains("it speaks no TLS on this port: write http://"), "{said}");
    let said = refused(&["--agent.url", &format!("http://127.0.0.1:{}", agent.port)]);
    assert!(said.contains("it answers 429"), "{said}");
}

#[test]
fn a_certificate_can_be_shown() {
    let folder = Folder::new();
    let agent = start(&folder, &format!("{TLS}{MUTUAL}"));
    let url = format!("https://127.0.0.1:{}", agent.port);
    let ca = folder.path("ca.crt").display().to_string();
    let asked = ["--agent.url", &url, "--agent.ca-file", &ca];
    let [cert, key] = own(&folder, &folder.authority, "mine");
    let shown = ["--agent.cert-file", &cert, "--agent.key-file", &key];
    let status = run(&[&["status"][..], &asked, &shown, &["--json"]].concat());
    assert!(String::from_utf8(status.stdout).unwrap().contains("outbound"));
    let said = refused(&asked);
    assert!(said.contains("it asks for a certificate: name one with --agent.cert-file"), "{said}");
    let [foreign, foreign_key] = own(&folder, &Authority::new("another"), "foreign");
    folder.authority.sign_version_1().write(folder.path("").as_path(), "old");
    let [old, old_key] = ["old.crt", "old.key"].map(|name| folder.path(name).display().to_string());
    fs::set_permissions(&old_key, Permissions::from_mode(0o400)).unwrap();
    for (cert, key) in [(&foreign, &foreign_key), (&old, &old_key)] {
        let shown = ["--agent.cert-file", cert, "--agent.key-file", key];
        let said = refused(&[&asked[..], &shown].concat());
        assert!(said.contains("it refuses the certificate of --agent.cert-file"), "{said}");
    }
    let shown = ["--agent.cert-file", &old, "--agent.key-file", &key];
    let said = refused(&[&asked[..], &shown].concat());
    assert!(said.contains("`--agent.key-file`") && said.contains("does not belong to"), "{said}");
}

#[test]
fn the_demo_serves_behind_a_web_file_and_comes_in_itself() {
    if !skip::has("web: demo", &["redis-server"]) {
        return;
    }
    let folder = Folder::new();
    let [cert, key] = own(&folder, &folder.authority, "mine");
    let web = folder.web(&format!("{TLS}{MUTUAL}{}", users(&["ann"])));
    let (web, ca) = (web.display().to_string(), folder.path("ca.crt").display().to_string());
    let login = secret(&folder, "login", "ann:ann-pw\n");
    let mut asked = vec!["demo", "--web.config.file", &web];
    // Without what it asks for, the demo ends at once with the words of `status`.
    for (more, words) in [
        (["--agent.ca-file", ca.as_str()], "it asks for a certificate"),
        (["--agent.cert-file", &cert], "--agent.key-file"),
        (["--agent.key-file", &key], "it asks for a login"),
    ] {
        asked.extend(more);
        let output = run(&asked);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(words), "{said}");
    }
    asked.extend(["--agent.login-file", &login]);
    let mut demo = program().args(&asked).stdout(Stdio::piped()).spawn().unwrap();
    let reported = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut reported = reported.filter(|line| line.starts_with("  agent "));
    let agent = reported.next();
    let id = demo.id().to_string();
    assert!(Command::new("kill").args(["-s", "TERM", &id]).status().unwrap().success());
    assert!(demo.wait().unwrap().success());
    assert!(agent.as_ref().is_some_and(|line| line.contains(" https://127.0.0.1:")), "{agent:?}");

    asked.extend(["--agent.url", "https://localhost"]);
    let said = String::from_utf8(run(&asked).stderr).unwrap();
    assert!(said.contains("--agent.url needs a port"), "{said}");
    folder.web("basic_auth_user: {}");
    let said = String::from_utf8(run(&asked[..3]).stderr).unwrap();
    assert!(said.contains("did you mean `basic_auth_users`"), "{said}");
}

#[test]
fn a_login_file_that_others_can_read_is_warned_of() {
    let folder = Folder::new();
    let agent = start(&folder, &users(&["ann"]));
    let file = folder.put("login", "ann:ann-pw\n");
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let url = format!("http://127.0.0.1:{}", agent.port);
    let file = file.display().to_string();
    let status = run(&["status", "--agent.url", &url, "--agent.login-file", &file]);
    let said = String::from_utf8(status.stderr).unwrap();
    assert!(
        said.contains("the login file") && said.contains("every user of this machine"),
        "{said}"
    );
    assert!(String::from_utf8(status.stdout).unwrap().contains("outbound"));
}
