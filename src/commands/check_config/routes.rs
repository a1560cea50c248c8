//! The routing tree of Alertmanager's configuration: which routes an alert takes, and how long they
//! delay it.

use std::collections::BTreeMap;

use regex_lite::Regex;
use serde_yaml::Value;

use crate::text::durations::parse_duration_ms;

/// Alertmanager's default `group_wait` in milliseconds: how long a new group waits for more alerts.
pub const GROUP_WAIT_DEFAULT_MS: u64 = 30_000;
/// Alertmanager's default `group_interval` in milliseconds: the same for a group that was already
/// notified.
const GROUP_INTERVAL_DEFAULT_MS: u64 = 300_000;

/// The labels of an alert.
pub type Labels = BTreeMap<String, String>;

/// All routes, as a tree.
#[derive(Clone, Debug)]
pub struct Routes(Route);

/// The route at which an alert ends, with its inherited settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The receiver of the notification.
    pub receiver: String,
    /// The labels that alerts of one group have in common; `...` stands for all.
    pub group_by: Vec<String>,
    /// How long a new group waits for more alerts, in milliseconds.
    pub group_wait_ms: u64,
    /// How long a group that was already notified waits before it reports another alert, in
    /// milliseconds.
    pub group_interval_ms: u64,
}

#[derive(Clone, Debug)]
struct Route {
    destination: Destination,
    matchers: Vec<Matcher>,
    goes_on: bool,
    children: Vec<Route>,
}

#[derive(Clone, Debug)]
struct Matcher {
    label: String,
    negated: bool,
    value: Expected,
}

#[derive(Clone, Debug)]
enum Expected {
    Text(String),
    Pattern(Regex),
}

impl Routes {
    /// Reads the routes from the whole configuration.
    ///
    /// # Errors
    /// What cannot be parsed.
    pub fn read(configuration: &Value) -> Result<Routes, String> {
        let top = configuration
            .get("route")
            .ok_or("has no `route`; name Alertmanager's configuration file")?;
        let defaults = Destination {
            receiver: String::new(),
            group_by: Vec::new(),
            group_wait_ms: GROUP_WAIT_DEFAULT_MS,
            group_interval_ms: GROUP_INTERVAL_DEFAULT_MS,
        };
        Ok(Routes(Route::read(top, &defaults)?))
    }

    /// Where an alert with these labels ends: at each level the first matching child, and after
    /// `continue` also the following ones.
    pub fn destinations(&self, labels: &Labels) -> Vec<&Destination> {
        let mut found = Vec::new();
        self.0.collect(labels, &mut found);
        found
    }
}

impl Destination {
    /// Whether alerts of different tasks may share a group.
    pub fn spans_tasks(&self) -> bool {
        !self.group_by.iter().any(|name| name == "task" || name == "...")
    }
}

impl Route {
    /// Fields that a route omits are inherited from its parent.
    fn read(route: &Value, parent: &Destination) -> Result<Route, String> {
        let ms = |field: &str, inherited: u64| {
            let given = route.get(field).map_or(Ok(None), foreign_duration_ms);
            given.map(|ms| ms.unwrap_or(inherited)).map_err(|message| format!("{field} {message}"))
        };
        let text = |field: &str| route.get(field).and_then(Value::as_str).map(str::to_owned);
        let destination = Destination {
            receiver: text("receiver").unwrap_or_else(|| parent.receiver.clone()),
            group_by: route.get("group_by").map_or_else(|| parent.group_by.clone(), texts),
            group_wait_ms: ms("group_wait", parent.group_wait_ms)?,
            group_interval_ms: ms("group_interval", parent.group_interval_ms)?,
        };
        let children = route.get("routes").and_then(Value::as_sequence).into_iter().flatten();
        Ok(Route {
            matchers: matchers(route)?,
            goes_on: route.get("continue").and_then(Value::as_bool).unwrap_or(false),
            children: children
                .map(|child| Route::read(child, &destination))
                .collect::<Result<_, _>>()?,
            destination,
        })
    }

    /// Whether the route matches the alert. Adds the routes where it ends.
    fn collect<'a>(&'a self, labels: &Labels, found: &mut Vec<&'a Destination>) -> bool {
        if !self.matchers.iter().all(|matcher| matcher.matches(labels)) {
            return false;
        }
        let mut taken = false;
        for child in &self.children {
            if child.collect(labels, found) {
                taken = true;
                if !child.goes_on {
                    break;
                }
            }
        }
        if !taken {
            found.push(&self.destination);
        }
        true
    }
}

impl Matcher {
    /// A missing label compares as empty.
    fn matches(&self, labels: &Labels) -> bool {
        let value = labels.get(&self.label).map_or("", String::as_str);
        let agrees = match &self.value {
            Expected::Text(text) => text == value,
            Expected::Pattern(pattern) => pattern.is_match(value),
        };
        agrees != self.negated
    }

    fn new(label: String, operator: &str, value: String) -> Result<Matcher, String> {
        let value = if operator.ends_with('~') { pattern(&value)? } else { Expected::Text(value) };
        Ok(Matcher { label, negated: operator.starts_with('!'), value })
    }
}

/// Reads all three kinds: `matchers`, and the older `match` and `match_re`.
fn matchers(route: &Value) -> Result<Vec<Matcher>, String> {
    let mut all = Vec::new();
    for text in route.get("matchers").map(texts).unwrap_or_default() {
        all.extend(
            parse_matchers(&text).map_err(|problem| format!("the matcher {text:?} {problem}"))?,
        );
    }
    for (field, operator) in [("match", "="), ("match_re", "=~")] {
        for (label, value) in route.get(field).map(pairs).unwrap_or_default() {
            all.push(Matcher::new(label, operator, value)?);
        }
    }
    Ok(all)
}

/// A pattern that the whole value must match.
fn pattern(text: &str) -> Result<Expected, String> {
    let compiled = Regex::new(&format!("^(?:{text})$"))
        .map_err(|error| format!("has a pattern that is none: {error}"))?;
    Ok(Expected::Pattern(compiled))
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

fn texts(list: &Value) -> Vec<String> {
    list.as_sequence().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A mapping of plain values; empty for any other value.
pub(super) fn pairs(map: &Value) -> Labels {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    let entries = map.as_mapping().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect()
}

/// A duration as Prometheus and Alertmanager parse it, in milliseconds. There a bare 0 needs no
/// unit, and an empty value counts as absent.
pub(super) fn foreign_duration_ms(value: &Value) -> Result<Option<u64>, String> {
    match value {
        Value::Null => Ok(None),
        Value::Number(number) if number.as_u64() == Some(0) => Ok(Some(0)),
        Value::String(text) if text == "0" => Ok(Some(0)),
        Value::String(text) => parse_duration_ms(text).map(Some),
        _ => Err("is not text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(text: &str) -> Result<Routes, String> {
        Routes::read(&serde_yaml::from_str(text).unwrap())
    }

    fn labels(text: &str) -> Labels {
        text.split(' ')
            .filter_map(|pair| pair.split_once('='))
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
            .collect()
    }

    fn receivers(routes: &str, alert: &str) -> Vec<String> {
        let routes = self::routes(routes).unwrap();
        routes
            .destinations(&labels(alert))
            .into_iter()
            .map(|destination| destination.receiver.clone())
            .collect()
    }

    #[test]
    fn matchers_are_read_in_all_their_forms() {
        let matches = |matcher: &str, alert: &str| {
            parse_matchers(matcher).unwrap().iter().all(|matcher| matcher.matches(&labels(alert)))
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

    #[test]
    fn the_first_child_that_takes_it_wins_unless_it_lets_go_on() {
        let tree = "route: {receiver: top, routes: [\
            {receiver: copy, matchers: ['a=~\".+\"'], continue: true}, \
            {receiver: old, match: {a: x}, match_re: {b: 'y|z'}}, \
            {matchers: ['a=x'], routes: [{receiver: deep, match: {c: 1}}]}, \
            {receiver: late, match: {a: x}}]}";
        assert_eq!(receivers(tree, ""), ["top"]);
        assert_eq!(receivers(tree, "a=w"), ["copy"]);
        assert_eq!(receivers(tree, "a=x b=z"), ["copy", "old"]);
        assert_eq!(receivers(tree, "a=x b=yz"), ["copy", "top"]);
        assert_eq!(receivers(tree, "a=x c=1"), ["copy", "deep"]);
    }

    #[test]
    fn what_a_route_does_not_say_it_has_from_its_parent() {
        let tree = "route: {receiver: top, group_by: [alertname], routes: [{match: {a: x}, \
            group_wait: 5s, routes: \
                    [{match: {b: y}, group_by: ['...'], group_interval: 1m}]}]}";
        let routes = routes(tree).unwrap();
        let at = |alert: &str| {
            let labels = labels(alert);
            let destinations = routes.destinations(&labels);
            let only = destinations.first().unwrap();
            (only.group_wait_ms, only.group_interval_ms, only.spans_tasks())
        };
        assert_eq!(at(""), (30_000, 300_000, true));
        assert_eq!(at("a=x"), (5_000, 300_000, true));
        assert_eq!(at("a=x b=y"), (5_000, 60_000, false));
    }

    #[test]
    fn a_zero_needs_no_unit_and_what_is_left_empty_is_not_said() {
        for (written, ms) in [("0", 0), ("'0'", 0), ("0s", 0), ("", 7_000), ("null", 7_000)] {
            let tree = format!(
                "route: {{group_wait: 7s, routes: [{{match: {{a: x}}, group_wait: {written}}}]}}"
            );
            assert_eq!(
                routes(&tree).unwrap().destinations(&labels("a=x"))[0].group_wait_ms,
                ms,
                "{written}"
            );
        }
    }

    #[test]
    fn what_is_no_configuration_of_alertmanager_says_so() {
        assert!(routes("global: {}").unwrap_err().contains("has no `route`"));
        assert!(
            routes("route: {group_wait: soon}")
                .unwrap_err()
                .starts_with("group_wait is not a duration")
        );
        assert!(
            routes("route: {group_wait: 5}").unwrap_err().starts_with("group_wait is not text")
        );
        assert!(
            routes("route: {matchers: ['a']}").unwrap_err().starts_with("the matcher \"a\" lacks")
        );
    }
}
