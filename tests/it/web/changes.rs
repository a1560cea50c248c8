//! What happens when the web file, or a file that it names, changes while the agent runs.

use std::fs;
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use super::{Client, Folder, Served, TLS, login, serve, users};
use crate::support::PATIENCE;
use crate::support::agent::Agent;
use crate::support::certificates::{Authority, Life};
use crate::support::wait_until;

/// It is answered however long ago the test's snapshot was made.
const PATH: &str = "/style.css";

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// How long it takes until the files were read again several times.
const SEVERAL_LOOKS: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_new_certificate_is_shown_without_a_restart() {
    let folder = Folder::new();
    let served = serve(&folder, TLS).await;
    let client = folder.client(served.server.address);
    let shown = async || {
        let client = client.clone();
        let shown = tokio::task::spawn_blocking(move || {
            client.connect().unwrap().conn.peer_certificates().unwrap()[0].to_vec()
        });
        shown.await.unwrap()
    };
    let mut seen = vec![shown().await];
    for _ in 0..3 {
        folder.certify(&["127.0.0.1"]);
        until("another certificate", async || !seen.contains(&shown().await)).await;
        seen.push(shown().await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_used_leave_the_earlier_ones_in_force() {
    let folder = Folder::new();
    let text = format!("{TLS}{}", users(&["ann"]));
    let served = serve(&folder, &text).await;
    let client = folder.client(served.server.address);
    let cert = fs::read_to_string(folder.path("server.crt")).unwrap();
    let ann = login("ann", "ann-pw");
    let breaks: [(&str, String); 8] = [
        ("server.crt", cert[..cert.len() / 2].to_owned()),
        ("server.crt", String::new()),
        ("server.key", Authority::new("x").sign(&["a"], Life::Now).key),
        ("web.yml", String::new()),
        ("web.yml", TLS.to_owned()),
        ("web.yml", text[..text.len() - 5].to_owned()),
        ("web.yml", "basic_auth_users: [".to_owned()),
        ("web.yml", users(&["ann"])),
    ];
    let stay_in_force = async |what: &str| {
        let end = Instant::now() + SEVERAL_LOOKS;
        while Instant::now() < end {
            assert_eq!(Client::status_of(client.ask(PATH, &ann).await), 200, "{what}");
            assert_eq!(Client::status_of(client.ask(PATH, "").await), 401, "{what}");
        }
    };
    for (name, contents) in breaks {
        let before = fs::read(folder.path(name)).unwrap();
        folder.put(name, &contents);
        stay_in_force(name).await;
        fs::write(folder.path(name), before).unwrap();
    }
    fs::remove_file(folder.path("web.yml")).unwrap();
    stay_in_force("without the file").await;
    folder.web(&format!("{TLS}{}", users(&["bob"])));
    until("the new user", async || {
        Client::status_of(client.ask(PATH, &login("bob", "bob-pw")).await) == 200
    })
    .await;
    assert_eq!(Client::status_of(client.ask(PATH, &ann).await), 401, "ann is gone");
}

/// A connection that is open and waits for its next request.
async fn opened(served: &Served, client: &Client, headers: &str) -> tokio::task::JoinHandle<()> {
    let (client, headers) = (client.clone(), headers.to_owned());
    let (reported, answered) = tokio::sync::oneshot::channel();
    assert_eq!(client.address, served.server.address);
    let waiting = tokio::task::spawn_blocking(move || {
        let mut stream = client.connect().unwrap();
        write!(stream, "GET /live HTTP/1.1\r\nHost: test\r\n{headers}\r\n").unwrap();
        let mut bytes = [0; 1024];
        assert!(stream.read(&mut bytes).unwrap() > 0);
        reported.send(()).unwrap();
        // Until it is closed.
        while stream.read(&mut bytes).is_ok_and(|length| length > 0) {}
    });
    answered.await.unwrap();
    waiting
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_let_in_by_an_earlier_file_must_come_in_again() {
    let folder = Folder::new();
    let served = serve(&folder, &format!("{TLS}{}", users(&["ann"]))).await;
    let client = folder.client(served.server.address);
    let stream = opened(&served, &client, &login("ann", "ann-pw")).await;
    folder.web(&format!("{TLS}{}", users(&["bob"])));
    tokio::time::timeout(PATIENCE, stream).await.expect("the stream of ann ends").unwrap();
}

#[test]
fn the_log_says_what_is_wrong_once_and_the_agent_goes_on() {
    let folder = Folder::new();
    let web = folder.web(&format!("{TLS}{}", users(&["ann"])));
    let config = "redis: {main: {url: 'redis://127.0.0.1:1/0'}}\n\
        tasks: [{name: a, lock: {key: a}}]\n";
    let agent = Agent::start_with(config, |command| {
        command.arg("--web.config.file").arg(&web);
    });
    let client = folder.client(([127, 0, 0, 1], agent.port).into());
    let ann = login("ann", "ann-pw");
    assert_eq!(client.try_get("/metrics", &ann).unwrap().status, 200);
    folder.web(TLS);
    let reported = ["takes off the login", "what was read before stays in force"];
    wait_until(PATIENCE, "the log reports", || agent.log_lines(&reported).len() == 1);
    assert_eq!(client.try_get("/metrics", "").unwrap().status, 401);
    folder.web(&format!("{TLS}{}", users(&["bob"])));
    wait_until(PATIENCE, "bob may log in", || {
        client.try_get("/metrics", &login("bob", "bob-pw")).unwrap().status == 200
    });
    assert_eq!(agent.log_lines(&reported).len(), 1, "reported once");
    let log = agent.log();
    assert!(!log.contains("$2b$") && !log.contains("PRIVATE KEY") && !log.contains("ann-pw"));
}
