//! The rules of truth, as named in docs/how-it-decides.md, so that a failing check can report the
//! broken rule.
#![allow(dead_code, reason = "shared by tests that each use a part of it")]

use std::vec::Vec;
use std::{eprintln, fmt, format};

const PAGE: &str = include_str!("../../../docs/how-it-decides.md");

/// One rule of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// Its number.
    pub(crate) number: u32,
    /// Its name.
    pub(crate) name: &'static str,
    /// Its text, in one sentence.
    pub(crate) sentence: &'static str,
}

impl fmt::Display for Rule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "breaks rule {}, {}: {} (docs/how-it-decides.md)",
            self.number, self.name, self.sentence
        )
    }
}

/// All rules, in the document's order.
pub(crate) fn all() -> Vec<Rule> {
    let sections = PAGE.split("\n### ").skip(1);
    sections
        .filter(|text| text.starts_with(|first: char| first.is_ascii_digit()))
        .map(of_section)
        .collect()
}

/// A section is a line `6. confirmation`, an empty line, the sentence, and more.
fn of_section(text: &'static str) -> Rule {
    let mut lines = text.lines();
    let (number, name) = lines
        .next()
        .and_then(|line| line.split_once(". "))
        .expect("docs/how-it-decides.md: `### 6. name`");
    let sentence = lines.nth(1).unwrap_or_default();
    Rule { number: number.parse().expect("docs/how-it-decides.md: a number"), name, sentence }
}

/// The rule with the name `6 confirmation`.
pub(crate) fn named(call: &str) -> Option<Rule> {
    all().into_iter().find(|rule| call == format!("{} {}", rule.number, rule.name))
}

/// For a test that guards a rule: `let _rule = rule("6 confirmation");` as its first line. If the
/// test fails, the rule is reported.
///
/// # Panics
/// When the document has no such rule.
pub(crate) fn rule(call: &str) -> Guards {
    Guards(named(call).unwrap_or_else(|| panic!("docs/how-it-decides.md has no rule `{call}`")))
}

/// Marks that a test that guards a rule is running.
pub(crate) struct Guards(Rule);

impl Drop for Guards {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("\n{}", self.0);
        }
    }
}
