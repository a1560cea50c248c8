//! Workers: they take a lock, renew it, work, and fail. For Redisson's locks they behave as
//! Redisson does.

use std::sync::Arc;

use lockwatch_judge::spec::{ProgressSource, WantedSource};

use super::state::{Hold, Task, Worker, World};
use crate::event::{Event, Heal, Job, WorkerTurn};
use crate::request::Says;
use crate::server::{Entry, Value};

/// Pause between two changes of a claim.
const CLAIM_MS: u64 = 2_000;

impl World {
    /// The server that a worker uses, if that accepts writes.
    pub(super) fn server_of(&self, task: usize, worker: usize) -> Option<usize> {
        let server = self.tasks[task].workers[worker].sticks_to.unwrap_or(self.homes[task]);
        self.servers[server].writable().then_some(server)
    }

    /// The server to which it writes its progress and claims, if that accepts writes.
    fn server_of_parts(&self, task: usize, worker: usize) -> Option<usize> {
        match self.plan.tasks[task].apart {
            true => Some(self.part_homes[task]).filter(|server| self.servers[*server].writable()),
            false => self.server_of(task, worker),
        }
    }

    /// Whether workers shall run, according to the server that they use, or the one with the
    /// switches.
    fn wanted_at(&self, server: usize, task: usize) -> bool {
        let server = if self.plan.tasks[task].apart { self.part_homes[task] } else { server };
        match self.plan.spec.tasks[task].wanted.as_ref().map(|wanted| &wanted.source) {
            None | Some(WantedSource::Always) => true,
            Some(WantedSource::Never) => false,
            Some(_) => self.says(server, task) == Says::Yes,
        }
    }

    /// The first waiting worker takes the lock, if it is free.
    pub(super) fn take_lock(&mut self, task: usize) {
        let count = self.tasks[task].workers.len();
        let first = self.tasks[task].rng.index(count);
        for worker in (0..count).map(|worker| (worker + first) % count) {
            let now = self.now;
            let who = &self.tasks[task].workers[worker];
            if !who.runs(now) || who.hold.is_some() || who.working {
                continue;
            }
            let ignores = who.ignores_off_until > now;
            let Some(server) = self.server_of(task, worker) else { continue };
            if !ignores && !self.wanted_at(server, task) {
                continue;
            }
            if self.acquire(task, worker, server) {
                return;
            }
        }
    }

    /// Takes the lock, if it is free on that server.
    pub(super) fn acquire(&mut self, task: usize, worker: usize, server: usize) -> bool {
        let key = Arc::clone(&self.tasks[task].keys.lock);
        if self.servers[server].get(&key, self.now).is_some() {
            return false;
        }
        let shape = self.plan.tasks[task].clone();
        let (lease_ms, renews) = (shape.lease_ms, !shape.fixed && !shape.churns);
        self.write_lock(task, worker, server, lease_ms, 1);
        self.worker_took(task, server);
        let now = self.now;
        let Task { workers, rng, runs, .. } = &mut self.tasks[task];
        let work_ms = runs.as_mut().map(|runs| runs.draw_work(rng));
        let who = &mut workers[worker];
        who.holds += 1;
        let number = who.holds;
        who.hold = Some(Hold { number, entries: 1, lease_ms, renews, since: now });
        who.working = true;
        let (first_renewal, first_progress) = (rng.within(1, lease_ms / 3), rng.within(5, 4_000));
        let leaves = match (shape.churns, shape.fixed) {
            _ if work_ms.is_some() => work_ms,
            (true, _) => Some(rng.within(3, 1_500)),
            (_, true) => Some(rng.within(lease_ms / 4, lease_ms * 12 / 10)),
            _ => None,
        };
        if renews {
            self.later(task, worker, first_renewal, Job::Renew(number));
        }
        if self.tasks[task].keys.claims.is_some() {
            self.later(task, worker, 1, Job::Claim(number));
        }
        if self.tasks[task].keys.progress.is_some() {
            self.later(task, worker, first_progress, Job::Progress(number));
        }
        if let Some(ms) = leaves {
            self.later(task, worker, ms, Job::Leave(number));
        }
        true
    }

    pub(super) fn later(&mut self, task: usize, worker: usize, ms: u64, job: Job) {
        let life = self.tasks[task].workers[worker].life;
        self.queue.push(self.now + ms, Event::Worker(WorkerTurn { task, worker, life, job }));
    }

    /// Writes the lock in its holder's form.
    pub(super) fn write_lock(
        &mut self,
        task: usize,
        worker: usize,
        server: usize,
        lease_ms: u64,
        entries: u32,
    ) {
        let who = &self.tasks[task].workers[worker];
        let value = match self.tasks[task].redisson {
            true => Value::Hash(vec![(who.field(), entries.to_string().into_bytes())]),
            false => Value::Text(who.token()),
        };
        let deadline =
            self.servers[server].clock.at(self.now) + i64::try_from(lease_ms).unwrap_or(0);
        let key = Arc::clone(&self.tasks[task].keys.lock);
        self.servers[server].put(&key, Some(Entry { value, deadline: Some(deadline) }), self.now);
        self.note_changes();
    }

    /// Whether the lock on that server belongs to this worker.
    pub(super) fn owns(&self, task: usize, worker: usize, server: usize) -> bool {
        let who = &self.tasks[task].workers[worker];
        match self.servers[server]
            .get(&self.tasks[task].keys.lock, self.now)
            .map(|entry| &entry.value)
        {
            Some(Value::Hash(fields)) => fields.iter().any(|(field, _)| *field == who.field()),
            Some(Value::Text(token)) => *token == who.token(),
            _ => false,
        }
    }

    /// Handles a worker's timer.
    pub(super) fn work(&mut self, turn: WorkerTurn) {
        let WorkerTurn { task, worker, life, job } = turn;
        let who = &self.tasks[task].workers[worker];
        if job == Job::Start {
            return self.start(task, worker, life);
        }
        if who.life != life || !who.alive {
            return;
        }
        if who.paused_until > self.now {
            // It continues where it was paused.
            let at = who.paused_until;
            return self.queue.push(at, Event::Worker(turn));
        }
        let number = who.hold.map(|hold| hold.number);
        match job {
            Job::Renew(of) if number == Some(of) => self.renew(task, worker, of),
            Job::Claim(of) if who.working && who.holds == of => {
                self.claim(task, worker);
                self.later(task, worker, CLAIM_MS, job);
            }
            Job::Progress(of) if who.working && who.holds == of => {
                self.progress(task, worker);
                let ms = self.tasks[task].rng.within(1_500, 4_500);
                self.later(task, worker, ms, job);
            }
            Job::Leave(of) if who.holds == of => self.leave(task, worker),
            Job::Exit(of) if number == Some(of) => self.exit(task, worker),
            Job::GiveUp if who.hold.is_none() => self.stop_work(task, worker),
            Job::Mend(of) if who.holds == of && number == Some(of) => {
                self.tasks[task].workers[worker].working = true;
                if self.tasks[task].keys.progress.is_some() {
                    self.later(task, worker, 1, Job::Progress(of));
                }
                if self.tasks[task].keys.claims.is_some() {
                    self.later(task, worker, 1, Job::Claim(of));
                }
            }
            _ => {}
        }
    }

    fn start(&mut self, task: usize, worker: usize, life: u32) {
        let who = &mut self.tasks[task].workers[worker];
        if who.life == life && !who.alive {
            *who = Worker { life: life + 1, ..Worker::new(task, worker) };
            self.contend(task, 20);
        }
    }

    fn renew(&mut self, task: usize, worker: usize, number: u64) {
        let Some(hold) = self.tasks[task].workers[worker].hold.filter(|hold| hold.renews) else {
            return;
        };
        let late = self.tasks[task].rng.within(5, 15);
        let Some(server) = self.server_of(task, worker) else {
            return self.later(task, worker, hold.lease_ms / 3 + late, Job::Renew(number));
        };
        if self.owns(task, worker, server) {
            let key = Arc::clone(&self.tasks[task].keys.lock);
            let deadline =
                self.servers[server].clock.at(self.now) + i64::try_from(hold.lease_ms).unwrap_or(0);
            let entry = self.servers[server].get(&key, self.now).cloned();
            let entry = entry.map(|entry| Entry { deadline: Some(deadline), ..entry });
            self.servers[server].put(&key, entry, self.now);
            self.later(task, worker, hold.lease_ms / 3 + late, Job::Renew(number));
        } else {
            // The watchdog gives up; the script is not notified.
            self.tasks[task].workers[worker].hold = None;
            let ms = if self.tasks[task].rng.percent(50) {
                300
            } else {
                self.tasks[task].rng.within(1_000, 60_000)
            };
            self.later(task, worker, ms, Job::GiveUp);
        }
    }

    fn claim(&mut self, task: usize, worker: usize) {
        let (Some(key), Some(server)) =
            (self.tasks[task].keys.claims.clone(), self.server_of_parts(task, worker))
        else {
            return;
        };
        let who = &mut self.tasks[task].workers[worker];
        who.claim += 1;
        let (instance, claim) = (who.instance(), who.claim.to_string().into_bytes());
        self.note_claim(task, &instance);
        self.servers[server].edit(&key, self.now, Value::Hash(Vec::new()), |value| {
            if let Value::Hash(fields) = value {
                fields.retain(|(field, _)| *field != instance);
                fields.push((instance, claim));
            }
        });
    }

    fn progress(&mut self, task: usize, worker: usize) {
        let (Some(key), Some(server)) =
            (self.tasks[task].keys.progress.clone(), self.server_of_parts(task, worker))
        else {
            return;
        };
        self.tasks[task].progress += 1;
        self.tasks[task].progress_at = self.now;
        let count = self.tasks[task].progress;
        let text = count.to_string().into_bytes();
        let now = self.now;
        match self.plan.spec.tasks[task].progress.as_ref().map(|progress| progress.source.clone()) {
            Some(ProgressSource::HashField { field, .. }) => {
                self.servers[server].edit(&key, now, Value::Hash(Vec::new()), |value| {
                    *value = Value::Hash(vec![(field, text)])
                });
            }
            Some(ProgressSource::Key(_)) => {
                let entry = self.beat(task, server, text);
                self.servers[server].put(&key, Some(entry), now);
            }
            Some(ProgressSource::Length(_)) => {
                self.servers[server]
                    .edit(&key, now, Value::List(0), |value| *value = Value::List(count));
            }
            Some(ProgressSource::Score { .. } | ProgressSource::Stream(_)) | None => {}
        }
    }

    /// A string that shows progress: what is written now, or a heartbeat.
    pub(super) fn beat(&self, task: usize, server: usize, text: Vec<u8>) -> Entry {
        let Some(ms) = self.plan.tasks[task].beats_ms else {
            return Entry { value: Value::Text(text), deadline: None };
        };
        let deadline = Some(self.servers[server].clock.at(self.now + ms));
        Entry { value: Value::Text(b"alive".to_vec()), deadline }
    }

    /// Releases the lock, if it still belongs to the worker, and stops.
    fn leave(&mut self, task: usize, worker: usize) {
        let Some(server) = self.server_of(task, worker) else {
            let number = self.tasks[task].workers[worker].holds;
            return self.later(task, worker, 2_000, Job::Leave(number));
        };
        if self.tasks[task].workers[worker].hold.is_some() && self.owns(task, worker, server) {
            let (now, runs) = (self.now, &mut self.tasks[task].runs);
            match runs.as_mut().and_then(|runs| runs.done(worker, now)) {
                Some(until) => self.keep_lock(task, server, until),
                None => {
                    self.note_release(task, worker, server);
                    self.remove_holder(task, worker, server);
                }
            }
        }
        self.tasks[task].workers[worker].hold = None;
        self.stop_work(task, worker);
        if self.plan.tasks[task].churns || self.plan.tasks[task].fixed {
            let ms = self.tasks[task].rng.within(0, 400);
            self.contend(task, ms);
        }
    }

    /// Its work is done, and the lock is kept for a rest.
    fn keep_lock(&mut self, task: usize, server: usize, until: u64) {
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let deadline = Some(self.servers[server].clock.at(until));
        let entry = self.servers[server].get(&key, self.now).cloned();
        let entry = entry.map(|entry| Entry { deadline, ..entry });
        self.servers[server].put(&key, entry, self.now);
    }

    /// Removes its field from the lock.
    pub(super) fn remove_holder(&mut self, task: usize, worker: usize, server: usize) {
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let field = self.tasks[task].workers[worker].field();
        match self.tasks[task].redisson {
            true => self.servers[server].edit(&key, self.now, Value::Hash(Vec::new()), |value| {
                if let Value::Hash(fields) = value {
                    fields.retain(|(name, _)| *name != field);
                }
            }),
            false => self.servers[server].put(&key, None, self.now),
        }
        self.note_changes();
    }

    fn exit(&mut self, task: usize, worker: usize) {
        let Some(hold) = self.tasks[task].workers[worker].hold.filter(|hold| hold.entries > 1)
        else {
            return;
        };
        let Some(server) = self.server_of(task, worker) else { return };
        if self.owns(task, worker, server) {
            self.write_lock(task, worker, server, self.plan.tasks[task].lease_ms, hold.entries - 1);
        }
        if let Some(hold) = &mut self.tasks[task].workers[worker].hold {
            hold.entries -= 1;
        }
    }

    /// Its script ends.
    pub(super) fn stop_work(&mut self, task: usize, worker: usize) {
        let was = std::mem::replace(&mut self.tasks[task].workers[worker].working, false);
        let tidy = was && self.tasks[task].rng.percent(60);
        if let (true, Some(key), Some(server)) =
            (tidy, self.tasks[task].keys.claims.clone(), self.server_of_parts(task, worker))
        {
            let instance = self.tasks[task].workers[worker].instance();
            self.servers[server].edit(&key, self.now, Value::Hash(Vec::new()), |value| {
                if let Value::Hash(fields) = value {
                    fields.retain(|(field, _)| *field != instance);
                }
            });
            self.note_unclaimed(task, &instance);
        }
        self.contend(task, 30);
    }

    /// The switches changed; workers notice that soon.
    pub(super) fn look_soon(&mut self, task: usize) {
        let ms = self.tasks[task].rng.within(50, 900);
        self.contend(task, ms);
        let ms = self.tasks[task].rng.within(100, 3_000);
        self.queue.push(self.now + ms, Event::Heal(Heal::Look { task }));
    }

    /// Workers check whether they are still wanted, and try to take the lock.
    pub(super) fn poll(&mut self, task: usize) {
        for worker in 0..self.tasks[task].workers.len() {
            let who = &self.tasks[task].workers[worker];
            let (number, working) = (who.holds, who.working || who.hold.is_some());
            if !who.runs(self.now) || !working || who.ignores_off_until > self.now {
                continue;
            }
            let Some(server) = self.server_of(task, worker) else { continue };
            if !self.wanted_at(server, task) {
                let ms = self.tasks[task].rng.within(10, 2_000);
                self.later(task, worker, ms, Job::Leave(number));
            }
        }
        self.take_lock(task);
    }
}
