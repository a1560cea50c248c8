//! A hundred holds of each library, as the agent shows them and as the clients log them.

use serde_json::Value;

use super::{LONG_MS, Scene};
use crate::support::agent::Agent;
use crate::support::zookeeper::{Clients, Setup};
use crate::support::{PATIENCE, wait_until};

const TASKS: &str = "
  - {name: kazoo, zookeeper: zk, lock: {path: /kazoo, library: kazoo}}
  - {name: curator, zookeeper: zk, lock: {path: /curator, library: curator}}
";
/// Two clients with so many holds each.
const HOLDS: usize = 50;
/// How long a hold lasts, and the pause after it, in milliseconds.
const HOLD_MS: u64 = 120;
const PAUSE_MS: u64 = 40;
/// What a sample may be older than the instant at which it was received, in milliseconds.
const AGE_MS: f64 = 400.0;

/// A hold by the log of its client, in Unix milliseconds: from when it may be held, from when it
/// surely is, until when it surely is, and until when it may be.
#[derive(Debug)]
struct Hold {
    session: String,
    asked: f64,
    held: f64,
    leaving: f64,
    left: f64,
}

/// What the agent said at an instant: from when to when it was asked, and the sessions.
#[derive(Debug)]
struct Sample {
    before: f64,
    after: f64,
    holders: Vec<String>,
}

fn now() -> f64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    now.as_secs_f64() * 1000.0
}

fn sample(agent: &Agent, task: &str) -> Option<Sample> {
    let before = now();
    let shown = agent.task(task);
    let lock = &shown["lock"];
    let is_known = lock["held"].is_boolean();
    let holders = super::sessions(lock);
    is_known.then(|| Sample { before, after: now(), holders })
}

fn logged(event: &Value, session: &str) -> Hold {
    let at = |name: &str| event[name].as_f64().unwrap();
    Hold {
        session: session.to_owned(),
        asked: at("asked"),
        held: at("held"),
        leaving: at("leaving"),
        left: at("left"),
    }
}

/// Whether somebody may have held the lock, as the sample says, at some instant of the sample or
/// shortly before it.
fn is_right(sample: &Sample, holds: &[Hold]) -> bool {
    let (from, to) = (sample.before - AGE_MS, sample.after);
    match sample.holders.as_slice() {
        [] => {
            // Wrong only if somebody surely held it all the time.
            let surely = |hold: &Hold| hold.held <= from && to <= hold.leaving;
            !holds.iter().any(surely)
        }
        [one] => {
            let may = |hold: &Hold| hold.session == *one && hold.asked <= to && from <= hold.left;
            holds.iter().any(may)
        }
        _ => false,
    }
}

#[test]
fn no_sample_contradicts_the_clients() {
    let test = "zookeeper::holds::no_sample_contradicts_the_clients";
    let Some(scene) = Scene::open(test, Setup::of(1), TASKS) else { return };
    let Some(kazoo) = Clients::kazoo(test, &scene.ensemble) else { return };
    let Some(curator) = Clients::curator(test, &scene.ensemble) else { return };
    let mut programs = [("kazoo", kazoo), ("curator", curator)];
    let mut sessions = Vec::new();
    for (library, program) in &mut programs {
        for name in ["one", "two"] {
            sessions.push(program.session(name, LONG_MS));
            program.run_command(&format!(
                "holds {name} {library}-{name} /{library} {name} {HOLDS} {HOLD_MS} {PAUSE_MS}"
            ));
        }
    }
    let mut samples = [Vec::new(), Vec::new()];
    let acquisitions = |task: &str| scene.agent.page().of(task, "lock_acquisitions_total");
    let all = 2.0 * HOLDS as f64;
    let is_over = || {
        ["kazoo", "curator"].iter().all(|task| {
            acquisitions(task) >= Some(0.9 * all)
                && scene.agent.page().of(task, "lock_held") == Some(0.0)
        })
    };
    wait_until(PATIENCE, "all holds are over", || {
        for _ in 0..10 {
            for (samples, task) in samples.iter_mut().zip(["kazoo", "curator"]) {
                samples.extend(sample(&scene.agent, task));
            }
        }
        is_over()
    });
    let mut sessions = sessions.into_iter();
    for ((library, program), samples) in programs.iter_mut().zip(&samples) {
        let mut holds = Vec::new();
        for name in ["one", "two"] {
            let session = sessions.next().unwrap();
            let events = program.events_until_done(&format!("{library}-{name}"));
            holds.extend(events.iter().map(|event| logged(event, &session)));
        }
        assert_eq!(holds.len(), 2 * HOLDS);
        let held = samples.iter().filter(|sample| !sample.holders.is_empty()).count();
        let wrong: Vec<&Sample> = samples.iter().filter(|it| !is_right(it, &holds)).collect();
        eprintln!("{library}: {} samples, {held} held, {} wrong", samples.len(), wrong.len());
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert!(held > 100, "{held}");
        // A hold may begin and end between two readings.
        assert!(acquisitions(library) >= Some(0.9 * all), "{}", scene.agent.log());
    }
}
