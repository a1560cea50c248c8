//! The verdict that follows from what the readings found, by the table of `docs/how-it-decides.md`.
//! If the table keeps the verdict, it must stay.

use lockwatch_judge::event::End;
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::{Verdict, Wanted};

use super::facts::TaskFacts;
use super::found::{Newest, Said};
use super::reference::Published;
use super::state::Oracle;
use crate::agent::mono;
use crate::request::Says;
use crate::truth::LockState;
use crate::world::World;

/// The effect of the newest answer.
enum Leads {
    To(Verdict),
    /// It proves nothing, so the verdict stays.
    Nowhere,
    /// It was read during a change.
    Open,
}

impl TaskFacts {
    /// The state of the switches, including lost ones.
    pub(super) fn wanted(&self) -> Says {
        if self.lost.any() { Says::Yes } else { self.says }
    }

    /// Nothing is known about parts on another server until the next request.
    pub(super) fn unasked(&mut self) {
        if self.apart && matches!(self.says, Says::Yes | Says::No) && self.switches_at.is_some() {
            self.says = Says::Unclear;
        }
    }

    fn leads(&self) -> Leads {
        if self.newest == Newest::Open {
            return Leads::Open;
        }
        let (Newest::Answered, Some(last)) = (&self.newest, &self.last) else {
            return Leads::Nowhere;
        };
        let [state] = last.states.as_slice() else { return Leads::Open };
        if self.reference.unsure
            || self.reference.progress.unsure
            || self.lost.unsure
            || self.mixed
            || self.contradicted
        {
            return Leads::Open;
        }
        let is_down = self.reference.gap_ms() > self.limits.grace_ms;
        let verdict = match (state, self.wanted()) {
            (LockState::Held { .. }, Says::Yes)
                if is_down && self.reference.published() != Published::No =>
            {
                match self.reference.published() {
                    Published::Yes => Verdict::Down,
                    Published::Perhaps | Published::No => return Leads::Open,
                }
            }
            (LockState::Held { .. }, Says::No) if self.reference.unwanted_unsure => {
                return Leads::Open;
            }
            (LockState::Held { .. }, Says::Yes | Says::Unset)
                if self.reference.stalled_ms() > 0 =>
            {
                Verdict::Stalled
            }
            (LockState::Held { .. }, Says::No)
                if self.reference.unwanted_ms() > self.limits.wind_down_ms =>
            {
                Verdict::Unwanted
            }
            (LockState::Held { .. }, _) => Verdict::Running,
            // The readings alone do not say how late it is: `turns` checks that.
            (LockState::Turn(_), Says::Yes | Says::Unset) => return Leads::Open,
            (LockState::Turn(_), Says::No) => Verdict::Stopped,
            (LockState::Turn(_), Says::Unclear) => Verdict::Running,
            (LockState::Free, _) if !self.reference.free() && self.reference.perhaps_free() => {
                return Leads::Open;
            }
            (LockState::Free, _) if !self.reference.free() => return Leads::Nowhere,
            (LockState::Free, _) if !self.reference.surely_free() => return Leads::Open,
            (LockState::Free, Says::Yes) if is_down => Verdict::Down,
            (LockState::Free, Says::Yes) => Verdict::Pending,
            (LockState::Free, Says::No | Says::Unset) => Verdict::Stopped,
            (LockState::Free, Says::Unclear) | (LockState::Queue | LockState::Other, _) => {
                return Leads::Nowhere;
            }
        };
        Leads::To(verdict)
    }

    /// The agent says how a hold ended that its reading of `at` does not show any more.
    pub(super) fn hold_ended(&mut self, at: Mono, reason: End) {
        let (wanted, limits) = (self.wanted(), self.limits);
        self.reference.ended_by(at, reason, wanted, limits);
        self.follow_verdict();
        self.follow_published(at);
    }

    /// A gap that is too long is shown while the lock is free, unless alerts wait.
    pub(super) fn follow_published(&mut self, at: Mono) {
        let is_free = self.newest == Newest::Answered
            && self.reference.free()
            && self.reference.surely_free();
        let is_down = self.reference.gap_ms() > self.limits.grace_ms;
        if is_free && is_down && self.wanted() == Says::Yes {
            let waits = self.may_be_paused(at);
            self.reference.publish(!waits);
        }
    }

    /// Follows each answer, so that the verdict before an answer that proves nothing is known.
    pub(super) fn follow_verdict(&mut self) {
        match self.leads() {
            // Whether this ended the split is not known here.
            Leads::To(_) if self.is_split => self.said = Said::Open,
            // It is unknown as long as it was blind before.
            Leads::To(_)
                if self.is_young(None) != Some(false) && self.wanted() == Says::Unclear =>
            {
                self.said = Said::Open;
            }
            Leads::To(verdict) => self.said = Said::This(verdict),
            Leads::Open => self.said = Said::Open,
            Leads::Nowhere => {}
        }
    }
}

impl TaskFacts {
    /// Whether a lock is held, and has not been for long enough to end the present blindness, in
    /// which the server answered, as of this reading or of the newest; `None`: that is not known.
    pub(super) fn is_young(&self, at: Option<Mono>) -> Option<bool> {
        let last = self.last.as_ref();
        let is_held = last
            .is_some_and(|last| last.states.iter().any(|it| matches!(it, LockState::Held { .. })));
        let at = at.or_else(|| last.map(|last| last.sent));
        match (self.in_vain && is_held, at) {
            (true, Some(at)) => self.reference.is_young(at, self.limits),
            _ => Some(false),
        }
    }
}

impl Oracle {
    pub(super) fn check_verdict(&mut self, task: usize, view: &TaskView, world: &World) {
        let facts = &mut self.tasks[task];
        facts.is_split = !view.splits.is_empty();
        // Changed thresholds apply from the next reading or tick. One of the same instant may have
        // come before or after.
        if facts.tried.max(self.ticked) <= mono(facts.configured_at) {
            facts.said = Said::Open;
            return;
        }
        let blind = view.durations.blind_ms > view.spec.blind_after_ms;
        let expected = match (facts.leads(), facts.said) {
            _ if !view.splits.is_empty() => Some(Verdict::Split),
            (Leads::To(Verdict::Running), _) if blind && facts.wanted() == Says::Unclear => {
                match facts.is_young(None) {
                    Some(true) => Some(Verdict::Unknown),
                    Some(false) => Some(Verdict::Running),
                    None => None,
                }
            }
            (Leads::To(verdict), _) => Some(verdict),
            (Leads::Open, _) => None,
            (Leads::Nowhere, _) if blind => Some(Verdict::Unknown),
            (Leads::Nowhere, Said::Nothing) => Some(Verdict::Unknown),
            (Leads::Nowhere, Said::This(verdict)) => Some(verdict),
            (Leads::Nowhere, Said::Open) => None,
        };
        if !(expected == Some(Verdict::Unknown) && facts.said == Said::Nothing && !blind) {
            facts.said = Said::This(expected.unwrap_or(view.verdict));
        }
        let sure = facts.newest == Newest::Answered && !facts.mixed && !facts.lost.unsure;
        let wanted = match facts.wanted() {
            Says::Yes => Wanted::Yes,
            Says::No => Wanted::No,
            Says::Unclear => Wanted::Unknown,
            Says::Unset => Wanted::Unset,
        };
        let mut wrong = Vec::new();
        if let Some(expected) = expected.filter(|expected| *expected != view.verdict) {
            wrong.push((
                "verdict",
                format!(
                    "{}: {} is said, the readings prove {}",
                    view.spec.name,
                    view.verdict.name(),
                    expected.name()
                ),
            ));
        }
        if sure && view.wanted != wanted {
            wrong.push((
                "wanted",
                format!(
                    "{}: wanted is shown as {}, the switches say {}",
                    view.spec.name,
                    view.wanted.name(),
                    wanted.name()
                ),
            ));
        }
        for (check, what) in wrong {
            self.blame(world, check, what);
        }
    }
}
