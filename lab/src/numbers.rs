//! Medians, quantiles and slopes, and the formatting of numbers.

use std::time::Duration;

/// The value at or below which `share` (0 to 1) of the values are; NaN if there are none.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position in a short list"
    )]
    let position = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(position.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The median; NaN if there are no values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    quantile(&values.into_iter().collect::<Vec<_>>(), 0.5)
}

/// The growth of a cost: the slope of the best-fit line through the logarithms of (size, cost); 1
/// is linear growth. Points whose cost is below `smallest` are left out; `None` with fewer than two
/// others.
pub(crate) fn growth(points: &[(f64, f64)], smallest: f64) -> Option<f64> {
    let logs: Vec<(f64, f64)> = points
        .iter()
        .filter(|(_, cost)| *cost >= smallest)
        .map(|(size, cost)| (size.ln(), cost.ln()))
        .collect();
    line(&logs).map(|(slope, _)| slope)
}

/// The slope of the straight line through `points` by least squares, and the mean of y; `None`
/// unless there are two with different x.
pub(crate) fn line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let both: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean)).sum();
    (spread > 0.0).then(|| (both / spread, mean))
}

/// Number of calls of `command` according to a server's `INFO commandstats`; `None`: never called.
pub(crate) fn calls(stats: &str, command: &str) -> Option<u64> {
    let line =
        stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")))?;
    line.split(',').next()?.parse().ok()
}

/// A duration in milliseconds.
pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// A value with at least three digits, and its unit.
pub(crate) fn shown(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    if value.is_nan() {
        "not measured".to_owned()
    } else {
        format!("{value:.digits$} {unit}").trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| quantile(&values, share)), [100.0, 198.0, 200.0]);
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(shown(f64::NAN, "ms"), "not measured");
        assert_eq!(
            [0.1234, 12.34, 1234.5].map(|value| shown(value, "ms")),
            ["0.12 ms", "12.3 ms", "1234 ms"]
        );
    }

    #[test]
    fn growth_is_the_exponent() {
        let square: Vec<(f64, f64)> =
            [1.0, 10.0, 100.0].map(|size: f64| (size, 3.0 * size * size)).to_vec();
        assert!((growth(&square, 0.0).unwrap() - 2.0).abs() < 1e-9);
        // Points too small to measure do not count.
        assert!((growth(&[(0.1, 0.0), (1.0, 5.0), (10.0, 50.0)], 0.1).unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(growth(&[(1.0, 5.0)], 0.0), None);
        assert_eq!(growth(&[], 0.0), None);
    }
}
