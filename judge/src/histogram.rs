//! A cumulative histogram with fixed bounds, small enough to be copied into every snapshot.

/// Counts of observations at or below each bound, plus their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Upper bounds in milliseconds, ascending.
    pub bounds_ms: &'static [u64; Histogram::BUCKETS],
    /// Observations per bucket (not cumulative); the last bucket is above every bound.
    pub counts: [u64; Histogram::BUCKETS + 1],
    /// Sum of all observations in milliseconds.
    pub sum_ms: u64,
}

impl Histogram {
    /// Finite buckets of every histogram. The limit on series per task allows no more.
    pub const BUCKETS: usize = 6;

    /// An empty histogram.
    pub const fn new(bounds_ms: &'static [u64; Histogram::BUCKETS]) -> Histogram {
        Histogram { bounds_ms, counts: [0; Histogram::BUCKETS + 1], sum_ms: 0 }
    }

    /// Counts one observation.
    pub fn observe(&mut self, value_ms: u64) {
        let bucket = self
            .bounds_ms
            .iter()
            .position(|bound| value_ms <= *bound)
            .unwrap_or(Histogram::BUCKETS);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
        self.sum_ms = self.sum_ms.saturating_add(value_ms);
    }

    /// Number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_within_its_bucket() {
        let mut histogram = Histogram::new(&[10, 20, 30, 40, 50, 60]);
        [10, 11, 60, 61].into_iter().for_each(|ms| histogram.observe(ms));
        assert_eq!(histogram.counts, [1, 1, 0, 0, 0, 1, 1]);
    }
}
