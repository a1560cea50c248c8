//! The evidence about a lock.

use std::borrow::Cow;

use lockwatch_judge::reading::Holder;
use lockwatch_judge::snapshot::{LockView, TaskView, WitnessView};
use lockwatch_judge::verdict::{LockFact, LockFacts, Rule, Wanted};

use super::condition::{blind, compared, condition, difference, gap_over_grace, wanted};
use super::seen::{Seen, not_known, server, span};
use super::{Condition, Evidence};
use crate::text::identity::{escape, list};
use crate::trace::{holder_name, none_or};

/// Maximum number of names in a list.
pub(super) const NAMED_MAX: usize = 20;

/// Of the server that decides.
pub(super) fn evidence(seen: Seen<'_>, lock: &LockView) -> Evidence {
    let view = seen.view;
    let says = match (view.held, &lock.hold) {
        (Some(true), Some(hold)) => {
            let holders = hold.holders.iter().map(|(holder, host)| named(holder, host.as_deref()));
            let deadline = match (hold.deadline, hold.persistent) {
                (Some(at), _) => format!(", until {} of the server's clock", server(at)),
                (None, Some(true)) => ", without any TTL".to_owned(),
                (None, _) => ", with a deadline that moved while it was read".to_owned(),
            };
            format!(
                "held ({}) by {}{deadline}",
                hold.mode.name(),
                none_or(list(holders, NAMED_MAX))
            )
        }
        (Some(true), None) => "held".to_owned(),
        (Some(false), _) if lock.fact == LockFact::Free => "free, confirmed".to_owned(),
        (Some(false), _) => "free, not confirmed yet".to_owned(),
        (None, _) => "unknown".to_owned(),
    };
    let extras = [
        ("waiters", lock.waiters.map(|it| it.to_string())),
        ("token", lock.fencing_token.map(|it| it.to_string())),
    ];
    let extras: String = extras
        .into_iter()
        .filter_map(|(name, value)| Some(format!(", {name} {}", value?)))
        .collect();
    Evidence {
        of: "lock".to_owned(),
        node: view.node.as_ref().map(|node| escape(node.as_bytes()).into_owned()),
        age_seconds: view.last_reading.map(|at| seen.age_seconds(at)),
        says: format!("{says}{extras}"),
        unknown: view.unknown.map(|why| not_known(why, view.words(why))),
    }
}

pub(super) fn named<'a>(holder: &'a Holder, host: Option<&[u8]>) -> Cow<'a, str> {
    match host {
        Some(host) => Cow::Owned(format!("{} on {}", holder_name(holder), escape(host))),
        None => holder_name(holder),
    }
}

/// Of the other servers.
pub(super) fn witnesses(seen: Seen<'_>, lock: &LockView) -> Vec<Evidence> {
    lock.witnesses.iter().map(|witness| witness_evidence(seen, witness)).collect()
}

fn witness_evidence(seen: Seen<'_>, witness: &WitnessView) -> Evidence {
    let shows = match &witness.holders {
        Some(holders) => {
            format!("shows {}", none_or(list(holders.iter().map(holder_name), NAMED_MAX)))
        }
        None => "shows no holder".to_owned(),
    };
    let behind = witness
        .behind_ms
        .map(|ms| format!(", its deadline {} behind", span(ms)))
        .unwrap_or_default();
    Evidence {
        of: "witness".to_owned(),
        node: Some(escape(witness.node.as_bytes()).into_owned()),
        age_seconds: Some(seen.age_seconds(witness.at)),
        says: format!("a {}, {shows}{behind}", witness.role.name()),
        unknown: None,
    }
}

/// The conditions of a rule.
pub(super) fn conditions(rule: Rule, facts: LockFacts, view: &TaskView) -> Vec<Condition> {
    let lock = |asked: LockFact| {
        let is = facts.lock;
        condition(difference("lock", is.name(), asked.name(), is == asked), is == asked)
    };
    let (held, free) = (|| lock(LockFact::Held), || lock(LockFact::Free));
    let wants = |asked| wanted(facts.wanted, &[asked]);
    let blind = || blind(view, facts.blind);
    match rule {
        Rule::LockBlind => vec![lock(LockFact::Unknown), blind()],
        Rule::WantedBlind => {
            let is = facts.lock != LockFact::Unknown;
            let known = difference("lock", facts.lock.name(), "free or held", is);
            vec![condition(known, is), wants(Wanted::Unknown), blind()]
        }
        Rule::HeldBriefly => {
            let shown = if facts.down_goes_on { "was" } else { "was not" };
            let down = format!("a gap over grace {shown} shown as down while the lock was free");
            vec![held(), wants(Wanted::Yes), condition(down, facts.down_goes_on)]
        }
        Rule::NoProgress => {
            let counts = wanted(facts.wanted, &[Wanted::Yes, Wanted::Unset]);
            vec![held(), counts, stale(view, facts.stale)]
        }
        Rule::HeldUnwanted => {
            let (ms, limit_ms) = (view.durations.unwanted_ms, view.spec.wind_down_ms);
            let lasts = compared("unwanted", ms, "wind_down", limit_ms, facts.over_wind_down);
            vec![held(), wants(Wanted::No), lasts]
        }
        Rule::HeldWanted => vec![held(), wants(Wanted::Yes)],
        Rule::HeldUnset => vec![held(), wants(Wanted::Unset)],
        Rule::HeldWantedUnknown => vec![held(), wants(Wanted::Unknown)],
        Rule::WindingDown => vec![held(), wants(Wanted::No)],
        Rule::GapOverGrace => {
            vec![free(), wants(Wanted::Yes), gap_over_grace(view, facts.gap_over_grace)]
        }
        Rule::GapWithinGrace => vec![free(), wants(Wanted::Yes)],
        Rule::FreeUnwanted => vec![free(), wants(Wanted::No)],
        Rule::FreeUnset => vec![free(), wants(Wanted::Unset)],
        _ => Vec::new(),
    }
}

fn stale(view: &TaskView, holds: bool) -> Condition {
    match &view.spec.progress {
        Some(progress) => {
            let (ms, limit_ms) = (view.durations.stalled_ms, progress.stale_after_ms);
            compared("stalled", ms, "stale_after", limit_ms, holds)
        }
        None => condition("no progress is configured".to_owned(), holds),
    }
}
