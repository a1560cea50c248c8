//! Curator's locks on one server.

use super::{LONG_MS, Scene};
use crate::support::zookeeper::{Clients, Setup};

const TASKS: &str = "
  - {name: mutex, zookeeper: zk, lock: {path: /mutex, library: curator}}
  - {name: latch, zookeeper: zk, lock: {path: /latch, library: curator}}
  - {name: selector, zookeeper: zk, lock: {path: /selector, library: curator}}
  - {name: shared, zookeeper: zk, lock: {path: /shared, library: curator}}
  - {name: blocked, zookeeper: zk, lock: {path: /blocked, library: curator}, wanted: always, grace: 1s, settle: 500ms}
";

#[test]
fn every_recipe_is_shown_as_it_is() {
    let test = "zookeeper::curator::every_recipe_is_shown_as_it_is";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut curator) = Clients::curator(test, &scene.ensemble) else { return };
    let [one, two, three] = ["one", "two", "three"].map(|name| curator.session(name, LONG_MS));

    for recipe in ["mutex", "latch", "selector"] {
        let kind = recipe;
        curator.run_command(&format!("take one {recipe}-1 {kind} /{recipe} web-1"));
        curator.event("held", &format!("{recipe}-1"));
        scene.until_held(recipe, &[&one], 0);
        curator.run_command(&format!("take two {recipe}-2 {kind} /{recipe} web-2"));
        scene.until_held(recipe, &[&one], 1);
        let page = scene.agent.page();
        assert_eq!(page.label(recipe, "lock_holder", "holder_host").as_deref(), Some("web-1"));
        curator.run_command(&format!("release {recipe}-1"));
        curator.event("held", &format!("{recipe}-2"));
        scene.until_held(recipe, &[&two], 0);
    }

    curator.run_command("take one r1 read /shared a");
    curator.event("held", "r1");
    curator.run_command("take two r2 read /shared b");
    curator.event("held", "r2");
    scene.until_held("shared", &[&one, &two], 0);
    curator.run_command("take three w write /shared c");
    scene.until_held("shared", &[&one, &two], 1);
    curator.run_command("release r1");
    scene.until_held("shared", &[&two], 1);
    curator.run_command("release r2");
    curator.event("held", "w");
    scene.until_held("shared", &[&three], 0);
    curator.run_command("take one r3 read /shared a");
    scene.until_held("shared", &[&three], 1);
}

/// What Curator writes by itself is this machine's address, which is no host where that is a
/// loopback.
#[test]
fn a_child_that_sorts_in_front_keeps_everybody_from_the_lock() {
    let test = "zookeeper::curator::a_child_that_sorts_in_front_keeps_everybody_from_the_lock";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut curator) = Clients::curator(test, &scene.ensemble) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    let one = curator.session("one", LONG_MS);
    kazoo.session("writer", LONG_MS);

    // One that sorts behind is nothing.
    kazoo.run_command("create writer /blocked/zzz note parents");
    curator.run_command("take one first default-mutex /blocked -");
    curator.event("held", "first");
    scene.until_held("blocked", &[&one], 0);
    scene.until("blocked", "running");
    curator.run_command("release first");
    scene.until("blocked", "down");

    kazoo.run_command("create writer /blocked/-note note");
    curator.run_command("take one second default-mutex /blocked -");
    scene.until_held("blocked", &[], 1);
    scene.until("blocked", "down");
    kazoo.run_command("delete writer /blocked/-note");
    curator.event("held", "second");
    scene.until_held("blocked", &[&one], 0);
    scene.until("blocked", "running");
}
