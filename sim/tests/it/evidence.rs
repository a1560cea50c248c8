//! Which replies may be believed, and when a state is read again: the rules of evidence that
//! timelines cannot cover.

use std::sync::Arc;

use lockwatch_judge::input::{Attestation, Generation, Input, Outcome, Role, Sample, Standing};
use lockwatch_judge::reading::{
    Ends, Extras, LockReading, Parts, Switch, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_judge::spec::{
    Codec, StoreIndex, TaskIndex, TaskSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};
use lockwatch_judge::verdict::Wanted;
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::accept::{Caps, RoleCheck, Timing, attestation, footer, witness};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::read::{Round, Scope, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply, ServerError};
use lockwatch_watch::redis::schedule::{Schedule, ScheduledTask};
use lockwatch_watch::redis::topology::Announced;
use lockwatch_watch::redis::topology::sentinel::{Quorum, SentinelView};

use crate::truth::rule;

const CAPS: Caps = Caps {
    pexpiretime: true,
    hpexpiretime: false,
    role: RoleCheck::Role,
    info: false,
    sharded: false,
};

fn bytes(text: &str) -> Reply {
    Reply::Bytes(text.as_bytes().to_vec())
}

fn clock(seconds: i64) -> Reply {
    Reply::Array(vec![Reply::Int(seconds), Reply::Int(0)])
}

fn role(name: &str) -> Reply {
    Reply::Array(vec![bytes(name), Reply::Int(0), Reply::Array(vec![])])
}

/// The end of a batch: clock, role and nonce.
fn end_of(name: &str, nonce: &str) -> Vec<Reply> {
    vec![clock(12), role(name), bytes(nonce)]
}

fn judged(took_ms: u64, end: &[Reply]) -> Result<Attestation, Unknown> {
    let timing = Timing {
        sent: Mono::at(5_000),
        received: Mono::at(5_000 + took_ms),
        sent_wall: AgentWall(0),
        timeout_ms: 3_000,
    };
    attestation(CAPS, timing, b"n1", &[clock(12)], end)
}

fn words(command: &Command) -> String {
    let words = command.args.iter().map(|word| String::from_utf8_lossy(word).into_owned());
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn only_a_master_is_believed_and_its_word_comes_after_the_answers() {
    let _rule = rule("1 evidence");
    assert!(judged(4, &end_of("master", "n1")).is_ok());
    assert_eq!(judged(4, &end_of("slave", "n1")).err(), Some(Unknown::NotMaster));
    assert_eq!(judged(4, &end_of("sentinel", "n1")).err(), Some(Unknown::Sentinel));
    let commands: Vec<_> = footer(CAPS, b"n1").iter().map(words).collect();
    assert_eq!(commands, ["TIME", "ROLE", "ECHO n1"], "role and nonce come last");
    // A witness may be a replica and report that.
    let timing = Timing {
        sent: Mono::at(0),
        received: Mono::at(4),
        sent_wall: AgentWall(0),
        timeout_ms: 3_000,
    };
    let expected = witness(CAPS, timing, b"n1", &[clock(12)], &end_of("slave", "n1"));
    assert_eq!(expected.map(|attestation| attestation.role), Ok(Role::Replica));
}

#[test]
fn what_is_missing_or_refused_is_unknown() {
    let _rule = rule("1 evidence");
    let refused = |code: &str| {
        Reply::Error(ServerError { code: code.as_bytes().to_vec(), detail: Vec::new() })
    };
    for (position, reply) in
        [(0, refused("BUSY")), (1, refused("LOADING")), (1, Reply::Nil), (2, refused("NOAUTH"))]
    {
        let mut end = end_of("master", "n1");
        end[position] = reply.clone();
        assert!(judged(4, &end).is_err(), "{position}: {reply:?}");
    }
    for count in 0..3 {
        assert_eq!(
            judged(4, &end_of("master", "n1")[..count]).err(),
            Some(Unknown::Protocol),
            "{count} replies"
        );
    }
}

/// Refusals of single commands in an accepted batch.
#[test]
fn what_could_not_be_read_is_shown_as_unknown() {
    let _rule = rule("1 evidence");
    let refused = Unknown::NoPermission;
    let reading = |lock, switches| {
        TaskReading::of_lock(
            lock,
            Extras::default(),
            Parts { switches: Some(switches), ..Parts::default() },
        )
    };
    let none = SwitchesReading::Read {
        switches: Vec::new(),
        key_exists: true,
        counted: None,
        whole: true,
        ends: Ends::UNKNOWN,
    };
    for (what, answer, held, wanted) in [
        ("all is read", reading(LockReading::Free, none.clone()), Some(false), Wanted::No),
        (
            "the switches",
            reading(LockReading::Free, SwitchesReading::Unknown(refused)),
            Some(false),
            Wanted::Unknown,
        ),
        ("the lock", reading(LockReading::Unknown(refused), none.clone()), None, Wanted::No),
    ] {
        let mut state = watching();
        // The earlier state is no answer either.
        for (at, reading) in [(1_000, reading(LockReading::Free, none.clone())), (2_000, answer)] {
            state.step(Mono::at(at), Input::Sample(answered(at, reading)));
        }
        let snapshot = state.snapshot(Mono::at(2_000));
        let view = snapshot.tasks.first().expect("the task");
        assert_eq!((view.held, view.wanted), (held, wanted), "{what}");
    }
}

/// Neither an answer nor a failure arrives: the watcher itself must have fallen behind.
#[test]
fn without_any_news_nothing_is_known_after_a_while() {
    let _rule = rule("16 freshness");
    let switches = vec![(b"anna".to_vec(), Switch::On)];
    let switches = Some(SwitchesReading::Read {
        switches,
        key_exists: true,
        counted: None,
        whole: true,
        ends: Ends::UNKNOWN,
    });
    let parts = Parts { switches, ..Parts::default() };
    let reading = TaskReading::of_lock(LockReading::Free, Extras::default(), parts);
    let mut state = watching();
    state.step(Mono::at(1_000), Input::Sample(answered(1_000, reading)));
    let expected = [
        (9_000, Some(false), None, Wanted::Yes),
        (9_001, None, Some(Unknown::Stale), Wanted::Unknown),
    ];
    for (at, held, unknown, wanted) in expected {
        state.step(Mono::at(at), Input::Tick);
        let snapshot = state.snapshot(Mono::at(at));
        let view = snapshot.tasks.first().expect("the task");
        let seen = (view.held, view.unknown, view.wanted);
        assert_eq!(
            seen,
            (held, unknown, wanted),
            "at {at}, twice interval and timeout after the answer"
        );
    }
}

/// The server chooses which users are in the first part of a large hash, and chooses others after a
/// restart. No switch is lost by that.
#[test]
fn of_too_many_switches_none_is_lost_that_is_not_read() {
    let _rule = rule("10 lost switches");
    let mut state = watching();
    let mut shows = |at: u64, run: &str, cursor: &str, users: &[&str]| {
        let items = users.iter().flat_map(|user| [bytes(user), bytes("on")]).collect();
        let free =
            [Reply::Int(-2), Reply::Array(vec![bytes("0"), Reply::Array(vec![])]), Reply::Int(-2)];
        let replies =
            [&free[..], &[Reply::Array(vec![bytes(cursor), Reply::Array(items)])]].concat();
        let read = TaskRead::new(task(), CAPS, false, Scope::ALL);
        let Round::Done(reading) = read.decode(&replies) else { panic!("another round") };
        let mut sample = answered(at, reading);
        if let Outcome::Read { attestation, .. } = &mut sample.outcome {
            attestation.generation =
                Some(Generation { process: run.into(), ..Generation::default() });
        }
        state.step(Mono::at(at), Input::Sample(sample));
        let snapshot = state.snapshot(Mono::at(at));
        let view = snapshot.tasks.first().expect("the task");
        let counts = (view.wanting.users, view.wanting.switches.as_ref().map(|all| all.len()));
        (view.wanted, counts, view.wanting.lost_users.len())
    };
    let unknown = (None, None);
    assert_eq!(
        shows(1_000, "x", "7", &["anna", "ben"]),
        (Wanted::Yes, unknown, 0),
        "there are more"
    );
    assert_eq!(
        shows(2_000, "y", "5", &["ben", "chris"]),
        (Wanted::Yes, unknown, 0),
        "after a restart"
    );
    assert_eq!(shows(3_000, "y", "5", &["ben", "chris"]), (Wanted::Yes, unknown, 0), "seen again");
    // A complete reading is a different case.
    assert_eq!(
        shows(4_000, "z", "0", &[]),
        (Wanted::Yes, (Some(0), Some(0)), 0),
        "after a restart without data"
    );
    assert_eq!(shows(5_000, "z", "0", &[]), (Wanted::Yes, (Some(0), Some(0)), 2), "seen again");
}

/// A state that watches one task with switches.
fn watching() -> State {
    let redis = RedisKind::Standalone.store("main", &["a:6379"]);
    let mut state = State::new();
    let spec = WatchSpec { stores: vec![redis], tasks: vec![task()], epoch: 1 };
    state.step(Mono::at(0), Input::Config(Arc::new(spec)));
    state
}

fn task() -> Arc<TaskSpec> {
    let source = WantedSource::Hash(b"the:users".to_vec());
    Arc::new(TaskSpec {
        wanted: Some(WantedSpec { source, codec: Codec::Raw }),
        ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"the:lock", "redisson"))
    })
}

/// The server's immediate answer to a request sent at `at`.
fn answered(at: u64, reading: TaskReading) -> Sample {
    let attestation = judged(0, &end_of("master", "n1")).expect("believed");
    Sample {
        epoch: 1,
        store: StoreIndex(0),
        node: Some(Arc::from("a:6379")),
        standing: Standing::Decides,
        sent: Mono::at(at),
        took_ms: 0,
        outcome: Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] },
    }
}

#[test]
fn the_majority_of_the_configured_sentinels_names_the_master() {
    let _rule = rule("1 evidence");
    let server = |name: &str| Announced::new(name, 6379).expect("an address");
    let names = |name: &str| Ok(SentinelView { master: server(name), replicas: Vec::new() });
    let mut quorum = Quorum::new(3, 2_000);
    quorum.answered(0, Mono::at(5), names("m"));
    assert_eq!(quorum.master(Mono::at(6)), Err(Unknown::Quorum), "one of three");
    quorum.answered(1, Mono::at(7), names("liar"));
    assert_eq!(quorum.master(Mono::at(8)), Err(Unknown::Quorum), "one each");
    quorum.answered(2, Mono::at(9), names("m"));
    assert_eq!(quorum.master(Mono::at(10)), Ok(server("m")));
    assert_eq!(quorum.master(Mono::at(2_100)), Err(Unknown::Quorum), "they said so too long ago");
}

#[test]
fn an_answer_that_is_read_too_late_is_no_evidence() {
    let _rule = rule("2 instants");
    assert!(judged(3_000, &end_of("master", "n1")).is_ok());
    assert_eq!(judged(3_001, &end_of("master", "n1")).err(), Some(Unknown::Late));
}

#[test]
fn a_tick_that_finds_a_sweep_under_way_is_skipped_and_counted() {
    let _rule = rule("2 instants");
    let mut schedule = Schedule::new(vec![watched()], 1_000, Mono::at(0));
    let under_way = schedule.due(Mono::at(0)).expect("the first sweep");
    assert_eq!(schedule.due(Mono::at(1_000)), None, "one sweep at a time");
    assert_eq!(schedule.take_skipped(), 1);
    schedule.finished(&under_way);
    assert!(schedule.due(Mono::at(2_000)).is_some());
}

#[test]
fn no_tick_is_left_out() {
    let _rule = rule("2 instants");
    let mut schedule = Schedule::new(vec![watched()], 1_000, Mono::at(0));
    for tick in 0..1_000 {
        let batch = schedule
            .due(Mono::at(tick * 1_000))
            .unwrap_or_else(|| panic!("tick {tick} is left out"));
        assert_eq!(batch.tasks, [TaskIndex(0)], "tick {tick}");
        schedule.finished(&batch);
    }
    assert_eq!(schedule.take_skipped(), 0);
}

#[test]
fn the_answer_to_another_question_is_refused() {
    let _rule = rule("3 connection");
    assert_eq!(judged(4, &end_of("master", "n0")).err(), Some(Unknown::Protocol), "another nonce");
    let mut too_many = end_of("master", "n1");
    too_many.push(Reply::Nil);
    assert_eq!(judged(4, &too_many).err(), Some(Unknown::Protocol), "a reply too many");
}

fn watched() -> ScheduledTask {
    ScheduledTask {
        task: TaskIndex(0),
        grace_ms: None,
        proves_holders: false,
        settle_ms: 0,
        hint_weight: 1,
    }
}

/// The commands of one task's first round, each reduced to its name and key.
fn asked(source: WantedSource) -> Vec<String> {
    let spec = TaskSpec {
        wanted: Some(WantedSpec { source, codec: Codec::Raw }),
        ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"the:lock", "redisson"))
    };
    let mut commands = Vec::new();
    TaskRead::new(Arc::new(spec), CAPS, false, Scope::ALL).commands(&mut commands);
    commands
        .iter()
        .map(|command| words(command).split(' ').take(2).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn the_deadline_is_read_before_and_after_the_value() {
    let _rule = rule("4 bracket");
    let asked = asked(WantedSource::Always);
    let [before, value, after] = asked.as_slice() else { panic!("{asked:?}") };
    assert_eq!((before.as_str(), after.as_str()), ("PEXPIRETIME the:lock", "PEXPIRETIME the:lock"));
    assert!(value.ends_with(" the:lock") && value != before, "{asked:?}");
}

#[test]
fn the_lock_comes_before_the_switches_and_in_the_same_batch() {
    let _rule = rule("5 order");
    for source in [
        WantedSource::Hash(b"the:users".to_vec()),
        WantedSource::Set(b"the:users".to_vec()),
        WantedSource::Counter(b"the:users".to_vec()),
        WantedSource::Keys(vec![b"the:users".to_vec()]),
    ] {
        let asked = asked(source.clone());
        let switches = asked
            .iter()
            .position(|words| words.ends_with(" the:users"))
            .expect("the switches are asked for");
        let lock = asked
            .iter()
            .rposition(|words| words.ends_with(" the:lock"))
            .expect("the lock is asked for");
        assert!(lock < switches, "{source:?}: {asked:?}");
    }
}

#[test]
fn a_first_free_is_looked_at_again_late_enough_to_confirm_it() {
    let _rule = rule("6 confirmation");
    let mut schedule = Schedule::new(vec![watched()], 60_000, Mono::at(0));
    let batch = schedule.due(Mono::at(0)).expect("the first sweep");
    let free = TaskReading::of_lock(LockReading::Free, Extras::default(), Parts::default());
    schedule.observe(TaskIndex(0), Mono::at(0), ServerTime::at(0), &free);
    schedule.finished(&batch);
    assert_eq!(schedule.due(Mono::at(249)), None, "too early to confirm anything");
    let again = schedule.next_wake().expect("a second look");
    assert!((250..=500).contains(&again.ms()), "{again:?}");
    assert!(schedule.due(again).is_some());
}

/// For every configuration and library: no write, and no command without a bound.
#[test]
fn only_bounded_reads_are_sent() {
    let _rule = rule("15 read only");
    const BOUNDED_READS: [&str; 20] = [
        "ECHO",
        "EXISTS",
        "GET",
        "GETRANGE",
        "HLEN",
        "HMGET",
        "HSCAN",
        "INFO",
        "LLEN",
        "PEXPIRETIME",
        "PTTL",
        "PUBSUB",
        "ROLE",
        "SCARD",
        "SSCAN",
        "STRLEN",
        "TIME",
        "TYPE",
        "ZCARD",
        "ZRANGE",
    ];
    let mut sent = footer(Caps { info: true, ..CAPS }, b"n1");
    for library in libraries::names() {
        for source in [
            WantedSource::Hash(b"the:users".to_vec()),
            WantedSource::Set(b"the:users".to_vec()),
            WantedSource::Counter(b"the:users".to_vec()),
            WantedSource::Keys(vec![b"the:users".to_vec()]),
        ] {
            let spec = TaskSpec {
                wanted: Some(WantedSpec { source, codec: Codec::Raw }),
                hosts: Some(b"the:hosts".to_vec()),
                paused_until: Some(b"the:pause".to_vec()),
                ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"the:lock", library))
            };
            TaskRead::new(Arc::new(spec), CAPS, true, Scope::ALL).commands(&mut sent);
        }
    }
    let others: Vec<_> = sent
        .iter()
        .map(words)
        .filter(|words| !BOUNDED_READS.contains(&words.split(' ').next().unwrap_or_default()))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
    let scans: Vec<_> = sent.iter().map(words).filter(|words| words.contains("SCAN ")).collect();
    assert!(!scans.is_empty() && scans.iter().all(|words| words.contains(" COUNT ")), "{scans:#?}");
    let ranges: Vec<_> = sent.iter().map(words).filter(|words| words.contains("RANGE ")).collect();
    assert!(!ranges.iter().any(|words| words.contains(" 0 -1")), "without an end: {ranges:#?}");
}
