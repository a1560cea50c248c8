//! What the Redis user of a guard may do, and what is said of one that may too little.

use super::*;
use crate::acl::redis_cli;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// A configuration in which the guard has a login and writes all that it can.
fn configured(scene: &Scene, server: &RedisServer) -> PathBuf {
    let file = scene.path("lockwatch.yml");
    let text = format!(
        "redis: {{main: {{url: \"redis://{}\"}}}}\n\
         tasks:\n\
         - name: outbound\n  \
           lock: {{key: \"{LOCK}\"}}\n  \
           wanted: {{hash: \"outbound:users\"}}\n  \
           progress: {{hash: \"outbound:stats\", field: last_run}}\n  \
           claims: {{hash: \"lockwatch:claims:outbound\"}}\n  \
           hosts: {{hash: \"lockwatch:hosts\"}}\n  \
           guard: {{lease: 2s, stop_after: 500ms, progress: heartbeat, \
                    username: outbound-guard, password_file: pw}}\n",
        server.address()
    );
    fs::write(&file, text).unwrap();
    fs::write(scene.path("pw"), "PASSWORD").unwrap();
    file
}

/// The line of `lockwatch acl` for this user.
fn printed(file: &str, user: &str) -> String {
    let mut acl = Command::new(env!("CARGO_BIN_EXE_lockwatch"));
    let output = acl.args(["acl", "--config.file", file, "--redis-version", "7.2"]).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("ACL SETUSER {user} ")));
    line.unwrap_or_else(|| panic!("no rule for {user}: {text}")).to_owned()
}

/// A guard does all that it ever does: it takes over, renews, hears of a loss, gives back, and its
/// script checks its token. Nothing of it is refused.
fn suffices(scene: &Scene, server: &RedisServer) {
    let file = configured(scene, server);
    let file = file.to_str().unwrap();
    let arguments = ["--config.file", file, "outbound"];
    server.cli(&["hset", "outbound:users", "anna", "true"]);
    let guards = [(); 2].map(|()| scene.start(&arguments, &scene.script()));
    let token = scene.runs_above(0);
    for key in ["outbound:stats", "lockwatch:claims:outbound", "lockwatch:hosts"] {
        until("it is written", || (server.cli(&["exists", key]) == "1").then_some(()));
    }
    server.cli(&["del", LOCK]);
    scene.runs_above(token);
    server.cli(&["hset", "outbound:users", "anna", "false"]);
    until("it is given back", || {
        let fields = server.cli(&["hkeys", "lockwatch:claims:outbound"]);
        let claims = fields.lines().any(|field| !field.starts_with("runs:"));
        (server.cli(&["exists", LOCK]) == "0" && !claims).then_some(())
    });
    server.cli(&["hset", "outbound:users", "anna", "true"]);
    for mut guard in guards {
        guard.signal("TERM");
        guard.ended();
        assert!(!guard.said().contains("not announced"), "{}", guard.said());
    }
    let fence = format!("{} fence --config.file {file} outbound", env!("CARGO_BIN_EXE_lockwatch"));
    let script = words(&["sh", "-c", &fence]);
    let once = [&arguments[..], &["--restart", "never"]].concat();
    assert_eq!(output(scene.start(&once, &script)).0, Some(0));
    assert_eq!(server.cli(&["acl", "log"]), "", "nothing was refused");
    scene.assert_never_both();
}

/// The rule stands in docs/guard.md.
#[test]
fn the_documented_rights_suffice() {
    let Some(server) = RedisServer::start("guard::rights: documented") else { return };
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guard.md")).unwrap();
    let (_, rule) = page.split_once("ACL SETUSER outbound-guard ").unwrap();
    let (rule, _) = rule.split_once("\n\n").unwrap();
    let rule: Vec<&str> = rule.split_whitespace().collect();
    let scene = Scene::new();
    let file = configured(&scene, &server);
    let line = printed(file.to_str().unwrap(), "outbound-guard");
    assert_eq!(format!("ACL SETUSER outbound-guard {}", rule.join(" ")), line);
    assert_eq!(redis_cli(&server, &line), "OK\n");
    suffices(&scene, &server);
}

#[test]
fn the_printed_rule_allows_nothing_else() {
    let Some(server) = RedisServer::start("guard::rights: nothing else") else { return };
    let scene = Scene::new();
    let file = configured(&scene, &server);
    let line = printed(file.to_str().unwrap(), "outbound-guard");
    assert_eq!(redis_cli(&server, &line), "OK\n");
    for refused in [
        "set other 1",
        "hset outbound:lock:other a 1",
        "eval return 0",
        "publish redisson_lock__channel:{other} 0",
        "subscribe other",
        "del other",
        "flushall",
        "keys *",
        "hgetall outbound:users",
        "config get *",
        "acl list",
    ] {
        let mut words: Vec<&str> = vec!["acl", "dryrun", "outbound-guard"];
        words.extend(refused.split(' '));
        if refused.starts_with("eval") {
            words.truncate(4);
            words.extend(["return 0", "1", "other"]);
        }
        let reported = server.cli(&words);
        assert!(reported.contains("has no permissions"), "{refused}: {reported}");
    }
}

#[test]
fn a_user_that_may_too_little_learns_what_it_needs() {
    let Some(server) = RedisServer::start("guard::rights: too little") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let keys = format!("~{LOCK}");
    let reader =
        ["acl", "setuser", "reader", "on", ">pw", &keys, "+@read", "+@connection", "+role"];
    assert_eq!(server.cli(&reader), "OK");
    let password = scene.path("password");
    fs::write(&password, "pw").unwrap();
    let password = password.to_str().unwrap();
    let login = ["--redis.username", "reader", "--redis.password-file", password];
    let arguments = [&["--redis", &*redis, "--lock", LOCK][..], &login].concat();
    let (code, said) = output(scene.start(&arguments, &words(&["true"])));
    assert!(code == Some(69) && said.contains("NOPERM"), "{said}");
    let (_, rule) = said.split_once("What it needs: ").unwrap();
    assert_eq!(redis_cli(&server, rule.lines().next().unwrap()), "OK\n");
    let (code, said) = output(scene.start(&arguments, &words(&["true"])));
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_key_that_is_no_lock_is_named_with_its_type() {
    let Some(server) = RedisServer::start("guard::rights: wrong type") else { return };
    let (scene, redis) = (Scene::new(), format!("redis://{}", server.address()));
    let run = || output(scene.start(&["--redis", &redis, "--lock", LOCK], &words(&["true"])));
    server.cli(&["set", LOCK, "a string"]);
    let (code, said) = run();
    assert!(code == Some(64) && said.contains("the key outbound:lock is a string"), "{said}");
    assert!(said.contains("has a hash there; give the lock another key"), "{said}");
    server.cli(&["del", LOCK]);
    let counter = format!("redisson_lock_token:{{{LOCK}}}");
    server.cli(&["rpush", &counter, "7"]);
    let (code, said) = run();
    assert!(code == Some(64) && said.contains(&format!("{counter} is a list")), "{said}");
    server.cli(&["del", &counter]);
    // The same under a guard that holds it: a loss, which is noticed at once.
    let mut guard = scene.guard(&server, &[]);
    scene.runs_above(0);
    let before = guard.scripts();
    server.cli(&["set", LOCK, "a string"]);
    let since = Instant::now();
    until("the script is dead", || {
        let left = guard.scripts();
        (!before.iter().any(|pid| left.contains(pid))).then_some(())
    });
    assert!(since.elapsed() < Duration::from_millis(500), "{:?}", since.elapsed());
    assert_eq!(guard.code(), Some(64), "{}", guard.said());
}
