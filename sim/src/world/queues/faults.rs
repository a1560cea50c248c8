//! What happens to queues and their workers.

use crate::plan::QueueAct;
use crate::world::state::World;

impl World {
    /// Something happens to a queue.
    pub(in crate::world) fn act_on_queue(&mut self, task: usize, what: QueueAct, ms: u64) {
        let (home, now) = (self.homes[task], self.now);
        if !self.servers[home].writable() || self.tasks[task].queues.is_none() {
            return;
        }
        let shown = self.servers[home].clock.at(now);
        let scores = self.scores(task, home);
        let head = scores.first().filter(|(_, due)| *due <= shown).map(|(id, _)| id.clone());
        match what {
            QueueAct::Long | QueueAct::Die | QueueAct::Retry => {
                self.queues(task).next = Some((what, ms));
            }
            QueueAct::StopAll => {
                let workers = &mut self.queues(task).workers;
                workers.iter_mut().for_each(|it| it.stopped_until = now + ms);
            }
            QueueAct::Burst => {
                let count = self.tasks[task].rng.within(10, 160);
                self.add_members(task, count);
            }
            QueueAct::PassOver => {
                let limit_ms = self.queues(task).plan.max_late_ms * 10;
                self.add_members(task, 1);
                let newest = format!("m{}", self.queues(task).added).into_bytes();
                let until = now + limit_ms + 20_000 + ms;
                self.queues(task).passed_over = Some((newest, until));
            }
            QueueAct::CleanUp => self.edit_scores(task, |members| {
                members.retain(|(_, due)| *due > shown);
            }),
            QueueAct::StaleLock => {
                let key = head.as_ref().map(|id| self.member_lock(task, id));
                let is_free = key.is_some_and(|key| self.servers[home].get(&key, now).is_none());
                if let (Some(id), true) = (head, is_free) {
                    self.write_member_lock(task, &id, b"57a1e", ms);
                }
            }
            QueueAct::Remove => {
                if let Some(id) = head {
                    self.edit_scores(task, |members| members.retain(|it| it.0 != id));
                }
            }
            QueueAct::Rescore => {
                if let Some(id) = head {
                    let later = shown + i64::try_from(ms).unwrap_or(0);
                    self.edit_scores(task, |members| {
                        members.iter_mut().filter(|it| it.0 == id).for_each(|it| it.1 = later);
                    });
                }
            }
        }
    }
}
