//! Asks Prometheus and Alertmanager for what the next hop needs.

use std::time::Duration;

use tokio::time::sleep;

use super::alertmanager::AlertmanagerLook;
use super::hop::Hop;
use super::prometheus::{AGENTS, Drilled, PrometheusLook};
use crate::chain::{Alertmanager, Alertmanagers, Prometheus, Trouble};

/// How long a Prometheus that just began, or read its configuration again, knows no target and no
/// Alertmanager.
pub(super) const DISCOVERED_WITHIN: Duration = Duration::from_secs(6);
/// Of so many silences, who made them is asked.
const SILENCES_MAX: usize = 3;

/// What a Prometheus shows for a hop that was not passed yet.
pub(super) async fn at_prometheus(
    prometheus: &Prometheus,
    drilled: &Drilled,
    hop: Hop,
) -> Result<PrometheusLook, Trouble> {
    let mut look = PrometheusLook::default();
    if hop == Hop::Scraped {
        look.mine = prometheus.query(&drilled.agent_query()).await?;
        if look.mine.is_empty() {
            look.agents = prometheus.query(AGENTS).await?;
        }
        look.targets = prometheus.targets().await?;
    } else {
        look.alerts = prometheus.alerts().await?;
    }
    if hop <= Hop::Firing || look.alerts.is_none() {
        look.series = prometheus.query(&drilled.series_query()).await?;
    }
    if matches!(hop, Hop::Rule | Hop::Firing) {
        look.groups = prometheus.groups().await?;
    }
    if hop == Hop::Alertmanager {
        look.notified = prometheus.alertmanagers().await?;
        // Without its own metrics there is a deadline, too.
        look.refused = prometheus.notification_errors().await.unwrap_or_default();
    }
    Ok(look)
}

/// Whom a Prometheus notifies.
pub(super) async fn whom(prometheus: &Prometheus) -> Result<Option<Alertmanagers>, Trouble> {
    let notified = prometheus.alertmanagers().await?;
    if notified.as_ref().is_none_or(|it| !it.active_alertmanagers.is_empty()) {
        return Ok(notified);
    }
    sleep(DISCOVERED_WITHIN).await;
    prometheus.alertmanagers().await
}

/// What an Alertmanager shows.
pub(super) async fn at_alertmanager(
    alertmanager: &Alertmanager,
    drilled: &Drilled,
) -> Result<AlertmanagerLook, Trouble> {
    // First, so that a look without the alert has counted nothing of it. Who may not read its
    // metrics may follow the alert all the same.
    let counted = alertmanager.sent().await.unwrap_or(None);
    let groups = alertmanager.groups().await?.ok_or_else(|| {
        Trouble::new(
            "it has no API of Alertmanager (404)",
            "see that --alertmanager.url has its path prefix, as in http://mimir/alertmanager",
        )
        .of(&alertmanager.server)
    })?;
    let mut look = AlertmanagerLook { groups, counted, ..AlertmanagerLook::default() };
    let alerts = look.found(drilled).map(|(_, alert)| alert);
    let ids: Vec<String> = alerts.flat_map(|alert| alert.status.silenced_by.clone()).collect();
    for id in ids.iter().take(SILENCES_MAX) {
        look.silences.extend(alertmanager.silence(id).await?);
    }
    Ok(look)
}
