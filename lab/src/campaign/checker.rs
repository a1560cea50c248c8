//! Judges a run by its logs alone: a pure function that shares no code with the agents.

mod bound;
mod judge;
mod measures;
mod read;
mod report;
mod sight;
mod spans;
#[cfg(test)]
mod tests;
mod truth;

use std::path::Path;

pub(super) use report::Report;

/// Judges the logs in a folder.
///
/// # Errors
/// When the logs cannot be read or are incomplete.
pub(super) fn check(folder: &Path) -> anyhow::Result<Report> {
    Ok(judged(&read::read(folder)?))
}

fn judged(logs: &read::Logs) -> Report {
    let truths = truth::truths(logs);
    let judgement = judge::judge(logs, &truths);
    Report::new(logs, &truths, judgement)
}
