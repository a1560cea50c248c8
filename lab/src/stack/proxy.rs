//! Faulty networks: a link that can be cut, a proxy that drops scrapes, and a proxy that steps the
//! server's clock.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::http;
use super::port::free_address;

/// A listener that handles connections until it is dropped.
#[derive(Debug)]
struct Server {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Server {
    async fn start<F>(handle: impl Fn(TcpStream) -> F + Send + 'static) -> anyhow::Result<Server>
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let address = free_address()?;
        let listener = TcpListener::bind(address).await.context("cannot listen")?;
        let serving = tokio::spawn(async move {
            // Dropped with this task, which closes all connections.
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                while open.try_join_next().is_some() {}
                let _unbuffered_if_possible = stream.set_nodelay(true);
                open.spawn(handle(stream));
            }
        });
        Ok(Server { address, serving })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// What happens to the bytes on a [`Link`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// Bytes pass.
    Passes,
    /// Connections are closed, including new ones.
    Cut,
    /// Connections stay open, but nothing arrives.
    Hangs,
}

/// A TCP proxy that can be cut.
#[derive(Debug)]
pub struct Link {
    server: Server,
    traffic: watch::Sender<Traffic>,
}

impl Link {
    /// Starts a link to `upstream` that passes everything.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(upstream: SocketAddr) -> anyhow::Result<Link> {
        let (traffic, of_links) = watch::channel(Traffic::Passes);
        let server = Server::start(move |client| pass(client, upstream, of_links.clone())).await?;
        Ok(Link { server, traffic })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Sets what happens to the bytes from now on.
    pub fn set(&self, traffic: Traffic) {
        self.traffic.send_replace(traffic);
    }
}

async fn pass(
    client: TcpStream,
    upstream: SocketAddr,
    mut traffic: watch::Receiver<Traffic>,
) -> anyhow::Result<()> {
    if *traffic.borrow() == Traffic::Cut {
        return Ok(());
    }
    let server = TcpStream::connect(upstream).await?;
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        ended = pump(from_client, to_server, traffic.clone()) => ended,
        ended = pump(from_server, to_client, traffic.clone()) => ended,
        _ = traffic.wait_for(|traffic| *traffic == Traffic::Cut) => Ok(()),
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut traffic: watch::Receiver<Traffic>,
) -> anyhow::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        traffic.wait_for(|traffic| *traffic != Traffic::Hangs).await?;
        match buffer.get(..count) {
            None | Some([]) => return Ok(()),
            Some(bytes) => to.write_all(bytes).await?,
        }
    }
}

/// An HTTP proxy in front of an agent that drops a share of the scrapes.
#[derive(Debug)]
pub struct LossyScrapes {
    server: Server,
    dice: Arc<Mutex<Dice>>,
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
        let server =
            Server::start(move |client| scrape(client, upstream, Arc::clone(&of_server))).await?;
        Ok(LossyScrapes { server, dice })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Sets the share of dropped requests from now on.
    pub fn set_share(&self, share: f64) {
        self.dice.lock().unwrap_or_else(PoisonError::into_inner).share = share;
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

/// A proxy in front of Redis that steps the server's clock: `TIME`, and with it every deadline.
#[derive(Debug)]
pub struct ClockProxy {
    server: Server,
    ahead_ms: Arc<AtomicI64>,
}

impl ClockProxy {
    /// Starts a proxy to `upstream` that passes the true time.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(upstream: SocketAddr) -> anyhow::Result<ClockProxy> {
        let ahead_ms = Arc::new(AtomicI64::new(0));
        let of_server = Arc::clone(&ahead_ms);
        let server =
            Server::start(move |client| with_clock(client, upstream, Arc::clone(&of_server)))
                .await?;
        Ok(ClockProxy { server, ahead_ms })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address
    }

    /// Sets how many seconds the clock is ahead from now on.
    pub fn set_ahead_s(&self, seconds: i64) {
        self.ahead_ms.store(seconds.saturating_mul(1000), Ordering::SeqCst);
    }
}

async fn with_clock(
    client: TcpStream,
    upstream: SocketAddr,
    ahead_ms: Arc<AtomicI64>,
) -> anyhow::Result<()> {
    let server = TcpStream::connect(upstream).await?;
    let ((mut from_client, to_client), (from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        ended = copy(&mut from_client, &mut to_server) => { ended?; }
        ended = step_replies(from_server, to_client, &ahead_ms) => ended?,
    }
    Ok(())
}

async fn step_replies(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    ahead_ms: &AtomicI64,
) -> anyhow::Result<()> {
    let mut pending = Vec::new();
    loop {
        match from.read_buf(&mut pending).await {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => bail!(error),
            Ok(_) => {}
        }
        // Every reply ends with a line end, so complete lines are never held back for long.
        let Some(end) = pending.iter().rposition(|byte| *byte == b'\n') else { continue };
        let rest = pending.split_off(end + 1);
        let lines = std::mem::replace(&mut pending, rest);
        to.write_all(&stepped(&lines, ahead_ms.load(Ordering::SeqCst))).await?;
    }
}

/// Rewrites complete lines of replies as from a server whose clock is ahead by `ahead_ms`.
///
/// `TIME` returns its seconds as text of ten digits, `PEXPIRETIME` an integer of thirteen digits.
/// No other value that the lab's workers write looks like that.
pub(super) fn stepped(lines: &[u8], ahead_ms: i64) -> Vec<u8> {
    lines
        .split_inclusive(|byte| *byte == b'\n')
        .flat_map(|line| stepped_line(line, ahead_ms))
        .collect()
}

fn stepped_line(line: &[u8], ahead_ms: i64) -> Vec<u8> {
    let step = |digits: &[u8], ahead: i64| {
        let number: Option<i64> =
            std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        number.map(|number| number.saturating_add(ahead))
    };
    let stepped = match line.strip_suffix(b"\r\n") {
        Some([b':', digits @ ..]) if digits.len() == 13 => {
            step(digits, ahead_ms).map(|ms| format!(":{ms}\r\n"))
        }
        Some(digits) if digits.len() == 10 && digits.iter().all(u8::is_ascii_digit) => {
            step(digits, ahead_ms / 1000).map(|seconds| format!("{seconds}\r\n"))
        }
        _ => None,
    };
    stepped.map_or_else(|| line.to_vec(), String::into_bytes)
}

#[cfg(test)]
mod tests {
    use super::stepped;

    #[test]
    fn time_and_deadlines_step_and_nothing_else_does() {
        let replies =
            b"*2\r\n$10\r\n1763740800\r\n$6\r\n123456\r\n:1763740830123\r\n:-2\r\n$13\r\n\
                1763740800123\r\n:7\r\n";
        let expected =
            b"*2\r\n$10\r\n1763740920\r\n$6\r\n123456\r\n:1763740950123\r\n:-2\r\n$13\r\n\
                1763740800123\r\n:7\r\n";
        assert_eq!(stepped(replies, 120_000), expected);
        assert_eq!(stepped(replies, 0), replies);
    }
}
