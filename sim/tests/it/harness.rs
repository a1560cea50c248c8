//! Runs the timelines. Their language is described in `timelines/README.md`.

mod checks;
mod fleet;
mod run;
mod script;
mod setup;
mod text;
mod verbs;
mod watcher;
mod world;

pub(crate) use run::play;
pub(crate) use script::parse;
