//! The wire protocol of ZooKeeper, as far as a reader needs it. Requests become bytes, and frames
//! become replies or events. Numbers are big-endian; a text has its length before it.
//!
//! The driver cuts what it receives into frames. Nothing here believes a length: every field is
//! taken from what is left of the frame.

use alloc::string::String;
use alloc::vec::Vec;

/// The longest frame that is accepted, in bytes. A server's own limit is for requests; the names of
/// 15,000 contenders are 1.2 MB.
pub const FRAME_BYTES_MAX: usize = 4 << 20;
/// Length of what each reply begins with: the number of its request, the server's newest change and
/// an error.
pub const HEADER_BYTES: usize = 16;
/// Length of a session's password in bytes.
const PASSWORD_BYTES: i32 = 16;

/// The number of a request that answers nobody's: an event, a ping, a login.
mod xid {
    pub(super) const EVENT: i32 = -1;
    pub(super) const PING: i32 = -2;
    pub(super) const AUTH: i32 = -4;
}

/// What is asked of a server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// The names of a node's children, and the node's state.
    Children(String),
    /// A node's data and state.
    Data(String),
    /// A node's state, or that it is not there: then its creation is announced.
    Exists(String),
}

impl Ask {
    /// The node's path.
    pub fn path(&self) -> &str {
        match self {
            Ask::Children(path) | Ask::Data(path) | Ask::Exists(path) => path,
        }
    }

    /// The name of the operation, as ZooKeeper's own clients have it.
    pub fn name(&self) -> &'static str {
        match self {
            Ask::Children(_) => "getChildren2",
            Ask::Data(_) => "getData",
            Ask::Exists(_) => "exists",
        }
    }

    /// Its frame. The server announces the next change of what it answers, once.
    pub fn frame(&self, xid: i32) -> Vec<u8> {
        let operation = match self {
            Ask::Exists(_) => 3,
            Ask::Data(_) => 4,
            Ask::Children(_) => 12,
        };
        frame(|out| {
            int(xid, out);
            int(operation, out);
            bytes(self.path().as_bytes(), out);
            out.push(1);
        })
    }
}

/// The first frame of a connection: asks for a new session. `newest` is the newest zxid that was
/// seen of the ensemble: a server that is behind it closes the connection.
pub fn connect(timeout_ms: u32, newest: Zxid) -> Vec<u8> {
    frame(|out| {
        int(0, out);
        long(newest.0, out);
        int(i32::try_from(timeout_ms).unwrap_or(i32::MAX), out);
        long(0, out);
        int(PASSWORD_BYTES, out);
        out.extend([0; PASSWORD_BYTES as usize]);
    })
}

/// Asks for nothing: shows that the session is wanted, and how far the server is.
pub fn ping() -> Vec<u8> {
    frame(|out| {
        int(xid::PING, out);
        int(11, out);
    })
}

/// Logs in. The driver sends it, because it is secret.
pub fn auth(scheme: &str, secret: &[u8]) -> Vec<u8> {
    frame(|out| {
        int(xid::AUTH, out);
        int(100, out);
        int(0, out);
        bytes(scheme.as_bytes(), out);
        bytes(secret, out);
    })
}

/// Ends the session at once, so that the server need not wait for its timeout.
pub fn close_session(xid: i32) -> Vec<u8> {
    frame(|out| {
        int(xid, out);
        int(-11, out);
    })
}

fn frame(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = alloc::vec![0; 4];
    write(&mut out);
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.first_chunk_mut() {
        *place = length.to_be_bytes();
    }
    out
}

fn int(number: i32, out: &mut Vec<u8>) {
    out.extend(number.to_be_bytes());
}

fn long(number: i64, out: &mut Vec<u8>) {
    out.extend(number.to_be_bytes());
}

fn bytes(bytes: &[u8], out: &mut Vec<u8>) {
    int(i32::try_from(bytes.len()).unwrap_or(i32::MAX), out);
    out.extend(bytes);
}

/// The number of a change of the ensemble's data. Its upper half counts the leaders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Zxid(pub i64);

/// The id of a client's session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub i64);

/// What a server keeps of a node besides its data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The change that created the node.
    pub created: Zxid,
    /// The change that wrote its data last.
    pub modified: Zxid,
    /// When it was created, in milliseconds since the Unix epoch by the leader's clock.
    pub created_ms: i64,
    /// Number of changes of its data.
    pub version: i32,
    /// The session that it ends with; `None`: it stays.
    pub owner: Option<SessionId>,
    /// Length of its data in bytes.
    pub data_bytes: i32,
    /// Number of its children.
    pub children: i32,
    /// The newest change of its children.
    pub children_changed: Zxid,
}

/// The answer to a request for a new session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// There is a session.
    Session {
        /// Its id.
        id: SessionId,
        /// How long it lasts without a sign of life, in milliseconds.
        timeout_ms: u32,
    },
    /// The server gives none: it serves reads only, or none at all.
    Refused,
}

/// Why a request was refused: the code of ZooKeeper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(pub i32);

impl Code {
    /// There is no such node.
    pub const NO_NODE: Code = Code(-101);
    /// The session may not read it.
    pub const NO_AUTH: Code = Code(-102);
    /// The session has ended.
    pub const SESSION_EXPIRED: Code = Code(-112);
    /// The login was refused.
    pub const AUTH_FAILED: Code = Code(-115);
}

/// What a server said after its greeting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// It answered a request.
    Reply {
        /// The number of the request.
        xid: i32,
        /// The server's newest change.
        zxid: Zxid,
        /// What it answered, still as bytes, or why it refused.
        body: Result<&'a [u8], Code>,
    },
    /// It answered a ping.
    Pong(Zxid),
    /// It answered a login.
    LoggedIn(Result<(), Code>),
    /// What was watched at this path changed.
    Changed(String),
    /// The session's state changed, or anything else that is no change of a node.
    Other,
}

/// The reply to an [`Ask`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Names of children, in no order.
    Children(Vec<String>, Stat),
    /// Data.
    Data(Vec<u8>, Stat),
    /// It is there.
    Exists(Stat),
    /// It is not.
    NoNode,
    /// It may not be read.
    NoAuth,
    /// The server refuses with another code.
    Refused(Code),
}

/// The frame does not follow the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Reads the first frame of a server. One that cannot give a session may answer with the header of
/// a reply instead, which is shorter.
pub fn greeting(frame: &[u8]) -> Result<Greeting, Malformed> {
    let mut rest = Rest(frame);
    if frame.len() == HEADER_BYTES {
        let (xid, _zxid, code) = (rest.int()?, rest.long()?, rest.int()?);
        return if xid == 0 && code < 0 { Ok(Greeting::Refused) } else { Err(Malformed) };
    }
    let (version, timeout_ms) = (rest.int()?, rest.int()?);
    let id = SessionId(rest.long()?);
    let _password = rest.bytes()?;
    let is_read_only = match rest.0 {
        [] | [0] => false,
        [1] => true,
        _ => return Err(Malformed),
    };
    match u32::try_from(timeout_ms) {
        _ if version != 0 => Err(Malformed),
        Ok(timeout_ms) if timeout_ms > 0 && id.0 != 0 && !is_read_only => {
            Ok(Greeting::Session { id, timeout_ms })
        }
        _ => Ok(Greeting::Refused),
    }
}

/// Reads any later frame.
pub fn said(frame: &[u8]) -> Result<Said<'_>, Malformed> {
    let mut rest = Rest(frame);
    let (xid, zxid, code) = (rest.int()?, Zxid(rest.long()?), rest.int()?);
    let refused = || if code == 0 { Ok(()) } else { Err(Code(code)) };
    Ok(match xid {
        xid::EVENT => {
            // A type of -1 is about the session.
            let (kind, _state) = (rest.int()?, rest.int()?);
            let path = rest.text()?;
            if kind > 0 && !path.is_empty() { Said::Changed(path) } else { Said::Other }
        }
        xid::PING => Said::Pong(zxid),
        xid::AUTH => Said::LoggedIn(refused()),
        xid if xid < 0 => return Err(Malformed),
        _ => Said::Reply { xid, zxid, body: refused().map(|()| rest.0) },
    })
}

/// Reads the reply to `ask`. No more than `children_max` names are kept: beyond them the answer is
/// `None`.
pub fn answer(
    ask: &Ask,
    body: Result<&[u8], Code>,
    children_max: usize,
) -> Result<Option<Answer>, Malformed> {
    let mut rest = match body {
        Ok(body) => Rest(body),
        Err(Code::NO_NODE) => return Ok(Some(Answer::NoNode)),
        Err(Code::NO_AUTH) => return Ok(Some(Answer::NoAuth)),
        Err(code) => return Ok(Some(Answer::Refused(code))),
    };
    let answer = match ask {
        Ask::Children(_) => {
            let count = rest.length()?;
            if count > children_max {
                return Ok(None);
            }
            let names = (0..count).map(|_| rest.text()).collect::<Result<Vec<_>, _>>()?;
            let stat = rest.stat()?;
            // A server takes both at one instant.
            if usize::try_from(stat.children) != Ok(count) {
                return Err(Malformed);
            }
            Answer::Children(names, stat)
        }
        Ask::Data(_) => {
            let data = rest.bytes()?.to_vec();
            Answer::Data(data, rest.stat()?)
        }
        Ask::Exists(_) => Answer::Exists(rest.stat()?),
    };
    if rest.0.is_empty() { Ok(Some(answer)) } else { Err(Malformed) }
}

/// What is left of a frame.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn int(&mut self) -> Result<i32, Malformed> {
        self.take().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Result<i64, Malformed> {
        self.take().map(i64::from_be_bytes)
    }

    /// The length of what follows; -1 stands for nothing.
    fn length(&mut self) -> Result<usize, Malformed> {
        match self.int()? {
            -1 => Ok(0),
            length => usize::try_from(length).map_err(|_| Malformed),
        }
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.length()?;
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn text(&mut self) -> Result<String, Malformed> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    fn stat(&mut self) -> Result<Stat, Malformed> {
        let (created, modified) = (Zxid(self.long()?), Zxid(self.long()?));
        let (created_ms, _modified_ms) = (self.long()?, self.long()?);
        let (version, _of_children, _of_acl) = (self.int()?, self.int()?, self.int()?);
        let owner = Some(SessionId(self.long()?)).filter(|owner| owner.0 != 0);
        Ok(Stat {
            created,
            modified,
            created_ms,
            version,
            owner,
            data_bytes: self.int()?,
            children: self.int()?,
            children_changed: Zxid(self.long()?),
        })
    }
}
