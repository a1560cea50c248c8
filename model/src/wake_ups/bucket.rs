//! A budget: some things at once, then so many each second.

use crate::time::Mono;

/// Tokens in one thing, so that any rate counts whole tokens each millisecond.
const TOKENS: u64 = 1_000;

/// What is left of a budget. Rate and capacity come with each call, so that many of these cost
/// little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    tokens: u64,
    /// When they were counted.
    at: Mono,
}

impl Bucket {
    /// A bucket from which `capacity` things may be taken at once.
    pub fn full(capacity: u32) -> Bucket {
        Bucket { tokens: u64::from(capacity) * TOKENS, at: Mono(0) }
    }

    /// When `things` may be taken, not before `now`. More than were ever in it: when it has so many
    /// by its rate.
    pub fn ready_at(&self, things: u32, per_s: u64, now: Mono) -> Mono {
        let lacking = (u64::from(things) * TOKENS).saturating_sub(self.tokens);
        self.at.plus_ms(lacking.div_ceil(per_s.max(1))).max(now)
    }

    /// Takes `things` at `now`; false: there were fewer, and now there are none.
    pub fn take(&mut self, things: u32, per_s: u64, capacity: u32, now: Mono) -> bool {
        let (cost, full) = (u64::from(things) * TOKENS, u64::from(capacity) * TOKENS);
        let grown = now.since_ms(self.at).saturating_mul(per_s);
        let tokens = self.tokens.saturating_add(grown).min(full);
        self.at = self.at.max(now);
        self.tokens = tokens.saturating_sub(cost);
        tokens >= cost
    }
}
