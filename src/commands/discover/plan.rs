//! Sorts the findings into tasks, doubtful locks and list entries.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_judge::snapshot::TaskView;

use super::findings::Findings;
use super::groups::{Sorted, has_id};
use super::print::{Doubt, Relative, Report, Task};
use super::{hints, watch};
use crate::config::KEY_BYTES_MAX;
use crate::io::{Connection, Failure};
use crate::text::identity::escape;
use lockwatch_watch::redis::libraries::recognise::{Laid, Role};
use lockwatch_watch::redis::libraries::shape::{is_number, split_last};
use lockwatch_watch::redis::libraries::{UNNAMED, named};

/// Maximum number of tasks that are printed.
const TASKS_MAX: usize = 1_000;
/// Maximum number of possible tokens that are listed; if there are more, they are probably sessions
/// or caches.
const POSSIBLE_TOKENS_MAX: usize = 20;
/// Why possible tokens are not printed as tasks.
const NAMELESS: &str =
    "nothing in its name says that it is a lock; a session or a cache may look the same";
/// Why a lock of which only keys beside it were found is not printed as a task.
const COUNTER_ALONE: &str = "only its fencing counter was found, which Redisson never deletes";
const QUEUE_ALONE: &str =
    "only its queue was found: it was free, or taken after the scan passed it";

/// The sorted findings.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Sorted by key.
    pub(super) tasks: Vec<Task>,
    left_out: usize,
    doubts: Vec<Doubt>,
    items: Vec<(String, Sorted)>,
    unreadable: Vec<(String, Sorted)>,
    /// Number of possible tokens that are not listed.
    pub(super) possible_tokens: u64,
}

impl Plan {
    pub(super) fn new(findings: &Findings) -> Plan {
        let mut plan = Plan::default();
        for (laid, sorted) in findings.locks.sorted() {
            match sorted {
                Sorted::Single(key) if key.is_empty() => {
                    plan.unreadable.push((
                        "the empty key, which lockwatch does not take".to_owned(),
                        Sorted::Single(key),
                    ));
                }
                Sorted::Single(key) if key.len() > KEY_BYTES_MAX => {
                    let why =
                        format!("a key of {} bytes is longer than lockwatch takes", key.len());
                    plan.unreadable.push((why, Sorted::Single(key)));
                }
                Sorted::Single(key) if laid == UNNAMED && is_of_an_item(&key, findings) => {
                    plan.items.push((
                        format!("{} of an item, which is a hash", laid.what),
                        Sorted::Single(key),
                    ))
                }
                Sorted::Single(key) => {
                    plan.tasks.push(Task { key, laid, learned: Vec::new(), suggested: Vec::new() })
                }
                pattern => plan.items.push((laid.what.to_owned(), pattern)),
            }
        }
        plan.tasks.sort_by(|a, b| a.key.cmp(&b.key));
        plan.left_out = plan.tasks.len().saturating_sub(TASKS_MAX);
        plan.tasks.truncate(TASKS_MAX);
        for ((laid, why), sorted) in findings.doubtful.sorted() {
            match sorted {
                Sorted::Single(key) => plan.doubts.push(doubt(key, laid, why)),
                pattern => {
                    plan.items.push((format!("perhaps locks ({}: {why})", laid.what), pattern))
                }
            }
        }
        for ((key, laid, why), sorted) in findings.doubtful_fields.sorted() {
            match sorted {
                Sorted::Single(field) => {
                    plan.doubts.push(Doubt { field: Some(field), ..doubt(key, laid, why) });
                }
                pattern => {
                    let hash = escape(&key);
                    let what = format!("perhaps locks ({}: {why}), fields of {hash}", laid.what);
                    plan.items.push((what, pattern));
                }
            }
        }
        plan.apply_companions(findings);
        plan.list_possible_tokens(findings);
        plan.items.extend(
            findings.per_item.sorted().into_iter().map(|(what, sorted)| (what.to_owned(), sorted)),
        );
        plan.unreadable.extend(
            findings
                .unreadable
                .sorted()
                .into_iter()
                .map(|(what, sorted)| (what.to_owned(), sorted)),
        );
        plan
    }

    /// Takes locks out that belong to one of these queues, and what is one of them.
    pub(super) fn leave_to(&mut self, queues: &[Relative]) {
        for queue in queues {
            let what = format!("the delayed tasks of {}", escape(&queue.key));
            let known = |key: &Vec<u8>| queue.locks.contains(key);
            let tasks = self.tasks.extract_if(.., |task| known(&task.key)).map(|task| task.key);
            let doubts = self.doubts.extract_if(.., |doubt| known(&doubt.key));
            let keys = tasks.chain(doubts.map(|doubt| doubt.key));
            self.items.extend(keys.map(|key| (what.clone(), Sorted::Single(key))));
            self.unreadable.retain(|(_, sorted)| sorted.name() != queue.key);
        }
    }

    /// Adds what the keys beside locks show: of which kind a lock is, and locks that are free.
    fn apply_companions(&mut self, findings: &Findings) {
        let mut by_lock: BTreeMap<(&'static str, Vec<u8>), Vec<Role>> = BTreeMap::new();
        for ((library, role), sorted) in findings.companions.sorted() {
            if let Sorted::Single(inner) = sorted {
                by_lock.entry((library, inner)).or_default().push(role);
            }
        }
        for ((library, inner), roles) in by_lock {
            let Some(library) = named(library) else { continue };
            let names = library.locks_of(&inner);
            if let Some(task) = self.tasks.iter_mut().find(|task| names.contains(&task.key)) {
                task.laid.what = library.kind(task.laid.what, &roles);
                continue;
            }
            let is_mapped = |task: &Task| names.iter().any(|name| is_mapped_from(&task.key, name));
            if self.tasks.iter().any(is_mapped) {
                continue;
            }
            if let Some(name) = names.into_iter().next() {
                let laid = Laid::new(library.name(), library.kind("", &roles));
                let has_counter = roles.contains(&Role::Token);
                let why = if has_counter { COUNTER_ALONE } else { QUEUE_ALONE };
                self.doubts.push(doubt(name, laid, why));
            }
        }
    }

    /// Lists possible tokens if there are few. Some are locks of libraries that leave the key's
    /// name to the user (redlock, redsync, Spring Integration).
    fn list_possible_tokens(&mut self, findings: &Findings) {
        let sorted = findings.possible_tokens.sorted().into_iter();
        let single = |((), sorted)| if let Sorted::Single(key) = sorted { Some(key) } else { None };
        let singles: Vec<Vec<u8>> = sorted.filter_map(single).filter(|key| !has_id(key)).collect();
        self.possible_tokens = findings.possible_token_count;
        if singles.len() <= POSSIBLE_TOKENS_MAX {
            self.possible_tokens = self.possible_tokens.saturating_sub(singles.len() as u64);
            self.doubts.extend(singles.into_iter().map(|key| doubt(key, UNNAMED, NAMELESS)));
        }
    }

    /// Adds what the watch showed, a view for each task. A lock with an id in its name that
    /// disappeared during the watch was a lock of an item.
    pub(super) fn learn(&mut self, views: &[Option<Arc<TaskView>>], watch_ms: u64) {
        let mut kept = Vec::with_capacity(self.tasks.len());
        for (mut task, view) in std::mem::take(&mut self.tasks).into_iter().zip(views) {
            let Some(view) = view else {
                kept.push(task);
                continue;
            };
            if has_id(&task.key) && view.held == Some(false) {
                let why = "has an id in its name and did not stay, as the lock of an item would";
                self.doubts.push(doubt(task.key, task.laid, why));
                continue;
            }
            task.learned.push(watch::learned(view, watch_ms));
            kept.push(task);
        }
        self.tasks = kept;
    }

    /// Reads keys that resemble the locks' and may belong to their tasks.
    pub(super) async fn suggest(
        &mut self,
        connection: &Connection,
        findings: &Findings,
    ) -> Result<(), Failure> {
        let locks: Vec<_> =
            self.tasks.iter().map(|task| (task.key.as_slice(), task.laid)).collect();
        let mut suggested = hints::suggest(connection, findings, &locks).await?;
        for task in &mut self.tasks {
            task.suggested = suggested.remove(&task.key).unwrap_or_default();
        }
        Ok(())
    }

    /// Makes the report to print.
    pub(super) fn report(mut self) -> Report {
        self.doubts.sort();
        self.doubts.dedup();
        self.items.sort_by(|a, b| (&a.0, a.1.name()).cmp(&(&b.0, b.1.name())));
        self.unreadable.sort_by(|a, b| (&a.0, a.1.name()).cmp(&(&b.0, b.1.name())));
        Report {
            tasks: self.tasks,
            tasks_left_out: self.left_out,
            doubts: self.doubts,
            items: self.items,
            unreadable: self.unreadable,
            ..Report::default()
        }
    }
}

/// Whether a lock is that of a hash with a number, as Bull keeps its jobs: `mail:7:lock` is the lock
/// of `mail:7`.
fn is_of_an_item(lock: &[u8], findings: &Findings) -> bool {
    let item = lock.strip_suffix(b":lock").unwrap_or_default();
    split_last(item, b':').is_some_and(|(_, id)| is_number(id))
        && findings.hashes.contains_key(item)
}

/// Whether `lock` is `name` with something before or after it, as a NameMapper makes it: Redisson
/// before 3.52 names the keys beside such a lock by the unchanged name.
fn is_mapped_from(lock: &[u8], name: &[u8]) -> bool {
    let separates = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii_alphanumeric());
    lock.strip_suffix(name).is_some_and(|before| separates(before.last()))
        || lock.strip_prefix(name).is_some_and(|after| separates(after.first()))
}

fn doubt(key: Vec<u8>, laid: Laid, why: &str) -> Doubt {
    Doubt { key, field: None, laid, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use lockwatch_watch::redis::reply::Reply;

    use super::*;
    use lockwatch_judge::time::ServerTime;
    use lockwatch_watch::redis::libraries::recognise::{Content, ScannedKey};

    fn key(key: &[u8], ttl_ms: Option<u64>, content: Content) -> ScannedKey {
        ScannedKey { key: key.to_vec(), ttl_ms, now: ServerTime::at(0), content }
    }

    fn locks(names: impl Iterator<Item = String>) -> Findings {
        let mut findings = Findings::default();
        for name in names {
            let start = b"0b1f6c0e6d6c11ef9f0a5d3c1f2e4a5b".to_vec();
            let content = Content::Text { length: start.len() as u64, start };
            findings.take(key(name.as_bytes(), Some(1_000), content));
        }
        findings
    }

    /// Pairs of words that differ in both, so that no pattern covers them.
    fn distinct(count: usize) -> impl Iterator<Item = String> {
        let word = |n: usize| {
            [n / 26, n % 26]
                .map(|n| char::from(b'a' + u8::try_from(n).unwrap()))
                .iter()
                .collect::<String>()
        };
        (0..count).map(move |n| format!("{}:{}:lock", word(n / 40), word(n % 40)))
    }

    #[test]
    fn no_more_tasks_than_somebody_would_read() {
        let plan = Plan::new(&locks(distinct(1_200)));
        assert_eq!((plan.tasks.len(), plan.left_out), (TASKS_MAX, 200));
        assert!(plan.tasks.is_sorted_by(|a, b| a.key < b.key));
        let report = plan.report();
        assert_eq!((report.tasks.len(), report.tasks_left_out), (TASKS_MAX, 200));
    }

    #[test]
    fn a_key_that_no_configuration_takes_is_only_named() {
        let mut findings = locks([format!("{}:lock", "k".repeat(KEY_BYTES_MAX))].into_iter());
        let text = |text: &str| Reply::Bytes(text.into());
        let holder = "0b1f6c0e-6d6c-41ef-9f0a-5d3c1f2e4a5b:7";
        let scanned =
            Some(Reply::Array(vec![text("0"), Reply::Array(vec![text(holder), text("1")])]));
        let content = Content::Hash { length: 1, names: vec![holder.into()], scanned };
        findings.take(key(b"", Some(1_000), content));
        let plan = Plan::new(&findings);
        assert!(plan.tasks.is_empty() && plan.unreadable.len() == 2, "{plan:?}");
    }

    /// Bull's locks are plain UUIDs; a lock of Redisson by such a name is a task.
    #[test]
    fn the_lock_of_a_hash_with_a_number_is_that_of_an_item() {
        for (hash, tasks) in [("mail:7", 0), ("mail:8", 1), ("mail", 1)] {
            let mut findings = locks(["mail:7:lock".to_owned()].into_iter());
            let content = Content::Hash { length: 2, names: Vec::new(), scanned: None };
            findings.take(key(hash.as_bytes(), None, content));
            assert_eq!(Plan::new(&findings).tasks.len(), tasks, "{hash}");
        }
    }

    #[test]
    fn nameless_tokens_are_listed_while_they_are_few() {
        let mut findings = locks(
            (0..POSSIBLE_TOKENS_MAX)
                .map(|n| format!("{}:x", "a".repeat(n + 1)))
                .chain(["s:123".to_owned()]),
        );
        let plan = Plan::new(&findings);
        // The values are redis-py's own, which are listed separately.
        assert_eq!((plan.doubts.len(), plan.possible_tokens), (POSSIBLE_TOKENS_MAX + 1, 0));
        findings = Findings::default();
        for n in 0..=POSSIBLE_TOKENS_MAX {
            let content = Content::Text {
                length: 36,
                start: b"285475da-9152-4c83-822a-67ee2f116a79".to_vec(),
            };
            let name = format!("{}:x", "a".repeat(n + 1));
            findings.take(key(name.as_bytes(), Some(1), content));
            let plan = Plan::new(&findings);
            let listed = if n < POSSIBLE_TOKENS_MAX { n + 1 } else { 0 };
            assert_eq!(
                (plan.doubts.len(), plan.possible_tokens),
                (listed, (n + 1 - listed) as u64)
            );
        }
    }
}
