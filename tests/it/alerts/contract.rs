//! Labels, links and series of the rules: what they promise to users, and what they need from the
//! agent.

use crate::support::PATIENCE;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use lockwatch::outputs::exposition::{Variant, make};
use lockwatch::outputs::negotiate::{Coding, Format};

use super::{Rule, Rules, promql, test_file};
use crate::snapshots::{self, cluster_redis, published, sentinel_redis};
use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;

/// Labels of a scrape target; the first one is always present.
const OF_TARGETS: [&str; 7] =
    ["job", "instance", "pod", "container", "endpoint", "address", "service"];
const OF_ALERTS: [&str; 3] = ["alertname", "alertstate", "severity"];
/// Series that Prometheus itself generates.
const OWN: [&str; 2] = ["up", "ALERTS"];
/// Optional fields of the task in `config`, which become labels.
const OF_TASK: &str = "severity: critical, standby: required, team: logistics";
/// Metrics that need several servers per redis, which these tests do not run.
const OF_SEVERAL_SERVERS: [&str; 4] = [
    "lockwatch_store_locks_behind",
    "lockwatch_store_sentinels",
    "lockwatch_store_sentinels_agreeing",
    "lockwatch_store_uncovered_slots",
];
const NAME_MAX: usize = 40;
const GROUP_MAX: usize = 20;

/// The labels of each series.
type Catalogue = BTreeMap<String, BTreeSet<String>>;

#[test]
fn each_alert_says_what_people_need() {
    let rules = Rules::load();
    for (name, rule) in rules.alerts() {
        assert!(name.starts_with("Lockwatch") && name.len() <= NAME_MAX, "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphabetic()), "{name} is not CamelCase");
        let annotations: Vec<&str> = rule.annotations.keys().map(String::as_str).collect();
        assert_eq!(annotations, ["dashboard", "description", "runbook_url", "summary"], "{name}");
        let summary = &rule.annotations["summary"];
        assert!(summary.ends_with('.') && !summary.contains("{{"), "{name}: {summary}");
        assert!(summary.starts_with(char::is_uppercase), "{name}: {summary}");
        let description = &rule.annotations["description"];
        assert!(description.contains("{{") || rule.expr == "vector(1)", "{name}: {description}");
        let severity = rule.labels.get("severity").map(String::as_str);
        // Alerts about a task have the task's severity.
        let own = rule.expr.contains("task:lockwatch_task_info:");
        assert!(
            matches!(severity, Some("critical" | "warning" | "none")) || own && severity.is_none(),
            "{name}"
        );
        assert!(test_file(name).is_file(), "{name} has no unit test");
    }
}

#[test]
fn groups_are_small_and_records_are_named_by_the_convention_and_used() {
    let rules = Rules::load();
    let boards = read_all("dashboards");
    for group in &rules.groups {
        assert!(group.rules.len() <= GROUP_MAX && group.name.len() <= NAME_MAX, "{}", group.name);
    }
    for name in rules.all().filter_map(|rule| rule.record.as_deref()) {
        let parts: Vec<&str> = name.split(':').collect();
        let is_part = |part: &&str| !part.is_empty() && !part.ends_with("_total");
        assert!(
            parts.len() == 3 && parts.iter().all(is_part),
            "{name} is not level:metric:operations"
        );
        let read =
            rules.all().any(|rule| rule.name() != name && promql::mentions(&rule.expr, name));
        assert!(read || promql::mentions(&boards, name), "{name} is used nowhere");
    }
}

/// All JSON files of a folder as one text.
fn read_all(folder: &str) -> String {
    let files = fs::read_dir(Path::new(folder)).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|end| end == "json"))
        .map(|file| fs::read_to_string(file).unwrap())
        .collect()
}

#[test]
fn every_series_and_label_that_a_rule_reads_is_on_the_real_page() {
    let Some(server) =
        RedisServer::start("alerts::every_series_and_label_that_a_rule_reads_is_on_the_real_page")
    else {
        return;
    };
    let rules = Rules::load();
    let agent = Agent::start(&config(&server));
    agent.until(PATIENCE, "the free lock is seen", |page| {
        page.of("outbound", "lock_held") == Some(0.0)
    });
    server.cli(&["hset", "outbound:lock", "6e1f3a52-90f4-4d0e-8d2a-0d4f3c1b2a00:57", "1"]);
    server.cli(&["pexpire", "outbound:lock", "30000"]);
    let mut round = 0;
    let mut missing = Vec::new();
    agent.until(PATIENCE, "every series that the rules read", |page| {
        round += 1;
        server.cli(&["hset", "outbound:stats", "last_run", &round.to_string()]);
        missing = mistakes(&rules, &of_page(page));
        missing.is_empty() || round > 200
    });
    assert!(missing.is_empty(), "{}", missing.join("\n"));

    // A renamed series would be missing from the catalogue.
    let catalogue = of_page(&agent.page());
    for name in rules.all().flat_map(|rule| promql::reads(&rule.expr).series).map(|(name, _)| name)
    {
        let mut renamed = catalogue.clone();
        if !OWN.contains(&name.as_str()) && renamed.remove(&name).is_some() {
            assert!(!mistakes(&rules, &renamed).is_empty(), "{name}");
        }
    }
}

fn config(server: &RedisServer) -> String {
    format!(
        "redis: {{main: {{url: 'redis://{}', interval: 100ms}}}}\n\
         labels: [severity, standby, team]\ntasks:\n  - name: outbound\n    \
         lock: {{key: 'outbound:lock', library: redisson, lease: 30s}}\n    wanted: {{hash: \
         'outbound:users'}}\n    max_hold: 1h\n    \
         paused_until: {{key: 'outbound:pause'}}\n    \
         progress: {{hash: 'outbound:stats', field: last_run, stale_after: 5m}}\n    labels: \
         {{{OF_TASK}}}\n",
        server.address()
    )
}

/// The available series: the exposition of a real agent, those for several servers, and Prometheus'
/// own.
fn of_page(page: &Exposition) -> Catalogue {
    let several = published(vec![], vec![sentinel_redis("main"), cluster_redis("spare")]);
    let plain = Variant { format: Format::Classic, coding: Coding::Identity };
    let several =
        Exposition::parse(&String::from_utf8(make(&several, snapshots::OWN, plain)).unwrap())
            .unwrap();
    let mut catalogue = Catalogue::new();
    let more = several.names().filter(|(name, _)| OF_SEVERAL_SERVERS.contains(name));
    for (name, labels) in page.names().chain(more) {
        catalogue
            .entry(name.to_owned())
            .or_default()
            .extend(labels.keys().cloned().chain(of_targets()));
    }
    catalogue.extend(OWN.map(|name| (name.to_owned(), of_targets().collect())));
    catalogue
}

fn of_targets() -> impl Iterator<Item = String> {
    OF_TARGETS.into_iter().map(str::to_owned)
}

/// What the rules read that does not exist: a series, or a label that none of the rule's series
/// has.
fn mistakes(rules: &Rules, page: &Catalogue) -> Vec<String> {
    let mut catalogue = page.clone();
    // A record can have any label of what it reads, its own previous value included.
    let records: Vec<&Rule> = rules.all().filter(|rule| rule.record.is_some()).collect();
    for record in &records {
        catalogue.entry(record.name().to_owned()).or_default();
    }
    for _ in 0..records.len() {
        for record in &records {
            let labels = labels_of(&record.expr, &catalogue);
            catalogue.entry(record.name().to_owned()).or_default().extend(labels);
        }
    }
    let alerts: BTreeSet<String> =
        catalogue.values().flatten().cloned().chain(OF_ALERTS.map(str::to_owned)).collect();
    catalogue.insert("ALERTS".to_owned(), alerts);
    rules.all().flat_map(|rule| of_rule(rule, &catalogue)).collect()
}

fn of_rule(rule: &Rule, catalogue: &Catalogue) -> Vec<String> {
    let mut mistakes = Vec::new();
    let queries = rule.annotations.values().flat_map(|text| queries(text));
    for expr in queries.chain([rule.expr.clone()]) {
        let reads = promql::reads(&expr);
        for (series, matched) in &reads.series {
            let Some(labels) = catalogue.get(series) else {
                mistakes.push(format!("{}: there is no series {series}", rule.name()));
                continue;
            };
            let strange = matched.iter().filter(|label| !labels.contains(*label));
            mistakes.extend(
                strange.map(|label| format!("{}: {series} has no label {label}", rule.name())),
            );
        }
        let known = labels_of(&expr, catalogue);
        let strange = reads.labels.iter().filter(|label| !known.contains(*label));
        mistakes
            .extend(strange.map(|label| {
                format!("{}: nothing that it reads has a label {label}", rule.name())
            }));
    }
    mistakes
}

/// The labels of all series that an expression reads.
fn labels_of(expr: &str, catalogue: &Catalogue) -> BTreeSet<String> {
    let series = promql::reads(expr).series.into_iter();
    series.filter_map(|(name, _)| catalogue.get(&name)).flatten().cloned().collect()
}

/// The queries in an annotation's template: `query (printf "…" …)`.
fn queries(template: &str) -> Vec<String> {
    let asked = template.split("query (printf \"").skip(1);
    asked.map(|rest| rest.split('"').next().unwrap().replace("%q", "\"\"")).collect()
}
