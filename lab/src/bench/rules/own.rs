//! What Prometheus reports of itself: how long groups of rules took, series, memory.

use std::collections::BTreeMap;

use anyhow::Context;

use crate::stack::{Prometheus, get};

const DURATION: &str = "prometheus_rule_group_last_duration_seconds";
const EVALUATED: &str = "prometheus_rule_group_last_evaluation_timestamp_seconds";
const MISSED: &str = "prometheus_rule_group_iterations_missed_total";
const FAILED: &str = "prometheus_rule_evaluation_failures_total";
const SERIES: &str = "prometheus_tsdb_head_series";
const RESIDENT: &str = "process_resident_memory_bytes";

/// Its metrics at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Own {
    /// Of each group: when it was evaluated last, and how many seconds that took.
    pub(super) groups: BTreeMap<String, (f64, f64)>,
    /// Evaluations that were left out because the one before them took too long.
    pub(super) missed: f64,
    /// Rules that could not be evaluated.
    pub(super) failed: f64,
    /// Series in memory.
    pub(super) series: f64,
    /// Resident memory.
    pub(super) resident_mb: f64,
}

impl Own {
    /// Reads them.
    pub(super) async fn of(prometheus: &Prometheus) -> anyhow::Result<Own> {
        let page = get(prometheus.address(), "/metrics").await?.ok()?;
        Own::parse(&page).context("what Prometheus reports of itself")
    }

    fn parse(page: &str) -> anyhow::Result<Own> {
        let one = |name| samples(page, name).next().map(|(_, value)| value).context(name);
        let sum = |name| samples(page, name).map(|(_, value)| value).sum();
        let evaluated: BTreeMap<&str, f64> = samples(page, EVALUATED).collect();
        let groups = samples(page, DURATION).filter_map(|(labels, seconds)| {
            let at = *evaluated.get(labels).filter(|at| **at > 0.0)?;
            Some((group(labels)?.to_owned(), (at, seconds)))
        });
        Ok(Own {
            groups: groups.collect(),
            missed: sum(MISSED),
            failed: sum(FAILED),
            series: one(SERIES)?,
            resident_mb: one(RESIDENT)? / 1e6,
        })
    }
}

/// The labels, in braces or empty, and values of a metric.
fn samples<'a>(page: &'a str, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
    page.lines().filter_map(move |line| {
        let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
        let is_it = labels.is_empty() || labels.starts_with('{');
        Some((labels, value.parse().ok()?)).filter(|_| is_it)
    })
}

/// The name in `{rule_group="FILE;NAME"}`.
fn group(labels: &str) -> Option<&str> {
    labels.strip_suffix("\"}")?.rsplit_once(';').map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_were_evaluated() {
        let (pages, later) =
            ("{rule_group=\"/a;b.yml;x.pages\"}", "{rule_group=\"/a;b.yml;x.later\"}");
        let page = format!(
            "# TYPE {DURATION} gauge\n\
             {DURATION}{pages} 0.25\n\
             {DURATION}{later} 0\n\
             {EVALUATED}{pages} 1.7e+09\n\
             {EVALUATED}{later} -6.2e+10\n\
             {MISSED}{pages} 2\n\
             {MISSED}{later} 1\n\
             {SERIES}_created_total 99\n\
             {SERIES} 42\n\
             {RESIDENT} 2.5e+08\n"
        );
        let own = Own::parse(&page).unwrap();
        assert_eq!(own.groups, BTreeMap::from([("x.pages".to_owned(), (1.7e9, 0.25))]));
        assert_eq!((own.missed, own.failed, own.series, own.resident_mb), (3.0, 0.0, 42.0, 250.0));
        assert!(Own::parse("").is_err());
    }
}
