//! The rate limit of log lines: a maximum per kind and second, of which one subject gets only a
//! part, so that one unstable task cannot hide the others.

use std::collections::BTreeMap;

use lockwatch_judge::time::Mono;

/// Maximum number of lines of one kind per window.
pub(super) const KIND_MAX: u64 = 20;
/// Maximum number of lines of one kind about one subject per window.
pub(super) const SUBJECT_MAX: u64 = 5;
/// Length of a window in milliseconds.
const WINDOW_MS: u64 = 1000;

/// Counts lines in the present window.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    began: Mono,
    kinds: BTreeMap<&'static str, KindCount>,
}

#[derive(Debug, Default)]
struct KindCount {
    written: u64,
    suppressed: u64,
    /// Lines per subject that had one written: at most [`KIND_MAX`] entries.
    subjects: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Write,
    Suppress,
}

/// How many lines of a kind were suppressed in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Suppressed {
    pub(super) kind: &'static str,
    pub(super) count: u64,
}

impl Limiter {
    /// Ends the window if it is over at `now`, and returns what was suppressed in it.
    pub(super) fn roll(&mut self, now: Mono) -> Vec<Suppressed> {
        if now.since_ms(self.began) < WINDOW_MS {
            return Vec::new();
        }
        self.began = now;
        let kinds = std::mem::take(&mut self.kinds).into_iter();
        kinds
            .map(|(kind, counted)| Suppressed { kind, count: counted.suppressed })
            .filter(|suppressed| suppressed.count > 0)
            .collect()
    }

    /// Counts a line about `subject`, and decides whether to write it.
    pub(super) fn admit(&mut self, kind: &'static str, subject: &str) -> Admission {
        let counted = self.kinds.entry(kind).or_default();
        let of_subject = counted.subjects.get(subject).copied().unwrap_or(0);
        if counted.written >= KIND_MAX || of_subject >= SUBJECT_MAX {
            counted.suppressed = counted.suppressed.saturating_add(1);
            return Admission::Suppress;
        }
        counted.written += 1;
        counted.subjects.insert(subject.to_owned(), of_subject + 1);
        Admission::Write
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(
        limiter: &mut Limiter,
        kind: &'static str,
        subjects: impl Iterator<Item = String>,
    ) -> usize {
        subjects.filter(|subject| limiter.admit(kind, subject) == Admission::Write).count()
    }

    #[test]
    fn a_restless_subject_leaves_room_for_others() {
        let mut limiter = Limiter::default();
        assert_eq!(
            written(&mut limiter, "acquired", (0..100).map(|_| String::from("restless"))),
            5
        );
        assert_eq!(written(&mut limiter, "acquired", (0..100).map(|n| n.to_string())), 15);
        assert_eq!(written(&mut limiter, "verdict", (0..3).map(|n| n.to_string())), 3);
        assert_eq!(limiter.roll(Mono::at(999)), []);
        assert_eq!(limiter.roll(Mono::at(1000)), [Suppressed { kind: "acquired", count: 180 }]);
        assert_eq!(limiter.roll(Mono::at(3000)), []);
        assert_eq!(
            written(&mut limiter, "acquired", (0..100).map(|_| String::from("restless"))),
            5
        );
    }

    #[test]
    fn memory_is_bounded() {
        let mut limiter = Limiter::default();
        written(&mut limiter, "verdict", (0..10_000).map(|n| n.to_string()));
        assert_eq!(limiter.kinds["verdict"].subjects.len() as u64, KIND_MAX);
        assert_eq!(limiter.roll(Mono::at(5000)), [Suppressed { kind: "verdict", count: 9_980 }]);
        assert!(limiter.kinds.is_empty());
    }
}
