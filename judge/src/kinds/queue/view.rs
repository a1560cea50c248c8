//! What outputs show of a queue.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::entry::{Entry, Lock};
use super::state::{Counts, Queue};
use crate::evidence::Seen;
use crate::reading::Holder;
use crate::shared::hosts::Hosts;
use crate::spec::QueueSpec;
use crate::time::ServerTime;

/// What is known of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Number of members; `None` when unknown.
    pub members: Option<u64>,
    /// Number of members that are due; `None` when unknown.
    pub due: Option<u64>,
    /// When the next member will be due, on the server's clock; `None` when unknown, or none is.
    pub next: Option<ServerTime>,
    /// Number of locked members among those that are looked at; `None` when unknown, and without
    /// locks.
    pub executing: Option<u64>,
    /// Whether more members are due than are looked at; `None` when unknown.
    pub more: Option<bool>,
    /// How long the oldest due member has been due whose lock is free, in milliseconds; 0 if there
    /// is none. `None` when unknown, or if all that are looked at are locked and more are due.
    pub oldest_due_ms: Option<u64>,
    /// How long a member waits, or none left, once that is too long; otherwise 0. In milliseconds.
    pub late_ms: u64,
    /// When a due member left last, on the server's clock; `None`: this process saw none.
    pub moved: Option<ServerTime>,
    /// The members that are looked at, the oldest first.
    pub first: Box<[MemberView]>,
    /// Locks that outlived their members.
    pub orphans: Box<[OrphanView]>,
    /// Due members that left.
    pub departed: u64,
    /// Of them, those whose lock was ever seen held.
    pub departed_locked: u64,
    /// Due members that left and whose lock was never seen held.
    pub vanished: u64,
    /// Times that another holder began with a member.
    pub executed_again: u64,
    /// Locks that expired while their member stayed.
    pub expired: u64,
    /// Locks that outlived their member for too long.
    pub orphaned: u64,
}

/// A due member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Its id: what is named inside the member, else the member itself.
    pub id: Vec<u8>,
    /// When it was due, on the server's clock; 0 or earlier: at once.
    pub due: ServerTime,
    /// Who executes it: the holder of its lock.
    pub execution: Option<ExecutionView>,
    /// Whether its lock could not be read.
    pub is_unread: bool,
    /// How long it has waited for somebody to execute it, in milliseconds.
    pub free_ms: u64,
}

/// Who holds a member's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutionView {
    /// The holders, with their hosts if known.
    pub holders: Box<[(Holder, Option<Vec<u8>>)]>,
    /// When the lock ends, on the server's clock; `None`: never, or unknown. Nobody can execute the
    /// member before, unless the lock is released.
    pub until: Option<ServerTime>,
    /// Whether the holder fell silent.
    pub is_dead: bool,
}

/// A lock whose member left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrphanView {
    /// The id of the member.
    pub id: Vec<u8>,
    /// Who holds it.
    pub execution: ExecutionView,
}

impl Queue {
    /// What outputs show. Of a queue that cannot be read, nothing but what was counted.
    pub(crate) fn view(&self, spec: &QueueSpec, hosts: &Hosts) -> QueueView {
        let Counts { departed, executed, vanished, executed_again, expired, orphaned } =
            self.counts;
        let counts = QueueView {
            late_ms: self.late_ms(spec),
            moved: self.moved,
            departed,
            departed_locked: executed,
            vanished,
            executed_again,
            expired,
            orphaned,
            ..QueueView::default()
        };
        let Some(last) = self.attempts.last.filter(|_| self.attempts.newest.is_ok()) else {
            return counts;
        };
        let executing = self.entries.values().filter(|entry| entry.is_executing()).count();
        let executing = spec.lock.as_ref().and_then(|_| u64::try_from(executing).ok());
        QueueView {
            members: Some(self.members),
            due: Some(self.due),
            next: self.next,
            executing,
            more: Some(self.has_more()),
            oldest_due_ms: self.oldest_due_ms(last),
            first: self.first(hosts),
            orphans: self.orphans(hosts),
            ..counts
        }
    }

    fn oldest_due_ms(&self, last: Seen) -> Option<u64> {
        let age_ms = |entry: &Entry| match entry.due.ms() <= 0 {
            true => last.sent.since_ms(entry.first_seen),
            false => u64::try_from(last.first.since_ms(entry.due)).unwrap_or(0),
        };
        let there = || self.entries.values().filter(|entry| entry.gone_since.is_none());
        let waits = |entry: &&Entry| entry.waits() && !entry.is_unread;
        let oldest_ms = there().filter(waits).map(age_ms).max();
        let unread_ms = there().filter(|entry| entry.is_unread).map(age_ms).max();
        // An older one may wait whose lock cannot be read.
        if unread_ms > oldest_ms {
            return None;
        }
        oldest_ms.or((!self.has_more()).then_some(0))
    }

    fn first(&self, hosts: &Hosts) -> Box<[MemberView]> {
        let there = self.entries.iter().filter(|(_, entry)| entry.gone_since.is_none());
        let view = |(id, entry): (&Vec<u8>, &Entry)| MemberView {
            id: entry.shown(id).to_vec(),
            due: entry.due,
            execution: execution(entry, hosts),
            is_unread: entry.is_unread,
            free_ms: entry.free_ms(),
        };
        let mut first: Box<[MemberView]> = there.map(view).collect();
        first.sort_by_key(|member| member.due);
        first
    }

    fn orphans(&self, hosts: &Hosts) -> Box<[OrphanView]> {
        let gone = self.entries.iter().filter(|(_, entry)| entry.orphan_since().is_some());
        let view = |(id, entry): (&Vec<u8>, &Entry)| {
            let id = entry.shown(id).to_vec();
            Some(OrphanView { id, execution: execution(entry, hosts)? })
        };
        gone.filter_map(view).collect()
    }
}

fn execution(entry: &Entry, hosts: &Hosts) -> Option<ExecutionView> {
    let Lock::Held(held) = &entry.lock else { return None };
    let with_host = |holder: &Holder| (holder.clone(), hosts.of(&holder.client).cloned());
    let holders = held.holders.iter().map(with_host);
    let until = held.deadline.instant();
    Some(ExecutionView { holders: holders.collect(), until, is_dead: entry.is_dead })
}
