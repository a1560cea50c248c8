//! The list `labels`: the names of the per-task labels.

use std::sync::Arc;

use serde_yaml::Value;

use super::block::At;
use super::mistake::{Reported, quoted};
use super::values::text;

/// Maximum number of labels. Each one is on one series of every task.
const LABELS_MAX: usize = 5;

/// Label names of lockwatch's own series.
pub(crate) const OURS: [&str; 20] = [
    "drill",
    "fate",
    "generation",
    "holder",
    "holder_host",
    "key",
    "kind",
    "library",
    "of",
    "outcome",
    "pattern",
    "problem",
    "reason",
    "role",
    "server",
    "state",
    "store",
    "task",
    "tasks",
    "version",
];

/// Labels of scrape targets that tell agents and copies of their series apart. The rules drop them.
#[rustfmt::skip] // a list
pub const AGENT_LABELS: [&str; 24] = [
    "instance", "job", "pod", "pod_name", "pod_ip",
    "pod_template_hash", "container", "container_name", "endpoint", "service",
    "address", "node", "node_name", "host", "hostname",
    "instance_id", "controller_revision_hash",
    "kubernetes_pod_name", "kubernetes_node", "kubernetes_name",
    // Of copies of their series.
    "prometheus", "prometheus_replica", "replica", "__replica__",
];

/// Names that Prometheus sets itself on targets, histograms or alerts, or that the alert rules set.
/// They also drop [`AGENT_LABELS`], and tell sites apart by [`SITE_LABELS`].
const OF_PROMETHEUS: [&str; 5] = ["agent", "alertname", "alertstate", "le", "quantile"];

/// Labels of scrape targets that tell sites apart. The rules join series by them.
pub const SITE_LABELS: [&str; 3] = ["cluster", "namespace", "env"];

/// Beginnings of names that Prometheus gives to labels that were taken.
const OF_PROMETHEUS_BEGIN: [&str; 2] = ["__", "exported_"];

pub(super) fn read(at: &At<'_>) -> Result<Vec<Arc<str>>, Reported> {
    let names = at.list(label_name)?;
    for (index, name) in names.iter().enumerate() {
        if names.iter().take(index).any(|earlier| earlier == name) {
            let message = format!("{} is there twice; remove one", quoted(name));
            at.mistakes.report(at.place.item(index), message);
        }
    }
    if names.len() > LABELS_MAX {
        let message = format!(
            "has {} names; at most {LABELS_MAX} are allowed, as each multiplies into rules",
            names.len()
        );
        at.report(message);
    }
    Ok(names)
}

fn label_name(value: &Value) -> Result<Arc<str>, String> {
    let name = text(value)?;
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    let valid = name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit());
    if !valid || name.len() > 100 {
        return Err(format!(
            "{} is not a label name; use letters, digits and _, and begin with a letter",
            quoted(&name)
        ));
    }
    if let Some(begin) = OF_PROMETHEUS_BEGIN.iter().find(|begin| name.starts_with(**begin)) {
        return Err(format!(
            "{} is reserved: names that begin with {begin} are Prometheus' own; choose another",
            quoted(&name)
        ));
    }
    if OURS.contains(&name.as_str()) {
        return Err(format!(
            "{} is reserved: lockwatch sets it itself; choose another name",
            quoted(&name)
        ));
    }
    if SITE_LABELS.contains(&name.as_str()) {
        return Err(format!(
            "{} is reserved: the alert rules tell sites apart by it, so set it in the scrape job; \
             choose another name here",
            quoted(&name)
        ));
    }
    if OF_PROMETHEUS.iter().chain(&AGENT_LABELS).any(|other| *other == name) {
        return Err(format!(
            "{} is reserved: Prometheus sets it itself, or the alert rules set or drop it; choose \
             another name",
            quoted(&name)
        ));
    }
    Ok(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_that_the_documentation_reserves_is_refused() {
        let docs = include_str!("../../docs/configuration.md");
        let (_, list) = docs.split_once("names that lockwatch sets itself (").unwrap();
        let (list, _) = list.split_once(" and names that begin with").unwrap();
        let names: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        assert_eq!(
            names.len(),
            OURS.len() + OF_PROMETHEUS.len() + AGENT_LABELS.len() + SITE_LABELS.len()
        );
        for name in names {
            let refused = label_name(&Value::from(name)).unwrap_err();
            assert!(refused.contains("is reserved"), "{name}: {refused}");
        }
    }
}
