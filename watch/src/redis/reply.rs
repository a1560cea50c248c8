//! Commands to a Redis server and its replies, independent of any client library's types.

use alloc::vec::Vec;

/// One command: its name and arguments as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The words of the command, its name first.
    pub args: Vec<Vec<u8>>,
}

impl Command {
    /// A command from its words.
    pub fn new<A: AsRef<[u8]>>(words: impl IntoIterator<Item = A>) -> Command {
        Command { args: words.into_iter().map(|word| word.as_ref().to_vec()).collect() }
    }
}

/// Shorthand for [`Command::new`] with words of different types.
#[macro_export]
macro_rules! command {
    ($($word:expr),+ $(,)?) => {
        $crate::redis::reply::Command::new([$(::core::convert::AsRef::<[u8]>::as_ref(&$word)),+])
    };
}

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// No value.
    Nil,
    /// An integer.
    Int(i64),
    /// A string of bytes, bulk or simple.
    Bytes(Vec<u8>),
    /// A list of replies.
    Array(Vec<Reply>),
    /// The server refused this command.
    Error(ServerError),
}

/// A server's refusal: `-CODE detail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerError {
    /// The first word, for example `NOPERM`, `WRONGTYPE`, `LOADING`, `ERR`.
    pub code: Vec<u8>,
    /// The rest of the line.
    pub detail: Vec<u8>,
}

impl Reply {
    /// The bytes of a string reply.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The items of a list reply.
    pub fn as_array(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(items) => Some(items),
            _ => None,
        }
    }

    /// An integer, given as such or as decimal text.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Reply::Int(value) => Some(*value),
            Reply::Bytes(bytes) => core::str::from_utf8(bytes).ok()?.parse().ok(),
            _ => None,
        }
    }
}
