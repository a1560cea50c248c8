//! The churn: locks whose holders are replaced continuously, and agents that must never show the
//! holder of one hold with the deadline of another. The milliseconds of each deadline identify its
//! hold, so that a single displayed pair can be judged.

mod hold;
mod segments;
mod shown;
mod writer;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use redis::aio::MultiplexedConnection;
use redis::pipe;
use tokio::time::sleep;

use crate::numbers;
use crate::report::{Figure, Report};
use crate::stack::{Agent, Redis, get};
use segments::Segments;
use shown::{Live, Tally};
use writer::Writers;

/// How often each output is read.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Minimum number of pairs; fewer prove nothing.
const PAIRS_MIN: f64 = 1_000.0;

/// What `churn` takes.
#[derive(Clone, Debug, clap::Args)]
pub struct ChurnArgs {
    /// How long, in minutes
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// How many locks
    #[arg(long, default_value_t = 500)]
    locks: usize,
    /// How many connections replace their holders
    #[arg(long, default_value_t = 32)]
    writers: usize,
    /// Also write the report into this file, as Markdown
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

impl ChurnArgs {
    /// 500 locks for this time.
    pub fn lasting(time: Duration) -> ChurnArgs {
        ChurnArgs { minutes: time.as_secs_f64() / 60.0, locks: 500, writers: 32, report: None }
    }
}

/// Runs the churn; returns whether no wrong pair was shown.
///
/// # Errors
/// When it cannot be run.
pub async fn run(args: ChurnArgs) -> anyhow::Result<bool> {
    let report = Report(measure(&args).await?);
    print!("{report}");
    if let Some(file) = &args.report {
        std::fs::write(file, report.to_string())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(report.all_reached())
}

async fn measure(args: &ChurnArgs) -> anyhow::Result<Vec<Figure>> {
    let (new, old) = tokio::try_join!(watch(args, Server::New), watch(args, Server::Old))?;
    Ok([new, old].concat())
}

/// The commands with which an agent can read deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// `PEXPIRETIME`.
    New,
    /// Only `PTTL` and `TIME`, as before Redis 7.
    Old,
}

/// Starts a server with writers and an agent that watches it, and judges its outputs.
async fn watch(args: &ChurnArgs, server: Server) -> anyhow::Result<Vec<Figure>> {
    let redis = Redis::start().await?;
    let mut connection = redis.connect().await?;
    let (how, asked) = match server {
        Server::New => ("PEXPIRETIME", "pexpiretime"),
        Server::Old => ("PTTL and TIME", "pttl"),
    };
    if server == Server::Old {
        pipe()
            .cmd("ACL")
            .arg(&["SETUSER", "default", "-pexpiretime"])
            .exec_async(&mut connection)
            .await?;
    }
    let writers = Writers::start(&redis, args.locks, args.writers).await?;
    let way = Segments::to(redis.address()).await?;
    let agent = Agent::start(&config(way.address(), args.locks)).await?;
    let live = Live::listen(agent.address()).await?;
    let (began, during) = (Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    let mut tally = Tally::default();
    while began.elapsed() < during {
        tally.metrics(&get(agent.address(), "/metrics").await?.ok()?);
        tally.api(&get(agent.address(), "/api/v1/tasks").await?.json()?);
        sleep(LOOK_EVERY).await;
    }
    tally.live = live.stop()?;
    let (written, seconds) = (writers.stop(), began.elapsed().as_secs_f64());
    let asked = calls(&mut connection, asked).await?;
    let rate = format!(
        "{written}, {:.0} per second, of {} locks; {asked}",
        written as f64 / seconds,
        args.locks
    );
    Ok([vec![Figure::told(format!("{how}: holds written"), rate)], of(&tally, how)].concat())
}

fn of(tally: &Tally, how: &str) -> Vec<Figure> {
    let places =
        [("/metrics", &tally.metrics), ("/api/v1/tasks", &tally.api), ("/live", &tally.live)];
    let of_place = |(place, pairs): (&str, &shown::Pairs)| {
        let first = pairs.wrong.first().map_or_else(String::new, |wrong| format!(", {wrong}"));
        let told = format!(
            "of {} pairs, {} holders without a deadline{first}",
            pairs.right + pairs.wrong.len(),
            pairs.bare
        );
        [
            Figure::at_most(
                format!("{how}, {place}: wrong pairs"),
                pairs.wrong.len() as f64,
                0.0,
                "",
            )
            .with(&told),
            Figure::at_least(format!("{how}, {place}: pairs"), pairs.right as f64, PAIRS_MIN, ""),
        ]
    };
    places.into_iter().flat_map(of_place).collect()
}

/// The number of calls of a command, which must not be zero.
async fn calls(connection: &mut MultiplexedConnection, command: &str) -> anyhow::Result<String> {
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(connection).await?;
    let calls =
        numbers::calls(&stats, command).with_context(|| format!("{command} was never sent"))?;
    Ok(format!("{calls} × {command}"))
}

fn config(redis: SocketAddr, locks: usize) -> String {
    use std::fmt::Write as _;
    let mut text = format!(
        "metrics: full\nredis: {{main: {{url: \"redis://{redis}\", interval: 250ms, timeout: \
         3s}}}}\ntasks:\n"
    );
    for at in 0..locks {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "  - {{name: {}, lock: {{key: \"{}\", lease: 600s}}}}",
            hold::task(at),
            hold::key(at)
        );
    }
    text
}
