//! Holds that are identified by their deadlines.

/// Deadlines of one hold are equal modulo this, in milliseconds.
const CYCLE_MS: i64 = 400_000;
/// Minimum distance of the deadlines of two holds with different marks, modulo the cycle.
const STEP_MS: i64 = 4_000;
/// Coprime to the number of marks, so that successive holds are far apart.
const STRIDE: i64 = 37;
const LEASE_MS: i64 = 20_000;

/// The instance id of the hold `number`.
pub(super) fn instance(number: i64) -> String {
    format!("hold-{number}")
}

/// The number of the hold with this instance id.
pub(super) fn number(instance: &str) -> Option<i64> {
    instance.strip_prefix("hold-")?.parse().ok()
}

/// A deadline for the hold, about one lease after `now_ms`.
pub(super) fn deadline_ms(number: i64, now_ms: i64) -> i64 {
    let about = now_ms + LEASE_MS;
    about + (mark(number) - about).rem_euclid(CYCLE_MS)
}

/// How much later a deadline is than one of the hold; negative if it is earlier.
pub(super) fn later_ms(number: i64, deadline_ms: i64) -> i64 {
    let after = (deadline_ms - mark(number)).rem_euclid(CYCLE_MS);
    if after > CYCLE_MS / 2 { after - CYCLE_MS } else { after }
}

fn mark(number: i64) -> i64 {
    (number * STRIDE * STEP_MS).rem_euclid(CYCLE_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_tells_its_hold() {
        for number in 0..500 {
            for now in [0, 1, 1_800_000_000_123, 1_800_000_009_999] {
                let deadline = deadline_ms(number, now);
                assert!((now + LEASE_MS..now + LEASE_MS + CYCLE_MS).contains(&deadline));
                assert_eq!((later_ms(number, deadline), later_ms(number, deadline - 3)), (0, -3));
                let others = (number + 1)..(number + 100);
                assert!(others.into_iter().all(|other| later_ms(other, deadline).abs() >= STEP_MS));
            }
        }
        assert_eq!(super::number(&instance(17)), Some(17));
    }
}
