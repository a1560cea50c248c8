//! The JSON encoding: every text keeps its value, and every character that could mislead a terminal
//! or a line-based reader is escaped.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

use crate::text::identity::is_plain;

/// `value` as JSON on one line. No value here can fail to serialize.
pub fn text(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail, and all maps have texts as keys.
    let _written = value.serialize(&mut Serializer::with_formatter(&mut bytes, Harmless));
    String::from_utf8(bytes).unwrap_or_default()
}

/// A body whose long `list` is empty, split where the list's elements belong.
pub(super) fn around(body: &impl Serialize, list: &str) -> (String, String) {
    let body = text(body);
    // No text can contain this: its quotes are escaped.
    let opening = format!("\"{list}\":[");
    let at = body.find(&opening).map_or(body.len(), |at| at + opening.len());
    let (head, tail) = body.split_at(at);
    (head.to_owned(), tail.to_owned())
}

/// Compact, with `\\uNNNN` for every character that is not [`is_plain`]: control, format and bidi
/// characters, unusual spaces.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return writer.write_all(fragment.as_bytes());
        }
        for character in fragment.chars() {
            let mut buffer = [0; 4];
            if is_plain(character) {
                writer.write_all(character.encode_utf8(&mut buffer).as_bytes())?;
                continue;
            }
            for unit in character.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_fool_a_reader_is_escaped_and_keeps_its_value() {
        let _rule = crate::truth::rule("14 hostile bytes");
        let cases = [
            ("plain", r#""plain""#),
            ("出荷 ü", r#""出荷 ü""#),
            ("a\"b\\c\n", r#""a\"b\\c\n""#),
            ("\u{1b}[2J\u{7f}\u{85}", r#""\u001b[2J\u007f\u0085""#),
            ("\u{202e}\u{2066}\u{2028}\u{feff}", r#""\u202e\u2066\u2028\ufeff""#),
            ("\u{e0041}x", r#""\udb40\udc41x""#),
        ];
        for (value, written) in cases {
            assert_eq!(text(&value), written);
            assert_eq!(serde_json::from_str::<String>(written).unwrap(), value);
        }
    }
}
