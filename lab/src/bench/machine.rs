//! Describes the machine of the measurements.

use tokio::process::Command;

use crate::stack::{Exporter, Program};

/// Date, machine and versions, in one sentence.
pub(super) async fn machine() -> String {
    let day = said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]).await;
    let model = file("/proc/cpuinfo", "model name");
    let memory: f64 =
        file("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(f64::NAN);
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    let system = said("uname", &["-sr"]).await;
    let redis = match Program::RedisServer.find() {
        Ok(path) => said(&path.to_string_lossy(), &["--version"]).await,
        Err(why) => why.to_string(),
    };
    let redis = redis.split(' ').find_map(|word| word.strip_prefix("v=")).unwrap_or("?").to_owned();
    let peer = match Exporter::version().await {
        Ok(said) => {
            let word = |start: &str| {
                said.split_whitespace()
                    .find(|word| word.starts_with(start))
                    .unwrap_or("?")
                    .to_owned()
            };
            format!("redis_exporter {} ({})", word("v"), word("go1"))
        }
        Err(why) => format!("no redis_exporter: {why:#}"),
    };
    format!(
        "{day}, {model}, {cores} cores, {:.0} GB, {system}, everything on loopback; load average \
         when it began {load}.\n\
         lockwatch {}, Redis {redis}, {peer}.",
        memory / 1024.0 / 1024.0,
        env!("CARGO_PKG_VERSION"),
    )
}

fn file(path: &str, name: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    value.map_or("?", |(_, value)| value.trim()).to_owned()
}

async fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().await;
    output
        .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        .unwrap_or_default()
}
