//! The only writer of what is known: one input in, events out, views on demand.

use alloc::vec::Vec;

use crate::event::Event;
use crate::input::Input;
use crate::snapshot::Snapshot;
use crate::time::Mono;

/// Everything that is known.
#[derive(Debug, Default)]
pub struct State {}

impl State {
    /// Knows nothing yet.
    pub fn new() -> State {
        State::default()
    }

    /// Takes in `input`, which became known at `at`. Instants must not go back from call to call.
    pub fn step(&mut self, at: Mono, input: Input) -> Vec<Event> {
        let _ = (at, input);
        Vec::new()
    }

    /// The view as of `at`.
    pub fn snapshot(&mut self, at: Mono) -> Snapshot {
        Snapshot { at, sequence: 0, tasks: Vec::new(), redises: Vec::new() }
    }
}
