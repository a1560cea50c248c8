//! The names that a timeline may check, and how events read as words.

use lockwatch_model::event::{End, Event, EventKind, Party, SplitKind};
use lockwatch_model::histogram::Histogram;
use lockwatch_model::reading::{Holder, Unknown};
use lockwatch_model::snapshot::{HoldView, RedisView, TaskView, Totals};
use lockwatch_model::time::{Mono, ServerTime};

use super::text::{Found, seconds};
use super::world::{SERVER_ORIGIN_MS, mono};

/// The field `name` of what is seen of a task and its redis.
pub(crate) fn field(view: &TaskView, redis: &RedisView, name: &str) -> Result<Found, String> {
    of_task(view, name)
        .or_else(|| of_hold(view.hold.as_ref(), name))
        .or_else(|| of_durations(view, name))
        .or_else(|| of_totals(&view.totals, name))
        .or_else(|| of_redis(redis, name))
        .ok_or_else(|| format!("there is no field `{name}` (see README.md)"))
}

/// The task's state.
fn of_task(view: &TaskView, name: &str) -> Option<Found> {
    Some(match name {
        "task" => word("present"),
        "verdict" => word(view.verdict.name()),
        "rule" => word(view.rule.name()),
        "verdict_since" => Found::Ms(agent_ms(view.verdict_since)),
        "wanted" => word(view.wanted.name()),
        "on" => joined(view.switches.iter().flatten().filter(|s| s.on == Some(true)).map(|s| text(&s.user))),
        "undecodable" => joined(view.switches.iter().flatten().filter(|s| s.on.is_none()).map(|s| text(&s.user))),
        "switches" => view.switches.as_ref().map_or(word("unknown"), |all| Found::Count(all.len() as u64)),
        "wanting_users" => count(view.wanting_users),
        "switch_key_seen" => tri(view.switch_key_seen),
        "switches_unknown" => reason(view.switches_unknown),
        "lost" => joined(view.lost_users.iter().map(|user| text(user))),
        "fact" => word(view.lock_fact.name()),
        "held" => tri(view.held),
        "unknown" => reason(view.unknown),
        "last_reading" => optional(view.last_reading.map(agent_ms)),
        "waiters" => count(view.waiters),
        "token" => view.fencing_token.map_or(word("none"), |token| Found::Count(token.unsigned_abs())),
        "lease" => optional(view.lease_ms.map(signed)),
        "period" => optional(view.renewal_period_ms.map(signed)),
        "progress_moved" => optional(view.progress_moved.map(server_ms)),
        "progress_missing" => match view.progress_missing {
            None => word("no"),
            Some(None) => word("absent"),
            Some(Some(why)) => word(why.name()),
        },
        "live" => joined(view.live_claims.iter().map(|claim| text(claim))),
        "splits" => joined(view.splits.iter().map(|kind| kind.name().to_owned())),
        "paused" => tri(view.paused),
        _ => return None,
    })
}

/// The present hold; everything is `none` where there is none.
fn of_hold(hold: Option<&HoldView>, name: &str) -> Option<Found> {
    let of = |read: fn(&HoldView) -> Option<i64>| optional(hold.and_then(read));
    Some(match name {
        "holders" => joined(hold.iter().flat_map(|hold| &hold.holders).map(|(holder, _)| text(&holder.client))),
        "mode" => hold.map_or(word("none"), |hold| word(&format!("{:?}", hold.mode).to_lowercase())),
        "entries" => {
            let entries = hold.and_then(|hold| hold.holders.first()).and_then(|(holder, _)| holder.entries);
            count(entries.map(u64::from))
        }
        "ghosts" => count(hold.map(|hold| u64::from(hold.ghosts))),
        "acquired" => of(|hold| hold.acquired.map(server_ms)),
        "held_for" => of(|hold| Some(signed(hold.held_ms))),
        "last_renewal" => of(|hold| hold.last_renewal.map(server_ms)),
        "deadline" => of(|hold| hold.deadline.map(server_ms)),
        "ttl" => of(|hold| hold.ttl_ms.map(signed)),
        "persistent" => hold.map_or(word("none"), |hold| tri(hold.persistent)),
        "latency" => of(|hold| hold.last_renewal_latency_ms.map(signed)),
        "margin" => of(|hold| hold.last_renewal_margin_ms.map(signed)),
        "overdue" => of(|hold| Some(signed(hold.renewal_overdue_ms))),
        _ => return None,
    })
}

fn of_durations(view: &TaskView, name: &str) -> Option<Found> {
    let durations = &view.durations;
    let ms = match name {
        "down" => durations.down_ms,
        "split" => durations.split_ms,
        "stalled" => durations.stalled_ms,
        "unwanted" => durations.unwanted_ms,
        "blind" => durations.blind_ms,
        "switches_lost" => durations.switches_lost_ms,
        _ => return None,
    };
    Some(Found::Ms(signed(ms)))
}

fn of_totals(totals: &Totals, name: &str) -> Option<Found> {
    if let Some(end) = name.strip_prefix("ends.") {
        let at = End::ALL.iter().position(|known| known.name() == end)?;
        return totals.ends.get(at).copied().map(Found::Count);
    }
    if let Some(kind) = name.strip_prefix("splits.") {
        let at = SplitKind::ALL.iter().position(|known| known.name() == kind)?;
        return totals.splits.get(at).copied().map(Found::Count);
    }
    Some(match name {
        "total.wanted" => Found::Ms(signed(totals.wanted_ms)),
        "total.down" => Found::Ms(signed(totals.down_ms)),
        "total.outage" => Found::Ms(signed(totals.outage_ms)),
        "total.split" => Found::Ms(signed(totals.split_ms)),
        "total.blind" => Found::Ms(signed(totals.blind_ms)),
        "ends" => Found::Count(totals.ends.iter().sum()),
        "holds_lost" => Found::Count(totals.holds_lost),
        "renewals" => Found::Count(totals.renewals),
        "shortened" => Found::Count(totals.shortened),
        "acquisitions" => Found::Count(totals.acquisitions),
        "token_resets" => Found::Count(totals.token_resets),
        "phantom_holds" => Found::Count(totals.phantom_holds),
        "handovers" => Found::Count(totals.handovers.count()),
        "handovers.sum" => sum(&totals.handovers),
        "outages" => Found::Count(totals.outages.count()),
        "outages.sum" => sum(&totals.outages),
        "latencies" => Found::Count(totals.renewal_latency.count()),
        "latencies.sum" => sum(&totals.renewal_latency),
        _ => return None,
    })
}

fn of_redis(redis: &RedisView, name: &str) -> Option<Found> {
    Some(match name {
        "redis.up" => tri(redis.readable),
        "redis.unknown" => reason(redis.unknown),
        "redis.role_verified" => tri(redis.nodes.first().and_then(|node| node.role_verified)),
        "redis.errors" => Found::Count(redis.totals.errors.iter().sum()),
        "redis.skipped_ticks" => Found::Count(redis.totals.skipped_ticks),
        "redis.generation_changes" => Found::Count(redis.totals.generation_changes),
        "redis.samples" => Found::Count(redis.totals.sample_duration.count()),
        _ => return None,
    })
}

/// An event as words: its name first, then what it tells.
pub(crate) fn event_words(event: &Event) -> Vec<String> {
    let (name, told): (&str, Vec<String>) = match &event.kind {
        EventKind::Verdict { from, to, rule } => {
            let from = from.map_or("nothing", |from| from.name());
            ("verdict", vec![format!("{from}>{}", to.name()), rule.name().to_owned()])
        }
        EventKind::Acquired { holders } => ("acquired", vec![names(holders)]),
        EventKind::HoldEnded { holders, reason, held_ms } => {
            let held = held_ms.map_or("unseen-start".to_owned(), |ms| seconds(signed(ms)));
            ("hold_ended", vec![names(holders), reason.name().to_owned(), held])
        }
        EventKind::LockLost { holders, sign } => ("lock_lost", vec![names(holders), sign.name().to_owned()]),
        EventKind::Shortened { by_ms } => ("shortened", vec![seconds(signed(*by_ms))]),
        EventKind::GapBegan => ("gap_began", Vec::new()),
        EventKind::GapEnded { gap_ms } => ("gap_ended", vec![seconds(signed(*gap_ms))]),
        EventKind::PhantomHold { held_ms } => ("phantom_hold", vec![seconds(signed(*held_ms))]),
        EventKind::Outage { outage_ms } => ("outage", vec![seconds(signed(*outage_ms))]),
        EventKind::SplitBegan { kind, parties, left_ms } => {
            let mut told = vec![kind.name().to_owned(), parties_named(parties)];
            told.extend(parties.iter().filter_map(shown_by));
            told.extend(left_ms.map(|ms| seconds(signed(ms))));
            ("split_began", told)
        }
        EventKind::SplitEnded { kind, lasted_ms } => {
            ("split_ended", vec![kind.name().to_owned(), seconds(signed(*lasted_ms))])
        }
        EventKind::OverlapInDoubt { before, now, left_ms } => {
            ("overlap_in_doubt", vec![names(before), names(now), seconds(signed(*left_ms))])
        }
        other => less_common(other),
    };
    [name.to_owned()].into_iter().chain(told).collect()
}

fn less_common(kind: &EventKind) -> (&'static str, Vec<String>) {
    match kind {
        EventKind::SwitchesLost { users } => ("switches_lost", users.iter().map(|user| text(user)).collect()),
        EventKind::SwitchesFound => ("switches_found", Vec::new()),
        EventKind::SwitchUndecodable { user, .. } => ("switch_undecodable", vec![text(user)]),
        EventKind::SwitchKeyMissing => ("switch_key_missing", Vec::new()),
        EventKind::ProgressMissing { why } => {
            ("progress_missing", vec![why.map_or("absent", |why| why.name()).to_owned()])
        }
        EventKind::PauseUndecodable => ("pause_undecodable", Vec::new()),
        EventKind::ClaimBesideFreeLock { instance } => ("claim_beside_free_lock", vec![text(instance)]),
        EventKind::TokenReset { from, to } => ("token_reset", vec![from.to_string(), to.to_string()]),
        EventKind::LeaseLearned { lease_ms } => ("lease_learned", vec![seconds(signed(*lease_ms))]),
        EventKind::TaskUnreadable { why } => ("task_unreadable", vec![why.name().to_owned()]),
        EventKind::TaskReadable => ("task_readable", Vec::new()),
        EventKind::RedisDown { why, .. } => ("redis_down", vec![why.name().to_owned()]),
        EventKind::RedisUp => ("redis_up", Vec::new()),
        EventKind::GenerationChanged { change } => ("generation_changed", vec![change.name().to_owned()]),
        EventKind::ClockStep { by_ms } => ("clock_step", vec![seconds(*by_ms)]),
        other => ("other", vec![format!("{other:?}")]),
    }
}

/// An agent's instant, since the timeline's beginning.
pub(crate) fn agent_ms(at: Mono) -> i64 {
    at.0 as i64 - mono(0).0 as i64
}

fn server_ms(at: ServerTime) -> i64 {
    at.0 - SERVER_ORIGIN_MS
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

fn word(text: &str) -> Found {
    Found::Word(text.to_owned())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn names(holders: &[Holder]) -> String {
    holders.iter().map(|holder| text(&holder.client)).collect::<Vec<_>>().join("+")
}

fn parties_named(parties: &[Party]) -> String {
    parties.iter().map(|party| text(&party.holder.client)).collect::<Vec<_>>().join("+")
}

/// `A@a`: the server `a` shows the holder `A`.
fn shown_by(party: &Party) -> Option<String> {
    party.node.as_ref().map(|node| format!("{}@{}", text(&party.holder.client), short(node)))
}

/// A server's name in the timelines.
fn short(address: &str) -> &str {
    address.split(':').next().unwrap_or(address)
}

fn joined(items: impl Iterator<Item = String>) -> Found {
    let items: Vec<_> = items.collect();
    if items.is_empty() { word("none") } else { Found::Word(items.join("+")) }
}

fn tri(value: Option<bool>) -> Found {
    word(match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    })
}

fn reason(why: Option<Unknown>) -> Found {
    word(why.map_or("none", |why| why.name()))
}

fn optional(ms: Option<i64>) -> Found {
    ms.map_or(word("none"), Found::Ms)
}

fn count(value: Option<u64>) -> Found {
    value.map_or(word("none"), Found::Count)
}

fn sum(histogram: &Histogram) -> Found {
    Found::Ms(signed(histogram.sum_ms))
}
