//! Reads one task in one sweep: which commands to send, in which order, and how to decode their
//! replies.
//!
//! The lock comes first, between two reads of its deadline, so that holder and deadline belong
//! together. The switches follow, so that a lock found free beside a switch found on was free while
//! the switch was on.
//!
//! After a whole reading, a glance at the deadline can confirm the holder. Taking or renewing a
//! lock moves its deadline, and the deadline is known to the millisecond.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::command;
use crate::redis::accept::{Caps, server_time};
use crate::redis::ask::{Ask, Class};
use crate::redis::libraries::{self, Library, Value};
use crate::redis::parts::{self, Part};
use crate::redis::replies::Replies;
use crate::redis::reply::{Command, Reply};
use lockwatch_judge::reading::{
    Beside, Deadline, Extras, Held, Holder, LockReading, Mode, TaskReading, Unknown,
};
use lockwatch_judge::spec::{Key, TaskSpec};
use lockwatch_judge::time::ServerTime;

/// Maximum error of a deadline computed from `PTTL` on servers without `PEXPIRETIME`, in
/// milliseconds. The computed deadline can be too early by this much.
const PTTL_TOLERANCE_MS: i64 = 2;
/// Latest deadline that is kept: the year 292,278,994 in milliseconds. Later ones count as never,
/// and would overflow the arithmetic.
const LAST_DEADLINE_MS: i64 = 9_223_372_036_854_775;
/// Which parts of a task are read: all, unless they live on different servers or the server is read
/// only as a witness. One bit for the lock, and one for each of `parts::ALL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope(u8);

impl Scope {
    /// The lock only, with its waiters and token.
    pub const LOCK: Scope = Scope(1 << 7);
    /// Everything but the lock.
    pub const BESIDE: Scope = Scope(!Scope::LOCK.0);
    /// Everything.
    pub const ALL: Scope = Scope(u8::MAX);
    /// Nothing.
    pub const NOTHING: Scope = Scope(0);

    fn part(number: usize) -> Scope {
        Scope(1 << number)
    }

    /// Whether `other` is in this scope.
    fn contains(self, other: Scope) -> bool {
        self.0 & other.0 == other.0
    }

    /// This scope and `other`.
    #[must_use]
    pub fn with(self, other: Scope) -> Scope {
        Scope(self.0 | other.0)
    }

    /// This scope without `other`.
    #[must_use]
    pub fn without(self, other: Scope) -> Scope {
        Scope(self.0 & !other.0)
    }

    /// The parts beside the lock in this scope.
    fn parts(self) -> impl Iterator<Item = (usize, &'static dyn Part)> {
        let all = parts::ALL.iter().copied().enumerate();
        all.filter(move |(number, _)| self.contains(Scope::part(*number)))
    }

    /// The reading of the parts beside the lock in this scope, when `why` prevents any reading.
    pub fn unreadable(self, spec: &TaskSpec, why: Unknown) -> Beside {
        let mut beside = Beside::default();
        let configured = self.parts().filter(|(_, part)| !asks_of(*part, spec).is_empty());
        configured.for_each(|(_, part)| part.unreadable(why, &mut beside));
        beside
    }
}

fn asks_of(part: &dyn Part, spec: &TaskSpec) -> Vec<Ask> {
    let mut asks = Vec::new();
    part.asks(spec, &mut asks);
    asks
}

/// The keys of a task besides those of its lock, each with the part that it belongs to.
pub fn keys_beside(spec: &TaskSpec) -> Vec<(Key, Scope)> {
    let mut keys = Vec::new();
    for (number, part) in Scope::BESIDE.parts() {
        for ask in asks_of(part, spec) {
            keys.extend(ask.key().map(|key| (key.to_vec(), Scope::part(number))));
        }
    }
    keys.dedup();
    keys
}

/// Everything that may ever be asked about `spec`.
pub fn all_asks(spec: &TaskSpec, caps: Caps) -> Vec<Ask> {
    let read = TaskRead::new(Arc::new(spec.clone()), caps, true, Scope::ALL);
    let mut asks = read.asks();
    let anybody = Holder { client: Vec::new(), thread: None, entries: None, secret: false };
    asks.extend(read.library().liveness(&spec.lock().key, &[anybody]));
    parts::ALL.iter().for_each(|part| part.later_asks(spec, &mut asks));
    asks
}

/// One task's part of a sweep. Most tasks need one round. A torn bracket, the readers of a read
/// lock, or a glance that shows another deadline needs another.
#[derive(Clone, Debug)]
pub struct TaskRead {
    spec: Arc<TaskSpec>,
    caps: Caps,
    with_extras: bool,
    scope: Scope,
    stage: Stage,
}

#[derive(Clone, Debug)]
enum Stage {
    /// Reads only the lock's deadline, to check that it is still the one of this reading.
    Glance(Arc<Held>),
    /// Everything that can be requested without an earlier answer. `again`: after a torn bracket.
    Main { again: bool },
    /// Everything again, plus the requests that needed the answers of the previous round. A reading
    /// counts from the instant at which its batch was sent, so a lock's answer must not wait for a
    /// later batch.
    Details(Box<Details>),
}

/// Results of the previous round.
#[derive(Clone, Debug)]
struct Details {
    reading: TaskReading,
    later: Vec<Later>,
}

/// A question of a part that needed an earlier answer.
#[derive(Clone, Debug)]
struct Later {
    part: usize,
    ask: Ask,
}

/// The outcome of one round of replies.
#[derive(Clone, Debug)]
pub enum Round {
    /// The reading is complete.
    Done(TaskReading),
    /// More requests are needed, in a separate batch (with its own header and footer). At most two
    /// more rounds follow; after a glance, three.
    Again(TaskRead),
}

impl TaskRead {
    /// The first round for `spec`.
    pub fn new(spec: Arc<TaskSpec>, caps: Caps, with_extras: bool, scope: Scope) -> TaskRead {
        TaskRead { spec, caps, with_extras, scope, stage: Stage::Main { again: false } }
    }

    /// Turns this read into a glance. `known` is what the newest whole reading showed, with no
    /// change reported since. If the deadline is computed from `PTTL`, or there is none, everything
    /// is read as before.
    pub fn glancing_at(self, known: &Arc<Held>) -> TaskRead {
        let can_tell = self.caps.pexpiretime && known.deadline.instant().is_some();
        match can_tell && self.scope.contains(Scope::LOCK) {
            true => TaskRead { stage: Stage::Glance(Arc::clone(known)), ..self },
            false => self,
        }
    }

    fn library(&self) -> &'static dyn Library {
        libraries::of(&self.spec.lock().library)
    }

    /// Whether this round reads only the lock's deadline.
    pub fn is_glance(&self) -> bool {
        matches!(self.stage, Stage::Glance(_))
    }

    /// Appends this round's commands.
    pub fn commands(&self, out: &mut Vec<Command>) {
        out.extend(self.asks().into_iter().map(|ask| ask.command));
    }

    /// What is asked in this round.
    pub fn asks(&self) -> Vec<Ask> {
        let mut asks = Vec::with_capacity(8);
        if self.scope.contains(Scope::LOCK) {
            self.deadline_asks(&mut asks);
            if !self.is_glance() {
                asks.push(self.library().value(&self.spec.lock().key));
                self.deadline_asks(&mut asks);
            }
        }
        self.parts().for_each(|(_, part)| part.asks(&self.spec, &mut asks));
        asks.extend(self.extras());
        if let Stage::Details(details) = &self.stage {
            asks.extend(self.liveness(details));
            asks.extend(details.later.iter().map(|later| later.ask.clone()));
        }
        asks
    }

    /// Decodes this round's replies: exactly as many as [`TaskRead::commands`] appended.
    pub fn decode(self, replies: &[Reply]) -> Round {
        let mut replies = Replies::new(replies);
        match &self.stage {
            Stage::Glance(known) => match self.take_expiry(&mut replies) {
                Ok(Expiry::At(at)) if known.deadline == Deadline::At(ServerTime(at)) => {
                    self.decode_rest(LockReading::Held(Arc::clone(known)), &mut replies)
                }
                _ => Round::Again(TaskRead { stage: Stage::Main { again: false }, ..self }),
            },
            Stage::Main { again } => self.decode_main(*again, &mut replies),
            Stage::Details(details) => Round::Done(self.decode_details(details, &mut replies)),
        }
    }

    /// Waiters, token and hosts are not requested again with the details.
    fn asks_extras(&self) -> bool {
        self.with_extras && !matches!(self.stage, Stage::Details(_))
    }

    fn parts(&self) -> impl Iterator<Item = (usize, &'static dyn Part)> {
        let asks_extras = self.asks_extras();
        self.scope.parts().filter(move |(_, part)| asks_extras || !part.is_extra())
    }

    /// The questions about waiters and token.
    fn extras(&self) -> Vec<Ask> {
        match self.asks_extras() && self.scope.contains(Scope::LOCK) {
            true => self.library().extras(&self.spec.lock().key, self.caps.sharded),
            false => Vec::new(),
        }
    }

    fn liveness(&self, details: &Details) -> Vec<Ask> {
        self.library().liveness(&self.spec.lock().key, readers(&details.reading))
    }

    fn decode_main(&self, again: bool, replies: &mut Replies<'_>) -> Round {
        match self.take_bracket(replies) {
            Bracket::Torn(_) if !again => {
                Round::Again(TaskRead { stage: Stage::Main { again: true }, ..self.clone() })
            }
            Bracket::Whole(lock) | Bracket::Torn(lock) => self.decode_rest(lock, replies),
        }
    }

    /// Decodes what follows the lock, and determines what is still to be requested.
    fn decode_rest(&self, lock: LockReading, replies: &mut Replies<'_>) -> Round {
        let mut reading =
            TaskReading { lock, extras: Extras::default(), beside: Beside::default() };
        let later = self.decode_beside(&mut reading, replies);
        if later.is_empty() && readers(&reading).is_empty() {
            return Round::Done(reading);
        }
        let details = Box::new(Details { reading, later });
        Round::Again(TaskRead { stage: Stage::Details(details), ..self.clone() })
    }

    /// Decodes what follows the lock. What is not requested in this round stays as it is.
    fn decode_beside(&self, reading: &mut TaskReading, replies: &mut Replies<'_>) -> Vec<Later> {
        let later = self.parts().filter_map(|(number, part)| {
            let ask = part.decode(&self.spec, replies, &mut reading.beside)?;
            Some(Later { part: number, ask })
        });
        let later = later.collect();
        if self.asks_extras() && self.scope.contains(Scope::LOCK) {
            reading.extras = self.library().decode_extras(replies.take(self.extras().len()));
        }
        later
    }

    fn decode_details(&self, details: &Details, replies: &mut Replies<'_>) -> TaskReading {
        let (Bracket::Whole(lock) | Bracket::Torn(lock)) = self.take_bracket(replies);
        let mut reading = TaskReading { lock, ..details.reading.clone() };
        let still = self.decode_beside(&mut reading, replies);
        let answers = replies.take(self.liveness(details).len());
        let answers = readers(&details.reading).iter().zip(answers);
        let dead: Vec<&Holder> = answers
            .filter(|(_, reply)| **reply == Reply::Int(0))
            .map(|(reader, _)| reader)
            .collect();
        if let LockReading::Held(held) = &mut reading.lock
            && held.mode == Mode::Read
        {
            let held = Arc::make_mut(held);
            let before = held.holders.len();
            // Holders that were not checked, or whose check was refused, count as alive, as do
            // holders that entered since.
            held.holders.retain(|holder| !dead.contains(&holder));
            held.ghosts = u32::try_from(before - held.holders.len()).unwrap_or(u32::MAX);
        }
        for Later { part: number, .. } in &details.later {
            let told = replies.next();
            // Between the rounds the key may have been deleted, or changed its type.
            if still.iter().any(|later| later.part == *number)
                && let Some(part) = parts::ALL.get(*number)
            {
                part.decode_later(told, &mut reading.beside);
            }
        }
        reading
    }

    fn take_bracket(&self, replies: &mut Replies<'_>) -> Bracket {
        if !self.scope.contains(Scope::LOCK) {
            return Bracket::Whole(LockReading::Unknown(Unknown::NotReadYet));
        }
        let before = self.take_expiry(replies);
        let value = replies.next();
        let after = self.take_expiry(replies);
        bracket(before, value, after, self.library())
    }

    fn deadline_asks(&self, out: &mut Vec<Ask>) {
        let key = &self.spec.lock().key;
        if self.caps.pexpiretime {
            out.push(Ask::new(Class::Number, command!("PEXPIRETIME", key)));
        } else {
            out.push(Ask::keyless(Class::Clock, command!("TIME")));
            out.push(Ask::new(Class::Number, command!("PTTL", key)));
        }
    }

    fn take_expiry(&self, replies: &mut Replies<'_>) -> Result<Expiry, Unknown> {
        let now = match self.caps.pexpiretime {
            true => None,
            false => Some(server_time(replies.next())?),
        };
        match (replies.next(), now) {
            (Reply::Int(-2), _) => Ok(Expiry::Absent),
            (Reply::Int(-1), _) => Ok(Expiry::Never),
            (Reply::Int(at), None) => Ok(Expiry::At((*at).min(LAST_DEADLINE_MS))),
            (Reply::Int(left), Some(now)) => {
                Ok(Expiry::Reckoned { now, at: now.0.saturating_add(*left).min(LAST_DEADLINE_MS) })
            }
            (Reply::Error(error), _) => Err(error.into()),
            _ => Err(Unknown::Protocol),
        }
    }
}

/// The readers of a read lock; empty for any other lock.
fn readers(reading: &TaskReading) -> &[Holder] {
    match &reading.lock {
        LockReading::Held(held) if held.mode == Mode::Read => &held.holders,
        _ => &[],
    }
}

/// The reply to `PEXPIRETIME` or `PTTL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expiry {
    Absent,
    Never,
    At(i64),
    /// Computed from the remaining time and the server's clock before it. It is too early by the
    /// time between the two.
    Reckoned {
        now: ServerTime,
        at: i64,
    },
}

impl Expiry {
    /// The common deadline of two replies around a value, if they agree.
    fn agreed(before: Expiry, after: Expiry) -> Option<Expiry> {
        match (before, after) {
            (Expiry::Reckoned { now, at }, Expiry::Reckoned { now: later, at: again }) => {
                // On a server that is slow with each command, both are equally wrong.
                let is_quick = later.since_ms(now) <= PTTL_TOLERANCE_MS;
                let is_one = at.saturating_sub(again).saturating_abs() <= PTTL_TOLERANCE_MS;
                (is_quick && is_one).then_some(Expiry::At(at.max(again)))
            }
            _ => (before == after).then_some(after),
        }
    }
}

/// Whether value and deadline belong together.
enum Bracket {
    Whole(LockReading),
    /// They do not. This is what is certain without reading again.
    Torn(LockReading),
}

fn bracket(
    before: Result<Expiry, Unknown>,
    value: &Reply,
    after: Result<Expiry, Unknown>,
    library: &dyn Library,
) -> Bracket {
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(why), _) | (_, Err(why)) => return Bracket::Whole(LockReading::Unknown(why)),
    };
    let agreed = Expiry::agreed(before, after);
    let held = |mode, mut holders: Vec<Holder>, deadline| {
        // Readings are kept, and there are many.
        holders.shrink_to_fit();
        LockReading::from(Held { mode, holders, ghosts: 0, deadline })
    };
    // An empty value means "there, but empty" only if the key was there throughout.
    let stayed = agreed.is_some_and(|expiry| expiry != Expiry::Absent);
    match (library.decode(value, stayed), agreed) {
        (Value::Unknown(why), _) => Bracket::Whole(LockReading::Unknown(why)),
        (Value::Absent, Some(Expiry::Absent)) => Bracket::Whole(LockReading::Free),
        (Value::Present { mode, holders }, Some(Expiry::At(at))) => {
            Bracket::Whole(held(mode, holders, Deadline::At(ServerTime(at))))
        }
        (Value::Present { mode, holders }, Some(Expiry::Never)) => {
            Bracket::Whole(held(mode, holders, Deadline::Never))
        }
        // The value is one atomic answer. It alone shows whether the lock was held at that instant.
        (Value::Absent, _) => Bracket::Torn(LockReading::Free),
        (Value::Present { mode, holders }, _) => Bracket::Torn(held(mode, holders, Deadline::Torn)),
    }
}
