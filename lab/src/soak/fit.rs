//! Fits a straight line to points by least squares.

/// A line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Line {
    /// The increase of y when x grows by 1.
    pub(super) slope: f64,
    /// The standard error of the slope if the points are independent.
    pub(super) slope_error: f64,
    /// The mean of y.
    pub(super) mean: f64,
}

/// The line through `points`; `None` unless there are at least three, with different x.
pub(super) fn line(points: &[(f64, f64)]) -> Option<Line> {
    if points.len() < 3 {
        return None;
    }
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    if spread == 0.0 {
        return None;
    }
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean)).sum::<f64>() / spread;
    let rest: f64 = points.iter().map(|(x, y)| (y - mean - slope * (x - mean_x)).powi(2)).sum();
    Some(Line { slope, slope_error: (rest / (count - 2.0) / spread).sqrt(), mean })
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn what_grows_has_a_slope() {
        let exact: Vec<(f64, f64)> =
            (0..10).map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x))).collect();
        let fitted = line(&exact).unwrap();
        assert!(
            (fitted.slope - 2.0).abs() < 1e-9
                && fitted.slope_error < 1e-9
                && (fitted.mean - 12.0).abs() < 1e-9
        );
        let noisy: Vec<(f64, f64)> =
            (0..100).map(|x| (f64::from(x), if x % 2 == 0 { 1.0 } else { -1.0 })).collect();
        let fitted = line(&noisy).unwrap();
        assert!(fitted.slope.abs() < 0.01 && fitted.slope_error > 0.0, "{fitted:?}");
        assert_eq!((line(&exact[..2]), line(&[(1.0, 1.0); 5])), (None, None));
    }
}
