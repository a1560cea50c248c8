//! The keys of a task. One key cannot have two roles.

use lockwatch_judge::spec::Key;

use super::block::Block;
use super::mistake::{Reported, field_text};
use super::place::Place;
use super::values::key;

/// The place of each key of a task.
pub(super) type Roles = Vec<(Key, Place)>;

/// Takes a key for the role at `place`.
pub(super) fn claim(roles: &mut Roles, block: &Block<'_>, place: Place, key: &Key) {
    match roles.iter().find(|(taken, _)| taken == key) {
        Some((_, other)) => {
            let other = field_text(&other.within_task(), &[]);
            let message = format!("is the same key as `{other}`; each needs a key of its own");
            block.report_at(place, message);
        }
        None => roles.push((key.clone(), place)),
    }
}

/// Reads a required key, and takes it.
pub(super) fn read_key(block: &Block<'_>, field: &str, roles: &mut Roles) -> Result<Key, Reported> {
    let key = block.required(field, &format!("write `{field}: …` with the key's name"), key)?;
    claim(roles, block, block.place(field), &key);
    Ok(key)
}
