//! Finds delayed tasks: sorted sets whose scores are instants, and whose members have locks or whose
//! names say that they are a schedule.

use std::collections::{BTreeMap, HashMap};

use lockwatch_judge::spec::{QueueSpec, Unit};
use lockwatch_judge::time::ServerTime;
use lockwatch_watch::command;
use lockwatch_watch::redis::libraries::shape::{is_lock_word, words};
use lockwatch_watch::redis::reply::{Command, Reply};
use tokio::time::Instant;

use super::findings::Findings;
use super::groups::few_alike;
use super::name::yaml;
use super::print::Relative;
use super::scan::{ask_all, time};
use crate::io::{Connection, Failure, Pace};

/// Maximum number of sorted sets of which the scores are counted.
const SETS_MAX: usize = 400;
/// Number of sets in one batch.
const PER_BATCH: usize = 50;
/// Maximum number of sets of which members are read.
const READ_MAX: usize = 20;
/// How far from now a score may be.
const NEAR_MS: i64 = 366 * 24 * 3_600_000;
/// Maximum length of an id. Longer members are the work itself, as other libraries keep it.
const ID_BYTES_MAX: usize = 128;
/// How many parts of a key are tried as an id.
const PARTS_MAX: usize = 64;

/// A sorted set whose scores are all instants.
struct Timed<'a> {
    zset: &'a [u8],
    unit: Unit,
}

/// Finds the queues among the sorted sets of the scan.
pub(super) async fn look(
    connection: &Connection,
    findings: &Findings,
    pace: &mut Pace,
) -> Result<Vec<Relative>, Failure> {
    let mut sets = few_alike(findings.sorted_sets.iter().map(Vec::as_slice));
    sets.truncate(SETS_MAX);
    let mut timed: Vec<Timed<'_>> = Vec::new();
    for batch in sets.chunks(PER_BATCH) {
        pace.wait().await;
        let began = Instant::now();
        let now = time(connection).await?;
        let counts = batch.iter().map(|zset| counts(zset, now)).collect();
        let counts = ask_all(connection, counts).await?;
        timed.extend(
            batch
                .iter()
                .zip(counts)
                .filter_map(|(zset, counts)| Some(Timed { zset, unit: unit_of(&counts)? })),
        );
        pace.spent(began, batch.len());
    }
    // Those that are called a queue first: more than a few are not read.
    timed.sort_by_key(|timed| schedule(timed.zset).is_none());
    let read = timed.get(..READ_MAX).unwrap_or(&timed);
    let last = (QueueSpec::FIRST - 1).to_string();
    let first = read.iter().map(|timed| command!("ZRANGE", timed.zset, "0", &last)).collect();
    let first = ask_all(connection, vec![first]).await?.concat();
    let ids: Vec<Vec<&[u8]>> = first.iter().map(ids).collect();
    let mut queues = matched(read, &ids, findings.examples());
    for timed in &timed {
        let is_new = queues.iter().all(|queue| queue.key != timed.zset);
        queues.extend(schedule(timed.zset).filter(|_| is_new).map(|known| known.relative(timed)));
    }
    queues.sort_by(|a, b| a.key.cmp(&b.key));
    Ok(queues)
}

/// A queue that is known by its name, and guards nothing by locks of its members.
struct Schedule {
    /// What the name begins with, and what it ends in.
    begins: &'static str,
    ends: &'static str,
    /// What a watch of it answers.
    answers: &'static str,
    lock: Option<&'static str>,
}

const fn named(begins: &'static str, ends: &'static str, answers: &'static str) -> Schedule {
    Schedule { begins, ends, answers, lock: None }
}

const OF_SCHEDULER: &str = "whether the scheduler puts jobs into their queue when they are due";
const OF_PROCESSES: &str = "whether a process puts jobs into their queue when they are due";
const OF_BEAT: &str = "whether beat gives each task its next time";
const OF_WORKERS: &str = "whether a worker takes up what is due";

/// The first that fits counts.
const SCHEDULES: [Schedule; 15] = [
    named("", "redbeat::schedule", OF_BEAT),
    named("", "redbeat:schedule", OF_BEAT),
    named("rq:scheduled:", "", OF_SCHEDULER),
    named("rq:scheduler:", "scheduled_jobs", OF_SCHEDULER),
    named("", "delayed_queue_schedule", OF_SCHEDULER),
    named("", ":repeat", "whether any worker runs the repeated jobs"),
    named("asynq:", ":lease", "whether the tasks of a server that died are taken up again"),
    named("asynq:", ":scheduled", "whether a server takes up what is due"),
    Schedule {
        begins: "arq:",
        ends: "queue",
        answers: OF_WORKERS,
        lock: Some("arq:in-progress:{id}"),
    },
    named("schedule", "schedule", OF_PROCESSES),
    named("", ":schedule", OF_PROCESSES),
    named("", ":scheduled", OF_WORKERS),
    named("", ":delayed", OF_WORKERS),
    named("", ":queue", OF_WORKERS),
    named("t:scheduled:", "", OF_WORKERS),
];

/// What a sorted set of times is by its name.
fn schedule(zset: &[u8]) -> Option<&'static Schedule> {
    let fits = |known: &&Schedule| {
        zset.starts_with(known.begins.as_bytes()) && zset.ends_with(known.ends.as_bytes())
    };
    SCHEDULES.iter().find(fits)
}

impl Schedule {
    fn relative(&self, timed: &Timed<'_>) -> Relative {
        let lock = self.lock.map(|lock| format!(", lock: {}", yaml(lock.as_bytes())));
        let block = format!(
            "queue: {{zset: {}, unit: {}{}}}",
            yaml(timed.zset),
            timed.unit.name(),
            lock.unwrap_or_default()
        );
        let text = format!(
            "A schedule, by its name and its scores. Watched as a queue, it says {}.",
            self.answers
        );
        Relative { key: timed.zset.to_vec(), block, text, locks: Vec::new() }
    }
}

/// What counts the members of a set, and those whose scores are near, in each unit.
fn counts(zset: &[u8], now: ServerTime) -> Vec<Command> {
    let (from, to) = (now.ms().saturating_sub(NEAR_MS), now.ms().saturating_add(NEAR_MS));
    let near = |from: i64, to: i64| command!("ZCOUNT", zset, from.to_string(), to.to_string());
    vec![command!("ZCARD", zset), near(from, to), near(from / 1_000, to / 1_000)]
}

/// The unit of the scores, if all of them are near in it.
fn unit_of(counts: &[Reply]) -> Option<Unit> {
    let [all, of_ms, of_s] = counts else { return None };
    let all = all.as_int().filter(|all| *all > 0)?;
    let units = [(Unit::Milliseconds, of_ms), (Unit::Seconds, of_s)];
    units.into_iter().find_map(|(unit, near)| (near.as_int() == Some(all)).then_some(unit))
}

fn ids(members: &Reply) -> Vec<&[u8]> {
    let members = members.as_array().unwrap_or_default().iter().filter_map(Reply::as_bytes);
    members.filter(|member| (1..=ID_BYTES_MAX).contains(&member.len())).collect()
}

/// The sets of whose members one is named by a lock, each with the pattern of those locks.
fn matched<'a>(
    timed: &[Timed<'_>],
    ids: &[Vec<&[u8]>],
    locks: impl Iterator<Item = &'a [u8]>,
) -> Vec<Relative> {
    let mut sets: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (set, ids) in ids.iter().enumerate() {
        ids.iter().for_each(|id| sets.entry(id).or_default().push(set));
    }
    let mut patterns: BTreeMap<usize, BTreeMap<Vec<u8>, Vec<Vec<u8>>>> = BTreeMap::new();
    for lock in locks.filter(|_| !sets.is_empty()) {
        for (id, pattern) in parts(lock) {
            for set in sets.get(id).into_iter().flatten() {
                let locks = patterns.entry(*set).or_default().entry(pattern.clone()).or_default();
                locks.push(lock.to_vec());
            }
        }
    }
    let relative = |(set, patterns): (usize, BTreeMap<Vec<u8>, Vec<Vec<u8>>>)| {
        // Of several patterns, one that says lock; of those, the one that most locks have.
        let rank = |(pattern, locks): &(Vec<u8>, Vec<_>)| (says_lock(pattern), locks.len());
        let (pattern, locks) = patterns.into_iter().max_by_key(rank)?;
        let timed = timed.get(set)?;
        let block = format!(
            "queue: {{zset: {}, unit: {}, lock: {}}}",
            yaml(timed.zset),
            timed.unit.name(),
            yaml(&pattern)
        );
        let text = format!(
            "Delayed tasks: all scores are times around now, and locks that name a member were \
             held: {}. Is each member removed when it was executed, or given a new score?",
            locks.len()
        );
        Some(Relative { key: timed.zset.to_vec(), block, text, locks })
    };
    patterns.into_iter().filter_map(relative).collect()
}

/// The parts of a key that may be an id: whole words, each with the pattern that is left.
fn parts(key: &[u8]) -> impl Iterator<Item = (&[u8], Vec<u8>)> {
    let is_wordy = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let borders = (0..=key.len()).filter(move |at| {
        let before = at.checked_sub(1).and_then(|before| key.get(before));
        !(is_wordy(before) && is_wordy(key.get(*at)))
    });
    let borders: Vec<usize> = borders.collect();
    let spans = borders.clone().into_iter().flat_map(move |from| {
        borders.clone().into_iter().filter(move |to| *to > from).map(move |to| (from, to))
    });
    let whole = key.len();
    spans.filter(move |span| *span != (0, whole)).take(PARTS_MAX).filter_map(|(from, to)| {
        let id = key.get(from..to)?;
        Some((id, [key.get(..from)?, b"{id}", key.get(to..)?].concat()))
    })
}

fn says_lock(pattern: &[u8]) -> bool {
    words(pattern).iter().any(|word| is_lock_word(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(ids: &[&str], locks: &[&str]) -> Vec<String> {
        let timed = [Timed { zset: b"tasks", unit: Unit::Seconds }];
        let ids = [ids.iter().map(|id| id.as_bytes()).collect()];
        let found = matched(&timed, &ids, locks.iter().map(|lock| lock.as_bytes()));
        found.into_iter().map(|relative| relative.block).collect()
    }

    #[test]
    fn the_lock_of_a_member_shows_the_pattern() {
        for (id, lock, pattern) in [
            ("42", "lock_42", "lock_{id}"),
            ("mail-17", "lock:mail-17", "lock:{id}"),
            ("a", "jobs:a:lock", "jobs:{id}:lock"),
            ("{42}", "lock_{42}", "lock_{id}"),
        ] {
            let expected = format!("queue: {{zset: \"tasks\", unit: s, lock: \"{pattern}\"}}");
            assert_eq!(block(&[id, "other"], &["outbound:lock", lock]), [expected], "{lock}");
        }
        assert!(block(&["42"], &["lock_43", "lock_420", "42"]).is_empty());
        assert!(block(&[], &["lock_43"]).is_empty());
    }

    #[test]
    fn all_scores_must_be_near() {
        let counted = |all, ms, s| unit_of(&[Reply::Int(all), Reply::Int(ms), Reply::Int(s)]);
        assert_eq!(counted(3, 3, 0), Some(Unit::Milliseconds));
        assert_eq!(counted(3, 0, 3), Some(Unit::Seconds));
        assert_eq!((counted(3, 2, 1), counted(0, 0, 0)), (None, None));
        assert_eq!(unit_of(&[]), None);
    }
}
