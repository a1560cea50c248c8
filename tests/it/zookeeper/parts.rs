//! Switches, progress, claims and pauses that are nodes.

use super::{LONG_MS, Scene, problems};
use crate::support::PATIENCE;
use crate::support::zookeeper::{Clients, Setup};

const TASKS: &str = "
  - {name: flags, zookeeper: zk, lock: {path: /lock-flags, library: kazoo}, wanted: {children: /flags}, grace: 1s, settle: 500ms}
  - {name: names, zookeeper: zk, lock: {path: /lock-names, library: kazoo}, wanted: {names: /names}, grace: 1s, settle: 500ms}
  - {name: count, zookeeper: zk, lock: {path: /lock-count, library: kazoo}, wanted: {counter: /count}, grace: 1s, settle: 500ms}
  - {name: paths, zookeeper: zk, lock: {path: /lock-paths, library: kazoo}, wanted: {paths: [/on/anna, /on/ben]}, grace: 1s, settle: 500ms}
  - {name: works, zookeeper: zk, lock: {path: /busy, library: kazoo}, wanted: always, progress: {path: /beat, stale_after: 2s}, grace: 1s, settle: 500ms}
";

#[test]
fn switches_are_children_names_a_counter_or_nodes() {
    let test = "zookeeper::parts::switches_are_children_names_a_counter_or_nodes";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    kazoo.session("one", LONG_MS);
    let all = ["flags", "names", "count", "paths"];
    for task in all {
        scene.until(task, "stopped");
    }
    for (path, data) in
        [("/flags/anna", "1"), ("/names/anna", ""), ("/count", "2"), ("/on/anna", "true")]
    {
        kazoo.run_command(&format!("create one {path} {} parents", or_dash(data)));
    }
    kazoo.run_command("create one /flags/ben 0");
    for task in all {
        scene.until(task, "down");
    }
    let view = scene.agent.view();
    for (task, users) in [("flags", 1.0), ("names", 1.0), ("count", 2.0), ("paths", 1.0)] {
        assert_eq!(view.page.of(task, "task_wanting_users"), Some(users), "{task}");
    }
    for task in all {
        kazoo.run_command(&format!("take one {task} lock /lock-{task} web-1"));
        kazoo.event("held", task);
    }
    for task in all {
        scene.until(task, "running");
    }
    kazoo.run_command("write one /flags/anna 0");
    kazoo.run_command("delete one /names/anna");
    kazoo.run_command("write one /count 0");
    kazoo.run_command("write one /on/anna false");
    for task in all {
        kazoo.run_command(&format!("release {task}"));
    }
    for task in all {
        scene.until(task, "stopped");
    }
}

fn or_dash(data: &str) -> &str {
    if data.is_empty() { "-" } else { data }
}

/// The process lives and keeps its session, but its work stands still.
#[test]
fn an_orphan_whose_work_stands_still_is_named() {
    let test = "zookeeper::parts::an_orphan_whose_work_stands_still_is_named";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    let [orphan, heir] = ["orphan", "heir"].map(|name| kazoo.session(name, LONG_MS));
    kazoo.run_command("create orphan /beat 0");
    kazoo.run_command("take orphan first lock /busy web-1");
    kazoo.event("held", "first");
    kazoo.run_command("take heir second lock /busy web-2");
    for beat in 1..20 {
        kazoo.run_command(&format!("write orphan /beat {beat}"));
    }
    scene.until("works", "running");
    scene.until("works", "stalled");
    let view = scene.agent.view();
    assert_eq!(problems(&view.page, "task", "works"), ["stalled"]);
    let queue = view.task("works")["lock"]["queue"].as_array().unwrap();
    let of = |at: usize, field: &str| queue[at][field].as_str().unwrap_or_default();
    assert_eq!((of(0, "session"), of(0, "stands"), of(0, "says")), (&*orphan, "holds", "web-1"));
    assert_eq!((of(1, "session"), of(1, "stands"), of(1, "says")), (&*heir, "waits", "web-2"));
    assert!(!of(0, "since").is_empty());
    kazoo.run_command("close orphan");
    scene.until_held("works", &[&heir], 0);
    kazoo.run_command("write heir /beat again");
    scene.agent.until(PATIENCE, "running", |page| page.verdict("works") == "running");
}
