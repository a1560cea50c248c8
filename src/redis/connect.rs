//! Dialling: from a configured redis to a greeted connection, within bounded time.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_model::reading::Unknown;
use lockwatch_model::reply::{Command, Reply};
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::{Connection, broken, no_reply};
use super::guard::{Fault, Guarded, Ledger};
use super::handshake::{Handshake, Login};
use super::{Failure, convert};
use crate::config::{PasswordSource, RedisConfig};

/// Longest time for resolving the name, and for connecting to one address.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Most addresses of one name that are tried.
const ADDRESSES: usize = 4;
/// How long a connection may be silent before the kernel looks whether the peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A connection on which nothing was said yet, and the password for it.
#[derive(Debug)]
pub struct Dialled {
    stream: TcpStream,
    password: Option<Secret>,
}

/// A password; not to be printed.
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Connects to `config`'s server, logs in, chooses the database and finds out what the user may do.
///
/// # Errors
/// Why there is no connection.
pub async fn connect(config: &RedisConfig) -> Result<Connection, Failure> {
    let (connection, _no_replies) = dial(config).await?.greet(config, &[]).await?;
    Ok(connection)
}

/// Opens a TCP connection to `config`'s server.
///
/// # Errors
/// Why there is none.
pub async fn dial(config: &RedisConfig) -> Result<Dialled, Failure> {
    let password = password(config.password.as_ref()).await?;
    Ok(Dialled { stream: open(config).await?, password: password.map(Secret) })
}

impl Dialled {
    /// Logs in, chooses the database, finds out what the user may do, and asks `opening`: all in one breath, so that a
    /// network that loses every second reply cannot lose those to `opening` each time. Gives the replies to `opening`.
    ///
    /// # Errors
    /// Why the connection is of no use.
    pub async fn greet(self, config: &RedisConfig, opening: &[Command]) -> Result<(Connection, Vec<Reply>), Failure> {
        let ledger = Arc::new(Ledger::default());
        let mut stream = Guarded::new(self.stream, Arc::clone(&ledger));
        let password = self.password.as_ref().map(|Secret(password)| password.as_str());
        let handshake =
            Handshake::new(Login { username: config.username.as_deref(), password }, config.db, config.assume_master);
        let request = [handshake.bytes(), convert::pipeline(opening).get_packed_pipeline()].concat();
        for replies in [handshake.len(), opening.len()].into_iter().filter(|replies| *replies > 0) {
            ledger.expect(replies);
        }
        let replies = handshake.len() + opening.len();
        let (mut replies, ended) = match timeout(config.timeout, ask(&mut stream, &request, replies, &ledger)).await {
            Ok(answered) => answered,
            Err(_) => (Vec::new(), no_reply(config.timeout)),
        };
        if matches!(ledger.fault(), Some(Fault::NotRedis | Fault::Unasked | Fault::TooLarge)) {
            return Err(ended);
        }
        let answers = replies.split_off(handshake.len().min(replies.len()));
        let greeting = handshake.judge(&replies, ended.clone())?;
        if answers.len() < opening.len() {
            return Err(ended);
        }
        // The greeting is over: the crate shall add nothing to it.
        let nothing = RedisConnectionInfo::default().set_skip_set_lib_name();
        let unlimited = AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        let connected = MultiplexedConnection::new_with_config(&nothing, stream, unlimited).await;
        let (inner, driver) = connected.map_err(|error| broken(ledger.fault(), &error))?;
        Ok((Connection::new(inner, driver, ledger, config.timeout, greeting), answers))
    }
}

/// Opens a TCP connection to the first address that accepts one.
async fn open(config: &RedisConfig) -> Result<TcpStream, Failure> {
    let limit = config.timeout.min(DIAL_TIMEOUT);
    let found = timeout(limit, tokio::net::lookup_host((config.host.as_str(), config.port))).await;
    let found = found.map_err(|_| Failure::new(Unknown::Dns, format_args!("no answer within {limit:?}")))?;
    let addresses = found.map_err(|error| Failure::new(Unknown::Dns, error))?;
    let mut failure = Failure::new(Unknown::Dns, "the name has no address");
    for address in addresses.take(ADDRESSES) {
        match dial_address(address, limit).await {
            Ok(stream) => return Ok(stream),
            Err(detail) => failure = Failure::new(Unknown::Connect, format_args!("{address}: {detail}")),
        }
    }
    Err(failure)
}

async fn dial_address(address: SocketAddr, limit: Duration) -> Result<TcpStream, String> {
    let stream = timeout(limit, TcpStream::connect(address)).await;
    let stream = stream.map_err(|_| format!("no answer within {limit:?}"))?.map_err(|error| error.to_string())?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    let prepared = stream.set_nodelay(true).and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
    prepared.map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Sends the greeting with what goes beside it and collects the `count` replies, as far as they come; says why there are
/// no more.
///
/// This is done before the redis crate gets the stream: a server that is full refuses a client unasked and hangs up, and
/// the crate would drop that refusal.
async fn ask(stream: &mut Guarded<TcpStream>, request: &[u8], count: usize, ledger: &Ledger) -> (Vec<Reply>, Failure) {
    // If the peer has hung up already, what it said before is more telling than this error.
    let written = stream.write_all(request).await;
    let mut bytes = Vec::new();
    while stream.passed().0 < count {
        match stream.read_buf(&mut bytes).await {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    let ended = match written {
        Err(error) if ledger.fault().is_none() => Failure::new(Unknown::Closed, error),
        _ => broken(ledger.fault(), &"the greeting was cut short"),
    };
    let (count, end) = stream.passed();
    bytes.truncate(end);
    match parse(count, bytes) {
        Some(replies) => (replies, ended),
        None => (Vec::new(), Failure::new(Unknown::Protocol, "the greeting's replies cannot be read")),
    }
}

/// Parses `count` whole replies: as one list, because the crate parses one value at a time.
fn parse(count: usize, replies: Vec<u8>) -> Option<Vec<Reply>> {
    let list = [format!("*{count}\r\n").into_bytes(), replies].concat();
    match convert::reply(redis::parse_redis_value(&list).ok()?) {
        Reply::Array(replies) if replies.len() == count => Some(replies),
        _ => None,
    }
}

/// The password as of now, so that a rotated one is picked up.
async fn password(source: Option<&PasswordSource>) -> Result<Option<String>, Failure> {
    let Some(source) = source.cloned() else { return Ok(None) };
    // A secret may lie on a network file system.
    let read = tokio::task::spawn_blocking(move || read_password(&source)).await;
    let read = read.map_err(|error| Failure::new(Unknown::Auth, error))?;
    read.map(Some).map_err(|detail| Failure::new(Unknown::Auth, detail))
}

fn read_password(source: &PasswordSource) -> Result<String, String> {
    match source {
        PasswordSource::File(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("password_file {path:?}: {error}"))?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        }
        PasswordSource::Env(name) => std::env::var(name).map_err(|error| format!("password_env {name}: {error}")),
    }
}
