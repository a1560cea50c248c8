//! Why a task has its verdict: the agent's own reasoning in words.
//!
//! Nothing here judges. The rules and their results come from the verdict's own trace, the values
//! from the snapshot that every output reads, and the commands and replies from the
//! [trace](crate::trace::Traces).

mod alerts;
mod answer;
mod configured;
mod deciding;
mod evidence;
mod exchanges;
mod lock;
mod queue;
mod rules;
mod seen;
mod text;
mod trace;
mod turn;
mod wanted;

pub use crate::api::{
    Condition, Evidence, ExchangeShown, Explanation, PageDue, RuleGave, Setting, TimeToPage,
    TraceShown, Unknown,
};
pub use answer::explanation;
pub use seen::{Seen, Watched};
pub use text::text;
pub use trace::Trace;
