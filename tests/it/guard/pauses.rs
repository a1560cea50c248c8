//! Guard, keeper and script stand still for longer than the lease. No lease excludes that two
//! scripts run then; it ends as soon as guard or keeper wakes, and is told.

use lockwatch::keeper::boot;
use lockwatch_judge::time::Mono;
use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// How often each pause is repeated. A machine under load is late now and then, so the limit is for
/// the median.
const ROUNDS: usize = 3;
const MEDIAN_MS: u64 = 100;
const LONGEST_MS: u64 = 500;

/// What a round showed, in milliseconds.
struct Round {
    /// From the wake-up to the end of the last process of the script.
    dead_after: u64,
    /// By how much the told overrun is longer than the real one.
    told_too_long: u64,
}

#[derive(Clone, Copy)]
enum Wakes {
    Guard,
    Keeper,
}

/// One process wakes, and the other one goes on standing still.
fn round(server: &RedisServer, guards: &[Guard; 2], runs: usize, all: bool, wakes: Wakes) -> Round {
    let first = &guards[runs];
    let overruns = || first.said().matches("overrun: ").count();
    let (keeper, scripts, before) = (first.keeper(), first.scripts(), overruns());
    signal("STOP", &[first.pid(), keeper]);
    if all {
        signal("STOP", &scripts);
    }
    let left_ms: u64 = server.cli(&["pttl", LOCK]).parse().unwrap();
    let lease_end = boot::now().plus_ms(left_ms);
    until("the other one runs", || (!guards[1 - runs].scripts().is_empty()).then_some(()));
    let woken = Pid::from_raw(match wakes {
        Wakes::Guard => first.pid(),
        Wakes::Keeper => keeper,
    });
    let woke = boot::now();
    kill_process(woken.unwrap(), Signal::CONT).unwrap();
    let dead = until("the script is dead", || first.scripts().is_empty().then(boot::now));
    // A keeper cannot tell more than its guard hears. A keeper that stands still is killed.
    if let Wakes::Keeper = wakes {
        signal("CONT", &[first.pid()]);
    }
    let told = until("the overrun is told", || {
        let said = first.said();
        let line = said.lines().filter(|line| line.contains("overrun: ")).nth(before)?;
        let (_, ms) = line.split_once(" ms=")?;
        ms.split(' ').next()?.trim_end().parse::<u64>().ok()
    });
    let since = |at: Mono| dead.since_ms(at);
    Round { dead_after: since(woke), told_too_long: told.saturating_sub(since(lease_end)) }
}

fn median(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 2]
}

fn ends_at_once(test: &str, all: bool, wakes: Wakes) {
    let Some(server) = RedisServer::start(test) else { return };
    let scene = Scene::new();
    let guards = [scene.guard(&server, &[]), scene.guard(&server, &[])];
    scene.runs_above(0);
    let rounds: Vec<Round> = (0..ROUNDS)
        .map(|_| {
            let runs =
                until("one runs", || guards.iter().position(|guard| !guard.scripts().is_empty()));
            round(&server, &guards, runs, all, wakes)
        })
        .collect();
    let dead_after: Vec<u64> = rounds.iter().map(|round| round.dead_after).collect();
    let too_long: Vec<u64> = rounds.iter().map(|round| round.told_too_long).collect();
    eprintln!("{test}: dead after {dead_after:?} ms, told too long by {too_long:?} ms");
    assert!(dead_after.iter().all(|ms| *ms <= LONGEST_MS), "{dead_after:?}");
    assert!(median(dead_after.clone()) <= MEDIAN_MS, "{dead_after:?}");
    assert!(median(too_long.clone()) <= MEDIAN_MS, "{too_long:?}");
}

#[test]
fn a_script_that_ran_on_is_dead_when_its_guard_wakes() {
    ends_at_once("guard::pauses: ran on, guard wakes", false, Wakes::Guard);
}

#[test]
fn a_script_that_ran_on_is_dead_when_its_keeper_wakes() {
    ends_at_once("guard::pauses: ran on, keeper wakes", false, Wakes::Keeper);
}

#[test]
fn a_frozen_script_is_dead_when_its_guard_wakes() {
    ends_at_once("guard::pauses: frozen, guard wakes", true, Wakes::Guard);
}

#[test]
fn a_frozen_script_is_dead_when_its_keeper_wakes() {
    ends_at_once("guard::pauses: frozen, keeper wakes", true, Wakes::Keeper);
}
