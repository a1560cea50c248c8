//! The names of the hosts that instances run on.

use alloc::vec::Vec;

use crate::event::{EventKind, Party};
use crate::reading::{HostsReading, Unknown};
use crate::seldom::Seldom;
use crate::step::Log;

/// How many hosts are kept of those that the value of a lock named.
const NAMED_MAX: usize = 8;

/// The hosts of a task's instances.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    known: Seldom<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Why the newest reading is no answer. The known hosts stay.
    pub(crate) unknown: Option<Unknown>,
}

impl Hosts {
    /// Takes in the host that the value of a lock names, of the present holder. Those of earlier
    /// holders stay.
    pub(crate) fn add(&mut self, reading: &HostsReading, log: &mut Log) {
        let Ok(named) = reading else { return self.observe(reading, log) };
        let is_new = |known: &(Vec<u8>, Vec<u8>)| named.iter().all(|(id, _)| *id != known.0);
        let before = self.known.iter().filter(|known| is_new(known)).cloned();
        let all = named.iter().cloned().chain(before).take(NAMED_MAX).collect();
        self.observe(&Ok(all), log)
    }

    /// Takes in a reading.
    pub(crate) fn observe(&mut self, reading: &HostsReading, log: &mut Log) {
        match (reading, self.unknown) {
            (Err(why), None) => log.push(EventKind::HostsUnreadable { why: *why }),
            (Err(_), Some(_)) | (Ok(_), _) => {}
        }
        self.unknown = reading.as_ref().err().copied();
        if let Ok(hosts) = reading
            && *hosts != *self.known
        {
            self.known = hosts.iter().cloned().collect();
        }
    }

    /// The host of an instance.
    pub(crate) fn of(&self, client: &[u8]) -> Option<&Vec<u8>> {
        self.known.iter().find(|(id, _)| id == client).map(|(_, host)| host)
    }

    /// The same parties, each with its host where that is known.
    pub(crate) fn name(&self, mut parties: Vec<Party>) -> Vec<Party> {
        for party in &mut parties {
            party.host = self.of(&party.holder.client).cloned();
        }
        parties
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Mono;
    use alloc::format;
    use alloc::vec;

    /// What is said of a take-over names both hosts.
    #[test]
    fn the_hosts_of_earlier_holders_stay_known_if_the_value_names_them() {
        let mut hosts = Hosts::default();
        let mut log = Log::new(Mono::at(0), None);
        let named = |id: u8| Ok(vec![(vec![id], format!("web-{id}").into_bytes())]);
        [1, 1, 2].into_iter().for_each(|id| hosts.add(&named(id), &mut log));
        assert_eq!(hosts.known.len(), 2);
        assert_eq!(hosts.of(&[1]), Some(&b"web-1".to_vec()));
        hosts.add(&Err(Unknown::ValuePath), &mut log);
        assert_eq!(hosts.of(&[2]), Some(&b"web-2".to_vec()));
        for id in 3..30 {
            hosts.add(&named(id), &mut log);
        }
        assert_eq!((hosts.known.len(), hosts.of(&[1])), (NAMED_MAX, None));
    }
}
