//! Relabelling as Prometheus does it, of labels that are known in part: what service discovery will
//! find is not known here.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_yaml::Value;

use super::foreign::{list, named, pattern, text, texts};

/// Labels as far as they are known. A label that is not there has an empty value, as in
/// Prometheus.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct LabelSet {
    /// `None`: the label may be there, with any value.
    listed: BTreeMap<String, Option<String>>,
    others: Vec<Others>,
}

/// Labels that may be there and are not listed.
#[derive(Clone, Debug, PartialEq)]
struct Others {
    /// The beginning of their names.
    beginning: String,
    /// What their names must match, or must not.
    filters: Vec<(Pattern, bool)>,
}

impl LabelSet {
    /// The value of a label; `None` if it is not known.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        match self.listed.get(name) {
            Some(value) => value.as_deref(),
            None if self.others.iter().any(|others| others.may_have(name)) => None,
            None => Some(""),
        }
    }

    /// Whether a label is listed: it is there, or may be.
    pub(super) fn has(&self, name: &str) -> bool {
        self.listed.get(name).is_some_and(|value| value.as_deref() != Some(""))
    }

    /// The labels that it has.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.keys().map(String::as_str).filter(|name| self.has(name))
    }

    /// Sets a label. `None`: to a value that is not known. An empty value removes it.
    pub(super) fn set(&mut self, name: impl Into<String>, value: Option<String>) {
        self.listed.insert(name.into(), value);
    }

    /// Adds labels that it does not have.
    pub(super) fn add(&mut self, labels: &LabelSet) {
        for (name, value) in &labels.listed {
            if !self.has(name) {
                self.set(name, value.clone());
            }
        }
    }

    /// Removes a label.
    pub(super) fn remove(&mut self, name: &str) {
        self.set(name, Some(String::new()));
    }

    /// Any label may be there whose name begins so.
    pub(super) fn may_have(&mut self, beginning: &str) {
        self.others.push(Others { beginning: beginning.to_owned(), filters: Vec::new() });
    }

    /// Removes the labels of Prometheus itself, which begin with `__`.
    pub(super) fn remove_internal(&mut self) {
        const INTERNAL: &str = "__";
        self.others.retain(|others| !others.beginning.starts_with(INTERNAL));
        self.keep(|name| !name.starts_with(INTERNAL));
    }

    /// Keeps the listed labels with such names.
    fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        let gone = self.listed.iter_mut().filter(|(name, _)| !is_kept(name));
        gone.for_each(|(_, value)| *value = Some(String::new()));
    }
}

impl Others {
    fn may_have(&self, name: &str) -> bool {
        let is_left = |(pattern, keeps): &(Pattern, bool)| pattern.regex.is_match(name) == *keeps;
        name.starts_with(&self.beginning) && self.filters.iter().all(is_left)
    }
}

/// One step of relabelling.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    action: Action,
    sources: Vec<String>,
    separator: String,
    pattern: Pattern,
    target: String,
    replacement: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Replace,
    Keep,
    Drop,
    KeepEqual,
    DropEqual,
    HashMod,
    LabelMap,
    LabelDrop,
    LabelKeep,
    Lowercase,
    Uppercase,
}

const ACTIONS: [(&str, Action); 11] = [
    ("replace", Action::Replace),
    ("keep", Action::Keep),
    ("drop", Action::Drop),
    ("keepequal", Action::KeepEqual),
    ("dropequal", Action::DropEqual),
    ("hashmod", Action::HashMod),
    ("labelmap", Action::LabelMap),
    ("labeldrop", Action::LabelDrop),
    ("labelkeep", Action::LabelKeep),
    ("lowercase", Action::Lowercase),
    ("uppercase", Action::Uppercase),
];

#[derive(Clone, Debug)]
struct Pattern {
    text: String,
    regex: Regex,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

/// Reads a list of rules.
///
/// # Errors
/// What is wrong with one.
pub(super) fn rules(block: &Value, field: &str) -> Result<Vec<Rule>, String> {
    let read = |rule| Rule::read(rule).map_err(|message| format!("a rule in `{field}` {message}"));
    list(block, field)?.iter().map(read).collect()
}

/// Applies all rules in their order. Returns whether it is kept; if that is not known, it is.
pub(super) fn apply<'a>(rules: impl IntoIterator<Item = &'a Rule>, labels: &mut LabelSet) -> bool {
    rules.into_iter().all(|rule| rule.apply(labels))
}

impl Rule {
    fn read(rule: &Value) -> Result<Rule, String> {
        let field = |name: &str, default: &str| {
            rule.get(name).and_then(text).unwrap_or_else(|| default.to_owned())
        };
        let action = field("action", "replace");
        let known = ACTIONS.iter().find(|(name, _)| action.eq_ignore_ascii_case(name));
        let (_, action) =
            known.ok_or_else(|| format!("has an action that is none: {}", named(&action)))?;
        let pattern = field("regex", "(.*)");
        Ok(Rule {
            action: *action,
            sources: rule.get("source_labels").map(texts).unwrap_or_default(),
            separator: field("separator", ";"),
            pattern: Pattern { regex: self::pattern(&pattern)?, text: pattern },
            target: field("target_label", ""),
            replacement: field("replacement", "$1"),
        })
    }

    /// Returns whether it is kept.
    fn apply(&self, labels: &mut LabelSet) -> bool {
        let values: Option<Vec<&str>> = self.sources.iter().map(|name| labels.get(name)).collect();
        let value = values.map(|values| values.join(&self.separator));
        let is_equal = || Some(*labels.get(&self.target)? == *value.as_deref()?);
        match self.action {
            Action::Keep => return self.pattern.matches(value.as_deref()) != Some(false),
            Action::Drop => return self.pattern.matches(value.as_deref()) != Some(true),
            Action::KeepEqual => return is_equal() != Some(false),
            Action::DropEqual => return is_equal() != Some(true),
            Action::Replace => match value {
                Some(value) => self.replace(labels, &value),
                None => self.replace_unknown(labels),
            },
            Action::Lowercase => labels.set(&self.target, value.map(|it| it.to_lowercase())),
            Action::Uppercase => labels.set(&self.target, value.map(|it| it.to_uppercase())),
            // Which shard it is does not matter here.
            Action::HashMod => labels.set(&self.target, None),
            Action::LabelMap => self.map(labels),
            Action::LabelDrop => self.filter(labels, false),
            Action::LabelKeep => self.filter(labels, true),
        }
        true
    }

    fn replace(&self, labels: &mut LabelSet, value: &str) {
        let expanded = |template| self.pattern.expand(template, value);
        if let Some(target) = expanded(&self.target)
            && !target.is_empty()
        {
            labels.set(target, expanded(&self.replacement));
        }
    }

    /// What is replaced is not known. Its place may be, and what replaces it.
    fn replace_unknown(&self, labels: &mut LabelSet) {
        let Written::Whole(target) = written(&self.target) else {
            return labels.may_have(written(&self.target).beginning());
        };
        let value = match written(&self.replacement) {
            Written::Whole(value) => Some(value),
            Written::Beginning(_) => None,
        };
        let is_certain = self.pattern.matches(None) == Some(true) || value == labels.get(target);
        let value = value.filter(|_| is_certain).map(str::to_owned);
        labels.set(target, value);
    }

    /// Copies labels to names made of their own.
    fn map(&self, labels: &mut LabelSet) {
        let renamed = |name: &str| self.pattern.expand(&self.replacement, name);
        let copies: Vec<(String, Option<String>)> = labels
            .names()
            .filter_map(|name| Some((renamed(name)?, labels.get(name).map(str::to_owned))))
            .collect();
        copies.into_iter().for_each(|(name, value)| labels.set(name, value));
        // Then those that may be there.
        match self.pattern.names() {
            Some(names) => {
                let unknown = names.iter().filter(|name| labels.get(name).is_none());
                let made: Vec<String> = unknown.filter_map(|name| renamed(name)).collect();
                made.into_iter().for_each(|name| labels.set(name, None));
            }
            None => {
                let fits = |others: &Others| self.pattern.may_match(&others.beginning);
                if labels.others.iter().any(fits) {
                    match written(&self.replacement) {
                        Written::Whole(name) => labels.set(name, None),
                        Written::Beginning(beginning) => labels.may_have(beginning),
                    }
                }
            }
        }
    }

    fn filter(&self, labels: &mut LabelSet, keeps: bool) {
        labels.keep(|name| self.pattern.regex.is_match(name) == keeps);
        for others in &mut labels.others {
            others.filters.push((self.pattern.clone(), keeps));
        }
    }
}

impl Pattern {
    /// Whether it matches; `None` if that is not known.
    fn matches(&self, value: Option<&str>) -> Option<bool> {
        match value {
            Some(value) => Some(self.regex.is_match(value)),
            None => matches!(self.text.as_str(), "(.*)" | ".*").then_some(true),
        }
    }

    /// The template with the groups of the match filled in; `None` without a match.
    fn expand(&self, template: &str, value: &str) -> Option<String> {
        let captures = self.regex.captures(value)?;
        let mut text = String::new();
        captures.expand(template, &mut text);
        Some(text)
    }

    /// The names that it matches, if it spells them out: `a_b`, `a_(b|c)`.
    fn names(&self) -> Option<Vec<String>> {
        let (before, rest) = self.text.split_once('(').unwrap_or((&self.text, ")"));
        let (inside, after) = rest.rsplit_once(')')?;
        let is_plain = |text: &str| text.chars().all(is_of_name);
        let choices: Vec<&str> = inside.strip_prefix("?:").unwrap_or(inside).split('|').collect();
        let is_spelt_out = [before, after].iter().chain(&choices).all(|part| is_plain(part));
        is_spelt_out
            .then(|| choices.into_iter().map(|choice| format!("{before}{choice}{after}")).collect())
    }

    /// Whether it may match names that begin so.
    fn may_match(&self, beginning: &str) -> bool {
        let end = self.text.find(|c| !is_of_name(c)).unwrap_or(self.text.len());
        // The last letter before a sign may be optional.
        let plain = self.text.get(..end.saturating_sub(1)).unwrap_or_default();
        plain.starts_with(beginning) || beginning.starts_with(plain)
    }
}

/// A template, as far as it is known without the match.
enum Written<'a> {
    Whole(&'a str),
    Beginning(&'a str),
}

impl<'a> Written<'a> {
    fn beginning(&self) -> &'a str {
        match self {
            Written::Whole(text) | Written::Beginning(text) => text,
        }
    }
}

fn written(template: &str) -> Written<'_> {
    match template.split_once('$') {
        Some((beginning, _)) => Written::Beginning(beginning),
        None => Written::Whole(template),
    }
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `a=1 b=? c_*`: a value, one that is not known, a beginning.
    fn labels(text: &str) -> LabelSet {
        let mut labels = LabelSet::default();
        for word in text.split_whitespace() {
            match (word.split_once('='), word.strip_suffix('*')) {
                (Some((name, "?")), _) => labels.set(name, None),
                (Some((name, value)), _) => labels.set(name, Some(value.to_owned())),
                (None, beginning) => labels.may_have(beginning.unwrap()),
            }
        }
        labels
    }

    /// The same form, by name; `dropped` if it is not kept.
    fn relabelled(before: &str, rules: &str) -> String {
        let rules = format!("it: [{rules}]");
        let rules = super::rules(&serde_yaml::from_str(&rules).unwrap(), "it").unwrap();
        let mut labels = labels(before);
        if !apply(&rules, &mut labels) {
            return "dropped".to_owned();
        }
        let listed =
            labels.names().map(|name| format!("{name}={}", labels.get(name).unwrap_or("?")));
        let others = labels.others.iter().map(|others| format!("{}*", others.beginning));
        listed.chain(others).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn known_labels_become_what_prometheus_makes_of_them() {
        for (before, rule, after) in [
            ("a=1", "{target_label: b, replacement: x}", "a=1 b=x"),
            ("a=1", "{source_labels: [a], target_label: b}", "a=1 b=1"),
            ("a=1 b=2", "{source_labels: [a, b], target_label: c}", "a=1 b=2 c=1;2"),
            ("a=1 b=2", "{source_labels: [a, b], separator: '', target_label: c}", "a=1 b=2 c=12"),
            (
                "a=h:80",
                "{source_labels: [a], regex: '(.+):(\\d+)', target_label: '${1}_p', replacement: \
                 '$2'}",
                "a=h:80 h_p=80",
            ),
            ("a=1", "{source_labels: [a], regex: 2, target_label: b, replacement: x}", "a=1"),
            ("a=12", "{source_labels: [a], regex: 1, target_label: b, replacement: x}", "a=12"),
            ("a=1", "{source_labels: [z], target_label: a}", ""),
            ("a=1", "{target_label: a, replacement: ''}", ""),
            ("a=1", "{action: REPLACE, source_labels: [z], regex: '.+', target_label: a}", "a=1"),
            ("a=1", "{action: keep, source_labels: [a], regex: '1|2'}", "a=1"),
            ("a=1", "{action: keep, source_labels: [a], regex: '2'}", "dropped"),
            ("a=1", "{action: drop, source_labels: [a], regex: '1'}", "dropped"),
            ("a=1", "{action: drop, source_labels: [a], regex: '2'}", "a=1"),
            ("a=1 b=1", "{action: keepequal, source_labels: [a], target_label: b}", "a=1 b=1"),
            ("a=1 b=2", "{action: keepequal, source_labels: [a], target_label: b}", "dropped"),
            ("a=1 b=1", "{action: dropequal, source_labels: [a], target_label: b}", "dropped"),
            ("a=1 b=2", "{action: dropequal, source_labels: [a], target_label: b}", "a=1 b=2"),
            ("a_x=1 b=2", "{action: labelmap, regex: 'a_(.+)'}", "a_x=1 b=2 x=1"),
            ("a_x=1", "{action: labelmap, regex: 'a_(.+)', replacement: 'k_$1'}", "a_x=1 k_x=1"),
            ("a=1 ab=2", "{action: labeldrop, regex: a}", "ab=2"),
            ("a=1 ab=2", "{action: labelkeep, regex: a}", "a=1"),
            ("a=Ab", "{action: lowercase, source_labels: [a], target_label: b}", "a=Ab b=ab"),
            ("a=Ab", "{action: uppercase, source_labels: [a], target_label: a}", "a=AB"),
            (
                "a=1",
                "{action: hashmod, source_labels: [a], modulus: 2, target_label: b}",
                "a=1 b=?",
            ),
            ("a=1", "{target_label: b, replacement: x}, {action: labeldrop, regex: a|b}", ""),
        ] {
            assert_eq!(relabelled(before, rule), after, "{before}: {rule}");
        }
    }

    #[test]
    fn what_is_not_known_stays_so_and_what_follows_anyway_is_known() {
        for (before, rule, after) in [
            ("a=?", "{source_labels: [a], target_label: b}", "a=? b=?"),
            ("a=?", "{source_labels: [a], target_label: b, replacement: x}", "a=? b=x"),
            ("a=?", "{source_labels: [a], regex: y, target_label: b, replacement: x}", "a=? b=?"),
            (
                "a=? b=x",
                "{source_labels: [a], regex: y, target_label: b, replacement: x}",
                "a=? b=x",
            ),
            ("m_*", "{source_labels: [m_x], target_label: b}", "b=? m_*"),
            ("m_*", "{source_labels: [other], regex: '.+', target_label: b}", "m_*"),
            ("a=?", "{source_labels: [a], target_label: '${1}'}", "a=? *"),
            ("a=?", "{source_labels: [a], target_label: 'x_$1'}", "a=? x_*"),
            ("a=?", "{action: keep, source_labels: [a], regex: y}", "a=?"),
            ("a=?", "{action: drop, source_labels: [a], regex: y}", "a=?"),
            ("a=?", "{action: drop, source_labels: [a]}", "dropped"),
            ("a=?", "{action: keepequal, source_labels: [a], target_label: b}", "a=?"),
            ("a=?", "{action: dropequal, source_labels: [a], target_label: a}", "a=?"),
            ("a=?", "{action: lowercase, source_labels: [a], target_label: b}", "a=? b=?"),
            ("m_a=?", "{action: labelmap, regex: 'm_(.+)'}", "a=? m_a=?"),
            ("m_*", "{action: labelmap, regex: 'm_(.+)'}", "m_* *"),
            ("m_*", "{action: labelmap, regex: 'm_(.+)', replacement: 'k_$1'}", "m_* k_*"),
            ("m_*", "{action: labelmap, regex: 'm_(.+)', replacement: k}", "k=? m_*"),
            ("m_*", "{action: labelmap, regex: 'm_(?:task|team)', replacement: k}", "k=? m_*"),
            ("m_*", "{action: labelmap, regex: 'm_(task|team)'}", "task=? team=? m_*"),
            ("m_*", "{action: labelmap, regex: 'n_(.+)'}", "m_*"),
            ("m_*", "{action: labelmap, regex: 'n_task', replacement: task}", "m_*"),
            ("m_*", "{action: labelmap, regex: '.*_m', replacement: k}", "k=? m_*"),
        ] {
            assert_eq!(relabelled(before, rule), after, "{before}: {rule}");
        }
    }

    #[test]
    fn names_that_are_dropped_are_known_not_to_be_there() {
        let left = |rules: &str| {
            let rules = super::rules(&serde_yaml::from_str(rules).unwrap(), "it").unwrap();
            let mut labels = labels("m_*");
            assert!(apply(&rules, &mut labels));
            labels.remove_internal();
            ["env", "task", "m_x"].map(|name| labels.get(name).is_none())
        };
        assert_eq!(left("it: []"), [false, false, true]);
        assert_eq!(left("it: [{action: labelmap, regex: 'm_(.+)'}]"), [true, true, true]);
        let dropped = "it: [{action: labelmap, regex: 'm_(.+)'}, {action: labeldrop, regex: task}]";
        assert_eq!(left(dropped), [true, false, true]);
        let kept = "it: [{action: labelmap, regex: 'm_(.+)'}, {action: labelkeep, regex: 'e.+'}]";
        assert_eq!(left(kept), [true, false, false]);
        let mut internal = labels("__meta_* __address__=a b=c");
        internal.remove_internal();
        assert_eq!(internal.get("__meta_x"), Some(""));
        assert_eq!(internal.names().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn what_prometheus_would_not_load_is_told() {
        let refused =
            |text: &str| super::rules(&serde_yaml::from_str(text).unwrap(), "it").unwrap_err();
        for (wrong, says) in [
            ("it: {action: drop}", "`it` is no list"),
            ("it: [{action: rename}]", "a rule in `it` has an action that is none: `rename`"),
            ("it: [{regex: '('}]", "a rule in `it` has a pattern that is none"),
        ] {
            assert!(refused(wrong).starts_with(says), "{}", refused(wrong));
        }
    }
}
