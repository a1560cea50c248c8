//! A virtual Redis server: its own wall clock, data that expire by it, and a replication history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use lockwatch_judge::spec::Unit;

use crate::plan::Keeps;

/// Approximate initial time of all servers' clocks.
pub(crate) const EPOCH_MS: i64 = 1_790_000_000_000;
/// Number of writes kept for lagging replicas.
const BACKLOG: usize = 20_000;
/// Maximum age in milliseconds of the file that a server starts with.
const FILE_AGE_MS: u64 = 60_000;

/// The value of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(Vec<u8>),
    /// In the order of insertion.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
    Set(Vec<Vec<u8>>),
    List(u64),
    /// Members and their instants in milliseconds, in order; scores are in this unit.
    Scores(Vec<(Vec<u8>, i64)>, Unit),
    /// A hash that is larger than an agent reads.
    Huge,
}

/// A value and its expiry on the server's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) value: Value,
    pub(crate) deadline: Option<i64>,
}

/// A wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The time that it showed at the true instant `since`.
    shown: i64,
    since: u64,
    /// Its rate relative to true time, in millionths.
    drift_ppm: i64,
    /// Number of steps so far.
    pub(crate) steps: u32,
}

impl Clock {
    pub(crate) fn new(offset_ms: i64, drift_ppm: i64) -> Clock {
        Clock { shown: EPOCH_MS + offset_ms, since: 0, drift_ppm, steps: 0 }
    }

    pub(crate) fn at(&self, now: u64) -> i64 {
        let ran = i64::try_from(now - self.since).unwrap_or(0);
        self.shown + ran + ran * self.drift_ppm / 1_000_000
    }

    pub(crate) fn step(&mut self, now: u64, by_ms: i64) {
        self.shown = self.at(now) + by_ms;
        self.since = now;
        self.steps += 1;
    }

    /// The time that it showed at a true instant, unless it has stepped since.
    pub(crate) fn shown_at(&self, then: u64) -> Option<i64> {
        (then >= self.since).then(|| self.at(then))
    }

    /// The true instant at which it shows `instant`, if it does not step before; never before its
    /// newest step.
    pub(crate) fn when(&self, instant: i64) -> u64 {
        let left = instant - self.shown;
        let Ok(mut ran) = u64::try_from(left - left * self.drift_ppm / 1_000_000 - 2) else {
            return self.since;
        };
        while self.at(self.since + ran) < instant {
            ran += 1;
        }
        self.since + ran
    }
}

/// A write in the form sent to replicas: the whole new entry.
#[derive(Clone, Debug)]
struct Write {
    at: u64,
    /// The replication offset after it.
    offset: u64,
    what: Change,
}

/// The entry of a key before a write.
#[derive(Debug)]
struct Undo {
    at: u64,
    key: Arc<[u8]>,
    before: Option<Arc<Entry>>,
}

#[derive(Clone, Debug)]
enum Change {
    Put(Arc<[u8]>, Option<Arc<Entry>>),
    Flush,
}

/// The state of a server apart from its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Up,
    /// The process has ended.
    Down,
    /// It was stopped; incoming requests wait.
    Frozen,
    Loading,
    Busy,
}

/// The replication history of a process.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) run_id: u64,
    pub(crate) replication_id: u64,
    /// The history that this one continues, and the first byte that it does not share.
    pub(crate) forked_from: Option<(u64, u64)>,
    pub(crate) offset: u64,
    pub(crate) flushes: u64,
    pub(crate) evictions: u64,
    pub(crate) loaded_keys: u64,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: Arc<str>,
    pub(crate) clock: Clock,
    pub(crate) health: Health,
    /// Duration of each command in milliseconds.
    pub(crate) slow_ms: u64,
    /// New connections are refused with this error.
    pub(crate) refuses: Option<&'static str>,
    /// Commands that name a key with this ending are refused.
    pub(crate) forbids: Option<Vec<u8>>,
    pub(crate) history: History,
    /// It has an append-only file, so the amount of loaded data is unknown.
    pub(crate) append_only: bool,
    pub(crate) has_pexpiretime: bool,
    /// The server that it follows; `None`: it is a master.
    pub(crate) follows: Option<usize>,
    /// Its replication lag.
    pub(crate) lag_ms: u64,
    /// It receives nothing from its master.
    pub(crate) link_cut: bool,
    data: BTreeMap<Arc<[u8]>, Arc<Entry>>,
    /// The newest writes, for replicas.
    backlog: VecDeque<Write>,
    /// The entries that the writes replaced, for a start with an older file.
    undo: VecDeque<Undo>,
    stopped_at: u64,
    /// Keys whose changes are reported.
    pub(crate) changed: Vec<(u64, Arc<[u8]>)>,
    pub(crate) keeps_backlog: bool,
    pub(crate) info_text: (u64, Vec<u8>),
    pub(crate) replicas: Vec<Arc<str>>,
    /// Keys with these prefixes are on another server of the cluster.
    pub(crate) away: Vec<Vec<u8>>,
    /// It sees too few servers of its cluster, or has just started to: it serves nothing.
    pub(crate) alone: bool,
}

impl Server {
    pub(crate) fn new(address: &str, clock: Clock, run_id: u64) -> Server {
        Server {
            address: address.into(),
            clock,
            health: Health::Up,
            slow_ms: 0,
            refuses: None,
            forbids: None,
            history: History {
                run_id,
                replication_id: run_id.rotate_left(7),
                forked_from: None,
                offset: 0,
                flushes: 0,
                evictions: 0,
                loaded_keys: 0,
            },
            append_only: false,
            has_pexpiretime: true,
            follows: None,
            lag_ms: 1,
            link_cut: false,
            data: BTreeMap::new(),
            backlog: VecDeque::new(),
            undo: VecDeque::new(),
            stopped_at: 0,
            changed: Vec::new(),
            keeps_backlog: false,
            info_text: Default::default(),
            replicas: Vec::new(),
            away: Vec::new(),
            alone: false,
        }
    }

    /// Whether it accepts writes.
    pub(crate) fn writable(&self) -> bool {
        self.health == Health::Up && self.follows.is_none() && !self.alone
    }

    /// The entry of a key at `now`, if it has not expired by this server's clock.
    pub(crate) fn get(&self, key: &[u8], now: u64) -> Option<&Entry> {
        let entry = self.data.get(key)?;
        let over = entry.deadline.is_some_and(|deadline| deadline <= self.clock.at(now));
        (!over).then_some(&**entry)
    }

    /// When a key expires, if neither it nor the clock changes; `None`: never, or there is no such
    /// key.
    pub(crate) fn ends_at(&self, key: &[u8]) -> Option<u64> {
        Some(self.clock.when(self.data.get(key)?.deadline?))
    }

    /// Writes a key, or removes it.
    pub(crate) fn put(&mut self, key: &Arc<[u8]>, entry: Option<Entry>, now: u64) {
        let entry = entry.map(Arc::new);
        self.apply(&Change::Put(Arc::clone(key), entry.clone()), now);
        self.log(Change::Put(Arc::clone(key), entry), now, 60 + key.len() as u64);
    }

    /// Changes the value of a key and keeps its expiry; the key is created if absent.
    pub(crate) fn edit(
        &mut self,
        key: &Arc<[u8]>,
        now: u64,
        empty: Value,
        change: impl FnOnce(&mut Value),
    ) {
        let mut entry =
            self.get(key, now).cloned().unwrap_or(Entry { value: empty, deadline: None });
        change(&mut entry.value);
        let gone = match &entry.value {
            Value::Hash(fields) => fields.is_empty(),
            Value::Set(members) => members.is_empty(),
            Value::Scores(members, _) => members.is_empty(),
            Value::Text(_) | Value::List(_) | Value::Huge => false,
        };
        self.put(key, (!gone).then_some(entry), now);
    }

    /// `FLUSHALL`.
    pub(crate) fn flush(&mut self, now: u64) {
        self.history.flushes += 1;
        self.apply(&Change::Flush, now);
        self.log(Change::Flush, now, 18);
    }

    /// Removes expired keys. A server does that long before its clock may step back.
    pub(crate) fn expire(&mut self, now: u64) {
        let shown = self.clock.at(now);
        let over = |entry: &Entry| entry.deadline.is_some_and(|deadline| deadline <= shown);
        let keys: Vec<_> = self
            .data
            .iter()
            .filter(|(_, entry)| over(entry))
            .map(|(key, _)| Arc::clone(key))
            .collect();
        keys.iter().for_each(|key| self.put(key, None, now));
    }

    /// Removes a key to free memory.
    pub(crate) fn evict(&mut self, key: &Arc<[u8]>, now: u64) {
        if self.get(key, now).is_some() {
            self.history.evictions += 1;
            self.put(key, None, now);
        }
    }

    fn apply(&mut self, change: &Change, now: u64) {
        match change {
            Change::Put(key, entry) => {
                let before = self.set(key, entry.clone(), now);
                self.undo.push_back(Undo { at: now, key: Arc::clone(key), before });
            }
            Change::Flush => self.clear(now),
        }
        while self.undo.front().is_some_and(|undo| undo.at + FILE_AGE_MS < now) {
            self.undo.pop_front();
        }
    }

    /// Sets a key; returns the previous entry.
    fn set(&mut self, key: &Arc<[u8]>, entry: Option<Arc<Entry>>, now: u64) -> Option<Arc<Entry>> {
        self.changed.push((now, Arc::clone(key)));
        match entry {
            Some(entry) => self.data.insert(Arc::clone(key), entry),
            None => self.data.remove(key),
        }
    }

    fn clear(&mut self, now: u64) {
        for (key, entry) in std::mem::take(&mut self.data) {
            self.changed.push((now, Arc::clone(&key)));
            self.undo.push_back(Undo { at: now, key, before: Some(entry) });
        }
    }

    /// Restores the data of `until`.
    fn go_back(&mut self, until: u64, now: u64) {
        let kept = self.undo.partition_point(|undo| undo.at <= until);
        for undo in self.undo.split_off(kept).into_iter().rev() {
            self.set(&undo.key, undo.before, now);
        }
    }

    fn log(&mut self, what: Change, now: u64, bytes: u64) {
        self.history.offset += bytes;
        if self.keeps_backlog {
            if self.backlog.len() == BACKLOG {
                self.backlog.pop_front();
            }
            self.backlog.push_back(Write { at: now, offset: self.history.offset, what });
        }
    }

    /// The process ends.
    pub(crate) fn stop(&mut self, now: u64) {
        self.health = Health::Down;
        self.stopped_at = now;
    }

    /// Starts a new process with all or part of the old one's data. A replica keeps everything,
    /// including its offset.
    pub(crate) fn restart(&mut self, run_id: u64, keeps: Keeps, now: u64) {
        match keeps {
            Keeps::Nothing => self.clear(now),
            Keeps::AllBut { last_ms } if self.follows.is_none() => {
                self.go_back(self.stopped_at.saturating_sub(last_ms), now);
            }
            Keeps::AllBut { .. } | Keeps::All => {}
        }
        self.undo.clear();
        let mut history = History {
            run_id,
            flushes: 0,
            evictions: 0,
            loaded_keys: self.data.len() as u64,
            ..self.history.clone()
        };
        if self.follows.is_none() {
            // A master that returns starts its own history.
            history = History {
                replication_id: run_id.rotate_left(7),
                forked_from: None,
                offset: 0,
                ..history
            };
            self.backlog.clear();
        }
        self.history = history;
    }

    /// Takes over what its master wrote at least `lag_ms` ago.
    pub(crate) fn catch_up(&mut self, master: &Server, now: u64, lag_ms: u64) {
        if self.history.replication_id != master.history.replication_id {
            return;
        }
        let from = master.backlog.partition_point(|write| write.offset <= self.history.offset);
        let due: Vec<Write> = master
            .backlog
            .range(from..)
            .take_while(|write| write.at + lag_ms <= now)
            .cloned()
            .collect();
        for write in due {
            self.apply(&write.what, now);
            self.history.offset = write.offset;
        }
    }

    /// Copies all data of its master.
    pub(crate) fn full_sync(&mut self, master: &Server, now: u64) {
        self.clear(now);
        self.undo.clear();
        self.data = master.data.clone();
        self.changed.extend(self.data.keys().map(|key| (now, Arc::clone(key))));
        self.history.replication_id = master.history.replication_id;
        self.history.forked_from = master.history.forked_from;
        self.history.offset = master.history.offset;
    }

    /// Becomes a master that continues the history of its former master.
    pub(crate) fn promote(&mut self, replication_id: u64) {
        self.follows = None;
        self.history.forked_from = Some((self.history.replication_id, self.history.offset + 1));
        self.history.replication_id = replication_id;
        self.backlog.clear();
    }
}
