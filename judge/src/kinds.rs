//! What guards a task, one folder for each kind.

pub(crate) mod lock;
