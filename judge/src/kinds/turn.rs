//! A task that takes turns with others.

pub(crate) mod rules;
pub(crate) mod spec;
mod state;
pub(crate) mod view;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use self::spec::TurnSpec;
use self::state::{Changes, Context, Turns};
use super::kind::{Kind, KindView};
use crate::event::{EventKind, Fate, Party};
use crate::evidence::{Attempts, Seen, is_far};
use crate::reading::{
    Deadline, GuardReading, Held, Holder, Mode, TaskReading, Turn, TurnReading, Unknown,
};
use crate::shared::claims::Weighed;
use crate::shared::clocks::Holding;
use crate::shared::splits::Observation;
use crate::shared::{Shared, Signs};
use crate::spec::TaskSpec;
use crate::step::{Accepted, Log};
use crate::time::Mono;
use crate::verdict::{Facts, TurnFact, TurnFacts, Wanted};

/// What is known of a task only because it takes turns.
#[derive(Clone, Debug)]
pub(crate) struct TurnTask {
    spec: TurnSpec,
    turns: Turns,
    /// Who has the turn, as the holder of a lock would be.
    held: Option<Held>,
}

impl TurnTask {
    pub(crate) fn new(spec: &TurnSpec) -> TurnTask {
        TurnTask { spec: spec.clone(), turns: Turns::new(spec), held: None }
    }

    fn observe_turns(
        &mut self,
        shared: &mut Shared,
        fields: &[Turn],
        batch: Accepted<'_>,
        other_clock: bool,
        log: &mut Log,
    ) {
        let sent = batch.sent;
        let wanted_since = match shared.wanted() {
            Wanted::Yes => shared.wanted_since().or(Some(sent)),
            // It is nobody's to take.
            Wanted::No => Some(sent),
            Wanted::Unset | Wanted::Unknown => shared.wanted_since(),
        };
        let context = Context {
            seen: batch.seen(),
            spec: &self.spec,
            wanted_since,
            took_ms: batch.took_ms,
            other_clock,
            blind_after_ms: shared.spec.blind_after_ms,
        };
        let changes = self.turns.observe(fields, context);
        if changes.began {
            shared.claims.hold_changed();
            self.held = self.turns.holder().map(|holder| Held {
                mode: Mode::Exclusive,
                holders: vec![party(&holder.turn).holder],
                ghosts: 0,
                deadline: Deadline::Never,
            });
        }
        let began = changes.began;
        report(changes, log);
        let holding = match self.turns.fact() {
            TurnFact::Somebody => Holding::Settled,
            TurnFact::Nobody => {
                self.turns.nobody_since().map_or(Holding::PerhapsFree, Holding::Free)
            }
            TurnFact::Unknown => Holding::PerhapsFree,
        };
        shared.observe_gap(sent, holding, log);
        self.observe_splits(shared, began, sent, log);
    }

    fn observe_splits(&self, shared: &mut Shared, began: bool, at: Mono, log: &mut Log) {
        let since = self.turns.holder().map_or(at, |holder| holder.first_seen);
        let held = self.held.as_ref();
        let weighed = held.map(|held| Weighed { held, sure_since: since, still_since: None });
        let claims_during = shared.claims.weigh(weighed, shared.spec.fresh_for_ms());
        let observation = Observation {
            at,
            held,
            acquired: began,
            proven: true,
            claims_during: &claims_during,
            spec: &shared.spec,
        };
        let claimed = shared.splits.observe(&shared.claims, observation);
        shared.report_splits(claimed, log);
        let fields = self.turns.split(&self.spec);
        let parties = fields.map(|fields| fields.iter().map(party).collect());
        let both = shared.splits.observe_turns(parties, at);
        shared.report_splits(both, log);
    }
}

fn report(changes: Changes, log: &mut Log) {
    if let Some(name) = changes.unknown_name {
        log.push(EventKind::TurnUnknownName { name });
    }
    if let Some((expected, came)) = changes.out_of_order {
        log.push(EventKind::TurnOutOfOrder { expected, came });
    }
}

/// The task that has a turn, as an instance that holds a lock.
fn party(turn: &Turn) -> Party {
    let holder = Holder { client: turn.name.clone(), thread: None, entries: None, secret: false };
    Party { holder, node: None, host: None }
}

/// The fields that were read, or why the reading proves nothing.
fn read(reading: &TurnReading, seen: Seen) -> Result<&Vec<Turn>, Unknown> {
    match reading {
        TurnReading::Unknown(why) => Err(*why),
        TurnReading::Read(fields) if fields.iter().any(|turn| is_far(turn.from, seen.first)) => {
            Err(Unknown::FarInstant)
        }
        TurnReading::Read(fields) => Ok(fields),
    }
}

impl Kind for TurnTask {
    fn configure(&mut self, _before: &TaskSpec, now: &TaskSpec) {
        if let Some(spec) = now.turn() {
            self.turns.configure(&self.spec, spec);
            self.spec = spec.clone();
        }
    }

    fn unknown(&mut self, why: Unknown) {
        self.turns.attempts.newest = Err(why);
    }

    fn attempts(&self) -> Attempts {
        self.turns.attempts
    }

    fn held(&self) -> Option<bool> {
        self.turns.held()
    }

    fn holders(&self) -> &[Holder] {
        self.held.as_ref().map(|held| &*held.holders).unwrap_or_default()
    }

    fn stalled_ms(&self, _shared: &Shared) -> u64 {
        let late_ms = self.turns.late_ms();
        if late_ms > self.spec.max_late_ms { late_ms } else { 0 }
    }

    fn observe(
        &mut self,
        shared: &mut Shared,
        reading: &TaskReading,
        _signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log,
    ) -> Option<Option<Fate>> {
        let GuardReading::Turn(reading) = &reading.guard else { return None };
        let read = read(reading, batch.seen());
        shared.report_readable(read.map(|_| ()), log);
        match read {
            Ok(fields) => {
                let before = shared.origin.as_ref();
                let other_clock = before.is_some_and(|before| !before.same_clock(batch.origin));
                shared.note_origin(batch);
                self.observe_turns(shared, fields, batch, other_clock, log);
            }
            Err(why) => {
                self.turns.attempts.newest = Err(why);
                shared.observe_gap(batch.sent, Holding::Unseen, log);
            }
        }
        None
    }

    fn facts(&self, shared: &Shared) -> Facts {
        Facts::Turn(TurnFacts {
            wanted: shared.wanted(),
            turn: self.turns.fact(),
            split: shared.is_split(),
            gap_over_grace: shared.is_gap_over_grace(),
            late: self.stalled_ms(shared) > 0,
            blind: shared.is_blind(),
        })
    }

    fn update_grounds(&mut self, shared: &mut Shared, _at: Mono) {
        shared.grounds.settled = self.turns.fact() == TurnFact::Somebody;
    }

    fn view(&mut self, _shared: &Shared) -> KindView {
        KindView::Turn(Box::new(self.turns.view(&self.spec)))
    }
}
