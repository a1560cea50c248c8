//! The configurations of Prometheus and Alertmanager, from a file or from their APIs: what stands
//! in them. Where an alert goes is not worked out.

use serde_yaml::Value;

use super::exposition::Labels;
use super::matcher::{Matcher, matchers};
use super::yaml::{is_on, list, ms, pairs, text, texts};
use crate::text::identity::escape;

/// Prometheus' default scrape and evaluation interval in milliseconds.
pub const INTERVAL_DEFAULT_MS: u64 = 60_000;
/// For how long Prometheus takes a sample for the present, by default (`--query.lookback-delta`).
pub const LOOKBACK_MS: u64 = 300_000;
/// Alertmanager's default `group_wait` in milliseconds: how long a new group waits for more alerts.
pub const GROUP_WAIT_DEFAULT_MS: u64 = 30_000;
/// Alertmanager's default `group_interval` in milliseconds: the same for a group that was already
/// notified.
const GROUP_INTERVAL_DEFAULT_MS: u64 = 300_000;

/// A program whose configuration this is.
#[derive(Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// What its configuration may have at the top. The program itself refuses anything else.
    fields: &'static [&'static str],
    /// The flags that make its file unnecessary.
    flags: &'static str,
}

/// Prometheus.
pub const PROMETHEUS: Program = Program {
    name: "Prometheus",
    fields: &[
        "global",
        "runtime",
        "alerting",
        "rule_files",
        "scrape_config_files",
        "scrape_configs",
        "storage",
        "tracing",
        "remote_write",
        "remote_read",
        "otlp",
    ],
    flags: "--scrape-interval and --evaluation-interval",
};

/// Alertmanager.
pub const ALERTMANAGER: Program = Program {
    name: "Alertmanager",
    fields: &[
        "global",
        "route",
        "inhibit_rules",
        "receivers",
        "templates",
        "mute_time_intervals",
        "time_intervals",
        "tracing",
        "event_recorder",
    ],
    flags: "--group-wait",
};

/// What stands in Prometheus' configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusConfig {
    /// How often rules are evaluated, unless their group says otherwise.
    pub evaluation_interval_ms: Option<u64>,
    /// How far in the past rules look, unless their group says otherwise.
    pub rule_query_offset_ms: u64,
    /// Whether it names files with rules.
    pub has_rules: bool,
    /// Whether it names Alertmanagers, or ways to find them.
    pub has_alertmanagers: bool,
    /// Whether it changes or drops alerts before they are sent.
    pub relabels_alerts: bool,
    /// How often targets are scraped, unless their job says otherwise.
    pub scrape_interval_ms: Option<u64>,
    /// What it adds to alerts.
    pub external_labels: Labels,
    /// What it scrapes.
    pub jobs: Vec<JobConfig>,
}

/// A scrape job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobConfig {
    /// `job_name`.
    pub name: String,
    /// How often it scrapes, if it says so itself.
    pub scrape_interval_ms: Option<u64>,
    /// Whether labels of its targets leave those of lockwatch alone.
    pub honors_labels: bool,
    /// Whether it changes or drops series.
    pub relabels_metrics: bool,
    /// Whether it looks like a job that scrapes lockwatch: by its name, or by the port of a target.
    pub may_be_lockwatch: bool,
}

/// What stands in Alertmanager's configuration.
#[derive(Clone, Debug)]
pub struct AlertmanagerConfig {
    /// All receivers.
    pub receivers: Vec<ReceiverConfig>,
    /// All routes, each with what it inherits.
    pub routes: Vec<RouteConfig>,
    /// Which alerts mute which.
    pub inhibit_rules: Vec<InhibitRule>,
}

/// A receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverConfig {
    /// Its name.
    pub name: String,
    /// Its integrations: `webhook`, `pagerduty`, … None: it notifies nobody.
    pub integrations: Vec<Integration>,
}

/// One way in which a receiver notifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integration {
    /// `webhook`, `pagerduty`, …
    pub kind: String,
    /// Whether it also says that an alert is over; `None`: by its default.
    pub send_resolved: Option<bool>,
}

/// A route with the settings that it has or inherits.
#[derive(Clone, Debug)]
pub struct RouteConfig {
    /// The receiver that it notifies.
    pub receiver: String,
    /// The labels that alerts of one group have in common; `...` stands for all.
    pub group_by: Vec<String>,
    /// How long a new group waits for more alerts.
    pub group_wait_ms: u64,
    /// How long a group that was notified waits before it reports another alert.
    pub group_interval_ms: u64,
    /// How long until the same alerts are notified again.
    pub repeat_interval_ms: Option<u64>,
    /// The names of times at which it is silent, or at which alone it is not. Not inherited.
    pub silent_at: Vec<String>,
    /// Those of this route, and of the routes above it.
    matchers: Vec<Matcher>,
    /// Those of routes that come first: its children, and what stands above it without `continue`.
    before: Vec<Vec<Matcher>>,
}

/// Alerts that mute others.
#[derive(Clone, Debug)]
pub struct InhibitRule {
    source: Vec<Matcher>,
    target: Vec<Matcher>,
    equal: Vec<String>,
}

impl PrometheusConfig {
    /// Reads it.
    ///
    /// # Errors
    /// This is no configuration of Prometheus; text for a person.
    pub fn read(root: &Value) -> Result<PrometheusConfig, String> {
        PROMETHEUS.expect(root)?;
        let global = root.get("global").unwrap_or(&Value::Null);
        let alerting = root.get("alerting").unwrap_or(&Value::Null);
        let groups = list(alerting, "alertmanagers")?;
        let jobs = list(root, "scrape_configs")?.iter().map(JobConfig::read);
        Ok(PrometheusConfig {
            // Zero means unset.
            evaluation_interval_ms: ms(global, "evaluation_interval")?.filter(|ms| *ms > 0),
            scrape_interval_ms: ms(global, "scrape_interval")?.filter(|ms| *ms > 0),
            rule_query_offset_ms: ms(global, "rule_query_offset")?.unwrap_or(0),
            external_labels: pairs(global, "external_labels"),
            has_rules: !list(root, "rule_files")?.is_empty(),
            has_alertmanagers: groups.iter().any(finds_something),
            relabels_alerts: std::iter::once(alerting)
                .chain(groups)
                .any(|block| has_items(block, "alert_relabel_configs")),
            jobs: jobs.collect::<Result<_, _>>()?,
        })
    }

    /// The jobs that look like lockwatch's.
    pub fn of_lockwatch(&self) -> impl Iterator<Item = &JobConfig> {
        self.jobs.iter().filter(|job| job.may_be_lockwatch)
    }
}

impl JobConfig {
    fn read(job: &Value) -> Result<JobConfig, String> {
        let name = job.get("job_name").and_then(text).unwrap_or_default();
        // A probe of lockwatch reads no metrics of it.
        let path = job.get("metrics_path").and_then(text).unwrap_or_default();
        Ok(JobConfig {
            scrape_interval_ms: ms(job, "scrape_interval")?.filter(|ms| *ms > 0),
            honors_labels: is_on(job.get("honor_labels")),
            relabels_metrics: has_items(job, "metric_relabel_configs"),
            may_be_lockwatch: !path.ends_with("/probe") && mentions_lockwatch(job),
            name,
        })
    }
}

impl AlertmanagerConfig {
    /// Reads it.
    ///
    /// # Errors
    /// This is no configuration of Alertmanager; text for a person.
    pub fn read(root: &Value) -> Result<AlertmanagerConfig, String> {
        ALERTMANAGER.expect(root)?;
        let top =
            root.get("route").ok_or("has no `route`; name Alertmanager's configuration file")?;
        let receivers: Vec<ReceiverConfig> =
            list(root, "receivers")?.iter().filter_map(ReceiverConfig::read).collect();
        let defaults = RouteConfig {
            receiver: String::new(),
            group_by: Vec::new(),
            group_wait_ms: GROUP_WAIT_DEFAULT_MS,
            group_interval_ms: GROUP_INTERVAL_DEFAULT_MS,
            repeat_interval_ms: None,
            silent_at: Vec::new(),
            matchers: Vec::new(),
            before: Vec::new(),
        };
        let mut routes = Vec::new();
        RouteConfig::read(top, &defaults, &mut routes)?;
        let named = |route: &RouteConfig| receivers.iter().any(|it| it.name == route.receiver);
        match routes.iter().find(|route| !named(route)) {
            Some(route) if route.receiver.is_empty() => {
                return Err(
                    "the top `route` has no `receiver`; a receiver called null needs quotes"
                        .to_owned(),
                );
            }
            Some(route) => {
                return Err(format!(
                    "a route names the receiver {}, which is not in `receivers`",
                    quoted(&route.receiver)
                ));
            }
            None => {}
        }
        let rules = list(root, "inhibit_rules")?.iter().map(InhibitRule::read);
        Ok(AlertmanagerConfig {
            receivers,
            routes,
            inhibit_rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// A receiver by its name.
    pub fn receiver(&self, name: &str) -> Option<&ReceiverConfig> {
        self.receivers.iter().find(|receiver| receiver.name == name)
    }

    /// The routes that name a receiver.
    pub fn routes_to<'a>(&'a self, receiver: &'a str) -> impl Iterator<Item = &'a RouteConfig> {
        self.routes.iter().filter(move |route| route.receiver == receiver)
    }

    /// The routes whose receivers notify anybody.
    pub fn notifying(&self) -> impl Iterator<Item = &RouteConfig> {
        self.routes
            .iter()
            .filter(|route| self.receiver(&route.receiver).is_some_and(ReceiverConfig::notifies))
    }
}

impl ReceiverConfig {
    fn read(receiver: &Value) -> Option<ReceiverConfig> {
        let fields = receiver.as_mapping().into_iter().flatten();
        let integrations = fields.flat_map(|(field, entries)| {
            let kind = field.as_str().and_then(|field| field.strip_suffix("_configs"));
            let entries = entries.as_sequence().into_iter().flatten();
            kind.into_iter().flat_map(move |kind| {
                entries.clone().map(move |entry| Integration {
                    kind: kind.to_owned(),
                    send_resolved: entry.get("send_resolved").map(|said| is_on(Some(said))),
                })
            })
        });
        let integrations = integrations.collect();
        Some(ReceiverConfig { name: text(receiver.get("name")?)?, integrations })
    }

    /// Whether it notifies anybody. One without a single integration does not.
    pub fn notifies(&self) -> bool {
        !self.integrations.is_empty()
    }
}

impl RouteConfig {
    /// Adds this route and those below. What a route omits is inherited from its parent.
    fn read(route: &Value, parent: &RouteConfig, all: &mut Vec<RouteConfig>) -> Result<(), String> {
        let receiver = route.get("receiver").and_then(text).filter(|name| !name.is_empty());
        let times = ["mute_time_intervals", "active_time_intervals"].map(|it| texts(route, it));
        let own = RouteConfig {
            receiver: receiver.unwrap_or_else(|| parent.receiver.clone()),
            // An empty list counts as absent.
            group_by: Some(texts(route, "group_by"))
                .filter(|names| !names.is_empty())
                .unwrap_or_else(|| parent.group_by.clone()),
            group_wait_ms: ms(route, "group_wait")?.unwrap_or(parent.group_wait_ms),
            group_interval_ms: ms(route, "group_interval")?.unwrap_or(parent.group_interval_ms),
            repeat_interval_ms: ms(route, "repeat_interval")?.or(parent.repeat_interval_ms),
            silent_at: times.concat(),
            matchers: [
                parent.matchers.clone(),
                matchers(route, ["matchers", "match", "match_re"])?,
            ]
            .concat(),
            before: parent.before.clone(),
        };
        let at = all.len();
        all.push(own.clone());
        let mut inherited = own;
        for child in list(route, "routes")? {
            let taken = matchers(child, ["matchers", "match", "match_re"])?;
            RouteConfig::read(child, &inherited, all)?;
            if let Some(own) = all.get_mut(at) {
                own.before.push(taken.clone());
            }
            if !is_on(child.get("continue")) {
                inherited.before.push(taken);
            }
        }
        Ok(())
    }

    /// Whether an alert may end at this route, by the labels that are known of it: all matchers
    /// fit, and none of a route that comes first. Labels that Prometheus adds may decide otherwise.
    pub fn may_take<'a>(&self, alert: impl Fn(&str) -> &'a str) -> bool {
        let fits = |matchers: &Vec<Matcher>| {
            matchers.iter().all(|matcher| matcher.matches(alert(matcher.label())))
        };
        fits(&self.matchers) && !self.before.iter().any(fits)
    }

    /// Whether alerts that differ in this label are in different groups.
    pub fn groups_by(&self, label: &str) -> bool {
        self.group_by.iter().any(|name| name == label || name == "...")
    }
}

impl InhibitRule {
    fn read(rule: &Value) -> Result<InhibitRule, String> {
        Ok(InhibitRule {
            source: matchers(rule, ["source_matchers", "source_match", "source_match_re"])?,
            target: matchers(rule, ["target_matchers", "target_match", "target_match_re"])?,
            equal: texts(rule, "equal"),
        })
    }

    /// Whether a firing alert with the labels `source` mutes one with the labels `target`. A label
    /// that neither has counts as equal. What matches both sides is not muted by its like.
    pub fn mutes<'a>(
        &self,
        source: impl Fn(&str) -> &'a str,
        target: impl Fn(&str) -> &'a str,
    ) -> bool {
        fits(&self.source, &source)
            && fits(&self.target, &target)
            && self.equal.iter().all(|name| source(name) == target(name))
            && !(fits(&self.source, &target) && fits(&self.target, &source))
    }

    /// Whether an alert mutes others: those with which these labels are equal.
    pub fn mutes_others<'a>(&self, source: impl Fn(&str) -> &'a str) -> Option<&[String]> {
        fits(&self.source, &source).then_some(&self.equal)
    }
}

fn fits<'a>(matchers: &[Matcher], alert: &impl Fn(&str) -> &'a str) -> bool {
    !matchers.is_empty() && matchers.iter().all(|it| it.matches(alert(it.label())))
}

impl Program {
    /// Fails if this is not the program's configuration.
    fn expect(&self, document: &Value) -> Result<(), String> {
        let name = self.name;
        let why = match (document.as_mapping(), kubernetes_kind(document)) {
            (None, _) => format!("has no fields, so it is not the configuration of {name}"),
            (_, Some(kind)) => {
                format!("is an object of Kubernetes ({kind}), not the configuration of {name}")
            }
            (Some(fields), None) => {
                let known = |field: &Value| {
                    field.as_str().is_some_and(|field| self.fields.contains(&field))
                };
                let Some(unknown) = fields.keys().find(|field| !known(field)) else {
                    return Ok(());
                };
                let unknown = quoted(&text(unknown).unwrap_or_default());
                format!("has a field {unknown}, which the configuration of {name} does not have")
            }
        };
        Err(format!("{why}; name the file that {name} is started with, or give {}", self.flags))
    }
}

/// What it says of its kind.
fn kubernetes_kind(document: &Value) -> Option<String> {
    let said = ["kind", "apiVersion"].into_iter().find_map(|field| {
        Some((field, document.get(field).map(|value| text(value).unwrap_or_default())?))
    });
    said.map(|(field, value)| quoted(&format!("{field}: {value}")))
}

/// Whether any text inside names lockwatch or its default port.
fn mentions_lockwatch(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            text.to_ascii_lowercase().contains("lockwatch") || text.ends_with(":10379")
        }
        Value::Sequence(items) => items.iter().any(mentions_lockwatch),
        Value::Mapping(map) => map.values().any(mentions_lockwatch),
        _ => false,
    }
}

/// Whether a block lists targets, or has a way to discover them.
fn finds_something(block: &Value) -> bool {
    let fields = block.as_mapping().into_iter().flatten();
    let mut ways = fields
        .filter(|(field, _)| field.as_str().is_some_and(|field| field.ends_with("_sd_configs")));
    let listed = block.get("static_configs").and_then(Value::as_sequence).into_iter().flatten();
    ways.any(|(_, ways)| ways.as_sequence().is_some_and(|it| !it.is_empty()))
        || listed.into_iter().any(|group| has_items(group, "targets"))
}

fn has_items(block: &Value, field: &str) -> bool {
    block.get(field).and_then(Value::as_sequence).is_some_and(|items| !items.is_empty())
}

/// A name from a configuration, as it is shown.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", escape(name.as_bytes()))
}

#[cfg(test)]
mod tests;
