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
use crate::redis::accept::{Caps, time_of};
use crate::redis::codec;
use crate::redis::pause;
use crate::redis::reply::{Command, Reply};
use crate::redis::scheme::{self, Value};
use crate::redis::wanted;
use lockwatch_judge::reading::{
    Beside, ClaimsReading, Deadline, Extras, Held, Holder, HostsReading, LockReading, Mode,
    PauseReading, ProgressReading, SwitchesReading, TaskReading, Unknown,
};
use lockwatch_judge::spec::{ProgressSource, TaskSpec, WantedSource, WantedSpec};
use lockwatch_judge::time::ServerTime;

/// Maximum number of entries read from a hash or set of users, instances or hosts.
pub(crate) const MAX_ENTRIES: &str = "1000";
/// Maximum error of a deadline computed from `PTTL` on servers without `PEXPIRETIME`, in
/// milliseconds. The computed deadline can be too early by this much.
const PTTL_TOLERANCE_MS: i64 = 2;
/// Latest deadline that is kept: the year 292,278,994 in milliseconds. Later ones count as never,
/// and would overflow the arithmetic.
const LAST_DEADLINE_MS: i64 = 9_223_372_036_854_775;
/// Index of the last byte of a string that is read as progress. The limit fits a status document,
/// but not a queue in a string.
const LAST_PROGRESS_BYTE: &str = "16383";
/// Maximum size in bytes of a progress or claim value that is kept unchanged. Longer ones are kept
/// as a fingerprint.
const KEPT_BYTES: usize = 256;

/// Which parts of a task are read: all, unless they live on different servers or the server is read
/// only as a witness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The lock, with its waiters and token.
    pub lock: bool,
    /// The switches.
    pub switches: bool,
    /// The progress.
    pub progress: bool,
    /// The claims.
    pub claims: bool,
    /// The pause.
    pub pause: bool,
    /// The hosts.
    pub hosts: bool,
}

impl Scope {
    /// Everything.
    pub const ALL: Scope = Scope { lock: true, ..Scope::BESIDE };
    /// Everything but the lock.
    pub const BESIDE: Scope = Scope {
        lock: false,
        switches: true,
        progress: true,
        claims: true,
        pause: true,
        hosts: true,
    };
    /// Nothing.
    pub const NOTHING: Scope = Scope {
        lock: false,
        switches: false,
        progress: false,
        claims: false,
        pause: false,
        hosts: false,
    };
    /// The lock only.
    pub const LOCK: Scope = Scope { lock: true, ..Scope::NOTHING };

    /// The reading of the parts beside the lock in this scope, when `why` prevents any reading.
    pub fn unreadable(self, spec: &TaskSpec, why: Unknown) -> Beside {
        let has_switches = |wanted: &WantedSpec| {
            !matches!(wanted.source, WantedSource::Always | WantedSource::Never)
        };
        let switches = self.switches && spec.wanted.as_ref().is_some_and(has_switches);
        Beside {
            switches: switches.then_some(SwitchesReading::Unknown(why)),
            progress: (self.progress && spec.progress.is_some())
                .then_some(ProgressReading::Unknown(why)),
            claims: (self.claims && spec.claims.is_some()).then_some(ClaimsReading::Unknown(why)),
            hosts: None,
            pause: (self.pause && spec.paused_until.is_some())
                .then_some(PauseReading::Unknown(why)),
        }
    }
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
    readers: Vec<Holder>,
    length_of: Option<&'static str>,
    extras: Extras,
    hosts: Option<HostsReading>,
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
        match can_tell && self.scope.lock {
            true => TaskRead { stage: Stage::Glance(Arc::clone(known)), ..self },
            false => self,
        }
    }

    /// Whether this round reads only the lock's deadline.
    pub fn is_glance(&self) -> bool {
        matches!(self.stage, Stage::Glance(_))
    }

    /// Appends this round's commands.
    pub fn commands(&self, out: &mut Vec<Command>) {
        self.main_commands(out);
        if let Stage::Details(details) = &self.stage {
            self.detail_commands(details, out);
        }
    }

    /// Decodes this round's replies: exactly as many as [`TaskRead::commands`] appended.
    pub fn decode(self, replies: &[Reply]) -> Round {
        let mut replies = Replies(replies.iter());
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

    fn main_commands(&self, out: &mut Vec<Command>) {
        let spec = &*self.spec;
        let (scheme, scope) = (scheme::of(spec.lock().scheme), self.scope);
        if scope.lock {
            self.deadline_commands(out);
            if !self.is_glance() {
                out.push(scheme.value(&spec.lock().key));
                self.deadline_commands(out);
            }
        }
        if let (Some(wanted), true) = (&spec.wanted, scope.switches) {
            wanted::commands(&wanted.source, out);
        }
        match self.progress_source() {
            Some(ProgressSource::HashField { key, field }) => {
                out.push(command!("HGET", key, field))
            }
            Some(ProgressSource::Key(key)) => {
                out.push(command!("STRLEN", key));
                out.push(command!("GETRANGE", key, "0", LAST_PROGRESS_BYTE));
            }
            Some(ProgressSource::Length(key)) => out.push(command!("TYPE", key)),
            None => {}
        }
        if let (Some(claims), true) = (&spec.claims, scope.claims) {
            out.push(command!("HSCAN", claims.key, "0", "COUNT", MAX_ENTRIES));
        }
        if let (Some(key), true) = (&spec.paused_until, scope.pause) {
            out.push(command!("GETRANGE", key, "0", "63"));
        }
        if self.asks_extras() && scope.lock {
            out.extend(self.extras());
        }
        if let (Some(key), true) = (&spec.hosts, self.asks_extras() && scope.hosts) {
            out.push(command!("HSCAN", key, "0", "COUNT", MAX_ENTRIES));
        }
    }

    fn decode_main(&self, again: bool, replies: &mut Replies<'_>) -> Round {
        let lock = match self.scope.lock.then(|| self.take_bracket(replies)) {
            None => LockReading::Unknown(Unknown::NotReadYet),
            Some(Bracket::Torn(_)) if !again => {
                return Round::Again(TaskRead {
                    stage: Stage::Main { again: true },
                    ..self.clone()
                });
            }
            Some(Bracket::Whole(lock) | Bracket::Torn(lock)) => lock,
        };
        self.decode_rest(lock, replies)
    }

    /// Decodes what follows the lock, and determines what is still to be requested.
    fn decode_rest(&self, lock: LockReading, replies: &mut Replies<'_>) -> Round {
        let (reading, length_of) = self.decode_beside(lock, replies);
        if length_of.is_none() && readers(&reading).is_empty() {
            return Round::Done(reading);
        }
        let readers = readers(&reading).to_vec();
        let details =
            Details { readers, length_of, extras: reading.extras, hosts: reading.beside.hosts };
        Round::Again(TaskRead { stage: Stage::Details(Box::new(details)), ..self.clone() })
    }

    /// Decodes what follows the lock. Also returns the command that reads the progress, if that is
    /// a length.
    fn decode_beside(
        &self,
        lock: LockReading,
        replies: &mut Replies<'_>,
    ) -> (TaskReading, Option<&'static str>) {
        let (spec, scope) = (&*self.spec, self.scope);
        let scheme = scheme::of(spec.lock().scheme);
        let mut length_of = None;
        let beside = Beside {
            switches: match &spec.wanted {
                Some(wanted) if scope.switches => wanted::decode(wanted, replies),
                _ => None,
            },
            progress: self.progress_source().map(|source| match source {
                ProgressSource::HashField { .. } => hash_field(replies.next()),
                ProgressSource::Key(_) => string_progress(replies.next(), replies.next()),
                ProgressSource::Length(_) => match length_command(replies.next()) {
                    Ok(command) => {
                        length_of = Some(command);
                        ProgressReading::Unknown(Unknown::NotReadYet)
                    }
                    Err(reading) => reading,
                },
            }),
            claims: (scope.claims && spec.claims.is_some()).then(|| claims(scheme, replies.next())),
            pause: (scope.pause && spec.paused_until.is_some())
                .then(|| pause::decode(replies.next())),
            hosts: None,
        };
        let extras = match self.asks_extras() && scope.lock {
            true => scheme.decode_extras(replies.take(self.extras().len())),
            false => Extras::default(),
        };
        let hosts = match (&spec.hosts, self.asks_extras() && scope.hosts) {
            (Some(_), true) => {
                Some(scanned_pairs(replies.next()).map(|pairs| host_names(scheme, pairs)))
            }
            _ => None,
        };
        (TaskReading { lock, extras, beside: Beside { hosts, ..beside } }, length_of)
    }

    fn extras(&self) -> Vec<Command> {
        scheme::of(self.spec.lock().scheme).extras(&self.spec.lock().key, self.caps.sharded)
    }

    fn take_bracket(&self, replies: &mut Replies<'_>) -> Bracket {
        let before = self.take_expiry(replies);
        let value = replies.next();
        let after = self.take_expiry(replies);
        bracket(before, value, after, scheme::of(self.spec.lock().scheme))
    }

    fn detail_commands(&self, details: &Details, out: &mut Vec<Command>) {
        out.extend(
            scheme::of(self.spec.lock().scheme).liveness(&self.spec.lock().key, &details.readers),
        );
        if let (Some(command), Some(ProgressSource::Length(key))) =
            (details.length_of, self.progress_source())
        {
            out.push(command!(command, key));
        }
    }

    fn decode_details(&self, details: &Details, replies: &mut Replies<'_>) -> TaskReading {
        let lock = match self.scope.lock.then(|| self.take_bracket(replies)) {
            None => LockReading::Unknown(Unknown::NotReadYet),
            Some(Bracket::Whole(lock) | Bracket::Torn(lock)) => lock,
        };
        let (mut reading, length_of) = self.decode_beside(lock, replies);
        reading.extras = details.extras;
        reading.beside.hosts.clone_from(&details.hosts);
        let scheme = scheme::of(self.spec.lock().scheme);
        let asked = scheme.liveness(&self.spec.lock().key, &details.readers).len();
        let answers = details.readers.iter().zip(replies.take(asked));
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
        if details.length_of.is_some() {
            let told = replies.next();
            // Between the rounds the key may have been deleted, or changed its type.
            if length_of.is_some() {
                reading.beside.progress = Some(match told {
                    Reply::Int(length) => {
                        ProgressReading::Value(alloc::format!("{length}").into_bytes())
                    }
                    Reply::Error(error) => ProgressReading::Unknown(error.into()),
                    _ => ProgressReading::Unknown(Unknown::Protocol),
                });
            }
        }
        reading
    }

    fn progress_source(&self) -> Option<&ProgressSource> {
        if !self.scope.progress {
            return None;
        }
        self.spec.progress.as_ref().map(|progress| &progress.source)
    }

    fn deadline_commands(&self, out: &mut Vec<Command>) {
        if self.caps.pexpiretime {
            out.push(command!("PEXPIRETIME", self.spec.lock().key));
        } else {
            out.push(command!("TIME"));
            out.push(command!("PTTL", self.spec.lock().key));
        }
    }

    fn take_expiry(&self, replies: &mut Replies<'_>) -> Result<Expiry, Unknown> {
        let now = match self.caps.pexpiretime {
            true => None,
            false => Some(time_of(replies.next())?),
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
    scheme: &dyn scheme::Scheme,
) -> Bracket {
    let (before, after) = match (before, after) {
        (Ok(before), Ok(after)) => (before, after),
        (Err(why), _) | (_, Err(why)) => return Bracket::Whole(LockReading::Unknown(why)),
    };
    let agreed = Expiry::agreed(before, after);
    let held =
        |mode, holders, deadline| LockReading::from(Held { mode, holders, ghosts: 0, deadline });
    // An empty value means "there, but empty" only if the key was there throughout.
    let stayed = agreed.is_some_and(|expiry| expiry != Expiry::Absent);
    match (scheme.decode(value, stayed), agreed) {
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

fn hash_field(reply: &Reply) -> ProgressReading {
    match reply {
        Reply::Nil => ProgressReading::Absent,
        Reply::Bytes(value) => ProgressReading::Value(fingerprint(value)),
        Reply::Error(error) => ProgressReading::Unknown(error.into()),
        _ => ProgressReading::Unknown(Unknown::Protocol),
    }
}

fn string_progress(length: &Reply, beginning: &Reply) -> ProgressReading {
    match (length, beginning) {
        (Reply::Int(0), Reply::Bytes(_)) => ProgressReading::Absent,
        (Reply::Int(length), Reply::Bytes(beginning)) => {
            let mut value = fingerprint(beginning);
            value.extend_from_slice(alloc::format!("+{length}").as_bytes());
            ProgressReading::Value(value)
        }
        (Reply::Error(error), _) | (_, Reply::Error(error)) => {
            ProgressReading::Unknown(error.into())
        }
        _ => ProgressReading::Unknown(Unknown::Protocol),
    }
}

/// The command that reads the length of a key of this type.
fn length_command(kind: &Reply) -> Result<&'static str, ProgressReading> {
    match kind {
        Reply::Bytes(kind) => match kind.as_slice() {
            b"list" => Ok("LLEN"),
            b"set" => Ok("SCARD"),
            b"zset" => Ok("ZCARD"),
            b"stream" => Ok("XLEN"),
            b"none" => Err(ProgressReading::Absent),
            _ => Err(ProgressReading::Unknown(Unknown::WrongType)),
        },
        Reply::Error(error) => Err(ProgressReading::Unknown(error.into())),
        _ => Err(ProgressReading::Unknown(Unknown::Protocol)),
    }
}

fn claims(scheme: &dyn scheme::Scheme, reply: &Reply) -> ClaimsReading {
    match scanned_pairs(reply) {
        Ok(pairs) => {
            let mut claims: Vec<_> = pairs
                .into_iter()
                .map(|(id, value)| (scheme.instance(id), fingerprint(value)))
                .collect();
            claims.sort_unstable();
            claims.dedup_by(|a, b| a.0 == b.0);
            ClaimsReading::Read(claims)
        }
        Err(why) => ClaimsReading::Unknown(why),
    }
}

/// A short form of a value that shows whether any of its bytes changed, without keeping a large
/// value. In a document, the change may be anywhere.
fn fingerprint(value: &[u8]) -> Vec<u8> {
    if value.len() <= KEPT_BYTES {
        return value.to_vec();
    }
    let mut print = value.get(..KEPT_BYTES).unwrap_or_default().to_vec();
    print.extend_from_slice(alloc::format!("+{}+{:016x}", value.len(), fnv1a(value)).as_bytes());
    print
}

/// 64-bit FNV-1a. Two values of one length that differ in a single byte never have the same hash.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A field of a hash and its value.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// The pairs of a complete scan of a hash (cursor 0).
pub(crate) fn scanned_pairs(reply: &Reply) -> Result<Vec<Pair<'_>>, Unknown> {
    let items = scanned_items(reply)?;
    let pairs = items.chunks(2).map(|pair| match pair {
        [field, value] => Ok((
            field.as_bytes().ok_or(Unknown::Protocol)?,
            value.as_bytes().ok_or(Unknown::Protocol)?,
        )),
        _ => Err(Unknown::Protocol),
    });
    pairs.collect()
}

/// The items of a complete scan (cursor 0).
pub(crate) fn scanned_items(reply: &Reply) -> Result<&[Reply], Unknown> {
    let (items, whole) = scanned_part(reply)?;
    if whole { Ok(items) } else { Err(Unknown::TooLarge) }
}

/// The items of a scan, and whether the scan is complete.
pub(crate) fn scanned_part(reply: &Reply) -> Result<(&[Reply], bool), Unknown> {
    if let Reply::Error(error) = reply {
        return Err(error.into());
    }
    match reply.as_array() {
        Some([cursor, items]) => {
            let whole = cursor.as_bytes() == Some(b"0");
            Ok((items.as_array().ok_or(Unknown::Protocol)?, whole))
        }
        _ => Err(Unknown::Protocol),
    }
}

fn host_names(scheme: &dyn scheme::Scheme, pairs: Vec<Pair<'_>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    pairs.into_iter().map(|(id, host)| (scheme.instance(id), codec::written_text(host))).collect()
}

/// Iterates over replies. A missing reply reads as `Nil`, which no decoder accepts as an answer
/// about a lock.
pub(crate) struct Replies<'a>(core::slice::Iter<'a, Reply>);

impl<'a> Replies<'a> {
    pub(crate) fn next(&mut self) -> &'a Reply {
        self.0.next().unwrap_or(&Reply::Nil)
    }

    pub(crate) fn take(&mut self, count: usize) -> &'a [Reply] {
        let rest = self.0.as_slice();
        let (taken, rest) = rest.split_at_checked(count).unwrap_or((&[], &[]));
        self.0 = rest.iter();
        taken
    }
}
