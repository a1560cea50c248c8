//! The job of Prometheus that scrapes lockwatch: its targets, and the labels that they give to
//! pages.

use std::collections::BTreeSet;

use serde_yaml::Value;

use super::foreign::{Labels, is_on, list, pairs, text, texts};
use super::relabel::{LabelSet, Rule, apply, rules};
use crate::config::AGENT_LABELS;

/// The series that a page is made of, and its problem.
const SERIES: [(&str, &str); 2] =
    [("__name__", "lockwatch_task_problem_seconds"), ("problem", "down")];
/// The page.
const ALERT: (&str, &str) = ("alertname", "LockwatchTaskDown");
/// Other labels of each such series.
const OF_EVERY_PAGE: [&str; 3] = ["task", "store", SEVERITY];
pub(super) const SEVERITY: &str = "severity";
/// The rules set this label and drop it again.
const AGENT: &str = "agent";

/// Labels of every target, with the field of the job that says their value, and its default.
const OF_EVERY_TARGET: [(&str, &str, &str); 3] = [
    ("job", "job_name", ""),
    ("__scheme__", "scheme", "http"),
    ("__metrics_path__", "metrics_path", "/metrics"),
];
const ADDRESS: &str = "__address__";
const INSTANCE: &str = "instance";

pub(super) const RELABEL: &str = "relabel_configs";
pub(super) const METRIC_RELABEL: &str = "metric_relabel_configs";

/// The end of the fields that name ways to discover targets.
const DISCOVERY_END: &str = "_sd_configs";
/// Discovery that may set any label.
const DISCOVERY_OF_ANYTHING: [&str; 2] = ["file_sd_configs", "http_sd_configs"];
/// The beginning of the labels that other discovery sets.
const DISCOVERED: &str = "__meta_";

/// A job that scrapes lockwatch.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    pub(super) honors_labels: bool,
    /// Whether it says where its targets are.
    pub(super) discovers: bool,
    /// The labels of its targets, after relabelling.
    pub(super) targets: Vec<LabelSet>,
    metric_rules: Vec<Rule>,
}

impl Job {
    /// The job of a file that was not read.
    pub(super) fn unknown() -> Job {
        let mut target = LabelSet::default();
        target.may_have("");
        Job {
            name: String::new(),
            honors_labels: true,
            discovers: true,
            targets: vec![target],
            metric_rules: Vec::new(),
        }
    }

    pub(super) fn read(job: &Value) -> Result<Job, String> {
        let mut found = discovered(job)?;
        let discovers = !found.is_empty();
        if !discovers {
            found.push(discovered_by(DISCOVERED));
        }
        let relabelling = rules(job, RELABEL)?;
        let mut targets: Vec<LabelSet> = Vec::new();
        for mut target in found {
            for (label, field, default) in OF_EVERY_TARGET {
                if !target.has(label) {
                    let value = job.get(field).and_then(text);
                    target.set(label, Some(value.unwrap_or_else(|| default.to_owned())));
                }
            }
            if !apply(&relabelling, &mut target) {
                continue;
            }
            if !target.has(INSTANCE) {
                target.set(INSTANCE, target.get(ADDRESS).map(str::to_owned));
            }
            target.remove_internal();
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
        Ok(Job {
            name: job.get("job_name").and_then(text).unwrap_or_default(),
            honors_labels: is_on(job.get("honor_labels")),
            discovers,
            targets,
            metric_rules: rules(job, METRIC_RELABEL)?,
        })
    }

    /// The different pages of a task whose series has the labels `own`.
    pub(super) fn pages(&self, own: &Labels) -> Vec<LabelSet> {
        let mut pages = Vec::new();
        for page in self.targets.iter().filter_map(|target| self.page(target, own)) {
            if !pages.contains(&page) {
                pages.push(page);
            }
        }
        pages
    }

    /// The page that this target's series brings about: what the rules leave of its labels.
    fn page(&self, target: &LabelSet, own: &Labels) -> Option<LabelSet> {
        let mut page = target.clone();
        for (name, value) in own {
            // A label without a value is not sent, and does not keep away the target's.
            if !value.is_empty() || !page.has(name) {
                page.set(name, Some(value.clone()));
            }
        }
        for (name, value) in SERIES {
            page.set(name, Some(value.to_owned()));
        }
        let is_series = |page: &LabelSet| {
            SERIES.iter().all(|(name, value)| page.get(name).is_none_or(|now| now == *value))
        };
        if !apply(&self.metric_rules, &mut page) || !is_series(&page) {
            return None;
        }
        AGENT_LABELS.iter().chain([&AGENT]).for_each(|name| page.remove(name));
        page.remove_internal();
        let (name, value) = ALERT;
        page.set(name, Some(value.to_owned()));
        Some(page)
    }

    /// The labels in which the pages of one task differ.
    pub(super) fn differing(&self) -> BTreeSet<String> {
        let own = OF_EVERY_PAGE.map(|name| (name.to_owned(), name.to_owned())).into();
        let pages = self.pages(&own);
        let differ = |name: &&str| {
            let values: BTreeSet<&str> = pages.iter().filter_map(|page| page.get(name)).collect();
            values.len() > 1
        };
        pages.iter().flat_map(LabelSet::names).filter(differ).map(str::to_owned).collect()
    }
}

/// The jobs that may be lockwatch's, the likeliest first: found by their name and by the port of
/// their targets, else by any value in them. A probe of lockwatch reads no metrics of it.
pub(super) fn meant(jobs: &[Value]) -> Vec<&Value> {
    let is_probe = |job: &Value| {
        job.get("metrics_path").and_then(text).is_some_and(|path| path.ends_with("/probe"))
    };
    let jobs: Vec<&Value> = jobs.iter().filter(|job| !is_probe(job)).collect();
    let is_named = |job: &&&Value| job.get("job_name").is_some_and(mentions_lockwatch);
    let has_port = |job: &&&Value| {
        let groups = job.get("static_configs").and_then(Value::as_sequence).into_iter().flatten();
        groups.filter_map(|group| group.get("targets")).flat_map(texts).any(|it| is_at_port(&it))
    };
    let by_port = jobs.iter().filter(|job| !is_named(job)).filter(has_port);
    let mut meant: Vec<&Value> = jobs.iter().filter(is_named).chain(by_port).copied().collect();
    if meant.is_empty() {
        meant.extend(jobs.iter().filter(|job| mentions_lockwatch(job)));
    }
    meant
}

/// Whether any text inside names lockwatch or its default port.
fn mentions_lockwatch(value: &Value) -> bool {
    match value {
        Value::String(text) => text.to_ascii_lowercase().contains("lockwatch") || is_at_port(text),
        Value::Sequence(items) => items.iter().any(mentions_lockwatch),
        Value::Mapping(map) => map.values().any(mentions_lockwatch),
        _ => false,
    }
}

fn is_at_port(address: &str) -> bool {
    address.ends_with(":10379")
}

/// The targets of a job before relabelling, as far as they are known; one for each other way to
/// discover them.
fn discovered(job: &Value) -> Result<Vec<LabelSet>, String> {
    let mut found = Vec::new();
    for group in list(job, "static_configs")? {
        let labels = group.get("labels").map(pairs).unwrap_or_default();
        let addresses = group.get("targets").map(texts).unwrap_or_default();
        let mut addresses: Vec<Option<String>> = addresses.into_iter().map(Some).collect();
        if addresses.is_empty() {
            addresses.push(None);
        }
        for address in addresses {
            let mut target = LabelSet::default();
            labels.iter().for_each(|(name, value)| target.set(name, Some(value.clone())));
            target.set(ADDRESS, address);
            found.push(target);
        }
    }
    found.extend(discovery(job).map(|field| {
        discovered_by(if DISCOVERY_OF_ANYTHING.contains(&field) { "" } else { DISCOVERED })
    }));
    Ok(found)
}

/// A target of which nothing is known but the beginning of its labels.
fn discovered_by(beginning: &str) -> LabelSet {
    let mut target = LabelSet::default();
    target.set(ADDRESS, None);
    target.may_have(beginning);
    target
}

/// The fields that name ways to discover targets, other than to list them.
pub(super) fn discovery(block: &Value) -> impl Iterator<Item = &str> {
    let fields = block.as_mapping().into_iter().flatten();
    let used = fields.filter(|(_, ways)| ways.as_sequence().is_some_and(|it| !it.is_empty()));
    used.filter_map(|(field, _)| field.as_str()).filter(|field| field.ends_with(DISCOVERY_END))
}
