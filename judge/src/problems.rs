//! Problems: conditions that deserve an alert, each with its own clock and its own evidence.
//!
//! [`TABLE`] says of each what it is. [`of_task`] and [`of_store`] find in a view which of them are
//! so now. Everything that alerts reads only these: rules, dashboards, page, `status`, explain and
//! replay. Nothing is kept here beyond what the views show: Prometheus remembers.

mod store;
mod table;
mod task;

use alloc::vec::Vec;

pub use self::store::{finding as store_finding, of_store};
pub use self::table::{Memory, Of, Row, Severity, TABLE};
pub use self::task::{finding as task_finding, of_task};
pub use crate::grounds::Problem;
use crate::time::Mono;

/// What is found of one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is so now, for this long in milliseconds, at least 1.
    Positive {
        /// The number.
        ms: u64,
    },
    /// It is seen not to be so.
    Negative,
    /// It cannot be told now.
    Unknown,
}

impl Finding {
    fn positive(ms: u64) -> Finding {
        Finding::Positive { ms: ms.max(1) }
    }

    fn over(ms: u64, limit_ms: u64) -> Finding {
        if ms > limit_ms { Finding::positive(ms) } else { Finding::Unknown }
    }

    /// Whether it is so.
    pub fn is_positive(self) -> bool {
        matches!(self, Finding::Positive { .. })
    }
}

/// The problems of one task or one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// There is fresh evidence against every state that pages, and no pause withholds one.
    pub clear: bool,
    /// What is shown: positive findings, and beside them, unless `clear`, the negative ones.
    pub findings: Vec<(Problem, Finding)>,
    /// What happened not long ago, and its age in milliseconds.
    pub events: Vec<(Problem, u64)>,
}

/// The time between two scrapes, when it was too long for what happened in it to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unscraped {
    /// The scrape before it.
    pub from: Mono,
    /// The scrape that ended it.
    pub to: Mono,
}

/// The age of an event in milliseconds, counted from its telling if that was later; `None`: it is
/// over.
fn age_ms(event: Mono, told: &[Option<Mono>], lasts_ms: u64, at: Mono) -> Option<u64> {
    let from = told.iter().flatten().fold(event, |from, told| from.max(*told));
    Some(at.since_ms(from)).filter(|age_ms| *age_ms < lasts_ms)
}

/// When an event in a time without scrapes was told at the earliest.
fn told_by(event: Mono, unscraped: Option<Unscraped>) -> Option<Mono> {
    unscraped.filter(|gap| gap.from <= event && event <= gap.to).map(|gap| gap.to)
}
