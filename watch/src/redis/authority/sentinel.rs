//! The majority of the configured Sentinels names the master. Each is asked at the interval, and at
//! once when there is a reason: a server failed, or a Sentinel announced something. An announcement
//! only means that a request is worthwhile now.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::{Announcer, Role, Standing};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use super::asker::{Asker, Asks, HURRIES};
use crate::command;
use crate::redis::diagnosis::names_no_master;
use crate::redis::driver::{Dial, Event, Failure, LinkId, Login, Manner, Note};
use crate::redis::handshake::Handshake;
use crate::redis::out::Out;
use crate::redis::pace::Pace;
use crate::redis::plan::{Duty, FORMER_MS, NodeReport, Plan, Planned, orphans};
use crate::redis::store::{HostPort, Peers, Sentinels as Configured, Store};
use crate::redis::tasks::Tasks;
use crate::redis::topology::Announced;
use crate::redis::topology::sentinel::{self, Quorum};

/// How many intervals after its request an answer of a Sentinel counts.
const QUORUM_INTERVALS: u64 = 2;
/// The channel on which Sentinels announce a new master.
const CHANNEL: &str = "+switch-master";
/// Maximum pause between two attempts to reach a Sentinel, in milliseconds: all tasks of the store
/// may be unreadable until it is back.
const LONGEST_PAUSE_MS: u64 = 1_000;
/// Pause after the subscription was refused or broke, in milliseconds.
const LISTEN_AGAIN_MS: u64 = 5_000;
/// Pause between two reads of what a Sentinel announces, in milliseconds.
const HEAR_EVERY_MS: u64 = 100;

/// The configured Sentinels and what they reported.
#[derive(Debug)]
pub(super) struct Sentinels {
    quorum: Quorum,
    voices: Vec<Voice>,
    /// The name of the master.
    name: Arc<str>,
    interval_ms: u64,
    timeout_ms: u64,
    configured: Vec<HostPort>,
    peers: Peers,
    /// The master of the last plan.
    master: Result<Arc<str>, Unknown>,
    /// The newest known master.
    newest: Option<HostPort>,
    /// Earlier masters, and until when they are read. Sentinels list them as replicas only later.
    former: BTreeMap<HostPort, Mono>,
    /// The servers of the last plan.
    known: Vec<HostPort>,
}

/// One Sentinel.
#[derive(Debug)]
struct Voice {
    asker: Asker,
    pace: Pace,
    /// When the last request was begun.
    began: Mono,
    /// When it is asked next; an urgent request may be earlier.
    due: Mono,
    /// A reason to ask came since the last request was begun.
    urged: bool,
    /// No request is sent before.
    not_before: Mono,
    /// Why it named no master at the last request.
    failing: Option<Unknown>,
    ear: Ear,
}

/// The subscription to a Sentinel's announcements.
#[derive(Debug)]
enum Ear {
    Waiting(Mono),
    Dialling(LinkId),
    /// `Some`: when to read again.
    Up(LinkId, Option<Mono>),
}

impl Ear {
    fn id(&self) -> Option<LinkId> {
        match self {
            Ear::Waiting(_) => None,
            Ear::Dialling(link) | Ear::Up(link, _) => Some(*link),
        }
    }

    fn next_launch(&self) -> Option<Mono> {
        match self {
            Ear::Waiting(at) => Some(*at),
            Ear::Dialling(_) => None,
            Ear::Up(_, hear_at) => *hear_at,
        }
    }

    fn launch(&mut self, at: &HostPort, timeout_ms: u64, now: Mono, out: &mut Out) {
        if self.next_launch().is_none_or(|at| at > now) {
            return;
        }
        match self {
            Ear::Waiting(_) => {
                *self = Ear::Dialling(out.dial(|link| Dial {
                    link,
                    to: at.clone(),
                    login: Login::Sentinel,
                    manner: Manner::Listen,
                    commands: vec![command!("SUBSCRIBE", CHANNEL)],
                    alone: 0,
                    attempt: 0,
                    timeout_ms,
                }));
            }
            Ear::Dialling(_) => {}
            Ear::Up(link, hear_at) => {
                *hear_at = None;
                out.hear(*link);
            }
        }
    }

    /// Takes in what happened; returns whether it is a reason to ask.
    fn take(&mut self, event: Event, at: &HostPort, now: Mono, out: &mut Out) -> bool {
        match (&mut *self, event) {
            (Ear::Dialling(link), Event::Dialled(dialled)) => {
                let refused = [dialled.auth.as_ref(), dialled.replies.first()]
                    .into_iter()
                    .flatten()
                    .any(|reply| matches!(reply, crate::redis::reply::Reply::Error(_)));
                let failure = match (refused, dialled.ended, dialled.replies.is_empty()) {
                    (true, ..) => Some(Failure::new(
                        Unknown::NoPermission,
                        "the login or the channel was refused",
                    )),
                    (false, Some(ended), _) => Some(ended),
                    (false, None, true) => {
                        Some(Failure::new(Unknown::Protocol, "the subscription was not answered"))
                    }
                    (false, None, false) => None,
                };
                if let Some(failure) = failure {
                    self.fail(failure, at, now, out);
                    return false;
                }
                let link = *link;
                *self = Ear::Up(link, None);
                out.hear(link);
                false
            }
            (Ear::Up(_, hear_at), Event::Pushed { .. }) => {
                *hear_at = Some(now.plus_ms(HEAR_EVERY_MS));
                true
            }
            (_, Event::Failed(failure)) => {
                let was_up = matches!(self, Ear::Up(..));
                self.fail(failure, at, now, out);
                was_up
            }
            _ => false,
        }
    }

    fn fail(&mut self, failure: Failure, at: &HostPort, now: Mono, out: &mut Out) {
        out.note(Note::CannotListen(at.clone(), failure));
        self.id().into_iter().for_each(|link| out.close(link));
        *self = Ear::Waiting(now.plus_ms(LISTEN_AGAIN_MS));
    }
}

impl Voice {
    fn new(at: &HostPort, timeout_ms: u64, now: Mono) -> Voice {
        Voice {
            asker: Asker::new(at.clone(), Login::Sentinel, Handshake::to_sentinel(), timeout_ms),
            pace: Pace::default(),
            began: now,
            due: now,
            urged: false,
            not_before: now,
            failing: None,
            ear: Ear::Waiting(now),
        }
    }

    /// When the next request is begun.
    fn asks_at(&self) -> Option<Mono> {
        let due = if self.urged { self.not_before } else { self.due.max(self.not_before) };
        (!self.asker.is_busy()).then_some(due)
    }
}

impl Sentinels {
    pub(super) fn new(store: &Store, configured: &Configured, now: Mono) -> Sentinels {
        let Configured { master, nodes, peers } = configured;
        let fresh_ms = store.interval_ms.saturating_mul(QUORUM_INTERVALS);
        Sentinels {
            quorum: Quorum::new(nodes.len(), fresh_ms),
            voices: nodes.iter().map(|at| Voice::new(at, store.timeout_ms, now)).collect(),
            name: master.as_str().into(),
            interval_ms: store.interval_ms,
            timeout_ms: store.timeout_ms,
            configured: nodes.clone(),
            peers: peers.clone(),
            master: Err(Unknown::NotReadYet),
            newest: None,
            former: BTreeMap::new(),
            known: Vec::new(),
        }
    }

    pub(super) fn close(&self, out: &mut Out) {
        let all = self.voices.iter().flat_map(|voice| [voice.asker.id(), voice.ear.id()]);
        all.flatten().for_each(|link| out.close(link));
    }

    /// When to call [`Sentinels::launch`] again.
    pub(super) fn next_launch(&self) -> Option<Mono> {
        let of = |voice: &Voice| {
            [voice.asks_at(), voice.asker.late_at(), voice.ear.next_launch()].into_iter().flatten()
        };
        self.voices.iter().flat_map(of).min()
    }

    /// Asks those that are due. Returns whether anything was learned.
    pub(super) fn launch(&mut self, now: Mono, out: &mut Out) -> bool {
        let mut changed = false;
        for position in 0..self.voices.len() {
            let Some(voice) = self.voices.get_mut(position) else { break };
            if let Some(asked) = voice.asker.overdue(now, out) {
                self.answered(position, asked, now, out);
                changed = true;
            }
            let Some(voice) = self.voices.get_mut(position) else { break };
            if voice.asks_at().is_some_and(|at| at <= now) {
                (voice.began, voice.urged) = (now, false);
                voice.not_before = now.plus_ms(self.interval_ms / HURRIES);
                let attempt = voice.pace.in_vain();
                let name = &self.name;
                if voice.asker.ask(attempt, |_| sentinel::commands(name), now, out) == Asks::Dials {
                    voice.pace.dialled(now);
                }
            }
            let at = voice.asker.at().clone();
            voice.ear.launch(&at, self.timeout_ms, now, out);
        }
        changed
    }

    /// Takes in what happened on a connection of its own; returns whether anything was learned.
    pub(super) fn take(&mut self, link: LinkId, event: Event, now: Mono, out: &mut Out) -> bool {
        let of = |voice: &Voice| [voice.asker.id(), voice.ear.id()].contains(&Some(link));
        let Some(position) = self.voices.iter().position(of) else { return false };
        let Some(voice) = self.voices.get_mut(position) else { return false };
        if voice.ear.id() == Some(link) {
            let at = voice.asker.at().clone();
            if voice.ear.take(event, &at, now, out) {
                self.hurry();
            }
            return false;
        }
        let name = &self.name;
        match voice.asker.take(event, |_| sentinel::commands(name), now, out) {
            Some(asked) => {
                self.answered(position, asked, now, out);
                true
            }
            None => false,
        }
    }

    /// A request has ended.
    fn answered(
        &mut self,
        position: usize,
        (asked, replies): super::asker::Exchange,
        now: Mono,
        out: &mut Out,
    ) {
        let Some(voice) = self.voices.get_mut(position) else { return };
        if replies.is_ok() {
            voice.pace.succeeded();
        } else {
            let pause = voice.pace.next_dial(now, out.random());
            let until = pause.min(now.plus_ms(LONGEST_PAUSE_MS));
            voice.not_before = voice.not_before.max(until);
        }
        // After a late answer the next request is sent sooner, so that the answer does not expire.
        voice.due = asked.plus_ms(self.interval_ms);
        let masters = voice.asker.masters();
        let answer = replies.and_then(|replies| {
            sentinel::decode(&replies)
                .map_err(|why| names_no_master(why, &replies, &self.name, masters))
        });
        if let Err(failure) = &answer {
            out.said(&voice.asker.at().to_string().into(), failure);
        }
        let failing = answer.as_ref().err().map(|failure| failure.why);
        if let (Err(failure), true) = (&answer, voice.failing != failing) {
            out.note(Note::NoMaster {
                sentinel: voice.asker.at().clone(),
                failure: failure.clone(),
            });
        }
        voice.failing = failing;
        self.quorum.answered(position, asked, answer.map_err(|failure| failure.why));
    }

    /// Asks all of them as soon as possible.
    fn hurry(&mut self) {
        self.voices.iter_mut().for_each(|voice| voice.urged = true);
    }

    /// Takes in what a server of the plan reported, or that it failed.
    pub(super) fn report(&mut self, address: &str, report: &NodeReport) {
        let decides = self.master.as_ref().is_ok_and(|master| **master == *address);
        if decides && (report.failed.is_some() || report.role == Some(Role::Replica)) {
            self.hurry();
        }
    }

    pub(super) fn plan(&mut self, now: Mono, all: &Tasks, out: &mut Out) -> Plan {
        let named = self.quorum.master(now);
        let resolve = |announced: &Announced| self.peers.resolve(announced, &self.configured);
        let master = named.and_then(|named| {
            resolve(&named).ok_or_else(|| {
                if self.master != Err(Unknown::ForeignAddress) {
                    out.note_foreign(&named);
                }
                Unknown::ForeignAddress
            })
        });
        let unheard =
            (0..self.configured.len()).any(|sentinel| self.quorum.word(sentinel).is_none());
        // At the start, a missing quorum is not worth reporting yet.
        let early = matches!(self.master, Err(Unknown::NotReadYet))
            && unheard
            && master == Err(Unknown::Quorum);
        let mut known: Vec<HostPort> = master.iter().cloned().collect();
        known.extend(self.quorum.peers(now).iter().filter_map(resolve));
        if let Ok(master) = &master {
            self.follow_former(master, now);
        }
        known.extend(self.former.keys().cloned());
        if master.is_err() {
            // Known servers stay witnesses.
            known.append(&mut self.known);
        }
        let mut seen = BTreeSet::new();
        known.retain(|at| seen.insert(at.clone()));
        let standing = |at: &HostPort| {
            if master.as_ref() == Ok(at) { Standing::Decides } else { Standing::Witness }
        };
        let nodes: Vec<Planned> = known
            .iter()
            .map(|at| Planned::new(at.clone(), Duty::new(standing(at), all, all)))
            .collect();
        self.master = match &master {
            Ok(at) => Ok(at.to_string().into()),
            Err(_) if early => Err(Unknown::NotReadYet),
            Err(why) => Err(*why),
        };
        self.known = known;
        Plan {
            nodes,
            orphans: if early { Vec::new() } else { orphans(all, master.err()) },
            is_known: !early,
            masters: Some(self.master.clone().map(|master| vec![master])),
            sentinels: self.words(),
            ..Plan::default()
        }
    }

    /// Remembers the master before `master`.
    fn follow_former(&mut self, master: &HostPort, now: Mono) {
        let before = self.newest.replace(master.clone()).filter(|before| before != master);
        self.former.extend(before.map(|before| (before, now.plus_ms(FORMER_MS))));
        self.former.remove(master);
        self.former.retain(|_, until| *until > now);
    }

    /// When the plan may change without an answer of a Sentinel.
    pub(super) fn next_plan(&self) -> Option<Mono> {
        // Without a master, the known servers stay.
        let ends = || self.quorum.ends().into_iter().chain(self.former.values().copied()).min();
        self.master.is_ok().then(ends).flatten()
    }

    fn words(&self) -> Vec<Announcer> {
        let word = |(position, at): (usize, &HostPort)| Announcer {
            address: at.to_string().into(),
            master: self.quorum.word(position).map(|word| word.map(|named| named.address())),
        };
        self.configured.iter().enumerate().map(word).collect()
    }
}

#[cfg(test)]
mod tests;
