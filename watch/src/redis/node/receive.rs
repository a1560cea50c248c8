//! Handles the results of batches: accepted answers, rejected answers, and lost connections.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::input::{NodeNewsKind, Outcome, Role, SaidOf, Standing};
use lockwatch_judge::reading::{GuardReading, Parts, QueueReading, TaskReading, Unknown};
use lockwatch_judge::spec::{TaskIndex, TaskSpec};
use lockwatch_judge::time::{Mono, ServerTime};

use super::errors::{has_moved, is_elsewhere, out_of_cluster, refusals, unknowns};
use super::flight::{Flight, What};
use super::send::refused;
use super::state::Node;
use crate::redis::accept::Timing;
use crate::redis::batch::{Decoded, Kept};
use crate::redis::diagnosis::{bounded, words_for};
use crate::redis::driver::{Acceptance, Dialled, Exchange, Failure, Note, Now, ReadReason};
use crate::redis::out::Out;
use crate::redis::parts::fields_to_follow;
use crate::redis::plan::NodeReport;
use crate::redis::read::{known_owner, to_follow};
use crate::redis::reply::Reply;

/// Maximum number of refusals about tasks that are logged of one answer.
const LOGGED_MAX: usize = 8;
/// Maximum number of rounds in which one task is read.
const ROUNDS: u8 = 4;

impl Node {
    /// Completes the oldest batch in flight.
    pub(super) fn receive(
        &mut self,
        received: Mono,
        replies: &[Reply],
        now: Now,
        out: &mut Out,
    ) -> NodeReport {
        self.unanswered_ms = 0;
        if let Some(dropped) = self.dropped.checked_sub(1) {
            self.dropped = dropped;
            return NodeReport::default();
        }
        let Some(flight) = self.flights.pop_front() else { return NodeReport::default() };
        let sent = flight.launched;
        self.handle_replies(flight, (sent, received), replies, now, out)
    }

    /// Handles the replies to a batch.
    fn handle_replies(
        &mut self,
        flight: Flight,
        (sent, received): (Now, Mono),
        replies: &[Reply],
        now: Now,
        out: &mut Out,
    ) -> NodeReport {
        let Flight { what, mut question, round, .. } = flight;
        if matches!(what, What::Alive) {
            return NodeReport::default();
        }
        if let Some(command) = self.newly_refused(refused(&question, replies)) {
            out.note(Note::Refused(Arc::clone(&self.address), command));
        }
        let timing =
            Timing { sent: sent.mono, received, sent_wall: sent.wall, timeout_ms: self.timeout_ms };
        let instants = (sent.mono, received.since_ms(sent.mono));
        let (tasks, kept) = (question.tasks(), question.take_kept());
        let refusals = refusals(&question, replies);
        let frame: Vec<&Reply> = question.frame(replies).collect();
        let decoded = question.decode(timing, replies);
        let outcome = decoded.as_ref().map_err(|why| *why);
        self.show(kept, (&what, round), instants, (replies, outcome), out);
        match decoded {
            Ok(mut answer) => {
                if !self.handshake.is_in_cluster() {
                    answer.done.iter_mut().for_each(|(_, reading)| out_of_cluster(reading));
                }
                self.report_refusals(&what, refusals, &answer, out);
                self.accept((what, round), timing, answer, now, out)
            }
            Err(why) => {
                let words = words_for(why, frame).unwrap_or_default();
                let failure = Failure::new_printable(why, words);
                if self.report_words(&failure, out) && !failure.detail.is_empty() {
                    out.note(Note::Refuses(Arc::clone(&self.address), failure));
                }
                self.report_failure(&what, tasks, instants, why, out);
                let role = (why == Unknown::NotMaster).then_some(Role::Replica);
                if self.link.survives(why, received) {
                    self.schedule.forget_known();
                    self.finished(&what);
                    return NodeReport { role, failed: Some(why), ..NodeReport::default() };
                }
                self.broken(&what);
                NodeReport { role, ..self.lose(None, why, now, out) }
            }
        }
    }

    /// Batches hold different commands, and of several refused ones each may come first: so every
    /// logged command is remembered.
    pub(super) fn newly_refused(&mut self, refused: Option<String>) -> Option<String> {
        refused.filter(|command| self.refused.insert(command.clone()))
    }

    fn report_failure(
        &self,
        what: &What,
        mut tasks: Vec<TaskIndex>,
        instants: (Mono, u64),
        why: Unknown,
        out: &mut Out,
    ) {
        match what {
            What::Scheduled(_) | What::Pulse => {
                tasks.retain(|task| self.owns(*task));
                let outcome = Outcome::Failed { tasks, why };
                out.sample(Some(&self.address), self.duty.standing, instants, outcome);
            }
            What::Parts(read) => self.report_parts(read, instants.0, why, out),
            What::Alive => {}
        }
    }

    /// Takes in the replies to a round of a batch that may be accepted.
    fn accept(
        &mut self,
        (what, round): (What, u8),
        timing: Timing,
        answer: Decoded,
        now: Now,
        out: &mut Out,
    ) -> NodeReport {
        self.link.succeeded(timing.received);
        self.wake_ups.set_up(true, now.mono, out);
        let Decoded { attestation, mut done, mut again } = answer;
        if matches!(what, What::Scheduled(_)) {
            // Tasks may have moved to another server meanwhile, which may have answered already.
            done.retain(|(task, _)| self.owns(*task));
            again.retain(|(task, _)| self.owns(*task));
        }
        let mut report = NodeReport { role: Some(attestation.role), ..NodeReport::default() };
        let standing = self.standing(&what);
        // A witness may be asked for keys that it never had.
        report.moved =
            standing == Standing::Decides && done.iter().any(|(_, reading)| has_moved(reading));
        let instants = (timing.sent, timing.received.since_ms(timing.sent));
        let outcome = match &what {
            What::Scheduled(batch) => {
                for (task, reading) in &done {
                    self.follow_owner(*task, reading);
                    self.update_short(*task, reading);
                }
                if self.duty.standing == Standing::Decides {
                    report.read = Some(self.observe(&done, timing.sent, attestation.first));
                    if round == 1 {
                        let withheld = batch
                            .withheld
                            .iter()
                            .filter_map(|task| Some((*task, self.spec(*task)?)));
                        done.extend(
                            withheld.map(|(task, spec)| (task, self.too_large(task, &spec))),
                        );
                    }
                }
                Outcome::Read { attestation, readings: done }
            }
            What::Pulse | What::Alive => Outcome::Read { attestation, readings: done },
            What::Parts(read) => {
                for (task, reading) in &done {
                    self.follow_fields(*task, &reading.parts);
                    let switches = reading.parts.switches.clone();
                    report
                        .switches
                        .extend(switches.map(|it| (Arc::clone(&read.of), timing.sent, *task, it)));
                }
                let readings =
                    done.into_iter().map(|(task, reading)| (task, reading.parts)).collect();
                Outcome::Parts { attestation: Some(attestation), readings }
            }
        };
        out.sample(Some(&self.address), standing, instants, outcome);
        if again.is_empty() {
            self.finished(&what);
        } else if round < ROUNDS {
            self.send(what, again, round + 1, now, out);
        } else {
            self.finished(&what);
            let tasks = again.into_iter().map(|(task, _)| task).collect();
            self.report_failure(&what, tasks, instants, Unknown::Protocol, out);
        }
        report
    }

    /// Remembers of which fields the next reading of the switches asks when they end.
    fn follow_fields(&mut self, task: TaskIndex, parts: &Parts) {
        let has_deadlines = self.caps.is_some_and(|caps| caps.hpexpiretime);
        let Some(switches) = parts.switches.as_ref().filter(|_| has_deadlines) else { return };
        let Some(spec) = self.spec(task) else { return };
        let known = self.fields.get(&task).into_iter().flat_map(|fields| fields.iter());
        if !fields_to_follow(&spec, switches).eq(known) {
            let fields = fields_to_follow(&spec, switches).cloned().collect();
            self.fields.insert(task, fields);
        }
    }

    /// Remembers of which owner the next reading asks when its field ends.
    fn follow_owner(&mut self, task: TaskIndex, reading: &TaskReading) {
        let Some(caps) = self.caps.filter(|caps| caps.hpexpiretime) else { return };
        let Some(spec) = self.spec(task) else { return };
        match known_owner(&spec, caps, reading) {
            Some(held) => _ = self.owners.insert(task, Arc::clone(held)),
            None => _ = self.owners.remove(&task),
        }
    }

    /// Remembers whether the value of a field is so short that the next reading asks for it at once.
    fn update_short(&mut self, task: TaskIndex, reading: &TaskReading) {
        let spec = self.spec(task);
        let is_field =
            spec.is_some_and(|spec| spec.lock().is_some_and(|lock| lock.field.is_some()));
        match is_field && reading.guard.why_unknown().is_none() {
            true => _ = self.short_fields.insert(task),
            false => _ = self.short_fields.remove(&task),
        }
    }

    /// Plans the next reads; returns the tasks whose locks were read.
    fn observe(
        &mut self,
        done: &[(TaskIndex, TaskReading)],
        sent: Mono,
        server: ServerTime,
    ) -> Vec<TaskIndex> {
        for (task, reading) in done {
            self.schedule.observe(*task, sent, server, reading);
            self.follow_fields(*task, &reading.parts);
            if let GuardReading::Queue(QueueReading::Read(queue)) = &reading.guard {
                self.followed.insert(*task, to_follow(queue));
            }
        }
        let known = done.iter().filter(|(_, reading)| reading.guard.why_unknown().is_none());
        known.map(|(task, _)| *task).collect()
    }

    /// The reading of a task whose replies exceed the limits.
    fn too_large(&self, task: TaskIndex, spec: &TaskSpec) -> TaskReading {
        let parts = self.duty.scope(task).unreadable(spec, Unknown::TooLarge);
        TaskReading { guard: spec.kind.unknown(Unknown::TooLarge), parts }
    }

    /// Gives up the connection and all batches in flight.
    pub(super) fn lose(
        &mut self,
        flight: Option<Flight>,
        why: Unknown,
        now: Now,
        out: &mut Out,
    ) -> NodeReport {
        self.lost = Some(why);
        self.schedule.forget_known();
        self.short_fields.clear();
        (self.unanswered_ms, self.dropped) = (0, 0);
        self.wake_ups.set_up(false, now.mono, out);
        let random = out.random();
        self.link.give_up(why, now.mono, random).into_iter().for_each(|link| out.close(link));
        let all: Vec<Flight> = flight.into_iter().chain(self.flights.drain(..)).collect();
        for (position, Flight { what, mut question, launched, round, .. }) in
            all.into_iter().enumerate()
        {
            let tasks = question.tasks();
            let took = (launched.mono, now.mono.since_ms(launched.mono));
            self.show(question.take_kept(), (&what, round), took, (&[], Err(why)), out);
            match (&what, why) {
                // Replies come in order, so the oversized reply belongs to the first batch.
                (What::Scheduled(batch), Unknown::TooLarge) if position == 0 => {
                    self.schedule.too_large(batch, &tasks, now.mono);
                }
                _ => self.broken(&what),
            }
            self.report_failure(&what, tasks, took, why, out);
        }
        NodeReport { failed: Some(why), ..NodeReport::default() }
    }

    /// Handles the answers to the greeting.
    pub(super) fn greeted(&mut self, dialled: Dialled, now: Now, out: &mut Out) -> NodeReport {
        let Dialled { sent, received, auth, mut replies, ended } = dialled;
        let opened = replies.split_off(self.handshake.len().min(replies.len()));
        let ended = ended.or_else(|| {
            (opened.len() != self.opening_len)
                .then(|| Failure::new(Unknown::Protocol, "the number of replies is wrong"))
        });
        let greeting = match self.handshake.judge(auth.as_ref(), &replies, ended) {
            Ok(greeting) => greeting,
            Err(failure) => return self.cannot_connect(failure, now, out),
        };
        self.lost = None;
        let (caps, version, role) = (greeting.caps, greeting.version, greeting.role);
        let node = Arc::clone(&self.address);
        out.note(Note::Connected { node, version: version.clone(), role });
        self.link.made(caps, now.mono);
        out.news(&self.address, NodeNewsKind::Connected { version, role });
        let as_before = self.caps.replace(caps) == Some(caps);
        match self.opening.take() {
            Some(flight) if as_before => {
                self.handle_replies(flight, (sent, received), &opened, now, out)
            }
            // The opening was made for another server.
            Some(flight) => {
                self.broken(&flight.what);
                NodeReport { role, ..NodeReport::default() }
            }
            None => NodeReport { role, ..NodeReport::default() },
        }
    }

    /// Reports the words that came with a failure of the server.
    pub(super) fn report_words(&mut self, failure: &Failure, out: &mut Out) -> bool {
        let is_news = out.said(&self.address, failure);
        if is_news {
            self.said_of.retain(|(_, why), _| *why != failure.why);
        }
        is_news
    }

    /// Reports the words for what is unknown about tasks although the server answered.
    fn report_refusals(
        &mut self,
        what: &What,
        refusals: Vec<(TaskIndex, Failure)>,
        answer: &Decoded,
        out: &mut Out,
    ) {
        let (mut news, mut logged) = (Vec::new(), 0);
        for (task, mut refusal) in refusals {
            if is_elsewhere(refusal.why) && !self.handshake.is_in_cluster() {
                refusal.why = Unknown::Cluster;
            }
            // A queue's members are listed in an earlier round than the one that is its last.
            let is_shown = refusal.why == Unknown::ValuePath
                || answer
                    .reading(task)
                    .is_some_and(|it| unknowns(it).any(|why| why == refusal.why));
            let words: Arc<str> = bounded(&refusal.detail).into();
            let known = self.said_of.get(&(task, refusal.why));
            if !is_shown || known == Some(&words) {
                continue;
            }
            if known.is_none() && logged < LOGGED_MAX {
                logged += 1;
                out.note(Note::Refuses(Arc::clone(&self.address), refusal.clone()));
            }
            self.said_of.insert((task, refusal.why), Arc::clone(&words));
            news.push(SaidOf { task, why: refusal.why, words });
        }
        // What a witness says is never why a task is unknown.
        if !news.is_empty() && self.standing(what) == Standing::Decides {
            out.said_of(&self.address, news);
        }
    }

    /// The dial made no connection.
    pub(super) fn cannot_connect(
        &mut self,
        failure: Failure,
        now: Now,
        out: &mut Out,
    ) -> NodeReport {
        let (opening, why) = (self.opening.take(), failure.why);
        self.report_words(&failure, out);
        if self.lost != Some(why) {
            out.note(Note::CannotConnect(Arc::clone(&self.address), failure));
        }
        out.news(&self.address, NodeNewsKind::Failed { why });
        self.lose(opening, why, now, out)
    }

    /// Shows what was kept of a batch.
    fn show(
        &self,
        kept: Vec<Kept>,
        (what, round): (&What, u8),
        (sent, took_ms): (Mono, u64),
        (all, outcome): (&[Reply], Result<&Decoded, Unknown>),
        out: &mut Out,
    ) {
        let asked = match (what, self.duty.standing) {
            (What::Parts(_), _) => ReadReason::Parts,
            (_, Standing::Decides) => ReadReason::Decides,
            (_, Standing::Witness) => ReadReason::Witness,
        };
        for Kept { task, asks, replies } in kept {
            let mut replies = all.get(replies).unwrap_or_default().iter().cloned();
            let said = asks.into_iter().map(|ask| (ask, replies.next())).collect();
            let outcome = outcome.map(|answer| Acceptance {
                role: answer.attestation.role,
                role_verified: answer.attestation.role_verified,
                clock: answer.attestation.first,
                reading: answer.reading(task).cloned(),
            });
            let node = Arc::clone(&self.address);
            out.exchange(Exchange { task, node, asked, round, sent, took_ms, said, outcome });
        }
    }
}
