//! The evidence that decided: one function per rule, from the task to a few lines.

use std::borrow::Cow;

use lockwatch_judge::event::{Party, SplitKind};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{KindView, ShortHolds, SplitView, TaskView};
use lockwatch_judge::spec::ProgressSource;
use lockwatch_judge::verdict::{LockFact, Rule, Wanted};

use super::seen::{Seen, server, span};
use super::wanted::{NAMED_MAX, unknown_line, wanted_line};
use super::{queue, turn};
use crate::outputs::progress::{counts, hint};
use crate::text::identity::{escape, list};
use crate::trace::{holder_name, none_or};

/// The evidence that made the deciding rule apply.
pub(super) fn evidence(seen: Seen<'_>) -> Vec<String> {
    match seen.view.rule {
        Rule::SplitEvidence => split_evidence(seen),
        Rule::LockBlind => lock_blind(seen),
        Rule::WantedBlind => wanted_blind(seen),
        Rule::KeepPrevious => keep_previous(seen),
        Rule::NothingYet => nothing_yet(seen),
        Rule::HeldBriefly => held_briefly(seen),
        Rule::NoProgress => no_progress(seen),
        Rule::HeldUnwanted => held_unwanted(seen),
        Rule::HeldWanted | Rule::HeldUnset | Rule::HeldWantedUnknown => {
            vec![held_line(seen), wanted_line(seen)]
        }
        Rule::WindingDown => winding_down(seen),
        Rule::GapOverGrace => gap_over_grace(seen),
        Rule::GapWithinGrace => gap_within_grace(seen),
        Rule::FreeUnwanted | Rule::FreeUnset => vec![free_line(seen), wanted_line(seen)],
        Rule::TurnBlind | Rule::QueueBlind => lock_blind(seen),
        Rule::TurnLate
        | Rule::TurnWanted
        | Rule::TurnUnset
        | Rule::TurnWantedUnknown
        | Rule::TurnUnwanted
        | Rule::NoTurnBlind
        | Rule::NoTurnOverGrace
        | Rule::NoTurnWithinGrace
        | Rule::NoTurnUnwanted
        | Rule::NoTurnUnset
        | Rule::QueueLate
        | Rule::QueueWanted
        | Rule::QueueUnset
        | Rule::QueueUnwanted => match &seen.view.kind {
            KindView::Turn(turn) => turn::deciding(seen, turn),
            KindView::Queue(queue) => queue::deciding(seen, queue),
            KindView::Lock(_) => Vec::new(),
        },
    }
}

/// What guards the task, at the beginning of a sentence.
fn guard_name(view: &TaskView) -> &'static str {
    match &view.kind {
        KindView::Lock(_) => "The lock",
        KindView::Turn(_) => "Whose turn it is",
        KindView::Queue(_) => "The queue",
    }
}

fn split_evidence(seen: Seen<'_>) -> Vec<String> {
    let one = |split: &SplitView| {
        let since = match seen.is_once() {
            true => "seen at this look".to_owned(),
            false => {
                format!(
                    "since {}, for {} as of the newest evidence",
                    seen.wall(split.since),
                    span(split.lasted_ms)
                )
            }
        };
        let kind = match split.kind {
            SplitKind::Holders => {
                "the lock itself shows several holders, though they exclude each other"
            }
            SplitKind::Masters => "two servers take writes and show different holders",
            SplitKind::Claims => "two workers keep claiming to run it",
            SplitKind::Overlap => {
                "a new holder came before the end of the old one's lease, which was lost and not \
                 released"
            }
            SplitKind::Turns => "several tasks have the turn, for longer than it takes to pass it",
            SplitKind::Executions => {
                "another worker executes a member of the queue while the first one goes on"
            }
        };
        let first = format!("Split of the kind {}: {kind}; {since}.", split.kind.name());
        std::iter::once(first)
            .chain(split.parties.iter().map(|party| party_line(seen.view, party)))
            .collect::<Vec<_>>()
    };
    seen.view.splits.iter().flat_map(one).collect()
}

fn party_line(view: &TaskView, party: &Party) -> String {
    let node = party.node.as_ref().or(view.node.as_ref());
    let at =
        node.map_or_else(String::new, |node| format!(", shown by {}", escape(node.as_bytes())));
    let host = party.host.as_deref().map(|host| format!(" on {}", escape(host)));
    format!("{}{}{at}.", holder_name(&party.holder), host.unwrap_or_default())
}

fn lock_blind(seen: Seen<'_>) -> Vec<String> {
    let (view, limit) = (seen.view, span(seen.view.spec.blind_after_ms));
    let blind =
        format!("No trustworthy reading for {}, longer than blind_after {limit}.", blind(seen));
    let mut lines = vec![
        unknown_line(guard_name(view), view.unknown, view.said.as_deref()),
        blind,
        last_good(seen),
    ];
    lines.extend(servers(seen));
    lines
}

fn wanted_blind(seen: Seen<'_>) -> Vec<String> {
    let limit = span(seen.view.spec.blind_after_ms);
    let blind = format!("That has lasted for {}, longer than blind_after {limit}.", blind(seen));
    let lock = if seen.view.held == Some(true) { held_line(seen) } else { free_line(seen) };
    vec![lock, wanted_line(seen), blind]
}

fn keep_previous(seen: Seen<'_>) -> Vec<String> {
    let view = seen.view;
    let before =
        view.judged.and_then(|judged| judged.previous).map_or("none", |verdict| verdict.name());
    let mut lines = vec![format!("What was said before stays: {before}.")];
    lines.push(unjudgeable(seen));
    if view.durations.blind_ms > 0 {
        let limit = span(view.spec.blind_after_ms);
        lines.push(format!(
            "No trustworthy reading for {}, within blind_after {limit}.",
            blind(seen)
        ));
    }
    lines.push(last_good(seen));
    lines
}

fn nothing_yet(seen: Seen<'_>) -> Vec<String> {
    let mut lines = vec![unjudgeable(seen), last_good(seen)];
    lines.extend(servers(seen));
    lines
}

fn no_progress(seen: Seen<'_>) -> Vec<String> {
    let view = seen.view;
    let progress = view.spec.progress.as_ref();
    let source = progress.map(|progress| progress_source(&progress.source)).unwrap_or_default();
    let moved = match view.progress_moved() {
        Some(at) => {
            format!("The progress ({source}) moved last at {} of the server's clock", server(at))
        }
        None => format!("The progress ({source}) has not moved since it is watched"),
    };
    let moved = match view.progress.as_ref().is_some_and(|own| own.expired) {
        true => format!("{moved}. It is gone, because its TTL ran out."),
        false => format!("{moved}; {}.", counts(view).unwrap_or_default()),
    };
    let limit = span(progress.map(|progress| progress.stale_after_ms).unwrap_or_default());
    let still = format!(
        "It has not moved for {} while the lock was held, longer than stale_after {limit}, as of \
         the newest reading, {}.",
        span(view.durations.stalled_ms),
        seen.newest()
    );
    let mut lines = vec![moved, still];
    lines.extend(hint(view));
    lines.extend([held_line(seen), wanted_line(seen)]);
    lines
}

fn held_unwanted(seen: Seen<'_>) -> Vec<String> {
    let (ms, limit) = (seen.view.durations.unwanted_ms, span(seen.view.spec.wind_down_ms));
    let lasted = format!("Held though not wanted for {}, longer than wind_down {limit}.", span(ms));
    vec![lasted, held_line(seen), wanted_line(seen)]
}

fn winding_down(seen: Seen<'_>) -> Vec<String> {
    let (lasted, limit) =
        (seen.lasted(seen.view.durations.unwanted_ms), span(seen.view.spec.wind_down_ms));
    vec![
        format!("Held though not wanted for {lasted}, within wind_down {limit}."),
        held_line(seen),
        wanted_line(seen),
    ]
}

fn gap_over_grace(seen: Seen<'_>) -> Vec<String> {
    let view = seen.view;
    let (gap, limit) = (span(view.durations.down_ms), span(view.spec.grace_ms));
    let mut lines = vec![gap_line(seen), format!("Gap {gap} > grace {limit}.")];
    lines.extend(short_holds(view));
    lines.push(wanted_line(seen));
    lines
}

fn held_briefly(seen: Seen<'_>) -> Vec<String> {
    let view = seen.view;
    let (gap, limit) = (span(view.durations.down_ms), span(view.spec.grace_ms));
    let settle = span(view.spec.settle_ms);
    let mut lines = vec![
        held_line(seen),
        format!("It ends the gap once the lock has been held for settle {settle} without a break."),
        format!("Gap before this hold {gap} > grace {limit}, and shown as down."),
    ];
    lines.extend(short_holds(view));
    lines.push(wanted_line(seen));
    lines
}

/// The holds that were too short to end the gap, and what to do if that is normal.
fn short_holds(view: &TaskView) -> Vec<String> {
    let ShortHolds { count, expired, longest_ms } = view.grounds.short_holds();
    if count == 0 {
        return Vec::new();
    }
    let (holds, longest) = (if count == 1 { "hold" } else { "holds" }, span(longest_ms));
    let ran_out = match (expired, view.lock().and_then(|lock| lock.lease_ms)) {
        (0, _) => String::new(),
        (_, Some(lease_ms)) => {
            format!("; the lease ({}) of {expired} of them ran out", span(lease_ms))
        }
        (_, None) => format!("; the lease of {expired} of them ran out"),
    };
    vec![
        format!("{count} {holds} ended within {longest}{ran_out}."),
        format!(
            "If such holds are normal, set settle (now {}) below the shortest of them, or pause \
             alerts meanwhile.",
            span(view.spec.settle_ms)
        ),
    ]
}

fn gap_within_grace(seen: Seen<'_>) -> Vec<String> {
    let view = seen.view;
    let (gap, limit) = (span(view.durations.down_ms), span(view.spec.grace_ms));
    let within = match seen.is_once() {
        true => format!("How long that has been so is not known; grace is {limit}."),
        false => format!("Gap {gap} <= grace {limit}."),
    };
    vec![gap_line(seen), within, wanted_line(seen)]
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
    let name = |(holder, host): &(lockwatch_judge::reading::Holder, Option<Vec<u8>>)| {
        let host = host.as_ref().map(|host| format!(" on {}", escape(host))).unwrap_or_default();
        Cow::Owned(format!("{}{host}", holder_name(holder)))
    };
    let holders = none_or(list(hold.holders.iter().map(name), NAMED_MAX));
    let since = if seen.is_once() {
        String::new()
    } else {
        format!(" for at least {}", span(hold.held_ms))
    };
    let left = match (hold.ttl_ms, hold.persistent) {
        (Some(ttl_ms), _) => format!(", {} of the lease left", span(ttl_ms)),
        (None, Some(true)) => ", without any TTL".to_owned(),
        (None, _) => String::new(),
    };
    format!(
        "Held ({}) by {holders}{since}{left}; the newest reading was {}.",
        hold.mode.name(),
        seen.newest()
    )
}

/// Why nothing can be judged.
fn unjudgeable(seen: Seen<'_>) -> String {
    let view = seen.view;
    match (view.unknown, view.held) {
        (Some(why), _) => unknown_line(guard_name(view), Some(why), view.words(why)),
        (None, Some(false))
            if view.lock().is_some_and(|lock| lock.fact != LockFact::Free)
                || view.wanted != Wanted::Unknown =>
        {
            "It was seen free for the first time; that waits for its confirmation.".to_owned()
        }
        (None, Some(false)) => wanted_line(seen),
        _ => unknown_line(guard_name(view), Some(Unknown::NotReadYet), None),
    }
}

fn last_good(seen: Seen<'_>) -> String {
    match seen.view.last_reading {
        Some(_) => format!("The last good reading was {}.", seen.newest()),
        None => "There was no good reading yet.".to_owned(),
    }
}

fn blind(seen: Seen<'_>) -> String {
    seen.lasted(seen.view.durations.blind_ms)
}

/// The deciding servers that cannot be read.
fn servers(seen: Seen<'_>) -> Vec<String> {
    let Some(redis) = seen.redis() else { return Vec::new() };
    let failing = redis.nodes.iter().filter(|node| node.decides);
    let line = |node: &lockwatch_judge::snapshot::NodeView| {
        let (server, why) = (escape(node.address.as_bytes()), node.unknown?);
        let said = redis.words(why, &node.address);
        Some(unknown_line(&format!("The server {server}"), Some(why), said))
    };
    failing.filter_map(line).collect()
}

/// Where the progress is stored, in words.
pub(super) fn progress_source(source: &ProgressSource) -> String {
    match source {
        ProgressSource::HashField { key, field } => {
            format!("field {} of the hash {}", escape(field), escape(key))
        }
        ProgressSource::Key(key) => format!("the key {}", escape(key)),
        ProgressSource::Length(key) => format!("the length of {}", escape(key)),
        ProgressSource::Score { key, member } => {
            format!("the score of {} in {}", escape(member), escape(key))
        }
        ProgressSource::Stream(key) => format!("what is added to the stream {}", escape(key)),
    }
}
