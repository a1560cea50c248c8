//! Durations as people write them: `500ms`, `10s`, `1m30s`, `1d`.

/// The accepted form, for messages.
pub(crate) const EXAMPLES: &str = "write it like 500ms, 10s, 5m, 12h, 1d or 1m30s";

/// The units, longest first, with their milliseconds.
const UNITS: [(&str, u64); 6] = [
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// Parses a duration into milliseconds: whole numbers with units, the longer unit first, each unit
/// at most once. A value that overflows becomes `u64::MAX`.
///
/// # Errors
/// What is wrong with it, and how to write it.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let wrong = || format!("is not a duration; {EXAMPLES}");
    let mut rest = text;
    let mut total_ms: u64 = 0;
    let mut units_left = UNITS.as_slice();
    while !rest.is_empty() || units_left.len() == UNITS.len() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at(letters);
        if unit.is_empty() && after.is_empty() && !number.is_empty() {
            return Err(format!("has no unit; {EXAMPLES}"));
        }
        if number.is_empty() {
            return Err(wrong());
        }
        let place = units_left.iter().position(|(name, _)| *name == unit).ok_or_else(wrong)?;
        let (units_after, unit_ms) = match units_left.split_at(place).1 {
            [(_, unit_ms), units_after @ ..] => (units_after, *unit_ms),
            [] => return Err(wrong()),
        };
        let part_ms = number.parse().unwrap_or(u64::MAX).saturating_mul(unit_ms);
        total_ms = total_ms.saturating_add(part_ms);
        units_left = units_after;
        rest = after;
    }
    Ok(total_ms)
}

/// Formats milliseconds in the form that [`parse_duration_ms`] accepts.
pub fn duration_text(ms: u64) -> String {
    let mut left_ms = ms;
    let mut text = String::new();
    for (unit, unit_ms) in UNITS.iter().filter(|(unit, _)| *unit != "w") {
        let count = left_ms / unit_ms;
        left_ms %= unit_ms;
        if count > 0 {
            text.push_str(&format!("{count}{unit}"));
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (written, ms) in [
            ("500ms", 500),
            ("10s", 10_000),
            ("5m", 300_000),
            ("12h", 43_200_000),
            ("1d", 86_400_000),
            ("1m30s", 90_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration_ms(written), Ok(ms), "{written}");
            assert_eq!(duration_text(ms), written);
        }
        assert_eq!(parse_duration_ms("1w"), Ok(604_800_000));
        assert_eq!(duration_text(604_800_000), "7d");
    }

    #[test]
    fn anything_else_is_refused() {
        for wrong in [
            "", "s", "-1s", "1.5s", " 1s", "1s ", "1 s", "30s1m", "1s1s", "1µs", "1S", "1ms1",
            "１s", "1y",
        ] {
            assert!(parse_duration_ms(wrong).is_err(), "{wrong}");
        }
        assert!(parse_duration_ms("10").unwrap_err().starts_with("has no unit"));
        for endless in
            ["99999999999999999999s", "18446744073709551615w", "18446744073709551615s999ms"]
        {
            assert_eq!(parse_duration_ms(endless), Ok(u64::MAX));
        }
    }
}
