//! One batch: its framing, its commands, and the decoding of its replies. Mirrors
//! `src/sampler/question.rs`.

use lockwatch_judge::input::{Attestation, Standing};
use lockwatch_judge::reading::{TaskReading, Unknown};
use lockwatch_judge::spec::TaskIndex;
use lockwatch_watch::redis::accept::{self, Caps, Timing};
use lockwatch_watch::redis::read::{Round, TaskRead};
use lockwatch_watch::redis::reply::{Command, Reply};

/// The structure of a batch, without the commands.
#[derive(Debug)]
pub(super) struct Question {
    caps: Caps,
    standing: Standing,
    nonce: Vec<u8>,
    header: usize,
    pub(super) parts: Vec<TaskPart>,
    /// Number of expected replies.
    pub(super) replies: usize,
}

/// One task's part of a batch.
#[derive(Debug)]
pub(super) struct TaskPart {
    pub(super) task: TaskIndex,
    read: TaskRead,
    pub(super) commands: usize,
}

/// The readings of a batch, if they may be believed.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) attestation: Attestation,
    pub(super) done: Vec<(TaskIndex, TaskReading)>,
    pub(super) again: Vec<(TaskIndex, TaskRead)>,
}

impl Question {
    pub(super) fn new(
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
        (Question { caps, standing, nonce, header, parts, replies: commands.len() }, commands)
    }

    pub(super) fn tasks(&self) -> Vec<TaskIndex> {
        self.parts.iter().map(|part| part.task).collect()
    }

    /// The positions of each task's commands.
    pub(super) fn places(&self) -> Vec<(usize, usize, usize)> {
        let mut at = self.header;
        let place = |part: &TaskPart| {
            let from = at;
            at += part.commands;
            (part.task.0 as usize, from, at)
        };
        self.parts.iter().map(place).collect()
    }

    pub(super) fn decode(self, timing: Timing, replies: &[Reply]) -> Result<Answer, Unknown> {
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
