//! A master and replicas without Sentinel: the server that reports that it is master decides.

use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::Standing;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use crate::redis::plan::{Duty, NodeReport, Plan, Planned, orphans};
use crate::redis::store::{HostPort, Store};
use crate::redis::tasks::Tasks;
use crate::redis::topology::replicated::Lead;
use crate::remedy::is_mistake;

/// The configured servers, and which of them reported that it is master.
#[derive(Debug)]
pub(super) struct Replicated {
    nodes: Vec<HostPort>,
    lead: Lead,
    /// When each server reported its role last.
    answered: Vec<Option<Mono>>,
    /// Why each server did not answer last; `None`: it did, or was not asked yet.
    failed: Vec<Option<Unknown>>,
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
            failed: vec![None; nodes.len()],
            silence_ms: store.timeout_ms.saturating_add(store.interval_ms.saturating_mul(2)),
            failing: false,
        }
    }

    /// Returns whether another server may decide now.
    pub(super) fn report(&mut self, address: &str, report: &NodeReport, now: Mono) -> bool {
        let Some(node) = self.nodes.iter().position(|at| at.to_string() == address) else {
            return false;
        };
        let (before, plan) = (self.lead.master(), self.master());
        if let Some(failed) = self.failed.get_mut(node)
            && (report.role.is_some() || report.failed.is_some())
        {
            *failed = report.failed;
        }
        if let Some(role) = report.role {
            if let Some(answered) = self.answered.get_mut(node) {
                *answered = Some(now);
            }
            self.lead.heard(node, now, Some(role));
            self.failing &= before != Ok(node);
        } else if report.failed.is_some() {
            // A single lost reply does not depose the lead.
            if before == Ok(node) { self.failing = true } else { self.lead.heard(node, now, None) }
        }
        self.master() != plan
    }

    /// The server that decides. If there is none because all of them show the same mistake, that
    /// is the reason.
    fn master(&self) -> Result<usize, Unknown> {
        self.lead.master().map_err(|why| {
            let first = self.failed.first().copied().flatten().filter(|why| is_mistake(*why));
            let is_common = self.failed.iter().all(|failed| *failed == first);
            first.filter(|_| why == Unknown::NoMaster && is_common).unwrap_or(why)
        })
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
        let lead = self.master();
        let standing = |node| if lead == Ok(node) { Standing::Decides } else { Standing::Witness };
        let nodes = self.nodes.iter().enumerate();
        let nodes: Vec<Planned> = nodes
            .map(|(node, at)| Planned::new(at.clone(), Duty::new(standing(node), all, all)))
            .collect();
        let master = lead.map(|lead| {
            nodes.get(lead).map(|node| Arc::clone(&node.address)).into_iter().collect()
        });
        Plan {
            orphans: orphans(all, lead.err()),
            is_known: lead != Err(Unknown::NotReadYet),
            masters: Some(master),
            nodes,
            ..Plan::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use lockwatch_judge::input::Role;

    use super::*;
    use crate::redis::store::Servers;
    use crate::redis::testing::{at, store};

    #[test]
    fn servers_that_fail_the_same_check_give_its_reason() {
        let nodes = vec![at("a"), at("b")];
        let store = store(Servers::Nodes(nodes.clone()));
        let mut replicated = Replicated::new(&store, &nodes);
        let mut hear = |host: &str, role, failed| {
            let report = NodeReport { role, failed, ..NodeReport::default() };
            replicated.report(&at(host).to_string(), &report, Mono::at(0));
            replicated.master()
        };
        let name = Some(Unknown::TlsName);
        assert_eq!(hear("a", None, name), Err(Unknown::NotReadYet));
        assert_eq!(hear("b", None, Some(Unknown::Connect)), Err(Unknown::NoMaster));
        assert_eq!(hear("b", None, name), Err(Unknown::TlsName));
        assert_eq!(hear("a", None, Some(Unknown::TlsExpired)), Err(Unknown::NoMaster));
        assert_eq!(hear("b", Some(Role::Replica), None), Err(Unknown::NoMaster));
        assert_eq!(hear("b", Some(Role::Master), None), Ok(1));
    }
}
