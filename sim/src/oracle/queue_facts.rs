//! What the readings of a queue showed.

use std::collections::BTreeMap;

use lockwatch_judge::spec::{QueueSpec, TaskSpec};
use lockwatch_judge::time::Mono;

use crate::agent::MONO_MS;
use crate::request::Members;
use crate::world::World;

/// The shortest `blind_after` of any plan, in milliseconds: what was unread for longer may not
/// count.
const BLIND_MS: u64 = 10_000;

/// No member must wait for so long until it is reported, in milliseconds.
const UNREAD_KEPT_MS: u64 = 3_600_000;

/// A slot has moved within that time, in milliseconds.
const MOVE_MS: u64 = 5_000;

/// Other clients are served for so long within an answer, in milliseconds.
pub(super) const BESIDE_MS: i64 = 400;

/// What the readings of one queue showed.
#[derive(Debug)]
pub(super) struct QueueFacts {
    pub(super) spec: QueueSpec,
    /// The newest attempt was answered.
    pub(super) is_read: bool,
    pub(super) newest: Option<Answer>,
    /// Stretches without an answer that may be too long to count: the first instant after each, and
    /// its length.
    pub(super) unread: Vec<(Mono, u64)>,
    pub(super) due: BTreeMap<Vec<u8>, Due>,
    /// When a member that was due was last seen to have left; or the first answer.
    pub(super) moved: Mono,
    /// At most so many members left without their lock having been seen held.
    pub(super) vanished: u64,
    /// How often another holder may seem to have begun, beyond what happened.
    pub(super) again: u64,
    pub(super) wanted_since: Option<Mono>,
}

/// A member that was due.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) due: i64,
    /// The agent certainly saw that it was due.
    pub(super) is_certain: bool,
    pub(super) was_locked: bool,
    /// When its lock was last seen held.
    pub(super) locked: Option<Mono>,
    /// The answer before the one that first showed it.
    pub(super) unseen: Mono,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub(super) sent: Mono,
    pub(super) server: usize,
    pub(super) members: Members,
    /// The server's clock at its beginning and at its end.
    pub(super) clock: (i64, i64),
    /// Nothing changed meanwhile.
    pub(super) is_sure: bool,
}

impl QueueFacts {
    pub(super) fn of(spec: &TaskSpec, now: u64) -> Option<QueueFacts> {
        let queue = spec.queue()?.clone();
        Some(QueueFacts {
            spec: queue,
            is_read: false,
            newest: None,
            unread: Vec::new(),
            due: BTreeMap::new(),
            moved: Mono::at(MONO_MS + now),
            vanished: 0,
            again: 0,
            wanted_since: None,
        })
    }

    /// A good answer.
    pub(super) fn answered(&mut self, answer: Answer) {
        let at = answer.sent;
        let unread_ms = self.newest.as_ref().map_or(0, |before| at.since_ms(before.sent));
        self.unread.extend((unread_ms > BLIND_MS).then_some((at, unread_ms)));
        self.unread.retain(|(until, _)| at.since_ms(*until) < UNREAD_KEPT_MS);
        let unseen = self.newest.as_ref().map_or(at, |before| before.sent);
        let is_other = self.newest.as_ref().is_some_and(|before| before.server != answer.server);
        if is_other {
            self.again += self.due.len() as u64;
        }
        let place = |id: &Vec<u8>| answer.members.iter().find(|(other, ..)| other == id);
        let mut moved = false;
        let vanished = &mut self.vanished;
        self.due.retain(|id, was| match place(id) {
            Some((_, due, _)) => {
                moved |= *due != was.due && was.is_certain;
                *due == was.due
            }
            None => {
                moved |= was.is_certain;
                *vanished += u64::from(!was.was_locked);
                false
            }
        });
        // What another server lacks may have been lost, or never have come there.
        if moved && !is_other {
            self.moved = at;
        }
        for (place, (id, due, lock)) in answer.members.iter().enumerate() {
            if *due > answer.clock.1 {
                continue;
            }
            let member = self.due.entry(id.clone()).or_insert(Due {
                due: *due,
                is_certain: false,
                was_locked: false,
                locked: None,
                unseen,
            });
            let is_certain = answer.is_sure && place < QueueSpec::FIRST;
            member.is_certain |= is_certain && *due + BESIDE_MS < answer.clock.0;
            if lock.is_some() {
                member.locked = Some(at);
                member.was_locked |= answer.is_sure;
            }
            // Of a member behind those that are looked at nothing is remembered.
            member.was_locked &= place < QueueSpec::FIRST;
        }
        self.newest = Some(answer);
        self.is_read = true;
    }

    /// These members may have been read, though that is not known.
    pub(super) fn may_have_read(&mut self, members: &Members, at: Mono, clock: i64) {
        let unseen = self.newest.as_ref().map_or(at, |before| before.sent);
        for (id, due, _) in members.iter().filter(|(_, due, _)| *due <= clock) {
            let new = Due { due: *due, is_certain: false, was_locked: false, locked: None, unseen };
            self.due.entry(id.clone()).or_insert(new);
        }
    }

    /// Whether something may have waited for too long, as the newest answer showed it.
    pub(super) fn may_be_late(
        &self,
        answer: &Answer,
        task: usize,
        slack_ms: u64,
        world: &World,
    ) -> bool {
        let limit_ms = self.spec.max_late_ms;
        let still_ms = answer.sent.since_ms(self.moved);
        let server = answer.server;
        let real = world.tasks[task].queues.as_ref();
        // By the clock of the server that decided before it may have been due earlier.
        let ruled_at = world.rulers.last().map_or(0, |(at, _)| *at);
        let stepped_at = world.settled_at.max(ruled_at);
        answer.members.iter().any(|(id, due, _)| {
            let known = self.due.get(id);
            let since_ms = |at| answer.sent.since_ms(at);
            let seen_ms = known.and_then(|known| known.locked).map_or(u64::MAX, since_ms);
            // What a restart or a failover brought back may have been there since it was not seen.
            let unseen_ms = known.map_or(0, |known| since_ms(known.unseen));
            // As long as it is so, the world says for how long it has truly been.
            let truly_ms = |at: usize| {
                let it = real.and_then(|real| real.members[at].get(id))?;
                // A lock that was taken and given back between two readings is not known.
                let since = it.due_since(&world.servers[at].clock, stepped_at, world.now)?;
                let is_back = it.gone.is_some_and(|(_, before)| before == *due);
                let back_ms = if is_back { unseen_ms } else { 0 };
                Some((world.now - since).max(back_ms) + slack_ms)
            };
            // Another server may have decided before: a replica gets late what its master has. And
            // it may have waited on the server from which its slot has moved.
            let has_moved = || {
                let own = real.and_then(|real| real.members[server].get(id));
                own.is_some_and(|it| world.moved_at[task].abs_diff(it.since) < MOVE_MS)
            };
            let truly_ms = truly_ms(server)
                .filter(|_| !has_moved())
                .and_then(|_| (0..world.servers.len()).filter_map(truly_ms).max())
                .unwrap_or(u64::MAX);
            // What was due by the clock before it stepped goes on waiting.
            let is_due = *due <= answer.clock.1 || known.is_some();
            let free_ms = if is_due { seen_ms.min(truly_ms) } else { 0 };
            free_ms > limit_ms && (still_ms > limit_ms || free_ms > 10 * limit_ms)
        })
    }
}
