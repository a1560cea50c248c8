//! Everything in lockwatch that eats foreign bytes, as functions that take any bytes.
//!
//! A target panics when a promise is broken: the code under it panicked, hung, or showed what it
//! must not. What a target returns is of no interest. `fuzz/engine` calls them with inputs that it
//! makes up, guided by coverage; `tests/corpus.rs` calls them with what was collected in
//! `fuzz/corpus`, so that a mistake that was found once fails `cargo test`.

mod claims;
mod codecs;
mod configuration;
mod discover;
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
mod status;
mod text;
mod topology;
mod tracking;
mod wire;
mod worlds;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: that of its folder in `fuzz/corpus`, and of its dictionary, if it has one.
    pub name: &'static str,
    /// Calls it.
    pub run: fn(&[u8]),
    /// Longer inputs find nothing more.
    pub bytes_max: usize,
}

/// All targets.
pub const TARGETS: [Target; 13] = [
    Target { name: "session", run: session::run, bytes_max: 4_096 },
    Target { name: "tracking", run: tracking::run, bytes_max: 4_096 },
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
    Target { name: "recording", run: recording::run, bytes_max: 16_384 },
];

/// The target of this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
