//! Sequences of answers from several servers that a correct watcher would not pass on, or that
//! timelines cannot express.

use std::sync::Arc;

use lockwatch_judge::event::{End, Event, EventKind};
use lockwatch_judge::input::{
    Attestation, Fork, Generation, Input, NodeNews, NodeNewsKind, Outcome, Role, Sample, Standing,
    Topology,
};
use lockwatch_judge::reading::{
    ClaimsReading, Deadline, Ends, Extras, Held, Holder, LockReading, Mode, Parts, PauseReading,
    Switch, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_judge::spec::{
    ClaimsSpec, Codec, StoreIndex, StoreSpec, TaskIndex, TaskSpec, WantedSource, WantedSpec,
    WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_judge::verdict::Verdict;
use lockwatch_watch::redis::{RedisKind, libraries};

use crate::truth::rule;

fn state(kind: RedisKind) -> State {
    let redis = kind.store("main", &["a:6379"]);
    let task = TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"));
    let mut state = State::new();
    let spec = WatchSpec { stores: vec![redis], tasks: vec![Arc::new(task)], epoch: 1 };
    state.step(Mono::at(0), Input::Config(Arc::new(spec)));
    state
}

/// The deciding `node` answers a request sent at `sent`: `holder` holds the lock for another 30
/// seconds.
fn shows(state: &mut State, at: u64, node: &str, sent: u64, holder: &str) -> Vec<Event> {
    answers(state, at, (node, node), Standing::Decides, sent, holder)
}

/// The same from the process `run_id` at `node`, which reports as master, whether it decides or
/// not.
fn answers(
    state: &mut State,
    at: u64,
    (node, run_id): (&str, &str),
    standing: Standing,
    sent: u64,
    holder: &str,
) -> Vec<Event> {
    reports(state, at, (node, run_id), standing, sent, holder, (1, Parts::default()))
}

/// The same with the keys beside the lock, under the configuration with this number.
fn reports(
    state: &mut State,
    at: u64,
    (node, run_id): (&str, &str),
    standing: Standing,
    sent: u64,
    holder: &str,
    (epoch, parts): (u32, Parts),
) -> Vec<Event> {
    let clock = ServerTime::at(1_790_000_000_000 + sent as i64);
    let bytes = |text: &str| text.as_bytes().to_vec();
    let holders =
        vec![Holder { client: bytes(holder), thread: None, entries: Some(1), secret: false }];
    let deadline = Deadline::At(clock.plus_ms(30_000));
    let lock = LockReading::from(Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline });
    let reading = TaskReading::of_lock(lock, Extras::default(), parts);
    let sample = Sample {
        epoch,
        store: StoreIndex(0),
        node: Some(Arc::from(node)),
        standing,
        sent: Mono::at(sent),
        took_ms: at - sent,
        outcome: Outcome::Read {
            attestation: attestation(run_id, sent),
            readings: vec![(TaskIndex(0), reading)],
        },
    };
    state.step(Mono::at(at), Input::Sample(sample))
}

/// The attestation of the process `run_id`, which reports as master, for a request sent at `sent`.
fn attestation(run_id: &str, sent: u64) -> Attestation {
    let clock = ServerTime::at(1_790_000_000_000 + sent as i64);
    let bytes = |text: &str| text.as_bytes().to_vec();
    Attestation {
        first: clock,
        last: clock,
        role: Role::Master,
        role_verified: true,
        offset: Some(1_000 + sent),
        refuses_writes: None,
        replicas: Vec::new(),
        generation: Some(Generation {
            process: bytes(run_id),
            history: bytes(run_id),
            // It was a replica, so that it has to do with the others.
            forked_from: (run_id == "b")
                .then(|| Fork { history: bytes("of an earlier master"), offset: 1 }),
            ..Generation::default()
        }),
        clock_offset_ms: 0,
    }
}

/// The deciding `node` answered immediately to a request sent at `at`.
fn says(state: &mut State, at: u64, node: &str, outcome: Outcome) -> Vec<Event> {
    let (node, at) = (Some(Arc::from(node)), Mono::at(at));
    let (redis, standing) = (StoreIndex(0), Standing::Decides);
    state.step(
        at,
        Input::Sample(Sample {
            epoch: 1,
            store: redis,
            node,
            standing,
            sent: at,
            took_ms: 0,
            outcome,
        }),
    )
}

fn free(at: u64, node: &str) -> Outcome {
    let free = TaskReading::of_lock(LockReading::Free, Extras::default(), Parts::default());
    Outcome::Read { attestation: attestation(node, at), readings: vec![(TaskIndex(0), free)] }
}

/// The deciding `node` does not answer a request sent at `sent`.
fn fails(state: &mut State, at: u64, node: &str, sent: u64) -> Vec<Event> {
    let sample = Sample {
        epoch: 1,
        store: StoreIndex(0),
        node: Some(Arc::from(node)),
        standing: Standing::Decides,
        sent: Mono::at(sent),
        took_ms: at - sent,
        outcome: Outcome::Failed { tasks: vec![TaskIndex(0)], why: Unknown::Timeout },
    };
    state.step(Mono::at(at), Input::Sample(sample))
}

fn count(events: &[Event], what: fn(&EventKind) -> bool) -> usize {
    events.iter().filter(|event| what(&event.kind)).count()
}

/// `a` decides beside `b`, and neither was read yet.
fn two_servers(state: &mut State) {
    let nodes: Vec<Arc<str>> = ["a:6379", "b:6379"].map(Arc::from).to_vec();
    let masters = Ok(nodes[..1].to_vec());
    let topology = Topology {
        epoch: 1,
        store: StoreIndex(0),
        masters,
        nodes,
        announcers: Vec::new(),
        uncovered: 0,
    };
    state.step(Mono::at(900), Input::Topology(topology));
}

fn rivals(events: &[Event]) -> usize {
    count(events, |kind| matches!(kind, EventKind::RivalMaster | EventKind::RivalMasterGone))
}

#[test]
fn one_server_by_two_names_is_no_rival_of_itself_whichever_name_answers_first() {
    let mut state = state(RedisKind::Replicated);
    two_servers(&mut state);
    let first = answers(&mut state, 1_000, ("b:6379", "run"), Standing::Witness, 1_000, "A");
    let second = answers(&mut state, 1_001, ("a:6379", "run"), Standing::Decides, 1_000, "A");
    assert_eq!((rivals(&first), rivals(&second)), (0, 0));
}

#[test]
fn a_rival_is_reported_once_the_one_that_decides_was_tried() {
    for decides_answers in [true, false] {
        let mut state = state(RedisKind::Replicated);
        two_servers(&mut state);
        let first = answers(&mut state, 1_000, ("b:6379", "b"), Standing::Witness, 1_000, "A");
        let second = match decides_answers {
            true => shows(&mut state, 1_001, "a:6379", 1_000, "A"),
            false => fails(&mut state, 1_001, "a:6379", 1_000),
        };
        assert_eq!((rivals(&first), rivals(&second)), (0, 1), "{decides_answers}");
    }
}

#[test]
fn a_late_answer_of_the_server_that_decided_before_is_no_news() {
    let mut state = state(RedisKind::Sentinel);
    let changed = |events: &[Event]| {
        let changes = count(events, |kind| matches!(kind, EventKind::GenerationChanged { .. }));
        (changes, count(events, |kind| matches!(kind, EventKind::Acquired { .. })))
    };
    assert_eq!(changed(&shows(&mut state, 1_000, "a:6379", 1_000, "A")), (0, 0));
    assert_eq!(changed(&shows(&mut state, 2_500, "b:6379", 2_500, "B")), (1, 1));
    assert_eq!(changed(&shows(&mut state, 2_600, "a:6379", 2_000, "A")), (0, 0));
    assert_eq!(changed(&shows(&mut state, 3_500, "b:6379", 3_500, "B")), (0, 0));
}

#[test]
fn a_late_failure_of_the_server_that_decided_before_hides_nothing() {
    let mut state = state(RedisKind::Sentinel);
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    shows(&mut state, 4_500, "b:6379", 4_500, "A");
    let held = |state: &mut State, node: &str, sent| {
        fails(state, 5_000, node, sent);
        let snapshot = state.snapshot(Mono::at(5_000));
        (snapshot.tasks.first().unwrap().held, snapshot.stores[0].readable)
    };
    assert_eq!(held(&mut state, "a:6379", 2_000), (Some(true), Some(true)));
    assert_eq!(held(&mut state, "b:6379", 4_600), (None, Some(false)));
}

/// The deadline passes while the batch is being answered. Only the second clock shows whether that
/// was before the lock was read.
#[test]
fn whether_a_lease_had_run_out_is_judged_when_the_answer_was_made() {
    let _rule = rule("2 instants");
    for (last_ms, reason) in [(40_000, End::Expired), (39_999, End::EndedEarly)] {
        let mut state = state(RedisKind::Standalone);
        shows(&mut state, 10_000, "a", 10_000, "A");
        let origin = ServerTime::at(1_790_000_000_000);
        let free = TaskReading::of_lock(LockReading::Free, Extras::default(), Parts::default());
        let attestation = Attestation::master(origin.plus_ms(39_980), origin.plus_ms(last_ms));
        let sample = Sample {
            epoch: 1,
            store: StoreIndex(0),
            node: Some(Arc::from("a")),
            standing: Standing::Decides,
            sent: Mono::at(39_980),
            took_ms: 30,
            outcome: Outcome::Read { attestation, readings: vec![(TaskIndex(0), free)] },
        };
        let events = state.step(Mono::at(40_010), Input::Sample(sample));
        let ends = events.iter().filter_map(|event| match &event.kind {
            EventKind::HoldEnded { reason, .. } => Some(*reason),
            _ => None,
        });
        assert_eq!(
            ends.collect::<Vec<_>>(),
            [reason],
            "the answer was made {last_ms} ms after the origin"
        );
    }
}

/// A reload with other hashes beside the same lock.
fn reloaded(state: &mut State, epoch: u32, at: u64, claims: Option<&str>, hosts: Option<&str>) {
    let redis = RedisKind::Standalone.store("main", &["a:6379"]);
    let key = |name: &str| name.as_bytes().to_vec();
    let task = TaskSpec {
        claims: claims.map(|name| ClaimsSpec { key: key(name), fresh_for_ms: 10_000 }.into()),
        hosts: hosts.map(key),
        ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"))
    };
    let spec = WatchSpec { stores: vec![redis], tasks: vec![Arc::new(task)], epoch };
    state.step(Mono::at(at), Input::Config(Arc::new(spec)));
}

fn parts(state: &mut State, epoch: u32, at: u64, parts: Parts) {
    reports(state, at, ("a:6379", "a"), Standing::Decides, at, "A", (epoch, parts));
}

/// The content of another hash says nothing about when a claim in this one was written.
#[test]
fn claims_of_another_hash_are_old_ones() {
    let _rule = rule("12 two holders");
    let mut state = State::new();
    let claims = |who: &str| {
        let claims = vec![(who.as_bytes().to_vec(), b"1".to_vec())];
        Parts { claims: Some(ClaimsReading::Read(claims)), ..Parts::default() }
    };
    let live = |state: &mut State, at| {
        state.snapshot(Mono::at(at)).tasks.first().unwrap().live_claims.len()
    };
    reloaded(&mut state, 1, 0, Some("claims"), None);
    parts(&mut state, 1, 1_000, claims("A"));
    parts(&mut state, 1, 2_000, claims("A"));
    assert_eq!(live(&mut state, 2_000), 0, "it may be as old as the hills");
    reloaded(&mut state, 2, 2_500, Some("claims:2"), None);
    parts(&mut state, 2, 3_000, claims("B"));
    assert_eq!(live(&mut state, 3_000), 0, "so may this one");
    parts(&mut state, 2, 4_000, claims("C"));
    assert_eq!(live(&mut state, 4_000), 1, "what was not there a second ago was just written");
}

/// A warning concerns a key; for another key it is reported again.
#[test]
fn other_claims_that_cannot_be_read_are_reported_again() {
    let mut state = State::new();
    let reported = [(1, "claims"), (2, "claims:2"), (3, "claims:2")].map(|(epoch, key)| {
        let at = u64::from(epoch) * 1_000;
        reloaded(&mut state, epoch, at - 500, Some(key), None);
        let parts =
            Parts { claims: Some(ClaimsReading::Unknown(Unknown::WrongType)), ..Parts::default() };
        let events =
            reports(&mut state, at, ("a:6379", "a"), Standing::Decides, at, "A", (epoch, parts));
        count(&events, |kind| matches!(kind, EventKind::ClaimsUnreadable { .. }))
    });
    assert_eq!(reported, [1, 1, 0]);
}

/// Neither an answer nor a failure arrives. Claims and the pause are then as unknown as the lock.
#[test]
fn without_any_news_claims_and_pause_are_unknown() {
    let _rule = rule("16 freshness");
    let mut state = State::new();
    let redises = vec![RedisKind::Standalone.store("main", &["a:6379"])];
    let task = TaskSpec {
        claims: Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into()),
        paused_until: Some(b"pause".to_vec()),
        ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"))
    };
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    for at in [1_000, 2_000] {
        let claims = vec![(b"A".to_vec(), at.to_string().into_bytes())];
        let (claims, pause) = (Some(ClaimsReading::Read(claims)), Some(PauseReading::None));
        parts(&mut state, 1, at, Parts { claims, pause, ..Parts::default() });
    }
    let mut seen = |at| {
        state.step(Mono::at(at), Input::Tick);
        let snapshot = state.snapshot(Mono::at(at));
        let view = snapshot.tasks.first().unwrap();
        (view.live_claims.len(), view.claims_unknown, view.paused)
    };
    assert_eq!(seen(10_000), (1, None, Some(false)));
    assert_eq!(
        seen(10_001),
        (0, Some(Unknown::Stale), None),
        "twice interval and timeout after the answer"
    );
}

/// In a cluster the pause may be on another server than the lock.
#[test]
fn a_pause_on_a_server_that_is_silent_is_not_known() {
    let task = TaskSpec {
        paused_until: Some(b"pause".to_vec()),
        ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"))
    };
    let redises = vec![RedisKind::Cluster.store("main", &["a:6379"])];
    let mut state = State::new();
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    let mut paused = |at: u64, pause: Option<PauseReading>| {
        shows(&mut state, at, "a:6379", at, "A");
        let attestation = pause.map(|_| attestation("b", at));
        let pause = Some(pause.unwrap_or(PauseReading::Unknown(Unknown::Timeout)));
        let readings = vec![(TaskIndex(0), Parts { pause, ..Parts::default() })];
        says(&mut state, at, "b:6379", Outcome::Parts { attestation, readings });
        state.snapshot(Mono::at(at)).tasks.first().unwrap().paused
    };
    assert_eq!(paused(1_000, Some(PauseReading::None)), Some(false));
    assert_eq!(paused(2_000, None), None);
}

#[test]
fn hosts_that_are_configured_no_more_are_forgotten() {
    let _rule = rule("13 series");
    let mut state = State::new();
    let named = |host: &str| Parts {
        hosts: Some(Ok(vec![(b"A".to_vec(), host.as_bytes().to_vec())])),
        ..Parts::default()
    };
    reloaded(&mut state, 1, 0, None, Some("hosts"));
    parts(&mut state, 1, 1_000, named("wms-1"));
    assert_eq!(host(&mut state, 1_000), Some(b"wms-1".to_vec()));
    reloaded(&mut state, 2, 1_500, None, None);
    parts(&mut state, 2, 2_000, Parts::default());
    assert_eq!(host(&mut state, 2_000), None);
}

/// The host of the holder of the only task.
fn host(state: &mut State, at: u64) -> Option<Vec<u8>> {
    let snapshot = state.snapshot(Mono::at(at));
    let hold = snapshot.tasks.first().unwrap().lock().unwrap().hold.as_ref().unwrap();
    hold.holders.iter().next().unwrap().1.map(<[u8]>::to_vec)
}

/// The warning is reported once for as long as it lasts. The known holder stays.
#[test]
fn hosts_that_cannot_be_read_are_a_warning() {
    let _rule = rule("13 series");
    let mut state = State::new();
    let reported = |state: &mut State, at, hosts| {
        let read = Parts { hosts, ..Parts::default() };
        let events = reports(state, at, ("a:6379", "a"), Standing::Decides, at, "A", (1, read));
        let reported = events.iter().filter_map(|event| match event.kind {
            EventKind::HostsUnreadable { why } => Some(why),
            _ => None,
        });
        let unknown = state.snapshot(Mono::at(at)).tasks.first().unwrap().hosts_unknown;
        (reported.collect::<Vec<_>>(), unknown, host(state, at).is_some())
    };
    reloaded(&mut state, 1, 0, None, Some("hosts"));
    let known = || Some(Ok(vec![(b"A".to_vec(), b"wms-1".to_vec())]));
    let refused = Unknown::NoPermission;
    assert_eq!(
        reported(&mut state, 1_000, Some(Err(refused))),
        (vec![refused], Some(refused), false)
    );
    assert_eq!(reported(&mut state, 2_000, Some(Err(refused))), (vec![], Some(refused), false));
    assert_eq!(reported(&mut state, 3_000, None), (vec![], Some(refused), false), "not asked for");
    assert_eq!(reported(&mut state, 4_000, known()), (vec![], None, true));
    assert_eq!(
        reported(&mut state, 5_000, Some(Err(Unknown::WrongType))),
        (vec![Unknown::WrongType], Some(Unknown::WrongType), true)
    );
}

/// In a cluster the switches may be read while the lock's server does not answer. They count at
/// once.
#[test]
fn no_gap_counts_while_the_switches_on_another_server_are_off() {
    let _rule = rule("7 gaps");
    let wanted = WantedSpec { source: WantedSource::Hash(b"users".to_vec()), codec: Codec::Raw };
    let task = TaskSpec {
        wanted: Some(wanted),
        ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"))
    };
    let redises = vec![RedisKind::Cluster.store("main", &["a:6379"])];
    let mut state = State::new();
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    let switched = |state: &mut State, at, switch| {
        let switches = vec![(b"anna".to_vec(), switch)];
        let switches = Some(SwitchesReading::Read {
            switches,
            key_exists: true,
            counted: None,
            whole: true,
            ends: Ends::UNKNOWN,
        });
        let readings = vec![(TaskIndex(0), Parts { switches, ..Parts::default() })];
        says(
            state,
            at,
            "b:6379",
            Outcome::Parts { attestation: Some(attestation("b", at)), readings },
        );
    };
    for at in [1_000, 2_000] {
        says(&mut state, at, "a:6379", free(at, "a"));
        switched(&mut state, at + 1, Switch::On);
    }
    fails(&mut state, 6_000, "a:6379", 3_000);
    switched(&mut state, 7_000, Switch::Off);
    switched(&mut state, 20_000, Switch::On);
    says(&mut state, 24_000, "a:6379", free(24_000, "a"));
    assert_eq!(state.snapshot(Mono::at(24_000)).tasks.first().unwrap().durations.down_ms, 4_000);
}

/// They are requested only in the regular rhythm; an extra read says nothing about them.
#[test]
fn a_read_that_does_not_ask_for_waiters_keeps_them() {
    let mut state = state(RedisKind::Standalone);
    let waiters = |state: &mut State, at: u64, waiters: Option<u64>| {
        let extras = Extras { waiters, ..Extras::default() };
        let reading = TaskReading::of_lock(LockReading::Free, extras, Parts::default());
        let outcome = Outcome::Read {
            attestation: attestation("a", at),
            readings: vec![(TaskIndex(0), reading)],
        };
        says(state, at, "a:6379", outcome);
        state.snapshot(Mono::at(at)).tasks.first().unwrap().lock().unwrap().waiters
    };
    assert_eq!(waiters(&mut state, 1_000, Some(2)), Some(2));
    assert_eq!(waiters(&mut state, 1_260, None), Some(2));
    assert_eq!(waiters(&mut state, 2_000, Some(0)), Some(0));
}

/// The readings of a lock say nothing about a lock of the same name in another database.
#[test]
fn the_same_key_in_another_database_is_another_lock() {
    let mut state = state(RedisKind::Standalone);
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    let redis = StoreSpec { db: 1, ..RedisKind::Standalone.store("main", &["a:6379"]) };
    let task = TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"));
    let spec = WatchSpec { stores: vec![redis], tasks: vec![Arc::new(task)], epoch: 1 };
    state.step(Mono::at(1_500), Input::Config(Arc::new(spec)));
    let events = shows(&mut state, 2_000, "a:6379", 2_000, "B");
    assert_eq!(
        count(&events, |kind| matches!(
            kind,
            EventKind::HoldEnded { .. } | EventKind::Acquired { .. }
        )),
        0
    );
}

#[test]
fn a_server_that_is_gone_is_no_witness_any_more() {
    let _rule = rule("13 series");
    let mut state = state(RedisKind::Replicated);
    two_servers(&mut state);
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    answers(&mut state, 1_001, ("b:6379", "b"), Standing::Witness, 1_000, "A");
    let witnesses = |state: &mut State| {
        state.snapshot(Mono::at(2_000)).tasks.first().unwrap().lock().unwrap().rare.witnesses.len()
    };
    assert_eq!(witnesses(&mut state), 1);
    let nodes: Vec<Arc<str>> = vec![Arc::from("a:6379")];
    let (redis, sentinels) = (StoreIndex(0), Vec::new());
    let topology = Topology {
        epoch: 1,
        store: redis,
        masters: Ok(nodes.clone()),
        nodes,
        announcers: sentinels,
        uncovered: 0,
    };
    state.step(Mono::at(2_000), Input::Topology(topology));
    assert_eq!(witnesses(&mut state), 0);
}

/// The servers of one redis say nothing about those of another.
#[test]
fn the_topology_of_another_redis_takes_no_witness_away() {
    let _rule = rule("13 series");
    let mut state = State::new();
    let redises =
        ["main", "other"].map(|name| RedisKind::Replicated.store(name, &["a:6379"])).to_vec();
    let task = TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"));
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    two_servers(&mut state);
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    answers(&mut state, 1_001, ("b:6379", "b"), Standing::Witness, 1_000, "A");
    let nodes: Vec<Arc<str>> = vec![Arc::from("c:6379")];
    let (redis, sentinels) = (StoreIndex(1), Vec::new());
    let topology = Topology {
        epoch: 1,
        store: redis,
        masters: Ok(nodes.clone()),
        nodes,
        announcers: sentinels,
        uncovered: 0,
    };
    state.step(Mono::at(1_500), Input::Topology(topology));
    assert_eq!(
        state.snapshot(Mono::at(2_000)).tasks.first().unwrap().lock().unwrap().rare.witnesses.len(),
        1
    );
}

/// The server that answers after a failure may know less than the one before, so a difference is no
/// later write.
#[test]
fn a_claim_that_differs_after_a_silence_is_no_sign_of_life() {
    let claims = Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into());
    let task = TaskSpec {
        claims,
        ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"))
    };
    let redises = vec![RedisKind::Cluster.store("main", &["a:6379"])];
    let mut state = State::new();
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    says(&mut state, 32_000, "a:6379", free(32_000, "a"));
    let reported = [(32_500, Some("1")), (33_500, None), (34_500, Some("2")), (35_500, Some("3"))]
        .map(|(at, claim)| {
            let read =
                |value: &str| ClaimsReading::Read(vec![(b"A".to_vec(), value.as_bytes().to_vec())]);
            let claims = Some(claim.map_or(ClaimsReading::Unknown(Unknown::Timeout), read));
            let readings = vec![(TaskIndex(0), Parts { claims, ..Parts::default() })];
            let outcome =
                Outcome::Parts { attestation: claim.map(|_| attestation("b", at)), readings };
            count(&says(&mut state, at, "b:6379", outcome), |kind| {
                matches!(kind, EventKind::LockLost { .. })
            })
        });
    assert_eq!(reported, [0, 0, 0, 1]);
}

/// Another server may answer at the same address, with another clock and fewer data.
#[test]
fn a_claim_that_differs_after_a_step_of_its_servers_clock_is_no_sign_of_life() {
    let claims = Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 10_000 }.into());
    let paused_until = Some(b"pause".to_vec());
    let lock = libraries::lock(b"lock", "redisson");
    let task = TaskSpec { claims, paused_until, ..TaskSpec::new("outbound", StoreIndex(0), lock) };
    let redises = vec![RedisKind::Cluster.store("main", &["a:6379"])];
    let mut state = State::new();
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    says(&mut state, 32_000, "a:6379", free(32_000, "a"));
    let reported =
        [(32_500, "9", 0), (33_500, "8", 60_000), (34_500, "7", 60_000), (35_500, "8", 60_000)];
    let reported = reported.map(|(at, claim, ahead_ms)| {
        let claims = Some(ClaimsReading::Read(vec![(b"A".to_vec(), claim.as_bytes().to_vec())]));
        let readings = vec![(
            TaskIndex(0),
            Parts { claims, pause: Some(PauseReading::None), ..Parts::default() },
        )];
        let attestation = attestation("b", at);
        let (first, last) =
            (attestation.first.plus_ms(ahead_ms), attestation.last.plus_ms(ahead_ms));
        let outcome = Outcome::Parts {
            attestation: Some(Attestation { first, last, ..attestation }),
            readings,
        };
        let lost = count(&says(&mut state, at, "b:6379", outcome), |kind| {
            matches!(kind, EventKind::LockLost { .. })
        });
        let view = state.snapshot(Mono::at(at)).tasks.first().unwrap().clone();
        (lost, view.claims_unknown, view.paused)
    });
    let (read, stepped) = ((0, None, Some(false)), (0, Some(Unknown::ClockStep), None));
    assert_eq!(reported, [read, stepped, read, (1, None, Some(false))]);
}

/// Another layout is read in another way, so the earlier holder is no holder of this lock.
#[test]
fn the_same_key_under_another_library_is_another_lock() {
    let mut state = state(RedisKind::Standalone);
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    let redises = vec![RedisKind::Standalone.store("main", &["a:6379"])];
    let task = TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "string"));
    state.step(
        Mono::at(1_500),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    let events = shows(&mut state, 2_000, "a:6379", 2_000, "B");
    assert_eq!(
        count(&events, |kind| matches!(
            kind,
            EventKind::HoldEnded { .. } | EventKind::Acquired { .. }
        )),
        0
    );
}

/// One more Sentinel, or another address: the series stay the same.
#[test]
fn what_was_counted_of_a_redis_survives_other_addresses() {
    let _rule = rule("13 series");
    let mut state = state(RedisKind::Standalone);
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    fails(&mut state, 5_000, "a:6379", 2_000);
    let counted = |state: &mut State, at| {
        let totals = state.snapshot(Mono::at(at)).stores.first().unwrap().totals;
        (totals.errors.iter().sum::<u64>(), totals.sample_duration.count())
    };
    assert_eq!(counted(&mut state, 5_000), (1, 1));
    let redis = RedisKind::Standalone.store("main", &["b:6379"]);
    let task = TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"));
    let spec = WatchSpec { stores: vec![redis], tasks: vec![Arc::new(task)], epoch: 1 };
    state.step(Mono::at(5_500), Input::Config(Arc::new(spec)));
    assert_eq!(counted(&mut state, 5_500), (1, 1));
}

/// Clock and lock are read at the beginning of a batch, role and clock again at its end, possibly
/// long after.
#[test]
fn what_a_slow_answer_shows_is_dated_by_the_end_that_is_sure() {
    let _rule = rule("2 instants");
    let mut state = State::new();
    let redises = vec![RedisKind::Standalone.store("main", &["a:6379"])];
    let task = TaskSpec {
        paused_until: Some(b"pause".to_vec()),
        ..TaskSpec::new("outbound", StoreIndex(0), libraries::lock(b"lock", "redisson"))
    };
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    says(&mut state, 9_000, "a:6379", free(9_000, "a"));
    let origin = ServerTime::at(1_790_000_000_000);
    let holders =
        vec![Holder { client: b"A".to_vec(), thread: None, entries: Some(1), secret: false }];
    let deadline = Deadline::At(origin.plus_ms(40_000));
    let lock = LockReading::from(Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline });
    let parts =
        Parts { pause: Some(PauseReading::Until(origin.plus_ms(20_000))), ..Parts::default() };
    let reading = TaskReading::of_lock(lock, Extras::default(), parts);
    let attestation = Attestation::master(origin.plus_ms(10_000), origin.plus_ms(12_000));
    let sample = Sample {
        epoch: 1,
        store: StoreIndex(0),
        node: Some(Arc::from("a:6379")),
        standing: Standing::Decides,
        sent: Mono::at(10_000),
        took_ms: 2_010,
        outcome: Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] },
    };
    state.step(Mono::at(12_010), Input::Sample(sample));
    let snapshot = state.snapshot(Mono::at(12_010));
    let hold = snapshot.tasks.first().unwrap().lock().unwrap().hold.as_ref().unwrap();
    assert_eq!(hold.ttl_ms, Some(30_000), "what was left when it was asked for");
    assert_eq!(hold.acquired, Some(origin.plus_ms(12_000)), "no later than that");
    let node = snapshot.stores.first().unwrap().nodes.first().unwrap();
    assert_eq!(node.last_success, Some(origin.plus_ms(12_000)));
    let paused = [17_999, 18_000].map(|at| {
        state.step(Mono::at(at), Input::Tick);
        state.snapshot(Mono::at(at)).tasks.first().unwrap().paused
    });
    assert_eq!(paused, [Some(true), Some(false)], "no page waits for longer than it may");
}

/// Task and server numbers have other meanings under another configuration.
#[test]
fn what_was_asked_under_an_earlier_configuration_is_no_news() {
    let _rule = rule("1 evidence");
    let mut state = state(RedisKind::Standalone);
    reloaded(&mut state, 2, 500, None, None);
    let reported = reports(
        &mut state,
        1_000,
        ("a:6379", "a"),
        Standing::Decides,
        1_000,
        "A",
        (1, Parts::default()),
    );
    let (redis, nodes): (_, Vec<Arc<str>>) = (StoreIndex(0), vec![Arc::from("b:6379")]);
    let masters = Ok(nodes.clone());
    let topology = Topology {
        epoch: 1,
        store: redis,
        masters,
        nodes: nodes.clone(),
        announcers: Vec::new(),
        uncovered: 0,
    };
    let moved = state.step(Mono::at(1_100), Input::Topology(topology));
    let kind = NodeNewsKind::Failed { why: Unknown::Connect };
    let failed = state.step(
        Mono::at(1_200),
        Input::Node(NodeNews { epoch: 1, store: redis, node: nodes[0].clone(), kind }),
    );
    assert_eq!((reported.len(), moved.len(), failed.len()), (0, 0, 0));
    let snapshot = state.snapshot(Mono::at(1_300));
    assert_eq!(snapshot.tasks.first().unwrap().held, None);
    assert!(!snapshot.stores.first().unwrap().nodes.iter().any(|node| *node.address == *nodes[0]));
}

#[test]
fn a_task_keeps_what_is_known_of_it_wherever_it_stands() {
    let mut state = State::new();
    let mut configure = |epoch, names: [&str; 2]| {
        let redises = vec![RedisKind::Standalone.store("main", &["a:6379"])];
        let lock = |name: &str| libraries::lock(name.as_bytes(), "redisson");
        let tasks =
            names.map(|name| Arc::new(TaskSpec::new(name, StoreIndex(0), lock(name)))).to_vec();
        state.step(
            Mono::at(1_000),
            Input::Config(Arc::new(WatchSpec { stores: redises, tasks, epoch })),
        );
        shows(&mut state, 1_000, "a:6379", 1_000, "A");
        let snapshot = state.snapshot(Mono::at(1_000));
        snapshot
            .tasks
            .iter()
            .map(|view| (view.spec.name.to_string(), view.held))
            .collect::<Vec<_>>()
    };
    let shown =
        |inbound, outbound| [("inbound".to_owned(), inbound), ("outbound".to_owned(), outbound)];
    assert_eq!(configure(1, ["outbound", "inbound"]), shown(None, Some(true)));
    // An input from here on carries the old configuration and is ignored.
    assert_eq!(configure(2, ["inbound", "outbound"]), shown(None, Some(true)));
}

#[test]
fn a_redis_says_nothing_of_the_tasks_of_another() {
    let _rule = rule("1 evidence");
    let mut state = State::new();
    let redises =
        ["other", "main"].map(|name| RedisKind::Standalone.store(name, &["a:6379"])).to_vec();
    let task = TaskSpec::new("outbound", StoreIndex(1), libraries::lock(b"lock", "redisson"));
    state.step(
        Mono::at(0),
        Input::Config(Arc::new(WatchSpec {
            stores: redises,
            tasks: vec![Arc::new(task)],
            epoch: 1,
        })),
    );
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    assert_eq!(state.snapshot(Mono::at(1_000)).tasks.first().unwrap().held, None);
}

/// No answer and no failure arrives any more: the watcher has stopped, and this must raise an
/// alert.
#[test]
fn without_any_news_blindness_grows_and_is_reported() {
    let _rule = rule("16 freshness");
    let mut state = state(RedisKind::Standalone);
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    let blind = [10_000, 30_000, 62_000].map(|at| {
        state.step(Mono::at(at), Input::Tick);
        let snapshot = state.snapshot(Mono::at(at));
        let view = snapshot.tasks.first().unwrap();
        (view.durations.blind_ms, view.verdict == Verdict::Unknown)
    });
    assert_eq!(blind, [(9_000, false), (29_000, false), (61_000, true)]);
}

/// While nothing was read, a client may have held the lock and worked.
#[test]
fn work_that_went_on_while_there_was_no_news_is_no_sign_of_life() {
    let mut state = State::new();
    reloaded(&mut state, 1, 0, Some("claims"), None);
    shows(&mut state, 1_000, "a:6379", 1_000, "A");
    let mut lost = |at: u64, claim: &str| {
        let claims = ClaimsReading::Read(vec![(b"A".to_vec(), claim.as_bytes().to_vec())]);
        let parts = Parts { claims: Some(claims), ..Parts::default() };
        let reading = TaskReading::of_lock(LockReading::Free, Extras::default(), parts);
        state.step(Mono::at(at - 1), Input::Tick);
        let outcome = Outcome::Read {
            attestation: attestation("a", at),
            readings: vec![(TaskIndex(0), reading)],
        };
        count(&says(&mut state, at, "a:6379", outcome), |kind| {
            matches!(kind, EventKind::LockLost { .. })
        })
    };
    let reported = [(32_000, "1"), (52_000, "2"), (53_000, "3")].map(|(at, claim)| lost(at, claim));
    assert_eq!(reported, [0, 0, 1]);
}

#[test]
fn a_witness_that_is_answered_out_of_turn_has_shown_something_newer() {
    let _rule = rule("2 instants");
    let mut state = state(RedisKind::Replicated);
    two_servers(&mut state);
    for (at, sent, holder) in [(2_000, 2_000, "B"), (2_500, 1_000, "A")] {
        answers(&mut state, at, ("b:6379", "b"), Standing::Witness, sent, holder);
    }
    let snapshot = state.snapshot(Mono::at(2_500));
    let holders = snapshot
        .tasks
        .first()
        .unwrap()
        .lock()
        .unwrap()
        .rare
        .witnesses
        .first()
        .unwrap()
        .holders
        .clone()
        .unwrap();
    assert_eq!(holders.first().unwrap().client, b"B");
}

/// A key that the agent may not read is unknown, and that must be reported.
#[test]
fn what_is_refused_of_single_tasks_is_counted() {
    let mut state = state(RedisKind::Standalone);
    let lock = LockReading::Unknown(Unknown::NoPermission);
    let reading = TaskReading::of_lock(lock, Extras::default(), Parts::default());
    for at in [1_000, 2_000] {
        let outcome = Outcome::Read {
            attestation: attestation("x", at),
            readings: vec![(TaskIndex(0), reading.clone())],
        };
        says(&mut state, at, "a:6379", outcome);
    }
    let errors = state.snapshot(Mono::at(2_500)).stores[0].totals.errors;
    let of = |why: Unknown| {
        Unknown::ALL.iter().zip(errors).find(|(it, _)| **it == why).map(|(_, count)| count)
    };
    assert_eq!((of(Unknown::NoPermission), errors.iter().sum::<u64>()), (Some(2), 2));
}
