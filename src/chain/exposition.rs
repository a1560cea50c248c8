//! Samples: in an exposition, and in the answer to a query.

use std::collections::BTreeMap;

/// The labels of a series; in the answer to a query with `__name__`.
pub type Labels = BTreeMap<String, String>;

/// A sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: Labels,
    /// Its value.
    pub value: f64,
    /// When, in seconds since the Unix epoch, by the server's clock; 0 in an exposition.
    pub at: f64,
}

impl Sample {
    /// A label; empty if it has none of this name.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }

    /// The name of its series.
    pub fn name(&self) -> &str {
        self.label("__name__")
    }
}

/// The samples of these names in an exposition. Other lines are not looked at.
pub fn samples(exposition: &[u8], names: &[&str]) -> Vec<Sample> {
    let lines = exposition.split(|byte| *byte == b'\n');
    lines.filter_map(|line| sample(line, names)).collect()
}

fn sample(line: &[u8], names: &[&str]) -> Option<Sample> {
    let end = line.iter().position(|byte| matches!(byte, b'{' | b' '))?;
    let own = line.get(..end)?;
    let name = names.iter().find(|name| name.as_bytes() == own)?;
    let mut rest = std::str::from_utf8(line.get(end..)?).ok()?;
    let mut labels = Labels::from([("__name__".to_owned(), (*name).to_owned())]);
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let (value, after) = unescaped(after)?;
            labels.insert(label.trim_start_matches(',').trim().to_owned(), value);
            rest = after.trim_start_matches(',');
        }
        rest = rest.get(1..)?;
    }
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { labels, value, at: 0.0 })
}

/// A label's value up to its quote, and what follows.
fn unescaped(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.chars();
    loop {
        match characters.next()? {
            '"' => return Some((value, characters.as_str())),
            '\\' => value.push(match characters.next()? {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
}
