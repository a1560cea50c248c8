//! The simulated world that a timeline's verbs change: one server with one lock, its workers, and
//! its users' switches.

use std::collections::BTreeMap;

use lockwatch_judge::input::{Attestation, Generation, Role};
use lockwatch_judge::reading::{
    ClaimsReading, Deadline, Ends, Extras, GuardReading, GuardRuns, Held, Holder, LockReading,
    Mode, Parts, PauseReading, ProgressReading, ProgressValue, RunsReading, Switch,
    SwitchesReading, TaskReading, Unknown,
};
use lockwatch_judge::time::{Mono, ServerTime};

use super::setup::Setup;

/// The agent's monotonic clock when a timeline begins.
pub(crate) const MONO_ORIGIN_MS: u64 = 500_000_000;
/// The server's clock when a timeline begins.
pub(crate) const SERVER_ORIGIN_MS: i64 = 1_790_000_000_000;
/// Time that a waiter in `lock()` needs to take over, in milliseconds.
const TAKE_OVER_MS: u64 = 2;

/// The agent's clock at `at` milliseconds after the beginning.
pub(crate) fn mono(at: u64) -> Mono {
    Mono::at(MONO_ORIGIN_MS + at)
}

/// The holders of the lock, and its deadline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lock {
    pub(crate) mode: Mode,
    /// Workers, each with its number of entries.
    pub(crate) holders: BTreeMap<String, u32>,
    pub(crate) ghosts: u32,
    /// On the server's clock; `None`: no TTL.
    pub(crate) deadline: Option<i64>,
}

/// What the work writes: a count, and when it ends on the server's clock; `None`: it has no TTL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Progress {
    pub(crate) count: u64,
    pub(crate) deadline: Option<i64>,
}

/// A recurring event.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) what: Beat,
    pub(crate) every: u64,
    pub(crate) next: u64,
}

/// The effect of a timer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Beat {
    /// The worker's watchdog sets the lease.
    Renew { who: String, lease: u64 },
    /// The worker changes its claim.
    Claim { who: String },
    /// The progress is written: its count grows, or its TTL is renewed, or both.
    Progress { moves: bool, ttl: Option<u64> },
    /// The worker leaves the lock, once.
    GiveBack { who: String },
}

/// The data that replication transfers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Data {
    lock: Option<Lock>,
    switches: BTreeMap<String, Switch>,
    switch_ends: BTreeMap<String, i64>,
    switches_end: Option<i64>,
    counter: Option<i64>,
    claims: BTreeMap<String, u64>,
    progress: Option<Progress>,
    token: Option<i64>,
    pause: PauseReading,
}

impl Beat {
    /// The worker that the timer belongs to.
    pub(crate) fn who(&self) -> Option<&str> {
        match self {
            Beat::Renew { who, .. } | Beat::Claim { who } | Beat::GiveBack { who } => Some(who),
            Beat::Progress { .. } => None,
        }
    }
}

/// A part of the reading that fails separately until an instant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Veil {
    pub(crate) why: Unknown,
    pub(crate) until: u64,
}

/// The whole world.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) clock_step_ms: i64,
    pub(crate) lock: Option<Lock>,
    /// Workers that wait in `lock()`, with their leases, in order of arrival.
    pub(crate) waiters: Vec<(String, u64)>,
    pub(crate) take_over_at: Option<u64>,
    pub(crate) timers: Vec<Timer>,
    pub(crate) switches: BTreeMap<String, Switch>,
    /// When switches end that have a TTL of their own, on the server's clock.
    pub(crate) switch_ends: BTreeMap<String, i64>,
    /// When the key of the switches ends.
    pub(crate) switches_end: Option<i64>,
    /// The number of users that want the task, if a counter holds it; a negative number is no
    /// count.
    pub(crate) counter: Option<i64>,
    pub(crate) claims: BTreeMap<String, u64>,
    /// What guards state of the runs of their scripts.
    pub(crate) runs: BTreeMap<String, GuardRuns>,
    pub(crate) progress: Option<Progress>,
    pub(crate) token: Option<i64>,
    pub(crate) pause: PauseReading,
    pub(crate) generation: Generation,
    pub(crate) generation_hidden: bool,
    /// Bytes of its replication history.
    pub(crate) offset: u64,
    /// Too few replicas follow it, so it refuses writes.
    pub(crate) refuses_writes: bool,
    /// It is a replica, so it refuses writes.
    pub(crate) follows: bool,
    pub(crate) torn_until: u64,
    pub(crate) lock_veil: Option<Veil>,
    pub(crate) switches_veil: Option<Veil>,
    pub(crate) progress_veil: Option<Veil>,
    pub(crate) claims_veil: Option<Veil>,
}

impl World {
    /// A fresh Redis: no lock, no switch, no worker.
    pub(crate) fn new() -> World {
        World {
            now: 0,
            clock_step_ms: 0,
            lock: None,
            waiters: Vec::new(),
            take_over_at: None,
            timers: Vec::new(),
            switches: BTreeMap::new(),
            switch_ends: BTreeMap::new(),
            switches_end: None,
            counter: None,
            claims: BTreeMap::new(),
            runs: BTreeMap::new(),
            progress: None,
            token: None,
            pause: PauseReading::None,
            generation: Generation {
                process: b"run-1".to_vec(),
                history: b"repl-1".to_vec(),
                forked_from: None,
                flushes: 0,
                slot_flushes: 0,
                evictions: 0,
                evicts_only_with_ttl: false,
                started_empty: Some(false),
            },
            generation_hidden: false,
            offset: 1_000,
            refuses_writes: false,
            follows: false,
            torn_until: 0,
            lock_veil: None,
            switches_veil: None,
            progress_veil: None,
            claims_veil: None,
        }
    }

    /// The server's clock.
    pub(crate) fn server_now(&self) -> i64 {
        SERVER_ORIGIN_MS + self.now as i64 + self.clock_step_ms
    }

    /// The instant of the next event.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let timers = self.timers.iter().map(|timer| timer.next);
        timers.chain(self.expires_at()).chain(self.take_over_at).min()
    }

    /// Processes all events that are due by `now`.
    pub(crate) fn advance(&mut self, now: u64) {
        while let Some(due) = self.next_event().filter(|due| *due <= now) {
            self.now = due;
            self.run_timers();
            if self.expires_at().is_some_and(|at| at <= due) {
                self.release();
            }
            if self.take_over_at.is_some_and(|at| at <= due) {
                self.take_over();
            }
        }
        self.now = now;
    }

    /// Skips a time in which the server was stopped: expired keys are removed, and clients did
    /// nothing.
    pub(crate) fn skip_to(&mut self, now: u64) {
        self.now = now;
        for timer in self.timers.iter_mut().filter(|timer| timer.next <= now) {
            timer.next = now + timer.every;
        }
        if self.expires_at().is_some_and(|at| at <= now) {
            self.release();
        }
    }

    /// The data that replication transfers.
    pub(crate) fn data(&self) -> Data {
        Data {
            lock: self.lock.clone(),
            switches: self.switches.clone(),
            switch_ends: self.switch_ends.clone(),
            switches_end: self.switches_end,
            counter: self.counter,
            claims: self.claims.clone(),
            progress: self.progress,
            token: self.token,
            pause: self.pause,
        }
    }

    /// Takes over replicated data.
    pub(crate) fn put(&mut self, data: Data) {
        self.lock = data.lock;
        self.switches = data.switches;
        self.switch_ends = data.switch_ends;
        self.switches_end = data.switches_end;
        self.counter = data.counter;
        self.claims = data.claims;
        self.progress = data.progress;
        self.token = data.token;
        self.pause = data.pause;
    }

    /// The remaining lease, if it ends.
    pub(crate) fn ttl_ms(&self) -> Option<i64> {
        Some(self.lock.as_ref()?.deadline? - self.server_now())
    }

    /// Removes the lock; a waiter takes it a moment later.
    pub(crate) fn release(&mut self) {
        self.lock = None;
        self.take_over_at = (!self.waiters.is_empty()).then_some(self.now + TAKE_OVER_MS);
    }

    /// Lets `who` take the free lock.
    pub(crate) fn acquire(&mut self, who: &str, mode: Mode, lease: u64) {
        let deadline = Some(self.server_now() + lease as i64);
        self.lock = Some(Lock {
            mode,
            holders: BTreeMap::from([(who.to_owned(), 1)]),
            ghosts: 0,
            deadline,
        });
        self.take_over_at = None;
    }

    /// Renews the lease if `who` still holds the lock; otherwise does nothing.
    pub(crate) fn renew(&mut self, who: &str, lease: u64) -> bool {
        let deadline = self.server_now() + lease as i64;
        match &mut self.lock {
            Some(lock) if lock.holders.contains_key(who) => {
                lock.deadline = Some(deadline);
                true
            }
            _ => false,
        }
    }

    /// The runs of this guard.
    pub(crate) fn guard(&mut self, who: &str) -> &mut GuardRuns {
        self.runs.entry(who.to_owned()).or_insert_with(|| GuardRuns {
            instance: who.as_bytes().to_vec(),
            host: format!("web-{}", who.to_lowercase()).into_bytes(),
            ended: Vec::new(),
            since: None,
        })
    }

    /// The reading of a sample at this instant.
    pub(crate) fn reading(&self, setup: &Setup) -> TaskReading {
        let (progress, claims, pause) = setup.reads();
        let extras = Extras {
            waiters: Some(self.waiters.len() as u64),
            fencing_token: self.token,
            queue: None,
        };
        TaskReading {
            guard: GuardReading::Lock { lock: self.read_lock(setup.library()), extras },
            parts: Parts {
                runs: match claims && self.veiled(self.claims_veil).is_none() {
                    true => {
                        RunsReading { guards: self.runs.values().cloned().collect(), unreadable: 0 }
                    }
                    false => RunsReading::default(),
                },
                switches: setup.has_switches().then(|| self.read_switches(setup)),
                progress: progress.then(|| match self.veiled(self.progress_veil) {
                    Some(why) => ProgressReading::Unknown(why),
                    None => self.read_progress(setup),
                }),
                claims: claims.then(|| match self.veiled(self.claims_veil) {
                    Some(why) => ClaimsReading::Unknown(why),
                    None => ClaimsReading::Read(
                        self.claims
                            .iter()
                            .map(|(who, count)| {
                                (who.clone().into_bytes(), count.to_string().into_bytes())
                            })
                            .collect(),
                    ),
                }),
                pause: pause.then_some(self.pause),
                ..Parts::default()
            },
        }
    }

    /// What the server reports about itself at this instant.
    pub(crate) fn attestation(&self) -> Attestation {
        let now = ServerTime::at(self.server_now());
        Attestation {
            first: now,
            last: now,
            role: Role::Master,
            role_verified: true,
            offset: None,
            refuses_writes: None,
            replicas: Vec::new(),
            generation: (!self.generation_hidden).then(|| self.generation.clone()),
            clock_offset_ms: now.ms() - mono(self.now).ms() as i64,
        }
    }

    /// When the lock's deadline has passed (Redis keeps a key through the millisecond of its
    /// deadline).
    pub(crate) fn expires_at(&self) -> Option<u64> {
        let deadline = self.lock.as_ref()?.deadline?;
        let left = deadline.saturating_sub(self.server_now()).saturating_add(1).max(0);
        Some(self.now.saturating_add(left as u64))
    }

    fn run_timers(&mut self) {
        let now = self.now;
        let mut due = Vec::new();
        for timer in self.timers.iter_mut().filter(|timer| timer.next <= now) {
            due.push(timer.what.clone());
            timer.next = now + timer.every;
        }
        for beat in due {
            match &beat {
                _ if self.refuses_writes || self.follows => {}
                Beat::GiveBack { who } => {
                    if self.lock.as_ref().is_some_and(|lock| lock.holders.contains_key(who)) {
                        self.release();
                    }
                    self.timers.retain(|timer| timer.what != beat);
                }
                // A watchdog whose lock is gone drops its entry.
                Beat::Renew { who, lease } if !self.renew(who, *lease) => {
                    self.timers.retain(|timer| timer.what != beat);
                }
                Beat::Renew { .. } => {}
                Beat::Claim { who } => *self.claims.entry(who.clone()).or_insert(0) += 1,
                Beat::Progress { moves, ttl } => self.write_progress(*moves, *ttl),
            }
        }
    }

    fn take_over(&mut self) {
        self.take_over_at = None;
        if self.lock.is_none() && !self.waiters.is_empty() {
            let (who, lease) = self.waiters.remove(0);
            self.acquire(&who, Mode::Exclusive, lease);
        }
    }

    /// Writes the progress: the next count, or the same one again.
    pub(crate) fn write_progress(&mut self, moves: bool, ttl: Option<u64>) {
        let count = self.there().map_or(0, |progress| progress.count);
        let deadline = ttl.map(|ttl| self.server_now() + ttl as i64);
        self.progress = Some(Progress { count: count + u64::from(moves), deadline });
    }

    /// The progress, unless it has expired. Redis keeps a key through the millisecond of its
    /// deadline.
    fn there(&self) -> Option<Progress> {
        self.progress.filter(|progress| progress.deadline.is_none_or(|at| at >= self.server_now()))
    }

    fn read_progress(&self, setup: &Setup) -> ProgressReading {
        let Some(Progress { count, deadline }) = self.there() else {
            return ProgressReading::Absent;
        };
        let deadline = match deadline {
            _ if self.now < self.torn_until => Deadline::Torn,
            Some(at) => Deadline::At(ServerTime::at(at)),
            None => Deadline::Never,
        };
        let value = ProgressValue::lasting(count.to_string().into_bytes());
        ProgressReading::Value(match setup.progress_is_length {
            true => ProgressValue { whole: deadline, ..value },
            false => ProgressValue { own: Ok(deadline), ..value },
        })
    }

    fn veiled(&self, veil: Option<Veil>) -> Option<Unknown> {
        veil.filter(|veil| self.now < veil.until).map(|veil| veil.why)
    }

    fn read_lock(&self, library: &str) -> LockReading {
        if let Some(why) = self.veiled(self.lock_veil) {
            return LockReading::Unknown(why);
        }
        let Some(lock) = &self.lock else {
            return LockReading::Free;
        };
        let holders = lock.holders.iter().map(|(who, entries)| {
            let (client, thread) = client_and_thread(who);
            Holder {
                client: client.as_bytes().to_vec(),
                thread: (library == "redisson").then(|| thread.as_bytes().to_vec()),
                entries: (library == "redisson").then_some(*entries),
                secret: library == "string",
            }
        });
        let deadline = match lock.deadline {
            _ if self.now < self.torn_until => Deadline::Torn,
            Some(at) => Deadline::At(ServerTime::at(at)),
            None => Deadline::Never,
        };
        LockReading::from(Held {
            mode: lock.mode,
            holders: holders.collect(),
            ghosts: lock.ghosts,
            deadline,
        })
    }

    fn read_switches(&self, setup: &Setup) -> SwitchesReading {
        if let Some(why) = self.veiled(self.switches_veil) {
            return SwitchesReading::Unknown(why);
        }
        let seen = |switch: &Switch| !(setup.off_is_gone() && *switch == Switch::Off);
        let is_over = |end: Option<&i64>| end.is_some_and(|end| *end < self.server_now());
        let there = |user: &String| {
            !is_over(self.switches_end.as_ref()) && !is_over(self.switch_ends.get(user))
        };
        let switches: Vec<_> = self
            .switches
            .iter()
            .filter(|(user, switch)| seen(switch) && there(user))
            .map(|(user, switch)| (user.clone().into_bytes(), switch.clone()))
            .collect();
        let own = self.switch_ends.iter().filter(|(user, _)| self.switches.contains_key(*user));
        let ends = Ends {
            key: self.switches_end.map_or(Deadline::Never, |at| Deadline::At(ServerTime::at(at))),
            own: own.map(|(user, at)| (user.clone().into_bytes(), ServerTime::at(*at))).collect(),
        };
        if setup.counts() {
            let switch = |count: i64| match count {
                0 => Switch::Off,
                1.. => Switch::On,
                _ => Switch::Undecodable { value: count.to_string().into_bytes(), fits: None },
            };
            let switches = self.counter.map(|count| (b"outbound:count".to_vec(), switch(count)));
            return SwitchesReading::Read {
                key_exists: switches.is_some(),
                switches: switches.into_iter().collect(),
                counted: u64::try_from(self.counter.unwrap_or(0)).ok(),
                whole: true,
                ends,
            };
        }
        SwitchesReading::Read {
            key_exists: !switches.is_empty(),
            switches,
            counted: None,
            whole: true,
            ends,
        }
    }
}

/// `A2` is another thread of `A`, whose first one is `A`.
fn client_and_thread(worker: &str) -> (&str, &str) {
    let client = worker.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let thread = worker.strip_prefix(client).filter(|thread| !thread.is_empty());
    (client, thread.unwrap_or("1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_there_through_its_deadline_and_a_waiter_takes_over_two_milliseconds_after() {
        let mut world = World::new();
        world.acquire("A", Mode::Exclusive, 30_000);
        world.waiters.push(("B".to_owned(), 30_000));
        world.advance(30_000);
        assert!(world.lock.as_ref().is_some_and(|lock| lock.holders.contains_key("A")));
        world.advance(30_001);
        assert!(world.lock.is_none());
        world.advance(30_003);
        let lock = world.lock.expect("B holds it");
        assert!(lock.holders.contains_key("B"));
        assert_eq!(lock.deadline, Some(SERVER_ORIGIN_MS + 60_003));
    }

    #[test]
    fn a_watchdog_renews_only_what_it_holds_and_then_drops_its_entry() {
        let mut world = World::new();
        world.acquire("A", Mode::Exclusive, 30_000);
        let what = Beat::Renew { who: "A".to_owned(), lease: 30_000 };
        world.timers.push(Timer { what, every: 10_015, next: 10_015 });
        world.advance(25_000);
        assert_eq!(
            world.lock.as_ref().and_then(|lock| lock.deadline),
            Some(SERVER_ORIGIN_MS + 50_030)
        );
        world.release();
        world.advance(40_000);
        assert!(world.timers.is_empty());
    }

    #[test]
    fn a_step_of_the_servers_clock_brings_the_deadline_nearer() {
        let mut world = World::new();
        world.acquire("A", Mode::Exclusive, 30_000);
        world.clock_step_ms = 10_000;
        assert_eq!(world.expires_at(), Some(20_001));
        assert_eq!(
            world.attestation().clock_offset_ms,
            SERVER_ORIGIN_MS - MONO_ORIGIN_MS as i64 + 10_000
        );
    }

    #[test]
    fn a_switch_that_is_off_leaves_nothing_in_a_set() {
        let mut world = World::new();
        world.switches.insert("anna".to_owned(), Switch::Off);
        let mut setup = Setup::default();
        let SwitchesReading::Read { switches, key_exists, .. } = world.read_switches(&setup) else {
            panic!("readable");
        };
        assert_eq!((switches.len(), key_exists), (1, true));
        setup.set(&["wanted", "set"]).expect("a known setting");
        let empty = SwitchesReading::Read {
            switches: Vec::new(),
            key_exists: false,
            counted: None,
            whole: true,
            ends: Ends { key: Deadline::Never, own: Vec::new() },
        };
        assert_eq!(world.read_switches(&setup), empty);
    }
}
