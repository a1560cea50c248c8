//! `discover` on real servers: which locks it finds among other keys, what it sends and prints, and
//! that the agent works with the printed configuration.

pub(crate) mod libraries;

use crate::support::PATIENCE;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use lockwatch::config::Config;
use lockwatch_judge::spec::{KindSpec, Unit};

use crate::shedlock::leave_behind;
use crate::support::agent::{Agent, program};
use crate::support::cluster::Cluster;
use crate::support::impostor::Impostor;
use crate::support::network::Options;
use crate::support::redis::RedisServer;
use crate::support::redisson::Redisson;
use crate::support::skip;

const ID: &str = "285475da-9152-4c83-822a-67ee2f116a79";

/// Commands that discover may run, as `INFO commandstats` names them.
const ALLOWED: [&str; 30] = [
    "auth",
    "client|setname",
    "client|no-touch",
    "dbsize",
    "echo",
    "exists",
    "getrange",
    "hello",
    "hlen",
    "hrandfield",
    "hscan",
    "hstrlen",
    "info",
    "llen",
    "pexpiretime",
    "ping",
    "pttl",
    "pubsub|numsub",
    "role",
    "scan",
    "select",
    "strlen",
    "time",
    "type",
    "zcard",
    "zcount",
    "zrange",
    "zscore",
    // Sent by the test itself.
    "config|resetstat",
    "command|docs",
];

/// Runs discover with these additional arguments.
fn discover(port: u16, arguments: &[&str]) -> Output {
    let mut command = program();
    command.args(["discover", "--redis", &format!("redis://127.0.0.1:{port}")]).args(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap()
}

/// The configuration that it prints. The output must be harmless and valid.
#[track_caller]
fn found(port: u16, arguments: &[&str]) -> (String, Config) {
    let output = discover(port, arguments);
    let (text, errors) = (harmless(&output.stdout), harmless(&output.stderr));
    assert!(output.status.success(), "{errors}\n{text}");
    let config =
        Config::parse(&text, Path::new("x.yml")).unwrap_or_else(|why| panic!("{why}\n{text}"));
    (text, config)
}

#[track_caller]
fn harmless(printed: &[u8]) -> String {
    let text = String::from_utf8(printed.to_vec()).expect("text");
    let raw: Vec<char> =
        text.chars().filter(|character| character.is_control() && *character != '\n').collect();
    assert!(raw.is_empty(), "{raw:?} in\n{text}");
    text
}

/// The lock keys of the tasks.
fn keys(config: &Config) -> BTreeSet<String> {
    config
        .tasks
        .iter()
        .map(|task| String::from_utf8_lossy(&task.lock().unwrap().key).into_owned())
        .collect()
}

/// The comment above a task.
#[track_caller]
fn about(text: &str, name: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| *line == format!("  - name: \"{name}\""));
    let above = lines[..at.unwrap_or_else(|| panic!("no task {name}:\n{text}"))].iter().rev();
    let above: Vec<&str> =
        above.take_while(|line| line.starts_with("  # ")).map(|line| &line[4..]).collect();
    above.into_iter().rev().collect::<Vec<_>>().join(" ")
}

/// Caches, sessions, queues, counters and data; none is a lock.
const NOISE: &str = r#"
for i = 1, 1500 do
    redis.call('set', 'session:' .. redis.sha1hex(i), '{"user": ' .. i .. '}', 'px', 1800000)
    redis.call('set', 'cache:token:' .. i, redis.sha1hex(i), 'px', 600000)
    redis.call('set', 'cache:page:' .. i, string.rep('x', 2000), 'px', 600000)
    redis.call('hset', 'user:' .. i, 'name', 'n' .. i, 'mail', 'm', 'mode', 'dark')
    redis.call('hset', 'views:' .. i, 'page:1', i, 'page:2', i)
    redis.call('rpush', 'queue:' .. i, 'job', 'job')
    redis.call('zadd', 'scores:' .. i, i, 'a')
    redis.call('sadd', 'tags:' .. i, 'a', 'b')
    redis.call('incr', 'rate:' .. i)
end
redis.call('set', 'stock:clock:block', '17')
redis.call('set', 'lock:timeout', '30s')
redis.call('hset', 'big', 'a', string.rep('x', 5000000))
redis.call('hset', 'big:lock', 'a', string.rep('x', 5000000))
redis.call('set', 'huge:lock', string.rep('x', 5000000), 'px', 600000)
return redis.call('dbsize')
"#;

/// Locks as other libraries write them; `ARGV[1]` is a UUID.
const LAYOUTS: &str = r"
local function lock(key, value) redis.call('set', key, value, 'px', 600000) end
local id = ARGV[1]
lock('job-lock:prod:billing', 'ADDED:2026-11-21T10:00:00.123Z@web-1:' .. id)
lock('invoices', 'WEB01_4711_0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b')
lock('redbeat::lock', '0b1f6c0e6d6c11ef9f0a5d3c1f2e4a5b')
lock('redlock:labels', id)
lock('registry:leader', id)
lock('spring-registry:outbound', id)
lock('laravel_database_laravel_cache:framework/schedule-da39a3ee5e6b4b0d3255bfef95601890afd80709', 's:16:\x22aB3dE5gH7jK9mN1p\x22;')
redis.call('set', 'zombie:lock', id)
for i = 1, 30 do lock('order:' .. i .. ':lock', id) end
lock('bull:mail:17:lock', id .. ':3')
lock('qo_tasks.mail_id-7', '0b1f6c0e6d6c11ef9f0a5d3c1f2e4a5b')
lock('uniquejobs:0123456789abcdef', 'jid')
lock('rueidislock:0:nightly', 'binary')
redis.call('zadd', 'symfony', redis.call('time')[1] * 1000 + 600000, '__write__')
redis.call('zadd', 'symfony', redis.call('time')[1] * 1000 + 600000, id)
redis.call('pexpireat', 'symfony', redis.call('time')[1] * 1000 + 600000)
lock('report:lock', '1')
redis.call('set', 'redisson_lock_token:{orphan}', 7)
redis.call('rpush', 'redisson_lock_queue:{stuck}', id .. ':1')
redis.call('zadd', 'redisson_lock_timeout:{stuck}', 1000, id .. ':1')
redis.call('hset', 'shared', 'mode', 'read', id .. ':1', 1, id .. ':2', 1)
redis.call('pexpire', 'shared', 600000)
redis.call('set', '{shared}:' .. id .. ':1:rwlock_timeout:1', '1', 'px', 600000)
redis.call('hset', 'plain:users', 'anna', 'on', 'ben', 'off')
redis.call('hset', 'plain:stats', 'last_run', '17', 'rows', 'many')
";

/// Redisson before 3.52 keeps the queue of a fair lock under the name before its NameMapper.
#[test]
fn a_queue_under_an_unmapped_name_is_no_lock_of_its_own() {
    let Some(server) = RedisServer::start("a_queue_under_an_unmapped_name") else { return };
    let id = "285475da-9152-4c83-822a-67ee2f116a79";
    server.cli(&["hset", "crt::job", &format!("{id}:1"), "1"]);
    server.cli(&["pexpire", "crt::job", "600000"]);
    server.cli(&["rpush", "redisson_lock_queue:{job}", &format!("{id}:2"), &format!("{id}:3")]);
    let far = "99999999999999";
    for waiter in ["2", "3"] {
        let waiter = format!("{id}:{waiter}");
        server.cli(&["zadd", "redisson_lock_timeout:{job}", far, &waiter]);
    }
    let (text, config) = found(server.port, &[]);
    let keys: Vec<&[u8]> = config.tasks.iter().map(|task| &task.lock().unwrap().key[..]).collect();
    assert_eq!(keys, [&b"crt::job"[..]], "{text}");
    assert!(about(&text, "crt::job").contains("Redisson"), "{text}");
    assert!(!text.contains("only its queue"), "{text}");
}

/// Takes a lock with the real redis-py and prints its token; the lock outlives the process.
const REDIS_PY: &str = "
import sys, redis
lock = redis.Redis(port=int(sys.argv[1])).lock('py:lock', timeout=600)
assert lock.acquire(blocking=False)
print(lock.local.token.decode())
";

/// `None`, with a message, on a machine without redis-py.
fn lock_with_redis_py(test: &str, server: &RedisServer) -> Option<String> {
    let run = |python: &&str| {
        let mut command = Command::new(python);
        command
            .args(["-c", REDIS_PY, &server.port.to_string()])
            .output()
            .ok()
            .filter(|output| output.status.success())
    };
    let taken = ["python3", "/usr/bin/python3"].iter().find_map(run);
    if taken.is_none() {
        skip::say(test, "redis-py (python3-redis)");
    }
    taken.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned())
}

/// The whole use case: discover finds each lock among thousands of other keys, identifies its kind
/// and measures it, and an agent started with the printed configuration reports each correctly.
#[test]
fn with_the_configuration_that_it_prints_the_agent_is_right() {
    let test = "discover::with_the_configuration_that_it_prints_the_agent_is_right";
    let (Some(mut redisson), Some(server)) = (Redisson::start(test), RedisServer::start(test))
    else {
        return;
    };
    let Some(token) = lock_with_redis_py(test, &server) else { return };
    server.cli(&["eval", NOISE, "0"]);
    server.cli(&["eval", LAYOUTS, "0", ID]);
    let options = |watchdog_ms: u32| format!("port={} watchdog={watchdog_ms}", server.port);
    let first = redisson.connect("c1", &options(30_000));
    let second = redisson.connect("c2", &options(3_000));
    redisson.run("lock c1 t1 plain:lock");
    redisson.run("lock c2 t1 quick");
    redisson.run("lock c1 t2 fair kind=fair");
    redisson.run("lock-async c2 t2 fair kind=fair");
    redisson.run("lock c1 t3 fenced kind=fenced");
    redisson.run("lock c1 t4 read kind=read");
    redisson.run("lock c2 t4 read kind=read");
    redisson.run("lock c2 t5 write kind=write");
    redisson.run("lock c2 t6 multi kind=faster values=a,b");

    let (text, config) = found(server.port, &["--keys-per-second", "100000"]);
    let expected = [
        "fair",
        "fenced",
        "invoices",
        "job-lock:prod:billing",
        "laravel_database_laravel_cache:framework/schedule-da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "plain:lock",
        "py:lock",
        "quick",
        "read",
        "redbeat::lock",
        "redlock:labels",
        "registry:leader",
        "shared",
        "symfony",
        "write",
        "zombie:lock",
    ];
    assert_eq!(keys(&config), expected.map(str::to_owned).into(), "{text}");
    let redissons = ["fair", "fenced", "plain:lock", "quick", "read", "shared", "write"];
    for task in &config.tasks {
        let is_redisson =
            redissons.contains(&std::str::from_utf8(&task.lock().unwrap().key).unwrap());
        let library = task.lock().unwrap().library.as_str();
        assert_eq!(
            (library == "redisson", task.lock().unwrap().lease_ms),
            (is_redisson, None),
            "{library}"
        );
    }
    // Kinds, holders and leases are detected; tokens stay secret.
    let learned =
        |lease: &str, period: &str| format!("lease {lease} learned, renewed every {period}");
    for (name, pieces) in [
        ("plain", ["Redisson RLock.", &format!("Held by {first}"), &learned("30s", "10s")]),
        ("quick", ["Redisson RLock.", &format!("Held by {second}"), &learned("3s", "1s")]),
        ("fair", ["Redisson RFairLock.", &format!("Held by {first}"), "1 waiting"]),
        ("fenced", ["Redisson RFencedLock.", &format!("Held by {first}"), &learned("30s", "10s")]),
        ("read", ["Redisson RReadWriteLock", "Read by ", &first]),
        (
            "write",
            ["Redisson RReadWriteLock", &format!("Written by {second}"), &learned("3s", "1s")],
        ),
        ("py", ["A token in a string", "(a digest of its token)", "not renewed within 12s"]),
        ("job-lock:prod:billing", ["ShedLock", "held while a run lasts", "not renewed"]),
        ("zombie", ["A token", "Held by", "without any TTL"]),
    ] {
        let about = about(&text, name);
        assert!(pieces.iter().all(|piece| about.contains(piece)), "{name}: {about}");
    }
    assert!(!text.contains(&token) && !text.contains("aB3dE5gH7jK9mN1p"), "{text}");
    // Comments for keys that are no task, possible tasks, and other keys that a task may have.
    for comment in [
        "#   30 like order:*:lock",
        "#   bull:mail:17:lock",
        "#   qo_tasks.mail_id-7",
        "#   uniquejobs:0123456789abcdef",
        "#   rueidislock:0:nightly",
        "#   multi",
        "  # - name: \"report\"",
        "  # - name: \"orphan\"",
        "  # - name: \"spring-registry:outbound\"",
        "  # - name: \"stuck\"",
        "    # wanted: {hash: \"plain:users\"}   # its 2 fields are switches: those of the users \
         who want the task?",
        "    # progress: {hash: \"plain:stats\", field: \"last_run\", stale_after: 5m}   # does \
         the work change it?",
    ] {
        assert!(text.lines().any(|line| line == comment), "{comment}\n{text}");
    }
    for verb in ["DEL ", "UNLINK", "FLUSH"] {
        assert!(!text.contains(verb), "{verb}");
    }

    let agent = Agent::start(&text);
    let names: Vec<String> = config.tasks.iter().map(|task| task.name.to_string()).collect();
    let page = agent.until(PATIENCE, "all are held", |page| {
        names
            .iter()
            .all(|name| page.of(name, "lock_held") == Some(1.0) && page.verdict(name) == "running")
    });
    assert_eq!(page.label("plain", "lock_holder", "holder"), Some(first.clone()));
    assert_eq!(page.label("write", "lock_holder", "holder"), Some(second));
    assert_eq!(page.of("read", "lock_holders"), Some(2.0));
    assert_eq!(page.of("fair", "lock_waiters"), Some(1.0));
    assert_eq!(page.of("fenced", "lock_fencing_token"), Some(1.0));
    assert_eq!(page.of("zombie", "lock_persistent"), Some(1.0));
    redisson.run("unlock c1 t1 plain:lock");
    server.cli(&["del", "py:lock"]);
    agent.until(PATIENCE, "two are free", |page| {
        ["plain", "py"]
            .iter()
            .all(|name| page.of(name, "lock_held") == Some(0.0) && page.verdict(name) == "stopped")
    });
}

/// Tasks that no lock guards: a turn that is seen to come back becomes a task; what only looks like
/// turns or like delayed tasks is a comment, which works once its number signs are gone.
#[test]
fn turns_and_delayed_tasks_are_found() {
    let test = "discover::turns_and_delayed_tasks_are_found";
    let Some(server) = RedisServer::start(test) else { return };
    server.cli(&["eval", NOISE, "0"]);
    server.cli(&["eval", RELATIVES, "0", ID]);
    let turning = std::thread::scope(|scope| {
        let found = scope.spawn(|| found(server.port, &["--watch", "8s"]));
        while !found.is_finished() {
            for name in ["pack", "ship", "bill"] {
                server.cli(&["eval", PASS, "1", "alternation", name]);
                std::thread::sleep(Duration::from_millis(600));
            }
        }
        found.join().unwrap()
    });
    let (text, config) = turning;
    let [task] = config.tasks.as_slice() else { panic!("{text}") };
    let KindSpec::Turn(turn) = &task.kind else { panic!("{text}") };
    assert_eq!(
        (&*task.name, &*turn.hash, turn.unit),
        ("alternation", &b"alternation"[..], Unit::Milliseconds)
    );
    let mut names: Vec<&[u8]> = turn.tasks.iter().map(|name| &*name.0).collect();
    names.sort_unstable();
    assert_eq!(names, [&b"bill"[..], b"pack", b"ship"]);
    assert!(about(&text, "alternation").contains("the turn came back"), "{text}");
    for line in [
        "  #   turn: {hash: \"night:turns\", unit: s, tasks: [\"backup\"]}",
        "  #   queue: {zset: \"mails\", unit: s, lock: \"lock_{id}\"}",
        "# the delayed tasks of mails:",
        "#   lock_42",
    ] {
        assert!(text.lines().any(|printed| printed == line), "{line}\n{text}");
    }
    for other in ["last-seen", "state", "leaders", "scores:", "user:"] {
        assert!(!text.contains(other), "{other}\n{text}");
    }
    let watched = text.replace("  # - name", "  - name").replace("  #   queue", "    queue");
    let watched = watched.replace("  #   turn", "    turn");
    let config = Config::parse(&watched, Path::new("x.yml")).unwrap();
    assert_eq!(config.tasks.len(), 3, "{watched}");
}

/// Hashes and sorted sets of which some guard tasks. `ARGV[1]` is a UUID.
const RELATIVES: &str = r"
local now = redis.call('time')[1]
redis.call('hset', 'night:turns', 'backup', now + 60)
redis.call('hset', 'state', 'changed', now)
redis.call('hset', 'job:stats', 'last_run', now)
redis.call('zadd', 'leaders', 17, 'anna', 12, 'ben')
redis.call('zadd', 'last-seen', now - 5, 'anna', now, 'ben')
for id = 41, 45 do redis.call('zadd', 'mails', now + (id - 43) * 30, id) end
for id = 41, 43 do redis.call('set', 'lock_' .. id, ARGV[1], 'px', 60000) end
";

/// Passes the turn of `KEYS[1]` to `ARGV[1]`.
const PASS: &str = r"
redis.replicate_commands()
local now = redis.call('time')
redis.call('del', KEYS[1])
redis.call('hset', KEYS[1], ARGV[1], now[1] * 1000 + math.floor(now[2] / 1000))
";

/// Only commands in `ALLOWED` ran.
#[track_caller]
fn only_harmless_commands(ran: &str) {
    let names = ran.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split(':').next());
    let foreign: Vec<&str> = names.filter(|name| !ALLOWED.contains(name)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn it_is_no_faster_than_it_may_be_and_only_reads() {
    let Some(server) =
        RedisServer::start("discover::it_is_no_faster_than_it_may_be_and_only_reads")
    else {
        return;
    };
    server.cli(&["eval", "for i = 1, 3000 do redis.call('set', 'k' .. i, i) end", "0"]);
    server.cli(&["eval", LAYOUTS, "0", ID]);
    server.cli(&["hset", "held", &format!("{ID}:7"), "1"]);
    for (rate, at_least) in [(1_000, Duration::from_millis(2_900)), (100_000, Duration::ZERO)] {
        server.cli(&["config", "resetstat"]);
        let began = Instant::now();
        let (text, _) =
            found(server.port, &["--watch", "0s", "--keys-per-second", &rate.to_string()]);
        assert!(began.elapsed() >= at_least, "{rate}: {:?}\n{text}", began.elapsed());
        let ran = server.cli(&["info", "commandstats"]);
        only_harmless_commands(&ran);
        assert!(
            ran.contains("cmdstat_hscan:") && ran.contains("cmdstat_getrange:"),
            "the locks were read: {ran}"
        );
        let types = ran.split_once("cmdstat_type:calls=").unwrap().1.split(',').next().unwrap();
        assert!((3_000..3_200).contains(&types.parse::<u32>().unwrap()), "{types}");
    }
    // While the locks do not change, the output is identical.
    let (first, _) = found(server.port, &["--watch", "1s"]);
    assert_eq!(first, found(server.port, &["--watch", "1s"]).0);
    // A glob excludes all other keys.
    let began = Instant::now();
    let (_, config) =
        found(server.port, &["--watch", "0s", "--match", "red*", "--keys-per-second", "3000"]);
    assert!(
        began.elapsed() >= Duration::from_millis(950),
        "keys that do not match cost the server as much"
    );
    assert_eq!(keys(&config), ["redbeat::lock", "redlock:labels"].map(str::to_owned).into());
}

/// The host's name is in the value.
#[test]
fn the_keys_of_the_real_shedlock_are_recognised() {
    let test = "discover::the_keys_of_the_real_shedlock_are_recognised";
    let Some(server) = RedisServer::start(test) else { return };
    let tasks = ["billing", "nightly"].map(str::to_owned);
    if !leave_behind(test, &server, "web-1", &tasks) {
        return;
    }
    let (text, config) = found(server.port, &["--watch", "1s"]);
    let expected = ["job-lock:prod:billing", "job-lock:prod:nightly"].map(str::to_owned);
    assert_eq!(keys(&config), expected.clone().into(), "{text}");
    for task in &config.tasks {
        assert_eq!(task.lock().unwrap().library.as_str(), "shedlock");
    }
    for name in expected {
        let about = about(&text, &name);
        assert!(about.contains("ShedLock: held while a run lasts"), "{about}");
    }
}

/// Passes `line` to `redis-cli` as a user would.
fn redis_cli(server: &RedisServer, line: &str) -> String {
    let mut command = Command::new("redis-cli");
    let mut cli = command
        .arg("-s")
        .arg(server.socket())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(cli.stdin.take().unwrap(), "{line}").unwrap();
    String::from_utf8(cli.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn the_rule_that_it_names_is_all_that_it_needs() {
    let Some(server) = RedisServer::start("discover::the_rule_that_it_names_is_all_that_it_needs")
    else {
        return;
    };
    server.cli(&["eval", LAYOUTS, "0", ID]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "PASSWORD\n").unwrap();
    let login = [
        "--redis.username",
        "seeker",
        "--redis.password-file",
        file.to_str().unwrap(),
        "--watch",
        "1s",
    ];
    let mut before = None;
    for too_little in [
        "ACL SETUSER seeker on >PASSWORD ~* -@all +ping",
        "ACL SETUSER seeker on >PASSWORD ~* -@all +ping +role +info",
    ] {
        assert_eq!(redis_cli(&server, too_little), "OK\n");
        let output = discover(server.port, &login);
        let errors = harmless(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(output.stdout.is_empty());
        let rule = errors
            .lines()
            .find_map(|line| line.trim().strip_prefix("ACL SETUSER ").map(str::to_owned));
        let rule = rule.unwrap_or_else(|| panic!("{errors}"));
        assert!(before.as_ref().is_none_or(|before| *before == rule), "{rule}");
        before = Some(rule);
    }
    let rule = format!("ACL SETUSER {}", before.unwrap());
    assert_eq!(redis_cli(&server, &rule), "OK\n");
    server.cli(&["acl", "log", "reset"]);
    let (text, config) = found(server.port, &login);
    assert!(
        keys(&config).contains("zombie:lock") && about(&text, "zombie").contains("Held by"),
        "{text}"
    );
    assert_eq!(config.redises[0].login.username.as_deref(), Some("seeker"));
    assert!(!text.contains("PASSWORD"), "{text}");
    let refused = server.cli(&["acl", "log"]);
    assert!(!refused.contains("command") && !refused.contains("key"), "{refused}");
    for verb in ["set zombie:lock x", "del zombie:lock", "keys *", "hgetall a", "eval 'return 1' 0"]
    {
        let words: Vec<&str> = verb.split(' ').collect();
        let answer = server.cli(
            &[&["--user", "seeker", "--pass", "PASSWORD", "--no-auth-warning"], &*words].concat(),
        );
        assert!(answer.contains("NOPERM"), "{verb}: {answer}");
    }

    // A user with access to some keys only gets the number of missing ones.
    assert_eq!(redis_cli(&server, &format!("{} resetkeys ~zombie*", rule)), "OK\n");
    let (text, config) = found(server.port, &login);
    assert_eq!(keys(&config), ["zombie:lock".to_owned()].into(), "{text}");
    assert!(
        text.contains("keys could not be looked at: this user may not.")
            && text.contains("SETUSER"),
        "{text}"
    );
}

/// A lock that changes hands is reported as such. A lock of one item, which does not last, is no
/// task. An unreadable lock may have lasted.
#[test]
fn what_changes_while_it_is_watched_is_reported() {
    let Some(server) = RedisServer::start("discover::what_changes_while_it_is_watched_is_reported")
    else {
        return;
    };
    server.cli(&["set", "export:4711:lock", ID, "px", "1500"]);
    server.cli(&["set", "import:4712:lock", ID]);
    server.cli(&["set", "nightly:lock", ID, "px", "1500"]);
    server.cli(&["set", "round:lock", ID, "px", "60000"]);
    let mut command = program();
    command.args([
        "discover",
        "--redis",
        &format!("redis://127.0.0.1:{}", server.port),
        "--watch",
        "4s",
    ]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let watches = || server.cli(&["info", "commandstats"]).contains("cmdstat_echo:");
    crate::support::wait_until(PATIENCE, "it watches", watches);
    server.cli(&[
        "eval",
        "redis.call('del', KEYS[1]) redis.call('rpush', KEYS[1], 'x')",
        "1",
        "import:4712:lock",
    ]);
    while running.try_wait().unwrap().is_none() {
        server.cli(&[
            "set",
            "round:lock",
            &format!("0b1f6c0e6d6c11ef{:016x}", fastrand::u64(..)),
            "px",
            "60000",
        ]);
        std::thread::sleep(Duration::from_millis(700));
    }
    let text = harmless(&running.wait_with_output().unwrap().stdout);
    let config =
        Config::parse(&text, Path::new("x.yml")).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let expected = ["import:4712:lock", "nightly:lock", "round:lock"];
    assert_eq!(keys(&config), expected.map(str::to_owned).into(), "{text}");
    let round = about(&text, "round");
    assert!(round.contains("; taken ") && round.contains(" times in 4s"), "{round}");
    assert!(about(&text, "nightly").contains("Free by now: it ran out"), "{text}");
    assert!(
        text.replace("\n  # ", " ").contains("did not stay, as the lock of an item would."),
        "{text}"
    );
    assert!(text.contains("  # - name: \"export:4711\""), "{text}");
}

#[test]
fn hostile_keys_are_printed_harmlessly_and_read_back() {
    let Some(server) =
        RedisServer::start("discover::hostile_keys_are_printed_harmlessly_and_read_back")
    else {
        return;
    };
    let long = format!("{}:lock", "k".repeat(1_019));
    let too_long = format!("{}:lock", "k".repeat(1_020));
    let keys: [&[u8]; 13] = [
        b"\x1b[2J\x07:lock",
        b"quote\"' #: {a}: lock",
        b"new\nline: # lock",
        b"- name: evil\n  lock: lock",
        b"\xff\xfe:lock",
        b"back\\slash:lock",
        "\u{202e}\u{2028}:lock".as_bytes(),
        "w\u{e4}rme:lock".as_bytes(),
        b"nul\0:lock",
        b"%TAG ! lock",
        b" lock ",
        b"---\nlock",
        long.as_bytes(),
    ];
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect::<String>();
    let mut script = format!("HSET \"\" \"{ID}:7\" 1\n");
    for (at, key) in keys.iter().chain([&too_long.as_bytes()]).enumerate() {
        script += &format!("SET \"{}\" 0b1f6c0e6d6c4d0e9f0a5d3c1f2e4{at:03} PX 600000\n", hex(key));
        script +=
            &format!("HSET \"{}\" \"{ID}:7\" 1\n", hex(&[key, b"2\n:lock".as_slice()].concat()));
        script += &format!(
            "SET \"redisson_lock_token:{{{}}}\" 7\n",
            hex(&[key, b"3\n".as_slice()].concat())
        );
        script += &format!("SET \"{}\" 1 PX 600000\n", hex(&[b"doubt \x1b", *key].concat()));
        script += &format!("SET \"bull:{}:lock\" {ID}:1\n", hex(key));
    }
    redis_cli(&server, &script);
    let (text, config) = found(server.port, &["--watch", "500ms"]);
    let got: BTreeSet<&[u8]> =
        config.tasks.iter().map(|task| task.lock().unwrap().key.as_slice()).collect();
    for key in keys {
        assert!(got.contains(key), "{}\n{text}", String::from_utf8_lossy(key));
    }
    assert!(
        !got.contains(too_long.as_bytes()) && text.contains("longer than lockwatch takes"),
        "{text}"
    );
    assert!(text.contains("# the empty key, which lockwatch does not take:\n#   \"\"\n"), "{text}");
    let names: BTreeSet<&str> = config.tasks.iter().map(|task| &*task.name).collect();
    assert_eq!(names.len(), config.tasks.len());
    assert!(config.tasks.iter().all(|task| task.name.len() <= 70), "{names:?}");
}

#[test]
fn where_nothing_is_found_it_says_how_a_configuration_looks_and_leaves_with_1() {
    let Some(server) = RedisServer::start("discover::where_nothing_is_found") else { return };
    server.cli(&["set", "config", "value"]);
    let output = discover(server.port, &["--watch", "0s"]);
    assert_eq!(output.status.code(), Some(1));
    let text = harmless(&output.stdout);
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')), "{text}");
    assert!(text.contains("No task was found") && output.stderr.is_empty(), "{text}");
    // Errors in the arguments read like errors in the configuration.
    let mut command = program();
    let output = command.args(["discover", "--redis", "redis://:hunter2@x"]).output().unwrap();
    let errors = harmless(&output.stderr);
    assert!(
        output.status.code() == Some(2)
            && errors.contains("--redis")
            && !errors.contains("hunter2"),
        "{errors}"
    );
    drop(server);
}

#[test]
fn other_databases_with_keys_are_named() {
    let Some(server) = RedisServer::start("discover::other_databases_with_keys") else { return };
    let named = "Other databases of this server have keys, too: ";
    server.cli(&["-n", "2", "set", "outbound:lock", ID, "px", "600000"]);
    let text = harmless(&discover(server.port, &["--watch", "0s"]).stdout);
    assert!(text.contains(&format!("{named}2 (1 key).")), "{text}");
    let mut command = program();
    command.args(["discover", "--redis", &format!("redis://{}/2", server.address())]);
    command.args(["--watch", "0s"]).stdout(Stdio::piped());
    let text = harmless(&command.output().unwrap().stdout);
    assert!(text.contains("outbound:lock") && !text.contains(named), "{text}");
}

#[test]
fn a_replica_says_so_and_nothing_is_watched_there() {
    let test = "discover::a_replica_says_so_and_nothing_is_watched_there";
    let (Some(master), Some(replica)) = (RedisServer::start(test), RedisServer::start(test)) else {
        return;
    };
    master.cli(&["set", "outbound:lock", ID, "px", "600000"]);
    replica.cli(&["replicaof", "127.0.0.1", &master.port.to_string()]);
    crate::support::wait_until(PATIENCE, "it has the lock", || {
        replica.cli(&["exists", "outbound:lock"]) == "1"
    });
    let (text, config) = found(replica.port, &[]);
    assert_eq!(keys(&config), ["outbound:lock".to_owned()].into());
    assert!(
        text.contains(&format!("THIS IS A REPLICA, of the master 127.0.0.1:{}", master.port)),
        "{text}"
    );
    assert!(!about(&text, "outbound").contains("Held"), "{text}");
}

#[test]
fn a_server_of_a_cluster_says_so_and_stands_for_its_cluster() {
    let test = "discover::a_server_of_a_cluster_says_so_and_stands_for_its_cluster";
    let Some(cluster) = Cluster::start(test, 0, &Options::default()) else { return };
    let mut all = BTreeSet::new();
    for name in ["inbound:lock", "outbound:lock", "labels:lock", "returns:lock"] {
        assert_eq!(cluster.cli(name, &["set", name, ID, "px", "600000"]), "OK");
        all.insert(name.to_owned());
    }
    let mut seen = BTreeSet::new();
    for node in 0..3 {
        let output = discover(cluster.node(node).port, &["--watch", "2s"]);
        let text = harmless(&output.stdout);
        assert!(text.contains("THIS IS ONE SERVER OF A CLUSTER"), "{text}");
        let Ok(config) = Config::parse(&text, Path::new("x.yml")) else {
            assert_eq!(output.status.code(), Some(1), "{text}");
            continue;
        };
        for task in &config.tasks {
            assert!(about(&text, &task.name).contains("Held by"), "{text}");
        }
        seen.extend(keys(&config));
    }
    assert_eq!(seen, all);
}

/// An honest server's cursor returns to 0.
#[test]
fn a_walk_that_a_server_never_ends_is_given_up() {
    let server = Impostor::start(|client| {
        client.answer_but(|words| {
            let scan = words.first().is_some_and(|name| name == b"SCAN");
            scan.then(|| b"*2\r\n$1\r\n7\r\n*1\r\n$13\r\noutbound:lock\r\n".to_vec())
        })
    });
    let output = discover(server.port, &["--watch", "0s", "--keys-per-second", "1000000"]);
    let errors = harmless(&output.stderr);
    assert!(output.status.code() == Some(1) && errors.contains("SCAN does not end"), "{errors}");
    assert!(output.stdout.is_empty());
}
