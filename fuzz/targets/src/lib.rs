//! Fuzz targets for every part of lockwatch that parses external data, as functions of bytes.
//!
//! A target panics when an invariant is broken: the code panicked, hung, or displayed something
//! forbidden. Its return value does not matter. `fuzz/engine` calls the targets with generated
//! inputs, guided by coverage. `tests/corpus.rs` calls them with the inputs in `fuzz/corpus`, so
//! that a mistake found once fails `cargo test` from then on.

mod claims;
mod codecs;
mod configuration;
mod discover;
#[path = "../../../sim/src/ensemble/wire.rs"]
#[allow(dead_code, reason = "what a server of ZooKeeper writes, of which a part is used")]
mod ensemble;
#[path = "../../../tests/it/support/exposition.rs"]
#[allow(dead_code, reason = "the strict readers of the integration tests, of which a part is used")]
mod exposition;
mod honest;
#[path = "../../../tests/it/support/html.rs"]
#[allow(dead_code, reason = "the strict readers of the integration tests, of which a part is used")]
mod html;
mod http;
mod outputs;
mod reading;
mod recording;
mod routes;
mod script;
mod session;
mod snapshot;
mod status;
mod text;
mod topology;
mod tracking;
mod value;
mod wire;
mod worlds;
mod zookeeper;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, which is also the name of its folder in `fuzz/corpus` and of its dictionary, if
    /// any.
    pub name: &'static str,
    /// The function that runs one input.
    pub run: fn(&[u8]),
    /// Maximum length of its inputs in bytes; longer ones find nothing more.
    pub bytes_max: usize,
}

/// All targets.
pub const TARGETS: [Target; 15] = [
    Target { name: "session", run: session::run, bytes_max: 4_096 },
    Target { name: "tracking", run: tracking::run, bytes_max: 4_096 },
    Target { name: "zookeeper", run: zookeeper::run, bytes_max: 4_096 },
    Target { name: "reading", run: reading::run, bytes_max: 4_096 },
    Target { name: "topology", run: topology::run, bytes_max: 4_096 },
    Target { name: "discover", run: discover::run, bytes_max: 4_096 },
    Target { name: "codecs", run: codecs::run, bytes_max: 512 },
    Target { name: "configuration", run: configuration::run, bytes_max: 4_096 },
    Target { name: "routes", run: routes::run, bytes_max: 4_096 },
    Target { name: "http", run: http::run, bytes_max: 4_096 },
    Target { name: "outputs", run: outputs::run, bytes_max: 1_024 },
    Target { name: "status", run: status::run, bytes_max: 4_096 },
    Target { name: "text", run: text::run, bytes_max: 1_024 },
    Target { name: "value", run: value::run, bytes_max: 4_096 },
    Target { name: "recording", run: recording::run, bytes_max: 16_384 },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
