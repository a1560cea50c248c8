//! One batch on the wire: what frames it, which commands it holds, and how its replies are read.
//! Pure.

use std::ops::Range;

use lockwatch_judge::input::{Attestation, Standing};
use lockwatch_judge::reading::{TaskReading, Unknown};
use lockwatch_judge::spec::TaskIndex;
use lockwatch_watch::redis::accept::{self, Caps, Timing};
use lockwatch_watch::redis::read::{Round, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply};

/// What a batch requests, without the commands themselves.
#[derive(Debug)]
pub struct Question {
    caps: Caps,
    standing: Standing,
    nonce: Vec<u8>,
    header: usize,
    parts: Vec<TaskPart>,
    /// The parts that are kept for a trace; nearly always none.
    kept: Vec<Kept>,
}

/// The commands about one task, kept for a trace.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) task: TaskIndex,
    pub(super) commands: Vec<Command>,
    /// The position of their replies in those of the batch.
    pub(super) replies: Range<usize>,
}

/// The part of the batch about one task.
#[derive(Debug)]
struct TaskPart {
    task: TaskIndex,
    read: TaskRead,
    commands: usize,
}

/// The result of a batch that may be accepted.
#[derive(Debug)]
pub struct Answer {
    /// What the server reported of itself.
    pub attestation: Attestation,
    /// Tasks whose reading is complete.
    pub done: Vec<(TaskIndex, TaskReading)>,
    /// Tasks that need another round.
    pub again: Vec<(TaskIndex, TaskRead)>,
}

impl Answer {
    /// The reading of a task, if it is complete.
    pub(super) fn reading(&self, task: TaskIndex) -> Option<&TaskReading> {
        self.done.iter().find(|(done, _)| *done == task).map(|(_, reading)| reading)
    }
}

impl Question {
    /// Makes a batch for `reads`, and its commands. `nonce` must never have been used before.
    pub fn new(
        reads: Vec<(TaskIndex, TaskRead)>,
        caps: Caps,
        standing: Standing,
        nonce: Vec<u8>,
    ) -> (Question, Vec<Command>) {
        let mut commands = accept::header();
        let header = commands.len();
        let mut parts = Vec::with_capacity(reads.len());
        for (task, read) in reads {
            let before = commands.len();
            read.commands(&mut commands);
            parts.push(TaskPart { task, read, commands: commands.len() - before });
        }
        commands.extend(accept::footer(caps, &nonce));
        (Question { caps, standing, nonce, header, parts, kept: Vec::new() }, commands)
    }

    /// The tasks in the batch.
    pub fn tasks(&self) -> Vec<TaskIndex> {
        self.parts.iter().map(|part| part.task).collect()
    }

    /// Keeps what is `wanted` of its `commands`, glances apart: they show nobody who holds a lock.
    pub(super) fn keep(&mut self, wanted: impl Fn(TaskIndex) -> bool, commands: &[Command]) {
        let mut end = self.header;
        for part in &self.parts {
            let start = end;
            end += part.commands;
            if wanted(part.task) && !part.read.is_glance() {
                let commands = commands.get(start..end).unwrap_or_default().to_vec();
                self.kept.push(Kept { task: part.task, commands, replies: start..end });
            }
        }
    }

    /// Takes out what was kept.
    pub(super) fn take_kept(&mut self) -> Vec<Kept> {
        std::mem::take(&mut self.kept)
    }

    /// Decodes the replies.
    ///
    /// # Errors
    /// Why none of the replies may be accepted.
    pub fn decode(self, timing: Timing, replies: &[Reply]) -> Result<Answer, Unknown> {
        let (header, rest) = replies.split_at_checked(self.header).ok_or(Unknown::Protocol)?;
        let body: usize = self.parts.iter().map(|part| part.commands).sum();
        let (mut body, footer) = rest.split_at_checked(body).ok_or(Unknown::Protocol)?;
        let judge = match self.standing {
            Standing::Decides => accept::attestation,
            Standing::Witness => accept::witness,
        };
        let attestation = judge(self.caps, timing, &self.nonce, header, footer)?;
        let mut answer =
            Answer { attestation, done: Vec::with_capacity(self.parts.len()), again: Vec::new() };
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockwatch_judge::spec::{LockSpec, SchemeKind, StoreIndex, TaskSpec};
    use lockwatch_watch::redis::accept::RoleCheck;
    use lockwatch_watch::redis::read::Scope;

    use super::*;
    use crate::truth::rule;

    /// The server must send what attests its answers after them.
    #[test]
    fn role_and_nonce_are_asked_for_last() {
        let _rule = rule("1 evidence");
        let caps = Caps { pexpiretime: true, role: RoleCheck::Role, info: true, sharded: false };
        let spec = Arc::new(TaskSpec::new(
            "a",
            StoreIndex(0),
            LockSpec::new(b"lock", SchemeKind::Redisson),
        ));
        let reads = vec![(TaskIndex(0), TaskRead::new(spec, caps, true, Scope::ALL))];
        let (_question, commands) = Question::new(reads, caps, Standing::Decides, b"n1".to_vec());
        let names: Vec<_> = commands.iter().map(|command| command.args[0].as_slice()).collect();
        assert_eq!(names.first(), Some(&&b"TIME"[..]));
        assert_eq!(names[names.len() - 3..], [&b"TIME"[..], b"ROLE", b"ECHO"]);
        let answers =
            commands.iter().filter(|command| command.args.iter().any(|word| word == b"lock"));
        assert_eq!(answers.count(), 3, "the lock is asked for between");
    }
}
