//! The agent's own process according to Linux' `/proc`; on other systems nothing is known.

use std::fs::{self, File};
use std::io::Read as _;
use std::sync::OnceLock;

/// Figures of the process; `None` if they cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// User and system time used so far.
    pub(super) cpu_ms: Option<u64>,
    pub(super) resident_bytes: Option<u64>,
    pub(super) virtual_bytes: Option<u64>,
    pub(super) open_fds: Option<u64>,
    pub(super) max_fds: Option<u64>,
    /// When it started, milliseconds since the Unix epoch.
    pub(super) started_ms: Option<u64>,
    pub(super) threads: Option<u64>,
}

/// Milliseconds per clock tick of `/proc`: Linux fixes it for programs at 100 ticks a second.
const TICK_MS: u64 = 10;
/// Initial capacity for a file of `/proc/self`, larger than any of them.
const ROOM_BYTES: usize = 4_096;

impl Process {
    /// Reads the figures now.
    pub(super) fn read() -> Process {
        static STARTED_MS: OnceLock<u64> = OnceLock::new();
        // `/proc/stat` is long and only needed for the start time, so it is read once.
        let system = if STARTED_MS.get().is_some() { String::new() } else { read("/proc/stat") };
        let mut process = parse(
            &read("/proc/self/stat"),
            &read("/proc/self/status"),
            &read("/proc/self/limits"),
            &system,
        );
        // One of the descriptors belongs to this listing.
        process.open_fds = fs::read_dir("/proc/self/fd")
            .ok()
            .map(|entries| (entries.count() as u64).saturating_sub(1));
        process.started_once(&STARTED_MS)
    }

    /// Keeps the start time that was read first. The computed start moves when the system clock is
    /// set. A changed start would look like a new process to the alerts, and all its counters like
    /// new events.
    fn started_once(self, first_ms: &OnceLock<u64>) -> Process {
        let first_ms = first_ms
            .get()
            .copied()
            .or_else(|| self.started_ms.map(|now_ms| *first_ms.get_or_init(|| now_ms)));
        Process { started_ms: first_ms, ..self }
    }
}

/// The content of a file of `/proc`; empty or truncated if it cannot be read.
fn read(path: &str) -> String {
    // Such a file has no length and is generated for each `read`, so reserve room for one.
    let mut text = String::with_capacity(ROOM_BYTES);
    let _missing = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    text
}

/// Extracts the figures from the four files; missing ones stay `None`.
fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Process {
    // The command's name comes second, in parentheses, and may contain anything. So count from the
    // last parenthesis.
    let after_name: Vec<&str> =
        stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    let ticks = |field: usize| after_name.get(field - 3).and_then(|text| text.parse::<u64>().ok());
    let kilobytes = |name| number_after(status, name).map(|kb| kb.saturating_mul(1024));
    let boot_ms = number_after(system, "btime ").map(|seconds| seconds.saturating_mul(1000));
    Process {
        cpu_ms: ticks(14)
            .zip(ticks(15))
            .map(|(user, system)| user.saturating_add(system).saturating_mul(TICK_MS)),
        resident_bytes: kilobytes("VmRSS:"),
        virtual_bytes: kilobytes("VmSize:"),
        open_fds: None,
        max_fds: number_after(limits, "Max open files"),
        started_ms: boot_ms
            .zip(ticks(22))
            .map(|(boot, ticks)| boot.saturating_add(ticks.saturating_mul(TICK_MS))),
        threads: number_after(status, "Threads:"),
    }
}

/// The first number on the line that begins with `name`.
fn number_after(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_taken_out_of_the_files() {
        let stat = "42 (evil) R (name) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 4 0 1000 123 456";
        let status = "Name:\tx\nVmSize:\t  2048 kB\nVmRSS:\t  1024 kB\nThreads:\t4\n";
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 4096                 files\n";
        let expected = Process {
            cpu_ms: Some(3000),
            resident_bytes: Some(1024 * 1024),
            virtual_bytes: Some(2048 * 1024),
            open_fds: None,
            max_fds: Some(1024),
            started_ms: Some(1_700_000_010_000),
            threads: Some(4),
        };
        assert_eq!(parse(stat, status, limits, "cpu 1 2\nbtime 1700000000\n"), expected);
    }

    #[test]
    fn a_clock_that_is_set_starts_no_process() {
        let stat = "42 (x) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 4 0 1000 123 456";
        let first_ms = OnceLock::new();
        let started = |system| parse(stat, "", "", system).started_once(&first_ms).started_ms;
        assert_eq!(started(""), None);
        for system in ["btime 1700000000", "btime 1700007200", "btime 1699999999"] {
            assert_eq!(started(system), Some(1_700_000_010_000), "{system}");
        }
        assert_eq!(started(""), Some(1_700_000_010_000), "it is asked for once");
    }

    #[test]
    fn what_is_missing_is_absent() {
        assert_eq!(
            parse("", "VmRSS: many kB", "Max open files unlimited", "btime"),
            Process::default()
        );
    }
}
