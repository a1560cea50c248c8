//! The evidence about a lock.

use std::borrow::Cow;

use lockwatch_judge::reading::{Contender, Holder, Stands};
use lockwatch_judge::snapshot::{LockView, StoreShows, WitnessView};
use lockwatch_judge::verdict::{LockFact, Wanted};

use super::Evidence;
use super::seen::{Seen, not_known, server, span};
use super::wanted::NAMED_MAX as DECIDING_MAX;
use crate::text::identity::{escape, list};
use crate::trace::{holder_name, none_or};

/// Maximum number of names in a list.
pub(super) const NAMED_MAX: usize = 20;

/// Of the server that decides.
pub(super) fn evidence(seen: Seen<'_>, lock: &LockView) -> Evidence {
    let view = seen.view;
    let says = match (view.held, &lock.hold) {
        (Some(true), Some(hold)) => {
            let holders = hold.holders.iter().map(|(holder, host)| named(holder, host));
            let deadline = match (hold.deadline, hold.persistent) {
                (Some(at), _) => format!(", until {} of the server's clock", server(at)),
                (None, Some(true)) if lock.ends_with_session() => {
                    ", until its session ends".to_owned()
                }
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
        ("token", lock.rare.fencing_token.map(|it| it.to_string())),
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

/// Of those in its queue.
fn queue_evidence(seen: Seen<'_>, contender: &Contender) -> Evidence {
    let stands = match contender.stands {
        Stands::Holds => "has the lock",
        Stands::Waits => "waits for it",
        Stands::Blocks => "is no living contender, and everybody behind it waits in vain",
    };
    let session = contender
        .session
        .as_deref()
        .map_or_else(|| "no session".into(), |session| format!("session {}", escape(session)));
    let since =
        contender.since.map(|at| format!(", there since {} of the servers' clock", server(at)));
    let says = contender.says.as_ref().map(|says| format!(", says {}", escape(says)));
    Evidence {
        of: "queue".to_owned(),
        node: None,
        age_seconds: seen.view.last_reading.map(|at| seen.age_seconds(at)),
        says: format!(
            "{} of {session} {stands}{}{}",
            escape(&contender.name),
            since.unwrap_or_default(),
            says.unwrap_or_default()
        ),
        unknown: None,
    }
}

/// Of its queue, of each of its stores, or of the servers that do not decide.
pub(super) fn witnesses(seen: Seen<'_>, lock: &LockView) -> Vec<Evidence> {
    let queue = lock.rare.queue.iter().flat_map(|all| all.iter());
    let queue = queue.map(|contender| queue_evidence(seen, contender));
    let stores = lock.rare.stores.iter().flat_map(|all| all.iter());
    let stores = stores.map(|shows| store_evidence(seen, shows));
    queue
        .chain(stores)
        .chain(lock.rare.witnesses.iter().map(|witness| witness_evidence(seen, witness)))
        .collect()
}

fn store_evidence(seen: Seen<'_>, shows: &StoreShows) -> Evidence {
    let says = match &shows.holders {
        Some(holders) if holders.is_empty() => "free there".to_owned(),
        Some(holders) => {
            format!("held there by {}", list(holders.iter().map(holder_name), NAMED_MAX))
        }
        None => "not read there, or too long ago".to_owned(),
    };
    Evidence {
        of: "store".to_owned(),
        node: Some(seen.published.store_name(shows.store)),
        age_seconds: shows.at.map(|at| seen.age_seconds(at)),
        says,
        unknown: shows.unknown.map(|why| not_known(why, None)),
    }
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

/// The state of the lock, in a sentence.
pub(super) fn state_line(seen: Seen<'_>) -> String {
    match seen.view.held {
        Some(true) => held_line(seen),
        _ if seen.view.wanted == Wanted::Yes => gap_line(seen),
        _ => free_line(seen),
    }
}

/// Since when no hold has lasted while the task was wanted.
fn gap_line(seen: Seen<'_>) -> String {
    let view = seen.view;
    match view.last_reading {
        Some(at) if !seen.is_once() => {
            let since = seen.wall(at.minus_ms(view.durations.down_ms));
            let free = match view.grounds.short_holds().count {
                0 => format!("Free and wanted since {since}, confirmed"),
                _ => format!("Wanted since {since}, and no hold has lasted; it is free"),
            };
            format!("{free}; the newest reading that says so was {}.", seen.newest())
        }
        _ => free_line(seen),
    }
}

fn free_line(seen: Seen<'_>) -> String {
    match (seen.view.last_reading, seen.view.unknown) {
        (Some(_), None) => {
            format!(
                "The lock is free, confirmed; the newest reading that says so was {}.",
                seen.newest()
            )
        }
        (Some(_), Some(why)) => {
            format!(
                "The lock was free in the last good reading, {}; now it is unknown ({}).",
                seen.newest(),
                why.name()
            )
        }
        (None, _) => "The lock was never read.".to_owned(),
    }
}

fn held_line(seen: Seen<'_>) -> String {
    let view = seen.view;
    let Some(hold) = view.hold() else {
        // The first reading of a free lock after a hold must be confirmed.
        return format!("The lock was held; the newest reading was {}.", seen.newest());
    };
    let holders = hold.holders.iter().map(|(holder, host)| named(holder, host));
    let holders = none_or(list(holders, DECIDING_MAX));
    let since = if seen.is_once() {
        String::new()
    } else {
        format!(" for at least {}", span(hold.held_ms))
    };
    let left = match (hold.ttl_ms, hold.persistent) {
        (Some(ttl_ms), _) => format!(", {} of the lease left", span(ttl_ms)),
        (None, Some(true)) => match view.lock().map(LockView::ends_with_session) {
            Some(true) => ", until its session ends".to_owned(),
            _ => ", without any TTL".to_owned(),
        },
        (None, _) => String::new(),
    };
    format!(
        "Held ({}) by {holders}{since}{left}; the newest reading was {}.",
        hold.mode.name(),
        seen.newest()
    )
}
