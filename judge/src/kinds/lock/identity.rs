//! Whether the holder's id distinguishes one holder from another, and who comes back.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::hold::continues;
use crate::reading::{Held, clients_meet};
use crate::time::Mono;

/// So many holders in a row that each replaced a living one show that the id identifies nobody.
const REPLACED_MAX: u8 = 3;
/// Within this time after its hold, who takes the lock again comes back, in milliseconds.
const COMES_BACK_MS: u64 = 900_000;
/// How many earlier holders are remembered.
const REMEMBERED: usize = 8;

/// What the changes of holder show of the ids.
#[derive(Clone, Debug, Default)]
pub(crate) struct Identity {
    /// How many holders in a row, never seen before, replaced a living one, without a break and
    /// without any renewal.
    replaced: u8,
    /// Who was replaced, and when; oldest first.
    before: Vec<(Arc<Held>, Mono)>,
}

impl Identity {
    /// The present holder was renewed, or there was a break. A token that is written again with
    /// each renewal shows neither.
    pub(super) fn stays(&mut self) {
        self.replaced = 0;
    }

    /// `now` replaced `old`, whose lease was still running, as seen at `at`. Returns whether its
    /// client comes back: it was a holder not long ago, and another client after it.
    pub(super) fn replaced(&mut self, old: &Arc<Held>, now: &Held, at: Mono) -> bool {
        self.before.retain(|(_, seen)| at.since_ms(*seen) <= COMES_BACK_MS);
        let knows = |of: &dyn Fn(&Held) -> bool| self.before.iter().any(|(held, _)| of(held));
        let is_other = !clients_meet(&old.holders, &now.holders);
        let comes_back = is_other && knows(&|held| clients_meet(&held.holders, &now.holders));
        // What comes back distinguishes its holder from others.
        let is_known = comes_back || knows(&|held| continues(held, now));
        self.replaced = if is_known { 0 } else { self.replaced.saturating_add(1) };
        self.before.retain(|(held, _)| !continues(held, old));
        if self.before.len() == REMEMBERED {
            self.before.remove(0);
        }
        self.before.push((Arc::clone(old), at));
        comes_back
    }

    /// Whether another id is another holder, as far as that is known.
    pub(super) fn identifies(&self) -> bool {
        self.replaced < REPLACED_MAX
    }
}
