//! Users' switches: on, off, and written by the serializers of real services.

use crate::support::PATIENCE;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::{LOCK, Scene, TASK, USERS, check_calm, greatest, one_task, verdicts};
use crate::support::truth::rule;

/// Switched on after a time longer than any threshold. Its worker needs three seconds, within the
/// grace of six.
#[test]
fn a_task_that_is_switched_on_is_pending_until_its_worker_starts_and_never_down_or_stalled() {
    let test = "live::switches: switched on";
    let progress = "progress: {hash: \"outbound:stats\", field: last_run, stale_after: 1500ms}";
    let more = format!("grace: 6s, settle: 1s, {progress}");
    let Some(mut scene) = Scene::open(test, "500ms", &one_task(&more)) else { return };
    scene.connect("c1", 3_000);
    scene.switch("anna", "0");
    let moves =
        |run: u32| scene.server.cli(&["hset", "outbound:stats", "last_run", &run.to_string()]);
    moves(1);
    scene.agent.until(PATIENCE, "stopped", |page| page.verdict(TASK) == "stopped");
    sleep(Duration::from_secs(3));

    let watch = scene.agent.watch();
    sleep(Duration::from_millis(300));
    scene.switch("anna", "1");
    sleep(Duration::from_secs(3));
    scene.redisson.run(&format!("lock c1 t1 {LOCK}"));
    for run in 2..6 {
        sleep(Duration::from_millis(500));
        scene.server.cli(&["hset", "outbound:stats", "last_run", &run.to_string()]);
    }
    let count = |page: &super::Exposition| page.of(TASK, "task_handover_seconds_count");
    scene.agent.until(PATIENCE, "it has settled", |page| count(page) == Some(1.0));
    let pages = watch.stop();

    assert_eq!(verdicts(&pages, TASK), ["stopped", "pending", "running"]);
    assert!(scene.agent.log_lines(&["event=verdict", "down"]).is_empty(), "{}", scene.agent.log());
    assert_eq!(greatest(&pages, TASK, "task_stalled_seconds"), 0.0);
    let waited = greatest(&pages, TASK, "task_down_seconds");
    assert!(
        (2.0..4.5).contains(&waited),
        "it counts from the switch on, not from before: {waited}"
    );
}

/// The order of events in a service: the switch goes off, then the worker sees it and releases.
#[test]
fn switch_offs_with_a_release_soon_after_leave_no_gap() {
    let _rule = rule("5 order");
    const ROUNDS: u32 = 30;
    let test = "live::switches: off";
    let Some(mut scene) = Scene::open(test, "100ms", &one_task("grace: 1s, settle: 300ms")) else {
        return;
    };
    for client in ["c1", "c2"] {
        scene.connect(client, 3_000);
    }
    scene.switch("anna", "0");
    scene.agent.until(PATIENCE, "stopped", |page| page.verdict(TASK) == "stopped");
    let watch = scene.agent.watch();
    for round in 0..ROUNDS {
        // The readings fall into all phases of the rounds, and the two workers alternate.
        let client = if round % 2 == 0 { "c1" } else { "c2" };
        scene.redisson.run(&format!("lock {client} t1 {LOCK}"));
        scene.switch("anna", "1");
        sleep(Duration::from_millis(u64::from(250 + round * 37 % 230)));
        scene.switch("anna", "0");
        sleep(Duration::from_millis(200));
        scene.redisson.run(&format!("unlock {client} t1 {LOCK}"));
        sleep(Duration::from_millis(u64::from(50 + round * 71 % 190)));
    }
    scene.agent.until(PATIENCE, "stopped", |page| page.verdict(TASK) == "stopped");
    let pages = watch.stop();

    let last = pages.last().unwrap();
    assert!(
        last.of(TASK, "lock_acquisitions_total") >= Some(f64::from(ROUNDS - 2)),
        "{}",
        last.text()
    );
    assert!(last.time(TASK, "wanted") > Some(3.0), "{}", last.text());
    assert_eq!(last.time(TASK, "down"), Some(0.0), "{}", scene.agent.log());
    for never in ["task_handover_seconds_count", "task_outage_seconds_count"] {
        assert_eq!(last.of(TASK, never), Some(0.0), "{never}\n{}", scene.agent.log());
    }
    check_calm(&scene.agent, &pages, TASK);
    assert!(scene.agent.log_lines(&["event=gap_began"]).is_empty(), "{}", scene.agent.log());
}

/// Every hold is too short to settle, so the gap continues, grows past the grace and never starts
/// again.
#[test]
fn a_holder_that_takes_the_lock_for_a_second_at_a_time_does_not_end_being_down() {
    let _rule = rule("8 settling");
    let test = "live::switches: crash loop";
    let Some(mut scene) = Scene::open(test, "500ms", &one_task("grace: 8s")) else { return };
    scene.connect("c1", 9_000);
    scene.switch("anna", "1");
    scene.agent.until(PATIENCE, "pending", |page| page.verdict(TASK) == "pending");
    let watch = scene.agent.watch();
    let began = Instant::now();
    for round in 1..=4 {
        scene.redisson.run(&format!("lock c1 t1 {LOCK}"));
        sleep(Duration::from_secs(1));
        scene.redisson.run(&format!("unlock c1 t1 {LOCK}"));
        sleep((round * Duration::from_secs(5)).saturating_sub(began.elapsed()));
    }
    scene.agent.until(PATIENCE, "down", |page| page.verdict(TASK) == "down");
    let pages = watch.stop();

    let down: Vec<f64> =
        pages.iter().map(|page| page.of(TASK, "task_down_seconds").unwrap()).collect();
    assert!(down.is_sorted(), "{down:?}");
    assert!(
        down.last() > Some(&18.0) && down.last() < Some(&24.0),
        "all of the time but the start: {:?}",
        down.last()
    );
    let last = pages.last().unwrap();
    assert_eq!(last.of(TASK, "lock_acquisitions_total"), Some(4.0));
    assert_eq!(last.of(TASK, "task_handover_seconds_count"), Some(0.0));
    let shown = verdicts(&pages, TASK);
    assert!(shown.contains(&"running".to_owned()), "a hold is shown while it lasts: {shown:?}");
}

/// Two tasks on each hash: one reads it with the codec that wrote it, one without.
#[test]
fn switches_written_by_kryo_and_by_jdk_serialization_are_read_with_their_codec_and_named_without() {
    let test = "live::switches: codecs";
    let task = |name: &str, hash: &str, codec: &str| {
        format!(
            "  - {{name: {name}, lock: {{key: \"{name}:lock\"}}, wanted: {{hash: \
             \"{hash}\"{codec}}}}}\n"
        )
    };
    let tasks = [
        task("kryo", "users:kryo5", ", codec: kryo5"),
        task("kryo_raw", "users:kryo5", ""),
        task("jdk", "users:jdk", ", codec: jdk"),
        task("jdk_raw", "users:jdk", ""),
    ];
    let Some(mut scene) = Scene::open(test, "200ms", &tasks.concat()) else { return };
    scene.connect("c1", 3_000);
    for codec in ["kryo5", "jdk"] {
        // As Redisson writes a map by default: the user's name goes through the codec too.
        scene.redisson.run(&format!("map-put c1 users:{codec} anna bool true {codec}"));
        scene
            .redisson
            .run(&format!("map-put c1 users:{codec} ben bool false {codec} field_codec=raw"));
        scene
            .redisson
            .run(&format!("map-put c1 users:{codec} carl string off {codec} field_codec=raw"));
    }
    for (task, codec) in [("kryo", "kryo5"), ("jdk", "jdk")] {
        let read = |page: &super::Exposition| page.of(task, "task_switches") == Some(3.0);
        let page = scene.agent.until(PATIENCE, "three switches", read);
        assert_eq!(page.of(task, "task_wanted"), Some(1.0));
        assert_eq!(page.of(task, "task_wanting_users"), Some(1.0));
        let raw = format!("{task}_raw");
        let unknown = |page: &super::Exposition| page.of(&raw, "task_switches") == Some(3.0);
        let page = scene.agent.until(PATIENCE, "three switches without the codec", unknown);
        assert_eq!(page.of(&raw, "task_wanted"), None, "neither on nor off");
        let switches = scene.agent.task(&raw)["switches"].clone();
        let ben =
            switches.as_array().unwrap().iter().find(|switch| switch["user"] == "ben").unwrap();
        assert_eq!(
            (&ben["state"], &ben["fits"]),
            (&"undecodable".into(), &codec.into()),
            "{switches}"
        );
        let lines = scene.agent.log_lines(&[
            "event=switch_undecodable",
            &format!("task={raw} "),
            "who=ben",
        ]);
        assert!(
            lines.len() == 1 && lines[0].contains(&format!("the codec {codec} would read it")),
            "{lines:?}"
        );
        assert!(lines[0].contains("remedy="), "{lines:?}");
    }
    assert!(scene.server.cli(&["hkeys", USERS]).is_empty());
}
