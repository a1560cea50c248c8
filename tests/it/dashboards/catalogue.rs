//! The series that a query can read: the agent's metrics, recorded series, and those that
//! Prometheus generates.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use lockwatch::outputs::metrics::TABLE;
use serde_json::Value;

use super::board::{list, string};

/// Labels of every target.
const OF_TARGETS: [&str; 5] = ["job", "instance", "cluster", "namespace", "env"];
/// Those that tell sites apart, which recorded series and alerts keep.
pub(super) const OF_SITES: [&str; 3] = ["cluster", "namespace", "env"];
const OF_ALERTS: [&str; 8] =
    ["alertname", "alertstate", "severity", "task", "store", "drill", "job", "instance"];
/// Series that Prometheus generates for each target.
const OF_SCRAPES: [&str; 5] = [
    "up",
    "scrape_duration_seconds",
    "scrape_samples_scraped",
    "scrape_samples_post_metric_relabeling",
    "scrape_series_added",
];

/// By name.
pub(super) type Catalogue = BTreeMap<String, Known>;

pub(super) struct Known {
    pub(super) is_counter: bool,
    /// Whether only a task with `metrics: full` shows it.
    pub(super) full: bool,
    pub(super) labels: Vec<String>,
}

impl Known {
    fn new(is_counter: bool, labels: &[&[&str]]) -> Self {
        let labels = labels.concat().into_iter().map(str::to_owned).collect();
        Self { is_counter, full: false, labels }
    }
}

pub(super) fn catalogue() -> Catalogue {
    let mut catalogue = Catalogue::new();
    for metric in TABLE {
        let labels = metric.labels();
        let mut insert = |suffix: &str, is_counter: bool, more: &[&str]| {
            let known = Known::new(is_counter, &[&labels, &OF_TARGETS, more]);
            let name = format!("{}{suffix}", metric.name);
            catalogue.insert(name, Known { full: metric.is_full(), ..known });
        };
        if metric.kind() == "histogram" {
            insert("_bucket", true, &["le"]);
            insert("_sum", true, &[]);
            insert("_count", true, &[]);
        } else {
            insert("", metric.kind() == "counter", &[]);
        }
    }
    for rule in rules() {
        let name = string(&rule, "record");
        let labels: &[&str] = match name {
            "lockwatch:problem_seconds" => &["task", "store", "drill", "problem", "severity"],
            _ if name.contains("time_seconds") => &["task", "store", "of"],
            _ if name.starts_with("task:") => &["task", "store"],
            _ => &[],
        };
        catalogue.insert(name.into(), Known::new(false, &[labels, &OF_SITES]));
    }
    catalogue.extend(OF_SCRAPES.map(|name| (name.into(), Known::new(false, &[&OF_TARGETS]))));
    catalogue.extend(
        ["ALERTS", "ALERTS_FOR_STATE"]
            .map(|name| (name.into(), Known::new(false, &[&OF_ALERTS, &OF_SITES]))),
    );
    catalogue
}

/// The alerting and recording rules.
pub(super) fn rules() -> Vec<Value> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts/lockwatch.rules.yml");
    let rules: Value =
        serde_yaml::from_str(&fs::read_to_string(file).expect("rules")).expect("YAML");
    list(&rules, "/groups").flat_map(|group| list(group, "/rules")).cloned().collect()
}
