//! The ways to display external bytes, each by itself, and small parsers of text.

use lockwatch::outputs::negotiate;
use lockwatch::text::durations::{duration_text, parse_duration_ms};
use lockwatch::text::identity::{digest, escape};
use lockwatch::text::instants::rfc3339;
use lockwatch::text::terminal::{cut, safe, safe_json, width, wrap};

use crate::claims::harmless_line;

/// Maximum length in bytes of text that is shown in full.
const SHOWN_BYTES_MAX: usize = 200;

pub(crate) fn run(data: &[u8]) {
    check_escape(data);
    if let Some(number) = data.first_chunk::<8>() {
        check_number(u64::from_be_bytes(*number));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    harmless_line(&safe(text));
    assert_eq!(safe(&safe(text)), safe(text), "what is safe is made safe again");
    check_widths(text);
    check_json(text);
    let _format = negotiate::format(text);
    let _coding = negotiate::coding(text);
    if let Ok(ms) = parse_duration_ms(text) {
        assert_eq!(parse_duration_ms(&duration_text(ms)), Ok(ms), "{text} is not read back");
    }
}

/// Bytes are shown on one line, and can be read back unless they are truncated.
fn check_escape(data: &[u8]) {
    let shown = escape(data);
    harmless_line(&shown);
    assert!(shown.len() <= SHOWN_BYTES_MAX, "{} bytes are shown", shown.len());
    match shown.split_once('…') {
        Some((_, end)) => {
            assert_eq!(end, digest(data), "a cut text ends in the digest of the whole")
        }
        None => assert_eq!(unescape(&shown), data, "{shown} is another text"),
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digits = [*high, *low];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                after
            }
            (byte, after) => {
                bytes.push(*byte);
                after
            }
        };
    }
    bytes
}

fn check_number(number: u64) {
    let ms = number >> (number & 63);
    if let Ok(again) = parse_duration_ms(&duration_text(ms)) {
        assert_eq!(again, ms, "{} is not read back", duration_text(ms));
    }
    if let Some(instant) = rfc3339(number.cast_signed()) {
        harmless_line(&instant);
    }
}

fn check_widths(text: &str) {
    let safe = safe(text);
    for columns in [0, 1, 2, 7, 80] {
        let cut = cut(&safe, columns);
        assert!(width(&cut) <= columns, "{cut:?} is wider than {columns}");
        for line in wrap(&safe, columns) {
            harmless_line(&line);
        }
    }
}

/// Formatting keeps a JSON document equal.
fn check_json(text: &str) {
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return };
    let safe = safe_json(text);
    harmless_line(&safe);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&safe).ok(),
        Some(value),
        "{safe} is another document"
    );
}
