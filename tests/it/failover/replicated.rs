//! A master and a replica without Sentinel: the server that reports itself as master decides.

use crate::support::PATIENCE;
use std::time::Instant;

use super::*;
use crate::support::network::Options;
use crate::support::redis::Keep;
use crate::support::replicas::Replicated;
use crate::support::standstill::Standstills;
use crate::support::truth::rule;

fn start(test: &str) -> Option<Replicated> {
    Replicated::start(&format!("failover::replicated::{test}"), 1, &Options::default())
}

fn addresses(replicated: &Replicated) -> Vec<String> {
    replicated.members.iter().map(|member| member.server.address()).collect()
}

fn decides(page: &Exposition, address: &str) -> bool {
    page.get("lockwatch_store_decides", &[("server", address)]) == Some(1.0)
}

#[test]
fn the_server_that_says_master_decides() {
    let Some(replicated) = start("the_server_that_says_master_decides") else { return };
    let (first, second) = (replicated.server(0), replicated.server(1));
    switch_on(first);
    let a = Worker::take(first.port, LOCK, A, Duration::from_secs(6));
    replicated.wait_in_sync(0);
    let standstills = Standstills::watch();
    let agent = Agent::start(&nodes_config(&addresses(&replicated), &one_task(", grace: 60s")));
    agent.until(PATIENCE, "running", |page| {
        page.verdict(TASK) == "running" && decides(page, &first.address())
    });

    // Both show the same holder until the copy expires.
    replicated.promote(1);
    let promoted = Instant::now();
    agent.until(PATIENCE, "a rival", |page| page.get("lockwatch_store_masters", &[]) == Some(2.0));
    agent.until_view(PATIENCE, "the rival shows the same holder", |view| {
        let witness = &view.task(TASK)["witnesses"][0];
        witness["role"] == "master" && witness["holders"][0]["holder"] == name(A)
    });
    assert!(promoted.elapsed() < Duration::from_secs(3), "the copy lasts");
    agent.throughout(Duration::from_secs(1), "held", |view| view.verdict(TASK) == "running");
    let rival =
        reported(&agent, "rival_master", &["level=warn", &format!("node={}", second.address())]);
    let page = agent.page();
    agent.check(&page, "a rival and no split", rival.len() == 1 && all_splits(&page) == 0.0);

    // Another holder on the rival master.
    let b = Worker::take(second.port, LOCK, B, Duration::from_secs(3));
    let visible = Instant::now();
    agent.until(PATIENCE, "split", |page| page.verdict(TASK) == "split");
    let delay = standstills.ran_since(visible);
    assert!(delay <= REPORTED_WITHIN, "reported after {delay:?}");
    let at =
        |holder: &str, server: &RedisServer| format!("{} at {}", name(holder), server.address());
    let began = reported(&agent, "split_began", &["reason=masters", &at(A, first), &at(B, second)]);
    agent.check(&agent.page(), "both are named", began.len() == 1);

    // Free on the deciding server, but the other one may be right.
    a.release();
    agent.until_view(PATIENCE, "unknown", |view| view.reason(TASK) == Some("two_masters"));
    agent.throughout(Duration::from_secs(1), "neither held nor free", |view| {
        // The previous verdict stays, without the evidence for a split.
        let over = view.of_task(TASK, "split_seconds") == 0.0
            && view.task(TASK)["splits"] == serde_json::json!([]);
        view.held(TASK).is_none() && view.verdict(TASK) == "split" && over
    });
    agent.check(
        &agent.page(),
        "the split is over",
        reported(&agent, "split_ended", &["reason=masters"]).len() == 1,
    );

    // One of the masters is demoted.
    replicated.follow(0, 1);
    let followed = Instant::now();
    agent.until(PATIENCE, "the other one decides", |page| {
        decides(page, &second.address())
            && page.of(TASK, "lock_held") == Some(1.0)
            && page.verdict(TASK) == "running"
    });
    let delay = standstills.ran_since(followed);
    assert!(delay <= INTERVAL + Duration::from_secs(1), "followed after {delay:?}");
    assert_eq!(reported(&agent, "rival_master_gone", &[]).len(), 1, "{}", agent.log());
    replicated.wait_in_sync(1);

    // A lossless handover, and back.
    let before = agent.page();
    replicated.hand_over(1, 0);
    b.follow(first.port);
    agent.until(PATIENCE, "it decides again", |page| {
        decides(page, &first.address()) && fared(page, "kept") == fared(&before, "kept") + 1.0
    });
    let page = agent.page();
    agent.check(
        &page,
        "running on",
        page.verdict(TASK) == "running" && splits(&page, "masters") == 1.0,
    );

    // No server reports itself as master.
    replicated.follow(0, 1);
    agent.until_view(PATIENCE, "nobody decides", |view| view.reason(TASK) == Some("no_master"));
    let page = agent.page();
    let unreadable = page.get("lockwatch_store_readable", &[]) == Some(0.0)
        && page.of(TASK, "lock_held").is_none();
    agent.check(&page, "not readable", unreadable);
    replicated.promote(1);
    agent.until(PATIENCE, "somebody decides", |page| {
        decides(page, &second.address()) && page.get("lockwatch_store_readable", &[]) == Some(1.0)
    });
    drop(b);
}

/// A replica may show a lock that has expired.
#[test]
fn a_replica_never_decides() {
    let _rule = rule("1 evidence");
    let Some(replicated) = start("a_replica_never_decides") else { return };
    let (master, replica) = (replicated.server(0), replicated.server(1));
    switch_on(master);
    let a = Worker::take(master.port, LOCK, A, Duration::from_secs(3));
    replicated.wait_in_sync(0);
    // Configured as if it were the only server.
    let config = |address: &str| {
        let tasks = one_task(", blind_after: 3s, settle: 1s");
        format!(
            "redis:\n  main: {{url: \"redis://{address}\", interval: 300ms, timeout: 500ms}}\n\
             tasks:\n{tasks}"
        )
    };
    let single = Agent::start(&config(&replica.address()));
    single.until_view(PATIENCE, "no master", |view| view.reason(TASK) == Some("not_master"));

    let list = nodes_config(&addresses(&replicated), &one_task(", blind_after: 3s, settle: 1s"));
    let agent = Agent::start(&list);
    agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
    agent.until(PATIENCE, "the replica is up to date", |page| {
        page.get("lockwatch_store_locks_behind", &[("server", &replica.address())]) == Some(0.0)
    });
    // No renewals any more: the replica knows when the lease ends.
    let watch = agent.watch();
    master.pause();
    drop(a);
    let frozen = Instant::now();
    wait_until(PATIENCE, "the replica shows a lock that is over", || {
        replica.cli(&["exists", LOCK]) == "0"
    });
    agent.until_view(PATIENCE, "unknown", |view| {
        view.verdict(TASK) == "unknown" && view.reason(TASK) == Some("no_master")
    });
    assert!(frozen.elapsed() > Duration::from_secs(2));
    std::thread::sleep(Duration::from_secs(1));
    let pages = watch.stop();
    for page in &pages {
        agent.check(page, "never free", page.of(TASK, "lock_held") != Some(0.0));
        agent.check(page, "no gap", page.of(TASK, "task_down_seconds") == Some(0.0));
    }
    master.go_on();
    agent.until(PATIENCE, "free", |page| page.of(TASK, "lock_held") == Some(0.0));
    let view = single.view();
    single.check(
        &view,
        "still unknown",
        view.verdict(TASK) == "unknown" && view.held(TASK).is_none(),
    );
}

#[test]
fn one_server_by_two_names_is_one() {
    let test = "failover::replicated::one_server_by_two_names_is_one";
    let Some(mut server) = RedisServer::start(test) else { return };
    switch_on(&server);
    let a = Worker::take(server.port, LOCK, A, Duration::from_secs(12));
    let names = [format!("127.0.0.1:{}", server.port), format!("localhost:{}", server.port)];
    let agent = Agent::start(&nodes_config(&names, &one_task("")));
    agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
    agent.throughout(Duration::from_secs(2), "one master", |view| {
        let masters = view.page.get("lockwatch_store_masters", &[]);
        view.verdict(TASK) == "running" && masters == Some(1.0)
    });
    let page = agent.page();
    agent.check(
        &page,
        "no rival",
        reported(&agent, "rival_master", &[]).is_empty() && all_splits(&page) == 0.0,
    );

    // The server is down for a moment and comes back empty.
    drop(a);
    server.kill();
    agent.until_view(PATIENCE, "nobody decides", |view| view.reason(TASK) == Some("no_master"));
    server.restart(Keep::Nothing);
    let lost = |page: &Exposition| {
        page.ends(TASK, "lost") == 1.0 && page.of(TASK, "lock_lost_total") == Some(1.0)
    };
    agent.until(PATIENCE, "lost", |page| lost(page) && fared(page, "lost") == 1.0);
    let page = agent.until(PATIENCE, "the switch as well", |page| {
        page.of(TASK, "task_switches_lost_seconds").unwrap() > 0.0
            && page.verdict(TASK) == "pending"
    });
    // The name that answers first decides. Under its own name the server has restarted, otherwise
    // another server took over.
    let settled = reported(&agent, "generation_settled", &["0 kept, 1 lost", "level=warn"]);
    agent.check(
        &page,
        "one summary",
        settled.len() == 1 && reported(&agent, "generation_settled", &[]).len() == 1,
    );
    agent.check(&page, "no split", all_splits(&page) == 0.0);
    let down = reported(&agent, "redis_down", &[&names[0]]);
    agent.check(&page, &format!("down once: {down:?}"), down.len() == 1);
}

/// Independent masters, as Redlock uses them: two of three have the winner's token, one that of a
/// loser that crashed.
#[test]
fn servers_that_never_replicated_are_refused() {
    let _rule = rule("12 two holders");
    let test = "failover::replicated::servers_that_never_replicated_are_refused";
    let servers: Vec<RedisServer> = (0..3).map_while(|_| RedisServer::start(test)).collect();
    if servers.len() < 3 {
        return;
    }
    for (server, token) in servers.iter().zip(["token-A", "token-A", "token-B"]) {
        server.cli(&["set", LOCK, token, "px", "600000"]);
    }
    let task = format!("  - {{name: {TASK}, lock: {{key: \"{LOCK}\", library: string}}}}\n");
    let addresses: Vec<String> = servers.iter().map(RedisServer::address).collect();
    let agent = Agent::start(&nodes_config(&addresses, &task));
    agent.until_view(PATIENCE, "refused", |view| view.reason(TASK) == Some("unrelated"));
    agent.throughout(INTERVAL * 8, "nothing is said of the lock", |view| {
        view.verdict(TASK) == "unknown" && view.held(TASK).is_none()
    });
    let page = agent.page();
    agent.check(&page, "no rival and no split", all_splits(&page) == 0.0);
    assert_eq!(reported(&agent, "unrelated_servers", &["level=error"]).len(), 1, "{}", agent.log());
    assert_eq!(reported(&agent, "rival_master", &[]).len(), 0, "{}", agent.log());
    assert!(!agent.log().contains("REPLICAOF"), "that would delete what the others hold");

    // Once they are a master and its replicas, they are read.
    for replica in &servers[1..] {
        replica.cli(&["replicaof", "127.0.0.1", &servers[0].port.to_string()]);
    }
    agent.until_view(PATIENCE, "read", |view| view.held(TASK) == Some(1.0));
}
