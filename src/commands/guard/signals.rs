//! The signals that end a guard, and those for its script.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// The signals to a guard.
pub(super) struct Signals {
    /// Standard input has ended, if that matters.
    input: Option<oneshot::Receiver<()>>,
    stop: [Signal; 3],
    forward: [(Signal, i32); 2],
}

/// Reads standard input to its end, on a thread, because such a read cannot be cancelled.
fn when_input_ends() -> oneshot::Receiver<()> {
    let (sender, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let _unread = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        let _nobody_waits = sender.send(());
    });
    ended
}

impl Signals {
    pub(super) fn listen(until_input_ends: bool) -> anyhow::Result<Signals> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        let forward = |kind: SignalKind| Ok::<_, anyhow::Error>((on(kind)?, kind.as_raw_value()));
        Ok(Signals {
            input: until_input_ends.then(when_input_ends),
            stop: [
                on(SignalKind::terminate())?,
                on(SignalKind::interrupt())?,
                on(SignalKind::hangup())?,
            ],
            forward: [forward(SignalKind::user_defined1())?, forward(SignalKind::user_defined2())?],
        })
    }

    /// The next signal; `None`: to end.
    pub(super) async fn next(&mut self) -> Option<i32> {
        let [terminate, interrupt, hangup] = &mut self.stop;
        let [(one, first), (two, second)] = &mut self.forward;
        let input = async {
            match &mut self.input {
                Some(ended) => drop(ended.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = input => {
                self.input = None;
                None
            }
            _ = terminate.recv() => None,
            _ = interrupt.recv() => None,
            _ = hangup.recv() => None,
            _ = one.recv() => Some(*first),
            _ = two.recv() => Some(*second),
        }
    }

    /// Returns when the guard is to end.
    pub(super) async fn stop(&mut self) {
        while self.next().await.is_some() {}
    }
}
