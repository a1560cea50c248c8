//! Periodic tasks: the lock exists only while a run lasts, and its absence is normal. A lock's
//! holds are the runs; what is kept here is when the next one is due, and how the last one went.

pub(crate) mod rules;
pub(crate) mod spec;
pub(crate) mod view;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use self::spec::RunsSpec;
use self::view::{PeriodicRun, RunsView};
use crate::event::{End, Party};
use crate::time::{Mono, ServerTime};
use crate::verdict::RunFact;

/// After so many sweeps without a reading, a short run may have come and gone unseen.
const MISSED_SWEEPS: u64 = 3;

/// What one reading shows of runs.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) sent: Mono,
    /// The server's clock when it answered.
    pub(crate) clock: ServerTime,
    pub(crate) interval_ms: u64,
    /// How the hold that existed before ended, and how long it lasted if that is known.
    pub(crate) ended: Option<(End, Option<u64>)>,
    /// The hold now.
    pub(crate) hold: Option<HoldShown>,
    /// The progress moved.
    pub(crate) moved: bool,
}

/// What a reading shows of the hold.
#[derive(Clone, Debug)]
pub(crate) struct HoldShown {
    /// It is new, and certainly another one than before.
    pub(crate) is_new: bool,
    pub(crate) by: Vec<Party>,
    pub(crate) began: Mono,
    pub(crate) acquired: Option<ServerTime>,
    pub(crate) held_ms: u64,
    /// Its holder shortened its lease to a rest, when the work was done: until then the lock is
    /// only kept.
    pub(crate) kept_until: Option<ServerTime>,
}

/// The runs of one task.
#[derive(Clone, Debug)]
pub(crate) struct Periodic {
    spec: RunsSpec,
    /// Since when the next run is awaited: since the newest one began, or else since this process
    /// began to watch.
    awaited: Option<Mono>,
    /// The newest trustworthy reading.
    read: Option<Mono>,
    /// From the first reading after the last stretch without any until a little after the newest.
    watched: Option<Range<Mono>>,
    /// Around the time when the next run was due, there was a stretch without readings.
    may_have_run: bool,
    /// The beginning of a run was seen.
    saw_begin: bool,
    /// The present or newest run.
    newest: Option<Arc<PeriodicRun>>,
    /// The newest run that is over.
    last: Option<Arc<PeriodicRun>>,
    kept_until: Option<ServerTime>,
    held_ms: u64,
    /// When the newest hold was seen to be over.
    over_at: Option<Mono>,
}

impl Periodic {
    pub(crate) fn new(spec: &RunsSpec) -> Periodic {
        Periodic {
            spec: spec.clone(),
            awaited: None,
            read: None,
            watched: None,
            may_have_run: false,
            saw_begin: false,
            newest: None,
            last: None,
            kept_until: None,
            held_ms: 0,
            over_at: None,
        }
    }

    /// Takes over a changed configuration of the same task.
    pub(crate) fn configure(&mut self, spec: &RunsSpec) {
        self.spec = spec.clone();
    }

    /// Takes in a trustworthy reading.
    pub(crate) fn observe(&mut self, shown: Shown) {
        self.note_read(shown.sent, shown.interval_ms);
        let is_over = shown.ended.is_some();
        if let Some((end, held_ms)) = shown.ended {
            self.ended(end, held_ms);
            self.over_at = Some(shown.sent);
        }
        match shown.hold {
            Some(hold) => self.held(hold, shown.sent, shown.clock),
            None => {
                self.held_ms = 0;
                if shown.moved && !is_over {
                    self.moved(shown.sent, shown.interval_ms, Some(shown.clock));
                }
            }
        }
    }

    /// While nobody held the lock, the progress moved: a run was too short to be seen. A run may
    /// move it at its very end, which is read a little later.
    pub(crate) fn moved(&mut self, at: Mono, interval_ms: u64, clock: Option<ServerTime>) {
        let soon_ms = interval_ms.saturating_mul(MISSED_SWEEPS);
        if self.over_at.is_some_and(|over| at.since_ms(over) <= soon_ms) {
            return;
        }
        let run = PeriodicRun { began: Some(at), began_at: clock, by: Vec::new(), over: None };
        self.begin(run);
        self.over(None, None);
    }

    fn note_read(&mut self, sent: Mono, interval_ms: u64) {
        let before = self.read.replace(sent);
        let awaited = *self.awaited.get_or_insert(sent);
        let missed_ms = interval_ms.saturating_mul(MISSED_SWEEPS);
        let missed_since = before.filter(|before| sent.since_ms(*before) > missed_ms);
        let watched = self.watched.take().filter(|_| missed_since.is_none());
        let start = watched.map_or(sent, |watched| watched.start);
        self.watched = Some(start..sent.plus_ms(missed_ms));
        let Some(before) = missed_since else { return };
        let early = awaited.plus_ms(self.spec.every_ms.saturating_sub(self.spec.late_after_ms));
        if sent > early && before < self.due(awaited) {
            self.may_have_run = true;
        }
    }

    fn held(&mut self, hold: HoldShown, sent: Mono, clock: ServerTime) {
        // The rest is over, and the same holder has the lock: it took it again, unseen.
        let ran_out = hold.kept_until.is_none()
            && self.kept_until.is_some_and(|until| clock.since_ms(until) >= 0);
        if ran_out {
            self.over(Some(End::EndedEarly), None);
        }
        let run =
            |began, began_at| PeriodicRun { began, began_at, by: hold.by.clone(), over: None };
        match () {
            () if ran_out => self.begin(run(Some(sent), Some(clock))),
            () if hold.is_new => self.begin(run(Some(hold.began), hold.acquired)),
            () if !self.goes_on() => self.newest = Some(Arc::new(run(None, None))),
            () => self.named(&hold.by),
        }
        self.held_ms = if ran_out { 0 } else { hold.held_ms };
        if let (Some(_), None) = (hold.kept_until, self.kept_until)
            && !ran_out
        {
            // Its work is done now.
            self.note_done(self.held_ms);
        } else if hold.kept_until.is_none() && self.kept_until.is_some() && !ran_out {
            // It was renewed after all.
            self.undo_done();
        }
        self.kept_until = hold.kept_until;
    }

    fn goes_on(&self) -> bool {
        self.newest.as_ref().is_some_and(|run| run.over.is_none_or(|over| over.end.is_none()))
    }

    fn begin(&mut self, run: PeriodicRun) {
        self.awaited = run.began;
        self.saw_begin = true;
        (self.may_have_run, self.kept_until) = (false, None);
        self.newest = Some(Arc::new(run));
    }

    /// Its holders' hosts may become known later than they.
    fn named(&mut self, by: &[Party]) {
        if let Some(run) = &mut self.newest
            && run.by != by
        {
            Arc::make_mut(run).by = by.to_vec();
        }
    }

    fn note_done(&mut self, held_ms: u64) {
        if let Some(run) = &mut self.newest {
            let lasted_ms = run.began.map(|_| held_ms);
            Arc::make_mut(run).over = Some(view::Over { end: None, lasted_ms });
        }
    }

    fn undo_done(&mut self) {
        if let Some(run) = &mut self.newest {
            Arc::make_mut(run).over = None;
        }
    }

    fn ended(&mut self, end: End, held_ms: Option<u64>) {
        self.over(Some(end), held_ms);
        (self.kept_until, self.held_ms) = (None, 0);
    }

    /// The newest run is over; its work may have been done before.
    fn over(&mut self, end: Option<End>, held_ms: Option<u64>) {
        let Some(run) = &mut self.newest else { return };
        let done = run.over.and_then(|over| over.lasted_ms);
        let lasted_ms = done.or(held_ms.filter(|_| run.began.is_some()));
        let end = Some(end.unwrap_or(End::Unknown));
        Arc::make_mut(run).over = Some(view::Over { end, lasted_ms });
        self.last = self.newest.clone();
    }

    fn due(&self, awaited: Mono) -> Mono {
        awaited.plus_ms(self.spec.every_ms.saturating_add(self.spec.late_after_ms))
    }

    /// For how long the next run has been due, as of the newest reading.
    fn late_ms(&self) -> u64 {
        let periods = if self.may_have_run { 2 } else { 1 };
        self.awaited_ms().saturating_sub(self.spec.every_ms.saturating_mul(periods))
    }

    fn awaited_ms(&self) -> u64 {
        self.read.zip(self.awaited).map_or(0, |(read, awaited)| read.since_ms(awaited))
    }

    pub(crate) fn is_overdue(&self) -> bool {
        self.late_ms() > self.spec.late_after_ms
    }

    /// How long the present run has lasted, once that is too long; otherwise 0.
    pub(crate) fn overran_ms(&self) -> u64 {
        let goes_on = self.fact() == RunFact::GoesOn;
        let is_over = |max_ms: &u64| goes_on && self.held_ms > *max_ms;
        self.spec.max_ms.filter(is_over).map_or(0, |_| self.held_ms)
    }

    pub(crate) fn fact(&self) -> RunFact {
        match &self.newest {
            None => RunFact::Unseen,
            Some(run) if run.over.is_none() => RunFact::GoesOn,
            Some(_) => RunFact::Over,
        }
    }

    pub(crate) fn view(&self) -> RunsView {
        let goes_on = self.fact() == RunFact::GoesOn;
        RunsView {
            fact: self.fact(),
            present: self.newest.clone().filter(|_| goes_on),
            last: self.last.clone().or_else(|| self.newest.clone().filter(|_| !goes_on)),
            began: self.awaited.filter(|_| self.saw_begin),
            watched: self.watched.clone(),
            awaited_ms: self.awaited_ms(),
            late_ms: self.late_ms(),
            may_have_run: self.may_have_run,
        }
    }
}
