//! Libraries whose locks are recognised, but are no tasks: locks for single jobs and items, which
//! come and go, and locks that lockwatch cannot read.

use super::recognise::{Content, Guess, ScannedKey, contains};
use super::shape::Shape;

/// Recognises such a lock.
pub(super) fn recognise(seen: &ScannedKey) -> Option<Guess> {
    let rows = [bullmq, sidekiq_unique_jobs, celery_once, laravel_jobs, rueidislock, symfony];
    rows.iter().find_map(|row| row(seen))
}

/// `bull:<queue>:<job>:lock`. The prefix can be configured; the form of the value is fixed.
fn bullmq(seen: &ScannedKey) -> Option<Guess> {
    let is_it = seen.shape()? == Shape::UuidAndNumber && seen.key.ends_with(b":lock");
    is_it.then_some(Guess::PerItem("BullMQ: a lock for each job in work"))
}

/// `uniquejobs:<digest>` and the keys beside it.
fn sidekiq_unique_jobs(seen: &ScannedKey) -> Option<Guess> {
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
fn celery_once(seen: &ScannedKey) -> Option<Guess> {
    let is_it =
        seen.key.starts_with(b"qo_") && matches!(seen.shape()?, Shape::TimeUuidHex | Shape::Hex);
    is_it.then_some(Guess::PerItem(
        "celery-once: a lock for each task and its arguments, held from queueing on",
    ))
}

/// Laravel's unique jobs, and jobs that must not overlap.
fn laravel_jobs(seen: &ScannedKey) -> Option<Guess> {
    seen.shape()?;
    let is_it = contains(&seen.key, b"laravel_unique_job:")
        || contains(&seen.key, b"laravel-queue-overlap:");
    is_it.then_some(Guess::PerItem("Laravel: a lock for each unique or overlapping job"))
}

/// `rueidislock:<n>:<name>`: one lock needs a majority of several keys.
fn rueidislock(seen: &ScannedKey) -> Option<Guess> {
    seen.shape()?;
    seen.key.starts_with(b"rueidislock:").then_some(Guess::Unreadable(
        "rueidislock: a lock is the majority of several keys, which lockwatch does not count yet",
    ))
}

fn symfony(seen: &ScannedKey) -> Option<Guess> {
    let is_it = seen.ttl_ms.is_some() && seen.content == (Content::Sorted { has_writer: true });
    is_it.then_some(Guess::Unreadable(
        "symfony/lock: a sorted set of tokens, which lockwatch does not read yet",
    ))
}
