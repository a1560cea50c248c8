use super::*;
use crate::redis::driver::{Action, Push};
use crate::redis::reply::{Command, Reply};
use crate::redis::store::Servers;
use crate::redis::testing::{
    actions, at, bytes, closed, dialled, dials, failed, greeted, heard, list, out, replied, sends,
    store,
};
use crate::redis::topology::sentinel::SentinelView;

/// Three Sentinels of a store that is read at this interval.
fn sentinels(interval_ms: u64) -> Sentinels {
    let configured = Configured {
        master: "main".into(),
        nodes: ["one", "two", "three"].map(at).to_vec(),
        peers: Peers::default(),
    };
    let store = Store { interval_ms, ..store(Servers::Sentinel(configured.clone())) };
    Sentinels::new(&store, &configured, Mono::at(0))
}

/// All of them name `master`.
fn name(sentinels: &mut Sentinels, asked: Mono, master: &str) {
    let master = Announced::new(master, 6379).unwrap();
    for sentinel in 0..3 {
        let answer = SentinelView { master: master.clone(), replicas: Vec::new() };
        sentinels.quorum.answered(sentinel, asked, Ok(answer));
    }
}

fn plan(sentinels: &mut Sentinels, now: u64) -> (Result<Vec<Arc<str>>, Unknown>, Vec<HostPort>) {
    let plan = sentinels.plan(Mono::at(now), &Tasks::default(), &mut out());
    (plan.masters.unwrap(), plan.nodes.into_iter().map(|node| node.at).collect())
}

#[test]
fn what_sentinels_say_counts_for_two_intervals() {
    let mut sentinels = sentinels(1_000);
    name(&mut sentinels, Mono::at(10_000), "a");
    assert_eq!(plan(&mut sentinels, 12_000).0, Ok(vec!["a:6379".into()]));
    assert_eq!(plan(&mut sentinels, 12_001).0, Err(Unknown::Quorum));
}

#[test]
fn a_master_that_was_replaced_is_read_for_five_more_minutes() {
    let mut sentinels = sentinels(1_000);
    name(&mut sentinels, Mono::at(10_000), "a");
    assert_eq!(plan(&mut sentinels, 10_000).1, [at("a")]);
    for (now, read) in [
        (11_000, vec![at("b"), at("a")]),
        (310_999, vec![at("b"), at("a")]),
        (311_000, vec![at("b")]),
    ] {
        name(&mut sentinels, Mono::at(now), "b");
        assert_eq!(plan(&mut sentinels, now).1, read, "{now}");
    }
}

/// The dials that a launch begins: those for requests, and those for announcements.
fn launch(sentinels: &mut Sentinels, now: u64, out: &mut Out) -> (Vec<Dial>, Vec<Dial>) {
    sentinels.launch(Mono::at(now), out);
    let begun = actions(out);
    let all = dials(&begun).into_iter().cloned();
    all.partition(|dial| dial.manner == Manner::Talk)
}

/// The server is reached, and is asked at this instant.
fn connect(sentinels: &mut Sentinels, dial: &Dial, at: u64, out: &mut Out) {
    assert_eq!(dial.login, Login::Sentinel);
    assert!(!sentinels.take(dial.link, dialled(dial, "sentinel", at, at), Mono::at(at), out));
    assert_eq!(asked(&actions(out)), [dial.link]);
}

fn asked(actions: &[Action]) -> Vec<LinkId> {
    let sent = sends(actions).into_iter();
    let command = |commands: &[Command]| commands == sentinel::commands("main");
    sent.filter(|(_, commands)| command(commands)).map(|(link, _)| link).collect()
}

/// An answer to the request: `master` is master, and has no replicas.
fn names(master: &str) -> Vec<Reply> {
    vec![list(&[master, "6379"]), Reply::Array(Vec::new())]
}

/// An answer is as old as its request: what it reports may be over.
#[test]
fn a_word_counts_from_when_it_was_asked_for() {
    let _rule = crate::truth::rule("2 instants");
    let (mut sentinels, mut out) = (sentinels(1_000), out());
    let (asks, _) = launch(&mut sentinels, 0, &mut out);
    assert_eq!(asks.len(), 3);
    for dial in &asks {
        connect(&mut sentinels, dial, 100, &mut out);
        let answer = replied(names("a"), 400);
        assert!(sentinels.take(dial.link, answer, Mono::at(400), &mut out));
    }
    assert_eq!(plan(&mut sentinels, 2_100).0, Ok(vec!["a:6379".into()]));
    assert_eq!(plan(&mut sentinels, 2_101).0, Err(Unknown::Quorum));
    // So it is asked again a whole interval after that, over the same connection.
    assert_eq!(sentinels.voices[0].asks_at(), Some(Mono::at(1_100)));
    sentinels.launch(Mono::at(1_100), &mut out);
    let links: Vec<LinkId> = asks.iter().map(|dial| dial.link).collect();
    assert_eq!(asked(&actions(&mut out)), links);
}

#[test]
fn a_sentinel_that_is_out_of_reach_for_long_is_dialled_again_within_a_second() {
    let (mut sentinels, mut out) = (sentinels(100), out());
    let (mut now, mut longest) = (0, 0);
    for _ in 0..1_000 {
        let (asks, _) = launch(&mut sentinels, now, &mut out);
        for dial in &asks {
            sentinels.take(dial.link, failed(Unknown::Connect), Mono::at(now), &mut out);
        }
        let next = sentinels.voices.iter().filter_map(Voice::asks_at).min().unwrap().ms();
        let last = sentinels.voices.iter().filter_map(Voice::asks_at).max().unwrap().ms();
        longest = longest.max(last - now);
        now = next;
    }
    assert_eq!(longest, 1_000);
}

/// A connection with an answer on its way cannot be used for another request.
#[test]
fn a_sentinel_that_does_not_answer_is_dialled_again() {
    let (mut sentinels, mut out) = (sentinels(1_000), out());
    let (asks, _) = launch(&mut sentinels, 0, &mut out);
    connect(&mut sentinels, &asks[0], 10, &mut out);
    assert!(!sentinels.launch(Mono::at(3_009), &mut out));
    assert_eq!(asked(&actions(&mut out)), [], "one request at a time");
    assert!(sentinels.launch(Mono::at(3_010), &mut out), "it has had its time");
    let given_up = actions(&mut out);
    assert_eq!(closed(&given_up), [asks[0].link]);
    assert_eq!(dials(&given_up)[0].to, at("one"), "the request was due long ago");
    let late = replied(names("a"), 3_011);
    assert!(!sentinels.take(asks[0].link, late, Mono::at(3_011), &mut out));
    assert_eq!(sentinels.quorum.word(0), Some(Err(Unknown::Timeout)));
}

/// A Sentinel that closes an idle connection says nothing by that.
#[test]
fn a_connection_that_is_closed_between_requests_is_no_failure() {
    let (mut sentinels, mut out) = (sentinels(1_000), out());
    let (asks, _) = launch(&mut sentinels, 0, &mut out);
    connect(&mut sentinels, &asks[0], 0, &mut out);
    sentinels.take(asks[0].link, replied(names("a"), 1), Mono::at(1), &mut out);
    assert!(!sentinels.take(asks[0].link, failed(Unknown::Closed), Mono::at(500), &mut out));
    assert!(matches!(sentinels.quorum.word(0), Some(Ok(_))));
    assert_eq!(closed(&actions(&mut out)), [asks[0].link]);
    let (again, _) = launch(&mut sentinels, 1_000, &mut out);
    assert_eq!(again.iter().map(|dial| dial.to.clone()).collect::<Vec<_>>(), [at("one")]);
}

fn announced() -> Event {
    Event::Pushed { bytes: 100, pushes: vec![Push::Other] }
}

/// The announcement itself is no evidence: it may be old, or of another master.
#[test]
fn an_announcement_is_a_reason_to_ask_all_of_them() {
    let _rule = crate::truth::rule("1 evidence");
    let (mut sentinels, mut out) = (sentinels(1_000), out());
    let (asks, ears) = launch(&mut sentinels, 0, &mut out);
    for dial in &asks {
        connect(&mut sentinels, dial, 0, &mut out);
        sentinels.take(dial.link, replied(names("a"), 1), Mono::at(1), &mut out);
    }
    assert_eq!(ears[0].commands, [command!("SUBSCRIBE", "+switch-master")]);
    let ear = ears[0].link;
    sentinels.take(ear, dialled(&ears[0], "sentinel", 1, 2), Mono::at(2), &mut out);
    assert_eq!(heard(&actions(&mut out)), [ear]);
    assert!(!sentinels.take(ear, announced(), Mono::at(200), &mut out), "nothing is learned");
    assert_eq!(plan(&mut sentinels, 200).0, Ok(vec!["a:6379".into()]));
    sentinels.launch(Mono::at(200), &mut out);
    let now = actions(&mut out);
    assert_eq!((asked(&now).len(), heard(&now).len()), (3, 0));
    // It may announce without end: it is heard ten times a second, and they are asked ten
    // times in each interval.
    sentinels.launch(Mono::at(300), &mut out);
    assert_eq!(heard(&actions(&mut out)), [ear]);
    for dial in &asks {
        sentinels.take(dial.link, replied(names("b"), 201), Mono::at(201), &mut out);
    }
    sentinels.take(ear, announced(), Mono::at(201), &mut out);
    sentinels.launch(Mono::at(299), &mut out);
    assert_eq!(asked(&actions(&mut out)), []);
    sentinels.launch(Mono::at(300), &mut out);
    assert_eq!(asked(&actions(&mut out)).len(), 3);
}

#[test]
fn a_subscription_that_breaks_is_made_again_after_five_seconds() {
    let (mut sentinels, mut out) = (sentinels(60_000), out());
    let (_, ears) = launch(&mut sentinels, 0, &mut out);
    let refused = greeted(vec![crate::redis::testing::error("NOPERM", "no")], None, 0, 1);
    let cut = greeted(Vec::new(), Some(Failure::new(Unknown::Timeout, "slow")), 0, 1);
    let lost = failed(Unknown::Connect);
    for (dial, event) in ears.iter().zip([refused, cut, lost]) {
        sentinels.take(dial.link, event, Mono::at(1), &mut out);
        let ended = actions(&mut out);
        assert_eq!((closed(&ended), heard(&ended)), (vec![dial.link], vec![]));
        assert!(matches!(&ended[0], Action::Note(Note::CannotListen(..))), "{ended:?}");
    }
    assert!(sentinels.voices.iter().all(|voice| !voice.urged), "nobody had listened");
    assert!(launch(&mut sentinels, 5_000, &mut out).1.is_empty());
    let (_, again) = launch(&mut sentinels, 5_001, &mut out);
    assert_eq!(again.len(), 3);
    // What is announced while nobody listens is missed.
    sentinels.take(again[0].link, dialled(&again[0], "sentinel", 1, 2), Mono::at(5_002), &mut out);
    sentinels.take(again[0].link, failed(Unknown::Closed), Mono::at(5_003), &mut out);
    assert!(sentinels.voices.iter().all(|voice| voice.urged));
}

#[test]
fn whoever_has_no_answer_for_the_name_is_logged_once() {
    let (mut sentinels, mut out) = (sentinels(1_000), out());
    let (asks, _) = launch(&mut sentinels, 0, &mut out);
    connect(&mut sentinels, &asks[0], 0, &mut out);
    let mut planned = |ms: u64| {
        sentinels.launch(Mono::at(ms), &mut out);
        let unknown = replied(vec![Reply::Nil, bytes("OK")], ms + 1);
        sentinels.take(asks[0].link, unknown, Mono::at(ms + 1), &mut out);
        let note = |action: &&Action| matches!(action, Action::Note(Note::NoMaster { .. }));
        actions(&mut out).iter().filter(note).count()
    };
    assert_eq!([0, 1_000, 2_000].map(&mut planned), [1, 0, 0]);
}
