//! The script's own control group, where the system lets the guard have one. Where it does not, the
//! guard says so, and the script is killed by its descent.

use std::path::Path;

use super::*;

/// Each process starts the next one and ends: who looks for it often comes too late.
const RUNS_AWAY: &str = "echo $LOCKWATCH_TOKEN alive $(date +%s%N) >> $LOG; sh \"$0\" &";

fn group_of(pid: i32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    groups.lines().find_map(|line| Some(line.strip_prefix("0::")?.to_owned()))
}

/// Whether the guard puts its script into a group.
fn has_group(guard: &Guard) -> bool {
    let says = |how: &str| guard.said().contains(&format!("kills_by={how}"));
    until("it says how it kills", || (says("cgroup") || says("descent")).then(|| says("cgroup")))
}

fn name(guard: i32) -> String {
    format!("lockwatch-{guard}")
}

/// Where the group of this guard would be.
pub(super) fn folder(guard: i32) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?;
    let own = group_of(std::process::id().try_into().unwrap())?;
    let at = PathBuf::from(mount.split(' ').nth(4)?);
    Some(at.join(own.trim_start_matches('/')).join(name(guard)))
}

fn exists(guard: i32) -> bool {
    folder(guard).is_some_and(|folder| folder.exists())
}

#[test]
fn the_script_is_in_a_group_of_its_own_and_nobody_else_is() {
    let Some(server) = RedisServer::start("guard::group: alone") else { return };
    let scene = Scene::new();
    let mut guard = scene.guard(&server, &[]);
    scene.runs_above(0);
    let (has_group, own) = (has_group(&guard), group_of(guard.pid()));
    assert_eq!(group_of(guard.keeper()), own);
    let name = name(guard.pid());
    let is_inside = |pid: i32| group_of(pid).map(|path| Path::new(&path).ends_with(&name));
    let scripts = guard.scripts();
    // Some may have ended meanwhile.
    let inside: Vec<bool> = scripts.iter().filter_map(|pid| is_inside(*pid)).collect();
    assert!(!inside.is_empty() && inside.iter().all(|inside| *inside == has_group), "{inside:?}");
    guard.signal("TERM");
    assert_eq!(guard.code(), Some(3));
    assert!(!exists(guard.pid()), "the group is removed");
}

#[test]
fn a_script_that_runs_away_is_caught() {
    let Some(server) = RedisServer::start("guard::group: runs away") else { return };
    let scene = Scene::new();
    fs::write(scene.path("script"), RUNS_AWAY).unwrap();
    let redis = format!("redis://{}", server.address());
    let arguments = ["--redis", &*redis, "--lock", LOCK, "--stop-after", "100ms"];
    let mut guard = scene.start(&arguments, &scene.script());
    scene.runs_above(0);
    // Its first process ends at once, so what is left of it is killed.
    assert_eq!(guard.code(), Some(0), "{}", guard.said());
    assert!(guard.scripts().is_empty());
}

#[test]
fn a_guard_that_was_killed_with_its_keeper_leaves_no_group() {
    let Some(server) = RedisServer::start("guard::group: both killed") else { return };
    let scene = Scene::new();
    let mut first = scene.guard(&server, &[]);
    scene.runs_above(0);
    let keeper = first.keeper();
    signal("STOP", &[first.pid(), keeper]);
    signal("KILL", &[first.pid(), keeper]);
    first.ended();
    signal("KILL", &first.scripts());
    until("all are dead", || first.processes().is_empty().then_some(()));
    assert_eq!(exists(first.pid()), has_group(&first));
    let second = scene.guard(&server, &[]);
    has_group(&second);
    assert!(!exists(first.pid()), "the next guard removes it");
}
