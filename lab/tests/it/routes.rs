//! The example configuration in a real Alertmanager: which receiver is notified, how soon, and
//! which alerts are muted.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use lockwatch_lab::stack::{Alertmanager, Notification, Receiver, Status, until};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

const PAGER: &str = "/pager.example.com/operations";
const LOGISTICS_PAGER: &str = "/pager.example.com/logistics";
const CHAT: &str = "/chat.example.com/operations";
const LOGISTICS_CHAT: &str = "/chat.example.com/logistics";
const DEAD_MANS_SWITCH: &str = "/dead-mans-switch.example.com/lockwatch";

/// An Alertmanager with the example's configuration. Only the addresses of receivers and the files
/// of their secrets differ.
struct Trial {
    alertmanager: Alertmanager,
    receiver: Receiver,
    _secrets: TempDir,
}

impl Trial {
    async fn start() -> Trial {
        let receiver = Receiver::start().await.unwrap();
        let secrets = TempDir::new().unwrap();
        let example =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../alerts/alertmanager-example.yml");
        let example = std::fs::read_to_string(example).unwrap();
        for secret in example.split("/etc/alertmanager/secrets/").skip(1) {
            let name: String = secret
                .chars()
                .take_while(|character| character.is_ascii_lowercase() || *character == '-')
                .collect();
            std::fs::write(secrets.path().join(name), "secret").unwrap();
        }
        let config = example
            .replace("url: https://", &format!("url: {}", receiver.url()))
            .replace("/etc/alertmanager/secrets", &secrets.path().display().to_string());
        let alertmanager = Alertmanager::start(&config).await.unwrap();
        Trial { alertmanager, receiver, _secrets: secrets }
    }

    /// Pushes alerts as Prometheus does, each as `Name label=value …`.
    async fn fire(&self, alerts: &[&str]) {
        self.push(alerts, "2099-01-01T00:00:00Z").await;
    }

    async fn resolve(&self, alerts: &[&str]) {
        self.push(alerts, "2020-01-01T00:00:00Z").await;
    }

    async fn push(&self, alerts: &[&str], ends_at: &str) {
        let alerts: Vec<Value> = alerts
            .iter()
            .map(|alert| json!({"labels": labels(alert), "endsAt": ends_at}))
            .collect();
        self.alertmanager.push(&Value::from(alerts)).await.unwrap();
    }

    /// The notifications that contain this alert.
    fn notified(&self, alert: &str) -> Vec<Notification> {
        let labels = labels(alert);
        let mut notifications = self.receiver.notifications();
        notifications
            .retain(|notification| notification.alerts.iter().any(|alert| alert.labels == labels));
        notifications
    }

    async fn until_notified(&self, alert: &str, times: usize) -> Notification {
        until(PATIENCE, alert, async || self.notified(alert).len() >= times).await.unwrap();
        self.notified(alert).remove(times - 1)
    }

    /// Alertmanager's state of this alert, and the names of the alerts that mute it.
    async fn state(&self, alert: &str) -> (String, Vec<String>) {
        let all = self.alertmanager.alerts().await.unwrap();
        let wanted = json!(labels(alert));
        let status = &all.iter().find(|known| known["labels"] == wanted).unwrap()["status"];
        let name = |id: &Value| {
            let by = all.iter().find(|known| known["fingerprint"] == *id).unwrap();
            by["labels"]["alertname"].as_str().unwrap().to_owned()
        };
        let by = status["inhibitedBy"].as_array().unwrap().iter().map(name).collect();
        (status["state"].as_str().unwrap().to_owned(), by)
    }
}

fn labels(alert: &str) -> BTreeMap<String, String> {
    let mut words = alert.split(' ');
    let name = words.next().unwrap();
    let pairs = words.map(|pair| pair.split_once('=').unwrap());
    [("alertname", name)]
        .into_iter()
        .chain(pairs)
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

#[tokio::test]
async fn a_second_task_that_goes_down_does_not_wait_for_the_first() {
    let trial = Trial::start().await;
    let down = ["a", "b", "c"]
        .map(|task| format!("LockwatchTaskDown task={task} store=main severity=critical"));
    for (at, alert) in down.iter().enumerate() {
        let pushed = Instant::now();
        trial.fire(&[alert]).await;
        let page = trial.until_notified(alert, 1).await;
        assert!(page.received - pushed < Duration::from_secs(2), "{:?}", page.received - pushed);
        assert_eq!((page.path.as_str(), page.alerts.len()), (PAGER, 1));
        // No grouping: each alert has a notification of its own.
        assert_eq!(trial.receiver.notifications().len(), at + 1);
    }
    let both = [
        "LockwatchTaskSplit task=a store=main severity=critical",
        "LockwatchTaskSplit task=b store=main severity=critical",
    ];
    trial.fire(&both).await;
    for alert in both {
        assert_eq!(trial.until_notified(alert, 1).await.alerts.len(), 1);
    }
}

#[tokio::test]
async fn each_alert_is_sent_to_whom_it_is_for() {
    let trial = Trial::start().await;
    let cases = [
        ("LockwatchTaskDown task=a store=main severity=critical cluster=warehouse", PAGER),
        ("LockwatchTaskDown task=b store=main severity=critical team=logistics", LOGISTICS_PAGER),
        ("LockwatchTaskDown task=c store=main severity=warning", CHAT),
        ("LockwatchTaskDown task=d store=main severity=warning team=logistics", LOGISTICS_CHAT),
        ("LockwatchTaskDown task=e store=main severity=critical team=unheard-of", PAGER),
        (
            "LockwatchTaskStalled task=b store=main severity=critical team=logistics",
            LOGISTICS_PAGER,
        ),
        ("LockwatchLockLost task=b store=main severity=critical team=logistics", LOGISTICS_PAGER),
        ("LockwatchStoreUnreachable store=main severity=critical", PAGER),
        ("LockwatchDown severity=critical", PAGER),
        ("LockwatchHeldTooLong task=b store=main severity=warning team=logistics", LOGISTICS_CHAT),
        ("LockwatchConfigReloadFailed instance=x:10379 job=lockwatch severity=warning", CHAT),
        ("LockwatchWatchdog severity=none", DEAD_MANS_SWITCH),
    ];
    trial.fire(&cases.map(|(alert, _)| alert)).await;
    for (alert, path) in cases {
        assert_eq!(trial.until_notified(alert, 1).await.path, path, "{alert}");
    }
    assert_eq!(trial.receiver.notifications().len(), cases.len());
}

async fn warnings_of_one_redis_come_in_one_message() {
    let trial = Trial::start().await;
    let expired = ["a", "b"]
        .map(|task| format!("LockwatchLeaseExpired task={task} store=main severity=warning"));
    let elsewhere = "LockwatchLeaseExpired task=c store=other severity=warning";
    trial.fire(&[&expired[0]]).await;
    trial.fire(&[&expired[1], elsewhere]).await;
    let message = trial.until_notified(&expired[0], 1).await;
    assert_eq!((message.path.as_str(), message.alerts.len()), (CHAT, 2));
    assert_eq!(trial.until_notified(elsewhere, 1).await.alerts.len(), 1);
    assert_eq!(trial.receiver.notifications().len(), 2);
}

/// An alert mutes the matching one, but not one that differs in a single label.
async fn what_is_explained_by_something_worse_is_muted() {
    let trial = Trial::start().await;
    let task = "task=a store=main cluster=x severity=critical";
    let cases = [
        (
            "LockwatchStoreUnreachable store=r1 cluster=x severity=critical",
            "LockwatchTaskBlind task=a store=r1 cluster=x severity=critical team=logistics",
            true,
        ),
        (
            "LockwatchStoreUnreachable store=r1 cluster=x severity=critical",
            "LockwatchTaskBlind task=a store=r2 cluster=x severity=critical",
            false,
        ),
        (
            "LockwatchStoreUnreachable store=r1 cluster=x severity=critical",
            "LockwatchTaskBlind task=a store=r1 cluster=y severity=critical",
            false,
        ),
        (
            "LockwatchStoreUnreachable store=r1 cluster=x severity=critical",
            "LockwatchAgentsDisagree store=r1 cluster=x severity=warning",
            true,
        ),
        (
            "LockwatchStoreUnreachable store=r1 cluster=x severity=critical",
            "LockwatchRenewalOverdue task=a store=r1 cluster=x severity=warning",
            true,
        ),
        (
            "LockwatchStoreUnreachable store=r1 cluster=x severity=critical",
            "LockwatchTaskDown task=a store=r1 cluster=x severity=critical",
            false,
        ),
        (
            "LockwatchStoreUnreachable store=r1 cluster=x severity=critical",
            "LockwatchTaskSplit task=b store=r1 cluster=x severity=critical",
            false,
        ),
        (
            "LockwatchDown job=j1 severity=critical",
            "LockwatchAgentDown job=j1 instance=i severity=warning",
            true,
        ),
        (
            "LockwatchDown job=j1 severity=critical",
            "LockwatchAgentDown job=j2 instance=i severity=warning",
            false,
        ),
        (
            "LockwatchAgentRestarting job=j3 severity=critical",
            "LockwatchAgentDown job=j3 instance=i severity=warning",
            true,
        ),
        (&format!("LockwatchTaskSplit {task}"), &format!("LockwatchLockLost {task}"), false),
        (
            &format!("LockwatchTaskSplit {task}"),
            "LockwatchAgentsDisagree task=a store=main cluster=x severity=warning",
            true,
        ),
        (
            &format!("LockwatchTaskSplit {task}"),
            "LockwatchAgentsDisagree store=main cluster=x severity=warning",
            false,
        ),
        (
            &format!("LockwatchTaskSplit {task}"),
            "LockwatchTaskFlapping task=a store=main cluster=x severity=warning",
            true,
        ),
        (
            "LockwatchTaskDown task=d store=main severity=critical",
            "LockwatchLeaseExpired task=d store=main severity=warning",
            true,
        ),
        (
            "LockwatchTaskDown task=d store=main severity=critical",
            "LockwatchRenewalOverdue task=d store=main severity=warning",
            true,
        ),
        (
            "LockwatchTaskDown task=d store=main severity=critical",
            "LockwatchTaskFlapping task=d store=main severity=warning",
            true,
        ),
        (
            "LockwatchTaskDown task=d store=main severity=critical",
            "LockwatchLeaseExpired task=e store=main severity=warning",
            false,
        ),
        (
            "LockwatchLockLost task=l store=main severity=critical",
            "LockwatchLeaseExpired task=l store=main severity=warning",
            true,
        ),
        (
            "LockwatchLockLost task=l store=main severity=critical",
            "LockwatchLockPersistent task=l store=main severity=warning",
            false,
        ),
    ];
    for (source, _, _) in cases {
        trial.fire(&[source]).await;
    }
    trial.fire(&cases.map(|(_, target, _)| target)).await;
    for (source, target, muted) in cases {
        let (state, by) = trial.state(target).await;
        if muted {
            assert_eq!(
                (state.as_str(), by),
                ("suppressed", vec![labels(source)["alertname"].clone()]),
                "{target}"
            );
        } else {
            assert_eq!((state.as_str(), by), ("active", vec![]), "{target}");
        }
    }
    // This warning has the longest delay, so it comes last.
    let last = "LockwatchLockPersistent task=last store=main severity=warning";
    trial.fire(&[last]).await;
    trial.until_notified(last, 1).await;
    for (_, target, _) in cases.iter().filter(|(_, _, muted)| *muted) {
        assert_eq!(trial.notified(target), [], "{target}");
    }
}

async fn a_page_outlasts_the_redis_that_cannot_be_reached() {
    let trial = Trial::start().await;
    let down = "LockwatchTaskDown task=a store=main severity=critical";
    let unreachable = "LockwatchStoreUnreachable store=main severity=critical";
    trial.fire(&[down]).await;
    trial.until_notified(down, 1).await;
    trial.fire(&[unreachable]).await;
    trial.until_notified(unreachable, 1).await;
    assert_eq!(trial.state(down).await.0, "active");
    trial.resolve(&[unreachable]).await;
    assert_eq!(trial.until_notified(unreachable, 2).await.status, Status::Resolved);
    assert_eq!(trial.notified(down).len(), 1);
    trial.resolve(&[down]).await;
    assert_eq!(trial.until_notified(down, 2).await.status, Status::Resolved);
}

async fn the_dead_mans_switch_hears_once_a_minute_and_of_no_end() {
    let trial = Trial::start().await;
    let watchdog = "LockwatchWatchdog severity=none";
    trial.fire(&[watchdog]).await;
    let first = trial.until_notified(watchdog, 1).await;
    until(Duration::from_secs(75), "it is sent again", async || trial.notified(watchdog).len() > 1)
        .await
        .unwrap();
    let second = trial.notified(watchdog).remove(1);
    let pause = second.received - first.received;
    assert!(pause > Duration::from_secs(55) && pause < Duration::from_secs(65), "{pause:?}");
    assert_eq!((second.path.as_str(), second.status), (DEAD_MANS_SWITCH, Status::Firing));
    trial.resolve(&[watchdog]).await;
    let end =
        until(Duration::from_secs(35), "its end", async || trial.notified(watchdog).len() > 2)
            .await;
    assert!(end.is_err(), "{:?}", trial.notified(watchdog));
}

/// The cases that wait for Alertmanager's own intervals run concurrently.
#[tokio::test]
async fn in_the_course_of_time() {
    tokio::join!(
        warnings_of_one_redis_come_in_one_message(),
        what_is_explained_by_something_worse_is_muted(),
        a_page_outlasts_the_redis_that_cannot_be_reached(),
        the_dead_mans_switch_hears_once_a_minute_and_of_no_end(),
    );
}
