//! Arbitrary replies to the commands about one task (libraries, switches, progress, claims,
//! pauses), and their effect on the state.
//!
//! Two bytes select the configuration; the rest are replies, parsed leniently.

use std::sync::Arc;

use lockwatch_judge::input::{Attestation, Input, Outcome, Sample, Standing};
use lockwatch_judge::reading::{Holder, LockReading, Mode, SwitchesReading, TaskReading};
use lockwatch_judge::spec::{StoreIndex, TaskIndex, WatchSpec};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::read::{Round, Scope, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply};

use crate::wire;
use crate::worlds::{caps, task};

/// Maximum number of rounds in which a task is read: of a lock that is a field.
const ROUNDS: usize = 4;
/// Number of readings in one run.
const READINGS: u64 = 4;

pub(crate) fn run(data: &[u8]) {
    let [choice, server, replies @ ..] = data else { return };
    let spec = Arc::new(task(*choice));
    let mut replies = wire::lenient(replies).into_iter();
    let mut state = State::new();
    let redis = RedisKind::Standalone.store("main", &["a:1"]);
    let watch = WatchSpec { stores: vec![redis], tasks: vec![Arc::clone(&spec)], epoch: 0 };
    state.step(Mono::at(0), Input::Config(Arc::new(watch)));
    for step in 1..=READINGS {
        let read = TaskRead::new(Arc::clone(&spec), caps(*server), server & 32 == 0, Scope::ALL);
        let reading = rounds(read, &mut replies);
        check(&reading);
        let sent = Mono::at(step * 1_000);
        state.step(sent.plus_ms(5), Input::Sample(sample(sent, reading)));
        let snapshot = state.snapshot(sent.plus_ms(10));
        assert_eq!(snapshot.tasks.len(), 1, "the task went missing");
    }
}

/// Reads a task in as many rounds as needed.
fn rounds(mut read: TaskRead, replies: &mut impl Iterator<Item = Reply>) -> TaskReading {
    for _ in 0..ROUNDS {
        let mut commands: Vec<Command> = Vec::new();
        read.commands(&mut commands);
        let answers: Vec<Reply> =
            commands.iter().map(|_| replies.next().unwrap_or(Reply::Nil)).collect();
        match read.decode(&answers) {
            Round::Done(reading) => return reading,
            Round::Again(more) => read = more,
        }
    }
    panic!("not read in {ROUNDS} rounds");
}

fn check(reading: &TaskReading) {
    if let LockReading::Held(held) = reading.lock().unwrap() {
        assert!(!held.holders.is_empty() || held.mode == Mode::Read, "held by nobody");
        assert!(held.holders.is_sorted(), "holders are not sorted");
        // Only tokens may be empty: `SET key ""` is a lock. A constant names nobody.
        assert!(
            held.holders.iter().all(|holder| {
                holder.secret || !holder.client.is_empty() || *holder == Holder::NOBODY_KNOWN
            }),
            "a holder without a name"
        );
    }
    if let Some(SwitchesReading::Read { switches, .. }) = &reading.parts.switches {
        assert!(switches.is_sorted_by(|a, b| a.0 < b.0), "a user twice, or not sorted");
    }
}

fn sample(sent: Mono, reading: TaskReading) -> Sample {
    let clock =
        ServerTime::at(crate::honest::NOW_S * 1_000 + i64::try_from(sent.ms()).unwrap_or(0));
    let attestation = Attestation::master(clock, clock);
    Sample {
        epoch: 0,
        store: StoreIndex(0),
        node: Some("a:1".into()),
        standing: Standing::Decides,
        sent,
        took_ms: 5,
        outcome: Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] },
    }
}
