//! The problems of a store.

use super::table::{CLOCK_STEP_MS, Of, TABLE};
use super::{Finding, Problem, Problems, Unscraped, age_ms, told_by};
use crate::snapshot::StoreView;
use crate::time::Mono;

/// A master that comes back after a failover says so for some seconds, until it is made a replica.
const RIVAL_MS: u64 = 60_000;
const SENTINEL_MS: u64 = 300_000;
const REPLICA_MS: u64 = 300_000;

/// The problems of the store that `view` shows, as of `at`.
pub fn of_store(view: &StoreView, at: Mono, unscraped: Option<Unscraped>) -> Problems {
    let rows = || TABLE.iter().filter(|row| row.of == Of::Store);
    let of = |problem| finding(problem, view, at);
    let clear =
        rows().filter(|row| row.is_page_state()).all(|row| of(row.problem) == Finding::Negative);
    let findings = rows().map(|row| (row.problem, of(row.problem)));
    let shown = findings.filter(|(_, finding)| match finding {
        Finding::Positive { .. } => true,
        Finding::Negative => !clear,
        Finding::Unknown => false,
    });
    let stepped = view.grounds.clock_step.and_then(|step| {
        let age = age_ms(step, &[told_by(step, unscraped)], CLOCK_STEP_MS, at)?;
        Some((Problem::ClockStep, age))
    });
    Problems { clear, findings: shown.collect(), events: stepped.into_iter().collect() }
}

/// What is found of one problem of a store.
pub fn finding(problem: Problem, view: &StoreView, at: Mono) -> Finding {
    let grounds = &view.grounds;
    let lasted = |since: Option<Mono>, limit_ms: u64| {
        since.map_or(Finding::Unknown, |since| Finding::over(at.since_ms(since), limit_ms))
    };
    match problem {
        Problem::Unreachable => match view.readable {
            Some(false) if view.blind_ms > grounds.blind_after_ms => {
                Finding::positive(view.blind_ms)
            }
            Some(_) if grounds.was_read => Finding::Negative,
            _ => Finding::Unknown,
        },
        Problem::RivalMaster => lasted(grounds.rival_master, RIVAL_MS),
        Problem::SentinelMissing => lasted(grounds.sentinel_missing, SENTINEL_MS),
        Problem::ReplicaBehind => lasted(grounds.replica_behind, REPLICA_MS),
        _ => Finding::Unknown,
    }
}
