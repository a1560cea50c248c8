//! The agent's server alone, for snapshots that are made up.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use lockwatch::http::{HttpContext, Limits, serve};
use lockwatch::outputs::history::History;
use lockwatch::paths::Links;
use lockwatch::published::{Published, ReloadStatus};
use lockwatch::trace::Traces;
use lockwatch_judge::time::AgentWall;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const RELOAD: ReloadStatus =
    ReloadStatus { successful: true, success_at: AgentWall(0), tasks: 1, links: Links::NONE };

/// The agent's server, serving these snapshots.
pub(super) async fn listen_with_lockwatch(
    published: watch::Receiver<Arc<Published>>,
    serving: &mut JoinSet<()>,
) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    serving.spawn(async move {
        let (_status, reload_status) = watch::channel(RELOAD);
        let (reload, _requests) = mpsc::channel(1);
        let context = HttpContext {
            snapshots: published.into(),
            reload_status,
            log_lines_lost: || 0,
            reload,
            enable_lifecycle: false,
            history: History::default(),
            traces: Traces::default(),
            frame_ancestors: Arc::default(),
            web: None,
            switches: None,
            drills: None,
            limits: Limits::default(),
        };
        serve(vec![listener], context, CancellationToken::new()).await;
    });
    Ok(address)
}
