use alloc::vec::Vec;

use super::*;

#[test]
fn a_lease_is_the_only_whole_second_within() {
    assert_eq!(whole_second_within((29_500, 30_400)), Some(30_000));
    assert_eq!(whole_second_within((30_000, 30_000)), Some(30_000));
    assert_eq!(whole_second_within((29_000, 30_000)), None);
    assert_eq!(whole_second_within((29_100, 29_900)), None);
    assert_eq!(whole_second_within((-500, 900)), None);
    assert_eq!(whole_second_within((-500, 1_000)), Some(1_000));
    assert_eq!(whole_second_within((i64::MIN, i64::MAX)), None);
}

#[test]
fn a_lease_on_the_edge_of_both_intervals_fits_both() {
    assert!(!apart((1, 2), (2, 3)) && !apart((2, 3), (1, 2)) && !apart((1, 9), (4, 5)));
    assert!(apart((1, 2), (3, 4)) && apart((3, 4), (1, 2)));
}

#[test]
fn a_rhythm_is_as_exact_as_timers_are() {
    for (period_ms, most_ms) in [(100, 6), (500, 20), (10_000, 300)] {
        for periods in 1..=RHYTHM_PERIODS_MAX {
            let (middle_ms, most_ms) = (period_ms * periods, most_ms * periods);
            assert!(
                in_rhythm(middle_ms + most_ms, period_ms)
                    && in_rhythm(middle_ms - most_ms, period_ms)
            );
            assert!(
                !in_rhythm(middle_ms + most_ms + 1, period_ms)
                    && !in_rhythm(middle_ms - most_ms - 1, period_ms)
            );
        }
        assert!(
            !in_rhythm(period_ms * (RHYTHM_PERIODS_MAX + 1), period_ms) && !in_rhythm(0, period_ms)
        );
    }
}

#[test]
fn a_deadline_was_set_between_two_readings_or_with_another_lease() {
    let set = |deadline| {
        set_between(ServerTime::at(deadline), 30_000, seen(1_000, 1_000), seen(2_000, 2_000))
    };
    assert_eq!(
        [30_997, 30_998, 32_002, 32_003].map(set),
        [None, Some(ServerTime::at(998)), Some(ServerTime::at(2_002)), None]
    );
}

fn seen(mono: u64, server: i64) -> Seen {
    Seen { sent: Mono::at(mono), first: ServerTime::at(server), last: ServerTime::at(server) }
}

/// A hold that was renewed until 140 s; the renewal came at 110 s of the server's clock, 10 s
/// of the agent's.
fn renewed() -> Deadlines {
    let (mut leases, rule) = (
        Leases::new(Some(30_000)),
        PeriodRule { configured_ms: None, renewals_per_lease: Some(3) },
    );
    let taken = seen(1_000, 101_000);
    let before = Some(seen(0, 100_000));
    let mut deadlines = Deadlines::new(
        Some(ServerTime::at(130_000)),
        before,
        taken,
        Some(ServerTime::at(100_000)),
        true,
    );
    for at in 2..=10 {
        let deadline = ServerTime::at(if at < 10 { 130_000 } else { 140_000 });
        let read = seen(at * 1_000, 100_000 + i64::try_from(at * 1_000).unwrap());
        let terms = Terms { mode: Mode::Exclusive, leases: &mut leases, rule };
        deadlines.observe(deadline, read, false, terms);
    }
    assert_eq!((deadlines.renewed, deadlines.set), (true, Some(ServerTime::at(110_000))));
    deadlines
}

#[test]
fn a_renewal_is_overdue_once_it_is_later_than_timers_are() {
    let overdue_ms = |server| renewed().overdue_ms(ServerTime::at(server), Some(10_000));
    assert_eq!([120_200, 120_201].map(overdue_ms), [0, 201]);
}

/// A failover must not count as a renewal, and a dead watchdog must not look like one that has
/// just renewed.
#[test]
fn how_late_a_renewal_is_does_not_hang_on_whose_clock_tells() {
    for ahead_ms in [-3_000, 0, 3_000, 3_600_000] {
        let moved_by = |at: u64, deadline| {
            let mut deadlines = renewed();
            let server = 100_000 + i64::try_from(at).unwrap() + ahead_ms;
            let moved = deadlines.observe_another_clock(ServerTime::at(deadline), seen(at, server));
            (moved, deadlines.overdue_ms(ServerTime::at(server), Some(10_000)))
        };
        // By its instant, as replication passes it on, and by the remaining time.
        for deadline in [140_000, 140_000 + ahead_ms] {
            assert_eq!(moved_by(25_000, deadline), (None, 5_000), "{ahead_ms} ms ahead");
            assert_eq!(
                moved_by(40_000, deadline),
                (None, 20_000),
                "{ahead_ms} ms ahead, at its end"
            );
            assert_eq!(moved_by(40_001, deadline), (None, 0), "{ahead_ms} ms ahead, past its end");
        }
    }
}

/// If the library has no rule, a second renewal is in rhythm with the first if either interval
/// is a small multiple of the other.
#[test]
fn a_rhythm_of_unknown_period_may_have_gaps() {
    let in_a_row = |distances_ms: [i64; 2]| {
        let (mut leases, rule) =
            (Leases::default(), PeriodRule { configured_ms: None, renewals_per_lease: None });
        let mut deadlines =
            Deadlines::new(Some(ServerTime::at(90_000)), None, seen(1_000, 1_000), None, true);
        let (mut at, mut counts) = (1_000, Vec::new());
        for distance_ms in distances_ms {
            at += distance_ms;
            let read = seen(at.unsigned_abs(), at);
            let terms = Terms { mode: Mode::Exclusive, leases: &mut leases, rule };
            let moved = deadlines.observe(ServerTime::at(89_000 + at), read, false, terms);
            match moved {
                Some(Move::Renewed { in_a_row, .. }) => counts.push(in_a_row),
                other => panic!("{other:?}"),
            }
        }
        counts
    };
    for (distances_ms, last) in
        [([10_000, 10_000], 1), ([10_000, 20_000], 1), ([20_000, 10_000], 1), ([10_000, 15_000], 0)]
    {
        assert_eq!(in_a_row(distances_ms), [0, last], "{distances_ms:?}");
    }
}

/// A server without `PEXPIRETIME` reports a deadline up to 2 ms too early, and hints cause
/// readings right beside renewals.
#[test]
fn noise_does_not_rule_out_the_lease() {
    let at = |at: i64| seen(at.unsigned_abs(), at);
    let mut leases = Leases::default();
    for (before, after) in [(9_100, 10_500), (9_999, 10_000), (9_500, 10_000)] {
        leases.learn(Mode::Exclusive, lease_between(ServerTime::at(39_998), at(before), at(after)));
        assert_eq!(leases.of(Mode::Exclusive), Some(30_000), "between {before} and {after}");
    }
}
