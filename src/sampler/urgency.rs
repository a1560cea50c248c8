//! Signals to the tasks that ask for the layout that they should ask at once.

use std::time::Duration;

use tokio::sync::watch;

/// Tells any number of waiting tasks to hurry.
#[derive(Debug)]
pub(super) struct Urge(watch::Sender<u64>);

/// Waits for the next regular turn, or until a task is urged.
#[derive(Clone, Debug)]
pub(super) struct Turn(watch::Receiver<u64>);

/// Makes a connected pair.
pub(super) fn urgency() -> (Urge, Turn) {
    let (sender, receiver) = watch::channel(0);
    (Urge(sender), Turn(receiver))
}

impl Urge {
    /// Wakes all waiting tasks.
    pub(super) fn hurry(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Another handle that wakes the same tasks.
    pub(super) fn another(&self) -> Urge {
        Urge(self.0.clone())
    }
}

impl Turn {
    /// Returns after `pause` or when urged; `false`: all [`Urge`]s are gone.
    pub(super) async fn wait(&mut self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            changed = self.0.changed() => changed.is_ok(),
        }
    }
}
