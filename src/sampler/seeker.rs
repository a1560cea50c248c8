//! Asks servers of a cluster for its layout, again and again, and hands over the layout that most of them tell.
//!
//! A server that has forgotten the others, or was left on the small side of a partition, tells a layout of its own: several are
//! asked, and of two that as many tell the one that serves more slots is taken.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockwatch_model::reading::Unknown;
use lockwatch_model::topology::cluster::{self, SlotMap};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::urgency::Turn;
use crate::config::{ClusterConfig, Endpoint, HostPort, RedisConfig};
use crate::redis;

/// Most servers that are asked at once.
const ASKED: usize = 5;
/// Without a reason to hurry, the layout is asked for once in so many intervals.
const EVERY: u32 = 5;

/// Asks until nobody listens to `maps`.
pub(super) async fn seek(
    config: RedisConfig,
    cluster: ClusterConfig,
    mut turn: Turn,
    maps: mpsc::Sender<Result<SlotMap, Unknown>>,
) {
    let mut connections: BTreeMap<HostPort, Arc<redis::Connection>> = BTreeMap::new();
    let (mut known, mut told_why): (Vec<HostPort>, _) = (Vec::new(), None);
    loop {
        let asked = candidates(&cluster.nodes, &known);
        connections.retain(|at, _| asked.contains(at));
        let mut questions = JoinSet::new();
        for at in asked {
            let (endpoint, open) = (config.endpoint(at.clone()), connections.remove(&at));
            questions.spawn(async move { (at, question(&endpoint, open).await) });
        }
        let (mut told, mut why) = (Vec::new(), Unknown::Connect);
        while let Some(answered) = questions.join_next().await {
            match answered {
                Ok((at, Ok((connection, map)))) => {
                    connections.insert(at, connection);
                    match map {
                        Ok(map) => told.push(map),
                        Err(reason) => why = reason,
                    }
                }
                Ok((at, Err(failure))) => {
                    tracing::debug!(redis = &*config.name, node = %at, %failure, "a server does not tell the layout");
                    why = failure.why;
                }
                Err(error) => tracing::error!(redis = &*config.name, %error, "a question for the layout was dropped"),
            }
        }
        let map = most_told(told).ok_or(why);
        if let (Err(why), true) = (&map, told_why != map.as_ref().err().copied()) {
            let remedy = why.remedy();
            tracing::warn!(redis = &*config.name, why = why.name(), remedy, "no server tells the cluster's layout");
        }
        told_why = map.as_ref().err().copied();
        if let Ok(map) = &map {
            let nodes = map.nodes();
            known = nodes.iter().filter_map(|node| cluster.peers.resolve(node, &cluster.nodes)).collect();
        }
        let pause = if map.is_ok() { config.interval * EVERY } else { config.interval };
        if maps.send(map).await.is_err() || !turn.wait(pause).await {
            return;
        }
    }
}

/// Whom to ask: those that belonged to the cluster last, then those configured.
fn candidates(configured: &[HostPort], known: &[HostPort]) -> Vec<HostPort> {
    let mut all: Vec<HostPort> = Vec::new();
    // A configured one stays in, or a cluster whose every server has moved would never be found again.
    for at in known.iter().take(ASKED.saturating_sub(1)).chain(configured).chain(known) {
        if !all.contains(at) && all.len() < ASKED {
            all.push(at.clone());
        }
    }
    all
}

type Told = (Arc<redis::Connection>, Result<SlotMap, Unknown>);

/// Asks one server, over the connection that there is or a new one.
async fn question(endpoint: &Endpoint, open: Option<Arc<redis::Connection>>) -> Result<Told, redis::Failure> {
    let connection = match open {
        Some(connection) => connection,
        None => Arc::new(redis::connect(endpoint, None).await?.0),
    };
    let replies = connection.exec(&cluster::commands(connection.caps().pexpiretime)).await?;
    let map = cluster::decode(&replies, &endpoint.at.host);
    Ok((connection, map))
}

/// The layout that most tell; of those that as many tell, the one that serves most slots.
fn most_told(told: Vec<SlotMap>) -> Option<SlotMap> {
    let votes = |map: &SlotMap| told.iter().filter(|other| same_owners(map, other)).count();
    let best = told.iter().max_by_key(|map| (votes(map), std::cmp::Reverse(map.uncovered())))?;
    Some(best.clone())
}

/// Whether the same masters serve the same slots, whoever follows them.
fn same_owners(a: &SlotMap, b: &SlotMap) -> bool {
    a.masters() == b.masters() && (0..cluster::SLOTS).all(|slot| a.owner(slot) == b.owner(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str) -> HostPort {
        HostPort { host: host.to_owned(), port: 6379 }
    }

    #[test]
    fn a_configured_server_is_always_asked() {
        let known: Vec<HostPort> = (0..9).map(|number| at(&format!("known-{number}"))).collect();
        let asked = candidates(&[at("seed")], &known);
        assert_eq!(asked.len(), ASKED);
        assert!(asked.contains(&at("seed")));
        assert_eq!(candidates(&[at("seed"), at("seed")], &[]), [at("seed")]);
    }
}
