//! The workers' claims over time, and two of them that contradict each other.

use alloc::vec::Vec;

use crate::reading::{ClaimsReading, Held, Mode, Overrun, Unknown};
use crate::time::Mono;

/// Number of samples in which a claim must have changed beside one hold. A single change may be the
/// last one of a worker that stops.
pub(crate) const CLAIM_GOES_ON: u32 = 2;

/// The workers' claims over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    claims: Vec<Claim>,
    read_before: bool,
    newest: Mono,
    /// The newest attempt to read them failed.
    unread: Option<Unknown>,
    /// Instances and tokens of the overruns that are there.
    overruns: Vec<(Vec<u8>, u64)>,
}

#[derive(Clone, Debug)]
struct Claim {
    instance: Vec<u8>,
    value: Vec<u8>,
    /// Since when the claim has been seen to change without interruption.
    alive_since: Option<Mono>,
    /// The newest change and the one before it, in different samples.
    changed: Option<Mono>,
    changed_before: Option<Mono>,
    /// When the claims were read before the newest change. Set until a reading of the lock shows
    /// whether the change was beside one hold.
    unweighed: Option<Mono>,
    /// Number of changes since the present hold began, by its holder or while it certainly
    /// continued. No other client can have held the lock for a moment and made them.
    beside: u32,
}

impl Claim {
    fn alive(&self, now: Mono, fresh_for_ms: u64) -> bool {
        self.alive_since.is_some()
            && self.changed.is_some_and(|changed| now.since_ms(changed) <= fresh_for_ms)
    }
}

impl Claims {
    /// Takes in a reading; returns the claims that changed in it.
    pub(crate) fn observe(
        &mut self,
        reading: &ClaimsReading,
        at: Mono,
        fresh_for_ms: u64,
    ) -> Vec<Vec<u8>> {
        let stated = match reading {
            ClaimsReading::Read(stated) => stated,
            ClaimsReading::Unknown(why) => {
                self.unread(*why);
                return Vec::new();
            }
        };
        let mut changed = Vec::new();
        let mut claims = Vec::with_capacity(stated.len());
        for (instance, value) in stated {
            let known = self.claims.iter().find(|claim| claim.instance == *instance);
            let claim = match known {
                Some(claim) if claim.value == *value => claim.clone(),
                Some(claim) => {
                    changed.push(instance.clone());
                    changed_claim(claim, value, at, self.newest, fresh_for_ms)
                }
                // A field that existed before the first reading may be old; a new one was just
                // written.
                None => {
                    let written = self.read_before.then_some(at);
                    changed.extend(written.map(|_| instance.clone()));
                    Claim {
                        instance: instance.clone(),
                        value: value.clone(),
                        alive_since: written,
                        changed: written,
                        changed_before: None,
                        unweighed: written.map(|_| self.newest),
                        beside: 0,
                    }
                }
            };
            claims.push(claim);
        }
        self.claims = claims;
        self.read_before = true;
        self.unread = None;
        self.newest = self.newest.max(at);
        changed
    }

    /// Takes in the overruns that are there; returns those that were told since the reading before.
    /// Call it before [`Claims::observe`]: what was there at the first reading may be old.
    pub(crate) fn overran(&mut self, told: &[Overrun]) -> Vec<Overrun> {
        let of = |overrun: &Overrun| (overrun.instance.clone(), overrun.token);
        let is_new = |overrun: &&Overrun| !self.overruns.contains(&of(overrun));
        let new: Vec<Overrun> = told.iter().filter(is_new).cloned().collect();
        self.overruns = told.iter().map(of).collect();
        if self.read_before { new } else { Vec::new() }
    }

    /// The claims could not be read, so it is unknown which ones are alive.
    pub(crate) fn unread(&mut self, why: Unknown) {
        self.unread = Some(why);
    }

    /// Why the newest attempt is no answer.
    pub(crate) fn why_unknown(&self) -> Option<Unknown> {
        self.unread
    }

    /// Another hold began, or the lock is free. Claims beside the previous hold say nothing about
    /// this one.
    pub(crate) fn hold_changed(&mut self) {
        self.claims.iter_mut().for_each(|claim| claim.beside = 0);
    }

    /// Takes in the holders, and since when that hold certainly continues, as of a reading of the
    /// lock. Returns the claims that changed beside it. Readers share their lock, so no claim
    /// beside them contradicts another.
    pub(crate) fn weigh(&mut self, hold: Option<(&Held, Mono)>) -> Vec<Vec<u8>> {
        let hold = hold.filter(|(held, _)| held.mode != Mode::Read);
        let mut beside = Vec::new();
        for claim in &mut self.claims {
            let (Some(before), Some((held, sure_since))) = (claim.unweighed.take(), hold) else {
                continue;
            };
            if held.holders.iter().any(|holder| holder.client == claim.instance) {
                claim.beside += 1;
            } else if sure_since <= before {
                claim.beside += 1;
                beside.push(claim.instance.clone());
            }
        }
        beside
    }

    /// Instances whose claim is alive; `None` when unknown.
    pub(crate) fn live(&self, fresh_for_ms: u64) -> Option<Vec<Vec<u8>>> {
        if self.unread.is_some() {
            return None;
        }
        let live = self.claims.iter().filter(|claim| claim.alive(self.newest, fresh_for_ms));
        Some(live.map(|claim| claim.instance.clone()).collect())
    }

    /// Whether the claim of `instance` was seen to change, and has not changed for too long.
    pub(crate) fn fell_silent(&self, instance: &[u8], fresh_for_ms: u64) -> bool {
        let is_silent = |claim: &Claim| {
            claim.instance == instance
                && claim.changed.is_some()
                && !claim.alive(self.newest, fresh_for_ms)
        };
        self.unread.is_none() && self.claims.iter().any(is_silent)
    }

    pub(crate) fn is_live(&self, instance: &[u8], fresh_for_ms: u64) -> bool {
        self.claims
            .iter()
            .any(|claim| claim.instance == instance && claim.alive(self.newest, fresh_for_ms))
    }

    /// Returns two claims that each changed in two different samples after both were alive, beside
    /// one hold, and neither of them only before the other. Changes in sequence also occur when a
    /// lock is handed over and soon returned.
    pub(crate) fn contradicting(&self, fresh_for_ms: u64) -> Option<[Vec<u8>; 2]> {
        let live: Vec<&Claim> =
            self.claims.iter().filter(|claim| claim.alive(self.newest, fresh_for_ms)).collect();
        for (position, a) in live.iter().enumerate() {
            for b in live.iter().skip(position + 1) {
                let both_since = a.alive_since.max(b.alive_since);
                let side_by_side = a.changed_before < b.changed && b.changed_before < a.changed;
                let one_hold = a.beside.min(b.beside) >= CLAIM_GOES_ON;
                if a.changed_before > both_since
                    && b.changed_before > both_since
                    && side_by_side
                    && one_hold
                {
                    return Some([a.instance.clone(), b.instance.clone()]);
                }
            }
        }
        None
    }
}

/// A claim that changed between two readings of the claims, at `before` and `at`.
fn changed_claim(claim: &Claim, value: &[u8], at: Mono, before: Mono, fresh_for_ms: u64) -> Claim {
    let was_alive = claim.alive(at, fresh_for_ms);
    Claim {
        instance: claim.instance.clone(),
        value: value.to_vec(),
        alive_since: if was_alive { claim.alive_since } else { Some(at) },
        changed: Some(at),
        changed_before: if was_alive { claim.changed } else { None },
        unweighed: Some(before),
        beside: if was_alive { claim.beside } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn an_overrun_counts_once_and_only_if_it_was_told_meanwhile() {
        let overrun =
            |instance: &[u8], token| Overrun { instance: instance.to_vec(), token, ms: 7 };
        let (old, new) = (overrun(b"A", 3), overrun(b"B", 4));
        let mut claims = Claims::default();
        let mut told = |overruns: &[Overrun]| {
            let new = claims.overran(overruns);
            claims.observe(&ClaimsReading::Read(vec![]), Mono(0), 1);
            new
        };
        assert_eq!(told(core::slice::from_ref(&old)), [], "it may be old");
        assert_eq!(told(&[old.clone(), new.clone()]), core::slice::from_ref(&new));
        assert_eq!(told(&[old.clone(), new]), []);
        let again = Overrun { token: 5, ..old.clone() };
        assert_eq!(told(core::slice::from_ref(&again)), core::slice::from_ref(&again));
    }
}
