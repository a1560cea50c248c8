//! What one step brings to a task: the batch that its reading came with, and the log that its
//! events go to.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::continuity::generation::{Continued, Delta, Mark};
use crate::event::{Event, EventKind, Subject};
use crate::evidence::{Origin, Seen};
use crate::input::{Attestation, Standing};
use crate::spec::{StoreIndex, TaskSpec};
use crate::time::{Mono, ServerTime};

/// The properties of an accepted batch that apply to one task's reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accepted<'a> {
    pub(crate) sent: Mono,
    pub(crate) attestation: &'a Attestation,
    pub(crate) origin: &'a Arc<Origin>,
    /// What its readings prove about the data that the previous process left to this one.
    pub(crate) continued: Option<&'a Continued>,
    /// The number of flushes of this process since which its database has certainly not been
    /// flushed, as one of its readings proves.
    pub(crate) unflushed_since: Option<u64>,
    pub(crate) standing: Standing,
    /// The store that it was read from.
    pub(crate) store: StoreIndex,
    /// Pause between two sweeps.
    pub(crate) interval_ms: u64,
    /// A reply older than this is no evidence.
    pub(crate) timeout_ms: u64,
    pub(crate) took_ms: u64,
}

impl Accepted<'_> {
    pub(crate) fn seen(&self) -> Seen {
        Seen { sent: self.sent, first: self.attestation.first, last: self.attestation.last }
    }

    /// The point by which the batch shows data to be written.
    pub(crate) fn mark(&self) -> Mark {
        Mark { offset: self.attestation.offset, at: self.sent.plus_ms(self.took_ms) }
    }

    /// How the data changed since a reading from `old`.
    pub(crate) fn delta(&self, old: Option<&Origin>) -> Delta {
        let delta = Delta::since(old, self.origin);
        let flushes = old.and_then(|old| Some(old.generation.as_ref()?.flushes));
        let is_kept = self.unflushed_since.zip(flushes).is_some_and(|(since, then)| since <= then);
        let delta = delta.seen_with(is_kept && !delta.restarted);
        let continued =
            self.continued.filter(|continued| old.is_some_and(|old| continued.left_by(old)));
        continued.map_or(delta, |continued| delta.beginning_with(continued.until))
    }
}

/// The events of one step, which share its instants.
pub(crate) struct Log {
    pub(crate) at: Mono,
    server: Option<ServerTime>,
    events: Vec<EventKind>,
}

impl Log {
    pub(crate) fn new(at: Mono, server: Option<ServerTime>) -> Log {
        Log { at, server, events: Vec::new() }
    }

    pub(crate) fn push(&mut self, kind: EventKind) {
        self.events.push(kind);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The events as those of a task, which was read on `node`.
    pub(crate) fn events(
        self,
        spec: &Arc<TaskSpec>,
        node: Option<&Arc<str>>,
    ) -> impl Iterator<Item = Event> {
        let (at, server_time) = (self.at, self.server);
        let (subject, node) = (Subject::Task(spec.clone()), node.cloned());
        self.events.into_iter().map(move |kind| Event {
            at,
            server_time,
            subject: subject.clone(),
            node: node.clone(),
            kind,
        })
    }
}
