//! Reports of Sentinels, a cluster and the servers themselves on which servers decide.
//!
//! The first byte selects the source; the rest are replies, parsed leniently.

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::accept::{self, Timing};
use lockwatch_watch::redis::reply::Reply;
use lockwatch_watch::redis::topology::Announced;
use lockwatch_watch::redis::topology::cluster::{self, SLOTS};
use lockwatch_watch::redis::topology::sentinel::{self, Quorum};

use crate::wire;
use crate::worlds::caps;

const SENTINELS: usize = 3;
/// How long an answer counts, in milliseconds.
const FRESH_MS: u64 = 2_000;

pub(crate) fn run(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    let replies = wire::lenient(rest);
    match choice % 3 {
        0 => of_sentinels(&replies),
        1 => of_a_cluster(&replies),
        _ => of_a_server(choice / 3, &replies),
    }
}

/// Each Sentinel answers with two of the replies.
fn of_sentinels(replies: &[Reply]) {
    let mut quorum = Quorum::new(SENTINELS, FRESH_MS);
    let mut last: [Option<(Mono, Announced)>; SENTINELS] = Default::default();
    for (turn, pair) in replies.chunks(2).enumerate().take(4 * SENTINELS) {
        let at = Mono::at(turn as u64 * 300);
        let answer = sentinel::decode(pair);
        match &answer {
            Ok(answer) => last[turn % SENTINELS] = Some((at, answer.master.clone())),
            Err(Unknown::MasterName) => last[turn % SENTINELS] = None,
            Err(_) => {}
        }
        quorum.answered(turn % SENTINELS, at, answer);
        let fresh = |said: &&(Mono, Announced)| at.since_ms(said.0) <= FRESH_MS;
        let votes = |master: &Announced| {
            last.iter().flatten().filter(fresh).filter(|said| said.1 == *master).count()
        };
        if let Ok(master) = quorum.master(at) {
            assert!(votes(&master) * 2 > SENTINELS, "{master} is no majority's master");
        }
        assert!(quorum.peers(at).is_sorted(), "peers are not sorted");
        let _later = quorum.ends();
    }
}

fn of_a_cluster(replies: &[Reply]) {
    for reply in replies {
        let _serves = cluster::serves(reply);
        let Ok(map) = cluster::decode(std::slice::from_ref(reply), "10.0.0.1") else { continue };
        let owned = (0..SLOTS).filter(|slot| map.owner(*slot).is_some()).count();
        assert_eq!(
            owned as u32 + map.uncovered(),
            u32::from(SLOTS),
            "slots are lost or counted twice"
        );
        let nodes = map.nodes();
        assert!(
            map.masters().iter().all(|master| nodes.contains(master)),
            "a master that is no server"
        );
        for slot in (0..SLOTS).step_by(97) {
            let owner = map.owner(slot);
            assert!(owner.is_none_or(|owner| map.servers(slot).any(|server| server == owner)));
        }
        assert!(map.same_owners(&map));
    }
}

/// The frame of a batch.
fn of_a_server(choice: u8, replies: &[Reply]) {
    let caps = caps(choice);
    let timing = Timing {
        sent: Mono::at(0),
        received: Mono::at(3),
        sent_wall: AgentWall(1_800_000_000_000),
        timeout_ms: 500,
    };
    let (header, footer) = replies.split_at(replies.len().min(1));
    let attested = accept::attestation(caps, timing, b"nonce", header, footer);
    let witnessed = accept::witness(caps, timing, b"nonce", header, footer);
    if let Ok(attestation) = &attested {
        assert_eq!(
            replies.last().and_then(Reply::as_bytes),
            Some(&b"nonce"[..]),
            "believed without its nonce"
        );
        assert_eq!(
            witnessed.as_ref().map(|other| other.first),
            Ok(attestation.first),
            "a witness is judged more strictly"
        );
    }
}
