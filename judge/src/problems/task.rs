//! The problems of a task.

use super::row::{
    Compared, EVENT_MS, Find, Finding, Happened, Memory, Problems, Row, Severity, Unscraped,
};
use crate::grounds::{FLAPS, Problem, RETURNS, Since};
use crate::kinds::queue::ORPHAN_MS;
use crate::limit::Limit;
use crate::snapshot::{KindView, TaskView};
use crate::spec::TaskSpec;
use crate::time::Mono;
use crate::verdict::{LockFact, Rule, TurnFact, Verdict, Wanted};

/// How long a lock may be held without a TTL, in milliseconds.
const PERSISTENT_MS: u64 = 300_000;
/// How long nobody may wait for a lock, in milliseconds.
const NO_CANDIDATE_MS: u64 = 600_000;
/// Within this time so many changes are flapping, and so many returns contended, in milliseconds.
const FLAPPING_MS: u64 = 900_000;
/// How long switches may be unseen before that alone is an alert, in milliseconds.
const UNSEEN_MS: u64 = 600_000;

const fn critical(
    problem: Problem,
    alert: &'static str,
    find: fn(&TaskView, Mono) -> Finding,
) -> Row {
    Row::new(problem, alert, Severity::Page, Find::Task(find))
}

const fn warning(
    problem: Problem,
    alert: &'static str,
    find: fn(&TaskView, Mono) -> Finding,
) -> Row {
    Row::new(problem, alert, Severity::Warning, Find::Task(find))
}

/// Of what only happens.
fn never(_: &TaskView, _: Mono) -> Finding {
    Finding::Unknown
}

pub(super) static ROWS: [Row; 24] = [
    Row {
        positive: "The task is readable and wanted, and no hold has lasted for `settle`, for longer \
                   than `grace`.",
        negative: "It has been held continuously for `settle`, by any holder; or it is known to \
                   be unwanted; or nobody can want it.",
        number: "time wanted without a hold that lasted",
        memory: Memory::UntilNegative,
        compared: Some(Compared {
            measure: "down_seconds",
            value: |durations| durations.down_ms,
            limit: down_limit,
        }),
        ..critical(Problem::Down, "LockwatchTaskDown", down)
    },
    Row {
        positive: "There is evidence of two holders now.",
        negative: "The task is readable, and there is no such evidence.",
        number: "time with two holders; of what is over, its age",
        memory: Memory::UntilNegativeOfAll,
        happened: Happened::ToTask(|rare| rare.split),
        compared: Some(Compared {
            measure: "split_seconds",
            value: |durations| durations.split_ms,
            limit: |_| Some(0),
        }),
        ..critical(Problem::Split, "LockwatchTaskSplit", split)
    },
    Row {
        positive: "The task is readable and held, and its progress did not move, or was gone \
                   because its TTL ran out, for longer than `stale_after`; or a turn, or a due \
                   member of a queue, is over `max_late`.",
        negative: "The work moved, or a new hold began; or the lock is free, or nobody wants it; \
                   or no progress is configured; or no turn and no member is over `max_late`.",
        number: "time without a movement",
        memory: Memory::UntilNegative,
        compared: Some(Compared {
            measure: "stalled_seconds",
            value: |durations| durations.stalled_ms,
            limit: stalled_limit,
        }),
        ..critical(Problem::Stalled, "LockwatchTaskStalled", stalled)
    },
    Row {
        positive: "The task has `runs` and is readable, and none began within `every` and \
                   `late_after` of the last one, or since the agent began to watch.",
        negative: "A run began within that time; or the task has no `runs`.",
        number: "for how long a run has been due",
        memory: Memory::UntilNegative,
        ..critical(Problem::Overdue, "LockwatchTaskOverdue", overdue)
    },
    Row {
        positive: "The three newest runs of the script, by any guard, ended within the last hour, \
                   each with an error that its guard did not cause, or killed together with its \
                   guard.",
        negative: "One of them exited with 0; or the present run has lasted longer than `settle` \
                   and than twice the longest of them; or the oldest of them ended more than an \
                   hour ago; or it is known to be unwanted; or no guard states its runs.",
        number: "time since the first of these errors",
        memory: Memory::UntilNegative,
        ..critical(Problem::Failing, "LockwatchTaskFailing", failing)
    },
    Row {
        positive: "The task was not read for longer than `blind_after` though its store answered \
                   for that long.",
        negative: "It was read within `blind_after`.",
        number: "time without a trustworthy reading",
        memory: Memory::UntilNegative,
        compared: Some(Compared {
            measure: "blind_seconds",
            value: |durations| durations.blind_ms,
            limit: |spec| Some(spec.blind_after_ms),
        }),
        ..critical(Problem::Blind, "LockwatchTaskBlind", blind)
    },
    Row {
        positive: "Switches that were on vanished together with other data.",
        negative: "The switches' key was seen, and none of them is missing.",
        number: "time since they were lost",
        memory: Memory::UntilNegativeOfAll,
        compared: Some(Compared {
            measure: "switches_lost_seconds",
            value: |durations| durations.switches_lost_ms,
            limit: |spec| spec.has_switches().then_some(0),
        }),
        ..critical(Problem::SwitchesLost, "LockwatchSwitchesLost", switches_lost)
    },
    // With Prometheus' memory of wanting users it is `switches_lost`, so its series has the
    // severity of that; alone it wakes nobody.
    Row {
        positive: "This process looked for the switches' key, and never saw it.",
        number: "time since it looked first",
        alone: Some((Severity::Warning, UNSEEN_MS)),
        ..critical(Problem::SwitchesUnseen, "LockwatchSwitchKeyMissing", |view, at| {
            Finding::lasted(view.grounds.since().switches_unseen, 0, at)
        })
    },
    Row {
        positive: "A lock was lost while its holder lived.",
        number: "its age",
        memory: Memory::Event(EVENT_MS),
        happened: Happened::ToTask(|rare| rare.lock_lost),
        ..critical(Problem::LockLost, "LockwatchLockLost", never)
    },
    Row {
        positive: "Held for longer than `wind_down` though nobody wants it.",
        ..warning(Problem::Unwanted, "LockwatchTaskUnwanted", |view, at| {
            match is_readable(view, at) {
                true => Finding::over(view.durations.unwanted_ms, view.spec.wind_down_ms),
                false => Finding::Unknown,
            }
        })
    },
    Row {
        positive: "A renewal is late by more than half of its period.",
        number: "how late it is",
        ..warning(Problem::RenewalOverdue, "LockwatchRenewalOverdue", |view, _| {
            let period_ms = view.lock().and_then(|lock| lock.renewal_period_ms);
            view.hold().zip(period_ms).map_or(Finding::Unknown, |(hold, period_ms)| {
                Finding::over(hold.renewal_overdue_ms, period_ms / 2)
            })
        })
    },
    Row {
        positive: "A hold ended by expiry, not by release.",
        number: "its age",
        memory: Memory::Event(EVENT_MS),
        happened: Happened::ToTask(|rare| rare.lease_expired),
        ..warning(Problem::LeaseExpired, "LockwatchLeaseExpired", never)
    },
    Row {
        positive: "Held for 5 minutes without a TTL, or with one of more than a year.",
        ..warning(Problem::Persistent, "LockwatchLockPersistent", |view, at| {
            lasted(view, at, |since| since.persistent, Some(PERSISTENT_MS))
        })
    },
    Row {
        positive: "Held longer than `max_hold`.",
        ..warning(Problem::HeldTooLong, "LockwatchHeldTooLong", |view, _| {
            let limit_ms = Limit::MaxHold.ms(&view.spec);
            view.hold()
                .zip(limit_ms)
                .map_or(Finding::Unknown, |(hold, limit_ms)| Finding::over(hold.held_ms, limit_ms))
        })
    },
    Row {
        positive: "A run of a task with `runs` has lasted for longer than `max`.",
        number: "how long it has lasted",
        ..warning(Problem::Overran, "LockwatchTaskOverran", |view, at| {
            match view.spec.runs().is_some() && is_readable(view, at) {
                true => Finding::over(view.durations.stalled_ms, 0),
                false => Finding::Unknown,
            }
        })
    },
    Row {
        positive: "Held for 10 minutes while nobody waited for the lock, and the task has the \
                   label `standby: required`.",
        ..warning(Problem::NoCandidate, "LockwatchNoCandidate", |view, at| {
            lasted(view, at, |since| since.no_candidate, Some(NO_CANDIDATE_MS))
        })
    },
    Row {
        positive: "Held for longer than `stale_after` while the configured progress was absent \
                   (but not expired) or unreadable.",
        ..warning(Problem::ProgressMissing, "LockwatchProgressMissing", |view, at| {
            lasted(view, at, |since| since.progress_missing, Limit::StaleAfter.ms(&view.spec))
        })
    },
    Row {
        positive: "Five gaps ended, or holds were too short to end one, within 15 minutes.",
        number: "the age of the fifth newest",
        ..warning(Problem::Flapping, "LockwatchTaskFlapping", |view, at| {
            often(view.grounds.rare.as_ref().map(|rare| &*rare.flaps), FLAPS, at)
        })
    },
    Row {
        positive: "Three times within 15 minutes a holder came back while the lease of its \
                   successor ran, and the lock was never seen free between.",
        number: "the age of the third newest",
        ..warning(Problem::Contended, "LockwatchTaskContended", |view, at| {
            often(view.grounds.rare.as_ref().map(|rare| &*rare.returns), RETURNS, at)
        })
    },
    Row {
        positive: "Held for longer than `blind_after` while a switch could not be read.",
        ..warning(Problem::Undecodable, "LockwatchSwitchUndecodable", |view, at| {
            lasted(view, at, |since| since.undecodable, Limit::BlindAfter.ms(&view.spec))
        })
    },
    Row {
        positive: "A member of a queue kept its score, and another worker took its lock.",
        number: "its age",
        memory: Memory::Event(EVENT_MS),
        happened: Happened::ToTask(|rare| rare.executed_again),
        ..warning(Problem::ExecutedAgain, "LockwatchExecutedAgain", never)
    },
    Row {
        positive: "The lock of a queue's member is held, and its holder fell silent: its claim, or \
                   the renewals of its library.",
        ..warning(Problem::DeadHolder, "LockwatchDeadHolder", |view, at| {
            lasted(view, at, |since| since.dead_holder, Some(0))
        })
    },
    Row {
        positive: "The lock of a queue's member has been held for 5 seconds after the member left.",
        ..warning(Problem::OrphanLock, "LockwatchOrphanLock", |view, at| {
            lasted(view, at, |since| since.orphan_lock, Some(ORPHAN_MS))
        })
    },
    Row {
        positive: "Due members left a queue and were never seen locked, though at least half of \
                   those before were.",
        number: "its age",
        memory: Memory::Event(EVENT_MS),
        happened: Happened::ToTask(|rare| rare.vanished),
        ..warning(Problem::Vanished, "LockwatchVanished", never)
    },
];

/// The problems of the task that `view` shows, as of `at`.
pub fn of_task(view: &TaskView, at: Mono, unscraped: Option<Unscraped>) -> Problems {
    if view.rule == &Rule::NOTHING_YET {
        return Problems::default();
    }
    let withheld = |problem| view.grounds.rare.as_ref().is_some_and(|rare| rare.withholds(problem));
    let all = ROWS.each_ref().map(|row| (row, find(row, view, at)));
    // A verdict that only stays, until the next reading, is contradicted by nothing.
    // That a run lasts too long deserves only a warning.
    let stays_bad = match view.verdict {
        Verdict::Split | Verdict::Down | Verdict::Unknown => true,
        Verdict::Stalled => view.spec.runs().is_none(),
        _ => false,
    };
    let mut states = all.iter().filter(|(row, _)| row.is_page_state());
    let clear = !stays_bad && states.all(|(_, finding)| *finding == Finding::Negative);
    let findings = all.into_iter().filter(|(row, finding)| match finding {
        Finding::Positive { .. } => !(row.severity.is_page() && withheld(row.problem)),
        Finding::Negative => !clear,
        Finding::Unknown => false,
    });
    let findings = findings.map(|(row, finding)| (row.problem, finding)).collect();
    let events = ROWS.iter().filter_map(|row| {
        let (Happened::ToTask(happened), Some(rare)) = (row.happened, &view.grounds.rare) else {
            return None;
        };
        let event = happened(rare)?;
        let in_pause =
            row.severity.is_page() && rare.pause_began.is_some_and(|began| began <= event);
        if in_pause && withheld(row.problem) {
            return None;
        }
        let after_pause = if in_pause { rare.pause_ended } else { None };
        let after_pause = after_pause.filter(|_| !rare.shown.contains(&row.problem));
        let shown = unscraped.and_then(|gap| gap.shown_at(event));
        Some((row.problem, row.age_ms(&[Some(event), after_pause, shown], at)?))
    });
    Problems { clear, findings, events: events.collect(), only_warn: false }
}

/// What is found of one problem of a task, whether or not a pause withholds it.
pub fn finding(problem: Problem, view: &TaskView, at: Mono) -> Finding {
    let row = ROWS.iter().find(|row| row.problem == problem);
    row.map_or(Finding::Unknown, |row| find(row, view, at))
}

fn find(row: &Row, view: &TaskView, at: Mono) -> Finding {
    if let Find::Task(find) = row.find { find(view, at) } else { Finding::Unknown }
}

/// Of a condition whose stopwatch shows only while the task is readable.
fn lasted(
    view: &TaskView,
    at: Mono,
    since: fn(Since) -> Option<Mono>,
    limit_ms: Option<u64>,
) -> Finding {
    let since = since(view.grounds.since()).filter(|_| is_readable(view, at));
    Finding::lasted(since, limit_ms.unwrap_or(u64::MAX), at)
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
fn is_readable(view: &TaskView, at: Mono) -> bool {
    view.grounds.readable && is_recent(view, at)
}

fn is_recent(view: &TaskView, at: Mono) -> bool {
    view.last_reading.is_some_and(|read| at.since_ms(read) <= view.spec.blind_after_ms)
}

/// Nobody has a queue: it is only worked on.
fn down_limit(spec: &TaskSpec) -> Option<u64> {
    (spec.may_be_wanted() && spec.queue().is_none()).then_some(spec.grace_ms)
}

fn down(view: &TaskView, at: Mono) -> Finding {
    let grounds = &view.grounds;
    let Some(grace_ms) = down_limit(&view.spec) else { return Finding::Negative };
    if !is_readable(view, at) {
        return Finding::Unknown;
    }
    // A short hold hides what was not shown before it, and ends nothing that was.
    let counts =
        grounds.published_down || view.lock().is_none_or(|lock| lock.fact == LockFact::Free);
    if view.wanted == Wanted::Yes && counts && view.durations.down_ms > grace_ms {
        Finding::positive(view.durations.down_ms)
    } else if grounds.settled || view.is_known_unwanted() {
        Finding::Negative
    } else {
        Finding::Unknown
    }
}

fn blind(view: &TaskView, at: Mono) -> Finding {
    let (grounds, limit_ms) = (&view.grounds, view.spec.blind_after_ms);
    // A glob matches keys that are no locks, too.
    if view.spec.pattern.is_some() && view.unknown.is_some_and(|why| why.is_about_the_key()) {
        return Finding::Negative;
    }
    // A hold that has not settled ends no blindness of the switches.
    let is_unjudgeable = view.judged.is_some_and(|judged| judged.facts.unjudgeable())
        || view.wanted == Wanted::Unknown;
    match view.durations.blind_ms > limit_ms {
        true if is_unjudgeable && grounds.answered_ms > limit_ms => {
            Finding::positive(view.durations.blind_ms)
        }
        false if grounds.was_readable && is_recent(view, at) => Finding::Negative,
        _ => Finding::Unknown,
    }
}

fn split(view: &TaskView, at: Mono) -> Finding {
    match (is_readable(view, at), view.splits.is_empty()) {
        (true, true) => Finding::Negative,
        (true, false) => Finding::positive(view.durations.split_ms),
        (false, _) => Finding::Unknown,
    }
}

fn stalled_limit(spec: &TaskSpec) -> Option<u64> {
    // Between two runs nothing moves.
    let stale_after_ms = || Limit::StaleAfter.ms(spec).filter(|_| spec.runs().is_none());
    Limit::MaxLate.ms(spec).or_else(stale_after_ms)
}

fn overdue(view: &TaskView, at: Mono) -> Finding {
    let (Some(spec), Some(runs)) = (view.spec.runs(), view.periodic()) else {
        return Finding::Negative;
    };
    match runs.late_ms {
        _ if !is_readable(view, at) => Finding::Unknown,
        late_ms if late_ms > spec.late_after_ms => Finding::positive(late_ms),
        // The run that was due may have come and gone unseen.
        _ if runs.may_have_run => Finding::Unknown,
        _ => Finding::Negative,
    }
}

fn stalled(view: &TaskView, at: Mono) -> Finding {
    if stalled_limit(&view.spec).is_none() {
        return Finding::Negative;
    }
    if !is_readable(view, at) {
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

fn failing(view: &TaskView, at: Mono) -> Finding {
    if view.lock().is_none() || view.spec.claims.is_none() {
        return Finding::Negative;
    }
    if !is_readable(view, at) || view.claims_unknown.is_some() {
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

fn switches_lost(view: &TaskView, at: Mono) -> Finding {
    if !view.spec.has_switches() {
        return Finding::Negative;
    }
    match (is_readable(view, at), view.wanting.lost_users.is_empty()) {
        (true, false) => Finding::positive(view.durations.switches_lost_ms),
        (true, true) if view.grounds.switches_kept => Finding::Negative,
        _ => Finding::Unknown,
    }
}
