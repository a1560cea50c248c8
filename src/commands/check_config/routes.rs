//! The routing tree of Alertmanager's configuration: which routes an alert takes, and how long they
//! delay it.

use std::collections::{BTreeMap, BTreeSet};

use regex_lite::Regex;
use serde_yaml::Value;

pub use super::foreign::Labels;
use super::foreign::{all_named, duration_ms, is_on, list, named, pairs, pattern, text, texts};

/// Alertmanager's default `group_wait` in milliseconds: how long a new group waits for more alerts.
pub const GROUP_WAIT_DEFAULT_MS: u64 = 30_000;
/// Alertmanager's default `group_interval` in milliseconds: the same for a group that was already
/// notified.
const GROUP_INTERVAL_DEFAULT_MS: u64 = 300_000;

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
    /// Whether the receiver notifies anybody. One without a single configuration does not.
    pub notifies: bool,
    /// The fields that keep it silent at times, with their intervals, for people. A route does not
    /// inherit them.
    pub silent_at: Option<String>,
}

/// Where an alert may end.
#[derive(Debug, Default)]
pub(super) struct Ends<'a> {
    pub(super) destinations: Vec<&'a Destination>,
    /// Labels whose values are not known, and that the destinations depend on.
    pub(super) undecided: BTreeSet<&'a str>,
}

/// Whether each receiver notifies anybody.
type Receivers = BTreeMap<String, bool>;

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
            notifies: false,
            silent_at: None,
        };
        let top = Route::read(top, &defaults, &receivers(configuration)?)?;
        if top.destination.receiver.is_empty() {
            return Err(
                "the top `route` has no `receiver`; a receiver called null needs quotes".to_owned()
            );
        }
        if !top.matchers.is_empty() || top.destination.silent_at.is_some() {
            return Err("the top `route` does not take every alert at all times; Alertmanager \
                        refuses that"
                .to_owned());
        }
        Ok(Routes(top))
    }

    /// Where an alert with these labels ends: at each level the first matching child, and after
    /// `continue` also the following ones.
    pub fn destinations(&self, labels: &Labels) -> Vec<&Destination> {
        let mut ends = Ends::default();
        self.collect(|name| Some(labels.get(name).map_or("", String::as_str)), &mut ends);
        ends.destinations
    }

    /// Adds where an alert may end. `value` returns `None` for a label that is not known.
    pub(super) fn collect<'a, 'l>(
        &'a self,
        value: impl Fn(&str) -> Option<&'l str>,
        ends: &mut Ends<'a>,
    ) {
        self.0.collect(&value, ends);
    }
}

/// Reads which receivers there are.
fn receivers(configuration: &Value) -> Result<Receivers, String> {
    let notifies = |receiver: &Value| {
        let fields = receiver.as_mapping().into_iter().flatten();
        let is_configured = |(field, entries): (&Value, &Value)| {
            field.as_str().is_some_and(|field| field.ends_with("_configs"))
                && entries.as_sequence().is_some_and(|entries| !entries.is_empty())
        };
        fields.into_iter().any(is_configured)
    };
    let all = list(configuration, "receivers")?.iter();
    let named = all.filter_map(|receiver| Some((text(receiver.get("name")?)?, notifies(receiver))));
    Ok(named.collect())
}

impl Ends<'_> {
    /// Whether more must be known to say where it ends.
    pub(super) fn are_undecided(&self) -> bool {
        let next = self.destinations.iter().skip(1);
        !self.undecided.is_empty() && self.destinations.iter().zip(next).any(|(a, b)| a != b)
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
    fn read(route: &Value, parent: &Destination, receivers: &Receivers) -> Result<Route, String> {
        let ms = |field: &str, inherited: u64| {
            let given = route.get(field).map_or(Ok(None), duration_ms);
            given.map(|ms| ms.unwrap_or(inherited)).map_err(|message| format!("{field} {message}"))
        };
        let named_texts = |field: &str| route.get(field).map(texts).unwrap_or_default();
        let receiver = route.get("receiver").and_then(text).filter(|name| !name.is_empty());
        let notifies = match &receiver {
            Some(name) => *receivers.get(name).ok_or_else(|| {
                format!("a route names the receiver {}, which is not in `receivers`", named(name))
            })?,
            None => parent.notifies,
        };
        // An empty list counts as absent.
        let group_by = Some(named_texts("group_by")).filter(|names| !names.is_empty());
        let silent_at: Vec<String> = ["mute_time_intervals", "active_time_intervals"]
            .into_iter()
            .map(|field| (field, named_texts(field)))
            .filter(|(_, names)| !names.is_empty())
            .map(|(field, names)| {
                format!("{}: {}", named(field), all_named(names.iter().map(String::as_str)))
            })
            .collect();
        let destination = Destination {
            receiver: receiver.unwrap_or_else(|| parent.receiver.clone()),
            group_by: group_by.unwrap_or_else(|| parent.group_by.clone()),
            group_wait_ms: ms("group_wait", parent.group_wait_ms)?,
            group_interval_ms: ms("group_interval", parent.group_interval_ms)?,
            notifies,
            silent_at: Some(silent_at.join("; ")).filter(|fields| !fields.is_empty()),
        };
        let children = list(route, "routes")?.iter();
        Ok(Route {
            matchers: matchers(route)?,
            goes_on: is_on(route.get("continue")),
            children: children
                .map(|child| Route::read(child, &destination, receivers))
                .collect::<Result<_, _>>()?,
            destination,
        })
    }

    /// Whether the route takes the alert, if that is known. Adds the routes where it may end.
    fn collect<'a, 'l>(
        &'a self,
        value: &impl Fn(&str) -> Option<&'l str>,
        ends: &mut Ends<'a>,
    ) -> Option<bool> {
        let matches = |matcher: &Matcher| Some(matcher.matches(value(&matcher.label)?));
        if self.matchers.iter().any(|matcher| matches(matcher) == Some(false)) {
            return Some(false);
        }
        let unknown = self.matchers.iter().filter(|matcher| matches(matcher).is_none());
        let unknown: Vec<&str> = unknown.map(|matcher| matcher.label.as_str()).collect();
        ends.undecided.extend(&unknown);
        let mut goes_further = false;
        for child in &self.children {
            if child.collect(value, ends) == Some(true) {
                goes_further = true;
                if !child.goes_on {
                    break;
                }
            }
        }
        if !goes_further {
            ends.destinations.push(&self.destination);
        }
        unknown.is_empty().then_some(true)
    }
}

impl Matcher {
    /// A missing label compares as empty.
    fn matches(&self, value: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the routes, with receivers of all names that the tests use.
    fn routes(text: &str) -> Result<Routes, String> {
        let names = ["top", "copy", "old", "deep", "late"];
        let receivers: String =
            names.iter().map(|name| format!("  - {{name: {name}, x_configs: [~]}}\n")).collect();
        let text = format!("{text}\nreceivers:\n{receivers}  - {{name: 'null', x_configs: []}}\n");
        Routes::read(&serde_yaml::from_str(&text).unwrap())
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
                "route: {{receiver: top, group_wait: 7s, routes: [{{match: {{a: x}}, group_wait: \
                 {written}}}]}}"
            );
            assert_eq!(
                routes(&tree).unwrap().destinations(&labels("a=x"))[0].group_wait_ms,
                ms,
                "{written}"
            );
        }
    }

    #[test]
    fn what_is_not_known_leaves_every_route_open_that_may_be_taken() {
        let tree = "route: {receiver: top, routes: [\
            {receiver: copy, matchers: ['a=x', 'b=y']}, \
            {receiver: old, matchers: ['c=z'], routes: [{receiver: deep, matchers: ['b!=y']}]}, \
            {receiver: late, matchers: ['a=x']}]}";
        let routes = routes(tree).unwrap();
        for (known, receivers, undecided) in [
            ("a=x b=y c=z", "copy", ""),
            ("a=w c=z", "old deep", "b"),
            ("a=x c=z b=w", "deep", ""),
            ("a=x c=z", "copy deep old", "b"),
            ("b=w", "deep late top", "a c"),
            ("c=w b=w", "late top", "a"),
        ] {
            let labels = labels(known);
            let mut ends = Ends::default();
            routes.collect(|name| labels.get(name).map(String::as_str), &mut ends);
            let mut found: Vec<&str> =
                ends.destinations.iter().map(|end| end.receiver.as_str()).collect();
            let mut expected: Vec<&str> = receivers.split(' ').collect();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{known}");
            let undecided: Vec<&str> = undecided.split_whitespace().collect();
            assert_eq!(ends.undecided.into_iter().collect::<Vec<_>>(), undecided, "{known}");
        }
    }

    #[test]
    fn who_tells_nobody_and_when_is_known() {
        let tree = "route: {receiver: 'null', routes: [{match: {a: x}, receiver: top, \
            mute_time_intervals: [nights, weekends], active_time_intervals: [days], \
            routes: [{match: {b: y}}, {match: {b: z}, receiver: 'null'}]}]}";
        let routes = routes(tree).unwrap();
        let muted = "`mute_time_intervals`: `nights`, `weekends`; `active_time_intervals`: `days`";
        for (alert, notifies, silent_at) in [
            ("", false, None),
            ("a=x", true, Some(muted)),
            ("a=x b=y", true, None),
            ("a=x b=z", false, None),
        ] {
            let labels = labels(alert);
            let [only] = routes.destinations(&labels)[..] else { panic!("{alert}") };
            assert_eq!(
                (only.notifies, only.silent_at.as_deref()),
                (notifies, silent_at),
                "{alert}"
            );
        }
    }

    #[test]
    fn what_is_no_configuration_of_alertmanager_says_so() {
        for (text, says) in [
            ("global: {}", "has no `route`; name Alertmanager's configuration file"),
            ("route: {receiver: top, group_wait: soon}", "group_wait is not a duration"),
            ("route: {receiver: top, group_wait: 5}", "group_wait is not text"),
            ("route: {receiver: top, matchers: ['a']}", "the matcher \"a\" lacks"),
            ("route: {receiver: top, routes: {a: b}}", "`routes` is no list"),
            ("route: {receiver: nobody}", "a route names the receiver `nobody`, which is not in"),
            (
                "route: {receiver: top, routes: [{routes: [{receiver: \"\\e\"}]}]}",
                "a route names the receiver `\\x1b`, which is not in `receivers`",
            ),
            ("route: {group_by: [a], routes: [{receiver: top}]}", "the top `route` has no `rec"),
            (
                "route: {receiver: null}",
                "the top `route` has no `receiver`; a receiver called null",
            ),
            ("route: {receiver: top, match: {a: b}}", "the top `route` does not take every alert"),
            (
                "route: {receiver: top, active_time_intervals: [days]}",
                "the top `route` does not take every alert",
            ),
        ] {
            let message = routes(text).unwrap_err();
            assert!(message.starts_with(says), "{text}: {message}");
        }
        let nobody = serde_yaml::from_str("route: {receiver: top}").unwrap();
        assert!(Routes::read(&nobody).unwrap_err().contains("the receiver `top`, which is not in"));
    }
}
