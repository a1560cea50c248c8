//! Which durations the alerts compare, and with which thresholds. The state is stepped as the
//! engine does it.

use std::sync::Arc;

use lockwatch::alerts::{Condition, of_redis, of_task, warnings_of_task};
use lockwatch_judge::input::{Attestation, Input, Outcome, Sample, Standing};
use lockwatch_judge::reading::{
    Beside, Deadline, Extras, Held, Holder, LockReading, Mode, TaskReading,
};
use lockwatch_judge::snapshot::{Snapshot, StoreView};
use lockwatch_judge::spec::{
    LockSpec, SchemeKind, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_watch::redis::RedisKind;

/// A task whose lock has been held for a minute, and is renewed every ten seconds.
fn held(wanted: Option<WantedSource>) -> Snapshot {
    let wanted =
        wanted.map(|source| WantedSpec { source, codec: lockwatch_judge::spec::Codec::Raw });
    let lock =
        LockSpec { renew_every_ms: Some(10_000), ..LockSpec::new(b"lock", SchemeKind::Redisson) };
    let task =
        TaskSpec { wanted, max_hold_ms: Some(1_000), ..TaskSpec::new("task", StoreIndex(0), lock) };
    let redises = vec![RedisKind::Standalone.store("main", &["a:6379"])];
    let mut state = State::new();
    state.step(
        Mono(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    for (at, clock) in [(1_000, 1_000), (61_000, 61_000)] {
        let holders =
            vec![Holder { client: b"A".to_vec(), thread: None, entries: Some(1), secret: false }];
        let deadline = Deadline::At(ServerTime(300_000));
        let lock = LockReading::from(Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline });
        let reading = TaskReading { lock, extras: Extras::default(), beside: Beside::default() };
        let attestation = Attestation::master(ServerTime(clock), ServerTime(clock));
        state.step(
            Mono(at),
            Input::Sample(Sample {
                epoch: 1,
                store: StoreIndex(0),
                node: Some(Arc::from("a:6379")),
                standing: Standing::Decides,
                sent: Mono(at),
                took_ms: 0,
                outcome: Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] },
            }),
        );
    }
    state.snapshot(Mono(61_000))
}

fn names(pages: &[Condition]) -> Vec<&str> {
    pages.iter().map(|page| page.alert).collect()
}

#[test]
fn what_nobody_can_want_is_never_down() {
    let of = |wanted| held(wanted).tasks.first().map(|view| of_task(view)).unwrap();
    assert!(names(&of(Some(WantedSource::Always))).contains(&"LockwatchTaskDown"));
    for wanted in [None, Some(WantedSource::Never)] {
        assert_eq!(
            names(&of(wanted.clone())),
            ["LockwatchTaskSplit", "LockwatchTaskBlind"],
            "{wanted:?}"
        );
    }
}

#[test]
fn warnings_compare_what_they_are_about_with_its_threshold() {
    let snapshot = held(None);
    let warnings = warnings_of_task(snapshot.tasks.first().unwrap());
    let told: Vec<_> = warnings
        .iter()
        .map(|page| (page.alert, page.value_ms, page.threshold_ms))
        .skip(1)
        .collect();
    assert_eq!(
        told,
        [("LockwatchRenewalOverdue", 0, 5_000), ("LockwatchHeldTooLong", 60_000, 1_000)]
    );
}

#[test]
fn a_redis_that_is_read_again_is_not_unreachable() {
    let snapshot = held(None);
    let view = snapshot.stores.first().unwrap();
    let value = |readable| {
        of_redis(&StoreView { readable, blind_ms: 90_000, ..StoreView::clone(view) }, 60_000)
            .value_ms
    };
    assert_eq!([Some(true), Some(false), None].map(value), [0, 90_000, 90_000]);
}
