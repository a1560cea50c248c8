//! Two masters that accept writes and show different holders.
//!
//! Two masters that show different holders prove little by themselves. The older hold may have been
//! released on the other server, and its copy here is a leftover without a holder. So there must be
//! evidence that the older hold is alive.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::witnesses::{Hold, Limits, Server, Witnesses};
use crate::continuity::earlier::BRIEF_MS;
use crate::continuity::generation::{fork, same_process};
use crate::event::Party;
use crate::evidence::Origin;
use crate::input::Standing;
use crate::reading::clients_meet;
use crate::time::Mono;

/// Typical duration in milliseconds of a phantom hold: a client takes the lock, waits in vain for
/// replicas and releases it, and its application never learns that it held the lock.
pub const PHANTOM_MS: u64 = 1_150;

/// Two masters show different holders.
#[derive(Clone, Debug)]
pub(super) struct Rivalry {
    pub(super) nodes: [Arc<str>; 2],
    pub(super) older: Vec<Party>,
    pub(super) newer: Vec<Party>,
    /// Remaining lease of the older hold in milliseconds.
    pub(super) left_ms: Option<u64>,
    /// The older hold is certainly alive.
    pub(super) proven: bool,
}

/// Two masters with different holders, if any; one with proof is preferred.
pub(super) fn between_any(witnesses: &Witnesses, limits: Limits, at: Mono) -> Option<Rivalry> {
    let servers = &witnesses.servers;
    let pairs = servers.iter().enumerate().flat_map(|(position, a)| {
        let others = servers.iter().skip(position + 1);
        others.filter_map(move |b| rivalry(a, b, limits, at))
    });
    pairs.max_by_key(|rivalry| rivalry.proven)
}

/// Whether these two servers still show different holders. While one of them cannot be read,
/// this holds until its hold expires.
pub(super) fn contradict(witnesses: &Witnesses, [a, b]: &[Arc<str>; 2], at: Mono) -> bool {
    let server =
        |name: &Arc<str>| witnesses.servers.iter().find(|server| server.origin.node == *name);
    let (Some(a), Some(b)) = (server(a), server(b)) else { return false };
    match (a.live_hold(at), b.live_hold(at)) {
        (Some(x), Some(y)) => {
            a.rules() && b.rules() && !clients_meet(&x.held.holders, &y.held.holders)
        }
        _ => false,
    }
}

fn rivalry(a: &Server, b: &Server, limits: Limits, at: Mono) -> Option<Rivalry> {
    let rules = |server: &Server| server.rules() && server.fresh(limits, at);
    if same_process(&a.origin, &b.origin) || !rules(a) || !rules(b) {
        return None;
    }
    let (x, y) = (a.live_hold(at)?, b.live_hold(at)?);
    if clients_meet(&x.held.holders, &y.held.holders) {
        return None;
    }
    let prompt = |server: &Server, hold: &Hold| server.standing == Standing::Decides || hold.steady;
    // A hold that a frozen server executed late takes longer to be released,
    let settled = |server: &Server, hold: &Hold| {
        hold.settled(
            server.seen.sent,
            if prompt(server, hold) { PHANTOM_MS } else { limits.settle_ms },
        )
    };
    if !settled(a, x) || !settled(b, y) {
        return None;
    }
    // or never is, because its client does not know of it. Only a renewal proves that it does.
    let known = |server: &Server, hold: &Hold| prompt(server, hold) || hold.moved.is_some();
    let ((older, old), (newer, new)) =
        if x.since < y.since { ((a, x), (b, y)) } else { ((b, y), (a, x)) };
    if older.seen.sent < new.since {
        return None; // They were never seen side by side.
    }
    let parties = |server: &Server, hold: &Hold| -> Vec<Party> {
        hold.held
            .holders
            .iter()
            .map(|holder| Party::of(holder, Some(&server.origin.node)))
            .collect()
    };
    Some(Rivalry {
        nodes: [a.origin.node.clone(), b.origin.node.clone()],
        older: parties(older, old),
        newer: parties(newer, new),
        left_ms: older.left_ms(old, at),
        proven: known(a, x)
            && known(b, y)
            && newer_lives(older, old, newer, new)
            && older_lives(older, old, newer, new, limits),
    })
}

/// Whether the newer hold is no leftover: it was taken or renewed while the older one existed.
fn newer_lives(older: &Server, old: &Hold, newer: &Server, new: &Hold) -> bool {
    // A hold that arrived late may have been over on the master, and that is known only beyond the
    // shared bytes.
    let over = if new.perhaps_late { older.earlier.of(&new.held.holders) } else { None };
    let leftover = over
        .is_some_and(|over| fork(&older.origin, &newer.origin).is_none_or(|shared| over > shared));
    let taken = !leftover && new.not_before.is_some_and(|before| before >= old.since);
    taken || new.lived_after(old.since)
}

/// Whether the older hold cannot have been released on the other server.
fn older_lives(older: &Server, old: &Hold, newer: &Server, new: &Hold, limits: Limits) -> bool {
    let ran_out =
        newer.expired.as_ref().filter(|ran_out| clients_meet(&ran_out.holders, &old.held.holders));
    // A client that renews its lock here would have released it here, too. A lock with a fixed
    // lease may be released at any time, and a lock that a replica received is renewed elsewhere.
    let ran_out_there =
        old.lived_after.is_some() && ran_out.is_some_and(|ran_out| ran_out.at > old.since);
    // The offset by which the same client's newest hold was over there. The client may have
    // released that one instead of the older one.
    let over_there = newer.earlier.of(&old.held.holders);
    let never_there = match fork(&older.origin, &newer.origin) {
        // The offset is read a moment after the lock, so it must have grown since.
        Some(shared) => {
            let grew = older.origin.offset.is_some_and(|now| now > shared);
            // The other server also had no earlier hold of the same client left that it may have
            // released instead.
            let nothing_left = old.earlier_over.is_none_or(|over| over <= shared);
            let none_there = over_there.is_none_or(|over| over <= shared);
            grew && nothing_left
                && none_there
                && old.offset_before.is_some_and(|written| written >= shared)
        }
        // It began on a server that never shared data with the other one.
        None => {
            let apart = limits.authority.self_declared() && both_tell(&older.origin, &newer.origin);
            apart
                && over_there.is_none()
                && old.offset_before.is_some()
                && !older.origin.related(&newer.origin)
        }
    };
    // If the lock is only held for moments, its holder may have had it there, too, between two
    // readings.
    let leased_ms = older
        .left_ms(old, older.seen.sent)
        .map(|left_ms| left_ms + older.seen.sent.since_ms(old.began));
    let brief = older.earlier.brief() || leased_ms.is_some_and(|leased_ms| leased_ms < BRIEF_MS);
    let repeated = brief && new.since.since_ms(old.began) < limits.settle_ms;
    old.lived_after(new.since) || (ran_out_there || never_there) && !repeated
}

fn both_tell(a: &Origin, b: &Origin) -> bool {
    a.generation.is_some() && b.generation.is_some()
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::shared::splits::witnesses::RanOut;
    use crate::spec::Authority;

    const LIMITS: Limits =
        Limits { fresh_ms: 3_000, settle_ms: 5_000, authority: Authority::ANNOUNCED };

    fn server(name: &str) -> Server {
        Server::named(name)
    }

    fn hold(who: &str, since: u64) -> Hold {
        Hold::by(who, since)
    }

    /// Only the two servers of a split show whether it continues, whatever others there are.
    #[test]
    fn a_third_server_ends_no_split_of_two_others() {
        let shows = |name: &str, who: Option<&str>| Server {
            hold: who.map(|who| hold(who, 5_000)),
            ..server(name)
        };
        let contradict = |[a, b, c]: [Option<&str>; 3], [x, y]: [&str; 2]| {
            let servers = vec![shows("a", a), shows("b", b), shows("c", c)];
            super::contradict(
                &Witnesses { servers: servers.into_iter().collect() },
                &[Arc::from(x), Arc::from(y)],
                Mono::at(9_000),
            )
        };
        let all = [Some("A"), Some("B"), Some("B")];
        assert!(
            contradict(all, ["a", "b"])
                && contradict(all, ["a", "c"])
                && !contradict(all, ["b", "c"])
        );
        for of_others in [[None, Some("A"), Some("B")], [Some("A"), Some("A"), Some("B")]] {
            assert!(contradict(of_others, ["b", "c"]) && contradict(of_others, ["c", "b"]));
        }
        assert!(!contradict([Some("A"), None, Some("B")], ["a", "b"]), "one of them is free");
        assert!(!contradict(all, ["a", "gone"]), "nobody knows one of them");
    }

    /// A client that takes the lock again after its hold expired may well have released it where
    /// that hold expired.
    #[test]
    fn only_a_hold_that_ran_out_after_it_was_seen_here_ran_out_there() {
        let (older, mut newer) = (server("a"), server("b"));
        let moved = Hold { moved: Some(Mono::at(5_500)), ..hold("A", 5_000) };
        let (renewed, new) =
            (Hold { lived_after: Some(Mono::at(5_000)), ..moved.clone() }, hold("B", 8_000));
        // As a replica it received that, and possibly nothing later.
        for (old, at, lives) in
            [(&renewed, 4_000, false), (&renewed, 6_000, true), (&moved, 6_000, false)]
        {
            newer.expired = Some(RanOut { holders: old.held.holders.clone(), at: Mono::at(at) });
            assert_eq!(older_lives(&older, old, &newer, &new, LIMITS), lives, "{at}");
        }
    }

    /// The offset is read a moment after the lock, so a hold written in between is among the bytes
    /// before it.
    #[test]
    fn a_hold_that_was_read_with_shared_bytes_was_there_too() {
        use crate::input::{Fork, Generation};
        let at = |name: &str, forked_from, offset| {
            let generation = Generation {
                history: name.as_bytes().to_vec(),
                forked_from,
                ..Generation::default()
            };
            let origin = Origin {
                generation: Some(Arc::new(generation)),
                offset: Some(offset),
                ..server(name).origin
            };
            Server { origin, ..server(name) }
        };
        let newer = at("b", Some(Fork { history: b"a".to_vec(), offset: 1_001 }), 2_000);
        let old = Hold { offset_before: Some(1_000), ..hold("A", 5_000) };
        for (offset, lives) in [(1_000, false), (1_001, true)] {
            let older = at("a", None, offset);
            assert_eq!(
                older_lives(&older, &old, &newer, &hold("B", 8_000), LIMITS),
                lives,
                "{offset}"
            );
        }
    }

    #[test]
    fn two_promoted_replicas_of_one_master_share_what_both_have() {
        use crate::input::{Fork, Generation};
        let promoted = |name: &str, offset| {
            let forked_from = Some(Fork { history: b"old".to_vec(), offset });
            let generation = Generation {
                history: name.as_bytes().to_vec(),
                forked_from,
                ..Generation::default()
            };
            Origin { generation: Some(Arc::new(generation)), ..server(name).origin }
        };
        assert_eq!(fork(&promoted("a", 101), &promoted("b", 81)), Some(80));
        assert_eq!(fork(&promoted("a", 101), &server("b").origin), None);
    }
}
