//! What the parts of the demo call things.

/// The task's name.
pub const TASK: &str = "outbound";
/// The key of the lock that guards the task.
pub const LOCK: &str = "outbound:lock";
/// The key of the hash with one switch per user.
pub(super) const USERS: &str = "outbound:users";
/// The key and field to which the script writes its progress.
pub const PROGRESS: (&str, &str) = ("outbound:stats", "last_run");
/// The key of the workers' claims that they run the task: instance id to an increasing number.
pub(super) const CLAIMS: &str = "lockwatch:claims:outbound";
/// The key that maps instance ids to host names.
pub const HOSTS: &str = "lockwatch:hosts";
/// The key with the name of the worker whose script is to die silently.
pub(super) const HANG: &str = "demo:hang";

/// Prints a line. A closed pipe is ignored, because a panic would leave processes behind.
pub fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
