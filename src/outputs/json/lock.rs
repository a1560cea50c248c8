//! What only a lock has.

use lockwatch_judge::reading;
use lockwatch_judge::snapshot::{self as view, HoldView, LockView, TaskView, WitnessView};
use lockwatch_judge::spec::LibraryName;

use super::values::{agent, server};
use crate::api::{At, Contender, Hold, Holder, Lock, Seconds, StoreShows, Witness};
use crate::outputs::cause::unknown;
use crate::outputs::remark::is_past;
use crate::published::Published;
use crate::text::identity::{escape, holder_label};

pub(super) fn lock(published: &Published, view: &TaskView, lock: &LockView) -> Lock {
    Lock {
        key: escape(view.spec.kind.key()).into(),
        library: view.spec.kind.library().map_or("", LibraryName::as_str).to_owned().into(),
        held: view.held,
        fact: lock.fact.name().into(),
        unknown: view.unknown.map(|why| unknown(why, view.words(why))),
        hold: lock.hold.as_ref().map(|own| hold(published, view, own)),
        waiters: lock.waiters.map(u64::from),
        queue: lock.rare.queue.as_ref().map(|queue| queue.iter().map(contender).collect()),
        fencing_token: lock.rare.fencing_token,
        lease_seconds: lock.lease_ms.map(Seconds),
        renewal_period_seconds: lock.renewal_period_ms.map(Seconds),
        stores: lock
            .rare
            .stores
            .as_ref()
            .map(|all| all.iter().map(|it| shows(published, it)).collect()),
    }
}

fn contender(contender: &reading::Contender) -> Contender {
    Contender {
        name: escape(&contender.name).into(),
        stands: contender.stands.name().into(),
        session: contender.session.as_ref().map(|session| escape(session).into()),
        since: server(contender.since),
        says: contender.says.as_ref().map(|says| escape(says).into()),
    }
}

/// What one of its stores shows.
fn shows(published: &Published, shows: &view::StoreShows) -> StoreShows {
    let holders = shows.holders.as_ref();
    StoreShows {
        store: published.store_name(shows.store).into(),
        at: shows.at.map_or(At(None), |at| agent(published, at)),
        holders: holders.map(|all| all.iter().map(|own| holder(own, None)).collect()),
        unknown: shows.unknown.map(|why| unknown(why, None)),
    }
}

fn hold(published: &Published, view: &TaskView, hold: &HoldView) -> Hold {
    Hold {
        mode: hold.mode.name().into(),
        holders: holders(hold.holders.iter()),
        ghosts: hold.ghosts,
        acquired: server(hold.acquired),
        held_seconds: Seconds(hold.held_ms),
        ttl_seconds: hold.ttl_ms.map(Seconds),
        deadline: server(hold.deadline),
        persistent: hold.persistent,
        value_is_past: is_past(published, view, hold),
        last_renewal: server(hold.last_renewal),
        last_renewal_latency_seconds: hold.last_renewal_latency_ms.map(Seconds),
        last_renewal_margin_seconds: hold.last_renewal_margin_ms.map(Seconds),
        renewal_overdue_seconds: Seconds(hold.renewal_overdue_ms),
    }
}

/// Holders and their hosts.
pub(super) fn holders<'a>(
    holders: impl Iterator<Item = (&'a reading::Holder, Option<&'a [u8]>)>,
) -> Vec<Holder> {
    holders.map(|(own, host)| holder(own, host)).collect()
}

fn holder(holder: &reading::Holder, host: Option<&[u8]>) -> Holder {
    Holder {
        holder: if holder.is_identified() { holder_label(holder).into() } else { "".into() },
        digest: holder.secret,
        host: host.map(|host| escape(host).into()),
        entries: holder.entries,
    }
}

/// The state of the lock on a server that does not decide.
pub(super) fn witness(published: &Published, witness: &WitnessView) -> Witness {
    let holders = witness.holders.as_ref();
    Witness {
        node: escape(witness.node.as_bytes()).into(),
        role: witness.role.name().into(),
        at: agent(published, witness.at),
        holders: holders.map(|all| all.iter().map(|own| holder(own, None)).collect()),
        behind_seconds: witness.behind_ms.map(Seconds),
    }
}
