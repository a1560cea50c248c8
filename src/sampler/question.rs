//! One batch as it goes over the wire: what frames it, whose commands it holds, and what the replies say. Pure.

use lockwatch_model::accept::{self, Caps, Timing};
use lockwatch_model::input::Vouch;
use lockwatch_model::read::{Round, TaskRead};
use lockwatch_model::reading::{
    Beside, ClaimsReading, Extras, LockReading, PauseReading, ProgressReading, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_model::reply::{Command, Reply};
use lockwatch_model::spec::{TaskIndex, TaskSpec, WantedSource};

/// What a batch asks, without the commands themselves.
#[derive(Debug)]
pub(super) struct Question {
    caps: Caps,
    nonce: Vec<u8>,
    header: usize,
    parts: Vec<Part>,
}

/// One task's part of it.
#[derive(Debug)]
struct Part {
    task: TaskIndex,
    read: TaskRead,
    commands: usize,
}

/// What came of it, if it may be believed.
#[derive(Debug)]
pub(super) struct Answer {
    /// What the server said of itself.
    pub(super) vouch: Vouch,
    /// Tasks whose reading is complete.
    pub(super) done: Vec<(TaskIndex, TaskReading)>,
    /// Tasks of which more must be asked.
    pub(super) again: Vec<(TaskIndex, TaskRead)>,
}

impl Question {
    /// The question for `reads`, and its commands. `nonce` must never have been used before.
    pub(super) fn new(reads: Vec<(TaskIndex, TaskRead)>, caps: Caps, nonce: Vec<u8>) -> (Question, Vec<Command>) {
        let mut commands = accept::header();
        let header = commands.len();
        let mut parts = Vec::with_capacity(reads.len());
        for (task, read) in reads {
            let before = commands.len();
            read.commands(&mut commands);
            parts.push(Part { task, read, commands: commands.len() - before });
        }
        commands.extend(accept::footer(caps, &nonce));
        (Question { caps, nonce, header, parts }, commands)
    }

    /// The tasks that it asks about.
    pub(super) fn tasks(&self) -> Vec<TaskIndex> {
        self.parts.iter().map(|part| part.task).collect()
    }

    /// Reads the replies.
    ///
    /// # Errors
    /// Why none of them may be believed.
    pub(super) fn decode(self, timing: Timing, replies: &[Reply]) -> Result<Answer, Unknown> {
        let (header, rest) = replies.split_at_checked(self.header).ok_or(Unknown::Protocol)?;
        let body: usize = self.parts.iter().map(|part| part.commands).sum();
        let (mut body, footer) = rest.split_at_checked(body).ok_or(Unknown::Protocol)?;
        let vouch = accept::vouch(self.caps, timing, &self.nonce, header, footer)?;
        let mut answer = Answer { vouch, done: Vec::with_capacity(self.parts.len()), again: Vec::new() };
        for part in self.parts {
            let (own, others) = body.split_at_checked(part.commands).ok_or(Unknown::Protocol)?;
            body = others;
            match part.read.decode(own) {
                Round::Done(reading) => answer.done.push((part.task, reading)),
                Round::Again(read) => answer.again.push((part.task, read)),
            }
        }
        Ok(answer)
    }
}

/// The reading of a task of which nothing can be read, because of `why`.
pub(super) fn unreadable(spec: &TaskSpec, why: Unknown) -> TaskReading {
    let has_switches = |source: &WantedSource| !matches!(source, WantedSource::Always | WantedSource::Never);
    let switches = spec.wanted.as_ref().is_some_and(|wanted| has_switches(&wanted.source));
    TaskReading {
        lock: LockReading::Unknown(why),
        extras: Extras::default(),
        beside: Beside {
            switches: switches.then_some(SwitchesReading::Unknown(why)),
            progress: spec.progress.as_ref().map(|_| ProgressReading::Unknown(why)),
            claims: spec.claims.as_ref().map(|_| ClaimsReading::Unknown(why)),
            hosts: None,
            pause: spec.paused_until.as_ref().map(|_| PauseReading::Unknown(why)),
        },
    }
}
