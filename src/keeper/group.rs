//! A control group (cgroup v2) for the script alone, where the system lets the guard have one. What
//! is in it can be killed at once, however fast it forks and whatever its parent is.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use rustix::fs::getxattr;
use rustix::process::getpid;

/// How the groups of guards are called: this, and the guard's process.
const PREFIX: &str = "lockwatch-";
/// Exists where systemd manages the groups.
const SYSTEMD: &str = "/run/systemd/system";
/// systemd sets it to 1 where it lets a service have groups of its own.
const DELEGATED: &str = "user.delegate";

/// The group of one guard's script. Guard and keeper are never in it.
#[derive(Clone, Debug)]
pub struct Group {
    path: PathBuf,
}

impl Group {
    /// The group for the scripts of this process, if it can have one.
    pub fn of_guard() -> Option<Group> {
        let read = |name| fs::read_to_string(name).ok();
        let own = locate(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)?;
        if Path::new(SYSTEMD).exists() && !is_delegated(&own) {
            return None;
        }
        remove_abandoned(&own);
        let group = Group { path: own.join(format!("{PREFIX}{}", getpid().as_raw_pid())) };
        // Kernels before 5.14 have groups that cannot be killed.
        let is_usable = group.create().is_ok() && group.path.join("cgroup.kill").exists();
        group.remove();
        is_usable.then_some(group)
    }

    /// The group with this path.
    pub fn at(path: impl Into<PathBuf>) -> Group {
        Group { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &OsStr {
        self.path.as_os_str()
    }

    /// Makes it, unless it is there.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn create(&self) -> io::Result<()> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// Moves this process into it.
    ///
    /// # Errors
    /// The system does not allow it.
    pub fn enter(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), "0")
    }

    /// Whether no living process is in it, or in a group below it.
    pub fn is_empty(&self) -> bool {
        let events = fs::read_to_string(self.path.join("cgroup.events")).unwrap_or_default();
        !events.lines().any(|line| line == "populated 1")
    }

    /// Kills all that is in it. Returns whether any was alive.
    pub fn kill(&self) -> bool {
        let is_alive = !self.is_empty();
        if is_alive {
            let _gone = fs::write(self.path.join("cgroup.kill"), "1");
        }
        is_alive
    }

    /// Removes it and the groups that the script made in it. One with processes stays.
    pub fn remove(&self) {
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    let _in_use = fs::remove_dir(path);
}

/// Removes the groups of guards that were killed together with their keeper.
fn remove_abandoned(own: &Path) {
    for entry in fs::read_dir(own).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let guard = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if guard.is_some_and(|guard| !Path::new(&format!("/proc/{guard}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// Whether systemd gave this group, or the one that it is the first in, to the service.
fn is_delegated(own: &Path) -> bool {
    [Some(own), own.parent()].into_iter().flatten().any(|path| {
        let mut value = [0; 8];
        getxattr(path, DELEGATED, &mut value).is_ok_and(|length| value.get(..length) == Some(b"1"))
    })
}

/// The group of this process, from its mounts and its groups.
fn locate(mounts: &str, groups: &str) -> Option<PathBuf> {
    let path = Path::new(groups.lines().find_map(|line| line.strip_prefix("0::"))?);
    // Such a path leads out of what can be seen.
    if path.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, at) = (fields.next()?, fields.next()?);
        let below = path.strip_prefix(root).ok().filter(|_| system.starts_with("cgroup2 "))?;
        Some(Path::new(at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_of_a_process_is_found_below_its_mount() {
        let mount = |root: &str, at: &str| {
            format!(
                "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 / /sys/fs/cgroup/cpu \
                 rw - cgroup cgroup rw,cpu\n41 31 0:38 {root} {at} rw shared:9 - cgroup2 cgroup2 rw"
            )
        };
        let found = |mounts: &str, groups: &str| {
            locate(mounts, groups).map(|path| path.to_str().unwrap().to_owned())
        };
        let whole = mount("/", "/sys/fs/cgroup");
        let service = "5:cpu:/x\n0::/system.slice/outbound.service\n";
        let expected = "/sys/fs/cgroup/system.slice/outbound.service";
        assert_eq!(found(&whole, service).as_deref(), Some(expected));
        let part = mount("/docker/7f", "/sys/fs/cgroup");
        assert_eq!(found(&part, "0::/docker/7f/a").as_deref(), Some("/sys/fs/cgroup/a"));
        for (mounts, groups) in
            [(&*part, "0::/docker/8"), (&whole, "0::/../other"), (&whole, "5:cpu:/x"), ("", "0::/")]
        {
            assert_eq!(found(mounts, groups), None, "{groups}");
        }
    }
}
