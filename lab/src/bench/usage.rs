//! Resource usage of processes: CPU time over a period, and memory.

use std::time::{Duration, Instant};

use anyhow::Context;

use crate::stack::cpu_time;

/// Processes, and their CPU time at an instant.
#[derive(Debug)]
pub(super) struct Usage {
    began: Instant,
    before: Vec<(u32, Duration)>,
}

impl Usage {
    /// Starts to measure processes.
    pub(super) fn of(processes: &[u32]) -> anyhow::Result<Usage> {
        let before =
            processes.iter().map(|id| Ok((*id, used(*id)?))).collect::<anyhow::Result<_>>()?;
        Ok(Usage { began: Instant::now(), before })
    }

    /// The CPU time of each since then, in percent of one core.
    pub(super) fn percent(&self) -> anyhow::Result<Vec<f64>> {
        let took = self.began.elapsed().as_secs_f64();
        let percent = |(id, before): &(u32, Duration)| {
            Ok(100.0 * (used(*id)?.saturating_sub(*before)).as_secs_f64() / took)
        };
        self.before.iter().map(percent).collect()
    }
}

/// CPU time so far.
pub(super) fn used(process: u32) -> anyhow::Result<Duration> {
    cpu_time(process).context("a process has ended")
}

/// Resident memory now, in MB.
pub(super) fn resident_mb(process: u32) -> anyhow::Result<f64> {
    memory_mb(process, "smaps_rollup", "Rss:")
}

/// Resident memory now, in MB, where what processes share is divided among them.
pub(super) fn proportional_mb(process: u32) -> anyhow::Result<f64> {
    memory_mb(process, "smaps_rollup", "Pss:")
}

/// Peak resident memory, in MB.
pub(super) fn peak_mb(process: u32) -> anyhow::Result<f64> {
    memory_mb(process, "status", "VmHWM:")
}

fn memory_mb(process: u32, file: &str, name: &str) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/{file}"))
        .context("a process has ended")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no such figure")?;
    let kilobytes: f64 = line.split_whitespace().next().context("no figure")?.parse()?;
    Ok(kilobytes / 1024.0)
}
