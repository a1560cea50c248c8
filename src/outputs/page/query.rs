//! What a page is asked to show: which tasks and how to group them, or which window of time. The
//! script applies the same filter to the rows that it has.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::verdict::Verdict;

/// Which tasks the list shows, and how it groups them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListQuery {
    /// Text that the row must contain, in any case.
    pub(crate) text: String,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) store: Option<String>,
    /// Labels by name and value.
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) group: Group,
}

/// How tasks are grouped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Group {
    #[default]
    None,
    Store,
    Label(String),
}

impl ListQuery {
    /// Whether the task matches; `row` gives the text of its row.
    pub(super) fn takes(&self, view: &TaskView, row: impl FnOnce() -> String) -> bool {
        self.verdict.is_none_or(|verdict| verdict == view.verdict)
            && self.store.as_ref().is_none_or(|store| **store == *view.store)
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
            Group::Store => &view.store,
            Group::Label(name) => label(view, name),
        }
    }

    /// The title of the grouping.
    pub(super) fn title(&self) -> &str {
        match self {
            Group::None => "",
            Group::Store => "redis",
            Group::Label(name) => name,
        }
    }
}

/// The value of a task's label; empty if it has none.
pub(super) fn label<'a>(view: &'a TaskView, name: &str) -> &'a str {
    view.spec.labels.iter().find(|(label, _)| **label == *name).map_or("", |(_, value)| value)
}

/// What the page of a task shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskQuery {
    /// How far back the timeline goes, in milliseconds.
    pub(crate) window_ms: u64,
    /// Whether only the contents are requested, which the script inserts.
    pub(crate) fragment: bool,
}

/// The windows of the timeline in milliseconds, by their word in a query.
pub(crate) const WINDOWS: [(&str, u64); 4] =
    [("2m", 120_000), ("10m", 600_000), ("1h", 3_600_000), ("6h", 21_600_000)];
/// The default window in milliseconds.
pub(crate) const WINDOW_MS: u64 = 600_000;
