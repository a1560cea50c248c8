//! Turns by clocks that step, in answers that are slow, and beside stretches without a reading.

use super::*;

/// The first of two readings waited on its way, so the two may have been read at once.
#[test]
fn a_slow_answer_proves_no_split_for_the_time_that_it_took() {
    let mut agent = Agent::new(|_, _| {});
    let both = [("a", 900), ("b", 2_900)];
    agent.took_ms = 1_900;
    agent.reads(1_000, &both);
    agent.took_ms = 1;
    assert_eq!(agent.reads(3_000, &both).verdict, Verdict::Running);
    assert_eq!(agent.reads(3_899, &both).verdict, Verdict::Running);
    assert_eq!(agent.reads(3_900, &both).verdict, Verdict::Split);
}

/// The server's clock steps forward by an hour: nobody has waited for an hour.
#[test]
fn a_step_of_the_clock_makes_no_turn_late() {
    let mut agent = Agent::new(|_, _| {});
    let there = [("a", 900)];
    for at in [1_000, 2_000, 3_000] {
        agent.reads(at, &there);
    }
    agent.stepped_ms = 3_600_000;
    for at in (4..=30).map(|at| at * 1_000) {
        let view = agent.reads(at, &there);
        assert_eq!((view.verdict, view.durations.stalled_ms), (Verdict::Running, 0), "{at}");
    }
    assert_eq!(agent.reads(31_001, &there).verdict, Verdict::Stalled, "it is late now");
}

/// The turn was given before the step, and is seen after it for the first time.
#[test]
fn a_turn_waits_no_longer_than_it_has_been_there() {
    let mut agent = Agent::new(|_, _| {});
    agent.reads(1_000, &[("a", 900)]);
    agent.reads(2_000, &[("a", 900)]);
    agent.stepped_ms = 3_600_000;
    // What the first answer after a step says is not believed.
    for at in (3..=32).map(|at| at * 1_000) {
        let view = agent.reads(at, &[("b", 2_100)]);
        assert_eq!((view.verdict, view.durations.stalled_ms), (Verdict::Running, 0), "{at}");
    }
    assert_eq!(agent.reads(33_000, &[("b", 2_100)]).verdict, Verdict::Stalled);
}

/// By the clock of before it was to come in an hour. By the new one it may be taken.
#[test]
fn a_turn_that_was_not_due_is_due_by_the_clock_that_has_stepped() {
    let mut agent = Agent::new(|_, _| {});
    agent.reads(1_000, &[("a", 3_600_900)]);
    agent.reads(2_000, &[("a", 3_600_900)]);
    agent.stepped_ms = 3_600_000;
    for at in (3..=32).map(|at| at * 1_000) {
        assert_eq!(agent.reads(at, &[("a", 3_600_900)]).verdict, Verdict::Running, "{at}");
    }
    assert_eq!(agent.reads(33_000, &[("a", 3_600_900)]).verdict, Verdict::Stalled);
}

/// The turn may have gone round many times while nothing was read.
#[test]
fn a_first_sight_of_nobody_before_a_long_blindness_begins_no_gap() {
    let mut agent = Agent::new(|_, spec| {
        (spec.grace_ms, spec.blind_after_ms) = (5_000, 20_000);
    });
    agent.reads(1_000, &[("a", 900)]);
    agent.reads(2_000, &[]);
    let view = agent.reads(62_000, &[]);
    assert_eq!((view.durations.down_ms, agent.count(is_verdict)), (0, 1), "{:?}", view.verdict);
    agent.reads(63_000, &[]);
    assert_eq!(agent.reads(67_000, &[]).verdict, Verdict::Pending);
    assert_eq!(agent.reads(68_000, &[]).verdict, Verdict::Down);
}
