//! Formats measurements with their goals and the peer's values as tables, and puts them into a
//! Markdown file whose other parts are written by hand.

use std::fmt::Write as _;

use crate::numbers::shown;

/// A line of a table.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    what: String,
    measured: String,
    peer: String,
    /// The goal, and whether it was reached; `None`: it could not be determined.
    goal: Option<(String, Option<bool>)>,
}

/// The table of one row of the benchmarks.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    pub(super) figures: Vec<Figure>,
    /// Additional Markdown.
    pub(super) more: String,
}

impl Figure {
    /// A figure without a goal.
    pub(super) fn told(what: impl Into<String>, measured: impl Into<String>) -> Figure {
        Figure { what: what.into(), measured: measured.into(), peer: String::new(), goal: None }
    }

    /// A figure with an upper limit, which may be another figure of the same run.
    pub(super) fn at_most(what: impl Into<String>, value: f64, limit: f64, unit: &str) -> Figure {
        let goal =
            Some((format!("≤ {}", shown(limit, unit)), compare(value, limit, value <= limit)));
        Figure { goal, ..Figure::told(what, shown(value, unit)) }
    }

    /// A figure with a lower limit.
    pub(super) fn at_least(what: impl Into<String>, value: f64, limit: f64, unit: &str) -> Figure {
        let goal =
            Some((format!("≥ {}", shown(limit, unit)), compare(value, limit, value >= limit)));
        Figure { goal, ..Figure::told(what, shown(value, unit)) }
    }

    /// Adds text to the measured value.
    pub(super) fn with(mut self, more: impl AsRef<str>) -> Figure {
        let _written = write!(self.measured, " ({})", more.as_ref());
        self
    }

    /// Adds the peer's value from the same run.
    pub(super) fn beside(mut self, peer: impl Into<String>) -> Figure {
        self.peer = peer.into();
        self
    }

    /// Sets the wording of the goal.
    pub(super) fn goal(mut self, words: &str) -> Figure {
        if let Some((goal, _)) = &mut self.goal {
            *goal = format!("{words}: {goal}");
        }
        self
    }
}

/// Comparing with a value that was not measured gives `None`.
fn compare(value: f64, limit: f64, holds: bool) -> Option<bool> {
    (!value.is_nan() && !limit.is_nan()).then_some(holds)
}

impl Table {
    /// The missed goals.
    pub(super) fn missed(&self) -> impl Iterator<Item = &str> {
        let missed = |figure: &&Figure| matches!(figure.goal, Some((_, Some(false))));
        self.figures.iter().filter(missed).map(|figure| figure.what.as_str())
    }

    /// The table in Markdown.
    pub(super) fn markdown(&self) -> String {
        let mut text =
            String::from("| what | lockwatch | beside it | goal | |\n|---|---|---|---|---|\n");
        for Figure { what, measured, peer, goal } in &self.figures {
            let (goal, verdict) = match goal {
                Some((goal, Some(true))) => (goal.as_str(), "reached"),
                Some((goal, Some(false))) => (goal.as_str(), "**missed**"),
                Some((goal, None)) => (goal.as_str(), "not measured"),
                None => ("", ""),
            };
            let _written = writeln!(text, "| {what} | {measured} | {peer} | {goal} | {verdict} |");
        }
        if !self.more.is_empty() {
            text.push('\n');
            text.push_str(&self.more);
        }
        text
    }
}

/// Replaces the part of `page` for the row `name`; appends it if there is none.
pub(super) fn splice(page: &str, name: &str, text: &str) -> String {
    let (begin, end) = (format!("<!-- bench:{name} -->"), format!("<!-- /bench:{name} -->"));
    let part = format!("{begin}\n{}\n{end}", text.trim_end());
    match page
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(&end)?.1)))
    {
        Some((before, after)) => format!("{before}{part}{after}"),
        None => format!("{}\n\n{part}\n", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_by_hand_survives() {
        let page = "# A\n\n<!-- bench:x -->\nold\n<!-- /bench:x -->\n\nby hand\n";
        let new = splice(page, "x", "new\n");
        assert_eq!(new, "# A\n\n<!-- bench:x -->\nnew\n<!-- /bench:x -->\n\nby hand\n");
        assert_eq!(splice(&new, "x", "new\n"), new);
        assert_eq!(splice("# A\n", "y", "1"), "# A\n\n<!-- bench:y -->\n1\n<!-- /bench:y -->\n");
    }

    #[test]
    fn verdicts() {
        let table = Table {
            figures: vec![
                Figure::at_most("a", 1.0, 2.0, "ms"),
                Figure::at_most("b", 3.0, 2.0, "ms"),
                Figure::at_least("c", 3.0, f64::NAN, "").beside("not measured: no Go"),
                Figure::told("d", "4"),
            ],
            more: String::new(),
        };
        assert_eq!(table.missed().collect::<Vec<_>>(), ["b"]);
        let text = table.markdown();
        for line in [
            "| a | 1.00 ms |  | ≤ 2.00 ms | reached |",
            "| b | 3.00 ms |  | ≤ 2.00 ms | **missed** |",
            "| c | 3.00 | not measured: no Go | ≥ not measured | not measured |",
            "| d | 4 |  |  |  |",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
