//! An independent implementation of Redis' protocol, to compare the product's parser with.

use lockwatch_watch::redis::reply::{Reply, ServerError};

/// Maximum nesting depth.
const DEPTH: usize = 12;

/// The first complete reply, parsed strictly, and the rest.
pub(crate) fn strict(bytes: &[u8]) -> Option<(Reply, &[u8])> {
    item(bytes, DEPTH)
}

/// Makes replies of arbitrary bytes: what is not a reply is a string up to the next line end.
pub(crate) fn lenient(mut bytes: &[u8]) -> Vec<Reply> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let (reply, rest) = strict(bytes).unwrap_or_else(|| {
            let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap_or(bytes.len());
            (Reply::Bytes(bytes[..end].to_vec()), bytes.get(end + 2..).unwrap_or_default())
        });
        replies.push(reply);
        bytes = rest;
    }
    replies
}

fn item(bytes: &[u8], depth: usize) -> Option<(Reply, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let (line, rest) = (&rest[..end], &rest[end + 2..]);
    match kind {
        b'+' => Some((Reply::Bytes(line.to_vec()), rest)),
        b'-' => {
            let blank = line.iter().position(|byte| *byte == b' ');
            let (code, detail) =
                blank.map_or((line, &b""[..]), |at| (&line[..at], &line[at + 1..]));
            Some((Reply::Error(ServerError { code: code.to_vec(), detail: detail.to_vec() }), rest))
        }
        b':' => Some((Reply::Int(number(line)?), rest)),
        b'$' => match number(line)? {
            -1 => Some((Reply::Nil, rest)),
            length => {
                let (body, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                Some((Reply::Bytes(body.to_vec()), rest.strip_prefix(b"\r\n")?))
            }
        },
        b'*' => match number(line)? {
            -1 => Some((Reply::Nil, rest)),
            length => {
                let depth = depth.checked_sub(1)?;
                let (mut items, mut rest) = (Vec::new(), rest);
                for _ in 0..usize::try_from(length).ok()? {
                    let (next, after) = item(rest, depth)?;
                    items.push(next);
                    rest = after;
                }
                Some((Reply::Array(items), rest))
            }
        },
        _ => None,
    }
}

fn number(line: &[u8]) -> Option<i64> {
    if line.first() == Some(&b'+') {
        return None;
    }
    std::str::from_utf8(line).ok()?.parse().ok()
}

/// Writes `reply` as bytes.
pub(crate) fn write(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Nil => out.extend_from_slice(b"$-1\r\n"),
        Reply::Int(number) => out.extend_from_slice(format!(":{number}\r\n").as_bytes()),
        Reply::Bytes(bytes) => {
            out.extend_from_slice(format!("${}\r\n", bytes.len()).as_bytes());
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
        Reply::Array(items) => {
            out.extend_from_slice(format!("*{}\r\n", items.len()).as_bytes());
            items.iter().for_each(|item| write(item, out));
        }
        Reply::Error(error) => {
            out.push(b'-');
            out.extend_from_slice(&error.code);
            out.push(b' ');
            out.extend_from_slice(&error.detail);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// The words of the first complete command of a client, and its length in bytes.
pub(crate) fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let (reply, rest) = strict(bytes)?;
    let words =
        reply.as_array()?.iter().map(|word| word.as_bytes().unwrap_or_default().to_vec()).collect();
    Some((words, bytes.len() - rest.len()))
}
