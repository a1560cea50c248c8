//! A snapshot in which hostile bytes stand wherever they may.

use crate::claims::harmless_line;
use crate::{honest, worlds};
use lockwatch::drill::{Drill, Subject};
use lockwatch::outputs::events::describe;
use lockwatch::outputs::history::History;
use lockwatch::published::Published;
use lockwatch::text::identity::{digest, escape};
use lockwatch_judge::input::{Attestation, Generation, Input, Outcome, Role, Sample, Standing};
use lockwatch_judge::reading::{
    ClaimsReading, Deadline, Ended, Ends, Extras, GuardRuns, Held, Holder, LockReading, Mode,
    Overrun, Parts, PauseReading, ProgressReading, ProgressValue, RunsReading, Switch,
    SwitchesReading, TaskReading,
};
use lockwatch_judge::spec::{
    Codec, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};
use lockwatch_watch::redis::{RedisKind, libraries};
use std::sync::Arc;
use std::time::Instant;

/// The agent's wall clock at its start.
pub(crate) const WALL: i64 = honest::NOW_S * 1_000;
/// The names of the two tasks.
pub(crate) const NAMES: [&str; 2] = ["named", "tokened"];

/// The token of the second task's lock, which must never be shown.
pub(crate) fn token(data: &[u8]) -> String {
    format!("token-{}-of-nobody", digest(data))
}

/// A snapshot in which two tasks have a history, and the events in it.
pub(crate) fn world(data: &[u8]) -> (Arc<Published>, History) {
    let labels = vec![("team".into(), escape(data).into())];
    let named = TaskSpec { labels, full_metrics: true, ..worlds::task(0) };
    let named = TaskSpec {
        name: NAMES[0].into(),
        kind: lockwatch_judge::spec::KindSpec::Lock(libraries::lock(data, "redisson")),
        ..named
    };
    let tokened = TaskSpec {
        wanted: Some(WantedSpec { source: WantedSource::Always, codec: Codec::Raw }),
        ..TaskSpec::new(NAMES[1], StoreIndex(0), libraries::lock(b"tokened", "string"))
    };
    let redis = RedisKind::Standalone.store("main", &["a:1"]);
    let named = Arc::new(named);
    let drill = drill(Arc::clone(&named), data);
    let spec = WatchSpec { stores: vec![redis], tasks: vec![named, Arc::new(tokened)], epoch: 0 };
    let (mut state, history) = (State::new(), History::default());
    let mut step = |at: u64, input: Input| {
        for event in state.step(Mono::at(at), input) {
            let line = describe(&event);
            harmless_line(&line.message);
            line.who.iter().for_each(|who| harmless_line(who));
            history.keep(Mono::at(at), AgentWall(WALL + at as i64), &event);
        }
    };
    step(0, Input::Config(Arc::new(spec)));
    for turn in 1..=5 {
        let readings = vec![
            (TaskIndex(0), named_reading(turn, data)),
            (TaskIndex(1), tokened_reading(turn, data)),
        ];
        step(turn * 1_000, Input::Sample(sample(turn * 1_000, readings)));
    }
    let snapshot = state.snapshot(Mono::at(5_500));
    (
        Arc::new(Published {
            snapshot,
            wall: AgentWall(WALL + 5_500),
            made: Instant::now(),
            patterns: Arc::default(),
            drill: Some(Arc::new(drill)),
        }),
        history,
    )
}

/// A drill whose user and severity are the input.
fn drill(task: Arc<TaskSpec>, data: &[u8]) -> Drill {
    let text: Arc<str> = String::from_utf8_lossy(data).into();
    let (severity, by) = (Some(Arc::clone(&text)), Some(text));
    let of = Subject { task, store: "main".into(), severity, by };
    let (began, ends) = (Mono::at(5_000), Mono::at(60_000));
    Drill { id: "a-1".into(), of, began, began_at: AgentWall(WALL), ends }
}

/// A lock that is held by the input, by the input and another holder, by nobody, and by the input
/// again.
fn named_reading(turn: u64, data: &[u8]) -> TaskReading {
    let holder = |client: &[u8]| Holder {
        client: client.to_vec(),
        thread: None,
        entries: Some(1),
        secret: false,
    };
    let mut holders = vec![holder(data)];
    if turn == 2 {
        holders.push(holder(b"another"));
    }
    holders.sort_unstable();
    let server_now = ServerTime::at(WALL + turn as i64 * 1_000);
    let parts = Parts {
        overruns: vec![Overrun { instance: data.to_vec(), token: 1, ms: u64::MAX }],
        runs: RunsReading {
            guards: vec![GuardRuns {
                instance: data.to_vec(),
                host: data.to_vec(),
                ended: vec![Ended { from: server_now, to: server_now, code: 1, asked: false }; 3],
                since: Some(server_now),
            }],
            unreadable: 1,
        },
        switches: Some(SwitchesReading::Read {
            switches: vec![
                (data.to_vec(), Switch::On),
                (
                    [data, b"2"].concat(),
                    Switch::Undecodable {
                        value: data.iter().take(64).copied().collect(),
                        fits: None,
                    },
                ),
            ],
            key_exists: true,
            counted: None,
            whole: true,
            ends: Ends::UNKNOWN,
        }),
        progress: Some(ProgressReading::Value(ProgressValue::lasting(
            [data, turn.to_string().as_bytes()].concat(),
        ))),
        claims: Some(ClaimsReading::Read(vec![(data.to_vec(), turn.to_string().into_bytes())])),
        hosts: Some(Ok(vec![(data.to_vec(), data.to_vec())])),
        pause: Some(PauseReading::Undecodable),
    };
    let extras = Extras { waiters: Some(2), fencing_token: Some(7), queue: None };
    TaskReading::of_lock(lock(turn, holders), extras, parts)
}

fn tokened_reading(turn: u64, data: &[u8]) -> TaskReading {
    let holder =
        Holder { client: token(data).into_bytes(), thread: None, entries: None, secret: true };
    TaskReading::of_lock(lock(turn, vec![holder]), Extras::default(), Parts::default())
}

fn lock(turn: u64, holders: Vec<Holder>) -> LockReading {
    let deadline = Deadline::At(ServerTime::at(WALL + 30_000 + turn as i64 * 1_000));
    match turn {
        4 => LockReading::Free,
        _ => LockReading::from(Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline }),
    }
}

fn sample(at: u64, readings: Vec<(TaskIndex, TaskReading)>) -> Sample {
    let clock = ServerTime::at(WALL + at as i64);
    let attestation = Attestation {
        first: clock,
        last: clock,
        role: Role::Master,
        role_verified: true,
        offset: Some(at),
        refuses_writes: None,
        replicas: Vec::new(),
        generation: Some(Generation::default()),
        clock_offset_ms: 0,
    };
    Sample {
        epoch: 0,
        store: StoreIndex(0),
        node: Some("a:1".into()),
        standing: Standing::Decides,
        sent: Mono::at(at),
        took_ms: 3,
        outcome: Outcome::Read { attestation, readings },
    }
}
