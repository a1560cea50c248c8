//! What tasks have that take turns.

use alloc::boxed::Box;
use alloc::vec;

use super::beside::Signs;
use super::{Accepted, Kind, Log, Watched};
use crate::claims::Weighed;
use crate::clocks::{GapClock, Holding};
use crate::event::{EventKind, Fate, Party};
use crate::evidence::Seen;
use crate::kinds::KindView;
use crate::kinds::turn::{Context, News, Turns, is_far};
use crate::reading::{
    Beside, Deadline, GuardReading, Held, Holder, Mode, Turn, TurnReading, Unknown,
};
use crate::spec::{KindSpec, TaskSpec, TurnSpec};
use crate::splits::View;
use crate::time::Mono;
use crate::verdict::{Facts, TurnFact, TurnFacts, Wanted};

/// What is followed of tasks only because they take turns.
#[derive(Clone, Debug)]
pub(crate) struct OfTurn {
    spec: TurnSpec,
    turns: Turns,
    /// Who has the turn, as the holder of a lock would be.
    held: Option<Held>,
}

impl OfTurn {
    pub(super) fn new(spec: &TurnSpec) -> OfTurn {
        OfTurn { spec: spec.clone(), turns: Turns::new(spec), held: None }
    }
}

impl Kind for OfTurn {
    fn configure(&mut self, _before: &TaskSpec, now: &TaskSpec) {
        if let KindSpec::Turn(spec) = &now.kind {
            self.turns.configure(&self.spec, spec);
            self.spec = spec.clone();
        }
    }

    fn unknown(&mut self, why: Unknown) {
        self.turns.unknown(why);
    }

    fn newest(&self) -> Result<(), Unknown> {
        self.turns.newest()
    }

    fn last_reading(&self) -> Option<Seen> {
        self.turns.last_reading()
    }

    fn held(&self) -> Option<bool> {
        self.turns.held()
    }

    fn holders(&self) -> &[Holder] {
        self.held.as_ref().map(|held| &*held.holders).unwrap_or_default()
    }

    fn stalled_ms(task: &Watched<OfTurn>) -> u64 {
        let late_ms = task.kind.turns.late_ms();
        if late_ms > task.kind.spec.max_late_ms { late_ms } else { 0 }
    }

    fn observe(
        task: &mut Watched<OfTurn>,
        (guard, _beside): (&GuardReading, &Beside),
        _signs: &Signs,
        batch: Accepted<'_>,
        log: &mut Log<'_>,
    ) -> Option<Option<Fate>> {
        let GuardReading::Turn(reading) = guard else { return None };
        let now = batch.seen().first;
        let read = match reading {
            TurnReading::Unknown(why) => Err(*why),
            TurnReading::Read(fields) if fields.iter().any(|turn| is_far(turn.from, now)) => {
                Err(Unknown::FarInstant)
            }
            TurnReading::Read(fields) => Ok(fields),
        };
        task.tell_readable(read.map(|_| ()), log);
        match read {
            Ok(fields) => {
                let before = task.origin.as_ref();
                let other_clock = before.is_some_and(|before| !before.same_clock(batch.origin));
                task.note_origin(batch);
                task.follow_turns(fields, batch, other_clock, log);
            }
            Err(why) => {
                task.kind.turns.unknown(why);
                task.observe_gap(batch.sent, Holding::Unseen, log);
            }
        }
        None
    }

    fn facts(task: &Watched<OfTurn>) -> Facts {
        Facts::Turn(TurnFacts {
            wanted: task.wanted(),
            turn: task.kind.turns.fact(),
            split: task.is_split(),
            gap_over_grace: task.is_gap_over_grace(),
            late: OfTurn::stalled_ms(task) > 0,
            blind: task.is_blind(),
        })
    }

    fn follow_grounds(task: &mut Watched<OfTurn>, _at: Mono) {
        task.grounds.settled = task.kind.turns.fact() == TurnFact::Somebody;
    }

    fn view(task: &mut Watched<OfTurn>) -> KindView {
        KindView::Turn(Box::new(task.kind.turns.view(&task.kind.spec)))
    }
}

impl Watched<OfTurn> {
    fn follow_turns(
        &mut self,
        fields: &[Turn],
        batch: Accepted<'_>,
        other_clock: bool,
        log: &mut Log<'_>,
    ) {
        let (seen, sent) = (batch.seen(), batch.sent);
        let wanted_since = self.gap().and_then(GapClock::wanted_since);
        let wanted_since = match self.wanted() {
            Wanted::Yes => wanted_since.or(Some(sent)),
            // It is nobody's to take.
            Wanted::No => Some(sent),
            Wanted::Unset | Wanted::Unknown => wanted_since,
        };
        let context = Context {
            seen,
            spec: &self.kind.spec,
            wanted_since,
            took_ms: batch.took_ms,
            other_clock,
            blind_after_ms: self.spec.blind_after_ms,
        };
        let news = self.kind.turns.observe(fields, context);
        self.tell_turns(&news, log);
        let holding = match self.kind.turns.fact() {
            TurnFact::Somebody => Holding::Settled,
            TurnFact::Nobody => {
                self.kind.turns.nobody_since().map_or(Holding::PerhapsFree, Holding::Free)
            }
            TurnFact::Unknown => Holding::PerhapsFree,
        };
        self.observe_gap(sent, holding, log);
        self.follow_turn_splits(&news, sent, log);
    }

    fn tell_turns(&mut self, news: &News, log: &mut Log<'_>) {
        if news.began {
            self.claims.hold_changed();
            let holder = self.kind.turns.holder();
            self.kind.held = holder.map(|holder| Held {
                mode: Mode::Exclusive,
                holders: vec![party(&holder.turn).holder],
                ghosts: 0,
                deadline: Deadline::Never,
            });
        }
        if let Some(name) = &news.unknown_name {
            log.push(EventKind::TurnUnknownName { name: name.clone() });
        }
        if let Some((expected, came)) = &news.out_of_order {
            let (expected, came) = (expected.clone(), came.clone());
            log.push(EventKind::TurnOutOfOrder { expected, came });
        }
    }

    fn follow_turn_splits(&mut self, news: &News, at: Mono, log: &mut Log<'_>) {
        let since = self.kind.turns.holder().map_or(at, |holder| holder.first_seen);
        let weighed = self.kind.held.as_ref().map(|held| Weighed {
            held,
            sure_since: since,
            still_since: None,
        });
        let claims_beside = self.claims.weigh(weighed, self.fresh_for_ms());
        let fresh_for_ms = self.fresh_for_ms();
        let view = View {
            at,
            held: self.kind.held.as_ref(),
            acquired: news.began,
            proven: true,
            claims_beside: &claims_beside,
            fresh_for_ms,
            blind_after_ms: self.spec.blind_after_ms,
            claimants: self.spec.kind.claimants(),
        };
        let claimed = self.splits.observe(&self.claims, view);
        self.tell_splits(claimed, log);
        let fields = self.kind.turns.split(&self.kind.spec);
        let parties = fields.map(|fields| fields.iter().map(party).collect());
        let both = self.splits.observe_turns(parties, at);
        self.tell_splits(both, log);
    }
}

/// The task that has a turn, as an instance that holds a lock.
fn party(turn: &Turn) -> Party {
    let holder = Holder { client: turn.name.clone(), thread: None, entries: None, secret: false };
    Party { holder, node: None, host: None }
}
