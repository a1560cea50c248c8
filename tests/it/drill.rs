//! Drills of a real agent: what begins and ends one, what is refused, and that nothing but alerts
//! has anything of it.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::agent::{Agent, Response, program};
use crate::support::exposition::{Exposition, Labels};
use crate::support::redis::RedisServer;
use crate::support::{PATIENCE, wait_until};
use crate::web::{Folder, login, users};

const DRILL: &str = "/api/v1/drill";
const TASKS: &str = "labels: [team, severity]\ntasks:\n  \
    - {name: outbound, lock: {key: a}, labels: {team: logistics}}\n  \
    - {name: minor, lock: {key: b}, labels: {severity: warning}}\n";

fn config(server: &RedisServer, rest: &str) -> String {
    format!("redis: {{main: {{url: 'redis://{}'}}}}\n{rest}", server.address())
}

/// An agent that reloads when it is asked to.
fn reloading(config: &str) -> Agent {
    Agent::start_with(config, |command| {
        command.arg("--web.enable-lifecycle");
    })
}

impl Agent {
    fn start_drill(&self, body: Value) -> Response {
        self.post_json(DRILL, "", &body.to_string())
    }

    /// Begins one of `outbound`.
    #[track_caller]
    fn drill(&self, seconds: u64) -> Value {
        let begun = self.start_drill(json!({"task": "outbound", "seconds": seconds}));
        assert_eq!(begun.status, 201, "{}", begun.text());
        begun.json()
    }

    fn change_drill(&self, drill: &Value, body: Value) -> Response {
        let id = drill["id"].as_str().unwrap();
        self.post_json(&format!("{DRILL}/{id}"), "", &body.to_string())
    }

    fn stop_drill(&self, drill: &Value, notified: bool) -> Response {
        self.change_drill(drill, json!({"do": "stop", "notified": notified}))
    }

    fn present_drill(&self) -> Value {
        self.get(DRILL).json()["drill"].take()
    }

    /// The events of drills: their kind, who it was, and the reason.
    fn drill_events(&self) -> Vec<(String, String, String)> {
        let events: Value = self.get("/api/v1/events?kind=drill_began,drill_ended").json();
        let of = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let all = events["events"].as_array().unwrap().iter();
        all.map(|event| {
            assert!(event["task"].is_string(), "{event}");
            (of(event, "kind"), of(event, "who"), of(event, "reason"))
        })
        .collect()
    }
}

impl Response {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{}", self.text()))
    }
}

fn of_drill(page: &Exposition) -> Vec<(&str, &Labels)> {
    page.names().filter(|(_, labels)| labels.contains_key("drill")).collect()
}

#[test]
fn a_drill_is_on_the_next_scrape_and_gone_from_the_first_after_its_end() {
    let Some(server) = RedisServer::start("drill::a_drill_is_on_the_next_scrape") else { return };
    let of_turns = "tasks:\n  - {name: outbound, turn: {hash: t, tasks: [a, b]}}\n";
    let of_a_pattern =
        "tasks:\n  - {name: outbound, lock: {match: 'nothing:*', library: string}}\n";
    for (tasks, metrics) in
        [(TASKS, "lean"), (TASKS, "full"), (of_turns, "lean"), (of_a_pattern, "lean")]
    {
        let agent =
            Agent::start(&config(&server, &format!("drill: true\nmetrics: {metrics}\n{tasks}")));
        for _ in 0..3 {
            let drill = agent.drill(60);
            let page = agent.page();
            let shown = of_drill(&page);
            let names: Vec<&str> = shown.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, ["lockwatch_task_clear", "lockwatch_task_problem_seconds"]);
            let labels: BTreeMap<String, String> =
                serde_json::from_value(drill["labels"].clone()).unwrap();
            assert_eq!(*shown[1].1, labels, "the reply has the labels of the series");
            assert_eq!(labels["drill"], "outbound");
            let started = page.get("process_start_time_seconds", &[]);
            assert_eq!(started, drill["agent_started"].as_f64(), "exactly");
            let problem = page.get("lockwatch_task_problem_seconds", &[("drill", "outbound")]);
            assert!(problem.is_some_and(|seconds| seconds >= 1.0));
            assert_eq!(page.get("lockwatch_task_clear", &[("drill", "outbound")]), Some(0.0));
            assert_eq!(agent.present_drill(), drill);
            let stopped = agent.stop_drill(&drill, false);
            assert!(of_drill(&agent.page()).is_empty());
            assert_eq!((stopped.status, agent.present_drill()), (200, Value::Null));
            assert!(stopped.json()["ends_at"].as_str() < drill["ends_at"].as_str());
        }
        // By itself, too.
        let drill = agent.drill(1);
        agent.until(PATIENCE, "it ends", |page| of_drill(page).is_empty());
        let over = agent.change_drill(&drill, json!({"do": "renew"}));
        assert_eq!(over.status, 404);
        assert!(over.text().contains("is over: its time was over."), "{}", over.text());
    }
}

#[test]
fn no_count_has_anything_of_it_and_everybody_sees_that_it_runs() {
    let Some(server) = RedisServer::start("drill::no_count_has_anything_of_it") else { return };
    let agent = Agent::start(&config(&server, &format!("drill: true\n{TASKS}")));
    agent.until(PATIENCE, "the locks are known to be free", |page| {
        ["outbound", "minor"].iter().all(|task| page.verdict(task) == "stopped")
    });
    let status = || {
        let mut status = program();
        status.args(["status", "--agent.url", &format!("http://127.0.0.1:{}", agent.port)]);
        let output = status.stdout(Stdio::piped()).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), output.status.code())
    };
    let seen = || {
        let tasks: Value = agent.text("/api/v1/tasks").parse().unwrap();
        let page = agent.text("/");
        let (_, counts) = page.split_once("<p id=\"counts\">").unwrap();
        let page_of_metrics = agent.page();
        let mut series = page_of_metrics.names();
        let config = series.find(|(name, _)| *name == "lockwatch_config_info").unwrap().1.clone();
        (
            tasks["tasks"].as_array().unwrap().len(),
            counts.split("</p>").next().unwrap().to_owned(),
            config,
            agent.text("/badge/outbound.svg"),
            status().1,
        )
    };
    let before = seen();
    let pages = ["/", "/tasks/outbound", "/tasks/minor"];
    let banner = |path: &str| {
        let page = agent.text(path);
        let (_, rest) = page.split_once("<p id=\"drill\"").unwrap();
        rest.split_once('>').unwrap().1.split("</p>").next().unwrap().to_owned()
    };
    assert!(pages.iter().all(|path| banner(path).is_empty()));
    assert!(!agent.text("/api/v1/tasks").contains("drill") && !status().0.contains("Drill"));
    let drill = agent.drill(900);
    for path in pages {
        let banner = banner(path);
        assert!(banner.starts_with("Drill since 20"), "{banner}");
        assert!(banner.contains("task outbound (store main). Nothing is wrong."), "{banner}");
    }
    assert!(status().0.contains("\nDrill since "), "{}", status().0);
    let listed: Value = agent.text("/api/v1/tasks").parse().unwrap();
    assert_eq!(listed["drill"], drill);
    assert_eq!(seen(), before);
    for path in
        ["/badge/lockwatch-drill.svg", "/tasks/lockwatch-drill", "/api/v1/tasks/lockwatch-drill"]
    {
        assert_eq!(agent.get(path).status, 404, "{path}");
    }
    agent.stop_drill(&drill, true);
    assert!(pages.iter().all(|path| banner(path).is_empty()));
    let began = ("drill_began".to_owned(), String::new(), String::new());
    let ended = ("drill_ended".to_owned(), String::new(), "stopped".to_owned());
    assert_eq!(agent.drill_events(), [began, ended]);
}

#[test]
fn what_is_wrong_is_refused_with_its_remedy() {
    let Some(server) = RedisServer::start("drill::what_is_wrong_is_refused") else { return };
    let agent = reloading(&config(&server, TASKS));
    let good = json!({"task": "outbound", "seconds": 60});
    let refused = agent.start_drill(good.clone());
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("Write `drill: true`"), "{}", refused.text());
    agent.write_config(&config(&server, &format!("drill: true\n{TASKS}")));
    assert_eq!(agent.post("/-/reload").status, 200);

    let json = "Content-Type: application/json\r\n";
    let good = good.to_string();
    let foreign = format!("{json}Origin: https://evil.example\r\n");
    let [rebound, local] = ["evil.example:10379", "[::1]:10379"]
        .map(|host| format!("{json}Host: {host}\r\nOrigin: http://{host}\r\n"));
    let cases = [
        ("a foreign name", DRILL, rebound.as_str(), good.as_str(), 403, "127.0.0.1 or localhost"),
        ("a local name", DRILL, local.as_str(), "", 400, "seconds"),
        ("another site", DRILL, foreign.as_str(), good.as_str(), 403, "another site's page"),
        ("text", DRILL, "Content-Type: text/plain\r\n", &good, 415, "application/json"),
        ("no type", DRILL, "", &good, 415, "application/json"),
        ("a parameter", "/api/v1/drill?task=outbound", json, &good, 400, "task"),
        ("nothing", DRILL, json, "", 400, "seconds"),
        ("no time", DRILL, json, r#"{"task": "outbound", "seconds": 0}"#, 400, "at least one"),
        ("more", DRILL, json, r#"{"task": "outbound", "seconds": 1, "x": 1}"#, 400, "seconds"),
        (
            "no severity",
            DRILL,
            json,
            r#"{"task": "outbound", "seconds": 1, "severity": ""}"#,
            400,
            "not empty",
        ),
        ("a slip", DRILL, json, r#"{"task": "outbond", "seconds": 1}"#, 404, "mean outbound?"),
        ("another agent's", "/api/v1/drill/00-1", json, r#"{"do": "renew"}"#, 404, "another agent"),
        ("no wish", "/api/v1/drill/00-1", json, r#"{"do": "end"}"#, 400, "renew"),
        ("no word", "/api/v1/drill/00-1", json, r#"{"do": "stop"}"#, 400, "notified"),
    ];
    for (what, path, headers, body, status, words) in cases {
        let refused = agent.send("POST", path, headers, body);
        assert_eq!(refused.status, status, "{what}: {}", refused.text());
        assert!(refused.text().contains(words), "{what}: {}", refused.text());
        assert_eq!(agent.present_drill(), Value::Null, "{what}");
    }
    for (method, path) in [("PUT", DRILL), ("DELETE", DRILL), ("GET", "/api/v1/drill/00-1")] {
        assert_eq!(agent.send(method, path, json, &good).status, 405, "{method} {path}");
    }

    let drill = agent.drill(60);
    let second = agent.start_drill(json!({"task": "minor", "seconds": 60}));
    assert_eq!(second.status, 409);
    assert!(second.text().contains("drill of task outbound since 20"), "{}", second.text());
    assert_eq!(agent.change_drill(&drill, json!({"do": "renew"})).json(), drill);
    agent.stop_drill(&drill, true);
    let early = agent.start_drill(json!({"task": "minor", "seconds": 60}));
    assert_eq!(early.status, 429, "{}", early.text());
    let wait = early.head.lines().find_map(|line| line.strip_prefix("retry-after: "));
    let wait: u64 = wait.unwrap().parse().unwrap();
    assert!((590..=600).contains(&wait) && early.text().contains(&format!("in {wait} s")));
    let after = json!({"task": "minor", "seconds": 60, "severity": "info", "after": drill["id"]});
    let next = agent.start_drill(after);
    assert_eq!((next.status, &next.json()["labels"]["severity"]), (201, &json!("info")));
}

#[test]
fn a_reload_that_forbids_it_or_lacks_its_task_ends_it() {
    let Some(server) = RedisServer::start("drill::a_reload_that_forbids_it") else { return };
    let allowed = config(&server, &format!("drill: true\n{TASKS}"));
    let agent = reloading(&allowed);
    let without = allowed.replace("outbound", "inbound");
    for other in [allowed.replace("drill: true", "drill: false"), without] {
        let drill = agent.drill(900);
        // What leaves it as it is does not end it.
        agent.write_config(&allowed.replace("logistics", "others"));
        assert_eq!(agent.post("/-/reload").status, 200);
        assert_eq!(agent.change_drill(&drill, json!({"do": "renew"})).status, 200);
        agent.write_config(&other);
        assert_eq!(agent.post("/-/reload").status, 200);
        agent.until(PATIENCE, "it ends", |page| of_drill(page).is_empty());
        assert_eq!(agent.drill_events().last().unwrap().2, "reloaded");
        let over = agent.stop_drill(&drill, false);
        assert_eq!(over.status, 200, "it may say late what became of it: {}", over.text());
        agent.write_config(&allowed);
        assert_eq!(agent.post("/-/reload").status, 200);
    }
}

#[test]
fn it_ends_with_the_agent() {
    let Some(server) = RedisServer::start("drill::it_ends_with_the_agent") else { return };
    let mut agent = Agent::start(&config(&server, &format!("drill: true\n{TASKS}")));
    agent.drill(900);
    agent.signal("TERM");
    assert!(agent.ended_within(PATIENCE).success());
    let ended = agent.log_lines(&["drill_ended", "agent_stopped", "task=outbound"]);
    assert_eq!(ended.len(), 1, "{}", agent.log());
}

#[test]
fn where_users_log_in_it_is_known_who_began_it() {
    let Some(server) = RedisServer::start("drill::where_users_log_in") else { return };
    let folder = Folder::new();
    let web = folder.web(&users(&["anna", "bert"]));
    let agent = Agent::start_with(&config(&server, &format!("drill: true\n{TASKS}")), |command| {
        // `:0`: all addresses of this machine.
        command.arg("--web.config.file").arg(&web).args(["--web.listen-address", "0.0.0.0:0"]);
    });
    let body = r#"{"task": "outbound", "seconds": 60}"#;
    assert_eq!(agent.post_json(DRILL, "", body).status, 401);
    assert_eq!(agent.post_json(DRILL, &login("anna", "wrong"), body).status, 401);
    let begun = agent.post_json(DRILL, &login("anna", "anna-pw"), body);
    assert_eq!((begun.status, &begun.json()["by"]), (201, &json!("anna")));
    let second = agent.post_json(DRILL, &login("bert", "bert-pw"), body);
    assert_eq!(second.status, 409);
    assert!(second.text().contains(", by anna."), "{}", second.text());
    wait_until(PATIENCE, "the log says who", || {
        agent.log_lines(&["drill_began", "who=anna"]).len() == 1
    });
}

#[test]
fn without_logins_it_is_allowed_on_this_machine_only() {
    let folder = Folder::new();
    let file = folder.put(
        "lockwatch.yml",
        &format!("redis: {{main: {{url: redis://127.0.0.1:1}}}}\ndrill: true\n{TASKS}"),
    );
    let run = |arguments: &[&str]| {
        let mut agent: Command = program();
        agent.args(arguments).arg("--config.file").arg(&file).output().unwrap()
    };
    let local = run(&["--web.listen-address", "127.0.0.1:0", "--config.check"]);
    assert!(local.status.success(), "{local:?}");
    for listen in [&["0.0.0.0:0"][..], &["[::]:0"], &[":0"], &["127.0.0.1:0", "192.0.2.1:0"]] {
        let arguments: Vec<&str> =
            listen.iter().flat_map(|at| ["--web.listen-address", at]).collect();
        for arguments in [arguments.clone(), [&arguments[..], &["--config.check"]].concat()] {
            let output = run(&arguments);
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
            assert!(said.contains("drill: lets everybody who reaches the agent"), "{said}");
            assert!(said.contains("basic_auth_users") && said.contains("127.0.0.1"), "{said}");
        }
    }
}
