//! A Redis store as JSON: its servers, its Sentinels, and what went wrong.

use std::borrow::Cow;

use lockwatch_judge::event::Fate;
use lockwatch_judge::input::{Announcer, Refusal, Role, WakeUps};
use lockwatch_judge::problems::of_store;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{NodeView, StoreView};
use serde::Serialize;

use super::part::{
    CountJson, HistogramJson, UnknownJson, counts, histogram_json, server, unknown_json,
};
use super::problems::{ProblemJson, problems_json};
use crate::published::Published;
use crate::text::identity::escape;
use crate::text::instants::{seconds, signed_seconds};

#[derive(Serialize)]
pub(super) struct RedisJson<'a> {
    name: &'a str,
    kind: &'a str,
    db: u32,
    /// `null` before the first attempt.
    readable: Option<bool>,
    unknown: Option<UnknownJson>,
    blind_seconds: f64,
    /// There is fresh evidence that it can be read.
    clear: bool,
    /// What is seen to deserve an alert.
    problems: Vec<ProblemJson>,
    masters: Option<u64>,
    nodes: Vec<NodeJson<'a>>,
    sentinels: Vec<SentinelJson<'a>>,
    uncovered_slots: u32,
    reconnects: u64,
    skipped_ticks: u64,
    generation_changes: u64,
    locks_after_change: Vec<CountJson>,
    errors: Vec<CountJson>,
    sample_duration: HistogramJson,
}

#[derive(Serialize)]
struct NodeJson<'a> {
    address: Cow<'a, str>,
    /// If not, its replies are evidence only.
    decides: bool,
    /// `null` before the first attempt.
    up: Option<bool>,
    unknown: Option<UnknownJson>,
    role: Option<&'static str>,
    role_verified: Option<bool>,
    version: Option<Cow<'a, str>>,
    /// By the server's clock.
    last_success: Option<String>,
    refuses_writes: Option<&'static str>,
    clock_offset_seconds: Option<f64>,
    locks_behind: Option<u64>,
    deadline_lag_seconds: Option<f64>,
    /// `null` if it is not asked to announce changes.
    wake_ups: Option<WakeUpsJson>,
}

/// The state of a server's announcements of changes, and their effect.
#[derive(Serialize)]
struct WakeUpsJson {
    state: &'static str,
    reconnects: u64,
    hints: Vec<CountJson>,
}

/// The last reply of one configured Sentinel.
#[derive(Serialize)]
struct SentinelJson<'a> {
    address: Cow<'a, str>,
    master: Option<Cow<'a, str>>,
    unknown: Option<UnknownJson>,
}

pub(super) fn redis_json<'a>(published: &Published, view: &'a StoreView) -> RedisJson<'a> {
    let problems = of_store(view, published.snapshot.at, None);
    let totals = &view.totals;
    let mut errors = counts(Unknown::ALL.map(Unknown::name), totals.errors);
    errors.retain(|error| error.count > 0);
    RedisJson {
        name: &view.spec.name,
        kind: &view.spec.kind,
        db: view.spec.db,
        readable: view.readable,
        unknown: view.unknown.map(|why| unknown_json(why, view.words_of_any(why).as_deref())),
        blind_seconds: seconds(view.blind_ms),
        clear: problems.clear,
        problems: problems_json(&problems),
        masters: view.masters,
        nodes: view.nodes.iter().map(|node| node_json(view, node)).collect(),
        sentinels: view.announcers.iter().map(|word| sentinel_json(view, word)).collect(),
        uncovered_slots: view.uncovered,
        reconnects: totals.reconnects,
        skipped_ticks: totals.skipped_ticks,
        generation_changes: totals.generation_changes,
        locks_after_change: counts(Fate::ALL.map(Fate::name), totals.fates),
        errors,
        sample_duration: histogram_json(&totals.sample_duration),
    }
}

fn node_json<'a>(store: &StoreView, view: &'a NodeView) -> NodeJson<'a> {
    NodeJson {
        address: escape(view.address.as_bytes()),
        decides: view.decides,
        up: view.up,
        unknown: view.unknown.map(|why| unknown_json(why, store.words(why, &view.address))),
        role: view.role.map(Role::name),
        role_verified: view.role_verified,
        version: view.version.as_ref().map(|version| escape(version.as_bytes())),
        last_success: view.last_success.and_then(server),
        refuses_writes: view.refuses_writes.map(Refusal::name),
        clock_offset_seconds: view.clock_offset_ms.map(signed_seconds),
        locks_behind: view.locks_behind,
        deadline_lag_seconds: view.deadline_lag_ms.map(seconds),
        wake_ups: view.wake_ups.map(wake_ups_json),
    }
}

fn wake_ups_json(wake_ups: WakeUps) -> WakeUpsJson {
    let WakeUps { state, read, coalesced, foreign, .. } = wake_ups;
    WakeUpsJson {
        state: state.name(),
        reconnects: wake_ups.reconnects(),
        hints: counts(["read", "coalesced", "foreign"], [read, coalesced, foreign]),
    }
}

fn sentinel_json<'a>(store: &StoreView, word: &'a Announcer) -> SentinelJson<'a> {
    let (master, unknown) = match &word.master {
        Some(Ok(master)) => (Some(escape(master.as_bytes())), None),
        Some(Err(why)) => (None, Some(unknown_json(*why, store.words(*why, &word.address)))),
        None => (None, None),
    };
    SentinelJson { address: escape(word.address.as_bytes()), master, unknown }
}
