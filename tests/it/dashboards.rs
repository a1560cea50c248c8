//! Static checks of the dashboards: structure, links, variables, and that every queried series
//! exists.

pub(crate) mod board;
mod catalogue;
mod checks;
mod promql;
mod schema;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use lockwatch::outputs::metrics::TABLE;
use serde_json::Value;

use crate::support::skip;
use board::{Board, string};
use catalogue::rules;
use checks::{mistakes, of_link, urls};
use promql::selectors;

#[test]
fn dashboards_are_sound() {
    assert_eq!(mistakes(&board::all()), "");
}

/// A drill is no task, and no trouble.
#[test]
fn no_query_shows_a_drill() {
    const OF_DRILLS: [&str; 4] =
        ["lockwatch_task_clear{", "lockwatch:problem_seconds{", "ALERTS{", "ALERTS_FOR_STATE{"];
    let mut found = 0;
    for name in ["overview", "task", "agent"] {
        let text = fs::read_to_string(format!("dashboards/lockwatch-{name}.json")).unwrap();
        for series in OF_DRILLS {
            for query in text.split(series).skip(1) {
                let matchers = query.split('}').next().unwrap();
                assert!(matchers.contains(r#"drill=\"\""#), "{name}: {series}{matchers}}}");
                found += 1;
            }
        }
    }
    assert!(found > 20, "found {found}");
}

/// Each check can fail: one error in one dashboard gives the expected message.
#[test]
fn each_mistake_is_found() {
    let cases = [
        (
            "lockwatch-task",
            r#""uid": "lockwatch-task""#,
            r#""uid": "other""#,
            "uid is not that of its file",
        ),
        ("lockwatch-task", r#""schemaVersion": 42"#, r#""schemaVersion": 40"#, "schemaVersion"),
        ("lockwatch-task", r#""editable": false"#, r#""id": 7"#, "id must not be there"),
        ("lockwatch-task", r#""title": "Renewals""#, r#""title": """#, "has no title"),
        ("lockwatch-task", r#""title": "Renewals""#, r#""title": "TTL""#, "TTL: its title"),
        (
            "lockwatch-task",
            r#""description": "Renewals per"#,
            r#""text": "Renewals per"#,
            "has no description",
        ),
        ("lockwatch-task", r#""unit": "cps""#, r#""unit": "reqs""#, "unit reqs"),
        ("lockwatch-task", r#""type": "heatmap""#, r#""type": "graph""#, "type graph"),
        ("lockwatch-task", r#""uid": "${datasource}""#, r#""uid": "prometheus""#, "datasource"),
        ("lockwatch-task", r#""x": 20"#, r#""x": 21"#, "outside"),
        ("lockwatch-overview", r#""x": 4"#, r#""x": 3"#, "overlaps"),
        (
            "lockwatch-task",
            "lockwatch_task_handovers_total",
            "lockwatch_task_phantom_holds_total",
            "Handovers and splits: needs metrics: full",
        ),
        (
            "lockwatch-task",
            "lockwatch_lock_fencing_token",
            "lockwatch_lock_waiters",
            "Fencing token: does not need metrics: full",
        ),
        (
            "lockwatch-task",
            r#"\nmetrics: full "#,
            r#"\nmetrics: all "#,
            "does not say how to switch on",
        ),
        (
            "lockwatch-task",
            "lockwatch_lock_ttl_seconds",
            "lockwatch_lock_ttl",
            "lockwatch_lock_ttl is no metric",
        ),
        (
            "lockwatch-task",
            "availability:ratio30d",
            "availability:ratio60d",
            "ratio60d is no metric",
        ),
        ("lockwatch-task", "max by (kind, ", "max by (sort, ", "label sort"),
        (
            "lockwatch-task",
            r#""legendFormat": "{{kind}}""#,
            r#""legendFormat": "{{sort}}""#,
            "sort is no label",
        ),
        ("lockwatch-task", r#"store=\"$store\""#, r#"store=\"$server\""#, "$server is not defined"),
        ("lockwatch-task", r#"task=\"$task\""#, r#"task=~\"$task\""#, "is compared by =~"),
        ("lockwatch-agent", r#"store=~\"$store\""#, r#"store=\"$store\""#, "is compared by ="),
        ("lockwatch-task", "increase(lockwatch_lock_acq", "max(lockwatch_lock_acq", "counter"),
        (
            "lockwatch-agent",
            "series_added{",
            "series_dropped{",
            "scrape_series_dropped is no metric",
        ),
        ("lockwatch-agent", "time() - max by", "time() - sum by", "adds up agents"),
        (
            "lockwatch-overview",
            "sum(max by (task, store, cluster, namespace, env) (",
            "sum((",
            "adds up agents",
        ),
        (
            "lockwatch-task",
            "max by (task, store, cluster, namespace, env) (lockwatch_lock_renewal_period",
            "(lockwatch_lock_renewal_period",
            "each agent",
        ),
        ("lockwatch-overview", "topk by (task, store, cluster", "topk by (task, store", "sites"),
        ("lockwatch-task", "[$__rate_interval]", "[5m]", "window"),
        (
            "lockwatch-overview",
            "/d/lockwatch-task?",
            "/d/lockwatch-job?",
            "no dashboard lockwatch-job",
        ),
        (
            "lockwatch-overview",
            "agent?${datasource:queryparam}",
            "agent?${task:queryparam}",
            "lockwatch-agent has no variable task",
        ),
        ("lockwatch-overview", "&var-store=", "&var-server=", "has no variable server"),
        ("lockwatch-overview", r#""Value #C","#, r#""Value #Q","#, "Value #Q"),
        ("lockwatch-overview", "${__data.fields.task:", "${__data.fields.job:", "no column job"),
        ("lockwatch-overview", r#""text": "stalled""#, r#""text": "stuck""#, "stalled"),
        ("lockwatch-agent", r#""text": "down""#, r#""text": "up""#, "mapping"),
        ("lockwatch-task", r#""options": "lease""#, r#""options": "mercy""#, "mercy"),
        ("lockwatch-agent", r#""name": "store""#, r#""name": "server""#, "server: is not used"),
        ("lockwatch-task", r#""refresh": 2"#, r#""refresh": 0"#, "refresh"),
    ];
    for (uid, right, wrong, said) in cases {
        let original = board::text(uid);
        assert!(original.contains(right), "{uid} has no {right}");
        let other = |name: &&str| {
            if *name == uid { original.replacen(right, wrong, 1) } else { board::text(name) }
        };
        let boards: Vec<Board> =
            board::UIDS.iter().map(|name| Board::parse(&other(name))).collect();
        let mistakes = mistakes(&boards);
        assert!(mistakes.contains(said), "{right} -> {wrong}: expected {said:?}, got {mistakes:?}");
    }
}

/// Nobody pays for a series that nobody reads: each that an agent exports by default is read by a
/// panel, an annotation, a variable or a rule, or by the text of an alert.
#[test]
fn every_default_metric_is_used() {
    let expressions = board::all().iter().flat_map(Board::expressions).collect::<Vec<_>>();
    let of_boards = expressions.iter().flat_map(|expr| selectors(expr)).map(|it| it.metric);
    let texts = rules();
    let texts = texts.iter().filter_map(|rule| Some(rule.get("annotations")?.to_string()));
    let of_texts: BTreeSet<String> = texts.flat_map(|text| names_in_rule(&text)).collect();
    let of_rules = rules().iter().flat_map(|rule| names_in_rule(string(rule, "expr"))).collect();
    let (of_boards, of_rules): (BTreeSet<String>, BTreeSet<String>) =
        (of_boards.collect(), of_rules);
    assert_eq!(unused_but_for(&(&(&of_boards | &of_rules) | &of_texts)), [""; 0]);
    // All count.
    let of_text = "lockwatch_task_failed_run_timestamp_seconds";
    assert!(!of_boards.contains(of_text) && !of_rules.contains(of_text));
    assert!(unused_but_for(&of_boards).contains(&"lockwatch_task_event_age_seconds"));
    assert!(unused_but_for(&of_rules).contains(&"lockwatch_lock_waiters"));
}

/// The default metrics that are not among these.
fn unused_but_for(used: &BTreeSet<String>) -> Vec<&'static str> {
    let is_unused = |name: &&str| {
        ["", "_bucket", "_count"].iter().all(|suffix| !used.contains(&format!("{name}{suffix}")))
    };
    let default = TABLE.iter().filter(|metric| !metric.is_full()).map(|metric| metric.name);
    default.filter(is_unused).collect()
}

/// The words of a rule's expression, and of each metric that a pattern of names stands for.
fn names_in_rule(expr: &str) -> Vec<String> {
    let words = expr.split(|sign: char| !sign.is_ascii_alphanumeric() && !"_:".contains(sign));
    let patterns = expr.split("__name__=~\"").skip(1).filter_map(|rest| rest.split('"').next());
    let patterns: Vec<_> = patterns
        .map(|pattern| regex_lite::Regex::new(&format!("^(?:{pattern})$")).expect("pattern"))
        .collect();
    let named = TABLE.iter().map(|metric| metric.name);
    let named = named.filter(|name| patterns.iter().any(|pattern| pattern.is_match(name)));
    words.chain(named).map(str::to_owned).collect()
}

/// Alerts link to the dashboards, and the dashboards to the runbooks.
#[test]
fn alerts_and_dashboards_know_each_other() {
    let (boards, rules) = (board::all(), rules());
    let links: Vec<&str> =
        rules.iter().filter_map(|rule| rule.pointer("/annotations/dashboard")?.as_str()).collect();
    // Behind the address of Grafana.
    let path = |link: &str| link.find("/d/").expect("a path");
    let links: Vec<&str> = links.iter().map(|link| &link[path(link)..]).collect();
    assert!(links.len() > 20, "{links:?}");
    let mistakes: Vec<String> = links.iter().flat_map(|link| of_link(link, &boards)).collect();
    assert!(mistakes.is_empty(), "{mistakes:?}");
    let ours = boards
        .iter()
        .flat_map(|board| urls(&board.json))
        .find(|url| *url == "${runbooks}/${__data.fields.alertname}");
    assert!(ours.is_some());
}

/// promtool checks the grammar: every expression must be valid in a rule.
#[test]
fn every_expression_is_promql() {
    if !skip::has("dashboards::every_expression_is_promql", &["promtool"]) {
        return;
    }
    let expressions = board::all().iter().flat_map(Board::expressions).collect::<BTreeSet<_>>();
    let mut rules = "groups: [{name: dashboards, rules: [\n".to_owned();
    for (index, expression) in expressions.iter().enumerate() {
        let expression = expression.replace("$__rate_interval", "1m").replace("$__range", "1h");
        writeln!(rules, "{{record: 'expression:{index}', expr: {}}},", Value::from(expression))
            .expect("text");
    }
    rules.push_str("]}]\n");
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("rules.yml");
    fs::write(&file, rules).expect("rules");
    let output =
        Command::new("promtool").args(["check", "rules"]).arg(&file).output().expect("promtool");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// The JSON in the repository is what the sources generate.
#[test]
fn dashboards_are_built_from_their_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/dashboards/bin/python");
    if !python.is_file() {
        skip::say(
            "dashboards::dashboards_are_built_from_their_source",
            "Grafana's SDK; run scripts/setup test",
        );
        return;
    }
    let built = tempfile::tempdir().expect("folder");
    let build = root.join("dashboards/source/build.py");
    let output =
        Command::new(python).arg("-B").arg(build).arg(built.path()).output().expect("python");
    assert!(output.status.success(), "{}", text(&output.stderr));
    for uid in board::UIDS {
        let now = fs::read_to_string(built.path().join(format!("{uid}.json"))).expect("built");
        assert!(
            now == board::text(uid),
            "dashboards/{uid}.json is not what its source gives: run make dashboards"
        );
    }
}

/// The provisioning samples name the folders and data sources that the dashboards use.
#[test]
fn provisioning_is_sound() {
    let read = |file: &str| {
        let text = fs::read_to_string(board::folder().join("provisioning").join(file)).expect(file);
        serde_yaml::from_str::<Value>(&text).expect(file)
    };
    let (providers, sources) =
        (read("dashboards/lockwatch.yaml"), read("datasources/lockwatch.yaml"));
    assert_eq!(providers["apiVersion"], 1);
    let provider = &providers["providers"][0];
    assert_eq!(
        (&provider["type"], &provider["options"]["foldersFromFilesStructure"]),
        (&"file".into(), &false.into())
    );
    assert_eq!(sources["apiVersion"], 1);
    let source = &sources["datasources"][0];
    assert_eq!(source["type"], "prometheus");
    assert!(!string(source, "uid").is_empty());
    // `$__rate_interval` is derived from it.
    assert!(string(&source["jsonData"], "timeInterval").ends_with('s'));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
