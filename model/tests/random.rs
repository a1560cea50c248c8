//! Random inputs, from a seed: whatever comes in, nothing panics and every snapshot keeps its invariants.
//!
//! `SEED=n cargo test -p lockwatch-model --test random` repeats one run.

use std::sync::Arc;

use lockwatch_model::event::Event;
use lockwatch_model::input::{Generation, Input, NodeNews, NodeNewsKind, Outcome, Role, Sample, Standing, Vouch};
use lockwatch_model::reading::{
    Beside, ClaimsReading, Deadline, Extras, Held, Holder, LockReading, Mode, PauseReading, ProgressReading, Switch,
    SwitchesReading, TaskReading, Unknown,
};
use lockwatch_model::spec::{
    ClaimsSpec, Codec, LockSpec, ProgressSource, ProgressSpec, RedisIndex, RedisKind, RedisSpec, SchemeKind, TaskIndex,
    TaskSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_model::state::State;
use lockwatch_model::time::{Mono, ServerTime};

mod invariants;

const NODE: &str = "a:6379";
const STEPS_PER_SEED: usize = 10_000;
const SEEDS: u64 = 10;
/// So many of the last inputs are shown with a failure, each cut to so many characters unless one seed was asked for.
const INPUTS_SHOWN: usize = 3;
const INPUT_CHARS: usize = 240;

/// Marsaglia's xorshift64.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn one_in(&mut self, chance: u64) -> bool {
        self.below(chance) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.below(choices.len() as u64) as usize;
        *choices.get(at).expect("choices")
    }
}

/// What changes slowly from reading to reading; everything in it may jump.
struct World {
    dice: Dice,
    now: u64,
    /// When the newest sample was sent: one is in flight at a time.
    last_sent: u64,
    server_offset: i64,
    lock: LockReading,
    switches: Vec<(Vec<u8>, Switch)>,
    claims: Vec<(Vec<u8>, Vec<u8>)>,
    progress: u64,
    token: i64,
    generation: Generation,
    spec: Arc<WatchSpec>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut dice = Dice::new(seed);
        let spec = Arc::new(watch_spec(&mut dice, 1));
        World {
            dice,
            now: 1_000,
            last_sent: 0,
            server_offset: 1_790_000_000_000,
            lock: LockReading::Free,
            switches: Vec::new(),
            claims: Vec::new(),
            progress: 0,
            token: 0,
            generation: Generation::default(),
            spec,
        }
    }

    fn server(&self) -> i64 {
        self.server_offset.saturating_add(self.now as i64)
    }

    fn pass_time(&mut self) {
        self.now += match self.dice.below(20) {
            0 => 0,
            1 => self.dice.below(4_000_000),
            2..=4 => self.dice.below(90_000),
            _ => self.dice.below(1_200),
        };
        if self.dice.one_in(500) {
            self.server_offset += self.dice.below(20_000_000) as i64 - 10_000_000;
        }
    }

    fn input(&mut self) -> Input {
        match self.dice.below(100) {
            0 => {
                self.spec = Arc::new(watch_spec(&mut self.dice, self.spec.epoch + 1));
                Input::Config(self.spec.clone())
            }
            1..=4 => Input::Node(self.news()),
            5..=25 => Input::Tick,
            26..=35 => Input::Sample(self.failed()),
            _ => Input::Sample(self.accepted()),
        }
    }

    fn news(&mut self) -> NodeNews {
        let why = self.dice.of(&Unknown::ALL);
        let kind = match self.dice.below(3) {
            0 => NodeNewsKind::Connected { version: None, role: Some(Role::Master) },
            1 => NodeNewsKind::Failed { why },
            _ => NodeNewsKind::TickSkipped,
        };
        NodeNews { epoch: self.epoch(), redis: self.redis(), node: Arc::from(NODE), kind }
    }

    /// Sometimes an older configuration's, which must be dropped.
    fn epoch(&mut self) -> u32 {
        self.spec.epoch - u32::from(self.dice.one_in(50))
    }

    /// Sometimes one that does not exist.
    fn redis(&mut self) -> RedisIndex {
        RedisIndex(if self.dice.one_in(100) { 7 } else { 0 })
    }

    fn sample(&mut self, outcome: Outcome) -> Sample {
        let took_ms = if self.dice.one_in(3) { self.dice.below(3_000) } else { 0 };
        self.last_sent = self.now.saturating_sub(took_ms).max(self.last_sent);
        let took_ms = self.now - self.last_sent;
        Sample {
            epoch: self.epoch(),
            redis: self.redis(),
            node: Some(Arc::from(NODE)),
            standing: Standing::Decides,
            sent: Mono(self.last_sent),
            took_ms,
            outcome,
        }
    }

    fn failed(&mut self) -> Sample {
        let why = self.dice.of(&Unknown::ALL);
        let tasks = (0..self.spec.tasks.len() as u32 + u32::from(self.dice.one_in(20))).map(TaskIndex).collect();
        self.sample(Outcome::Failed { tasks, why })
    }

    fn accepted(&mut self) -> Sample {
        self.change();
        let first = ServerTime(self.server());
        let vouch = Vouch {
            first,
            last: first.plus_ms(self.dice.below(5) as i64),
            role: Role::Master,
            role_verified: true,
            offset: None,
            refuses_writes: false,
            replicas: Vec::new(),
            generation: (!self.dice.one_in(10)).then(|| self.generation.clone()),
            clock_offset_ms: self.server_offset,
        };
        let count = self.spec.tasks.len() as u32 + u32::from(self.dice.one_in(50));
        let readings = (0..count).map(|index| (TaskIndex(index), self.reading())).collect();
        self.sample(Outcome::Read { vouch, readings })
    }

    fn change(&mut self) {
        if self.dice.one_in(5) {
            self.lock = self.some_lock();
        }
        if self.dice.one_in(12) {
            self.switches = self.some_switches();
        }
        if self.dice.one_in(3) {
            self.progress += 1;
        }
        if self.dice.one_in(4) {
            let count = self.dice.below(3);
            self.claims =
                (0..count).map(|who| (holder(who, 1, false).client, vec![self.dice.below(9) as u8])).collect();
        }
        if self.dice.one_in(30) {
            self.token = self.dice.below(100) as i64 - 10;
        }
        if self.dice.one_in(40) {
            self.change_generation();
        }
    }

    fn change_generation(&mut self) {
        match self.dice.below(4) {
            0 => self.generation.flushes += 1,
            1 => self.generation.evictions = self.dice.below(5),
            2 => self.generation.replication_id.push(b'r'),
            _ => {
                self.generation.run_id = self.dice.next().to_le_bytes().to_vec();
                self.generation.flushes = self.dice.below(2);
                self.generation.started_empty = self.dice.of(&[None, Some(true), Some(false)]);
            }
        }
        if self.dice.one_in(2) {
            self.lock = LockReading::Free;
            self.switches.clear();
        }
    }

    fn some_lock(&mut self) -> LockReading {
        match self.dice.below(10) {
            0..=3 => LockReading::Free,
            4 => LockReading::Unknown(self.dice.of(&Unknown::ALL)),
            _ => {
                let count = if self.dice.one_in(8) { self.dice.below(4) } else { 1 };
                let mut holders: Vec<_> = (0..count)
                    .map(|_| holder(self.dice.below(3), self.dice.below(3) as u32, self.dice.one_in(9)))
                    .collect();
                holders.sort();
                let deadline = match self.dice.below(12) {
                    0 => Deadline::Never,
                    1 => Deadline::Torn,
                    2 => Deadline::At(ServerTime(self.dice.of(&[0, i64::MAX, i64::MIN, -1]))),
                    _ => Deadline::At(ServerTime(self.server() + self.dice.of(&[-100, 900, 10_000, 30_000, 60_000]))),
                };
                let mode = self.dice.of(&[Mode::Exclusive, Mode::Exclusive, Mode::Write, Mode::Read]);
                LockReading::Held(Held { mode, holders, ghosts: self.dice.below(2) as u32, deadline })
            }
        }
    }

    fn some_switches(&mut self) -> Vec<(Vec<u8>, Switch)> {
        let count = self.dice.below(3);
        let switch = |dice: &mut Dice| match dice.below(5) {
            0 | 1 => Switch::On,
            2 | 3 => Switch::Off,
            _ => Switch::Undecodable { value: b"\xff\n\"".to_vec(), fits: Some(Codec::Jdk) },
        };
        (0..count).map(|user| (vec![b'u', user as u8], switch(&mut self.dice))).collect()
    }

    /// A part that is sometimes unreadable by itself.
    fn refusal(&mut self) -> Option<Unknown> {
        self.dice.one_in(15).then(|| self.dice.of(&Unknown::ALL))
    }

    fn reading(&mut self) -> TaskReading {
        let switches = self.switches.clone();
        let progress = match self.dice.below(12) {
            0 => ProgressReading::Absent,
            _ => ProgressReading::Value(self.progress.to_string().into_bytes()),
        };
        let until = ServerTime(self.server() + self.dice.below(100_000) as i64);
        TaskReading {
            lock: self.refusal().map_or_else(|| self.lock.clone(), LockReading::Unknown),
            extras: Extras { waiters: Some(self.dice.below(3)), fencing_token: Some(self.token) },
            beside: Beside {
                switches: Some(self.refusal().map_or_else(
                    || SwitchesReading::Read { key_exists: !switches.is_empty(), switches, counted: None },
                    SwitchesReading::Unknown,
                )),
                progress: Some(self.refusal().map_or(progress, ProgressReading::Unknown)),
                claims: Some(
                    self.refusal().map_or_else(|| ClaimsReading::Read(self.claims.clone()), ClaimsReading::Unknown),
                ),
                hosts: None,
                pause: Some(self.dice.of(&[
                    PauseReading::None,
                    PauseReading::Undecodable,
                    PauseReading::Until(until),
                    PauseReading::Until(ServerTime(i64::MAX)),
                    PauseReading::Until(ServerTime(i64::MIN)),
                    PauseReading::Unknown(Unknown::NoPermission),
                ])),
            },
        }
    }
}

fn holder(who: u64, entries: u32, secret: bool) -> Holder {
    Holder { client: vec![b'A' + who as u8], thread: Some(b"1".to_vec()), entries: Some(entries), secret }
}

fn watch_spec(dice: &mut Dice, epoch: u32) -> WatchSpec {
    let redis = RedisSpec {
        name: Arc::from("main"),
        kind: RedisKind::Standalone,
        addresses: vec![Arc::from(NODE)],
        db: 0,
        interval_ms: 1_000,
        timeout_ms: 3_000,
        assume_master: false,
    };
    let mut names = ["d", "b", "a", "c"];
    names.rotate_left(dice.below(4) as usize);
    let tasks = names.iter().take(1 + dice.below(4) as usize).map(|name| Arc::new(task(dice, name))).collect();
    WatchSpec { redises: vec![redis], tasks, epoch }
}

/// A task keeps its scheme: under another one it would begin anew.
fn scheme(name: &str) -> SchemeKind {
    if name < "c" { SchemeKind::Redisson } else { SchemeKind::String }
}

fn task(dice: &mut Dice, name: &str) -> TaskSpec {
    let key = |what: &str| format!("{name}:{what}").into_bytes();
    let wanted = match dice.below(6) {
        0 => None,
        1 => Some(WantedSource::Always),
        2 => Some(WantedSource::Never),
        _ => Some(WantedSource::Hash(key("users"))),
    };
    let lease_ms = if dice.one_in(3) { Some(30_000) } else { None };
    let renew_every_ms = if dice.one_in(5) { Some(7_000) } else { None };
    let progress =
        (!dice.one_in(3)).then(|| ProgressSpec { source: ProgressSource::Key(key("progress")), stale_after_ms: 5_000 });
    TaskSpec {
        name: Arc::from(name),
        redis: RedisIndex(0),
        lock: LockSpec { key: key("lock"), scheme: scheme(name), lease_ms, renew_every_ms },
        wanted: wanted.map(|source| WantedSpec { source, codec: Codec::Raw }),
        progress,
        claims: (!dice.one_in(3)).then(|| ClaimsSpec { key: key("claims"), fresh_for_ms: 10_000 }),
        hosts: None,
        paused_until: (!dice.one_in(3)).then(|| key("pause")),
        grace_ms: dice.of(&[0, 3_000, 20_000]),
        settle_ms: dice.of(&[0, 5_000]),
        wind_down_ms: dice.of(&[0, 30_000]),
        blind_after_ms: dice.of(&[1_000, 60_000]),
        max_hold_ms: None,
        labels: Vec::new(),
    }
}

fn drive(seed: u64, steps: usize) -> Result<usize, String> {
    let mut world = World::new(seed);
    let mut state = State::new();
    let mut invariants = invariants::Invariants::default();
    let mut recent: Vec<String> = Vec::new();
    let mut events = 0;
    let first = Input::Config(world.spec.clone());
    let mut input = first;
    for step in 0..steps {
        recent.push(format!("{:>9} {input:?}", world.now));
        let mut told: Vec<Event> = state.step(Mono(world.now), input);
        told.extend(state.step(Mono(world.now), Input::Tick));
        events += told.len();
        let late = told.iter().find(|event| event.at > Mono(world.now));
        let mut broken: Vec<String> = late.iter().map(|event| format!("{event:?} is from the future")).collect();
        broken.extend(invariants.check(&state.snapshot(Mono(world.now)), &world.spec));
        if !broken.is_empty() {
            let tail: Vec<_> = recent.iter().rev().take(INPUTS_SHOWN).rev().map(|input| shortened(input)).collect();
            return Err(format!("seed {seed}, step {step}: {}\n  {}", broken.join("; "), tail.join("\n  ")));
        }
        world.pass_time();
        input = world.input();
    }
    Ok(events)
}

fn shortened(input: &str) -> String {
    let whole = std::env::var_os("SEED").is_some();
    if whole { input.to_owned() } else { input.chars().take(INPUT_CHARS).collect() }
}

#[test]
fn random_inputs_break_nothing() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("SEED is a number")],
        Err(_) => (1..=SEEDS).collect(),
    };
    let failures: Vec<_> = seeds.iter().filter_map(|seed| drive(*seed, STEPS_PER_SEED).err()).collect();
    assert!(failures.is_empty(), "{} of {} seeds:\n{}", failures.len(), seeds.len(), failures.join("\n"));
}

/// A driver whose world never changes would prove nothing.
#[test]
fn random_inputs_make_things_happen() {
    let events = drive(42, 400).expect("no failure so early");
    assert!(events > 200, "{events} events");
}

/// One seed is one run.
#[test]
fn one_seed_repeats_itself() {
    let inputs = |seed| {
        let mut world = World::new(seed);
        (0..500)
            .map(|_| {
                world.pass_time();
                format!("{:?}", world.input())
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(inputs(7), inputs(7));
    assert_ne!(inputs(7), inputs(8));
}
