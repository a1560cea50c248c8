//! Formats measurements with their goals as a Markdown table.

use std::fmt;

/// A line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    what: String,
    measured: String,
    /// The goal, and whether it was reached.
    goal: Option<(String, bool)>,
}

impl Figure {
    /// A figure without a goal.
    pub(crate) fn told(what: impl Into<String>, measured: impl Into<String>) -> Figure {
        Figure { what: what.into(), measured: measured.into(), goal: None }
    }

    /// A figure with an upper limit.
    pub(crate) fn at_most(
        what: impl Into<String>,
        measured: f64,
        limit: f64,
        unit: &str,
    ) -> Figure {
        Figure {
            what: what.into(),
            measured: format!("{measured:.1} {unit}"),
            goal: Some((format!("≤ {limit:.0} {unit}"), measured <= limit)),
        }
    }

    /// Adds text to the measured value.
    pub(crate) fn with(mut self, more: &str) -> Figure {
        self.measured = format!("{} ({more})", self.measured);
        self
    }
}

/// All lines of the table.
#[derive(Clone, Debug)]
pub(crate) struct Report(pub(crate) Vec<Figure>);

impl Report {
    pub(crate) fn all_reached(&self) -> bool {
        self.0.iter().all(|figure| figure.goal.as_ref().is_none_or(|(_, reached)| *reached))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| what | measured | goal | |\n|---|---|---|---|")?;
        for Figure { what, measured, goal } in &self.0 {
            let (goal, reached) = match goal {
                Some((goal, true)) => (goal.as_str(), "reached"),
                Some((goal, false)) => (goal.as_str(), "MISSED"),
                None => ("", ""),
            };
            writeln!(f, "| {what} | {measured} | {goal} | {reached} |")?;
        }
        Ok(())
    }
}
