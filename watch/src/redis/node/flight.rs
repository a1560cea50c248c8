//! The batches in flight on one connection.

use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::spec::TaskIndex;

use crate::redis::batch::Question;
use crate::redis::driver::Now;
use crate::redis::read::Scope;
use crate::redis::schedule::Batch;

/// Maximum number of batches in flight on one connection.
pub(super) const FLIGHTS: usize = 4;

/// A read of parts of tasks whose locks live on the server `of`.
#[derive(Debug)]
pub(super) struct PartsRead {
    pub(super) parts: Vec<(TaskIndex, Scope)>,
    pub(super) of: Arc<str>,
}

/// A batch in flight.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) what: What,
    pub(super) question: Question,
    pub(super) round: u8,
    pub(super) launched: Now,
}

/// The content of a batch.
#[derive(Debug)]
pub(super) enum What {
    Scheduled(Batch),
    /// Only the server's role.
    Pulse,
    Parts(PartsRead),
    /// Nothing: the connection must not be idle.
    Alive,
}
