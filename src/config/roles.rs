//! The keys of a task. One key cannot have two roles.

use lockwatch_judge::spec::Key;
use serde_yaml::Value;

use super::block::Block;
use super::mistake::{Reported, field_text};
use super::place::Place;
use super::values::{key, node};

/// The place of each key of a task.
pub(super) type Roles = Vec<(Key, Place)>;

/// Takes a key for the role at `place`.
pub(super) fn claim(roles: &mut Roles, block: &Block<'_>, place: Place, key: &Key) {
    match roles.iter().find(|(taken, _)| taken == key) {
        Some((_, other)) => {
            let other = field_text(&other.within_task(), &[]);
            let what = block.called("key", "node");
            let message =
                format!("is the same {what} as `{other}`; each needs a {what} of its own");
            block.report_at(place, message);
        }
        None => roles.push((key.clone(), place)),
    }
}

/// Parses a key, or in a task in ZooKeeper a path.
pub(super) fn key_in(block: &Block<'_>) -> fn(&Value) -> Result<Key, String> {
    if block.is_in_zookeeper() { node } else { key }
}

/// Reads a required key, or path of a node, and takes it.
pub(super) fn read_key(block: &Block<'_>, field: &str, roles: &mut Roles) -> Result<Key, Reported> {
    let what = block.called("the key's name", "the node's whole path");
    let key = block.required(field, &format!("write `{field}: …` with {what}"), key_in(block))?;
    claim(roles, block, block.place(field), &key);
    Ok(key)
}
