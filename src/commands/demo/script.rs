//! The script that the demo's guards run. It writes its progress until it is made to hang.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::AsyncTypedCommands;
use tokio::time::interval;

use super::names::{HANG, PROGRESS};
use super::server;

/// How often it writes its progress.
const WORK_EVERY: Duration = Duration::from_millis(500);

/// What `lockwatch demo-script` takes; `demo` has a guard start it.
#[derive(Clone, Debug, clap::Args)]
pub struct ScriptArgs {
    /// The demo's Redis
    #[arg(long, value_name = "ADDRESS")]
    pub redis: SocketAddr,
    /// The worker that it runs for
    #[arg(long)]
    pub name: String,
}

/// Works until it is ended. Once it hangs, it does nothing more, like a dead thread.
///
/// # Errors
/// When Redis fails.
pub async fn run(args: ScriptArgs) -> anyhow::Result<()> {
    let mut data = server::connect(args.redis).await?;
    let (key, field) = PROGRESS;
    let mut work = interval(WORK_EVERY);
    loop {
        work.tick().await;
        if data.get(HANG).await? == Some(args.name.clone()) {
            data.del(HANG).await?;
            return std::future::pending().await;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        data.hset(key, field, now.as_millis()).await?;
    }
}
