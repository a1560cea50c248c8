//! Checks that each rule of truth has a check that names it, and that no check names an unknown
//! rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::truth;

/// Places of checks that may name a rule.
const ROOMS: [&str; 6] = ["sim/tests", "judge/src", "watch/tests", "watch/src", "tests/it", "src"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => files(&path, found),
            Some("rs" | "timeline") => found.push(path),
            _ => {}
        }
    }
}

/// The rules named by a file's checks: `rule: 6 confirmation` at the head of a timeline, or the
/// call at the head of a test.
fn called(path: &Path, text: &str) -> Vec<String> {
    if path.extension().is_some_and(|extension| extension == "timeline") {
        return text
            .lines()
            .filter_map(|line| line.strip_prefix("rule: "))
            .map(str::to_owned)
            .collect();
    }
    let calls = text
        .split("_rule = ")
        .skip(1)
        .filter_map(|rest| rest.split_once("rule(\"")?.1.split_once('"'));
    calls.map(|(call, _)| call.to_owned()).collect()
}

/// The checks that name each rule.
fn named() -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut all = Vec::new();
    ROOMS.iter().for_each(|room| files(&root().join(room), &mut all));
    let mut named: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    // This file only describes the notation.
    for path in all.into_iter().filter(|path| !path.ends_with("sim/tests/it/rules.rs")) {
        let text = fs::read_to_string(&path).expect("readable");
        for call in called(&path, &text) {
            named.entry(call).or_default().insert(path.clone());
        }
    }
    named
}

#[test]
fn every_rule_has_a_check_that_names_it() {
    let named = named();
    let unguarded: Vec<_> = truth::all()
        .into_iter()
        .map(|rule| format!("{} {}", rule.number, rule.name))
        .filter(|call| !named.contains_key(call))
        .collect();
    assert!(unguarded.is_empty(), "no check names these rules: {unguarded:?}");
}

#[test]
fn no_check_names_a_rule_that_there_is_not() {
    let wrong: Vec<_> =
        named().into_iter().filter(|(call, _)| truth::named(call).is_none()).collect();
    assert!(wrong.is_empty(), "docs/how-it-decides.md does not have these rules: {wrong:#?}");
}

#[test]
fn the_page_can_be_cited() {
    let rules = truth::all();
    assert_eq!(
        rules.iter().map(|rule| rule.number).collect::<Vec<_>>(),
        (1..=16).collect::<Vec<_>>()
    );
    for rule in &rules {
        assert!(
            rule.sentence.ends_with('.') && rule.sentence.len() > 20,
            "rule {} lacks its sentence",
            rule.number
        );
    }
    let names: BTreeSet<_> = rules.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), rules.len(), "two rules have one name");
}

/// A check that cannot report the broken rule is useless here.
#[test]
fn a_test_that_fails_says_which_rule_is_broken() {
    let text = truth::named("6 confirmation").expect("rule 6").to_string();
    assert!(text.starts_with("breaks rule 6, confirmation: A first \"free\""), "{text}");
    let unknown = std::panic::catch_unwind(|| drop(truth::rule("6 conformation")));
    assert!(unknown.is_err(), "a rule that there is not");
}
