//! Which alerts fire for what is seen. The state is stepped as the engine does it.

use std::sync::Arc;

use lockwatch::alerts::{firing, of_task};
use lockwatch_judge::input::{Attestation, Input, Outcome, Sample, Standing};
use lockwatch_judge::problems::{self, Finding, Problem, Problems};
use lockwatch_judge::reading::{
    Deadline, Extras, Held, Holder, LockReading, Mode, Parts, TaskReading,
};
use lockwatch_judge::snapshot::Snapshot;
use lockwatch_judge::spec::{
    LockSpec, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_watch::redis::{RedisKind, libraries};

/// A task whose lock has been held for a minute, and is renewed every ten seconds.
fn held(wanted: Option<WantedSource>) -> Snapshot {
    let wanted =
        wanted.map(|source| WantedSpec { source, codec: lockwatch_judge::spec::Codec::Raw });
    let lock = LockSpec { renew_every_ms: Some(10_000), ..libraries::lock(b"lock", "redisson") };
    let task =
        TaskSpec { wanted, max_hold_ms: Some(1_000), ..TaskSpec::new("task", StoreIndex(0), lock) };
    let redises = vec![RedisKind::Standalone.store("main", &["a:6379"])];
    let mut state = State::new();
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    for (at, clock) in [(1_000, 1_000), (61_000, 61_000)] {
        let holders =
            vec![Holder { client: b"A".to_vec(), thread: None, entries: Some(1), secret: false }];
        let deadline = Deadline::At(ServerTime::at(300_000));
        let lock = LockReading::from(Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline });
        let reading = TaskReading::of_lock(lock, Extras::default(), Parts::default());
        let attestation = Attestation::master(ServerTime::at(clock), ServerTime::at(clock));
        state.step(
            Mono::at(at),
            Input::Sample(Sample {
                epoch: 1,
                store: StoreIndex(0),
                node: Some(Arc::from("a:6379")),
                standing: Standing::Decides,
                sent: Mono::at(at),
                took_ms: 0,
                outcome: Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] },
            }),
        );
    }
    state.snapshot(Mono::at(61_000))
}

#[test]
fn what_nobody_can_want_is_never_down() {
    let of = |wanted| -> Vec<Problem> {
        let snapshot = held(wanted);
        let conditions = of_task(snapshot.tasks.first().unwrap());
        conditions.into_iter().map(|condition| condition.problem).collect()
    };
    assert!(of(Some(WantedSource::Always)).contains(&Problem::Down));
    for wanted in [None, Some(WantedSource::Never)] {
        assert_eq!(of(wanted.clone()), [Problem::Split, Problem::Blind], "{wanted:?}");
    }
}

#[test]
fn what_is_seen_fires() {
    let snapshot = held(None);
    let problems = problems::of_task(snapshot.tasks.first().unwrap(), snapshot.at, None);
    let alerts = firing(&problems);
    let reported: Vec<_> =
        alerts.iter().map(|alert| (alert.row.alert, alert.ms, alert.is_event)).collect();
    assert_eq!(reported, [("LockwatchHeldTooLong", 60_000, false)]);
}

#[test]
fn an_event_fires_once_and_switches_that_were_never_seen_after_a_while() {
    let reported = |findings: &[(Problem, u64)], events: &[(Problem, u64)]| -> Vec<_> {
        let findings = findings.iter().map(|(of, ms)| (*of, Finding::Positive { ms: *ms }));
        let problems = Problems {
            findings: findings.collect(),
            events: events.to_vec(),
            ..Problems::default()
        };
        let alerts = firing(&problems).into_iter();
        alerts.map(|alert| (alert.row.alert, alert.ms, alert.is_event)).collect()
    };
    let (split, unseen) = ("LockwatchTaskSplit", "LockwatchSwitchKeyMissing");
    assert_eq!(reported(&[(Problem::Split, 7)], &[(Problem::Split, 0)]), [(split, 7, false)]);
    assert_eq!(reported(&[], &[(Problem::Split, 9)]), [(split, 9, true)]);
    assert_eq!(reported(&[(Problem::SwitchesUnseen, 600_000)], &[]), []);
    assert_eq!(reported(&[(Problem::SwitchesUnseen, 600_001)], &[]), [(unseen, 600_001, false)]);
}
