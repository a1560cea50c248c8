//! Alertmanager's configuration: the repository's own with other receivers' addresses, or a plain one.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

const PLAIN: &str = "route:
  receiver: pager
  group_by: ['...']
  group_wait: 1s
  group_interval: 10s
  repeat_interval: 4h
receivers:
  - name: pager
    webhook_configs: [{url: 'http://pager.invalid/', send_resolved: true}]
";

/// What Alertmanager is told.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    text: String,
    /// Where it comes from.
    pub(super) origin: String,
}

impl Routes {
    /// Reads `example`, if there is such a file.
    pub(super) fn load(example: &Path) -> anyhow::Result<Routes> {
        if !example.exists() {
            return Ok(Routes { text: PLAIN.to_owned(), origin: "a plain one, each alert by itself".to_owned() });
        }
        let text = std::fs::read_to_string(example).with_context(|| format!("cannot read {}", example.display()))?;
        let name = example.file_name().unwrap_or_default().to_string_lossy();
        Ok(Routes { text, origin: format!("alerts/{name}") })
    }

    /// The same with every receiver at `url`.
    pub(super) fn to(&self, url: &str) -> String {
        let replaced = |line: &str| match line.split_once("http") {
            Some((before, after)) if before.contains("url") => {
                let rest = after.find(['\'', '"', ',', '}', ' ']).and_then(|end| after.get(end..)).unwrap_or_default();
                format!("{before}{url}{rest}\n")
            }
            _ => format!("{line}\n"),
        };
        self.text.lines().map(replaced).collect()
    }

    /// The longest wait of any route for more alerts of a new group.
    pub(super) fn group_wait(&self) -> Duration {
        self.longest("group_wait", Duration::from_secs(30))
    }

    /// The longest pause of any route between two notifications of a group.
    pub(super) fn group_interval(&self) -> Duration {
        self.longest("group_interval", Duration::from_secs(300))
    }

    fn longest(&self, field: &str, default: Duration) -> Duration {
        let values = self.text.split(field).skip(1).filter_map(|rest| rest.strip_prefix(':'));
        let texts = values.filter_map(|rest| rest.trim_start().split([',', '}', '\n', ' ']).next());
        let found = texts.filter_map(|text| lockwatch::config::parse_duration_ms(text).ok());
        found.max().map_or(default, Duration::from_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_receivers_addresses_are_replaced() {
        let routes = Routes { text: PLAIN.to_owned(), origin: String::new() };
        let told = routes.to("http://127.0.0.1:1/");
        assert!(told.contains("{url: 'http://127.0.0.1:1/', send_resolved: true}"), "{told}");
        assert_eq!(told.lines().count(), PLAIN.lines().count());
        assert_eq!((routes.group_wait(), routes.group_interval()), (Duration::from_secs(1), Duration::from_secs(10)));
    }
}
