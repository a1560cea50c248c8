//! The exposition of 100,000 series: time from the request to its last byte, for a new snapshot and
//! for a repeated request. It is compared with formatting the same text by hand, and with hyper
//! sending the same bytes.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use lockwatch::clock::Clock;
use lockwatch::config::Config;
use lockwatch::engine::{Engine, INPUTS};
use lockwatch::http::{HttpContext, Limits, serve};
use lockwatch::io::{self, Assignment};
use lockwatch::outputs::exposition::{Variant, make};
use lockwatch::outputs::history::History;
use lockwatch::outputs::metrics::Own;
use lockwatch::outputs::negotiate::{Coding, Format};
use lockwatch::paths::Links;
use lockwatch::published::{Published, ReloadStatus};
use lockwatch::trace::Traces;
use lockwatch_judge::spec::{StoreIndex, TaskIndex};
use lockwatch_judge::time::AgentWall;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinSet, block_in_place};
use tokio_util::sync::CancellationToken;

use super::bed::{Bed, config};
use super::fetch::{Client, series};
use super::report::{Figure, Table};
use crate::numbers::{ms, quantile, shown};

const SERIES: usize = 100_000;
/// Number of tasks used to find out how many series one task has.
const FEW: usize = 100;
const READ_WITHIN: Duration = Duration::from_secs(60);
const RELOAD: ReloadStatus =
    ReloadStatus { successful: true, success_at: AgentWall(0), tasks: 1, links: Links::NONE };
const OWN: Own = Own { reload: RELOAD, log_lines_lost: 0 };
const PLAIN: Variant = Variant { format: Format::Classic, coding: Coding::Identity };

pub(super) async fn run(short: bool) -> anyhow::Result<Table> {
    let each = series(&text_of(&read(FEW).await?)?) / FEW;
    let published = read(SERIES.div_ceil(each)).await?;
    let page = text_of(&published)?;
    let (count, size) = (series(&page), page.len());
    let lines = Lines::of(std::str::from_utf8(&page)?)?;
    ensure!(
        lines.write(size) == String::from_utf8_lossy(&page),
        "the text by hand is not the page"
    );

    let times = measure(&published, &lines, &page, if short { 40 } else { 300 }).await?;
    let (writing, sending) = (quantile(&times.writing, 0.5), quantile(&times.sending, 0.5));
    let beside = format!(
        "writing the text {}, hyper sending it {}",
        shown(writing, "ms"),
        shown(sending, "ms")
    );
    let what = format!("{count} series, {:.1} MB", size as f64 / 1e6);
    let row = |name: &str, times: &[f64], limit: f64, words: &str| {
        let (p50, p99) = (quantile(times, 0.5), quantile(times, 0.99));
        [
            Figure::at_most(format!("{what}: {name}, p50"), p50, limit, "ms")
                .beside(beside.clone())
                .goal(words),
            Figure::at_most(format!("{what}: {name}, p99"), p99, 3.0 * p50, "ms").goal("3 × p50"),
        ]
    };
    let (words, again) = ("2 × writing + 1.5 × sending", "1.5 × sending");
    let new = row("new snapshot", &times.new, 2.0 * writing + 1.5 * sending, words);
    let same = row("same snapshot", &times.same, 1.5 * sending, again);
    let making = quantile(&times.making, 0.5);
    let told = Figure::told(format!("{what}: making it, without a server"), shown(making, "ms"));
    Ok(Table { figures: new.into_iter().chain(same).chain([told]).collect(), more: String::new() })
}

/// Durations in milliseconds.
#[derive(Default)]
struct Times {
    writing: Vec<f64>,
    sending: Vec<f64>,
    making: Vec<f64>,
    new: Vec<f64>,
    same: Vec<f64>,
}

/// Takes the measurements in turn, so that a busy moment affects all of them.
async fn measure(
    published: &Arc<Published>,
    lines: &Lines<'_>,
    page: &[u8],
    rounds: u64,
) -> anyhow::Result<Times> {
    let mut times = Times::default();
    let mut serving = JoinSet::new();
    let (sender, receiver) = watch::channel(Arc::clone(published));
    let mut agent = Client::connect(listen_with_lockwatch(receiver, &mut serving).await?)?;
    let mut plain =
        Client::connect(listen_with_hyper(Bytes::copy_from_slice(page), &mut serving).await?)?;
    let get = |client: &mut Client, path: &str, length: usize| {
        block_in_place(|| {
            let page = client.get(path)?;
            ensure!(page.status == 200 && page.body.len().abs_diff(length) < 4096, "not the page");
            anyhow::Ok(ms(page.took))
        })
    };
    for round in 1..=rounds {
        let mut next = Published::clone(published);
        next.snapshot.sequence += round;
        next.made = Instant::now();
        let next = Arc::new(next);
        let began = Instant::now();
        let text = block_in_place(|| make(&next, OWN, PLAIN));
        times.making.push(ms(began.elapsed()));
        drop(text);
        let began = Instant::now();
        let text = block_in_place(|| lines.write(page.len()));
        times.writing.push(ms(began.elapsed()));
        drop(text);
        times.sending.push(get(&mut plain, "/", page.len())?);
        sender.send_replace(next);
        times.new.push(get(&mut agent, "/metrics", page.len())?);
        times.same.push(get(&mut agent, "/metrics", page.len())?);
    }
    Ok(times)
}

/// The snapshot that the agent's own watcher and engine publish for this many held locks.
async fn read(count: usize) -> anyhow::Result<Arc<Published>> {
    let bed = Bed::at_rest(count).await?;
    let text = config(&format!("url: \"redis://{}\"", bed.address()), "1s", count);
    let config = Config::parse(&text, Path::new("bench.yml"))
        .map_err(|mistakes| anyhow::anyhow!("{mistakes}"))?;
    let clock = Clock::start();
    let (inputs, engine_inputs) = mpsc::channel(INPUTS);
    let (engine, snapshots) = Engine::new(clock, config.watch_spec(0));
    let redis = config.redises.first().context("no redis")?.clone();
    let tasks = (0_u32..).map(TaskIndex).zip(config.tasks.iter().cloned()).collect();
    let assignment = Assignment { epoch: 0, index: StoreIndex(0), config: redis, tasks };
    let (_assignments, assignments) = watch::channel(Arc::new(assignment));
    let mut running = JoinSet::new();
    running.spawn(engine.run(engine_inputs, ()));
    running.spawn(io::run(assignments, inputs, clock, Traces::default()));
    let all_held =
        |published: &Published| published.snapshot.tasks.iter().all(|task| task.held == Some(true));
    let found = snapshots.everything_that(READ_WITHIN, all_held).await;
    found.map_err(|_| anyhow::anyhow!("not all locks were read"))
}

fn text_of(published: &Arc<Published>) -> anyhow::Result<Vec<u8>> {
    Ok(make(published, OWN, PLAIN))
}

async fn listen() -> anyhow::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// The agent's server, serving these snapshots.
pub(super) async fn listen_with_lockwatch(
    published: watch::Receiver<Arc<Published>>,
    serving: &mut JoinSet<()>,
) -> anyhow::Result<SocketAddr> {
    let (listener, address) = listen().await?;
    serving.spawn(async move {
        let (_status, reload_status) = watch::channel(RELOAD);
        let (reload, _requests) = mpsc::channel(1);
        let context = HttpContext {
            snapshots: published.into(),
            reload_status,
            log_lines_lost: || 0,
            reload,
            enable_lifecycle: false,
            history: History::default(),
            traces: Traces::default(),
            frame_ancestors: Arc::default(),
            web: None,
            switches: None,
            limits: Limits::default(),
        };
        serve(vec![listener], context, CancellationToken::new()).await;
    });
    Ok(address)
}

/// hyper alone, with the same bytes for each request.
async fn listen_with_hyper(bytes: Bytes, serving: &mut JoinSet<()>) -> anyhow::Result<SocketAddr> {
    let (listener, address) = listen().await?;
    serving.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _it_only_gets_slower = stream.set_nodelay(true);
            let bytes = bytes.clone();
            let answer = service_fn(move |_: Request<Incoming>| {
                let body = Full::new(bytes.clone());
                async move { Ok::<_, Infallible>(Response::new(body)) }
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer);
            tokio::spawn(async move {
                let _it_ends_with_the_client = connection.await;
            });
        }
    });
    Ok(address)
}

/// An exposition split into the values that a program has before it formats them.
struct Lines<'a>(Vec<Line<'a>>);

enum Line<'a> {
    Comment(&'a str),
    Series { name: &'a str, labels: Vec<(&'a str, &'a str)>, value: Value },
}

#[derive(Clone, Copy)]
enum Value {
    Integer(i64),
    Number(f64),
}

impl<'a> Lines<'a> {
    fn of(page: &'a str) -> anyhow::Result<Lines<'a>> {
        let line = |line: &'a str| {
            if line.starts_with('#') {
                return Ok(Line::Comment(line));
            }
            let (series, value) = line.rsplit_once(' ').context("no value")?;
            let value = match value.parse() {
                Ok(integer) => Value::Integer(integer),
                Err(_) => Value::Number(value.parse()?),
            };
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let pair = |pair: &'a str| pair.split_once("=\"");
            let labels: Option<Vec<_>> = labels
                .strip_suffix("\"}")
                .map_or(Some(Vec::new()), |all| all.split("\",").map(pair).collect());
            Ok(Line::Series { name, labels: labels.context("no labels")?, value })
        };
        let lines: anyhow::Result<Vec<_>> = page.lines().map(line).collect();
        let lines = lines?;
        if lines.is_empty() {
            bail!("an empty page");
        }
        Ok(Lines(lines))
    }

    /// Formats the same text by pushing strings, and nothing else.
    fn write(&self, size: usize) -> String {
        let (mut text, mut integer, mut number) =
            (String::with_capacity(size), itoa::Buffer::new(), dtoa::Buffer::new());
        for line in &self.0 {
            match line {
                Line::Comment(comment) => text.push_str(comment),
                Line::Series { name, labels, value } => {
                    text.push_str(name);
                    let mut before = "{";
                    for (name, value) in labels {
                        text.push_str(before);
                        text.push_str(name);
                        text.push_str("=\"");
                        text.push_str(value);
                        before = "\",";
                    }
                    if !labels.is_empty() {
                        text.push_str("\"}");
                    }
                    text.push(' ');
                    match *value {
                        Value::Integer(value) => text.push_str(integer.format(value)),
                        Value::Number(value) => text.push_str(number.format(value)),
                    }
                }
            }
            text.push('\n');
        }
        text
    }
}
