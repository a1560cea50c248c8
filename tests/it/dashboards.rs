//! The dashboards, judged without a Grafana: shape, links, variables, and that every query asks for what there is.

pub(crate) mod board;
mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use lockwatch::output::metrics::TABLE;
use lockwatch_model::verdict::Verdict;
use serde_json::Value;

use crate::support::skip;
use board::{Board, columns, label_values, labels_in, list, queries_of, string, texts_of};
use promql::{Selector, selectors};

/// Units of Grafana that we use.
const UNITS: [&str; 9] = ["none", "short", "s", "percentunit", "bytes", "cps", "ops", "dateTimeFromNow", "string"];
/// Panels that every Grafana from 10 on has; `graph`, `singlestat` and `table-old` are gone.
const PANELS: [&str; 6] = ["stat", "timeseries", "state-timeline", "table", "bargauge", "heatmap"];
/// What Grafana itself replaces.
const BUILT_IN: [&str; 6] =
    ["__rate_interval", "__range", "__interval", "__url_time_range", "__data.fields.*", "__field.labels.*"];
/// Labels that every target may have.
const OF_TARGETS: [&str; 2] = ["job", "instance"];
/// Metrics that are states, to be shown as words. A state of a task is a number that the query makes.
const STATES: [&str; 7] = [
    "lockwatch_task_state",
    "lockwatch_task_wanted",
    "lockwatch_task_paused",
    "lockwatch_lock_held",
    "lockwatch_redis_up",
    "lockwatch_redis_role_verified",
    "lockwatch_config_last_reload_successful",
];
/// Functions for counters.
const RATES: [&str; 2] = ["rate", "increase"];

/// Metrics that no dashboard shows: for alerts, or of no use to people.
const NOT_SHOWN: [&str; 4] = [
    "lockwatch_task_switch_key_seen",
    "lockwatch_lock_acquired_timestamp_seconds",
    "lockwatch_lock_persistent",
    "process_virtual_memory_bytes",
];

/// What there is to ask for.
struct Known {
    is_counter: bool,
    labels: Vec<String>,
}

type Catalogue = BTreeMap<String, Known>;

#[test]
fn dashboards_are_sound() {
    assert_eq!(mistakes(&board::all()), "");
}

/// Each rule can fail: one wrong word in one dashboard, and what must be said about it.
#[test]
fn each_mistake_is_found() {
    let cases = [
        ("lockwatch-task", r#""uid": "lockwatch-task""#, r#""uid": "other""#, "uid is not that of its file"),
        ("lockwatch-task", r#""schemaVersion": 42"#, r#""schemaVersion": 40"#, "schemaVersion"),
        ("lockwatch-task", r#""editable": false"#, r#""id": 7"#, "id must not be there"),
        ("lockwatch-task", r#""title": "Renewals""#, r#""title": """#, "has no title"),
        ("lockwatch-task", r#""title": "Renewals""#, r#""title": "Gap""#, "Gap: its title"),
        ("lockwatch-task", r#""description": "Renewals per"#, r#""text": "Renewals per"#, "has no description"),
        ("lockwatch-task", r#""unit": "cps""#, r#""unit": "reqs""#, "unit reqs"),
        ("lockwatch-task", r#""type": "heatmap""#, r#""type": "graph""#, "type graph"),
        ("lockwatch-task", r#""uid": "${datasource}""#, r#""uid": "prometheus""#, "datasource"),
        ("lockwatch-task", r#""x": 20"#, r#""x": 21"#, "outside"),
        ("lockwatch-overview", r#""x": 4"#, r#""x": 3"#, "overlaps"),
        ("lockwatch-task", "lockwatch_lock_ttl_seconds", "lockwatch_lock_ttl", "lockwatch_lock_ttl is no metric"),
        ("lockwatch-task", "availability:ratio30d", "availability:ratio60d", "ratio60d is no metric"),
        ("lockwatch-task", "by (task, redis, kind)", "by (task, redis, sort)", "label sort"),
        ("lockwatch-task", r#""legendFormat": "{{kind}}""#, r#""legendFormat": "{{sort}}""#, "{{sort}}"),
        ("lockwatch-task", r#"redis=\"$redis\""#, r#"redis=\"$server\""#, "$server is not defined"),
        ("lockwatch-task", "increase(lockwatch_lock_acq", "max(lockwatch_lock_acq", "counter"),
        ("lockwatch-agent", "series_added{", "series_dropped{", "scrape_series_dropped is no metric"),
        ("lockwatch-agent", "time() - max by", "time() - sum by", "adds up agents"),
        ("lockwatch-overview", "sum(max by (task, redis) (", "sum((", "adds up agents"),
        ("lockwatch-task", "max by (task, redis) (lockwatch_task_grace", "(lockwatch_task_grace", "each agent"),
        ("lockwatch-task", "[$__rate_interval]", "[5m]", "window"),
        ("lockwatch-overview", "/d/lockwatch-task?", "/d/lockwatch-job?", "no dashboard lockwatch-job"),
        ("lockwatch-overview", "&var-redis=", "&var-server=", "has no variable server"),
        ("lockwatch-overview", r#""Value #C","#, r#""Value #Q","#, "Value #Q"),
        ("lockwatch-overview", "${__data.fields.task:", "${__data.fields.job:", "no column job"),
        ("lockwatch-overview", r#""text": "stalled""#, r#""text": "stuck""#, "stalled"),
        ("lockwatch-agent", r#""text": "down""#, r#""text": "up""#, "mapping"),
        ("lockwatch-task", r#""options": "grace""#, r#""options": "mercy""#, "mercy"),
        ("lockwatch-task", r#""refresh": 2"#, r#""refresh": 0"#, "refresh"),
    ];
    for (uid, right, wrong, said) in cases {
        let original = board::text(uid);
        assert!(original.contains(right), "{uid} has no {right}");
        let other = |name: &&str| if *name == uid { original.replacen(right, wrong, 1) } else { board::text(name) };
        let boards: Vec<Board> = board::UIDS.iter().map(|name| Board::parse(&other(name))).collect();
        let mistakes = mistakes(&boards);
        assert!(mistakes.contains(said), "{right} -> {wrong}: expected {said:?}, got {mistakes:?}");
    }
}

/// What a metric is called is written in one place only; here it is renamed in the agent instead of the dashboard.
#[test]
fn a_renamed_metric_is_missed_by_some_dashboard() {
    let missed = |name: &str| {
        let mut catalogue = catalogue();
        catalogue.remove(name);
        !of_each(&board::all(), |board| of_queries(board, &catalogue)).is_empty()
    };
    let is_unused = |name: &&str| ["", "_bucket", "_count"].iter().all(|suffix| !missed(&format!("{name}{suffix}")));
    let unused: Vec<&str> = TABLE.iter().map(|metric| metric.name).filter(is_unused).collect();
    assert_eq!(unused, NOT_SHOWN);
}

/// promtool knows the grammar: every expression must do as one of a rule.
#[test]
fn every_expression_is_promql() {
    if !skip::has("dashboards::every_expression_is_promql", &["promtool"]) {
        return;
    }
    let expressions = board::all().iter().flat_map(Board::expressions).collect::<BTreeSet<_>>();
    let mut rules = "groups: [{name: dashboards, rules: [\n".to_owned();
    for (index, expression) in expressions.iter().enumerate() {
        let expression = expression.replace("$__rate_interval", "1m").replace("$__range", "1h");
        writeln!(rules, "{{record: 'expression:{index}', expr: {}}},", Value::from(expression)).expect("text");
    }
    rules.push_str("]}]\n");
    let folder = tempfile::tempdir().expect("folder");
    let file = folder.path().join("rules.yml");
    fs::write(&file, rules).expect("rules");
    let output = Command::new("promtool").args(["check", "rules"]).arg(&file).output().expect("promtool");
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

/// What lies in the repository is what its source gives.
#[test]
fn dashboards_are_built_from_their_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/dashboards/bin/python");
    if !python.is_file() {
        skip::say("dashboards::dashboards_are_built_from_their_source", "Grafana's SDK; run scripts/setup test");
        return;
    }
    let built = tempfile::tempdir().expect("folder");
    let build = root.join("dashboards/source/build.py");
    let output = Command::new(python).arg("-B").arg(build).arg(built.path()).output().expect("python");
    assert!(output.status.success(), "{}", text(&output.stderr));
    for uid in board::UIDS {
        let now = fs::read_to_string(built.path().join(format!("{uid}.json"))).expect("built");
        assert!(now == board::text(uid), "dashboards/{uid}.json is not what its source gives: run make dashboards");
    }
}

/// The samples for provisioning name folders and data sources as the dashboards need them.
#[test]
fn provisioning_is_sound() {
    let read = |file: &str| {
        let text = fs::read_to_string(board::folder().join("provisioning").join(file)).expect(file);
        serde_yaml::from_str::<Value>(&text).expect(file)
    };
    let (providers, sources) = (read("dashboards/lockwatch.yaml"), read("datasources/lockwatch.yaml"));
    assert_eq!(providers["apiVersion"], 1);
    let provider = &providers["providers"][0];
    assert_eq!((&provider["type"], &provider["options"]["foldersFromFilesStructure"]), (&"file".into(), &false.into()));
    assert_eq!(sources["apiVersion"], 1);
    let source = &sources["datasources"][0];
    assert_eq!(source["type"], "prometheus");
    assert!(!string(source, "uid").is_empty());
    // $__rate_interval is made from it.
    assert!(string(&source["jsonData"], "timeInterval").ends_with('s'));
}

/// Everything that is wrong, a line each.
fn mistakes(boards: &[Board]) -> String {
    let catalogue = catalogue();
    let uids = boards.iter().zip(board::UIDS).filter(|(board, uid)| board.uid() != *uid);
    let mut lines: Vec<String> = uids.map(|(_, uid)| format!("{uid}: uid is not that of its file")).collect();
    lines.extend(of_each(boards, of_shape));
    lines.extend(of_each(boards, of_grid));
    lines.extend(of_each(boards, of_panels));
    lines.extend(of_each(boards, |board| of_queries(board, &catalogue)));
    lines.extend(of_each(boards, of_variables));
    lines.extend(of_each(boards, |board| of_links(board, boards)));
    lines.extend(of_each(boards, of_columns));
    lines.extend(of_each(boards, of_mappings));
    lines.join("\n")
}

fn of_each(boards: &[Board], check: impl Fn(&Board) -> Vec<String>) -> Vec<String> {
    let lines =
        |board: &Board| check(board).into_iter().map(|line| format!("{}: {line}", board.uid())).collect::<Vec<_>>();
    boards.iter().flat_map(lines).collect()
}

/// The top of a dashboard.
fn of_shape(board: &Board) -> Vec<String> {
    let json = &board.json;
    let mut lines = Vec::new();
    for field in ["id", "__inputs", "__requires"] {
        if json.get(field).is_some() {
            lines.push(format!("{field} must not be there"));
        }
    }
    for field in ["title", "description", "refresh"] {
        if string(json, field).is_empty() {
            lines.push(format!("has no {field}"));
        }
    }
    if !matches!(json["schemaVersion"].as_u64(), Some(41 | 42)) {
        lines.push("schemaVersion is not 41 or 42".into());
    }
    if !list(json, "/tags").any(|tag| tag == "lockwatch") {
        lines.push("is not tagged".into());
    }
    lines
}

/// Where the panels are, and that each is one.
fn of_grid(board: &Board) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen: Vec<(&str, [u64; 4])> = Vec::new();
    let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&board.json, "/panels") {
        let title = string(panel, "title");
        if !panel["id"].as_u64().is_some_and(|id| id > 0 && ids.insert(id)) {
            lines.push(format!("{title}: its id is not its own"));
        }
        if !titles.insert(title) {
            lines.push(format!("{title}: its title is not its own"));
        }
        let place = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap_or_default());
        let [x, y, w, h] = place;
        if w == 0 || h == 0 || x + w > 24 {
            lines.push(format!("{title}: is outside the grid"));
        }
        let overlap =
            seen.iter().find(|(_, [x2, y2, w2, h2])| x < x2 + w2 && *x2 < x + w && y < y2 + h2 && *y2 < y + h);
        if let Some((other, _)) = overlap {
            lines.push(format!("{title}: overlaps {other}"));
        }
        seen.push((title, place));
    }
    lines
}

fn of_panels(board: &Board) -> Vec<String> {
    let mut lines = Vec::new();
    let ours = serde_json::json!({"type": "prometheus", "uid": "${datasource}"});
    for panel in board.panels() {
        let title = string(panel, "title");
        for field in ["title", "description"] {
            if string(panel, field).is_empty() {
                lines.push(format!("{title}: has no {field}"));
            }
        }
        let kind = string(panel, "type");
        if !PANELS.contains(&kind) {
            lines.push(format!("{title}: is of type {kind}"));
        }
        let overrides = list(panel, "/fieldConfig/overrides").flat_map(|item| list(item, "/properties"));
        let units =
            overrides.filter(|property| property["id"] == "unit").filter_map(|property| property["value"].as_str());
        let default = panel.pointer("/fieldConfig/defaults/unit").and_then(Value::as_str);
        let unit =
            if kind == "heatmap" { panel.pointer("/options/yAxis/unit").and_then(Value::as_str) } else { default };
        for unit in units.chain([unit.unwrap_or_default()]).filter(|unit| !UNITS.contains(unit)) {
            lines.push(format!("{title}: has the unit {unit}"));
        }
        if list(panel, "/targets").len() == 0 {
            lines.push(format!("{title}: asks nothing"));
        }
        if panel["datasource"] != ours || list(panel, "/targets").any(|target| target["datasource"] != ours) {
            lines.push(format!("{title}: its datasource is not the variable"));
        }
        let legends: Vec<String> = queries_of(panel).into_iter().map(|query| query.legend).collect();
        for item in list(panel, "/fieldConfig/overrides") {
            let name = item.pointer("/matcher/options").and_then(Value::as_str).unwrap_or_default();
            if kind == "timeseries" && !legends.iter().any(|legend| legend == name) {
                lines.push(format!("{title}: there is no series {name} to override"));
            }
        }
    }
    for item in board.annotations().chain(board.variables()) {
        if item["type"] != "datasource" && item["datasource"] != ours {
            lines.push(format!("{}: its datasource is not the variable", string(item, "name")));
        }
    }
    lines
}

/// What the expressions ask for.
fn of_queries(board: &Board, catalogue: &Catalogue) -> Vec<String> {
    let mut lines = Vec::new();
    for query in board.queries() {
        let found = selectors(&query.expr);
        let mut complain = |line: String| lines.push(format!("{}, {}: {line}", query.panel, query.letter));
        let labels: Vec<String> = found.iter().flat_map(|selector| labels_of(selector, catalogue)).collect();
        for label in labels_in(&query.legend).into_iter().filter(|label| !labels.iter().any(|known| known == label)) {
            complain(format!("its legend {{{{{label}}}}} is no label of what it asks for"));
        }
        for selector in &found {
            of_selector(selector, catalogue).into_iter().for_each(&mut complain);
            let ours = selector.metric.starts_with("lockwatch_");
            match selector.aggregation().map(|call| call.name.as_str()) {
                None if ours && board.uid() != "lockwatch-agent" => {
                    complain(format!("{} shows each agent by itself", selector.metric));
                }
                Some(name) if ours && name != "max" && name != "min" => {
                    complain(format!("{name} over {} adds up agents", selector.metric));
                }
                _ => {}
            }
            of_window(selector, query.instant).into_iter().for_each(&mut complain);
        }
    }
    for annotation in board.annotations() {
        let found = selectors(string(annotation, "expr"));
        let lines_of = |selector: &Selector| [of_selector(selector, catalogue), of_window(selector, false)].concat();
        let complain = |line| format!("{}: {line}", string(annotation, "name"));
        lines.extend(found.iter().flat_map(lines_of).map(complain));
        let labels: Vec<String> = found.iter().flat_map(|selector| labels_of(selector, catalogue)).collect();
        let formats = ["titleFormat", "textFormat"].map(|field| string(annotation, field));
        let tags = string(annotation, "tagKeys").split(',').filter(|tag| !tag.is_empty());
        for label in formats
            .into_iter()
            .flat_map(labels_in)
            .chain(tags)
            .filter(|label| !labels.iter().any(|known| known == label))
        {
            lines.push(complain(format!("{label} is no label of what it asks for")));
        }
    }
    for (series, label) in board.variables().filter_map(label_values) {
        for selector in selectors(series) {
            lines.extend(of_selector(&selector, catalogue));
            if !labels_of(&selector, catalogue).iter().any(|known| known == label) {
                lines.push(format!("{series} has no label {label}"));
            }
        }
    }
    lines
}

fn of_selector(selector: &Selector, catalogue: &Catalogue) -> Vec<String> {
    let metric = &selector.metric;
    let Some(known) = catalogue.get(metric) else { return vec![format!("{metric} is no metric")] };
    let mut lines = Vec::new();
    let labels = labels_of(selector, catalogue);
    let named = selector.labels.iter().chain(selector.calls.iter().flat_map(|call| &call.by));
    for label in named.filter(|label| !labels.contains(label)) {
        lines.push(format!("{metric} has no label {label}"));
    }
    let is_rated = selector.is_inside(&RATES);
    if known.is_counter != is_rated {
        let what = if known.is_counter { "a counter without a rate" } else { "a gauge with a rate" };
        lines.push(format!("{metric} is {what}"));
    }
    lines
}

/// Over a time range the window follows Grafana's step, so that no sample is missed.
fn of_window(selector: &Selector, instant: bool) -> Vec<String> {
    let allowed: &[&str] = if instant { &["$__rate_interval", "$__range", "1d"] } else { &["$__rate_interval"] };
    let wrong = selector.window.iter().filter(|window| !allowed.contains(&window.as_str()));
    wrong.map(|window| format!("{} has the window {window}", selector.metric)).collect()
}

fn labels_of(selector: &Selector, catalogue: &Catalogue) -> Vec<String> {
    catalogue.get(&selector.metric).map(|known| known.labels.clone()).unwrap_or_default()
}

/// Every `$name` is there, and every variable keeps up with the time range.
fn of_variables(board: &Board) -> Vec<String> {
    let defined: Vec<&str> = board.variables().map(|variable| string(variable, "name")).collect();
    let mut lines = Vec::new();
    let text = board.json.to_string();
    for name in variables_in(&text) {
        let built_in = |known: &&str| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *known,
        };
        if name != "__all" && !BUILT_IN.iter().any(|known| built_in(&known)) && !defined.contains(&name) {
            lines.push(format!("${name} is not defined"));
        }
    }
    for name in ["datasource", "job", "redis"] {
        if !defined.contains(&name) {
            lines.push(format!("there is no variable {name}"));
        }
    }
    for variable in board.variables().filter(|variable| variable["type"] == "query") {
        if variable["refresh"] != 2 {
            lines.push(format!("{}: does not refresh with the time range", string(variable, "name")));
        }
    }
    lines
}

/// The names in `$name` and `${name:format}`.
fn variables_in(text: &str) -> BTreeSet<&str> {
    let is_in_name = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '.');
    let name = |rest: &'_ str| rest.find(|sign| !is_in_name(sign)).unwrap_or(rest.len());
    let after = text.split('$').skip(1).map(|rest| rest.strip_prefix('{').unwrap_or(rest));
    after.map(|rest| &rest[..name(rest)]).filter(|name| !name.is_empty()).collect()
}

/// Links lead to dashboards and variables that exist.
fn of_links(board: &Board, boards: &[Board]) -> Vec<String> {
    let mut lines = Vec::new();
    for url in urls(&board.json) {
        let Some(path) = url.strip_prefix("/d/") else {
            if !url.starts_with("https://github.com/lockwatch/lockwatch/") {
                lines.push(format!("links to {url}"));
            }
            continue;
        };
        let (uid, parameters) = path.split_once('?').unwrap_or((path, ""));
        let Some(target) = boards.iter().find(|board| board.uid() == uid) else {
            lines.push(format!("there is no dashboard {uid}"));
            continue;
        };
        for parameter in parameters.split('&') {
            let kept = parameter.strip_prefix("${").and_then(|rest| rest.strip_suffix(":queryparam}"));
            let given = parameter.strip_prefix("var-").and_then(|rest| rest.split('=').next());
            let has = |name: &str| target.variables().any(|variable| variable["name"] == name);
            if let Some(name) = kept.or(given).filter(|name| !has(name)) {
                lines.push(format!("{uid} has no variable {name}"));
            }
        }
    }
    lines
}

/// All addresses, wherever they stand.
fn urls(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("url").and_then(Value::as_str);
            own.into_iter().chain(fields.values().flat_map(urls)).collect()
        }
        Value::Array(items) => items.iter().flat_map(urls).collect(),
        _ => Vec::new(),
    }
}

/// A table's columns are labels of its queries or their values, and its overrides and links name them.
fn of_columns(board: &Board) -> Vec<String> {
    let mut lines = Vec::new();
    for panel in board.panels().filter(|panel| panel["type"] == "table") {
        let title = string(panel, "title");
        let shown = columns(panel);
        let queries = queries_of(panel);
        let by: BTreeSet<String> = queries
            .iter()
            .flat_map(|query| selectors(&query.expr))
            .flat_map(|selector| selector.calls)
            .flat_map(|call| call.by)
            .collect();
        for column in &shown {
            let is_value =
                column.strip_prefix("Value #").map(|letter| queries.iter().any(|query| query.letter == letter));
            if !is_value.unwrap_or_else(|| by.contains(*column)) {
                lines.push(format!("{title}: there is no field {column}"));
            }
        }
        let organize = list(panel, "/transformations").find(|transformation| transformation["id"] == "organize");
        let renamed = |column: &str| {
            let name = organize.and_then(|organize| organize["options"]["renameByName"][column].as_str());
            name.unwrap_or(column).to_owned()
        };
        let titles: Vec<String> = shown.iter().map(|column| renamed(column)).collect();
        let overridden = list(panel, "/fieldConfig/overrides").map(|item| string(&item["matcher"], "options"));
        let sorted = list(panel, "/options/sortBy").map(|sort| string(sort, "displayName"));
        for name in overridden.chain(sorted).filter(|name| !titles.iter().any(|title| title == name)) {
            lines.push(format!("{title}: there is no column {name}"));
        }
        for url in urls(&panel["fieldConfig"]) {
            let fields = variables_in(url).into_iter().filter_map(|name| name.strip_prefix("__data.fields."));
            for field in fields.filter(|field| !shown.contains(field)) {
                lines.push(format!("{title}: there is no column {field} to link with"));
            }
        }
    }
    lines
}

/// What is a state is shown in words, and all verdicts have theirs.
fn of_mappings(board: &Board) -> Vec<String> {
    let mut lines = Vec::new();
    for panel in board.panels().filter(|panel| panel["type"] != "timeseries") {
        let title = string(panel, "title");
        for query in queries_of(panel) {
            let is_state = |selector: &Selector| STATES.contains(&selector.metric.as_str());
            let counts = query.expr.starts_with("sum(") || query.expr.starts_with("count(");
            let up = query.expr == "up" || query.expr.contains("up{");
            if counts || !(up || selectors(&query.expr).iter().any(is_state)) {
                continue;
            }
            let texts = texts_of(panel, &query.letter);
            let needed = if query.expr.contains("lockwatch_task_state") {
                Verdict::ALL
                    .iter()
                    .map(|verdict| (number_of(&query.expr, verdict.name()), verdict.name().to_owned()))
                    .collect()
            } else {
                Vec::new()
            };
            for (number, name) in needed {
                if texts.get(&number) != Some(&name) {
                    lines.push(format!("{title}: {number} is not shown as {name}"));
                }
            }
            if texts.len() < 2 || texts.values().collect::<BTreeSet<_>>().len() != texts.len() {
                lines.push(format!("{title}: has no mapping from states to words"));
            }
        }
        if panel["type"] == "state-timeline"
            && queries_of(panel).iter().any(|query| texts_of(panel, &query.letter).is_empty())
        {
            lines.push(format!("{title}: has no mapping from states to words"));
        }
    }
    lines
}

/// The number that an expression gives a verdict.
fn number_of(expr: &str, verdict: &str) -> String {
    let state = expr.find(&format!("state=\"{verdict}\"")).unwrap_or_default();
    let before = expr[..state].rsplit_once(" * lockwatch_task_state").map_or("", |(before, _)| before);
    before.chars().last().map(String::from).unwrap_or_default()
}

/// The agent's metrics, what the rules record, and what Prometheus makes itself.
fn catalogue() -> Catalogue {
    let with_target =
        |labels: &[&str]| labels.iter().chain(&OF_TARGETS).map(|label| (*label).to_owned()).collect::<Vec<_>>();
    let mut catalogue = Catalogue::new();
    for metric in TABLE {
        let labels = with_target(&metric.labels());
        let is_counter = metric.kind() == "counter";
        if metric.kind() == "histogram" {
            for suffix in ["_bucket", "_sum", "_count"] {
                let own = if suffix == "_bucket" { Some("le".to_owned()) } else { None };
                let labels = labels.iter().cloned().chain(own).collect();
                catalogue.insert(format!("{}{suffix}", metric.name), Known { is_counter: true, labels });
            }
        } else {
            catalogue.insert(metric.name.to_owned(), Known { is_counter, labels });
        }
    }
    for name in recorded() {
        let labels: &[&str] = if name.starts_with("task:") { &["task", "redis"] } else { &[] };
        catalogue.insert(
            name,
            Known { is_counter: false, labels: labels.iter().map(|label| (*label).to_owned()).collect() },
        );
    }
    let of_scrapes = [
        "up",
        "scrape_duration_seconds",
        "scrape_samples_scraped",
        "scrape_samples_post_metric_relabeling",
        "scrape_series_added",
    ];
    for name in of_scrapes {
        catalogue.insert(name.into(), Known { is_counter: false, labels: with_target(&[]) });
    }
    for name in ["ALERTS", "ALERTS_FOR_STATE"] {
        let labels = with_target(&["alertname", "alertstate", "severity", "task", "redis"]);
        catalogue.insert(name.into(), Known { is_counter: false, labels });
    }
    catalogue
}

/// The names of the recording rules.
fn recorded() -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("alerts/lockwatch.rules.yml");
    let rules: Value = serde_yaml::from_str(&fs::read_to_string(file).expect("rules")).expect("YAML");
    let rules = list(&rules, "/groups").flat_map(|group| list(group, "/rules"));
    rules.filter_map(|rule| rule["record"].as_str()).map(str::to_owned).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
