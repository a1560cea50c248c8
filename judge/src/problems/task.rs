//! The problems of a task.

use super::table::{EVENT_MS, Of, TABLE};
use super::{Finding, Problem, Problems, Unscraped, age_ms, told_by};
use crate::grounds::{FLAPS, RETURNS};
use crate::kinds::queue::ORPHAN_MS;
use crate::snapshot::{KindView, TaskView};
use crate::time::Mono;
use crate::verdict::{LockFact, Rule, TurnFact, Verdict, Wanted};

/// How long a lock may be held without a TTL, in milliseconds.
const PERSISTENT_MS: u64 = 300_000;
/// How long nobody may wait for a lock, in milliseconds.
const NO_CANDIDATE_MS: u64 = 600_000;
/// Within this time so many changes are flapping, and so many returns contended, in milliseconds.
const FLAPPING_MS: u64 = 900_000;

/// The problems of the task that `view` shows, as of `at`.
pub fn of_task(view: &TaskView, at: Mono, unscraped: Option<Unscraped>) -> Problems {
    if view.rule == &Rule::NOTHING_YET {
        return Problems::default();
    }
    let rows = || TABLE.iter().filter(|row| row.of == Of::Task);
    let withheld = |problem| view.grounds.rare.as_ref().is_some_and(|rare| rare.withholds(problem));
    let of = |problem| finding(problem, view, at);
    let states = || rows().filter(|row| row.is_page_state());
    // A verdict that only stays, until the next reading, is contradicted by nothing.
    let stays_bad = matches!(
        view.verdict,
        Verdict::Split | Verdict::Down | Verdict::Stalled | Verdict::Unknown
    );
    let clear = !stays_bad && states().all(|row| of(row.problem) == Finding::Negative);
    let findings =
        rows().map(|row| (row, of(row.problem))).filter(|(row, finding)| match finding {
            Finding::Positive { .. } => !(row.severity.is_page() && withheld(row.problem)),
            Finding::Negative => !clear,
            Finding::Unknown => false,
        });
    let findings = findings.map(|(row, finding)| (row.problem, finding)).collect();
    let events = rows().filter_map(|row| Some((row.problem, event(row.problem, view)?)));
    let events = events.filter_map(|(problem, event)| {
        let rare = view.grounds.rare.as_ref()?;
        let is_page = problem.row().severity.is_page();
        let in_pause = is_page && rare.pause_began.is_some_and(|began| began <= event);
        if in_pause && withheld(problem) {
            return None;
        }
        let after_pause = if in_pause { rare.pause_ended } else { None };
        let after_pause = after_pause.filter(|_| !rare.shown.contains(&problem));
        let age = age_ms(event, &[after_pause, told_by(event, unscraped)], EVENT_MS, at)?;
        Some((problem, age))
    });
    Problems { clear, findings, events: events.collect() }
}

/// When it last happened.
fn event(problem: Problem, view: &TaskView) -> Option<Mono> {
    let rare = view.grounds.rare.as_ref()?;
    match problem {
        Problem::Split => rare.split,
        Problem::LockLost => rare.lock_lost,
        Problem::LeaseExpired => rare.lease_expired,
        Problem::ExecutedAgain => rare.executed_again,
        Problem::Vanished => rare.vanished,
        _ => None,
    }
}

/// What is found of one problem of a task, whether or not a pause withholds it.
pub fn finding(problem: Problem, view: &TaskView, at: Mono) -> Finding {
    let (grounds, spec, durations) = (&view.grounds, &view.spec, &view.durations);
    let hold = || view.hold();
    let lasted = |since: Option<Mono>, limit_ms: u64| {
        since.map_or(Finding::Unknown, |since| Finding::over(at.since_ms(since), limit_ms))
    };
    let sighted = is_sighted(view, at);
    let seen = |since: Option<Mono>| since.filter(|_| sighted);
    match problem {
        Problem::Down => down(view, sighted),
        Problem::Split => match (sighted, view.splits.is_empty()) {
            (true, true) => Finding::Negative,
            (true, false) => Finding::positive(durations.split_ms),
            (false, _) => Finding::Unknown,
        },
        Problem::Stalled => stalled(view, sighted),
        Problem::Failing => failing(view, at, sighted),
        Problem::Blind => blind(view, at),
        Problem::SwitchesLost => switches_lost(view, sighted),
        Problem::SwitchesUnseen => lasted(grounds.since().switches_unseen, 0),
        Problem::Unwanted if sighted => Finding::over(durations.unwanted_ms, spec.wind_down_ms),
        Problem::RenewalOverdue => {
            let period_ms = view.lock().and_then(|lock| lock.renewal_period_ms);
            hold().zip(period_ms).map_or(Finding::Unknown, |(hold, period_ms)| {
                Finding::over(hold.renewal_overdue_ms, period_ms / 2)
            })
        }
        Problem::Persistent => lasted(seen(grounds.since().persistent), PERSISTENT_MS),
        Problem::HeldTooLong => hold()
            .zip(spec.max_hold_ms)
            .map_or(Finding::Unknown, |(hold, max_ms)| Finding::over(hold.held_ms, max_ms)),
        Problem::NoCandidate => lasted(seen(grounds.since().no_candidate), NO_CANDIDATE_MS),
        Problem::ProgressMissing => {
            let limit_ms = spec.progress.as_ref().map_or(u64::MAX, |spec| spec.stale_after_ms);
            lasted(seen(grounds.since().progress_missing), limit_ms)
        }
        Problem::DeadHolder => lasted(seen(grounds.since().dead_holder), 0),
        Problem::OrphanLock => lasted(seen(grounds.since().orphan_lock), ORPHAN_MS),
        Problem::Undecodable => lasted(seen(grounds.since().undecodable), spec.blind_after_ms),
        Problem::Flapping => often(grounds.rare.as_ref().map(|rare| &*rare.flaps), FLAPS, at),
        Problem::Contended => often(grounds.rare.as_ref().map(|rare| &*rare.returns), RETURNS, at),
        Problem::Unwanted
        | Problem::LockLost
        | Problem::LeaseExpired
        | Problem::ExecutedAgain
        | Problem::Vanished
        | Problem::Unreachable
        | Problem::RivalMaster
        | Problem::SentinelMissing
        | Problem::ReplicaBehind
        | Problem::ClockStep => Finding::Unknown,
    }
}

/// Whether the newest `times` instants lie within a quarter of an hour.
fn often(instants: Option<&[Mono]>, times: usize, at: Mono) -> Finding {
    match instants {
        Some(all @ [first, ..]) if all.len() == times && at.since_ms(*first) < FLAPPING_MS => {
            Finding::positive(at.since_ms(*first))
        }
        _ => Finding::Unknown,
    }
}

/// Whether the newest attempt answered everything that matters, and not too long ago: a process
/// that was stopped shows what it knew before.
fn is_sighted(view: &TaskView, at: Mono) -> bool {
    view.grounds.sighted && is_recent(view, at)
}

fn is_recent(view: &TaskView, at: Mono) -> bool {
    view.last_reading.is_some_and(|read| at.since_ms(read) <= view.spec.blind_after_ms)
}

fn down(view: &TaskView, sighted: bool) -> Finding {
    let (grounds, spec) = (&view.grounds, &view.spec);
    // Nobody has a queue: it is only worked on.
    if !spec.may_be_wanted() || view.queue().is_some() {
        return Finding::Negative;
    }
    if !sighted {
        return Finding::Unknown;
    }
    // A short hold hides what was not shown before it, and ends nothing that was.
    let counts =
        grounds.published_down || view.lock().is_none_or(|lock| lock.fact == LockFact::Free);
    if view.wanted == Wanted::Yes && counts && view.durations.down_ms > spec.grace_ms {
        Finding::positive(view.durations.down_ms)
    } else if grounds.settled || view.is_known_unwanted() {
        Finding::Negative
    } else {
        Finding::Unknown
    }
}

fn blind(view: &TaskView, at: Mono) -> Finding {
    let (grounds, limit_ms) = (&view.grounds, view.spec.blind_after_ms);
    // A hold that has not settled ends no blindness of the switches.
    let is_unjudgeable = view.judged.is_some_and(|judged| judged.facts.unjudgeable())
        || view.wanted == Wanted::Unknown;
    match view.durations.blind_ms > limit_ms {
        true if is_unjudgeable && grounds.answered_ms > limit_ms => {
            Finding::positive(view.durations.blind_ms)
        }
        false if grounds.was_sighted && is_recent(view, at) => Finding::Negative,
        _ => Finding::Unknown,
    }
}

fn stalled(view: &TaskView, sighted: bool) -> Finding {
    let can_stall = match &view.kind {
        KindView::Lock(_) => view.spec.progress.is_some(),
        KindView::Turn(_) | KindView::Queue(_) => true,
    };
    if !can_stall {
        return Finding::Negative;
    }
    if !sighted {
        return Finding::Unknown;
    }
    let counts = matches!(view.wanted, Wanted::Yes | Wanted::Unset);
    let moves = match &view.kind {
        KindView::Lock(lock) => {
            lock.fact == LockFact::Free || view.held == Some(true) && view.grounds.moves
        }
        KindView::Turn(turn) => turn.fact != TurnFact::Unknown,
        KindView::Queue(_) => view.grounds.moves,
    };
    match view.durations.stalled_ms {
        _ if view.wanted == Wanted::No => Finding::Negative,
        0 if moves => Finding::Negative,
        0 => Finding::Unknown,
        _ if view.lock().is_some_and(|lock| lock.fact == LockFact::Free) => Finding::Negative,
        stalled_ms if counts => Finding::positive(stalled_ms),
        _ => Finding::Unknown,
    }
}

fn failing(view: &TaskView, at: Mono, sighted: bool) -> Finding {
    if view.lock().is_none() || view.spec.claims.is_none() {
        return Finding::Negative;
    }
    if !sighted || view.claims_unknown.is_some() {
        return Finding::Unknown;
    }
    let fails = view.runs.as_ref().and_then(|runs| runs.fails);
    match (fails, view.grounds.since().failing) {
        _ if view.is_known_unwanted() => Finding::Negative,
        (Some(true), Some(since)) => Finding::positive(at.since_ms(since)),
        (Some(false), _) => Finding::Negative,
        _ => Finding::Unknown,
    }
}

fn switches_lost(view: &TaskView, sighted: bool) -> Finding {
    if !view.spec.has_switches() {
        return Finding::Negative;
    }
    match (sighted, view.lost_users.is_empty()) {
        (true, false) => Finding::positive(view.durations.switches_lost_ms),
        (true, true) if view.grounds.switches_kept => Finding::Negative,
        _ => Finding::Unknown,
    }
}
