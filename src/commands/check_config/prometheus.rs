//! Prometheus' configuration: how often it looks at lockwatch, whom it notifies of alerts, and with
//! which labels.

use std::collections::BTreeSet;

use serde_yaml::Value;

use super::foreign::{Delay, Document, Labels, PROMETHEUS, all_named, list, named, pairs, texts};
use super::job::{Job, METRIC_RELABEL, RELABEL, SEVERITY, discovery, meant};
use super::relabel::{LabelSet, Rule, apply, rules};
use crate::config::OURS;

/// Prometheus' default scrape and evaluation interval.
const DEFAULT_MS: u64 = 60_000;

const ALERT_RELABEL: &str = "alert_relabel_configs";

/// What Prometheus' configuration says about lockwatch.
#[derive(Clone, Debug)]
pub(super) struct Prometheus {
    pub(super) scrape: Delay,
    pub(super) evaluation: Delay,
    /// What is doubtful in it; one sentence each.
    pub(super) doubts: Vec<String>,
    /// The job that scrapes lockwatch; then others that may be meant.
    jobs: Vec<Job>,
    external: LabelSet,
    /// What is done to alerts, for each group of Alertmanagers.
    alerting: Vec<Vec<Rule>>,
}

impl Prometheus {
    /// A Prometheus whose configuration is not known.
    pub(super) fn unknown() -> Prometheus {
        let default = Delay::default_of(&PROMETHEUS, DEFAULT_MS);
        Prometheus {
            scrape: default.clone(),
            evaluation: default,
            doubts: Vec::new(),
            jobs: Vec::new(),
            external: LabelSet::default(),
            alerting: vec![Vec::new()],
        }
    }

    /// Reads what matters to lockwatch.
    ///
    /// # Errors
    /// What is wrong in it.
    pub(super) fn read(document: &Document) -> Result<Prometheus, String> {
        let root = &document.value;
        let global = root.get("global");
        let mut read = Prometheus::unknown();
        let meant = meant(list(root, "scrape_configs")?);
        read.scrape = scrape_interval(document, &meant)?.unwrap_or(read.scrape);
        read.evaluation = document.delay(global, "evaluation_interval")?.unwrap_or(read.evaluation);
        read.external =
            global.and_then(|it| it.get("external_labels")).map(external).unwrap_or_default();
        read.jobs = meant.into_iter().map(Job::read).collect::<Result<_, _>>()?;
        read.doubts = read.doubts_about_jobs();
        if list(root, "rule_files")?.is_empty() {
            read.doubts.push("has no `rule_files`, so no alert rules are loaded".to_owned());
        }
        let alerting = root.get("alerting").unwrap_or(&Value::Null);
        read.alerting = alert_rules(alerting)?;
        if read.alerting.is_empty() {
            let lacks = match alerting {
                Value::Null => "has no `alerting`",
                _ => "names no Alertmanager in `alerting`",
            };
            read.doubts.push(format!("{lacks}, so alerts are not delivered"));
            read.alerting.push(rules(alerting, ALERT_RELABEL)?);
        }
        Ok(read)
    }

    /// The labels with which Alertmanager gets the page whose series has the labels `own`; several
    /// if targets differ, or what is done for each Alertmanager.
    ///
    /// # Errors
    /// The field whose rules drop all of them.
    pub(super) fn alerts(&self, own: &Labels) -> Result<Vec<LabelSet>, &'static str> {
        let unknown = Job::unknown();
        let job = self.jobs.first().unwrap_or(&unknown);
        if job.targets.is_empty() {
            return Err(RELABEL);
        }
        let pages = job.pages(own);
        if pages.is_empty() {
            return Err(METRIC_RELABEL);
        }
        let mut alerts = Vec::new();
        for page in &pages {
            for rules in &self.alerting {
                let mut alert = page.clone();
                alert.add(&self.external);
                if apply(rules, &mut alert) && !alerts.contains(&alert) {
                    alerts.push(alert);
                }
            }
        }
        if alerts.is_empty() { Err(ALERT_RELABEL) } else { Ok(alerts) }
    }

    /// What is doubtful about labels of targets where tasks have labels with the names `own`.
    ///
    /// # Errors
    /// Which labels take the place of lockwatch's.
    pub(super) fn collisions(&self, own: &[&str]) -> Result<Vec<String>, String> {
        let mut doubts = Vec::new();
        let lax = self.jobs.iter().enumerate().filter(|(_, job)| !job.honors_labels);
        for (index, job) in lax {
            let name = named(&job.name);
            let ours = OURS.iter().chain([&SEVERITY]).chain(own).copied();
            let taken: BTreeSet<&str> =
                ours.filter(|ours| job.targets.iter().any(|target| target.has(ours))).collect();
            if taken.is_empty() {
                doubts.push(format!(
                    "the job {name} lacks `honor_labels: true`, so any label of a target takes the \
                     place of lockwatch's own of that name; set it"
                ));
                continue;
            }
            let said = format!(
                "targets of the job {name} have labels that take the place of lockwatch's own: {}; \
                 set `honor_labels: true` in that job",
                all_named(taken)
            );
            match index {
                0 => return Err(said),
                // It may be no job of lockwatch.
                _ => doubts.push(said),
            }
        }
        Ok(doubts)
    }

    fn doubts_about_jobs(&self) -> Vec<String> {
        let Some(job) = self.jobs.first() else {
            return vec![
                "names no job of lockwatch (called so, or with targets at port 10379), so the \
                 global scrape interval counts; `scrape_config_files` are not read"
                    .to_owned(),
            ];
        };
        let name = named(&job.name);
        let mut doubts = Vec::new();
        if self.jobs.len() > 1 {
            doubts.push(format!(
                "several jobs may be the one of lockwatch: {}; the labels of {name} count, and the \
                 longest scrape interval",
                all_named(self.jobs.iter().map(|job| job.name.as_str()))
            ));
        }
        if !job.discovers {
            doubts.push(format!("the job {name} names no targets, so nothing is scraped"));
        }
        let differing = job.differing();
        if !differing.is_empty() {
            doubts.push(format!(
                "targets of the job {name} differ in labels that tell tasks apart: {}; so each \
                 page comes once for every value of them, and no agent can end the page of another",
                all_named(differing.iter().map(String::as_str))
            ));
        }
        doubts
    }
}

/// The interval of the job that scrapes lockwatch; the longest, if several may be meant. If there
/// is no such job (it may be in another file), the global one; the origin says so.
fn scrape_interval(document: &Document, meant: &[&Value]) -> Result<Option<Delay>, String> {
    const FIELD: &str = "scrape_interval";
    let of_all = document.delay(document.value.get("global"), FIELD)?;
    if meant.is_empty() {
        return Ok(of_all.map(|Delay { ms, origin }| Delay {
            ms,
            origin: format!("{origin}, which names no job of lockwatch"),
        }));
    }
    let mut longest: Option<Delay> = None;
    for job in meant {
        let of_job = document.delay(Some(job), FIELD)?.or_else(|| of_all.clone());
        let of_job = of_job.unwrap_or_else(|| Prometheus::unknown().scrape);
        longest = Some(longest.filter(|longest| longest.ms >= of_job.ms).unwrap_or(of_job));
    }
    Ok(longest)
}

/// The external labels. Prometheus replaces variables in them.
fn external(labels: &Value) -> LabelSet {
    let mut external = LabelSet::default();
    for (name, value) in pairs(labels) {
        external.set(name, (!value.contains('$')).then_some(value));
    }
    external
}

/// What is done to alerts for each group of Alertmanagers that may be found.
fn alert_rules(alerting: &Value) -> Result<Vec<Vec<Rule>>, String> {
    let for_all = rules(alerting, ALERT_RELABEL)?;
    let mut groups = Vec::new();
    for group in list(alerting, "alertmanagers")? {
        let listed = list(group, "static_configs")?.iter().filter_map(|it| it.get("targets"));
        if listed.flat_map(texts).next().is_some() || discovery(group).next().is_some() {
            groups.push([for_all.clone(), rules(group, ALERT_RELABEL)?].concat());
        }
    }
    Ok(groups)
}

#[cfg(test)]
mod tests;
