//! Alertmanager's configuration: the repository's own with the receivers' addresses replaced, or a
//! plain one.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use regex_lite::Regex;
use serde_yaml::Value;

use crate::stack::Labels;

const PLAIN: &str = "route:
  receiver: pager
  group_by: ['...']
  group_wait: 1s
  group_interval: 10s
  repeat_interval: 4h
receivers:
  - name: pager
    webhook_configs:
      - url: https://pager.example.com/
        send_resolved: true
";

/// A configuration of Alertmanager.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    text: String,
    root: Value,
    /// Where the configuration comes from.
    pub(super) origin: String,
}

/// How long Alertmanager delays an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waits {
    /// Delay before the first notification of a group.
    pub(super) group_wait: Duration,
    /// Delay between two notifications of a group.
    pub(super) group_interval: Duration,
}

impl Routes {
    /// Reads the file `example`, or makes a plain configuration if it does not exist.
    pub(super) fn load(example: &Path) -> anyhow::Result<Routes> {
        if !example.exists() {
            return Routes::new(PLAIN.to_owned(), "a plain one, each alert by itself".to_owned());
        }
        let text = std::fs::read_to_string(example)
            .with_context(|| format!("cannot read {}", example.display()))?;
        let name = example.file_name().unwrap_or_default().to_string_lossy();
        Routes::new(text, name.into_owned()).with_context(|| format!("{}", example.display()))
    }

    fn new(text: String, origin: String) -> anyhow::Result<Routes> {
        let document: Value = serde_yaml::from_str(&text).context("is not valid YAML")?;
        let root = document.get("route").context("has no route")?.clone();
        Ok(Routes { text, root, origin })
    }

    /// The configuration with all receivers below `url`, each at a path of its own, and without
    /// credentials.
    pub(super) fn to(&self, url: &str) -> String {
        let lines = self.text.lines().filter(|line| !line.contains("credentials_file"));
        let lines: Vec<String> =
            lines.map(|line| line.replace("url: https://", &format!("url: {url}"))).collect();
        lines.join("\n") + "\n"
    }

    /// The delays of an alert with these labels.
    pub(super) fn waits(&self, labels: &Labels) -> anyhow::Result<Waits> {
        // Starts with Alertmanager's defaults.
        let mut waits =
            Waits { group_wait: Duration::from_secs(30), group_interval: Duration::from_secs(300) };
        let mut route = Some(&self.root);
        while let Some(here) = route {
            waits.group_wait = wait(here, "group_wait")?.unwrap_or(waits.group_wait);
            waits.group_interval = wait(here, "group_interval")?.unwrap_or(waits.group_interval);
            route = None;
            for child in here.get("routes").and_then(Value::as_sequence).into_iter().flatten() {
                if matches(child, labels)? {
                    route = Some(child);
                    break;
                }
            }
        }
        Ok(waits)
    }
}

fn wait(route: &Value, field: &str) -> anyhow::Result<Option<Duration>> {
    let Some(text) = route.get(field).and_then(Value::as_str) else { return Ok(None) };
    let ms = lockwatch::text::durations::parse_duration_ms(text).map_err(anyhow::Error::msg)?;
    Ok(Some(Duration::from_millis(ms)))
}

fn matches(route: &Value, labels: &Labels) -> anyhow::Result<bool> {
    for matcher in route.get("matchers").and_then(Value::as_sequence).into_iter().flatten() {
        if !fits(matcher.as_str().context("a matcher that is no text")?, labels)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether `name="value"`, or the same with `!=`, `=~` or `!~`, matches the labels.
fn fits(matcher: &str, labels: &Labels) -> anyhow::Result<bool> {
    let Some(at) = matcher.find(['=', '!']) else { bail!("not a matcher: {matcher}") };
    let (name, rest) = matcher.split_at(at);
    let (operator, value) = match rest.get(..2) {
        Some(two @ ("=~" | "!=" | "!~")) => (two, rest.get(2..)),
        _ => ("=", rest.get(1..)),
    };
    let value = value.unwrap_or_default().trim().trim_matches('"');
    let label = labels.get(name.trim()).map_or("", String::as_str);
    let matches_pattern =
        || Ok::<_, anyhow::Error>(Regex::new(&format!("^(?:{value})$"))?.is_match(label));
    Ok(match operator {
        "=~" => matches_pattern()?,
        "!~" => !matches_pattern()?,
        "!=" => label != value,
        _ => label == value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(routes: &Routes, labels: &[(&str, &str)]) -> (u64, u64) {
        let labels =
            labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let Waits { group_wait, group_interval } = routes.waits(&labels).unwrap();
        (group_wait.as_secs(), group_interval.as_secs())
    }

    #[test]
    fn only_addresses_and_credentials_change() {
        let text = PLAIN.to_owned()
            + "        http_config: {authorization: {credentials_file: /secret}}\n";
        let reported = Routes::new(text, String::new()).unwrap().to("http://127.0.0.1:1/");
        assert_eq!(reported, PLAIN.replace("https://", "http://127.0.0.1:1/"));
    }

    #[test]
    fn the_first_route_that_matches_decides_and_inherits() {
        let text = "route:
  group_interval: 2m
  routes:
    - matchers: ['alertname=~\"Task(Down|Split)\"', severity!=\"warning\"]
      group_wait: 1s
      routes: [{matchers: [task=\"a\"], group_interval: 20s}]
    - {matchers: ['alertname!~\"Watch.+\"'], group_wait: 5s}
";
        let routes = Routes::new(text.to_owned(), String::new()).unwrap();
        assert_eq!(waits(&routes, &[("alertname", "TaskDown"), ("task", "a")]), (1, 20));
        assert_eq!(waits(&routes, &[("alertname", "TaskDown"), ("task", "b")]), (1, 120));
        assert_eq!(waits(&routes, &[("alertname", "TaskDown"), ("severity", "warning")]), (5, 120));
        assert_eq!(waits(&routes, &[("alertname", "TaskDowner")]), (5, 120));
        assert_eq!(waits(&routes, &[("alertname", "Watchdog")]), (30, 120));
    }
}
