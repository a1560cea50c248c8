//! Runs blocking work, such as disk access and name resolution, on threads of its own.
//!
//! The runtime's blocking pool panics when the system refuses a new thread, for example at a
//! temporary process limit. Here that is an ordinary error. Nothing waits for a thread that hangs,
//! not even the end of the program.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// Runs `work` on a new thread and returns its result.
///
/// # Errors
/// The thread could not be started.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, outcome) = oneshot::channel();
    start(move || drop(sender.send(work())))?;
    outcome.await.map_err(io::Error::other)
}

/// Starts `work` on a new thread, without waiting for it.
///
/// # Errors
/// The thread could not be started.
pub fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let refused = |error: io::Error| {
        let remedy = "raise the limit of processes or of memory";
        io::Error::new(error.kind(), format!("the system refuses a thread ({error}); {remedy}"))
    };
    thread::Builder::new().name(String::from("blocking")).spawn(work).map(drop).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_done_comes_back() {
        let here = thread::current().id();
        assert_ne!(run(|| thread::current().id()).await.unwrap(), here);
    }
}
