//! `check-config --connect`: asks each configured server once, as the agent does, and says of each
//! whether it answers, or why not and what to do.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::input::{Announcer, Role};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{NodeView, Snapshot, StoreView, TaskView};
use lockwatch_judge::spec::{StoreIndex, WantedSource, WantedSpec};
use lockwatch_watch::command;
use lockwatch_watch::redis::accept::{databases, info_field};

use super::line::{Line, TASKS_MAX};
use super::nodes;
use crate::commands::momentary;
use crate::config::{Config, HostPort, RedisConfig, Servers};
use crate::io;
use crate::outputs::absent;
use crate::outputs::remark::remarks;
use crate::published::{Published, Unanswered};
use crate::text::identity::escape;
use crate::trace::Traces;

/// Time for connecting and for a confirmation, in addition to the longest timeout.
const SLACK: Duration = Duration::from_secs(3);
/// Maximum number of databases that are listed.
const DATABASES_MAX: usize = 16;

/// What the servers answered, and whether all of them can be used.
pub(super) async fn report(config: &Config) -> (String, bool) {
    // Of an ensemble more is asked than its watcher does.
    let is_redis = |store: StoreIndex| config.zookeeper(store).is_none();
    let watching = momentary::begin(config, &Traces::default(), is_redis);
    let longest = config.redises.iter().map(|redis| redis.timeout).max().unwrap_or_default();
    let settled = |published: &Published| is_settled(&published.snapshot, is_redis);
    let published = match watching.snapshots.everything_that(longest + SLACK, settled).await {
        Ok(published) => published,
        Err(Unanswered) => watching.snapshots.newest(),
    };
    let snapshot = &published.snapshot;
    let mut said = Vec::new();
    for (redis, store) in config.redises.iter().zip(&snapshot.stores) {
        let hints = hints(redis, store, snapshot).await.unwrap_or_default();
        said.push((lines(store, &published), hints));
    }
    for (index, ensemble) in (config.first_zookeeper()..).zip(&config.zookeepers) {
        said.push((nodes::lines(config, StoreIndex(index), ensemble).await, Vec::new()));
    }
    words(snapshot, said)
}

/// The tasks of a store whose key does not exist.
fn absent_of<'a>(
    store: &'a StoreView,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = &'a Arc<TaskView>> {
    own(store, snapshot).filter(|task| absent::is_absent(task))
}

/// The tasks of a store. One with several is a task of the store that has its other keys.
fn own<'a>(
    store: &'a StoreView,
    snapshot: &'a Snapshot,
) -> impl Iterator<Item = &'a Arc<TaskView>> {
    let of = |task: &TaskView| snapshot.stores.get(usize::from(task.spec.store.0));
    snapshot.tasks.iter().filter(move |task| of(task).is_some_and(|of| **of == *store))
}

/// The server that decides, unless there are several.
fn decides(redis: &RedisConfig, store: &StoreView) -> Option<HostPort> {
    match &redis.servers {
        Servers::One(at) => Some(at.clone()),
        Servers::Cluster(_) => None,
        Servers::Nodes(_) | Servers::Sentinel(_) => {
            let node = store.nodes.iter().find(|node| node.decides)?;
            let (host, port) = node.address.rsplit_once(':')?;
            let host = host.trim_matches(['[', ']']).to_owned();
            Some(HostPort { host, port: port.parse().ok()? })
        }
    }
}

/// What a single server says of itself that matters for its tasks.
async fn hints(redis: &RedisConfig, store: &StoreView, snapshot: &Snapshot) -> Option<Vec<String>> {
    let has_switches =
        own(store, snapshot).any(|task| task.spec.wanted.as_ref().is_some_and(has_key));
    let lacks = absent_of(store, snapshot).next().is_some();
    if !has_switches && !lacks {
        return None;
    }
    let connection = io::connect(&redis.endpoint(decides(redis, store)?)).await.ok()?;
    let asks = [command!("INFO", "keyspace"), command!("INFO", "memory")];
    let replies = connection.exec(&asks).await.ok()?;
    let [keyspace, memory] = replies.as_slice() else { return None };
    let elsewhere = keyspace.as_bytes().filter(|_| lacks);
    let memory = memory.as_bytes().filter(|_| has_switches);
    let hints = [
        elsewhere.and_then(|text| other_databases(redis.db, text)),
        memory.and_then(evicts_switches),
    ];
    Some(hints.into_iter().flatten().collect())
}

fn has_key(wanted: &WantedSpec) -> bool {
    !matches!(wanted.source, WantedSource::Always | WantedSource::Never)
}

/// The databases that have keys, beside the configured one: `db1 (12 keys)`.
fn other_databases(db: u32, keyspace: &[u8]) -> Option<String> {
    let others = databases(keyspace).into_iter().filter(|(number, _)| *number != db);
    let others = others.map(|(number, keys)| format!("db{number} ({keys} keys)"));
    let others = others.take(DATABASES_MAX).collect::<Vec<_>>().join(", ");
    (!others.is_empty()).then(|| {
        format!(
            "perhaps in another database: the URL names database {db}, and there are keys in \
             {others}"
        )
    })
}

/// A server that may evict any key may evict switches, and nothing tells that from their removal.
fn evicts_switches(memory: &[u8]) -> Option<String> {
    let policy = info_field(memory, "maxmemory_policy")?;
    let is_limited = info_field(memory, "maxmemory").is_some_and(|limit| limit != b"0");
    (is_limited && policy.starts_with(b"allkeys-")).then(|| {
        format!(
            "it may evict switches (maxmemory-policy {}), and a switch whose key is removed while \
             it evicts counts as lost: keep switches in a hash or in keys and write \"off\", or on \
             a server that does not evict them",
            escape(policy)
        )
    })
}

/// Whether each server of those stores was tried, and each of their tasks read.
fn is_settled(snapshot: &Snapshot, is_meant: impl Fn(StoreIndex) -> bool) -> bool {
    let is_early = |why: Unknown| why == Unknown::NotReadYet;
    let store = |store: &Arc<StoreView>| {
        let is_told = store.readable.is_some() || !store.spec.authority.announced;
        let tried = store.nodes.iter().all(|node| node.up.is_some());
        let asked = store.announcers.iter().all(|word| word.master.is_some());
        is_told && tried && asked && !store.unknown.is_some_and(is_early)
    };
    let task = |task: &Arc<TaskView>| match task.unknown {
        Some(why) => !is_early(why),
        None => task.last_reading.is_some(),
    };
    let stores = (0..).map(StoreIndex).zip(&snapshot.stores);
    let is_of_meant =
        |task: &&Arc<TaskView>| task.spec.stores().iter().all(|store| is_meant(*store));
    stores.filter(|(index, _)| is_meant(*index)).all(|(_, it)| store(it))
        && snapshot.tasks.iter().filter(is_of_meant).all(task)
}

/// What is said of each store: a line for each of its servers and tasks, and hints.
fn words(snapshot: &Snapshot, said: Vec<(Vec<Line>, Vec<String>)>) -> (String, bool) {
    let mut text = String::from("\nConnections:\n");
    let mut is_good = true;
    for (store, (lines, hints)) in snapshot.stores.iter().zip(said) {
        // Writing to a `String` cannot fail.
        let _ =
            writeln!(text, "\nstore {} ({})", escape(store.spec.name.as_bytes()), store.spec.kind);
        is_good &= lines.iter().all(|line| line.is_good);
        for line in lines {
            let _ = writeln!(text, "  {}: {}", line.of, line.says);
        }
        for hint in hints {
            let _ = writeln!(text, "  {hint}");
        }
    }
    (text, is_good)
}

fn lines(store: &StoreView, published: &Published) -> Vec<Line> {
    let sentinels = store.announcers.iter().map(|word| of_sentinel(store, word));
    let mut lines: Vec<Line> = sentinels.collect();
    lines.extend(store.nodes.iter().map(|node| of_node(store, node)));
    let is_told = |why: Unknown| {
        let nodes = store.nodes.iter().any(|node| node.unknown == Some(why));
        nodes || store.announcers.iter().any(|word| word.master == Some(Err(why)))
    };
    if let Some(why) = store.unknown.filter(|why| !is_told(*why)) {
        lines.push(Line::bad("the store".to_owned(), why, store.words_of_any(why).as_deref()));
    }
    let own = || own(store, &published.snapshot);
    lines.extend(own().filter_map(|task| of_task(store, task)).take(TASKS_MAX));
    lines.extend(own().flat_map(|task| doubts(published, task)).take(TASKS_MAX));
    let absent = absent_of(store, &published.snapshot).take(TASKS_MAX);
    lines.extend(absent.map(|task| of_absent(task)));
    lines
}

fn of_node(store: &StoreView, node: &NodeView) -> Line {
    let of = escape(node.address.as_bytes()).into_owned();
    match (node.up, node.unknown) {
        (_, Some(why)) => Line::bad(of, why, store.words(why, &node.address)),
        (Some(true), None) => {
            let role = node.role.map_or("of unknown role", Role::name);
            let version = node.version.as_ref().map(|it| match is_named(it) {
                true => format!(", {}", escape(it.as_bytes())),
                false => format!(", version {}", escape(it.as_bytes())),
            });
            Line::good(of, format!("ok: {role}{}", version.unwrap_or_default()))
        }
        (_, None) => Line::bad(of, Unknown::Timeout, store.words(Unknown::Timeout, &node.address)),
    }
}

/// Whether a version begins with the name of the server: it is no Redis.
fn is_named(version: &str) -> bool {
    version.starts_with(|first: char| first.is_ascii_alphabetic())
}

fn of_sentinel(store: &StoreView, word: &Announcer) -> Line {
    let of = format!("sentinel {}", escape(word.address.as_bytes()));
    match &word.master {
        Some(Ok(master)) => Line::good(of, format!("ok: names {}", escape(master.as_bytes()))),
        Some(Err(why)) => Line::bad(of, *why, store.words(*why, &word.address)),
        None => Line::bad(of, Unknown::Timeout, store.words(Unknown::Timeout, &word.address)),
    }
}

/// What is worth a word about a task that can be read.
fn doubts(published: &Published, task: &TaskView) -> impl Iterator<Item = Line> {
    let of = format!("task {}", escape(task.spec.name.as_bytes()));
    let said = remarks(published, task).into_iter();
    said.map(move |said| Line::good(of.clone(), said.into_owned()))
}

/// What is wrong with a task although its store can be read.
fn of_task(store: &StoreView, task: &TaskView) -> Option<Line> {
    let why = task.unknown.or(task.switches_unknown)?;
    let of = || format!("task {}", escape(task.spec.name.as_bytes()));
    (store.readable != Some(false)).then(|| Line::bad(of(), why, task.words(why)))
}

/// A key that does not exist may be one that is not taken now.
fn of_absent(task: &TaskView) -> Line {
    let key = task.spec.kind.key();
    let of = format!("task {}", escape(task.spec.name.as_bytes()));
    if let Some(part) = absent::part(task) {
        return Line::good(
            of,
            format!("does not see {part} now, which it does while the task runs"),
        );
    }
    let found = match absent::glob(key) {
        Some(glob) => format!("`lockwatch discover --redis URL --match '{glob}'`"),
        None => "`lockwatch discover`".to_owned(),
    };
    let says = format!(
        "its key {} does not exist now; if the task runs, {found} finds what it is called",
        escape(key)
    );
    Line::good(of, says)
}
