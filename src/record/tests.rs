//! A recording gives back what was recorded, except for secrets, and the reader reports every kind
//! of damage to its files.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use fastrand::Rng;
use lockwatch_judge::input::{
    Announcer, Attestation, Fork, Generation, Input, NodeNews, NodeNewsKind, Outcome, Refusal,
    Role, SaidOf, Sample, Standing, Topology, WakeUpState, WakeUps,
};
use lockwatch_judge::limit::OF_TASK;
use lockwatch_judge::reading::{
    ClaimsReading, Contender, Deadline, Ended, Ends, Extras, GuardRuns, Held, Holder, LockReading,
    Mode, Overrun, Parts, PauseReading, ProgressReading, ProgressValue, RunsReading, Stands,
    Switch, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_judge::spec::{
    ClaimsSpec, Codec, LockSpec, Moves, ProgressSource, ProgressSpec, StoreIndex, StoreSpec,
    TaskIndex, TaskSpec, ValuePath, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};
use lockwatch_watch::redis::{RedisKind, libraries};
use tempfile::TempDir;

use super::reader::{self, Entry};
use super::redact::Redactor;
use super::writer::Writer;
use super::{Backlog, Message, QUEUED_BYTES_MAX, RecordOptions, Recorder, wire};

const TASKS: u32 = 6;

/// Random inputs.
struct Source {
    random: Rng,
    config: Arc<WatchSpec>,
}

impl Source {
    fn new(seed: u64) -> Source {
        let mut source = Source { random: Rng::with_seed(seed), config: Arc::default() };
        source.config = source.config();
        source
    }

    fn pick<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.random.usize(0..choices.len())].clone()
    }

    fn maybe<T>(&mut self, value: impl FnOnce(&mut Source) -> T) -> Option<T> {
        self.random.bool().then(|| value(self))
    }

    fn list<T>(&mut self, mut value: impl FnMut(&mut Source) -> T) -> Vec<T> {
        (0..self.random.usize(0..3)).map(|_| value(self)).collect()
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.pick(&[&b"abc"[..], b"", b"\xff\x00", "\"ü\n".as_bytes(), b"7", b"{\"hex\":1}"])
            .to_vec()
    }

    fn text(&mut self) -> Arc<str> {
        self.pick(&["10.0.0.1:6379", "[::1]:7000", "\u{202e}\"\\"]).into()
    }

    fn ms(&mut self) -> u64 {
        self.pick(&[0, 1, 20_000, u64::MAX])
    }

    fn unknown(&mut self) -> Unknown {
        self.pick(&Unknown::ALL)
    }

    fn config(&mut self) -> Arc<WatchSpec> {
        let redises = (0..2).map(|_| self.redis()).collect();
        let tasks = (0..TASKS).map(|number| Arc::new(self.task(number))).collect();
        Arc::new(WatchSpec { stores: redises, tasks, epoch: self.random.u32(..) })
    }

    fn redis(&mut self) -> StoreSpec {
        StoreSpec {
            name: self.text(),
            kind: self.text(),
            authority: self.pick(&RedisKind::ALL).authority(),
            addresses: self.list(Source::text),
            db: self.random.u32(..),
            interval_ms: self.ms(),
            timeout_ms: self.ms(),
        }
    }

    fn task(&mut self, number: u32) -> TaskSpec {
        let key = self.bytes();
        let sources = [
            WantedSource::Hash(key.clone()),
            WantedSource::Set(key.clone()),
            WantedSource::Counter(key.clone()),
            WantedSource::Keys(vec![key.clone(), b"other".to_vec()]),
            WantedSource::Always,
            WantedSource::Never,
        ];
        let progress = [
            ProgressSource::HashField { key: key.clone(), field: self.bytes() },
            ProgressSource::Key(key.clone()),
            ProgressSource::Length(key.clone()),
            ProgressSource::Score { key: key.clone(), member: self.bytes() },
            ProgressSource::Stream(key.clone()),
        ];
        let lock = LockSpec {
            lease_ms: self.maybe(Source::ms),
            renew_every_ms: self.maybe(Source::ms),
            field: self.maybe(Source::bytes),
            host: self.maybe(|source| ValuePath::Json(source.pick(&["/host", ""]).into()).into()),
            ..libraries::lock(&key, self.pick(&libraries::ALL).name())
        };
        let store = StoreIndex(self.random.u16(0..2));
        let mut spec = TaskSpec {
            wanted: self.maybe(|source| WantedSpec {
                source: source.pick(&sources),
                codec: source.pick(&Codec::ALL),
            }),
            progress: self.maybe(|source| {
                Box::new(ProgressSpec {
                    source: source.pick(&progress),
                    moves: source.pick(&[None, Some(Moves::Value), Some(Moves::Deadline)]),
                    stale_after_ms: source.ms(),
                })
            }),
            claims: self.maybe(|source| {
                ClaimsSpec { key: source.bytes(), fresh_for_ms: source.ms() }.into()
            }),
            hosts: self.maybe(Source::bytes),
            paused_until: self.maybe(Source::bytes),
            labels: self.list(|source| (source.text(), source.text())),
            ..TaskSpec::new(&format!("task {number}"), store, lock)
        };
        for limit in OF_TASK {
            self.maybe(Source::ms).map(|ms| limit.set(&mut spec, ms));
        }
        spec
    }

    fn input(&mut self) -> Input {
        let epoch = self.config.epoch;
        let redis = StoreIndex(self.random.u16(0..2));
        match self.random.u32(0..40) {
            0 => {
                self.config = self.config();
                Input::Config(Arc::clone(&self.config))
            }
            1..5 => Input::Tick,
            5..8 => {
                Input::Node(NodeNews { epoch, store: redis, node: self.text(), kind: self.news() })
            }
            8..10 => Input::Topology(Topology {
                epoch,
                store: redis,
                masters: if self.random.bool() {
                    Ok(self.list(Source::text))
                } else {
                    Err(self.unknown())
                },
                nodes: self.list(Source::text),
                announcers: self
                    .list(|source| Announcer { address: source.text(), master: source.word() }),
                uncovered: self.random.u32(0..3),
            }),
            _ => Input::Sample(Sample {
                epoch,
                store: redis,
                node: self.maybe(Source::text),
                standing: self.pick(&[Standing::Decides, Standing::Witness]),
                sent: Mono::at(self.random.u64(0..1_000)),
                took_ms: self.ms(),
                outcome: self.outcome(),
            }),
        }
    }

    fn word(&mut self) -> Option<Result<Arc<str>, Unknown>> {
        let word = if self.random.bool() { Ok(self.text()) } else { Err(self.unknown()) };
        self.random.bool().then_some(word)
    }

    fn wake_ups(&mut self) -> NodeNewsKind {
        let state = self.pick(&WakeUpState::ALL);
        let mut count = || self.random.u64(..3);
        let all = WakeUps {
            state,
            connects: count(),
            read: count(),
            coalesced: count(),
            foreign: count(),
        };
        NodeNewsKind::WakeUps(self.random.bool().then_some(all))
    }

    fn news(&mut self) -> NodeNewsKind {
        let (version, role) = (self.maybe(Source::text), self.maybe(Source::role));
        let (why, wake_ups) = (self.unknown(), self.wake_ups());
        let connected = NodeNewsKind::Connected { version, role };
        let said = NodeNewsKind::Said { why, words: self.text() };
        let failed = NodeNewsKind::Failed { why };
        let (task, words) = (TaskIndex(self.random.u32(..)), self.text());
        let said_of = NodeNewsKind::SaidOf(vec![SaidOf { task, why, words }]);
        self.pick(&[connected, failed, said, said_of, NodeNewsKind::TickSkipped, wake_ups])
    }

    fn role(&mut self) -> Role {
        self.pick(&[Role::Master, Role::Replica])
    }

    fn tasks(&mut self) -> Vec<TaskIndex> {
        let step = self.pick(&[1, 2]);
        (self.random.u32(0..2)..TASKS).step_by(step).map(TaskIndex).collect()
    }

    fn outcome(&mut self) -> Outcome {
        let tasks = self.tasks();
        match self.random.u32(0..8) {
            0 => Outcome::Failed { tasks, why: self.unknown() },
            1 => Outcome::Parts {
                attestation: self.maybe(Source::attestation),
                readings: tasks.into_iter().map(|task| (task, self.parts())).collect(),
            },
            _ => Outcome::Read {
                attestation: self.attestation(),
                readings: tasks.into_iter().map(|task| (task, self.reading())).collect(),
            },
        }
    }

    fn attestation(&mut self) -> Attestation {
        Attestation {
            first: ServerTime::at(self.random.i64(..)),
            last: ServerTime::at(self.random.i64(..)),
            role: self.role(),
            role_verified: self.random.bool(),
            offset: self.maybe(Source::ms),
            refuses_writes: self.maybe(|source| source.pick(&Refusal::ALL)),
            replicas: self.list(Source::text),
            generation: self.maybe(|source| Generation {
                process: source.pick(&[&b"run"[..], b""]).to_vec(),
                history: source.pick(&[&b"r1"[..], b"r2"]).to_vec(),
                forked_from: source.maybe(|source| Fork {
                    history: source.pick(&[&b"r1"[..], b"r2"]).to_vec(),
                    offset: source.ms(),
                }),
                flushes: source.pick(&[0, 1]),
                slot_flushes: source.pick(&[0, 1]),
                evictions: source.ms(),
                evicts_only_with_ttl: source.random.bool(),
                started_empty: source.pick(&[None, Some(true)]),
            }),
            clock_offset_ms: self.random.i64(..),
        }
    }

    fn reading(&mut self) -> TaskReading {
        let held = Held {
            mode: self.pick(&[Mode::Exclusive, Mode::Write, Mode::Read]),
            holders: self.list(|source| Holder {
                client: source.bytes(),
                thread: source.maybe(Source::bytes),
                entries: source.pick(&[None, Some(1)]),
                secret: source.random.bool(),
            }),
            ghosts: self.pick(&[0, 2]),
            deadline: self.pick(&[
                Deadline::At(ServerTime::at(5)),
                Deadline::At(ServerTime::at(i64::MAX)),
                Deadline::At(ServerTime::at(i64::MIN)),
                Deadline::Never,
                Deadline::Torn,
            ]),
        };
        let why = self.unknown();
        let lock = self.pick(&[
            held.clone().into(),
            held.into(),
            LockReading::Free,
            LockReading::Unknown(why),
        ]);
        let extras = Extras {
            waiters: self.maybe(Source::ms),
            fencing_token: self.maybe(|source| source.random.i64(..)),
            queue: self.maybe(|source| Arc::new(source.list(Source::contender))),
        };
        TaskReading::of_lock(lock, extras, self.parts())
    }

    fn contender(&mut self) -> Contender {
        Contender {
            name: self.bytes(),
            stands: self.pick(&[Stands::Holds, Stands::Waits, Stands::Blocks]),
            session: self.maybe(Source::bytes),
            since: self.maybe(|source| source.pick(&[ServerTime::at(7), ServerTime::at(-1)])),
            says: self.maybe(Source::bytes),
        }
    }

    fn parts(&mut self) -> Parts {
        let why = self.unknown();
        let value = ProgressValue {
            bytes: self.bytes(),
            own: Ok(self.pick(&[Deadline::Never, Deadline::Torn, Deadline::At(ServerTime::at(7))])),
            whole: self.pick(&[Deadline::Never, Deadline::At(ServerTime::at(9))]),
        };
        let read = SwitchesReading::Read {
            switches: self.list(|source| {
                let undecodable = Switch::Undecodable {
                    value: source.bytes(),
                    fits: source.pick(&[None, Some(Codec::Jdk)]),
                };
                (source.bytes(), source.pick(&[Switch::On, Switch::Off, undecodable]))
            }),
            key_exists: self.random.bool(),
            counted: self.maybe(Source::ms),
            whole: self.random.bool(),
            ends: Ends {
                key: self.pick(&[Deadline::Never, Deadline::Torn, Deadline::At(ServerTime::at(7))]),
                own: self.list(|source| (source.bytes(), ServerTime::at(source.random.i64(..)))),
            },
        };
        let pairs = self.list(|source| (source.bytes(), source.bytes()));
        Parts {
            switches: self.pick(&[None, Some(read), Some(SwitchesReading::Unknown(why))]),
            progress: self.pick(&[
                None,
                Some(ProgressReading::Value(value.clone())),
                Some(ProgressReading::Value(ProgressValue { own: Err(why), ..value })),
                Some(ProgressReading::Absent),
                Some(ProgressReading::Unknown(why)),
            ]),
            claims: self.pick(&[
                None,
                Some(ClaimsReading::Read(pairs.clone())),
                Some(ClaimsReading::Unknown(why)),
            ]),
            overruns: self.list(|source| Overrun {
                instance: source.bytes(),
                token: source.ms(),
                ms: source.ms(),
            }),
            runs: RunsReading {
                guards: self.list(|source| GuardRuns {
                    instance: source.bytes(),
                    host: source.bytes(),
                    ended: source.list(|source| Ended {
                        from: ServerTime::at(source.random.i64(..)),
                        to: ServerTime::at(source.random.i64(..)),
                        code: source.pick(&[0, 1, 255]),
                        asked: source.pick(&[true, false]),
                    }),
                    since: source.pick(&[None, Some(ServerTime::at(7))]),
                }),
                unreadable: self.pick(&[0, 3]),
            },
            hosts: self.pick(&[None, Some(Ok(pairs)), Some(Err(why))]),
            pause: self.pick(&[
                None,
                Some(PauseReading::None),
                Some(PauseReading::Until(ServerTime::at(-3))),
                Some(PauseReading::Undecodable),
                Some(PauseReading::Unknown(why)),
            ]),
        }
    }
}

fn redacted(redactor: &Redactor, config: &WatchSpec, input: &Input) -> Input {
    let mut input = input.clone();
    redactor.input(&mut input, config);
    input
}

#[test]
fn any_inputs_come_out_as_they_went_in_but_for_the_secrets() {
    for seed in 0..40 {
        let mut source = Source::new(seed);
        let redactor = Redactor::new([1; 32]);
        for _ in 0..300 {
            let input = source.input();
            let input = redacted(&redactor, &source.config, &input);
            let text =
                serde_json::to_vec(&wire::Line(1, wire::What::Input(input.clone()))).unwrap();
            let line = serde_json::from_slice(&text).unwrap_or_else(|error| {
                panic!("seed {seed}: {error}: {}", String::from_utf8_lossy(&text))
            });
            let wire::Line(1, wire::What::Input(read)) = line else { panic!("an input") };
            assert_eq!(read, input, "seed {seed}: {}", String::from_utf8_lossy(&text));
        }
    }
}

#[test]
fn what_the_format_does_not_know_is_refused() {
    for text in [
        r#"[1,"tock"]"#,
        r#"[1,{"input":"tock"}]"#,
        r#"[1,{"missing":{"inputs":1,"since":2,"more":3}}]"#,
        r#"[1,{"input":{"node":{"epoch":0,"redis":0,"node":"a","kind":{"failed":{"why":"sunspots"}}}}}]"#,
        r#"[1,{"input":"tick"},2]"#,
        r#"{"at":1}"#,
    ] {
        assert!(serde_json::from_str::<wire::Line>(text).is_err(), "{text}");
    }
}

fn message(at: u64, input: Input) -> Message {
    let (at, wall) = (Mono::at(at), AgentWall(1_790_000_000_000 + i64::try_from(at).unwrap()));
    Message { at, wall, missing: None, late: Vec::new(), input, weight: 0 }
}

fn options(folder: &TempDir, max_bytes: u64) -> RecordOptions {
    RecordOptions { folder: folder.path().join("recordings"), max_bytes }
}

/// All entries of a folder.
fn entries(options: &RecordOptions) -> Vec<(Mono, Entry)> {
    let (runs, _) = reader::find(std::slice::from_ref(&options.folder)).unwrap();
    let mut all = Vec::new();
    for run in runs {
        run.each(|instant, entry| {
            all.push((instant.at, entry));
            Ok(())
        })
        .unwrap();
    }
    all
}

fn folder_bytes(options: &RecordOptions) -> u64 {
    fs::read_dir(&options.folder)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum()
}

#[test]
fn files_rotate_the_oldest_go_and_the_rest_is_whole() {
    let folder = TempDir::new().unwrap();
    let options = options(&folder, 100_000);
    let mut writer = Writer::new(&options).unwrap();
    let mut source = Source::new(3);
    let mut config = Arc::clone(&source.config);
    writer.take(message(0, Input::Config(Arc::clone(&config))));
    let mut expected = Vec::new();
    for at in 1_000..7_000 {
        let input = source.input();
        if let Input::Config(new) = &input {
            config = Arc::clone(new);
        }
        expected.push((Mono::at(at), redacted(writer.redactor(), &config, &input)));
        writer.take(message(at, input));
        if at % 20 == 0 {
            writer.flush();
            assert!(folder_bytes(&options) <= options.max_bytes, "{}", folder_bytes(&options));
        }
    }
    writer.flush();
    assert!(fs::read_dir(&options.folder).unwrap().count() > 3);
    assert!(folder_bytes(&options) > options.max_bytes / 2);
    let (runs, _) = reader::find(std::slice::from_ref(&options.folder)).unwrap();
    assert!(runs.len() == 1 && runs[0].begins_in_the_middle());
    let all = entries(&options);
    assert!(matches!(&all[0], (_, Entry::Context(Input::Config(_)))));
    let inputs: Vec<_> = all
        .into_iter()
        .filter_map(|(at, all)| match all {
            Entry::Input(input) => Some((at, input)),
            Entry::Context(_) => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(inputs.len() > 100);
    assert_eq!(inputs, expected[expected.len() - inputs.len()..]);
}

#[test]
fn files_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TempDir::new().unwrap();
    let options = options(&folder, 1 << 20);
    let mut writer = Writer::new(&options).unwrap();
    writer.take(message(0, Input::Config(Arc::default())));
    writer.flush();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&options.folder), 0o700);
    let file = fs::read_dir(&options.folder).unwrap().next().unwrap().unwrap().path();
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn a_folder_that_goes_and_comes_back_leaves_a_hole_that_is_told() {
    let folder = TempDir::new().unwrap();
    let options = options(&folder, 1 << 20);
    let mut writer = Writer::retrying_at_once(&options);
    let config = |epoch| Input::Config(Arc::new(WatchSpec { epoch, ..WatchSpec::default() }));
    writer.take(message(0, config(1)));
    writer.flush();
    fs::remove_dir_all(&options.folder).unwrap();
    writer.take(message(1_000, Input::Tick));
    writer.flush();
    // A configuration that was dropped must still be known afterwards.
    writer.take(message(2_000, config(2)));
    writer.take(message(3_000, Input::Tick));
    fs::create_dir(&options.folder).unwrap();
    writer.take(message(4_000, Input::Tick));
    writer.flush();
    let all = entries(&options);
    let [
        (_, Entry::Context(Input::Config(spec))),
        (_, Entry::Missing { inputs, since }),
        (at, Entry::Input(Input::Tick)),
    ] = all.as_slice()
    else {
        panic!("{all:?}");
    };
    assert_eq!((spec.epoch, *inputs, *since, *at), (2, Some(3), Mono::at(1_000), Mono::at(4_000)));
}

/// As on a disk that stays full for days: the folder must not fill with empty files.
#[test]
fn a_disk_that_takes_nothing_gets_no_file_for_each_attempt() {
    let folder = TempDir::new().unwrap();
    let options = options(&folder, 1 << 20);
    let mut writer = Writer::retrying_at_once(&options);
    writer.take(message(0, Input::Config(Arc::default())));
    writer.flush();
    let files = || fs::read_dir(&options.folder).unwrap().count();
    assert_eq!(files(), 1);
    let sample = Sample {
        epoch: 0,
        store: StoreIndex(0),
        // Compressed, it is larger than the folder may be.
        node: Some(String::from_iter((0..2 << 20).map(|_| fastrand::alphanumeric())).into()),
        standing: Standing::Decides,
        sent: Mono::at(0),
        took_ms: 0,
        outcome: Outcome::Failed { tasks: Vec::new(), why: Unknown::Timeout },
    };
    for at in 1..10 {
        writer.take(message(at * 1_000, Input::Sample(sample.clone())));
        writer.flush();
    }
    assert_eq!(files(), 1, "what was written before is kept");
    writer.take(message(10_000, Input::Tick));
    writer.flush();
    let all = entries(&options);
    assert!(
        matches!(all.last(), Some((at, Entry::Input(Input::Tick))) if at.ms() == 10_000),
        "{all:?}"
    );
    let missing: Vec<_> =
        all.iter().filter(|(_, all)| matches!(all, Entry::Missing { .. })).collect();
    assert!(
        matches!(
            missing.as_slice(),
            [(_, Entry::Missing { inputs: Some(9), since })] if since.ms() == 1_000
        ),
        "{missing:?}"
    );
}

#[test]
fn what_finds_the_queue_full_is_counted_and_a_configuration_comes_late() {
    let folder = TempDir::new().unwrap();
    let options = options(&folder, 1 << 20);
    let (queue, messages) = mpsc::channel();
    let queued = Arc::new(AtomicU64::new(0));
    let (_finished, done) = mpsc::channel();
    let mut recorder = Recorder {
        queue: Some(queue),
        queued: Arc::clone(&queued),
        backlog: Backlog::default(),
        done,
    };
    let keep = |recorder: &mut Recorder, at, input: Input| {
        recorder.keep(Mono::at(at), AgentWall(0), &input)
    };
    keep(&mut recorder, 0, Input::Config(Arc::default()));
    queued.fetch_add(QUEUED_BYTES_MAX, Ordering::Relaxed);
    keep(&mut recorder, 1, Input::Tick);
    let spec = WatchSpec { epoch: 7, ..WatchSpec::default() };
    keep(&mut recorder, 2, Input::Config(Arc::new(spec.clone())));
    queued.fetch_sub(QUEUED_BYTES_MAX, Ordering::Relaxed);
    keep(&mut recorder, 3, Input::Tick);
    recorder.queue = None;
    Writer::new(&options).unwrap().run(&messages, &queued);
    assert_eq!(queued.load(Ordering::Relaxed), 0, "all that waited has been taken off");
    let all = entries(&options);
    let [
        (_, Entry::Input(Input::Config(_))),
        (_, Entry::Missing { inputs: Some(2), since }),
        (_, Entry::Input(Input::Config(late))),
        (_, Entry::Input(Input::Tick)),
    ] = all.as_slice()
    else {
        panic!("{all:?}");
    };
    assert_eq!((**late == spec, *since), (true, Mono::at(1)));
}

#[test]
fn a_file_that_is_missing_in_between_is_a_hole_and_so_is_a_torn_end() {
    let folder = TempDir::new().unwrap();
    let options = options(&folder, 2 << 20);
    let mut writer = Writer::new(&options).unwrap();
    let mut source = Source::new(9);
    writer.take(message(0, Input::Config(Arc::clone(&source.config))));
    for at in 1..3_000 {
        writer.take(message(at, source.input()));
        if at % 20 == 0 {
            writer.flush();
        }
    }
    writer.flush();
    let mut files: Vec<_> =
        fs::read_dir(&options.folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort_unstable();
    assert!(files.len() > 2, "{files:?}");
    fs::remove_file(&files[1]).unwrap();
    let last = files.last().unwrap();
    let whole = fs::read(last).unwrap();
    // More than the mark with which the compressor ends what is flushed.
    fs::write(last, &whole[..whole.len() - 50]).unwrap();
    let all = entries(&options);
    assert_eq!(
        all.iter().filter(|(_, all)| matches!(all, Entry::Missing { inputs: None, .. })).count(),
        1
    );
    assert_eq!(
        all.iter().filter(|(_, all)| matches!(all, Entry::Context(Input::Config(_)))).count(),
        1
    );
    assert!(matches!(all.last(), Some((_, Entry::Torn))));
}
