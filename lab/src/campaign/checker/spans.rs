//! Sets of instants: sorted periods that do not overlap.

use crate::campaign::clock::Micros;

/// A set of instants. A period includes its start, but not its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<(Micros, Micros)>);

impl Spans {
    /// The union of these periods, which may overlap; empty ones are dropped.
    pub(super) fn new(stretches: impl IntoIterator<Item = (Micros, Micros)>) -> Spans {
        let mut all: Vec<_> = stretches.into_iter().filter(|(from, to)| from < to).collect();
        all.sort_unstable();
        let mut joined: Vec<(Micros, Micros)> = Vec::with_capacity(all.len());
        for (from, to) in all {
            match joined.last_mut().filter(|(_, end)| from <= *end) {
                Some((_, end)) => *end = (*end).max(to),
                None => joined.push((from, to)),
            }
        }
        Spans(joined)
    }

    pub(super) fn one(from: Micros, to: Micros) -> Spans {
        Spans::new([(from, to)])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Micros, Micros)> {
        self.0.iter().copied()
    }

    /// Their total length.
    pub(super) fn total(&self) -> Micros {
        self.iter().map(|(from, to)| to - from).sum()
    }

    pub(super) fn and(&self, other: &Spans) -> Spans {
        let (mut mine, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(a), Some(b)) = (mine.peek(), theirs.peek()) {
            let (from, to) = (a.0.max(b.0), a.1.min(b.1));
            if from < to {
                both.push((from, to));
            }
            if a.1 < b.1 {
                mine.next();
            } else {
                theirs.next();
            }
        }
        Spans(both)
    }

    pub(super) fn or(&self, other: &Spans) -> Spans {
        Spans::new(self.iter().chain(other.iter()))
    }

    /// The complement within `whole`.
    pub(super) fn within(&self, whole: (Micros, Micros)) -> Spans {
        let mut rest = Vec::new();
        let mut from = whole.0;
        for (begin, end) in self.iter() {
            rest.push((from, begin.min(whole.1)));
            from = from.max(end);
        }
        rest.push((from, whole.1));
        Spans::new(rest)
    }

    pub(super) fn minus(&self, other: &Spans) -> Spans {
        match (self.0.first(), self.0.last()) {
            (Some((from, _)), Some((_, to))) => self.and(&other.within((*from, *to))),
            _ => Spans::default(),
        }
    }

    /// Extends each period at both ends.
    pub(super) fn padded(&self, before: Micros, after: Micros) -> Spans {
        Spans::new(self.iter().map(|(from, to)| (from.saturating_sub(before), to + after)))
    }

    /// Removes this much from the start of each period.
    pub(super) fn without_beginnings(&self, length: Micros) -> Spans {
        Spans::new(self.iter().map(|(from, to)| (from + length, to)))
    }

    /// Only the periods of at least this length.
    pub(super) fn longer_than(&self, length: Micros) -> Spans {
        Spans(self.iter().filter(|(from, to)| to - from >= length).collect())
    }

    pub(super) fn shorter_than(&self, length: Micros) -> Spans {
        Spans(self.iter().filter(|(from, to)| to - from < length).collect())
    }

    /// Splits periods at these instants. The resulting pieces may touch.
    pub(super) fn cut_at(&self, instants: &[Micros]) -> Vec<(Micros, Micros)> {
        let mut pieces = Vec::new();
        for (from, to) in self.iter() {
            let begin = instants.partition_point(|at| *at <= from);
            let mut last = from;
            for at in instants.get(begin..).unwrap_or_default().iter().take_while(|at| **at < to) {
                pieces.push((last, *at));
                last = *at;
            }
            pieces.push((last, to));
        }
        pieces
    }

    pub(super) fn contains(&self, at: Micros) -> bool {
        let next = self.0.partition_point(|(from, _)| *from <= at);
        next.checked_sub(1).and_then(|before| self.0.get(before)).is_some_and(|(_, to)| at < *to)
    }

    /// Whether any instant of `from..to` is in the set.
    pub(super) fn touches(&self, from: Micros, to: Micros) -> bool {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        self.0.get(first).is_some_and(|(begin, _)| *begin < to)
    }

    /// The length of the part of `from..to` that is in the set.
    pub(super) fn within_of(&self, from: Micros, to: Micros) -> Micros {
        let first = self.0.partition_point(|(_, end)| *end <= from);
        let rest =
            self.0.get(first..).unwrap_or_default().iter().take_while(|(begin, _)| *begin < to);
        rest.map(|(begin, end)| (*end).min(to).saturating_sub((*begin).max(from))).sum()
    }

    /// The last end of a period before or at `at`; `at` itself if it is inside one.
    pub(super) fn last_before(&self, at: Micros) -> Option<Micros> {
        let next = self.0.partition_point(|(from, _)| *from <= at);
        let (_, to) = self.0.get(next.checked_sub(1)?)?;
        Some((*to).min(at))
    }

    /// The first instant in the set from `at` on.
    pub(super) fn first_from(&self, at: Micros) -> Option<Micros> {
        let first = self.0.partition_point(|(_, end)| *end <= at);
        self.0.get(first).map(|(from, _)| (*from).max(at))
    }
}

#[cfg(test)]
mod tests {
    use super::Spans;

    fn spans(of: &[(u64, u64)]) -> Spans {
        Spans::new(of.iter().copied())
    }

    #[test]
    fn sets_are_sets() {
        let a = spans(&[(5, 10), (1, 3), (2, 4), (20, 20)]);
        assert_eq!(a, spans(&[(1, 4), (5, 10)]));
        assert_eq!(a.total(), 8);
        assert_eq!(a.and(&spans(&[(3, 6), (9, 30)])), spans(&[(3, 4), (5, 6), (9, 10)]));
        assert_eq!(a.or(&spans(&[(4, 5)])), spans(&[(1, 10)]));
        assert_eq!(a.within((0, 12)), spans(&[(0, 1), (4, 5), (10, 12)]));
        assert_eq!(a.within((2, 7)), spans(&[(4, 5)]));
        assert_eq!(a.minus(&spans(&[(2, 6)])), spans(&[(1, 2), (6, 10)]));
        assert_eq!(a.padded(1, 1), spans(&[(0, 11)]));
        assert_eq!(a.without_beginnings(4), spans(&[(9, 10)]));
        assert_eq!(a.longer_than(4), spans(&[(5, 10)]));
        assert_eq!(a.shorter_than(4), spans(&[(1, 4)]));
    }

    #[test]
    fn instants_are_found() {
        let a = spans(&[(1, 4), (5, 10)]);
        assert!(
            a.contains(1) && !a.contains(4) && a.contains(9) && !a.contains(0) && !a.contains(10)
        );
        assert!(a.touches(0, 2) && !a.touches(4, 5) && a.touches(9, 20) && !a.touches(10, 20));
        assert_eq!(a.within_of(2, 7), 4);
        assert_eq!(
            (a.last_before(0), a.last_before(2), a.last_before(4), a.last_before(50)),
            (None, Some(2), Some(4), Some(10))
        );
        assert_eq!(
            (a.first_from(0), a.first_from(4), a.first_from(7), a.first_from(10)),
            (Some(1), Some(5), Some(7), None)
        );
        assert_eq!(a.cut_at(&[2, 5, 7]), [(1, 2), (2, 4), (5, 7), (7, 10)]);
    }
}
