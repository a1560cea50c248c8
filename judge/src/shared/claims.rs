//! The workers' claims over time, and two of them that contradict each other.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::event::EventKind;
use crate::reading::{ClaimsReading, Held, Mode, Overrun, Unknown};
use crate::seldom::Seldom;
use crate::step::Log;
use crate::time::Mono;

/// Number of samples in which a claim must have changed during one hold. A single change may be the
/// last one of a worker that stops.
pub(crate) const CLAIM_GOES_ON: u32 = 2;

/// Number of times that a claim must have changed during another's hold, wherever these holds
/// came between the claimant's own. A worker whose lock was handed on claims for a moment longer.
const CROSSINGS: usize = 3;
/// They must lie within this time, in milliseconds, or within three times `fresh_for`.
const CROSSINGS_MS: u64 = 900_000;

/// The workers' claims over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    claims: Seldom<Vec<Claim>>,
    read_before: bool,
    newest: Mono,
    /// The newest attempt to read them failed.
    unread: Option<Unknown>,
    /// That was reported.
    is_reported: bool,
    /// Absent until there is any.
    rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug, Default)]
struct Rare {
    /// Instances and tokens of the overruns that are there.
    overruns: Vec<(Vec<u8>, u64)>,
    /// Claims that changed while another certainly held the lock, since it was last seen free.
    crossings: Vec<Crossing>,
}

/// The hold during which claims are weighed.
#[derive(Clone, Copy)]
pub(crate) struct Weighed<'a> {
    pub(crate) held: &'a Held,
    /// Since when that hold certainly continues.
    pub(crate) sure_since: Mono,
    /// Since when its deadline stood still; `None`: it has none that shows anything.
    pub(crate) still_since: Option<Mono>,
}

/// A claim that changed between two readings that both show the same deadline of one other holder.
#[derive(Clone, Debug)]
struct Crossing {
    claimant: Vec<u8>,
    holder: Vec<u8>,
    /// The newest such changes, oldest first. Of those within half of `fresh_for`, the first.
    at: Vec<Mono>,
}

impl Crossing {
    /// Whether the claim went on during that holder, as of `now`.
    fn goes_on(&self, now: Mono, fresh_for_ms: u64) -> bool {
        let within_ms = CROSSINGS_MS.max(fresh_for_ms.saturating_mul(3));
        let first = self.at.first().filter(|_| self.at.len() == CROSSINGS);
        first.is_some_and(|first| now.since_ms(*first) <= within_ms)
    }
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
    /// whether the change was during one hold.
    unweighed: Option<Mono>,
    /// Number of changes since the present hold began, by its holder or while it certainly
    /// continued. No other client can have held the lock for a moment and made them.
    during: u32,
}

impl Claim {
    fn alive(&self, now: Mono, fresh_for_ms: u64) -> bool {
        self.alive_since.is_some()
            && self.changed.is_some_and(|changed| now.since_ms(changed) <= fresh_for_ms)
    }
}

impl Rare {
    /// Counts a change of a claim, seen at `at`, during the hold of another. `who`: the claimant
    /// and the holder.
    fn cross(&mut self, who: (&[u8], &[u8]), at: Mono, fresh_for_ms: u64) {
        let is_known = |crossing: &&mut Crossing| (&*crossing.claimant, &*crossing.holder) == who;
        let Some(crossing) = self.crossings.iter_mut().find(is_known) else {
            let (claimant, holder) = (who.0.to_vec(), who.1.to_vec());
            return self.crossings.push(Crossing { claimant, holder, at: Vec::from([at]) });
        };
        let newest = crossing.at.last().copied().unwrap_or_default();
        if at.since_ms(newest).saturating_mul(2) >= fresh_for_ms {
            if crossing.at.len() == CROSSINGS {
                crossing.at.remove(0);
            }
            crossing.at.push(at);
        }
    }
}

impl Claims {
    /// Takes in a reading; returns the claims that changed in it. That they cannot be read is
    /// reported once for as long as it lasts.
    pub(crate) fn observe(
        &mut self,
        reading: &ClaimsReading,
        at: Mono,
        fresh_for_ms: u64,
        log: &mut Log,
    ) -> Vec<Vec<u8>> {
        let stated = match reading {
            ClaimsReading::Read(stated) => stated,
            ClaimsReading::Unknown(why) => {
                self.unread(*why);
                if !core::mem::replace(&mut self.is_reported, true) {
                    log.push(EventKind::ClaimsUnreadable { why: *why });
                }
                return Vec::new();
            }
        };
        self.is_reported = false;
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
                        during: 0,
                    }
                }
            };
            claims.push(claim);
        }
        self.claims = claims.into_iter().collect();
        self.forget_crossings_of_the_dead();
        self.read_before = true;
        self.unread = None;
        self.newest = self.newest.max(at);
        changed
    }

    /// Takes in the overruns that are there; returns those that are new since the reading
    /// before.
    /// Call it before [`Claims::observe`]: what was there at the first reading may be old.
    pub(crate) fn overran(&mut self, stated: &[Overrun]) -> Vec<Overrun> {
        let of = |overrun: &Overrun| (overrun.instance.clone(), overrun.token);
        if stated.is_empty() && self.rare.is_none() {
            return Vec::new();
        }
        let known = &mut self.rare.get_or_insert_default().overruns;
        let new = stated.iter().filter(|overrun| !known.contains(&of(overrun))).cloned().collect();
        *known = stated.iter().map(of).collect();
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

    /// Another hold began, or the lock is free. Claims during the previous hold say nothing about
    /// this one.
    pub(crate) fn hold_changed(&mut self) {
        self.claims.present().into_iter().flatten().for_each(|claim| claim.during = 0);
    }

    /// Nobody held the lock. Who takes turns with pauses claims while nobody holds.
    pub(crate) fn seen_free(&mut self) {
        self.rare.iter_mut().for_each(|rare| rare.crossings.clear());
    }

    /// Takes in the hold as of a reading of the lock. Returns the claims that changed during it.
    /// Readers share their lock, so no claim during their hold contradicts another.
    pub(crate) fn weigh(&mut self, hold: Option<Weighed<'_>>, fresh_for_ms: u64) -> Vec<Vec<u8>> {
        let hold = hold.filter(|hold| hold.held.mode != Mode::Read);
        let mut during = Vec::new();
        for claim in self.claims.present().into_iter().flatten() {
            let (Some(before), Some(hold)) = (claim.unweighed.take(), hold) else {
                continue;
            };
            if hold.held.holders.iter().any(|holder| holder.client == claim.instance) {
                claim.during += 1;
                continue;
            }
            if hold.sure_since <= before {
                claim.during += 1;
                during.push(claim.instance.clone());
            }
            if let ([holder], Some(still_since)) = (&*hold.held.holders, hold.still_since)
                && still_since <= before
            {
                let rare = self.rare.get_or_insert_default();
                rare.cross((&claim.instance, &holder.client), self.newest, fresh_for_ms);
            }
        }
        during
    }

    /// What was seen of a claim before it fell silent does not count when it lives again.
    fn forget_crossings_of_the_dead(&mut self) {
        let Some(rare) = &mut self.rare else { return };
        let alive_since = |instance: &[u8]| {
            self.claims.iter().find(|claim| claim.instance == instance)?.alive_since
        };
        rare.crossings.retain(|crossing| {
            let first = crossing.at.first().copied().unwrap_or_default();
            alive_since(&crossing.claimant).is_some_and(|since| since <= first)
        });
    }

    /// Whether the claim of `a` went on during the hold of `b`.
    fn crosses(&self, a: &Claim, b: &Claim, fresh_for_ms: u64) -> bool {
        let crossings = self.rare.iter().flat_map(|rare| &rare.crossings);
        crossings.into_iter().any(|crossing| {
            crossing.claimant == a.instance
                && crossing.holder == b.instance
                && crossing.goes_on(self.newest, fresh_for_ms)
        })
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

    /// Returns two claims that each changed in two different samples after both were alive, during
    /// one hold, and neither of them only before the other. Changes in sequence also occur when a
    /// lock is handed over and soon returned. Or two of which each went on during the other's
    /// holds, however often the lock changed hands.
    pub(crate) fn contradicting(&self, fresh_for_ms: u64) -> Option<[Vec<u8>; 2]> {
        let live: Vec<&Claim> =
            self.claims.iter().filter(|claim| claim.alive(self.newest, fresh_for_ms)).collect();
        for (position, a) in live.iter().enumerate() {
            for b in live.iter().skip(position + 1) {
                let both_since = a.alive_since.max(b.alive_since);
                let side_by_side = a.changed_before < b.changed && b.changed_before < a.changed;
                let one_hold = a.during.min(b.during) >= CLAIM_GOES_ON;
                let during_one = a.changed_before > both_since
                    && b.changed_before > both_since
                    && side_by_side
                    && one_hold;
                let across =
                    || self.crosses(a, b, fresh_for_ms) && self.crosses(b, a, fresh_for_ms);
                if during_one || across() {
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
        during: if was_alive { claim.during } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn an_overrun_counts_once_and_only_if_it_was_stated_meanwhile() {
        let overrun =
            |instance: &[u8], token| Overrun { instance: instance.to_vec(), token, ms: 7 };
        let (old, new) = (overrun(b"A", 3), overrun(b"B", 4));
        let mut claims = Claims::default();
        let mut new_in = |overruns: &[Overrun]| {
            let new = claims.overran(overruns);
            let mut log = Log::new(Mono::at(0), None);
            claims.observe(&ClaimsReading::Read(vec![]), Mono::at(0), 1, &mut log);
            new
        };
        assert_eq!(new_in(core::slice::from_ref(&old)), [], "it may be old");
        assert_eq!(new_in(&[old.clone(), new.clone()]), core::slice::from_ref(&new));
        assert_eq!(new_in(&[old.clone(), new]), []);
        let again = Overrun { token: 5, ..old.clone() };
        assert_eq!(new_in(core::slice::from_ref(&again)), core::slice::from_ref(&again));
    }
}
