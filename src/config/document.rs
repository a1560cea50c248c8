//! Parses a whole document: reads all blocks, then compares the tasks with each other.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use lockwatch_watch::redis::store::{HostPort, Servers};
use serde_yaml::Value;

use super::block::{At, Block};
use super::labels;
use super::links;
use super::mistake::{Mistakes, Reported, field_text, quoted};
use super::pattern::Pattern;
use super::place::Place;
use super::redises::{self, Redises};
use super::resolved::{Config, RedisConfig, ZooKeeperConfig};
use super::schema::TOP;
use super::stores::Configured;
use super::tasks::{self, ReadTask, Shared, full_metrics};
use super::values::{count, flag, kind, name_mistake};
use super::zookeepers::{self, ZooKeepers};

/// Maximum number of tasks unless `max_tasks` is set. Each task has dozens of series, so more are
/// probably a mistake.
const TASKS_MAX: usize = 10_000;

/// Maximum value of `max_tasks`.
const TASKS_MAX_MAX: usize = 200_000;

/// The document without the fields at its top that begin with `x-`: a place for anchors, as in
/// Docker's compose files. `None`: there are none.
fn without_extensions(document: &Value) -> Option<Value> {
    let is_extension = |name: &Value| name.as_str().is_some_and(|name| name.starts_with("x-"));
    let map = document.as_mapping().filter(|map| map.keys().any(is_extension))?;
    let kept = map.iter().filter(|(name, _)| !is_extension(name));
    Some(Value::Mapping(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
}

/// Reads the document. The configuration is complete exactly if no mistake was reported.
pub(super) fn read(document: &Value, dir: &Path, mistakes: &Mistakes) -> Result<Config, Reported> {
    let without = without_extensions(document);
    let document = without.as_ref().unwrap_or(document);
    let top =
        Block::open(At { value: document, place: Place::default(), mistakes, store: None }, &TOP)?;
    let redises = match top.at("redis") {
        Some(at) => redises::read(&at, dir),
        None if top.value("zookeeper").is_some() => Ok(Redises::new()),
        None => {
            let message = "has no `redis` and no `zookeeper`; write `redis: {main: {url: \
                           redis://host:port/db}}`";
            Err(top.report_whole(message))
        }
    };
    let zookeepers =
        top.at("zookeeper").map_or(Ok(ZooKeepers::new()), |at| zookeepers::read(&at, dir));
    let label_names = top.at("labels").map_or(Ok(Vec::new()), |at| labels::read(&at));
    let links = links::read(&top);
    let drill = top.or("drill", false, flag);
    let shared = Shared {
        stores: Configured { redises: redises.as_ref().ok(), zookeepers: zookeepers.as_ref().ok() },
        label_names: label_names.as_deref().ok(),
        full_metrics: full_metrics(&top).ok().flatten().unwrap_or(false),
        dir,
    };
    let tasks = read_tasks(&top, &shared)?;
    check_names(&tasks, mistakes);
    check_patterns(&tasks, mistakes);
    if let (Ok(redises), Ok(zookeepers)) = (&redises, &zookeepers) {
        check_store_names(&top, redises, zookeepers);
        check_locks(&tasks, &places(redises, zookeepers), &task_names(document), mistakes);
    }
    let redises = redises?.into_values().collect::<Result<Vec<_>, _>>()?;
    let zookeepers = zookeepers?.into_values().collect::<Result<Vec<_>, _>>()?;
    let guards = tasks
        .iter()
        .filter_map(|task| Some((task.name.as_deref()?.into(), task.guard.clone()?)))
        .collect();
    let (patterns, tasks): (Vec<_>, Vec<_>) =
        tasks.into_iter().partition(|task| task.max_keys.is_some());
    let pattern = |task: ReadTask| Some(Arc::new(Pattern::new(task.spec?, task.max_keys?)));
    let patterns = patterns.into_iter().map(pattern).collect::<Option<_>>().ok_or(Reported)?;
    let mut tasks = tasks
        .into_iter()
        .map(|task| task.spec.map(Arc::new))
        .collect::<Option<Vec<_>>>()
        .ok_or(Reported)?;
    // The vector was collected in place of its source, whose items are fifty times larger.
    tasks.shrink_to_fit();
    Ok(Config {
        redises,
        zookeepers,
        label_names: label_names?,
        links: links?,
        drill: drill?,
        tasks,
        patterns,
        guards,
    })
}

/// The names of the tasks in messages; `None` where the name is invalid or a duplicate.
pub(super) fn task_names(document: &Value) -> Vec<Option<String>> {
    let Some(Value::Sequence(tasks)) = document.get("tasks") else { return Vec::new() };
    let names: Vec<Option<&str>> = tasks
        .iter()
        .map(|task| task.as_mapping().and_then(|map| map.get("name")).and_then(Value::as_str))
        .collect();
    let mut seen = HashSet::new();
    let mut own_name = |name: &str| seen.insert(name.to_owned()) && name_mistake(name).is_none();
    names.into_iter().map(|name| name.filter(|name| own_name(name)).map(str::to_owned)).collect()
}

fn read_tasks(top: &Block<'_>, shared: &Shared<'_>) -> Result<Vec<ReadTask>, Reported> {
    const REMEDY: &str = "list the tasks: `- {name: …, lock: {key: …}}`";
    let max = top.or("max_tasks", TASKS_MAX, |value| count(value, TASKS_MAX_MAX));
    let Some(at) = top.at("tasks") else {
        return Err(top.report_whole(format!("has no `tasks`; {REMEDY}")));
    };
    let list = match at.value {
        Value::Sequence(list) if !list.is_empty() => list,
        Value::Sequence(_) => return Err(at.report(format!("is an empty list; {REMEDY}"))),
        other => return Err(at.report(format!("is {}; {REMEDY}", kind(other)))),
    };
    let max = max?;
    if list.len() > max {
        let message = format!(
            "has {} tasks, more than `max_tasks` ({max}); raise it if that is meant",
            list.len()
        );
        return Err(at.report(message));
    }
    let task = |(index, value)| At { value, place: at.place.item(index), ..at };
    let tasks: Vec<ReadTask> =
        (0..).zip(list).map(|item| tasks::read(task(item), shared)).collect();
    let most = tasks.iter().fold(0_usize, |sum, task| sum + task.max_keys.unwrap_or(1));
    if most > max {
        let message = format!(
            "may come to {most} tasks with the `max_keys` of its patterns, more than `max_tasks` \
             ({max}); lower one or raise the other"
        );
        return Err(at.report(message));
    }
    Ok(tasks)
}

fn check_names(tasks: &[ReadTask], mistakes: &Mistakes) {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (index, task) in tasks.iter().enumerate() {
        let Some(name) = &task.name else { continue };
        let first = *seen.entry(name).or_insert(index);
        if first != index {
            let place = task_place(index).field("name");
            mistakes.report(
                place,
                format!("{} is the name of tasks[{first}] already; choose another", quoted(name)),
            );
        }
    }
}

/// Refuses tasks with names that those of a pattern may have, and a glob that stands twice.
fn check_patterns(tasks: &[ReadTask], mistakes: &Mistakes) {
    let patterns = || tasks.iter().enumerate().filter(|(_, task)| task.max_keys.is_some());
    let places: HashMap<String, usize> = patterns()
        .filter_map(|(index, task)| Some((format!("{}/", task.name.as_ref()?), index)))
        .collect();
    for (index, name) in (0..).zip(tasks).filter_map(|(at, task)| Some((at, task.name.as_ref()?))) {
        let begins = name.match_indices('/').filter_map(|(end, _)| name.get(..=end));
        if let Some((begin, of)) = begins.filter_map(|it| places.get_key_value(it)).next() {
            let message = format!(
                "begins with {}, as the names of the tasks of the pattern {} do; choose another",
                quoted(begin),
                field_text(&task_place(*of), &[])
            );
            mistakes.report(task_place(index).field("name"), message);
        }
    }
    let mut globs = HashMap::new();
    for (index, task) in patterns() {
        let (&[redis], Some(of)) = (&*task.stores, &task.key) else { continue };
        let first = *globs.entry((redis, &of.key, &of.field)).or_insert(index);
        if first != index {
            let other = field_text(&task_place(first), &[]);
            let place = task_place(index).field("lock").field("match");
            mistakes.report(place, format!("is the glob of {other} already; remove one of them"));
        }
    }
}

/// Refuses an ensemble that is called as a Redis: both are values of the label `store`.
fn check_store_names(top: &Block<'_>, redises: &Redises, zookeepers: &ZooKeepers) {
    for name in zookeepers.keys().filter(|name| redises.contains_key(*name)) {
        let message = format!("{} is the name of a redis already; choose another", quoted(name));
        top.report_at(top.place("zookeeper").name_of_field(name), message);
    }
}

/// Refuses a lock that two tasks name: they could report contradictory states of it.
fn check_locks(
    tasks: &[ReadTask],
    places: &[Vec<LockPlace<'_>>],
    names: &[Option<String>],
    mistakes: &Mistakes,
) {
    let mut seen: HashMap<_, usize> = HashMap::new();
    for (index, task) in tasks.iter().enumerate() {
        let Some(of) = task.key.as_ref().filter(|_| task.max_keys.is_none()) else { continue };
        let places = task.stores.iter().filter_map(|store| places.get(usize::from(store.0)));
        let firsts =
            places.flatten().map(|place| *seen.entry((place, &of.key, &of.field)).or_insert(index));
        if let Some(first) = firsts.min().filter(|first| *first != index) {
            let other = field_text(&task_place(first), names);
            let what = if of.is_lock { "the lock of" } else { "what guards" };
            mistakes.report(
                of.place.clone(),
                format!("is {what} {other} already; guard each {} by one task only", of.what),
            );
        }
    }
}

/// The keyspace of a lock: server, master name (with Sentinel), and database. Two stores that
/// have one of these in common share their locks.
type LockPlace<'a> = (HostPort, Option<&'a str>, u32);

/// The keyspaces of all stores.
fn places<'a>(redises: &'a Redises, zookeepers: &ZooKeepers) -> Vec<Vec<LockPlace<'a>>> {
    let of_ensemble = |ensemble: &ZooKeeperConfig| {
        ensemble.servers.iter().map(|at| (at.canonical(), None, 0)).collect()
    };
    let redises = redises.values().map(|redis| redis.as_ref().map(lock_places));
    let zookeepers = zookeepers.values().map(|ensemble| ensemble.as_ref().map(of_ensemble));
    redises.chain(zookeepers).map(Result::unwrap_or_default).collect()
}

fn lock_places(redis: &RedisConfig) -> Vec<LockPlace<'_>> {
    let master = match &redis.servers {
        Servers::Sentinel(sentinel) => Some(sentinel.master.as_str()),
        Servers::One(_) | Servers::Nodes(_) | Servers::Cluster(_) => None,
    };
    redis.servers.configured().iter().map(|at| (at.canonical(), master, redis.db)).collect()
}

fn task_place(index: usize) -> Place {
    Place::default().field("tasks").item(index)
}
