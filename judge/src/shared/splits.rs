//! Collects evidence for two holders. Each kind of evidence has its own beginning and its own end;
//! nothing here is guessed.

mod holders;
mod masters;
mod overlap;
pub(crate) mod witnesses;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;

pub use self::masters::PHANTOM_MS;
use self::masters::Rivalry;
use self::overlap::Until;
pub(crate) use self::overlap::{EndedBefore, Observation};
use self::witnesses::{Limits, Witnesses};
use crate::continuity::failover_report::Overlap;
use crate::event::{Party, SplitKind};
use crate::reading::{Holder, Mode, clients_meet};
use crate::seldom::Seldom;
use crate::shared::claims::Claims;
use crate::time::Mono;

/// Evidence for two holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitView {
    /// The kind of evidence.
    pub kind: SplitKind,
    /// The instances concerned.
    pub parties: Vec<Party>,
    /// When it was first seen.
    pub since: Mono,
    /// Its duration as of the newest evidence, in milliseconds.
    pub lasted_ms: u64,
}

/// All evidence of one task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Splits {
    active: Seldom<Vec<Active>>,
    pub(crate) before: Option<Box<EndedBefore>>,
    /// The newer holder of the rivalry that was reported as in doubt.
    doubted: Seldom<Vec<Vec<u8>>>,
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
    Overlap(Until),
    Turns,
    /// The member of a queue.
    Executions(Vec<u8>),
}

impl Evidence {
    fn kind(&self) -> SplitKind {
        match self {
            Evidence::Holders => SplitKind::Holders,
            Evidence::Masters(_) => SplitKind::Masters,
            Evidence::Claims(_) => SplitKind::Claims,
            Evidence::Overlap(_) => SplitKind::Overlap,
            Evidence::Turns => SplitKind::Turns,
            Evidence::Executions(_) => SplitKind::Executions,
        }
    }

    /// When the evidence ended, if that is seen at `at`.
    fn over(&self, at: Mono) -> Mono {
        match self {
            Evidence::Overlap(Until::Deadline(deadline)) => at.min(*deadline),
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
                Evidence::Overlap(_) => None,
                Evidence::Holders
                | Evidence::Claims(_)
                | Evidence::Turns
                | Evidence::Executions(_) => return None,
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
    pub(crate) fn observe(&mut self, claims: &Claims, seen: Observation<'_>) -> SplitNews {
        let grew_ms = self.grow(seen.at, seen.spec.blind_after_ms);
        let mut news = SplitNews { grew_ms, ..SplitNews::default() };
        self.end_what_is_over(claims, seen, &mut news);
        if let Some(held) = holders::several(seen.held) {
            let parties = held.holders.iter().map(|holder| Party::of(holder, None)).collect();
            self.begin(Evidence::Holders, parties, None, seen.at, &mut news);
        }
        if let Some(pair) = claims.contradicting(seen.spec.fresh_for_ms()) {
            let claimants = seen.spec.kind.claimants();
            let parties =
                pair.iter().map(|instance| Party::of(&claimants.holder(instance), None)).collect();
            self.begin(Evidence::Claims(pair), parties, None, seen.at, &mut news);
        }
        self.look_for_overlap(seen, &mut news);
        news
    }

    /// Counts the time with two holders as of a reading at `at`. Returns by how much it grew.
    fn grow(&mut self, at: Mono, blind_after_ms: u64) -> u64 {
        // A stretch that was unseen for too long does not count: the split may have ended early in
        // it.
        let until = self.active.iter().map(|active| active.evidence.over(at)).max();
        let stretch_ms = until.map_or(0, |until| until.since_ms(self.newest));
        self.newest = self.newest.max(at);
        if stretch_ms <= blind_after_ms { stretch_ms } else { 0 }
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
            Evidence::Masters(nodes) => !masters::contradict(witnesses, nodes, at),
            _ => false,
        });
        match masters::between_any(witnesses, limits, at) {
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
                if *self.doubted != clients {
                    *self.doubted = clients;
                    news.rival_in_doubt = Some((older, newer));
                }
            }
            _ => {}
        }
        news
    }

    /// Takes in who has had the turn at the same time for too long, as of a reading at `at`;
    /// `None`: nobody.
    pub(crate) fn observe_turns(&mut self, parties: Option<Vec<Party>>, at: Mono) -> SplitNews {
        let mut news = SplitNews::default();
        match parties {
            Some(parties) => self.begin(Evidence::Turns, parties, None, at, &mut news),
            None => self.end(at, &mut news, |evidence| *evidence == Evidence::Turns),
        }
        news
    }

    /// Takes in the members of a queue that two workers execute, as of a reading at `at`: for each,
    /// its id and the workers. Evidence of others has ended.
    pub(crate) fn observe_executions(
        &mut self,
        twice: &[(Vec<u8>, Vec<Party>)],
        at: Mono,
        blind_after_ms: u64,
    ) -> SplitNews {
        let grew_ms = self.grow(at, blind_after_ms);
        let mut news = SplitNews { grew_ms, ..SplitNews::default() };
        self.end(at, &mut news, |evidence| match evidence {
            Evidence::Executions(id) => !twice.iter().any(|(still, _)| still == id),
            _ => false,
        });
        for (id, parties) in twice {
            let is_known = |active: &Active| active.evidence == Evidence::Executions(id.clone());
            if !self.active.iter().any(is_known) {
                let evidence = Evidence::Executions(id.clone());
                self.begin(evidence, parties.clone(), None, at, &mut news);
            }
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
        let is_known = |active: &Active| {
            let may_be_several = matches!(kind, SplitKind::Overlap | SplitKind::Executions);
            !may_be_several || older(&active.parties) == older(&parties)
        };
        let known = self.active.iter_mut().find(|active| of_kind(&&**active) && is_known(active));
        if let Some(active) = known {
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
        let Some(active) = self.active.present() else { return };
        let mut ended: Vec<(SplitKind, u64)> = Vec::new();
        active.retain(|active| {
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
        ended.retain(|(kind, _)| !active.iter().any(|active| active.evidence.kind() == *kind));
        news.ended.extend(ended);
    }

    fn end_what_is_over(&mut self, claims: &Claims, seen: Observation<'_>, news: &mut SplitNews) {
        let over = |evidence: &Evidence| match evidence {
            Evidence::Holders => holders::several(seen.held).is_none(),
            // Judged by what all servers show, or by the turns or the queue.
            Evidence::Masters(_) | Evidence::Turns | Evidence::Executions(_) => false,
            Evidence::Claims(pair) => {
                !pair.iter().all(|instance| claims.is_live(instance, seen.spec.fresh_for_ms()))
            }
            Evidence::Overlap(until) => until.is_over(claims, seen),
        };
        self.end(seen.at, news, over);
    }

    fn look_for_overlap(&mut self, seen: Observation<'_>, news: &mut SplitNews) {
        let (Some(before), Some(held)) = (&mut self.before, seen.held) else { return };
        if held.mode == Mode::Read || clients_meet(&before.holders, &held.holders) {
            // The same instance came back, so no other one ran beside it.
            self.before = None;
            return;
        }
        let left_ms = before
            .deadline
            .map(|deadline| deadline.since_ms(seen.at))
            .filter(|left_ms| *left_ms > 0);
        let (until, in_doubt) = before.observe(seen, left_ms);
        if let (true, Some(left_ms)) = (in_doubt, left_ms) {
            news.in_doubt = Some((before.holders.clone(), left_ms));
        }
        if let Some(until) = until {
            let older = before.holders.iter().map(|holder| Party::of(holder, Some(&before.node)));
            let parties =
                older.chain(held.holders.iter().map(|holder| Party::of(holder, None))).collect();
            self.begin(Evidence::Overlap(until), parties, left_ms, seen.at, news);
        }
    }
}
