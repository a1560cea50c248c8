//! What the worlds with turns, queues and periodic tasks are for.

use lockwatch_judge::event::EventKind;
use lockwatch_judge::problems::{Problem, task_finding};
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::{RunFact, Verdict};

/// Something that occurs to tasks of other kinds than locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OfKind {
    /// The turn was passed on.
    Taken,
    /// Two fields were read, and they were no split.
    Passing,
    TurnSplit,
    TurnLate,
    NobodysTurn,
    OutOfOrder,
    UnknownName,
    PausedTurn,
    /// A member was seen to be executed.
    Executing,
    /// More members were due than are looked at.
    Many,
    QueueLate,
    /// It was late though others left.
    PassedOver,
    Again,
    TwoExecute,
    Expired,
    Vanished,
    LeftBehind,
    Dead,
    PausedQueue,
    RunAwaited,
    RunGoesOn,
    /// Its work is over, and its holder keeps the lock.
    RunKept,
    RunOverdue,
    RunOverran,
    /// One may have come and gone unseen.
    RunUnseen,
    RunSplit,
    PausedRun,
}

impl OfKind {
    pub(super) const ALL: [OfKind; 27] = [
        OfKind::Taken,
        OfKind::Passing,
        OfKind::TurnSplit,
        OfKind::TurnLate,
        OfKind::NobodysTurn,
        OfKind::OutOfOrder,
        OfKind::UnknownName,
        OfKind::PausedTurn,
        OfKind::Executing,
        OfKind::Many,
        OfKind::QueueLate,
        OfKind::PassedOver,
        OfKind::Again,
        OfKind::TwoExecute,
        OfKind::Expired,
        OfKind::Vanished,
        OfKind::LeftBehind,
        OfKind::Dead,
        OfKind::PausedQueue,
        OfKind::RunAwaited,
        OfKind::RunGoesOn,
        OfKind::RunKept,
        OfKind::RunOverdue,
        OfKind::RunOverran,
        OfKind::RunUnseen,
        OfKind::RunSplit,
        OfKind::PausedRun,
    ];

    /// Whether the few fixed seeds may lack it.
    pub(super) fn is_rare(self) -> bool {
        matches!(
            self,
            OfKind::Many
                | OfKind::Again
                | OfKind::TwoExecute
                | OfKind::LeftBehind
                | OfKind::Dead
                | OfKind::RunSplit
                | OfKind::PausedRun
        )
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            OfKind::Taken => "turns taken",
            OfKind::Passing => "passing",
            OfKind::TurnSplit => "turn split",
            OfKind::TurnLate => "turn late",
            OfKind::NobodysTurn => "nobody's turn",
            OfKind::OutOfOrder => "out of order",
            OfKind::UnknownName => "unknown name",
            OfKind::PausedTurn => "paused turn",
            OfKind::Executing => "executing",
            OfKind::Many => "many due",
            OfKind::QueueLate => "queue late",
            OfKind::PassedOver => "passed over",
            OfKind::Again => "executed again",
            OfKind::TwoExecute => "executed twice",
            OfKind::Expired => "expired",
            OfKind::Vanished => "vanished",
            OfKind::LeftBehind => "left behind",
            OfKind::Dead => "dead holder",
            OfKind::PausedQueue => "paused queue",
            OfKind::RunAwaited => "run awaited",
            OfKind::RunGoesOn => "run goes on",
            OfKind::RunKept => "run kept",
            OfKind::RunOverdue => "run overdue",
            OfKind::RunOverran => "run overran",
            OfKind::RunUnseen => "run perhaps unseen",
            OfKind::RunSplit => "run split",
            OfKind::PausedRun => "paused run",
        }
    }

    /// What an event says.
    pub(super) fn of_event(kind: &EventKind) -> Option<OfKind> {
        Some(match kind {
            EventKind::TurnOutOfOrder { .. } => OfKind::OutOfOrder,
            EventKind::TurnUnknownName { .. } => OfKind::UnknownName,
            EventKind::ExecutedAgain { .. } => OfKind::Again,
            EventKind::ExecutionExpired { .. } => OfKind::Expired,
            EventKind::MembersVanished { .. } => OfKind::Vanished,
            EventKind::LockOutlivedTask { .. } => OfKind::LeftBehind,
            EventKind::DeadHolder { .. } => OfKind::Dead,
            _ => return None,
        })
    }

    /// What is shown.
    pub(super) fn of_view(view: &TaskView, at: Mono) -> Vec<OfKind> {
        let is = |problem| task_finding(problem, view, at).is_positive();
        let paused = view.paused == Some(true);
        let is_split = view.verdict == Verdict::Split;
        let mut seen = Vec::new();
        let mut add = |holds: bool, it: OfKind| seen.extend(holds.then_some(it));
        if let Some(turn) = view.turn() {
            add(turn.taken.iter().any(|taken| taken.turns > 0), OfKind::Taken);
            add(turn.fields > Some(1) && !is_split, OfKind::Passing);
            add(is_split, OfKind::TurnSplit);
            add(is(Problem::Stalled), OfKind::TurnLate);
            add(is(Problem::Down), OfKind::NobodysTurn);
            add(paused, OfKind::PausedTurn);
        }
        if let Some(queue) = view.queue() {
            let limit_ms = view.spec.queue().map_or(0, |queue| queue.max_late_ms);
            add(queue.executing > Some(0), OfKind::Executing);
            add(queue.more == Some(true), OfKind::Many);
            add(is(Problem::Stalled), OfKind::QueueLate);
            add(queue.late_ms > 10 * limit_ms, OfKind::PassedOver);
            add(is_split, OfKind::TwoExecute);
            add(paused, OfKind::PausedQueue);
        }
        if let Some(runs) = view.periodic() {
            add(runs.fact == RunFact::Unseen, OfKind::RunAwaited);
            add(runs.fact == RunFact::GoesOn, OfKind::RunGoesOn);
            add(runs.fact == RunFact::Over && view.held == Some(true), OfKind::RunKept);
            add(is(Problem::Overdue), OfKind::RunOverdue);
            add(is(Problem::Overran), OfKind::RunOverran);
            add(runs.may_have_run, OfKind::RunUnseen);
            add(is_split, OfKind::RunSplit);
            add(paused, OfKind::PausedRun);
        }
        seen
    }
}
