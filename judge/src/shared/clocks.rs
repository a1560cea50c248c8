//! Measures durations: gaps and handovers, outages, unwanted holds, blindness.
//!
//! Every clock counts evidence. It advances when a reading supports it, keeps its value while
//! nothing can be read, and resets only on evidence to the contrary.

use crate::grounds::ShortHolds;
use crate::time::Mono;
use crate::verdict::Wanted;

/// Measures "wanted, and no hold has lasted".
#[derive(Clone, Debug, Default)]
pub(crate) struct GapClock {
    gap: Option<Gap>,
    /// First evidence of the present stretch of "wanted".
    wanted_since: Option<Mono>,
    /// Start of the stretch without an unseen interval longer than `blind_after` in which the task
    /// was "wanted".
    unbroken_since: Option<Mono>,
    /// Newest evidence of "wanted".
    wanted_newest: Option<Mono>,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    value_ms: u64,
    /// The time since the newest break. It counts once the present hold breaks, and is forgotten if
    /// that hold lasts.
    open_ms: u64,
    /// Newest reading of the lock while it was wanted.
    newest: Mono,
    /// Newest evidence of "free and wanted" with no hold since. `None` while a short hold lasts.
    free_newest: Option<Mono>,
    /// Part of the gap was unseen for too long, so its length is unknown.
    tainted: bool,
    /// The gap was published as `down` while the lock was free.
    published: bool,
    short_holds: ShortHolds,
}

impl Gap {
    /// A hold began by `at`. If it was unknown for too long before that whether the lock was still
    /// wanted, the length of the gap is unknown, too.
    fn taint_until(&mut self, at: Mono, blind_after_ms: u64) {
        self.tainted |= self.free_newest.is_some_and(|newest| at.since_ms(newest) > blind_after_ms);
    }

    /// What passed counts, but for the newest `hold_ms`, in which another hold began.
    fn count_until(&mut self, hold_ms: u64) {
        let counts_ms = self.open_ms.saturating_sub(hold_ms);
        self.value_ms = self.value_ms.saturating_add(counts_ms);
        self.open_ms -= counts_ms;
    }

    /// The lock was read at `at`, and is wanted. A hold that was not seen for too long may have
    /// lasted, so what passed under it does not count.
    fn pass(&mut self, at: Mono, blind_after_ms: u64) {
        let stretch_ms = at.since_ms(self.newest);
        if stretch_ms <= blind_after_ms {
            self.open_ms = self.open_ms.saturating_add(stretch_ms);
        } else {
            self.open_ms = 0;
            self.tainted = true;
        }
        self.newest = self.newest.max(at);
    }
}

/// The state of the lock as the gap's clock sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holding {
    /// Certainly free since this first evidence.
    Free(Mono),
    /// Free, but not confirmed yet.
    PerhapsFree,
    /// It could not be read.
    Unseen,
    /// Held, but not long enough to count. If another hold ran out since the newest reading: when
    /// the present one began.
    Unsettled(Option<Mono>),
    /// Held long enough to count.
    Settled,
}

/// The effect of one accepted reading on a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GapNews {
    /// A gap began.
    pub(crate) began: bool,
    /// Time without a holder since the previous evidence of that, in milliseconds.
    pub(crate) free_ms: u64,
    /// A hold ended the gap. `Some(None)`: its length is unknown.
    pub(crate) ended: Option<Option<u64>>,
    /// Wanted time since the previous evidence, in milliseconds.
    pub(crate) wanted_ms: u64,
}

impl GapClock {
    /// Length so far in milliseconds; 0 without a gap.
    pub(crate) fn gap_ms(&self) -> u64 {
        self.gap.map_or(0, |gap| gap.value_ms)
    }

    pub(crate) fn open(&self) -> bool {
        self.gap.is_some()
    }

    /// First evidence of the present stretch of "wanted".
    pub(crate) fn wanted_since(&self) -> Option<Mono> {
        self.wanted_since
    }

    /// Nothing was seen for longer than `blind_after`, so the length of the open gap can no longer
    /// be known, whatever ends it.
    pub(crate) fn taint(&mut self) {
        if let Some(gap) = &mut self.gap {
            gap.tainted = true;
        }
    }

    /// The open gap was published as `down` while the lock was free.
    pub(crate) fn publish(&mut self) {
        if let Some(gap) = &mut self.gap {
            gap.published = true;
        }
    }

    /// Whether the open gap was published as `down`.
    pub(crate) fn is_published(&self) -> bool {
        self.gap.is_some_and(|gap| gap.published)
    }

    /// A hold of `held_ms` broke before it had lasted.
    pub(crate) fn broke(&mut self, held_ms: u64, expired: bool) {
        if let Some(Gap { short_holds: short, .. }) = &mut self.gap {
            short.count = short.count.saturating_add(1);
            short.expired = short.expired.saturating_add(u32::from(expired));
            short.longest_ms = short.longest_ms.max(held_ms);
        }
    }

    /// The holds of the open gap that broke.
    pub(crate) fn short_holds(&self) -> ShortHolds {
        self.gap.map(|gap| gap.short_holds).unwrap_or_default()
    }

    /// Starts again, as if nothing had been wanted before.
    pub(crate) fn reset(&mut self) {
        *self = GapClock::default();
    }

    /// Takes in a reading. Unseen stretches longer than `blind_after_ms` do not count.
    pub(crate) fn observe(
        &mut self,
        at: Mono,
        holding: Holding,
        wanted: Wanted,
        blind_after_ms: u64,
    ) -> GapNews {
        let mut news = GapNews::default();
        match wanted {
            Wanted::Yes => {
                let stretch_ms = self.wanted_newest.map_or(0, |newest| at.since_ms(newest));
                let unbroken = stretch_ms <= blind_after_ms;
                news.wanted_ms = if unbroken { stretch_ms } else { 0 };
                if !unbroken {
                    self.unbroken_since = None;
                }
                self.unbroken_since.get_or_insert(at);
                self.wanted_newest = self.wanted_newest.max(Some(at));
                self.wanted_since.get_or_insert(at);
            }
            Wanted::No => {
                self.reset();
                return news;
            }
            // A hold ends a gap whether or not it is wanted. All other cases wait until "wanted" is
            // known.
            Wanted::Unknown | Wanted::Unset => {}
        }
        if let (Some(gap), Wanted::Yes, true) = (&mut self.gap, wanted, holding != Holding::Unseen)
        {
            gap.pass(at, blind_after_ms);
        }
        match (holding, &mut self.gap) {
            (Holding::Free(first), _) if wanted == Wanted::Yes => {
                self.grow(at, first, blind_after_ms, &mut news);
            }
            (Holding::Unsettled(began), Some(gap)) => {
                gap.taint_until(at, blind_after_ms);
                gap.free_newest = None;
                if let Some(began) = began {
                    gap.count_until(at.since_ms(began));
                }
            }
            (Holding::Settled, Some(gap)) => {
                gap.taint_until(at, blind_after_ms);
                news.ended = Some((!gap.tainted).then_some(gap.value_ms));
                self.gap = None;
            }
            _ => {}
        }
        news
    }

    fn grow(&mut self, at: Mono, first_free: Mono, blind_after_ms: u64, news: &mut GapNews) {
        let free_newest = self.gap.and_then(|gap| gap.free_newest);
        let free_from = free_newest.unwrap_or(first_free);
        let from = free_from.max(self.unbroken_since.unwrap_or(at));
        let stretch_ms = at.since_ms(from);
        // The lock's own confirmation and the unbroken "wanted" attest the first stretch.
        if free_newest.is_none() || stretch_ms <= blind_after_ms {
            news.free_ms = stretch_ms;
        }
        news.began = self.gap.is_none();
        let gap = self.gap.get_or_insert(Gap {
            value_ms: 0,
            open_ms: stretch_ms,
            newest: at,
            free_newest: None,
            tainted: false,
            published: false,
            short_holds: ShortHolds::default(),
        });
        // The lock was free throughout, but for too long it was unknown whether it was still
        // wanted.
        gap.tainted |= free_from < from && self.wanted_since < self.unbroken_since;
        gap.count_until(0);
        gap.free_newest = gap.free_newest.max(Some(at));
    }
}

/// Measures a hold that no user wants.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnwantedClock {
    value_ms: u64,
    /// Newest evidence.
    newest: Option<Mono>,
}

impl UnwantedClock {
    /// Length as of the newest evidence, in milliseconds.
    pub(crate) fn ms(&self) -> u64 {
        self.value_ms
    }

    /// Takes in an accepted reading of the lock. Unseen stretches longer than `blind_after_ms` do
    /// not count, as in a gap: the task may have been wanted meanwhile, or the lock free.
    pub(crate) fn observe(&mut self, at: Mono, held: bool, wanted: Wanted, blind_after_ms: u64) {
        match (held, wanted) {
            (true, Wanted::No) => {
                let stretch_ms = self.newest.map_or(0, |newest| at.since_ms(newest));
                if stretch_ms <= blind_after_ms {
                    self.value_ms = self.value_ms.saturating_add(stretch_ms);
                }
                self.newest = self.newest.max(Some(at));
            }
            (true, Wanted::Unknown) => {}
            _ => *self = UnwantedClock::default(),
        }
    }
}

/// The cost of a crash: the time from the last sign of life of an expired hold to the take-over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutageClock {
    from: Option<Mono>,
    to: Option<Mono>,
}

impl OutageClock {
    /// A hold expired; its holder was last alive at `last_life`.
    pub(crate) fn expired(&mut self, last_life: Mono) {
        // A hold that never settled does not end the outage before it.
        self.from.get_or_insert(last_life);
        self.to = None;
    }

    /// Another holder took over. What follows it without a break does not change when that was.
    pub(crate) fn taken_over(&mut self, began: Mono) {
        if self.from.is_some() {
            self.to.get_or_insert(began);
        }
    }

    /// What took over broke before it settled.
    pub(crate) fn lost_again(&mut self) {
        self.to = None;
    }

    /// Nothing was seen for longer than `blind_after`. A holder first seen after that may have
    /// taken over at any time in between.
    pub(crate) fn unseen(&mut self) {
        if self.to.is_none() {
            self.forget();
        }
    }

    /// The task is no longer wanted, or it could not be seen.
    pub(crate) fn forget(&mut self) {
        *self = OutageClock::default();
    }

    /// What took over has settled. Returns the length of the outage in milliseconds.
    pub(crate) fn settled(&mut self) -> Option<u64> {
        let (Some(from), Some(to)) = (self.from, self.to) else { return None };
        self.forget();
        Some(to.since_ms(from))
    }
}

/// Measures time without a trustworthy answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlindClock {
    last_good: Mono,
    now_good: bool,
    accounted_to: Mono,
    ms: u64,
    /// The newest attempt, and the part of `ms` in which each attempt found a server that answers.
    newest_attempt: Mono,
    answered_ms: u64,
}

impl BlindClock {
    pub(crate) fn new(at: Mono) -> BlindClock {
        BlindClock {
            last_good: at,
            now_good: false,
            accounted_to: at,
            ms: 0,
            newest_attempt: at,
            answered_ms: 0,
        }
    }

    /// The part of [`BlindClock::ms`] in which the server answered, though not about this task.
    pub(crate) fn answered_ms(&self) -> u64 {
        self.answered_ms
    }

    /// An attempt at `at` did not answer enough; `answered`: its server answered all the same.
    pub(crate) fn attempted(&mut self, at: Mono, answered: bool) {
        if answered {
            self.answered_ms = self.answered_ms.saturating_add(at.since_ms(self.newest_attempt));
        }
        self.newest_attempt = self.newest_attempt.max(at);
    }

    /// Length as of the newest step, in milliseconds; 0 when the newest attempt was answered.
    pub(crate) fn ms(&self) -> u64 {
        self.ms
    }

    /// The newest attempt, sent at `at`, was answered.
    pub(crate) fn good(&mut self, at: Mono) {
        self.last_good = self.last_good.max(at);
        self.accounted_to = self.accounted_to.max(at);
        self.now_good = true;
        self.ms = 0;
        self.newest_attempt = self.newest_attempt.max(at);
        self.answered_ms = 0;
    }

    /// The newest attempt was not answered, or time has passed since. Returns the blind time to add
    /// to the totals, in milliseconds.
    pub(crate) fn bad(&mut self, now: Mono) -> u64 {
        self.now_good = false;
        // A late result of an earlier attempt does not shorten it.
        self.ms = self.ms.max(now.since_ms(self.last_good));
        let grew_ms = now.since_ms(self.accounted_to);
        self.accounted_to = self.accounted_to.max(now);
        grew_ms
    }

    pub(crate) fn tick(&mut self, now: Mono) -> u64 {
        if self.now_good { 0 } else { self.bad(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer requested before some time was counted as blind does not take that time back, so
    /// the time must not be counted twice.
    #[test]
    fn no_instant_is_blind_twice() {
        let mut blind = BlindClock::new(Mono::at(0));
        let before = blind.bad(Mono::at(2_000)) + blind.tick(Mono::at(3_000));
        blind.good(Mono::at(2_500));
        assert_eq!(before + blind.bad(Mono::at(4_000)), 4_000);
    }

    /// The reading of keys beside a lock may arrive after the lock's own server has failed,
    /// although it was requested earlier.
    #[test]
    fn only_an_answer_makes_blindness_shorter() {
        let mut blind = BlindClock::new(Mono::at(0));
        blind.bad(Mono::at(2_000));
        blind.bad(Mono::at(500));
        assert_eq!(blind.ms(), 2_000);
        blind.good(Mono::at(2_200));
        blind.bad(Mono::at(2_500));
        assert_eq!(blind.ms(), 300);
    }
}
