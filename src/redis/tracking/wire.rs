//! RESP3 as far as a tracking connection brings it, item by item, without copying and without
//! keeping anything.

/// Bytes that are taken at once.
pub(super) const BUFFER_BYTES: usize = 64 << 10;
/// Longest string that is looked at; a longer one is skipped. No configured key is longer.
const STRING_BYTES: u64 = 1_024;
/// Longest line: a status, an error, a number, a length.
const LINE_BYTES: usize = 16 << 10;
/// Deepest nesting.
const DEPTH: usize = 8;

/// Something whole that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// A key changed; one that is too long to be ours is shown empty.
    Changed(&'a [u8]),
    /// Any key may have changed.
    AllChanged,
    /// The subscription is confirmed.
    Subscribed,
    /// `+PONG`.
    Pong,
    /// A refusal, without the sign in front.
    Error(&'a [u8]),
    /// Any other reply.
    Reply,
}

/// Follows the structure of what comes through any cutting of the bytes.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// Items still to come of each aggregate that is open.
    open: Vec<u64>,
    /// What the outermost aggregate is, if that is known already.
    push: Push,
    /// Bytes to skip of a string that is too long, while one is read.
    skip: Option<u64>,
}

/// What kind of push is being read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Push {
    /// None: it is a reply.
    #[default]
    None,
    /// Its kind comes next.
    Unnamed,
    /// `invalidate`.
    Invalidate,
    /// `subscribe`.
    Subscribe,
    /// Any other one.
    Other,
}

impl Scanner {
    /// Shows the whole items in `bytes` to `each`; gives how many bytes are done with, `None` if
    /// this is not RESP3.
    pub(super) fn scan(&mut self, bytes: &[u8], mut each: impl FnMut(Item<'_>)) -> Option<usize> {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..)?;
            if let Some(skip) = &mut self.skip {
                let skipped = rest.len().min(usize::try_from(*skip).unwrap_or(usize::MAX));
                *skip -= skipped as u64;
                at += skipped;
                let Some(end) = rest.get(skipped..skipped + 2) else { return Some(at) };
                if end != b"\r\n" {
                    return None;
                }
                at += end.len();
                self.skip = None;
                self.string(b"", &mut each);
                continue;
            }
            let Some(end) = rest.iter().take(LINE_BYTES).position(|byte| *byte == b'\n') else {
                return (rest.len() < LINE_BYTES).then_some(at);
            };
            let line = rest.get(..end)?.strip_suffix(b"\r")?;
            let (kind, text) = line.split_first()?;
            let used = end + 1;
            match kind {
                b'$' | b'=' | b'!' => match length(text)? {
                    None => self.null(&mut each),
                    Some(length) if length > STRING_BYTES => self.skip = Some(length),
                    Some(length) => {
                        let whole = usize::try_from(length).ok()?;
                        let Some(string) = rest.get(used..used + whole + 2) else {
                            return Some(at);
                        };
                        let string = string.strip_suffix(b"\r\n")?;
                        if *kind == b'!' {
                            self.error(string, &mut each)
                        } else {
                            self.string(string, &mut each)
                        }
                        at += whole + 2;
                    }
                },
                b'*' | b'~' | b'>' | b'%' => {
                    let items = length(text)?;
                    let is_push = *kind == b'>';
                    if is_push && !self.open.is_empty() {
                        return None;
                    }
                    match items {
                        None => self.null(&mut each),
                        Some(0) if !is_push => self.done(&mut each),
                        Some(items) => {
                            let items = if *kind == b'%' { items.checked_mul(2)? } else { items };
                            if self.open.len() >= DEPTH || items == 0 {
                                return None;
                            }
                            if is_push {
                                self.push = Push::Unnamed;
                            }
                            self.open.push(items);
                        }
                    }
                }
                b'_' => self.null(&mut each),
                b'-' => self.error(text, &mut each),
                b'+' if self.open.is_empty() && text == b"PONG" => each(Item::Pong),
                b'+' | b':' | b'#' | b',' | b'(' => self.done(&mut each),
                _ => return None,
            }
            at += used;
        }
    }

    fn string(&mut self, string: &[u8], each: &mut impl FnMut(Item<'_>)) {
        match (self.push, self.open.len()) {
            (Push::Unnamed, 1) => {
                self.push = match string {
                    b"invalidate" => Push::Invalidate,
                    b"subscribe" => Push::Subscribe,
                    _ => Push::Other,
                };
            }
            (Push::Invalidate, 2) => each(Item::Changed(string)),
            _ => {}
        }
        self.done(each);
    }

    fn null(&mut self, each: &mut impl FnMut(Item<'_>)) {
        if (self.push, self.open.len()) == (Push::Invalidate, 1) {
            each(Item::AllChanged);
        }
        self.done(each);
    }

    fn error(&mut self, line: &[u8], each: &mut impl FnMut(Item<'_>)) {
        if self.open.is_empty() { each(Item::Error(line)) } else { self.done(each) }
    }

    /// An item is complete, and with it perhaps the aggregates around it.
    fn done(&mut self, each: &mut impl FnMut(Item<'_>)) {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return;
            }
            self.open.pop();
        }
        match std::mem::take(&mut self.push) {
            Push::None => each(Item::Reply),
            Push::Subscribe => each(Item::Subscribed),
            Push::Unnamed | Push::Invalidate | Push::Other => {}
        }
    }
}

/// A length: `Some(None)` is -1, which says that there is no value; `None`: this is no length.
fn length(text: &[u8]) -> Option<Option<u64>> {
    if text == b"-1" {
        return Some(None);
    }
    let digits = (1..=18).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    digits
        .then(|| text.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
        .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `bytes` in pieces of `cut`, as a connection does; gives what is seen, a word each.
    /// `None`: it is refused.
    fn see(bytes: &[u8], cut: usize) -> Option<Vec<String>> {
        let (mut scanner, mut buffer, mut seen) = (Scanner::default(), Vec::new(), Vec::new());
        for piece in bytes.chunks(cut) {
            buffer.extend_from_slice(piece);
            let used = scanner.scan(&buffer, |item| {
                seen.push(match item {
                    Item::Changed(key) => format!("key {}", key.escape_ascii()),
                    Item::Error(line) => format!("error {}", line.escape_ascii()),
                    other => format!("{other:?}"),
                });
            })?;
            buffer.drain(..used);
            assert!(buffer.len() <= BUFFER_BYTES);
        }
        Some(seen)
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
    fn keys_are_found_however_the_bytes_are_cut() {
        let hello = b"+OK\r\n%2\r\n$5\r\nproto\r\n:3\r\n$7\r\nmodules\r\n*0\r\n+OK\r\n";
        let subscribed = b">3\r\n$9\r\nsubscribe\r\n$18\r\nlockwatch:wake-ups\r\n:1\r\n";
        let null = b">2\r\n$10\r\ninvalidate\r\n_\r\n";
        let long = vec![b'x'; 3_000];
        let bytes = [
            hello.as_slice(),
            subscribed,
            b"+PONG\r\n",
            &invalidate(&[b"a", b"", b"b\r\n\xff"]),
            null,
            &invalidate(&[&long, b"c"]),
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
            "key ",
            "key c",
            "error NOPERM no",
            "Pong",
        ];
        for cut in [1, 2, 3, 7, 64, 10_000] {
            assert_eq!(see(&bytes, cut).unwrap(), expected, "pieces of {cut}");
        }
    }

    #[test]
    fn what_is_not_resp3_is_refused() {
        let deep = "*1\r\n".repeat(20);
        for strange in [
            "HTTP/1.1 400 Bad Request\r\n",
            "$x\r\n",
            "*-2\r\n",
            "$3\r\nabcd\r\n",
            "\r\n",
            "+OK\n",
            &deep,
        ] {
            for cut in [1, 1_000] {
                assert_eq!(see(strange.as_bytes(), cut), None, "{strange:?}");
            }
        }
        assert_eq!(see(&[b'+'; 20_000], 1_000), None, "a line without an end");
        assert_eq!(see(b"*1\r\n>1\r\n", 100), None, "a push within a reply");
        assert_eq!(see(b"$99999999999999999999\r\n", 100), None);
        let longer = format!("$2000\r\n{}\r\n", "x".repeat(2_001));
        for cut in [1, 1_000, 10_000] {
            assert_eq!(see(longer.as_bytes(), cut), None, "a string that is longer than it says");
        }
    }

    #[test]
    fn random_bytes_never_panic_and_are_never_kept() {
        let mut random = fastrand::Rng::with_seed(11);
        let words: [&[u8]; 12] = [
            b">2\r\n",
            b"$10\r\ninvalidate\r\n",
            b"*2\r\n",
            b"$1\r\na\r\n",
            b"_\r\n",
            b"+PONG\r\n",
            b"-ERR\r\n",
            b"%1\r\n",
            b":1\r\n",
            b"$2000\r\n",
            b"\xff",
            b"*0\r\n",
        ];
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (0..random.usize(1..12))
                .flat_map(|_| words[random.usize(..words.len())].to_vec())
                .collect();
            assert_eq!(see(&bytes, 1), see(&bytes, 1_000), "{}", bytes.escape_ascii());
        }
    }
}
