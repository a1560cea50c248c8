//! When a glance at a lock's deadline is enough, and when it must be read whole.

use alloc::string::String;

use super::*;

const TASK: TaskIndex = TaskIndex(0);
/// Which sweeps ask for waiters of it, where there are 750 tasks.
const WHOLE_EVERY: u64 = 3;

fn held_by(clients: &[&str], deadline: Deadline) -> LockReading {
    let holder =
        |client: &&str| Holder { client: client.as_bytes().into(), thread: None, entries: None, secret: false };
    LockReading::from(Held {
        mode: Mode::Exclusive,
        holders: clients.iter().map(holder).collect(),
        ghosts: 0,
        deadline,
    })
}

fn plain() -> LockReading {
    held_by(&["a"], Deadline::At(ServerTime(WORLD_MS + 30_000)))
}

/// Reads the first slot when its `sweep` is due, and says whether a glance at the first task was enough; between asking and the answer
/// `meanwhile` happens.
fn sweep(schedule: &mut Schedule, sweep: u64, lock: &LockReading, meanwhile: impl FnOnce(&mut Schedule)) -> bool {
    let now = Mono(sweep * 1_000);
    let batch = schedule.due(now).unwrap();
    assert!(
        batch.tasks.contains(&TASK) && schedule.asks_extras(&batch, TASK) == sweep.is_multiple_of(WHOLE_EVERY),
        "{sweep}"
    );
    let known = schedule.known(&batch, TASK).cloned().map(LockReading::Held);
    let glanced = known.is_some();
    meanwhile(schedule);
    let lock = known.filter(|known| known == lock).unwrap_or_else(|| lock.clone());
    schedule.observe(TASK, now, ServerTime(WORLD_MS), &reading((lock, &[])));
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
    Schedule::new(tasks(3 * FULL), 1_000, Mono(0))
}

#[test]
fn between_whole_readings_a_glance_is_enough_where_there_are_many_tasks() {
    let mut schedule = many();
    let glanced: Vec<bool> = (0..7).map(|turn| sweep(&mut schedule, turn, &plain(), nothing)).collect();
    assert_eq!(glanced, [false, true, true, false, true, true, false]);
}

/// Whoever renews often is read whole because of that. How long nobody looked at a value is bounded all the same.
#[test]
fn what_was_read_whole_in_between_need_not_be_in_its_turn() {
    for (hinted, expected) in [(0, "wwgggwgg"), (1, "wgwgggwg"), (2, "wggwggwg")] {
        let mut schedule = many();
        let read = |turn| {
            let hint = |schedule: &mut Schedule| {
                if turn == hinted {
                    schedule.hint(TASK, Mono(turn * 1_000));
                }
            };
            if sweep(&mut schedule, turn, &plain(), hint) { 'g' } else { 'w' }
        };
        assert_eq!((0..8).map(read).collect::<String>(), expected, "hinted at in sweep {hinted}");
    }
}

#[test]
fn few_tasks_are_always_read_whole() {
    let mut schedule = Schedule::new(tasks(FULL), 1_000, Mono(0));
    for now in (0..5_000).step_by(1_000) {
        let batch = schedule.due(Mono(now)).unwrap();
        assert!(schedule.known(&batch, TASK).is_none());
        schedule.observe(TASK, Mono(now), ServerTime(WORLD_MS), &reading((plain(), &[])));
        schedule.finished(&batch);
    }
}

#[test]
fn only_one_holder_with_a_deadline_is_known_by_it() {
    let _rule = crate::truth::rule("4 bracket");
    let at = Deadline::At(ServerTime(WORLD_MS + 30_000));
    let readers = match plain() {
        LockReading::Held(held) => LockReading::from(Held { mode: Mode::Read, ..Held::clone(&held) }),
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
    schedule.hint(TASK, Mono(999));
    assert!(!sweep(&mut schedule, 1, &plain(), nothing), "the rhythm was first");
    assert!(sweep(&mut schedule, 2, &plain(), nothing));
}

/// The server may have answered before the change that it told of meanwhile.
#[test]
fn what_was_read_while_a_hint_came_is_not_known() {
    let _rule = crate::truth::rule("4 bracket");
    let mut schedule = many();
    sweep(&mut schedule, 0, &plain(), |schedule| {
        schedule.hint(TASK, Mono(1));
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
    assert!(!sweep(&mut schedule, 3, &plain(), nothing), "that it was not worth anything is not forgotten");
    assert!(sweep(&mut schedule, 4, &plain(), nothing));
}
