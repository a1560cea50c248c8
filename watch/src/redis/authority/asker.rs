//! A connection for one request at a time: dialled when needed, and given up after any doubt.

use alloc::string::String;
use alloc::vec::Vec;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use crate::redis::accept::Caps;
use crate::redis::driver::{Dial, Event, Failure, LinkId, Login, Manner};
use crate::redis::handshake::Handshake;
use crate::redis::out::Out;
use crate::redis::reply::{Command, Reply};
use crate::redis::store::HostPort;

/// Maximum number of requests in one interval, however many reasons to hurry there are: a server
/// may announce without end.
pub(super) const HURRIES: u64 = 10;

/// When the request was sent, and its result.
pub(super) type Exchange = (Mono, Result<Vec<Reply>, Failure>);

/// How a request goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// Over the connection.
    Sends,
    /// After a dial.
    Dials,
}

/// A connection on which one request is in flight at a time.
#[derive(Debug)]
pub(super) struct Asker {
    at: HostPort,
    login: Login,
    handshake: Handshake,
    timeout_ms: u64,
    /// Of a Sentinel: the names of its masters, as of its greeting.
    masters: Option<Vec<String>>,
    state: State,
}

#[derive(Debug)]
enum State {
    Unconnected,
    /// Since this instant.
    Dialling(LinkId, Mono),
    Idle(LinkId, Caps),
    Asking(LinkId, Caps, Mono),
}

impl Asker {
    pub(super) fn new(at: HostPort, login: Login, handshake: Handshake, timeout_ms: u64) -> Asker {
        Asker { at, login, handshake, timeout_ms, masters: None, state: State::Unconnected }
    }

    pub(super) fn at(&self) -> &HostPort {
        &self.at
    }

    /// Of a Sentinel: the names of its masters, as of its greeting.
    pub(super) fn masters(&self) -> Option<&[String]> {
        self.masters.as_deref()
    }

    /// Its connection, if there is one or it is being made.
    pub(super) fn id(&self) -> Option<LinkId> {
        match self.state {
            State::Unconnected => None,
            State::Dialling(link, _) | State::Idle(link, _) | State::Asking(link, ..) => Some(link),
        }
    }

    /// Whether a request has not ended yet.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, State::Dialling(..) | State::Asking(..))
    }

    /// When a request is unanswered for too long.
    pub(super) fn late_at(&self) -> Option<Mono> {
        match self.state {
            State::Asking(_, _, asked) => Some(asked.plus_ms(self.timeout_ms)),
            State::Unconnected | State::Dialling(..) | State::Idle(..) => None,
        }
    }

    /// Begins a request, unless one has not ended yet.
    pub(super) fn ask(
        &mut self,
        attempt: usize,
        commands: impl Fn(Caps) -> Vec<Command>,
        now: Mono,
        out: &mut Out,
    ) -> Asks {
        match self.state {
            State::Idle(link, caps) => {
                self.state = State::Asking(link, caps, now);
                out.talk(link, commands(caps));
                Asks::Sends
            }
            State::Dialling(..) | State::Asking(..) => Asks::Sends,
            State::Unconnected => {
                let link = out.dial(|link| Dial {
                    link,
                    to: self.at.clone(),
                    login: self.login,
                    manner: Manner::Talk,
                    commands: self.handshake.commands(),
                    alone: self.handshake.alone(),
                    attempt,
                    timeout_ms: self.timeout_ms,
                });
                self.state = State::Dialling(link, now);
                Asks::Dials
            }
        }
    }

    /// Takes in what happened; returns the result of the request when it has ended.
    pub(super) fn take(
        &mut self,
        event: Event,
        commands: impl Fn(Caps) -> Vec<Command>,
        now: Mono,
        out: &mut Out,
    ) -> Option<Exchange> {
        match (&self.state, event) {
            (State::Dialling(link, began), Event::Dialled(dialled)) => {
                let (link, began) = (*link, *began);
                match self.handshake.judge(dialled.auth.as_ref(), &dialled.replies, dialled.ended) {
                    Ok(greeting) => {
                        self.masters = greeting.masters;
                        self.state = State::Asking(link, greeting.caps, now);
                        out.talk(link, commands(greeting.caps));
                        None
                    }
                    Err(failure) => {
                        self.give_up(out);
                        Some((began, Err(failure)))
                    }
                }
            }
            (State::Dialling(_, began) | State::Asking(_, _, began), Event::Failed(failure)) => {
                let began = *began;
                self.give_up(out);
                Some((began, Err(failure)))
            }
            (State::Idle(..), Event::Failed(_)) => {
                self.give_up(out);
                None
            }
            (State::Asking(link, caps, asked), Event::Replied { replies, .. }) => {
                let asked = *asked;
                self.state = State::Idle(*link, *caps);
                Some((asked, Ok(replies)))
            }
            _ => None,
        }
    }

    /// Gives up a request that is unanswered for too long.
    pub(super) fn overdue(&mut self, now: Mono, out: &mut Out) -> Option<Exchange> {
        let State::Asking(_, _, asked) = self.state else { return None };
        if self.late_at().is_none_or(|at| at > now) {
            return None;
        }
        self.give_up(out);
        let detail = format_args!("no complete reply within {} ms", self.timeout_ms);
        Some((asked, Err(Failure::new(Unknown::Timeout, detail))))
    }

    pub(super) fn give_up(&mut self, out: &mut Out) {
        self.id().into_iter().for_each(|link| out.close(link));
        self.state = State::Unconnected;
    }
}
