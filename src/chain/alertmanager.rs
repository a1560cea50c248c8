//! Alertmanager.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::answer::{Dated, get, json, nullable};
use super::config::AlertmanagerConfig;
use super::exposition::{Labels, samples};
use crate::config::parse_yaml;
use crate::http::client::{Server, Trouble};
use crate::paths::segment;

/// An Alertmanager as it is reached.
#[derive(Clone, Debug)]
pub struct Alertmanager {
    /// Where.
    pub server: Server,
}

/// What it says of itself.
#[derive(Clone, Debug)]
pub struct Status {
    /// Its version; own builds may have none.
    pub version: String,
    /// How many others it is in a cluster with, itself included; 0 without a cluster.
    pub peers: usize,
    /// What stands in its configuration, or why that cannot be read.
    pub config: Result<AlertmanagerConfig, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawStatus {
    #[serde(default)]
    cluster: Cluster,
    config: Original,
    #[serde(default)]
    version_info: Version,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Cluster {
    #[serde(deserialize_with = "nullable")]
    peers: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Original {
    original: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    version: String,
}

/// An alert that it has and that has not ended: with external labels, and after what Prometheus
/// does to alerts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ReceivedAlert {
    /// Its labels.
    pub labels: Labels,
    /// Its texts.
    #[serde(deserialize_with = "nullable")]
    pub annotations: Labels,
    /// A digest of its labels.
    pub fingerprint: String,
    /// What holds it back.
    pub status: AlertStatus,
}

/// What has a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Named {
    /// The name.
    pub name: String,
}

/// What holds an alert back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AlertStatus {
    /// `active`, `suppressed`, or `unprocessed`.
    pub state: String,
    /// Ids of silences.
    #[serde(deserialize_with = "nullable")]
    pub silenced_by: Vec<String>,
    /// Fingerprints of alerts.
    #[serde(deserialize_with = "nullable")]
    pub inhibited_by: Vec<String>,
    /// Names of time intervals. Only a group's alerts have it; `None`: this version does not say.
    pub muted_by: Option<Vec<String>>,
}

/// Alerts that are notified together.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct AlertGroup {
    /// What they have in common.
    pub labels: Labels,
    /// Who is notified.
    pub receiver: Named,
    /// The alerts.
    #[serde(deserialize_with = "nullable")]
    pub alerts: Vec<ReceivedAlert>,
}

/// A silence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Silence {
    /// Its id.
    pub id: String,
    /// Who made it.
    pub created_by: String,
    /// Why.
    pub comment: String,
    /// Until when, as RFC 3339.
    pub ends_at: String,
}

/// What it has counted of one kind of integration, of all receivers or of one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sent {
    /// Notifications that it began; each may take several requests.
    pub begun: f64,
    /// Requests that were answered, well or not.
    pub requests: f64,
    /// Requests that failed; they are repeated, if that may help.
    pub requests_failed: f64,
    /// Notifications that it gave up.
    pub failed: f64,
}

impl Alertmanager {
    /// What it says of itself.
    ///
    /// # Errors
    /// What keeps it from answering; so all of these.
    pub async fn status(&self) -> Result<Option<Dated<Status>>, Trouble> {
        let raw = json::<RawStatus>(&self.server, "/api/v2/status").await?;
        Ok(raw.map(|Dated { value, date }| {
            let peers = value.cluster.peers.len();
            let version = value.version_info.version;
            let config = parse_yaml(&value.config.original, "configuration");
            let config = config.map_err(|errors| errors.to_string());
            let config = config.and_then(|config| AlertmanagerConfig::read(&config));
            Dated { value: Status { version, peers, config }, date }
        }))
    }

    /// The alerts that it has, in the groups in which they are notified.
    ///
    /// # Errors
    /// As above.
    pub async fn groups(&self) -> Result<Option<Vec<AlertGroup>>, Trouble> {
        Ok(json(&self.server, "/api/v2/alerts/groups").await?.map(|groups| groups.value))
    }

    /// A silence.
    ///
    /// # Errors
    /// As above.
    pub async fn silence(&self, id: &str) -> Result<Option<Silence>, Trouble> {
        let path = format!("/api/v2/silence/{}", segment(id));
        Ok(json(&self.server, &path).await?.map(|silence| silence.value))
    }

    /// What it has counted, by the kind of integration and the receiver; the receiver is empty
    /// unless it counts by receivers. `None`: it does not say.
    ///
    /// # Errors
    /// As above.
    pub async fn sent(&self) -> Result<Option<BTreeMap<(String, String), Sent>>, Trouble> {
        Ok(get(&self.server, "/metrics").await?.and_then(|answer| sent(&answer.body)))
    }
}

const COUNTERS: [&str; 4] = [
    "alertmanager_notifications_total",
    "alertmanager_notification_requests_total",
    "alertmanager_notification_requests_failed_total",
    "alertmanager_notifications_failed_total",
];

pub(super) fn sent(exposition: &[u8]) -> Option<BTreeMap<(String, String), Sent>> {
    let mut counted: BTreeMap<_, Sent> = BTreeMap::new();
    for sample in samples(exposition, &COUNTERS) {
        let key =
            (sample.label("integration").to_owned(), sample.label("receiver_name").to_owned());
        let sent = counted.entry(key).or_default();
        let place = match COUNTERS.iter().position(|name| *name == sample.name())? {
            0 => &mut sent.begun,
            1 => &mut sent.requests,
            2 => &mut sent.requests_failed,
            _ => &mut sent.failed,
        };
        // Of each reason.
        *place += sample.value;
    }
    (!counted.is_empty()).then_some(counted)
}
