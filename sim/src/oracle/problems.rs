//! Problems: no positive without a witness, none late, none that contradicts the verdict, and no
//! zero that is not fresh.

use lockwatch_judge::problems::{Finding, Problem, of_task, task_finding};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;

use super::found::Newest;
use super::reference::Published;
use super::state::Oracle;
use crate::agent::mono;
use crate::request::Says;
use crate::truth::LockState;
use crate::world::World;

impl Oracle {
    /// What the agent says of problems, against what its own readings found.
    pub(super) fn check_problems(&mut self, task: usize, view: &TaskView, at: Mono, world: &World) {
        let facts = &self.tasks[task];
        let name = &view.spec.name;
        let shown = of_task(view, at, None);
        let of = |problem| task_finding(problem, view, at);
        let mut wrong = Vec::new();
        let mut claim = |holds: bool, what: &str| {
            if !holds {
                let newest = &facts.newest;
                wrong.push(format!("{name}: {what}: {shown:?}, newest {newest:?}"));
            }
        };
        // An agent that was paused judges what it read before only at its next tick.
        let is_fresh = at.since_ms(facts.good) <= view.spec.blind_after_ms;
        let answered = facts.newest == Newest::Answered && is_fresh;
        let failed = matches!(facts.newest, Newest::Failed | Newest::Never);
        let may_be_wanted = view.spec.may_be_wanted();
        for problem in [
            Problem::Down,
            Problem::Stalled,
            Problem::Failing,
            Problem::Split,
            Problem::SwitchesLost,
        ] {
            claim(!(of(problem).is_positive() && failed), "a positive without a witness");
        }
        claim(!(shown.clear && failed), "what could not be read is clear");
        claim(
            !of(Problem::Failing).is_positive() || world.tasks[task].ends >= 3,
            "a script fails that did not",
        );
        if may_be_wanted {
            claim(!(of(Problem::Down) == Finding::Negative && failed), "a zero that is not fresh");
        }
        let limit_ms = view.spec.blind_after_ms;
        let unread_ms = at.since_ms(facts.good);
        let slack_ms = 2 * self.interval_ms + self.timeout_ms;
        claim(
            !(of(Problem::Blind) == Finding::Negative && unread_ms > limit_ms + slack_ms),
            "blindness is denied for too long",
        );
        claim(
            !of(Problem::Blind).is_positive()
                || facts.hazy
                || facts.contradicted
                || !answered
                || facts.blind.is_some(),
            "what was read is blind",
        );
        // Changed thresholds apply from the next reading or tick.
        let is_changed = facts.tried.max(self.ticked) <= mono(facts.configured_at);
        let unsure = facts.reference.unsure || facts.mixed || facts.lost.unsure;
        if answered && !unsure && !facts.contradicted && !facts.hazy && !is_changed {
            let states = facts.last.as_ref().map(|last| last.states.as_slice());
            let held = matches!(states, Some([LockState::Held { .. } | LockState::Turn(_)]));
            let over = facts.reference.gap_ms() > facts.limits.grace_ms;
            let wanted = facts.wanted() == Says::Yes;
            let published = facts.reference.published();
            let shown_free = facts.reference.free() || matches!(states, Some([LockState::Turn(_)]));
            claim(
                (published == Published::Perhaps && !shown_free)
                    || of(Problem::Down).is_positive()
                        == (wanted && over && (shown_free || published == Published::Yes)),
                "down is as the readings say",
            );
            let read_at = facts.last.as_ref().map_or(Mono::at(0), |last| last.sent);
            let settled = held && facts.reference.may_be_settled(read_at, facts.limits);
            claim(
                of(Problem::Down) != Finding::Negative
                    || !may_be_wanted
                    || settled
                    || facts.wanted() == Says::No,
                "down is denied without evidence",
            );
            claim(
                match of(Problem::SwitchesLost) {
                    Finding::Positive { .. } => facts.lost.any(),
                    Finding::Negative => !facts.lost.any(),
                    // A loss is confirmed by a second reading.
                    Finding::Unknown => true,
                },
                "lost switches are as the readings say",
            );
            claim(
                of(Problem::Stalled) != Finding::Negative
                    || world.plan.tasks[task].beats_ms.is_none()
                    || !held
                    || facts.wanted() == Says::No
                    || facts.reference.may_deny_stall(),
                "a stall is denied by a deadline that may not be what moves",
            );
            let stalls = facts.reference.stalled_ms() > 0 && facts.wanted() != Says::Unclear;
            claim(
                facts.reference.progress.unsure
                    || view.lock().is_none()
                    || of(Problem::Stalled).is_positive() == (held && stalls),
                "stalled is as the readings say",
            );
        }
        for what in wrong {
            self.blame(world, "problems", what);
        }
    }
}
