//! What each kind of guard must do for its task.

use alloc::boxed::Box;

use super::lock::view::LockView;
use super::queue::view::QueueView;
use super::turn::view::TurnView;
use crate::event::Fate;
use crate::evidence::Attempts;
use crate::reading::{GuardReading, Holder, Parts, TaskReading, Unknown};
use crate::shared::clocks::Holding;
use crate::shared::{Shared, Signs};
use crate::spec::TaskSpec;
use crate::step::{Accepted, Log};
use crate::time::Mono;
use crate::verdict::Facts;

/// What a kind adds to a task.
pub(crate) trait Kind {
    /// Takes over a changed configuration of the same task.
    fn configure(&mut self, before: &TaskSpec, now: &TaskSpec);

    /// The newest attempt gave no trustworthy reading.
    fn unknown(&mut self, why: Unknown);

    /// What the attempts to read it gave.
    fn attempts(&self) -> Attempts;

    /// Whether somebody has it, by the newest reading.
    fn held(&self) -> Option<bool>;

    /// Who has it, by the newest trustworthy reading.
    fn holders(&self) -> &[Holder];

    /// Whether a reading says nothing as long as it is unknown whether the task is wanted.
    fn needs_wanted(&self) -> bool {
        self.held() == Some(false)
    }

    /// Whether it has been held for so long that a reading says enough though it is unknown whether
    /// the task is wanted.
    fn lasts(&self, _young_ms: u64) -> bool {
        true
    }

    /// Whether a reading shows that it stayed where it was: the data of the newest trustworthy
    /// reading are still there.
    fn stayed(&self, _guard: &GuardReading) -> bool {
        false
    }

    /// How long the work has not moved, once that is too long, otherwise 0. In milliseconds.
    fn stalled_ms(&self, shared: &Shared) -> u64;

    /// Takes in a reading by a server that decides. Unless it gives no information, returns the
    /// fate of the hold that existed before, if there can be one and there was.
    fn observe(
        &mut self,
        shared: &mut Shared,
        reading: &TaskReading,
        signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> Option<Option<Fate>>;

    /// Takes in the other keys of the task, which are on another server.
    fn observe_parts(
        &mut self,
        shared: &mut Shared,
        _parts: &Parts,
        _signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log,
    ) {
        shared.observe_gap(batch.sent, Holding::Unseen, log);
    }

    /// Those keys could not be read.
    fn parts_failed(&mut self, _parts: &Parts) {}

    /// Everything that its verdict depends on.
    fn facts(&self, shared: &Shared) -> Facts;

    /// Updates the grounds of its problems.
    fn update_grounds(&mut self, shared: &mut Shared, at: Mono);

    /// What only this kind shows.
    fn view(&mut self, shared: &Shared) -> KindView;
}

/// What is specific to the kind of guard in the view of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindView {
    /// A lock.
    Lock(LockView),
    /// Tasks that take turns.
    Turn(Box<TurnView>),
    /// A queue of delayed tasks.
    Queue(Box<QueueView>),
}
