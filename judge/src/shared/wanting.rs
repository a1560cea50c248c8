//! What only a task with switches has: whether users want it, and for how long that and its
//! holders have not agreed.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::clocks::{GapClock, UnwantedClock};
use super::switches::Switches;
use crate::event::EventKind;
use crate::evidence::Origin;
use crate::reading::{Switch, SwitchesReading};
use crate::spec::TaskSpec;
use crate::step::{Accepted, Log};

/// Switches, and the durations that depend on them.
#[derive(Clone, Debug)]
pub(crate) struct Wanting {
    pub(crate) switches: Switches,
    /// Origin of the newest accepted reading of the switches.
    origin: Option<Arc<Origin>>,
    pub(crate) gap: GapClock,
    pub(crate) unwanted: UnwantedClock,
}

impl Wanting {
    /// `None` if no switches are configured.
    pub(crate) fn new(spec: &TaskSpec) -> Option<Box<Wanting>> {
        let wanted = spec.wanted.as_ref()?;
        Some(Box::new(Wanting {
            switches: Switches::new(wanted),
            origin: None,
            gap: GapClock::default(),
            unwanted: UnwantedClock::default(),
        }))
    }

    /// Takes in a reading of the switches. Returns whether they are unchanged, which proves that
    /// this database was not flushed.
    pub(crate) fn observe(
        &mut self,
        reading: &SwitchesReading,
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> bool {
        let delta = batch.delta(self.origin.as_deref());
        let changes = self.switches.observe(reading, batch.seen(), batch.mark(), delta);
        if self.switches.why_unknown().is_none() && batch.origin.generation.is_some() {
            self.origin = Some(Arc::clone(batch.origin));
        }
        if let Some(users) = changes.lost {
            log.push(EventKind::SwitchesLost { users });
        }
        if changes.found {
            log.push(EventKind::SwitchesFound);
        }
        if changes.key_missing {
            log.push(EventKind::SwitchKeyMissing);
        }
        for (user, switch) in changes.undecodable {
            if let Switch::Undecodable { fits, .. } = switch {
                log.push(EventKind::SwitchUndecodable { user, fits });
            }
        }
        changes.kept
    }
}
