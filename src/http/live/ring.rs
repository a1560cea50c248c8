//! The newest frames, for pages that reconnect.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

/// Consecutive frames without a gap.
pub(super) struct Ring {
    bytes_max: usize,
    bytes: usize,
    /// A page that shows this snapshot, or a later one, can resume from the kept frames; `None`
    /// before the first.
    from: Option<u64>,
    kept: VecDeque<Kept>,
}

pub(super) struct Kept {
    /// The number of the snapshot after it.
    to: u64,
    pub(super) frame: Bytes,
    /// The tasks that it is about, sorted.
    about: Vec<Arc<str>>,
}

impl Kept {
    pub(super) fn is_about(&self, task: &str) -> bool {
        self.about.binary_search_by(|name| (**name).cmp(task)).is_ok()
    }
}

impl Ring {
    pub(super) fn new(bytes_max: usize) -> Ring {
        Ring { bytes_max, bytes: 0, from: None, kept: VecDeque::new() }
    }

    /// Drops all frames. Changes count from this snapshot.
    pub(super) fn restart(&mut self, from: u64) {
        (self.bytes, self.from) = (0, Some(from));
        self.kept.clear();
    }

    /// Adds a frame, and drops the oldest ones beyond the size limit.
    pub(super) fn push(&mut self, to: u64, frame: Bytes, about: Vec<Arc<str>>) {
        self.bytes += frame.len();
        self.kept.push_back(Kept { to, frame, about });
        while self.bytes > self.bytes_max
            && let Some(oldest) = self.kept.pop_front()
        {
            self.bytes -= oldest.frame.len();
            self.from = Some(oldest.to);
        }
    }

    /// The frames after this snapshot; `None` if some were dropped.
    pub(super) fn since(&self, sequence: u64) -> Option<impl Iterator<Item = &Kept>> {
        let known = self.from.is_some_and(|from| from <= sequence);
        known.then(|| self.kept.iter().filter(move |kept| kept.to > sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(ring: &Ring, sequence: u64) -> Option<Vec<u64>> {
        Some(ring.since(sequence)?.map(|kept| kept.to).collect())
    }

    #[test]
    fn what_is_missed_is_told_as_long_as_it_is_kept() {
        let mut ring = Ring::new(10);
        assert_eq!(since(&ring, 7), None);
        ring.restart(7);
        assert_eq!(
            (since(&ring, 6), since(&ring, 7), since(&ring, 8)),
            (None, Some(vec![]), Some(vec![]))
        );
        for to in [9, 12, 13] {
            ring.push(to, Bytes::from_static(b"1234"), vec!["a".into(), "c".into()]);
        }
        assert_eq!(since(&ring, 8), None, "the first frame was too much");
        assert_eq!(since(&ring, 9), Some(vec![12, 13]));
        assert_eq!(since(&ring, 12), Some(vec![13]));
        assert_eq!((since(&ring, 13), since(&ring, 99)), (Some(vec![]), Some(vec![])));
        let about = |task| ring.since(12).unwrap().any(|kept| kept.is_about(task));
        assert!(about("a") && !about("b") && about("c"));
        ring.push(14, Bytes::from_static(b"more than there is room for"), vec![]);
        assert_eq!((since(&ring, 13), since(&ring, 14)), (None, Some(vec![])));
        ring.restart(20);
        assert_eq!((since(&ring, 19), since(&ring, 20)), (None, Some(vec![])));
    }
}
