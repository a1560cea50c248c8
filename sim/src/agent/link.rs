//! The single connection to a server: open, being dialled, or waiting to be dialled. Mirrors
//! `src/sampler/link.rs` and `pace.rs`.

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use crate::rng::Rng;

const PATIENCE_MS: u64 = 30_000;
const FIRST_MS: u64 = 100;
/// Maximum pause between two dials in milliseconds.
pub(crate) const LONGEST_MS: u64 = 5_000;
const WINDOW_MS: u64 = 1_000;

/// The pauses between dials of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    failures: u32,
    dials: [Option<Mono>; 2],
}

impl Pace {
    pub(super) fn dialled(&mut self, at: Mono) {
        self.dials = [self.dials[1], Some(at)];
        self.failures += 1;
    }

    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    pub(super) fn next_dial(&self, now: Mono, rng: &mut Rng) -> Mono {
        let longest_ms = match self.failures {
            0 | 1 => 0,
            more => (FIRST_MS << (more - 2).min(16)).min(LONGEST_MS),
        };
        let allowed = self.dials[0].map_or(now, |oldest| oldest.plus_ms(WINDOW_MS));
        now.plus_ms(rng.within(0, longest_ms)).max(allowed)
    }
}

/// See above.
#[derive(Debug)]
pub(super) struct Link {
    state: State,
    pace: Pace,
}

#[derive(Debug)]
enum State {
    Waiting { until: Mono },
    Dialling { dial: u64 },
    Up { connection: u64, useful_at: Mono, is_believed: bool },
}

impl Link {
    pub(super) fn new(now: Mono) -> Link {
        Link { state: State::Waiting { until: now }, pace: Pace::default() }
    }

    pub(super) fn connection(&self) -> Option<u64> {
        match self.state {
            State::Up { connection, .. } => Some(connection),
            State::Waiting { .. } | State::Dialling { .. } => None,
        }
    }

    pub(super) fn dialling(&self, dial: u64) -> bool {
        matches!(self.state, State::Dialling { dial: current } if current == dial)
    }

    pub(super) fn next_dial(&self) -> Option<Mono> {
        match self.state {
            State::Waiting { until } => Some(until),
            State::Dialling { .. } | State::Up { .. } => None,
        }
    }

    pub(super) fn dial(&mut self, dial: u64, now: Mono) {
        self.pace.dialled(now);
        self.state = State::Dialling { dial };
    }

    pub(super) fn made(&mut self, connection: u64, now: Mono) {
        self.state = State::Up { connection, useful_at: now, is_believed: false };
    }

    pub(super) fn succeeded(&mut self, now: Mono) {
        self.pace.succeeded();
        if let State::Up { useful_at, is_believed, .. } = &mut self.state {
            (*useful_at, *is_believed) = (now, true);
        }
    }

    pub(super) fn is_believed(&self) -> bool {
        matches!(self.state, State::Up { is_believed: true, .. })
    }

    pub(super) fn survives(&self, why: Unknown, now: Mono) -> bool {
        let State::Up { useful_at, .. } = self.state else { return false };
        matches!(why, Unknown::Loading | Unknown::Busy | Unknown::NotMaster)
            && now.since_ms(useful_at) < PATIENCE_MS
    }

    pub(super) fn give_up(&mut self, now: Mono, rng: &mut Rng) {
        self.state = State::Waiting { until: self.pace.next_dial(now, rng) };
    }
}
