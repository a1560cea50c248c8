//! Listens to one server while that is wanted and possible, and reconnects when the connection
//! breaks.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use lockwatch_judge::input::{self, WakeUpState};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use super::Filter;
use crate::command;
use crate::redis::diagnosis::refusal;
use crate::redis::driver::{Dial, Dialled, Event, Failure, LinkId, Login, Manner, Note, Push};
use crate::redis::out::Out;
use crate::redis::pace::Pace;
use crate::redis::plan::Hints;
use crate::redis::reply::{Command, Reply, ServerError};
use crate::redis::store::HostPort;
use crate::redis::wake_ups::{Bucket, changes_per_s};
use crate::remedy::is_about_login;

/// A channel that is never used. A client with a subscription counts as a subscriber, so the server
/// bounds its output buffer for it (`client-output-buffer-limit pubsub`). For other clients the
/// buffer is unbounded, and would grow while the agent is paused.
pub const CHANNEL: &str = "lockwatch:wake-ups";

/// How often the server is pinged, in milliseconds. It announces nothing while nothing changes, and
/// nothing when it is gone.
const PING_EVERY_MS: u64 = 1_000;
/// How long to wait before a server that refuses is asked again, in milliseconds: somebody may have
/// granted the permission.
const REFUSED_AGAIN_MS: u64 = 600_000;
/// Upper limit of the size of one announcement in bytes, unless its key is longer than any watched
/// one.
const CHANGE_BYTES: usize = 1_024;
/// Limits on the announcements that are read: this many at once, and [`TAKEN_PER_S`] more each
/// second. At a higher rate, data is left in the socket until [`TAKEN_TOGETHER`] more are allowed,
/// a tenth of a second. Then announcements arrive in batches, and a batch costs as much as many
/// reads.
const TAKEN_AT_ONCE: u32 = 16;
const TAKEN_PER_S: u64 = 50;
const TAKEN_TOGETHER: u32 = 5;
/// How many seconds announcements may cost more than polling: many workers may start at once.
const BURST_S: u32 = 5;
/// How long to wait after a server announced too many changes, in milliseconds.
const FLOODED_AGAIN_MS: u64 = 60_000;
/// The cost of "everything may have changed", as a number of tasks that counts like one change.
const TASKS_PER_CHANGE: usize = 100;

/// Listens to the announcements of one server.
#[derive(Debug)]
pub(super) struct Listener {
    filter: Arc<Filter>,
    /// Whether the server answers reads, and is believed.
    is_up: bool,
    link: Link,
    pace: Pace,
    said: Said,
    changes_left: Bucket,
    pub(super) state: WakeUpState,
    /// What was announced and not taken yet.
    pub(super) hints: Hints,
}

#[derive(Debug)]
enum Link {
    /// `for_change`: another filter, or the end of an interruption, ends the wait.
    Waiting { until: Mono, for_change: bool },
    /// The server is being asked to announce the keys of this filter.
    Dialling(LinkId, Arc<Filter>),
    Up {
        link: LinkId,
        /// When the unanswered ping was sent.
        asked: Option<Mono>,
        ping_at: Mono,
        taken: Bucket,
        /// When to read again; `None`: the driver reads.
        hear_at: Option<Mono>,
    },
}

/// The newest state that was logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    Nothing,
    On,
    Off(Unknown),
}

impl Listener {
    pub(super) fn new(filter: &Arc<Filter>, is_up: bool, now: Mono) -> Listener {
        Listener {
            filter: Arc::clone(filter),
            is_up,
            link: Link::Waiting { until: now, for_change: false },
            pace: Pace::default(),
            said: Said::Nothing,
            changes_left: Bucket::full(u32::MAX),
            state: WakeUpState::default(),
            hints: Hints::default(),
        }
    }

    /// Its connection, if there is one or it is being made.
    pub(super) fn id(&self) -> Option<LinkId> {
        match self.link {
            Link::Waiting { .. } => None,
            Link::Dialling(link, _) | Link::Up { link, .. } => Some(link),
        }
    }

    /// Other keys matter from now on, perhaps.
    pub(super) fn follow(&mut self, filter: &Arc<Filter>, is_up: bool, now: Mono, out: &mut Out) {
        if !Arc::ptr_eq(&self.filter, filter) {
            let before = core::mem::replace(&mut self.filter, Arc::clone(filter));
            self.changed(now);
            if matches!(self.link, Link::Up { .. }) {
                match before.prefixes == filter.prefixes {
                    true => self.hints = Hints { tasks: Vec::new(), all: true },
                    false => self.begin_anew(now, out),
                }
            }
        }
        self.set_up(is_up, now, out);
    }

    /// Sets whether the server gives answers that are accepted.
    pub(super) fn set_up(&mut self, is_up: bool, now: Mono, out: &mut Out) {
        if core::mem::replace(&mut self.is_up, is_up) == is_up {
            return;
        }
        self.changed(now);
        if !is_up && self.id().is_some() {
            self.begin_anew(now, out);
        }
    }

    /// A server that refuses is asked again at once when the reading connection is made again: it
    /// may be another server by now.
    fn changed(&mut self, now: Mono) {
        if let Link::Waiting { until, for_change: true } = &mut self.link {
            *until = now;
        }
    }

    /// Listens again when that is possible.
    fn begin_anew(&mut self, now: Mono, out: &mut Out) {
        if matches!(self.link, Link::Up { .. }) {
            self.state = WakeUpState::Connecting;
        }
        self.wait(now, false, out);
    }

    fn wait(&mut self, until: Mono, for_change: bool, out: &mut Out) {
        self.id().into_iter().for_each(|link| out.close(link));
        self.link = Link::Waiting { until, for_change };
    }

    pub(super) fn next_wake(&self) -> Option<Mono> {
        match &self.link {
            Link::Waiting { until, .. } => self.is_up.then(|| self.pace.next_dial(*until, 0)),
            Link::Dialling(..) => None,
            Link::Up { ping_at, hear_at, .. } => hear_at.iter().copied().chain([*ping_at]).min(),
        }
    }

    /// Does what is due now.
    pub(super) fn launch(
        &mut self,
        (at, address): (&HostPort, &Arc<str>),
        timeout_ms: u64,
        now: Mono,
        out: &mut Out,
    ) {
        if self.next_wake().is_none_or(|at| at > now) {
            return;
        }
        match &mut self.link {
            Link::Waiting { .. } => {
                self.pace.dialled(now);
                let link = out.dial(|link| Dial {
                    link,
                    to: at.clone(),
                    login: Login::Store,
                    manner: Manner::Listen,
                    commands: greeting(&self.filter.prefixes),
                    alone: 0,
                    attempt: 0,
                    timeout_ms,
                });
                self.link = Link::Dialling(link, Arc::clone(&self.filter));
            }
            Link::Dialling(..) => {}
            Link::Up { link, asked, ping_at, hear_at, .. } => {
                if hear_at.is_some_and(|at| at <= now) {
                    *hear_at = None;
                    out.hear(*link);
                }
                if *ping_at > now {
                    return;
                }
                *ping_at = now.plus_ms(PING_EVERY_MS);
                match *asked {
                    Some(since) if now.since_ms(since) > timeout_ms => {
                        let why = format!("no sign of life within {timeout_ms} ms");
                        self.failed(Failure::new(Unknown::Timeout, why), address, now, out);
                    }
                    Some(_) => {}
                    None => {
                        *asked = Some(now);
                        out.talk(*link, vec![command!("PING")]);
                    }
                }
            }
        }
    }

    /// Takes in what happened on the connection. Counts in `news`.
    pub(super) fn take(
        &mut self,
        event: Event,
        address: &Arc<str>,
        news: &mut input::WakeUps,
        now: Mono,
        out: &mut Out,
    ) {
        match event {
            Event::Dialled(dialled) => match greeted(*dialled) {
                Ok(()) => self.began(address, news, now, out),
                Err(failure) => self.failed(failure, address, now, out),
            },
            Event::Failed(failure)
                if failure.why == Unknown::TooLarge && matches!(self.link, Link::Up { .. }) =>
            {
                self.flooded(address, now, out);
            }
            Event::Failed(failure) => self.failed(failure, address, now, out),
            Event::Pushed { bytes, pushes } => self.pushed(bytes, pushes, address, news, now, out),
            Event::Replied { .. } => {}
        }
    }

    /// The server announces changes from now on.
    fn began(&mut self, address: &Arc<str>, news: &mut input::WakeUps, now: Mono, out: &mut Out) {
        let Link::Dialling(link, asked_for) = &self.link else { return };
        let (link, same) = (*link, asked_for.prefixes == self.filter.prefixes);
        self.pace.succeeded();
        if self.said != Said::On {
            out.note(Note::Announces(Arc::clone(address), asked_for.prefixes.len()));
            self.said = Said::On;
        }
        if !same {
            self.state = WakeUpState::Connecting;
            return self.wait(now, false, out);
        }
        // Anything may have changed before.
        self.hints.all = true;
        self.state = WakeUpState::On;
        news.connects += 1;
        let taken = Bucket::full(TAKEN_AT_ONCE);
        self.link = Link::Up { link, asked: None, ping_at: now, taken, hear_at: None };
        out.hear(link);
    }

    fn pushed(
        &mut self,
        bytes: usize,
        pushes: Vec<Push>,
        address: &Arc<str>,
        news: &mut input::WakeUps,
        now: Mono,
        out: &mut Out,
    ) {
        let Link::Up { link, asked, taken, hear_at, .. } = &mut self.link else { return };
        let sweep = u32::try_from(self.filter.tasks / TASKS_PER_CHANGE).unwrap_or(u32::MAX);
        let (mut changes, mut changed, mut refused) = (0_u32, BTreeSet::new(), None);
        for push in pushes {
            match push {
                Push::Changed(key) => {
                    changes += 1;
                    match self.filter.position(&key) {
                        Some(at) => news.coalesced += u64::from(!changed.insert(at)),
                        None => news.foreign += 1,
                    }
                }
                Push::AllChanged => {
                    changes = changes.saturating_add(1).saturating_add(sweep);
                    self.hints.all = true;
                }
                Push::Alive => *asked = None,
                Push::Refused(error) => refused = Some(refused_step("PING", &error)),
                Push::Other => {}
            }
        }
        let tasks = changed.into_iter().flat_map(|at| self.filter.tasks_at(at));
        self.hints.tasks.extend(tasks);
        if let Some(failure) = refused {
            return self.failed(failure, address, now, out);
        }
        taken.take(changes.max(1), TAKEN_PER_S, TAKEN_AT_ONCE, now);
        let at = taken.ready_at(TAKEN_TOGETHER, TAKEN_PER_S, now);
        if at <= now {
            out.hear(*link);
        } else {
            *hear_at = Some(at);
        }
        let limit = changes_per_s(self.filter.tasks, self.filter.interval_ms);
        let burst = u32::try_from(limit).unwrap_or(u32::MAX).saturating_mul(BURST_S);
        if !self.changes_left.take(changes.max(burden(bytes)), limit, burst, now) {
            self.flooded(address, now, out);
        }
    }

    fn flooded(&mut self, address: &Arc<str>, now: Mono, out: &mut Out) {
        let limit = changes_per_s(self.filter.tasks, self.filter.interval_ms);
        out.note(Note::Flooded(Arc::clone(address), limit, FLOODED_AGAIN_MS));
        self.said = Said::Nothing;
        self.state = WakeUpState::Flooded;
        self.wait(now.plus_ms(FLOODED_AGAIN_MS), false, out);
    }

    fn failed(&mut self, failure: Failure, address: &Arc<str>, now: Mono, out: &mut Out) {
        let (why, refused) = (failure.why, is_refusal(failure.why));
        let is_news = refused || self.said != Said::On || self.pace.in_vain() > 0;
        if self.said != Said::Off(why) && is_news {
            out.note(Note::AnnouncesNothing(Arc::clone(address), failure));
            self.said = Said::Off(why);
        }
        self.state = if refused { WakeUpState::Refused } else { WakeUpState::Lost };
        let again = match refused {
            true => now.plus_ms(REFUSED_AGAIN_MS),
            false => self.pace.next_dial(now, out.random()),
        };
        self.wait(again, refused, out);
    }
}

/// The cost of received data, as a number of changes by its size: data costs time even if it
/// announces no change.
fn burden(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(CHANGE_BYTES)).unwrap_or(u32::MAX)
}

/// Whether the server could answer, but refuses to.
fn is_refusal(why: Unknown) -> bool {
    is_about_login(why)
        || matches!(why, Unknown::NoPermission | Unknown::ServerError | Unknown::Protocol)
}

/// What each command of the greeting is called in a failure.
const STEPS: [&str; 5] = ["HELLO 3", "CLIENT SETNAME", "SUBSCRIBE", "CLIENT TRACKING", "PING"];

/// The commands that turn on announcements for all keys that begin with one of `prefixes`. Public
/// for the fuzz target `tracking`, as [`greeted`] is.
pub fn greeting(prefixes: &[Vec<u8>]) -> Vec<Command> {
    let mut track: Vec<&[u8]> = vec![b"CLIENT", b"TRACKING", b"ON", b"BCAST"];
    track.extend(prefixes.iter().flat_map(|prefix| [b"PREFIX".as_slice(), prefix]));
    vec![
        command!("HELLO", "3"),
        command!("CLIENT", "SETNAME", "lockwatch-wake-ups"),
        command!("SUBSCRIBE", CHANNEL),
        Command::new(track),
        command!("PING"),
    ]
}

/// Whether the greeting was answered.
///
/// # Errors
/// Why the server does not announce changes.
pub fn greeted(dialled: Dialled) -> Result<(), Failure> {
    let Dialled { auth, replies, ended, .. } = dialled;
    if let Some(Reply::Error(error)) = &auth {
        return Err(refused_step("the login", error));
    }
    for (step, reply) in STEPS.into_iter().zip(&replies) {
        let is_answer = match (step, reply) {
            (_, Reply::Error(error)) => return Err(refused_step(step, error)),
            ("SUBSCRIBE", Reply::Array(items)) => {
                items.first().and_then(Reply::as_bytes) == Some(b"subscribe")
            }
            ("SUBSCRIBE", _) => false,
            ("PING", reply) => reply.as_bytes() == Some(b"PONG"),
            _ => true,
        };
        if !is_answer {
            return Err(Failure::new(Unknown::Protocol, "these are no answers to the greeting"));
        }
    }
    match ended {
        Some(failure) => Err(failure),
        None if replies.len() < STEPS.len() => {
            Err(Failure::new(Unknown::Protocol, "the greeting was not answered"))
        }
        None => Ok(()),
    }
}

/// Why the server refused a step. Its text is not logged, because it may quote what was sent.
fn refused_step(step: &str, error: &ServerError) -> Failure {
    let why = match (step, refusal(error, true)) {
        ("the login", Unknown::ServerError) => Unknown::Auth,
        (_, why) => why,
    };
    Failure::new(why, format_args!("{step} was refused"))
}

#[cfg(test)]
mod tests;
