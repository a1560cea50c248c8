//! Which alerts of one task or store would fire over time: as long as the agent shows their
//! problems. What Prometheus remembers, the delays of scrape, evaluation and Alertmanager, and
//! `keep_firing_for` come on top.

use std::collections::BTreeMap;

use lockwatch_judge::problems::{Finding, Problems, Row, of_store, of_task, rows, task_finding};
use lockwatch_judge::snapshot::{StoreView, TaskView};
use lockwatch_judge::time::{AgentWall, Mono};

use crate::alerts::{self, Alert};

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
    /// An alert that a pause suppressed.
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

/// The alerts that fire, each with the position of its span in the list.
#[derive(Debug, Default)]
pub(super) struct Pager {
    open: BTreeMap<(&'static str, SpanKind), Option<usize>>,
    /// Whether the next look finds the same as long as nothing is read.
    quiet: bool,
}

impl Pager {
    /// Whether a look at something that did not change can be left out.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Compares the alerts of a task with those of the look before. New spans are added to `spans`,
    /// and finished ones get their end.
    pub(super) fn look_at_task(&mut self, when: When, view: &TaskView, spans: &mut Spans) {
        let problems = of_task(view, when.at, None);
        let mut found = firing(&problems);
        if view.paused == Some(true) {
            found.extend(held_back(view, when.at, &found));
        }
        self.look(&found, when, spans);
        self.quiet = self.open.is_empty()
            && problems.clear
            && view.durations.blind_ms == 0
            && !view.grounds.counts_time();
    }

    /// The same of a store.
    pub(super) fn look_at_store(&mut self, when: When, view: &StoreView, spans: &mut Spans) {
        self.look(&firing(&of_store(view, when.at, None)), when, spans);
    }

    fn look(&mut self, found: &[Found], when: When, spans: &mut Spans) {
        self.open.retain(|alert, span| {
            let goes_on = found.contains(alert);
            if !goes_on {
                spans.end(*span, when.wall);
            }
            goes_on
        });
        for (name, kind) in found {
            self.open.entry((name, *kind)).or_insert_with(|| spans.begin(name, *kind, when.wall));
        }
    }

    /// Ends all alerts, because their task or store is gone.
    pub(super) fn end(&mut self, when: When, spans: &mut Spans) {
        self.look(&[], when, spans);
    }
}

/// An alert, and what it does.
type Found = (&'static str, SpanKind);

fn firing(problems: &Problems) -> Vec<Found> {
    let found = |alert: Alert| match alert.severity.is_page() {
        true => (alert.row.alert, SpanKind::Page),
        false => (alert.row.alert, SpanKind::Warning),
    };
    alerts::firing(problems).into_iter().map(found).collect()
}

/// The alerts that a pause holds back.
fn held_back(view: &TaskView, at: Mono, firing: &[Found]) -> Vec<Found> {
    let is_held = |row: &&Row| match task_finding(row.problem, view, at) {
        Finding::Positive { ms } => {
            row.severity.is_page()
                && row.fires(ms)
                && firing.iter().all(|(alert, _)| *alert != row.alert)
        }
        _ => false,
    };
    rows().filter(is_held).map(|row| (row.alert, SpanKind::HeldBack)).collect()
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
        When {
            at: Mono::at(seconds * 1000),
            wall: AgentWall(i64::try_from(seconds).unwrap() * 1000),
        }
    }

    #[test]
    fn an_alert_lasts_while_it_is_found() {
        let (mut pager, mut spans) = (Pager::default(), Spans::default());
        let (page, held) = (("Down", SpanKind::Page), ("Down", SpanKind::HeldBack));
        for (second, found) in [
            (1, vec![held]),
            (2, vec![]),
            (4, vec![page]),
            (5, vec![page]),
            (6, vec![]),
            (9, vec![page]),
        ] {
            pager.look(&found, when(second), &mut spans);
        }
        let seconds = |wall: AgentWall| wall.0 / 1000;
        let spans_of = |spans: &Spans| -> Vec<_> {
            let spans = spans.spans.iter();
            spans.map(|span| (span.kind, seconds(span.from), span.to.map(seconds))).collect()
        };
        let ended = [(SpanKind::HeldBack, 1, Some(2)), (SpanKind::Page, 4, Some(6))];
        assert_eq!(spans_of(&spans), [&ended[..], &[(SpanKind::Page, 9, None)]].concat());
        pager.end(when(12), &mut spans);
        assert_eq!(spans_of(&spans), [&ended[..], &[(SpanKind::Page, 9, Some(12))]].concat());
    }
}
