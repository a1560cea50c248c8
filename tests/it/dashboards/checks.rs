//! The checks of a dashboard; each mistake is one line of text.

use std::collections::BTreeSet;

use lockwatch_judge::verdict::Verdict;
use serde_json::Value;

use super::board::{
    self, Board, Query, columns, label_values, labels_in, list, queries_of, string, texts_of,
};
use super::catalogue::{Catalogue, OF_SITES, catalogue};
use super::promql::{Selector, selectors};

/// The Grafana units in use.
const UNITS: [&str; 9] =
    ["none", "short", "s", "percentunit", "bytes", "cps", "ops", "dateTimeFromNow", "string"];
/// Panel types that exist since Grafana 10; `graph`, `singlestat` and `table-old` are gone.
const PANELS: [&str; 7] =
    ["stat", "timeseries", "state-timeline", "table", "bargauge", "heatmap", "text"];
/// Variables that Grafana defines itself.
const BUILT_IN: [&str; 6] = [
    "__rate_interval",
    "__range",
    "__interval",
    "__url_time_range",
    "__data.fields.*",
    "__field.labels.*",
];
/// Metrics that are states and must be shown as words.
const STATES: [&str; 10] = [
    "up",
    "lockwatch_task_state_rank",
    "lockwatch_task_wanted",
    "lockwatch_task_paused",
    "lockwatch_lock_held",
    "lockwatch_store_decides",
    "lockwatch_store_readable",
    "lockwatch_store_up",
    "lockwatch_store_role_verified",
    "lockwatch_config_last_reload_successful",
];
/// Functions for counters.
const RATES: [&str; 2] = ["rate", "increase"];

/// All mistakes, one per line.
pub(super) fn mistakes(boards: &[Board]) -> String {
    let catalogue = catalogue();
    let uids = boards.iter().zip(board::UIDS).filter(|(board, uid)| board.uid() != *uid);
    let mut lines: Vec<String> =
        uids.map(|(_, uid)| format!("{uid}: uid is not that of its file")).collect();
    lines.extend(of_each(boards, of_shape));
    lines.extend(of_each(boards, of_grid));
    lines.extend(of_each(boards, of_panels));
    lines.extend(of_each(boards, |board| of_queries(board, &catalogue)));
    lines.extend(of_each(boards, |board| of_modes(board, &catalogue)));
    lines.extend(of_each(boards, of_variables));
    lines.extend(of_each(boards, |board| of_links(board, boards)));
    lines.extend(of_each(boards, of_columns));
    lines.extend(of_each(boards, of_mappings));
    lines.join("\n")
}

pub(super) fn of_each(boards: &[Board], check: impl Fn(&Board) -> Vec<String>) -> Vec<String> {
    let lines = |board: &Board| {
        check(board).into_iter().map(|line| format!("{}: {line}", board.uid())).collect::<Vec<_>>()
    };
    boards.iter().flat_map(lines).collect()
}

/// Checks the top level of a dashboard.
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

/// Checks the layout and the types of panels.
fn of_grid(board: &Board) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen: Vec<(&str, [u64; 4])> = Vec::new();
    let (mut ids, mut titles) = (BTreeSet::new(), BTreeSet::new());
    for panel in board.items() {
        let title = string(panel, "title");
        if !panel["id"].as_u64().is_some_and(|id| id > 0 && ids.insert(id)) {
            lines.push(format!("{title}: its id is not its own"));
        }
        if !titles.insert(title) {
            lines.push(format!("{title}: its title is not its own"));
        }
        let place =
            ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap_or_default());
        let [x, y, w, h] = place;
        if w == 0 || h == 0 || x + w > 24 {
            lines.push(format!("{title}: is outside the grid"));
        }
        let overlap = seen
            .iter()
            .find(|(_, [x2, y2, w2, h2])| x < x2 + w2 && *x2 < x + w && y < y2 + h2 && *y2 < y + h);
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
        if kind == "text" {
            continue;
        }
        let overrides =
            list(panel, "/fieldConfig/overrides").flat_map(|item| list(item, "/properties"));
        let units = overrides
            .filter(|property| property["id"] == "unit")
            .filter_map(|property| property["value"].as_str());
        let default = panel.pointer("/fieldConfig/defaults/unit").and_then(Value::as_str);
        let unit = if kind == "heatmap" {
            panel.pointer("/options/yAxis/unit").and_then(Value::as_str)
        } else {
            default
        };
        for unit in units.chain([unit.unwrap_or_default()]).filter(|unit| !UNITS.contains(unit)) {
            lines.push(format!("{title}: has the unit {unit}"));
        }
        if list(panel, "/targets").len() == 0 {
            lines.push(format!("{title}: asks nothing"));
        }
        if panel["datasource"] != ours
            || list(panel, "/targets").any(|target| target["datasource"] != ours)
        {
            lines.push(format!("{title}: its datasource is not the variable"));
        }
        let legends: Vec<String> =
            queries_of(panel).into_iter().map(|query| query.legend).collect();
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

/// Checks what the expressions read.
pub(super) fn of_queries(board: &Board, catalogue: &Catalogue) -> Vec<String> {
    let queries = board.queries();
    let of_panels = queries.iter().flat_map(|query| {
        let by_itself = board.uid() == "lockwatch-agent";
        let lines = of_query(query, by_itself, catalogue);
        lines.into_iter().map(move |line| format!("{}, {}: {line}", query.panel, query.letter))
    });
    let of_annotations = board.annotations().flat_map(|annotation| {
        let lines = of_annotation(annotation, catalogue);
        lines.into_iter().map(move |line| format!("{}: {line}", string(annotation, "name")))
    });
    let of_variables = board.variables().filter_map(label_values).flat_map(|(series, label)| {
        let found = selectors(series);
        [of_selectors(&found, true, catalogue), of_labels(&[label], &found, catalogue)].concat()
    });
    of_panels.chain(of_annotations).chain(of_variables).collect()
}

/// Tasks, stores and agents of several sites may have the same names: no aggregation that keeps one
/// of them may put sites together.
fn of_sites(expr: &str) -> Vec<String> {
    let lists = expr.split(" by (").skip(1).filter_map(|rest| rest.split(')').next());
    let merges = |list: &&str| {
        let labels: Vec<&str> = list.split(", ").collect();
        ["task", "store", "instance"].iter().any(|name| labels.contains(name))
            && !OF_SITES.iter().all(|name| labels.contains(name))
    };
    lists.filter(merges).map(|list| format!("by ({list}) puts sites together")).collect()
}

fn of_query(query: &Query, by_itself: bool, catalogue: &Catalogue) -> Vec<String> {
    let found = selectors(&query.expr);
    let mut lines = of_selectors(&found, query.instant, catalogue);
    lines.extend(of_labels(&labels_in(&query.legend), &found, catalogue));
    lines.extend(of_sites(&query.expr));
    for selector in found.iter().filter(|selector| selector.metric.starts_with("lockwatch_")) {
        match selector.aggregation().map(|call| call.name.as_str()) {
            None if !by_itself => {
                lines.push(format!("{} shows each agent by itself", selector.metric))
            }
            None | Some("max" | "min") => {}
            Some(name) => lines.push(format!("{name} over {} adds up agents", selector.metric)),
        }
    }
    lines
}

/// Whether a panel is only of tasks that take turns, of a queue, or of periodic tasks.
fn is_of_other_kind(panel: &Value) -> bool {
    let of = |metric: &str| {
        let is_of_runs =
            metric.contains("lockwatch_task_run_") || metric.contains("_task_last_run_");
        is_of_runs
            || ["lockwatch_turn_", "lockwatch_queue_"].iter().any(|start| metric.starts_with(start))
    };
    queries_of(panel)
        .iter()
        .all(|query| selectors(&query.expr).iter().all(|selector| of(&selector.metric)))
}

/// What is always open needs only the lean exposition, and what needs `metrics: full` stands
/// in a closed row that says so.
fn of_modes(board: &Board, catalogue: &Catalogue) -> Vec<String> {
    let is_full = |expr: &str| {
        let found = selectors(expr);
        found.iter().any(|selector| catalogue.get(&selector.metric).is_some_and(|it| it.full))
    };
    let panel_is_full = |panel: &Value| queries_of(panel).iter().any(|query| is_full(&query.expr));
    let folded: Vec<&str> = board.folded().map(|panel| string(panel, "title")).collect();
    let mut lines = Vec::new();
    for panel in board.panels().filter(|panel| panel["type"] != "text") {
        let title = string(panel, "title");
        match (panel_is_full(panel), folded.contains(&title)) {
            (true, false) => lines.push(format!("{title}: needs metrics: full")),
            // So are the rows of kinds that few tasks are of.
            (false, true) if is_of_other_kind(panel) => {}
            (false, true) => lines.push(format!("{title}: does not need metrics: full")),
            _ => {}
        }
    }
    let rest = board.annotations().map(|annotation| string(annotation, "expr"));
    let rest = rest.chain(board.variables().filter_map(label_values).map(|(series, _)| series));
    lines.extend(rest.filter(|expr| is_full(expr)).map(|expr| format!("{expr}: needs full")));
    let mut words = board.folded().filter_map(|panel| panel.pointer("/options/content")?.as_str());
    if !folded.is_empty() && !words.any(|text| text.contains("\nmetrics: full ")) {
        lines.push("does not say how to switch on what a closed row shows".into());
    }
    lines
}

fn of_annotation(annotation: &Value, catalogue: &Catalogue) -> Vec<String> {
    let found = selectors(string(annotation, "expr"));
    let tags = string(annotation, "tagKeys").split(',').filter(|tag| !tag.is_empty());
    let formats = ["titleFormat", "textFormat"].map(|field| string(annotation, field));
    let labels: Vec<&str> = formats.into_iter().flat_map(labels_in).chain(tags).collect();
    [of_selectors(&found, false, catalogue), of_labels(&labels, &found, catalogue)].concat()
}

/// The labels that none of the queried series has.
fn of_labels(labels: &[&str], found: &[Selector], catalogue: &Catalogue) -> Vec<String> {
    let known = |label: &str| {
        found.iter().any(|selector| labels_of(selector, catalogue).iter().any(|has| has == label))
    };
    let unknown = labels.iter().filter(|label| !known(label));
    unknown.map(|label| format!("{label} is no label of what it asks for")).collect()
}

fn of_selectors(found: &[Selector], instant: bool, catalogue: &Catalogue) -> Vec<String> {
    let lines =
        |selector| [of_selector(selector, catalogue), of_window(selector, instant)].concat();
    found.iter().flat_map(lines).collect()
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
        let what =
            if known.is_counter { "a counter without a rate" } else { "a gauge with a rate" };
        lines.push(format!("{metric} is {what}"));
    }
    lines
}

/// In a range query the window must follow Grafana's step, so that no sample is missed.
fn of_window(selector: &Selector, instant: bool) -> Vec<String> {
    let allowed: &[&str] =
        if instant { &["$__rate_interval", "$__range", "1d"] } else { &["$__rate_interval"] };
    let wrong = selector.window.iter().filter(|window| !allowed.contains(&window.as_str()));
    wrong.map(|window| format!("{} has the window {window}", selector.metric)).collect()
}

fn labels_of(selector: &Selector, catalogue: &Catalogue) -> Vec<String> {
    catalogue.get(&selector.metric).map(|known| known.labels.clone()).unwrap_or_default()
}

/// Checks that every `$name` exists and every variable updates with the time range.
fn of_variables(board: &Board) -> Vec<String> {
    let defined: Vec<&str> = board.variables().map(|variable| string(variable, "name")).collect();
    let mut lines = Vec::new();
    let text = board.json.to_string();
    for name in variables_in(&text) {
        let built_in = |known: &&str| match known.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => name == *known,
        };
        if name != "__all" && !BUILT_IN.iter().any(built_in) && !defined.contains(&name) {
            lines.push(format!("${name} is not defined"));
        }
    }
    for name in ["datasource", "job", "store"] {
        if !defined.contains(&name) {
            lines.push(format!("there is no variable {name}"));
        }
    }
    for variable in board.variables().filter(|variable| variable["type"] == "query") {
        let name = string(variable, "name");
        if variable["refresh"] != 2 {
            lines.push(format!("{name}: does not refresh with the time range"));
        }
        let is_read = board.expressions().iter().any(|expr| expr.contains(&format!("${name}")));
        if !is_read && !urls(&board.json).iter().any(|url| variables_in(url).contains(name)) {
            lines.push(format!("{name}: is not used"));
        }
        // Multiple values form a pattern; a single value must be escaped, so that pattern
        // characters do not count.
        let (wrong, why) = if variable["multi"] == true {
            ("=", "has many values")
        } else {
            ("=~", "has one value")
        };
        if board.expressions().iter().any(|expr| expr.contains(&format!("{name}{wrong}\"${name}")))
        {
            lines.push(format!("{name}: is compared by {wrong} but {why}"));
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

/// Checks that links lead to existing dashboards and variables.
fn of_links(board: &Board, boards: &[Board]) -> Vec<String> {
    urls(&board.json).into_iter().flat_map(|url| of_link(url, boards)).collect()
}

pub(super) fn of_link(url: &str, boards: &[Board]) -> Vec<String> {
    let Some(path) = url.strip_prefix("/d/") else {
        let is_ours = ["https://github.com/lockwatch/lockwatch/", "${runbooks}"]
            .iter()
            .any(|beginning| url.starts_with(beginning));
        return if is_ours { vec![] } else { vec![format!("links to {url}")] };
    };
    let (uid, parameters) = path.split_once('?').unwrap_or((path, ""));
    let Some(target) = boards.iter().find(|board| board.uid() == uid) else {
        return vec![format!("there is no dashboard {uid}")];
    };
    let variable = |parameter: &'_ str| -> Option<String> {
        let kept = parameter.strip_prefix("${").and_then(|rest| rest.strip_suffix(":queryparam}"));
        let given = parameter.strip_prefix("var-").and_then(|rest| rest.split('=').next());
        kept.or(given).map(str::to_owned)
    };
    let has = |name: &str| target.variables().any(|variable| variable["name"] == name);
    let missing = parameters.split('&').filter_map(variable).filter(|name| !has(name));
    missing.map(|name| format!("{uid} has no variable {name}")).collect()
}

/// All URLs, at any depth.
pub(super) fn urls(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(fields) => {
            let own = fields.get("url").and_then(Value::as_str);
            own.into_iter().chain(fields.values().flat_map(urls)).collect()
        }
        Value::Array(items) => items.iter().flat_map(urls).collect(),
        _ => Vec::new(),
    }
}

/// Checks that a table's columns are labels or values of its queries, and that overrides and links
/// name columns.
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
            // A table of one query has no letters.
            let is_value = match column.strip_prefix("Value #") {
                Some(letter) => {
                    Some(queries.len() > 1 && queries.iter().any(|query| query.letter == letter))
                }
                None => (*column == "Value").then_some(queries.len() == 1),
            };
            if !is_value.unwrap_or_else(|| by.contains(*column)) {
                lines.push(format!("{title}: there is no field {column}"));
            }
        }
        let organize = list(panel, "/transformations")
            .find(|transformation| transformation["id"] == "organize");
        let renamed = |column: &str| {
            let name =
                organize.and_then(|organize| organize["options"]["renameByName"][column].as_str());
            name.unwrap_or(column).to_owned()
        };
        let titles: Vec<String> = shown.iter().map(|column| renamed(column)).collect();
        let overridden =
            list(panel, "/fieldConfig/overrides").map(|item| string(&item["matcher"], "options"));
        let sorted = list(panel, "/options/sortBy").map(|sort| string(sort, "displayName"));
        for name in
            overridden.chain(sorted).filter(|name| !titles.iter().any(|title| title == name))
        {
            lines.push(format!("{title}: there is no column {name}"));
        }
        for url in urls(&panel["fieldConfig"]) {
            let fields = variables_in(url)
                .into_iter()
                .filter_map(|name| name.strip_prefix("__data.fields."));
            for field in fields.filter(|field| !shown.contains(field)) {
                lines.push(format!("{title}: there is no column {field} to link with"));
            }
        }
    }
    lines
}

/// Checks that states are shown as words, and that all verdicts have one.
fn of_mappings(board: &Board) -> Vec<String> {
    let mut lines = Vec::new();
    for panel in board.panels().filter(|panel| panel["type"] != "timeseries") {
        for query in queries_of(panel) {
            let texts = texts_of(panel, &query.letter);
            let different: BTreeSet<&String> = texts.values().collect();
            let needs_words = panel["type"] == "state-timeline" || is_state(&query);
            if needs_words && (texts.is_empty() || different.len() < texts.len()) {
                lines.push(format!("{}: has no mapping from states to words", query.panel));
            }
            let verdicts = if is_verdict(&query) { &Verdict::ALL[..] } else { &[] };
            // Worst first.
            for (rank, verdict) in verdicts.iter().rev().map(|verdict| verdict.name()).enumerate() {
                if texts.get(&rank.to_string()).is_none_or(|text| text != verdict) {
                    lines.push(format!("{}: {rank} is not shown as {verdict}", query.panel));
                }
            }
        }
    }
    lines
}

/// Whether its values are states; a count of states is a number.
fn is_state(query: &Query) -> bool {
    let is_count = query.expr.starts_with("sum(") || query.expr.starts_with("count(");
    !is_count
        && selectors(&query.expr).iter().any(|selector| STATES.contains(&selector.metric.as_str()))
}

fn is_verdict(query: &Query) -> bool {
    is_state(query) && query.expr.contains("lockwatch_task_state_rank{")
}
