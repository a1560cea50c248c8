//! A session with one server of a ZooKeeper ensemble, for commands that look once.

use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::Failure;
use lockwatch_watch::zookeeper::codec::{self, Answer, Ask, Greeting, Malformed, Said, Zxid};
use lockwatch_watch::zookeeper::driver::Event;
use tokio::io::AsyncReadExt as _;
use tokio::time::timeout;

use super::connect::reach_server;
use super::login::password;
use super::stream::Stream;
use super::zookeeper::{receive, send};
use crate::config::{HostPort, ZooKeeperConfig, ms};

/// The lifetime of a session that is asked for, in milliseconds.
const SESSION_MS: u32 = 10_000;
/// The most requests that are under way at once.
const PIPELINE: usize = 200;
/// The most children of a node that are read.
const CHILDREN_MAX: usize = 16_384;
/// The longest answer to `srvr`, in bytes.
const WORDS_BYTES_MAX: u64 = 4_096;

/// An open session.
#[derive(Debug)]
pub struct Nodes {
    stream: Stream,
    timeout: Duration,
    xid: i32,
}

impl Nodes {
    /// Opens a session, and logs in.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn open(config: &ZooKeeperConfig, at: &HostPort) -> Result<Nodes, Failure> {
        let secret = password(config.login.password.as_ref()).await?;
        let mut stream = reach(config, at).await?;
        let mut first = codec::connect(SESSION_MS, Zxid::default());
        if let Some(secret) = secret {
            first.extend(codec::auth("digest", secret.expose().as_bytes()));
        }
        let granted = async {
            send(&mut stream, &first).await?;
            match receive(&mut stream).await? {
                Event::Frame(frame) => codec::greeting(&frame).map_err(malformed),
                _ => Err(malformed(Malformed)),
            }
        };
        match within(config.timeout, granted).await? {
            Greeting::Session { .. } => Ok(Nodes { stream, timeout: config.timeout, xid: 0 }),
            Greeting::Refused => Err(Failure::new(
                Unknown::Quorum,
                "the server grants no session: it has no majority of the ensemble behind it",
            )),
        }
    }

    /// What is answered, in the same order; `None`: it is too large to be read.
    ///
    /// # Errors
    /// The session has ended.
    pub async fn ask(&mut self, asks: &[Ask]) -> Result<Vec<Option<Answer>>, Failure> {
        let mut answers = Vec::with_capacity(asks.len());
        for asks in asks.chunks(PIPELINE) {
            let frames: Vec<u8> =
                (self.xid + 1..).zip(asks).flat_map(|(xid, ask)| ask.frame(xid)).collect();
            let limit = self.timeout;
            within(limit, send(&mut self.stream, &frames)).await?;
            for ask in asks {
                self.xid += 1;
                answers.push(within(limit, self.answer(ask)).await?);
            }
        }
        Ok(answers)
    }

    /// The answer to the oldest question; what else the server says is left out.
    async fn answer(&mut self, ask: &Ask) -> Result<Option<Answer>, Failure> {
        loop {
            let (frame, is_whole) = match receive(&mut self.stream).await? {
                Event::Frame(frame) => (frame, true),
                Event::TooLarge { header, .. } => (header, false),
                _ => return Err(malformed(Malformed)),
            };
            match codec::said(&frame).map_err(malformed)? {
                Said::Reply { xid, .. } if xid != self.xid => return Err(malformed(Malformed)),
                Said::Reply { .. } if !is_whole => return Ok(None),
                Said::Reply { body, .. } => {
                    return codec::answer(ask, body, CHILDREN_MAX).map_err(malformed);
                }
                Said::LoggedIn(Err(_)) => {
                    let words = "the server does not know this scheme of logins";
                    return Err(Failure::new(Unknown::Auth, words));
                }
                Said::LoggedIn(Ok(())) | Said::Pong(_) | Said::Changed(_) | Said::Other => {}
            }
        }
    }

    /// Ends the session, so that the server need not wait for its timeout.
    pub async fn close(mut self) {
        let farewell = codec::close_session(self.xid + 1);
        // If the connection is gone, the session ends by itself.
        let _ended = within(self.timeout, send(&mut self.stream, &farewell)).await;
    }
}

/// What a server answers to `srvr`, the only such word that is allowed by default.
///
/// # Errors
/// Why there is no answer.
pub async fn introduction(config: &ZooKeeperConfig, at: &HostPort) -> Result<String, Failure> {
    let mut stream = reach(config, at).await?;
    let said = async {
        send(&mut stream, b"srvr").await?;
        let mut said = Vec::new();
        let closed = |error| Failure::new(Unknown::Closed, error);
        (&mut stream).take(WORDS_BYTES_MAX).read_to_end(&mut said).await.map_err(closed)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    };
    within(config.timeout, said).await
}

async fn reach(config: &ZooKeeperConfig, at: &HostPort) -> Result<Stream, Failure> {
    reach_server(at, (0, ms(config.timeout)), config.tls_of(at).as_ref()).await
}

async fn within<T>(
    limit: Duration,
    what: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let late = || Failure::new(Unknown::Timeout, format_args!("no answer within {limit:?}"));
    timeout(limit, what).await.map_err(|_| late())?
}

fn malformed(_: Malformed) -> Failure {
    Failure::new(Unknown::Protocol, "the server does not follow ZooKeeper's protocol")
}
