//! The HTTP server over real sockets: routes, negotiation, limits, hostile clients, shutdown.

use crate::support::PATIENCE;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lockwatch::http::{HttpContext, Limits, serve};
use lockwatch::outputs::history::History;
use lockwatch::published::{Published, ReloadRequest, ReloadStatus};
use lockwatch::trace::Traces;

use lockwatch_judge::reading::Unknown;
use lockwatch_judge::snapshot::{NodeView, StoreView, TaskView};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::snapshots::{
    RELOAD, full_task, good_node, good_redis, new_redis, published, stopped_task,
};
use crate::support::truth::rule;

/// A running server and its inputs. Ends with the test.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) published: watch::Sender<Arc<Published>>,
    pub(crate) history: History,
    _reload_status: watch::Sender<ReloadStatus>,
    reloads: mpsc::Receiver<ReloadRequest>,
    pub(crate) shutdown: CancellationToken,
    serving: JoinHandle<()>,
}

pub(crate) async fn start(first: Arc<Published>) -> Server {
    start_with(first, Limits::default(), true).await
}

pub(crate) async fn start_with(
    first: Arc<Published>,
    limits: Limits,
    enable_lifecycle: bool,
) -> Server {
    start_as(first, |context| HttpContext { limits, enable_lifecycle, ..context }).await
}

/// A server whose context is the usual one with these changes.
pub(crate) async fn start_as(
    first: Arc<Published>,
    change: impl FnOnce(HttpContext) -> HttpContext,
) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (published, published_receiver) = watch::channel(first);
    let (reload_status, status_receiver) = watch::channel(RELOAD);
    let (reload, reloads) = mpsc::channel(1);
    let context = HttpContext {
        snapshots: published_receiver.into(),
        reload_status: status_receiver,
        log_lines_lost: || 0,
        reload,
        enable_lifecycle: true,
        history: History::default(),
        traces: Traces::default(),
        frame_ancestors: Arc::from([]),
        web: None,
        switches: None,
        drills: None,
        limits: Limits::default(),
    };
    let context = change(context);
    let history = context.history.clone();
    let shutdown = CancellationToken::new();
    let serving = tokio::spawn(serve(vec![listener], context, shutdown.clone()));
    Server {
        address,
        published,
        history,
        _reload_status: reload_status,
        reloads,
        shutdown,
        serving,
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.head.lines().filter_map(|line| {
            let (have, value) = line.split_once(": ")?;
            have.eq_ignore_ascii_case(name).then_some(value)
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{name} twice");
        value
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Server {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "").await
    }

    /// One request on its own connection; `headers` are whole lines.
    pub(crate) async fn ask(&self, method: &str, path: &str, headers: &str) -> Answer {
        let request =
            format!("{method} {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
        let mut stream = self.connect(Ipv4Addr::LOCALHOST).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("an answer").unwrap();
        parse(&bytes)
    }

    pub(crate) async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(16 << 10).unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }
}

fn parse(bytes: &[u8]) -> Answer {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let mut answer = Answer { status, head, body: bytes[end + 4..].to_vec() };
    if answer.header("transfer-encoding") == Some("chunked") {
        answer.body = unchunk(&answer.body);
    }
    answer
}

fn unchunk(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(2).position(|window| window == b"\r\n").expect("a chunk's length");
        let length =
            usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 2 + length + 2..];
        if length == 0 {
            return body;
        }
    }
    panic!("no last chunk");
}

fn small() -> Arc<Published> {
    published(vec![full_task("outbound"), stopped_task("in/bound")], vec![good_redis("main")])
}

/// A snapshot with an exposition of some megabytes, more than the kernel's buffers hold.
fn big() -> Arc<Published> {
    let long = "x".repeat(180);
    published(
        (0..1_000).map(|n| full_task(&format!("{n:04}{long}"))).collect(),
        vec![good_redis("main")],
    )
}

pub(crate) fn stale(mut from: Arc<Published>) -> Arc<Published> {
    let limit = Limits::default().snapshot_age;
    Arc::make_mut(&mut from).made =
        Instant::now().checked_sub(limit + Duration::from_millis(1)).unwrap();
    from
}

fn gunzip(bytes: &[u8]) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(bytes), &mut text).unwrap();
    text
}

const OPEN_METRICS: &str =
    "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2\r\n";

#[tokio::test]
async fn the_metrics_page_takes_the_form_that_is_asked_for() {
    let server = start(small()).await;
    let classic = server.get("/metrics").await;
    assert_eq!(classic.status, 200);
    assert_eq!(classic.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    assert_eq!(classic.header("vary"), Some("Accept, Accept-Encoding"));
    assert_eq!(classic.header("content-encoding"), None);
    assert!(classic.text().contains("# TYPE lockwatch_lock_renewals_total counter\n"));
    assert!(!classic.text().contains("# EOF"));

    let open = server.ask("GET", "/metrics", OPEN_METRICS).await;
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(
        open.text().contains("# TYPE lockwatch_lock_renewals counter\n")
            && open.text().ends_with("# EOF\n")
    );

    let packed = server
        .ask("GET", "/metrics", &format!("{OPEN_METRICS}Accept-Encoding: br, gzip\r\n"))
        .await;
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("vary"), Some("Accept, Accept-Encoding"));
    assert!(
        gunzip(&packed.body).contains("lockwatch_lock_held{task=\"outbound\",store=\"main\"} 1\n")
    );

    for refused in
        ["Accept-Encoding: gzip;q=0\r\n", "Accept-Encoding: br\r\nAccept-Encoding: gzip;q=0, *\r\n"]
    {
        let plain = server.ask("GET", "/metrics", refused).await;
        assert_eq!(
            (plain.header("content-encoding"), plain.text().starts_with("# HELP")),
            (None, true)
        );
    }
}

#[tokio::test]
async fn a_new_snapshot_or_reload_makes_a_new_page() {
    let server = start(small()).await;
    assert!(server.get("/metrics").await.text().contains("task=\"outbound\""));
    server.published.send(published(vec![stopped_task("other")], vec![])).unwrap();
    let page = server.get("/metrics").await;
    assert!(page.text().contains("task=\"other\"") && !page.text().contains("task=\"outbound\""));
    server._reload_status.send(ReloadStatus { successful: false, ..RELOAD }).unwrap();
    assert!(
        server.get("/metrics").await.text().contains("lockwatch_config_last_reload_successful 0\n")
    );
}

#[tokio::test]
async fn head_answers_like_get_without_the_body() {
    let server = start(small()).await;
    let api = ["/api/v1/tasks", "/api/v1/tasks/outbound", "/api/v1/events", "/api/v1/openapi.json"];
    for path in ["/", "/metrics", "/style.css", "/-/healthy", "/-/ready"].into_iter().chain(api) {
        let (get, head) = (server.get(path).await, server.ask("HEAD", path, "").await);
        assert_eq!((get.status, head.status, head.body.len()), (200, 200, 0), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        if path != "/metrics" {
            assert_eq!(head.header("content-length"), get.header("content-length"), "{path}");
        }
    }
}

#[test]
fn clients_get_what_the_documentation_says() {
    let docs =
        [include_str!("../../docs/operation.md"), include_str!("../../docs/api.md")].join(" ");
    let docs = docs.split_whitespace().collect::<Vec<_>>().join(" ");
    let Limits { connections, connections_per_peer, streams, explanations, .. } = Limits::default();
    let kept = Limits::default().connections_for_small_peers;
    let Limits { response, drain, snapshot_age, .. } = Limits::default();
    for promise in [
        format!(
            "At most {connections} connections are open at a time, {connections_per_peer} from \
             one address; the last {kept} places are kept"
        ),
        format!("streams (`/live`) at a time | {streams}; beyond: 503"),
        format!("waited for at a time | {explanations}; beyond: 503"),
        format!("is cut off after {response:?}"),
        format!("open requests may finish for up to {drain:?}"),
        format!("503 if the newest is older than {snapshot_age:?}"),
    ] {
        let promise = promise.replace("0s", "0 s").replace("3s", "3 s").replace("5s", "5 s");
        assert!(docs.contains(&promise), "the documentation does not say: {promise}");
    }
}

#[tokio::test]
async fn an_engine_that_stopped_is_not_green() {
    let _rule = rule("16 freshness");
    let server = start(stale(small())).await;
    for path in [
        "/metrics",
        "/-/healthy",
        "/-/ready",
        "/",
        "/api/v1/tasks",
        "/api/v1/tasks/outbound",
        "/api/v1/events",
    ] {
        let answer = server.get(path).await;
        assert_eq!(answer.status, 503, "{path}");
        assert!(answer.text().contains("engine has stopped"), "{path}: {}", answer.text());
    }
    assert!(!server.get("/metrics").await.text().contains("lockwatch_lock_held"));
    server.published.send(small()).unwrap();
    assert_eq!(
        (server.get("/metrics").await.status, server.get("/-/healthy").await.status),
        (200, 200)
    );
}

#[tokio::test]
async fn ready_means_that_every_redis_was_tried() {
    let with = |redis: StoreView| published(vec![], vec![good_redis("main"), redis]);
    let server = start(with(new_redis("spare"))).await;
    assert_eq!(server.get("/-/ready").await.status, 503);
    let refused =
        StoreView { readable: Some(false), unknown: Some(Unknown::Connect), ..new_redis("spare") };
    let dead_node = NodeView { up: Some(false), ..good_node("10.0.0.5:6379") };
    let failed = StoreView { nodes: vec![dead_node], ..new_redis("spare") };
    for tried in [refused, failed, good_redis("spare")] {
        server.published.send(with(tried)).unwrap();
        assert_eq!(server.get("/-/ready").await.status, 200);
    }
}

#[tokio::test]
async fn a_reload_answers_how_it_went() {
    let mut server = start(small()).await;
    let mut reloads = std::mem::replace(&mut server.reloads, mpsc::channel(1).1);
    let agent = tokio::spawn(async move {
        for outcome in [Ok(()), Err("tasks[0].lock: no key".to_owned())] {
            reloads.recv().await.unwrap().send(outcome).unwrap();
        }
        drop(reloads.recv().await.unwrap());
    });
    assert_eq!(server.ask("POST", "/-/reload", "Content-Length: 0\r\n").await.status, 200);
    let failed = server.ask("PUT", "/-/reload", "Origin: http://test\r\n").await;
    assert_eq!((failed.status, failed.text()), (500, "tasks[0].lock: no key\n"));
    for foreign in ["cross-site", "same-site"] {
        assert_eq!(
            server.ask("POST", "/-/reload", &format!("Sec-Fetch-Site: {foreign}\r\n")).await.status,
            403
        );
    }
    // `Origin` is the only such header that browsers send to a server without HTTPS.
    for foreign in ["http://evil.example", "https://test:1", "http://tests", "null", "\u{ff}"] {
        assert_eq!(
            server.ask("POST", "/-/reload", &format!("Origin: {foreign}\r\n")).await.status,
            403,
            "{foreign}"
        );
    }
    let got = server.get("/-/reload").await;
    assert_eq!((got.status, got.header("allow")), (405, Some("POST, PUT")));
    assert_eq!(
        server.ask("POST", "/-/reload", "").await.status,
        503,
        "the agent dropped the request"
    );
    agent.await.unwrap();
}

#[tokio::test]
async fn a_reload_is_refused_unless_allowed() {
    let mut server = start_with(small(), Limits::default(), false).await;
    let answer = server.ask("POST", "/-/reload", "").await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("--web.enable-lifecycle"));
    assert!(server.reloads.try_recv().is_err());
}

#[tokio::test]
async fn anything_else_is_refused() {
    let server = start(small()).await;
    for path in ["/metrics/", "/favicon.ico", "/debug/pprof", "/../etc/passwd", "/metrics%00"] {
        assert_eq!(server.get(path).await.status, 404, "{path}");
    }
    let api = server.get("/api/v2/tasks").await;
    assert_eq!((api.status, api.json()["error"].is_string()), (404, true));
    for method in ["POST", "DELETE", "OPTIONS", "TRACE", "BREW"] {
        let answer = server.ask(method, "/metrics", "").await;
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    assert_eq!(server.get("/metrics?target=redis://evil").await.status, 200);
}

#[tokio::test]
async fn every_answer_protects_the_browser() {
    let server = start(small()).await;
    let api = ["/api/v1/tasks", "/api/v1/tasks/outbound", "/api/v1/events", "/api/v1/openapi.json"];
    for path in ["/", "/metrics", "/style.css", "/nothing", "/-/reload"].into_iter().chain(api) {
        let answer = server.get(path).await;
        assert!(
            answer.header("content-security-policy").unwrap().starts_with("default-src 'none';"),
            "{path}"
        );
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert!(answer.header("content-type").is_some(), "{path}");
        let cached = match path {
            path if path == "/style.css" || api.contains(&path) => "no-cache",
            _ => "no-store",
        };
        assert_eq!(answer.header("cache-control"), Some(cached), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
}

#[tokio::test]
async fn tasks_can_be_asked_for_by_any_name() {
    let names = ["outbound", "in/bound", "a b", "出荷", "quote\"<b>", "100%", "..", "nul\0"];
    let server = start(published(names.map(stopped_task).to_vec(), vec![])).await;
    for name in names {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = server.get(&format!("/api/v1/tasks/{encoded}")).await;
        assert_eq!((answer.status, answer.json()["task"]["name"].as_str()), (200, Some(name)));
    }
    for missing in ["outboun", "", "%ff", "%", "in/bound"] {
        let answer = server.get(&format!("/api/v1/tasks/{missing}")).await;
        assert_eq!((answer.status, answer.json()["error"].is_string()), (404, true), "{missing}");
    }
}

#[tokio::test]
async fn a_list_of_any_length_is_one_json_document() {
    for count in [0, 1, 49, 50, 51, 100, 137] {
        let tasks: Vec<TaskView> = (0..count).map(|n| full_task(&format!("task-{n:03}"))).collect();
        let server = start(published(tasks, vec![good_redis("main"), new_redis("spare")])).await;
        let list = server.get("/api/v1/tasks").await.json();
        let names: Vec<&str> = list["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| task["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, (0..count).map(|n| format!("task-{n:03}")).collect::<Vec<_>>());
        assert_eq!(list["stores"].as_array().unwrap().len(), 2);
        assert_eq!(list["at"], "2027-01-15T08:00:00.123Z");
    }
}

#[tokio::test]
async fn garbage_ends_the_connection_and_nothing_else() {
    let server = start(small()).await;
    let long = [b"GET / HTTP/1.1\r\nX: ".as_slice(), &[b'x'; 40_000], b"\r\n\r\n"].concat();
    let many = [b"GET / HTTP/1.1\r\n".to_vec(), b"X: y\r\n".repeat(500), b"\r\n".to_vec()].concat();
    let path = [b"GET /".as_slice(), &[b'a'; 40_000], b" HTTP/1.1\r\n\r\n"].concat();
    let garbage: [&[u8]; 10] = [
        b"\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS client\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        &long,
        &many,
        &path,
    ];
    for bytes in garbage {
        let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
        // The server may close before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ =
            timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the connection ends");
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
        assert_eq!(server.get("/-/healthy").await.status, 200);
    }
}

#[tokio::test]
async fn bodies_are_refused() {
    let server = start(small()).await;
    let large = server.ask("POST", "/-/reload", "Content-Length: 2000\r\n").await;
    assert_eq!(large.status, 413);
    let endless = server.ask("GET", "/metrics", "Transfer-Encoding: chunked\r\n").await;
    assert_eq!(endless.status, 413);
    let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
    stream
        .write_all(
            b"GET /-/healthy HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n\
        bodyGET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        )
        .await
        .unwrap();
    let mut answers = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answers)).await.unwrap().unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
}

#[tokio::test]
async fn a_flood_of_half_open_connections_leaves_room_for_the_scraper() {
    let server = start(small()).await;
    let mut flood = Vec::new();
    for _ in 0..Limits::default().connections_per_peer + 50 {
        let mut stream = server.connect(Ipv4Addr::new(127, 0, 0, 2)).await;
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX-Slow: ").await;
        flood.push(stream);
    }
    let began = Instant::now();
    for _ in 0..20 {
        assert_eq!(server.get("/metrics").await.status, 200);
    }
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}: the flood had ended by itself",
        began.elapsed()
    );
    let mut open = 0;
    for stream in &mut flood {
        open +=
            usize::from(timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await.is_err());
    }
    assert_eq!(open, Limits::default().connections_per_peer);
}

#[tokio::test]
async fn idle_connections_from_many_addresses_leave_room_for_the_scraper() {
    let limits = Limits { connections: 64, connections_per_peer: 48, ..Limits::default() };
    let server = start_with(small(), limits, true).await;
    let mut idle = Vec::new();
    for address in 0..200_u8 {
        let mut stream = server.connect(Ipv4Addr::new(127, 0, 1, address)).await;
        let asked = stream.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n").await;
        // A single request is answered, unless all other clients connected at the same moment.
        if asked.is_ok() && address < 64 {
            assert!(timeout(PATIENCE, stream.read(&mut [0; 1024])).await.unwrap().unwrap() > 0);
        }
        idle.push(stream);
    }
    sleep(Duration::from_millis(200)).await;
    for _ in 0..20 {
        assert_eq!(server.get("/metrics").await.status, 200);
    }
}

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let limits = Limits { idle: Duration::from_millis(400), ..Limits::default() };
    let server = start_with(small(), limits, true).await;
    for beginning in ["", "GET /metr", "GET / HTTP/1.1\r\nHost: x\r\n"] {
        let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
        let began = Instant::now();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut Vec::new()))
            .await
            .expect("the connection ends");
        assert!(
            began.elapsed() >= limits.idle - Duration::from_millis(50),
            "{beginning}: {:?}",
            began.elapsed()
        );
    }
    // Sending an occasional byte does not extend the timeout.
    let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
    let began = Instant::now();
    while stream.write_all(b"G").await.is_ok() {
        sleep(Duration::from_millis(50)).await;
        assert!(began.elapsed() < PATIENCE, "still open");
    }
    // Nor does the head of a later request.
    let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
    stream.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(timeout(PATIENCE, stream.read(&mut [0; 1024])).await.unwrap().unwrap() > 0);
    stream.write_all(b"GET /metr").await.unwrap();
    let _ =
        timeout(PATIENCE, stream.read_to_end(&mut Vec::new())).await.expect("the connection ends");
}

#[tokio::test]
async fn a_connection_may_idle_between_scrapes_but_not_for_ever() {
    let idle = Duration::from_millis(1500);
    let server = start_with(small(), Limits { idle, ..Limits::default() }, true).await;
    let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
    for pause in [idle / 2, Duration::ZERO] {
        stream.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 1024];
        let length = timeout(PATIENCE, stream.read(&mut answer)).await.unwrap().unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200"), "after {pause:?}");
        sleep(pause).await;
    }
    let began = Instant::now();
    assert_eq!(timeout(PATIENCE, stream.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
    assert!(began.elapsed() > idle / 2, "{:?}", began.elapsed());
}

/// Requests the big exposition and reads it with pauses, then without. Returns the bytes received
/// and the length announced.
async fn read_slowly(server: &Server, pauses: u32, pause: Duration) -> (usize, usize) {
    let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut bytes = vec![0; 4096];
    stream.read_exact(&mut bytes).await.unwrap();
    let length = start(big()).await.get("/metrics").await.body.len();
    let (mut more, mut pace) = (vec![0; 4096], interval(pause));
    // The first tick completes at once, so it is skipped.
    pace.reset();
    for _ in 0..pauses {
        pace.tick().await;
        if stream.read_exact(&mut more).await.is_err() {
            break;
        }
        bytes.extend_from_slice(&more);
    }
    // What the kernel had buffered still arrives.
    while bytes.len() < length {
        match timeout(PATIENCE, stream.read(&mut more)).await.expect("bytes or the end") {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&more[..count]),
        }
    }
    (bytes.len(), length)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_is_cut_off() {
    let limits = Limits { response: Duration::from_millis(500), ..Limits::default() };
    let server = start_with(big(), limits, true).await;
    let (came, length) = read_slowly(&server, 1, Duration::from_secs(2)).await;
    assert!(came < length, "all {length} bytes came");
    // The kernel memory that such clients occupy is not accounted to any process, so it must be
    // bounded.
    assert!(came < 3 << 19, "{came} bytes were kept for it");
    // Other clients are served meanwhile and after.
    assert_eq!(server.get("/style.css").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_in_drips_is_cut_off() {
    let limits = Limits { response: Duration::from_millis(1500), ..Limits::default() };
    let server = start_with(big(), limits, true).await;
    let (came, length) = read_slowly(&server, 150, Duration::from_millis(20)).await;
    assert!(came < length, "all {length} bytes came");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_of_a_big_page_all_get_it() {
    let server = Arc::new(start(big()).await);
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let server = Arc::clone(&server);
            tokio::spawn(async move { server.get("/metrics").await.body.len() })
        })
        .collect();
    let mut lengths = Vec::new();
    for reader in readers {
        lengths.push(reader.await.unwrap());
    }
    // The figures about the process differ.
    let is_whole = |length: &usize| length.abs_diff(lengths[0]) < 64 && *length > 8 << 20;
    assert!(lengths.iter().all(is_whole), "{lengths:?}");
}

#[tokio::test]
async fn made_up_paths_make_no_series() {
    let _rule = rule("13 series");
    let series = |page: &Answer| -> Vec<String> {
        page.text().lines().map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    let server = start(small()).await;
    let before = series(&server.get("/metrics").await);
    let mut stream = server.connect(Ipv4Addr::LOCALHOST).await;
    for n in 0..10_000 {
        let request =
            format!("GET /made-up/{n}?x={n} HTTP/1.1\r\nHost: x\r\nUser-Agent: {n}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 1024];
        let length = timeout(PATIENCE, stream.read(&mut answer)).await.unwrap().unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 404"));
    }
    server.published.send(small()).unwrap();
    assert_eq!(series(&server.get("/metrics").await), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_lets_answers_finish_and_waits_for_nobody() {
    let limits = Limits { drain: Duration::from_secs(3), ..Limits::default() };
    let mut server = start_with(big(), limits, true).await;
    let mut idle = server.connect(Ipv4Addr::LOCALHOST).await;
    let mut half_open = server.connect(Ipv4Addr::LOCALHOST).await;
    half_open.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    idle.write_all(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(timeout(PATIENCE, idle.read(&mut [0; 1024])).await.unwrap().unwrap() > 0);
    let mut reading = server.connect(Ipv4Addr::LOCALHOST).await;
    reading
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut bytes = vec![0; 64 << 10];
    reading.read_exact(&mut bytes).await.unwrap();

    let began = Instant::now();
    server.shutdown.cancel();
    timeout(PATIENCE, reading.read_to_end(&mut bytes)).await.expect("the rest").unwrap();
    let page = parse(&bytes);
    assert!(page.text().trim_end().ends_with(|last: char| last.is_ascii_digit()), "cut off");
    timeout(PATIENCE, &mut server.serving).await.expect("the server ends").unwrap();
    assert!(began.elapsed() < limits.drain + Duration::from_secs(2), "{:?}", began.elapsed());
    let _ =
        timeout(PATIENCE, idle.read_to_end(&mut Vec::new())).await.expect("idle connections end");
    assert!(TcpStream::connect(server.address).await.is_err(), "still listening");
}
