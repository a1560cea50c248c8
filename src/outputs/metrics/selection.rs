//! Which metrics a page has: all of them, or those alone that a scraper names. Of 10,000 tasks
//! there are most of a million series, and whoever wants a few of each need not have the others
//! made, sent and thrown away.

use super::form::{FORMS, Form};
use super::table::{Metric, Source, TABLE};

/// What a histogram's name has behind it in the names of its series.
const PARTS: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Some metrics of [`TABLE`], or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Selection(Option<u128>);

const _: () = assert!(TABLE.len() <= 128, "a selection has a bit for each metric");

impl Selection {
    /// Every metric.
    pub const ALL: Selection = Selection(None);

    /// The metrics with these names, of which there is at least one; else every metric. The series
    /// of a histogram name it too.
    ///
    /// # Errors
    /// The first name that no metric has.
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Selection, &'a str> {
        let mut selection = Selection::ALL;
        for name in names {
            let position = TABLE.iter().position(|metric| metric.has_series(name)).ok_or(name)?;
            selection.0 = Some(selection.0.unwrap_or(0) | 1 << position);
        }
        Ok(selection)
    }

    /// Whether nothing is left out.
    pub fn is_all(self) -> bool {
        self.0.is_none()
    }

    /// The metrics with their forms, in the order of the page.
    pub(super) fn metrics(self) -> impl Iterator<Item = (&'static Metric, Option<&'static Form>)> {
        let all = TABLE.iter().zip(FORMS.iter().map(Option::as_ref)).enumerate();
        let is_in = move |position: usize| self.0.is_none_or(|bits| bits & 1 << position != 0);
        all.filter_map(move |(position, metric)| is_in(position).then_some(metric))
    }

    /// About how many series a task has of them.
    pub(super) fn series_per_task(self) -> usize {
        self.metrics()
            .map(
                |(metric, form)| {
                    if metric.is_of_tasks() { form.map_or(1, Form::series) } else { 0 }
                },
            )
            .sum()
    }
}

impl Metric {
    pub(super) fn is_of_tasks(&self) -> bool {
        matches!(self.source, Source::Task(_))
    }

    /// Whether its series have this name.
    fn has_series(&self, name: &str) -> bool {
        let Some(rest) = name.strip_prefix(self.name) else { return false };
        rest.is_empty() || (self.kind() == "histogram" && PARTS.contains(&rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(selection: Selection) -> Vec<&'static str> {
        selection.metrics().map(|(metric, _)| metric.name).collect()
    }

    #[test]
    fn names_select_and_their_order_is_the_pages() {
        let of = |asked: &[&'static str]| Selection::of(asked.iter().copied()).map(names);
        assert_eq!(
            of(&["lockwatch_lock_held", "lockwatch_build_info", "lockwatch_lock_held"]),
            Ok(vec!["lockwatch_build_info", "lockwatch_lock_held"])
        );
        assert_eq!(
            of(&["process_threads"]),
            Ok(vec!["process_threads"]),
            "the last one of the table"
        );
        for series in ["", "_bucket", "_sum", "_count"] {
            let name = format!("lockwatch_task_handover_seconds{series}");
            assert_eq!(
                Selection::of([name.as_str()]).map(names),
                Ok(vec!["lockwatch_task_handover_seconds"])
            );
        }
    }

    #[test]
    fn names_that_there_are_not_are_refused() {
        for name in [
            "",
            "lockwatch_lock",
            "lockwatch_lock_held_",
            "lockwatch_lock_held_sum",
            "LOCKWATCH_LOCK_HELD",
        ] {
            assert_eq!(Selection::of(["lockwatch_lock_held", name, "other"]), Err(name));
        }
    }

    #[test]
    fn without_names_it_is_all() {
        let all = Selection::of([]).unwrap();
        assert!(all.is_all());
        assert_eq!(names(all), TABLE.iter().map(|metric| metric.name).collect::<Vec<_>>());
        let each = Selection::of(TABLE.iter().map(|metric| metric.name)).unwrap();
        assert_eq!(names(each), names(all));
    }
}
