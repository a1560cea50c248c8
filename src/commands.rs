//! The commands of lockwatch: one file or folder for each command, with what it takes.

pub mod acl;
pub mod agent;
pub mod ask;
pub mod check_config;
pub mod completions;
pub mod demo;
pub mod discover;
pub mod drill;
pub mod explain;
pub mod guard;
pub mod man;
mod momentary;
pub mod replay;
mod rule;
pub mod source;
pub mod status;
mod stop;
pub mod want;
