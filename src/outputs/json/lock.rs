//! The fields of a task that a lock guards.

use std::borrow::Cow;

use lockwatch_judge::reading::Holder;
use lockwatch_judge::snapshot::{HoldView, LockView, Run, Runs, TaskView, WitnessView};
use lockwatch_judge::spec::LibraryName;
use serde::Serialize;

use super::part::{UnknownJson, agent, server, unknown_json};
use crate::outputs::remark::is_past;
use crate::outputs::runs::exit_code;
use crate::published::Published;
use crate::text::identity::{escape, holder_label};
use crate::text::instants::seconds;

#[derive(Serialize)]
pub(super) struct Fields<'a> {
    lock: LockJson<'a>,
    /// The state of the lock on servers that do not decide.
    witnesses: Vec<WitnessJson<'a>>,
    /// `null` without claims, or before they were read.
    runs: Option<RunsJson<'a>>,
}

/// What guards state of the runs of their scripts.
#[derive(Serialize)]
struct RunsJson<'a> {
    /// The newest that ended, oldest first: at most three.
    ended: Vec<RunJson<'a>>,
    /// Those that go on, as far as their guards wrote it last.
    present: Vec<PresentJson<'a>>,
    /// The script fails again and again; `null` when that cannot be told.
    failing: Option<bool>,
    /// Number of fields that no guard wrote, or not completely.
    unreadable: u32,
}

/// A run that ended. Its instants are of the server's clock.
#[derive(Serialize)]
struct RunJson<'a> {
    host: Cow<'a, str>,
    from: Option<String>,
    to: Option<String>,
    /// `None`: none was stated.
    exit_code: Option<u8>,
    /// Its guard ended it.
    asked: bool,
}

/// A run that goes on.
#[derive(Serialize)]
struct PresentJson<'a> {
    host: Cow<'a, str>,
    from: Option<String>,
}

#[derive(Serialize)]
struct LockJson<'a> {
    key: Cow<'a, str>,
    library: &'a str,
    /// `null` when unknown.
    held: Option<bool>,
    /// The same after confirmation.
    fact: &'static str,
    unknown: Option<UnknownJson>,
    /// `null` unless held.
    hold: Option<HoldJson<'a>>,
    waiters: Option<u64>,
    fencing_token: Option<i64>,
    lease_seconds: Option<f64>,
    renewal_period_seconds: Option<f64>,
}

#[derive(Serialize)]
struct HoldJson<'a> {
    mode: &'static str,
    holders: Vec<HolderJson<'a>>,
    ghosts: u32,
    /// By the server's clock, like the other instants here; `null` when the start was not seen.
    acquired: Option<String>,
    held_seconds: f64,
    ttl_seconds: Option<f64>,
    deadline: Option<String>,
    persistent: Option<bool>,
    /// A holder's value is a time in the past, and the library does not say what it means.
    value_is_past: bool,
    last_renewal: Option<String>,
    last_renewal_latency_seconds: Option<f64>,
    last_renewal_margin_seconds: Option<f64>,
    renewal_overdue_seconds: f64,
}

#[derive(Serialize)]
pub(super) struct HolderJson<'a> {
    holder: Cow<'a, str>,
    /// Whether `holder` is a digest because the real value is a secret.
    digest: bool,
    host: Option<Cow<'a, str>>,
    entries: Option<u32>,
}

/// The state of the lock on a server that does not decide.
#[derive(Serialize)]
struct WitnessJson<'a> {
    node: Cow<'a, str>,
    role: &'static str,
    /// By the agent's clock.
    at: Option<String>,
    /// `null` when it shows none.
    holders: Option<Vec<HolderJson<'a>>>,
    /// How far a replica's deadline is behind; `null` if not known.
    behind_seconds: Option<f64>,
}

pub(super) fn json<'a>(
    published: &Published,
    view: &'a TaskView,
    lock: &'a LockView,
) -> Fields<'a> {
    let witness = |witness: &'a WitnessView| witness_json(published, witness);
    Fields {
        lock: lock_json(published, view, lock),
        witnesses: lock.witnesses.iter().map(witness).collect(),
        runs: view.runs.as_deref().map(runs_json),
    }
}

fn runs_json(runs: &Runs) -> RunsJson<'_> {
    let ended = |run: &'_ Run| RunJson {
        host: Cow::Owned(escape(&run.host).into_owned()),
        from: server(run.end.from),
        to: server(run.end.to),
        exit_code: exit_code(run),
        asked: run.end.asked,
    };
    RunsJson {
        ended: runs.ended.iter().map(ended).collect(),
        present: runs
            .present
            .iter()
            .map(|(_, host, from)| PresentJson { host: escape(host), from: server(*from) })
            .collect(),
        failing: runs.fails,
        unreadable: runs.unreadable,
    }
}

fn lock_json<'a>(published: &Published, view: &'a TaskView, lock: &'a LockView) -> LockJson<'a> {
    LockJson {
        key: escape(view.spec.kind.key()),
        library: view.spec.kind.library().map_or("", LibraryName::as_str),
        held: view.held,
        fact: lock.fact.name(),
        unknown: view.unknown.map(|why| unknown_json(why, view.words(why))),
        hold: lock.hold.as_ref().map(|hold| hold_json(published, view, hold)),
        waiters: lock.waiters,
        fencing_token: lock.fencing_token,
        lease_seconds: lock.lease_ms.map(seconds),
        renewal_period_seconds: lock.renewal_period_ms.map(seconds),
    }
}

fn hold_json<'a>(published: &Published, view: &TaskView, hold: &'a HoldView) -> HoldJson<'a> {
    HoldJson {
        mode: hold.mode.name(),
        holders: hold
            .holders
            .iter()
            .map(|(holder, host)| holder_json(holder, host.as_deref()))
            .collect(),
        ghosts: hold.ghosts,
        acquired: hold.acquired.and_then(server),
        held_seconds: seconds(hold.held_ms),
        ttl_seconds: hold.ttl_ms.map(seconds),
        deadline: hold.deadline.and_then(server),
        persistent: hold.persistent,
        value_is_past: is_past(published, view, hold),
        last_renewal: hold.last_renewal.and_then(server),
        last_renewal_latency_seconds: hold.last_renewal_latency_ms.map(seconds),
        last_renewal_margin_seconds: hold.last_renewal_margin_ms.map(seconds),
        renewal_overdue_seconds: seconds(hold.renewal_overdue_ms),
    }
}

pub(super) fn holder_json<'a>(holder: &'a Holder, host: Option<&'a [u8]>) -> HolderJson<'a> {
    HolderJson {
        holder: if holder.is_identified() { holder_label(holder) } else { "".into() },
        digest: holder.secret,
        host: host.map(escape),
        entries: holder.entries,
    }
}

fn witness_json<'a>(published: &Published, witness: &'a WitnessView) -> WitnessJson<'a> {
    let holders =
        |holders: &'a Vec<Holder>| holders.iter().map(|holder| holder_json(holder, None)).collect();
    WitnessJson {
        node: escape(witness.node.as_bytes()),
        role: witness.role.name(),
        at: agent(published, witness.at),
        holders: witness.holders.as_ref().map(holders),
        behind_seconds: witness.behind_ms.map(seconds),
    }
}
