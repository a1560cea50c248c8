//! What guards a task, one folder for each kind: its spec, its state, what follows from a reading
//! of it, and its view.

pub(crate) mod kind;
pub(crate) mod lock;
pub(crate) mod queue;
pub(crate) mod runs;
pub(crate) mod turn;
