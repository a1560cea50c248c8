//! A script that fails again and again holds its lock as well as one that works. Guards state the
//! runs, and the agent puts them together.

use serde_json::Value;

use super::*;
use crate::support::agent::Agent;

/// A configuration for guards and agents.
fn configured(scene: &Scene, server: &RedisServer, settle: &str) -> String {
    let text = format!(
        "redis: {{main: {{url: \"redis://{}\"}}}}\n\
         tasks:\n\
         - name: outbound\n  \
           lock: {{key: \"{LOCK}\"}}\n  \
           wanted: always\n  \
           settle: {settle}\n  \
           claims: {{hash: claims}}\n  \
           guard: {{lease: 2s, stop_after: 500ms, backoff: 100ms, backoff_max: 300ms}}\n",
        server.address()
    );
    fs::write(scene.path("lockwatch.yml"), &text).unwrap();
    text
}

/// A guard on `host`, whose script is this.
fn guard(scene: &Scene, host: &str, script: &str) -> Guard {
    let file = scene.path("lockwatch.yml");
    let file = ["--config.file", file.to_str().unwrap(), "--host", host, "outbound"];
    scene.start(&file, &["sh", "-c", script].map(str::to_owned))
}

fn fails(task: &Value) -> bool {
    let problems = task["problems"].as_array().unwrap();
    problems.iter().any(|problem| problem["problem"] == "failing")
}

/// All tasks, as `status` shows them.
fn status(agent: &Agent) -> String {
    let url = format!("http://127.0.0.1:{}", agent.port);
    let mut status = Command::new(env!("CARGO_BIN_EXE_lockwatch"));
    let output = status.args(["status", "--agent.url", &url]).env("COLUMNS", "200").output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn a_script_that_fails_at_each_start_is_reported_by_its_exit_code_and_host() {
    let Some(server) = RedisServer::start("guard::failing: at each start") else { return };
    let scene = Scene::new();
    let text = configured(&scene, &server, "1s");
    server.cli(&["hset", "claims", "runs:old", "1-2=1 host=old", "runs:half", "17-18"]);
    let agent = Agent::start(&text);
    let mut first = guard(&scene, "web-1", "sleep 0.2; exit 3");
    until("it fails", || fails(&agent.task("outbound")).then_some(()));
    let task = agent.task("outbound");
    assert_eq!((&task["verdict"], &task["clear"]), (&"running".into(), &false.into()));
    let reason = task["reason"].as_str().unwrap();
    assert!(reason.ends_with("the last one with exit code 3 on web-1."), "{reason}");
    assert_eq!(task["runs"]["unreadable"], 1, "{task:#}");
    assert_eq!(task["runs"]["ended"][0]["asked"], false, "{task:#}");
    let explained = agent.text("/api/v1/tasks/outbound/explain");
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let pages = explained["pages"].as_array().unwrap();
    let page = |alert: &str| pages.iter().find(|page| page["alert"] == alert);
    let failing = page("LockwatchTaskFailing").unwrap();
    assert_eq!((&failing["due"], &failing["finding"]), (&true.into(), &"positive".into()));
    assert!(failing["since"].is_string(), "{failing:#}");
    assert!(failing["because"].as_str().unwrap().contains("exit code 3 after"), "{failing:#}");
    assert_eq!(page("LockwatchSwitchesLost"), None, "there are no switches");
    let table = status(&agent);
    assert!(table.contains("LockwatchTaskFailing for "), "{table}");
    let page = agent.text("/metrics");
    let series = "lockwatch_task_failed_run_timestamp_seconds{\
                  task=\"outbound\",store=\"main\",holder_host=\"web-1\",exit_code=\"3\"}";
    assert!(page.contains(series), "{page}");
    assert_eq!(server.cli(&["hexists", "claims", "runs:old"]), "0", "nobody needs it");

    first.signal("TERM");
    first.ended();
    let mut second = guard(&scene, "web-2", "sleep 0.2; exit 4");
    until("another server has it", || {
        let reason = agent.task("outbound")["reason"].as_str().unwrap().to_owned();
        reason.contains("exit code 4 on web-2").then_some(())
    });
    let newer = Agent::start(&text);
    until("a new agent sees it", || fails(&newer.task("outbound")).then_some(()));
    second.signal("TERM");
    second.ended();
    let _mended = guard(&scene, "web-2", "sleep 1000");
    for agent in [&agent, &newer] {
        until("it is mended", || (agent.task("outbound")["clear"] == true).then_some(()));
        assert!(!fails(&agent.task("outbound")));
    }
}

#[test]
fn a_script_that_fails_after_a_while_does_not_come_and_go() {
    let Some(server) = RedisServer::start("guard::failing: after a while") else { return };
    let scene = Scene::new();
    let agent = Agent::start(&configured(&scene, &server, "1s"));
    let _guard = guard(&scene, "web-1", "sleep 2.5; exit 1");
    until("it fails", || fails(&agent.task("outbound")).then_some(()));
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(8) {
        let task = agent.task("outbound");
        assert!(fails(&task), "{task:#}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn rolling_restarts_are_no_failures() {
    let Some(server) = RedisServer::start("guard::failing: rolling restarts") else { return };
    let scene = Scene::new();
    let agent = Agent::start(&configured(&scene, &server, "1s"));
    let mut restarts = 0;
    let mut guards = vec![guard(&scene, "web-0", "sleep 1000")];
    while restarts < 4 {
        until("it runs", || {
            let task = agent.task("outbound");
            let host = format!("web-{restarts}");
            (task["runs"]["present"][0]["host"] == *host).then_some(())
        });
        restarts += 1;
        guards.push(guard(&scene, &format!("web-{restarts}"), "sleep 1000"));
        let mut guard = guards.remove(0);
        guard.signal("TERM");
        guard.ended();
        assert!(!fails(&agent.task("outbound")));
    }
    until("all is well", || (agent.task("outbound")["clear"] == true).then_some(()));
    let task = agent.task("outbound");
    let ended = task["runs"]["ended"].as_array().unwrap();
    assert_eq!(ended.len(), 3, "{task:#}");
    assert!(ended.iter().all(|run| run["exit_code"] == 143 && run["asked"] == true), "{task:#}");
}

/// A container that runs out of memory takes guard, keeper and script with it: nobody states the
/// end of the run.
#[test]
fn a_script_that_is_killed_with_its_guard_again_and_again_fails() {
    let Some(server) = RedisServer::start("guard::failing: killed with its guard") else { return };
    let scene = Scene::new();
    let text = configured(&scene, &server, "1s");
    let agent = Agent::start(&text);
    let runs_on = |host: &str| {
        until("it runs", || {
            let task = agent.task("outbound");
            let present = task["runs"]["present"].as_array().cloned().unwrap_or_default();
            (present.len() == 1 && present[0]["host"] == *host).then_some(())
        });
    };
    for host in ["web-0", "web-1", "web-2"] {
        let guard = guard(&scene, host, "sleep 1000");
        runs_on(host);
        assert!(!fails(&agent.task("outbound")), "{host}");
        signal("KILL", &guard.processes());
    }
    let _last = guard(&scene, "web-3", "sleep 1000");
    until("it fails", || fails(&agent.task("outbound")).then_some(()));
    runs_on("web-3");
    let task = agent.task("outbound");
    let reason = task["reason"].as_str().unwrap();
    let words = "the last one on web-2, killed together with its guard: no exit code stated.";
    assert!(reason.ends_with(words), "{reason}");
    let newest = &task["runs"]["ended"][2];
    assert!(newest["exit_code"].is_null() && newest["asked"] == false, "{task:#}");
    let page = agent.text("/metrics");
    assert!(page.contains("holder_host=\"web-2\",exit_code=\"not stated (killed)\""), "{page}");
    // A new agent finds it in what is written.
    let newer = Agent::start(&text);
    for agent in [&agent, &newer] {
        until("it works", || (agent.task("outbound")["clear"] == true).then_some(()));
        assert!(!fails(&agent.task("outbound")));
    }
}
