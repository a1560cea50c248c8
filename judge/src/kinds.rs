//! What guards a task, one folder for each kind.

pub(crate) mod lock;

use self::lock::view::LockView;

/// What is specific to the kind of guard in the view of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindView {
    /// A lock.
    Lock(LockView),
}
