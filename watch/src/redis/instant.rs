//! Reads instants as programs write them into keys: Unix time or RFC 3339.

use lockwatch_judge::spec::Unit;
use lockwatch_judge::time::ServerTime;

/// Numbers that may be Unix times, in seconds: from September 2001 to the year 2096.
const PLAUSIBLE_S: core::ops::Range<i64> = 1_000_000_000..4_000_000_000;

/// Unix seconds, perhaps with a fraction, or RFC 3339.
pub(super) fn seconds_or_rfc3339(text: &[u8]) -> Option<ServerTime> {
    unix_seconds(text).or_else(|| rfc3339(text)).map(ServerTime::at)
}

/// Unix time in seconds, milliseconds, microseconds or nanoseconds, perhaps with a fraction, or RFC
/// 3339. A number that is far from the present is none.
pub(super) fn any(text: &[u8]) -> Option<ServerTime> {
    unix_of_any_unit(text).or_else(|| rfc3339(text)).map(ServerTime::at)
}

/// A number in this unit, perhaps with a fraction or an exponent, as programs and Redis write
/// numbers.
pub(super) fn of_unit(text: &[u8], unit: Unit) -> Option<ServerTime> {
    let text = core::str::from_utf8(text.trim_ascii()).ok()?;
    let per_unit = match unit {
        Unit::Milliseconds => 1,
        Unit::Seconds => 1_000,
    };
    if let Ok(whole) = text.parse::<i64>() {
        return Some(ServerTime::at(whole.saturating_mul(per_unit)));
    }
    let is_number = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let number: f64 = text.bytes().all(is_number).then(|| text.parse().ok())??;
    // A conversion from a float saturates, and scales whole milliseconds exactly enough.
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "see above")]
    let ms = (number * per_unit as f64) as i64;
    number.is_finite().then_some(ServerTime::at(ms))
}

/// The unit in which a number is an instant at most `within_ms` before or after `now`.
pub fn unit_near(text: &[u8], now: ServerTime, within_ms: i64) -> Option<Unit> {
    let is_near = |unit: &Unit| {
        let at = of_unit(text, *unit);
        at.is_some_and(|at| (at.ms().saturating_sub(now.ms())).saturating_abs() <= within_ms)
    };
    Unit::ALL.into_iter().find(is_near)
}

fn unix_of_any_unit(text: &[u8]) -> Option<i64> {
    let (whole, fraction) = split_once(text, b'.').unwrap_or((text, b"0"));
    number(fraction, 1, 18)?;
    let number = number(whole, 10, 19)?;
    let per_second = match whole.len() {
        10 => 1,
        13 => 1_000,
        16 => 1_000_000,
        19 => 1_000_000_000,
        _ => return None,
    };
    PLAUSIBLE_S.contains(&(number / per_second)).then_some(())?;
    Some(match per_second {
        1 => number * 1_000 + thousandths(fraction)?,
        _ => number / (per_second / 1_000),
    })
}

/// Parses `1700000000` or `1700000000.25` to milliseconds.
fn unix_seconds(text: &[u8]) -> Option<i64> {
    let (whole, fraction) = split_once(text, b'.').unwrap_or((text, b"0"));
    let seconds = number(whole, 1, 12)?;
    Some(seconds.checked_mul(1_000)?.saturating_add(thousandths(fraction)?))
}

/// Parses `2026-11-21T10:00:00.5+01:00` to milliseconds since the Unix epoch.
pub fn rfc3339(text: &[u8]) -> Option<i64> {
    let date = (
        number(text.get(..4)?, 4, 4)?,
        number(text.get(5..7)?, 2, 2)?,
        number(text.get(8..10)?, 2, 2)?,
    );
    let time = (
        number(text.get(11..13)?, 2, 2)?,
        number(text.get(14..16)?, 2, 2)?,
        number(text.get(17..19)?, 2, 2)?,
    );
    let separators = [
        *text.get(4)?,
        *text.get(7)?,
        text.get(10)?.to_ascii_uppercase(),
        *text.get(13)?,
        *text.get(16)?,
    ];
    let in_range = (1..=12).contains(&date.1)
        && (1..=days_in_month(date.0, date.1)).contains(&date.2)
        && time.0 < 24
        && time.1 < 60
        && time.2 <= 60;
    if !in_range || !matches!(&separators, b"--T::" | b"-- ::") {
        return None;
    }
    let rest = text.get(19..)?;
    let (millis, zone) = match rest.strip_prefix(b".") {
        Some(rest) => {
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            (thousandths(rest.get(..digits)?)?, rest.get(digits..)?)
        }
        None => (0, rest),
    };
    let seconds = days_from_epoch(date) * 86_400 + time.0 * 3_600 + time.1 * 60 + time.2
        - zone_seconds(zone)?;
    Some(seconds * 1_000 + millis)
}

/// Offset of a zone from UTC in seconds; positive is east.
fn zone_seconds(zone: &[u8]) -> Option<i64> {
    if matches!(zone, b"Z" | b"z") {
        return Some(0);
    }
    let (sign, rest) = match zone.split_first()? {
        (b'+', rest) => (1, rest),
        (b'-', rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = split_once(rest, b':')?;
    let (hours, minutes) = (number(hours, 2, 2)?, number(minutes, 2, 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3_600 + minutes * 60))
}

/// Days from 1970-01-01 to a date of the Gregorian calendar. Years begin in March here, so that a
/// leap day is the last day.
fn days_from_epoch((year, month, day): (i64, i64, i64)) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => 31,
    }
}

/// Converts fraction digits to milliseconds: `5` to 500, `25` to 250, `1234` to 123.
fn thousandths(digits: &[u8]) -> Option<i64> {
    number(digits, 1, 18)?;
    let digit = |at: usize| i64::from(digits.get(at).copied().unwrap_or(b'0') - b'0');
    Some(digit(0) * 100 + digit(1) * 10 + digit(2))
}

fn number(text: &[u8], min_digits: usize, max_digits: usize) -> Option<i64> {
    let fits =
        (min_digits..=max_digits).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    if fits { core::str::from_utf8(text).ok()?.parse().ok() } else { None }
}

fn split_once(text: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == separator)?;
    Some((text.get(..at)?, text.get(at + 1..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(text: &str) -> Option<i64> {
        seconds_or_rfc3339(text.as_bytes()).map(|time| time.ms())
    }

    #[test]
    fn both_forms_are_read() {
        assert_eq!(ms("1700000000"), Some(1_700_000_000_000));
        assert_eq!(ms("1700000000.25"), Some(1_700_000_000_250));
        assert_eq!(ms("1700000000.1234"), Some(1_700_000_000_123));
        assert_eq!(ms("2000-02-29T00:00:00Z"), Some(951_782_400_000));
        assert_eq!(ms("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(ms("2023-11-14T22:13:20Z"), Some(1_700_000_000_000));
        assert_eq!(ms("2023-11-14T23:13:20.5+01:00"), Some(1_700_000_000_500));
        assert_eq!(ms("2023-11-14 20:43:20-01:30"), Some(1_700_000_000_000));
        assert_eq!(ms("2023-11-13T22:14:20-23:59"), Some(1_700_000_000_000));
        assert_eq!(ms("2024-02-29T00:00:00Z"), Some(1_709_164_800_000));
        assert_eq!(ms("2000-03-01T00:00:00Z"), Some(951_868_800_000));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "soon",
            "-1",
            "1e9",
            "1700000000.",
            "17000000000000",
            "1700000000000",
            "2023-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2023-04-31T00:00:00Z",
            "2023-13-01T00:00:00Z",
            "2023-11-14T22:13:20",
            "2023-11-14T24:13:20Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T25:13:20Z",
            "2023-11-14T22:60:20Z",
            "2023-11-14T22:13:61Z",
            "2023-11-14T22:13:20+24:00",
            "2023-11-14T22:13:20+00:60",
            "2023-11-14",
            "2023-11-14T22:13:20.Z",
            "2023/11/14T22:13:20Z",
            "2023-11-14T22:13:20+1:00",
            "2023-11-1\u{e9}T22:13:20Z",
        ] {
            assert_eq!(ms(text), None, "{text}");
        }
    }

    #[test]
    fn a_number_has_the_unit_that_is_configured() {
        let ms = |text: &str, unit| of_unit(text.as_bytes(), unit).map(|time| time.ms());
        for (text, seconds, milliseconds) in [
            ("1700000000", Some(1_700_000_000_000), Some(1_700_000_000)),
            ("1700000000.25", Some(1_700_000_000_250), Some(1_700_000_000)),
            ("1.7e+9", Some(1_700_000_000_000), Some(1_700_000_000)),
            (" 5\n", Some(5_000), Some(5)),
            ("-1", Some(-1_000), Some(-1)),
            ("9223372036854775807", Some(i64::MAX), Some(i64::MAX)),
            ("inf", None, None),
            ("nan", None, None),
            ("", None, None),
            ("soon", None, None),
            ("1e999", None, None),
        ] {
            assert_eq!(ms(text, Unit::Seconds), seconds, "{text}");
            assert_eq!(ms(text, Unit::Milliseconds), milliseconds, "{text}");
        }
    }

    #[test]
    fn a_number_of_any_unit_may_be_a_time() {
        let ms = |text: &str| any(text.as_bytes()).map(|time| time.ms());
        for text in [
            "1700000000",
            "1700000000.0",
            "1700000000000",
            "1700000000000000",
            "1700000000000000000",
            "1700000000000.25",
            "2023-11-14T22:13:20Z",
        ] {
            assert_eq!(ms(text), Some(1_700_000_000_000), "{text}");
        }
        for text in ["", "7", "170000000", "425011000000151", "999999999", "4200000000000", "web-1"]
        {
            assert_eq!(ms(text), None, "{text}");
        }
    }
}
