//! Determines which alerts of one task or store would fire over time: the agent's problems, and
//! what Prometheus remembers of them. It leaves out the delays of scrape, evaluation and
//! Alertmanager, and `keep_firing_for`.

use std::collections::BTreeMap;

use lockwatch_judge::problems::{
    Finding, Memory, Of, Problem, Problems, Row, TABLE, of_store, of_task, task_finding,
};
use lockwatch_judge::snapshot::{StoreView, TaskView};
use lockwatch_judge::time::{AgentWall, Mono};

use crate::alerts::UNSEEN_MS;

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
    /// Whether the next look finds the same as long as nothing is read.
    quiet: bool,
}

#[derive(Debug, Default)]
struct Alert {
    /// An event is told until this instant.
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

/// What the agent shows of one problem.
#[derive(Clone, Copy, Debug)]
struct Shown {
    finding: Finding,
    /// The age of the event.
    age_ms: Option<u64>,
    /// Whether a pause withholds it.
    withheld: bool,
}

impl Pager {
    /// Whether a look at something that did not change can be left out.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Evaluates the alerts of a task. New spans are added to `spans`, and finished ones get their
    /// end.
    pub(super) fn look_at_task(&mut self, when: When, view: &TaskView, spans: &mut Spans) {
        let problems = of_task(view, when.at, None);
        let paused = view.paused == Some(true);
        self.look(Of::Task, &problems, when, spans, |problem| {
            let finding = task_finding(problem, view, when.at);
            paused && matches!(finding, Finding::Positive { .. })
        });
        self.quiet &= problems.clear && view.durations.blind_ms == 0 && !view.grounds.counts_time();
    }

    /// The same of a store.
    pub(super) fn look_at_store(&mut self, when: When, view: &StoreView, spans: &mut Spans) {
        self.look(Of::Store, &of_store(view, when.at, None), when, spans, |_| false);
    }

    fn look(
        &mut self,
        of: Of,
        problems: &Problems,
        when: When,
        spans: &mut Spans,
        would_be: impl Fn(Problem) -> bool,
    ) {
        for row in TABLE.iter().filter(|row| row.of == of) {
            let shown = Shown::of(row, problems, &would_be);
            let is_news = shown.age_ms.is_some()
                || shown.withheld
                || matches!(shown.finding, Finding::Positive { .. });
            // Most tasks never have any of these.
            if is_news || self.alerts.contains_key(row.alert) {
                self.alerts.entry(row.alert).or_default().follow(row, shown, when, spans);
            }
        }
        self.quiet = self.alerts.values().all(|alert| alert.now == Now::Quiet);
    }

    /// Ends all alerts, because their task or store is gone.
    pub(super) fn end(&mut self, when: When, spans: &mut Spans) {
        for alert in std::mem::take(&mut self.alerts).into_values() {
            if let Now::Fires { span } = alert.now {
                spans.end(span, when.wall);
            }
        }
    }
}

impl Shown {
    fn of(row: &Row, problems: &Problems, would_be: impl Fn(Problem) -> bool) -> Shown {
        let listed = problems.findings.iter().find(|(problem, _)| *problem == row.problem);
        let finding = match listed {
            Some((_, finding)) => *finding,
            None if problems.clear && row.is_page_state() => Finding::Negative,
            None => Finding::Unknown,
        };
        let age = problems.events.iter().find(|(problem, _)| *problem == row.problem);
        let withheld =
            row.severity.is_page() && finding == Finding::Unknown && would_be(row.problem);
        Shown { finding, age_ms: age.map(|(_, age_ms)| *age_ms), withheld }
    }

    /// Whether its alert fires, which did or did not before.
    fn fires(self, row: &Row, before: bool) -> bool {
        match (row.memory, self.finding) {
            (_, _) if self.age_ms.is_some() => true,
            (_, Finding::Positive { ms }) if row.problem == Problem::SwitchesUnseen => {
                ms > UNSEEN_MS
            }
            (_, Finding::Positive { .. }) => true,
            (Memory::UntilNegative | Memory::UntilNegativeOfAll, Finding::Unknown) => before,
            (_, Finding::Negative | Finding::Unknown) => false,
        }
    }
}

impl Alert {
    fn follow(&mut self, row: &Row, shown: Shown, when: When, spans: &mut Spans) {
        let kind = if row.alert_severity().is_page() { SpanKind::Page } else { SpanKind::Warning };
        // An event alone is no state that an agent could stop seeing.
        let remembered = matches!(self.now, Now::Fires { .. }) && self.until.is_none();
        let fires = shown.fires(row, remembered);
        let end = match self.until {
            Some(until) if until <= when.at => when.wall(until),
            _ => when.wall,
        };
        self.until = shown
            .age_ms
            .filter(|_| !matches!(shown.finding, Finding::Positive { .. }))
            .map(|age_ms| when.at.plus_ms(row.event_ms().saturating_sub(age_ms)));
        match (&self.now, fires) {
            (Now::Quiet | Now::Waits { .. }, true) => {
                self.now = Now::Fires { span: spans.begin(row.alert, kind, when.wall) };
            }
            (Now::Quiet, false) if shown.withheld => self.now = Now::Waits { since: when.wall },
            (Now::Fires { span }, false) => {
                spans.end(*span, end);
                self.now = Now::Quiet;
            }
            (Now::Waits { since }, false) if !shown.withheld => {
                let span = spans.begin(row.alert, SpanKind::HeldBack, *since);
                spans.end(span, when.wall);
                self.now = Now::Quiet;
            }
            (Now::Quiet | Now::Waits { .. }, false) | (Now::Fires { .. }, true) => {}
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

    /// What an agent shows at a second.
    #[derive(Clone, Copy)]
    enum Sees {
        So,
        NotSo,
        Nothing,
        /// All is well.
        Clear,
        /// What happened so many seconds ago.
        Event(u64),
        /// A pause withholds it.
        Withheld,
    }

    fn spans_of(problem: Problem, story: &[(u64, Sees)]) -> Vec<(SpanKind, i64, Option<i64>)> {
        let (mut pager, mut spans) = (Pager::default(), Spans::default());
        for (second, sees) in story {
            let mut problems = Problems::default();
            match sees {
                Sees::So => problems.findings.push((problem, Finding::Positive { ms: 700_000 })),
                Sees::NotSo => problems.findings.push((problem, Finding::Negative)),
                Sees::Clear => problems.clear = true,
                Sees::Event(age_s) => problems.events.push((problem, age_s * 1_000)),
                Sees::Nothing | Sees::Withheld => {}
            }
            let withheld = matches!(sees, Sees::Withheld);
            let of = problem.row().of;
            pager.look(of, &problems, when(*second), &mut spans, |of| withheld && of == problem);
        }
        let seconds = |wall: AgentWall| wall.0 / 1000;
        spans
            .spans
            .iter()
            .map(|span| (span.kind, seconds(span.from), span.to.map(seconds)))
            .collect()
    }

    #[test]
    fn a_page_stays_until_the_agent_sees_that_it_is_not_so() {
        use Sees::{Clear, NotSo, Nothing, So};
        let of = |story: &[(u64, Sees)]| spans_of(Problem::Down, story);
        assert_eq!(
            of(&[(1, Nothing), (2, So), (5, Nothing), (9, NotSo)]),
            [(SpanKind::Page, 2, Some(9))]
        );
        assert_eq!(of(&[(2, So), (5, Nothing), (9, Clear)]), [(SpanKind::Page, 2, Some(9))]);
        assert_eq!(
            of(&[(1, NotSo), (2, So), (3, NotSo), (4, So), (5, Nothing)]),
            [(SpanKind::Page, 2, Some(3)), (SpanKind::Page, 4, None)]
        );
    }

    #[test]
    fn a_warning_lasts_while_it_is_seen() {
        use Sees::{Nothing, So};
        let story = [(2, So), (4, So), (5, Nothing)];
        assert_eq!(spans_of(Problem::Persistent, &story), [(SpanKind::Warning, 2, Some(5))]);
        assert_eq!(spans_of(Problem::RivalMaster, &story), [(SpanKind::Warning, 2, Some(5))]);
    }

    #[test]
    fn a_pause_holds_back_what_does_not_page_yet() {
        use Sees::{NotSo, So, Withheld};
        let story = [(1, Withheld), (2, NotSo), (3, Withheld), (4, So), (5, So), (6, NotSo)];
        assert_eq!(
            spans_of(Problem::Down, &story),
            [(SpanKind::HeldBack, 1, Some(2)), (SpanKind::Page, 4, Some(6))]
        );
    }

    #[test]
    fn an_event_is_told_for_its_time_and_not_kept() {
        use Sees::{Event, NotSo, Nothing, So};
        let story = [(2, Event(1)), (700, Event(699)), (1_700, Nothing)];
        assert_eq!(spans_of(Problem::LockLost, &story), [(SpanKind::Page, 2, Some(901))]);
        assert_eq!(spans_of(Problem::ClockStep, &story[..1]), [(SpanKind::Warning, 2, None)]);
        // A split that is over is an event.
        let story = [(2, So), (5, NotSo), (6, Event(1)), (2_000, Nothing)];
        assert_eq!(
            spans_of(Problem::Split, &story),
            [(SpanKind::Page, 2, Some(5)), (SpanKind::Page, 6, Some(905))]
        );
    }

    #[test]
    fn what_is_gone_does_not_page_and_comes_back_as_new() {
        let (mut pager, mut spans) = (Pager::default(), Spans::default());
        let so = Problems {
            findings: vec![(Problem::Blind, Finding::Positive { ms: 1 })],
            ..Problems::default()
        };
        pager.look(Of::Task, &so, when(1), &mut spans, |_| false);
        assert!(!pager.is_quiet());
        pager.end(when(100), &mut spans);
        pager.look(Of::Task, &Problems::default(), when(200), &mut spans, |_| false);
        assert!(pager.is_quiet());
        assert_eq!(spans.spans.len(), 1);
        assert_eq!(spans.spans[0].to, Some(when(100).wall));
    }
}
