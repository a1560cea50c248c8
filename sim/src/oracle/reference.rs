//! Computes the durations that an agent may show for one task from what its readings really found.
//! It implements the rules of `docs/how-it-decides.md` independently, and uses nothing of `judge`
//! but its types.

use lockwatch_judge::event::End;
use lockwatch_judge::spec::TaskSpec;
use lockwatch_judge::time::Mono;

use crate::request::Says;
use crate::truth::LockState;

/// Minimum time in milliseconds between a first free reading and its confirmation.
pub(super) const CONFIRM_MS: u64 = 250;
/// A hold whose duration is so near to `settle` may have lasted, or not.
const CLOSE_MS: u64 = 100;
/// A value that has stood still for so long, in milliseconds, while its deadline moved is a
/// heartbeat.
const HEARTBEAT_KNOWN_MS: u64 = 900_000;
/// Maximum difference in milliseconds between two readings of a deadline that is reported as the
/// remaining time.
const NOISE_MS: i64 = 2;
/// A deadline that moved, or passed, by so much did so also as an agent read it, in milliseconds.
const CLEAR_MS: i64 = 2 * NOISE_MS + 1;

/// The thresholds of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) grace_ms: u64,
    pub(super) settle_ms: u64,
    pub(super) wind_down_ms: u64,
    pub(super) blind_after_ms: u64,
    pub(super) stale_after_ms: Option<u64>,
}

impl Limits {
    pub(super) fn of(spec: &TaskSpec) -> Limits {
        Limits {
            grace_ms: spec.grace_ms,
            // A turn is no hold that must settle.
            settle_ms: if spec.turn().is_some() { 0 } else { spec.settle_ms },
            wind_down_ms: spec.wind_down_ms,
            blind_after_ms: spec.blind_after_ms,
            stale_after_ms: spec.progress.as_ref().map(|progress| progress.stale_after_ms),
        }
    }
}

/// What one reading really found about the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Free,
    Held {
        holders: Vec<(Vec<u8>, u32)>,
        deadline: Option<i64>,
    },
    /// The read was refused, or the key is no lock.
    Nothing,
}

impl Found {
    pub(super) fn of(state: &LockState) -> Found {
        match state {
            LockState::Free => Found::Free,
            LockState::Held { holders, deadline } => {
                Found::Held { holders: holders.clone(), deadline: *deadline }
            }
            // The turn goes on, with any participant.
            LockState::Turn(_) => {
                Found::Held { holders: vec![(b"turn".to_vec(), 1)], deadline: Some(i64::MAX) }
            }
            // Members are locked, not the queue.
            LockState::Queue | LockState::Other => Found::Nothing,
        }
    }
}

/// A hold as found by the readings.
#[derive(Clone, Debug)]
struct Hold {
    holders: Vec<(Vec<u8>, u32)>,
    deadline: Option<i64>,
    /// Whether its deadline last moved back, so that its holder had set its end; `None`: unknown.
    end_is_set: Option<bool>,
    /// The server whose clock it was read by.
    server: usize,
    first: Mono,
    /// There were readings before it.
    is_new: bool,
}

/// Readings that all found somebody's hold, with no break between.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// The first one that certainly did.
    first: Mono,
    /// Nothing was read for too long when it began.
    unseen: bool,
}

impl Hold {
    /// Whether it may have ended at its deadline. Deadlines by two clocks show nothing.
    fn may_be_out(&self, server: usize, clock: i64) -> bool {
        self.server != server
            || self.deadline.is_none_or(|deadline| deadline <= clock.saturating_add(NOISE_MS))
    }

    /// A later reading of it. Deadlines by two clocks show no movement.
    fn moves_to(&mut self, deadline: Option<i64>, server: usize) {
        let both = self.deadline.zip(deadline).filter(|_| self.server == server);
        self.end_is_set = match both.map(|(old, new)| new - old) {
            Some(0..CLEAR_MS) => self.end_is_set,
            moved => moved.map(|moved_ms| moved_ms < 0),
        };
        (self.deadline, self.server) = (deadline, server);
    }

    /// Whether an end that its holder had set passed `ago_ms` ago; `None`: unknown.
    fn is_over_as_set(&self, ago_ms: Option<i64>) -> Option<bool> {
        match (self.end_is_set, ago_ms) {
            (Some(false), _) => Some(false),
            (_, Some(ago_ms)) if ago_ms <= -CLEAR_MS => Some(false),
            (Some(true), Some(CLEAR_MS..)) => Some(true),
            (Some(true) | None, _) => None,
        }
    }
}

/// A gap by the clock: from its first free reading to the newest break, but for what does not
/// count.
#[derive(Clone, Copy, Debug)]
struct Gap {
    first: Mono,
    /// The newest reading at which it was certain that no hold had lasted.
    until: Mono,
    /// What does not count of the time between: it could not be read for too long, and what was
    /// held before that may have lasted.
    unseen_ms: u64,
    /// The newest reading of the lock while it was wanted.
    newest: Mono,
    published: Published,
}

impl Gap {
    fn ms(self) -> u64 {
        self.until.since_ms(self.first).saturating_sub(self.unseen_ms)
    }
}

/// Whether a gap was shown as down while the lock was free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Published {
    #[default]
    No,
    /// Alerts may have waited.
    Perhaps,
    Yes,
}

/// A hold that the newest reading did not find any more.
#[derive(Clone, Copy, Debug)]
struct Gone {
    /// When its lease ran out, on the agent's clock; `None`: it did not, or by another clock, or
    /// that is unknown.
    ran_out: Option<Mono>,
    /// It ended when its holder had set it to end; `None`: that is unknown.
    as_set: Option<bool>,
    stretch: Option<Stretch>,
    is_sure: bool,
}

/// What the newest hold was and what is certain of it, by the readings alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Reference {
    hold: Option<Hold>,
    stretch: Option<Stretch>,
    /// The hold before the newest readings may have run out, which would be a break.
    perhaps_ran_out: bool,
    free_first: Option<Mono>,
    surely_free: Option<Mono>,
    /// The newest confirmed free reading, or the first reading of all.
    broke: Option<Mono>,
    /// Since when every reading may have found the lock free.
    perhaps_free: Option<Mono>,
    /// The clock of the server has stepped since the newest reading.
    stepped: bool,
    /// The server that gave the newest answer.
    read_of: Option<usize>,
    confirmed: bool,
    /// The hold that was gone at the first free reading.
    gone: Option<Gone>,
    /// Its lease ran out, so that reading needs no confirmation.
    ran_out: bool,
    newest: Option<Mono>,
    gap: Option<Gap>,
    wanted_since: Option<Mono>,
    wanted_newest: Option<Mono>,
    unbroken: Option<Mono>,
    /// The gap that the newest reading ended.
    ended: Option<Handover>,
    /// Duration, and the instant it refers to.
    unwanted: Option<(u64, Mono)>,
    /// The start of the unwanted hold is unknown, until a reading certainly finds it wanted.
    pub(super) unwanted_unsure: bool,
    pub(super) progress: Progress,
    /// The server of the last answer. Deadlines by two clocks show nothing about a renewal.
    pub(super) server: usize,
    /// What that server's clock showed with it.
    pub(super) clock: i64,
    /// What the readings proved is unknown, until the next restart of the state.
    pub(super) unsure: bool,
}

/// A gap that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handover {
    pub(super) ms: u64,
    /// The hold that ended the gap began while nothing was read.
    pub(super) unseen: bool,
}

/// The progress as found by the readings.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    value: Option<Vec<u8>>,
    first: Option<Mono>,
    /// When it was last seen to be there.
    newest: Option<Mono>,
    moved: Option<Mono>,
    missing: Option<bool>,
    /// When what was last seen ends, by the server's clock.
    ends: Option<i64>,
    /// When it was first seen to have ended, unless the work had stood still for too long before.
    over: Option<Mono>,
    /// It is gone because it ended.
    has_ended: bool,
    /// It was not there at first.
    appeared: bool,
    /// The work has stood still for too long.
    stale: bool,
    stalled_ms: u64,
    pub(super) unsure: bool,
}

/// A heartbeat that was read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beat {
    /// When it ends.
    pub(super) ends: Option<i64>,
    /// The server's clock.
    pub(super) clock: i64,
    /// Data may have been lost since the reading before, or be another server's.
    pub(super) unsure: bool,
}

impl Reference {
    pub(super) fn gap_ms(&self) -> u64 {
        self.gap.map_or(0, Gap::ms)
    }

    pub(super) fn published(&self) -> Published {
        self.gap.map_or(Published::No, |gap| gap.published)
    }

    /// The lock is free, and the gap too long. Not `surely`: alerts may wait.
    pub(super) fn publish(&mut self, surely: bool) {
        if let Some(gap) = self.gap.as_mut().filter(|gap| gap.published != Published::Yes) {
            gap.published = if surely { Published::Yes } else { Published::Perhaps };
        }
    }

    /// Whether the lock may have been held without a break for `settle` at `at`: some hold may have
    /// run out unnoticed, but none was certainly over.
    pub(super) fn may_be_settled(&self, at: Mono, limits: Limits) -> bool {
        self.broke.is_some_and(|broke| at.since_ms(broke) >= limits.settle_ms)
    }

    /// The gap that the newest reading ended; `None`: it ended none, or that is unknown.
    pub(super) fn ended(&self) -> Option<Handover> {
        self.ended
    }

    /// Since when the readings have found it wanted.
    pub(super) fn wanted_since(&self) -> Option<Mono> {
        self.wanted_since
    }

    pub(super) fn unwanted_ms(&self) -> u64 {
        self.unwanted.map_or(0, |(ms, _)| ms)
    }

    pub(super) fn stalled_ms(&self) -> u64 {
        self.progress.stalled_ms
    }

    /// Whether a heartbeat may be evidence against a stall: an agent that began while the lock was
    /// held does not know at once whether it is a value that stopped.
    pub(super) fn may_deny_stall(&self) -> bool {
        let Progress { appeared, first, newest, .. } = &self.progress;
        let is_known = |(first, newest): (Mono, Mono)| newest.since_ms(first) >= HEARTBEAT_KNOWN_MS;
        *appeared
            || self.hold.as_ref().is_none_or(|hold| hold.is_new)
            || first.zip(*newest).is_some_and(is_known)
    }

    /// Whether the newest answer found the lock free, and another one confirmed it.
    pub(super) fn free(&self) -> bool {
        self.confirmed
    }

    /// Whether that also holds without readings that may have found something else.
    pub(super) fn surely_free(&self) -> bool {
        self.ran_out
            || self
                .surely_free
                .zip(self.newest)
                .is_some_and(|(first, newest)| newest.since_ms(first) >= CONFIRM_MS)
    }

    /// Whether the agent may consider the lock free.
    pub(super) fn perhaps_free(&self) -> bool {
        self.ran_out
            || self
                .perhaps_free
                .zip(self.newest)
                .is_some_and(|(first, newest)| newest.since_ms(first) >= CONFIRM_MS)
    }

    /// A reading of lock and switches, requested at `at`. Not `sure`: it may have found something
    /// else.
    pub(super) fn read(
        &mut self,
        at: Mono,
        found: &Found,
        wanted: Says,
        sure: bool,
        limits: Limits,
    ) {
        self.unwanted_unsure |= !sure;
        self.ended = None;
        self.read_wanted(at, wanted, limits);
        match found {
            Found::Nothing => {}
            Found::Held { .. } if sure => self.perhaps_free = None,
            Found::Held { .. } | Found::Free => _ = self.perhaps_free.get_or_insert(at),
        }
        match found {
            Found::Nothing => return,
            Found::Held { holders, deadline } => {
                self.read_held(at, holders, *deadline, sure, limits)
            }
            Found::Free => self.read_free(at, sure, wanted, limits),
        }
        if wanted != Says::No {
            self.read_gap(at, found, wanted, limits);
        }
        let held = matches!(found, Found::Held { .. });
        match (held, wanted) {
            (true, Says::No) => {
                let (ms, newest) = self.unwanted.unwrap_or((0, at));
                let stretch = at.since_ms(newest);
                self.unwanted =
                    Some((ms + if stretch <= limits.blind_after_ms { stretch } else { 0 }, at));
            }
            (true, Says::Unclear) => {}
            _ => {
                self.unwanted = None;
                self.unwanted_unsure = !sure;
            }
        }
        self.newest = Some(at);
        self.read_of = Some(self.server);
        self.stepped = false;
        self.judge_progress(at, wanted, limits);
    }

    /// The switches were read without the lock.
    pub(super) fn read_parts(&mut self, at: Mono, wanted: Says, limits: Limits) {
        self.ended = None;
        self.read_wanted(at, wanted, limits);
    }

    fn read_wanted(&mut self, at: Mono, wanted: Says, limits: Limits) {
        match wanted {
            Says::Yes => {
                let unbroken = self
                    .wanted_newest
                    .is_none_or(|newest| at.since_ms(newest) <= limits.blind_after_ms);
                if !unbroken || self.unbroken.is_none() {
                    self.unbroken = Some(at);
                }
                self.wanted_newest = Some(at);
                self.wanted_since.get_or_insert(at);
            }
            Says::No => {
                (self.gap, self.wanted_since, self.wanted_newest, self.unbroken) =
                    (None, None, None, None);
                self.unsure &= self.progress.unsure;
            }
            Says::Unclear | Says::Unset => {}
        }
    }

    fn read_held(
        &mut self,
        at: Mono,
        holders: &[(Vec<u8>, u32)],
        deadline: Option<i64>,
        sure: bool,
        limits: Limits,
    ) {
        (self.free_first, self.confirmed) = (None, false);
        (self.gone, self.ran_out) = (None, false);
        self.broke.get_or_insert(at);
        let sure_deadline = if sure { deadline } else { None };
        let mut unseen = false;
        let stays = |hold: &Hold| {
            hold.holders.iter().any(|(who, _)| holders.iter().any(|(other, _)| who == other))
        };
        match &mut self.hold {
            Some(hold) if stays(hold) => {
                // The other server's copy may be an earlier hold of the same client, with the
                // progress of that time.
                self.progress.unsure |= hold.server != self.server;
                hold.moves_to(sure_deadline, self.server);
                hold.holders = holders.to_vec();
            }
            _ => {
                // So it may here, where another server was read before.
                self.progress.unsure |= self.read_of.is_some_and(|server| server != self.server);
                unseen =
                    self.newest.is_some_and(|newest| at.since_ms(newest) > limits.blind_after_ms);
                self.perhaps_ran_out |=
                    self.hold.as_ref().is_some_and(|hold| hold.may_be_out(self.server, self.clock));
                if unseen || self.perhaps_ran_out {
                    self.stretch = None;
                    self.unsure |= !unseen && self.gap.is_some();
                }
                self.hold = Some(Hold {
                    holders: holders.to_vec(),
                    deadline: sure_deadline,
                    end_is_set: Some(false),
                    server: self.server,
                    first: at,
                    is_new: self.newest.is_some(),
                });
            }
        }
        self.perhaps_ran_out = false;
        if sure {
            self.stretch.get_or_insert(Stretch { first: at, unseen });
        }
    }

    /// Whether what is held has not been held for long enough, as of a reading of `at`, to count as
    /// sight although nobody knows whether the task is wanted; `None`: since when is not known.
    pub(super) fn is_young(&self, at: Mono, limits: Limits) -> Option<bool> {
        let enough_ms = limits.settle_ms.min(limits.blind_after_ms / 2);
        Some(at.since_ms(self.stretch.as_ref()?.first) < enough_ms)
    }

    /// The lock changed during the read. It was in one of these states, and the hold may have been
    /// over then.
    pub(super) fn perhaps_over(&mut self, states: &[LockState]) {
        self.unsure = true;
        self.ran_out = false;
        let goes_on = |hold: &Hold| {
            states.iter().all(|state| hold.holders.iter().any(|(who, _)| state.held_by(who)))
        };
        if let Some(hold) = self.hold.as_mut().filter(|hold| !goes_on(hold)) {
            hold.deadline = None;
            self.stretch = None;
            self.progress.unsure = true;
        }
    }

    /// The newest hold was over, and the same instance began another one.
    pub(super) fn held_again(&mut self) {
        if let Some(hold) = &mut self.hold {
            hold.holders.clear();
        }
    }

    /// The server's clock has stepped, to `clock`. A hold past its deadline was over at that
    /// moment, and what the same client holds now may be another hold.
    pub(super) fn clock_stepped(&mut self, clock: i64) {
        self.stepped = true;
        if let Some(hold) = self
            .hold
            .as_mut()
            .filter(|hold| hold.deadline.is_some_and(|deadline| deadline <= clock))
        {
            hold.deadline = None;
            self.stretch = None;
            self.unsure = true;
        }
    }

    fn read_free(&mut self, at: Mono, sure: bool, wanted: Says, limits: Limits) {
        let across_blind =
            self.newest.is_some_and(|newest| at.since_ms(newest) > limits.blind_after_ms);
        if let Some(hold) = self.hold.take() {
            self.perhaps_ran_out |= hold.may_be_out(self.server, self.clock);
            let is_certain = hold.server == self.server && !self.stepped;
            let deadline = hold.deadline.filter(|_| is_certain);
            let ago_ms = deadline.map(|deadline| self.clock - deadline);
            let gone = Gone {
                ran_out: ago_ms.and_then(|ms| Some(at.minus_ms(u64::try_from(ms).ok()?))),
                as_set: hold.is_over_as_set(ago_ms),
                stretch: self.stretch,
                is_sure: sure,
            };
            // After a stretch that was unread for too long, it may have been held again since.
            self.gone = (!across_blind).then_some(gone);
        }
        // It may have been held during the read, and possibly was not free before.
        if sure && self.free_first.is_some() {
            self.surely_free.get_or_insert(at);
        } else {
            self.surely_free = sure.then_some(at);
        }
        match self.free_first {
            None => (self.free_first, self.confirmed) = (Some(at), false),
            Some(_) if !self.confirmed && across_blind => self.free_first = Some(at),
            Some(first) => self.confirmed |= at.since_ms(first) >= CONFIRM_MS,
        }
        if self.confirmed {
            self.broke = Some(at);
        }
        self.broke.get_or_insert(at);
        if self.confirmed && !across_blind {
            let end = self.gone.and_then(|gone| gone.ran_out).or(self.free_first);
            self.break_off(end.unwrap_or(at), wanted, limits);
        }
        if self.confirmed || across_blind {
            (self.stretch, self.perhaps_ran_out) = (None, false);
        }
    }

    /// The stretch of holds is over, and lasted until `end`. By the readings around it, it may have
    /// lasted for `settle`: then it ended a gap of which nobody knows.
    fn break_off(&mut self, end: Mono, wanted: Says, limits: Limits) {
        let Some(stretch) = self.stretch.take() else { return };
        let (Some(gap), true) = (self.gap, wanted != Says::No) else { return };
        let held_ms = end.since_ms(stretch.first);
        // Where it is a matter of milliseconds.
        self.unsure |= held_ms.abs_diff(limits.settle_ms) < CLOSE_MS;
        match gap.published {
            _ if held_ms < limits.settle_ms => {}
            Published::Yes => {}
            Published::Perhaps => self.unsure = true,
            Published::No => {
                let handover = Handover { ms: gap.ms(), unseen: stretch.unseen };
                self.ended = (!self.unsure).then_some(handover);
                self.gap = None;
            }
        }
    }

    /// The agent says how the hold ended which its newest reading does not show any more. At its
    /// deadline, that reading needs no confirmation: whether the lease ran out unrenewed, or to the
    /// end that the holder had set.
    pub(super) fn ended_by(&mut self, at: Mono, reason: End, wanted: Says, limits: Limits) {
        let (Some(gone), false) = (self.gone, self.confirmed) else { return };
        let at_deadline = match reason {
            End::Expired => Some(true),
            End::EndedEarly => gone.as_set,
            End::Replaced | End::Lost | End::Unknown => Some(false),
        };
        if self.free_first != Some(at) || at_deadline == Some(false) {
            return;
        }
        let is_sure = gone.is_sure && at_deadline.is_some();
        let Some(ran_out) = gone.ran_out.filter(|_| is_sure) else {
            self.unsure = true;
            return;
        };
        self.stretch = gone.stretch;
        (self.confirmed, self.ran_out, self.broke) = (true, true, Some(at));
        self.break_off(ran_out, wanted, limits);
        (self.stretch, self.perhaps_ran_out) = (None, false);
        if wanted != Says::No {
            self.read_gap(at, &Found::Free, wanted, limits);
        }
    }

    fn read_gap(&mut self, at: Mono, found: &Found, wanted: Says, limits: Limits) {
        if let (Some(gap), Says::Yes) = (&mut self.gap, wanted) {
            if at.since_ms(gap.newest) > limits.blind_after_ms {
                gap.unseen_ms += at.since_ms(gap.until);
                gap.until = at;
            }
            gap.newest = at;
        }
        if let Found::Held { .. } = found {
            let lasted = |stretch: &Stretch| at.since_ms(stretch.first) >= limits.settle_ms;
            if let Some(Stretch { unseen, .. }) = self.stretch.filter(lasted) {
                let ms = self.gap_ms();
                self.ended = (!self.unsure).then_some(Handover { ms, unseen });
                self.gap = None;
                self.unsure = false;
            }
            return;
        }
        let (Some(first), true, Says::Yes) = (self.free_first, self.confirmed, wanted) else {
            return;
        };
        let first = first.max(self.unbroken.unwrap_or(at));
        let new =
            Gap { first, until: at, unseen_ms: 0, newest: at, published: Published::default() };
        self.gap.get_or_insert(new).until = at;
    }

    /// A reading of the progress; `None`: refused.
    pub(super) fn read_progress(&mut self, at: Mono, found: Option<&Option<Vec<u8>>>, beat: Beat) {
        let progress = &mut self.progress;
        match found {
            None => progress.missing = Some(true),
            Some(None) => {
                // It goes on having ended until it is written again.
                let was_there = progress.value.as_ref().is_some_and(|value| !value.is_empty());
                if was_there {
                    let is_over = progress.ends.is_some_and(|ends| ends <= beat.clock);
                    progress.unsure |= is_over && beat.unsure;
                    progress.over = (is_over && !progress.stale).then_some(at);
                    progress.has_ended = is_over;
                }
                progress.missing = (!progress.has_ended).then_some(false);
                if progress.value.is_some() || progress.first.is_none() {
                    progress.value = Some(Vec::new());
                }
                progress.first.get_or_insert(at);
            }
            Some(Some(value)) => {
                progress.missing = None;
                progress.first.get_or_insert(at);
                progress.newest = Some(at);
                // A heartbeat has always the same bytes.
                let is_later = progress.ends.zip(beat.ends).is_some_and(|(old, new)| old < new);
                progress.appeared |= progress.value.as_ref().is_some_and(Vec::is_empty);
                if is_later || progress.value.as_ref().is_some_and(|old| old != value) {
                    progress.moved = Some(at);
                }
                (progress.ends, progress.over, progress.has_ended) = (beat.ends, None, false);
                progress.value = Some(value.clone());
            }
        }
    }

    fn judge_progress(&mut self, at: Mono, wanted: Says, limits: Limits) {
        let Some(stale_after_ms) = limits.stale_after_ms else { return };
        let progress = &mut self.progress;
        let (Some(hold), false) = (&self.hold, wanted == Says::No) else {
            progress.stalled_ms = 0;
            progress.unsure = false;
            return;
        };
        let instants =
            [progress.moved, Some(hold.first), self.wanted_since, progress.first, progress.over];
        let still = at.since_ms(instants.into_iter().flatten().max().unwrap_or(at));
        let stale = still > stale_after_ms;
        progress.stale = stale;
        let unread = progress.missing == Some(true) || wanted == Says::Unclear;
        match progress.missing {
            Some(false) => progress.stalled_ms = 0,
            // Its value stays, but progress that is too new to be stalled, or was seen to move, is
            // not stalled.
            _ if unread && stale => {}
            _ => progress.stalled_ms = if stale { still } else { 0 },
        }
    }
}
