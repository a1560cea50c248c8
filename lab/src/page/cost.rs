//! The CPU cost of open web pages, for the browser and for the agent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::stack::{Agent, Browser, get, until};

/// Maximum time until an opened page has received data.
const OPEN_WITHIN: Duration = Duration::from_secs(30);

/// Share of one core, in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share(pub(super) f64);

/// CPU used by the browser: for rendering pages, and in total.
pub(super) async fn of_browser(
    browser: &Browser,
    during: Duration,
) -> anyhow::Result<(Share, Share)> {
    let (before, began) = (browser.cpu_time()?, Instant::now());
    sleep(during).await;
    let (after, passed) = (browser.cpu_time()?, began.elapsed());
    Ok((share(after.renderers - before.renderers, passed), share(after.all - before.all, passed)))
}

/// CPU used by the agent.
pub(super) async fn of_agent(agent: &Agent, during: Duration) -> anyhow::Result<Share> {
    let (before, began) = (agent.cpu_time()?, Instant::now());
    sleep(during).await;
    Ok(share(agent.cpu_time()?.saturating_sub(before), began.elapsed()))
}

fn share(busy: Duration, passed: Duration) -> Share {
    Share(100.0 * busy.as_secs_f64() / passed.as_secs_f64())
}

/// Open pages without a browser: received data is discarded.
#[derive(Debug)]
pub(super) struct Pages {
    _reading: JoinSet<anyhow::Result<()>>,
    bytes: Arc<AtomicU64>,
}

impl Pages {
    /// Opens `count` pages, and waits until each has received data.
    pub(super) async fn open(agent: SocketAddr, count: usize) -> anyhow::Result<Pages> {
        let page = get(agent, "/").await?.ok()?;
        let of = |name: &str| {
            page.split_once(&format!("{name}=\"")).and_then(|(_, rest)| rest.split('"').next())
        };
        let (since, boot) =
            (of("data-sequence").context("no sequence")?, of("data-boot").context("no boot")?);
        let path = format!("/live?since={since}&boot={boot}");
        let (bytes, heard) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let mut reading = JoinSet::new();
        for _ in 0..count {
            reading.spawn(read(agent, path.clone(), Arc::clone(&bytes), Arc::clone(&heard)));
        }
        let all = u64::try_from(count)?;
        until(OPEN_WITHIN, "all pages hear something", async || {
            heard.load(Ordering::Relaxed) == all
        })
        .await?;
        Ok(Pages { _reading: reading, bytes })
    }

    /// Number of bytes received by all pages so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

async fn read(
    agent: SocketAddr,
    path: String,
    bytes: Arc<AtomicU64>,
    heard: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(agent).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {agent}\r\n\r\n").as_bytes()).await?;
    let mut buffer = vec![0; 64 * 1024];
    let mut is_first = true;
    loop {
        let count = stream.read(&mut buffer).await?;
        let start = buffer.get(..count).unwrap_or_default();
        if count == 0 || is_first && !start.starts_with(b"HTTP/1.1 200 ") {
            anyhow::bail!("the agent ended a page");
        }
        if is_first {
            heard.fetch_add(1, Ordering::Relaxed);
        }
        is_first = false;
        bytes.fetch_add(u64::try_from(count)?, Ordering::Relaxed);
    }
}
