//! Fault injection into the whole program: servers in trouble, hostile bytes, pauses, reloads, a
//! stuck engine. Outputs must stay true, and unaffected tasks must go on.

mod hostile;
mod keys;
mod lifecycle;
mod locks;
mod logging;
mod losses;
mod names;
mod network;
mod pauses;
mod reload;
mod servers;

/// A redis block with a short interval and a short timeout.
fn redis_block(name: &str, port: u16, more: &str) -> String {
    format!(
        "  {name}: {{url: \"redis://127.0.0.1:{port}\", interval: 200ms, timeout: 500ms{more}}}\n"
    )
}

/// A configuration of one redis `main` and these tasks, each the inside of a YAML block.
fn config(port: u16, tasks: &[&str]) -> String {
    let tasks: String = tasks.iter().map(|task| format!("  - {{{task}}}\n")).collect();
    format!("redis:\n{}tasks:\n{tasks}", redis_block("main", port, ""))
}
