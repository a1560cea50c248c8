//! A server with a queue, and an agent that reads it once a second.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use std::format;

use crate::event::EventKind;
use crate::evidence::Origin;
use crate::grounds::Problem;
use crate::input::{Attestation, Generation, Standing};
use crate::problems::{Finding, Problems, of_task, task_finding};
use crate::reading::{
    ClaimsReading, Deadline, Ends, GuardReading, Held, Holder, Id, Left, LockReading, Member, Mode,
    Parts, Place, Queue, QueueReading, Switch, SwitchesReading, TaskReading,
};
use crate::snapshot::{QueueView, TaskView};
use crate::spec::{Authority, ClaimsSpec, KeyPattern, KindSpec, QueueSpec, StoreIndex, TaskSpec};
use crate::step::{Accepted, Log};
use crate::task::Task;
use crate::time::{Mono, ServerTime};
use crate::verdict::Verdict;

/// The server's clock when the agent's began.
pub(super) const EPOCH: i64 = 1_764_000_000_000;

/// A server with a queue, and an agent that reads it once a second.
pub(super) struct World {
    pub(super) task: Task,
    /// Seconds since the beginning.
    pub(super) now: u64,
    /// By how many seconds the server's clock has stepped.
    pub(super) ahead: i64,
    pub(super) set: BTreeMap<String, i64>,
    /// Who holds which lock, and until when, in seconds.
    pub(super) locks: BTreeMap<String, (String, i64)>,
    pub(super) claims: BTreeMap<String, String>,
    pub(super) wanted: Option<bool>,
    pub(super) seen: BTreeSet<String>,
    pub(super) generation: Arc<Generation>,
    pub(super) events: Vec<EventKind>,
}

pub(super) fn spec() -> QueueSpec {
    QueueSpec::new(b"tasks", KeyPattern::parse(b"lock_{id}").unwrap(), "string")
}

pub(super) fn at(seconds: i64) -> ServerTime {
    ServerTime::at(if seconds <= 0 { seconds } else { EPOCH + seconds * 1_000 })
}

impl World {
    pub(super) fn new() -> World {
        World::of(|_, _| {})
    }

    pub(super) fn of(change: impl Fn(&mut QueueSpec, &mut TaskSpec)) -> World {
        let mut queue = spec();
        let mut task = TaskSpec::of("delayed", StoreIndex(0), KindSpec::Queue(spec()));
        change(&mut queue, &mut task);
        task.kind = KindSpec::Queue(queue);
        let wanted = task.wanted.is_some().then_some(true);
        World {
            task: Task::new(Arc::new(task), "main".into(), Mono::at(0)),
            now: 100,
            ahead: 0,
            set: BTreeMap::new(),
            locks: BTreeMap::new(),
            claims: BTreeMap::new(),
            wanted,
            seen: BTreeSet::new(),
            generation: generation(b"a", 0),
            events: Vec::new(),
        }
    }

    pub(super) fn with_claims() -> World {
        World::of(|_, task| {
            task.claims = Some(ClaimsSpec { key: b"claims".to_vec(), fresh_for_ms: 5_000 }.into());
        })
    }

    pub(super) fn add(&mut self, id: &str, due: i64) -> &mut World {
        self.set.insert(id.into(), due);
        self
    }

    pub(super) fn lock(&mut self, id: &str, who: &str, until: i64) -> &mut World {
        self.locks.insert(id.into(), (who.into(), until));
        self
    }

    pub(super) fn unlock(&mut self, id: &str) -> &mut World {
        self.locks.remove(id);
        self
    }

    pub(super) fn remove(&mut self, id: &str) -> &mut World {
        self.set.remove(id);
        self
    }

    pub(super) fn claim(&mut self, who: &str) -> &mut World {
        let value = format!("{}", self.now);
        self.claims.insert(who.into(), value);
        self
    }

    /// The server's clock, in seconds.
    fn clock(&self) -> i64 {
        i64::try_from(self.now).unwrap() + self.ahead
    }

    pub(super) fn lock_of(&mut self, id: &str) -> LockReading {
        let now = self.clock();
        self.locks.retain(|_, (_, until)| *until > now);
        let Some((who, until)) = self.locks.get(id) else { return LockReading::Free };
        let client = who.as_bytes().to_vec();
        LockReading::from(Held {
            mode: Mode::Exclusive,
            holders: [Holder { client, thread: None, entries: None, secret: true }].to_vec(),
            ghosts: 0,
            deadline: Deadline::At(at(*until)),
        })
    }

    pub(super) fn queue(&mut self) -> Queue {
        let now = at(self.clock());
        let mut members: Vec<(ServerTime, String)> =
            self.set.iter().map(|(id, due)| (at(*due), id.clone())).collect();
        members.sort();
        let due = members.iter().filter(|(due, _)| *due <= now).count();
        members.truncate(QueueSpec::FIRST.min(due + 1));
        let seen = core::mem::take(&mut self.seen);
        let first = members.into_iter().map(|(due, id)| {
            let lock = (due <= now).then(|| self.lock_of(&id));
            Member { id: Id(id.as_bytes().to_vec()), name: None, due, lock }
        });
        let first: Vec<Member> = first.collect();
        self.seen = first
            .iter()
            .filter(|member| member.due <= now)
            .map(|member| String::from_utf8(member.id.0.clone()).unwrap())
            .collect();
        let gone: Vec<String> = seen.difference(&self.seen).cloned().collect();
        let mut left = Vec::new();
        for id in gone {
            let place = self.set.get(&id).map_or(Place::Gone, |due| Place::Due(at(*due)));
            let lock = self.lock_of(&id);
            if lock != LockReading::Free {
                self.seen.insert(id.clone());
            }
            left.push(Left { id: Id(id.into_bytes()), place, lock });
        }
        let members = u64::try_from(self.set.len()).unwrap();
        Queue { members, due: u64::try_from(due).unwrap(), first, left }
    }

    /// Reads what is there.
    pub(super) fn read(&mut self) -> &mut World {
        let queue = self.queue();
        self.takes(QueueReading::Read(queue))
    }

    pub(super) fn takes(&mut self, reading: QueueReading) -> &mut World {
        let clock = at(self.clock());
        let mut attestation = Attestation::master(clock, clock);
        attestation.generation = Some((*self.generation).clone());
        let origin = Arc::new(Origin {
            node: "a:6379".into(),
            clock_steps: u32::from(self.ahead != 0),
            generation: Some(Arc::clone(&self.generation)),
            histories: Arc::default(),
            offset: None,
            authority: Authority::ALONE,
        });
        let batch = Accepted {
            sent: Mono::at(self.now * 1_000),
            attestation: &attestation,
            origin: &origin,
            continued: None,
            unflushed_since: None,
            standing: Standing::Decides,
            store: StoreIndex(0),
            interval_ms: 1_000,
            timeout_ms: 3_000,
            took_ms: 0,
        };
        let claims = self.task.spec().claims.as_ref().map(|_| {
            let pair =
                |(who, value): (&String, &String)| (who.clone().into(), value.clone().into());
            ClaimsReading::Read(self.claims.iter().map(pair).collect())
        });
        let switches = self.wanted.map(|wanted| SwitchesReading::Read {
            switches: [(b"u1".to_vec(), if wanted { Switch::On } else { Switch::Off })].to_vec(),
            key_exists: true,
            counted: None,
            whole: true,
            ends: Ends::UNKNOWN,
        });
        let parts = Parts { claims, switches, ..Parts::default() };
        let reading = TaskReading { guard: GuardReading::Queue(reading), parts };
        let mut log = Log::new(Mono::at(self.now * 1_000), Some(clock));
        self.task.observe(&reading, batch, &mut log);
        self.events.extend(log.events(self.task.spec(), None).map(|event| event.kind));
        self
    }

    /// A second passes, and the queue is read.
    pub(super) fn second(&mut self) -> &mut World {
        self.now += 1;
        self.read()
    }

    pub(super) fn seconds(&mut self, seconds: u64) -> &mut World {
        for _ in 0..seconds {
            self.second();
        }
        self
    }

    pub(super) fn view(&mut self) -> TaskView {
        self.task.view(Mono::at(self.now * 1_000))
    }

    pub(super) fn shown(&mut self) -> QueueView {
        self.view().queue().unwrap().clone()
    }

    pub(super) fn verdict(&mut self) -> Verdict {
        self.view().verdict
    }

    pub(super) fn found(&mut self, problem: Problem) -> Finding {
        let at = Mono::at(self.now * 1_000);
        task_finding(problem, &self.view(), at)
    }

    pub(super) fn problems(&mut self) -> Problems {
        let at = Mono::at(self.now * 1_000);
        of_task(&self.view(), at, None)
    }

    /// The events since this was last asked, but for verdicts.
    pub(super) fn reported(&mut self) -> Vec<EventKind> {
        let reported = core::mem::take(&mut self.events);
        reported.into_iter().filter(|kind| !matches!(kind, EventKind::Verdict { .. })).collect()
    }

    /// Members `from` and after it are executed, each for two seconds by a worker of its own.
    pub(super) fn execute(&mut self, from: usize, number: usize) -> &mut World {
        for number in from..from + number {
            let (id, now) = (format!("m{number}"), i64::try_from(self.now).unwrap());
            self.add(&id, now).lock(&id, &format!("w{number}"), now + 60).seconds(2);
            self.remove(&id).unlock(&id).second();
        }
        self
    }
}

pub(super) fn generation(process: &[u8], flushes: u64) -> Arc<Generation> {
    Arc::new(Generation {
        process: process.to_vec(),
        history: b"h".to_vec(),
        flushes,
        ..Generation::default()
    })
}
