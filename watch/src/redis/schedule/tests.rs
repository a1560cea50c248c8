use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::entry::{DEADLINE_READS, GRACES_MAX};
use super::*;
use lockwatch_judge::reading::{
    Deadline, Ends, Extras, Held, Holder, LockReading, Mode, Parts, Switch, Unknown, User,
};

mod changes;
mod glances;
mod hints;
mod young;

/// What the simulated server answers at an instant: the lock, and the existing switches (with a
/// leading `+`: on).
type Answer = (LockReading, &'static [&'static str]);

const WORLD_MS: i64 = 1_700_000_000_000;

/// Number of tasks that fill a slot.
const FULL: u32 = BATCH_TASKS as u32;

fn tasks(count: u32) -> Vec<ScheduledTask> {
    (0..count)
        .map(|task| ScheduledTask {
            task: TaskIndex(task),
            grace_ms: None,
            proves_holders: false,
            settle_ms: 0,
            hint_weight: 1,
        })
        .collect()
}

/// A plan for tasks that may be wanted, with this grace.
fn with_grace(count: u32, grace_ms: u64, interval_ms: u64) -> Schedule {
    let watched = tasks(count)
        .into_iter()
        .map(|watched| ScheduledTask { grace_ms: Some(grace_ms), ..watched });
    Schedule::new(watched.collect(), interval_ms, Mono::at(0))
}

fn held_until(deadline_ms: i64) -> LockReading {
    let deadline = Deadline::At(ServerTime::at(WORLD_MS + deadline_ms));
    LockReading::from(Held { mode: Mode::Exclusive, holders: Vec::new(), ghosts: 0, deadline })
}

fn reading(answer: Answer) -> TaskReading {
    let switch = |word: &&str| match word.strip_prefix('+') {
        Some(user) => (user.as_bytes().to_vec(), Switch::On),
        None => (word.as_bytes().to_vec(), Switch::Off),
    };
    let mut switches: Vec<(User, Switch)> = answer.1.iter().map(switch).collect();
    switches.sort_by(|a, b| a.0.cmp(&b.0));
    let switches = SwitchesReading::Read {
        switches,
        key_exists: true,
        counted: None,
        whole: true,
        ends: Ends::UNKNOWN,
    };
    let parts = Parts { switches: Some(switches), ..Parts::default() };
    TaskReading::of_lock(answer.0, Extras::default(), parts)
}

/// The kind of the batch that is due at `now`, and its number of tasks; the batch ends at once.
fn read(schedule: &mut Schedule, now: u64) -> (BatchKind, usize) {
    let batch = schedule.due(Mono::at(now)).expect("a batch");
    schedule.finished(&batch);
    (batch.kind, batch.tasks.len())
}

/// Runs `schedule` to `until`, waking when it requests that. Every batch is answered `took_ms`
/// later by `world`, with the state at its sending. Returns a line per batch: instant, kind, and
/// number of tasks.
fn run(
    schedule: &mut Schedule,
    until: u64,
    took_ms: u64,
    world: impl Fn(u64) -> Answer,
) -> Vec<String> {
    let mut log = Vec::new();
    let mut under_way: Vec<(u64, Batch)> = Vec::new();
    loop {
        let wake = schedule.next_wake().map_or(u64::MAX, |at| at.ms());
        let done = under_way.iter().map(|(sent, _)| sent + took_ms).min().unwrap_or(u64::MAX);
        let now = wake.min(done);
        if now > until {
            return log;
        }
        while let Some(first) = under_way.iter().position(|(sent, _)| sent + took_ms <= now) {
            let (sent, batch) = under_way.remove(first);
            for task in &batch.tasks {
                let server = ServerTime::at(WORLD_MS + i64::try_from(sent).unwrap());
                schedule.observe(*task, Mono::at(sent), server, &reading(world(sent)));
            }
            schedule.finished(&batch);
        }
        while let Some(batch) = schedule.due(Mono::at(now)) {
            let kind = match batch.kind {
                BatchKind::Regular { .. } => "regular",
                BatchKind::Extra => "extra",
                BatchKind::Suspects => "suspects",
            };
            log.push(format!("{now} {kind} {}", batch.tasks.len()));
            under_way.push((now, batch));
        }
    }
}

#[test]
fn few_tasks_are_read_together_at_each_tick() {
    let mut schedule = Schedule::new(tasks(3), 1_000, Mono::at(100));
    let log = run(&mut schedule, 2_500, 5, |_| (held_until(100_000), &[]));
    assert_eq!(log, ["100 regular 3", "1100 regular 3", "2100 regular 3"]);
    assert_eq!(schedule.take_skipped(), 0);
}

#[test]
fn a_redis_without_tasks_is_still_asked_how_it_is() {
    let mut schedule = Schedule::new(Vec::new(), 1_000, Mono::at(0));
    let log = run(&mut schedule, 1_500, 5, |_| (LockReading::Free, &[]));
    assert_eq!(log, ["0 regular 0", "1000 regular 0"]);
}

#[test]
fn many_tasks_are_spread_over_the_interval_and_each_is_read_once() {
    let mut schedule = Schedule::new(tasks(20 * FULL), 1_000, Mono::at(0));
    let mut seen = vec![0; 20 * BATCH_TASKS];
    for now in 0..1_000 {
        while let Some(batch) = schedule.due(Mono::at(now)) {
            assert_eq!(now % 50, 0, "a batch beside the grid");
            assert_eq!(batch.tasks.len(), BATCH_TASKS);
            for task in &batch.tasks {
                seen[task.0 as usize] += 1;
            }
            schedule.finished(&batch);
        }
    }
    assert!(seen.iter().all(|count| *count == 1));
}

#[test]
fn slots_are_even() {
    let sizes: Vec<usize> = (0..3).map(|part| share(1_001, 3, part).len()).collect();
    assert_eq!(sizes, [333, 334, 334]);
}

#[test]
fn waiters_and_tokens_are_asked_for_less_often_where_there_are_many_tasks() {
    for (count, every) in [(1, 1), (250, 1), (251, 2), (5_000, 10)] {
        let mut schedule = Schedule::new(tasks(count), 1_000, Mono::at(0));
        let mut asked = vec![0; count as usize];
        for now in 0..20_000 {
            while let Some(batch) = schedule.due(Mono::at(now)) {
                let mut share = 0;
                for task in batch.tasks.iter().filter(|task| schedule.asks_extras(&batch, **task)) {
                    asked[task.0 as usize] += 1;
                    share += 1;
                }
                let even = batch.tasks.len().div_ceil(every);
                assert!(
                    (even - 1..=even).contains(&share),
                    "{share} of {} tasks in one batch",
                    batch.tasks.len()
                );
                schedule.finished(&batch);
            }
        }
        assert!(asked.iter().all(|times| *times == 20 / every), "{count} tasks: {asked:?}");
    }
}

#[test]
fn the_first_free_after_a_hold_is_confirmed_once() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let world = |now| (if now < 500 { held_until(100_000) } else { LockReading::Free }, &[][..]);
    assert_eq!(
        run(&mut schedule, 3_000, 5, world),
        ["0 regular 1", "1000 regular 1", "1260 extra 1", "2000 regular 1", "3000 regular 1"]
    );
}

#[test]
fn a_lock_first_seen_free_is_confirmed_too() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let log = run(&mut schedule, 1_000, 5, |_| (LockReading::Free, &[]));
    assert_eq!(log, ["0 regular 1", "260 extra 1", "1000 regular 1"]);
}

#[test]
fn a_tick_that_comes_late_enough_confirms_by_itself() {
    let mut schedule = Schedule::new(tasks(1), 255, Mono::at(0));
    let log = run(&mut schedule, 600, 5, |_| (LockReading::Free, &[]));
    assert_eq!(log, ["0 regular 1", "255 regular 1", "510 regular 1"]);
}

#[test]
fn a_tick_that_comes_too_early_does_not_replace_the_confirmation() {
    let mut schedule = Schedule::new(tasks(1), 200, Mono::at(0));
    let log = run(&mut schedule, 500, 5, |_| (LockReading::Free, &[]));
    assert_eq!(log, ["0 regular 1", "200 regular 1", "260 extra 1", "400 regular 1"]);
}

#[test]
fn a_confirmation_that_finds_a_holder_ends_there_and_the_next_free_is_confirmed_anew() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let world = |now| match now {
        200..900 => (held_until(100_000), &[][..]),
        _ => (LockReading::Free, &[][..]),
    };
    let log = run(&mut schedule, 1_999, 5, world);
    assert_eq!(log, ["0 regular 1", "260 extra 1", "1000 regular 1", "1260 extra 1"]);
}

#[test]
fn unknowns_between_do_not_stop_a_confirmation_nor_repeat_it() {
    let mut schedule = Schedule::new(tasks(1), 100, Mono::at(0));
    let world = |now| match now {
        0 => (LockReading::Free, &[][..]),
        _ => (LockReading::Unknown(Unknown::NoPermission), &[][..]),
    };
    let log = run(&mut schedule, 450, 5, world);
    assert_eq!(
        log,
        [
            "0 regular 1",
            "100 regular 1",
            "200 regular 1",
            "260 extra 1",
            "300 regular 1",
            "400 regular 1"
        ]
    );
}

#[test]
fn a_deadline_is_looked_at_as_soon_as_it_has_passed() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let world = |now| (if now < 1_400 { held_until(1_400) } else { LockReading::Free }, &[][..]);
    let log = run(&mut schedule, 2_000, 5, world);
    assert_eq!(
        log,
        ["0 regular 1", "1000 regular 1", "1420 extra 1", "1680 extra 1", "2000 regular 1"]
    );
}

#[test]
fn a_renewed_deadline_replaces_the_old_one() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let world = |now| (held_until(if now < 300 { 700 } else { 100_000 }), &[][..]);
    let log = run(&mut schedule, 1_999, 5, world);
    assert_eq!(log, ["0 regular 1", "720 extra 1", "1000 regular 1"]);
}

#[test]
fn a_lease_much_shorter_than_the_interval_is_not_chased_without_end() {
    let mut schedule = Schedule::new(tasks(1), 60_000, Mono::at(0));
    let log =
        run(&mut schedule, 59_999, 5, |now| (held_until(i64::try_from(now).unwrap() + 100), &[]));
    assert_eq!(log.len(), 1 + usize::from(DEADLINE_READS));
}

#[test]
fn a_lock_held_beyond_its_deadline_is_left_to_the_ticks() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let log = run(&mut schedule, 999, 5, |_| (held_until(0), &[]));
    assert_eq!(log, ["0 regular 1"]);
}

#[test]
fn a_switch_that_vanishes_is_looked_at_again() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let world =
        |now| (held_until(100_000), if now < 500 { &["+ann", "+bob"][..] } else { &["+ann"][..] });
    let log = run(&mut schedule, 2_000, 5, world);
    assert_eq!(log, ["0 regular 1", "1000 regular 1", "1260 extra 1", "2000 regular 1"]);
}

/// In a cluster, the switches may be on another server than the lock, so their readings come at any
/// instant.
#[test]
fn a_switch_that_vanishes_elsewhere_is_looked_at_again_too() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let parts =
        |switches: &'static [&'static str]| reading((LockReading::Free, switches)).parts.switches;
    let first = schedule.due(Mono::at(0)).unwrap();
    schedule.finished(&first);
    schedule.observe_switches(TaskIndex(0), Mono::at(400), parts(&["+ann", "+bob"]).as_ref());
    assert_eq!(schedule.next_wake(), Some(Mono::at(1_000)));
    schedule.observe_switches(TaskIndex(0), Mono::at(500), parts(&["+ann"]).as_ref());
    assert_eq!(schedule.next_wake(), Some(Mono::at(760)));
}

#[test]
fn a_switch_that_is_turned_off_is_no_reason_to_hurry() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let world = |now| (held_until(100_000), if now < 500 { &["+ann"][..] } else { &["ann"][..] });
    assert_eq!(run(&mut schedule, 2_000, 5, world).len(), 3);
}

#[test]
fn a_tick_that_finds_the_slot_being_read_is_skipped_and_counted() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let log = run(&mut schedule, 5_000, 2_500, |_| (held_until(100_000), &[]));
    assert_eq!(log, ["0 regular 1", "3000 regular 1"]);
    assert_eq!(schedule.take_skipped(), 4, "the ticks at 1000, 2000, 4000 and 5000");
    assert_eq!(schedule.take_skipped(), 0);
}

#[test]
fn a_sweep_that_is_skipped_in_many_slots_counts_once() {
    let mut schedule = Schedule::new(tasks(1_500), 900, Mono::at(0));
    run(&mut schedule, 1_799, 1_000, |_| (held_until(100_000), &[]));
    assert_eq!(schedule.take_skipped(), 1);
}

#[test]
fn ticks_that_passed_while_the_agent_was_paused_are_not_caught_up() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let first = schedule.due(Mono::at(0)).unwrap();
    schedule.finished(&first);
    let after = schedule.due(Mono::at(30_400)).unwrap();
    schedule.finished(&after);
    assert_eq!(schedule.due(Mono::at(30_400)), None);
    assert_eq!(schedule.take_skipped(), 1);
    assert_eq!(schedule.next_wake(), Some(Mono::at(31_000)), "the rhythm keeps its phase");
}

#[test]
fn a_broken_batch_is_due_again_at_once_without_a_new_rhythm() {
    let mut schedule = Schedule::new(tasks(2), 1_000, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).unwrap();
    assert_eq!(schedule.due(Mono::at(300)), None, "it is under way");
    schedule.broken(&batch);
    assert!(schedule.next_wake() <= Some(Mono::at(300)));
    let again = schedule.due(Mono::at(300)).unwrap();
    assert_eq!(again.tasks, batch.tasks);
    schedule.finished(&again);
    assert_eq!(schedule.next_wake(), Some(Mono::at(1_000)));
}

#[test]
fn a_broken_confirmation_is_due_again_at_once() {
    let mut schedule = Schedule::new(tasks(2), 1_000, Mono::at(0));
    run(&mut schedule, 259, 5, |_| (LockReading::Free, &[]));
    let batch = schedule.due(Mono::at(260)).unwrap();
    assert_eq!((batch.kind, batch.tasks.len()), (BatchKind::Extra, 2));
    schedule.broken(&batch);
    assert_eq!(schedule.due(Mono::at(261)), Some(batch));
}

#[test]
fn without_a_connection_each_tick_names_its_tasks_and_then_all_are_due() {
    let mut schedule = Schedule::new(tasks(2 * (FULL - 50)), 1_000, Mono::at(0));
    assert_eq!(schedule.missed(Mono::at(0)).len(), BATCH_TASKS - 50);
    assert_eq!(schedule.missed(Mono::at(499)).len(), 0);
    assert_eq!(schedule.missed(Mono::at(500)).len(), BATCH_TASKS - 50);
    assert_eq!(
        schedule.missed(Mono::at(5_100)).len(),
        2 * (BATCH_TASKS - 50),
        "long blocked: each task once"
    );
    assert_eq!(schedule.take_skipped(), 0, "these are failures, not skipped ticks");
    assert_eq!(schedule.due(Mono::at(5_200)).unwrap().tasks.len(), BATCH_TASKS - 50);
    assert_eq!(schedule.due(Mono::at(5_200)).unwrap().tasks.len(), BATCH_TASKS - 50);
    assert_eq!(schedule.due(Mono::at(5_200)), None);
}

#[test]
fn a_batch_that_goes_out_with_the_greeting_is_not_waited_for_in_a_loop() {
    let mut schedule = Schedule::new(tasks(2 * (FULL - 50)), 1_000, Mono::at(0));
    let greeting = schedule.due(Mono::at(0)).unwrap();
    assert_eq!(schedule.missed(Mono::at(500)).len(), BATCH_TASKS - 50);
    // If the first slot's tick at 1,000 were returned, the watcher would wake repeatedly until the
    // dial ends.
    for now in [1_000, 1_400, 2_000] {
        schedule.missed(Mono::at(now));
        assert!(schedule.next_tick() > Some(Mono::at(now)));
    }
    schedule.broken(&greeting);
    assert_eq!(schedule.missed(Mono::at(3_000)).len(), 2 * (BATCH_TASKS - 50));
    assert_eq!(schedule.next_tick(), Some(Mono::at(3_500)));
}

#[test]
fn a_task_never_has_two_reads_outstanding() {
    let mut schedule = Schedule::new(tasks(2), 1_000, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).unwrap();
    schedule.observe(
        TaskIndex(0),
        Mono::at(0),
        ServerTime::at(WORLD_MS),
        &reading((LockReading::Free, &[])),
    );
    assert_eq!(
        schedule.due(Mono::at(260)),
        None,
        "a further round of the batch is still under way"
    );
    schedule.finished(&batch);
    let extra = schedule.due(Mono::at(900)).unwrap();
    assert_eq!((extra.kind, &extra.tasks[..]), (BatchKind::Extra, &[TaskIndex(0)][..]));
    assert_eq!(schedule.due(Mono::at(1_000)).unwrap().tasks, [TaskIndex(1)]);
}

#[test]
fn extra_reads_that_are_due_together_share_a_batch() {
    let mut schedule = Schedule::new(tasks(200), 1_000, Mono::at(0));
    let log = run(&mut schedule, 999, 5, |_| (LockReading::Free, &[]));
    assert_eq!(log, ["0 regular 200", "260 extra 200"]);
}

#[test]
fn a_gap_is_looked_at_as_soon_as_it_exceeds_the_grace() {
    let mut schedule = with_grace(1, 2_000, 5_000);
    let world =
        |now| (if now < 100 { held_until(100_000) } else { LockReading::Free }, &["+ann"][..]);
    let log = run(&mut schedule, 10_000, 5, world);
    assert_eq!(
        log,
        ["0 regular 1", "5000 regular 1", "5260 extra 1", "7020 extra 1", "10000 regular 1"]
    );
}

#[test]
fn the_grace_counts_from_the_switch_when_that_comes_later() {
    let mut schedule = with_grace(1, 2_000, 5_000);
    let log = run(&mut schedule, 9_999, 5, |now| {
        (LockReading::Free, if now < 3_000 { &["ann"] } else { &["+ann"] })
    });
    assert_eq!(
        log,
        ["0 regular 1", "260 extra 1", "2020 extra 1", "5000 regular 1", "7020 extra 1"]
    );
}

#[test]
fn switched_off_and_on_again_within_the_grace() {
    let mut schedule = with_grace(1, 3_500, 1_000);
    let world = |now| {
        (LockReading::Free, if (900..1_900).contains(&now) { &["ann"][..] } else { &["+ann"][..] })
    };
    let log = run(&mut schedule, 5_999, 5, world);
    let extras: Vec<&String> = log.iter().filter(|line| line.contains("extra")).collect();
    assert_eq!(extras, ["260 extra 1", "3520 extra 1", "5520 extra 1"]);
}

#[test]
fn a_hold_forgets_the_grace_of_the_gap_before() {
    let mut schedule = with_grace(1, 2_000, 1_000);
    let world = |now| match now {
        900..1_900 => (held_until(100_000), &["+ann"][..]),
        _ => (LockReading::Free, &["+ann"][..]),
    };
    let log = run(&mut schedule, 4_999, 5, world);
    let extras: Vec<&String> = log.iter().filter(|line| line.contains("extra")).collect();
    assert_eq!(extras, ["260 extra 1", "2260 extra 1", "4020 extra 1"]);
}

#[test]
fn a_grace_shorter_than_the_confirmation_needs_no_read_of_its_own() {
    for grace_ms in [0, 100, 249, 250] {
        let mut schedule = with_grace(1, grace_ms, 1_000);
        let log = run(&mut schedule, 999, 5, |_| (LockReading::Free, &["+ann"]));
        assert_eq!(log, ["0 regular 1", "260 extra 1"], "{grace_ms}");
    }
}

#[test]
fn a_tick_just_after_the_grace_takes_the_place_of_the_extra_read() {
    let mut schedule = with_grace(1, 990, 1_000);
    let log = run(&mut schedule, 1_999, 5, |_| (LockReading::Free, &["+ann"]));
    assert_eq!(log, ["0 regular 1", "260 extra 1", "1000 regular 1"]);
}

#[test]
fn a_read_under_way_delays_the_one_after_the_grace_and_does_not_replace_it() {
    let mut schedule = with_grace(1, 1_990, 1_000);
    let log = run(&mut schedule, 2_999, 100, |_| (LockReading::Free, &["+ann"]));
    assert_eq!(log, ["0 regular 1", "260 extra 1", "1000 regular 1", "2000 regular 1"]);
    let mut schedule = with_grace(1, 2_000, 1_000);
    let log = run(&mut schedule, 2_999, 100, |_| (LockReading::Free, &["+ann"]));
    assert_eq!(
        log,
        ["0 regular 1", "260 extra 1", "1000 regular 1", "2000 regular 1", "2100 extra 1"]
    );
}

#[test]
fn a_read_after_the_grace_that_says_nothing_is_left_to_the_ticks() {
    let mut schedule = with_grace(1, 1_500, 1_000);
    let world = |now| match now {
        1_500..1_600 => (LockReading::Unknown(Unknown::NoPermission), &["+ann"][..]),
        _ => (LockReading::Free, &["+ann"][..]),
    };
    let log = run(&mut schedule, 2_000, 5, world);
    assert_eq!(
        log,
        ["0 regular 1", "260 extra 1", "1000 regular 1", "1520 extra 1", "2000 regular 1"]
    );
}

#[test]
fn switches_that_flap_do_not_ask_for_more_and_more_reads() {
    let mut schedule = with_grace(1, 10_000, 100);
    let world = |now| {
        (
            LockReading::Free,
            if now < 5_000 && now % 200 == 0 { &["ann"][..] } else { &["+ann"][..] },
        )
    };
    let log = run(&mut schedule, 30_000, 5, world);
    let after: Vec<u64> =
        log.iter().filter(|line| line.contains("extra")).map(|line| at(line)).collect();
    assert!(after.len() <= 1 + GRACES_MAX, "{after:?}");
    assert!(
        after.contains(&10_020) && after.contains(&14_920),
        "the first and the last gap: {after:?}"
    );
}

/// The instant of a line of [`run`].
fn at(line: &str) -> u64 {
    line.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn many_gaps_that_begin_together_share_the_read_after_the_grace() {
    let mut schedule = with_grace(20 * FULL, 2_000, 1_000);
    let log = run(&mut schedule, 5_999, 1, |now| {
        (if now < 1_000 { held_until(100_000) } else { LockReading::Free }, &["+ann"][..])
    });
    let reads = |kind: &str| log.iter().filter(|line| line.contains(kind)).count();
    assert_eq!(
        (reads("regular"), reads("extra")),
        (6 * 20, 2 * 20),
        "one confirmation, one look after the grace"
    );
}

/// Reads `schedule` at `now` from a server whose replies for `large` are too large; returns the
/// tasks that were read.
fn read_all(schedule: &mut Schedule, now: u64, large: u32) -> (Vec<u32>, Vec<u32>) {
    let (mut read, mut withheld) = (Vec::new(), Vec::new());
    while let Some(batch) = schedule.due(Mono::at(now)) {
        withheld.extend(batch.withheld.iter().map(|task| task.0));
        if batch.tasks.contains(&TaskIndex(large)) {
            schedule.too_large(&batch, &batch.tasks, Mono::at(now));
        } else {
            read.extend(batch.tasks.iter().map(|task| task.0));
            schedule.finished(&batch);
        }
    }
    read.sort_unstable();
    (read, withheld)
}

#[test]
fn a_task_with_too_large_replies_does_not_blind_the_others() {
    let mut schedule = Schedule::new(tasks(FULL), 1_000, Mono::at(0));
    let others: Vec<u32> = (0..FULL).filter(|task| *task != 123).collect();
    assert_eq!(read_all(&mut schedule, 0, 123), (others.clone(), vec![]), "found by halving");
    for now in [1_000, 2_000, 59_000] {
        assert_eq!(
            read_all(&mut schedule, now, 123),
            (others.clone(), vec![123]),
            "left out, and said so"
        );
    }
    assert_eq!(
        read_all(&mut schedule, 60_000, 123),
        (others, vec![123]),
        "tried again, still too large"
    );
    assert_eq!(
        read_all(&mut schedule, 120_000, u32::MAX).0.len(),
        BATCH_TASKS,
        "tried again, and no longer too large"
    );
    assert_eq!(
        read_all(&mut schedule, 121_000, u32::MAX),
        ((0..FULL).collect(), vec![]),
        "back in its slot"
    );
}

#[test]
fn suspects_of_a_batch_that_broke_for_another_reason_stay_suspects() {
    let mut schedule = Schedule::new(tasks(4), 1_000, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).unwrap();
    schedule.too_large(&batch, &batch.tasks, Mono::at(0));
    assert_eq!(schedule.next_wake(), Some(Mono::at(0)));
    let half = schedule.due(Mono::at(1)).unwrap();
    assert_eq!((half.kind, half.tasks.len()), (BatchKind::Suspects, 2));
    schedule.broken(&half);
    assert_eq!(schedule.due(Mono::at(2)), Some(half));
}

#[test]
fn only_the_tasks_of_the_round_that_broke_are_suspects() {
    let mut schedule = Schedule::new(tasks(4), 1_000, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).unwrap();
    schedule.too_large(&batch, &[TaskIndex(2)], Mono::at(0));
    assert_eq!(schedule.due(Mono::at(1)), None);
    let next = schedule.due(Mono::at(1_000)).unwrap();
    assert_eq!(
        (next.tasks, next.withheld),
        (vec![TaskIndex(0), TaskIndex(1), TaskIndex(3)], vec![TaskIndex(2)])
    );
}

/// Reads everything that is due at `now` and returns the tasks, sorted.
fn read_due(schedule: &mut Schedule, now: u64) -> Vec<u32> {
    let mut read = Vec::new();
    while let Some(batch) = schedule.due(Mono::at(now)) {
        for task in &batch.tasks {
            let at = ServerTime::at(WORLD_MS + i64::try_from(now).unwrap());
            schedule.observe(*task, Mono::at(now), at, &reading((held_until(60_000), &[])));
            read.push(task.0);
        }
        schedule.finished(&batch);
    }
    read.sort_unstable();
    read
}

/// The server or the agent is so slow that a sweep takes longer than the interval.
#[test]
fn more_than_can_be_read_starves_no_slot_and_no_confirmation() {
    let count = 6 * FULL;
    let mut schedule = Schedule::new(tasks(count), 100, Mono::at(0));
    let mut reads = vec![0; count as usize];
    let (mut extras, mut slots) = (0, Vec::new());
    for now in (0..6_000).step_by(60) {
        let batch = schedule.due(Mono::at(now)).unwrap();
        match batch.kind {
            BatchKind::Regular { first, .. } => slots.push(first),
            BatchKind::Extra => extras += 1,
            BatchKind::Suspects => {}
        }
        for task in &batch.tasks {
            reads[task.0 as usize] += 1;
            schedule.observe(
                *task,
                Mono::at(now),
                ServerTime::at(WORLD_MS),
                &reading((LockReading::Free, &[])),
            );
        }
        schedule.finished(&batch);
    }
    let (least, most) = (reads.iter().min().unwrap(), reads.iter().max().unwrap());
    assert!(
        *least >= 10 && most - least <= 4,
        "each task in turn: {least} to {most} times, slots {slots:?}"
    );
    assert!(extras >= 5, "each first free lock is confirmed: {extras}");
}

/// With several servers, a new holder is read again when it cannot be a phantom any more; a known
/// one is not.
#[test]
fn a_new_holder_is_proved_where_there_are_other_servers() {
    let held = |who: &str| {
        let holders = vec![Holder {
            client: who.as_bytes().to_vec(),
            thread: None,
            entries: None,
            secret: false,
        }];
        LockReading::from(Held {
            mode: Mode::Exclusive,
            holders,
            ghosts: 0,
            deadline: Deadline::Never,
        })
    };
    for (proves_holders, extra) in [(true, 2), (false, 0)] {
        let watched = vec![ScheduledTask { proves_holders, ..tasks(1)[0] }];
        let mut schedule = Schedule::new(watched, 5_000, Mono::at(0));
        let world = |at: u64| -> Answer { (held(if at < 10_000 { "A" } else { "B" }), &[]) };
        let log = run(&mut schedule, 24_000, 1, world);
        let extras: Vec<&String> = log.iter().filter(|line| line.contains("extra")).collect();
        assert_eq!(extras.len(), extra, "{log:?}");
        assert!(
            extras.iter().all(|line| line.starts_with("1170") || line.starts_with("11170")),
            "{log:?}"
        );
    }
}

#[test]
fn each_tick_allows_reads_after_deadlines_anew() {
    let mut schedule = Schedule::new(tasks(1), 1_000, Mono::at(0));
    let world = |now: u64| (held_until(i64::try_from(now / 1_000 * 1_000 + 600).unwrap()), &[][..]);
    let log = run(&mut schedule, 20_999, 5, world);
    assert_eq!(log.len(), 2 * 21);
}

#[test]
fn a_changed_grace_counts_from_the_next_gap_on() {
    let mut schedule = with_grace(1, 2_000, 5_000);
    schedule.change(vec![ScheduledTask { grace_ms: Some(500), ..tasks(1)[0] }], Mono::at(0));
    let log = run(&mut schedule, 4_000, 5, |_| (LockReading::Free, &["+ann"]));
    assert_eq!(log, ["0 regular 1", "260 extra 1", "520 extra 1"]);
}

/// A task that was read half an interval ago is due in half an interval, whatever other tasks there
/// are now.
#[test]
fn a_change_of_tasks_leaves_the_rhythm_of_those_that_stay() {
    let mut schedule = Schedule::new(tasks(300), 1_000, Mono::at(0));
    assert_eq!(read(&mut schedule, 0), (BatchKind::Regular { first: 0, slots: 1 }, 150));
    schedule.change(tasks(300), Mono::at(400));
    assert_eq!((schedule.next_wake(), schedule.due(Mono::at(499))), (Some(Mono::at(500)), None));
    assert_eq!(read(&mut schedule, 500), (BatchKind::Regular { first: 1, slots: 1 }, 150));
    schedule.change(tasks(301), Mono::at(600));
    assert_eq!(schedule.next_wake(), Some(Mono::at(600)), "the new one is due");
    assert_eq!(read(&mut schedule, 600), (BatchKind::Extra, 1));
    assert_eq!(read(&mut schedule, 1_000), (BatchKind::Regular { first: 0, slots: 1 }, 150));
    assert_eq!(schedule.next_wake(), Some(Mono::at(1_500)));
}

#[test]
fn extras_are_asked_for_as_often_as_somebody_wants() {
    let with_extras = |whole_every: Option<u64>| {
        let sizes = Sizes { whole_every, ..Sizes::default() };
        let mut schedule = Schedule::sized(tasks(3), 1_000, Mono::at(0), sizes);
        let sweeps = (0..6).map(|sweep| {
            let batch = schedule.due(Mono::at(sweep * 1_000)).expect("a batch");
            let asks = schedule.asks_extras(&batch, TaskIndex(0));
            schedule.finished(&batch);
            asks
        });
        sweeps.filter(|with_extras| *with_extras).count()
    };
    assert_eq!([None, Some(0), Some(2), Some(3)].map(with_extras), [6, 6, 3, 2]);
}

#[test]
fn sizes_outlast_a_change() {
    let mut schedule = one_by_one(3);
    let slot = |first| (BatchKind::Regular { first, slots: 1 }, 1);
    assert_eq!([0, 300, 600].map(|at| read(&mut schedule, at)), [0, 1, 2].map(slot));
    schedule.change(tasks(2), Mono::at(700));
    assert_eq!([900, 1_350].map(|at| read(&mut schedule, at)), [0, 1].map(slot));
}

/// After the configuration is loaded again, a schedule first has no tasks at all.
fn replanned(schedule: &Schedule, count: u32, now: u64) -> Schedule {
    schedule.replanned(Vec::new(), 900, Mono::at(now)).replanned(tasks(count), 900, Mono::at(now))
}

/// One slot for each of `count` tasks.
fn one_by_one(count: u32) -> Schedule {
    Schedule::sized(tasks(count), 900, Mono::at(0), Sizes { slot_tasks: 1, ..Sizes::default() })
}

#[test]
fn no_task_waits_longer_because_plans_are_made_anew() {
    for every in [1_u64, 40, 299, 300, 301, 899, 901, 2_000] {
        let mut schedule = one_by_one(3);
        let mut read_at = [0_u64; 3];
        for now in 0..5_000 {
            if now % every == 0 {
                schedule = replanned(&schedule, 3, now);
            }
            while let Some(batch) = schedule.due(Mono::at(now)) {
                batch.tasks.iter().for_each(|task| read_at[task.0 as usize] = now);
                schedule.finished(&batch);
            }
            let waited = read_at.map(|at| now - at).into_iter().max();
            assert!(waited <= Some(900), "replanned each {every} ms: {waited:?} at {now}");
        }
    }
}

#[test]
fn a_plan_that_is_made_anew_begins_with_what_has_no_answer_yet() {
    let first = |schedule: &Schedule, count: u32, now: u64| {
        replanned(schedule, count, now)
            .due(Mono::at(now))
            .map(|batch| batch.tasks)
            .unwrap_or_default()
    };
    let mut schedule = one_by_one(3);
    assert_eq!(first(&schedule, 3, 0), [TaskIndex(0)]);
    read(&mut schedule, 0);
    assert_eq!(first(&schedule, 3, 10), [TaskIndex(1)]);
    let under_way = schedule.due(Mono::at(300)).expect("a batch");
    assert_eq!(first(&schedule, 3, 310), [TaskIndex(1)]);
    schedule.broken(&under_way);
    assert_eq!(first(&schedule, 3, 320), [TaskIndex(1)]);
    // The second third of six, and of one.
    assert_eq!([6, 1].map(|count| first(&schedule, count, 330)), [[TaskIndex(2)], [TaskIndex(0)]]);
}
