//! Server-assisted wake-ups of one server (`CLIENT TRACKING`): subscribes to its changed keys, and
//! finds the tasks that they concern.
//!
//! Any part of this may fail at any time; the tasks are then read at their interval, as they are
//! anyway. An announcement is a hint that makes a read due, with all the checks of any other read.
//! It is never evidence.

mod filter;
mod listener;

use alloc::sync::Arc;

use lockwatch_judge::input::{self, NodeNewsKind, WakeUpState};
use lockwatch_judge::time::Mono;

pub(super) use self::filter::Filter;
use self::listener::Listener;
pub use self::listener::{CHANNEL, greeted, greeting};
use super::driver::{Event, LinkId};
use super::out::Out;
use super::plan::Hints;
use super::schedule::Hinted;
use super::store::HostPort;

/// Minimum time between two reports of counters, in milliseconds.
const NEWS_EVERY_MS: u64 = 1_000;

/// The wake-ups of one server; idle if they are turned off.
#[derive(Debug, Default)]
pub(super) struct WakeUps {
    listener: Option<Listener>,
    /// What was not reported yet.
    news: input::WakeUps,
    is_told: Option<WakeUpState>,
    told_at: Mono,
}

impl WakeUps {
    /// Listens for keys of `filter` while `is_up`, that is, while the server gives answers that are
    /// accepted. Without a filter it does not listen.
    pub(super) fn follow(
        &mut self,
        filter: Option<&Arc<Filter>>,
        is_up: bool,
        now: Mono,
        out: &mut Out,
    ) {
        match (&mut self.listener, filter) {
            (listener, None) => {
                let link = listener.take().and_then(|listener| listener.id());
                link.into_iter().for_each(|link| out.close(link));
            }
            (Some(listener), Some(filter)) => listener.follow(filter, is_up, now, out),
            (None, Some(filter)) => {
                self.news.state = WakeUpState::default();
                self.listener = Some(Listener::new(filter, is_up, now));
            }
        }
        self.note_state();
    }

    /// Sets whether the server gives answers that are accepted.
    pub(super) fn set_up(&mut self, is_up: bool, now: Mono, out: &mut Out) {
        if let Some(listener) = &mut self.listener {
            listener.set_up(is_up, now, out);
        }
        self.note_state();
    }

    /// Whether the server announces changes, as far as known.
    pub(super) fn are_on(&self) -> bool {
        self.listener.is_some() && self.news.state == WakeUpState::On
    }

    /// Whether the connection belongs to it.
    pub(super) fn has(&self, link: LinkId) -> bool {
        self.id() == Some(link)
    }

    /// Its connection, if there is one or it is being made.
    pub(super) fn id(&self) -> Option<LinkId> {
        self.listener.as_ref()?.id()
    }

    /// Does what is due now at the server `at`.
    pub(super) fn launch(
        &mut self,
        (at, address): (&HostPort, &Arc<str>),
        timeout_ms: u64,
        now: Mono,
        out: &mut Out,
    ) {
        if let Some(listener) = &mut self.listener {
            listener.launch((at, address), timeout_ms, now, out);
        }
        self.note_state();
    }

    /// When to call [`WakeUps::launch`] again.
    pub(super) fn next_wake(&self) -> Option<Mono> {
        self.listener.as_ref()?.next_wake()
    }

    /// Takes in what happened on its connection.
    pub(super) fn take(&mut self, event: Event, address: &Arc<str>, now: Mono, out: &mut Out) {
        if let Some(listener) = &mut self.listener {
            listener.take(event, address, &mut self.news, now, out);
        }
        self.note_state();
    }

    /// What was announced since the last call.
    pub(super) fn take_hints(&mut self) -> Option<Hints> {
        let hints = core::mem::take(&mut self.listener.as_mut()?.hints);
        (hints != Hints::default()).then_some(hints)
    }

    fn note_state(&mut self) {
        if let Some(listener) = &self.listener {
            self.news.state = listener.state;
        }
    }

    /// Counts the result of a hint.
    pub(super) fn count_hint(&mut self, hinted: Hinted) {
        match hinted {
            Hinted::Planned => self.news.read += 1,
            Hinted::Coalesced => self.news.coalesced += 1,
            Hinted::Foreign => self.news.foreign += 1,
        }
    }

    /// When to report the counters.
    pub(super) fn next_news(&self) -> Option<Mono> {
        (self.listener.is_some() && self.has_counted()).then(|| self.told_at.plus_ms(NEWS_EVERY_MS))
    }

    fn has_counted(&self) -> bool {
        input::WakeUps { state: self.news.state, ..Default::default() } != self.news
    }

    /// What to report now: a new state at once, counters at most once per [`NEWS_EVERY_MS`].
    pub(super) fn take_news(&mut self, now: Mono) -> Option<NodeNewsKind> {
        let state = self.listener.is_some().then_some(self.news.state);
        let is_due = self.has_counted() && now.since_ms(self.told_at) >= NEWS_EVERY_MS;
        let news = core::mem::take(&mut self.news);
        self.news.state = news.state;
        match state {
            Some(_) if state != self.is_told || is_due => {
                (self.is_told, self.told_at) = (state, now);
                Some(NodeNewsKind::WakeUps(Some(news)))
            }
            None if self.is_told.is_some() => {
                (self.news, self.is_told) = (news, None);
                Some(NodeNewsKind::WakeUps(None))
            }
            _ => {
                self.news = news;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::spec::StoreIndex;

    use super::*;
    use crate::redis::tasks::Tasks;

    /// That the server announced changes over an earlier connection proves nothing.
    #[test]
    fn whoever_listens_anew_is_not_told_of_changes_yet() {
        let mut out = Out::new(0, StoreIndex(0), 1);
        let filter = Arc::new(Filter::new(&Tasks::default(), 1_000));
        let mut wake_ups = WakeUps::default();
        let mut follow = |filter: Option<&Arc<Filter>>, is_announced: bool| {
            wake_ups.follow(filter, false, Mono::at(0), &mut out);
            if is_announced && let Some(listener) = &mut wake_ups.listener {
                listener.state = WakeUpState::On;
            }
            wake_ups.note_state();
            wake_ups.are_on()
        };
        assert!(!follow(Some(&filter), false));
        assert!(follow(Some(&filter), true));
        assert!(!follow(None, false), "nobody listens");
        assert!(!follow(Some(&filter), false), "somebody does again");
    }

    #[test]
    fn what_was_counted_before_nobody_wanted_it_is_told_when_somebody_does_again() {
        let mut out = Out::new(0, StoreIndex(0), 1);
        let filter = Arc::new(Filter::new(&Tasks::default(), 1_000));
        let mut wake_ups = WakeUps::default();
        let mut reported = |filter: Option<&Arc<Filter>>, hints: &[Hinted], now: u64| {
            wake_ups.follow(filter, false, Mono::at(now), &mut out);
            hints.iter().for_each(|hinted| wake_ups.count_hint(*hinted));
            match wake_ups.take_news(Mono::at(now)) {
                Some(NodeNewsKind::WakeUps(news)) => {
                    Some(news.map(|news| (news.read, news.coalesced)))
                }
                Some(other) => panic!("{other:?}"),
                None => None,
            }
        };
        assert_eq!(
            reported(Some(&filter), &[Hinted::Planned], 0),
            Some(Some((1, 0))),
            "at once, because it is another state"
        );
        assert_eq!(
            reported(Some(&filter), &[Hinted::Planned, Hinted::Coalesced], 999),
            None,
            "soon"
        );
        assert_eq!(reported(None, &[], 999), Some(None), "nobody listens any more");
        assert_eq!(
            reported(None, &[], 5_000),
            None,
            "there is nobody of whom it could be reported"
        );
        assert_eq!(reported(Some(&filter), &[], 5_000), Some(Some((1, 1))), "what was left");
        assert_eq!(reported(Some(&filter), &[], 9_000), None, "and only once");
    }
}
