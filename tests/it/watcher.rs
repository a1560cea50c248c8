//! Connections and readings with real servers, malicious ones and a faulty network.

mod connecting;
mod reading;

use std::sync::Arc;
use std::time::Duration;

use lockwatch::config::{HostPort, Login, RedisConfig, Servers};

/// A redis block for a server on this machine.
fn config(port: u16) -> RedisConfig {
    RedisConfig {
        name: Arc::from("main"),
        servers: Servers::One(HostPort { host: "127.0.0.1".to_owned(), port }),
        db: 0,
        login: Login::default(),
        sentinel_login: Login::default(),
        tls: None,
        interval: Duration::from_millis(100),
        timeout: Duration::from_millis(500),
        assume_master: false,
        wake_ups: false,
        want: None,
        want_on_page: false,
    }
}
