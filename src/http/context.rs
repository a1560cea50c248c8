//! What the server serves from, and its limits on the use by clients.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::sync::{mpsc, watch};

use crate::outputs::history::History;
use crate::published::{Drilling, ReloadRequest, ReloadStatus, Snapshots, Switches};
use crate::trace::Traces;
use crate::web::Web;

/// What the server can read and request.
#[derive(Clone, Debug)]
pub struct HttpContext {
    /// The snapshots that the engine publishes.
    pub snapshots: Snapshots,
    /// The result of the newest load of the configuration.
    pub reload_status: watch::Receiver<ReloadStatus>,
    /// Counts the log lines that were lost.
    pub log_lines_lost: fn() -> u64,
    /// Accepts requests for a reload.
    pub reload: mpsc::Sender<ReloadRequest>,
    /// Whether a reload may be requested over HTTP.
    pub enable_lifecycle: bool,
    /// The newest events.
    pub history: History,
    /// Where handlers register for the commands and replies about a task.
    pub traces: Traces,
    /// Sites that may show a task's page in a frame.
    pub frame_ancestors: Arc<[String]>,
    /// What the web file puts before the pages; `None`: plain HTTP for everybody.
    pub web: Option<Web>,
    /// The switches that users may flip on the page.
    pub switches: Option<Switches>,
    /// Drills; `None`: there are none here.
    pub drills: Option<Drilling>,
    /// Limits on the use by clients.
    pub limits: Limits,
}

/// Limits on the use by clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections from one address (for IPv6: one /64 network).
    pub connections_per_peer: usize,
    /// How many of `connections` are kept for addresses that have few.
    pub connections_for_small_peers: usize,
    /// Maximum number of connections that were asked to close and have not ended yet. While there
    /// are as many, no connection is closed for another: each is a file descriptor still, and a
    /// flood of new connections must not make the server begin one big response after the other.
    pub closing: usize,
    /// Maximum number of streams. Smaller than `connections`, so that streams leave room for
    /// scrapes.
    pub streams: usize,
    /// Maximum number of concurrent requests for an explanation.
    pub explanations: usize,
    /// How long a connection may wait for a complete request.
    pub idle: Duration,
    /// How long a client may take for a whole response; for an endless one, between two reads.
    /// Longer than the time between two heartbeats of a stream.
    pub response: Duration,
    /// How long open connections may continue after the shutdown began.
    pub drain: Duration,
    /// A snapshot older than this means that the engine has stopped.
    pub snapshot_age: Duration,
}

impl Limits {
    /// The limits of a process that may open so many files: clients may take half of them. The
    /// others are for Redis, recordings, and connections that are being closed.
    pub fn within(files: Option<u64>) -> Limits {
        let all = Limits::default();
        let half = files.and_then(|files| usize::try_from(files / 2).ok());
        let connections = half.map_or(all.connections, |half| half.clamp(1, all.connections));
        let part = |of_all: usize| (of_all * connections / all.connections).max(1);
        Limits {
            connections,
            connections_per_peer: part(all.connections_per_peer),
            connections_for_small_peers: part(all.connections_for_small_peers),
            closing: part(all.closing),
            streams: part(all.streams),
            explanations: part(all.explanations),
            ..all
        }
    }

    /// The limits of this process.
    pub fn of_process() -> Limits {
        Limits::within(getrlimit(Resource::Nofile).current)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // All of them together with the connections to Redis fit into 1,024 file descriptors. A
            // proxy with 200 open pages is one address.
            connections: 512,
            connections_per_peer: 384,
            connections_for_small_peers: 32,
            closing: 64,
            streams: 320,
            explanations: 64,
            // Prometheus' default scrape interval is one minute, over a persistent connection.
            idle: Duration::from_secs(75),
            response: Duration::from_secs(30),
            drain: Duration::from_secs(3),
            snapshot_age: Duration::from_secs(10),
        }
    }
}
