//! Compares two passes: which verdicts and alerts disappear, appear, or move in time.

use super::pager::{Span, SpanKind};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// Only in the first pass.
    Gone(Span),
    /// Only in the second pass.
    New(Span),
    /// In both passes, at different times.
    Moved { was: Span, would_be: Span },
}

impl Difference {
    /// The span by which differences are sorted.
    pub(super) fn span(&self) -> &Span {
        match self {
            Difference::Gone(span)
            | Difference::New(span)
            | Difference::Moved { was: span, .. } => span,
        }
    }
}

/// The differences from `was` to `would_be`, by time. Both must be sorted by their beginnings.
pub(super) fn between(was: &[Span], would_be: &[Span]) -> Vec<Difference> {
    let mut kinds: Vec<(SpanKind, &str)> =
        was.iter().chain(would_be).map(|span| (span.kind, span.name)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut differences = Vec::new();
    for kind in kinds {
        let of_kind = |spans: &[Span]| -> Vec<Span> {
            spans.iter().filter(|span| (span.kind, span.name) == kind).cloned().collect()
        };
        pair(of_kind(was), of_kind(would_be), &mut differences);
    }
    differences.sort_by_key(|difference| {
        (difference.span().from, difference.span().kind, difference.span().name)
    });
    differences
}

/// Pairs the spans of one kind: spans that overlap count as the same.
fn pair(was: Vec<Span>, would_be: Vec<Span>, differences: &mut Vec<Difference>) {
    let (mut was, mut would_be) = (was.into_iter().peekable(), would_be.into_iter().peekable());
    loop {
        match (was.peek(), would_be.peek()) {
            (None, None) => return,
            (Some(a), Some(b)) if a == b => {
                was.next();
                would_be.next();
            }
            (Some(a), Some(b)) if meet(a, b) => {
                let (Some(was), Some(would_be)) = (was.next(), would_be.next()) else { return };
                differences.push(Difference::Moved { was, would_be });
            }
            (Some(a), other) if other.is_none_or(|b| a.from < b.from) => {
                differences.extend(was.next().map(Difference::Gone));
            }
            _ => differences.extend(would_be.next().map(Difference::New)),
        }
    }
}

fn meet(a: &Span, b: &Span) -> bool {
    a.to.is_none_or(|end| b.from <= end) && b.to.is_none_or(|end| a.from <= end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_judge::time::AgentWall;

    fn span(name: &'static str, from: i64, to: i64) -> Span {
        let to = (to > 0).then_some(AgentWall(to));
        Span { name, kind: SpanKind::Verdict, from: AgentWall(from), to }
    }

    #[test]
    fn overlapping_stretches_are_the_same_and_others_are_gone_or_new() {
        let was = [
            span("running", 1, 10),
            span("pending", 10, 30),
            span("down", 30, 50),
            span("running", 50, 0),
        ];
        let would_be = [span("running", 1, 10), span("pending", 10, 50), span("running", 50, 0)];
        let expected = [
            Difference::Moved { was: span("pending", 10, 30), would_be: span("pending", 10, 50) },
            Difference::Gone(span("down", 30, 50)),
        ];
        assert_eq!(between(&was, &would_be), expected);
        let back = [
            Difference::Moved { was: span("pending", 10, 50), would_be: span("pending", 10, 30) },
            Difference::New(span("down", 30, 50)),
        ];
        assert_eq!(between(&would_be, &was), back);
        assert_eq!(between(&was, &was), []);
    }

    #[test]
    fn what_is_cut_in_two_is_moved_and_new() {
        let was = [span("down", 10, 50)];
        let would_be = [span("down", 10, 20), span("down", 30, 50)];
        let expected = [
            Difference::Moved { was: span("down", 10, 50), would_be: span("down", 10, 20) },
            Difference::New(span("down", 30, 50)),
        ];
        assert_eq!(between(&was, &would_be), expected);
    }
}
