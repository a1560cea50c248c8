//! When a glance at a lock's deadline is enough, and when the lock must be read whole.

use alloc::string::String;

use super::*;

const TASK: TaskIndex = TaskIndex(0);
/// With 750 tasks, waiters of a task are requested once in this many sweeps.
const WHOLE_EVERY: u64 = 3;

fn held_by(clients: &[&str], deadline: Deadline) -> LockReading {
    let holder = |client: &&str| Holder {
        client: client.as_bytes().into(),
        thread: None,
        entries: None,
        secret: false,
    };
    LockReading::from(Held {
        mode: Mode::Exclusive,
        holders: clients.iter().map(holder).collect(),
        ghosts: 0,
        deadline,
    })
}

fn plain() -> LockReading {
    held_by(&["a"], Deadline::At(ServerTime::at(WORLD_MS + 30_000)))
}

/// Reads the first slot when its `sweep` is due, and returns whether a glance at the first task was
/// enough. `meanwhile` runs between request and answer.
fn sweep(
    schedule: &mut Schedule,
    sweep: u64,
    lock: &LockReading,
    meanwhile: impl FnOnce(&mut Schedule),
) -> bool {
    let now = Mono::at(sweep * 1_000);
    let batch = schedule.due(now).unwrap();
    assert!(
        batch.tasks.contains(&TASK)
            && schedule.asks_extras(&batch, TASK) == sweep.is_multiple_of(WHOLE_EVERY),
        "{sweep}"
    );
    let known = schedule.known(&batch, TASK).cloned().map(LockReading::Held);
    let glanced = known.is_some();
    meanwhile(schedule);
    let lock = known.filter(|known| known == lock).unwrap_or_else(|| lock.clone());
    schedule.observe(TASK, now, ServerTime::at(WORLD_MS), &reading((lock, &[])));
    schedule.finished(&batch);
    while let Some(batch) = due(schedule, now.plus_ms(900)) {
        let is_whole = !batch.tasks.contains(&TASK) || schedule.known(&batch, TASK).is_none();
        assert!(is_whole, "what is read beside the rhythm is read whole");
        schedule.finished(&batch);
    }
    glanced
}

fn due(schedule: &mut Schedule, now: Mono) -> Option<Batch> {
    schedule.due(now).or_else(|| schedule.due_hinted(now))
}

fn nothing(_: &mut Schedule) {}

fn many() -> Schedule {
    told_of_changes(3 * FULL, 1_000)
}

/// A plan for a server that reports changes.
fn told_of_changes(count: u32, interval_ms: u64) -> Schedule {
    let mut schedule = Schedule::new(tasks(count), interval_ms, Mono::at(0));
    schedule.allow_glances(true);
    schedule
}

#[test]
fn between_whole_readings_a_glance_is_enough_where_there_are_many_tasks() {
    let mut schedule = many();
    let glanced: Vec<bool> =
        (0..7).map(|turn| sweep(&mut schedule, turn, &plain(), nothing)).collect();
    assert_eq!(glanced, [false, true, true, false, true, true, false]);
}

/// A lock that is renewed often is read whole for that reason. The time without a whole reading is
/// bounded in any case.
#[test]
fn what_was_renewed_in_between_need_not_be_read_whole_in_its_turn() {
    for (told_in, renewed, same) in
        [(0, "wwgggwwg", "wwgwggwg"), (1, "wgwgggwg", "wgwwggwg"), (2, "wggwggwg", "wggwggwg")]
    {
        for (is_renewed, expected) in [(true, renewed), (false, same)] {
            let mut schedule = many();
            let read = |turn| {
                let hint = |schedule: &mut Schedule| {
                    if turn == told_in {
                        schedule.hint(TASK, Mono::at(turn * 1_000));
                    }
                };
                let moved_ms = if is_renewed && turn > told_in { 10_000 } else { 0 };
                let lock =
                    held_by(&["a"], Deadline::At(ServerTime::at(WORLD_MS + 30_000 + moved_ms)));
                if sweep(&mut schedule, turn, &lock, hint) { 'g' } else { 'w' }
            };
            let found = (0..8).map(read).collect::<String>();
            assert_eq!(found, expected, "told of in sweep {told_in}, renewed: {is_renewed}");
        }
    }
}

#[test]
fn few_tasks_are_always_read_whole() {
    let mut schedule = told_of_changes(FULL, 1_000);
    for now in (0..5_000).step_by(1_000) {
        let batch = schedule.due(Mono::at(now)).unwrap();
        assert!(schedule.known(&batch, TASK).is_none());
        schedule.observe(TASK, Mono::at(now), ServerTime::at(WORLD_MS), &reading((plain(), &[])));
        schedule.finished(&batch);
    }
}

#[test]
fn only_one_holder_with_a_deadline_is_known_by_it() {
    let _rule = crate::truth::rule("4 bracket");
    let at = Deadline::At(ServerTime::at(WORLD_MS + 30_000));
    let readers = match plain() {
        LockReading::Held(held) => {
            LockReading::from(Held { mode: Mode::Read, ..Held::clone(&held) })
        }
        other => other,
    };
    for lock in [
        LockReading::Free,
        LockReading::Unknown(Unknown::Layout),
        held_by(&["a", "b"], at),
        held_by(&["a"], Deadline::Never),
        held_by(&["a"], Deadline::Torn),
        readers,
    ] {
        let mut schedule = many();
        sweep(&mut schedule, 0, &plain(), nothing);
        sweep(&mut schedule, 1, &lock, nothing);
        assert!(!sweep(&mut schedule, 2, &lock, nothing), "{lock:?}");
    }
}

#[test]
fn after_a_hint_a_lock_is_read_whole() {
    let _rule = crate::truth::rule("4 bracket");
    let mut schedule = many();
    sweep(&mut schedule, 0, &plain(), nothing);
    schedule.hint(TASK, Mono::at(999));
    assert!(!sweep(&mut schedule, 1, &plain(), nothing), "the rhythm was first");
    assert!(sweep(&mut schedule, 2, &plain(), nothing));
}

/// The server may have answered before the change that it reported meanwhile.
#[test]
fn what_was_read_while_a_hint_came_is_not_known() {
    let _rule = crate::truth::rule("4 bracket");
    let mut schedule = many();
    sweep(&mut schedule, 0, &plain(), |schedule| {
        schedule.hint(TASK, Mono::at(1));
    });
    assert!(!sweep(&mut schedule, 1, &plain(), nothing));
    assert!(sweep(&mut schedule, 2, &plain(), nothing));
}

#[test]
fn after_a_break_all_is_read_whole() {
    let _rule = crate::truth::rule("4 bracket");
    let mut schedule = many();
    sweep(&mut schedule, 0, &plain(), nothing);
    schedule.forget_known();
    assert!(!sweep(&mut schedule, 1, &plain(), nothing));
    assert!(sweep(&mut schedule, 2, &plain(), Schedule::forget_known), "it was under way");
    assert!(
        !sweep(&mut schedule, 3, &plain(), nothing),
        "that it was not worth anything is not forgotten"
    );
    assert!(sweep(&mut schedule, 4, &plain(), nothing));
}

/// Number of tasks for which a batch is due every 25 ms.
const CROWD: u32 = 40 * FULL;

/// Answers every batch at once with unchanged locks; returns when each batch was sent, and its
/// number of tasks.
fn sweep_all(schedule: &mut Schedule, sweep: u64) -> Vec<(u64, usize)> {
    let mut sent = Vec::new();
    for now in sweep * 1_000..(sweep + 1) * 1_000 {
        while let Some(batch) = schedule.due(Mono::at(now)) {
            for task in &batch.tasks {
                let lock =
                    schedule.known(&batch, *task).cloned().map_or_else(plain, LockReading::Held);
                schedule.observe(
                    *task,
                    Mono::at(now),
                    ServerTime::at(WORLD_MS),
                    &reading((lock, &[])),
                );
            }
            schedule.finished(&batch);
            sent.push((now, batch.tasks.len()));
        }
    }
    sent
}

/// Batches of `slots` slots each, evenly spread.
fn batches_of(slots: usize) -> Vec<(u64, usize)> {
    (0..1_000).step_by(25 * slots).map(|now| (now, slots * BATCH_TASKS)).collect()
}

/// The same batches in a `sweep`.
fn in_sweep(sweep: u64, batches: &[(u64, usize)]) -> Vec<(u64, usize)> {
    batches.iter().map(|(at, tasks)| (sweep * 1_000 + at, *tasks)).collect()
}

#[test]
fn slots_that_are_glanced_at_share_a_batch_with_the_next() {
    let mut schedule = told_of_changes(CROWD, 1_000);
    assert_eq!(sweep_all(&mut schedule, 0), batches_of(1), "nothing is known yet");
    for sweep in 1..25 {
        assert_eq!(
            sweep_all(&mut schedule, sweep),
            in_sweep(sweep, &batches_of(2)),
            "no task waits for longer"
        );
    }
    schedule.allow_glances(false);
    assert_eq!(
        sweep_all(&mut schedule, 25),
        in_sweep(25, &batches_of(1)),
        "each at its own tick again"
    );
}

/// A batch keeps the server busy for the duration of its commands.
#[test]
fn where_many_are_read_whole_each_slot_has_its_own_batch() {
    let joined = |doubted: u32| {
        let mut schedule = told_of_changes(CROWD, 1_000);
        sweep_all(&mut schedule, 0);
        // The second slot of the first batch has them.
        let others = (FULL..2 * FULL).filter(|task| {
            let (slot, position) = schedule.turn_of(TaskIndex(*task)).unwrap();
            !is_turn(slot.sweep + 1, position, EXTRAS_EVERY_MAX)
        });
        let hinted: Vec<u32> = others.take(doubted as usize).collect();
        assert_eq!(hinted.len(), doubted as usize);
        for task in hinted {
            schedule.hint(TaskIndex(task), Mono::at(999));
        }
        schedule.due(Mono::at(1_000)).unwrap().tasks.len()
    };
    // A tenth of both is read whole in any case.
    let tenth = 2 * FULL / 10;
    let most = u32::try_from(Sizes::default().joined_whole).unwrap() - tenth;
    assert_eq!([0, most, most + 1].map(joined), [2 * BATCH_TASKS, 2 * BATCH_TASKS, BATCH_TASKS]);
}

#[test]
fn slots_that_are_further_apart_share_no_batch() {
    for (slots, batches) in [(160, 40), (40, 20), (38, 38), (20, 20)] {
        let mut schedule = told_of_changes(slots * FULL, 1_000);
        sweep_all(&mut schedule, 0);
        assert_eq!(sweep_all(&mut schedule, 1).len(), batches, "{slots} slots");
    }
}

#[test]
fn slots_that_share_a_batch_break_and_end_together() {
    let mut schedule = told_of_changes(CROWD, 1_000);
    sweep_all(&mut schedule, 0);
    let batch = schedule.due(Mono::at(1_000)).unwrap();
    assert_eq!(batch.kind, BatchKind::Regular { first: 0, slots: 2 });
    assert_eq!(schedule.due(Mono::at(1_025)), None, "the second one is under way");
    schedule.broken(&batch);
    let again: Vec<Batch> = core::iter::from_fn(|| schedule.due(Mono::at(1_030))).collect();
    let kinds: Vec<BatchKind> = again.iter().map(|batch| batch.kind).collect();
    let expected = [(0, 1), (1, 2)].map(|(first, slots)| BatchKind::Regular { first, slots });
    assert_eq!(kinds, expected, "both are due at once; the second one is joined as any other is");
}

/// A late watcher has more reason to join slots, but a skipped tick is still reported.
#[test]
fn slots_whose_ticks_have_passed_share_a_batch_as_well() {
    let joined = |late_ms: u64| {
        // Hardly any task is read whole, whatever the number of skipped turns.
        let sizes = Sizes { whole_every: Some(1_000), ..Sizes::default() };
        let mut schedule = Schedule::sized(tasks(CROWD), 1_000, Mono::at(0), sizes);
        schedule.allow_glances(true);
        sweep_all(&mut schedule, 0);
        let now = Mono::at(1_000 + late_ms);
        let slots = core::iter::from_fn(|| schedule.due(now)).map(|batch| match batch.kind {
            BatchKind::Regular { slots, .. } => slots,
            BatchKind::Extra | BatchKind::Suspects => 0,
        });
        (slots.collect::<Vec<usize>>(), schedule.take_skipped())
    };
    assert_eq!(joined(100), (vec![4, 2], 0));
    assert_eq!(joined(999), (vec![4; 10], 0));
    let (slots, skipped) = joined(1_025);
    assert_eq!((&slots[..3], skipped), (&[1, 4, 4][..], 1), "the second slot skipped one as well");
}

/// While no reply arrives, no task is requested twice.
#[test]
fn a_slot_that_is_under_way_is_not_read_with_the_one_before() {
    let mut schedule = told_of_changes(CROWD, 1_000);
    sweep_all(&mut schedule, 0);
    schedule.allow_glances(false);
    let [first, _second] = [1_000, 1_025].map(|now| schedule.due(Mono::at(now)).unwrap());
    schedule.finished(&first);
    schedule.allow_glances(true);
    let next = (1_026..=2_000).filter_map(|now| {
        let batch = schedule.due(Mono::at(now))?;
        schedule.finished(&batch);
        Some(batch.kind)
    });
    assert_eq!(next.last(), Some(BatchKind::Regular { first: 0, slots: 1 }));
}
