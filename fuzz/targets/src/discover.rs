//! `lockwatch discover` against a hostile server: it prints a valid configuration, or an error.
//!
//! The whole input is the server's script.

use std::path::Path;
use std::time::Duration;

use lockwatch::commands::discover::glance;
use lockwatch::config::Config;
use lockwatch::io::greet_over;
use tokio::io::duplex;

use crate::claims::harmless;
use crate::script::{Said, Server};
use crate::worlds::PASSWORD;

pub(crate) fn run(data: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let (near, far) = duplex(4_096);
        // The target `session` covers the greeting.
        let script = [b"<A>", data].concat();
        let server = tokio::spawn(Server::new(far, Said::default()).play(script, PASSWORD));
        look(near).await;
        server.abort();
    });
}

async fn look(near: tokio::io::DuplexStream) {
    let config = "redis: {main: {url: 'redis://a'}}\ntasks: [{name: a, lock: {key: k}}]";
    let config = Config::parse(config, Path::new("")).unwrap();
    let redis = &config.redises[0];
    let at = redis.servers.configured()[0].clone();
    let endpoint = redis.endpoint(at.clone());
    let Ok(connection) = greet_over(near, &endpoint, None).await else { return };
    // Each step is bounded by the timeout, and a script has a bounded number of answers.
    let walk = glance(&connection, at, redis);
    match tokio::time::timeout(Duration::from_secs(60), walk).await.expect("the walk ends") {
        Ok(text) => harmless(&text),
        Err(error) => {
            let told = format!("{error:#}");
            assert!(!told.contains("the configuration that was made is none"), "{told}");
            harmless(&told);
        }
    }
}
