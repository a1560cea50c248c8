//! Paces the dials of a server: at once after a loss, then with growing pauses, and never more than
//! twice a second.

use lockwatch_judge::time::Mono;

/// Upper limit of the first pause, in milliseconds.
const FIRST_MS: u64 = 100;
/// Upper limit of all pauses, in milliseconds.
pub const LONGEST_MS: u64 = 5_000;
/// Period in which at most [`DIALS`] dials are made, in milliseconds.
const WINDOW_MS: u64 = 1_000;
const DIALS: usize = 2;
/// What counts as the number of dials without a success, at most, when a server refuses the
/// credentials: the longest pause is then 800 ms.
const REFUSED: u32 = 5;

/// Decides when to dial.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace {
    /// Number of dials since the last success.
    failures: u32,
    /// The last dials, newest last.
    dials: [Option<Mono>; DIALS],
}

impl Pace {
    /// A server was dialled at `at`.
    pub(super) fn dialled(&mut self, at: Mono) {
        self.dials.rotate_left(1);
        if let Some(newest) = self.dials.last_mut() {
            *newest = Some(at);
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// The server is there, but one side refuses the other's password or certificate. Somebody may
    /// be about to replace it, so pauses stay below the usual interval: a rotation costs one tick.
    pub(super) fn refused(&mut self) {
        self.failures = self.failures.min(REFUSED);
    }

    /// Number of dials since the last success.
    pub(super) fn in_vain(&self) -> usize {
        usize::try_from(self.failures).unwrap_or(usize::MAX)
    }

    /// A batch was accepted, so the next loss starts with no pause again.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// When to dial next after a loss at `now`; `random` is any number.
    pub(super) fn next_dial(&self, now: Mono, random: u64) -> Mono {
        let jittered = now.plus_ms(jittered_ms(longest_pause_ms(self.failures), random));
        let allowed =
            self.dials.first().copied().flatten().map_or(now, |oldest| oldest.plus_ms(WINDOW_MS));
        jittered.max(allowed)
    }
}

/// The longest pause after this many dials without a success: none for the first two, then
/// doubling.
fn longest_pause_ms(failures: u32) -> u64 {
    match failures {
        0 | 1 => 0,
        more => FIRST_MS.saturating_mul(1 << (more - 2).min(16)).min(LONGEST_MS),
    }
}

/// Full jitter: a random pause between zero and the longest.
fn jittered_ms(longest_ms: u64, random: u64) -> u64 {
    random % longest_ms.saturating_add(1)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn the_first_redial_is_immediate_and_then_pauses_double_up_to_a_limit() {
        let longest: Vec<u64> = (0..11).map(longest_pause_ms).collect();
        assert_eq!(longest, [0, 0, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000, 5_000]);
        assert_eq!(longest_pause_ms(u32::MAX), 5_000);
    }

    #[test]
    fn the_jitter_covers_the_whole_pause() {
        let table = [(0, 0), (1_250, 1_250), (5_000, 5_000), (5_001, 0), (u64::MAX, 3_210)];
        for (random, expected) in table {
            assert_eq!(jittered_ms(5_000, random), expected);
        }
        assert_eq!(jittered_ms(0, u64::MAX), 0);
    }

    #[test]
    fn never_more_than_two_dials_a_second() {
        for random in [0, 1_000, u64::MAX] {
            let (mut pace, mut now, mut dials) = (Pace::default(), Mono::at(0), Vec::new());
            while now < Mono::at(20_000) {
                pace.dialled(now);
                dials.push(now.ms());
                if dials.len() % 7 == 0 {
                    pace.succeeded();
                }
                now = pace.next_dial(now.plus_ms(1), random);
            }
            assert!(dials[1] <= dials[0] + 1, "the first redial is immediate");
            assert!(dials.windows(3).all(|three| three[2] - three[0] >= 1_000), "{dials:?}");
        }
    }

    #[test]
    fn replaced_credentials_are_tried_soon() {
        let mut pace = Pace::default();
        for second in 0..100 {
            pace.dialled(Mono::at(second * 1_000));
            pace.refused();
        }
        assert_eq!(pace.next_dial(Mono::at(200_000), 800), Mono::at(200_800));
        assert_eq!(pace.next_dial(Mono::at(200_000), 801), Mono::at(200_000));
    }

    #[test]
    fn a_connection_that_worked_is_redialled_at_once() {
        let mut pace = Pace::default();
        for second in 0..5 {
            pace.dialled(Mono::at(second * 5_000));
        }
        pace.succeeded();
        assert_eq!(pace.next_dial(Mono::at(60_000), u64::MAX), Mono::at(60_000));
    }
}
