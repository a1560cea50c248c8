//! One redis over time: whether it answers, what it says of itself, and what it cost.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::event::EventKind;
use crate::generation::Delta;
use crate::input::{Generation, NodeNewsKind, Vouch};
use crate::reading::Unknown;
use crate::snapshot::{RedisTotals, RedisView};
use crate::spec::RedisSpec;
use crate::time::ServerTime;

/// A server's clock that moves further than this against the agent's has stepped.
const CLOCK_STEP_MS: i64 = 1_000;

/// Everything that is known of one redis.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) spec: RedisSpec,
    /// Whether the newest batch was accepted; `None` before the first.
    newest: Option<Result<(), Unknown>>,
    role: Option<&'static str>,
    role_verified: Option<bool>,
    last_success: Option<ServerTime>,
    clock_offset_ms: Option<i64>,
    version: Option<Arc<str>>,
    generation: Option<Arc<Generation>>,
    connected_before: bool,
    totals: RedisTotals,
}

impl Node {
    pub(crate) fn new(spec: RedisSpec) -> Node {
        Node {
            spec,
            newest: None,
            role: None,
            role_verified: None,
            last_success: None,
            clock_offset_ms: None,
            version: None,
            generation: None,
            connected_before: false,
            totals: RedisTotals::default(),
        }
    }

    /// The same server under a changed configuration.
    pub(crate) fn configured(self, spec: RedisSpec) -> Node {
        Node { spec, ..self }
    }

    /// The generation as of the newest accepted batch.
    pub(crate) fn generation(&self) -> Option<&Arc<Generation>> {
        self.generation.as_ref()
    }

    /// An accepted batch.
    pub(crate) fn accepted(&mut self, vouch: &Vouch, took_ms: u64, events: &mut Vec<EventKind>) {
        if self.newest != Some(Ok(())) {
            events.push(EventKind::RedisUp);
        }
        self.newest = Some(Ok(()));
        self.role_verified = Some(vouch.role_verified);
        self.role = Some("master");
        self.last_success = Some(vouch.last);
        self.totals.sample_duration.observe(took_ms);
        if let Some(old) = self.clock_offset_ms {
            let by_ms = vouch.clock_offset_ms.saturating_sub(old);
            if by_ms.saturating_abs() > CLOCK_STEP_MS {
                events.push(EventKind::ClockStep { by_ms });
            }
        }
        self.clock_offset_ms = Some(vouch.clock_offset_ms);
        self.follow_generation(vouch, events);
    }

    fn follow_generation(&mut self, vouch: &Vouch, events: &mut Vec<EventKind>) {
        let Some(new) = &vouch.generation else { return };
        match &self.generation {
            Some(old) if **old == *new => return,
            Some(old) => {
                for change in Delta::between(old, new).reported() {
                    self.totals.generation_changes += 1;
                    events.push(EventKind::GenerationChanged { change });
                }
            }
            None => {}
        }
        self.generation = Some(Arc::new(new.clone()));
    }

    /// A batch that failed.
    pub(crate) fn failed(&mut self, why: Unknown, events: &mut Vec<EventKind>) {
        self.count(why);
        if self.newest != Some(Err(why)) {
            events.push(EventKind::RedisDown { why });
        }
        if why == Unknown::NotMaster {
            self.role = Some("replica");
            self.role_verified = Some(true);
        }
        self.newest = Some(Err(why));
    }

    /// A refusal of one task in an accepted batch.
    pub(crate) fn count(&mut self, why: Unknown) {
        if let Some(count) = self.totals.errors.get_mut(why as usize) {
            *count += 1;
        }
    }

    /// News of the connection.
    pub(crate) fn news(&mut self, kind: &NodeNewsKind, events: &mut Vec<EventKind>) {
        match kind {
            NodeNewsKind::Connected { version, role } => {
                self.totals.reconnects += u64::from(self.connected_before);
                self.connected_before = true;
                self.version.clone_from(version);
                self.role = *role;
            }
            NodeNewsKind::Failed { why } => self.failed(*why, events),
            NodeNewsKind::TickSkipped => self.totals.skipped_ticks += 1,
        }
    }

    /// The view for outputs.
    pub(crate) fn view(&self) -> RedisView {
        RedisView {
            spec: self.spec.clone(),
            up: self.newest.map(|newest| newest.is_ok()),
            unknown: self.newest.and_then(Result::err),
            role: self.role,
            role_verified: self.role_verified,
            last_success: self.last_success,
            clock_offset_ms: self.clock_offset_ms,
            // A server that leaves out its run id tells too little.
            generation: self.generation.clone().filter(|generation| !generation.run_id.is_empty()),
            version: self.version.clone(),
            totals: self.totals,
        }
    }
}
