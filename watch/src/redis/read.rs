//! Reads one task in one sweep: which commands to send, in which order, and how to decode their
//! replies.
//!
//! What guards the task comes first. The switches follow, so that a lock found free beside a switch
//! found on was free while the switch was on. Each kind of guard has a file of its own.

mod field;
mod lock;
mod queue;
pub(crate) mod turn;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use self::lock::{Details, Lock, Stage};
pub use self::queue::{Followed, to_follow};
use self::queue::{QueueRead, Stage as QueueStage};
use crate::redis::accept::Caps;
use crate::redis::ask::Ask;
use crate::redis::libraries;
use crate::redis::parts::{self, Part};
use crate::redis::replies::Replies;
use crate::redis::reply::{Command, Reply};
use crate::redis::value;
use lockwatch_judge::reading::{
    Extras, GuardReading, Held, Holder, HostsReading, LockReading, Parts, TaskReading, Unknown,
    User,
};
use lockwatch_judge::spec::{Key, KindSpec, TaskSpec};

/// Which parts of a task are read: all, unless they live on different servers or the server is read
/// only as a witness. One bit for what guards the task, and one for each of `parts::ALL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope(u8);

impl Scope {
    /// What guards the task only: a lock with its waiters and token.
    pub const GUARD: Scope = Scope(1 << 7);
    /// Everything beside it.
    pub const BESIDE: Scope = Scope(!Scope::GUARD.0);
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

    /// The parts beside the guard in this scope.
    fn parts(self) -> impl Iterator<Item = (usize, &'static dyn Part)> {
        let all = parts::ALL.iter().copied().enumerate();
        all.filter(move |(number, _)| self.contains(Scope::part(*number)))
    }

    /// The reading of the parts beside the guard in this scope, when `why` prevents any reading.
    pub fn unreadable(self, spec: &TaskSpec, why: Unknown) -> Parts {
        let mut parts = Parts::default();
        let configured = self.parts().filter(|(_, part)| !asks_of(*part, spec).is_empty());
        configured.for_each(|(_, part)| part.unreadable(why, &mut parts));
        parts
    }
}

fn asks_of(part: &dyn Part, spec: &TaskSpec) -> Vec<Ask> {
    let mut asks = Vec::new();
    part.asks(spec, Caps::LEAST, &mut asks);
    asks
}

/// The keys of a task besides those that guard it, each with the part that it belongs to.
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
    match &spec.kind {
        _ if spec.has_only_switches_here() => {}
        KindSpec::Lock(lock) => {
            let anybody = Holder { client: Vec::new(), thread: None, entries: None, secret: false };
            asks.extend(libraries::of(&lock.library).liveness(&lock.key, &[anybody]));
            if lock.field.is_some() {
                Lock::new(lock, caps).asks(&Stage::first(None), &mut asks);
            }
        }
        KindSpec::Turn(_) => {}
        KindSpec::Queue(queue) => QueueRead { spec: queue, caps }.all_asks(&mut asks),
    }
    parts::ALL.iter().for_each(|part| part.later_asks(spec, &mut asks));
    asks
}

/// The questions of which a change of the answer may change the verdict at once.
pub fn watched_asks(spec: &TaskSpec) -> Vec<Ask> {
    let mut asks = Vec::new();
    match &spec.kind {
        _ if spec.has_only_switches_here() => {}
        KindSpec::Lock(lock) => asks.push(libraries::of(&lock.library).value(&lock.key)),
        KindSpec::Turn(turn) => turn::asks(turn, &mut asks),
        KindSpec::Queue(queue) => asks.push(queue::watched(queue)),
    }
    let watched = parts::ALL.iter().filter(|part| part.is_watched());
    watched.for_each(|part| part.asks(spec, Caps::LEAST, &mut asks));
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
    /// Fields of the hash of switches of which is asked when they end.
    fields: Arc<[User]>,
    guard: Guard,
    /// The round before, if its answers made more questions necessary. Everything is asked again
    /// with them: a reading counts from the instant at which its batch was sent.
    earlier: Option<Box<Earlier>>,
}

/// How the guard is read in this round.
#[derive(Clone, Debug)]
enum Guard {
    Lock(Stage),
    Turn,
    Queue(QueueStage),
}

/// Results of the previous round.
#[derive(Clone, Debug)]
struct Earlier {
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
    /// more rounds follow; after a glance, or of a lock that is a field, three.
    Again(TaskRead),
}

impl Guard {
    fn new(spec: &TaskSpec) -> Guard {
        match &spec.kind {
            KindSpec::Lock(lock) => Guard::Lock(Stage::of(lock)),
            KindSpec::Turn(_) => Guard::Turn,
            KindSpec::Queue(_) => Guard::Queue(QueueStage::First { before: Vec::new() }),
        }
    }

    /// How to read it once more after `reading`, if that leaves questions of its own (`details`),
    /// or if the parts beside it do (`have_later`).
    fn once_more(
        &self,
        reading: &GuardReading,
        details: Details,
        have_later: bool,
    ) -> Option<Guard> {
        match reading {
            GuardReading::Lock { .. } => {
                (have_later || !details.are_none()).then_some(Guard::Lock(Stage::Details(details)))
            }
            GuardReading::Turn(_) | GuardReading::Queue(_) => have_later.then(|| self.clone()),
        }
    }
}

/// The lock by this reading, if its owner's field may end by itself.
pub fn known_owner<'a>(
    spec: &TaskSpec,
    caps: Caps,
    reading: &'a TaskReading,
) -> Option<&'a Arc<Held>> {
    match (&spec.kind, reading.lock()?) {
        (KindSpec::Lock(lock), LockReading::Held(held)) => {
            Lock::new(lock, caps).owner(held).map(|_| held)
        }
        _ => None,
    }
}

impl TaskRead {
    /// The first round for `spec`.
    pub fn new(spec: Arc<TaskSpec>, caps: Caps, with_extras: bool, scope: Scope) -> TaskRead {
        let guard = Guard::new(&spec);
        let scope = match spec.has_only_switches_here() {
            true => scope.without(Scope::GUARD),
            false => scope,
        };
        TaskRead { spec, caps, with_extras, scope, fields: Arc::default(), guard, earlier: None }
    }

    /// Turns this read into a glance. `known` is what the newest whole reading showed, with no
    /// change reported since. If the deadline is computed from `PTTL`, or there is none, everything
    /// is read as before.
    pub fn glancing_at(self, known: &Arc<Held>) -> TaskRead {
        // Removing a field does not move the deadline of its hash.
        let is_field = self.spec.lock().is_some_and(|lock| lock.field.is_some());
        let can_tell = self.caps.pexpiretime
            && !is_field
            && known.deadline.instant().is_some()
            && libraries::of_task(&self.spec).moves_the_deadline();
        match can_tell && self.scope.contains(Scope::GUARD) {
            true => TaskRead { guard: Guard::Lock(Stage::Glance(Arc::clone(known))), ..self },
            false => self,
        }
    }

    /// Of a lock that is a field, and whose value was short: reads it at once.
    #[must_use]
    pub(super) fn of_short_field(self) -> TaskRead {
        match self.guard {
            Guard::Lock(Stage::Size) => TaskRead { guard: Guard::Lock(Stage::first(None)), ..self },
            _ => self,
        }
    }

    /// Of a queue: looks up these members, too, wherever they are now.
    #[must_use]
    pub fn following(self, before: &[Followed]) -> TaskRead {
        match self.guard {
            Guard::Queue(_) => {
                let guard = Guard::Queue(QueueStage::First { before: before.to_vec() });
                TaskRead { guard, ..self }
            }
            Guard::Lock(_) | Guard::Turn => self,
        }
    }

    /// The task.
    pub(super) fn spec(&self) -> &TaskSpec {
        &self.spec
    }

    /// Whether a value path says where in a value a name lies.
    pub(super) fn has_path(&self) -> bool {
        match &self.spec.kind {
            KindSpec::Lock(lock) => lock.holder.is_some() && !self.is_glance(),
            KindSpec::Queue(queue) => queue.id.is_some(),
            KindSpec::Turn(_) => false,
        }
    }

    /// Asks when these fields of the hash of switches end, too.
    #[must_use]
    pub fn asking_of(self, fields: &Arc<[User]>) -> TaskRead {
        TaskRead { fields: Arc::clone(fields), ..self }
    }

    /// Of a lock that [`known_owner`] returned from an earlier reading: asks when its owner's field
    /// ends, too.
    #[must_use]
    pub fn asking_of_owner(self, known: &Arc<Held>) -> TaskRead {
        match self.guard {
            Guard::Lock(Stage::Main { .. }) => {
                let guard = Guard::Lock(Stage::first(Some(Arc::clone(known))));
                TaskRead { guard, ..self }
            }
            Guard::Lock(_) | Guard::Turn | Guard::Queue(_) => self,
        }
    }

    /// Whether this round reads only the lock's deadline.
    pub fn is_glance(&self) -> bool {
        matches!(self.guard, Guard::Lock(Stage::Glance(_)))
    }

    /// Appends this round's commands.
    pub fn commands(&self, out: &mut Vec<Command>) {
        out.extend(self.asks().into_iter().map(|ask| ask.command));
    }

    /// What is asked in this round.
    pub fn asks(&self) -> Vec<Ask> {
        let mut asks = Vec::with_capacity(8);
        self.guard_asks(&mut asks);
        self.parts().for_each(|(_, part)| part.asks(&self.spec, self.caps, &mut asks));
        asks.extend(self.fields_ask().map(|(_, ask)| ask));
        asks.extend(self.extras());
        if let Some((lock, stage)) = self.lock() {
            asks.extend(lock.last_asks(stage));
        }
        let later = self.earlier.iter().flat_map(|earlier| &earlier.later);
        asks.extend(later.map(|later| later.ask.clone()));
        asks
    }

    /// Decodes this round's replies: exactly as many as [`TaskRead::commands`] appended.
    pub fn decode(self, replies: &[Reply]) -> Round {
        let all = replies;
        let mut replies = Replies::new(all);
        let guard = match self.take_guard(&mut replies) {
            Ok(guard) => guard,
            Err(guard) => return Round::Again(TaskRead { guard, ..self }),
        };
        let mut reading = match &self.earlier {
            Some(earlier) => earlier.reading.clone().guarded_by(guard),
            None => TaskReading { guard, parts: Parts::default() },
        };
        let later = self.decode_parts(&mut reading.parts, &mut replies);
        if let Some((part, _)) = self.fields_ask() {
            part.take_fields(&self.fields, replies.next(), &mut reading.parts);
        }
        self.decode_rest(&mut reading.guard, &mut replies);
        if let Some(host) = self.host(&reading.guard, all) {
            reading.parts.hosts = Some(host);
        }
        if let Some(earlier) = &self.earlier {
            decode_later(&earlier.later, &later, &mut reading.parts, &mut replies);
            return Round::Done(reading);
        }
        let details = self.lock().zip(reading.lock());
        let details = details.map(|((lock, stage), reading)| lock.details(stage, reading));
        let details = details.unwrap_or_default();
        match self.guard.once_more(&reading.guard, details, !later.is_empty()) {
            Some(guard) => {
                let earlier = Some(Box::new(Earlier { reading, later }));
                Round::Again(TaskRead { guard, earlier, ..self })
            }
            None => Round::Done(reading),
        }
    }

    /// The lock to be read in this round, and how.
    fn lock(&self) -> Option<(Lock<'_>, &Stage)> {
        match (&self.guard, &self.spec.kind) {
            (Guard::Lock(stage), KindSpec::Lock(lock)) if self.scope.contains(Scope::GUARD) => {
                Some((Lock::new(lock, self.caps), stage))
            }
            _ => None,
        }
    }

    /// The queue to be read in this round, and how.
    fn queue(&self) -> Option<(QueueRead<'_>, &QueueStage)> {
        match (&self.guard, &self.spec.kind) {
            (Guard::Queue(stage), KindSpec::Queue(spec)) => {
                Some((QueueRead { spec, caps: self.caps }, stage))
            }
            _ => None,
        }
    }

    fn guard_asks(&self, out: &mut Vec<Ask>) {
        if !self.scope.contains(Scope::GUARD) {
            return;
        }
        match &self.spec.kind {
            KindSpec::Lock(_) => {
                if let Some((lock, stage)) = self.lock() {
                    lock.asks(stage, out);
                }
            }
            KindSpec::Turn(turn) => turn::asks(turn, out),
            KindSpec::Queue(_) => {
                if let Some((queue, stage)) = self.queue() {
                    queue.asks(stage, out);
                }
            }
        }
    }

    /// Decodes the replies to the questions about the guard.
    fn take_guard(&self, replies: &mut Replies<'_>) -> Result<GuardReading, Guard> {
        if !self.scope.contains(Scope::GUARD) {
            return Ok(self.spec.kind.unknown(Unknown::NotReadYet));
        }
        if let KindSpec::Turn(turn) = &self.spec.kind {
            return Ok(GuardReading::Turn(turn::take(turn, replies)));
        }
        if let Some((queue, stage)) = self.queue() {
            return queue.take(stage, replies).map(GuardReading::Queue).map_err(Guard::Queue);
        }
        match self.lock() {
            Some((lock, stage)) => {
                let lock = lock.take(stage, replies).map_err(Guard::Lock)?;
                Ok(GuardReading::Lock { lock, extras: Extras::default() })
            }
            None => Ok(self.spec.kind.unknown(Unknown::NotReadYet)),
        }
    }

    /// Waiters, token and hosts are not requested again with the details.
    fn asks_extras(&self) -> bool {
        self.with_extras && self.earlier.is_none()
    }

    fn parts(&self) -> impl Iterator<Item = (usize, &'static dyn Part)> {
        let asks_extras = self.asks_extras();
        self.scope.parts().filter(move |(_, part)| asks_extras || !part.is_extra())
    }

    /// The questions about waiters and token.
    fn extras(&self) -> Vec<Ask> {
        match self.lock() {
            Some((lock, _)) if self.asks_extras() => lock.extras(),
            _ => Vec::new(),
        }
    }

    /// What asks when the followed fields end, and the part that they belong to.
    fn fields_ask(&self) -> Option<(&'static dyn Part, Ask)> {
        let ask = |part: &'static dyn Part| {
            Some((part, part.fields_ask(&self.spec, self.caps, &self.fields)?))
        };
        self.parts().filter(|_| !self.fields.is_empty()).find_map(|(_, part)| ask(part))
    }

    /// Decodes the parts beside the guard, and determines what is still to be requested.
    fn decode_parts(&self, parts: &mut Parts, replies: &mut Replies<'_>) -> Vec<Later> {
        let later = self.parts().filter_map(|(number, part)| {
            let ask = part.decode(&self.spec, self.caps, replies, parts)?;
            Some(Later { part: number, ask })
        });
        later.collect()
    }

    /// The host of the lock's holder, if the lock's value names it.
    fn host(&self, guard: &GuardReading, replies: &[Reply]) -> Option<HostsReading> {
        let GuardReading::Lock { lock: LockReading::Held(held), .. } = guard else { return None };
        let spec = self.spec.lock().filter(|lock| lock.host.is_some())?;
        self.asks().iter().zip(replies).find_map(|(ask, reply)| value::host(spec, held, ask, reply))
    }

    /// Decodes what is asked of a lock behind the parts. What is not requested in this round stays
    /// as it is.
    fn decode_rest(&self, guard: &mut GuardReading, replies: &mut Replies<'_>) {
        let GuardReading::Lock { lock: reading, extras } = guard else { return };
        let Some((lock, stage)) = self.lock() else { return };
        if self.asks_extras() {
            let others = lock.last_asks(stage).len();
            *extras = lock.library.decode_extras(replies.take_all_but(others));
        }
        lock.take_last(stage, replies, reading);
    }
}

/// Decodes the replies to questions that needed an earlier answer. `still`: they are needed by the
/// present answers, too. Between the rounds the key may have been deleted, or changed its type.
fn decode_later(asked: &[Later], still: &[Later], parts: &mut Parts, replies: &mut Replies<'_>) {
    for Later { part: number, .. } in asked {
        let reply = replies.next();
        if still.iter().any(|later| later.part == *number)
            && let Some(part) = parts::ALL.get(*number)
        {
            part.decode_later(reply, parts);
        }
    }
    // What only these answers made necessary was not asked.
    let unasked = still.iter().filter(|still| !asked.iter().any(|later| later.part == still.part));
    for part in unasked.filter_map(|later| parts::ALL.get(later.part)) {
        part.unreadable(Unknown::NotReadYet, parts);
    }
}
