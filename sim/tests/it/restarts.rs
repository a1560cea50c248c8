//! A server returns with data. The data beside a missing lock show whether it was lost or released
//! meanwhile.

use std::sync::Arc;

use lockwatch_judge::event::{End, Event, EventKind, Subject};
use lockwatch_judge::input::{Attestation, Generation, Input, Outcome, Sample, Standing};
use lockwatch_judge::reading::{
    Deadline, Ends, Extras, Held, Holder, LockReading, Mode, Parts, Switch, SwitchesReading,
    TaskReading, Unknown,
};
use lockwatch_judge::spec::{
    Codec, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_watch::redis::{RedisKind, libraries};

use crate::truth::rule;

/// The holder of a lock and its deadline; `None`: free.
type Shown = Option<(&'static str, i64)>;

/// An answer of the process `run` about two locks, 5 ms after the request.
type Answer = (u64, &'static str, [Shown; 2]);

const TOOK_MS: u64 = 5;

struct Agent {
    state: State,
}

impl Agent {
    /// Watches two locks, the second on the same redis or on its own, and Anna's switch for the
    /// first.
    fn new(redises: u16) -> Agent {
        let redis = |number| RedisKind::Standalone.store(&format!("redis-{number}"), &["a:6379"]);
        let task = |name: &str, redis, wanted| {
            let lock = libraries::lock(name.as_bytes(), "redisson");
            Arc::new(TaskSpec { wanted, ..TaskSpec::new(name, StoreIndex(redis), lock) })
        };
        let wanted =
            WantedSpec { source: WantedSource::Hash(b"users".to_vec()), codec: Codec::Raw };
        let tasks = vec![task("first", 0, Some(wanted)), task("second", redises - 1, None)];
        let spec = WatchSpec { stores: (0..redises).map(redis).collect(), tasks, epoch: 1 };
        let mut state = State::new();
        state.step(Mono::at(0), Input::Config(Arc::new(spec)));
        Agent { state }
    }

    fn hears(
        &mut self,
        at: u64,
        redis: u16,
        generation: Generation,
        readings: Vec<(TaskIndex, TaskReading)>,
    ) -> Vec<Event> {
        let clock = |at: u64| ServerTime::at(i64::try_from(at).unwrap());
        let attestation = Attestation {
            generation: Some(generation),
            ..Attestation::master(clock(at), clock(at + TOOK_MS))
        };
        let sample = Sample {
            epoch: 1,
            store: StoreIndex(redis),
            node: Some("a:6379".into()),
            standing: Standing::Decides,
            sent: Mono::at(at),
            took_ms: TOOK_MS,
            outcome: Outcome::Read { attestation, readings },
        };
        self.state.step(Mono::at(at + TOOK_MS), Input::Sample(sample))
    }

    /// One redis with both locks.
    fn reads(&mut self, (at, run, locks): Answer) -> Vec<Event> {
        let readings = locks.map(|lock| reading(lock, on(true)));
        self.hears(at, 0, process(run), (0..).map(TaskIndex).zip(readings).collect())
    }
}

fn process(run: &str) -> Generation {
    Generation { process: run.into(), started_empty: Some(false), ..Generation::default() }
}

fn reading(lock: Shown, switches: SwitchesReading) -> TaskReading {
    let lock = lock.map_or(LockReading::Free, |(holder, deadline)| {
        let holder =
            Holder { client: holder.into(), thread: None, entries: Some(1), secret: false };
        let deadline = Deadline::At(ServerTime::at(deadline));
        LockReading::from(Held {
            mode: Mode::Exclusive,
            holders: vec![holder],
            ghosts: 0,
            deadline,
        })
    });
    let parts = Parts { switches: Some(switches), ..Parts::default() };
    TaskReading::of_lock(lock, Extras::default(), parts)
}

fn on(anna: bool) -> SwitchesReading {
    let anna = anna.then(|| (b"anna".to_vec(), Switch::On));
    let bert = Some((b"bert".to_vec(), Switch::Off));
    SwitchesReading::Read {
        switches: anna.into_iter().chain(bert).collect(),
        key_exists: true,
        counted: None,
        whole: true,
        ends: Ends::UNKNOWN,
    }
}

/// How holds of the first lock ended, and how often it was reported as lost.
fn ends(events: &[Event]) -> (Vec<End>, usize) {
    let first = events
        .iter()
        .filter(|event| matches!(&event.subject, Subject::Task(task) if &*task.name == "first"));
    let mut reported = (Vec::new(), 0);
    for event in first {
        match event.kind {
            EventKind::HoldEnded { reason, .. } => reported.0.push(reason),
            EventKind::LockLost { .. } => reported.1 += 1,
            _ => {}
        }
    }
    reported
}

/// Both are held; A's lease is renewed at 2 s until 32 s, B's at 3.5 s until 33.5 s.
const BEFORE: [Answer; 4] = [
    (1_000, "old", [Some(("A", 30_000)), Some(("B", 30_500))]),
    (2_500, "old", [Some(("A", 32_000)), Some(("B", 30_500))]),
    (3_000, "old", [Some(("A", 32_000)), Some(("B", 30_500))]),
    (4_000, "old", [Some(("A", 32_000)), Some(("B", 33_500))]),
];

#[test]
fn what_was_written_later_and_is_there_proves_that_nothing_earlier_was_lost() {
    let _rule = rule("12 two holders");
    let both = |a: i64, b: i64| [Some(("A", a)), Some(("B", b))];
    let (given_back, lost) = ((vec![End::EndedEarly], 0), (vec![End::Lost], 1));
    let table: [(&str, Vec<Answer>, Answer, _); 10] = [
        (
            "B's renewal is there",
            BEFORE.to_vec(),
            (6_000, "new", [None, Some(("B", 33_500))]),
            given_back.clone(),
        ),
        (
            "it may have been reported 2 ms off",
            BEFORE.to_vec(),
            (6_000, "new", [None, Some(("B", 33_498))]),
            given_back.clone(),
        ),
        (
            "somebody took it",
            BEFORE.to_vec(),
            (6_000, "new", [Some(("C", 35_500)), Some(("B", 33_500))]),
            (vec![End::Replaced], 0),
        ),
        ("B's is gone, too", BEFORE.to_vec(), (6_000, "new", [None, None]), lost.clone()),
        (
            "the file is older",
            BEFORE.to_vec(),
            (6_000, "new", [None, Some(("B", 30_500))]),
            lost.clone(),
        ),
        (
            "B has renewed since",
            BEFORE.to_vec(),
            (6_000, "new", [None, Some(("B", 35_800))]),
            lost.clone(),
        ),
        (
            "another one has it",
            BEFORE.to_vec(),
            (6_000, "new", [None, Some(("C", 33_500))]),
            lost.clone(),
        ),
        (
            "B was not seen to renew",
            BEFORE[3..].to_vec(),
            (6_000, "new", [None, Some(("B", 33_500))]),
            lost.clone(),
        ),
        (
            "A renewed after B, but its lease before that would still run",
            [&BEFORE[..], &[(5_000, "old", both(34_900, 33_500))]].concat(),
            (6_000, "new", [None, Some(("B", 33_500))]),
            given_back,
        ),
        (
            "it does not any more",
            [&BEFORE[..], &[(5_000, "old", both(34_900, 33_500))]].concat(),
            (32_500, "new", [None, Some(("B", 33_500))]),
            lost,
        ),
    ];
    for (what, before, after, expected) in table {
        let mut agent = Agent::new(1);
        before
            .into_iter()
            .for_each(|answer| assert_eq!(ends(&agent.reads(answer)), (vec![], 0), "{what}"));
        assert_eq!(ends(&agent.reads(after)), expected, "{what}");
    }
}

/// A may have acquired its lock after B's renewal if the answer that first shows A came after the
/// request of the last reading with B's old deadline.
#[test]
fn what_may_have_been_written_before_proves_nothing() {
    for (acquired, expected) in
        [(3_000 - TOOK_MS - 2, End::EndedEarly), (3_000 - TOOK_MS - 1, End::Lost)]
    {
        let mut agent = Agent::new(1);
        agent.reads((1_000, "old", [None, Some(("B", 30_500))]));
        agent.reads((acquired, "old", [Some(("A", 32_000)), Some(("B", 30_500))]));
        agent.reads((3_000, "old", [Some(("A", 32_000)), Some(("B", 30_500))]));
        agent.reads((4_000, "old", [Some(("A", 32_000)), Some(("B", 33_500))]));
        let events = agent.reads((6_000, "new", [None, Some(("B", 33_500))]));
        assert_eq!(ends(&events).0, [expected], "{acquired}");
    }
}

#[test]
fn a_process_proves_nothing_of_one_before_the_last() {
    let mut agent = Agent::new(1);
    BEFORE.into_iter().for_each(|answer| _ = agent.reads(answer));
    // The first lock cannot be read in the second process, which began without it.
    let both = |b| {
        let lock = LockReading::Unknown(Unknown::NoPermission);
        let refused = TaskReading::of_lock(lock, Extras::default(), reading(None, on(true)).parts);
        vec![(TaskIndex(0), refused), (TaskIndex(1), reading(Some(("B", b)), on(true)))]
    };
    agent.hears(6_000, 0, process("second"), both(33_500));
    agent.hears(14_000, 0, process("second"), both(43_500));
    let events = agent.reads((16_000, "third", [None, Some(("B", 43_500))]));
    assert_eq!(ends(&events), (vec![End::Lost], 1));
}

#[test]
fn another_redis_proves_nothing() {
    let mut agent = Agent::new(2);
    for (at, run, [first, second]) in
        [&BEFORE[..], &[(6_000, "new", [None, Some(("B", 33_500))])]].concat()
    {
        let reported =
            agent.hears(at, 1, process(run), vec![(TaskIndex(1), reading(second, on(true)))]);
        assert_eq!(ends(&reported), (vec![], 0));
        let reported =
            agent.hears(at, 0, process(run), vec![(TaskIndex(0), reading(first, on(true)))]);
        assert_eq!(ends(&reported).1, usize::from(at == 6_000));
    }
}

/// A later flush says nothing about the data at the start.
#[test]
fn a_process_that_was_flushed_proves_nothing() {
    let mut agent = Agent::new(1);
    BEFORE.into_iter().for_each(|answer| _ = agent.reads(answer));
    let locks = [reading(None, on(true)), reading(Some(("B", 33_500)), on(true))];
    let readings = |locks: [TaskReading; 2]| (0..).map(TaskIndex).zip(locks).collect();
    let flushed = Generation { flushes: 1, ..process("new") };
    // If the switches are unchanged, the flush was of another database.
    let mut other = locks.clone();
    other[0].parts.switches = Some(on(false));
    let events = agent.hears(6_000, 0, flushed, readings(other));
    assert_eq!(ends(&events), (vec![End::Lost], 1));
}

/// A missing switch is like a missing lock: it was turned on before that point, or may have been.
#[test]
fn a_switch_that_was_removed_while_the_server_restarted_is_off() {
    let _rule = rule("10 lost switches");
    for (turned_on, is_lost) in [(2_500, false), (4_000, true)] {
        let mut agent = Agent::new(1);
        let read = |agent: &mut Agent, (at, run, locks): Answer, anna: bool| {
            let readings = locks.map(|lock| reading(lock, on(anna)));
            agent.hears(at, 0, process(run), (0..).map(TaskIndex).zip(readings).collect());
        };
        for answer in BEFORE {
            read(&mut agent, answer, answer.0 >= turned_on);
        }
        for at in [6_000, 7_000] {
            read(&mut agent, (at, "new", [None, Some(("B", 33_500))]), false);
        }
        let snapshot = agent.state.snapshot(Mono::at(7_100));
        let view = snapshot.tasks.iter().find(|task| &*task.spec.name == "first").unwrap();
        assert_eq!(view.durations.switches_lost_ms > 0, is_lost, "{turned_on}");
    }
}
