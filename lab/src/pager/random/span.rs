//! What was surely true and when, and which alerts follow from it. Pure.

use std::time::{Duration, Instant};

use crate::pager::ledger::{End, Need};

/// Two looks further apart than this prove nothing of the time between them.
const APART: Duration = Duration::from_secs(2);
/// How much less than its threshold a value may have been when its alert came.
const BLUR: Duration = Duration::from_millis(500);
/// A stretch that is shorter than this is not worth counting.
const WORTH_COUNTING: Duration = Duration::from_secs(1);

/// From and to.
pub(super) type Span = (Instant, Instant);

/// When a condition surely held, and when it surely did not. Any other time may be either.
#[derive(Clone, Debug, Default)]
pub(super) struct Timeline(Vec<(Span, bool)>);

impl Timeline {
    /// Notes a look that was sent and answered at these instants. Between two looks that say the
    /// same, nothing changed.
    pub(super) fn note(&mut self, (sent, received): Span, holds: bool) {
        match self.0.last_mut() {
            Some(((_, to), before)) if *before == holds && sent < *to + APART => *to = received,
            _ => self.0.push(((sent, received), holds)),
        }
    }

    /// The timeline of what surely held in one of `sure`, and surely did not outside of `maybe`.
    pub(super) fn of(sure: &[Span], maybe: &[Span], whole: Span) -> Timeline {
        let held = sure.iter().map(|span| (*span, true));
        Timeline(held.chain(gaps(maybe, whole).into_iter().map(|span| (span, false))).collect())
    }

    /// Forgets everything within these spans.
    pub(super) fn without(&self, doubt: &[Span], whole: Span) -> Timeline {
        let known = gaps(doubt, whole);
        let cut = |(span, holds): &(Span, bool)| {
            let holds = *holds;
            both(&[*span], &known).into_iter().map(move |span| (span, holds)).collect::<Vec<_>>()
        };
        Timeline(self.0.iter().flat_map(cut).collect())
    }

    /// The same, but it surely held only where that began within these spans.
    pub(super) fn begun_in(mut self, spans: &[Span]) -> Timeline {
        let within = |at: Instant| spans.iter().any(|(from, to)| (*from..=*to).contains(&at));
        self.0.retain(|((from, _), holds)| !holds || within(*from));
        self
    }

    fn when(&self, holds: bool) -> impl Iterator<Item = Span> {
        self.0.iter().filter(move |(_, held)| *held == holds).map(|(span, _)| *span)
    }
}

/// The time of `whole` that is in none of the spans.
pub(super) fn gaps(spans: &[Span], whole: Span) -> Vec<Span> {
    let mut sorted = spans.to_vec();
    sorted.sort();
    let (mut gaps, mut at) = (Vec::new(), whole.0);
    for (from, to) in sorted {
        if from > at {
            gaps.push((at, from.min(whole.1)));
        }
        at = at.max(to);
    }
    if at < whole.1 {
        gaps.push((at, whole.1));
    }
    gaps
}

/// The time that is in both.
pub(super) fn both(one: &[Span], other: &[Span]) -> Vec<Span> {
    let overlaps = one.iter().flat_map(|(from, to)| {
        other.iter().map(move |(begin, end)| (*from.max(begin), *to.min(end)))
    });
    overlaps.filter(|(from, to)| from < to).collect()
}

/// An alert, and the condition that it is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure {
    pub(super) alert: &'static str,
    /// How long the condition must hold.
    pub(super) threshold: Duration,
    /// How long its opposite must hold to end it.
    pub(super) settle: Duration,
    /// How long the alert stays after that.
    pub(super) stays: Duration,
    /// How long it must be visible, if less than until the alert is sent.
    pub(super) visible: Option<Duration>,
}

/// Maximum times from due to sent, and from over to resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Within {
    pub(super) sent: Duration,
    pub(super) resolved: Duration,
}

/// How many stretches there were to judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) must: usize,
    pub(super) must_not: usize,
    /// Either may be right.
    pub(super) grey: usize,
}

/// Which alerts must and may come, for agents that see clearly during these times.
pub(super) fn expected(
    measure: Measure,
    timeline: &Timeline,
    clear: &[Vec<Span>],
    whole: Span,
    within: Within,
    count: &mut Count,
) -> Vec<(Need, End)> {
    let over: Vec<Span> =
        timeline.when(false).filter(|(from, to)| *to - *from >= measure.settle).collect();
    let surely: Vec<Span> = timeline.when(true).collect();
    let mut groups: Vec<Vec<Span>> = Vec::new();
    for (from, to) in gaps(&over, whole) {
        if to - from + BLUR < measure.threshold {
            count.must_not += usize::from(to - from > WORTH_COUNTING);
        } else if !both(&[(from, to)], &surely).is_empty() || to - from >= APART {
            // An alert that comes again before it is sent as resolved is not sent again.
            match groups.last_mut() {
                Some(group)
                    if group
                        .last()
                        .is_some_and(|(_, end)| from < *end + measure.stays + within.resolved) =>
                {
                    group.push((from, to));
                }
                _ => groups.push(vec![(from, to)]),
            }
        }
    }
    let mut all = Vec::new();
    for group in groups {
        let Some((from, to)) = group.first().zip(group.last()).map(|(a, b)| (a.0, b.1)) else {
            continue;
        };
        let due = from + measure.threshold;
        let visible = measure.visible.unwrap_or(measure.threshold + within.sent);
        let seen = clear.iter().flat_map(|clear| both(&both(&group, &surely), clear));
        let seen = seen.filter(|(begin, end)| *end - *begin >= visible).map(|(begin, _)| begin);
        let again = to + measure.settle + measure.stays + within.sent;
        if let Some(begin) = seen.min() {
            count.must += 1;
            let by = begin + measure.threshold + within.sent;
            let end = end(measure, &group, &over, &surely, clear, within);
            all.push((Need::Must { due: due - BLUR, by }, end));
        } else {
            count.grey += 1;
        }
        all.push((Need::May(Some((due - BLUR, again))), End::Any));
    }
    all
}

/// When the alert about a stretch must resolve: known only if all of it, and enough of the time
/// after it, could be seen by every agent.
fn end(
    measure: Measure,
    group: &[Span],
    over: &[Span],
    surely: &[Span],
    clear: &[Vec<Span>],
    within: Within,
) -> End {
    let [(from, to)] = group else { return End::Any };
    let by = *to + measure.settle + measure.stays + within.resolved;
    let covers = |spans: &[Span], (from, to): Span| {
        spans.iter().any(|(begin, end)| *begin <= from && to <= *end)
    };
    let seen = clear.iter().all(|clear| covers(clear, (*from, by)));
    let is_sure = covers(surely, (*from + BLUR, *to - BLUR)) && covers(over, (*to, by));
    if seen && is_sure && measure.stays.is_zero() { End::Between(*to, by) } else { End::Any }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITHIN: Within =
        Within { sent: Duration::from_secs(10), resolved: Duration::from_secs(20) };
    const DOWN: Measure = Measure {
        alert: "Down",
        threshold: Duration::from_secs(5),
        settle: Duration::from_secs(3),
        stays: Duration::ZERO,
        visible: None,
    };

    /// The expectations in seconds, for a condition that surely holds in `held` and nowhere else,
    /// and one agent that sees all but `blind`.
    fn judged(held: &[(u64, u64)], blind: &[(u64, u64)]) -> (Vec<String>, Count) {
        let zero = Instant::now();
        let spans = |spans: &[(u64, u64)]| -> Vec<Span> {
            let at = |second| zero + Duration::from_secs(second);
            spans.iter().map(|(from, to)| (at(*from), at(*to))).collect()
        };
        let (held, whole) = (spans(held), (zero, zero + Duration::from_secs(500)));
        let timeline = Timeline::of(&held, &held, whole);
        let clear = vec![gaps(&spans(blind), whole)];
        let mut count = Count::default();
        let at = |instant: Instant| (instant + BLUR - zero).as_secs();
        let text = |(need, end): (Need, End)| match (need, end) {
            (Need::Must { due, by }, End::Between(..)) => format!("{}-{} ends", at(due), at(by)),
            (Need::Must { due, by }, _) => format!("{}-{}", at(due), at(by)),
            (Need::May(when), _) => {
                when.map(|(from, to)| format!("may {}-{}", at(from), at(to))).unwrap_or_default()
            }
        };
        let all = expected(DOWN, &timeline, &clear, whole, WITHIN, &mut count);
        (all.into_iter().map(text).collect(), count)
    }

    fn counted(must: usize, must_not: usize, grey: usize) -> Count {
        Count { must, must_not, grey }
    }

    #[test]
    fn what_lasts_must_come_what_does_not_must_not_and_between_them_it_may() {
        assert_eq!(judged(&[(10, 14)], &[]), (vec![], counted(0, 1, 0)));
        assert_eq!(judged(&[(10, 20)], &[]), (vec!["may 15-33".to_owned()], counted(0, 0, 1)));
        let must = vec!["15-25 ends".to_owned(), "may 15-73".to_owned()];
        assert_eq!(judged(&[(10, 60)], &[]), (must, counted(1, 0, 0)));
    }

    #[test]
    fn what_nobody_sees_need_not_come_and_comes_late_when_it_is_seen_late() {
        assert_eq!(judged(&[(10, 60)], &[(12, 58)]).1, counted(0, 0, 1));
        let (all, count) = judged(&[(10, 60)], &[(0, 30)]);
        assert_eq!((all.first().map(String::as_str), count), (Some("15-45"), counted(1, 0, 0)));
    }

    #[test]
    fn a_short_end_ends_nothing_and_a_short_calm_is_no_second_alert() {
        assert_eq!(judged(&[(10, 13), (14, 17), (18, 21)], &[]).1, counted(0, 0, 1));
        assert_eq!(judged(&[(10, 60), (70, 120)], &[]).1, counted(1, 0, 0));
        assert_eq!(judged(&[(10, 60), (90, 140)], &[]).1, counted(2, 0, 0));
    }

    #[test]
    fn looks_that_agree_prove_the_time_between_them() {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let mut timeline = Timeline::default();
        for (ms, holds) in [(0, true), (200, true), (400, false), (5_000, false)] {
            timeline.note((at(ms), at(ms + 10)), holds);
        }
        assert_eq!(timeline.when(true).collect::<Vec<_>>(), [(at(0), at(210))]);
        let not = [(at(400), at(410)), (at(5_000), at(5_010))];
        assert_eq!(timeline.when(false).collect::<Vec<_>>(), not);
    }
}
