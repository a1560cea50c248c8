//! One server of a Redis: its connection, the schedule of its reads, and the handling of their
//! results.
//!
//! A server that decides is asked for everything that its tasks need, at the configured interval. A
//! witness is asked only for the locks: at the same interval while it reports that it is master,
//! else less often, with requests for its role in between.

mod answers;
mod asking;

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use lockwatch_judge::input::{NodeNewsKind, Outcome, Role, Standing};
use lockwatch_judge::reading::{SwitchesReading, Unknown};
use lockwatch_judge::spec::{TaskIndex, TaskSpec, position_of};
use lockwatch_judge::time::Mono;
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::accept::Caps;
use lockwatch_watch::redis::schedule::{Schedule, Watched};
use tokio::task::JoinError;

use self::asking::{BesideRead, FLIGHTS, Flight, Flying, Landing, What};
use super::authority::Duty;
use super::link::{Dialled, Link};
use super::wake_ups::{Filter, Hints, WakeUps};
use super::{Gone, Out, spec};
use crate::clock::Clock;
use crate::config::{Endpoint, RedisConfig, ms};

/// A replica's locks are read once in this many intervals.
const REPLICA_EVERY: u64 = 5;
/// A server counts as silent once reloads have dropped requests that waited for more than this many
/// timeouts in total, although no single request timed out.
const PATIENCE: u64 = 2;

/// One server.
pub(super) struct Node {
    address: Arc<str>,
    endpoint: Endpoint,
    redis: Arc<str>,
    interval_ms: u64,
    /// Whether other servers may show other holders.
    has_others: bool,
    duty: Duty,
    schedule: Schedule,
    /// The role that it reported last.
    role: Option<Role>,
    /// When a witness is asked for its role next.
    pulse_at: Mono,
    /// Reads to do of keys beside locks of other servers, and which servers those are.
    beside: VecDeque<BesideRead>,
    link: Link,
    /// Batches in flight, in the order in which they were sent; replies come in the same order.
    flights: VecDeque<Flight>,
    /// Total age of the unanswered requests that reloads dropped, in milliseconds. Any answer
    /// resets it.
    unanswered_ms: u64,
    /// That time exceeded the limit: the server counts as unreadable.
    is_silent: bool,
    /// Why there is no connection; `None` before the first dial has ended, and while connected.
    lost: Option<Unknown>,
    /// The capabilities of the newest connection.
    caps: Option<Caps>,
    /// The commands that this server answered with an error of no known kind.
    refused: BTreeSet<String>,
    /// The batch that is sent with the greeting of the current dial.
    opening: Option<Flying>,
    nonces: u64,
    wake_ups: WakeUps,
}

/// A result from a server.
pub(super) enum News {
    Dialled(Dialled),
    Landed(Result<Landing, JoinError>),
    Hinted(Hints),
    Silent,
}

/// What other servers' nodes must know of a result.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// The role that the server reported.
    pub(super) role: Option<Role>,
    /// Why it reported none.
    pub(super) failed: Option<Unknown>,
    /// Whether a key is not on the expected server.
    pub(super) moved: bool,
    /// Tasks whose lock was read by a deciding server.
    pub(super) read: Option<Vec<TaskIndex>>,
    /// Switches whose lock lives on another server: that server, the instant of the request, the
    /// task and the reading.
    pub(super) switches: Vec<(Arc<str>, Mono, TaskIndex, SwitchesReading)>,
    /// Changes that it announced.
    pub(super) hints: Option<Hints>,
}

impl Node {
    /// A server without a duty yet.
    pub(super) fn new(
        address: Arc<str>,
        endpoint: Endpoint,
        config: &RedisConfig,
        now: Mono,
    ) -> Node {
        Node {
            address,
            endpoint,
            redis: Arc::clone(&config.name),
            interval_ms: ms(config.interval),
            has_others: config.servers.kind() != RedisKind::Standalone,
            duty: Duty::none(),
            schedule: Schedule::new(Vec::new(), ms(config.interval), now),
            role: None,
            pulse_at: now,
            beside: VecDeque::new(),
            link: Link::new(now),
            flights: VecDeque::new(),
            unanswered_ms: 0,
            is_silent: false,
            lost: None,
            caps: None,
            refused: BTreeSet::new(),
            opening: None,
            nonces: 0,
            wake_ups: WakeUps::default(),
        }
    }

    pub(super) fn address(&self) -> &Arc<str> {
        &self.address
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Assigns a duty. If the standing changes, batches in flight are dropped and everything is due
    /// now; if only the tasks change, those that stay are not disturbed.
    pub(super) fn assign(&mut self, duty: &Duty, now: Mono) {
        if self.duty == *duty {
            return;
        }
        let old = std::mem::replace(&mut self.duty, duty.clone());
        if old.standing != self.duty.standing {
            self.begin_anew(now);
        } else if old.own != self.duty.own {
            let flying =
                self.flights.iter_mut().map(|flight| &mut flight.flying).chain(&mut self.opening);
            for Flying { what, .. } in flying {
                if let What::Scheduled(batch) = what {
                    batch.detach();
                }
            }
            self.schedule.change(self.watched(), now);
        }
    }

    /// Applies a new configuration. Batches in flight belong to the old one and are dropped, but
    /// the time spent waiting for them is kept: otherwise a server that hangs would look healthy
    /// while reloads come more often than its timeout.
    pub(super) fn configure(&mut self, config: &RedisConfig, now: Mono) {
        let oldest = self.flights.front().map_or(now, |flight| flight.flying.launched);
        self.unanswered_ms = self.unanswered_ms.saturating_add(now.since_ms(oldest));
        self.is_silent = self.unanswered_ms > PATIENCE.saturating_mul(ms(self.endpoint.timeout));
        self.redis = Arc::clone(&config.name);
        self.interval_ms = ms(config.interval);
        self.has_others = config.servers.kind() != RedisKind::Standalone;
        self.duty = Duty::none();
        self.begin_anew(now);
    }

    fn begin_anew(&mut self, now: Mono) {
        self.flights.clear();
        self.beside.clear();
        if let Some(Flying { what: What::Scheduled(batch), .. }) = self.opening.take() {
            self.schedule.broken(&batch);
        }
        let slowly = self.duty.standing == Standing::Witness && self.role != Some(Role::Master);
        let every = if slowly { REPLICA_EVERY } else { 1 };
        self.schedule =
            self.schedule.anew(self.watched(), self.interval_ms.saturating_mul(every), now);
        self.pulse_at = now.plus_ms(self.interval_ms);
    }

    fn watched(&self) -> Vec<Watched> {
        let watched = |(task, spec): &(TaskIndex, Arc<TaskSpec>)| Watched {
            proves_holders: self.has_others,
            ..Watched::new(*task, spec)
        };
        self.duty.own.iter().map(watched).collect()
    }

    /// Asks the server to announce changes that `filter` lets through, if it decides.
    pub(super) fn listen(&mut self, filter: Option<&Arc<Filter>>, clock: Clock) {
        let filter = if self.duty.standing == Standing::Decides { filter } else { None };
        self.wake_ups.follow(&self.endpoint, filter, self.link.is_believed(), clock);
    }

    /// Some server announced a changed key of `task`: if its lock is read here, it is read at once.
    pub(super) fn hint(&mut self, task: TaskIndex, now: Mono) {
        if self.duty.standing == Standing::Decides && self.owns(task) {
            let hinted = self.schedule.hint(task, now);
            self.wake_ups.count_hint(hinted);
        }
    }

    /// Any key may have changed.
    pub(super) fn hint_all(&mut self, now: Mono) {
        if self.duty.standing == Standing::Decides {
            self.schedule.hint_all(now);
        }
    }

    /// Takes in switches of one of its locks that were read on another server.
    pub(super) fn observe_switches(
        &mut self,
        task: TaskIndex,
        sent: Mono,
        switches: &SwitchesReading,
    ) {
        self.schedule.observe_switches(task, sent, Some(switches));
    }

    /// Sends everything that is due now.
    pub(super) async fn launch(&mut self, out: &Out) -> Result<(), Gone> {
        let now = out.clock.now();
        if let Some(news) = self.wake_ups.take_news(now) {
            out.news(&self.address, news).await?;
        }
        if self.link.is_due(now) {
            let opening = self.opening(now, out);
            self.link.dial(&self.endpoint, opening, now);
        }
        if self.link.connection().is_none() {
            return self.miss(now, out).await;
        }
        while self.flights.len() < FLIGHTS
            && let Some(connection) = self.link.connection()
            && let Some((what, reads)) = self.next_batch(now, connection.caps(), &out.traces)
        {
            self.fly(what, reads, 1, out);
        }
        for _ in 0..self.schedule.take_skipped() {
            if self.duty.standing == Standing::Decides {
                out.news(&self.address, NodeNewsKind::TickSkipped).await?;
            }
        }
        Ok(())
    }

    /// Without a connection, reports each tick that passes.
    async fn miss(&mut self, now: Mono, out: &Out) -> Result<(), Gone> {
        let tasks = self.schedule.missed(now);
        let Some(why) = self.lost else { return Ok(()) };
        for read in std::mem::take(&mut self.beside) {
            self.report_beside(&read, now, why, out).await?;
        }
        if tasks.is_empty() || self.duty.standing == Standing::Witness {
            return Ok(());
        }
        out.sample(Some(&self.address), Standing::Decides, (now, 0), Outcome::Failed { tasks, why })
            .await
    }

    /// When to call [`Node::launch`] again.
    pub(super) fn next_wake(&self) -> Option<Mono> {
        match self.link.connection() {
            Some(_) if self.flights.len() >= FLIGHTS => None,
            Some(_) if !self.beside.is_empty() => Some(Mono(0)),
            Some(_) => {
                let hinted = self.may_follow_hints().then(|| self.schedule.next_hinted()).flatten();
                let pulse = self.pulses().then_some(self.pulse_at);
                let news = self.wake_ups.next_news();
                self.schedule.next_wake().into_iter().chain(hinted).chain(pulse).chain(news).min()
            }
            None => self.schedule.next_tick().into_iter().chain(self.link.next_dial()).min(),
        }
    }

    /// Whether a dial has ended or the oldest batch is complete. Pass the news to [`Node::take`].
    pub(super) fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<News> {
        if let Poll::Ready(dialled) = self.link.poll_dialled(context) {
            return Poll::Ready(News::Dialled(dialled));
        }
        if std::mem::take(&mut self.is_silent) && self.link.connection().is_some() {
            return Poll::Ready(News::Silent);
        }
        if let Some(flight) = self.flights.front_mut()
            && let Poll::Ready(landing) = Pin::new(&mut flight.reply).poll(context)
        {
            return Poll::Ready(News::Landed(landing));
        }
        self.wake_ups.poll_hints(context).map(News::Hinted)
    }

    /// Takes in news; returns what other nodes must know.
    pub(super) async fn take(&mut self, news: News, out: &Out) -> Result<Heard, Gone> {
        let heard = match news {
            News::Dialled(dialled) => self.greeted(dialled, out).await?,
            News::Landed(landing) => self.land(landing, out).await?,
            News::Silent => self.lose(None, Unknown::Timeout, out).await?,
            News::Hinted(hints) => {
                self.wake_ups.count(&hints);
                return Ok(Heard { hints: Some(hints), ..Heard::default() });
            }
        };
        if heard.role.is_some() && heard.role != self.role {
            self.role = heard.role;
            if self.duty.standing == Standing::Witness {
                self.begin_anew(out.clock.now());
            }
        }
        Ok(heard)
    }

    fn spec(&self, task: TaskIndex) -> Option<Arc<TaskSpec>> {
        spec(&self.duty.all, task)
    }

    /// Whether the lock of a task is read here.
    fn owns(&self, task: TaskIndex) -> bool {
        position_of(task, &self.duty.own, |(index, _)| *index).is_some()
    }
}

#[cfg(test)]
mod tests;
