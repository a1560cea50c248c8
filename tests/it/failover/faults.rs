//! Sentinels that are gone, lie, require passwords, or name servers that must not or cannot be
//! dialled.

use crate::support::PATIENCE;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::*;
use crate::support::network::Options;
use crate::support::redis::Keep;
use crate::support::sentinels::SentinelOptions;
use crate::support::standstill::Standstills;
use crate::support::truth::rule;
use crate::support::view::View;

const RIGHT: &str = "sesame-of-the-sentinels";
const WRONG: &str = "mistaken-sesame";
const SERVERS: &str = "sesame-of-the-servers";
const WATCHER: &str = "sesame-of-the-watcher";
const LOGIN: &str = ", username: watcher, password_env: WATCHER";

fn readable(page: &Exposition) -> bool {
    page.get("lockwatch_store_readable", &[]) == Some(1.0)
        && page.of(TASK, "lock_held") == Some(1.0)
}

/// A server that accepts connections and counts those that are not from a Sentinel.
struct Trap {
    port: u16,
    caught: Arc<AtomicUsize>,
}

impl Trap {
    fn set() -> Trap {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (port, caught) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&caught);
        // The thread lives as long as the test binary.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let agents = stream
                    .peer_addr()
                    .is_ok_and(|peer| peer.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST));
                counted.fetch_add(usize::from(agents), Ordering::SeqCst);
            }
        });
        Trap { port, caught }
    }
}

#[test]
fn a_majority_of_the_configured_sentinels_is_needed() {
    let _rule = rule("1 evidence");
    let test = "failover::faults::a_majority_of_the_configured_sentinels_is_needed";
    let Some(mut sentinels) = Sentinels::start(test, &SentinelOptions::default()) else { return };
    switch_on(sentinels.server(0));
    let worker = Worker::take(sentinels.server(0).port, LOCK, A, Duration::from_secs(6));
    let standstills = Standstills::watch();
    let agent = Agent::start(&sentinel_config(&sentinels, "", &one_task("")));
    agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
    let agreeing = |page: &Exposition| page.get("lockwatch_store_sentinels_agreeing", &[]);
    // Two are a majority, so the third one may answer later than the first reading.
    agent.until(PATIENCE, "all three agree", |page| agreeing(page) == Some(3.0));
    let in_time = INTERVAL * 2 + Duration::from_secs(1);

    let watch = agent.watch();
    let expect_blind = |since: Instant| {
        agent.until_view(PATIENCE, "no majority", |view| {
            view.reason(TASK) == Some("quorum")
                && !readable(&view.page)
                && view.held(TASK).is_none()
        });
        let delay = standstills.ran_since(since);
        assert!(delay <= in_time, "blind after {delay:?}");
        let view = agent.view();
        agent.check(&view, "one event", view.json["stores"][0]["unknown"]["reason"] == "quorum");
    };
    let expect_sight = |since: Instant| {
        agent.until(PATIENCE, "read again", readable);
        let delay = standstills.ran_since(since);
        assert!(delay <= in_time, "read again after {delay:?}");
    };
    // One may be gone.
    sentinels.sentinel(0).pause();
    agent.throughout(INTERVAL * 4, "two are enough", |view| readable(&view.page));
    sentinels.sentinel(1).pause();
    expect_blind(Instant::now());
    let blind = |view: &View| !readable(&view.page) && view.held(TASK).is_none();
    agent.throughout(Duration::from_secs(3), "one is not enough", blind);
    sentinels.sentinel(0).go_on();
    expect_sight(Instant::now());
    sentinels.sentinel(1).go_on();
    agent.until(PATIENCE, "all agree", |page| agreeing(page) == Some(3.0));

    sentinels.sentinel_mut(1).kill();
    sentinels.sentinel_mut(2).kill();
    expect_blind(Instant::now());
    // Long enough for the backoff between dials to have grown.
    agent.throughout(Duration::from_secs(4), "one is not enough", blind);
    sentinels.sentinel_mut(1).restart(Keep::Files);
    expect_sight(Instant::now());
    sentinels.sentinel_mut(2).restart(Keep::Files);
    agent.until(PATIENCE, "all agree", |page| agreeing(page) == Some(3.0));
    let pages = watch.stop();
    assert_calm(&agent, &pages, "running");
    let lost = reported(&agent, "masters_changed", &["level=error", "reason=quorum"]);
    agent.check(
        pages.last().unwrap(),
        "reported twice, with a remedy",
        lost.len() == 2 && lost[0].contains("remedy="),
    );

    // A single lying Sentinel.
    let trap = Trap::set();
    sentinels.lie(2, trap.port);
    agent.until(PATIENCE, "one disagrees", |page| agreeing(page) == Some(2.0));
    agent.throughout(Duration::from_secs(2), "nothing changes", |view| {
        readable(&view.page) && view.verdict(TASK) == "running"
    });
    let view = agent.view();
    let said: Vec<&serde_json::Value> = view.json["stores"][0]["sentinels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["master"])
        .collect();
    agent.check(&view, "its word is shown", said[2] == &format!("127.0.0.1:{}", trap.port));
    assert_eq!(trap.caught.load(Ordering::SeqCst), 0, "the lie was dialled");
    // Checks the trap itself.
    drop(std::net::TcpStream::connect(("127.0.0.1", trap.port)).unwrap());
    wait_until(PATIENCE, "the trap catches", || trap.caught.load(Ordering::SeqCst) == 1);
    drop(worker);
}

/// No secret appears in any output.
#[track_caller]
fn assert_silent(agent: &Agent) {
    let shown = [agent.log(), agent.text("/metrics"), agent.text("/api/v1/tasks"), agent.text("/")]
        .concat();
    for secret in [RIGHT, WRONG, SERVERS, WATCHER] {
        assert!(!shown.contains(secret), "{secret} is shown:\n{shown}");
    }
}

/// Waits until the log has this text and the tasks are unknown for this reason.
#[track_caller]
fn expect_trouble(agent: &Agent, reason: &str, pieces: &[&str]) -> View {
    let view = agent.until_view(PATIENCE, reason, |view| {
        view.reason(TASK) == Some(reason) && !agent.log_lines(pieces).is_empty()
    });
    agent.throughout(INTERVAL * 3, reason, |view| {
        view.held(TASK).is_none() && view.reason(TASK) == Some(reason)
    });
    assert_silent(agent);
    view
}

#[test]
fn what_is_wrong_with_the_configuration_is_said() {
    let test = "failover::faults::what_is_wrong_with_the_configuration_is_said";
    // Without ROLE, the role is read from INFO.
    let watcher = "user watcher on >sesame-of-the-watcher ~* +@read +@connection +info +time";
    let servers = Options { password: Some(SERVERS), lines: vec![watcher], ..Options::default() };
    let options = SentinelOptions { servers, password: Some(RIGHT), ..SentinelOptions::default() };
    let Some(sentinels) = Sentinels::start(test, &options) else { return };
    let master = sentinels.server(0);
    switch_on(master);
    master.cli(&["hset", LOCK, A, "1"]);
    master.cli(&["pexpire", LOCK, "600000"]);
    sentinels.wait_settled();
    let announced = sentinels.members[0].announced();
    let with = |password: Option<&'static str>| {
        move |command: &mut Command| {
            command.env("WATCHER", WATCHER);
            command.envs(password.map(|password| ("SENTINEL", password)));
        }
    };
    let inner = ", password_env: SENTINEL";
    let config =
        |inner: &str| sentinel_config_at(&sentinels.addresses(), inner, LOGIN, &one_task(""));

    let agent = Agent::start_with(&config(inner), with(Some(RIGHT)));
    let page = agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
    let verified = page.get("lockwatch_store_role_verified", &[("server", &announced)]);
    agent.check(&page, "INFO tells the role", verified == Some(1.0));
    agent.until(PATIENCE, "the replicas too", |page| {
        page.series("lockwatch_store_up", &[]).values().filter(|up| **up == 1.0).count() == 3
            && page.get("lockwatch_store_masters", &[]) == Some(1.0)
    });
    assert_silent(&agent);
    drop(agent);

    let agent = Agent::start_with(&config(inner), with(Some(WRONG)));
    expect_trouble(
        &agent,
        "auth",
        &["a Sentinel names no master", "WRONGPASS", "sentinel.password"],
    );
    drop(agent);

    let agent = Agent::start_with(&config(""), with(None));
    expect_trouble(
        &agent,
        "no_password",
        &["a Sentinel names no master", "NOAUTH", "for a Sentinel in the block"],
    );
    drop(agent);

    let unknown = config(inner).replace(&format!("master: {MASTER}"), "master: nobody");
    let agent = Agent::start_with(&unknown, with(Some(RIGHT)));
    expect_trouble(
        &agent,
        "master_name",
        &["it knows no master called nobody; it knows: mymaster", "sentinel.master"],
    );
    drop(agent);

    // The Sentinels by host name, so that the configuration itself does not name the servers'
    // address.
    let by_name: Vec<String> =
        sentinels.addresses().iter().map(|at| at.replace("127.0.0.1", "localhost")).collect();
    let forbidden = sentinel_config_at(
        &by_name,
        &format!("{inner}, allow_peers: [10.0.0.0/8]"),
        LOGIN,
        &one_task(""),
    );
    let agent = Agent::start_with(&forbidden, with(Some(RIGHT)));
    expect_trouble(&agent, "foreign_address", &[&announced, "not allowed", "allow_peers"]);
    let clients: String =
        (0..3).map(|server| sentinels.server(server).cli(&["client", "list"])).collect();
    assert!(
        !clients.contains("user=watcher") && !clients.contains("name=lockwatch"),
        "dialled: {clients}"
    );
    assert!(agent.log_lines(&["connected", "node="]).is_empty(), "{}", agent.log());
    assert_eq!(agent.log_lines(&["not allowed"]).len(), 1, "{}", agent.log());
    drop(agent);

    // As behind NAT.
    sentinels.hide_announced();
    let direct: Vec<String> = (0..3).map(|index| sentinels.sentinel(index).address()).collect();
    let config = |inner: &str| sentinel_config_at(&direct, inner, LOGIN, &one_task(""));
    let agent = Agent::start_with(&config(inner), with(Some(RIGHT)));
    let view = expect_trouble(&agent, "timeout", &["cannot connect", &announced]);
    agent.check(&view, "not readable", view.page.get("lockwatch_store_readable", &[]) == Some(0.0));
    drop(agent);
    let pairs = sentinels.members[..3]
        .iter()
        .map(|member| format!("\"{}\": \"{}\"", member.announced(), member.server.address()));
    let map = format!("{inner}, announce_map: {{{}}}", pairs.collect::<Vec<_>>().join(", "));
    let agent = Agent::start_with(&config(&map), with(Some(RIGHT)));
    let view = agent.until_view(PATIENCE, "running", |view| view.verdict(TASK) == "running");
    agent.check(
        &view,
        "the reachable address is shown",
        view.task(TASK)["node"] == *master.address(),
    );
    assert_silent(&agent);
}

#[test]
fn a_reload_keeps_what_is_known() {
    let test = "failover::faults::a_reload_keeps_what_is_known";
    let Some(sentinels) = Sentinels::start(test, &SentinelOptions::default()) else { return };
    let master = sentinels.server(0);
    switch_on(master);
    let worker = Worker::take(master.port, LOCK, A, Duration::from_secs(6));
    let url = format!(
        "redis:\n  main: {{url: \"redis://{}\", interval: 300ms, timeout: 1s}}\ntasks:\n{}",
        sentinels.members[0].announced(),
        one_task("")
    );
    let agent = Agent::start(&url);
    agent.until(PATIENCE, "running", |page| page.verdict(TASK) == "running");
    let reload = |config: &str, loaded: usize| {
        agent.write_config(config);
        agent.signal("HUP");
        agent.until(PATIENCE, "reloaded", |_| {
            agent.log_lines(&["configuration reloaded"]).len() == loaded
        });
    };
    let config = sentinel_config(&sentinels, "", &one_task(""));
    // Other servers: the state of the redis starts again, but the state of the task is kept.
    reload(&config, 1);
    agent.until(PATIENCE, "the Sentinels agree", |page| {
        page.get("lockwatch_store_sentinels_agreeing", &[]) == Some(3.0)
            && readable(page)
            && page.series("lockwatch_store_up", &[]).values().filter(|up| **up == 1.0).count() == 3
    });
    let watch = agent.watch();
    let connected = || agent.log_lines(&[" msg=connected "]).len();
    let before = connected();

    let more = task("second", "second:lock", "");
    reload(&(config.clone() + &more), 2);
    agent.until(PATIENCE, "the new task is read", |page| {
        page.of("second", "lock_held") == Some(0.0)
    });
    reload(&(config.replace("interval: 300ms", "interval: 200ms") + &more), 3);
    agent.until(PATIENCE, "sampled faster", |page| {
        page.get("lockwatch_store_sentinels_agreeing", &[]) == Some(3.0) && readable(page)
    });
    agent.throughout(Duration::from_secs(2), "it goes on", |view| {
        readable(&view.page) && view.of_task(TASK, "blind_seconds") == 0.0
    });
    let page = agent.page();
    agent.check(&page, "the connections were kept", connected() == before);
    let pages = watch.stop();
    assert_calm(&agent, &pages, "running");
    let last = pages.last().unwrap();
    let verdicts = reported(&agent, "verdict", &[&format!(" task={TASK} ")]);
    let known = last.of(TASK, "lock_acquisitions_total") == Some(0.0) && verdicts.len() == 1;
    agent.check(last, "the hold is still the one of the beginning", known);
    drop(worker);
}
