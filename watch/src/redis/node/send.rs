//! Decides what a server is asked and when: scheduled batches, parts of tasks whose
//! locks are on other servers, and its role.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::{Outcome, Role, Standing};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{TaskIndex, TaskSpec};
use lockwatch_judge::time::Mono;

use super::flight::{FLIGHTS, Flight, PartsRead, What};
use super::state::Node;
use crate::command;
use crate::redis::accept::Caps;
use crate::redis::batch::Question;
use crate::redis::driver::Now;
use crate::redis::out::Out;
use crate::redis::read::{Scope, TaskRead};
use crate::redis::reply::{Command, Reply};
use crate::redis::schedule::Batch;
use crate::redis::tasks::unreadable;

/// Maximum number of them that are sent only because of hints, so that scheduled batches never wait
/// for these.
const HINTED_FLIGHTS: usize = FLIGHTS - 1;

/// The first command that was answered with an error of no known kind, by its name. The error text
/// may quote anything, so it is not logged.
pub(super) fn refused(question: &Question, replies: &[Reply]) -> Option<String> {
    let is_odd = |reply: &Reply| matches!(reply, Reply::Error(error) if Unknown::from(error) == Unknown::ServerError);
    let command = question.command(replies.iter().position(is_odd)?)?;
    command.args.first().map(|name| String::from_utf8_lossy(name).into_owned())
}

impl Node {
    /// Reads `parts` of tasks whose locks live on `of`, as soon as possible.
    pub(in crate::redis) fn read_parts(
        &mut self,
        parts: Vec<(TaskIndex, Scope)>,
        of: &Arc<str>,
        now: Mono,
        out: &mut Out,
    ) {
        let read = PartsRead { parts, of: Arc::clone(of) };
        if self.link.up().is_none() {
            let why = self.lost.unwrap_or(Unknown::NotReadYet);
            return self.report_parts(&read, now, why, out);
        }
        // If a server lags, only the newest request matters.
        self.remote_parts.retain(|waiting| waiting.of != read.of || waiting.parts != read.parts);
        self.remote_parts.push_back(read);
    }

    pub(super) fn report_parts(&self, read: &PartsRead, now: Mono, why: Unknown, out: &mut Out) {
        let readings = unreadable(&read.parts, |task| self.spec(task), why);
        let outcome = Outcome::Parts { attestation: None, readings };
        out.sample(Some(&self.address), Standing::Decides, (now, 0), outcome);
    }

    /// The batch that is due at `now`, and how its tasks are read.
    pub(super) fn next_batch(
        &mut self,
        now: Mono,
        caps: Caps,
        out: &Out,
    ) -> Option<(What, Vec<(TaskIndex, TaskRead)>)> {
        if let Some(read) = self.remote_parts.pop_front() {
            let reads = read.parts.iter().filter_map(|(task, scope)| {
                let read = TaskRead::new(self.spec(*task)?, caps, true, *scope);
                Some((*task, self.asking_of_fields(*task, read)))
            });
            let reads = reads.collect();
            return Some((What::Parts(read), reads));
        }
        if let Some(batch) = self.due(now) {
            self.pulse_at = now.plus_ms(self.interval_ms);
            let reads = self.reads(&batch, caps, out);
            return Some((What::Scheduled(batch), reads));
        }
        if self.pulses() && self.pulse_at <= now {
            self.pulse_at = now.plus_ms(self.interval_ms);
            return Some((What::Pulse, Vec::new()));
        }
        let batch = self.may_follow_hints().then(|| self.schedule.due_hinted(now)).flatten()?;
        let reads = self.reads(&batch, caps, out);
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
    fn reads(&self, batch: &Batch, caps: Caps, out: &Out) -> Vec<(TaskIndex, TaskRead)> {
        let decides = self.duty.standing == Standing::Decides;
        let specs = batch.tasks.iter().filter_map(|task| Some((*task, self.spec(*task)?)));
        // A witness can prove a second holder of a lock, and nothing else.
        let specs = specs.filter(|(_, spec)| decides || spec.lock().is_some());
        let read_all = |task: TaskIndex, spec, with_extras, scope| {
            let read = TaskRead::new(spec, caps, with_extras, scope);
            if self.short_fields.contains(&task) { read.of_short_field() } else { read }
        };
        let read = |(task, spec): (TaskIndex, Arc<TaskSpec>)| match self.duty.standing {
            Standing::Decides => {
                // A reader of a trace needs a whole reading, not a glance.
                let known = if out.traced.contains(&task) {
                    None
                } else {
                    self.schedule.known(batch, task)
                };
                let with_extras = self.schedule.asks_extras(batch, task);
                let read = read_all(task, spec, with_extras, self.duty.scope(task));
                let read = if let Some(known) = known { read.glancing_at(known) } else { read };
                let read = self.asking_of_owner(task, self.asking_of_fields(task, read));
                let followed = self.followed.get(&task);
                (task, if let Some(before) = followed { read.following(before) } else { read })
            }
            Standing::Witness => {
                let read = read_all(task, spec, false, Scope::GUARD);
                (task, self.asking_of_owner(task, read))
            }
        };
        specs.map(read).collect()
    }

    fn asking_of_fields(&self, task: TaskIndex, read: TaskRead) -> TaskRead {
        match self.fields.get(&task) {
            Some(fields) => read.asking_of(fields),
            None => read,
        }
    }

    fn asking_of_owner(&self, task: TaskIndex, read: TaskRead) -> TaskRead {
        match self.owners.get(&task) {
            Some(known) => read.asking_of_owner(known),
            None => read,
        }
    }

    /// Makes a batch to be sent now, and its commands.
    fn flight(
        &mut self,
        what: What,
        reads: Vec<(TaskIndex, TaskRead)>,
        (caps, round): (Caps, u8),
        now: Now,
        out: &mut Out,
    ) -> (Flight, Vec<Command>) {
        self.nonces += 1;
        let nonce = format!("{:016x}-{:x}", out.random(), self.nonces).into_bytes();
        let (mut question, commands) = Question::new(reads, caps, self.standing(&what), nonce);
        if !out.traced.is_empty() {
            question.keep(|task| out.traced.contains(&task));
        }
        (Flight { what, question, round, launched: now }, commands)
    }

    /// The commands to send with the next greeting: only after a reply was lost. So greeting and
    /// batch succeed or fail together. A network that loses every second reply, for example, would
    /// otherwise let each greeting pass and drop each first batch.
    pub(super) fn opening(&mut self, now: Now, out: &mut Out) -> Option<Vec<Command>> {
        if self.lost != Some(Unknown::Timeout) {
            return None;
        }
        let caps = self.caps?;
        let batch = self.due(now.mono)?;
        let reads = self.reads(&batch, caps, out);
        let (flight, commands) = self.flight(What::Scheduled(batch), reads, (caps, 1), now, out);
        self.opening = Some(flight);
        Some(commands)
    }

    /// Sends a round of a batch.
    pub(super) fn send(
        &mut self,
        what: What,
        reads: Vec<(TaskIndex, TaskRead)>,
        round: u8,
        now: Now,
        out: &mut Out,
    ) {
        let Some((link, caps)) = self.link.up() else { return self.broken(&what) };
        let (flight, commands) = self.flight(what, reads, (caps, round), now, out);
        self.flights.push_back(flight);
        self.link.spoke(now.mono);
        out.talk(link, commands);
    }

    /// Sends a request whose answer does not matter.
    pub(super) fn keep_alive(&mut self, now: Now, out: &mut Out) {
        let Some((link, caps)) = self.link.up() else { return };
        let (flight, _) = self.flight(What::Alive, Vec::new(), (caps, 1), now, out);
        self.flights.push_back(flight);
        self.link.spoke(now.mono);
        out.talk(link, vec![command!("ECHO", "")]);
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
