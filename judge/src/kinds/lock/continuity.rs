//! Could somebody else have held the lock in between? Each reading that shows one holder again may
//! hide that the lock was released, held by another, and taken back. How the deadline moved shows
//! since when that did not happen, with more or less certainty.
//!
//! | field | the deadline, since then | so |
//! |---|---|---|
//! | `still_since` | stood still | the holder had the lock at every moment |
//! | `sure_since` | or moved in a watchdog's rhythm | no other client held it, however briefly |
//! | `whole_since` | or was renewed in time | another holder in between is unlikely |
//!
//! Another clock, a deadline that went back, and one that changed together with the entries begin
//! all of them again. After readings without a deadline, the next one with a deadline decides.

use super::renewal::{Move, RHYTHM};
use crate::continuity::generation::Delta;
use crate::reading::Deadline;
use crate::time::Mono;

/// Since when one hold certainly, or probably, goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Continuity {
    pub(crate) still_since: Mono,
    pub(crate) sure_since: Mono,
    pub(crate) whole_since: Mono,
    /// All three from before the newest readings without a deadline. The next reading with a
    /// deadline decides whether they still hold.
    before_torn: Option<[Mono; 3]>,
}

impl Continuity {
    /// A hold that was first seen at `at`.
    pub(super) fn new(at: Mono) -> Continuity {
        Continuity { still_since: at, sure_since: at, whole_since: at, before_torn: None }
    }

    /// Takes in a reading at `at` of the same holder, in which its deadline `moved`.
    pub(super) fn observe(
        &mut self,
        deadline: Deadline,
        moved: Option<Move>,
        same_clock: bool,
        delta: Delta,
        at: Mono,
    ) {
        let is_torn = deadline == Deadline::Torn;
        if !same_clock {
            self.before_torn = None;
        } else if is_torn {
            let before = [self.still_since, self.sure_since, self.whole_since];
            self.before_torn.get_or_insert(before);
        } else if let Some(before) = self.before_torn.take() {
            [self.still_since, self.sure_since, self.whole_since] = before;
        }
        // Whether it moved may be unknown.
        let is_known = same_clock && !is_torn;
        let renewals = match moved {
            Some(Move::Renewed { in_a_row, .. }) => in_a_row,
            Some(Move::Shortened { .. } | Move::Reset) | None => 0,
        };
        let stood_still = is_known && moved.is_none();
        if !(stood_still || is_known && renewals >= RHYTHM) {
            self.sure_since = at;
        }
        if !(stood_still || is_known && renewals > 0) {
            self.whole_since = at;
        }
        // Without a deadline, nothing shows that it was not given back and taken again.
        if !stood_still || deadline == Deadline::Never || delta.new_history() {
            self.still_since = at;
        }
    }
}
