//! Determines which alerts of one task or Redis would fire over time. It leaves out the delays of
//! scrape, evaluation and Alertmanager.

use std::collections::BTreeMap;

use lockwatch_judge::time::{AgentWall, Mono};

use crate::alerts::{Condition, EVENT_MS, EventCondition};

/// A period with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The name of an alert or a verdict.
    pub(super) name: &'static str,
    pub(super) kind: SpanKind,
    pub(super) from: AgentWall,
    /// `None`: it lasted until the end of the recording.
    pub(super) to: Option<AgentWall>,
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SpanKind {
    Verdict,
    /// An alert that would fire.
    Page,
    /// An alert that a pause suppressed for its whole duration.
    HeldBack,
    Warning,
}

/// An instant on both clocks of the agent.
#[derive(Clone, Copy, Debug)]
pub(super) struct When {
    pub(super) at: Mono,
    pub(super) wall: AgentWall,
}

impl When {
    /// The wall clock at a recent instant.
    pub(super) fn wall(self, at: Mono) -> AgentWall {
        let ago_ms = self.at.since_ms(at);
        AgentWall(self.wall.0.saturating_sub_unsigned(ago_ms))
    }
}

/// The state of all alerts.
#[derive(Debug, Default)]
pub(super) struct Pager {
    alerts: BTreeMap<&'static str, Alert>,
}

#[derive(Debug, Default)]
struct Alert {
    /// The last value of the event counter.
    count: u64,
    /// An alert for an event fires until this instant.
    until: Option<Mono>,
    now: Now,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Now {
    #[default]
    Quiet,
    /// A pause suppresses it.
    Waits { since: AgentWall },
    /// It fires; `span` is its position in the list.
    Fires { span: Option<usize> },
}

impl Pager {
    /// Whether any alert ends merely by the passing of time.
    pub(super) fn expects(&self) -> bool {
        self.alerts.values().any(|alert| alert.until.is_some())
    }

    /// Evaluates the alerts. New spans are added to `spans`, and finished ones get their end.
    pub(super) fn pages(
        &mut self,
        when: When,
        pages: &[Condition],
        events: &[EventCondition],
        paused: bool,
        spans: &mut Spans,
    ) {
        for event in events {
            let alert = self.alerts.entry(event.alert).or_default();
            if event.count > alert.count {
                alert.until = Some(when.at.plus_ms(EVENT_MS));
            }
            alert.count = event.count;
            if !pages.iter().any(|page| page.alert == event.alert) {
                alert.follow(event.alert, SpanKind::Page, when, false, paused, spans);
            }
        }
        for page in pages {
            let alert = self.alerts.entry(page.alert).or_default();
            alert.follow(page.alert, SpanKind::Page, when, page.is_due(), paused, spans);
        }
    }

    /// Like [`Pager::pages`], for warnings, which no pause suppresses.
    pub(super) fn warnings(&mut self, when: When, warnings: &[Condition], spans: &mut Spans) {
        for warning in warnings {
            let alert = self.alerts.entry(warning.alert).or_default();
            alert.follow(warning.alert, SpanKind::Warning, when, warning.is_due(), false, spans);
        }
    }

    /// Ends all alerts, because their task or Redis is gone.
    pub(super) fn end(&mut self, when: When, spans: &mut Spans) {
        for alert in std::mem::take(&mut self.alerts).into_values() {
            if let Now::Fires { span } = alert.now {
                spans.end(span, when.wall);
            }
        }
    }
}

impl Alert {
    fn follow(
        &mut self,
        name: &'static str,
        kind: SpanKind,
        when: When,
        due: bool,
        paused: bool,
        spans: &mut Spans,
    ) {
        // The duration of an event's alert starts when the pause ends.
        let waits = matches!(self.now, Now::Waits { .. }) && self.until.is_some();
        let active = due || waits || self.until.is_some_and(|until| when.at < until);
        let end = match self.until {
            Some(until) if !due && until <= when.at => when.wall(until),
            _ => when.wall,
        };
        match (&self.now, active, paused) {
            (Now::Quiet, true, true) => self.now = Now::Waits { since: when.wall },
            (Now::Quiet | Now::Waits { .. }, true, false) => {
                if waits {
                    self.until = Some(when.at.plus_ms(EVENT_MS));
                }
                self.now = Now::Fires { span: spans.begin(name, kind, when.wall) };
            }
            (Now::Fires { span }, false, _) => {
                spans.end(*span, end);
                self.now = Now::Quiet;
            }
            (Now::Waits { since }, false, _) => {
                let span = spans.begin(name, SpanKind::HeldBack, *since);
                spans.end(span, end);
                self.now = Now::Quiet;
            }
            (Now::Quiet, false, _)
            | (Now::Waits { .. }, true, true)
            | (Now::Fires { .. }, true, _) => {}
        }
        if !active {
            self.until = None;
        }
    }
}

/// A bounded list of spans, sorted by their beginnings.
#[derive(Debug, Default)]
pub(super) struct Spans {
    pub(super) spans: Vec<Span>,
    /// Number of spans that were not kept.
    pub(super) left_out: u64,
}

/// Maximum number of spans of one task, which bounds the report when an alert flaps.
const SPANS_MAX: usize = 10_000;

impl Spans {
    /// Starts a span; pass the result to `end`.
    pub(super) fn begin(
        &mut self,
        name: &'static str,
        kind: SpanKind,
        from: AgentWall,
    ) -> Option<usize> {
        if self.spans.len() >= SPANS_MAX {
            self.left_out += 1;
            return None;
        }
        self.spans.push(Span { name, kind, from, to: None });
        Some(self.spans.len() - 1)
    }

    pub(super) fn end(&mut self, span: Option<usize>, to: AgentWall) {
        if let Some(span) = span.and_then(|span| self.spans.get_mut(span)) {
            span.to = Some(to);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn when(seconds: u64) -> When {
        When { at: Mono(seconds * 1000), wall: AgentWall(i64::try_from(seconds).unwrap() * 1000) }
    }

    fn page(value_ms: u64) -> Condition {
        Condition {
            alert: "LockwatchTaskDown",
            measure: "down_seconds",
            value_ms,
            threshold_ms: 10,
        }
    }

    fn told(spans: &Spans) -> Vec<(SpanKind, i64, Option<i64>)> {
        spans
            .spans
            .iter()
            .map(|span| (span.kind, span.from.0 / 1000, span.to.map(|to| to.0 / 1000)))
            .collect()
    }

    #[test]
    fn a_page_lasts_while_its_condition_holds() {
        let (mut pager, mut spans) = (Pager::default(), Spans::default());
        for (second, value_ms) in [(1, 0), (2, 10), (3, 11), (4, 900), (5, 0), (6, 11)] {
            pager.pages(when(second), &[page(value_ms)], &[], false, &mut spans);
        }
        assert_eq!(told(&spans), [(SpanKind::Page, 3, Some(5)), (SpanKind::Page, 6, None)]);
    }

    #[test]
    fn a_pause_holds_back_what_does_not_page_yet() {
        let (mut pager, mut spans) = (Pager::default(), Spans::default());
        let mut step = |second, value_ms, paused| {
            pager.pages(when(second), &[page(value_ms)], &[], paused, &mut spans);
        };
        step(1, 11, true);
        step(2, 0, true);
        step(3, 11, true);
        step(4, 11, false);
        step(5, 11, true);
        step(6, 0, true);
        assert_eq!(told(&spans), [(SpanKind::HeldBack, 1, Some(2)), (SpanKind::Page, 4, Some(6))]);
    }

    #[test]
    fn an_event_pages_for_fifteen_minutes() {
        let (mut pager, mut spans) = (Pager::default(), Spans::default());
        let mut step = |second, count, paused| {
            let event = EventCondition { alert: "LockwatchLockLost", count };
            pager.pages(when(second), &[], &[event], paused, &mut spans);
        };
        step(1, 0, false);
        step(2, 1, false);
        step(700, 2, false);
        step(1_599, 2, false);
        step(1_700, 2, false);
        // An event in a pause waits for its end, however long that takes.
        step(2_000, 3, true);
        step(9_000, 3, true);
        step(9_500, 3, false);
        step(99_000, 3, false);
        assert_eq!(
            told(&spans),
            [(SpanKind::Page, 2, Some(1_600)), (SpanKind::Page, 9_500, Some(10_400))]
        );
        assert!(!pager.expects());
    }

    #[test]
    fn what_comes_back_pages_for_nothing_of_before() {
        let (mut pager, mut spans) = (Pager::default(), Spans::default());
        let lost = |count| [EventCondition { alert: "LockwatchLockLost", count }];
        pager.pages(when(1), &[], &lost(7), false, &mut spans);
        pager.end(when(100), &mut spans);
        assert!(!pager.expects());
        pager.pages(when(200), &[], &lost(0), false, &mut spans);
        pager.pages(when(300), &[], &lost(1), false, &mut spans);
        assert_eq!(told(&spans), [(SpanKind::Page, 1, Some(100)), (SpanKind::Page, 300, None)]);
    }
}
