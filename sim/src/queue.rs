//! The queue of future events. Time jumps from one entry to the next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use lockwatch_watch::redis::driver::{Event as LinkEvent, LinkId, Push};

use crate::serve::Request;
use crate::world::{GuardTurn, Heal, QueueJob, TurnJob, WorkerTurn};

/// Something that happens at an instant.
#[derive(Debug)]
pub(crate) enum Event {
    /// A step of the plan.
    Step(usize),
    /// A fault ends.
    Heal(Heal),
    /// A worker's timer.
    Worker(WorkerTurn),
    /// Something happens to a guard, its keeper or its script.
    Guard(GuardTurn),
    /// Somebody who takes turns does something.
    Turn { task: usize, job: TurnJob },
    /// Something happens to a queue of delayed tasks.
    Queue { task: usize, job: QueueJob },
    /// The free lock of a task may be taken.
    Contend { task: usize },
    /// Workers check whether they are wanted.
    Poll { task: usize },
    /// A batch reaches its server, or continues there.
    Request(Box<Request>),
    /// Something reaches an agent over a connection. `number`: it is about that batch.
    Link { agent: usize, life: u32, link: LinkId, event: Box<LinkEvent>, number: Option<u64> },
    /// A server or a Sentinel announces something over a connection.
    Told { agent: usize, life: u32, link: LinkId, push: Push },
    /// All connections between an agent and a server break.
    Break { agent: usize, server: usize },
    /// An agent has something to do.
    Wake { agent: usize, life: u32 },
    /// A second has passed for an agent's engine.
    Tick { agent: usize, life: u32 },
}

#[derive(Debug)]
struct Entry {
    at: u64,
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

/// The entries, the next one first; entries of one instant are in the order of insertion.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    number: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.heap.push(Entry { at, number: self.number, event });
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|entry| (entry.at, entry.event))
    }
}
