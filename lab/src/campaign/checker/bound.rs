//! Bounds of a duration that an agent measures: how long it can be at most, as it counts, given
//! what was true and what it could see.

use super::spans::Spans;
use crate::campaign::clock::Micros;

/// An upper bound over time. It grows while what it measures may be so, keeps its value while it is
/// not, and is nothing once the agent surely saw the opposite.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    grows: Spans,
    nothing: Spans,
}

impl Bound {
    /// It grows during `grows`, and is nothing during `nothing`.
    pub(super) fn new(grows: Spans, nothing: Spans) -> Bound {
        Bound { grows, nothing }
    }

    /// It may be this at most.
    pub(super) fn at(&self, at: Micros) -> Micros {
        let since = self.nothing.last_before(at).unwrap_or(0);
        self.grows.within_of(since, at)
    }

    /// The same for a duration that goes on from its beginning until the opposite is seen.
    pub(super) fn since(&self, at: Micros) -> Micros {
        let since = self.nothing.last_before(at).unwrap_or(0);
        self.grows.first_from(since).map_or(0, |began| at.saturating_sub(began))
    }

    /// When it is nothing.
    pub(super) fn nothing(&self) -> &Spans {
        &self.nothing
    }

    /// The stretches between those in which it is nothing, and how much it grows in each.
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
