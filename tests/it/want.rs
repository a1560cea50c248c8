//! `lockwatch want` as a user types it, with real servers: every form of switches, what is refused,
//! every topology, and the rights that its user needs.

use std::fs;
use std::process::Stdio;
use std::thread;

use lockwatch::commands::acl::{ServerVersion, report};
use lockwatch::config::Config;
use redis::{ErrorKind, ServerErrorKind};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::acl::redis_cli;
use crate::support::agent::program;
use crate::support::cluster::Cluster;
use crate::support::free_port;
use crate::support::network::Options;
use crate::support::redis::{RedisServer, Setup, VALKEY_9};
use crate::support::redisson::Redisson;
use crate::support::replicas::Replicated;
use crate::support::sentinels::{MASTER, SentinelOptions, Sentinels};
use crate::support::skip;

/// One configuration, and the program with it.
struct Desk {
    folder: TempDir,
}

/// What the program said.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Desk {
    /// `redis`: the fields of the store; `tasks`: the `wanted` of each task by its name.
    fn new(redis: &str, tasks: &[(&str, &str)]) -> Desk {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("lockwatch.yml"), configuration(redis, tasks)).unwrap();
        Desk { folder }
    }

    fn at(server: &RedisServer, tasks: &[(&str, &str)]) -> Desk {
        Desk::new(&format!("url: 'redis://{}', want: {{}}", server.address()), tasks)
    }

    fn run(&self, line: &str) -> Said {
        let output = program()
            .arg("want")
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// What it says when it did what was asked.
    #[track_caller]
    fn output(&self, line: &str) -> String {
        let said = self.run(line);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "{line}: {said:?}");
        said.out.trim_end().to_owned()
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.output(&format!("{line} --output json"))).unwrap()
    }

    /// What it says when it refuses with this exit code.
    #[track_caller]
    fn refusal(&self, code: i32, line: &str) -> String {
        let said = self.run(line);
        assert_eq!((said.code, said.out.as_str()), (Some(code), ""), "{line}: {said:?}");
        said.err
    }
}

fn configuration(redis: &str, tasks: &[(&str, &str)]) -> String {
    let task = |(name, wanted): &(&str, &str)| {
        let wanted = if wanted.is_empty() { String::new() } else { format!(", wanted: {wanted}") };
        format!("  - {{name: {name}, lock: {{key: '{name}:lock'}}{wanted}}}\n")
    };
    let tasks: String = tasks.iter().map(task).collect();
    format!("redis: {{main: {{{redis}}}}}\ntasks:\n{tasks}")
}

fn start(test: &str) -> Option<RedisServer> {
    RedisServer::start(&format!("want::{test}"))
}

#[test]
fn a_hash_keeps_its_fields_and_their_form() {
    let Some(server) = start("a_hash_keeps_its_fields_and_their_form") else { return };
    let desk = Desk::at(&server, &[("outbound", "{hash: users}")]);
    assert_eq!(
        desk.output("outbound on --user anna"),
        "anna wants outbound now. Nobody else does. It is wanted, so it must run."
    );
    assert_eq!(server.cli(&["hget", "users", "anna"]), "true");
    server.cli(&["hset", "users", "bert", "1", "carl", "0"]);
    assert_eq!(
        desk.output("outbound off --user anna"),
        "anna does not want outbound any more. Still wanted by: bert. It is wanted, so it must run."
    );
    assert_eq!(server.cli(&["hget", "users", "anna"]), "false");
    assert_eq!(
        desk.output("outbound off --user bert"),
        "bert does not want outbound any more. Nobody wants it now: it is to stop."
    );
    assert_eq!(server.cli(&["hget", "users", "bert"]), "0", "in its own form");
    assert_eq!(
        desk.output("outbound off --user dora"),
        "dora does not want outbound anyway, so nothing was changed. Nobody wants it."
    );
    assert_eq!(server.cli(&["hlen", "users"]), "3");
    assert_eq!(
        desk.output("outbound on --user carl"),
        "carl wants outbound now. Nobody else does. It is wanted, so it must run."
    );
    assert_eq!(server.cli(&["hget", "users", "carl"]), "1");
    assert_eq!(
        desk.output("outbound on --user carl"),
        "carl wants outbound already, so nothing was changed. Nobody else does. It is wanted, so \
         it must run."
    );
    assert_eq!(
        desk.output("outbound status"),
        "outbound: the hash users of redis main, codec raw\n  anna  off\n  bert  off\n  carl  \
         on\nWanted by: carl. It is wanted, so it must run."
    );
    let answer = desk.json("outbound status --user bert");
    assert_eq!((&answer["user"], &answer["wanted"]), (&json!("bert"), &json!("yes")));
    assert_eq!(answer["users"][2], json!({"user": "carl", "switch": "on"}));
}

#[test]
fn a_set_has_only_those_who_want_it() {
    let Some(server) = start("a_set_has_only_those_who_want_it") else { return };
    let desk = Desk::at(&server, &[("outbound", "{set: users}")]);
    server.cli(&["sadd", "users", "bert"]);
    assert_eq!(
        desk.output("outbound on --user anna"),
        "anna wants outbound now. Also wanted by: bert. It is wanted, so it must run."
    );
    assert_eq!(server.cli(&["sismember", "users", "anna"]), "1");
    desk.output("outbound off --user bert");
    assert_eq!(
        desk.output("outbound off --user anna"),
        "anna does not want outbound any more. Nobody wants it now: it is to stop."
    );
    assert_eq!(server.cli(&["exists", "users"]), "0");
}

#[test]
fn a_key_belongs_to_the_user_whose_name_ends_it() {
    let Some(server) = start("a_key_belongs_to_the_user_whose_name_ends_it") else { return };
    let keys = "{keys: ['outbound:anna', 'outbound:bert'], codec: json}";
    let desk = Desk::at(&server, &[("outbound", keys)]);
    server.cli(&["set", "outbound:bert", "\"ON\""]);
    assert_eq!(
        desk.output("outbound on --user anna"),
        "anna wants outbound now. Also wanted by: bert. It is wanted, so it must run."
    );
    assert_eq!(server.cli(&["get", "outbound:anna"]), "\"ON\"");
    desk.output("outbound off --user outbound:anna");
    assert_eq!(server.cli(&["get", "outbound:anna"]), "\"OFF\"");
    let answer = desk.refusal(2, "outbound on --user carl");
    assert!(
        answer.contains("There are outbound:anna, outbound:bert; name one of them"),
        "{answer}"
    );
    // A key that is no switch makes one user unknown, and is not overwritten.
    server.cli(&["del", "outbound:anna"]);
    server.cli(&["rpush", "outbound:anna", "x"]);
    let answer = desk.refusal(1, "outbound on --user anna");
    assert!(answer.contains("outbound:anna is no string"), "{answer}");
    assert_eq!(server.cli(&["type", "outbound:anna"]), "list");
    let answer = desk.output("outbound off --user bert");
    assert!(answer.ends_with("cannot be read: anna. Whether it is wanted is unknown."), "{answer}");
}

/// The real Redisson writes, lockwatch turns it, and Redisson reads it.
/// "On for an hour" that is switched off and on again ends when it would have ended. Only a user
/// with a TTL has one.
#[test]
fn the_ttl_of_a_field_or_key_stays() {
    let test = "want::the_ttl_of_a_field_or_key_stays";
    if !VALKEY_9.program().is_file() {
        return skip::say(test, &VALKEY_9.program().display().to_string());
    }
    if !RedisServer::can_start(test) {
        return;
    }
    let server = RedisServer::launch(|_port| Setup {
        program: Some(VALKEY_9.program()),
        ..Setup::default()
    });
    let desk =
        Desk::at(&server, &[("outbound", "{hash: users}"), ("inbound", "{keys: ['in:anna']}")]);
    server.cli(&["hset", "users", "anna", "1", "bert", "1"]);
    server.cli(&["hpexpire", "users", "600000", "fields", "1", "anna"]);
    server.cli(&["set", "in:anna", "1", "px", "600000"]);
    let end = server.cli(&["hpexpiretime", "users", "fields", "1", "anna"]);
    for wish in ["off", "on"] {
        for user in ["anna", "bert"] {
            desk.output(&format!("outbound {wish} --user {user}"));
        }
        desk.output(&format!("inbound {wish} --user anna"));
        let fields = ["hpexpiretime", "users", "fields", "2", "anna", "bert"];
        assert_eq!(server.cli(&fields), format!("{end}\n-1"), "{wish}");
        let left: i64 = server.cli(&["pttl", "in:anna"]).parse().unwrap();
        assert!((500_000..=600_000).contains(&left), "{wish}: {left}");
    }
}

#[test]
fn what_redisson_wrote_is_turned_and_read_by_redisson() {
    let test = "want::what_redisson_wrote_is_turned_and_read_by_redisson";
    let Some(server) = RedisServer::start(test) else { return };
    let Some(mut redisson) = Redisson::start(test) else { return };
    redisson.run(&format!("connect c1 port={}", server.port));
    for codec in ["kryo5", "jdk", "json"] {
        for fields in [codec, "raw"] {
            let key = format!("users:{codec}:{fields}");
            let desk =
                Desk::at(&server, &[("outbound", &format!("{{hash: '{key}', codec: {codec}}}"))]);
            let by = format!("{codec} field_codec={fields}");
            redisson.run(&format!("map-put c1 {key} bert bool false {by}"));
            redisson.run(&format!("map-put c1 {key} carl int 1 {by}"));
            redisson.run(&format!("map-put c1 {key} dora string off {by}"));
            desk.output("outbound on --user anna");
            desk.output("outbound on --user bert");
            desk.output("outbound off --user carl");
            desk.output("outbound on --user dora");
            let mut read = |user: &str| {
                let answer = redisson.run(&format!("map-get c1 {key} {user} {by}"));
                (answer["type"].as_str().unwrap().to_owned(), answer["value"].clone())
            };
            let expected = |kind: &str, value: &str| (kind.to_owned(), json!(value));
            assert_eq!(read("anna"), expected("Integer", "1"), "{by}: as another one is on");
            assert_eq!(read("bert"), expected("Boolean", "true"), "{by}");
            assert_eq!(read("carl"), expected("Integer", "0"), "{by}");
            assert_eq!(read("dora"), expected("String", "on"), "{by}");
            assert_eq!(server.cli(&["hlen", &key]), "4", "{by}: no user has two switches");
        }
        let key = format!("first:{codec}");
        let desk =
            Desk::at(&server, &[("outbound", &format!("{{hash: '{key}', codec: {codec}}}"))]);
        desk.output("outbound on --user wärm🔒");
        let answer = redisson.run(&format!("map-get c1 {key} wärm🔒 {codec}"));
        assert_eq!((&answer["type"], &answer["value"]), (&json!("Boolean"), &json!("true")));
        let key = format!("set:{codec}");
        redisson.run(&format!("set-add c1 {key} string bert {codec}"));
        let desk = Desk::at(&server, &[("outbound", &format!("{{set: '{key}', codec: {codec}}}"))]);
        desk.output("outbound on --user anna");
        redisson.run(&format!("set-add c1 {key} string anna {codec}"));
        assert_eq!(server.cli(&["scard", &key]), "2", "{codec}: the same member");
        desk.output("outbound off --user bert");
        let answer = desk.json("outbound status");
        assert_eq!(answer["users"], json!([{"user": "anna", "switch": "on"}]), "{codec}");
    }
}

#[test]
fn what_the_program_would_not_read_is_not_written() {
    let Some(server) = start("what_the_program_would_not_read_is_not_written") else { return };
    let tasks = [("raw", "{hash: users}"), ("json", "{hash: odd, codec: json}")];
    let desk = Desk::at(&server, &tasks);
    server.cli(&["eval", "redis.call('hset', KEYS[1], 'bert', '\\5\\1')", "1", "users"]);
    let answer = desk.refusal(1, "raw on --user anna");
    assert!(answer.contains("write `codec: kryo5` beside the key"), "{answer}");
    assert_eq!(server.cli(&["hlen", "users"]), "1");
    assert!(
        desk.output("raw status").contains("bert  undecodable: \\x05\\x01 (a value of the codec")
    );
    server.cli(&["hset", "odd", "bert", "yo", "\"carl\"", "true"]);
    let answer = desk.refusal(1, "json on --user anna");
    assert!(answer.contains("more than one way (json, plain)"), "{answer}");
    desk.output("json on --user bert");
    assert_eq!(server.cli(&["hget", "odd", "bert"]), "true", "another switch shows how");
}

#[test]
fn a_refusal_names_what_to_mend() {
    let Some(server) = start("a_refusal_names_what_to_mend") else { return };
    let tasks = [
        ("outbound", "{hash: users}"),
        ("members", "{set: users}"),
        ("counted", "{counter: count}"),
        ("leader", "always"),
        ("retired", "never"),
        ("bare", ""),
    ];
    let desk = Desk::at(&server, &tasks);
    server.cli(&["hset", "users", "anna", "1"]);
    for (code, line, answer) in [
        (
            1,
            "members on --user anna",
            "users is configured as a set of switches, but holds a hash; \
          correct the key in `wanted`, or write the form that it has",
        ),
        (2, "counted on --user anna", "a count has no users"),
        (2, "counted status", "a count has no users"),
        (2, "leader off --user anna", "`wanted: always` says that it is to run at all times"),
        (2, "retired on --user anna", "`wanted: never` says that nobody wants it"),
        (2, "bare on --user anna", "it has no `wanted`"),
        (2, "outbond on --user anna", "There is no task called outbond; did you mean outbound?"),
        (2, "outbound on", "Name the user with --user"),
        (2, "outbound on --user=", "--user is empty"),
        (2, "outbound maybe --user anna", "[possible values: on, off, status]"),
        (2, "outbound on --user anna --config.file absent.yml", "absent.yml: does not exist"),
    ] {
        let said = desk.refusal(code, line);
        assert!(said.contains(answer), "{line}: {said}");
    }
    let reads_only = Desk::new(&format!("url: 'redis://{}'", server.address()), &tasks);
    let answer = reads_only.refusal(2, "outbound on --user anna");
    assert!(
        answer
            .contains("      want: {username: lockwatch-want, password_file: /run/secrets/want}\n"),
        "{answer}"
    );
    assert!(reads_only.output("outbound status").contains("Wanted by: anna."));
    let password = Desk::new(
        &format!("url: 'redis://{}', want: {{password_file: absent}}", server.address()),
        &tasks,
    );
    let answer = password.refusal(2, "outbound on --user anna");
    assert!(answer.contains("there is no password for redis main: cannot read"), "{answer}");
    let wrong = "want: {username: nobody, password_file: lockwatch.yml}";
    let login = Desk::new(&format!("url: 'redis://{}', {wrong}", server.address()), &tasks);
    assert!(login.refusal(1, "outbound on --user anna").contains("WRONGPASS"));
    let nowhere = format!("url: 'redis://127.0.0.1:{}', want: {{}}", free_port());
    let answer = Desk::new(&nowhere, &tasks).refusal(69, "outbound on --user anna");
    assert!(answer.contains("cannot reach redis at 127.0.0.1:"), "{answer}");
    assert_eq!(server.cli(&["hgetall", "users"]), "anna\n1");
}

#[test]
fn hostile_names_are_escaped_and_kept() {
    let Some(server) = start("hostile_names_are_escaped_and_kept") else { return };
    let desk = Desk::at(&server, &[("outbound", "{hash: users}")]);
    let user = "a\u{1b}[2J\u{202e}";
    let answer = desk.output(&format!("outbound on --user {user}"));
    assert!(answer.starts_with(r"a\x1b[2J\xe2\x80\xae wants outbound now."), "{answer}");
    assert_eq!(server.cli(&["hget", "users", user]), "true");
}

#[test]
fn users_who_switch_at_the_same_time_keep_their_switches() {
    let Some(server) = start("users_who_switch_at_the_same_time_keep_their_switches") else {
        return;
    };
    let desk = Desk::at(&server, &[("outbound", "{hash: users}"), ("inbound", "{set: members}")]);
    thread::scope(|scope| {
        for number in 0..8 {
            let desk = &desk;
            scope.spawn(move || {
                for task in ["outbound", "inbound"] {
                    desk.output(&format!("{task} on --user user{number}"));
                    desk.output(&format!("{task} off --user user{number}"));
                    desk.output(&format!("{task} on --user user{number}"));
                }
            });
        }
    });
    for number in 0..8 {
        let user = format!("user{number}");
        assert_eq!(server.cli(&["hget", "users", &user]), "true");
        assert_eq!(server.cli(&["sismember", "members", &user]), "1");
    }
}

/// More than one step of a scan shows.
#[test]
fn a_user_among_thousands_is_asked_for_by_name() {
    let Some(server) = start("a_user_among_thousands_is_asked_for_by_name") else { return };
    let desk = Desk::at(&server, &[("outbound", "{hash: users}"), ("inbound", "{set: members}")]);
    let fill = "for n = 1, 5000 do redis.call('hset', KEYS[1], 'user' .. n, '0'); \
        redis.call('sadd', KEYS[2], 'user' .. n) end";
    server.cli(&["eval", fill, "2", "users", "members"]);
    for number in [1, 2_500, 5_000] {
        let answer = desk.output(&format!("outbound on --user user{number}"));
        assert!(answer.contains("There are more users than the"), "{answer}");
        assert_eq!(server.cli(&["hget", "users", &format!("user{number}")]), "1");
        let answer = desk.output(&format!("inbound on --user user{number}"));
        assert!(answer.contains("already, so nothing was changed"), "{answer}");
        desk.output(&format!("inbound off --user user{number}"));
    }
    assert_eq!(server.cli(&["hlen", "users"]), "5000");
    assert_eq!(server.cli(&["scard", "members"]), "4997");
}

#[test]
fn a_replica_is_not_written_to() {
    let test = "want::a_replica_is_not_written_to";
    let Some(replicated) = Replicated::start(test, 1, &Options::default()) else { return };
    let tasks = [("outbound", "{hash: users}")];
    let replica = Desk::at(replicated.server(1), &tasks);
    let answer = replica.refusal(1, "outbound on --user anna");
    assert!(answer.contains("is a read-only replica: writes go to its master"), "{answer}");
    let [master, other] =
        [0, 1].map(|index| format!("'redis://{}'", replicated.server(index).address()));
    let both = Desk::new(&format!("nodes: [{other}, {master}], want: {{}}"), &tasks);
    both.output("outbound on --user anna");
    assert_eq!(replicated.server(0).cli(&["hget", "users", "anna"]), "true");
    replicated.promote(1);
    let answer = both.refusal(1, "outbound off --user anna");
    assert!(answer.contains("both say that they are master"), "{answer}");
}

#[test]
fn the_sentinels_name_the_master() {
    let test = "want::the_sentinels_name_the_master";
    let options = SentinelOptions {
        servers: Options { password: Some("one"), ..Options::default() },
        password: Some("two"),
        ..SentinelOptions::default()
    };
    let Some(sentinels) = Sentinels::start(test, &options) else { return };
    let redis = |master: &str| {
        format!(
            "sentinel: {{master: {master}, nodes: ['{}'], password_file: two}}, \
             password_file: one, want: {{password_file: one}}",
            sentinels.addresses().join("', '")
        )
    };
    let desk = |master: &str| {
        let desk = Desk::new(&redis(master), &[("outbound", "{set: users}")]);
        for word in ["one", "two"] {
            fs::write(desk.folder.path().join(word), word).unwrap();
        }
        desk
    };
    desk(MASTER).output("outbound on --user anna");
    assert_eq!(sentinels.server(0).cli(&["smembers", "users"]), "anna");
    let answer = desk("other").refusal(1, "outbound on --user anna");
    assert!(answer.contains("know no master called other"), "{answer}");
}

#[test]
fn the_master_of_the_slot_is_written_to() {
    let test = "want::the_master_of_the_slot_is_written_to";
    let Some(cluster) = Cluster::start(test, 0, &Options::default()) else { return };
    let tasks = [("outbound", "{hash: users}"), ("inbound", "{keys: ['{in}:anna', '{in}:bert']}")];
    let nodes = cluster.addresses().join("', '");
    let desk = Desk::new(&format!("cluster: {{nodes: ['{nodes}']}}, want: {{}}"), &tasks);
    desk.output("outbound on --user anna");
    assert_eq!(cluster.cli("users", &["hget", "users", "anna"]), "true");
    desk.output("inbound on --user bert");
    assert_eq!(cluster.cli("{in}:bert", &["get", "{in}:bert"]), "true");
    let (slot, owner) = (cluster.slot("users"), cluster.owner("users"));
    let to = (owner + 1) % 3;
    cluster.begin_move(slot, to);
    while cluster.move_keys(slot, to) > 0 {}
    let answer = desk.refusal(1, "outbound off --user anna");
    assert!(answer.contains("is moving the slot of users"), "{answer}");
    cluster.end_move(slot, to);
    desk.output("outbound off --user anna");
    assert_eq!(cluster.node(to).cli(&["hget", "users", "anna"]), "false");
    // Servers that send each other the key are not asked forever.
    let [wrong, right] = [owner, to].map(|node| cluster.members[node].announced());
    let astray = format!(
        "cluster: {{nodes: ['{wrong}'], announce_map: {{'{right}': '{wrong}'}}}}, want: {{}}"
    );
    let answer = Desk::new(&astray, &tasks).refusal(1, "outbound on --user anna");
    assert!(answer.contains("goes on moving the key"), "{answer}");
    // Configured as if it were alone, the wrong server says so.
    let alone = Desk::at(cluster.node(owner), &tasks);
    let answer = alone.refusal(1, "outbound on --user anna");
    assert!(answer.contains("belongs to a cluster and refuses the key"), "{answer}");
}

/// With the agent's rule and the one for switching everything works, and nothing else is allowed.
#[test]
fn the_rules_of_acl_suffice_and_allow_nothing_else() {
    let Some(server) = start("the_rules_of_acl_suffice_and_allow_nothing_else") else { return };
    let redis = format!(
        "url: 'redis://{}/3', username: watcher, password_file: pw, want: {{username: switcher, \
         password_file: pw}}",
        server.address()
    );
    let tasks = [
        ("outbound", "{hash: 'out* users'}"),
        ("inbound", "{set: members}"),
        ("cleaner", "{keys: ['cleaner:anna', 'cleaner:bert']}"),
    ];
    let desk = Desk::new(&redis, &tasks);
    fs::write(desk.folder.path().join("pw"), "PASSWORD").unwrap();
    let config =
        Config::parse(&configuration(&redis, &tasks), &desk.folder.path().join("lockwatch.yml"));
    let report = report(&config.unwrap(), ServerVersion::default());
    assert!(report.contains("# for `lockwatch want`, redis \"main\" at "), "{report}");
    for line in report.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        assert_eq!(redis_cli(&server, line), "OK\n", "{line}");
    }
    server.cli(&["acl", "log", "reset"]);
    for task in ["outbound", "inbound", "cleaner"] {
        desk.output(&format!("{task} on --user anna"));
        assert!(desk.output(&format!("{task} status")).contains("Wanted by: anna."));
        desk.output(&format!("{task} off --user anna"));
    }
    server.cli(&["-n", "3", "set", "members", "x"]);
    let answer = desk.refusal(1, "inbound on --user anna");
    assert!(answer.contains("but holds a string"), "{answer}");
    let log = server.cli(&["acl", "log"]);
    assert!(!log.contains("switcher"), "the rule lacks nothing: {log}");

    let url =
        format!("redis+unix://{}?user=switcher&pass=PASSWORD&db=3", server.socket().display());
    let mut switcher = redis::Client::open(url).unwrap().get_connection().unwrap();
    for line in [
        "SET outbound:lock x",
        "HSET outbound:lock f v",
        "SADD members2 anna",
        "DEL members",
        "HDEL members anna",
        "EXPIRE members 1",
        "RENAME members other",
        "SET cleaner:carl 1",
        "GETRANGE outbound:lock 0 1",
        "HGETALL members",
        "KEYS *",
        "SCAN 0",
        "FLUSHALL",
        "EVAL return(1) 0",
        "CONFIG GET *",
        "PUBLISH x y",
    ] {
        let mut command = redis::Cmd::new();
        for word in line.split(' ') {
            command.arg(word);
        }
        let answer = command.query::<redis::Value>(&mut switcher);
        let denied = ErrorKind::Server(ServerErrorKind::NoPerm);
        assert!(answer.as_ref().is_err_and(|error| error.kind() == denied), "{line}: {answer:?}");
    }
    server.cli(&["acl", "setuser", "switcher", "-hset"]);
    let answer = desk.refusal(1, "outbound on --user anna");
    assert!(
        answer.contains("the user switcher may not do that")
            && answer.contains("the rule that `lockwatch acl` prints"),
        "{answer}"
    );
}
