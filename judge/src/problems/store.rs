//! The problems of a store.

use super::row::{Find, Finding, Happened, Memory, Problems, Row, Severity, Unscraped};
use crate::grounds::Problem;
use crate::snapshot::StoreView;
use crate::time::Mono;

/// A master that comes back after a failover says so for some seconds, until it is made a replica.
const RIVAL_MS: u64 = 60_000;
const SENTINEL_MS: u64 = 300_000;
const REPLICA_MS: u64 = 300_000;
/// How long a step of a clock is shown, in milliseconds.
const CLOCK_STEP_MS: u64 = 600_000;

const fn store(
    problem: Problem,
    alert: &'static str,
    severity: Severity,
    find: fn(&StoreView, Mono) -> Finding,
) -> Row {
    Row::new(problem, alert, severity, Find::Store(find))
}

pub(super) static ROWS: [Row; 5] = [
    Row {
        positive: "A deciding server was not read for longer than the smallest `blind_after` of \
                   the store's tasks.",
        negative: "Every deciding server was read within that time.",
        number: "time without an answer",
        memory: Memory::UntilNegative,
        ..store(Problem::Unreachable, "LockwatchStoreUnreachable", Severity::Page, unreachable)
    },
    Row {
        positive: "Two servers have reported for a minute that they are master.",
        ..store(Problem::RivalMaster, "LockwatchRivalMaster", Severity::Warning, |view, at| {
            Finding::lasted(view.grounds.rival_master, RIVAL_MS, at)
        })
    },
    Row {
        positive: "For 5 minutes not all configured Sentinels named the same master.",
        ..store(
            Problem::SentinelMissing,
            "LockwatchSentinelMissing",
            Severity::Warning,
            |view, at| Finding::lasted(view.grounds.sentinel_missing, SENTINEL_MS, at),
        )
    },
    Row {
        positive: "For 5 minutes a replica lacked most of the newest holds, or did not answer.",
        ..store(Problem::ReplicaBehind, "LockwatchReplicaBehind", Severity::Warning, |view, at| {
            Finding::lasted(view.grounds.replica_behind, REPLICA_MS, at)
        })
    },
    Row {
        positive: "A server's clock jumped against the agent's.",
        number: "its age",
        memory: Memory::Event(CLOCK_STEP_MS),
        happened: Happened::ToStore(|grounds| grounds.clock_step),
        ..store(Problem::ClockStep, "LockwatchClockStep", Severity::Warning, |_, _| {
            Finding::Unknown
        })
    },
];

/// The problems of the store that `view` shows, as of `at`.
pub fn of_store(view: &StoreView, at: Mono, unscraped: Option<Unscraped>) -> Problems {
    let of = |row: &Row| find(row, view, at);
    let clear =
        ROWS.iter().filter(|row| row.is_page_state()).all(|row| of(row) == Finding::Negative);
    let findings = ROWS.iter().map(|row| (row.problem, of(row)));
    let shown = findings.filter(|(_, finding)| match finding {
        Finding::Positive { .. } => true,
        Finding::Negative => !clear,
        Finding::Unknown => false,
    });
    let events = ROWS.iter().filter_map(|row| {
        let Happened::ToStore(happened) = row.happened else { return None };
        let event = happened(&view.grounds)?;
        let shown = unscraped.and_then(|gap| gap.shown_at(event));
        Some((row.problem, row.age_ms(&[Some(event), shown], at)?))
    });
    Problems {
        clear,
        findings: shown.collect(),
        events: events.collect(),
        only_warn: view.grounds.is_one_of_several,
    }
}

/// What is found of one problem of a store.
pub fn finding(problem: Problem, view: &StoreView, at: Mono) -> Finding {
    let row = ROWS.iter().find(|row| row.problem == problem);
    row.map_or(Finding::Unknown, |row| find(row, view, at))
}

fn find(row: &Row, view: &StoreView, at: Mono) -> Finding {
    if let Find::Store(find) = row.find { find(view, at) } else { Finding::Unknown }
}

fn unreachable(view: &StoreView, _: Mono) -> Finding {
    match view.readable {
        Some(false) if view.blind_ms > view.grounds.blind_after_ms => {
            Finding::positive(view.blind_ms)
        }
        Some(_) if view.grounds.was_read => Finding::Negative,
        _ => Finding::Unknown,
    }
}
