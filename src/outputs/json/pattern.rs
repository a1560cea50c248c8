//! A pattern: how many keys it has, and how completely they were found.

use super::values::wall;
use crate::api::{At, Pattern};
use crate::published::PatternView;
use crate::text::identity::escape;

/// What is known of a pattern.
pub(crate) fn pattern(view: &PatternView) -> Pattern {
    Pattern {
        name: view.name.to_string().into(),
        store: view.store.to_string().into(),
        glob: escape(&view.glob).into(),
        keys: view.keys,
        max_keys: view.max_keys,
        left_out: view.left_out,
        scanned_at: view.scanned_at.map_or(At::default(), wall),
        trouble: view.trouble.as_deref().map(|why| why.to_owned().into()),
    }
}
