//! Finds the keys of one store that match its patterns: one pass after the other over the keys of
//! all its masters, over connections of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::input::Role;
use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{NodeView, StoreView};
use lockwatch_judge::spec::Key;
use lockwatch_watch::redis::RedisKind;
use lockwatch_watch::redis::driver::Failure;
use lockwatch_watch::redis::store::HostPort;
use lockwatch_watch::remedy;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::RedisConfig;
use crate::io::{Connection, Pace, connect_briefly, scan_page};
use crate::published::Snapshots;

/// Maximum number of keys of a store that are examined in a second, whether they match or not.
pub const KEYS_PER_SECOND: u32 = 10_000;
/// Maximum number of keys that one command examines.
const PAGE_MAX: u32 = 200;
/// From the beginning of one round over all patterns to that of the next one, at least.
const ROUND: Duration = Duration::from_secs(5);
/// After a round, the scan rests for so many times as long as the round took: with many keys it would
/// cost as much as reading them does.
const REST: u32 = 9;
/// The longest rest.
const REST_MAX: Duration = Duration::from_secs(30);
/// Pause before it is looked again which servers there are.
const UNKNOWN_YET: Duration = Duration::from_millis(200);

/// What is scanned for.
pub(super) struct Job {
    pub(super) redis: RedisConfig,
    /// The patterns by their numbers, with their globs.
    pub(super) globs: Vec<(usize, Vec<u8>)>,
    /// The number of the configuration that they belong to.
    pub(super) epoch: u64,
}

/// What a scan reports.
#[derive(Debug)]
pub struct Report {
    pub(super) epoch: u64,
    pub(super) pattern: usize,
    pub(super) news: News,
}

#[derive(Debug)]
pub(super) enum News {
    /// A pass begins.
    Began,
    /// Keys that match.
    Keys(Vec<Key>),
    /// The pass has seen all keys.
    Ended,
    /// The pass was cut short.
    Failed(Arc<str>),
}

/// The reports are no longer received.
struct Gone;

/// Scans until nobody receives the reports.
pub(super) async fn run(job: Job, snapshots: Snapshots, reports: mpsc::Sender<Report>) {
    let pace = Pace::new(KEYS_PER_SECOND, PAGE_MAX);
    let mut scan = Scan { job, snapshots, reports, pace, connections: BTreeMap::new() };
    loop {
        let began = Instant::now();
        if scan.round().await.is_err() {
            return;
        }
        let ended = Instant::now();
        let rest = (ended - began).saturating_mul(REST).min(REST_MAX);
        sleep_until((began + ROUND).max(ended + rest)).await;
    }
}

struct Scan {
    job: Job,
    snapshots: Snapshots,
    reports: mpsc::Sender<Report>,
    pace: Pace,
    connections: BTreeMap<HostPort, Connection>,
}

impl Scan {
    /// One pass for each pattern.
    async fn round(&mut self) -> Result<(), Gone> {
        for (pattern, glob) in self.job.globs.clone() {
            let masters = loop {
                match masters(&self.snapshots, &self.job.redis) {
                    Some(masters) => break masters,
                    None if self.reports.is_closed() => return Err(Gone),
                    None => sleep(UNKNOWN_YET).await,
                }
            };
            self.report(pattern, News::Began).await?;
            let news = match self.pass(pattern, &glob, &masters).await? {
                Ok(()) => News::Ended,
                Err((at, failure)) => {
                    self.connections.remove(&at);
                    News::Failed(format!("{at}: {failure}. {}", remedy(failure.why)).into())
                }
            };
            self.report(pattern, news).await?;
        }
        Ok(())
    }

    /// Goes through all keys of `masters`. An error names the server that ended it.
    async fn pass(
        &mut self,
        pattern: usize,
        glob: &[u8],
        masters: &[HostPort],
    ) -> Result<Result<(), (HostPort, Failure)>, Gone> {
        self.connections.retain(|at, _| masters.contains(at));
        for at in masters {
            if let Err(failure) = self.server(pattern, glob, at).await? {
                return Ok(Err((at.clone(), failure)));
            }
        }
        Ok(Ok(()))
    }

    /// Goes through all keys of one server.
    async fn server(
        &mut self,
        pattern: usize,
        glob: &[u8],
        at: &HostPort,
    ) -> Result<Result<(), Failure>, Gone> {
        if let Err(failure) = self.connect(at).await {
            return Ok(Err(failure));
        }
        let mut cursor = b"0".to_vec();
        while let Some(connection) = self.connections.get(at) {
            self.pace.wait().await;
            let (began, count) = (Instant::now(), self.pace.page());
            let page = scan_page(connection, &cursor, Some(glob), count).await;
            let (next, keys) = match page {
                Ok(page) => page,
                Err(failure) => return Ok(Err(failure)),
            };
            // Keys that do not match cost the server as much as others.
            self.pace.spent(began, keys.len().max(usize::try_from(count).unwrap_or(usize::MAX)));
            if !keys.is_empty() {
                self.report(pattern, News::Keys(keys)).await?;
            }
            if next == b"0" {
                break;
            }
            cursor = next;
        }
        Ok(Ok(()))
    }

    /// Makes sure that there is a connection to a master. A server that became a replica since does
    /// no harm: it has the same keys, and none is believed to be held for that.
    async fn connect(&mut self, at: &HostPort) -> Result<(), Failure> {
        let login = &self.job.redis.login;
        if self.connections.get(at).is_some_and(|connection| !connection.is_outdated(login)) {
            return Ok(());
        }
        let connection = connect_briefly(&self.job.redis.endpoint(at.clone())).await?;
        if connection.role() == Some(Role::Replica) {
            return Err(Failure::new(Unknown::NotMaster, "it says that it is a replica"));
        }
        self.connections.insert(at.clone(), connection);
        Ok(())
    }

    async fn report(&self, pattern: usize, news: News) -> Result<(), Gone> {
        let report = Report { epoch: self.job.epoch, pattern, news };
        self.reports.send(report).await.map_err(|_| Gone)
    }
}

/// The servers that decide about the keys of a store, as its watcher knows them; `None` while it
/// knows none, or while nobody serves a part of a cluster.
fn masters(snapshots: &Snapshots, redis: &RedisConfig) -> Option<Vec<HostPort>> {
    let newest = snapshots.newest();
    let store = newest.snapshot.stores.iter().find(|store| store.spec.name == redis.name)?;
    let in_cluster = redis.servers.kind() == RedisKind::Cluster;
    // After a reload, the servers of another configuration may still be shown: they must not get a
    // login that is not theirs.
    let shown = store.spec.addresses.iter().map(|address| address.to_string());
    let is_current = shown.eq(redis.servers.configured().iter().map(HostPort::to_string));
    if store.uncovered > 0 || !is_current {
        return None;
    }
    // A master of a cluster decides about none of the tasks if it has no key of theirs.
    let is_one = |node: &&NodeView| match in_cluster {
        true => node.role == Some(Role::Master),
        false => node.decides,
    };
    let masters: Vec<HostPort> =
        nodes(store).filter(is_one).map(|node| at(&node.address)).collect();
    (!masters.is_empty()).then_some(masters)
}

fn nodes(store: &StoreView) -> impl Iterator<Item = &NodeView> {
    store.nodes.iter().filter(|node| node.up.is_some())
}

/// The address in the form in which it is dialled.
fn at(address: &str) -> HostPort {
    let split = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    match split.filter(|_| !address.starts_with('/')) {
        Some((host, port)) => {
            let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            HostPort { host: bare.unwrap_or(host).to_owned(), port }
        }
        None => HostPort { host: address.to_owned(), port: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_shown_can_be_dialled() {
        for (host, port) in
            [("redis-a", 6379), ("10.0.0.5", 1), ("fd00::5", 7000), ("/run/r.sock", 0)]
        {
            let whole = HostPort { host: host.to_owned(), port };
            assert_eq!(at(&whole.to_string()), whole);
        }
    }
}
