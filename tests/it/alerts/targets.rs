//! Targets may have labels of names that lockwatch uses itself. They change nothing about which
//! alerts fire: all scenes are played once more with such labels on every series.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_yaml::Value;
use tempfile::TempDir;

use super::{PROMTOOL, RULES, WATCHDOG, test_file, test_files, unit_tests};
use crate::support::skip;

/// Set where lockwatch does not set them, as `honor_labels` has it.
const OF_TARGETS: [&str; 5] = ["agent", "namespace", "problem", "severity", "state"];

#[test]
fn labels_of_targets_hide_no_alert_and_raise_none() {
    if !skip::has("alerts::labels_of_targets_hide_no_alert_and_raise_none", &[PROMTOOL]) {
        return;
    }
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("tests")).unwrap();
    for file in [RULES, WATCHDOG] {
        let name = Path::new(file).file_name().unwrap();
        fs::copy(file, folder.path().join(name)).unwrap();
    }
    // Availability alerts nobody, and takes long.
    let files = test_files().into_iter().filter(|file| *file != test_file("availability"));
    let files: Vec<PathBuf> = files.map(|file| with_labels(&file, folder.path())).collect();
    unit_tests(&files).unwrap_or_else(|said| panic!("{said}"));
}

fn with_labels(file: &Path, folder: &Path) -> PathBuf {
    let mut tests: Value = serde_yaml::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    for scene in tests["tests"].as_sequence_mut().unwrap() {
        for series in scene["input_series"].as_sequence_mut().unwrap() {
            series["series"] = labelled(series["series"].as_str().unwrap()).into();
        }
        let checks = scene.get("promql_expr_test").and_then(Value::as_sequence);
        let checks: Vec<Value> = checks.into_iter().flatten().filter_map(counted).collect();
        let scene = scene.as_mapping_mut().unwrap();
        scene.remove("alert_rule_test");
        scene.insert("promql_expr_test".into(), checks.into());
    }
    let to = folder.join("tests").join(file.file_name().unwrap());
    fs::write(&to, serde_yaml::to_string(&tests).unwrap()).unwrap();
    to
}

fn labelled(series: &str) -> String {
    let has = |name: &&str| [' ', '{'].iter().any(|at| series.contains(&format!("{at}{name}=\"")));
    let missing = OF_TARGETS.into_iter().filter(|name| !has(name));
    let more: String = missing.map(|name| format!(", {name}=\"of-targets\"")).collect();
    format!("{}{more}}}", series.trim_end_matches('}'))
}

/// A check of alerts without the labels that it does not ask for: how many fire and how many are
/// pending.
fn counted(check: &Value) -> Option<Value> {
    let expr = check["expr"].as_str().unwrap();
    if expr.starts_with("count(") || expr.starts_with("count by") {
        return Some(check.clone());
    }
    if !expr.contains("ALERTS") {
        return None;
    }
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for sample in check["exp_samples"].as_sequence().unwrap() {
        let labels = sample["labels"].as_str().unwrap();
        let reported = ["alertname", "alertstate"].into_iter().filter_map(|name| {
            let (_, rest) = labels.split_once(&format!("{name}=\""))?;
            Some(format!("{name}=\"{}\"", rest.split('"').next()?))
        });
        *counts.entry(reported.collect::<Vec<_>>().join(", ")).or_default() += 1;
    }
    let samples = counts.into_iter().map(|(labels, count)| {
        mapping([("labels", format!("{{{labels}}}").into()), ("value", count.into())])
    });
    let samples: Vec<Value> = samples.collect();
    Some(mapping([
        ("expr", format!("count by (alertname, alertstate) ({expr})").into()),
        ("eval_time", check["eval_time"].clone()),
        ("exp_samples", samples.into()),
    ]))
}

fn mapping<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Mapping(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
}
