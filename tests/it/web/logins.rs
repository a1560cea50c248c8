//! Logins, headers and the rate limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::{Folder, login, serve, users};
use crate::support::PATIENCE;

/// It is answered however long ago the test's snapshot was made.
const PATH: &str = "/style.css";

#[tokio::test]
async fn only_the_right_password_of_a_user_is_let_in() {
    let folder = Folder::new();
    let served = serve(&folder, &users(&["ann", "bob"])).await;
    let ask = async |headers: &str| served.server.ask("GET", "/metrics", headers).await.status;
    assert_eq!(ask(&login("ann", "ann-pw")).await, 200);
    assert_eq!(ask(&login("bob", "bob-pw")).await, 200);
    for wrong in [
        String::new(),
        login("ann", "bob-pw"),
        login("ann", ""),
        login("eve", "ann-pw"),
        login("Ann", "ann-pw"),
        "Authorization: Bearer ann-pw\r\n".to_owned(),
        "Authorization: Basic YW5u\r\n".to_owned(),
        "Authorization: Basic !\r\n".to_owned(),
    ] {
        assert_eq!(ask(&wrong).await, 401, "{wrong}");
    }
    let missing = served.server.ask("GET", "/nothing", "").await;
    assert_eq!(missing.status, 401, "who has not logged in learns of no path");
}

/// The same steps for a user that exists and one that does not: a check with bcrypt each.
#[tokio::test]
async fn an_unknown_user_costs_as_much_as_a_known_one() {
    let folder = Folder::new();
    let served = serve(&folder, &users(&["ann", "bob"])).await;
    for (nth, user) in ["ann", "bob", "eve", "mallory", ""].into_iter().enumerate() {
        let answer = served.server.ask("GET", "/metrics", &login(user, "wrong")).await;
        assert_eq!(answer.status, 401);
        assert_eq!(served.web.logins.checks(), nth as u64 + 1, "{user}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scrapes_with_the_right_login_go_on_under_a_flood_of_wrong_ones() {
    let folder = Folder::new();
    // At a cost at which a processor makes some checks each second, and never 10,000.
    let hash = bcrypt::hash("ann-pw", 10).unwrap();
    let served = serve(&folder, &format!("basic_auth_users:\n  ann: {hash}\n")).await;
    let right = login("ann", "ann-pw");
    assert_eq!(served.server.ask("GET", PATH, &right).await.status, 200);
    let served = Arc::new(served);
    let (ended, wrong) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let flood: Vec<_> = (0..16)
        .map(|client| {
            let (served, ended, wrong) = (served.clone(), ended.clone(), wrong.clone());
            tokio::spawn(async move {
                while !ended.load(Ordering::Relaxed) {
                    let nth = wrong.fetch_add(1, Ordering::Relaxed);
                    let login = login("ann", &format!("wrong {client} {nth}"));
                    let status = served.server.ask("GET", PATH, &login).await.status;
                    assert!(matches!(status, 401 | 429), "{status}");
                }
            })
        })
        .collect();
    let start = Instant::now();
    let mut scrapes = 0;
    while scrapes < 50 || wrong.load(Ordering::Relaxed) < 1_000 {
        assert!(start.elapsed() < PATIENCE, "{scrapes} scrapes");
        assert_eq!(served.server.ask("GET", PATH, &right).await.status, 200);
        scrapes += 1;
    }
    ended.store(true, Ordering::Relaxed);
    for client in flood {
        client.await.unwrap();
    }
    let (checks, wrong) = (served.web.logins.checks(), wrong.load(Ordering::Relaxed));
    assert!(checks < wrong as u64 / 2, "{checks} checks of {wrong} wrong logins");
}

#[tokio::test]
async fn the_rate_limit_answers_429() {
    let folder = Folder::new();
    let served = serve(&folder, "rate_limit: {interval: 1h, burst: 3}").await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(served.server.ask("GET", PATH, "").await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429, 429]);
}

#[tokio::test]
async fn the_rate_limit_lets_one_more_come_each_interval() {
    let folder = Folder::new();
    let served = serve(&folder, "rate_limit: {interval: 20ms, burst: 1}").await;
    let start = Instant::now();
    let mut answered = 0;
    while answered < 5 {
        assert!(start.elapsed() < PATIENCE);
        answered += usize::from(served.server.ask("GET", PATH, "").await.status == 200);
    }
    assert!(start.elapsed() >= Duration::from_millis(4 * 20), "{:?}", start.elapsed());
}

#[tokio::test]
async fn headers_of_the_file_stand_on_every_response() {
    let folder = Folder::new();
    let text = format!(
        "http_server_config:\n  headers:\n    X-Frame-Options: deny\n    X-XSS-Protection: 1\n    \
         Strict-Transport-Security: max-age=7\n    Content-Security-Policy: default-src 'self'\n{}",
        users(&["ann"])
    );
    let served = serve(&folder, &text).await;
    for (path, headers, status) in [
        ("/", login("ann", "ann-pw"), 200),
        ("/metrics", String::new(), 401),
        ("/nothing", login("ann", "ann-pw"), 404),
    ] {
        let answer = served.server.ask("GET", path, &headers).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("x-frame-options"), Some("deny"));
        assert_eq!(answer.header("x-xss-protection"), Some("1"));
        assert_eq!(answer.header("strict-transport-security"), Some("max-age=7"));
        assert_eq!(answer.header("content-security-policy"), Some("default-src 'self'"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "lockwatch's own");
    }
}
