//! Labels, links and series of the rules: what they promise to users, and what they need from the
//! agent.

use crate::support::PATIENCE;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use lockwatch::config::{AGENT_LABELS, SITE_LABELS};
use lockwatch::outputs::metrics::TABLE as METRICS;

use lockwatch_judge::problems::{Memory, rows};

use super::{RULES, Rule, Rules, WATCHDOG, promql, test_file};
use crate::support::agent::Agent;
use crate::support::exposition::Exposition;
use crate::support::redis::RedisServer;

/// Labels that the rules make.
const MADE: [&str; 3] = ["agent", "generation", "of"];
const OF_ALERTS: [&str; 3] = ["alertname", "alertstate", "severity"];
/// Series that Prometheus itself generates.
const OWN: [&str; 2] = ["up", "ALERTS"];
/// Optional fields of the task in `config`, which become labels.
const OF_TASK: &str = "severity: critical, standby: required, team: logistics";
/// Metrics of trouble and of other kinds of tasks, which these tests do not bring about.
const OF_TROUBLE: [&str; 11] = [
    "lockwatch_store_problem_seconds",
    "lockwatch_store_event_age_seconds",
    "lockwatch_store_refuses_writes",
    "lockwatch_turn_holder",
    "lockwatch_queue_due",
    "lockwatch_task_split_holder",
    "lockwatch_task_failed_run_timestamp_seconds",
    "lockwatch_task_run_due_timestamp_seconds",
    "lockwatch_task_run_every_seconds",
    "lockwatch_task_run_late_after_seconds",
    "lockwatch_task_run_watched_seconds",
];
/// Where it is, in each summary: the labels of the alert, or else those that Prometheus adds.
const SITE: &str = "{{ range args (or $labels.cluster $externalLabels.cluster) (or \
    $labels.namespace $externalLabels.namespace) (or $labels.env $externalLabels.env) }}\
    {{ with . }}, {{ . }}{{ end }}{{ end }}";
const NAME_MAX: usize = 40;
/// The rules of a group are evaluated one after the other, and hosted rulers take at most 20.
const GROUP_MAX: usize = 20;
/// What people can read: lines of the file for each alert, and recording rules that are not of
/// availability.
const LINES_MAX: usize = 14;
const RECORDS_MAX: usize = 16;

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
        if rule.expr != "vector(1)" {
            texts_for_somebody_who_was_asleep(name, rule);
        }
        let severity = rule.labels.get("severity").map(String::as_str);
        // Problems bring their severity.
        let own = rule.expr.contains("lockwatch:problem_seconds");
        assert!(
            matches!(severity, Some("critical" | "warning" | "none")) || own && severity.is_none(),
            "{name}"
        );
        assert!(test_file(name).is_file(), "{name} has no unit test");
    }
}

/// The summary says what and where; the description says since when and what to do first; and
/// whatever these and the links ask for is of the alert's own site.
fn texts_for_somebody_who_was_asleep(name: &str, rule: &Rule) {
    let [summary, description] = ["summary", "description"].map(|text| &rule.annotations[text]);
    let (place, what) = summary.split_once(&format!("{SITE}: ")).expect(name);
    // It may choose between words, and shows no values.
    let shows_values = what.split("{{").skip(1).any(|part| {
        let part = part.trim_start();
        !["if ", "else ", "end "].iter().any(|word| part.starts_with(word))
    });
    assert!(place.contains("$labels.") && what.ends_with('.') && !shows_values, "{name}");
    let subject = ["Task {{", "Store {{", "Agent {{", "Agents of "];
    let subject = subject.into_iter().find(|subject| place.contains(subject)).expect(name);
    if subject == "Task {{" && rule.expr.starts_with("lockwatch:problem_seconds") {
        assert!(place.contains("store {{ $labels.store }}"), "{name}: {summary}");
    }
    let when = ["{{ $value | humanizeDuration }}", "humanizeTimestamp", "minutes"];
    assert!(when.iter().any(|when| description.contains(when)), "{name}: {description}");
    assert!(description.contains(" First ") && description.ends_with(['.', '}']), "{name}");
    for text in rule.annotations.values() {
        for query in text.split("query (printf \"").skip(1) {
            let (query, of) = query.split_once("\" $labels.").expect(name);
            let of = of.split(')').next().unwrap_or_default();
            for label in SITE_LABELS {
                assert!(query.contains(&format!("{label}=%q")), "{name}: {query}");
                assert!(
                    of.contains(&format!("$labels.{label}")) || of.starts_with(label),
                    "{name}"
                );
            }
        }
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
            (2..=3).contains(&parts.len()) && parts.iter().all(is_part),
            "{name} is not level:metric:operations"
        );
        let read =
            rules.all().any(|rule| rule.name() != name && promql::mentions(&rule.expr, name));
        let is_of_commands = name == "lockwatch:rules_info";
        let read = read || is_of_commands || promql::mentions(&boards, name);
        assert!(read, "{name} is used nowhere");
    }
}

#[test]
fn the_rules_can_be_read_on_a_few_screens() {
    let text = fs::read_to_string(RULES).unwrap();
    let (alerts, _availability) = text.split_once("\n\n  # Availability").unwrap();
    let (rules, lines) = (Rules::load(), alerts.lines().count());
    assert!(lines <= LINES_MAX * rules.alerts().count(), "{RULES} has {lines} lines");
    let groups = rules.groups.iter().filter(|group| group.name != "lockwatch.availability");
    let records = groups.flat_map(|group| &group.rules).filter(|rule| rule.record.is_some());
    assert!(records.count() <= RECORDS_MAX);
}

/// What tells agents apart is dropped by the same list everywhere.
#[test]
fn one_list_says_what_tells_agents_apart() {
    let rules = Rules::load();
    let mut lists = BTreeSet::new();
    for rule in rules.all() {
        for list in ["without (instance", "ignoring (instance"] {
            let found = rule.expr.split(list).skip(1);
            lists.extend(found.map(|rest| rest.split(')').next().unwrap().to_owned()));
        }
    }
    let expected = |left_out: &[&str]| {
        let kept = AGENT_LABELS[1..].iter().filter(|label| !left_out.contains(label));
        kept.map(|label| format!(", {label}")).collect::<String>()
    };
    // An alert about a job names it; agents of one job may watch other tasks for a while.
    let allowed = [expected(&[]), expected(&["job"]), expected(&["job"]) + ", tasks"];
    let strange: Vec<&String> = lists.iter().filter(|list| !allowed.contains(list)).collect();
    assert!(strange.is_empty(), "{strange:#?}");
}

/// The comment above each alert says what the table of problems says.
#[test]
fn each_alert_says_what_is_true_and_what_ends_it() {
    let text: String = [RULES, WATCHDOG].map(|file| fs::read_to_string(file).unwrap()).concat();
    let rules = Rules::load();
    for (name, rule) in rules.alerts() {
        let (before, _) = text.split_once(&format!("      - alert: {name}\n")).unwrap();
        let lines = before.lines().rev().map_while(|line| line.strip_prefix("      # "));
        let lines: Vec<&str> = lines.collect();
        let comment = lines.into_iter().rev().collect::<Vec<_>>().join(" ");
        let Some(row) = rows().find(|row| row.alert == name) else {
            assert!(comment.contains(". Ends ") || comment.contains(". Never "), "{name}");
            continue;
        };
        let end = match (row.memory, &rule.keep_firing_for) {
            (Memory::Event(ms), _) => format!("Fires for {} minutes.", ms / 60_000),
            (Memory::UntilNegative | Memory::UntilNegativeOfAll, _) => {
                format!("Until: {}", row.negative)
            }
            (Memory::Nothing, keep) => {
                let minutes = keep.as_deref().unwrap().trim_end_matches('m').to_owned();
                format!("Ends {minutes} minutes after that is over.")
            }
        };
        assert_eq!(comment, format!("{} {end}", row.positive), "{name}");
        let problem = format!("problem=\"{}\"", row.problem.name());
        assert!(rule.expr.contains(&problem), "{name} does not read {problem}");
        // `keep_firing_for` is for what nobody remembers.
        assert_eq!(rule.keep_firing_for.is_some(), row.memory == Memory::Nothing, "{name}");
    }
}

#[test]
fn each_problem_has_its_alert() {
    let rules = Rules::load();
    for row in rows() {
        assert!(rules.alerts().any(|(name, _)| name == row.alert), "{}", row.alert);
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
    let agent = Agent::start(&(config(&server) + "\nmetrics: lean\ndrill: true\n"));
    let drill = r#"{"task": "outbound", "seconds": 900}"#;
    assert_eq!(agent.post_json("/api/v1/drill", "", drill).status, 201);
    agent.until(PATIENCE, "the free lock is seen", |page| {
        page.of("outbound", "lock_held") == Some(0.0)
    });
    let hold =
        || server.cli(&["hset", "outbound:lock", "6e1f3a52-90f4-4d0e-8d2a-0d4f3c1b2a00:57", "1"]);
    hold();
    server.cli(&["hset", "outbound:users", "anna", "1"]);
    // Its lease is seen, and ends, which is an event.
    server.cli(&["pexpire", "outbound:lock", "3000"]);
    agent.until(PATIENCE, "the lease is seen", |page| {
        page.of("outbound", "lock_ttl_seconds").is_some_and(f64::is_finite)
    });
    agent.until(PATIENCE, "it ended", |page| page.of("outbound", "lock_held") == Some(0.0));
    let mut round = 0;
    let (mut missing, mut catalogue) = (Vec::new(), Catalogue::new());
    agent.until(PATIENCE, "every series that the rules read", |page| {
        round += 1;
        hold();
        server.cli(&["hset", "outbound:stats", "last_run", &round.to_string()]);
        // Problems come and go.
        for (name, labels) in of_page(page) {
            catalogue.entry(name).or_default().extend(labels);
        }
        missing = mistakes(&rules, &catalogue);
        missing.is_empty() || round > 200
    });
    assert!(missing.is_empty(), "{}", missing.join("\n"));

    // A renamed series would be missing from the catalogue.
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
         labels: [severity, standby, team]\nlinks: {{grafana: 'https://grafana.example', lockwatch: \
         'https://lockwatch.example'}}\ntasks:\n  - name: outbound\n    \
         lock: {{key: 'outbound:lock', library: redisson, lease: 30s}}\n    wanted: {{hash: \
         'outbound:users'}}\n    max_hold: 1h\n    \
         paused_until: {{key: 'outbound:pause'}}\n    \
         progress: {{hash: 'outbound:stats', field: last_run, stale_after: 5m}}\n    labels: \
         {{{OF_TASK}}}\n",
        server.address()
    )
}

/// The available series: the exposition of a real agent, those of a store in trouble, and
/// Prometheus' own. A label that a target has too may be there as `exported_…`.
fn of_page(page: &Exposition) -> Catalogue {
    let mut catalogue = Catalogue::new();
    for metric in METRICS.iter().filter(|metric| OF_TROUBLE.contains(&metric.name)) {
        let labels = metric.labels().into_iter().map(str::to_owned).flat_map(|label| both(&label));
        catalogue.insert(metric.name.to_owned(), labels.chain(of_targets()).collect());
    }
    for (name, labels) in page.names() {
        catalogue
            .entry(name.to_owned())
            .or_default()
            .extend(labels.keys().flat_map(both).chain(of_targets()));
    }
    catalogue.extend(OWN.map(|name| (name.to_owned(), of_targets().collect())));
    catalogue
}

fn both(label: &String) -> [String; 2] {
    [label.clone(), format!("exported_{label}")]
}

fn of_targets() -> impl Iterator<Item = String> {
    AGENT_LABELS.into_iter().chain(SITE_LABELS).map(str::to_owned)
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
            let made = MADE.into_iter().filter(|made| record.expr.contains(&format!("{made:?},")));
            let labels = labels.into_iter().chain(made.map(str::to_owned));
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
            // Stores have no drills, and those of tasks are left out together with none of theirs.
            let is_of_tasks = |label: &str| label == "drill" && series.contains("_store_");
            let strange = matched.iter().filter(|label| !labels.contains(*label));
            let strange = strange.filter(|label| !is_of_tasks(label));
            mistakes.extend(
                strange.map(|label| format!("{}: {series} has no label {label}", rule.name())),
            );
        }
        let mut known = labels_of(&expr, catalogue);
        known.extend(MADE.map(str::to_owned));
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
