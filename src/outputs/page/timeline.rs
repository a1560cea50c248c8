//! The history of a task within a window of time, as stretches: derived from its events and its
//! present state. All instants are milliseconds of the agent's monotonic clock, and may be before
//! its start.
//!
//! The time before the oldest evidence is shown as not known: the agent may have started then, or
//! may have dropped older events.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_judge::event::{End, Event, EventKind, SplitKind, Subject};
use lockwatch_judge::reading::{Holder, Unknown};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::{Rule, Verdict};

use super::pulse::present;

/// Milliseconds of the agent's monotonic clock; may be negative.
pub(super) type Instant = i64;

/// From one instant to a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl Span {
    pub(super) fn contains(self, at: Instant) -> bool {
        (self.from..=self.to).contains(&at)
    }
}

/// A state with its duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) span: Span,
    pub(super) what: What,
    /// Whether it continues.
    pub(super) open: bool,
}

/// The kind of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The lock was held.
    Hold {
        holders: Vec<Holder>,
        /// Whether its beginning was seen; else the duration is a lower bound.
        start_seen: bool,
        /// How it ended, if an event reports it.
        end: Option<End>,
    },
    /// The task was wanted and nobody held the lock.
    Gap,
    /// There was evidence of more than one holder.
    Split(SplitKind),
    /// The lock could not be read.
    Unreadable(Option<Unknown>),
    /// Nothing is known.
    NotKnown,
}

/// Something that happened at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Renewal,
    /// A gap of this many milliseconds ended as a handover.
    Handover(u64),
    /// An outage of this many milliseconds ended.
    Outage(u64),
}

/// A window of time and its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Timeline {
    pub(super) window: Span,
    /// By kind, each kind in order of time.
    pub(super) stretches: Vec<Stretch>,
    /// In order of time.
    pub(super) marks: Vec<(Instant, Mark)>,
}

/// The timeline of the last `window_ms` before `now`. `events`: those of the task and of its
/// store, in order.
pub(super) fn timeline<'a>(
    view: &TaskView,
    events: impl Iterator<Item = &'a Event> + Clone,
    now: Mono,
    window_ms: u64,
) -> Timeline {
    let now = instant(now);
    let window = Span { from: now.saturating_sub(signed(window_ms)), to: now };
    let mut story = Story::new(view, events.clone(), now);
    events.for_each(|event| story.take(event));
    let (stretches, mut marks) = story.finish(view, now);
    let renewals = view.lock().into_iter().flat_map(|lock| lock.renewals.iter());
    marks.extend(renewals.map(|at| (instant(at), Mark::Renewal)));
    marks.retain(|(at, _)| window.contains(*at));
    marks.sort_by_key(|(at, _)| *at);
    let stretches = stretches.into_iter().filter_map(|stretch| stretch.within(window)).collect();
    Timeline { window, stretches, marks }
}

fn instant(mono: Mono) -> Instant {
    signed(mono.ms())
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

impl Stretch {
    /// Its part within `window`. A stretch without duration is kept, too.
    fn within(self, window: Span) -> Option<Stretch> {
        let Span { from, to } = self.span;
        let span = Span { from: from.max(window.from), to: to.min(window.to) };
        (span.from <= span.to && to >= window.from).then_some(Stretch { span, ..self })
    }
}

/// The open stretches while the events are processed.
struct Story<'a> {
    /// The oldest evidence.
    known_from: Instant,
    /// The server that answers for the lock.
    node: Option<Arc<str>>,
    hold: Option<(Instant, &'a [Holder])>,
    acquired: Option<Instant>,
    gap: Option<Instant>,
    splits: BTreeMap<SplitKind, Instant>,
    unreadable: Option<(Instant, Option<Unknown>)>,
    blind_after_ms: i64,
    stretches: Vec<Stretch>,
    marks: Vec<(Instant, Mark)>,
}

impl<'a> Story<'a> {
    fn new(view: &TaskView, events: impl Iterator<Item = &'a Event>, now: Instant) -> Story<'a> {
        let mut of_task = events.filter(|event| is_of_task(event));
        let first = of_task.next();
        let node = first.into_iter().chain(of_task).find_map(|event| event.node.clone());
        let evidence = match first {
            Some(event) => instant(event.at),
            None if view.rule == &Rule::NOTHING_YET => now,
            None => held_from(view).unwrap_or(instant(view.verdict_since)),
        };
        Story {
            known_from: evidence.min(now),
            node: node.or_else(|| view.node.clone()),
            hold: None,
            acquired: None,
            gap: None,
            splits: BTreeMap::new(),
            unreadable: None,
            blind_after_ms: signed(view.spec.blind_after_ms),
            stretches: Vec::new(),
            marks: Vec::new(),
        }
    }

    fn take(&mut self, event: &'a Event) {
        let at = instant(event.at);
        if is_of_task(event) && event.node.is_some() {
            self.node.clone_from(&event.node);
        }
        match &event.kind {
            EventKind::Acquired { holders } => {
                self.end_hold(at, None);
                self.hold = Some((at, holders));
                self.acquired = Some(at);
            }
            EventKind::HoldEnded { holders, reason, held_ms } => {
                if self.hold.is_none() {
                    let began = held_ms.map_or(self.known_from, |ms| at.saturating_sub(signed(ms)));
                    self.push(began, at, held(holders, held_ms.is_some(), Some(*reason)));
                }
                self.end_hold(at, Some(*reason));
            }
            EventKind::GapBegan => {
                let taken =
                    self.acquired.filter(|taken| self.gap.is_some_and(|began| began <= *taken));
                self.end_gap(taken.unwrap_or(at));
                self.gap = Some(at);
            }
            EventKind::GapEnded { gap_ms } => {
                self.gap = self.gap.or(Some(at.saturating_sub(signed(*gap_ms))));
                self.end_gap(at);
                self.marks.push((at, Mark::Handover(*gap_ms)));
            }
            EventKind::Outage { outage_ms } => self.marks.push((at, Mark::Outage(*outage_ms))),
            EventKind::SplitBegan { kind, .. } => {
                self.splits.entry(*kind).or_insert(at);
            }
            EventKind::SplitEnded { kind, lasted_ms } => {
                let began =
                    self.splits.remove(kind).unwrap_or(at.saturating_sub(signed(*lasted_ms)));
                self.push(began, at, What::Split(*kind));
            }
            EventKind::Verdict { from, to, rule } => self.take_verdict(at, *from, *to, rule),
            EventKind::TaskUnreadable { why } => {
                self.unreadable.get_or_insert((at, Some(*why)));
            }
            EventKind::StoreDown { why, decides: true } if self.is_its_server(event) => {
                self.unreadable.get_or_insert((at, Some(*why)));
            }
            EventKind::StoreUp if self.is_its_server(event) => self.end_unreadable(at),
            EventKind::TaskReadable | EventKind::MastersChanged { to: Ok(_), .. } => {
                self.end_unreadable(at)
            }
            _ => {}
        }
        // These events require a successful reading.
        if matches!(
            event.kind,
            EventKind::Acquired { .. } | EventKind::HoldEnded { .. } | EventKind::GapBegan
        ) {
            self.end_unreadable(at);
        }
    }

    fn take_verdict(&mut self, at: Instant, from: Option<Verdict>, to: Verdict, rule: &Rule) {
        if from.is_none() {
            self.begin_anew(at);
        }
        if to == Verdict::Stopped {
            self.end_gap(at);
        }
        if rule.name == "lock_blind" {
            let last_read = at.saturating_sub(self.blind_after_ms).max(self.known_from);
            self.unreadable.get_or_insert((last_read, None));
        } else if from == Some(Verdict::Unknown) {
            self.end_unreadable(at);
        }
    }

    /// A task of this name was configured again. Stretches that are still open belong to another
    /// lock, or to one that was not configured meanwhile, so no event will report their end.
    fn begin_anew(&mut self, at: Instant) {
        if self.hold.is_some_and(|(began, _)| began < at) {
            self.end_hold(at, None);
        }
        if self.gap.is_some_and(|began| began < at) {
            self.end_gap(at);
        }
        for (kind, began) in std::mem::take(&mut self.splits) {
            self.push(began, at, What::Split(kind));
        }
        self.acquired = self.acquired.filter(|taken| *taken >= at);
    }

    /// Whether an event of a store is about the server that answers for the lock.
    fn is_its_server(&self, event: &Event) -> bool {
        match (&event.node, &self.node) {
            (Some(node), Some(own)) => node == own,
            _ => true,
        }
    }

    fn end_hold(&mut self, at: Instant, end: Option<End>) {
        if let Some((began, holders)) = self.hold.take() {
            self.push(began, at, held(holders, true, end));
        }
    }

    fn end_gap(&mut self, at: Instant) {
        if let Some(began) = self.gap.take() {
            self.push(began, at.max(began), What::Gap);
        }
    }

    fn end_unreadable(&mut self, at: Instant) {
        if let Some((began, why)) = self.unreadable.take() {
            self.push(began, at, What::Unreadable(why));
        }
    }

    fn push(&mut self, from: Instant, to: Instant, what: What) {
        self.stretches.push(Stretch { span: Span { from: from.min(to), to }, what, open: false });
    }

    fn push_open(&mut self, from: Instant, to: Instant, what: What) {
        self.push(from, to, what);
        self.stretches.iter_mut().next_back().into_iter().for_each(|stretch| stretch.open = true);
    }

    /// Adds the stretches that continue.
    fn finish(mut self, view: &TaskView, now: Instant) -> (Vec<Stretch>, Vec<(Instant, Mark)>) {
        let last_read = view.last_reading.map(instant);
        let evidence_to = match view.held {
            Some(_) => now,
            None => last_read.unwrap_or(self.known_from),
        };
        match (view.held, present(view), self.hold.take()) {
            (Some(true), Some(hold), began) => {
                let from = began.map(|(began, _)| began).or_else(|| held_from(view)).unwrap_or(now);
                let holders: Vec<Holder> =
                    hold.holders.iter().map(|(holder, _)| holder.clone()).collect();
                self.push_open(from, now, held(&holders, hold.acquired.is_some(), None));
            }
            // Not confirmed yet, or not known any more.
            (_, _, Some((began, holders))) => {
                self.push(began, last_read.unwrap_or(began).max(began), held(holders, true, None));
            }
            (_, _, None) => {}
        }
        match self.gap.take() {
            Some(began) if view.durations.down_ms > 0 => {
                self.push_open(began, evidence_to.max(began), What::Gap)
            }
            // It ended when a hold had settled after a blind stretch, which does not count as a
            // handover.
            Some(began) => self.push(began, self.acquired.unwrap_or(began).max(began), What::Gap),
            None => {}
        }
        for (kind, began) in std::mem::take(&mut self.splits) {
            self.push_open(began, now, What::Split(kind));
        }
        if view.held.is_none() {
            let (from, why) = self.unreadable.take().unwrap_or((evidence_to, None));
            self.push_open(from.min(evidence_to), now, What::Unreadable(view.unknown.or(why)));
        }
        let known_from = self
            .stretches
            .iter()
            .map(|stretch| stretch.span.from)
            .fold(self.known_from, Instant::min);
        let free_of_holds = self.without_held_parts_of_gaps();
        let mut stretches = vec![Stretch {
            span: Span { from: Instant::MIN, to: known_from },
            what: What::NotKnown,
            open: false,
        }];
        stretches.extend(free_of_holds);
        stretches.sort_by_key(|stretch| (stretch.what.order(), stretch.span));
        (stretches, self.marks)
    }

    /// Removes from each gap the holds that were too short to end it.
    fn without_held_parts_of_gaps(&mut self) -> Vec<Stretch> {
        let (gaps, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.stretches)
            .into_iter()
            .partition(|stretch| stretch.what == What::Gap);
        let mut holds: Vec<Span> = others
            .iter()
            .filter(|stretch| matches!(stretch.what, What::Hold { .. }))
            .map(|stretch| stretch.span)
            .collect();
        holds.sort();
        let parts = gaps.into_iter().flat_map(|gap| {
            let mut parts = Vec::new();
            let mut from = gap.span.from;
            for hold in
                holds.iter().filter(|hold| hold.to > gap.span.from && hold.from < gap.span.to)
            {
                if hold.from > from {
                    parts.push(Stretch {
                        span: Span { from, to: hold.from },
                        what: What::Gap,
                        open: false,
                    });
                }
                from = from.max(hold.to);
            }
            if from < gap.span.to || parts.is_empty() && from == gap.span.from {
                parts.push(Stretch { span: Span { from, to: gap.span.to }, ..gap });
            }
            parts
        });
        others.iter().cloned().chain(parts).collect()
    }
}

fn is_of_task(event: &Event) -> bool {
    matches!(event.subject, Subject::Task(_))
}

fn held(holders: &[Holder], start_seen: bool, end: Option<End>) -> What {
    What::Hold { holders: holders.to_vec(), start_seen, end }
}

/// The latest possible beginning of the present hold.
fn held_from(view: &TaskView) -> Option<Instant> {
    Some(instant(view.last_reading?.minus_ms(present(view)?.held_ms)))
}

impl What {
    /// The order of the kinds.
    fn order(&self) -> u8 {
        match self {
            What::Hold { .. } => 0,
            What::Gap => 1,
            What::Split(_) => 2,
            What::Unreadable(_) => 3,
            What::NotKnown => 4,
        }
    }
}

#[cfg(test)]
mod tests;
