//! Two workers that take turns by watching nodes, and ways in which turns go wrong.

use std::time::Duration;

use super::{LONG_MS, Scene, problems};
use crate::support::PATIENCE;
use crate::support::zookeeper::{Clients, Setup};

const TASKS: &str = "
  - {name: children, zookeeper: zk, turn: {children: /turns, tasks: [a, b], max_late: 10s, handover: 1s}, wanted: always, grace: 2s}
  - {name: data, zookeeper: zk, turn: {path: /turn, tasks: [a, b], max_late: 10s, handover: 1s}, wanted: always, grace: 2s}
";
/// How long workers alternate, and how long if `LOCKWATCH_LONG` is set.
const SHORT: Duration = Duration::from_secs(8);
const LONG: Duration = Duration::from_secs(600);
/// How long a worker has its turn, in milliseconds.
const WORK_MS: u64 = 100;

#[test]
fn workers_that_alternate_by_watches_are_running() {
    let test = "zookeeper::turns::workers_that_alternate_by_watches_are_running";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    let stretch = if std::env::var_os("LOCKWATCH_LONG").is_some() { LONG } else { SHORT };
    let sessions = ["one", "two", "three", "four"];
    for name in sessions {
        kazoo.session(name, LONG_MS);
    }
    kazoo.run_command("create one /turns -");
    kazoo.run_command("create one /turns/a 0");
    kazoo.run_command("create one /turn {\"a\":0}");
    let count = stretch.as_millis() as u64 / (2 * WORK_MS);
    for (name, lock, path, me, other, kind) in [
        ("one", "children-a", "/turns", "a", "b", "children"),
        ("two", "children-b", "/turns", "b", "a", "children"),
        ("three", "data-a", "/turn", "a", "b", "data"),
        ("four", "data-b", "/turn", "b", "a", "data"),
    ] {
        kazoo.run_command(&format!(
            "alternate {name} {lock} {path} {me} {other} {count} {WORK_MS} {kind}"
        ));
    }
    for task in ["children", "data"] {
        scene.until(task, "running");
    }
    scene.agent.throughout(stretch, "both run, and nothing is wrong with them", |view| {
        ["children", "data"].iter().all(|task| {
            view.page.verdict(task) == "running" && problems(&view.page, "task", task).is_empty()
        })
    });
    for task in ["children", "data"] {
        let shown = scene.agent.task(task);
        assert_eq!(shown["durations"]["down_seconds"], 0.0, "{shown}");
        assert_eq!(scene.agent.page().of(task, "task_splits_total"), Some(0.0));
        let both = [format!("{task}-a"), format!("{task}-b")];
        let logged: usize = both.iter().map(|name| kazoo.events_until_done(name).len()).sum();
        let shown = scene.agent.task(task);
        let taken = shown["turn"]["taken"].as_array().unwrap().iter();
        let seen: u64 = taken.map(|taken| taken["turns"].as_u64().unwrap()).sum();
        eprintln!("{task}: {logged} turns, {seen} seen");
        assert!(
            seen as usize <= logged + 1 && seen as usize * 10 > logged * 9,
            "{seen} of {logged}"
        );
    }
}

#[test]
fn nobody_s_turn_and_two_turns_are_reported() {
    let test = "zookeeper::turns::nobody_s_turn_and_two_turns_are_reported";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(mut kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    kazoo.session("one", LONG_MS);
    // The nodes are missing.
    scene.until("children", "down");
    scene.until("data", "down");
    kazoo.run_command("create one /turns -");
    kazoo.run_command("create one /turns/a 0");
    kazoo.run_command("create one /turn {\"a\":0}");
    scene.until("children", "running");
    scene.until("data", "running");
    kazoo.run_command("create one /turns/b 0");
    kazoo.run_command("write one /turn {\"a\":0,\"b\":0}");
    scene.until("children", "split");
    scene.until("data", "split");
    kazoo.run_command("delete one /turns/a");
    kazoo.run_command("write one /turn {\"b\":0}");
    scene.until("children", "running");
    scene.until("data", "running");
    kazoo.run_command("delete one /turns/b");
    kazoo.run_command("write one /turn {}");
    scene.until("children", "down");
    scene.until("data", "down");
    kazoo.run_command("create one /turns/b soon");
    kazoo.run_command("write one /turn nonsense");
    for task in ["children", "data"] {
        scene.agent.until_view(PATIENCE, "layout", |view| {
            view.task(task)["turn"]["unknown"]["reason"] == "layout"
        });
    }
}
