use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::alertmanager::sent;
use super::answer::no_answer;
use super::*;
use crate::http::client::{Answer, Server};

fn answer(status: u16, body: &'static str) -> Answer {
    Answer { status, body: body.into(), ..Answer::default() }
}

#[test]
fn an_exposition_is_read_with_its_escapes() {
    let text = b"# HELP a x\na 1\na{b=\"c\\\"d\\\\e\\nf\",g=\"},\"} 2.5 17\nab 3\na{broken=\"\n";
    let found = samples(text, &["a"]);
    let values: Vec<f64> = found.iter().map(|sample| sample.value).collect();
    assert_eq!(values, [1.0, 2.5]);
    assert_eq!((found[1].label("b"), found[1].label("g")), ("c\"d\\e\nf", "},"));
}

#[test]
fn counters_of_notifications_are_summed_over_reasons() {
    let text = br#"
alertmanager_notifications_total{integration="webhook"} 3
alertmanager_notification_requests_total{integration="webhook"} 5
alertmanager_notification_requests_failed_total{integration="webhook"} 4
alertmanager_notifications_failed_total{integration="webhook",reason="clientError"} 1
alertmanager_notifications_failed_total{integration="webhook",reason="other"} 2
alertmanager_notifications_total{integration="slack",receiver_name="chat"} 7
"#;
    let counted = sent(text).unwrap();
    let webhook = counted[&("webhook".to_owned(), String::new())];
    assert_eq!(webhook, Sent { begun: 3.0, requests: 5.0, requests_failed: 4.0, failed: 3.0 });
    assert_eq!(counted[&("slack".to_owned(), "chat".to_owned())].begun, 7.0);
    assert_eq!(sent(b"up 1\n"), None);
}

#[test]
fn what_is_no_answer_of_the_api_says_what_it_is() {
    let page = no_answer("/x", &answer(200, " <!DOCTYPE html><title>Log in"), "--prometheus");
    assert!(page.saw.contains("an HTML page"), "{page}");
    assert!(page.remedy.contains("--prometheus.url"), "{page}");
    let other = no_answer("/x", &answer(200, "\n\nwelcome\u{1b}[2J\nmore"), "--prometheus");
    assert!(other.saw.ends_with(r": welcome\x1b[2J"), "{other}");
}

#[test]
fn alerts_of_both_ages_are_read() {
    let old = r#"[{"labels":{"a":"b"},"fingerprint":"f","receivers":[{"name":"null"}],
        "status":{"inhibitedBy":["b9"],"silencedBy":[],"state":"suppressed"}}]"#;
    let new = r#"[{"labels":{"a":"b"},"fingerprint":"f","receivers":[{"name":"null"}],
        "status":{"inhibitedBy":[],"mutedBy":["always"],"silencedBy":null,"state":"active"}}]"#;
    let read = |text| serde_json::from_str::<Vec<ReceivedAlert>>(text).unwrap().remove(0).status;
    assert_eq!((read(old).muted_by, read(old).inhibited_by.len()), (None, 1));
    assert_eq!(read(new).muted_by, Some(vec!["always".to_owned()]));
    assert_eq!(without_api_path("http://a:1/am/api/v2/alerts"), "http://a:1/am");
}

/// A server that answers each request with these bytes, and closes.
async fn server(response: Vec<u8>) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(&response).await;
        }
    });
    Server { name: "Prometheus", flags: "--prometheus", url, body_max: 4096, ..Server::default() }
}

fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}").into_bytes()
}

#[tokio::test]
async fn whatever_answers_has_words_and_a_remedy() {
    let agent_mode =
        r#"{"status":"error","errorType":"execution","error":"unavailable with Prometheus Agent"}"#;
    for (response, saw, remedy) in [
        (
            response("401 Unauthorized", "", ""),
            "it asks for a login (401)",
            "--prometheus.login-file",
        ),
        (response("403 Forbidden", "", "not yours"), "it forbids", "use a login that may read it"),
        (
            response("302 Found", "location: https://sso.example/sign-in\r\n", "<html>"),
            "it leads to https://sso.example/sign-in",
            "--prometheus.url",
        ),
        (response("200 OK", "", "<!DOCTYPE html>"), "an HTML page (200)", "login page"),
        (response("200 OK", "", "OK\u{1b}[2J"), r": OK\x1b[2J", "--prometheus.url"),
        (response("200 OK", "", "{\"status\":\"succ"), "not as expected", "--prometheus.url"),
        (response("502 Bad Gateway", "", "<html>"), "it answers 502", "its log"),
        (response("422 Unprocessable", "", agent_mode), "agent mode", "to which this one writes"),
        (
            response("200 OK", "", &"x".repeat(5000)),
            "its answer is larger than",
            "--prometheus.url",
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{\"status\":".to_vec(),
            "its answer ends in the middle",
            "--prometheus.url",
        ),
        (b"SSH-2.0-OpenSSH_9\r\n".to_vec(), "Prometheus at http://127.0.0.1", "--prometheus.url"),
    ] {
        let prometheus = Prometheus { server: server(response).await };
        let trouble = prometheus.groups().await.unwrap_err();
        assert!(trouble.saw.contains(saw), "{saw}: {trouble}");
        assert!(trouble.remedy.contains(remedy), "{saw}: {trouble}");
    }
    let not_there = response("404 Not Found", "", "404 page not found");
    let other = Prometheus { server: server(not_there).await };
    assert_eq!(other.groups().await, Ok(None));
}

#[tokio::test]
async fn clocks_and_samples_are_read() {
    let date = "date: Mon, 30 Nov 2026 13:48:10 GMT\r\n";
    let version = r#"{"status":"success","data":{"version":"2.42.0"}}"#;
    let prometheus = Prometheus { server: server(response("200 OK", date, version)).await };
    let version = prometheus.version().await.unwrap().unwrap();
    assert_eq!((&*version.value, version.date), ("2.42.0", Some(1_796_046_490)));
    let vector = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":
        {"__name__":"up","job":"lockwatch"},"value":[1796046558.308,"1764510493.12"]}]}}"#;
    let prometheus = Prometheus { server: server(response("200 OK", "", vector)).await };
    let samples = prometheus.query("up").await.unwrap();
    assert_eq!((samples[0].name(), samples[0].value), ("up", 1_764_510_493.12));
}
