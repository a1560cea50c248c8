//! Changes of thresholds for a second pass: `--set outbound.grace=40s`.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use lockwatch_judge::limit::Limit;
use lockwatch_judge::spec::WatchSpec;

use crate::config::threshold;
use crate::text::identity::{escape, list};
use crate::text::nearest::nearest;

/// The name that stands for all tasks.
const ALL_TASKS: &str = "*";
/// Maximum number of names in an error message.
const LISTED_MAX: usize = 10;

/// One change of a threshold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The text of the argument.
    pub(super) text: String,
    task: String,
    limit: Limit,
    ms: u64,
}

/// Parses `TASK.FIELD=VALUE`. The names of tasks may contain dots and any other characters.
///
/// # Errors
/// What is wrong with it, for display.
pub(super) fn parse(text: &str) -> Result<Change, String> {
    let wrong = |what: &str| format!("--set {text}: {what}");
    let shape =
        || wrong("write TASK.FIELD=VALUE, as in outbound.grace=40s, or *.grace=40s for all tasks");
    let (place, value) = text.rsplit_once('=').ok_or_else(shape)?;
    let (task, field) =
        place.rsplit_once('.').filter(|(task, _)| !task.is_empty()).ok_or_else(shape)?;
    let limit = Limit::ALL.into_iter().find(|limit| limit.name() == field);
    let limit = limit.ok_or_else(|| {
        let names = Limit::ALL.map(Limit::name);
        let near = nearest(field, names)
            .first()
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        wrong(&format!("`{field}` is no threshold{near} There are {}", names.join(", ")))
    })?;
    let ms = threshold::read(limit, value).map_err(|why| wrong(&format!("`{value}` {why}")))?;
    Ok(Change { text: text.to_owned(), task: task.to_owned(), limit, ms })
}

/// Checks the changes against the configurations of a recording.
///
/// # Errors
/// What does not match, for display.
pub(super) fn check(changes: &[Change], configs: &[Arc<WatchSpec>]) -> Result<(), String> {
    let tasks = || configs.iter().flat_map(|config| &config.tasks);
    for change in changes {
        let named = || tasks().filter(|task| change.concerns(&task.name));
        if named().next().is_none() {
            let names: BTreeSet<&str> = tasks().map(|task| &*task.name).collect();
            return Err(unknown_task(change, &names));
        }
        let mut spec_has_it =
            named().map(|task| change.limit.set(&mut (**task).clone(), change.ms));
        if !spec_has_it.any(|has_it| has_it) {
            let block = if change.limit == Limit::StaleAfter { "progress" } else { "claims" };
            return Err(format!(
                "--set {}: nothing is configured as `{block}` there, so it changes nothing",
                change.text
            ));
        }
    }
    for config in configs {
        let changed = apply(changes, config);
        for (task, before) in
            changed.tasks.iter().zip(&config.tasks).filter(|(task, before)| task != before)
        {
            let redis = config.stores.get(usize::from(before.store.0));
            if let Some(mistake) = redis.and_then(|redis| threshold::mistake(task, redis)) {
                return Err(format!("--set: task {}: {mistake}", escape(task.name.as_bytes())));
            }
        }
    }
    Ok(())
}

/// `config` with the changes applied in order.
pub(super) fn apply(changes: &[Change], config: &WatchSpec) -> WatchSpec {
    let mut config = config.clone();
    for task in &mut config.tasks {
        let name = Arc::clone(&task.name);
        for change in changes.iter().filter(|change| change.concerns(&name)) {
            // A task without this threshold is left unchanged.
            let _has_it = change.limit.set(Arc::make_mut(task), change.ms);
        }
    }
    config
}

impl Change {
    fn concerns(&self, task: &str) -> bool {
        self.task == ALL_TASKS || self.task == task
    }
}

fn unknown_task(change: &Change, names: &BTreeSet<&str>) -> String {
    let shown = |name: &str| format!("`{}`", escape(name.as_bytes()));
    let near = nearest(&change.task, names.iter().copied())
        .first()
        .map(|near| format!("; did you mean {}?", shown(near)));
    format!(
        "--set {}: the recording has no task {}{} It has {}",
        change.text,
        shown(&change.task),
        near.unwrap_or_else(|| String::from(".")),
        list(names.iter().map(|name| Cow::Owned(shown(name))), LISTED_MAX)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockwatch_judge::spec::{StoreIndex, TaskSpec};
    use lockwatch_watch::redis::{RedisKind, libraries};

    fn config() -> Arc<WatchSpec> {
        let redis = RedisKind::Standalone.store("main", &["127.0.0.1:6379"]);
        let task = |name| {
            Arc::new(TaskSpec::new(name, StoreIndex(0), libraries::lock(b"key", "redisson")))
        };
        Arc::new(WatchSpec {
            stores: vec![redis],
            tasks: vec![task("outbound"), task("a.b=c")],
            epoch: 0,
        })
    }

    fn checked(text: &str) -> Result<WatchSpec, String> {
        let change = parse(text)?;
        check(std::slice::from_ref(&change), &[config()])?;
        Ok(apply(&[change], &config()))
    }

    #[test]
    fn one_task_or_all_change() {
        let graces = |text| {
            checked(text).unwrap().tasks.iter().map(|task| task.grace_ms).collect::<Vec<_>>()
        };
        assert_eq!(graces("outbound.grace=40s"), [40_000, 20_000]);
        assert_eq!(graces("a.b=c.grace=1m30s"), [20_000, 90_000]);
        assert_eq!(graces("*.grace=0s"), [0, 0]);
    }

    #[test]
    fn mistakes_say_what_there_is() {
        for (text, expected) in [
            ("grace=40s", "write TASK.FIELD=VALUE"),
            ("outbound.grace", "write TASK.FIELD=VALUE"),
            ("outbound.grave=40s", "did you mean `grace`?"),
            ("outbound.colour=40s", "There are grace, settle"),
            ("outbound.grace=40", "has no unit"),
            ("outbound.blind_after=10ms", "too short"),
            ("outbuond.grace=40s", "did you mean `outbound`?"),
            ("zzz.grace=40s", "It has `a.b=c`, `outbound`"),
            ("outbound.settle=2m", "must be shorter than `blind_after` (1m)"),
            ("*.blind_after=4s", "must be"),
            ("outbound.stale_after=1m", "nothing is configured as `progress`"),
        ] {
            let mistake = checked(text).unwrap_err();
            assert!(mistake.contains(expected), "{text}: {mistake}");
        }
    }
}
