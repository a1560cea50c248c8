//! From where a reading is: which server, which of its clocks, and where its data stood. Two such
//! places tell what may have happened between two readings.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::generation::Delta;
use crate::input::Generation;
use crate::spec::RedisKind;
use crate::time::Mono;

/// Where one accepted reading is from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) node: Arc<str>,
    /// How often that server's clock had stepped.
    pub(crate) clock_steps: u32,
    /// `None` where the server refuses to tell.
    pub(crate) generation: Option<Arc<Generation>>,
    /// Every replication history that this server was seen to follow.
    pub(crate) histories: Arc<Vec<Vec<u8>>>,
    /// Bytes of the generation's history that were written when the reading ended.
    pub(crate) offset: Option<u64>,
    pub(crate) kind: RedisKind,
}

impl Origin {
    /// Whether instants of both are told by one clock.
    pub(crate) fn same_clock(&self, other: &Origin) -> bool {
        self.node == other.node && self.clock_steps == other.clock_steps
    }

    /// Whether the servers are known to have had a replication history in common.
    pub(crate) fn related(&self, other: &Origin) -> bool {
        self.histories.iter().any(|id| other.histories.contains(id))
    }

    /// The process before this one at the same address, if `old` is from that.
    pub(crate) fn process_before<'a>(&self, old: &'a Origin) -> Option<&'a Arc<Generation>> {
        let (before, now) = old.generation.as_ref().zip(self.generation.as_ref())?;
        (!Arc::ptr_eq(before, now) && old.node == self.node && before.run_id != now.run_id)
            .then_some(before)
    }

    /// What may have happened to the data from `old` to `self`.
    pub(crate) fn since(&self, old: &Origin) -> Delta {
        match (&old.generation, &self.generation) {
            (Some(before), Some(now)) if Arc::ptr_eq(before, now) => Delta::default(),
            (Some(before), Some(now)) => {
                let moved = old.node != self.node;
                Delta::between(before, old.offset, now, moved, self.kind)
            }
            // A server that does not tell proves nothing; but another server is another server.
            _ if old.node != self.node => Delta::of_another_server(self.kind),
            _ => Delta::default(),
        }
    }
}

/// What one process left to the next at the same address.
#[derive(Clone, Debug)]
pub(crate) struct Continued {
    pub(crate) by: Arc<Generation>,
    /// Whatever it had written by then the next one began with: data are stored as they were at
    /// some moment.
    pub(crate) until: Mono,
}

impl Continued {
    /// Whether it was that process which a reading from `old` is from.
    pub(crate) fn left_by(&self, old: &Origin) -> bool {
        old.generation.as_ref().is_some_and(|old| old.run_id == self.by.run_id)
    }
}

/// How the data changed between two readings; nothing is known to have changed since no reading at
/// all.
pub(crate) fn delta(old: Option<&Origin>, new: &Origin) -> Delta {
    old.map_or_else(Delta::default, |old| new.since(old))
}
