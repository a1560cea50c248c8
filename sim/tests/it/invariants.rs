//! Invariants of every snapshot, regardless of its history.

use std::collections::BTreeMap;

use lockwatch_judge::histogram::Histogram;
use lockwatch_judge::problems::{Finding, Problem, of_task, task_finding};
use lockwatch_judge::snapshot::{Judged, RENEWALS_KEPT, Snapshot, TaskView, Totals};
use lockwatch_judge::spec::WatchSpec;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::{LockFact, Rule, Verdict, Wanted, trace};

/// The previous snapshot.
#[derive(Debug, Default)]
pub(crate) struct Invariants {
    sequence: Option<u64>,
    at: Mono,
    totals: BTreeMap<String, (Vec<u8>, Totals)>,
}

impl Invariants {
    /// The violations in `snapshot`, which was built under the configuration `spec`.
    pub(crate) fn check(&mut self, snapshot: &Snapshot, spec: &WatchSpec) -> Vec<String> {
        let mut broken = Vec::new();
        let mut claim = |holds: bool, what: String| {
            if !holds {
                broken.push(what);
            }
        };
        claim(
            self.sequence.is_none_or(|before| snapshot.sequence > before),
            "the sequence does not grow".to_owned(),
        );
        claim(snapshot.at >= self.at, "the instant goes back".to_owned());
        let mut configured: Vec<_> = spec.tasks.iter().map(|task| task.name.to_string()).collect();
        configured.sort();
        let shown: Vec<_> = snapshot.tasks.iter().map(|view| view.spec.name.to_string()).collect();
        claim(
            configured == shown,
            format!("the tasks {shown:?} are not those configured, {configured:?}"),
        );
        let redises: Vec<_> = snapshot.stores.iter().map(|view| view.spec.clone()).collect();
        claim(redises == spec.stores, "the redises are not those configured".to_owned());
        let before = std::mem::take(&mut self.totals);
        for view in &snapshot.tasks {
            let name = view.spec.name.to_string();
            let key = view.spec.lock().unwrap().key.clone();
            let wrong =
                of_view(view, snapshot.at).into_iter().chain(of_problems(view, snapshot.at));
            broken.extend(wrong.map(|what| format!("{name}: {what}")));
            if let Some((_, totals)) = before.get(&name).filter(|(old, _)| *old == key) {
                broken.extend(
                    fallen(totals, &view.totals)
                        .into_iter()
                        .map(|what| format!("{name}: {what} fell")),
                );
            }
            self.totals.insert(name, (key, Totals::clone(&view.totals)));
        }
        self.sequence = Some(snapshot.sequence);
        self.at = snapshot.at;
        broken
    }
}

/// Verdict and problems never contradict each other, but for a hold that has not settled.
fn of_problems(view: &TaskView, at: Mono) -> Vec<String> {
    let of = |problem| task_finding(problem, view, at);
    let is = |problem| of(problem).is_positive();
    let not = |problem| of(problem) == Finding::Negative;
    let now = |verdict| view.verdict == verdict && view.rule != &Rule::KEEP_PREVIOUS;
    let unsettled = view.held == Some(true) && !view.grounds.settled;
    // A first free reading waits for its confirmation.
    let unconfirmed = view.held == Some(false) && view.lock().unwrap().fact != LockFact::Free;
    let split = view.verdict == Verdict::Split;
    // The problems of a periodic task have names of their own.
    let periodic = view.spec.runs().is_some();
    let (down, stalled) = match periodic {
        true => (Problem::Overdue, Problem::Overran),
        false => (Problem::Down, Problem::Stalled),
    };
    let hangs = periodic && view.verdict == Verdict::Down;
    // A process that was stopped shows what it knew before, and says nothing of it.
    let is_recent =
        view.last_reading.is_some_and(|read| at.since_ms(read) <= view.spec.blind_after_ms);
    let readable = view.grounds.readable && is_recent;
    let shown = of_task(view, at, None);
    let claims = [
        (
            !is(down) || split || now(Verdict::Down) || unsettled || unconfirmed,
            "the problem down is the verdict, unless a hold is settling",
        ),
        (!now(Verdict::Down) || is(down) || !is_recent, "the verdict down is a problem"),
        (!not(down) || !now(Verdict::Down), "what is down is not seen to be well"),
        (
            !is(stalled) || split || view.verdict == Verdict::Stalled || hangs || unconfirmed,
            "the problem stalled is the verdict",
        ),
        (!now(Verdict::Stalled) || is(stalled) || !readable, "the verdict stalled is a problem"),
        (
            is(Problem::Split) == (readable && !view.splits.is_empty()),
            "a split that is seen is a problem",
        ),
        (
            !is(Problem::Blind) || split || view.verdict == Verdict::Unknown,
            "what is blind is unknown",
        ),
        (!is(Problem::Blind) || !readable, "what is seen is not blind"),
        (
            is(Problem::SwitchesLost)
                == (readable
                    && !view.wanting.lost_users.is_empty()
                    && view.switch_key_seen.is_some()),
            "lost switches that are seen are a problem",
        ),
        (!shown.clear || readable, "only what is seen is clear"),
        (
            !shown.clear
                || periodic && view.verdict == Verdict::Stalled
                || !matches!(
                    view.verdict,
                    Verdict::Split | Verdict::Down | Verdict::Stalled | Verdict::Unknown
                ),
            "what is clear has no verdict that pages",
        ),
        (
            !shown.clear
                || shown.findings.iter().all(|(problem, finding)| {
                    finding.is_positive() && (!problem.row().is_page_state())
                }),
            "beside a clear task there are only warnings",
        ),
        (
            shown.findings.iter().all(|(_, finding)| *finding != Finding::Unknown),
            "only what is known",
        ),
    ];
    let broken = claims.into_iter().filter(|(holds, _)| !holds);
    broken.map(|(_, what)| format!("{what}: {:?}, {shown:?}", view.verdict)).collect()
}

fn of_view(view: &TaskView, at: Mono) -> Vec<String> {
    let durations = &view.durations;
    let periodic = view.spec.runs().is_some();
    let is_overdue =
        view.periodic().zip(view.spec.runs()).map(|(own, spec)| own.late_ms > spec.late_after_ms);
    // A verdict that only stays is based on earlier readings, perhaps under other thresholds.
    let now = |verdict| view.verdict == verdict && view.rule != &Rule::KEEP_PREVIOUS;
    let claims = [
        (
            view.lock().unwrap().hold.is_some() == (view.held == Some(true)),
            "there is a hold if and only if held is true",
        ),
        (view.held.is_some() || view.unknown.is_some(), "an unknown lock has a reason"),
        (
            view.lock().unwrap().fact == LockFact::Unknown || view.held.is_some(),
            "what cannot be read is no fact",
        ),
        (
            view.lock().unwrap().fact != LockFact::Free || view.held == Some(false),
            "what is free as a fact was read as free",
        ),
        (
            view.splits.is_empty() || view.verdict == Verdict::Split,
            "a split in force is the verdict",
        ),
        (!view.splits.is_empty() || !now(Verdict::Split), "without evidence there is no split"),
        (
            view.splits.is_sorted_by(|one, next| one.kind < next.kind),
            "the splits are sorted and distinct",
        ),
        (
            !view.splits.is_empty() || durations.split_ms == 0,
            "no split lasts while none is in force",
        ),
        (
            !view.wanting.lost_users.is_empty() || durations.switches_lost_ms == 0,
            "nothing is lost while no user lost it",
        ),
        (
            !now(Verdict::Down) || periodic || durations.down_ms > view.spec.grace_ms,
            "down is longer than grace",
        ),
        (
            !now(Verdict::Down) || periodic || view.wanted == Wanted::Yes,
            "only what is wanted is down",
        ),
        (
            !now(Verdict::Down) || is_overdue != Some(false),
            "a periodic task is down if its next run is overdue",
        ),
        (view.spec.wanted.is_some() || durations.down_ms == 0, "without switches there is no gap"),
        (
            view.spec.wanted.is_some() || periodic || !now(Verdict::Down),
            "without switches nothing is down",
        ),
        (
            view.spec.wanted.is_some() || !now(Verdict::Unwanted),
            "without switches nothing is unwanted",
        ),
        (
            view.spec.progress.is_some() || periodic || durations.stalled_ms == 0,
            "without progress nothing stalls",
        ),
        (!now(Verdict::Stalled) || durations.stalled_ms > 0, "stalled has a duration"),
        (
            !now(Verdict::Unwanted) || durations.unwanted_ms > view.spec.wind_down_ms,
            "unwanted has one too",
        ),
        (view.verdict_since <= at, "the verdict is not from the future"),
        (
            view.last_reading.is_none_or(|read| read <= at),
            "the newest reading is not from the future",
        ),
        (
            (view.wanted == Wanted::Unset) == view.spec.wanted.is_none(),
            "unset if and only if no switches are configured",
        ),
        (view.totals.rare.down_ms <= view.totals.rare.wanted_ms, "down no longer than wanted"),
        (traced(view), "the trace leads to the verdict"),
        (view.splits.iter().all(|split| split.parties.len() > 1), "a split has its parties"),
        (view.splits.iter().all(|split| split.since <= at), "no split is from the future"),
        (
            view.lock().unwrap().renewals.count() as u64
                == view.totals.renewals.min(RENEWALS_KEPT as u64),
            "renewals are kept as counted",
        ),
        (
            view.totals.rare.last_handover.is_some() == (view.totals.rare.handovers.count() > 0),
            "the last handover is a counted one",
        ),
        (
            view.totals.rare.last_outage.is_some() == (view.totals.rare.outages.count() > 0),
            "the last outage is a counted one",
        ),
    ];
    let state = format!(
        "{} by {}, lock {}",
        view.verdict.name(),
        view.rule.name,
        view.lock().unwrap().fact.name()
    );
    claims
        .iter()
        .filter(|(holds, _)| !holds)
        .map(|(_, what)| format!("broken: {what} ({state})"))
        .collect()
}

/// Whether the considered rules lead to the shown verdict.
fn traced(view: &TaskView) -> bool {
    let Some(Judged { facts, previous }) = view.judged else {
        return view.rule == &Rule::NOTHING_YET;
    };
    let last = trace(facts, previous).last();
    last.is_some_and(|last| (last.rule, last.gave) == (view.rule, Some(view.verdict)))
}

/// The totals that decreased.
fn fallen(before: &Totals, now: &Totals) -> Vec<&'static str> {
    let falls = |before: &Histogram, now: &Histogram| {
        now.sum_ms < before.sum_ms
            || now.counts.iter().zip(&before.counts).any(|(now, before)| now < before)
    };
    let some_fall =
        |before: &[u64], now: &[u64]| now.iter().zip(before).any(|(now, before)| now < before);
    let all = [
        (now.rare.wanted_ms < before.rare.wanted_ms, "wanted_ms"),
        (now.rare.down_ms < before.rare.down_ms, "down_ms"),
        (now.rare.outage_ms < before.rare.outage_ms, "outage_ms"),
        (now.rare.split_ms < before.rare.split_ms, "split_ms"),
        (now.blind_ms < before.blind_ms, "blind_ms"),
        (some_fall(&before.rare.splits, &now.rare.splits), "splits"),
        (now.renewals < before.renewals, "renewals"),
        (now.rare.shortened < before.rare.shortened, "shortened"),
        (now.acquisitions < before.acquisitions, "acquisitions"),
        (some_fall(&before.ends, &now.ends), "ends"),
        (now.rare.holds_lost < before.rare.holds_lost, "holds_lost"),
        (now.rare.token_resets < before.rare.token_resets, "token_resets"),
        (now.rare.phantom_holds < before.rare.phantom_holds, "phantom_holds"),
        (falls(&before.rare.handovers, &now.rare.handovers), "handovers"),
        (falls(&before.rare.outages, &now.rare.outages), "outages"),
        (falls(&before.renewal_latency, &now.renewal_latency), "renewal_latency"),
    ];
    all.into_iter().filter(|(fell, _)| *fell).map(|(_, what)| what).collect()
}
