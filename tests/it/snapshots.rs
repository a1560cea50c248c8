//! Hand-made snapshots, for tests of everything that reads them.

use std::sync::Arc;
use std::time::Instant;

use lockwatch::outputs::metrics::Own;
use lockwatch::paths::Links;
use lockwatch::published::{Published, ReloadStatus};
use lockwatch_judge::event::{Party, SplitKind};
use lockwatch_judge::input::{Announcer, Generation, Input, Role, WakeUpState, WakeUps};
use lockwatch_judge::reading::{Holder, Mode, Unknown};
use lockwatch_judge::seldom::{Absent, Seldom};
use lockwatch_judge::snapshot::{
    Durations, ExecutionView, Grounds, HoldView, KindView, LastHold, LockView, MemberView,
    NodeView, OrphanView, ProgressView, QueueView, Rare, RareLockView, RareTotals, Snapshot,
    StoreGrounds, StoreTotals, StoreView, SwitchView, Taken, TaskView, Totals, TurnView,
    WantingView, WitnessView,
};
use lockwatch_judge::spec::{
    Authority, ClaimsSpec, Codec, KeyPattern, KindSpec, Moves, ProgressSource, ProgressSpec,
    QueueSpec, StoreIndex, StoreSpec, TaskSpec, TurnSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_judge::state::State;
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};
use lockwatch_judge::verdict::{LockFact, Rule, TurnFact, Verdict, Wanted, rules};
use lockwatch_watch::redis::{RedisKind, libraries};

/// The rule of the verdict with this name.
pub(crate) fn verdict_rule(name: &str) -> &'static Rule {
    rules().find(|rule| rule.name == name).unwrap()
}

/// The agent's wall clock in all these snapshots.
pub(crate) const WALL: AgentWall = AgentWall(1_800_000_000_123);
/// The agent's monotonic clock in all these snapshots.
pub(crate) const NOW: Mono = Mono::at(1_000_000);

pub(crate) const RELOAD: ReloadStatus = ReloadStatus {
    successful: true,
    success_at: AgentWall(1_799_999_000_000),
    tasks: 0x1f2e3d,
    links: Links::NONE,
};
/// And what it counts of itself.
pub(crate) const OWN: Own = Own { reload: RELOAD, log_lines_lost: 0 };

pub(crate) fn published(tasks: Vec<TaskView>, redises: Vec<StoreView>) -> Arc<Published> {
    let tasks = tasks.into_iter().map(Arc::new).collect();
    let redises = redises.into_iter().map(Arc::new).collect();
    let snapshot = Snapshot { at: NOW, sequence: 7, tasks, stores: redises };
    Arc::new(Published {
        snapshot,
        wall: WALL,
        made: Instant::now(),
        patterns: Arc::default(),
        drill: None,
    })
}

/// A redis that has not been read yet.
pub(crate) fn new_redis(name: &str) -> StoreView {
    StoreView {
        spec: RedisKind::Standalone.store(name, &["10.0.0.5:6379"]),
        readable: None,
        unknown: None,
        blind_ms: 0,
        masters: None,
        nodes: vec![new_node("10.0.0.5:6379")],
        announcers: Vec::new(),
        said: Arc::default(),
        uncovered: 0,
        generations: Vec::new(),
        totals: StoreTotals::default(),
        grounds: StoreGrounds::default(),
    }
}

/// A server that has not been read yet.
fn new_node(address: &str) -> NodeView {
    NodeView {
        address: address.into(),
        decides: true,
        up: None,
        unknown: None,
        role: None,
        role_verified: None,
        last_success: None,
        refuses_writes: None,
        clock_offset_ms: None,
        locks_behind: None,
        deadline_lag_ms: None,
        version: None,
        wake_ups: Some(WakeUps::default()),
    }
}

/// A deciding master.
pub(crate) fn good_node(address: &str) -> NodeView {
    NodeView {
        up: Some(true),
        role: Some(Role::Master),
        role_verified: Some(true),
        last_success: Some(ServerTime::at(1_800_000_000_000)),
        refuses_writes: None,
        clock_offset_ms: Some(-12),
        version: Some("7.0.15".into()),
        wake_ups: Some(WakeUps {
            state: WakeUpState::On,
            connects: 3,
            read: 40,
            coalesced: 500,
            foreign: 6,
        }),
        ..new_node(address)
    }
}

/// A replica, whose replies are evidence only.
pub(crate) fn replica(address: &str) -> NodeView {
    NodeView {
        decides: false,
        role: Some(Role::Replica),
        refuses_writes: None,
        clock_offset_ms: Some(2_500),
        locks_behind: Some(2),
        deadline_lag_ms: Some(1_250),
        wake_ups: None,
        ..good_node(address)
    }
}

/// A healthy redis.
pub(crate) fn good_redis(name: &str) -> StoreView {
    let mut totals = StoreTotals {
        reconnects: 1,
        skipped_ticks: 2,
        generation_changes: 3,
        ..StoreTotals::default()
    };
    totals.errors[4] = 5;
    [1, 1, 3, 30, 3000].into_iter().for_each(|ms| totals.sample_duration.observe(ms));
    StoreView {
        readable: Some(true),
        masters: Some(1),
        nodes: vec![good_node("10.0.0.5:6379")],
        generations: vec![generation(b"90ab12cd")],
        totals,
        ..new_redis(name)
    }
}

fn generation(replication_id: &[u8]) -> Arc<Generation> {
    Arc::new(Generation {
        process: b"5f6e1c0a".to_vec(),
        history: replication_id.to_vec(),
        flushes: 3,
        evictions: 9,
        started_empty: Some(true),
        ..Generation::default()
    })
}

/// A redis with Sentinels after a failover: the old master came back as a master, a replica lags,
/// another is down, and one Sentinel does not know of the failover yet.
pub(crate) fn sentinel_redis(name: &str) -> StoreView {
    let says = |address: &str, master| Announcer { address: address.into(), master };
    let new_master = || Some(Ok("10.0.0.6:6379".into()));
    let mut redis = good_redis(name);
    redis.spec = RedisKind::Sentinel.store(name, &[]);
    redis.spec.addresses = ["10.0.0.5:26379", "10.0.0.6:26379", "10.0.0.7:26379", "10.0.0.8:26379"]
        .map(Into::into)
        .into();
    redis.totals.fates = [7, 1, 2, 3, 4];
    let lost =
        NodeView { up: Some(false), unknown: Some(Unknown::Connect), ..replica("10.0.0.8:6379") };
    StoreView {
        masters: Some(2),
        nodes: vec![
            NodeView { decides: false, ..good_node("10.0.0.5:6379") },
            NodeView { clock_offset_ms: Some(700), ..good_node("10.0.0.6:6379") },
            replica("10.0.0.7:6379"),
            NodeView { locks_behind: None, deadline_lag_ms: None, ..lost },
        ],
        announcers: vec![
            says("10.0.0.5:26379", Some(Ok("10.0.0.5:6379".into()))),
            says("10.0.0.6:26379", new_master()),
            says("10.0.0.7:26379", new_master()),
            says("10.0.0.8:26379", Some(Err(Unknown::Timeout))),
        ],
        ..redis
    }
}

/// A cluster of two shards, one of which does not answer.
pub(crate) fn cluster_redis(name: &str) -> StoreView {
    let mut redis = good_redis(name);
    redis.spec = RedisKind::Cluster.store(name, &[]);
    redis.spec.addresses = vec!["10.0.1.1:6379".into(), "10.0.1.2:6379".into()];
    StoreView {
        readable: Some(false),
        unknown: Some(Unknown::Timeout),
        blind_ms: 75_000,
        nodes: vec![
            good_node("10.0.1.1:6379"),
            NodeView {
                up: Some(false),
                unknown: Some(Unknown::Timeout),
                ..good_node("10.0.1.2:6379")
            },
        ],
        uncovered: 12,
        generations: vec![generation(b"90ab12cd"), generation(b"17c0ffee")],
        ..redis
    }
}

/// Another server's state of a task's lock.
pub(crate) fn witness(node: &str, role: Role, holders: Option<Vec<Holder>>) -> WitnessView {
    WitnessView { node: node.into(), role, at: Mono::at(NOW.ms() - 750), holders, behind_ms: None }
}

/// A task with minimal configuration, all of whose metrics are shown, that has not been read yet.
pub(crate) fn new_task(name: &str) -> TaskView {
    let lock = libraries::lock(format!("{name}:lock").as_bytes(), "redisson");
    let spec = TaskSpec { full_metrics: true, ..TaskSpec::new(name, StoreIndex(0), lock) };
    let stores = vec![StoreSpec::new("main", Authority::ALONE, &["10.0.0.5:6379"])];
    let watched = WatchSpec { stores, tasks: vec![Arc::new(spec)], epoch: 0 };
    let mut state = State::new();
    let _events = state.step(NOW, Input::Config(Arc::new(watched)));
    let view = TaskView::clone(state.snapshot(NOW).tasks.first().unwrap());
    TaskView { key_seen: true, unknown: None, ..view }
}

/// A free task that is not wanted.
pub(crate) fn stopped_task(name: &str) -> TaskView {
    TaskView {
        verdict: Verdict::Stopped,
        rule: verdict_rule("free_unset"),
        held: Some(false),
        node: Some("10.0.0.5:6379".into()),
        last_reading: Some(Mono::at(NOW.ms() - 250)),
        kind: KindView::Lock(LockView { fact: LockFact::Free, ..LockView::default() }),
        ..new_task(name)
    }
}

/// Tasks that take turns, of which one is late.
pub(crate) fn turn_task(name: &str) -> TaskView {
    let mut view = stopped_task(name);
    let participants = ["a", "b", "c", "d", "e", "f", "g", "h"];
    Arc::make_mut(&mut view.spec).kind = KindSpec::Turn(TurnSpec::new(b"turns", &participants));
    let turn = TurnView {
        fact: TurnFact::Somebody,
        name: Some(b"a".to_vec()),
        from: Some(ServerTime::at(1_800_000_000_000)),
        fields: Some(1),
        late_ms: 4_000,
        taken: participants
            .map(|name| Taken { name: name.into(), turns: u64::from(name == "a") })
            .into(),
        out_of_order: Some(0),
        unknown_names: 0,
    };
    (view.verdict, view.rule, view.held) =
        (Verdict::Running, verdict_rule("turn_unset"), Some(true));
    TaskView { kind: KindView::Turn(Box::new(turn)), ..view }
}

/// A queue with everything that can be known of it.
pub(crate) fn queue_task(name: &str) -> TaskView {
    let mut view = stopped_task(name);
    let lock = KeyPattern::parse(b"lock_{id}").unwrap();
    Arc::make_mut(&mut view.spec).kind = KindSpec::Queue(QueueSpec::new(b"tasks", lock, "string"));
    let execution = |is_dead| ExecutionView {
        holders: [(holder(b"A"), Some(b"wh-app-01".to_vec()))].into(),
        until: Some(ServerTime::at(1_800_000_060_000)),
        is_dead,
    };
    let member = |id: &[u8], due, execution| MemberView {
        id: id.to_vec(),
        due: ServerTime::at(due),
        execution,
        is_unread: false,
        free_ms: 5_000,
    };
    let at_work = member(b"m\n1", 0, Some(execution(true)));
    let waits = member(b"m2", 1_799_999_995_000, None);
    let queue = QueueView {
        members: Some(9),
        due: Some(2),
        next: Some(ServerTime::at(1_800_000_010_000)),
        executing: Some(1),
        more: Some(false),
        oldest_due_ms: Some(5_000),
        late_ms: 0,
        moved: Some(ServerTime::at(1_799_999_990_000)),
        first: [at_work, waits].into(),
        orphans: [OrphanView { id: b"m0".to_vec(), execution: execution(false) }].into(),
        departed: 7,
        departed_locked: 5,
        vanished: 2,
        executed_again: 1,
        expired: 1,
        orphaned: 1,
    };
    (view.verdict, view.rule, view.held) =
        (Verdict::Running, verdict_rule("queue_unset"), Some(true));
    TaskView { kind: KindView::Queue(Box::new(queue)), ..view }
}

pub(crate) fn holder(client: &[u8]) -> Holder {
    Holder {
        client: client.to_vec(),
        thread: Some(b"47".to_vec()),
        entries: Some(2),
        secret: false,
    }
}

/// A task with every possible field set.
pub(crate) fn full_task(name: &str) -> TaskView {
    let mut view = stopped_task(name);
    let spec = Arc::make_mut(&mut view.spec);
    spec.wanted = Some(WantedSpec {
        source: WantedSource::Hash(b"outbound:users".to_vec()),
        codec: Codec::Raw,
    });
    let source = ProgressSource::Key(b"outbound:last".to_vec());
    spec.progress = Some(ProgressSpec { source, moves: None, stale_after_ms: 300_000 }.into());
    spec.claims =
        Some(ClaimsSpec { key: b"lockwatch:claims".to_vec(), fresh_for_ms: 10_000 }.into());
    spec.hosts = Some(b"lockwatch:hosts".to_vec());
    spec.paused_until = Some(b"outbound:pause".to_vec());
    spec.max_hold_ms = Some(43_200_000);
    spec.labels = vec![("team".into(), "logistics".into()), ("severity".into(), "critical".into())];
    let switch = |user: &str, on| SwitchView { user: user.into(), on, fits: None };
    TaskView {
        verdict: Verdict::Running,
        rule: verdict_rule("held_wanted"),
        verdict_since: Mono::at(NOW.ms() - 61_000),
        wanted: Wanted::Yes,
        wanting: Seldom::new(WantingView {
            users: Some(1),
            switches: Some(
                [
                    switch("anna", Some(true)),
                    switch("bert", Some(false)),
                    SwitchView { fits: Some(Codec::Kryo5), ..switch("c\u{202e}laire", None) },
                ]
                .into(),
            ),
            lost_users: [b"dora".to_vec()].into(),
        }),
        switch_key_seen: Some(true),
        held: Some(true),
        kind: KindView::Lock(LockView {
            fact: LockFact::Held,
            hold: Some(hold(vec![(holder(b"3f2b9c1e-client"), Some(b"srv-a".to_vec()))])),
            last: Some(Arc::new(LastHold {
                holders: vec![party(b"before")],
                seen: ServerTime::at(1_799_999_938_000),
            })),
            waiters: Some(1),
            lease_ms: Some(30_000),
            renewal_period_ms: Some(10_000),
            rare: Seldom::new(RareLockView {
                fencing_token: Some(-42),
                queue: None,
                witnesses: vec![WitnessView {
                    behind_ms: Some(1_250),
                    ..witness(
                        "10.0.0.7:6379",
                        Role::Replica,
                        Some(vec![holder(b"3f2b9c1e-client")]),
                    )
                }],
                runs: None,
                stores: None,
            }),
            ..LockView::default()
        }),
        progress: Some(Box::new(ProgressView {
            moved: Some(ServerTime::at(1_799_999_990_500)),
            by: Some(Moves::Value),
            has_ttl: Some(false),
            ..ProgressView::default()
        })),
        live_claims: [holder(b"srv-a")].into(),
        paused: Some(false),
        durations: Seldom::new(durations()),
        totals: Arc::new(totals()),
        grounds: grounds(),
        ..view
    }
}

pub(crate) fn hold(holders: Vec<(Holder, Option<Vec<u8>>)>) -> HoldView {
    HoldView {
        mode: Mode::Exclusive,
        holders: holders.into_iter().collect(),
        ghosts: 0,
        acquired: Some(ServerTime::at(1_799_999_939_000)),
        held_ms: 61_123,
        last_renewal: Some(ServerTime::at(1_799_999_999_004)),
        deadline: Some(ServerTime::at(1_800_000_029_004)),
        ttl_ms: Some(28_881),
        persistent: Some(false),
        last_renewal_latency_ms: Some(4),
        last_renewal_margin_ms: Some(19_996),
        renewal_overdue_ms: 0,
    }
}

fn party(client: &[u8]) -> Party {
    Party { holder: holder(client), node: None, host: Some(b"srv-a".to_vec()) }
}

fn grounds() -> Grounds {
    let rare = Rare {
        lock_lost: Some(Mono::at(NOW.ms() - 61_500)),
        lease_expired: Some(Mono::at(NOW.ms() - 800_000)),
        split: Some(Mono::at(NOW.ms() - 700_000)),
        split_by: Some((SplitKind::Claims, vec![party(b"3f2b9c1e-client"), party(b"other")])),
        ..Rare::default()
    };
    Grounds {
        readable: true,
        was_readable: true,
        settled: true,
        moves: true,
        rare: Some(Arc::new(rare)),
        ..Grounds::default()
    }
}

fn durations() -> Durations {
    Durations {
        down_ms: 1,
        split_ms: 20,
        stalled_ms: 300,
        unwanted_ms: 4_000,
        blind_ms: 50_000,
        switches_lost_ms: 6,
    }
}

fn totals() -> Totals {
    let rare = RareTotals {
        wanted_ms: 86_400_000,
        down_ms: 61_500,
        outage_ms: 33_000,
        split_ms: 7,
        splits: [1, 4, 2, 3, 0, 0],
        shortened: 4,
        holds_lost: 2,
        token_resets: 1,
        phantom_holds: 6,
        ..RareTotals::ABSENT.clone()
    };
    let mut totals = Totals {
        renewals: 8_640,
        acquisitions: 5,
        blind_ms: 3_000,
        ends: [1, 2, 3, 4, 5],
        rare: Seldom::new(rare),
        ..Totals::default()
    };
    [400, 2_000, 61_000, 900_000].into_iter().for_each(|ms| totals.rare.handovers.observe(ms));
    totals.rare.outages.observe(33_000);
    [0, 4, 25, 26, 40_000].into_iter().for_each(|ms| totals.renewal_latency.observe(ms));
    totals
}
