//! The dashboards as Grafana reads them: panels, queries, variables, links.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The UIDs of all dashboards, which are also their file names.
pub(crate) const UIDS: [&str; 3] = ["lockwatch-overview", "lockwatch-task", "lockwatch-agent"];

pub(crate) struct Board {
    pub(crate) json: Value,
}

/// One query of a panel.
#[derive(Debug)]
pub(crate) struct Query {
    /// The title of its panel.
    pub(crate) panel: String,
    /// Its reference letter.
    pub(crate) letter: String,
    pub(crate) expr: String,
    pub(crate) legend: String,
    /// Whether it is an instant query instead of a range query.
    pub(crate) instant: bool,
}

/// The folder of the dashboards.
pub(crate) fn folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    [here.join("dashboards"), here.join("../dashboards")]
        .into_iter()
        .find(|folder| folder.is_dir())
        .expect("dashboards")
}

pub(crate) fn all() -> Vec<Board> {
    UIDS.iter().map(|uid| read(uid)).collect()
}

pub(crate) fn text(uid: &str) -> String {
    fs::read_to_string(folder().join(format!("{uid}.json"))).expect("dashboard")
}

fn read(uid: &str) -> Board {
    Board::parse(&text(uid))
}

impl Board {
    pub(crate) fn parse(text: &str) -> Self {
        Self { json: serde_json::from_str(text).expect("JSON") }
    }

    pub(crate) fn uid(&self) -> &str {
        string(&self.json, "uid")
    }

    /// All panels and rows, and what is in closed rows, from top to bottom.
    pub(crate) fn items(&self) -> impl Iterator<Item = &Value> {
        list(&self.json, "/panels")
            .flat_map(|item| std::iter::once(item).chain(list(item, "/panels")))
    }

    /// All panels except rows.
    pub(crate) fn panels(&self) -> impl Iterator<Item = &Value> {
        self.items().filter(|item| item["type"] != "row")
    }

    /// The panels in rows that are closed at first.
    pub(crate) fn folded(&self) -> impl Iterator<Item = &Value> {
        list(&self.json, "/panels").flat_map(|item| list(item, "/panels"))
    }

    pub(crate) fn queries(&self) -> Vec<Query> {
        self.panels().flat_map(queries_of).collect()
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &Value> {
        list(&self.json, "/templating/list")
    }

    pub(crate) fn annotations(&self) -> impl Iterator<Item = &Value> {
        list(&self.json, "/annotations/list")
    }

    /// Every expression: of panels and annotations, and the selectors of variables.
    pub(crate) fn expressions(&self) -> Vec<String> {
        let panels = self.queries().into_iter().map(|query| query.expr);
        let annotations =
            self.annotations().map(|annotation| string(annotation, "expr").to_owned());
        let variables =
            self.variables().filter_map(label_values).map(|(series, _)| series.to_owned());
        panels.chain(annotations).chain(variables).collect()
    }
}

/// The queries of one panel.
pub(crate) fn queries_of(panel: &Value) -> Vec<Query> {
    let query = |target: &Value| Query {
        panel: string(panel, "title").to_owned(),
        letter: string(target, "refId").to_owned(),
        expr: string(target, "expr").to_owned(),
        legend: string(target, "legendFormat").to_owned(),
        instant: target["instant"] == true,
    };
    list(panel, "/targets").map(query).collect()
}

/// The fields that a table shows, by their names in the data source: labels and `Value #A`.
pub(crate) fn columns(panel: &Value) -> Vec<&str> {
    let transformations = list(panel, "/transformations");
    let filter = transformations
        .into_iter()
        .find(|transformation| transformation["id"] == "filterFieldsByName");
    filter
        .into_iter()
        .flat_map(|filter| list(filter, "/options/include/names"))
        .filter_map(Value::as_str)
        .collect()
}

/// The value mappings for a query: of its column in a table, else of the whole panel.
pub(crate) fn texts_of(panel: &Value, letter: &str) -> BTreeMap<String, String> {
    let organize =
        list(panel, "/transformations").find(|transformation| transformation["id"] == "organize");
    let column = organize.and_then(|organize| {
        organize["options"]["renameByName"][format!("Value #{letter}")].as_str()
    });
    let of_column = |name: &str| {
        let item =
            list(panel, "/fieldConfig/overrides").find(|item| item["matcher"]["options"] == name);
        let property = item.and_then(|item| {
            list(item, "/properties").find(|property| property["id"] == "mappings")
        });
        property.map(|property| &property["value"])
    };
    let mappings = match column {
        Some(name) => of_column(name),
        None => panel.pointer("/fieldConfig/defaults/mappings"),
    };
    let items = mappings.and_then(Value::as_array).into_iter().flatten();
    let options = items.filter_map(|item| item["options"].as_object()).flatten();
    options.map(|(value, result)| (value.clone(), string(result, "text").to_owned())).collect()
}

/// The series and the label of a variable's query.
pub(crate) fn label_values(variable: &Value) -> Option<(&str, &str)> {
    let query = variable.pointer("/query/query")?.as_str()?;
    query.strip_prefix("label_values(")?.strip_suffix(')')?.rsplit_once(", ")
}

/// The labels in `{{…}}`.
pub(crate) fn labels_in(legend: &str) -> Vec<&str> {
    legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()).collect()
}

pub(crate) fn string<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> std::slice::Iter<'a, Value> {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default().iter()
}
