//! Records what becomes of members and their locks.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::server::Value;
use crate::truth::{Cause, Layout, LockState};
use crate::world::state::{Leave, World};

/// Members that left are remembered for so long.
const KEPT_MS: u64 = 900_000;

impl World {
    pub(in crate::world) fn scores(&self, task: usize, server: usize) -> Vec<(Vec<u8>, i64)> {
        let key = &self.tasks[task].keys.lock;
        match self.servers[server].get(key, self.now).map(|entry| &entry.value) {
            Some(Value::Scores(members, _)) => members.clone(),
            _ => Vec::new(),
        }
    }

    /// The set of a server has changed.
    pub(in crate::world) fn note_queue(&mut self, server: usize, task: usize) {
        let now = self.now;
        let there: BTreeMap<Vec<u8>, i64> = self.scores(task, server).into_iter().collect();
        let clock = self.servers[server].clock;
        let Some(queues) = &mut self.tasks[task].queues else { return };
        queues.changed_at[server] = now;
        let members = &mut queues.members[server];
        for id in there.keys() {
            members.entry(id.clone()).or_default();
        }
        for (id, member) in members.iter_mut() {
            let due = there.get(id).copied();
            if member.due == due {
                continue;
            }
            if let Some(old) = member.due {
                member.gone = Some((now, old));
                if old <= clock.at(now) {
                    queues.left[server].push(Leave { at: now });
                }
            }
            // What a restart brings back was executed before: who takes it now does it again.
            let is_back = due.is_none() || member.gone.is_some_and(|(_, old)| due == Some(old));
            if !is_back {
                member.holder = None;
            }
            (member.due, member.since) = (due, now);
        }
        members.retain(|_, member| {
            let is_old = member.gone.is_some_and(|(at, _)| at + KEPT_MS < now);
            member.due.is_some() || !is_old
        });
        queues.left[server].retain(|left| left.at + KEPT_MS > now);
        queues.executions.retain(|one| one.to.is_none_or(|to| to + KEPT_MS > now));
    }

    /// The lock of a member has changed.
    pub(in crate::world) fn note_member_lock(&mut self, server: usize, key: &Arc<[u8]>, at: u64) {
        let Some((task, id)) = self.member_keys.get(key).cloned() else { return };
        let state = LockState::of(self.servers[server].get(key, at), Layout::Text);
        let clock = self.servers[server].clock;
        let Some(queues) = &mut self.tasks[task].queues else { return };
        let member = queues.members[server].entry(id).or_default();
        if let LockState::Held { holders, .. } = &state
            && let Some((token, _)) = holders.first()
            && member.due.is_some()
        {
            let before = member.holder.replace(token.clone());
            queues.again += u64::from(before.is_some_and(|before| before != *token));
        }
        member.lock.note(state, Cause::Worker, &clock, at);
        queues.changed_at[server] = self.now;
    }
}
