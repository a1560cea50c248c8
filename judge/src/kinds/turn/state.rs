//! Tracks whose turn it is: the only field of a hash names the task that may run next.

use alloc::vec;
use alloc::vec::Vec;

use super::view::{Taken, TurnView};
use crate::evidence::{Attempts, CONFIRM_AFTER_MS, Seen};
use crate::reading::Turn;
use crate::spec::{Name, TurnSpec};
use crate::time::Mono;
use crate::verdict::TurnFact;

/// Longer than this takes no answer in an ordinary network, in milliseconds.
const QUICK_MS: u64 = 250;

/// The turns of some tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns {
    pub(super) attempts: Attempts,
    /// Who had the turn last, alone.
    holder: Option<Holder>,
    /// The fields of the newest accepted reading, and from when on each may be taken.
    fields: Vec<(Turn, Mono)>,
    /// The first reading of a stretch in which it was nobody's turn.
    nobody_since: Option<Mono>,
    /// The fields of the newest reading, each with since when it has stood with this value. Empty
    /// while at most one task has the turn.
    together: Vec<(Turn, Mono)>,
    /// Since the holder was seen, no stretch without a reading was long enough for another turn.
    saw_all: bool,
    /// How long the turn has been overdue, in milliseconds.
    late_ms: u64,
    /// Turns that each task has passed on, in the order of the configuration.
    taken: Vec<u64>,
    out_of_order: u64,
    unknown_names: u64,
}

/// Who has the turn.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) turn: Turn,
    pub(crate) first_seen: Mono,
}

/// What a reading changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changes {
    /// Another turn began.
    pub(crate) began: bool,
    /// The task whose turn came before its time: the one that was to come, and the one that came.
    pub(crate) out_of_order: Option<(Vec<u8>, Vec<u8>)>,
    /// A name that is not configured appeared.
    pub(crate) unknown_name: Option<Vec<u8>>,
}

/// What a reading is judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) seen: Seen,
    pub(crate) spec: &'a TurnSpec,
    /// First evidence that the task is wanted, if it can be wanted.
    pub(crate) wanted_since: Option<Mono>,
    /// How long the answer took, in milliseconds.
    pub(crate) took_ms: u64,
    /// It is not the clock of the reading before: it has stepped, or is another server's.
    pub(crate) other_clock: bool,
    pub(crate) blind_after_ms: u64,
}

impl Turns {
    pub(crate) fn new(spec: &TurnSpec) -> Turns {
        Turns { taken: vec![0; spec.tasks.len()], ..Turns::default() }
    }

    /// Takes over a changed configuration of the same hash. Tasks that stay keep their counts.
    pub(crate) fn configure(&mut self, before: &TurnSpec, now: &TurnSpec) {
        let count = |name: &Name| {
            let position = before.position(&name.0)?;
            self.taken.get(position).copied()
        };
        self.taken = now.tasks.iter().map(|name| count(name).unwrap_or(0)).collect();
        if before.unit != now.unit || before.tasks != now.tasks {
            (self.holder, self.together) = (None, Vec::new());
            self.fields.clear();
        }
    }

    /// Whether it is somebody's turn, by the newest reading.
    pub(crate) fn held(&self) -> Option<bool> {
        (self.attempts.newest.is_ok() && self.attempts.last.is_some())
            .then_some(!self.fields.is_empty())
    }

    /// Who had the turn last.
    pub(crate) fn holder(&self) -> Option<&Holder> {
        self.holder.as_ref()
    }

    /// What is known of the turn. That it is nobody's must be seen again: who passes it may
    /// delete the old field first.
    pub(crate) fn fact(&self) -> TurnFact {
        match self.held() {
            Some(true) => TurnFact::Somebody,
            Some(false) if self.nobody_since().is_some() => TurnFact::Nobody,
            _ => TurnFact::Unknown,
        }
    }

    /// Since when it has been nobody's turn, once that is confirmed.
    pub(crate) fn nobody_since(&self) -> Option<Mono> {
        let (since, last) = self.nobody_since.zip(self.attempts.last)?;
        (last.sent.since_ms(since) >= CONFIRM_AFTER_MS).then_some(since)
    }

    /// How long the turn has been overdue as of the newest reading, in milliseconds.
    pub(crate) fn late_ms(&self) -> u64 {
        self.late_ms
    }

    /// The fields that have stood together for longer than a passing takes.
    pub(crate) fn split(&self, spec: &TurnSpec) -> Option<Vec<Turn>> {
        let read_at = self.attempts.last?.sent;
        let lasts = |(_, since): &&(Turn, Mono)| read_at.since_ms(*since) >= spec.handover_ms;
        let stand: Vec<Turn> =
            self.together.iter().filter(lasts).map(|(turn, _)| turn.clone()).collect();
        (stand.len() > 1).then_some(stand)
    }

    /// Takes in an accepted reading.
    pub(crate) fn observe(&mut self, fields: &[Turn], context: Context<'_>) -> Changes {
        let Context { seen, spec, blind_after_ms, .. } = context;
        let mut changes = Changes::default();
        let unseen_ms = self.attempts.last.map_or(u64::MAX, |last| seen.sent.since_ms(last.sent));
        self.saw_all &= spec.min_turn_ms.is_some_and(|least_ms| unseen_ms <= least_ms);
        let is_new = |turn: &&Turn| !self.fields.iter().any(|(old, _)| old.name == turn.name);
        let foreign = |turn: &&Turn| spec.position(&turn.name).is_none();
        if let Some(turn) = fields.iter().filter(is_new).find(foreign) {
            self.unknown_names += 1;
            changes.unknown_name = Some(turn.name.clone());
        }
        self.nobody_since = match fields.is_empty() {
            // Another turn may have come and gone before it was confirmed.
            true if unseen_ms > blind_after_ms => self.nobody_since().or(Some(seen.sent)),
            true => self.nobody_since.or(Some(seen.sent)),
            false => None,
        };
        self.update_side_by_side(fields, context);
        if let [turn] = fields {
            self.update_turn(turn, seen.sent, spec, &mut changes);
        }
        self.fields = fields.iter().map(|turn| (turn.clone(), self.due(turn, context))).collect();
        self.attempts = Attempts::read(seen);
        self.late_ms = self.overdue_ms(context);
        changes
    }

    /// Updates which fields stay together with the same values.
    fn update_side_by_side(&mut self, fields: &[Turn], context: Context<'_>) {
        let Context { seen, took_ms, .. } = context;
        // A slow answer may show the end of its wait only.
        let at = if took_ms > QUICK_MS { seen.sent.plus_ms(took_ms) } else { seen.sent };
        let before = core::mem::take(&mut self.together);
        if fields.len() > 1 {
            let since = |turn: &Turn| before.iter().find(|(old, _)| old == turn).map(|(_, at)| *at);
            self.together =
                fields.iter().map(|turn| (turn.clone(), since(turn).unwrap_or(at))).collect();
        }
    }

    /// One task has the turn.
    fn update_turn(&mut self, turn: &Turn, at: Mono, spec: &TurnSpec, changes: &mut Changes) {
        let before = self.holder.as_ref().filter(|holder| holder.turn != *turn);
        if let Some(before) = before {
            let position = spec.position(&before.turn.name);
            if let Some(count) = position.and_then(|position| self.taken.get_mut(position)) {
                *count += 1;
            }
            let next = position.and_then(|position| {
                spec.tasks.iter().cycle().nth(position + 1).filter(|_| spec.tasks.len() > 1)
            });
            if let Some(next) = next.filter(|next| self.saw_all && next.0 != turn.name) {
                self.out_of_order += 1;
                changes.out_of_order = Some((next.0.clone(), turn.name.clone()));
            }
        }
        if before.is_some() || self.holder.is_none() {
            changes.began = true;
            self.holder = Some(Holder { turn: turn.clone(), first_seen: at });
        }
        self.saw_all = true;
    }

    /// How long the turn that has waited longest has been overdue, in milliseconds: since it may be
    /// taken, and is wanted.
    fn overdue_ms(&self, context: Context<'_>) -> u64 {
        let Context { seen, wanted_since, .. } = context;
        let overdue_ms = |(_, due): &(Turn, Mono)| {
            seen.sent.since_ms(wanted_since.map_or(*due, |wanted| wanted.max(*due)))
        };
        self.fields.iter().map(overdue_ms).max().unwrap_or(0)
    }

    /// From when on a turn may be taken, on the agent's clock.
    ///
    /// By another clock than before, a turn that was due waits for as long as it did, and no other
    /// one can have waited for longer than it has been there.
    fn due(&self, turn: &Turn, context: Context<'_>) -> Mono {
        let Context { seen, other_clock, .. } = context;
        if turn.from.ms() <= 0 {
            // Zero means "at once". When that was is not known.
            let holder = self.holder.as_ref().filter(|holder| holder.turn == *turn);
            return holder.map_or(seen.sent, |holder| holder.first_seen);
        }
        let before = self.fields.iter().find(|(old, _)| old == turn).map(|(_, due)| *due);
        let least = match self.attempts.last.filter(|_| other_clock) {
            Some(last) => Some(before.unwrap_or(last.sent).min(last.sent)),
            None => before,
        };
        seen.mono_of(turn.from).max(least.unwrap_or(Mono::at(0)))
    }

    /// What outputs show.
    pub(crate) fn view(&self, spec: &TurnSpec) -> TurnView {
        let is_read = self.attempts.newest.is_ok();
        let holder = self.holder.as_ref().filter(|_| is_read && !self.fields.is_empty());
        TurnView {
            fact: self.fact(),
            name: holder.map(|holder| holder.turn.name.clone()),
            from: holder.map(|holder| holder.turn.from),
            fields: is_read.then_some(self.fields.len()),
            late_ms: self.late_ms,
            taken: spec
                .tasks
                .iter()
                .zip(&self.taken)
                .map(|(name, turns)| Taken { name: name.0.clone(), turns: *turns })
                .collect(),
            out_of_order: spec.min_turn_ms.map(|_| self.out_of_order),
            unknown_names: self.unknown_names,
        }
    }
}
