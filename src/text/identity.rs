//! How untrusted bytes and secrets are shown: readable, harmless in a terminal, and with different
//! texts for different values.

use std::borrow::Cow;

use lockwatch_judge::event::Party;
use lockwatch_judge::input::Generation;
use lockwatch_judge::reading::{Codec, Holder};
use lockwatch_judge::spec::{StoreIndex, TaskSpec, WatchSpec};
use lockwatch_watch::redis::codec::display_text;
use sha2::{Digest, Sha256};

/// Maximum length of shown text in bytes. Longer text is cut.
const SHOWN_BYTES_MAX: usize = 200;
/// Separates a cut text from its digest. It is always escaped in input, so that no uncut text can
/// equal a cut one.
const CUT: char = '…';
/// Hex digits of a digest.
const DIGEST_DIGITS: usize = 8;
/// The same in a name that stands for a key: no two keys may ever have the same name.
const NAME_DIGITS: usize = 32;
/// Separates the beginning of a key from its digest in such a name.
const NAME_CUT: char = '~';
/// Bytes of a generation's fingerprint. A metric is a 64-bit float, which holds 48 bits exactly.
const FINGERPRINT_BYTES: usize = 6;

/// `bytes` as readable text.
///
/// Printable characters stay. A backslash is doubled. Everything else (control and format
/// characters, unusual spaces, invalid UTF-8) becomes one `\xNN` per byte. A result of more than
/// 200 bytes is cut and ends in `…` and eight hex digits of the SHA-256 of all bytes. Different
/// bytes give different texts, within the limits of eight digits.
pub fn escape(bytes: &[u8]) -> Cow<'_, str> {
    if bytes.len() <= SHOWN_BYTES_MAX
        && bytes.iter().fold(true, |plain, byte| plain & matches!(byte, b' '..=b'[' | b']'..=b'~'))
        && let Ok(text) = std::str::from_utf8(bytes)
    {
        return Cow::Borrowed(text);
    }
    let mut text = Escaped::default();
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|character| text.push(character));
        chunk.invalid().iter().for_each(|byte| text.push_byte(*byte));
        if text.is_full() {
            break;
        }
    }
    Cow::Owned(text.finish(bytes))
}

/// The text for a holder in labels, JSON, pages and logs: a secret as its digest, anything else as
/// its escaped bytes, one of whom nothing is known as "somebody". Never includes the thread.
pub fn holder_label(holder: &Holder) -> Cow<'_, str> {
    if !holder.is_identified() {
        return Cow::Borrowed("somebody");
    }
    if holder.secret { Cow::Owned(digest(&holder.client)) } else { escape(&holder.client) }
}

/// The text for a holder with its host and the server that shows it, where these are known.
pub fn party_name(party: &Party) -> Cow<'_, str> {
    let mut name = holder_label(&party.holder);
    for (word, text) in
        [(" on ", party.host.as_deref()), (" at ", party.node.as_deref().map(str::as_bytes))]
    {
        if let Some(text) = text {
            name = Cow::Owned(format!("{name}{word}{}", escape(text)));
        }
    }
    name
}

/// `text` without the credentials of a URL in it: `redis://…@host`.
pub fn without_login(text: &str) -> Cow<'_, str> {
    let start = text.find("://").map(|at| at + "://".len());
    let parts = start.and_then(|start| {
        let (before, rest) = text.split_at_checked(start)?;
        Some((before, rest.rsplit_once('@')?.1))
    });
    parts.map_or(Cow::Borrowed(text), |(before, after)| Cow::Owned(format!("{before}…@{after}")))
}

/// The first `shown_max` names, and the number of further ones.
pub fn list<'a>(names: impl ExactSizeIterator<Item = Cow<'a, str>>, shown_max: usize) -> String {
    let more = names.len().saturating_sub(shown_max);
    let text = names.take(shown_max).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

/// Eight hex digits of the SHA-256 of `bytes`, the same on every agent.
pub fn digest(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(DIGEST_DIGITS);
    push_digest(&mut text, bytes, DIGEST_DIGITS);
    text
}

fn push_digest(text: &mut String, bytes: &[u8], digits: usize) {
    for byte in Sha256::digest(bytes).iter().take(digits / 2) {
        push_hex(text, *byte);
    }
}

/// `key` as part of a name, in at most `room` bytes: itself if it is short, plain text; otherwise what
/// can be shown of its beginning, and a digest. A key that looks like such a name gets a digest as
/// well, so that no two keys share a name. Unlike [`escape`], it has nothing that is escaped again.
pub fn key_name(key: &[u8], room: usize) -> Cow<'_, str> {
    let is_shown = |character: char| character != '\\' && is_plain(character);
    if let Ok(text) = std::str::from_utf8(key)
        && text.len() <= room
        && text.chars().all(is_shown)
        && !ends_in_digest(text)
    {
        return Cow::Borrowed(text);
    }
    let mut name = String::new();
    for character in String::from_utf8_lossy(key).chars() {
        let shown = Some(character).filter(|it| is_shown(*it) && *it != '\u{fffd}').unwrap_or('?');
        if name.len() + shown.len_utf8() + NAME_CUT.len_utf8() + NAME_DIGITS > room {
            break;
        }
        name.push(shown);
    }
    name.push(NAME_CUT);
    push_digest(&mut name, key, NAME_DIGITS);
    Cow::Owned(name)
}

fn ends_in_digest(text: &str) -> bool {
    let is_digit = |character: char| matches!(character, '0'..='9' | 'a'..='f');
    let end = text.rsplit_once(NAME_CUT).map(|(_, end)| end);
    end.is_some_and(|end| end.len() == NAME_DIGITS && end.chars().all(is_digit))
}

/// A user's name as people know it, although a serializer wrote it.
pub fn user_name<'a>(spec: &TaskSpec, user: &'a [u8]) -> Cow<'a, str> {
    match spec.wanted.as_ref().map(|wanted| wanted.codec) {
        None | Some(Codec::Raw) => escape(user),
        Some(codec) => Cow::Owned(escape(&display_text(codec, user)).into_owned()),
    }
}

/// A number below 2⁴⁸ that identifies a generation of the data in one of a server's databases. It is the same on every
/// agent and after an agent's restart. It changes with the server's process, replication history or
/// number of flushes; evictions do not change it.
pub fn fingerprint(generation: &Generation, db: u32) -> u64 {
    let Generation {
        process: run_id,
        history: replication_id,
        forked_from: _,
        flushes,
        slot_flushes,
        evictions: _,
        evicts_only_with_ttl: _,
        started_empty: _,
    } = generation;
    let flushes = flushes.saturating_add(*slot_flushes);
    // Database 0 is left out, as earlier versions left out all: they show the same.
    let db = (db != 0).then(|| db.to_be_bytes());
    let parts = [run_id.to_vec(), replication_id.to_vec(), flushes.to_be_bytes().to_vec()];
    number(parts.into_iter().chain(db.map(|db| db.to_vec())))
}

/// A number below 2⁴⁸ that identifies what is to be watched: the tasks and the patterns as they are
/// written (name, store and glob of each), what guards each task, and where. The same on every agent
/// that is to watch the same, whatever keys it found by its patterns.
pub fn tasks_fingerprint<'a>(
    spec: &WatchSpec,
    patterns: impl Iterator<Item = (&'a str, StoreIndex, &'a [u8])>,
) -> u64 {
    let stores = spec.stores.iter().flat_map(|store| {
        let addresses = store.addresses.iter().map(|address| address.as_bytes());
        [store.name.as_bytes(), &store.db.to_be_bytes()]
            .map(<[u8]>::to_vec)
            .into_iter()
            .chain(addresses.map(<[u8]>::to_vec))
    });
    let tasks = spec.tasks.iter().flat_map(|task| {
        let stores = task.stores().iter().flat_map(|store| store.0.to_be_bytes()).collect();
        [task.name.as_bytes().to_vec(), stores, task.kind.key().clone()]
    });
    let patterns = patterns.flat_map(|(name, store, glob)| {
        let word = b"match".to_vec();
        [word, name.as_bytes().to_vec(), store.0.to_be_bytes().to_vec(), glob.to_vec()]
    });
    number(stores.chain(tasks).chain(patterns))
}

/// A number below 2⁴⁸ for these parts.
fn number(parts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> u64 {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        // The length separates the parts unambiguously.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let bytes = hash.finalize();
    bytes.iter().take(FINGERPRINT_BYTES).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Escaped text under construction.
#[derive(Default)]
struct Escaped {
    text: String,
    /// Length of the longest prefix that leaves room for the digest.
    cut_at: usize,
}

impl Escaped {
    fn push(&mut self, character: char) {
        if self.is_full() {
            return;
        }
        if character == '\\' {
            self.text.push_str(r"\\");
        } else if is_plain(character) {
            self.text.push(character);
        } else {
            let mut buffer = [0; 4];
            character
                .encode_utf8(&mut buffer)
                .bytes()
                .for_each(|byte| push_escape(&mut self.text, byte));
        }
        self.note_length();
    }

    fn push_byte(&mut self, byte: u8) {
        if self.is_full() {
            return;
        }
        push_escape(&mut self.text, byte);
        self.note_length();
    }

    fn note_length(&mut self) {
        if self.text.len() <= SHOWN_BYTES_MAX - CUT.len_utf8() - DIGEST_DIGITS {
            self.cut_at = self.text.len();
        }
    }

    fn is_full(&self) -> bool {
        self.text.len() > SHOWN_BYTES_MAX
    }

    fn finish(mut self, whole: &[u8]) -> String {
        if self.is_full() {
            self.text.truncate(self.cut_at);
            self.text.push(CUT);
            self.text.push_str(&digest(whole));
        }
        self.text
    }
}

/// Whether a character may stay as it is.
pub fn is_plain(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // The standard library knows which characters are printable, but exposes that only through
    // escaping. After another character it does not escape combining marks, which names in many
    // scripts need.
    let mut pair = String::from("a");
    pair.push(character);
    character != CUT && pair.escape_debug().skip(1).eq([character])
}

fn push_escape(text: &mut String, byte: u8) {
    text.push_str(r"\x");
    push_hex(text, byte);
}

fn push_hex(text: &mut String, byte: u8) {
    for nibble in [byte >> 4, byte & 0xf] {
        text.push(char::from_digit(u32::from(nibble), 16).unwrap_or('0'));
    }
}

/// Escapes every character that could move a cursor or hide text. Text that is already escaped
/// stays as it is.
pub fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '…' => safe.push(character),
            other => safe.push_str(&escape(other.encode_utf8(&mut [0; 4]).as_bytes())),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// Decodes an uncut text.
    fn unescape(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix(r"\\") {
                bytes.push(b'\\');
                rest = after;
            } else if let Some(after) = rest.strip_prefix(r"\x") {
                bytes.push(u8::from_str_radix(&after[..2], 16).unwrap());
                rest = &after[2..];
            } else {
                bytes.extend_from_slice(&rest.as_bytes()[..first.len_utf8()]);
                rest = &rest[first.len_utf8()..];
            }
        }
        bytes
    }

    #[test]
    fn a_url_is_shown_without_its_login() {
        for (url, shown) in [
            ("redis://u:p@host:1/2", "redis://…@host:1/2"),
            ("redis://:p@w/d@host", "redis://…@host"),
            ("see http://u@h", "see http://…@h"),
            ("redis://host:1", "redis://host:1"),
            ("job@host", "job@host"),
            ("@://", "@://"),
            ("", ""),
        ] {
            assert_eq!(without_login(url), shown);
        }
    }

    #[test]
    fn a_fingerprint_changes_with_whatever_the_data_live_in_and_with_nothing_else() {
        let generation = |run_id: &[u8], replication_id: &[u8], flushes| Generation {
            process: run_id.to_vec(),
            history: replication_id.to_vec(),
            forked_from: None,
            flushes,
            evictions: 7,
            slot_flushes: 0,
            evicts_only_with_ttl: false,
            started_empty: None,
        };
        let first = generation(b"ab", b"cd", 1);
        let others = [
            generation(b"ax", b"cd", 1),
            generation(b"ab", b"cx", 1),
            generation(b"ab", b"cd", 2),
            generation(b"abc", b"d", 1),
            generation(b"cd", b"ab", 1),
        ];
        assert_eq!(
            fingerprint(&first, 0),
            0x7909_afc3_6be1,
            "other agents, of other versions too, must show the same"
        );
        assert!(others.iter().all(|other| fingerprint(other, 0) != fingerprint(&first, 0)));
        assert!(others.iter().all(|other| fingerprint(other, 0) < 1 << 48));
        let evicted = Generation { evictions: 8, started_empty: Some(true), ..first.clone() };
        assert_eq!(fingerprint(&evicted, 0), fingerprint(&first, 0));
    }

    #[test]
    fn readable_text_stays() {
        for text in [
            "",
            "outbound",
            "a b",
            "quote\"s 'n' <b>",
            "lager-süd",
            "выгрузка",
            "出荷",
            "कुत्ता",
            "🚚",
        ] {
            assert_eq!(escape(text.as_bytes()), text);
        }
    }

    #[test]
    fn the_rest_is_escaped() {
        let _rule = crate::truth::rule("14 hostile bytes");
        let cases: [(&[u8], &str); 9] = [
            (b"a\\b", r"a\\b"),
            (b"a\nb\r\x1b[2J", r"a\x0ab\x0d\x1b[2J"),
            (b"\0\x7f", r"\x00\x7f"),
            (b"\xff\xfe", r"\xff\xfe"),
            (b"ok\xe2\x82", r"ok\xe2\x82"),
            ("\u{202e}evil\u{2066}".as_bytes(), r"\xe2\x80\xaeevil\xe2\x81\xa6"),
            ("\u{feff}\u{200b}\u{200d}".as_bytes(), r"\xef\xbb\xbf\xe2\x80\x8b\xe2\x80\x8d"),
            (
                "\u{85}\u{2028}\u{a0}\u{e0041}".as_bytes(),
                r"\xc2\x85\xe2\x80\xa8\xc2\xa0\xf3\xa0\x81\x81",
            ),
            ("a…b".as_bytes(), r"a\xe2\x80\xa6b"),
        ];
        for (bytes, text) in cases {
            assert_eq!(escape(bytes), text, "{bytes:?}");
        }
    }

    #[test]
    fn long_text_is_cut_at_an_escape_and_keeps_its_difference() {
        let (one, two) = (
            [b"\xff".repeat(500), b"1".to_vec()].concat(),
            [b"\xff".repeat(500), b"2".to_vec()].concat(),
        );
        let (shown_one, shown_two) = (escape(&one), escape(&two));
        assert_ne!(shown_one, shown_two);
        for shown in [&shown_one, &shown_two] {
            assert!(shown.len() <= SHOWN_BYTES_MAX, "{}", shown.len());
            let (beginning, end) = shown.split_once(CUT).unwrap();
            assert_eq!(unescape(beginning), b"\xff".repeat(beginning.len() / 4));
            assert_eq!(end.len(), DIGEST_DIGITS);
        }
        let exactly = "x".repeat(SHOWN_BYTES_MAX);
        assert_eq!(escape(exactly.as_bytes()), exactly);
        assert!(escape("x".repeat(SHOWN_BYTES_MAX + 1).as_bytes()).contains(CUT));
    }

    #[test]
    fn any_bytes_can_be_read_back_and_no_two_look_alike() {
        let _rule = crate::truth::rule("14 hostile bytes");
        let mut random = fastrand::Rng::with_seed(0x10c4);
        let mut seen: HashMap<String, Vec<u8>> = HashMap::new();
        for _ in 0..20_000 {
            let length = random.usize(0..12);
            let pieces: [&[u8]; 8] =
                [b"\\", b"x", b"0a", b"\n", b"\xe2", b"\x80", b"\xa6", "é".as_bytes()];
            let bytes = (0..length)
                .map(|_| pieces[random.usize(0..pieces.len())])
                .collect::<Vec<_>>()
                .concat();
            let text = escape(&bytes).into_owned();
            assert_eq!(unescape(&text), bytes);
            assert!(!text.chars().any(char::is_control));
            if let Some(other) = seen.insert(text, bytes.clone()) {
                assert_eq!(other, bytes);
            }
        }
    }

    #[test]
    fn a_key_as_a_name_is_printable_bounded_and_its_own() {
        let _rule = crate::truth::rule("14 hostile bytes");
        for plain in ["report:lock:7", "a b", "lager-süd", "", "~", "x~0123"] {
            assert_eq!(key_name(plain.as_bytes(), 99), plain);
        }
        let long = "k".repeat(500);
        let hostile: [&[u8]; 6] = [
            b"a\nb",
            b"\xff\xfe",
            b"back\\slash",
            "\u{202e}evil".as_bytes(),
            long.as_bytes(),
            &[b'x'; 1024],
        ];
        for key in hostile {
            let name = key_name(key, 99).into_owned();
            assert!(name.len() <= 99 && ends_in_digest(&name), "{name}");
            assert_eq!(escape(name.as_bytes()), name, "shown as it is");
            let same = key_name(name.as_bytes(), 99);
            assert_ne!(same, name, "a key that is called like another one's name");
        }
        assert_ne!(key_name(&b"\xff".repeat(300), 99), key_name(&b"\xff".repeat(301), 99));
    }

    #[test]
    fn long_lists_are_cut() {
        let names = ["a", "b", "c"].map(Cow::Borrowed);
        let shown = |shown_max| list(names.clone().into_iter(), shown_max);
        assert_eq!([shown(3), shown(2), shown(0)], ["a, b, c", "a, b and 1 more", " and 3 more"]);
    }

    #[test]
    fn a_secret_shows_only_its_digest() {
        let _rule = crate::truth::rule("14 hostile bytes");
        let holder = |secret| Holder {
            client: b"abc".to_vec(),
            thread: Some(b"7".to_vec()),
            entries: None,
            secret,
        };
        assert_eq!(holder_label(&holder(true)), "ba7816bf"); // the well-known SHA-256 of "abc"
        assert_eq!(holder_label(&holder(false)), "abc");
    }
}
