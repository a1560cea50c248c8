//! Decides what a server is asked and when: scheduled batches, keys beside locks of other servers,
//! and its role.

use std::sync::Arc;

use lockwatch_judge::input::{Outcome, Role, Standing};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{TaskIndex, TaskSpec};
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::accept::Caps;
use lockwatch_watch::redis::read::{Scope, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply};
use lockwatch_watch::redis::schedule::Batch;
use tokio_util::task::AbortOnDropHandle;

use super::Node;
use crate::clock::Clock;
use crate::redis;
use crate::sampler::question::Question;
use crate::sampler::{Gone, Out, unreadable};
use crate::trace::Traces;

/// Maximum number of batches in flight on one connection.
pub(super) const FLIGHTS: usize = 4;
/// Maximum number of them that are sent only because of hints, so that scheduled batches never wait
/// for these.
const HINTED_FLIGHTS: usize = FLIGHTS - 1;

/// A read of parts of tasks whose locks live on the server `of`.
pub(super) struct BesideRead {
    pub(super) parts: Vec<(TaskIndex, Scope)>,
    pub(super) of: Arc<str>,
}

/// A batch in flight on the connection.
pub(super) struct Flight {
    pub(super) flying: Flying,
    pub(super) reply: AbortOnDropHandle<Landing>,
}

/// A batch that was sent.
pub(super) struct Flying {
    pub(super) what: What,
    pub(super) question: Question,
    pub(super) round: u8,
    pub(super) launched: Mono,
}

/// The content of a batch.
pub(super) enum What {
    Scheduled(Batch),
    /// Only the server's role.
    Pulse,
    Beside(BesideRead),
}

/// The replies to a batch, and the instants around it.
pub(in crate::sampler) struct Landing {
    pub(super) sent: Mono,
    pub(super) sent_wall: AgentWall,
    pub(super) received: Mono,
    pub(super) replies: Result<Vec<Reply>, redis::Failure>,
    /// A command that the server answered with an error of no known kind.
    pub(super) refused: Option<String>,
}

async fn ask(connection: Arc<redis::Connection>, commands: Vec<Command>, clock: Clock) -> Landing {
    let (sent, sent_wall) = clock.both();
    let replies = connection.exec(&commands).await;
    let received = clock.now();
    let refused = replies.as_ref().ok().and_then(|replies| refused(&commands, replies));
    Landing { sent, sent_wall, received, replies, refused }
}

/// The first of `commands` that was answered with an error of no known kind. The error text may
/// quote anything, so it is not logged.
pub(super) fn refused(commands: &[Command], replies: &[Reply]) -> Option<String> {
    let is_odd = |reply: &Reply| matches!(reply, Reply::Error(error) if Unknown::from(error) == Unknown::ServerError);
    let (command, _) = commands.iter().zip(replies).find(|(_, reply)| is_odd(reply))?;
    command.args.first().map(|name| String::from_utf8_lossy(name).into_owned())
}

impl Node {
    /// Reads `parts` of tasks whose locks live on `of`, as soon as possible.
    pub(in crate::sampler) async fn read_beside(
        &mut self,
        parts: Vec<(TaskIndex, Scope)>,
        of: &Arc<str>,
        now: Mono,
        out: &Out,
    ) -> Result<(), Gone> {
        let read = BesideRead { parts, of: Arc::clone(of) };
        match (self.link.connection(), self.lost) {
            (Some(_), _) => {
                // If a server lags, only the newest request matters.
                self.beside.retain(|waiting| waiting.of != read.of || waiting.parts != read.parts);
                self.beside.push_back(read);
                Ok(())
            }
            (None, why) => {
                self.report_beside(&read, now, why.unwrap_or(Unknown::NotReadYet), out).await
            }
        }
    }

    pub(super) async fn report_beside(
        &self,
        read: &BesideRead,
        now: Mono,
        why: Unknown,
        out: &Out,
    ) -> Result<(), Gone> {
        let readings = unreadable(&read.parts, |task| self.spec(task), why);
        let outcome = Outcome::Beside { attestation: None, readings };
        out.sample(Some(&self.address), Standing::Decides, (now, 0), outcome).await
    }

    /// The batch that is due at `now`, and how its tasks are read.
    pub(super) fn next_batch(
        &mut self,
        now: Mono,
        caps: Caps,
        traces: &Traces,
    ) -> Option<(What, Vec<(TaskIndex, TaskRead)>)> {
        if let Some(read) = self.beside.pop_front() {
            let reads = read.parts.iter().filter_map(|(task, scope)| {
                Some((*task, TaskRead::new(self.spec(*task)?, caps, true, *scope)))
            });
            let reads = reads.collect();
            return Some((What::Beside(read), reads));
        }
        if let Some(batch) = self.due(now) {
            self.pulse_at = now.plus_ms(self.interval_ms);
            let reads = self.reads(&batch, caps, traces);
            return Some((What::Scheduled(batch), reads));
        }
        if self.pulses() && self.pulse_at <= now {
            self.pulse_at = now.plus_ms(self.interval_ms);
            return Some((What::Pulse, Vec::new()));
        }
        let batch = self.may_follow_hints().then(|| self.schedule.due_hinted(now)).flatten()?;
        let reads = self.reads(&batch, caps, traces);
        Some((What::Scheduled(batch), reads))
    }

    /// What is due at `now` without any hints.
    fn due(&mut self, now: Mono) -> Option<Batch> {
        self.schedule.allow_glances(self.wake_ups.are_on());
        self.schedule.due(now)
    }

    /// Whether another batch may be sent only because of hints.
    pub(super) fn may_follow_hints(&self) -> bool {
        self.flights.len() < HINTED_FLIGHTS
    }

    /// Whether its role is requested more often than its locks.
    pub(super) fn pulses(&self) -> bool {
        self.duty.standing == Standing::Witness && self.role != Some(Role::Master)
    }

    /// How the tasks of `batch` are read.
    fn reads(&self, batch: &Batch, caps: Caps, traces: &Traces) -> Vec<(TaskIndex, TaskRead)> {
        let shown = traces.wanted();
        let specs = batch.tasks.iter().filter_map(|task| Some((*task, self.spec(*task)?)));
        let read = |(task, spec): (TaskIndex, Arc<TaskSpec>)| match self.duty.standing {
            Standing::Decides => {
                // A reader of a trace needs a whole reading, not a glance.
                let is_shown = shown.as_ref().is_some_and(|shown| shown.contains(&spec.name));
                let known = if is_shown { None } else { self.schedule.known(batch, task) };
                let read = TaskRead::new(
                    spec,
                    caps,
                    self.schedule.asks_extras(batch, task),
                    self.duty.scope(task),
                );
                (task, if let Some(known) = known { read.glancing_at(known) } else { read })
            }
            Standing::Witness => (task, TaskRead::new(spec, caps, false, Scope::LOCK)),
        };
        specs.map(read).collect()
    }

    fn question(
        &mut self,
        reads: Vec<(TaskIndex, TaskRead)>,
        caps: Caps,
        standing: Standing,
        traces: &Traces,
    ) -> (Question, Vec<Command>) {
        self.nonces += 1;
        let nonce = format!("{:016x}-{:x}", fastrand::u64(..), self.nonces).into_bytes();
        let (mut question, commands) = Question::new(reads, caps, standing, nonce);
        if let Some(wanted) = traces.wanted() {
            question.keep(|task| self.spec(task).is_some_and(|spec| wanted.contains(&spec.name)));
        }
        (question, commands)
    }

    /// The batch to send with the next greeting: only after a reply was lost, see
    /// [`redis::Opening`].
    pub(super) fn opening(&mut self, now: Mono, out: &Out) -> Option<redis::Opening> {
        if self.lost != Some(Unknown::Timeout) {
            return None;
        }
        let caps = self.caps?;
        let batch = self.due(now)?;
        let reads = self.reads(&batch, caps, &out.traces);
        let (question, commands) = self.question(reads, caps, self.duty.standing, &out.traces);
        self.opening =
            Some(Flying { what: What::Scheduled(batch), question, round: 1, launched: now });
        Some(redis::Opening { commands, clock: out.clock })
    }

    /// Sends a round of a batch.
    pub(super) fn fly(
        &mut self,
        what: What,
        reads: Vec<(TaskIndex, TaskRead)>,
        round: u8,
        out: &Out,
    ) {
        let Some(connection) = self.link.connection() else { return self.broken(&what) };
        let standing = self.standing(&what);
        let (question, commands) = self.question(reads, connection.caps(), standing, &out.traces);
        let reply = AbortOnDropHandle::new(tokio::spawn(ask(connection, commands, out.clock)));
        self.flights.push_back(Flight {
            flying: Flying { what, question, round, launched: out.clock.now() },
            reply,
        });
    }

    pub(super) fn broken(&mut self, what: &What) {
        if let What::Scheduled(batch) = what {
            self.schedule.broken(batch);
        }
    }

    pub(super) fn finished(&mut self, what: &What) {
        if let What::Scheduled(batch) = what {
            self.schedule.finished(batch);
        }
    }
}
