//! Limits what a server may send: a filter between the socket and the redis crate's parser.
//!
//! The crate's parser allocates as much as the peer sends, drops unsolicited replies, accepts
//! RESP3, and loses its place over an error line that is not UTF-8. Behind this filter it sees only
//! well-formed, solicited RESP2 replies of bounded size. Anything else ends the connection, and the
//! reason is kept.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Maximum length of a line (status, error, integer or length) in bytes.
const LINE_BYTES: u32 = 64 << 10;
/// Maximum length of a bulk string in bytes.
const BULK_BYTES: u64 = 1 << 20;
/// Maximum number of items in one array.
const ARRAY_ITEMS: u64 = 65_536;
/// Maximum nesting depth of arrays.
const DEPTH: usize = 8;
/// Maximum size of the replies to one batch in bytes, plus [`ITEM_BYTES`] for each item. It bounds
/// what a server can make the agent allocate.
const BATCH_BYTES: u64 = 32 << 20;
/// Memory overhead of an item in bytes, besides its content.
const ITEM_BYTES: u64 = 64;
/// How much is kept of what is not Redis' protocol, in bytes.
const ODDITY_BYTES: usize = 60;

/// Why the filter ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The data is not RESP2.
    NotRedis,
    /// An unsolicited reply.
    Unasked,
    /// A reply that exceeds the limits.
    TooLarge,
    /// The peer closed the connection, or it broke.
    Closed,
}

/// Shared by the two halves of a connection: how many replies are expected, and what failed.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// The number of replies expected for each batch.
    batches: Mutex<VecDeque<usize>>,
    fault: OnceLock<Fault>,
    /// How what is not Redis' protocol begins.
    oddity: OnceLock<String>,
    /// Number of replies that the oldest unfinished batch still lacks; 0: all of them, or there is
    /// no such batch.
    lacking: AtomicUsize,
}

impl Ledger {
    /// Registers a batch; call it before the batch is sent.
    pub(super) fn expect(&self, replies: usize) {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).push_back(replies);
    }

    /// What ended the connection.
    pub(super) fn fault(&self) -> Option<Fault> {
        self.fault.get().copied()
    }

    /// How what is not Redis' protocol begins: hostile text that may repeat what was sent.
    pub(super) fn oddity(&self) -> Option<&str> {
        self.oddity.get().map(String::as_str)
    }

    /// Which of the `count` commands of the oldest unfinished batch is the first without a reply.
    pub(super) fn first_unanswered(&self, count: usize) -> usize {
        match self.lacking.load(Ordering::Relaxed) {
            0 => 0,
            lacking => count.saturating_sub(lacking),
        }
    }

    fn next_batch(&self) -> Option<usize> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// A stream that filters what it receives.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    stream: S,
    scanner: Scanner,
    ledger: Arc<Ledger>,
}

impl<S> Guarded<S> {
    pub(super) fn new(stream: S, ledger: Arc<Ledger>) -> Guarded<S> {
        Guarded { stream, scanner: Scanner::default(), ledger }
    }

    /// Number of complete replies so far, and their size in bytes.
    pub(super) fn passed(&self) -> (usize, usize) {
        (self.scanner.replies, self.scanner.reply_end)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.ledger.fault().is_some_and(|fault| fault != Fault::Closed) {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        let (before, seen) = (buf.filled().len(), this.scanner.bytes);
        let read = ready!(Pin::new(&mut this.stream).poll_read(cx, buf));
        let fresh = buf.filled_mut().get_mut(before..).unwrap_or_default();
        if read.is_err() || fresh.is_empty() {
            this.ledger.fault.get_or_init(|| Fault::Closed);
            return Poll::Ready(read);
        }
        let fed = this.scanner.feed(fresh, &this.ledger);
        this.ledger.lacking.store(this.scanner.batch_left, Ordering::Relaxed);
        let Err(fault) = fed else { return Poll::Ready(Ok(())) };
        this.ledger.fault.get_or_init(|| fault);
        // The complete replies before the fault are still valid.
        let whole = this.scanner.reply_end.saturating_sub(seen);
        if fault == Fault::NotRedis {
            let rest = fresh.get(whole..).unwrap_or_default();
            this.ledger.oddity.get_or_init(|| beginning(rest));
        }
        buf.set_filled(before + whole);
        match whole {
            0 => Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The beginning of the first line, in printable characters.
fn beginning(bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\r' || *byte == b'\n').next().unwrap_or_default();
    line.iter().take(ODDITY_BYTES).map(|byte| char::from(*byte)).map(shown).collect()
}

fn shown(character: char) -> char {
    if character == ' ' || character.is_ascii_graphic() { character } else { '?' }
}

/// Tracks the structure of replies across arbitrary read boundaries, without buffering.
#[derive(Debug, Default)]
struct Scanner {
    state: State,
    /// Remaining items of each open array.
    open: Vec<u64>,
    /// Remaining replies of the current batch.
    batch_left: usize,
    /// Size of the current batch so far, in bytes.
    batch_bytes: u64,
    /// Number of complete replies so far.
    replies: usize,
    /// Number of bytes so far.
    bytes: usize,
    /// Offset of the end of the newest complete reply.
    reply_end: usize,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    /// The next byte is the type of an item.
    #[default]
    Start,
    /// Inside a status or an error.
    Text { length: u32, carriage: bool },
    /// Inside a number.
    Number { use_as: NumberUse, negative: bool, value: Option<u64>, carriage: bool },
    /// Inside a bulk string, including its line end.
    Body { left: u64 },
}

/// What a number means.
#[derive(Clone, Copy, Debug)]
enum NumberUse {
    Integer,
    BulkLength,
    ArrayLength,
}

impl Scanner {
    fn feed(&mut self, bytes: &mut [u8], ledger: &Ledger) -> Result<(), Fault> {
        let mut at = 0;
        while let Some(byte) = bytes.get_mut(at) {
            let step = match self.state {
                // The content of a bulk string is skipped at once, without its line end.
                State::Body { left } if left > 2 => {
                    let skip = (left - 2).min((bytes.len() - at) as u64);
                    self.state = State::Body { left: left - skip };
                    usize::try_from(skip).unwrap_or(usize::MAX)
                }
                _ => {
                    self.byte(byte, ledger)?;
                    1
                }
            };
            at += step;
            self.bytes += step;
            self.batch_bytes += step as u64;
            if matches!(self.state, State::Start) && self.open.is_empty() {
                self.reply_end = self.bytes;
            }
        }
        if self.batch_bytes > BATCH_BYTES { Err(Fault::TooLarge) } else { Ok(()) }
    }

    fn byte(&mut self, byte: &mut u8, ledger: &Ledger) -> Result<(), Fault> {
        match self.state {
            State::Start => self.start(*byte, ledger)?,
            State::Text { length, .. } if length >= LINE_BYTES => return Err(Fault::TooLarge),
            State::Text { carriage: true, .. } if *byte == b'\n' => self.item_done(),
            State::Text { length, .. } => {
                if !byte.is_ascii() {
                    *byte = b'?'; // The crate insists on UTF-8 here.
                }
                self.state = State::Text { length: length + 1, carriage: *byte == b'\r' };
            }
            State::Number { use_as, negative, value: Some(value), carriage: true }
                if *byte == b'\n' =>
            {
                self.number_done(use_as, negative, value)?;
            }
            State::Number { use_as, negative, value, carriage: false } => {
                self.state = number_byte(*byte, use_as, negative, value)?;
            }
            State::Body { left: 2 } if *byte == b'\r' => self.state = State::Body { left: 1 },
            State::Body { left: 1 } if *byte == b'\n' => self.item_done(),
            State::Number { .. } | State::Body { .. } => return Err(Fault::NotRedis),
        }
        Ok(())
    }

    /// Handles the first byte of an item.
    fn start(&mut self, byte: u8, ledger: &Ledger) -> Result<(), Fault> {
        let number =
            |use_as| State::Number { use_as, negative: false, value: None, carriage: false };
        self.state = match byte {
            b'+' | b'-' => State::Text { length: 0, carriage: false },
            b':' => number(NumberUse::Integer),
            b'$' => number(NumberUse::BulkLength),
            b'*' => number(NumberUse::ArrayLength),
            _ => return Err(Fault::NotRedis),
        };
        if self.open.is_empty() {
            while self.batch_left == 0 {
                self.batch_left = ledger.next_batch().ok_or(Fault::Unasked)?;
                self.batch_bytes = 0;
            }
        }
        self.batch_bytes += ITEM_BYTES;
        Ok(())
    }

    fn number_done(&mut self, use_as: NumberUse, negative: bool, value: u64) -> Result<(), Fault> {
        match use_as {
            NumberUse::Integer => self.item_done(),
            // A length of -1 is a null value.
            NumberUse::BulkLength | NumberUse::ArrayLength if negative => match value {
                1 => self.item_done(),
                _ => return Err(Fault::NotRedis),
            },
            NumberUse::BulkLength if value > BULK_BYTES => return Err(Fault::TooLarge),
            NumberUse::BulkLength => self.state = State::Body { left: value + 2 },
            NumberUse::ArrayLength if value > ARRAY_ITEMS || self.open.len() >= DEPTH => {
                return Err(Fault::TooLarge);
            }
            NumberUse::ArrayLength if value == 0 => self.item_done(),
            NumberUse::ArrayLength => {
                self.open.push(value);
                self.state = State::Start;
            }
        }
        Ok(())
    }

    /// Completes an item, and the arrays that it completes.
    fn item_done(&mut self) {
        self.state = State::Start;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
        self.replies += 1;
        self.batch_left = self.batch_left.saturating_sub(1);
    }
}

/// Handles the next byte of a number, up to the carriage return.
fn number_byte(
    byte: u8,
    use_as: NumberUse,
    negative: bool,
    value: Option<u64>,
) -> Result<State, Fault> {
    let limit = i64::MAX as u64;
    match (byte, value) {
        (b'-', None) if !negative => {
            Ok(State::Number { use_as, negative: true, value, carriage: false })
        }
        (b'0'..=b'9', _) => {
            let digit = u64::from(byte - b'0');
            let longer =
                value.unwrap_or(0).checked_mul(10).and_then(|tens| tens.checked_add(digit));
            let longer = longer
                .filter(|value| *value <= limit + u64::from(negative))
                .ok_or(Fault::NotRedis)?;
            Ok(State::Number { use_as, negative, value: Some(longer), carriage: false })
        }
        (b'\r', Some(_)) => Ok(State::Number { use_as, negative, value, carriage: true }),
        _ => Err(Fault::NotRedis),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of `cut` with `expected` replies registered; returns how much
    /// passed, and the result.
    fn scan(bytes: &[u8], cut: usize, expected: usize) -> Result<(usize, usize), Fault> {
        let (mut scanner, ledger) = (Scanner::default(), Ledger::default());
        ledger.expect(expected);
        for piece in bytes.to_vec().chunks_mut(cut) {
            scanner.feed(piece, &ledger)?;
        }
        Ok((scanner.replies, scanner.reply_end))
    }

    #[test]
    fn replies_are_counted_however_they_are_cut() {
        let _rule = crate::truth::rule("3 connection");
        let bytes = b"+OK\r\n:-12\r\n$5\r\na\r\nbc\r\n$-1\r\n*-1\r\n*2\r\n*1\r\n$0\r\n\r\n:1\r\n\
            *0\r\n-ERR no\r\n";
        for cut in [1, 2, 3, 7, 1_000] {
            assert_eq!(scan(bytes, cut, 8), Ok((8, bytes.len())), "pieces of {cut}");
        }
    }

    #[test]
    fn an_unfinished_reply_does_not_count() {
        for unfinished in ["$5\r\nabc", "*2\r\n:1\r\n", "+OK\r", ":1"] {
            assert_eq!(
                scan(format!(":1\r\n{unfinished}").as_bytes(), 1, 2),
                Ok((1, 4)),
                "{unfinished:?}"
            );
        }
    }

    #[test]
    fn what_is_not_resp2_is_refused() {
        let _rule = crate::truth::rule("3 connection");
        let strange: [&[u8]; 14] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"\x15\x03\x01\x00\x02\x02\x46",
            b"SSH-2.0-OpenSSH_9.2\r\n",
            b"%1\r\n+a\r\n+b\r\n",
            b">2\r\n+invalidate\r\n*0\r\n",
            b"|1\r\n+a\r\n+b\r\n+c\r\n",
            b":\r\n",
            b":1\n",
            b":--1\r\n",
            b":9223372036854775808\r\n",
            b"$-2\r\n",
            b"*-5\r\n",
            b"$3\r\nabcd\r\n",
            b"$99999999999999999999999\r\n",
        ];
        for bytes in strange {
            for cut in [1, 1_000] {
                assert_eq!(scan(bytes, cut, 9), Err(Fault::NotRedis), "{}", bytes.escape_ascii());
            }
        }
    }

    #[test]
    fn what_nobody_asked_for_is_refused() {
        let _rule = crate::truth::rule("3 connection");
        assert_eq!(scan(b"+OK\r\n+OK\r\n", 3, 1), Err(Fault::Unasked));
        assert_eq!(scan(b"-ERR max number of clients reached\r\n", 3, 0), Err(Fault::Unasked));
    }

    #[test]
    fn what_is_too_large_is_refused_before_it_comes() {
        let huge: [&[u8]; 4] = [
            b"$9223372036854775807\r\n",
            b"*9223372036854775807\r\n",
            b"*65537\r\n",
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
        ];
        for bytes in huge {
            assert_eq!(scan(bytes, 1, 1), Err(Fault::TooLarge), "{}", bytes.escape_ascii());
        }
        assert_eq!(
            scan(&[b"+".as_slice(), &[b'x'; 70_000]].concat(), 4_096, 1),
            Err(Fault::TooLarge)
        );
    }

    #[test]
    fn a_batch_is_bounded_as_a_whole_and_the_next_one_counts_anew() {
        let bulk = [b"$1048576\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
        assert!(scan(&bulk.repeat(31), 65_536, 31).is_ok());
        assert_eq!(scan(&bulk.repeat(33), 65_536, 33), Err(Fault::TooLarge));
        assert_eq!(
            scan(&b":1\r\n".repeat(600_000), 65_536, 600_000),
            Err(Fault::TooLarge),
            "items cost too"
        );
        let (mut scanner, ledger) = (Scanner::default(), Ledger::default());
        for _ in 0..3 {
            ledger.expect(20);
            scanner.feed(&mut bulk.repeat(20), &ledger).unwrap();
        }
    }

    #[tokio::test]
    async fn whole_replies_before_a_fault_still_pass() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let (near, mut far) = tokio::io::duplex(1_024);
        let ledger = Arc::new(Ledger::default());
        ledger.expect(2);
        let mut guarded = Guarded::new(near, Arc::clone(&ledger));
        far.write_all(b"+OK\r\n*2\r\n:1\r\n$9999999999\r\n").await.unwrap();
        let mut passed = Vec::new();
        let ended = guarded.read_to_end(&mut passed).await;
        assert_eq!(
            (passed.as_slice(), ended.is_err(), ledger.fault()),
            (&b"+OK\r\n"[..], true, Some(Fault::TooLarge))
        );
    }

    #[test]
    fn error_lines_become_ascii() {
        let mut bytes = b"-ERR unknown command 'x\xff\xfe'\r\n".to_vec();
        let ledger = Ledger::default();
        ledger.expect(1);
        Scanner::default().feed(&mut bytes, &ledger).unwrap();
        assert_eq!(bytes, b"-ERR unknown command 'x??'\r\n");
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..20_000 {
            let alphabet = b"+-:$*0123456789\r\n\r\n\r\nx\xff";
            let bytes: Vec<u8> = (0..random.usize(1..40))
                .map(|_| alphabet[random.usize(..alphabet.len())])
                .collect();
            let whole = scan(&bytes, 1_000, 3);
            assert_eq!(whole, scan(&bytes, 1, 3), "{}", bytes.escape_ascii());
        }
    }
}
