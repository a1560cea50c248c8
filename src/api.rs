//! What the agent says over HTTP: one definition of every body under `/api/v1`. The agent writes
//! these types, `status` and `explain` read them, and docs/openapi.json is generated from them:
//! the comments of types and fields are its descriptions.
//!
//! Another version of the agent may leave fields out or add some, so every field has a default
//! when it is read. Only what makes a body recognisable is required.

mod drill;
mod event;
mod explanation;
mod lock;
mod pattern;
mod periodic;
mod queue;
mod store;
mod task;
#[cfg(test)]
mod tests;
mod turn;
mod values;

pub use drill::{Drill, DrillRequest, PresentDrill, StartDrill};
pub use event::{Event, EventList};
pub use explanation::{
    Condition, Evidence, ExchangeShown, Explanation, PageDue, RuleGave, Setting, TimeToPage,
    TraceShown,
};
pub use lock::{Contender, EndedRun, Hold, Holder, Lock, PresentRun, Runs, StoreShows, Witness};
pub use pattern::Pattern;
pub use periodic::{Periodic, Run};
pub use queue::{Execution, Member, Orphan, Queue, QueueTotals};
pub use store::{Node, Sentinel, Store, WakeUps};
pub use task::{
    Durations, Judged, Label, OneTask, Past, Progress, Split, Switch, Task, TaskList, Thresholds,
    Totals,
};
pub use turn::{Taken, Turn};
pub(crate) use values::sentences;
pub use values::{At, Count, Error, Histogram, Party, Problem, Seconds, Text, Unknown};
