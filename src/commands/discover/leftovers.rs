//! Reads keys beside locks, and finds leftovers of locks. It runs after the watch, so that
//! short-lived keys are gone.

use std::collections::{BTreeMap, BTreeSet};

use lockwatch_judge::time::ServerTime;
use lockwatch_watch::command;
use lockwatch_watch::redis::reply::{Command, Reply};
use tokio::time::Instant;

use super::findings::Findings;
use super::groups::Sorted;
use super::scan::{Pace, ask_all, time, ttl_ms};
use crate::commands::rule::quoted;
use crate::io::{Connection, Failure};
use crate::text::identity::escape;
use lockwatch_watch::redis::libraries::recognise::{Laid, Role};
use lockwatch_watch::redis::libraries::{Library, named};

/// Maximum number of locks in one batch: each needs several commands.
const LOCKS_PER_BATCH: usize = 50;
/// Maximum number of names that are followed to a lock that the scan did not find.
const ORPHANS_MAX: usize = 500;
/// Maximum number of leftovers of one kind that are listed.
const LISTED_MAX: usize = 20;

/// A lock and the keys beside it, as they are now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Beside {
    /// Whether it is held.
    pub(super) exists: bool,
    /// Whether it is held without a TTL.
    pub(super) forever: bool,
    /// Number of waiters in its queue.
    queued: i64,
    /// Number of waiters with a timeout.
    waiting: i64,
    /// Number of those whose timeout has passed.
    overdue: i64,
    /// Whether it has a counter of fencing tokens.
    fenced: bool,
}

/// A key, or part of one, that is or may be left over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leftover {
    /// The kind, which determines the explanation.
    pub(super) kind: Kind,
    /// The description of this case.
    pub(super) what: String,
    /// A read-only `redis-cli` command that shows more.
    pub(super) look: Option<String>,
}

/// The kinds of leftovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A lock without a TTL.
    NoTtl,
    /// A queue whose first waiter is dead.
    StaleQueue,
    /// A queue without timeouts, or timeouts without a queue.
    Unpaired,
    /// What is kept under a name that a NameMapper did not change.
    Unmapped,
    /// A reader that no longer exists.
    Ghost,
    /// A fencing counter of a lock that is free.
    Token,
    /// A helper key that should have expired.
    Helper,
}

impl Kind {
    /// The explanation and the remedy, in sentences.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Kind::NoTtl => {
                "Locks without TTL: if the holder dies, they stay for ever. Find out who holds it \
                 and whether that process lives; only when it surely does not may the lock be \
                 removed, by the library's own means (force-unlock) or by hand."
            }
            Kind::StaleQueue => {
                "Fair locks with waiters that have timed out: a dead waiter at the head keeps a \
                 free lock from everybody, until the next attempt of a living client removes it. \
                 Look at head and time; if clients try and it stays, check that the waiter's \
                 process is gone before touching the queue."
            }
            Kind::Unpaired => {
                "Queue and timeouts of a fair lock that do not belong together: a client died \
                 between two commands, or somebody removed one by hand. A client that takes the \
                 lock mends it; look whether any still does."
            }
            Kind::Unmapped => {
                "Keys beside locks whose names a NameMapper changes: Redisson before 3.52 keeps \
                these under the unchanged name. The agent does not see the waiters of such a lock \
                until Redisson is upgraded."
            }
            Kind::Ghost => {
                "Readers that died and still keep writers out, because other readers go on \
                 renewing the lock they share. They go with the last living reader; nothing needs \
                 to be removed."
            }
            Kind::Token => {
                "Fencing counters of locks that are free: normal between two holds, because \
                 Redisson never deletes them. If the lock is not used any more they are left over, \
                 but a counter that begins anew breaks fencing: remove one only when nothing \
                 compares tokens of that lock any more."
            }
            Kind::Helper => {
                "Helper keys that have no TTL although Redisson gives them one: restored from a \
                 dump, or made persistent by hand. Check that no client uses the lock before \
                 removing them."
            }
        }
    }
}

/// Reads the keys beside these locks.
pub(super) async fn look(
    connection: &Connection,
    locks: &[(&[u8], &str)],
    pace: &mut Pace,
) -> Result<Vec<Beside>, Failure> {
    let mut beside = Vec::with_capacity(locks.len());
    for batch in locks.chunks(LOCKS_PER_BATCH) {
        pace.wait().await;
        let began = Instant::now();
        let now = time(connection).await?;
        let asked = batch.iter().map(|(key, library)| questions(key, library, now)).collect();
        beside.extend(ask_all(connection, asked).await?.iter().map(|replies| read(replies)));
        pace.spent(began, batch.len());
    }
    Ok(beside)
}

fn questions(key: &[u8], library: &str, now: ServerTime) -> Vec<Command> {
    let mut asked = vec![command!("PTTL", key)];
    let beside = |role| beside(library, key, role);
    if let [Some(queue), Some(timeouts), Some(token)] =
        [beside(Role::Queue), beside(Role::Timeouts), beside(Role::Token)]
    {
        asked.extend([
            command!("LLEN", queue),
            command!("ZCARD", timeouts),
            command!("ZCOUNT", timeouts, "-inf", now.0.to_string()),
            command!("EXISTS", token),
        ]);
    }
    asked
}

fn beside(library: &str, key: &[u8], role: Role) -> Option<Vec<u8>> {
    named(library)?.companion(key, role)
}

/// The kind of a lock with keys of these roles beside it.
pub(super) fn kind(library: &str, what: &'static str, beside: &[Role]) -> &'static str {
    named(library).map_or(what, |library| library.kind(what, beside))
}

fn read(replies: &[Reply]) -> Beside {
    let number = |at: usize| replies.get(at).and_then(Reply::as_int);
    let ttl = number(0);
    Beside {
        exists: ttl.is_some_and(|ttl| ttl != -2),
        forever: ttl.is_some_and(|ttl| ttl != -2 && ttl_ms(ttl).is_none()),
        queued: number(1).unwrap_or_default(),
        waiting: number(2).unwrap_or_default(),
        overdue: number(3).unwrap_or_default(),
        fenced: number(4) == Some(1),
    }
}

impl Beside {
    /// The kind of the lock, as far as the keys beside it show.
    pub(super) fn kind(&self, laid: Laid) -> &'static str {
        let there = [
            (self.queued > 0 || self.waiting > 0).then_some(Role::Queue),
            self.fenced.then_some(Role::Token),
        ];
        kind(laid.library, laid.what, &there.into_iter().flatten().collect::<Vec<_>>())
    }

    /// The leftovers of this lock.
    pub(super) fn leftovers(&self, key: &[u8], library: &str) -> Vec<Leftover> {
        let shown = escape(key);
        let name = |role| quoted(&beside(library, key, role).unwrap_or_default());
        let mut left = Vec::new();
        let mut add =
            |kind, what: String, look: String| left.push(Leftover { kind, what, look: Some(look) });
        if self.forever {
            add(Kind::NoTtl, format!("{shown}: held, no TTL"), format!("PTTL {}", quoted(key)));
        }
        let head = || format!("ZRANGE {} 0 0 WITHSCORES", name(Role::Timeouts));
        if self.overdue > 0 {
            let state = if self.exists { "held" } else { "free" };
            let what =
                format!("{shown}: {state}, {} of {} waiters overdue", self.overdue, self.waiting);
            add(Kind::StaleQueue, what, head());
        } else if self.queued > 0 && !self.exists {
            let what = format!("{shown}: free though {} wait; the head may be dead", self.queued);
            add(Kind::StaleQueue, what, head());
        }
        if self.queued != self.waiting {
            let what =
                format!("{shown}: {} in the queue, {} with a timeout", self.queued, self.waiting);
            add(Kind::Unpaired, what, format!("LLEN {}", name(Role::Queue)));
        }
        left
    }
}

/// A lock's library, its possible names, of which one is right, the most likely first, and what is
/// beside it.
type Candidate = (&'static dyn Library, Vec<Vec<u8>>, BTreeSet<Role>);

/// Locks that the scan did not find although keys beside them exist, and leftovers that form a
/// pattern.
#[derive(Default)]
pub(super) struct Orphans {
    pub(super) candidates: Vec<Candidate>,
    pub(super) leftovers: Vec<Leftover>,
}

impl Orphans {
    /// The orphans of which no candidate is in `known`.
    pub(super) fn of(findings: &Findings, known: &BTreeSet<&[u8]>) -> Orphans {
        let mut orphans = Orphans::default();
        let mut by_name: BTreeMap<(&str, Vec<u8>), BTreeSet<Role>> = BTreeMap::new();
        for ((library, role), sorted) in findings.companions.sorted() {
            let kind = match role {
                Role::Queue | Role::Timeouts => Kind::Unpaired,
                Role::Token => Kind::Token,
                Role::Latch | Role::Reader => Kind::Helper,
            };
            match sorted {
                Sorted::Pattern { pattern, count } => {
                    let what =
                        format!("{count} {} of locks like {}", plural(role), escape(&pattern));
                    orphans.leftovers.push(Leftover { kind, what, look: None });
                }
                Sorted::Single(inner) if kind == Kind::Helper => {
                    let what = format!("{} of {}", plural(role), escape(&inner));
                    orphans.leftovers.push(Leftover { kind, what, look: None });
                }
                Sorted::Single(inner) => {
                    by_name.entry((library, inner)).or_default().insert(role);
                }
            }
        }
        let candidates: Vec<Candidate> = by_name
            .into_iter()
            .filter_map(|((library, inner), roles)| {
                let library = named(library)?;
                Some((library, library.locks_of(&inner), roles))
            })
            .collect();
        let unknown = |(_, names, _): &(_, Vec<Vec<u8>>, _)| {
            !names.iter().any(|name| known.contains(name.as_slice()))
        };
        for candidate in candidates.into_iter().filter(unknown) {
            let mapped = candidate.1.iter().find_map(|name| {
                Some((name, known.iter().find(|known| is_mapped_from(known, name))?))
            });
            if let Some((name, lock)) = mapped {
                let roles: Vec<_> = candidate.2.iter().map(|role| plural(*role)).collect();
                let what = format!(
                    "{} of {}, perhaps of {}",
                    roles.join(", "),
                    escape(name),
                    escape(lock)
                );
                orphans.leftovers.push(Leftover { kind: Kind::Unmapped, what, look: None });
            } else if orphans.candidates.len() < ORPHANS_MAX {
                orphans.candidates.push(candidate);
            }
        }
        orphans
    }
}

/// Whether `lock` is `name` with something before or after it.
fn is_mapped_from(lock: &[u8], name: &[u8]) -> bool {
    let separates = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii_alphanumeric());
    lock.strip_suffix(name).is_some_and(|before| separates(before.last()))
        || lock.strip_prefix(name).is_some_and(|after| separates(after.first()))
}

fn plural(role: Role) -> &'static str {
    match role {
        Role::Queue => "queues",
        Role::Timeouts => "timeouts of waiters",
        Role::Token => "fencing counters",
        Role::Latch => "unlock latches",
        Role::Reader => "readers' leases",
    }
}

/// The fencing counter of a free lock.
pub(super) fn free_fenced(key: &[u8], library: &str) -> Leftover {
    let token = beside(library, key, Role::Token).unwrap_or_default();
    let what = format!("{}: free, its counter is there", escape(key));
    Leftover { kind: Kind::Token, what, look: Some(format!("GET {}", quoted(&token))) }
}

/// Readers that died and still block writers.
pub(super) fn ghosts(key: &[u8], count: u32) -> Leftover {
    let what = format!("{}: readers that died: {count}, beside a living one", escape(key));
    Leftover { kind: Kind::Ghost, what, look: Some(format!("HLEN {}", quoted(key))) }
}

/// The leftovers by kind with their total number, each list limited to [`LISTED_MAX`].
pub(super) fn by_kind(mut leftovers: Vec<Leftover>) -> Vec<(Kind, usize, Vec<Leftover>)> {
    leftovers.sort();
    leftovers.dedup();
    let kinds = leftovers.chunk_by(|a, b| a.kind == b.kind);
    let listed = kinds.filter_map(|of_kind| {
        let first = of_kind.first()?;
        Some((first.kind, of_kind.len(), of_kind.iter().take(LISTED_MAX).cloned().collect()))
    });
    listed.collect()
}
