//! Instants and durations in outputs: RFC 3339 in UTC with milliseconds, and seconds.

/// Days in 400 Gregorian years.
const DAYS_PER_ERA: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_EPOCH: i64 = 719_468;
const MS_PER_DAY: i64 = 86_400_000;

/// `epoch_ms` (milliseconds since the Unix epoch) as `2026-01-31T23:59:59.999Z`; `None` outside the
/// years 0000 to 9999, the range of RFC 3339.
pub fn rfc3339(epoch_ms: i64) -> Option<String> {
    let (days, ms_of_day) = (epoch_ms.div_euclid(MS_PER_DAY), epoch_ms.rem_euclid(MS_PER_DAY));
    let (year, month, day) = civil(days);
    if !(0..=9999).contains(&year) {
        return None;
    }
    let (seconds, ms) = (ms_of_day / 1000, ms_of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z"))
}

/// Milliseconds as seconds, the base unit of every output.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 285,000 years, and readers know only f64"
)]
pub fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// The same for values that may be negative.
#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 285,000 years, and readers know only f64"
)]
pub fn signed_seconds(ms: i64) -> f64 {
    ms as f64 / 1000.0
}

/// Year, month and day of a day counted from the Unix epoch, in the proleptic Gregorian calendar.
/// Internally a year begins in March, so that the leap day is its last day.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_EPOCH;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (4_107_456_000_000, "2100-02-28T00:00:00.000Z"),
            (1_767_225_599_001, "2025-12-31T23:59:59.001Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
        ];
        for (ms, text) in cases {
            assert_eq!(rfc3339(ms).as_deref(), Some(text), "{ms}");
        }
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let mut expected = (1600, 1, 1);
        let first = -135_140; // 1600-01-01
        for days in first..first + 2 * DAYS_PER_ERA {
            assert_eq!(civil(days), expected);
            expected = next_day(expected);
        }
    }

    fn next_day((year, month, day): (i64, i64, i64)) -> (i64, i64, i64) {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        match (day < length, month < 12) {
            (true, _) => (year, month, day + 1),
            (false, true) => (year, month + 1, 1),
            (false, false) => (year + 1, 1, 1),
        }
    }

    #[test]
    fn what_cannot_be_written_is_absent() {
        for ms in [i64::MIN, i64::MAX, 253_402_300_800_000, -62_167_219_200_001] {
            assert_eq!(rfc3339(ms), None);
        }
    }
}
