//! Whatever stands still, dies or is away: never two scripts, and nothing is left over.

use super::*;
use crate::support::redis::Keep;
use crate::support::standstill::Standstills;

const LEASE: Duration = Duration::from_secs(2);
/// A keeper that is held up for so long in all may be late.
const STOOD_STILL: Duration = Duration::from_millis(300);

fn gone(guard: &Guard, within: Duration) {
    let began = Instant::now();
    while !guard.scripts().is_empty() {
        assert!(began.elapsed() < within, "{:?} are left: {}", guard.scripts(), guard.said());
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_is_left_of_a_guard_that_is_killed_and_another_takes_over() {
    let Some(server) = RedisServer::start("guard::faults: guard killed") else { return };
    let scene = Scene::new();
    let first = scene.guard(&server, &[]);
    let token = scene.runs_above(0);
    let _second = scene.guard(&server, &[]);
    first.signal("KILL");
    let killed = Instant::now();
    gone(&first, Duration::from_secs(1));
    scene.runs_above(token);
    assert!(killed.elapsed() < LEASE + Duration::from_millis(900), "{:?}", killed.elapsed());
    assert_eq!(scene.assert_never_both(), 2);
}

#[test]
fn the_guard_kills_what_its_keeper_leaves_and_goes_on() {
    let Some(server) = RedisServer::start("guard::faults: keeper killed") else { return };
    let scene = Scene::new();
    let guard = scene.guard(&server, &[]);
    let token = scene.runs_above(0);
    let before = guard.scripts();
    signal("KILL", &[guard.keeper()]);
    until("the old script is gone", || {
        let left = guard.scripts();
        (!before.iter().any(|pid| left.contains(pid))).then_some(())
    });
    // It is a failure of the script: the lock stays, so the token does.
    until("a script runs again", || (!guard.scripts().is_empty()).then_some(()));
    assert!(scene.runs_above(token - 1) == token, "{}", guard.said());
}

#[test]
fn a_guard_that_stands_still_loses_the_script_in_time() {
    let Some(server) = RedisServer::start("guard::faults: guard stopped") else { return };
    let (standstills, began) = (Standstills::watch(), Instant::now());
    let scene = Scene::new();
    let mut first = scene.guard(&server, &[]);
    let token = scene.runs_above(0);
    let _second = scene.guard(&server, &[]);
    first.signal("STOP");
    let next = scene.runs_above(token);
    let left = first.scripts();
    assert!(next > token);
    first.signal("CONT");
    until("it says what happened", || first.said().contains("has ended").then_some(()));
    // It reports an overrun before it ends, if there was one.
    first.signal("TERM");
    first.ended();
    // A machine that stands still holds up the keeper too.
    let stood_still = standstills.stood_still_since(began);
    let overran = !left.is_empty() || first.said().contains("overrun");
    assert!(!overran || stood_still > STOOD_STILL, "{stood_still:?}: {left:?} {}", first.said());
    assert_eq!(scene.assert_never_both(), 2);
}

#[test]
fn a_keeper_that_stands_still_does_not_keep_the_script() {
    let Some(server) = RedisServer::start("guard::faults: keeper stopped") else { return };
    let scene = Scene::new();
    let mut guard = scene.guard(&server, &[]);
    scene.runs_above(0);
    signal("STOP", &[guard.keeper()]);
    guard.signal("TERM");
    guard.ended();
    assert!(guard.scripts().is_empty() && server.cli(&["exists", LOCK]) == "0");
}

#[test]
fn without_redis_the_script_is_stopped_in_time_and_one_starts_again() {
    let Some(mut server) = RedisServer::start("guard::faults: redis away") else { return };
    let scene = Scene::new();
    let (first, second) = (scene.guard(&server, &[]), scene.guard(&server, &[]));
    let token = scene.runs_above(0);
    server.pause();
    let away = Instant::now();
    until("no script runs", || {
        (first.scripts().is_empty() && second.scripts().is_empty()).then_some(())
    });
    assert!(away.elapsed() < LEASE, "{:?}", away.elapsed());
    // The fault itself: Redis is away for longer than the lease, and cannot be asked.
    thread::sleep(LEASE.saturating_sub(away.elapsed()) + Duration::from_millis(200));
    server.go_on();
    let token = scene.runs_above(token);
    // So it knows the newest token, too.
    until("the other one waits", || (hand_over::listeners(&server) == 1).then_some(()));
    // Its data are gone, and with them the lock and the counter.
    server.restart(Keep::Nothing);
    scene.runs_above(token);
    scene.assert_never_both();
}

#[test]
fn lost_data_are_noticed_at_once_and_the_token_goes_on() {
    let Some(server) = RedisServer::start("guard::faults: flushed") else { return };
    let scene = Scene::new();
    let guard = scene.guard(&server, &[]);
    let mut token = scene.runs_above(0);
    for _ in 0..5 {
        let before = guard.scripts();
        server.cli(&["flushall"]);
        let flushed = Instant::now();
        until("the script is gone", || {
            let left = guard.scripts();
            (!before.iter().any(|pid| left.contains(pid))).then_some(())
        });
        assert!(flushed.elapsed() < Duration::from_millis(500), "{:?}", flushed.elapsed());
        token = scene.runs_above(token);
    }
    assert_eq!(scene.assert_never_both(), 6);
}
