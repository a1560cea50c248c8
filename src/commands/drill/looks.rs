//! How long one part of the chain takes to answer: one that is slow has not said yet how it is now.

/// When it answered, on the drill's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    last_ms: u64,
    longest_ms: u64,
}

/// How long a look may take: a few requests, each with its deadline.
pub(super) const LOOK_MS_MAX: u64 = 45_000;

impl Looks {
    /// It answered.
    pub(super) fn answered(&mut self, at_ms: u64) {
        if self.last_ms > 0 {
            let took_ms = at_ms.saturating_sub(self.last_ms).min(LOOK_MS_MAX);
            self.longest_ms = took_ms.max(self.longest_ms);
        }
        self.last_ms = at_ms;
    }

    /// How old what it shows may be: it was asked after the look before had ended.
    pub(super) fn late_ms(self) -> u64 {
        2 * self.longest_ms
    }
}
