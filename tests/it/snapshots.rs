//! Snapshots made by hand, for tests of everything that reads them.

use std::sync::Arc;
use std::time::Instant;

use lockwatch::published::{Published, ReloadStatus};
use lockwatch_model::input::Generation;
use lockwatch_model::reading::{Holder, Mode};
use lockwatch_model::snapshot::{Durations, HoldView, RedisTotals, RedisView, Snapshot, SwitchView, TaskView, Totals};
use lockwatch_model::spec::{
    ClaimsSpec, Codec, LockSpec, ProgressSource, ProgressSpec, RedisIndex, RedisSpec, SchemeKind, TaskSpec,
    WantedSource, WantedSpec,
};
use lockwatch_model::time::{AgentWall, Mono, ServerTime};
use lockwatch_model::verdict::{LockFact, Rule, Verdict, Wanted};

/// The agent's wall clock of every snapshot made here.
pub(crate) const WALL: AgentWall = AgentWall(1_800_000_000_123);
/// The agent's own clock of every snapshot made here.
pub(crate) const NOW: Mono = Mono(1_000_000);

pub(crate) const RELOAD: ReloadStatus = ReloadStatus { successful: true, success_at: AgentWall(1_799_999_000_000) };

pub(crate) fn published(tasks: Vec<TaskView>, redises: Vec<RedisView>) -> Arc<Published> {
    let tasks = tasks.into_iter().map(Arc::new).collect();
    let redises = redises.into_iter().map(Arc::new).collect();
    let snapshot = Snapshot { at: NOW, sequence: 7, tasks, redises };
    Arc::new(Published { snapshot, wall: WALL, made: Instant::now() })
}

/// A redis that was not asked yet.
pub(crate) fn new_redis(name: &str) -> RedisView {
    RedisView {
        spec: RedisSpec {
            name: name.into(),
            address: "10.0.0.5:6379".into(),
            db: 0,
            interval_ms: 1000,
            timeout_ms: 3000,
            assume_master: false,
        },
        up: None,
        unknown: None,
        role: None,
        role_verified: None,
        last_success: None,
        clock_offset_ms: None,
        generation: None,
        version: None,
        totals: RedisTotals::default(),
    }
}

/// A redis that answers.
pub(crate) fn good_redis(name: &str) -> RedisView {
    let mut totals = RedisTotals { reconnects: 1, skipped_ticks: 2, generation_changes: 3, ..RedisTotals::default() };
    totals.errors[4] = 5;
    [1, 1, 3, 30, 3000].into_iter().for_each(|ms| totals.sample_duration.observe(ms));
    RedisView {
        up: Some(true),
        role: Some("master"),
        role_verified: Some(true),
        last_success: Some(ServerTime(1_800_000_000_000)),
        clock_offset_ms: Some(-12),
        generation: Some(Arc::new(Generation {
            run_id: b"5f6e1c0a".to_vec(),
            replication_id: b"90ab12cd".to_vec(),
            flushes: 3,
            evictions: 9,
            started_empty: Some(true),
        })),
        version: Some("7.0.15".into()),
        totals,
        ..new_redis(name)
    }
}

/// A task with the least configuration, of which nothing was read yet.
pub(crate) fn new_task(name: &str) -> TaskView {
    TaskView {
        spec: Arc::new(TaskSpec::new(
            name,
            RedisIndex(0),
            LockSpec::new(format!("{name}:lock").as_bytes(), SchemeKind::Redisson),
        )),
        redis: "main".into(),
        verdict: Verdict::Unknown,
        rule: Rule::NothingYet,
        verdict_since: NOW,
        wanted: Wanted::Unset,
        switches: None,
        wanting_users: None,
        switch_key_seen: None,
        lost_users: Vec::new(),
        switches_unknown: None,
        lock_fact: LockFact::Unknown,
        held: None,
        unknown: None,
        last_reading: None,
        hold: None,
        waiters: None,
        fencing_token: None,
        lease_ms: None,
        renewal_period_ms: None,
        progress_moved: None,
        progress_missing: None,
        live_claims: Vec::new(),
        splits: Vec::new(),
        paused: None,
        durations: Durations::default(),
        totals: Totals::default(),
    }
}

/// A task that is free and unwanted.
pub(crate) fn stopped_task(name: &str) -> TaskView {
    TaskView {
        verdict: Verdict::Stopped,
        rule: Rule::FreeUnset,
        lock_fact: LockFact::Free,
        held: Some(false),
        last_reading: Some(Mono(NOW.0 - 250)),
        ..new_task(name)
    }
}

pub(crate) fn holder(client: &[u8]) -> Holder {
    Holder { client: client.to_vec(), thread: Some(b"47".to_vec()), entries: Some(2), secret: false }
}

/// A task with every field set that a task can have.
pub(crate) fn full_task(name: &str) -> TaskView {
    let mut view = stopped_task(name);
    let spec = Arc::make_mut(&mut view.spec);
    spec.wanted = Some(WantedSpec { source: WantedSource::Hash(b"outbound:users".to_vec()), codec: Codec::Raw });
    let source = ProgressSource::Key(b"outbound:last".to_vec());
    spec.progress = Some(ProgressSpec { source, stale_after_ms: 300_000 });
    spec.claims = Some(ClaimsSpec { key: b"lockwatch:claims".to_vec(), fresh_for_ms: 10_000 });
    spec.hosts = Some(b"lockwatch:hosts".to_vec());
    spec.paused_until = Some(b"outbound:pause".to_vec());
    spec.max_hold_ms = Some(43_200_000);
    spec.labels = vec![("team".into(), "logistics".into()), ("severity".into(), "critical".into())];
    let switch = |user: &str, on| SwitchView { user: user.into(), on, fits: None };
    TaskView {
        verdict: Verdict::Running,
        rule: Rule::HeldWanted,
        verdict_since: Mono(NOW.0 - 61_000),
        wanted: Wanted::Yes,
        wanting_users: Some(1),
        switches: Some(vec![
            switch("anna", Some(true)),
            switch("bert", Some(false)),
            SwitchView { fits: Some(Codec::Kryo5), ..switch("c\u{202e}laire", None) },
        ]),
        switch_key_seen: Some(true),
        lost_users: vec![b"dora".to_vec()],
        lock_fact: LockFact::Held,
        held: Some(true),
        hold: Some(hold(vec![(holder(b"3f2b9c1e-client"), Some(b"srv-a".to_vec()))])),
        waiters: Some(1),
        fencing_token: Some(-42),
        lease_ms: Some(30_000),
        renewal_period_ms: Some(10_000),
        progress_moved: Some(ServerTime(1_799_999_990_500)),
        live_claims: vec![b"srv-a".to_vec()],
        paused: Some(false),
        durations: durations(),
        totals: totals(),
        ..view
    }
}

pub(crate) fn hold(holders: Vec<(Holder, Option<Vec<u8>>)>) -> HoldView {
    HoldView {
        mode: Mode::Exclusive,
        holders,
        ghosts: 0,
        acquired: Some(ServerTime(1_799_999_939_000)),
        held_ms: 61_123,
        last_renewal: Some(ServerTime(1_799_999_999_004)),
        deadline: Some(ServerTime(1_800_000_029_004)),
        ttl_ms: Some(28_881),
        persistent: Some(false),
        last_renewal_latency_ms: Some(4),
        last_renewal_margin_ms: Some(19_996),
        renewal_overdue_ms: 0,
    }
}

fn durations() -> Durations {
    Durations { down_ms: 1, split_ms: 20, stalled_ms: 300, unwanted_ms: 4_000, blind_ms: 50_000, switches_lost_ms: 6 }
}

fn totals() -> Totals {
    let mut totals = Totals {
        wanted_ms: 86_400_000,
        down_ms: 61_500,
        outage_ms: 33_000,
        split_ms: 7,
        blind_ms: 3_000,
        splits: [1, 2, 3],
        renewals: 8_640,
        shortened: 4,
        acquisitions: 5,
        ends: [1, 2, 3, 4, 5],
        holds_lost: 2,
        token_resets: 1,
        phantom_holds: 6,
        ..Totals::default()
    };
    [400, 2_000, 61_000, 900_000].into_iter().for_each(|ms| totals.handovers.observe(ms));
    totals.outages.observe(33_000);
    [0, 4, 25, 26, 40_000].into_iter().for_each(|ms| totals.renewal_latency.observe(ms));
    totals
}
