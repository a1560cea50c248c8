//! Where the agent's memory comes from. A thread with a heap of its own finds what it used last in the processor's caches; where all
//! share one, 10,000 locks took twice the CPU. But pages are made on one thread and freed on another, and a heap keeps the room of what
//! was freed: so large pieces, as pages are, come from outside of all heaps, and go back to the system at once.

/// The variable by which glibc is told how many heaps it may have.
#[cfg(target_env = "gnu")]
const HEAPS: &str = "MALLOC_ARENA_MAX";
/// The one by which it is told from how many bytes on a piece is large.
#[cfg(target_env = "gnu")]
const LARGE: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "32768");

/// Starts the program anew, in the same process, with a heap for each of its `threads`; whoever has set one of the variables has chosen
/// otherwise. Where that cannot be done, the program goes on as it is. glibc reads the variables once, before anything of ours runs.
#[cfg_attr(not(target_env = "gnu"), expect(unused_variables, reason = "other allocators know nothing of heaps"))]
pub fn arrange(threads: usize) {
    #[cfg(target_env = "gnu")]
    if [HEAPS, LARGE.0].into_iter().all(|variable| std::env::var_os(variable).is_none()) {
        start_anew(threads);
    }
}

#[cfg(target_env = "gnu")]
fn start_anew(threads: usize) {
    use std::os::unix::process::CommandExt as _;
    // By its own path, not by /proc/self/exe: that would be the name under which the process is listed.
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut command = std::process::Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    let error = command.args(arguments).env(HEAPS, threads.to_string()).env(LARGE.0, LARGE.1).exec();
    // There is no log yet, and nothing is wrong but some megabytes.
    drop(error);
}
