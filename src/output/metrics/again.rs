//! A page soon after another one. Most of it is as it was, and is not written anew.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lockwatch_judge::snapshot::{HeldBy, TaskView};

use super::Agent;
use super::part::{Content, Description, Page, Part};
use super::table::hold;
use crate::published::{Published, ReloadStatus};

/// What the system tells of the process holds for so long: it takes longer to ask than to write the
/// series of a few tasks.
const PROCESS_HOLDS: Duration = Duration::from_secs(1);

/// The series of a part.
#[derive(Debug, Default)]
pub(super) struct Written {
    series: String,
    /// Where those of each task end.
    ends: Vec<usize>,
}

/// What a task has in common with the one at the same position of the page before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Same {
    /// What it is called.
    Labels,
    /// Also what has no form: the series of [`holder_series`](super::holder_series) and
    /// [`info_labels`](super::info_labels).
    Names,
    Everything,
}

impl Page {
    /// The same metrics of another snapshot, soon after this one. What is still as it was is not
    /// written anew.
    ///
    /// # Errors
    /// None that is known; the encoder's interface has one.
    pub fn next(
        &self,
        published: Arc<Published>,
        reload: ReloadStatus,
    ) -> Result<Page, fmt::Error> {
        let before = &self.content;
        let Some(same) = before.in_common(&published) else {
            return Page::new(published, reload, before.metrics);
        };
        let agent = match before.asked.elapsed() < PROCESS_HOLDS {
            true => (Agent { reload, ..before.agent }, before.asked),
            false => (Agent::now(reload), Instant::now()),
        };
        let page = Page::of(published, before.metrics, agent, Arc::clone(&before.tasks))?;
        let written = |(number, part): (usize, &Part)| {
            let known = self.written.get(number).and_then(Option::as_ref);
            part.metric.is_of_tasks().then(|| page.written_after(known, part, &same)).transpose()
        };
        let written = page.parts.iter().enumerate().map(written).collect::<Result<_, _>>()?;
        Ok(Page { written, ..page })
    }

    /// The series of `part`, of which those of the page before are `known`; the very same if there
    /// is no difference.
    fn written_after(
        &self,
        known: Option<&Arc<Written>>,
        part: &Part,
        same: &[Same],
    ) -> Result<Arc<Written>, fmt::Error> {
        let holds_if = if part.form.is_some() { Same::Everything } else { Same::Names };
        let holds = |at: usize| same.get(at).is_some_and(|same| *same >= holds_if);
        let write = |at: usize, out: &mut String| {
            self.write_series((part.metric, part.form), at..at + 1, Description::Left, out)
        };
        let positions = part.positions.start..part.positions.end.min(self.tasks());
        let mut series = String::new();
        if let Some(known) = known {
            let differs = |at: usize| {
                series.clear();
                write(at, &mut series)?;
                Ok(series != known.of(at - positions.start))
            };
            let mut changed = positions.clone().filter(|at| !holds(*at)).map(differs);
            if !changed.try_fold(false, |any, differs| Ok(any || differs?))? {
                return Ok(Arc::clone(known));
            }
        }
        let mut ends = Vec::with_capacity(positions.len());
        series.clear();
        for at in positions.clone() {
            match known {
                Some(known) if holds(at) => series.push_str(known.of(at - positions.start)),
                _ => write(at, &mut series)?,
            }
            ends.push(series.len());
        }
        series.shrink_to_fit();
        Ok(Arc::new(Written { series, ends }))
    }
}

impl Content {
    /// What each task has in common with the one of `published` at its position; `None` where
    /// others stand.
    fn in_common(&self, published: &Published) -> Option<Vec<Same>> {
        let (now, then) = (&published.snapshot, &self.published.snapshot);
        if (now.stores.len(), now.tasks.len()) != (then.stores.len(), then.tasks.len()) {
            return None;
        }
        now.tasks.iter().zip(&then.tasks).map(|(now, then)| Same::of(now, then)).collect()
    }
}

impl Written {
    /// All of them, to be sent. Nothing is copied.
    pub(super) fn bytes(self: &Arc<Written>) -> Bytes {
        Bytes::from_owner(Shared(Arc::clone(self)))
    }

    /// The series of the task at this position of the part.
    fn of(&self, position: usize) -> &str {
        let end_of = |position: usize| self.ends.get(position).copied().unwrap_or_default();
        self.series
            .get(position.checked_sub(1).map_or(0, end_of)..end_of(position))
            .unwrap_or_default()
    }
}

struct Shared(Arc<Written>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.series.as_bytes()
    }
}

impl Same {
    /// `None` if it is not called the same.
    fn of(now: &Arc<TaskView>, then: &Arc<TaskView>) -> Option<Same> {
        let has_same_holders = match (holders(now), holders(then)) {
            (Some(now), Some(then)) => Arc::ptr_eq(now, then),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if Arc::ptr_eq(now, then) {
            Some(Same::Everything)
        } else if now.spec.name != then.spec.name || now.store != then.store {
            None
        } else if Arc::ptr_eq(&now.spec, &then.spec) && has_same_holders {
            Some(Same::Names)
        } else {
            Some(Same::Labels)
        }
    }
}

/// Who is shown as holder.
fn holders(task: &TaskView) -> Option<&HeldBy> {
    hold(task).map(|hold| &hold.holders)
}
