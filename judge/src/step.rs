//! What one step brings to a task: the batch that its reading came with, and the log that its
//! events go to.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::continuity::generation::{Continued, Delta, Mark};
use crate::event::EventKind;
use crate::evidence::{Origin, Seen};
use crate::input::{Attestation, Standing};
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
    /// Pause between two sweeps.
    pub(crate) interval_ms: u64,
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
        let delta = delta.seen_beside(is_kept && !delta.restarted);
        let continued =
            self.continued.filter(|continued| old.is_some_and(|old| continued.left_by(old)));
        continued.map_or(delta, |continued| delta.beginning_with(continued.until))
    }
}

/// Events of one step, each with its instants.
pub(crate) struct Log<'a> {
    pub(crate) at: Mono,
    pub(crate) server: Option<ServerTime>,
    pub(crate) events: &'a mut Vec<(Mono, Option<ServerTime>, EventKind)>,
}

impl Log<'_> {
    pub(crate) fn push(&mut self, kind: EventKind) {
        self.events.push((self.at, self.server, kind));
    }
}
