//! Each sabotage still applies, and every rule of docs/how-it-decides.md is broken by one.

use std::path::{Path, PathBuf};

use lockwatch_lab::sabotage;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[test]
fn each_still_applies() {
    let patches = sabotage::all(&root()).expect("the sabotages");
    assert!(patches.len() >= 25, "only {}", patches.len());
    for patch in &patches {
        sabotage::check_applies(&root(), patch).unwrap_or_else(|error| panic!("{error:#}"));
    }
}

#[test]
fn each_names_a_rule_that_there_is_and_every_rule_is_broken_once() {
    let page = std::fs::read_to_string(root().join("docs/how-it-decides.md")).expect("the rules");
    let rules: Vec<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .filter(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        .map(|line| line.replacen(". ", " ", 1))
        .collect();
    let patches = sabotage::all(&root()).expect("the sabotages");
    let named: Vec<&str> = patches.iter().filter_map(|patch| patch.rule.as_deref()).collect();
    let wrong: Vec<_> = named
        .iter()
        .filter(|name| !rules.iter().any(|rule| rule == *name) && !name.starts_with("none"))
        .collect();
    assert!(wrong.is_empty(), "docs/how-it-decides.md has no such rules: {wrong:?}");
    let unbroken: Vec<_> = rules.iter().filter(|rule| !named.contains(&rule.as_str())).collect();
    assert!(unbroken.is_empty(), "no sabotage breaks these rules: {unbroken:?}");
}
