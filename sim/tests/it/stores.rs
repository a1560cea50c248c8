//! A lock on several independent stores, each with a clock of its own and read at its own times.

use std::sync::Arc;

use lockwatch_judge::event::{End, Event, EventKind, SplitKind};
use lockwatch_judge::input::{Attestation, Generation, Input, Outcome, Sample, Standing};
use lockwatch_judge::problems::{Finding, Problem, Severity, of_store, of_task};
use lockwatch_judge::reading::{
    Deadline, Extras, Held, Holder, LockReading, Mode, Parts, TaskReading, Unknown,
};
use lockwatch_judge::snapshot::{Snapshot, TaskView};
use lockwatch_judge::spec::{
    Agreement, Codec, LockSpec, StoreIndex, Stores, TaskIndex, TaskSpec, WantedSource, WantedSpec,
    WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_judge::verdict::Verdict;
use lockwatch_watch::redis::{RedisKind, libraries};

/// How far each store's clock is ahead of the agent's, in milliseconds.
const AHEAD_MS: [i64; 5] = [1_790_000_000_000, 1_790_000_007_000, 1_789_999_991_500, 5_000, 0];
const INTERVAL_MS: u64 = 1_000;
const TIMEOUT_MS: u64 = 3_000;

/// What one store has, and whether it can be reached.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    /// The holder, and when its lease ends by the agent's clock; `None`: never.
    lock: Option<(&'static str, Option<u64>)>,
    is_down: bool,
    /// It was the lock's key once, and is something else now.
    is_foreign: bool,
    flushes: u64,
}

struct World {
    state: State,
    servers: Vec<Server>,
    now: u64,
    events: Vec<Event>,
    /// A client has another id on each store, as with Redisson, and its thread the same.
    has_clients: bool,
}

impl World {
    fn new(mode: Agreement, count: u16) -> World {
        World::of(mode, count, |_| {})
    }

    fn of(mode: Agreement, count: u16, change: impl FnOnce(&mut TaskSpec)) -> World {
        let all: Vec<StoreIndex> = (0..count).map(StoreIndex).collect();
        let stores = Some(Box::new(Stores { all, mode }));
        let lock = LockSpec { stores, ..libraries::lock(b"job", "string") };
        let mut task = TaskSpec::new("job", StoreIndex(0), lock);
        change(&mut task);
        let store = |index| RedisKind::Standalone.store(&format!("r{}", index + 1), &["a:6379"]);
        let stores = (0..count).map(store).collect();
        let spec = WatchSpec { stores, tasks: vec![Arc::new(task)], epoch: 1 };
        let mut state = State::new();
        state.step(Mono::at(0), Input::Config(Arc::new(spec)));
        World {
            state,
            servers: vec![Server::default(); usize::from(count)],
            now: 0,
            events: Vec::new(),
            has_clients: false,
        }
    }

    /// `who` writes the lock on stores 1, 2, … with a lease of `ttl_ms`; 0: without an end.
    fn sets(&mut self, who: &'static str, stores: &[usize], ttl_ms: u64) -> &mut World {
        for store in stores {
            let end = (ttl_ms > 0).then_some(self.now + ttl_ms);
            self.servers[store - 1].lock = Some((who, end));
        }
        self
    }

    fn deletes(&mut self, stores: &[usize]) -> &mut World {
        stores.iter().for_each(|store| self.servers[store - 1].lock = None);
        self
    }

    fn flushes(&mut self, stores: &[usize]) -> &mut World {
        stores.iter().for_each(|store| self.servers[store - 1].flushes += 1);
        self.deletes(stores)
    }

    fn down(&mut self, stores: &[usize], is_down: bool) -> &mut World {
        stores.iter().for_each(|store| self.servers[store - 1].is_down = is_down);
        self
    }

    /// Each store is read once an interval, one after the other. With each, 0 to 4 ms pass between
    /// the request and the reading of its clock.
    fn passes(&mut self, ms: u64) -> &mut World {
        let end = self.now + ms;
        while self.now < end {
            self.now += 1;
            let phase = self.now % INTERVAL_MS;
            for store in 0..self.servers.len() {
                if phase == 130 + 170 * store as u64 {
                    self.reads(store);
                }
            }
            if phase == 999 {
                let events = self.state.step(Mono::at(self.now), Input::Tick);
                self.events.extend(events);
            }
        }
        self
    }

    fn reads(&mut self, store: usize) {
        let server = &mut self.servers[store];
        if server.lock.is_some_and(|(_, end)| end.is_some_and(|end| end < self.now)) {
            server.lock = None;
        }
        let late_ms = self.now / INTERVAL_MS * 7 % 5;
        let clock = |at: u64| ServerTime::at(at as i64 + AHEAD_MS[store]);
        let lock = match server {
            Server { is_foreign: true, .. } => LockReading::Unknown(Unknown::WrongType),
            Server { lock: None, .. } => LockReading::Free,
            Server { lock: Some((who, end)), .. } => LockReading::from(Held {
                mode: Mode::Exclusive,
                holders: vec![match self.has_clients {
                    true => Holder {
                        client: format!("{who}{}", store + 1).into_bytes(),
                        thread: Some(who.as_bytes().to_vec()),
                        entries: Some(1),
                        secret: false,
                    },
                    false => Holder {
                        client: who.as_bytes().to_vec(),
                        thread: None,
                        entries: None,
                        secret: true,
                    },
                }],
                ghosts: 0,
                deadline: end.map_or(Deadline::Never, |end| Deadline::At(clock(end))),
            }),
        };
        let flushes = server.flushes;
        let generation = Some(Generation { flushes, ..Generation::default() });
        let attestation = Attestation::master(clock(self.now + late_ms), clock(self.now + 5));
        let attestation = Attestation { generation, ..attestation };
        let reading = TaskReading::of_lock(lock, Extras::default(), Parts::default());
        let outcome = match server.is_down {
            true => Outcome::Failed { tasks: vec![TaskIndex(0)], why: Unknown::Connect },
            false => Outcome::Read { attestation, readings: vec![(TaskIndex(0), reading)] },
        };
        let sample = Sample {
            epoch: 1,
            store: StoreIndex(store as u16),
            node: Some("a:6379".into()),
            standing: Standing::Decides,
            sent: Mono::at(self.now),
            took_ms: 6,
            outcome,
        };
        self.events.extend(self.state.step(Mono::at(self.now + 6), Input::Sample(sample)));
    }

    fn snapshot(&mut self) -> Snapshot {
        self.state.snapshot(Mono::at(self.now))
    }

    fn view(&mut self) -> TaskView {
        (**self.snapshot().tasks.first().unwrap()).clone()
    }

    /// The verdict, the holders and, of what happened so far, how often a hold began, was renewed,
    /// and how holds ended.
    fn seen(&mut self) -> String {
        let view = self.view();
        let holders = view.hold().map(|hold| {
            let name = |holder: &Holder| String::from_utf8(holder.client.clone()).unwrap();
            hold.holders.iter().map(|(holder, _)| name(holder)).collect::<Vec<_>>().join("+")
        });
        let held = match view.held {
            Some(true) => holders.unwrap(),
            Some(false) => "nobody".to_owned(),
            None => view.unknown.unwrap().name().to_owned(),
        };
        let totals = &view.totals;
        let ends = End::ALL.iter().zip(totals.ends).filter(|(_, count)| *count > 0);
        let ends: String = ends.map(|(end, count)| format!(" {}={count}", end.name())).collect();
        format!(
            "{} {held} began={} renewed={}{ends}",
            view.verdict.name(),
            totals.acquisitions,
            totals.renewals
        )
    }

    fn problems(&mut self) -> Vec<Problem> {
        let (at, view) = (Mono::at(self.now), self.view());
        let found = of_task(&view, at, None);
        let positive = found.findings.iter().filter(|(_, finding)| finding.is_positive());
        positive.map(|(problem, _)| *problem).collect()
    }
}

const ALL: [usize; 3] = [1, 2, 3];

/// The life of a lock of Redlock: taken, renewed on all stores before its end, given back.
#[test]
fn a_majority_decides_and_the_clocks_of_its_stores_do_not() {
    let mut world = World::new(Agreement::Quorum, 3);
    assert_eq!(world.passes(3_000).seen(), "stopped nobody began=0 renewed=0");
    world.sets("A", &ALL, 6_000).passes(4_000);
    assert_eq!(world.seen(), "running A began=1 renewed=0");
    for _ in 0..20 {
        world.sets("A", &ALL, 6_000).passes(5_000);
    }
    assert_eq!(world.seen(), "running A began=1 renewed=20");
    let view = world.view();
    assert_eq!(&*view.store, "r1+r2+r3");
    let hold = view.hold().unwrap();
    // Read 600 ms ago or less.
    let ttl_ms = hold.ttl_ms.unwrap();
    assert!((1_000..=2_000).contains(&ttl_ms), "{ttl_ms}");
    assert_eq!(view.lock().unwrap().lease_ms, Some(6_000));
    assert_eq!(hold.last_renewal_latency_ms, Some(0));
    world.deletes(&ALL).passes(3_000);
    assert_eq!(world.seen(), "stopped nobody began=1 renewed=20 ended_early=1");
}

/// `RedissonRedLock` is made of a client for each server, each with an id of its own.
#[test]
fn one_thread_with_a_client_for_each_store_is_one_holder() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.has_clients = true;
    world.passes(2_000).sets("A", &ALL, 6_000).passes(2_000);
    assert_eq!(world.seen(), "running A1 began=1 renewed=0");
    for away in [1, 3, 2] {
        let rest: Vec<usize> = ALL.into_iter().filter(|store| *store != away).collect();
        world.deletes(&[away]).down(&[away], away == 3);
        for _ in 0..10 {
            world.sets("A", &rest, 6_000).passes(2_000);
        }
        world.down(&[away], false).sets("A", &ALL, 6_000).passes(2_000);
    }
    assert_eq!(world.seen(), "running A1 began=1 renewed=33");
    world.sets("B", &ALL, 6_000).passes(3_000);
    assert_eq!(world.seen(), "running B1 began=2 renewed=33 replaced=1");
    world.sets("C", &[1], 6_000).sets("B", &[2], 6_000).deletes(&[3]).passes(3_000);
    assert_eq!(world.view().held, Some(false));
    assert_eq!(world.problems(), []);
}

/// A client that is killed: the lock runs out on each store by itself.
#[test]
fn what_runs_out_on_a_majority_has_expired() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(2_000).sets("A", &ALL, 6_000).passes(5_000).sets("A", &ALL, 6_000).passes(9_000);
    assert_eq!(world.seen(), "stopped nobody began=1 renewed=1 expired=1");
}

#[test]
fn a_minority_that_lags_or_is_away_changes_nothing() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(2_000).sets("A", &ALL, 6_000).passes(3_000).down(&[3], true);
    for _ in 0..40 {
        world.sets("A", &[1, 2], 6_000).passes(5_000);
    }
    assert_eq!(world.seen(), "running A began=1 renewed=40");
    assert_eq!(world.problems(), []);
    // It comes back empty, and the client writes there again only later.
    world.down(&[3], false).deletes(&[3]).sets("A", &[1, 2], 6_000).passes(4_000);
    world.sets("A", &ALL, 6_000).passes(5_000);
    assert_eq!(world.seen(), "running A began=1 renewed=42");
    // Whichever it is, also the one that has the other keys.
    for away in ALL {
        let rest: Vec<usize> = ALL.into_iter().filter(|store| *store != away).collect();
        world.down(&[away], true);
        for _ in 0..15 {
            world.sets("A", &rest, 6_000).passes(5_000);
        }
        assert_eq!(
            world.seen().split(' ').take(3).collect::<Vec<_>>(),
            ["running", "A", "began=1"]
        );
        assert_eq!(world.problems(), [], "store {away}");
        world.down(&[away], false).deletes(&[away]);
    }
}

/// What the losers of a race leave behind for a moment, or until it runs out.
#[test]
fn tokens_on_a_minority_are_nobody() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(2_000).sets("A", &[1], 60_000).sets("B", &[2], 60_000).passes(10_000);
    assert_eq!(world.seen(), "stopped nobody began=0 renewed=0");
    // The third may have either of them.
    world.down(&[3], true).passes(10_000);
    let view = world.view();
    assert_eq!(view.unknown, Some(Unknown::FewStores));
    assert_eq!(view.said.as_deref(), Some("r3: connect"));
    world.deletes(&[1, 2]).passes(10_000);
    assert_eq!(world.seen(), "stopped nobody began=0 renewed=0");
    assert_eq!(world.problems(), []);
    let splits = world.events.iter().filter(|it| matches!(it.kind, EventKind::SplitBegan { .. }));
    assert_eq!(splits.count(), 0);
}

#[test]
fn two_stores_away_are_unknown_and_then_blind() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(2_000).sets("A", &ALL, 0).passes(5_000).down(&[2, 3], true).passes(10_000);
    assert_eq!(world.view().verdict, Verdict::Running, "kept while not blind for long");
    assert_eq!(world.view().unknown, Some(Unknown::FewStores));
    assert_eq!(world.problems(), []);
    world.passes(65_000);
    assert_eq!(world.view().verdict, Verdict::Unknown);
    assert_eq!(world.problems(), [Problem::Blind]);
    world.down(&[2], false).passes(3_000);
    assert_eq!(world.seen(), "running A began=1 renewed=0");
    assert_eq!(world.problems(), []);
    // All away: its stores do not answer, and all the same nobody sees this lock.
    world.down(&ALL, true).passes(75_000);
    assert_eq!(world.problems(), [Problem::Blind]);
}

/// A store that only has such locks warns when it is away, and wakes nobody.
#[test]
fn a_store_of_several_warns() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(3_000).down(&[2], true).passes(90_000);
    let snapshot = world.snapshot();
    let of = |index: usize| of_store(&snapshot.stores[index], snapshot.at, None);
    let found = of(1);
    let unreachable = |found: &(Problem, Finding)| found.0 == Problem::Unreachable;
    assert!(found.findings.iter().find(|it| unreachable(it)).unwrap().1.is_positive());
    assert_eq!(found.of(Severity::Page), Severity::Warning);
    assert!(of(0).clear && !found.clear);
}

/// Readings that are too old say nothing, also where no attempt fails.
#[test]
fn what_is_no_more_read_is_unread() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(2_000).sets("A", &ALL, 0).passes(5_000);
    let until = world.now + INTERVAL_MS + TIMEOUT_MS + 2_000;
    while world.now < until {
        world.now += 500;
        world.reads(0);
    }
    assert_eq!(world.view().unknown, Some(Unknown::FewStores));
}

/// The lock is given back and taken again between the readings of its stores.
#[test]
fn a_change_of_holder_between_two_readings_is_no_gap() {
    for offset in (0..1_000).step_by(37) {
        let mut world = World::of(Agreement::Quorum, 3, |task| {
            let source = WantedSource::Always;
            task.wanted = Some(WantedSpec { source, codec: Codec::Raw });
        });
        world.sets("A", &ALL, 0).passes(3_000 + offset);
        world.deletes(&ALL).passes(2).sets("B", &ALL, 0).passes(4_000);
        assert_eq!(
            world.seen(),
            "running B began=1 renewed=0 replaced=1".replace("replaced", &world.end()),
            "{offset}"
        );
        assert_eq!(world.view().totals.rare.down_ms, 0, "{offset}");
    }
}

impl World {
    /// How the only hold ended that did.
    fn end(&mut self) -> String {
        let view = self.view();
        let ends = End::ALL.iter().zip(view.totals.ends).find(|(_, count)| *count > 0);
        ends.map(|(end, _)| end.name().to_owned()).unwrap_or_default()
    }
}

/// A wanted task whose lock nobody can take is down after `grace`, with one store away as well.
#[test]
fn nobody_on_a_majority_is_down() {
    for away in [&[][..], &[3], &[1]] {
        let mut world = World::of(Agreement::Quorum, 3, |task| {
            let source = WantedSource::Always;
            task.wanted = Some(WantedSpec { source, codec: Codec::Raw });
        });
        world.sets("A", &ALL, 0).passes(10_000).down(away, true).deletes(&ALL).passes(15_000);
        assert_eq!(world.problems(), [], "{away:?}");
        world.passes(10_000);
        assert_eq!(world.problems(), [Problem::Down], "{away:?}");
        world.sets("B", &ALL, 0).passes(10_000);
        assert_eq!(world.problems(), [], "{away:?}");
    }
}

/// A key of another type on two stores is no vote, neither for nor against anybody.
#[test]
fn what_cannot_be_read_is_no_vote() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(2_000).sets("A", &ALL, 0).passes(4_000);
    world.servers[1].is_foreign = true;
    assert_eq!(world.passes(4_000).seen(), "running A began=1 renewed=0");
    world.servers[2].is_foreign = true;
    world.passes(4_000);
    assert_eq!(world.view().unknown, Some(Unknown::FewStores));
    assert_eq!(world.view().said.as_deref(), Some("r2: wrong_type, r3: wrong_type"));
}

#[test]
fn five_stores_bear_two_that_are_away() {
    let mut world = World::new(Agreement::Quorum, 5);
    let all = [1, 2, 3, 4, 5];
    world.passes(2_000).sets("A", &all, 0).passes(5_000).down(&[2, 4], true).passes(120_000);
    assert_eq!(world.seen(), "running A began=1 renewed=0");
    assert_eq!(world.problems(), []);
    world.down(&[5], true).passes(5_000);
    assert_eq!(world.view().unknown, Some(Unknown::FewStores));
}

/// A client that fails over from one store to another leaves its lock on the first, which runs out.
#[test]
fn with_any_the_newer_one_is_the_holder() {
    let mut world = World::new(Agreement::Any, 2);
    world.passes(2_000).sets("A", &[1], 20_000).passes(4_000);
    assert_eq!(world.seen(), "running A began=1 renewed=0");
    world.sets("B", &[2], 20_000).passes(4_000);
    assert_eq!(world.seen(), "running B began=2 renewed=0 replaced=1");
    for _ in 0..10 {
        world.sets("B", &[2], 20_000).passes(6_000);
    }
    assert_eq!(world.seen(), "running B began=2 renewed=10 replaced=1");
    world.deletes(&[2]).passes(3_000);
    assert_eq!(world.seen(), "stopped nobody began=2 renewed=10 ended_early=1 replaced=1");
    // One that is away may have it.
    world.down(&[1], true).passes(8_000);
    assert_eq!(world.view().unknown, Some(Unknown::FewStores));
    world.sets("C", &[2], 20_000).passes(3_000);
    assert_eq!(world.view().verdict, Verdict::Running);
}

/// A client that is cut off from one store only goes on there, while another has the second.
#[test]
fn with_any_two_that_both_renew_are_a_split() {
    let mut world = World::new(Agreement::Any, 2);
    world.passes(2_000).sets("A", &[1], 20_000).passes(4_000).sets("B", &[2], 20_000).passes(3_000);
    assert_eq!(world.view().verdict, Verdict::Running);
    world.sets("A", &[1], 20_000).sets("B", &[2], 20_000).passes(4_000);
    assert_eq!(world.view().verdict, Verdict::Running, "once may be a last one");
    world.sets("A", &[1], 20_000).sets("B", &[2], 20_000).passes(4_000);
    assert_eq!(world.view().verdict, Verdict::Split);
    assert_eq!(world.problems(), [Problem::Split]);
    let splits = world.view().splits;
    assert_eq!(splits[0].parties.len(), 2);
    // One of them gives up: its lock runs out.
    world.sets("B", &[2], 60_000).passes(25_000);
    assert_eq!(world.view().verdict, Verdict::Running);
}

/// An agent that starts late does not know who came last: the one that is renewed has it.
#[test]
fn with_any_a_leftover_found_at_the_start_is_no_holder() {
    let mut world = World::new(Agreement::Any, 2);
    world.sets("old", &[1], 60_000).sets("new", &[2], 20_000).passes(3_000);
    for _ in 0..5 {
        world.sets("new", &[2], 20_000).passes(6_000);
    }
    assert_eq!(world.seen().split(' ').take(2).collect::<Vec<_>>(), ["running", "new"]);
    assert_eq!(world.problems(), []);
}

/// A client that gave up on a store may have taken the lock there all the same, once that store
/// answers again. Nobody renews it.
#[test]
fn with_any_a_late_leftover_is_no_second_holder() {
    let mut world = World::new(Agreement::Any, 3);
    world.passes(2_000).sets("D", &[2], 10_000).passes(2_000).sets("C", &[1], 30_000);
    for _ in 0..12 {
        world.sets("D", &[2], 10_000).passes(2_000);
        assert_eq!(world.problems(), []);
    }
    assert_eq!(world.seen().split(' ').take(2).collect::<Vec<_>>(), ["running", "D"]);
    assert_eq!(world.view().totals.rare.splits.iter().sum::<u64>(), 0);
}

/// What was renewed next to one holder was not renewed next to another.
#[test]
fn with_any_each_pair_of_holders_is_judged_by_itself() {
    let mut world = World::new(Agreement::Any, 3);
    world.passes(2_000).sets("C", &[1], 60_000).passes(2_000);
    for _ in 0..5 {
        world.sets("D", &[2], 20_000).passes(2_000);
    }
    for _ in 0..5 {
        world.sets("E", &[3], 20_000).passes(2_000);
    }
    assert_eq!(world.seen().split(' ').take(2).collect::<Vec<_>>(), ["running", "E"]);
    // Without a reading between the end of one and the beginning of the next.
    let mut other = World::new(Agreement::Any, 2);
    other.passes(2_000).sets("C", &[1], 60_000).passes(2_000);
    for _ in 0..5 {
        other.sets("D", &[2], 20_000).passes(2_000);
    }
    for _ in 0..5 {
        other.sets("E", &[1], 20_000).passes(2_000);
    }
    for mut world in [world, other] {
        assert_eq!(world.view().totals.rare.splits.iter().sum::<u64>(), 0);
        assert_eq!(world.problems(), []);
    }
}

/// A hold is lost together with the data of so many stores that no majority is left; what one store
/// loses changes nothing, and a release is none.
#[test]
fn a_hold_is_lost_with_the_data_of_a_majority() {
    for flushed in [&[1, 2, 3][..], &[2, 3], &[1, 3]] {
        let mut world = World::new(Agreement::Quorum, 3);
        world.passes(2_000).sets("A", &ALL, 60_000).passes(3_000).flushes(flushed).passes(3_000);
        assert_eq!(world.seen(), "stopped nobody began=1 renewed=0 lost=1", "{flushed:?}");
        let (at, view) = (Mono::at(world.now), world.view());
        let events = of_task(&view, at, None).events;
        assert!(events.iter().any(|(problem, _)| *problem == Problem::LockLost), "{flushed:?}");
    }
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(2_000).sets("A", &ALL, 60_000).passes(3_000).flushes(&[2]).passes(30_000);
    world.sets("A", &[1, 3], 60_000).passes(2_000).deletes(&ALL).passes(3_000);
    assert_eq!(world.seen(), "stopped nobody began=1 renewed=1 ended_early=1");
    world.sets("A", &ALL, 5_000).passes(8_000).flushes(&ALL).passes(3_000);
    assert_eq!(world.seen(), "stopped nobody began=2 renewed=1 expired=1 ended_early=1");
}

/// Redlock's own hazard: a majority loses its data, and another one takes the lock there.
#[test]
fn two_holders_after_a_loss_of_data_are_a_split() {
    let mut world = World::new(Agreement::Quorum, 3);
    world.passes(2_000).sets("A", &ALL, 30_000).passes(10_000);
    world.flushes(&[2, 3]).passes(40).sets("B", &[2, 3], 20_000).passes(4_000);
    assert_eq!(world.view().verdict, Verdict::Split);
    assert_eq!(world.view().splits[0].kind, SplitKind::Overlap);
    world.sets("B", &[2, 3], 20_000).passes(15_000).sets("B", &[2, 3], 20_000).passes(6_000);
    assert_eq!(world.view().verdict, Verdict::Running, "the first lease is over");
}
