//! What is known of the chain before a drill begins.

use tokio::time::sleep;

use super::alertmanager::{Known, no_alertmanager};
use super::hop::{Hop, Step, listed};
use super::look::{DISCOVERED_WITHIN, at_alertmanager, whom};
use super::machine::{Pace, Replica, notified_ms};
use super::prometheus::{self, Drilled, PrometheusLook, RULES, is_the_alert, recorded, scraped};
use crate::alerts::{RULES as SHIPPED, stated_version};
use crate::chain::config::{
    AlertmanagerConfig, INTERVAL_DEFAULT_MS, LOOKBACK_MS, PrometheusConfig, RouteConfig,
};
use crate::chain::{
    Alertmanager, Alertmanagers, Group, Labels, Prometheus, Rule, Trouble, without_api_path,
};
use crate::clock::Clock;
use crate::config::AGENT_LABELS;
use crate::text::durations::{duration_text, parse_duration_ms};

/// A drill lasts at most so long.
const DRILL_MS_MAX: u64 = 900_000;
/// How long it lasts at most after everything should have happened.
const REST_MS: u64 = 60_000;
/// By how much clocks may differ.
const CLOCKS_S_MAX: u64 = 60;
/// How long Alertmanager may take to process an alert, with the time until it is seen.
const RECEIVED_MS: u64 = 20_000;

/// The chain, as it is before a drill.
#[derive(Clone, Debug, Default)]
pub(super) struct Survey {
    /// Those that answer, in the same order as `replicas`.
    pub(super) prometheus: Vec<Prometheus>,
    /// What was found of each.
    pub(super) replicas: Vec<Replica>,
    /// Those that Prometheus notifies, or that were named.
    pub(super) alertmanagers: Vec<Alertmanager>,
    /// What was found of each.
    pub(super) known: Vec<Known>,
    /// What is wrong, and does not keep a drill from its way.
    pub(super) warnings: Vec<String>,
    /// What should keep it from beginning.
    pub(super) doubts: Vec<String>,
    /// The labels that Prometheus adds to alerts.
    pub(super) added: Labels,
    paces: Vec<Pace>,
}

/// Why there should be no drill: at which hop it would end.
pub(super) type Hopeless = (Hop, Trouble);

impl Survey {
    /// Asks all of them. `clock`: that of this machine.
    pub(super) async fn make(
        drilled: &Drilled,
        servers: Vec<Prometheus>,
        named: Vec<Alertmanager>,
        clock: Clock,
    ) -> Result<Survey, Hopeless> {
        let mut survey = Survey::default();
        let mut notified = Alertmanagers::default();
        let mut says_whom = false;
        let mut failed = Vec::new();
        for server in servers {
            match survey.prometheus(drilled, &server, clock).await {
                Ok(found) => {
                    survey.prometheus.push(server);
                    says_whom |= found.is_some();
                    let found = found.unwrap_or_default();
                    notified.active_alertmanagers.extend(found.active_alertmanagers);
                    notified.dropped_alertmanagers.extend(found.dropped_alertmanagers);
                }
                Err(hopeless) => failed.push(hopeless),
            }
        }
        if survey.prometheus.is_empty() {
            let last = failed.into_iter().max_by_key(|(hop, _)| *hop);
            return Err(last.unwrap_or((Hop::Scraped, Trouble::default())));
        }
        survey.warnings.extend(failed.iter().map(|(_, trouble)| trouble.to_string()));
        if says_whom
            && notified.active_alertmanagers.is_empty()
            && let Step::Failed(trouble) = no_alertmanager(&notified)
        {
            return Err((Hop::Alertmanager, trouble));
        }
        survey.alertmanagers(drilled, named, &notified, clock).await?;
        survey.too_slow()?;
        Ok(survey)
    }

    async fn prometheus(
        &mut self,
        drilled: &Drilled,
        server: &Prometheus,
        clock: Clock,
    ) -> Result<Option<Alertmanagers>, Hopeless> {
        let at = |hop| move |trouble| (hop, trouble);
        let shown = server.server.shown();
        let version = server.version().await.map_err(at(Hop::Scraped))?;
        self.clock(&shown, version.and_then(|version| version.date), clock);
        let mut look = targets(drilled, server).await.map_err(at(Hop::Scraped))?;
        if matches!(scraped(drilled, &look, 0, false), Step::Failed(_)) {
            sleep(DISCOVERED_WITHIN).await;
            look = targets(drilled, server).await.map_err(at(Hop::Scraped))?;
        }
        look.groups = server.groups().await.map_err(at(Hop::Rule))?;
        let of = |hop, step| match step {
            Step::Failed(trouble) => Err((hop, trouble.of(&server.server))),
            _ => Ok(()),
        };
        of(Hop::Scraped, scraped(drilled, &look, 0, false))?;
        of(Hop::Rule, recorded(drilled, &look, false))?;
        self.rules(&shown, &look);
        let config = server.config().await.map_err(at(Hop::Scraped))?;
        let behind_ms = match look.group() {
            Some(group) => server.behind_ms(&group.name, RULES).await.map_err(at(Hop::Rule))?,
            None => 0,
        };
        let pace = pace(&look, config.as_ref(), behind_ms);
        self.paces.push(pace);
        // Without its own metrics there is a deadline, too.
        let refused = server.notification_errors().await.unwrap_or_default();
        self.replicas.push(Replica::new(server.server.url.clone(), pace, refused));
        self.added.extend(config.map(|config| config.external_labels).unwrap_or_default());
        if let Some(target) = look.target() {
            let site = target.labels.iter().filter(|(name, _)| !AGENT_LABELS.contains(&&***name));
            self.added.extend(site.map(|(name, value)| (name.clone(), value.clone())));
        }
        look.notified = whom(server).await.map_err(at(Hop::Alertmanager))?;
        Ok(look.notified)
    }

    /// Which rules are loaded.
    fn rules(&mut self, shown: &str, look: &PrometheusLook) {
        let rules = || look.groups.iter().flatten().flat_map(|group| &group.rules);
        match rules().find(|rule| rule.name == RULES) {
            _ if look.groups.is_none() => {}
            None => self.doubts.push(format!(
                "{shown} has rules of an older lockwatch: its alert would not say that it is a \
                 drill, and would be remembered; load lockwatch.rules.yml of this version"
            )),
            Some(rule)
                if rule.labels.get("rules").map(String::as_str) != stated_version(SHIPPED) =>
            {
                self.warnings
                    .push(format!("{shown} has other rules than this version of lockwatch ships"));
            }
            Some(_) => {}
        }
    }

    fn clock(&mut self, shown: &str, date: Option<u64>, clock: Clock) {
        let differs_s = {
            let now_s = u64::try_from(clock.wall().0 / 1000).unwrap_or(0);
            date.map_or(0, |date| date.abs_diff(now_s))
        };
        if differs_s > CLOCKS_S_MAX {
            self.warnings.push(format!(
                "the clock of {shown} differs from this machine's by {}: Prometheus and \
                 Alertmanager must agree on when an alert ends",
                duration_text(differs_s * 1000)
            ));
        }
    }

    async fn alertmanagers(
        &mut self,
        drilled: &Drilled,
        named: Vec<Alertmanager>,
        notified: &Alertmanagers,
        clock: Clock,
    ) -> Result<(), Hopeless> {
        if named.is_empty() {
            return Err((
                Hop::Alertmanager,
                Trouble::new(
                    "Prometheus does not say which Alertmanager it notifies",
                    "name it with --alertmanager.url",
                ),
            ));
        }
        let mut troubles = Vec::new();
        for server in named {
            let known = self.alertmanager(drilled, &server, clock).await;
            troubles.extend(known.trouble.clone());
            self.known.push(known);
            self.alertmanagers.push(server);
        }
        let all_listed =
            listed(notified.active_alertmanagers.iter().map(|it| without_api_path(&it.url)));
        if let [first, ..] = &troubles[..]
            && troubles.len() == self.known.len()
        {
            let saw = listed(troubles.iter().map(|trouble| &trouble.saw));
            let saw = format!("{saw} (Prometheus notifies {all_listed})");
            return Err((Hop::Alertmanager, Trouble { saw, remedy: first.remedy.clone() }));
        }
        self.warnings.extend(troubles.iter().map(Trouble::to_string));
        Ok(())
    }

    async fn alertmanager(
        &mut self,
        drilled: &Drilled,
        server: &Alertmanager,
        clock: Clock,
    ) -> Known {
        let shown = server.server.shown();
        let mut known = Known { url: server.server.url.clone(), ..Known::default() };
        let status = match server.status().await {
            Ok(status) => status,
            Err(trouble) => return Known { trouble: Some(trouble), ..known },
        };
        if let Some(status) = status {
            self.clock(&shown, status.date, clock);
            match status.value.config {
                Ok(config) => known.config = Some(config),
                Err(why) => self.warnings.push(format!("{shown}: its configuration: {why}")),
            }
        }
        match at_alertmanager(server, drilled).await {
            Ok(look) => (known.before, known.look) = (look.counted.clone(), Some(look)),
            Err(trouble) => known.trouble = Some(trouble),
        }
        known
    }

    /// A drill that cannot end in time is none.
    fn too_slow(&self) -> Result<(), Hopeless> {
        let wait_ms = self.longest_ms(|route| route.group_wait_ms);
        let failed = |hop, saw: &str, ms, remedy: &str| {
            let saw = format!("{saw} {}", duration_text(ms));
            Err((hop, Trouble::new(saw, remedy)))
        };
        for pace in &self.paces {
            if pace.scrape_ms > LOOKBACK_MS {
                return failed(
                    Hop::Scraped,
                    "Prometheus forgets samples after 5m, and scrapes this agent each",
                    pace.scrape_ms,
                    "give its job `scrape_interval: 5s`, as prometheus-example.yml has it",
                );
            }
            if pace.evaluation_ms > LOOKBACK_MS {
                return failed(
                    Hop::Rule,
                    "Prometheus forgets samples after 5m, and evaluates lockwatch's rules each",
                    pace.evaluation_ms,
                    "set `evaluation_interval: 5s`, or `interval` of the group",
                );
            }
            let needs_ms = pace.to_alert_ms() + wait_ms;
            if needs_ms + REST_MS > DRILL_MS_MAX {
                return failed(
                    Hop::Firing,
                    "a drill lasts for 15m at most, and an alert needs up to",
                    needs_ms,
                    "see `rule_query_offset`, `for`, and `group_wait`",
                );
            }
        }
        Ok(())
    }

    /// The longest one of routes that notify somebody.
    fn longest_ms(&self, of: impl Fn(&RouteConfig) -> u64) -> u64 {
        let configs = self.known.iter().filter_map(|known| known.config.as_ref());
        configs.flat_map(AlertmanagerConfig::notifying).map(of).max().unwrap_or(0)
    }

    /// How long a drill may last. `joins`: it may join a group that was notified before.
    pub(super) fn lasts_ms(&self, joins: bool) -> u64 {
        let pace_ms = self.paces.iter().map(|pace| pace.most_ms()).max().unwrap_or(0);
        let mut wait_ms = self.longest_ms(|route| route.group_wait_ms);
        if joins {
            wait_ms += self.longest_ms(|route| route.group_interval_ms);
        }
        let notified_ms = notified_ms(wait_ms, self.known.len());
        (pace_ms + RECEIVED_MS + notified_ms + REST_MS).min(DRILL_MS_MAX)
    }
}

/// What a Prometheus scrapes.
async fn targets(drilled: &Drilled, server: &Prometheus) -> Result<PrometheusLook, Trouble> {
    Ok(PrometheusLook {
        mine: server.query(&drilled.agent_query()).await?,
        agents: server.query(prometheus::AGENTS).await?,
        targets: server.targets().await?,
        ..PrometheusLook::default()
    })
}

/// How fast a Prometheus is. `behind_ms`: how far in the past its rules look.
fn pace(look: &PrometheusLook, config: Option<&PrometheusConfig>, behind_ms: u64) -> Pace {
    let of_target = look.target().and_then(|it| parse_duration_ms(&it.scrape_interval).ok());
    let of_jobs = config.and_then(|config| {
        let jobs = config.of_lockwatch().filter_map(|job| job.scrape_interval_ms);
        jobs.max().or(config.scrape_interval_ms)
    });
    let group = look.group();
    let rule = group.and_then(|group| group.rules.iter().find(|rule| is_the_alert(rule)));
    let evaluation_ms = group.map_or(INTERVAL_DEFAULT_MS, Group::interval_ms);
    Pace {
        scrape_ms: of_target.or(of_jobs).unwrap_or(INTERVAL_DEFAULT_MS),
        evaluation_ms,
        offset_ms: config.map_or(0, |config| config.rule_query_offset_ms).max(behind_ms),
        for_ms: rule.map_or(0, Rule::for_ms),
    }
}
