//! Runs the timelines: the required output of the state for a simulated world with events. They are
//! data files in `sim/tests/timelines/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::harness;
use crate::truth::Rule;

/// All timelines, or those whose name contains the value of the environment variable `TIMELINE`.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/timelines");
    let wanted = std::env::var("TIMELINE").unwrap_or_default();
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("the folder of timelines")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "timeline"))
        .filter(|path| {
            path.file_stem().is_some_and(|name| name.to_string_lossy().contains(&wanted))
        })
        .collect();
    files.sort();
    files
}

/// Number of failed timelines among those that guard a rule.
#[derive(Default)]
struct Tally {
    failed: usize,
    all: usize,
}

#[test]
fn every_timeline_holds() {
    let files = files();
    let (mut reports, mut failed) = (Vec::new(), 0);
    let mut tallies: BTreeMap<Rule, Tally> = BTreeMap::new();
    for path in &files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = fs::read_to_string(path).expect("a readable timeline");
        let (rules, failures) = match harness::parse(&text) {
            Ok(script) => (script.rules.clone(), harness::play(&script)),
            Err(mistake) => (Vec::new(), Err(mistake)),
        };
        let failures =
            failures.unwrap_or_else(|mistake| vec![format!("the timeline is wrong: {mistake}\n")]);
        failed += usize::from(!failures.is_empty());
        reports.extend(failures.iter().map(|failure| format!("{name}: {failure}")));
        for rule in rules {
            let tally = tallies.entry(rule).or_default();
            tally.all += 1;
            if !failures.is_empty() {
                tally.failed += 1;
                reports.push(format!("{name}: {rule}\n"));
            }
        }
    }
    assert!(!files.is_empty(), "no timeline was found");
    let broken = broken_rules(tallies);
    assert!(
        reports.is_empty(),
        "\n\n{}\n{failed} of {} timelines failed{broken}",
        reports.join("\n"),
        files.len()
    );
}

/// The broken rules. A rule with a high share of failed timelines comes first, because it is the
/// most likely cause.
fn broken_rules(tallies: BTreeMap<Rule, Tally>) -> String {
    let mut broken: Vec<_> = tallies.into_iter().filter(|(_, tally)| tally.failed > 0).collect();
    broken.sort_by_key(|(_, tally)| 1_000 * tally.failed * tally.failed / tally.all);
    let lines = broken
        .iter()
        .rev()
        .map(|(rule, Tally { failed, all })| format!("\n  {failed} of {all} timelines: {rule}"));
    lines.collect()
}

/// A timeline without checks would always pass.
#[test]
fn every_timeline_checks_something() {
    for path in files() {
        let text = fs::read_to_string(&path).expect("a readable timeline");
        let script =
            harness::parse(&text).unwrap_or_else(|mistake| panic!("{}: {mistake}", path.display()));
        assert!(script.checks() > 0, "{} checks nothing", path.display());
    }
}

/// A check that cannot fail proves nothing, so each kind is shown to detect a mistake.
#[test]
fn what_is_wrong_is_reported() {
    let world = "# A world in which the task runs.\n0s switch anna on\n   A locks 30s\n";
    for (line, complaint) in [
        ("5s expect verdict down", "verdict is running"),
        ("5s expect held_for 4s", "held_for is 5s"),
        ("5s expect holders B", "holders is A"),
        ("5s expect event gap_began", "0 × gap_began"),
        ("5s expect no event verdict held_wanted", "1 × verdict held_wanted"),
        ("3s..5s always held_for < 5s", "held_for is 5s"),
        ("3s..5s never verdict running", "it is so"),
        ("3s..5s becomes verdict running", "it is so already"),
        ("3s..5s becomes verdict down", "it never became so"),
    ] {
        let script = harness::parse(&format!("{world}{line}\n")).expect("readable");
        let failures = harness::play(&script).expect("playable");
        assert!(failures.iter().any(|failure| failure.contains(complaint)), "{line}: {failures:?}");
    }
    let mistaken = harness::parse(&format!("{world}5s expect colour red\n")).expect("readable");
    assert!(harness::play(&mistaken).is_err_and(|mistake| mistake.contains("line 4")));
}
