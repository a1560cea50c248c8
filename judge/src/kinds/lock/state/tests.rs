use alloc::vec;

use super::*;
use crate::continuity::generation::{Delta, Evicted, Mark};
use crate::evidence::Seen;
use crate::reading::{Deadline, Holder, Mode};
use crate::time::ServerTime;

const RESTARTED: Delta = Delta {
    restarted: true,
    failover: false,
    replication: false,
    flushed: false,
    slot_flushed: false,
    evicted: Evicted::None,
    emptied: false,
    shared: None,
    kept: false,
    began_with: None,
};

fn lock() -> Lock {
    Lock::new(&LockSpec::new(b"lock", "redisson"))
}

/// A reading at `at` that shows a holder with a lease until 60 s, when `offset` bytes had been
/// written.
fn shows(lock: &mut Lock, at: u64, holder: Option<&str>, offset: u64, delta: Delta) -> Observed {
    shows_until(lock, at, holder.map(|name| (name, 60_000)), offset, delta)
}

/// The same with the deadline of each hold.
fn shows_until(
    lock: &mut Lock,
    at: u64,
    hold: Option<(&str, i64)>,
    offset: u64,
    delta: Delta,
) -> Observed {
    let clock = ServerTime::at(i64::try_from(at).unwrap());
    let seen = Seen { sent: Mono::at(at), first: clock, last: clock };
    let context = Context {
        seen,
        given: Mark { offset: Some(offset), at: Mono::at(at) },
        same_clock: true,
        delta,
        blind_after_ms: 60_000,
    };
    let held = |(name, deadline): (&str, i64)| Held {
        mode: Mode::Exclusive,
        holders: vec![Holder {
            client: name.into(),
            thread: None,
            entries: Some(1),
            secret: false,
        }],
        ghosts: 0,
        deadline: Deadline::At(ServerTime::at(deadline)),
    };
    lock.observe(&hold.map_or(LockReading::Free, |hold| held(hold).into()), context)
}

/// After a restart, offsets start again. Data written long before would otherwise look as if no
/// replica could have them.
#[test]
fn where_a_hold_began_in_another_history_is_not_known() {
    let mut lock = lock();
    shows(&mut lock, 1_000, None, 100_000, Delta::default());
    shows(&mut lock, 2_000, Some("A"), 100_100, Delta::default());
    assert_eq!(lock.hold().unwrap().offset_before, Some(100_000));
    shows(&mut lock, 3_000, Some("A"), 50, RESTARTED);
    assert_eq!(lock.hold().unwrap().offset_before, None, "it goes on");
    shows(&mut lock, 4_000, None, 60, Delta::default());
    shows(&mut lock, 5_000, Some("B"), 10, RESTARTED);
    assert_eq!(lock.hold().unwrap().offset_before, None, "it began meanwhile");
}

/// The hold may come again, and go, between two readings.
#[test]
fn who_gave_the_lock_back_after_a_moment_is_remembered() {
    for (held_ms, brief) in [(BRIEF_MS - 1, true), (BRIEF_MS, false)] {
        let mut lock = lock();
        let mut shows = |at, holder| shows(&mut lock, at, holder, at, Delta::default());
        shows(1_000, Some("A"));
        shows(1_000 + held_ms, Some("A"));
        shows(5_000, None);
        shows(6_000, Some("B"));
        let ended = shows(7_000, Some("C")).ended.unwrap();
        assert_eq!(
            (ended.reason, ended.earlier_brief),
            (End::Replaced, brief),
            "after {held_ms} ms"
        );
    }
}

#[test]
fn only_longer_than_blind_after_is_blind() {
    let mut lock = lock();
    let blind = [0, 60_000, 120_001]
        .map(|at| shows(&mut lock, at, None, at, Delta::default()).across_blind);
    assert_eq!(blind, [false, false, true]);
}

/// An old hold may be a leftover wherever it is unknown whether its end is there.
#[test]
fn where_a_hold_was_over_in_another_history_is_not_known() {
    let mut lock = lock();
    shows(&mut lock, 1_000, Some("A"), 100, Delta::default());
    shows(&mut lock, 2_000, None, 200, Delta::default());
    shows(&mut lock, 3_000, Some("A"), 5_000, RESTARTED);
    assert_eq!(lock.hold().unwrap().earlier_over, Some(u64::MAX));
}

/// The earlier holder released it, and only the present holder renews it. A shortened deadline,
/// or an older copy of the lock, proves nothing.
#[test]
fn what_is_left_over_stays_so_until_it_is_renewed() {
    let mut lock = lock();
    let none = Delta::default();
    shows(&mut lock, 1_000, Some("A"), 100, none);
    shows(&mut lock, 2_000, None, 200, none);
    let left_until = [
        (3_000, 60_000, RESTARTED),
        (4_000, 60_000, none),
        (5_000, 50_000, none),
        (6_000, 70_000, none),
    ]
    .map(|(at, deadline, delta)| {
        shows_until(&mut lock, at, Some(("A", deadline)), at, delta);
        lock.hold().unwrap().left_until
    });
    let left = Some(ServerTime::at(60_000));
    assert_eq!(left_until, [left, left, left, None]);
}

/// A batch may take as long as the timeout. A renewal during that time is not in its answer.
#[test]
fn what_comes_after_the_request_is_not_overdue() {
    let mut lock = Lock::new(&LockSpec {
        lease_ms: Some(30_000),
        renewals_per_lease: Some(3),
        ..LockSpec::new(b"lock", "redisson")
    });
    let mut overdue_ms = |sent: u64, took: i64, deadline: i64| {
        let first = ServerTime::at(i64::try_from(sent).unwrap());
        let seen = Seen { sent: Mono::at(sent), first, last: first.plus_ms(took) };
        let held = Held {
            mode: Mode::Exclusive,
            holders: vec![Holder {
                client: b"A".to_vec(),
                thread: None,
                entries: Some(1),
                secret: false,
            }],
            ghosts: 0,
            deadline: Deadline::At(ServerTime::at(deadline)),
        };
        let given = Mark { offset: None, at: Mono::at(sent) };
        let context = Context {
            seen,
            given,
            same_clock: true,
            delta: Delta::default(),
            blind_after_ms: 60_000,
        };
        lock.observe(&held.into(), context);
        lock.hold().unwrap().overdue_ms
    };
    assert_eq!(overdue_ms(9_500, 0, 30_000), 0);
    assert_eq!(overdue_ms(10_500, 0, 40_000), 0, "renewed at 10 s");
    assert_eq!(overdue_ms(19_500, 2_000, 40_000), 0, "it was not due when it was asked for");
    assert_eq!(overdue_ms(20_500, 2_000, 40_000), 500);
}

#[test]
fn what_was_written_in_another_history_may_be_lost() {
    let mut lock = lock();
    shows(&mut lock, 1_000, Some("A"), 50, Delta::default());
    shows(&mut lock, 2_000, Some("A"), 5_000, RESTARTED);
    let failover = |shared| Delta { failover: true, shared: Some(shared), ..Delta::default() };
    let hold = lock.hold().unwrap();
    for (at, lost, what) in
        [(3_000, false, "shared"), (59_999, false, "until its end"), (60_000, true, "not after it")]
    {
        assert_eq!(hold.may_be_lost(failover(5_000), Mono::at(at)), lost, "{what}");
    }
    assert!(hold.may_be_lost(failover(100), Mono::at(3_000)), "the new master shares less");
}

/// Of a lock that names nobody, only the lease shows that a deadline was written after the old one.
#[test]
fn a_hold_of_nobody_ends_when_its_deadline_had_passed_before_the_next_was_written() {
    let second_until = |lease_ms: Option<u64>, holder: &str, until: i64| {
        let mut lock = Lock::new(&LockSpec { lease_ms, ..LockSpec::new(b"lock", "deadline") });
        shows_until(&mut lock, 400, None, 0, Delta::default());
        shows_until(&mut lock, 600, Some((holder, 3_500)), 0, Delta::default());
        shows_until(&mut lock, 3_400, Some((holder, 3_500)), 0, Delta::default());
        shows_until(&mut lock, 4_000, Some((holder, until)), 0, Delta::default())
    };
    let second = second_until(Some(3_000), "", 6_900);
    assert!(second.began && second.broke.is_none(), "{second:?}");
    assert_eq!(second.ended.map(|ended| ended.reason), Some(End::Expired));
    for (lease_ms, holder, until) in [
        // Written before the old deadline.
        (Some(3_000), "", 6_450),
        // No lease fits.
        (Some(3_000), "", 9_000),
        (None, "", 6_900),
        // Its id shows that it is the same.
        (Some(3_000), "a", 6_900),
    ] {
        let renewed = second_until(lease_ms, holder, until);
        assert!(!renewed.began && renewed.ended.is_none(), "{lease_ms:?} {holder} {until}");
        assert!(renewed.moved.is_some(), "{lease_ms:?} {holder} {until}");
    }
}

/// Both need no second free reading, but only the holder that set no end may have died.
#[test]
fn a_hold_whose_end_its_holder_had_set_breaks_there_without_having_expired() {
    let broken = |left_until: i64| {
        let mut lock =
            Lock::new(&LockSpec { lease_ms: Some(3_000), ..LockSpec::new(b"lock", "redisson") });
        shows_until(&mut lock, 400, None, 0, Delta::default());
        shows_until(&mut lock, 600, Some(("A", 3_500)), 0, Delta::default());
        shows_until(&mut lock, 1_600, Some(("A", left_until)), 0, Delta::default());
        let gone = shows_until(&mut lock, 3_600, None, 0, Delta::default());
        let reason = gone.ended.map(|ended| ended.reason);
        assert_eq!(lock.free_since(), Some(Mono::at(3_600)), "{reason:?}");
        (reason, gone.broke)
    };
    let broke = |held_ms, expired| Some(Break { held_ms, expired });
    assert_eq!(broken(3_000), (Some(End::EndedEarly), broke(2_400, false)));
    assert_eq!(broken(3_500), (Some(End::Expired), broke(2_900, true)));
}
