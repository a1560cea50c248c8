//! What was measured beside what was to be reached, as a Markdown table.

use std::fmt;

/// A line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    what: String,
    measured: String,
    /// What is to be reached, and whether it was.
    goal: Option<(String, bool)>,
}

impl Figure {
    /// Something to know.
    pub(crate) fn told(what: impl Into<String>, measured: impl Into<String>) -> Figure {
        Figure { what: what.into(), measured: measured.into(), goal: None }
    }

    /// Something that is to be `limit` at most.
    pub(crate) fn at_most(what: impl Into<String>, measured: f64, limit: f64, unit: &str) -> Figure {
        Figure {
            what: what.into(),
            measured: format!("{measured:.1} {unit}"),
            goal: Some((format!("≤ {limit:.0} {unit}"), measured <= limit)),
        }
    }

    /// Something that is to be `limit` at least.
    pub(crate) fn at_least(what: impl Into<String>, measured: f64, limit: f64, unit: &str) -> Figure {
        Figure {
            what: what.into(),
            measured: format!("{measured:.1} {unit}"),
            goal: Some((format!("≥ {limit:.0} {unit}"), measured >= limit)),
        }
    }

    /// With more beside what was measured.
    pub(crate) fn with(mut self, more: &str) -> Figure {
        self.measured = format!("{} ({more})", self.measured);
        self
    }
}

/// All of them.
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

/// The value below or at which `share` (0 to 1) of the values are.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position in a short list")]
    let position = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(position.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| quantile(&values, share)), [100.0, 198.0, 200.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }
}
