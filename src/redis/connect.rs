//! Dialling: connects to a configured server and completes the greeting, within bounded time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::time::{AgentWall, Mono};
use lockwatch_watch::redis::reply::{Command, Reply};
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::{Connection, broken, no_reply};
use super::guard::{Fault, Guarded, Ledger};
use super::handshake::{Handshake, Login};
use super::resolve::resolve;
use super::{Failure, convert};
use crate::apart::apart;
use crate::clock::Clock;
use crate::config::{Endpoint, PasswordSource, Secret};

/// Maximum time for resolving a name, and for connecting to one address.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of addresses of one name that are tried in one dial.
const ADDRESSES: usize = 4;
/// How long a connection may be idle before the kernel probes the peer.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A first batch that is sent in one write with the greeting.
///
/// It is used after a reply was lost, so that greeting and batch succeed or fail together. A
/// network that loses every second reply, for example, would otherwise let each greeting pass and
/// drop each first batch.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The commands, made for the capabilities of the previous connection.
    pub commands: Vec<Command>,
    /// The clock for the instants in [`Opened`].
    pub clock: Clock,
}

/// The replies to an [`Opening`], and the instants around it.
#[derive(Clone, Debug)]
pub struct Opened {
    /// When the commands were sent.
    pub sent: Mono,
    /// The agent's wall clock at that instant.
    pub sent_wall: AgentWall,
    /// When the last reply was received.
    pub received: Mono,
    /// One reply for each command.
    pub replies: Vec<Reply>,
}

/// Connects to a server, logs in, selects the database and determines what the user may do. Sends
/// `opening` with it, if there is one. `in_vain` is the number of attempts since the last useful
/// one.
///
/// # Errors
/// Why no connection was made.
pub async fn connect(
    endpoint: &Endpoint,
    opening: Option<Opening>,
    in_vain: usize,
) -> Result<(Connection, Option<Opened>), Failure> {
    let password = password(endpoint.login.password.as_ref()).await?;
    let stream = dial(endpoint, in_vain).await?;
    greet_over(stream, endpoint, password.as_ref(), opening).await
}

/// Like [`connect`], but over an open stream and with this password.
///
/// # Errors
/// Why no connection was made.
pub async fn greet_over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    endpoint: &Endpoint,
    password: Option<&Secret>,
    opening: Option<Opening>,
) -> Result<(Connection, Option<Opened>), Failure> {
    let ledger = Arc::new(Ledger::default());
    let mut stream = Guarded::new(stream, Arc::clone(&ledger));
    let login = Login {
        username: endpoint.login.username.as_deref(),
        password: password.map(Secret::expose),
    };
    let mut handshake = Handshake::new(login, endpoint.db, endpoint.assume_master);
    if endpoint.readonly {
        handshake = handshake.with_readonly();
    }
    let more = opening.as_ref().map_or(&[][..], |opening| &opening.commands);
    ledger.expect(handshake.len() + more.len());
    let instants = |opening: &Opening| opening.clock.both();
    let sent = opening.as_ref().map(instants);
    let (mut replies, ended) =
        match timeout(endpoint.timeout, greet(&mut stream, &handshake, more, &ledger)).await {
            Ok(greeted) => greeted,
            Err(_) => (Vec::new(), no_reply(endpoint.timeout)),
        };
    let received = opening.as_ref().map(instants);
    if matches!(ledger.fault(), Some(Fault::NotRedis | Fault::Unasked | Fault::TooLarge)) {
        return Err(ended);
    }
    let opened = replies.split_off(handshake.len().min(replies.len()));
    let all = opened.len() == more.len();
    let greeting = handshake.judge(&replies, ended.clone())?;
    if !all {
        return Err(ended);
    }
    // The greeting is complete: the crate must not add commands to it.
    let nothing = RedisConnectionInfo::default().set_skip_set_lib_name();
    let unlimited =
        AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
    let connected = MultiplexedConnection::new_with_config(&nothing, stream, unlimited).await;
    let (inner, driver) = connected.map_err(|error| broken(ledger.fault(), &error))?;
    let opened = sent.zip(received).map(|((sent, sent_wall), (received, _))| Opened {
        sent,
        sent_wall,
        received,
        replies: opened,
    });
    Ok((Connection::new(inner, driver, ledger, endpoint.timeout, greeting), opened))
}

/// Opens a TCP connection to the first address that accepts one. After failed attempts it starts
/// with another address.
pub(super) async fn dial(endpoint: &Endpoint, in_vain: usize) -> Result<TcpStream, Failure> {
    let limit = endpoint.timeout.min(DIAL_TIMEOUT);
    let mut addresses = resolve(&endpoint.at, limit).await?;
    take_turns(&mut addresses, in_vain);
    dial_any(addresses.into_iter(), limit).await
}

/// Rotates the addresses: a peer that accepts the connection may still be useless, for example a
/// proxy whose server is gone, or a replica.
fn take_turns(addresses: &mut [SocketAddr], in_vain: usize) {
    if let Some(first) = in_vain.checked_rem(addresses.len()) {
        addresses.rotate_left(first);
    }
}

async fn dial_any(
    addresses: impl Iterator<Item = SocketAddr>,
    limit: Duration,
) -> Result<TcpStream, Failure> {
    let mut failure = Failure::new(Unknown::Dns, "the name has no address");
    for address in addresses.take(ADDRESSES) {
        match dial_address(address, limit).await {
            Ok(stream) => return Ok(stream),
            Err(detail) => {
                failure = Failure::new(Unknown::Connect, format_args!("{address}: {detail}"))
            }
        }
    }
    Err(failure)
}

async fn dial_address(address: SocketAddr, limit: Duration) -> Result<TcpStream, String> {
    let stream = timeout(limit, TcpStream::connect(address)).await;
    let stream = stream
        .map_err(|_| format!("no answer within {limit:?}"))?
        .map_err(|error| error.to_string())?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
    let prepared = stream
        .set_nodelay(true)
        .and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive));
    prepared.map_err(|error| error.to_string())?;
    Ok(stream)
}

/// Sends the greeting and collects the replies until the last one or an error, which it returns.
///
/// This happens before the redis crate gets the stream: a server at its limit of clients sends an
/// error unasked and closes the connection, and the crate would drop that error.
async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut Guarded<S>,
    handshake: &Handshake<'_>,
    more: &[Command],
    ledger: &Ledger,
) -> (Vec<Reply>, Failure) {
    let mut request = handshake.bytes();
    request.extend(more.iter().flat_map(|command| redis::pack_command(&command.args)));
    // If the peer has closed the connection, its last message explains more than this error.
    let written = stream.write_all(&request).await;
    let mut bytes = Vec::new();
    while stream.passed().0 < handshake.len() + more.len() {
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
        None => {
            (Vec::new(), Failure::new(Unknown::Protocol, "the greeting's replies cannot be read"))
        }
    }
}

/// Parses `count` complete replies, as one list because the crate parses one value at a time.
fn parse(count: usize, replies: Vec<u8>) -> Option<Vec<Reply>> {
    let list = [format!("*{count}\r\n").into_bytes(), replies].concat();
    match convert::reply(redis::parse_redis_value(&list).ok()?) {
        Reply::Array(replies) if replies.len() == count => Some(replies),
        _ => None,
    }
}

/// Reads the password on each dial, so that a rotated one is picked up.
pub(super) async fn password(source: Option<&PasswordSource>) -> Result<Option<Secret>, Failure> {
    let Some(source) = source.cloned() else { return Ok(None) };
    // Done on a thread, because the file may be on a network file system.
    let read = apart(move || source.read()).await;
    let read = read.map_err(|error| Failure::new(Unknown::Auth, error))?;
    read.map(Some).map_err(|error| Failure::new(Unknown::Auth, error))
}

#[cfg(test)]
mod tests {
    use lockwatch_watch::command;

    use super::*;
    use crate::config::{HostPort, Login};

    /// A reading is evidence for the instant of the request, not of the answer.
    #[tokio::test]
    async fn a_batch_that_goes_with_the_greeting_counts_from_when_it_was_sent() {
        let _rule = crate::truth::rule("1 evidence");
        let endpoint = Endpoint {
            at: HostPort { host: "main".to_owned(), port: 6379 },
            db: 0,
            login: Login::default(),
            timeout: Duration::from_secs(10),
            assume_master: false,
            readonly: false,
        };
        let (here, mut there) = tokio::io::duplex(1 << 16);
        let slow = tokio::spawn(async move {
            let asked = there.read(&mut [0; 4096]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            let role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
            let replies =
                format!("+OK\r\n+OK\r\n{role}-NOPERM no\r\n-NOPERM no\r\n:-2\r\n+PONG\r\n");
            there.write_all(replies.as_bytes()).await.unwrap();
            (asked, there)
        });
        let clock = Clock::start();
        let opening = Opening { commands: vec![command!("PING")], clock };
        let (_connection, opened) = greet_over(here, &endpoint, None, Some(opening)).await.unwrap();
        let opened = opened.unwrap();
        assert_eq!(opened.replies.len(), 1);
        assert!(opened.received.since_ms(opened.sent) >= 49, "{opened:?}");
        assert!(slow.await.unwrap().0 > 0);
    }

    #[test]
    fn after_attempts_in_vain_every_address_comes_first() {
        let ports = |in_vain| {
            let mut addresses = [1, 2, 3].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
            take_turns(&mut addresses, in_vain);
            addresses.map(|address| address.port())
        };
        assert_eq!([0, 1, 2, 3].map(ports), [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]);
        take_turns(&mut [], 7);
    }

    #[tokio::test]
    async fn the_next_address_of_a_name_is_tried_up_to_the_fourth() {
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = server.local_addr().unwrap();
        let limit = Duration::from_secs(10);
        for refused in [0, 1, ADDRESSES - 1, ADDRESSES] {
            let closed = std::iter::repeat_n(SocketAddr::from(([127, 0, 0, 1], 1)), refused);
            let dialled = dial_any(closed.chain([open]), limit).await;
            let peer =
                dialled.map(|stream| stream.peer_addr().unwrap()).map_err(|failure| failure.why);
            assert_eq!(
                peer,
                if refused < ADDRESSES { Ok(open) } else { Err(Unknown::Connect) },
                "{refused}"
            );
        }
    }
}
