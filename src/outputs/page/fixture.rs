//! A task and a snapshot made by hand, for unit tests of the pages.

use std::sync::Arc;
use std::time::Instant;

use lockwatch_judge::reading::{Holder, Mode};
use lockwatch_judge::seldom::Seldom;
use lockwatch_judge::snapshot::{
    Grounds, HoldView, KindView, LockView, Snapshot, TaskView, TaskViews,
};
use lockwatch_judge::spec::{StoreIndex, TaskSpec};
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_judge::verdict::{LockFact, Rule, Verdict, Wanted, rules};
use lockwatch_watch::redis::libraries;

use crate::published::Published;

/// The agent's wall clock when its own was 0.
const WALL_AT_START: i64 = 1_800_000_000_000;

pub(super) fn holder(client: &str) -> Holder {
    Holder { client: client.as_bytes().to_vec(), thread: None, entries: None, secret: false }
}

/// The published snapshot at an instant.
pub(super) fn published(at: u64) -> Published {
    let snapshot = Snapshot {
        at: Mono::at(at),
        sequence: at,
        tasks: TaskViews::default(),
        stores: Vec::new(),
    };
    let wall = AgentWall(WALL_AT_START + i64::try_from(at).unwrap());
    Published {
        snapshot,
        wall,
        made: Instant::now(),
        patterns: std::sync::Arc::default(),
        drill: None,
    }
}

/// The rule of this name.
pub(crate) fn rule(name: &str) -> &'static Rule {
    rules().find(|rule| rule.name == name).unwrap()
}

/// A task that is free according to a reading at an instant.
pub(crate) fn free(read_at: u64) -> TaskView {
    TaskView {
        spec: Arc::new(TaskSpec::new(
            "task",
            StoreIndex(0),
            libraries::lock(b"task:lock", "redisson"),
        )),
        store: "main".into(),
        verdict: Verdict::Stopped,
        rule: rule("free_unset"),
        verdict_since: Mono::at(0),
        judged: None,
        wanted: Wanted::Unset,
        wanting: Seldom::default(),
        switch_key_seen: None,
        key_seen: true,
        switches_unknown: None,
        held: Some(false),
        unknown: None,
        said: None,
        refuses_writes: None,
        node: Some("a:1".into()),
        last_reading: Some(Mono::at(read_at)),
        kind: KindView::Lock(LockView { fact: LockFact::Free, ..LockView::default() }),
        progress: None,
        live_claims: Seldom::default(),
        claims_unknown: None,
        runs: None,
        hosts_unknown: None,
        splits: Seldom::default(),
        paused: None,
        durations: Seldom::default(),
        totals: Arc::default(),
        grounds: Grounds::default(),
    }
}

/// A task that is held according to a reading at an instant, since another one.
pub(super) fn held(client: &str, since: u64, read_at: u64, ttl_ms: u64) -> TaskView {
    let hold = HoldView {
        mode: Mode::Exclusive,
        holders: [(holder(client), None)].into_iter().collect(),
        ghosts: 0,
        acquired: None,
        held_ms: read_at - since,
        last_renewal: None,
        deadline: None,
        ttl_ms: Some(ttl_ms),
        persistent: Some(false),
        last_renewal_latency_ms: None,
        last_renewal_margin_ms: None,
        renewal_overdue_ms: 0,
    };
    TaskView {
        verdict: Verdict::Running,
        rule: rule("held_unset"),
        held: Some(true),
        kind: KindView::Lock(LockView {
            fact: LockFact::Held,
            hold: Some(hold),
            lease_ms: Some(30_000),
            ..LockView::default()
        }),
        ..free(read_at)
    }
}
