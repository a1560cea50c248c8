//! A link with all that networks do to TCP: it can be cut, reset, hang, lose one direction, delay, jitter, dribble, or break in the
//! middle of an answer.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::port::free_address;
use super::proxy::stepped;

/// What happens to the bytes of a [`Cable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// They pass.
    Fair,
    /// Connections are closed, and new ones too.
    Cut,
    /// Connections are reset, and new ones too.
    Reset,
    /// Nothing arrives, in either direction; connections stay open, and what waited arrives afterwards.
    Hang,
    /// Requests are lost, answers pass.
    LoseRequests,
    /// Answers are lost, requests pass.
    LoseAnswers,
    /// Every second piece of an answer is lost.
    LoseEverySecond,
    /// Answers come so much later.
    Delay(Duration),
    /// Answers come later by anything up to this.
    Jitter(Duration),
    /// Answers come byte by byte with this pause after each.
    Dribble(Duration),
    /// Of each answer half arrives, and then the connection is reset.
    Half,
    /// The server's clock looks so many whole seconds ahead: `TIME`, and with it every deadline.
    ClockAhead(i64),
}

/// A TCP proxy with weather.
#[derive(Debug)]
pub struct Cable {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    touched: Arc<AtomicU64>,
    open: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

/// What the connections of a cable share.
#[derive(Clone, Debug)]
struct Shared {
    weather: watch::Receiver<Weather>,
    touched: Arc<AtomicU64>,
}

impl Cable {
    /// A cable to `upstream` in fair weather.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(upstream: SocketAddr) -> anyhow::Result<Cable> {
        let address = free_address()?;
        let listener = TcpListener::bind(address).await?;
        let (weather, of_connections) = watch::channel(Weather::Fair);
        let (touched, open) = (Arc::<AtomicU64>::default(), Arc::<AtomicUsize>::default());
        let shared = Shared { weather: of_connections, touched: Arc::clone(&touched) };
        let counted = Arc::clone(&open);
        let serving = tokio::spawn(async move {
            // Dropped with this task, and then all connections end.
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let (shared, counted) = (shared.clone(), Arc::clone(&counted));
                connections.spawn(async move {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _broken = connect(client, upstream, shared).await;
                    counted.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Ok(Cable { address, weather, touched, open, serving })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, this happens.
    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// How often bad weather had an effect so far: pieces of answers or requests, and connections.
    pub fn touched(&self) -> u64 {
        self.touched.load(Ordering::SeqCst)
    }

    /// How many connections there are now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Shared {
    fn now(&self) -> Weather {
        *self.weather.borrow()
    }

    fn touch(&self) {
        self.touched.fetch_add(1, Ordering::SeqCst);
    }
}

fn breaks(weather: Weather) -> bool {
    matches!(weather, Weather::Cut | Weather::Reset)
}

async fn connect(client: TcpStream, upstream: SocketAddr, shared: Shared) -> anyhow::Result<()> {
    client.set_nodelay(true)?;
    if breaks(shared.now()) {
        shared.touch();
        if shared.now() == Weather::Reset {
            client.set_zero_linger()?;
        }
        return Ok(());
    }
    let server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    let ((mut from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let mut weather = shared.weather.clone();
    let reset = tokio::select! {
        reset = answers(from_server, &to_client, &shared) => reset?,
        ended = requests(&mut from_client, to_server, &shared) => { ended?; false }
        _ = weather.wait_for(|weather| breaks(*weather)) => { shared.touch(); shared.now() == Weather::Reset }
    };
    if reset {
        to_client.as_ref().set_zero_linger()?;
    }
    Ok(())
}

async fn requests(from: &mut OwnedReadHalf, mut to: OwnedWriteHalf, shared: &Shared) -> anyhow::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        hold(shared).await?;
        match buffer.get(..count) {
            None | Some([]) => return Ok(()),
            Some(_) if shared.now() == Weather::LoseRequests => shared.touch(),
            Some(bytes) => to.write_all(bytes).await?,
        }
    }
}

/// Waits while nothing passes.
async fn hold(shared: &Shared) -> anyhow::Result<()> {
    if shared.now() == Weather::Hang {
        shared.touch();
        shared.weather.clone().wait_for(|weather| *weather != Weather::Hang).await?;
    }
    Ok(())
}

/// Whether the connection is to be reset.
async fn answers(mut from: OwnedReadHalf, to: &OwnedWriteHalf, shared: &Shared) -> anyhow::Result<bool> {
    let (mut buffer, mut odd) = (vec![0; 64 * 1024], false);
    loop {
        let count = from.read(&mut buffer).await?;
        hold(shared).await?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { return Ok(false) };
        let weather = shared.now();
        if weather != Weather::Fair && weather != Weather::LoseRequests {
            shared.touch();
        }
        match weather {
            Weather::LoseAnswers => {}
            Weather::LoseEverySecond => {
                odd = !odd;
                if odd {
                    send(to, bytes).await?;
                }
            }
            Weather::Delay(pause) => {
                sleep(pause).await;
                send(to, bytes).await?;
            }
            Weather::Jitter(most) => {
                sleep(most.mul_f64(fastrand::f64())).await;
                send(to, bytes).await?;
            }
            Weather::Dribble(pause) => {
                for byte in bytes {
                    send(to, std::slice::from_ref(byte)).await?;
                    sleep(pause).await;
                    if !matches!(shared.now(), Weather::Dribble(_)) {
                        return Ok(true);
                    }
                }
            }
            Weather::Half => {
                send(to, bytes.get(..count / 2).unwrap_or_default()).await?;
                return Ok(true);
            }
            Weather::ClockAhead(seconds) => {
                // An answer that is not in one piece ends in the middle of a line; the rest comes at once.
                let mut whole = bytes.to_vec();
                while !whole.ends_with(b"\n") {
                    let count = from.read(&mut buffer).await?;
                    let Some(more) = buffer.get(..count).filter(|more| !more.is_empty()) else { return Ok(false) };
                    whole.extend_from_slice(more);
                }
                send(to, &stepped(&whole, seconds.saturating_mul(1_000))).await?;
            }
            Weather::Fair | Weather::Cut | Weather::Reset | Weather::Hang | Weather::LoseRequests => {
                send(to, bytes).await?;
            }
        }
    }
}

/// Only borrows the half, so that the connection can be reset afterwards.
async fn send(to: &OwnedWriteHalf, mut bytes: &[u8]) -> anyhow::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
