//! Locks for single jobs and items, which come and go. They are not singleton tasks, so they are
//! only listed.

use super::{Content, Guess, Seen};
use crate::commands::discover::shape::Shape;

/// The shape of a string's value.
pub(super) fn shape(seen: &Seen) -> Option<Shape> {
    match &seen.content {
        Content::Text { length, start } => Some(Shape::of(start, *length)),
        _ => None,
    }
}

pub(super) fn contains(key: &[u8], part: &[u8]) -> bool {
    key.windows(part.len()).any(|window| window == part)
}

/// `bull:<queue>:<job>:lock`. The prefix can be configured; the form of the value is fixed.
pub(super) fn bullmq(seen: &Seen) -> Option<Guess> {
    let is_it = shape(seen)? == Shape::UuidAndNumber && seen.key.ends_with(b":lock");
    is_it.then_some(Guess::PerItem("BullMQ: a lock for each job in work"))
}

/// `uniquejobs:<digest>` and the keys beside it.
pub(super) fn sidekiq_unique_jobs(seen: &Seen) -> Option<Guess> {
    if !contains(&seen.key, b"uniquejobs:") {
        return None;
    }
    let is_lock = matches!(seen.content, Content::Text { .. }) || seen.key.ends_with(b":LOCKED");
    Some(if is_lock {
        Guess::PerItem("sidekiq-unique-jobs: a lock for each unique job")
    } else {
        Guess::Nothing
    })
}

/// `qo_<task>_<arguments>`, taken when the job is queued.
pub(super) fn celery_once(seen: &Seen) -> Option<Guess> {
    let is_it =
        seen.key.starts_with(b"qo_") && matches!(shape(seen)?, Shape::TimeUuidHex | Shape::Hex);
    is_it.then_some(Guess::PerItem(
        "celery-once: a lock for each task and its arguments, held from queueing on",
    ))
}

/// Laravel's unique jobs, and jobs that must not overlap.
pub(super) fn laravel_jobs(seen: &Seen) -> Option<Guess> {
    shape(seen)?;
    let is_it = contains(&seen.key, b"laravel_unique_job:")
        || contains(&seen.key, b"laravel-queue-overlap:");
    is_it.then_some(Guess::PerItem("Laravel: a lock for each unique or overlapping job"))
}

/// `rueidislock:<n>:<name>`: one lock needs a majority of several keys.
pub(super) fn rueidislock(seen: &Seen) -> Option<Guess> {
    shape(seen)?;
    seen.key.starts_with(b"rueidislock:").then_some(Guess::Unreadable(
        "rueidislock: a lock is the majority of several keys, which lockwatch does not count yet",
    ))
}
