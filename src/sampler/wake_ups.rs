//! Server-assisted wake-ups of one server (`CLIENT TRACKING`): subscribes to its changed keys, and
//! collects the tasks that they concern.
//!
//! Any part of this may fail at any time; the tasks are then read at their interval, as they are
//! anyway. An announcement is a hint that makes a read due, with all the checks of any other read.
//! It is never evidence.

mod filter;
mod inbox;
mod listen;

use std::sync::Arc;
use std::task::{Context, Poll};

use lockwatch_judge::input::{NodeNewsKind, WakeUpState};
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::schedule::Hinted;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::filter::Filter;
pub(super) use self::inbox::Hints;
use self::inbox::Inbox;
use self::listen::{Gate, listen};
use crate::clock::Clock;
use crate::config::Endpoint;

/// Minimum time between two reports of counters to the engine, in milliseconds.
const NEWS_EVERY_MS: u64 = 1_000;

/// The wake-ups of one server; idle if they are turned off.
#[derive(Default)]
pub(super) struct WakeUps {
    listening: Option<Listening>,
    /// What was not reported to the engine yet.
    news: lockwatch_judge::input::WakeUps,
    is_told: Option<WakeUpState>,
    told_at: Mono,
}

struct Listening {
    gate: watch::Sender<Gate>,
    inbox: Arc<Inbox>,
    signal: mpsc::Receiver<()>,
    _task: AbortOnDropHandle<()>,
}

impl WakeUps {
    /// Listens to `endpoint` for keys of `filter` while `is_up`, that is, while the server gives
    /// answers that are accepted. Without a filter it does not listen.
    pub(super) fn follow(
        &mut self,
        endpoint: &Endpoint,
        filter: Option<&Arc<Filter>>,
        is_up: bool,
        clock: Clock,
    ) {
        let Some(filter) = filter else {
            self.listening = None;
            return;
        };
        let gate = Gate { is_up, filter: Arc::clone(filter) };
        match &self.listening {
            Some(listening) => {
                listening.gate.send_if_modified(|old| {
                    let differs = *old != gate;
                    *old = gate;
                    differs
                });
            }
            None => {
                self.news.state = WakeUpState::default();
                self.listening = Some(Listening::start(endpoint.clone(), gate, clock));
            }
        }
    }

    /// Sets whether the server gives answers that are accepted.
    pub(super) fn is_up(&self, is_up: bool) {
        if let Some(listening) = &self.listening {
            listening
                .gate
                .send_if_modified(|gate| std::mem::replace(&mut gate.is_up, is_up) != is_up);
        }
    }

    /// Whether the server announces changes, as far as known.
    pub(super) fn are_on(&self) -> bool {
        self.listening.is_some() && self.news.state == WakeUpState::On
    }

    /// Waits for hints, or for a change of state.
    pub(super) fn poll_hints(&mut self, context: &mut Context<'_>) -> Poll<Hints> {
        let Some(listening) = &mut self.listening else { return Poll::Pending };
        // Never closed: the inbox keeps the other end.
        listening.signal.poll_recv(context).map(|_| listening.inbox.take())
    }

    /// Adds the counters that came with the hints.
    pub(super) fn count(&mut self, hints: &Hints) {
        self.news.state = hints.news.state;
        self.news.connects += hints.news.connects;
        self.news.coalesced += hints.news.coalesced;
        self.news.foreign += hints.news.foreign;
    }

    /// Counts the result of a hint.
    pub(super) fn count_hint(&mut self, hinted: Hinted) {
        match hinted {
            Hinted::Planned => self.news.read += 1,
            Hinted::Coalesced => self.news.coalesced += 1,
            Hinted::Foreign => self.news.foreign += 1,
        }
    }

    /// When to report the counters to the engine.
    pub(super) fn next_news(&self) -> Option<Mono> {
        (self.listening.is_some() && self.has_counted())
            .then(|| self.told_at.plus_ms(NEWS_EVERY_MS))
    }

    fn has_counted(&self) -> bool {
        lockwatch_judge::input::WakeUps { state: self.news.state, ..Default::default() }
            != self.news
    }

    /// What to report to the engine now: a new state at once, counters at most once per
    /// [`NEWS_EVERY_MS`].
    pub(super) fn take_news(&mut self, now: Mono) -> Option<NodeNewsKind> {
        let state = self.listening.is_some().then_some(self.news.state);
        let is_due = self.has_counted() && now.since_ms(self.told_at) >= NEWS_EVERY_MS;
        let news = std::mem::take(&mut self.news);
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

impl Listening {
    fn start(endpoint: Endpoint, gate: Gate, clock: Clock) -> Listening {
        let (inbox, signal) = Inbox::new(&gate.filter);
        let inbox = Arc::new(inbox);
        let (gate, gates) = watch::channel(gate);
        let task = tokio::spawn(listen(endpoint, gates, Arc::clone(&inbox), clock));
        Listening { gate, inbox, signal, _task: AbortOnDropHandle::new(task) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HostPort, Login, RedisConfig, Servers};
    use crate::sampler::Tasks;
    use std::time::Duration;

    fn endpoint() -> Endpoint {
        let config = RedisConfig {
            name: "main".into(),
            servers: Servers::Nodes(Vec::new()),
            db: 0,
            login: Login::default(),
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(3),
            assume_master: false,
            wake_ups: true,
        };
        config.endpoint(HostPort { host: "one".to_owned(), port: 6379 })
    }

    /// That the server announced changes over an earlier connection proves nothing.
    #[tokio::test]
    async fn whoever_listens_anew_is_not_told_of_changes_yet() {
        let filter = Arc::new(Filter::new(&Tasks::default(), 1_000));
        let mut wake_ups = WakeUps::default();
        let mut follow = |filter: Option<&Arc<Filter>>, told: bool| {
            wake_ups.follow(&endpoint(), filter, false, Clock::start());
            if told {
                let mut hints = Hints::default();
                hints.news.state = WakeUpState::On;
                wake_ups.count(&hints);
            }
            wake_ups.are_on()
        };
        assert!(!follow(Some(&filter), false));
        assert!(follow(Some(&filter), true));
        assert!(!follow(None, false), "nobody listens");
        assert!(!follow(Some(&filter), false), "somebody does again");
    }

    #[tokio::test]
    async fn what_was_counted_before_nobody_wanted_it_is_told_when_somebody_does_again() {
        let endpoint = endpoint();
        let filter = Arc::new(Filter::new(&Tasks::default(), 1_000));
        let mut wake_ups = WakeUps::default();
        let mut told = |filter: Option<&Arc<Filter>>, hints: &[Hinted], now: u64| {
            // The gate is closed, so nothing is dialled.
            wake_ups.follow(&endpoint, filter, false, Clock::start());
            hints.iter().for_each(|hinted| wake_ups.count_hint(*hinted));
            match wake_ups.take_news(Mono(now)) {
                Some(NodeNewsKind::WakeUps(news)) => {
                    Some(news.map(|news| (news.read, news.coalesced)))
                }
                Some(other) => panic!("{other:?}"),
                None => None,
            }
        };
        assert_eq!(
            told(Some(&filter), &[Hinted::Planned], 0),
            Some(Some((1, 0))),
            "at once, because it is another state"
        );
        assert_eq!(told(Some(&filter), &[Hinted::Planned, Hinted::Coalesced], 999), None, "soon");
        assert_eq!(told(None, &[], 999), Some(None), "nobody listens any more");
        assert_eq!(told(None, &[], 5_000), None, "there is nobody of whom it could be told");
        assert_eq!(told(Some(&filter), &[], 5_000), Some(Some((1, 1))), "what was left");
        assert_eq!(told(Some(&filter), &[], 9_000), None, "and only once");
    }
}
