//! Renewals by Redisson's watchdog, and what their absence looks like.

use crate::support::PATIENCE;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{
    LOCK, Monitor, Scene, TASK, check_calm, check_never_late, greatest, one_task, pexpires,
};
use crate::support::exposition::Exposition;
use crate::support::send_signal;

/// With a lease of nine seconds and the default interval of one second: the figures that the README
/// promises.
#[test]
fn a_watchdogs_hold_is_seen_at_once_and_each_renewal_is_counted_once_with_its_instant() {
    let test = "live::watchdog: holds and renewals";
    let Some(mut scene) = Scene::open(test, "1s", &one_task("grace: 20s")) else { return };
    let client = scene.connect("c1", 9_000);
    let monitor = Monitor::start(&scene.server);
    scene.agent.until(PATIENCE, "free at first", |page| page.of(TASK, "lock_held") == Some(0.0));

    scene.redisson.run(&format!("lock c1 t1 {LOCK}"));
    scene.switch("anna", "1");
    scene.server.cli(&["config", "resetstat"]);
    let page = scene
        .agent
        .until(Duration::from_millis(1500), "held", |page| page.of(TASK, "lock_held") == Some(1.0));
    assert_eq!(page.label(TASK, "lock_holder", "holder"), Some(client));

    let watch = scene.agent.watch();
    let lease = Some(9.0);
    scene.agent.until(PATIENCE, "the lease is learned", |page| {
        page.of(TASK, "lock_lease_seconds") == lease
    });
    let renewals = pexpires(&scene.server);
    let enough =
        |page: &Exposition| page.of(TASK, "lock_renewals_total") >= Some(renewals as f64 + 3.0);
    scene.agent.until(2 * PATIENCE, "three more renewals", enough);
    let pages = watch.stop();

    let last = pages.last().unwrap();
    assert_eq!(
        last.of(TASK, "lock_renewals_total"),
        Some(pexpires(&scene.server) as f64),
        "{}",
        last.text()
    );
    assert_eq!(last.of(TASK, "lock_renewal_period_seconds"), Some(3.0));
    check_saw_tooth(&pages);
    check_instants(&pages, &monitor);
    check_calm(&scene.agent, &pages, TASK);
    check_never_late(&scene.agent, &pages, TASK);
}

/// The TTL lies between lease − period and lease, and rises exactly where a renewal is counted.
fn check_saw_tooth(pages: &[Exposition]) {
    let teeth: Vec<(f64, f64)> = pages
        .iter()
        .map(|page| {
            (
                page.of(TASK, "lock_ttl_seconds").unwrap(),
                page.of(TASK, "lock_renewals_total").unwrap(),
            )
        })
        .collect();
    for pair in teeth.windows(2) {
        let ((old, before), (new, after)) = (pair[0], pair[1]);
        assert_eq!(new > old, after > before, "{teeth:?}");
    }
    let lowest = teeth.iter().fold(f64::MAX, |low, (ttl, _)| low.min(*ttl));
    let highest = teeth.iter().fold(0.0_f64, |high, (ttl, _)| high.max(*ttl));
    assert!((5.5..7.1).contains(&lowest) && (7.9..=9.0).contains(&highest), "{lowest}..{highest}");
}

/// Each reported instant is one at which Redis itself logged the renewal.
fn check_instants(pages: &[Exposition], monitor: &Monitor) {
    let mut shown: Vec<f64> = pages
        .iter()
        .filter_map(|page| page.of(TASK, "lock_last_renewal_timestamp_seconds"))
        .collect();
    shown.dedup();
    assert!(shown.len() >= 3, "{shown:?}");
    let witnessed = monitor.pexpires_ms(LOCK);
    let nearest = |shown: f64| {
        witnessed.iter().map(|at| (at - (shown * 1000.0).round()).abs()).fold(f64::MAX, f64::min)
    };
    let mut errors: Vec<f64> = shown.iter().map(|shown| nearest(*shown)).collect();
    errors.sort_by(f64::total_cmp);
    eprintln!("errors of renewal instants against MONITOR, in ms: {errors:.3?}");
    // Redis writes the line after it has read the clock. On a busy machine that may take time,
    // once.
    assert!(
        errors[errors.len() / 2] <= 1.0 && errors.iter().all(|error| *error < 50.0),
        "{errors:?}\n{witnessed:?}"
    );
}

/// When a lock is released and retaken within a period, Redisson adds one more renewal timer each
/// time, at any phase.
#[test]
fn renewal_timers_that_piled_up_are_neither_late_nor_a_period_and_a_watchdog_that_stops_then_is_overdue()
 {
    let test = "live::watchdog: piled up";
    let Some(mut scene) = Scene::open(test, "200ms", &one_task("grace: 4s")) else { return };
    scene.connect("c1", 3_000);
    scene.redisson.run(&format!("pile-up c1 t1 {LOCK} n=10 pause=30"));
    scene.switch("anna", "1");
    scene.agent.until(PATIENCE, "running", |page| page.of(TASK, "task_wanted") == Some(1.0));
    let watch = scene.agent.watch();
    scene.server.cli(&["config", "resetstat"]);
    scene.agent.until(PATIENCE, "learned", |page| page.of(TASK, "lock_lease_seconds") == Some(3.0));
    scene.agent.until(PATIENCE, "twelve renewals", |page| {
        page.of(TASK, "lock_renewals_total") >= Some(12.0)
    });
    // More renewals than one timer can make in that time. With hints the first twelve may show as
    // soon as they are made.
    scene.agent.until(PATIENCE, "piled up timers", |_| pexpires(&scene.server) > 15);
    let pages = watch.stop();
    let last = pages.last().unwrap();
    assert_eq!(last.of(TASK, "lock_renewal_period_seconds"), Some(1.0));
    let (sum, count) = latency(last);
    eprintln!("piled up: {count} latencies, {sum} s in all");
    scene.agent.check(last, "no latency worth the name", sum <= 0.02 * count.max(1.0));
    check_calm(&scene.agent, &pages, TASK);
    check_never_late(&scene.agent, &pages, TASK);

    // The watchdog ends with the inner hold, although the outer one continues. All of this happens
    // between two readings.
    scene.redisson.run(&format!("lock c1 t1 {LOCK} lease=20000"));
    scene.redisson.run(&format!("unlock c1 t1 {LOCK}"));
    let stopped = Instant::now();
    scene.agent.until(Duration::from_secs(3), "overdue", |page| overdue(page) > 0.0);
    eprintln!("overdue after {:?}", stopped.elapsed());
    let page = scene.agent.until(PATIENCE, "more and more so", |page| overdue(page) > 1.5);
    assert_eq!(page.verdict(TASK), "running", "an overdue renewal is no verdict");
    assert_eq!(scene.server.cli(&["hvals", LOCK]), "1");
}

/// The JVM is stopped, as by a long pause: the renewal becomes overdue, then the lease runs out,
/// and it does not get the lock back.
#[test]
fn a_holder_that_is_paused_is_overdue_and_then_expired() {
    let test = "live::watchdog: paused";
    let Some(mut scene) = Scene::open(test, "200ms", &one_task("grace: 1s")) else { return };
    scene.connect("c1", 3_000);
    scene.redisson.run(&format!("lock c1 t1 {LOCK}"));
    scene.switch("anna", "1");
    scene.agent.until(PATIENCE, "learned", |page| page.of(TASK, "lock_lease_seconds") == Some(3.0));
    let watch = scene.agent.watch();
    send_signal(scene.redisson.pid(), "STOP");
    let page = scene.agent.until(Duration::from_secs(3), "overdue", |page| overdue(page) > 0.0);
    assert_eq!(page.of(TASK, "lock_held"), Some(1.0));
    scene.agent.until(PATIENCE, "expired", |page| page.ends(TASK, "expired") == 1.0);
    scene.agent.until(PATIENCE, "down", |page| page.verdict(TASK) == "down");
    send_signal(scene.redisson.pid(), "CONT");
    sleep(Duration::from_millis(1500));
    let pages = watch.stop();
    assert_eq!(pages.last().unwrap().verdict(TASK), "down", "the woken holder has lost its lock");
    assert_eq!(pages.last().unwrap().ends(TASK, "expired"), 1.0);
    assert_eq!(greatest(&pages, TASK, "task_split_seconds"), 0.0);
}

fn overdue(page: &Exposition) -> f64 {
    page.of(TASK, "lock_renewal_overdue_seconds").unwrap_or(0.0)
}

fn latency(page: &Exposition) -> (f64, f64) {
    let sum = page.of(TASK, "lock_renewal_latency_seconds_sum").unwrap();
    (sum, page.of(TASK, "lock_renewal_latency_seconds_count").unwrap())
}
