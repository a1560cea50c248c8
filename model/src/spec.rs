//! What is to be watched: the resolved, validated form of the configuration that the model works
//! with.
//!
//! Every default is already filled in, every name already checked; an `Option` here means "the user
//! asked for none".

use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

/// A Redis key: any bytes.
pub type Key = Vec<u8>;

/// Everything to be watched, as of one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct WatchSpec {
    /// The redises, by position ([`RedisIndex`]).
    pub redises: Vec<RedisSpec>,
    /// The tasks, by position ([`TaskIndex`]).
    pub tasks: Vec<Arc<TaskSpec>>,
    /// Counts reloads, so that a sample of an older configuration is recognised and dropped.
    pub epoch: u32,
}

/// Position of a redis in [`WatchSpec::redises`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct RedisIndex(pub u16);

/// Position of a task in [`WatchSpec::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct TaskIndex(pub u32);

/// Where `task` is in a list that is `sorted` by tasks. Nearly always none is missing before it,
/// and it is where its number says: to look there first spares a search that touches memory a dozen
/// times.
pub fn position_of<T>(
    task: TaskIndex,
    sorted: &[T],
    of: impl Fn(&T) -> TaskIndex,
) -> Option<usize> {
    let likely =
        sorted.first().and_then(|first| usize::try_from(task.0.checked_sub(of(first).0)?).ok())?;
    match sorted.get(likely) {
        Some(item) if of(item) == task => Some(likely),
        _ => sorted.binary_search_by_key(&task, of).ok(),
    }
}

/// One named Redis, as far as the model cares.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct RedisSpec {
    /// Its name in the configuration: the label `redis`.
    pub name: Arc<str>,
    /// How its servers belong together.
    pub kind: RedisKind,
    /// The configured servers, `host:port` (of Sentinel: the Sentinels).
    pub addresses: Vec<Arc<str>>,
    /// Database number.
    pub db: u32,
    /// Pause between two sweeps.
    pub interval_ms: u64,
    /// A reply older than this is no evidence.
    pub timeout_ms: u64,
    /// The user attests the server's role because it refuses both `ROLE` and `INFO`.
    pub assume_master: bool,
}

impl RedisSpec {
    /// Default of [`RedisSpec::interval_ms`].
    pub const INTERVAL_MS: u64 = 1_000;
    /// Default of [`RedisSpec::timeout_ms`].
    pub const TIMEOUT_MS: u64 = 3_000;

    /// A redis of which nothing but its servers is configured.
    pub fn new(name: &str, kind: RedisKind, addresses: &[&str]) -> RedisSpec {
        RedisSpec {
            name: name.into(),
            kind,
            addresses: addresses.iter().map(|address| Arc::from(*address)).collect(),
            db: 0,
            interval_ms: RedisSpec::INTERVAL_MS,
            timeout_ms: RedisSpec::TIMEOUT_MS,
            assume_master: false,
        }
    }
}

named! {
    /// How the servers of one redis belong together, and who says which of them decides.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum RedisKind {
        /// One server: it decides while it says that it is master.
        Standalone = "standalone",
        /// A master and its replicas without Sentinel: whichever says that it is master decides.
        Replicated = "replicated",
        /// The majority of the configured Sentinels says which server is master.
        Sentinel = "sentinel",
        /// The master of a key's slot decides.
        Cluster = "cluster",
    }
}

/// One task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct TaskSpec {
    /// Unique name: the label `task`.
    pub name: Arc<str>,
    /// Where its keys live.
    pub redis: RedisIndex,
    /// The lock that guards it.
    pub lock: LockSpec,
    /// How to learn whether users want it; `None`: nobody says, so it is never judged down or
    /// unwanted.
    pub wanted: Option<WantedSpec>,
    /// Proof that the work is not stuck.
    pub progress: Option<ProgressSpec>,
    /// The workers' own statements.
    pub claims: Option<ClaimsSpec>,
    /// Hash that maps an instance id to a host name.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub hosts: Option<Key>,
    /// String key in which a deploy script writes until when pages shall wait.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub paused_until: Option<Key>,
    /// A gap shorter than this is a handover.
    pub grace_ms: u64,
    /// A hold shorter than this does not end a gap.
    pub settle_ms: u64,
    /// How long the task may go on after it was switched off.
    pub wind_down_ms: u64,
    /// Without a trustworthy reading for longer than this, the verdict is unknown.
    pub blind_after_ms: u64,
    /// A hold longer than this deserves a warning.
    pub max_hold_ms: Option<u64>,
    /// Per-task labels, in the order of the configuration's `labels`; a label that the task does
    /// not set is empty.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
}

impl TaskSpec {
    /// Default of [`TaskSpec::grace_ms`].
    pub const GRACE_MS: u64 = 20_000;
    /// Default of [`TaskSpec::settle_ms`].
    pub const SETTLE_MS: u64 = 5_000;
    /// Default of [`TaskSpec::wind_down_ms`].
    pub const WIND_DOWN_MS: u64 = 30_000;
    /// Default of [`TaskSpec::blind_after_ms`].
    pub const BLIND_AFTER_MS: u64 = 60_000;

    /// A task of which nothing but the lock is configured.
    pub fn new(name: &str, redis: RedisIndex, lock: LockSpec) -> TaskSpec {
        TaskSpec {
            name: name.into(),
            redis,
            lock,
            wanted: None,
            progress: None,
            claims: None,
            hosts: None,
            paused_until: None,
            grace_ms: TaskSpec::GRACE_MS,
            settle_ms: TaskSpec::SETTLE_MS,
            wind_down_ms: TaskSpec::WIND_DOWN_MS,
            blind_after_ms: TaskSpec::BLIND_AFTER_MS,
            max_hold_ms: None,
            labels: Vec::new(),
        }
    }

    /// Whether anybody can say that it is wanted; otherwise it is never down.
    pub fn may_be_wanted(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.source != WantedSource::Never)
    }
}

/// The lock of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct LockSpec {
    /// The lock's key.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub key: Key,
    /// How a library lays it out.
    pub scheme: SchemeKind,
    /// Full lifetime of a hold; learned when `None`.
    pub lease_ms: Option<u64>,
    /// Pause between two renewals; follows the library's rule, or is learned, when `None`.
    pub renew_every_ms: Option<u64>,
}

impl LockSpec {
    /// A lock whose lease and period are to be learned.
    pub fn new(key: &[u8], scheme: SchemeKind) -> LockSpec {
        LockSpec { key: key.to_vec(), scheme, lease_ms: None, renew_every_ms: None }
    }
}

named! {
    /// The known layouts.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum SchemeKind {
        /// Redisson's hash: `RLock` and its siblings, read/write, fair, fenced.
        Redisson = "redisson",
        /// A token in a string key (`SET key token NX PX …`).
        String = "string",
    }
}

/// Where users say whether they want the task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct WantedSpec {
    /// The keys.
    pub source: WantedSource,
    /// How values (and the names of hash fields and set members) are encoded.
    pub codec: Codec,
}

/// The kinds of switches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum WantedSource {
    /// A hash: one field per user, its value is the switch.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Hash(Key),
    /// A set: its members want the task.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Set(Key),
    /// A string that counts the users who want it.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Counter(Key),
    /// One string key per user.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Keys(Vec<Key>),
    /// Wanted at all times.
    Always,
    /// Wanted at no time.
    Never,
}

named! {
    /// How a switch's bytes are to be read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Codec {
        /// The text itself.
        Raw = "raw",
        /// A JSON scalar.
        Json = "json",
        /// Java serialization (Spring's default).
        Jdk = "jdk",
        /// Kryo 5 (Redisson's default).
        Kryo5 = "kryo5",
    }
}

/// Bytes that the work itself changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct ProgressSpec {
    /// Where they are.
    pub source: ProgressSource,
    /// Without a change for longer than this, the task is stalled.
    pub stale_after_ms: u64,
}

/// The kinds of progress.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum ProgressSource {
    /// One field of a hash.
    HashField {
        /// The hash.
        #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
        key: Key,
        /// The field.
        #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
        field: Vec<u8>,
    },
    /// A string key.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Key(Key),
    /// The length of a list, set, stream or sorted set.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Length(Key),
}

/// The hash in which each worker states "I am running this task": a field per instance, whose value
/// it keeps changing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct ClaimsSpec {
    /// The hash.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub key: Key,
    /// A claim lives while its bytes changed within this time.
    pub fresh_for_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_found_wherever_others_are_missing() {
        for tasks in [
            &[][..],
            &[0],
            &[7],
            &[0, 1, 2, 3],
            &[5, 6, 7],
            &[0, 2, 4, 6],
            &[3, 4, 9, 10, 40],
            &[u32::MAX],
        ] {
            let sorted: alloc::vec::Vec<TaskIndex> = tasks.iter().copied().map(TaskIndex).collect();
            for task in (0..50).chain([u32::MAX - 1, u32::MAX]) {
                let expected = tasks.iter().position(|other| *other == task);
                assert_eq!(
                    position_of(TaskIndex(task), &sorted, |task| *task),
                    expected,
                    "{task} in {tasks:?}"
                );
            }
        }
    }
}
