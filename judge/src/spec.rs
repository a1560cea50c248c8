//! The configuration of what to watch: the resolved and validated form that this crate uses.
//!
//! All defaults are filled in and all names are checked. An `Option` here means that the user
//! configured none.

mod terms;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

pub use self::terms::{Claimants, Key, LibraryName, Score, StoreIndex, Unit, ValuePath};
pub use crate::kinds::lock::spec::{Agreement, LockSpec, Stores};
pub use crate::kinds::queue::spec::{KeyPattern, QueueSpec};
pub use crate::kinds::runs::spec::RunsSpec;
pub use crate::kinds::turn::spec::{Name, TurnSpec};
pub use crate::reading::Codec;
use crate::reading::{Extras, GuardReading, LockReading, QueueReading, TurnReading, Unknown};

/// Everything to watch, as of one configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct WatchSpec {
    /// The stores; [`StoreIndex`] is a position here.
    pub stores: Vec<StoreSpec>,
    /// The tasks; [`TaskIndex`] is a position here.
    pub tasks: Vec<Arc<TaskSpec>>,
    /// Number of the configuration. A sample of an older one is recognised by it and dropped.
    pub epoch: u32,
}

impl WatchSpec {
    /// The name of the store of `task`, or the names of its stores, joined.
    pub fn store_label(&self, task: &TaskSpec) -> Arc<str> {
        task.store_label(|store| Some(&self.stores.get(usize::from(store.0))?.name))
    }
}

/// Position of a task in [`WatchSpec::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize))]
pub struct TaskIndex(pub u32);

/// The position of `task` in a list that is `sorted` by tasks. Usually no task is missing before
/// it, and its number is its position. Checking there first avoids a binary search, which touches
/// memory about a dozen times.
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

/// The configuration of one named store, as far as this crate uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct StoreSpec {
    /// Its name in the configuration: the label `redis`.
    pub name: Arc<str>,
    /// The kind of store, for display only.
    pub kind: Arc<str>,
    /// Who decides about its locks.
    pub authority: Authority,
    /// The configured servers, `host:port` (for Sentinel: the Sentinels).
    pub addresses: Vec<Arc<str>>,
    /// Database number.
    pub db: u32,
    /// Pause between two sweeps, in milliseconds.
    pub interval_ms: u64,
    /// A reply older than this is no evidence, in milliseconds.
    pub timeout_ms: u64,
}

impl StoreSpec {
    /// Default of [`StoreSpec::interval_ms`].
    pub const INTERVAL_MS: u64 = 1_000;
    /// Default of [`StoreSpec::timeout_ms`].
    pub const TIMEOUT_MS: u64 = 3_000;

    /// A store with default settings, of a kind without a name.
    pub fn new(name: &str, authority: Authority, addresses: &[&str]) -> StoreSpec {
        StoreSpec {
            name: name.into(),
            kind: "".into(),
            authority,
            addresses: addresses.iter().map(|address| Arc::from(*address)).collect(),
            db: 0,
            interval_ms: StoreSpec::INTERVAL_MS,
            timeout_ms: StoreSpec::TIMEOUT_MS,
        }
    }
}

/// Who decides about the locks of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct Authority {
    /// There is only one server. No client waits for another one to have its lock, and none shows
    /// it otherwise.
    pub alone: bool,
    /// Somebody else says which servers there are and which of them decide. If not, they are the
    /// configured ones.
    pub announced: bool,
    /// Each of several servers decides about locks of its own. A lock that another one decides
    /// about has moved there, and lost nothing.
    pub divided: bool,
    /// The servers are copies of each other, and which one answers makes no difference. None has a
    /// clock of its own: all times are the agent's.
    #[cfg_attr(feature = "serde", serde(default))]
    pub ensemble: bool,
}

impl Authority {
    /// The only server decides.
    pub const ALONE: Authority =
        Authority { alone: true, announced: false, divided: false, ensemble: false };
    /// Of the configured servers, the one decides that says so.
    pub const SELF_DECLARED: Authority = Authority { alone: false, ..Authority::ALONE };
    /// Somebody else says which server decides.
    pub const ANNOUNCED: Authority = Authority { announced: true, ..Authority::SELF_DECLARED };
    /// Somebody else says which server decides about which lock.
    pub const DIVIDED: Authority = Authority { divided: true, ..Authority::ANNOUNCED };
    /// Whichever server of an ensemble is read decides.
    pub const ENSEMBLE: Authority = Authority { ensemble: true, ..Authority::ALONE };

    /// Whether only the servers themselves report which of several decides.
    pub(crate) fn self_declared(self) -> bool {
        !self.alone && !self.announced
    }
}

/// What guards a task, and its configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
pub enum KindSpec {
    /// A lock.
    Lock(LockSpec),
    /// Tasks that take turns.
    Turn(TurnSpec),
    /// A queue of delayed tasks.
    Queue(QueueSpec),
}

impl KindSpec {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            KindSpec::Lock(_) => "lock",
            KindSpec::Turn(_) => "turn",
            KindSpec::Queue(_) => "queue",
        }
    }

    /// The key that makes the task what it is: the lock, the hash of turns, the sorted set.
    pub fn key(&self) -> &Key {
        match self {
            KindSpec::Lock(lock) => &lock.key,
            KindSpec::Turn(turn) => &turn.hash,
            KindSpec::Queue(queue) => &queue.zset,
        }
    }

    /// The library of its locks; `None` if it has no lock.
    pub fn library(&self) -> Option<&LibraryName> {
        match self {
            KindSpec::Lock(lock) => Some(&lock.library),
            KindSpec::Turn(_) => None,
            KindSpec::Queue(queue) => queue.lock.as_ref().map(|_| &queue.library),
        }
    }

    /// The reading of it when `why` prevents any.
    pub fn unknown(&self, why: Unknown) -> GuardReading {
        match self {
            KindSpec::Lock(_) => {
                GuardReading::Lock { lock: LockReading::Unknown(why), extras: Extras::default() }
            }
            KindSpec::Turn(_) => GuardReading::Turn(TurnReading::Unknown(why)),
            KindSpec::Queue(_) => GuardReading::Queue(QueueReading::Unknown(why)),
        }
    }

    /// How holders name themselves in the claims.
    pub fn claimants(&self) -> Claimants {
        match self {
            KindSpec::Lock(lock) => lock.claimants,
            KindSpec::Turn(_) => Claimants::Threads,
            KindSpec::Queue(queue) => queue.claimants,
        }
    }
}

/// The name of the synthetic task of a drill, which no task may have.
pub const DRILL: &str = "lockwatch-drill";

/// The configuration of one task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct TaskSpec {
    /// Unique name: the label `task`.
    pub name: Arc<str>,
    /// The store that has its keys.
    pub store: StoreIndex,
    /// What guards it.
    pub kind: KindSpec,
    /// How to learn whether users want the task. `None`: no switches are configured, so it is never
    /// judged down or unwanted.
    pub wanted: Option<WantedSpec>,
    /// The store that has the switches; `None`: the same. What a watcher of that store is given has
    /// it as its own store: there only the switches are read.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub switches_store: Option<StoreIndex>,
    /// Evidence that the work is not stuck.
    pub progress: Option<Box<ProgressSpec>>,
    /// The workers' own statements.
    pub claims: Option<Box<ClaimsSpec>>,
    /// Hash that maps an instance id to a host name.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub hosts: Option<Key>,
    /// String key in which a deploy script writes the time until which alerts shall wait.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub paused_until: Option<Key>,
    /// A gap shorter than this is a handover, in milliseconds.
    pub grace_ms: u64,
    /// A hold shorter than this does not end a gap, in milliseconds.
    pub settle_ms: u64,
    /// How long the task may continue after it was switched off, in milliseconds.
    pub wind_down_ms: u64,
    /// Without a trustworthy reading for longer than this, the verdict is unknown. In milliseconds.
    pub blind_after_ms: u64,
    /// A hold longer than this gives a warning, in milliseconds.
    pub max_hold_ms: Option<u64>,
    /// Per-task labels, in the order of the configuration's `labels`; a label that the task does
    /// not set is empty.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// Whether to show more metrics of it than the lean set, for display only. Not recorded.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub full_metrics: bool,
    /// The pattern that its key was found by.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub pattern: Option<Arc<str>>,
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

    /// A task with only the lock configured.
    pub fn new(name: &str, store: StoreIndex, lock: LockSpec) -> TaskSpec {
        TaskSpec::of(name, store, KindSpec::Lock(lock))
    }

    /// A task with only what guards it configured.
    pub fn of(name: &str, store: StoreIndex, kind: KindSpec) -> TaskSpec {
        TaskSpec {
            name: name.into(),
            store,
            kind,
            wanted: None,
            switches_store: None,
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
            full_metrics: false,
            pattern: None,
        }
    }

    /// The lock, if one guards it.
    pub fn lock(&self) -> Option<&LockSpec> {
        match &self.kind {
            KindSpec::Lock(lock) => Some(lock),
            KindSpec::Turn(_) | KindSpec::Queue(_) => None,
        }
    }

    /// The same, to be changed.
    pub fn lock_mut(&mut self) -> Option<&mut LockSpec> {
        match &mut self.kind {
            KindSpec::Lock(lock) => Some(lock),
            KindSpec::Turn(_) | KindSpec::Queue(_) => None,
        }
    }

    /// The stores that have its lock: one, unless it stands on several.
    pub fn stores(&self) -> &[StoreIndex] {
        let several = self.lock().and_then(|lock| lock.stores.as_deref());
        several.map_or(core::slice::from_ref(&self.store), |stores| &stores.all)
    }

    /// Whether its lock stands on several stores.
    pub fn is_on_several(&self) -> bool {
        self.stores().len() > 1
    }

    /// Whether one of its keys is on `store`.
    pub fn is_on(&self, store: StoreIndex) -> bool {
        self.stores().contains(&store) || self.switches_store == Some(store)
    }

    /// The store that has the switches.
    pub fn switches_on(&self) -> StoreIndex {
        self.switches_store.unwrap_or(self.store)
    }

    /// Whether the switches are read from the task's store.
    pub fn has_switches_here(&self) -> bool {
        self.switches_store.is_none_or(|store| store == self.store)
    }

    /// Whether nothing but the switches is read from the task's store.
    pub fn has_only_switches_here(&self) -> bool {
        self.switches_store == Some(self.store)
    }

    /// What is to be read of it on `store`: on any but its own, only the lock, or the switches.
    pub fn part_on(self: &Arc<Self>, store: StoreIndex) -> Option<Arc<TaskSpec>> {
        if store == self.store {
            return Some(Arc::clone(self));
        }
        if self.switches_store == Some(store) {
            let wanted = self.wanted.clone();
            let switches_store = self.switches_store;
            let only_switches = TaskSpec::of(&self.name, store, self.kind.clone());
            return Some(Arc::new(TaskSpec { wanted, switches_store, ..only_switches }));
        }
        let only_lock = || TaskSpec::of(&self.name, store, self.kind.clone());
        self.is_on(store).then(|| Arc::new(only_lock()))
    }

    /// The name of its store, or the names of its stores, joined: the label `store`.
    pub fn store_label<'a>(&self, name: impl Fn(StoreIndex) -> Option<&'a Arc<str>>) -> Arc<str> {
        match self.stores() {
            [store] => name(*store).map_or_else(|| "".into(), Arc::clone),
            all => {
                let names = all.iter().filter_map(|store| name(*store).map(|it| &**it));
                names.collect::<Vec<_>>().join("+").into()
            }
        }
    }

    /// How often it runs, if its lock exists only while a run lasts.
    pub fn runs(&self) -> Option<&RunsSpec> {
        self.lock()?.runs.as_deref()
    }

    /// The turns, if it is of that kind.
    pub fn turn(&self) -> Option<&TurnSpec> {
        if let KindSpec::Turn(turn) = &self.kind { Some(turn) } else { None }
    }

    /// The queue, if it is of that kind.
    pub fn queue(&self) -> Option<&QueueSpec> {
        if let KindSpec::Queue(queue) = &self.kind { Some(queue) } else { None }
    }

    /// A claim is alive while its bytes changed within this time, in milliseconds.
    pub(crate) fn fresh_for_ms(&self) -> u64 {
        self.claims.as_ref().map_or(0, |claims| claims.fresh_for_ms)
    }

    /// Whether somebody must always wait to take over: its label `standby` is `required`.
    pub fn needs_standby(&self) -> bool {
        self.labels.iter().any(|(name, value)| (&**name, &**value) == ("standby", "required"))
    }

    /// Whether the task can be wanted. If not, it is never down.
    pub fn may_be_wanted(&self) -> bool {
        self.wanted.as_ref().is_some_and(|wanted| wanted.source != WantedSource::Never)
    }

    /// Whether switches say that it is wanted. If not, none can be lost.
    pub fn has_switches(&self) -> bool {
        let source = self.wanted.as_ref().map(|wanted| &wanted.source);
        !matches!(source, None | Some(WantedSource::Always | WantedSource::Never))
    }
}

/// The switches by which users say whether they want the task.
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

/// A value that the work itself changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct ProgressSpec {
    /// The key that holds it.
    pub source: ProgressSource,
    /// What counts as a movement. `None`: its bytes, and its own deadline while these were never
    /// seen to change.
    pub moves: Option<Moves>,
    /// Without a change for longer than this, the task is stalled. In milliseconds.
    pub stale_after_ms: u64,
}

named! {
    /// What of a progress moves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(rename_all = "snake_case"))]
    pub enum Moves {
        /// Its bytes.
        Value = "value",
        /// Its deadline: forward.
        Deadline = "deadline",
    }
}

impl ProgressSpec {
    /// Default of [`ProgressSpec::stale_after_ms`].
    pub const STALE_AFTER_MS: u64 = 300_000;
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
    /// The length of a list, set or sorted set; of a stream what [`ProgressSource::Stream`] is.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Length(Key),
    /// The score of a member of a sorted set.
    Score {
        /// The sorted set.
        #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
        key: Key,
        /// The member.
        #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
        member: Vec<u8>,
    },
    /// How many entries were ever added to a stream.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    Stream(Key),
}

impl ProgressSource {
    /// The key.
    pub fn key(&self) -> &Key {
        match self {
            ProgressSource::HashField { key, .. }
            | ProgressSource::Key(key)
            | ProgressSource::Length(key)
            | ProgressSource::Score { key, .. }
            | ProgressSource::Stream(key) => key,
        }
    }
}

/// The hash in which each worker states that it is running this task: a field per instance, whose
/// value the worker keeps changing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(deny_unknown_fields))]
pub struct ClaimsSpec {
    /// The hash.
    #[cfg_attr(feature = "serde", serde(with = "crate::bytes"))]
    pub key: Key,
    /// A claim is alive while its bytes changed within this time, in milliseconds.
    pub fresh_for_ms: u64,
}

impl ClaimsSpec {
    /// Default of [`ClaimsSpec::fresh_for_ms`].
    pub const FRESH_FOR_MS: u64 = 10_000;
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
