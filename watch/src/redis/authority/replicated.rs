//! A master and replicas without Sentinel: the server that reports that it is master decides.

use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::Standing;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use super::{orphans, planned};
use crate::redis::plan::{Duty, Heard, Plan, Planned};
use crate::redis::store::{HostPort, Store};
use crate::redis::tasks::Tasks;
use crate::redis::topology::replicated::Lead;

/// The configured servers, and which of them reported that it is master.
#[derive(Debug)]
pub(super) struct Replicated {
    nodes: Vec<HostPort>,
    lead: Lead,
    /// When each server reported its role last.
    answered: Vec<Option<Mono>>,
    /// How long the lead must be silent until it counts as unreachable, in milliseconds.
    silence_ms: u64,
    /// Whether the lead currently fails to answer.
    failing: bool,
}

impl Replicated {
    pub(super) fn new(store: &Store, nodes: &[HostPort]) -> Replicated {
        Replicated {
            nodes: nodes.to_vec(),
            lead: Lead::new(nodes.len()),
            answered: vec![None; nodes.len()],
            silence_ms: store.timeout_ms.saturating_add(store.interval_ms.saturating_mul(2)),
            failing: false,
        }
    }

    /// Returns whether another server may decide now.
    pub(super) fn heard(&mut self, address: &str, heard: &Heard, now: Mono) -> bool {
        let Some(node) = self.nodes.iter().position(|at| at.to_string() == address) else {
            return false;
        };
        let before = self.lead.master();
        if let Some(role) = heard.role {
            if let Some(answered) = self.answered.get_mut(node) {
                *answered = Some(now);
            }
            self.lead.heard(node, now, Some(role));
            self.failing &= before != Ok(node);
        } else if heard.failed.is_some() {
            // A single lost reply does not depose the lead.
            if before == Ok(node) { self.failing = true } else { self.lead.heard(node, now, None) }
        }
        self.lead.master() != before
    }

    /// When a lead that does not answer is given up.
    pub(super) fn silent_at(&self) -> Option<Mono> {
        if !self.failing {
            return None;
        }
        let lead = self.lead.master().ok()?;
        Some(self.answered.get(lead).copied().flatten()?.plus_ms(self.silence_ms))
    }

    pub(super) fn plan(&mut self, now: Mono, all: &Tasks) -> Plan {
        if let (Some(at), Ok(lead)) = (self.silent_at(), self.lead.master())
            && at <= now
        {
            self.failing = false;
            self.lead.heard(lead, now, None);
        }
        let lead = self.lead.master();
        let standing = |node| if lead == Ok(node) { Standing::Decides } else { Standing::Witness };
        let nodes = self.nodes.iter().enumerate();
        let nodes: Vec<Planned> = nodes
            .map(|(node, at)| planned(at.clone(), Duty::new(standing(node), all, all)))
            .collect();
        let master = lead.map(|lead| {
            nodes.get(lead).map(|node| Arc::clone(&node.address)).into_iter().collect()
        });
        Plan {
            orphans: orphans(all, lead.err()),
            is_told: lead != Err(Unknown::NotReadYet),
            masters: Some(master),
            nodes,
            ..Plan::default()
        }
    }
}
