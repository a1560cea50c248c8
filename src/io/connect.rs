//! Dialling: connects to a server and sends the first commands, within bounded time.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use lockwatch_judge::reading::Unknown;
use lockwatch_watch::redis::driver::{self, Dial, Dialled, Failure, LinkId, Manner, Now};
use lockwatch_watch::redis::handshake::{Handshake, may_go_on};
use lockwatch_watch::redis::reply::{Command, Reply};
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{AsyncConnectionConfig, RedisConnectionInfo, aio::MultiplexedConnection};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::{Connection, Wire, broken, no_reply, unanswered};
use super::convert;
use super::guard::{Fault, Guarded, Ledger};
use super::login::{auth, hidden, mask, newer, password};
use super::resolve::resolve;
use super::stream::{self, Stream};
use super::tls;
use crate::clock::Clock;
use crate::config::{Endpoint, HostPort, Login, Secret, Tls, ms};

/// Maximum time for resolving a name, and for connecting to one address.
const DIAL_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of addresses of one name that are tried in one dial.
const ADDRESSES: usize = 4;
/// How long a connection may be idle before the kernel probes the peer.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Connects to a server, logs in, selects the database and determines what the user may do.
///
/// # Errors
/// Why no connection was made.
pub async fn connect(endpoint: &Endpoint) -> Result<Connection, Failure> {
    reach(endpoint, &whole(endpoint)).await
}

/// Like [`connect`], but asks for the role only: a user that may do little is asked to do little.
///
/// # Errors
/// Why no connection was made.
pub async fn connect_briefly(endpoint: &Endpoint) -> Result<Connection, Failure> {
    reach(endpoint, &Handshake::brief(endpoint.db, endpoint.assume_master)).await
}

/// Like [`connect`], but over an open stream and with this password.
///
/// # Errors
/// Why no connection was made.
pub async fn greet_over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    endpoint: &Endpoint,
    password: Option<&Secret>,
) -> Result<Connection, Failure> {
    let handshake = whole(endpoint);
    let dial = dial_of(endpoint, &handshake);
    let opened = talk_over(stream, &dial, &endpoint.login, password, Clock::start()).await;
    greeted(endpoint, &handshake, opened)
}

fn whole(endpoint: &Endpoint) -> Handshake {
    if endpoint.is_sentinel {
        return Handshake::to_sentinel();
    }
    Handshake::new(endpoint.db, endpoint.assume_master, endpoint.readonly)
}

async fn reach(endpoint: &Endpoint, handshake: &Handshake) -> Result<Connection, Failure> {
    let dial = dial_of(endpoint, handshake);
    let opened = open(&dial, &endpoint.login, endpoint.tls.as_ref(), Clock::start()).await?;
    greeted(endpoint, handshake, opened)
}

fn dial_of(endpoint: &Endpoint, handshake: &Handshake) -> Dial {
    Dial {
        link: LinkId(0),
        to: endpoint.at.clone(),
        login: driver::Login::Store,
        manner: Manner::Talk,
        commands: handshake.commands(),
        alone: handshake.alone(),
        attempt: 0,
        timeout_ms: ms(endpoint.timeout),
    }
}

fn greeted(
    endpoint: &Endpoint,
    handshake: &Handshake,
    (dialled, wire): (Dialled, Option<Wire>),
) -> Result<Connection, Failure> {
    let greeting = handshake.judge(dialled.auth.as_ref(), &dialled.replies, dialled.ended)?;
    let closed = || Failure::new(Unknown::Closed, "the peer closed the connection");
    Ok(Connection::new(wire.ok_or_else(closed)?, greeting, endpoint.timeout))
}

/// Opens a connection for requests, and sends the first commands over it. If the server refuses a
/// password that was replaced meanwhile, it is tried once more with the new one.
///
/// # Errors
/// Why the server was not reached.
pub(super) async fn open(
    dial: &Dial,
    login: &Login,
    tls: Option<&Tls>,
    clock: Clock,
) -> Result<(Dialled, Option<Wire>), Failure> {
    let password = password(login.password.as_ref()).await?;
    let stream = self::dial(dial, tls).await?;
    let opened = talk_over(stream, dial, login, password.as_ref(), clock).await;
    let Some(newer) = newer(login, password.as_ref(), &opened.0).await else { return Ok(opened) };
    let stream = self::dial(dial, tls).await?;
    Ok(talk_over(stream, dial, login, Some(&newer), clock).await)
}

/// Sends the first commands of a dial over an open stream; the fuzz target `session` also begins
/// here. Without a connection, [`Dialled::ended`] is the reason.
pub async fn talk_over<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    dial: &Dial,
    login: &Login,
    password: Option<&Secret>,
    clock: Clock,
) -> (Dialled, Option<Wire>) {
    let ledger = Arc::new(Ledger::default());
    let mut stream = Guarded::new(stream, Arc::clone(&ledger));
    let auth = auth(login, password);
    let commands: Vec<&Command> = auth.iter().chain(&dial.commands).collect();
    let limit = Duration::from_millis(dial.timeout_ms);
    let (mut mono, mut wall) = clock.both();
    let greeting = async {
        let mut replies = Vec::new();
        if dial.alone > 0 {
            let (first, _) = commands.split_at(dial.alone + usize::from(auth.is_some()));
            let (said, ended) = exchange(&mut stream, first, &ledger).await;
            replies = said;
            if ended.is_some() || !replies.last().is_some_and(may_go_on) {
                return (replies, ended);
            }
            // A reading counts from the instant at which it was asked for.
            (mono, wall) = clock.both();
        }
        let (_, rest) = commands.split_at(replies.len());
        let (said, ended) = exchange(&mut stream, rest, &ledger).await;
        replies.extend(said);
        (replies, ended)
    };
    let (mut replies, mut ended) = match timeout(limit, greeting).await {
        Ok(greeted) => greeted,
        Err(_) => (Vec::new(), Some(no_reply(limit))),
    };
    let received = clock.now();
    if matches!(ledger.fault(), Some(Fault::NotRedis | Fault::Unasked | Fault::TooLarge)) {
        replies.clear();
    }
    mask(&mut replies, password);
    ended = ended.map(|failure| match ledger.oddity() {
        Some(said) if failure.why == Unknown::Protocol && !said.is_empty() => Failure::new(
            failure.why,
            format_args!("{}: it says \"{}\"", failure.detail, hidden(said, password)),
        ),
        _ => unanswered(failure, commands.get(replies.len()).map(|command| &*command.args)),
    });
    let mut wire = None;
    if ended.is_none() {
        // The greeting is complete: the crate must not add commands to it.
        let nothing = RedisConnectionInfo::default().set_skip_set_lib_name();
        let unlimited =
            AsyncConnectionConfig::new().set_response_timeout(None).set_connection_timeout(None);
        match MultiplexedConnection::new_with_config(&nothing, stream, unlimited).await {
            Ok((inner, driver)) => wire = Some(Wire::new(inner, driver, ledger, password)),
            Err(error) => ended = Some(broken(ledger.fault(), &error)),
        }
    }
    let auth = auth.filter(|_| !replies.is_empty()).map(|_| replies.remove(0));
    (Dialled { sent: Now { mono, wall }, received, auth, replies, ended }, wire)
}

/// Opens a connection to the first address that accepts one. Each attempt starts with another
/// address. With `tls`, nothing but the handshake was sent when it comes back, and the server's
/// certificate is checked.
pub(super) async fn dial(dial: &Dial, tls: Option<&Tls>) -> Result<Stream, Failure> {
    reach_server(&dial.to, (dial.attempt, dial.timeout_ms), tls).await
}

/// Connects to a server in at most so many milliseconds.
pub(super) async fn reach_server(
    to: &HostPort,
    (attempt, timeout_ms): (usize, u64),
    tls: Option<&Tls>,
) -> Result<Stream, Failure> {
    let timeout = Duration::from_millis(timeout_ms);
    let limit = timeout.min(DIAL_TIMEOUT);
    if let Some(path) = to.socket() {
        return stream::socket(path, limit).await;
    }
    let mut addresses = resolve(to, limit).await?;
    take_turns(&mut addresses, attempt);
    let tcp = dial_any(addresses.into_iter(), limit).await?;
    match tls {
        None => Ok(Stream::tcp(tcp)),
        Some(tls) => tls::protect(tcp, tls, timeout).await.map(Stream::tls),
    }
}

/// Rotates the addresses: a peer that accepts the connection may still be useless, for example a
/// proxy whose server is gone, or a replica.
fn take_turns(addresses: &mut [SocketAddr], attempt: usize) {
    if let Some(first) = attempt.checked_rem(addresses.len()) {
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

/// Sends the first commands and collects the replies; `Some`: why there are no more of them, and no
/// connection.
///
/// This happens before the redis crate gets the stream: a server at its limit of clients sends an
/// error unasked and closes the connection, and the crate would drop that error.
async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut Guarded<S>,
    commands: &[&Command],
    ledger: &Ledger,
) -> (Vec<Reply>, Option<Failure>) {
    let (passed, begun) = stream.passed();
    ledger.expect(commands.len());
    let request: Vec<u8> =
        commands.iter().flat_map(|command| redis::pack_command(&command.args)).collect();
    // If the peer has closed the connection, its last message explains more than this error.
    let written = write(stream, &request).await;
    let (mut bytes, mut explained) = (Vec::new(), None);
    while stream.passed().0 - passed < commands.len() {
        match stream.read_buf(&mut bytes).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                explained = error.downcast::<Failure>().ok();
                break;
            }
        }
    }
    let (count, end) = stream.passed();
    let (count, end) = (count - passed, end - begun);
    let ended = match (explained, written) {
        (Some(failure), _) => Some(failure),
        (None, Err(error)) if ledger.fault().is_none() => {
            Some(Failure::new(Unknown::Closed, error))
        }
        _ if count < commands.len() || ledger.fault().is_some() => {
            Some(broken(ledger.fault(), &"the greeting was cut short"))
        }
        _ => None,
    };
    bytes.truncate(end);
    match parse(count, bytes) {
        Some(replies) => (replies, ended),
        None => {
            let what = "the greeting's replies cannot be read";
            (Vec::new(), Some(Failure::new(Unknown::Protocol, what)))
        }
    }
}

/// TLS keeps what is written until it makes a record of it.
pub(super) async fn write<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.flush().await
}

/// Parses `count` complete replies, as one list because the crate parses one value at a time.
fn parse(count: usize, replies: Vec<u8>) -> Option<Vec<Reply>> {
    let list = [format!("*{count}\r\n").into_bytes(), replies].concat();
    match convert::reply(redis::parse_redis_value(&list).ok()?) {
        Reply::Array(replies) if replies.len() == count => Some(replies),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use lockwatch_watch::command;
    use lockwatch_watch::redis::store::HostPort;

    use super::*;

    /// A reading is evidence for the instant of the request, not of the answer.
    #[tokio::test]
    async fn a_batch_that_goes_with_the_greeting_counts_from_when_it_was_sent() {
        let _rule = crate::truth::rule("1 evidence");
        let dial = Dial {
            link: LinkId(1),
            to: HostPort { host: "main".to_owned(), port: 6379 },
            login: driver::Login::Store,
            manner: Manner::Talk,
            commands: vec![command!("ROLE"), command!("PING")],
            alone: 0,
            attempt: 0,
            timeout_ms: 10_000,
        };
        let (here, mut there) = tokio::io::duplex(1 << 16);
        let slow = tokio::spawn(async move {
            let asked = there.read(&mut [0; 4096]).await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await;
            there.write_all(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n+PONG\r\n").await.unwrap();
            (asked, there)
        });
        let (dialled, wire) = talk_over(here, &dial, &Login::default(), None, Clock::start()).await;
        assert_eq!((dialled.replies.len(), &dialled.auth, &dialled.ended), (2, &None, &None));
        assert!(wire.is_some());
        assert!(dialled.received.since_ms(dialled.sent.mono) >= 49, "{dialled:?}");
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
