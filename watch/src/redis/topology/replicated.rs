//! A master and its replicas without Sentinel: the configured server that reports that it is master
//! decides.

use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

/// Selects which of the configured servers decides. The choice stays while the present one reports
/// master: a second master is a rival, not a successor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    /// The last reported role of each server, and when; `None`: not read yet.
    said: Vec<Option<(Mono, Option<Role>)>>,
    lead: Option<usize>,
}

impl Lead {
    /// For `nodes` servers, none of which was read yet.
    pub fn new(nodes: usize) -> Lead {
        Lead { said: vec![None; nodes], lead: None }
    }

    /// Takes in the role that the server `node` reported to a request sent at `at`; `None`: it
    /// could not be reached.
    pub fn heard(&mut self, node: usize, at: Mono, role: Option<Role>) {
        let Some(said) = self.said.get_mut(node) else { return };
        if said.is_none_or(|(before, _)| before <= at) {
            *said = Some((at, role));
        }
        if !self.lead.is_some_and(|lead| self.is_master(lead)) {
            self.lead = self.masters().first().copied();
        }
    }

    /// The server that decides.
    ///
    /// # Errors
    /// `NoMaster` when no server reports master; `NotReadYet` while one that might was not read.
    pub fn master(&self) -> Result<usize, Unknown> {
        let all_asked = self.said.iter().all(Option::is_some);
        self.lead.ok_or(if all_asked { Unknown::NoMaster } else { Unknown::NotReadYet })
    }

    /// All servers that report master.
    pub fn masters(&self) -> Vec<usize> {
        (0..self.said.len()).filter(|node| self.is_master(*node)).collect()
    }

    fn is_master(&self, node: usize) -> bool {
        matches!(self.said.get(node), Some(Some((_, Some(Role::Master)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: Option<Role> = Some(Role::Master);
    const REPLICA: Option<Role> = Some(Role::Replica);

    #[test]
    fn the_one_that_says_master_decides_and_keeps_deciding() {
        // (node, instant, reported role), then the deciding server and all masters.
        type Heard = (usize, u64, Option<Role>);
        let story: &[(Heard, Result<usize, Unknown>, &[usize])] = &[
            ((0, 1, REPLICA), Err(Unknown::NotReadYet), &[]),
            ((2, 1, None), Err(Unknown::NotReadYet), &[]),
            ((1, 1, MASTER), Ok(1), &[1]),
            // A rival, although of a lower number, does not take over.
            ((0, 2, MASTER), Ok(1), &[0, 1]),
            // A late, older report changes nothing.
            ((1, 0, None), Ok(1), &[0, 1]),
            ((2, 3, MASTER), Ok(1), &[0, 1, 2]),
            // It cannot be reached: the lowest of the others.
            ((1, 3, None), Ok(0), &[0, 2]),
            ((1, 4, MASTER), Ok(0), &[0, 1, 2]),
            ((0, 5, REPLICA), Ok(1), &[1, 2]),
            ((2, 5, REPLICA), Ok(1), &[1]),
            ((1, 6, REPLICA), Err(Unknown::NoMaster), &[]),
            ((1, 7, None), Err(Unknown::NoMaster), &[]),
            // There is no server with this number.
            ((3, 8, MASTER), Err(Unknown::NoMaster), &[]),
            ((2, 8, MASTER), Ok(2), &[2]),
        ];
        let mut lead = Lead::new(3);
        assert_eq!(lead.master(), Err(Unknown::NotReadYet));
        for (line, ((node, at, role), master, masters)) in story.iter().enumerate() {
            lead.heard(*node, Mono::at(*at), *role);
            assert_eq!((lead.master(), lead.masters()), (*master, masters.to_vec()), "line {line}");
        }
    }
}
