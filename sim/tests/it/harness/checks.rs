//! The names that a timeline may check, and the text form of events.

use std::sync::Arc;

use lockwatch_judge::event::{End, Event, EventKind, FailoverReport, Fate, Party, SplitKind};
use lockwatch_judge::histogram::Histogram;
use lockwatch_judge::problems::{self, Finding, Problem, Problems};
use lockwatch_judge::reading::{Holder, Unknown};
use lockwatch_judge::snapshot::{HoldView, StoreView, TaskView, Totals};
use lockwatch_judge::spec::Moves;
use lockwatch_judge::time::{Mono, ServerTime};

use super::text::{Found, seconds};
use super::world::{MONO_ORIGIN_MS, SERVER_ORIGIN_MS, mono};

/// Offset of the servers' clocks from the agent's without any step.
const CLOCKS_APART_MS: i64 = SERVER_ORIGIN_MS - MONO_ORIGIN_MS as i64;

/// The field `name` of the view of a task and its redis.
pub(crate) fn field(
    view: &TaskView,
    redis: &StoreView,
    at: Mono,
    name: &str,
) -> Result<Found, String> {
    of_task(view, name)
        .or_else(|| of_problems(&problems::of_task(view, at, None), "", name))
        .or_else(|| of_problems(&problems::of_store(redis, at, None), "redis.", name))
        .or_else(|| of_hold(view.lock().unwrap().hold.as_ref(), name))
        .or_else(|| of_durations(view, name))
        .or_else(|| of_totals(&view.totals, name))
        .or_else(|| of_redis(redis, name))
        .or_else(|| of_server(view, redis, name))
        .ok_or_else(|| format!("there is no field `{name}` (see README.md)"))
}

/// What is shown of problems: of the task, or with `prefix` of its redis.
fn of_problems(problems: &Problems, prefix: &str, name: &str) -> Option<Found> {
    let name = name.strip_prefix(prefix)?;
    let named = |name: &str| Problem::ALL.into_iter().find(|problem| problem.name() == name);
    if let Some(problem) = name.strip_prefix("problem.") {
        let problem = named(problem)?;
        let found = problems.findings.iter().find(|(other, _)| *other == problem);
        return Some(match found.map(|(_, finding)| *finding) {
            Some(Finding::Positive { ms }) => Found::Ms(signed(ms)),
            Some(Finding::Negative) => Found::Ms(0),
            Some(Finding::Unknown) | None => word("none"),
        });
    }
    if let Some(problem) = name.strip_prefix("age.") {
        let problem = named(problem)?;
        let found = problems.events.iter().find(|(other, _)| *other == problem);
        return Some(optional(found.map(|(_, age_ms)| signed(*age_ms))));
    }
    let is_so = |(problem, finding): &(Problem, Finding)| {
        finding.is_positive().then(|| problem.name().to_owned())
    };
    Some(match name {
        "clear" => tri(Some(problems.clear)),
        "problems" => joined(problems.findings.iter().filter_map(is_so)),
        _ => return None,
    })
}

/// The task's state.
fn of_task(view: &TaskView, name: &str) -> Option<Found> {
    Some(match name {
        "task" => word("present"),
        "verdict" => word(view.verdict.name()),
        "rule" => word(view.rule.name),
        "verdict_since" => Found::Ms(agent_ms(view.verdict_since)),
        "wanted" => word(view.wanted.name()),
        "on" => joined(
            view.wanting
                .switches
                .iter()
                .flatten()
                .filter(|s| s.on == Some(true))
                .map(|s| text(&s.user)),
        ),
        "undecodable" => joined(
            view.wanting
                .switches
                .iter()
                .flatten()
                .filter(|s| s.on.is_none())
                .map(|s| text(&s.user)),
        ),
        "switches" => view
            .wanting
            .switches
            .as_ref()
            .map_or(word("unknown"), |all| Found::Count(all.len() as u64)),
        "wanting_users" => count(view.wanting.users),
        "key_seen" => tri(Some(view.key_seen)),
        "switch_key_seen" => tri(view.switch_key_seen),
        "switches_unknown" => reason(view.switches_unknown),
        "lost" => joined(view.wanting.lost_users.iter().map(|user| text(user))),
        "fact" => word(view.lock().unwrap().fact.name()),
        "held" => tri(view.held),
        "unknown" => reason(view.unknown),
        "node" => view.node.as_ref().map_or(word("none"), |node| word(short(node))),
        "witnesses" => joined(
            view.lock()
                .unwrap()
                .rare
                .witnesses
                .iter()
                .map(|witness| short(&witness.node).to_owned()),
        ),
        "last_reading" => optional(view.last_reading.map(agent_ms)),
        "waiters" => count(view.lock().unwrap().waiters.map(u64::from)),
        "token" => view
            .lock()
            .unwrap()
            .rare
            .fencing_token
            .map_or(word("none"), |token| Found::Count(token.unsigned_abs())),
        "lease" => optional(view.lock().unwrap().lease_ms.map(signed)),
        "period" => optional(view.lock().unwrap().renewal_period_ms.map(signed)),
        "progress_moved" => optional(view.progress_moved().map(server_ms)),
        "progress_missing" => match view.progress.as_ref().and_then(|own| own.missing) {
            None => word("no"),
            Some(None) => word("absent"),
            Some(Some(why)) => word(why.name()),
        },
        "progress_expired" => tri(view.progress.as_ref().map(|own| own.expired)),
        "moves" => {
            word(view.progress.as_ref().and_then(|own| own.by).map_or("unknown", Moves::name))
        }
        "live" => joined(view.live_claims.iter().map(|claim| text(&claim.client))),
        "hosts_unknown" => word(view.hosts_unknown.map_or("none", |why| why.name())),
        "claims_unknown" => word(view.claims_unknown.map_or("none", |why| why.name())),
        "run" => word(view.periodic()?.fact.name()),
        "late" => Found::Ms(signed(view.periodic()?.late_ms)),
        "awaited" => Found::Ms(signed(view.periodic()?.awaited_ms)),
        "last_run" => {
            let last = view.periodic()?.last.as_ref();
            joined(last.iter().flat_map(|run| &run.by).map(|by| text(&by.holder.client)))
        }
        "last_run.began" => {
            let last = view.periodic()?.last.as_ref();
            optional(last.and_then(|run| run.began_at).map(server_ms))
        }
        "last_run.lasted" => {
            let over = view.periodic()?.last.as_ref().and_then(|run| run.over);
            optional(over.and_then(|over| over.lasted_ms).map(signed))
        }
        "splits" => joined(view.splits.iter().map(|split| split.kind.name().to_owned())),
        "parties" => joined(view.splits.iter().map(|split| parties_named(&split.parties))),
        "last_handover" => optional(view.totals.rare.last_handover.map(|past| signed(past.ms))),
        "last_handover.at" => {
            optional(view.totals.rare.last_handover.map(|past| agent_ms(past.at)))
        }
        "last_outage" => optional(view.totals.rare.last_outage.map(|past| signed(past.ms))),
        "last_outage.at" => optional(view.totals.rare.last_outage.map(|past| agent_ms(past.at))),
        "renewed_last" => optional(view.lock().unwrap().renewals.iter().last().map(agent_ms)),
        "renewals_kept" => Found::Count(view.lock().unwrap().renewals.count() as u64),
        "paused" => tri(view.paused),
        _ => return None,
    })
}

/// The present hold; everything is `none` where there is none.
fn of_hold(hold: Option<&HoldView>, name: &str) -> Option<Found> {
    let of = |read: fn(&HoldView) -> Option<i64>| optional(hold.and_then(read));
    Some(match name {
        "holders" => joined(
            hold.iter()
                .flat_map(|hold| hold.holders.iter())
                .map(|(holder, _)| text(&holder.client)),
        ),
        "mode" => {
            hold.map_or(word("none"), |hold| word(&format!("{:?}", hold.mode).to_lowercase()))
        }
        "entries" => {
            let entries = hold
                .and_then(|hold| hold.holders.iter().next())
                .and_then(|(holder, _)| holder.entries);
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
        return totals.rare.splits.get(at).copied().map(Found::Count);
    }
    Some(match name {
        "total.wanted" => Found::Ms(signed(totals.rare.wanted_ms)),
        "total.down" => Found::Ms(signed(totals.rare.down_ms)),
        "total.outage" => Found::Ms(signed(totals.rare.outage_ms)),
        "total.split" => Found::Ms(signed(totals.rare.split_ms)),
        "total.blind" => Found::Ms(signed(totals.blind_ms)),
        "ends" => Found::Count(totals.ends.iter().sum()),
        "holds_lost" => Found::Count(totals.rare.holds_lost),
        "renewals" => Found::Count(totals.renewals),
        "shortened" => Found::Count(totals.rare.shortened),
        "acquisitions" => Found::Count(totals.acquisitions),
        "token_resets" => Found::Count(totals.rare.token_resets),
        "phantom_holds" => Found::Count(totals.rare.phantom_holds),
        "handovers" => Found::Count(totals.rare.handovers.count()),
        "handovers.sum" => sum(&totals.rare.handovers),
        "outages" => Found::Count(totals.rare.outages.count()),
        "outages.sum" => sum(&totals.rare.outages),
        "latencies" => Found::Count(totals.renewal_latency.count()),
        "latencies.sum" => sum(&totals.renewal_latency),
        _ => return None,
    })
}

fn of_redis(redis: &StoreView, name: &str) -> Option<Found> {
    if let Some(fate) = name.strip_prefix("fates.") {
        let at = Fate::ALL.iter().position(|known| known.name() == fate)?;
        return redis.totals.fates.get(at).copied().map(Found::Count);
    }
    Some(match name {
        "redis.up" => tri(redis.readable),
        "redis.blind" => Found::Ms(signed(redis.blind_ms)),
        "redis.masters" => count(redis.masters),
        "redis.unknown" => reason(redis.unknown),
        "redis.role_verified" => tri(redis.nodes.first().and_then(|node| node.role_verified)),
        "redis.errors" => Found::Count(redis.totals.errors.iter().sum()),
        "redis.skipped_ticks" => Found::Count(redis.totals.skipped_ticks),
        "redis.generation_changes" => Found::Count(redis.totals.generation_changes),
        "redis.samples" => Found::Count(redis.totals.sample_duration.count()),
        _ => return None,
    })
}

/// A field of one server, by the server's name: `role.b`; or its reading of the lock, if it does
/// not decide: `behind.b`.
fn of_server(view: &TaskView, redis: &StoreView, name: &str) -> Option<Found> {
    let (what, server) = name.split_once('.')?;
    let node = redis.nodes.iter().find(|node| short(&node.address) == server);
    let witness =
        view.lock().unwrap().rare.witnesses.iter().find(|witness| short(&witness.node) == server);
    Some(match what {
        "decides" => node.map_or(word("none"), |node| tri(Some(node.decides))),
        "up" => node.map_or(word("none"), |node| tri(node.up)),
        "role" => node.and_then(|node| node.role).map_or(word("none"), |role| word(role.name())),
        "locks_behind" => count(node.and_then(|node| node.locks_behind)),
        "deadline_lag" => optional(node.and_then(|node| node.deadline_lag_ms).map(signed)),
        "clock" => {
            optional(node.and_then(|node| node.clock_offset_ms).map(|ms| ms - CLOCKS_APART_MS))
        }
        "shown" => joined(
            witness
                .iter()
                .flat_map(|witness| witness.holders.iter().flatten())
                .map(|h| text(&h.client)),
        ),
        "behind" => optional(witness.and_then(|witness| witness.behind_ms).map(signed)),
        _ => return None,
    })
}

/// The text form of an event: its name first, then its details.
pub(crate) fn event_words(event: &Event) -> Vec<String> {
    let (name, words): (&str, Vec<String>) = match &event.kind {
        EventKind::Verdict { from, to, rule } => {
            let from = from.map_or("nothing", |from| from.name());
            ("verdict", vec![format!("{from}>{}", to.name()), rule.name.to_owned()])
        }
        EventKind::Acquired { holders } => ("acquired", vec![names(holders)]),
        EventKind::HoldEnded { holders, reason, held_ms } => {
            let held = held_ms.map_or("unseen-start".to_owned(), |ms| seconds(signed(ms)));
            ("hold_ended", vec![names(holders), reason.name().to_owned(), held])
        }
        EventKind::LockLost { holders, sign } => {
            ("lock_lost", vec![names(holders), sign.name().to_owned()])
        }
        EventKind::Shortened { by_ms } => ("shortened", vec![seconds(signed(*by_ms))]),
        EventKind::GapBegan => ("gap_began", Vec::new()),
        EventKind::GapEnded { gap_ms } => ("gap_ended", vec![seconds(signed(*gap_ms))]),
        EventKind::PhantomHold { held_ms } => ("phantom_hold", vec![seconds(signed(*held_ms))]),
        EventKind::Outage { outage_ms } => ("outage", vec![seconds(signed(*outage_ms))]),
        EventKind::SplitBegan { kind, parties, left_ms } => {
            let mut words = vec![kind.name().to_owned(), parties_named(parties)];
            words.extend(parties.iter().filter_map(shown_by));
            words.extend(left_ms.map(|ms| seconds(signed(ms))));
            ("split_began", words)
        }
        EventKind::SplitEnded { kind, lasted_ms } => {
            ("split_ended", vec![kind.name().to_owned(), seconds(signed(*lasted_ms))])
        }
        EventKind::OverlapInDoubt { before, now, left_ms } => {
            ("overlap_in_doubt", vec![names(before), names(now), seconds(signed(*left_ms))])
        }
        other => less_common(other),
    };
    let shown_by = event.node.iter().map(|node| format!("@{}", short(node)));
    [name.to_owned()].into_iter().chain(words).chain(shown_by).collect()
}

fn less_common(kind: &EventKind) -> (&'static str, Vec<String>) {
    match kind {
        EventKind::SwitchesLost { users } => {
            ("switches_lost", users.iter().map(|user| text(user)).collect())
        }
        EventKind::SwitchesFound => ("switches_found", Vec::new()),
        EventKind::Switched { user, on } => {
            ("switched", vec![String::from_utf8_lossy(user).into_owned(), on.to_string()])
        }
        EventKind::DrillBegan { .. } => ("drill_began", Vec::new()),
        EventKind::DrillEnded { why, .. } => ("drill_ended", vec![why.name().to_owned()]),
        EventKind::SwitchUndecodable { user, .. } => ("switch_undecodable", vec![text(user)]),
        EventKind::SwitchKeyMissing => ("switch_key_missing", Vec::new()),
        EventKind::ProgressMissing { why } => {
            ("progress_missing", vec![why.map_or("absent", |why| why.name()).to_owned()])
        }
        EventKind::ClaimsUnreadable { why } => ("claims_unreadable", vec![why.name().to_owned()]),
        EventKind::PauseUndecodable => ("pause_undecodable", Vec::new()),
        EventKind::HostsUnreadable { why } => ("hosts_unreadable", vec![why.name().to_owned()]),
        EventKind::PauseUnreadable { why } => ("pause_unreadable", vec![why.name().to_owned()]),
        EventKind::ClaimBesideFreeLock { instance } => {
            ("claim_beside_free_lock", vec![text(&instance.client)])
        }
        EventKind::TokenReset { from, to } => {
            ("token_reset", vec![from.to_string(), to.to_string()])
        }
        EventKind::LeaseLearned { lease_ms } => ("lease_learned", vec![seconds(signed(*lease_ms))]),
        EventKind::TaskUnreadable { why } => ("task_unreadable", vec![why.name().to_owned()]),
        EventKind::TaskReadable => ("task_readable", Vec::new()),
        EventKind::StoreDown { why, .. } => ("redis_down", vec![why.name().to_owned()]),
        EventKind::StoreUp => ("redis_up", Vec::new()),
        EventKind::GenerationChanged { change } => {
            ("generation_changed", vec![change.name().to_owned()])
        }
        EventKind::ClockStep { by_ms } => ("clock_step", vec![seconds(*by_ms)]),
        EventKind::MastersChanged { from, to } => {
            let names = |nodes: &[Arc<str>]| {
                nodes.iter().map(|node| short(node)).collect::<Vec<_>>().join("+")
            };
            let to = to.as_ref().map_or_else(|why| why.name().to_owned(), |to| names(to));
            ("masters_changed", vec![format!("{}>{to}", names(from))])
        }
        EventKind::RivalMaster => ("rival_master", Vec::new()),
        EventKind::RivalMasterGone => ("rival_master_gone", Vec::new()),
        EventKind::UnrelatedServers => ("unrelated_servers", Vec::new()),
        EventKind::RivalInDoubt { older, newer } => {
            let shown = older.iter().chain(newer).filter_map(shown_by);
            (
                "rival_in_doubt",
                [parties_named(older), parties_named(newer)].into_iter().chain(shown).collect(),
            )
        }
        EventKind::FailoverReport(failover_report) => {
            ("failover_report", of_failover_report(failover_report))
        }
        other => ("other", vec![format!("{other:?}")]),
    }
}

/// An agent's instant, relative to the timeline's beginning.
pub(crate) fn agent_ms(at: Mono) -> i64 {
    at.ms() as i64 - mono(0).ms() as i64
}

fn server_ms(at: ServerTime) -> i64 {
    at.ms() - SERVER_ORIGIN_MS
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

/// `failover a>b kept:1 overlap:3s bytes:100 blind:2s`; zero values are left out.
fn of_failover_report(failover_report: &FailoverReport) -> Vec<String> {
    let name = |node: &Option<Arc<str>>| {
        node.as_ref().map_or("none".to_owned(), |node| short(node).to_owned())
    };
    let mut words = vec![format!("{}>{}", name(&failover_report.from), name(&failover_report.to))];
    words.extend(failover_report.changes.iter().map(|change| change.name().to_owned()));
    let fates = Fate::ALL.iter().zip(failover_report.fates).filter(|(_, count)| *count > 0);
    words.extend(fates.map(|(fate, count)| format!("{}:{count}", fate.name())));
    words.extend(failover_report.bytes_lost.map(|bytes| format!("bytes:{bytes}")));
    words.extend(
        (failover_report.overlap_ms > 0)
            .then(|| format!("overlap:{}", seconds(signed(failover_report.overlap_ms)))),
    );
    words.push(format!("blind:{}", seconds(signed(failover_report.blind_ms))));
    words
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
