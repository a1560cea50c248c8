//! The attacks of hostile clients on an HTTP server.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::page::Crowd;
use crate::visitor::connect;

/// Receive buffer of a client that does not read, in bytes.
const SMALL: u32 = 8 << 10;
/// Maximum pause until a client connects again.
const PAUSE: Duration = Duration::from_secs(5);
const BYTE_EVERY: Duration = Duration::from_secs(1);
/// How long a client stays: longer than any timeout of the server.
const STAYS: Duration = Duration::from_secs(120);
/// Number of requests that are sent at once.
const PIPELINED: usize = 32;
/// Number of clients that send as fast as they can; more would only wait for the CPU.
const FLOODERS: usize = 128;

/// A kind of attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Attack {
    /// Half a request line, or header bytes one by one, or nothing.
    HalfOpen,
    /// A whole request for a big answer that is never read.
    NeverRead,
    /// The same, read a kilobyte at a time.
    SlowRead,
    /// One request, then silence.
    Idle,
    /// Requests for paths that there are not, many at once.
    Pipelined,
    /// The page of metrics in each form, as fast as it comes.
    Scrapes,
    /// The pages for people and programs, as fast as they come.
    Pages,
    /// Random methods, paths and headers.
    Odd,
    /// Streams that stay.
    Streams,
    /// Explanations, which wait for a reading.
    Explain,
    /// Heads that are far too long.
    Huge,
}

/// What the hidden command `attack` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct AttackArgs {
    #[arg(value_enum)]
    attack: Attack,
    #[arg(long)]
    agent: SocketAddr,
    #[arg(long, value_delimiter = ',', required = true)]
    from: Vec<IpAddr>,
    #[arg(long)]
    clients: usize,
    #[arg(long)]
    seconds: f64,
    #[arg(long)]
    tasks: usize,
}

#[derive(Debug, Default)]
struct Tally {
    opened: AtomicU64,
    requests: AtomicU64,
    answers: AtomicU64,
}

impl Attack {
    pub(super) const ALL: [Attack; 11] = [
        Attack::HalfOpen,
        Attack::NeverRead,
        Attack::SlowRead,
        Attack::Idle,
        Attack::Pipelined,
        Attack::Scrapes,
        Attack::Pages,
        Attack::Odd,
        Attack::Streams,
        Attack::Explain,
        Attack::Huge,
    ];

    pub(super) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether few clients send as much as they can, instead of many a little.
    fn floods(self) -> bool {
        self.clients(usize::MAX) == FLOODERS
    }

    /// The number of clients that it takes, out of `many`.
    pub(super) fn clients(self, many: usize) -> usize {
        match self {
            Attack::HalfOpen | Attack::Idle => many,
            Attack::NeverRead | Attack::SlowRead | Attack::Streams | Attack::Explain => {
                many.div_ceil(4)
            }
            Attack::Pipelined | Attack::Scrapes | Attack::Pages | Attack::Odd | Attack::Huge => {
                many.min(FLOODERS)
            }
        }
    }
}

/// Attacks for the given time, then prints the numbers of connections, requests and responses.
///
/// # Errors
/// Never.
pub async fn attack(args: AttackArgs) -> anyhow::Result<bool> {
    let tally = Arc::<Tally>::default();
    let args = Arc::new(args);
    let mut clients = JoinSet::new();
    for at in 0..args.clients {
        clients.spawn(client(Arc::clone(&args), at, Arc::clone(&tally)));
    }
    sleep(Duration::from_secs_f64(args.seconds)).await;
    clients.abort_all();
    let [opened, requests, answers] =
        [&tally.opened, &tally.requests, &tally.answers].map(|count| count.load(Ordering::Relaxed));
    println!("{opened} connections {requests} requests {answers} answers");
    Ok(true)
}

/// Connects repeatedly.
async fn client(args: Arc<AttackArgs>, at: usize, tally: Arc<Tally>) {
    let Some(from) = args.from.get(at % args.from.len().max(1)).copied() else { return };
    // Spreads the first connections.
    sleep(Duration::from_secs(1).mul_f64(fastrand::f64())).await;
    loop {
        let reads_slowly = matches!(args.attack, Attack::NeverRead | Attack::SlowRead);
        if let Ok(stream) = connect(args.agent, from, reads_slowly.then_some(SMALL)).await {
            tally.opened.fetch_add(1, Ordering::Relaxed);
            let _it_ended = timeout(STAYS, hurt(stream, &args, at, &tally)).await;
        }
        let pause = if args.attack.floods() { Duration::from_millis(10) } else { PAUSE };
        sleep(pause.mul_f64(fastrand::f64())).await;
    }
}

async fn hurt(
    mut stream: TcpStream,
    args: &AttackArgs,
    at: usize,
    tally: &Tally,
) -> anyhow::Result<()> {
    match args.attack {
        Attack::HalfOpen => half_open(&mut stream, at).await,
        Attack::NeverRead => {
            ask(&mut stream, &big(at), tally).await?;
            sleep(STAYS).await;
            Ok(())
        }
        Attack::SlowRead => {
            ask(&mut stream, &big(at), tally).await?;
            let mut some = [0; 1024];
            while stream.read(&mut some).await? > 0 {
                sleep(BYTE_EVERY).await;
            }
            Ok(())
        }
        Attack::Idle => {
            ask(&mut stream, "GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n", tally).await?;
            drain(&mut stream, tally).await
        }
        Attack::Pipelined => {
            flood(stream, || "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n".repeat(PIPELINED), tally)
                .await
        }
        Attack::Scrapes => flood(stream, || scrape(fastrand::usize(..)), tally).await,
        Attack::Pages => flood(stream, || page(args.tasks), tally).await,
        Attack::Odd => flood(stream, odd, tally).await,
        Attack::Streams => {
            let path = if at.is_multiple_of(3) { "/live" } else { "/live?task=task-0001" };
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n");
            ask(&mut stream, &request, tally).await?;
            if at.is_multiple_of(2) {
                sleep(STAYS).await;
            }
            drain(&mut stream, tally).await
        }
        Attack::Explain => {
            let task = Crowd::name(fastrand::usize(..args.tasks.max(1)));
            let request = format!("GET /api/v1/tasks/{task}/explain HTTP/1.1\r\nHost: a\r\n\r\n");
            ask(&mut stream, &request, tally).await?;
            drain(&mut stream, tally).await
        }
        Attack::Huge => {
            let long = "x".repeat(64 << 10);
            let request = match at % 3 {
                0 => format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"),
                1 => format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {long}\r\n\r\n"),
                _ => format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X-Many: 1\r\n".repeat(5_000)),
            };
            ask(&mut stream, &request, tally).await?;
            drain(&mut stream, tally).await
        }
    }
}

async fn half_open(stream: &mut TcpStream, at: usize) -> anyhow::Result<()> {
    match at % 3 {
        0 => sleep(STAYS).await,
        1 => {
            stream.write_all(b"GET /metr").await?;
            sleep(STAYS).await;
        }
        _ => {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nX-Slow: ").await?;
            loop {
                stream.write_all(b"x").await?;
                sleep(BYTE_EVERY).await;
            }
        }
    }
    Ok(())
}

async fn ask(stream: &mut TcpStream, request: &str, tally: &Tally) -> anyhow::Result<()> {
    stream.write_all(request.as_bytes()).await?;
    tally.requests.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Reads until the server closes the connection.
async fn drain(stream: &mut TcpStream, tally: &Tally) -> anyhow::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    let mut is_first = true;
    while stream.read(&mut buffer).await? > 0 {
        if std::mem::take(&mut is_first) {
            tally.answers.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// Sends and reads at the same time, each as fast as possible.
async fn flood(
    stream: TcpStream,
    request: impl Fn() -> String,
    tally: &Tally,
) -> anyhow::Result<()> {
    let (mut reading, mut writing) = stream.into_split();
    let asking = async {
        loop {
            let requests = request();
            let count = requests.matches(" HTTP/1.1\r\n").count();
            writing.write_all(requests.as_bytes()).await?;
            tally.requests.fetch_add(u64::try_from(count)?, Ordering::Relaxed);
        }
    };
    let answered = async {
        let mut buffer = vec![0; 256 << 10];
        loop {
            let count = reading.read(&mut buffer).await?;
            if count == 0 {
                return anyhow::Ok(());
            }
            let read = buffer.get(..count).unwrap_or_default();
            let heads = read.windows(9).filter(|window| window.starts_with(b"HTTP/1.1 ")).count();
            tally.answers.fetch_add(u64::try_from(heads)?, Ordering::Relaxed);
        }
    };
    tokio::select! { ended = answered => ended, ended = asking => ended }
}

/// A path with a big response, different for each client.
fn big(at: usize) -> String {
    let paths = ["/", "/api/v1/tasks", "/api/v1/events?limit=1000", "/tasks/task-0001?window=6h"];
    match paths.get(at % 8) {
        Some(path) => format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"),
        None => scrape(fastrand::usize(..)),
    }
}

/// A scrape in one of four forms.
fn scrape(at: usize) -> String {
    let accept = if at.is_multiple_of(2) { "Accept: application/openmetrics-text\r\n" } else { "" };
    let packed = if (at / 2).is_multiple_of(2) { "Accept-Encoding: gzip\r\n" } else { "" };
    format!("GET /metrics HTTP/1.1\r\nHost: a\r\n{accept}{packed}\r\n")
}

fn page(tasks: usize) -> String {
    let task = Crowd::name(fastrand::usize(..tasks.max(1)));
    let path = match fastrand::u8(..5) {
        0 => String::from("/"),
        1 => String::from("/api/v1/tasks"),
        2 => format!("/tasks/{task}"),
        3 => format!("/badge/{task}.svg"),
        _ => String::from("/api/v1/events?limit=1000"),
    };
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
}

/// A request that no real client would send.
fn odd() -> String {
    let word =
        |length: usize| -> String { (0..length).map(|_| fastrand::alphanumeric()).collect() };
    let paths = ["/metrics", "/", "/api/v1/tasks", "/-/healthy", "/tasks"];
    let mut requests = String::new();
    for _ in 0..8 {
        let path = fastrand::choice(paths).unwrap_or_default();
        let (method, tail, name, value) = (word(6).to_uppercase(), word(12), word(10), word(30));
        let request = format!(
            "{method} {path}/{tail}?{name}={value} HTTP/1.1\r\nHost: {tail}\r\n\
             X-{name}: {value}\r\n\r\n"
        );
        requests.push_str(&request);
    }
    requests
}
