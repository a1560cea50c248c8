//! A partial PromQL parser: finds what an expression reads, and changes one place of it.

use std::collections::BTreeSet;
use std::ops::Range;

/// Words, besides functions, that are neither metrics nor labels.
const KEYWORDS: [&str; 12] = [
    "and",
    "bool",
    "by",
    "group_left",
    "group_right",
    "ignoring",
    "offset",
    "on",
    "or",
    "unless",
    "without",
    "inf",
];
/// Words before a list of labels.
const LISTS: [&str; 6] = ["by", "group_left", "group_right", "ignoring", "on", "without"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name or a keyword.
    Word,
    /// `==`, `+`, `(`, `,`, …
    Sign,
    /// `[15m]`.
    Range,
    /// `{task="x"}`.
    Matchers,
    /// A string, a number or a duration.
    Literal,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) at: Range<usize>,
}

/// The series and labels that an expression reads.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// Series, each with the labels by which it is selected.
    pub(super) series: Vec<(String, Vec<String>)>,
    /// Labels by which series are grouped or matched.
    pub(super) labels: BTreeSet<String>,
}

/// Whether a text of tests asks for alerts without their name.
pub(super) fn asks_for_any_alert(text: &str) -> bool {
    let asked = text.split("ALERTS").skip(1);
    let mut matchers = asked.map(|after| after.split('}').next().unwrap_or_default());
    matchers.any(|matchers| {
        let names = ["alertname=\"", "alertname=\\\""];
        !matchers.starts_with('{') || !names.iter().any(|name| matchers.contains(name))
    })
}

/// Whether the expression names this series or alert.
pub(super) fn mentions(expr: &str, name: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
    expr.match_indices(name).any(|(at, _)| {
        let (before, after) = (&expr[..at], &expr[at + name.len()..]);
        !before.ends_with(is_part) && !after.starts_with(is_part)
    })
}

/// The tokens of an expression, without whitespace and comments.
pub(super) fn tokens(expr: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = expr[at..].chars().next() {
        let rest = &expr[at..];
        let (kind, length) = match first {
            '#' => (None, rest.find('\n').unwrap_or(rest.len())),
            blank if blank.is_whitespace() => (None, 1),
            '"' => (Some(Kind::Literal), string_length(rest)),
            '[' => (Some(Kind::Range), rest.find(']').expect(expr) + 1),
            '{' => (Some(Kind::Matchers), rest.find('}').expect(expr) + 1),
            digit if digit.is_ascii_digit() => (
                Some(Kind::Literal),
                span(rest, |letter| letter.is_ascii_alphanumeric() || letter == '.'),
            ),
            letter if letter.is_ascii_alphabetic() || letter == '_' => (
                Some(Kind::Word),
                span(rest, |letter| letter.is_ascii_alphanumeric() || "_:".contains(letter)),
            ),
            _ => {
                let two = ["==", "!=", ">=", "<="].iter().any(|sign| rest.starts_with(sign));
                (Some(Kind::Sign), if two { 2 } else { first.len_utf8() })
            }
        };
        if let Some(kind) = kind {
            tokens.push(Token { kind, at: at..at + length });
        }
        at += length;
    }
    tokens
}

fn span(text: &str, within: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !within(letter)).unwrap_or(text.len())
}

fn string_length(text: &str) -> usize {
    text[1..].find('"').expect(text) + 2
}

/// Finds what an expression reads. A word is a series unless it is a keyword, a function, or in a
/// list of labels.
pub(super) fn reads(expr: &str) -> Reads {
    let mut reads = Reads::default();
    let tokens = tokens(expr);
    let text = |token: &Token| &expr[token.at.clone()];
    let mut labels = false;
    for (index, token) in tokens.iter().enumerate() {
        let next = tokens.get(index + 1);
        match (token.kind, text(token)) {
            (Kind::Word, word) if labels => {
                reads.labels.insert(word.to_owned());
            }
            (Kind::Word, word) if LISTS.contains(&word) => labels = true,
            (Kind::Word, word)
                if KEYWORDS.contains(&word) || next.is_some_and(|next| text(next) == "(") => {}
            // An aggregation with its labels first: `max by (…) (…)`.
            (Kind::Word, _)
                if next
                    .is_some_and(|next| LISTS.contains(&text(next)) && !is_joined(text(next))) => {}
            // Series by a pattern of their names.
            (Kind::Matchers, matchers) if !follows_a_word(&tokens, index) => {
                let labels = matched_labels(matchers);
                reads.series.extend(names(matchers).map(|name| (name, labels.clone())));
            }
            (Kind::Word, series) => {
                let matchers = next.filter(|next| next.kind == Kind::Matchers).map_or("", text);
                reads.series.push((series.to_owned(), matched_labels(matchers)));
            }
            (Kind::Sign, ")") => labels = false,
            _ => {}
        }
    }
    reads
}

fn follows_a_word(tokens: &[Token], index: usize) -> bool {
    index.checked_sub(1).is_some_and(|before| tokens[before].kind == Kind::Word)
}

/// The names that `{__name__=~"a_(b|c)_d"}` stands for.
fn names(matchers: &str) -> impl Iterator<Item = String> {
    let pattern = matchers.split("__name__=~\"").nth(1).expect(matchers).split('"').next();
    let mut names = vec![String::new()];
    for piece in pattern.expect(matchers).split_inclusive(')') {
        let (before, choices) = piece.split_once('(').unwrap_or((piece, ")"));
        let choices: Vec<&str> = choices.trim_end_matches(')').split('|').collect();
        let longer = |name: &String| {
            choices.iter().map(|choice| format!("{name}{before}{choice}")).collect::<Vec<_>>()
        };
        names = names.iter().flat_map(longer).collect();
    }
    names.into_iter()
}

/// Where the right side of this `and`, `unless` or `or` ends; `None` for every other token.
pub(super) fn end_of_clause(expr: &str, tokens: &[Token], index: usize) -> Option<usize> {
    let text = |token: &Token| &expr[token.at.clone()];
    let ends: &[&str] = match text(&tokens[index]) {
        "and" | "unless" => &["and", "unless", "or"],
        "or" => &["or"],
        _ => return None,
    };
    let mut depth = 0;
    for token in &tokens[index + 1..] {
        match text(token) {
            "(" => depth += 1,
            ")" | "," if depth == 0 => return Some(token.at.start),
            ")" => depth -= 1,
            word if depth == 0 && ends.contains(&word) => return Some(token.at.start),
            _ => {}
        }
    }
    Some(expr.len())
}

/// Whether this list belongs to an operator between two series instead of an aggregation.
fn is_joined(list: &str) -> bool {
    !["by", "without"].contains(&list)
}

/// The labels in `{job=~"x", task!=""}`.
fn matched_labels(matchers: &str) -> Vec<String> {
    let inside = matchers.trim_start_matches('{').trim_end_matches('}');
    let matchers = inside.split(',').filter(|matcher| !matcher.trim().is_empty());
    matchers
        .map(|matcher| matcher[..matcher.find(['=', '!']).expect(inside)].trim().to_owned())
        .filter(|label| label != "__name__")
        .collect()
}

#[test]
fn an_expression_tells_what_it_reads() {
    let read = reads(
        "max without (job) (a:b:c{x=\"(\", y!~\"z\"} > 2 * time()) # or d\n unless on (task) \
         rate(e[5m] offset 4m) and f or vector(1)",
    );
    let series: Vec<&str> = read.series.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(series, ["a:b:c", "e", "f"]);
    assert_eq!(read.series[0].1, ["x", "y"]);
    assert_eq!(read.labels.iter().map(String::as_str).collect::<Vec<_>>(), ["job", "task"]);
    let read = reads("max({__name__=~\"a_(b|c)_(d|e)\", x=\"\"} > 0) or f{y=\"\"}");
    let series: Vec<&str> = read.series.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(series, ["a_b_d", "a_b_e", "a_c_d", "a_c_e", "f"]);
    assert_eq!(read.series[0].1, ["x"]);
    assert!(
        mentions("max(a:b:c)", "a:b:c")
            && !mentions("max(a:b:c)", "a:b")
            && !mentions("max(a:b:c)", "b:c")
    );
}

#[test]
fn a_clause_ends_where_the_next_of_its_rank_begins() {
    let clauses = |expr: &'static str| -> Vec<&str> {
        let tokens = tokens(expr);
        let end = |index: usize| Some((index, end_of_clause(expr, &tokens, index)?));
        let ends = (0..tokens.len()).filter_map(end);
        ends.map(|(index, end)| &expr[tokens[index].at.start..end]).collect()
    };
    let found = clauses("a and on (x) b unless (c or d) or e and f");
    assert_eq!(found, ["and on (x) b ", "unless (c or d) ", "or d", "or e and f", "and f"]);
    let found = clauses("label_join(a and on (x, y) b, \"to\", \"x\")");
    assert_eq!(found, ["and on (x, y) b"], "so does an argument");
}
