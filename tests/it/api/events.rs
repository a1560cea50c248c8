//! The event history over HTTP: as JSON, and as a stream that neither loses nor repeats events.

use crate::support::PATIENCE;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use lockwatch::http::Limits;
use lockwatch_judge::event::{Event, EventKind, Subject};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::StoreIndex;
use lockwatch_judge::time::{Mono, ServerTime};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::sse::Stream;
use crate::http::{Server, start, start_with};
use crate::snapshots::{NOW, WALL, good_redis, holder, published, stopped_task};
use crate::support::eventually;

const PATH: &str = "/api/v1/events";

fn two_tasks() -> std::sync::Arc<lockwatch::published::Published> {
    published(vec![stopped_task("in/bound"), stopped_task("outbound")], vec![good_redis("main")])
}

impl Server {
    fn happens(&self, task: &str, kind: EventKind) {
        self.keep(Subject::Task(stopped_task(task).spec), kind);
    }

    fn happens_to_redis(&self, redis: &str, kind: EventKind) {
        self.keep(Subject::Store(StoreIndex(0), redis.into()), kind);
    }

    fn keep(&self, subject: Subject, kind: EventKind) {
        let server_time = Some(ServerTime(1_800_000_000_000));
        let event = Event {
            at: Mono(NOW.0 - 250),
            server_time,
            subject,
            node: Some("10.0.0.5:6379".into()),
            kind,
        };
        self.history.keep(NOW, WALL, &event);
    }

    fn id(&self, number: u64) -> String {
        format!("{}-{number}", self.history.boot())
    }

    fn ids(&self, numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
        numbers.into_iter().map(|number| self.id(number)).collect()
    }

    async fn list(&self, query: &str) -> Value {
        let answer = self.get(&format!("{PATH}{query}")).await;
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        assert_eq!(answer.header("vary"), Some("Accept"));
        answer.json()
    }

    async fn listed(&self, query: &str) -> Vec<String> {
        ids_of(&self.list(query).await)
    }

    async fn stream(&self, query: &str, headers: &str) -> Stream {
        let stream = Stream::open(self.address, &format!("{PATH}{query}"), headers).await;
        assert!(
            stream.head.starts_with("HTTP/1.0 200") && stream.head.contains("text/event-stream"),
            "{}",
            stream.head
        );
        stream
    }
}

fn ids_of(list: &Value) -> Vec<String> {
    list["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["id"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn an_event_is_told_in_the_words_of_the_log() {
    let server = start(two_tasks()).await;
    assert_eq!(
        server.list("").await,
        json!({"events": [], "next": server.id(0), "newest": server.id(0), "oldest": null, "gap": false})
    );
    server.happens("in/bound", EventKind::Acquired { holders: vec![holder(b"3f2b\n9c1e")] });
    server.happens_to_redis("main", EventKind::StoreDown { why: Unknown::Auth, decides: true });
    server.happens("in/bound", EventKind::GapEnded { gap_ms: 1_500 });
    let list = server.list("").await;
    let acquired = json!({
        "id": server.id(1), "at": "2027-01-15T07:59:59.873Z", "server_time": "2027-01-15T08:00:00.000Z",
        "kind": "acquired", "level": "info", "task": "in/bound", "store": null, "node": "10.0.0.5:6379",
        "message": "somebody got the \
            lock", "who": r"3f2b\x0a9c1e", "reason": null, "seconds": null, "remedy": null,
    });
    assert_eq!(list["events"][0], acquired);
    let down = &list["events"][1];
    assert_eq!(
        (&down["store"], &down["task"], &down["level"]),
        (&json!("main"), &Value::Null, &json!("error"))
    );
    assert_eq!(
        (&down["reason"], &down["remedy"]),
        (&json!("auth"), &json!(lockwatch_watch::redis::remedy(Unknown::Auth)))
    );
    assert_eq!(list["events"][2]["seconds"], 1.5);
    let ends =
        [&list["next"], &list["newest"], &list["oldest"]].map(|id| id.as_str().unwrap().to_owned());
    assert_eq!(ends.to_vec(), server.ids([3, 3, 1]));
}

#[tokio::test]
async fn filters_choose_events() {
    let server = start(two_tasks()).await;
    server.happens("outbound", EventKind::GapBegan);
    server.happens("in/bound", EventKind::Shortened { by_ms: 5 });
    server.happens_to_redis("main", EventKind::StoreDown { why: Unknown::Auth, decides: true });
    server.happens("outbound", EventKind::Outage { outage_ms: 5 });
    server.happens("gone", EventKind::GapBegan);
    let cases: [(String, &[u64]); 16] = [
        (String::new(), &[1, 2, 3, 4, 5]),
        ("?task=outbound".into(), &[1, 4]),
        ("?task=in%2Fbound&task=outbound".into(), &[1, 2, 4]),
        ("?task=gone".into(), &[5]),
        ("?redis=main".into(), &[3]),
        ("?redis=main&task=outbound".into(), &[1, 3, 4]),
        ("?kind=gap_began".into(), &[1, 5]),
        ("?kind=gap_began,outage&task=outbound".into(), &[1, 4]),
        ("?level=error".into(), &[3]),
        ("?level=warn".into(), &[3, 4]),
        ("?level=info".into(), &[1, 3, 4, 5]),
        ("?level=debug".into(), &[1, 2, 3, 4, 5]),
        ("?limit=2".into(), &[4, 5]),
        (format!("?since={}", server.id(2)), &[3, 4, 5]),
        (format!("?since={}&limit=2", server.id(1)), &[2, 3]),
        (format!("?since={}", server.id(5)), &[]),
    ];
    for (query, numbers) in cases {
        assert_eq!(server.listed(&query).await, server.ids(numbers.iter().copied()), "{query}");
    }
}

#[tokio::test]
async fn what_is_not_understood_is_refused() {
    let server = start(two_tasks()).await;
    let since = format!("?since={}", server.history.boot());
    for query in [
        "?task=none",
        "?redis=none",
        "?kind=none",
        "?kind=",
        "?level=loud",
        "?level=",
        "?limit=0",
        "?limit=1001",
        "?limit=-1",
        "?limit=x",
        "?since=",
        "?since=7",
        "?since=x-",
        "?since=x-+7",
        "?since=x--7",
        &since,
        "?verdict=down",
    ] {
        for accept in ["", "Accept: text/event-stream\r\n"] {
            let answer = server.ask("GET", &format!("{PATH}{query}"), accept).await;
            assert_eq!((answer.status, answer.json()["error"].is_string()), (400, true), "{query}");
        }
    }
    let unlimited =
        server.ask("GET", "/api/v1/events?limit=3", "Accept: text/event-stream\r\n").await;
    assert_eq!(unlimited.status, 400);
    let unknown = server.get("/api/v1/events?x=1").await.json();
    assert_eq!(unknown["allowed"], json!(["task", "store", "kind", "level", "since", "limit"]));
}

#[tokio::test]
async fn a_reader_of_lists_misses_nothing_and_is_told_what_is_gone() {
    let server = start(two_tasks()).await;
    for _ in 0..25 {
        server.happens("outbound", EventKind::GapBegan);
        server.happens("in/bound", EventKind::GapBegan);
    }
    let (mut since, mut read) = (server.id(0), Vec::new());
    loop {
        let list = server.list(&format!("?since={since}&task=outbound&limit=7")).await;
        assert_eq!(list["gap"], false);
        read.extend(ids_of(&list));
        since = list["next"].as_str().unwrap().to_owned();
        if ids_of(&list).is_empty() {
            break;
        }
    }
    assert_eq!(read, server.ids((1..50).step_by(2)));
    assert_eq!(since, server.id(50), "also what was not asked for is done");

    let elsewhere = server.list("?since=00000000-3&limit=2").await;
    assert_eq!((&elsewhere["gap"], ids_of(&elsewhere)), (&json!(true), server.ids([1, 2])));
    let future = server.list(&format!("?since={}", server.id(51))).await;
    assert_eq!(future["gap"], true);
    for _ in 0..200 {
        server.happens("outbound", EventKind::GapBegan);
    }
    let late = server.list(&format!("?since={}&limit=1", server.id(48))).await;
    assert_eq!(late["gap"], true, "49 was dropped");
    assert_eq!(server.list(&format!("?since={}", server.id(49))).await["gap"], false);
    assert_eq!(ids_of(&late), server.ids([50]), "the other task's stays");
}

#[tokio::test]
async fn the_tag_of_a_list_changes_with_the_events() {
    let server = start(two_tasks()).await;
    let tag = server.get(PATH).await.header("etag").unwrap().to_owned();
    let again = async || server.ask("GET", PATH, &format!("If-None-Match: {tag}\r\n")).await.status;
    assert_eq!(again().await, 304);
    server.happens("outbound", EventKind::GapBegan);
    assert_eq!(again().await, 200);
}

#[tokio::test]
async fn a_stream_begins_with_what_comes_next_and_comes_at_once() {
    let server = start(two_tasks()).await;
    server.happens("outbound", EventKind::GapBegan);
    let mut stream = server.stream("", "").await;
    let opening = stream.next().await.unwrap();
    assert_eq!(
        (opening.id, opening.data),
        (Some(server.id(1)), None),
        "whoever comes back before anything happened"
    );
    assert!(opening.retry.is_some_and(|ms| ms.parse::<u32>().is_ok()));
    assert!(stream.is_silent().await);
    let began = Instant::now();
    server.happens("outbound", EventKind::GapEnded { gap_ms: 7 });
    let message = stream.message().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(
        (message.event.as_deref(), message.id.as_deref()),
        (None, Some(server.id(2).as_str()))
    );
    assert_eq!(message.json(), server.list("").await["events"][1]);
    let dropped = stream.head.to_ascii_lowercase();
    assert!(!dropped.contains("etag") && dropped.contains("no-store"), "{dropped}");
}

#[tokio::test]
async fn a_stream_is_filtered_like_a_list() {
    let server = start(two_tasks()).await;
    let mut stream = server.stream("?task=outbound&level=warn", "").await;
    stream.next().await.unwrap();
    for task in ["outbound", "in/bound"] {
        server.happens(task, EventKind::Outage { outage_ms: 5 });
        server.happens(task, EventKind::GapBegan);
    }
    server.happens("outbound", EventKind::Outage { outage_ms: 6 });
    assert_eq!(stream.ids(2).await, server.ids([1, 5]));
    assert!(stream.is_silent().await);
}

#[tokio::test]
async fn a_client_that_comes_back_goes_on_where_it_was() {
    let server = start(two_tasks()).await;
    for _ in 0..150 {
        server.happens("outbound", EventKind::GapBegan);
    }
    let mut stream = server.stream(&format!("?since={}", server.id(100)), "").await;
    assert_eq!(stream.ids(50).await, server.ids(101..=150));
    drop(stream);
    server.happens("outbound", EventKind::GapBegan);
    // A reconnecting browser requests the same address again.
    let header = format!("Last-Event-ID: {}\r\n", server.id(150));
    let mut stream = server.stream(&format!("?since={}", server.id(100)), &header).await;
    assert_eq!(stream.ids(1).await, server.ids([151]));
    assert!(stream.is_silent().await);
    let mut stream = server.stream("", &format!("Last-Event-ID: {}\r\n", server.id(151))).await;
    assert!(stream.next().await.is_some_and(|opening| opening.data.is_none()));
    server.happens("outbound", EventKind::GapBegan);
    assert_eq!(stream.ids(1).await, server.ids([152]));
}

#[tokio::test]
async fn a_client_of_another_process_is_told_that_events_may_be_missing() {
    let server = start(two_tasks()).await;
    for id in ["00000000-1", "what-is-this", "\u{e9}", "  7", &server.id(9)] {
        let mut stream = server.stream("", &format!("Last-Event-ID: {id}\r\n")).await;
        let gap = stream.message().await;
        assert_eq!(
            (gap.event.as_deref(), gap.id.as_ref()),
            (Some("gap"), Some(&server.id(0))),
            "{id}"
        );
        assert_eq!(gap.json()["newest"], json!(server.id(0)));
        assert!(gap.json()["message"].is_string());
        assert!(stream.is_silent().await, "said once");
    }
    server.happens("outbound", EventKind::GapBegan);
    let mut stream = server.stream("?since=00000000-7", "").await;
    assert_eq!(stream.message().await.event.as_deref(), Some("gap"));
    assert_eq!(stream.ids(1).await, server.ids([1]), "then what there is");
    let mut stream = server.stream("", "Last-Event-ID:\r\n").await;
    assert_eq!(stream.next().await.unwrap().id, Some(server.id(1)), "nothing is no id");
    assert!(stream.is_silent().await);
}

#[tokio::test]
async fn a_client_that_comes_back_too_late_is_told_so_once() {
    let server = start(two_tasks()).await;
    server.happens("in/bound", EventKind::GapBegan);
    for _ in 0..300 {
        server.happens("outbound", EventKind::GapBegan);
    }
    server.happens("in/bound", EventKind::GapBegan);
    // Of 2..=301 the newest 200 are kept, so 101 is the newest lost one.
    let mut stream = server.stream(&format!("?since={}", server.id(0)), "").await;
    assert_eq!(stream.message().await.event.as_deref(), Some("gap"));
    let expected = server.ids([1].into_iter().chain(102..=302));
    assert_eq!(stream.ids(expected.len()).await, expected);
    assert!(stream.is_silent().await);
    let mut stream = server.stream(&format!("?since={}", server.id(101)), "").await;
    assert_eq!(stream.ids(201).await, server.ids(102..=302));
}

#[tokio::test]
async fn a_slow_client_catches_up_and_holds_nothing_back() {
    let server = start(two_tasks()).await;
    let (mut slow, mut quick) = (server.stream("", "").await, server.stream("", "").await);
    let (mut count, mut seen) = (0, 0);
    while count < 12_000 {
        for _ in 0..100 {
            server.happens(
                &format!("task {}", count % 60),
                EventKind::Acquired { holders: vec![holder(&[b'x'; 190])] },
            );
            count += 1;
        }
        seen += quick.ids(100).await.len() as u64;
    }
    assert_eq!(seen, count);
    // More came meanwhile than socket buffers hold, and nothing was lost.
    assert_eq!(slow.ids(12_000).await, server.ids(1..=12_000));
    assert!(slow.is_silent().await);
}

#[tokio::test]
async fn a_client_that_is_overtaken_by_the_history_is_told_so() {
    let server = start(two_tasks()).await;
    let mut slow = server.stream("", "").await;
    slow.next().await.unwrap();
    for _ in 0..20_000 {
        server.happens("outbound", EventKind::Acquired { holders: vec![holder(&[b'x'; 190])] });
        if server.history.newest().borrow().is_multiple_of(1_000) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let (mut last, mut gaps) = (0, 0);
    while last < 20_000 {
        let message = slow.message().await;
        let id = message.id.clone().unwrap();
        let number: u64 = id.rsplit_once('-').unwrap().1.parse().unwrap();
        match message.event.as_deref() {
            Some("gap") => {
                assert_eq!(number, last, "the gap is where the client is");
                gaps += 1;
            }
            _ => {
                assert!(
                    number > last && (number == last + 1 || gaps > 0),
                    "{number} after {last} without a gap"
                );
                last = number;
            }
        }
    }
    assert!(gaps > 0, "it was not overtaken");
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let limits = Limits { response: Duration::from_millis(300), ..Limits::default() };
    let server = start_with(two_tasks(), limits, false).await;
    let mut lazy = server.stream("", "").await;
    for number in 0..12_000 {
        let kind = EventKind::Acquired { holders: vec![holder(&[b'x'; 190])] };
        server.happens(&format!("task {}", number % 60), kind);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let ended = async {
        let mut blocks = 0;
        // The last block may be cut.
        let reading = tokio::spawn(async move {
            while lazy.next().await.is_some() {
                blocks += 1;
            }
            blocks
        });
        reading.await.unwrap_or(0)
    };
    let blocks = timeout(PATIENCE, ended).await.expect("the stream was cut");
    assert!(blocks < 12_000, "all of it was sent to somebody who does not read");
}

#[tokio::test]
async fn silence_has_a_heartbeat_while_the_engine_lives() {
    let limits = Limits { heartbeat: Duration::from_millis(100), ..Limits::default() };
    let server = start_with(two_tasks(), limits, false).await;
    let mut stream = server.stream("?task=outbound", "").await;
    stream.next().await.unwrap();
    server.happens("in/bound", EventKind::GapBegan);
    for _ in 0..3 {
        let beat = stream.next().await.unwrap();
        assert_eq!((beat.comment, beat.data), (true, None));
        assert_eq!(beat.id, Some(server.id(1)), "what was left out is done, too");
    }
    server.published.send_modify(|published| {
        std::sync::Arc::make_mut(published).made =
            Instant::now().checked_sub(Duration::from_secs(11)).unwrap();
    });
    // One may be in flight.
    let _ = timeout(Duration::from_millis(150), stream.next()).await;
    assert!(stream.is_silent().await && stream.is_silent().await);
    assert_eq!(server.get(PATH).await.status, 503, "a list would look like the present");
    server.happens("outbound", EventKind::GapBegan);
    assert_eq!(stream.ids(1).await, server.ids([2]));
}

#[tokio::test]
async fn a_stream_outlives_every_limit_of_an_answer() {
    let limits = Limits {
        response: Duration::from_millis(400),
        idle: Duration::from_millis(200),
        heartbeat: Duration::from_millis(100),
        ..Limits::default()
    };
    let server = start_with(two_tasks(), limits, false).await;
    let mut stream = server.stream("", "").await;
    stream.next().await.unwrap();
    for number in 1..=4 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.happens("outbound", EventKind::GapBegan);
        assert_eq!(stream.ids(1).await, server.ids([number]));
    }
}

#[tokio::test]
async fn streams_are_counted_and_leave_room() {
    let limits = Limits { streams: 2, ..Limits::default() };
    let server = start_with(two_tasks(), limits, false).await;
    let _one = server.stream("", "").await;
    let other = server.stream("", "").await;
    let refused = server.ask("GET", PATH, "Accept: text/event-stream\r\n").await;
    assert_eq!((refused.status, refused.header("retry-after").is_some()), (503, true));
    eventually(PATIENCE, "nothing is left of it", || server.history.followers() == 2).await;
    assert_eq!(server.get(PATH).await.status, 200);
    drop(other);
    eventually(PATIENCE, "it is gone", || server.history.followers() == 1).await;
    let mut again = server.stream("", "").await;
    assert!(again.next().await.is_some());
}

#[tokio::test]
async fn a_shutdown_ends_streams_at_once() {
    let mut server = start(two_tasks()).await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        let mut stream = server.stream("", "").await;
        stream.next().await.unwrap();
        streams.push(stream);
    }
    let began = Instant::now();
    server.shutdown.cancel();
    for mut stream in streams {
        assert_eq!(stream.next().await, None);
    }
    server.ended().await;
    assert!(
        began.elapsed() < Limits::default().drain,
        "{:?}: it waited for streams",
        began.elapsed()
    );
}

#[tokio::test]
async fn nothing_is_left_of_a_client_that_went() {
    let server = start(two_tasks()).await;
    let watching = || server.history.followers();
    for _ in 0..3 {
        let mut stream = server.stream("", "").await;
        stream.next().await.unwrap();
        eventually(PATIENCE, "the stream waits", || watching() == 1).await;
        drop(stream);
        eventually(PATIENCE, "the stream is gone", || watching() == 0).await;
    }
    let head = server.ask("HEAD", PATH, "Accept: text/event-stream\r\n").await;
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
    assert_eq!(watching(), 0);
}

#[test]
fn every_kind_has_its_name_in_the_list() {
    let told: BTreeSet<&str> =
        crate::outputs::every_kind().into_iter().map(|(.., name)| name).collect();
    let listed: BTreeSet<&str> = EventKind::NAMES.into_iter().collect();
    assert_eq!(told, listed);
    assert_eq!(listed.len(), EventKind::NAMES.len(), "one is there twice");
}
