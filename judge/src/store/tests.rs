use super::*;
use crate::input::Announcer;
use crate::spec::Authority;
use crate::time::ServerTime;

const A: &str = "10.0.0.1:6379";
const B: &str = "10.0.0.2:6379";
const C: &str = "10.0.0.3:6379";

fn store(authority: Authority) -> Store {
    let spec = StoreSpec::new("main", authority, &[A, B]);
    Store::new(spec)
}

fn accept(
    store: &mut Store,
    node: &str,
    process: &str,
    standing: Standing,
    at: Mono,
) -> Vec<StoreEvent> {
    let mut events = Vec::new();
    let _told =
        store.accepted(&node.into(), standing, &attestation(process, at), (at, 1), &mut events);
    events
}

fn attestation(process: &str, at: Mono) -> Attestation {
    let server = ServerTime::at(i64::try_from(at.ms()).unwrap_or(0));
    let generation = Generation { process: process.as_bytes().to_vec(), ..Generation::default() };
    Attestation { generation: Some(generation), ..Attestation::master(server, server) }
}

fn topology(masters: &[&str], nodes: &[&str]) -> Topology {
    let shared = |nodes: &[&str]| nodes.iter().map(|node| Arc::from(*node)).collect();
    Topology {
        epoch: 0,
        store: crate::spec::StoreIndex(0),
        masters: Ok(shared(masters)),
        nodes: shared(nodes),
        announcers: Vec::new(),
        uncovered: 0,
    }
}

#[test]
fn one_server_with_two_addresses_is_one_master() {
    let mut store = store(Authority::SELF_DECLARED);
    accept(&mut store, A, "x", Standing::Decides, Mono::at(0));
    accept(&mut store, B, "x", Standing::Witness, Mono::at(0));
    assert_eq!(store.view(Mono::at(10)).masters, Some(1));
    accept(&mut store, B, "y", Standing::Witness, Mono::at(100));
    assert_eq!(store.view(Mono::at(110)).masters, Some(2));
    // A server without the run id counts as another server.
    accept(&mut store, A, "", Standing::Decides, Mono::at(200));
    accept(&mut store, B, "", Standing::Witness, Mono::at(200));
    assert_eq!(store.view(Mono::at(210)).masters, Some(2));
}

#[test]
fn both_of_two_batches_that_were_asked_at_once_count() {
    let mut store = store(Authority::ALONE);
    accept(&mut store, A, "x", Standing::Decides, Mono::at(0));
    accept(&mut store, A, "x", Standing::Decides, Mono::at(1_000));
    let events = accept(&mut store, A, "y", Standing::Decides, Mono::at(1_000));
    assert!(
        events.iter().any(|(_, event)| matches!(event, EventKind::GenerationChanged { .. })),
        "{events:?}"
    );
}

/// A server that does not answer has not given up its role; this matters only for the rival.
#[test]
fn a_silent_server_is_no_rival_because_another_one_was() {
    for (rival, silent) in [(C, B), (B, C)] {
        let mut store = store(Authority::SELF_DECLARED);
        let report = |store: &mut Store, role: Role, at: u64| {
            let mut events = Vec::new();
            let attestation = Attestation { role, ..attestation("z", Mono::at(at)) };
            let _told = store.accepted(
                &rival.into(),
                Standing::Witness,
                &attestation,
                (Mono::at(at), 1),
                &mut events,
            );
            events.into_iter().map(|(_, event)| event).collect::<Vec<_>>()
        };
        accept(&mut store, A, "x", Standing::Decides, Mono::at(0));
        for node in [B, C] {
            let failed = (Mono::at(100), Mono::at(100));
            store.failed(
                Some(&node.into()),
                Standing::Witness,
                Unknown::Timeout,
                failed,
                &mut Vec::new(),
            );
        }
        assert!(
            report(&mut store, Role::Master, 1_000).contains(&EventKind::RivalMaster),
            "{rival}"
        );
        let events = report(&mut store, Role::Replica, 2_000);
        assert!(events.contains(&EventKind::RivalMasterGone), "{rival}: {events:?}");
        assert!(
            !events.contains(&EventKind::RivalMaster),
            "{silent} never said that it is a master: {events:?}"
        );
    }
}

#[test]
fn a_failure_counts_unless_another_server_decided_before_it_was_asked() {
    let readable_after = |node: &str, sent: u64| {
        let mut store = store(Authority::ANNOUNCED);
        accept(&mut store, A, "x", Standing::Decides, Mono::at(1_000));
        accept(&mut store, B, "y", Standing::Decides, Mono::at(2_000));
        let failed = (Mono::at(sent), Mono::at(4_000));
        store.failed(
            Some(&node.into()),
            Standing::Decides,
            Unknown::Timeout,
            failed,
            &mut Vec::new(),
        );
        store.view(Mono::at(5_000)).readable
    };
    assert_eq!(readable_after(A, 1_500), Some(true), "it decides no more");
    assert_eq!(readable_after(A, 2_000), Some(false), "it may decide again");
    assert_eq!(readable_after(A, 3_000), Some(false), "it decides again");
    assert_eq!(
        readable_after(B, 1_500),
        Some(false),
        "what was asked of the one that decides is lost"
    );
}

/// The old master of the shard may still be taken for the deciding one.
#[test]
fn a_new_master_of_a_cluster_continues_whom_its_history_names() {
    let history = |process: &str, id: &str, forked_from: Option<(&str, u64)>| Generation {
        process: process.into(),
        history: id.into(),
        forked_from: forked_from
            .map(|(id, offset)| crate::input::Fork { history: id.into(), offset }),
        ..Generation::default()
    };
    let changes = |second: Generation| {
        let mut store = store(Authority::DIVIDED);
        let mut events = Vec::new();
        for (at, node, generation) in [(0, A, history("x", "h1", None)), (1_000, B, second)] {
            let attestation = Attestation {
                generation: Some(generation),
                offset: Some(100),
                ..attestation("", Mono::at(at))
            };
            let _told = store.accepted(
                &node.into(),
                Standing::Decides,
                &attestation,
                (Mono::at(at), 1),
                &mut events,
            );
        }
        let changed =
            |(_, event): &&StoreEvent| matches!(event, EventKind::GenerationChanged { .. });
        (events.iter().filter(changed).count(), store.totals.generation_changes)
    };
    assert_eq!(
        changes(history("y", "h2", Some(("h1", 91)))),
        (1, 1),
        "what came after byte 90 is lost"
    );
    assert_eq!(changes(history("y", "h2", None)), (0, 0), "the master of another shard");
}

#[test]
fn a_changed_configuration_of_the_same_servers_is_shown() {
    let mut store = store(Authority::SELF_DECLARED);
    accept(&mut store, A, "x", Standing::Decides, Mono::at(0));
    let spec = StoreSpec::new("other", Authority::SELF_DECLARED, &[A, B]);
    let view = store.configured(spec.clone()).view(Mono::at(10));
    assert_eq!((view.spec, view.masters), (spec, Some(1)), "and what is known of them stays");
}

#[test]
fn the_generation_of_a_cluster_waits_for_all_masters() {
    let mut store = store(Authority::DIVIDED);
    let shown = |store: &Store, at| store.view(Mono::at(at)).generations.len();
    accept(&mut store, A, "x", Standing::Decides, Mono::at(0));
    assert_eq!(shown(&store, 10), 0, "the other master is asked soon");
    accept(&mut store, B, "y", Standing::Decides, Mono::at(900));
    assert_eq!((shown(&store, 5_000), shown(&store, 5_001)), (0, 2));
    store.failed(
        Some(&B.into()),
        Standing::Decides,
        Unknown::Timeout,
        (Mono::at(6_000), Mono::at(6_000)),
        &mut Vec::new(),
    );
    assert_eq!(shown(&store, 6_100), 2, "what is not read now has not changed");
    store.failed(
        Some(&"c:1".into()),
        Standing::Decides,
        Unknown::Timeout,
        (Mono::at(7_000), Mono::at(7_000)),
        &mut Vec::new(),
    );
    assert_eq!(shown(&store, 7_100), 0, "a master that never reported");
}

#[test]
fn a_shard_that_nobody_serves_is_blind_since_its_master_died() {
    let mut store = store(Authority::DIVIDED);
    let topology =
        |masters: &[&str], uncovered| Topology { uncovered, ..topology(masters, &[A, B]) };
    let blind =
        |store: &Store, at| (store.view(Mono::at(at)).readable, store.view(Mono::at(at)).blind_ms);
    store.topology(&topology(&[A, B], 0), &mut Vec::new());
    accept(&mut store, A, "x", Standing::Decides, Mono::at(1_000));
    accept(&mut store, B, "y", Standing::Decides, Mono::at(1_000));
    store.failed(
        Some(&B.into()),
        Standing::Decides,
        Unknown::Timeout,
        (Mono::at(2_000), Mono::at(2_000)),
        &mut Vec::new(),
    );
    assert_eq!(blind(&store, 5_000), (Some(false), 4_000));
    store.topology(&topology(&[A], 100), &mut Vec::new());
    assert_eq!(blind(&store, 6_000), (Some(false), 5_000));
    store.failed(
        None,
        Standing::Decides,
        Unknown::ClusterDown,
        (Mono::at(7_000), Mono::at(7_000)),
        &mut Vec::new(),
    );
    assert_eq!(blind(&store, 8_000), (Some(false), 7_000));
    store.topology(&topology(&[A, B], 0), &mut Vec::new());
    assert_eq!(blind(&store, 9_000), (Some(true), 0));
}

/// Blindness counts from the first server that was lost.
#[test]
fn of_several_servers_that_cannot_be_read_the_first_loss_counts() {
    let mut store = store(Authority::DIVIDED);
    accept(&mut store, A, "x", Standing::Decides, Mono::at(1_000));
    accept(&mut store, B, "y", Standing::Decides, Mono::at(1_000));
    let fail = |store: &mut Store, node: &str, at: u64| {
        let at = Mono::at(at);
        store.failed(
            Some(&node.into()),
            Standing::Decides,
            Unknown::Timeout,
            (at, at),
            &mut Vec::new(),
        );
    };
    fail(&mut store, A, 2_000);
    accept(&mut store, B, "y", Standing::Decides, Mono::at(40_000));
    assert_eq!(store.view(Mono::at(41_000)).blind_ms, 40_000);
    fail(&mut store, B, 41_000);
    assert_eq!(
        store.view(Mono::at(42_000)).blind_ms,
        41_000,
        "one more that is lost is no recovery"
    );
    accept(&mut store, A, "x", Standing::Decides, Mono::at(43_000));
    assert_eq!(store.view(Mono::at(44_000)).blind_ms, 4_000);
}

#[test]
fn a_server_that_fails_decides_only_if_it_was_asked_to() {
    let mut store = store(Authority::SELF_DECLARED);
    accept(&mut store, A, "x", Standing::Decides, Mono::at(0));
    let decides = |store: &Store, at| {
        store.view(Mono::at(at)).nodes.iter().map(|node| node.decides).collect::<Vec<_>>()
    };
    store.failed(
        Some(&B.into()),
        Standing::Decides,
        Unknown::Timeout,
        (Mono::at(100), Mono::at(100)),
        &mut Vec::new(),
    );
    assert_eq!(decides(&store, 110), [true, true]);
    store.failed(
        Some(&A.into()),
        Standing::Witness,
        Unknown::Timeout,
        (Mono::at(200), Mono::at(200)),
        &mut Vec::new(),
    );
    assert_eq!(decides(&store, 210), [false, true]);
}

#[test]
fn a_server_that_belongs_to_it_no_more_is_forgotten() {
    let mut store = store(Authority::SELF_DECLARED);
    store.topology(&topology(&[A], &[A]), &mut Vec::new());
    let view = store.view(Mono::at(10));
    assert_eq!(view.nodes.iter().map(|node| &*node.address).collect::<Vec<_>>(), [A]);
}

/// A replaced master may continue to call itself master; clients of the cluster do not send it
/// requests.
#[test]
fn in_a_cluster_nobody_is_a_rival() {
    for (kind, rivals) in [(Authority::DIVIDED, 0), (Authority::SELF_DECLARED, 1)] {
        let mut store = store(kind);
        store.topology(&topology(&[A], &[A, B]), &mut Vec::new());
        accept(&mut store, A, "x", Standing::Decides, Mono::at(0));
        let events = accept(&mut store, B, "y", Standing::Witness, Mono::at(1));
        let rival = |event: &&StoreEvent| matches!(event.1, EventKind::RivalMaster);
        assert_eq!(events.iter().filter(rival).count(), rivals, "{kind:?}");
    }
}

#[test]
fn who_refuses_to_tell_its_generation_proves_nothing_by_what_it_told_before() {
    let mut store = store(Authority::ALONE);
    let [known, refused] = [1_000, 2_000].map(|at| attestation("x", Mono::at(at)));
    let refused = Attestation { generation: None, ..refused };
    let generation = [(known, 1_000), (refused, 2_000)].map(|(attestation, at)| {
        let (origin, _) = store.accepted(
            &A.into(),
            Standing::Decides,
            &attestation,
            (Mono::at(at), 1),
            &mut Vec::new(),
        );
        origin.generation.is_some()
    });
    assert_eq!(generation, [true, false]);
}

/// Nobody configured the address of a server that Sentinels name.
#[test]
fn the_words_for_a_server_that_cannot_be_reached_say_who_names_it() {
    let named =
        |master: &str| Announcer { address: "s:26379".into(), master: Some(Ok(master.into())) };
    let (a, b): (Arc<str>, Arc<str>) = (A.into(), B.into());
    let (why, busy) = (Unknown::Connect, Unknown::Busy);
    let words = |announcers: &[Announcer], nodes: &[(&Arc<str>, bool, Option<Unknown>)], why| {
        let words = unreached(announcers, nodes.iter().copied(), why, Some("refused"));
        words.map(|words| alloc::string::String::from(&*words))
    };
    let alone = [(&a, true, Some(why))];
    let beside = [(&a, true, Some(why)), (&b, false, None)];
    let begins = alloc::format!("the Sentinels name {A}, which cannot be reached (refused); ");
    assert_eq!(words(&[named(A)], &alone, why), Some(begins.clone() + "they know no other"));
    assert_eq!(words(&[named(A)], &beside, why), Some(begins + "they know 1 more"));
    assert_eq!(words(&[], &alone, why), None, "it was configured");
    assert_eq!(words(&[named(B)], &alone, why), None, "they name another one");
    assert_eq!(words(&[named(A)], &alone, busy), None, "it was reached");
}

#[test]
fn the_newest_words_for_a_reason_are_those_of_a_server_that_decides() {
    let mut store = store(Authority::SELF_DECLARED);
    let mut say = |server: &str, why, words: &str| {
        let said = NodeNewsKind::Said { why, words: words.into() };
        store.news(&server.into(), &said, &mut Vec::new());
        store.nodes.iter_mut().for_each(|node| {
            let decides = *node.address == *A;
            node.stands(if decides { Standing::Decides } else { Standing::Witness });
        });
        store.words(why).map(|words| alloc::string::String::from(&*words))
    };
    let (no, busy) = (Unknown::NoPermission, Unknown::Busy);
    assert_eq!(say(B, no, "no ping").as_deref(), Some("no ping"));
    assert_eq!(say(A, no, "no get").as_deref(), Some("no get"));
    assert_eq!(say(B, no, "no echo").as_deref(), Some("no get"));
    assert_eq!(say(A, no, "no set").as_deref(), Some("no set"));
    assert_eq!(say(A, no, "").as_deref(), Some("no echo"), "there are none any more");
    assert_eq!(say(A, busy, "busy").as_deref(), Some("busy"));
    for port in 0..200 {
        say(&alloc::format!("c:{port}"), no, "x");
    }
    assert!(store.said.len() <= SAID_MAX);
}

#[test]
fn the_first_connection_is_no_reconnect() {
    let mut store = store(Authority::ALONE);
    let connected = NodeNewsKind::Connected { version: None, role: None };
    let count = [A, A, B, A].map(|node| {
        store.news(&node.into(), &connected, &mut Vec::new());
        store.view(Mono::at(0)).totals.reconnects
    });
    assert_eq!(count, [0, 1, 1, 2]);
}
