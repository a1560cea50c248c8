//! Timelines of executions: twice, by the dead, and not at all.

use alloc::vec::Vec;
use std::format;

use super::world::{World, at, generation};
use crate::event::{EventKind, SplitKind};
use crate::grounds::Problem;
use crate::problems::Finding;
use crate::reading::{LockReading, QueueReading, Unknown};
use crate::verdict::Verdict;

#[test]
fn another_holder_of_a_member_with_the_same_score_executes_it_again() {
    let mut world = World::new();
    world.add("a", 100).lock("a", "w1", 105).seconds(5);
    assert_eq!(world.reported(), [], "not reported before it is seen again");
    world.second();
    let reported = world.reported();
    assert!(
        matches!(&*reported, [EventKind::ExecutionExpired { id, goes_on: false, .. }] if id == b"a"),
        "{reported:?}"
    );
    world.lock("a", "w2", 160).second();
    assert_eq!(world.reported(), [], "not before the member is still there after that");
    world.second();
    let reported = world.reported();
    assert!(
        matches!(&*reported, [EventKind::ExecutedAgain { id, .. }] if id == b"a"),
        "{reported:?}"
    );
    let shown = world.shown();
    assert_eq!((shown.executed_again, shown.expired), (1, 1));
    assert_eq!(world.problems().events, [(Problem::ExecutedAgain, 0)]);
    assert_ne!(world.verdict(), Verdict::Split, "no claim goes on");
}

/// Two workers may have the same list of what is due. The second one takes the lock when the first
/// one is done, sees that the member is gone, and gives the lock back.
#[test]
fn a_lock_taken_only_to_see_that_the_member_is_gone_executes_nothing() {
    let mut world = World::new();
    world.add("a", 100).lock("a", "w1", 160).seconds(2).remove("a").lock("a", "w2", 160).second();
    world.unlock("a").seconds(2);
    assert_eq!((world.reported(), world.shown().executed_again), (Vec::new(), 0));
    world.add("b", 103).lock("b", "w1", 160).seconds(2).remove("b").lock("b", "w2", 160);
    world.seconds(2);
    assert_eq!(world.shown().executed_again, 1, "it goes on with it");
}

#[test]
fn a_lock_that_was_released_did_not_expire() {
    let mut world = World::new();
    world.add("a", 100).lock("a", "w1", 160).seconds(5).unlock("a").seconds(5);
    assert_eq!((world.reported(), world.shown().expired), (Vec::new(), 0));
}

#[test]
fn a_split_needs_the_first_claim_to_go_on_beside_the_second_holder() {
    let mut world = World::with_claims();
    world.add("a", 100).read().lock("a", "w1", 105);
    for _ in 0..7 {
        world.claim("w1").second();
    }
    world.lock("a", "w2", 170).claim("w1").claim("w2").second();
    assert_ne!(world.verdict(), Verdict::Split, "not by what it did before");
    world.claim("w1").claim("w2").second();
    assert_ne!(world.verdict(), Verdict::Split, "one change may be the last");
    world.claim("w1").claim("w2").second();
    assert_eq!(world.verdict(), Verdict::Split);
    let split = world.view().splits[0].clone();
    let parties: Vec<&[u8]> = split.parties.iter().map(|party| &*party.holder.client).collect();
    assert_eq!((split.kind, &*parties), (SplitKind::Executions, &[&b"w1"[..], b"w2"][..]));
    for _ in 0..10 {
        world.claim("w2").second();
    }
    assert_eq!(world.verdict(), Verdict::Running, "the first one fell silent");
    assert!(
        world.reported().iter().any(|kind| {
            matches!(kind, EventKind::SplitEnded { kind: SplitKind::Executions, .. })
        })
    );
}

#[test]
fn a_claim_proves_no_split_while_its_worker_is_at_another_member() {
    let mut world = World::with_claims();
    world.add("a", 100).add("b", 100).read().lock("a", "w1", 105);
    for _ in 0..6 {
        world.claim("w1").second();
    }
    world.lock("a", "w2", 170).lock("b", "w1", 170);
    for _ in 0..6 {
        world.claim("w1").claim("w2").second();
    }
    assert_eq!((world.verdict(), world.shown().executed_again), (Verdict::Running, 1));
}

#[test]
fn a_holder_is_dead_once_its_claim_falls_silent() {
    let mut world = World::with_claims();
    world.add("a", 100).read().lock("a", "w1", 160);
    for _ in 0..3 {
        world.claim("w1").second();
    }
    world.seconds(5);
    assert_eq!(world.found(Problem::DeadHolder), Finding::Unknown);
    world.second();
    let reported = world.reported();
    let until = Some(at(160));
    assert!(
        matches!(&*reported, [EventKind::DeadHolder { until: end, .. }] if *end == until),
        "{reported:?}"
    );
    world.second();
    assert_eq!(world.found(Problem::DeadHolder), Finding::Positive { ms: 1_000 });
    assert!(world.shown().first[0].execution.as_ref().unwrap().is_dead);
    world.seconds(60);
    assert_eq!(world.found(Problem::DeadHolder), Finding::Unknown, "its lock ended");
}

#[test]
fn a_holder_that_never_claimed_is_not_dead() {
    let mut world = World::with_claims();
    world.add("a", 100).lock("a", "w1", 160).claim("w1").read().seconds(50);
    assert_eq!(world.found(Problem::DeadHolder), Finding::Unknown, "its claim may be an old one");
}

#[test]
fn a_holder_is_dead_once_its_library_should_have_renewed() {
    let renewed = |renewals_per_lease| {
        let mut world = World::of(|queue, _| queue.renewals_per_lease = renewals_per_lease);
        world.add("a", 100).read();
        for _ in 0..3 {
            let now = i64::try_from(world.now).unwrap();
            world.lock("a", "w1", now + 30).seconds(10);
        }
        assert_eq!(world.found(Problem::DeadHolder), Finding::Unknown);
        world.seconds(9);
        world.found(Problem::DeadHolder).is_positive()
    };
    assert!(renewed(Some(3)));
    assert!(!renewed(None), "no library that renews");
    let mut world = World::of(|queue, _| queue.renewals_per_lease = Some(3));
    world.add("a", 100).lock("a", "w1", 300).read().seconds(100);
    assert_eq!(world.found(Problem::DeadHolder), Finding::Unknown, "perhaps a fixed lease");
}

#[test]
fn a_lock_may_outlive_its_task_for_a_moment_only() {
    let mut world = World::new();
    world.add("a", 100).lock("a", "w1", 130).seconds(3).remove("a").seconds(5);
    assert_eq!(world.found(Problem::OrphanLock), Finding::Unknown);
    assert_eq!(world.shown().executing, Some(0));
    world.seconds(2);
    assert_eq!(world.found(Problem::OrphanLock), Finding::Positive { ms: 6_000 });
    let reported = world.reported();
    assert!(
        matches!(&*reported, [EventKind::LockOutlivedTask { id, .. }] if id == b"a"),
        "{reported:?}"
    );
    let shown = world.shown();
    assert_eq!((shown.orphaned, shown.departed, shown.departed_locked), (1, 1, 1));
    assert_eq!(
        (&*shown.orphans[0].id, shown.orphans[0].execution.until),
        (&b"a"[..], Some(at(130)))
    );
    world.seconds(20);
    assert_eq!(world.found(Problem::OrphanLock), Finding::Unknown, "it ended");
    assert_eq!((world.shown().orphans.len(), world.shown().expired), (0, 0));
}

/// As arq keeps the lock of a cron job, so that no other worker runs it for the same minute.
#[test]
fn a_lock_that_was_shortened_when_its_task_left_is_kept_on_purpose() {
    let mut world = World::new();
    for job in 0..5 {
        let (id, due) = (format!("tick:{job}"), 100 + 10 * job);
        world.add(&id, due).lock(&id, "1", due + 310).seconds(2);
        world.lock(&id, "1", due + 60).remove(&id).seconds(8);
        assert_eq!(world.found(Problem::OrphanLock), Finding::Unknown, "{id}");
    }
    assert_eq!((world.shown().orphaned, world.shown().departed_locked), (0, 5));
    assert_eq!(world.shown().orphans.len(), 0);
    // Shortened a moment after the member left.
    world.add("a", 150).lock("a", "1", 460).second().remove("a").second().lock("a", "1", 210);
    world.seconds(8);
    assert_eq!((world.shown().orphaned, world.found(Problem::OrphanLock)), (0, Finding::Unknown));
    // So fast that it was not seen before it left.
    world.add("b", 150).second().remove("b").lock("b", "1", 230).seconds(8);
    assert_eq!((world.shown().orphaned, world.found(Problem::OrphanLock)), (0, Finding::Unknown));
}

#[test]
fn a_lock_that_is_renewed_after_its_task_left_outlives_it() {
    let mut world = World::new();
    world.add("a", 100).lock("a", "w1", 130).seconds(3).remove("a").second();
    world.lock("a", "w1", 160).seconds(8);
    assert!(world.found(Problem::OrphanLock).is_positive());
}

#[test]
fn without_locks_nothing_vanishes_and_members_are_late_all_the_same() {
    let mut world = World::of(|queue, _| queue.lock = None);
    for number in 0..20 {
        let id = format!("m{number}");
        world.add(&id, 100).second().remove(&id).second();
    }
    let shown = world.shown();
    assert_eq!((shown.departed, shown.vanished, shown.executing), (20, 0, None));
    world.add("late", 130).seconds(75);
    assert_eq!(world.verdict(), Verdict::Stalled);
    assert!(world.found(Problem::Stalled).is_positive());
    world.remove("late").second();
    assert_eq!(world.verdict(), Verdict::Running);
}

#[test]
fn members_that_vanish_are_a_warning_where_executions_are_seen() {
    let mut world = World::new();
    world.execute(0, 5);
    assert_eq!((world.shown().departed, world.shown().vanished), (5, 0));
    world.add("x", 100).add("y", 100).second().remove("x").remove("y").second();
    assert_eq!(world.reported(), [EventKind::MembersVanished { number: 2 }]);
    assert_eq!(world.shown().vanished, 2);
    assert_eq!(world.problems().events, [(Problem::Vanished, 0)]);
}

#[test]
fn members_that_vanish_are_only_counted_where_executions_are_faster_than_sweeps() {
    let mut world = World::new();
    for number in 0..20 {
        let id = format!("m{number}");
        world.add(&id, 100).second().remove(&id).second();
    }
    assert_eq!((world.shown().vanished, world.reported()), (20, Vec::new()));
    assert_eq!(world.problems().events, []);
}

/// They may have been executed while nothing was read, or while their locks could not be.
#[test]
fn members_that_left_unseen_are_counted_without_a_warning() {
    let mut world = World::new();
    world.execute(0, 5).add("x", 100).add("y", 100).add("z", 100).second();
    world.now += 30;
    world.remove("x").second();
    assert_eq!((world.shown().vanished, world.reported()), (1, Vec::new()));
    for _ in 0..5 {
        world.now += 1;
        let mut queue = world.queue();
        queue.first[0].lock = Some(LockReading::Unknown(Unknown::ValuePath));
        world.takes(QueueReading::Read(queue));
    }
    world.remove("y").second();
    assert_eq!((world.shown().vanished, world.reported()), (2, Vec::new()));
    world.remove("z").second();
    assert_eq!(world.reported(), [EventKind::MembersVanished { number: 1 }]);
}

/// The server that decides now has a slower clock, and lacks the newest locks.
#[test]
fn a_member_that_was_executed_before_a_failover_does_not_vanish_after_it() {
    let mut world = World::new();
    let due = i64::try_from(world.execute(0, 5).now).unwrap();
    world.add("x", due).lock("x", "w", due + 60).seconds(2);
    (world.ahead, world.generation) = (-5, generation(b"b", 0));
    world.seen.clear();
    world.unlock("x").seconds(4);
    assert_eq!(world.shown().due, Some(1), "it is due again");
    world.remove("x").second();
    assert_eq!((world.shown().vanished, world.reported()), (0, Vec::new()));
}

#[test]
fn a_store_that_lost_its_data_makes_nothing_vanish() {
    for lost in [generation(b"a", 1), generation(b"b", 0)] {
        let mut world = World::new();
        world.execute(0, 5).add("x", 100).second();
        world.generation = lost;
        world.set.clear();
        world.second();
        let shown = world.shown();
        assert_eq!((shown.vanished, shown.departed, shown.members), (0, 5, Some(0)));
        assert_eq!(world.reported(), []);
    }
}
