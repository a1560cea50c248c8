//! What is known of one server, and what is under way to it.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::input::{Role, Standing};
use lockwatch_judge::reading::{Held, Unknown, User};
use lockwatch_judge::spec::{TaskIndex, TaskSpec, position_of};
use lockwatch_judge::time::Mono;

use super::flight::{Flight, PartsRead, What};
use crate::redis::RedisKind;
use crate::redis::accept::Caps;
use crate::redis::handshake::Handshake;
use crate::redis::link::Link;
use crate::redis::plan::Duty;
use crate::redis::read::Followed;
use crate::redis::schedule::Schedule;
use crate::redis::store::HostPort;
use crate::redis::tasks::{Assignment, spec};
use crate::redis::tracking::WakeUps;

/// One server.
#[derive(Debug)]
pub(in crate::redis) struct Node {
    pub(super) at: HostPort,
    pub(super) address: Arc<str>,
    pub(super) handshake: Handshake,
    pub(super) interval_ms: u64,
    pub(super) timeout_ms: u64,
    /// Whether other servers may show other holders.
    pub(super) has_others: bool,
    pub(super) duty: Duty,
    pub(super) schedule: Schedule,
    /// The role that it reported last.
    pub(super) role: Option<Role>,
    /// When a witness is asked for its role next.
    pub(super) pulse_at: Mono,
    /// Reads to do of parts of tasks whose locks are on other servers, and which servers those are.
    pub(super) remote_parts: VecDeque<PartsRead>,
    pub(super) link: Link,
    /// Batches in flight, in the order in which they were sent; replies come in the same order.
    pub(super) flights: VecDeque<Flight>,
    /// Total age of the unanswered requests that reloads dropped, in milliseconds. Any answer
    /// resets it.
    pub(super) unanswered_ms: u64,
    /// Number of batches in flight that a reload dropped; their replies are still to come.
    pub(super) dropped: usize,
    /// Why there is no connection; `None` before the first dial has ended, and while connected.
    pub(super) lost: Option<Unknown>,
    /// The capabilities of the newest connection.
    pub(super) caps: Option<Caps>,
    /// The commands that this server answered with an error of no known kind.
    pub(super) refused: BTreeSet<String>,
    /// What this server said of tasks last, by task and reason: no more than there are tasks.
    pub(super) said_of: BTreeMap<(TaskIndex, Unknown), Arc<str>>,
    /// The batch that is sent with the greeting of the current dial.
    pub(super) opening: Option<Flight>,
    /// Number of its commands.
    pub(super) opening_len: usize,
    pub(super) nonces: u64,
    pub(super) wake_ups: WakeUps,
    /// Of each queue, the members that the next reading looks up, too.
    pub(super) followed: BTreeMap<TaskIndex, Vec<Followed>>,
    /// Of each hash of switches, the fields of which the next reading asks when they end.
    pub(super) fields: BTreeMap<TaskIndex, Arc<[User]>>,
    /// The newest reading of each lock whose owner's field may end by itself.
    pub(super) owners: BTreeMap<TaskIndex, Arc<Held>>,
    /// The locks that are fields and whose values were short when they were read last by this
    /// connection, so that no round asks for their length first.
    pub(super) short_fields: BTreeSet<TaskIndex>,
}

impl Node {
    /// A server without a duty yet.
    pub(in crate::redis) fn new(
        at: HostPort,
        address: Arc<str>,
        Assignment { store, sizes, .. }: &Assignment,
        now: Mono,
    ) -> Node {
        let kind = store.servers.kind();
        Node {
            at,
            address,
            handshake: Handshake::new(store.db, store.assume_master, kind == RedisKind::Cluster),
            interval_ms: store.interval_ms,
            timeout_ms: store.timeout_ms,
            has_others: kind != RedisKind::Standalone,
            duty: Duty::none(),
            schedule: Schedule::sized(Vec::new(), store.interval_ms, now, *sizes),
            role: None,
            pulse_at: now,
            remote_parts: VecDeque::new(),
            link: Link::new(now),
            flights: VecDeque::new(),
            unanswered_ms: 0,
            dropped: 0,
            lost: None,
            caps: None,
            refused: BTreeSet::new(),
            said_of: BTreeMap::new(),
            opening: None,
            opening_len: 0,
            nonces: 0,
            wake_ups: WakeUps::default(),
            followed: BTreeMap::new(),
            fields: BTreeMap::new(),
            owners: BTreeMap::new(),
            short_fields: BTreeSet::new(),
        }
    }

    pub(in crate::redis) fn address(&self) -> &Arc<str> {
        &self.address
    }

    pub(super) fn spec(&self, task: TaskIndex) -> Option<Arc<TaskSpec>> {
        spec(&self.duty.all, task)
    }

    /// Whether the lock of a task is read here.
    pub(super) fn owns(&self, task: TaskIndex) -> bool {
        position_of(task, &self.duty.own, |(index, _)| *index).is_some()
    }

    /// The standing of an answer. Parts are always read from a server that decides
    /// about them.
    pub(super) fn standing(&self, what: &What) -> Standing {
        if matches!(what, What::Parts(_)) { Standing::Decides } else { self.duty.standing }
    }
}
