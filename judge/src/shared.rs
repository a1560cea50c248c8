//! What tasks of all kinds share: switches, progress, claims, hosts, pause, splits, blindness and
//! the totals. It knows no kind; a kind takes it as `&mut Shared` and adds what is its own.

pub(crate) mod claims;
pub(crate) mod clocks;
pub(crate) mod hosts;
pub(crate) mod pause;
pub(crate) mod progress;
pub(crate) mod runs;
pub(crate) mod splits;
pub(crate) mod switches;
pub(crate) mod wanting;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use self::claims::Claims;
use self::clocks::{BlindClock, GapClock, Holding};
use self::hosts::Hosts;
use self::pause::Pause;
use self::progress::{Look, ProgressClock};
use self::runs::Runs;
use self::splits::{Began, SplitNews, Splits};
use self::wanting::Wanting;
use crate::event::{EventKind, Party, SplitKind};
use crate::evidence::Origin;
use crate::grounds::Grounds;
use crate::reading::{
    ClaimsReading, Holder, Overrun, Parts, ProgressReading, SwitchesReading, Unknown,
};
use crate::spec::TaskSpec;
use crate::step::{Accepted, Log};
use crate::time::Mono;
use crate::totals::{Past, Totals};
use crate::verdict::{Facts, Rule, Verdict, Wanted};

/// What is known of a task of any kind.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) spec: Arc<TaskSpec>,
    pub(crate) store: Arc<str>,
    /// Origin of the newest accepted reading, shared with other tasks.
    pub(crate) origin: Option<Arc<Origin>>,
    /// With switches only.
    pub(crate) wanting: Option<Box<Wanting>>,
    /// With progress only.
    pub(crate) progress: Option<Box<ProgressClock>>,
    pub(crate) claims: Claims,
    /// With claims only, once they were read.
    pub(crate) runs: Option<Arc<Runs>>,
    pub(crate) splits: Splits,
    pub(crate) blind: BlindClock,
    pub(crate) hosts: Hosts,
    pub(crate) pause: Pause,
    pub(crate) newest_attempt: Mono,
    /// Its key was seen to exist.
    pub(crate) key_seen: bool,
    pub(crate) verdict: Option<(Verdict, &'static Rule, Mono)>,
    pub(crate) judged: Option<Judged>,
    /// Why it cannot be read, as it was reported.
    unreadable: Option<Unknown>,
    /// Shared with the views.
    pub(crate) totals: Arc<Totals>,
    pub(crate) grounds: Grounds,
}

/// The basis of a verdict. [`crate::verdict::trace`] lists the rules that were considered for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// All facts that the verdict depends on.
    pub facts: Facts,
    /// The previous verdict.
    pub previous: Option<Verdict>,
}

/// The signs of life in one reading of a task's other keys, and what else its kind must know.
#[derive(Default)]
pub(crate) struct Signs {
    /// The switches are the same as before, which proves that this database was not flushed.
    pub(crate) kept_switches: bool,
    /// Instances whose claim changed.
    pub(crate) claims_changed: Vec<Vec<u8>>,
    pub(crate) progress_moved: bool,
}

impl Shared {
    pub(crate) fn new(spec: Arc<TaskSpec>, store: Arc<str>, at: Mono) -> Shared {
        Shared {
            wanting: Wanting::new(&spec),
            progress: progress(&spec),
            spec,
            store,
            origin: None,
            claims: Claims::default(),
            runs: None,
            splits: Splits::default(),
            blind: BlindClock::new(at),
            hosts: Hosts::default(),
            pause: Pause::default(),
            newest_attempt: at,
            key_seen: false,
            verdict: None,
            judged: None,
            unreadable: None,
            totals: Arc::default(),
            grounds: Grounds::default(),
        }
    }

    /// Takes over a changed configuration of the same task.
    pub(crate) fn configure(&mut self, spec: Arc<TaskSpec>, store: Arc<str>, log: &mut Log) {
        let before = core::mem::replace(&mut self.spec, spec);
        self.store = store;
        let spec = &self.spec;
        if spec.wanted != before.wanted {
            if self.wanting.as_ref().is_some_and(|wanting| wanting.switches.lost().len() > 0) {
                log.push(EventKind::SwitchesFound);
            }
            self.wanting = Wanting::new(spec);
        }
        let source = |spec: &TaskSpec| spec.progress.as_ref().map(|it| it.source.clone());
        if source(spec) != source(&before) {
            self.progress = progress(spec);
        }
        let claims_key = |spec: &TaskSpec| spec.claims.as_ref().map(|it| it.key.clone());
        if claims_key(spec) != claims_key(&before) {
            (self.claims, self.runs) = (Claims::default(), None);
        }
        let in_value = |spec: &TaskSpec| spec.lock().and_then(|lock| lock.host.clone());
        if spec.hosts != before.hosts || in_value(spec) != in_value(&before) {
            self.hosts = Hosts::default();
        }
        if spec.paused_until != before.paused_until {
            self.pause = Pause::default();
        }
    }

    /// The totals, for modification.
    pub(crate) fn totals(&mut self) -> &mut Totals {
        Arc::make_mut(&mut self.totals)
    }

    /// Takes in the origin of an accepted reading.
    pub(crate) fn note_origin(&mut self, batch: Accepted<'_>) {
        let has_moved = self.origin.as_ref().is_none_or(|old| !batch.origin.same_clock(old));
        if batch.origin.generation.is_some() || has_moved {
            self.origin = Some(Arc::clone(batch.origin));
        }
    }

    /// The task could not be read, or could again: each is reported once.
    pub(crate) fn report_readable(&mut self, read: Result<(), Unknown>, log: &mut Log) {
        let before = core::mem::replace(&mut self.unreadable, read.err());
        match (read, before) {
            (Err(why), before) if before != Some(why) => {
                log.push(EventKind::TaskUnreadable { why });
            }
            (Ok(()), Some(_)) => log.push(EventKind::TaskReadable),
            (Ok(()) | Err(_), _) => {}
        }
    }

    // --- whether users want it, and for how long nobody has had it

    pub(crate) fn wanted(&self) -> Wanted {
        self.wanting.as_ref().map_or(Wanted::Unset, |wanting| wanting.switches.wanted())
    }

    /// Whether it is known that nobody wants it: by switches that were seen.
    pub(crate) fn is_known_unwanted(&self) -> bool {
        let seen = |wanting: &Wanting| !wanting.switches.have_key() || wanting.switches.key_seen;
        self.wanted() == Wanted::No && self.wanting.as_deref().is_some_and(seen)
    }

    pub(crate) fn gap(&self) -> Option<&GapClock> {
        self.wanting.as_ref().map(|wanting| &wanting.gap)
    }

    /// First evidence of the present stretch of "wanted".
    pub(crate) fn wanted_since(&self) -> Option<Mono> {
        self.gap().and_then(GapClock::wanted_since)
    }

    pub(crate) fn is_gap_over_grace(&self) -> bool {
        self.gap().is_some_and(|gap| gap.gap_ms() > self.spec.grace_ms)
    }

    pub(crate) fn unwanted_ms(&self) -> u64 {
        self.wanting.as_ref().map_or(0, |wanting| wanting.unwanted.ms())
    }

    /// Takes in who has the task. Returns whether a gap ended.
    pub(crate) fn observe_gap(&mut self, at: Mono, holding: Holding, log: &mut Log) -> bool {
        let wanted = self.wanted();
        let Some(wanting) = &mut self.wanting else { return false };
        let gap = wanting.gap.observe(at, holding, wanted, self.spec.blind_after_ms);
        if gap.wanted_ms > 0 || gap.free_ms > 0 {
            let totals = &mut self.totals().rare;
            totals.wanted_ms += gap.wanted_ms;
            totals.down_ms += gap.free_ms;
        }
        if gap.began {
            log.push(EventKind::GapBegan);
        }
        if let Some(Some(gap_ms)) = gap.ended {
            self.totals().rare.handed_over(Past { at, ms: gap_ms });
            log.push(EventKind::GapEnded { gap_ms });
        }
        gap.ended.is_some()
    }

    // --- blindness

    pub(crate) fn is_blind(&self) -> bool {
        self.blind.ms() > self.spec.blind_after_ms
    }

    pub(crate) fn note_blind(&mut self, at: Mono) {
        let grew_ms = self.blind.bad(at);
        self.count_blind(grew_ms);
    }

    pub(crate) fn count_blind(&mut self, grew_ms: u64) {
        if grew_ms > 0 {
            self.totals().blind_ms += grew_ms;
        }
    }

    // --- splits

    pub(crate) fn is_split(&self) -> bool {
        !self.splits.kinds().is_empty()
    }

    pub(crate) fn report_splits(&mut self, news: SplitNews, log: &mut Log) {
        if news.grew_ms > 0 {
            self.totals().rare.split_ms += news.grew_ms;
        }
        for (kind, lasted_ms) in news.ended {
            log.push(EventKind::SplitEnded { kind, lasted_ms });
        }
        for Began { kind, parties, left_ms } in news.began {
            let parties = self.hosts.name(parties);
            let rare = self.grounds.rare();
            (rare.split, rare.split_by) = (Some(log.at), Some((kind, parties.clone())));
            if let Some(count) = self.totals().rare.splits.get_mut(kind as usize) {
                *count += 1;
            }
            log.push(EventKind::SplitBegan { kind, parties, left_ms });
        }
        if let Some((older, newer)) = news.rival_in_doubt {
            let (older, newer) = (self.hosts.name(older), self.hosts.name(newer));
            log.push(EventKind::RivalInDoubt { older, newer });
        }
    }

    // --- the other keys of the task

    /// Takes in the other keys of the task: the state of the switches, and the signs of life.
    /// `stayed`: the same batch shows that the hold goes on. `holders`: of the newest reading.
    pub(crate) fn observe_parts(
        &mut self,
        parts: &Parts,
        stayed: bool,
        holders: &[Holder],
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> Signs {
        let mut signs = Signs::default();
        if let (Some(wanting), Some(switches)) = (&mut self.wanting, &parts.switches) {
            signs.kept_switches = wanting.observe(switches, batch, log);
        }
        if let Some(claims) = &parts.claims {
            signs.claims_changed = self.observe_claims(claims, parts, holders, batch, log);
        }
        if let Some(progress) = &parts.progress {
            signs.progress_moved = self.observe_progress(progress, stayed, batch, log);
        }
        if let Some(pause) = parts.pause {
            self.pause.observe(pause, batch.seen(), log);
        }
        if let Some(hosts) = &parts.hosts {
            let is_in_value = self.spec.lock().is_some_and(|lock| lock.host.is_some());
            match is_in_value {
                true => self.hosts.add(hosts, log),
                false => self.hosts.observe(hosts, log),
            }
        }
        signs
    }

    fn observe_claims(
        &mut self,
        claims: &ClaimsReading,
        parts: &Parts,
        holders: &[Holder],
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> Vec<Vec<u8>> {
        if matches!(claims, ClaimsReading::Read(_)) {
            for overrun in self.claims.overran(&parts.overruns) {
                self.report_overrun(overrun, holders, log);
            }
            Runs::observe(&mut self.runs, &parts.runs, batch.seen().last);
        }
        self.claims.observe(claims, batch.sent, self.spec.fresh_for_ms(), log)
    }

    /// A guard reports that its script ran beside the next holder. That is over.
    fn report_overrun(&mut self, overrun: Overrun, holders: &[Holder], log: &mut Log) {
        let claimants = self.spec.kind.claimants();
        let own = [Party::of(&claimants.holder(&overrun.instance), None)];
        let others = holders.iter().filter(|holder| holder.client != overrun.instance);
        let parties = own.into_iter().chain(others.map(|holder| Party::of(holder, None))).collect();
        let kind = SplitKind::Claims;
        let began = vec![Began { kind, parties, left_ms: None }];
        self.report_splits(SplitNews { began, ..SplitNews::default() }, log);
        let ended = vec![(kind, overrun.ms)];
        let news = SplitNews { ended, grew_ms: overrun.ms, ..SplitNews::default() };
        self.report_splits(news, log);
    }

    fn observe_progress(
        &mut self,
        reading: &ProgressReading,
        stayed: bool,
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> bool {
        let Some(clock) = &mut self.progress else { return false };
        let delta = batch.delta(clock.origin.as_deref());
        // An eviction takes a key before its deadline. Whether that has passed shows which it was,
        // unless nothing was read for long. A restart took nothing if the hold is still there.
        let long_unread = clock
            .last_there()
            .is_some_and(|last| batch.sent.since_ms(last) > self.spec.blind_after_ms);
        let look = Look {
            seen: batch.seen(),
            moves: self.spec.progress.as_ref().and_then(|progress| progress.moves),
            may_be_removed: delta.may_lose_locks()
                && (delta.flushed || delta.slot_flushed || delta.emptied || !stayed)
                || delta.may_evict(true) && long_unread,
        };
        let moved = clock.observe(reading, look, log);
        if batch.origin.generation.is_some() {
            clock.origin = Some(Arc::clone(batch.origin));
        }
        moved
    }

    /// The other keys of the task could not be read.
    pub(crate) fn parts_failed(&mut self, parts: &Parts, at: Mono, log: &mut Log) {
        if let (Some(wanting), Some(SwitchesReading::Unknown(why))) =
            (&mut self.wanting, &parts.switches)
        {
            wanting.switches.unknown(*why);
        }
        if let Some(claims) = &parts.claims {
            self.claims.observe(claims, at, self.spec.fresh_for_ms(), log);
        }
        if let (Some(clock), Some(ProgressReading::Unknown(why))) =
            (&mut self.progress, &parts.progress)
        {
            clock.unread(*why, log);
        }
        if parts.pause.is_some() {
            self.pause.unread();
        }
    }

    /// Nothing of the task could be read.
    pub(crate) fn unread(&mut self, why: Unknown, at: Mono) {
        self.parts_unread(why);
        self.note_blind(at);
    }

    /// None of its other keys could be read.
    pub(crate) fn parts_unread(&mut self, why: Unknown) {
        if let Some(wanting) = &mut self.wanting {
            wanting.switches.unknown(why);
        }
        self.claims.unread(why);
        self.pause.unread();
    }
}

/// What is kept of progress that is configured.
fn progress(spec: &TaskSpec) -> Option<Box<ProgressClock>> {
    spec.progress.as_ref().map(|_| Box::default())
}
