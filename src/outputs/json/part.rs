//! Parts that several bodies share, and the format of instants and texts.

use lockwatch_judge::histogram::Histogram;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::{AgentWall, Mono, ServerTime};
use serde::Serialize;

use crate::published::Published;
use crate::text::instants::{rfc3339, seconds};

#[derive(Serialize)]
pub(super) struct UnknownJson {
    reason: &'static str,
    /// What the server, or the system, said; `null` if nothing.
    said: Option<String>,
    remedy: &'static str,
}

#[derive(Serialize)]
pub(super) struct CountJson {
    name: &'static str,
    pub(super) count: u64,
}

#[derive(Serialize)]
pub(super) struct HistogramJson {
    count: u64,
    sum_seconds: f64,
}

pub(super) fn unknown_json(why: Unknown, said: Option<&str>) -> UnknownJson {
    let said = said.map(str::to_owned);
    UnknownJson { reason: why.name(), said, remedy: lockwatch_watch::redis::remedy(why) }
}

pub(super) fn counts<const N: usize>(names: [&'static str; N], counts: [u64; N]) -> Vec<CountJson> {
    names.into_iter().zip(counts).map(|(name, count)| CountJson { name, count }).collect()
}

pub(super) fn histogram_json(histogram: &Histogram) -> HistogramJson {
    HistogramJson { count: histogram.count(), sum_seconds: seconds(histogram.sum_ms) }
}

pub(super) fn wall(at: AgentWall) -> Option<String> {
    rfc3339(at.0)
}

pub(super) fn agent(published: &Published, at: Mono) -> Option<String> {
    wall(published.wall_at(at))
}

pub(super) fn server(at: ServerTime) -> Option<String> {
    rfc3339(at.0)
}
