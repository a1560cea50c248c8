//! The processes that come of one: found by their parents, killed by handles that cannot mean
//! another process.

use std::collections::BTreeMap;
use std::fs;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, WaitOptions, pidfd_open, pidfd_send_signal,
    waitid, waitpid,
};

use super::group::Group;

/// All that comes of one process. Those whose parent ended belong to it if it adopts them.
#[derive(Clone, Debug)]
pub struct Tree {
    root: Pid,
    /// Also what is in this group, whatever it descends from.
    group: Option<Group>,
}

/// What the system says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    /// It has ended, and its parent has not noticed yet.
    is_dead: bool,
}

impl Tree {
    /// What comes of `root`, without itself.
    pub fn of(root: Pid, group: Option<Group>) -> Tree {
        Tree { root, group }
    }

    /// Kills all of it but `spared`. Returns whether any was alive: then more may have come of it.
    pub fn kill(&self, spared: &[Pid]) -> bool {
        let mut alive = self.group.as_ref().is_some_and(Group::kill);
        for pid in self.members() {
            if spared.contains(&pid) {
                continue;
            }
            // The handle stays with this process; its descent is checked once it is open.
            let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
            if self.has(pid) {
                alive = true;
                let _gone = pidfd_send_signal(&handle, Signal::KILL);
            }
        }
        alive
    }

    /// Whether this process, which adopts those whose parent ended, has no children, dead or alive,
    /// and the group is empty: then nothing comes of it any more. This costs far less than a look
    /// at all processes.
    pub fn is_over(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::All, options), Err(Errno::CHILD))
            && self.group.as_ref().is_none_or(Group::is_empty)
    }

    /// Removes the group, which is empty.
    pub fn remove_group(&self) {
        if let Some(group) = &self.group {
            group.remove();
        }
    }

    /// Reaps members that have ended and whose parent is the root, but those `spared`.
    pub fn reap(&self, spared: &[Pid]) {
        for (pid, stat) in processes() {
            let Some(pid) = Pid::from_raw(pid).filter(|pid| !spared.contains(pid)) else {
                continue;
            };
            if stat.is_dead && stat.parent == self.root.as_raw_pid() {
                let _gone = waitpid(Some(pid), WaitOptions::NOHANG);
            }
        }
    }

    /// The living members.
    pub fn members(&self) -> Vec<Pid> {
        let all = processes();
        let stat = |pid| all.get(&pid).copied();
        let members = all.iter().filter(|(pid, stat_of)| {
            !stat_of.is_dead && descends(**pid, self.root.as_raw_pid(), stat)
        });
        members.filter_map(|(pid, _)| Pid::from_raw(*pid)).collect()
    }

    /// Whether this is a living member now.
    fn has(&self, pid: Pid) -> bool {
        let pid = pid.as_raw_pid();
        stat(pid).is_some_and(|stat| !stat.is_dead) && descends(pid, self.root.as_raw_pid(), stat)
    }
}

/// Whether `pid` descends from `root`.
fn descends(pid: i32, root: i32, stat: impl Fn(i32) -> Option<Stat>) -> bool {
    let mut at = pid;
    // A chain that changes while it is read must not go on for ever.
    for _ in 0..10_000 {
        match stat(at) {
            Some(stat) if stat.parent == root => return true,
            Some(stat) if stat.parent > 0 => at = stat.parent,
            _ => return false,
        }
    }
    false
}

/// All processes that can be seen.
fn processes() -> BTreeMap<i32, Stat> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

fn stat(pid: i32) -> Option<Stat> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name is in brackets, and may have any bytes in it.
fn parse(stat: &[u8]) -> Option<Stat> {
    let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let mut fields = std::str::from_utf8(stat.get(after..)?).ok()?.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
    Some(Stat { parent: fields.next()?.parse().ok()?, is_dead })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_any_bytes_in_it() {
        let read = |text: &[u8]| parse(text).map(|stat| (stat.parent, stat.is_dead));
        assert_eq!(read(b"12 (sh) S 7 12 12 0"), Some((7, false)));
        assert_eq!(read(b"12 (a) Z 9 (\xff)) Z 3 1"), Some((3, true)));
        assert_eq!(read(b"12 sh S 7"), None);
        assert_eq!(read(b""), None);
    }

    #[test]
    fn descent_is_followed_over_generations_and_ends() {
        let parents = BTreeMap::from([(5, 4), (4, 3), (3, 1), (9, 1), (20, 21), (21, 20)]);
        let stat = |pid| parents.get(&pid).map(|parent| Stat { parent: *parent, is_dead: false });
        let of = |root| [5, 4, 3, 9, 20, 99].map(|pid| descends(pid, root, stat));
        assert_eq!(of(3), [true, true, false, false, false, false]);
        assert_eq!(of(1), [true, true, true, true, false, false]);
    }

    #[test]
    fn children_and_their_children_are_killed_and_nobody_else() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let spared = Pid::from_raw(other.id().try_into().unwrap()).unwrap();
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell.args(["-c", "sleep 60 & setsid sleep 60 & wait"]).spawn().unwrap();
        let shell_pid = Pid::from_raw(shell.id().try_into().unwrap()).unwrap();
        let of_shell = Tree::of(shell_pid, None);
        while of_shell.members().len() < 2 {
            std::thread::yield_now();
        }
        let members = of_shell.members();
        assert!(of_shell.kill(&[]));
        while of_shell.members().iter().any(|pid| members.contains(pid)) {
            std::thread::yield_now();
        }
        assert!(!of_shell.kill(&[]));
        assert!(Tree::of(rustix::process::getpid(), None).members().contains(&spared));
        shell.kill().unwrap();
        shell.wait().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
