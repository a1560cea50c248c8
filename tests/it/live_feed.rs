//! The live feed over real sockets: its contents, its time limits, and its effect on other clients.

use crate::support::PATIENCE;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwatch::http::{HttpContext, Limits, serve};
use lockwatch::outputs::history::History;
use lockwatch::published::Published;
use lockwatch::trace::Traces;
use lockwatch_judge::snapshot::TaskView;
use lockwatch_judge::verdict::Verdict;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::snapshots::{RELOAD, full_task, good_redis, published, stopped_task};

/// A running server and its inputs. Ends with the test.
struct Server {
    address: SocketAddr,
    boot: Arc<str>,
    published: watch::Sender<Arc<Published>>,
    shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

/// A connected page with the data of its stream.
struct Listener {
    stream: TcpStream,
    head: String,
    /// Received data not yet parsed, without chunk headers.
    text: String,
    /// Received bytes of an incomplete chunk.
    raw: Vec<u8>,
    /// Whether the last chunk has arrived.
    is_complete: bool,
}

/// An event of the stream.
#[derive(Debug)]
struct Frame {
    event: String,
    id: Option<String>,
    data: Value,
}

async fn start(first: Arc<Published>, limits: Limits) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (published, published_receiver) = watch::channel(first);
    let history = History::default();
    let boot = Arc::clone(history.boot());
    let context = HttpContext {
        snapshots: published_receiver.into(),
        reload_status: watch::channel(RELOAD).1,
        log_lines_lost: || 0,
        reload: mpsc::channel(1).0,
        enable_lifecycle: false,
        history,
        traces: Traces::default(),
        frame_ancestors: Arc::from([]),
        web: None,
        switches: None,
        drills: None,
        limits,
    };
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(serve(vec![listener], context, shutdown.clone()));
    Server { address, boot, published, shutdown, serving }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    /// Publishes these tasks as snapshot number `sequence`.
    fn publish(&self, sequence: u64, tasks: Vec<TaskView>) {
        self.published.send(snapshot(sequence, tasks)).unwrap();
    }

    async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends a request and reads the head of the answer.
    async fn ask(&self, method: &str, path: &str, from: Ipv4Addr) -> Listener {
        let mut stream = self.connect(from).await;
        stream
            .write_all(format!("{method} {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut raw = Vec::new();
        let end = loop {
            if let Some(end) = raw.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            let count =
                timeout(PATIENCE, stream.read_buf(&mut raw)).await.expect("a head").unwrap();
            assert!(count > 0, "the connection ended: {}", String::from_utf8_lossy(&raw));
        };
        let rest = raw.split_off(end + 4);
        let head = String::from_utf8(raw).unwrap().to_ascii_lowercase();
        Listener { stream, head, text: String::new(), raw: rest, is_complete: false }
    }

    /// Connects as a page that has the snapshot `since`.
    async fn listen(&self, since: u64) -> Listener {
        let page = self
            .ask("GET", &format!("/live?since={since}&boot={}", self.boot), Ipv4Addr::LOCALHOST)
            .await;
        assert!(
            page.head.starts_with("http/1.1 200 ") && page.head.contains("text/event-stream"),
            "{}",
            page.head
        );
        page
    }
}

impl Listener {
    /// The next event; `None` if the stream ended.
    async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let fields: BTreeMap<&str, &str> =
                    frame.lines().map(|line| line.split_once(": ").unwrap()).collect();
                let frame = Frame {
                    event: fields["event"].to_owned(),
                    id: fields.get("id").map(|id| (*id).to_owned()),
                    data: serde_json::from_str(fields["data"]).unwrap(),
                };
                self.text = rest.to_owned();
                return Some(frame);
            }
            if !self.take_chunk() {
                let count = timeout(PATIENCE, self.stream.read_buf(&mut self.raw))
                    .await
                    .expect("an event or the end");
                if count.unwrap_or(0) == 0 {
                    return None;
                }
            }
        }
    }

    /// The next event that is not a heartbeat.
    async fn news(&mut self) -> Frame {
        loop {
            let frame = self.next().await.expect("an event");
            if frame.event != "beat" {
                return frame;
            }
        }
    }

    /// Moves a whole chunk from `raw` to `text`.
    fn take_chunk(&mut self) -> bool {
        let Some(line) = self.raw.windows(2).position(|window| window == b"\r\n") else {
            return false;
        };
        let length =
            usize::from_str_radix(std::str::from_utf8(&self.raw[..line]).unwrap(), 16).unwrap();
        if self.raw.len() < line + 2 + length + 2 {
            return false;
        }
        self.text.push_str(std::str::from_utf8(&self.raw[line + 2..line + 2 + length]).unwrap());
        self.raw.drain(..line + 2 + length + 2);
        self.is_complete = length == 0;
        true
    }

    /// Reads until the connection ends.
    async fn ends(&mut self, within: Duration) -> bool {
        let end = Instant::now() + within;
        let mut bytes = vec![0; 1 << 16];
        while let Ok(read) =
            timeout(end.saturating_duration_since(Instant::now()), self.stream.read(&mut bytes))
                .await
        {
            if read.unwrap_or(0) == 0 {
                return true;
            }
        }
        false
    }
}

impl Frame {
    fn names(&self, part: &str) -> Vec<&str> {
        let part = self.data[part].as_array().map(Vec::as_slice).unwrap_or_default();
        part.iter().map(|one| one.as_str().or(one[0].as_str()).unwrap()).collect()
    }
}

fn snapshot(sequence: u64, mut tasks: Vec<TaskView>) -> Arc<Published> {
    tasks.sort_by(|one, other| one.spec.name.cmp(&other.spec.name));
    let mut made = published(tasks, vec![good_redis("main")]);
    Arc::make_mut(&mut made).snapshot.sequence = sequence;
    made
}

fn turned(name: &str, verdict: Verdict) -> TaskView {
    TaskView { verdict, ..stopped_task(name) }
}

/// So many tasks that a full update exceeds the kernel's buffers.
fn many(verdict: Verdict) -> Vec<TaskView> {
    let long = "x".repeat(180);
    (0..1_900).map(|n| TaskView { verdict, ..full_task(&format!("{n:04}{long}")) }).collect()
}

#[tokio::test]
async fn a_page_hears_at_once_and_goes_on_where_it_was() {
    let server =
        start(snapshot(1, vec![stopped_task("a"), stopped_task("b")]), Limits::default()).await;
    let mut page = server.listen(1).await;
    for header in [
        "cache-control: no-store",
        "x-accel-buffering: no",
        "content-security-policy: default-src 'none'",
    ] {
        assert!(page.head.contains(header), "{header} in {}", page.head);
    }
    let beat = page.next().await.unwrap();
    assert_eq!((beat.event.as_str(), &beat.data["stopped"]), ("beat", &Value::Bool(false)));
    let began = Instant::now();
    server.publish(2, vec![turned("a", Verdict::Down), stopped_task("b")]);
    let frame = page.news().await;
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!((frame.event.as_str(), frame.names("rows")), ("rows", vec!["a"]));
    assert_eq!(frame.id, Some(format!("{}-2", server.boot)));
    drop(page);

    server.publish(3, vec![stopped_task("b")]);
    let mut back = server.listen(2).await;
    let began = Instant::now();
    let frame = back.news().await;
    assert_eq!(
        (frame.event.as_str(), frame.names("gone")),
        ("rows", vec!["a"]),
        "also after everybody had left"
    );
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    let mut stranger = server.ask("GET", "/live?since=2&boot=00000000", Ipv4Addr::LOCALHOST).await;
    let frame = stranger.next().await.unwrap();
    assert_eq!((frame.event.as_str(), frame.names("rows")), ("all", vec!["b"]));
    // Without changes there are heartbeats, but not that often.
    let began = Instant::now();
    for _ in 0..3 {
        assert_eq!(back.next().await.unwrap().event, "beat");
    }
    assert!(
        (Duration::from_millis(1_900)..PATIENCE).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn changes_count_from_the_page_that_was_given() {
    let server = start(snapshot(1, vec![stopped_task("a")]), Limits::default()).await;
    let page = server.ask("GET", "/", Ipv4Addr::LOCALHOST).await;
    assert!(page.head.starts_with("http/1.1 200 "), "{}", page.head);
    server.publish(2, vec![turned("a", Verdict::Down)]);
    let mut page = server.listen(1).await;
    let frame = page.next().await.unwrap();
    assert_eq!((frame.event.as_str(), frame.names("rows")), ("rows", vec!["a"]));
}

#[tokio::test]
async fn many_changes_in_quick_succession_make_few_frames() {
    let server = start(snapshot(1, vec![stopped_task("a")]), Limits::default()).await;
    let mut page = server.listen(1).await;
    assert_eq!(page.next().await.unwrap().event, "beat");
    let began = Instant::now();
    let mut sequence = 1;
    while began.elapsed() < Duration::from_secs(1) {
        sequence += 1;
        let verdict = if sequence % 2 == 0 { Verdict::Down } else { Verdict::Running };
        server.publish(sequence, vec![turned("a", verdict), stopped_task(&format!("b{sequence}"))]);
        sleep(Duration::from_millis(4)).await;
    }
    let took = began.elapsed();
    let mut frames = 0;
    loop {
        let frame = page.news().await;
        frames += 1;
        if frame.data["seq"] == sequence {
            break;
        }
    }
    let most = took.as_millis() / 80 + 2;
    assert!(
        sequence > 50 && frames >= 3 && u128::from(frames as u64) <= most,
        "{frames} of {sequence} in {took:?}"
    );
}

#[tokio::test]
async fn an_engine_that_stopped_is_reported() {
    let mut old = snapshot(1, vec![stopped_task("a")]);
    Arc::make_mut(&mut old).made = Instant::now().checked_sub(Duration::from_secs(11)).unwrap();
    let server = start(old, Limits::default()).await;
    let mut page = server.listen(0).await;
    assert_eq!(page.next().await.unwrap().event, "all");
    let beat = page.next().await.unwrap();
    assert!(beat.data["stopped"].as_str().unwrap().contains("engine has stopped"), "{beat:?}");
    let wall = snapshot(1, vec![]).wall.0;
    assert!(
        (wall + 11_000..wall + 60_000).contains(&beat.data["at"].as_i64().unwrap()),
        "the clock goes on: {beat:?}"
    );
    server.publish(2, vec![stopped_task("a")]);
    loop {
        let beat = page.next().await.unwrap();
        if beat.data["stopped"] == Value::Bool(false) {
            break;
        }
    }
}

#[tokio::test]
async fn head_does_not_wait() {
    let server = start(snapshot(1, vec![stopped_task("a")]), Limits::default()).await;
    let mut answer = server.ask("HEAD", "/live", Ipv4Addr::LOCALHOST).await;
    assert!(
        answer.head.starts_with("http/1.1 200 ") && answer.head.contains("text/event-stream"),
        "{}",
        answer.head
    );
    answer
        .stream
        .write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut rest = answer.raw;
    timeout(PATIENCE, answer.stream.read_to_end(&mut rest))
        .await
        .expect("the next answer")
        .unwrap();
    assert!(
        rest.starts_with(b"HTTP/1.1 200 OK"),
        "the connection goes on: {}",
        String::from_utf8_lossy(&rest)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_pages_from_one_address_leave_room_for_a_scrape() {
    let limits = Limits::default();
    let server = start(snapshot(1, vec![stopped_task("a")]), limits).await;
    let mut pages = Vec::new();
    for _ in 0..limits.streams {
        let mut page = server.listen(1).await;
        page.next().await.unwrap();
        pages.push(page);
    }
    assert!(pages.len() > 200);
    let began = Instant::now();
    for _ in 0..10 {
        let scrape = server.ask("GET", "/metrics", Ipv4Addr::LOCALHOST).await;
        assert!(scrape.head.starts_with("http/1.1 200 "), "{}", scrape.head);
    }
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    let refused = server.ask("GET", "/live", Ipv4Addr::LOCALHOST).await;
    assert!(
        refused.head.starts_with("http/1.1 503 ") && refused.head.contains("retry-after: "),
        "{}",
        refused.head
    );
    server.publish(2, vec![turned("a", Verdict::Down)]);
    for page in &mut pages {
        assert_eq!(page.news().await.names("rows"), ["a"]);
    }
    // A page that disconnects frees its place.
    drop(pages.pop());
    let deadline = Instant::now() + PATIENCE;
    while !server.ask("GET", "/live", Ipv4Addr::LOCALHOST).await.head.starts_with("http/1.1 200 ") {
        assert!(Instant::now() < deadline, "no room was made");
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_does_not_read_is_cut_off_and_one_that_reads_stays() {
    let limits = Limits {
        response: Duration::from_millis(1_500),
        idle: Duration::from_millis(300),
        ..Limits::default()
    };
    let server = start(snapshot(1, many(Verdict::Running)), limits).await;
    let mut deaf = server.listen(0).await;
    let mut good = server.listen(0).await;
    let began = Instant::now();
    // Longer than any limit: full updates, repeatedly.
    for sequence in 2..14 {
        let verdict = if sequence % 2 == 0 { Verdict::Down } else { Verdict::Running };
        server.publish(sequence, many(verdict));
        while good.news().await.data["seq"] != sequence {}
        sleep(Duration::from_millis(200)).await;
    }
    assert!(began.elapsed() > limits.response);
    server.publish(20, vec![stopped_task("a")]);
    while good.news().await.data["seq"] != 20 {}
    assert!(deaf.ends(Duration::from_secs(5)).await, "what the kernel took, and the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_streams_at_once() {
    let mut server = start(snapshot(1, vec![stopped_task("a")]), Limits::default()).await;
    let mut pages = Vec::new();
    for _ in 0..20 {
        let mut page = server.listen(1).await;
        page.next().await.unwrap();
        pages.push(page);
    }
    let began = Instant::now();
    server.shutdown.cancel();
    for page in &mut pages {
        while page.next().await.is_some() {}
        assert!(page.is_complete, "not a clean end");
    }
    timeout(PATIENCE, &mut server.serving).await.expect("the server ends").unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_script_is_kept_by_browsers_and_runs_nothing_that_it_was_not_given() {
    let server = start(snapshot(1, vec![]), Limits::default()).await;
    let answer = server.ask("GET", "/app.js", Ipv4Addr::LOCALHOST).await;
    for header in
        ["content-type: text/javascript; charset=utf-8", "cache-control: no-cache", "nosniff"]
    {
        assert!(answer.head.contains(header), "{header} in {}", answer.head);
    }
    let tag =
        answer.head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
    let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
    let request = format!(
        "GET /app.js HTTP/1.1\r\nHost: x\r\nConnection: close\r\nIf-None-Match: {tag}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut known = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut known)).await.unwrap().unwrap();
    assert!(known.starts_with("HTTP/1.1 304 ") && known.ends_with("\r\n\r\n"), "{known}");
    let script =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/src/outputs/page/app.js"))
            .unwrap();
    for forbidden in [
        "eval(",
        "new Function",
        "document.write",
        "insertAdjacentHTML",
        "outerHTML",
        "http://",
        "https://",
    ] {
        assert!(!script.contains(forbidden), "{forbidden}");
    }
    assert_eq!(script.matches("innerHTML").count(), 1, "markup of the agent enters at one place");
}
