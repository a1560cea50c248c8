//! The delays between lockwatch and a notification, and what is doubtful about the way.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueHint};
use lockwatch_judge::spec::TaskSpec;
use serde_yaml::Value;

use crate::alerts::DOWN;
use crate::chain::config::{
    AlertmanagerConfig, GROUP_WAIT_DEFAULT_MS, INTERVAL_DEFAULT_MS, PrometheusConfig, RouteConfig,
    quoted,
};
use crate::config::{parse_yaml, read_text};
use crate::text::durations::{duration_text, parse_duration_ms};

/// How the origin of a delay begins that nobody named.
const DEFAULT: &str = "the default of ";

/// One delay and the source of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The delay in milliseconds.
    pub ms: u64,
    /// Its source, for people.
    pub origin: String,
}

impl Delay {
    pub(super) fn new(ms: u64, origin: &str) -> Delay {
        Delay { ms, origin: origin.to_owned() }
    }

    /// Of several programs, the slowest counts. A default is a guess, which any knowledge replaces.
    pub(super) fn slower(&mut self, other: Delay) {
        if self.origin.starts_with(DEFAULT) || other.ms > self.ms {
            *self = other;
        }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", duration_text(self.ms), self.origin)
    }
}

/// What the user says about Prometheus and Alertmanager; a value given directly wins over a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct TimingSources {
    /// Prometheus' scrape interval
    #[arg(long = "scrape-interval", value_name = "DURATION", value_parser = parse_duration_ms)]
    pub scrape_ms: Option<u64>,
    /// Prometheus' evaluation interval
    #[arg(long = "evaluation-interval", value_name = "DURATION", value_parser = parse_duration_ms)]
    pub evaluation_ms: Option<u64>,
    /// Alertmanager's group_wait
    #[arg(long = "group-wait", value_name = "DURATION", value_parser = parse_duration_ms)]
    pub group_wait_ms: Option<u64>,
    /// Prometheus' configuration, to take both intervals from
    #[arg(long = "prometheus.config", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub prometheus_config: Option<PathBuf>,
    /// Alertmanager's configuration, to take the longest group_wait from
    #[arg(long = "alertmanager.config", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub alertmanager_config: Option<PathBuf>,
}

/// The delays between lockwatch and a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTiming {
    /// Prometheus' scrape interval.
    pub scrape: Delay,
    /// How far in the past its rules look; `None`: at the present.
    pub offset: Option<Delay>,
    /// Prometheus' evaluation interval.
    pub evaluation: Delay,
    /// Alertmanager's `group_wait`: the longest of the routes that alerts of tasks may take.
    pub group_wait: Delay,
    /// What is doubtful; one sentence each.
    pub warnings: Vec<String>,
}

impl Default for PageTiming {
    fn default() -> PageTiming {
        let default = |ms, program| Delay::new(ms, &format!("{DEFAULT}{program}"));
        PageTiming {
            scrape: default(INTERVAL_DEFAULT_MS, "Prometheus"),
            offset: None,
            evaluation: default(INTERVAL_DEFAULT_MS, "Prometheus"),
            group_wait: default(GROUP_WAIT_DEFAULT_MS, "Alertmanager"),
            warnings: Vec::new(),
        }
    }
}

impl PageTiming {
    /// Finds the delays: from flags, else from files, else the defaults of Prometheus and
    /// Alertmanager.
    ///
    /// # Errors
    /// Why a file cannot be used.
    pub fn find(sources: &TimingSources, tasks: &[Arc<TaskSpec>]) -> Result<PageTiming, String> {
        let mut timing = PageTiming::default();
        if let Some(path) = &sources.prometheus_config {
            let name = path.display().to_string();
            let read = PrometheusConfig::read(&document(path)?).map_err(in_file(&name))?;
            timing.take_prometheus(&read, &name);
            timing.doubt(&read, &name);
        }
        if let Some(path) = &sources.alertmanager_config {
            let name = path.display().to_string();
            let read = AlertmanagerConfig::read(&document(path)?).map_err(in_file(&name))?;
            timing.take_alertmanager(&read, &name, tasks);
        }
        Ok(timing.with_given(sources))
    }

    /// With the values that were given directly.
    pub(super) fn with_given(mut self, sources: &TimingSources) -> PageTiming {
        let given = |ms: Option<u64>, delay: &mut Delay| {
            if let Some(ms) = ms {
                *delay = Delay::new(ms, "given");
            }
        };
        given(sources.scrape_ms, &mut self.scrape);
        given(sources.evaluation_ms, &mut self.evaluation);
        given(sources.group_wait_ms, &mut self.group_wait);
        self
    }

    /// The intervals that Prometheus' configuration has. Which job scrapes lockwatch is guessed by
    /// its name and the port of its targets; of several the slowest counts.
    fn take_prometheus(&mut self, read: &PrometheusConfig, name: &str) {
        let of_all = read.scrape_interval_ms.unwrap_or(INTERVAL_DEFAULT_MS);
        let of_jobs = read.of_lockwatch().map(|job| job.scrape_interval_ms.unwrap_or(of_all));
        self.scrape = match of_jobs.max() {
            Some(ms) => Delay::new(ms, name),
            None => Delay::new(of_all, &format!("{name}, which names no job of lockwatch")),
        };
        if let Some(ms) = read.evaluation_interval_ms {
            self.evaluation = Delay::new(ms, name);
        }
        let offset = Delay::new(read.rule_query_offset_ms, name);
        self.offset = Some(offset).filter(|offset| offset.ms > 0);
    }

    /// What is doubtful in Prometheus' configuration, as far as its text alone shows it.
    fn doubt(&mut self, read: &PrometheusConfig, name: &str) {
        let mut doubts = Vec::new();
        if read.of_lockwatch().next().is_none() {
            doubts.push(
                "names no job of lockwatch (called so, or with targets at port 10379), so the \
                 global scrape interval counts; `scrape_config_files` are not read"
                    .to_owned(),
            );
        }
        for job in read.of_lockwatch().filter(|job| !job.honors_labels) {
            doubts.push(format!(
                "the job {} lacks `honor_labels: true`, so any label of a target takes the place \
                 of lockwatch's own of that name; set it",
                quoted(&job.name)
            ));
        }
        if !read.has_rules {
            doubts.push("has no `rule_files`, so no alert rules are loaded".to_owned());
        }
        if !read.has_alertmanagers {
            doubts.push(
                "names no Alertmanager in `alerting`, so alerts are not delivered".to_owned(),
            );
        }
        self.warnings.extend(doubts.into_iter().map(|doubt| format!("{name}: {doubt}")));
    }

    /// The longest wait of a route that the alert of one of these tasks may take, as far as their
    /// labels show it. If none of these notifies anybody: of any route that does.
    pub(super) fn take_alertmanager(
        &mut self,
        read: &AlertmanagerConfig,
        name: &str,
        tasks: &[Arc<TaskSpec>],
    ) {
        let tasks = tasks.iter().filter(|task| task.may_be_wanted());
        let own = tasks.flat_map(|task| routes_of(read, task));
        let by_wait = |route: &&RouteConfig| route.group_wait_ms;
        match own.max_by_key(by_wait).or_else(|| read.notifying().max_by_key(by_wait)) {
            Some(route) => {
                let origin = format!("{name}, to {}", quoted(&route.receiver));
                self.group_wait.slower(Delay::new(route.group_wait_ms, &origin));
            }
            None => self.warnings.push(format!(
                "{name}: no receiver of a route has an integration (`*_configs`), so nobody is \
                 notified"
            )),
        }
    }

    /// All delays, in their order.
    pub(super) fn delays(&self) -> impl Iterator<Item = (&'static str, &Delay)> {
        let offset = self.offset.as_ref().map(|offset| ("rule_query_offset", offset));
        [("scrape", &self.scrape)]
            .into_iter()
            .chain(offset)
            .chain([("evaluation", &self.evaluation), ("group_wait", &self.group_wait)])
    }

    /// Their sum in milliseconds.
    pub(super) fn ms(&self) -> u64 {
        self.delays().fold(0, |sum, (_, delay)| sum.saturating_add(delay.ms))
    }
}

/// A label of the alert that a task is down, as the rules give it.
pub(super) fn down_label<'a>(task: &'a TaskSpec, name: &str) -> &'a str {
    let own = task.labels.iter().find(|(own, _)| &**own == name).map_or("", |(_, value)| value);
    match name {
        "alertname" => DOWN,
        "problem" => "down",
        "task" => &task.name,
        "severity" if own.is_empty() => "critical",
        _ => own,
    }
}

/// The routes where the alert that a task is down may end, and that notify somebody.
pub(super) fn routes_of<'a>(
    read: &'a AlertmanagerConfig,
    task: &'a TaskSpec,
) -> impl Iterator<Item = &'a RouteConfig> {
    read.notifying().filter(|route| route.may_take(|name| down_label(task, name)))
}

fn document(path: &Path) -> Result<Value, String> {
    let name = path.display().to_string();
    let text = read_text(path).map_err(|message| format!("{name}: {message}"))?;
    parse_yaml(&text, &name).map_err(|errors| errors.to_string())
}

/// Puts the file's name before what is wrong in it.
fn in_file(file: &str) -> impl Fn(String) -> String {
    move |message| format!("{file}: {message}")
}
