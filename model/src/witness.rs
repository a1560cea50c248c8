//! What each server of a redis shows of one lock, side by side. Never does this decide whether the
//! lock is held or free; it tells how far a replica is behind, and whether two masters show two
//! holders.
//!
//! Two masters that show different holders prove little by themselves: the older hold may have been
//! released on the other side, and what is left of it here is a leftover that nobody holds. So the
//! older hold must be shown to live.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::earlier::{BRIEF_MS, Earlier};
use crate::event::Party;
use crate::evidence::Origin;
use crate::generation;
use crate::input::{Role, Standing};
use crate::reading::{Deadline, Held, Holder, LockReading, Mode};
use crate::renewal::{Seen, set_between};
use crate::snapshot::WitnessView;
use crate::spec::RedisKind;
use crate::split::{clients_meet, party};
use crate::time::{Mono, ServerTime};

/// A client that takes a lock, waits for replicas in vain and gives it back, holds it for about so
/// long and never knows of it.
pub(crate) const PHANTOM_MS: u64 = 1_150;

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
    /// When it was asked what it answered last, be that a refusal to tell of this lock.
    answered: Mono,
    /// It had answered shortly before, too: what it shows is not what it did late, after it had
    /// stood still.
    steady: bool,
    shown: Shown,
    expired: Option<RanOut>,
    earlier: Earlier,
    lag: Option<Lag>,
}

/// How far a replica was behind when it was last asked.
#[derive(Clone, Copy, Debug)]
struct Lag {
    /// With which hold: since when the server that decides has shown that.
    of: Mono,
    ms: u64,
}

/// The hold that the server that decides shows.
#[derive(Clone, Copy, Debug)]
struct Newest<'a> {
    hold: &'a Hold,
    deadline: ServerTime,
}

/// A hold that ran out on one server, as was seen there.
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
    /// When it was first seen here.
    since: Mono,
    /// When it began, or no later than.
    began: Mono,
    /// The server had answered shortly before it began: it is not what that one did late, after it
    /// had stood still.
    steady: bool,
    /// When this server surely did not show it yet; `None` when it did from the first look on.
    not_before: Option<Mono>,
    /// That was as a replica: it may have come from the master, long after it had begun there.
    perhaps_late: bool,
    /// Where this server's replication stood when it surely had not begun.
    offset_before: Option<u64>,
    /// And when the one was surely over that its holder had here before, if any.
    earlier_over: Option<u64>,
    /// The newest deadline that was told, and when: a renewal during a reading leaves that without
    /// one.
    told: Option<(ServerTime, Mono)>,
    /// When the deadline was last seen to have moved forward.
    moved: Option<Mono>,
    /// After when its holder surely moved it forward on this server, as a master.
    lived_after: Option<Mono>,
}

/// How the servers' words are weighed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Words further apart than this do not contradict each other.
    pub(crate) fresh_ms: u64,
    /// A hold that lasted so long is no phantom.
    pub(crate) settle_ms: u64,
    pub(crate) kind: RedisKind,
}

/// Two masters show different holders.
#[derive(Clone, Debug)]
pub(crate) struct Rivalry {
    pub(crate) nodes: [Arc<str>; 2],
    pub(crate) older: Vec<Party>,
    pub(crate) newer: Vec<Party>,
    /// What is left of the older lease.
    pub(crate) left_ms: Option<u64>,
    /// The older hold lives beyond doubt.
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
    /// A master that was asked again so soon has not stood still.
    pub(crate) steady_ms: u64,
    /// Nor has a replica, which is asked less often: nobody is promoted who stands still.
    pub(crate) steady_replica_ms: u64,
    /// A server that was asked again so soon can hardly have shown anything else between.
    pub(crate) fresh_ms: u64,
}

impl Word<'_> {
    /// So soon that the server has not stood still between.
    fn comes_soon_after(&self, before: &Server) -> bool {
        let steady_ms =
            if before.role == Role::Replica { self.steady_replica_ms } else { self.steady_ms };
        self.seen.sent.since_ms(before.answered) < steady_ms
    }
}

impl Witnesses {
    /// Takes in what a server shows.
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

    /// Notes how far the replicas are behind. What one showed before the newest renewal says
    /// nothing about that, so until it is asked again, what was known before holds: else each
    /// renewal would hide a replica that is behind.
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

    /// Forgets servers that do not belong to the redis any more.
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

    /// Two masters with different holders, if there are any; one with proof before one without.
    pub(crate) fn rivalry(&self, limits: Limits, at: Mono) -> Option<Rivalry> {
        let pairs = self.servers.iter().enumerate().flat_map(|(position, a)| {
            let others = self.servers.iter().skip(position + 1);
            others.filter_map(move |b| rivalry(a, b, limits, at))
        });
        pairs.max_by_key(|rivalry| rivalry.proven)
    }

    /// Whether these two still show different holders; while one of them cannot be read, until its
    /// hold has run out.
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
            // What was once seen to run out stays known until somebody else's hold ends here.
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
            lag: before.filter(|_| word.role == Role::Replica).and_then(|before| before.lag),
        }
    }

    /// The holds that were over here when this word was said.
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

    /// It says that it is master.
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

    /// What is left of a hold's lease at `at`; `None` where it has no end that is known.
    fn left_ms(&self, hold: &Hold, at: Mono) -> Option<u64> {
        let Deadline::At(deadline) = hold.held.deadline else { return None };
        let left_ms = u64::try_from(deadline.since_ms(self.seen.last)).unwrap_or(0);
        Some(left_ms.saturating_sub(at.since_ms(self.seen.sent)))
    }

    /// Of a replica that was asked after the newest deadline had been set: how far its own is
    /// behind that.
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
                // It does not have this hold at all.
                None => deadline.since_ms(self.seen.last),
            };
        Some(Lag { of: hold.since, ms: u64::try_from(behind).unwrap_or(0) })
    }
}

fn told(held: &Held, at: Mono) -> Option<(ServerTime, Mono)> {
    held.deadline.instant().map(|deadline| (deadline, at))
}

/// A deadline that is so much nearer than before on the same clock was written.
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
            // The clock of the server that wrote the deadline before may have been ahead of this
            // one's.
            let written = forward || back && one_reign(&server.origin, word.origin);
            return Hold {
                held: held.clone(),
                offset_before: old
                    .offset_before
                    .filter(|_| one_history(&server.origin, word.origin)),
                told: match held.deadline {
                    Deadline::Torn => old.told.filter(|_| comparable),
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

    /// It was last seen at `seen`, after it had lasted long enough or was renewed: no client would
    /// have given it back.
    fn settled(&self, seen: Mono, long_ms: u64) -> bool {
        self.moved.is_some() || seen.since_ms(self.began) >= long_ms
    }

    /// Whether it began while the lease that `before` showed still ran, so that this did not run
    /// out.
    fn began_before_end_of(&self, before: &Server, word: Word<'_>) -> bool {
        let deadline = before.hold().and_then(|hold| hold.held.deadline.instant());
        deadline.is_some_and(|deadline| self.began < word.seen.mono_of(deadline))
    }

    /// Its holder lived on this server after `instant`.
    fn lived_after(&self, instant: Mono) -> bool {
        self.lived_after.is_some_and(|lived| lived >= instant)
    }
}

/// The hold that ran out between two readings of one server. One that was not seen shortly before
/// its end may have been renewed unseen, and released; one that had much of its lease left then,
/// beside what had been seen of it, may have been released before its end.
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
    // What a frozen server did late takes longer to be given back,
    let settled = |server: &Server, hold: &Hold| {
        hold.settled(
            server.seen.sent,
            if prompt(server, hold) { PHANTOM_MS } else { limits.settle_ms },
        )
    };
    if !settled(a, x) || !settled(b, y) {
        return None;
    }
    // or never is: its client does not know of it. Only a renewal tells.
    let known = |server: &Server, hold: &Hold| prompt(server, hold) || hold.moved.is_some();
    let ((older, old), (newer, new)) =
        if x.since < y.since { ((a, x), (b, y)) } else { ((b, y), (a, x)) };
    if older.seen.sent < new.since {
        return None; // They were never seen side by side.
    }
    let parties = |server: &Server, hold: &Hold| -> Vec<Party> {
        hold.held.holders.iter().map(|holder| party(holder, Some(&server.origin.node))).collect()
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

/// Whether the newer hold is no leftover: it was taken, or renewed, while the older one was there.
fn newer_lives(older: &Server, old: &Hold, newer: &Server, new: &Hold) -> bool {
    // What came late may have been over on the master, which is told only beyond what both share.
    let over = older.earlier.of(&new.held.holders).filter(|_| new.perhaps_late);
    let leftover = over
        .is_some_and(|over| fork(&older.origin, &newer.origin).is_none_or(|shared| over > shared));
    let taken = !leftover && new.not_before.is_some_and(|before| before >= old.since);
    taken || new.lived_after(old.since)
}

/// Whether the older hold cannot have been released on the other server.
fn older_lives(older: &Server, old: &Hold, newer: &Server, new: &Hold, limits: Limits) -> bool {
    let ran_out =
        newer.expired.as_ref().filter(|ran_out| clients_meet(&ran_out.holders, &old.held.holders));
    // Whoever renews its lock here would have done so there, too; a lock with a fixed lease is
    // released at any time, and what a replica was told of is renewed elsewhere.
    let ran_out_there =
        old.lived_after.is_some() && ran_out.is_some_and(|ran_out| ran_out.at > old.since);
    // When the same client's newest hold was over there, which it may have given back instead of
    // the older one.
    let over_there = newer.earlier.of(&old.held.holders);
    let never_there = match fork(&older.origin, &newer.origin) {
        // The offset is told a moment after the lock, so it must have grown since.
        Some(shared) => {
            let grew = older.origin.offset.is_some_and(|now| now > shared);
            // Nor had the other server an earlier hold of the same client left, which that one may
            // have given back instead.
            let nothing_left = old.earlier_over.is_none_or(|over| over <= shared);
            let none_there = over_there.is_none_or(|over| over <= shared);
            grew && nothing_left
                && none_there
                && old.offset_before.is_some_and(|written| written >= shared)
        }
        // It began on a server that nothing ever joined to the other one.
        None => {
            let apart =
                limits.kind == RedisKind::Replicated && both_tell(&older.origin, &newer.origin);
            apart
                && over_there.is_none()
                && old.offset_before.is_some()
                && !older.origin.related(&newer.origin)
        }
    };
    // Where the lock is held for moments only, its holder may have had it there, too, between two
    // looks.
    let leased_ms = older
        .left_ms(old, older.seen.sent)
        .map(|left_ms| left_ms + older.seen.sent.since_ms(old.began));
    let brief = older.earlier.brief() || leased_ms.is_some_and(|leased_ms| leased_ms < BRIEF_MS);
    let repeated = brief && new.since.since_ms(old.began) < limits.settle_ms;
    old.lived_after(new.since) || (ran_out_there || never_there) && !repeated
}

/// How many bytes two servers share, if one of them continues the history of the other, or both the
/// same third one.
fn fork(a: &Origin, b: &Origin) -> Option<u64> {
    let (a, b) = (a.generation.as_deref()?, b.generation.as_deref()?);
    let of_a_third = || {
        let (a, b) = (a.forked_from.as_ref()?, b.forked_from.as_ref()?);
        let same = !a.replication_id.is_empty() && a.replication_id == b.replication_id;
        same.then(|| a.offset.min(b.offset).saturating_sub(1))
    };
    generation::shared_bytes(a, b).or_else(|| generation::shared_bytes(b, a)).or_else(of_a_third)
}

/// Whether offsets of both count in one history: the same, or one that was continued.
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

/// Whether a master was one all the time between both: whoever follows another server for a moment
/// begins a new history.
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

    /// Of a split only its own two servers tell whether it goes on, whoever else there is.
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

    /// Whoever takes the lock anew after a hold of his ran out may well have released it where that
    /// ran out.
    #[test]
    fn only_a_hold_that_ran_out_after_it_was_seen_here_ran_out_there() {
        let (older, mut newer) = (server("a"), server("b"));
        let moved = Hold { moved: Some(Mono(5_500)), ..hold("A", 5_000) };
        let (renewed, new) =
            (Hold { lived_after: Some(Mono(5_000)), ..moved.clone() }, hold("B", 8_000));
        // As a replica it was told of that, and may have been told nothing more.
        for (old, at, lives) in
            [(&renewed, 4_000, false), (&renewed, 6_000, true), (&moved, 6_000, false)]
        {
            newer.expired = Some(RanOut { holders: old.held.holders.clone(), at: Mono(at) });
            assert_eq!(older_lives(&older, old, &newer, &new, LIMITS), lives, "{at}");
        }
    }

    /// One that is gone earlier was given back, and what another clock says of its end says
    /// nothing.
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

    /// The offset is told a moment after the lock: a hold that was written in between is among the
    /// bytes before it.
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
