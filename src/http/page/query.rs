//! The query of the list: which tasks to show, and how to group them. The script applies the same
//! filter to the rows that it has.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::verdict::Verdict;

use crate::http::parameters::lenient;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListQuery {
    /// Text that the row must contain, in any case.
    pub(super) text: String,
    pub(super) verdict: Option<Verdict>,
    pub(super) redis: Option<String>,
    /// Labels by name and value.
    pub(super) labels: Vec<(String, String)>,
    pub(super) group: Group,
}

/// How tasks are grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Group {
    #[default]
    None,
    Redis,
    Label(String),
}

impl ListQuery {
    /// Reads a query. Unknown or empty parameters are ignored.
    pub(super) fn read(query: Option<&str>) -> ListQuery {
        let mut asked = ListQuery::default();
        for (name, value) in lenient(query).into_iter().filter(|(_, value)| !value.is_empty()) {
            match name.as_str() {
                "q" => asked.text = value,
                "verdict" => {
                    asked.verdict = Verdict::ALL.into_iter().find(|verdict| verdict.name() == value)
                }
                "redis" => asked.redis = Some(value),
                "group" if value == "redis" => asked.group = Group::Redis,
                "group" => {
                    asked.group = value
                        .strip_prefix("label.")
                        .map(|label| Group::Label(label.to_owned()))
                        .unwrap_or_default();
                }
                _ => asked
                    .labels
                    .extend(name.strip_prefix("label.").map(|label| (label.to_owned(), value))),
            }
        }
        asked
    }

    /// Whether the task matches; `row` gives the text of its row.
    pub(super) fn takes(&self, view: &TaskView, row: impl FnOnce() -> String) -> bool {
        self.verdict.is_none_or(|verdict| verdict == view.verdict)
            && self.redis.as_ref().is_none_or(|redis| **redis == *view.store)
            && self.labels.iter().all(|(name, value)| label(view, name) == value)
            && (self.text.is_empty() || row().to_lowercase().contains(&self.text.to_lowercase()))
    }

    /// The requested value of a label.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| label == name).map(|(_, value)| value.as_str())
    }
}

impl Group {
    /// The group of a task.
    pub(super) fn of<'a>(&self, view: &'a TaskView) -> &'a str {
        match self {
            Group::None => "",
            Group::Redis => &view.store,
            Group::Label(name) => label(view, name),
        }
    }

    /// The title of the grouping.
    pub(super) fn title(&self) -> &str {
        match self {
            Group::None => "",
            Group::Redis => "redis",
            Group::Label(name) => name,
        }
    }
}

/// The value of a task's label; empty if it has none.
pub(super) fn label<'a>(view: &'a TaskView, name: &str) -> &'a str {
    view.spec.labels.iter().find(|(label, _)| **label == *name).map_or("", |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_and_anything_else_asks_for_nothing() {
        assert_eq!(ListQuery::read(Some("")), ListQuery::default());
        assert_eq!(
            ListQuery::read(Some("verdict=&redis=&group=&q=&label.team=")),
            ListQuery::default()
        );
        assert_eq!(
            ListQuery::read(Some("verdict=gone&group=colour&page=7&=&&%")),
            ListQuery::default()
        );
        let asked = ListQuery::read(Some(
            "q=a+b%26%C3%A9&verdict=down&redis=m%zz&label.team=log&group=label.t%65am",
        ));
        let expected = ListQuery {
            text: "a b&é".to_owned(),
            verdict: Some(Verdict::Down),
            redis: Some("m%zz".to_owned()),
            labels: vec![("team".to_owned(), "log".to_owned())],
            group: Group::Label("team".to_owned()),
        };
        assert_eq!(asked, expected);
        assert_eq!(ListQuery::read(Some("group=redis")).group, Group::Redis);
        assert_eq!(ListQuery::read(Some("q=%ff%")).text, "\u{fffd}%");
    }
}
