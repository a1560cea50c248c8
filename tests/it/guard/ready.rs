//! What a guard that waits has ready: a keeper, and a starter that becomes the script.

use super::*;

/// A guard whose script runs, and one that waits for its lock and is ready.
fn pair(scene: &Scene, server: &RedisServer) -> [Guard; 2] {
    let first = scene.guard(server, &[]);
    scene.runs_above(0);
    let second = scene.guard(server, &[]);
    until("keeper and starter wait", || starter(&second));
    [first, second]
}

fn starter(guard: &Guard) -> Option<i32> {
    guard.processes().into_iter().find(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"lockwatch\0enter\0")
    })
}

fn nothing_is_left(guard: &Guard, but: &[i32]) {
    until("nothing is left", || (guard.processes() == but).then_some(()));
}

/// A child that has ended is one until its parent has noticed it.
fn has_no_child(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut children = threads
        .map(|thread| fs::read_to_string(thread.path().join("children")).unwrap_or_default());
    children.all(|children| children.is_empty())
}

#[test]
fn what_was_ready_becomes_the_script() {
    let Some(server) = RedisServer::start("guard::ready: begins") else { return };
    let scene = Scene::new();
    let [first, second] = pair(&scene, &server);
    let (keeper, script) = (second.keeper(), starter(&second).unwrap());
    assert!(second.scripts().is_empty() && scene.runs().len() == 1);
    first.signal("TERM");
    assert_eq!(scene.runs_above(1), 2);
    assert!(second.scripts().contains(&script), "the starter became it");
    assert_eq!(second.keeper(), keeper);
    let variables = fs::read_to_string(format!("/proc/{script}/environ")).unwrap();
    let has = |variable: &str| variables.split('\0').any(|one| one.starts_with(variable));
    assert!(has("LOCKWATCH_TOKEN=2") && has("LOCKWATCH_LEASE_MS=2000"), "{variables}");
    let holder = server.cli(&["hkeys", LOCK]);
    assert!(has(&format!("LOCKWATCH_HOLDER={holder}")), "{holder}: {variables}");
    assert_eq!(scene.assert_never_both(), 2);
}

#[test]
fn it_goes_with_its_guard_and_runs_nothing() {
    let Some(server) = RedisServer::start("guard::ready: goes") else { return };
    let scene = Scene::new();
    for signal in ["TERM", "KILL"] {
        let [first, mut second] = pair(&scene, &server);
        second.signal(signal);
        second.ended();
        nothing_is_left(&second, &[]);
        // A keeper that outlives its guard removes the group as its last act.
        let removed = || group::folder(second.pid()).is_none_or(|folder| !folder.exists());
        until("the group is removed", || removed().then_some(()));
        let runs = scene.runs().len();
        drop(first);
        server.cli(&["del", LOCK, "redisson_lock_token:{outbound:lock}"]);
        fs::write(scene.path("log"), "").unwrap();
        assert_eq!(runs, 1, "{}", scene.said());
    }
}

#[test]
fn without_it_the_script_starts_all_the_same() {
    let Some(server) = RedisServer::start("guard::ready: killed") else { return };
    for kills_keeper in [true, false] {
        let scene = Scene::new();
        let [first, second] = pair(&scene, &server);
        let killed = if kills_keeper { second.keeper() } else { starter(&second).unwrap() };
        signal("KILL", &[killed]);
        nothing_is_left(&second, &[second.pid()]);
        until("the guard has noticed it", || has_no_child(second.pid()).then_some(()));
        first.signal("TERM");
        scene.runs_above(1);
        assert!(!second.said().contains("the script has failed"), "{}", second.said());
        assert_eq!(scene.assert_never_both(), 2);
        drop((first, second));
        server.cli(&["del", LOCK, "redisson_lock_token:{outbound:lock}"]);
    }
}

#[test]
fn a_keeper_that_wakes_after_the_deadline_starts_nothing() {
    let Some(server) = RedisServer::start("guard::ready: late") else { return };
    let scene = Scene::new();
    let [mut first, second] = pair(&scene, &server);
    let keeper = second.keeper();
    signal("STOP", &[keeper]);
    first.signal("TERM");
    first.ended();
    let token = "redisson_lock_token:{outbound:lock}";
    until("the other one has the lock", || (server.cli(&["get", token]) == "2").then_some(()));
    until("it starts the script", || second.said().contains("starts the script").then_some(()));
    second.signal("STOP");
    until("the lease is over", || (server.cli(&["exists", LOCK]) == "0").then_some(()));
    signal("CONT", &[keeper]);
    nothing_is_left(&second, &[second.pid()]);
    assert!(!scene.runs().contains_key(&2), "{:?}", scene.runs());
    second.signal("CONT");
    assert_eq!(scene.runs_above(1), 3);
}
