//! One block of the list `tasks`.

use std::sync::Arc;

use lockwatch_model::spec::{
    ClaimsSpec, Codec, Key, LockSpec, ProgressSource, ProgressSpec, RedisIndex, SchemeKind,
    TaskSpec, WantedSource, WantedSpec,
};
use lockwatch_model::topology::cluster::slot;
use serde_yaml::Value;

use super::block::{Block, choice, list};
use super::mistake::{Mistakes, Place, Reported, quoted};
use super::redises::Redises;
use super::schema::{CLAIMS, HOSTS, LOCK, PAUSED_UNTIL, PROGRESS, TASK, WANTED};
use super::threshold::{self, Sampling, Threshold};
use super::values::{bytes, duration_ms, key, kind, label_value, name, text};
use super::{RedisConfig, Servers, ms};

const STALE_AFTER_MS: u64 = 300_000;
const FRESH_FOR_MS: u64 = 10_000;

/// One key per user: more users than this belong into a hash.
const SWITCH_KEYS_MAX: usize = 1000;

/// The per-task labels with their values.
type Labels = Vec<(Arc<str>, Arc<str>)>;

/// What all tasks of a document share.
pub(super) struct Shared<'a> {
    /// `None` when the redises could not be read at all.
    pub(super) redises: Option<&'a Redises>,
    /// `None` when the names of the labels could not be read.
    pub(super) label_names: Option<&'a [Arc<str>]>,
    pub(super) mistakes: &'a Mistakes,
}

/// A task, and what the other tasks are compared with, each as far as it could be read.
pub(super) struct ReadTask {
    pub(super) name: Result<String, Reported>,
    pub(super) redis: Result<RedisIndex, Reported>,
    pub(super) lock_key: Result<Key, Reported>,
    pub(super) spec: Result<TaskSpec, Reported>,
}

/// Reads the task at `place`.
pub(super) fn read(value: &Value, place: Place, shared: &Shared<'_>) -> ReadTask {
    match Block::open(value, place, &TASK, shared.mistakes) {
        Ok(block) => read_block(&block, shared),
        Err(Reported) => ReadTask {
            name: Err(Reported),
            redis: Err(Reported),
            lock_key: Err(Reported),
            spec: Err(Reported),
        },
    }
}

fn read_block(block: &Block<'_>, shared: &Shared<'_>) -> ReadTask {
    let mut roles = Roles::new(shared.mistakes);
    let name = block.required("name", "write `name: …`", name);
    let found = redis_of(block, shared);
    let lock = read_lock(block, &mut roles);
    let wanted = read_wanted(block, shared.mistakes, &mut roles);
    let progress = read_progress(block, &mut roles);
    let claims = read_claims(block, &mut roles);
    let hosts = read_single_key(block, "hosts", "hash", &mut roles);
    let paused_until = read_single_key(block, "paused_until", "key", &mut roles);
    let thresholds = Thresholds::read(block);
    let labels = read_labels(block, shared);
    if let Ok((_, Some(redis))) = &found {
        let progress = progress.as_ref().ok().and_then(Option::as_ref);
        let claims = claims.as_ref().ok().and_then(Option::as_ref);
        check_against_sampling(block, redis, &thresholds, progress, claims, shared.mistakes);
        check_against_cluster(
            block,
            redis,
            wanted.as_ref().ok().and_then(Option::as_ref),
            shared.mistakes,
        );
    }
    thresholds.check(block);

    let redis = found.map(|(index, _)| index);
    let lock_key = lock.as_ref().map(|lock| lock.key.clone()).map_err(|reported| *reported);
    let spec_name = name.clone();
    let assemble = || {
        Ok(TaskSpec {
            name: spec_name?.into(),
            redis: redis?,
            lock: lock?,
            wanted: wanted?,
            progress: progress?,
            claims: claims?,
            hosts: hosts?,
            paused_until: paused_until?,
            grace_ms: thresholds.grace_ms?,
            settle_ms: thresholds.settle_ms?,
            wind_down_ms: thresholds.wind_down_ms?,
            blind_after_ms: thresholds.blind_after_ms?,
            max_hold_ms: thresholds.max_hold_ms?,
            labels: labels?,
        })
    };
    ReadTask { name, redis, lock_key, spec: assemble() }
}

/// The redis that a task names, or the only one; its configuration is absent where that has
/// mistakes of its own.
fn redis_of<'a>(
    block: &Block<'_>,
    shared: &Shared<'a>,
) -> Result<(RedisIndex, Option<&'a RedisConfig>), Reported> {
    let named = block.optional("redis", text)?;
    let redises = shared.redises.ok_or(Reported)?;
    let names = || redises.keys().map(|name| quoted(name)).collect::<Vec<_>>().join(", ");
    let position = match named {
        Some(wanted) => redises.keys().position(|name| *name == wanted).ok_or_else(|| {
            block.report(
                "redis",
                format!("{} is not one of the redises; use one of {}", quoted(&wanted), names()),
            )
        })?,
        None if redises.len() == 1 => 0,
        None => {
            return Err(block.report_whole(format!(
                "does not say which redis; add `redis:` with one of {}",
                names()
            )));
        }
    };
    let config = redises.values().nth(position).and_then(|config| config.as_ref().ok());
    let index =
        u16::try_from(position).map_err(|_| block.report("redis", "is one redis too many"))?;
    Ok((RedisIndex(index), config))
}

fn read_lock(block: &Block<'_>, roles: &mut Roles<'_>) -> Result<LockSpec, Reported> {
    let Some(lock) = block.child("lock", &LOCK)? else {
        return Err(block.report_whole("has no `lock`; write `lock: {key: …}`"));
    };
    let key = read_key(&lock, "key", "lock.key", roles);
    let scheme = lock.or("scheme", SchemeKind::Redisson, |value| {
        choice(value, "scheme", &SchemeKind::ALL, SchemeKind::name)
    });
    let lease_ms = lock.optional("lease", duration_ms(Threshold::Lease.min_ms()));
    let renew_every_ms = lock.optional("renew_every", duration_ms(Threshold::RenewEvery.min_ms()));
    if let (Ok(Some(lease_ms)), Ok(Some(renew_every_ms))) = (lease_ms, renew_every_ms)
        && let Some(mistake) = threshold::renew_every_mistake(renew_every_ms, lease_ms)
    {
        lock.report("renew_every", mistake);
    }
    Ok(LockSpec {
        key: key?,
        scheme: scheme?,
        lease_ms: lease_ms?,
        renew_every_ms: renew_every_ms?,
    })
}

fn read_wanted(
    task: &Block<'_>,
    mistakes: &Mistakes,
    roles: &mut Roles<'_>,
) -> Result<Option<WantedSpec>, Reported> {
    const REMEDY: &str = "write one of hash, set, counter, keys, or the word `always` or `never`";
    let plain = |source| Ok(Some(WantedSpec { source, codec: Codec::Raw }));
    match task.value("wanted") {
        None => return Ok(None),
        Some(Value::String(word)) if word == "always" => return plain(WantedSource::Always),
        Some(Value::String(word)) if word == "never" => return plain(WantedSource::Never),
        Some(Value::Mapping(_)) => {}
        Some(other) => return Err(task.report("wanted", format!("is {}; {REMEDY}", kind(other)))),
    }
    let Some(block) = task.child("wanted", &WANTED)? else { return Ok(None) };
    let codec =
        block.or("codec", Codec::Raw, |value| choice(value, "codec", &Codec::ALL, Codec::name));
    let field = block.exactly_one(&["hash", "set", "counter", "keys"], REMEDY)?;
    let source = if field == "keys" {
        read_switch_keys(&block, mistakes, roles).map(WantedSource::Keys)
    } else {
        let key = read_key(&block, field, &format!("wanted.{field}"), roles);
        match field {
            "hash" => key.map(WantedSource::Hash),
            "set" => key.map(WantedSource::Set),
            _ => key.map(WantedSource::Counter),
        }
    };
    Ok(Some(WantedSpec { source: source?, codec: codec? }))
}

fn read_switch_keys(
    block: &Block<'_>,
    mistakes: &Mistakes,
    roles: &mut Roles<'_>,
) -> Result<Vec<Key>, Reported> {
    let Some(value) = block.value("keys") else { return Ok(Vec::new()) };
    let place = block.place("keys");
    let keys = list(value, &place, mistakes, key)?;
    if !(1..=SWITCH_KEYS_MAX).contains(&keys.len()) {
        let message = format!(
            "lists {} keys; list 1 to {SWITCH_KEYS_MAX}, or keep the switches in one hash",
            keys.len()
        );
        return Err(block.report("keys", message));
    }
    for (index, key) in keys.iter().enumerate() {
        roles.claim(key, format!("wanted.keys[{index}]"), place.item(index));
    }
    Ok(keys)
}

fn read_progress(
    task: &Block<'_>,
    roles: &mut Roles<'_>,
) -> Result<Option<ProgressSpec>, Reported> {
    const REMEDY: &str = "write one of hash (with field), key, length";
    let Some(block) = task.child("progress", &PROGRESS)? else { return Ok(None) };
    let stale_after_ms =
        block.or("stale_after", STALE_AFTER_MS, duration_ms(Threshold::StaleAfter.min_ms()));
    let field = block.exactly_one(&["hash", "key", "length"], REMEDY)?;
    let key = read_key(&block, field, &format!("progress.{field}"), roles);
    if field != "hash" && block.value("field").is_some() {
        return Err(block.report(
            "field",
            format!("belongs to `hash` and cannot stand beside `{field}`; remove it"),
        ));
    }
    let source = match field {
        "hash" => {
            let field =
                block.required("field", "name the field of the hash that the work changes", bytes);
            key.and_then(|key| Ok(ProgressSource::HashField { key, field: field? }))
        }
        "key" => key.map(ProgressSource::Key),
        _ => key.map(ProgressSource::Length),
    };
    Ok(Some(ProgressSpec { source: source?, stale_after_ms: stale_after_ms? }))
}

fn read_claims(task: &Block<'_>, roles: &mut Roles<'_>) -> Result<Option<ClaimsSpec>, Reported> {
    let Some(block) = task.child("claims", &CLAIMS)? else { return Ok(None) };
    let fresh_for_ms =
        block.or("fresh_for", FRESH_FOR_MS, duration_ms(Threshold::FreshFor.min_ms()));
    let key = read_key(&block, "hash", "claims.hash", roles);
    Ok(Some(ClaimsSpec { key: key?, fresh_for_ms: fresh_for_ms? }))
}

/// A block whose only field is a key: `hosts` and `paused_until`.
fn read_single_key(
    task: &Block<'_>,
    block_field: &str,
    key_field: &str,
    roles: &mut Roles<'_>,
) -> Result<Option<Key>, Reported> {
    let spec = if block_field == "hosts" { &HOSTS } else { &PAUSED_UNTIL };
    let Some(block) = task.child(block_field, spec)? else { return Ok(None) };
    read_key(&block, key_field, &format!("{block_field}.{key_field}"), roles).map(Some)
}

fn read_key(
    block: &Block<'_>,
    field: &str,
    role: &str,
    roles: &mut Roles<'_>,
) -> Result<Key, Reported> {
    let key = block.required(field, &format!("write `{field}: …` with the key's name"), key)?;
    roles.claim(&key, role.to_owned(), block.place(field));
    Ok(key)
}

fn read_labels(task: &Block<'_>, shared: &Shared<'_>) -> Result<Labels, Reported> {
    let names = shared.label_names.unwrap_or_default();
    let map = match task.value("labels") {
        None => return Ok(names.iter().map(|name| (Arc::clone(name), "".into())).collect()),
        Some(Value::Mapping(map)) => map,
        Some(other) => {
            return Err(
                task.report("labels", format!("is {}; write `{{name: value}}`", kind(other)))
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
        shared.mistakes.report(place.name_of_field(given), message);
    }
    let read_one = |name: &Arc<str>| {
        let value = map.get(&**name).map_or(Ok(String::new()), label_value);
        let value = value.map_err(|message| shared.mistakes.report(place.field(name), message))?;
        Ok((Arc::clone(name), value.into()))
    };
    let labels: Vec<Result<_, Reported>> = names.iter().map(read_one).collect();
    labels.into_iter().collect()
}

/// The durations of a task, each as far as it could be read.
struct Thresholds {
    grace_ms: Result<u64, Reported>,
    settle_ms: Result<u64, Reported>,
    wind_down_ms: Result<u64, Reported>,
    blind_after_ms: Result<u64, Reported>,
    max_hold_ms: Result<Option<u64>, Reported>,
}

impl Thresholds {
    fn read(block: &Block<'_>) -> Thresholds {
        Thresholds {
            grace_ms: block.or("grace", TaskSpec::GRACE_MS, duration_ms(Threshold::Grace.min_ms())),
            settle_ms: block.or(
                "settle",
                TaskSpec::SETTLE_MS,
                duration_ms(Threshold::Settle.min_ms()),
            ),
            wind_down_ms: block.or(
                "wind_down",
                TaskSpec::WIND_DOWN_MS,
                duration_ms(Threshold::WindDown.min_ms()),
            ),
            blind_after_ms: block.or(
                "blind_after",
                TaskSpec::BLIND_AFTER_MS,
                duration_ms(Threshold::BlindAfter.min_ms()),
            ),
            max_hold_ms: block.optional("max_hold", duration_ms(Threshold::MaxHold.min_ms())),
        }
    }

    fn check(&self, block: &Block<'_>) {
        if let (Ok(settle_ms), Ok(blind_after_ms)) = (self.settle_ms, self.blind_after_ms)
            && let Some(mistake) = threshold::settle_mistake(settle_ms, blind_after_ms)
        {
            let field = if block.value("settle").is_some() { "settle" } else { "blind_after" };
            block.report(field, mistake);
        }
    }
}

/// What is judged from samples must be slower than the sampling.
fn check_against_sampling(
    block: &Block<'_>,
    redis: &RedisConfig,
    thresholds: &Thresholds,
    progress: Option<&ProgressSpec>,
    claims: Option<&ClaimsSpec>,
    mistakes: &Mistakes,
) {
    let sampling = Sampling {
        redis: &redis.name,
        interval_ms: ms(redis.interval),
        timeout_ms: ms(redis.timeout),
    };
    if let Ok(blind_after_ms) = thresholds.blind_after_ms
        && let Some(mistake) = sampling.blind_after_mistake(blind_after_ms)
    {
        block.report("blind_after", mistake);
    }
    if let Some(mistake) =
        progress.and_then(|progress| sampling.stale_after_mistake(progress.stale_after_ms))
    {
        mistakes.report(block.place("progress").field("stale_after"), mistake);
    }
    if let Some(mistake) = claims.and_then(|claims| sampling.fresh_for_mistake(claims.fresh_for_ms))
    {
        mistakes.report(block.place("claims").field("fresh_for"), mistake);
    }
}

/// Switches in keys of their own are read together, so that one server must have them all.
fn check_against_cluster(
    block: &Block<'_>,
    redis: &RedisConfig,
    wanted: Option<&WantedSpec>,
    mistakes: &Mistakes,
) {
    let (Servers::Cluster(_), Some(WantedSource::Keys(keys))) =
        (&redis.servers, wanted.map(|wanted| &wanted.source))
    else {
        return;
    };
    let mut slots = keys.iter().map(|key| slot(key));
    let first = slots.next();
    if slots.any(|slot| Some(slot) != first) {
        let message = format!(
            "lie in different slots of the cluster {}; give them a common hash tag, as in \
             \"{{outbound}}:anna\" and \
             \"{{outbound}}:ben\", or keep the switches in one hash",
            quoted(&redis.name)
        );
        mistakes.report(block.place("wanted").field("keys"), message);
    }
}

/// Which role each key of a task plays: one key cannot play two.
struct Roles<'a> {
    taken: Vec<(Key, String)>,
    mistakes: &'a Mistakes,
}

impl<'a> Roles<'a> {
    fn new(mistakes: &'a Mistakes) -> Roles<'a> {
        Roles { taken: Vec::new(), mistakes }
    }

    fn claim(&mut self, key: &Key, role: String, place: Place) {
        match self.taken.iter().find(|(taken, _)| taken == key) {
            Some((_, other)) => {
                self.mistakes.report(
                    place,
                    format!("is the same key as `{other}`; each needs a key of its own"),
                );
            }
            None => self.taken.push((key.clone(), role)),
        }
    }
}
