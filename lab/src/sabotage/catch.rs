//! Parses the output of a failing part of the suite: which checks failed, which rules they name,
//! and why. Pure: works on the text that cargo prints.

use std::collections::BTreeMap;

/// Maximum number of timelines that are listed by name.
const TIMELINES_NAMED: usize = 3;
/// Maximum length of the first failure's message, in characters.
const SAID_CHARS: usize = 220;

/// A failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Catch {
    /// The tests that failed, as `program::test`.
    pub(super) checks: Vec<String>,
    /// The timelines that failed.
    pub(super) timelines: Vec<String>,
    /// The broken rules according to the output, the likeliest first, such as `6, confirmation`.
    pub(super) rules: Vec<String>,
    /// The messages of the first failures, one line each.
    pub(super) said: Vec<String>,
}

impl Catch {
    /// Parses the output of `cargo test`.
    pub(super) fn of(text: &str) -> Catch {
        Catch {
            checks: checks(text),
            timelines: timelines(text),
            rules: rules(text),
            said: said(text),
        }
    }

    /// The checks on one line.
    pub(super) fn shown(&self) -> String {
        let by = |names: &[String], most: usize| {
            let more = names.len().saturating_sub(most);
            let shown = names
                .iter()
                .take(most)
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ");
            if more > 0 { format!("{shown} and {more} more") } else { shown }
        };
        if !self.timelines.is_empty() {
            return format!("timelines {}", by(&self.timelines, TIMELINES_NAMED));
        }
        if self.checks.is_empty() {
            "the tests did not end".to_owned()
        } else {
            by(&self.checks, 2)
        }
    }
}

/// The first errors of the compiler.
pub(super) fn compiler_errors(text: &str) -> String {
    let errors: Vec<&str> = text.lines().filter(|line| line.starts_with("error")).take(2).collect();
    if errors.is_empty() { "cargo failed".to_owned() } else { errors.join("; ") }
}

/// Parses the failed tests. `Running tests/it/main.rs (…)` names the program of the tests that
/// follow.
fn checks(text: &str) -> Vec<String> {
    let mut program = "";
    let mut failed = Vec::new();
    for line in text.lines() {
        if let Some(running) = line.trim_start().strip_prefix("Running ") {
            let source =
                running.split(" (").next().unwrap_or_default().trim_start_matches("unittests ");
            program = source
                .trim_end_matches("/main.rs")
                .trim_end_matches(".rs")
                .rsplit('/')
                .next()
                .unwrap_or_default();
        }
        let name = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED"));
        failed.extend(
            name.map(|name| format!("{program}::{}", name.trim_end_matches(" - should panic"))),
        );
    }
    failed
}

/// Parses lines such as `name.timeline: line 7: at 5s: …`.
fn timelines(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for line in text.lines() {
        if let Some((name, _)) = line.split_once(".timeline: ")
            && !name.contains(' ')
            && !names.iter().any(|known| known == name)
        {
            names.push(name.to_owned());
        }
    }
    names
}

/// Parses the rules: tests name them on a line of their own, and the timelines with the number of
/// failures. The weights are those of `scripts/test`.
fn rules(text: &str) -> Vec<String> {
    let mut weights: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines().map(str::trim) {
        let Some((before, rule)) = line.split_once("breaks rule ") else { continue };
        let Some((rule, _)) = rule.split_once(':') else { continue };
        let weight = match before.split_whitespace().collect::<Vec<_>>().as_slice() {
            [] => 1_000,
            [failed, "of", all, "timelines:"] => {
                match (failed.parse::<u64>(), all.parse::<u64>()) {
                    (Ok(failed), Ok(all)) if all > 0 => 1_000 * failed * failed / all,
                    _ => continue,
                }
            }
            // A repetition of the line, next to the timeline itself.
            _ => continue,
        };
        *weights.entry(rule.to_owned()).or_default() += weight;
    }
    let mut rules: Vec<(u64, String)> =
        weights.into_iter().map(|(rule, weight)| (weight, rule)).collect();
    rules.sort_by(|a, b| b.cmp(a));
    rules.into_iter().map(|(_, rule)| rule).collect()
}

/// The messages after `thread … panicked at …:`.
fn said(text: &str) -> Vec<String> {
    let mut lines = text.lines();
    let mut said = Vec::new();
    while let Some(line) = lines.next() {
        if line.starts_with("thread '") && line.contains("panicked at") {
            let first =
                lines.by_ref().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            said.push(first.chars().take(SAID_CHARS).collect());
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/lockwatch_judge-16f)
test lock::tests::a ... ok
     Running tests/it/main.rs (target/debug/deps/it-6ad)
test timelines::every_timeline_holds ... FAILED

---- timelines::every_timeline_holds stdout ----

thread 'timelines::every_timeline_holds' (5) panicked at sim/tests/it/timelines.rs:60:5:


a.timeline: line 7: at 11s: wanted `expect held no`
    found: held is yes
a.timeline: breaks rule 7, gaps: A gap. (docs/how-it-decides.md)
b.timeline: line 9: at 11s: wanted `expect held no`
2 of 3 timelines failed
  1 of 4 timelines: breaks rule 7, gaps: A gap. (docs/how-it-decides.md)
  1 of 2 timelines: breaks rule 6, confirmation: A first. (docs/how-it-decides.md)
     Running tests/it/main.rs (target/debug/deps/it-6ad)
test agent::it - should panic ... FAILED
breaks rule 16, freshness: An agent. (docs/how-it-decides.md)
";

    #[test]
    fn a_failure_names_checks_timelines_and_rules() {
        let catch = Catch::of(TEXT);
        assert_eq!(catch.checks, ["it::timelines::every_timeline_holds", "it::agent::it"]);
        assert_eq!(catch.timelines, ["a", "b"]);
        assert_eq!(catch.rules, ["16, freshness", "6, confirmation", "7, gaps"]);
        assert_eq!(catch.said, ["a.timeline: line 7: at 11s: wanted `expect held no`"]);
        assert_eq!(catch.shown(), "timelines `a`, `b`");
    }

    #[test]
    fn what_the_compiler_says_is_told() {
        assert_eq!(
            compiler_errors("warning: x\nerror[E0308]: mismatched types\n"),
            "error[E0308]: mismatched types"
        );
    }
}
