//! A TCP proxy with faults: it can cut, reset, hang, drop one direction, delay, jitter, send byte
//! by byte, or break in the middle of an answer.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::sleep;

use super::clock::stepped;
use super::port::free_address;

/// What happens to the bytes on a [`Cable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// Bytes pass.
    Fair,
    /// Connections are closed, including new ones.
    Cut,
    /// Connections are reset, including new ones.
    Reset,
    /// Nothing arrives in either direction. Connections stay open, and delayed bytes arrive
    /// afterwards.
    Hang,
    /// Requests are lost, answers pass.
    LoseRequests,
    /// Answers are lost, requests pass.
    LoseAnswers,
    /// Every second chunk of the answers is lost.
    LoseEverySecond,
    /// Answers are delayed by this time.
    Delay(Duration),
    /// Answers are delayed by a random time up to this.
    Jitter(Duration),
    /// Answers arrive byte by byte, with this pause after each byte.
    Dribble(Duration),
    /// Half of each answer arrives, and then the connection is reset.
    Half,
    /// The server's clock appears ahead by this many seconds, in `TIME` and in every deadline.
    ClockAhead(i64),
    /// Requests arrive in segments of a few commands each, between which Redis serves others. Over
    /// loopback a batch would arrive at once, and no reading could ever be torn.
    Segments,
}

/// Size of a segment in bytes: a few locks' commands, so that every segment ends in the middle of
/// some lock.
const SEGMENT_BYTES: usize = 700;
const BETWEEN_SEGMENTS: Duration = Duration::from_millis(1);

/// A TCP proxy with weather.
#[derive(Debug)]
pub struct Cable {
    address: SocketAddr,
    weather: watch::Sender<Weather>,
    touched: Arc<AtomicU64>,
    serving: JoinHandle<()>,
}

/// The state that all connections of a cable share.
#[derive(Clone, Debug)]
struct Shared {
    weather: watch::Receiver<Weather>,
    touched: Arc<AtomicU64>,
}

impl Cable {
    /// Starts a cable to `upstream` in fair weather.
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start(upstream: SocketAddr) -> anyhow::Result<Cable> {
        let address = free_address()?;
        let listener = TcpListener::bind(address).await?;
        let (weather, of_connections) = watch::channel(Weather::Fair);
        let touched = Arc::<AtomicU64>::default();
        let shared = Shared { weather: of_connections, touched: Arc::clone(&touched) };
        let serving = tokio::spawn(async move {
            // Dropped with this task, which closes all connections.
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(connect(client, upstream, shared.clone()));
            }
        });
        Ok(Cable { address, weather, touched, serving })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the weather from now on.
    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }

    /// How often bad weather had an effect so far: number of chunks and connections concerned.
    pub fn touched(&self) -> u64 {
        self.touched.load(Ordering::SeqCst)
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
    let ((mut from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let mut weather = shared.weather.clone();
    let reset = tokio::select! {
        reset = answers(from_server, &to_client, &shared) => reset?,
        ended = requests(&mut from_client, to_server, &shared) => { ended?; false }
        _ = weather.wait_for(|weather| breaks(*weather)) => { shared.touch(); shared.now() == Weather::Reset }
    };
    if reset {
        to_client.as_ref().set_zero_linger()?;
        // Otherwise dropping it would first close the connection in order.
        to_client.forget();
    }
    Ok(())
}

async fn requests(
    from: &mut OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
) -> anyhow::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        hold(shared).await?;
        match buffer.get(..count) {
            None | Some([]) => return Ok(()),
            Some(_) if shared.now() == Weather::LoseRequests => shared.touch(),
            Some(bytes) if shared.now() == Weather::Segments => {
                for segment in bytes.chunks(SEGMENT_BYTES) {
                    to.write_all(segment).await?;
                    sleep(BETWEEN_SEGMENTS).await;
                }
            }
            Some(bytes) => to.write_all(bytes).await?,
        }
    }
}

/// Waits while nothing may pass.
async fn hold(shared: &Shared) -> anyhow::Result<()> {
    if shared.now() == Weather::Hang {
        shared.touch();
        shared.weather.clone().wait_for(|weather| *weather != Weather::Hang).await?;
    }
    Ok(())
}

/// Forwards answers; returns whether the connection is to be reset.
async fn answers(
    mut from: OwnedReadHalf,
    to: &OwnedWriteHalf,
    shared: &Shared,
) -> anyhow::Result<bool> {
    let (mut buffer, mut odd) = (vec![0; 64 * 1024], false);
    loop {
        let count = from.read(&mut buffer).await?;
        hold(shared).await?;
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else {
            return Ok(false);
        };
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
                // An answer in several chunks may end in the middle of a line; the rest follows at
                // once.
                let mut whole = bytes.to_vec();
                while !whole.ends_with(b"\n") {
                    let count = from.read(&mut buffer).await?;
                    let Some(more) = buffer.get(..count).filter(|more| !more.is_empty()) else {
                        return Ok(false);
                    };
                    whole.extend_from_slice(more);
                }
                send(to, &stepped(&whole, seconds.saturating_mul(1_000))).await?;
            }
            Weather::Fair
            | Weather::Cut
            | Weather::Reset
            | Weather::Hang
            | Weather::LoseRequests
            | Weather::Segments => {
                send(to, bytes).await?;
            }
        }
    }
}

/// Borrows the half only, so that the connection can be reset afterwards.
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use tokio::time::timeout;

    use super::*;

    const MESSAGE: &[u8] = b"+PONG and more\r\n";
    /// Maximum time for bytes that are not delayed; generous, for a busy machine.
    const SOON: Duration = Duration::from_secs(20);
    /// Time after which missing bytes count as held back.
    const NOT_YET: Duration = Duration::from_millis(300);

    /// A server that answers every request with the same bytes.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    let _ended = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn ask(cable: &Cable) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(cable.address()).await?;
        stream.write_all(MESSAGE).await?;
        Ok(stream)
    }

    /// Reads until the connection ends or enough has arrived.
    async fn answer(stream: &mut TcpStream) -> (Vec<u8>, std::io::Result<()>) {
        let mut bytes = Vec::new();
        while bytes.len() < MESSAGE.len() {
            match stream.read_buf(&mut bytes).await {
                Ok(0) => return (bytes, Ok(())),
                Ok(_) => {}
                Err(error) => return (bytes, Err(error)),
            }
        }
        (bytes, Ok(()))
    }

    #[tokio::test]
    async fn fair_weather_passes_and_touches_nothing() {
        let cable = Cable::start(echo().await).await.unwrap();
        let mut stream = ask(&cable).await.unwrap();
        assert_eq!(timeout(SOON, answer(&mut stream)).await.unwrap().0, MESSAGE);
        assert_eq!(cable.touched(), 0);
    }

    #[tokio::test]
    async fn what_hangs_arrives_afterwards_and_what_is_lost_never_does() {
        for (weather, arrives) in
            [(Weather::Hang, true), (Weather::LoseAnswers, false), (Weather::LoseRequests, false)]
        {
            let cable = Cable::start(echo().await).await.unwrap();
            cable.set(weather);
            let mut stream = ask(&cable).await.unwrap();
            assert!(timeout(NOT_YET, answer(&mut stream)).await.is_err(), "{weather:?}");
            assert!(cable.touched() > 0, "{weather:?}");
            cable.set(Weather::Fair);
            let within = if arrives { SOON } else { NOT_YET };
            assert_eq!(timeout(within, answer(&mut stream)).await.is_ok(), arrives, "{weather:?}");
        }
    }

    #[tokio::test]
    async fn half_an_answer_and_no_more() {
        let cable = Cable::start(echo().await).await.unwrap();
        cable.set(Weather::Half);
        let mut stream = ask(&cable).await.unwrap();
        let (bytes, ended) = timeout(SOON, answer(&mut stream)).await.unwrap();
        assert!(
            MESSAGE.starts_with(&bytes) && bytes.len() <= MESSAGE.len() / 2 && ended.is_err(),
            "{bytes:?} {ended:?}"
        );
    }

    #[tokio::test]
    async fn delays_and_single_bytes_take_their_time() {
        let slow = [Weather::Delay(NOT_YET), Weather::Dribble(NOT_YET / MESSAGE.len() as u32)];
        for weather in slow {
            let cable = Cable::start(echo().await).await.unwrap();
            cable.set(weather);
            let began = Instant::now();
            let mut stream = ask(&cable).await.unwrap();
            assert_eq!(timeout(SOON, answer(&mut stream)).await.unwrap().0, MESSAGE);
            assert!(began.elapsed() > NOT_YET * 8 / 10, "{weather:?}: {:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn connections_end_when_it_is_cut_and_are_refused_while_it_is() {
        for (weather, hard) in [(Weather::Cut, false), (Weather::Reset, true)] {
            let cable = Cable::start(echo().await).await.unwrap();
            let mut stream = ask(&cable).await.unwrap();
            timeout(SOON, answer(&mut stream)).await.unwrap().1.unwrap();
            cable.set(weather);
            assert_eq!(
                timeout(SOON, answer(&mut stream)).await.unwrap().1.is_err(),
                hard,
                "{weather:?}"
            );
            if let Ok(mut refused) = ask(&cable).await {
                assert!(
                    timeout(SOON, answer(&mut refused)).await.unwrap().0.is_empty(),
                    "{weather:?}"
                );
            }
        }
    }
}
