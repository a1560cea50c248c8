//! `lockwatch check-config`: the report for a valid configuration, above all the worst-case time
//! until an alert is sent.

mod connect;
mod foreign;
mod job;
mod line;
mod literal;
mod nodes;
mod prometheus;
mod relabel;
pub mod routes;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueHint};
use lockwatch_judge::spec::TaskSpec;

use super::source::ConfigSource;
use crate::alerts::{crash_loop_after_ms, down_after_ms, lease_ms};
use crate::config::{Config, Login, RedisConfig, Servers, TlsFiles, ZooKeeperConfig, exposed, ms};
use crate::patterns::KEYS_PER_SECOND;
use crate::text::durations::{duration_text, parse_duration_ms};
use crate::text::identity::{escape, list};
use crate::text::terminal;
pub use foreign::Delay;
use foreign::{ALERTMANAGER, Document, PROMETHEUS, all_named, named};
use literal::literal_names;
use prometheus::Prometheus;
use routes::{Destination, Ends, GROUP_WAIT_DEFAULT_MS, Labels, Routes};

/// How many tasks a warning names.
const TASKS_SHOWN_MAX: usize = 5;

/// What the command takes.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CheckOptions {
    /// What to check.
    #[command(flatten)]
    pub source: ConfigSource,
    /// Also ask each configured server once, as the agent does
    #[arg(long)]
    pub connect: bool,
    /// The web file, to check it as well
    #[arg(long = "web.config.file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub web_config: Option<PathBuf>,
    /// What the user says about Prometheus and Alertmanager.
    #[command(flatten)]
    pub timing: TimingSources,
}

/// Runs the command. The exit code is 1 if a server was asked and cannot be used.
///
/// # Errors
/// What is wrong with the configuration, or with a file about Prometheus or Alertmanager.
pub async fn run(options: &CheckOptions) -> anyhow::Result<ExitCode> {
    let config = options.source.load()?;
    if let Some(file) = &options.web_config {
        let web = crate::web::check(file)?;
        for warning in &web.warnings {
            eprintln!("warning: {}: {warning}", file.display());
        }
        // Where the agent listens is not known here.
        config.check_login(&options.source.name(), !web.users.is_empty(), true)?;
    }
    for warning in warnings(&config) {
        eprintln!("warning: {warning}");
    }
    let timing = PageTiming::find(&options.timing).map_err(anyhow::Error::msg)?;
    for warning in timing.warnings(&config).map_err(anyhow::Error::msg)? {
        eprintln!("warning: {warning}");
    }
    let mut text = report(&config, &timing);
    let mut is_good = true;
    if options.connect {
        let (connections, all_answer) = connect::report(&config).await;
        text.push_str(&connections);
        is_good = all_answer;
    }
    let shown = terminal::show(text)?;
    Ok(if is_good { shown } else { ExitCode::FAILURE })
}

/// The delays between lockwatch and the notification.
#[derive(Clone, Debug)]
pub struct PageTiming {
    /// Prometheus' scrape interval.
    pub scrape: Delay,
    /// Prometheus' evaluation interval.
    pub evaluation: Delay,
    /// Alertmanager's `group_wait`, if it is given for all routes.
    group_wait: Option<Delay>,
    /// What its file says, and the file's name if there is one.
    prometheus: (Prometheus, Option<String>),
    /// The routes and the file's name.
    alertmanager: Option<(Routes, String)>,
}

/// What becomes of the page of a task.
#[derive(Debug, Default)]
struct Page<'a> {
    /// The field whose relabelling drops it.
    dropped_by: Option<&'static str>,
    /// Where it may end. None if it is dropped, or if Alertmanager's file is not given.
    ends: Ends<'a>,
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
        let mut prometheus = (Prometheus::unknown(), None);
        if let Some(path) = &sources.prometheus_config {
            let document = Document::read(path, &PROMETHEUS)?;
            let read = Prometheus::read(&document).map_err(in_file(&document.name))?;
            prometheus = (read, Some(document.name));
        }
        let mut alertmanager = None;
        if let Some(path) = &sources.alertmanager_config {
            let document = Document::read(path, &ALERTMANAGER)?;
            let routes = Routes::read(&document.value).map_err(in_file(&document.name))?;
            alertmanager = Some((routes, document.name));
        }
        let given = Delay::given;
        let group_wait = given(sources.group_wait_ms).or_else(|| {
            let default = Delay::default_of(&ALERTMANAGER, GROUP_WAIT_DEFAULT_MS);
            alertmanager.is_none().then_some(default)
        });
        let (of_prometheus, _) = &prometheus;
        Ok(PageTiming {
            scrape: given(sources.scrape_ms).unwrap_or_else(|| of_prometheus.scrape.clone()),
            evaluation: given(sources.evaluation_ms)
                .unwrap_or_else(|| of_prometheus.evaluation.clone()),
            group_wait,
            prometheus,
            alertmanager,
        })
    }

    /// What is doubtful in the files of Prometheus and Alertmanager; one sentence each.
    ///
    /// # Errors
    /// What cannot be meant so.
    pub fn warnings(&self, config: &Config) -> Result<Vec<String>, String> {
        let mut warnings = Vec::new();
        if let (prometheus, Some(file)) = &self.prometheus {
            let own: Vec<&str> = config.label_names.iter().map(|name| &**name).collect();
            let collisions = prometheus.collisions(&own).map_err(in_file(file))?;
            let doubts = prometheus.doubts.iter().chain(&collisions);
            warnings.extend(doubts.map(|doubt| format!("{file}: {doubt}")));
        }
        // Each with the tasks that it is true of.
        let mut doubts: BTreeMap<String, Vec<Cow<'_, str>>> = BTreeMap::new();
        for task in config.tasks.iter().filter(|task| task.may_be_wanted()) {
            for doubt in self.doubts(&self.page(config, task)) {
                doubts.entry(doubt).or_default().push(escape(task.name.as_bytes()));
            }
        }
        warnings.extend(doubts.into_iter().map(|(doubt, tasks)| {
            format!("{doubt} (tasks: {})", list(tasks.into_iter(), TASKS_SHOWN_MAX))
        }));
        Ok(warnings)
    }

    /// What is doubtful about a page.
    fn doubts(&self, page: &Page<'_>) -> BTreeSet<String> {
        let (_, prometheus) = &self.prometheus;
        let mut doubts = BTreeSet::new();
        if let (Some(field), Some(file)) = (page.dropped_by, prometheus) {
            doubts.insert(format!("{file}: `{field}` drop the alert, so nobody is notified"));
        }
        let Some((_, file)) = &self.alertmanager else { return doubts };
        let end = if page.ends.are_undecided() { "may end" } else { "end" };
        for Destination { receiver, notifies, silent_at, .. } in &page.ends.destinations {
            let receiver = named(receiver);
            match silent_at {
                _ if !notifies => doubts.insert(format!(
                    "{file}: the receiver {receiver} notifies nobody, as it has no `*_configs`, and \
                     pages {end} there"
                )),
                Some(fields) => doubts.insert(format!(
                    "{file}: pages to the receiver {receiver} are not sent at all times: {fields}"
                )),
                None => false,
            };
        }
        if page.ends.are_undecided() {
            let labels = all_named(page.ends.undecided.iter().copied());
            let remedy = match prometheus {
                Some(_) => "",
                None => "; --prometheus.config may name them",
            };
            doubts.insert(format!(
                "{file}: where a page ends depends on labels that are not known: {labels}; the \
                 slowest route counts{remedy}"
            ));
        }
        doubts
    }

    /// Alertmanager's `group_wait` for the alert that reports this task as down. If the alert
    /// reaches several receivers, the longest wait counts: which of them notifies a person is not
    /// known here.
    pub fn group_wait(&self, config: &Config, task: &TaskSpec) -> Delay {
        self.wait(&self.page(config, task))
    }

    fn wait(&self, page: &Page<'_>) -> Delay {
        if let Some(given) = &self.group_wait {
            return given.clone();
        }
        let file = self.alertmanager.as_ref().map_or("", |(_, file)| file);
        let notifying = page.ends.destinations.iter().filter(|end| end.notifies);
        let last = notifying.max_by_key(|end| end.group_wait_ms);
        last.map_or(Delay { ms: 0, origin: file.to_owned() }, |end| Delay {
            ms: end.group_wait_ms,
            origin: format!("{file}, receiver {}", escape(end.receiver.as_bytes())),
        })
    }

    /// What becomes of the alert that reports this task as down.
    fn page(&self, config: &Config, task: &TaskSpec) -> Page<'_> {
        let (prometheus, _) = &self.prometheus;
        let mut page = Page::default();
        match (prometheus.alerts(&own_labels(config, task)), &self.alertmanager) {
            (Err(field), _) => page.dropped_by = Some(field),
            (Ok(alerts), Some((routes, _))) => {
                alerts.iter().for_each(|it| routes.collect(|name| it.get(name), &mut page.ends));
            }
            (Ok(_), None) => {}
        }
        page
    }
}

impl Page<'_> {
    /// The footnote that says why it never comes.
    fn never(&self) -> Option<&'static str> {
        let ends = &self.ends.destinations;
        match self.dropped_by {
            Some(_) => Some(DROPPED),
            None => (!ends.is_empty() && ends.iter().all(|end| !end.notifies))
                .then_some(NOTIFIES_NOBODY),
        }
    }

    /// Whether it may share a group with the pages of other tasks.
    fn shares_a_group(&self) -> bool {
        self.ends.destinations.iter().any(|end| end.notifies && end.spans_tasks())
    }
}

/// The labels that the agent gives to the series that reports this task as down. A `severity` label
/// of the task replaces `critical`.
fn own_labels(config: &Config, task: &TaskSpec) -> Labels {
    let store = config.store_label(task);
    let shown = |value: &str| escape(value.as_bytes()).into_owned();
    let own = task.labels.iter().map(|(name, value)| (name.to_string(), shown(value)));
    let mut labels: Labels = own.collect();
    let severity = labels.remove("severity").filter(|severity| !severity.is_empty());
    labels.insert("severity".to_owned(), severity.unwrap_or_else(|| "critical".to_owned()));
    labels.insert("task".to_owned(), shown(&task.name));
    labels.insert("store".to_owned(), shown(&store));
    labels
}

/// Puts the file's name before what is wrong in it.
fn in_file(file: &str) -> impl Fn(String) -> String {
    move |message| format!("{file}: {message}")
}

/// Problems outside the file that should be fixed although the configuration is valid; one sentence
/// each.
pub fn warnings(config: &Config) -> Vec<String> {
    let of_login = |place: String, login: &Login| {
        let password = login.password.as_ref()?;
        let unusable = password.stored().and_then(Result::err).map(|error| error.to_string());
        let problem = unusable.or_else(|| password.warning())?;
        Some(format!("{place}: {problem}"))
    };
    let of_redis = |redis: &RedisConfig| {
        let sentinels = match &redis.servers {
            Servers::Sentinel(_) => {
                of_login(format!("redis.{}.sentinel", redis.name), &redis.sentinel_login)
            }
            _ => None,
        };
        let want = redis
            .want
            .as_ref()
            .and_then(|login| of_login(format!("redis.{}.want", redis.name), login));
        let own = of_login(format!("redis.{}", redis.name), &redis.login);
        let place = || format!("redis.{}.tls", redis.name);
        let tls = redis.tls.as_ref().and_then(|tls| of_tls(place(), &tls.files));
        own.into_iter().chain(sentinels).chain(want).chain(tls).chain(shared_user(redis))
    };
    let of_ensemble = |ensemble: &ZooKeeperConfig| {
        let place = format!("zookeeper.{}", ensemble.name);
        let tls = ensemble.tls.as_ref();
        let tls = tls.and_then(|tls| of_tls(format!("{place}.tls"), &tls.files));
        let own = of_login(place.clone(), &ensemble.login);
        own.or_else(|| no_digest(&place, &ensemble.login)).into_iter().chain(tls)
    };
    let logins = config.redises.iter().flat_map(of_redis);
    let logins = logins.chain(config.zookeepers.iter().flat_map(of_ensemble));
    let unclaimed = config
        .tasks
        .iter()
        .filter(|task| task.claims.is_none() && config.guards.contains_key(&task.name));
    let unclaimed = unclaimed.map(|task| {
        format!(
            "tasks.{}: has a `guard` and no `claims`, so a script that fails again and again looks \
             like one that runs; add `claims: {{hash: …}}`",
            task.name
        )
    });
    let names = config.tasks.iter().flat_map(|task| literal_names(task));
    let brief = config.tasks.iter().filter_map(|task| brief_runs(config, task));
    logins.chain(names).chain(unclaimed).chain(brief).collect()
}

/// Runs that are so short that they may begin and end between two readings, and nothing else shows
/// them.
fn brief_runs(config: &Config, task: &TaskSpec) -> Option<String> {
    let max_ms = task.runs()?.max_ms?;
    let redis = config.redises.get(usize::from(task.store.0))?;
    let interval_ms = ms(redis.interval);
    let is_seen = redis.wake_ups || task.progress.is_some();
    (!is_seen && max_ms < 2 * interval_ms).then(|| {
        format!(
            "tasks.{}: its runs last for at most {}, less than two `interval`s of redis {} ({}), so \
             some are not seen and it looks overdue; leave `wake_ups` on, use a shorter `interval`, \
             or name a `progress` that each run changes",
            task.name,
            duration_text(max_ms),
            redis.name,
            duration_text(interval_ms)
        )
    })
}

/// A login that no ensemble knows: it accepts any, and then lets nothing be read.
fn no_digest(place: &str, login: &Login) -> Option<String> {
    let secret = login.password.as_ref()?.stored()?.ok()?;
    let is_digest = secret.expose().split_once(':').is_some_and(|(user, _)| !user.is_empty());
    let message = "the first line of its `auth_file` is not `user:password`";
    (!is_digest).then(|| format!("{place}: {message}"))
}

/// What is wrong with the files of a store's TLS.
fn of_tls(place: String, files: &TlsFiles) -> Option<String> {
    let unusable = crate::io::unusable_tls(files);
    let exposed = || exposed(files.key_file.as_deref()?, "the key file");
    Some(format!("{place}: {}", unusable.or_else(exposed)?))
}

/// A user with both tasks has the rights of both.
fn shared_user(redis: &RedisConfig) -> Option<String> {
    let want = redis.want.as_ref()?;
    (want.username == redis.login.username).then(|| {
        format!(
            "redis.{}.want: has the user that the agent reads with, so the agent's password could \
             write; give `want` a user of its own",
            redis.name
        )
    })
}

/// The complete output of `check-config`.
pub fn report(config: &Config, timing: &PageTiming) -> String {
    let patterns = match config.patterns.len() {
        0 => String::new(),
        number => format!(", {}", counted(number, "pattern", "patterns")),
    };
    let mut text = format!(
        "configuration ok: {}, {}{patterns}\n\n",
        stores(config),
        counted(config.tasks.len(), "task", "tasks")
    );
    text.push_str(&patterns_text(config));
    if config.tasks.is_empty() {
        return text;
    }
    text.push_str("Worst time to page, from the moment a wanted task has no holder:\n\n");
    let table = table(config.tasks.iter().map(|task| row(config, task, timing)).collect());
    text.push_str(&table);
    text.push_str(&explanation(config, timing));
    let used = FOOTNOTES.iter().filter(|(mark, _)| table.contains(mark));
    used.for_each(|(mark, meaning)| text.push_str(&format!("{mark} {meaning}\n")));
    text
}

/// The stores, by their kinds.
fn stores(config: &Config) -> String {
    let redises = counted(config.redises.len(), "redis", "redises");
    let ensembles = counted(config.zookeepers.len(), "ensemble", "ensembles");
    match (config.redises.is_empty(), config.zookeepers.is_empty()) {
        (_, true) => redises,
        (true, false) => ensembles,
        (false, false) => format!("{redises}, {ensembles}"),
    }
}

/// What each pattern may cost at worst.
fn patterns_text(config: &Config) -> String {
    if config.patterns.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "Patterns, whose locks are found while the agent runs and are never down:\n\n",
    );
    for pattern in &config.patterns {
        let redis = config.redises.get(usize::from(pattern.store().0));
        let redis = redis.map_or("", |redis| &redis.name);
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            text,
            "  {}: {} in redis {}, at most {} locks and {} series",
            pattern.name().escape_debug(),
            escape(pattern.glob()),
            redis.escape_debug(),
            pattern.max_keys,
            pattern.max_keys * SERIES_EACH
        );
    }
    let _ = writeln!(
        text,
        "\nTo find them, SCAN goes through all keys of such a redis, at most {KEYS_PER_SECOND} in a \
         second.\n"
    );
    text
}

/// The footnote marks of [`row`] and their meaning.
const FOOTNOTES: [(&str, &str); 8] = [
    (
        NOT_WANTED,
        "Nobody says that it is wanted (no `wanted`, or `never`), so it is never down; one with \
         `runs` is overdue `every` + `late_after` after a run began.",
    ),
    (ASSUMED_LEASE, "`lease` is not configured; Redisson's default of 30s is assumed."),
    (UNKNOWN_LEASE, "`lease` is not configured; lockwatch learns it once it runs."),
    (
        SHARED_GROUP,
        "Its route groups the pages of several tasks (`group_by` lacks `task`): after the first, \
         the next waits for `group_interval`.",
    ),
    (NOTIFIES_NOBODY, "It ends at a receiver that notifies nobody: one without `*_configs`."),
    (DROPPED, "Prometheus' relabelling drops it."),
    (
        GUARD_LEASE,
        "The `lease` of the guard; a client of another kind that takes the lock may have a longer \
         one.",
    ),
    (
        SESSION,
        "A lock in ZooKeeper ends with its holder's session: after a crash up to the timeout that \
         the client asked for, and one tick (2s by default).",
    ),
];
const NOT_WANTED: &str = "[1]";
const ASSUMED_LEASE: &str = "[2]";
const UNKNOWN_LEASE: &str = "[3]";
const SHARED_GROUP: &str = "[4]";
const NOTIFIES_NOBODY: &str = "[5]";
const DROPPED: &str = "[6]";
const GUARD_LEASE: &str = "[7]";
const SESSION: &str = "[8]";

/// Series of a lock that a pattern found, outside trouble.
const SERIES_EACH: usize = 8;

const HEADER: [&str; 6] =
    ["TASK", "GRACE", "DOWN AFTER", "PAGE AFTER", "AFTER A CRASH", "CRASH LOOP"];

fn row(config: &Config, task: &TaskSpec, timing: &PageTiming) -> [String; 6] {
    let name = task.name.escape_debug().to_string();
    let grace = duration_text(task.grace_ms);
    if !task.may_be_wanted() {
        let never = format!("never {NOT_WANTED}");
        return [name, grace, never, "-".to_owned(), "-".to_owned(), "-".to_owned()];
    }
    let stores = task.stores().iter();
    let intervals = stores.filter_map(|store| config.interval(*store));
    let interval_ms = intervals.max().map_or(0, ms);
    let down_ms = down_after_ms(interval_ms, task);
    let page = timing.page(config, task);
    if let Some(why) = page.never() {
        let never = format!("never {why}");
        return [name, grace, rounded(down_ms), never, "-".to_owned(), "-".to_owned()];
    }
    let delays = [&timing.scrape, &timing.evaluation, &timing.wait(&page)];
    let page_ms = delays.into_iter().fold(down_ms, |sum, delay| sum.saturating_add(delay.ms));
    let shared = if page.shares_a_group() { format!(" {SHARED_GROUP}") } else { String::new() };
    let guards_ms = config.guards.get(&task.name).map(|guard| guard.terms.lease_ms);
    let lease = match (task.lock().and_then(|lock| lock.lease_ms), guards_ms) {
        (Some(lease_ms), _) => Some((lease_ms, String::new())),
        (None, Some(lease_ms)) => Some((lease_ms, format!(" {GUARD_LEASE}"))),
        (None, None) => lease_ms(task).map(|lease_ms| (lease_ms, format!(" {ASSUMED_LEASE}"))),
    };
    let crash = match lease {
        _ if config.zookeeper(task.store).is_some() => {
            format!("{} + session {SESSION}", rounded(page_ms))
        }
        Some((lease_ms, mark)) => rounded(page_ms.saturating_add(lease_ms)) + &mark,
        None => format!("{} + lease {UNKNOWN_LEASE}", rounded(page_ms)),
    };
    let in_a_loop = match task.lock() {
        Some(_) => {
            let longer_ms = crash_loop_after_ms(interval_ms, task).saturating_sub(down_ms);
            rounded(page_ms.saturating_add(longer_ms))
        }
        None => "-".to_owned(),
    };
    [name, grace, rounded(down_ms), rounded(page_ms) + &shared, crash, in_a_loop]
}

/// An upper bound for people: whole seconds, rounded up.
fn rounded(ms: u64) -> String {
    duration_text(ms.div_ceil(1000).saturating_mul(1000))
}

fn table(rows: Vec<[String; 6]>) -> String {
    let rows: Vec<[String; 6]> = std::iter::once(HEADER.map(str::to_owned)).chain(rows).collect();
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
        lease comes on top.\nCrash loop: where each hold ends before `settle`, settle + interval + \
        250ms come on top of a page.\n",
    );
    text
}

/// Each different `group_wait` of a page that comes. If there are several, each with its tasks.
fn group_waits(config: &Config, timing: &PageTiming) -> Vec<String> {
    let mut waits: Vec<(Delay, Vec<String>)> = Vec::new();
    for task in config.tasks.iter().filter(|task| task.may_be_wanted()) {
        let page = timing.page(config, task);
        if page.never().is_some() {
            continue;
        }
        let (wait, name) = (timing.wait(&page), task.name.escape_debug().to_string());
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
