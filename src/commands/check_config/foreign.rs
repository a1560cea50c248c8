//! Configuration files of other programs: whether a file is that, and how its values are read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use regex_lite::Regex;
use serde_yaml::Value;

use crate::config::{parse_yaml, read_text};
use crate::text::durations::{duration_text, parse_duration_ms};
use crate::text::identity::escape;

/// The labels of an alert.
pub type Labels = BTreeMap<String, String>;

/// One delay and the source of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delay {
    /// The delay in milliseconds.
    pub ms: u64,
    /// Its source, for people.
    pub origin: String,
}

impl Delay {
    pub(super) fn given(ms: Option<u64>) -> Option<Delay> {
        ms.map(|ms| Delay { ms, origin: "given".to_owned() })
    }

    pub(super) fn default_of(program: &Program, ms: u64) -> Delay {
        Delay { ms, origin: format!("the default of {}", program.name) }
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} ({})", duration_text(self.ms), self.origin)
    }
}

/// A program that lockwatch is used with.
#[derive(Debug)]
pub(super) struct Program {
    name: &'static str,
    /// What its configuration may have at the top. The program itself refuses anything else.
    fields: &'static [&'static str],
    /// The flags that make its file unnecessary.
    flags: &'static str,
}

pub(super) const PROMETHEUS: Program = Program {
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

pub(super) const ALERTMANAGER: Program = Program {
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
                let unknown = named(&text(unknown).unwrap_or_default());
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
    said.map(|(field, value)| named(&format!("{field}: {value}")))
}

/// A configuration file of another program.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) name: String,
    pub(super) value: Value,
}

impl Document {
    /// Reads the configuration of `program`.
    ///
    /// # Errors
    /// Why it cannot be read, or is none.
    pub(super) fn read(path: &Path, program: &Program) -> Result<Document, String> {
        let name = path.display().to_string();
        let text = read_text(path).map_err(|message| format!("{name}: {message}"))?;
        let value = parse_yaml(&text, &name).map_err(|errors| errors.to_string())?;
        program.expect(&value).map_err(|message| format!("{name}: {message}"))?;
        Ok(Document { name, value })
    }

    /// In Prometheus' configuration, zero means unset.
    pub(super) fn delay(&self, at: Option<&Value>, field: &str) -> Result<Option<Delay>, String> {
        let ms = at.and_then(|block| block.get(field)).map_or(Ok(None), duration_ms);
        let ms = ms.map_err(|message| format!("{field} {message}"))?;
        Ok(ms.filter(|ms| *ms > 0).map(|ms| Delay { ms, origin: self.name.clone() }))
    }
}

/// A name from a file, as it is shown.
pub(super) fn named(name: &str) -> String {
    format!("`{}`", escape(name.as_bytes()))
}

/// Names from a file, as they are shown.
pub(super) fn all_named<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(named).collect::<Vec<_>>().join(", ")
}

/// The items of a list; none if it is not there.
///
/// # Errors
/// If it is something else.
pub(super) fn list<'a>(block: &'a Value, field: &str) -> Result<&'a [Value], String> {
    match block.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Sequence(items)) => Ok(items),
        Some(_) => Err(format!("`{field}` is no list")),
    }
}

/// A plain value as text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The plain values of a list; none for any other value.
pub(super) fn texts(list: &Value) -> Vec<String> {
    list.as_sequence().into_iter().flatten().filter_map(text).collect()
}

/// A mapping of plain values; empty for any other value.
pub(super) fn pairs(map: &Value) -> Labels {
    let entries = map.as_mapping().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// Whether a switch is on. These programs read YAML 1.1, where `yes` and `on` are booleans.
pub(super) fn is_on(value: Option<&Value>) -> bool {
    let said = value.and_then(text).unwrap_or_default().to_ascii_lowercase();
    matches!(said.as_str(), "true" | "yes" | "on" | "y")
}

/// A duration as Prometheus and Alertmanager parse it, in milliseconds. There a bare 0 needs no
/// unit, and an empty value counts as absent.
///
/// # Errors
/// What is wrong with it.
pub(super) fn duration_ms(value: &Value) -> Result<Option<u64>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) if number.as_u64() == Some(0) => Ok(Some(0)),
        Value::String(text) if text == "0" => Ok(Some(0)),
        Value::String(text) => parse_duration_ms(text).map(Some),
        _ => Err("is not text".to_owned()),
    }
}

/// A pattern that a whole value must match.
///
/// # Errors
/// Why it is none.
pub(super) fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(&format!("^(?:{text})$"))
        .map_err(|error| format!("has a pattern that is none: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_configuration_of_the_program_is_refused() {
        let said = |program: &Program, text: &str| {
            program.expect(&serde_yaml::from_str(text).unwrap()).err().unwrap_or_default()
        };
        let prometheus = "name the file that Prometheus is started with, or give \
                          --scrape-interval and --evaluation-interval";
        for (file, why) in [
            (
                "apiVersion: monitoring.coreos.com/v1\nkind: ServiceMonitor\nspec: {}\n",
                "(`kind: ServiceMonitor`)",
            ),
            ("kind: PodMonitor", "(`kind: PodMonitor`)"),
            ("kind: ScrapeConfig\nglobal: {}", "(`kind: ScrapeConfig`)"),
            ("{apiVersion: v1, kind: ConfigMap, data: {}}", "(`kind: ConfigMap`)"),
            ("apiVersion: v1", "(`apiVersion: v1`)"),
            ("kind: [\"\\e\"]", "(`kind: `)"),
            ("server: {global: {scrape_interval: 15s}}", "has a field `server`, which"),
            ("global: {}\nserverFiles: {}", "has a field `serverFiles`, which"),
            ("groups: []", "has a field `groups`, which"),
            ("route: {receiver: a}", "has a field `route`, which"),
            ("{1: a}", "has a field `1`, which"),
            ("{\"\\e\": a}", "has a field `\\x1b`, which"),
            ("", "has no fields"),
            ("[{targets: [a]}]", "has no fields"),
            ("text", "has no fields"),
        ] {
            let said = said(&PROMETHEUS, file);
            assert!(said.contains(why) && said.ends_with(prometheus), "{file}: {said}");
        }
        let alertmanager = "name the file that Alertmanager is started with, or give --group-wait";
        for (file, why) in [
            ("kind: AlertmanagerConfig\nspec: {}", "(`kind: AlertmanagerConfig`)"),
            ("kind: Secret", "(`kind: Secret`)"),
            ("alertmanager: {config: {route: {}}}", "has a field `alertmanager`, which"),
            ("config: {route: {}}", "has a field `config`, which"),
            ("scrape_configs: []", "has a field `scrape_configs`, which"),
            ("~", "has no fields"),
        ] {
            let said = said(&ALERTMANAGER, file);
            assert!(said.contains(why) && said.ends_with(alertmanager), "{file}: {said}");
        }
        for program in [&PROMETHEUS, &ALERTMANAGER] {
            let all: String = program.fields.iter().map(|field| format!("{field}: ~\n")).collect();
            assert_eq!(said(program, &all), "");
        }
    }

    #[test]
    fn a_switch_is_on_in_all_spellings_of_yaml() {
        for (written, on) in [
            ("true", true),
            ("yes", true),
            ("On", true),
            ("false", false),
            ("no", false),
            ("~", false),
            ("[true]", false),
        ] {
            assert_eq!(is_on(serde_yaml::from_str(written).ok().as_ref()), on, "{written}");
        }
    }
}
