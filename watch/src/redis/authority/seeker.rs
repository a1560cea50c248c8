//! Asks servers of a cluster for its layout repeatedly, and finds the layout that most of them
//! report.
//!
//! A server that has lost its state, or is in the minority of a partition, reports a layout of its
//! own. So several are asked, and those that see the cluster as serving are preferred. Of two
//! layouts with as many votes, the one that serves more slots wins.

use alloc::collections::BTreeMap;
use alloc::string::ToString as _;
use alloc::vec::Vec;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::Mono;

use super::asker::{Asker, Exchange, HURRIES};
use crate::redis::accept::Caps;
use crate::redis::diagnosis::{common, refusal, words_for};
use crate::redis::driver::{Event, Failure, LinkId, Login, Note};
use crate::redis::handshake::Handshake;
use crate::redis::out::Out;
use crate::redis::reply::{Command, Reply};
use crate::redis::store::{Cluster as Configured, HostPort, Store};
use crate::redis::topology::cluster::{self, SlotMap};

/// Maximum number of servers that are asked in one round.
const ASKED: usize = 5;
/// Number of intervals between two rounds without a reason to hurry.
const EVERY: u64 = 5;

/// A layout, and whether the server that reported it sees the cluster as serving.
type Vote = (SlotMap, bool);

/// Finds the layout of a cluster, in rounds.
#[derive(Debug)]
pub(super) struct Seeker {
    store: Store,
    cluster: Configured,
    /// The servers with a connection or a request. A slow server delays nothing, and is not asked
    /// again until it has answered.
    askers: BTreeMap<HostPort, (Asker, u64)>,
    /// The number of this round: answers to earlier rounds are no votes.
    number: u64,
    /// The round that has not ended.
    round: Option<Round>,
    /// When the last round began.
    began: Mono,
    /// When the next one begins; an urgent one may be earlier.
    due: Mono,
    urged: bool,
    /// The servers of the newest layout: those that serve slots first.
    known: Vec<HostPort>,
    /// Number of known servers to skip, because the ones before them do not see the cluster as
    /// serving.
    skip: usize,
    /// Why the last round found no layout.
    failing: Option<Unknown>,
}

/// A round of requests.
#[derive(Debug)]
struct Round {
    whom: Vec<HostPort>,
    votes: Vec<Vote>,
    failures: Vec<Failure>,
    /// When it ends at the latest.
    until: Mono,
}

/// The request for the layout.
fn commands(caps: Caps) -> Vec<Command> {
    cluster::commands(caps.pexpiretime)
}

impl Seeker {
    pub(super) fn new(store: &Store, cluster: &Configured, now: Mono) -> Seeker {
        Seeker {
            store: store.clone(),
            cluster: cluster.clone(),
            askers: BTreeMap::new(),
            number: 0,
            round: None,
            began: now,
            due: now,
            urged: false,
            known: Vec::new(),
            skip: 0,
            failing: None,
        }
    }

    pub(super) fn close(&self, out: &mut Out) {
        let links = self.askers.values().filter_map(|(asker, _)| asker.id());
        links.for_each(|link| out.close(link));
    }

    /// Asks again as soon as possible.
    pub(super) fn hurry(&mut self) {
        self.urged = true;
    }

    /// When to call [`Seeker::launch`] again.
    pub(super) fn next_launch(&self) -> Option<Mono> {
        let late = self.askers.values().filter_map(|(asker, _)| asker.late_at());
        let own = match &self.round {
            Some(round) => round.until,
            None if self.urged => self.due.min(self.hurries_at()),
            None => self.due,
        };
        late.chain([own]).min()
    }

    fn hurries_at(&self) -> Mono {
        self.began.plus_ms(self.store.interval_ms / HURRIES)
    }

    /// Does what is due; returns the result of a round that ends.
    pub(super) fn launch(&mut self, now: Mono, out: &mut Out) -> Option<Result<SlotMap, Unknown>> {
        let late = self.askers.iter_mut().filter_map(|(at, (asker, round))| {
            Some((at.clone(), *round, asker.overdue(now, out)?))
        });
        for (at, round, asked) in late.collect::<Vec<_>>() {
            self.answered(&at, round, asked, now, out);
        }
        if let Some(map) = self.end(now, out) {
            return Some(map);
        }
        if self.round.is_none() && self.next_launch().is_some_and(|at| at <= now) {
            self.begin(now, out);
        }
        None
    }

    /// Asks one round.
    fn begin(&mut self, now: Mono, out: &mut Out) {
        (self.began, self.urged) = (now, false);
        self.number += 1;
        let whom = candidates(&self.cluster.nodes, &self.known, self.skip);
        self.askers.retain(|at, (asker, _)| {
            let stays = asker.is_busy() || whom.contains(at);
            if !stays {
                asker.give_up(out);
            }
            stays
        });
        for at in &whom {
            let Store { db, assume_master, timeout_ms, .. } = self.store;
            let (asker, round) = self.askers.entry(at.clone()).or_insert_with(|| {
                let handshake = Handshake::new(db, assume_master, true);
                (Asker::new(at.clone(), Login::Store, handshake, timeout_ms), 0)
            });
            if !asker.is_busy() {
                *round = self.number;
                asker.ask(0, commands, now, out);
            }
        }
        // A server that must be dialled first may take longer; its answer counts next round.
        let until = now.plus_ms(self.store.timeout_ms);
        self.round = Some(Round { whom, votes: Vec::new(), failures: Vec::new(), until });
    }

    /// Takes in what happened on a connection; returns the result of a round that ends.
    pub(super) fn take(
        &mut self,
        link: LinkId,
        event: Event,
        now: Mono,
        out: &mut Out,
    ) -> Option<Result<SlotMap, Unknown>> {
        let mut askers = self.askers.iter_mut();
        let (at, (asker, round)) = askers.find(|(_, (asker, _))| asker.id() == Some(link))?;
        let (at, round, asked) = (at.clone(), *round, asker.take(event, commands, now, out)?);
        self.answered(&at, round, asked, now, out);
        self.end(now, out)
    }

    /// A request has ended: its vote counts if it belongs to this round.
    fn answered(
        &mut self,
        at: &HostPort,
        number: u64,
        (_, replies): Exchange,
        now: Mono,
        out: &mut Out,
    ) {
        let vote = match replies {
            Ok(replies) => {
                let (layout, state) = replies.split_at_checked(1).unwrap_or_default();
                let serves = state.first().is_some_and(cluster::serves);
                let map = cluster::decode(layout, &at.host);
                map.map(|map| (map, serves)).map_err(|why| no_layout(why, layout))
            }
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &vote {
            out.said(&at.to_string().into(), failure);
            out.note(Note::TellsNoLayout(at.clone(), failure.clone()));
        }
        let Some(round) = &mut self.round else { return };
        if number != self.number {
            return;
        }
        match vote {
            Ok(vote) => {
                // After the first answer, the others have one interval.
                let patience_ms = self.store.interval_ms.min(self.store.timeout_ms);
                round.until = round.until.min(now.plus_ms(patience_ms));
                round.votes.push(vote);
            }
            Err(failure) => round.failures.push(failure),
        }
    }

    /// Ends the round if all have answered, if further answers cannot change its result, or if its
    /// time is over.
    fn end(&mut self, now: Mono, out: &mut Out) -> Option<Result<SlotMap, Unknown>> {
        let Round { whom, votes, until, .. } = self.round.as_ref()?;
        let busy = |at: &HostPort| self.askers.get(at).is_some_and(|(asker, _)| asker.is_busy());
        let goes_on = whom.iter().any(busy) && !is_settled(votes, whom.len()) && *until > now;
        if goes_on {
            return None;
        }
        let Round { votes, failures, .. } = self.round.take()?;
        let silent = Failure::new(Unknown::Connect, "no server has answered");
        let failure = common(&failures).unwrap_or(&silent);
        let map = self.conclude(&votes).ok_or(failure.why);
        let failing = map.as_ref().err().copied();
        if failing.is_some() && self.failing != failing {
            out.note(Note::NoLayout(failure.clone()));
        }
        self.failing = failing;
        // A slot that nobody serves may be taken over at any moment.
        let calm = map.as_ref().is_ok_and(|map| map.uncovered() == 0);
        let every = if calm { EVERY } else { 1 };
        self.due = now.plus_ms(self.store.interval_ms.saturating_mul(every));
        Some(map)
    }

    /// The layout that the votes are for; decides whom to ask next.
    fn conclude(&mut self, votes: &[Vote]) -> Option<SlotMap> {
        let (map, serves) = most_told(votes)?;
        // One configured server stays in each round, so one less is skipped.
        self.skip = if *serves { 0 } else { self.skip.saturating_add(ASKED - 1) };
        let (mut known, masters) = (map.masters(), map.masters());
        known.extend(map.nodes().into_iter().filter(|node| !masters.contains(node)));
        self.known = known
            .iter()
            .filter_map(|node| self.cluster.peers.resolve(node, &self.cluster.nodes))
            .collect();
        if self.skip >= self.known.len() {
            self.skip = 0;
        }
        Some(map.clone())
    }
}

/// The failure of a server that reports no layout, in its words.
fn no_layout(why: Unknown, replies: &[Reply]) -> Failure {
    let why = match replies {
        [Reply::Error(error)] => refusal(error, true),
        _ => why,
    };
    Failure::new_printable(why, words_for(why, replies).unwrap_or_default())
}

/// Whether further answers cannot change the result: more than half of those asked report the same
/// layout, and see it as serving.
fn is_settled(votes: &[Vote], asked: usize) -> bool {
    let agree = |map: &SlotMap| {
        votes.iter().filter(|(other, serves)| *serves && map.same_owners(other)).count()
    };
    votes.iter().any(|(map, serves)| *serves && agree(map) * 2 > asked)
}

/// The servers to ask: those of the newest layout after the first `skip` of them, then the
/// configured ones.
fn candidates(configured: &[HostPort], known: &[HostPort], skip: usize) -> Vec<HostPort> {
    let mut all: Vec<HostPort> = Vec::new();
    let newest = known.iter().skip(skip).chain(known).take(ASKED - 1);
    // One configured server stays in, so that a cluster whose servers have all moved can be found
    // again.
    for at in newest.chain(configured).chain(known) {
        if !all.contains(at) && all.len() < ASKED {
            all.push(at.clone());
        }
    }
    all
}

/// The layout with the most votes, preferably of servers that see the cluster as serving; of
/// equals, the one that serves most slots.
fn most_told(votes: &[Vote]) -> Option<&Vote> {
    let count = |map: &SlotMap| votes.iter().filter(|(other, _)| map.same_owners(other)).count();
    votes
        .iter()
        .max_by_key(|(map, serves)| (*serves, count(map), core::cmp::Reverse(map.uncovered())))
}

#[cfg(test)]
mod tests {
    use alloc::{format, vec};

    use super::*;
    use crate::redis::driver::Dial;
    use crate::redis::reply::Reply;
    use crate::redis::store::{Peers, Servers};
    use crate::redis::testing::{
        actions, at, bytes, closed, dialled, dials, failed, out, replied, sends, store,
    };

    #[test]
    fn a_configured_server_is_always_asked() {
        let known: Vec<HostPort> = (0..9).map(|number| at(&format!("known-{number}"))).collect();
        for skip in [0, 4, 8, 20] {
            let asked = candidates(&[at("seed")], &known, skip);
            assert_eq!(asked.len(), ASKED);
            assert!(asked.contains(&at("seed")));
        }
        assert_eq!(candidates(&[at("seed"), at("seed")], &[], 0), [at("seed")]);
        assert_eq!(candidates(&[at("seed")], &known, 4)[..4], known[4..8], "others are asked");
        assert_eq!(
            candidates(&[at("seed")], &known[..2], 0),
            [at("known-0"), at("known-1"), at("seed")]
        );
    }

    /// A layout in which this host serves the slots up to `last`.
    fn map(host: &str, last: i64) -> SlotMap {
        let server = Reply::Array(vec![Reply::Bytes(host.into()), Reply::Int(6379)]);
        let range = Reply::Array(vec![Reply::Int(0), Reply::Int(last), server]);
        cluster::decode(&[Reply::Array(vec![range])], "asked").unwrap()
    }

    #[test]
    fn those_who_see_the_cluster_serve_are_heard_first() {
        let (new, old, lonely) = (map("new", 16_383), map("old", 16_383), map("old", 5));
        type LayoutReply<'a> = &'a [(&'a SlotMap, bool)];
        let table: [(&str, LayoutReply<'_>, Option<&SlotMap>); 6] = [
            ("nobody", &[], None),
            ("most", &[(&old, true), (&new, true), (&new, true)], Some(&new)),
            ("a minority that knows it", &[(&old, false), (&old, false), (&new, true)], Some(&new)),
            ("a lonely one", &[(&lonely, false), (&new, false)], Some(&new)),
            ("a lonely one that boasts", &[(&lonely, true), (&new, true)], Some(&new)),
            ("nobody else", &[(&lonely, false)], Some(&lonely)),
        ];
        for (what, votes, wanted) in table {
            let votes: Vec<Vote> =
                votes.iter().map(|(map, serves)| ((*map).clone(), *serves)).collect();
            assert_eq!(most_told(&votes).map(|(map, _)| map), wanted, "{what}");
        }
    }

    /// What such a server replies.
    fn layout_of(host: &str) -> Vec<Reply> {
        let server = Reply::Array(vec![Reply::Bytes(host.into()), Reply::Int(6379)]);
        let range = Reply::Array(vec![Reply::Int(0), Reply::Int(16_383), server]);
        vec![Reply::Array(vec![range]), bytes("cluster_state:ok\r\n")]
    }

    /// A seeker that asks these servers, and the store that they are.
    fn seeker(nodes: &[HostPort]) -> Seeker {
        let cluster = Configured { nodes: nodes.to_vec(), peers: Peers::default() };
        let store = Store {
            interval_ms: 5_000,
            timeout_ms: 5_000,
            ..store(Servers::Cluster(cluster.clone()))
        };
        Seeker::new(&store, &cluster, Mono::at(0))
    }

    /// Connects the server that `dial` is for; returns the link over which it is then asked.
    fn connect(seeker: &mut Seeker, dial: &Dial, at: u64, out: &mut Out) -> LinkId {
        assert_eq!(
            seeker.take(dial.link, dialled(dial, "master", at, at), Mono::at(at), out),
            None
        );
        let asked = actions(out);
        assert_eq!(sends(&asked), [(dial.link, cluster::commands(true).as_slice())]);
        dial.link
    }

    /// A server in the minority of a partition does not know that, and may be the fastest.
    #[test]
    fn whoever_answers_first_does_not_decide() {
        let _rule = crate::truth::rule("1 evidence");
        let (mut seeker, mut out) = (seeker(&[at("lonely"), at("a"), at("b")]), out());
        assert_eq!(seeker.launch(Mono::at(0), &mut out), None);
        let begun = actions(&mut out);
        let dials = dials(&begun);
        assert!(dials[0].commands.iter().any(|command| command.args == [b"READONLY"]));
        let links: Vec<LinkId> =
            dials.iter().map(|dial| connect(&mut seeker, dial, 0, &mut out)).collect();
        let mut hear = |which: usize, host, ms| {
            seeker.take(links[which], replied(layout_of(host), ms), Mono::at(ms), &mut out)
        };
        assert_eq!(hear(0, "old", 0), None);
        assert_eq!(hear(1, "new", 50), None);
        assert_eq!(
            hear(2, "new", 100),
            Some(Ok(map("new", 16_383))),
            "two that agree are enough only if the third is not report yet"
        );
    }

    /// It may have been cut off since it was asked.
    #[test]
    fn an_answer_to_an_earlier_round_is_no_vote() {
        let (mut seeker, mut out) = (seeker(&[at("slow"), at("a"), at("b")]), out());
        seeker.launch(Mono::at(0), &mut out);
        let begun = actions(&mut out);
        let links: Vec<LinkId> =
            dials(&begun).iter().map(|dial| connect(&mut seeker, dial, 0, &mut out)).collect();
        let settled = links[1..]
            .iter()
            .map(|link| seeker.take(*link, replied(layout_of("new"), 10), Mono::at(10), &mut out));
        assert_eq!(settled.collect::<Vec<_>>(), [None, Some(Ok(map("new", 16_383)))]);
        // Nobody is in a hurry: the next round begins after five intervals.
        assert_eq!(seeker.next_launch(), Some(Mono::at(5_000)), "the slow one is given up first");
        let mut slow = seeker;
        slow.hurry();
        assert_eq!(slow.launch(Mono::at(500), &mut out), None);
        let asked = actions(&mut out);
        assert!(sends(&asked).iter().all(|(link, _)| *link != links[0]), "it still owes an answer");
        let vote = slow.take(links[0], replied(layout_of("old"), 510), Mono::at(510), &mut out);
        assert_eq!(vote, None);
        assert_eq!(slow.round.as_ref().map(|round| round.votes.len()), Some(0));
    }

    /// A connection serves many rounds; after a failure the server is dialled again.
    #[test]
    fn a_connection_is_kept_until_it_fails() {
        let (mut seeker, mut out) = (seeker(&[at("a")]), out());
        let round = |seeker: &mut Seeker, ms: u64, out: &mut Out| {
            seeker.launch(Mono::at(ms), out);
            actions(out)
        };
        let begun = round(&mut seeker, 0, &mut out);
        let link = connect(&mut seeker, dials(&begun)[0], 0, &mut out);
        assert!(seeker.take(link, replied(layout_of("a"), 1), Mono::at(1), &mut out).is_some());
        let next = round(&mut seeker, 25_001, &mut out);
        assert_eq!((sends(&next).len(), dials(&next).len()), (1, 0));
        let lost = seeker.take(link, failed(Unknown::Closed), Mono::at(25_002), &mut out);
        assert_eq!(lost, Some(Err(Unknown::Closed)));
        assert_eq!(closed(&actions(&mut out)), [link]);
        let again = round(&mut seeker, 30_002, &mut out);
        assert_eq!((sends(&again).len(), dials(&again).len()), (0, 1));
    }

    #[test]
    fn a_layout_is_settled_by_more_than_half_of_those_asked() {
        let (new, old) = (map("new", 16_383), map("old", 16_383));
        let vote = |map: &SlotMap, serves| (map.clone(), serves);
        assert!(!is_settled(&[], 0));
        assert!(is_settled(&[vote(&new, true)], 1));
        assert!(!is_settled(&[vote(&new, true)], 2));
        assert!(!is_settled(&[vote(&new, true), vote(&old, true)], 3));
        assert!(is_settled(&[vote(&new, true), vote(&old, true), vote(&new, true)], 3));
        assert!(!is_settled(&[vote(&new, false), vote(&new, false)], 3));
    }
}
