//! What the real Prometheus and Alertmanager say: what is scraped, which rules are loaded, who is
//! notified, and how long that takes at worst. Nothing is sent.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::Args;
use lockwatch_judge::spec::TaskSpec;

use super::timing::{Delay, PageTiming, down_label, routes_of};
use crate::alerts::{DOWN, RULES, RULES_INFO, rule_names, stated_version};
use crate::chain::config::{AlertmanagerConfig, LOOKBACK_MS, PrometheusConfig, quoted};
use crate::chain::{Alertmanager, Dated, Group, Prometheus, Target, Trouble, without_api_path};
use crate::clock::Clock;
use crate::commands::ask::{ALERTMANAGER, Access, PROMETHEUS};
use crate::config::{Config, OURS};
use crate::http::client::Server;
use crate::text::durations::{duration_text, parse_duration_ms};
use crate::text::identity::{escape, list};
use crate::text::terminal::safe;

/// How many names a line has at most.
const SHOWN_MAX: usize = 5;
/// Clocks that differ by more are worth a warning, in seconds.
const CLOCKS_DIFFER: u64 = 30;

/// Where Prometheus and Alertmanager are asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct ChainArguments {
    /// Ask this Prometheus what it scrapes, which rules it has and whom it notifies; repeatable
    #[arg(long = "prometheus.url", value_name = "URL")]
    pub prometheus_urls: Vec<String>,
    /// How to come in.
    #[command(flatten)]
    pub prometheus: Access<PROMETHEUS>,
    /// Ask this Alertmanager; repeatable [default: those that Prometheus notifies]
    #[arg(long = "alertmanager.url", value_name = "URL")]
    pub alertmanager_urls: Vec<String>,
    /// How to come in.
    #[command(flatten)]
    pub alertmanager: Access<ALERTMANAGER>,
}

impl ChainArguments {
    /// Whether anybody is to be asked.
    pub(super) fn is_given(&self) -> bool {
        !self.prometheus_urls.is_empty() || !self.alertmanager_urls.is_empty()
    }
}

/// What was seen of the chain.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// For people.
    pub(super) text: String,
    /// What should be mended although alerts go out.
    pub(super) warnings: Vec<String>,
    /// What keeps alerts from going out.
    pub(super) broken: Vec<String>,
}

/// Asks all of them. Their delays are put into `timing`.
///
/// # Errors
/// A file with a login cannot be used.
pub(super) async fn ask(
    arguments: &ChainArguments,
    config: &Config,
    timing: &mut PageTiming,
) -> anyhow::Result<Seen> {
    let mut seen = Seen { text: "\nThe chain as it is:\n\n".to_owned(), ..Seen::default() };
    let mut named = BTreeSet::new();
    for url in &arguments.prometheus_urls {
        let server = arguments.prometheus.server(url)?;
        let of = server.shown();
        let prometheus = Prometheus { server };
        if let Err(trouble) = seen.prometheus(&prometheus, config, timing, &mut named).await {
            seen.broken.push(trouble.to_string());
            seen.line(&of, "cannot be asked");
        }
    }
    let asked: BTreeSet<String> =
        arguments.alertmanager_urls.iter().map(|url| plain(url)).collect();
    if !asked.is_empty() && !named.is_empty() && named.is_disjoint(&asked) {
        seen.warnings.push(format!(
            "Prometheus notifies {}, which --alertmanager.url does not name: see that these are \
             the same, or ask those",
            named.iter().map(|url| safe(url)).collect::<Vec<_>>().join(", ")
        ));
    }
    let given = arguments.alertmanager_urls.iter();
    let servers = given.map(|url| arguments.alertmanager.server(url)).collect::<Result<_, _>>()?;
    let servers: Vec<Server> = match arguments.alertmanager_urls.is_empty() {
        false => servers,
        // Without a login: it was not meant for addresses that somebody else names.
        true => named
            .iter()
            .map(|url| Access::<ALERTMANAGER>::default().server(url))
            .collect::<Result<_, _>>()?,
    };
    let (all, mut away) = (servers.len(), Vec::new());
    for server in servers {
        let of = server.shown();
        if let Err(trouble) = seen.alertmanager(&Alertmanager { server }, config, timing).await {
            away.push(trouble.to_string());
            seen.line(&of, "cannot be asked");
        }
    }
    // One that answers is enough for an alert to go out.
    let words = if away.len() < all { &mut seen.warnings } else { &mut seen.broken };
    words.extend(away);
    Ok(seen)
}

impl Seen {
    fn line(&mut self, name: &str, what: &str) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.text, "  {name}: {what}");
    }

    fn item(&mut self, name: &str, what: &str) {
        let _ = writeln!(self.text, "    {name:<11} {what}");
    }

    /// `named` gets the addresses of the Alertmanagers that it notifies.
    async fn prometheus(
        &mut self,
        prometheus: &Prometheus,
        config: &Config,
        timing: &mut PageTiming,
        named: &mut BTreeSet<String>,
    ) -> Result<(), Trouble> {
        let of = prometheus.server.shown();
        let version = prometheus.version().await?;
        self.line(&of, &of_version(version.as_ref().map(|version| &*version.value)));
        self.clock(&of, version.and_then(|version| version.date));
        let read = prometheus.config().await?;
        self.targets(prometheus, config, timing, read.as_ref()).await?;
        self.rules(prometheus, timing).await?;
        if read.as_ref().is_some_and(|read| read.relabels_alerts) {
            self.warnings.push(format!(
                "{of} may change or drop alerts before it sends them (`alert_relabel_configs`): a \
                 drill shows what becomes of them"
            ));
        }
        let Some(found) = prometheus.alertmanagers().await? else {
            self.item("notifies", "not known: it does not offer `/api/v1/alertmanagers`");
            return Ok(());
        };
        let urls = found.active_alertmanagers.iter().map(|it| plain(without_api_path(&it.url)));
        let urls: Vec<String> = urls.collect();
        if urls.is_empty() {
            let why = match found.dropped_alertmanagers.len() {
                0 => String::new(),
                dropped => format!(" ({dropped} that it found are dropped by its relabelling)"),
            };
            self.item("notifies", "nobody");
            self.broken.push(format!(
                "{of} notifies no Alertmanager{why}, so no alert goes out: name one in its \
                 `alerting`"
            ));
        } else {
            self.item("notifies", &urls.iter().map(|url| safe(url)).collect::<Vec<_>>().join(", "));
        }
        named.extend(urls);
        Ok(())
    }

    /// Which targets are agents, how often they are scraped, and what becomes of their labels.
    async fn targets(
        &mut self,
        prometheus: &Prometheus,
        config: &Config,
        timing: &mut PageTiming,
        read: Option<&PrometheusConfig>,
    ) -> Result<(), Trouble> {
        let of = prometheus.server.shown();
        let agents = prometheus.query("lockwatch_honor_labels").await?;
        let Some(targets) = prometheus.targets().await? else {
            self.item("agents", &format!("{} are known; it does not offer targets", agents.len()));
            if agents.is_empty() {
                self.broken
                    .push(format!("{of} has no series of an agent: scrape one, or write to it"));
            }
            return Ok(());
        };
        let is_agent = |target: &&Target| {
            let label = |name: &str| target.labels.get(name).map_or("", String::as_str);
            agents.iter().any(|agent| {
                // Without `honor_labels` the agent's own label `job` has another name.
                agent.label("instance") == label("instance") && agent.label("job") == label("job")
            }) || read
                .is_some_and(|read| read.of_lockwatch().any(|job| job.name == target.scrape_pool))
        };
        let targets: Vec<&Target> = targets.iter().filter(is_agent).collect();
        if targets.is_empty() && agents.is_empty() {
            self.item("agents", "none");
            self.broken.push(format!(
                "{of} scrapes no agent: add one to its `scrape_configs` (or a ServiceMonitor with \
                 the labels that it selects)"
            ));
            return Ok(());
        }
        for target in &targets {
            let url = safe(&target.scrape_url);
            let every = safe(&target.scrape_interval);
            match &*target.last_error {
                "" => self.item("agent", &format!("{url} each {every}: {}", safe(&target.health))),
                error => {
                    self.item("agent", &format!("{url} each {every}: {}", safe(&target.health)));
                    self.warnings.push(format!("{of} cannot scrape {url}: {}", safe(error)));
                }
            }
        }
        if targets.iter().all(|target| target.health == "down") && !targets.is_empty() {
            self.broken.push(format!("{of} can scrape none of its agents"));
        }
        let slowest =
            targets.iter().filter_map(|target| parse_duration_ms(&target.scrape_interval).ok());
        if let Some(ms) = slowest.max() {
            self.too_slow(&of, "scrapes its agents", ms);
            timing.scrape.slower(Delay::new(ms, &of));
        }
        let jobs = read.iter().flat_map(|read| &read.jobs).filter(|job| job.relabels_metrics);
        let jobs = jobs.filter(|job| targets.iter().any(|target| target.scrape_pool == job.name));
        for job in jobs {
            self.warnings.push(format!(
                "{of} may change or drop series of the job {} (`metric_relabel_configs`): a drill \
                 shows whether what alerts need remains",
                quoted(&job.name)
            ));
        }
        let is_lax = agents.iter().any(|agent| !agent.label("exported_job").is_empty());
        self.labels(prometheus, config, &targets, is_lax).await
    }

    /// Whether labels of targets take the place of lockwatch's own, and whether series are dropped.
    async fn labels(
        &mut self,
        prometheus: &Prometheus,
        config: &Config,
        targets: &[&Target],
        is_lax: bool,
    ) -> Result<(), Trouble> {
        let of = prometheus.server.shown();
        let own = config.label_names.iter().map(|name| &**name);
        let ours: Vec<&str> = OURS.iter().copied().chain(["severity"]).chain(own).collect();
        let taken: BTreeSet<&str> = ours
            .into_iter()
            .filter(|name| targets.iter().any(|target| target.labels.contains_key(*name)))
            .collect();
        match (is_lax, taken.is_empty()) {
            (true, true) => self.warnings.push(format!(
                "{of} scrapes agents without `honor_labels: true`, so any label of a target takes \
                 the place of lockwatch's own of that name; set it"
            )),
            (true, false) => self.broken.push(format!(
                "targets of {of} have labels that take the place of lockwatch's own: {}; set \
                 `honor_labels: true` in that job",
                taken.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
            )),
            (false, _) => {}
        }
        let clear = prometheus.query("count(lockwatch_task_clear)").await?;
        let is_up = targets.iter().any(|target| target.health == "up");
        if clear.is_empty() && is_up && !config.tasks.is_empty() {
            self.broken.push(format!(
                "{of} scrapes an agent, and has no series `lockwatch_task_clear` of it: see its \
                 `metric_relabel_configs`, and that this agent has tasks"
            ));
        }
        Ok(())
    }

    /// Whether the shipped rules are loaded, and how often they are evaluated.
    async fn rules(
        &mut self,
        prometheus: &Prometheus,
        timing: &mut PageTiming,
    ) -> Result<(), Trouble> {
        let of = prometheus.server.shown();
        let Some(groups) = prometheus.groups().await? else {
            self.item("rules", "not known: it does not offer `/api/v1/rules`");
            self.warnings.push(format!("{of} evaluates no rules: name the ruler instead"));
            return Ok(());
        };
        let rules = || groups.iter().flat_map(|group| &group.rules);
        let missing = rule_names(RULES).filter(|name| !rules().any(|rule| rule.name == *name));
        let missing: Vec<Cow<'_, str>> = missing.map(Cow::from).collect();
        let with_pages: Vec<&Group> = groups
            .iter()
            .filter(|group| group.rules.iter().any(|rule| rule.name == DOWN))
            .collect();
        let Some(pages) = with_pages.first() else {
            self.item("rules", "none of lockwatch");
            self.broken.push(format!(
                "{of} has not loaded lockwatch's rules: name lockwatch.rules.yml in its \
                 `rule_files` and reload it (a file that is not there is no error), or give the \
                 PrometheusRule the labels that it selects"
            ));
            return Ok(());
        };
        let versions: BTreeSet<&str> = rules()
            .filter(|rule| rule.name == RULES_INFO)
            .filter_map(|rule| rule.labels.get("rules").map(String::as_str))
            .collect();
        let is_ours = versions.iter().copied().eq(stated_version(RULES));
        let interval_ms = pages.interval_ms();
        self.item(
            "rules",
            &format!(
                "{}, each {}",
                if is_ours { "of this version" } else { "of another version" },
                duration_text(interval_ms)
            ),
        );
        if !is_ours {
            self.warnings.push(format!(
                "{of} has other rules than this lockwatch ships: load its lockwatch.rules.yml"
            ));
        }
        if !missing.is_empty() {
            self.warnings.push(format!(
                "{of} lacks rules that this lockwatch ships: {}",
                list(missing.into_iter(), SHOWN_MAX)
            ));
        }
        if with_pages.len() > 1 {
            let files = with_pages.iter().map(|group| escape(group.file.as_bytes()));
            self.warnings.push(format!(
                "{of} has loaded lockwatch's rules {} times: {}",
                with_pages.len(),
                list(files, SHOWN_MAX)
            ));
        }
        for rule in pages.rules.iter().filter(|rule| rule.health == "err") {
            self.broken.push(format!(
                "{of} cannot evaluate {}: {}",
                safe(&rule.name),
                safe(&rule.last_error)
            ));
        }
        self.too_slow(&of, "evaluates lockwatch's rules", interval_ms);
        timing.evaluation.slower(Delay::new(interval_ms, &of));
        let held =
            pages.rules.iter().find(|rule| rule.name == DOWN).map_or(0, |rule| rule.for_ms());
        let offset_ms = prometheus.behind_ms(&pages.name, RULES_INFO).await?;
        let past = held.saturating_add(offset_ms);
        if past > timing.offset.as_ref().map_or(0, |offset| offset.ms) {
            let why = if held == 0 { "measured" } else { "measured, with the alert's own `for`" };
            timing.offset = Some(Delay::new(past, &format!("{of}, {why}")));
        }
        Ok(())
    }

    async fn alertmanager(
        &mut self,
        alertmanager: &Alertmanager,
        config: &Config,
        timing: &mut PageTiming,
    ) -> Result<(), Trouble> {
        let of = alertmanager.server.shown();
        let Some(Dated { value: status, date }) = alertmanager.status().await? else {
            return Err(Trouble::new(
                format!("{of} does not offer `/api/v2/status`"),
                "see that --alertmanager.url is right, with its path prefix",
            ));
        };
        self.line(&of, &of_version(Some(&status.version)));
        self.clock(&of, date);
        self.item(
            "cluster",
            &match status.peers {
                0 | 1 => "alone".to_owned(),
                peers => format!("{peers} members"),
            },
        );
        if status.peers < 2 {
            self.warnings.push(format!(
                "{of} is alone: if it is killed, the next notification of an alert may be lost for \
                 `repeat_interval`; run two as a cluster"
            ));
        }
        match &status.config {
            Ok(read) => self.routes(read, &of, config, timing),
            Err(error) => self.warnings.push(format!("{of}: its configuration: {error}")),
        }
        Ok(())
    }

    fn routes(
        &mut self,
        read: &AlertmanagerConfig,
        of: &str,
        config: &Config,
        timing: &mut PageTiming,
    ) {
        timing.take_alertmanager(read, of, &config.tasks);
        self.groups(read, of, config);
        let silent: BTreeSet<&str> = read
            .routes
            .iter()
            .filter(|route| read.receiver(&route.receiver).is_some_and(|it| !it.notifies()))
            .map(|route| &*route.receiver)
            .collect();
        if !silent.is_empty() {
            let names = silent.iter().map(|name| escape(name.as_bytes()));
            self.warnings.push(format!(
                "{of} has routes to receivers without any integration, which notify nobody: {}; a \
                 drill shows whether a task's alerts end there",
                list(names, SHOWN_MAX)
            ));
        }
        let times: BTreeSet<&str> =
            read.routes.iter().flat_map(|route| &route.silent_at).map(String::as_str).collect();
        if !times.is_empty() {
            let names = times.iter().map(|name| escape(name.as_bytes()));
            self.item(
                "times",
                &format!("some routes are silent at times: {}", list(names, SHOWN_MAX)),
            );
        }
        let muted = config.tasks.iter().filter(|task| task.may_be_wanted());
        let muted = muted.filter(|task| is_muted_by_its_like(read, task));
        let muted: Vec<_> = muted.map(|task| escape(task.name.as_bytes())).collect();
        if !muted.is_empty() {
            self.warnings.push(format!(
                "{of} mutes {DOWN} of some tasks while that of a task with `severity: critical` \
                 fires (its `inhibit_rules`): add `task` to `equal` there, or leave lockwatch's \
                 alerts out (tasks: {})",
                list(muted.into_iter(), SHOWN_MAX)
            ));
        }
    }

    /// Whether alerts of several tasks wait for each other.
    fn groups(&mut self, read: &AlertmanagerConfig, of: &str, config: &Config) {
        let tasks = config.tasks.iter().filter(|task| task.may_be_wanted());
        let routes = tasks.flat_map(|task| routes_of(read, task));
        let shared = routes.filter(|route| !route.groups_by("task"));
        if let Some(slowest) = shared.max_by_key(|route| route.group_interval_ms) {
            self.warnings.push(format!(
                "{of} reports {DOWN} of several tasks in one group (`group_by` of the route to {} \
                 lacks `task`): after the first, the next waits up to {} more",
                quoted(&slowest.receiver),
                duration_text(slowest.group_interval_ms)
            ));
        }
    }

    /// Prometheus forgets what is older than five minutes, so nothing fires for longer than a
    /// moment.
    fn too_slow(&mut self, of: &str, what: &str, ms: u64) {
        if ms >= LOOKBACK_MS {
            self.broken.push(format!(
                "{of} {what} each {}, and forgets samples after 5m: 5s are enough",
                duration_text(ms)
            ));
        }
    }

    fn clock(&mut self, of: &str, date: Option<u64>) {
        let now = u64::try_from(Clock::start().wall().0 / 1_000).unwrap_or(0);
        if let Some(date) = date.filter(|date| date.abs_diff(now) > CLOCKS_DIFFER) {
            self.warnings.push(format!(
                "the clock of {of} differs from this machine's by {}: set them by NTP",
                duration_text(date.abs_diff(now).saturating_mul(1_000))
            ));
        }
    }
}

/// Whether the same alert of another task, a critical one, mutes that of this one.
fn is_muted_by_its_like(read: &AlertmanagerConfig, task: &TaskSpec) -> bool {
    let target = |name: &str| down_label(task, name);
    let source = |name: &str| match name {
        "task" => "another one",
        "severity" => "critical",
        name => target(name),
    };
    read.inhibit_rules.iter().any(|rule| rule.mutes(source, target))
}

/// An address without a slash at its end.
fn plain(url: &str) -> String {
    url.trim_end_matches('/').to_owned()
}

fn of_version(version: Option<&str>) -> String {
    match version {
        Some("") | None => "version not known".to_owned(),
        Some(version) => format!("version {}", safe(version)),
    }
}
