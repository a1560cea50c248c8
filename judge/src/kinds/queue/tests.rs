//! Timelines of a queue: who waits, and for how long.

mod executions;
mod world;

use alloc::sync::Arc;
use alloc::vec::Vec;
use std::format;

use crate::grounds::Problem;
use crate::problems::Finding;
use crate::reading::{Codec, Id, LockReading, Member, Queue, QueueReading, Unknown};
use crate::spec::{
    KeyPattern, KindSpec, QueueSpec, StoreIndex, TaskSpec, WantedSource, WantedSpec,
};
use crate::step::Log;
use crate::time::Mono;
use crate::verdict::Verdict;

use self::world::{EPOCH, World, at, generation, spec};

#[test]
fn members_due_and_executing_are_counted_apart() {
    let mut world = World::new();
    world.add("a", 90).add("b", 95).add("c", 500).lock("a", "w1", 150).read();
    let shown = world.shown();
    assert_eq!((shown.members, shown.due, shown.executing), (Some(3), Some(2), Some(1)));
    assert_eq!(shown.oldest_due_ms, Some(5_000), "the one that is executed does not count");
    assert_eq!((shown.more, shown.next), (Some(false), Some(at(500))));
    let ids: Vec<&[u8]> = shown.first.iter().map(|member| &*member.id).collect();
    assert_eq!(ids, [b"a", b"b"]);
    let execution = shown.first[0].execution.as_ref().unwrap();
    assert_eq!((execution.until, execution.is_dead), (Some(at(150)), false));
    world.lock("b", "w2", 150).second();
    assert_eq!(world.shown().oldest_due_ms, Some(0), "nothing waits");
    world.takes(QueueReading::Unknown(Unknown::WrongType));
    let shown = world.shown();
    assert_eq!((shown.members, shown.oldest_due_ms, shown.executing), (None, None, None));
}

#[test]
fn the_oldest_age_is_unknown_where_all_that_are_looked_at_are_locked() {
    let mut world = World::new();
    for number in 0..QueueSpec::FIRST {
        let id = format!("m{number:03}");
        world.add(&id, 50).lock(&id, "w", 300);
    }
    world.read();
    assert_eq!((world.shown().oldest_due_ms, world.shown().more), (Some(0), Some(false)));
    world.add("z", 60).second();
    assert_eq!((world.shown().oldest_due_ms, world.shown().more), (None, Some(true)));
    world.unlock("m007").second();
    assert_eq!(world.shown().oldest_due_ms, Some(52_000));
}

#[test]
fn a_member_that_nobody_executes_is_late_after_max_late() {
    let mut world = World::new();
    world.read().add("a", 101);
    world.seconds(61);
    assert_eq!((world.verdict(), world.shown().late_ms), (Verdict::Running, 0));
    assert_eq!(world.found(Problem::Stalled), Finding::Negative, "within max_late");
    world.second();
    assert_eq!(world.verdict(), Verdict::Stalled);
    assert_eq!(world.found(Problem::Stalled), Finding::Positive { ms: 61_000 });
    world.remove("a").second();
    assert_eq!(world.verdict(), Verdict::Running);
    assert_eq!(world.found(Problem::Stalled), Finding::Negative);
}

#[test]
fn a_new_agent_watches_for_as_long_as_it_claims_that_nothing_moved() {
    let mut world = World::new();
    world.add("a", 1).add("b", 2).read();
    assert_eq!(world.shown().oldest_due_ms, Some(99_000));
    assert_eq!(world.found(Problem::Stalled), Finding::Unknown, "nor does it contradict others");
    world.seconds(60);
    assert_eq!(
        (world.verdict(), world.found(Problem::Stalled)),
        (Verdict::Running, Finding::Unknown)
    );
    world.second();
    assert_eq!(world.found(Problem::Stalled), Finding::Positive { ms: 61_000 });
}

#[test]
fn a_queue_that_moves_is_not_late_however_old_its_members_are() {
    let mut world = World::new();
    for number in 0..40 {
        world.add(&format!("m{number:02}"), number);
    }
    world.read();
    for number in 0..15 {
        world.remove(&format!("m{number:02}")).seconds(30);
        assert_eq!(world.verdict(), Verdict::Running);
        assert_eq!(world.found(Problem::Stalled), Finding::Negative, "it moves");
    }
}

/// Its server restarted, and the workers went on before anything was read.
#[test]
fn a_queue_that_moved_across_a_restart_is_not_late() {
    let mut world = World::new();
    world.read().add("a", 101).add("b", 101);
    world.seconds(50);
    world.generation = generation(b"b", 0);
    world.remove("a").seconds(12);
    assert_eq!((world.verdict(), world.shown().late_ms), (Verdict::Running, 0));
    world.seconds(51);
    assert_eq!(world.verdict(), Verdict::Stalled, "nothing has left since");
}

/// An agent that loads its configuration again looks up none of the members that it saw before.
#[test]
fn members_that_nobody_looked_up_have_left_where_they_would_be_listed() {
    let mut world = World::new();
    world.read().add("a", 101).add("b", 101);
    world.seconds(50);
    world.seen.clear();
    world.remove("a").seconds(12);
    assert_eq!((world.verdict(), world.shown().late_ms), (Verdict::Running, 0), "one has left");
    assert_eq!(world.shown().departed, 0, "nobody saw how");
    world.seconds(51);
    assert_eq!(world.verdict(), Verdict::Stalled, "nothing has left since");

    let mut world = World::new();
    world.add("z", 70);
    for number in 0..QueueSpec::FIRST - 1 {
        world.add(&format!("m{number:03}"), 60);
    }
    world.read().seconds(50);
    world.seen.clear();
    world.add("older", 50).seconds(12);
    assert_eq!(world.verdict(), Verdict::Stalled, "others came before it, and none has left");
}

#[test]
fn a_member_that_is_passed_over_is_late_whatever_moves() {
    let mut world = World::of(|queue, _| queue.max_late_ms = 5_000);
    world.add("a", 100).read();
    for number in 0..25 {
        world.execute(number, 1);
        let is_late = world.now - 100 > 50;
        assert_eq!(world.verdict() == Verdict::Stalled, is_late, "at {}", world.now);
    }
    world.add("a", 170).seconds(2);
    assert_eq!(world.verdict(), Verdict::Running, "its score changed");
}

/// It came before a step of the server's clock, and is looked at only after that.
#[test]
fn a_step_of_the_clock_makes_no_member_wait() {
    let mut world = World::of(|queue, _| queue.max_late_ms = 5_000);
    for number in 0..QueueSpec::FIRST {
        let id = format!("m{number:03}");
        world.add(&id, 50).lock(&id, "w", 1_000);
    }
    world.add("behind", 90).read().seconds(10);
    world.ahead = 120;
    for number in 0..40 {
        let id = format!("m{number:03}");
        world.remove(&id).unlock(&id).second();
        let is_late = world.now - 90 > 50;
        assert_eq!(world.verdict() == Verdict::Stalled, is_late, "at {}", world.now);
    }
}

#[test]
fn a_member_that_was_executed_waits_from_the_end_of_its_lock() {
    let mut world = World::new();
    world.add("a", 100).lock("a", "w1", 160).read();
    world.seconds(59);
    let shown = world.shown();
    assert_eq!((shown.oldest_due_ms, shown.executing), (Some(0), Some(1)));
    world.seconds(1 + 59);
    assert_eq!(world.shown().oldest_due_ms, Some(119_000), "it is due since then");
    assert_eq!(world.verdict(), Verdict::Running);
    world.seconds(3);
    assert_eq!(world.verdict(), Verdict::Stalled, "a free lock is no evidence that it moves");
}

#[test]
fn a_retry_with_a_new_score_is_a_movement() {
    let mut world = World::new();
    world.add("a", 100).add("b", 101).read();
    for retry in 0..20 {
        let now = i64::try_from(world.now).unwrap();
        world.lock("a", &format!("w{retry}"), now + 60).seconds(3);
        world.add("a", now + 10).unlock("a").seconds(20);
        assert_eq!(world.verdict(), Verdict::Running);
    }
    let shown = world.shown();
    assert_eq!((shown.vanished, shown.departed, shown.executed_again), (0, 0, 0));
    assert!(shown.moved.is_some());
}

#[test]
fn a_lock_that_goes_on_under_a_new_score_is_of_the_execution_before() {
    let mut world = World::new();
    world.add("a", 100).lock("a", "w1", 160).seconds(2);
    world.add("a", 102).seconds(2);
    world.unlock("a").second().lock("a", "w2", 200).seconds(2);
    assert_eq!(world.shown().executed_again, 0);
    world.unlock("a").second().lock("a", "w3", 200).seconds(2);
    assert_eq!(world.shown().executed_again, 1);
}

#[test]
fn scores_of_another_unit_are_unknown_and_zero_means_at_once() {
    let mut world = World::new();
    world.add("a", EPOCH).add("b", EPOCH + 1).read();
    assert_eq!(world.view().unknown, Some(Unknown::FarInstant));
    world.remove("a").remove("b").add("c", 0).second();
    assert_eq!((world.view().unknown, world.shown().oldest_due_ms), (None, Some(0)));
    world.seconds(5);
    assert_eq!(world.shown().oldest_due_ms, Some(5_000), "since it was seen");
    world.add("d", EPOCH).second();
    assert_eq!(world.view().unknown, None, "one of them alone proves nothing");
}

#[test]
fn nothing_is_late_that_nobody_wants() {
    let mut world = World::of(|_, task| {
        let source = WantedSource::Hash(b"switches".to_vec());
        task.wanted = Some(WantedSpec { source, codec: Codec::Raw });
    });
    world.wanted = Some(false);
    world.add("a", 50).seconds(100);
    assert_eq!(world.verdict(), Verdict::Stopped);
    assert_eq!(world.found(Problem::Stalled), Finding::Negative);
    world.wanted = Some(true);
    world.seconds(61);
    assert_eq!(world.verdict(), Verdict::Running, "wanted for no longer than max_late");
    world.seconds(2);
    assert_eq!(world.verdict(), Verdict::Stalled);
}

#[test]
fn a_stretch_that_nobody_saw_does_not_count_and_resolves_nothing() {
    let mut world = World::new();
    world.add("a", 100).read().seconds(62);
    let late_ms = world.shown().late_ms;
    assert!(late_ms > 60_000);
    for _ in 0..100 {
        world.now += 1;
        world.takes(QueueReading::Unknown(Unknown::Timeout));
    }
    assert_eq!(world.verdict(), Verdict::Unknown);
    world.second();
    assert_eq!(world.shown().late_ms, late_ms, "as late as before");
    assert_eq!(world.verdict(), Verdict::Stalled);
}

#[test]
fn a_member_that_is_pushed_back_did_not_leave() {
    let mut world = World::new();
    for number in 0..QueueSpec::FIRST {
        world.add(&format!("m{number:03}"), 60);
    }
    world.read().add("older", 50).second();
    let shown = world.shown();
    assert_eq!((shown.departed, shown.vanished, shown.moved), (0, 0, None));
    assert_eq!(shown.more, Some(true));
}

#[test]
fn of_members_that_are_not_looked_at_their_number_tells_that_they_move() {
    let mut world = World::new();
    for number in 0..QueueSpec::FIRST + 50 {
        world.add(&format!("m{number:03}"), 1);
    }
    world.read();
    for number in (QueueSpec::FIRST..QueueSpec::FIRST + 5).rev() {
        world.remove(&format!("m{number:03}")).seconds(30);
        assert_eq!(world.verdict(), Verdict::Running);
    }
}

#[test]
fn a_changed_limit_keeps_the_state_and_another_pattern_does_not() {
    let mut world = World::new();
    world.add("a", 100).read().seconds(50);
    let changed = |change: fn(&mut QueueSpec)| {
        let mut queue = spec();
        change(&mut queue);
        Arc::new(TaskSpec::of("delayed", StoreIndex(0), KindSpec::Queue(queue)))
    };
    let mut log = Log::new(Mono::at(150_000), None);
    let shorter = changed(|queue| queue.max_late_ms = 10_000);
    world.task.configure(shorter, "main".into(), &mut log);
    world.task.tick(Mono::at(150_000), 10_000, &mut log);
    assert_eq!(world.shown().late_ms, 50_000);
    let other = changed(|queue| queue.lock = KeyPattern::parse(b"l:{id}"));
    world.task.configure(other, "main".into(), &mut log);
    assert_eq!((world.shown().late_ms, world.shown().members), (0, None));
}

#[test]
fn locks_that_cannot_be_read_say_nothing() {
    let mut world = World::new();
    let unread = |id: &str, due| Member {
        id: Id(id.as_bytes().to_vec()),
        name: None,
        due: at(due),
        lock: Some(LockReading::Unknown(Unknown::WrongType)),
    };
    let free = Member { lock: Some(LockReading::Free), ..unread("b", 95) };
    let queue = |first: &[Member]| {
        let due = u64::try_from(first.len()).unwrap();
        QueueReading::Read(Queue { members: due, due, first: first.to_vec(), left: Vec::new() })
    };
    world.takes(queue(&[unread("a", 90), free.clone()]));
    assert_eq!((world.view().unknown, world.shown().oldest_due_ms), (None, None));
    world.now += 1;
    world.takes(queue(&[free, unread("c", 99)]));
    assert_eq!(world.shown().oldest_due_ms, Some(6_000), "no older one is unread");
    world.now += 1;
    world.takes(queue(&[unread("a", 90)]));
    assert_eq!(world.view().unknown, Some(Unknown::WrongType));
}
