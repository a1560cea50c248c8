//! The series of a part as they were written, kept for the page after it.

use std::sync::Arc;

use bytes::Bytes;

/// The series of a part.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) series: String,
    /// Where those of each task end.
    pub(super) ends: Vec<usize>,
}

impl Written {
    /// All of them, to be sent. Nothing is copied.
    pub(super) fn bytes(self: &Arc<Written>) -> Bytes {
        Bytes::from_owner(Shared(Arc::clone(self)))
    }

    /// The series of the task at this position of the part.
    pub(super) fn of(&self, position: usize) -> &str {
        let end_of = |position: usize| self.ends.get(position).copied().unwrap_or_default();
        self.series
            .get(position.checked_sub(1).map_or(0, end_of)..end_of(position))
            .unwrap_or_default()
    }
}

struct Shared(Arc<Written>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.series.as_bytes()
    }
}
