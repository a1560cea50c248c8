//! Collects evidence for two holders. Each kind of evidence has its own beginning and its own end;
//! nothing here is guessed.

pub(crate) mod witnesses;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::continuity::failover_report::Overlap;
use crate::continuity::generation::{Delta, Mark};
use crate::event::{Party, SplitKind};
use crate::reading::{ClaimsReading, Held, Holder, Mode, Unknown, clients_meet};
use crate::snapshot::SplitView;
use crate::spec::Claimants;
use crate::splits::witnesses::{Limits, Rivalry, Witnesses};
use crate::time::Mono;

/// Number of samples in which a claim must have changed beside one hold. A single change may be the
/// last one of a worker that stops.
const CLAIM_GOES_ON: u32 = 2;

/// The workers' claims over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    claims: Vec<Claim>,
    read_before: bool,
    newest: Mono,
    /// The newest attempt to read them failed.
    unread: Option<Unknown>,
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

    fn is_live(&self, instance: &[u8], fresh_for_ms: u64) -> bool {
        self.claims
            .iter()
            .any(|claim| claim.instance == instance && claim.alive(self.newest, fresh_for_ms))
    }

    /// Returns two claims that each changed in two different samples after both were alive, beside
    /// one hold, and neither of them only before the other. Changes in sequence also occur when a
    /// lock is handed over and soon returned.
    fn contradicting(&self, fresh_for_ms: u64) -> Option<[Vec<u8>; 2]> {
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

/// A hold that ended before its deadline, whose holder may still believe in it.
#[derive(Clone, Debug)]
pub(crate) struct EndedBefore {
    pub(crate) holders: Vec<Holder>,
    pub(crate) deadline: Option<Mono>,
    /// It was certainly lost: the server lost its data, or the new master never had it.
    pub(crate) surely_lost: bool,
    /// It may have been lost: the generation changed.
    pub(crate) perhaps_lost: bool,
    /// The point by which it was certainly gone.
    pub(crate) gone: Mark,
    /// The server that showed it.
    pub(crate) node: Arc<str>,
    /// When another holder was first seen.
    pub(crate) successor_seen: Option<Mono>,
    /// The evidence from that holder was reported.
    pub(crate) judged: bool,
    /// Number of samples since then in which the old holder's claim changed. One change may be the
    /// last of a worker that stops.
    pub(crate) moved_since: u32,
}

impl EndedBefore {
    /// The next reading is of other data. These may be older than the loss, so the hold may have
    /// returned with them and been released since.
    pub(crate) fn data_changed(&mut self, delta: Delta) {
        let is_gone_there = delta.kept || delta.emptied || delta.surely_includes(self.gone);
        self.surely_lost &= is_gone_there || !delta.new_history();
    }

    /// Whether its successor is still to be judged.
    pub(crate) fn awaits_successor(&self, at: Mono) -> bool {
        !self.judged
            && (self.surely_lost || self.perhaps_lost)
            && self.deadline.is_some_and(|deadline| at < deadline)
    }
}

/// All evidence of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Splits {
    active: Vec<Active>,
    pub(crate) before: Option<Box<EndedBefore>>,
    /// The newer holder of the rivalry that was reported as in doubt.
    doubted: Vec<Vec<u8>>,
    newest: Mono,
}

#[derive(Clone, Debug)]
struct Active {
    evidence: Evidence,
    parties: Vec<Party>,
    since: Mono,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Evidence {
    Holders,
    /// The two servers.
    Masters([Arc<str>; 2]),
    Claims([Vec<u8>; 2]),
    /// Until the lost hold's deadline, on the clock that set it.
    OverlapUntil(Mono),
    /// While the old holder's claim lives.
    OverlapClaimed(Vec<u8>),
}

impl Evidence {
    fn kind(&self) -> SplitKind {
        match self {
            Evidence::Holders => SplitKind::Holders,
            Evidence::Masters(_) => SplitKind::Masters,
            Evidence::Claims(_) => SplitKind::Claims,
            Evidence::OverlapUntil(_) | Evidence::OverlapClaimed(_) => SplitKind::Overlap,
        }
    }

    /// When the evidence ended, if that is seen at `at`.
    fn over(&self, at: Mono) -> Mono {
        match self {
            Evidence::OverlapUntil(deadline) => at.min(*deadline),
            _ => at,
        }
    }
}

/// The beginning of a split.
#[derive(Clone, Debug)]
pub(crate) struct Began {
    pub(crate) kind: SplitKind,
    pub(crate) parties: Vec<Party>,
    /// Remaining lease of the older hold in milliseconds.
    pub(crate) left_ms: Option<u64>,
}

/// The effect of one accepted reading on the evidence.
#[derive(Clone, Debug, Default)]
pub(crate) struct SplitNews {
    pub(crate) began: Vec<Began>,
    pub(crate) ended: Vec<(SplitKind, u64)>,
    /// Split time since the previous reading, in milliseconds.
    pub(crate) grew_ms: u64,
    /// A new holder appeared early after a change of generation, but nothing proves a loss.
    pub(crate) in_doubt: Option<(Vec<Holder>, u64)>,
    /// Two servers show different holders, but the older hold may have been released. The older
    /// hold first, then the newer one.
    pub(crate) rival_in_doubt: Option<(Vec<Party>, Vec<Party>)>,
}

/// The facts that the evidence is judged by.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) at: Mono,
    /// The holders now; `None` when the lock is free.
    pub(crate) held: Option<&'a Held>,
    /// A hold began with this reading.
    pub(crate) acquired: bool,
    /// The present hold cannot be a phantom.
    pub(crate) proven: bool,
    /// Claims that changed while the present hold certainly continued.
    pub(crate) claims_beside: &'a [Vec<u8>],
    pub(crate) fresh_for_ms: u64,
    /// Unseen stretches longer than this do not count, in milliseconds.
    pub(crate) blind_after_ms: u64,
    pub(crate) claimants: Claimants,
}

impl Splits {
    /// The kinds of splits in force.
    pub(crate) fn kinds(&self) -> Vec<SplitKind> {
        let mut kinds: Vec<SplitKind> =
            self.active.iter().map(|active| active.evidence.kind()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// The splits in force, sorted by kind.
    pub(crate) fn view(&self) -> Vec<SplitView> {
        let view = |active: &Active| SplitView {
            kind: active.evidence.kind(),
            parties: active.parties.clone(),
            since: active.since,
            lasted_ms: self.newest.since_ms(active.since),
        };
        // Of several of one kind, the newest.
        let mut views: Vec<SplitView> = self.active.iter().rev().map(view).collect();
        views.sort_by_key(|split| split.kind);
        views.dedup_by_key(|split| split.kind);
        views
    }

    /// The splits between two generations or two servers.
    pub(crate) fn overlaps(&self) -> impl Iterator<Item = Overlap<'_>> {
        self.active.iter().filter_map(|active| {
            let servers = match &active.evidence {
                Evidence::Masters(servers) => Some(servers),
                Evidence::OverlapUntil(_) | Evidence::OverlapClaimed(_) => None,
                Evidence::Holders | Evidence::Claims(_) => return None,
            };
            Some(Overlap {
                since: active.since,
                lasted_ms: self.newest.since_ms(active.since),
                servers,
            })
        })
    }

    /// Duration of the present split as of the newest evidence, in milliseconds.
    pub(crate) fn ms(&self) -> u64 {
        self.active.iter().map(|active| self.newest.since_ms(active.since)).max().unwrap_or(0)
    }

    /// Takes in an accepted reading of the lock (with the claims read in the same sample).
    pub(crate) fn observe(&mut self, claims: &Claims, view: View<'_>) -> SplitNews {
        let mut news = SplitNews::default();
        // A stretch that was unseen for too long does not count: the split may have ended early in
        // it.
        let until = self.active.iter().map(|active| active.evidence.over(view.at)).max();
        let stretch_ms = until.map_or(0, |until| until.since_ms(self.newest));
        news.grew_ms = if stretch_ms <= view.blind_after_ms { stretch_ms } else { 0 };
        self.newest = self.newest.max(view.at);
        self.end_what_is_over(claims, view, &mut news);
        if let Some(held) =
            view.held.filter(|held| held.mode != Mode::Read && held.holders.len() > 1)
        {
            let parties = held.holders.iter().map(|holder| Party::of(holder, None)).collect();
            self.begin(Evidence::Holders, parties, None, view.at, &mut news);
        }
        if let Some(pair) = claims.contradicting(view.fresh_for_ms) {
            let parties = pair
                .iter()
                .map(|instance| Party::of(&view.claimants.holder(instance), None))
                .collect();
            self.begin(Evidence::Claims(pair), parties, None, view.at, &mut news);
        }
        self.look_for_overlap(view, &mut news);
        news
    }

    /// Takes in what the servers show of the lock, after a reading of any of them at `at`.
    pub(crate) fn observe_masters(
        &mut self,
        witnesses: &Witnesses,
        limits: Limits,
        at: Mono,
    ) -> SplitNews {
        let mut news = SplitNews::default();
        self.end(at, &mut news, |evidence| match evidence {
            Evidence::Masters(nodes) => !witnesses.contradict(nodes, at),
            _ => false,
        });
        match witnesses.rivalry(limits, at) {
            Some(Rivalry { nodes, older, newer, left_ms, proven: true }) => {
                let parties = older.into_iter().chain(newer).collect();
                if self.active.is_empty() {
                    self.newest = self.newest.max(at);
                }
                self.begin(Evidence::Masters(nodes), parties, left_ms, at, &mut news);
            }
            Some(Rivalry { older, newer, proven: false, .. }) => {
                let clients: Vec<_> =
                    newer.iter().map(|party| party.holder.client.clone()).collect();
                if self.doubted != clients {
                    self.doubted = clients;
                    news.rival_in_doubt = Some((older, newer));
                }
            }
            _ => {}
        }
        news
    }

    fn begin(
        &mut self,
        evidence: Evidence,
        parties: Vec<Party>,
        left_ms: Option<u64>,
        at: Mono,
        news: &mut SplitNews,
    ) {
        let kind = evidence.kind();
        // There may be several overlaps: the holder of each lost hold may still believe in it.
        let older = |parties: &[Party]| parties.first().map(|party| party.holder.client.clone());
        let of_kind = |active: &&Active| active.evidence.kind() == kind;
        let is_told = |active: &Active| {
            kind != SplitKind::Overlap || older(&active.parties) == older(&parties)
        };
        let told = self.active.iter_mut().find(|active| of_kind(&&**active) && is_told(active));
        if let Some(active) = told {
            // The present holders may differ from those at its beginning.
            if kind == SplitKind::Holders {
                active.parties = parties;
            }
            return;
        }
        let goes_on = self.active.iter().find(of_kind).map(|active| active.since);
        self.active.push(Active {
            evidence,
            parties: parties.clone(),
            since: goes_on.unwrap_or(at),
        });
        if goes_on.is_none() {
            news.began.push(Began { kind, parties, left_ms });
        }
    }

    /// Ends the evidence that is over by `at`. A kind has ended when its last evidence has.
    fn end(&mut self, at: Mono, news: &mut SplitNews, over: impl Fn(&Evidence) -> bool) {
        let mut ended: Vec<(SplitKind, u64)> = Vec::new();
        self.active.retain(|active| {
            let ends = over(&active.evidence);
            if ends {
                ended.push((
                    active.evidence.kind(),
                    active.evidence.over(at).since_ms(active.since),
                ));
            }
            !ends
        });
        // There may be several of one kind, with others between them.
        ended.sort_unstable_by_key(|(kind, lasted_ms)| (*kind, Reverse(*lasted_ms)));
        ended.dedup_by_key(|(kind, _)| *kind);
        ended.retain(|(kind, _)| !self.active.iter().any(|active| active.evidence.kind() == *kind));
        news.ended.extend(ended);
    }

    fn end_what_is_over(&mut self, claims: &Claims, view: View<'_>, news: &mut SplitNews) {
        let over = |evidence: &Evidence| match evidence {
            Evidence::Holders => {
                !view.held.is_some_and(|held| held.mode != Mode::Read && held.holders.len() > 1)
            }
            // Judged by what all servers show.
            Evidence::Masters(_) => false,
            Evidence::Claims(pair) => {
                !pair.iter().all(|instance| claims.is_live(instance, view.fresh_for_ms))
            }
            Evidence::OverlapUntil(deadline) => view.at >= *deadline,
            Evidence::OverlapClaimed(instance) => !claims.is_live(instance, view.fresh_for_ms),
        };
        self.end(view.at, news, over);
    }

    fn look_for_overlap(&mut self, view: View<'_>, news: &mut SplitNews) {
        let (Some(before), Some(held)) = (&mut self.before, view.held) else { return };
        if held.mode == Mode::Read || clients_meet(&before.holders, &held.holders) {
            // The same instance came back, so no other one ran beside it.
            self.before = None;
            return;
        }
        let left_ms = before
            .deadline
            .map(|deadline| deadline.since_ms(view.at))
            .filter(|left_ms| *left_ms > 0);
        let mut evidence = None;
        if view.acquired && before.successor_seen.is_none() {
            before.successor_seen = Some(view.at);
        }
        if before.successor_seen.is_some() && !before.judged && view.proven {
            before.judged = true;
            match (left_ms, before.deadline) {
                (Some(_), Some(deadline)) if before.surely_lost => {
                    evidence = Some(Evidence::OverlapUntil(deadline))
                }
                (Some(left_ms), _) if before.perhaps_lost => {
                    news.in_doubt = Some((before.holders.clone(), left_ms))
                }
                _ => {}
            }
        } else if before.successor_seen.is_some_and(|seen| view.at > seen) {
            let moved =
                before.holders.iter().find(|holder| view.claims_beside.contains(&holder.client));
            before.moved_since += u32::from(moved.is_some());
            if before.moved_since >= CLAIM_GOES_ON
                && let Some(holder) = moved
            {
                evidence = Some(Evidence::OverlapClaimed(holder.client.clone()));
            }
        }
        if let Some(evidence) = evidence {
            let older = before.holders.iter().map(|holder| Party::of(holder, Some(&before.node)));
            let parties =
                older.chain(held.holders.iter().map(|holder| Party::of(holder, None))).collect();
            self.begin(evidence, parties, left_ms, view.at, news);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost_at(gone: Mark) -> EndedBefore {
        EndedBefore {
            holders: Vec::new(),
            deadline: Some(Mono(1_000)),
            surely_lost: true,
            perhaps_lost: false,
            gone,
            node: Arc::from("a:1"),
            successor_seen: None,
            judged: false,
            moved_since: 0,
        }
    }

    /// While the holder may still believe in the hold, a reading that differs for a moment changes
    /// nothing.
    #[test]
    fn only_a_lost_hold_whose_lease_would_run_awaits_who_comes_after_it() {
        let lost = lost_at(Mark { offset: None, at: Mono(0) });
        let perhaps = EndedBefore { surely_lost: false, perhaps_lost: true, ..lost.clone() };
        let released = EndedBefore { surely_lost: false, ..lost.clone() };
        let judged = EndedBefore { judged: true, ..lost.clone() };
        let endless = EndedBefore { deadline: None, ..lost.clone() };
        let table = [
            (&lost, 999, true),
            (&lost, 1_000, false),
            (&perhaps, 999, true),
            (&released, 999, false),
            (&judged, 999, false),
            (&endless, 999, false),
        ];
        for (before, at, awaits) in table {
            assert_eq!(before.awaits_successor(Mono(at)), awaits, "{before:?} at {at}");
        }
    }

    /// A hold that came with data that may be older than the loss may have been released since.
    #[test]
    fn only_data_that_surely_come_after_a_loss_leave_it_certain() {
        let _rule = crate::truth::rule("12 two holders");
        let none = Delta::default();
        let restarted = Delta { restarted: true, ..none };
        let failover = |shared| Delta { failover: true, shared, ..none };
        let table = [
            (none, true, "the same data"),
            (restarted, false, "perhaps an old file"),
            (restarted.beginning_with(Mono(600)), true, "a file that is newer"),
            (restarted.beginning_with(Mono(500)), false, "or not"),
            (Delta { emptied: true, ..restarted }, true, "nothing is there"),
            (failover(Some(100)), true, "the new master shares it"),
            (failover(Some(99)), false, "or not"),
            (failover(None), false, "nobody tells"),
            (Delta { kept: true, ..failover(None) }, true, "all was kept"),
        ];
        for (delta, stays, what) in table {
            let mut before = lost_at(Mark { offset: Some(100), at: Mono(500) });
            before.data_changed(delta);
            assert_eq!(before.surely_lost, stays, "{what}");
        }
    }
}
