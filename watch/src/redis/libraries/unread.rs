//! Libraries whose locks are recognised, but are no tasks: locks for single jobs and items, which
//! come and go, and locks that lockwatch cannot read.

use super::recognise::{Content, Guess, ScannedKey, contains};
use super::shape::Shape;

/// Recognises such a lock.
pub(super) fn recognise(seen: &ScannedKey) -> Option<Guess> {
    let rows = [bull, sidekiq_unique_jobs, celery_once, laravel_jobs, rueidislock];
    rows.iter().find_map(|row| row(seen)).or_else(|| by_name(seen))
}

/// Where a key's name alone is enough: what it begins with, what is in it, what it ends in.
struct Name(&'static str, &'static str, &'static str, Guess);

const NAMES: [Name; 7] = [
    Name(
        "",
        "SINGLETONLOCK_",
        "",
        Guess::PerItem(
            "celery-singleton: a lock for each task and its arguments, held from queueing on",
        ),
    ),
    Name("arq:", "in-progress:", "", Guess::PerItem("arq: a lock for each job in work")),
    Name("asynq:", ":unique:", "", Guess::PerItem("asynq: a lock for each unique task")),
    Name(
        "gitlab:",
        "exclusive_lease:",
        "",
        Guess::PerItem("GitLab: a lease for each item of work"),
    ),
    Name("", "/lockfiles/", "", Guess::PerItem("Nextcloud: a lock for each file in use")),
    Name(
        "",
        "",
        "unacked_mutex",
        Guess::PerItem("Celery: held for moments, by whichever worker restores messages"),
    ),
    Name(
        "",
        "",
        "rq:scheduler_lock",
        Guess::Unreadable(
            "rq-scheduler: held for milliseconds with each tick, too short to be seen; watch its \
             sorted set instead",
        ),
    ),
];

fn by_name(seen: &ScannedKey) -> Option<Guess> {
    let fits = |Name(start, part, end, _): &&Name| {
        seen.key.starts_with(start.as_bytes())
            && (part.is_empty() || contains(&seen.key, part.as_bytes()))
            && seen.key.ends_with(end.as_bytes())
    };
    seen.shape()?;
    NAMES.iter().find(fits).map(|Name(.., guess)| guess.clone())
}

/// `bull:<queue>:<job>:lock`. The prefix can be configured; the form of BullMQ's value is fixed.
/// Bull's is a plain UUID, which other locks have, too.
fn bull(seen: &ScannedKey) -> Option<Guess> {
    let shape = seen.shape()?;
    let parts = seen.key.split(|byte| *byte == b':').count();
    let is_lock = seen.key.ends_with(b":lock");
    let is_of_bull = seen.key.starts_with(b"bull:") && parts >= 4 && shape == Shape::Uuid;
    (is_lock && (shape == Shape::UuidAndNumber || is_of_bull))
        .then_some(Guess::PerItem("Bull or BullMQ: a lock for each job in work"))
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
        Guess::Internal
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
