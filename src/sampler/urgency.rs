//! How those who ask for the layout are told to ask at once, and how what they learned comes back.

use std::time::Duration;

use tokio::sync::watch;

/// Tells any number of askers to hurry.
#[derive(Debug)]
pub(super) struct Urge(watch::Sender<u64>);

/// Waits for the next regular turn, or until it is urgent.
#[derive(Clone, Debug)]
pub(super) struct Turn(watch::Receiver<u64>);

/// A pair of them.
pub(super) fn urgency() -> (Urge, Turn) {
    let (sender, receiver) = watch::channel(0);
    (Urge(sender), Turn(receiver))
}

impl Urge {
    /// Ask at once.
    pub(super) fn hurry(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    /// Another one who tells the same askers.
    pub(super) fn another(&self) -> Urge {
        Urge(self.0.clone())
    }
}

impl Turn {
    /// Returns after `pause`, or when somebody says to hurry; false: whoever could say so is gone.
    pub(super) async fn wait(&mut self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            changed = self.0.changed() => changed.is_ok(),
        }
    }
}
