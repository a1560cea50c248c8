//! A thousand hostile texts as names, keys, holders, hosts, users, nodes and queries. Output stays
//! valid JSON on one line, one message per event, and free of terminal or line control characters.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use lockwatch_judge::event::{Event, EventKind, Party, SplitKind, Subject};
use lockwatch_judge::reading::Holder;
use lockwatch_judge::snapshot::{SplitView, SwitchView, TaskView};
use lockwatch_judge::spec::Codec;
use lockwatch_judge::time::Mono;
use lockwatch_judge::verdict::Verdict;
use serde_json::Value;

use crate::http::start;
use crate::snapshots::{NOW, WALL, full_task, hold, holder, published, verdict_rule};
use crate::support::truth::rule;

const COUNT: usize = 1_000;

/// Fragments with a meaning in JSON, HTML, terminals, line-based formats, server-sent events or
/// UTF-8.
const PIECES: [&[u8]; 24] = [
    b"\n",
    b"\r\n",
    b"\n\ndata: {}\n\n",
    b"\nid: 7\n",
    b"\nevent: gap\n",
    b"\0",
    b"\x1b[2J\x1b]0;x\x07",
    b"\x7f",
    b"\"",
    b"\\",
    b"\\u202e",
    b"\"}],\"x\":[{\"",
    b"</script><script>alert(1)</script>",
    b"'><img src=x onerror=alert(1)>&amp;",
    "\u{202e}".as_bytes(),
    "\u{2066}\u{2069}\u{200f}".as_bytes(),
    "\u{2028}\u{2029}".as_bytes(),
    "\u{85}\u{9b}".as_bytes(),
    "\u{feff}\u{200b}\u{e0041}".as_bytes(),
    "出荷ü🚚".as_bytes(),
    b"\xff\xfe",
    b"\xe2\x80",
    b"\xed\xa0\x80",
    b"plain words",
];

fn texts() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(0x10c4);
    let text = |number: usize| {
        let pieces = if number.is_multiple_of(50) { 400 } else { random.usize(1..6) };
        let mut text: Vec<u8> =
            (0..pieces).flat_map(|_| PIECES[random.usize(0..PIECES.len())]).copied().collect();
        text.extend_from_slice(number.to_string().as_bytes());
        text
    };
    (0..COUNT).map(text).collect()
}

/// Task names can be any text.
fn name(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn hostile_task(bytes: &[u8]) -> TaskView {
    let mut view = full_task(&name(bytes));
    let spec = Arc::make_mut(&mut view.spec);
    spec.lock_mut().unwrap().key = bytes.into();
    spec.labels = vec![("team".into(), name(bytes).into())];
    view.store = name(bytes).into();
    view.node = Some(name(bytes).into());
    view.lock_mut().unwrap().hold = Some(hold(vec![(holder(bytes), Some(bytes.to_vec()))]));
    view.wanting.switches =
        Some([SwitchView { user: bytes.to_vec(), on: None, fits: Some(Codec::Jdk) }].into());
    view.wanting.lost_users = [bytes.to_vec()].into();
    view.live_claims = [holder(bytes)].into();
    let parties = vec![Party {
        holder: holder(bytes),
        node: Some(name(bytes).into()),
        host: Some(bytes.to_vec()),
    }];
    view.splits = [SplitView { kind: SplitKind::Claims, parties, since: NOW, lasted_ms: 1 }].into();
    (view.verdict, view.rule) = (Verdict::Split, verdict_rule("split_evidence"));
    view
}

/// Events with the text in every field.
fn hostile_events(bytes: &[u8]) -> Vec<Event> {
    let holders: Vec<Holder> = vec![holder(bytes)];
    let parties = vec![Party {
        holder: holder(bytes),
        node: Some(name(bytes).into()),
        host: Some(bytes.to_vec()),
    }];
    let kinds = [
        EventKind::Acquired { holders },
        EventKind::SplitBegan { kind: SplitKind::Claims, parties, left_ms: None },
        EventKind::SwitchesLost { users: vec![bytes.to_vec()] },
        EventKind::ClaimBesideFreeLock { instance: holder(bytes) },
    ];
    let subject = Subject::Task(full_task(&name(bytes)).spec);
    let event = |kind| Event {
        at: Mono::at(NOW.ms() - 1),
        server_time: None,
        subject: subject.clone(),
        node: Some(name(bytes).into()),
        kind,
    };
    kinds.map(event).to_vec()
}

#[track_caller]
fn assert_harmless(text: &str, may_break_lines: bool) {
    let bad = |c: char| {
        c.is_control() && !(may_break_lines && c == '\n')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
    };
    let found = text.char_indices().find(|(_, c)| bad(*c));
    assert_eq!(
        found,
        None,
        "after {:?}",
        found.map(|(at, _)| text[..at].chars().rev().take(80).collect::<String>())
    );
}

#[tokio::test]
async fn hostile_texts_stay_texts() {
    let _rule = rule("14 hostile bytes");
    let texts = texts();
    let names: BTreeSet<String> = texts.iter().map(|bytes| name(bytes)).collect();
    assert_eq!(names.len(), COUNT, "pairwise different");
    let mut views: Vec<TaskView> = texts.iter().map(|bytes| hostile_task(bytes)).collect();
    views.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    let server = start(published(views, vec![])).await;

    let answer = server.get("/api/v1/tasks").await;
    assert_harmless(answer.text(), false);
    let list: Value = answer.json();
    let reported: BTreeSet<String> = list["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(reported, names, "escaped on the way, and whole again");
    let keys: BTreeSet<&str> = list["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["lock"]["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys.len(), COUNT, "no two look alike");
    keys.iter().for_each(|key| assert_harmless(key, false));
    assert!(
        list["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .all(|task| task["reason"].as_str().unwrap().len() < 1_000)
    );

    for event in texts.iter().flat_map(|bytes| hostile_events(bytes)) {
        server.history.keep(NOW, WALL, &event);
    }
    // On a busy machine this may take so long that the snapshot would look too old, as from a
    // stopped engine.
    let refresh =
        || server.published.send_modify(|published| Arc::make_mut(published).made = Instant::now());
    refresh();
    let events = server.get("/api/v1/events?limit=1000").await;
    assert_harmless(events.text(), false);
    assert_eq!(events.json()["events"].as_array().unwrap().len(), 1_000);

    // As query parameters too; invalid UTF-8 is refused.
    for bytes in texts.iter().step_by(7) {
        refresh();
        let escaped: String = bytes.iter().take(1_000).map(|byte| format!("%{byte:02x}")).collect();
        for path in [
            "/api/v1/tasks?q=",
            "/api/v1/tasks?verdict=",
            "/api/v1/tasks?",
            "/api/v1/events?task=",
            "/api/v1/events?since=",
        ] {
            let answer = server.get(&format!("{path}{escaped}")).await;
            assert!([200, 400].contains(&answer.status), "{path}{escaped}: {}", answer.status);
            assert_harmless(answer.text(), false);
            assert!(answer.json().is_object());
        }
        if let Ok(name) = std::str::from_utf8(bytes)
            && bytes.len() <= 1_000
        {
            let answer = server.get(&format!("/api/v1/tasks/{escaped}")).await;
            assert_eq!((answer.status, answer.json()["task"]["name"].as_str()), (200, Some(name)));
            let of_task = server.get(&format!("/api/v1/events?task={escaped}")).await;
            assert_eq!(of_task.json()["events"].as_array().map(Vec::len), Some(4));
        }
    }
}
