//! Parses the text of a timeline, line by line.

use super::text::{Want, duration};
use crate::truth::{self, Rule};

/// A whole timeline.
#[derive(Debug)]
pub(crate) struct Script {
    /// The rules of truth that it guards.
    pub(crate) rules: Vec<Rule>,
    /// Words of the `config` lines.
    pub(crate) config: Vec<(usize, Vec<String>)>,
    /// All other lines, sorted by instant.
    pub(crate) lines: Vec<Line>,
    /// The last instant that is mentioned.
    pub(crate) end: u64,
}

impl Script {
    /// Number of lines with checks.
    pub(crate) fn checks(&self) -> usize {
        self.lines.iter().filter(|line| !matches!(line.what, What::Verb(_))).count()
    }
}

/// One line.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Line number in the file.
    pub(crate) number: usize,
    /// Text of the line.
    pub(crate) text: String,
    /// When it begins.
    pub(crate) from: u64,
    /// When it ends; equal to the beginning except for ranges.
    pub(crate) until: u64,
    /// The meaning of the line.
    pub(crate) what: What,
}

/// The kinds of lines.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Words of a verb.
    Verb(Vec<String>),
    /// All checks hold now.
    Expect(Vec<Check>),
    /// Not all hold at the beginning of the range, and all hold at some instant within it.
    Becomes(Vec<Check>),
    /// All hold at each instant within the range.
    Always(Vec<Check>),
    /// They never all hold within the range.
    Never(Vec<Check>),
}

/// A single check.
#[derive(Clone, Debug)]
pub(crate) enum Check {
    /// A field of the view.
    Field { name: String, want: Want },
    /// Events since the event checks of an earlier line.
    Event { count: Option<u64>, words: Vec<String> },
}

/// Parses a timeline.
///
/// # Errors
/// Returns the line and the mistake in it.
pub(crate) fn parse(text: &str) -> Result<Script, String> {
    if !text.starts_with("# ") {
        return Err(
            "line 1: a timeline begins with `# ` and a sentence that says what it shows".to_owned()
        );
    }
    let mut script = Script { rules: Vec::new(), config: Vec::new(), lines: Vec::new(), end: 0 };
    let mut range = None;
    let mut latest = 0;
    for (index, raw) in text.lines().enumerate() {
        let number = index + 1;
        let line = raw.split('#').next().unwrap_or_default().trim_end();
        if line.trim().is_empty() {
            continue;
        }
        let at = |why: String| format!("line {number}: {why}");
        if let Some(call) = line.strip_prefix("rule: ") {
            let rule = truth::named(call)
                .ok_or_else(|| at(format!("docs/how-it-decides.md has no rule `{call}`")))?;
            script.rules.push(rule);
            continue;
        }
        if let Some(config) = line.strip_prefix("config ") {
            script.config.push((number, words(config)));
            continue;
        }
        let statement = if line.starts_with(char::is_whitespace) {
            line.trim()
        } else {
            let (instant, statement) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let next = instants(instant).map_err(at)?;
            if next.0 == next.1 {
                if next.0 < latest {
                    return Err(at(format!("{instant} lies before an instant above")));
                }
                latest = next.0;
            }
            range = Some(next);
            statement.trim()
        };
        let range = range.ok_or_else(|| at("the first line needs an instant".to_owned()))?;
        let lines = statements(number, range, statement).map_err(at)?;
        script.end = lines.iter().map(|line| line.until).fold(script.end, u64::max);
        script.lines.extend(lines);
    }
    script.lines.sort_by_key(|line| line.from);
    Ok(script)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Parses `12s` or `12s..20s`.
fn instants(text: &str) -> Result<(u64, u64), String> {
    let (from, until) = text.split_once("..").unwrap_or((text, text));
    let (from, until) = (duration(from)?, duration(until)?);
    if from <= until { Ok((from, until)) } else { Err(format!("{text} runs backwards")) }
}

fn statements(number: usize, (from, until): (u64, u64), text: &str) -> Result<Vec<Line>, String> {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let line = |from, until, what| Line { number, text: text.to_owned(), from, until, what };
    let what = match first {
        "expect" => What::Expect(checks(rest)?),
        "becomes" => What::Becomes(checks(rest)?),
        "always" => What::Always(checks(rest)?),
        "never" => What::Never(checks(rest)?),
        "every" => return repeated(line, (from, until), rest),
        _ => What::Verb(words(text)),
    };
    let ranged = matches!(what, What::Becomes(_) | What::Always(_) | What::Never(_));
    if ranged != (from < until) {
        return Err(
            "`becomes`, `always`, `never` and `every` need a range of time, anything else an \
             instant"
                .to_owned(),
        );
    }
    Ok(vec![line(from, until, what)])
}

/// Expands `FROM..UNTIL every 5s VERB`: the verb at the beginning of the range, and again after
/// each interval up to its end.
fn repeated(
    line: impl Fn(u64, u64, What) -> Line,
    (from, until): (u64, u64),
    rest: &str,
) -> Result<Vec<Line>, String> {
    let (every, verb) = rest.trim().split_once(char::is_whitespace).ok_or("every what?")?;
    let every = duration(every)?;
    if every == 0 || from == until {
        return Err("`every` needs a pause and a range of time".to_owned());
    }
    let mut instants = Vec::new();
    let mut at = from;
    while at <= until {
        instants.push(line(at, at, What::Verb(words(verb))));
        at += every;
    }
    Ok(instants)
}

fn checks(text: &str) -> Result<Vec<Check>, String> {
    text.split(',').map(|check| one_check(&check.split_whitespace().collect::<Vec<_>>())).collect()
}

fn one_check(words: &[&str]) -> Result<Check, String> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    match words {
        ["event", words @ ..] if !words.is_empty() => {
            Ok(Check::Event { count: None, words: owned(words) })
        }
        ["no", "event", words @ ..] if !words.is_empty() => {
            Ok(Check::Event { count: Some(0), words: owned(words) })
        }
        [count, "event" | "events", words @ ..] if !words.is_empty() => {
            let count = count.parse().map_err(|_| format!("`{count}` is no count of events"))?;
            Ok(Check::Event { count: Some(count), words: owned(words) })
        }
        [name, want @ ..] => {
            Ok(Check::Field { name: (*name).to_owned(), want: Want::parse(want)? })
        }
        [] => Err("an empty check".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_read_line_by_line() {
        let script = parse(
            "# It shows.\nconfig grace 10s\n\
            0s  A locks 30s\n    switch anna on # why\n5s..7s becomes verdict running\n",
        )
        .expect("readable");
        assert_eq!(script.config.len(), 1);
        assert_eq!(script.lines.iter().map(|line| line.from).collect::<Vec<_>>(), [0, 0, 5_000]);
        assert_eq!(script.end, 7_000);
    }

    #[test]
    fn a_repeated_verb_happens_at_both_ends_of_its_range() {
        let script = parse("# It shows.\n10s..20s every 5s A locks 1s\n12s expect held no\n")
            .expect("readable");
        assert_eq!(
            script.lines.iter().map(|line| line.from).collect::<Vec<_>>(),
            [10_000, 12_000, 15_000, 20_000]
        );
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, line) in [
            ("0s A locks 30s\n", "line 1"),
            ("# x\n5s A locks 30s\n3s A unlocks\n", "line 3"),
            ("# x\n5s becomes held yes\n", "line 2"),
            ("# x\n5s..9s expect held yes\n", "line 2"),
            ("# x\n  expect held yes\n", "line 2"),
            ("# x\n5s expect held\n", "line 2"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(line), "{text}: {error}");
        }
    }

    #[test]
    fn wanted_values() {
        use super::super::text::Found;
        for (words, found, holds) in [
            (vec!["4s", "±", "100ms"], Found::Ms(4_100), true),
            (vec!["4s", "±", "100ms"], Found::Ms(4_101), false),
            (vec![">", "4s"], Found::Ms(4_000), false),
            (vec!["<=", "3"], Found::Count(3), true),
            (vec!["2s..3s"], Found::Ms(1_999), false),
            (vec!["none"], Found::Word("none".to_owned()), true),
            (vec!["none"], Found::Ms(0), false),
            (vec!["0"], Found::Ms(0), true),
        ] {
            assert_eq!(
                Want::parse(&words).expect("readable").holds(&found),
                holds,
                "{words:?} {found:?}"
            );
        }
    }
}
