//! Guard, keeper and script stand still for longer than the lease. No lease excludes that two
//! scripts run then; it ends as soon as guard or keeper wakes, and is reported.

use lockwatch::keeper::boot;
use lockwatch_judge::time::Mono;
use rustix::process::{Pid, Signal, kill_process};

use super::*;

/// How often each pause is repeated; the shorter limit is for the median.
const ROUNDS: usize = 3;
const MEDIAN_MS: u64 = 100;
const LONGEST_MS: u64 = 1_500;
/// The one of a lease of two seconds.
const MARGIN_MS: u64 = 500;

/// What a round showed, in milliseconds.
struct Round {
    /// From the wake-up to the end of the last process of the script, as far as it is longer than
    /// what another process takes on this machine.
    dead_after: u64,
    /// By how much the reported overrun is longer than the real one.
    reported_too_long: u64,
}

/// When the lease that the script began under may end, as its guard reckons. A renewal would only
/// make the overrun shorter.
fn first_end(scripts: &[i32]) -> Option<Mono> {
    let of = |pid: &i32| {
        let variables = fs::read_to_string(format!("/proc/{pid}/environ")).ok()?;
        let mut variables = variables.split('\0');
        let dead_by = variables.find_map(|one| one.strip_prefix("LOCKWATCH_DEADLINE_BOOT_MS="))?;
        Some(Mono::at(dead_by.parse().ok()?).plus_ms(MARGIN_MS))
    };
    scripts.iter().find_map(of)
}

/// A stopped process that looks at all processes once when it wakes. A machine under load is late
/// with it as well.
fn control() -> Child {
    let looks = "kill -STOP $$; cat /proc/[0-9]*/stat > /dev/null 2>&1";
    let control = Command::new("sh").args(["-c", looks]).spawn().unwrap();
    until("the control stands still", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", control.id())).unwrap();
        stat.contains(") T ").then_some(())
    });
    control
}

#[derive(Clone, Copy)]
enum Wakes {
    Guard,
    Keeper,
}

/// One process wakes, and the other one goes on standing still.
fn round(guards: &[Guard; 2], runs: usize, all: bool, wakes: Wakes) -> Round {
    let first = &guards[runs];
    let overruns = || first.said().matches("overrun: ").count();
    let (keeper, before) = (first.keeper(), overruns());
    // A process that has only just begun still has the variables of its parent.
    let (scripts, lease_end) = until("the script has its deadline", || {
        let scripts = first.scripts();
        first_end(&scripts).map(|end| (scripts, end))
    });
    signal("STOP", &[first.pid(), keeper]);
    if all {
        signal("STOP", &scripts);
    }
    until("the other one runs", || (!guards[1 - runs].scripts().is_empty()).then_some(()));
    let woken = Pid::from_raw(match wakes {
        Wakes::Guard => first.pid(),
        Wakes::Keeper => keeper,
    });
    let mut control = control();
    let woke = boot::now();
    kill_process(woken.unwrap(), Signal::CONT).unwrap();
    kill_process(Pid::from_child(&control), Signal::CONT).unwrap();
    let control = thread::spawn(move || {
        control.wait().unwrap();
        boot::now().since_ms(woke)
    });
    // On a busy machine the last look itself takes long: it began after the end, or nearly.
    let (looked, dead) = until("the script is dead", || {
        let looks = boot::now();
        first.scripts().is_empty().then(|| (looks, boot::now()))
    });
    // A keeper cannot tell more than its guard hears. A keeper that stands still is killed.
    if let Wakes::Keeper = wakes {
        signal("CONT", &[first.pid()]);
    }
    let reported = until("the overrun is reported", || {
        let said = first.said();
        let line = said.lines().filter(|line| line.contains("overrun: ")).nth(before)?;
        let (_, ms) = line.split_once(" ms=")?;
        ms.split(' ').next()?.trim_end().parse::<u64>().ok()
    });
    let late = control.join().unwrap();
    // The guard looks once more to see that all are dead.
    let reported_too_long = reported.saturating_sub(dead.since_ms(lease_end)).saturating_sub(late);
    Round { dead_after: looked.since_ms(woke).saturating_sub(late), reported_too_long }
}

fn median(all: &[u64]) -> u64 {
    let mut all = all.to_vec();
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
            round(&guards, runs, all, wakes)
        })
        .collect();
    let dead_after: Vec<u64> = rounds.iter().map(|round| round.dead_after).collect();
    let too_long: Vec<u64> = rounds.iter().map(|round| round.reported_too_long).collect();
    eprintln!("{test}: dead after {dead_after:?} ms, reported too long by {too_long:?} ms");
    assert!(dead_after.iter().all(|ms| *ms <= LONGEST_MS), "{dead_after:?}");
    assert!(median(&dead_after) <= MEDIAN_MS, "{dead_after:?}");
    // What is added to each overrun is in the shortest one, too.
    assert!(too_long.iter().any(|ms| *ms <= MEDIAN_MS), "{too_long:?}");
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
