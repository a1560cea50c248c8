//! Handles the results of batches: accepted answers, rejected answers, and lost connections.

use std::sync::Arc;

use lockwatch_judge::input::{NodeNewsKind, Outcome, Role, Standing};
use lockwatch_judge::reading::{
    ClaimsReading, LockReading, PauseReading, ProgressReading, SwitchesReading, TaskReading,
    Unknown,
};
use lockwatch_judge::spec::{TaskIndex, TaskSpec};
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_watch::redis::accept::Timing;
use lockwatch_watch::redis::reply::Reply;
use tokio::task::JoinError;

use super::asking::{Flight, Flying, Landing, What};
use super::{Heard, Node};
use crate::config::ms;
use crate::redis;
use crate::sampler::link::Dialled;
use crate::sampler::question::{Answer, Kept};
use crate::sampler::{Gone, Out};
use crate::trace::{self, Asked, Exchange, Traces, Worth};

/// Maximum number of rounds in which one task is read.
const ROUNDS: u8 = 4;

impl Node {
    /// Completes the oldest batch in flight.
    pub(super) async fn land(
        &mut self,
        landing: Result<Landing, JoinError>,
        out: &Out,
    ) -> Result<Heard, Gone> {
        let Some(Flight { flying, .. }) = self.flights.pop_front() else {
            return Ok(Heard::default());
        };
        (self.unanswered_ms, self.is_silent) = (0, false);
        match landing {
            Ok(landing) => self.landed(flying, landing, out).await,
            Err(error) => {
                tracing::error!(redis = &*self.redis, node = &*self.address, %error, "a batch was \
                    dropped");
                self.lose(Some(flying), Unknown::Closed, out).await
            }
        }
    }

    /// Handles the result of a batch.
    async fn landed(&mut self, flying: Flying, landing: Landing, out: &Out) -> Result<Heard, Gone> {
        let replies = match landing.replies {
            Ok(replies) => replies,
            Err(failure) => {
                tracing::debug!(redis = &*self.redis, node = &*self.address, %failure, "a batch failed");
                return self.lose(Some(flying), failure.why, out).await;
            }
        };
        let Landing { sent, sent_wall, received, refused, .. } = landing;
        self.tell_refused(refused);
        let timing = Timing { sent, received, sent_wall, timeout_ms: ms(self.endpoint.timeout) };
        let Flying { what, mut question, round, .. } = flying;
        let (tasks, kept) = (question.tasks(), question.take_kept());
        let decoded = question.decode(timing, &replies);
        let outcome = decoded.as_ref().map_err(|why| *why);
        self.show(
            kept,
            (&what, round),
            (sent, received.since_ms(sent)),
            (&replies, outcome),
            &out.traces,
        );
        match decoded {
            Ok(answer) => self.believe(what, round, timing, answer, out).await,
            Err(why) => {
                let instants = (sent, received.since_ms(sent));
                self.report_failure(&what, tasks, instants, why, out).await?;
                let role = (why == Unknown::NotMaster).then_some(Role::Replica);
                if self.link.survives(why, received) {
                    self.schedule.forget_known();
                    self.finished(&what);
                    return Ok(Heard { role, failed: Some(why), ..Heard::default() });
                }
                self.broken(&what);
                Ok(Heard { role, ..self.lose(None, why, out).await? })
            }
        }
    }

    /// Logs which command was answered with an error, once for each command.
    fn tell_refused(&mut self, refused: Option<String>) {
        if let Some(command) = self.newly_refused(refused) {
            tracing::warn!(
                redis = &*self.redis,
                node = &*self.address,
                command,
                "the server answers a command with an error"
            );
        }
    }

    /// Batches hold different commands, and of several refused ones each may come first: so every
    /// logged command is remembered.
    pub(super) fn newly_refused(&mut self, refused: Option<String>) -> Option<String> {
        refused.filter(|command| self.refused.insert(command.clone()))
    }

    async fn report_failure(
        &self,
        what: &What,
        mut tasks: Vec<TaskIndex>,
        instants: (Mono, u64),
        why: Unknown,
        out: &Out,
    ) -> Result<(), Gone> {
        match what {
            What::Scheduled(_) | What::Pulse => {
                tasks.retain(|task| self.owns(*task));
                let outcome = Outcome::Failed { tasks, why };
                out.sample(Some(&self.address), self.duty.standing, instants, outcome).await
            }
            What::Beside(read) => self.report_beside(read, instants.0, why, out).await,
        }
    }

    /// Takes in the replies to a round of a batch that may be accepted.
    async fn believe(
        &mut self,
        what: What,
        round: u8,
        timing: Timing,
        answer: Answer,
        out: &Out,
    ) -> Result<Heard, Gone> {
        self.link.succeeded(timing.received);
        self.wake_ups.is_up(true);
        let Answer { attestation, mut done, mut again } = answer;
        if matches!(what, What::Scheduled(_)) {
            // Tasks may have moved to another server meanwhile, which may have answered already.
            done.retain(|(task, _)| self.owns(*task));
            again.retain(|(task, _)| self.owns(*task));
        }
        let mut heard = Heard { role: Some(attestation.role), ..Heard::default() };
        let standing = self.standing(&what);
        // A witness may be asked for keys that it never had.
        heard.moved =
            standing == Standing::Decides && done.iter().any(|(_, reading)| has_moved(reading));
        let instants = (timing.sent, timing.received.since_ms(timing.sent));
        let outcome = match &what {
            What::Scheduled(batch) => {
                if self.duty.standing == Standing::Decides {
                    heard.read = Some(self.observe(&done, timing.sent, attestation.first));
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
            What::Pulse => Outcome::Read { attestation, readings: done },
            What::Beside(read) => {
                for (task, reading) in &done {
                    let switches = reading.beside.switches.clone();
                    heard
                        .switches
                        .extend(switches.map(|it| (Arc::clone(&read.of), timing.sent, *task, it)));
                }
                let readings =
                    done.into_iter().map(|(task, reading)| (task, reading.beside)).collect();
                Outcome::Beside { attestation: Some(attestation), readings }
            }
        };
        out.sample(Some(&self.address), standing, instants, outcome).await?;
        if again.is_empty() {
            self.finished(&what);
        } else if round < ROUNDS {
            self.fly(what, again, round + 1, out);
        } else {
            self.finished(&what);
            let tasks = again.into_iter().map(|(task, _)| task).collect();
            self.report_failure(&what, tasks, instants, Unknown::Protocol, out).await?;
        }
        Ok(heard)
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
        }
        let known =
            done.iter().filter(|(_, reading)| !matches!(reading.lock, LockReading::Unknown(_)));
        known.map(|(task, _)| *task).collect()
    }

    /// The reading of a task whose replies exceed the limits.
    fn too_large(&self, task: TaskIndex, spec: &TaskSpec) -> TaskReading {
        let beside = self.duty.scope(task).unreadable(spec, Unknown::TooLarge);
        TaskReading {
            lock: LockReading::Unknown(Unknown::TooLarge),
            extras: Default::default(),
            beside,
        }
    }

    /// Gives up the connection and all batches in flight.
    pub(super) async fn lose(
        &mut self,
        flying: Option<Flying>,
        why: Unknown,
        out: &Out,
    ) -> Result<Heard, Gone> {
        self.lost = Some(why);
        self.schedule.forget_known();
        self.unanswered_ms = 0;
        self.wake_ups.is_up(false);
        self.link.give_up(out.clock.now());
        let others = self.flights.drain(..).map(|flight| flight.flying);
        let all: Vec<Flying> = flying.into_iter().chain(others).collect();
        for (position, Flying { what, mut question, launched, round }) in
            all.into_iter().enumerate()
        {
            let (now, tasks) = (out.clock.now(), question.tasks());
            let took = (launched, now.since_ms(launched));
            self.show(question.take_kept(), (&what, round), took, (&[], Err(why)), &out.traces);
            match (&what, why) {
                // Replies come in order, so the oversized reply belongs to the first batch.
                (What::Scheduled(batch), Unknown::TooLarge) if position == 0 => {
                    self.schedule.too_large(batch, &tasks, now);
                }
                _ => self.broken(&what),
            }
            self.report_failure(&what, tasks, (launched, now.since_ms(launched)), why, out).await?;
        }
        Ok(Heard { failed: Some(why), ..Heard::default() })
    }

    /// Handles the end of a dial.
    pub(super) async fn greeted(&mut self, dialled: Dialled, out: &Out) -> Result<Heard, Gone> {
        let opening = self.opening.take();
        match dialled {
            Ok((connection, opened)) => {
                self.lost = None;
                let caps = connection.caps();
                let (version, role) = (connection.version().cloned(), connection.role());
                let told = role.map(Role::name);
                tracing::info!(
                    redis = &*self.redis,
                    node = &*self.address,
                    version = version.as_deref(),
                    role = told,
                    "connected"
                );
                self.link.made(connection, self.interval_ms, out.clock.now());
                out.news(&self.address, NodeNewsKind::Connected { version, role }).await?;
                let as_before = self.caps.replace(caps) == Some(caps);
                match (opening, opened) {
                    (Some(flying), Some(redis::Opened { sent, sent_wall, received, replies }))
                        if as_before =>
                    {
                        let landing = Landing {
                            sent,
                            sent_wall,
                            received,
                            replies: Ok(replies),
                            refused: None,
                        };
                        self.landed(flying, landing, out).await
                    }
                    // The opening was made for another server.
                    (Some(flying), _) => {
                        self.broken(&flying.what);
                        Ok(Heard { role, ..Heard::default() })
                    }
                    (None, _) => Ok(Heard { role, ..Heard::default() }),
                }
            }
            Err(failure) => {
                if self.lost != Some(failure.why) {
                    tracing::warn!(redis = &*self.redis, node = &*self.address, %failure, "cannot connect");
                }
                out.news(&self.address, NodeNewsKind::Failed { why: failure.why }).await?;
                self.lose(opening, failure.why, out).await
            }
        }
    }

    /// The standing of an answer. Keys beside a lock are always read from a server that decides
    /// about them.
    pub(super) fn standing(&self, what: &What) -> Standing {
        if matches!(what, What::Beside(_)) { Standing::Decides } else { self.duty.standing }
    }

    /// Passes what was kept of a batch to the traces.
    fn show(
        &self,
        kept: Vec<Kept>,
        (what, round): (&What, u8),
        (sent, took_ms): (Mono, u64),
        (all, outcome): (&[Reply], Result<&Answer, Unknown>),
        traces: &Traces,
    ) {
        let asked = match (what, self.duty.standing) {
            (What::Beside(_), _) => Asked::Beside,
            (_, Standing::Decides) => Asked::Decides,
            (_, Standing::Witness) => Asked::Witness,
        };
        for Kept { task, asks, replies } in kept {
            let Some(spec) = self.spec(task) else { continue };
            let replies = all.get(replies).unwrap_or_default();
            let asks = asks.iter().enumerate();
            let said = asks.map(|(at, ask)| trace::said(&spec, ask, replies.get(at))).collect();
            let outcome = outcome.map(|answer| Worth {
                role: answer.attestation.role,
                role_verified: answer.attestation.role_verified,
                clock: answer.attestation.first,
                reading: answer.reading(task).map(|reading| trace::decoded(&spec, reading, asked)),
            });
            let node = Arc::clone(&self.address);
            traces.put(&spec.name, Exchange { node, asked, round, sent, took_ms, said, outcome });
        }
    }
}

/// Whether a reading shows that a key is not on the expected server.
fn has_moved(reading: &TaskReading) -> bool {
    let TaskReading { lock, beside, .. } = reading;
    let all = [
        if let LockReading::Unknown(why) = lock { Some(why) } else { None },
        if let Some(SwitchesReading::Unknown(why)) = &beside.switches { Some(why) } else { None },
        if let Some(ProgressReading::Unknown(why)) = &beside.progress { Some(why) } else { None },
        if let Some(ClaimsReading::Unknown(why)) = &beside.claims { Some(why) } else { None },
        if let Some(PauseReading::Unknown(why)) = &beside.pause { Some(why) } else { None },
    ];
    all.into_iter().flatten().any(|why| matches!(why, Unknown::Moved | Unknown::ClusterDown))
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::reading::Beside;

    use super::*;

    #[test]
    fn a_key_that_is_elsewhere_shows_whichever_it_is() {
        let here = TaskReading {
            lock: LockReading::Free,
            extras: Default::default(),
            beside: Beside::default(),
        };
        assert!(!has_moved(&here));
        for why in [Unknown::Moved, Unknown::ClusterDown] {
            assert!(has_moved(&TaskReading { lock: LockReading::Unknown(why), ..here.clone() }));
            for beside in [
                Beside { switches: Some(SwitchesReading::Unknown(why)), ..Beside::default() },
                Beside { progress: Some(ProgressReading::Unknown(why)), ..Beside::default() },
                Beside { claims: Some(ClaimsReading::Unknown(why)), ..Beside::default() },
                Beside { pause: Some(PauseReading::Unknown(why)), ..Beside::default() },
            ] {
                assert!(
                    has_moved(&TaskReading { beside: beside.clone(), ..here.clone() }),
                    "{beside:?}"
                );
            }
        }
        assert!(!has_moved(&TaskReading { lock: LockReading::Unknown(Unknown::Timeout), ..here }));
    }
}
