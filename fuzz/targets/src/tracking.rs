//! A connection on which a hostile server announces changed keys: the real greeting and the real
//! parser over an in-memory stream.
//!
//! The first byte selects the configuration and whether the server answers the greeting honestly;
//! the rest is its script.

use std::sync::Arc;
use std::time::Duration;

use lockwatch::clock::Clock;
use lockwatch::config::{HostPort, Login, Secret};
use lockwatch::io::{Failure, Listening, listen_over};
use lockwatch_watch::redis::driver::{self, Dial, LinkId, Manner, Push};
use lockwatch_watch::redis::{wake_ups_greeted, wake_ups_greeting};
use tokio::io::duplex;
use tokio::time::{Instant, timeout};

use crate::claims::{harmless_line, keeps_secret};
use crate::script::{Said, Server};
use crate::worlds::PASSWORD;

/// Maximum wait for the greeting.
const TIMEOUT: Duration = Duration::from_millis(500);
/// How long a server must be silent until it counts as done.
const QUIET: Duration = Duration::from_secs(5);
/// Maximum nesting depth.
const DEPTH: usize = 100;
/// Capacity of the stream in bytes: at least the greeting, which may stay unread, and less than
/// many scripts, which then arrive in pieces.
const STREAM_BYTES: usize = 512;
/// What a real server answers to the greeting, without a login.
const GREETED: &[u8] = b"%2\r\n$6\r\nserver\r\n$5\r\nredis\r\n$5\r\nproto\r\n:3\r\n+OK\r\n\
    >3\r\n$9\r\nsubscribe\r\n$18\r\nlockwatch:wake-ups\r\n:1\r\n+OK\r\n+PONG\r\n";

pub(crate) fn run(data: &[u8]) {
    let [options, script @ ..] = data else { return };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(play(*options, script));
}

/// A key, or `None` for all keys.
type Change = Option<Vec<u8>>;

async fn play(options: u8, script: &[u8]) {
    let password = (options & 1 != 0).then(|| Secret::new(PASSWORD));
    let login = if password.is_some() { b"+OK\r\n".as_slice() } else { b"" };
    let greeted = options & 2 != 0;
    // Bytes right after the greeting may be rejected together with it.
    let honest = greeted && script.is_empty();
    let script = if greeted { [login, GREETED, script].concat() } else { script.to_vec() };
    let username = (options & 4 != 0).then(|| "watcher".to_owned());
    let must_login = password.is_some() || username.is_some();
    let user = Login { username, ..Login::default() };
    let dial = Dial {
        link: LinkId(1),
        to: HostPort { host: "redis.example".to_owned(), port: 6_379 },
        login: driver::Login::Store,
        manner: Manner::Listen,
        commands: wake_ups_greeting(&[b"outbound".to_vec()]),
        alone: 0,
        attempt: 0,
        timeout_ms: TIMEOUT.as_millis() as u64,
    };
    let (near, far) = duplex(STREAM_BYTES);
    let said = Said::default();
    let server = tokio::spawn(Server::new(far, Arc::clone(&said)).play(script, PASSWORD));
    let began = Instant::now();
    let (dialled, listening) =
        listen_over(near, &dial, &user, password.as_ref(), Clock::start()).await;
    assert!(began.elapsed() <= TIMEOUT, "the greeting took {:?}", began.elapsed());
    assert_eq!(listening.is_some(), dialled.ended.is_none(), "a connection, or a reason");
    match wake_ups_greeted(dialled) {
        Ok(()) => {
            let listening = listening.expect("a greeting over a connection");
            let told = follow(listening, password.is_some()).await;
            let real = changes(&said.lock().unwrap());
            // Announcements during the greeting do not count.
            let borne_out =
                told.is_empty() || real.windows(told.len()).any(|window| window == told);
            assert!(borne_out, "told {told:?}, the server said {real:?}");
        }
        Err(failure) => {
            assert!(!honest || must_login, "an honest greeting is refused: {failure}");
            check(&failure, password.is_some());
        }
    }
    server.abort();
}

/// Collects the announcements until the server is done.
async fn follow(mut listening: Listening<tokio::io::DuplexStream>, secret: bool) -> Vec<Change> {
    let mut told = Vec::new();
    loop {
        let pushes = match timeout(QUIET, listening.fill()).await {
            Err(_) => return told,
            Ok(filled) => filled.and_then(|_| listening.take()),
        };
        let pushes = match pushes {
            Ok(pushes) => pushes,
            Err(failure) => {
                check(&failure, secret);
                return told;
            }
        };
        // A refused ping ends the connection. The refusal's text is not shown.
        let is_last = pushes.iter().any(|push| matches!(push, Push::Refused(_)));
        told.extend(pushes.into_iter().filter_map(|push| match push {
            Push::Changed(key) => Some(Some(key)),
            Push::AllChanged => Some(None),
            Push::Alive | Push::Refused(_) | Push::Other => None,
        }));
        if is_last {
            return told;
        }
    }
}

fn check(failure: &Failure, secret: bool) {
    let told = failure.to_string();
    harmless_line(&told);
    if secret {
        keeps_secret(PASSWORD, &told);
    }
}

/// The changes in `said`, parsed strictly up to the first invalid byte.
fn changes(said: &[u8]) -> Vec<Change> {
    let (mut rest, mut found) = (said, Vec::new());
    while let Some(item) = item(&mut rest, 0) {
        let Item::List(b'>', parts) = item else { continue };
        match parts.as_slice() {
            [Item::Text(kind) | Item::String(kind), .., Item::List(b'*', keys)]
                if kind == b"invalidate" =>
            {
                found.extend(keys.iter().filter_map(|key| match key {
                    Item::String(key) => Some(Some(key.clone())),
                    _ => None,
                }));
            }
            [Item::Text(kind) | Item::String(kind), .., Item::Null] if kind == b"invalidate" => {
                found.push(None);
            }
            _ => {}
        }
    }
    found
}

enum Item {
    Null,
    Text(Vec<u8>),
    String(Vec<u8>),
    /// A list, with the byte that marks its type.
    List(u8, Vec<Item>),
    Other,
}

/// Parses one item of `rest`.
fn item(rest: &mut &[u8], depth: usize) -> Option<Item> {
    let end = rest.windows(2).position(|two| two == b"\r\n")?;
    let (kind, line) = rest[..end].split_first()?;
    *rest = &rest[end + 2..];
    let is_absent = || Some(number(line)? < 0);
    match kind {
        b'_' => Some(Item::Null),
        b'$' | b'*' | b'~' if is_absent()? => Some(Item::Null),
        b'$' | b'=' | b'!' => {
            let (body, after) = rest.split_at_checked(usize::try_from(number(line)?).ok()?)?;
            *rest = after.strip_prefix(b"\r\n")?;
            Some(if *kind == b'$' { Item::String(body.to_vec()) } else { Item::Other })
        }
        b'>' if is_absent()? => Some(Item::Other),
        b'*' | b'~' | b'>' | b'%' | b'|' if depth < DEPTH => {
            let count = usize::try_from(number(line)?).ok()?;
            let count = match kind {
                b'%' => count.checked_mul(2)?,
                b'|' => count.checked_mul(2)?.checked_add(1)?,
                _ => count,
            };
            let mut parts = Vec::new();
            for _ in 0..count {
                parts.push(item(rest, depth + 1)?);
            }
            Some(Item::List(*kind, parts))
        }
        b'+' => Some(Item::Text(line.to_vec())),
        b'-' | b':' | b'#' | b',' | b'(' => Some(Item::Other),
        _ => None,
    }
}

fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.trim().parse().ok()
}
