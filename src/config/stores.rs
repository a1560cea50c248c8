//! Which stores have the keys of a task.

use lockwatch_judge::spec::{Agreement, StoreIndex, Stores};
use lockwatch_watch::redis::store::Servers;
use serde_yaml::Value;

use super::block::{Block, choice};
use super::mistake::{Reported, quoted};
use super::redises::Redises;
use super::resolved::{RedisConfig, ZooKeeperConfig};
use super::schema::StoreKind;
use super::values::text;
use super::zookeepers::ZooKeepers;

/// Maximum number of stores of one lock.
const STORES_MAX: usize = 9;

/// The stores of a document.
#[derive(Clone, Copy)]
pub(super) struct Configured<'a> {
    /// `None` if the Redis stores could not be read at all.
    pub(super) redises: Option<&'a Redises>,
    /// `None` if the ensembles could not be read at all.
    pub(super) zookeepers: Option<&'a ZooKeepers>,
}

/// The stores of a task.
pub(super) struct Found<'a> {
    /// Its own, which has its keys other than the lock.
    pub(super) own: StoreIndex,
    /// Those of its lock.
    pub(super) all: Vec<StoreIndex>,
    /// The configurations of all of them that have no mistakes of their own.
    pub(super) redises: Vec<&'a RedisConfig>,
    /// The configuration of its ensemble, if that has no mistakes of its own.
    pub(super) zookeeper: Option<&'a ZooKeeperConfig>,
}

/// The kind of the store that a task names, or of the only one.
pub(super) fn kind(task: &Value, among: Configured<'_>) -> StoreKind {
    let has_none = || among.redises.is_some_and(Redises::is_empty);
    let is_named = task.get("zookeeper").is_some();
    match is_named || task.get("redis").is_none() && has_none() {
        true => StoreKind::ZooKeeper,
        false => StoreKind::Redis,
    }
}

/// The kind of the store that a block of the task names, if it names one.
pub(super) fn named_kind(block: &Value) -> Option<StoreKind> {
    let kinds = [StoreKind::Redis, StoreKind::ZooKeeper];
    kinds.into_iter().find(|kind| block.get(kind.field()).is_some())
}

/// The store that a block names; `None`: it is the task's own.
pub(super) fn elsewhere<'a>(
    block: &Block<'_>,
    among: Configured<'a>,
    own: StoreIndex,
) -> Result<Option<Found<'a>>, Reported> {
    let found = read(block, among, None)?;
    Ok((found.own != own).then_some(found))
}

/// The stores of a task whose lock stands on `several`, if so: of others the one that the task
/// names, or the only one.
pub(super) fn read<'a>(
    task: &Block<'_>,
    among: Configured<'a>,
    several: Option<&Stores>,
) -> Result<Found<'a>, Reported> {
    let redises = among.redises;
    if task.is_in_zookeeper() {
        return in_zookeeper(task, among);
    }
    let named = task.optional("redis", text)?;
    let redises = redises.ok_or(Reported)?;
    let own = match (&named, several) {
        (Some(named), _) => {
            position(named, redises).map_err(|message| task.report("redis", message))?
        }
        (None, Some(stores)) => stores.all.first().copied().ok_or(Reported)?,
        (None, None) if redises.len() == 1 => StoreIndex(0),
        // The list has mistakes, which are reported.
        (None, None) if task.value("lock").is_some_and(|it| it.get("stores").is_some()) => {
            return Err(Reported);
        }
        (None, None) => {
            let message =
                format!("does not say which redis; add `redis:` with one of {}", names(redises));
            return Err(task.report_whole(message));
        }
    };
    let all = several.map_or_else(|| vec![own], |stores| stores.all.clone());
    if !all.contains(&own) {
        let message = "is none of the `stores` of its lock; name the one of them that has the \
                       other keys of the task, or leave it out for the first";
        return Err(task.report("redis", message));
    }
    let config = |store: &StoreIndex| redises.values().nth(usize::from(store.0))?.as_ref().ok();
    let redises = all.iter().filter_map(config).collect();
    Ok(Found { own, all, redises, zookeeper: None })
}

/// The ensemble of a task that is in one: the one that it names, or the only one.
fn in_zookeeper<'a>(task: &Block<'_>, among: Configured<'a>) -> Result<Found<'a>, Reported> {
    let named = task.optional("zookeeper", text)?;
    if task.value("redis").is_some() {
        let message = "cannot be combined with `zookeeper`; keep the store that has the lock";
        return Err(task.report("redis", message));
    }
    let (redises, zookeepers) = (among.redises.ok_or(Reported)?, among.zookeepers.ok_or(Reported)?);
    let names = || zookeepers.keys().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let position = match &named {
        Some(named) => zookeepers.keys().position(|other| other == named).ok_or_else(|| {
            let message = match zookeepers.is_empty() {
                true => {
                    "names an ensemble, and there is none; add `zookeeper: {NAME: {servers: …}}` \
                         to the top of the file"
                        .to_owned()
                }
                false => format!("{} is no ensemble; use one of {}", quoted(named), names()),
            };
            task.report("zookeeper", message)
        })?,
        None if zookeepers.len() == 1 => 0,
        None => {
            let message =
                format!("does not say which ensemble; add `zookeeper:` with one of {}", names());
            return Err(task.report_whole(message));
        }
    };
    // There are far fewer stores.
    let own = StoreIndex(u16::try_from(redises.len() + position).unwrap_or(u16::MAX));
    let zookeeper = zookeepers.values().nth(position).and_then(|config| config.as_ref().ok());
    Ok(Found { own, all: vec![own], redises: Vec::new(), zookeeper })
}

/// The stores of a lock, if there are several.
pub(super) fn read_several(
    lock: &Block<'_>,
    redises: Option<&Redises>,
) -> Result<Option<Stores>, Reported> {
    let mode =
        lock.optional("mode", |value| choice(value, "mode", &Agreement::ALL, Agreement::name));
    let Some(at) = lock.at("stores") else {
        return match lock.value("mode") {
            Some(_) => Err(lock.report(
                "mode",
                "says how several stores agree, and there are none; add `stores: [r1, r2, r3]`, or \
                 remove it",
            )),
            None => mode.map(|_| None),
        };
    };
    let redises = redises.ok_or(Reported)?;
    let named = at.list(|value| {
        let name = text(value)?;
        Ok((position(&name, redises)?, name))
    })?;
    let mode = mode?.unwrap_or(Agreement::Quorum);
    let mistakes = named.iter().enumerate().filter_map(|(index, (store, name))| {
        let earlier = named.iter().take(index);
        let message = if earlier.clone().any(|(other, _)| other == store) {
            "is in the list already; name each store once".to_owned()
        } else {
            let (_, other) = earlier.clone().find(|(other, _)| share(redises, *other, *store))?;
            format!(
                "({}) is on the same server as {}, so that both fail at once; name independent \
                 servers",
                quoted(name),
                quoted(other)
            )
        };
        Some(lock.report_at(at.place.item(index), message))
    });
    // Each is reported.
    let mistakes: Vec<Reported> = mistakes.collect();
    let count = named.len();
    let message = match (mode, count) {
        (_, 0 | 1) => {
            "lists fewer than two stores; write `redis: …` at the task for a single one".to_owned()
        }
        (_, _) if count > STORES_MAX => {
            format!("lists {count} stores; at most {STORES_MAX} are possible")
        }
        (Agreement::Quorum, _) if count.is_multiple_of(2) => format!(
            "lists {count} stores, and a majority of an even number is no safer than with one fewer; \
             list an odd number, as the clients do, or write `mode: any` if they fail over from one \
             store to another"
        ),
        _ if mistakes.is_empty() => {
            let all = named.into_iter().map(|(store, _)| store).collect();
            return Ok(Some(Stores { all, mode }));
        }
        _ => return Err(Reported),
    };
    Err(lock.report("stores", message))
}

fn names(redises: &Redises) -> String {
    redises.keys().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")
}

fn position(name: &str, redises: &Redises) -> Result<StoreIndex, String> {
    if redises.is_empty() {
        let message = "names a redis, and there is none; name an ensemble with `zookeeper: …`";
        return Err(message.to_owned());
    }
    let position = redises.keys().position(|other| other == name).ok_or_else(|| {
        format!("{} is not one of the redises; use one of {}", quoted(name), names(redises))
    })?;
    u16::try_from(position).map(StoreIndex).map_err(|_| "is one redis too many".to_owned())
}

/// Whether two stores have a server in common.
fn share(redises: &Redises, one: StoreIndex, other: StoreIndex) -> bool {
    let servers = |store: StoreIndex| {
        let config = redises.values().nth(usize::from(store.0)).and_then(|it| it.as_ref().ok());
        let master = |config: &RedisConfig| match &config.servers {
            Servers::Sentinel(sentinel) => Some(sentinel.master.clone()),
            Servers::One(_) | Servers::Nodes(_) | Servers::Cluster(_) => None,
        };
        config.map(|it| {
            (
                it.servers.configured().iter().map(|at| at.canonical()).collect::<Vec<_>>(),
                master(it),
            )
        })
    };
    match (servers(one), servers(other)) {
        (Some((these, first)), Some((those, second))) => {
            first == second && these.iter().any(|at| those.contains(at))
        }
        _ => false,
    }
}
