//! What only a periodic task has.

use lockwatch_judge::event::End;
use lockwatch_judge::snapshot::{self, RunsView, TaskView};

use super::values::{party, server};
use crate::api::{At, Periodic, Run, Seconds};
use crate::outputs::periodic::due;
use crate::published::Published;

pub(super) fn periodic(published: &Published, view: &TaskView, runs: &RunsView) -> Periodic {
    Periodic {
        run: runs.fact.name().into(),
        present: runs.present.as_deref().map(run),
        last: runs.last.as_deref().map(run),
        due: At(due(view, |instant| published.wall_at(instant)).map(|at| at.0)),
        late_seconds: Seconds(runs.late_ms),
        may_have_run: runs.may_have_run,
    }
}

fn run(run: &snapshot::PeriodicRun) -> Run {
    Run {
        by: run.by.iter().map(party).collect(),
        began: server(run.began_at),
        lasted_seconds: run.over.and_then(|over| over.lasted_ms).map(Seconds),
        end: run.over.and_then(|over| over.end).map(|end| End::name(end).into()),
    }
}
