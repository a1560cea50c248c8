//! Labels and numbers as a page has them.

use std::fmt::Write as _;

use super::table::Number;
use crate::output::clock::{seconds, signed_seconds};

/// Beyond this a number of milliseconds is no whole number of thousandths as a float any more.
const EXACT_MS: u64 = 1 << 53;

/// Adds `name="value"`, after a comma unless it is the first.
pub(super) fn push_label(out: &mut String, is_first: bool, name: &str, value: &str) {
    if !is_first {
        out.push(',');
    }
    out.push_str(name);
    out.push_str("=\"");
    if value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        push_escaped(out, value);
    } else {
        out.push_str(value);
    }
    out.push('"');
}

#[cold]
fn push_escaped(out: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

/// Adds a value; milliseconds become seconds.
pub(super) fn push_number(out: &mut String, number: Number) {
    match number {
        Number::Count(count) => push_integer(out, count),
        Number::Signed(number) => {
            if number < 0 {
                out.push('-');
            }
            push_integer(out, number.unsigned_abs());
        }
        Number::Ms(ms) if ms < EXACT_MS => push_thousandths(out, ms),
        Number::SignedMs(ms) if ms.unsigned_abs() < EXACT_MS => {
            if ms < 0 {
                out.push('-');
            }
            push_thousandths(out, ms.unsigned_abs());
        }
        Number::Ms(ms) => push_float(out, seconds(ms)),
        Number::SignedMs(ms) => push_float(out, signed_seconds(ms)),
    }
}

fn push_integer(out: &mut String, number: u64) {
    // Most figures of a page are small.
    match u8::try_from(number) {
        Ok(digit @ 0..10) => out.push(char::from(b'0' + digit)),
        _ => out.push_str(itoa::Buffer::new().format(number)),
    }
}

/// A float's text without a float: the shortest that reads back the same has no more than three decimals.
fn push_thousandths(out: &mut String, thousandths: u64) {
    push_integer(out, thousandths / 1000);
    let rest = thousandths % 1000;
    if rest == 0 {
        out.push_str(".0");
        return;
    }
    out.push('.');
    let mut unit = 100;
    let mut left = rest;
    while left > 0 {
        push_integer(out, left / unit);
        left %= unit;
        unit /= 10;
    }
}

fn push_float(out: &mut String, number: f64) {
    // A string takes everything.
    let _written = write!(out, "{number:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: Number) -> String {
        let mut out = String::new();
        push_number(&mut out, number);
        out
    }

    #[test]
    fn seconds_are_written_as_floats_are() {
        let mut random = fastrand::Rng::with_seed(3);
        let fixed =
            [0, 1, 9, 10, 25, 99, 100, 101, 110, 999, 1_000, 1_001, 60_000, 1_763_783_522_120, EXACT_MS - 1, u64::MAX];
        for ms in fixed.into_iter().chain(std::iter::repeat_with(|| random.u64(..) >> random.u32(11..64)).take(20_000))
        {
            assert_eq!(text(Number::Ms(ms)), format!("{:?}", seconds(ms)), "{ms}");
            let signed = i64::try_from(ms).unwrap_or(i64::MAX);
            for signed in [signed, -signed].into_iter().filter(|signed| *signed != 0) {
                assert_eq!(text(Number::SignedMs(signed)), format!("{:?}", signed_seconds(signed)), "{signed}");
                assert_eq!(text(Number::Signed(signed)), signed.to_string());
            }
            assert_eq!(text(Number::Count(ms)), ms.to_string());
        }
    }

    #[test]
    fn labels_are_escaped() {
        let mut out = String::new();
        push_label(&mut out, true, "a", "plain");
        push_label(&mut out, false, "b", "q\"b\\n\nü");
        assert_eq!(out, "a=\"plain\",b=\"q\\\"b\\\\n\\nü\"");
    }
}
