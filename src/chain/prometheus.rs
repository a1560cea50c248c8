//! Prometheus, or what answers the same API.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::answer::{Dated, get, no_answer, nullable};
use super::config::PrometheusConfig;
use super::exposition::{Labels, Sample, samples};
use crate::config::parse_yaml;
use crate::http::client::{Server, Trouble};
use crate::paths::segment;

/// How often it is tried to see an evaluation and its samples as one.
const LOOKS: usize = 5;
/// More than any rule looks into the past, in seconds.
const DAY_SECONDS: f64 = 86_400.0;

/// A Prometheus as it is reached.
#[derive(Clone, Debug)]
pub struct Prometheus {
    /// Where.
    pub server: Server,
}

#[derive(Deserialize)]
struct Envelope<T> {
    data: T,
}

/// What Prometheus answers to what it cannot do.
#[derive(Deserialize)]
struct Failed {
    error: String,
}

/// What it scrapes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Targets {
    /// The targets.
    #[serde(deserialize_with = "nullable")]
    pub active_targets: Vec<Target>,
}

/// A target.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Target {
    /// What each of its series gets.
    pub labels: Labels,
    /// The job's name in the configuration; the label `job` may differ.
    pub scrape_pool: String,
    /// What is scraped.
    pub scrape_url: String,
    /// Why the newest scrape failed, or empty.
    pub last_error: String,
    /// `up`, `down`, or `unknown` before the first scrape.
    pub health: String,
    /// As a duration: `15s`.
    pub scrape_interval: String,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(deserialize_with = "nullable", default)]
    groups: Vec<Group>,
}

/// A group of rules.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The file that it is from.
    pub file: String,
    /// How often it is evaluated, in seconds.
    pub interval: f64,
    /// When it began, as RFC 3339.
    pub last_evaluation: String,
    /// The rules.
    #[serde(deserialize_with = "nullable")]
    pub rules: Vec<Rule>,
}

impl Group {
    /// How often it is evaluated, in milliseconds.
    pub fn interval_ms(&self) -> u64 {
        ms(self.interval)
    }

    /// When the newest evaluation began, in milliseconds since the Unix epoch.
    pub fn evaluated_ms(&self) -> Option<i64> {
        lockwatch_watch::redis::rfc3339(self.last_evaluation.as_bytes())
    }
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// Of the alert, or of the series that it records.
    pub name: String,
    /// `alerting` or `recording`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `ok`, `err`, or `unknown` before the first evaluation.
    pub health: String,
    /// Why the newest evaluation failed, or empty.
    #[serde(deserialize_with = "nullable")]
    pub last_error: String,
    /// How long an alert must be pending before it fires, in seconds.
    pub duration: f64,
    /// What the rule adds.
    #[serde(deserialize_with = "nullable")]
    pub labels: Labels,
}

impl Rule {
    /// How long an alert must be pending before it fires, in milliseconds.
    pub fn for_ms(&self) -> u64 {
        ms(self.duration)
    }
}

/// Seconds as milliseconds.
fn ms(seconds: f64) -> u64 {
    let length = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Deserialize)]
struct Alerts {
    #[serde(deserialize_with = "nullable", default)]
    alerts: Vec<Alert>,
}

/// An alert as Prometheus sees it: without external labels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Alert {
    /// Its labels.
    pub labels: Labels,
    /// `firing` or `pending`.
    pub state: String,
}

/// Whom it notifies, as its service discovery says; that one is listed does not mean that it
/// answers.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Alertmanagers {
    /// Those that are notified.
    #[serde(deserialize_with = "nullable")]
    pub active_alertmanagers: Vec<Address>,
    /// Those that relabelling dropped.
    #[serde(deserialize_with = "nullable")]
    pub dropped_alertmanagers: Vec<Address>,
}

/// Where an Alertmanager takes alerts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Address {
    /// With `/api/v2/alerts` at its end.
    pub url: String,
}

/// `url` of an Alertmanager as Prometheus lists it, without what the API adds.
pub fn without_api_path(url: &str) -> &str {
    url.strip_suffix("/api/v2/alerts").or_else(|| url.strip_suffix("/api/v1/alerts")).unwrap_or(url)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Build {
    version: String,
}

#[derive(Deserialize)]
struct Config {
    yaml: String,
}

#[derive(Deserialize)]
struct Vector {
    #[serde(rename = "resultType")]
    kind: String,
    result: serde_json::Value,
}

#[derive(Deserialize)]
struct Row {
    metric: Labels,
    value: (f64, String),
}

impl Prometheus {
    /// Its version.
    ///
    /// # Errors
    /// What keeps it from answering; so all of these.
    pub async fn version(&self) -> Result<Option<Dated<String>>, Trouble> {
        let build = self.get::<Build>("/api/v1/status/buildinfo").await?;
        Ok(build.map(|build| Dated { value: build.value.version, date: build.date }))
    }

    /// What it scrapes.
    ///
    /// # Errors
    /// As above.
    pub async fn targets(&self) -> Result<Option<Vec<Target>>, Trouble> {
        let targets = self.get::<Targets>("/api/v1/targets?state=active").await?;
        Ok(targets.map(|targets| targets.value.active_targets))
    }

    /// The rules that it evaluates.
    ///
    /// # Errors
    /// As above.
    pub async fn groups(&self) -> Result<Option<Vec<Group>>, Trouble> {
        let groups = self.get::<Groups>("/api/v1/rules").await?;
        Ok(groups.map(|groups| groups.value.groups))
    }

    /// The alerts that are pending or fire.
    ///
    /// # Errors
    /// As above.
    pub async fn alerts(&self) -> Result<Option<Vec<Alert>>, Trouble> {
        Ok(self.get::<Alerts>("/api/v1/alerts").await?.map(|alerts| alerts.value.alerts))
    }

    /// Whom it notifies.
    ///
    /// # Errors
    /// As above.
    pub async fn alertmanagers(&self) -> Result<Option<Alertmanagers>, Trouble> {
        Ok(self.get("/api/v1/alertmanagers").await?.map(|it| it.value))
    }

    /// What stands in its configuration; `None` also if that is none of Prometheus.
    ///
    /// # Errors
    /// As above.
    pub async fn config(&self) -> Result<Option<PrometheusConfig>, Trouble> {
        let config = self.get::<Config>("/api/v1/status/config").await?;
        let config = config.and_then(|config| parse_yaml(&config.value.yaml, "").ok());
        Ok(config.and_then(|config| PrometheusConfig::read(&config).ok()))
    }

    /// The newest samples that an expression gives.
    ///
    /// # Errors
    /// As above, and if it answers no queries: everything that is compatible does.
    pub async fn query(&self, expression: &str) -> Result<Vec<Sample>, Trouble> {
        let path = format!("/api/v1/query?query={}", segment(expression));
        let vector = self.get::<Vector>(&path).await?.ok_or_else(|| {
            Trouble::new(
                "it answers no queries (404)",
                "see that --prometheus.url has its path prefix, as in http://mimir/prometheus",
            )
            .of(&self.server)
        })?;
        let Vector { kind, result } = vector.value;
        let rows = match &*kind {
            "vector" => serde_json::from_value::<Vec<Row>>(result),
            _ => serde_json::from_value(result)
                .map(|value| vec![Row { metric: Labels::new(), value }]),
        };
        let rows = rows.map_err(|error| {
            Trouble::new(format!("an answer to a query: {error}"), "see that it is a Prometheus")
                .of(&self.server)
        })?;
        let sample = |Row { metric, value: (at, value) }: Row| {
            Some(Sample { labels: metric, value: value.parse().ok()?, at })
        };
        Ok(rows.into_iter().filter_map(sample).collect())
    }

    /// How far in the past a group's rules look, which no API says: what they record is of that
    /// time. `recorded` is a series that one of them records. In milliseconds, whole seconds; 0
    /// where it cannot be seen.
    ///
    /// # Errors
    /// As above.
    pub async fn behind_ms(&self, group: &str, recorded: &str) -> Result<u64, Trouble> {
        let query = format!("max(timestamp({recorded}))");
        let newest = async || {
            let found = self.query(&query).await?;
            Ok::<_, Trouble>(found.first().map(|sample| sample.value))
        };
        for _ in 0..LOOKS {
            let before = newest().await?;
            let groups = self.groups().await?.unwrap_or_default();
            let evaluated = groups.iter().find(|it| it.name == group).and_then(Group::evaluated_ms);
            // Both of one evaluation.
            if let (Some(before), Some(evaluated_ms)) = (before, evaluated)
                && newest().await? == Some(before)
            {
                let seconds = evaluated_ms as f64 / 1_000.0 - before;
                // Whole seconds: its own instants differ by what an evaluation takes.
                return Ok(
                    Duration::from_secs_f64(seconds.clamp(0.0, DAY_SECONDS)).as_secs() * 1_000
                );
            }
        }
        Ok(0)
    }

    /// How many notifications each Alertmanager did not take, by its address.
    ///
    /// # Errors
    /// As above.
    pub async fn notification_errors(&self) -> Result<Vec<(String, f64)>, Trouble> {
        let name = "prometheus_notifications_errors_total";
        let answer = get(&self.server, "/metrics").await?;
        let found = answer.map(|answer| samples(&answer.body, &[name])).unwrap_or_default();
        let row = |sample: Sample| (sample.label("alertmanager").to_owned(), sample.value);
        Ok(found.into_iter().map(row).collect())
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<Dated<T>>, Trouble> {
        let Some(answer) = get(&self.server, path).await? else { return Ok(None) };
        if let Ok(Failed { error }) = serde_json::from_slice(&answer.body) {
            return Err(failed(&error).of(&self.server));
        }
        match serde_json::from_slice(&answer.body) {
            Ok(Envelope { data }) => Ok(Some(Dated { value: data, date: answer.date })),
            Err(_) => Err(no_answer(path, &answer, self.server.flags).of(&self.server)),
        }
    }
}

fn failed(error: &str) -> Trouble {
    match error.contains("Prometheus Agent") {
        true => Trouble::new(
            "it runs in agent mode, in which it evaluates no rules",
            "name the server that evaluates lockwatch's rules, to which this one writes",
        ),
        false => Trouble::new(
            format!("it cannot answer: {}", crate::text::terminal::safe(error)),
            "look into its log",
        ),
    }
}
