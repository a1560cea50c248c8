//! One block of the list `tasks`.

use std::path::Path;
use std::sync::Arc;

use lockwatch_judge::limit::{Limit, OF_TASK};
use lockwatch_judge::spec::{
    ClaimsSpec, Codec, DRILL, Key, KindSpec, LockSpec, Moves, ProgressSource, ProgressSpec,
    StoreIndex, Stores, TaskSpec, WantedSource, WantedSpec,
};
use lockwatch_watch::redis::libraries;
use lockwatch_watch::redis::store::Servers;
use lockwatch_watch::redis::topology::cluster::slot;
use serde_yaml::Value;

use super::block::{At, Block, choice};
use super::guard::{self, GuardConfig};
use super::kind;
use super::mistake::{Reported, quoted};
use super::pattern;
use super::place::Place;
use super::resolved::{RedisConfig, ms};
use super::roles::{Roles, claim, key_in, read_key};
use super::schema::{BlockSpec, CLAIMS, HOSTS, PAUSED_UNTIL, PROGRESS, StoreKind, TASK, WANTED};
use super::stores::{self, Configured, Found};
use super::threshold::{self, Sampling};
use super::values::{bytes, kind as kind_of, label_value, name};

/// Maximum number of switch keys. There is one key per user; more users should be in a hash.
const SWITCH_KEYS_MAX: usize = 1000;

type Labels = Vec<(Arc<str>, Arc<str>)>;

/// What all tasks of a document share.
pub(super) struct Shared<'a> {
    pub(super) stores: Configured<'a>,
    /// `None` if the names of the labels could not be read.
    pub(super) label_names: Option<&'a [Arc<str>]>,
    /// What a task has that does not say which metrics it shows.
    pub(super) full_metrics: bool,
    /// The base of relative paths.
    pub(super) dir: &'a Path,
}

/// A task, and the parts that are compared between tasks, each as far as it could be read.
#[derive(Default)]
pub(super) struct ReadTask {
    pub(super) name: Option<String>,
    pub(super) stores: Vec<StoreIndex>,
    pub(super) key: Option<GuardKey>,
    pub(super) spec: Option<TaskSpec>,
    /// If it is a pattern: the most keys that it watches.
    pub(super) max_keys: Option<usize>,
    pub(super) guard: Option<GuardConfig>,
}

/// What guards a task.
pub(super) struct GuardKey {
    /// Where its key, or the path of its node, stands.
    pub(super) place: Place,
    pub(super) key: Key,
    /// The field of a lock that is one.
    pub(super) field: Option<Vec<u8>>,
    /// What it is, for people.
    pub(super) what: &'static str,
    pub(super) is_lock: bool,
}

pub(super) fn read(at: At<'_>, shared: &Shared<'_>) -> ReadTask {
    let at = At { store: Some(stores::kind(at.value, shared.stores)), ..at };
    Block::open(at, &TASK).map_or_else(|_| ReadTask::default(), |block| read_block(&block, shared))
}

fn task_name(value: &Value) -> Result<String, String> {
    match name(value)? {
        name if name == DRILL => Err(format!(
            "{} is reserved: drills publish a task of this name; choose another",
            quoted(&name)
        )),
        name => Ok(name),
    }
}

fn read_block(block: &Block<'_>, shared: &Shared<'_>) -> ReadTask {
    let mut roles = Roles::new();
    let name = block.required("name", "write `name: …`", task_name);
    let guarded = kind::read(block, shared.stores.redises, &mut roles);
    let of_lock = guarded.as_ref().ok().and_then(stores_of_lock);
    let found = stores::read(block, shared.stores, of_lock);
    let max_keys = pattern::read(block, name.as_deref().ok(), guarded.as_ref().ok());
    let own = found.as_ref().ok().map(|found| found.own);
    let (wanted, elsewhere) = match read_wanted(block, shared.stores, own, &mut roles) {
        Ok(Some((wanted, elsewhere))) => (Ok(Some(wanted)), elsewhere),
        Ok(None) => (Ok(None), None),
        Err(reported) => (Err(reported), None),
    };
    let progress = read_progress(block, &mut roles);
    let claims = read_claims(block, &mut roles);
    let hosts = read_single_key(block, "hosts", &HOSTS, ("hash", "children"), &mut roles);
    let of_pause = ("key", "path");
    let paused_until = read_single_key(block, "paused_until", &PAUSED_UNTIL, of_pause, &mut roles);
    let limits = OF_TASK.map(|limit| (limit, threshold::with_default(limit, block)));
    let limit_ms =
        |limit| limits.iter().find(|read| read.0 == limit).and_then(|read| read.1.ok()?);
    let labels = read_labels(block, shared);
    let guard = guard::read(
        block,
        guarded.as_ref().ok().and_then(lease_ms),
        progress.as_ref().ok().and_then(Option::as_deref),
        shared.dir,
    );
    let full_metrics = full_metrics(block).map(|full| full.unwrap_or(shared.full_metrics));
    let slowest = found.as_ref().ok().and_then(slowest);
    let sampling = found.as_ref().ok().and_then(sampling_of);
    let mistake = |place, mistake: Option<String>| {
        mistake.map(|mistake| block.report_at(place, mistake));
    };
    if let (Some(redis), Ok(kind)) = (slowest, &guarded) {
        mistake(block.place("queue").field("lock"), queue_mistake(redis, kind));
        mistake(block.place("lock").field("library"), channel_mistake(redis, kind));
    }
    let has_switches = elsewhere.as_ref().or(found.as_ref().ok());
    if let (Some([redis, ..]), Ok(Some(wanted))) =
        (has_switches.map(|found| &*found.redises), &wanted)
    {
        mistake(block.place("wanted").field("keys"), cluster_mistake(redis, wanted));
    }
    if let (Some(sampling), Some(ms)) =
        (elsewhere.as_ref().and_then(sampling_of), limit_ms(Limit::BlindAfter))
    {
        mistake(block.place("blind_after"), sampling.blind_after_mistake(ms));
    }
    if let Some(sampling) = sampling {
        if let Some(ms) = limit_ms(Limit::BlindAfter) {
            mistake(block.place("blind_after"), sampling.blind_after_mistake(ms));
        }
        if let Ok(kind) = &guarded {
            for (field, message) in threshold::kind_mistakes(kind, sampling) {
                mistake(block.place(kind.name()).field(field), Some(message));
            }
            if let KindSpec::Lock(LockSpec { runs: Some(runs), .. }) = kind {
                for (field, message) in threshold::runs_mistakes(runs, sampling) {
                    mistake(block.place("runs").field(field), Some(message));
                }
            }
        }
        if let Ok(Some(progress)) = &progress {
            let place = block.place("progress").field("stale_after");
            mistake(place, sampling.stale_after_mistake(progress.stale_after_ms));
        }
        if let Ok(Some(claims)) = &claims {
            let place = block.place("claims").field("fresh_for");
            mistake(place, sampling.fresh_for_mistake(claims.fresh_for_ms));
        }
    }
    let may_settle = !matches!(guarded, Ok(KindSpec::Turn(_) | KindSpec::Queue(_)));
    if let (Some(settle_ms), Some(blind_after_ms)) =
        (limit_ms(Limit::Settle), limit_ms(Limit::BlindAfter))
        && may_settle
        && let Some(mistake) = threshold::settle_mistake(settle_ms, blind_after_ms)
    {
        let field = if block.value("settle").is_some() { "settle" } else { "blind_after" };
        block.report(field, mistake);
    }

    if let (Some(_), Ok(Some(_))) = (of_lock, &guard) {
        let message = "takes a lock of a single store, and this one has several `stores`; remove it, \
                       or run the script under a lock of its own";
        block.report("guard", message);
    }
    let stores = found.as_ref().map(|found| found.all.clone()).unwrap_or_default();
    let key = guarded.as_ref().ok().map(|kind| GuardKey {
        place: block.place(kind.name()).field(kind::field_of_key(kind, block)),
        key: kind.key().clone(),
        field: kind_field(kind),
        what: block.called("key", "node"),
        is_lock: matches!(kind, KindSpec::Lock(_)),
    });
    let spec_name = name.clone();
    let assemble = || -> Result<TaskSpec, Reported> {
        let mut spec = TaskSpec {
            wanted: wanted?,
            switches_store: elsewhere.as_ref().map(|found| found.own),
            progress: progress?,
            claims: claims?,
            hosts: hosts?,
            paused_until: paused_until?,
            labels: labels?,
            full_metrics: full_metrics?,
            ..TaskSpec::of(&spec_name?, found?.own, guarded?)
        };
        // Their order means nothing, and shall change neither label nor state.
        if let Some(stores) = spec.lock_mut().and_then(|lock| lock.stores.as_mut()) {
            stores.all.sort_unstable();
        }
        for (limit, ms) in limits {
            ms?.map(|ms| limit.set(&mut spec, ms));
        }
        Ok(spec)
    };
    let spec = (guard.is_ok() && max_keys.is_ok()).then(assemble).and_then(Result::ok);
    let (max_keys, guard) = (max_keys.ok().flatten(), guard.ok().flatten());
    ReadTask { name: name.ok(), stores, key, spec, max_keys, guard }
}

/// Of several stores, the one that may be read latest.
fn slowest<'a>(found: &Found<'a>) -> Option<&'a RedisConfig> {
    found.redises.iter().copied().max_by_key(|redis| redis.interval + redis.timeout)
}

fn sampling_of<'a>(found: &Found<'a>) -> Option<Sampling<'a>> {
    let redis = slowest(found).map(|redis| Sampling {
        kind: StoreKind::Redis,
        name: &redis.name,
        interval_ms: ms(redis.interval),
        timeout_ms: ms(redis.timeout),
    });
    redis.or(found.zookeeper.map(|ensemble| Sampling {
        kind: StoreKind::ZooKeeper,
        name: &ensemble.name,
        interval_ms: ms(ensemble.interval),
        timeout_ms: ms(ensemble.timeout),
    }))
}

fn kind_field(kind: &KindSpec) -> Option<Vec<u8>> {
    if let KindSpec::Lock(lock) = kind { lock.field.clone() } else { None }
}

fn stores_of_lock(kind: &KindSpec) -> Option<&Stores> {
    if let KindSpec::Lock(lock) = kind { lock.stores.as_deref() } else { None }
}

fn lease_ms(kind: &KindSpec) -> Option<u64> {
    if let KindSpec::Lock(lock) = kind { lock.lease_ms } else { None }
}

/// The switches, and their store, if that is another one than the task's `own`.
fn read_wanted<'a>(
    task: &Block<'_>,
    among: Configured<'a>,
    own: Option<StoreIndex>,
    roles: &mut Roles,
) -> Result<Option<(WantedSpec, Option<Found<'a>>)>, Reported> {
    const FIELDS: [(&str, &str); 4] =
        [("hash", "children"), ("set", "names"), ("counter", "counter"), ("keys", "paths")];
    let fields_in = |block: &Block<'_>| FIELDS.map(|(redis, nodes)| block.called(redis, nodes));
    let remedy = |block: &Block<'_>| {
        let fields = fields_in(block).join(", ");
        format!("write one of {fields}, or the word `always` or `never`")
    };
    let plain = |source| Ok(Some((WantedSpec { source, codec: Codec::Raw }, None)));
    let at = match task.at("wanted") {
        None => return Ok(None),
        Some(at) if at.value == "always" => return plain(WantedSource::Always),
        Some(at) if at.value == "never" => return plain(WantedSource::Never),
        Some(at) if at.value.is_mapping() => at,
        Some(at) => {
            let message = format!("is {}; {}", kind_of(at.value), remedy(task));
            return Err(at.report(message));
        }
    };
    let named = stores::named_kind(at.value);
    let block = Block::open(At { store: named.or(at.store), ..at }, &WANTED)?;
    let elsewhere = match (named, own) {
        (Some(_), Some(own)) => stores::elsewhere(&block, among, own)?,
        _ => None,
    };
    let codec =
        block.or("codec", Codec::Raw, |value| choice(value, "codec", &Codec::ALL, Codec::name));
    let field = block.exactly_one(&fields_in(&block), &remedy(&block))?;
    // Another store has other keys.
    let mut others = Roles::new();
    let roles = if elsewhere.is_some() { &mut others } else { roles };
    let mut key = || read_key(&block, field, roles);
    let source = match field {
        "hash" | "children" => key().map(WantedSource::Hash),
        "set" | "names" => key().map(WantedSource::Set),
        "counter" => key().map(WantedSource::Counter),
        _ => read_switch_keys(&block, field, roles).map(WantedSource::Keys),
    };
    Ok(Some((WantedSpec { source: source?, codec: codec? }, elsewhere)))
}

fn read_switch_keys(
    block: &Block<'_>,
    field: &str,
    roles: &mut Roles,
) -> Result<Vec<Key>, Reported> {
    let Some(at) = block.at(field) else { return Ok(Vec::new()) };
    let keys = at.list(key_in(block))?;
    if !(1..=SWITCH_KEYS_MAX).contains(&keys.len()) {
        let message = format!(
            "lists {} {field}; list 1 to {SWITCH_KEYS_MAX}, or keep the switches in {}",
            keys.len(),
            block.called("one hash", "the children of one node")
        );
        return Err(at.report(message));
    }
    for (index, key) in keys.iter().enumerate() {
        claim(roles, block, at.place.item(index), key);
    }
    Ok(keys)
}

fn read_progress(
    task: &Block<'_>,
    roles: &mut Roles,
) -> Result<Option<Box<ProgressSpec>>, Reported> {
    const REMEDY: &str = "write one of hash (with field), key, length, zset (with member), stream";
    const NODES: &str = "write `path: …` of a node whose data the work changes, or `children: …`";
    let Some(block) = task.child("progress", &PROGRESS)? else { return Ok(None) };
    let stale_after_ms = threshold::or(Limit::StaleAfter, &block, ProgressSpec::STALE_AFTER_MS);
    let moves =
        block.optional("moves", |value| choice(value, "movement", &Moves::ALL, Moves::name));
    let field = match block.is_in_zookeeper() {
        true => block.exactly_one(&["path", "children"], NODES)?,
        false => block.exactly_one(&["hash", "key", "length", "zset", "stream"], REMEDY)?,
    };
    let key = read_key(&block, field, roles);
    for (part, of) in [("field", "hash"), ("member", "zset")] {
        if !block.is_in_zookeeper() && field != of && block.value(part).is_some() {
            return Err(block.report(
                part,
                format!("belongs to `{of}` and cannot be combined with `{field}`; remove it"),
            ));
        }
    }
    let source = match field {
        "hash" => {
            let field =
                block.required("field", "name the field of the hash that the work changes", bytes);
            key.and_then(|key| Ok(ProgressSource::HashField { key, field: field? }))
        }
        "zset" => {
            let member =
                block.required("member", "name the member whose score the work sets", bytes);
            key.and_then(|key| Ok(ProgressSource::Score { key, member: member? }))
        }
        "key" | "path" => key.map(ProgressSource::Key),
        "stream" => key.map(ProgressSource::Stream),
        _ => key.map(ProgressSource::Length),
    };
    Ok(Some(
        ProgressSpec { source: source?, moves: moves?, stale_after_ms: stale_after_ms? }.into(),
    ))
}

fn read_claims(task: &Block<'_>, roles: &mut Roles) -> Result<Option<Box<ClaimsSpec>>, Reported> {
    let Some(block) = task.child("claims", &CLAIMS)? else { return Ok(None) };
    let fresh_for_ms = threshold::or(Limit::FreshFor, &block, ClaimsSpec::FRESH_FOR_MS);
    let key = read_key(&block, block.called("hash", "children"), roles);
    Ok(Some(ClaimsSpec { key: key?, fresh_for_ms: fresh_for_ms? }.into()))
}

/// A block whose only field is a key, or in ZooKeeper a path: `hosts` and `paused_until`.
fn read_single_key(
    task: &Block<'_>,
    block_field: &str,
    spec: &BlockSpec,
    (in_redis, in_zookeeper): (&str, &str),
    roles: &mut Roles,
) -> Result<Option<Key>, Reported> {
    let Some(block) = task.child(block_field, spec)? else { return Ok(None) };
    read_key(&block, block.called(in_redis, in_zookeeper), roles).map(Some)
}

/// `metrics`: whether it says `full`.
pub(super) fn full_metrics(block: &Block<'_>) -> Result<Option<bool>, Reported> {
    block.optional("metrics", |value| match value.as_str() {
        Some("lean") => Ok(false),
        Some("full") => Ok(true),
        _ => Err(String::from("is neither `lean` nor `full`; write one of them")),
    })
}

fn read_labels(task: &Block<'_>, shared: &Shared<'_>) -> Result<Labels, Reported> {
    let names = shared.label_names.unwrap_or_default();
    let map = match task.value("labels") {
        None => return Ok(names.iter().map(|name| (Arc::clone(name), "".into())).collect()),
        Some(Value::Mapping(map)) => map,
        Some(other) => {
            return Err(
                task.report("labels", format!("is {}; write `{{name: value}}`", kind_of(other)))
            );
        }
    };
    let place = task.place("labels");
    let known = |given: &Value| {
        given.as_str().is_some_and(|given| names.iter().any(|name| **name == *given))
    };
    for given in map.keys().filter(|given| shared.label_names.is_some() && !known(given)) {
        let given = given.as_str().unwrap_or_default();
        let message = format!(
            "is not in the list `labels` at the top of the file; add {} to it",
            quoted(given)
        );
        task.report_at(place.name_of_field(given), message);
    }
    let read_one = |name: &Arc<str>| {
        let value = map.get(&**name).map_or(Ok(String::new()), label_value);
        let value = value.map_err(|message| task.report_at(place.field(name), message))?;
        Ok((Arc::clone(name), value.into()))
    };
    let labels: Vec<Result<_, Reported>> = names.iter().map(read_one).collect();
    labels.into_iter().collect()
}

/// The locks of a queue are read with its set, so whatever the id, they must be in its slot.
fn queue_mistake(redis: &RedisConfig, kind: &KindSpec) -> Option<String> {
    let (Servers::Cluster(_), KindSpec::Queue(queue)) = (&redis.servers, kind) else {
        return None;
    };
    let own = slot(&queue.zset);
    let ids: [&[u8]; 3] = [b"0", b"1", b"{x}"];
    let is_elsewhere =
        ids.iter().any(|id| queue.lock_of(id).is_some_and(|lock| slot(&lock) != own));
    is_elsewhere.then(|| {
        format!(
            "is not always in the slot of the set, in the cluster {}; give both a common hash tag, \
             as in zset \"{{tasks}}\" and lock \"{{tasks}}:lock:{{id}}\"",
            quoted(&redis.name)
        )
    })
}

/// A cluster passes messages on to all its servers, and each counts only its own listeners.
fn channel_mistake(redis: &RedisConfig, kind: &KindSpec) -> Option<String> {
    let (Servers::Cluster(_), KindSpec::Lock(lock)) = (&redis.servers, kind) else { return None };
    (!libraries::of(&lock.library).is_key()).then(|| {
        format!(
            "cannot be watched in the cluster {}, whose servers each count only their own \
             listeners; watch a lock that is a key",
            quoted(&redis.name)
        )
    })
}

/// Switches in separate keys are read with one command, so all keys must be in one slot.
fn cluster_mistake(redis: &RedisConfig, wanted: &WantedSpec) -> Option<String> {
    let (Servers::Cluster(_), WantedSource::Keys(keys)) = (&redis.servers, &wanted.source) else {
        return None;
    };
    let mut slots = keys.iter().map(|key| slot(key));
    let first = slots.next();
    slots.any(|slot| Some(slot) != first).then(|| {
        format!(
            "lie in different slots of the cluster {}; give them a common hash tag, as in \
             \"{{outbound}}:anna\" and \
             \"{{outbound}}:ben\", or keep the switches in one hash",
            quoted(&redis.name)
        )
    })
}
