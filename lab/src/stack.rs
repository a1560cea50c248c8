//! Real servers and clients, each started on a private port of 127.0.0.1 in a folder of its own,
//! waited for until ready, and killed when dropped: Redis, ZooKeeper, workers, agents, Prometheus,
//! Alertmanager, a receiver of its notifications, nginx before them, a browser, another web site,
//! and faulty networks between them.
//!
//! Programs are found on `PATH`, or where `REDIS_SERVER`, `PROMETHEUS`, `ALERTMANAGER`, `PROMTOOL`,
//! `AMTOOL`, `NGINX`, `CHROMEDRIVER` and `LOCKWATCH` point.

mod access;
mod agent;
mod alertmanager;
mod axe;
mod browser;
mod cable;
mod certificate;
mod clock;
mod exporter;
mod http;
mod machine;
mod nginx;
mod port;
mod process;
mod program;
mod prometheus;
mod proxy;
mod receiver;
mod redis;
mod sentinels;
mod site;
mod web_file;
mod worker;
mod zookeeper;

pub(crate) use access::connect;
pub use agent::Agent;
pub use alertmanager::Alertmanager;
pub use axe::Axe;
pub use browser::{Browser, BrowserTime, ConsoleLine, Key, Media, Screen};
pub use cable::{Cable, Weather};
pub use exporter::{Exporter, ExporterSetup};
pub use http::{Response, get, post};
pub(crate) use machine::{Partition, enter_own_network, has_own_network, prepare_own_network};
pub use nginx::{Nginx, Way};
pub(crate) use port::free_address;
pub(crate) use process::footprint;
pub use process::{Footprint, Signal, cpu_time, until};
pub use program::Program;
pub use prometheus::{Labels, Prometheus, PrometheusSetup, Target};
pub use proxy::LossyScrapes;
pub use receiver::{Alert, Notification, Receiver, Status};
pub(crate) use redis::command_at;
pub use redis::{Data, Redis};
pub(crate) use sentinels::{Set, majority};
pub use site::Site;
pub use web_file::WebFile;
pub use worker::{Lost, Worker, WorkerArgs, WorkerSetup, run as run_worker};
pub use zookeeper::{ZooKeeper, ZooKeeperClient};
