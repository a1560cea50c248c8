//! One heap for all threads. glibc gives threads heaps of their own, and pages are made on one thread and freed on another: after
//! an hour each heap had kept the room of a page, and together they held half as much again as was in use.

/// The variable by which glibc is told how many heaps it may have.
#[cfg(target_env = "gnu")]
const HEAPS: &str = "MALLOC_ARENA_MAX";

/// Starts the program anew, in the same process, with one heap; whoever has set the variable has chosen otherwise. Where that cannot be
/// done, the program goes on as it is. glibc reads the variable once, before anything of ours runs.
pub fn share() {
    #[cfg(target_env = "gnu")]
    if std::env::var_os(HEAPS).is_none() {
        start_anew();
    }
}

#[cfg(target_env = "gnu")]
fn start_anew() {
    use std::os::unix::process::CommandExt as _;
    // By its own path, not by /proc/self/exe: that would be the name under which the process is listed.
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut command = std::process::Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).env(HEAPS, "1").exec();
    // There is no log yet, and nothing is wrong but some megabytes.
    drop(error);
}
