//! The agent as the first process of a container: it is the parent of what others leave behind.

use rustix::process::getpid;
use tokio::signal::unix::{SignalKind, signal};

use crate::io::beside_commands;
use crate::keeper::tree::Tree;

/// The id of the first process.
const FIRST: i32 = 1;

/// Reaps what a password command leaves running, each time a child ends. Does nothing where
/// another process does that.
///
/// # Errors
/// The system does not say when a child ends.
pub(super) fn reap_orphans() -> std::io::Result<()> {
    let own = getpid();
    if own.as_raw_pid() != FIRST {
        return Ok(());
    }
    let (tree, mut ends) = (Tree::of(own, None), signal(SignalKind::child())?);
    tokio::spawn(async move {
        while ends.recv().await.is_some() {
            // The commands themselves are waited for where they are run.
            beside_commands(|running| tree.reap(running));
        }
    });
    Ok(())
}
