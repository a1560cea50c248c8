//! docs/openapi.json is accurate: every answer of the real program matches it, and every property
//! in it occurs. A unit test of `src/api/tests/openapi.rs` holds it to the code.

use crate::support::PATIENCE;
use std::collections::{BTreeMap, BTreeSet};

use lockwatch_judge::verdict::Verdict;
use serde_json::{Value, json};

use super::schema::Schemas;
use crate::support::agent::Agent;
use crate::support::redis::{RedisServer, Setup};
use crate::support::view::View;
use crate::support::zookeeper;

const TEXT: &str = include_str!("../../../docs/openapi.json");

/// Paths whose answers are compared: as documented, and as requested.
const ASKED: [(&str, &str); 6] = [
    ("/api/v1/tasks", "/api/v1/tasks"),
    ("/api/v1/tasks/{name}", "/api/v1/tasks/outbound"),
    ("/api/v1/tasks/{name}/explain", "/api/v1/tasks/outbound/explain"),
    ("/api/v1/drill", "/api/v1/drill"),
    ("/api/v1/events", "/api/v1/events"),
    ("/api/v1/openapi.json", "/api/v1/openapi.json"),
];

fn document() -> Value {
    serde_json::from_str(TEXT).unwrap()
}

/// The schema of an answer.
fn answer<'a>(document: &'a Value, path: &str, status: u16) -> &'a Value {
    let response = &document["paths"][path]["get"]["responses"][status.to_string()];
    let schema = &response["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{path}: {status} is not documented");
    schema
}

#[test]
fn every_path_is_documented() {
    let document = document();
    let documented: BTreeSet<&str> =
        document["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    let routes = include_str!("../../../src/paths.rs");
    let literals =
        routes.split('"').filter(|text| text.starts_with("/api/v1/") && !text.contains('\n'));
    let fixed: BTreeSet<&str> =
        literals.filter(|path| !path.ends_with('/') && !path.contains("tasks/")).collect();
    let named = [
        "/api/v1/drill/{id}",
        "/api/v1/tasks/{name}",
        "/api/v1/tasks/{name}/explain",
        "/api/v1/tasks/{name}/want",
    ];
    assert_eq!(documented, fixed.into_iter().chain(named).collect());
}

/// All documented parameters by name; `label.team` for each label.
fn parameters(document: &Value, path: &str) -> BTreeMap<String, String> {
    let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
    let in_query = parameters.iter().filter(|parameter| parameter["in"] == "query");
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => {
            values.iter().map(|value| value.as_str().unwrap()).collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    };
    let examples = in_query.flat_map(|parameter| match &parameter["example"] {
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), text(value))).collect()
        }
        value => vec![(parameter["name"].as_str().unwrap().to_owned(), text(value))],
    });
    examples.collect()
}

#[test]
fn every_answer_of_the_real_program_fits() {
    let test = "api::document::every_answer_of_the_real_program_fits";
    let Some(stage) = Stage::open(test) else { return };
    let document = document();
    let mut schemas = Schemas::new(&document);
    let start = json!({"task": "outbound", "severity": "warning", "seconds": 60, "after": "x-1"});
    let begun = stage.agent.post_json("/api/v1/drill", "", &start.to_string());
    assert_eq!(begun.status, 201, "{}", begun.text());
    let operation = &document["paths"]["/api/v1/drill"]["post"];
    let of = |schema: &'static str| operation.pointer(schema).unwrap();
    schemas.check(of("/requestBody/content/application~1json/schema"), &start, "start");
    let begun: Value = serde_json::from_slice(&begun.body).unwrap();
    schemas.check(of("/responses/201/content/application~1json/schema"), &begun, "begun");
    for (path, asked) in ASKED {
        let reported = stage.json(asked, 200);
        schemas.check(answer(&document, path, 200), &reported, path);
    }
    for task in stage.agent.view().json["tasks"].as_array().unwrap() {
        let reported =
            stage.json(&format!("/api/v1/tasks/{}", task["name"].as_str().unwrap()), 200);
        schemas.check(answer(&document, "/api/v1/tasks/{name}", 200), &reported, "one task");
        let explained =
            stage.json(&format!("/api/v1/tasks/{}/explain", task["name"].as_str().unwrap()), 200);
        schemas.check(answer(&document, "/api/v1/tasks/{name}/explain", 200), &explained, "why");
    }
    let Some(queue) = a_queue_in_zookeeper(test) else { return };
    schemas.check(answer(&document, "/api/v1/tasks/{name}", 200), &queue, "a queue");
    let view = stage.agent.view();
    let verdicts: BTreeSet<&str> = view.json["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["verdict"].as_str().unwrap())
        .collect();
    assert_eq!(
        verdicts,
        Verdict::ALL.map(Verdict::name).into_iter().collect(),
        "each verdict was among the answers"
    );

    for (path, asked) in ASKED {
        let parameters = parameters(&document, path);
        for (name, example) in &parameters {
            stage.json(&format!("{asked}?{name}={example}"), 200);
        }
        let refused = stage.json(&format!("{asked}?nonsense=1"), 400);
        schemas.check(answer(&document, path, 400), &refused, path);
        let allowed: BTreeSet<String> = serde_json::from_value(refused["allowed"].clone()).unwrap();
        assert_eq!(allowed, parameters.into_keys().collect(), "{path}");
    }
    let missing = stage.json("/api/v1/tasks/none", 404);
    schemas.check(answer(&document, "/api/v1/tasks/{name}", 404), &missing, "404");

    assert_eq!(schemas.present, schemas.properties(), "what is documented is there");
    let only_null: Vec<&String> = schemas.present.difference(&schemas.reported).collect();
    assert_eq!(only_null, NEVER_HERE);
}

/// The answer about a lock with a queue.
fn a_queue_in_zookeeper(test: &str) -> Option<Value> {
    let ensemble = zookeeper::Ensemble::start(test, zookeeper::Setup::of(1))?;
    let mut kazoo = zookeeper::Clients::kazoo(test, &ensemble)?;
    kazoo.session("one", 10_000);
    kazoo.run_command("take one first lock /lock web-1");
    kazoo.event("held", "first");
    let task = "tasks: [{name: lock, zookeeper: zk, lock: {path: /lock, library: kazoo}}]\n";
    let agent = Agent::start(&format!("{}{task}", ensemble.config("")));
    agent.until_view(PATIENCE, "held", |view| view.held("lock") == Some(1.0));
    serde_json::from_slice(&agent.get("/api/v1/tasks/lock").body).ok()
}

/// Properties that stay `null` on this stage: they need a login, an untrusted server, one that
/// refuses writes, or two masters. Other tests build those by hand.
const NEVER_HERE: [&str; 5] =
    ["Drill.by", "ExplainedExchange.refused", "Node.refuses_writes", "Party.host", "Party.node"];

/// A Redis server, one with a replica and three Sentinels of which one is dead, an unreachable one,
/// and an agent that has seen many situations.
struct Stage {
    agent: Agent,
    server: RedisServer,
    _others: Vec<RedisServer>,
}

impl Stage {
    fn open(test: &str) -> Option<Stage> {
        let server = RedisServer::start(test)?;
        let master = RedisServer::start(test)?;
        let following = vec![format!("replicaof 127.0.0.1 {}", master.port)];
        let replica = RedisServer::launch(|_port| Setup {
            lines: Some(following.clone()),
            ..Setup::default()
        });
        let watching = vec![format!("sentinel monitor shop 127.0.0.1 {} 1", master.port)];
        let sentinel = |_port| Setup {
            arguments: vec![String::from("--sentinel")],
            lines: Some(watching.clone()),
            ..Setup::default()
        };
        let sentinels = [RedisServer::launch(sentinel), RedisServer::launch(sentinel)];
        set_up(&server, &master);
        let agent = Agent::start(&config(&server, &sentinels));
        let [one, other] = sentinels;
        let stage = Stage { agent, server, _others: vec![master, replica, one, other] };
        stage.play();
        Some(stage)
    }

    /// Causes every situation that leaves a trace.
    fn play(&self) {
        let server = &self.server;
        let until = |what: &str, condition: &mut dyn FnMut(&View) -> bool| {
            self.agent.until_view(PATIENCE * 2, what, condition);
        };
        until("both are read", &mut |view| {
            view.held("outbound") == Some(1.0)
                && view.held("relay") == Some(1.0)
                && view.held("till") == Some(1.0)
        });
        // A renewal, then an expired lease and a takeover.
        server.cli(&["PEXPIRE", "outbound:lock", "60000"]);
        // In one step, by another holder: a lease that is shortened is an end that was set.
        let crashes = "redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], 'crashes:1', 1) \
                       redis.call('PEXPIRE', KEYS[1], 3000)";
        server.cli(&["EVAL", crashes, "1", "relay:lock"]);
        let ttl = "/lock/hold/ttl_seconds";
        until("the lease that runs out was read", &mut |view| {
            view.task("relay").pointer(ttl).and_then(Value::as_f64).is_some_and(|left| left < 4.0)
        });
        until("a gap", &mut |view| {
            view.held("relay") == Some(0.0) && view.verdict("relay") == "pending"
        });
        server.cli(&["HSET", "relay:lock", "second:1", "1"]);
        server.cli(&["PEXPIRE", "relay:lock", "60000"]);
        server.cli(&["HSET", "outbound:stats", "last_run", "2"]);
        let verdicts = ["stalled", "down", "unwanted", "split", "unknown", "stopped", "pending"];
        until("every verdict", &mut |view| {
            verdicts.iter().all(|verdict| view.verdict(verdict) == *verdict)
        });
        until("a handover and an outage", &mut |view| {
            let relay = view.task("relay");
            relay["last_handover"].is_object() && relay["last_outage"].is_object()
        });
        until("a renewal and a token", &mut |view| {
            let outbound = self.agent.task("outbound");
            !outbound["renewals"].as_array().unwrap().is_empty()
                && view.task("outbound")["lock"]["fencing_token"] == json!(7)
        });
        until("a redis that is not there", &mut |view| {
            let redises = view.json["stores"].as_array().unwrap();
            redises.iter().any(|redis| redis["name"] == "gone" && redis["unknown"].is_object())
        });
        until("a witness", &mut |view| {
            view.task("till")["witnesses"].pointer("/0/holders/0").is_some()
        });
        until("a pattern that was scanned for, and one that cannot be", &mut |view| {
            let patterns = &view.json["patterns"];
            patterns[0]["scanned_at"].is_string() && patterns[1]["trouble"].is_string()
        });
        until("members that are executed", &mut |view| {
            view.task("delayed")["queue"]["executing"] == json!(2)
        });
        server.cli(&["ZREM", "delayed", "leaves"]);
        until("a lock that outlives its member", &mut |view| {
            let queue = &view.task("delayed")["queue"];
            queue["moved"].is_string() && queue.pointer("/orphans/0").is_some()
        });
        until("turns and queues that are none", &mut |view| {
            view.task("no-turns")["turn"]["unknown"].is_object()
                && view.task("no-queue")["queue"]["unknown"].is_object()
                && view.task("alternate")["turn"]["task"] == json!("a")
        });
        server.cli(&["HSET", "outbound:claims", "runs:g", "1-2=1 3- host=web-1"]);
        let goes_on = |view: &View| view.task("nightly")["periodic"]["present"].is_object();
        let run = ["SET", "nightly:lock", "token", "PX", "600000"];
        server.cli(&run);
        until("a run", &mut |view| goes_on(view));
        server.cli(&["DEL", "nightly:lock"]);
        until("the end of a run", &mut |view| {
            view.task("nightly")["periodic"]["last"]["end"].is_string()
        });
        server.cli(&run);
        until("another run", &mut |view| goes_on(view));
        until("runs of a guard", &mut |view| {
            view.task("outbound")["runs"].pointer("/ended/0").is_some()
        });
        let mut beat = 0;
        until("a claim that lives", &mut |view| {
            beat += 1;
            server.cli(&["HSET", "outbound:claims", "first", &beat.to_string()]);
            view.task("outbound")["live_claims"] == json!(["first"])
        });
    }

    fn json(&self, path: &str, status: u16) -> Value {
        let answer = self.agent.get(path);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
        serde_json::from_slice(&answer.body).unwrap()
    }
}

fn set_up(server: &RedisServer, master: &RedisServer) {
    for commands in [
        "HSET outbound:lock first:1 1",
        "PEXPIRE outbound:lock 50000",
        "HSET outbound:users anna 1 ben 0 cleo maybe",
        "HSET outbound:stats last_run 1",
        "HSET outbound:claims first 0",
        "HSET hosts first wh-app-01",
        "SET outbound:pause 1",
        "HSET relay:lock first:1 1",
        "PEXPIRE relay:lock 60000",
        "HSET stalled:lock first:1 1",
        "SET stalled:progress 1",
        "HSET unwanted:lock first:1 1",
        "HSET split:lock first:1 1 second:1 1",
        "SET unknown:lock text",
        "SET unknown:users text",
        "HSET unknown:progress is hash",
        "SET unknown:claims text",
        "SET unknown:hosts text",
        "SET redisson_lock_token:{outbound:lock} 7",
        "HSET outbound:users dora \"true\"",
        "HSET turns a 1790000000000",
        "ZADD delayed 1790000000 waits 1790000001 works 1790000002 leaves 1890000000 later",
        "SET lock_works token PX 600000",
        "SET lock_leaves token PX 600000",
    ] {
        server.cli(&commands.split(' ').collect::<Vec<_>>());
    }
    master.cli(&["SET", "till:lock", "token", "PX", "600000"]);
}

fn config(server: &RedisServer, sentinels: &[RedisServer; 2]) -> String {
    format!(
        r#"
redis:
  main: {{url: "redis://{}", interval: 100ms, timeout: 1s}}
  shop: {{sentinel: {{master: shop, nodes: ["{}", "{}", "127.0.0.1:1"]}}, interval: 100ms, timeout: 1s}}
  gone: {{url: "redis://127.0.0.1:1", interval: 100ms, timeout: 1s}}
labels: [team]
drill: true
tasks:
  - name: alternate
    redis: main
    turn: {{hash: turns, tasks: [a, b], min_turn: 1s}}
  - name: no-turns
    redis: main
    turn: {{hash: "unknown:users", tasks: [a, b]}}
  - name: delayed
    redis: main
    queue: {{zset: delayed, lock: "lock_{{id}}"}}
  - name: no-queue
    redis: main
    queue: {{zset: "unknown:claims", lock: "lock_{{id}}"}}
  - name: outbound
    redis: main
    lock: {{key: "outbound:lock", renew_every: 10s, lease: 60s}}
    wanted: {{hash: "outbound:users"}}
    grace: 20s
    settle: 500ms
    wind_down: 30s
    blind_after: 60s
    paused_until: {{key: "outbound:pause"}}
    progress: {{hash: "outbound:stats", field: last_run, stale_after: 5m}}
    claims: {{hash: "outbound:claims", fresh_for: 10s}}
    hosts: {{hash: hosts}}
    max_hold: 12h
    labels: {{team: logistics}}
  - {{name: relay, redis: main, lock: {{key: "relay:lock"}}, wanted: always, settle: 500ms}}
  - {{name: shared, redis: main, lock: {{key: "shared:lock", stores: [main, gone], mode: any}}}}
  - name: stalled
    redis: main
    lock: {{key: "stalled:lock"}}
    progress: {{key: "stalled:progress", stale_after: 1s}}
  - {{name: down, redis: main, lock: {{key: "down:lock"}}, wanted: always, grace: 1s}}
  - {{name: pending, redis: main, lock: {{key: "pending:lock"}}, wanted: always, grace: 10m}}
  - {{name: unwanted, redis: main, lock: {{key: "unwanted:lock"}}, wanted: never, wind_down: 1s}}
  - {{name: split, redis: main, lock: {{key: "split:lock"}}}}
  - {{name: reports, redis: main, lock: {{match: "report:lock:*"}}}}
  - {{name: lost, redis: gone, lock: {{match: "lost:lock:*"}}}}
  - name: unknown
    redis: main
    lock: {{key: "unknown:lock"}}
    wanted: {{hash: "unknown:users"}}
    progress: {{key: "unknown:progress"}}
    claims: {{hash: "unknown:claims"}}
    hosts: {{hash: "unknown:hosts"}}
    settle: 500ms
    blind_after: 2s
  - name: nightly
    redis: main
    lock: {{key: "nightly:lock", library: string}}
    runs: {{every: 1h, late_after: 10m, max: 30m}}
  - {{name: stopped, redis: main, lock: {{key: "stopped:lock"}}, wanted: never}}
  - {{name: gone, redis: gone, lock: {{key: "gone:lock"}}}}
  - {{name: till, redis: shop, lock: {{key: "till:lock", library: string}}}}
"#,
        server.address(),
        sentinels[0].address(),
        sentinels[1].address(),
    )
}
