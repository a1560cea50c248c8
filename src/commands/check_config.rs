//! `lockwatch check-config`: the report for a valid configuration, above all the worst-case time
//! until an alert is sent.

pub mod routes;

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueHint};
use lockwatch_judge::spec::{ProgressSource, TaskSpec};
use lockwatch_watch::redis::read::keys_beside;
use serde_yaml::Value;

use super::acl::quoted;
use super::source::ConfigSource;
use crate::alerts::{down_after_ms, lease_ms};
use crate::config::AGENT_LABELS;
use crate::config::{Config, Login, RedisConfig, Servers, ms, parse_yaml, read_text};
use crate::text::durations::{duration_text, parse_duration_ms};
use crate::text::identity::escape;
use crate::text::terminal;
use routes::{Destination, GROUP_WAIT_DEFAULT_MS, Labels, Routes, foreign_duration_ms, pairs};

/// Prometheus' default scrape and evaluation interval.
const PROMETHEUS_DEFAULT_MS: u64 = 60_000;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CheckOptions {
    /// What to check.
    #[command(flatten)]
    pub source: ConfigSource,
    /// What the user says about Prometheus and Alertmanager.
    #[command(flatten)]
    pub timing: TimingSources,
}

/// Runs the command.
///
/// # Errors
/// What is wrong with the configuration, or with a file about Prometheus or Alertmanager.
pub fn run(options: &CheckOptions) -> anyhow::Result<ExitCode> {
    let config = options.source.load()?;
    for warning in warnings(&config) {
        eprintln!("warning: {warning}");
    }
    let timing = PageTiming::find(&options.timing).map_err(anyhow::Error::msg)?;
    terminal::show(report(&config, &timing))
}

/// The delays between lockwatch and the notification.
#[derive(Clone, Debug)]
pub struct PageTiming {
    /// Prometheus' scrape interval.
    pub scrape: Delay,
    /// Prometheus' evaluation interval.
    pub evaluation: Delay,
    /// Labels that Prometheus adds to every alert of lockwatch.
    prometheus_labels: Labels,
    group_wait: GroupWait,
}

/// Alertmanager's `group_wait`.
#[derive(Clone, Debug)]
enum GroupWait {
    /// The same for all alerts.
    Fixed(Delay),
    /// That of the route which an alert takes, in this file.
    Routed(Routes, String),
}

/// One delay and the source of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The delay in milliseconds.
    pub ms: u64,
    /// Its source, for people.
    pub origin: String,
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
    /// Alertmanager's configuration, to take group_wait from
    #[arg(long = "alertmanager.config", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub alertmanager_config: Option<PathBuf>,
}

impl PageTiming {
    /// Finds the delays: from flags, else from files, else the defaults of Prometheus and
    /// Alertmanager.
    ///
    /// # Errors
    /// Why a file cannot be used.
    pub fn find(sources: &TimingSources) -> Result<PageTiming, String> {
        let prometheus = sources.prometheus_config.as_deref().map(read_yaml).transpose()?;
        let alertmanager = sources.alertmanager_config.as_deref().map(read_yaml).transpose()?;
        let scrape = prometheus.as_ref().map_or(Ok(None), scrape_interval)?;
        let evaluation = prometheus.as_ref().map_or(Ok(None), evaluation_interval)?;
        let routes = alertmanager.map(GroupWait::routed).transpose()?;
        let of_prometheus = Delay::default_of("Prometheus", PROMETHEUS_DEFAULT_MS);
        let of_alertmanager = Delay::default_of("Alertmanager", GROUP_WAIT_DEFAULT_MS);
        Ok(PageTiming {
            scrape: Delay::given(sources.scrape_ms)
                .or(scrape)
                .unwrap_or_else(|| of_prometheus.clone()),
            evaluation: Delay::given(sources.evaluation_ms).or(evaluation).unwrap_or(of_prometheus),
            prometheus_labels: prometheus.as_ref().map(prometheus_labels).unwrap_or_default(),
            group_wait: Delay::given(sources.group_wait_ms)
                .map(GroupWait::Fixed)
                .or(routes)
                .unwrap_or(GroupWait::Fixed(of_alertmanager)),
        })
    }

    /// Alertmanager's `group_wait` for the alert that reports this task as down. If the alert
    /// reaches several receivers, the longest wait counts: which of them notifies a person is not
    /// known here.
    pub fn group_wait(&self, config: &Config, task: &TaskSpec) -> Delay {
        match &self.group_wait {
            GroupWait::Fixed(delay) => delay.clone(),
            GroupWait::Routed(routes, file) => {
                let labels = self.page_labels(config, task);
                let destinations = routes.destinations(&labels);
                let last =
                    destinations.into_iter().max_by_key(|destination| destination.group_wait_ms);
                last.map_or(Delay { ms: 0, origin: file.clone() }, |destination| Delay {
                    ms: destination.group_wait_ms,
                    origin: format!("{file}, receiver {}", escape(destination.receiver.as_bytes())),
                })
            }
        }
    }

    /// Whether that alert may share a group with the alerts of other tasks.
    fn shares_a_group(&self, config: &Config, task: &TaskSpec) -> bool {
        match &self.group_wait {
            GroupWait::Fixed(_) => false,
            GroupWait::Routed(routes, _) => {
                let labels = self.page_labels(config, task);
                routes.destinations(&labels).into_iter().any(Destination::spans_tasks)
            }
        }
    }

    /// The labels of the alert that reports this task as down. A `severity` label of the task
    /// replaces the rules' `critical`.
    fn page_labels(&self, config: &Config, task: &TaskSpec) -> Labels {
        let redis = config.redises.get(usize::from(task.store.0)).map_or("", |redis| &redis.name);
        let mut labels = self.prometheus_labels.clone();
        labels.insert("severity".to_owned(), "critical".to_owned());
        let own = task.labels.iter().filter(|(_, value)| !value.is_empty());
        labels.extend(own.map(|(name, value)| (name.to_string(), value.to_string())));
        let rules = [("alertname", "LockwatchTaskDown"), ("task", &task.name), ("store", redis)];
        labels.extend(rules.map(|(name, value)| (name.to_owned(), value.to_owned())));
        labels
    }
}

impl GroupWait {
    fn routed(alertmanager: Document) -> Result<GroupWait, String> {
        let Document { name, value } = alertmanager;
        let routes = Routes::read(&value).map_err(|message| format!("{name}: {message}"))?;
        Ok(GroupWait::Routed(routes, name))
    }
}

impl Delay {
    fn given(ms: Option<u64>) -> Option<Delay> {
        ms.map(|ms| Delay { ms, origin: "given".to_owned() })
    }

    fn default_of(program: &str, ms: u64) -> Delay {
        Delay { ms, origin: format!("the default of {program}") }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", duration_text(self.ms), self.origin)
    }
}

/// Problems outside the file that should be fixed although the configuration is valid; one sentence
/// each.
pub fn warnings(config: &Config) -> Vec<String> {
    let of_login = |place: String, login: &Login| {
        let password = login.password.as_ref()?;
        let problem =
            password.read().err().map(|error| error.to_string()).or_else(|| password.warning())?;
        Some(format!("{place}: {problem}"))
    };
    let of_redis = |redis: &RedisConfig| {
        let sentinels = match &redis.servers {
            Servers::Sentinel(_) => {
                of_login(format!("redis.{}.sentinel", redis.name), &redis.sentinel_login)
            }
            _ => None,
        };
        of_login(format!("redis.{}", redis.name), &redis.login).into_iter().chain(sentinels)
    };
    let logins = config.redises.iter().flat_map(of_redis);
    logins.chain(config.tasks.iter().flat_map(|task| literal_names(task))).collect()
}

/// Keys of a task that look like a pattern or a template. They are taken as they are.
fn literal_names(task: &TaskSpec) -> Vec<String> {
    let mut names = vec![task.lock().key.clone()];
    names.extend(keys_beside(task).into_iter().map(|(key, _)| key));
    if let Some(ProgressSource::HashField { field, .. }) =
        task.progress.as_ref().map(|progress| &progress.source)
    {
        names.push(field.clone());
    }
    names.sort_unstable();
    names.dedup();
    let signs = names.iter().filter_map(|name| Some((name, template_sign(name)?)));
    let told = signs.map(|(name, sign)| {
        format!(
            "tasks.{}: {} has {sign} in it, which is taken literally: neither patterns nor \
             variables are replaced; write the name of one key",
            escape(task.name.as_bytes()),
            quoted(name),
        )
    });
    told.collect()
}

/// The first sign of a pattern or a template in a name. A hash tag, `{…}`, is none.
fn template_sign(name: &[u8]) -> Option<&'static str> {
    let has = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    // What stands behind each of these, and before it.
    let around = |sign: u8, is: fn(Option<&u8>, &[u8]) -> bool| {
        (0..name.len()).any(|at| {
            let before = at.checked_sub(1).and_then(|before| name.get(before));
            name.get(at) == Some(&sign) && is(before, name.get(at + 1..).unwrap_or_default())
        })
    };
    let is_class = |_: Option<&u8>, rest: &[u8]| {
        let inside = rest.split(|byte| *byte == b']').next().unwrap_or_default();
        inside.len() > 1 && inside.len() < rest.len() && !inside.iter().all(u8::is_ascii_digit)
    };
    let is_variable = |_: Option<&u8>, rest: &[u8]| {
        rest.first().is_some_and(|byte| b"{(_".contains(byte) || byte.is_ascii_alphabetic())
    };
    let is_format = |before: Option<&u8>, rest: &[u8]| {
        let flags = |byte: &&u8| byte.is_ascii_digit() || b"-+#.$_^(".contains(byte);
        !before.is_some_and(u8::is_ascii_digit)
            && rest.iter().find(|byte| !flags(byte)).is_some_and(u8::is_ascii_alphabetic)
    };
    let is_placeholder = |_: Option<&u8>, rest: &[u8]| {
        let word = rest.split(|byte| *byte == b'>').next().unwrap_or_default();
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_ %=".contains(byte);
        !word.is_empty() && word.len() < rest.len() && word.iter().all(is_of_word)
    };
    [
        (has(b"*"), "a `*`"),
        (has(b"?"), "a `?`"),
        (around(b'[', is_class), "a `[…]`"),
        (around(b'$', is_variable), "a `$`"),
        (has(b"#{"), "a `#{…}`"),
        (has(b"@{"), "a `@{…}`"),
        (has(b"{{"), "a `{{…}}`"),
        (has(b"{%"), "a `{%…%}`"),
        (has(b"{}"), "a `{}`"),
        (around(b'<', is_placeholder), "a `<…>`"),
        (around(b'%', is_format), "a `%…`"),
    ]
    .into_iter()
    .find_map(|(is_there, sign)| is_there.then_some(sign))
}

/// The complete output of `check-config`.
pub fn report(config: &Config, timing: &PageTiming) -> String {
    let mut text = format!(
        "configuration ok: {}, {}\n\n",
        counted(config.redises.len(), "redis", "redises"),
        counted(config.tasks.len(), "task", "tasks")
    );
    text.push_str("Worst time to page, from the moment a wanted task has no holder:\n\n");
    let table = table(config.tasks.iter().map(|task| row(config, task, timing)).collect());
    text.push_str(&table);
    text.push_str(&explanation(config, timing));
    let used = FOOTNOTES.iter().filter(|(mark, _)| table.contains(mark));
    used.for_each(|(mark, meaning)| text.push_str(&format!("{mark} {meaning}\n")));
    text
}

/// The footnote marks of [`row`] and their meaning.
const FOOTNOTES: [(&str, &str); 4] = [
    (NOT_WANTED, "Nobody says that it is wanted (no `wanted`, or `never`), so it is never down."),
    (ASSUMED_LEASE, "`lease` is not configured; Redisson's default of 30s is assumed."),
    (UNKNOWN_LEASE, "`lease` is not configured; lockwatch learns it once it runs."),
    (
        SHARED_GROUP,
        "Its route groups the pages of several tasks (`group_by` lacks `task`): after the first, \
         the next waits for `group_interval`.",
    ),
];
const NOT_WANTED: &str = "[1]";
const ASSUMED_LEASE: &str = "[2]";
const UNKNOWN_LEASE: &str = "[3]";
const SHARED_GROUP: &str = "[4]";

const HEADER: [&str; 5] = ["TASK", "GRACE", "DOWN AFTER", "PAGE AFTER", "AFTER A CRASH"];

fn row(config: &Config, task: &TaskSpec, timing: &PageTiming) -> [String; 5] {
    let name = task.name.escape_debug().to_string();
    let grace = duration_text(task.grace_ms);
    if !task.may_be_wanted() {
        return [name, grace, format!("never {NOT_WANTED}"), "-".to_owned(), "-".to_owned()];
    }
    let interval_ms =
        config.redises.get(usize::from(task.store.0)).map_or(0, |redis| ms(redis.interval));
    let down_ms = down_after_ms(interval_ms, task);
    let delays = [&timing.scrape, &timing.evaluation, &timing.group_wait(config, task)];
    let page_ms = delays.into_iter().fold(down_ms, |sum, delay| sum.saturating_add(delay.ms));
    let shared = if timing.shares_a_group(config, task) {
        format!(" {SHARED_GROUP}")
    } else {
        String::new()
    };
    let crash = match lease_ms(task) {
        Some(lease_ms) => {
            let mark = if task.lock().lease_ms.is_none() {
                format!(" {ASSUMED_LEASE}")
            } else {
                String::new()
            };
            rounded(page_ms.saturating_add(lease_ms)) + &mark
        }
        None => format!("{} + lease {UNKNOWN_LEASE}", rounded(page_ms)),
    };
    [name, grace, rounded(down_ms), rounded(page_ms) + &shared, crash]
}

/// An upper bound for people: whole seconds, rounded up.
fn rounded(ms: u64) -> String {
    duration_text(ms.div_ceil(1000).saturating_mul(1000))
}

fn table(rows: Vec<[String; 5]>) -> String {
    let rows: Vec<[String; 5]> = std::iter::once(HEADER.map(str::to_owned)).chain(rows).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..HEADER.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str("  ");
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn explanation(config: &Config, timing: &PageTiming) -> String {
    let mut text = String::from(
        "\nDown after: interval + grace (at least 250ms, to confirm it) + 250ms. Answers that \
         take longer than 100ms, a\n\
         restart and a reload come on top.\nPage after: the same",
    );
    for (name, delay) in [("scrape", &timing.scrape), ("evaluation", &timing.evaluation)] {
        // Writing to a `String` cannot fail.
        let _ = write!(text, " + {name} {delay}");
    }
    match group_waits(config, timing).as_slice() {
        [] => text.push_str(".\n"),
        [only] => text.push_str(&format!(" + group_wait {only}.\n")),
        several => text.push_str(&format!(" + group_wait:\n  {}\n", several.join("\n  "))),
    }
    text.push_str(
        "After a crash: the lock is still held until the lease has run out, so the \
        lease comes on top.\n",
    );
    text
}

/// Each different `group_wait`. If there are several, each with its tasks.
fn group_waits(config: &Config, timing: &PageTiming) -> Vec<String> {
    let mut waits: Vec<(Delay, Vec<String>)> = Vec::new();
    for task in config.tasks.iter().filter(|task| task.may_be_wanted()) {
        let (wait, name) = (timing.group_wait(config, task), task.name.escape_debug().to_string());
        match waits.iter_mut().find(|(known, _)| *known == wait) {
            Some((_, names)) => names.push(name),
            None => waits.push((wait, vec![name])),
        }
    }
    match waits.as_slice() {
        [(only, _)] => vec![only.to_string()],
        several => {
            several.iter().map(|(wait, names)| format!("{wait} for {}", names.join(", "))).collect()
        }
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn read_yaml(path: &Path) -> Result<Document, String> {
    let name = path.display().to_string();
    let text = read_text(path).map_err(|message| format!("{name}: {message}"))?;
    let value = parse_yaml(&text, &name).map_err(|errors| errors.to_string())?;
    Ok(Document { name, value })
}

/// A configuration file of another program.
struct Document {
    name: String,
    value: Value,
}

impl Document {
    /// In Prometheus' configuration, zero means unset.
    fn delay(&self, at: Option<&Value>, field: &str) -> Result<Option<Delay>, String> {
        let ms = at.and_then(|block| block.get(field)).map_or(Ok(None), foreign_duration_ms);
        let ms = ms.map_err(|message| format!("{}: {field} {message}", self.name))?;
        Ok(ms.filter(|ms| *ms > 0).map(|ms| Delay { ms, origin: self.name.clone() }))
    }
}

/// The interval of the job that scrapes lockwatch. If no such job is found (it may be in another
/// file), the global one; the origin says so.
fn scrape_interval(prometheus: &Document) -> Result<Option<Delay>, String> {
    let of_all = prometheus.delay(prometheus.value.get("global"), "scrape_interval")?;
    match lockwatch_job(prometheus) {
        Some(job) => Ok(prometheus.delay(Some(job), "scrape_interval")?.or(of_all)),
        None => Ok(of_all.map(|Delay { ms, origin }| Delay {
            ms,
            origin: format!("{origin}, which names no job of lockwatch"),
        })),
    }
}

/// Found by its name, else by any value in it.
fn lockwatch_job(prometheus: &Document) -> Option<&Value> {
    let jobs = prometheus.value.get("scrape_configs")?.as_sequence()?;
    let named = jobs.iter().find(|job| job.get("job_name").is_some_and(mentions_lockwatch));
    named.or_else(|| jobs.iter().find(|job| mentions_lockwatch(job)))
}

/// The external labels, and those that all targets of the job share and the rules keep.
fn prometheus_labels(prometheus: &Document) -> Labels {
    let mut labels = prometheus
        .value
        .get("global")
        .and_then(|global| global.get("external_labels"))
        .map(pairs)
        .unwrap_or_default();
    let targets = lockwatch_job(prometheus)
        .and_then(|job| job.get("static_configs"))
        .and_then(Value::as_sequence);
    let mut of_targets = targets
        .into_iter()
        .flatten()
        .map(|targets| targets.get("labels").map(pairs).unwrap_or_default());
    let first = of_targets.next().unwrap_or_default();
    let common = of_targets.fold(first, |common, next| {
        common.into_iter().filter(|(name, value)| next.get(name) == Some(value)).collect()
    });
    labels.extend(common.into_iter().filter(|(name, _)| !AGENT_LABELS.contains(&name.as_str())));
    labels
}

fn evaluation_interval(prometheus: &Document) -> Result<Option<Delay>, String> {
    prometheus.delay(prometheus.value.get("global"), "evaluation_interval")
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

#[cfg(test)]
mod tests {
    use super::*;

    fn document(text: &str) -> Document {
        Document { name: "x.yml".to_owned(), value: serde_yaml::from_str(text).unwrap() }
    }

    fn ms_of(delay: Result<Option<Delay>, String>) -> Option<u64> {
        delay.unwrap().map(|delay| delay.ms)
    }

    #[test]
    fn the_job_of_lockwatch_wins_over_the_global_interval() {
        let prometheus = "global: {scrape_interval: 1m, evaluation_interval: 15s}\n\
            scrape_configs:\n  \
                          - {job_name: node, scrape_interval: 2m}\n  - job_name: tasks\n    \
            scrape_interval: 5s\n    \
                          static_configs: [{targets: ['10.0.0.7:10379']}]\n";
        assert_eq!(ms_of(scrape_interval(&document(prometheus))), Some(5_000));
        assert_eq!(ms_of(evaluation_interval(&document(prometheus))), Some(15_000));
        let by_name = "global: {scrape_interval: 30s}\nscrape_configs: [{job_name: Lockwatch}]\n";
        assert_eq!(ms_of(scrape_interval(&document(by_name))), Some(30_000));
        assert_eq!(ms_of(scrape_interval(&document("global: {}\n"))), None);
        let elsewhere = "global: {scrape_interval: 30s}\nscrape_config_files: [more.yml]\n\
            scrape_configs: [{job_name: node}]\n";
        let of_others = scrape_interval(&document(elsewhere)).unwrap().unwrap();
        assert_eq!(of_others.to_string(), "30s (x.yml, which names no job of lockwatch)");
        for nothing in ["", "0", "'0'", "0s"] {
            let prometheus = format!(
                "global: {{scrape_interval: 30s, evaluation_interval: {nothing}}}\n\
                 scrape_configs: [{{job_name: lockwatch, scrape_interval: {nothing}}}]\n"
            );
            assert_eq!(ms_of(scrape_interval(&document(&prometheus))), Some(30_000), "{nothing}");
            assert_eq!(ms_of(evaluation_interval(&document(&prometheus))), None, "{nothing}");
        }
        let wrong = scrape_interval(&document("global: {scrape_interval: soon}\n")).unwrap_err();
        assert!(wrong.starts_with("x.yml: scrape_interval is not a duration"), "{wrong}");
    }

    #[test]
    fn labels_come_from_prometheus_and_from_all_targets() {
        let prometheus = "global: {external_labels: {cluster: a, zone: 1, env: all}}\n\
            scrape_configs:\n  - {job_name: node, static_configs: \
                          [{labels: {env: wrong}}]}\n  - job_name: lockwatch\n    static_configs: \
            [{labels: {env: prod, pod: x, rack: 1}}, \
                          {labels: {env: prod, pod: x, rack: 2}}]\n";
        let labels = prometheus_labels(&document(prometheus));
        let labels: Vec<(&str, &str)> =
            labels.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(labels, [("cluster", "a"), ("env", "prod"), ("zone", "1")]);
    }

    #[test]
    fn a_pattern_or_a_variable_in_a_name_is_told_wherever_it_stands() {
        let text = |key: &str| {
            format!(
                "redis: {{main: {{url: \"redis://a:1\"}}}}\ntasks:\n  - {{name: t, lock: {{key: \
                 \"{{outbound}}:lock\"}}, {key}}}\n"
            )
        };
        let told = |key: &str| {
            let config = Config::parse(&text(key), Path::new("lockwatch.yml")).unwrap();
            warnings(&config).join("\n")
        };
        for (key, sign) in [
            ("wanted: {hash: \"users:*\"}", "a `*`"),
            ("wanted: {set: \"users:?\"}", "a `?`"),
            ("wanted: {counter: \"users:[0-9]\"}", "a `[…]`"),
            ("wanted: {keys: [\"a\", \"b:${USER}\"]}", "a `$`"),
            ("wanted: {keys: [\"a:$ENV\"]}", "a `$`"),
            ("wanted: {keys: [\"a:$(hostname)\"]}", "a `$`"),
            ("wanted: {hash: \"{% users %}\"}", "a `{%…%}`"),
            ("wanted: {hash: \"<%= users %>\"}", "a `<…>`"),
            ("wanted: {hash: \"users:<id>\"}", "a `<…>`"),
            ("wanted: {hash: \"users:{}\"}", "a `{}`"),
            ("wanted: {hash: \"users:[abc]\"}", "a `[…]`"),
            ("wanted: {hash: \"%ENV%:users\"}", "a `%…`"),
            ("wanted: {hash: \"users-%02d\"}", "a `%…`"),
            ("wanted: {hash: \"users-%1$s\"}", "a `$`"),
            ("progress: {key: \"{{ task }}:run\", stale_after: 1m}", "a `{{…}}`"),
            ("progress: {hash: \"h\", field: \"run_%s\", stale_after: 1m}", "a `%…`"),
            ("claims: {hash: \"claims-%Y-%m\"}", "a `%…`"),
            ("hosts: {hash: \"#{hosts}\"}", "a `#{…}`"),
            ("paused_until: {key: \"deploy:*\"}", "a `*`"),
        ] {
            let told = told(key);
            assert!(told.contains(sign) && told.contains("tasks.t"), "{key}: {told}");
        }
        for fine in [
            "wanted: {hash: \"users\"}",
            "wanted: {hash: \"100%data\"}",
            "wanted: {hash: \"queue[10]\"}",
            "wanted: {hash: \"price$\"}",
            "wanted: {hash: \"{0}:a->b\"}",
            "paused_until: {key: \"{a}:100%\"}",
            "grace: 5s",
        ] {
            assert_eq!(told(fine), "", "{fine}");
        }
    }
}
