//! A proxy that drops scrapes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use tokio::io::{AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::http;
use super::port::free_address;

/// An HTTP proxy in front of an agent that drops a share of the scrapes.
#[derive(Debug)]
pub struct LossyScrapes {
    address: SocketAddr,
    dice: Arc<Mutex<Dice>>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Dice {
    random: fastrand::Rng,
    share: f64,
}

impl LossyScrapes {
    /// Starts a proxy to `upstream` that drops `share` (0 to 1) of the requests, always the same
    /// ones for the same `seed`.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(
        upstream: SocketAddr,
        share: f64,
        seed: u64,
    ) -> anyhow::Result<LossyScrapes> {
        let dice = Arc::new(Mutex::new(Dice { random: fastrand::Rng::with_seed(seed), share }));
        let of_server = Arc::clone(&dice);
        let address = free_address()?;
        let listener = TcpListener::bind(address).await.context("cannot listen")?;
        let serving = tokio::spawn(async move {
            // Dropped with this task, which closes all connections.
            let mut open = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                open.spawn(scrape(client, upstream, Arc::clone(&of_server)));
            }
        });
        Ok(LossyScrapes { address, dice, serving })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the share of dropped requests from now on.
    pub fn set_share(&self, share: f64) {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).share = share;
    }
}

impl Drop for LossyScrapes {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Forwards one request and its response. Connections are not kept, so that each scrape has its
/// own.
async fn scrape(
    mut client: TcpStream,
    upstream: SocketAddr,
    dice: Arc<Mutex<Dice>>,
) -> anyhow::Result<()> {
    let Some(request) = http::read_request(&mut client).await? else { return Ok(()) };
    let lost = {
        let mut dice = dice.lock().unwrap_or_else(PoisonError::into_inner);
        dice.random.f64() < dice.share
    };
    if lost {
        return Ok(());
    }
    let mut server = TcpStream::connect(upstream).await?;
    let kept =
        request.head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("connection:"));
    let head = kept.collect::<Vec<_>>().join("\r\n") + "\r\nConnection: close\r\n\r\n";
    server.write_all((head + &request.body).as_bytes()).await?;
    copy(&mut server, &mut client).await?;
    Ok(())
}
