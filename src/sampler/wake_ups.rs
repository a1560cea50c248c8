//! Server-assisted wake-ups of one server: asks it to tell of changed keys, and collects which
//! tasks that concerns.
//!
//! All of it may fail at any moment, and then the tasks are read at their pace, as they are anyway.
//! What is told is a hint that makes a read due, with all the checks of any other read; it is never
//! evidence.

mod filter;
mod inbox;
mod listen;

use std::sync::Arc;
use std::task::{Context, Poll};

use lockwatch_model::input::{NodeNewsKind, WakeUpState};
use lockwatch_model::schedule::Hinted;
use lockwatch_model::time::Mono;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

pub(super) use self::filter::Filter;
pub(super) use self::inbox::Hints;
use self::inbox::Inbox;
use self::listen::{Gate, listen};
use crate::clock::Clock;
use crate::config::Endpoint;

/// What was counted is told no more often than this.
const NEWS_EVERY_MS: u64 = 1_000;

/// The wake-ups of one server: listening, or not wanted.
#[derive(Default)]
pub(super) struct WakeUps {
    listening: Option<Listening>,
    /// What the engine has not been told yet.
    news: lockwatch_model::input::WakeUps,
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
    /// Listens to `endpoint` for what concerns the tasks of `filter` from now on, while `is_up`:
    /// while the server gives answers that can be believed. Without a filter it does not listen.
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

    /// The server gives answers that can be believed, or not.
    pub(super) fn is_up(&self, is_up: bool) {
        if let Some(listening) = &self.listening {
            listening
                .gate
                .send_if_modified(|gate| std::mem::replace(&mut gate.is_up, is_up) != is_up);
        }
    }

    /// Whether the server tells of changes, as far as is known.
    pub(super) fn are_on(&self) -> bool {
        self.listening.is_some() && self.news.state == WakeUpState::On
    }

    /// Waits for hints, or for another state.
    pub(super) fn poll_hints(&mut self, context: &mut Context<'_>) -> Poll<Hints> {
        let Some(listening) = &mut self.listening else { return Poll::Pending };
        // The inbox itself keeps the other end.
        listening.signal.poll_recv(context).map(|_| listening.inbox.take())
    }

    /// Counts what came beside the hints themselves.
    pub(super) fn count(&mut self, hints: &Hints) {
        self.news.state = hints.news.state;
        self.news.connects += hints.news.connects;
        self.news.coalesced += hints.news.coalesced;
        self.news.foreign += hints.news.foreign;
    }

    /// Counts what became of a hint.
    pub(super) fn count_hint(&mut self, hinted: Hinted) {
        match hinted {
            Hinted::Planned => self.news.read += 1,
            Hinted::Coalesced => self.news.coalesced += 1,
            Hinted::Foreign => self.news.foreign += 1,
        }
    }

    /// When the engine is to be told what was counted.
    pub(super) fn next_news(&self) -> Option<Mono> {
        (self.listening.is_some() && self.has_counted())
            .then(|| self.told_at.plus_ms(NEWS_EVERY_MS))
    }

    fn has_counted(&self) -> bool {
        lockwatch_model::input::WakeUps { state: self.news.state, ..Default::default() }
            != self.news
    }

    /// What the engine is to be told now: at once of another state, now and then of what was
    /// counted.
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

    /// That the server told of changes the last time says nothing.
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
            // The gate is shut: nothing is dialled.
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
