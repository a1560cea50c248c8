//! The agent's own process as Linux tells it in `/proc`; nothing is known elsewhere.

use std::fs::{self, File};
use std::io::Read as _;
use std::sync::OnceLock;

/// Figures of the process; what cannot be read is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    /// User and system time used so far.
    pub(super) cpu_ms: Option<u64>,
    /// Resident memory.
    pub(super) resident_bytes: Option<u64>,
    /// Virtual memory.
    pub(super) virtual_bytes: Option<u64>,
    /// Open file descriptors.
    pub(super) open_fds: Option<u64>,
    /// Most file descriptors that may be open.
    pub(super) max_fds: Option<u64>,
    /// When it started, milliseconds since the Unix epoch.
    pub(super) started_ms: Option<u64>,
    /// Threads.
    pub(super) threads: Option<u64>,
}

/// Milliseconds per clock tick of `/proc`: Linux fixes it for programs at 100 ticks a second.
const TICK_MS: u64 = 10;
/// More than what a process is told of itself takes.
const ROOM_BYTES: usize = 4_096;

impl Process {
    /// Reads the figures now.
    pub(super) fn read() -> Process {
        static STARTED_MS: OnceLock<u64> = OnceLock::new();
        // What tells of the start is long, and it is asked for once.
        let system = if STARTED_MS.get().is_some() { String::new() } else { read("/proc/stat") };
        let mut process = parse(
            &read("/proc/self/stat"),
            &read("/proc/self/status"),
            &read("/proc/self/limits"),
            &system,
        );
        // One of the descriptors is the one that lists them.
        process.open_fds = fs::read_dir("/proc/self/fd")
            .ok()
            .map(|entries| (entries.count() as u64).saturating_sub(1));
        process.started_once(&STARTED_MS)
    }

    /// With the start as it was read first. What the system tells of it moves when its clock is
    /// set, and to the alerts a process with another start is a new one, whose counters tell of
    /// what has just happened.
    fn started_once(self, first_ms: &OnceLock<u64>) -> Process {
        let first_ms = first_ms
            .get()
            .copied()
            .or_else(|| self.started_ms.map(|now_ms| *first_ms.get_or_init(|| now_ms)));
        Process { started_ms: first_ms, ..self }
    }
}

/// A file of `/proc`; what cannot be read of it is missing.
fn read(path: &str) -> String {
    // It has no length, and is made anew for each piece that is read: room for all of it at once.
    let mut text = String::with_capacity(ROOM_BYTES);
    let _missing = File::open(path).and_then(|mut file| file.read_to_string(&mut text));
    text
}

/// Takes the figures out of the four files; what they lack stays `None`.
fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Process {
    // The command's name comes second, in parentheses, and may hold anything: count from the last
    // parenthesis.
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
