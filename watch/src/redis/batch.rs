//! One batch on the wire: what frames it, which commands it holds, and how its replies are read.
//! Pure.

use alloc::vec::Vec;
use core::ops::Range;

use crate::redis::accept::{self, Caps, Timing};
use crate::redis::ask::Ask;
use crate::redis::read::{Round, TaskRead};
use crate::redis::reply::{Command, Reply};
use lockwatch_judge::input::{Attestation, Standing};
use lockwatch_judge::reading::{TaskReading, Unknown};
use lockwatch_judge::spec::TaskIndex;

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

/// What is asked about one task, kept for a trace.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) task: TaskIndex,
    pub(super) asks: Vec<Ask>,
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
pub struct Decoded {
    /// What the server reported of itself.
    pub attestation: Attestation,
    /// Tasks whose reading is complete.
    pub done: Vec<(TaskIndex, TaskReading)>,
    /// Tasks that need another round.
    pub again: Vec<(TaskIndex, TaskRead)>,
}

impl Decoded {
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

    /// The command at `position`.
    pub(super) fn command(&self, position: usize) -> Option<Command> {
        let mut commands = accept::header();
        self.parts.iter().for_each(|part| part.read.commands(&mut commands));
        commands.extend(accept::footer(self.caps, &self.nonce));
        commands.into_iter().nth(position)
    }

    /// The replies that are about the server itself.
    pub(super) fn frame<'a>(&self, replies: &'a [Reply]) -> impl Iterator<Item = &'a Reply> {
        let body: usize = self.parts.iter().map(|part| part.commands).sum();
        replies.iter().take(self.header).chain(replies.iter().skip(self.header + body))
    }

    /// What is asked about each task, with the replies to it.
    pub(super) fn by_task<'a>(
        &'a self,
        replies: &'a [Reply],
    ) -> impl Iterator<Item = (TaskIndex, &'a TaskRead, &'a [Reply])> {
        let mut at = self.header;
        self.parts.iter().map(move |part| {
            let own = replies.get(at..at + part.commands).unwrap_or_default();
            at += part.commands;
            (part.task, &part.read, own)
        })
    }

    /// The tasks in the batch.
    pub fn tasks(&self) -> Vec<TaskIndex> {
        self.parts.iter().map(|part| part.task).collect()
    }

    /// Keeps what is asked about the `wanted` tasks, glances apart: they show nobody who holds a
    /// lock.
    pub(super) fn keep(&mut self, wanted: impl Fn(TaskIndex) -> bool) {
        let mut end = self.header;
        for part in &self.parts {
            let start = end;
            end += part.commands;
            if wanted(part.task) && !part.read.is_glance() {
                let asks = part.read.asks();
                self.kept.push(Kept { task: part.task, asks, replies: start..end });
            }
        }
    }

    /// Takes out what was kept.
    pub(super) fn take_kept(&mut self) -> Vec<Kept> {
        core::mem::take(&mut self.kept)
    }

    /// Decodes the replies.
    ///
    /// # Errors
    /// Why none of the replies may be accepted.
    pub fn decode(self, timing: Timing, replies: &[Reply]) -> Result<Decoded, Unknown> {
        let (header, rest) = replies.split_at_checked(self.header).ok_or(Unknown::Protocol)?;
        let body: usize = self.parts.iter().map(|part| part.commands).sum();
        let (mut body, footer) = rest.split_at_checked(body).ok_or(Unknown::Protocol)?;
        let judge = match self.standing {
            Standing::Decides => accept::attestation,
            Standing::Witness => accept::witness,
        };
        let attestation = judge(self.caps, timing, &self.nonce, header, footer)?;
        let mut answer =
            Decoded { attestation, done: Vec::with_capacity(self.parts.len()), again: Vec::new() };
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
    use alloc::sync::Arc;
    use alloc::vec;

    use crate::redis::accept::RoleCheck;
    use crate::redis::libraries;
    use crate::redis::read::Scope;
    use lockwatch_judge::spec::{StoreIndex, TaskSpec};

    use super::*;
    use crate::truth::rule;

    /// The server must send what attests its answers after them.
    #[test]
    fn role_and_nonce_are_asked_for_last() {
        let _rule = rule("1 evidence");
        let caps = Caps {
            pexpiretime: true,
            hpexpiretime: false,
            role: RoleCheck::Role,
            info: true,
            sharded: false,
        };
        let spec =
            Arc::new(TaskSpec::new("a", StoreIndex(0), libraries::lock(b"lock", "redisson")));
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
