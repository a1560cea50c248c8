//! Compares what each server of a redis shows of one lock. This never decides whether the lock is
//! held or free; it shows how far a replica is behind, and whether two masters show two holders.
//!
//! Two masters that show different holders prove little by themselves. The older hold may have been
//! released on the other server, and its copy here is a leftover without a holder. So there must be
//! evidence that the older hold is alive.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::continuity::earlier::{BRIEF_MS, Earlier};
use crate::continuity::generation;
use crate::event::Party;
use crate::evidence::{Origin, Seen, set_between};
use crate::input::{Role, Standing};
use crate::reading::{Deadline, Held, Holder, LockReading, Mode, clients_meet};
use crate::snapshot::WitnessView;
use crate::spec::RedisKind;
use crate::time::{Mono, ServerTime};

/// Typical duration in milliseconds of a phantom hold: a client takes the lock, waits in vain for
/// replicas and releases it, and its application never learns that it held the lock.
pub const PHANTOM_MS: u64 = 1_150;

/// What all servers show of one lock, sorted by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witnesses {
    servers: Vec<Server>,
}

/// What one server showed in its newest accepted batch.
#[derive(Clone, Debug)]
struct Server {
    origin: Origin,
    standing: Standing,
    role: Role,
    seen: Seen,
    /// When the request of its last answer was sent, including an answer that refused this lock.
    answered: Mono,
    /// Whether it had also answered shortly before. If so, its state does not come from commands
    /// executed late, after a freeze.
    steady: bool,
    shown: Shown,
    expired: Option<RanOut>,
    earlier: Earlier,
    lag: Option<Lag>,
}

/// The lag of a replica when it was last read.
#[derive(Clone, Copy, Debug)]
struct Lag {
    /// The hold compared: since when the deciding server has shown it.
    of: Mono,
    ms: u64,
}

/// The hold that the deciding server shows.
#[derive(Clone, Copy, Debug)]
struct Newest<'a> {
    hold: &'a Hold,
    deadline: ServerTime,
}

/// A hold that expired on one server, as seen there.
#[derive(Clone, Debug)]
struct RanOut {
    holders: Vec<Holder>,
    at: Mono,
}

#[derive(Clone, Debug)]
enum Shown {
    Nothing,
    Hold(Hold),
}

/// A hold as one server shows it.
#[derive(Clone, Debug)]
struct Hold {
    held: Held,
    /// When it was first seen on this server.
    since: Mono,
    /// Latest possible beginning.
    began: Mono,
    /// Whether the server had answered shortly before it began. If so, the hold does not come from
    /// a command executed late, after a freeze.
    steady: bool,
    /// When this server certainly did not show it yet; `None` when it did in the first reading.
    not_before: Option<Mono>,
    /// That reading was as a replica, so the hold may have come from the master long after it had
    /// begun there.
    perhaps_late: bool,
    /// The server's replication offset when the hold certainly had not begun.
    offset_before: Option<u64>,
    /// The offset by which the holder's previous hold here was certainly over, if any.
    earlier_over: Option<u64>,
    /// The newest known deadline, and when it was reported. A reading during a renewal has none.
    told: Option<(ServerTime, Mono)>,
    /// When the deadline was last seen to have moved forward.
    moved: Option<Mono>,
    /// The instant after which its holder certainly moved the deadline forward on this server, as a
    /// master.
    lived_after: Option<Mono>,
}

/// How the servers' readings are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Readings further apart than this do not contradict each other.
    pub(crate) fresh_ms: u64,
    /// A hold that lasted this long is no phantom.
    pub(crate) settle_ms: u64,
    pub(crate) kind: RedisKind,
}

/// Two masters show different holders.
#[derive(Clone, Debug)]
pub(crate) struct Rivalry {
    pub(crate) nodes: [Arc<str>; 2],
    pub(crate) older: Vec<Party>,
    pub(crate) newer: Vec<Party>,
    /// Remaining lease of the older hold in milliseconds.
    pub(crate) left_ms: Option<u64>,
    /// The older hold is certainly alive.
    pub(crate) proven: bool,
}

/// One accepted reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) standing: Standing,
    pub(crate) role: Role,
    pub(crate) seen: Seen,
    pub(crate) lease_ms: Option<u64>,
    /// A master that was read again within this time has not been frozen.
    pub(crate) steady_ms: u64,
    /// The same limit for a replica, which is read less often. A frozen replica is not promoted.
    pub(crate) steady_replica_ms: u64,
    /// A server that was read again within this time is unlikely to have shown anything else in
    /// between.
    pub(crate) fresh_ms: u64,
}

impl Word<'_> {
    /// Whether it follows so soon that the server was not frozen in between.
    fn comes_soon_after(&self, before: &Server) -> bool {
        let steady_ms =
            if before.role == Role::Replica { self.steady_replica_ms } else { self.steady_ms };
        self.seen.sent.since_ms(before.answered) < steady_ms
    }
}

impl Witnesses {
    /// Takes in the reading of a server.
    pub(crate) fn observe(&mut self, reading: &LockReading, word: Word<'_>) {
        let position =
            self.servers.binary_search_by(|server| server.origin.node.cmp(&word.origin.node));
        let before = match position {
            Ok(position) => self.servers.get(position),
            Err(_) => None,
        };
        if before.is_some_and(|before| word.seen.sent < before.seen.sent) {
            return;
        }
        let new = match reading {
            LockReading::Unknown(_) => {
                if let Ok(position) = position
                    && let Some(server) = self.servers.get_mut(position)
                {
                    server.answered = word.seen.sent;
                }
                return;
            }
            LockReading::Free => Server::new(word, Shown::Nothing, before, expired(before, word)),
            LockReading::Held(held) => {
                let hold = Hold::new(held, word, before);
                let took_over_early =
                    before.is_some_and(|before| hold.began_before_end_of(before, word));
                let gone = if hold.since == word.seen.sent && !took_over_early {
                    expired(before, word)
                } else {
                    None
                };
                let gone = gone.or_else(|| before?.expired.clone());
                let gone = gone.filter(|gone| !clients_meet(&gone.holders, &held.holders));
                Server::new(word, Shown::Hold(hold), before, gone)
            }
        };
        match position {
            Ok(position) => {
                if let Some(server) = self.servers.get_mut(position) {
                    *server = new;
                }
            }
            Err(position) => self.servers.insert(position, new),
        }
        self.compare(word);
    }

    /// Records the lag of the replicas. A reading from before the newest renewal does not show
    /// whether the replica has it, so the earlier result stays until the next one. Otherwise each
    /// renewal would hide a lagging replica.
    fn compare(&mut self, word: Word<'_>) {
        for position in 0..self.servers.len() {
            let newest = self.newest();
            let lag = self
                .servers
                .get(position)
                .and_then(|server| newest.and_then(|newest| server.lag_behind(newest)));
            let Some(server) = self.servers.get_mut(position) else { continue };
            if lag.is_some() {
                server.lag = lag;
            } else if word.seen.sent.since_ms(server.seen.sent) >= word.steady_replica_ms {
                server.lag = None;
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Drops servers that no longer belong to the redis.
    pub(crate) fn retain(&mut self, nodes: &[Arc<str>]) {
        self.servers.retain(|server| nodes.contains(&server.origin.node));
    }

    /// Whether another master than `node` shows a holder at about `at`.
    pub(crate) fn held_elsewhere(&self, node: &str, limits: Limits, at: Mono) -> bool {
        self.servers.iter().any(|server| {
            *server.origin.node != *node
                && server.fresh(limits, at)
                && server.rules()
                && server.live_hold(at).is_some()
        })
    }

    /// Two masters with different holders, if any; one with proof is preferred.
    pub(crate) fn rivalry(&self, limits: Limits, at: Mono) -> Option<Rivalry> {
        let pairs = self.servers.iter().enumerate().flat_map(|(position, a)| {
            let others = self.servers.iter().skip(position + 1);
            others.filter_map(move |b| rivalry(a, b, limits, at))
        });
        pairs.max_by_key(|rivalry| rivalry.proven)
    }

    /// Whether these two servers still show different holders. While one of them cannot be read,
    /// this holds until its hold expires.
    pub(crate) fn contradict(&self, [a, b]: &[Arc<str>; 2], at: Mono) -> bool {
        let server =
            |name: &Arc<str>| self.servers.iter().find(|server| server.origin.node == *name);
        let (Some(a), Some(b)) = (server(a), server(b)) else { return false };
        match (a.live_hold(at), b.live_hold(at)) {
            (Some(x), Some(y)) => {
                a.rules() && b.rules() && !clients_meet(&x.held.holders, &y.held.holders)
            }
            _ => false,
        }
    }

    /// What the servers that do not decide show, for outputs.
    pub(crate) fn view(&self) -> Vec<WitnessView> {
        let newest = self.newest().map(|newest| newest.hold.since);
        let others = self.servers.iter().filter(|server| server.standing == Standing::Witness);
        let view = |server: &Server| WitnessView {
            node: server.origin.node.clone(),
            role: server.role,
            at: server.seen.sent,
            holders: server.hold().map(|hold| hold.held.holders.clone()),
            behind_ms: server.lag.filter(|lag| Some(lag.of) == newest).map(|lag| lag.ms),
        };
        others.map(view).collect()
    }

    fn newest(&self) -> Option<Newest<'_>> {
        let lead = self
            .servers
            .iter()
            .filter(|server| server.standing == Standing::Decides)
            .max_by_key(|lead| lead.seen.sent)?;
        let hold = lead.hold()?;
        hold.held.deadline.instant().map(|deadline| Newest { hold, deadline })
    }
}

impl Server {
    fn new(
        word: Word<'_>,
        shown: Shown,
        before: Option<&Server>,
        expired: Option<RanOut>,
    ) -> Server {
        let expired = match (&shown, before) {
            // An expiry stays known until another client's hold ends here.
            (Shown::Nothing, Some(before)) if expired.is_none() && before.hold().is_none() => {
                before.expired.clone()
            }
            _ => expired,
        };
        let earlier = before.map(|before| before.earlier_at(&shown, word)).unwrap_or_default();
        Server {
            origin: word.origin.clone(),
            standing: word.standing,
            role: word.role,
            seen: word.seen,
            answered: word.seen.sent,
            steady: before.is_some_and(|before| word.comes_soon_after(before)),
            shown,
            expired,
            earlier,
            lag: match before {
                Some(before) if word.role == Role::Replica => before.lag,
                _ => None,
            },
        }
    }

    /// The holds that were over here at the time of this reading.
    fn earlier_at(&self, shown: &Shown, word: Word<'_>) -> Earlier {
        let mut earlier = self.earlier.clone();
        if !one_history(&self.origin, word.origin) {
            earlier.new_history(|_| false);
        }
        let goes_on = |old: &Hold| matches!(shown, Shown::Hold(new) if clients_meet(&old.held.holders, &new.held.holders));
        if let Some(over) = self.hold().filter(|old| !goes_on(old)) {
            let given_back = self.left_ms(over, word.seen.sent).is_none_or(|left_ms| left_ms > 0);
            let brief = given_back && self.seen.sent.since_ms(over.began) < BRIEF_MS;
            earlier.over(&over.held, word.origin.offset, brief);
        }
        earlier
    }

    fn hold(&self) -> Option<&Hold> {
        match &self.shown {
            Shown::Hold(hold) => Some(hold),
            Shown::Nothing => None,
        }
    }

    /// Whether it reports that it is master.
    fn rules(&self) -> bool {
        self.role == Role::Master
    }

    fn fresh(&self, limits: Limits, at: Mono) -> bool {
        at.since_ms(self.seen.sent) <= limits.fresh_ms
    }

    /// Its hold, if that is exclusive and has not run out by `at`.
    fn live_hold(&self, at: Mono) -> Option<&Hold> {
        let hold = self
            .hold()
            .filter(|hold| hold.held.mode != Mode::Read && !hold.held.holders.is_empty())?;
        let runs = self.left_ms(hold, at).is_none_or(|left_ms| left_ms > 0);
        runs.then_some(hold)
    }

    /// Remaining lease of a hold at `at` in milliseconds; `None` if its end is unknown.
    fn left_ms(&self, hold: &Hold, at: Mono) -> Option<u64> {
        let Deadline::At(deadline) = hold.held.deadline else { return None };
        let left_ms = u64::try_from(deadline.since_ms(self.seen.last)).unwrap_or(0);
        Some(left_ms.saturating_sub(at.since_ms(self.seen.sent)))
    }

    /// For a replica that was read after the newest deadline was set: how far its own deadline is
    /// behind.
    fn lag_behind(&self, Newest { hold, deadline }: Newest<'_>) -> Option<Lag> {
        if self.role != Role::Replica || self.seen.sent <= hold.moved.unwrap_or(hold.since) {
            return None;
        }
        let behind =
            match self.hold().filter(|own| clients_meet(&hold.held.holders, &own.held.holders)) {
                Some(own) => match own.held.deadline {
                    Deadline::At(own) => deadline.since_ms(own),
                    Deadline::Never | Deadline::Torn => return None,
                },
                // The replica lacks this hold completely.
                None => deadline.since_ms(self.seen.last),
            };
        Some(Lag { of: hold.since, ms: u64::try_from(behind).unwrap_or(0) })
    }
}

fn told(held: &Held, at: Mono) -> Option<(ServerTime, Mono)> {
    held.deadline.instant().map(|deadline| (deadline, at))
}

/// A deadline that moves back by this many milliseconds on one clock was written, not measured
/// differently.
const WRITTEN_BACK_MS: i64 = 1_000;

impl Hold {
    fn new(held: &Held, word: Word<'_>, before: Option<&Server>) -> Hold {
        let at = word.seen.sent;
        let known = before.and_then(|before| Some((before, before.hold()?)));
        if let Some((server, old)) =
            known.filter(|(_, old)| clients_meet(&old.held.holders, &held.holders))
        {
            let (forward, back) = match (old.told, held.deadline) {
                (Some((old, _)), Deadline::At(new)) if word.origin.same_clock(&server.origin) => {
                    (new > old, old.since_ms(new) > WRITTEN_BACK_MS)
                }
                _ => (false, false),
            };
            let comparable =
                word.origin.same_clock(&server.origin) && one_reign(&server.origin, word.origin);
            let ruled = server.rules() && word.role == Role::Master;
            // The clock of the server that wrote the previous deadline may have been ahead of this
            // one's.
            let written = forward || back && one_reign(&server.origin, word.origin);
            return Hold {
                held: held.clone(),
                offset_before: match one_history(&server.origin, word.origin) {
                    true => old.offset_before,
                    false => None,
                },
                told: match held.deadline {
                    Deadline::Torn if comparable => old.told,
                    Deadline::Torn => None,
                    Deadline::At(_) | Deadline::Never => told(held, at),
                },
                moved: if forward { Some(at) } else { old.moved },
                lived_after: match old.told {
                    Some((_, told_at)) if written && ruled && server.steady => Some(told_at),
                    _ => old.lived_after,
                },
                ..*old
            };
        }
        let exact = match (held.deadline, word.lease_ms, before) {
            (Deadline::At(deadline), Some(lease_ms), Some(before))
                if word.origin.same_clock(&before.origin) =>
            {
                set_between(deadline, lease_ms, before.seen, word.seen)
                    .map(|set| word.seen.mono_of(set).min(at))
            }
            _ => None,
        };
        Hold {
            held: held.clone(),
            since: at,
            began: exact.unwrap_or(at),
            steady: before.is_some_and(|before| word.comes_soon_after(before)),
            not_before: before.map(|before| before.seen.sent),
            perhaps_late: exact.is_none() && before.is_some_and(|before| !before.rules()),
            offset_before: before
                .filter(|before| {
                    same_process(&before.origin, word.origin)
                        && one_history(&before.origin, word.origin)
                })
                .and_then(|before| before.origin.offset),
            earlier_over: before.and_then(|before| before.earlier.of(&held.holders)),
            told: told(held, at),
            moved: None,
            lived_after: None,
        }
    }

    /// Whether, when last seen at `seen`, it had lasted long enough or was renewed, so that its
    /// client did not release it as a phantom.
    fn settled(&self, seen: Mono, long_ms: u64) -> bool {
        self.moved.is_some() || seen.since_ms(self.began) >= long_ms
    }

    /// Whether it began while the lease shown by `before` was still running, so that this lease did
    /// not expire.
    fn began_before_end_of(&self, before: &Server, word: Word<'_>) -> bool {
        let deadline = before.hold().and_then(|hold| hold.held.deadline.instant());
        deadline.is_some_and(|deadline| self.began < word.seen.mono_of(deadline))
    }

    /// Its holder lived on this server after `instant`.
    fn lived_after(&self, instant: Mono) -> bool {
        self.lived_after.is_some_and(|lived| lived >= instant)
    }
}

/// The hold that expired between two readings of one server. A hold not seen shortly before its end
/// may have been renewed unseen and released. One with much of its lease left, compared with how
/// long it was seen, may have been released before its end.
fn expired(before: Option<&Server>, word: Word<'_>) -> Option<RanOut> {
    let before =
        before.filter(|before| word.seen.sent.since_ms(before.seen.sent) <= word.fresh_ms)?;
    let hold = before.hold()?;
    let Deadline::At(deadline) = hold.held.deadline else { return None };
    let unrenewed_ms = before.seen.sent.since_ms(hold.moved.unwrap_or(hold.since));
    let unrenewed = before.left_ms(hold, before.seen.sent)? <= unrenewed_ms;
    let over = word.origin.same_clock(&before.origin) && word.seen.last >= deadline;
    (unrenewed && over).then(|| RanOut { holders: hold.held.holders.clone(), at: word.seen.sent })
}

fn rivalry(a: &Server, b: &Server, limits: Limits, at: Mono) -> Option<Rivalry> {
    let rules = |server: &Server| server.rules() && server.fresh(limits, at);
    if same_process(&a.origin, &b.origin) || !rules(a) || !rules(b) {
        return None;
    }
    let (x, y) = (a.live_hold(at)?, b.live_hold(at)?);
    if clients_meet(&x.held.holders, &y.held.holders) {
        return None;
    }
    let prompt = |server: &Server, hold: &Hold| server.standing == Standing::Decides || hold.steady;
    // A hold that a frozen server executed late takes longer to be released,
    let settled = |server: &Server, hold: &Hold| {
        hold.settled(
            server.seen.sent,
            if prompt(server, hold) { PHANTOM_MS } else { limits.settle_ms },
        )
    };
    if !settled(a, x) || !settled(b, y) {
        return None;
    }
    // or never is, because its client does not know of it. Only a renewal proves that it does.
    let known = |server: &Server, hold: &Hold| prompt(server, hold) || hold.moved.is_some();
    let ((older, old), (newer, new)) =
        if x.since < y.since { ((a, x), (b, y)) } else { ((b, y), (a, x)) };
    if older.seen.sent < new.since {
        return None; // They were never seen side by side.
    }
    let parties = |server: &Server, hold: &Hold| -> Vec<Party> {
        hold.held
            .holders
            .iter()
            .map(|holder| Party::of(holder, Some(&server.origin.node)))
            .collect()
    };
    Some(Rivalry {
        nodes: [a.origin.node.clone(), b.origin.node.clone()],
        older: parties(older, old),
        newer: parties(newer, new),
        left_ms: older.left_ms(old, at),
        proven: known(a, x)
            && known(b, y)
            && newer_lives(older, old, newer, new)
            && older_lives(older, old, newer, new, limits),
    })
}

/// Whether the newer hold is no leftover: it was taken or renewed while the older one existed.
fn newer_lives(older: &Server, old: &Hold, newer: &Server, new: &Hold) -> bool {
    // A hold that arrived late may have been over on the master, and that is known only beyond the
    // shared bytes.
    let over = if new.perhaps_late { older.earlier.of(&new.held.holders) } else { None };
    let leftover = over
        .is_some_and(|over| fork(&older.origin, &newer.origin).is_none_or(|shared| over > shared));
    let taken = !leftover && new.not_before.is_some_and(|before| before >= old.since);
    taken || new.lived_after(old.since)
}

/// Whether the older hold cannot have been released on the other server.
fn older_lives(older: &Server, old: &Hold, newer: &Server, new: &Hold, limits: Limits) -> bool {
    let ran_out =
        newer.expired.as_ref().filter(|ran_out| clients_meet(&ran_out.holders, &old.held.holders));
    // A client that renews its lock here would have released it here, too. A lock with a fixed
    // lease may be released at any time, and a lock that a replica received is renewed elsewhere.
    let ran_out_there =
        old.lived_after.is_some() && ran_out.is_some_and(|ran_out| ran_out.at > old.since);
    // The offset by which the same client's newest hold was over there. The client may have
    // released that one instead of the older one.
    let over_there = newer.earlier.of(&old.held.holders);
    let never_there = match fork(&older.origin, &newer.origin) {
        // The offset is read a moment after the lock, so it must have grown since.
        Some(shared) => {
            let grew = older.origin.offset.is_some_and(|now| now > shared);
            // The other server also had no earlier hold of the same client left that it may have
            // released instead.
            let nothing_left = old.earlier_over.is_none_or(|over| over <= shared);
            let none_there = over_there.is_none_or(|over| over <= shared);
            grew && nothing_left
                && none_there
                && old.offset_before.is_some_and(|written| written >= shared)
        }
        // It began on a server that never shared data with the other one.
        None => {
            let apart =
                limits.kind == RedisKind::Replicated && both_tell(&older.origin, &newer.origin);
            apart
                && over_there.is_none()
                && old.offset_before.is_some()
                && !older.origin.related(&newer.origin)
        }
    };
    // If the lock is only held for moments, its holder may have had it there, too, between two
    // readings.
    let leased_ms = older
        .left_ms(old, older.seen.sent)
        .map(|left_ms| left_ms + older.seen.sent.since_ms(old.began));
    let brief = older.earlier.brief() || leased_ms.is_some_and(|leased_ms| leased_ms < BRIEF_MS);
    let repeated = brief && new.since.since_ms(old.began) < limits.settle_ms;
    old.lived_after(new.since) || (ran_out_there || never_there) && !repeated
}

/// Number of bytes that two servers share, if one of them continues the history of the other, or
/// both the same third one.
fn fork(a: &Origin, b: &Origin) -> Option<u64> {
    let (a, b) = (a.generation.as_deref()?, b.generation.as_deref()?);
    let of_a_third = || {
        let (a, b) = (a.forked_from.as_ref()?, b.forked_from.as_ref()?);
        let same = !a.replication_id.is_empty() && a.replication_id == b.replication_id;
        same.then(|| a.offset.min(b.offset).saturating_sub(1))
    };
    generation::shared_bytes(a, b).or_else(|| generation::shared_bytes(b, a)).or_else(of_a_third)
}

/// Whether offsets of both belong to one history: the same, or one that was continued.
fn one_history(old: &Origin, new: &Origin) -> bool {
    match (&old.generation, &new.generation) {
        (Some(old), Some(new)) => {
            old.replication_id == new.replication_id || generation::shared_bytes(old, new).is_some()
        }
        _ => false,
    }
}

fn both_tell(a: &Origin, b: &Origin) -> bool {
    a.generation.is_some() && b.generation.is_some()
}

/// Whether a master stayed master between both. A server that follows another one, even for a
/// moment, starts a new history.
fn one_reign(old: &Origin, new: &Origin) -> bool {
    match (&old.generation, &new.generation) {
        (Some(old), Some(new)) => {
            !old.replication_id.is_empty() && old.replication_id == new.replication_id
        }
        _ => false,
    }
}

fn same_process(a: &Origin, b: &Origin) -> bool {
    match (&a.generation, &b.generation) {
        (Some(a), Some(b)) => !a.run_id.is_empty() && a.run_id == b.run_id,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const LIMITS: Limits = Limits { fresh_ms: 3_000, settle_ms: 5_000, kind: RedisKind::Sentinel };

    fn server(name: &str) -> Server {
        let origin = Origin {
            node: Arc::from(name),
            clock_steps: 0,
            generation: None,
            histories: Arc::default(),
            offset: None,
            kind: RedisKind::Sentinel,
        };
        let seen = Seen { sent: Mono(9_000), first: ServerTime(9_000), last: ServerTime(9_000) };
        let (standing, role) = (Standing::Decides, Role::Master);
        Server {
            origin,
            standing,
            role,
            seen,
            answered: seen.sent,
            steady: true,
            shown: Shown::Nothing,
            expired: None,
            earlier: Earlier::default(),
            lag: None,
        }
    }

    fn hold(who: &str, since: u64) -> Hold {
        let client = who.as_bytes().to_vec();
        let holders = vec![Holder { client, thread: None, entries: None, secret: false }];
        Hold {
            held: Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline: Deadline::Never },
            since: Mono(since),
            began: Mono(since),
            steady: false,
            not_before: None,
            perhaps_late: false,
            offset_before: None,
            earlier_over: None,
            told: None,
            moved: None,
            lived_after: None,
        }
    }

    /// Only the two servers of a split show whether it continues, whatever others there are.
    #[test]
    fn a_third_server_ends_no_split_of_two_others() {
        let shows = |name: &str, who: Option<&str>| {
            let shown = who.map_or(Shown::Nothing, |who| Shown::Hold(hold(who, 5_000)));
            Server { shown, ..server(name) }
        };
        let contradict = |[a, b, c]: [Option<&str>; 3], [x, y]: [&str; 2]| {
            let servers = vec![shows("a", a), shows("b", b), shows("c", c)];
            Witnesses { servers }.contradict(&[Arc::from(x), Arc::from(y)], Mono(9_000))
        };
        let all = [Some("A"), Some("B"), Some("B")];
        assert!(
            contradict(all, ["a", "b"])
                && contradict(all, ["a", "c"])
                && !contradict(all, ["b", "c"])
        );
        for of_others in [[None, Some("A"), Some("B")], [Some("A"), Some("A"), Some("B")]] {
            assert!(contradict(of_others, ["b", "c"]) && contradict(of_others, ["c", "b"]));
        }
        assert!(!contradict([Some("A"), None, Some("B")], ["a", "b"]), "one of them is free");
        assert!(!contradict(all, ["a", "gone"]), "nobody knows one of them");
    }

    /// A client that takes the lock again after its hold expired may well have released it where
    /// that hold expired.
    #[test]
    fn only_a_hold_that_ran_out_after_it_was_seen_here_ran_out_there() {
        let (older, mut newer) = (server("a"), server("b"));
        let moved = Hold { moved: Some(Mono(5_500)), ..hold("A", 5_000) };
        let (renewed, new) =
            (Hold { lived_after: Some(Mono(5_000)), ..moved.clone() }, hold("B", 8_000));
        // As a replica it received that, and possibly nothing later.
        for (old, at, lives) in
            [(&renewed, 4_000, false), (&renewed, 6_000, true), (&moved, 6_000, false)]
        {
            newer.expired = Some(RanOut { holders: old.held.holders.clone(), at: Mono(at) });
            assert_eq!(older_lives(&older, old, &newer, &new, LIMITS), lives, "{at}");
        }
    }

    /// A hold that is gone earlier was released, and another clock shows nothing about its end.
    #[test]
    fn only_what_is_gone_at_its_deadline_ran_out() {
        let held = |deadline| {
            let mut hold = hold("A", 1_000);
            hold.held.deadline = Deadline::At(ServerTime(deadline));
            Server { shown: Shown::Hold(hold), ..server("a") }
        };
        let ran_out = |deadline: i64, at: u64, clock_steps: u32| {
            let origin = Origin { clock_steps, ..server("a").origin };
            let clock = ServerTime(i64::try_from(at).unwrap());
            let word = Word {
                origin: &origin,
                standing: Standing::Decides,
                role: Role::Master,
                seen: Seen { sent: Mono(at), first: clock, last: clock },
                lease_ms: None,
                steady_ms: 2_000,
                steady_replica_ms: 10_000,
                fresh_ms: 3_000,
            };
            expired(Some(&held(deadline)), word).map(|ran_out| ran_out.at)
        };
        assert_eq!(ran_out(10_000, 9_500, 0), None, "given back");
        assert_eq!(ran_out(10_000, 10_000, 0), Some(Mono(10_000)));
        assert_eq!(ran_out(10_000, 10_500, 1), None, "by another clock");
        assert_eq!(ran_out(10_000, 12_001, 0), None, "not seen for long");
        assert_eq!(ran_out(17_000, 17_000, 0), None, "nor seen shortly before its end");
    }

    /// The offset is read a moment after the lock, so a hold written in between is among the bytes
    /// before it.
    #[test]
    fn a_hold_that_was_read_with_shared_bytes_was_there_too() {
        use crate::input::{Fork, Generation};
        let at = |name: &str, forked_from, offset| {
            let generation = Generation {
                replication_id: name.as_bytes().to_vec(),
                forked_from,
                ..Generation::default()
            };
            let origin = Origin {
                generation: Some(Arc::new(generation)),
                offset: Some(offset),
                ..server(name).origin
            };
            Server { origin, ..server(name) }
        };
        let newer = at("b", Some(Fork { replication_id: b"a".to_vec(), offset: 1_001 }), 2_000);
        let old = Hold { offset_before: Some(1_000), ..hold("A", 5_000) };
        for (offset, lives) in [(1_000, false), (1_001, true)] {
            let older = at("a", None, offset);
            assert_eq!(
                older_lives(&older, &old, &newer, &hold("B", 8_000), LIMITS),
                lives,
                "{offset}"
            );
        }
    }

    #[test]
    fn two_promoted_replicas_of_one_master_share_what_both_have() {
        use crate::input::{Fork, Generation};
        let promoted = |name: &str, offset| {
            let forked_from = Some(Fork { replication_id: b"old".to_vec(), offset });
            let generation = Generation {
                replication_id: name.as_bytes().to_vec(),
                forked_from,
                ..Generation::default()
            };
            Origin { generation: Some(Arc::new(generation)), ..server(name).origin }
        };
        assert_eq!(fork(&promoted("a", 101), &promoted("b", 81)), Some(80));
        assert_eq!(fork(&promoted("a", 101), &server("b").origin), None);
    }
}
