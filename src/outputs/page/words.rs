//! Durations in the words of the pages. The script uses the same words for texts that depend on
//! time.

/// A duration that still grows, in whole units.
pub(super) fn running(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A duration that has ended; short ones with tenths.
pub(super) fn lasted(ms: u64) -> String {
    if ms < 10_000 { format!("{}.{} s", ms / 1000, ms / 100 % 10) } else { running(ms) }
}

/// A limit as it was configured: never rounded.
pub(super) fn limit(ms: u64) -> String {
    let whole = |unit_ms: u64| ms >= unit_ms && ms.is_multiple_of(unit_ms);
    match ms {
        _ if whole(86_400_000) => format!("{} d", ms / 86_400_000),
        _ if whole(3_600_000) => format!("{} h", ms / 3_600_000),
        _ if whole(60_000) => format!("{} min", ms / 60_000),
        _ if ms == 0 || whole(1_000) => format!("{} s", ms / 1_000),
        _ => format!("{ms} ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_and_what_is_over() {
        let cases = [
            (0, "0 s", "0.0 s"),
            (9_999, "9 s", "9.9 s"),
            (10_000, "10 s", "10 s"),
            (61_000, "1 min 1 s", "1 min 1 s"),
            (3_661_000, "1 h 1 min", "1 h 1 min"),
            (90_061_000, "1 d 1 h", "1 d 1 h"),
            (u64::MAX, "213503982334 d 14 h", "213503982334 d 14 h"),
        ];
        for (ms, while_running, after) in cases {
            assert_eq!((running(ms).as_str(), lasted(ms).as_str()), (while_running, after));
        }
    }

    #[test]
    fn limits() {
        let cases = [
            (0, "0 s"),
            (1, "1 ms"),
            (1_500, "1500 ms"),
            (90_000, "90 s"),
            (300_000, "5 min"),
            (172_800_000, "2 d"),
        ];
        for (ms, text) in cases {
            assert_eq!(limit(ms), text);
        }
    }
}
