//! Kazoo's locks on one server.

use std::time::{Duration, Instant};

use super::{LONG_MS, SHORT_MS, Scene, problems, verdicts};
use crate::support::PATIENCE;
use crate::support::zookeeper::{Clients, Setup};

const TASKS: &str = "
  - {name: lock, zookeeper: zk, lock: {path: /lock, library: kazoo}, wanted: always, grace: 1s, settle: 500ms}
  - {name: unwanted, zookeeper: zk, lock: {path: /unwanted, library: kazoo}}
  - {name: shared, zookeeper: zk, lock: {path: /shared, library: kazoo}, grace: 1s}
  - {name: elected, zookeeper: zk, lock: {path: /elected, library: kazoo}}
";

/// The life of a lock: nobody ever had it, held with a waiter behind, handed over, released, held
/// again.
#[test]
fn a_lock_is_shown_as_it_is() {
    shown_as_it_is("zookeeper::kazoo::a_lock_is_shown_as_it_is", Setup::of(1));
}

#[test]
fn a_lock_in_a_newer_server_is_shown_as_it_is() {
    let setup = Setup { is_newer: true, ..Setup::of(1) };
    shown_as_it_is("zookeeper::kazoo::a_lock_in_a_newer_server_is_shown_as_it_is", setup);
}

fn shown_as_it_is(test: &str, setup: Setup) {
    let Some(scene) = Scene::open(test, setup, TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    // The folder is missing.
    scene.until("lock", "down");
    scene.until("unwanted", "stopped");
    let [one, two] = ["one", "two"].map(|name| kazoo.session(name, LONG_MS));

    kazoo.run_command("take one first lock /lock web-1");
    kazoo.event("held", "first");
    scene.until("lock", "running");
    scene.until_held("lock", &[&one], 0);
    let page = scene.agent.page();
    assert_eq!(page.label("lock", "lock_holder", "holder_host").as_deref(), Some("web-1"));
    assert_eq!(page.of("lock", "lock_ttl_seconds"), Some(f64::INFINITY));

    kazoo.run_command("take two second lock /lock web-2");
    scene.until_held("lock", &[&one], 1);
    let watch = scene.agent.watch();
    kazoo.run_command("release first");
    kazoo.event("held", "second");
    scene.until_held("lock", &[&two], 0);
    let page = scene.agent.page();
    assert_eq!(page.label("lock", "lock_holder", "holder_host").as_deref(), Some("web-2"));
    assert_eq!(verdicts(&watch.stop(), "lock"), ["running"]);

    let watch = scene.agent.watch();
    kazoo.run_command("release second");
    scene.until("lock", "down");
    kazoo.run_command("take one third lock /lock web-1");
    scene.until_held("lock", &[&one], 0);
    scene.until("lock", "running");
    let pages = watch.stop();
    let shown = verdicts(&pages, "lock");
    assert_eq!(shown, ["running", "pending", "down", "running"]);
    assert!(!verdicts(&pages, "unwanted").contains(&"down".to_owned()));
    let of_unwanted = pages.iter().flat_map(|page| problems(page, "task", "unwanted"));
    assert_eq!(of_unwanted.collect::<Vec<_>>(), Vec::<String>::new());
}

/// Readers share a lock and keep writers out; an election has one winner.
#[test]
fn readers_writers_and_candidates_are_shown() {
    let test = "zookeeper::kazoo::readers_writers_and_candidates_are_shown";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    let [one, two, three] = ["one", "two", "three"].map(|name| kazoo.session(name, LONG_MS));
    kazoo.run_command("take one r1 read /shared a");
    kazoo.event("held", "r1");
    kazoo.run_command("take two r2 read /shared b");
    kazoo.event("held", "r2");
    scene.until_held("shared", &[&one, &two], 0);
    kazoo.run_command("take three w write /shared c");
    scene.until_held("shared", &[&one, &two], 1);
    kazoo.run_command("release r1");
    scene.until_held("shared", &[&two], 1);
    kazoo.run_command("release r2");
    kazoo.event("held", "w");
    scene.until_held("shared", &[&three], 0);

    kazoo.run_command("take one e1 election /elected a");
    kazoo.event("held", "e1");
    kazoo.run_command("take two e2 election /elected b");
    scene.until_held("elected", &[&one], 1);
    kazoo.run_command("release e1");
    kazoo.event("held", "e2");
    scene.until_held("elected", &[&two], 0);
}

/// A holder's process is killed: its session, and with it the lock, ends after its timeout. One that
/// closes its session is gone at once.
#[test]
fn a_killed_holder_keeps_the_lock_until_its_session_ends() {
    let test = "zookeeper::kazoo::a_killed_holder_keeps_the_lock_until_its_session_ends";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut doomed) = Clients::kazoo(test, &scene.ensemble) else { return };
    let Some(mut heir) = Clients::kazoo(test, &scene.ensemble) else { return };
    let one = doomed.session("one", SHORT_MS);
    doomed.run_command("take one first lock /lock web-1");
    doomed.event("held", "first");
    scene.until_held("lock", &[&one], 0);
    scene.until("lock", "running");
    let watch = scene.agent.watch();
    doomed.kill();
    let killed = Instant::now();
    scene.agent.until(PATIENCE, "free", |page| page.of("lock", "lock_held") == Some(0.0));
    let lasted = killed.elapsed();
    // It was heard of last at most a third of the timeout ago; the server counts in ticks.
    let expected =
        Duration::from_millis(SHORT_MS * 2 / 3 - 300)..Duration::from_millis(SHORT_MS + 2_500);
    assert!(expected.contains(&lasted), "{lasted:?}");
    scene.until("lock", "down");
    let two = heir.session("two", LONG_MS);
    heir.run_command("take two second lock /lock web-2");
    scene.until_held("lock", &[&two], 0);
    scene.until("lock", "running");
    let pages = watch.stop();
    assert_eq!(verdicts(&pages, "lock"), ["running", "pending", "down", "running"]);

    // In order: at once.
    let closing = Instant::now();
    heir.run_command("close two");
    scene.agent.until(PATIENCE, "free", |page| page.of("lock", "lock_held") == Some(0.0));
    assert!(closing.elapsed() < Duration::from_millis(SHORT_MS), "{:?}", closing.elapsed());
}
