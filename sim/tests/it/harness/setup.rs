//! The configuration of the one task that a timeline watches.

use std::sync::Arc;

use lockwatch_judge::spec::{
    ClaimsSpec, Codec, LockSpec, Moves, ProgressSource, ProgressSpec, RunsSpec, StoreIndex,
    StoreSpec, TaskSpec, WantedSource, WantedSpec, WatchSpec,
};
use lockwatch_watch::redis::{RedisKind, libraries};

use super::text::duration;

/// The settings of `config` and `reload` lines.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// Number of reloads.
    pub(crate) epoch: u32,
    /// How the servers are organised.
    pub(crate) kind: RedisKind,
    present: bool,
    neighbour: bool,
    key: String,
    library: &'static str,
    wanted: Option<WantedSource>,
    lease_ms: Option<u64>,
    renew_every_ms: Option<u64>,
    stale_after_ms: Option<u64>,
    pub(crate) progress_is_length: bool,
    moves: Option<Moves>,
    fresh_for_ms: Option<u64>,
    pause: bool,
    standby: bool,
    grace_ms: u64,
    settle_ms: u64,
    wind_down_ms: u64,
    blind_after_ms: u64,
    max_hold_ms: Option<u64>,
    /// `runs`, if there is an `every`.
    every_ms: Option<u64>,
    late_after_ms: Option<u64>,
    max_ms: Option<u64>,
    /// Pause between two samples.
    pub(crate) interval_ms: u64,
    /// Maximum duration of a sample.
    pub(crate) timeout_ms: u64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            epoch: 1,
            kind: RedisKind::Standalone,
            present: true,
            neighbour: false,
            key: "outbound:lock".to_owned(),
            library: "redisson",
            wanted: Some(WantedSource::Hash(b"outbound:users".to_vec())),
            lease_ms: None,
            renew_every_ms: None,
            stale_after_ms: None,
            progress_is_length: false,
            moves: None,
            fresh_for_ms: None,
            pause: false,
            standby: false,
            grace_ms: 20_000,
            settle_ms: 5_000,
            wind_down_ms: 30_000,
            blind_after_ms: 60_000,
            max_hold_ms: None,
            every_ms: None,
            late_after_ms: None,
            max_ms: None,
            interval_ms: 1_000,
            timeout_ms: 3_000,
        }
    }
}

impl Setup {
    /// Applies a name and a value.
    pub(crate) fn set(&mut self, words: &[&str]) -> Result<(), String> {
        let [name, value] = words else {
            return Err(format!("`{}`: a name and one value, please", words.join(" ")));
        };
        match *name {
            "kind" => self.kind = kind(value)?,
            "task" => self.present = yes_or_no(value)?,
            "neighbour" => self.neighbour = yes_or_no(value)?,
            "key" => self.key = (*value).to_owned(),
            "library" => self.library = library(value)?,
            "wanted" => self.wanted = wanted(value)?,
            "lease" => self.lease_ms = optional(value)?,
            "renew_every" => self.renew_every_ms = optional(value)?,
            "progress" => self.stale_after_ms = optional(value)?,
            "moves" => {
                let moves = Moves::ALL.into_iter().find(|moves| moves.name() == *value);
                self.moves = Some(moves.ok_or("value or deadline, please")?);
            }
            "progress_is_length" => self.progress_is_length = yes_or_no(value)?,
            "claims" => self.fresh_for_ms = optional(value)?,
            "every" => self.every_ms = optional(value)?,
            "late_after" => self.late_after_ms = optional(value)?,
            "max" => self.max_ms = optional(value)?,
            "max_hold" => self.max_hold_ms = optional(value)?,
            "pause" => self.pause = yes_or_no(value)?,
            "standby" => self.standby = yes_or_no(value)?,
            "grace" => self.grace_ms = duration(value)?,
            "settle" => self.settle_ms = duration(value)?,
            "wind_down" => self.wind_down_ms = duration(value)?,
            "blind_after" => self.blind_after_ms = duration(value)?,
            "interval" => self.interval_ms = duration(value)?,
            "timeout" => self.timeout_ms = duration(value)?,
            _ => return Err(format!("there is no setting `{name}`")),
        }
        Ok(())
    }

    /// The configuration for the state.
    pub(crate) fn spec(&self) -> Arc<WatchSpec> {
        let mut tasks = Vec::new();
        if self.neighbour {
            tasks.push(Arc::new(self.task("another", "another:lock")));
        }
        if self.present {
            tasks.push(Arc::new(self.task("outbound", &self.key)));
        }
        let redis = StoreSpec {
            interval_ms: self.interval_ms,
            timeout_ms: self.timeout_ms,
            ..self.kind.store("main", &["a:6379"])
        };
        Arc::new(WatchSpec { stores: vec![redis], tasks, epoch: self.epoch })
    }

    /// The position of the task in the configuration; `None` when it was removed.
    pub(crate) fn position(&self) -> Option<u32> {
        self.present.then_some(u32::from(self.neighbour))
    }

    /// The lock's layout.
    pub(crate) fn library(&self) -> &'static str {
        self.library
    }

    /// Whether there are switches to read.
    pub(crate) fn has_switches(&self) -> bool {
        !matches!(self.wanted, None | Some(WantedSource::Always | WantedSource::Never))
    }

    /// Whether an "off" leaves no entry, as in a set.
    pub(crate) fn off_is_gone(&self) -> bool {
        matches!(self.wanted, Some(WantedSource::Set(_)))
    }

    /// Whether a counter holds the number of users that want the task.
    pub(crate) fn counts(&self) -> bool {
        matches!(self.wanted, Some(WantedSource::Counter(_)))
    }

    /// Whether progress, claims and pause are to be read.
    pub(crate) fn reads(&self) -> (bool, bool, bool) {
        (self.stale_after_ms.is_some(), self.fresh_for_ms.is_some(), self.pause)
    }

    fn task(&self, name: &str, key: &str) -> TaskSpec {
        let bytes = |text: &str| text.as_bytes().to_vec();
        let lock = LockSpec {
            lease_ms: self.lease_ms,
            renew_every_ms: self.renew_every_ms,
            runs: self.every_ms.map(|every_ms| {
                let runs = RunsSpec::new(every_ms);
                let late_after_ms = self.late_after_ms.unwrap_or(runs.late_after_ms);
                RunsSpec { late_after_ms, max_ms: self.max_ms, ..runs }.into()
            }),
            ..libraries::lock(key.as_bytes(), self.library)
        };
        TaskSpec {
            wanted: self.wanted.clone().map(|source| WantedSpec { source, codec: Codec::Raw }),
            progress: self.stale_after_ms.map(|stale_after_ms| {
                Box::new(ProgressSpec {
                    source: match self.progress_is_length {
                        true => ProgressSource::Length(bytes("outbound:queue")),
                        false => ProgressSource::Key(bytes("outbound:progress")),
                    },
                    moves: self.moves,
                    stale_after_ms,
                })
            }),
            claims: self.fresh_for_ms.map(|fresh_for_ms| {
                ClaimsSpec { key: bytes("lockwatch:claims:outbound"), fresh_for_ms }.into()
            }),
            paused_until: self.pause.then(|| bytes("outbound:pause")),
            labels: Vec::from_iter(
                self.standby.then(|| (Arc::from("standby"), Arc::from("required"))),
            ),
            grace_ms: self.grace_ms,
            settle_ms: self.settle_ms,
            wind_down_ms: self.wind_down_ms,
            blind_after_ms: self.blind_after_ms,
            max_hold_ms: self.max_hold_ms,
            ..TaskSpec::new(name, StoreIndex(0), lock)
        }
    }
}

fn yes_or_no(value: &str) -> Result<bool, String> {
    match value {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(format!("`{value}` is neither yes nor no")),
    }
}

fn optional(value: &str) -> Result<Option<u64>, String> {
    if value == "none" { Ok(None) } else { duration(value).map(Some) }
}

fn kind(value: &str) -> Result<RedisKind, String> {
    let all = RedisKind::ALL;
    all.into_iter()
        .find(|kind| kind.name() == value)
        .ok_or_else(|| format!("there is no kind `{value}`"))
}

fn library(value: &str) -> Result<&'static str, String> {
    let known = libraries::names().find(|name| *name == value);
    known.ok_or_else(|| format!("there is no library `{value}`"))
}

fn wanted(value: &str) -> Result<Option<WantedSource>, String> {
    Ok(Some(match value {
        "unset" => return Ok(None),
        "hash" => WantedSource::Hash(b"outbound:users".to_vec()),
        "hash2" => WantedSource::Hash(b"outbound:users:2".to_vec()),
        "set" => WantedSource::Set(b"outbound:users".to_vec()),
        "counter" => WantedSource::Counter(b"outbound:count".to_vec()),
        "keys" => WantedSource::Keys(vec![b"outbound:anna".to_vec(), b"outbound:bert".to_vec()]),
        "always" => WantedSource::Always,
        "never" => WantedSource::Never,
        _ => return Err(format!("there is no kind of switches `{value}`")),
    }))
}
