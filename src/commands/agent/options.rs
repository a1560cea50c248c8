//! The options of the agent.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint, value_parser};

use crate::commands::source::ConfigSource;
use crate::config::ConfigErrors;
use crate::record::RecordOptions;
use crate::telemetry::LogOptions;
use crate::web::Web;

/// Where the agent listens by default: only this machine can reach it. The port lies
/// outside the range that other exporters share.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:10379";

/// How to run the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunOptions {
    /// What to watch.
    pub source: ConfigSource,
    /// Where to serve.
    pub listen: Vec<SocketAddr>,
    /// Whether `POST /-/reload` is allowed.
    pub enable_lifecycle: bool,
    /// Sites that may show a task's page in a frame, as `Content-Security-Policy` writes them.
    pub frame_ancestors: Vec<String>,
    /// The web file.
    pub web: Option<WebOptions>,
    /// Whether, and where, to record.
    pub record: Option<RecordOptions>,
    /// How to log.
    pub log: LogOptions,
}

/// TLS, logins and limits of the pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOptions {
    /// The web file.
    pub file: PathBuf,
    /// Whether the paths of health answer without a login.
    pub health_without_login: bool,
}

impl WebOptions {
    /// Reads the file.
    ///
    /// # Errors
    /// All mistakes at once.
    pub fn load(&self) -> Result<Web, ConfigErrors> {
        Web::load(&self.file, self.health_without_login)
    }
}

/// What the agent takes on the command line.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    #[command(flatten)]
    pub(crate) source: ConfigSource,
    /// Check the configuration and exit
    #[arg(long = "config.check")]
    pub(crate) check: bool,
    #[command(flatten)]
    web: WebArguments,
    /// Allow POST /-/reload
    #[arg(long = "web.enable-lifecycle")]
    enable_lifecycle: bool,
    /// The web file: TLS, logins, headers and a rate limit, as other exporters have it
    #[arg(long = "web.config.file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) web_config: Option<PathBuf>,
    /// Answer /-/healthy and /-/ready without a login; TLS and its client certificates stay
    #[arg(long = "web.health-without-login", requires = "web_config")]
    health_without_login: bool,
    #[command(flatten)]
    record: RecordArguments,
    #[command(flatten)]
    log: LogOptions,
}

impl RunArguments {
    /// Where to serve.
    pub(crate) fn listen(&self) -> &[SocketAddr] {
        &self.web.listen
    }
}

#[derive(Debug, Args)]
struct RecordArguments {
    /// Record what the agent sees in this folder, without secrets, for `lockwatch replay`
    #[arg(long = "record", value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: Option<PathBuf>,
    /// Most MiB of recordings; the oldest go first
    #[arg(long = "record.max-size", value_name = "MIB", default_value = "256", requires = "folder", value_parser = value_parser!(u64).range(1..1 << 20))]
    max_mib: u64,
}

#[derive(Debug, Args)]
struct WebArguments {
    /// Where to serve metrics and pages; `:10379` means all addresses of this machine; may be
    /// repeated
    #[arg(long = "web.listen-address", value_name = "ADDRESS", default_value = DEFAULT_LISTEN, value_parser = listen_address)]
    listen: Vec<SocketAddr>,
    /// A site that may show a task's page in a frame, https://wms.example.com; may be repeated
    #[arg(long = "web.frame-ancestor", value_name = "ORIGIN", value_parser = origin)]
    frame_ancestors: Vec<String>,
}

impl From<RunArguments> for RunOptions {
    fn from(run: RunArguments) -> RunOptions {
        let RecordArguments { folder, max_mib } = run.record;
        let health_without_login = run.health_without_login;
        RunOptions {
            source: run.source,
            web: run.web_config.map(|file| WebOptions { file, health_without_login }),
            listen: run.web.listen,
            enable_lifecycle: run.enable_lifecycle,
            frame_ancestors: run.web.frame_ancestors,
            record: folder.map(|folder| RecordOptions { folder, max_bytes: max_mib << 20 }),
            log: run.log,
        }
    }
}

/// `address:port`, `localhost:port`, or `:port` for all addresses.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let full = match text.split_once(':') {
        Some(("", port)) => format!("[::]:{port}"),
        Some(("localhost", port)) => format!("127.0.0.1:{port}"),
        _ => text.to_owned(),
    };
    full.parse().map_err(|_| "write it like 127.0.0.1:10379, [::1]:10379 or :10379".to_owned())
}

/// `scheme://host`, perhaps with a port: nothing else may go into the header.
fn origin(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]*".contains(&byte);
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match host {
        Some(host) if !host.is_empty() && host.bytes().all(plain) => Ok(text.to_owned()),
        _ => Err("write it like https://wms.example.com or http://10.0.0.7:8080, without a path"
            .to_owned()),
    }
}
