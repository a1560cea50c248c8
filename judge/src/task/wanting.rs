//! What is followed only of a task with switches: whether users want it, and how long that and the
//! lock have not agreed.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::{Kind, Log, Watched};
use crate::clocks::{GapClock, Holding, UnwantedClock};
use crate::event::EventKind;
use crate::evidence::Origin;
use crate::reading::Unknown;
use crate::snapshot::Past;
use crate::spec::TaskSpec;
use crate::switches::Switches;
use crate::time::Mono;
use crate::verdict::Wanted;

/// Switches, and the durations that depend on them.
#[derive(Clone, Debug)]
pub(super) struct Wanting {
    pub(super) switches: Switches,
    /// Origin of the newest accepted reading of the switches.
    pub(super) origin: Option<Arc<Origin>>,
    pub(super) gap: GapClock,
    pub(super) unwanted: UnwantedClock,
}

impl Wanting {
    /// `None` if no switches are configured.
    pub(super) fn new(spec: &TaskSpec) -> Option<Box<Wanting>> {
        let wanted = spec.wanted.as_ref()?;
        Some(Box::new(Wanting {
            switches: Switches::new(wanted),
            origin: None,
            gap: GapClock::default(),
            unwanted: UnwantedClock::default(),
        }))
    }
}

impl<K: Kind> Watched<K> {
    pub(super) fn wanted(&self) -> Wanted {
        self.wanting.as_ref().map_or(Wanted::Unset, |wanting| wanting.switches.wanted())
    }

    /// Whether it is known that nobody wants it: by switches that were seen.
    pub(super) fn is_known_unwanted(&self) -> bool {
        let seen = |wanting: &Wanting| !wanting.switches.have_key() || wanting.switches.key_seen;
        self.wanted() == Wanted::No && self.wanting.as_deref().is_some_and(seen)
    }

    pub(super) fn switches_unknown(&mut self, why: Unknown) {
        if let Some(wanting) = &mut self.wanting {
            wanting.switches.unknown(why);
        }
    }

    pub(super) fn gap(&self) -> Option<&GapClock> {
        self.wanting.as_ref().map(|wanting| &wanting.gap)
    }

    pub(super) fn has_gap(&self) -> bool {
        self.gap().is_some_and(GapClock::open)
    }

    /// Length of the gap so far in milliseconds; 0 without a gap.
    pub(super) fn gap_ms(&self) -> u64 {
        self.gap().map_or(0, GapClock::gap_ms)
    }

    pub(super) fn unwanted_ms(&self) -> u64 {
        self.wanting.as_ref().map_or(0, |wanting| wanting.unwanted.ms())
    }

    /// Takes in who has the task. Returns whether a gap ended.
    pub(super) fn observe_gap(&mut self, at: Mono, holding: Holding, log: &mut Log<'_>) -> bool {
        let wanted = self.wanted();
        let Some(wanting) = &mut self.wanting else { return false };
        let gap = wanting.gap.observe(at, holding, wanted, self.spec.blind_after_ms);
        if gap.wanted_ms > 0 || gap.free_ms > 0 {
            let totals = self.totals();
            totals.wanted_ms += gap.wanted_ms;
            totals.down_ms += gap.free_ms;
        }
        if gap.began {
            log.push(EventKind::GapBegan);
        }
        if let Some(Some(gap_ms)) = gap.ended {
            self.totals().take_overs_mut().handed_over(Past { at, ms: gap_ms });
            log.push(EventKind::GapEnded { gap_ms });
        }
        gap.ended.is_some()
    }
}
