//! Faults of the agents and of the worker processes.

use std::sync::atomic::Ordering;

use anyhow::{Context, bail};

use super::{Fault, Injector};
use crate::campaign::clock::{self, now};
use crate::campaign::fault::Kind;
use crate::stack::Signal;

pub(super) const KINDS: [Kind; 6] = [
    Kind::AgentKill,
    Kind::AgentFreeze,
    Kind::AgentKill,
    Kind::AgentFreeze,
    Kind::HostKill,
    Kind::HostFreeze,
];

pub(super) async fn inject(
    injector: &Injector,
    fault: &Fault,
    random: &mut fastrand::Rng,
) -> anyhow::Result<()> {
    match (fault.kind, fault.agent) {
        (Kind::AgentKill, Some(agent)) => kill_agent(injector, fault, agent).await,
        (Kind::AgentFreeze, Some(agent)) => freeze_agent(injector, fault, agent).await,
        (Kind::HostKill, _) => {
            kill_host(injector, fault, random.usize(0..injector.stage.hosts.len())).await
        }
        (Kind::HostFreeze, _) => {
            freeze_host(injector, fault, random.usize(0..injector.stage.hosts.len())).await
        }
        _ => bail!("not a fault of a process"),
    }
}

async fn kill_agent(injector: &Injector, fault: &Fault, agent: usize) -> anyhow::Result<()> {
    injector.mean(fault, None);
    let mut running = injector.stage.agents.get(agent).context("no such agent")?.lock().await;
    running.kill().await?;
    injector.verify(fault, "the process is gone");
    clock::sleep_until(now() + fault.lasts.min(3_000_000)).await;
    running.start_again().await?;
    if let (Some(id), Some(shared)) = (running.id(), injector.ids.get(agent)) {
        shared.store(id, Ordering::SeqCst);
    }
    Ok(())
}

async fn freeze_agent(injector: &Injector, fault: &Fault, agent: usize) -> anyhow::Result<()> {
    injector.mean(fault, None);
    let running = injector.stage.agents.get(agent).context("no such agent")?.lock().await;
    running.signal(Signal::Stop).await?;
    let stopped = until_stopped(running.id()).await;
    if stopped {
        injector.verify(fault, "its state is T");
    }
    clock::sleep_until(now() + fault.lasts).await;
    running.signal(Signal::Continue).await?;
    if stopped { Ok(()) } else { bail!("its state was never T") }
}

async fn kill_host(injector: &Injector, fault: &Fault, host: usize) -> anyhow::Result<()> {
    injector.mean(fault, Some(&host.to_string()));
    let mut process =
        injector.stage.hosts.get(host).context("no such worker process")?.lock().await;
    process.kill().await?;
    injector.verify(fault, "the process is gone");
    clock::sleep_until(now() + fault.lasts).await;
    process.start().await
}

async fn freeze_host(injector: &Injector, fault: &Fault, host: usize) -> anyhow::Result<()> {
    injector.mean(fault, Some(&host.to_string()));
    let process = injector.stage.hosts.get(host).context("no such worker process")?.lock().await;
    process.signal(Signal::Stop).await?;
    let stopped = until_stopped(process.id()).await;
    if stopped {
        injector.verify(fault, "its state is T");
    }
    clock::sleep_until(now() + fault.lasts).await;
    process.signal(Signal::Continue).await?;
    if stopped { Ok(()) } else { bail!("its state was never T") }
}

/// Whether the process is stopped within a second, as reported by the system.
pub(super) async fn until_stopped(id: Option<u32>) -> bool {
    let Some(id) = id else { return false };
    for _ in 0..100 {
        let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        if state.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')) {
            return true;
        }
        clock::sleep_until(now() + 10_000).await;
    }
    false
}
