//! Reads a lock: its value between two reads of its deadline, so that holder and deadline belong
//! together.
//!
//! After a whole reading, a glance at the deadline can confirm the holder. Taking or renewing a
//! lock moves its deadline, and the deadline is known to the millisecond.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::field;
use crate::command;
use crate::redis::accept::{Caps, server_time};
use crate::redis::ask::{Ask, Class};
use crate::redis::expiry::{self, Expiry};
use crate::redis::libraries::{self, Leases, Library, Value};
use crate::redis::replies::Replies;
use crate::redis::reply::Reply;
use crate::redis::value::{holder, holder_ask};
use lockwatch_judge::reading::{Deadline, Held, Holder, LockReading, Mode, Unknown};
use lockwatch_judge::spec::{LockSpec, ValuePath};
use lockwatch_judge::time::ServerTime;

/// A key that goes on for longer than this after the last of the leases in it is no such lock, in
/// milliseconds.
const LEFTOVER_MS: i64 = 1_000;

/// How a lock is read in one round.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Only its deadline, to check that it is still the one of this reading.
    Glance(Arc<Held>),
    /// Of a lock that is a field: how long its value is.
    Size,
    /// Everything that can be requested without an answer of this reading. `again`: after a torn
    /// bracket. `known`: an earlier reading of a lock whose owner's field may end by itself.
    Main { again: bool, known: Option<Arc<Held>> },
    /// Everything again, with details. A reading counts from the instant at which its batch was
    /// sent, so a lock's answer must not wait for a later batch.
    Details(Details),
}

/// What is asked of a lock whose holders are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Details {
    /// Which of these readers live.
    readers: Vec<Holder>,
    /// When this holder's field ends.
    owner: Option<Holder>,
}

impl Details {
    pub(super) fn are_none(&self) -> bool {
        self.readers.is_empty() && self.owner.is_none()
    }
}

impl Stage {
    /// The first round.
    pub(super) fn of(lock: &LockSpec) -> Stage {
        if lock.field.is_some() { Stage::Size } else { Stage::first(None) }
    }

    /// A round that reads everything. `known`: an earlier reading, if the owner's field may end by
    /// itself.
    pub(super) fn first(known: Option<Arc<Held>>) -> Stage {
        Stage::Main { again: false, known }
    }

    /// Whose field's end is asked for.
    fn owner(&self) -> Option<&Holder> {
        match self {
            Stage::Main { known, .. } => known.as_ref()?.holders.first(),
            Stage::Details(Details { owner, .. }) => owner.as_ref(),
            Stage::Glance(_) | Stage::Size => None,
        }
    }

    /// The readers that are looked for.
    fn readers(&self) -> &[Holder] {
        match self {
            Stage::Details(Details { readers, .. }) => readers,
            Stage::Main { .. } | Stage::Glance(_) | Stage::Size => &[],
        }
    }
}

/// A lock to be read.
#[derive(Clone, Copy)]
pub(super) struct Lock<'a> {
    pub(super) key: &'a [u8],
    pub(super) library: &'static dyn Library,
    /// How it is configured, if it is the lock of a task.
    pub(super) spec: Option<&'a LockSpec>,
    pub(super) caps: Caps,
}

impl<'a> Lock<'a> {
    pub(super) fn new(spec: &'a LockSpec, caps: Caps) -> Lock<'a> {
        let library = libraries::of(&spec.library);
        Lock { key: &spec.key, library, spec: Some(spec), caps }
    }

    /// The field of the hash at `key` that is the lock.
    fn field(self) -> Option<&'a [u8]> {
        self.spec?.field.as_deref()
    }

    /// Where in the value the holder is named.
    fn holder(self) -> Option<&'a ValuePath> {
        self.spec?.holder.as_deref()
    }

    /// What is asked first.
    pub(super) fn asks(self, stage: &Stage, out: &mut Vec<Ask>) {
        if let (Stage::Size, Some(field)) = (stage, self.field()) {
            out.extend(field::size_asks(self.key, field));
            return;
        }
        if !self.library.is_key() {
            out.push(self.library.value(self.key));
            return;
        }
        self.asks_ends(out);
        if !matches!(stage, Stage::Glance(_)) {
            if self.library.needs_the_clock() {
                out.push(Ask::keyless(Class::Clock, command!("TIME")));
            }
            out.push(match (self.field(), self.holder()) {
                (Some(field), _) => field::value_ask(self.key, field),
                (None, Some(_)) => holder_ask(self.key),
                (None, None) => self.library.value(self.key),
            });
            self.asks_ends(out);
        }
    }

    /// Asks when the lock ends.
    fn asks_ends(self, out: &mut Vec<Ask>) {
        expiry::asks(self.key, self.caps, out);
        out.extend(
            self.field_with_ttl()
                .map(|field| expiry::of_fields(Class::Number, self.key, &[field.to_vec()])),
        );
    }

    /// Decodes the replies to [`Lock::asks_ends`].
    fn take_ends(self, replies: &mut Replies<'_>) -> Result<Expiry, Unknown> {
        let key = expiry::take(self.caps, replies);
        if self.field_with_ttl().is_none() {
            return key;
        }
        let field = expiry::take_fields(replies.next())?;
        Ok(field::ends(key?, *field.first().ok_or(Unknown::Protocol)?))
    }

    /// The field that is the lock, if it may have a TTL of its own.
    fn field_with_ttl(self) -> Option<&'a [u8]> {
        self.field().filter(|_| self.caps.hpexpiretime)
    }

    /// What is still to be asked after this reading, which `stage` made.
    pub(super) fn details(self, stage: &Stage, reading: &LockReading) -> Details {
        let LockReading::Held(held) = reading else { return Details::default() };
        let has_readers =
            held.mode == Mode::Read && !self.library.liveness(self.key, &held.holders).is_empty();
        let readers = if has_readers { held.holders.clone() } else { Vec::new() };
        let is_known = |owner: &&Holder| match stage {
            // The field was asked about when the key had this deadline, too.
            Stage::Glance(_) => true,
            _ => stage.owner().is_some_and(|asked| is_same(asked, owner)),
        };
        let owner = self.owner(held).filter(|owner| !is_known(owner));
        Details { readers, owner: owner.cloned() }
    }

    /// The only holder, if the field that names it may have a TTL of its own.
    pub(super) fn owner(self, held: &Held) -> Option<&Holder> {
        // With a path, the holder is named elsewhere than in a field.
        let may_end = self.caps.hpexpiretime && self.holder().is_none() && held.mode != Mode::Read;
        match held.holders.as_slice() {
            [owner] if may_end => self.library.field(held.mode, owner).map(|_| owner),
            _ => None,
        }
    }

    /// What is asked last: which of the readers live, and when the owner's field ends.
    pub(super) fn last_asks(self, stage: &Stage) -> Vec<Ask> {
        let mut asks = self.library.liveness(self.key, stage.readers());
        asks.extend(stage.owner().and_then(|owner| self.owner_ask(owner)));
        asks
    }

    /// A writer's field has another name than that of an ordinary owner: one of both is there.
    fn owner_ask(self, owner: &Holder) -> Option<Ask> {
        let fields = [Mode::Exclusive, Mode::Write].map(|mode| self.library.field(mode, owner));
        let mut fields: Vec<_> = fields.into_iter().collect::<Option<_>>()?;
        fields.dedup();
        Some(expiry::of_fields(Class::Named, self.key, &fields))
    }

    /// The waiters and the token.
    pub(super) fn extras(self) -> Vec<Ask> {
        self.library.extras(self.key, self.caps.sharded)
    }

    /// What is asked of a lock that is not read again if its replies do not belong together.
    /// `known`: the lock by an earlier reading.
    pub(super) fn asks_once(self, known: Option<&Arc<Held>>, out: &mut Vec<Ask>) {
        let stage = self.once(known);
        self.asks(&stage, out);
        out.extend(self.last_asks(&stage));
    }

    /// Decodes the replies to [`Lock::asks_once`].
    pub(super) fn take_once(
        self,
        known: Option<&Arc<Held>>,
        replies: &mut Replies<'_>,
    ) -> LockReading {
        let (Bracket::Whole(mut lock) | Bracket::Torn(mut lock)) = self.take_bracket(replies);
        self.take_last(&self.once(known), replies, &mut lock);
        lock
    }

    fn once(self, known: Option<&Arc<Held>>) -> Stage {
        let known = known.filter(|held| self.owner(held).is_some());
        Stage::Main { again: true, known: known.cloned() }
    }

    /// Decodes the replies to [`Lock::asks`].
    ///
    /// # Errors
    /// How the lock is to be read again, because these replies do not belong together.
    pub(super) fn take(
        self,
        stage: &Stage,
        replies: &mut Replies<'_>,
    ) -> Result<LockReading, Stage> {
        if let Stage::Size = stage {
            return field::sized(replies).ok_or(Stage::first(None));
        }
        if let Stage::Glance(known) = stage {
            return match self.take_ends(replies) {
                Ok(Expiry::At(at)) if known.deadline == Deadline::At(ServerTime::at(at)) => {
                    Ok(LockReading::Held(Arc::clone(known)))
                }
                _ => Err(Stage::first(self.owner(known).map(|_| Arc::clone(known)))),
            };
        }
        match (self.take_bracket(replies), stage) {
            (Bracket::Torn(_), Stage::Main { again: false, known }) => {
                Err(Stage::Main { again: true, known: known.clone() })
            }
            (Bracket::Whole(lock) | Bracket::Torn(lock), _) => Ok(lock),
        }
    }

    /// Decodes the replies to [`Lock::last_asks`].
    pub(super) fn take_last(
        self,
        stage: &Stage,
        replies: &mut Replies<'_>,
        lock: &mut LockReading,
    ) {
        let asked = self.library.liveness(self.key, stage.readers()).len();
        remove_dead(stage.readers(), replies.take(asked), lock);
        if let Some(owner) = stage.owner().filter(|owner| self.owner_ask(owner).is_some()) {
            end_with_field(owner, replies.next(), lock);
        }
    }

    fn take_bracket(self, replies: &mut Replies<'_>) -> Bracket {
        if !self.library.is_key() {
            let value = replies.next();
            let decoded = self.library.decode(self.key, value, true);
            let ends = if decoded == Value::Absent { Expiry::Absent } else { Expiry::Never };
            return bracket(Some(ends), (value, None), self);
        }
        let before = self.take_ends(replies);
        let now = match self.library.needs_the_clock() {
            true => server_time(replies.next()).map(Some),
            false => Ok(None),
        };
        let value = replies.next();
        let after = self.take_ends(replies);
        match (before, now, after) {
            (Ok(before), Ok(now), Ok(after)) => {
                bracket(Expiry::agreed(before, after), (value, now), self)
            }
            (Err(why), ..) | (_, Err(why), _) | (.., Err(why)) => {
                Bracket::Whole(LockReading::Unknown(why))
            }
        }
    }

    /// Decodes the value. `stayed`: the key was there before and after it.
    fn decode(self, value: &Reply, stayed: bool) -> Value {
        // Of a field, the reply itself says whether it is there.
        let (name, exists) = match (self.field(), value) {
            (Some(_), Reply::Nil) => return Value::Absent,
            (Some(_), value) if field::is_too_long(value) => {
                return Value::Unknown(Unknown::TooLarge);
            }
            (Some(field), _) => (field, true),
            (None, _) => (self.key, stayed),
        };
        match (self.holder(), self.spec) {
            (Some(path), _) => holder(path, value, exists),
            // What is a field has no configuration but the path.
            (None, Some(spec)) if spec.field.is_none() => {
                self.library.decode_of(spec, value, exists)
            }
            _ => self.library.decode(name, value, exists),
        }
    }
}

/// Removes from a read lock the readers that are dead by these answers.
fn remove_dead(readers: &[Holder], answers: &[Reply], lock: &mut LockReading) {
    let answers = readers.iter().zip(answers);
    let dead: Vec<&Holder> =
        answers.filter(|(_, reply)| **reply == Reply::Int(0)).map(|(reader, _)| reader).collect();
    if let LockReading::Held(held) = lock
        && held.mode == Mode::Read
    {
        let held = Arc::make_mut(held);
        let before = held.holders.len();
        // Holders that were not checked, or whose check was refused, count as alive, as do
        // holders that entered since.
        held.holders.retain(|holder| !dead.contains(&holder));
        held.ghosts = u32::try_from(before - held.holders.len()).unwrap_or(u32::MAX);
    }
}

/// Whether both have the same field.
fn is_same(a: &Holder, b: &Holder) -> bool {
    (&a.client, &a.thread) == (&b.client, &b.thread)
}

/// A lock ends with its owner's field, if its key does not end earlier.
fn end_with_field(owner: &Holder, reply: &Reply, lock: &mut LockReading) {
    let LockReading::Held(held) = lock else { return };
    // Without an answer the key alone counts.
    let Ok(fields) = expiry::take_fields(reply) else { return };
    match held.holders.as_slice() {
        [holder] if is_same(holder, owner) => {}
        _ => return,
    }
    // If the field is gone meanwhile, another reading shows that.
    let field = fields.into_iter().find(|expiry| *expiry != Expiry::Absent);
    let deadline = match (held.deadline, field.map_or(Deadline::Torn, Expiry::deadline)) {
        (Deadline::At(key), Deadline::At(field)) => Deadline::At(key.min(field)),
        (Deadline::Never, field) => field,
        (key, _) => key,
    };
    if held.deadline != deadline {
        Arc::make_mut(held).deadline = deadline;
    }
}

/// Whether value and deadline belong together.
enum Bracket {
    Whole(LockReading),
    /// They do not. This is what is certain without reading again.
    Torn(LockReading),
}

/// `agreed`: the deadline before and after the value, if it was the same. `now`: the server's clock
/// just before the value.
fn bracket(
    agreed: Option<Expiry>,
    (value, now): (&Reply, Option<ServerTime>),
    lock: Lock<'_>,
) -> Bracket {
    // An empty value means "there, but empty" only if the key was there throughout.
    let stayed = agreed.is_some_and(|expiry| expiry != Expiry::Absent);
    match (lock.decode(value, stayed), agreed) {
        (Value::Unknown(why), _) => Bracket::Whole(LockReading::Unknown(why)),
        // The value is one atomic answer, and says so itself.
        (Value::Free, _) => Bracket::Whole(LockReading::Free),
        (Value::Leased(leases), agreed) => match now {
            Some(now) => leased(leases, agreed, now),
            None => Bracket::Whole(LockReading::Unknown(Unknown::Protocol)),
        },
        (Value::Absent, Some(Expiry::Absent)) => Bracket::Whole(LockReading::Free),
        // The hash may stay.
        (Value::Absent, _) if lock.field().is_some() => Bracket::Whole(LockReading::Free),
        (Value::Present { mode, holders }, Some(Expiry::At(at))) => {
            Bracket::Whole(held(mode, holders, Deadline::At(ServerTime::at(at))))
        }
        (Value::Present { mode, holders }, Some(Expiry::Never)) => {
            Bracket::Whole(held(mode, holders, Deadline::Never))
        }
        // The value is one atomic answer. It alone shows whether the lock was held at that instant.
        (Value::Absent, _) => Bracket::Torn(LockReading::Free),
        (Value::Present { mode, holders }, _) => Bracket::Torn(held(mode, holders, Deadline::Torn)),
    }
}

/// A lock whose value says until when it is held: what is over by the server's clock is free.
fn leased(leases: Leases, agreed: Option<Expiry>, now: ServerTime) -> Bracket {
    let Leases { mode, mut all, needs_ttl } = leases;
    if needs_ttl && agreed == Some(Expiry::Never) {
        return Bracket::Whole(LockReading::Unknown(Unknown::Layout));
    }
    let key = match agreed {
        Some(Expiry::At(at)) => Some(ServerTime::at(at)),
        _ => None,
    };
    all.retain(|lease| lease.until > now);
    let Some(last) = all.iter().map(|lease| lease.until).max() else {
        // If the key goes on for longer, its value means something else.
        let is_other = key.is_some_and(|key| key.since_ms(now) > LEFTOVER_MS);
        return Bracket::Whole(match is_other {
            true => LockReading::Unknown(Unknown::Layout),
            false => LockReading::Free,
        });
    };
    let mut holders: Vec<Holder> = all.into_iter().map(|lease| lease.holder).collect();
    holders.sort();
    let lock = held(mode, holders, Deadline::At(key.map_or(last, |key| key.min(last))));
    match agreed {
        Some(Expiry::At(_) | Expiry::Never) => Bracket::Whole(lock),
        // The key came, went or changed meanwhile.
        _ => Bracket::Torn(lock),
    }
}

fn held(mode: Mode, mut holders: Vec<Holder>, deadline: Deadline) -> LockReading {
    // Readings are kept, and there are many.
    holders.shrink_to_fit();
    LockReading::from(Held { mode, holders, ghosts: 0, deadline })
}
