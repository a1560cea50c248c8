//! Every kind of Redisson lock, as its real clients write it, and keys changed by hand.

use super::{Scene, check_calm, check_never_late, config, connect, greatest};
use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::html::Element;
use crate::support::redis::RedisServer;
use crate::support::redisson::{Redisson, word};
use crate::support::truth::rule;

/// Tasks whose names are the keys of their locks, wanted unset.
fn tasks(names: &[&str]) -> String {
    names.iter().map(|name| format!("  - {{name: {name}, lock: {{key: {name}}}}}\n")).collect()
}

/// A write lock adds the lease at each re-entry, and its next renewal undoes that. An explicit
/// lease is never renewed. A spin lock and a lock that refuses re-entry look like any other.
#[test]
fn deadlines_that_go_back_or_run_down_are_nothing_to_alert_about() {
    let test = "live::kinds: deadlines";
    let names = ["write", "explicit", "spin", "strict"];
    let Some(mut scene) = Scene::open(test, "200ms", &tasks(&names)) else { return };
    scene.connect("c1", 3_000);
    scene.agent.until(PATIENCE, "read", |page| {
        names.iter().all(|name| page.of(name, "lock_held") == Some(0.0))
    });
    let watch = scene.agent.watch();
    scene.redisson.run("lock c1 t1 write kind=write");
    scene.redisson.run("lock c1 t1 spin kind=spin");
    scene.redisson.run("lock c1 t1 strict kind=nonreentrant");
    scene.redisson.run("lock c1 t2 explicit lease=4000");
    scene
        .agent
        .until(PATIENCE, "learned", |page| page.of("write", "lock_lease_seconds") == Some(3.0));
    // In a separate reading right after a renewal, so that the re-entry is recognized.
    for _ in 0..2 {
        next_renewal(&scene.agent, "write");
        scene.redisson.run("lock c1 t1 write kind=write");
        let further = |page: &Exposition| page.of("write", "lock_ttl_seconds") > Some(3.5);
        scene.agent.until(PATIENCE, "the deadline lies further off", further);
        let back = |page: &Exposition| page.of("write", "lock_ttl_seconds") <= Some(3.0);
        scene.agent.until(PATIENCE, "the renewal takes it back", back);
    }
    next_renewal(&scene.agent, "write");
    let expired = |page: &Exposition| page.ends("explicit", "expired") == 1.0;
    scene.agent.until(PATIENCE, "the explicit lease runs out", expired);
    let pages = watch.stop();

    let last = pages.last().unwrap();
    assert_eq!(last.of("write", "lock_shortened_total"), Some(2.0), "{}", scene.agent.log());
    assert_eq!(last.of("write", "lock_reentries"), Some(2.0));
    assert_eq!(scene.agent.task("write")["lock"]["hold"]["mode"], "write");
    assert_eq!(last.of("explicit", "lock_renewals_total"), Some(0.0));
    for name in names {
        check_calm(&scene.agent, &pages, name);
        check_never_late(&scene.agent, &pages, name);
        assert_eq!(greatest(&pages, name, "lock_persistent"), 0.0);
        assert_eq!(last.of(name, "lock_acquisitions_total"), Some(1.0));
    }
}

fn next_renewal(agent: &Agent, task: &str) {
    let renewals = agent.page().of(task, "lock_renewals_total").unwrap();
    agent
        .until(PATIENCE, "a renewal", |page| page.of(task, "lock_renewals_total") > Some(renewals));
}

/// Features of some kinds only: a queue, a token, several readers.
#[test]
fn fair_fenced_and_read_locks_show_their_waiters_token_and_readers() {
    let test = "live::kinds: fair, fenced, read";
    let names = ["fair", "fenced", "shared"];
    let Some(mut scene) = Scene::open(test, "200ms", &tasks(&names)) else { return };
    let Some(mut mortal) = Redisson::start(test) else { return };
    let first = scene.connect("c1", 3_000);
    scene.connect("c2", 3_000);
    let second = connect(&mut mortal, &scene.server, "c3", 3_000);
    let watch = scene.agent.watch();

    scene.redisson.run("lock c1 t1 fair kind=fair");
    for thread in ["t1", "t2"] {
        scene.redisson.run(&format!("lock-async c2 {thread} fair kind=fair"));
    }
    let page = scene
        .agent
        .until(PATIENCE, "two waiters", |page| page.of("fair", "lock_waiters") == Some(2.0));
    assert_eq!(page.of("fair", "lock_holders"), Some(1.0));
    assert_eq!(page.label("fair", "lock_holder", "holder"), Some(first.clone()));

    let token = scene.redisson.run("lock c1 t2 fenced kind=fenced")["token"].as_f64();
    scene
        .agent
        .until(PATIENCE, "its token", |page| page.of("fenced", "lock_fencing_token") == token);
    scene.redisson.run("unlock c1 t2 fenced kind=fenced");
    let token = scene.redisson.run("lock c1 t2 fenced kind=fenced")["token"].as_f64();
    assert_eq!(token, Some(2.0));
    scene
        .agent
        .until(PATIENCE, "the next token", |page| page.of("fenced", "lock_fencing_token") == token);

    scene.redisson.run("lock c1 t3 shared kind=read");
    mortal.run("lock c3 t1 shared kind=read");
    let page = scene
        .agent
        .until(PATIENCE, "two readers", |page| page.of("shared", "lock_holders") == Some(2.0));
    let holders: Vec<String> = page
        .series("lockwatch_lock_holder", &[("task", "shared")])
        .into_keys()
        .map(|labels| labels["holder"].clone())
        .collect();
    assert!(holders.contains(&first) && holders.contains(&second), "{holders:?}");
    mortal.kill();
    // Its field stays for as long as the other reader renews.
    scene
        .agent
        .until(PATIENCE, "one reader", |page| page.of("shared", "lock_holders") == Some(1.0));
    let hold = scene.agent.task("shared")["lock"]["hold"].clone();
    assert_eq!((&hold["mode"], &hold["ghosts"]), (&"read".into(), &1.into()), "{hold}");
    assert_eq!(scene.server.cli(&["hlen", "shared"]), "3", "mode, the reader and the ghost");

    scene.redisson.run("unlock c1 t1 fair kind=fair");
    scene.redisson.event("acquired", "fair", PATIENCE);
    let page = scene
        .agent
        .until(PATIENCE, "one waiter", |page| page.of("fair", "lock_waiters") == Some(1.0));
    assert_eq!(page.of("fair", "lock_held"), Some(1.0));
    let pages = watch.stop();
    for name in names {
        check_calm(&scene.agent, &pages, name);
    }
    for name in ["fair", "fenced"] {
        check_never_late(&scene.agent, &pages, name);
    }
    assert_eq!(pages.last().unwrap().of("fenced", "lock_token_resets_total"), Some(0.0));
}

/// `PERSIST` by hand, on a lock without renewals and on one with them, up to its next renewal.
#[test]
fn a_lock_without_ttl_is_persistent_until_a_renewal_gives_it_one() {
    let test = "live::kinds: persist";
    let names = ["forever", "renewed"];
    let Some(mut scene) = Scene::open(test, "200ms", &tasks(&names)) else { return };
    scene.connect("c1", 3_000);
    let watch = scene.agent.watch();
    scene.redisson.run("lock c1 t1 forever lease=60000");
    scene.redisson.run("lock c1 t2 renewed");
    scene
        .agent
        .until(PATIENCE, "learned", |page| page.of("renewed", "lock_lease_seconds") == Some(3.0));
    next_renewal(&scene.agent, "renewed");
    for name in names {
        assert_eq!(scene.server.cli(&["persist", name]), "1");
        let persistent = |page: &Exposition| page.of(name, "lock_persistent") == Some(1.0);
        let page = scene.agent.until(PATIENCE, "persistent", persistent);
        assert_eq!(page.of(name, "lock_ttl_seconds"), Some(f64::INFINITY));
        assert_eq!(page.of(name, "lock_deadline_timestamp_seconds"), None);
        assert_eq!(page.verdict(name), "running");
    }
    scene
        .agent
        .until(PATIENCE, "undone", |page| page.of("renewed", "lock_persistent") == Some(0.0));
    next_renewal(&scene.agent, "renewed");
    let pages = watch.stop();
    assert_eq!(pages.last().unwrap().of("forever", "lock_persistent"), Some(1.0));
    for name in names {
        check_calm(&scene.agent, &pages, name);
        check_never_late(&scene.agent, &pages, name);
    }
}

/// `getMultiLock(name, values)` keeps several locks and their leases in one hash. That is not one
/// lock, so its state is unknown; other tasks are not affected.
#[test]
fn the_hash_of_a_faster_multi_lock_is_unknown_for_its_layout_and_costs_the_others_nothing() {
    let test = "live::kinds: faster";
    let names = ["group", "plain"];
    let (Some(mut redisson), Some(server)) = (Redisson::start(test), RedisServer::start(test))
    else {
        return;
    };
    connect(&mut redisson, &server, "c1", 3_000);
    redisson.run("lock c1 t1 group kind=faster values=one,two");
    redisson.run("lock c1 t2 plain");
    let agent = Agent::start(&config(&server, "200ms", &tasks(&names)));
    let watch = agent.watch();
    agent.until(PATIENCE, "the other is held", |page| page.of("plain", "lock_held") == Some(1.0));
    let renewed = |page: &Exposition| page.of("plain", "lock_renewals_total") == Some(1.0);
    let page = agent.until(PATIENCE, "the other goes on", renewed);
    let pages = watch.stop();
    assert!(pages.iter().all(|page| page.of("group", "lock_held").is_none()), "{}", agent.log());
    for absent in ["lock_held", "lock_holders", "lock_ttl_seconds", "lock_persistent"] {
        assert_eq!(page.of("group", absent), None, "{absent}");
    }
    assert!(page.of("group", "task_blind_seconds") > Some(0.0), "{}", page.text());
    assert_eq!(page.of("plain", "task_blind_seconds"), Some(0.0));
    assert_eq!(page.verdict("group"), "unknown");
    let lock = agent.task("group")["lock"].clone();
    assert_eq!(lock["unknown"]["reason"], "layout", "{lock}");
    assert_eq!(
        agent
            .log_lines(&["event=task_unreadable", "task=group ", "reason=layout", "remedy="])
            .len(),
        1
    );
}

/// Names that would end a label, a line or a string if unescaped, and bytes that are not UTF-8.
#[test]
fn locks_with_hostile_names_are_watched_and_kept_distinct() {
    let _rule = rule("14 hostile bytes");
    let test = "live::kinds: hostile names";
    let names: [&[u8]; 8] = [
        b"quote\"} 1",
        b"back\\slash",
        b"back\\\\slash",
        b"new\nline",
        b"back\\nslash",
        b"nul\0",
        "{\u{202e}ltr \u{1b}[2J}".as_bytes(),
        b"<script>alert(1)</script>%&+= ",
    ];
    let hex = |name: &[u8]| name.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let task = |(at, name): (usize, &&[u8])| {
        format!("  - {{name: t{at}, lock: {{key: {{hex: \"{}\"}}}}}}\n", hex(name))
    };
    // Redisson's names are text, so redis-cli writes this one.
    let bytes = "  - {name: bytes, lock: {key: {hex: \"fffe22\"}}}\n";
    let (Some(mut redisson), Some(server)) = (Redisson::start(test), RedisServer::start(test))
    else {
        return;
    };
    let tasks: String = names.iter().enumerate().map(task).chain([bytes.to_owned()]).collect();
    let agent = Agent::start(&config(&server, "200ms", &tasks));
    connect(&mut redisson, &server, "c1", 30_000);
    let watch = agent.watch();
    for name in names {
        redisson.run(&format!("lock c1 t1 {}", word(std::str::from_utf8(name).unwrap())));
    }
    server.cli(&["eval", "redis.call('hset', '\\255\\254\"', 'a\\255\"\\n:7', '1')", "0"]);
    let all: Vec<String> =
        (0..names.len()).map(|at| format!("t{at}")).chain(["bytes".to_owned()]).collect();
    let page = agent.until(PATIENCE, "all are held", |page| {
        all.iter().all(|task| page.of(task, "lock_held") == Some(1.0))
    });
    let mut keys: Vec<String> =
        all.iter().map(|task| page.label(task, "task_info", "key").unwrap()).collect();
    assert!(keys.iter().all(|key| !key.contains(|letter: char| letter.is_control())), "{keys:?}");
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), all.len(), "{keys:?}");
    let landing = agent.text("/");
    assert_eq!(Element::parse(&landing).named("script").len(), 1, "only our own");
    for task in &all {
        assert!(agent.task(task)["lock"]["hold"].is_object());
    }
    assert!(agent.log().lines().all(|line| line.starts_with("ts=")), "{}", agent.log());
    watch.stop();
}
