//! Queues of delayed tasks: members come, workers execute them under locks of their own, and what
//! goes wrong with both.

mod faults;

use std::sync::Arc;

use super::state::{Execution, Queues, World};
use crate::event::{Event, QueueJob};
use crate::plan::QueueAct;
use crate::request::Members;
use crate::server::{Entry, Value};

/// Pause between two changes of a claim.
const CLAIM_MS: u64 = 2_000;

impl World {
    fn queues(&mut self, task: usize) -> &mut Queues {
        self.tasks[task].queues.as_mut().unwrap_or_else(|| unreachable!("it is a queue"))
    }

    pub(super) fn queue_after(&mut self, task: usize, ms: u64, job: QueueJob) {
        self.queue.push(self.now + ms, Event::Queue { task, job });
    }

    /// The members of a queue as a server has them, each with who holds its lock; `None`: they may
    /// not be read.
    pub(crate) fn members(&self, task: usize, server: usize) -> Option<Members> {
        let queue = self.plan.spec.tasks[task].queue()?;
        let key = &self.tasks[task].keys.lock;
        let state = &self.servers[server];
        let is_allowed = |key: &[u8]| {
            state.forbids.as_deref().is_none_or(|ending| !key.ends_with(ending))
                && !state.away.iter().any(|tag| key.starts_with(tag))
        };
        let members = match state.get(key, self.now).map(|entry| &entry.value) {
            _ if state.alone || !is_allowed(key) => return None,
            Some(Value::Scores(members, _)) => members.as_slice(),
            None => &[],
            Some(_) => return None,
        };
        let lock = |id: &[u8]| match &state.get(&queue.lock_of(id)?, self.now)?.value {
            Value::Text(token) => Some(token.clone()),
            _ => None,
        };
        Some(members.iter().map(|(id, due)| (id.clone(), *due, lock(id))).collect())
    }

    /// The lock of a member.
    fn member_lock(&mut self, task: usize, id: &[u8]) -> Arc<[u8]> {
        let spec = Arc::clone(&self.plan.spec.tasks[task]);
        let key: Arc<[u8]> =
            spec.queue().and_then(|queue| queue.lock_of(id)).unwrap_or_default().into();
        self.member_keys.entry(Arc::clone(&key)).or_insert_with(|| (task, id.to_vec()));
        key
    }

    fn edit_scores(&mut self, task: usize, change: impl FnOnce(&mut Vec<(Vec<u8>, i64)>)) {
        let (home, now) = (self.homes[task], self.now);
        let unit = self.queues(task).plan.unit;
        let key = Arc::clone(&self.tasks[task].keys.lock);
        let there = self.servers[home].get(&key, now).is_some();
        let mut is_empty = false;
        self.servers[home].edit(&key, now, Value::Scores(Vec::new(), unit), |value| {
            if let Value::Scores(members, _) = value {
                change(members);
                members.sort_by(|one, other| (one.1, &one.0).cmp(&(other.1, &other.0)));
                is_empty = members.is_empty();
            }
        });
        if is_empty && !there {
            self.servers[home].put(&key, None, now);
        }
        self.note_changes();
    }

    pub(super) fn start_queue(&mut self, task: usize) {
        self.note_queue(self.homes[task], task);
        self.queue_after(task, 100, QueueJob::Add);
        for worker in 0..self.queues(task).workers.len() {
            let ms = self.tasks[task].rng.within(100, 1_500);
            self.queue_after(task, ms, QueueJob::Look { worker });
        }
    }

    pub(super) fn queue_job(&mut self, task: usize, job: QueueJob) {
        let home = self.homes[task];
        let now = self.now;
        if !self.servers[home].writable() {
            return self.queue_after(task, 900, job);
        }
        let is_of = |world: &mut World, worker: usize, number: u64| {
            world.queues(task).workers[worker].number == number
        };
        match job {
            QueueJob::Add => {
                let most_ms = 2 * self.queues(task).plan.each_ms;
                let ms = self.tasks[task].rng.within(500, most_ms);
                self.queue_after(task, ms, QueueJob::Add);
                self.add_members(task, 1);
            }
            QueueJob::Look { worker } => self.look_for_member(task, worker),
            QueueJob::Claim { worker, number, token } if is_of(self, worker, number) => {
                if let Some(claims) = self.tasks[task].keys.claims.clone() {
                    let value = now.to_string().into_bytes();
                    self.servers[home].edit(&claims, now, Value::Hash(Vec::new()), |fields| {
                        if let Value::Hash(fields) = fields {
                            fields.retain(|(field, _)| *field != token);
                            fields.push((token.clone(), value));
                        }
                    });
                    let executions = &mut self.queues(task).executions;
                    let mut own = executions.iter_mut().filter(|one| one.token == token);
                    own.next_back().into_iter().for_each(|one| one.claimed = now);
                    self.note_changes();
                    self.queue_after(task, CLAIM_MS, QueueJob::Claim { worker, number, token });
                }
            }
            QueueJob::Renew { worker, number, id, token } if is_of(self, worker, number) => {
                let lock_ms = self.queues(task).plan.lock_ms;
                if self.holds(task, &id, &token) {
                    self.write_member_lock(task, &id, &token, lock_ms);
                    let job = QueueJob::Renew { worker, number, id, token };
                    self.queue_after(task, lock_ms / 3, job);
                }
            }
            QueueJob::Done { worker, number, id, token } if is_of(self, worker, number) => {
                self.finish_member(task, worker, &id, &token);
                self.queue_after(task, 5, QueueJob::Look { worker });
            }
            _ => {}
        }
    }

    fn add_members(&mut self, task: usize, count: u64) {
        let at = self.servers[self.homes[task]].clock.at(self.now);
        let mut new = Vec::new();
        for _ in 0..count {
            let later_ms = self.tasks[task].rng.below(20_000);
            let queues = self.queues(task);
            queues.added += 1;
            let id = format!("m{}", queues.added).into_bytes();
            new.push((id, at + i64::try_from(later_ms).unwrap_or(0)));
        }
        new.iter().for_each(|(id, _)| _ = self.member_lock(task, id));
        self.edit_scores(task, |members| members.extend(new));
    }

    fn holds(&mut self, task: usize, id: &[u8], token: &[u8]) -> bool {
        let key = self.member_lock(task, id);
        let entry = self.servers[self.homes[task]].get(&key, self.now);
        entry.is_some_and(|entry| entry.value == Value::Text(token.to_vec()))
    }

    fn write_member_lock(&mut self, task: usize, id: &[u8], token: &[u8], ms: u64) {
        let key = self.member_lock(task, id);
        let (home, now) = (self.homes[task], self.now);
        let deadline = self.servers[home].clock.at(now + ms);
        let entry = Entry { value: Value::Text(token.to_vec()), deadline: Some(deadline) };
        self.servers[home].put(&key, Some(entry), now);
        self.note_changes();
    }

    /// A worker looks for a member that is due and free.
    fn look_for_member(&mut self, task: usize, worker: usize) {
        let (home, now) = (self.homes[task], self.now);
        let stopped_until = self.queues(task).workers[worker].stopped_until;
        let again_ms = self.tasks[task].rng.within(700, 1_500);
        if stopped_until > now {
            return self.queue_after(task, stopped_until - now, QueueJob::Look { worker });
        }
        let shown = self.servers[home].clock.at(now);
        let passed_over = self.queues(task).passed_over.clone().filter(|(_, until)| *until > now);
        let due: Vec<Vec<u8>> = self
            .scores(task, home)
            .into_iter()
            .take_while(|(_, due)| *due <= shown)
            .map(|(id, _)| id)
            .filter(|id| passed_over.as_ref().is_none_or(|(other, _)| other != id))
            .take(20)
            .collect();
        let free = due.into_iter().find(|id| {
            let key = self.member_lock(task, id);
            self.servers[home].get(&key, now).is_none()
        });
        let Some(id) = free else {
            return self.queue_after(task, again_ms, QueueJob::Look { worker });
        };
        let queues = self.queues(task);
        queues.tokens += 1;
        queues.workers[worker].number += 1;
        let number = queues.workers[worker].number;
        let token = format!("70c3-{task}-{worker}-{}", queues.tokens).into_bytes();
        let (least, most) = queues.plan.work_ms;
        let lock_ms = queues.plan.lock_ms;
        let renews = queues.plan.renews;
        let how = queues
            .next
            .take_if(|(what, _)| matches!(what, QueueAct::Long | QueueAct::Die | QueueAct::Retry));
        queues.executions.push(Execution {
            id: id.clone(),
            token: token.clone(),
            from: now,
            to: None,
            claimed: 0,
        });
        self.write_member_lock(task, &id, &token, lock_ms);
        self.queue_job(task, QueueJob::Claim { worker, number, token: token.clone() });
        let work_ms = self.tasks[task].rng.within(least, most);
        match how {
            Some((QueueAct::Die, ms)) => {
                let die_ms = work_ms / 2;
                self.queue_after(task, die_ms + ms, QueueJob::Look { worker });
                let worker = &mut self.queues(task).workers[worker];
                (worker.stopped_until, worker.number) = (now + die_ms + ms, number + 1);
                return self.execution_ends(task, &token);
            }
            Some((QueueAct::Retry, _)) => {
                let shown = self.servers[home].clock.at(now + 15_000);
                self.edit_scores(task, |members| {
                    members.iter_mut().filter(|it| it.0 == id).for_each(|it| it.1 = shown);
                });
            }
            _ => {}
        }
        let is_long = matches!(how, Some((QueueAct::Long, _)));
        let work_ms = if is_long { lock_ms + 25_000 } else { work_ms };
        if renews && !is_long {
            let (id, token) = (id.clone(), token.clone());
            self.queue_after(task, lock_ms / 3, QueueJob::Renew { worker, number, id, token });
        }
        self.queue_after(task, work_ms, QueueJob::Done { worker, number, id, token });
    }

    fn execution_ends(&mut self, task: usize, token: &[u8]) {
        let now = self.now;
        let executions = &mut self.queues(task).executions;
        executions.iter_mut().filter(|one| one.token == token).for_each(|one| one.to = Some(now));
    }

    fn finish_member(&mut self, task: usize, worker: usize, id: &[u8], token: &[u8]) {
        let (home, now) = (self.homes[task], self.now);
        self.queues(task).workers[worker].number += 1;
        self.execution_ends(task, token);
        let shown = self.servers[home].clock.at(now);
        // It is executed only if it is still there, and due.
        self.edit_scores(task, |members| members.retain(|it| it.0 != id || it.1 > shown));
        if let Some(claims) = self.tasks[task].keys.claims.clone() {
            self.servers[home].edit(&claims, now, Value::Hash(Vec::new()), |fields| {
                if let Value::Hash(fields) = fields {
                    fields.retain(|(field, _)| field != token);
                }
            });
        }
        let key = self.member_lock(task, id);
        if self.holds(task, id, token) || !self.queues(task).plan.looks_whose {
            self.servers[home].put(&key, None, now);
        }
        self.note_changes();
    }
}
