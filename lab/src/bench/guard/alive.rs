//! The script that the guards run: it reports to the bench when it began and when it ended, and
//! holds a lock of the kernel while it lives, so that two of them cannot miss each other.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::parent_id;
use std::path::Path;

use anyhow::Context;
use rustix::fs::{FlockOperation, flock};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// The hidden command.
pub(super) const COMMAND: &str = "alive";
/// The folder of the scene.
pub(super) const FOLDER: &str = "LOCKWATCH_LAB_SCENE";
/// Which guard it comes from.
pub(super) const GUARD: &str = "LOCKWATCH_LAB_GUARD";
/// Set for a script that does not end when it is asked to.
pub(super) const DEAF: &str = "LOCKWATCH_LAB_DEAF";
/// In the folder: the socket of the bench.
pub(super) const SOCKET: &str = "events";
/// In the folder: what only one script at a time can lock. The kernel unlocks it when the script is
/// dead, however it died.
pub(super) const ONLY_ONE: &str = "only-one";

/// An instant of `CLOCK_BOOTTIME`, in nanoseconds.
pub(super) type Nanos = u64;

/// The present instant.
pub(super) fn now() -> Nanos {
    let now = clock_gettime(ClockId::Boottime);
    let of = |part: i64| u64::try_from(part).unwrap_or(0);
    of(now.tv_sec) * 1_000_000_000 + of(now.tv_nsec)
}

/// Tries to lock what only one may lock. Unlocked when it is dropped.
pub(super) fn only_one(folder: &Path) -> anyhow::Result<Option<File>> {
    let file = File::options().create(true).append(true).open(folder.join(ONLY_ONE));
    let file = file.context("cannot open what only one may lock")?;
    Ok(flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(file))
}

/// Runs the script if this process is one.
///
/// # Errors
/// When it cannot report what it does.
pub fn run_if_asked() -> anyhow::Result<bool> {
    let began = now();
    if std::env::args_os().nth(1).is_none_or(|first| first != COMMAND) {
        return Ok(false);
    }
    let variable = |name| std::env::var(name).context("is started by the bench of the guard only");
    let (folder, guard) = (variable(FOLDER)?, variable(GUARD)?);
    let folder = Path::new(&folder);
    let lock = only_one(folder)?;
    let (alone, keeper, pid) = (u8::from(lock.is_some()), parent_id(), std::process::id());
    let socket = UnixDatagram::unbound()?;
    let report = |text: String| socket.send_to(text.as_bytes(), folder.join(SOCKET));
    let is_deaf = std::env::var_os(DEAF).is_some();
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        // The bench may end it as soon as it has read this.
        report(format!("start {guard} {pid} {keeper} {began} {alone}"))?;
        loop {
            terminate.recv().await;
            if !is_deaf {
                return anyhow::Ok(());
            }
        }
    })?;
    report(format!("end {guard} {pid} {keeper} {} {alone}", now()))?;
    Ok(true)
}
