//! Formats measurements with their goals and the peer's values as Markdown tables.

use std::fmt::Write as _;

use crate::numbers::shown;

/// A line of a table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    what: String,
    measured: String,
    peer: String,
    /// The goal, and whether it was reached; `None`: it could not be determined.
    goal: Option<(String, Option<bool>)>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) figures: Vec<Figure>,
    /// Additional Markdown.
    pub(crate) more: String,
}

impl Figure {
    /// A figure without a goal.
    pub(crate) fn plain(what: impl Into<String>, measured: impl Into<String>) -> Figure {
        Figure { what: what.into(), measured: measured.into(), peer: String::new(), goal: None }
    }

    /// A figure with an upper limit, which may be another figure of the same run.
    pub(crate) fn at_most(what: impl Into<String>, value: f64, limit: f64, unit: &str) -> Figure {
        let goal =
            Some((format!("≤ {}", shown(limit, unit)), compare(value, limit, value <= limit)));
        Figure { goal, ..Figure::plain(what, shown(value, unit)) }
    }

    /// A figure with a lower limit.
    pub(crate) fn at_least(what: impl Into<String>, value: f64, limit: f64, unit: &str) -> Figure {
        let goal =
            Some((format!("≥ {}", shown(limit, unit)), compare(value, limit, value >= limit)));
        Figure { goal, ..Figure::plain(what, shown(value, unit)) }
    }

    /// Adds text to the measured value.
    pub(crate) fn with(mut self, more: impl AsRef<str>) -> Figure {
        let _written = write!(self.measured, " ({})", more.as_ref());
        self
    }

    /// Adds the peer's value from the same run.
    pub(crate) fn peer(mut self, peer: impl Into<String>) -> Figure {
        self.peer = peer.into();
        self
    }

    /// Sets the wording of the goal.
    pub(crate) fn goal(mut self, words: &str) -> Figure {
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
    pub(crate) fn missed(&self) -> impl Iterator<Item = &str> {
        let missed = |figure: &&Figure| matches!(figure.goal, Some((_, Some(false))));
        self.figures.iter().filter(missed).map(|figure| figure.what.as_str())
    }

    /// Whether no goal was missed.
    pub(crate) fn all_reached(&self) -> bool {
        self.missed().next().is_none()
    }

    /// The table in Markdown.
    pub(crate) fn markdown(&self) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts() {
        let table = Table {
            figures: vec![
                Figure::at_most("a", 1.0, 2.0, "ms"),
                Figure::at_most("b", 3.0, 2.0, "ms"),
                Figure::at_least("c", 3.0, f64::NAN, "").peer("not measured: no Go"),
                Figure::plain("d", "4"),
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
