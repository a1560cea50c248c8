//! `lockwatch status` against a hostile agent: its output is safe for a terminal whatever it reads.
//!
//! The first byte selects the options; the rest is the body of the response.

use lockwatch::commands::ask::AgentArguments;
use lockwatch::commands::status::{StatusOptions, printed_for};

use crate::claims::harmless;

pub(crate) fn run(data: &[u8]) {
    let [choice, body @ ..] = data else { return };
    let options = StatusOptions {
        task: (choice & 1 != 0).then(|| "outbound".to_owned()),
        agent: AgentArguments::at("http://127.0.0.1:9898"),
        json: choice & 2 != 0,
        plugin: choice & 4 != 0,
        watch_ms: None,
    };
    match printed_for(body.to_vec(), &options) {
        Ok(text) => harmless(&text),
        Err(error) => harmless(&format!("{error:#}")),
    }
}
