//! Recognises byte patterns: tokens of lock libraries, names of locks, ids of items. Pure. An error
//! in either direction does harm: a false match becomes a task, and a missed lock is never printed.

use alloc::vec::Vec;

use crate::redis::codec::written_text;

/// The form of a string's value, as far as lock libraries write such values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `ADDED:<time>@<host>`: ShedLock.
    ShedLock,
    /// `<machine>_<pid>_<32 hex digits>`: DistributedLock for .NET.
    MachineAndProcess,
    /// `<uuid>:<number>`: BullMQ.
    UuidAndNumber,
    /// A UUID with dashes.
    Uuid,
    /// 32 hex digits that are a UUID of version 1, as redis-py writes them.
    TimeUuidHex,
    /// Other hex digits of a usual length.
    Hex,
    /// 22 to 44 characters of base64 of mixed kinds.
    Base64,
    /// 16 letters and digits, as Laravel writes them.
    Letters16,
    /// 20 or 24 bytes that are not text: rslock, redlock, rueidislock.
    Bytes,
    /// A number of at least nine digits.
    Number,
    /// `<host>:<pid>` or `<host>#<pid>`, perhaps with a nonce behind it.
    HostAndProcess,
    /// A text of which a part is random: `execute:<uuid>`, `0.97442…`, `z637irbl4lf`.
    Random,
    /// A word without spaces: perhaps the name of a host or a worker.
    Word,
    /// JSON, or an object as PHP writes it. Its holder may be named inside.
    Record,
    /// Any other text.
    Text,
    /// Anything else.
    Other,
}

impl Shape {
    /// The form of a value of `length` bytes that begins with `start`.
    pub fn of(start: &[u8], length: u64) -> Shape {
        if start.len() as u64 != length || start.is_empty() {
            return Shape::Other;
        }
        let unserialized = unserialized(start);
        let value = unserialized.as_slice();
        let is = |fits: fn(&u8) -> bool| value.iter().all(fits);
        match value {
            _ if value.starts_with(b"ADDED:") && value.contains(&b'@') => Shape::ShedLock,
            _ if is_machine_and_process(value) => Shape::MachineAndProcess,
            _ if is_uuid(value) => Shape::Uuid,
            _ if is_uuid_and_number(value) => Shape::UuidAndNumber,
            _ if is_time_uuid_hex(value) => Shape::TimeUuidHex,
            _ if is(u8::is_ascii_digit) => match value.len() {
                9..=40 => Shape::Number,
                _ => Shape::Other,
            },
            _ if is(u8::is_ascii_hexdigit)
                && matches!(value.len(), 16 | 20 | 24 | 32 | 40 | 48 | 64) =>
            {
                Shape::Hex
            }
            _ if is(u8::is_ascii_alphanumeric) && value.len() == 16 && is_mixed(value) => {
                Shape::Letters16
            }
            _ if is(is_base64) && matches!(value.len(), 22..=44) && is_mixed(value) => {
                Shape::Base64
            }
            _ if matches!(value.len(), 20 | 24) && core::str::from_utf8(value).is_err() => {
                Shape::Bytes
            }
            _ if !is_text(value) || value.len() <= 2 || is_plain_word(value) => Shape::Other,
            [b'{' | b'[', ..] | [b'a' | b'O', b':', b'0'..=b'9', ..] => Shape::Record,
            _ if is_host_and_process(value) => Shape::HostAndProcess,
            _ if has_random_part(value) => Shape::Random,
            _ if is(is_of_a_word) => Shape::Word,
            _ => Shape::Text,
        }
    }

    /// Whether the value identifies a holder.
    pub fn is_token(self) -> bool {
        !matches!(self, Shape::Word | Shape::Record | Shape::Text | Shape::Other)
    }
}

/// Words in a name that mean "lock".
const LOCK_WORDS: [&[u8]; 12] = [
    b"lock",
    b"locks",
    b"lck",
    b"mutex",
    b"mutexes",
    b"leader",
    b"leadership",
    b"election",
    b"singleton",
    b"exclusive",
    b"lease",
    b"leases",
];
/// Words that begin with "lock" and mean something else.
const NO_LOCK_PREFIXES: [&[u8]; 8] = [
    b"locked",
    b"locker",
    b"lockers",
    b"lockout",
    b"lockouts",
    b"lockdown",
    b"lockscreen",
    b"lockfile",
];
/// Words that end in "lock" and mean something else.
const NO_LOCK_WORDS: [&[u8]; 8] =
    [b"block", b"unblock", b"clock", b"unlock", b"airlock", b"interlock", b"gridlock", b"deadlock"];

/// Whether a word of the name means "lock", or the name begins with it (`_locknightly`).
pub fn names_a_lock(key: &[u8]) -> bool {
    let words = words(key);
    words.iter().any(|word| is_lock_word(word))
        || words.first().is_some_and(|word| {
            word.starts_with(b"lock") && !NO_LOCK_PREFIXES.contains(&word.as_slice())
        })
}

/// Whether the last word means "lock": `lock:timeout` is a setting, `timeout:lock` is a lock.
pub fn ends_as_a_lock(key: &[u8]) -> bool {
    words(key).last().is_some_and(|word| is_lock_word(word))
}

/// Whether a word in lower case means "lock".
pub fn is_lock_word(word: &[u8]) -> bool {
    LOCK_WORDS.contains(&word) || word.ends_with(b"lock") && !NO_LOCK_WORDS.contains(&word)
}

/// The words of a name in lower case: `user:outboundLock_2` is user, outbound, lock, 2.
pub fn words(key: &[u8]) -> Vec<Vec<u8>> {
    let mut words: Vec<Vec<u8>> = Vec::new();
    let mut before = b' ';
    for byte in key {
        let begins = match (before, *byte) {
            (_, byte) if !byte.is_ascii_alphanumeric() => false,
            (before, byte) if before.is_ascii_lowercase() && byte.is_ascii_uppercase() => true,
            (before, byte) if before.is_ascii_digit() != byte.is_ascii_digit() => true,
            (before, _) => !before.is_ascii_alphanumeric(),
        };
        if begins {
            words.push(Vec::new());
        }
        if byte.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(byte.to_ascii_lowercase());
        }
        before = *byte;
    }
    words
}

/// 8-4-4-4-12 hex digits.
pub fn is_uuid(bytes: &[u8]) -> bool {
    bytes.len() == 36
        && bytes.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether a key's name has a part that another run or item has otherwise: an id, a date or a time.
pub fn names_one_of_many(key: &[u8]) -> bool {
    let mut words = key.split(|byte| !byte.is_ascii_alphanumeric());
    words.any(|word| is_id(word) || !is_digest(word) && has_compact_time(word))
        || key.windows(36).any(is_uuid)
        || has_date(key)
}

/// Whether a key's name has 32 hex digits in it: an MD5 digest, perhaps of a fixed name, or a UUID
/// without dashes. Nothing but chance tells one from the other.
pub fn has_digest_or_id(key: &[u8]) -> bool {
    let mut words = key.split(|byte| !byte.is_ascii_alphanumeric());
    words.any(|word| word.len() == 32 && word.iter().all(u8::is_ascii_hexdigit))
}

/// Hex digits of a digest, which may look like anything.
fn is_digest(word: &[u8]) -> bool {
    word.len() >= 16 && word.iter().all(u8::is_ascii_hexdigit)
}

fn has_compact_time(word: &[u8]) -> bool {
    word.split(|byte| !byte.is_ascii_digit()).any(is_compact_time)
}

/// A number of eight digits or more, a MongoDB id, or a ULID. Digests are none: they often stand for
/// a fixed name.
fn is_id(word: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| word.iter().any(is);
    let is_hex = word.iter().all(u8::is_ascii_hexdigit);
    let at = |at: usize| word.get(at).copied().unwrap_or_default();
    match word.len() {
        24 if is_hex => has(u8::is_ascii_digit),
        26 => {
            let is_crockford =
                |byte: &u8| byte.is_ascii_alphanumeric() && !b"ILOUilou".contains(byte);
            word.iter().all(is_crockford)
                && (b'0'..=b'7').contains(&at(0))
                && has(u8::is_ascii_alphabetic)
        }
        _ => word.len() >= 8 && is_number(word),
    }
}

/// Digits that are a date, `20261127`, perhaps with a time, or Unix time, also behind letters.
fn is_compact_time(digits: &[u8]) -> bool {
    let clock = |rest: &[u8], limits: &[u16]| {
        rest.chunks(2).zip(limits).all(|(part, limit)| number(part) < *limit)
    };
    let is_of_day = digits.split_at_checked(8).is_some_and(|(date, rest)| {
        let (date, day) = date.split_at(6);
        let (year, month) = date.split_at(4);
        matches!(rest.len(), 0 | 2 | 4 | 6)
            && is_date(year, month, day)
            && clock(rest, &[24, 60, 61])
    });
    let is_short = matches!(digits, [b'2', _, m1, m2, d1, d2]
        if is_date(b"2000", &[*m1, *m2], &[*d1, *d2]));
    let is_ordinal = digits.len() == 7
        && digits
            .split_at_checked(4)
            .is_some_and(|(year, day)| is_year(year) && (1..=366).contains(&number(day)));
    is_of_day || is_short || is_ordinal || is_unix(digits)
}

/// Unix time in seconds or smaller units, from 2001 to 2033.
fn is_unix(digits: &[u8]) -> bool {
    matches!(digits.len(), 10 | 13 | 16 | 19) && digits.first() == Some(&b'1')
}

/// `2026-11-27`, `27.11.2026`, `2026-11`, `2026-W48` or `10:55`, also with other separators.
fn has_date(key: &[u8]) -> bool {
    let parts: Vec<&[u8]> = key.split(|byte| b"-/._:".contains(byte)).collect();
    let separator = |after: usize| {
        let before: usize = parts.iter().take(after + 1).map(|part| part.len() + 1).sum();
        before.checked_sub(1).and_then(|at| key.get(at))
    };
    parts.windows(2).enumerate().any(|(at, two)| {
        let [first, second] = two else { return false };
        let third = parts.get(at + 2).copied().unwrap_or_default();
        let is_month = is_date(first, second, b"01");
        let is_week = is_year(first)
            && second.strip_prefix(b"W").is_some_and(|week| (1..=53).contains(&number(week)));
        let is_time = separator(at) == Some(&b':')
            && [first, second].iter().all(|part| part.len() == 2 && is_number(part))
            && number(first) < 24
            && number(second) < 60;
        is_month
            || is_week
            || is_time
            || is_date(third, second, first)
            || is_date(third, first, second)
    })
}

fn is_year(digits: &[u8]) -> bool {
    matches!(digits, [b'1', b'9', _, _] | [b'2', b'0', _, _]) && is_number(digits)
}

fn is_date(year: &[u8], month: &[u8], day: &[u8]) -> bool {
    let is_short = |part: &[u8]| part.len() <= 2 && is_number(part);
    is_year(year)
        && is_short(month)
        && is_short(day)
        && (1..=12).contains(&number(month))
        && (1..=31).contains(&number(day))
}

/// A number of few digits; 0 for anything else.
fn number(digits: &[u8]) -> u16 {
    core::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Splits after the last `separator`.
pub fn split_last(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().rposition(|byte| *byte == separator)?;
    Some((bytes.get(..at)?, bytes.get(at + 1..)?))
}

/// Digits only.
pub fn is_number(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit)
}

/// `s:16:"…";`: a string as PHP's serializer writes it.
pub fn without_php_quotes(value: &[u8]) -> Option<&[u8]> {
    let rest = value.strip_prefix(b"s:")?.strip_suffix(b"\";")?;
    let quote = rest.iter().position(|byte| *byte == b'"')?;
    rest.get(quote + 1..)
}

/// The text that a serializer wrote: JSON's, Java's, Kryo's, PHP's, Python's pickle or MessagePack's.
/// Any other value is left as it is.
pub fn unserialized(value: &[u8]) -> Vec<u8> {
    let text = written_text(value);
    let inner = without_php_quotes(&text).or_else(|| pickled(&text)).or_else(|| packed(&text));
    inner.map(<[u8]>::to_vec).unwrap_or(text)
}

/// The text in a pickle of one, of protocol 2 or later.
fn pickled(value: &[u8]) -> Option<&[u8]> {
    const FRAME: u8 = 0x95;
    const SHORT_TEXT: u8 = 0x8c;
    const TEXT: u8 = b'X';
    let rest = value.strip_prefix(b"\x80")?.get(1..)?.strip_suffix(b".")?;
    let rest = if rest.first() == Some(&FRAME) { rest.get(9..)? } else { rest };
    match rest {
        [SHORT_TEXT, length, text @ ..] => text.get(..usize::from(*length)),
        [TEXT, length, 0, 0, 0, text @ ..] => text.get(..usize::from(*length)),
        _ => None,
    }
}

/// The text in a MessagePack of one.
fn packed(value: &[u8]) -> Option<&[u8]> {
    let (length, text) = match value {
        [0xd9, length, text @ ..] => (*length, text),
        [first @ 0xa0..=0xbf, text @ ..] => (first & 0x1f, text),
        _ => return None,
    };
    (text.len() == usize::from(length)).then_some(text)
}

/// Whether a value is the time at which a lock was taken or ends, as seconds with or without a
/// fraction, or in smaller units.
pub fn is_time(value: &[u8]) -> bool {
    let mut parts = value.splitn(2, |byte| *byte == b'.');
    let whole = parts.next().unwrap_or_default();
    is_number(whole) && is_unix(whole) && parts.next().is_none_or(is_number)
}

fn is_host_and_process(value: &[u8]) -> bool {
    let is_host = |host: &[u8]| {
        let names = host.iter().any(|byte| byte.is_ascii_alphabetic() || *byte == b'.');
        names && host.iter().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(byte))
    };
    let is_process = |pid: &[u8]| is_number(pid) && pid.len() <= 7;
    let parts: Vec<&[u8]> = value.split(|byte| b":#".contains(byte)).collect();
    match parts.as_slice() {
        [host, pid] => is_host(host) && is_process(pid),
        [host, pid, nonce] => {
            let is_nonce = nonce.len() >= 4 && nonce.iter().all(u8::is_ascii_alphanumeric);
            is_host(host) && is_process(pid) && is_nonce
        }
        _ => false,
    }
}

/// Whether no two holders would write such a text by chance.
fn has_random_part(text: &[u8]) -> bool {
    let is_fraction = |text: &[u8]| {
        text.strip_prefix(b"0.").is_some_and(|digits| digits.len() >= 10 && is_number(digits))
    };
    let is_of_id = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    let is_base36 = |text: &[u8]| {
        let fits = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        matches!(text.len(), 10..=12) && text.iter().all(fits) && changes(text) >= 2
    };
    let is_long = matches!(text.len(), 17..=21)
        && text.iter().all(is_of_id)
        && text.iter().any(u8::is_ascii_uppercase)
        && text.iter().any(u8::is_ascii_lowercase)
        && text.iter().any(u8::is_ascii_digit);
    let mut parts = text.split(|byte| b":_|,/#@;= ".contains(byte));
    is_fraction(text) || is_base36(text) || is_long || is_time(text) || parts.any(is_random_part)
}

/// A UUID, a long number or digest, or at least eight characters of which digits and letters change
/// often.
fn is_random_part(part: &[u8]) -> bool {
    let is_hex = part.len() >= 16 && part.iter().all(u8::is_ascii_hexdigit);
    let is_mixed =
        part.len() >= 8 && part.iter().all(u8::is_ascii_alphanumeric) && changes(part) >= 3;
    is_uuid(part) || part.len() >= 9 && is_number(part) || is_hex && changes(part) >= 2 || is_mixed
}

/// How often digits and letters follow each other.
fn changes(text: &[u8]) -> usize {
    text.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()).count().saturating_sub(1)
}

fn is_text(value: &[u8]) -> bool {
    core::str::from_utf8(value).is_ok_and(|text| !text.chars().any(char::is_control))
}

fn is_machine_and_process(value: &[u8]) -> bool {
    let Some((rest, guid)) = split_last(value, b'_') else { return false };
    let Some((machine, process)) = split_last(rest, b'_') else { return false };
    guid.len() == 32
        && guid.iter().all(u8::is_ascii_hexdigit)
        && is_number(process)
        && !machine.is_empty()
}

fn is_uuid_and_number(value: &[u8]) -> bool {
    split_last(value, b':').is_some_and(|(uuid, number)| is_uuid(uuid) && is_number(number))
}

/// Whether the digits of version and variant are in the right positions.
fn is_time_uuid_hex(value: &[u8]) -> bool {
    value.len() == 32
        && value.iter().all(u8::is_ascii_hexdigit)
        && value.get(12) == Some(&b'1')
        && value.get(16).is_some_and(|digit| b"89abAB".contains(digit))
}

fn is_base64(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+/=-_".contains(byte)
}

fn is_of_a_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b".:@/_-#".contains(byte)
}

/// Whether the characters are of several kinds, as random ones nearly always are.
fn is_mixed(value: &[u8]) -> bool {
    let has = |fits: fn(&u8) -> bool| usize::from(value.iter().any(fits));
    has(u8::is_ascii_uppercase) + has(u8::is_ascii_lowercase) + has(u8::is_ascii_digit) > 1
        && value.iter().any(u8::is_ascii_uppercase)
}

/// Words that every holder writes alike.
const PLAIN_WORDS: [&[u8]; 39] = [
    b"true",
    b"false",
    b"yes",
    b"no",
    b"on",
    b"off",
    b"null",
    b"none",
    b"nil",
    b"ok",
    b"y",
    b"n",
    b"t",
    b"f",
    b"x",
    b"-",
    b"*",
    b".",
    b"lock",
    b"locked",
    b"mutex",
    b"held",
    b"busy",
    b"taken",
    b"acquired",
    b"reserved",
    b"owned",
    b"running",
    b"active",
    b"working",
    b"started",
    b"processing",
    b"in-progress",
    b"in_progress",
    b"inprogress",
    b"leader",
    b"master",
    b"exists",
    b"value",
];
/// Maximum length of a number that identifies nobody. Random ones are longer.
const SHORT_NUMBER: usize = 8;

fn is_plain_word(value: &[u8]) -> bool {
    PLAIN_WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}

/// Whether a lock's value identifies nobody: it is empty, a short number, a truth value, a word
/// such as `locked`, or the key's own name. Whoever holds the lock writes the same.
pub fn identifies_nobody(value: &[u8], key: &[u8]) -> bool {
    let text = written_text(value);
    let text = text.trim_ascii();
    let text = without_php_quotes(text).or_else(|| php_scalar(text)).unwrap_or(text);
    let text = pickled_text(text).unwrap_or(text);
    let is_short_number = || {
        text.len() <= SHORT_NUMBER
            && core::str::from_utf8(text).is_ok_and(|text| text.parse::<f64>().is_ok())
    };
    let is_the_name =
        || key.strip_suffix(text).is_some_and(|before| matches!(before.last(), None | Some(b':')));
    text.is_empty() || is_plain_word(text) || is_short_number() || is_the_name()
}

/// The only, short text in a pickle of Python.
fn pickled_text(value: &[u8]) -> Option<&[u8]> {
    let rest = value.strip_prefix(b"\x80")?.get(1..)?.strip_suffix(b".")?;
    // Newer versions write the length of all first, and that the text may be referred to.
    let rest = rest.strip_prefix(b"\x95").map_or(Some(rest), |framed| framed.get(8..))?;
    let rest = rest.strip_suffix(b"\x94").or_else(|| rest.strip_suffix(b"q\x00")).unwrap_or(rest);
    let (length, text) = match rest.strip_prefix(b"\x8c") {
        Some(short) => short.split_at_checked(1)?,
        None => rest.strip_prefix(b"X")?.split_at_checked(4)?,
    };
    let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    (text.len() == length).then_some(text)
}

/// The number or truth value in PHP's serialization: `b:1;`, `i:1;`.
fn php_scalar(value: &[u8]) -> Option<&[u8]> {
    let rest = value.strip_prefix(b"b:").or_else(|| value.strip_prefix(b"i:"))?;
    rest.strip_suffix(b";")
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    fn shape(value: &[u8]) -> Shape {
        Shape::of(value, value.len() as u64)
    }

    #[test]
    fn tokens_as_libraries_write_them() {
        let cases: [(&[u8], Shape); 38] = [
            (
                b"ADDED:2026-11-21T10:00:00.123Z@web-1:8f14e45f-ceea-467f-a0b5-1d2f3c4b5a69",
                Shape::ShedLock,
            ),
            (b"WEB01_4711_0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b", Shape::MachineAndProcess),
            (b"0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b:17", Shape::UuidAndNumber),
            (b"0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b", Shape::Uuid),
            (b"0b1f6c0e6d6c11ef9f0a5d3c1f2e4a5b", Shape::TimeUuidHex),
            (b"0b1f6c0e6d6c4d0e9f0a5d3c1f2e4a5b", Shape::Hex),
            (b"3q2+7wAAAAB4eHh4AAECAw==", Shape::Base64),
            (b"aB3dE5gH7jK9mN1p", Shape::Letters16),
            (b"s:16:\"aB3dE5gH7jK9mN1p\";", Shape::Letters16),
            (
                b"\xff\xfe\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12",
                Shape::Bytes,
            ),
            (b"1763721600123", Shape::Number),
            (b"web-1.example:4711", Shape::HostAndProcess),
            (b"web-1#4711", Shape::HostAndProcess),
            (b"web-1:4711:0b1f6c0e6d6c", Shape::HostAndProcess),
            (b"outbound-7d9f8b6c5d-x2x9z", Shape::Word),
            (b"worker12", Shape::Word),
            (b"10:55", Shape::Word),
            (b"execute:0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b", Shape::Random),
            (b"leader:65a20eda3bbd6161ca8d7314afaf93759f4d7cda", Shape::Random),
            (b"0.9744279605377812", Shape::Random),
            (b"z637irbl4lf", Shape::Random),
            (b"redis_1795940111435_pzjiypfafmk", Shape::Random),
            (b"4711:0.50000000 1700000000:42", Shape::Random),
            (b"1795940436.9668376", Shape::Random),
            (b"aB3dE5gH7jK9mN1pQ2rS", Shape::Random),
            (b"\"0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b\"", Shape::Uuid),
            (b"\xac\xed\x00\x05t\x00$0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b", Shape::Uuid),
            (
                b"\x80\x05\x95(\0\0\0\0\0\0\0\x8c$d4eaccfb-7dab-4ceb-b767-af01ca93e77e\x94.",
                Shape::Uuid,
            ),
            (b"\x80\x02X$\0\0\0d4eaccfb-7dab-4ceb-b767-af01ca93e77eq\x00.", Shape::Uuid),
            (b"\xd9$0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b", Shape::Uuid),
            (b"\xb0aB3dE5gH7jK9mN1p", Shape::Letters16),
            (b"worker 3 on web-1", Shape::Text),
            (b"O:8:\"stdClass\":0:{}", Shape::Record),
            (b"1", Shape::Other),
            (b"true", Shape::Other),
            (b"{\"user\": 1}", Shape::Record),
            (
                b"\x91\x92\xcbA\xda\x1f\xc1\x80\0\0\0\xd9 5f3c2a1b00112200ff00112233445566",
                Shape::Other,
            ),
            (b"", Shape::Other),
        ];
        for (value, expected) in cases {
            assert_eq!(shape(value), expected, "{}", String::from_utf8_lossy(value));
        }
        assert_eq!(
            Shape::of(b"0b1f6c0e-6d6c-4d0e-9f0a-5d3c1f2e4a5b", 5_000),
            Shape::Other,
            "only a beginning"
        );
    }

    #[test]
    fn values_that_every_holder_writes_alike_identify_nobody() {
        let key = b"jobs:nightly:lock";
        for value in [
            "",
            " ",
            "1",
            "0",
            "42",
            "-1",
            "1.0",
            "true",
            "OK",
            "locked",
            "Locked\n",
            "running",
            "\"locked\"",
            "b:1;",
            "i:1;",
            "s:6:\"locked\";",
            "jobs:nightly:lock",
        ] {
            assert!(identifies_nobody(value.as_bytes(), key), "{value:?}");
        }
        assert!(identifies_nobody(b"nightly", b"lock:nightly"), "its own name");
        for value in [
            "web-1",
            "n1",
            "vm:9780",
            "worker-3",
            "0.9744279605377812",
            "1764000000",
            "z637irbl4lf",
            "execute:8743c9c0-0795-4907-87fd-6c719a6b4586",
            "htly:lock",
            "{\"owner\":\"web-1\"}",
            "4ce5991b-4e25-4185-aeaf-ef2df2bcf549",
        ] {
            assert!(!identifies_nobody(value.as_bytes(), key), "{value:?}");
        }
        assert!(!identifies_nobody(b"\xff\x00", key));
    }

    #[test]
    fn names_of_locks() {
        for name in [
            "outbound:lock",
            "outboundLock",
            "LOCK",
            "a_lock_2",
            "shedlock:x",
            "job:mutex",
            "leader-election",
            "joblock",
            "_locknightly",
        ] {
            assert!(names_a_lock(name.as_bytes()), "{name}");
        }
        for name in [
            "block:7",
            "clock",
            "stock:42",
            "user:locked",
            "login:lockout",
            "",
            "session:ab12",
            "\u{fc}",
        ] {
            assert!(!names_a_lock(name.as_bytes()), "{name}");
        }
        assert!(ends_as_a_lock(b"timeout:lock") && !ends_as_a_lock(b"lock:timeout"));
    }

    #[test]
    fn a_name_with_a_date_a_time_or_an_id_is_one_of_many() {
        for key in [
            "lock:report:2026-11-27",
            "report/2026/11/27:lock",
            "lock:import:20261127",
            "lock:import:202611271055",
            "lock:import:20261127105530",
            "job:1763721600:lock",
            "job:1763721600123:lock",
            "lock:order:285475da-9152-4c83-822a-67ee2f116a79",
            "lock:order:65f1c2a4e3b0c44298fc1c14",
            "lock:order:01HV5Y3Z8K9QWERTBNM4CXZA2D",
            "lock:order:10010399",
            "lock:report:27.11.2026",
            "lock:report:11-27-2026",
            "lock:report:2026-1-7",
            "lock:report:2026-11",
            "lock:report:2026-W48",
            "lock:report:2026330",
            "lock:report:261127",
            "lock:report-20261127T1055",
            "lock:report:10:55",
        ] {
            assert!(names_one_of_many(key.as_bytes()), "{key}");
        }
        for key in [
            "outbound:lock",
            "lock:shard-12",
            "lock:10379",
            "lock:2026367",
            "lock:10.0.0.5:16379",
            "lock:v2.11",
            "lock:25:61",
            "lock:md5-d41d8cd98f00b204e9800998ecf8427e",
            "lock:order:285475da91524c83822a67ee2f116a79",
            "lock:warehouse-2026",
            "lock:schedule-da39a3ee5e6b4b0d3255bfef95601890afd80709",
        ] {
            assert!(!names_one_of_many(key.as_bytes()), "{key}");
        }
    }

    /// Whichever digits an MD5 has, it is taken for the same.
    #[test]
    fn a_digest_is_judged_by_its_length_and_not_by_its_digits() {
        for key in [
            "lock:md5-d41d8cd98f00b204e9800998ecf8427e",
            "lock:order:285475da91524c83822a67ee2f116a79",
            "lock_5F3C2A1B00112200FF00112233445566",
        ] {
            assert!(has_digest_or_id(key.as_bytes()), "{key}");
        }
        for key in ["outbound:lock", "lock:da39a3ee5e6b4b0d3255bfef95601890afd80709"] {
            assert!(!has_digest_or_id(key.as_bytes()), "{key}");
        }
    }
}
