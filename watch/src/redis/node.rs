//! One server of a Redis: its connection, the schedule of its reads, and the handling of their
//! results.
//!
//! A server that decides is asked for everything that its tasks need, at the configured interval. A
//! witness is asked only for the locks: at the same interval while it reports that it is master,
//! else less often, with requests for its role in between.

mod errors;
mod flight;
mod receive;
mod send;
mod state;

use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::input::{NodeNewsKind, Outcome, Role, Standing};
use lockwatch_judge::reading::{SwitchesReading, Unknown};
use lockwatch_judge::spec::{TaskIndex, TaskSpec};
use lockwatch_judge::time::Mono;

use self::flight::{FLIGHTS, Flight, What};
pub(super) use self::state::Node;
use super::RedisKind;
use super::driver::{Dial, Event, Failure, LinkId, Login, Manner, Note, Now};
use super::out::Out;
use super::plan::{Duty, NodeReport};
use super::schedule::ScheduledTask;
use super::store::Store;
use super::tracking::Filter;

/// A replica's locks are read once in this many intervals.
const REPLICA_EVERY: u64 = 5;
/// A server counts as silent once reloads have dropped requests that waited for more than this many
/// timeouts in total, although no single request timed out.
const PATIENCE: u64 = 2;

impl Node {
    /// Assigns a duty. If the standing changes, batches in flight are dropped and everything is due
    /// now; if only the tasks change, those that stay are not disturbed.
    pub(super) fn assign(&mut self, duty: &Duty, now: Mono) {
        if self.duty == *duty {
            return;
        }
        let old = core::mem::replace(&mut self.duty, duty.clone());
        // Others may have been believed meanwhile, and after a reload tasks have other numbers.
        self.said_of.clear();
        if old.standing != self.duty.standing {
            self.restart_schedule(now);
        } else if old.own != self.duty.own {
            for Flight { what, .. } in self.flights.iter_mut().chain(&mut self.opening) {
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
    pub(super) fn configure(&mut self, store: &Store, now: Mono) {
        let oldest = self.flights.front().map_or(now, |flight| flight.launched.mono);
        self.unanswered_ms = self.unanswered_ms.saturating_add(now.since_ms(oldest));
        self.interval_ms = store.interval_ms;
        self.has_others = store.servers.kind() != RedisKind::Standalone;
        self.duty = Duty::none();
        // Tasks may have other numbers from here on.
        self.followed.clear();
        self.fields.clear();
        self.owners.clear();
        self.short_fields.clear();
        self.restart_schedule(now);
    }

    /// Gives up the connection if the server does not answer. Returns what other nodes must know.
    pub(super) fn overdue(&mut self, now: Now, out: &mut Out) -> Option<NodeReport> {
        if let Some(hints) = self.wake_ups.take_hints() {
            return Some(NodeReport { hints: Some(hints), ..NodeReport::default() });
        }
        self.link.up()?;
        let is_silent = self.unanswered_ms > PATIENCE.saturating_mul(self.timeout_ms);
        let is_late = self.late_at().is_some_and(|at| at <= now.mono);
        if !is_silent && !is_late {
            return None;
        }
        let words = format_args!("no complete reply within {} ms", self.timeout_ms);
        self.report_words(&Failure::new(Unknown::Timeout, words), out);
        Some(self.lose(None, Unknown::Timeout, now, out))
    }

    /// When the oldest batch in flight is unanswered for too long.
    fn late_at(&self) -> Option<Mono> {
        let oldest = self.flights.front()?;
        Some(oldest.launched.mono.plus_ms(self.timeout_ms))
    }

    fn restart_schedule(&mut self, now: Mono) {
        self.dropped += self.flights.len();
        self.flights.clear();
        self.remote_parts.clear();
        if let Some(Flight { what: What::Scheduled(batch), .. }) = self.opening.take() {
            self.schedule.broken(&batch);
        }
        let slowly = self.duty.standing == Standing::Witness && self.role != Some(Role::Master);
        let every = if slowly { REPLICA_EVERY } else { 1 };
        self.schedule =
            self.schedule.replanned(self.watched(), self.interval_ms.saturating_mul(every), now);
        self.pulse_at = now.plus_ms(self.interval_ms);
    }

    fn watched(&self) -> Vec<ScheduledTask> {
        let watched = |(task, spec): &(TaskIndex, Arc<TaskSpec>)| ScheduledTask {
            proves_holders: self.has_others,
            ..ScheduledTask::new(*task, spec)
        };
        self.duty.own.iter().map(watched).collect()
    }

    /// Asks the server to announce changes that `filter` lets through, if it decides.
    pub(super) fn listen(&mut self, filter: Option<&Arc<Filter>>, now: Mono, out: &mut Out) {
        let filter = if self.duty.standing == Standing::Decides { filter } else { None };
        self.wake_ups.follow(filter, self.link.is_believed(), now, out);
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
    pub(super) fn launch(&mut self, now: Now, out: &mut Out) {
        self.wake_ups.launch((&self.at, &self.address), self.timeout_ms, now.mono, out);
        if let Some(news) = self.wake_ups.take_news(now.mono) {
            out.news(&self.address, news);
        }
        if self.link.is_due(now.mono) {
            self.dial(now, out);
        }
        if self.link.up().is_none() {
            return self.miss(now.mono, out);
        }
        while self.flights.len() < FLIGHTS
            && let Some((_, caps)) = self.link.up()
            && let Some((what, reads)) = self.next_batch(now.mono, caps, out)
        {
            self.send(what, reads, 1, now, out);
        }
        if self.alive_at().is_some_and(|at| at <= now.mono) {
            self.keep_alive(now, out);
        }
        for _ in 0..self.schedule.take_skipped() {
            if self.duty.standing == Standing::Decides {
                out.news(&self.address, NodeNewsKind::TickSkipped);
            }
        }
    }

    fn dial(&mut self, now: Now, out: &mut Out) {
        let opening = self.opening(now, out).unwrap_or_default();
        self.opening_len = opening.len();
        let mut commands = self.handshake.commands();
        commands.extend(opening);
        let link = out.dial(|link| Dial {
            link,
            to: self.at.clone(),
            login: Login::Store,
            manner: Manner::Talk,
            commands,
            alone: self.handshake.alone(),
            attempt: self.link.in_vain(),
            timeout_ms: self.timeout_ms,
        });
        self.link.dialled(link, now.mono);
    }

    /// When to send something although nothing is due, if it is asked so rarely that it might close
    /// the connection.
    fn alive_at(&self) -> Option<Mono> {
        let idles = self.interval_ms > super::link::IDLE_MS && self.flights.is_empty();
        idles.then(|| self.link.idle_at()).flatten()
    }

    /// Without a connection, reports each tick that passes.
    fn miss(&mut self, now: Mono, out: &mut Out) {
        let tasks = self.schedule.missed(now);
        let Some(why) = self.lost else { return };
        for read in core::mem::take(&mut self.remote_parts) {
            self.report_parts(&read, now, why, out);
        }
        if tasks.is_empty() || self.duty.standing == Standing::Witness {
            return;
        }
        let outcome = Outcome::Failed { tasks, why };
        out.sample(Some(&self.address), Standing::Decides, (now, 0), outcome);
    }

    /// When to call [`Node::overdue`] and [`Node::launch`] again.
    pub(super) fn next_wake(&self) -> Option<Mono> {
        let due = match self.link.up() {
            Some(_) if self.flights.len() >= FLIGHTS => None,
            Some(_) if !self.remote_parts.is_empty() => Some(Mono::at(0)),
            Some(_) => {
                let hinted = self.may_follow_hints().then(|| self.schedule.next_hinted()).flatten();
                let pulse = self.pulses().then_some(self.pulse_at);
                let news = self.wake_ups.next_news();
                let more = hinted.into_iter().chain(pulse).chain(news).chain(self.alive_at());
                self.schedule.next_wake().into_iter().chain(more).min()
            }
            None => self.schedule.next_tick().into_iter().chain(self.link.next_dial()).min(),
        };
        due.into_iter().chain(self.late_at()).chain(self.wake_ups.next_wake()).min()
    }

    /// Whether the connection belongs to it.
    pub(super) fn has(&self, link: LinkId) -> bool {
        self.link.id() == Some(link) || self.wake_ups.has(link)
    }

    /// Takes in what happened on one of its connections; returns what other nodes must know.
    pub(super) fn take(
        &mut self,
        link: LinkId,
        event: Event,
        now: Now,
        out: &mut Out,
    ) -> NodeReport {
        if self.wake_ups.has(link) {
            self.wake_ups.take(event, &self.address, now.mono, out);
            return NodeReport { hints: self.wake_ups.take_hints(), ..NodeReport::default() };
        }
        let report = match event {
            Event::Dialled(dialled) => self.greeted(*dialled, now, out),
            Event::Failed(failure) if self.link.up().is_some() => {
                self.report_words(&failure, out);
                out.note(Note::BatchFailed(Arc::clone(&self.address), failure.clone()));
                self.lose(None, failure.why, now, out)
            }
            Event::Failed(failure) => self.cannot_connect(failure, now, out),
            Event::Replied { received, replies } => self.receive(received, &replies, now, out),
            Event::Pushed { .. } => NodeReport::default(),
        };
        if report.role.is_some() && report.role != self.role {
            self.role = report.role;
            if self.duty.standing == Standing::Witness {
                self.restart_schedule(now.mono);
            }
        }
        report
    }

    /// Closes its connections.
    pub(super) fn close(&self, out: &mut Out) {
        self.link.id().into_iter().chain(self.wake_ups.id()).for_each(|link| out.close(link));
    }
}

#[cfg(test)]
mod tests;
