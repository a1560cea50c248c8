//! All that is shown of a snapshot or an event: metrics, JSON, pages, badges, explanations, history
//! and log lines. Nothing here can reach Redis, and nothing knows how it is transported.

pub mod absent;
pub(crate) mod badge;
pub mod cause;
pub mod describe;
pub mod events;
pub mod explanation;
pub mod exposition;
pub mod history;
pub mod json;
pub(crate) mod live;
pub mod metrics;
pub mod negotiate;
pub(crate) mod page;
mod periodic;
mod process;
mod progress;
mod queue;
pub mod reason;
pub mod remark;
mod runs;
mod turn;
