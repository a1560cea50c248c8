//! JSON and log lines.

use std::io;
use std::sync::{Arc, Mutex};

use lockwatch::output::events::{EventLog, describe};
use lockwatch::output::json::{TaskList, task};
use lockwatch_model::event::{End, Event, EventKind, GenerationChange, LossSign, SplitKind, Subject};
use lockwatch_model::reading::{Holder, Unknown};
use lockwatch_model::snapshot::TaskView;
use lockwatch_model::spec::{Codec, RedisIndex};
use lockwatch_model::time::{Mono, ServerTime};
use lockwatch_model::verdict::{Rule, Verdict};
use serde_json::{Value, json};
use tracing::Level;

use crate::snapshots::{NOW, full_task, good_redis, hold, holder, new_redis, new_task, published, stopped_task};

fn task_json(view: TaskView) -> Value {
    let name = view.spec.name.clone();
    let published = published(vec![view], vec![]);
    serde_json::to_value(task(&published, &name).unwrap()).unwrap()["task"].take()
}

#[test]
fn a_task_tells_everything_in_base_units() {
    let told = task_json(full_task("outbound"));
    let expected = json!({
        "name": "outbound",
        "redis": "main",
        "labels": [{"name": "team", "value": "logistics"}, {"name": "severity", "value": "critical"}],
        "verdict": "running",
        "rule": "held_wanted",
        "reason": "The lock is held and users want it.",
        "verdict_since": "2027-01-15T07:58:59.123Z",
        "wanted": "yes",
        "switches": [
            {"user": "anna", "state": "on", "fits": null},
            {"user": "bert", "state": "off", "fits": null},
            {"user": "c\\xe2\\x80\\xaelaire", "state": "undecodable", "fits": "kryo5"},
        ],
        "switches_unknown": null,
        "switch_key_seen": true,
        "lost_users": ["dora"],
        "lock": {
            "key": "outbound:lock",
            "scheme": "redisson",
            "held": true,
            "fact": "held",
            "unknown": null,
            "hold": {
                "mode": "exclusive",
                "holders": [{"holder": "3f2b9c1e-client", "digest": false, "host": "srv-a", "entries": 2}],
                "ghosts": 0,
                "acquired": "2027-01-15T07:58:59.000Z",
                "held_seconds": 61.123,
                "ttl_seconds": 28.881,
                "deadline": "2027-01-15T08:00:29.004Z",
                "persistent": false,
                "last_renewal": "2027-01-15T07:59:59.004Z",
                "last_renewal_latency_seconds": 0.004,
                "last_renewal_margin_seconds": 19.996,
                "renewal_overdue_seconds": 0.0,
            },
            "waiters": 1,
            "fencing_token": -42,
            "lease_seconds": 30.0,
            "renewal_period_seconds": 10.0,
        },
        "progress": {"moved": "2027-01-15T07:59:50.500Z", "missing": false, "unknown": null},
        "live_claims": ["srv-a"],
        "splits": [],
        "paused": false,
        "evidence_age_seconds": 0.25,
        "durations": {
            "down_seconds": 0.001, "split_seconds": 0.02, "stalled_seconds": 0.3, "unwanted_seconds": 4.0,
            "blind_seconds": 50.0, "switches_lost_seconds": 0.006,
        },
        "thresholds": {
            "grace_seconds": 20.0, "settle_seconds": 5.0, "wind_down_seconds": 30.0, "blind_after_seconds": 60.0,
            "stale_after_seconds": 300.0, "fresh_for_seconds": 10.0, "max_hold_seconds": 43200.0,
        },
        "totals": {
            "wanted_seconds": 86400.0, "down_seconds": 61.5, "outage_seconds": 33.0, "split_seconds": 0.007,
            "blind_seconds": 3.0,
            "splits": [
                {"name": "holders", "count": 1}, {"name": "claims", "count": 2}, {"name": "overlap", "count": 3},
            ],
            "acquisitions": 5,
            "ends": [
                {"name": "expired", "count": 1}, {"name": "ended_early", "count": 2}, {"name": "replaced", "count": 3},
                {"name": "lost", "count": 4}, {"name": "unknown", "count": 5},
            ],
            "holds_lost": 2,
            "renewals": 8640, "shortened": 4, "token_resets": 1, "phantom_holds": 6,
            "handovers": {"count": 4, "sum_seconds": 963.4},
            "outages": {"count": 1, "sum_seconds": 33.0},
            "renewal_latency": {"count": 5, "sum_seconds": 40.055},
        },
    });
    assert_eq!(told, expected, "{told:#}");
}

#[test]
fn what_is_not_known_is_null() {
    let told = task_json(new_task("outbound"));
    for path in
        ["/lock/held", "/lock/hold", "/switches", "/paused", "/evidence_age_seconds", "/progress", "/lock/waiters"]
    {
        assert_eq!(told.pointer(path), Some(&Value::Null), "{path}");
    }
    let far = ServerTime(i64::MAX);
    let mut view = full_task("outbound");
    view.hold.as_mut().unwrap().deadline = Some(far);
    assert_eq!(task_json(view).pointer("/lock/hold/deadline"), Some(&Value::Null), "a year with more than four digits");
}

#[test]
fn an_unreadable_task_names_the_remedy() {
    let view = TaskView {
        held: None,
        unknown: Some(Unknown::NoPermission),
        switches_unknown: Some(Unknown::WrongType),
        progress_missing: Some(Some(Unknown::Layout)),
        ..full_task("outbound")
    };
    let told = task_json(view);
    assert_eq!(told["lock"]["unknown"]["reason"], "no_permission");
    assert_eq!(told["lock"]["unknown"]["remedy"], Unknown::NoPermission.remedy());
    assert_eq!(told["switches_unknown"]["reason"], "wrong_type");
    assert_eq!(told["progress"]["missing"], true);
    assert_eq!(told["progress"]["unknown"]["reason"], "layout");
}

#[test]
fn redises_tell_how_they_are() {
    let list: String = TaskList::new(published(vec![], vec![good_redis("main"), new_redis("spare")])).collect();
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(
        list["redises"][0],
        json!({
            "name": "main", "address": "10.0.0.5:6379", "db": 0, "up": true, "unknown": null, "role": "master",
            "role_verified": true, "version": "7.0.15", "last_success": "2027-01-15T08:00:00.000Z",
            "clock_offset_seconds": -0.012, "reconnects": 1, "skipped_ticks": 2, "generation_changes": 3,
            "errors": [{"name": "timeout", "count": 5}], "sample_duration": {"count": 5, "sum_seconds": 3.035},
        })
    );
    assert_eq!(list["redises"][1]["up"], Value::Null);
    assert_eq!((&list["tasks"], &list["sequence"]), (&json!([]), &json!(7)));
}

#[test]
fn a_secret_token_is_never_told() {
    let mut view = full_task("outbound");
    view.hold = Some(hold(vec![(secret(), None)]));
    let told = task_json(view);
    assert!(!told.to_string().contains("s3cr3t"));
    let holder = &told["lock"]["hold"]["holders"][0];
    assert_eq!((holder["digest"].as_bool(), holder["holder"].as_str().map(str::len)), (Some(true), Some(8)));
}

fn secret() -> Holder {
    Holder { client: b"s3cr3t\n".to_vec(), thread: None, entries: None, secret: true }
}

/// One event of each kind, and how it is to be told.
fn every_kind() -> Vec<(EventKind, Level, &'static str)> {
    use EventKind as E;
    let holders = vec![secret(), holder(b"evil\x1b[2J")];
    let verdict = |to| E::Verdict { from: Some(Verdict::Running), to, rule: Rule::GapOverGrace };
    let ended = |reason| E::HoldEnded { holders: holders.clone(), reason, held_ms: Some(61_000) };
    let users = vec![b"dora".to_vec(), b"\xff".to_vec()];
    vec![
        (verdict(Verdict::Down), Level::ERROR, "verdict"),
        (verdict(Verdict::Unknown), Level::WARN, "verdict"),
        (E::Verdict { from: None, to: Verdict::Stopped, rule: Rule::FreeUnset }, Level::INFO, "verdict"),
        (E::Acquired { holders: holders.clone() }, Level::INFO, "acquired"),
        (ended(End::Expired), Level::WARN, "hold_ended"),
        (ended(End::EndedEarly), Level::INFO, "hold_ended"),
        (E::LockLost { holders: holders.clone(), sign: LossSign::Data }, Level::WARN, "lock_lost"),
        (E::LockLost { holders: holders.clone(), sign: LossSign::Claim }, Level::WARN, "lock_lost"),
        (E::LockLost { holders: holders.clone(), sign: LossSign::Progress }, Level::WARN, "lock_lost"),
        (E::Shortened { by_ms: 5 }, Level::DEBUG, "shortened"),
        (E::GapBegan, Level::INFO, "gap_began"),
        (E::GapEnded { gap_ms: 1_500 }, Level::INFO, "gap_ended"),
        (E::PhantomHold { held_ms: 900 }, Level::INFO, "phantom_hold"),
        (E::Outage { outage_ms: 33_000 }, Level::WARN, "outage"),
        (E::SplitBegan { kind: SplitKind::Claims, parties: holders.clone() }, Level::ERROR, "split_began"),
        (E::SplitEnded { kind: SplitKind::Claims, lasted_ms: 7 }, Level::INFO, "split_ended"),
        (
            E::OverlapInDoubt { before: holders.clone(), now: holders.clone(), left_ms: 9 },
            Level::WARN,
            "overlap_in_doubt",
        ),
        (E::SwitchesLost { users }, Level::ERROR, "switches_lost"),
        (E::SwitchesFound, Level::INFO, "switches_found"),
        (E::SwitchUndecodable { user: b"a\nb".to_vec(), fits: Some(Codec::Jdk) }, Level::WARN, "switch_undecodable"),
        (E::SwitchUndecodable { user: b"a".to_vec(), fits: None }, Level::WARN, "switch_undecodable"),
        (E::SwitchKeyMissing, Level::WARN, "switch_key_missing"),
        (E::ProgressMissing { why: None }, Level::WARN, "progress_missing"),
        (E::ProgressMissing { why: Some(Unknown::WrongType) }, Level::WARN, "progress_missing"),
        (E::PauseUndecodable, Level::WARN, "pause_undecodable"),
        (E::ClaimBesideFreeLock { instance: b"srv\0".to_vec() }, Level::WARN, "claim_beside_free_lock"),
        (E::TokenReset { from: 9, to: -1 }, Level::WARN, "token_reset"),
        (E::LeaseLearned { lease_ms: 30_000 }, Level::DEBUG, "lease_learned"),
        (E::TaskUnreadable { why: Unknown::NoPermission }, Level::WARN, "task_unreadable"),
        (E::TaskReadable, Level::INFO, "task_readable"),
        (E::RedisDown { why: Unknown::Auth }, Level::ERROR, "redis_down"),
        (E::RedisUp, Level::INFO, "redis_up"),
        (E::GenerationChanged { change: GenerationChange::Flushed }, Level::WARN, "generation_changed"),
        (E::ClockStep { by_ms: -2_500 }, Level::WARN, "clock_step"),
    ]
}

fn event(kind: EventKind) -> Event {
    let subject = match kind {
        EventKind::RedisDown { .. }
        | EventKind::RedisUp
        | EventKind::GenerationChanged { .. }
        | EventKind::ClockStep { .. } => Subject::Redis(RedisIndex(0), "main".into()),
        _ => Subject::Task(stopped_task("out\nbound").spec),
    };
    Event { at: NOW, server_time: Some(ServerTime(1_800_000_000_000)), subject, kind }
}

#[test]
fn each_kind_is_told_at_its_level_without_secrets_or_control_characters() {
    for (kind, level, name) in every_kind() {
        let line = describe(&event(kind));
        assert_eq!((line.level, line.kind), (level, name));
        let all = format!("{}|{}|{}", line.message, line.subject, line.who.as_deref().unwrap_or_default());
        assert!(!all.contains(char::is_control) && !all.contains("s3cr3t"), "{all:?}");
        assert_eq!(line.server_time.as_deref(), Some("2027-01-15T08:00:00.000Z"));
    }
}

#[test]
fn a_line_says_who_why_and_for_how_long() {
    let holders = vec![secret(), holder(b"evil\x1b[2J")];
    let ended = describe(&event(EventKind::HoldEnded { holders, reason: End::Expired, held_ms: Some(61_500) }));
    assert_eq!(ended.who.as_deref().unwrap().split(", ").nth(1), Some(r"evil\x1b[2J"));
    assert_eq!((ended.reason, ended.seconds), (Some("expired"), Some(61.5)));
    let down = describe(&event(EventKind::RedisDown { why: Unknown::Auth }));
    assert_eq!((down.reason, down.remedy), (Some("auth"), Some(Unknown::Auth.remedy())));
    let verdict = EventKind::Verdict { from: Some(Verdict::Pending), to: Verdict::Down, rule: Rule::GapOverGrace };
    let verdict = describe(&event(verdict));
    assert_eq!(verdict.message, format!("pending -> down: {}", Rule::GapOverGrace.sentence()));
    let undecodable = EventKind::SwitchUndecodable { user: b"a".to_vec(), fits: Some(Codec::Kryo5) };
    assert!(describe(&event(undecodable)).message.contains("kryo5"));
}

/// Collects what a subscriber writes.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log lines that `write` causes, as JSON.
fn logged(write: impl FnOnce()) -> Vec<Value> {
    let written = Written::default();
    let writer = written.clone();
    let subscriber =
        tracing_subscriber::fmt().json().with_max_level(Level::TRACE).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, write);
    let bytes = written.0.lock().unwrap().clone();
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[test]
fn each_event_is_one_line_with_its_fields() {
    let kinds = every_kind();
    let mut log = EventLog::default();
    // Far apart, so that nothing is suppressed.
    let lines = logged(|| {
        for (n, (kind, ..)) in kinds.iter().enumerate() {
            log.write(Mono(n as u64 * 10_000), &event(kind.clone()));
        }
    });
    assert_eq!(lines.len(), kinds.len());
    for (line, (_, level, name)) in lines.iter().zip(&kinds) {
        assert_eq!((line["level"].as_str(), line["fields"]["event"].as_str()), (Some(level.as_str()), Some(*name)));
        assert!(line["fields"]["message"].as_str().is_some_and(|message| !message.is_empty()), "{line}");
        assert_ne!(line["fields"].get("task").is_some(), line["fields"].get("redis").is_some(), "{line}");
    }
    let outage = lines.iter().find(|line| line["fields"]["event"] == "outage").unwrap();
    assert_eq!((&outage["fields"]["seconds"], &outage["fields"]["task"]), (&json!(33.0), &json!("out\\x0abound")));
}

#[test]
fn a_storm_of_events_becomes_a_few_lines_and_a_count() {
    let mut log = EventLog::default();
    let lines = logged(|| {
        (0..500).for_each(|_| log.write(Mono(5_000), &event(EventKind::GapBegan)));
        log.tick(Mono(5_500));
        log.tick(Mono(6_000));
        log.tick(Mono(7_000));
    });
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert_eq!(lines[5]["fields"]["suppressed"], 495);
    assert_eq!(lines[5]["fields"]["event"], "gap_began");
}
