//! A network between agent and Redis that delivers requests in segments, so that Redis serves
//! writers between them. Over loopback a batch would arrive at once, and no reading could ever be
//! torn.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

/// Size of a segment in bytes: a few locks' commands, so that every segment ends in the middle of
/// some lock.
const SEGMENT_BYTES: usize = 700;
const BETWEEN: Duration = Duration::from_millis(1);

/// The network; it ends when dropped.
#[derive(Debug)]
pub(super) struct Segments {
    address: SocketAddr,
    running: AbortHandle,
}

impl Segments {
    /// Starts a network in front of `redis`.
    pub(super) async fn to(redis: SocketAddr) -> anyhow::Result<Segments> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let running = tokio::spawn(async move {
            let mut links = JoinSet::new();
            while let Ok((agent, _)) = listener.accept().await {
                links.spawn(link(agent, redis));
            }
        });
        Ok(Segments { address, running: running.abort_handle() })
    }

    /// The address to which the agent connects.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Segments {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn link(agent: TcpStream, redis: SocketAddr) -> anyhow::Result<()> {
    let redis = TcpStream::connect(redis).await?;
    redis.set_nodelay(true)?;
    agent.set_nodelay(true)?;
    let ((mut from_agent, mut to_agent), (mut from_redis, mut to_redis)) =
        (agent.into_split(), redis.into_split());
    let asks = async {
        let mut segment = [0; SEGMENT_BYTES];
        loop {
            let count = from_agent.read(&mut segment).await?;
            if count == 0 {
                return anyhow::Ok(());
            }
            to_redis.write_all(segment.get(..count).unwrap_or_default()).await?;
            sleep(BETWEEN).await;
        }
    };
    let answers =
        async { anyhow::Ok(tokio::io::copy(&mut from_redis, &mut to_agent).await.map(drop)?) };
    tokio::select! { ended = asks => ended, ended = answers => ended }
}
