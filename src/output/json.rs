//! The tasks as JSON: stable names, base units, instants in RFC 3339. What is not known is `null`.

use std::borrow::Cow;
use std::sync::Arc;

use lockwatch_model::event::{End, Fate, SplitKind};
use lockwatch_model::histogram::Histogram;
use lockwatch_model::input::{Role, SentinelWord};
use lockwatch_model::reading::{Holder, Mode, Unknown};
use lockwatch_model::snapshot::{HoldView, NodeView, RedisView, SwitchView, TaskView, WitnessView};
use lockwatch_model::spec::{Codec, TaskSpec};
use lockwatch_model::time::{AgentWall, Mono, ServerTime};
use serde::Serialize;

use super::clock::{rfc3339, seconds, signed_seconds};
use super::identity::{escape, holder_label};
use crate::published::Published;

/// Tasks per piece of the list: enough to be worth sending, few enough to be written at once.
const TASKS_PER_PIECE: usize = 50;

/// Everything, as `/api/v1/tasks` tells it, in pieces, so that a long list is never held whole.
pub struct TaskList {
    published: Arc<Published>,
    next: Piece,
}

enum Piece {
    Head,
    Tasks { from: usize },
    Redises,
    End,
}

impl TaskList {
    /// The list of what is in `published`.
    pub fn new(published: Arc<Published>) -> TaskList {
        TaskList { published, next: Piece::Head }
    }

    fn head(&self) -> String {
        let at = text(&wall(self.published.wall));
        let (sequence, version) = (self.published.snapshot.sequence, env!("CARGO_PKG_VERSION"));
        format!("{{\"at\":{at},\"sequence\":{sequence},\"version\":\"{version}\",\"tasks\":[")
    }

    fn tasks(&self, from: usize) -> String {
        let views = self.published.snapshot.tasks.iter().skip(from).take(TASKS_PER_PIECE);
        let tasks: Vec<String> = views.map(|view| text(&task_json(&self.published, view))).collect();
        let comma = if from > 0 { "," } else { "" };
        format!("{comma}{}", tasks.join(","))
    }

    fn redises(&self) -> String {
        let redises: Vec<RedisJson<'_>> = self.published.snapshot.redises.iter().map(|view| redis_json(view)).collect();
        format!("],\"redises\":{}}}", text(&redises))
    }
}

impl Iterator for TaskList {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let count = self.published.snapshot.tasks.len();
        let (piece, next) = match self.next {
            Piece::Head if count == 0 => (self.head(), Piece::Redises),
            Piece::Head => (self.head(), Piece::Tasks { from: 0 }),
            Piece::Tasks { from } if from + TASKS_PER_PIECE < count => {
                (self.tasks(from), Piece::Tasks { from: from + TASKS_PER_PIECE })
            }
            Piece::Tasks { from } => (self.tasks(from), Piece::Redises),
            Piece::Redises => (self.redises(), Piece::End),
            Piece::End => return None,
        };
        self.next = next;
        Some(piece)
    }
}

/// `value` as JSON; nothing here can fail to be written.
fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The task called `name`, as `/api/v1/tasks/<name>` tells it; `None` if there is none.
pub fn task(published: &Published, name: &str) -> Option<impl Serialize> {
    let view = published.snapshot.tasks.iter().find(|view| &*view.spec.name == name)?;
    Some(OneTask { at: wall(published.wall), task: task_json(published, view) })
}

#[derive(Serialize)]
struct OneTask<'a> {
    at: Option<String>,
    task: TaskJson<'a>,
}

#[derive(Serialize)]
struct TaskJson<'a> {
    name: &'a str,
    redis: &'a str,
    labels: Vec<LabelJson<'a>>,
    verdict: &'static str,
    rule: &'static str,
    reason: &'static str,
    /// Agent's clock.
    verdict_since: Option<String>,
    wanted: &'static str,
    /// `null` when unknown or unset.
    switches: Option<Vec<SwitchJson<'a>>>,
    switches_unknown: Option<UnknownJson>,
    switch_key_seen: Option<bool>,
    lost_users: Vec<Cow<'a, str>>,
    lock: LockJson<'a>,
    /// The server that the newest trustworthy reading came from; `null` before the first.
    node: Option<Cow<'a, str>>,
    /// What the servers show of the lock that do not decide.
    witnesses: Vec<WitnessJson<'a>>,
    /// `null` when no progress is configured.
    progress: Option<ProgressJson>,
    live_claims: Vec<Cow<'a, str>>,
    splits: Vec<&'static str>,
    paused: Option<bool>,
    /// Age of the newest trustworthy reading.
    evidence_age_seconds: Option<f64>,
    durations: DurationsJson,
    thresholds: ThresholdsJson,
    totals: TotalsJson,
}

#[derive(Serialize)]
struct LabelJson<'a> {
    name: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct SwitchJson<'a> {
    user: Cow<'a, str>,
    /// `on`, `off` or `undecodable`.
    state: &'static str,
    /// The codec that would read an undecodable value.
    fits: Option<&'static str>,
}

#[derive(Serialize)]
struct UnknownJson {
    reason: &'static str,
    remedy: &'static str,
}

#[derive(Serialize)]
struct LockJson<'a> {
    key: Cow<'a, str>,
    scheme: &'static str,
    /// `null` when unknown.
    held: Option<bool>,
    /// The same after confirmation.
    fact: &'static str,
    unknown: Option<UnknownJson>,
    /// `null` unless held.
    hold: Option<HoldJson<'a>>,
    waiters: Option<u64>,
    fencing_token: Option<i64>,
    lease_seconds: Option<f64>,
    renewal_period_seconds: Option<f64>,
}

#[derive(Serialize)]
struct HoldJson<'a> {
    mode: &'static str,
    holders: Vec<HolderJson<'a>>,
    ghosts: u32,
    /// Server's clock, like the other instants here; `null` when the start was not seen.
    acquired: Option<String>,
    held_seconds: f64,
    ttl_seconds: Option<f64>,
    deadline: Option<String>,
    persistent: Option<bool>,
    last_renewal: Option<String>,
    last_renewal_latency_seconds: Option<f64>,
    last_renewal_margin_seconds: Option<f64>,
    renewal_overdue_seconds: f64,
}

#[derive(Serialize)]
struct HolderJson<'a> {
    holder: Cow<'a, str>,
    /// Whether `holder` is a digest because the real value is a secret.
    digest: bool,
    host: Option<Cow<'a, str>>,
    entries: Option<u32>,
}

/// What a server that does not decide shows of the lock.
#[derive(Serialize)]
struct WitnessJson<'a> {
    node: Cow<'a, str>,
    role: &'static str,
    /// Agent's clock.
    at: Option<String>,
    /// `null` when it shows none.
    holders: Option<Vec<HolderJson<'a>>>,
    /// How far a replica's deadline is behind; `null` when that cannot be told.
    behind_seconds: Option<f64>,
}

#[derive(Serialize)]
struct ProgressJson {
    /// Server's clock.
    moved: Option<String>,
    missing: bool,
    unknown: Option<UnknownJson>,
}

#[derive(Serialize)]
struct DurationsJson {
    down_seconds: f64,
    split_seconds: f64,
    stalled_seconds: f64,
    unwanted_seconds: f64,
    blind_seconds: f64,
    switches_lost_seconds: f64,
}

#[derive(Serialize)]
struct ThresholdsJson {
    grace_seconds: f64,
    settle_seconds: f64,
    wind_down_seconds: f64,
    blind_after_seconds: f64,
    stale_after_seconds: Option<f64>,
    fresh_for_seconds: Option<f64>,
    max_hold_seconds: Option<f64>,
}

#[derive(Serialize)]
struct TotalsJson {
    wanted_seconds: f64,
    down_seconds: f64,
    outage_seconds: f64,
    split_seconds: f64,
    blind_seconds: f64,
    splits: Vec<CountJson>,
    acquisitions: u64,
    ends: Vec<CountJson>,
    holds_lost: u64,
    renewals: u64,
    shortened: u64,
    token_resets: u64,
    phantom_holds: u64,
    handovers: HistogramJson,
    outages: HistogramJson,
    renewal_latency: HistogramJson,
}

#[derive(Serialize)]
struct CountJson {
    name: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct HistogramJson {
    count: u64,
    sum_seconds: f64,
}

#[derive(Serialize)]
struct RedisJson<'a> {
    name: &'a str,
    kind: &'static str,
    db: u32,
    /// `null` before the first try.
    readable: Option<bool>,
    unknown: Option<UnknownJson>,
    blind_seconds: f64,
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

/// One server of a redis.
#[derive(Serialize)]
struct NodeJson<'a> {
    address: Cow<'a, str>,
    /// Otherwise its answers are evidence only.
    decides: bool,
    /// `null` before the first try.
    up: Option<bool>,
    unknown: Option<UnknownJson>,
    role: Option<&'static str>,
    role_verified: Option<bool>,
    version: Option<Cow<'a, str>>,
    /// Server's clock.
    last_success: Option<String>,
    clock_offset_seconds: Option<f64>,
    locks_behind: Option<u64>,
    deadline_lag_seconds: Option<f64>,
}

/// What one configured Sentinel said last.
#[derive(Serialize)]
struct SentinelJson<'a> {
    address: Cow<'a, str>,
    master: Option<Cow<'a, str>>,
    unknown: Option<UnknownJson>,
}

fn task_json<'a>(published: &Published, view: &'a Arc<TaskView>) -> TaskJson<'a> {
    let spec = &view.spec;
    TaskJson {
        name: &spec.name,
        redis: &view.redis,
        labels: spec.labels.iter().map(|(name, value)| LabelJson { name, value }).collect(),
        verdict: view.verdict.name(),
        rule: view.rule.name(),
        reason: view.rule.sentence(),
        verdict_since: agent(published, view.verdict_since),
        wanted: view.wanted.name(),
        switches: view.switches.as_ref().map(|switches| switches.iter().map(switch_json).collect()),
        switches_unknown: view.switches_unknown.map(unknown_json),
        switch_key_seen: view.switch_key_seen,
        lost_users: view.lost_users.iter().map(|user| escape(user)).collect(),
        lock: lock_json(view),
        node: view.node.as_ref().map(|node| escape(node.as_bytes())),
        witnesses: view.witnesses.iter().map(|witness| witness_json(published, witness)).collect(),
        progress: spec.progress.as_ref().map(|_| progress_json(view)),
        live_claims: view.live_claims.iter().map(|instance| escape(instance)).collect(),
        splits: view.splits.iter().map(|kind| kind.name()).collect(),
        paused: view.paused,
        evidence_age_seconds: view.last_reading.map(|at| seconds(published.snapshot.at.since_ms(at))),
        durations: durations_json(view),
        thresholds: thresholds_json(spec),
        totals: totals_json(view),
    }
}

fn switch_json(switch: &SwitchView) -> SwitchJson<'_> {
    let state = match switch.on {
        Some(true) => "on",
        Some(false) => "off",
        None => "undecodable",
    };
    SwitchJson { user: escape(&switch.user), state, fits: switch.fits.map(Codec::name) }
}

fn unknown_json(why: Unknown) -> UnknownJson {
    UnknownJson { reason: why.name(), remedy: why.remedy() }
}

fn lock_json(view: &TaskView) -> LockJson<'_> {
    LockJson {
        key: escape(&view.spec.lock.key),
        scheme: view.spec.lock.scheme.name(),
        held: view.held,
        fact: view.lock_fact.name(),
        unknown: view.unknown.map(unknown_json),
        hold: view.hold.as_ref().map(hold_json),
        waiters: view.waiters,
        fencing_token: view.fencing_token,
        lease_seconds: view.lease_ms.map(seconds),
        renewal_period_seconds: view.renewal_period_ms.map(seconds),
    }
}

fn hold_json(hold: &HoldView) -> HoldJson<'_> {
    HoldJson {
        mode: match hold.mode {
            Mode::Exclusive => "exclusive",
            Mode::Write => "write",
            Mode::Read => "read",
        },
        holders: hold.holders.iter().map(|(holder, host)| holder_json(holder, host.as_deref())).collect(),
        ghosts: hold.ghosts,
        acquired: hold.acquired.and_then(server),
        held_seconds: seconds(hold.held_ms),
        ttl_seconds: hold.ttl_ms.map(seconds),
        deadline: hold.deadline.and_then(server),
        persistent: hold.persistent,
        last_renewal: hold.last_renewal.and_then(server),
        last_renewal_latency_seconds: hold.last_renewal_latency_ms.map(seconds),
        last_renewal_margin_seconds: hold.last_renewal_margin_ms.map(seconds),
        renewal_overdue_seconds: seconds(hold.renewal_overdue_ms),
    }
}

fn holder_json<'a>(holder: &'a Holder, host: Option<&'a [u8]>) -> HolderJson<'a> {
    HolderJson { holder: holder_label(holder), digest: holder.secret, host: host.map(escape), entries: holder.entries }
}

fn witness_json<'a>(published: &Published, witness: &'a WitnessView) -> WitnessJson<'a> {
    let holders = |holders: &'a Vec<Holder>| holders.iter().map(|holder| holder_json(holder, None)).collect();
    WitnessJson {
        node: escape(witness.node.as_bytes()),
        role: witness.role.name(),
        at: agent(published, witness.at),
        holders: witness.holders.as_ref().map(holders),
        behind_seconds: witness.behind_ms.map(seconds),
    }
}

fn progress_json(view: &TaskView) -> ProgressJson {
    ProgressJson {
        moved: view.progress_moved.and_then(server),
        missing: view.progress_missing.is_some(),
        unknown: view.progress_missing.flatten().map(unknown_json),
    }
}

fn durations_json(view: &TaskView) -> DurationsJson {
    let durations = &view.durations;
    DurationsJson {
        down_seconds: seconds(durations.down_ms),
        split_seconds: seconds(durations.split_ms),
        stalled_seconds: seconds(durations.stalled_ms),
        unwanted_seconds: seconds(durations.unwanted_ms),
        blind_seconds: seconds(durations.blind_ms),
        switches_lost_seconds: seconds(durations.switches_lost_ms),
    }
}

fn thresholds_json(spec: &TaskSpec) -> ThresholdsJson {
    ThresholdsJson {
        grace_seconds: seconds(spec.grace_ms),
        settle_seconds: seconds(spec.settle_ms),
        wind_down_seconds: seconds(spec.wind_down_ms),
        blind_after_seconds: seconds(spec.blind_after_ms),
        stale_after_seconds: spec.progress.as_ref().map(|progress| seconds(progress.stale_after_ms)),
        fresh_for_seconds: spec.claims.as_ref().map(|claims| seconds(claims.fresh_for_ms)),
        max_hold_seconds: spec.max_hold_ms.map(seconds),
    }
}

fn totals_json(view: &TaskView) -> TotalsJson {
    let totals = &view.totals;
    TotalsJson {
        wanted_seconds: seconds(totals.wanted_ms),
        down_seconds: seconds(totals.down_ms),
        outage_seconds: seconds(totals.outage_ms),
        split_seconds: seconds(totals.split_ms),
        blind_seconds: seconds(totals.blind_ms),
        splits: counts(SplitKind::ALL.map(SplitKind::name), totals.splits),
        acquisitions: totals.acquisitions,
        ends: counts(End::ALL.map(End::name), totals.ends),
        holds_lost: totals.holds_lost,
        renewals: totals.renewals,
        shortened: totals.shortened,
        token_resets: totals.token_resets,
        phantom_holds: totals.phantom_holds,
        handovers: histogram_json(&totals.handovers),
        outages: histogram_json(&totals.outages),
        renewal_latency: histogram_json(&totals.renewal_latency),
    }
}

fn counts<const N: usize>(names: [&'static str; N], counts: [u64; N]) -> Vec<CountJson> {
    names.into_iter().zip(counts).map(|(name, count)| CountJson { name, count }).collect()
}

fn histogram_json(histogram: &Histogram) -> HistogramJson {
    HistogramJson { count: histogram.count(), sum_seconds: seconds(histogram.sum_ms) }
}

fn redis_json(view: &RedisView) -> RedisJson<'_> {
    let totals = &view.totals;
    let mut errors = counts(Unknown::ALL.map(Unknown::name), totals.errors);
    errors.retain(|error| error.count > 0);
    RedisJson {
        name: &view.spec.name,
        kind: view.spec.kind.name(),
        db: view.spec.db,
        readable: view.readable,
        unknown: view.unknown.map(unknown_json),
        blind_seconds: seconds(view.blind_ms),
        masters: view.masters,
        nodes: view.nodes.iter().map(node_json).collect(),
        sentinels: view.sentinels.iter().map(sentinel_json).collect(),
        uncovered_slots: view.uncovered_slots,
        reconnects: totals.reconnects,
        skipped_ticks: totals.skipped_ticks,
        generation_changes: totals.generation_changes,
        locks_after_change: counts(Fate::ALL.map(Fate::name), totals.fates),
        errors,
        sample_duration: histogram_json(&totals.sample_duration),
    }
}

fn node_json(view: &NodeView) -> NodeJson<'_> {
    NodeJson {
        address: escape(view.address.as_bytes()),
        decides: view.decides,
        up: view.up,
        unknown: view.unknown.map(unknown_json),
        role: view.role.map(Role::name),
        role_verified: view.role_verified,
        version: view.version.as_ref().map(|version| escape(version.as_bytes())),
        last_success: view.last_success.and_then(server),
        clock_offset_seconds: view.clock_offset_ms.map(signed_seconds),
        locks_behind: view.locks_behind,
        deadline_lag_seconds: view.deadline_lag_ms.map(seconds),
    }
}

fn sentinel_json(word: &SentinelWord) -> SentinelJson<'_> {
    let (master, unknown) = match &word.master {
        Some(Ok(master)) => (Some(escape(master.as_bytes())), None),
        Some(Err(why)) => (None, Some(unknown_json(*why))),
        None => (None, None),
    };
    SentinelJson { address: escape(word.address.as_bytes()), master, unknown }
}

fn wall(at: AgentWall) -> Option<String> {
    rfc3339(at.0)
}

fn agent(published: &Published, at: Mono) -> Option<String> {
    wall(published.wall_at(at))
}

fn server(at: ServerTime) -> Option<String> {
    rfc3339(at.0)
}
