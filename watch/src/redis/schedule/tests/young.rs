//! Young holds, and the free time between them, are looked at more often.

use alloc::string::ToString;

use super::*;

fn by(client: u64) -> LockReading {
    let client = client.to_string().into_bytes();
    let holder = Holder { client, thread: None, entries: None, secret: false };
    LockReading::from(Held {
        mode: Mode::Exclusive,
        holders: vec![holder],
        ghosts: 0,
        deadline: Deadline::Never,
    })
}

fn schedule(settle_ms: u64, hinted: bool) -> Schedule {
    let mut schedule =
        Schedule::new(vec![ScheduledTask { settle_ms, ..tasks(1)[0] }], 1_000, Mono::at(0));
    schedule.allow_glances(hinted);
    schedule
}

fn extras(log: &[String]) -> Vec<u64> {
    let extra = log.iter().filter_map(|line| line.split_once(" extra ")?.0.parse().ok());
    extra.collect()
}

#[test]
fn a_new_holder_is_looked_at_again_and_without_reports_until_it_settles() {
    let world = |at: u64| -> Answer { (by(at / 3_500), &[]) };
    let hinted = extras(&run(&mut schedule(1_000, true), 6_000, 1, world));
    assert_eq!(hinted, [4_260], "the first holder may be an old one");
    let blind = extras(&run(&mut schedule(1_000, false), 6_000, 1, world));
    assert_eq!(blind, [4_260, 4_520, 4_780]);
}

/// Counts the confirmed free readings of a lock that clients hold for `held_ms` of each `every_ms`,
/// beginning `early_ms` before the first reading.
fn confirmed_free(held_ms: u64, every_ms: u64, early_ms: u64, interval_ms: u64) -> usize {
    let watched = ScheduledTask { settle_ms: 5_000, grace_ms: Some(5_000), ..tasks(1)[0] };
    let mut schedule = Schedule::new(vec![watched], interval_ms, Mono::at(0));
    let world = |at: u64| -> Answer {
        let (round, since) = ((at + early_ms) / every_ms, (at + early_ms) % every_ms);
        (if since < held_ms { by(round) } else { LockReading::Free }, &[])
    };
    let log = run(&mut schedule, 20_000, 1, world);
    let mut free_since = None;
    let is_confirmed = |line: &&String| {
        let at: u64 = line.split(' ').next().unwrap().parse().unwrap();
        match world(at).0 {
            LockReading::Free => at - *free_since.get_or_insert(at) >= 250,
            _ => {
                free_since = None;
                false
            }
        }
    };
    log.iter().filter(is_confirmed).count()
}

/// Some of these rhythms repeat with the interval: what is missed once is then missed each time,
/// and a gap grows out of nothing.
#[test]
fn a_lock_that_is_taken_again_and_again_is_not_confirmed_free_by_chance() {
    for (held_ms, every_ms) in [(40, 90), (50, 150), (60, 160), (50, 250), (45, 200), (100, 300)] {
        for early_ms in 0..every_ms {
            for interval_ms in [500, 1_000] {
                let confirmed = confirmed_free(held_ms, every_ms, early_ms, interval_ms);
                let rhythm = format!("{held_ms} of {every_ms}, {early_ms}, each {interval_ms}");
                assert_eq!(confirmed, 0, "{rhythm}");
            }
        }
    }
    assert!(confirmed_free(100, 500, 100, 1_000) > 0, "it was free for long enough");
}

#[test]
fn a_hint_about_a_lock_that_is_perhaps_free_is_followed_at_once() {
    let mut schedule = schedule(5_000, true);
    let mut take = |now: u64, lock: LockReading| {
        let batch = schedule.due(Mono::at(now)).or_else(|| schedule.due_hinted(Mono::at(now)));
        let Some(batch) = batch else { return false };
        let server = ServerTime::at(WORLD_MS + i64::try_from(now).unwrap());
        schedule.observe(TaskIndex(0), Mono::at(now), server, &reading((lock, &[])));
        schedule.finished(&batch);
        schedule.hint(TaskIndex(0), Mono::at(now));
        true
    };
    assert!(take(0, by(1)));
    // More changes than a lock is read for while it is held.
    let held = (1..20).filter(|step| take(step * 10, by(1))).count();
    assert!(held < 10, "{held}");
    assert!(take(400, LockReading::Free));
    assert_eq!((1..20).filter(|step| take(400 + step * 10, LockReading::Free)).count(), 19);
}
