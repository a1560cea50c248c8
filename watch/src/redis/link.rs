//! The connection to one server, in one of three states: up, dialling, or waiting to dial.

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use super::accept::Caps;
use super::driver::LinkId;
use super::pace::Pace;
use crate::remedy::{is_about_login, is_about_tls};

/// How long a server may report that it cannot serve until it is dialled again, in milliseconds:
/// its name may resolve to another server by now.
const PATIENCE_MS: u64 = 30_000;
/// Maximum idle time of a connection in milliseconds. Servers may close idle connections, after one
/// second at the earliest (`timeout`).
pub(super) const IDLE_MS: u64 = 1_000;

#[derive(Debug)]
pub(super) struct Link {
    state: State,
    pace: Pace,
}

#[derive(Debug)]
enum State {
    Waiting {
        until: Mono,
    },
    Dialling(LinkId),
    Up {
        link: LinkId,
        caps: Caps,
        useful_at: Mono,
        /// When something was sent last.
        spoke_at: Mono,
        is_believed: bool,
    },
}

impl Link {
    /// A link that is due to dial at once.
    pub(super) fn new(now: Mono) -> Link {
        Link { state: State::Waiting { until: now }, pace: Pace::default() }
    }

    /// The connection and its capabilities, if there is one.
    pub(super) fn up(&self) -> Option<(LinkId, Caps)> {
        match self.state {
            State::Up { link, caps, .. } => Some((link, caps)),
            State::Waiting { .. } | State::Dialling(_) => None,
        }
    }

    /// The connection, if there is one or it is being made.
    pub(super) fn id(&self) -> Option<LinkId> {
        match self.state {
            State::Dialling(link) | State::Up { link, .. } => Some(link),
            State::Waiting { .. } => None,
        }
    }

    /// When to dial; `None` while there is a connection or a dial.
    pub(super) fn next_dial(&self) -> Option<Mono> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Dialling(_) | State::Up { .. } => None,
        }
    }

    /// Whether it is time to dial.
    pub(super) fn is_due(&self, now: Mono) -> bool {
        self.next_dial().is_some_and(|at| at <= now)
    }

    /// Number of dials since the last success.
    pub(super) fn in_vain(&self) -> usize {
        self.pace.in_vain()
    }

    /// The server is being dialled.
    pub(super) fn dialled(&mut self, link: LinkId, now: Mono) {
        self.pace.dialled(now);
        self.state = State::Dialling(link);
    }

    /// The dial made a connection.
    pub(super) fn made(&mut self, caps: Caps, now: Mono) {
        if let State::Dialling(link) = self.state {
            self.state =
                State::Up { link, caps, useful_at: now, spoke_at: now, is_believed: false };
        }
    }

    /// Something was sent.
    pub(super) fn spoke(&mut self, now: Mono) {
        if let State::Up { spoke_at, .. } = &mut self.state {
            *spoke_at = now;
        }
    }

    /// When to send something lest the connection is idle for too long.
    pub(super) fn idle_at(&self) -> Option<Mono> {
        match self.state {
            State::Up { spoke_at, .. } => Some(spoke_at.plus_ms(IDLE_MS)),
            State::Waiting { .. } | State::Dialling(_) => None,
        }
    }

    /// A batch was accepted.
    pub(super) fn succeeded(&mut self, now: Mono) {
        self.pace.succeeded();
        if let State::Up { useful_at, is_believed, .. } = &mut self.state {
            *useful_at = now;
            *is_believed = true;
        }
    }

    /// Whether a batch was accepted on the current connection.
    pub(super) fn is_believed(&self) -> bool {
        matches!(self.state, State::Up { is_believed: true, .. })
    }

    /// Whether a batch that failed with `why` leaves the connection in order: the server answered
    /// everything in time, but says that it cannot serve at present.
    pub(super) fn survives(&self, why: Unknown, now: Mono) -> bool {
        let State::Up { useful_at, .. } = self.state else { return false };
        matches!(why, Unknown::Loading | Unknown::Busy | Unknown::NotMaster)
            && now.since_ms(useful_at) < PATIENCE_MS
    }

    /// Gives up the connection or the dial, which it returns, because of `why`; it is dialled again
    /// when the pace allows.
    pub(super) fn give_up(&mut self, why: Unknown, now: Mono, random: u64) -> Option<LinkId> {
        let link = self.id();
        if is_about_login(why) || is_about_tls(why) {
            self.pace.refused();
        }
        self.state = State::Waiting { until: self.pace.next_dial(now, random) };
        link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::accept::RoleCheck;

    /// Behind the address of a managed Redis there may be a new master by now.
    #[test]
    fn a_server_that_cannot_serve_for_long_is_dialled_anew() {
        let _rule = crate::truth::rule("3 connection");
        let caps = Caps {
            pexpiretime: true,
            hpexpiretime: false,
            role: RoleCheck::Role,
            info: true,
            sharded: false,
        };
        for why in [Unknown::Loading, Unknown::Busy, Unknown::NotMaster] {
            let mut link = Link::new(Mono::at(0));
            assert!(!link.survives(why, Mono::at(0)), "there is no connection");
            link.dialled(LinkId(1), Mono::at(1_000));
            link.made(caps, Mono::at(1_000));
            assert!(link.survives(why, Mono::at(30_999)), "{why:?}");
            assert!(!link.survives(why, Mono::at(31_000)), "{why:?}");
            link.succeeded(Mono::at(20_000));
            assert!(link.survives(why, Mono::at(49_999)), "{why:?}");
            assert!(!link.survives(why, Mono::at(50_000)), "{why:?}");
            assert!(!link.survives(Unknown::Timeout, Mono::at(20_001)));
        }
    }
}
