//! JSON and log lines.

use std::io;
use std::sync::{Arc, Mutex};

use lockwatch::outputs::events::{EventLog, describe};
use lockwatch::outputs::json::{TaskFilter, TaskList, task};
use lockwatch_judge::event::{
    DrillEnd, End, Event, EventKind, FailoverReport, GenerationChange, LossSign, Party, SplitKind,
    Subject,
};
use lockwatch_judge::input::{Announcer, Role};
use lockwatch_judge::reading::{Holder, Unknown};
use lockwatch_judge::snapshot::{ProgressView, StoreView, TaskView};
use lockwatch_judge::spec::{Codec, StoreIndex};
use lockwatch_judge::time::{Mono, ServerTime};
use lockwatch_judge::verdict::Verdict;
use serde_json::{Value, json};
use tracing::Level;

use crate::snapshots::{
    NOW, cluster_redis, full_task, good_node, good_redis, hold, holder, new_redis, new_task,
    published, sentinel_redis, stopped_task, verdict_rule, witness,
};
use crate::support::truth::rule;

fn task_json(view: TaskView) -> Value {
    let name = view.spec.name.clone();
    let published = published(vec![view], vec![]);
    serde_json::to_value(task(&published, &name).unwrap()).unwrap()["task"].take()
}

#[test]
fn a_task_tells_everything_in_base_units() {
    let body = task_json(full_task("outbound"));
    let totals = json!({
        "wanted_seconds": 86400.0, "down_seconds": 61.5, "outage_seconds": 33.0, "split_seconds": 0.007,
        "blind_seconds": 3.0,
        "splits": [
            {"name": "holders", "count": 1}, {"name": "masters", "count": 4}, {"name": "claims", "count": 2},
            {"name": "overlap", "count": 3}, {"name": "turns", "count": 0}, {"name": "executions", "count": 0},
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
    });
    let witnesses = json!([{
        "node": "10.0.0.7:6379",
        "role": "replica",
        "at": "2027-01-15T07:59:59.373Z",
        "holders": [{"holder": "3f2b9c1e-client", "digest": false, "host": null, "entries": 2}],
        "behind_seconds": 1.25,
    }]);
    let mut expected = json!({
        "name": "outbound",
        "store": "main",
        "labels": [{"name": "team", "value": "logistics"}, {"name": "severity", "value": "critical"}],
        "verdict": "running",
        "rule": "held_wanted",
        "reason": "The lock is held. Users wanted the task when the store lost their switches. (A \
            switch cannot be read: set `codec: kryo5`.)",
        "verdict_since": "2027-01-15T07:58:59.123Z",
        "clear": false,
        "problems": [
            {"problem": "stalled", "alert": "LockwatchTaskStalled", "severity": "page", "seconds": 0.3, "event": false},
            {"problem": "switches_lost", "alert": "LockwatchSwitchesLost", "severity": "page", "seconds": 0.006, "event": false},
            {"problem": "split", "alert": "LockwatchTaskSplit", "severity": "page", "seconds": 700.0, "event": true},
            {"problem": "lock_lost", "alert": "LockwatchLockLost", "severity": "page", "seconds": 61.5, "event": true},
            {"problem": "lease_expired", "alert": "LockwatchLeaseExpired", "severity": "warning", "seconds": 800.0, "event": true},
        ],
        "judged": null,
        "wanted": "yes",
        "wanting_users": 1,
        "counted": false,
        "switches": [
            {"user": "anna", "state": "on", "fits": null},
            {"user": "bert", "state": "off", "fits": null},
            {"user": "c\\xe2\\x80\\xaelaire", "state": "undecodable", "fits": "kryo5"},
        ],
        "switches_unknown": null,
        "key_seen": true,
        "switch_key_seen": true,
        "lost_users": ["dora"],
        "lock": {
            "key": "outbound:lock",
            "library": "redisson",
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
                "value_is_past": false,
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
        "node": "10.0.0.5:6379",
        "witnesses": witnesses,
        "progress": {
            "moved": "2027-01-15T07:59:50.500Z", "moves": "value", "missing": false, "expired": false, "unknown": null,
        },
        "live_claims": ["srv-a"],
        "claims_unknown": null,
        "hosts_unknown": null,
        "lock_only": false,
        "splits": [],
        "split_evidence": [],
        "paused": false,
        "evidence_age_seconds": 0.25,
        "last_handover": null,
        "last_outage": null,
        "renewals": [],
        "durations": {
            "down_seconds": 0.001, "split_seconds": 0.02, "stalled_seconds": 0.3, "unwanted_seconds": 4.0,
            "blind_seconds": 50.0, "switches_lost_seconds": 0.006,
        },
        "thresholds": {
            "grace_seconds": 20.0, "settle_seconds": 5.0, "wind_down_seconds": 30.0, "blind_after_seconds": 60.0,
            "stale_after_seconds": 300.0, "fresh_for_seconds": 10.0, "max_hold_seconds": 43200.0,
        },
        "totals": totals,
    });
    // The macro has no room for more.
    expected["runs"] = Value::Null;
    expected["notes"] = json!([]);
    assert_eq!(body, expected, "{body:#}");
}

#[test]
fn what_is_not_known_is_null() {
    let body = task_json(new_task("outbound"));
    for path in [
        "/lock/held",
        "/lock/hold",
        "/switches",
        "/paused",
        "/evidence_age_seconds",
        "/progress",
        "/lock/waiters",
        "/node",
    ] {
        assert_eq!(body.pointer(path), Some(&Value::Null), "{path}");
    }
    let far = ServerTime::at(i64::MAX);
    let mut view = full_task("outbound");
    view.lock_mut().unwrap().hold.as_mut().unwrap().deadline = Some(far);
    assert_eq!(
        task_json(view).pointer("/lock/hold/deadline"),
        Some(&Value::Null),
        "a year with more than four digits"
    );
}

#[test]
fn an_unreadable_task_names_the_remedy() {
    let view = TaskView {
        held: None,
        unknown: Some(Unknown::NoPermission),
        switches_unknown: Some(Unknown::WrongType),
        progress: Some(Box::new(ProgressView {
            missing: Some(Some(Unknown::Layout)),
            ..ProgressView::default()
        })),
        claims_unknown: Some(Unknown::TooLarge),
        ..full_task("outbound")
    };
    let body = task_json(view);
    assert_eq!(body["lock"]["unknown"]["reason"], "no_permission");
    assert_eq!(body["lock"]["unknown"]["remedy"], lockwatch_watch::remedy(Unknown::NoPermission));
    assert_eq!(body["switches_unknown"]["reason"], "wrong_type");
    assert_eq!(body["progress"]["missing"], true);
    assert_eq!(body["claims_unknown"]["reason"], "too_large");
    assert_eq!(body["progress"]["unknown"]["reason"], "layout");
}

#[test]
fn a_reason_says_why_the_lock_or_else_the_switches_cannot_be_read() {
    let reason = |unknown, switches_unknown| {
        let body = task_json(TaskView { unknown, switches_unknown, ..full_task("outbound") });
        body["reason"].as_str().unwrap().to_owned()
    };
    let (lock, switches) = (Unknown::NoPermission, Unknown::WrongType);
    let tells = |reason: &str, why: Unknown| {
        reason.ends_with(&format!(" ({}: {})", why.name(), lockwatch_watch::remedy(why)))
    };
    assert!(tells(&reason(None, Some(switches)), switches));
    assert!(tells(&reason(Some(lock), Some(switches)), lock));
}

#[test]
fn redises_tell_how_they_are() {
    let redises = vec![
        good_redis("main"),
        new_redis("spare"),
        sentinel_redis("behind"),
        cluster_redis("many"),
    ];
    let list = list_json(redises);
    assert_eq!(
        list["stores"][0],
        json!({
            "name": "main", "kind": "standalone", "db": 0, "readable": true, "unknown": null, "blind_seconds": 0.0,
            "clear": false, "problems": [], "masters": 1, "nodes": [{
                "address": "10.0.0.5:6379", "decides": true, "up": true, "unknown": null, "role": "master",
                "role_verified": true, "version": "7.0.15", "last_success": "2027-01-15T08:00:00.000Z",
                "refuses_writes": null, "clock_offset_seconds": -0.012, "locks_behind": null, "deadline_lag_seconds": null,
                "wake_ups": {"state": "on", "reconnects": 2, "hints": [
                    {"name": "read", "count": 40}, {"name": "coalesced", "count": 500}, {"name": "foreign", "count": 6},
                ]},
            }],
            "sentinels": [], "uncovered_slots": 0, "reconnects": 1, "skipped_ticks": 2, "generation_changes": 3,
            "locks_after_change": [
                {"name": "kept", "count": 0}, {"name": "lost", "count": 0}, {"name": "changed", "count": 0},
                {"name": "overlapped", "count": 0}, {"name": "over", "count": 0},
            ],
            "errors": [{"name": "timeout", "count": 5}], "sample_duration": {"count": 5, "sum_seconds": 3.035},
        })
    );
    assert_eq!(
        (&list["stores"][1]["readable"], &list["stores"][1]["nodes"][0]["up"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!((&list["tasks"], &list["sequence"]), (&json!([]), &json!(7)));

    let behind = &list["stores"][2];
    assert_eq!((&behind["kind"], &behind["masters"]), (&json!("sentinel"), &json!(2)));
    assert_eq!(behind["nodes"][2]["deadline_lag_seconds"], json!(1.25));
    assert_eq!(behind["nodes"][2]["wake_ups"], Value::Null);
    assert_eq!(behind["nodes"][3]["unknown"]["reason"], json!("connect"));
    assert_eq!(
        behind["sentinels"][1],
        json!({"address": "10.0.0.6:26379", "master": "10.0.0.6:6379", "unknown": null})
    );
    assert_eq!(behind["sentinels"][3]["unknown"]["reason"], json!("timeout"));
    assert_eq!(behind["locks_after_change"][3], json!({"name": "overlapped", "count": 3}));
    let many = &list["stores"][3];
    assert_eq!(
        many["problems"],
        json!([{
            "problem": "unreachable", "alert": "LockwatchStoreUnreachable", "severity": "page",
            "seconds": 75.0, "event": false,
        }])
    );
    assert_eq!(
        (&many["readable"], &many["blind_seconds"], &many["uncovered_slots"]),
        (&json!(false), &json!(75.0), &json!(12))
    );
}

fn list_json(redises: Vec<StoreView>) -> Value {
    serde_json::from_str(
        &TaskList::new(published(vec![], redises), TaskFilter::default()).collect::<String>(),
    )
    .unwrap()
}

#[test]
fn addresses_are_hostile_bytes_too() {
    let _rule = rule("14 hostile bytes");
    let evil = "evil\"\u{202e}\x1b[2J\n:6379";
    let shown = r#"evil"\xe2\x80\xae\x1b[2J\x0a:6379"#;
    let mut redis = sentinel_redis("main");
    redis.nodes = vec![good_node(evil)];
    redis.announcers = vec![Announcer { address: evil.into(), master: Some(Ok(evil.into())) }];
    let body = &list_json(vec![redis])["stores"][0];
    for path in ["/nodes/0/address", "/sentinels/0/address", "/sentinels/0/master"] {
        assert_eq!(body.pointer(path), Some(&json!(shown)), "{path}");
    }
    let mut view = full_task("outbound");
    view.node = Some(evil.into());
    view.lock_mut().unwrap().rare.witnesses =
        [witness(evil, Role::Master, Some(vec![secret()])), witness("b:1", Role::Replica, None)]
            .into();
    let body = task_json(view);
    assert_eq!((&body["node"], &body["witnesses"][0]["node"]), (&json!(shown), &json!(shown)));
    assert_eq!(body["witnesses"][0]["holders"][0]["digest"], json!(true));
    assert_eq!(body["witnesses"][1]["holders"], Value::Null);
    assert!(!body.to_string().contains("s3cr3t"), "{body}");
}

#[test]
fn a_secret_token_is_never_shown() {
    let _rule = rule("14 hostile bytes");
    let mut view = full_task("outbound");
    view.lock_mut().unwrap().hold = Some(hold(vec![(secret(), None)]));
    let body = task_json(view);
    assert!(!body.to_string().contains("s3cr3t"));
    let holder = &body["lock"]["hold"]["holders"][0];
    assert_eq!(
        (holder["digest"].as_bool(), holder["holder"].as_str().map(str::len)),
        (Some(true), Some(8))
    );
}

fn secret() -> Holder {
    Holder { client: b"s3cr3t\n".to_vec(), thread: None, entries: None, secret: true }
}

/// One event of each kind, and how it must be logged.
pub(crate) fn every_kind() -> Vec<(EventKind, Level, &'static str)> {
    use EventKind as E;
    let holders = vec![secret(), holder(b"evil\x1b[2J")];
    let nodes: Vec<Arc<str>> = vec!["evil\x1b[2J:1".into(), "b:1".into()];
    let parties: Vec<Party> =
        holders.iter().map(|holder| party(holder.clone(), Some("evil\n:1"))).collect();
    let failover_report = FailoverReport {
        from: Some(nodes[0].clone()),
        to: Some(nodes[1].clone()),
        ..FailoverReport::default()
    };
    let verdict =
        |to| E::Verdict { from: Some(Verdict::Running), to, rule: verdict_rule("gap_over_grace") };
    let ended = |reason| E::HoldEnded { holders: holders.clone(), reason, held_ms: Some(61_000) };
    let users = vec![b"dora".to_vec(), b"\xff".to_vec()];
    vec![
        (verdict(Verdict::Down), Level::ERROR, "verdict"),
        (verdict(Verdict::Unknown), Level::WARN, "verdict"),
        (
            E::Verdict { from: None, to: Verdict::Stopped, rule: verdict_rule("free_unset") },
            Level::INFO,
            "verdict",
        ),
        (E::Acquired { holders: holders.clone() }, Level::INFO, "acquired"),
        (ended(End::Expired), Level::WARN, "hold_ended"),
        (ended(End::EndedEarly), Level::INFO, "hold_ended"),
        (E::LockLost { holders: holders.clone(), sign: LossSign::Data }, Level::WARN, "lock_lost"),
        (E::LockLost { holders: holders.clone(), sign: LossSign::Claim }, Level::WARN, "lock_lost"),
        (
            E::LockLost { holders: holders.clone(), sign: LossSign::Progress },
            Level::WARN,
            "lock_lost",
        ),
        (E::Shortened { by_ms: 5 }, Level::DEBUG, "shortened"),
        (E::GapBegan, Level::INFO, "gap_began"),
        (E::GapEnded { gap_ms: 1_500 }, Level::INFO, "gap_ended"),
        (E::PhantomHold { held_ms: 900 }, Level::INFO, "phantom_hold"),
        (E::Outage { outage_ms: 33_000 }, Level::WARN, "outage"),
        (
            E::SplitBegan { kind: SplitKind::Masters, parties: parties.clone(), left_ms: Some(5) },
            Level::ERROR,
            "split_began",
        ),
        (
            E::SplitBegan { kind: SplitKind::Claims, parties: parties.clone(), left_ms: None },
            Level::ERROR,
            "split_began",
        ),
        (E::RivalInDoubt { older: parties.clone(), newer: parties }, Level::WARN, "rival_in_doubt"),
        (E::SplitEnded { kind: SplitKind::Claims, lasted_ms: 7 }, Level::INFO, "split_ended"),
        (
            E::OverlapInDoubt { before: holders.clone(), now: holders.clone(), left_ms: 9 },
            Level::WARN,
            "overlap_in_doubt",
        ),
        (E::SwitchesLost { users }, Level::ERROR, "switches_lost"),
        (E::SwitchesFound, Level::INFO, "switches_found"),
        (E::Switched { user: b"anna".to_vec(), on: true }, Level::INFO, "switched"),
        (E::DrillBegan { by: Some(b"anna".to_vec()) }, Level::INFO, "drill_began"),
        (E::DrillBegan { by: None }, Level::INFO, "drill_began"),
        (
            E::DrillEnded { why: DrillEnd::NotRenewed, lasted_ms: 30_000 },
            Level::INFO,
            "drill_ended",
        ),
        (
            E::SwitchUndecodable { user: b"a\nb".to_vec(), fits: Some(Codec::Jdk) },
            Level::WARN,
            "switch_undecodable",
        ),
        (
            E::SwitchUndecodable { user: b"a".to_vec(), fits: None },
            Level::WARN,
            "switch_undecodable",
        ),
        (E::SwitchKeyMissing, Level::WARN, "switch_key_missing"),
        (E::ProgressMissing { why: None }, Level::WARN, "progress_missing"),
        (E::ProgressMissing { why: Some(Unknown::WrongType) }, Level::WARN, "progress_missing"),
        (E::ClaimsUnreadable { why: Unknown::TooLarge }, Level::WARN, "claims_unreadable"),
        (E::HostsUnreadable { why: Unknown::NoPermission }, Level::WARN, "hosts_unreadable"),
        (E::PauseUndecodable, Level::WARN, "pause_undecodable"),
        (E::PauseUnreadable { why: Unknown::NoPermission }, Level::WARN, "pause_unreadable"),
        (
            E::ClaimBesideFreeLock { instance: holder(b"srv\0") },
            Level::WARN,
            "claim_beside_free_lock",
        ),
        (
            E::ExecutedAgain {
                id: b"m\n1".to_vec(),
                before: vec![holder(b"A")],
                now: vec![holder(b"B")],
            },
            Level::WARN,
            "executed_again",
        ),
        (
            E::ExecutionExpired { id: b"m1".to_vec(), holders: vec![holder(b"A")], goes_on: true },
            Level::WARN,
            "execution_expired",
        ),
        (
            E::DeadHolder {
                id: b"m1".to_vec(),
                holders: vec![holder(b"A")],
                until: Some(ServerTime::at(1_000)),
            },
            Level::WARN,
            "dead_holder",
        ),
        (
            E::LockOutlivedTask { id: b"m1".to_vec(), holders: vec![holder(b"A")], until: None },
            Level::WARN,
            "lock_outlived_task",
        ),
        (E::MembersVanished { number: 7 }, Level::WARN, "members_vanished"),
        (E::TurnUnknownName { name: b"evil\n".to_vec() }, Level::WARN, "turn_unknown_name"),
        (
            E::TurnOutOfOrder { expected: b"b".to_vec(), came: b"evil\x1b".to_vec() },
            Level::WARN,
            "turn_out_of_order",
        ),
        (E::TokenReset { from: 9, to: -1 }, Level::WARN, "token_reset"),
        (E::LeaseLearned { lease_ms: 30_000 }, Level::DEBUG, "lease_learned"),
        (E::TaskUnreadable { why: Unknown::NoPermission }, Level::WARN, "task_unreadable"),
        (E::TaskReadable, Level::INFO, "task_readable"),
        (E::StoreDown { why: Unknown::Auth, decides: true }, Level::ERROR, "redis_down"),
        (E::StoreDown { why: Unknown::Auth, decides: false }, Level::WARN, "redis_down"),
        (E::StoreUp, Level::INFO, "redis_up"),
        (
            E::GenerationChanged { change: GenerationChange::Flushed },
            Level::WARN,
            "generation_changed",
        ),
        (E::MastersChanged { from: vec![], to: Ok(nodes.clone()) }, Level::INFO, "masters_changed"),
        (
            E::MastersChanged { from: nodes.clone(), to: Ok(nodes.clone()) },
            Level::WARN,
            "masters_changed",
        ),
        (
            E::MastersChanged { from: nodes, to: Err(Unknown::Quorum) },
            Level::ERROR,
            "masters_changed",
        ),
        (E::RivalMaster, Level::WARN, "rival_master"),
        (E::RivalMasterGone, Level::INFO, "rival_master_gone"),
        (E::UnrelatedServers, Level::ERROR, "unrelated_servers"),
        (
            E::FailoverReport(FailoverReport { fates: [2, 0, 1, 0, 3], ..failover_report.clone() }),
            Level::INFO,
            "generation_settled",
        ),
        (
            E::FailoverReport(FailoverReport { fates: [2, 1, 0, 0, 0], ..failover_report.clone() }),
            Level::WARN,
            "generation_settled",
        ),
        (
            E::FailoverReport(FailoverReport { fates: [2, 0, 0, 1, 0], ..failover_report }),
            Level::WARN,
            "generation_settled",
        ),
        (E::ClockStep { by_ms: -2_500 }, Level::WARN, "clock_step"),
    ]
}

fn event(kind: EventKind) -> Event {
    let subject = match kind {
        EventKind::StoreDown { .. }
        | EventKind::StoreUp
        | EventKind::GenerationChanged { .. }
        | EventKind::MastersChanged { .. }
        | EventKind::RivalMaster
        | EventKind::RivalMasterGone
        | EventKind::FailoverReport(_)
        | EventKind::ClockStep { .. } => Subject::Store(StoreIndex(0), "main".into()),
        _ => Subject::Task(stopped_task("out\nbound").spec),
    };
    let server_time = Some(ServerTime::at(1_800_000_000_000));
    Event { at: NOW, server_time, subject, node: Some("evil\x1b[2J:1".into()), kind }
}

fn party(holder: Holder, node: Option<&str>) -> Party {
    Party { holder, node: node.map(Into::into), host: None }
}

#[test]
fn each_kind_is_reported_at_its_level_without_secrets_or_control_characters() {
    let _rule = rule("14 hostile bytes");
    for (kind, level, name) in every_kind() {
        let line = describe(&event(kind));
        assert_eq!((line.level, line.kind), (level, name));
        let [who, node] = [&line.who, &line.node].map(|text| text.as_deref().unwrap_or_default());
        let all = format!("{}|{}|{who}|{node}", line.message, line.subject);
        assert!(!all.contains(char::is_control) && !all.contains("s3cr3t"), "{all:?}");
        assert_eq!(line.server_time.as_deref(), Some("2027-01-15T08:00:00.000Z"));
    }
}

#[test]
fn a_line_says_who_why_and_for_how_long() {
    let holders = vec![secret(), holder(b"evil\x1b[2J")];
    let ended = describe(&event(EventKind::HoldEnded {
        holders,
        reason: End::Expired,
        held_ms: Some(61_500),
    }));
    assert_eq!(ended.who.as_deref().unwrap().split(", ").nth(1), Some(r"evil\x1b[2J"));
    assert_eq!((ended.reason, ended.seconds), (Some("expired"), Some(61.5)));
    let down = describe(&event(EventKind::StoreDown { why: Unknown::Auth, decides: true }));
    assert_eq!(
        (down.reason, down.remedy),
        (Some("auth"), Some(lockwatch_watch::remedy(Unknown::Auth)))
    );
    let verdict = EventKind::Verdict {
        from: Some(Verdict::Pending),
        to: Verdict::Down,
        rule: verdict_rule("gap_over_grace"),
    };
    let verdict = describe(&event(verdict));
    assert_eq!(
        verdict.message,
        format!("pending -> down: {}", verdict_rule("gap_over_grace").sentence())
    );
    let parties = vec![party(holder(b"old"), None), party(holder(b"new"), Some("10.0.0.6:6379"))];
    let split = EventKind::SplitBegan {
        kind: SplitKind::Masters,
        parties: parties.clone(),
        left_ms: Some(12_500),
    };
    let split = describe(&event(split));
    assert_eq!(
        (split.who.as_deref(), split.reason),
        (Some("old, new at 10.0.0.6:6379"), Some("masters"))
    );
    assert_eq!((split.seconds, split.node.as_deref()), (Some(12.5), Some(r"evil\x1b[2J:1")));
    let doubt = describe(&event(EventKind::RivalInDoubt {
        older: parties.clone(),
        newer: vec![parties[1].clone()],
    }));
    assert_eq!(doubt.who.as_deref(), Some("old, new at 10.0.0.6:6379 -> new at 10.0.0.6:6379"));
    let failover_report = FailoverReport {
        changes: vec![GenerationChange::Failover, GenerationChange::Replication],
        from: Some("10.0.0.5:6379".into()),
        to: Some("10.0.0.6:6379".into()),
        bytes_lost: Some(512),
        fates: [7, 1, 0, 2, 3],
        overlap_ms: 17_250,
        blind_ms: 8_000,
    };
    let body = describe(&event(EventKind::FailoverReport(failover_report.clone())));
    assert_eq!(
        body.message,
        "generation changed: 7 kept, 1 lost, 0 changed, 2 overlapped, 3 over; the new master \
         never had the last 512 \
         bytes or more; two holders for at least 17.25 s"
    );
    assert_eq!(
        (body.who.as_deref(), body.reason),
        (Some("10.0.0.5:6379 -> 10.0.0.6:6379"), Some("failover"))
    );
    assert_eq!(body.seconds, Some(8.0));
    let clean = FailoverReport {
        bytes_lost: Some(0),
        fates: [7, 0, 0, 0, 0],
        overlap_ms: 0,
        ..failover_report
    };
    let body = describe(&event(EventKind::FailoverReport(clean)));
    assert_eq!(body.message, "generation changed: 7 kept, 0 lost, 0 changed, 0 overlapped, 0 over");
    let moved = EventKind::MastersChanged {
        from: vec!["a:1".into()],
        to: Ok(vec!["b:1".into(), "c:1".into()]),
    };
    assert_eq!(describe(&event(moved)).who.as_deref(), Some("a:1 -> b:1, c:1"));
    let undecodable =
        EventKind::SwitchUndecodable { user: b"a".to_vec(), fits: Some(Codec::Kryo5) };
    assert!(describe(&event(undecodable)).message.contains("kryo5"));
}

/// Collects what a tracing subscriber writes.
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
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
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
            log.write(Mono::at(n as u64 * 10_000), &event(kind.clone()));
        }
    });
    assert_eq!(lines.len(), kinds.len());
    for (line, (_, level, name)) in lines.iter().zip(&kinds) {
        assert_eq!(
            (line["level"].as_str(), line["fields"]["event"].as_str()),
            (Some(level.as_str()), Some(*name))
        );
        assert!(
            line["fields"]["message"].as_str().is_some_and(|message| !message.is_empty()),
            "{line}"
        );
        assert_eq!(line["fields"]["node"], json!(r"evil\x1b[2J:1"));
        assert_ne!(
            line["fields"].get("task").is_some(),
            line["fields"].get("store").is_some(),
            "{line}"
        );
    }
    let outage = lines.iter().find(|line| line["fields"]["event"] == "outage").unwrap();
    assert_eq!(
        (&outage["fields"]["seconds"], &outage["fields"]["task"]),
        (&json!(33.0), &json!("out\\x0abound"))
    );
}

#[test]
fn a_storm_of_events_becomes_a_few_lines_and_a_count() {
    let mut log = EventLog::default();
    let lines = logged(|| {
        (0..500).for_each(|_| log.write(Mono::at(5_000), &event(EventKind::GapBegan)));
        log.tick(Mono::at(5_500));
        log.tick(Mono::at(6_000));
        log.tick(Mono::at(7_000));
    });
    assert_eq!(lines.len(), 6, "{lines:#?}");
    assert_eq!(lines[5]["fields"]["suppressed"], 495);
    assert_eq!(lines[5]["fields"]["event"], "gap_began");
}
