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

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) link: LinkId,
    /// The server, `host:port`.
    pub(super) server: Arc<str>,
    /// Its place in the configuration.
    pub(super) position: usize,
    /// Whether the server was reached.
    pub(super) was_reached: bool,
    state: State,
    /// When the request for it was sent.
    pub(super) asked: Mono,
    /// The newest change that the server is known to have.
    pub(super) zxid: Zxid,
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
    Open { timeout_ms: u32 },
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
    /// A request with this tag was answered; `None`: more children than are read.
    Answered(u64, Ask, Option<Answer>),
    /// What is at this path changed.
    Changed(String),
    /// Nothing for anybody.
    Nothing,
}

impl Session {
    pub(super) fn new(link: LinkId, server: Arc<str>, position: usize, at: Mono) -> Session {
        Session {
            link,
            server,
            position,
            was_reached: false,
            state: State::Dialling,
            asked: at,
            zxid: Zxid::default(),
            next_xid: 1,
            in_flight: VecDeque::new(),
            last_sent: at,
            pinged: None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
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

    /// The frame that ends it.
    pub(super) fn farewell(&mut self) -> Vec<u8> {
        let xid = self.take_xid();
        codec::close_session(xid)
    }

    fn take_xid(&mut self) -> i32 {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(1);
        xid
    }

    /// A frame came.
    pub(super) fn take(&mut self, frame: &[u8]) -> Result<News, Failure> {
        let State::Open { .. } = self.state else {
            return match codec::greeting(frame).map_err(|Malformed| malformed())? {
                Greeting::Session { timeout_ms, .. } => {
                    self.state = State::Open { timeout_ms };
                    Ok(News::Granted)
                }
                Greeting::Refused => Err(Failure::new(
                    Unknown::Quorum,
                    "the server grants no session: it has no majority of the ensemble behind it",
                )),
            };
        };
        match codec::said(frame).map_err(|Malformed| malformed())? {
            Said::Reply { xid, zxid, body } => {
                let flight = self.in_flight.pop_front().filter(|flight| flight.xid == xid);
                let Some(Flight { ask, tag, .. }) = flight else {
                    return Err(Failure::new(
                        Unknown::Protocol,
                        "the server answered another request than the oldest one",
                    ));
                };
                self.zxid = self.zxid.max(zxid);
                let body = body.as_deref().map_err(|code| *code);
                if let Err(Code::SESSION_EXPIRED) = body {
                    return Err(Failure::new(Unknown::Closed, "the session has expired"));
                }
                let answer =
                    codec::answer(&ask, body, CHILDREN_MAX).map_err(|Malformed| malformed())?;
                Ok(News::Answered(tag, ask, answer))
            }
            Said::Pong(zxid) => {
                self.zxid = self.zxid.max(zxid);
                self.pinged = None;
                Ok(News::Nothing)
            }
            Said::LoggedIn(Ok(())) => Ok(News::Nothing),
            Said::LoggedIn(Err(_)) => {
                Err(Failure::new(Unknown::Auth, "the server does not know this scheme of logins"))
            }
            Said::Changed(path) => Ok(News::Changed(path)),
            Said::Other => Ok(News::Nothing),
        }
    }

    /// When it must be looked after again.
    pub(super) fn next_wake(&self, timeout_ms: u64) -> Mono {
        let oldest = self.oldest().map(|sent| sent.plus_ms(timeout_ms));
        match self.state {
            State::Dialling => self.asked.plus_ms(timeout_ms),
            State::Open { timeout_ms: lasts_ms } => {
                let ping = self.last_sent.plus_ms(u64::from(lasts_ms / 3));
                oldest.map_or(ping, |oldest| oldest.min(ping))
            }
        }
    }

    fn oldest(&self) -> Option<Mono> {
        let request = self.in_flight.front().map(|flight| flight.sent);
        request.into_iter().chain(self.pinged).min()
    }

    /// Whether the server owes an answer for longer than `timeout_ms`.
    pub(super) fn is_overdue(&self, timeout_ms: u64, at: Mono) -> bool {
        let since = if self.is_open() { self.oldest() } else { Some(self.asked) };
        since.is_some_and(|since| at.since_ms(since) >= timeout_ms)
    }

    /// A ping, if one is due.
    pub(super) fn ping(&mut self, at: Mono) -> Option<Vec<u8>> {
        let State::Open { timeout_ms, .. } = self.state else { return None };
        let is_due = at.since_ms(self.last_sent) >= u64::from(timeout_ms / 3);
        is_due.then(|| {
            self.last_sent = at;
            self.pinged.get_or_insert(at);
            codec::ping()
        })
    }
}

fn malformed() -> Failure {
    Failure::new(Unknown::Protocol, "the server does not follow ZooKeeper's protocol")
}
