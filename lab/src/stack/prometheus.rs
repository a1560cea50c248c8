//! A real Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use super::http;
use super::port::free_address;
use super::process::Process;
use super::program::Program;

/// The flag that names the folder of one in agent mode.
const FORWARDED: &str = "--storage.agent.path";

/// The labels of one series.
pub type Labels = BTreeMap<String, String>;

/// The configuration of a Prometheus.
#[derive(Clone, Debug)]
pub struct PrometheusSetup {
    /// Rule files.
    pub rules: Vec<PathBuf>,
    /// The targets to scrape.
    pub targets: Vec<Target>,
    /// Further fields of each scrape job.
    pub job_fields: Vec<(&'static str, Value)>,
    /// Interval of scrapes.
    pub scrape_interval: Duration,
    /// Interval of rule evaluations.
    pub evaluation_interval: Duration,
    /// The Alertmanager that receives alerts.
    pub alertmanager: Option<SocketAddr>,
}

/// A target to scrape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The label `job`.
    pub job: String,
    /// The address of its `/metrics`, and its label `instance`.
    pub address: SocketAddr,
    /// Further labels.
    pub labels: Labels,
}

/// A running or stopped Prometheus.
#[derive(Debug)]
pub struct Prometheus {
    process: Option<Process>,
    address: SocketAddr,
    folder: TempDir,
    /// Additional command line arguments.
    arguments: Vec<String>,
}

impl Prometheus {
    /// Starts it.
    ///
    /// # Errors
    /// When it does not start; the error has the end of its log.
    pub async fn start(setup: &PrometheusSetup) -> anyhow::Result<Prometheus> {
        Prometheus::start_with(&config(setup), &[]).await
    }

    /// Starts it with this configuration file, and additional command line arguments.
    ///
    /// # Errors
    /// When it does not start; the error has the end of its log.
    pub async fn start_with(config: &str, arguments: &[&str]) -> anyhow::Result<Prometheus> {
        let mut prometheus = Prometheus {
            process: None,
            address: free_address()?,
            folder: TempDir::new()?,
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        };
        std::fs::write(prometheus.config_file(), config)
            .context("cannot write Prometheus' configuration")?;
        prometheus.start_again().await?;
        Ok(prometheus)
    }

    /// The address on which it serves.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.folder.path().join("prometheus.yml")
    }

    /// Stops it by SIGTERM, as a deployment does.
    ///
    /// # Errors
    /// When the signal cannot be sent.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.end().await,
            None => Ok(()),
        }
    }

    /// Kills it, as in a crash.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        match self.process.take() {
            Some(mut process) => process.kill().await,
            None => Ok(()),
        }
    }

    /// Starts it with its previous database.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        let mut command = Command::new(Program::Prometheus.find()?);
        command
            .arg("--config.file")
            .arg(self.config_file())
            .args(["--web.listen-address", &self.address.to_string()])
            .args(&self.arguments);
        // One that only forwards has another folder, and refuses this one.
        if !self.arguments.iter().any(|argument| argument.starts_with(FORWARDED)) {
            command.arg("--storage.tsdb.path").arg(self.folder.path().join("data"));
        }
        command.current_dir(self.folder.path());
        let mut process = Process::start(command, self.folder.path().join("prometheus.log"))?;
        let address = self.address;
        let is_ready =
            async || http::get(address, "/-/ready").await.is_ok_and(|answer| answer.status == 200);
        process.ready(is_ready).await.context("prometheus")?;
        self.process = Some(process);
        Ok(())
    }

    /// Whether it knows its Alertmanager yet: alerts that fire before are sent a minute later.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn knows_its_alertmanager(&self) -> anyhow::Result<bool> {
        let data = http::get(self.address, "/api/v1/alertmanagers").await?.json()?;
        let active = data.pointer("/data/activeAlertmanagers").and_then(Value::as_array);
        Ok(active.is_some_and(|active| !active.is_empty()))
    }

    /// Evaluates an instant query that returns a vector.
    ///
    /// # Errors
    /// When Prometheus refuses the query, or the result has another type.
    pub async fn query(&self, promql: &str) -> anyhow::Result<Vec<(Labels, f64)>> {
        let data = self.ask("/api/v1/query", &[("query", promql)]).await?;
        let found = self.series_of(&data, "vector").with_context(|| promql.to_owned())?;
        found
            .iter()
            .map(|series| Ok((labels(&series["metric"]), sample(&series["value"])?.1)))
            .collect()
    }

    /// Evaluates a range query from `from` to `to` (Unix seconds) at each `step`; returns instants
    /// and values.
    ///
    /// # Errors
    /// When Prometheus refuses it.
    pub async fn query_range(
        &self,
        promql: &str,
        (from, to): (f64, f64),
        step: Duration,
    ) -> anyhow::Result<Vec<(Labels, Vec<(f64, f64)>)>> {
        let (from, to, step) = (from.to_string(), to.to_string(), step.as_secs_f64().to_string());
        let fields = [("query", promql), ("start", &from), ("end", &to), ("step", &step)];
        let data = self.ask("/api/v1/query_range", &fields).await?;
        let found = self.series_of(&data, "matrix").with_context(|| promql.to_owned())?;
        let samples = |series: &Value| {
            series["values"]
                .as_array()
                .into_iter()
                .flatten()
                .map(sample)
                .collect::<anyhow::Result<_>>()
        };
        found.iter().map(|series| Ok((labels(&series["metric"]), samples(series)?))).collect()
    }

    /// The series that match a selector.
    ///
    /// # Errors
    /// When Prometheus refuses it.
    pub async fn series(&self, selector: &str) -> anyhow::Result<Vec<Labels>> {
        let data = self.ask("/api/v1/series", &[("match[]", selector)]).await?;
        Ok(data.as_array().context("no list of series")?.iter().map(labels).collect())
    }

    /// Sends any request to its API; returns the field `data` of the response.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub async fn ask(&self, path: &str, fields: &[(&str, &str)]) -> anyhow::Result<Value> {
        let body = http::form(fields);
        let answer =
            http::post(self.address, path, "application/x-www-form-urlencoded", &body).await?;
        let (status, answer): (u16, Value) = (answer.status, serde_json::from_str(&answer.body)?);
        match answer.get("data") {
            Some(data) if status == 200 => Ok(data.clone()),
            _ => bail!("Prometheus answers {status}: {answer}"),
        }
    }

    fn series_of<'a>(&self, data: &'a Value, kind: &str) -> anyhow::Result<&'a Vec<Value>> {
        if data["resultType"] != kind {
            bail!("gives {} and no {kind}", data["resultType"]);
        }
        data["result"].as_array().context("no list of series")
    }
}

fn labels(metric: &Value) -> Labels {
    let labels = metric.as_object().into_iter().flatten();
    labels
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}

/// Parses `[1763740800.1, "3"]`.
fn sample(pair: &Value) -> anyhow::Result<(f64, f64)> {
    let at = pair.get(0).and_then(Value::as_f64).context("a sample without instant")?;
    let value = pair.get(1).and_then(Value::as_str).context("a sample without value")?;
    Ok((at, value.parse()?))
}

fn config(setup: &PrometheusSetup) -> String {
    let mut text = format!(
        "global:\n  scrape_interval: {scrape}ms\n  scrape_timeout: {timeout}ms\n  \
         evaluation_interval: {evaluation}ms\n",
        scrape = setup.scrape_interval.as_millis(),
        timeout = setup.scrape_interval.min(Duration::from_secs(10)).as_millis(),
        evaluation = setup.evaluation_interval.as_millis(),
    );
    // Writing to a string cannot fail. JSON is valid YAML.
    let rules: Vec<String> = setup.rules.iter().map(|path| path.display().to_string()).collect();
    let _ = writeln!(text, "rule_files: {}", Value::from(rules));
    if let Some(alertmanager) = setup.alertmanager {
        let _ = writeln!(
            text,
            "alerting:\n  alertmanagers:\n    - static_configs: [{{targets: [\"{alertmanager}\"]}}]"
        );
    }
    let mut jobs: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for target in &setup.targets {
        let group = json!({"targets": [target.address.to_string()], "labels": target.labels});
        jobs.entry(&target.job).or_default().push(group);
    }
    text.push_str("scrape_configs:\n");
    for (job, targets) in jobs {
        let _ = writeln!(
            text,
            "  - job_name: {}\n    honor_labels: true\n    static_configs: {}",
            Value::from(job),
            Value::from(targets)
        );
        for (field, value) in &setup.job_fields {
            let _ = writeln!(text, "    {field}: {value}");
        }
    }
    if setup.targets.is_empty() {
        text.push_str("  []\n");
    }
    text
}
