//! Tasks are added and removed: those that stay keep their rhythm, and their reads in flight or
//! planned.

use super::*;

fn some(tasks: &[u32]) -> Vec<ScheduledTask> {
    tasks
        .iter()
        .map(|task| ScheduledTask {
            task: TaskIndex(*task),
            grace_ms: None,
            proves_holders: false,
            settle_ms: 0,
            hint_weight: 1,
        })
        .collect()
}

#[test]
fn tasks_that_stay_keep_their_rhythm_when_others_come_and_go() {
    let mut schedule = Schedule::new(some(&[1, 2, 3]), 1_000, Mono::at(0));
    assert_eq!(read_due(&mut schedule, 0), [1, 2, 3]);
    schedule.change(some(&[2, 3, 4, 5]), Mono::at(300));
    assert_eq!(schedule.next_wake(), Some(Mono::at(300)));
    assert_eq!(read_due(&mut schedule, 300), [4, 5], "only the new ones are due at once");
    assert_eq!(schedule.next_wake(), Some(Mono::at(1_000)));
    assert_eq!(read_due(&mut schedule, 1_000), [2, 3, 4, 5]);
    assert_eq!(schedule.take_skipped(), 0);
    schedule.change(Vec::new(), Mono::at(1_100));
    assert_eq!(
        schedule.next_wake(),
        Some(Mono::at(2_000)),
        "a server without tasks is still asked how it is"
    );
}

/// Changes from `before` slots of tasks to `after` at `changed_at`; the last tasks remain. Returns,
/// for each remaining task of the last `after` slots, when it is read in the three seconds after
/// that, and its number of extra reads. Each lock expires before its next regular read.
fn reads_after_a_change(before: u32, after: u32, changed_at: u64) -> Vec<(Vec<u64>, u32)> {
    let mut schedule = Schedule::new(tasks(before * FULL), 1_000, Mono::at(0));
    let first = before.saturating_sub(after) * FULL;
    let kept: Vec<ScheduledTask> = tasks(first + after * FULL).split_off(first as usize);
    let mut reads = vec![(Vec::new(), 0); kept.len()];
    for now in 0..=changed_at + 3_000 {
        if now == changed_at {
            schedule.change(kept.clone(), Mono::at(now));
        }
        while let Some(batch) = schedule.due(Mono::at(now)) {
            let at = i64::try_from(now).unwrap();
            for task in &batch.tasks {
                let of_task =
                    task.0.checked_sub(first).and_then(|position| reads.get_mut(position as usize));
                if now > changed_at
                    && let Some((regular, beside)) = of_task
                {
                    match batch.kind {
                        BatchKind::Regular { .. } => regular.push(now),
                        _ => *beside += 1,
                    }
                }
                schedule.observe(
                    *task,
                    Mono::at(now),
                    ServerTime::at(WORLD_MS + at),
                    &reading((held_until(at + 100), &[])),
                );
            }
            schedule.finished(&batch);
        }
    }
    reads
}

/// Independent of the number of slots before.
#[test]
fn many_tasks_keep_the_rhythm_when_their_slots_are_cut_anew() {
    for (before, after) in [(4, 2), (2, 4), (3, 3), (1, 3)] {
        for changed_at in [0, 370, 999] {
            for (task, (regular, beside)) in
                reads_after_a_change(before, after, changed_at).into_iter().enumerate()
            {
                let of = format!(
                    "task {task}, {before} slots, {after} from {changed_at} ms on: {regular:?}"
                );
                let is_even = regular.windows(2).all(|two| two[1] - two[0] == 1_000);
                assert!(regular.len() == 3 && is_even, "{of}");
                assert!(beside >= 3, "each deadline is looked after: {beside} times, {of}");
            }
        }
    }
}

#[test]
fn changes_faster_than_the_interval_starve_nobody() {
    let mut schedule = Schedule::new(some(&[1, 2]), 1_000, Mono::at(0));
    let mut read = [0; 2];
    for now in (0..5_000).step_by(50) {
        schedule.change(some(&[1, 2, 10 + u32::try_from(now).unwrap()]), Mono::at(now));
        for task in read_due(&mut schedule, now) {
            if let Some(count) = read.get_mut(usize::try_from(task).unwrap() - 1) {
                *count += 1;
            }
        }
    }
    assert_eq!(read, [5, 5]);
}

#[test]
fn a_confirmation_outlives_a_change_of_tasks() {
    let mut schedule = Schedule::new(some(&[1, 2]), 1_000, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).unwrap();
    schedule.observe(
        TaskIndex(2),
        Mono::at(0),
        ServerTime::at(WORLD_MS),
        &reading((LockReading::Free, &[])),
    );
    schedule.finished(&batch);
    schedule.change(some(&[2, 7]), Mono::at(100));
    assert_eq!(read_due(&mut schedule, 100), [7]);
    assert_eq!(schedule.next_wake(), Some(Mono::at(260)));
    assert_eq!(read_due(&mut schedule, 260), [2]);
}

#[test]
fn what_is_under_way_ends_after_a_change_of_tasks() {
    for broken in [false, true] {
        let mut schedule = Schedule::new(some(&[1, 2, 3]), 1_000, Mono::at(0));
        let mut batch = schedule.due(Mono::at(0)).unwrap();
        schedule.change(some(&[2, 3, 4]), Mono::at(10));
        batch.detach();
        assert_eq!(read_due(&mut schedule, 10), [4]);
        if broken {
            schedule.broken(&batch);
            assert_eq!(read_due(&mut schedule, 20), [2, 3], "they are asked again at once");
        } else {
            schedule.finished(&batch);
            assert!(read_due(&mut schedule, 20).is_empty());
        }
        assert_eq!(read_due(&mut schedule, 1_000), [2, 3, 4]);
    }
}

#[test]
fn a_sweep_that_was_skipped_counts_once_though_tasks_change() {
    let mut schedule = Schedule::new(some(&[1, 2]), 1_000, Mono::at(0));
    let mut batch = schedule.due(Mono::at(0)).unwrap();
    assert!(schedule.due(Mono::at(1_000)).is_none(), "one is under way");
    schedule.change(some(&[1, 2, 3]), Mono::at(1_100));
    batch.detach();
    assert_eq!(schedule.take_skipped(), 1);
    assert_eq!(schedule.take_skipped(), 0);
}

#[test]
fn suspects_are_still_asked_apart_when_others_come() {
    let mut schedule = Schedule::new(some(&[1, 2]), 1_000, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).unwrap();
    schedule.too_large(&batch, &batch.tasks, Mono::at(0));
    schedule.change(some(&[1, 2, 3]), Mono::at(10));
    let mut asked = Vec::new();
    while let Some(batch) = schedule.due(Mono::at(20)) {
        asked.push(batch.tasks.iter().map(|task| task.0).collect::<Vec<_>>());
        schedule.finished(&batch);
    }
    assert!(asked.contains(&vec![1]) && asked.contains(&vec![2]), "{asked:?}");
}

#[test]
fn a_task_with_too_large_a_reply_stays_apart_when_others_come() {
    let mut schedule = Schedule::new(some(&[1, 2]), 1_000, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).unwrap();
    schedule.too_large(&batch, &batch.tasks, Mono::at(0));
    while let Some(batch) = schedule.due(Mono::at(0)) {
        match batch.tasks.as_slice() {
            [TaskIndex(2)] => schedule.too_large(&batch, &batch.tasks, Mono::at(0)),
            _ => schedule.finished(&batch),
        }
    }
    schedule.change(some(&[1, 2, 3]), Mono::at(10));
    assert_eq!(read_due(&mut schedule, 1_000), [1, 3]);
    schedule.change(some(&[1, 3]), Mono::at(1_010));
    assert_eq!(read_due(&mut schedule, 61_000), [1, 3], "it is gone, and is not tried again");
}
