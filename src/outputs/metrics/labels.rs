//! Who holds a lock, and the labels of a task's own.

use std::borrow::Cow;

use lockwatch_judge::snapshot::{HoldView, TaskView};
use lockwatch_judge::spec::LibraryName;

use super::reading::{Emit, Number};
use crate::text::identity::{escape, holder_label};

/// Most series of `lockwatch_lock_holder` for one task, so that a task has at most 100 series, and
/// a few more in trouble. A read lock may have more holders; `lockwatch_lock_holders` counts them
/// all.
pub const HOLDER_SERIES_MAX: usize = 5;
/// Labels that a task's own labels must not hide.
const RESERVED_LABELS: [&str; 4] = ["task", "store", "key", "library"];

/// The present hold, if the newest reading says held.
pub(super) fn hold(task: &TaskView) -> Option<&HoldView> {
    task.hold().filter(|_| task.held == Some(true))
}

/// The series of `lockwatch_lock_holder`: each pair of holder and host once. A holder of whom
/// nothing is known has none: a name for all of them would look like one that stays.
pub(super) fn holder_series(task: &TaskView, emit: &mut Emit<'_>) {
    let Some(hold) = hold(task) else { return };
    let mut seen = Vec::new();
    for (holder, host) in hold.holders.iter().filter(|(holder, _)| holder.is_identified()) {
        let labels = (holder_label(holder), escape(host.unwrap_or_default()));
        if seen.len() < HOLDER_SERIES_MAX && !seen.contains(&labels) {
            emit(&[("holder", &labels.0), ("holder_host", &labels.1)], Number::Count(1));
            seen.push(labels);
        }
    }
}

/// The series of `lockwatch_task_info`. A task's own label that is no valid name, that is reserved
/// or that was there before is left out: the configuration refuses it, and it must never cost a
/// scrape.
pub(super) fn info_labels(task: &TaskView, emit: &mut Emit<'_>) {
    let key = escape(task.spec.kind.key());
    let library = task.spec.kind.library().map_or("", LibraryName::as_str);
    let own: Vec<(&str, Cow<'_, str>)> =
        task.spec.labels.iter().map(|(name, value)| (&**name, escape(value.as_bytes()))).collect();
    let mut labels: Vec<(&str, &str)> = vec![("key", &key), ("library", library)];
    for (name, value) in &own {
        let taken = labels.iter().any(|(other, _)| other == name);
        if is_own_label(name) && !taken {
            labels.push((name, value));
        }
    }
    emit(&labels, Number::Count(1));
}

/// Whether a task may have a label of its own with this name.
pub(super) fn is_own_label(name: &str) -> bool {
    is_label_name(name) && !RESERVED_LABELS.contains(&name)
}

fn is_label_name(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts_well
        && !name.starts_with("__")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
