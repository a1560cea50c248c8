//! The origin of a reading: the server, its clock, and its replication offset. Comparing two
//! origins shows what may have happened to the data between two readings.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::continuity::generation::Delta;
use crate::input::Generation;
use crate::spec::RedisKind;
use crate::time::Mono;

/// The origin of one accepted reading.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) node: Arc<str>,
    /// Number of steps of that server's clock so far.
    pub(crate) clock_steps: u32,
    /// `None` if the server refuses to report it.
    pub(crate) generation: Option<Arc<Generation>>,
    /// All replication histories that this server was seen to follow.
    pub(crate) histories: Arc<Vec<Vec<u8>>>,
    /// Bytes of the generation's history written when the reading ended.
    pub(crate) offset: Option<u64>,
    pub(crate) kind: RedisKind,
}

impl Origin {
    /// Whether server times of both come from one clock without a step between.
    pub(crate) fn same_clock(&self, other: &Origin) -> bool {
        self.node == other.node && self.clock_steps == other.clock_steps
    }

    /// Whether the servers are known to share a replication history.
    pub(crate) fn related(&self, other: &Origin) -> bool {
        self.histories.iter().any(|id| other.histories.contains(id))
    }

    /// The previous process at the same address, if `old` comes from it.
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
            // A server that does not report its generation proves nothing, but another server still
            // is another server.
            _ if old.node != self.node => Delta::of_another_server(self.kind),
            _ => Delta::default(),
        }
    }
}

/// The data that one process passed to the next at the same address.
#[derive(Clone, Debug)]
pub(crate) struct Continued {
    pub(crate) by: Arc<Generation>,
    /// The next process began with everything written up to this instant, because stored data are a
    /// copy from one moment.
    pub(crate) until: Mono,
}

impl Continued {
    /// Whether a reading from `old` comes from that process.
    pub(crate) fn left_by(&self, old: &Origin) -> bool {
        old.generation.as_ref().is_some_and(|old| old.run_id == self.by.run_id)
    }
}

/// How the data changed between two readings. Without an earlier reading, no change is known.
pub(crate) fn delta(old: Option<&Origin>, new: &Origin) -> Delta {
    old.map_or_else(Delta::default, |old| new.since(old))
}
