//! What a ZooKeeper server reads and writes. It shares no code with the watcher's codec, so that a
//! mistake of one does not hide one of the other. The watcher's own tests use it, too.

/// A request as a server reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Anything about a node.
    Node {
        xid: i32,
        what: What,
        path: String,
    },
    Ping,
    Auth,
    Close {
        xid: i32,
    },
}

/// What is asked about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Exists,
    Data,
    Children,
}

/// The state of a node that a server sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) created_ms: i64,
    pub(crate) owner: i64,
    pub(crate) data_bytes: i32,
    pub(crate) children: i32,
    pub(crate) children_changed: i64,
}

pub(crate) const NO_NODE: i32 = -101;
#[allow(dead_code, reason = "the simulator's sessions may read everything")]
pub(crate) const NO_AUTH: i32 = -102;
/// The node's children changed.
pub(crate) const CHILDREN: i32 = 4;

/// The frames in `bytes`, each without its length.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        all.push(frame.to_vec());
        bytes = rest;
    }
    all
}

/// The zxid of a request for a new session. It must have no other session, and no flag.
pub(crate) fn connect(frame: &[u8]) -> i64 {
    assert_eq!(frame.len(), 44, "a request for a session without the flag for a read-only one");
    assert_eq!((int(frame, 0), long(frame, 16)), (0, 0), "a new session");
    long(frame, 4)
}

/// Reads a request. Whatever writes is none.
pub(crate) fn request(frame: &[u8]) -> Request {
    let (xid, operation) = (int(frame, 0), int(frame, 4));
    let what = match operation {
        3 => What::Exists,
        4 => What::Data,
        12 => What::Children,
        11 => return Request::Ping,
        100 => return Request::Auth,
        -11 => return Request::Close { xid },
        other => panic!("operation {other}"),
    };
    let length = int(frame, 8) as usize;
    let path = String::from_utf8(frame[12..12 + length].to_vec()).expect("a path");
    assert_eq!(frame[12 + length..], [1], "a watch");
    Request::Node { xid, what, path }
}

/// Grants a session.
pub(crate) fn greeting(session: i64, timeout_ms: i32) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(0_i32.to_be_bytes());
    out.extend(timeout_ms.to_be_bytes());
    out.extend(session.to_be_bytes());
    out.extend(16_i32.to_be_bytes());
    out.extend([7; 16]);
    out
}

/// The header of a reply, which is all of it if there is an error.
pub(crate) fn header(xid: i32, zxid: i64, error: i32) -> Vec<u8> {
    [&xid.to_be_bytes()[..], &zxid.to_be_bytes(), &error.to_be_bytes()].concat()
}

pub(crate) fn pong(zxid: i64) -> Vec<u8> {
    header(-2, zxid, 0)
}

/// Something changed at a path.
pub(crate) fn event(kind: i32, path: &str) -> Vec<u8> {
    let mut out = header(-1, -1, 0);
    out.extend(kind.to_be_bytes());
    out.extend(3_i32.to_be_bytes());
    text(path.as_bytes(), &mut out);
    out
}

pub(crate) fn children<'a>(names: impl Iterator<Item = &'a str>, stat: Stat) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(stat.children.to_be_bytes());
    names.for_each(|name| text(name.as_bytes(), &mut out));
    out.extend(state(stat));
    out
}

pub(crate) fn data(bytes: &[u8], stat: Stat) -> Vec<u8> {
    let mut out = Vec::new();
    text(bytes, &mut out);
    out.extend(state(stat));
    out
}

pub(crate) fn state(stat: Stat) -> Vec<u8> {
    let mut out = Vec::new();
    [stat.created, stat.modified, stat.created_ms, stat.created_ms]
        .iter()
        .for_each(|number| out.extend(number.to_be_bytes()));
    [0_i32; 3].iter().for_each(|number| out.extend(number.to_be_bytes()));
    out.extend(stat.owner.to_be_bytes());
    out.extend(stat.data_bytes.to_be_bytes());
    out.extend(stat.children.to_be_bytes());
    out.extend(stat.children_changed.to_be_bytes());
    out
}

fn text(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend((bytes.len() as i32).to_be_bytes());
    out.extend(bytes);
}

fn int(frame: &[u8], at: usize) -> i32 {
    i32::from_be_bytes(frame[at..at + 4].try_into().expect("four bytes"))
}

fn long(frame: &[u8], at: usize) -> i64 {
    i64::from_be_bytes(frame[at..at + 8].try_into().expect("eight bytes"))
}
