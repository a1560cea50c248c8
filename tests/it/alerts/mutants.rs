//! Mutation tests of the rules: each deciding part is changed, one at a time, and a unit test must
//! fail. All mutants take minutes, so only every tenth runs unless `LOCKWATCH_LONG` is set, as
//! `make test ARGS=--long` does.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_yaml::Value;
use tempfile::TempDir;

use super::promql::{self, Kind};
use super::{
    Group, PROMTOOL, RULES, Rule, Rules, needs, next, of, promtool, test_file, test_files,
};
use crate::support::skip;

const OLD: &str = "only tells how old is too old; a test of seven hours takes too long";
const SAVES: &str = "only leaves out, for speed, what nobody reads";
const AWAY: &str = "only tells for how long Prometheus may be away";

/// Equivalent mutants: rule, start of the change, a piece of its context, and why no test can
/// detect it.
#[rustfmt::skip] // one per line: a table
const EQUIVALENT: &[(&str, &str, &str, &str)] = &[
    ("agent:lockwatch_store_generation:changed", "[6h] to [10h]", "agent:lockwatch_store_generation", OLD),
    ("agent:lockwatch_problem_seconds:kept", "[1h] to [10h]", "seconds:kept»", AWAY),
    ("instance:lockwatch_up", "[1h] to [10h]", "instance:lockwatch_up»", AWAY),
    ("agent:lockwatch_event:time", "[15m] to [10h]", "lockwatch_event:time»", "what is older is left out anyway"),
    ("lockwatch:clear", "without and", "}»and«on (task)", SAVES),
    ("lockwatch:clear", "[1h] to [10h]", "seconds:kept»", SAVES),
    ("lockwatch:clear", "[15m] to [10h]", "lockwatch_event:time»", SAVES),
    ("LockwatchAgentDown", "[5m] to [1m]", "«) and on (job, instance, cluster, namespace, env) up) >= 0.5", "keep_firing_for covers a short failure \
        of the other agent"),
    ("task:lockwatch_task_wanting_users:last", "[30m] to [10h]", "wanting_users:last»", AWAY),
];

/// Without `LOCKWATCH_LONG`, one of this many mutants runs.
const SHORT_STEP: usize = 20;

/// One change of one rule.
struct Mutant {
    /// Name of the changed rule.
    rule: String,
    /// The tests of its group.
    tests: PathBuf,
    /// Original text, replacement and context.
    change: String,
    place: String,
    rules: Rules,
}

impl Mutant {
    fn describe(&self) -> String {
        format!("{}: {} at: {}", self.rule, self.change, self.place)
    }
}

/// One test of a unit test file, with only the rules that it needs, which makes it much faster.
struct Scene {
    /// The file of tests of its alert or group.
    of: PathBuf,
    text: String,
    needs: BTreeSet<String>,
    /// Number of mutants caught so far. Scenes that caught many run first, then those of the
    /// rule's group.
    caught: AtomicUsize,
}

#[test]
fn every_change_of_a_rule_fails_a_unit_test() {
    if !skip::has("alerts::every_change_of_a_rule_fails_a_unit_test", &[PROMTOOL]) {
        return;
    }
    let rules = Rules::load();
    let mut mutants = mutants(&rules);
    drop_equivalent(&mut mutants);
    if std::env::var_os("LOCKWATCH_LONG").is_none() {
        mutants = mutants.into_iter().step_by(SHORT_STEP).collect();
    }
    let folder = TempDir::new().unwrap();
    check_syntax(&mutants, folder.path());
    let scenes = scenes(&rules);
    let survivors = Mutex::new(Vec::new());
    let queue = Mutex::new(mutants.iter().enumerate());
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let Some((number, mutant)) = next(&queue) else { return };
                    if survives(mutant, &scenes, &folder.path().join(number.to_string())) {
                        survivors.lock().unwrap().push(mutant.describe());
                    }
                }
            });
        }
    });
    let survivors = survivors.into_inner().unwrap();
    assert!(
        survivors.is_empty(),
        "of {} changes no test notices {}:\n{}",
        mutants.len(),
        survivors.len(),
        survivors.join("\n")
    );
}

/// Whether all scenes that use the rule pass although it is changed.
fn survives(mutant: &Mutant, scenes: &[Scene], folder: &Path) -> bool {
    fs::create_dir_all(folder.join("tests")).unwrap();
    let own = test_file(&mutant.rule);
    let of_alert = own.exists();
    let sees =
        |scene: &&Scene| scene.needs.contains(&mutant.rule) && (!of_alert || scene.of == own);
    let mut concerned: Vec<&Scene> = scenes.iter().filter(sees).collect();
    concerned.sort_by_key(|scene| {
        (Reverse(scene.caught.load(Ordering::Relaxed)), scene.of != mutant.tests)
    });
    let caught_by = concerned.into_iter().find(|scene| {
        let needed = scene.needs.iter().map(String::as_str).collect();
        mutant.rules.only(&needed).write(&folder.join("lockwatch.rules.yml"));
        let test = folder.join("tests/scene.yml");
        fs::write(&test, &scene.text).unwrap();
        promtool(&["test", "rules"], &[test]).is_err()
    });
    if let Some(scene) = caught_by {
        scene.caught.fetch_add(1, Ordering::Relaxed);
    }
    caught_by.is_none()
}

/// All scenes of all files.
fn scenes(rules: &Rules) -> Vec<Scene> {
    let reads = rules.reads();
    let mut scenes = Vec::new();
    for file in test_files() {
        // Parsing resolves YAML aliases.
        let mut file_of_one: Value =
            serde_yaml::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        for scene in file_of_one["tests"].as_sequence().unwrap().clone() {
            file_of_one["tests"] = vec![scene].into();
            file_of_one["rule_files"] = vec!["../lockwatch.rules.yml"].into();
            let text = serde_yaml::to_string(&file_of_one).unwrap();
            let of = of(&file);
            let needs = needs(&text, &of, &reads);
            scenes.push(Scene { of, text, needs, caught: AtomicUsize::new(0) });
        }
    }
    scenes
}

/// Every mutant must still be valid: an unreadable rule fails all tests and proves nothing.
fn check_syntax(mutants: &[Mutant], folder: &Path) {
    let files: Vec<PathBuf> = mutants
        .iter()
        .enumerate()
        .map(|(number, mutant)| {
            let file = folder.join(format!("{number}.yml"));
            mutant.rules.only(&BTreeSet::from([mutant.rule.as_str()])).write(&file);
            file
        })
        .collect();
    promtool(&["check", "rules"], &files).unwrap();
}

/// Removes known equivalent mutants; panics if a known one does not exist any more.
fn drop_equivalent(mutants: &mut Vec<Mutant>) {
    for (rule, change, place, why) in EQUIVALENT {
        let before = mutants.len();
        mutants.retain(|mutant| {
            mutant.rule != *rule
                || !mutant.change.starts_with(change)
                || !mutant.place.contains(place)
        });
        assert!(
            mutants.len() < before,
            "no such change (any more): {rule}: {change} at: {place} ({why})"
        );
    }
}

fn mutants(rules: &Rules) -> Vec<Mutant> {
    let mut mutants = Vec::new();
    for (group, index) in places(rules) {
        let rule = &rules.groups[group].rules[index];
        let tests = tests_of_group(&rules.groups[group]);
        let mut add = |change: String, place: String, changed: Rule| {
            let mut rules = rules.clone();
            rules.groups[group].rules[index] = changed;
            let (rule, tests) = (rule.name().to_owned(), tests.clone());
            mutants.push(Mutant { rule, tests, change, place, rules });
        };
        let tokens = promql::tokens(&rule.expr);
        for (index, token) in tokens.iter().enumerate() {
            let place = || around(&rule.expr, &token.at);
            let text = &rule.expr[token.at.clone()];
            let replaced = |at: &Range<usize>, to: &str| Rule {
                expr: [&rule.expr[..at.start], to, &rule.expr[at.end..]].concat(),
                ..rule.clone()
            };
            for to in changes(token.kind, text) {
                add(format!("{text} to {to}"), place(), replaced(&token.at, &to));
            }
            if let Some(end) = promql::end_of_clause(&rule.expr, &tokens, index) {
                add(format!("without {text}"), place(), replaced(&(token.at.start..end), ""));
            }
        }
        if rule.hold.is_some() {
            for to in ["0s", "1h"] {
                add(
                    format!("for to {to}"),
                    String::new(),
                    Rule { hold: Some(to.to_owned()), ..rule.clone() },
                );
            }
        }
        if rule.keep_firing_for.is_some() {
            for to in ["0s", "1h"] {
                add(
                    format!("keep_firing_for to {to}"),
                    String::new(),
                    Rule { keep_firing_for: Some(to.to_owned()), ..rule.clone() },
                );
            }
        }
    }
    mutants
}

fn places(rules: &Rules) -> impl Iterator<Item = (usize, usize)> {
    rules
        .groups
        .iter()
        .enumerate()
        .flat_map(|(group, of)| (0..of.rules.len()).map(move |index| (group, index)))
}

fn tests_of_group(group: &Group) -> PathBuf {
    test_file(group.name.trim_start_matches("lockwatch."))
}

/// The replacements for a piece of an expression.
fn changes(kind: Kind, text: &str) -> Vec<String> {
    match (kind, text) {
        (Kind::Sign, ">") => vec!["<=".to_owned()],
        (Kind::Sign, "<") => vec![">=".to_owned()],
        (Kind::Sign, ">=") => vec!["<".to_owned()],
        (Kind::Sign, "<=") => vec![">".to_owned()],
        (Kind::Sign, "==") => vec!["!=".to_owned()],
        (Kind::Sign, "!=") => vec!["==".to_owned()],
        (Kind::Word, "and" | "or") => vec!["unless".to_owned()],
        (Kind::Word, "unless") => vec!["and".to_owned()],
        (Kind::Range, range) => {
            let step = range.find(':').map_or("]", |at| &range[at..]);
            let other = ["[1m", "[10h"].map(|time| format!("{time}{step}"));
            other.into_iter().filter(|other| other != range).collect()
        }
        _ => Vec::new(),
    }
}

/// The context of a piece of text, with the piece marked.
fn around(text: &str, at: &Range<usize>) -> String {
    const BEFORE: usize = 60;
    const AFTER: usize = 100;
    let before = &text[at.start.saturating_sub(BEFORE)..at.start];
    let after = &text[at.end..text.len().min(at.end + AFTER)];
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}»{}«{}", words(before), &text[at.clone()], words(after))
}

#[test]
fn each_file_of_tests_is_of_a_rule() {
    let rules = Rules::load();
    let alerts: BTreeSet<PathBuf> = rules.alerts().map(|(name, _)| test_file(name)).collect();
    let groups: BTreeSet<PathBuf> = rules.groups.iter().map(tests_of_group).collect();
    for file in test_files() {
        let of = of(&file);
        assert!(
            alerts.contains(&of) || groups.contains(&of),
            "{} tests no rule of {RULES}",
            file.display()
        );
    }
}
