//! The ACL rule on a real server permits everything that the agent sends and nothing else.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lockwatch::commands::acl::{ServerVersion, report, rules};
use lockwatch::config::{Config, PasswordSource};
use lockwatch_judge::spec::{ClaimsSpec, LockSpec, TaskSpec, WantedSpec};
use lockwatch_judge::spec::{Codec, ProgressSource, ProgressSpec, StoreIndex, WantedSource};
use lockwatch_watch::redis::accept::{self, Caps, RoleCheck};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::read::{Scope, TaskRead};
use lockwatch_watch::redis::topology::{cluster, sentinel};
use redis::{Connection, ErrorKind, RedisError, ServerErrorKind, Value};

use crate::support::redis::{RedisServer, Setup};
use crate::support::truth::rule;
use crate::support::wait_until;

fn connect(server: &RedisServer, parameters: &str) -> Connection {
    let url = format!("redis+unix://{}{parameters}", server.socket().display());
    redis::Client::open(url).unwrap().get_connection().unwrap()
}

/// Passes `line` to `redis-cli` as a user would.
pub(crate) fn redis_cli(server: &RedisServer, line: &str) -> String {
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

/// Lock keys that are hard to quote, to escape in globs, or to put in braces.
const LOCK_KEYS: [&[u8]; 9] = [
    b"outbound:lock",
    b"tagged{shop}:lock",
    b"star*:[a-c]?:lock",
    b"back\\slash:lock",
    b"quote\"'#:lock",
    b"line\n tab\t space:lock",
    b"bytes\xff\xfe:lock",
    b"(paren) nul\0:lock",
    b"~%R~>+@all",
];

fn task(index: usize, lock_key: &[u8]) -> TaskSpec {
    let key = |role: &str| [lock_key, b":", role.as_bytes()].concat();
    let wanted = match index % 4 {
        0 => WantedSource::Hash(key("users")),
        1 => WantedSource::Set(key("users")),
        2 => WantedSource::Counter(key("users")),
        _ => WantedSource::Keys(vec![key("users"), key("more")]),
    };
    let progress = match index % 3 {
        0 => ProgressSource::HashField { key: key("progress"), field: b"f".to_vec() },
        1 => ProgressSource::Key(key("progress")),
        _ => ProgressSource::Length(key("progress")),
    };
    TaskSpec {
        wanted: Some(WantedSpec { source: wanted, codec: Codec::Raw }),
        progress: Some(
            ProgressSpec { source: progress, moves: None, stale_after_ms: 60_000 }.into(),
        ),
        claims: Some(ClaimsSpec { key: key("claims"), fresh_for_ms: 10_000 }.into()),
        hosts: Some(b"lockwatch:hosts".to_vec()),
        paused_until: Some(key("pause")),
        ..TaskSpec::new(
            &format!("task {index}"),
            StoreIndex(0),
            libraries::lock(lock_key, libraries::ALL[index % libraries::ALL.len()].name()),
        )
    }
}

fn config(tasks: Vec<TaskSpec>) -> Config {
    let text = "redis: {main: {url: 'redis://x/3', username: watcher}}\n\
        tasks: [{name: a, lock: {key: a}}]\n";
    let mut config = Config::parse(text, Path::new("x.yml")).unwrap();
    config.redises[0].login.password = Some(PasswordSource::Env("UNUSED".to_owned()));
    config.tasks = tasks.into_iter().map(Into::into).collect();
    config
}

/// Nine tasks: with and without each library, every kind of switch and of progress.
fn hostile_config() -> Config {
    let tasks = LOCK_KEYS.iter().enumerate().flat_map(|(index, key)| {
        let mut other = task(index + 1, &[key, b"2".as_slice()].concat());
        other.name = format!("other {index}").into();
        [task(index, key), other]
    });
    let lock = LockSpec { field: Some(b"f".to_vec()), ..libraries::lock(b"fields*", "string") };
    config(tasks.chain([TaskSpec::new("a field", StoreIndex(0), lock)]).collect())
}

type Words = Vec<Vec<u8>>;

fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

/// The commands that the agent sends for one task.
fn commands_of(task: &Arc<TaskSpec>) -> Vec<Words> {
    let mut sent = Vec::new();
    for pexpiretime in [true, false] {
        let caps = Caps {
            pexpiretime,
            hpexpiretime: false,
            role: RoleCheck::Role,
            info: true,
            sharded: false,
        };
        TaskRead::new(Arc::clone(task), caps, true, Scope::ALL).commands(&mut sent);
        sent.extend(accept::header());
        sent.extend(accept::footer(caps, b"nonce"));
    }
    let mut all: Vec<Words> = sent.into_iter().map(|command| command.args).collect();
    // Commands that depend on earlier replies: the readers of a read lock, the length of a key by
    // its type.
    let mut send = |line: &[&[u8]]| all.push(words(line));
    let key = task.lock().unwrap().key.as_slice();
    if let Some(field) = &task.lock().unwrap().field {
        send(&[b"HGET", key, field]);
    }
    if task.lock().unwrap().library.as_str() == "redisson" {
        let braced = if key.contains(&b'{') { key.to_vec() } else { [b"{", key, b"}"].concat() };
        let reader = b":0e4bd6f2-9d3f-4f5e-8c5b-6f0e2b8f7a11:57:rwlock_timeout:1";
        send(&[b"EXISTS", &[&braced, reader.as_slice()].concat()]);
    }
    if let Some(ProgressSource::Length(key)) =
        task.progress.as_ref().map(|progress| &progress.source)
    {
        for command in ["LLEN", "SCARD", "ZCARD"] {
            send(&[command.as_bytes(), key]);
        }
        send(&[b"XINFO", b"STREAM", key]);
    }
    all
}

fn ask(connection: &mut Connection, words: &Words) -> Result<Value, RedisError> {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(word.as_slice());
    }
    command.query(connection)
}

fn is_refused(answer: &Result<Value, RedisError>) -> bool {
    answer.as_ref().is_err_and(|error| error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm))
}

/// Applies the rule for `config` and connects as its user.
fn watcher_of(server: &RedisServer, config: &Config, version: ServerVersion) -> Connection {
    let rules = rules(config, version);
    let [rule] = rules.as_slice() else { panic!("one redis") };
    assert_eq!(redis_cli(server, &rule.line), "OK\n", "{rule}");
    connect(server, "?user=watcher&pass=PASSWORD&db=3")
}

fn must_allow(watcher: &mut Connection, config: &Config) {
    let mut all: Vec<Words> = config.tasks.iter().flat_map(commands_of).collect();
    let mut connecting = vec![
        "PING",
        "TIME",
        "ROLE",
        "INFO",
        "INFO replication",
        "ECHO nonce",
        "HELLO 2",
        "CLIENT SETNAME lockwatch",
        "AUTH watcher PASSWORD",
        "CLIENT TRACKING OFF",
    ];
    if config.redises[0].db != 0 {
        connecting.push("SELECT 3");
    }
    all.extend(connecting.into_iter().map(split));
    allows(watcher, all);
}

fn split(line: &str) -> Words {
    line.split(' ').map(|word| word.as_bytes().to_vec()).collect()
}

fn allows(watcher: &mut Connection, commands: Vec<Words>) {
    for command in commands {
        let answer = ask(watcher, &command);
        // Of a stream, unlike of all else, its absence is an error.
        let is_absent = |error: &redis::RedisError| error.to_string().ends_with("no such key");
        assert!(
            answer.is_ok() || answer.as_ref().is_err_and(is_absent),
            "{:?}: {answer:?}",
            command.iter().map(|word| word.escape_ascii().to_string()).collect::<Vec<_>>()
        );
    }
}

fn must_refuse(watcher: &mut Connection, lines: &[&str]) {
    for line in lines {
        let answer = ask(watcher, &split(line));
        assert!(is_refused(&answer), "{line}: {answer:?}");
    }
}

const WRITES_AND_WORSE: [&str; 22] = [
    "DEL outbound:lock",
    "UNLINK outbound:lock",
    "SET outbound:lock x",
    "HSET outbound:lock f v",
    "HINCRBY outbound:lock f 1",
    "PEXPIRE outbound:lock 1",
    "EXPIRE outbound:lock 1",
    "GETDEL outbound:lock",
    "GETEX outbound:lock",
    "HGETALL outbound:lock",
    "DUMP outbound:lock",
    "KEYS *",
    "SCAN 0",
    "EVAL return(1) 0",
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG GET *",
    "ACL LIST",
    "CLIENT LIST",
    "MONITOR",
    "SUBSCRIBE x",
    "PUBLISH x y",
];

#[test]
fn the_rule_allows_what_the_agent_sends_and_nothing_else() {
    let _rule = rule("15 read only");
    let config = hostile_config();
    let Some(server) =
        RedisServer::start("acl::the_rule_allows_what_the_agent_sends_and_nothing_else")
    else {
        return;
    };
    let mut watcher = watcher_of(&server, &config, ServerVersion::default());
    must_allow(&mut watcher, &config);
    must_refuse(&mut watcher, &WRITES_AND_WORSE);
    must_refuse(
        &mut watcher,
        &[
            "GETRANGE foreign 0 1",
            "HSCAN foreign 0",
            "PTTL outbound:lock:",
            "PTTL xoutbound:lock",
            "PTTL starx:[a-c]?:lock",
            "PTTL star*:a?:lock",
            "PTTL star*:[a-c]x:lock",
            "LLEN redisson_lock_queue:{other}",
            "EXISTS {outbound:lock}:anything",
        ],
    );
}

#[test]
fn the_rule_of_one_task_suffices_for_it() {
    let _rule = rule("15 read only");
    let Some(server) = RedisServer::start("acl::the_rule_of_one_task_suffices_for_it") else {
        return;
    };
    for task in hostile_config().tasks {
        let config = config(vec![TaskSpec::clone(&task)]);
        must_allow(&mut watcher_of(&server, &config, ServerVersion::default()), &config);
    }
}

#[test]
fn the_rule_for_older_servers_names_the_same_keys() {
    let config = hostile_config();
    let version: ServerVersion = "6.2".parse().unwrap();
    assert!(!rules(&config, version)[0].line.contains("%R~outbound"));
    let Some(server) = RedisServer::start("acl::the_rule_for_older_servers_names_the_same_keys")
    else {
        return;
    };
    let mut watcher = watcher_of(&server, &config, version);
    must_refuse(
        &mut watcher,
        &["GETRANGE foreign 0 1", "PEXPIRETIME outbound:lock", "SET outbound:lock x"],
    );
    let answer = ask(&mut watcher, &words(&[b"HSCAN", b"outbound:lock", b"0"]));
    assert!(answer.is_ok(), "{answer:?}");
}

#[test]
fn only_what_a_configuration_needs_is_allowed() {
    let text = "redis: {main: {url: 'redis://x', username: watcher}, idle: {url: 'redis://y'}}\n\
                tasks: [{name: a, redis: main, lock: {key: a, library: string}}]\n";
    let config = Config::parse(text, Path::new("x.yml")).unwrap();
    let lines: Vec<String> =
        rules(&config, "7.2".parse().unwrap()).into_iter().map(|rule| rule.line).collect();
    let connecting =
        "+auth +client|no-touch +client|setinfo +client|setname +client|tracking +echo";
    assert_eq!(
        lines,
        [
            format!(
                "ACL SETUSER lockwatch reset on >PASSWORD resetchannels -@all {connecting} +hello \
                 +info +pexpiretime +ping \
                 +pttl +role +subscribe +time \"&lockwatch:wake-ups\""
            ),
            format!(
                "ACL SETUSER watcher reset on >PASSWORD resetchannels -@all {connecting} \
                 +getrange +hello +info +pexpiretime \
                 +ping +pttl +role +subscribe +time %R~a \"&lockwatch:wake-ups\""
            ),
        ]
    );
}

#[test]
fn without_wake_ups_nothing_is_allowed_that_only_they_need() {
    let text =
        "redis: {main: {url: 'redis://x', wake_ups: false}}\ntasks: [{name: a, lock: {key: a}}]\n";
    let config = Config::parse(text, Path::new("x.yml")).unwrap();
    let rule = &rules(&config, ServerVersion::default())[0].line;
    for word in ["tracking", "subscribe", "lockwatch:wake-ups"] {
        assert!(!rule.contains(word), "{rule}");
    }
}

#[test]
fn the_rule_for_a_cluster_allows_to_ask_for_its_layout() {
    let test = "acl::the_rule_for_a_cluster_allows_to_ask_for_its_layout";
    let text = "redis: {main: {cluster: {nodes: [x]}, username: watcher}}\n\
        tasks: [{name: a, lock: {key: a}}]\n";
    let mut config = Config::parse(text, Path::new("x.yml")).unwrap();
    config.tasks = hostile_config().tasks;
    let Some(server) = RedisServer::start_with(test, &["--cluster-enabled", "yes"]) else { return };
    assert_eq!(server.cli(&["cluster", "addslotsrange", "0", "16383"]), "OK");
    wait_until(Duration::from_secs(20), "the cluster serves", || {
        server.cli(&["cluster", "info"]).starts_with("cluster_state:ok")
    });
    let rules = rules(&config, ServerVersion::default());
    let [rule] = rules.as_slice() else { panic!("one rule") };
    assert!(
        rule.notes[0]
            .contains("on each server: all servers of the cluster of x:6379, masters and replicas"),
        "{rule}"
    );
    assert_eq!(redis_cli(&server, &rule.line), "OK\n", "{rule}");
    let mut watcher = connect(&server, "?user=watcher&pass=PASSWORD");
    must_allow(&mut watcher, &config);
    let layout =
        [true, false].map(cluster::commands).into_iter().flatten().map(|command| command.args);
    allows(
        &mut watcher,
        layout.chain([split("READONLY"), split("PUBSUB SHARDNUMSUB x")]).collect(),
    );
    must_refuse(&mut watcher, &WRITES_AND_WORSE);
    must_refuse(
        &mut watcher,
        &[
            "CLUSTER NODES",
            "CLUSTER FAILOVER",
            "CLUSTER RESET",
            "CLUSTER DELSLOTS 1",
            "CLUSTER FORGET x",
            "READWRITE",
            "ASKING",
        ],
    );
    let before_7 = report(&config, "6.2".parse().unwrap());
    assert!(before_7.contains("+cluster|slots") && !before_7.contains("shard"), "{before_7}");
}

#[test]
fn the_rule_for_sentinels_allows_to_ask_who_is_master_and_nothing_else() {
    let test = "acl::the_rule_for_sentinels_allows_to_ask_who_is_master_and_nothing_else";
    if !RedisServer::can_start(test) {
        return;
    }
    let text = "redis: {main: {sentinel: {master: m, nodes: [x], username: watcher}}}\n\
                tasks: [{name: a, lock: {key: a}}]\n";
    let config = Config::parse(text, Path::new("x.yml")).unwrap();
    let rules = rules(&config, ServerVersion::default());
    let [servers, sentinels] = rules.as_slice() else { panic!("two rules") };
    assert!(
        servers.notes[0].contains("on each server: the master \"m\" and all its replicas"),
        "{servers}"
    );
    assert!(servers.line.starts_with("ACL SETUSER lockwatch "), "{servers}");
    assert!(sentinels.notes[0].contains("on each of x:26379"), "{sentinels}");
    // This Sentinel need not reach the master to be queried about it.
    let lines = vec!["sentinel monitor m 127.0.0.1 1 1".to_owned()];
    let server = RedisServer::launch(|_port| Setup {
        arguments: vec!["--sentinel".to_owned()],
        lines: Some(lines.clone()),
        password: None,
        tls: Vec::new(),
        program: None,
    });
    assert_eq!(redis_cli(&server, &sentinels.line), "OK\n", "{sentinels}");
    let mut watcher = connect(&server, "?user=watcher&pass=PASSWORD");
    let mut commands: Vec<Words> =
        sentinel::commands("m").into_iter().map(|command| command.args).collect();
    commands.extend(
        ["PING", "HELLO 2", "CLIENT SETNAME lockwatch", "AUTH watcher PASSWORD"].map(split),
    );
    allows(&mut watcher, commands);
    must_refuse(
        &mut watcher,
        &[
            "SENTINEL MASTERS",
            "SENTINEL FAILOVER m",
            "SENTINEL RESET m",
            "SENTINEL REMOVE m",
            "SENTINEL SET m quorum 9",
            "SENTINEL CONFIG GET *",
            "SUBSCRIBE +sdown",
            "PSUBSCRIBE *",
            "PUBLISH +switch-master x",
            "ACL LIST",
            "CLIENT LIST",
            "CLIENT KILL x",
            "SHUTDOWN",
        ],
    );
    allows(&mut watcher, vec![split("SUBSCRIBE +switch-master")]);
    // Sentinels before 6.2 have no users, so there is no rule for them.
    let report = report(&config, "6".parse().unwrap());
    assert!(
        report.contains("# Sentinels before 6.2 know no users")
            && !report.contains("switch-master"),
        "{report}"
    );
}

/// ZooKeeper has no line for a user: each node names its users. Exactly those that are read.
#[test]
fn an_ensemble_gets_a_line_for_each_node_that_is_read() {
    let text = "redis: {main: {url: 'redis://a'}}
zookeeper: {zk: {servers: [a, b], auth_file: login}, open: {servers: [c]}}
tasks:
  - {name: a, zookeeper: zk, lock: {path: /a}, wanted: {children: /users}, progress: {children: /jobs}, hosts: {children: /hosts}}
  - {name: b, zookeeper: zk, turn: {path: /turn}, wanted: {paths: [/on b]}}
  - {name: c, zookeeper: zk, turn: {children: /turns, tasks: [a, b]}, wanted: {names: /users}}
  - {name: d, zookeeper: open, lock: {path: /d}, claims: {children: /claims}, paused_until: {path: /p}}
  - {name: e, redis: main, lock: {key: e}}
";
    let text = text.replace("turn: {path: /turn}", "turn: {path: /turn, tasks: [a, b]}");
    let config = Config::parse(&text, Path::new("lockwatch.yml")).unwrap();
    let report = report(&config, ServerVersion::default());
    let after = |words: &str| {
        let (_, rest) = report.split_once(words).unwrap_or_else(|| panic!("{report}"));
        let lines = rest.lines().take_while(|line| !line.is_empty());
        let commands = lines.clone().filter(|line| line.starts_with("setAcl "));
        let deep = lines.filter_map(|line| line.strip_suffix(" and its children:"));
        (
            commands.map(str::to_owned).collect::<Vec<_>>().join("\n"),
            deep.map(|line| line.trim_start_matches("# ").to_owned()).collect::<Vec<_>>().join(" "),
        )
    };
    let (commands, deep) = after("zookeeper \"zk\" at a:2181, b:2181: ");
    let paths = ["/a", "/hosts", "/jobs", "\"/on b\"", "/turn", "/turns", "/users"];
    let expected = paths.map(|path| format!("setAcl {path} EXISTING,digest:USER:HASH:r"));
    assert_eq!(commands, expected.join("\n"), "{report}");
    assert_eq!(deep, "/a /hosts /turns /users", "{report}");
    let (commands, deep) = after("zookeeper \"open\" at c:2181: ");
    let expected =
        ["/claims", "/d", "/p"].map(|path| format!("setAcl {path} EXISTING,world:anyone:r"));
    assert_eq!((commands, &*deep), (expected.join("\n"), "/claims /d"), "{report}");
    assert_eq!(rules(&config, ServerVersion::default()).len(), 1, "Redis has its own");
}
