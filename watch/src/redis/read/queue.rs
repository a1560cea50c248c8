//! Reads a queue of delayed tasks, in two rounds: first which members come first, then whether they
//! are still there, and their locks.
//!
//! Whatever its size, at most five commands are about the set itself, and the locks of a bounded
//! number of members are read. Members that were seen before and are none of the first now are
//! looked up, too: what became of them, and of their locks.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
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
use crate::redis::value::Finder;
use lockwatch_judge::reading::{
    Held, Id, Left, LockReading, Member, Place, Queue, QueueReading, Unknown,
};
use lockwatch_judge::spec::{Key, QueueSpec, Unit};
use lockwatch_judge::time::ServerTime;

/// How many locks of members that left are read.
const LEFT_MAX: usize = QueueSpec::FIRST;

/// How a queue is read in one round.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Which members come first. `before`: those that were looked at in the reading before.
    First { before: Vec<Followed> },
    /// What is in these places now, and the locks.
    Places(Box<Listing>),
}

/// A member that the next reading looks up, wherever it is then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Followed {
    id: Id,
    /// Its lock, if it was held: its owner's field may end by itself.
    held: Option<Arc<Held>>,
}

/// What the first round showed.
#[derive(Clone, Debug)]
pub(super) struct Listing {
    now: ServerTime,
    members: u64,
    /// The first members that are due.
    first: Vec<Looked>,
    /// Members that were looked at before, and are none of them.
    left: Vec<Looked>,
    /// The first member that is not due yet.
    next: Option<Member>,
}

/// A member that is looked at.
#[derive(Clone, Debug)]
struct Looked {
    id: Id,
    /// The id inside it, if a path names one.
    name: Option<Id>,
    /// The key of its lock; `None`: there are no locks.
    lock: Result<Option<Key>, Unknown>,
    /// The lock as the reading before showed it held.
    held: Option<Arc<Held>>,
}

impl Listing {
    /// Whether more members may be due.
    fn is_full(&self) -> bool {
        self.first.len() >= QueueSpec::FIRST
    }

    fn members(&self) -> impl Iterator<Item = &Looked> {
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
            Stage::Places(listing) => {
                if listing.is_full() {
                    let now = score(listing.now, self.spec.unit);
                    out.push(Ask::new(Class::Number, command!("ZCOUNT", zset, "-inf", now)));
                }
                self.place_asks(listing, out);
                for member in listing.members() {
                    if let Ok(Some(key)) = &member.lock {
                        self.lock(key).asks_once(member.held.as_ref(), out);
                    }
                }
            }
        }
    }

    /// Everything that may ever be asked.
    pub(super) fn all_asks(self, out: &mut Vec<Ask>) {
        self.asks(&Stage::First { before: Vec::new() }, out);
        let zset = &self.spec.zset;
        out.push(Ask::new(Class::Number, command!("ZCOUNT", zset, "-inf", "0")));
        let any = Looked { id: Id(Vec::new()), name: None, lock: Ok(None), held: None };
        let (now, members) = (ServerTime::at(0), 0);
        let listing = Listing { now, members, first: vec![any], left: Vec::new(), next: None };
        self.place_asks(&listing, out);
        let Some(pattern) = &self.spec.lock else { return };
        let mut locks = Vec::new();
        self.lock(&pattern.before).asks_once(None, &mut locks);
        out.extend(locks.into_iter().map(|ask| match ask.key {
            Keys::Second => {
                let parts = vec![pattern.before.clone(), pattern.after.clone()];
                Ask { key: Keys::Like(parts), ..ask }
            }
            Keys::None | Keys::Third | Keys::Like(_) => ask,
        }));
    }

    /// The scores of the members. Servers before `PEXPIRETIME` may be older than `ZMSCORE`, too.
    fn place_asks(self, listing: &Listing, out: &mut Vec<Ask>) {
        let zset = &self.spec.zset;
        let ids = || listing.members().map(|member| &*member.id.0);
        if !self.caps.pexpiretime {
            out.extend(ids().map(|id| Ask::new(Class::Scores, command!("ZSCORE", zset, id))));
        } else if ids().next().is_some() {
            let words = [b"ZMSCORE", &**zset].into_iter().chain(ids());
            out.push(Ask::new(Class::Scores, Command::new(words)));
        }
    }

    fn lock<'a>(self, key: &'a [u8]) -> Lock<'a> {
        let library = libraries::of(&self.spec.library);
        Lock { key, library, spec: None, caps: self.caps }
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
                Ok(listing) => return Err(Stage::Places(Box::new(listing))),
                Err(why) => Err(why),
            },
            Stage::Places(listing) => self.take_places(listing, replies),
        };
        Ok(read.map_or_else(QueueReading::Unknown, QueueReading::Read))
    }

    fn take_first(
        self,
        before: &[Followed],
        replies: &mut Replies<'_>,
    ) -> Result<Listing, Unknown> {
        let (now, members, listed) = (replies.next(), replies.next(), replies.next());
        let now = server_time(now)?;
        let members = count(members)?;
        let mut listed = self.members(listed)?;
        let due = listed.iter().take_while(|member| member.due <= now).count();
        let due = due.min(QueueSpec::FIRST);
        let next = listed.split_off(due).into_iter().find(|member| member.due > now);
        let finder = self.spec.id.as_ref().map(Finder::new);
        let look = |id: Id| Looked {
            held: before.iter().find(|before| before.id == id).and_then(|it| it.held.clone()),
            ..self.look(id, finder.as_ref())
        };
        let next = next.map(|next| Member { name: look(next.id.clone()).name, ..next });
        let first: Vec<Looked> = listed.into_iter().map(|member| look(member.id)).collect();
        let is_first = |id: &&Id| first.iter().any(|member| member.id == **id);
        let left = before.iter().map(|before| &before.id).filter(|id| !is_first(id));
        let left = left.cloned().map(look).collect();
        Ok(Listing { now, members, first, left, next })
    }

    /// What a member is called, and the key of its lock.
    fn look(self, id: Id, finder: Option<&Result<Finder, String>>) -> Looked {
        let named = match finder {
            None => Ok(None),
            Some(Ok(finder)) => finder.find(&id.0).map(|name| Some(Id(name))).map_err(|_| ()),
            Some(Err(_)) => Err(()),
        };
        let key = |name: &Option<Id>| self.spec.lock_of(&name.as_ref().unwrap_or(&id).0);
        let lock = match &named {
            Ok(name) => Ok(key(name)),
            Err(()) if self.spec.lock.is_none() => Ok(None),
            Err(()) => Err(Unknown::ValuePath),
        };
        Looked { name: named.unwrap_or_default(), lock, id, held: None }
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
                Ok(Member { id: Id(id.clone()), name: None, due, lock: None })
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
            Reply::Bytes(text) if text == b"inf" => Ok(Some(ServerTime::at(i64::MAX))),
            Reply::Bytes(text) if text == b"-inf" => Ok(Some(ServerTime::at(i64::MIN))),
            Reply::Bytes(text) => {
                instant::of_unit(text, self.spec.unit).map(Some).ok_or(Unknown::Layout)
            }
            Reply::Int(_) | Reply::Array(_) => Err(Unknown::Protocol),
        }
    }

    fn take_places(self, listing: &Listing, replies: &mut Replies<'_>) -> Result<Queue, Unknown> {
        let counted = if listing.is_full() { Some(count(replies.next())?) } else { None };
        let places = self.take_scores(listing, replies)?;
        let mut places = places.into_iter();
        let (mut first, mut left) = (Vec::new(), Vec::new());
        let mut place = || places.next().flatten();
        for member in &listing.first {
            let (due, lock) = (place(), self.take_lock(member, replies));
            let (id, name) = (member.id.clone(), member.name.clone());
            match due {
                Some(due) if due <= listing.now => {
                    first.push(Member { id, name, due, lock: Some(lock) });
                }
                // It left between the two rounds.
                due => left.push(Left { id, place: here_or_gone(due), lock }),
            }
        }
        for member in &listing.left {
            let (due, lock) = (place(), self.take_lock(member, replies));
            left.push(Left { id: member.id.clone(), place: here_or_gone(due), lock });
        }
        first.sort_by_key(|member| member.due);
        let due = counted.unwrap_or(first.len() as u64);
        first.extend(listing.next.clone());
        Ok(Queue { members: listing.members, due, first, left })
    }

    fn take_scores(
        self,
        listing: &Listing,
        replies: &mut Replies<'_>,
    ) -> Result<Vec<Option<ServerTime>>, Unknown> {
        let number = listing.members().count();
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

    /// Without locks, nothing holds a member back.
    fn take_lock(self, member: &Looked, replies: &mut Replies<'_>) -> LockReading {
        match &member.lock {
            Ok(Some(key)) => self.lock(key).take_once(member.held.as_ref(), replies),
            Ok(None) => LockReading::Free,
            Err(why) => LockReading::Unknown(*why),
        }
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
        Unit::Milliseconds => format!("{}", instant.ms()),
        Unit::Seconds => {
            format!("{}.{:03}", instant.ms().div_euclid(1_000), instant.ms().rem_euclid(1_000))
        }
    }
}

/// A question of which a change of the answer may change the verdict at once.
pub(super) fn watched(spec: &QueueSpec) -> Ask {
    Ask::new(Class::Number, command!("ZCARD", spec.zset))
}

/// The members to look up in the next reading, whatever comes first then: those that are due now,
/// and those whose lock is still held.
pub fn to_follow(queue: &Queue) -> Vec<Followed> {
    let due = queue.first.iter().filter_map(|member| Some((&member.id, member.lock.as_ref()?)));
    let held = queue.left.iter().filter(|left| matches!(left.lock, LockReading::Held(_)));
    let held = held.take(LEFT_MAX).map(|left| (&left.id, &left.lock));
    let followed = due.chain(held).map(|(id, lock)| Followed {
        id: id.clone(),
        held: match lock {
            LockReading::Held(held) => Some(Arc::clone(held)),
            LockReading::Free | LockReading::Unknown(_) => None,
        },
    });
    followed.collect()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::redis::accept::RoleCheck;
    use crate::redis::reply::ServerError;
    use lockwatch_judge::reading::{Deadline, Holder};
    use lockwatch_judge::spec::{KeyPattern, ValuePath};

    const CAPS: Caps = Caps {
        pexpiretime: true,
        hpexpiretime: false,
        role: RoleCheck::Role,
        info: true,
        sharded: false,
    };
    /// The server's clock, in seconds.
    const NOW: i64 = 1_700_000_000;

    fn bytes(text: &str) -> Reply {
        Reply::Bytes(text.as_bytes().to_vec())
    }

    fn clock() -> Reply {
        Reply::Array(vec![bytes("1700000000"), bytes("0")])
    }

    fn id(id: &str) -> Id {
        Id(id.as_bytes().to_vec())
    }

    fn spec() -> QueueSpec {
        QueueSpec::new(b"tasks", KeyPattern::parse(b"lock_{id}").unwrap(), "string")
    }

    fn words(asks: &[Ask]) -> Vec<String> {
        let line = |ask: &Ask| {
            let words = ask.command.args.iter().map(|word| String::from_utf8_lossy(word));
            words.collect::<Vec<_>>().join(" ")
        };
        asks.iter().map(line).collect()
    }

    /// The first round about a set with these members.
    fn first(before: &[&str], listed: &[&str]) -> Result<QueueReading, Stage> {
        let spec = spec();
        let queue = QueueRead { spec: &spec, caps: CAPS };
        let before = before.iter().map(|one| Followed { id: id(one), held: None }).collect();
        let listed = listed.iter().map(|word| bytes(word)).collect();
        let replies = [clock(), Reply::Int(7), Reply::Array(listed)];
        queue.take(&Stage::First { before }, &mut Replies::new(&replies))
    }

    fn asked(stage: &Stage, caps: Caps) -> Vec<String> {
        let mut asks = Vec::new();
        QueueRead { spec: &spec(), caps }.asks(stage, &mut asks);
        words(&asks)
    }

    fn places(stage: &Stage, replies: &[Reply]) -> Queue {
        let spec = spec();
        let queue = QueueRead { spec: &spec, caps: CAPS };
        match queue.take(stage, &mut Replies::new(replies)) {
            Ok(QueueReading::Read(queue)) => queue,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_due_is_looked_up_with_its_lock_and_what_was_seen_before() {
        let listed = ["a", "1699999990", "b", "1700000000.5", "c", "1700000100"];
        let stage = first(&["a", "old"], &listed).unwrap_err();
        assert_eq!(
            asked(&stage, CAPS),
            [
                "ZMSCORE tasks a old",
                "PEXPIRETIME lock_a",
                "GETRANGE lock_a 0 511",
                "PEXPIRETIME lock_a",
                "PEXPIRETIME lock_old",
                "GETRANGE lock_old 0 511",
                "PEXPIRETIME lock_old",
            ]
        );
        let scores = Reply::Array(vec![bytes("1699999990"), Reply::Nil]);
        let until = || Reply::Int(NOW * 1_000 + 500);
        let held = [until(), bytes("token"), until()];
        let locks = [held, [Reply::Int(-2), bytes(""), Reply::Int(-2)]].concat();
        let queue = places(&stage, &[&[scores][..], &locks].concat());
        assert_eq!((queue.members, queue.due), (7, 1));
        let at = |seconds: i64| ServerTime::at((NOW + seconds) * 1_000);
        let [a, next] = &queue.first[..] else { panic!("{queue:?}") };
        assert_eq!((&a.id, a.due), (&id("a"), at(-10)));
        let Some(LockReading::Held(held)) = &a.lock else { panic!("{a:?}") };
        assert_eq!(held.deadline, Deadline::At(ServerTime::at(NOW * 1_000 + 500)));
        assert_eq!((&next.id, next.due.ms(), &next.lock), (&id("b"), NOW * 1_000 + 500, &None));
        let [old] = &queue.left[..] else { panic!("{queue:?}") };
        assert_eq!((old.place, &old.lock), (Place::Gone, &LockReading::Free));
        assert_eq!(to_follow(&queue), [Followed { id: id("a"), held: Some(held.clone()) }]);
    }

    /// The lock of a member that was held before ends with its key or with its owner's field.
    #[test]
    fn the_field_of_a_known_owner_is_asked_about() {
        let spec = QueueSpec::new(b"tasks", KeyPattern::parse(b"lock_{id}").unwrap(), "hash");
        let until = ServerTime::at(NOW * 1_000 + 500);
        for (caps, asked_too) in [(CAPS, false), (Caps { hpexpiretime: true, ..CAPS }, true)] {
            let queue = QueueRead { spec: &spec, caps };
            let mut before = Vec::new();
            for expected in
                [Deadline::Never, if asked_too { Deadline::At(until) } else { Deadline::Never }]
            {
                let listed = Reply::Array(vec![bytes("a"), bytes("1")]);
                let replies = [clock(), Reply::Int(1), listed];
                let stage = Stage::First { before: core::mem::take(&mut before) };
                let stage = queue.take(&stage, &mut Replies::new(&replies)).unwrap_err();
                let mut asks = Vec::new();
                queue.asks(&stage, &mut asks);
                let fields = words(&asks).into_iter().filter(|ask| ask.starts_with("HPEXPIRETIME"));
                let fields: Vec<String> = fields.collect();
                let owner = Reply::Array(vec![bytes("owner"), bytes("1")]);
                let value = Reply::Array(vec![bytes("0"), owner]);
                let scores = Reply::Array(vec![bytes("1")]);
                let mut replies = vec![scores, Reply::Int(-1), value, Reply::Int(-1)];
                if expected != Deadline::Never {
                    assert_eq!(fields, ["HPEXPIRETIME lock_a FIELDS 1 owner"]);
                    replies.push(Reply::Array(vec![Reply::Int(until.ms())]));
                }
                assert_eq!(asks.len(), replies.len(), "{fields:?}");
                let read = queue.take(&stage, &mut Replies::new(&replies)).unwrap();
                let QueueReading::Read(read) = read else { panic!("{read:?}") };
                let Some(LockReading::Held(held)) = &read.first[0].lock else { panic!("held") };
                assert_eq!(held.deadline, expected);
                before = to_follow(&read);
            }
        }
    }

    /// Of a message, the lock is named by the id in it. One without an id hides its lock.
    #[test]
    fn the_id_may_lie_inside_a_member() {
        let spec = QueueSpec { id: Some(ValuePath::Json("/id".into())), ..spec() };
        let queue = QueueRead { spec: &spec, caps: CAPS };
        let (m0, odd, m1) = (r#"{"id":"m0"}"#, r#"{"key":1}"#, r#"{"id":1}"#);
        let listed = [m0, "1", odd, "2", m1, "1700000100"].map(bytes);
        let replies = [clock(), Reply::Int(3), Reply::Array(listed.to_vec())];
        let first = Stage::First { before: vec![Followed { id: id(m1), held: None }] };
        let stage = queue.take(&first, &mut Replies::new(&replies)).unwrap_err();
        let mut asks = Vec::new();
        queue.asks(&stage, &mut asks);
        let asked = words(&asks);
        assert_eq!(asked[0], format!("ZMSCORE tasks {m0} {odd} {m1}"));
        let locks: Vec<&String> = asked.iter().filter(|ask| ask.starts_with("GETRANGE")).collect();
        assert_eq!(locks, ["GETRANGE lock_m0 0 511", "GETRANGE lock_1 0 511"]);
        let scores = Reply::Array(vec![bytes("1"), bytes("2"), bytes("1700000100")]);
        let free = [Reply::Int(-2), bytes(""), Reply::Int(-2)];
        let held = [Reply::Int(-1), bytes("1"), Reply::Int(-1)];
        let replies = [&[scores][..], &held, &free].concat();
        let Ok(QueueReading::Read(read)) = queue.take(&stage, &mut Replies::new(&replies)) else {
            panic!("it is read");
        };
        let names: Vec<Option<&Id>> = read.first.iter().map(|one| one.name.as_ref()).collect();
        assert_eq!(names, [Some(&id("m0")), None, Some(&id("1"))]);
        let Some(LockReading::Held(held)) = &read.first[0].lock else { panic!("{read:?}") };
        assert_eq!(held.holders, [Holder::NOBODY_KNOWN], "the value is a constant");
        let unread = Some(LockReading::Unknown(Unknown::ValuePath));
        assert_eq!((&read.first[1].lock, &read.left[0].lock), (&unread, &LockReading::Free));
    }

    #[test]
    fn without_locks_only_the_members_are_asked_for() {
        let spec = QueueSpec { lock: None, ..spec() };
        let queue = QueueRead { spec: &spec, caps: CAPS };
        let mut asks = Vec::new();
        queue.all_asks(&mut asks);
        let names: Vec<String> = asks.iter().map(Ask::name).collect();
        assert_eq!(names, ["time", "zcard", "zrange", "zcount", "zmscore"]);
        let replies = [clock(), Reply::Int(1), Reply::Array(vec![bytes("a"), bytes("1")])];
        let first = Stage::First { before: Vec::new() };
        let stage = queue.take(&first, &mut Replies::new(&replies)).unwrap_err();
        let scores = [Reply::Array(vec![bytes("1")])];
        let Ok(QueueReading::Read(read)) = queue.take(&stage, &mut Replies::new(&scores)) else {
            panic!("it is read");
        };
        assert_eq!(read.first[0].lock, Some(LockReading::Free));
    }

    #[test]
    fn a_member_that_left_between_the_rounds_is_none_of_the_first() {
        let stage = first(&[], &["a", "1", "b", "2", "c", "3"]).unwrap_err();
        let scores = Reply::Array(vec![Reply::Nil, bytes("1700000050"), bytes("3")]);
        let lock = || [Reply::Int(-2), bytes(""), Reply::Int(-2)];
        let queue = places(&stage, &[&[scores][..], &lock(), &lock(), &lock()].concat());
        let first: Vec<&Id> = queue.first.iter().map(|member| &member.id).collect();
        let left: Vec<(&Id, Place)> =
            queue.left.iter().map(|left| (&left.id, left.place)).collect();
        let later = Place::Due(ServerTime::at((NOW + 50) * 1_000));
        assert_eq!(first, [&id("c")]);
        assert_eq!(left, [(&id("a"), Place::Gone), (&id("b"), later)]);
        assert_eq!(queue.due, 1);
    }

    #[test]
    fn the_number_of_due_members_is_asked_for_only_if_they_are_too_many() {
        let listed: Vec<String> =
            (0..=QueueSpec::FIRST).flat_map(|at| [format!("m{at}"), format!("{at}")]).collect();
        let listed: Vec<&str> = listed.iter().map(|word| &**word).collect();
        let stage = first(&[], &listed).unwrap_err();
        let asks = asked(&stage, CAPS);
        assert_eq!(asks[0], "ZCOUNT tasks -inf 1700000000.000");
        assert_eq!(asks.len(), 2 + 3 * QueueSpec::FIRST);
        assert!(!asks.iter().any(|ask| ask.contains("m100")), "no more than the first hundred");
    }

    #[test]
    fn old_servers_are_asked_for_each_score() {
        let stage = first(&[], &["a", "1", "b", "2"]).unwrap_err();
        let asks = asked(&stage, Caps { pexpiretime: false, ..CAPS });
        assert_eq!(asks[..2], ["ZSCORE tasks a", "ZSCORE tasks b"]);
        assert_eq!(asks[2..5], ["TIME", "PTTL lock_a", "GETRANGE lock_a 0 511"]);
    }

    #[test]
    fn an_empty_queue_needs_no_lock() {
        let stage = first(&[], &[]).unwrap_err();
        assert_eq!(asked(&stage, CAPS), [""; 0]);
        assert_eq!(places(&stage, &[]), Queue { members: 7, ..Queue::default() });
    }

    #[test]
    fn scores_are_numbers_and_what_is_none_is_unknown() {
        let stage = first(&[], &["a", "-inf", "b", "0", "c", "-5.5", "d", "inf"]).unwrap_err();
        let Stage::Places(listing) = &stage else { panic!("{stage:?}") };
        let due: Vec<&Id> = listing.first.iter().map(|member| &member.id).collect();
        assert_eq!(due, [&id("a"), &id("b"), &id("c")]);
        assert_eq!(listing.next.as_ref().unwrap().due, ServerTime::at(i64::MAX));
        let unknown = |why| Ok(QueueReading::Unknown(why));
        let listed_as = |listed: &[&str]| first(&[], listed).map_err(|_| ());
        assert_eq!(listed_as(&["a", "soon"]), unknown(Unknown::Layout));
        assert_eq!(listed_as(&["a"]), unknown(Unknown::Protocol));
        let spec = spec();
        let queue = QueueRead { spec: &spec, caps: CAPS };
        let error =
            Reply::Error(ServerError { code: b"WRONGTYPE".to_vec(), detail: b"...".to_vec() });
        let replies = [clock(), error.clone(), error];
        let stage = Stage::First { before: Vec::new() };
        let read = queue.take(&stage, &mut Replies::new(&replies)).unwrap();
        assert_eq!(read, QueueReading::Unknown(Unknown::WrongType));
    }

    #[test]
    fn everything_that_may_be_asked_is_known_before() {
        let mut asks = Vec::new();
        QueueRead { spec: &spec(), caps: CAPS }.all_asks(&mut asks);
        let names: Vec<String> = asks.iter().map(Ask::name).collect();
        assert_eq!(
            names,
            [
                "time",
                "zcard",
                "zrange",
                "zcount",
                "zmscore",
                "pexpiretime",
                "getrange",
                "pexpiretime"
            ]
        );
        let like = Keys::Like(vec![b"lock_".to_vec(), Vec::new()]);
        assert_eq!(asks.iter().filter(|ask| ask.key == like).count(), 3);
    }
}
