//! The event history over HTTP.

use std::collections::BTreeSet;

use lockwatch_judge::event::{Event, EventKind, Subject};
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::spec::StoreIndex;
use lockwatch_judge::time::{Mono, ServerTime};
use serde_json::{Value, json};

use crate::http::{Server, start};
use crate::snapshots::{NOW, WALL, good_redis, holder, published, stopped_task};

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
        let server_time = Some(ServerTime::at(1_800_000_000_000));
        let event = Event {
            at: Mono::at(NOW.ms() - 250),
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
async fn an_event_is_described_in_the_words_of_the_log() {
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
        (&json!("auth"), &json!(lockwatch_watch::remedy(Unknown::Auth)))
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
    let unknown = server.get("/api/v1/events?x=1").await.json();
    assert_eq!(unknown["allowed"], json!(["task", "store", "kind", "level", "since", "limit"]));
}

#[tokio::test]
async fn a_reader_of_lists_misses_nothing_and_learns_what_is_gone() {
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
async fn events_are_no_longer_streamed_and_the_answer_names_the_stream_that_is() {
    let server = start(two_tasks()).await;
    for method in ["GET", "HEAD"] {
        for accept in ["text/event-stream", "text/html, Text/Event-Stream;q=0.9"] {
            let gone = server.ask(method, PATH, &format!("Accept: {accept}\r\n")).await;
            assert_eq!((gone.status, gone.header("vary")), (410, Some("Accept")), "{accept}");
        }
    }
    let gone = server.ask("GET", PATH, "Accept: text/event-stream\r\n").await.json();
    assert!(gone["error"].as_str().unwrap().contains("/live"), "{gone}");
    assert_eq!(server.ask("GET", PATH, "Accept: */*\r\n").await.status, 200);
}

#[test]
fn every_kind_has_its_name_in_the_list() {
    let reported: BTreeSet<&str> =
        crate::outputs::every_kind().into_iter().map(|(.., name)| name).collect();
    let listed: BTreeSet<&str> = EventKind::NAMES.into_iter().collect();
    assert_eq!(reported, listed);
    assert_eq!(listed.len(), EventKind::NAMES.len(), "one is there twice");
}
