use super::alertmanager::sent;
use super::answer::no_answer;
use super::*;
use crate::http::client::Answer;

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
