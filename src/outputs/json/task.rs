//! A task as JSON.

use std::borrow::Cow;
use std::sync::Arc;

use lockwatch_judge::event::{End, Party, SplitKind};
use lockwatch_judge::problems::of_task;
use lockwatch_judge::snapshot::{
    Judged, KindView, Past, ProgressView, SplitView, SwitchView, TaskView,
};
use lockwatch_judge::spec::{Codec, Moves, TaskSpec};
use lockwatch_judge::verdict::{Facts, Verdict};
use serde::Serialize;

use super::part::{
    CountJson, HistogramJson, UnknownJson, agent, counts, histogram_json, server, unknown_json,
};
use super::problems::{ProblemJson, problems_json};
use super::{lock, queue, turn};
use crate::outputs::reason::{is_counted, lock_only, sentence};
use crate::outputs::remark::remarks;
use crate::published::Published;
use crate::text::identity::{escape, holder_label, user_name};
use crate::text::instants::seconds;

#[derive(Serialize)]
pub(super) struct TaskJson<'a> {
    name: &'a str,
    store: &'a str,
    labels: Vec<LabelJson<'a>>,
    verdict: &'static str,
    rule: &'static str,
    reason: String,
    /// By the agent's clock.
    verdict_since: Option<String>,
    /// There is fresh evidence against every state that pages.
    clear: bool,
    /// What is seen to deserve an alert.
    problems: Vec<ProblemJson>,
    /// `null` before the first judgement.
    judged: Option<JudgedJson>,
    wanted: &'static str,
    /// `null` when unknown or unset.
    wanting_users: Option<u64>,
    /// The users are a number: then its key is the only switch, and is no user.
    counted: bool,
    /// `null` when unknown or unset.
    switches: Option<Vec<SwitchJson<'a>>>,
    switches_unknown: Option<UnknownJson>,
    key_seen: bool,
    switch_key_seen: Option<bool>,
    lost_users: Vec<Cow<'a, str>>,
    /// What guards it.
    #[serde(flatten)]
    kind: KindJson<'a>,
    /// The server that the newest trustworthy reading came from; `null` before the first.
    node: Option<Cow<'a, str>>,
    /// `null` when no progress is configured.
    progress: Option<ProgressJson>,
    live_claims: Vec<Cow<'a, str>>,
    claims_unknown: Option<UnknownJson>,
    hosts_unknown: Option<UnknownJson>,
    /// Neither progress nor claims are configured: a stuck worker would look healthy.
    lock_only: bool,
    /// What is worth a word beside the verdict, in sentences.
    notes: Vec<Cow<'static, str>>,
    splits: Vec<&'static str>,
    split_evidence: Vec<SplitJson<'a>>,
    paused: Option<bool>,
    evidence_age_seconds: Option<f64>,
    last_handover: Option<PastJson>,
    last_outage: Option<PastJson>,
    durations: DurationsJson,
    thresholds: ThresholdsJson,
    totals: TotalsJson,
}

/// The fields of each kind of guard.
#[derive(Serialize)]
#[serde(untagged)]
enum KindJson<'a> {
    Lock(lock::Fields<'a>),
    Turn(turn::Fields<'a>),
    Queue(queue::Fields<'a>),
}

/// The inputs of the verdict.
#[derive(Serialize)]
struct JudgedJson {
    wanted: &'static str,
    #[serde(flatten)]
    facts: FactsJson,
    split: bool,
    blind: bool,
    previous: Option<&'static str>,
}

/// Those of each kind of guard.
#[derive(Serialize)]
#[serde(untagged)]
enum FactsJson {
    Lock {
        lock: &'static str,
        gap_over_grace: bool,
        down_goes_on: bool,
        stale: bool,
        over_wind_down: bool,
    },
    Turn {
        turn: &'static str,
        gap_over_grace: bool,
        late: bool,
    },
    Queue {
        queue: &'static str,
        late: bool,
    },
}

#[derive(Serialize)]
struct SplitJson<'a> {
    kind: &'static str,
    /// By the agent's clock.
    since: Option<String>,
    lasted_seconds: f64,
    parties: Vec<PartyJson<'a>>,
}

#[derive(Serialize)]
struct PartyJson<'a> {
    holder: Cow<'a, str>,
    digest: bool,
    /// The server that shows it, if that is not the deciding one.
    node: Option<Cow<'a, str>>,
    host: Option<Cow<'a, str>>,
}

/// A state that lasted and has ended.
#[derive(Serialize)]
struct PastJson {
    /// By the agent's clock.
    at: Option<String>,
    seconds: f64,
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
    /// The codec that would decode an undecodable value.
    fits: Option<&'static str>,
}

#[derive(Serialize)]
struct ProgressJson {
    /// By the server's clock.
    moved: Option<String>,
    missing: bool,
    expired: bool,
    unknown: Option<UnknownJson>,
    /// What counts as a movement; `null` while that is not known.
    moves: Option<&'static str>,
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

pub(super) fn task_json<'a>(published: &Published, view: &'a Arc<TaskView>) -> TaskJson<'a> {
    let spec = &view.spec;
    let problems = of_task(view, published.snapshot.at, None);
    TaskJson {
        name: &spec.name,
        store: &view.store,
        labels: spec.labels.iter().map(|(name, value)| LabelJson { name, value }).collect(),
        verdict: view.verdict.name(),
        rule: view.rule.name,
        reason: sentence(view),
        verdict_since: agent(published, view.verdict_since),
        clear: problems.clear,
        problems: problems_json(&problems),
        judged: view.judged.as_ref().map(judged_json),
        wanted: view.wanted.name(),
        wanting_users: view.wanting_users,
        counted: is_counted(view),
        switches: view
            .switches
            .as_ref()
            .map(|switches| switches.iter().map(|switch| switch_json(view, switch)).collect()),
        switches_unknown: view.switches_unknown.map(|why| unknown_json(why, view.words(why))),
        key_seen: view.key_seen,
        switch_key_seen: view.switch_key_seen,
        lost_users: view.lost_users.iter().map(|user| user_name(&view.spec, user)).collect(),
        kind: match &view.kind {
            KindView::Lock(lock) => KindJson::Lock(lock::json(published, view, lock)),
            KindView::Turn(turn) => KindJson::Turn(turn::json(view, turn)),
            KindView::Queue(queue) => KindJson::Queue(queue::json(view, queue)),
        },
        node: view.node.as_ref().map(|node| escape(node.as_bytes())),
        progress: view.progress.as_ref().map(|own| progress_json(view, own)),
        live_claims: view.live_claims.iter().map(holder_label).collect(),
        claims_unknown: view.claims_unknown.map(|why| unknown_json(why, view.words(why))),
        hosts_unknown: view.hosts_unknown.map(|why| unknown_json(why, view.words(why))),
        lock_only: lock_only(view),
        notes: remarks(published, view),
        splits: view.splits.iter().map(|split| split.kind.name()).collect(),
        split_evidence: view.splits.iter().map(|split| split_json(published, split)).collect(),
        paused: view.paused,
        evidence_age_seconds: view
            .last_reading
            .map(|at| seconds(published.snapshot.at.since_ms(at))),
        last_handover: view
            .totals
            .take_overs()
            .last_handover
            .as_ref()
            .map(|past| past_json(published, past)),
        last_outage: view
            .totals
            .take_overs()
            .last_outage
            .as_ref()
            .map(|past| past_json(published, past)),
        durations: durations_json(view),
        thresholds: thresholds_json(spec),
        totals: totals_json(view),
    }
}

fn judged_json(judged: &Judged) -> JudgedJson {
    let facts = judged.facts;
    let (_, guard) = facts.guard();
    JudgedJson {
        wanted: facts.wanted().name(),
        facts: match facts {
            Facts::Lock(facts) => FactsJson::Lock {
                lock: guard,
                gap_over_grace: facts.gap_over_grace,
                down_goes_on: facts.down_goes_on,
                stale: facts.stale,
                over_wind_down: facts.over_wind_down,
            },
            Facts::Turn(facts) => FactsJson::Turn {
                turn: guard,
                gap_over_grace: facts.gap_over_grace,
                late: facts.late,
            },
            Facts::Queue(facts) => FactsJson::Queue { queue: guard, late: facts.late },
        },
        split: facts.split(),
        blind: facts.blind(),
        previous: judged.previous.map(Verdict::name),
    }
}

fn split_json<'a>(published: &Published, split: &'a SplitView) -> SplitJson<'a> {
    SplitJson {
        kind: split.kind.name(),
        since: agent(published, split.since),
        lasted_seconds: seconds(split.lasted_ms),
        parties: split.parties.iter().map(party_json).collect(),
    }
}

fn party_json(party: &Party) -> PartyJson<'_> {
    let node = party.node.as_ref().map(|node| escape(node.as_bytes()));
    let host = party.host.as_deref().map(escape);
    PartyJson { holder: holder_label(&party.holder), digest: party.holder.secret, node, host }
}

fn past_json(published: &Published, past: &Past) -> PastJson {
    PastJson { at: agent(published, past.at), seconds: seconds(past.ms) }
}

fn switch_json<'a>(view: &'a TaskView, switch: &'a SwitchView) -> SwitchJson<'a> {
    let state = match switch.on {
        Some(true) => "on",
        Some(false) => "off",
        None => "undecodable",
    };
    SwitchJson {
        user: user_name(&view.spec, &switch.user),
        state,
        fits: switch.fits.map(Codec::name),
    }
}

fn progress_json(view: &TaskView, own: &ProgressView) -> ProgressJson {
    ProgressJson {
        moved: own.moved.and_then(server),
        missing: own.missing.is_some(),
        expired: own.expired,
        unknown: own.missing.flatten().map(|why| unknown_json(why, view.words(why))),
        moves: own.by.map(Moves::name),
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
        stale_after_seconds: spec
            .progress
            .as_ref()
            .map(|progress| seconds(progress.stale_after_ms)),
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
        handovers: histogram_json(&totals.take_overs().handovers),
        outages: histogram_json(&totals.take_overs().outages),
        renewal_latency: histogram_json(&totals.renewal_latency),
    }
}
