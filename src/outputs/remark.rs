//! What is worth a word about a lock beside its verdict.

use lockwatch_judge::snapshot::{HoldView, TaskView};
use lockwatch_watch::redis::libraries;

use crate::published::Published;

/// What [`is_past`] says.
pub const PAST: &str = "The lock's value is a time in the past. If the holder writes when its \
                        lease ends, that is over and the key was left behind; if it writes when \
                        it began, nothing is wrong.";

/// Whether a holder's value is a time in the past, of a library that does not say what its value
/// means. Which time it is stays secret: the value can release the lock.
pub fn is_past(published: &Published, view: &TaskView, hold: &HoldView) -> bool {
    let library = libraries::of_task(&view.spec);
    let mut instants =
        hold.holders.iter().filter_map(|(holder, _)| library.instant(&holder.client));
    instants.any(|instant| instant.0 < published.wall.0)
}
