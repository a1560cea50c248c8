//! What a sign of lost data can have touched, and when a field ends, on real servers: each task is
//! watched once with wake-ups and once without.

use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tempfile::TempDir;

use crate::support::agent::{Agent, program};
use crate::support::redis::{Keep, RedisServer, Setup, VALKEY_9};
use crate::support::view::View;
use crate::support::{PATIENCE, skip, wait_until};

/// The stores: the same servers, with wake-ups and without.
const STORES: [(&str, &str); 2] = [("hints", ""), ("polls", ", wake_ups: false")];
/// How long a value lives that runs out while its server is down.
const SHORT: &str = "2500";
const LONG: &str = "600000";

/// One form of switches: the name of its tasks, its `wanted` block, and the commands that switch
/// the only user on and off without lockwatch.
struct Form {
    name: &'static str,
    wanted: &'static str,
    on: &'static [&'static str],
    off: &'static [&'static str],
    /// What gives the key a TTL; its last word is the TTL.
    expire: &'static [&'static str],
}

/// The tag keeps all keys of a form in one slot.
const FORMS: [Form; 3] = [
    Form {
        name: "set",
        wanted: "{set: '{set}:users'}",
        on: &["sadd", "{set}:users", "anna"],
        off: &["srem", "{set}:users", "anna"],
        expire: &["pexpire", "{set}:users"],
    },
    Form {
        name: "hash",
        wanted: "{hash: '{hash}:users'}",
        on: &["hset", "{hash}:users", "anna", "1"],
        off: &["hdel", "{hash}:users", "anna"],
        expire: &["pexpire", "{hash}:users"],
    },
    Form {
        name: "keys",
        wanted: "{keys: ['{keys}:anna']}",
        on: &["set", "{keys}:anna", "1"],
        off: &["del", "{keys}:anna"],
        expire: &["pexpire", "{keys}:anna"],
    },
];
/// A hash on a server whose fields have TTLs.
const FIELD: Form = Form {
    name: "field",
    wanted: "{hash: '{field}:users'}",
    on: &["hset", "{field}:users", "anna", "1"],
    off: &["hdel", "{field}:users", "anna"],
    expire: &["hpexpire", "{field}:users"],
};

/// Redis of this machine and Valkey 9, where it is installed.
fn programs(test: &str) -> Vec<Option<PathBuf>> {
    if !RedisServer::can_start(test) {
        return Vec::new();
    }
    [None].into_iter().chain(valkey(test).map(Some)).collect()
}

fn valkey(test: &str) -> Option<PathBuf> {
    let program = VALKEY_9.program();
    if !program.is_file() {
        skip::say(test, &program.display().to_string());
        return None;
    }
    RedisServer::can_start(test).then_some(program)
}

fn launch(program: Option<&PathBuf>, arguments: &[&str]) -> RedisServer {
    RedisServer::launch(|_port| Setup {
        program: program.cloned(),
        arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        ..Setup::default()
    })
}

/// `servers`: which of `url`, `nodes` and `cluster` both stores have.
fn config(servers: &str, forms: &[&Form]) -> String {
    let stores: String = STORES
        .iter()
        .map(|(name, more)| format!("  {name}: {{{servers}, interval: 200ms{more}}}\n"))
        .collect();
    let task = |form: &&Form| {
        STORES.map(|(store, _)| {
            format!(
                "  - {{name: {name}-{store}, redis: {store}, lock: {{key: '{{{name}}}:{store}', \
                 library: string}}, wanted: {wanted}}}\n",
                name = form.name,
                wanted = form.wanted,
            )
        })
    };
    let tasks: String = forms.iter().flat_map(task).collect();
    format!("redis:\n{stores}tasks:\n{tasks}")
}

/// Switches everybody on, takes the locks, and waits until the agent has seen it.
fn settle(agent: &Agent, forms: &[&Form], cli: impl Fn(&[&str]) -> String) {
    for form in forms {
        cli(form.on);
        for (store, _) in STORES {
            let key = format!("{{{}}}:{store}", form.name);
            assert_eq!(cli(&["set", &key, "token", "px", LONG]), "OK");
        }
    }
    agent.until_view(PATIENCE, "all are on and held", |view| {
        all(view, |view, task| wanted(view, task) == "yes" && view.held(task) == Some(1.0))
    });
}

/// Waits until all tasks were read again: two intervals are over in each store, by the server's
/// clock, which is this machine's.
fn read_again(agent: &Agent) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let read = now + Duration::from_millis(500);
    agent.until_view(PATIENCE, "all are read again", |view| {
        STORES.iter().all(|(store, _)| {
            let name = "lockwatch_store_last_success_timestamp_seconds";
            let servers = view.page.series(name, &[("store", store)]);
            !servers.is_empty() && servers.values().all(|at| *at > read.as_secs_f64())
        })
    });
}

fn all(view: &View, is_so: impl Fn(&View, &str) -> bool) -> bool {
    let tasks = view.json["tasks"].as_array().unwrap();
    tasks.iter().all(|task| is_so(view, task["name"].as_str().unwrap()))
}

fn wanted<'a>(view: &'a View, task: &str) -> &'a str {
    view.task(task)["wanted"].as_str().unwrap()
}

fn is_lost(view: &View, task: &str) -> bool {
    has(view, task, "switches_lost")
}

fn has(view: &View, task: &str, problem: &str) -> bool {
    let problems = view.task(task)["problems"].as_array().unwrap();
    problems.iter().any(|it| it["problem"] == problem)
}

/// All tasks are off, and nothing counts as lost. A loss is believed 250 ms after it was first
/// seen, so this must stay so for longer.
fn stay_off(agent: &Agent, what: &str) {
    agent.until_view(PATIENCE, what, |view| all(view, |view, task| wanted(view, task) == "no"));
    let is_off = |view: &View, task: &str| wanted(view, task) == "no" && !is_lost(view, task);
    agent.throughout(Duration::from_millis(700), what, |view| all(view, is_off));
}

fn all_lost(agent: &Agent, what: &str) {
    agent.until_view(PATIENCE, what, |view| {
        all(view, |view, task| is_lost(view, task) && wanted(view, task) == "yes")
    });
}

fn run(connection: &mut redis::Connection, words: &[&str]) -> redis::RedisResult<redis::Value> {
    let mut command = redis::cmd(words[0]);
    words[1..].iter().for_each(|word| _ = command.arg(word));
    command.query(connection)
}

/// Has the server evict keys and takes the last users off, between which no reading can fall: the
/// server reads all these commands at once, and evicts before it executes the next one.
fn off_while_evicting(server: &RedisServer, forms: &[&Form]) {
    let mut connection =
        redis::Client::open(("127.0.0.1", server.port)).unwrap().get_connection().unwrap();
    let big = "x".repeat(50_000);
    for number in 0..40 {
        run(&mut connection, &["set", &format!("cache:{number}"), &big, "px", LONG]).unwrap();
    }
    let used: u64 = server.info("used_memory").unwrap().parse().unwrap();
    let mut pipe = redis::pipe();
    pipe.cmd("config").arg(&["set", "maxmemory", &(used - 700_000).to_string()]);
    for form in forms {
        let (name, rest) = form.off.split_first().unwrap();
        pipe.cmd(name).arg(rest);
    }
    let _: Vec<redis::Value> = pipe.query(&mut connection).unwrap();
    assert_ne!(server.info("evicted_keys").as_deref(), Some("0"));
}

/// `volatile-*` spares a key without a TTL, and `noeviction` every key: nothing was lost. What may
/// have been evicted stays lost.
#[test]
fn an_eviction_can_have_taken_only_what_the_policy_lets_it_take() {
    let test = "signs::an_eviction_can_have_taken_only_what_the_policy_lets_it_take";
    let play = |program: Option<PathBuf>, policy: &'static str, ttl: bool, lost: bool| {
        thread::spawn(move || {
            let server = launch(program.as_ref(), &["--maxmemory-policy", policy]);
            let forms: Vec<&Form> = FORMS.iter().collect();
            let agent =
                Agent::start(&config(&format!("url: 'redis://{}'", server.address()), &forms));
            settle(&agent, &forms, |words| server.cli(words));
            if ttl {
                let expire = |form: &&Form| server.cli(&[form.expire, &[LONG]].concat());
                assert!(forms.iter().all(|form| expire(form) == "1"));
                read_again(&agent);
            }
            off_while_evicting(&server, &forms);
            let what = format!("{policy}, ttl: {ttl}");
            match lost {
                true => all_lost(&agent, &what),
                false => stay_off(&agent, &what),
            }
        })
    };
    let mut playing = Vec::new();
    for program in programs(test) {
        for (policy, ttl, lost) in [
            ("volatile-lru", false, false),
            ("volatile-ttl", true, true),
            ("allkeys-lru", false, true),
        ] {
            playing.push(play(program.clone(), policy, ttl, lost));
        }
    }
    playing.into_iter().for_each(|player| player.join().unwrap());
}

#[test]
fn where_switches_may_be_evicted_is_said_before_the_agent_runs() {
    let test = "signs::where_switches_may_be_evicted_is_said_before_the_agent_runs";
    let Some(server) = RedisServer::start_with(test, &["--maxmemory", "100mb"]) else { return };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("lockwatch.yml");
    let check = |policy: &str, wanted: &str| {
        server.cli(&["config", "set", "maxmemory-policy", policy]);
        let text = format!(
            "redis: {{main: {{url: 'redis://{}'}}}}\ntasks: [{{name: job, lock: {{key: job, \
             library: string}}, wanted: {wanted}}}]\n",
            server.address()
        );
        std::fs::write(&file, text).unwrap();
        let mut command = program();
        command.args(["check-config", "--connect", "--config.file"]).arg(&file);
        let output = command.stdout(Stdio::piped()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().contains("it may evict switches")
    };
    assert!(check("allkeys-lru", "{set: users}"));
    assert!(!check("volatile-lru", "{set: users}"));
    assert!(!check("allkeys-lru", "always"));
    server.cli(&["config", "set", "maxmemory", "0"]);
    assert!(!check("allkeys-lru", "{set: users}"), "without a limit nothing is evicted");
}

/// Both as an append-only file and as a snapshot keep it. A switch without a TTL that the snapshot
/// does not have is lost.
#[test]
fn a_switch_that_runs_out_while_its_server_restarts_is_off() {
    let test = "signs::a_switch_that_runs_out_while_its_server_restarts_is_off";
    let play = |program: Option<PathBuf>, by_snapshot: bool| {
        thread::spawn(move || {
            let log: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];
            let arguments = if by_snapshot { &[] } else { log };
            let mut server = launch(program.as_ref(), arguments);
            let mut forms: Vec<&Form> = FORMS.iter().collect();
            forms.extend(program.is_some().then_some(&FIELD));
            let agent =
                Agent::start(&config(&format!("url: 'redis://{}'", server.address()), &forms));
            settle(&agent, &forms, |words| server.cli(words));
            for form in &forms {
                let field: &[&str] =
                    if form.name == FIELD.name { &["fields", "1", "anna"] } else { &[] };
                let set = server.cli(&[form.expire, &[SHORT], field].concat());
                assert!(["1", "(integer) 1"].contains(&&*set), "{set}");
            }
            let began = Instant::now();
            read_again(&agent);
            if by_snapshot {
                server.save();
            }
            server.kill();
            let over = Duration::from_millis(SHORT.parse::<u64>().unwrap() + 200);
            wait_until(PATIENCE, "its time is over", || began.elapsed() >= over);
            server.restart(Keep::Files);
            stay_off(&agent, &format!("{program:?}, by snapshot: {by_snapshot}"));
            if by_snapshot {
                settle(&agent, &forms, |words| server.cli(words));
                server.restart(Keep::Files);
                all_lost(&agent, "what the snapshot does not have");
            }
        })
    };
    let playing: Vec<_> = programs(test)
        .into_iter()
        .flat_map(|program| [false, true].map(|by_snapshot| play(program.clone(), by_snapshot)))
        .collect();
    playing.into_iter().for_each(|player| player.join().unwrap());
}

/// A server that has a replica and stops in order says by its offsets that it has all it had. So
/// whoever is switched off before the first reading, and after it, is off. A server that was killed
/// says nothing.
#[test]
fn an_orderly_restart_with_a_replica_loses_nothing() {
    let test = "signs::an_orderly_restart_with_a_replica_loses_nothing";
    let play = |program: Option<PathBuf>, all_named: bool| {
        thread::spawn(move || {
            let mut master = launch(program.as_ref(), &[]);
            let port = master.port.to_string();
            let replica = launch(program.as_ref(), &["--replicaof", "127.0.0.1", &port]);
            wait_until(PATIENCE, "the replica is in sync", || {
                replica.info("master_link_status").as_deref() == Some("up")
            });
            let forms: Vec<&Form> = FORMS.iter().collect();
            let servers = match all_named {
                true => format!(
                    "nodes: ['redis://{}', 'redis://{}']",
                    master.address(),
                    replica.address()
                ),
                false => format!("url: 'redis://{}'", master.address()),
            };
            let agent = Agent::start(&config(&servers, &forms));
            let restart = |master: &mut RedisServer| {
                settle(&agent, &forms, |words| master.cli(words));
                // The offset is read behind the switches.
                read_again(&agent);
                master.cli(&["shutdown", "save"]);
                master.restart(Keep::Files);
            };
            restart(&mut master);
            forms.iter().for_each(|form| _ = master.cli(form.off));
            stay_off(&agent, "off before the first reading");
            restart(&mut master);
            read_again(&agent);
            assert!(all(&agent.view(), |view, task| wanted(view, task) == "yes"));
            forms.iter().for_each(|form| _ = master.cli(form.off));
            stay_off(&agent, "off later");
            master.save();
            settle(&agent, &forms, |words| master.cli(words));
            read_again(&agent);
            master.kill();
            master.restart(Keep::Files);
            all_lost(&agent, "killed, and all are off in its file");
        })
    };
    let playing: Vec<_> = programs(test)
        .into_iter()
        .flat_map(|program| [false, true].map(|all_named| play(program.clone(), all_named)))
        .collect();
    playing.into_iter().for_each(|player| player.join().unwrap());
}

/// A cluster of one Valkey, which serves all slots.
fn cluster(program: &PathBuf, more: &[&str]) -> RedisServer {
    let server = launch(Some(program), &[&["--cluster-enabled", "yes"], more].concat());
    assert_eq!(server.cli(&["cluster", "addslotsrange", "0", "16383"]), "OK");
    wait_until(PATIENCE, "the cluster is complete", || {
        server.cli(&["cluster", "info"]).contains("cluster_state:ok")
    });
    server
}

#[test]
fn a_flushed_slot_loses_its_own_keys_only() {
    let test = "signs::a_flushed_slot_loses_its_own_keys_only";
    let Some(program) = valkey(test) else { return };
    let server = cluster(&program, &[]);
    let forms: Vec<&Form> = FORMS.iter().collect();
    let servers = format!("cluster: {{nodes: ['redis://{}']}}", server.address());
    let agent = Agent::start(&config(&servers, &forms));
    settle(&agent, &forms, |words| server.cli(words));
    let flush = |key: &str| {
        let slot = server.cli(&["cluster", "keyslot", key]);
        assert_eq!(server.cli(&["cluster", "flushslot", &slot]), "OK");
    };
    server.cli(&["set", "{other}:key", "1"]);
    flush("{other}:key");
    assert_eq!(server.cli(&["exists", "{other}:key"]), "0");
    read_again(&agent);
    read_again(&agent);
    let view = agent.view();
    assert!(all(&view, |view, task| view.held(task) == Some(1.0) && !is_lost(view, task)));
    forms.iter().for_each(|form| flush(&format!("{{{}}}:users", form.name)));
    all_lost(&agent, "the slots were flushed");
    agent.until_view(PATIENCE, "the locks are lost, too", |view| {
        all(view, |view, task| has(view, task, "lock_lost") && view.held(task) == Some(0.0))
    });
}

/// Valkey 9 and Redis 7.4 end single fields. Whichever ends first counts, the key or the field that
/// names the owner.
#[test]
fn a_lock_ends_with_its_key_or_its_field_whichever_is_first() {
    let test = "signs::a_lock_ends_with_its_key_or_its_field_whichever_is_first";
    let Some(program) = valkey(test) else { return };
    let server = launch(Some(&program), &[]);
    let libraries = [("hash", "owner"), ("redisson", "6f9a3c1e-8a52-4f5c-9f2e-0d3b7a1c5e42:57")];
    // The TTLs of the key and of the field.
    let ttls = [("field", None, "2500"), ("both", Some(LONG), "2500"), ("key", Some("2500"), LONG)];
    let cases = || {
        libraries.into_iter().flat_map(move |library| {
            ttls.into_iter().flat_map(move |ttl| STORES.map(|(store, _)| (library, ttl, store)))
        })
    };
    let name = |(library, _): (&str, &str), (ttl, ..): (&str, Option<&str>, &str), store: &str| {
        format!("{library}-{ttl}-{store}")
    };
    let stores: String = STORES
        .iter()
        .map(|(store, more)| {
            format!("  {store}: {{url: 'redis://{}', interval: 200ms{more}}}\n", server.address())
        })
        .collect();
    let tasks: String = cases()
        .map(|(library, ttl, store)| {
            let name = name(library, ttl, store);
            format!(
                "  - {{name: {name}, redis: {store}, lock: {{key: {name}, library: {}}}, \
                 wanted: always, grace: 1s}}\n",
                library.0
            )
        })
        .collect();
    let agent = Agent::start(&format!("redis:\n{stores}tasks:\n{tasks}"));
    agent.until_view(PATIENCE, "all are read", |view| {
        all(view, |view, task| view.held(task) == Some(0.0))
    });
    let mut connection =
        redis::Client::open(("127.0.0.1", server.port)).unwrap().get_connection().unwrap();
    let mut taking = redis::pipe();
    taking.atomic();
    for (library, ttl, store) in cases() {
        let name = name(library, ttl, store);
        taking.cmd("hsetex").arg(&[&name, "FNX", "PX", ttl.2, "FIELDS", "1", library.1, "1"]);
        ttl.1.into_iter().for_each(|key| _ = taking.cmd("pexpire").arg(&[&*name, key]));
    }
    let _: Vec<redis::Value> = taking.query(&mut connection).unwrap();
    agent.until_view(PATIENCE, "the first deadline counts", |view| {
        all(view, |view, task| {
            let hold = &view.task(task)["lock"]["hold"];
            hold["persistent"] == false
                && hold["ttl_seconds"].as_f64().is_some_and(|left| left <= 2.5)
        })
    });
    agent.until_view(PATIENCE, "all have expired", |view| {
        all(view, |view, task| {
            view.of_lock(task, "expired_total") == 1.0 && has(view, task, "lease_expired")
        })
    });
}

/// Valkey 9 has several databases in a cluster, on request, and a version of its own.
#[test]
fn a_cluster_may_have_several_databases() {
    let test = "signs::a_cluster_may_have_several_databases";
    let Some(program) = valkey(test) else { return };
    let server = cluster(&program, &["--cluster-databases", "4"]);
    server.cli(&["-n", "2", "set", "job:lock", "token", "px", LONG]);
    let config = |db: u32| {
        format!(
            "redis: {{main: {{cluster: {{nodes: ['redis://{}']}}, db: {db}, interval: 200ms}}}}\n\
             tasks: [{{name: job, lock: {{key: 'job:lock', library: string}}}}]\n",
            server.address()
        )
    };
    let agent = Agent::start(&config(2));
    agent.until_view(PATIENCE, "it is held", |view| view.held("job") == Some(1.0));
    let log = agent.log();
    assert!(log.contains("version=\"Valkey 9."), "{log}");
    agent.write_config(&config(7));
    agent.signal("HUP");
    agent.until_view(PATIENCE, "there is no such database", |view| {
        view.reason("job") == Some("database")
    });
}

/// The lock of a queue's member: its owner's field is known from the second reading on.
#[test]
fn a_members_lock_ends_with_its_owners_field() {
    let test = "signs::a_members_lock_ends_with_its_owners_field";
    let Some(program) = valkey(test) else { return };
    let server = launch(Some(&program), &[]);
    let agent = Agent::start(&format!(
        "redis: {{main: {{url: 'redis://{}', interval: 200ms}}}}\ntasks: [{{name: job, queue: \
         {{zset: queue, unit: s, lock: 'lock_{{id}}', library: hash, max_late: 60s}}, wanted: \
         always}}]\n",
        server.address()
    ));
    server.cli(&["hsetex", "lock_a", "fnx", "px", "2500", "fields", "1", "owner", "1"]);
    let time = server.cli(&["time"]);
    server.cli(&["zadd", "queue", time.lines().next().unwrap(), "a"]);
    agent.until_view(PATIENCE, "its end is known", |view| {
        let execution = &view.task("job")["queue"]["first"][0]["execution"];
        execution["until"].is_string()
    });
    agent.until_view(PATIENCE, "it has expired", |view| {
        view.task("job")["queue"]["totals"]["expired"] == 1
    });
}
