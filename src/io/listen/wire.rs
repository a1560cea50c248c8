//! Parses the data of a tracking connection item by item, in bounded memory.

use std::fmt;
use std::io::{self, Read};

use lockwatch_judge::reading::Unknown;
use redis::{Parser, PushKind, Value};

use lockwatch_watch::redis::driver::Failure;

/// Size of the read buffer in bytes.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// Maximum size of one item in bytes: about 20,000 keys that change at once. The parser buffers an
/// item until it is complete.
const ITEM_BYTES: usize = 512 << 10;
/// Size of the shortest announcement in bytes: that any key may have changed. Data with more items
/// than announcements of this size is a flood of something else. It is dropped before it costs
/// time: to parse a few bytes costs as much as to parse an announcement.
const SHORTEST_BYTES: usize = b">2\r\n$10\r\ninvalidate\r\n_\r\n".len();
/// So many items may be shorter, as answers are.
const SHORTER_ITEMS: usize = 64;

/// A complete item.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    /// These keys changed.
    Changed(Vec<Value>),
    /// Any key may have changed.
    AllChanged,
    /// The subscription is confirmed.
    Subscribed,
    /// A push of any other kind.
    Other,
    /// `+PONG`.
    Pong,
    /// A refusal.
    Error(redis::ServerError),
    /// Any other reply, also a message on a channel (RESP2).
    Reply(Value),
}

/// Finds items across arbitrary read boundaries.
#[derive(Default)]
pub(super) struct Scanner {
    parser: Parser,
    /// Bytes since the newest complete item.
    open_bytes: usize,
}

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner").field("open_bytes", &self.open_bytes).finish_non_exhaustive()
    }
}

impl Scanner {
    /// Consumes all of `bytes`, and passes each complete item to `each`.
    pub(super) fn scan(&mut self, bytes: &[u8], mut each: impl FnMut(Item)) -> Result<(), Failure> {
        let mut come = Come { left: bytes, is_over: false };
        self.open_bytes += bytes.len();
        let mut items_left = SHORTER_ITEMS + bytes.len() / SHORTEST_BYTES;
        loop {
            match self.parser.parse_value(&mut come) {
                Ok(_) if items_left == 0 => {
                    let what = "more answers than questions";
                    return Err(Failure::new(Unknown::TooLarge, what));
                }
                Ok(value) => {
                    items_left -= 1;
                    self.open_bytes = come.left.len();
                    each(item(value));
                }
                Err(_) if !come.is_over => {
                    let what = "the peer does not speak RESP3";
                    return Err(Failure::new(Unknown::Protocol, what));
                }
                Err(_) if self.open_bytes > ITEM_BYTES => {
                    let what = format_args!("more than {ITEM_BYTES} bytes at once");
                    return Err(Failure::new(Unknown::TooLarge, what));
                }
                Err(_) => return Ok(()),
            }
        }
    }
}

/// The received bytes. Reaching their end is not the end of the stream.
struct Come<'a> {
    left: &'a [u8],
    /// The parser wanted more bytes.
    is_over: bool,
}

impl Read for Come<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_over = self.left.is_empty();
        if self.is_over { Err(io::ErrorKind::WouldBlock.into()) } else { self.left.read(buffer) }
    }
}

fn item(value: Value) -> Item {
    match value {
        Value::Push { kind: PushKind::Invalidate, mut data } => match data.pop() {
            Some(Value::Array(keys)) => Item::Changed(keys),
            Some(Value::Nil) => Item::AllChanged,
            _ => Item::Other,
        },
        Value::Push { kind: PushKind::Subscribe, .. } => Item::Subscribed,
        Value::Push { .. } => Item::Other,
        Value::SimpleString(text) if text == "PONG" => Item::Pong,
        Value::ServerError(error) => Item::Error(error),
        other => Item::Reply(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of `cut`, as a connection does; returns one word for each item.
    fn see(bytes: &[u8], cut: usize) -> Result<Vec<String>, Unknown> {
        let (mut scanner, mut seen) = (Scanner::default(), Vec::new());
        for piece in bytes.chunks(cut) {
            let scanned = scanner.scan(piece, |item| match item {
                Item::Changed(keys) => seen.extend(keys.iter().map(|key| match key {
                    Value::BulkString(key) => format!("key {}", key.escape_ascii()),
                    other => format!("{other:?}"),
                })),
                Item::Error(error) => seen.push(format!("error {}", error.code())),
                Item::Reply(_) => seen.push(String::from("Reply")),
                other => seen.push(format!("{other:?}")),
            });
            scanned.map_err(|failure| failure.why)?;
        }
        Ok(seen)
    }

    fn invalidate(keys: &[&[u8]]) -> Vec<u8> {
        let mut bytes = format!(">2\r\n$10\r\ninvalidate\r\n*{}\r\n", keys.len()).into_bytes();
        for key in keys {
            bytes.extend(format!("${}\r\n", key.len()).into_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }

    #[test]
    fn a_flood_of_short_answers_is_too_large() {
        let sparse = b"+PONG\r\n".repeat(SHORTER_ITEMS);
        assert_eq!(see(&sparse, sparse.len()).unwrap().len(), SHORTER_ITEMS);
        for answer in [b"+PONG\r\n".as_slice(), b":1\r\n", b"+OK\r\n", b"_\r\n"] {
            let flood = answer.repeat(BUFFER_BYTES / answer.len());
            assert_eq!(see(&flood, flood.len()).unwrap_err(), Unknown::TooLarge);
        }
        for change in [b">2\r\n$10\r\ninvalidate\r\n_\r\n".to_vec(), invalidate(&[b"k"])] {
            let all = change.repeat(BUFFER_BYTES / change.len());
            assert_eq!(see(&all, all.len()).unwrap().len(), BUFFER_BYTES / change.len());
        }
    }

    #[test]
    fn keys_are_found_however_the_bytes_are_cut() {
        let hello = b"+OK\r\n%2\r\n$5\r\nproto\r\n:3\r\n$7\r\nmodules\r\n*0\r\n+OK\r\n";
        let subscribed = b">3\r\n$9\r\nsubscribe\r\n$18\r\nlockwatch:wake-ups\r\n:1\r\n";
        let null = b">2\r\n$10\r\ninvalidate\r\n_\r\n";
        let bytes = [
            hello.as_slice(),
            subscribed,
            b"+PONG\r\n",
            &invalidate(&[b"a", b"", b"b\r\n\xff"]),
            null,
            b"-NOPERM no\r\n",
            &invalidate(&[]),
            b">2\r\n$7\r\nmessage\r\n$1\r\na\r\n",
            b"+PONG\r\n",
        ]
        .concat();
        let expected = [
            "Reply",
            "Reply",
            "Reply",
            "Subscribed",
            "Pong",
            "key a",
            "key ",
            "key b\\r\\n\\xff",
            "AllChanged",
            "error NOPERM",
            "Other",
            "Pong",
        ];
        for cut in [1, 2, 3, 7, 64, 10_000] {
            assert_eq!(see(&bytes, cut).unwrap(), expected, "pieces of {cut}");
        }
    }

    #[test]
    fn what_is_not_resp3_is_refused() {
        for strange in ["HTTP/1.1 400 Bad Request\r\n", "$x\r\n", "$3\r\nabcd\r\n", "\r\n"] {
            for cut in [2, 1_000] {
                assert_eq!(see(strange.as_bytes(), cut), Err(Unknown::Protocol), "{strange:?}");
            }
        }
    }

    #[test]
    fn what_does_not_end_is_not_kept() {
        let long = [b'x'; ITEM_BYTES];
        let list = b">2\r\n$10\r\ninvalidate\r\n*999999999999\r\n$999999999\r\n";
        for begun in [b"+".as_slice(), b"$99999999999999999\r\n", list] {
            let bytes = [begun, &long, b"x"].concat();
            let seen = see(&bytes, BUFFER_BYTES);
            assert!(seen == Err(Unknown::TooLarge), "{}", begun.escape_ascii());
        }
        let keys = vec![b"key".as_slice(); ITEM_BYTES / 4];
        assert!(see(&invalidate(&keys), BUFFER_BYTES) == Err(Unknown::TooLarge));
        let many = invalidate(&keys[..ITEM_BYTES / 10]).repeat(3);
        assert_eq!(see(&many, BUFFER_BYTES).unwrap().len(), 3 * (ITEM_BYTES / 10));
    }
}
