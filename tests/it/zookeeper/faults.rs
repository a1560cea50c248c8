//! What servers of an ensemble do to the tasks that are watched in it.

use std::time::{Duration, Instant};

use super::{LONG_MS, Scene, agent, problems, verdicts};
use crate::support::agent::{Agent, Watch};
use crate::support::exposition::Exposition;
use crate::support::proxy::{self, Proxy};
use crate::support::zookeeper::{Clients, Ensemble, Setup};
use crate::support::{PATIENCE, wait_until};

const TASKS: &str = "
  - {name: held, zookeeper: zk, lock: {path: /held, library: kazoo}, wanted: always, grace: 1s, settle: 500ms, blind_after: 3s}
  - {name: late, zookeeper: zk, lock: {path: /late, library: kazoo}, wanted: always, grace: 1s, settle: 500ms, blind_after: 3s}
";

/// What may happen to a server.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Stop,
    Freeze,
}

const FAULTS: [Fault; 3] = [Fault::Kill, Fault::Stop, Fault::Freeze];

/// Three servers, and a client that holds the lock of the task `held`.
struct Three {
    scene: Scene,
    kazoo: Clients,
    session: String,
}

impl Three {
    fn open(test: &str) -> Option<Three> {
        let ensemble = Ensemble::start(test, Setup::of(3))?;
        let mut kazoo = Clients::kazoo(test, &ensemble)?;
        let session = kazoo.session("one", LONG_MS);
        kazoo.run_command("take one first lock /held web-1");
        kazoo.event("held", "first");
        // The agent never sees a gap.
        let scene = Scene { agent: agent(&ensemble, TASKS), ensemble };
        let three = Three { scene, kazoo, session };
        three.is_well();
        Some(three)
    }

    fn harm(&mut self, at: usize, fault: Fault) {
        match fault {
            Fault::Kill => self.scene.ensemble.kill(at),
            Fault::Stop => self.scene.ensemble.stop(at),
            Fault::Freeze => self.scene.ensemble.freeze(at),
        }
    }

    fn mend(&mut self, at: usize, fault: Fault) {
        match fault {
            Fault::Freeze => self.scene.ensemble.thaw(at),
            Fault::Kill | Fault::Stop => self.scene.ensemble.spawn(at),
        }
        self.scene.ensemble.until_serving(at);
    }

    /// Waits until the lock is shown as it is.
    #[track_caller]
    fn is_well(&self) {
        self.scene.until_held("held", &[&self.session], 0);
        self.scene.until("held", "running");
    }

    /// The task was shown as running or unknown, and nothing was ever wrong with it.
    #[track_caller]
    fn was_never_down(&self, watch: Watch, what: &str) {
        let pages = watch.stop();
        let shown = verdicts(&pages, "held");
        eprintln!("{what}: {shown:?}");
        assert!(
            shown.iter().all(|verdict| ["running", "unknown"].contains(&&**verdict)),
            "{what}: {shown:?}\n{}",
            self.scene.agent.log()
        );
        for page in &pages {
            let bad: Vec<String> = problems(page, "task", "held")
                .into_iter()
                .filter(|problem| problem == "down" || problem == "split")
                .collect();
            assert_eq!(bad, Vec::<String>::new(), "{what}");
        }
        assert_eq!(handovers(pages.last().unwrap()), handovers(&pages[0]), "{what}");
    }
}

/// Gaps of the task `held` that ended.
fn handovers(page: &Exposition) -> Option<f64> {
    page.of("held", "task_handovers_total")
}

#[test]
fn servers_that_die_or_hang_make_no_task_down() {
    let test = "zookeeper::faults::servers_that_die_or_hang_make_no_task_down";
    let Some(mut three) = Three::open(test) else { return };

    let watch = three.scene.agent.watch();
    let leader = three.scene.ensemble.leader();
    three.scene.ensemble.kill(leader);
    three.scene.ensemble.leader();
    three.is_well();
    three.scene.ensemble.start_again(leader);
    three.was_never_down(watch, "the leader was killed");

    let watch = three.scene.agent.watch();
    let server = three.scene.server_of("held");
    three.scene.ensemble.kill(server);
    wait_until(PATIENCE, "another server", || three.scene.server_of("held") != server);
    three.is_well();
    three.scene.ensemble.start_again(server);
    three.was_never_down(watch, "the server of the session was killed");

    let watch = three.scene.agent.watch();
    for at in 0..three.scene.ensemble.len() {
        three.scene.ensemble.stop(at);
        three.scene.ensemble.start_again(at);
        three.scene.ensemble.leader();
    }
    three.is_well();
    three.was_never_down(watch, "a rolling restart");
}

/// One server after the other dies, ends or hangs for a while. What is held stays so; and what was
/// released meanwhile is down, though a server fails.
#[test]
fn faults_at_random_give_no_false_alert_and_hide_none() {
    let test = "zookeeper::faults::faults_at_random_give_no_false_alert_and_hide_none";
    let rounds = std::env::var("ENSEMBLE_FAULTS").map_or(2, |count| count.parse().unwrap());
    let Some(mut three) = Three::open(test) else { return };
    for round in 0..rounds {
        let (at, fault) = (fastrand::usize(0..3), fastrand::choice(FAULTS).unwrap());
        let lasts = Duration::from_millis(fastrand::u64(0..6_000));
        let is_leader = three.scene.ensemble.leader() == at;
        let what = format!("{round}: {fault:?} of {at} (leads: {is_leader}) for {lasts:?}");
        let watch = three.scene.agent.watch();
        three.harm(at, fault);
        three.scene.agent.throughout(lasts, &what, |view| view.page.verdict("held") != "down");
        three.mend(at, fault);
        three.is_well();
        three.was_never_down(watch, &what);

        let before = handovers(&three.scene.agent.page());
        three.harm(at, fault);
        three.kazoo.run_command("release first");
        three.kazoo.event("released", "first");
        let released = Instant::now();
        three.scene.until("held", "down");
        eprintln!("down {:?} after the release", released.elapsed());
        three.kazoo.run_command("take one first lock /held web-1");
        three.kazoo.event("held", "first");
        three.is_well();
        three.mend(at, fault);
        three.scene.agent.until(PATIENCE, "settled", |page| handovers(page) > before);
    }
}

/// While the leader is frozen another one is elected, and a lock is taken. What the old one answers
/// when it wakes is of the past.
#[test]
fn a_frozen_leader_shows_nothing_of_the_past() {
    let test = "zookeeper::faults::a_frozen_leader_shows_nothing_of_the_past";
    let Some(mut three) = Three::open(test) else { return };
    three.scene.until("late", "down");
    let old = three.scene.ensemble.leader();
    // One agent that may only ask the frozen server.
    let only_old = three.scene.ensemble.config_of(old, ", interval: 500ms, timeout: 2s");
    let partial = Agent::start(&format!("{only_old}tasks:\n{TASKS}"));
    partial.until(PATIENCE, "running", |page| page.verdict("held") == "running");
    let (watch, of_partial) = (three.scene.agent.watch(), partial.watch());
    let frozen = Instant::now();
    three.scene.ensemble.freeze(old);
    let mut new = old;
    wait_until(PATIENCE, "another leader", || {
        let others = (0..3).filter(|at| *at != old);
        new = others
            .into_iter()
            .find(|at| three.scene.ensemble.mode(*at).as_deref() == Some("leader"))
            .unwrap_or(old);
        new != old
    });
    three.kazoo.run_command("take one second lock /late web-1");
    three.kazoo.event("held", "second");
    three.scene.until("late", "running");
    eprintln!("frozen for {:?}", frozen.elapsed());
    // As long as the old one believes that it leads.
    let late = three.scene.agent.watch();
    three.scene.ensemble.thaw(old);
    wait_until(PATIENCE, "the old one follows", || {
        three.scene.ensemble.mode(old).as_deref() == Some("follower")
    });
    partial.until(PATIENCE, "running", |page| page.verdict("late") == "running");
    three.is_well();
    three.was_never_down(watch, "the leader was frozen");
    let pages = late.stop();
    let shown = verdicts(&pages, "late");
    assert!(
        !shown.contains(&"down".to_owned()) && !shown.contains(&"pending".to_owned()),
        "{shown:?}"
    );
    let pages = of_partial.stop();
    let shown = verdicts(&pages, "held");
    eprintln!("with the old leader alone: {shown:?}");
    assert!(shown.iter().all(|verdict| ["running", "unknown"].contains(&&**verdict)), "{shown:?}");
}

#[test]
fn without_a_majority_all_is_unknown() {
    let test = "zookeeper::faults::without_a_majority_all_is_unknown";
    let Some(mut three) = Three::open(test) else { return };
    three.scene.until("late", "down");
    let watch = three.scene.agent.watch();
    let stay = three.scene.server_of("held");
    let others: Vec<usize> = (0..3).filter(|at| *at != stay).collect();
    for at in &others {
        three.scene.ensemble.kill(*at);
    }
    let page = three
        .scene
        .agent
        .until(PATIENCE, "unreachable", |page| problems(page, "store", "zk") == ["unreachable"]);
    assert_eq!(problems(&page, "task", "held"), Vec::<String>::new());
    assert_eq!(page.verdict("held"), "unknown");
    let view =
        three.scene.agent.until_view(PATIENCE, "why", |view| view.reason("held") == Some("quorum"));
    assert_eq!(view.page.verdict("held"), "unknown");
    for at in &others {
        three.scene.ensemble.spawn(*at);
    }
    three.is_well();
    three.was_never_down(watch, "two of three were killed");
    three.scene.until("late", "down");
}

/// The network between the agent and its server swallows all replies, then that of the other one, too.
#[test]
fn a_network_that_swallows_replies_makes_no_task_down() {
    let test = "zookeeper::faults::a_network_that_swallows_replies_makes_no_task_down";
    let Some(ensemble) = Ensemble::start(test, Setup::of(1)) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &ensemble) else { return };
    kazoo.session("one", LONG_MS);
    kazoo.run_command("take one first lock /held web-1");
    kazoo.event("held", "first");
    let proxies = [0, 1].map(|_| Proxy::start(ensemble.port(0)));
    let servers = proxies.each_ref().map(|proxy| format!("\"127.0.0.1:{}\"", proxy.port));
    let agent = Agent::start(&format!(
        "zookeeper:\n  zk: {{servers: [{}], interval: 500ms, timeout: 1s}}\ntasks:\n{TASKS}",
        servers.join(", ")
    ));
    agent.until(PATIENCE, "running", |page| page.verdict("held") == "running");
    let watch = agent.watch();
    let node = agent.task("held")["node"].as_str().unwrap().to_owned();
    let at = usize::from(!node.ends_with(&proxies[0].port.to_string()));
    proxies[at].set(proxy::Fault::SwallowReplies);
    wait_until(PATIENCE, "the other way", || agent.task("held")["node"] != node.as_str());
    proxies[1 - at].set(proxy::Fault::SwallowReplies);
    agent.until_view(PATIENCE, "timeout", |view| view.reason("held") == Some("timeout"));
    agent.until(PATIENCE, "unknown", |page| {
        page.verdict("held") == "unknown" && page.verdict("late") == "unknown"
    });
    proxies.iter().for_each(|proxy| proxy.set(proxy::Fault::None));
    proxies.iter().for_each(Proxy::cut);
    agent.until(PATIENCE, "running", |page| page.verdict("held") == "running");
    let shown = verdicts(&watch.stop(), "held");
    assert_eq!(shown, ["running", "unknown", "running"]);
}

/// The servers come back with an old copy of their data, as from a backup: one lock is held in it, and
/// one that was taken since is not.
#[test]
fn data_that_went_back_are_lost_data() {
    let test = "zookeeper::faults::data_that_went_back_are_lost_data";
    let Some(mut three) = Three::open(test) else { return };
    let changes = |page: &Exposition| {
        page.get("lockwatch_store_generation_changes_total", &[("store", "zk")]).unwrap()
    };
    let watch = three.scene.agent.watch();
    three.scene.ensemble.back_up();
    three.scene.ensemble.start_all();
    three.is_well();
    three.kazoo.session("two", LONG_MS);
    three.kazoo.run_command("take two second lock /late web-1");
    three.scene.until("late", "running");
    for number in 0..100 {
        three.kazoo.run_command(&format!("create two /later-{number} -"));
    }
    let written = three.scene.agent.page();
    three.scene.ensemble.restore();
    three.scene.ensemble.start_all();
    three.scene.agent.until(PATIENCE, "other data", |page| changes(page) > changes(&written));
    three.scene.agent.until(PATIENCE, "held", |page| page.of("held", "lock_held") == Some(1.0));
    three.was_never_down(watch, "a backup was restored");
    three.scene.until("late", "down");
}
