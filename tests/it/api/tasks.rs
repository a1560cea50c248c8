//! Tasks as JSON: filters, refusals and entity tags.

use std::sync::Arc;

use lockwatch::published::Published;
use lockwatch_judge::event::{Party, SplitKind};
use lockwatch_judge::snapshot::{Judged, Past, SplitView, TaskView};
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::{Facts, LockFact, LockFacts, Verdict, Wanted};
use serde_json::{Value, json};

use crate::http::{Server, start};
use crate::snapshots::{
    NOW, full_task, good_redis, hold, holder, new_task, published, stopped_task, verdict_rule,
};

fn with_team(mut view: TaskView, team: &str) -> TaskView {
    Arc::make_mut(&mut view.spec).labels =
        vec![("team".into(), team.into()), ("severity".into(), "critical".into())];
    view
}

/// Four tasks of two Redis servers and two teams.
fn some() -> Arc<Published> {
    let mut inbound = with_team(stopped_task("inbound"), "shop, returns");
    inbound.store = "spare".into();
    let mut night = with_team(full_task("Night & day"), "");
    (night.verdict, night.rule) = (Verdict::Down, verdict_rule("gap_over_grace"));
    (night.held, night.lock_mut().unwrap().hold, night.lock_mut().unwrap().fact) =
        (Some(false), None, LockFact::Free);
    let mut split = with_team(full_task("split"), "logistics");
    (split.verdict, split.wanted) = (Verdict::Split, Wanted::Unknown);
    split.lock_mut().unwrap().hold =
        Some(hold(vec![(holder(b"other\nclient"), Some("løger".into()))]));
    let tasks = vec![night, inbound, with_team(full_task("outbound"), "logistics"), split];
    published(tasks, vec![good_redis("main"), good_redis("spare")])
}

async fn names(server: &Server, query: &str) -> Vec<String> {
    let answer = server.get(&format!("/api/v1/tasks{query}")).await;
    assert_eq!(answer.status, 200, "{query}: {}", answer.text());
    let list = answer.json();
    assert_eq!(list["stores"].as_array().map(Vec::len), Some(2), "{query}");
    list["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["name"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn filters_choose_tasks() {
    let server = start(some()).await;
    let (night, inbound, outbound, split) = ("Night & day", "inbound", "outbound", "split");
    let cases: [(&str, &[&str]); 25] = [
        ("", &[night, inbound, outbound, split]),
        ("?", &[night, inbound, outbound, split]),
        ("?verdict=running", &[outbound]),
        ("?verdict=down,split", &[night, split]),
        ("?verdict=down&verdict=split", &[night, split]),
        ("?verdict=pending", &[]),
        ("?redis=spare", &[inbound]),
        ("?redis=spare&redis=main", &[night, inbound, outbound, split]),
        ("?redis=main&verdict=down,stopped", &[night]),
        ("?wanted=unset", &[inbound]),
        ("?wanted=unset,unknown", &[inbound, split]),
        ("?label.team=logistics", &[outbound, split]),
        ("?label.team=logistics&label.team=", &[night, outbound, split]),
        ("?label.team=shop,+returns", &[inbound]),
        ("?label.team=shop", &[]),
        ("?label.team=logistics&label.severity=critical&verdict=split", &[split]),
        ("?label.severity=warning", &[]),
        ("?label.team=logistics&label.severity=warning", &[]),
        ("?q=BOUND", &[inbound, outbound]),
        ("?q=t+%26+d", &[night]),
        ("?q=%3Alock&q=x", &[night, inbound, outbound, split]),
        ("?q=3F2B9c1e", &[outbound]),
        (r"?q=other%5Cx0aclient", &[split]),
        ("?q=L%C3%98GER", &[split]),
        ("?q=", &[night, inbound, outbound, split]),
    ];
    for (query, expected) in cases {
        assert_eq!(names(&server, query).await, expected, "{query}");
    }
}

#[tokio::test]
async fn a_filtered_list_of_any_length_is_one_document() {
    let tasks = |count: usize| {
        (0..count).map(|n| match n % 7 {
            0 => full_task(&format!("task-{n:03}")),
            _ => stopped_task(&format!("task-{n:03}")),
        })
    };
    for count in [0, 1, 6, 343, 344, 350, 351, 400, 1_000] {
        let server =
            start(published(tasks(count).collect(), vec![good_redis("main"), good_redis("spare")]))
                .await;
        let expected: Vec<String> = (0..count).step_by(7).map(|n| format!("task-{n:03}")).collect();
        assert_eq!(names(&server, "?verdict=running").await, expected, "{count}");
    }
}

#[tokio::test]
async fn what_is_not_understood_is_refused_with_what_would_be() {
    let server = start(some()).await;
    let verdicts: Vec<&str> = Verdict::ALL.map(Verdict::name).to_vec();
    let parameters = ["verdict", "store", "wanted", "q", "label.team", "label.severity"];
    let cases: [(&str, &[&str]); 11] = [
        ("?verdict=downn", &verdicts),
        ("?verdict=", &verdicts),
        ("?verdict=down,", &verdicts),
        ("?verdict=down,%20split", &verdicts),
        ("?wanted=on", &["yes", "no", "unknown", "unset"]),
        ("?store=other", &["main", "spare"]),
        ("?redis", &["main", "spare"]),
        ("?limit=3", &parameters),
        ("?label.tem=x", &parameters),
        ("?label.=x", &parameters),
        ("?Verdict=down", &parameters),
    ];
    for (query, allowed) in cases {
        let answer = server.get(&format!("/api/v1/tasks{query}")).await;
        let reported = answer.json();
        assert_eq!((answer.status, &reported["allowed"]), (400, &json!(allowed)), "{query}");
        let sentence = reported["error"].as_str().unwrap();
        assert!(allowed.iter().all(|name| sentence.contains(name)), "{query}: {sentence}");
        assert_eq!(answer.header("etag"), None);
    }
    for path in ["/api/v1/tasks?q=%ff", "/api/v1/tasks?q=%2", "/api/v1/tasks/outbound?x=%"] {
        assert_eq!(
            (server.get(path).await.status, server.get(path).await.json()["error"].is_string()),
            (400, true)
        );
    }
    for path in ["/api/v1/tasks/outbound?verdict=down", "/api/v1/openapi.json?x"] {
        let answer = server.get(path).await;
        assert_eq!((answer.status, &answer.json()["allowed"]), (400, &json!([])), "{path}");
    }
    let hostile = server.get("/api/v1/tasks?%E2%80%AE%1B%5B2J=1").await;
    assert!(
        !hostile.text().contains(|c: char| c.is_control() || c == '\u{202e}'),
        "{}",
        hostile.text()
    );
}

const TAGGED: [&str; 5] = [
    "/api/v1/tasks",
    "/api/v1/tasks?verdict=running",
    "/api/v1/tasks/outbound",
    "/api/v1/events",
    "/api/v1/openapi.json",
];

#[tokio::test]
async fn a_client_that_has_the_answer_gets_only_that() {
    let server = start(some()).await;
    for path in TAGGED {
        let first = server.get(path).await;
        let tag = first.header("etag").unwrap();
        assert!(
            tag.starts_with(&format!("\"{}", server.history.boot())) && tag.ends_with('"'),
            "{path}: {tag}"
        );
        assert_eq!(first.header("cache-control"), Some("no-cache"), "{path}");
        let lists =
            [tag.to_owned(), format!("W/{tag}"), format!("\"x\", {tag}"), String::from("*")];
        for method in ["GET", "HEAD"] {
            for list in &lists {
                let again = server.ask(method, path, &format!("If-None-Match: {list}\r\n")).await;
                assert_eq!((again.status, again.body.len()), (304, 0), "{method} {path}: {list}");
                assert_eq!(again.header("etag"), Some(tag), "{path}");
                assert_eq!(again.header("content-type"), None);
            }
        }
        let two = server
            .ask("GET", path, &format!("If-None-Match: \"x\"\r\nIf-None-Match: {tag}\r\n"))
            .await;
        assert_eq!(two.status, 304);
        let other = server.ask("GET", path, "If-None-Match: \"x\", W/\"y\"\r\n").await;
        assert_eq!((other.status, other.header("etag")), (200, Some(tag)), "{path}");
        let head = server.ask("HEAD", path, "").await;
        assert_eq!(
            (head.status, head.body.len(), head.header("etag")),
            (200, 0, Some(tag)),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_new_snapshot_and_another_process_have_other_tags() {
    let tag = async |server: &Server, path: &str| {
        server.get(path).await.header("etag").unwrap().to_owned()
    };
    let (one, other) = (start(some()).await, start(some()).await);
    for path in TAGGED {
        assert_ne!(tag(&one, path).await, tag(&other, path).await, "{path}");
    }
    for path in ["/api/v1/tasks", "/api/v1/tasks/outbound"] {
        let before = tag(&one, path).await;
        one.published.send_modify(|published| Arc::make_mut(published).snapshot.sequence += 1);
        let after = one.ask("GET", path, &format!("If-None-Match: {before}\r\n")).await;
        assert_eq!(after.status, 200, "{path}");
        assert_ne!(after.header("etag"), Some(before.as_str()));
    }
    let refused = one.ask("GET", "/api/v1/tasks?x=1", "If-None-Match: *\r\n").await;
    assert_eq!(refused.status, 400);
    assert_eq!(one.ask("GET", "/api/v1/tasks/none", "If-None-Match: *\r\n").await.status, 404);
}

async fn reported(view: TaskView) -> Value {
    let server = start(published(vec![view], vec![])).await;
    server.get("/api/v1/tasks/outbound").await.json()["task"].take()
}

#[tokio::test]
async fn one_task_tells_what_its_verdict_rests_on() {
    let facts = LockFacts {
        wanted: Wanted::Yes,
        lock: LockFact::Held,
        split: true,
        gap_over_grace: false,
        down_goes_on: false,
        stale: true,
        over_wind_down: false,
        blind: false,
    };
    let secret = lockwatch_judge::reading::Holder { secret: true, ..holder(b"abc") };
    let parties = vec![
        Party { holder: holder(b"new"), node: None, host: Some(b"wh-app-01".to_vec()) },
        Party { holder: secret, node: Some("10.0.0.6:6379".into()), host: None },
    ];
    let mut view = TaskView {
        verdict: Verdict::Split,
        rule: verdict_rule("split_evidence"),
        judged: Some(Judged { facts: Facts::Lock(facts), previous: Some(Verdict::Running) }),
        splits: [SplitView {
            kind: SplitKind::Masters,
            parties,
            since: Mono::at(NOW.ms() - 2_000),
            lasted_ms: 1_500,
        }]
        .into(),
        ..full_task("outbound")
    };
    let rare = &mut Arc::make_mut(&mut view.totals).rare;
    rare.last_handover = Some(Past { at: Mono::at(NOW.ms() - 61_123), ms: 400 });
    rare.last_outage = Some(Past { at: Mono::at(NOW.ms() - 600_123), ms: 33_000 });
    view.lock_mut().unwrap().renewals =
        [Mono::at(NOW.ms() - 20_123), Mono::at(NOW.ms() - 10_123)].into_iter().collect();
    let split = reported(view).await;
    let judged = json!({
        "wanted": "yes", "lock": "held", "split": true, "gap_over_grace": false, "down_goes_on": false, "stale": true,
        "over_wind_down": false, "blind": false, "previous": "running",
    });
    assert_eq!(split["judged"], judged);
    assert_eq!(
        split["reason"],
        "More than one holder (masters): new on wh-app-01, ba7816bf at 10.0.0.6:6379."
    );
    let evidence = json!([{
        "kind": "masters",
        "since": "2027-01-15T07:59:58.123Z",
        "lasted_seconds": 1.5,
        "parties": [
            {"holder": "new", "digest": false, "node": null, "host": "wh-app-01"},
            {"holder": "ba7816bf", "digest": true, "node": "10.0.0.6:6379", "host": null},
        ],
    }]);
    assert_eq!((&split["splits"], &split["split_evidence"]), (&json!(["masters"]), &evidence));
    assert_eq!(split["renewals"], json!(["2027-01-15T07:59:40.000Z", "2027-01-15T07:59:50.000Z"]));
    assert_eq!(split["last_handover"], json!({"at": "2027-01-15T07:58:59.000Z", "seconds": 0.4}));
    assert_eq!(split["last_outage"], json!({"at": "2027-01-15T07:50:00.000Z", "seconds": 33.0}));
    assert_eq!(split["lock_only"], false);

    let fresh = reported(new_task("outbound")).await;
    for field in ["judged", "last_handover", "last_outage"] {
        assert_eq!(fresh[field], Value::Null, "{field}");
    }
    assert_eq!((&fresh["lock_only"], &fresh["renewals"]), (&json!(true), &json!([])));

    let mut claims_only = new_task("outbound");
    Arc::make_mut(&mut claims_only.spec).claims = full_task("outbound").spec.claims.clone();
    assert_eq!(reported(claims_only).await["lock_only"], false);
    let server = start(published(vec![full_task("outbound")], vec![])).await;
    let list = server.get("/api/v1/tasks").await.json();
    assert_eq!(list["tasks"][0].get("renewals"), None, "too much for a list");
}
