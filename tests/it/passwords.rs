//! Passwords that change: from a command, renewed before they are too old, rotated while the agent
//! runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::support::agent::Agent;
use crate::support::child::OwnedChild;
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, skip, wait_until};

/// A password that no output may show.
const SECRET: &str = "c4nary-of-a-COMMAND";

/// A folder with a script that prints a password, and counts how often it ran.
struct Source {
    folder: TempDir,
}

impl Source {
    fn new(password: &str) -> Source {
        let source = Source { folder: TempDir::new().unwrap() };
        source.put(password);
        source.script("token", "echo run >>\"$1/runs\"; cat \"$1/password\"");
        source
    }

    fn put(&self, password: &str) {
        let new = self.path("password.new");
        fs::write(&new, password).unwrap();
        fs::rename(new, self.path("password")).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn script(&self, name: &str, lines: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// The field `password_command` for the script of this name.
    fn command(&self, name: &str) -> String {
        format!("password_command: [{:?}, {:?}]", self.path(name), self.folder.path())
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.path("runs")).unwrap_or_default().lines().count()
    }
}

/// A redis block for this server, and a task in it, of the same name.
fn config(stores: &[(&str, &RedisServer, &str)]) -> String {
    let mut text = String::from("redis:\n");
    for (name, server, fields) in stores {
        text += &format!(
            "  {name}: {{url: \"redis://{}\", interval: 200ms, {fields}}}\n",
            server.address()
        );
    }
    text += "tasks:\n";
    for (name, ..) in stores {
        text += &format!(
            "  - {{name: {name}, redis: {name}, lock: {{key: \"{name}:lock\"}}, blind_after: 5s, \
             settle: 1s}}\n"
        );
    }
    text
}

/// The ids of the server's clients with this name.
fn clients(server: &RedisServer, name: &str) -> Vec<String> {
    let list = server.cli(&["client", "list"]);
    let of = |line: &str| {
        let named = line.split(' ').any(|field| field.strip_prefix("name=") == Some(name));
        named
            .then(|| line.split(' ').find_map(|field| field.strip_prefix("id=")).map(str::to_owned))
    };
    list.lines().filter_map(of).flatten().collect()
}

#[test]
fn a_command_is_run_for_each_connection() {
    let test = "passwords::a_command_is_run_for_each_connection";
    let Some(server) = RedisServer::start_with_password(test, SECRET) else { return };
    let source = Source::new(SECRET);
    let agent = Agent::start(&config(&[("main", &server, &source.command("token"))]));
    let seen = |what: &str| {
        agent.until_view(PATIENCE, what, |view| view.held("main") == Some(0.0));
        wait_until(PATIENCE, "it listens", || clients(&server, "lockwatch-wake-ups").len() == 1);
    };
    seen("the lock is read");
    let before = source.runs();
    assert!(before >= 2, "{before}");
    let old = clients(&server, "lockwatch");
    assert_eq!(server.cli(&["client", "kill", "user", "default"]).parse(), Ok(2));
    wait_until(PATIENCE, "another connection", || {
        let new = clients(&server, "lockwatch");
        new.len() == 1 && new != old
    });
    seen("the lock is read again");
    assert!(source.runs() >= before + 2, "{}", source.runs());
    assert!(!agent.log().contains(SECRET));
}

#[test]
fn a_command_that_does_not_work_is_reported_for_its_own_tasks_only() {
    let test = "passwords::a_command_that_does_not_work_is_reported_for_its_own_tasks_only";
    let Some(server) = RedisServer::start_with_password(test, SECRET) else { return };
    let source = Source::new(SECRET);
    source.script("hangs", &format!("echo {SECRET}; sleep 1000"));
    source.script("empty", "echo");
    source.script("fails", &format!("echo {SECRET}; echo {SECRET} >&2; exit 7"));
    let [good, hangs, empty, fails, none] =
        ["token", "hangs", "empty", "fails", "none"].map(|name| source.command(name));
    let agent = Agent::start(&config(&[
        ("good", &server, &good),
        ("hangs", &server, &hangs),
        ("empty", &server, &empty),
        ("fails", &server, &fails),
        ("none", &server, &none),
    ]));
    let wrong = [
        ("hangs", "did not end within 10s, and was killed"),
        ("empty", "is empty; its first line must be the password"),
        ("fails", "failed (exit status: 7)"),
        ("none", "does not exist"),
    ];
    agent.until_view(PATIENCE, "all have their reason", |view| {
        let reason = |task: &str| view.task(task)["lock"]["unknown"]["reason"] == "auth";
        view.held("good") == Some(0.0) && wrong.iter().all(|(task, _)| reason(task))
    });
    for (store, words) in wrong {
        let reported = agent.log_lines(&[&format!("store={store}"), "cannot connect", words]);
        assert_eq!(reported.len(), 1, "{store}: {}", agent.log());
    }
    assert!(!agent.log().contains(SECRET));
    assert!(!agent.text("/metrics").contains(SECRET));
    assert!(!agent.text("/api/v1/tasks").contains(SECRET));
}

#[test]
fn a_login_is_renewed_before_it_is_too_old() {
    let test = "passwords::a_login_is_renewed_before_it_is_too_old";
    let Some(server) = RedisServer::start_with_password(test, SECRET) else { return };
    let source = Source::new(SECRET);
    let fields = format!("{}, password_max_age: 5s", source.command("token"));
    let agent = Agent::start(&config(&[("main", &server, &fields)]));
    wait_until(PATIENCE, "it reads and listens", || {
        let all = ["lockwatch", "lockwatch-wake-ups"].map(|name| clients(&server, name).len());
        all == [1, 1]
    });
    let (reads, listens) = (clients(&server, "lockwatch"), clients(&server, "lockwatch-wake-ups"));
    let runs = source.runs();
    wait_until(PATIENCE, "both were renewed twice", || source.runs() >= runs + 4);
    assert_eq!(clients(&server, "lockwatch"), reads, "the connection stays");
    assert_ne!(clients(&server, "lockwatch-wake-ups"), listens, "this one is made anew");
    let page = agent.page();
    let auth = [("store", "main"), ("reason", "auth")];
    assert_eq!(page.get("lockwatch_store_errors_total", &auth), Some(0.0));
    assert_eq!(
        page.get("lockwatch_store_errors_total", &[("store", "main"), ("reason", "closed")]),
        Some(0.0)
    );
    // A renewal that is refused costs nothing as long as the old login lives.
    source.put("wrong");
    wait_until(PATIENCE, "the refusal is logged", || {
        !agent.log_lines(&["could not be renewed", "WRONGPASS"]).is_empty()
    });
    source.put(SECRET);
    assert_eq!(clients(&server, "lockwatch"), reads, "the connection stays");
    assert!(!agent.log().contains(SECRET));
}

/// The file comes first, as rotations should do it; the connections end because the old password
/// is revoked.
#[test]
fn a_rotation_costs_one_tick_at_most() {
    let test = "passwords::a_rotation_costs_one_tick_at_most";
    let Some(server) = RedisServer::start(test) else { return };
    let rotations: usize =
        std::env::var("ROTATIONS").map_or(10, |count| count.parse().expect("a number"));
    let user = ["acl", "setuser", "watch", "on", "~*", "&*", "+@all", "resetpass", ">first"];
    assert_eq!(server.cli(&user), "OK");
    server.cli(&["hset", "main:lock", "c0ffee:1", "1"]);
    let source = Source::new("first");
    let fields = format!("username: watch, password_file: {:?}", source.path("password"));
    let text = config(&[("main", &server, &fields)]).replace("200ms", "1s");
    let agent = Agent::start(&text.replace("blind_after: 5s", "blind_after: 10s"));
    agent.until_view(PATIENCE, "the lock is read", |view| view.held("main") == Some(1.0));
    let watch = agent.watch();
    for number in 0..rotations {
        let old = clients(&server, "lockwatch");
        let password = format!("next-{number}");
        source.put(&password);
        let set = ["acl", "setuser", "watch", "resetpass", &format!(">{password}")];
        assert_eq!(server.cli(&set), "OK");
        server.cli(&["client", "kill", "user", "watch"]);
        wait_until(PATIENCE, "it is connected again", || {
            let new = clients(&server, "lockwatch");
            new.len() == 1 && new != old
        });
    }
    agent.until_view(PATIENCE, "the lock is read", |view| view.held("main") == Some(1.0));
    let pages = watch.stop_timed();
    let (mut blind_since, mut longest): (Option<Instant>, _) = (None, Duration::ZERO);
    for (at, page) in &pages {
        match page.of("main", "lock_held") {
            Some(_) => blind_since = None,
            None => {
                let since = *blind_since.get_or_insert(*at);
                longest = longest.max(at.duration_since(since));
            }
        }
        assert_ne!(page.verdict("main"), "unknown");
    }
    // One tick, and what a busy machine adds.
    assert!(longest < Duration::from_millis(1_900), "{longest:?}");
}

/// The server comes first: until the file follows, the agent cannot log in.
#[test]
fn a_password_file_that_comes_late_is_found_soon() {
    let test = "passwords::a_password_file_that_comes_late_is_found_soon";
    let Some(server) = RedisServer::start(test) else { return };
    let user = ["acl", "setuser", "watch", "on", "~*", "&*", "+@all", "resetpass", ">first"];
    assert_eq!(server.cli(&user), "OK");
    let source = Source::new("first");
    let fields = format!("username: watch, password_file: {:?}", source.path("password"));
    let agent = Agent::start(&config(&[("main", &server, &fields)]));
    agent.until_view(PATIENCE, "the lock is read", |view| view.held("main") == Some(0.0));
    assert_eq!(server.cli(&["acl", "setuser", "watch", "resetpass", ">second"]), "OK");
    server.cli(&["client", "kill", "user", "watch"]);
    agent.until_view(PATIENCE, "the verdict is unknown", |view| {
        view.task("main")["lock"]["unknown"]["reason"] == "auth"
            && view.verdict("main") == "unknown"
    });
    source.put("second");
    agent.until_view(PATIENCE, "the lock is read again", |view| view.held("main") == Some(0.0));
    assert_eq!(agent.log_lines(&["cannot connect", "WRONGPASS"]).len(), 1, "{}", agent.log());
}

/// The children of a process that have ended and are not reaped.
fn zombies(of: u32) -> usize {
    let is_one = |stat: &String| {
        let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
        let fields: Vec<&str> = after.split_whitespace().collect();
        fields.first() == Some(&"Z") && fields.get(1) == Some(&&*of.to_string())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    stats.filter(is_one).count()
}

/// In a container the agent is the parent of what its password command leaves running, as the
/// clients of clouds do to look for updates.
#[test]
fn the_first_process_of_a_container_reaps_what_a_command_leaves() {
    let test = "passwords::the_first_process_of_a_container_reaps_what_a_command_leaves";
    if !skip::has(test, &["unshare"]) {
        return;
    }
    let contained = |arguments: &[&std::ffi::OsStr]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).args(arguments);
        command
    };
    if !contained(&["true".as_ref()]).status().is_ok_and(|status| status.success()) {
        return skip::say(test, "the right to make a namespace");
    }
    let Some(server) = RedisServer::start_with_password(test, SECRET) else { return };
    let source = Source::new("wrong");
    // A refusal makes it run again, and each run leaves a child that ends later.
    let leaves = "setsid sleep 0.4 >/dev/null 2>&1 &\n echo run >>\"$1/runs\"; cat \"$1/password\"";
    source.script("leaves", leaves);
    let file = source.path("lockwatch.yml");
    fs::write(&file, config(&[("main", &server, &source.command("leaves"))])).unwrap();
    let agent = [
        env!("CARGO_BIN_EXE_lockwatch").as_ref(),
        "--web.listen-address".as_ref(),
        "127.0.0.1:0".as_ref(),
        "--config.file".as_ref(),
        file.as_os_str(),
    ];
    let log = fs::File::create(source.path("log")).unwrap();
    let unshare = OwnedChild::spawn(contained(&agent).stderr(log));
    let children = format!("/proc/{0}/task/{0}/children", unshare.id());
    let of = || fs::read_to_string(&children).ok()?.trim().parse::<u32>().ok();
    wait_until(PATIENCE, "it runs", || of().is_some());
    let first = of().unwrap();
    wait_until(PATIENCE, "many runs", || source.runs() >= 12);
    wait_until(PATIENCE, "what they left is reaped", || zombies(first) <= 2);
    // The commands themselves were still waited for.
    source.put(SECRET);
    wait_until(PATIENCE, "it logs in", || clients(&server, "lockwatch").len() == 1);
    wait_until(PATIENCE, "nothing is left", || zombies(first) == 0);
    let said = fs::read_to_string(source.path("log")).unwrap();
    assert!(!said.contains("cannot be waited for"), "{said}");
}
