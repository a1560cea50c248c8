//! The matchers of Alertmanager: which alerts are meant.

use regex_lite::Regex;
use serde_yaml::Value;

use super::yaml::{pairs, texts};

/// What one label of an alert must be, or must not be.
#[derive(Clone, Debug)]
pub struct Matcher {
    label: String,
    negated: bool,
    value: Expected,
}

#[derive(Clone, Debug)]
enum Expected {
    Text(String),
    Pattern(Regex),
}

impl Matcher {
    /// The label that it looks at.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// Whether the label's value fits. A missing label compares as empty.
    pub fn matches(&self, value: &str) -> bool {
        let agrees = match &self.value {
            Expected::Text(text) => text == value,
            Expected::Pattern(pattern) => pattern.is_match(value),
        };
        agrees != self.negated
    }

    fn new(label: String, operator: &str, value: String) -> Result<Matcher, String> {
        let value = if operator.ends_with('~') {
            Expected::Pattern(pattern(&value)?)
        } else {
            Expected::Text(value)
        };
        Ok(Matcher { label, negated: operator.starts_with('!'), value })
    }
}

/// Reads all three kinds, each from the field named: lines of matchers, and the older mappings of
/// equal texts and of patterns.
///
/// # Errors
/// What cannot be parsed.
pub(super) fn matchers(block: &Value, fields: [&str; 3]) -> Result<Vec<Matcher>, String> {
    let [lines, equal, patterns] = fields;
    let mut all = Vec::new();
    for text in texts(block, lines) {
        all.extend(
            parse_matchers(&text).map_err(|problem| format!("the matcher {text:?} {problem}"))?,
        );
    }
    for (field, operator) in [(equal, "="), (patterns, "=~")] {
        for (label, value) in pairs(block, field) {
            all.push(Matcher::new(label, operator, value)?);
        }
    }
    Ok(all)
}

/// Parses one line of `matchers`: `a="b"`, or several as in `{a="b", c=~"d|e"}`.
fn parse_matchers(text: &str) -> Result<Vec<Matcher>, String> {
    let text = text.trim();
    let mut rest = text
        .strip_prefix('{')
        .and_then(|inner| inner.strip_suffix('}'))
        .unwrap_or(text)
        .trim_start();
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (label, after_label) = word(rest, &['=', '!'])?;
        let operator =
            ["=~", "!~", "!=", "="].into_iter().find(|operator| after_label.starts_with(operator));
        let operator = operator.ok_or("lacks =, !=, =~ or !~")?;
        let (value, after_value) = word(after_label.get(operator.len()..).unwrap_or(""), &[','])?;
        if label.is_empty() {
            return Err("names no label".to_owned());
        }
        all.push(Matcher::new(label, operator, value)?);
        rest = after_value.strip_prefix(',').unwrap_or(after_value).trim_start();
    }
    Ok(all)
}

/// The quoted text at the beginning, or else the text up to one of `ends`; and the rest.
fn word<'a>(text: &'a str, ends: &[char]) -> Result<(String, &'a str), String> {
    let text = text.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(ends).unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        return Ok((word.trim_end().to_owned(), rest));
    };
    let mut word = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                let rest = quoted.get(at + 1..).unwrap_or("").trim_start();
                return if rest.is_empty() || rest.starts_with(ends) {
                    Ok((word, rest))
                } else {
                    Err("goes on after its closing quote".to_owned())
                };
            }
            '\\' => match characters.next() {
                Some((_, 'n')) => word.push('\n'),
                Some((_, escaped @ ('"' | '\\'))) => word.push(escaped),
                // Other sequences are no escapes, as in Alertmanager's older parser: patterns
                // contain many backslashes.
                Some((_, other)) => word.extend(['\\', other]),
                None => break,
            },
            _ => word.push(character),
        }
    }
    Err("lacks its closing quote".to_owned())
}

/// A pattern that a whole value must match.
fn pattern(text: &str) -> Result<Regex, String> {
    Regex::new(&format!("^(?:{text})$"))
        .map_err(|error| format!("has a pattern that is none: {error}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(' ')
            .filter_map(|pair| pair.split_once('='))
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect()
    }

    #[test]
    fn matchers_are_read_in_all_their_forms() {
        let matches = |matcher: &str, alert: &str| {
            let labels = labels(alert);
            let value = |name: &str| labels.get(name).map_or("", String::as_str);
            parse_matchers(matcher).unwrap().iter().all(|it| it.matches(value(&it.label)))
        };
        for (matcher, yes, no) in [
            (r#"a="x""#, "a=x", "a=xx"),
            ("a=x", "a=x", ""),
            (" a = x ", "a=x", "a=y"),
            (r#"a!="x""#, "b=x", "a=x"),
            (r#"a=~"x|y""#, "a=y", "a=xy"),
            (r#"a=~"x.*""#, "a=x,y", "a=yx"),
            (r#"a!~"x|y.*""#, "", "a=yz"),
            (r#"a=~"\d{2,3}""#, "a=123", "a=1"),
            (r#"{a="x", b=~"y,z"}"#, "a=x b=y,z", "a=x b=y"),
            (r#"a=x,b!=y,"#, "a=x", "a=x b=y"),
            (r#"a="x\"\\n""#, r#"a=x"\n"#, "a=x"),
            (r#"a="""#, "b=c", "a=c"),
            (r#""a.b"=c"#, "a.b=c", "a=c"),
            ("{}", "a=x", "-"),
        ] {
            assert!(matches(matcher, yes), "{matcher} takes {yes}");
            assert!(no == "-" || !matches(matcher, no), "{matcher} does not take {no}");
        }
        for wrong in [r#"a="x"#, "a", r#"a="x"y"#, "=x", r#"a=~"(""#, r#"a="x\"#] {
            assert!(parse_matchers(wrong).is_err(), "{wrong}");
        }
    }
}
