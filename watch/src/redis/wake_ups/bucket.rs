//! A rate limit: a burst at once, then a fixed number per second.

use lockwatch_judge::time::Mono;

/// Tokens for one item, so that any rate adds whole tokens each millisecond.
const TOKENS: u64 = 1_000;

/// The remaining budget. Rate and capacity are passed with each call, so that many buckets need
/// little memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    tokens: u64,
    /// When the tokens were last counted.
    at: Mono,
}

impl Bucket {
    /// A bucket that allows `capacity` items at once.
    pub fn full(capacity: u32) -> Bucket {
        Bucket { tokens: u64::from(capacity) * TOKENS, at: Mono::at(0) }
    }

    /// When `things` may be taken, not before `now`. For more than the capacity, this is when the
    /// rate would have supplied them.
    pub fn ready_at(&self, things: u32, per_s: u64, now: Mono) -> Mono {
        let lacking = (u64::from(things) * TOKENS).saturating_sub(self.tokens);
        self.at.plus_ms(lacking.div_ceil(per_s.max(1))).max(now)
    }

    /// Takes `things` at `now`. Returns false if there were fewer; the bucket is then empty.
    pub fn take(&mut self, things: u32, per_s: u64, capacity: u32, now: Mono) -> bool {
        let (cost, full) = (u64::from(things) * TOKENS, u64::from(capacity) * TOKENS);
        let grown = now.since_ms(self.at).saturating_mul(per_s);
        let tokens = self.tokens.saturating_add(grown).min(full);
        self.at = self.at.max(now);
        self.tokens = tokens.saturating_sub(cost);
        tokens >= cost
    }
}
