//! Problems: conditions that deserve an alert, each with its own clock and its own evidence.
//!
//! Each is one [`Row`] that holds everything about it. [`of_task`] and [`of_store`] find in a view
//! which of them are active. Everything that alerts reads only these: rules, dashboards, page,
//! `status`, explain and replay. Nothing is kept here beyond what the views show: Prometheus
//! remembers.

mod row;
mod store;
mod task;

pub use self::row::{
    Compared, Find, Finding, Happened, Memory, Problems, Row, Severity, Unscraped,
};
pub use self::store::{finding as store_finding, of_store};
pub use self::task::{finding as task_finding, of_task};
pub use crate::grounds::Problem;

/// The rows of all problems, in the order of [`Problem::ALL`].
pub fn rows() -> impl Iterator<Item = &'static Row> {
    task::ROWS.iter().chain(&store::ROWS)
}

impl Problem {
    /// Its row.
    pub fn row(self) -> &'static Row {
        rows().nth(self as usize).unwrap_or(&task::ROWS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_problem_has_the_row_of_its_own() {
        assert_eq!(rows().count(), Problem::ALL.len());
        for (problem, row) in Problem::ALL.into_iter().zip(rows()) {
            assert_eq!(problem, row.problem);
            assert_eq!(problem.row().problem, problem);
            assert!(!row.positive.is_empty() && !row.number.is_empty(), "{problem:?}");
            let needs = matches!(row.memory, Memory::UntilNegative | Memory::UntilNegativeOfAll);
            assert_eq!(needs, !row.negative.is_empty(), "{problem:?}");
            let is_event = matches!(row.memory, Memory::Event(_));
            let never = matches!(row.happened, Happened::Never);
            assert!(!(is_event && never), "{problem:?} shows no event");
        }
    }
}
