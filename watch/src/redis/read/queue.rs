//! Reads a queue of delayed tasks, in two rounds: first which members come first, then whether they
//! are still there, and their locks.
//!
//! Whatever its size, at most five commands are about the set itself, and the locks of a bounded
//! number of members are read. Members that were seen before and are none of the first now are
//! looked up, too: what became of them, and of their locks.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::lock::Lock;
use crate::command;
use crate::redis::accept::{Caps, server_time};
use crate::redis::ask::{Ask, Class, Keys};
use crate::redis::instant;
use crate::redis::libraries;
use crate::redis::replies::Replies;
use crate::redis::reply::{Command, Reply};
use lockwatch_judge::reading::{
    Id, Left, LockReading, Member, Place, Queue, QueueReading, Unknown,
};
use lockwatch_judge::spec::{QueueSpec, Unit};
use lockwatch_judge::time::ServerTime;

/// How many locks of members that left are read.
const LEFT_MAX: usize = QueueSpec::FIRST;

/// How a queue is read in one round.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Which members come first. `before`: those that were looked at in the reading before.
    First { before: Vec<Id> },
    /// What is in these places now, and the locks.
    Places(Sight),
}

/// What the first round showed.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    now: ServerTime,
    members: u64,
    /// The first members that are due.
    first: Vec<Id>,
    /// Members that were looked at before, and are none of them.
    left: Vec<Id>,
    /// The first member that is not due yet.
    next: Option<Member>,
}

impl Sight {
    /// Whether more members may be due.
    fn is_full(&self) -> bool {
        self.first.len() >= QueueSpec::FIRST
    }

    fn ids(&self) -> impl Iterator<Item = &Id> {
        self.first.iter().chain(&self.left)
    }
}

/// A queue to be read.
#[derive(Clone, Copy)]
pub(super) struct QueueRead<'a> {
    pub(super) spec: &'a QueueSpec,
    pub(super) caps: Caps,
}

impl QueueRead<'_> {
    /// What is asked.
    pub(super) fn asks(self, stage: &Stage, out: &mut Vec<Ask>) {
        let zset = &self.spec.zset;
        match stage {
            Stage::First { .. } => {
                out.push(Ask::keyless(Class::Clock, command!("TIME")));
                out.push(Ask::new(Class::Number, command!("ZCARD", zset)));
                let last = format!("{}", QueueSpec::FIRST);
                let first = command!("ZRANGE", zset, "0", last, "WITHSCORES");
                out.push(Ask::new(Class::Scores, first));
            }
            Stage::Places(sight) => {
                if sight.is_full() {
                    let now = score(sight.now, self.spec.unit);
                    out.push(Ask::new(Class::Number, command!("ZCOUNT", zset, "-inf", now)));
                }
                self.place_asks(sight, out);
                sight.ids().for_each(|id| self.with_lock(id, |lock| lock.brief_asks(out)));
            }
        }
    }

    /// Everything that may ever be asked.
    pub(super) fn all_asks(self, out: &mut Vec<Ask>) {
        self.asks(&Stage::First { before: Vec::new() }, out);
        let zset = &self.spec.zset;
        out.push(Ask::new(Class::Number, command!("ZCOUNT", zset, "-inf", "0")));
        let any = Id(Vec::new());
        let (now, members) = (ServerTime(0), 0);
        let sight = Sight { now, members, first: vec![any.clone()], left: Vec::new(), next: None };
        self.place_asks(&sight, out);
        let mut locks = Vec::new();
        self.with_lock(&any, |lock| lock.brief_asks(&mut locks));
        let pattern = &self.spec.lock;
        out.extend(locks.into_iter().map(|ask| match ask.key {
            Keys::Second => {
                let parts = vec![pattern.before.clone(), pattern.after.clone()];
                Ask { key: Keys::Like(parts), ..ask }
            }
            Keys::None | Keys::Like(_) => ask,
        }));
    }

    /// The scores of the members. Servers before `PEXPIRETIME` may be older than `ZMSCORE`, too.
    fn place_asks(self, sight: &Sight, out: &mut Vec<Ask>) {
        let zset = &self.spec.zset;
        let ids = || sight.ids().map(|id| &*id.0);
        if !self.caps.pexpiretime {
            out.extend(ids().map(|id| Ask::new(Class::Scores, command!("ZSCORE", zset, id))));
        } else if ids().next().is_some() {
            let words = [b"ZMSCORE", &**zset].into_iter().chain(ids());
            out.push(Ask::new(Class::Scores, Command::new(words)));
        }
    }

    fn with_lock(self, id: &Id, with: impl FnOnce(Lock<'_>)) {
        let key = self.spec.lock.key(&id.0);
        with(Lock { key: &key, library: libraries::of(&self.spec.library), caps: self.caps });
    }

    /// Decodes the replies to [`QueueRead::asks`].
    ///
    /// # Errors
    /// How to go on, if this was the first round.
    pub(super) fn take(
        self,
        stage: &Stage,
        replies: &mut Replies<'_>,
    ) -> Result<QueueReading, Stage> {
        let read = match stage {
            Stage::First { before } => match self.take_first(before, replies) {
                Ok(sight) => return Err(Stage::Places(sight)),
                Err(why) => Err(why),
            },
            Stage::Places(sight) => self.take_places(sight, replies),
        };
        Ok(read.map_or_else(QueueReading::Unknown, QueueReading::Read))
    }

    fn take_first(self, before: &[Id], replies: &mut Replies<'_>) -> Result<Sight, Unknown> {
        let (now, members, listed) = (replies.next(), replies.next(), replies.next());
        let now = server_time(now)?;
        let members = count(members)?;
        let mut listed = self.members(listed)?;
        let due = listed.iter().take_while(|member| member.due <= now).count();
        let due = due.min(QueueSpec::FIRST);
        let next = listed.split_off(due).into_iter().find(|member| member.due > now);
        let first: Vec<Id> = listed.into_iter().map(|member| member.id).collect();
        let left = before.iter().filter(|id| !first.contains(id)).cloned().collect();
        Ok(Sight { now, members, first, left, next })
    }

    /// The members of a list with scores.
    fn members(self, listed: &Reply) -> Result<Vec<Member>, Unknown> {
        let items = match listed {
            Reply::Error(error) => return Err(error.into()),
            other => other.as_array().ok_or(Unknown::Protocol)?,
        };
        let member = |pair: &[Reply]| match pair {
            [Reply::Bytes(id), score] => {
                let due = self.due(score)?.ok_or(Unknown::Protocol)?;
                Ok(Member { id: Id(id.clone()), due, lock: None })
            }
            _ => Err(Unknown::Protocol),
        };
        items.chunks(2).map(member).collect()
    }

    /// The instant that a score says; `None` if there is none.
    fn due(self, score: &Reply) -> Result<Option<ServerTime>, Unknown> {
        match score {
            Reply::Nil => Ok(None),
            Reply::Error(error) => Err(error.into()),
            Reply::Bytes(text) if text == b"inf" => Ok(Some(ServerTime(i64::MAX))),
            Reply::Bytes(text) if text == b"-inf" => Ok(Some(ServerTime(i64::MIN))),
            Reply::Bytes(text) => {
                instant::of_unit(text, self.spec.unit).map(Some).ok_or(Unknown::Layout)
            }
            Reply::Int(_) | Reply::Array(_) => Err(Unknown::Protocol),
        }
    }

    fn take_places(self, sight: &Sight, replies: &mut Replies<'_>) -> Result<Queue, Unknown> {
        let counted = if sight.is_full() { Some(count(replies.next())?) } else { None };
        let places = self.take_scores(sight, replies)?;
        let mut places = places.into_iter();
        let (mut first, mut left) = (Vec::new(), Vec::new());
        let mut place = || places.next().flatten();
        for id in &sight.first {
            let (due, lock) = (place(), self.take_lock(id, replies));
            match due {
                Some(due) if due <= sight.now => {
                    first.push(Member { id: id.clone(), due, lock: Some(lock) });
                }
                // It left between the two rounds.
                due => left.push(Left { id: id.clone(), place: here_or_gone(due), lock }),
            }
        }
        for id in &sight.left {
            let (due, lock) = (place(), self.take_lock(id, replies));
            left.push(Left { id: id.clone(), place: here_or_gone(due), lock });
        }
        first.sort_by_key(|member| member.due);
        let due = counted.unwrap_or(first.len() as u64);
        first.extend(sight.next.clone());
        Ok(Queue { members: sight.members, due, first, left })
    }

    fn take_scores(
        self,
        sight: &Sight,
        replies: &mut Replies<'_>,
    ) -> Result<Vec<Option<ServerTime>>, Unknown> {
        let number = sight.ids().count();
        let scores = if !self.caps.pexpiretime {
            replies.take(number)
        } else if number == 0 {
            &[]
        } else {
            match replies.next() {
                Reply::Error(error) => return Err(error.into()),
                other => other.as_array().ok_or(Unknown::Protocol)?,
            }
        };
        if scores.len() != number {
            return Err(Unknown::Protocol);
        }
        scores.iter().map(|score| self.due(score)).collect()
    }

    fn take_lock(self, id: &Id, replies: &mut Replies<'_>) -> LockReading {
        let mut reading = LockReading::Unknown(Unknown::Protocol);
        self.with_lock(id, |lock| reading = lock.take_brief(replies));
        reading
    }
}

fn here_or_gone(due: Option<ServerTime>) -> Place {
    due.map_or(Place::Gone, Place::Due)
}

fn count(reply: &Reply) -> Result<u64, Unknown> {
    match reply {
        Reply::Error(error) => Err(error.into()),
        other => {
            other.as_int().and_then(|number| u64::try_from(number).ok()).ok_or(Unknown::Protocol)
        }
    }
}

/// An instant as a score in this unit.
fn score(instant: ServerTime, unit: Unit) -> String {
    match unit {
        Unit::Milliseconds => format!("{}", instant.0),
        Unit::Seconds => {
            format!("{}.{:03}", instant.0.div_euclid(1_000), instant.0.rem_euclid(1_000))
        }
    }
}

/// A question of which a change of the answer may change the verdict at once.
pub(super) fn watched(spec: &QueueSpec) -> Ask {
    Ask::new(Class::Number, command!("ZCARD", spec.zset))
}

/// The members to look up in the next reading, whatever comes first then: those that are due now,
/// and those whose lock is still held.
pub fn to_follow(queue: &Queue) -> Vec<Id> {
    let due = queue.first.iter().filter(|member| member.lock.is_some());
    let held = queue.left.iter().filter(|left| matches!(left.lock, LockReading::Held(_)));
    let held = held.take(LEFT_MAX).map(|left| &left.id);
    due.map(|member| &member.id).chain(held).cloned().collect()
}
