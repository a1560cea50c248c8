//! The filter of the list of tasks.

use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::verdict::{Verdict, Wanted};

use crate::text::identity::{escape, holder_label};

/// A task matches if each list that is not empty has a matching value.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// The verdict is one of these.
    pub verdicts: Vec<Verdict>,
    /// The name of the store is one of these.
    pub stores: Vec<String>,
    /// Whether it is wanted is one of these.
    pub wanted: Vec<Wanted>,
    /// For each of these labels, the task's value is one of these.
    pub labels: Vec<(String, Vec<String>)>,
    /// Name, key, a holder or its host, as shown and in lower case, contains one of these.
    pub texts: Vec<String>,
}

impl TaskFilter {
    /// Whether the task matches.
    pub fn fits(&self, view: &TaskView) -> bool {
        let one_of = |values: &[String], value: &str| values.iter().any(|own| own == value);
        let has_label = |(name, values): &(String, Vec<String>)| {
            view.spec.labels.iter().any(|(own, value)| **own == **name && one_of(values, value))
        };
        (self.verdicts.is_empty() || self.verdicts.contains(&view.verdict))
            && (self.stores.is_empty() || one_of(&self.stores, &view.store))
            && (self.wanted.is_empty() || self.wanted.contains(&view.wanted))
            && self.labels.iter().all(has_label)
            && (self.texts.is_empty() || self.texts.iter().any(|text| shows(view, text)))
    }
}

fn shows(view: &TaskView, text: &str) -> bool {
    let contains = |shown: &str| shown.to_lowercase().contains(text);
    let holders = view.hold().into_iter().flat_map(|hold| hold.holders.iter());
    contains(&view.spec.name)
        || contains(&escape(view.spec.kind.key()))
        || holders.into_iter().any(|(holder, host)| {
            contains(&holder_label(holder)) || host.is_some_and(|host| contains(&escape(host)))
        })
}
