//! What guards a task, one file and folder for each kind.

pub(crate) mod lock;
pub(crate) mod queue;
pub(crate) mod turn;

use alloc::boxed::Box;

use self::lock::view::LockView;
use self::queue::QueueView;
use self::turn::TurnView;

/// What is specific to the kind of guard in the view of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all tasks have a lock: it is kept in place")]
pub enum KindView {
    /// A lock.
    Lock(LockView),
    /// Tasks that take turns.
    Turn(Box<TurnView>),
    /// A queue of delayed tasks.
    Queue(Box<QueueView>),
}
