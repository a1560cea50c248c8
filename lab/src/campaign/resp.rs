//! A minimal blocking Redis client over a Unix socket for the witness. It shares no code with the
//! program under test.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Int(i64),
    Text(Vec<u8>),
    Nil,
    List(Vec<Value>),
    Error(String),
}

/// A connection.
#[derive(Debug)]
pub(super) struct Socket {
    stream: BufReader<UnixStream>,
}

impl Socket {
    pub(super) fn connect(path: &Path) -> Result<Socket> {
        Ok(Socket::over(UnixStream::connect(path)?))
    }

    pub(super) fn over(stream: UnixStream) -> Socket {
        Socket { stream: BufReader::with_capacity(64 * 1024, stream) }
    }

    /// Sends encoded commands.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Reads the next reply.
    pub(super) fn reply(&mut self) -> Result<Value> {
        let mut line = Vec::with_capacity(32);
        self.stream.read_until(b'\n', &mut line)?;
        let broken = || Error::new(ErrorKind::InvalidData, "not a reply");
        let Some((kind, rest)) = line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) else {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the connection ended"));
        };
        let text = std::str::from_utf8(rest).map_err(|_| broken())?;
        let number = || text.parse::<i64>().map_err(|_| broken());
        Ok(match kind {
            b'+' => Value::Text(rest.to_vec()),
            b'-' => Value::Error(text.to_owned()),
            b':' => Value::Int(number()?),
            b'$' => match usize::try_from(number()?) {
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.stream.read_exact(&mut bytes)?;
                    bytes.truncate(length);
                    Value::Text(bytes)
                }
                Err(_) => Value::Nil,
            },
            b'*' => match usize::try_from(number()?) {
                Ok(length) => {
                    Value::List((0..length).map(|_| self.reply()).collect::<Result<_>>()?)
                }
                Err(_) => Value::Nil,
            },
            _ => return Err(broken()),
        })
    }

    /// Sends one command and reads its reply.
    pub(super) fn ask(&mut self, words: &[&str]) -> Result<Value> {
        let mut bytes = Vec::new();
        encode(&mut bytes, words);
        self.send(&bytes)?;
        self.reply()
    }
}

/// Appends an encoded command.
pub(super) fn encode(bytes: &mut Vec<u8>, words: &[&str]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

impl Value {
    /// The bytes of a text reply, else `None`.
    pub(super) fn text(&self) -> Option<&[u8]> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self) -> &[Value] {
        match self {
            Value::List(values) => values,
            _ => &[],
        }
    }
}
