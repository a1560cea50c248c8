//! The example configurations of Prometheus and Alertmanager, and the rules wrapped for the
//! Prometheus Operator.
//!
//! `BLESS=1` regenerates the wrapped rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use lockwatch::alerts::{RULES as SHIPPED, rule_names, rules_version, stated_version};
use lockwatch::chain::config::AlertmanagerConfig;
use lockwatch::commands::check_config::{PageTiming, TimingSources};
use lockwatch::config::Config;
use lockwatch_judge::problems::rows;
use serde_yaml::Value;

use crate::support::skip;

fn alerts(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts").join(name)
}

fn text(name: &str) -> String {
    fs::read_to_string(alerts(name)).unwrap()
}

fn yaml(name: &str) -> Value {
    serde_yaml::from_str(&text(name)).unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_sequence().into_iter().flatten()
}

fn str_of<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

/// Every alert with the severity from its rule; alerts about a task have the task's severity.
fn all_alerts() -> BTreeMap<String, Option<String>> {
    let files = RULES.map(|(rules, _)| yaml(rules));
    let rules = files.iter().flat_map(|file| list(&file["groups"]));
    let rules = rules.flat_map(|group| list(&group["rules"]));
    let severity = |rule: &Value| {
        rule.get("labels").and_then(|labels| str_of(labels, "severity")).map(str::to_owned)
    };
    // A problem brings the severity of its row; that of a page may be the task's own.
    let of_problem = |alert: &str| {
        let row = rows().find(|row| row.alert == alert)?;
        (!row.severity.is_page()).then(|| row.severity.label().to_owned())
    };
    let found: BTreeMap<_, _> = rules
        .filter_map(|rule| {
            let alert = str_of(rule, "alert")?;
            Some((alert.to_owned(), severity(rule).or_else(|| of_problem(alert))))
        })
        .collect();
    assert!(found.len() >= 20, "found the alerts");
    found
}

/// Runs a checker, which must succeed.
fn check(program: &str, arguments: &[&str], file: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    said
}

#[test]
fn promtool_accepts_the_example_with_the_rules_in_it() {
    if skip::has("alert_examples::promtool_accepts_the_example_with_the_rules_in_it", &["promtool"])
    {
        let said = check("promtool", &["check", "config"], &alerts("prometheus-example.yml"));
        assert!(said.contains("rules found"), "{said}");
    }
}

#[test]
fn amtool_accepts_the_example() {
    if skip::has("alert_examples::amtool_accepts_the_example", &["amtool"]) {
        let said = check("amtool", &["check-config"], &alerts("alertmanager-example.yml"));
        assert!(said.contains("inhibit rules"), "{said}");
    }
}

type Labels = BTreeMap<String, String>;

/// The receivers that an alert must reach, and how soon.
#[derive(Debug, PartialEq, Eq)]
struct Notification {
    receiver: String,
    group_by: String,
    group_wait_ms: u64,
}

/// The expected notification of an alert, as documentation and example define it.
fn expected(alert: &str, severity: &str, team: Option<&str>) -> Notification {
    let whose = |who: &str| team.map_or(who.to_owned(), |team| format!("{team}-{who}"));
    let reported = |receiver: String, group_by: &str, group_wait_ms| Notification {
        receiver,
        group_by: group_by.to_owned(),
        group_wait_ms,
    };
    let is_page = matches!(
        alert,
        "LockwatchTaskDown"
            | "LockwatchTaskSplit"
            | "LockwatchTaskStalled"
            | "LockwatchTaskFailing"
            | "LockwatchTaskOverdue"
            | "LockwatchTaskBlind"
            | "LockwatchSwitchesLost"
            | "LockwatchLockLost"
            | "LockwatchStoreUnreachable"
            | "LockwatchDown"
            | "LockwatchAgentRestarting"
    );
    if alert == "LockwatchWatchdog" {
        return reported("dead-mans-switch".to_owned(), "cluster,drill", 0);
    }
    if !is_page {
        return reported(whose("chat"), "alertname,store,cluster,drill", 30_000);
    }
    let wait_ms = match alert {
        "LockwatchTaskDown" | "LockwatchTaskSplit" => 0,
        _ => 1_000,
    };
    reported(whose(if severity == "critical" { "pager" } else { "chat" }), "...", wait_ms)
}

/// Every alert, as raised for a task or Redis server of each kind.
fn cases() -> Vec<(Labels, Notification)> {
    let mut cases = Vec::new();
    for (alert, severity) in all_alerts() {
        let severities = severity
            .map_or(vec!["critical".to_owned(), "warning".to_owned(), "info".to_owned()], |own| {
                vec![own]
            });
        // Alerts that are not about a task have no team.
        let is_of_a_task = !["Store", "Agent", "Config", "Clock", "Down", "Watchdog"]
            .iter()
            .any(|subject| alert.trim_start_matches("Lockwatch").starts_with(subject));
        for severity in severities {
            for team in [None, is_of_a_task.then_some("logistics")] {
                let labels = [
                    ("alertname", Some(alert.as_str())),
                    ("severity", Some(severity.as_str())),
                    ("team", team),
                ];
                let labels = labels
                    .into_iter()
                    .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
                cases.push((labels.collect(), expected(&alert, &severity, team)));
            }
        }
    }
    cases
}

/// The receivers that amtool reports.
fn amtool_routes(file: &Path, labels: &Labels) -> String {
    let labels = labels.iter().map(|(name, value)| format!("{name}={value}"));
    let mut amtool = Command::new("amtool");
    amtool
        .args(["config", "routes", "test"])
        .arg(format!("--config.file={}", file.display()))
        .args(labels);
    let output = amtool.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The routes of the example that have the expected settings: which of them an alert takes is what
/// amtool says.
#[test]
fn every_alert_reaches_who_must_be_notified_as_soon_as_it_must() {
    let read = AlertmanagerConfig::read(&yaml("alertmanager-example.yml")).unwrap();
    for (labels, reported) in cases() {
        let fits = read.routes_to(&reported.receiver).any(|route| {
            route.group_by.join(",") == reported.group_by
                && route.group_wait_ms == reported.group_wait_ms
        });
        assert!(fits, "{labels:?}: no route is {reported:?}");
    }
    let pages = read.routes.iter().filter(|route| route.group_by == ["..."]);
    assert!(pages.clone().count() >= 8, "{:?}", read.routes);
    assert!(pages.clone().all(|route| route.group_wait_ms <= 1_000 && route.silent_at.is_empty()));
}

#[test]
fn amtool_says_the_same() {
    if !skip::has("alert_examples::amtool_says_the_same", &["amtool"]) {
        return;
    }
    let file = alerts("alertmanager-example.yml");
    for (labels, reported) in cases() {
        assert_eq!(amtool_routes(&file, &labels), reported.receiver, "{labels:?}");
    }
}

#[test]
fn the_time_to_page_follows_from_the_examples() {
    let sources = TimingSources {
        prometheus_config: Some(alerts("prometheus-example.yml")),
        alertmanager_config: Some(alerts("alertmanager-example.yml")),
        ..TimingSources::default()
    };
    let config = "redis: {main: {url: 'redis://x'}}\nlabels: [team, severity]\ntasks:\n  \
                  - {name: plain, lock: {key: a}, wanted: always}\n  \
                  - {name: theirs, lock: {key: b}, wanted: always, labels: {team: logistics}}\n  \
                  - {name: minor, lock: {key: c}, wanted: always, labels: {severity: warning}}\n";
    let config = Config::parse(config, Path::new("lockwatch.yml")).unwrap();
    let timing = PageTiming::find(&sources, &config.tasks).unwrap();
    assert_eq!((timing.scrape.ms, timing.evaluation.ms), (5_000, 5_000));
    assert_eq!((timing.group_wait.ms, timing.warnings.as_slice()), (0, [].as_slice()));
}

/// The alert names in matchers of the form `alertname="A"` or `alertname=~"A|B"`, and one that
/// leaves drills out.
fn named(matchers: &Value) -> BTreeSet<String> {
    let [matcher, drill] = list(matchers).collect::<Vec<_>>()[..] else {
        panic!("two matchers: {matchers:?}")
    };
    assert_eq!(drill.as_str(), Some("drill=\"\""));
    let value = matcher
        .as_str()
        .unwrap()
        .trim_start_matches("alertname=")
        .trim_start_matches('~')
        .trim_matches('"');
    value.split('|').map(str::to_owned).collect()
}

/// A drill goes the way of the real alert, and is grouped with none.
#[test]
fn a_drill_is_grouped_with_no_real_alert() {
    fn check(route: &Value) {
        let group_by: Vec<&str> = list(&route["group_by"]).filter_map(Value::as_str).collect();
        let is_grouped = group_by.is_empty() || group_by == ["..."] || group_by.contains(&"drill");
        let is_watchdog = str_of(route, "receiver") == Some("dead-mans-switch");
        assert!(is_grouped || is_watchdog, "{route:?}");
        list(&route["routes"]).for_each(check);
    }
    let route = &yaml("alertmanager-example.yml")["route"];
    assert!(list(&route["group_by"]).next().is_some());
    check(route);
}

#[test]
fn what_proves_harm_is_never_muted() {
    let known: BTreeSet<String> = all_alerts().into_keys().collect();
    let mut muted = BTreeSet::new();
    for rule in list(&yaml("alertmanager-example.yml")["inhibit_rules"]) {
        let (sources, targets) = (named(&rule["source_matchers"]), named(&rule["target_matchers"]));
        assert!(
            sources.is_subset(&known) && targets.is_subset(&known),
            "unknown alert in {rule:?}"
        );
        assert!(sources.is_disjoint(&targets), "{rule:?}");
        let equal: Vec<&str> = list(&rule["equal"]).filter_map(Value::as_str).collect();
        assert!(!equal.contains(&"team") && !equal.contains(&"severity"), "{rule:?}");
        assert!(
            ["task", "store", "job"].contains(&equal[0]) && equal.contains(&"cluster"),
            "{rule:?}"
        );
        assert!(
            equal[0] != "task" || equal.contains(&"store"),
            "another redis' task of that name: {rule:?}"
        );
        muted.extend(targets);
    }
    let warnings =
        all_alerts().into_iter().filter(|(_, severity)| severity.as_deref() == Some("warning"));
    let warnings: BTreeSet<String> = warnings.map(|(alert, _)| alert).collect();
    let pages: Vec<&String> = muted.difference(&warnings).collect();
    assert_eq!(pages, ["LockwatchTaskBlind"]);
}

/// The files of rules, and each as wrapped for the Prometheus Operator.
const RULES: [(&str, &str); 2] = [
    ("lockwatch.rules.yml", "prometheusrule.yaml"),
    ("lockwatch-watchdog.rules.yml", "prometheusrule-watchdog.yaml"),
];

const WRAPPING: &str = "\
# Generated from {file} for the Prometheus Operator; `BLESS=1 cargo test --test it \
    alert_examples` rewrites it.
#
# A Prometheus takes the PrometheusRules that its `ruleSelector` names: add the labels that yours \
    asks for (the Helm chart
# kube-prometheus-stack asks for `release: <name of its release>`). Apply it as it is: a Helm \
    chart would take the braces in it for its own.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: lockwatch
    app.kubernetes.io/component: monitoring
spec:
";

/// The rules indented by two more levels.
fn wrapped(file: &str) -> String {
    let rules = text(file);
    let (_, groups) = rules.split_once("\ngroups:\n").unwrap();
    let lines = std::iter::once("groups:").chain(groups.lines());
    let lines =
        lines.map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") });
    let name = file.trim_end_matches(".rules.yml");
    WRAPPING.replace("{file}", file).replace("{name}", name) + &lines.collect::<String>()
}

/// Rules that were changed have another version, and say so.
fn check_version(file: &str) {
    let rules = text(file);
    let (stated, version) = (stated_version(&rules).unwrap(), rules_version(&rules));
    if std::env::var_os("BLESS").is_some() {
        fs::write(alerts(file), rules.replacen(stated, &version, 1)).unwrap();
    }
    assert_eq!(stated_version(&text(file)), Some(&*version), "BLESS=1 rewrites it");
    assert_eq!(rules_version(&rules.replacen(stated, "", 1)), version, "all but this line count");
    assert_ne!(rules_version(&rules.replacen("> 0", "> 1", 1)), version);
}

#[test]
fn the_rules_name_what_is_in_them() {
    let rules: Vec<&str> = rule_names(SHIPPED).collect();
    let yaml = yaml("lockwatch.rules.yml");
    let all = list(&yaml["groups"]).flat_map(|group| list(&group["rules"]));
    let names: Vec<&str> =
        all.filter_map(|rule| str_of(rule, "record").or_else(|| str_of(rule, "alert"))).collect();
    assert_eq!(rules, names);
}

#[test]
fn the_operators_wrapping_has_the_same_rules() {
    check_version("lockwatch.rules.yml");
    for (file, wrapping) in RULES {
        let expected = wrapped(file);
        if std::env::var_os("BLESS").is_some() {
            fs::write(alerts(wrapping), &expected).unwrap();
        }
        assert!(text(wrapping) == expected, "alerts/{wrapping} differs; BLESS=1 rewrites it");
        assert_eq!(yaml(wrapping)["spec"]["groups"], yaml(file)["groups"]);
    }
}

/// The fields that the resource definition permits, as far as these rules use them.
#[test]
fn the_operators_wrapping_is_well_formed() {
    let resource = yaml("prometheusrule.yaml");
    assert_eq!(str_of(&resource, "apiVersion"), Some("monitoring.coreos.com/v1"));
    assert_eq!(str_of(&resource, "kind"), Some("PrometheusRule"));
    let mut names = BTreeSet::new();
    for group in list(&resource["spec"]["groups"]) {
        only_has(group, &["name", "interval", "rules"]);
        assert!(names.insert(str_of(group, "name").unwrap()), "{group:?}");
        assert!(group.get("interval").is_none_or(Value::is_string));
        for rule in list(&group["rules"]) {
            only_has(
                rule,
                &["alert", "record", "expr", "for", "keep_firing_for", "labels", "annotations"],
            );
            assert!(rule.get("alert").is_some() != rule.get("record").is_some(), "{rule:?}");
            assert!(str_of(rule, "expr").is_some(), "{rule:?}");
            for duration in
                ["for", "keep_firing_for"].into_iter().filter_map(|field| rule.get(field))
            {
                assert!(
                    duration.as_str().is_some_and(|text| text.ends_with(['s', 'm', 'h'])),
                    "{rule:?}"
                );
            }
            for map in ["labels", "annotations"].into_iter().filter_map(|field| rule.get(field)) {
                assert!(map.as_mapping().unwrap().values().all(Value::is_string), "{rule:?}");
            }
        }
    }
    assert!(names.len() >= 4, "{names:?}");
}

fn only_has(block: &Value, fields: &[&str]) {
    for field in block.as_mapping().unwrap().keys() {
        assert!(fields.contains(&field.as_str().unwrap()), "{field:?} in {block:?}");
    }
}
