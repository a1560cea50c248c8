//! The watcher of an ensemble: what it believes, and what it asks for, whatever the servers do.

mod bench;
#[path = "../../../sim/src/ensemble/wire.rs"]
#[allow(dead_code, reason = "the simulator uses all of it")]
mod wire;

use std::collections::BTreeSet;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::{ProgressSource, ProgressSpec, TaskSpec};
use lockwatch_watch::redis::driver::Failure;
use lockwatch_watch::zookeeper::driver::{Event, Input};

use crate::truth::rule;
use bench::{Bench, Mood, assignment, contender, lock};

/// The lines without those about servers.
fn tasks(lines: Vec<String>) -> Vec<String> {
    lines.into_iter().filter(|line| !line.contains("failed")).collect()
}

fn distinct(lines: Vec<String>) -> BTreeSet<String> {
    lines.into_iter().collect()
}

fn set<const N: usize>(lines: [&str; N]) -> BTreeSet<String> {
    lines.map(str::to_owned).into()
}

#[test]
fn free_that_is_wanted_is_believed_of_a_new_session_only() {
    let _rule = rule("1 evidence");
    let mut bench = Bench::new(3, vec![lock("a")], &[]);
    bench.run(500);
    assert_eq!(bench.news(), ["zk0 0: free"], "the session is new");
    bench.run(9_600);
    let news = bench.news();
    assert!((8..=10).contains(&news.len()), "{news:?}");
    assert_eq!(distinct(news), set(["zk1 0: free"]), "by another server");
    assert_eq!(bench.farewells, bench.asked.len() as u64 - 1, "each is ended by the watcher");
    bench.run(600_000);
    let asked = bench.asked.len();
    assert!((150..210).contains(&asked), "{asked} sessions in ten minutes without a holder");
}

#[test]
fn a_lone_server_proves_what_it_shows_itself() {
    let mut bench = Bench::new(1, vec![lock("a")], &[]);
    bench.run(5_000);
    assert_eq!(distinct(bench.news()), set(["zk0 0: free"]));
    assert!(bench.asked.len() > 4);
}

/// A follower that lags grants a session late, and shows what was so when it was asked.
#[test]
fn a_proof_is_evidence_for_when_it_was_asked_for() {
    let _rule = rule("2 instants");
    let mut bench = Bench::new(3, vec![lock("a")], &[]);
    bench.servers[1].mood = Mood::Silent;
    bench.run(900);
    bench.news();
    bench.run(2_000);
    let (asked_at, server, _) = *bench.asked.last().unwrap();
    assert_eq!((asked_at, server, bench.news()), (101_000, 1, vec![]));
    bench.servers[1].mood = Mood::Well;
    bench.frame(1, &wire::greeting(7, 10_000));
    bench.run(0);
    assert_eq!(bench.news(), ["zk1 0: free"]);
    let age_ms = bench.wall - bench.attestations.last().unwrap().first.ms();
    assert_eq!(age_ms, i64::try_from(bench.at - asked_at).unwrap());
}

#[test]
fn a_server_without_a_majority_is_not_believed() {
    let _rule = rule("1 evidence");
    let holder = contender("a", 1);
    let mut bench = Bench::new(3, vec![lock("a")], &[&holder]);
    bench.run(2_100);
    assert_eq!(distinct(bench.news()), set(["zk0 0: held by 0000000001"]));
    // It stays in the past, where the lock was free for a moment.
    bench.servers[0].mood = Mood::GrantsNone;
    bench.servers[0].nodes.remove(&holder);
    bench.servers[0].zxid += 1;
    for server in &mut bench.servers[1..] {
        server.zxid += 3;
        server.nodes = [(contender("a", 2), Vec::new())].into();
    }
    bench.run(5_000);
    let news = bench.news();
    assert!(!news.iter().any(|line| line.contains("free")), "{news:?}");
    assert!(news.contains(&"zk0 failed: Behind".to_owned()), "it is left: {news:?}");
    assert_eq!(news.last().map(String::as_str), Some("zk1 0: held by 0000000002"));
}

#[test]
fn without_any_proof_bad_news_is_unknown_and_the_rest_is_not() {
    let holder = contender("b", 1);
    let mut bench = Bench::new(3, vec![lock("a"), lock("b")], &[&holder, &contender("a", 1)]);
    bench.run(2_000);
    bench.news();
    bench.servers.iter_mut().for_each(|server| {
        server.mood = Mood::GrantsNone;
        server.nodes.remove(&contender("a", 1));
        server.zxid += 1;
    });
    bench.run(10_000);
    let news = tasks(bench.news());
    assert_eq!(distinct(news.clone()), set(["zk0 0: Some(Quorum)", "zk0 1: held by 0000000001"]));
    let unknown = news.iter().filter(|line| line.contains("Quorum")).count();
    assert!(unknown >= 4, "it is reported again and again: {news:?}");
}

#[test]
fn data_that_went_back_are_another_line() {
    let mut bench = Bench::new(3, vec![lock("a")], &[&contender("a", 1)]);
    bench.run(2_000);
    let before = bench.attestations.last().unwrap().generation.clone();
    bench.news();
    // A restored copy: each server closes the connection of those who have seen more.
    bench.servers.iter_mut().for_each(|server| server.zxid = 40);
    let link = bench.links_to(0)[0];
    let closed = Event::Failed(Failure::new(Unknown::Closed, "reset"));
    bench.handle(Input::Link(link, closed));
    let asked = bench.asked.len();
    bench.run(4_000);
    let zxids: Vec<i64> = bench.asked[asked..].iter().map(|(_, _, zxid)| *zxid).collect();
    assert_eq!(zxids, [100, 100, 100, 100, 100, 100, 0], "twice each, then without");
    let news = bench.news();
    assert_eq!(news.last().map(String::as_str), Some("zk1 0: held by 0000000001"));
    assert_ne!(bench.attestations.last().unwrap().generation, before);
    assert_eq!(bench.attestations.last().unwrap().offset, Some(40));
}

#[test]
fn a_majority_that_is_gone_for_a_while_has_lost_nothing() {
    let mut bench = Bench::new(3, vec![lock("a")], &[&contender("a", 1)]);
    bench.run(2_000);
    let before = bench.attestations.last().unwrap().generation.clone();
    bench.servers.iter_mut().for_each(|server| server.mood = Mood::GrantsNone);
    let link = bench.links_to(0)[0];
    bench.handle(Input::Link(link, Event::Failed(Failure::new(Unknown::Closed, "reset"))));
    bench.news();
    bench.run(30_000);
    assert!(tasks(bench.news()).iter().skip(1).all(|line| line == "nobody 0: Quorum"));
    bench.servers.iter_mut().for_each(|server| server.mood = Mood::Well);
    bench.run(3_000);
    assert_eq!(bench.attestations.last().unwrap().generation, before);
}

/// What a server may send instead of what it should, each with the reason that follows.
#[test]
fn what_does_not_follow_the_protocol_ends_the_connection() {
    use Unknown::{Auth, Closed, Protocol, Quorum};
    let reply = |xid: i32, body: &[u8]| [wire::header(xid, 100, 0), body.to_vec()].concat();
    let stat = |children| wire::Stat { children, ..wire::Stat::default() };
    let names = |count: i32, stat| {
        let body = wire::children(std::iter::empty(), stat);
        [&count.to_be_bytes()[..], &body[4..]].concat()
    };
    let first: [(&str, Vec<u8>, Unknown); 7] = [
        ("a refusal", wire::header(0, 0, -119), Quorum),
        ("no session", wire::greeting(0, 0), Quorum),
        ("a session that can only read", [wire::greeting(5, 4_000), vec![1]].concat(), Quorum),
        ("an event", wire::event(wire::CHILDREN, "/a"), Protocol),
        ("a reply", wire::header(1, 100, 0), Protocol),
        ("nothing", Vec::new(), Protocol),
        ("words", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), Protocol),
    ];
    for (what, frame, why) in first {
        let mut bench = Bench::new(1, vec![lock("a")], &[]);
        bench.servers[0].mood = Mood::Silent;
        bench.run(0);
        bench.news();
        bench.frame(0, &frame);
        bench.run(0);
        assert_eq!(bench.news()[0], format!("zk0 failed: {why:?}"), "{what}");
    }
    let later: [(&str, Vec<u8>, Unknown); 12] = [
        ("of a request that nobody sent", wire::header(9, 100, -101), Protocol),
        ("of no request", wire::header(0, 100, -101), Protocol),
        ("of watches that nobody set", wire::header(-8, 100, 0), Protocol),
        ("a pong that nobody asked for", wire::pong(100), Protocol),
        ("half a header", vec![0; 7], Protocol),
        ("half an event", wire::event(wire::CHILDREN, "/a")[..20].to_vec(), Protocol),
        ("the login is refused", wire::header(-4, 0, -115), Auth),
        ("the session has expired", wire::header(1, 100, -112), Closed),
        ("fewer than no children", reply(1, &names(-5, stat(0))), Protocol),
        ("no children of a node that has one", reply(1, &names(0, stat(1))), Protocol),
        ("more children than there are bytes", reply(1, &names(1_000, stat(1_000))), Protocol),
        ("more than the reply", [reply(1, &names(0, stat(0))), vec![0]].concat(), Protocol),
    ];
    for (what, frame, why) in later {
        let mut bench = Bench::new(1, vec![lock("a")], &[]);
        bench.keeps = true;
        bench.run(0);
        assert_eq!(bench.kept.len(), 1);
        bench.frame(0, &frame);
        bench.run(0);
        let expected = [format!("zk0 failed: {why:?}"), format!("zk0 0: {why:?}")];
        assert_eq!(bench.news(), expected, "{what}");
    }
}

#[test]
fn what_is_too_large_or_hidden_concerns_its_own_task_only() {
    let mut bench = Bench::new(1, vec![lock("a"), lock("b"), lock("c")], &[&contender("b", 1)]);
    bench.servers[0].hidden = ["/c".to_owned()].into();
    let many = (0..20_000).map(|number| (contender("a", number), Vec::new()));
    bench.servers[0].nodes.extend(many);
    bench.run(0);
    let all = ["zk0 0: Some(TooLarge)", "zk0 1: held by 0000000001", "zk0 2: Some(NoPermission)"];
    assert_eq!(distinct(bench.news()), set(all));
    let requests = bench.requests;
    bench.run(5_000);
    assert!(bench.requests - requests < 22, "a megabyte is read less often");
    assert_eq!(distinct(bench.news()), set(all));
    // A frame that the driver has skipped.
    bench.keeps = true;
    bench.run(1_200);
    let (link, request) = bench.kept[0].clone();
    let wire::Request::Node { xid, .. } = request else { panic!("{request:?}") };
    let event = Event::TooLarge { header: wire::header(xid, 100, 0), bytes: 6_000_000 };
    bench.handle(Input::Link(link, event));
    (1..bench.kept.len()).for_each(|kept| bench.reply(kept));
    bench.run(0);
    let news = bench.news();
    assert!(news.contains(&"zk0 1: Some(TooLarge)".to_owned()), "{news:?}");
    assert_eq!(bench.asked.len(), 1, "the session goes on");
}

#[test]
fn of_a_silent_server_the_next_one_is_asked() {
    let mut bench = Bench::new(3, vec![lock("a")], &[&contender("a", 1)]);
    bench.run(1_500);
    bench.news();
    bench.servers[0].mood = Mood::Silent;
    bench.run(4_500);
    let news = bench.news();
    assert_eq!(news[..2], ["zk0 failed: Timeout", "zk0 0: Timeout"]);
    assert_eq!(distinct(news[2..].to_vec()), set(["zk1 0: held by 0000000001"]));
    let mut bench = Bench::new(3, vec![lock("a")], &[]);
    bench.servers[0].mood = Mood::Silent;
    bench.run(3_100);
    let asked: Vec<(u64, usize)> =
        bench.asked.iter().map(|(at, server, _)| (*at, *server)).collect();
    assert_eq!(asked, [(100_000, 0), (103_000, 1)]);
}

#[test]
fn an_idle_session_is_kept_by_pings_and_a_dead_one_is_found() {
    let mut bench = Bench::new(2, Vec::new(), &[]);
    bench.run(60_000);
    assert_eq!((bench.asked.len(), bench.news()), (1, Vec::new()));
    bench.servers[0].mood = Mood::Silent;
    bench.run(7_000);
    assert_eq!(bench.news(), ["zk0 failed: Timeout"]);
    assert_eq!(bench.asked.len(), 2);
    let all: Vec<TaskSpec> = vec![lock("a")];
    let mut bench = Bench::new(3, all, &[]);
    bench.servers[0].mood = Mood::Down;
    bench.servers[1].mood = Mood::Down;
    bench.run(0);
    assert_eq!(bench.news(), ["zk0 failed: Connect", "zk1 failed: Connect", "zk2 0: free"]);
}

#[test]
fn a_server_that_closes_each_session_is_not_asked_without_a_pause() {
    let mut bench = Bench::new(3, vec![lock("a")], &[]);
    bench.servers.iter_mut().for_each(|server| server.mood = Mood::ClosesAtOnce);
    bench.run(10_000);
    assert!((8..=12).contains(&bench.asked.len()), "{:?}", bench.asked);
}

#[test]
fn many_events_are_few_readings() {
    let nodes: Vec<String> = (1..=9).map(|number| contender("a", number)).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut bench = Bench::new(1, vec![lock("a"), lock("b")], &nodes);
    bench.run(1_200);
    let requests = bench.requests;
    for number in 0..15_000 {
        bench.frame(0, &wire::event(2, &contender("a", number % 9 + 1)));
        bench.frame(0, &wire::event(wire::CHILDREN, "/a"));
    }
    bench.run(50);
    assert!(bench.requests - requests <= 20, "{} requests", bench.requests - requests);
}

#[test]
fn what_is_held_back_belongs_to_its_assignment() {
    let mut bench = Bench::new(3, vec![lock("a"), lock("b")], &[&contender("b", 1)]);
    bench.run(900);
    bench.news();
    // The proof is granted, and what was asked over it is not answered yet.
    bench.keeps = true;
    bench.run(150);
    for kept in 0..2 {
        bench.reply(kept);
        bench.run(0);
    }
    assert_eq!((bench.news(), bench.asked.len()), (vec![], 2));
    let input =
        Input::Assigned { assignment: assignment(2, 3, vec![lock("b")]), same_logins: true };
    bench.handle(input);
    bench.keeps = false;
    (2..bench.kept.len()).for_each(|kept| bench.reply(kept));
    bench.run(900);
    assert_eq!(distinct(bench.news()), set(["zk0 0: held by 0000000001"]));
    assert_eq!((bench.asked.len(), bench.farewells), (2, 1), "the session that watches stays");
    // Other servers, or logins: a new session, and the old one is ended.
    let input =
        Input::Assigned { assignment: assignment(3, 3, vec![lock("b")]), same_logins: false };
    bench.handle(input);
    bench.run(900);
    assert_eq!((bench.asked.len(), bench.farewells), (3, 2));
}

#[test]
fn a_step_of_the_agents_clock_is_none_of_the_ensembles() {
    let _rule = rule("2 instants");
    let mut bench = Bench::new(3, vec![lock("a")], &[&contender("a", 1)]);
    let steps = |bench: &Bench| {
        let times: Vec<i64> = bench.attestations.iter().map(|it| it.first.ms()).collect();
        times.windows(2).filter(|two| (two[1] - two[0] - 1_000).abs() > 1_000).count()
    };
    bench.run(5_000);
    bench.wall += 3_600_000;
    bench.run(5_000);
    bench.wall -= 7_200_000;
    bench.run(5_000);
    assert_eq!(steps(&bench), 0);
    // With a new session the clock is compared: the machine may have been suspended.
    let link = bench.links_to(0)[0];
    bench.handle(Input::Link(link, Event::Failed(Failure::new(Unknown::Closed, "reset"))));
    bench.run(5_000);
    assert_eq!(steps(&bench), 1);
    assert!(bench.wall - bench.attestations.last().unwrap().first.ms() < 1_000);
}

#[test]
fn readings_of_many_tasks_are_spread_and_bounded() {
    let tasks: Vec<TaskSpec> = (0..200).map(|number| lock(&format!("t{number}"))).collect();
    let nodes: Vec<String> = (0..200).map(|number| contender(&format!("t{number}"), 1)).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut bench = Bench::new(3, tasks.clone(), &nodes);
    bench.keeps = true;
    bench.run(0);
    assert_eq!(bench.kept.len(), 200, "one request of each at first");
    let mut bench = Bench::new(3, tasks, &nodes);
    bench.run(1_000);
    let mut most = 0;
    for _ in 0..100 {
        let before = bench.requests;
        bench.run(50);
        most = most.max(bench.requests - before);
    }
    assert!(most <= 40, "{most} requests within 50 ms");
    let all = bench.reported.len();
    assert!((1_000..1_500).contains(&all), "{all} readings in six seconds");
    let many: Vec<TaskSpec> = (0..2_000).map(|number| lock(&format!("t{number}"))).collect();
    let mut bench = Bench::new(3, many, &[]);
    bench.keeps = true;
    bench.run(0);
    assert_eq!(bench.kept.len(), 1_000, "the others wait for replies");
}

#[test]
fn work_that_stands_still_is_proved_before_it_counts() {
    let task = TaskSpec {
        progress: Some(Box::new(ProgressSpec {
            source: ProgressSource::Key(b"/p".to_vec()),
            moves: None,
            stale_after_ms: 30_000,
        })),
        ..lock("a")
    };
    let mut bench = Bench::new(3, vec![task], &[&contender("a", 1), "/p"]);
    for beat in 0..20_u8 {
        bench.servers.iter_mut().for_each(|server| {
            drop(server.nodes.insert("/p".to_owned(), vec![b'a' + beat]));
        });
        bench.run(5_000);
    }
    assert_eq!(bench.asked.len(), 1, "it moves");
    bench.run(60_000);
    let asked = bench.asked.len();
    assert!(asked > 10, "it stands still: {asked}");
    bench.news();
    bench.servers.iter_mut().for_each(|server| server.mood = Mood::GrantsNone);
    bench.run(8_000);
    assert_eq!(distinct(tasks(bench.news())), set(["zk0 0: Some(Quorum)"]));
}
