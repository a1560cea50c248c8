//! The configuration.

use std::sync::Arc;

use lockwatch_model::spec::{self, Codec, RedisIndex, RedisKind, SchemeKind};
use serde::{Deserialize, Serialize};

use super::scalar::{Blob, Word, arcs, blob, is_default, texts};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    epoch: u32,
    redises: Vec<Redis>,
    tasks: Vec<Task>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Redis {
    name: String,
    kind: Word<RedisKind>,
    addresses: Vec<String>,
    db: u32,
    interval_ms: u64,
    timeout_ms: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    assume_master: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Task {
    name: String,
    redis: u16,
    key: Blob,
    scheme: Word<SchemeKind>,
    #[serde(default, skip_serializing_if = "is_default")]
    lease_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    renew_every_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    wanted: Option<Wanted>,
    #[serde(default, skip_serializing_if = "is_default")]
    progress: Option<ProgressSpec>,
    #[serde(default, skip_serializing_if = "is_default")]
    claims: Option<ClaimsSpec>,
    #[serde(default, skip_serializing_if = "is_default")]
    hosts: Option<Blob>,
    #[serde(default, skip_serializing_if = "is_default")]
    paused_until: Option<Blob>,
    grace_ms: u64,
    settle_ms: u64,
    wind_down_ms: u64,
    blind_after_ms: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    max_hold_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_default")]
    labels: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    source: WantedSource,
    codec: Word<Codec>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WantedSource {
    Hash(Blob),
    Set(Blob),
    Counter(Blob),
    Keys(Vec<Blob>),
    Always,
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProgressSpec {
    source: ProgressSource,
    stale_after_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum ProgressSource {
    Hash { key: Blob, field: Blob },
    Key(Blob),
    Length(Blob),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsSpec {
    hash: Blob,
    fresh_for_ms: u64,
}

impl From<&spec::WatchSpec> for Config {
    fn from(spec: &spec::WatchSpec) -> Config {
        let spec::WatchSpec { redises, tasks, epoch } = spec;
        Config {
            epoch: *epoch,
            redises: redises.iter().map(Redis::from).collect(),
            tasks: tasks.iter().map(|task| Task::from(&**task)).collect(),
        }
    }
}

impl From<Config> for spec::WatchSpec {
    fn from(config: Config) -> spec::WatchSpec {
        let Config { epoch, redises, tasks } = config;
        spec::WatchSpec {
            redises: redises.into_iter().map(spec::RedisSpec::from).collect(),
            tasks: tasks.into_iter().map(|task| Arc::new(spec::TaskSpec::from(task))).collect(),
            epoch,
        }
    }
}

impl From<&spec::RedisSpec> for Redis {
    fn from(spec: &spec::RedisSpec) -> Redis {
        let spec::RedisSpec { name, kind, addresses, db, interval_ms, timeout_ms, assume_master } =
            spec;
        Redis {
            name: name.to_string(),
            kind: Word(*kind),
            addresses: texts(addresses),
            db: *db,
            interval_ms: *interval_ms,
            timeout_ms: *timeout_ms,
            assume_master: *assume_master,
        }
    }
}

impl From<Redis> for spec::RedisSpec {
    fn from(redis: Redis) -> spec::RedisSpec {
        let Redis { name, kind, addresses, db, interval_ms, timeout_ms, assume_master } = redis;
        spec::RedisSpec {
            name: name.into(),
            kind: kind.0,
            addresses: arcs(addresses),
            db,
            interval_ms,
            timeout_ms,
            assume_master,
        }
    }
}

impl From<&spec::TaskSpec> for Task {
    fn from(task: &spec::TaskSpec) -> Task {
        let spec::TaskSpec {
            name,
            redis,
            lock: spec::LockSpec { key, scheme, lease_ms, renew_every_ms },
            wanted,
            progress,
            claims,
            hosts,
            paused_until,
            grace_ms,
            settle_ms,
            wind_down_ms,
            blind_after_ms,
            max_hold_ms,
            labels,
        } = task;
        Task {
            name: name.to_string(),
            redis: redis.0,
            key: blob(key),
            scheme: Word(*scheme),
            lease_ms: *lease_ms,
            renew_every_ms: *renew_every_ms,
            wanted: wanted.as_ref().map(Wanted::from),
            progress: progress.as_ref().map(ProgressSpec::from),
            claims: claims.as_ref().map(|spec::ClaimsSpec { key, fresh_for_ms }| ClaimsSpec {
                hash: blob(key),
                fresh_for_ms: *fresh_for_ms,
            }),
            hosts: hosts.as_deref().map(blob),
            paused_until: paused_until.as_deref().map(blob),
            grace_ms: *grace_ms,
            settle_ms: *settle_ms,
            wind_down_ms: *wind_down_ms,
            blind_after_ms: *blind_after_ms,
            max_hold_ms: *max_hold_ms,
            labels: labels
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
        }
    }
}

impl From<Task> for spec::TaskSpec {
    fn from(task: Task) -> spec::TaskSpec {
        let Task {
            name,
            redis,
            key,
            scheme,
            lease_ms,
            renew_every_ms,
            wanted,
            progress,
            claims,
            hosts,
            paused_until,
            grace_ms,
            settle_ms,
            wind_down_ms,
            blind_after_ms,
            max_hold_ms,
            labels,
        } = task;
        spec::TaskSpec {
            name: name.into(),
            redis: RedisIndex(redis),
            lock: spec::LockSpec { key: key.0, scheme: scheme.0, lease_ms, renew_every_ms },
            wanted: wanted.map(spec::WantedSpec::from),
            progress: progress.map(spec::ProgressSpec::from),
            claims: claims.map(|ClaimsSpec { hash, fresh_for_ms }| spec::ClaimsSpec {
                key: hash.0,
                fresh_for_ms,
            }),
            hosts: hosts.map(|key| key.0),
            paused_until: paused_until.map(|key| key.0),
            grace_ms,
            settle_ms,
            wind_down_ms,
            blind_after_ms,
            max_hold_ms,
            labels: labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        }
    }
}

impl From<&spec::WantedSpec> for Wanted {
    fn from(spec: &spec::WantedSpec) -> Wanted {
        let spec::WantedSpec { source, codec } = spec;
        let source = match source {
            spec::WantedSource::Hash(key) => WantedSource::Hash(blob(key)),
            spec::WantedSource::Set(key) => WantedSource::Set(blob(key)),
            spec::WantedSource::Counter(key) => WantedSource::Counter(blob(key)),
            spec::WantedSource::Keys(keys) => {
                WantedSource::Keys(keys.iter().map(|key| blob(key)).collect())
            }
            spec::WantedSource::Always => WantedSource::Always,
            spec::WantedSource::Never => WantedSource::Never,
        };
        Wanted { source, codec: Word(*codec) }
    }
}

impl From<Wanted> for spec::WantedSpec {
    fn from(wanted: Wanted) -> spec::WantedSpec {
        let Wanted { source, codec } = wanted;
        let source = match source {
            WantedSource::Hash(key) => spec::WantedSource::Hash(key.0),
            WantedSource::Set(key) => spec::WantedSource::Set(key.0),
            WantedSource::Counter(key) => spec::WantedSource::Counter(key.0),
            WantedSource::Keys(keys) => {
                spec::WantedSource::Keys(keys.into_iter().map(|key| key.0).collect())
            }
            WantedSource::Always => spec::WantedSource::Always,
            WantedSource::Never => spec::WantedSource::Never,
        };
        spec::WantedSpec { source, codec: codec.0 }
    }
}

impl From<&spec::ProgressSpec> for ProgressSpec {
    fn from(spec: &spec::ProgressSpec) -> ProgressSpec {
        let spec::ProgressSpec { source, stale_after_ms } = spec;
        let source = match source {
            spec::ProgressSource::HashField { key, field } => {
                ProgressSource::Hash { key: blob(key), field: blob(field) }
            }
            spec::ProgressSource::Key(key) => ProgressSource::Key(blob(key)),
            spec::ProgressSource::Length(key) => ProgressSource::Length(blob(key)),
        };
        ProgressSpec { source, stale_after_ms: *stale_after_ms }
    }
}

impl From<ProgressSpec> for spec::ProgressSpec {
    fn from(progress: ProgressSpec) -> spec::ProgressSpec {
        let ProgressSpec { source, stale_after_ms } = progress;
        let source = match source {
            ProgressSource::Hash { key, field } => {
                spec::ProgressSource::HashField { key: key.0, field: field.0 }
            }
            ProgressSource::Key(key) => spec::ProgressSource::Key(key.0),
            ProgressSource::Length(key) => spec::ProgressSource::Length(key.0),
        };
        spec::ProgressSpec { source, stale_after_ms }
    }
}
