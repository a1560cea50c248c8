//! Takes in what is read beside the guard of a task: switches, progress, claims, hosts and pause.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::wanting::Wanting;
use super::{Accepted, Kind, Log, Watched};
use crate::claims::Claims;
use crate::continuity::lost::Parts;
use crate::event::{EventKind, Party, SplitKind};
use crate::evidence::Seen;
use crate::progress::{self, ProgressClock};
use crate::reading::{
    Beside, ClaimsReading, HostsReading, Overrun, PauseReading, ProgressReading, Switch,
    SwitchesReading, Unknown,
};
use crate::runs::Runs;
use crate::spec::TaskSpec;
use crate::splits::{Began, SplitNews};
use crate::switches;
use crate::time::Mono;

/// The signs seen beside the lock.
pub(crate) struct Signs {
    /// The switches are the same as before, which proves that this database was not flushed.
    pub(super) kept_switches: bool,
    /// Instances whose claim changed.
    pub(super) claims_changed: Vec<Vec<u8>>,
    pub(super) progress_moved: bool,
}

/// What was reported, and lasts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    pub(super) unreadable: Option<Unknown>,
    progress_missing: bool,
    claims_unreadable: bool,
    /// The problem with the pause key, if any.
    pause: Option<PauseReading>,
    pub(super) claim_beside_free: bool,
}

/// The time until which alerts shall wait, on the agent's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pause {
    pub(super) known: bool,
    pub(super) until: Option<Mono>,
}

impl Pause {
    /// A pause that was read stays in force until it ends. Without one, the pause is unknown.
    pub(super) fn unread(&mut self) {
        self.known &= self.until.is_some();
    }

    /// It ends when its time has come. Returns whether there was one.
    pub(super) fn end(&mut self, now: Mono) -> bool {
        let was_set = self.until.is_some();
        self.until = self.until.filter(|until| now < *until);
        was_set
    }
}

impl<K: Kind> Watched<K> {
    /// Takes over a changed configuration of the parts.
    pub(super) fn configure_beside(&mut self, spec: &TaskSpec, log: &mut Log<'_>) {
        if spec.wanted != self.spec.wanted {
            if self.wanting.as_ref().is_some_and(|wanting| wanting.switches.lost().len() > 0) {
                log.push(EventKind::SwitchesFound);
            }
            self.wanting = Wanting::new(spec);
        }
        let source =
            |spec: &TaskSpec| spec.progress.as_ref().map(|progress| progress.source.clone());
        if source(spec) != source(&self.spec) {
            self.progress = progress(spec);
            self.told.progress_missing = false;
        }
        let claims_key = |spec: &TaskSpec| spec.claims.as_ref().map(|claims| claims.key.clone());
        if claims_key(spec) != claims_key(&self.spec) {
            self.claims = Claims::default();
            self.runs = None;
            self.told.claims_unreadable = false;
        }
        if spec.hosts != self.spec.hosts {
            self.hosts.clear();
            self.kind.hosts_changed();
            self.hosts_unknown = None;
        }
        if spec.paused_until != self.spec.paused_until {
            self.pause = Pause::default();
            self.told.pause = None;
        }
    }

    /// Takes in the other keys of the task: the state of the switches, and the signs of life.
    /// `stayed`: the same batch shows that the hold goes on.
    pub(super) fn observe_signs(
        &mut self,
        beside: &Beside,
        stayed: bool,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Signs {
        let signs = Signs {
            kept_switches: self.observe_switches(beside, batch, log),
            claims_changed: self.observe_claims(beside, batch.seen(), log),
            progress_moved: self.observe_progress(beside, stayed, batch, log),
        };
        self.observe_side(beside, batch.seen(), log);
        signs
    }

    /// Returns whether the switches are unchanged, which proves that this database was not flushed.
    fn observe_switches(
        &mut self,
        beside: &Beside,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> bool {
        let Some((wanting, answer)) = self.wanting.as_mut().zip(beside.switches.as_ref()) else {
            return false;
        };
        let delta = batch.delta(wanting.origin.as_deref());
        let (seen, given) = (batch.seen(), batch.mark());
        let news: switches::News = wanting.switches.observe(answer, seen, given, delta);
        if wanting.switches.why_unknown().is_none() && batch.origin.generation.is_some() {
            wanting.origin = Some(Arc::clone(batch.origin));
        }
        if let Some(users) = news.lost {
            log.push(EventKind::SwitchesLost { users });
        }
        if news.found {
            log.push(EventKind::SwitchesFound);
        }
        if news.key_missing {
            log.push(EventKind::SwitchKeyMissing);
        }
        for (user, switch) in news.undecodable {
            if let Switch::Undecodable { fits, .. } = switch {
                log.push(EventKind::SwitchUndecodable { user, fits });
            }
        }
        news.kept
    }

    fn observe_claims(&mut self, beside: &Beside, seen: Seen, log: &mut Log<'_>) -> Vec<Vec<u8>> {
        let Some(claims) = &beside.claims else { return Vec::new() };
        if matches!(claims, ClaimsReading::Read(_)) {
            for overrun in self.claims.overran(&beside.overruns) {
                self.tell_overrun(overrun, log);
            }
            Runs::observe(&mut self.runs, &beside.runs, seen.last);
        }
        let changed = self.claims.observe(claims, seen.sent, self.fresh_for_ms());
        self.tell_claims(claims, log);
        changed
    }

    /// A guard reports that its script ran beside the next holder. That is over.
    fn tell_overrun(&mut self, overrun: Overrun, log: &mut Log<'_>) {
        let claimants = self.spec.kind.claimants();
        let own = [Party::of(&claimants.holder(&overrun.instance), None)];
        let held = self.kind.holders().iter();
        let others = held.filter(|holder| holder.client != overrun.instance);
        let parties = own.into_iter().chain(others.map(|holder| Party::of(holder, None))).collect();
        let kind = SplitKind::Claims;
        let began = vec![Began { kind, parties, left_ms: None }];
        self.tell_splits(SplitNews { began, ..SplitNews::default() }, log);
        let ended = vec![(kind, overrun.ms)];
        let news = SplitNews { ended, grew_ms: overrun.ms, ..SplitNews::default() };
        self.tell_splits(news, log);
    }

    fn tell_claims(&mut self, claims: &ClaimsReading, log: &mut Log<'_>) {
        let why = if let ClaimsReading::Unknown(why) = claims { Some(*why) } else { None };
        if let (Some(why), false) = (why, self.told.claims_unreadable) {
            log.push(EventKind::ClaimsUnreadable { why });
        }
        self.told.claims_unreadable = why.is_some();
    }

    fn observe_progress(
        &mut self,
        beside: &Beside,
        stayed: bool,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> bool {
        let Some((clock, reading)) = self.progress.as_mut().zip(beside.progress.as_ref()) else {
            return false;
        };
        let delta = batch.delta(clock.origin.as_deref());
        // An eviction takes a key before its deadline. Whether that has passed shows which it was,
        // unless nothing was read for long. A restart took nothing if the hold is still there.
        let long_unread = clock
            .last_there()
            .is_some_and(|last| batch.sent.since_ms(last) > self.spec.blind_after_ms);
        let look = progress::Look {
            seen: batch.seen(),
            moves: self.spec.progress.as_ref().and_then(|progress| progress.moves),
            may_be_removed: delta.may_lose_locks()
                && (delta.flushed || delta.slot_flushed || delta.emptied || !stayed)
                || delta.may_evict(true) && long_unread,
        };
        let moved = clock.observe(reading, look);
        if batch.origin.generation.is_some() {
            clock.origin = Some(Arc::clone(batch.origin));
        }
        self.tell_progress(log);
        moved
    }

    fn tell_progress(&mut self, log: &mut Log<'_>) {
        let why = self.progress.as_ref().and_then(|clock| clock.missing);
        if let (Some(why), false) = (why, self.told.progress_missing) {
            log.push(EventKind::ProgressMissing { why });
        }
        self.told.progress_missing = why.is_some();
    }

    /// Pause and hosts.
    fn observe_side(&mut self, beside: &Beside, seen: Seen, log: &mut Log<'_>) {
        if let Some(pause) = beside.pause {
            self.observe_pause(pause, seen);
            self.tell_pause(pause, log);
        }
        if let Some(hosts) = &beside.hosts {
            self.observe_hosts(hosts, log);
        }
    }

    fn observe_pause(&mut self, pause: PauseReading, seen: Seen) {
        match pause {
            PauseReading::Until(until) => {
                let left_ms = u64::try_from(until.since_ms(seen.last)).unwrap_or(0);
                self.pause =
                    Pause { known: true, until: (left_ms > 0).then(|| seen.sent.plus_ms(left_ms)) };
            }
            PauseReading::None => self.pause = Pause { known: true, until: None },
            PauseReading::Undecodable | PauseReading::Unknown(_) => self.pause.unread(),
        }
    }

    fn observe_hosts(&mut self, hosts: &HostsReading, log: &mut Log<'_>) {
        let before = self.hosts_unknown;
        self.hosts_unknown = hosts.as_ref().err().copied();
        match (hosts, before) {
            (Ok(hosts), _) if *hosts == self.hosts => {}
            (Ok(hosts), _) => {
                self.hosts.clone_from(hosts);
                self.kind.hosts_changed();
            }
            (Err(why), None) => log.push(EventKind::HostsUnreadable { why: *why }),
            (Err(_), Some(_)) => {}
        }
    }

    fn tell_pause(&mut self, pause: PauseReading, log: &mut Log<'_>) {
        let wrong = match pause {
            PauseReading::Until(_) | PauseReading::None => None,
            PauseReading::Undecodable => Some(EventKind::PauseUndecodable),
            PauseReading::Unknown(why) => Some(EventKind::PauseUnreadable { why }),
        };
        let told = wrong.is_some().then_some(pause);
        if told != self.told.pause
            && let Some(wrong) = wrong
        {
            log.push(wrong);
        }
        self.told.pause = told;
    }

    /// The keys beside the lock could not be read; `answered`: their server answers all the same.
    pub(super) fn failed_beside(
        &mut self,
        beside: &Beside,
        answered: bool,
        at: Mono,
        log: &mut Log<'_>,
    ) {
        self.kind
            .unread(Parts { claims: beside.claims.is_some(), progress: beside.progress.is_some() });
        if let Some(SwitchesReading::Unknown(why)) = beside.switches {
            self.switches_unknown(why);
        }
        if let Some(claims) = &beside.claims {
            self.claims.observe(claims, at, self.fresh_for_ms());
            self.tell_claims(claims, log);
        }
        if let (Some(clock), Some(ProgressReading::Unknown(why))) =
            (&mut self.progress, &beside.progress)
        {
            clock.missing = Some(Some(*why));
            self.tell_progress(log);
        }
        if beside.pause.is_some() {
            self.pause.unread();
        }
        // A failure does not count as an answer, however much is known of the lock.
        if !self.has_sight() {
            self.note_blind(at);
            self.blind.attempted(at, answered);
        }
        self.judge(log);
    }

    pub(super) fn fresh_for_ms(&self) -> u64 {
        self.spec.claims.as_ref().map_or(0, |claims| claims.fresh_for_ms)
    }
}

/// What is followed of progress that is configured.
pub(super) fn progress(spec: &TaskSpec) -> Option<Box<ProgressClock>> {
    spec.progress.as_ref().map(|_| Box::default())
}
