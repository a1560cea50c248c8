//! Values that bodies share, from those of a snapshot.

use lockwatch_judge::event;
use lockwatch_judge::histogram::Histogram;
use lockwatch_judge::problems::{Problems, Severity};
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};

use crate::alerts::firing;
use crate::api::{self, At, Count, Party, Seconds};
use crate::published::Published;
use crate::text::identity::{escape, holder_label};

pub(super) fn wall(at: AgentWall) -> At {
    At(Some(at.0))
}

pub(super) fn agent(published: &Published, at: Mono) -> At {
    wall(published.wall_at(at))
}

pub(super) fn server(at: impl Into<Option<ServerTime>>) -> At {
    At(at.into().map(|at| at.ms()))
}

pub(super) fn counts<const N: usize>(names: [&'static str; N], counts: [u64; N]) -> Vec<Count> {
    let all = names.into_iter().zip(counts);
    all.map(|(name, count)| Count { name: name.into(), count }).collect()
}

pub(super) fn histogram(histogram: &Histogram) -> api::Histogram {
    api::Histogram { count: histogram.count(), sum_seconds: Seconds(histogram.sum_ms) }
}

pub(super) fn problems(problems: &Problems) -> Vec<api::Problem> {
    let alerts = firing(problems).into_iter().map(|alert| api::Problem {
        problem: alert.row.problem.name().into(),
        alert: alert.row.alert.into(),
        severity: match alert.severity {
            Severity::Page => "page".into(),
            Severity::Warning => "warning".into(),
        },
        seconds: Seconds(alert.ms),
        event: alert.is_event,
    });
    alerts.collect()
}

/// Who takes part in a split, or had a lock.
pub(super) fn party(party: &event::Party) -> Party {
    Party {
        holder: holder_label(&party.holder).into(),
        digest: party.holder.secret,
        node: party.node.as_ref().map(|node| escape(node.as_bytes()).into()),
        host: party.host.as_deref().map(|host| escape(host).into()),
    }
}
