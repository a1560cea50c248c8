//! What all kinds of tasks have.

use lockwatch_judge::event::{End, SplitKind};
use lockwatch_judge::problems::of_task;
use lockwatch_judge::snapshot::{self, ProgressView, SplitView, SwitchView, TaskView};
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::verdict::{Facts, Verdict};

use super::values::{agent, counts, histogram, party, problems, server};
use super::{lock, periodic, queue, turn};
use crate::api::{
    Durations, Judged, Label, Past, Progress, Seconds, Split, Switch, Task, Thresholds, Totals,
};
use crate::outputs::cause::unknown;
use crate::outputs::reason::{is_counted, lock_only, sentence};
use crate::outputs::remark::remarks;
use crate::outputs::runs::written;
use crate::published::Published;
use crate::text::identity::{escape, holder_label, user_name};

/// A task without what would make the list of all tasks too long.
pub(in crate::outputs) fn task(published: &Published, view: &TaskView) -> Task {
    let spec = &view.spec;
    let found = of_task(view, published.snapshot.at, None);
    let why = |why: Option<_>| why.map(|why| unknown(why, view.words(why)));
    let rare = &view.totals.rare;
    let own = view.lock();
    Task {
        name: spec.name.to_string().into(),
        store: view.store.to_string().into(),
        labels: spec.labels.iter().map(label).collect(),
        verdict: view.verdict.name().into(),
        rule: view.rule.name.into(),
        verdict_since: agent(published, view.verdict_since),
        clear: found.clear,
        problems: Some(problems(&found)),
        judged: view.judged.as_ref().map(judged),
        switches_unknown: why(view.switches_unknown),
        key_seen: view.key_seen,
        switch_key_seen: view.switch_key_seen,
        witnesses: own
            .map(|own| own.rare.witnesses.iter().map(|it| lock::witness(published, it)).collect()),
        runs: own.map(|_| view.runs.as_deref().map(written)),
        queue: view.queue().map(|own| queue::queue(view, own)),
        node: view.node.as_ref().map(|node| escape(node.as_bytes()).into()),
        live_claims: view.live_claims.iter().map(|claim| holder_label(claim).into()).collect(),
        claims_unknown: why(view.claims_unknown),
        hosts_unknown: why(view.hosts_unknown),
        notes: remarks(published, view).into_iter().map(Into::into).collect(),
        splits: view.splits.iter().map(|split| split.kind.name().into()).collect(),
        split_evidence: view.splits.iter().map(|own| split(published, own)).collect(),
        paused: view.paused,
        last_handover: rare.last_handover.map(|own| past(published, own)),
        last_outage: rare.last_outage.map(|own| past(published, own)),
        thresholds: thresholds(spec),
        totals: totals(&view.totals),
        ..row(published, view)
    }
}

/// What a row of a table describes of a task. A page with thousands of rows makes nothing else.
pub(in crate::outputs) fn row(published: &Published, view: &TaskView) -> Task {
    let spec = &view.spec;
    let switches = view.wanting.switches.as_ref();
    Task {
        reason: sentence(view).into(),
        wanted: view.wanted.name().into(),
        wanting_users: view.wanting.users,
        counted: is_counted(view),
        switches: switches.map(|all| all.iter().map(|own| switch(spec, own)).collect()),
        lost_users: view
            .wanting
            .lost_users
            .iter()
            .map(|user| user_name(spec, user).into())
            .collect(),
        lock: view.lock().map(|own| lock::lock(published, view, own)),
        turn: view.turn().map(|own| turn::turn(view, own)),
        queue: view.queue().map(|own| queue::figures(view, own)),
        periodic: view.periodic().map(|own| periodic::periodic(published, view, own)),
        progress: view.progress.as_ref().map(|own| progress(view, own)),
        lock_only: lock_only(view),
        evidence_age_seconds: view
            .last_reading
            .map(|at| Seconds(published.snapshot.at.since_ms(at))),
        durations: durations(view),
        ..Task::default()
    }
}

fn label((name, value): &(std::sync::Arc<str>, std::sync::Arc<str>)) -> Label {
    Label { name: name.to_string().into(), value: value.to_string().into() }
}

fn judged(judged: &snapshot::Judged) -> Judged {
    let facts = judged.facts;
    let guard = Some(facts.guard().name().into());
    let shared = Judged {
        wanted: facts.wanted().name().into(),
        split: facts.split(),
        blind: facts.blind(),
        previous: judged.previous.map(|verdict| Verdict::name(verdict).into()),
        ..Judged::default()
    };
    match facts {
        Facts::Lock(own) => Judged {
            lock: guard,
            gap_over_grace: Some(own.gap_over_grace),
            down_goes_on: Some(own.down_goes_on),
            stale: Some(own.stale),
            over_wind_down: Some(own.over_wind_down),
            ..shared
        },
        Facts::Runs(own) => Judged {
            lock: guard,
            run: Some(own.run.name().into()),
            overdue: Some(own.overdue),
            overran: Some(own.overran),
            ..shared
        },
        Facts::Turn(own) => Judged {
            turn: guard,
            gap_over_grace: Some(own.gap_over_grace),
            late: Some(own.late),
            ..shared
        },
        Facts::Queue(own) => Judged { queue: guard, late: Some(own.late), ..shared },
    }
}

fn split(published: &Published, split: &SplitView) -> Split {
    Split {
        kind: split.kind.name().into(),
        since: agent(published, split.since),
        lasted_seconds: Seconds(split.lasted_ms),
        parties: split.parties.iter().map(party).collect(),
    }
}

fn past(published: &Published, past: snapshot::Past) -> Past {
    Past { at: agent(published, past.at), seconds: Seconds(past.ms) }
}

fn switch(spec: &TaskSpec, switch: &SwitchView) -> Switch {
    let state = match switch.on {
        Some(true) => "on",
        Some(false) => "off",
        None => "undecodable",
    };
    Switch {
        user: user_name(spec, &switch.user).into(),
        state: state.into(),
        fits: switch.fits.map(|codec| codec.name().into()),
    }
}

fn progress(view: &TaskView, own: &ProgressView) -> Progress {
    Progress {
        moved: server(own.moved),
        missing: own.missing.is_some(),
        expired: own.expired,
        unknown: own.missing.flatten().map(|why| unknown(why, view.words(why))),
        moves: own.by.map(|by| by.name().into()),
    }
}

fn durations(view: &TaskView) -> Durations {
    let durations = &view.durations;
    Durations {
        down_seconds: Seconds(durations.down_ms),
        split_seconds: Seconds(durations.split_ms),
        stalled_seconds: Seconds(durations.stalled_ms),
        unwanted_seconds: Seconds(durations.unwanted_ms),
        blind_seconds: Seconds(durations.blind_ms),
        switches_lost_seconds: Seconds(durations.switches_lost_ms),
    }
}

fn thresholds(spec: &TaskSpec) -> Thresholds {
    let (progress, claims) = (spec.progress.as_ref(), spec.claims.as_ref());
    Thresholds {
        grace_seconds: Seconds(spec.grace_ms),
        settle_seconds: Seconds(spec.settle_ms),
        wind_down_seconds: Seconds(spec.wind_down_ms),
        blind_after_seconds: Seconds(spec.blind_after_ms),
        stale_after_seconds: progress.map(|progress| Seconds(progress.stale_after_ms)),
        fresh_for_seconds: claims.map(|claims| Seconds(claims.fresh_for_ms)),
        max_hold_seconds: spec.max_hold_ms.map(Seconds),
        every_seconds: spec.runs().map(|runs| Seconds(runs.every_ms)),
        late_after_seconds: spec.runs().map(|runs| Seconds(runs.late_after_ms)),
        max_seconds: spec.runs().and_then(|runs| runs.max_ms).map(Seconds),
    }
}

fn totals(totals: &snapshot::Totals) -> Totals {
    Totals {
        wanted_seconds: Seconds(totals.rare.wanted_ms),
        down_seconds: Seconds(totals.rare.down_ms),
        outage_seconds: Seconds(totals.rare.outage_ms),
        split_seconds: Seconds(totals.rare.split_ms),
        blind_seconds: Seconds(totals.blind_ms),
        splits: counts(SplitKind::ALL.map(SplitKind::name), totals.rare.splits),
        acquisitions: totals.acquisitions,
        ends: counts(End::ALL.map(End::name), totals.ends),
        holds_lost: totals.rare.holds_lost,
        renewals: totals.renewals,
        shortened: totals.rare.shortened,
        token_resets: totals.rare.token_resets,
        phantom_holds: totals.rare.phantom_holds,
        handovers: histogram(&totals.rare.handovers),
        outages: histogram(&totals.rare.outages),
        renewal_latency: histogram(&totals.renewal_latency),
    }
}
