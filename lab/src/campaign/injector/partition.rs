//! Network partitions of one machine, which runs a server and a Sentinel: from everything or only
//! from the other machines, in one or both directions. Packets are dropped silently.

use anyhow::{Context, bail};

use super::servers::master_of;
use super::{Fault, Injector};
use crate::campaign::clock::{self, now};
use crate::campaign::fault::Kind;
use crate::stack::{Machines, Partition};

pub(super) const KINDS: [Kind; 5] = [
    Kind::PartitionMaster,
    Kind::PartitionMasterIn,
    Kind::PartitionMasterOut,
    Kind::PartitionMasterPeers,
    Kind::PartitionReplica,
];

pub(super) async fn inject(
    injector: &Injector,
    fault: &Fault,
    random: &mut fastrand::Rng,
) -> anyhow::Result<()> {
    let entry = injector.stage.redis(fault.redis.context("a machine of no redis")?)?;
    let machines = injector.stage.machines.as_ref().context("there are no machines")?;
    let master = master_of(injector, entry).await?;
    let is_master =
        |at: &usize| entry.servers.get(*at).is_some_and(|server| server.name == master.name);
    let victims: Vec<usize> = (0..entry.servers.len())
        .filter(|at| is_master(at) != (fault.kind == Kind::PartitionReplica))
        .collect();
    let victim = *random.choice(&victims).context("there is no such server")?;
    let partition = match fault.kind {
        Kind::PartitionMasterIn => Partition::Inwards,
        Kind::PartitionMasterOut => Partition::Outwards,
        Kind::PartitionMasterPeers => Partition::Peers,
        _ => Partition::Both,
    };
    injector.mean(fault, entry.servers.get(victim).map(|server| server.name.as_str()));
    machines.cut(victim, partition).await?;
    let end = now() + fault.lasts;
    let mut dropped = 0;
    while now() < end {
        clock::sleep_until(end.min(now() + 100_000)).await;
        if dropped == 0 {
            dropped = machines.get(victim).context("there is no such machine")?.dropped().await?;
            if dropped > 0 {
                injector.verify(
                    fault,
                    format!("{dropped} packets were dropped within the first moment"),
                );
            }
        }
    }
    if dropped == 0 { bail!("there was no packet to be dropped") } else { Ok(()) }
}

/// Removes the partitions of all machines of a Redis.
pub(super) async fn heal(injector: &Injector, redis: usize) -> anyhow::Result<()> {
    if injector.stage.redis(redis)?.sentinels.is_empty() {
        return Ok(());
    }
    for machine in injector.stage.machines.iter().flat_map(Machines::iter) {
        machine.mend().await?;
    }
    Ok(())
}
