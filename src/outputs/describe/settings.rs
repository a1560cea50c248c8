//! The configuration in force: each field by its name in the file, with its value.

use std::borrow::Cow;

use lockwatch_judge::limit::OF_TASK;
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::spec::{
    KindSpec, LockSpec, Moves, ProgressSource, ProgressSpec, QueueSpec, RunsSpec, TurnSpec,
    ValuePath, WantedSource, WantedSpec,
};

use crate::published::Published;

/// A field of a task's configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting<'a> {
    /// The block that has it; empty for a field of the task itself.
    pub block: &'static str,
    /// Its name there; empty if the block is only this value.
    pub name: &'a str,
    /// Its value.
    pub value: Value<'a>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// There is none.
    NotSet,
    /// There is none, and what was learned in its place, in milliseconds.
    Learned(Option<u64>),
    /// A word that has a meaning for lockwatch.
    Word(&'a str),
    /// A name, or the bytes of one.
    Name(Cow<'a, [u8]>),
    /// Several of them.
    Names(Vec<&'a [u8]>),
    /// A number.
    Count(u32),
    /// A path in a value.
    Path(&'a ValuePath),
    /// A duration, and its default, in milliseconds.
    Limit(u64, Option<u64>),
}

/// The fields that are called otherwise where a task has nodes in place of keys: block, name, and
/// name there; no name: the field does not exist there.
const IN_NODES: [(&str, &str, Option<&str>); 13] = [
    ("", "redis", Some("zookeeper")),
    ("lock", "key", Some("path")),
    ("lock", "lease", None),
    ("lock", "renew_every", None),
    ("turn", "hash", Some("children")),
    ("wanted", "hash", Some("children")),
    ("wanted", "set", Some("names")),
    ("wanted", "keys", Some("paths")),
    ("progress", "key", Some("path")),
    ("progress", "length", Some("children")),
    ("claims", "hash", Some("children")),
    ("hosts", "hash", Some("children")),
    ("paused_until", "key", Some("path")),
];

/// Every field, in the order in which they are shown.
pub fn settings<'a>(published: &'a Published, view: &'a TaskView) -> Vec<Setting<'a>> {
    let has_nodes =
        |store| published.store(store).is_some_and(|store| store.spec.authority.ensemble);
    let switches_store = view.spec.switches_on();
    let named = |setting: Setting<'a>| {
        let store = if setting.block == "wanted" { switches_store } else { view.spec.store };
        let other = IN_NODES.iter().find(|(block, name, _)| {
            has_nodes(store) && (*block, *name) == (setting.block, setting.name)
        });
        match other {
            Some((_, _, other)) => Some(Setting { name: (*other)?, ..setting }),
            None => Some(setting),
        }
    };
    let mut settings: Vec<_> = in_keys(view).into_iter().filter_map(named).collect();
    let elsewhere = view.spec.switches_store.and_then(|store| published.store(store));
    if let (Some(store), Some(at)) =
        (elsewhere, settings.iter().position(|setting| setting.block == "wanted"))
    {
        let block = if store.spec.authority.ensemble { "zookeeper" } else { "redis" };
        settings.insert(at, set("wanted", block, name(store.spec.name.as_bytes())));
    }
    settings
}

/// Every field by its name of a task whose store has keys.
fn in_keys(view: &TaskView) -> Vec<Setting<'_>> {
    let spec = &*view.spec;
    let mut settings = vec![
        set("", "name", name(spec.name.as_bytes())),
        set("", "redis", name(view.store.as_bytes())),
    ];
    match &spec.kind {
        KindSpec::Lock(lock) => settings.extend(of_lock(view, lock)),
        KindSpec::Turn(turn) => settings.extend(of_turn(turn)),
        KindSpec::Queue(queue) => settings.extend(of_queue(queue)),
    }
    settings.extend(spec.runs().into_iter().flat_map(of_runs));
    settings.extend(of_wanted(spec.wanted.as_ref()));
    settings.extend(of_progress(spec.progress.as_deref()));
    match &spec.claims {
        None => settings.push(set("claims", "", Value::NotSet)),
        Some(claims) => settings.extend([
            set("claims", "hash", name(&claims.key)),
            set("claims", "fresh_for", Value::Limit(claims.fresh_for_ms, None)),
        ]),
    }
    settings.extend([
        set("hosts", "hash", spec.hosts.as_ref().map_or(Value::NotSet, |key| name(key))),
        set(
            "paused_until",
            "key",
            spec.paused_until.as_ref().map_or(Value::NotSet, |key| name(key)),
        ),
    ]);
    settings.extend(OF_TASK.map(|limit| {
        let value = |ms| Value::Limit(ms, limit.default_ms());
        set("", limit.name(), limit.ms(spec).map_or(Value::NotSet, value))
    }));
    settings.push(set("", "metrics", Value::Word(if spec.full_metrics { "full" } else { "lean" })));
    settings.extend(spec.labels.iter().map(|(label, value)| {
        let value = if value.is_empty() { Value::NotSet } else { name(value.as_bytes()) };
        set("labels", label, value)
    }));
    settings
}

fn of_lock<'a>(view: &'a TaskView, lock: &'a LockSpec) -> Vec<Setting<'a>> {
    let learned = view.lock();
    let or_learned = |ms: Option<u64>, learned| match ms {
        Some(ms) => Value::Limit(ms, None),
        None => Value::Learned(learned),
    };
    let field = lock.field.as_ref().map(|field| set("lock", "field", name(field)));
    let path = |field, path: &'a Option<Box<ValuePath>>| {
        path.as_ref().map(|path| set("lock", field, Value::Path(path)))
    };
    let paths = path("holder", &lock.holder).into_iter().chain(path("host", &lock.host));
    let lease = or_learned(lock.lease_ms, learned.and_then(|lock| lock.lease_ms));
    let period = or_learned(lock.renew_every_ms, learned.and_then(|lock| lock.renewal_period_ms));
    let key = set("lock", "key", name(&lock.key));
    let library = set("lock", "library", Value::Word(lock.library.as_str()));
    let timed = [set("lock", "lease", lease), set("lock", "renew_every", period)];
    let score = lock.score.map(|score| set("lock", "score", Value::Word(score.name())));
    let limit = lock.limit.map(|limit| set("lock", "limit", Value::Count(limit)));
    let shares = score.into_iter().chain(limit);
    let stores = lock.stores.as_ref().map(|stores| {
        let names = view.store.split('+').map(str::as_bytes).collect();
        [
            set("lock", "stores", Value::Names(names)),
            set("lock", "mode", Value::Word(stores.mode.name())),
        ]
    });
    [key]
        .into_iter()
        .chain(field)
        .chain(stores.into_iter().flatten())
        .chain([library])
        .chain(paths)
        .chain(shares)
        .chain(timed)
        .collect()
}

fn of_runs(runs: &RunsSpec) -> [Setting<'_>; 3] {
    let max = runs.max_ms.map_or(Value::NotSet, |ms| Value::Limit(ms, None));
    [
        set("runs", "every", Value::Limit(runs.every_ms, None)),
        set("runs", "late_after", Value::Limit(runs.late_after_ms, None)),
        set("runs", "max", max),
    ]
}

fn of_turn(turn: &TurnSpec) -> [Setting<'_>; 6] {
    let tasks = turn.tasks.iter().map(|task| &*task.0).collect();
    let min_turn = turn.min_turn_ms.map_or(Value::NotSet, |ms| Value::Limit(ms, None));
    [
        set("turn", "hash", name(&turn.hash)),
        set("turn", "unit", Value::Word(turn.unit.name())),
        set("turn", "tasks", Value::Names(tasks)),
        set("turn", "max_late", Value::Limit(turn.max_late_ms, None)),
        set("turn", "handover", Value::Limit(turn.handover_ms, None)),
        set("turn", "min_turn", min_turn),
    ]
}

fn of_queue(queue: &QueueSpec) -> Vec<Setting<'_>> {
    let set_of = [
        set("queue", "zset", name(&queue.zset)),
        set("queue", "unit", Value::Word(queue.unit.name())),
    ];
    let id = queue.id.as_ref().map(|path| set("queue", "id", Value::Path(path)));
    let keys = queue.lock.as_ref();
    let keys = keys.map_or(Value::NotSet, |lock| Value::Name(lock.text().into()));
    let library = Value::Word(queue.library.as_str());
    let library = queue.lock.as_ref().map(|_| set("queue", "library", library));
    let max_late = set("queue", "max_late", Value::Limit(queue.max_late_ms, None));
    let lock = [set("queue", "lock", keys)].into_iter().chain(library);
    set_of.into_iter().chain(id).chain(lock).chain([max_late]).collect()
}

fn of_wanted(wanted: Option<&WantedSpec>) -> Vec<Setting<'_>> {
    let Some(wanted) = wanted else { return vec![set("wanted", "", Value::NotSet)] };
    let source = match &wanted.source {
        WantedSource::Hash(key) => set("wanted", "hash", name(key)),
        WantedSource::Set(key) => set("wanted", "set", name(key)),
        WantedSource::Counter(key) => set("wanted", "counter", name(key)),
        WantedSource::Keys(keys) => {
            set("wanted", "keys", Value::Names(keys.iter().map(|key| &**key).collect()))
        }
        WantedSource::Always => set("wanted", "", Value::Word("always")),
        WantedSource::Never => set("wanted", "", Value::Word("never")),
    };
    vec![source, set("wanted", "codec", Value::Word(wanted.codec.name()))]
}

fn of_progress(progress: Option<&ProgressSpec>) -> Vec<Setting<'_>> {
    let Some(progress) = progress else { return vec![set("progress", "", Value::NotSet)] };
    let (source, more) = match &progress.source {
        ProgressSource::HashField { key, field } => (("hash", key), Some(("field", field))),
        ProgressSource::Key(key) => (("key", key), None),
        ProgressSource::Length(key) => (("length", key), None),
        ProgressSource::Score { key, member } => (("zset", key), Some(("member", member))),
        ProgressSource::Stream(key) => (("stream", key), None),
    };
    let source = [source].into_iter().chain(more);
    let moves = progress.moves.map_or(Value::NotSet, |moves| Value::Word(Moves::name(moves)));
    source
        .map(|(field, key)| set("progress", field, name(key)))
        .chain([
            set("progress", "moves", moves),
            set("progress", "stale_after", Value::Limit(progress.stale_after_ms, None)),
        ])
        .collect()
}

fn set<'a>(block: &'static str, name: &'a str, value: Value<'a>) -> Setting<'a> {
    Setting { block, name, value }
}

fn name(name: &[u8]) -> Value<'_> {
    Value::Name(Cow::Borrowed(name))
}
