//! One session on one connection, from the dial to its end. A session is never taken up again on
//! another connection: a new one costs as little, and that a server grants it proves that the
//! server has a majority behind it.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use super::codec::{self, Answer, Ask, Code, Greeting, Malformed, Said, Zxid};
use crate::redis::driver::{Failure, LinkId};

/// The most children of a node that are read.
pub(super) const CHILDREN_MAX: usize = 16_384;
/// So long after it was granted, a session proves what is asked over it, in milliseconds: by then no
/// majority can have elected another leader.
const FRESH_MS: u64 = 250;
/// While so many requests have no reply, no further task is asked about.
const IN_FLIGHT_MAX: usize = 1_000;

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) link: LinkId,
    /// The server, `host:port`.
    pub(super) server: Arc<str>,
    /// Its place in the configuration.
    pub(super) position: usize,
    /// When the server was reached, and the session asked of it.
    pub(super) reached: Option<Mono>,
    state: State,
    /// When the request for it was sent.
    pub(super) asked: Mono,
    /// It was asked for without a change, because the line may be over, and has shown none yet.
    pub(super) begins_line: bool,
    /// Since when its server shows less than another one showed before.
    pub(super) behind: Option<Mono>,
    next_xid: i32,
    /// What was not answered yet, in the order in which it was sent.
    in_flight: VecDeque<Flight>,
    last_sent: Mono,
    /// A ping that was not answered yet.
    pinged: Option<Mono>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Dialling,
    Open { timeout_ms: u32, granted: Mono },
}

#[derive(Debug)]
struct Flight {
    xid: i32,
    sent: Mono,
    ask: Ask,
    tag: u64,
}

/// What a frame means for those who asked.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The session was granted.
    Granted,
    /// A request was answered.
    Answered(Answered),
    /// The server showed its newest change.
    Shown(Zxid),
    /// What is at this path changed.
    Changed(String),
    /// Nothing for anybody.
    Nothing,
}

/// The reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answered {
    /// The tag of the request.
    pub(super) tag: u64,
    pub(super) ask: Ask,
    /// `None`: more than is read.
    pub(super) answer: Option<Answer>,
    /// The server's newest change.
    pub(super) zxid: Zxid,
    /// Size of the reply in bytes.
    pub(super) bytes: usize,
}

impl Session {
    pub(super) fn new(link: LinkId, server: Arc<str>, position: usize, at: Mono) -> Session {
        Session {
            link,
            server,
            position,
            reached: None,
            state: State::Dialling,
            asked: at,
            begins_line: false,
            behind: None,
            next_xid: 1,
            in_flight: VecDeque::new(),
            last_sent: at,
            pinged: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// The instant of which the server surely shows the state, if it granted the session just before
    /// `at`: when it was asked. A majority agreed then, and the server may have been slow to learn
    /// of it.
    pub(super) fn proves(&self, at: Mono) -> Option<Mono> {
        match self.state {
            State::Open { granted, .. } if at.since_ms(granted) <= FRESH_MS => self.reached,
            _ => None,
        }
    }

    /// Whether it can be asked about a further task.
    pub(super) fn has_room(&self) -> bool {
        self.is_open() && self.in_flight.len() < IN_FLIGHT_MAX
    }

    /// The frames for these questions. The replies come back with `tag`.
    pub(super) fn ask(&mut self, asks: &[Ask], tag: u64, at: Mono) -> Vec<u8> {
        let mut bytes = Vec::new();
        for ask in asks {
            let xid = self.take_xid();
            bytes.extend(ask.frame(xid));
            self.in_flight.push_back(Flight { xid, sent: at, ask: ask.clone(), tag });
        }
        self.last_sent = at;
        bytes
    }

    /// The frame that ends it; `None`: it was not granted yet.
    pub(super) fn farewell(&mut self) -> Option<Vec<u8>> {
        self.is_open().then(|| codec::close_session(self.take_xid()))
    }

    fn take_xid(&mut self) -> i32 {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        xid
    }

    /// A frame came.
    pub(super) fn take(&mut self, frame: &[u8], at: Mono) -> Result<News, Failure> {
        let State::Open { .. } = self.state else { return self.greeted(frame, at) };
        match codec::said(frame).map_err(malformed)? {
            Said::Reply { xid, zxid, body } => self.replied((xid, zxid), Some(body), frame.len()),
            Said::Pong(zxid) => {
                self.pinged.take().ok_or_else(|| malformed(Malformed))?;
                Ok(News::Shown(zxid))
            }
            Said::LoggedIn(Ok(())) => Ok(News::Nothing),
            Said::LoggedIn(Err(_)) => {
                Err(Failure::new(Unknown::Auth, "the server does not know this scheme of logins"))
            }
            Said::Changed(path) => Ok(News::Changed(path)),
            Said::Other => Ok(News::Nothing),
        }
    }

    /// A frame came that is too large to be read.
    pub(super) fn take_too_large(&mut self, header: &[u8], bytes: usize) -> Result<News, Failure> {
        match codec::said(header).map_err(malformed)? {
            Said::Reply { xid, zxid, body: Ok(_) } if self.is_open() => {
                self.replied((xid, zxid), None, bytes)
            }
            _ => Err(malformed(Malformed)),
        }
    }

    fn greeted(&mut self, frame: &[u8], at: Mono) -> Result<News, Failure> {
        match codec::greeting(frame).map_err(malformed)? {
            Greeting::Session { timeout_ms, .. } => {
                self.state = State::Open { timeout_ms, granted: at };
                Ok(News::Granted)
            }
            Greeting::Refused => Err(Failure::new(
                Unknown::Quorum,
                "the server grants no session: it has no majority of the ensemble behind it",
            )),
        }
    }

    fn replied(
        &mut self,
        (xid, zxid): (i32, Zxid),
        body: Option<Result<&[u8], Code>>,
        bytes: usize,
    ) -> Result<News, Failure> {
        let flight = self.in_flight.pop_front().filter(|flight| flight.xid == xid);
        let Some(Flight { ask, tag, .. }) = flight else {
            return Err(Failure::new(
                Unknown::Protocol,
                "the server answered another request than the oldest one",
            ));
        };
        if body == Some(Err(Code::SESSION_EXPIRED)) {
            return Err(Failure::new(Unknown::Closed, "the session has expired"));
        }
        let answer = match body {
            Some(body) => codec::answer(&ask, body, CHILDREN_MAX).map_err(malformed)?,
            None => None,
        };
        Ok(News::Answered(Answered { tag, ask, answer, zxid, bytes }))
    }

    /// When it must be looked after again.
    pub(super) fn next_wake(&self, timeout_ms: u64) -> Mono {
        let owed = self.owed_since().map(|sent| sent.plus_ms(timeout_ms));
        self.ping_at().into_iter().chain(owed).min().unwrap_or(Mono::MAX)
    }

    /// Since when the server owes an answer.
    fn owed_since(&self) -> Option<Mono> {
        if !self.is_open() {
            return Some(self.asked);
        }
        let request = self.in_flight.front().map(|flight| flight.sent);
        request.into_iter().chain(self.pinged).min()
    }

    /// Whether the server owes an answer for longer than `timeout_ms`.
    pub(super) fn is_overdue(&self, timeout_ms: u64, at: Mono) -> bool {
        self.owed_since().is_some_and(|since| at.since_ms(since) >= timeout_ms)
    }

    /// When a ping is due; `None` while one has no answer.
    fn ping_at(&self) -> Option<Mono> {
        let State::Open { timeout_ms, .. } = self.state else { return None };
        self.pinged.is_none().then(|| self.last_sent.plus_ms(u64::from(timeout_ms / 3)))
    }

    /// A ping, if one is due.
    pub(super) fn ping(&mut self, at: Mono) -> Option<Vec<u8>> {
        self.ping_at().filter(|due| *due <= at)?;
        (self.last_sent, self.pinged) = (at, Some(at));
        Some(codec::ping())
    }
}

fn malformed(_: Malformed) -> Failure {
    Failure::new(Unknown::Protocol, "the server does not follow ZooKeeper's protocol")
}
