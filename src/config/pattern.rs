//! A pattern: one task for each key that matches a glob, as far as keys can be found.

use std::sync::Arc;

use lockwatch_judge::spec::{Key, KindSpec, LibraryName, StoreIndex, TaskSpec};
use lockwatch_watch::redis::libraries;
use serde_yaml::Value;

use super::block::Block;
use super::mistake::Reported;
use super::schema::LOCK;
use super::values::{count, key};

/// The most keys that a pattern watches unless `max_keys` is set.
const MAX_KEYS: usize = 1_000;
/// Maximum value of `max_keys`.
const MAX_KEYS_MAX: usize = 100_000;
/// Maximum length of a pattern's name in bytes: the names of its tasks begin with it.
pub(crate) const NAME_BYTES_MAX: usize = 100;

/// The fields of a lock that many keys can share.
const SHARED: [&str; 11] = [
    "match",
    "max_keys",
    "field",
    "library",
    "scheme",
    "holder",
    "host",
    "score",
    "limit",
    "lease",
    "renew_every",
];

const LISTED: &str = "list such locks as tasks with `lock: {key: …}`";
const NEVER_DOWN: &str = "does not apply to a pattern: nobody says which of its keys must exist, so \
    none of its locks is ever down";
const FIXED_KEY: &str = "names one key, and a pattern has many locks";
const FEW_SERIES: &str = "does not apply to a pattern, whose locks have few series so that many of \
    them cost little";
/// The fields of a task that a pattern cannot have, and why.
const REFUSED: [(&str, &str); 10] = [
    ("wanted", NEVER_DOWN),
    ("grace", NEVER_DOWN),
    ("wind_down", NEVER_DOWN),
    (
        "runs",
        "does not apply to a pattern: nobody says which of its keys must come again, so no run is \
         ever missing",
    ),
    ("guard", "does not apply to a pattern: a guard runs one script under one lock"),
    ("progress", FIXED_KEY),
    ("claims", FIXED_KEY),
    ("hosts", FIXED_KEY),
    ("paused_until", FIXED_KEY),
    ("metrics", FEW_SERIES),
];

/// One task for each key of a store that matches a glob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The most keys that are watched at once.
    pub max_keys: usize,
    /// What each of its tasks is, but for the name and the key: these are the pattern's own name,
    /// and the glob.
    template: TaskSpec,
}

impl Pattern {
    pub(super) fn new(template: TaskSpec, max_keys: usize) -> Pattern {
        Pattern { max_keys, template: TaskSpec { full_metrics: false, ..template } }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.template.name
    }

    /// The store whose keys are meant.
    pub fn store(&self) -> StoreIndex {
        self.template.store
    }

    /// The glob, as Redis reads it.
    pub fn glob(&self) -> &[u8] {
        self.template.kind.key()
    }

    /// The library of its locks.
    pub fn library(&self) -> Option<&LibraryName> {
        self.template.kind.library()
    }

    /// The task for one key.
    pub fn task(&self, name: Arc<str>, key: &[u8]) -> TaskSpec {
        let pattern = Some(Arc::clone(self.name()));
        let mut task = TaskSpec { name, pattern, ..self.template.clone() };
        if let Some(lock) = task.lock_mut() {
            lock.key = key.to_vec();
        }
        task
    }
}

/// Reads the glob of a lock that has one.
pub(super) fn glob(lock: &Block<'_>) -> Result<Key, Reported> {
    if lock.value("key").is_some() {
        let message = "cannot be combined with `key`; watch one key, or all that match";
        return Err(lock.report("match", message));
    }
    let is_glob = |glob: &Key| glob.iter().any(|byte| b"*?[".contains(byte));
    let read = |value: &Value| match key(value)? {
        glob if is_glob(&glob) => Ok(glob),
        _ => Err("has no `*`, `?` or `[…]` in it, so it is one key; write `key: …`".to_owned()),
    };
    lock.required("match", "write the glob", read)
}

/// The most keys of a task that is a pattern; refuses what a pattern cannot have.
pub(super) fn read(
    task: &Block<'_>,
    name: Option<&str>,
    guarded: Option<&KindSpec>,
) -> Result<Option<usize>, Reported> {
    let lock = task.value("lock").and_then(Value::as_mapping);
    // In ZooKeeper there are none, and the field is refused.
    let Some(lock) = lock.filter(|_| !task.is_in_zookeeper()) else { return Ok(None) };
    let place = |field: &str| task.place("lock").field(field);
    if !lock.contains_key("match") {
        let message = "applies only with `match`; remove it";
        let alone = lock.contains_key("max_keys");
        return if alone { Err(task.report_at(place("max_keys"), message)) } else { Ok(None) };
    }
    let mut mistakes: Vec<Reported> = Vec::new();
    for (field, why) in REFUSED.iter().filter(|(field, _)| task.value(field).is_some()) {
        let message = format!("{why}; {LISTED}, or remove it, also from an anchor that brings it");
        mistakes.push(task.report(field, message));
    }
    let own = |field: &&&str| lock.contains_key(**field) && !SHARED.contains(*field);
    for field in LOCK.fields.iter().filter(own).filter(|field| **field != "key") {
        let message = format!("does not apply to a pattern; {LISTED}, or remove it");
        mistakes.push(task.report_at(place(field), message));
    }
    if let Some(name) = name.filter(|name| name.len() > NAME_BYTES_MAX) {
        let message = format!(
            "is {} bytes long; use at most {NAME_BYTES_MAX} for a pattern, as the names of its \
             tasks begin with it",
            name.len()
        );
        mistakes.push(task.report("name", message));
    }
    if let Some(KindSpec::Lock(spec)) = guarded
        && !libraries::of(&spec.library).is_key()
    {
        let message = format!("cannot be found by a pattern, as it is no key; {LISTED}");
        mistakes.push(task.report_at(place("library"), message));
    }
    let max_keys = match lock.get("max_keys") {
        None => Ok(MAX_KEYS),
        Some(value) => count(value, MAX_KEYS_MAX),
    };
    let max_keys = max_keys.map_err(|message| task.report_at(place("max_keys"), message))?;
    mistakes.into_iter().next().map_or(Ok(Some(max_keys)), Err)
}
