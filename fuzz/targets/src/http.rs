//! Requests to the real server over an in-memory stream: arbitrary bytes are answered in bounded
//! time, by complete responses with all security headers or by closing the connection.
//!
//! The first byte selects whether the client closes its side, and what it does meanwhile; the rest
//! is its request.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use lockwatch::http::{HttpContext, Limits, serve_client};
use lockwatch::outputs::history::History;
use lockwatch::paths::Links;
use lockwatch::published::{Published, ReloadRequest, ReloadStatus};
use lockwatch::trace::Traces;
use lockwatch_judge::time::AgentWall;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};

use crate::claims::check_html;
use crate::snapshot::world;

/// Maximum duration of a session: the sum of all the server's timeouts, with room to spare.
const LONGEST: Duration = Duration::from_secs(600);
/// How long the client reads a stream.
const STREAMED: Duration = Duration::from_secs(40);

thread_local! {
    static WORLD: RefCell<Option<(Arc<Published>, History)>> = const { RefCell::new(None) };
}

pub(crate) fn run(data: &[u8]) {
    let [choice, request @ ..] = data else { return };
    let (published, history) =
        WORLD.with_borrow_mut(|kept| kept.get_or_insert_with(|| world(b"outbound")).clone());
    // The snapshot must be recent, or the server would report that the engine has stopped.
    let published = Arc::new(Published { made: std::time::Instant::now(), ..(*published).clone() });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let answer = runtime.block_on(ask(published, history, request.to_vec(), *choice));
    if let Some(answer) = answer {
        check(&answer);
    }
}

/// The body of the response to this path.
pub(crate) fn get(published: Arc<Published>, history: History, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.0\r\n\r\n").into_bytes();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let answer = runtime.block_on(ask(published, history, request, 0)).expect("a whole answer");
    assert!(answer.starts_with(b"HTTP/1.0 200"), "{}", answer.escape_ascii());
    check(&answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
    String::from_utf8(answer[end + 4..].to_vec()).expect("a body of text")
}

/// The server's response; `None` if a stream was cut off.
async fn ask(
    published: Arc<Published>,
    history: History,
    request: Vec<u8>,
    choice: u8,
) -> Option<Vec<u8>> {
    let (_published, published) = watch::channel(published);
    let success_at = AgentWall(1_800_000_000_000);
    let (_status, reload_status) =
        watch::channel(ReloadStatus { successful: true, success_at, tasks: 1, links: Links::NONE });
    let (reload, mut reloads) = mpsc::channel::<ReloadRequest>(1);
    let context = HttpContext {
        snapshots: published.into(),
        reload_status,
        log_lines_lost: || 0,
        reload,
        enable_lifecycle: choice & 2 != 0,
        history,
        traces: Traces::default(),
        frame_ancestors: Arc::from([]),
        web: None,
        switches: None,
        drills: None,
        limits: Limits::default(),
    };
    let (near, far) = duplex(4_096);
    let server = tokio::spawn(serve_client(near, context));
    let reloading = tokio::spawn(async move {
        while let Some(answer) = reloads.recv().await {
            let _gone = answer.send(Err("line 3: what is this?".to_owned()));
        }
    });
    let (mut read, mut write) = tokio::io::split(far);
    let closes = choice & 1 != 0;
    let slowly = choice & 4 != 0;
    let writing = tokio::spawn(async move {
        for piece in request.chunks(if slowly { 16 } else { 65_536 }) {
            if write.write_all(piece).await.is_err() {
                break;
            }
            if slowly {
                sleep(Duration::from_millis(100)).await;
            }
        }
        if closes {
            // The server may have closed the connection first.
            let _closed = write.shutdown().await;
        } else {
            std::future::pending::<()>().await;
        }
    });
    let began = Instant::now();
    let mut answer = Vec::new();
    let ended = loop {
        let streams = answer.windows(17).any(|window| window == b"text/event-stream");
        let patience = if streams { STREAMED.saturating_sub(began.elapsed()) } else { LONGEST };
        match timeout(patience, read.read_buf(&mut answer)).await {
            Ok(Ok(0) | Err(_)) => break true,
            Ok(Ok(_)) if streams && began.elapsed() > STREAMED => break false,
            Ok(Ok(_)) => {}
            Err(_) if streams => break false,
            Err(_) => panic!("a connection that never ends"),
        }
    };
    assert!(began.elapsed() <= LONGEST, "the connection took {:?}", began.elapsed());
    writing.abort();
    reloading.abort();
    if ended {
        server.await.expect("the server ends with its connection");
    } else {
        server.abort();
    }
    ended.then_some(answer)
}

/// Each response is complete and has its headers.
fn check(mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
        let head = std::str::from_utf8(&bytes[..end]).expect("a head of text");
        bytes = &bytes[end + 4..];
        let (first, headers) = head.split_once("\r\n").expect("a status and headers");
        let status: u16 =
            first.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let header = |name: &str| {
            let mut values = headers.lines().filter_map(|line| {
                let (have, value) = line.split_once(": ")?;
                have.eq_ignore_ascii_case(name).then_some(value)
            });
            (values.next(), values.next())
        };
        assert!((200..600).contains(&status), "{first}");
        // Responses that hyper generates itself have no body and none of our headers.
        if header("content-length").0 == Some("0") && header("content-security-policy").0.is_none()
        {
            assert!(status >= 400, "{head}");
            return;
        }
        for name in ["content-security-policy", "x-content-type-options", "referrer-policy"] {
            assert!(matches!(header(name), (Some(_), None)), "{name} is not there once: {head}");
        }
        let kind = header("content-type").0.unwrap_or_default();
        // A response to HEAD has the headers of GET and no body. After it, or after a stream, the
        // end of a response cannot be determined here.
        let Some(length) =
            header("content-length").0.and_then(|length| length.parse::<usize>().ok())
        else {
            return;
        };
        let Some((body, rest)) = bytes.split_at_checked(length) else { return };
        if header("content-encoding").0.is_none() && !body.starts_with(b"HTTP/1.1 ") {
            check_body(kind, body);
            bytes = rest;
        } else if header("content-encoding").0.is_some() {
            bytes = rest;
        }
    }
}

fn check_body(kind: &str, body: &[u8]) {
    let text = std::str::from_utf8(body).expect("a body of text");
    match kind.split(';').next().unwrap_or_default() {
        "application/json" => {
            drop(serde_json::from_str::<serde_json::Value>(text).expect("a body of JSON"))
        }
        "text/html" => check_html(text),
        "image/svg+xml" => check_html(text.trim_end()),
        _ => {}
    }
}
