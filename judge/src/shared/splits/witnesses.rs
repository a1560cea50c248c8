//! What each server of a store shows of one lock, side by side. This never decides whether the lock
//! is held or free; it shows how far a replica is behind, and what other masters show.

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::continuity::earlier::{BRIEF_MS, Earlier};
use crate::continuity::generation::{one_history, one_reign, same_process};
use crate::evidence::{Origin, Seen, set_between};
use crate::input::{Role, Standing};
use crate::reading::{Deadline, Held, Holder, LockReading, Mode, clients_meet};
use crate::seldom::Seldom;
use crate::spec::Authority;
use crate::time::{Mono, ServerTime};

/// What a non-deciding server shows of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessView {
    /// The server.
    pub node: Arc<str>,
    /// The role that it reports.
    pub role: Role,
    /// When the request was sent.
    pub at: Mono,
    /// The holders that it shows; `None` when it shows none.
    pub holders: Option<Vec<Holder>>,
    /// For a replica: how far its deadline is behind; `None` when unknown.
    pub behind_ms: Option<u64>,
}

/// What all servers show of one lock, sorted by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Witnesses {
    pub(super) servers: Seldom<Vec<Server>>,
}

/// What one server showed in its newest accepted batch.
#[derive(Clone, Debug)]
pub(super) struct Server {
    pub(super) origin: Origin,
    pub(super) standing: Standing,
    pub(super) role: Role,
    pub(super) seen: Seen,
    /// When the request of its last answer was sent, including an answer that refused this lock.
    pub(super) answered: Mono,
    /// Whether it had also answered shortly before. If so, its state does not come from commands
    /// executed late, after a freeze.
    pub(super) steady: bool,
    pub(super) hold: Option<Hold>,
    pub(super) expired: Option<RanOut>,
    pub(super) earlier: Earlier,
    pub(super) lag: Option<Lag>,
}

/// The lag of a replica when it was last read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lag {
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
pub(super) struct RanOut {
    pub(super) holders: Vec<Holder>,
    pub(super) at: Mono,
}

/// A hold as one server shows it.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) held: Held,
    /// When it was first seen on this server.
    pub(super) since: Mono,
    /// Latest possible beginning.
    pub(super) began: Mono,
    /// Whether the server had answered shortly before it began. If so, the hold does not come from
    /// a command executed late, after a freeze.
    pub(super) steady: bool,
    /// When this server certainly did not show it yet; `None` when it did in the first reading.
    pub(super) not_before: Option<Mono>,
    /// That reading was as a replica, so the hold may have come from the master long after it had
    /// begun there.
    pub(super) perhaps_late: bool,
    /// The server's replication offset when the hold certainly had not begun.
    pub(super) offset_before: Option<u64>,
    /// The offset by which the holder's previous hold here was certainly over, if any.
    pub(super) earlier_over: Option<u64>,
    /// The newest known deadline, and when it was reported. A reading during a renewal has none.
    pub(super) known: Option<(ServerTime, Mono)>,
    /// When the deadline was last seen to have moved forward.
    pub(super) moved: Option<Mono>,
    /// The instant after which its holder certainly moved the deadline forward on this server, as a
    /// master.
    pub(super) lived_after: Option<Mono>,
}

/// How the servers' readings are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Readings further apart than this do not contradict each other.
    pub(crate) fresh_ms: u64,
    /// A hold that lasted this long is no phantom.
    pub(crate) settle_ms: u64,
    pub(crate) authority: Authority,
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
            LockReading::Free => Server::new(word, None, before, expired(before, word)),
            LockReading::Held(held) => {
                let hold = Hold::of(held, word, before);
                let took_over_early =
                    before.is_some_and(|before| hold.began_before_end_of(before, word));
                let gone = if hold.since == word.seen.sent && !took_over_early {
                    expired(before, word)
                } else {
                    None
                };
                let gone = gone.or_else(|| before?.expired.clone());
                let gone = gone.filter(|gone| !clients_meet(&gone.holders, &held.holders));
                Server::new(word, Some(hold), before, gone)
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

    /// Drops servers that no longer belong to the store.
    pub(crate) fn retain(&mut self, nodes: &[Arc<str>]) {
        if let Some(servers) = self.servers.present() {
            servers.retain(|server| nodes.contains(&server.origin.node));
        }
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

    /// What the servers that do not decide show, for outputs.
    pub(crate) fn view(&self) -> Vec<WitnessView> {
        let newest = self.newest().map(|newest| newest.hold.since);
        let others = self.servers.iter().filter(|server| server.standing == Standing::Witness);
        let view = |server: &Server| WitnessView {
            node: server.origin.node.clone(),
            role: server.role,
            at: server.seen.sent,
            holders: server.hold.as_ref().map(|hold| hold.held.holders.clone()),
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
        let hold = lead.hold.as_ref()?;
        hold.held.deadline.instant().map(|deadline| Newest { hold, deadline })
    }
}

impl Server {
    fn new(
        word: Word<'_>,
        hold: Option<Hold>,
        before: Option<&Server>,
        expired: Option<RanOut>,
    ) -> Server {
        let expired = match (&hold, before) {
            // An expiry stays known until another client's hold ends here.
            (None, Some(before)) if expired.is_none() && before.hold.is_none() => {
                before.expired.clone()
            }
            _ => expired,
        };
        let earlier =
            before.map(|before| before.earlier_at(hold.as_ref(), word)).unwrap_or_default();
        Server {
            origin: word.origin.clone(),
            standing: word.standing,
            role: word.role,
            seen: word.seen,
            answered: word.seen.sent,
            steady: before.is_some_and(|before| word.comes_soon_after(before)),
            hold,
            expired,
            earlier,
            lag: match before {
                Some(before) if word.role == Role::Replica => before.lag,
                _ => None,
            },
        }
    }

    /// The holds that were over here at the time of this reading.
    fn earlier_at(&self, now: Option<&Hold>, word: Word<'_>) -> Earlier {
        let mut earlier = self.earlier.clone();
        if !one_history(&self.origin, word.origin) {
            earlier.new_history(|_| false);
        }
        let goes_on =
            |old: &Hold| now.is_some_and(|new| clients_meet(&old.held.holders, &new.held.holders));
        if let Some(over) = self.hold.as_ref().filter(|old| !goes_on(old)) {
            let given_back = self.left_ms(over, word.seen.sent).is_none_or(|left_ms| left_ms > 0);
            let brief = given_back && self.seen.sent.since_ms(over.began) < BRIEF_MS;
            earlier.over(&over.held, word.origin.offset, brief);
        }
        earlier
    }

    /// Whether it reports that it is master.
    pub(super) fn rules(&self) -> bool {
        self.role == Role::Master
    }

    pub(super) fn fresh(&self, limits: Limits, at: Mono) -> bool {
        at.since_ms(self.seen.sent) <= limits.fresh_ms
    }

    /// Its hold, if that is exclusive and has not run out by `at`.
    pub(super) fn live_hold(&self, at: Mono) -> Option<&Hold> {
        let hold = self
            .hold
            .as_ref()
            .filter(|hold| hold.held.mode != Mode::Read && !hold.held.holders.is_empty())?;
        let runs = self.left_ms(hold, at).is_none_or(|left_ms| left_ms > 0);
        runs.then_some(hold)
    }

    /// Remaining lease of a hold at `at` in milliseconds; `None` if its end is unknown.
    pub(super) fn left_ms(&self, hold: &Hold, at: Mono) -> Option<u64> {
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
        let behind = match self
            .hold
            .as_ref()
            .filter(|own| clients_meet(&hold.held.holders, &own.held.holders))
        {
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

fn known(held: &Held, at: Mono) -> Option<(ServerTime, Mono)> {
    held.deadline.instant().map(|deadline| (deadline, at))
}

/// A deadline that moves back by this many milliseconds on one clock was written, not measured
/// differently.
const WRITTEN_BACK_MS: i64 = 1_000;

impl Hold {
    /// The hold that a reading shows: the one before, if a client stayed.
    fn of(held: &Held, word: Word<'_>, before: Option<&Server>) -> Hold {
        match before.and_then(|server| Some((server, server.hold.as_ref()?))) {
            Some((server, old)) if clients_meet(&old.held.holders, &held.holders) => {
                old.continued(held, word, server)
            }
            _ => Hold::begin(held, word, before),
        }
    }

    /// The same hold, as the next reading of this server shows it.
    fn continued(&self, held: &Held, word: Word<'_>, server: &Server) -> Hold {
        let at = word.seen.sent;
        let same_clock = word.origin.same_clock(&server.origin);
        let same_reign = one_reign(&server.origin, word.origin);
        let (forward, back) = match (self.known, held.deadline) {
            (Some((old, _)), Deadline::At(new)) if same_clock => {
                (new > old, old.since_ms(new) > WRITTEN_BACK_MS)
            }
            _ => (false, false),
        };
        let ruled = server.rules() && word.role == Role::Master;
        // The clock of the server that wrote the previous deadline may have been ahead of this
        // one's.
        let written = forward || back && same_reign;
        let lives = written && ruled && server.steady;
        let one_history = one_history(&server.origin, word.origin);
        Hold {
            held: held.clone(),
            offset_before: self.offset_before.filter(|_| one_history),
            known: match held.deadline {
                Deadline::Torn => self.known.filter(|_| same_clock && same_reign),
                Deadline::At(_) | Deadline::Never => known(held, at),
            },
            moved: if forward { Some(at) } else { self.moved },
            lived_after: self.known.filter(|_| lives).map(|(_, at)| at).or(self.lived_after),
            ..*self
        }
    }

    fn begin(held: &Held, word: Word<'_>, before: Option<&Server>) -> Hold {
        let at = word.seen.sent;
        let same_clock = before.filter(|before| word.origin.same_clock(&before.origin));
        let exact = same_clock.and_then(|before| {
            let (deadline, lease_ms) = (held.deadline.instant()?, word.lease_ms?);
            let set = set_between(deadline, lease_ms, before.seen, word.seen)?;
            Some(word.seen.mono_of(set).min(at))
        });
        let same_data = before.filter(|before| {
            same_process(&before.origin, word.origin) && one_history(&before.origin, word.origin)
        });
        Hold {
            held: held.clone(),
            since: at,
            began: exact.unwrap_or(at),
            steady: before.is_some_and(|before| word.comes_soon_after(before)),
            not_before: before.map(|before| before.seen.sent),
            perhaps_late: exact.is_none() && before.is_some_and(|before| !before.rules()),
            offset_before: same_data.and_then(|before| before.origin.offset),
            earlier_over: before.and_then(|before| before.earlier.of(&held.holders)),
            known: known(held, at),
            moved: None,
            lived_after: None,
        }
    }

    /// Whether, when last seen at `seen`, it had lasted long enough or was renewed, so that its
    /// client did not release it as a phantom.
    pub(super) fn settled(&self, seen: Mono, long_ms: u64) -> bool {
        self.moved.is_some() || seen.since_ms(self.began) >= long_ms
    }

    /// Whether it began while the lease shown by `before` was still running, so that this lease did
    /// not expire.
    fn began_before_end_of(&self, before: &Server, word: Word<'_>) -> bool {
        let deadline = before.hold.as_ref().and_then(|hold| hold.held.deadline.instant());
        deadline.is_some_and(|deadline| self.began < word.seen.mono_of(deadline))
    }

    /// Its holder lived on this server after `instant`.
    pub(super) fn lived_after(&self, instant: Mono) -> bool {
        self.lived_after.is_some_and(|lived| lived >= instant)
    }
}

/// The hold that expired between two readings of one server. A hold not seen shortly before its end
/// may have been renewed unseen and released. One with much of its lease left, compared with how
/// long it was seen, may have been released before its end.
fn expired(before: Option<&Server>, word: Word<'_>) -> Option<RanOut> {
    let before =
        before.filter(|before| word.seen.sent.since_ms(before.seen.sent) <= word.fresh_ms)?;
    let hold = before.hold.as_ref()?;
    let Deadline::At(deadline) = hold.held.deadline else { return None };
    let unrenewed_ms = before.seen.sent.since_ms(hold.moved.unwrap_or(hold.since));
    let unrenewed = before.left_ms(hold, before.seen.sent)? <= unrenewed_ms;
    let over = word.origin.same_clock(&before.origin) && word.seen.last >= deadline;
    (unrenewed && over).then(|| RanOut { holders: hold.held.holders.clone(), at: word.seen.sent })
}

#[cfg(test)]
impl Server {
    pub(super) fn named(name: &str) -> Server {
        let origin = Origin {
            node: Arc::from(name),
            clock_steps: 0,
            generation: None,
            histories: Arc::default(),
            offset: None,
            authority: Authority::ANNOUNCED,
        };
        let seen = Seen {
            sent: Mono::at(9_000),
            first: ServerTime::at(9_000),
            last: ServerTime::at(9_000),
        };
        let (standing, role) = (Standing::Decides, Role::Master);
        Server {
            origin,
            standing,
            role,
            seen,
            answered: seen.sent,
            steady: true,
            hold: None,
            expired: None,
            earlier: Earlier::default(),
            lag: None,
        }
    }
}

#[cfg(test)]
impl Hold {
    pub(super) fn by(who: &str, since: u64) -> Hold {
        let client = who.as_bytes().to_vec();
        let holders = alloc::vec![Holder { client, thread: None, entries: None, secret: false }];
        Hold {
            held: Held { mode: Mode::Exclusive, holders, ghosts: 0, deadline: Deadline::Never },
            since: Mono::at(since),
            began: Mono::at(since),
            steady: false,
            not_before: None,
            perhaps_late: false,
            offset_before: None,
            earlier_over: None,
            known: None,
            moved: None,
            lived_after: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hold that is gone earlier was released, and another clock shows nothing about its end.
    #[test]
    fn only_what_is_gone_at_its_deadline_ran_out() {
        let held = |deadline| {
            let mut hold = Hold::by("A", 1_000);
            hold.held.deadline = Deadline::At(ServerTime::at(deadline));
            Server { hold: Some(hold), ..Server::named("a") }
        };
        let ran_out = |deadline: i64, at: u64, clock_steps: u32| {
            let origin = Origin { clock_steps, ..Server::named("a").origin };
            let clock = ServerTime::at(i64::try_from(at).unwrap());
            let word = Word {
                origin: &origin,
                standing: Standing::Decides,
                role: Role::Master,
                seen: Seen { sent: Mono::at(at), first: clock, last: clock },
                lease_ms: None,
                steady_ms: 2_000,
                steady_replica_ms: 10_000,
                fresh_ms: 3_000,
            };
            expired(Some(&held(deadline)), word).map(|ran_out| ran_out.at)
        };
        assert_eq!(ran_out(10_000, 9_500, 0), None, "given back");
        assert_eq!(ran_out(10_000, 10_000, 0), Some(Mono::at(10_000)));
        assert_eq!(ran_out(10_000, 10_500, 1), None, "by another clock");
        assert_eq!(ran_out(10_000, 12_001, 0), None, "not seen for long");
        assert_eq!(ran_out(17_000, 17_000, 0), None, "nor seen shortly before its end");
    }
}
