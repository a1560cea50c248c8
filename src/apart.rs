//! Work that may wait for a disk or a resolver, away from the threads that must not.
//!
//! The runtime's own way ends the program where the system refuses a thread (a limit of processes
//! that is reached for a moment). Here that is an error like any other. Nothing waits for a thread
//! that hangs, not even the end of the program.

use std::io;
use std::thread;

use tokio::sync::oneshot;

/// Does `work` on a thread of its own.
///
/// # Errors
/// There is no thread to be had.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (told, outcome) = oneshot::channel();
    start(move || drop(told.send(work())))?;
    outcome.await.map_err(io::Error::other)
}

/// Begins `work` on a thread of its own.
///
/// # Errors
/// There is no thread to be had.
pub fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let refused = |error: io::Error| {
        let remedy = "raise the limit of processes or of memory";
        io::Error::new(error.kind(), format!("the system refuses a thread ({error}); {remedy}"))
    };
    thread::Builder::new().name(String::from("apart")).spawn(work).map(drop).map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_done_comes_back() {
        let here = thread::current().id();
        assert_ne!(apart(|| thread::current().id()).await.unwrap(), here);
    }
}
