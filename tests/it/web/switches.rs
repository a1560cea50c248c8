//! Users flip their own switch on the page: with a login, from this site alone, and only where it
//! is configured.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;

use super::{Folder, login, users};
use crate::support::PATIENCE;
use crate::support::agent::{Agent, program};
use crate::support::redis::RedisServer;
use crate::support::wait_until;

const PATH: &str = "/api/v1/tasks/outbound/want";
const JSON: &str = "Content-Type: application/json\r\n";

/// An agent whose store lets users flip switches, with a login of its own for that.
struct Desk {
    server: RedisServer,
    agent: Agent,
    folder: Folder,
}

fn config(folder: &Folder, port: u16, want: &str) -> String {
    let password = folder.put("want-password", "c4nary-want\n").display().to_string();
    let want = want.replace("PASSWORD", &password);
    format!(
        "redis: {{main: {{url: 'redis://127.0.0.1:{port}/0'{want}}}}}\ntasks:\n\
         - {{name: outbound, lock: {{key: a}}, wanted: {{hash: users}}}}\n\
         - {{name: counted, lock: {{key: b}}, wanted: {{counter: count}}}}\n\
         - {{name: bare, lock: {{key: c}}}}\n"
    )
}

const ON_PAGE: &str = ", want: {username: wanter, password_file: PASSWORD, page: true}";

impl Desk {
    fn start(test: &str, want: &str) -> Option<Desk> {
        let server = RedisServer::start(&format!("web::switches::{test}"))?;
        server.cli(&["ACL", "SETUSER", "wanter", "on", ">c4nary-want", "~*", "+@all"]);
        let folder = Folder::new();
        let web = folder.web(&users(&["anna", "bert"]));
        let agent = Agent::start_with(&config(&folder, server.port, want), |command| {
            command.arg("--web.config.file").arg(&web);
        });
        Some(Desk { server, agent, folder })
    }

    /// Status and body of the answer.
    fn ask(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.agent.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let port = self.agent.port;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n{headers}Content-Length: {}\r\n\
             \r\n{body}",
            body.len()
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    fn flip(&self, user: &str, wish: &str) -> (u16, String) {
        let headers = format!("{JSON}{}", login(user, &format!("{user}-pw")));
        self.ask("POST", PATH, &headers, &format!(r#"{{"want": "{wish}"}}"#))
    }

    fn switch(&self, user: &str) -> String {
        self.server.cli(&["HGET", "users", user])
    }

    fn page(&self) -> String {
        let (status, page) = self.ask("GET", "/tasks/outbound", &login("anna", "anna-pw"), "");
        assert_eq!(status, 200, "{page}");
        page
    }

    /// The users of Redis that are logged in now.
    fn redis_users(&self) -> String {
        self.server.cli(&["CLIENT", "LIST"])
    }
}

#[test]
fn a_user_flips_the_own_switch_and_all_see_who_it_was() {
    let Some(desk) = Desk::start("a_user_flips_the_own_switch", ON_PAGE) else { return };
    assert!(!desk.redis_users().contains("user=wanter"), "nobody writes before it is asked");
    let page = desk.page();
    assert!(page.contains(&format!("data-path=\"{PATH}\"")) && page.contains("anna"), "{page}");
    let (status, answer) = desk.flip("anna", "on");
    assert_eq!(status, 200, "{answer}");
    assert_eq!((desk.switch("anna").as_str(), desk.switch("bert").as_str()), ("true", ""));
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["task"], "outbound");
    assert_eq!(desk.flip("bert", "on").0, 200);
    assert_eq!(desk.flip("anna", "off").0, 200);
    assert_eq!((desk.switch("anna").as_str(), desk.switch("bert").as_str()), ("false", "true"));
    assert_eq!(desk.flip("anna", "off").0, 200, "it is so already");

    let (_, events) = desk.ask("GET", "/api/v1/events", &login("bert", "bert-pw"), "");
    let events: Value = serde_json::from_str(&events).unwrap();
    let switched: Vec<_> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["kind"] == "switched")
        .map(|event| (event["who"].as_str().unwrap(), event["message"].as_str().unwrap()))
        .collect();
    let (on, off) =
        ("a user switched the task on, on the page", "a user switched the task off, on the page");
    assert_eq!(switched, [("anna", on), ("bert", on), ("anna", off)]);
    wait_until(PATIENCE, "the log names them", || {
        desk.agent.log_lines(&["switched", "anna"]).len() == 2
    });
    assert!(!desk.agent.log().contains("c4nary"));
    wait_until(PATIENCE, "the page shows it", || desk.page().contains(">bert</th>"));
    wait_until(PATIENCE, "the login is used only while it is needed", || {
        !desk.redis_users().contains("user=wanter")
    });
}

#[test]
fn no_other_site_and_no_wrong_request_flips_anything() {
    let Some(desk) = Desk::start("no_other_site", ON_PAGE) else { return };
    let anna = login("anna", "anna-pw");
    let on = r#"{"want": "on"}"#;
    let port = desk.agent.port;
    let with = |headers: &str| format!("{anna}{headers}");
    let cases: Vec<(&str, &str, String, &str, u16)> = vec![
        ("no login", PATH, JSON.to_owned(), on, 401),
        ("a wrong login", PATH, format!("{JSON}{}", login("anna", "x")), on, 401),
        ("another site", PATH, with(&format!("{JSON}Origin: https://evil.example\r\n")), on, 403),
        ("a hidden origin", PATH, with(&format!("{JSON}Origin: null\r\n")), on, 403),
        ("another port", PATH, with(&format!("{JSON}Origin: http://127.0.0.1:1\r\n")), on, 403),
        ("cross-site", PATH, with(&format!("{JSON}Sec-Fetch-Site: cross-site\r\n")), on, 403),
        ("same-site", PATH, with(&format!("{JSON}Sec-Fetch-Site: same-site\r\n")), on, 403),
        (
            "another site with our origin",
            PATH,
            with(&format!(
                "{JSON}Sec-Fetch-Site: cross-site\r\nOrigin: http://127.0.0.1:{port}\r\n"
            )),
            on,
            403,
        ),
        (
            "a form",
            PATH,
            with("Content-Type: application/x-www-form-urlencoded\r\n"),
            "want=on",
            415,
        ),
        ("a form of text", PATH, with("Content-Type: text/plain\r\n"), on, 415),
        ("no type", PATH, with(""), on, 415),
        ("somebody else", PATH, with(JSON), r#"{"want": "on", "user": "bert"}"#, 400),
        ("no wish", PATH, with(JSON), "{}", 400),
        ("another wish", PATH, with(JSON), r#"{"want": "maybe"}"#, 400),
        ("nothing", PATH, with(JSON), "", 400),
        ("a parameter", "/api/v1/tasks/outbound/want?user=bert", with(JSON), on, 400),
        ("no such task", "/api/v1/tasks/nothing/want", with(JSON), on, 404),
        ("a counter", "/api/v1/tasks/counted/want", with(JSON), on, 404),
        ("no switches", "/api/v1/tasks/bare/want", with(JSON), on, 404),
    ];
    for (what, path, headers, body, expected) in cases {
        let (status, answer) = desk.ask("POST", path, &headers, body);
        assert_eq!(status, expected, "{what}: {answer}");
        assert_eq!(desk.server.cli(&["EXISTS", "users"]), "0", "{what}");
    }
    let long = format!("{:2000}", on);
    assert_eq!(desk.ask("POST", PATH, &with(JSON), &long).0, 413);
    for method in ["GET", "PUT", "DELETE"] {
        assert_eq!(desk.ask(method, PATH, &with(JSON), on).0, 405, "{method}");
    }
    let options = desk.ask("OPTIONS", PATH, "Origin: https://evil.example\r\n", "");
    assert_eq!(options.0, 401, "no other site is allowed anything");
    // The page itself may.
    let own =
        with(&format!("{JSON}Sec-Fetch-Site: same-origin\r\nOrigin: http://127.0.0.1:{port}\r\n"));
    assert_eq!(desk.ask("POST", PATH, &own, on).0, 200);
    assert_eq!(desk.switch("anna"), "true");
}

#[test]
fn unless_it_is_configured_there_is_nothing() {
    for want in ["", ", want: {username: wanter, password_file: PASSWORD}"] {
        let Some(desk) = Desk::start("unless_it_is_configured", want) else { return };
        let (status, _) = desk.flip("anna", "on");
        assert_eq!(status, 404, "{want}");
        assert_eq!(desk.server.cli(&["EXISTS", "users"]), "0");
        assert!(!desk.page().contains("own-switch"), "{want}");
        // A reload turns it on, and off again.
        desk.agent.write_config(&config(&desk.folder, desk.server.port, ON_PAGE));
        desk.agent.signal("HUP");
        wait_until(PATIENCE, "it is there", || desk.flip("anna", "on").0 == 200);
        desk.agent.write_config(&config(&desk.folder, desk.server.port, want));
        desk.agent.signal("HUP");
        wait_until(PATIENCE, "it is gone", || desk.flip("anna", "on").0 == 404);
    }
}

#[test]
fn refusals_of_redis_are_reported_with_their_remedy() {
    let Some(mut desk) = Desk::start("refusals_of_redis", ON_PAGE) else { return };
    desk.server.cli(&["ACL", "SETUSER", "wanter", "-@all", "+@read", "+@connection", "+role"]);
    let (status, answer) = desk.flip("anna", "on");
    assert_eq!(status, 409, "{answer}");
    assert!(answer.contains("lockwatch acl"), "{answer}");
    desk.server.cli(&["ACL", "SETUSER", "wanter", "+@all", "resetpass", ">other"]);
    let (status, answer) = desk.flip("anna", "on");
    assert!(matches!(status, 409 | 503), "{status} {answer}");
    assert!(!answer.contains("c4nary") && answer.contains("error"), "{answer}");
    desk.server.cli(&["ACL", "SETUSER", "wanter", "resetpass", ">c4nary-want"]);
    desk.server.cli(&["SET", "users", "no hash"]);
    let (status, answer) = desk.flip("anna", "on");
    assert_eq!(status, 409, "{answer}");
    assert!(answer.contains("but holds a string"), "{answer}");
    desk.server.kill();
    let (status, answer) = desk.flip("anna", "on");
    assert_eq!(status, 503, "{answer}");
    assert!(answer.contains("error"), "{answer}");
    let (_, events) = desk.ask("GET", "/api/v1/events", &login("anna", "anna-pw"), "");
    assert!(!events.contains("\"switched\""), "nothing was switched: {events}");
}

#[test]
fn without_a_login_the_configuration_is_refused() {
    let folder = Folder::new();
    let file = folder.put("lockwatch.yml", &config(&folder, 1, ON_PAGE));
    let web = folder.web("rate_limit: {interval: 0}");
    for arguments in [
        vec![],
        vec!["--web.config.file".to_owned(), web.display().to_string()],
        vec!["check-config".to_owned(), "--web.config.file".to_owned(), web.display().to_string()],
    ] {
        let mut program = program();
        let output = program.args(&arguments).arg("--config.file").arg(&file).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("redis.main.want.page: needs to know who flips a switch"), "{said}");
        assert!(said.contains("basic_auth_users"), "{said}");
    }
    fs::remove_file(file).unwrap();
}
