//! `acl`, `check-config --connect` and `discover` with real servers, as a user runs them.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use lockwatch::config::Config;
use tempfile::TempDir;

use super::LONG_MS;
use crate::support::agent::program;
use crate::support::zookeeper::{Clients, Ensemble, Setup};

const CHILD: &str = "00000000000000000000000000000000__lock__0000000000";

/// What a command printed, and its exit code.
fn run(arguments: &[&str]) -> (String, Option<i32>) {
    let output = program().args(arguments).stdout(Stdio::piped()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (text(output.stdout) + &text(output.stderr), output.status.code())
}

/// ZooKeeper's own command line, as a user.
fn zkcli(ensemble: &Ensemble, login: &str, commands: &str) -> String {
    let classes = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";
    let mut child = Command::new("java")
        .args(["-cp", classes, "org.apache.zookeeper.ZooKeeperMain", "-server"])
        .arg(ensemble.addresses())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "addauth digest {login}\n{commands}\nquit").unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// The lines of `acl` open what `check-config --connect` names, and nothing else has to be opened.
#[test]
fn the_rights_that_acl_prints_are_those_that_are_missing() {
    let test = "zookeeper::commands::the_rights_that_acl_prints_are_those_that_are_missing";
    let Some(ensemble) = Ensemble::start(test, Setup::of(1)) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &ensemble) else { return };
    kazoo.run_command(&format!("session owner {LONG_MS} owner:pw"));
    let (all, both) = ("all=owner:pw", "read=agent:right all=owner:pw");
    kazoo.run_command(&format!("create owner /a - {all}"));
    kazoo.run_command(&format!("create owner /a/{CHILD} web-1 ephemeral {both}"));
    kazoo.run_command(&format!("create owner /users - {all}"));
    kazoo.run_command(&format!("create owner /users/anna on {both}"));
    kazoo.run_command(&format!("create owner /last 7 {all}"));
    kazoo.run_command(&format!("create owner /open - {both}"));
    kazoo.run_command(&format!("create owner /open/{CHILD} web-1 ephemeral {all}"));

    let folder = TempDir::new().unwrap();
    let (file, login) = (folder.path().join("lockwatch.yml"), folder.path().join("login"));
    fs::write(&login, "agent:right\n").unwrap();
    let auth = format!(", auth_file: \"{}\"", login.display());
    let task = "  - {name: a, lock: {path: /a, library: kazoo}, wanted: {children: /users}, \
                progress: {path: /last}}\n";
    let hidden = "  - {name: open, lock: {path: /open, library: kazoo}}\n";
    let write = |tasks: &str| {
        fs::write(&file, format!("{}tasks:\n{tasks}", ensemble.config(&auth))).unwrap();
    };
    let file = file.to_str().unwrap().to_owned();
    let check = || run(&["check-config", "--connect", "--config.file", &file]);

    write(&format!("{task}{hidden}"));
    let (said, code) = check();
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(": ok: grants a session, standalone, version 3."), "{said}");
    for path in ["/a", "/users", "/last"] {
        let line = format!("  task a: no_permission: {path} may not be read: give READ");
        assert!(said.contains(&line), "{path}: {said}");
    }
    let line = format!("  task open: no_permission: /open/{CHILD} may not be read");
    assert!(said.contains(&line) && said.contains("check user and password"), "{said}");

    write(task);
    let (rights, code) = run(&["acl", "--config.file", &file]);
    assert_eq!(code, Some(0), "{rights}");
    let lines: Vec<&str> = rights.lines().filter(|line| !line.starts_with('#')).collect();
    let commands =
        lines.join("\n").replace("EXISTING", "digest:owner:iMB/SsBMvf3UxIEfwB61nsj4SCM=:cdrwa");
    let commands = commands.replace("USER:HASH", "agent:vSVTY/ksX85mAtPYpSSWIurle4w=");
    assert_eq!(lines.len(), 3, "{rights}");
    let applied = zkcli(&ensemble, "owner:pw", &commands);
    let (said, code) = check();
    assert_eq!(code, Some(0), "{said}\n{applied}");
    assert!(!said.contains("task a"), "{said}");

    fs::write(&login, "agent:wrong\n").unwrap();
    let (said, code) = check();
    assert!(code == Some(1) && said.contains("check user and password in `auth_file`"), "{said}");
}

#[test]
fn each_server_and_what_is_odd_about_a_folder_is_said() {
    let test = "zookeeper::commands::each_server_and_what_is_odd_about_a_folder_is_said";
    let Some(mut ensemble) = Ensemble::start(test, Setup::of(3)) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &ensemble) else { return };
    kazoo.run_command(&format!("session owner {LONG_MS}"));
    kazoo.run_command(&format!("create owner /kazoo/{CHILD} web-1 ephemeral parents"));
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("lockwatch.yml");
    let tasks =
        "  - {name: wrong, lock: {path: /kazoo}}\n  - {name: absent, lock: {path: /none}}\n";
    fs::write(&file, format!("{}tasks:\n{tasks}", ensemble.config(""))).unwrap();
    let check = || run(&["check-config", "--connect", "--config.file", file.to_str().unwrap()]);
    let (said, code) = check();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.matches(": ok: grants a session, ").count(), 3, "{said}");
    assert_eq!(said.matches("session, leader, version").count(), 1, "{said}");
    assert!(
        said.contains(
            "task wrong: no child of /kazoo is a contender of curator; `library: kazoo` fits"
        ),
        "{said}"
    );
    assert!(
        said.contains("task absent: its folder /none does not exist, so the lock is free now"),
        "{said}"
    );

    let leader = ensemble.leader();
    let (dead, left) = ((leader + 1) % 3, (leader + 2) % 3);
    ensemble.kill(leader);
    ensemble.kill(dead);
    let (said, code) = check();
    assert_eq!(code, Some(1), "{said}");
    let line = |at: usize| {
        let address = format!("  127.0.0.1:{}: ", ensemble.port(at));
        said.lines().find_map(|line| line.strip_prefix(&*address)).unwrap().to_owned()
    };
    assert!(line(left).starts_with("quorum: "), "{said}");
    assert!(line(dead).starts_with("connect: ") && line(leader).starts_with("connect: "), "{said}");
}

#[test]
fn discover_finds_folders_in_which_clients_queue() {
    let test = "zookeeper::commands::discover_finds_folders_in_which_clients_queue";
    let Some(ensemble) = Ensemble::start(test, Setup::of(1)) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &ensemble) else { return };
    let id = kazoo.session("owner", LONG_MS);
    kazoo.run_command("take owner first lock /locks/kazoo web-1");
    kazoo.event("held", "first");
    let curator = "_c_a5be8a97-6b5e-4f8e-8d5e-0a3c0d1f2e3b-lock-";
    kazoo.run_command(&format!(
        "create owner /locks/app/curator/{curator} x ephemeral sequence parents"
    ));
    kazoo.run_command("create owner /plain/n- x ephemeral sequence parents");
    kazoo.run_command("create owner /jobs/job- x sequence parents");
    kazoo.run_command("create owner /data/settings x parents");
    kazoo.run_command("create owner /secret x all=other:pw");
    let look = |arguments: &[&str]| {
        run(&[&["discover", "--zookeeper", &ensemble.addresses()], arguments].concat())
    };
    let (text, code) = look(&[]);
    assert_eq!(code, Some(0), "{text}");
    let config = Config::parse(&text, Path::new("")).unwrap();
    let found: Vec<(&str, String, &str)> = config
        .tasks
        .iter()
        .map(|task| {
            let path = String::from_utf8(task.kind.key().clone()).unwrap();
            (&*task.name, path, task.lock().unwrap().library.as_str())
        })
        .collect();
    let expected = [
        ("app:curator", "/locks/app/curator", "curator"),
        ("kazoo", "/locks/kazoo", "kazoo"),
        ("plain", "/plain", "plain"),
    ];
    assert_eq!(
        found,
        expected.map(|(name, path, library)| (name, path.to_owned(), library)),
        "{text}"
    );
    assert!(text.contains(&format!("# 1 contender, session {id} is first.")), "{text}");
    assert!(text.contains("# No task: /jobs has numbered children, but"), "{text}");
    assert!(text.contains("# Not readable (READ is missing there): /secret."), "{text}");

    let (text, code) = look(&["--root", "/data", "--root", "/none"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("No lock was found") && text.contains("Not there: /none."), "{text}");
    let (said, code) = look(&["--root", "none/"]);
    assert!(code == Some(1) && said.contains("--root does not begin with `/`"), "{said}");
}
