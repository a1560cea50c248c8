//! The dashboards against the schema that Grafana publishes as types of TypeScript.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::board;
use crate::support::skip;

/// Mistakes, of which each is found at its place: what is written in which dashboard, what stands
/// there instead, and the beginning of the complaint.
const MISTAKES: [(&str, &str, &str, &str); 6] = [
    ("overview", r#""mergeValues""#, r#""mergedValues""#, "Object literal may only specify known"),
    ("overview", r#": "background""#, r#": "backdrop""#, "Type '\"backdrop\"' is not assignable"),
    ("overview", r#""custom.width""#, r#""custom.breadth""#, "Type '\"custom.breadth\"' is not"),
    (
        "agent",
        r#""rowHeight": 0"#,
        r#""rowHeight": "0", "x": 0"#,
        "Type 'string' is not assignable",
    ),
    ("task", r#""drawStyle": "line""#, r#""drawStyle": "ink""#, "Type '\"ink\"' is not assignable"),
    ("task", r#""legendFormat""#, r#""legend""#, "Object literal may only specify known"),
];

#[test]
fn dashboards_fit_grafanas_schema() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let source = root.join("dashboards/source/check");
    let installed = root.join("target/grafana-schema");
    let lock = |folder: &Path| fs::read(folder.join("package-lock.json")).ok();
    if lock(&installed) != lock(&source) || !installed.join("node_modules").is_dir() {
        let what = "Grafana's schema; run scripts/setup test";
        return skip::say("dashboards::schema::dashboards_fit_grafanas_schema", what);
    }
    let wrong = tempfile::tempdir().expect("folder");
    let mut command = Command::new("node");
    command.arg(source.join("check.mjs")).arg(&installed);
    command.args(board::UIDS.map(|uid| board::folder().join(format!("{uid}.json"))));
    for (index, (name, right, instead, _)) in MISTAKES.iter().enumerate() {
        let original = board::text(&format!("lockwatch-{name}"));
        assert!(original.contains(right), "{name} has no {right}");
        let file = wrong.path().join(format!("mistake-{index}.json"));
        fs::write(&file, original.replacen(right, instead, 1)).expect("dashboard");
        command.arg(file);
    }
    let output = command.output().expect("node");
    let said = super::text(&output.stdout);
    // Its lines begin with the file; further ones are indented.
    let (expected, unexpected): (Vec<&str>, Vec<&str>) =
        said.lines().filter(|line| line.contains(".ts(")).partition(|l| l.contains("/mistake-"));
    assert!(unexpected.is_empty(), "{said}");
    for (index, (_, _, instead, complaint)) in MISTAKES.iter().enumerate() {
        let found = expected.iter().any(|line| {
            line.contains(&format!("/mistake-{index}.ts(")) && line.contains(complaint)
        });
        assert!(found, "{instead}: {said}{}", super::text(&output.stderr));
    }
}
