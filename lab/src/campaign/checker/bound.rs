//! Upper bounds of durations that an agent measures, given what was true and what the agent could
//! see.

use super::spans::Spans;
use crate::campaign::clock::Micros;

/// An upper bound over time. It grows while the measured condition may hold, keeps its value while
/// the condition does not hold, and is zero once the agent has surely seen the opposite.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    grows: Spans,
    nothing: Spans,
}

impl Bound {
    /// A bound that grows during `grows`, and is zero during `nothing`.
    pub(super) fn new(grows: Spans, nothing: Spans) -> Bound {
        Bound { grows, nothing }
    }

    /// The maximum at this instant.
    pub(super) fn at(&self, at: Micros) -> Micros {
        let since = self.nothing.last_before(at).unwrap_or(0);
        self.grows.within_of(since, at)
    }

    /// Like [`Bound::at`], for a duration that continues from its start until the opposite is seen.
    pub(super) fn since(&self, at: Micros) -> Micros {
        let since = self.nothing.last_before(at).unwrap_or(0);
        self.grows.first_from(since).map_or(0, |began| at.saturating_sub(began))
    }

    /// When the bound is zero.
    pub(super) fn nothing(&self) -> &Spans {
        &self.nothing
    }

    /// The periods between those in which the bound is zero, and its growth in each.
    pub(super) fn peaks(&self, whole: (Micros, Micros)) -> Vec<((Micros, Micros), Micros)> {
        let all = self.nothing.within(whole);
        let grown = all.iter().map(|(from, to)| ((from, to), self.grows.within_of(from, to)));
        grown.filter(|(_, grown)| *grown > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_keeps_its_value_and_is_nothing_again() {
        let bound = Bound::new(Spans::new([(10, 20), (30, 40)]), Spans::new([(0, 5), (50, 60)]));
        assert_eq!(
            [3, 10, 15, 25, 35, 45, 50, 70].map(|at| bound.at(at)),
            [0, 0, 5, 10, 15, 20, 0, 0]
        );
        assert_eq!(
            [3, 10, 15, 25, 35, 45, 50, 70].map(|at| bound.since(at)),
            [0, 0, 5, 15, 25, 35, 0, 0]
        );
        assert_eq!(bound.peaks((0, 70)), [((5, 50), 20)]);
    }
}
