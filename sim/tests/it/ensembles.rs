//! A lock of an ensemble, whose servers are copies of each other, with its switches in another
//! store.

use std::sync::Arc;

use lockwatch_judge::event::{Event, EventKind};
use lockwatch_judge::input::{
    Attestation, Generation, Input, Outcome, Role, Sample, Standing, Topology,
};
use lockwatch_judge::problems::{Problem, of_store, of_task};
use lockwatch_judge::reading::{
    Deadline, Ends, Extras, Held, Holder, LockReading, Mode, Parts, Switch, SwitchesReading,
    TaskReading, Unknown,
};
use lockwatch_judge::snapshot::{Snapshot, TaskView};
use lockwatch_judge::spec::{
    Authority, Codec, LockSpec, StoreIndex, StoreSpec, TaskIndex, TaskSpec, WantedSource,
    WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_judge::verdict::{Verdict, Wanted};
use lockwatch_watch::redis::RedisKind;

const ENSEMBLE: StoreIndex = StoreIndex(0);
const REDIS: StoreIndex = StoreIndex(1);
/// The wall clock when the test begins, in milliseconds.
const WALL_MS: i64 = 1_790_000_000_000;
/// How far Redis' clock is behind the agent's, in milliseconds.
const BEHIND_MS: i64 = 40_000;

/// Read once a second: the ensemble at .2, Redis at .7.
struct World {
    state: State,
    now: u64,
    events: Vec<Event>,
    holder: Option<&'static str>,
    is_on: Option<bool>,
    ensemble: Result<&'static str, Unknown>,
    redis: Result<(), Unknown>,
    /// How often the ensemble's data went back, and Redis' data were flushed.
    lines: u64,
    flushes: u64,
}

impl World {
    fn new() -> World {
        let lock = LockSpec { never_expires: true, ..LockSpec::new(b"/job", "curator") };
        let mut task = TaskSpec::new("job", ENSEMBLE, lock);
        let source = WantedSource::Hash(b"job:users".to_vec());
        task.wanted = Some(WantedSpec { source, codec: Codec::Raw });
        task.switches_store = Some(REDIS);
        let servers = ["zk1:2181", "zk2:2181", "zk3:2181"];
        let stores = vec![
            StoreSpec::new("zk", Authority::ENSEMBLE, &servers),
            RedisKind::Standalone.store("main", &["a:6379"]),
        ];
        let mut state = State::new();
        let spec = WatchSpec { stores, tasks: vec![Arc::new(task)], epoch: 1 };
        state.step(Mono::at(0), Input::Config(Arc::new(spec)));
        World {
            state,
            now: 0,
            events: Vec::new(),
            holder: Some("0x1"),
            is_on: Some(true),
            ensemble: Ok("zk1:2181"),
            redis: Ok(()),
            lines: 0,
            flushes: 0,
        }
    }

    fn passes(&mut self, seconds: u64) -> &mut World {
        for _ in 0..seconds {
            let second = self.now;
            self.now = second + 200;
            self.reads_ensemble();
            self.now = second + 700;
            self.reads_redis();
            self.now = second + 1_000;
            self.step(Input::Tick);
        }
        self
    }

    fn step(&mut self, input: Input) {
        let events = self.state.step(Mono::at(self.now), input);
        self.events.extend(events);
    }

    /// The session is on another server from now on.
    fn moves_to(&mut self, server: &'static str) -> &mut World {
        self.ensemble = Ok(server);
        let topology = Topology {
            epoch: 1,
            store: ENSEMBLE,
            masters: Ok(vec![server.into()]),
            nodes: ["zk1:2181", "zk2:2181", "zk3:2181"].map(Arc::from).to_vec(),
            announcers: Vec::new(),
            uncovered: 0,
        };
        self.step(Input::Topology(topology));
        self
    }

    fn reads_ensemble(&mut self) {
        let lock = match self.holder {
            None => LockReading::Free,
            Some(session) => LockReading::from(Held {
                mode: Mode::Exclusive,
                holders: vec![Holder {
                    client: session.into(),
                    thread: Some(b"0000000001".to_vec()),
                    entries: None,
                    secret: false,
                }],
                ghosts: 0,
                deadline: Deadline::Never,
            }),
        };
        let clock = ServerTime::at(WALL_MS + self.now as i64);
        let generation = Generation {
            process: b"ensemble".to_vec(),
            history: format!("line {}", self.lines).into_bytes(),
            ..Generation::default()
        };
        let attestation = Attestation {
            generation: Some(generation),
            offset: Some(self.now),
            role: Role::Member,
            ..Attestation::master(clock, clock)
        };
        let reading = TaskReading::of_lock(lock, Extras::default(), Parts::default());
        let outcome = match self.ensemble {
            Ok(_) => Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] },
            Err(why) => Outcome::Failed { tasks: vec![TaskIndex(0)], why },
        };
        let node = self.ensemble.ok().map(Arc::from);
        self.sample(ENSEMBLE, node, outcome);
    }

    fn reads_redis(&mut self) {
        let clock = ServerTime::at(WALL_MS - BEHIND_MS + self.now as i64);
        let process = b"a".to_vec();
        let generation = Generation { process, flushes: self.flushes, ..Generation::default() };
        let attestation = Attestation::master(clock, clock);
        let attestation = Attestation { generation: Some(generation), ..attestation };
        let switch = |is_on| (b"anna".to_vec(), if is_on { Switch::On } else { Switch::Off });
        let switches = SwitchesReading::Read {
            switches: self.is_on.map(switch).into_iter().collect(),
            key_exists: self.is_on.is_some(),
            counted: None,
            whole: true,
            ends: Ends::default(),
        };
        let lock = LockReading::Unknown(Unknown::NotReadYet);
        let parts = Parts { switches: Some(switches), ..Parts::default() };
        let reading = TaskReading::of_lock(lock, Extras::default(), parts);
        let outcome = match self.redis {
            Ok(()) => Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] },
            Err(why) => Outcome::Failed { tasks: vec![TaskIndex(0)], why },
        };
        self.sample(REDIS, Some("a:6379".into()), outcome);
    }

    fn sample(&mut self, store: StoreIndex, node: Option<Arc<str>>, outcome: Outcome) {
        let (sent, standing) = (Mono::at(self.now), Standing::Decides);
        let sample = Sample { epoch: 1, store, node, standing, sent, took_ms: 2, outcome };
        self.now += 2;
        self.step(Input::Sample(sample));
        self.now -= 2;
    }

    fn snapshot(&mut self) -> Snapshot {
        self.state.snapshot(Mono::at(self.now))
    }

    fn view(&mut self) -> TaskView {
        (**self.snapshot().tasks.first().unwrap()).clone()
    }

    fn verdict(&mut self) -> Verdict {
        self.view().verdict
    }

    fn problems(&mut self) -> Vec<Problem> {
        let at = Mono::at(self.now);
        let snapshot = self.snapshot();
        let stores = snapshot.stores.iter().flat_map(|store| of_store(store, at, None).findings);
        let view = snapshot.tasks.first().unwrap();
        let all = stores.chain(of_task(view, at, None).findings);
        all.filter(|(_, finding)| finding.is_positive()).map(|(problem, _)| problem).collect()
    }

    fn count(&self, is: impl Fn(&EventKind) -> bool) -> usize {
        self.events.iter().filter(|event| is(&event.kind)).count()
    }
}

#[test]
fn a_session_that_moves_between_copies_changes_nothing() {
    let mut world = World::new();
    world.moves_to("zk1:2181").passes(10);
    for server in ["zk2:2181", "zk3:2181", "zk1:2181", "zk3:2181"] {
        world.moves_to(server).passes(8);
    }
    let view = world.view();
    assert_eq!((view.verdict, view.held), (Verdict::Running, Some(true)));
    assert_eq!(view.totals.acquisitions, 0, "it was held before");
    assert!(view.hold().unwrap().held_ms >= 40_000);
    assert_eq!(world.problems(), []);
    let is_change = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::GenerationChanged { .. }
                | EventKind::RivalMaster
                | EventKind::ClockStep { .. }
                | EventKind::HoldEnded { .. }
        )
    };
    assert_eq!(world.count(is_change), 0);
    let snapshot = world.snapshot();
    let up = |address: &str| {
        let node = snapshot.stores[0].nodes.iter().find(|node| &*node.address == address);
        node.unwrap().up
    };
    assert_eq!([up("zk1:2181"), up("zk3:2181")], [None, Some(true)], "nobody asks the others");
}

#[test]
fn the_holder_s_end_is_seen_on_whichever_copy_is_read() {
    let mut world = World::new();
    world.moves_to("zk1:2181").passes(10).holder = None;
    world.moves_to("zk2:2181").passes(5);
    assert_eq!(world.view().held, Some(false));
    assert_eq!(world.problems(), []);
    world.moves_to("zk3:2181").passes(20);
    assert_eq!(world.verdict(), Verdict::Down);
    world.holder = Some("0x2");
    world.passes(8);
    let view = world.view();
    assert_eq!((view.verdict, view.totals.acquisitions), (Verdict::Running, 1));
}

/// The data went back: what was written since is lost, and so may the lock be.
#[test]
fn a_restored_copy_is_another_line_of_data() {
    let mut world = World::new();
    world.moves_to("zk1:2181").passes(10);
    (world.lines, world.holder) = (1, None);
    world.passes(5);
    assert_eq!(world.count(|kind| matches!(kind, EventKind::GenerationChanged { .. })), 1);
    assert_eq!(world.view().held, Some(false));
}

#[test]
fn switches_elsewhere_decide_as_if_they_stood_with_the_lock() {
    let mut world = World::new();
    world.moves_to("zk1:2181").passes(10);
    assert_eq!(world.verdict(), Verdict::Running);
    world.is_on = Some(false);
    world.passes(35);
    assert_eq!(world.verdict(), Verdict::Unwanted);
    world.holder = None;
    world.passes(5);
    assert_eq!(world.verdict(), Verdict::Stopped);
    world.is_on = Some(true);
    world.passes(15);
    assert_eq!(world.problems(), []);
    world.passes(10);
    assert_eq!((world.verdict(), world.problems()), (Verdict::Down, vec![Problem::Down]));
}

/// Without the switches nobody knows whether a free lock is needed; a held one runs.
#[test]
fn a_store_of_switches_that_is_away_is_no_outage_of_the_task() {
    let mut world = World::new();
    world.moves_to("zk1:2181").passes(10).redis = Err(Unknown::Connect);
    world.passes(100);
    assert_eq!(world.view().held, Some(true));
    assert_eq!(world.verdict(), Verdict::Running);
    assert_eq!(world.problems(), [Problem::Unreachable]);
    world.holder = None;
    world.passes(40);
    assert_eq!((world.view().wanted, world.view().held), (Wanted::Unknown, Some(false)));
    assert_eq!(world.problems(), [Problem::Unreachable]);
    world.passes(30);
    assert_eq!(world.verdict(), Verdict::Unknown);
    assert_eq!(world.problems(), [Problem::Unreachable], "one alert for a store that is away");
    world.redis = Ok(());
    world.passes(25);
    assert_eq!(world.problems(), [Problem::Down]);
}

/// However long it lasts, and whichever of the two stores it is, only that store has an alert.
#[test]
fn one_store_that_is_away_for_long_is_one_alert() {
    for is_ensemble in [true, false] {
        let mut world = World::new();
        world.holder = None;
        world.is_on = Some(false);
        world.moves_to("zk1:2181").passes(10);
        match is_ensemble {
            true => world.ensemble = Err(Unknown::Quorum),
            false => world.redis = Err(Unknown::Timeout),
        }
        world.passes(600);
        assert_eq!(world.problems(), [Problem::Unreachable], "{is_ensemble}");
    }
}

#[test]
fn an_ensemble_that_is_away_is_unknown_whatever_the_switches_say() {
    let mut world = World::new();
    world.moves_to("zk1:2181").passes(10);
    (world.ensemble, world.holder) = (Err(Unknown::Quorum), None);
    world.passes(50);
    assert_eq!(world.view().unknown, Some(Unknown::Quorum));
    assert!(!world.problems().contains(&Problem::Down));
    world.is_on = Some(false);
    world.passes(20);
    world.is_on = Some(true);
    world.ensemble = Ok("zk2:2181");
    world.passes(10);
    assert!(!world.problems().contains(&Problem::Down), "wanted again for ten seconds");
}

/// Switches that were on vanish together with other data of their own store.
#[test]
fn switches_elsewhere_are_lost_with_the_data_of_their_own_store() {
    let mut world = World::new();
    world.moves_to("zk1:2181").passes(10);
    (world.is_on, world.flushes) = (None, 1);
    world.passes(90);
    assert!(world.problems().contains(&Problem::SwitchesLost), "{:?}", world.problems());
    let mut world = World::new();
    world.moves_to("zk1:2181").passes(10);
    (world.is_on, world.lines) = (None, 1);
    world.passes(90);
    assert!(!world.problems().contains(&Problem::SwitchesLost), "{:?}", world.problems());
}
