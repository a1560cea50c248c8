//! A store: its servers, its Sentinels, and what went wrong.

use lockwatch_judge::event::Fate;
use lockwatch_judge::input::{self, Announcer};
use lockwatch_judge::problems::of_store;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{NodeView, StoreView};

use super::values::{counts, histogram, problems, server};
use crate::api::{Node, Seconds, Sentinel, Store, WakeUps};
use crate::outputs::cause::unknown;
use crate::published::Published;
use crate::text::identity::escape;
use crate::text::instants::signed_seconds;

pub(super) fn store(published: &Published, view: &StoreView) -> Store {
    let found = of_store(view, published.snapshot.at, None);
    let totals = &view.totals;
    let mut errors = counts(Unknown::ALL.map(Unknown::name), totals.errors);
    errors.retain(|error| error.count > 0);
    Store {
        name: view.spec.name.to_string().into(),
        kind: view.spec.kind.to_string().into(),
        db: view.spec.db,
        readable: view.readable,
        unknown: view.unknown.map(|why| unknown(why, view.words_of_any(why).as_deref())),
        blind_seconds: Seconds(view.blind_ms),
        clear: found.clear,
        problems: problems(&found),
        masters: view.masters,
        nodes: view.nodes.iter().map(|own| node(view, own)).collect(),
        sentinels: view.announcers.iter().map(|own| sentinel(view, own)).collect(),
        uncovered_slots: view.uncovered,
        reconnects: totals.reconnects,
        skipped_ticks: totals.skipped_ticks,
        generation_changes: totals.generation_changes,
        locks_after_change: counts(Fate::ALL.map(Fate::name), totals.fates),
        errors,
        sample_duration: histogram(&totals.sample_duration),
    }
}

fn node(store: &StoreView, view: &NodeView) -> Node {
    Node {
        address: escape(view.address.as_bytes()).into(),
        decides: view.decides,
        up: view.up,
        unknown: view.unknown.map(|why| unknown(why, store.words(why, &view.address))),
        role: view.role.map(|role| role.name().into()),
        role_verified: view.role_verified,
        version: view.version.as_ref().map(|version| escape(version.as_bytes()).into()),
        last_success: server(view.last_success),
        refuses_writes: view.refuses_writes.map(|why| why.name().into()),
        clock_offset_seconds: view.clock_offset_ms.map(signed_seconds),
        locks_behind: view.locks_behind,
        deadline_lag_seconds: view.deadline_lag_ms.map(Seconds),
        wake_ups: view.wake_ups.map(wake_ups),
    }
}

fn wake_ups(wake_ups: input::WakeUps) -> WakeUps {
    let input::WakeUps { state, read, coalesced, foreign, .. } = wake_ups;
    WakeUps {
        state: state.name().into(),
        reconnects: wake_ups.reconnects(),
        hints: counts(["read", "coalesced", "foreign"], [read, coalesced, foreign]),
    }
}

fn sentinel(store: &StoreView, reported: &Announcer) -> Sentinel {
    let address = escape(reported.address.as_bytes()).into();
    let (master, why) = match &reported.master {
        Some(Ok(master)) => (Some(escape(master.as_bytes()).into()), None),
        Some(Err(why)) => (None, Some(*why)),
        None => (None, None),
    };
    let unknown = why.map(|why| unknown(why, store.words(why, &reported.address)));
    Sentinel { address, master, unknown }
}
