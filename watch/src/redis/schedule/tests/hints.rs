//! The cost of a hint, and that it has no other effect.

use super::*;
use crate::redis::schedule::Hinted;

const INTERVAL_MS: u64 = 10_000;

type Sent = Vec<(u64, Batch)>;

/// Runs `schedule` to `until` with these hints, in order of time; batches take `took_ms`. Returns
/// the batches, and when they were sent; the last ones end slightly later than `until`.
fn reads(
    schedule: &mut Schedule,
    until: u64,
    took_ms: u64,
    hints: impl IntoIterator<Item = (u64, u32)>,
) -> Sent {
    let mut hints = hints.into_iter().peekable();
    let mut sent: Vec<(u64, Batch)> = Vec::new();
    let mut under_way: Vec<(u64, Batch)> = Vec::new();
    loop {
        let wake = schedule
            .next_wake()
            .into_iter()
            .chain(schedule.next_hinted())
            .min()
            .map_or(u64::MAX, |at| at.ms());
        let done = under_way.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX);
        let hint = hints.peek().map_or(u64::MAX, |(at, _)| *at);
        let now = wake.min(done).min(hint);
        if now > until {
            under_way.iter().for_each(|(_, batch)| schedule.finished(batch));
            return sent;
        }
        while let Some((_, task)) = hints.next_if(|(at, _)| *at <= now) {
            schedule.hint(TaskIndex(task), Mono::at(now));
        }
        while let Some(first) = under_way.iter().position(|(at, _)| *at <= now) {
            let (_, batch) = under_way.remove(first);
            schedule.finished(&batch);
        }
        while let Some(batch) = due(schedule, now) {
            for task in &batch.tasks {
                let again = under_way.iter().any(|(_, other)| other.tasks.contains(task));
                assert!(!again, "two reads of {task:?} under way at {now}");
            }
            under_way.push((now + took_ms, batch.clone()));
            sent.push((now, batch));
        }
    }
}

/// The next batch that is due, hinted ones last.
fn due(schedule: &mut Schedule, now: u64) -> Option<Batch> {
    schedule.due(Mono::at(now)).or_else(|| schedule.due_hinted(Mono::at(now)))
}

fn extras(reads: &Sent) -> Vec<(u64, usize)> {
    let extras = reads.iter().filter(|(_, batch)| batch.kind == BatchKind::Extra);
    extras.map(|(at, batch)| (*at, batch.tasks.len())).collect()
}

#[test]
fn a_hint_is_followed_at_once_and_the_rhythm_goes_on() {
    let mut schedule = Schedule::new(tasks(3), INTERVAL_MS, Mono::at(0));
    let sent = reads(&mut schedule, 20_000, 5, [(2_000, 1), (2_000, 2)]);
    assert_eq!(extras(&sent), [(2_000, 2)]);
    let regular: Vec<u64> = sent
        .iter()
        .filter(|(_, batch)| batch.kind != BatchKind::Extra)
        .map(|(at, _)| *at)
        .collect();
    assert_eq!(regular, [0, 10_000, 20_000]);
}

#[test]
fn a_hint_during_a_read_is_followed_once_right_after_it() {
    let mut schedule = Schedule::new(tasks(1), INTERVAL_MS, Mono::at(0));
    let sent = reads(&mut schedule, 9_000, 50, [(2_000, 0), (2_010, 0), (2_020, 0), (2_049, 0)]);
    assert_eq!(extras(&sent), [(2_000, 1), (2_050, 1)]);
}

#[test]
fn what_is_read_anyway_is_not_read_again() {
    let mut schedule = Schedule::new(tasks(1), INTERVAL_MS, Mono::at(0));
    assert_eq!(schedule.hint(TaskIndex(0), Mono::at(0)), Hinted::Planned);
    assert_eq!(schedule.hint(TaskIndex(0), Mono::at(0)), Hinted::Coalesced);
    let sent = reads(&mut schedule, 9_000, 5, []);
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(schedule.hint(TaskIndex(7), Mono::at(0)), Hinted::Foreign);
}

#[test]
fn a_key_that_changes_without_a_pause_is_read_a_few_times_a_second() {
    let mut schedule = Schedule::new(tasks(100), INTERVAL_MS, Mono::at(0));
    let hot = (1_000..9_000).flat_map(|ms| [(ms, 7); 20]);
    let sent = extras(&reads(&mut schedule, 9_500, 1, hot));
    assert!((30..=40).contains(&sent.len()), "{} reads in 8 s: {sent:?}", sent.len());
    assert_eq!(sent[..4], [(1_000, 1), (1_001, 1), (1_002, 1), (1_003, 1)]);
    assert!(sent.last().unwrap().0 >= 8_999, "the last change is read too: {sent:?}");
}

/// A queue: each of its readings is of hundreds of locks.
#[test]
fn a_heavy_task_that_changes_without_a_pause_is_read_once_a_second() {
    let heavy =
        tasks(100).into_iter().map(|task| ScheduledTask { hint_weight: 4, ..task }).collect();
    let mut schedule = Schedule::new(heavy, INTERVAL_MS, Mono::at(0));
    let hot = (1_000..9_000).map(|ms| (ms, 7));
    let sent = extras(&reads(&mut schedule, 9_999, 1, hot));
    assert_eq!(sent[0], (1_000, 1), "the first change is followed at once");
    assert!((7..=9).contains(&sent.len()), "{sent:?}");
    assert!(sent.last().unwrap().0 >= 8_999, "the last change is read too: {sent:?}");
}

#[test]
fn many_changes_are_gathered_and_few_are_not() {
    let mut schedule = Schedule::new(tasks(10_000), 2_000, Mono::at(0));
    let _first_sweep = reads(&mut schedule, 10_000, 1, []);
    let many = (0..8_000).map(|n| (10_000 + n / 4, n as u32));
    let sent = extras(&reads(&mut schedule, 12_950, 1, many));
    assert!((80..=140).contains(&sent.len()), "{} batches for 4 changes a millisecond", sent.len());
    let few = (0..20_u64).map(|n| (13_001 + n * 100, n as u32));
    let sent = extras(&reads(&mut schedule, 15_500, 1, few));
    assert_eq!(sent, (0..20_u64).map(|n| (13_001 + n * 100, 1)).collect::<Vec<_>>());
}

#[test]
fn all_hinted_reads_together_are_bounded() {
    let mut schedule = Schedule::new(tasks(2_000), 1_000, Mono::at(0));
    let _first_sweep = reads(&mut schedule, 1_999, 1, []);
    let storm =
        (2_000..12_000).flat_map(|ms| (0..40).map(move |n| (ms, ((ms * 40 + n) % 2_000) as u32)));
    let count: usize =
        extras(&reads(&mut schedule, 12_000, 1, storm)).iter().map(|(_, tasks)| tasks).sum();
    assert!(
        (10_000..=20_600).contains(&count),
        "{count} hinted reads in 10 s beside 20,000 regular ones"
    );
}

#[test]
fn when_anything_may_have_changed_everything_is_read_within_the_budget() {
    let mut schedule = Schedule::new(tasks(3_000), INTERVAL_MS, Mono::at(0));
    let _first_sweep = reads(&mut schedule, 12_000, 1, []);
    schedule.hint_all(Mono::at(12_001));
    let sent = reads(&mut schedule, 15_000, 1, []);
    let mut read: Vec<TaskIndex> = sent.iter().flat_map(|(_, batch)| batch.tasks.clone()).collect();
    read.sort_unstable();
    read.dedup();
    assert_eq!(read.len(), 3_000);
    assert_eq!(extras(&sent)[0], (12_001, BATCH_TASKS));
}

#[test]
fn a_change_of_tasks_forgets_no_hint() {
    let mut schedule = Schedule::new(tasks(3), INTERVAL_MS, Mono::at(0));
    let _first_sweep = reads(&mut schedule, 2_000, 1, []);
    schedule.hint(TaskIndex(2), Mono::at(2_001));
    let mut reading = due(&mut schedule, 2_001).unwrap();
    schedule.hint(TaskIndex(2), Mono::at(2_002));
    schedule.hint(TaskIndex(0), Mono::at(2_002));
    reading.detach();
    schedule.change(
        tasks(3).into_iter().filter(|watched| watched.task != TaskIndex(1)).collect(),
        Mono::at(2_003),
    );
    assert_eq!(due(&mut schedule, 2_003).unwrap().tasks, [TaskIndex(0)]);
    schedule.finished(&reading);
    assert_eq!(due(&mut schedule, 2_004).unwrap().tasks, [TaskIndex(2)]);
}

#[test]
fn a_change_of_tasks_allows_nothing_more() {
    let now = Mono::at(12_001);
    // Single hints use up the budget of batches, simultaneous ones that of reads.
    for together in [1, 500_u32] {
        let mut schedule = Schedule::new(tasks(1_000), INTERVAL_MS, Mono::at(0));
        let _first_sweep = reads(&mut schedule, 12_000, 1, []);
        for first in (0..1_000).step_by(together as usize) {
            for task in first..first + together {
                schedule.hint(TaskIndex(task), now);
            }
            while let Some(batch) = schedule.due_hinted(now) {
                schedule.finished(&batch);
            }
        }
        let next = schedule.next_hinted().unwrap();
        assert!(next > now, "{together} together");
        schedule.change(tasks(1_000), now);
        assert_eq!(schedule.next_hinted(), Some(next), "{together} together");
    }
}

#[test]
fn a_read_that_broke_is_done_again() {
    let mut schedule = Schedule::new(tasks(1), INTERVAL_MS, Mono::at(0));
    let _first_sweep = reads(&mut schedule, 2_000, 1, []);
    schedule.hint(TaskIndex(0), Mono::at(2_001));
    let batch = due(&mut schedule, 2_001).unwrap();
    schedule.broken(&batch);
    assert_eq!(extras(&reads(&mut schedule, 9_000, 1, [])).len(), 1);
}

#[test]
fn a_task_with_too_large_a_reply_is_left_to_its_own_pace() {
    let mut schedule = Schedule::new(tasks(2), INTERVAL_MS, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).unwrap();
    schedule.too_large(&batch, &[TaskIndex(1)], Mono::at(5));
    assert_eq!(schedule.hint(TaskIndex(1), Mono::at(6)), Hinted::Coalesced);
    let sent = reads(&mut schedule, 9_000, 1, []);
    assert!(sent.iter().all(|(_, batch)| !batch.tasks.contains(&TaskIndex(1))), "{sent:?}");
}

/// The server is so slow that a sweep takes longer than the interval, and reports changes
/// continuously.
#[test]
fn where_more_is_due_than_can_be_read_hints_wait() {
    let count = 3_000;
    let mut read = [0, 0];
    for (hinted, reads) in read.iter_mut().enumerate() {
        let mut schedule = Schedule::new(tasks(count), 100, Mono::at(0));
        for now in (0..6_000).step_by(60) {
            if hinted == 1 {
                for task in 0..count {
                    schedule.hint(TaskIndex(task), Mono::at(now));
                }
            }
            let batch = due(&mut schedule, now).unwrap();
            *reads += usize::from(batch.kind != BatchKind::Extra);
            schedule.finished(&batch);
        }
    }
    assert_eq!(read, [100, 100], "all that can be read is read by the rhythm");
}

/// If a hint is lost, the end of the lease is read as early as without hints.
#[test]
fn hints_use_up_no_read_after_a_deadline() {
    let mut schedule = Schedule::new(tasks(1), 60_000, Mono::at(0));
    let mut observe = |now: u64| {
        let Some(batch) = due(&mut schedule, now) else { return };
        let reading = reading((held_until(i64::try_from(now).unwrap() + 3_000), &[]));
        schedule.observe(
            TaskIndex(0),
            Mono::at(now),
            ServerTime::at(WORLD_MS + i64::try_from(now).unwrap()),
            &reading,
        );
        schedule.finished(&batch);
        schedule.hint(TaskIndex(0), Mono::at(now + 1));
    };
    for now in (0..30_000).step_by(100) {
        observe(now);
    }
    // The last renewal is reported, and nothing after it.
    let last = schedule.next_hinted().unwrap();
    let batch = schedule.due_hinted(last).unwrap();
    let at = ServerTime::at(WORLD_MS + i64::try_from(last.ms()).unwrap());
    schedule.observe(
        TaskIndex(0),
        last,
        at,
        &reading((held_until(at.ms() - WORLD_MS + 3_000), &[])),
    );
    schedule.finished(&batch);
    assert_eq!(schedule.next_wake(), Some(last.plus_ms(3_020)));
}
