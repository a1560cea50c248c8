//! JSON scalars: null, booleans, integers and strings. Arrays, objects and fractions are refused,
//! except for the one array in which Jackson wraps a `Long` when it writes class names (Redisson's
//! JSON codec, Spring's generic one).

use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::str::Chars;

use super::scalar::{Form, Scalar};

const LONG_OPENS: &str = "[\"java.lang.Long\",";
const LONG_CLOSES: &str = "]";
const BLANKS: [char; 4] = [' ', '\t', '\n', '\r'];

pub(super) fn decode(bytes: &[u8]) -> Option<Scalar> {
    let value = core::str::from_utf8(bytes).ok()?.trim_matches(BLANKS);
    match value {
        "null" => Some(Scalar::Null),
        "true" => Some(Scalar::Bool(true)),
        "false" => Some(Scalar::Bool(false)),
        _ if value.starts_with('"') => string(value).map(Scalar::Text),
        _ => integer(unwrap_long(value)).map(Scalar::Int),
    }
}

/// As Jackson writes it: characters beyond the basic plane as two escapes, others as they are.
pub(super) fn encode(form: Form, scalar: &Scalar) -> Option<Vec<u8>> {
    let text = match (form, scalar) {
        (Form::Text, Scalar::Text(text)) => quoted(text),
        (Form::Bool, Scalar::Bool(truth)) => truth.to_string(),
        (Form::Int, Scalar::Int(number)) => number.to_string(),
        (Form::Long, Scalar::Int(number)) => format!("{LONG_OPENS}{number}{LONG_CLOSES}"),
        _ => return None,
    };
    Some(text.into_bytes())
}

fn quoted(text: &str) -> String {
    let mut made = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => made.extend(['\\', character]),
            '\x08' => made.push_str("\\b"),
            '\x0c' => made.push_str("\\f"),
            '\n' => made.push_str("\\n"),
            '\r' => made.push_str("\\r"),
            '\t' => made.push_str("\\t"),
            '\0'..='\x1f' | '\u{10000}'.. => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    made.push_str(&format!("\\u{unit:04X}"));
                }
            }
            plain => made.push(plain),
        }
    }
    made.push('"');
    made
}

fn unwrap_long(value: &str) -> &str {
    value.strip_prefix(LONG_OPENS).and_then(|rest| rest.strip_suffix(LONG_CLOSES)).unwrap_or(value)
}

/// An integer in JSON's grammar: no plus sign, no leading zero.
fn integer(value: &str) -> Option<i64> {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let well_formed = digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    if well_formed { value.parse().ok() } else { None }
}

/// The text of a quoted string; `None` when the value does not end with the string.
fn string(value: &str) -> Option<String> {
    let mut text = String::new();
    let mut rest = value.strip_prefix('"')?.chars();
    loop {
        match rest.next()? {
            '"' => return rest.as_str().is_empty().then_some(text),
            '\\' => text.push(escaped(&mut rest)?),
            '\0'..='\x1f' => return None,
            plain => text.push(plain),
        }
    }
}

/// Decodes an escape after its backslash.
fn escaped(rest: &mut Chars<'_>) -> Option<char> {
    match rest.next()? {
        plain @ ('"' | '\\' | '/') => Some(plain),
        'b' => Some('\x08'),
        'f' => Some('\x0c'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        'u' => unicode(rest),
        _ => None,
    }
}

/// One UTF-16 unit in hex, or two that form a surrogate pair.
fn unicode(rest: &mut Chars<'_>) -> Option<char> {
    let first = unit(rest)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(u32::from(first));
    }
    if rest.next()? != '\\' || rest.next()? != 'u' {
        return None;
    }
    char::decode_utf16([first, unit(rest)?]).next()?.ok()
}

fn unit(rest: &mut Chars<'_>) -> Option<u16> {
    let mut unit = 0;
    for _ in 0..4 {
        unit = unit << 4 | u16::try_from(rest.next()?.to_digit(16)?).ok()?;
    }
    Some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(of: &str) -> Option<Scalar> {
        Some(Scalar::Text(of.into()))
    }

    #[test]
    fn strings_are_read_by_the_grammar() {
        assert_eq!(decode(br#""on""#), text("on"));
        assert_eq!(decode(br#" "\u006fn" "#), text("on"));
        assert_eq!(decode(br#""\ud83d\uDD12""#), text("\u{1f512}"));
        assert_eq!(decode(br#""\"\\\/\b\f\n\r\t""#), text("\"\\/\u{8}\u{c}\n\r\t"));
        let refused: [&[u8]; 15] = [
            br#"""#,
            br#""on"#,
            br#""on" "off""#,
            br#""\u00""#,
            br#""\u00g0""#,
            br#""\u+041""#,
            br#""\x41""#,
            br#""\ud83d""#,
            br#""\ud83d\n""#,
            br#""\ud83d\u0041""#,
            br#""\udd12""#,
            br#""\"#,
            b"\"a\nb\"",
            b"\"\xff\"",
            b"'on'",
        ];
        for bytes in refused {
            assert_eq!(decode(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn integers_are_read_by_the_grammar() {
        assert_eq!(decode(b"0"), Some(Scalar::Int(0)));
        assert_eq!(decode(b"\t-12\n"), Some(Scalar::Int(-12)));
        assert_eq!(decode(b"[\"java.lang.Long\",1]"), Some(Scalar::Int(1)));
        let refused: [&[u8]; 16] = [
            b"",
            b" ",
            b"-",
            b"+1",
            b"01",
            b"-01",
            b"1.0",
            b"1e0",
            b"0x1",
            b"1 1",
            b"--1",
            b"9223372036854775808",
            b"[1]",
            b"[\"java.lang.Long\",true]",
            b"[\"java.lang.Long\",[\"java.lang.Long\",1]]",
            b"[\"java.util.Date\",1]",
        ];
        for bytes in refused {
            assert_eq!(decode(bytes), None, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn words_are_lower_case() {
        assert_eq!(decode(b"true"), Some(Scalar::Bool(true)));
        assert_eq!(decode(b"null "), Some(Scalar::Null));
        assert_eq!(decode(b"True"), None);
        assert_eq!(decode(b"nul"), None);
        assert_eq!(decode(b"{}"), None);
    }
}
