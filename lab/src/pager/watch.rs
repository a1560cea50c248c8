//! Polls the alerts that Alertmanager knows. Warnings are judged by these, because they are sent in
//! groups, later, or not at all beside a page.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::verdict::Period;
use crate::stack::{Labels, get};

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// An alert that Alertmanager knew for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) period: Period,
    /// Whether it was inhibited because of another alert.
    pub(super) muted: bool,
}

/// The poller; it runs until dropped.
#[derive(Debug)]
pub(super) struct Watch {
    seen: Arc<Mutex<Vec<Seen>>>,
    looking: JoinHandle<()>,
}

impl Watch {
    pub(super) fn start(alertmanager: SocketAddr) -> Watch {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let looking = tokio::spawn(look(alertmanager, Arc::clone(&seen)));
        Watch { seen, looking }
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.looking.abort();
    }
}

async fn look(alertmanager: SocketAddr, seen: Arc<Mutex<Vec<Seen>>>) {
    loop {
        // Without an answer, no change is assumed.
        if let Ok(alerts) =
            get(alertmanager, "/api/v2/alerts").await.and_then(|answer| answer.json())
        {
            note(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), &alerts, Instant::now());
        }
        sleep(LOOK_EVERY).await;
    }
}

fn note(seen: &mut Vec<Seen>, alerts: &Value, now: Instant) {
    let known: Vec<(Labels, bool)> = alerts.as_array().into_iter().flatten().map(read).collect();
    for open in seen.iter_mut().filter(|seen| seen.period.resolved.is_none()) {
        match known.iter().find(|(labels, _)| *labels == open.period.labels) {
            Some((_, muted)) => open.muted |= muted,
            None => open.period.resolved = Some(now),
        }
    }
    for (labels, muted) in known {
        if !seen.iter().any(|seen| seen.period.resolved.is_none() && seen.period.labels == labels) {
            let period = Period { labels, fired: now, resolved: None, repeats: Vec::new() };
            seen.push(Seen { period, muted });
        }
    }
}

fn read(alert: &Value) -> (Labels, bool) {
    let labels = alert.get("labels").and_then(Value::as_object).into_iter().flatten();
    let labels = labels
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    (labels, alert.pointer("/status/state").and_then(Value::as_str) == Some("suppressed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_alert_is_seen_from_its_first_look_to_the_first_without_it() {
        let alert =
            |state: &str| json!([{"labels": {"alertname": "Down"}, "status": {"state": state}}]);
        let (zero, mut seen) = (Instant::now(), Vec::new());
        let at = |second| zero + Duration::from_secs(second);
        note(&mut seen, &alert("active"), at(1));
        note(&mut seen, &alert("suppressed"), at(2));
        note(&mut seen, &json!([]), at(3));
        note(&mut seen, &alert("active"), at(4));
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!(
            (seen[0].period.fired, seen[0].period.resolved, seen[0].muted),
            (at(1), Some(at(3)), true)
        );
        assert_eq!(
            (seen[1].period.fired, seen[1].period.resolved, seen[1].muted),
            (at(4), None, false)
        );
    }
}
