//! The estimated memory of an event.

use std::mem::size_of;
use std::sync::Arc;

use lockwatch_judge::event::{EventKind, Party};
use lockwatch_judge::reading::Holder;

/// Bytes that an event of `kind` takes beyond its own size. The configuration of its task is not
/// counted: all its events since the newest reload share it.
pub(super) fn of(kind: &EventKind) -> usize {
    use EventKind as E;
    match kind {
        E::Acquired { holders } | E::HoldEnded { holders, .. } | E::LockLost { holders, .. } => {
            of_holders(holders)
        }
        E::SplitBegan { parties, .. } => of_parties(parties),
        E::OverlapInDoubt { before, now, .. } => of_holders(before) + of_holders(now),
        E::RivalInDoubt { older, newer } => of_parties(older) + of_parties(newer),
        E::SwitchesLost { users } => {
            users.iter().map(|user| size_of::<Vec<u8>>() + user.capacity()).sum()
        }
        E::SwitchUndecodable { user, .. } => user.capacity(),
        E::DrillBegan { by } => by.as_ref().map_or(0, Vec::capacity),
        E::ClaimBesideFreeLock { instance } => of_holders(std::slice::from_ref(instance)),
        E::MastersChanged { from, to } => of_names(from) + to.as_ref().map_or(0, |to| of_names(to)),
        E::FailoverReport(failover_report) => size_of_val(failover_report.changes.as_slice()),
        // The others are numbers and words of closed lists.
        _ => 0,
    }
}

fn of_holders(holders: &[Holder]) -> usize {
    holders.iter().map(of_holder).sum()
}

fn of_parties(parties: &[Party]) -> usize {
    parties
        .iter()
        .map(|party| {
            let host = party.host.as_ref().map_or(0, Vec::capacity);
            size_of::<Party>() - size_of::<Holder>() + of_holder(&party.holder) + host
        })
        .sum()
}

fn of_holder(holder: &Holder) -> usize {
    size_of::<Holder>() + holder.client.capacity() + holder.thread.as_ref().map_or(0, Vec::capacity)
}

/// The names themselves belong to the configuration or to the topology.
fn of_names(names: &[Arc<str>]) -> usize {
    size_of_val(names)
}
