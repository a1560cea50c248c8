//! One hold of the lock: until when it is certain, and when the script must go.

use lockwatch_judge::time::Mono;

use crate::terms::Terms;

/// A hold, from the newest request that got or renewed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// When that request was sent. The lease cannot end earlier than a lease after it.
    pub(crate) sent: Mono,
    /// The fencing token.
    pub(crate) token: u64,
}

impl Hold {
    /// When the lease may end.
    pub(crate) fn end(&self, terms: &Terms) -> Mono {
        self.sent.plus_ms(terms.lease_ms)
    }

    /// When the script must be dead.
    pub(crate) fn dead_by(&self, terms: &Terms) -> Mono {
        self.end(terms).minus_ms(terms.margin_ms())
    }

    /// When the script must be asked to end, so that it may take its time.
    pub(crate) fn stop_by(&self, terms: &Terms) -> Mono {
        self.dead_by(terms).minus_ms(terms.stop_after_ms)
    }
}

/// The script ran on after the lease may have ended: a pause of the whole machine, or of guard and
/// keeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overrun {
    /// The token that it ran under.
    pub token: u64,
    /// When the lease may have ended.
    pub from: Mono,
    /// When the script was dead.
    pub to: Mono,
}
